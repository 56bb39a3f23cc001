"""16-bit results of products are stored in 16 bytes, through shared memory."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tileiras
from tests.fixtures import BYTECODE
from tileiras.compiler import pipeline
from tileiras.compiler.target import sm
from tileiras.diag import Sink


@pytest.mark.parametrize("name", ["staged_bf16_nn_128", "staged_f16_nt"])
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_120"])
def test_results_leave_in_16_bytes(name: str, gpu_name: str) -> None:
    ptx = tileiras.compile((BYTECODE / f"{name}.tilebc").read_bytes(), gpu_name=gpu_name).ptx
    assert set(re.findall(r"st\.global\.[\w.]+", ptx)) == {"st.global.v4.b32"}
    assert ("stmatrix.sync.aligned.m8n8.x4.shared.b16" in ptx) == (gpu_name != "sm_80")


@pytest.mark.parametrize(
    ("name", "crosses"), [("staged_running_states_11", True), ("staged_retained_128", False)]
)
def test_rows_of_tensor_memory_cross_shared_memory_where_two_stages_leave_room(
    name: str, crosses: bool
) -> None:
    """Sums come a row a thread. What a loop stores is turned, so that lanes write one line, or else its ring would not fit."""
    found: list[bool] = []

    def after(name: str, ir: Any) -> None:
        if name == "ConvertTileAAToTileAS":
            loops = [op for op in ir.walk() if op.spec.name == "for"]
            for op in (op for loop in loops for op in loop.walk() if op.spec.name == "store_view_tko"):
                tile = op.operand("tile").type
                found.append(any(column & tile.shape[-1] - 1 for column in tile.layout.lane))

    module = tileiras.load(BYTECODE / f"{name}.tilebc").op
    ptx = pipeline.compile_module(module, sm.find("sm_100"), Sink(), after=after).ptx
    assert found and set(found) == {crosses}
    assert "tcgen05.mma" in ptx


SQUARED = """cuda_tile.module @m {
  entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>) {
    %z = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %two = constant <i32: 2> : tile<i32>
    %va = make_tensor_view %a, shape = [64, 16], strides = [16, 1] : tensor_view<64x16xf16, strides=[16,1]>
    %qa = make_partition_view %va : partition_view<tile=(32x16), tensor_view<64x16xf16, strides=[16,1]>>
    %vc = make_tensor_view %c, shape = [16, 8], strides = [8, 1] : tensor_view<16x8xf32, strides=[8,1]>
    %qc = make_partition_view %vc : partition_view<tile=(16x8), tensor_view<16x8xf32, strides=[8,1]>>
    %k = iota : tile<32xi32>
    %k1 = reshape %k : tile<32xi32> -> tile<32x1xi32>
    %k2 = broadcast %k1 : tile<32x1xi32> -> tile<32x8xi32>
    %j = iota : tile<8xi32>
    %w = constant <i32: 64> : tile<8xi32>
    %j0 = muli %j, %w : tile<8xi32>
    %j1 = reshape %j0 : tile<8xi32> -> tile<1x8xi32>
    %j2 = broadcast %j1 : tile<1x8xi32> -> tile<32x8xi32>
    %at = addi %k2, %j2 : tile<32x8xi32>
    %b0 = assume div_by<16>, %b : tile<ptr<f16>>
    %b1 = reshape %b0 : tile<ptr<f16>> -> tile<1x1xptr<f16>>
    %b2 = broadcast %b1 : tile<1x1xptr<f16>> -> tile<32x8xptr<f16>>
    %b3 = offset %b2, %at : tile<32x8xptr<f16>>, tile<32x8xi32> -> tile<32x8xptr<f16>>
    %acc = constant <f32: 0.0> : tile<16x8xf32>
    %r = for %i in (%z to %two, step %one) : tile<i32> iter_values(%sum = %acc) -> (tile<16x8xf32>) {
      %x0, %t0 = load_view_tko weak %qa[%i, %z] : partition_view<tile=(32x16), tensor_view<64x16xf16, strides=[16,1]>>,
        tile<i32> -> tile<32x16xf16>, token
      %x = permute %x0 [1, 0] : tile<32x16xf16> -> tile<16x32xf16>
      %y, %t1 = load_ptr_tko weak %b3 : tile<32x8xptr<f16>> -> tile<32x8xf16>, token
      %ys = mulf %y, %y : tile<32x8xf16>
      %n = mmaf %x, %ys, %sum : tile<16x32xf16>, tile<32x8xf16>, tile<16x8xf32>
      continue %n : tile<16x8xf32>
    }
    %t2 = store_view_tko weak %r, %qc[%z, %z] : tile<16x8xf32>, partition_view<tile=(16x8),
      tensor_view<16x8xf32, strides=[8,1]>>, tile<i32> -> token
    return
  }
}
"""


def test_warps_that_hold_copies_do_not_store_matrices() -> None:
    """Four warps, rows for one: the others wrote the same, unordered."""
    assert "stmatrix" in tileiras.compile(SQUARED.encode(), gpu_name="sm_90", emit="ptx").ptx
    values = np.random.default_rng(1).integers(-2, 3, (64, 16)).astype(np.float16)
    weights = np.random.default_rng(2).integers(-2, 3, (8, 64)).astype(np.float16)
    sums = np.zeros((16, 8), np.float32)
    args = [values, weights, sums]
    tileiras.launch(SQUARED, "k", grid=1, args=args, target="emulator", gpu_name="sm_90", check=True)
    squares = (weights[:, :32] ** 2).astype(np.float32)
    assert (sums == (values[:32] + values[32:]).T.astype(np.float32) @ squares.T).all()
