"""Conversions on any number of lanes: between floats, floats and integers, bit patterns, pointers; and select."""

from __future__ import annotations

from .code import REGISTER, Code, const, mangled, name_of, vec
from .formats import (
    RN,
    SATURATING,
    computed,
    f32_to_bf16,
    narrow,
    narrow64,
    round_odd,
    round_to,
    two_sum,
    widen,
    widen64,
)  # fmt: skip
from .integers import read, signed
from .registry import elementwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def convert_float(c: Code, n: int, x: str, source: str, target: str, mode: str) -> str:
    """The narrow types with few exponents saturate; a tf32 source counts with all its bits."""
    if source == target and source not in ("tf32",):
        return x if source in ("f32", "f64") else narrow_again(c, n, x, source, mode)
    if target == "f64":
        return widen64(c, n, x, source)
    if target == "f32" and source != "f64":
        return widen(c, n, x, source)
    saturate = target in SATURATING
    if source == "f64":
        return narrow64(c, n, x, target, mode, saturate)
    wide = widen(c, n, x, source)
    if mode == RN and target in ("f16", "bf16"):
        return f32_to_bf16(c, n, wide) if target == "bf16" else narrow(c, n, wide, target)
    return round_to(c, n, wide, "float", target, mode, saturate)


def narrow_again(c: Code, n: int, x: str, name: str, mode: str) -> str:
    """A value of a narrow format converted to itself: infinities saturate where that format does."""
    return round_to(c, n, widen(c, n, x, name), "float", name, mode, name in SATURATING)


@elementwise("ftof")
def ftof(c: Code, n: int, op: Any, a: str) -> str:
    source, target = name_of(op.operands[0].type.elem), name_of(op.result.type.elem)
    return convert_float(c, n, a, source, target, op.attr("rounding_mode") or RN)


@elementwise("ftoi")
def ftoi(c: Code, n: int, op: Any, a: str) -> str:
    """Truncated and clamped to the range; NaN gives 0."""
    source, target = name_of(op.operands[0].type.elem), name_of(op.result.type.elem)
    wide, type = computed(source), REGISTER[target]
    x = widen(c, n, a, source)
    if source == "tf32":
        bits = c.bin("and", "i32", n, c.cast("bitcast", "float", "i32", n, x), const("i32", n, 0xFFFFE000))
        x = c.cast("bitcast", "i32", "float", n, bits)
    if type == "i1":
        return c.cmp("une", wide, n, x, const(wide, n, 0.0))
    name = f"llvm.fpto{'si' if signed(op) else 'ui'}.sat.{mangled(type, n)}.{mangled(wide, n)}"
    c.module.declare(name, f"declare {vec(type, n)} @{name}({vec(wide, n)})")
    return c.call(name, vec(type, n), [(vec(wide, n), x)])


@elementwise("itof")
def itof(c: Code, n: int, op: Any, a: str) -> str:
    """Rounded once to the float type."""
    source, target, sign = name_of(op.operands[0].type.elem), name_of(op.result.type.elem), signed(op)
    type = REGISTER[source]
    opcode = "sitofp" if sign else "uitofp"
    if target in ("f32", "f64"):
        return c.cast(opcode, type, REGISTER[target], n, a)
    if type in ("i1", "i8", "i16"):  # exact in f32
        x = c.cast(opcode, type, "float", n, a)
        if target in ("f16", "bf16"):
            return narrow(c, n, x, target)
        return round_to(c, n, x, "float", target, RN, target in SATURATING)
    if type == "i32":
        x = c.cast(opcode, "i32", "double", n, a)
    else:  # the exact sum of two halves, the lower one deciding the last bit
        high = c.bin("ashr" if sign else "lshr", "i64", n, a, const("i64", n, 32))
        high = c.cast(opcode, "i64", "double", n, high)
        high = c.bin("fmul", "double", n, high, const("double", n, 2.0**32))
        low = c.cast("uitofp", "i64", "double", n, c.bin("and", "i64", n, a, const("i64", n, 0xFFFFFFFF)))
        x = round_odd(c, n, *two_sum(c, n, "double", high, low))
    return narrow64(c, n, x, target, RN, target in SATURATING)


@elementwise("bitcast")
def bitcast(c: Code, n: int, op: Any, a: str) -> str:
    source, target = name_of(op.operands[0].type.elem), name_of(op.result.type.elem)
    return c.cast("bitcast", REGISTER[source], REGISTER[target], n, a)


@elementwise("int_to_ptr", "ptr_to_int", "ptr_to_ptr")
def pointer_cast(c: Code, n: int, op: Any, a: str) -> str:
    return a


def pointee_bytes(value: Any) -> int:
    """Bytes of one pointee; 4-bit pointees count as one byte, pointers as 8."""
    return getattr(value.type.elem.pointee, "bytes", 8)  # type: ignore[no-any-return]


@elementwise("offset")
def offset(c: Code, n: int, op: Any, p: str, o: str) -> str:
    size, name = pointee_bytes(op.operands[0]), name_of(op.operands[1].type.elem)
    wide = read(c, n, o, name, "i64", True)
    return c.bin(
        "add", "i64", n, p, c.bin("mul", "i64", n, wide, const("i64", n, size)) if size > 1 else wide
    )


@elementwise("select")
def select(c: Code, n: int, op: Any, cond: str, a: str, b: str) -> str:
    return c.select(REGISTER[name_of(op.result.type.elem)], n, cond, a, b)
