"""pow: log in head and tail, times the exponent, exp of the product's head corrected by its tail."""

from __future__ import annotations

from ..arith import downcast, extended, upcast
from ..state import elementwise
from .exponential import _split, exp_scaled
from .floats import Floats, function
from .tables import CONSTANTS, POLY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op

    from ..state import Lowering


def log_pair(f: Floats, x: Any) -> tuple[Any, Any]:
    """log(x) as head + tail with about twice the precision, for positive finite x."""
    e, d, _ = _split(f, x)
    # s = d / (2 + d) in two parts
    y = f.add(d, f.c(2.0))
    lost = f.sub(d, f.sub(y, f.c(2.0)))
    s = f.div(d, y)
    rest = f.div(f.fma(f.neg(s), lost, f.fma(f.neg(s), y, d)), y)
    z = f.mul(s, s)
    # 2 atanh(s) = 2 s + 2 s^3 (1/3 + ...): the leading third in two parts as well
    series = f.mul(z, f.poly(z, POLY["atanh_tail", f.w]))
    third_hi, third_lo = CONSTANTS["third", f.w]
    c_hi = f.add(f.c(third_hi), series)
    c_lo = f.add(f.add(f.sub(f.c(third_hi), c_hi), series), f.c(third_lo))
    z_lo = f.fma(s, s, f.neg(z))
    z_lo = f.fma(f.add(s, s), rest, z_lo)
    cube = f.mul(s, z)
    cube_lo = f.fma(s, z, f.neg(cube))
    cube_lo = f.fma(s, z_lo, f.fma(rest, z, cube_lo))
    term = f.mul(cube, c_hi)
    term_lo = f.fma(cube, c_hi, f.neg(term))
    term_lo = f.fma(cube_lo, c_hi, f.fma(cube, c_lo, term_lo))
    head = f.add(s, term)
    tail = f.add(f.add(f.sub(s, head), term), f.add(term_lo, rest))
    head, tail = f.add(head, head), f.add(tail, tail)
    big, small = CONSTANTS["ln2", f.w]
    top = f.mul(e, f.c(big))
    total = f.add(top, head)
    # top is zero or at least as large as head
    lost2 = f.add(f.sub(top, total), head)
    low = f.mul(e, f.c(small))
    tail = f.add(f.add(lost2, tail), low)
    tail = f.add(tail, f.fma(e, f.c(small), f.neg(low)))
    out = f.add(total, tail)
    return out, f.add(f.sub(total, out), tail)


def _exp_pair(f: Floats, head: Any, tail: Any) -> Any:
    """e^(head + tail); the tail is far below one."""
    value = exp_scaled(f, head)
    corrected = f.fma(value, tail, value)
    # infinities and zeros have nothing to correct
    usable = f.both(f.cmp("lt", value, f.inf), f.cmp("gt", value, f.c(0.0)))
    return f.select(usable, corrected, value)


def _magnitude(f: Floats, x: Any, y: Any, y_low: Any = None) -> Any:
    """|x|^y for finite nonzero x and finite y."""
    head, tail = log_pair(f, x)
    product = f.mul(y, head)
    low = f.fma(y, head, f.neg(product))
    low = f.fma(y, tail, low)
    if y_low is not None:
        low = f.fma(y_low, head, low)
    finite = f.cmp("lt", f.abs(product), f.inf)
    low = f.select(finite, low, f.c(0.0))
    return _exp_pair(f, product, low)


def pow(f: Floats, op: Op, x: Any, y: Any) -> Any:
    """C's pow: every special value as ISO C, annex F says."""
    b = f.b
    zero, one = f.c(0.0), f.c(1.0)
    ax = f.abs(x)
    ay = f.abs(y)
    whole = f.cmp("eq", f.trunc(y), y)
    half = f.mul(y, f.c(0.5))
    odd = f.both(whole, f.cmp("ne", f.trunc(half), half))
    odd = f.both(odd, f.cmp("lt", ay, f.inf))
    negative = b.emit(f"setp.lt.s{f.w}", f.word(x), 0)
    value = _magnitude(f, ax, y)
    # |x| of 0 or infinity, y infinite
    rising = f.cmp("gt", y, zero)
    x_zero = f.cmp("eq", ax, zero)
    x_inf = f.cmp("eq", ax, f.inf)
    value = f.select(x_zero, f.select(rising, zero, f.inf), value)
    value = f.select(x_inf, f.select(rising, f.inf, zero), value)
    y_inf = f.cmp("eq", ay, f.inf)
    above = f.cmp("gt", ax, one)
    grows = b.emit("xor.pred", above, f.invert(rising))  # |x| > 1 and y > 0, or the reverse
    value = f.select(y_inf, f.select(grows, f.inf, zero), value)
    value = f.select(f.both(y_inf, f.cmp("eq", ax, one)), one, value)
    flipped = f.select(f.both(negative, odd), f.neg(value), value)
    # a negative finite base needs an integral exponent
    bad = f.both(
        f.both(f.cmp("lt", x, zero), f.cmp("lt", ax, f.inf)), f.both(f.invert(whole), f.cmp("lt", ay, f.inf))
    )
    value = f.select(bad, f.nan, flipped)
    value = f.select(b.emit(f"setp.nan.{f.t}", x, y), f.nan, value)
    value = f.select(f.cmp("eq", x, one), one, value)
    return f.select(f.cmp("eq", y, zero), one, value)


def _pow_integer(f: Floats, x: Any, n: Any) -> Any:
    """x^n for an s32 n: the exponent as a head and what rounding it lost."""
    b = f.b
    y = f.from_int(n)
    y_low = None
    if f.w == 32:
        back = b.emit("cvt.rzi.s32.f32", y)
        y_low = f.from_int(b.emit("sub.s32", n, back))
    zero, one = f.c(0.0), f.c(1.0)
    ax = f.abs(x)
    value = _magnitude(f, ax, y, y_low)
    rising = b.emit("setp.gt.s32", n, 0)
    value = f.select(f.cmp("eq", ax, zero), f.select(rising, zero, f.inf), value)
    value = f.select(f.cmp("eq", ax, f.inf), f.select(rising, f.inf, zero), value)
    odd = b.emit("setp.ne.b32", b.emit("and.b32", n, 1), 0)
    negative = b.emit(f"setp.lt.s{f.w}", f.word(x), 0)
    value = f.select(f.both(odd, negative), f.neg(value), value)
    value = f.select(b.emit(f"setp.nan.{f.t}", x, x), f.nan, value)
    return f.select(b.emit("setp.eq.b32", n, 0), one, value)


def lower_fpowi(lowering: Lowering, op: Op) -> None:

    b = lowering.b
    elem = op.results[0].type.elem.name  # type: ignore[attr-defined]
    bits = op.operands[1].type.elem.bits  # type: ignore[attr-defined]
    f = Floats(lowering, "f64" if elem == "f64" else "f32")

    def one(x: Any, n: Any) -> Any:
        if bits == 1:
            n = b.emit("selp.s32", -1, 0, n)
        else:
            n = b.materialize(extended(lowering, n, bits, True), "r")
        if elem in ("f32", "f64"):
            return _pow_integer(f, x, n)
        return downcast(lowering, _pow_integer(f, upcast(lowering, x, elem), n), elem)

    elementwise(lowering, op, one)


LOWER = {"fpowf": function(pow), "fpowi": lower_fpowi}
