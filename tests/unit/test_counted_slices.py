"""Loops over slices count rows and columns of a slice themselves: nobody asks other threads for what few additions make."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras
from tests.corpus.case import place

ROWS, COLUMNS, STEPS = 32, 64, 160
TILE = f"tile<{ROWS}x{COLUMNS}xf32>"
WHOLE = f"tile<{ROWS}x{COLUMNS}xi32>"
POINTERS = f"tile<{ROWS}x{COLUMNS}xptr<f32>>"


def kernel() -> str:
    """Elements of rows below %n, each changed by so many steps that the chain runs in slices."""
    steps = "\n".join(
        f"    %v{n + 1} = fma %v{n}, %half, %one rounding<nearest_even> : {TILE}" for n in range(STEPS)
    )
    return f"""
cuda_tile.module @m {{
  entry @k(%x: tile<ptr<f32>>, %y: tile<ptr<f32>>, %n: tile<i32>, %first: tile<i32>) {{
    %down = iota : tile<{ROWS}xi32>
    %three = constant <i32: 3> : tile<{ROWS}x1xi32>
    %d2 = reshape %down : tile<{ROWS}xi32> -> tile<{ROWS}x1xi32>
    %d3 = muli %d2, %three : tile<{ROWS}x1xi32>
    %f1 = reshape %first : tile<i32> -> tile<1x1xi32>
    %f2 = broadcast %f1 : tile<1x1xi32> -> tile<{ROWS}x1xi32>
    %r = addi %d3, %f2 : tile<{ROWS}x1xi32>
    %rows = broadcast %r : tile<{ROWS}x1xi32> -> {WHOLE}
    %across = iota : tile<{COLUMNS}xi32>
    %a2 = reshape %across : tile<{COLUMNS}xi32> -> tile<1x{COLUMNS}xi32>
    %columns = broadcast %a2 : tile<1x{COLUMNS}xi32> -> {WHOLE}
    %width = constant <i32: {COLUMNS}> : {WHOLE}
    %p = muli %rows, %width : {WHOLE}
    %at = addi %p, %columns : {WHOLE}
    %n1 = reshape %n : tile<i32> -> tile<1x1xi32>
    %n2 = broadcast %n1 : tile<1x1xi32> -> {WHOLE}
    %there = cmpi less_than %rows, %n2, signed : {WHOLE} -> tile<{ROWS}x{COLUMNS}xi1>
    %xs = reshape %x : tile<ptr<f32>> -> tile<1x1xptr<f32>>
    %xb = broadcast %xs : tile<1x1xptr<f32>> -> {POINTERS}
    %xp = offset %xb, %at : {POINTERS}, {WHOLE} -> {POINTERS}
    %ys = reshape %y : tile<ptr<f32>> -> tile<1x1xptr<f32>>
    %yb = broadcast %ys : tile<1x1xptr<f32>> -> {POINTERS}
    %yp = offset %yb, %at : {POINTERS}, {WHOLE} -> {POINTERS}
    %none = constant <f32: 0.0> : {TILE}
    %half = constant <f32: 0.5> : {TILE}
    %one = constant <f32: 1.0> : {TILE}
    %v0, %t1 = load_ptr_tko weak %xp, %there, %none : {POINTERS}, tile<{ROWS}x{COLUMNS}xi1>, {TILE} -> {TILE}, token
{steps}
    %t2 = store_ptr_tko weak %yp, %v{STEPS}, %there : {POINTERS}, {TILE}, tile<{ROWS}x{COLUMNS}xi1> -> token
    return
  }}
}}
"""


@pytest.mark.parametrize("target", ["sm_80", "sm_100"])
def test_numbers_of_rows_cross_no_shared_memory(target: str) -> None:
    ptx = tileiras.compile(kernel(), gpu_name=target, emit="ptx").ptx
    assert "nounroll" in ptx
    assert "bar.sync" not in ptx and "ld.shared" not in ptx and "shfl" not in ptx


@pytest.mark.sampled(3)
@pytest.mark.parametrize("first", [0, 5])
@pytest.mark.parametrize("n", [0, 50, 101])
def test_each_row_is_its_own(n: int, first: int) -> None:
    x = np.random.default_rng(n).standard_normal((101, COLUMNS)).astype(np.float32)
    y = place(np.full_like(x, -7))
    args = [place(x), y, np.int32(n), np.int32(first)]
    tileiras.launch(kernel(), "k", 1, args, target="emulator", gpu_name="sm_90", check=True)
    want = np.full_like(x, -7)
    rows = [first + 3 * i for i in range(ROWS) if first + 3 * i < n]
    value = x[rows].astype(np.float64)
    for _ in range(STEPS):
        value = value * 0.5 + 1
    want[rows] = value
    np.testing.assert_allclose(y, want, rtol=1e-6)
