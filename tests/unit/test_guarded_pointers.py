"""Constants leave 32-bit indices for the immediates of accesses only where the mask says that the sums do not wrap."""

import re
from typing import Any

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


TWICE = (
    ("%nw = exti %n", "%j = addi %s, %lanes : tile<1024xi32>\n    %nw = exti %n"),
    ("%n1 = reshape %nw", "%v = exti %j signed : tile<1024xi32> -> tile<1024xi64>\n    %n1 = reshape %nw"),
    ("%inside = cmpi less_than %w,", "%inside = cmpi less_than %v,"),
)
ADDED = """%one = constant <f32: 1.0> : tile<1024xf32>
    %x, %t2 = atomic_rmw_tko relaxed device %p, addf, %one, %inside token=%t
      : tile<1024xptr<f32>>, tile<1024xf32>, tile<1024xi1> -> tile<1024xf32>, token
    return"""


def added(text: str) -> str:
    """The kernel with an atomic addition in the place of the load, and no result."""
    start = text.index("%x, %t2 = load_ptr_tko")
    return text[:start] + ADDED + "\n  }\n}"


def changed(text: str, changes: tuple[tuple[str, str], ...]) -> str:
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    return text


def test_an_index_that_the_mask_computes_for_itself_is_the_same() -> None:
    text = changed(TEXT.format(bounded=BOUNDED, sign="unsigned"), TWICE)
    assert bases(tileiras.compile(text, gpu_name="sm_80").ptx) == 1


def test_an_index_that_the_mask_computes_otherwise_is_another() -> None:
    text = changed(
        TEXT.format(bounded=BOUNDED, sign="unsigned"),
        (*TWICE, ("%j = addi %s, %lanes", "%j = subi %s, %lanes")),
    )
    assert bases(tileiras.compile(text, gpu_name="sm_80").ptx) == 8


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_90"])
def test_atomics_share_an_address_too(gpu_name: str) -> None:
    text = added(TEXT.format(bounded=BOUNDED, sign="unsigned"))
    ptx = tileiras.compile(text, gpu_name=gpu_name).ptx
    assert len(set(re.findall(r"(?:atom|red)\.\S+ (?:%\w+, )?\[(%d\d+)", ptx))) == 1
    free = added(TEXT.format(bounded=FREE, sign="unsigned"))
    ptx = tileiras.compile(free, gpu_name=gpu_name).ptx
    assert len(set(re.findall(r"(?:atom|red)\.\S+ (?:%\w+, )?\[(%d\d+)", ptx))) == 8


@pytest.mark.parametrize("start", [-700, 0, 500, 2**31 - 300, -(2**31)])
def test_atomics_outside_the_array_and_sums_that_wrap(start: int) -> None:
    source: Any = np.arange(1000, dtype=np.float32)
    args = [source, np.int32(900), np.int32(start), np.zeros(1, np.float32)]
    text = added(TEXT.format(bounded=BOUNDED, sign="unsigned"))
    tileiras.launch(text, "k", grid=(1, 1, 1), args=args, target="emulator", gpu_name="sm_80", check=True)
    index = np.arange(1024, dtype=np.int64) + start
    want = np.arange(1000, dtype=np.float32)
    want[index[(index >= 0) & (index < 900)]] += 1
    np.testing.assert_array_equal(source, want)


# Rows by a stride that is a parameter, columns beside each other: what an epilogue adds to a result by index.
TABLE = """cuda_tile.module @m {
  entry @k(%a: tile<ptr<f32>>, %count: tile<i32>, %row: tile<i32>, %stride: tile<i32>) {
    %n = assume bounded<0, ?>, %count : tile<i32>
    %lanes = iota : tile<64xi32>
    %s1 = reshape %row : tile<i32> -> tile<1xi32>
    %s = broadcast %s1 : tile<1xi32> -> tile<64xi32>
    %i = addi %s, %lanes : tile<64xi32>
    %w = exti %i signed : tile<64xi32> -> tile<64xi64>
    %r1 = reshape %w : tile<64xi64> -> tile<64x1xi64>
    %rows = broadcast %r1 : tile<64x1xi64> -> tile<64x64xi64>
    %c0 = exti %lanes signed : tile<64xi32> -> tile<64xi64>
    %c1 = reshape %c0 : tile<64xi64> -> tile<1x64xi64>
    %columns = broadcast %c1 : tile<1x64xi64> -> tile<64x64xi64>
    %t64 = exti %stride signed : tile<i32> -> tile<i64>
    %t1 = reshape %t64 : tile<i64> -> tile<1x1xi64>
    %strides = broadcast %t1 : tile<1x1xi64> -> tile<64x64xi64>
    %at = muli %rows, %strides : tile<64x64xi64>
    %place = addi %at, %columns : tile<64x64xi64>
    %nw = exti %n signed : tile<i32> -> tile<i64>
    %n1 = reshape %nw : tile<i64> -> tile<1x1xi64>
    %limit = broadcast %n1 : tile<1x1xi64> -> tile<64x64xi64>
    %high = cmpi less_than %rows, %limit, unsigned : tile<64x64xi64> -> tile<64x64xi1>
    %wide = cmpi less_than %columns, %limit, unsigned : tile<64x64xi64> -> tile<64x64xi1>
    %inside = andi %high, %wide : tile<64x64xi1>
    %a1 = reshape %a : tile<ptr<f32>> -> tile<1x1xptr<f32>>
    %as = broadcast %a1 : tile<1x1xptr<f32>> -> tile<64x64xptr<f32>>
    %p = offset %as, %place : tile<64x64xptr<f32>>, tile<64x64xi64> -> tile<64x64xptr<f32>>
    %one = constant <f32: 1.0> : tile<64x64xf32>
    %t = make_token : token
    %x, %t2 = atomic_rmw_tko relaxed device %p, addf, %one, %inside token=%t
      : tile<64x64xptr<f32>>, tile<64x64xf32>, tile<64x64xi1> -> tile<64x64xf32>, token
    return
  }
}"""


def test_columns_of_a_row_share_an_address_where_its_stride_is_a_parameter() -> None:
    ptx = tileiras.compile(TABLE, gpu_name="sm_80").ptx
    places = re.findall(r"(?:atom|red)\.\S+ (?:%\w+, )?\[(%d\d+)", ptx)
    assert len(places) >= 2 * len(set(places))


@pytest.mark.parametrize("row", [0, -20, 30])
def test_rows_outside_of_a_table(row: int) -> None:
    table: Any = np.zeros((70, 80), np.float32)
    args = [table, np.int32(50), np.int32(row), np.int32(80)]
    tileiras.launch(TABLE, "k", grid=(1, 1, 1), args=args, target="emulator", gpu_name="sm_80", check=True)
    want = np.zeros((70, 80), np.float32)
    want[max(row, 0) : min(row + 64, 50), :50] = 1
    np.testing.assert_array_equal(table, want)
