"""Constants leave 32-bit indices for the immediates of accesses only where the mask says that the sums do not wrap."""

import re

import numpy as np
import pytest

import tileiras

TEXT = """cuda_tile.module @m {{
  entry @k(%a: tile<ptr<f32>>, %count: tile<i32>, %start: tile<i32>, %out: tile<ptr<f32>>) {{
    %n = {bounded} : tile<i32>
    %lanes = iota : tile<1024xi32>
    %s1 = reshape %start : tile<i32> -> tile<1xi32>
    %s = broadcast %s1 : tile<1xi32> -> tile<1024xi32>
    %i = addi %s, %lanes : tile<1024xi32>
    %w = exti %i signed : tile<1024xi32> -> tile<1024xi64>
    %nw = exti %n signed : tile<i32> -> tile<i64>
    %n1 = reshape %nw : tile<i64> -> tile<1xi64>
    %limit = broadcast %n1 : tile<1xi64> -> tile<1024xi64>
    %inside = cmpi less_than %w, %limit, {sign} : tile<1024xi64> -> tile<1024xi1>
    %a1 = reshape %a : tile<ptr<f32>> -> tile<1xptr<f32>>
    %as = broadcast %a1 : tile<1xptr<f32>> -> tile<1024xptr<f32>>
    %p = offset %as, %w : tile<1024xptr<f32>>, tile<1024xi64> -> tile<1024xptr<f32>>
    %zero = constant <f32: -1.0> : tile<1024xf32>
    %t = make_token : token
    %x, %t2 = load_ptr_tko weak %p, %inside, %zero token=%t
      : tile<1024xptr<f32>>, tile<1024xi1>, tile<1024xf32> -> tile<1024xf32>, token
    %o1 = reshape %out : tile<ptr<f32>> -> tile<1xptr<f32>>
    %os = broadcast %o1 : tile<1xptr<f32>> -> tile<1024xptr<f32>>
    %q = offset %os, %lanes : tile<1024xptr<f32>>, tile<1024xi32> -> tile<1024xptr<f32>>
    %t3 = store_ptr_tko weak %q, %x token=%t2 : tile<1024xptr<f32>>, tile<1024xf32> -> token
    return
  }}
}}"""
BOUNDED = "assume bounded<0, ?>, %count"
FREE = "assume bounded<?, 100000>, %count"


def bases(text: str) -> int:
    """Registers that the loads of a kernel address by."""
    return len(set(re.findall(r"ld\.global\S* \S+, \[(%d\d+)", text)))


def test_one_address_serves_all_accesses_under_a_mask_that_bounds_the_index() -> None:
    text = TEXT.format(bounded=BOUNDED, sign="unsigned")
    assert bases(tileiras.compile(text, gpu_name="sm_80").ptx) == 1


@pytest.mark.parametrize(("bounded", "sign"), [(FREE, "unsigned"), (BOUNDED, "signed")])
def test_an_index_that_may_wrap_keeps_its_own_address(bounded: str, sign: str) -> None:
    text = TEXT.format(bounded=bounded, sign=sign)
    assert bases(tileiras.compile(text, gpu_name="sm_80").ptx) == 8


@pytest.mark.parametrize("start", [-700, -1024, 0, 500, 2**31 - 300, -(2**31)])
def test_starts_outside_the_array_and_sums_that_wrap(start: int) -> None:
    source = np.arange(1000, dtype=np.float32)
    out = np.zeros(1024, np.float32)
    args = [source, np.int32(900), np.int32(start), out]
    text = TEXT.format(bounded=BOUNDED, sign="unsigned")
    tileiras.launch(text, "k", grid=(1, 1, 1), args=args, target="emulator", gpu_name="sm_80", check=True)
    index = np.arange(1024, dtype=np.int64) + start
    want = [source[i] if 0 <= i < 900 else -1 for i in np.where(index >= 2**31, -1, index)]
    np.testing.assert_array_equal(out, np.array(want, np.float32))
