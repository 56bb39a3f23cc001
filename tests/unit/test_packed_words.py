"""Products of weights that lie eight to a word, neighbours along N: the words run ahead, and a thread unpacks whole ones."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras
from tileiras.compiler import pipeline
from tileiras.compiler.source import load
from tileiras.compiler.target import sm
from tileiras.diag import Sink

if TYPE_CHECKING:
    from tileiras.compiler.ir.core import Op

ROWS, DEEP, STEPS = 64, 64, 4
TEXT = """cuda_tile.module @m {{
entry @k(%a: tile<ptr<f16>>, %q: tile<ptr<i32>>, %s: tile<ptr<f16>>, %c: tile<ptr<f32>>) {{
%zero = constant <i32: 0> : tile<i32>
%one = constant <i32: 1> : tile<i32>
%steps = constant <i32: {steps}> : tile<i32>
%pa = assume div_by<16>, %a : tile<ptr<f16>>
%pq = assume div_by<16>, %q : tile<ptr<i32>>
%ps = assume div_by<16>, %s : tile<ptr<f16>>
%av = make_tensor_view %pa, shape = [64, {depth}], strides = [{depth}, 1] : {a}
%qv = make_tensor_view %pq, shape = [{depth}, {words}], strides = [{words}, 1] : {q}
%sv = make_tensor_view %ps, shape = [{steps}, {n}], strides = [{n}, 1] : {s}
%cv = make_tensor_view %c, shape = [64, {n}], strides = [{n}, 1] : {c}
%ap = make_partition_view %av : {pa}
%qp = make_partition_view %qv : {pq}
%sp = make_partition_view %sv : {ps}
%cp = make_partition_view %cv : {pc}
%none = constant <f32: 0.0> : tile<64x{n}xf32>
%four = constant <i32: 4> : tile<8xi32>
%few = constant <i32: 15> : tile<{k}x{words}x8xi32>
%eight = constant <i32: 8> : tile<{k}x{n}xi32>
%places = iota : tile<8xi32>
%by = muli %places, %four : tile<8xi32>
%by3 = reshape %by : tile<8xi32> -> tile<1x1x8xi32>
%sum = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<64x{n}xf32>) {{
  %x, %t0 = load_view_tko weak %ap[%zero, %i] : {pa}, tile<i32> -> tile<64x{k}xf16>, token
  %w, %t1 = load_view_tko weak %qp[%i, %zero] : {pq}, tile<i32> -> tile<{k}x{words}xi32>, token
  %f, %t2 = load_view_tko weak %sp[%i, %zero] : {ps}, tile<i32> -> tile<1x{n}xf16>, token
  %w3 = reshape %w : tile<{k}x{words}xi32> -> tile<{k}x{words}x1xi32>
  %wide = broadcast %w3 : tile<{k}x{words}x1xi32> -> tile<{k}x{words}x8xi32>
  %shift = broadcast %by3 : tile<1x1x8xi32> -> tile<{k}x{words}x8xi32>
  %moved = shri %wide, %shift signed : tile<{k}x{words}x8xi32>
  %bits = andi %moved, %few : tile<{k}x{words}x8xi32>
  %flat = reshape %bits : tile<{k}x{words}x8xi32> -> tile<{k}x{n}xi32>
  %less = subi %flat, %eight : tile<{k}x{n}xi32>
  %half = itof %less signed : tile<{k}x{n}xi32> -> tile<{k}x{n}xf16>
  %factor = broadcast %f : tile<1x{n}xf16> -> tile<{k}x{n}xf16>
  %y = mulf %half, %factor : tile<{k}x{n}xf16>
  %next = mmaf %x, %y, %acc : tile<64x{k}xf16>, tile<{k}x{n}xf16>, tile<64x{n}xf32>
  continue %next : tile<64x{n}xf32>
}}
%t3 = store_view_tko weak %sum, %cp[%zero, %zero] : tile<64x{n}xf32>, {pc}, tile<i32> -> token
}}
}}
"""


def text(n: int = 64, k: int = DEEP) -> str:
    depth, words = STEPS * k, n // 8
    views = {
        "a": (f"64x{depth}xf16", f"64x{k}"),
        "q": (f"{depth}x{words}xi32", f"{k}x{words}"),
        "s": (f"{STEPS}x{n}xf16", f"1x{n}"),
        "c": (f"64x{n}xf32", f"64x{n}"),
    }
    named = {}
    for name, (view, tile) in views.items():
        named[name] = f"tensor_view<{view}, strides=[{view.split('x')[1]},1]>"
        named["p" + name] = f"partition_view<tile=({tile}), {named[name]}>"
    return TEXT.format(**named, n=n, k=k, depth=depth, words=words, steps=STEPS)


def ops(kernel: str, gpu_name: str) -> list[Op]:
    """All ops of a kernel's nv_tileas text."""
    sink = Sink()
    module = load(kernel.encode(), sink, file="k.mlir")
    return list(pipeline.compile_module(module, sm.find(gpu_name), sink).tileas.walk())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize(("n", "k"), [(64, 64), (128, 64), (64, 128)])
def test_sums_are_those_of_the_unpacked_weights(n: int, k: int, gpu_name: str) -> None:
    rng = np.random.default_rng(5)
    a = rng.integers(-2, 3, (ROWS, STEPS * k)).astype(np.float16)
    q = rng.integers(-(1 << 31), 1 << 31, (STEPS * k, n // 8)).astype(np.int32)
    s = rng.integers(-1, 2, (STEPS, n)).astype(np.float16)
    c = np.full((ROWS, n), 7, np.float32)
    tileiras.launch(text(n, k), "k", 1, [a, q, s, c], target="emulator", gpu_name=gpu_name, check=True)
    bits = q.view(np.uint32)[:, :, None] >> np.arange(0, 32, 4, dtype=np.uint32) & 15
    weights = (bits.reshape(STEPS * k, n).astype(np.float32) - 8) * np.repeat(s, k, 0)
    assert np.array_equal(c, a.astype(np.float32) @ weights)


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_words_are_copied_ahead_of_the_step_that_unpacks_them(gpu_name: str) -> None:
    found = ops(text(), gpu_name)
    loads = [op.results[0].type.shape for op in found if op.spec.name == "load_view_tko"]  # type: ignore[attr-defined]
    copied = [op for op in found if op.spec.name == "async.copy_view" and op.parent.spec.name == "for"]  # type: ignore[union-attr]
    assert (64, 8) not in loads and len(copied) == 2


def test_a_thread_unpacks_whole_words_and_stores_their_weights_at_once() -> None:
    kernel = tileiras.compile(text(128), gpu_name="sm_90", emit="ptx").ptx
    stores = re.findall(r"st\.shared[.\w]*", kernel)
    assert stores and all("v4" in store for store in stores), stores
    # what is picked of a word are bytes of it, and of it shifted once, whatever sign it has
    picked = re.findall(r"prmt\.b32 \S+ (\S+), (\S+), \d+;", kernel)
    assert len({register for pair in picked for register in pair}) == 2 * len(stores)


def test_steps_of_words_are_cut_where_three_do_not_fit() -> None:
    found = ops(text(64, 512), "sm_120")
    copied = [op for op in found if op.spec.name == "async.copy_view" and op.parent.spec.name == "for"]  # type: ignore[union-attr]
    shapes = {op.operand("view").type.tile for op in copied}  # type: ignore[union-attr]
    assert shapes == {(64, 128), (128, 8)}
