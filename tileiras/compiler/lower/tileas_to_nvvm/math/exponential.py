"""exp, exp2, log, log2 and the hyperbolic functions.

exp: x = n ln 2 + r with ln 2 in two parts, a polynomial on |r| <= 0.35, two multiplications by powers of two so
that subnormal results are rounded once. log: x = 2^e m with m in [2/3, 4/3), a polynomial in m - 1. Where the result is
rounded to 16 bits, `short.py` has shorter ones.
"""

from __future__ import annotations

from tileiras.compiler.passes.tileaa.nonpositive import NONPOSITIVE

from . import short
from .floats import function
from .tables import CONSTANTS, POLY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op

    from .floats import Floats


LOWERED = 64  # 2^(n + 64) is a normal number for every n from -150 to 0
TANH_IS_ONE = 10.0  # the next number below 1 is that of 9.01
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


def _exp_scaled32(f: Floats, x: Any, extra: int, nonpositive: bool = False) -> Any:
    """The same without a conversion to an integer: the bits of the rounded sum become two powers of two at once.

    Their last nine are k = n + extra + 254, whose halves are the exponent fields of 2^(k/2 - 127): shifted up by 23, all
    other bits fall out. Worked: n = 3, extra = 0: k = 257 = 128 + 129, 2^1 * 2^2. Of a number that is not positive n is 0 at
    most, and one of the powers can be 2^-64.
    """
    b = f.b
    high, low = CONSTANTS["exp_range", 32]
    x = f.at_least(x, low) if nonpositive else f.clamp(x, high, low)
    rounder = f.c(ROUNDER + (f.bias + LOWERED if nonpositive else 2 * f.bias + extra))
    total = f.fma(x, f.c(CONSTANTS["log2e", 32]), rounder)
    n = f.sub(total, rounder)
    big, small = CONSTANTS["ln2", 32]
    tail = _exp_tail(f, f.fma(n, f.c(-small), f.fma(n, f.c(-big), x)))
    k = f.word(total)
    both = b.emit("shl.b32", k, 23)
    if nonpositive:
        return f.mul(f.fma(tail, both, both), f.c(2.0**-LOWERED))
    half = b.emit("and.b32", b.emit("shl.b32", k, 22), 0xFF800000)
    return f.mul(f.fma(tail, half, half), b.emit("sub.s32", both, half))


def exp(f: Floats, op: Op, x: Any) -> Any:
    if f.w == 32 and op.attr("rounding_mode") == "approx":
        return short.exp(f, x, short.tiny_is_zero(op))
    if short.suffices(f, op):
        return short.exp(f, x, short.tiny_is_zero(op))
    return _exp_scaled32(f, x, 0, True) if f.w == 32 and op.attrs.get(NONPOSITIVE) else exp_scaled(f, x)


def exp2(f: Floats, op: Op, x: Any) -> Any:
    if op.attr("flush_to_zero"):
        return f.b.emit("ex2.approx.ftz.f32", x)
    if short.suffices(f, op):
        return short.exp2(f, x, short.tiny_is_zero(op))
    if f.w == 32:  # within 2 ulp, subnormal results included
        return f.b.emit("ex2.approx.f32", x)
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


def log(f: Floats, op: Op, x: Any) -> Any:
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
    """m / (m + 2) with m = e^2x - 1 for positive x: accurate from zero up, so that one formula does.

    2x = n ln 2 + r with n from 0 to 29: m = 2^n (e^r - 1) + (2^n - 1), without scaling. The quotient is corrected once.
    """
    b = f.b
    twice = f.at_most(f.abs(x), TANH_IS_ONE)
    twice = f.add(twice, twice)
    rounder = f.c(ROUNDER + f.bias)
    total = f.fma(twice, f.c(CONSTANTS["log2e", 32]), rounder)
    n = f.sub(total, rounder)
    big, small = CONSTANTS["ln2", 32]
    tail = _exp_tail(f, f.fma(n, f.c(-small), f.fma(n, f.c(-big), twice)))
    power = b.emit("shl.b32", f.word(total), 23)
    m = f.fma(tail, power, f.add(power, f.c(-1.0)))
    divisor = f.add(m, f.c(2.0))
    inverse = b.emit("rcp.approx.ftz.f32", divisor)
    quotient = f.mul(m, inverse)
    return f.copysign(f.fma(f.fma(f.neg(divisor), quotient, m), inverse, quotient), x)


LOWER = {
    "exp": function(exp),
    "exp2": function(exp2),
    "log": function(log),
    "log2": function(log2),
    "sinh": function(sinh),
    "cosh": function(cosh),
    "tanh": function(tanh),
}
