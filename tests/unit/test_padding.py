"""What a masked load leaves where nothing is read: the padding, put there before the load and not again after it."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tileiras

VIEW = "partition_view<tile=(1024), padding_value = {pad}, tensor_view<?x{elem}, strides=[1]>>"
OUT = "partition_view<tile=(1024), tensor_view<?x{elem}, strides=[1]>>"
KERNEL = """cuda_tile.module @m {{ entry @k(%x: tile<ptr<{elem}>>, %o: tile<ptr<{elem}>>, %n: tile<i32>, %m: tile<i32>) {{
  %xa = assume div_by<16>, %x : tile<ptr<{elem}>>
  %oa = assume div_by<16>, %o : tile<ptr<{elem}>>
  %na = assume bounded<0, ?>, %n : tile<i32>
  %size = assume div_by<16>, %na : tile<i32>
  %ma = assume bounded<0, ?>, %m : tile<i32>
  %whole = assume div_by<16>, %ma : tile<i32>
  %in = make_tensor_view %xa, shape = [%size], strides = [1] : tile<i32> -> tensor_view<?x{elem}, strides=[1]>
  %out = make_tensor_view %oa, shape = [%whole], strides = [1] : tile<i32> -> tensor_view<?x{elem}, strides=[1]>
  %a = make_partition_view %in : {view}
  %b = make_partition_view %out : {outview}
  %i = constant <i32: 0> : tile<i32>
  %t = make_token : token
  %v, %r = load_view_tko weak %a[%i] token = %t : {view}, tile<i32> -> tile<1024x{elem}>, token
  %w = store_view_tko weak %v, %b[%i] token = %r : tile<1024x{elem}>, {outview}, tile<i32> -> token
  return }} }}"""


@pytest.mark.parametrize(
    ("elem", "pad", "bits"),
    [
        ("f16", "neg_inf", 0xFC00),
        ("bf16", "nan", 0x7FC0),
        ("bf16", "zero", 0),
        ("i8", "zero", 0),
        ("f8E5M2", "neg_zero", 0x80),
    ],
)
def test_padding_is_there_before_the_load(elem: str, pad: str, bits: int) -> None:
    view, outview = VIEW.format(elem=elem, pad=pad), OUT.format(elem=elem)
    text = KERNEL.format(elem=elem, view=view, outview=outview)
    ptx = tileiras.compile(text, "sm_80", emit="ptx").ptx
    assert re.search(r"@%p\d+ ld\.global\.v[24]\.b32", ptx) and "selp" not in ptx
    dtype = np.uint8 if elem in ("i8", "f8E5M2") else np.uint16
    x = np.arange(1, 1025).astype(dtype)
    out = np.zeros(1024, dtype)
    args = [x, out, np.int32(48), np.int32(1024)]
    tileiras.launch(text, "k", grid=(1, 1, 1), args=args, target="emulator", gpu_name="sm_80")
    assert (out[:48] == x[:48]).all() and (out[48:] == bits).all()


COPY = """cuda_tile.module @m {{ entry @k(%x: tile<ptr<f32>>, %o: tile<ptr<f32>>, %i: tile<{index}>) {{
  %z = constant <{index}: 0> : tile<{index}>
  %in = make_tensor_view %x, shape = [{rows}, {cols}], strides = [{cols}, 1] : tensor_view<{rows}x{cols}xf32, strides=[{cols},1]>
  %out = make_tensor_view %o, shape = [{m}, {n}], strides = [{n}, 1] : tensor_view<{m}x{n}xf32, strides=[{n},1]>
  %a = make_partition_view %in : {view}
  %b = make_partition_view %out : {outview}
  %v, %r = load_view_tko weak %a[%i, %z] : {view}, tile<{index}> -> tile<{m}x{n}xf32>, token
  %d = addf %v, %v : tile<{m}x{n}xf32>
  %w = store_view_tko weak %d, %b[%z, %z] : tile<{m}x{n}xf32>, {outview}, tile<{index}> -> token
  return }} }}"""


@pytest.mark.parametrize("index", ["i32", "i64", "i16"])
@pytest.mark.parametrize("target", ["reference", "cpu", "sm_80", "sm_90", "sm_120"])
@pytest.mark.parametrize(
    ("rows", "cols", "m", "n", "i"),
    [(48, 64, 8, 64, 5), (48, 64, 8, 64, 6), (48, 64, 8, 64, -1), (32, 2048, 64, 2048, 0), (96, 1024, 64, 2048, 1)],
    ids=["last", "beyond", "negative", "huge tile with rows outside", "huge tile with columns outside"],
)  # fmt: skip
def test_extents_that_are_known_bound_what_is_read(
    rows: int, cols: int, m: int, n: int, i: int, target: str, index: str
) -> None:
    """A tile that lies outside as a whole, and slices of one that lies outside in part, are padding."""
    view = f"partition_view<tile=({m}x{n}), padding_value = zero, tensor_view<{rows}x{cols}xf32, strides=[{cols},1]>>"
    outview = f"partition_view<tile=({m}x{n}), tensor_view<{m}x{n}xf32, strides=[{n},1]>>"
    text = COPY.format(rows=rows, cols=cols, m=m, n=n, index=index, view=view, outview=outview)
    # what lies behind the array is no padding
    memory = np.arange(1, rows * cols + 4 * m * n + 1).astype("f4")
    x, out = memory[: rows * cols].reshape(rows, cols), np.full((m, n), 7, "f4")
    gpu = {"gpu_name": target} if target.startswith("sm") else {}
    number = {"i16": np.int16, "i32": np.int32, "i64": np.int64}[index](i)
    tileiras.launch(
        text, "k", grid=(1, 1, 1), args=[x, out, number], memory=[memory],
        target="emulator" if gpu else target, **gpu,
    )  # fmt: skip
    want = np.zeros((m, n), "f4")
    part = x[i * m : (i + 1) * m] if i >= 0 else x[:0]
    want[: part.shape[0], :cols] = 2 * part[:, :n]
    assert (out == want).all()


@pytest.mark.parametrize("target", ["reference", "cpu", "sm_80", "sm_90"])
def test_loops_that_begin_below_zero_read_padding_first(target: str) -> None:
    view = "partition_view<tile=(8x64), padding_value = zero, tensor_view<48x64xf32, strides=[64,1]>>"
    text = f"""cuda_tile.module @m {{ entry @k(%x: tile<ptr<f32>>, %o: tile<ptr<f32>>) {{
      %z = constant <i32: 0> : tile<i32>
      %one = constant <i32: 1> : tile<i32>
      %low = constant <i32: -1> : tile<i32>
      %end = constant <i32: 3> : tile<i32>
      %none = constant <f32: 0.0> : tile<8x64xf32>
      %in = make_tensor_view %x, shape = [48, 64], strides = [64, 1] : tensor_view<48x64xf32, strides=[64,1]>
      %out = make_tensor_view %o, shape = [48, 64], strides = [64, 1] : tensor_view<48x64xf32, strides=[64,1]>
      %a = make_partition_view %in : {view}
      %b = make_partition_view %out : {view}
      %s = for %i in (%low to %end, step %one) : tile<i32> iter_values(%c = %none) -> (tile<8x64xf32>) {{
        %v, %r = load_view_tko weak %a[%i, %z] : {view}, tile<i32> -> tile<8x64xf32>, token
        %n = addf %c, %v : tile<8x64xf32>
        continue %n : tile<8x64xf32>
      }}
      %w = store_view_tko weak %s, %b[%z, %z] : tile<8x64xf32>, {view}, tile<i32> -> token
      return }} }}"""
    memory = np.arange(1, 64 * 64 + 1).astype("f4")
    x, out = memory[8 * 64 : 56 * 64].reshape(48, 64), np.full((48, 64), 7, "f4")
    gpu = {"gpu_name": target} if target.startswith("sm") else {}
    tileiras.launch(
        text, "k", grid=(1, 1, 1), args=[x, out], memory=[memory], target="emulator" if gpu else target, **gpu
    )
    assert (out[:8] == x[:24].reshape(3, 8, 64).sum(0)).all()
