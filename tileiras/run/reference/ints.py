"""Integer ops. Values carry no sign; the op does. i1 computes in i8 and keeps the low bit."""

from __future__ import annotations

import numpy as np

from .registry import elem_name, pure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tileiras.compiler.ir.core import Op

BITS = {"i1": 1, "i4": 4, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "ptr": 64}
SIGNED = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


def signed_of_bool(x: Any) -> Any:
    """i1 as a signed number: true is -1."""
    return -(x.astype(np.int8))


def as_signed(x: Any, name: str) -> Any:
    if name == "i1":
        return signed_of_bool(x)
    if name == "i4":
        return ((x ^ np.uint8(8)).astype(np.int8)) - np.int8(8)
    return x


def as_unsigned(x: Any, name: str) -> Any:
    if name == "i1":
        return x.astype(np.uint8)
    if name == "i4":
        return x
    return x.view(UNSIGNED[BITS[name]])


def from_wide(x: Any, name: str) -> Any:
    """Stored elements of an integer array of any type, by the low bits."""
    if name == "i1":
        return (x & x.dtype.type(1)).astype(np.bool_)
    if name == "i4":
        return x.astype(np.uint8) & np.uint8(15)
    return x.astype(SIGNED[BITS[name]])


def interpret(op: Op, field: str = "signedness") -> Callable[[Any, str], Any]:
    return as_signed if op.attr(field) == "signed" else as_unsigned


def binary(op: Op, fn: Callable[[Any, Any], Any], reading: Callable[[Any, str], Any] = as_signed) -> Any:
    """fn on both operands read with a sign or without, the result stored again."""
    name = elem_name(op.operands[0])
    if reading is as_signed and name != "i1":
        return fn
    return lambda a, b: from_wide(fn(reading(a, name), reading(b, name)), name)


def register_simple(name: str, fn: Callable[[Any, Any], Any]) -> None:
    pure(name, elementwise=True)(
        lambda op: binary(op, fn, as_unsigned if elem_name(op.operands[0]) == "i1" else as_signed)
    )


register_simple("addi", lambda a, b: a + b)
register_simple("subi", lambda a, b: a - b)
register_simple("muli", lambda a, b: a * b)
register_simple("andi", lambda a, b: a & b)
register_simple("ori", lambda a, b: a | b)
register_simple("xori", lambda a, b: a ^ b)


@pure("maxi", "mini", elementwise=True)
def build_minmax(op: Op) -> Any:
    return binary(op, np.maximum if op.spec.name == "maxi" else np.minimum, interpret(op))


@pure("absi", elementwise=True)
def build_absi(op: Op) -> Any:
    name = elem_name(op.operands[0])
    return (lambda a: a) if name == "i1" else np.abs  # |-1| = 1 keeps the bit of i1; |INT_MIN| keeps its bits


@pure("negi", elementwise=True)
def build_negi(op: Op) -> Any:
    return (lambda a: a) if elem_name(op.operands[0]) == "i1" else np.negative


def divide(a: Any, b: Any, rounding: str) -> Any:
    """Quotient of equally typed integers; division by zero gives all ones (as the hardware sequence does)."""
    zero = b == 0
    safe = np.where(zero, b.dtype.type(1), b)
    if np.issubdtype(b.dtype, np.signedinteger):
        low = np.iinfo(b.dtype).min
        overflow = (a == low) & (safe == -1)  # wraps to INT_MIN
        safe = np.where(overflow, b.dtype.type(1), safe)
    q = a // safe  # floor
    if rounding != "negative_inf":
        inexact = q * safe != a
        if rounding == "zero":
            inexact = inexact & ((a < 0) != (safe < 0))
        q = q + inexact.astype(q.dtype)
    return np.where(zero, ~q.dtype.type(0), q)


@pure("divi", elementwise=True)
def build_divi(op: Op) -> Any:
    rounding = op.attr("rounding")
    return binary(op, lambda a, b: divide(a, b, rounding), interpret(op))


def remainder(a: Any, b: Any) -> Any:
    """Remainder with the sign of the dividend; by zero: the dividend."""
    zero = b == 0
    safe = np.where(zero, b.dtype.type(1), b)
    return np.where(zero, a, np.fmod(a, safe))


@pure("remi", elementwise=True)
def build_remi(op: Op) -> Any:
    return binary(op, remainder, interpret(op))


@pure("shli", "shri", elementwise=True)
def build_shift(op: Op) -> Any:
    name = elem_name(op.operands[0])
    bits = BITS[name]
    left = op.spec.name == "shli"
    reading = as_unsigned if left or op.attr("signedness") == "unsigned" else as_signed

    def shift(a: Any, b: Any) -> Any:
        value = reading(a, name)
        amount = np.minimum(
            as_unsigned(b, name), bits
        )  # amounts are unsigned; beyond the width as by the width
        amount = amount.astype(value.dtype)
        if bits == 1:  # computed in 8 bits: by 1 is out of the element
            keep = value if reading is as_signed else value * 0
            return from_wide(np.where(amount == 0, value, keep), name)
        return from_wide(np.left_shift(value, amount) if left else np.right_shift(value, amount), name)

    return shift


@pure("mulhii", elementwise=True)
def build_mulhii(op: Op) -> Any:
    name = elem_name(op.operands[0])
    bits = BITS[name]

    def high(a: Any, b: Any) -> Any:
        x, y = as_unsigned(a, name).astype(np.uint64), as_unsigned(b, name).astype(np.uint64)
        if bits < 64:
            return from_wide((x * y) >> np.uint64(bits), name)
        mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
        xl, xh, yl, yh = x & mask, x >> half, y & mask, y >> half
        middle = xh * yl + ((xl * yl) >> half)
        low_carry = (middle & mask) + xl * yh
        return (xh * yh + (middle >> half) + (low_carry >> half)).astype(np.int64)

    return high


COMPARE = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less_than": np.less,
    "less_than_or_equal": np.less_equal,
    "greater_than": np.greater,
    "greater_than_or_equal": np.greater_equal,
}


@pure("cmpi", elementwise=True)
def build_cmpi(op: Op) -> Any:
    name = elem_name(op.operands[0])
    fn, reading = COMPARE[op.attr("comparison_predicate")], interpret(op)
    if reading is as_signed and name != "i1":
        return fn
    return lambda a, b: fn(reading(a, name), reading(b, name))


@pure("exti", elementwise=True)
def build_exti(op: Op) -> Any:
    name, target, reading = elem_name(op.operands[0]), elem_name(op.result), interpret(op)
    return lambda a: from_wide(reading(a, name), target)


@pure("trunci", elementwise=True)
def build_trunci(op: Op) -> Any:
    target = elem_name(op.result)
    return lambda a: from_wide(a, target)
