"""Integers that are bytes of words are added four an instruction where a thread has them side by side."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy")

import numpy as np

import tileiras

ROWS, COLUMNS = 16, 256
OF, INTO = "tensor_view<16x256xi8, strides=[256,1]>", "tensor_view<16xi32, strides=[1]>"
PARTS, SUMS = (f"partition_view<tile=({tile}), {view}>" for tile, view in (("16x256", OF), ("16", INTO)))


def kernel(signedness: str, more: str) -> str:
    """out = sums of rows of %y, which `more` makes of %x, numbers of bytes."""
    return f"""cuda_tile.module @m {{
entry @k(%in: tile<ptr<i8>>, %out: tile<ptr<i32>>) {{
%zero = constant <i32: 0> : tile<i32>
%eight = constant <i32: 8> : tile<16x256xi32>
%a = assume div_by<16>, %in : tile<ptr<i8>>
%iv = make_tensor_view %a, shape = [16, 256], strides = [256, 1] : {OF}
%ov = make_tensor_view %out, shape = [16], strides = [1] : {INTO}
%ip = make_partition_view %iv : {PARTS}
%op = make_partition_view %ov : {SUMS}
%w, %t0 = load_view_tko weak %ip[%zero, %zero] : {PARTS}, tile<i32> -> tile<16x256xi8>, token
%x = exti %w {signedness} : tile<16x256xi8> -> tile<16x256xi32>
{more}
%sum = reduce %y dim=1 identities=[0 : i32] : tile<16x256xi32> -> tile<16xi32>
(%left: tile<i32>, %right: tile<i32>) {{
  %both = addi %left, %right : tile<i32>
  yield %both : tile<i32>
}}
%t1 = store_view_tko weak %sum, %op[%zero] : tile<16xi32>, {SUMS}, tile<i32> -> token
}}
}}
"""


NUMBERS = {
    "as they are": ("%y = addi %x, %none : tile<16x256xi32>", lambda x: x),
    "less a number": ("%y = subi %x, %eight : tile<16x256xi32>", lambda x: x - 8),
    "shifted": ("%y = shri %x, %four signed : tile<16x256xi32>", lambda x: x >> 4),
}


@pytest.mark.parametrize("gpu_name", ["sm_75", "sm_90", "sm_100"])
@pytest.mark.parametrize("how", NUMBERS)
@pytest.mark.parametrize("signedness", ["signed", "unsigned"])
def test_sums_are_right(signedness: str, how: str, gpu_name: str) -> None:
    more, formula = NUMBERS[how]
    constants = "\n".join(
        f"%{name} = constant <i32: {value}> : tile<16x256xi32>" for name, value in (("none", 0), ("four", 4))
    )
    text = kernel(signedness, f"{constants}\n{more}")
    data = np.random.default_rng(2).integers(-128, 128, (ROWS, COLUMNS)).astype(np.int8)
    out = np.full(ROWS, 7, np.int32)
    tileiras.launch(text, "k", 1, [data, out], target="emulator", gpu_name=gpu_name, check=True)
    numbers = data if signedness == "signed" else data.view(np.uint8)
    assert np.array_equal(out, formula(numbers.astype(np.int64)).sum(1))


@pytest.mark.parametrize("signedness", ["signed", "unsigned"])
def test_four_bytes_are_one_instruction(signedness: str) -> None:
    text = kernel(signedness, "%none = constant <i32: 0> : tile<16x256xi32>\n" + NUMBERS["as they are"][0])
    ptx = tileiras.compile(text, gpu_name="sm_90", emit="ptx").ptx
    assert ptx.count("dp4a.") == ROWS * COLUMNS // 128 // 4
