"""What is made of the numbers of elements alone is known when code is made, where a thread has all of them."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras
from tests.corpus.case import place
from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES

NUMBERS = [-7, -1, 0, 1, 5, 8, 2**31 - 1, -(2**31)]
EIGHT = "tile<8xi32>"
OPS = {
    "divi_down": "divi %x, %y signed rounding<negative_inf>",
    "divi_up": "divi %x, %y signed rounding<positive_inf>",
    "divi_to_zero": "divi %x, %y signed rounding<zero>",
    "divi_unsigned_up": "divi %x, %y unsigned rounding<positive_inf>",
    "remi": "remi %x, %y signed",
    "remi_unsigned": "remi %x, %y unsigned",
    "shri": "shri %x, %z signed",
    "shri_unsigned": "shri %x, %z unsigned",
}
CONDITIONS = {
    "and": "andi %less, %odd",
    "or": "ori %less, %odd",
    "xor": "xori %less, %odd",
}


def kernel(body: str, by: int) -> str:
    listed = ", ".join(map(str, NUMBERS))
    return f"""cuda_tile.module @m {{
  entry @k(%o: tile<ptr<i32>>) {{
    %x = constant <i32: [{listed}]> : {EIGHT}
    %y = constant <i32: {by}> : {EIGHT}
    %z = constant <i32: {abs(by)}> : {EIGHT}
    %zero = constant <i32: 0> : {EIGHT}
    %one = constant <i32: 1> : {EIGHT}
    {body}
    %at = iota : {EIGHT}
    %r = reshape %o : tile<ptr<i32>> -> tile<1xptr<i32>>
    %b = broadcast %r : tile<1xptr<i32>> -> tile<8xptr<i32>>
    %p = offset %b, %at : tile<8xptr<i32>>, {EIGHT} -> tile<8xptr<i32>>
    %t = store_ptr_tko weak %p, %v : tile<8xptr<i32>>, {EIGHT} -> token
    return
  }}
}}"""


def results(text: str, target: str) -> list[int]:
    out = place(np.zeros(8, np.int32))
    tileiras.launch(text, "k", grid=(1, 1, 1), args=[out], target=target, gpu_name="sm_80")
    return [int(x) for x in out]


@pytest.mark.parametrize("by", [1, 3, -3, 4])
@pytest.mark.parametrize("name", OPS)
def test_constants_are_divided_and_shifted_as_the_reference_does(name: str, by: int) -> None:
    if "shri" in name and by < 0:
        by = 31
    text = kernel(f"%v = {OPS[name]} : {EIGHT}", by)
    assert results(text, "emulator") == results(text, "reference")


@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions_of_constants_choose_as_the_reference_does(name: str) -> None:
    body = f"""%less = cmpi less_than %x, %y, signed : {EIGHT} -> tile<8xi1>
    %bit = andi %x, %one : {EIGHT}
    %odd = cmpi not_equal %bit, %zero, signed : {EIGHT} -> tile<8xi1>
    %c = {CONDITIONS[name]} : tile<8xi1>
    %v = select %c, %x, %y : tile<8xi1>, {EIGHT}"""
    text = kernel(body, 3)
    assert results(text, "emulator") == results(text, "reference")


@pytest.mark.parametrize("name", ["packed_words", "packed_words_apart"])
def test_words_are_unpacked_in_pairs_whatever_the_order_of_their_numbers(name: str) -> None:
    source = bytecode_path(CASES[name]).read_bytes()
    ptx = tileiras.compile(source, gpu_name="sm_90", launch_abi="simt", emit="ptx").ptx
    assert ptx is not None and "cvt.rn.f16.s32" not in ptx and "fma.rn.f16x2" in ptx
