"""exp, exp2, log, log2 and the hyperbolic functions.

exp of f32: x log2(e) = n + r, the machine's own power of two of r and a multiplication by 2^n, so that subnormal results
are rounded once. exp of f64, and what sinh, cosh and fpowf are made of: x = n ln 2 + r with ln 2 in two parts, a polynomial
on |r| <= 0.35, two multiplications by powers of two. log: x = 2^e m with m in [2/3, 4/3), a polynomial in m - 1. Where the
result is rounded to 16 bits, `short.py` has shorter ones.
"""

from __future__ import annotations

from tileiras.compiler.ir.dense import dense_bits

from . import short
from .floats import function
from .tables import CONSTANTS, POLY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value

    from .floats import Floats


SMALLEST_NORMAL, INFINITY = 0x00800000, 0x7F800000  # bits of f32
LN2, LOG2E = 0.6931471805599453, 1.4426950408889634
POWERS = 252  # from 2^-126 to 2^126: what is beyond is left to the power of r
ROUNDER = 1.5 * 2**23  # added to an f32 below 2^22: the sum's last bits are the nearest integer


def _reduce(f: Floats, x: Any) -> tuple[Any, Any]:
    """(n as s32, r): x = n ln 2 + r, |r| <= 0.35. x is clamped so that n stays in range; NaN goes through r."""
    x = f.clamp(x, *CONSTANTS["exp_range", f.w])
    n = f.rint(f.mul(x, f.c(CONSTANTS["log2e", f.w])))
    big, small = CONSTANTS["ln2", f.w]
    r = f.fma(n, f.c(-small), f.fma(n, f.c(-big), x))
    return f.to_int(n), r


def _exp_tail(f: Floats, r: Any) -> Any:
    """e^r - 1 = r + r^2 P(r)."""
    return f.fma(f.mul(r, r), f.poly(r, POLY["exp", f.w]), r)


def _exp_poly(f: Floats, r: Any) -> Any:
    return f.add(_exp_tail(f, r), f.c(1.0))


def exp_scaled(f: Floats, x: Any, extra: int = 0) -> Any:
    """e^x * 2^extra."""
    if f.w == 32:
        return _exp_scaled32(f, x, extra)
    n, r = _reduce(f, x)
    if extra:
        n = f.b.add(32, n, extra)
    return f.scale(_exp_poly(f, r), n)


def _exp_scaled32(f: Floats, x: Any, extra: int) -> Any:
    """The same without a conversion to an integer: the bits of the rounded sum become two powers of two at once.

    Their last nine are k = n + extra + 254, whose halves are the exponent fields of 2^(k/2 - 127): shifted up by 23, all
    other bits fall out. Worked: n = 3, extra = 0: k = 257 = 128 + 129, 2^1 * 2^2.
    """
    b = f.b
    x = f.clamp(x, *CONSTANTS["exp_range", 32])
    rounder = f.c(ROUNDER + 2 * f.bias + extra)
    total = f.fma(x, f.c(CONSTANTS["log2e", 32]), rounder)
    n = f.sub(total, rounder)
    big, small = CONSTANTS["ln2", 32]
    tail = _exp_tail(f, f.fma(n, f.c(-small), f.fma(n, f.c(-big), x)))
    k = f.word(total)
    both = b.emit("shl.b32", k, 23)
    half = b.emit("and.b32", b.emit("shl.b32", k, 22), 0xFF800000)
    return f.mul(f.fma(tail, half, half), b.emit("sub.s32", both, half))


def _exp32(f: Floats, x: Any) -> Any:
    """Eight instructions, and ex2.approx of a number whose size is at most 0.51 but where the result leaves the normal ones.

    A saturated product brings x log2(e) into [-126, 126], NaN to -126; multiplied up again and added to a large number it is
    the exponent field of 2^n in the sum's last bits. r is exact but for two roundings of what n leaves over: infinity, NaN,
    and the 23 binades of subnormal results go through it.
    """
    b = f.b
    big, small = CONSTANTS["log2e_exact", 32]
    share = b.emit("fma.rn.sat.f32", x, f.c(LOG2E / POWERS), f.c(0.5))
    total = f.fma(share, f.c(POWERS), f.c(ROUNDER + 1))
    n = f.sub(total, f.c(ROUNDER + f.bias))
    r = f.fma(x, f.c(small), f.fma(x, f.c(big), f.neg(n)))
    return f.mul(b.emit("ex2.approx.ftz.f32", r), b.emit("shl.b32", f.word(total), 23))


def exp(f: Floats, op: Op, x: Any) -> Any:
    if f.w == 32 and op.attr("rounding_mode") == "approx":
        return short.exp(f, x, short.tiny_is_zero(op))
    if short.suffices(f, op):
        return short.exp(f, x, short.tiny_is_zero(op))
    return _exp32(f, x) if f.w == 32 else exp_scaled(f, x)


def exp2(f: Floats, op: Op, x: Any) -> Any:
    if op.attr("flush_to_zero"):
        return f.b.emit("ex2.approx.ftz.f32", x)
    if f.w == 32:  # within 2 ulp, subnormal results included where they show
        return short.exp2(f, x, short.tiny_is_zero(op))
    x = f.clamp(x, *CONSTANTS["exp2_range", f.w])
    n = f.rint(x)
    big, small = CONSTANTS["ln2_exact", f.w]
    d = f.sub(x, n)
    head = f.mul(d, f.c(big))
    r = f.fma(d, f.c(small), head)
    lost = f.fma(d, f.c(big), f.neg(head))  # what the product rounded away
    value = _exp_poly(f, r)
    value = f.fma(value, f.add(lost, f.sub(f.mul(d, f.c(small)), f.sub(r, head))), value)
    return f.scale(value, f.to_int(n))


def _split(f: Floats, x: Any) -> tuple[Any, Any, Any]:
    """(e as float, m - 1, the special result or None): x = 2^e m for positive normal and subnormal x."""
    b = f.b
    tiny = f.cmp("lt", x, f.bits(0x00800000 if f.w == 32 else 0x0010 << 48))
    scaled = f.select(tiny, f.mul(x, f.c(2.0**f.mantissa)), x)
    word = f.word(scaled)
    if f.w == 32:
        start = b.emit("sub.s32", word, 0x3F2AAAAB)
        exponent_bits = b.emit("and.b32", start, -(1 << 23))
        m = b.emit("sub.s32", word, exponent_bits)
        e = b.emit("shr.s32", exponent_bits, 23)
    else:
        low, high = b.reg("r"), b.reg("r")
        b.emit_to((low, high), "mov.b64", word)
        start = b.emit("sub.s32", high, 0x3FE55555)
        exponent_bits = b.emit("and.b32", start, -(1 << 20))
        m = b.emit("mov.b64", (low, b.emit("sub.s32", high, exponent_bits)))
        e = b.emit("shr.s32", exponent_bits, 20)
    e = b.emit("sub.s32", e, b.emit("selp.s32", f.mantissa, 0, tiny))
    return f.from_int(e), f.sub(m, f.c(1.0)), None


def _specials(f: Floats, x: Any, value: Any) -> Any:
    """log of 0, negative numbers, infinity and NaN."""
    finite = f.cmp("lt", x, f.inf)
    value = f.select(finite, value, f.add(x, x))  # infinity and NaN
    value = f.select(f.cmp("lt", x, f.c(0.0)), f.nan, value)
    return f.select(f.cmp("eq", x, f.c(0.0)), f.neg(f.inf), value)


def log1p_parts(f: Floats, d: Any) -> tuple[Any, Any]:
    """log(1 + d) as head + tail for d in [-1/3, 1/3]; head is d (f32), or 2 s (f64)."""
    if f.w == 32:
        return d, f.mul(f.mul(d, d), f.poly(d, POLY["log", 32]))
    # f64: s = d / (2 + d), log = 2 atanh(s); correct the rounding of the quotient
    y = f.add(d, f.c(2.0))
    s = f.div(d, y)
    lost = f.sub(d, f.sub(y, f.c(2.0)))
    rest = f.fma(f.neg(s), y, d)
    rest = f.div(f.fma(f.neg(s), lost, rest), y)
    z = f.mul(s, s)
    tail = f.mul(f.mul(f.add(s, s), z), f.poly(z, POLY["atanh", 64]))
    return f.add(s, s), f.add(tail, f.add(rest, rest))


def _log32(f: Floats, x: Any, low: int) -> Any:
    """log of an f32 whose bits, where they are those of a number, are at least `low`: e ln(2) + log(m), where x = 2^e m."""
    b = f.b
    scaled, extra = x, f.c(0.0)
    if low < SMALLEST_NORMAL:
        tiny = f.cmp("lt", x, f.bits(SMALLEST_NORMAL))
        scaled, extra = f.select(tiny, f.mul(x, f.c(2.0**23)), x), f.select(tiny, f.c(-23.0), extra)
    word = f.word(scaled)
    exponent_bits = b.emit("and.b32", b.emit("sub.s32", word, 0x3F2AAAAB), -(1 << 23))
    e = f.fma(f.from_int(exponent_bits), f.c(2.0**-23), extra)
    d = f.sub(b.emit("sub.s32", word, exponent_bits), f.c(1.0))
    value = f.fma(e, f.c(LN2), f.fma(f.mul(d, d), f.poly(d, POLY["log", 32]), d))
    special = b.emit("setp.ge.u32", word, INFINITY)  # infinity, NaN, and what has a sign
    value = f.select(special, f.fma(scaled, f.inf, f.inf), value)
    return value if low > 0 else f.select(f.cmp("eq", scaled, f.c(0.0)), f.neg(f.inf), value)


def _at_least(op: Op) -> int:
    """The bits of a positive f32 that an operand is not below, where it is not NaN: a maximum with a constant says so. Else 0."""
    maximum = op.operands[0].op
    if maximum is None or maximum.spec.name != "maxf" or maximum.operands[0].type.elem.name != "f32":  # type: ignore[attr-defined]
        return 0
    return max(_least_bits(v) for v in maximum.operands)


def _least_bits(value: Value) -> int:
    """The least element of a constant tile of positive numbers, in bits; 0 of any other."""
    while value.op is not None and value.op.spec.name in ("broadcast", "reshape", "convert_layout"):
        value = value.op.operands[0]
    if value.op is None or value.op.spec.name != "constant":
        return 0
    found = dense_bits(value.op.attr("value"))
    return min(found) if max(found) < INFINITY else 0


def log(f: Floats, op: Op, x: Any) -> Any:
    if f.w == 32:
        return _log32(f, x, _at_least(op))
    e, d, _ = _split(f, x)
    head, tail = log1p_parts(f, d)
    big, small = CONSTANTS["ln2", f.w]
    low = f.fma(e, f.c(small), tail)
    top = f.mul(e, f.c(big))  # exact: big has few bits
    total = f.add(top, head)
    lost = f.add(f.sub(top, total), head)
    zero = f.cmp("eq", e, f.c(0.0))
    value = f.select(zero, f.add(head, tail), f.add(total, f.add(lost, low)))
    return _specials(f, x, value)


def log2(f: Floats, op: Op, x: Any) -> Any:
    if op.attr("flush_to_zero") if "flush_to_zero" in op.spec.attr_by_name else False:
        return f.b.emit("lg2.approx.ftz.f32", x)
    e, d, _ = _split(f, x)
    head, tail = log1p_parts(f, d)
    big, small = CONSTANTS["log2e_exact", f.w]
    top = f.mul(head, f.c(big))
    lost = f.fma(head, f.c(big), f.neg(top))
    low = f.fma(tail, f.c(big), f.fma(head, f.c(small), lost))
    total = f.add(e, top)
    carry = f.add(f.sub(e, total), top)
    value = f.add(total, f.add(carry, low))
    zero = f.cmp("eq", e, f.c(0.0))
    return _specials(f, x, f.select(zero, f.add(top, low), value))


def _small_odd(f: Floats, x: Any, name: str) -> Any:
    z = f.mul(x, x)
    return f.fma(f.mul(x, z), f.poly(z, POLY[name, f.w]), x)


def sinh(f: Floats, op: Op, x: Any) -> Any:
    a = f.abs(x)
    half = exp_scaled(f, a, -1)  # e^a / 2
    large = f.sub(half, f.div(f.c(0.25), half))
    small = _small_odd(f, a, "sinh")
    return f.copysign(f.select(f.cmp("lt", a, f.c(1.0)), small, large), x)


def cosh(f: Floats, op: Op, x: Any) -> Any:
    half = exp_scaled(f, f.abs(x), -1)
    return f.add(half, f.div(f.c(0.25), half))


def tanh(f: Floats, op: Op, x: Any) -> Any:
    if f.w == 32 and op.attr("rounding_mode") == "approx":
        return f.b.emit("tanh.approx.f32", x)
    if short.suffices(f, op):
        return short.tanh(f, x)
    if f.w == 32:
        return _tanh32(f, x)
    a = f.abs(x)
    e = exp_scaled(f, f.add(a, a))
    large = f.sub(f.c(1.0), f.div(f.c(2.0), f.add(e, f.c(1.0))))
    small = _small_odd(f, a, "tanh")
    return f.copysign(f.select(f.cmp("lt", a, f.c(0.6)), small, large), x)


def _tanh32(f: Floats, x: Any) -> Any:
    """1 - 2 / (e^2x + 1) for large positive x, by the machine's own power of two and reciprocal; x + x^3 P(x^2) for small x."""
    a = f.abs(x)
    e = f.b.emit("ex2.approx.ftz.f32", f.mul(a, f.c(2 * LOG2E)))
    inverse = f.b.emit("rcp.approx.ftz.f32", f.add(e, f.c(1.0)))
    large = f.copysign(f.fma(inverse, f.c(-2.0), f.c(1.0)), x)
    z = f.mul(x, x)
    small = f.fma(f.mul(f.poly(z, POLY["tanh", 32]), z), x, x)
    return f.select(f.cmp("lt", a, f.c(0.6)), small, large)


LOWER = {
    "exp": function(exp),
    "exp2": function(exp2),
    "log": function(log),
    "log2": function(log2),
    "sinh": function(sinh),
    "cosh": function(cosh),
    "tanh": function(tanh),
}
