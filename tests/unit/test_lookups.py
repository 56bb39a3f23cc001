"""Loops of products whose operands are looked up in a table by codes that the same step loads: codes are copied ahead, tables
are read in the step."""

from __future__ import annotations

import re
from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras
from tests.corpus.case import place
from tests.ptx_loops import loops_of

TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")
STEPS, M, N, K = 5, 64, 64, 32
X, Y, F32, I32 = "tile<64x32xf16>", "tile<32x64xf16>", "tile<64x64xf32>", "tile<32x64xi32>"
AT = "partition_view<tile=(64x32), tensor_view<64x160xf16, strides=[160,1]>>"
WT = "partition_view<tile=(32x64), tensor_view<160x64xi8, strides=[64,1]>>"
CT = "partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>"
P = "tile<32x64xptr<f16>>"
MASK = "%n = andi %wide, %fifteen : " + I32


def kernel(index: str = MASK, look: str = f"%y, %ty = load_ptr_tko weak %at : {P} -> {Y}, token", more: str = "",
           table: str = "", token: str = "", tail: str = "") -> str:  # fmt: skip
    """A product by what codes name; `index`: the place of a code's value, %n; `look`: how that is read."""
    return f"""cuda_tile.module @m {{
  entry @k(%a: tile<ptr<f16>>, %w: tile<ptr<i8>>, %table: tile<ptr<f16>>, %c: tile<ptr<f32>>) {{
    %pa = assume div_by<16>, %a : tile<ptr<f16>>
    %pw = assume div_by<16>, %w : tile<ptr<i8>>
    %av = make_tensor_view %pa, shape = [64, 160], strides = [160, 1] : tensor_view<64x160xf16, strides=[160,1]>
    %wv = make_tensor_view %pw, shape = [160, 64], strides = [64, 1] : tensor_view<160x64xi8, strides=[64,1]>
    %cv = make_tensor_view %c, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %ap = make_partition_view %av : {AT}
    %wp = make_partition_view %wv : {WT}
    %cp = make_partition_view %cv : {CT}
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %steps = constant <i32: {STEPS}> : tile<i32>
    %fifteen = constant <i32: 15> : {I32}
    %none = constant <f32: 0.0> : {F32}
    %first = reshape %table : tile<ptr<f16>> -> tile<1x1xptr<f16>>
    %begin = broadcast %first : tile<1x1xptr<f16>> -> {P}
    %v = make_token : token
    %sum, %last = for %k in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none, %tok = %v) -> ({F32}, token) {{
      %x, %tx = load_view_tko weak %ap[%zero, %k] : {AT}, tile<i32> -> {X}, token
      %code, %tw = load_view_tko weak %wp[%k, %zero] : {WT}, tile<i32> -> tile<32x64xi8>, token
      %wide = exti %code signed : tile<32x64xi8> -> {I32}
      {index}
      %at = offset %begin, %n : {P}, {I32} -> {P}
      {look}
      {more}
      %z = mmaf %x, %y, %acc : {X}, {Y}, {F32}
      continue %z, {token or "%tok"} : {F32}, token
    }}
    %done = store_view_tko weak %sum, %cp[%zero, %zero] : {F32}, {CT}, tile<i32> -> token
    return
  }}
}}
"""


def launched(text: str, target: str, **more: Any) -> Any:
    rng = np.random.default_rng(7)
    values: list[Any] = [
        place(rng.integers(-2, 3, (M, K * STEPS)).astype(np.float16)),
        place(rng.integers(-128, 128, (K * STEPS, N), dtype=np.int8)),
        place(rng.integers(-8, 9, 4096).astype(np.float16)),
        place(np.full((M, N), 0.5, np.float32)),
    ]
    x, w, table = (np.array(v) for v in values[:3])
    tileiras.launch(text, "k", grid=(1, 1, 1), args=values, target=target, **more)
    return values[3], x.astype("f4") @ table.astype("f4")[w & 15]


def remarks(text: str, gpu_name: str) -> dict[str, str]:
    program = tileiras.compile(text, gpu_name=gpu_name, remarks={"passed": "memory", "missed": "memory"})
    return {found.diag.code: found.message for found in program.diagnostics}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu_name", TARGETS)
def test_codes_run_ahead_and_the_table_is_read_in_the_step(gpu_name: str) -> None:
    text = kernel()
    said = remarks(text, gpu_name)
    assert "AS-0307" in said and "AS-0320" not in said and "AS-0323" in said, said
    loop = next(each for each in loops_of(tileiras.compile(text, gpu_name=gpu_name).ptx) if "mma" in each)
    assert "cp.async" in loop and len(re.findall(r"ld\.global\S*b16", loop)) == M * K // 2 // 128 * (N // 32)
    got, want = launched(text, "emulator", gpu_name=gpu_name, check=True, seed=1)
    assert np.array_equal(got, want)


@pytest.mark.parametrize("gpu_name", TARGETS[1:])
def test_with_tensor_maps(gpu_name: str) -> None:
    options = {"launch_abi": "simt", "tensor_maps": "launcher"}
    got, want = launched(kernel(), "emulator", gpu_name=gpu_name, check=True, **options)
    assert np.array_equal(got, want)


def test_a_left_operand_that_is_looked_up_has_buffers_of_its_own() -> None:
    """wgmma may still read the step before: what was looked up has no stage that it could be written back to."""
    text = (
        kernel()
        .replace("mmaf %x, %y, %acc", "mmaf %u, %q, %acc")
        .replace(f"{X}, {Y}, {F32}", f"tile<64x32xf16>, tile<32x64xf16>, {F32}")
    )
    text = text.replace(
        "%z =", f"%u = permute %y [1, 0] : {Y} -> {X}\n      %q = permute %x [1, 0] : {X} -> {Y}\n      %z ="
    )
    said = tileiras.compile(text, gpu_name="sm_90", remarks={"passed": "all"}).diagnostics
    assert any("the left operand written back to 2 buffers of its own" in found.message for found in said)
    for gpu_name in TARGETS:
        got, want = launched(text, "emulator", gpu_name=gpu_name, check=True, seed=2)
        assert np.array_equal(got, want.T), gpu_name


IN_ORDER = {
    "it waits for the step before": kernel(
        look=f"%y, %ty = load_ptr_tko weak %at token=%tok : {P} -> {Y}, token", token="%ty",
        more=f"%ts = store_view_tko weak %acc, %cp[%zero, %zero] token=%ty : {F32}, {CT}, tile<i32> -> token",
    ).replace("continue %z, %ty", "continue %z, %ts"),
    "it is no weak load": kernel(look=f"%y, %ty = load_ptr_tko relaxed device %at : {P} -> {Y}, token"),
}  # fmt: skip


@pytest.mark.parametrize("why", IN_ORDER)
def test_what_is_in_an_order_is_none(why: str) -> None:
    text = IN_ORDER[why]
    said = remarks(text, "sm_90")
    assert "AS-0323" not in said and "AS-0320" in said, said
    got, want = launched(text, "emulator", gpu_name="sm_90", check=True)
    assert np.array_equal(got, want) or "store" in text


def test_numbers_of_rows_are_none() -> None:
    """A code that names neighbours is copied an iteration earlier, and the neighbours by it."""
    text = kernel(
        index=f"""%code0, %tr = load_ptr_tko weak %rows : tile<32xptr<i8>> -> tile<32xi8>, token
      %r = exti %code0 signed : tile<32xi8> -> tile<32xi32>
      %r1 = reshape %r : tile<32xi32> -> tile<32x1xi32>
      %r2 = broadcast %r1 : tile<32x1xi32> -> {I32}
      %r3 = andi %r2, %fifteen : {I32}
      %r4 = muli %r3, %width : {I32}
      %n = addi %r4, %columns : {I32}"""
    )
    text = text.replace(
        "    %v = make_token",
        f"""    %i = iota : tile<32xi32>
    %w1 = reshape %pw : tile<ptr<i8>> -> tile<1xptr<i8>>
    %w2 = broadcast %w1 : tile<1xptr<i8>> -> tile<32xptr<i8>>
    %rows = offset %w2, %i : tile<32xptr<i8>>, tile<32xi32> -> tile<32xptr<i8>>
    %width = constant <i32: 64> : {I32}
    %j = iota : tile<64xi32>
    %j1 = reshape %j : tile<64xi32> -> tile<1x64xi32>
    %columns = broadcast %j1 : tile<1x64xi32> -> {I32}
    %v = make_token""",
    )
    said = remarks(text, "sm_90")
    assert "AS-0323" not in said and "AS-0307" in said, said
    got, _ = launched(text, "emulator", gpu_name="sm_90", check=True)
    assert np.array_equal(got, launched(text, "reference")[0])
