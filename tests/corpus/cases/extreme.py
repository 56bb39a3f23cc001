"""Every math function at the edges of its domain: zeros of both signs, infinities, NaN, subnormals, overflow.

Bounds: a few ULP of the result (2.4e-7 of f32 is two), and the smallest subnormals as absolute slack, because a
result below the normal range has fewer bits. NumPy in double precision is the oracle for f32; for f64 its error
(below one ULP) is part of the bound.
"""

from __future__ import annotations

import numpy as np

from tests.corpus.case import DTYPES, Family, like

case = Family("extreme", "writer/ops.py")

F32 = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.1754944e-38, 3.4028235e38, -3.4028235e38, 1.0,
                -1.0, 0.99999994, 1.0000001, 88.72283, 88.72284, -87.33655, -103.97208, -103.97283, -150.0, 127.99999,
                128.0, -126.0, -149.5, 0.5, 1.5707964, 3.1415927, 100000.0, 1e22, 9.0, 1e-20, -1e-4])  # fmt: skip
F64 = np.array(
    [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        5e-324,
        -5e-324,
        2.2250738585072014e-308,
        1.7976931348623157e308,
        -1.7976931348623157e308,
        1.0,
        -1.0,
        0.9999999999999999,
        1.0000000000000002,
        709.782712893384,
        709.7827128933841,
        -708.3964185322641,
        -745.1332191019411,
        -745.1332191019412,
        -800.0,
        1023.9999999999999,
        1024.0,
        -1022.0,
        -1074.5,
        0.5,
        1.5707963267948966,
        3.141592653589793,
        1e10,
        1e22,
        9.0,
        1e-200,
        -1e-9,
    ]
)


def edges(d):
    with np.errstate(all="ignore"):
        return (F64 if d == "f64" else F32).astype(DTYPES[d])


def reciprocal_root(x):
    return 1 / np.sqrt(x)


FUNCTIONS = {"Cos": np.cos, "Sin": np.sin, "Tan": np.tan, "CosH": np.cosh, "SinH": np.sinh, "TanH": np.tanh,
             "Exp": np.exp, "Exp2": np.exp2, "Log": np.log, "Log2": np.log2, "Sqrt": np.sqrt,
             "Rsqrt": reciprocal_root}  # fmt: skip
BOUNDS = {"f32": (4e-7, 3e-45), "f64": (9e-16, 1e-323), "f16": (1e-3, 1e-7), "bf16": (8e-3, 2e-40)}


def formula(f):
    def g(x, y):
        with np.errstate(all="ignore"):
            out = f(x.astype("f8"))
            return {1: out.astype("f4" if x.dtype != "f8" else "f8").astype(x.dtype)}

    return g


for name, f in FUNCTIONS.items():
    for d, (rtol, atol) in BOUNDS.items():
        case(
            f"op_extreme_{name.lower()}_{d}",
            "elementwise",
            [name, (d,), d],
            (1,),
            lambda rng, d=d: (edges(d), like(32, d, 7)),
            formula(f),
            rtol=rtol,
            atol=atol,
        )


def pairs(d):
    """All pairs of eight edges would be 64: the 32 that differ most."""
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0, -2.0, 0.5, -3.0, 1e30])
    rng = np.random.default_rng(5)
    return rng.choice(special, 32).astype(DTYPES[d]), rng.choice(special, 32).astype(DTYPES[d])


def two(f):
    def g(x, y, out):
        with np.errstate(all="ignore"):
            return {
                2: f(x.astype("f8"), y.astype("f8")).astype("f4" if x.dtype != "f8" else "f8").astype(x.dtype)
            }

    return g


for d in ("f32", "f64"):
    rtol, atol = BOUNDS[d]
    for name, f, since in (
        ("FPowF", np.power, "13.1"),
        ("Atan2", np.arctan2, "13.2"),
        ("DivF", np.divide, "13.1"),
        ("RemF", np.fmod, "13.1"),
    ):
        attrs = ((("rounding_mode", "nearest_even"),),) if name == "DivF" else ()
        case(
            f"op_extreme_{name.lower()}_{d}",
            "elementwise",
            [name, (d, d), d, *attrs],
            (1,),
            lambda rng, d=d: (*pairs(d), like(32, d, 7)),
            two(f),
            rtol=2 * rtol,
            atol=atol,
            since=since,
        )
