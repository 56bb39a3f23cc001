"""Tiles of bytes that were loaded are carried by loops, and brought by branches, four to a register."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras
from tests.corpus.case import place
from tests.ptx_loops import loops_of

VIEW = "tensor_view<8192xi8, strides=[1]>"
TILE = f"partition_view<tile=(1024), {VIEW}>"
CARRIED = f"""cuda_tile.module @m {{
entry @k(%a: tile<ptr<i8>>, %b: tile<ptr<i8>>, %n: tile<i32>) {{
%zero = constant <i32: 0> : tile<i32>
%one = constant <i32: 1> : tile<i32>
%few = constant <i32: 5> : tile<i32>
%seven = constant <i8: 7> : tile<1024xi8>
%none = constant <i8: 0> : tile<1024xi8>
%pa = assume div_by<16>, %a : tile<ptr<i8>>
%pb = assume div_by<16>, %b : tile<ptr<i8>>
%av = make_tensor_view %pa, shape = [8192], strides = [1] : {VIEW}
%bv = make_tensor_view %pb, shape = [8192], strides = [1] : {VIEW}
%ap = make_partition_view %av : {TILE}
%bp = make_partition_view %bv : {TILE}
%first, %t0 = load_view_tko weak %ap[%zero] : {TILE}, tile<i32> -> tile<1024xi8>, token
%last, %sum = for %i in (%one to %n, step %one) : tile<i32> iter_values(%before = %first, %acc = %none)
    -> (tile<1024xi8>, tile<1024xi8>) {{
  %c = cmpi less_than %i, %few, signed : tile<i32> -> tile<i1>
  %now = if %c -> (tile<1024xi8>) {{
    %x, %t1 = load_view_tko weak %ap[%i] : {TILE}, tile<i32> -> tile<1024xi8>, token
    yield %x : tile<1024xi8>
  }} else {{
    yield %seven : tile<1024xi8>
  }}
  %product = muli %now, %before : tile<1024xi8>
  %more = addi %acc, %product : tile<1024xi8>
  continue %now, %more : tile<1024xi8>, tile<1024xi8>
}}
%t2 = store_view_tko weak %last, %bp[%zero] : tile<1024xi8>, {TILE}, tile<i32> -> token
%t3 = store_view_tko weak %sum, %bp[%one] : tile<1024xi8>, {TILE}, tile<i32> -> token
return
}}
}}
"""


@pytest.mark.parametrize("gpu_name", ["sm_75", "sm_90"])
@pytest.mark.parametrize("steps", [1, 4, 8])
def test_carried_bytes_are_right_in_the_loop_and_behind_it(gpu_name: str, steps: int) -> None:
    a = np.random.default_rng(steps).integers(-128, 128, 8192).astype(np.int8)
    rows = a.reshape(8, 1024)[:steps].copy()
    rows[5:] = 7
    sums = (rows[1:] * rows[:-1]).sum(0, dtype=np.int8)
    b = place(np.zeros(8192, np.int8))
    args = [place(a), b, np.int32(steps)]
    tileiras.launch(CARRIED, "k", grid=1, args=args, target="emulator", gpu_name=gpu_name, check=True)
    np.testing.assert_array_equal(b[:1024], rows[-1])
    np.testing.assert_array_equal(b[1024:2048], sums)


LEAVES = f"""cuda_tile.module @m {{
entry @k(%a: tile<ptr<i8>>, %b: tile<ptr<i8>>, %n: tile<i32>) {{
%zero = constant <i32: 0> : tile<i32>
%one = constant <i32: 1> : tile<i32>
%few = constant <i32: 5> : tile<i32>
%none = constant <i8: 0> : tile<1024xi8>
%pa = assume div_by<16>, %a : tile<ptr<i8>>
%pb = assume div_by<16>, %b : tile<ptr<i8>>
%av = make_tensor_view %pa, shape = [8192], strides = [1] : {VIEW}
%bv = make_tensor_view %pb, shape = [8192], strides = [1] : {VIEW}
%ap = make_partition_view %av : {TILE}
%bp = make_partition_view %bv : {TILE}
%sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<1024xi8>) {{
  %c = cmpi not_equal %i, %few, signed : tile<i32> -> tile<i1>
  %first, %now = if %c -> (tile<1024xi8>, tile<1024xi8>) {{
    %x, %t1 = load_view_tko weak %ap[%i] : {TILE}, tile<i32> -> tile<1024xi8>, token
    %y, %t2 = load_view_tko weak %ap[%zero] : {TILE}, tile<i32> -> tile<1024xi8>, token
    yield %y, %x : tile<1024xi8>, tile<1024xi8>
  }} else {{
    continue %acc : tile<1024xi8>
  }}
  %product = muli %now, %first : tile<1024xi8>
  %more = addi %acc, %product : tile<1024xi8>
  continue %more : tile<1024xi8>
}}
%t3 = store_view_tko weak %sum, %bp[%zero] : tile<1024xi8>, {TILE}, tile<i32> -> token
return
}}
}}
"""


def test_a_branch_that_goes_on_with_the_loop_has_no_bytes_to_bring() -> None:
    """The fifth step is left out: that side of the branch ends with fewer values than the branch has."""
    a = np.random.default_rng(1).integers(-128, 128, 8192).astype(np.int8)
    b = place(np.zeros(8192, np.int8))
    args = [place(a), b, np.int32(8)]
    tileiras.launch(LEAVES, "k", grid=1, args=args, target="emulator", gpu_name="sm_90", check=True)
    rows = a.reshape(8, 1024)
    np.testing.assert_array_equal(b[:1024], (np.delete(rows, 5, 0) * rows[0]).sum(0, dtype=np.int8))


def weights(k: int) -> str:
    """64x128 sums of f16 by 8-bit weights, K x N, in a loop over `k`."""
    a, b, c = (
        f"tensor_view<{h}x{w}x{e}, strides=[{w},1]>"
        for h, w, e in ((64, 8 * k, "f16"), (8 * k, 128, "i8"), (64, 128, "f32"))
    )
    pa, pb = f"partition_view<tile=(64x{k}), {a}>", f"partition_view<tile=({k}x128), {b}>"
    pc = f"partition_view<tile=(64x128), {c}>"
    return f"""cuda_tile.module @m {{
entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<i8>>, %c: tile<ptr<f32>>) {{
%zero = constant <i32: 0> : tile<i32>
%one = constant <i32: 1> : tile<i32>
%steps = constant <i32: 8> : tile<i32>
%qa = assume div_by<16>, %a : tile<ptr<f16>>
%qb = assume div_by<16>, %b : tile<ptr<i8>>
%av = make_tensor_view %qa, shape = [64, {8 * k}], strides = [{8 * k}, 1] : {a}
%bv = make_tensor_view %qb, shape = [{8 * k}, 128], strides = [128, 1] : {b}
%cv = make_tensor_view %c, shape = [64, 128], strides = [128, 1] : {c}
%ap = make_partition_view %av : {pa}
%bp = make_partition_view %bv : {pb}
%cp = make_partition_view %cv : {pc}
%none = constant <f32: 0.0> : tile<64x128xf32>
%sum = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<64x128xf32>) {{
  %x, %t0 = load_view_tko weak %ap[%zero, %i] : {pa}, tile<i32> -> tile<64x{k}xf16>, token
  %q, %t1 = load_view_tko weak %bp[%i, %zero] : {pb}, tile<i32> -> tile<{k}x128xi8>, token
  %w = itof %q signed : tile<{k}x128xi8> -> tile<{k}x128xf16>
  %d = mmaf %x, %w, %acc : tile<64x{k}xf16>, tile<{k}x128xf16>, tile<64x128xf32>
  continue %d : tile<64x128xf32>
}}
%t2 = store_view_tko weak %sum, %cp[%zero, %zero] : tile<64x128xf32>, {pc}, tile<i32> -> token
return
}}
}}
"""


def test_weights_wait_in_words_and_are_written_once() -> None:
    """32 bytes a thread and step: eight registers for each of the steps ahead, no stage, and no conversion one by one."""
    ptx = tileiras.compile(weights(32), gpu_name="sm_90", emit="ptx").ptx
    assert ptx is not None
    loop = next(text for text in loops_of(ptx) if "wgmma" in text)
    assert "ld.global.v4.b32" in loop and "ld.shared" not in loop and loop.count("st.shared.v4.b32") == 4
    assert loop.count("mov.b32") < 32 * 4  # bytes by themselves take that for the steps ahead alone
