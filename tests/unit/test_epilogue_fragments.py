"""What an epilogue adds to fragments, scaled first, is loaded as fragments: nothing goes through shared memory for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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

M, N, K = 128, 256, 32
TEXT = """cuda_tile.module @m {{
entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %m: tile<i32>, %beta: tile<f32>) {{
%i:3 = get_tile_block_id : tile<i32>
%zero = constant <i32: 0> : tile<i32>
%one = constant <i32: 1> : tile<i32>
%two = constant <i32: 2> : tile<i32>
%pa = assume div_by<16>, %a : tile<ptr<f16>>
%pb = assume div_by<16>, %b : tile<ptr<f16>>
%pc = assume div_by<16>, %c : tile<ptr<f32>>
%av = make_tensor_view %pa, shape = [%m, 64], strides = [64, 1] : tile<i32> -> {a}
%bv = make_tensor_view %pb, shape = [64, 256], strides = [256, 1] : {b}
%cv = make_tensor_view %pc, shape = [%m, 256], strides = [256, 1] : tile<i32> -> {c}
%ap = make_partition_view %av : {pa}
%bp = make_partition_view %bv : {pb}
%cp = make_partition_view %cv : {pc}
%none = constant <f32: 0.0> : tile<128x256xf32>
%sum = for %k in (%zero to %two, step %one) : tile<i32> iter_values(%s = %none) -> (tile<128x256xf32>) {{
  %x, %t0 = load_view_tko weak %ap[%i#0, %k] : {pa}, tile<i32> -> tile<128x32xf16>, token
  %y, %t1 = load_view_tko weak %bp[%k, %zero] : {pb}, tile<i32> -> tile<32x256xf16>, token
  %next = mmaf %x, %y, %s : tile<128x32xf16>, tile<32x256xf16>, tile<128x256xf32>
  continue %next : tile<128x256xf32>
}}
%old, %t2 = load_view_tko weak %cp[%i#0, %zero] : {pc}, tile<i32> -> tile<128x256xf32>, token
%r = reshape %beta : tile<f32> -> tile<1x1xf32>
%w = broadcast %r : tile<1x1xf32> -> tile<128x256xf32>
%scaled = mulf %old, %w : tile<128x256xf32>
%less = negf %scaled : tile<128x256xf32>
%all = addf %sum, %less : tile<128x256xf32>
%t3 = store_view_tko weak %all, %cp[%i#0, %zero] token = %t2 : tile<128x256xf32>, {pc}, tile<i32> -> token
}}
}}
"""


def text() -> str:
    views = {
        "a": "?x64xf16, strides=[64,1]",
        "b": "64x256xf16, strides=[256,1]",
        "c": "?x256xf32, strides=[256,1]",
    }
    tiles = {"a": "128x32", "b": "32x256", "c": "128x256"}
    named: dict[str, str] = {}
    for name, view in views.items():
        named[name] = f"tensor_view<{view}>"
        named["p" + name] = f"partition_view<tile=({tiles[name]}), padding_value = zero, {named[name]}>"
    return TEXT.format(**named)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_what_is_scaled_and_added_is_right_at_edges(gpu_name: str) -> None:
    rng = np.random.default_rng(3)
    m = M + 40
    a: Any = rng.integers(-3, 4, (m, 64)).astype(np.float16)
    b: Any = rng.integers(-3, 4, (64, N)).astype(np.float16)
    c: Any = rng.integers(-9, 10, (m, N)).astype(np.float32)
    expected = a.astype(np.float32) @ b.astype(np.float32) - 3 * c
    tileiras.launch(text(), "k", 2, [a, b, c, m, np.float32(3)], target="emulator", gpu_name=gpu_name)
    assert (c == expected).all()


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_120"])
def test_nothing_goes_through_shared_memory(gpu_name: str) -> None:
    ptx = tileiras.compile(text(), gpu_name=gpu_name, emit="ptx").ptx
    behind = ptx[ptx.rindex("mma") :]
    assert "st.shared" not in behind and "ld.global.v2" in behind.replace(".L1::no_allocate", "")


def ops(kernel: str, gpu_name: str) -> list[Op]:
    """All ops of a kernel's nv_tileas text."""
    sink = Sink()
    module = load(kernel.encode(), sink, file="k.mlir")
    tileas = pipeline.compile_module(module, sm.find(gpu_name), sink).tileas
    assert tileas is not None
    return list(tileas.walk())


def test_warpgroups_load_and_store_a_slice_of_columns_after_the_other() -> None:
    found = [op for op in ops(text(), "sm_90") if op.spec.name in ("load_view_tko", "store_view_tko")]
    tiles = {op.operand("view").type.tile for op in found}  # type: ignore[union-attr]
    assert tiles == {(M, N // 4)}
    names = [op.spec.name.split("_")[0] for op in found]
    assert names == ["load", "load", "store", "load", "store", "load", "store", "store"]


WIDE, NARROW = "tile<128x256xf32>", "tile<128x256xf16>"
HALF = (
    ("?x256xf32", "?x256xf16"),
    ("%c: tile<ptr<f32>>", "%c: tile<ptr<f16>>"),
    ("%c : tile<ptr<f32>>", "%c : tile<ptr<f16>>"),
    (f"-> {WIDE}, token\n%r", f"-> {NARROW}, token\n%wide = ftof %old : {NARROW} -> {WIDE}\n%r"),
    ("mulf %old", "mulf %wide"),
    (
        f"%all = addf %sum, %less : {WIDE}",
        f"%both = addf %sum, %less : {WIDE}\n%all = ftof %both : {WIDE} -> {NARROW}",
    ),
    (f"token = %t2 : {WIDE}", f"token = %t2 : {NARROW}"),
)


def halves() -> str:
    """The same with a result of 16 bits."""
    out = text()
    for before, after in HALF:
        assert before in out
        out = out.replace(before, after)
    return out


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_what_is_added_to_many_sums_of_16_bits_is_right_at_edges(gpu_name: str) -> None:
    rng = np.random.default_rng(4)
    m = M + 40
    a: Any = rng.integers(-3, 4, (m, 64)).astype(np.float16)
    b: Any = rng.integers(-3, 4, (64, N)).astype(np.float16)
    c: Any = rng.integers(-9, 10, (m, N)).astype(np.float16)
    expected = a.astype(np.float32) @ b.astype(np.float32) - 3 * c.astype(np.float32)
    args = [a, b, c, m, np.float32(3)]
    tileiras.launch(halves(), "k", 2, args, target="emulator", gpu_name=gpu_name, check=True)
    assert (c == expected.astype(np.float16)).all()


def test_many_elements_of_16_bits_are_loaded_as_the_sums_of_warpgroups_lie() -> None:
    (found,) = [op for op in ops(halves(), "sm_90") if op.spec.name == "load_view_tko"]
    layout = found.results[0].type.layout  # type: ignore[attr-defined]
    assert layout.reg[0] == 1 and layout.lane[:2] == (2, 4)
