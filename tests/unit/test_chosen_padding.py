"""A bias that ends with minus infinity is copied ahead like operands, where that costs no block of an SM."""

from __future__ import annotations

from typing import Any

import pytest

import tileiras
from tests.fixtures import BYTECODE
from tileiras.compiler import pipeline
from tileiras.compiler.target import sm
from tileiras.diag import Sink


def loops_behind(pass_name: str, gpu_name: str) -> list[list[Any]]:
    """The ops of each loop of attention beside such a bias, behind a pass."""
    found: list[list[Any]] = []

    def after(name: str, ir: Any) -> None:
        if name == pass_name:
            found.extend(list(op.regions[0].block.ops) for op in ir.walk() if op.spec.name == "for")

    module = tileiras.load(BYTECODE / "staged_ending_bias.tilebc").op
    pipeline.compile_module(module, sm.find(gpu_name), Sink(), after=after)
    return found


@pytest.mark.parametrize("gpu_name", ["sm_90", "sm_120"])
def test_steps_within_the_bias_choose_nothing(gpu_name: str) -> None:
    whole, last = ([op.spec.name for op in ops] for ops in loops_behind("TileASUnmaskedSteps", gpu_name))
    assert whole.count("async.copy_view") == last.count("async.copy_view") == 3
    assert "load_view_tko" not in whole + last
    tiles = [
        [op for op in ops if op.spec.name == "select" and op.result.type.shape]
        for ops in loops_behind("TileASUnmaskedSteps", gpu_name)
    ]
    assert not tiles[0] and tiles[1]


def test_where_copies_would_cost_a_block_the_load_pads_by_itself() -> None:
    (ops,) = loops_behind("TileASUnmaskedSteps", "sm_80")
    (load,) = [op for op in ops if op.spec.name == "load_view_tko"]
    assert load.operand("view").type.padding == "neg_inf"
    assert not [op for op in ops if op.spec.name == "select" and op.result.type.shape]


def test_a_remark_says_what_is_chosen() -> None:
    source = (BYTECODE / "staged_ending_bias.tilebc").read_bytes()
    done: Any = tileiras.compile(source, gpu_name="sm_90", emit="ptx", remarks={"passed": "all"})
    assert [d.message for d in done.diagnostics if "padded" in d.message] == [
        "the tile is padded with zeros, and minus infinity is chosen behind the end of its tensor"
    ]


def in_f64() -> str:
    """C = max(Q K + B, 0) V of tiles of 16x16, columns of B beyond the 40th being minus infinity."""
    sq = "tensor_view<64x64xf64, strides=[64,1]>"
    v = f"partition_view<tile=(16x16), padding_value = zero, {sq}>"
    b = "partition_view<tile=(16x16), padding_value = neg_inf, tensor_view<64x40xf32, strides=[40,1]>>"
    t = "tile<16x16xf64>"
    return f"""
cuda_tile.module @m {{
  entry @k(%q: tile<ptr<f64>>, %k: tile<ptr<f64>>, %b: tile<ptr<f32>>, %c: tile<ptr<f64>>) {{
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %four = constant <i32: 4> : tile<i32>
    %none = constant <f64: 0.0> : {t}
    %i, %y, %z = get_tile_block_id : tile<i32>
    %qv = make_tensor_view %q, shape = [64, 64], strides = [64, 1] : {sq}
    %kv = make_tensor_view %k, shape = [64, 64], strides = [64, 1] : {sq}
    %bv = make_tensor_view %b, shape = [64, 40], strides = [40, 1] : tensor_view<64x40xf32, strides=[40,1]>
    %cv = make_tensor_view %c, shape = [64, 64], strides = [64, 1] : {sq}
    %qp = make_partition_view %qv : {v}
    %kp = make_partition_view %kv : {v}
    %bp = make_partition_view %bv : {b}
    %cp = make_partition_view %cv : {v}
    %t = make_token : token
    %qt, %t0 = load_view_tko weak %qp[%i, %zero] token=%t : {v}, tile<i32> -> {t}, token
    %sum = for %j in (%zero to %four, step %one) : tile<i32> iter_values(%acc = %none) -> ({t}) {{
      %kt, %t1 = load_view_tko weak %kp[%j, %zero] token=%t : {v}, tile<i32> -> {t}, token
      %s = mmaf %qt, %kt, %none : {t}, {t}, {t}
      %bt, %t2 = load_view_tko weak %bp[%i, %j] token=%t : {b}, tile<i32> -> tile<16x16xf32>, token
      %w = ftof %bt : tile<16x16xf32> -> {t}
      %x = addf %s, %w : {t}
      %p = maxf %x, %none : {t}
      %vt, %t3 = load_view_tko weak %kp[%j, %one] token=%t : {v}, tile<i32> -> {t}, token
      %next = mmaf %p, %vt, %acc : {t}, {t}, {t}
      continue %next : {t}
    }}
    %done = store_view_tko weak %sum, %cp[%i, %zero] token=%t : {t}, {v}, tile<i32> -> token
    return
  }}
}}
"""


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90"])
def test_a_bias_that_becomes_f64_is_chosen_in_the_type_that_it_is_loaded_in(gpu_name: str) -> None:
    np = pytest.importorskip("numpy")
    rng = np.random.default_rng(1)
    q, k = (rng.integers(-3, 4, (64, 64)).astype(np.float64) for _ in range(2))
    b, c = rng.integers(-3, 4, (64, 40)).astype(np.float32), np.zeros((64, 64))
    program = tileiras.compile(in_f64(), gpu_name=gpu_name, emit="ptx", launch_abi="simt")
    tileiras.launch(program, "k", 4, [q, k, b, c], target="emulator", gpu_name=gpu_name, check=True, seed=2)
    expected = np.zeros((64, 16))
    for j in range(0, 64, 16):
        bias = np.full((64, 64), -np.inf)
        bias[:, :40] = b
        scores = np.maximum(q[:, :16] @ k[j : j + 16, :16] + bias[:, j : j + 16], 0)
        expected += scores @ k[j : j + 16, 16:32]
    assert (c[:, :16] == expected).all()
