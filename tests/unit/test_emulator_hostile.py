"""PTX that makes no sense is refused by the emulator with the line, or runs: no other exception, and never without end."""

import random
import re
import signal
import warnings

import numpy as np
import pytest
from emulator_clusters import CLUSTERS
from emulator_kernels import KERNELS
from emulator_kit import HEAD, entry
from emulator_rings import RINGS

from tileiras.run.emulator import EmulatorError, launch

WORD = re.compile(r"[%$\w:]+|\.[\w:]+|[^\s\w]")
STRANGE = (
    "0 -1 4294967295 18446744073709551616 99999999999999999999 0x 0f 1.5 { } [ ] ( ) ; , %r999 %nosuch @%p @! \" /* // \0 é . .. "
    ":: - _ 0d7FF0000000000000 %tid.q nosuch.u32 ' \\ <5000000> <-1> .b8[999999999999] %p< 1e999"
).split(" ")  # fmt: skip
CASES = [build("") for build in (*KERNELS, *RINGS, *CLUSTERS)]
MODIFIERS = sorted({word for case in CASES for word in re.findall(r"\.[\w:]+", case.text)})
WORDS = sorted({word for case in CASES for word in re.findall(r"%?\w+", case.text)})


def mutated(text, rng):
    """The text with one to four instructions moved, doubled or cut, or words of them changed."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        parts = text.split(";")
        i, kind = rng.randrange(len(parts)), rng.randrange(10)
        places = [m.span() for m in WORD.finditer(parts[i])]
        if kind == 0:
            parts.pop(i)
        elif kind == 1:
            parts.insert(i, parts[rng.randrange(len(parts))])
        elif kind == 2:
            j = rng.randrange(len(parts))
            parts[i], parts[j] = parts[j], parts[i]
        elif kind == 3 and rng.random() < 0.5:
            text = text[: rng.randrange(len(text) + 1)]
            continue
        elif places:
            start, end = rng.choice(places)
            new = {4: "", 5: rng.choice(WORDS), 6: rng.choice(MODIFIERS)}.get(kind, rng.choice(STRANGE))
            parts[i] = parts[i][: end if kind == 7 else start] + new + parts[i][end:]
        text = ";".join(parts)
    return text


def too_long(*_):
    raise TimeoutError("the emulator goes on without end")


def refused_or_run(seed):
    rng = random.Random(seed)
    case = rng.choice(CASES)
    text = mutated(case.text, rng)
    more = {"check": True, "seed": seed} if rng.random() < 0.5 else {}
    params = [p.copy() if isinstance(p, np.ndarray) else p for p in case.params]
    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(120)
    try:
        launch(
            text,
            "k",
            case.grid,
            case.threads,
            params,
            memory=case.memory,
            cluster=case.cluster,
            max_steps=2000,
            **more,
        )
    except EmulatorError as error:
        named = r"line \d+|no entry named|takes \d+ parameters|parameter \w+|deadlock|never end|gave up|requires|shared memory"
        assert re.search(named, str(error)), (seed, str(error))
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("first", range(0, 120, 30))
def test_mutated_ptx(first):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(first, first + 30):
            refused_or_run(seed)


@pytest.mark.full
def test_much_mutated_ptx():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(1000, 4000):
            refused_or_run(seed)


BODIES = [
    "bra;", "bra 5;", "bar;", "bar.sync;", "barrier.cta;", "bar.red.popc.u32 %x, 0;", "brx.idx %x;", "call;", "call (%x);",
    "tcgen05;", "wgmma;", "setmaxnreg.inc.sync.aligned.u32 %x;", "@%x ret;", "mov.u32 %x;", "mov.u32;", "add.u32 %x, %x;",
    "mma.sync;",
    "ld.u32 %x, [%x", "mov.u32 %x, %tid.q;", "mov.u32 %x, (1;", "mov.u32 %x, 1 / 0;", ".reg .b32 %y<9999999>;",
    ".reg .b32 %y<-1>;", ".reg .b32 %y<0f00000000>;", ".shared .b8 s[9999999]; mov.u32 %x, s;", ".local .b8 s[1.5];",
    ".shared .align .b8 s[4];", "mov.u32 %x, s[1e9];", "nosuch.u32 %x;", "shfl.sync.idx.b32 %x, %x, 0;", "vote.sync %x;",
]  # fmt: skip


@pytest.mark.parametrize("body", BODIES)
def test_instructions_that_make_no_sense(body):
    with pytest.raises(EmulatorError, match=r"line \d+|shared memory"):
        launch(entry(f".reg .b32 %x; {body} ret;"), "k", 1, 32, [])


@pytest.mark.parametrize("text", [
    ".version x", ".version", ".address_size a", ".target", ".global .b32 x = ", ".global .align y .b32 x;", ".reg .b32 %r<2>;",
    ".entry k(", ".visible .entry k() { .pragma", ".section .debug", ".global .b8 x[99999999999999];", "(" * 5000,
    ".file 1 \"x\"",
])  # fmt: skip
def test_modules_that_make_no_sense(text):
    with pytest.raises(EmulatorError, match=r"line \d+|no entry"):
        launch(HEAD + text, "k", 1, 1, [])
