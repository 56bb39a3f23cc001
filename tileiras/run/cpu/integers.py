"""Integer ops on any number of lanes. Values carry no sign; the op does. i1 computes in i8 and keeps the low bit."""

from __future__ import annotations

from .code import BITS, REGISTER, Code, const, name_of
from .registry import elementwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PREDICATES = {
    "equal": "eq", "not_equal": "ne", "less_than": "lt", "less_than_or_equal": "le",
    "greater_than": "gt", "greater_than_or_equal": "ge",
}  # fmt: skip


def signed(op: Any, field: str = "signedness") -> bool:
    return op.attr(field) == "signed"


def read(c: Code, n: int, x: str, name: str, target: str, sign: bool) -> str:
    """An integer element as a wider LLVM integer; i4 elements are the low nibble of a byte."""
    if name == "i4":
        if not sign:
            return c.cast("zext", "i8", target, n, x)
        x = c.bin("shl", "i8", n, x, const("i8", n, 4))
        x = c.bin("ashr", "i8", n, x, const("i8", n, 4))
        return c.cast("sext", "i8", target, n, x)
    return c.cast("sext" if sign else "zext", REGISTER[name], target, n, x)


def in_i8(c: Code, n: int, args: tuple[str, ...], sign: bool) -> list[str]:
    return [c.cast("sext" if sign else "zext", "i1", "i8", n, a) for a in args]


PLAIN = {"addi": "add", "subi": "sub", "muli": "mul", "andi": "and", "ori": "or", "xori": "xor"}


@elementwise(*PLAIN)
def plain(c: Code, n: int, op: Any, a: str, b: str) -> str:
    type = REGISTER[name_of(op.result.type.elem)]
    opcode = PLAIN[op.spec.name]
    if type == "i1":
        opcode = {"add": "xor", "sub": "xor", "mul": "and"}.get(opcode, opcode)
    return c.bin(opcode, type, n, a, b)


@elementwise("maxi", "mini")
def extremum(c: Code, n: int, op: Any, a: str, b: str) -> str:
    type, sign = REGISTER[name_of(op.result.type.elem)], signed(op)
    greater = op.spec.name == "maxi"
    if type == "i1":  # signed, true is -1
        return c.bin("or" if greater != sign else "and", "i1", n, a, b)
    return c.intrinsic(("s" if sign else "u") + ("max" if greater else "min"), type, n, a, b)


@elementwise("absi")
def absi(c: Code, n: int, op: Any, a: str) -> str:
    type = REGISTER[name_of(op.result.type.elem)]
    return a if type == "i1" else c.intrinsic("abs", type, n, a, suffix="i1 false")


@elementwise("negi")
def negi(c: Code, n: int, op: Any, a: str) -> str:
    type = REGISTER[name_of(op.result.type.elem)]
    return a if type == "i1" else c.bin("sub", type, n, const(type, n, 0), a)


def quotient(c: Code, n: int, type: str, sign: bool, a: str, b: str) -> str:
    """Truncated quotient; the divisor is neither 0 nor -1 with the smallest dividend."""
    constant = b.startswith("splat") or not b.startswith(("%", "<"))
    if (
        n > 1 and type != "i64" and not constant
    ):  # vectors have no integer division; floats hold these exactly
        wide = "double" if type == "i32" else "float"
        x, y = (c.cast("sitofp" if sign else "uitofp", type, wide, n, v) for v in (a, b))
        return c.cast("fptosi" if sign else "fptoui", wide, type, n, c.bin("fdiv", wide, n, x, y))
    return c.bin("sdiv" if sign else "udiv", type, n, a, b)


def safe_divisor(c: Code, n: int, type: str, sign: bool, a: str, b: str) -> tuple[str, str]:
    """(divisor that no division traps on, which lanes divide by zero)."""
    zero = c.cmp("eq", type, n, b, const(type, n, 0))
    bad = zero
    if sign:
        low = c.cmp("eq", type, n, a, const(type, n, -(1 << (BITS[type] - 1))))
        minus = c.cmp("eq", type, n, b, const(type, n, -1))
        bad = c.bin("or", "i1", n, zero, c.bin("and", "i1", n, low, minus))
    return c.select(type, n, bad, const(type, n, 1), b), zero


def known_divisor(b: str) -> bool:
    """A constant divisor other than 0 and -1."""
    text = b.removeprefix("splat (").removesuffix(")").split()[-1]
    return text.lstrip("-").isdigit() and text not in ("0", "-1")


def divide(c: Code, n: int, type: str, sign: bool, rounding: str, a: str, b: str) -> str:
    """The quotient in a rounding; by zero it is all ones, the smallest number by -1 is itself."""
    if known_divisor(b):
        safe, zero = b, ""
    else:
        safe, zero = safe_divisor(c, n, type, sign, a, b)
    q = quotient(c, n, type, sign, a, safe)
    if rounding != "zero":
        rest = c.bin("sub", type, n, a, c.bin("mul", type, n, q, safe))
        some = c.cmp("ne", type, n, rest, const(type, n, 0))
        if sign:
            mixed = c.cmp("slt", type, n, c.bin("xor", type, n, rest, safe), const(type, n, 0))
            if rounding == "positive_inf":
                mixed = c.bin("xor", "i1", n, mixed, const("i1", n, 1))
            some = c.bin("and", "i1", n, some, mixed)
        elif rounding == "negative_inf":
            some = ""
        if some:
            step = c.cast("zext", "i1", type, n, some)
            q = c.bin("sub" if rounding == "negative_inf" else "add", type, n, q, step)
    return c.select(type, n, zero, const(type, n, -1), q) if zero else q


@elementwise("divi", "remi")
def division(c: Code, n: int, op: Any, a: str, b: str) -> str:
    type, sign = REGISTER[name_of(op.result.type.elem)], signed(op)
    narrow = type == "i1"
    if narrow:
        (a, b), type = in_i8(c, n, (a, b), sign), "i8"
    if op.spec.name == "divi":
        out = divide(c, n, type, sign, op.attr("rounding") or "zero", a, b)
    else:
        if known_divisor(b):
            safe, zero = b, ""
        else:
            safe, zero = safe_divisor(c, n, type, sign, a, b)
        q = quotient(c, n, type, sign, a, safe)
        out = c.bin("sub", type, n, a, c.bin("mul", type, n, q, safe))
        out = c.select(type, n, zero, a, out) if zero else out
    return c.cast("trunc", "i8", "i1", n, out) if narrow else out


@elementwise("shli", "shri")
def shift(c: Code, n: int, op: Any, a: str, b: str) -> str:
    """Amounts are unsigned; beyond the width everything is shifted out."""
    type = REGISTER[name_of(op.result.type.elem)]
    left = op.spec.name == "shli"
    keeps_sign = not left and signed(op)
    if type == "i1":
        return a if keeps_sign else c.bin("and", "i1", n, a, c.bin("xor", "i1", n, b, const("i1", n, 1)))
    bits = BITS[type]
    if keeps_sign:
        return c.bin("ashr", type, n, a, c.intrinsic("umin", type, n, b, const(type, n, bits - 1)))
    inside = c.cmp("ult", type, n, b, const(type, n, bits))
    amount = c.select(type, n, inside, b, const(type, n, 0))
    return c.select(type, n, inside, c.bin("shl" if left else "lshr", type, n, a, amount), const(type, n, 0))


@elementwise("mulhii")
def mulhii(c: Code, n: int, op: Any, a: str, b: str) -> str:
    """The upper half of the unsigned product."""
    type = REGISTER[name_of(op.result.type.elem)]
    if type == "i1":
        return const("i1", n, 0)
    bits = BITS[type]
    wide = f"i{2 * bits}"
    x, y = (c.cast("zext", type, wide, n, v) for v in (a, b))
    high = c.bin("lshr", wide, n, c.bin("mul", wide, n, x, y), const(wide, n, bits))
    return c.cast("trunc", wide, type, n, high)


@elementwise("cmpi")
def cmpi(c: Code, n: int, op: Any, a: str, b: str) -> str:
    type, sign = REGISTER[name_of(op.operands[0].type.elem)], signed(op)
    if type == "i1":
        (a, b), type = in_i8(c, n, (a, b), sign), "i8"
    predicate = PREDICATES[op.attr("comparison_predicate")]
    if predicate not in ("eq", "ne"):
        predicate = ("s" if sign else "u") + predicate
    return c.cmp(predicate, type, n, a, b)


@elementwise("exti")
def exti(c: Code, n: int, op: Any, a: str) -> str:
    source, target = name_of(op.operands[0].type.elem), name_of(op.result.type.elem)
    return keep_nibble(c, n, read(c, n, a, source, REGISTER[target], signed(op)), target)


def keep_nibble(c: Code, n: int, x: str, name: str) -> str:
    return c.bin("and", "i8", n, x, const("i8", n, 15)) if name == "i4" else x


@elementwise("trunci")
def trunci(c: Code, n: int, op: Any, a: str) -> str:
    source, target = name_of(op.operands[0].type.elem), name_of(op.result.type.elem)
    return keep_nibble(c, n, c.cast("trunc", REGISTER[source], REGISTER[target], n, a), target)
