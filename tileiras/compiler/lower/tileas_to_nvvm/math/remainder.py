"""remf: the exact remainder of truncated division.

Long division in steps: subtracting a whole multiple of y * 2^k is exact by one fused multiply-add, so every
step leaves an exact remainder; f32 is computed in f64, where most arguments need one step.
"""

from __future__ import annotations

from .floats import Floats, function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op

_STEP_BITS = 50  # quotient bits a step may take: whole and exact in f64


def rem(f: Floats, op: Op, x: Any, y: Any) -> Any:
    b = f.b
    d = Floats(f.lowering, "f64")
    wide_x, wide_y = (b.emit("cvt.f64.f32", v) if f.w == 32 else v for v in (x, y))
    ay = d.abs(wide_y)
    usable = d.both(d.cmp("lt", d.abs(wide_x), d.inf), d.cmp("gt", ay, d.c(0.0)))
    r = b.fresh(d.select(usable, d.abs(wide_x), d.c(0.0)), "d")
    divisor = _true_exponent(d, ay) if f.w == 64 else _exponent(d, ay)  # an f32 is no subnormal f64
    done, head = b.label(), b.label()
    b.bra(done, b.emit_fresh("setp.lt.f64", r, ay))
    b.place(head)
    b.push()
    # t = y * 2^k with k so large that r / t stays below 2^50
    gap = b.emit_fresh("sub.s32", _exponent(d, r), divisor)
    k = b.emit_fresh("max.s32", b.emit_fresh("sub.s32", gap, _STEP_BITS), 0)
    if f.w == 64:
        k = b.emit_fresh(
            "min.s32", k, 2 * 1023
        )  # of at most 2047: as two normal powers, with one bit to spare
    half = b.emit_fresh("shr.s32", k, 1)
    t = b.emit_fresh("mul.rn.f64", ay, _power(d, half))
    t = b.emit_fresh("mul.rn.f64", t, _power(d, b.emit_fresh("sub.s32", k, half)))
    q = b.emit_fresh("cvt.rzi.f64.f64", b.emit_fresh("div.rn.f64", r, t))
    left = b.emit_fresh("fma.rn.f64", b.emit_fresh("neg.f64", q), t, r)
    # the quotient may have been rounded up to the next integer
    low = b.emit_fresh("setp.lt.f64", left, d.c(0.0))
    left = b.emit_fresh("selp.f64", b.emit_fresh("add.rn.f64", left, t), left, low)
    b.pop()
    b.copy(r, left)
    b.bra(head, b.emit_fresh("setp.ge.f64", r, ay))
    b.place(done)
    value = b.emit_fresh("copysign.f64", wide_x, r)
    infinite = d.both(d.cmp("eq", ay, d.inf), d.cmp("lt", d.abs(wide_x), d.inf))
    value = d.select(infinite, wide_x, value)
    bad = d.either(d.invert(usable), b.emit("setp.nan.f64", wide_x, wide_y))
    value = d.select(bad, d.nan, value)
    return b.emit("cvt.rn.f32.f64", value) if f.w == 32 else value


def _exponent(d: Floats, x: Any) -> Any:
    """Biased exponent of a non-negative f64; 0 for subnormals, an upper bound."""
    b = d.b
    low, high = b.reg("r"), b.reg("r")
    b.emit_to((low, high), "mov.b64", b.materialize(x, "d"))
    return b.emit_fresh("shr.u32", high, 20)


def _true_exponent(d: Floats, x: Any) -> Any:
    """Biased exponent of a non-negative f64 as if it had no smallest one: down to -51 for subnormals."""
    b = d.b
    plain = _exponent(d, x)
    scaled = b.emit_fresh("sub.s32", _exponent(d, b.emit_fresh("mul.rn.f64", x, d.c(2.0**54))), 54)
    return b.emit_fresh("selp.b32", plain, scaled, b.emit_fresh("setp.ne.b32", plain, 0))


def _power(d: Floats, n: Any) -> Any:
    b = d.b
    return b.emit_fresh("shl.b64", b.emit_fresh("cvt.s64.s32", b.emit_fresh("add.s32", n, 1023)), 52)


LOWER = {"remf": function(rem)}
