"""Fits the polynomials of the math library: weighted least squares on Chebyshev nodes, then coefficients are
rounded one by one from the lowest degree, refitting the rest. Prints the constants that
`tileiras/compiler/lower/tileas_to_nvvm/math/tables.py` holds. Needs mpmath; run it to reproduce the table.
"""

from __future__ import annotations

import struct
import sys

import mpmath as mp

mp.mp.prec = 200


def round_to(x, bits):
    """x rounded to a float of `bits` (32 or 64), as an mpf."""
    if bits == 64:
        return mp.mpf(float(x))
    return mp.mpf(struct.unpack("f", struct.pack("f", float(x)))[0])


def fit(f, powers, low, high, bits, fixed=()):
    """Coefficients c[i] of x**powers[i] with the smallest relative error of sum(c x^p) against f on [low, high]."""
    n = len(powers)
    fixed = list(fixed)
    while len(fixed) < n:
        rest = powers[len(fixed) :]
        m = 12 * n
        nodes = [
            (low + high) / 2 + (high - low) / 2 * mp.cos(mp.pi * (2 * k + 1) / (2 * m)) for k in range(m)
        ]
        rows, rhs = [], []
        for x in nodes:
            value = f(x)
            weight = 1 / value if value != 0 else mp.mpf(1)
            got = sum(c * x**p for c, p in zip(fixed, powers))
            rows.append([weight * x**p for p in rest])
            rhs.append(weight * (value - got))
        solution = mp.lu_solve(mp.matrix(rows), mp.matrix(rhs))
        fixed.append(round_to(solution[0], bits))
    worst = mp.mpf(0)
    for k in range(2000):
        x = low + (high - low) * k / 1999
        value = f(x)
        if value != 0:
            worst = max(worst, abs(sum(c * x**p for c, p in zip(fixed, powers)) / value - 1))
    return fixed, worst


def show(name, coefficients, worst, bits):
    text = ", ".join(repr(float(c)) for c in coefficients)
    print(f"    # relative error 2^{float(mp.log(worst, 2)):.1f}\n    ({name!r}, {bits}): ({text}),")


def log1p_tail(x):
    """(log(1 + x) - x) / x^2."""
    return (mp.log(1 + x) - x) / x**2 if x else mp.mpf(-1) / 2


def main():
    q = mp.pi / 4
    sets = {
        32: dict(sin=4, cos=4, log=9, tan=8, sinh=4, tanh=7, atan=10, exp=6, atanh=5, atanh_tail=5),
        64: dict(sin=7, cos=8, log=24, tan=16, sinh=8, tanh=16, atan=20, exp=12, atanh=11, atanh_tail=11),
    }
    only = sys.argv[1:]
    for bits, n in sets.items():
        jobs = {
            # sin(x)/x - 1 over x^2 and so on: the leading terms are exact and added last
            "sin": (lambda x: (mp.sin(mp.sqrt(x)) / mp.sqrt(x) - 1) / x if x else -mp.mpf(1) / 6, 0, q * q),
            "cos": (lambda x: (mp.cos(mp.sqrt(x)) - 1 + x / 2) / x**2 if x else mp.mpf(1) / 24, 0, q * q),
            "tan": (lambda x: (mp.tan(mp.sqrt(x)) / mp.sqrt(x) - 1) / x if x else mp.mpf(1) / 3, 0, q * q),
            "sinh": (
                lambda x: (mp.sinh(mp.sqrt(x)) / mp.sqrt(x) - 1) / x if x else mp.mpf(1) / 6,
                0,
                mp.mpf(1.1),
            ),
            "tanh": (
                lambda x: (mp.tanh(mp.sqrt(x)) / mp.sqrt(x) - 1) / x if x else -mp.mpf(1) / 3,
                0,
                mp.mpf(0.4),
            ),
            "atan": (
                lambda x: (mp.atan(mp.sqrt(x)) / mp.sqrt(x) - 1) / x if x else -mp.mpf(1) / 3,
                0,
                mp.mpf(1),
            ),
            "atanh": (
                lambda x: (mp.atanh(mp.sqrt(x)) / mp.sqrt(x) - 1) / x if x else mp.mpf(1) / 3,
                0,
                mp.mpf(0.0405),
            ),
            # what pow needs beyond the leading third, which it adds in two parts
            "atanh_tail": (
                lambda x: (
                    ((mp.atanh(mp.sqrt(x)) / mp.sqrt(x) - 1) / x - mp.mpf(1) / 3) / x if x else mp.mpf(1) / 5
                ),
                0,
                mp.mpf(0.0405),
            ),
            "log": (log1p_tail, mp.mpf(-1) / 3, mp.mpf(1) / 3 + mp.mpf(1) / 100),
            "exp": (
                lambda x: (mp.exp(x) - 1 - x) / x**2 if x else mp.mpf(1) / 2,
                -mp.log(2) / 2 * 1.01,
                mp.log(2) / 2 * 1.01,
            ),
        }
        for name, (f, low, high) in jobs.items():
            if only and name not in only:
                continue
            count = n[name]
            low, high = mp.mpf(low), mp.mpf(high)
            lo = low if low else high / mp.mpf(10) ** 12
            coefficients, worst = fit(f, list(range(count)), lo, high, bits)
            show(name, coefficients, worst, bits)


if __name__ == "__main__":
    main()
