"""Single ops with every attribute value, written through cuda-tile's bytecode writer.

Directed roundings are exact: the formula rounds the exact rational result. Math functions have the bounds of
the elementwise family.
"""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np

from tests.corpus.case import DTYPES, Family, fma, integers, like, uniform, wide

case = Family("op", "writer/ops.py")
N = 32
FLOATS = {"f16": (11, -14, 15), "bf16": (8, -126, 127), "f32": (24, -126, 127), "f64": (53, -1022, 1023)}


def numbers(rng, d, n=N):
    if d == "i1":
        return rng.integers(0, 2, n).astype(bool)
    return integers(rng, n, d) if d[0] in "iu" else uniform(rng, n, d, -9, 9)


def positive(rng, d, n=N):
    return uniform(rng, n, d, 0.25, 9)


def round_to(value: Fraction, d: str, mode: str) -> float:
    """A rational rounded to a float type in one of the four IEEE directions (results here never overflow)."""
    if value == 0:
        return 0.0
    digits, emin, _ = FLOATS[d]
    exponent = max(math.frexp(float(value))[1] - 1, emin) if value else emin
    while abs(value) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while abs(value) < Fraction(2) ** exponent and exponent > emin:
        exponent -= 1
    unit = Fraction(2) ** (exponent - digits + 1)
    scaled = value / unit
    low = math.floor(scaled)
    if mode == "nearest_even":
        step = round(scaled)
    elif mode == "zero":
        step = low if scaled >= 0 else -math.floor(-scaled)
    else:
        step = low if mode == "negative_inf" else -math.floor(-scaled)
    return float(step * unit)


def exactly(f, d, mode):
    """The formula of an op on exact rationals, rounded once."""

    def g(*args):
        *ins, _out = args
        columns = [[Fraction(float(v)) for v in x] for x in ins]
        return {len(ins): np.array([round_to(f(*v), d, mode) for v in zip(*columns)]).astype(DTYPES[d])}

    return g


def op(name, kernel_op, ins, out, formula, attrs=(), make=None, **more):
    """One elementwise op: inputs by `make(rng, dtype)` each, the result behind the last pointer."""
    make = make or (lambda rng, d, k: numbers(rng, d))
    attrs = tuple(sorted(dict(attrs).items()))
    count = len(ins)
    case(
        f"op_{name}",
        "elementwise",
        [kernel_op, tuple(ins), out, attrs],
        (1,),
        lambda rng: (*(make(rng, d, k) for k, d in enumerate(ins)), like(N, out)),
        formula if getattr(formula, "whole", False) else lambda *a: {count: np.asarray(formula(*a[:count]))},
        **more,
    )


def whole(f):
    """Marks a formula that takes every argument and returns the dictionary itself."""
    f.whole = True
    return f


# Floating point, every rounding direction and type.
MODES = ("nearest_even", "zero", "negative_inf", "positive_inf")
for d in ("f32", "f64", "f16", "bf16"):
    for mode in MODES:
        if mode == "nearest_even" and d != "bf16":
            continue
        rm = {"rounding_mode": mode}
        for name, kernel_op, f in (
            ("addf", "AddF", lambda x, y: x + y),
            ("subf", "SubF", lambda x, y: x - y),
            ("mulf", "MulF", lambda x, y: x * y),
            ("divf", "DivF", lambda x, y: x / y),
        ):
            if d in ("f16", "bf16") and name in ("subf", "mulf"):
                continue
            op(
                f"{name}_{d}_{mode}",
                kernel_op,
                (d, d),
                d,
                whole(exactly(f, d, mode)),
                rm,
                make=lambda rng, d, k: positive(rng, d) if k else numbers(rng, d),
            )
        op(f"fma_{d}_{mode}", "Fma", (d, d, d), d, whole(exactly(lambda x, y, z: x * y + z, d, mode)), rm)
        if d in ("f32", "f64"):

            def root(x, out, d=d, mode=mode):
                scale = 2**120
                exact = [
                    Fraction(math.isqrt(int(Fraction(float(v)) * scale * scale * 16)) * 2 + 1, scale * 8)
                    for v in x
                ]
                return {1: np.array([round_to(v, d, mode) for v in exact]).astype(DTYPES[d])}

            op(f"sqrt_{d}_{mode}", "Sqrt", (d,), d, whole(root), rm, make=lambda rng, d, k: positive(rng, d))
TINY = np.array([1e-40, -1e-40, 1.0, -3.0, 1.1754942e-38, 2e-38, 0.0, -0.0] * 4, "f4")


def tiny(rng, d, k):
    return TINY if k == 0 else np.array([1.0, 0.5, 1e-40, 2e-39] * 8, "f4")


def flushed(f):
    """Subnormal inputs and results become zeros of their sign."""

    def flush(x):
        return np.where(np.abs(x) < np.float32(1.17549435e-38), np.copysign(np.float32(0), x), x).astype("f4")

    def g(*ins):
        with np.errstate(all="ignore"):
            return flush(f(*(flush(x) for x in ins)))

    return g


FTZ = {"flush_to_zero": True}
op("addf_ftz", "AddF", ("f32", "f32"), "f32", flushed(np.add), FTZ, make=tiny)
op("subf_ftz", "SubF", ("f32", "f32"), "f32", flushed(np.subtract), FTZ, make=tiny)
op("mulf_ftz", "MulF", ("f32", "f32"), "f32", flushed(np.multiply), FTZ, make=tiny)
op("fma_ftz", "Fma", ("f32", "f32", "f32"), "f32", flushed(lambda x, y, z: fma(x, y, z)), FTZ, make=tiny)
op("sqrt_ftz", "Sqrt", ("f32",), "f32", flushed(np.sqrt), FTZ, make=lambda rng, d, k: np.abs(TINY))
op(
    "divf_approx",
    "DivF",
    ("f32", "f32"),
    "f32",
    lambda x, y: x / y,
    {"rounding_mode": "approx"},
    make=lambda rng, d, k: positive(rng, d),
    rtol=4e-7,
)
op(
    "divf_full",
    "DivF",
    ("f32", "f32"),
    "f32",
    lambda x, y: x / y,
    {"rounding_mode": "full"},
    make=lambda rng, d, k: positive(rng, d),
    rtol=4e-7,
)
op(
    "sqrt_approx",
    "Sqrt",
    ("f32",),
    "f32",
    lambda x: np.sqrt(x),
    {"rounding_mode": "approx"},
    make=lambda rng, d, k: positive(rng, d),
    rtol=4e-7,
)
op(
    "exp_approx",
    "Exp",
    ("f32",),
    "f32",
    lambda x: np.exp(wide(x)[0]).astype("f4"),
    {"rounding_mode": "approx"},
    rtol=4e-6,
    since="13.3",
)
op(
    "tanh_approx",
    "TanH",
    ("f32",),
    "f32",
    lambda x: np.tanh(wide(x)[0]).astype("f4"),
    {"rounding_mode": "approx"},
    rtol=1e-3,
    atol=1e-5,
    since="13.3",
)
op(
    "rsqrt_ftz",
    "Rsqrt",
    ("f32",),
    "f32",
    lambda x: (1 / np.sqrt(wide(x)[0])).astype("f4"),
    FTZ,
    make=lambda rng, d, k: positive(rng, d),
    rtol=4e-7,
)
op("exp2_ftz", "Exp2", ("f32",), "f32", lambda x: np.exp2(wide(x)[0]).astype("f4"), FTZ, rtol=4e-7)
MATH = {
    "Cos": np.cos,
    "Sin": np.sin,
    "Tan": np.tan,
    "CosH": np.cosh,
    "SinH": np.sinh,
    "TanH": np.tanh,
    "Exp": np.exp,
    "Exp2": np.exp2,
}
for kernel_op, f in MATH.items():
    for d, rtol in (("f32", 1e-6), ("f64", 2e-15), ("f16", 1e-3), ("bf16", 8e-3)):
        op(
            f"{kernel_op.lower()}_{d}",
            kernel_op,
            (d,),
            d,
            lambda x, f=f: f(wide(x)[0]).astype("f4" if x.dtype != "f8" else "f8").astype(x.dtype),
            rtol=rtol,
            atol=rtol / 4,
        )
for kernel_op, f in {
    "Log": np.log,
    "Log2": np.log2,
    "Rsqrt": lambda x: 1 / np.sqrt(x),
    "Sqrt": np.sqrt,
}.items():
    for d, rtol in (("f32", 4e-7), ("f64", 8e-16), ("f16", 1e-3), ("bf16", 8e-3)):
        op(
            f"{kernel_op.lower()}_{d}",
            kernel_op,
            (d,),
            d,
            lambda x, f=f: f(wide(x)[0]).astype("f4" if x.dtype != "f8" else "f8").astype(x.dtype),
            make=lambda rng, d, k: positive(rng, d),
            rtol=rtol,
            atol=rtol / 4,
        )
for d, rtol in (("f32", 2e-6), ("f64", 4e-15), ("f16", 2e-3), ("bf16", 1.6e-2)):
    op(
        f"fpowf_{d}",
        "FPowF",
        (d, d),
        d,
        lambda x, y: np.power(*wide(x, y)).astype("f4" if x.dtype != "f8" else "f8").astype(x.dtype),
        make=lambda rng, d, k: uniform(rng, N, d, -3, 3) if k else uniform(rng, N, d, 0.25, 4),
        rtol=rtol,
    )
    op(
        f"atan2_{d}",
        "Atan2",
        (d, d),
        d,
        lambda x, y: np.arctan2(*wide(x, y)).astype("f4" if x.dtype != "f8" else "f8").astype(x.dtype),
        rtol=rtol,
        since="13.2",
    )
    op(
        f"fpowi_{d}",
        "FPowI",
        (d, "i32"),
        d,
        lambda x, y: np.power(wide(x)[0], y).astype("f4" if x.dtype != "f8" else "f8").astype(x.dtype),
        make=lambda rng, d, k: integers(rng, N, d, -4, 5) if k else uniform(rng, N, d, 0.5, 2),
        rtol=rtol * 2,
        since="13.4",
    )
    op(
        f"remf_{d}",
        "RemF",
        (d, d),
        d,
        lambda x, y: np.fmod(*wide(x, y)).astype("f4" if x.dtype != "f8" else "f8").astype(x.dtype),
        make=lambda rng, d, k: positive(rng, d) if k else uniform(rng, N, d, -90, 90),
    )
for d in ("f32", "f64", "f16", "bf16"):
    op(f"absf_{d}", "AbsF", (d,), d, lambda x: np.abs(x))
    op(f"negf_{d}", "NegF", (d,), d, lambda x: -x)
    op(f"ceil_{d}", "Ceil", (d,), d, lambda x: np.ceil(x))
    op(f"floor_{d}", "Floor", (d,), d, lambda x: np.floor(x))
    op(f"maxf_{d}", "MaxF", (d, d), d, np.fmax)
    op(f"minf_{d}", "MinF", (d, d), d, np.fmin)
    op(f"select_{d}", "Select", ("i1", d, d), d, np.where)
op(
    "maxf_ftz_nan",
    "MaxF",
    ("f32", "f32"),
    "f32",
    flushed(np.maximum),
    {"flush_to_zero": True, "propagate_nan": True},
    make=lambda rng, d, k: np.where(np.arange(N) == 5 + k, np.float32(np.nan), tiny(rng, d, k)).astype("f4"),
)

# Comparisons: unordered is true with a NaN, ordered is false.
PREDICATES = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less_than": np.less,
    "less_than_or_equal": np.less_equal,
    "greater_than": np.greater,
    "greater_than_or_equal": np.greater_equal,
}


def with_nan(rng, d, k):
    x = np.round(uniform(rng, N, d, -3, 3).astype("f4")).astype(DTYPES[d])
    x[k::5] = np.nan
    return x


for predicate, f in PREDICATES.items():
    for ordering in ("ordered", "unordered"):

        def compared(x, y, f=f, ordering=ordering):
            bad = np.isnan(x) | np.isnan(y)
            return np.where(bad, ordering == "unordered", f(x, y))

        op(
            f"cmpf_{predicate}_{ordering}",
            "CmpF",
            ("f32", "f32"),
            "i1",
            compared,
            {"comparison_predicate": predicate, "comparison_ordering": ordering},
            make=with_nan,
        )
    for signedness, d in (("signed", "i8"), ("unsigned", "u64"), ("unsigned", "u16")):
        op(
            f"cmpi_{predicate}_{d}",
            "CmpI",
            (d, d),
            "i1",
            f,
            {"comparison_predicate": predicate, "signedness": signedness},
            make=lambda rng, d, k: np.where(np.arange(N) % 3 == 0, DTYPES[d](7), integers(rng, N, d)),
        )


# Integers.
def small(rng, d, k):
    return integers(rng, N, d, 1, 11)


def quiet(f):
    def g(*a):
        with np.errstate(all="ignore"):
            return f(*a)

    return g


for promise in ("no_signed_wrap", "no_unsigned_wrap", "no_wrap"):
    flag = {"overflow": {"no_signed_wrap": "nsw", "no_unsigned_wrap": "nuw", "no_wrap": "nw"}[promise]}
    op(f"addi_{promise}", "AddI", ("i32", "i32"), "i32", np.add, flag, make=small)
    op(f"muli_{promise}", "MulI", ("i32", "i32"), "i32", np.multiply, flag, make=small)
    op(f"shli_{promise}", "ShLI", ("i32", "i32"), "i32", np.left_shift, flag, make=small)
    op(
        f"subi_{promise}",
        "SubI",
        ("i32", "i32"),
        "i32",
        np.subtract,
        flag,
        make=lambda rng, d, k: integers(rng, N, d, 0, 10) if k else integers(rng, N, d, 10, 20),
    )
    op(
        f"trunci_{promise}",
        "TruncI",
        ("i64",),
        "i16",
        lambda x: x.astype("i2"),
        flag,
        make=small,
        since="13.1",
    )
for d in ("i8", "i16", "i32", "i64"):
    u = "u" + d[1:]
    op(f"addi_{d}", "AddI", (d, d), d, quiet(np.add))
    op(f"subi_{d}", "SubI", (d, d), d, quiet(np.subtract))
    op(f"muli_{d}", "MulI", (d, d), d, quiet(np.multiply))
    op(f"andi_{d}", "AndI", (d, d), d, np.bitwise_and)
    op(f"ori_{d}", "OrI", (d, d), d, np.bitwise_or)
    op(f"xori_{d}", "XOrI", (d, d), d, np.bitwise_xor)
    op(f"absi_{d}", "AbsI", (d,), d, quiet(np.abs))
    if d != "i8":
        op(
            f"mulhii_{d}",
            "MulhiI",
            (u, u),
            u,
            lambda x, y: np.array([int(a) * int(b) >> 8 * x.itemsize for a, b in zip(x, y)], object).astype(
                x.dtype
            ),
        )
    op(f"negi_{d}", "NegI", (d,), d, quiet(np.negative), {"overflow": "none"}, since="13.2")
    for name, kernel_op in (("maxi", "MaxI"), ("mini", "MinI")):
        f = np.maximum if name == "maxi" else np.minimum
        op(f"{name}_signed_{d}", kernel_op, (d, d), d, f, {"signedness": "signed"})
        op(f"{name}_unsigned_{d}", kernel_op, (u, u), u, f, {"signedness": "unsigned"})
    shift = {
        "make": lambda rng, d, k: (
            integers(rng, N, d, 0, 8 * DTYPES[d]().itemsize) if k else integers(rng, N, d)
        )
    }
    op(f"shri_signed_{d}", "ShRI", (d, d), d, np.right_shift, {"signedness": "signed"}, **shift)
    op(f"shri_unsigned_{d}", "ShRI", (u, u), u, np.right_shift, {"signedness": "unsigned"}, **shift)
    op(f"shli_{d}", "ShLI", (d, d), d, np.left_shift, **shift)

    def operands(rng, d, k):
        x = integers(rng, N, d)
        if k == 0:
            return np.where(x == np.iinfo(x.dtype).min, x + 1, x) if d[0] == "i" else x
        return np.where(x == 0, x + 3, x) if rng.integers(0, 2) else integers(rng, N, d, 1, 12)

    def divided(x, y, mode):
        out = []
        for a, b in zip(x, y):
            q = Fraction(int(a), int(b))
            floor = math.floor(q)
            out.append({"zero": math.trunc(q), "negative_inf": floor, "positive_inf": -math.floor(-q)}[mode])
        return np.array(out, object).astype(x.dtype)

    for mode in ("zero", "negative_inf", "positive_inf"):
        op(
            f"divi_signed_{mode}_{d}",
            "DivI",
            (d, d),
            d,
            lambda x, y, mode=mode: divided(x, y, mode),
            {"signedness": "signed", "rounding": mode},
            make=operands,
        )
        if mode != "negative_inf":
            op(
                f"divi_unsigned_{mode}_{d}",
                "DivI",
                (u, u),
                u,
                lambda x, y, mode=mode: divided(x, y, mode),
                {"signedness": "unsigned", "rounding": mode},
                make=operands,
            )
    op(
        f"remi_signed_{d}",
        "RemI",
        (d, d),
        d,
        lambda x, y: (x - divided(x, y, "zero") * y).astype(x.dtype),
        {"signedness": "signed"},
        make=operands,
    )
    op(f"remi_unsigned_{d}", "RemI", (u, u), u, np.remainder, {"signedness": "unsigned"}, make=operands)
for f, kernel_op in ((np.logical_and, "AndI"), (np.logical_or, "OrI"), (np.logical_xor, "XOrI")):
    op(f"{kernel_op.lower()}_i1", kernel_op, ("i1", "i1"), "i1", f)
op("select_i1", "Select", ("i1", "i1", "i1"), "i1", np.where)

# Conversions.
for src, dst in (("i1", "i8"), ("i8", "i16"), ("i8", "i64"), ("i16", "i32"), ("i32", "i64")):
    for signedness in ("signed", "unsigned"):

        def extended(x, src=src, dst=dst, signedness=signedness):
            if src == "i1":
                return (x.astype("i1") * (-1 if signedness == "signed" else 1)).astype(DTYPES[dst])
            return (x if signedness == "signed" else x.view(DTYPES["u" + src[1:]])).astype(DTYPES[dst])

        op(f"exti_{src}_{dst}_{signedness}", "ExtI", (src,), dst, extended, {"signedness": signedness})
for src, dst in (("i64", "i32"), ("i64", "i8"), ("i32", "i16"), ("i16", "i8")):
    op(
        f"trunci_{src}_{dst}",
        "TruncI",
        (src,),
        dst,
        lambda x, dst=dst: x.astype(DTYPES[dst]),
        {"overflow": "none"},
    )
op("trunci_i32_i1", "TruncI", ("i32",), "i1", lambda x: (x & 1).astype(bool), {"overflow": "none"})
for src in ("i1", "i8", "i16", "i32", "i64"):
    for signedness in ("signed", "unsigned"):
        for dst in ("f32", "f64", "f16", "bf16"):
            if src in ("i32", "i64") and dst == "f16":
                continue

            def converted(x, src=src, dst=dst, signedness=signedness):
                v = (
                    x.astype(int) * (-1 if signedness == "signed" else 1)
                    if src == "i1"
                    else (x if signedness == "signed" else x.view(DTYPES["u" + src[1:]]))
                )
                return np.array([round_to(Fraction(int(a)), dst, "nearest_even") for a in v]).astype(
                    DTYPES[dst]
                )

            op(f"itof_{src}_{dst}_{signedness}", "IToF", (src,), dst, converted, {"signedness": signedness})
for src in ("f32", "f64", "f16", "bf16"):
    for dst in ("i8", "i16", "i32", "i64"):
        for signedness in ("signed", "unsigned"):
            op(
                f"ftoi_{src}_{dst}_{signedness}",
                "FToI",
                (src,),
                dst,
                lambda x, dst=dst: np.trunc(wide(x)[0]).astype("i8").astype(DTYPES[dst]),
                {"signedness": signedness},
                make=lambda rng, d, k, s=signedness: uniform(rng, N, d, -120 if s == "signed" else 0, 120),
            )


def saturated(dst, signedness):
    def f(x):
        info = np.iinfo(DTYPES[dst if signedness == "signed" else "u" + dst[1:]])
        out = []
        for v in wide(x)[0]:
            out.append(
                0
                if np.isnan(v)
                else info.max
                if v == np.inf
                else info.min
                if v == -np.inf
                else min(max(math.trunc(v), info.min), info.max)
            )
        return np.array(out, object).astype(info.dtype).view(DTYPES[dst])

    return f


for src in ("f32", "f64", "f16"):
    for dst in ("i8", "i32", "i64"):
        for signedness in ("signed", "unsigned"):

            def extremes(rng, d, k):
                with np.errstate(over="ignore"):
                    x = uniform(rng, N, d, -500, 500)
                    x[:10] = np.array(
                        [np.nan, np.inf, -np.inf, 1e30, -1e30, 3e9, -3e9, 2.5, -0.75, 0]
                    ).astype(x.dtype)
                return x

            op(
                f"ftoi_saturating_{src}_{dst}_{signedness}",
                "FToI",
                (src,),
                dst,
                saturated(dst, signedness),
                {"signedness": signedness, "saturating": True},
                make=extremes,
                since="13.4",
            )


def to_float(dst, mode):
    def f(x):
        return np.array([round_to(Fraction(float(v)), dst, mode) for v in x]).astype(DTYPES[dst])

    return f


for src, dst, modes in (
    ("f32", "f16", ("zero",)),
    ("f32", "bf16", ("zero",)),
    ("f64", "bf16", ("nearest_even", "zero")),
    ("f64", "f16", ("nearest_even", "zero")),
    ("f16", "bf16", ("nearest_even", "zero")),
    ("f64", "f32", ("nearest_even", "zero", "negative_inf", "positive_inf")),
    ("f16", "f64", ("zero", "negative_inf")),
    ("bf16", "f32", ("positive_inf",)),
):
    for mode in modes:
        since = "13.1" if mode == "nearest_even" else "13.4"
        op(
            f"ftof_{src}_{dst}_{mode}",
            "FToF",
            (src,),
            dst,
            to_float(dst, mode),
            {"rounding_mode": mode},
            since=since,
        )


def tf32(x, mode="nearest_even"):
    """10 fraction bits of f32."""
    bits = x.view("u4").astype("u8")
    add = {"nearest_even": 0xFFF + ((bits >> 13) & 1), "nearest_away": 0x1000, "zero": 0}[mode]
    return ((bits + add) & 0xFFFFE000).astype("u4").view("f4")


for mode in ("nearest_even", "zero", "nearest_away"):
    case(
        f"op_ftof_tf32_{mode}",
        "via",
        ["tf32", "f32", "f32", (("rounding_mode", mode),)],
        (1,),
        lambda rng: (uniform(rng, N), like(N)),
        lambda x, y, mode=mode: {1: tf32(x, mode)},
        since="13.1" if mode == "nearest_even" else "13.4",
    )
for mode in ("zero", "positive_inf"):

    def power(x, y, mode=mode):
        e = np.array([math.floor(math.log2(float(v))) for v in x])
        if mode == "positive_inf":
            e = e + (np.exp2(e) < x)
        return {1: np.exp2(e).astype("f4")}

    case(
        f"op_ftof_e8m0_{mode}",
        "via",
        ["e8m0", "f32", "f32", (("rounding_mode", mode),)],
        (1,),
        lambda rng: (uniform(rng, N, "f32", 0.01, 100), like(N)),
        power,
        since="13.2",
        min_arch=100,
        tags=("fp8",),
    )
case(
    "op_ftof_e2m1",
    "via",
    ["e2m1", "f32", "f32"],
    (1,),
    lambda rng: (uniform(rng, N, "f32", -5.9, 5.9), like(N)),
    lambda x, y: {1: x.astype(ml_dtypes.float4_e2m1fn).astype("f4")},
    since="13.3",
    min_arch=100,
    tags=("fp8",),
)
for src, dst in (
    ("f32", "i32"),
    ("i64", "f64"),
    ("f16", "i16"),
    ("bf16", "f16"),
    ("e4m3", "i8"),
    ("i8", "e5m2"),
):
    op(
        f"bitcast_{src}_{dst}",
        "Bitcast",
        (src,),
        dst,
        lambda x, dst=dst: x.view(DTYPES[dst]),
        make=lambda rng, d, k: uniform(rng, N, d, -9, 9) if d[0] != "i" else integers(rng, N, d, 0, 100),
        min_arch=90 if "e" in src + dst else 75,
        tags=("fp8",) if "e" in src + dst else (),
    )
case(
    "op_exti_i4_signed",
    "nibbles",
    ["signed"],
    (1,),
    lambda rng: (integers(rng, 16, "i8"), like(32, "i32"), like(16, "i8")),
    lambda x, w, y: nibble_values(x, True),
    since="13.3",
)
case(
    "op_exti_i4_unsigned",
    "nibbles",
    ["unsigned"],
    (1,),
    lambda rng: (integers(rng, 16, "i8"), like(32, "i32"), like(16, "i8")),
    lambda x, w, y: nibble_values(x, False),
    since="13.3",
)


def nibble_values(x, signed):
    u = x.view("u1")
    v = np.stack([u & 15, u >> 4], 1).ravel().astype("i4")
    v = np.where((v > 7) & signed, v - 16, v)
    again = (v + 1) & 15
    return {1: v.astype("i4"), 2: (again[::2] | again[1::2] << 4).astype("u1").view("i1")}


for d, out in (("i32", "i8"), ("f64", "i8"), ("i16", "i8"), ("f16", "i8")):
    size = np.dtype(DTYPES[d]).itemsize
    case(
        f"op_pack_{d}",
        "convert_packed",
        ["Pack", d, (16,), out, 16 * size],
        (1,),
        lambda rng, d=d, n=size: (numbers(rng, d, 16), like(16 * n, "i8")),
        lambda x, y: {1: x.view("i1")},
        since="13.3",
    )
    case(
        f"op_unpack_{d}",
        "convert_packed",
        ["Unpack", "i8", (16 * size,), d, 16],
        (1,),
        lambda rng, d=d: (numbers(rng, d, 16).view("i1"), like(16, d)),
        lambda x, y: {1: x.view(y.dtype)},
        since="13.3",
    )

# Constants, iota, shapes.
for d, values in (
    ("i8", range(-4, 4)),
    ("i16", [300, -300] * 4),
    ("i32", [2**31 - 1, -(2**31), 0, 5] * 2),
    ("i64", [2**63 - 1, -(2**63), 0, -1] * 2),
    ("f16", [0.5, -65504, 1e-5, 0] * 2),
    ("f32", [0.1, -0.0, 3e38, 1e-42] * 2),
    ("f64", [0.1, float("inf"), -1e-310, 7.0] * 2),
):
    case(
        f"op_constant_{d}",
        "constant",
        [d, tuple(values), (2, 4)],
        (1,),
        lambda rng, d=d: (like((2, 4), d, 99),),
        lambda y, v=tuple(values): {0: np.array(v).astype(y.dtype).reshape(2, 4)},
    )
case(
    "op_constant_splat_f32",
    "constant",
    ["f32", (2.5,), (4, 8)],
    (1,),
    lambda rng: (like((4, 8)),),
    lambda y: {0: np.full((4, 8), 2.5, "f4")},
)
BITS = (1, 0, 0, 1, 1, 1, 0, 1, 0, 0, 1, 0, 1, 1, 1, 0)
case(
    "op_constant_i1",
    "constant",
    ["i1", BITS, (16,)],
    (1,),
    lambda rng: (like(16, "i1"),),
    lambda y: {0: np.array(BITS, bool)},
)
for d, n in (("i8", 64), ("i16", 128), ("i32", 256), ("i64", 16), ("i32", 1)):
    case(
        f"op_iota_{d}_{n}",
        "iota",
        [d, n],
        (1,),
        lambda rng, d=d, n=n: (like(n, d, 77),),
        lambda y: {0: np.arange(len(y)).astype(y.dtype)},
    )
for d, shape, perm in (
    ("f32", (4, 8), (1, 0)),
    ("i8", (2, 4, 8), (1, 2, 0)),
    ("i1", (4, 4, 2), (2, 0, 1)),
    ("f64", (2, 2, 4, 4), (3, 1, 0, 2)),
    ("i16", (2, 2, 2, 2, 2), (4, 3, 2, 1, 0)),
):
    name = "".join(map(str, perm))
    case(
        f"op_permute_{name}_{d}",
        "permute",
        [d, shape, perm],
        (1,),
        lambda rng, d=d, s=shape, p=perm: (numbers(rng, d, s), like(tuple(s[i] for i in p), d)),
        lambda x, y, p=perm: {1: x.transpose(p)},
    )
for shape, out in (((1, 8), (4, 8)), ((4, 1), (4, 8)), ((1, 4, 1), (2, 4, 8)), ((1,), (64,))):
    case(
        f"op_broadcast_{'x'.join(map(str, shape))}",
        "broadcast",
        ["f32", shape, out],
        (1,),
        lambda rng, s=shape, o=out: (uniform(rng, s), like(o)),
        lambda x, y: {1: np.broadcast_to(x, y.shape)},
    )
for d, shape, dim in (("f32", (4, 8), 0), ("f32", (4, 8), 1), ("i8", (2, 4, 8), 1), ("i64", (16,), 0)):
    case(
        f"op_cat_{d}_{dim}_{len(shape)}d",
        "cat",
        [d, shape, dim],
        (1,),
        lambda rng, d=d, s=shape, k=dim: (
            numbers(rng, d, s),
            numbers(rng, d, s),
            like(tuple(2 * n if i == k else n for i, n in enumerate(s)), d),
        ),
        lambda a, b, y, k=dim: {2: np.concatenate([a, b], k)},
    )
for d, shape, part, at in (
    ("f32", (8, 16), (4, 4), (1, 3)),
    ("i16", (32,), (8,), (2,)),
    ("i8", (4, 4, 8), (2, 4, 1), (1, 0, 5)),
):
    where = tuple(slice(i * n, i * n + n) for i, n in zip(at, part))
    case(
        f"op_extract_{d}",
        "extract",
        [d, shape, part, at],
        (1,),
        lambda rng, d=d, s=shape, p=part: (numbers(rng, d, s), like(p, d)),
        lambda x, y, w=where: {1: x[w]},
    )

    def inserted(x, p, y, w=where):
        out = x.copy()
        out[w] = p
        return {2: out}

    case(
        f"op_insert_{d}",
        "insert",
        [d, shape, part, at],
        (1,),
        lambda rng, d=d, s=shape, p=part: (numbers(rng, d, s), numbers(rng, d, p), like(s, d)),
        inserted,
        since="13.4",
    )

# Reductions and scans with bodies of one op.
for name, d, body, identity, attrs, f in (
    ("addf", "f32", "AddF", 0.0, (), lambda x, k: wide(x)[0].sum(k)),
    ("maxf", "f16", "MaxF", float("-inf"), (), lambda x, k: x.max(k)),
    ("mulf", "f64", "MulF", 1.0, (), lambda x, k: x.prod(k)),
    ("andi", "i16", "AndI", 0xFFFF, (), lambda x, k: np.bitwise_and.reduce(x, k)),
    ("ori", "i64", "OrI", 0, (), lambda x, k: np.bitwise_or.reduce(x, k)),
    ("maxi", "i8", "MaxI", 0x80, (("signedness", "signed"),), lambda x, k: x.max(k)),
    ("mini", "u32", "MinI", 0xFFFFFFFF, (("signedness", "unsigned"),), lambda x, k: x.min(k)),
    ("muli", "i32", "MulI", 1, (), lambda x, k: np.multiply.reduce(x, k)),
):
    for dim in (0, 1, 2):
        case(
            f"op_reduce_{name}_{d}_{dim}",
            "reduce",
            [d, (4, 8, 2), dim, body, identity, attrs],
            (1,),
            lambda rng, d=d, k=dim: (
                numbers(rng, d, (4, 8, 2)),
                like(tuple(n for i, n in enumerate((4, 8, 2)) if i != k), d, 99),
            ),
            quiet(lambda x, y, f=f, k=dim: {1: f(x, k).astype(y.dtype)}),
            rtol=1e-5 if d == "f32" else 1e-14 if d == "f64" else 0,
            atol=1e-5 if d == "f32" else 0,
        )
for name, d, body, identity, f in (
    ("addi", "i32", "AddI", 0, np.cumsum),
    ("mulf", "f64", "MulF", 1.0, np.cumprod),
    ("addf", "f32", "AddF", 0.0, np.cumsum),
):
    for dim in (0, 1):
        for reverse in (False, True):

            def scanned(x, y, f=f, k=dim, r=reverse):
                v = np.flip(x, k) if r else x
                out = f(v.astype("f8") if x.dtype.kind == "f" else v, k)
                return {1: (np.flip(out, k) if r else out).astype(x.dtype)}

            case(
                f"op_scan_{name}_{dim}{'_reverse' * reverse}",
                "reduce",
                [d, (8, 16), dim, body, identity, (), True, reverse],
                (1,),
                lambda rng, d=d: (
                    integers(rng, (8, 16), d, -99, 99) if d[0] == "i" else uniform(rng, (8, 16), d, 0.5, 1.5),
                    like((8, 16), d),
                ),
                quiet(scanned),
                rtol=1e-5 if d == "f32" else 1e-13 if d == "f64" else 0,
            )
case(
    "op_reduce_pairs",
    "reduce_pairs",
    [64],
    (1,),
    lambda rng: (np.round(uniform(rng, 64, "f32", -3, 3)), like(()), like((), "i32")),
    lambda x, v, i: {1: np.asarray(x.max()), 2: np.asarray(x.argmax(), "i4")},
)

# Memory.
RMW = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "add": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "xchg": lambda x, v: v,
}
for mode, f in RMW.items():
    for d in ("i32", "i64"):
        case(
            f"op_rmw_{mode}_{d}",
            "rmw",
            [d, mode],
            (1,),
            lambda rng, d=d: (integers(rng, N, d), integers(rng, N, d), like(N, d)),
            quiet(lambda x, v, old, f=f: {0: f(x, v), 2: x}),
        )
for mode, f in (("umax", np.maximum), ("umin", np.minimum)):
    for d in ("u32", "u64"):
        case(
            f"op_rmw_{mode}_{d}",
            "rmw",
            [d, mode],
            (1,),
            lambda rng, d=d: (integers(rng, N, d), integers(rng, N, d), like(N, d)),
            lambda x, v, old, f=f: {0: f(x, v), 2: x},
        )
for d in ("f32", "f64", "f16", "bf16"):
    case(
        f"op_rmw_addf_{d}",
        "rmw",
        [d, "addf"],
        (1,),
        lambda rng, d=d: (uniform(rng, N, d), uniform(rng, N, d), like(N, d)),
        lambda x, v, old: {0: x + v, 2: x},
        min_arch=90 if d == "bf16" else 75,
    )
for d in ("f32", "f64"):
    case(
        f"op_rmw_xchg_{d}",
        "rmw",
        [d, "xchg"],
        (1,),
        lambda rng, d=d: (uniform(rng, N, d), uniform(rng, N, d), like(N, d)),
        lambda x, v, old: {0: v, 2: x},
    )
for order, scope in (("acquire", "sys"), ("release", "device"), ("acq_rel", "tl_blk")):
    case(
        f"op_rmw_masked_{order}",
        "rmw",
        ["i32", "add", order, scope, True],
        (1,),
        lambda rng: (
            integers(rng, N, "i32", 0, 99),
            integers(rng, N, "i32", 0, 99),
            like(N, "i32", 7),
            numbers(rng, "i1"),
        ),
        lambda x, v, old, m: {0: np.where(m, x + v, x), 2: np.where(m, x, old)},
    )
for d, order, scope in (
    ("i32", "acq_rel", "device"),
    ("i64", "relaxed", "sys"),
    ("f32", "acquire", "tl_blk"),
    ("f64", "release", "device"),
):
    case(
        f"op_cas_{d}",
        "cas",
        [d, order, scope],
        (1,),
        lambda rng, d=d: (
            integers(rng, N, "i32", 0, 3).astype(DTYPES[d]),
            integers(rng, N, "i32", 0, 3).astype(DTYPES[d]),
            numbers(rng, d),
            like(N, d, 9),
        ),
        lambda x, c, v, old: {0: np.where(x == c, v, x).astype(x.dtype), 3: x},
    )
for mode in ("add", "and", "or", "xor", "max", "min", "umax", "umin"):
    f = {"umax": np.maximum, "umin": np.minimum}.get(mode) or RMW[mode]
    d = "u32" if mode[0] == "u" else "i32"
    case(
        f"op_red_view_{mode}",
        "red_view",
        [d, mode],
        (1,),
        lambda rng, d=d: (integers(rng, N, d), integers(rng, N, d)),
        quiet(lambda x, v, f=f: {0: np.concatenate([f(x, v)[:24], x[24:]])}),
        since="13.3",
    )
for d in ("f32", "f16", "f64"):
    case(
        f"op_red_view_addf_{d}",
        "red_view",
        [d, "addf"],
        (1,),
        lambda rng, d=d: (uniform(rng, N, d), uniform(rng, N, d)),
        lambda x, v: {0: np.concatenate([(x + v)[:24], x[24:]])},
        since="13.3",
    )
PADS = {"Zero": 0.0, "NegZero": -0.0, "Nan": np.nan, "PosInf": np.inf, "NegInf": -np.inf}


def viewed(shape, strides, tile, dim_map, pad, at):
    """The tile of a partition, element by element."""

    def f(x, y):
        flat, out = x.ravel(), np.full(tile, PADS[pad], x.dtype)
        for e in np.ndindex(*tile):
            where = [0] * len(shape)
            for k, m in enumerate(dim_map):
                where[m] = at[k] * tile[k] + e[k]
            if all(w < n for w, n in zip(where, shape)):
                out[e] = flat[sum(w * s for w, s in zip(where, strides))]
        return {1: out}

    return f


for name, shape, strides, tile, dim_map, pad, at in (
    ("rows", (10, 12), (12, 1), (4, 8), (0, 1), "Nan", (2, 1)),
    ("swapped", (10, 12), (12, 1), (8, 4), (1, 0), "NegInf", (1, 2)),
    ("column_major", (12, 10), (1, 12), (8, 8), (0, 1), "PosInf", (1, 1)),
    ("rotated", (4, 5, 6), (30, 6, 1), (4, 2, 8), (2, 0, 1), "NegZero", (1, 1, 0)),
    ("line", (37,), (3,), (16,), (0,), "Zero", (2,)),
):
    size = 1 + sum((n - 1) * s for n, s in zip(shape, strides))
    case(
        f"op_partition_{name}",
        "partition",
        ["f32", shape, strides, tile, dim_map, pad, at],
        (1,),
        lambda rng, n=size, t=tile: (uniform(rng, n), like(t, "f32", 5)),
        viewed(shape, strides, tile, dim_map, pad, at),
    )


def stepped(x, y, sizes):
    out = np.zeros((4, 8), "f4")
    grid = x.reshape(10, 20)
    for i, j in np.ndindex(4, 8):
        if 2 * 3 + i < 10 and 3 * 5 + j < 20:
            out[i, j] = grid[2 * 3 + i, 3 * 5 + j]
    return {1: out, 2: np.array([4, 4], "i4")}


case(
    "op_strided_view",
    "strided",
    ["f32", (10, 20), (20, 1), (4, 8), (3, 5), "Zero", (2, 3)],
    (1,),
    lambda rng: (uniform(rng, 200), like((4, 8)), like(2, "i32")),
    stepped,
    since="13.3",
)
case(
    "op_tensor_shape",
    "tensor_shape",
    [],
    (1,),
    lambda rng: (like(1), like(4, "i64"), np.int32(37)),
    lambda x, y, n: {1: np.array([37, 40, 10, 3])},
)
case(
    "op_pointer_casts",
    "pointer_casts",
    [],
    (1,),
    lambda rng: (integers(rng, 4), like(3, "i32")),
    lambda x, y: {1: np.array([x[2], x[1], x.view("i1")[7]], "i4")},
)
for d, padding in (("f32", True), ("i8", True), ("f16", False), ("i64", False)):
    case(
        f"op_masked_access_{d}",
        "masked_access",
        [d, padding],
        (1,),
        lambda rng, d=d, p=padding: (
            numbers(rng, d),
            numbers(rng, "i1"),
            like(N, d, 3),
            *([np.full(1, 42, DTYPES[d])] if p else []),
        ),
        lambda x, m, y, *p: {2: np.where(m, x, p[0] if p else y)},
    )


def unsigned_rounds(y, lower, upper):
    iv, acc, end = int(np.uint32(lower)), 0, int(np.uint32(upper))
    while iv < end:
        acc = (acc + 1) ^ (iv >> 24)
        iv += 1 << 28
    return {0: np.array([acc], "u4").view("i4")}


case(
    "op_for_unsigned",
    "unsigned_for",
    [],
    (1,),
    lambda rng: (like(1, "i32", -7), np.int32(0x30000000), np.uint32(0xE0000001).view(np.int32)),
    unsigned_rounds,
    since="13.2",
)
for start, want in ((10, 4.0), (7, -3.0), (0, 0.0)):
    case(
        f"op_loop_types_{start}",
        "loop_types",
        [],
        (1,),
        lambda rng, s=start: (like(1, "f32", 9), np.int32(s)),
        lambda y, s, want=want: {0: np.array([want], "f4")},
    )
for n in (3, 9):
    case(
        f"op_return_in_loop_{n}",
        "return_in_loop",
        [],
        (1,),
        lambda rng, n=n: (like(1, "i32", 50), np.int32(n)),
        lambda y, n: {0: np.array([-1 if n <= 6 else 6], "i4")},
        since="13.4",
    )


def aliased(rng):
    from tests.corpus.case import keep, place

    x = place(like(N, "i32", 7))
    return keep(x), keep(x)


for fence in (False, True):
    case(
        f"op_token_chain{'_fence' * fence}",
        "token_chain",
        [fence],
        (1,),
        aliased,
        lambda x, y: {0: np.arange(N, dtype="i4") * 2, 1: np.arange(N, dtype="i4") * 2},
        since="13.4" if fence else "13.1",
    )
for private, constant_flag, since in ((False, False, "13.1"), (True, True, "13.3")):
    case(
        f"op_global_{'private_constant' if private else 'public'}",
        "table",
        [private, constant_flag],
        (1,),
        lambda rng: (like(8),),
        lambda y: {0: np.arange(8, dtype="f4") * np.float32(0.5) - np.float32(1)},
        since=since,
    )
for in_global in (False, True):
    case(
        f"op_alloca{'_global' * in_global}",
        "scratch",
        [in_global],
        (1,),
        lambda rng: (integers(rng, 16), like(16, "i32")),
        lambda x, y: {1: x[::-1]},
        since="13.3",
    )
case(
    "op_assume",
    "assumptions",
    [],
    (1,),
    lambda rng: (np.repeat(integers(rng, 8, "i32", 0, 99), 4), like(N, "i32"), np.int32(300)),
    lambda x, y, n: {1: (x + np.arange(N) + 300).astype("i4")},
)
case(
    "op_block_numbers",
    "block_numbers",
    [],
    (3, 2, 2),
    lambda rng: (like((12, 6), "i32", -1),),
    lambda y: {0: np.array([[i % 3, i // 3 % 2, i // 6, 3, 2, 2] for i in range(12)], "i4")},
)
case(
    "op_print",
    "printed",
    [],
    (1,),
    lambda rng: (integers(rng, 4, "i32", 0, 9), like(4, "i32", -1)),
    lambda x, y: {1: x},
    since="13.2",
)
case(
    "op_assert",
    "checked",
    [],
    (1,),
    lambda rng: (integers(rng, 4, "i32", 0, 9), like(4, "i32", -1)),
    lambda x, y: {1: x},
)

# Matrix products: every pair of types, ranks two and three, signedness of each side.
for lhs, acc, rtol, atol in (
    ("f16", "f16", 1e-2, 1e-2),
    ("f16", "f32", 2e-6, 1e-4),
    ("bf16", "f32", 2e-6, 1e-4),
    ("f32", "f32", 2e-6, 1e-4),
    ("f64", "f64", 1e-13, 1e-13),
    ("e4m3", "f32", 1e-2, 2e-2),
    ("e5m2", "f32", 1e-2, 5e-2),
    ("e4m3", "f16", 2e-2, 5e-2),
    ("e5m2", "f16", 2e-2, 5e-2),
):
    for shape in ((16, 16, 32), (2, 16, 8, 16), (1, 4, 2, 8)):
        if shape[-3] < 16 and lhs[0] == "e":
            continue
        *batch, m, n, k = shape
        if len(batch) == 1 and batch[0] == 1:
            batch, shape = [], (m, n, k)
        more = {"min_arch": 90, "tags": ("fp8",)} if lhs[0] == "e" else {}
        case(
            f"op_mmaf_{lhs}_{acc}_{'x'.join(map(str, shape))}",
            "mma",
            ["MmaF", lhs, lhs, acc, shape],
            (1,),
            lambda rng, d=lhs, a=acc, b=tuple(batch), m=m, n=n, k=k: (
                uniform(rng, (*b, m, k), d, -1, 1),
                uniform(rng, (*b, k, n), d, -1, 1),
                uniform(rng, (*b, m, n), a, -1, 1),
                like((*b, m, n), a),
            ),
            lambda a, b, c, y: {
                3: (wide(a)[0] @ wide(b)[0] + wide(c)[0])
                .astype("f4" if c.dtype != "f8" else "f8")
                .astype(c.dtype)
            },
            rtol=rtol,
            atol=atol,
            **more,
        )
case(
    "op_mmaf_fast_acc",
    "mma",
    ["MmaF", "e4m3", "e4m3", "f32", (16, 16, 64), (("fast_acc", True),)],
    (1,),
    lambda rng: (
        uniform(rng, (16, 64), "e4m3", -1, 1),
        uniform(rng, (64, 16), "e4m3", -1, 1),
        uniform(rng, (16, 16)),
        like((16, 16)),
    ),
    lambda a, b, c, y: {3: (wide(a)[0] @ wide(b)[0] + c).astype("f4")},
    rtol=1e-2,
    atol=2e-2,
    since="13.3",
    min_arch=90,
    tags=("fp8",),
)
for left in ("signed", "unsigned"):
    for right in ("signed", "unsigned"):
        l, r = ("i8" if s == "signed" else "u8" for s in (left, right))
        case(
            f"op_mmai_{left}_{right}",
            "mma",
            ["MmaI", l, r, "i32", (16, 16, 32), (("signedness_lhs", left), ("signedness_rhs", right))],
            (1,),
            lambda rng, l=l, r=r: (
                integers(rng, (16, 32), l),
                integers(rng, (32, 16), r),
                integers(rng, (16, 16), "i32", -999, 999),
                like((16, 16), "i32"),
            ),
            lambda a, b, c, y: {3: a.astype("i4") @ b.astype("i4") + c},
        )
case(
    "op_mmaf_tf32",
    "mma_tf32",
    [(16, 16, 16)],
    (1,),
    lambda rng: (uniform(rng, (16, 16)), uniform(rng, (16, 16)), uniform(rng, (16, 16)), like((16, 16))),
    lambda a, b, c, y: {3: (wide(tf32(a))[0] @ wide(tf32(b))[0] + c).astype("f4")},
    rtol=2e-6,
    atol=1e-4,
)
F4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def f4_product(block):
    def f(a, b, sa, sb, y):
        def opened(x, shape):
            u = x.view("u1")
            return F4[np.stack([u & 15, u >> 4], 1).ravel()].reshape(shape)

        x = opened(a, (16, 64)) * np.repeat(wide(sa)[0], block, 1)
        z = opened(b, (64, 16)) * np.repeat(wide(sb)[0], block, 0)
        return {4: (x @ z + 0.5).astype("f4")}

    return f


for scale, block in (("e4m3", 16), ("e8m0", 16), ("e8m0", 32)):
    case(
        f"op_mmaf_scaled_f4_{scale}_{block}",
        "mma_f4",
        [scale, block],
        (1,),
        lambda rng, s=scale, b=block: (
            integers(rng, 512, "i8"),
            integers(rng, 512, "i8"),
            np.exp2(rng.integers(-2, 3, (16, 64 // b))).astype(DTYPES[s]),
            np.exp2(rng.integers(-2, 3, (64 // b, 16))).astype(DTYPES[s]),
            like((16, 16)),
        ),
        f4_product(block),
        since="13.3",
        min_arch=100,
        tags=("fp8",),
        rtol=1e-5,
        atol=1e-2,
    )
