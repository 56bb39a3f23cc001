"""Rows that are summed beside a product that they enter from the left, as a norm in front of a layer does: read once."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras
from tests.ptx_loops import loops_of

M, N, K, STEPS = 128, 64, 64, 4
A, G, B, C, R = (
    "tensor_view<100x256xf16, strides=[256,1]>",
    "tensor_view<256xf16, strides=[1]>",
    "tensor_view<256x64xf16, strides=[64,1]>",
    "tensor_view<100x64xf32, strides=[64,1]>",
    "tensor_view<100xf32, strides=[1]>",
)
PA, PG, PB, PC, PR = (
    f"partition_view<tile=({tile}), padding_value = zero, {view}>"
    for tile, view in (("128x64", A), ("64", G), ("64x64", B), ("128x64", C), ("128", R))
)
SUMS, ROWS, X = "tile<128x64xf32>", "tile<128xf32>", "tile<128x64xf16>"
TEXT = f"""cuda_tile.module @m {{
entry @k(%a: tile<ptr<f16>>, %g: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %r: tile<ptr<f32>>) {{
%zero = constant <i32: 0> : tile<i32>
%one = constant <i32: 1> : tile<i32>
%steps = constant <i32: {STEPS}> : tile<i32>
%pa = assume div_by<16>, %a : tile<ptr<f16>>
%pg = assume div_by<16>, %g : tile<ptr<f16>>
%pb = assume div_by<16>, %b : tile<ptr<f16>>
%av = make_tensor_view %pa, shape = [100, 256], strides = [256, 1] : {A}
%gv = make_tensor_view %pg, shape = [256], strides = [1] : {G}
%bv = make_tensor_view %pb, shape = [256, 64], strides = [64, 1] : {B}
%cv = make_tensor_view %c, shape = [100, 64], strides = [64, 1] : {C}
%rv = make_tensor_view %r, shape = [100], strides = [1] : {R}
%ap = make_partition_view %av : {PA}
%gp = make_partition_view %gv : {PG}
%bp = make_partition_view %bv : {PB}
%cp = make_partition_view %cv : {PC}
%rp = make_partition_view %rv : {PR}
%none = constant <f32: 0.0> : {SUMS}
%nothing = constant <f32: 0.0> : {ROWS}
%sum, %squares = for %i in (%zero to %steps, step %one) : tile<i32>
  iter_values(%acc = %none, %old = %nothing) -> ({SUMS}, {ROWS}) {{
  %x, %t0 = load_view_tko weak %ap[%zero, %i] : {PA}, tile<i32> -> {X}, token
  %wide = ftof %x : {X} -> {SUMS}
  %square = mulf %wide, %wide : {SUMS}
  %part = reduce %square dim=1 identities=[0.0 : f32] : {SUMS} -> {ROWS}
  (%left: tile<f32>, %right: tile<f32>) {{
    %both = addf %left, %right : tile<f32>
    yield %both : tile<f32>
  }}
  %more = addf %old, %part : {ROWS}
  %f, %t1 = load_view_tko weak %gp[%i] : {PG}, tile<i32> -> tile<64xf16>, token
  %f1 = reshape %f : tile<64xf16> -> tile<1x64xf16>
  %factor = broadcast %f1 : tile<1x64xf16> -> {X}
  %scaled = mulf %x, %factor : {X}
  %y, %t2 = load_view_tko weak %bp[%i, %zero] : {PB}, tile<i32> -> tile<64x64xf16>, token
  %next = mmaf %scaled, %y, %acc : {X}, tile<64x64xf16>, {SUMS}
  continue %next, %more : {SUMS}, {ROWS}
}}
%t3 = store_view_tko weak %sum, %cp[%zero, %zero] : {SUMS}, {PC}, tile<i32> -> token
%t4 = store_view_tko weak %squares, %rp[%zero] : {ROWS}, {PR}, tile<i32> -> token
}}
}}
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_products_and_sums_of_rows_are_right(gpu_name: str) -> None:
    rng = np.random.default_rng(11)
    a = rng.integers(-3, 4, (100, K * STEPS)).astype(np.float16)
    g = rng.integers(-1, 3, K * STEPS).astype(np.float16)
    b = rng.integers(-2, 3, (K * STEPS, N)).astype(np.float16)
    c, r = np.full((100, N), 7, np.float32), np.full(100, 7, np.float32)
    tileiras.launch(TEXT, "k", 1, [a, g, b, c, r], target="emulator", gpu_name=gpu_name, check=True)
    wide = a.astype(np.float32)
    assert np.array_equal(r, (wide * wide).sum(1))
    assert np.array_equal(c, (a * g).astype(np.float32) @ b.astype(np.float32))


def test_a_warpgroup_reads_the_rows_that_it_sums_once() -> None:
    ptx = tileiras.compile(TEXT, gpu_name="sm_90", emit="ptx").ptx
    (loop,) = [text for text in loops_of(ptx) if "wgmma" in text]
    # eight matrices of 16 bits a warp by ldmatrix for the product, and the sums of two rows from four lanes each
    assert "ld.shared" not in loop and loop.count("ldmatrix") == 4 and loop.count("shfl.sync") == 4
