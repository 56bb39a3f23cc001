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


# of bytes of two's complement: %w is the tile, %x what is converted; and of words of four bits less others: %p and %q of a byte
SIGNED: dict[str, tuple[str, Any]] = {
    "bytes": ("%x = addi %w, %c0 : T8", lambda w: w.view(np.int8)),
    "bytes less a constant": ("%x = subi %w, %c8 : T8", lambda w: (w - 8).view(np.int8)),
    "nibbles less a constant": (
        "%l = andi %w, %c15 : T8\n%x = subi %l, %c8 : T8",
        lambda w: (w & 15).astype(int) - 8,
    ),
    "nibbles that wrap": (
        "%l = andi %w, %c15 : T8\n%x = addi %l, %c120 : T8",
        lambda w: ((w & 15) + 120).view(np.int8),
    ),
}
LESS: dict[str, tuple[str, Any]] = {
    "one tile": ("%x = subi %p, %q : T32", lambda p, q: p - q),
    "one tile and a constant": ("%s = addi %q, %c1 : T32\n%x = subi %p, %s : T32", lambda p, q: p - (q + 1)),
    "both with constants": (
        "%s = addi %q, %c15 : T32\n%r = subi %p, %c8 : T32\n%x = subi %r, %s : T32",
        lambda p, q: p - 8 - (q + 15),
    ),
    "a byte": ("%x = subi %p, %w32 : T32", lambda p, q: p - (q << 4 | p)),
    "a byte, its upper half before": ("%x = subi %q, %w32 : T32", lambda p, q: q - (q << 4 | p)),
    "a byte and a constant": (
        "%r = addi %q, %c8 : T32\n%s = addi %w32, %c8 : T32\n%x = subi %r, %s : T32",
        lambda p, q: q - (q << 4 | p),
    ),
    "a byte before": ("%x = subi %w32, %p : T32", lambda p, q: q << 4),
    "shifted with its sign": ("%s = shri %w32, %c4 signed : T32\n%x = subi %s, %p : T32", lambda p, q: q - p),
    "more than fits": ("%s = addi %q, %c120 : T32\n%x = subi %p, %s : T32", lambda p, q: p - (q + 120)),
}


def converted(kind: str, lines: str, size: int, signedness: str = "signed") -> str:
    """out = the tile %x that lines make of a tile %w of 16x32 bytes, as floats."""
    constants = "\n".join(
        f"%c{n} = constant <i{size}: {n}> : tile<16x32xi{size}>" for n in (0, 1, 4, 8, 15, 120)
    )
    if size == 32:
        lines = (
            "%w32 = exti %w unsigned : T8 -> T32\n%p = andi %w32, %c15 : T32\n"
            "%q = shri %w32, %c4 unsigned : T32\n" + lines
        )
    lines = lines.replace("T8", "tile<16x32xi8>").replace("T32", "tile<16x32xi32>")
    of, into = (f"tensor_view<16x32x{e}, strides=[32,1]>" for e in ("i8", kind))
    views = [f"partition_view<tile=(16x32), {v}>" for v in (of, into)]
    return f"""cuda_tile.module @m {{
entry @k(%in: tile<ptr<i8>>, %out: tile<ptr<{kind}>>) {{
%zero = constant <i32: 0> : tile<i32>
%a = assume div_by<16>, %in : tile<ptr<i8>>
%iv = make_tensor_view %a, shape = [16, 32], strides = [32, 1] : {of}
%ip = make_partition_view %iv : {views[0]}
%w, %read = load_view_tko weak %ip[%zero, %zero] : {views[0]}, tile<i32> -> tile<16x32xi8>, token
{constants}
{lines}
%f = itof %x {signedness} : tile<16x32xi{size}> -> tile<16x32x{kind}>
%ov = make_tensor_view %out, shape = [16, 32], strides = [32, 1] : {into}
%op = make_partition_view %ov : {views[1]}
%done = store_view_tko weak %f, %op[%zero, %zero] : tile<16x32x{kind}>, {views[1]}, tile<i32> -> token
}}
}}
"""


def run(text: str, kind: str, gpu_name: str) -> tuple[np.ndarray, np.ndarray]:
    """The bytes that a kernel was given, and its result."""
    words = np.arange(ROWS * BYTES, dtype=np.int64).astype(np.uint8).reshape(ROWS, BYTES)
    out = np.full((ROWS, BYTES), 7, KINDS[kind])
    tileiras.launch(text, "k", 1, [words.view(np.int8), out], target="emulator", gpu_name=gpu_name)
    return words, out


@pytest.mark.parametrize("gpu_name", ["sm_75", "sm_80", "sm_90"])
@pytest.mark.parametrize("signedness", ["signed", "unsigned"])
@pytest.mark.parametrize("how", SIGNED)
@pytest.mark.parametrize("kind", KINDS)
def test_bytes_become_the_right_numbers(kind: str, how: str, signedness: str, gpu_name: str) -> None:
    words, out = run(converted(kind, SIGNED[how][0], 8, signedness), kind, gpu_name)
    numbers = SIGNED[how][1](words).astype(np.int8)
    if signedness == "unsigned":
        numbers = numbers.view(np.uint8)
    assert (out.astype(np.float32) == numbers).all()


@pytest.mark.parametrize("gpu_name", ["sm_75", "sm_80", "sm_90"])
@pytest.mark.parametrize("how", LESS)
@pytest.mark.parametrize("kind", KINDS)
def test_differences_become_the_right_numbers(kind: str, how: str, gpu_name: str) -> None:
    words, out = run(converted(kind, LESS[how][0], 32), kind, gpu_name)
    assert (out.astype(np.float32) == LESS[how][1](words.astype(int) & 15, words.astype(int) >> 4)).all()


@pytest.mark.parametrize(
    ("kind", "size", "how", "fused"),
    [
        ("bf16", 8, "bytes", 1),
        ("f16", 8, "bytes", 1),
        ("bf16", 8, "nibbles less a constant", 1),
        ("bf16", 32, "one tile", 1),
        ("bf16", 32, "one tile and a constant", 2),
        ("bf16", 32, "a byte", 3),
        ("f16", 32, "a byte", 1),
        ("bf16", 32, "shifted with its sign", 1),
        ("bf16", 32, "more than fits", 0),
        ("f16", 32, "more than fits", 2),
    ],
)
def test_what_is_known_is_converted_in_pairs(kind: str, size: int, how: str, fused: int) -> None:
    """`fused`: instructions for two numbers, 0 where each is converted alone."""
    lines = (SIGNED if size == 8 else LESS)[how][0]
    ptx = tileiras.compile(converted(kind, lines, size), gpu_name="sm_90", emit="ptx").ptx
    assert ptx.count(f"fma.rn.{kind}x2") * 2 == fused * ROWS * BYTES // 128
    assert ("cvt.rn.f32" in ptx or "cvt.rn.f16.s32" in ptx) == (not fused)


@pytest.mark.parametrize(("signedness", "turned"), [("signed", 1), ("unsigned", 0)])
def test_bytes_of_a_word_come_with_their_exponent(signedness: str, turned: int) -> None:
    """32 bytes a thread: the signs of a word are turned together, an instruction brings two bytes, another one takes away what is
    too much."""
    text = converted("f16", SIGNED["bytes"][0], 8, signedness).replace("16x32", "128x32")
    text = text.replace("shape = [16, 32]", "shape = [128, 32]")
    aligned = "%b = assume div_by<16>, %out : tile<ptr<f16>>\n%ov = make_tensor_view %b,"
    text = text.replace("%ov = make_tensor_view %out,", aligned)
    ptx = tileiras.compile(text, gpu_name="sm_90", emit="ptx").ptx
    assert ptx is not None and "ld.global.v2.b32" in ptx
    body = ptx[ptx.index("ld.global") :]
    counts = [body.count(word) for word in ("xor.b32", "and.b32", "prmt.b32", "fma.rn.f16x2")]
    assert counts == [8 * turned, 0, 16, 16]
    words = np.arange(128 * 32, dtype=np.int64).astype(np.uint8).reshape(128, 32)
    out = np.full((128, 32), 7, KINDS["f16"])
    tileiras.launch(text, "k", 1, [words.view(np.int8), out], target="emulator", gpu_name="sm_90")
    assert (out.astype(np.float32) == (words.view(np.int8) if turned else words)).all()
