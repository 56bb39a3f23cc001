"""Addresses of a tile's elements: what a thread computes for its rows."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("numpy")

import numpy as np

import tileiras
from tests.corpus.case import place

TILE = "tile<128x32xf16>"
FROM, TO = (f"tensor_view<128x32xf16, strides=[{rows},1]>" for rows in ("?", 32))
SOURCE, TARGET = (f"partition_view<tile=(128x32), {view}>" for view in (FROM, TO))
COPY = f"""
cuda_tile.module @m {{
  entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %stride: tile<i32>) {{
    %zero = constant <i32: 0> : tile<i32>
    %from = make_tensor_view %a, shape = [128, 32], strides = [%stride, 1] : tile<i32> -> {FROM}
    %to = make_tensor_view %b, shape = [128, 32], strides = [32, 1] : {TO}
    %p = make_partition_view %from : {SOURCE}
    %q = make_partition_view %to : {TARGET}
    %v, %t = load_view_tko weak %p[%zero, %zero] : {SOURCE}, tile<i32> -> {TILE}, token
    %u = store_view_tko weak %v, %q[%zero, %zero] token=%t : {TILE}, {TARGET}, tile<i32> -> token
    return
  }}
}}
"""


def test_rows_of_unknown_alignment_are_stepped_through() -> None:
    """A multiple of the stride for each of 32 rows would wait in front of a loop."""
    text = tileiras.compile(COPY, gpu_name="sm_80", emit="ptx").ptx
    assert text.count("ld.global.b16") == 32
    assert len(re.findall(r"(?:mul.lo.s64|shl.b64) ", text)) < 8


@pytest.mark.parametrize("stride", [32, 37, 1, 0])
def test_rows_lie_where_the_stride_says(stride: int) -> None:
    rows, columns = np.arange(128)[:, None], np.arange(32)
    data = place(np.random.default_rng(1).uniform(-2, 2, 128 * 64).astype(np.float16))
    out = place(np.zeros((128, 32), np.float16))
    args = [data, out, np.int32(stride)]
    tileiras.launch(COPY, "k", grid=1, args=args, target="emulator", gpu_name="sm_80", check=stride > 31)
    np.testing.assert_array_equal(out, data[rows * stride + columns])


# of %x, a multiple of 64: the first of 32 neighbours that are read
STARTS = {
    "a remainder": ("%s = remi %x, %c256 signed : tile<i32>", lambda x: x % 256),
    "a remainder of Python": (
        "%r = remi %x, %c256 signed : tile<i32>\n%n = cmpi less_than %r, %c0, signed : tile<i32> -> tile<i1>\n"
        "%m = addi %r, %c256 : tile<i32>\n%s = select %n, %m, %r : tile<i1>, tile<i32>",
        lambda x: x % 256,
    ),
    "a quotient": ("%s = divi %x, %c8 signed rounding<negative_inf> : tile<i32>", lambda x: x // 8),
    "a shift": ("%s = shri %x, %c3 signed : tile<i32>", lambda x: x >> 3),
    "bits": ("%o = ori %x, %c256 : tile<i32>\n%s = xori %o, %c8 : tile<i32>", lambda x: (x | 256) ^ 8),
}


@pytest.mark.parametrize("start", STARTS)
def test_neighbours_from_a_computed_multiple_are_read_at_once(start: str) -> None:
    lines, place_of = STARTS[start]
    constants = "\n".join(f"%c{n} = constant <i32: {n}> : tile<i32>" for n in (0, 3, 8, 64, 256))
    kernel = f"""
cuda_tile.module @m {{
  entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %number: tile<i32>) {{
    {constants}
    %x = muli %number, %c64 : tile<i32>
    {lines}
    %pa = assume div_by<16>, %a : tile<ptr<f16>>
    %from = offset %pa, %s : tile<ptr<f16>>, tile<i32> -> tile<ptr<f16>>
    %places = iota : tile<1024xi32>
    %p1 = reshape %from : tile<ptr<f16>> -> tile<1xptr<f16>>
    %p = broadcast %p1 : tile<1xptr<f16>> -> tile<1024xptr<f16>>
    %at = offset %p, %places : tile<1024xptr<f16>>, tile<1024xi32> -> tile<1024xptr<f16>>
    %v, %t = load_ptr_tko weak %at : tile<1024xptr<f16>> -> tile<1024xf16>, token
    %pb = assume div_by<16>, %b : tile<ptr<f16>>
    %q1 = reshape %pb : tile<ptr<f16>> -> tile<1xptr<f16>>
    %q = broadcast %q1 : tile<1xptr<f16>> -> tile<1024xptr<f16>>
    %to = offset %q, %places : tile<1024xptr<f16>>, tile<1024xi32> -> tile<1024xptr<f16>>
    %u = store_ptr_tko weak %to, %v token=%t : tile<1024xptr<f16>>, tile<1024xf16> -> token
  }}
}}
"""
    assert "ld.global.v4.b32" in tileiras.compile(kernel, gpu_name="sm_80", emit="ptx").ptx
    data = place(np.arange(2048).astype(np.float16))
    for number in (5, 6):
        out = place(np.zeros(1024, np.float16))
        args = [data, out, np.int32(number)]
        tileiras.launch(kernel, "k", grid=1, args=args, target="emulator", gpu_name="sm_80", check=True)
        first = place_of(64 * number)
        np.testing.assert_array_equal(out, data[first : first + 1024])
