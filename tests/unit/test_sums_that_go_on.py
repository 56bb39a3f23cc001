"""Sums of a loop that begin with another product's result lie as the loop's products leave them, and change their layout once."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras
from tests.corpus.case import place
from tests.ptx_loops import loops_of

ROWS, COLUMNS, DEPTH, STEPS = 64, 64, 64, 5
PRODUCTS = {"sm_80": "mma.sync", "sm_90": "wgmma.mma_async", "sm_100": "tcgen05.mma", "sm_120": "mma.sync"}


def kernel() -> str:
    """A product of a state, faded by a factor of each row, and a loop that adds to it, as chunks of Mamba-2 do."""
    a = f"tensor_view<{ROWS}x4096xf16, strides=[4096,1]>"
    b = f"tensor_view<4096x{COLUMNS}xf16, strides=[{COLUMNS},1]>"
    s = f"tensor_view<{DEPTH}x{COLUMNS}xf16, strides=[{COLUMNS},1]>"
    c = f"tensor_view<{ROWS}x{COLUMNS}xf32, strides=[{COLUMNS},1]>"
    f = f"tensor_view<{ROWS}xf32, strides=[1]>"
    at, bt, st, ct = (
        f"partition_view<tile=({m}x{n}), {view}>"
        for m, n, view in ((ROWS, DEPTH, a), (DEPTH, COLUMNS, b), (DEPTH, COLUMNS, s), (ROWS, COLUMNS, c))
    )
    ft, sums = f"partition_view<tile=({ROWS}), {f}>", f"tile<{ROWS}x{COLUMNS}xf32>"
    left, right = f"tile<{ROWS}x{DEPTH}xf16>", f"tile<{DEPTH}x{COLUMNS}xf16>"
    return f"""
cuda_tile.module @m {{
  entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %s: tile<ptr<f16>>, %f: tile<ptr<f32>>, %y: tile<ptr<f32>>, %n: tile<i32>) {{
    %pa = assume div_by<16>, %a : tile<ptr<f16>>
    %pb = assume div_by<16>, %b : tile<ptr<f16>>
    %ps = assume div_by<16>, %s : tile<ptr<f16>>
    %av = make_tensor_view %pa, shape = [{ROWS}, 4096], strides = [4096, 1] : {a}
    %bv = make_tensor_view %pb, shape = [4096, {COLUMNS}], strides = [{COLUMNS}, 1] : {b}
    %sv = make_tensor_view %ps, shape = [{DEPTH}, {COLUMNS}], strides = [{COLUMNS}, 1] : {s}
    %fv = make_tensor_view %f, shape = [{ROWS}], strides = [1] : {f}
    %cv = make_tensor_view %y, shape = [{ROWS}, {COLUMNS}], strides = [{COLUMNS}, 1] : {c}
    %at = make_partition_view %av : {at}
    %bt = make_partition_view %bv : {bt}
    %st = make_partition_view %sv : {st}
    %ft = make_partition_view %fv : {ft}
    %ct = make_partition_view %cv : {ct}
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : {sums}
    %x0, %t0 = load_view_tko weak %at[%zero, %zero] : {at}, tile<i32> -> {left}, token
    %state, %t1 = load_view_tko weak %st[%zero, %zero] : {st}, tile<i32> -> {right}, token
    %from = mmaf %x0, %state, %none : {left}, {right}, {sums}
    %fade, %t2 = load_view_tko weak %ft[%zero] : {ft}, tile<i32> -> tile<{ROWS}xf32>, token
    %f1 = reshape %fade : tile<{ROWS}xf32> -> tile<{ROWS}x1xf32>
    %f2 = broadcast %f1 : tile<{ROWS}x1xf32> -> {sums}
    %begun = mulf %from, %f2 : {sums}
    %sum = for %k in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %begun) -> ({sums}) {{
      %x, %t3 = load_view_tko weak %at[%zero, %k] : {at}, tile<i32> -> {left}, token
      %w, %t4 = load_view_tko weak %bt[%k, %zero] : {bt}, tile<i32> -> {right}, token
      %wide = ftof %x : {left} -> tile<{ROWS}x{DEPTH}xf32>
      %twice = addf %wide, %wide : tile<{ROWS}x{DEPTH}xf32>
      %l = ftof %twice : tile<{ROWS}x{DEPTH}xf32> -> {left}
      %next = mmaf %l, %w, %acc : {left}, {right}, {sums}
      continue %next : {sums}
    }}
    %t5 = store_view_tko weak %sum, %ct[%zero, %zero] : {sums}, {ct}, tile<i32> -> token
    return
  }}
}}
"""


@pytest.mark.parametrize("target", ["sm_90", "sm_100"])
def test_the_loop_multiplies_by_the_targets_own_instruction(target: str) -> None:
    ptx = tileiras.compile(kernel(), gpu_name=target, emit="ptx").ptx
    assert [PRODUCTS[target] in loop for loop in loops_of(ptx) if "cp.async.cg" in loop] == [True]
    assert all("mma.sync" not in loop for loop in loops_of(ptx))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("target", PRODUCTS)
def test_they_are_right(target: str) -> None:
    rng = np.random.default_rng(3)
    a = rng.integers(-3, 4, (ROWS, 4096)).astype(np.float16)
    b = rng.integers(-3, 4, (4096, COLUMNS)).astype(np.float16)
    s = rng.integers(-3, 4, (DEPTH, COLUMNS)).astype(np.float16)
    f = rng.integers(-3, 4, ROWS).astype(np.float32)
    wide = [x.astype(np.float32) for x in (a, b, s)]
    begun = wide[0][:, :DEPTH] @ wide[2] * f[:, None]
    for n in (0, 1, STEPS):
        y = place(np.zeros((ROWS, COLUMNS), np.float32))
        args = [*map(place, (a, b, s, f)), y, np.int32(n)]
        tileiras.launch(kernel(), "k", 1, args, target="emulator", gpu_name=target, check=True, seed=n)
        np.testing.assert_array_equal(y, begun + 2 * (wide[0][:, : n * DEPTH] @ wide[1][: n * DEPTH]))
