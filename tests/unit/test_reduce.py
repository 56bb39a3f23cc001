"""`tileiras-reduce`: planted faults shrink to a few ops, in every kind of kernel; runs, limits, interrupts, exit codes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.fixtures import BYTECODE
from tileiras import driver
from tileiras.compiler.bytecode.reader import read
from tileiras.compiler.ir.core import Op
from tileiras.compiler.ir.verify import verify
from tileiras.compiler.source import load, to_bytecode
from tileiras.diag import CompileError, Sink
from tileiras.options import Options
from tileiras.tools import reduce

ROOT = Path(__file__).resolve().parents[2]
TEXT = """cuda_tile.module @kernels {
  entry @k(%p: tile<ptr<f32>>, %n: tile<i32>) {
    %two = constant <i32: 2> : tile<16xi32>
    %i = iota : tile<16xi32>
    %s = muli %i, %two : tile<16xi32>
    %f = itof %s signed : tile<16xi32> -> tile<16xf32>
    %g = negf %f : tile<16xf32>
    %h = absf %g : tile<16xf32>
    %t = print_tko "%f", %h : tile<16xf32> -> token
    return
  }
}
"""


class Planted:
    """Answers in this process what a command would."""

    jobs = 1

    def __init__(self, ask: Callable[[bytes], bool]) -> None:
        self.ask = ask
        self.runs = 0

    def first(self, candidates: Sequence[bytes]) -> int | None:
        self.runs += 1
        return 0 if self.ask(candidates[0]) else None


def shrunk(kernel: str, ask: Callable[[bytes], bool], tmp_path: Path) -> Op:
    """The reduced module; it is valid, interesting, and what lies in the files."""
    start = (BYTECODE / f"{kernel}.tilebc").read_bytes() if "{" not in kernel else written(kernel)
    assert ask(start)
    out = tmp_path / "out.tilebc"
    search = reduce.Reducer(start, Planted(ask), [str(out), str(tmp_path / "out.tileir")], True)
    search.write()
    search.reduce()
    assert ask(search.best) and out.read_bytes() == search.best
    module = read(search.best, Sink(), file="")
    assert verify(module, Sink())
    assert inner(load((tmp_path / "out.tileir").read_text(), Sink())) == inner(module)
    return module


def written(text: str) -> bytes:
    return to_bytecode(load(text, Sink()))


def inner(module: Op) -> list[str]:
    """The ops below the entries, without constants and terminators."""
    fillers = ("module", "entry", "constant", "make_token", "return", "yield", "continue")
    return sorted(op.spec.name for op in module.walk() if op.spec.name not in fillers)


def has(*names: str) -> Callable[[bytes], bool]:
    """A compiler that fails on these ops, each inside the one before it when the name says so: `for/mmaf`."""

    def ask(data: bytes) -> bool:
        ops = list(read(data, Sink(), file="").walk())
        for name in names:
            outer, _, within = name.rpartition("/")
            found = [op for op in ops if op.spec.name == within]
            if not any(not outer or (op.parent is not None and op.parent.spec.name == outer) for op in found):
                return False
        return True

    return ask


@pytest.mark.parametrize(
    ("kernel", "names", "most"),
    [
        ("cpp_matmul_f16", ("for/mmaf",), 2),
        pytest.param("staged_attention_causal_bf16", ("exp", "mmaf"), 3, marks=pytest.mark.full),
        pytest.param("gauss_jordan", ("select", "divf"), 3, marks=pytest.mark.full),
        pytest.param("bitonic_sort_i32", ("xori",), 2, marks=pytest.mark.full),
        ("cpp_softmax", ("reduce/maxf",), 3),
    ],
)  # fmt: skip
def test_a_planted_fault_shrinks_to_a_few_ops(
    kernel: str, names: tuple[str, ...], most: int, tmp_path: Path
) -> None:
    left = inner(shrunk(kernel, has(*names), tmp_path))
    assert len(left) <= most, left


def ptx_of(data: bytes) -> str:
    options = Options()
    options.gpu_name, options.emit = "sm_90", "ptx"
    try:
        return driver.compile_source(data, options, Sink()).ptx
    except CompileError:
        return ""


def test_a_text_in_the_ptx(tmp_path: Path) -> None:
    module = shrunk(TEXT, lambda data: "neg.f32" in ptx_of(data), tmp_path)
    assert "negf" in inner(module) and len(inner(module)) <= 4


def test_a_miscompiled_op(tmp_path: Path) -> None:
    """A compiler that takes itof for unsigned: what it makes differs as long as the op and its use are there."""

    def differs(data: bytes) -> bool:
        module = read(data, Sink(), file="")
        for op in module.walk():
            if op.spec.name == "itof":
                op.attrs["signedness"] = "unsigned"
        return ptx_of(data) != ptx_of(to_bytecode(module))

    left = inner(shrunk(TEXT, differs, tmp_path))
    assert "itof" in left and len(left) <= 4, left


def test_shapes_parameters_and_constants_shrink(tmp_path: Path) -> None:
    module = shrunk(TEXT, has("absf"), tmp_path)
    text = (tmp_path / "out.tileir").read_text()
    assert "16x" not in text and "@k()" in text and "negf" not in text
    assert len(list(module.walk())) <= 6


# The command


def command(*words: object, **more: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), **more}
    line = [sys.executable, "-m", "tileiras.tools.reduce", *map(str, words)]
    return subprocess.run(line, capture_output=True, text=True, timeout=300, env=env)


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    path = tmp_path / "k.tileir"
    path.write_text(TEXT)
    return path


# Needs no compiler: the text that `print` shows is in the bytecode as it is.
HAS_PRINT = ("grep", "-q", "%f", "{}")


def test_the_command_writes_bytecode_and_text(kernel: Path) -> None:
    done = command(kernel, "--", *HAS_PRINT)
    assert done.returncode == 0, done.stderr
    out = kernel.with_name("k.reduced.tilebc")
    module = read(out.read_bytes(), Sink(), file="")
    assert "print_tko" in inner(module) and len(inner(module)) <= 2
    assert written(kernel.with_name("k.reduced.tileir").read_text()) == out.read_bytes()
    other = out.with_name("p.tilebc")
    parallel = command(kernel, "--jobs=3", "-o", other, "--", *HAS_PRINT)
    assert parallel.returncode == 0 and other.read_bytes() == out.read_bytes()


def test_what_is_not_interesting_writes_nothing(kernel: Path, tmp_path: Path) -> None:
    done = command(kernel, "--", "false", "{}")
    assert done.returncode == 1 and "is not interesting: the command ended with exit code 1" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["k.tileir"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["K"], 1, "no command"),
        (["--", "true", "{}"], 1, "no input file"),
        (["K", "--", "true"], 1, "does not have {}"),
        (["K", "--jobs", "0", "--", "true", "{}"], 1, "'--jobs' takes a positive number, not '0'"),
        (["K", "--timeout=x", "--", "true", "{}"], 1, "'--timeout' takes a positive number, not 'x'"),
        (["K", "--fast", "--", "true", "{}"], 1, "unknown option '--fast'"),
        (["K", "--", "/no/such/command", "{}"], 1, "cannot run '/no/such/command': No such file or directory"),
        (["K", "-o", "K", "--", "true", "{}"], 1, "would be overwritten"),
        (["K", "-o", "/no/folder/x", "--", "true", "{}"], 2, "/no/folder/x"),
        (["/no/file", "--", "true", "{}"], 1, "unable to read input file '/no/file'"),
        (["BAD", "--", "true", "{}"], 5, "unknown operation"),
        (["CUT", "--", "true", "{}"], 3, "error"),
    ],
)  # fmt: skip
def test_bad_lines_have_their_codes(kernel: Path, words: list[str], code: int, said: str) -> None:
    bad, cut = kernel.with_name("bad.tileir"), kernel.with_name("cut.tilebc")
    bad.write_text("cuda_tile.module @m { cuda_tile.nonsense }\n")
    cut.write_bytes(written(TEXT)[:-5])
    names = {"K": str(kernel), "BAD": str(bad), "CUT": str(cut)}
    done = command(*(names.get(word, word) for word in words))
    assert done.returncode == code and said in done.stderr, done.stderr
    assert not list(kernel.parent.glob("*reduced*"))


def test_a_run_that_takes_too_long_is_not_interesting(kernel: Path) -> None:
    seen = kernel.with_name("seen")
    script = f"if test -e '{seen}'; then sleep 60; else touch '{seen}'; fi; : {{}}"
    done = command(kernel, "--timeout=0.1", "--jobs=8", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert kernel.with_name("k.reduced.tilebc").read_bytes() == written(TEXT)


def test_an_interrupt_keeps_the_best_so_far(kernel: Path, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    # The input and one candidate are interesting, then one hangs.
    limit = f"test $(wc -l <'{tmp_path}/count') -le 2 || exec sleep 300"
    script = f"grep -q %f {{}} || exit 1; echo >>'{tmp_path}/count'; {limit}"
    line = [sys.executable, "-m", "tileiras.tools.reduce", str(kernel), "--", "sh", "-c", script]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(scratch)}
    with subprocess.Popen(line, env=env, stderr=subprocess.PIPE, text=True) as process:
        count = tmp_path / "count"
        while not count.exists() or count.read_text().count("\n") < 3:
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1]
    assert process.returncode == -signal.SIGINT
    assert "interrupted; the smallest so far:" in said
    kept = kernel.with_name("k.reduced.tilebc").read_bytes()
    assert len(kept) < len(written(TEXT)) and verify(read(kept, Sink(), file=""), Sink())
    assert not list(scratch.iterdir())


def test_an_interrupt_while_the_best_is_written_keeps_it(
    kernel: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A signal between the renames of the two files of a better candidate: both are there, and it is the better one."""
    rename, renames = os.replace, []

    def interrupted(source: str, target: str) -> None:
        rename(source, target)
        renames.append(target)
        if len(renames) == 3:  # the input's two files, then the first of a candidate
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(os, "replace", interrupted)
    monkeypatch.setattr("tileiras.signals.die_of", lambda number: 128 + number)
    assert reduce.main([str(kernel), "--", "grep", "-q", "%f", "{}"]) == 128 + signal.SIGINT
    assert len(renames) == 4
    kept = kernel.with_name("k.reduced.tilebc").read_bytes()
    assert len(kept) < len(written(TEXT)) and kernel.with_name("k.reduced.tileir").exists()
    assert "interrupted; the smallest so far:" in capsys.readouterr().err
