"""Constants in dumps: one literal where all elements are equal, which is read as the same bytes; else the bytes."""

from __future__ import annotations

import random

import pytest

from tileiras.compiler.dialects.cuda_tile.dense import pack_elements
from tileiras.compiler.ir import floats
from tileiras.compiler.ir import types as T
from tileiras.compiler.ir.printer import Printer
from tileiras.compiler.source import load_text
from tileiras.diag import Sink

TYPES = (T.I1, T.I8, T.I16, T.I32, T.I64, T.F16, T.BF16, T.F32, T.F64, T.TF32, T.F8E4M3FN, T.F8E5M2)


def patterns(elem: T.Scalar) -> list[int]:
    """All of few bits; of many, some by chance, zeros, infinities, NaNs and the least numbers."""
    width = floats.width_of(elem) if elem.is_float else elem.bits
    if width <= 8:
        return list(range(1 << width))
    chance = random.Random(width)
    ends = [0, 1, 1 << width - 1, (1 << width) - 1, (1 << width - 1) - 1]
    if elem.is_float:
        infinity = floats.parse_decimal("1.0e999", elem)
        ends += [infinity, infinity + 1, infinity | 1 << width - 1, floats.parse_decimal("0.1", elem)]
    return ends + [chance.getrandbits(width) for _ in range(40)]


def spelled(dense: T.Dense) -> str:
    return Printer().attribute(dense, True)


@pytest.mark.parametrize("elem", TYPES, ids=str)
@pytest.mark.parametrize("count", [1, 4, 16])
def test_what_is_printed_is_read_as_the_same_bytes(elem: T.Scalar, count: int) -> None:
    type = T.TileType(elem, (count,) if count > 1 else ())
    made = [T.Dense(type, pack_elements(elem, [bits], count)) for bits in patterns(elem)]
    lines = [f'"cuda_tile.constant"() <{{value = {spelled(d)}}}> : () -> !cuda_tile.{type}' for d in made]
    assert not any('"0x' in spelled(d) for d in made), "no bytes where one literal does"
    text = "cuda_tile.module @m { entry @k() {\n" + "\n".join(lines) + "\nreturn\n} }"
    found = [op for op in load_text(text, Sink(), "k.mlir").walk() if op.spec.name == "constant"]
    assert [op.attr("value").data for op in found] == [d.data for d in made]


@pytest.mark.parametrize(
    ("dense", "want"),
    [
        (T.Dense(T.TileType(T.I32, ()), b"\x01\0\0\0"), "1"),
        (T.Dense(T.TileType(T.I32, (8,)), b"\xff\xff\xff\xff"), "-1"),
        (T.Dense(T.TileType(T.F32, (8,)), b"\0\0\0\x40"), "2.000000e+00"),
        (T.Dense(T.TileType(T.I1, (4,)), b"\x0f"), "true"),
        (T.Dense(T.TileType(T.I1, (4,)), b"\xff"), '"0xFF"'),
        (T.Dense(T.TileType(T.I1, (4,)), b"\x05"), '"0x05"'),
        (T.Dense(T.TileType(T.I16, (2,)), b"\x01\0\x02\0"), '"0x01000200"'),
    ],
)
def test_spellings(dense: T.Dense, want: str) -> None:
    assert spelled(dense) == f"dense<{want}> : !cuda_tile.{dense.type}"
