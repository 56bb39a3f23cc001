"""Exact values rounded once, in any direction, to any binary float type: what directed rounding must give."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from typing import Any

import ml_dtypes


def rounded(value: Fraction, dtype: Any, mode: str, root: bool = False) -> float:
    """`value`, or its square root, as a float of `dtype`; mode is "zero", "up", "down" or "even".

    Overflow is not looked at. A zero comes back positive.
    """
    info = ml_dtypes.finfo(dtype)
    bits, low = info.nmant + 1, int(info.minexp) - info.nmant
    if value == 0:
        return 0.0
    size = abs(value)
    if root:
        # enough places for the integer part of the root to hold the result and what is cut off
        shift = 2 * (bits + 4 + max(0, -exponent(size)))
        whole = isqrt((size.numerator << shift) // size.denominator)
        exact = whole * whole * size.denominator == size.numerator << shift
        size = Fraction(2 * whole + (0 if exact else 1), 2 << (shift // 2))
    unit = Fraction(2) ** max(exponent(size) - bits + 1, low)
    steps, rest = divmod(size / unit, 1)
    away = mode == ("up" if value > 0 else "down") and rest > 0
    if mode == "even":
        away = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and steps % 2 == 1)
    result = float((steps + away) * unit)
    return result if value > 0 else -result


def exponent(value: Fraction) -> int:
    """The e of 2^e <= value < 2^(e+1)."""
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if Fraction(2) ** guess <= value else guess - 1
