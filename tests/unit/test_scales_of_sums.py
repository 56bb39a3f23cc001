"""Scales of columns, in 16 bits, that multiply the sums of a step: each is converted once, not by all threads that want it."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras
from tileiras.compiler import pipeline
from tileiras.compiler.source import load
from tileiras.compiler.target import sm
from tileiras.diag import Sink

M, N, K, STEPS = 128, 128, 32, 3
A, B, S, C = (
    "tensor_view<128x96xf16, strides=[96,1]>",
    "tensor_view<96x128xf16, strides=[128,1]>",
    "tensor_view<3x128xf16, strides=[128,1]>",
    "tensor_view<128x128xf32, strides=[128,1]>",
)
PA, PB, PS, PC = (
    f"partition_view<tile=({tile}), {view}>"
    for tile, view in (("128x32", A), ("32x128", B), ("1x128", S), ("128x128", C))
)
SUMS = "tile<128x128xf32>"
TEXT = f"""cuda_tile.module @m {{
entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %s: tile<ptr<f16>>, %c: tile<ptr<f32>>) {{
%zero = constant <i32: 0> : tile<i32>
%one = constant <i32: 1> : tile<i32>
%steps = constant <i32: {STEPS}> : tile<i32>
%pa = assume div_by<16>, %a : tile<ptr<f16>>
%pb = assume div_by<16>, %b : tile<ptr<f16>>
%ps = assume div_by<16>, %s : tile<ptr<f16>>
%av = make_tensor_view %pa, shape = [128, 96], strides = [96, 1] : {A}
%bv = make_tensor_view %pb, shape = [96, 128], strides = [128, 1] : {B}
%sv = make_tensor_view %ps, shape = [3, 128], strides = [128, 1] : {S}
%cv = make_tensor_view %c, shape = [128, 128], strides = [128, 1] : {C}
%ap = make_partition_view %av : {PA}
%bp = make_partition_view %bv : {PB}
%sp = make_partition_view %sv : {PS}
%cp = make_partition_view %cv : {PC}
%none = constant <f32: 0.0> : {SUMS}
%sum = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none) -> ({SUMS}) {{
  %x, %t0 = load_view_tko weak %ap[%zero, %i] : {PA}, tile<i32> -> tile<128x32xf16>, token
  %y, %t1 = load_view_tko weak %bp[%i, %zero] : {PB}, tile<i32> -> tile<32x128xf16>, token
  %f, %t2 = load_view_tko weak %sp[%i, %zero] : {PS}, tile<i32> -> tile<1x128xf16>, token
  %part = mmaf %x, %y, %none : tile<128x32xf16>, tile<32x128xf16>, {SUMS}
  %wide = ftof %f : tile<1x128xf16> -> tile<1x128xf32>
  %factor = broadcast %wide : tile<1x128xf32> -> {SUMS}
  %scaled = mulf %part, %factor : {SUMS}
  %next = addf %acc, %scaled : {SUMS}
  continue %next : {SUMS}
}}
%t3 = store_view_tko weak %sum, %cp[%zero, %zero] : {SUMS}, {PC}, tile<i32> -> token
}}
}}
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_sums_are_those_of_the_scaled_steps(gpu_name: str) -> None:
    rng = np.random.default_rng(7)
    a = rng.integers(-2, 3, (M, K * STEPS)).astype(np.float16)
    b = rng.integers(-2, 3, (K * STEPS, N)).astype(np.float16)
    s = rng.integers(-3, 4, (STEPS, N)).astype(np.float16)
    c = np.full((M, N), 7, np.float32)
    tileiras.launch(TEXT, "k", 1, [a, b, s, c], target="emulator", gpu_name=gpu_name, check=True)
    x, y, f = (each.astype(np.float32) for each in (a, b, s))
    cut = [slice(K * i, K * (i + 1)) for i in range(STEPS)]
    assert np.array_equal(c, sum(x[:, k] @ y[k] * f[i] for i, k in enumerate(cut)))


@pytest.mark.parametrize("gpu_name", ["sm_90", "sm_100"])
def test_each_scale_is_converted_once(gpu_name: str) -> None:
    sink = Sink()
    module = load(TEXT.encode(), sink, file="k.mlir")
    tileas = pipeline.compile_module(module, sm.find(gpu_name), sink).tileas
    assert tileas is not None
    (convert,) = [op for op in tileas.walk() if op.spec.name == "ftof"]
    assert convert.results[0].type.layout.num_regs == 1  # type: ignore[attr-defined]


def test_a_part_of_the_sums_is_scaled_and_added_before_the_next_part_comes() -> None:
    """Sums of 128 columns beside 128 that a thread carries fill its registers: with all of them there at once, it spills."""
    ptx = tileiras.compile(TEXT, gpu_name="sm_100").ptx
    words = re.findall(r"^\t(\S+)", ptx, re.MULTILINE)
    parts = [n for n, word in enumerate(words) if word.startswith("tcgen05.ld.")]
    assert len(parts) == 4
    for first, last in zip(parts, [*parts[1:], parts[-1] + parts[1] - parts[0]]):
        counts = [
            words[first:last].count(word) for word in ("ld.shared.v4.b32", "mul.rn.f32x2", "add.rn.f32x2")
        ]
        assert counts == [8, 16, 16], counts
