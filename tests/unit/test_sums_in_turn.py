"""Sums of several loops that live together: what registers do not hold beside each other comes in parts."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy")

import numpy as np

import tileiras
from tests import peers

M, N, K, STEPS = 128, 256, 32, 2
MATRIX = "tensor_view<{}x{}xf16, strides=[{},1]>"
A, B = MATRIX.format(M, K * STEPS, K * STEPS), MATRIX.format(K * STEPS, N, N)
TA, TB = f"partition_view<tile=({M}x{K}), {A}>", f"partition_view<tile=({K}x{N}), {B}>"
OUT = f"tensor_view<{M}x{N}xf32, strides=[{N},1]>"
TO, ACC = f"partition_view<tile=({M}x{N}), {OUT}>", f"tile<{M}x{N}xf32>"


def loop(name: str, right: str, start: str) -> str:
    return f"""
    %{name} = for %k{name} in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = {start}) -> ({ACC}) {{
      %x, %u = load_view_tko weak %ta[%zero, %k{name}] token = %t : {TA}, tile<i32> -> tile<{M}x{K}xf16>, token
      %y, %w = load_view_tko weak {right}[%k{name}, %zero] token = %t : {TB}, tile<i32> -> tile<{K}x{N}xf16>, token
      %e = mmaf %x, %y, %acc : tile<{M}x{K}xf16>, tile<{K}x{N}xf16>, {ACC}
      continue %e : {ACC}
    }}
    """


TEXT = f"""
cuda_tile.module @m {{
  entry @k(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %pc: tile<ptr<f16>>, %po: tile<ptr<f32>>) {{
    %qa = assume div_by<16>, %pa : tile<ptr<f16>>
    %qb = assume div_by<16>, %pb : tile<ptr<f16>>
    %qc = assume div_by<16>, %pc : tile<ptr<f16>>
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %steps = constant <i32: {STEPS}> : tile<i32>
    %none = constant <f32: 0.0> : {ACC}
    %va = make_tensor_view %qa, shape = [{M}, {K * STEPS}], strides = [{K * STEPS}, 1] : {A}
    %vb = make_tensor_view %qb, shape = [{K * STEPS}, {N}], strides = [{N}, 1] : {B}
    %vc = make_tensor_view %qc, shape = [{K * STEPS}, {N}], strides = [{N}, 1] : {B}
    %vo = make_tensor_view %po, shape = [{M}, {N}], strides = [{N}, 1] : {OUT}
    %ta = make_partition_view %va : {TA}
    %tb = make_partition_view %vb : {TB}
    %tc = make_partition_view %vc : {TB}
    %to = make_partition_view %vo : {TO}
    {loop("f", "%tb", "%none")}{loop("g", "%tc", "%none")}
    %h = mulf %f, %g : {ACC}
    {loop("i", "%tc", "%h")}
    %z = store_view_tko weak %i, %to[%zero, %zero] token = %t : {ACC}, {TO}, tile<i32> -> token
    return
  }}
}}
"""


@pytest.mark.parametrize("gpu_name", ["sm_90", "sm_100"])
def test_a_sum_waits_while_another_one_is_added_up(gpu_name: str) -> None:
    """Registers of a thread hold one sum of 128x256, beside which another one came at once: ptxas found no place for it."""
    peers.require("ptxas")
    program = tileiras.compile(TEXT, gpu_name=gpu_name, launch_abi="simt")
    assert program.cubin
    rng = np.random.default_rng(4)
    a, b, c = (
        rng.integers(-2, 3, s).astype(np.float16) for s in ((M, K * STEPS), (K * STEPS, N), (K * STEPS, N))
    )
    out = np.zeros((M, N), np.float32)
    tileiras.launch(program, "k", 1, [a, b, c, out], target="emulator", gpu_name=gpu_name)
    x, y, z = (m.astype(np.float32) for m in (a, b, c))
    assert (out == (x @ y) * (x @ z) + x @ z).all()
