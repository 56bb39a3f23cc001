"""A few numbers that a step needs, loaded a step ahead behind a branch: the branch comes before what the step makes of its
operands, which would wait for the products on the other side of it."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras
from tileiras.compiler import pipeline
from tileiras.compiler.source import load
from tileiras.compiler.target import sm
from tileiras.diag import Sink

M, N, K, STEPS = 128, 128, 64, 3
A, B, S, C = (
    "tensor_view<128x192xf16, strides=[192,1]>",
    "tensor_view<192x128xi32, strides=[128,1]>",
    "tensor_view<3x128xf16, strides=[128,1]>",
    "tensor_view<128x128xf32, strides=[128,1]>",
)
PA, PB, PS, PC = (
    f"partition_view<tile=({tile}), {view}>"
    for tile, view in (("128x64", A), ("64x128", B), ("1x128", S), ("128x128", C))
)
SUMS, WORDS, HALVES = "tile<128x128xf32>", "tile<64x128xi32>", "tile<64x128xf16>"
TEXT = f"""cuda_tile.module @m {{
entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<i32>>, %s: tile<ptr<f16>>, %c: tile<ptr<f32>>) {{
%zero = constant <i32: 0> : tile<i32>
%one = constant <i32: 1> : tile<i32>
%steps = constant <i32: {STEPS}> : tile<i32>
%pa = assume div_by<16>, %a : tile<ptr<f16>>
%pb = assume div_by<16>, %b : tile<ptr<i32>>
%ps = assume div_by<16>, %s : tile<ptr<f16>>
%av = make_tensor_view %pa, shape = [128, 192], strides = [192, 1] : {A}
%bv = make_tensor_view %pb, shape = [192, 128], strides = [128, 1] : {B}
%sv = make_tensor_view %ps, shape = [3, 128], strides = [128, 1] : {S}
%cv = make_tensor_view %c, shape = [128, 128], strides = [128, 1] : {C}
%ap = make_partition_view %av : {PA}
%bp = make_partition_view %bv : {PB}
%sp = make_partition_view %sv : {PS}
%cp = make_partition_view %cv : {PC}
%none = constant <f32: 0.0> : {SUMS}
%sum = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none) -> ({SUMS}) {{
  %x, %t0 = load_view_tko weak %ap[%zero, %i] : {PA}, tile<i32> -> tile<128x64xf16>, token
  %y, %t1 = load_view_tko weak %bp[%i, %zero] : {PB}, tile<i32> -> {WORDS}, token
  %wide = itof %y signed : {WORDS} -> {HALVES}
  %f, %t2 = load_view_tko weak %sp[%i, %zero] : {PS}, tile<i32> -> tile<1x128xf16>, token
  %factor = broadcast %f : tile<1x128xf16> -> {HALVES}
  %scaled = mulf %wide, %factor : {HALVES}
  %next = mmaf %x, %scaled, %acc : tile<128x64xf16>, {HALVES}, {SUMS}
  continue %next : {SUMS}
}}
%t3 = store_view_tko weak %sum, %cp[%zero, %zero] : {SUMS}, {PC}, tile<i32> -> token
}}
}}
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_sums_are_those_of_scaled_operands(gpu_name: str) -> None:
    rng = np.random.default_rng(7)
    a = rng.integers(-2, 3, (M, K * STEPS)).astype(np.float16)
    b = rng.integers(-5, 6, (K * STEPS, N)).astype(np.int32)
    s = rng.integers(-3, 4, (STEPS, N)).astype(np.float16)
    c = np.full((M, N), 7, np.float32)
    tileiras.launch(TEXT, "k", 1, [a, b, s, c], target="emulator", gpu_name=gpu_name, check=True)
    x, y, f = (each.astype(np.float32) for each in (a, b, s))
    cut = [slice(K * i, K * (i + 1)) for i in range(STEPS)]
    assert np.array_equal(c, sum(x[:, k] @ (y[k] * f[i]) for i, k in enumerate(cut)))


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_120"])
def test_the_branch_stands_in_front_of_what_is_made_of_operands(gpu_name: str) -> None:
    sink = Sink()
    module = load(TEXT.encode(), sink, file="k.mlir")
    tileas = pipeline.compile_module(module, sm.find(gpu_name), sink).tileas
    assert tileas is not None
    (loop,) = [op for op in tileas.walk() if op.spec.name == "for"]
    names = [op.spec.name for op in loop.regions[0].block.ops]
    assert names.index("if") < names.index("itof")
