"""What is made of the maxima of columns, where a thread has rows: each number once in a block, not by every thread."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras

M, N, K, STEPS = 128, 64, 64, 3
A, B, C = (
    "tensor_view<384x64xf16, strides=[64,1]>",
    "tensor_view<64x64xf16, strides=[64,1]>",
    "tensor_view<128x64xf32, strides=[64,1]>",
)
PA, PB, PC = (
    f"partition_view<tile=({tile}), {view}>" for tile, view in (("128x64", A), ("64x64", B), ("128x64", C))
)
SUMS, COLUMNS = "tile<128x64xf32>", "tile<64xf32>"
TEXT = f"""cuda_tile.module @m {{
entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>) {{
%zero = constant <i32: 0> : tile<i32>
%one = constant <i32: 1> : tile<i32>
%steps = constant <i32: {STEPS}> : tile<i32>
%pa = assume div_by<16>, %a : tile<ptr<f16>>
%pb = assume div_by<16>, %b : tile<ptr<f16>>
%av = make_tensor_view %pa, shape = [384, 64], strides = [64, 1] : {A}
%bv = make_tensor_view %pb, shape = [64, 64], strides = [64, 1] : {B}
%cv = make_tensor_view %c, shape = [128, 64], strides = [64, 1] : {C}
%ap = make_partition_view %av : {PA}
%bp = make_partition_view %bv : {PB}
%cp = make_partition_view %cv : {PC}
%none = constant <f32: 0.0> : {SUMS}
%low = constant <f32: -100.0> : {COLUMNS}
%y, %t1 = load_view_tko weak %bp[%zero, %zero] : {PB}, tile<i32> -> tile<64x64xf16>, token
%sum:2 = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none, %top = %low) -> ({SUMS}, {COLUMNS}) {{
  %x, %t0 = load_view_tko weak %ap[%i, %zero] : {PA}, tile<i32> -> tile<128x64xf16>, token
  %s = mmaf %x, %y, %none : tile<128x64xf16>, tile<64x64xf16>, {SUMS}
  %m = reduce %s dim=0 identities=[0xFF800000 : f32] : {SUMS} -> {COLUMNS}
  (%p: tile<f32>, %q: tile<f32>) {{
    %g = maxf %p, %q : tile<f32>
    yield %g : tile<f32>
  }}
  %new = maxf %top, %m : {COLUMNS}
  %less = subf %top, %new : {COLUMNS}
  %fix = exp2 %less : {COLUMNS}
  %row = reshape %fix : {COLUMNS} -> tile<1x64xf32>
  %wide = broadcast %row : tile<1x64xf32> -> {SUMS}
  %old = mulf %acc, %wide : {SUMS}
  %next = addf %old, %s : {SUMS}
  continue %next, %new : {SUMS}, {COLUMNS}
}}
%t2 = store_view_tko weak %sum#0, %cp[%zero, %zero] : {SUMS}, {PC}, tile<i32> -> token
}}
}}
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_sums_are_scaled_by_what_the_maxima_of_columns_grew(gpu_name: str) -> None:
    rng = np.random.default_rng(5)
    a = rng.integers(-1, 2, (M * STEPS, K)).astype(np.float16)
    b = rng.integers(-1, 2, (K, N)).astype(np.float16)
    c = np.full((M, N), 7, np.float32)
    tileiras.launch(TEXT, "k", 1, [a, b, c], target="emulator", gpu_name=gpu_name, check=True)
    want, top = np.zeros((M, N), np.float32), np.full(N, -100, np.float32)
    for part in np.split(a.astype(np.float32), STEPS):
        s = part @ b.astype(np.float32)
        new = np.maximum(top, s.max(0))
        want, top = want * np.exp2(top - new) + s, new
    np.testing.assert_allclose(c, want, rtol=1e-5, atol=1e-5)


def test_a_thread_computes_no_factor_twice() -> None:
    ptx = tileiras.compile(TEXT, gpu_name="sm_100", emit="ptx").ptx
    assert len(re.findall(r"^\tex2\.", ptx, re.MULTILINE)) == 1
