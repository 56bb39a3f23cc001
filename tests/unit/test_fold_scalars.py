"""TileAAFoldScalars: chains of scalars that are known give the reference's numbers, and are gone."""

from __future__ import annotations

import random
from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras
from tests.corpus.case import place
from tileiras.tools import opt

WIDTHS = ("i8", "i16", "i32", "i64")
COMPARISONS = (
    "equal",
    "not_equal",
    "less_than",
    "less_than_or_equal",
    "greater_than",
    "greater_than_or_equal",
)
ODD = (0, 1, -1, 2, 3, 7, 16, 63, -2, -8, 127, -128)


def program(seed: int, count: int = 60) -> tuple[str, int]:
    """(text, results): scalars from constants and one argument that is 5; all of 64 bits are stored."""
    rng = random.Random(seed)
    lines: list[str] = []
    live: dict[str, list[str]] = {w: [] for w in ("i1", *WIDTHS)}

    def put(text: str, width: str) -> str:
        name = f"%v{len(lines)}"
        lines.append(f"{name} = {text}")
        live[width].append(name)
        return name

    for w in WIDTHS:
        for value in rng.sample(ODD, 4):
            put(f"constant <{w}: {value}> : tile<{w}>", w)
    live["i32"].append("%n")
    put("constant <i1: true> : tile<i1>", "i1")
    for _ in range(count):
        w = rng.choice(WIDTHS)
        t, a, b = f"tile<{w}>", rng.choice(live[w]), rng.choice(live[w])
        sign = rng.choice(("signed", "unsigned"))
        kind = rng.randrange(8)
        if kind < 2:
            put(f"{rng.choice(('addi', 'subi', 'muli'))} {a}, {b} : {t}", w)
        elif kind == 2:
            put(f"{rng.choice(('andi', 'ori', 'xori'))} {a}, {b} : {t}", w)
        elif kind == 3:
            put(f"{rng.choice(('maxi', 'mini'))} {a}, {b} {sign} : {t}", w)
        elif kind == 4:
            put(f"cmpi {rng.choice(COMPARISONS)} {a}, {b}, {sign} : {t} -> tile<i1>", "i1")
        elif kind == 5:
            put(f"select {rng.choice(live['i1'])}, {a}, {b} : tile<i1>, {t}", w)
        elif kind == 6:
            small = put(f"constant <{w}: {rng.randrange(7)}> : {t}", w)
            amount = rng.choice((small, small, put(f"constant <{w}: 1> : {t}", w)))
            put(f"shli {a}, {amount} : {t}" if rng.random() < 0.5 else f"shri {a}, {amount} {sign} : {t}", w)
        else:
            other = rng.choice(("i1", *WIDTHS))
            x = rng.choice(live[other])
            at, to = (("i1", *WIDTHS).index(v) for v in (other, w))
            if at < to:
                put(f"exti {x} {sign} : tile<{other}> -> {t}", w)
            elif at > to:
                put(f"trunci {x} : tile<{other}> -> {t}", w)
    results = [
        put(f"exti {v} signed : tile<{w}> -> tile<i64>", "i64") for w in WIDTHS[:3] for v in live[w][4:]
    ]
    results += live["i64"][4 : -len(results)]
    for k, value in enumerate(results):
        put(f"constant <i64: {k}> : tile<i64>", "i64")
        lines.append(f"%p{k} = offset %o, %v{len(lines) - 1} : tile<ptr<i64>>, tile<i64> -> tile<ptr<i64>>")
        lines.append(f"%t{k} = store_ptr_tko weak %p{k}, {value} : tile<ptr<i64>>, tile<i64> -> token")
    body = "\n".join(lines)
    text = f"cuda_tile.module @m {{ entry @k(%o: tile<ptr<i64>>, %n: tile<i32>) {{\n{body}\nreturn }} }}"
    return text, len(results)


@pytest.mark.parametrize("seed", range(10))
def test_known_scalars_are_the_references(seed: int) -> None:
    text, count = program(seed)
    found: list[Any] = []
    for target in ("reference", "emulator"):
        out = place(np.zeros(count, np.int64))
        tileiras.launch(text, "k", grid=(1, 1, 1), args=[out, np.int32(5)], target=target, gpu_name="sm_80")
        found.append(np.array(out))
    assert np.array_equal(*found), [(k, int(a), int(b)) for k, (a, b) in enumerate(zip(*found)) if a != b]


def folded(text: str, capsys: pytest.CaptureFixture[str], tmp_path: Any) -> str:
    source = tmp_path / "k.tileir"
    source.write_text(text)
    assert opt.main(["--pass", "ConvertCudaTileToTileAA,TileAAFoldScalars", str(source)]) == 0
    return capsys.readouterr().out


def test_every_rule_folds(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    """Without the argument nothing is left to compute."""
    text, _ = program(3)
    text = text.replace("%n: tile<i32>", "%unused: tile<i32>").replace(
        "\n", "\n%n = constant <i32: 5> : tile<i32>\n", 1
    )
    from tileiras.compiler.passes.tileaa.fold_scalars import RULES

    out = folded(text, capsys, tmp_path)
    assert not [line for line in out.splitlines() if any(f"nv_tileaa.{name} " in line for name in RULES)]


@pytest.mark.parametrize(
    "op", ["divi {0}, %zero signed", "remi {0}, %zero signed", "shli {0}, %many", "shri {0}, %many signed"]
)
def test_what_is_undefined_is_left(op: str, capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    text = (
        "cuda_tile.module @m { entry @k(%o: tile<ptr<i32>>) { %zero = constant <i32: 0> : tile<i32>\n"
        "%many = constant <i32: 40> : tile<i32>\n%x = constant <i32: 9> : tile<i32>\n"
        f"%c = cmpi equal %x, %x, signed : tile<i32> -> tile<i1>\n%r = {op.format('%x')} : tile<i32>\n"
        "%s = store_ptr_tko weak %o, %r : tile<ptr<i32>>, tile<i32> -> token\nreturn } }"
    )
    assert f"nv_tileaa.{op.split()[0]} " in folded(text, capsys, tmp_path)
