"""sin, cos, tan, atan2.

Arguments up to a bound are reduced by pi/2 in three parts (Cody and Waite); larger ones multiply by the bits of
2/pi that matter (Payne and Hanek), in a branch that ordinary arguments never take.
"""

from __future__ import annotations

from tileiras.compiler.nvvm.build import _sym
from tileiras.compiler.nvvm.code import Addr, Var

from .floats import function
from .tables import CONSTANTS, POLY, TWO_OVER_PI

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op

    from .floats import Floats


def _table(f: Floats) -> Any:
    """The bits of 2/pi in module data, most significant word first, with zero words in front."""
    fn = f.lowering.fn
    name = f"{fn.name}$two_over_pi"
    if not any(var.name == name for var in fn.variables):
        data = b"".join(word.to_bytes(4, "little") for word in TWO_OVER_PI)
        fn.variables.append(Var(name, "global", len(data), 16, data))
    return f.b.entry("mov.u64", _sym(name))


def _reduce(f: Floats, x: Any) -> tuple[Any, Any, Any]:
    """(quadrant as s32, r, tail of r): x = quadrant * pi/2 + r + tail, |r| <= pi/4."""
    b = f.b
    n = f.rint(f.mul(x, f.c(CONSTANTS["two_over_pi", f.w])))
    p1, p2, p3 = CONSTANTS["pi_over_two", f.w]
    t = f.fma(n, f.c(-p1), x)
    head = f.fma(n, f.c(-p2), t)
    # what the second step rounded away, plus the third part
    lost = f.fma(n, f.c(-p2), f.sub(t, head))
    r0 = f.fma(n, f.c(-p3), f.add(head, lost))
    tail0 = f.fma(n, f.c(-p3), f.add(f.sub(head, r0), lost))
    quadrant = b.fresh(f.to_int(n), "r")
    r = b.fresh(r0, f.cls)
    tail = b.fresh(tail0, f.cls)
    done = b.label()
    b.bra(done, f.cmp("leu", f.abs(x), f.c(CONSTANTS["trig_range", f.w])))
    b.push()
    q, big, small = _payne_hanek(f, x)
    b.copy(quadrant, q)
    b.copy(r, big)
    b.copy(tail, small)
    b.pop()
    b.place(done)
    return quadrant, r, tail


def _payne_hanek(f: Floats, x: Any) -> tuple[Any, Any, Any]:
    """Reduction of a large argument. The mantissa (an integer) times 96 or 192 bits of 2/pi, of which two integer
    bits (the quadrant) and the fraction count; infinities and NaN give NaN."""
    b = f.b
    word = f.word(x)
    if f.w == 32:
        exponent = b.emit("bfe.u32", word, 23, 8)
        mantissa = [b.emit("or.b32", b.emit("and.b32", word, 0x7FFFFF), 0x800000)]
        shift = b.sub(32, exponent, 150)  # x = mantissa * 2^shift
        count = 3
    else:
        low, high = b.reg("r"), b.reg("r")
        b.emit_to((low, high), "mov.b64", word)
        exponent = b.emit("bfe.u32", high, 20, 11)
        mantissa = [low, b.emit("or.b32", b.emit("and.b32", high, 0xFFFFF), 0x100000)]
        shift = b.sub(32, exponent, 1075)
        count = 6
    # Bit k after the binary point of 2/pi contributes mantissa * 2^(shift - k): a multiple of four up to
    # k = shift - 2. The window starts behind it; bit k is table bit 128 + k - 1.
    first = b.add(32, shift, 128 - 2)
    index = b.emit("shr.u32", first, 5)
    left = b.emit("and.b32", first, 31)
    where = b.add(64, _table(f), b.emit("mul.wide.u32", index, 4))
    words = [b.emit("ld.global.nc.b32", Addr(where, 4 * i)) for i in range(count + 1)]
    # the window, most significant first, shifted so that it starts at bit `first`
    window = [b.emit("shf.l.clamp.b32", words[i + 1], words[i], left) for i in range(count)]
    # product of the window (count words, big endian) and the mantissa, low words first
    limbs = window[::-1]
    product: list[Any] = [0] * (count + len(mantissa))
    for j, m in enumerate(mantissa):
        carry: Any = 0
        for i, limb in enumerate(limbs):
            wide = b.emit("mul.wide.u32", limb, m)
            wide = b.emit("add.s64", wide, b.wide(product[i + j], signed=False))
            wide = b.emit("add.s64", wide, b.wide(carry, signed=False)) if carry != 0 else wide
            product[i + j] = b.emit("cvt.u32.u64", wide)
            carry = b.emit("cvt.u32.u64", b.emit("shr.u64", wide, 32))
        product[len(limbs) + j] = carry
    # The window's top bit weighs two, so the top two bits of the product's low `count` words are the quadrant and
    # the rest is the fraction; higher words are multiples of four.
    top = product[count - 1]
    next_ = product[count - 2]
    quadrant = b.emit("shr.u32", top, 30)
    fraction = b.emit("mov.b64", (next_, top))
    fraction = b.emit("shl.b64", fraction, 2)
    if count >= 3:
        third = product[count - 3]
        fraction = b.emit("or.b64", fraction, b.wide(b.emit("shr.u32", third, 30), signed=False))
    # to nearest: a fraction of one half or more belongs to the next quadrant, and is negative
    up = b.emit("shr.u64", fraction, 63)
    quadrant = b.add(32, quadrant, b.emit("cvt.u32.u64", up))
    if f.w == 32:
        value = b.emit("cvt.rn.f64.s64", fraction)
        value = b.emit("mul.rn.f64", value, b.float("d", 0x3BF921FB54442D18))  # pi/2 * 2^-64
        negative = b.emit("setp.lt.s32", word, 0)
        value = b.emit("selp.f64", b.emit("neg.f64", value), value, negative)
        big = b.emit("cvt.rn.f32.f64", value)
        small = b.emit("cvt.rn.f32.f64", b.emit("sub.rn.f64", value, b.emit("cvt.f64.f32", big)))
    else:
        # 128 bits of fraction: the second word pair keeps small results exact
        lower = b.emit("mov.b64", (product[count - 4], product[count - 3]))
        lower = b.emit("shl.b64", lower, 2)
        head = b.emit("cvt.rz.f64.s64", fraction)
        rest = b.emit("sub.s64", fraction, b.emit("cvt.rzi.s64.f64", head))
        low_value = b.emit(
            "fma.rn.f64",
            b.emit("cvt.rn.f64.u64", lower),
            b.float("d", 0x3BF0000000000000),
            b.emit("cvt.rn.f64.s64", rest),
        )
        # (head + low) * pi/2 * 2^-64 in two parts
        pio2_hi, pio2_lo = b.float("d", 0x3BF921FB54442D18), b.float("d", 0x3891A62633145C07)
        big0 = b.emit("mul.rn.f64", head, pio2_hi)
        err = b.emit("fma.rn.f64", head, pio2_hi, b.emit("neg.f64", big0))
        err = b.emit("fma.rn.f64", head, pio2_lo, err)
        err = b.emit("fma.rn.f64", low_value, pio2_hi, err)
        big1 = b.emit("add.rn.f64", big0, err)
        small1 = b.emit("add.rn.f64", b.emit("sub.rn.f64", big0, big1), err)
        negative = b.emit("setp.lt.s32", high, 0)
        big = b.emit("selp.f64", b.emit("neg.f64", big1), big1, negative)
        small = b.emit("selp.f64", b.emit("neg.f64", small1), small1, negative)
    quadrant = b.emit("selp.s32", b.emit("neg.s32", quadrant), quadrant, negative)
    finite = f.cmp("lt", f.abs(x), f.inf)
    return quadrant, f.select(finite, big, f.nan), f.select(finite, small, f.c(0.0))


def _sin_poly(f: Floats, r: Any, tail: Any, z: Any) -> Any:
    """sin(r + tail)."""
    cube = f.mul(r, z)
    value = f.mul(cube, f.poly(z, POLY["sin", f.w]))
    half = f.fma(f.mul(z, f.c(-0.5)), tail, tail)  # tail * cos(r), near enough
    return f.add(r, f.add(value, half))


def _cos_poly(f: Floats, r: Any, tail: Any, z: Any) -> Any:
    """cos(r + tail): 1 - z/2 + z^2 P(z) - r tail, with the rounding of 1 - z/2 put back."""
    half = f.mul(z, f.c(0.5))
    one = f.sub(f.c(1.0), half)
    lost = f.sub(f.sub(f.c(1.0), one), half)
    rest = f.fma(f.mul(z, z), f.poly(z, POLY["cos", f.w]), f.fma(f.neg(r), tail, lost))
    return f.add(one, rest)


def _sin_cos(f: Floats, x: Any, add: int) -> Any:
    b = f.b
    quadrant, r, tail = _reduce(f, x)
    if add:
        quadrant = b.emit_fresh("add.s32", quadrant, add)
    z = f.mul(r, r)
    s, c = _sin_poly(f, r, tail, z), _cos_poly(f, r, tail, z)
    odd = b.emit_fresh("setp.ne.b32", b.emit_fresh("and.b32", quadrant, 1), 0)
    value = f.select(odd, c, s)
    minus = b.emit_fresh("setp.ne.b32", b.emit_fresh("and.b32", quadrant, 2), 0)
    return f.select(minus, f.neg(value), value)


def sin(f: Floats, op: Op, x: Any) -> Any:
    value = _sin_cos(f, x, 0)
    return f.select(f.cmp("eq", x, f.c(0.0)), x, value)  # the sign of zero


def cos(f: Floats, op: Op, x: Any) -> Any:
    return _sin_cos(f, x, 1)


def tan(f: Floats, op: Op, x: Any) -> Any:
    b = f.b
    quadrant, r, tail = _reduce(f, x)
    z = f.mul(r, r)
    cube = f.mul(r, z)
    # tan(r + t) = tan r + t (1 + tan^2 r)
    rest = f.fma(cube, f.poly(z, POLY["tan", f.w]), f.fma(z, tail, tail))
    t = f.add(r, rest)
    low = f.add(f.sub(r, t), rest)
    # -1 / (t + low): one correction of the quotient
    q = f.div(f.c(-1.0), t)
    err = f.fma(q, t, f.c(1.0))
    err = f.fma(q, low, err)
    inverse = f.fma(q, err, q)
    odd = b.emit_fresh("setp.ne.b32", b.emit_fresh("and.b32", quadrant, 1), 0)
    value = f.select(odd, inverse, t)
    return f.select(f.cmp("eq", x, f.c(0.0)), x, value)


def atan2(f: Floats, op: Op, y: Any, x: Any) -> Any:
    """Angle of the point (x, y): the first operand is the ordinate."""
    b = f.b
    ax, ay = f.abs(x), f.abs(y)
    swap = f.cmp("gt", ay, ax)
    high = f.select(swap, ay, ax)
    low = f.select(swap, ax, ay)
    infinite = f.both(f.cmp("eq", ax, f.inf), f.cmp("eq", ay, f.inf))
    zero = f.cmp("eq", high, f.c(0.0))
    # keep the quotient's operands away from overflow and from subnormals
    huge = f.cmp("gt", high, f.c(2.0 ** (f.bias - 3)))
    small = f.cmp("lt", high, f.c(2.0 ** -(f.bias - 60)))
    factor = f.select(huge, f.c(0.0625), f.select(small, f.c(2.0**60), f.c(1.0)))
    high, low = f.mul(high, factor), f.mul(low, factor)
    q = f.div(low, high)
    rest = f.div(f.fma(f.neg(q), high, low), high)
    rest = f.select(f.cmp("lt", f.abs(rest), f.inf), rest, f.c(0.0))
    q = f.select(infinite, f.c(1.0), f.select(zero, f.c(0.0), q))
    rest = f.select(f.either(infinite, zero), f.c(0.0), rest)
    # |q| <= 1: atan q = q + q^3 P(q^2); above tan(pi/8) use pi/4 + atan((q - 1) / (q + 1))
    far = f.cmp("gt", q, f.c(0.4142135623730951))
    inner = f.div(f.sub(q, f.c(1.0)), f.add(q, f.c(1.0)))
    # derivative of the substitution spreads the quotient's rounding: rest / (1 + q^2) either way
    spread = f.div(rest, f.fma(q, q, f.c(1.0)))
    u = f.select(far, inner, q)
    z = f.mul(u, u)
    base = f.fma(f.mul(u, z), f.poly(z, POLY["atan", f.w]), spread)
    pio4_hi, pio4_lo = CONSTANTS["pi_over_four", f.w]
    near = f.add(u, base)
    angle = f.select(far, f.add(f.c(pio4_hi), f.add(u, f.add(base, f.c(pio4_lo)))), near)
    pio2_hi, pio2_lo = CONSTANTS["pi_over_two_pair", f.w]
    turned = f.add(f.sub(f.c(pio2_hi), angle), f.c(pio2_lo))
    angle = f.select(swap, turned, angle)
    pi_hi, pi_lo = CONSTANTS["pi_pair", f.w]
    negative = b.emit(f"setp.lt.s{f.w}", f.word(x), 0)
    behind = f.add(f.sub(f.c(pi_hi), angle), f.c(pi_lo))
    angle = f.select(negative, behind, angle)
    value = f.copysign(angle, y)
    unordered = b.emit(f"setp.nan.{f.t}", x, y)
    return f.select(unordered, f.nan, value)


LOWER = {"sin": function(sin), "cos": function(cos), "tan": function(tan), "atan2": function(atan2)}
