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
