"""Rows that are reduced stay in a warp where the tile has rows enough, and what is broadcast over rows is loaded there."""

from __future__ import annotations

import numpy as np
import pytest

import tileiras
from tileiras.compiler.layout.linear import LinearLayout, blocked
from tileiras.compiler.lower.tileaa_to_tileas.rows import within_warps

VIEW = "partition_view<tile=({shape}), tensor_view<{full}xf32, strides=[{strides}]>>"
ROW_SUM = """cuda_tile.module @m {{ entry @k(%x: tile<ptr<f32>>, %w: tile<ptr<f32>>, %o: tile<ptr<f32>>) {{
  %xa = assume div_by<16>, %x : tile<ptr<f32>>
  %wa = assume div_by<16>, %w : tile<ptr<f32>>
  %xv = make_tensor_view %xa, shape = [{rows}, {cols}], strides = [{cols}, 1] : tensor_view<{rows}x{cols}xf32, strides=[{cols},1]>
  %wv = make_tensor_view %wa, shape = [1, {cols}], strides = [{cols}, 1] : tensor_view<1x{cols}xf32, strides=[{cols},1]>
  %ov = make_tensor_view %o, shape = [{rows}], strides = [1] : tensor_view<{rows}xf32, strides=[1]>
  %xp = make_partition_view %xv : {xt}
  %wp = make_partition_view %wv : {wt}
  %op = make_partition_view %ov : {ot}
  %i = constant <i32: 0> : tile<i32>
  %t = make_token : token
  %v, %r = load_view_tko weak %xp[%i, %i] token = %t : {xt}, tile<i32> -> tile<{rows}x{cols}xf32>, token
  %u, %q = load_view_tko weak %wp[%i, %i] token = %t : {wt}, tile<i32> -> tile<1x{cols}xf32>, token
  %b = broadcast %u : tile<1x{cols}xf32> -> tile<{rows}x{cols}xf32>
  %p = mulf %v, %b rounding<nearest_even> : tile<{rows}x{cols}xf32>
  %s = reduce %p dim=1 identities=[0.0 : f32] : tile<{rows}x{cols}xf32> -> tile<{rows}xf32>
  (%one: tile<f32>, %two: tile<f32>) {{
    %sum = addf %one, %two rounding<nearest_even> : tile<f32>
    yield %sum : tile<f32>
  }}
  %d = store_view_tko weak %s, %op[%i] token = %t : tile<{rows}xf32>, {ot}, tile<i32> -> token
  return }} }}"""


@pytest.mark.parametrize(("rows", "cols"), [(16, 512), (4, 1024), (32, 64), (16, 32)])
def test_a_row_sum_needs_no_shared_memory(rows: int, cols: int) -> None:
    text = ROW_SUM.format(
        rows=rows, cols=cols, xt=VIEW.format(shape=f"{rows}x{cols}", full=f"{rows}x{cols}", strides=f"{cols},1"),
        wt=VIEW.format(shape=f"1x{cols}", full=f"1x{cols}", strides=f"{cols},1"),
        ot=VIEW.format(shape=rows, full=rows, strides="1"),
    )  # fmt: skip
    ptx = tileiras.compile(text, "sm_80", emit="ptx").ptx
    assert "bar.sync" not in ptx and ".shared" not in ptx and "shfl.sync" in ptx
    assert ptx.count("ld.global.v4.b32") >= 2 and "ld.global.b32" not in ptx
    rng = np.random.default_rng(1)
    x = rng.integers(-8, 8, (rows, cols)).astype(np.float32)
    w = rng.integers(-8, 8, cols).astype(np.float32)
    out = np.zeros(rows, np.float32)
    tileiras.launch(text, "k", grid=(1, 1, 1), args=[x, w, out], target="emulator", gpu_name="sm_80")
    assert (out == x @ w).all()


def test_warps_leave_the_reduced_dimension() -> None:
    """[16, 512] of bf16, vectors of 8: bits 0 to 8 are a row."""
    layout = blocked((16, 512), (1, 0), 3, 2)
    assert layout.warp == (256, 512) and layout.reg == (1, 2, 4, 1024, 2048, 4096)
    moved = within_warps(layout, 511, 3)
    assert moved.warp == (4096, 512) and moved.reg == (1, 2, 4, 1024, 2048, 256) and moved.lane == layout.lane
    flat = blocked((1, 4096), (1, 0), 3, 2)
    assert within_warps(flat, 4095, 3) is flat
    column = LinearLayout(6, (32, 1), (2, 4, 8, 0, 0), (16,))
    assert within_warps(column, 16, 2) is column  # the vector's registers stay
