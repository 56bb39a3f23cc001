"""Tiles whose numbers have 64 bits: what is left of an extent of 32 bits is found in 32 where a loop counts them, and none
beyond it is inside."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras

VIEW = "tensor_view<?xf32, strides=[1]>"
SOURCE = f"""
cuda_tile.module @m {{
  entry @k(%x: tile<ptr<f32>>, %y: tile<ptr<f32>>, %n: tile<i32>, %first: tile<i64>) {{
    %size = assume bounded<0, ?>, %n : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %xv = make_tensor_view %x, shape = [%size], strides = [1] : tile<i32> -> {VIEW}
    %yv = make_tensor_view %y, shape = [%size], strides = [1] : tile<i32> -> {VIEW}
    %xt = make_partition_view %xv : partition_view<tile=(64), padding_value = nan, {VIEW}>
    %yt = make_partition_view %yv : partition_view<tile=(64), {VIEW}>
    %t = make_token : token
    %one = constant <f32: 1.0> : tile<64xf32>
    %last = constant <i32: 2> : tile<i32>
    %next = constant <i32: 1> : tile<i32>
    for %j in (%zero to %last, step %next) : tile<i32> {{
    %k = exti %j unsigned : tile<i32> -> tile<i64>
    %i = addi %first, %k : tile<i64>
    %v, %t1 = load_view_tko weak %xt[%i] token = %t : partition_view<tile=(64), padding_value = nan, {VIEW}>, tile<i64> -> tile<64xf32>, token
    %w = addf %v, %one : tile<64xf32>
    %t2 = store_view_tko weak %w, %yt[%i] token = %t1 : tile<64xf32>, partition_view<tile=(64), {VIEW}>, tile<i64> -> token
    }}
    return
  }}
}}
"""  # noqa: E501


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_100"])
def test_what_is_left_is_no_sum_of_64_bits(gpu_name: str) -> None:
    ptx = tileiras.compile(SOURCE, gpu_name=gpu_name, emit="ptx").ptx
    assert "setp.le.u64" in ptx
    assert "min.s64" not in ptx and "max.s64" not in ptx


@pytest.mark.parametrize(
    "number", [0, 1, 2, 3, 4, 1 << 32, (1 << 32) + 1, 1 << 58, (1 << 58) + 1, -1, -(1 << 63)]
)
@pytest.mark.parametrize("size", [160, 192, 0])
def test_only_tiles_within_the_extent_change(size: int, number: int) -> None:
    x, y = np.arange(192, dtype=np.float32), np.full(192, -7, np.float32)
    args = [x, y, np.int32(size), np.int64(number)]
    tileiras.launch(SOURCE, "k", 1, args, target="emulator", gpu_name="sm_90", check=True)
    want = np.full(192, -7, np.float32)
    for tile in {number % 2**64, (number + 1) % 2**64} & {0, 1, 2}:
        inside = slice(64 * tile, max(64 * tile, min(64 * tile + 64, size)))
        want[inside] = x[inside] + 1
    assert (y == want).all()
