"""Operands of bytes that wgmma wants with K contiguous, and that were loaded otherwise: how few instructions turn them."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import tileiras

TEXT = """cuda_tile.module @m {{
entry @k(%a: tile<ptr<i8>>, %b: tile<ptr<i8>>, %c: tile<ptr<i32>>) {{
%zero = constant <i32: 0> : tile<i32>
%one = constant <i32: 1> : tile<i32>
%steps = constant <i32: 6> : tile<i32>
%pa = assume div_by<16>, %a : tile<ptr<i8>>
%pb = assume div_by<16>, %b : tile<ptr<i8>>
%av = make_tensor_view %pa, shape = [128, {whole}], strides = [{whole}, 1] : {a}
%bv = make_tensor_view %pb, shape = [{whole}, 128], strides = [128, 1] : {b}
%cv = make_tensor_view %c, shape = [128, 128], strides = [128, 1] : {c}
%ap = make_partition_view %av : partition_view<tile=(128x{k}), {a}>
%bp = make_partition_view %bv : partition_view<tile=({k}x128), {b}>
%cp = make_partition_view %cv : partition_view<tile=(128x128), {c}>
%none = constant <i32: 0> : tile<128x128xi32>
%sum = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<128x128xi32>) {{
  %x, %t0 = load_view_tko weak %ap[%zero, %i] : partition_view<tile=(128x{k}), {a}>, tile<i32> -> tile<128x{k}xi8>, token
  %w, %t1 = load_view_tko weak %bp[%i, %zero] : partition_view<tile=({k}x128), {b}>, tile<i32> -> tile<{k}x128xi8>, token
  %d = mmai %x, %w, %acc signed signed : tile<128x{k}xi8>, tile<{k}x128xi8>, tile<128x128xi32>
  continue %d : tile<128x128xi32>
}}
%t2 = store_view_tko weak %sum, %cp[%zero, %zero] : tile<128x128xi32>, partition_view<tile=(128x128), {c}>, tile<i32> -> token
return
}}
}}
"""


def loop_of(k: int, **options: str) -> str:
    """The PTX of the loop of a product with a right operand of `k` rows a step, which is turned."""
    a, b = (f"tensor_view<{h}x{w}xi8, strides=[{w},1]>" for h, w in ((128, 6 * k), (6 * k, 128)))
    text = TEXT.format(k=k, whole=6 * k, a=a, b=b, c="tensor_view<128x128xi32, strides=[128,1]>")
    ptx = tileiras.compile(text, gpu_name="sm_90", emit="ptx", **options).ptx
    assert ptx is not None
    start = ptx.index("wgmma.mma_async")
    head = ptx.rindex("\n$", 0, start)
    return ptx[head : ptx.index("bra", start)]


@pytest.mark.parametrize("k", [64, 128])
def test_a_word_of_a_turned_tile_takes_one_prmt(k: int) -> None:
    """ldmatrix brings bytes in pairs, and a word is made of two of its words."""
    loop = loop_of(k)
    assert len(re.findall(r"ldmatrix\.sync\.aligned\.m8n8\.x4\.trans", loop)) == k // 32
    assert loop.count("prmt.b32") == k // 8 and "ld.shared" not in loop


def test_four_words_are_transposed_by_eight_prmt() -> None:
    """The hardware that fills stages knows no lines for ldmatrix: what two words are joined to serves two of the result."""
    loop = loop_of(128, launch_abi="simt", tensor_maps="launcher")
    assert "ldmatrix" not in loop and loop.count("prmt.b32") == 32


@pytest.mark.parametrize("k", [64, 128])
def test_what_a_step_wrote_is_fenced_once(k: int) -> None:
    """Of the barriers of a step (copies have landed, all have read, all have written) products stand behind the last one."""
    loop = loop_of(k)
    assert loop.count("bar.sync") == 3 and loop.count("fence.proxy.async") == 1
    assert loop.index("fence.proxy.async") > loop.index("st.shared")
