"""Bits of words: what masks and shifts of each other leave, and how few bits less a constant become 16-bit floats in pairs."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import ml_dtypes
import numpy as np

import tileiras

ROWS, BYTES = 16, 32
KINDS = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}
# what is taken from a byte, in two halves: lines with %w, and a NumPy formula for each
BITS: dict[str, tuple[str, Any]] = {
    "nibbles": ("%lo = andi %w, %m15 : T8\n%hi = shri %w, %c4 unsigned : T8", lambda w: (w & 15, w >> 4)),
    "three bits": (
        "%s = shri %w, %c1 unsigned : T8\n%lo = andi %s, %m7 : T8\n%t = shri %w, %c4 unsigned : T8\n%hi = andi %t, %m7 : T8",
        lambda w: (w >> 1 & 7, w >> 4 & 7),
    ),
    "one masked twice": (
        "%s = andi %w, %m15 : T8\n%lo = andi %s, %m7 : T8\n%t = andi %w, %m15 : T8\n%hi = shri %t, %c1 unsigned : T8",
        lambda w: (w & 7, (w & 15) >> 1),
    ),
}


def kernel(kind: str, bits: str, less: int) -> str:
    """out = pairs of (lo - less, hi - less) of every byte."""
    lines = BITS[bits][0].replace("T8", "tile<16x32xi8>")
    constants = "\n".join(
        f"%{name} = constant <i8: {value}> : tile<16x32xi8>"
        for name, value in (("m15", 15), ("m7", 7), ("c4", 4), ("c1", 1))
    )
    halves = "\n".join(
        f"""%{x}32 = exti %{x} unsigned : tile<16x32xi8> -> tile<16x32xi32>
%{x}d = subi %{x}32, %less : tile<16x32xi32>
%{x}r = reshape %{x}d : tile<16x32xi32> -> tile<16x32x1xi32>"""
        for x in ("lo", "hi")
    )
    of = "partition_view<tile=(16x32), tensor_view<16x32xi8, strides=[32,1]>>"
    into = f"tensor_view<16x64x{kind}, strides=[64,1]>"
    parts = f"partition_view<tile=(16x64), {into}>"
    return f"""cuda_tile.module @m {{
entry @k(%in: tile<ptr<i8>>, %out: tile<ptr<{kind}>>) {{
%zero = constant <i32: 0> : tile<i32>
%a = assume div_by<16>, %in : tile<ptr<i8>>
%iv = make_tensor_view %a, shape = [16, 32], strides = [32, 1] : tensor_view<16x32xi8, strides=[32,1]>
%ip = make_partition_view %iv : {of}
%w, %read = load_view_tko weak %ip[%zero, %zero] : {of}, tile<i32> -> tile<16x32xi8>, token
{constants}
%less = constant <i32: {less}> : tile<16x32xi32>
{lines}
{halves}
%both = cat %lor, %hir dim = 2 : tile<16x32x1xi32>, tile<16x32x1xi32> -> tile<16x32x2xi32>
%all = reshape %both : tile<16x32x2xi32> -> tile<16x64xi32>
%f = itof %all signed : tile<16x64xi32> -> tile<16x64x{kind}>
%ov = make_tensor_view %out, shape = [16, 64], strides = [64, 1] : {into}
%op = make_partition_view %ov : {parts}
%done = store_view_tko weak %f, %op[%zero, %zero] : tile<16x64x{kind}>, {parts}, tile<i32> -> token
}}
}}
"""


@pytest.mark.parametrize("gpu_name", ["sm_75", "sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("less", [0, 8, -3, 127, 1000, -200])
@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_byte_becomes_the_right_numbers(kind: str, bits: str, less: int, gpu_name: str) -> None:
    words = np.arange(ROWS * BYTES, dtype=np.int64).astype(np.uint8).reshape(ROWS, BYTES)
    out = np.full((ROWS, 2 * BYTES), 7, KINDS[kind])
    args = [words.view(np.int8), out]
    tileiras.launch(kernel(kind, bits, less), "k", 1, args, target="emulator", gpu_name=gpu_name)
    lo, hi = BITS[bits][1](words.astype(np.int64))
    expected = (np.stack([lo, hi], -1).reshape(ROWS, -1) - less).astype(np.float32).astype(KINDS[kind])
    assert (out.view(np.uint16) == expected.view(np.uint16)).all()


@pytest.mark.parametrize(
    ("kind", "gpu_name", "form"), [("bf16", "sm_80", "bf16x2"), ("f16", "sm_75", "f16x2")]
)
def test_nibbles_are_converted_in_pairs(kind: str, gpu_name: str, form: str) -> None:
    ptx = tileiras.compile(kernel(kind, "nibbles", 8), gpu_name=gpu_name, emit="ptx").ptx
    assert ptx.count(f"fma.rn.{form}") * 2 == 2 * ROWS * BYTES // 128 and "cvt.rn" not in ptx
    # 128 + n, less 1000, is no number of eight bits; nor has sm_75 fma.bf16x2
    for kind, less, gpu_name in (("bf16", 1000, "sm_80"), ("bf16", 8, "sm_75")):
        ptx = tileiras.compile(kernel(kind, "nibbles", less), gpu_name=gpu_name, emit="ptx").ptx
        assert "bf16x2 " not in ptx.replace("cvt.rn.bf16x2", "") and "cvt.rn" in ptx
