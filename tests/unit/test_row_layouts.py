"""Rows that are reduced stay in a warp where the tile has rows enough, and what is broadcast over rows is loaded there."""

from __future__ import annotations

import numpy as np
import pytest

import tileiras
from tests.ptx_loops import loops_of
from tileiras.compiler.layout.linear import LinearLayout, blocked
from tileiras.compiler.lower.tileaa_to_tileas.rows import down_columns, within_warps

VIEW = "partition_view<tile=({shape}), tensor_view<{full}xf32, strides=[{strides}]>>"
ROW_SUM = """cuda_tile.module @m {{ entry @k(%x: tile<ptr<f32>>, %w: tile<ptr<f32>>, %o: tile<ptr<f32>>) {{
  %xa = assume div_by<16>, %x : tile<ptr<f32>>
  %wa = assume div_by<16>, %w : tile<ptr<f32>>
  %xv = make_tensor_view %xa, shape = [{rows}, {cols}], strides = [{cols}, 1] : tensor_view<{rows}x{cols}xf32, strides=[{cols},1]>
  %wv = make_tensor_view %wa, shape = [1, {cols}], strides = [{cols}, 1] : tensor_view<1x{cols}xf32, strides=[{cols},1]>
  %ov = make_tensor_view %o, shape = [{rows}], strides = [1] : tensor_view<{rows}xf32, strides=[1]>
  %xp = make_partition_view %xv : {xt}
  %wp = make_partition_view %wv : {wt}
  %op = make_partition_view %ov : {ot}
  %i = constant <i32: 0> : tile<i32>
  %t = make_token : token
  %v, %r = load_view_tko weak %xp[%i, %i] token = %t : {xt}, tile<i32> -> tile<{rows}x{cols}xf32>, token
  %u, %q = load_view_tko weak %wp[%i, %i] token = %t : {wt}, tile<i32> -> tile<1x{cols}xf32>, token
  %b = broadcast %u : tile<1x{cols}xf32> -> tile<{rows}x{cols}xf32>
  %p = mulf %v, %b rounding<nearest_even> : tile<{rows}x{cols}xf32>
  %s = reduce %p dim=1 identities=[0.0 : f32] : tile<{rows}x{cols}xf32> -> tile<{rows}xf32>
  (%one: tile<f32>, %two: tile<f32>) {{
    %sum = addf %one, %two rounding<nearest_even> : tile<f32>
    yield %sum : tile<f32>
  }}
  %d = store_view_tko weak %s, %op[%i] token = %t : tile<{rows}xf32>, {ot}, tile<i32> -> token
  return }} }}"""


@pytest.mark.parametrize(("rows", "cols"), [(16, 512), (4, 1024), (32, 64), (16, 32)])
def test_a_row_sum_needs_no_shared_memory(rows: int, cols: int) -> None:
    text = ROW_SUM.format(
        rows=rows, cols=cols, xt=VIEW.format(shape=f"{rows}x{cols}", full=f"{rows}x{cols}", strides=f"{cols},1"),
        wt=VIEW.format(shape=f"1x{cols}", full=f"1x{cols}", strides=f"{cols},1"),
        ot=VIEW.format(shape=rows, full=rows, strides="1"),
    )  # fmt: skip
    ptx = tileiras.compile(text, "sm_80", emit="ptx").ptx
    assert "bar.sync" not in ptx and ".shared" not in ptx and "shfl.sync" in ptx
    assert ptx.count("ld.global.v4.b32") >= 2 and "ld.global.b32" not in ptx
    rng = np.random.default_rng(1)
    x = rng.integers(-8, 8, (rows, cols)).astype(np.float32)
    w = rng.integers(-8, 8, cols).astype(np.float32)
    out = np.zeros(rows, np.float32)
    tileiras.launch(text, "k", grid=(1, 1, 1), args=[x, w, out], target="emulator", gpu_name="sm_80")
    assert (out == x @ w).all()


PLACES = """cuda_tile.module @m { entry @k(%x: tile<ptr<f32>>, %f: tile<ptr<f32>>, %o: tile<ptr<f32>>) {
  %fv = make_tensor_view %f, shape = [32], strides = [1] : tensor_view<32xf32, strides=[1]>
  %fp = make_partition_view %fv : FT
  %oa = assume div_by<16>, %o : tile<ptr<f32>>
  %ov = make_tensor_view %oa, shape = [32, 64], strides = [64, 1] : tensor_view<32x64xf32, strides=[64,1]>
  %op = make_partition_view %ov : OT
  %i = constant <i32: 0> : tile<i32>
  %t = make_token : token
  %v, %r = load_view_tko weak %fp[%i] token = %t : FT, tile<i32> -> tile<32xf32>, token
  %l = floor %v : tile<32xf32>
  %a = subf %v, %l rounding<nearest_even> : tile<32xf32>
  %n = ftoi %l signed : tile<32xf32> -> tile<32xi32>
  %c = constant <i32: 64> : tile<32xi32>
  %m = muli %n, %c : tile<32xi32>
  %m1 = reshape %m : tile<32xi32> -> tile<32x1xi32>
  %m2 = broadcast %m1 : tile<32x1xi32> -> tile<32x64xi32>
  %j = iota : tile<64xi32>
  %j1 = reshape %j : tile<64xi32> -> tile<1x64xi32>
  %j2 = broadcast %j1 : tile<1x64xi32> -> tile<32x64xi32>
  %at = addi %m2, %j2 : tile<32x64xi32>
  %xa = assume div_by<16>, %x : tile<ptr<f32>>
  %x1 = reshape %xa : tile<ptr<f32>> -> tile<1x1xptr<f32>>
  %x2 = broadcast %x1 : tile<1x1xptr<f32>> -> tile<32x64xptr<f32>>
  %p = offset %x2, %at : tile<32x64xptr<f32>>, tile<32x64xi32> -> tile<32x64xptr<f32>>
  %g, %s = load_ptr_tko weak %p token = %t : tile<32x64xptr<f32>> -> tile<32x64xf32>, token
  %a1 = reshape %a : tile<32xf32> -> tile<32x1xf32>
  %a2 = broadcast %a1 : tile<32x1xf32> -> tile<32x64xf32>
  %y = mulf %g, %a2 rounding<nearest_even> : tile<32x64xf32>
  %d = store_view_tko weak %y, %op[%i, %i] token = %t : tile<32x64xf32>, OT, tile<i32> -> token
  MORE
  return } }""".replace("FT", VIEW.format(shape="32", full="32", strides="1")).replace(
    "OT", VIEW.format(shape="32x64", full="32x64", strides="64,1")
)
KEPT = """%e = store_view_tko weak %l, %fp[%i] token = %r : tile<32xf32>, FT, tile<i32> -> token""".replace(
    "FT", VIEW.format(shape="32", full="32", strides="1")
)


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("kept", [False, True])
def test_what_is_computed_from_places_is_computed_where_it_is_broadcast(gpu_name: str, kept: bool) -> None:
    """Numbers of rows and fractions: each thread computes its own, unless somebody else wants some of them."""
    text = PLACES.replace("MORE", KEPT if kept else "")
    ptx = tileiras.compile(text, gpu_name, emit="ptx").ptx
    assert ("bar.sync" in ptx) == kept == (".shared" in ptx)
    rng = np.random.default_rng(2)
    x = rng.integers(-8, 8, (50, 64)).astype(np.float32)
    f = (rng.integers(0, 50, 32) + rng.integers(0, 4, 32) / 4).astype(np.float32)
    want = x[f.astype(int)] * (f % 1)[:, None]
    for target in ("reference", "emulator"):
        out, places = np.zeros((32, 64), np.float32), f.copy()
        more = {"gpu_name": gpu_name, "check": True} if target == "emulator" else {}
        tileiras.launch(text, "k", grid=(1, 1, 1), args=[x, places, out], target=target, **more)
        assert (out == want).all() and (places == (np.floor(f) if kept else f)).all()


def test_warps_leave_the_reduced_dimension() -> None:
    """[16, 512] of bf16, vectors of 8: bits 0 to 8 are a row."""
    layout = blocked((16, 512), (1, 0), 3, 2)
    assert layout.warp == (256, 512) and layout.reg == (1, 2, 4, 1024, 2048, 4096)
    moved = within_warps(layout, 511, 3)
    assert moved.warp == (4096, 512) and moved.reg == (1, 2, 4, 1024, 2048, 256) and moved.lane == layout.lane
    flat = blocked((1, 4096), (1, 0), 3, 2)
    assert within_warps(flat, 4095, 3) is flat
    column = LinearLayout(6, (32, 1), (2, 4, 8, 0, 0), (16,))
    assert within_warps(column, 16, 2) is column  # the vector's registers stay


COLUMN_SUM = """cuda_tile.module @m {{
  entry @k(%a: tile<ptr<{elem}>>, %b: tile<ptr<{elem}>>, %c: tile<ptr<f32>>, %o: tile<ptr<f32>>) {{
  %aa = assume div_by<16>, %a : tile<ptr<{elem}>>
  %ba = assume div_by<16>, %b : tile<ptr<{elem}>>
  %av = make_tensor_view %aa, shape = [{m}, {depth}], strides = [{pitch}, 1] :
    tensor_view<{m}x{depth}x{elem}, strides=[{pitch},1]>
  %bv = make_tensor_view %ba, shape = [{depth}, {n}], strides = [{n}, 1] : tensor_view<{depth}x{n}x{elem}, strides=[{n},1]>
  %cv = make_tensor_view %c, shape = [{m}, {n}], strides = [{n}, 1] : tensor_view<{m}x{n}xf32, strides=[{n},1]>
  %ov = make_tensor_view %o, shape = [{n}], strides = [1] : tensor_view<{n}xf32, strides=[1]>
  %ap = make_partition_view %av : {at}
  %bp = make_partition_view %bv : {bt}
  %cp = make_partition_view %cv : {ct}
  %op = make_partition_view %ov : {ot}
  %t = make_token : token
  %i = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %steps = constant <i32: {steps}> : tile<i32>
  %zero = constant <f32: 0.0> : tile<{m}x{n}xf32>
  %none = constant <f32: 0.0> : tile<{n}xf32>
  %d:2 = for %k in (%i to %steps, step %one) : tile<i32> iter_values(%acc = %zero, %had = %none)
      -> (tile<{m}x{n}xf32>, tile<{n}xf32>) {{
    %x, %r = load_view_tko weak %ap[%i, %k] token = %t : {at}, tile<i32> -> tile<{m}x{kk}x{elem}>, token
    %y, %q = load_view_tko weak %bp[%k, %i] token = %t : {bt}, tile<i32> -> tile<{kk}x{n}x{elem}>, token
    %p = mmaf %x, %y, %acc : tile<{m}x{kk}x{elem}>, tile<{kk}x{n}x{elem}>, tile<{m}x{n}xf32>
    %f = ftof %y : tile<{kk}x{n}x{elem}> -> tile<{kk}x{n}xf32>
    %s = reduce %f dim=0 identities=[0.0 : f32] : tile<{kk}x{n}xf32> -> tile<{n}xf32>
    (%u: tile<f32>, %v: tile<f32>) {{
      %sum = addf %u, %v rounding<nearest_even> : tile<f32>
      yield %sum : tile<f32>
    }}
    %e = addf %had, %s rounding<nearest_even> : tile<{n}xf32>
    continue %p, %e : tile<{m}x{n}xf32>, tile<{n}xf32>
  }}
  %w = store_view_tko weak %d#0, %cp[%i, %i] token = %t : tile<{m}x{n}xf32>, {ct}, tile<i32> -> token
  %z = store_view_tko weak %d#1, %op[%i] token = %t : tile<{n}xf32>, {ot}, tile<i32> -> token
  return }} }}"""


def column_sum(elem: str, m: int, n: int, k: int, steps: int, short: int) -> tuple[str, int]:
    """A product, and the sums of its right operand's columns beside; the rows that K has, `short` less than whole steps."""
    depth, pitch = k * steps - short, k * steps
    view = "partition_view<tile=({tile}){pad}, tensor_view<{full}x{elem}, strides=[{strides}]>>"
    pad = ", padding_value = zero"
    return COLUMN_SUM.format(
        elem=elem, m=m, n=n, kk=k, depth=depth, pitch=pitch, steps=steps,
        at=view.format(tile=f"{m}x{k}", pad=pad, full=f"{m}x{depth}", elem=elem, strides=f"{pitch},1"),
        bt=view.format(tile=f"{k}x{n}", pad=pad, full=f"{depth}x{n}", elem=elem, strides=f"{n},1"),
        ct=view.format(tile=f"{m}x{n}", pad="", full=f"{m}x{n}", elem="f32", strides=f"{n},1"),
        ot=view.format(tile=n, pad="", full=n, elem="f32", strides="1"),
    ), depth  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize(
    ("elem", "m", "n", "k", "short"),
    [("bf16", 128, 128, 64, 0), ("f16", 128, 64, 32, 5), ("f16", 64, 256, 16, 0), ("bf16", 64, 64, 128, 17)],
)
def test_sums_of_columns_beside_a_product(
    gpu_name: str, elem: str, m: int, n: int, k: int, short: int
) -> None:
    """Each warp reads whole columns by ldmatrix.trans, and no thread of the loop writes to shared memory."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    text, depth = column_sum(elem, m, n, k, 5, short)
    rng = np.random.default_rng(3)
    dtype = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}[elem]
    a = rng.integers(-4, 5, (m, 5 * k)).astype(dtype)
    b = rng.integers(-4, 5, (depth, n)).astype(dtype)
    left, right = a[:, :depth].astype(np.float32), b.astype(np.float32)
    for target in ("reference", "emulator"):
        c, sums = np.zeros((m, n), np.float32), np.zeros(n, np.float32)
        more = {"gpu_name": gpu_name, "check": True} if target == "emulator" else {}
        tileiras.launch(text, "k", grid=(1, 1, 1), args=[a, b, c, sums], target=target, **more)
        assert (c == left @ right).all() and (sums == right.sum(0)).all(), target
    ptx = tileiras.compile(text, gpu_name, emit="ptx").ptx
    assert "ldmatrix.sync.aligned.m8n8.x4.trans" in ptx
    assert not any("st.shared" in loop for loop in loops_of(ptx)), "sums cross warps"


def test_a_warp_has_whole_columns() -> None:
    """[64, 128]: bits 0 to 6 are a row, of which each of four warps has 32; eight threads a matrix's columns, four its rows."""
    layout = down_columns((64, 128), 0b1111110000000, 2)
    assert layout == LinearLayout(13, (128, 8, 16, 1024, 2048, 4096), (256, 512, 1, 2, 4), (32, 64))
    assert down_columns((64, 128), 127, 2) is None  # rows are reduced
    assert down_columns((64, 16), 0b1111110000, 2) is None  # four columns a warp
    assert down_columns((4, 128), 0b110000000, 2) is None  # no rows for a matrix
