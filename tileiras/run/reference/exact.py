"""Correctly rounded add, mul, div, sqrt and fma in every mode and format.

f16, bf16 and f32 go through float64: exact products, exact sums kept as a pair, quotients and roots that
float64 cannot round onto a wrong side. f64 itself uses error-free transformations where exponents leave room,
and exact rational arithmetic, element by element, everywhere else.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

import numpy as np

from .floats import F64, RM, RN, RP, RZ, Format, decode64, encode, round_odd, two_sum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SPLIT = float(2**27 + 1)


def two_product(a: Any, b: Any) -> tuple[Any, Any]:
    """p + e == a * b exactly (Dekker), for exponents away from the limits."""
    p = a * b
    t = SPLIT * a
    ah = t - (t - a)
    al = a - ah
    t = SPLIT * b
    bh = t - (t - b)
    bl = b - bh
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def zero_sum_sign(s: Any, a: Any, b: Any, mode: str) -> Any:
    """Exact cancellation gives -0 toward negative infinity (IEEE 754, 6.3); zeros of one sign keep it."""
    if mode != RM:
        return s
    cancelled = (s == 0) & ~((a == 0) & (b == 0) & ~np.signbit(a) & ~np.signbit(b))
    return np.where(cancelled, -0.0, s)


def narrow(op: str, fmt: Format, mode: str, args: tuple[Any, ...]) -> Any:
    """Stored result of one op on stored operands of a format narrower than f64."""
    x = [decode64(a, fmt) for a in args]
    if op in ("add", "sub"):
        b = -x[1] if op == "sub" else x[1]
        s, e = two_sum(x[0], b)
        return encode(zero_sum_sign(round_odd(s, e), x[0], b, mode), fmt, mode)
    if op == "mul":
        return encode(x[0] * x[1], fmt, mode)  # at most 48 bits: exact
    if op == "fma":
        p = x[0] * x[1]
        s, e = two_sum(p, x[2])
        return encode(zero_sum_sign(round_odd(s, e), p, x[2], mode), fmt, mode)
    # A quotient or root of 24-bit numbers is never within 2**-53 of a 25-bit number without being equal.
    return encode(x[0] / x[1] if op == "div" else np.sqrt(x[0]), fmt, mode)


def adjust(r: Any, residual: Any, mode: str) -> Any:
    """The value rounded in `mode`: r is the value to nearest, `residual` has the sign of value - r."""
    if mode == RN:
        return r
    down = (residual < 0) & ((mode == RM) | ((mode == RZ) & (r > 0)))
    up = (residual > 0) & ((mode == RP) | ((mode == RZ) & (r < 0)))
    return np.where(down, np.nextafter(r, -np.inf), np.where(up, np.nextafter(r, np.inf), r))


def wide(op: str, mode: str, args: tuple[Any, ...]) -> Any:
    """float64 result of one op, correctly rounded in `mode`."""
    a, b, c = (*args, None, None)[:3]
    if op == "sub":
        op, b = "add", -b
    if mode == RN and op != "fma":
        return {"add": lambda: a + b, "mul": lambda: a * b, "div": lambda: a / b, "sqrt": lambda: np.sqrt(a)}[
            op
        ]()
    if op == "add":
        r, residual = two_sum(a, b)
        r = zero_sum_sign(r, a, b, mode)
    elif op == "mul":
        r, residual = two_product(a, b)
    elif op == "div":
        r = a / b
        p, e = two_product(r, b)
        residual = ((a - p) - e) * np.sign(b)
    elif op == "sqrt":
        r = np.sqrt(a)
        p, e = two_product(r, r)
        residual = (a - p) - e
    else:  # Boldo and Melquiond: the exact sum of three terms, the lower two rounded to odd
        uh, ul = two_product(a, b)
        th, tl = two_sum(c, ul)
        vh, vl = two_sum(uh, th)
        z = round_odd(*two_sum(tl, vl))
        r, residual = two_sum(vh, z)
    out = adjust(r, residual, mode)
    args = (a, b, c) if op == "fma" else (a,) if op == "sqrt" else (a, b)
    unsafe = ~_middling(out, *args)
    if unsafe.any():
        out = np.array(np.broadcast_to(out, unsafe.shape))
        flat = [np.broadcast_to(x, unsafe.shape)[unsafe] for x in args]
        out[unsafe] = [_rational(op, mode, *map(float, row)) for row in zip(*flat)]
    return out


def _middling(*values: Any) -> Any:
    """Where all magnitudes lie in 2**-450 .. 2**450: no step of the transformations over- or underflows."""
    ok: Any = True
    for x in values:
        m = np.abs(x)
        ok = ok & (m > 2.0**-450) & (m < 2.0**450)
    return np.asarray(ok)


def _rational(op: str, mode: str, a: float, b: float = 0.0, c: float = 0.0) -> float:
    """One element, exactly."""
    finite = all(np.isfinite((a, b, c)))
    x, y, z = np.float64(a), np.float64(b), np.float64(c)
    if op == "add":
        if not finite or (a == 0 and b == 0):
            return float(zero_sum_sign(x + y, x, y, mode)) if finite else float(x + y)
        value = Fraction(a) + Fraction(b)
        return round_fraction(value, F64, mode) if value else (-0.0 if mode == RM else 0.0)
    if op == "mul":
        if not finite or a == 0 or b == 0:
            return float(x * y)
        return round_fraction(Fraction(a) * Fraction(b), F64, mode)
    if op == "div":
        if not finite or a == 0 or b == 0:
            return float(x / y)
        return round_fraction(Fraction(a) / Fraction(b), F64, mode)
    if op == "sqrt":
        if not finite or a <= 0:
            return float(np.sqrt(x))
        n, d = Fraction(a).as_integer_ratio()
        shift = 120 + max(0, d.bit_length())  # digits enough that what is cut off cannot matter
        scaled = (n << (2 * shift)) // d
        root = isqrt(scaled)
        inexact = root * root != scaled or (n << (2 * shift)) % d != 0
        return round_fraction(Fraction(2 * root + inexact, 1 << (shift + 1)), F64, mode)
    if not finite or a == 0 or b == 0:
        product = x * y if np.isfinite(a) and np.isfinite(b) and (a == 0 or b == 0) else None
        if product is None and np.isfinite(a) and np.isfinite(b):
            return float(z)  # finite product, infinite or NaN addend
        p = x * y if product is None else product
        return float(zero_sum_sign(p + z, p, z, mode)) if finite else float(p + z)
    value = Fraction(a) * Fraction(b) + Fraction(c)
    return round_fraction(value, F64, mode) if value else (-0.0 if mode == RM else 0.0)


def round_fraction(value: Fraction, fmt: Format, mode: str) -> float:
    """A nonzero rational rounded to a format (as float; infinity beyond its range where the mode says so)."""
    negative, n, d = value < 0, abs(value.numerator), value.denominator
    e = n.bit_length() - d.bit_length()
    if (n << max(0, -e)) < (d << max(0, e)):
        e -= 1
    quantum = max(e, fmt.emin) - (fmt.precision - 1)
    q, rest = divmod(n << max(0, -quantum), d << max(0, quantum))
    half = d << max(0, quantum)
    if mode == RN:
        q += 2 * rest > half or (2 * rest == half and q & 1)
    elif mode not in (RZ, RM, RP):
        q += 2 * rest >= half
    elif rest and ((mode == RP and not negative) or (mode == RM and negative)):
        q += 1
    big = Fraction(q) * Fraction(2) ** quantum
    if big > Fraction(fmt.max):
        stays = mode == RZ or (mode == RM and not negative) or (mode == RP and negative)
        out = fmt.max if stays else np.inf
    else:
        out = float(big)
    return -out if negative else out


def compute(op: str, fmt: Format, mode: str, *args: Any) -> Any:
    """add, sub, mul, div, sqrt, fma on stored elements, rounded once in `mode`."""
    return wide(op, mode, args) if fmt is F64 else narrow(op, fmt, mode, args)
