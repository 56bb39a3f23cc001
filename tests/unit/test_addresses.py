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
