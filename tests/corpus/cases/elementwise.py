"""Elementwise: sums are exact (one correctly rounded operation, as NumPy's), math functions have a few ULP.

One f32 ULP is at most 1.2e-7 relative; the bounds here allow 4 ULP for one function (the documented accuracy
of CUDA's own single-precision functions) and the sum of the parts for a chain. f16 and bf16 results computed
in f32 differ from the exact value by half an ULP of the narrow type: 4.9e-4 and 3.9e-3.
"""

from __future__ import annotations

import numpy as np

from tests.corpus.case import DTYPES, Family, Scalar, fma, integers, like, strided_in, uniform, wide
from tests.corpus.case import Array as A

case = Family("elementwise", "python/elementwise.py")
F32 = 5e-7
HALF, BF16 = 1.0e-3, 8e-3


def numbers(rng, n, dtype):
    return integers(rng, n, dtype) if dtype[0] in "iu" else uniform(rng, n, dtype, -100, 100)


def add(x, y, z):
    with np.errstate(over="ignore"):
        return {2: x + y}


for dtype in ("f32", "f16", "bf16", "i32", "i64", "f64", "i8", "i16", "u32"):
    case(
        f"vadd_{dtype}",
        "vadd",
        [A(dtype, 1)] * 3 + [256],
        (4,),
        lambda rng, d=dtype: (numbers(rng, 1000, d), numbers(rng, 1000, d), like(1000, d)),
        add,
        tags=("first",) if dtype in ("f32", "f16", "bf16", "i32") else (),
    )
case(
    "vadd_f32_tiny",
    "vadd",
    [A("f32", 1, align=4)] * 3 + [64],
    (1,),
    lambda rng: (uniform(rng, 3), uniform(rng, 3), like(3)),
    add,
)
case(
    "vadd_f32_aligned",
    "vadd",
    [A("f32", 1, div=16)] * 3 + [512],
    (2,),
    lambda rng: (uniform(rng, 1024), uniform(rng, 1024), like(1024)),
    add,
)
case(
    "vadd_f32_strided",
    "vadd",
    [A("f32", 1, strided=True), A("f32", 1), A("f32", 1, strided=True), 128],
    (3,),
    lambda rng: (strided_in(uniform(rng, 300), (3,)), uniform(rng, 300), strided_in(like(300), (2,))),
    add,
)
case(
    "vadd_i64_index64",
    "vadd",
    [A("i32", 1, index="i64")] * 3 + [128],
    (2,),
    lambda rng: (integers(rng, 200), integers(rng, 200), like(200, "i32")),
    add,
)
case(
    "vadd_large_tile",
    "vadd",
    [A("f32", 1)] * 3 + [16384],
    (1,),
    lambda rng: (uniform(rng, 16000), uniform(rng, 16000), like(16000)),
    add,
    tags=("large",),
)


def axpy(a, x, y):
    return {2: fma(a, x, y)}


case(
    "axpy_f32",
    "axpy",
    [Scalar("f32"), A("f32", 1), A("f32", 1), 256],
    (3,),
    lambda rng: (np.float32(1.7), uniform(rng, 700), uniform(rng, 700)),
    axpy,
    tags=("first",),
)
case(
    "axpy_f64",
    "axpy",
    [Scalar("f64"), A("f64", 1), A("f64", 1), 128],
    (3,),
    lambda rng: (np.float64(-0.3), uniform(rng, 333, "f64"), uniform(rng, 333, "f64")),
    axpy,
)
case(
    "axpy_f16",
    "axpy",
    [Scalar("f16"), A("f16", 1), A("f16", 1), 256],
    (2,),
    lambda rng: (np.float16(0.5), uniform(rng, 500, "f16"), uniform(rng, 500, "f16")),
    axpy,
)

for dtype in ("f32", "i32", "f16"):
    case(
        f"add_2d_{dtype}",
        "add_2d",
        [A(dtype, 2)] * 3 + [16, 32],
        (3, 2),
        lambda rng, d=dtype: (numbers(rng, (37, 61), d), numbers(rng, (37, 61), d), like((37, 61), d)),
        add,
    )


def gelu(x, z):
    (v,) = wide(x)
    out = 0.5 * v * (1 + np.tanh(0.7978845608028654 * (v + 0.044715 * v**3)))
    return {1: out.astype(np.float32).astype(z.dtype)}


# 1 + tanh cancels for negative arguments: the error is absolute, a few ULP of 1, times |x| <= 4.
case(
    "gelu_f32",
    "gelu_tanh",
    [A("f32", 1)] * 2 + [256],
    (3,),
    lambda rng: (uniform(rng, 600, "f32", -4, 4), like(600)),
    gelu,
    rtol=2e-6,
    atol=2e-6,
    tags=("first",),
)
case(
    "gelu_f16",
    "gelu_half",
    [A("f16", 1)] * 2 + [256],
    (3,),
    lambda rng: (uniform(rng, 600, "f16", -4, 4), like(600, "f16")),
    gelu,
    rtol=HALF,
    atol=2e-6,
)
case(
    "gelu_bf16",
    "gelu_half",
    [A("bf16", 1)] * 2 + [256],
    (3,),
    lambda rng: (uniform(rng, 600, "bf16", -4, 4), like(600, "bf16")),
    gelu,
    rtol=BF16,
    atol=2e-6,
)


def silu(g, u, z):
    gw, uw = wide(g, u)
    return {2: (gw / (1 + np.exp(-gw)) * uw).astype(np.float32).astype(z.dtype)}


for dtype, rtol in (("f16", HALF), ("bf16", BF16), ("f32", 1e-6)):
    case(
        f"silu_mul_{dtype}",
        "silu_mul",
        [A(dtype, 1)] * 3 + [128],
        (4,),
        lambda rng, d=dtype: (uniform(rng, 500, d, -8, 8), uniform(rng, 500, d), like(500, d)),
        silu,
        rtol=rtol,
        atol=1e-7,
        tags=("first",) if dtype == "f16" else (),
    )

case(
    "log_sqrt_chain_f32",
    "log_sqrt_chain",
    [A("f32", 1)] * 2 + [128],
    (3,),
    lambda rng: (uniform(rng, 300, "f32", -50, 50), like(300)),
    lambda x, z: {1: (lambda v: np.log(1 + np.sqrt(abs(v))) / np.sqrt(v * v + 1))(wide(x)[0]).astype("f4")},
    rtol=2e-6,
    tags=("first",),
)
case(
    "log_sqrt_chain_f64",
    "log_sqrt_chain",
    [A("f64", 1)] * 2 + [128],
    (3,),
    lambda rng: (uniform(rng, 300, "f64", -50, 50), like(300, "f64")),
    lambda x, z: {1: np.log(1 + np.sqrt(abs(x))) / np.sqrt(x * x + 1)},
    rtol=4e-15,
)


def angles(rng, n, dtype="f32"):
    """Small, moderate and huge angles: the last need full-range argument reduction."""
    third = n // 3
    parts = [
        rng.uniform(-4, 4, third),
        rng.uniform(-1e4, 1e4, third),
        rng.uniform(-1, 1, n - 2 * third) * 10.0 ** rng.uniform(5, 30, n - 2 * third),
    ]
    return np.concatenate(parts).astype(DTYPES[dtype])


def exact_trig(f, x):
    """f of the exact value of each element, in extended precision: huge angles need it."""
    import mpmath

    with mpmath.workdps(60 if x.dtype != np.float64 else 400):
        return np.array([float(getattr(mpmath, f)(mpmath.mpf(float(v)))) for v in x.ravel()]).reshape(x.shape)


for dtype, rtol in (("f32", 3e-7), ("f64", 5e-16)):
    case(
        f"sin_cos_{dtype}",
        "sin_cos_chain",
        [A(dtype, 1)] * 3 + [64],
        (2,),
        lambda rng, d=dtype: (angles(rng, 120, d), like(120, d), like(120, d)),
        lambda x, s, c: {1: exact_trig("sin", x).astype(x.dtype), 2: exact_trig("cos", x).astype(x.dtype)},
        rtol=rtol,
        atol=rtol,
    )
    case(
        f"tan_{dtype}",
        "tangent",
        [A(dtype, 1)] * 2 + [64],
        (2,),
        lambda rng, d=dtype: (angles(rng, 120, d), like(120, d)),
        lambda x, z: {1: exact_trig("tan", x).astype(x.dtype)},
        rtol=2 * rtol,
        atol=rtol,
    )
case(
    "sin_cos_f16",
    "sin_cos_chain",
    [A("f16", 1)] * 3 + [64],
    (2,),
    lambda rng: (uniform(rng, 100, "f16", -60, 60), like(100, "f16"), like(100, "f16")),
    lambda x, s, c: {1: np.sin(wide(x)[0]).astype("f2"), 2: np.cos(wide(x)[0]).astype("f2")},
    rtol=HALF,
    atol=1e-4,
)

for dtype, rtol in (("f32", 4e-7), ("f64", 8e-16)):
    case(
        f"hyperbolic_{dtype}",
        "hyperbolic",
        [A(dtype, 1)] * 4 + [64],
        (2,),
        lambda rng, d=dtype: (uniform(rng, 100, d, -12, 12), like(100, d), like(100, d), like(100, d)),
        lambda x, s, c, t: {
            1: np.sinh(wide(x)[0]).astype(x.dtype),
            2: np.cosh(wide(x)[0]).astype(x.dtype),
            3: np.tanh(wide(x)[0]).astype(x.dtype),
        },
        rtol=rtol * 3,
        atol=rtol,
    )
    case(
        f"exp2_log2_{dtype}",
        "base_two",
        [A(dtype, 1)] * 3 + [128],
        (2,),
        lambda rng, d=dtype: (uniform(rng, 200, d, -20, 20), like(200, d), like(200, d)),
        lambda x, e, log: {
            1: np.exp2(wide(x)[0]).astype(x.dtype),
            2: np.log2(np.abs(wide(x)[0]) + 0.125).astype(x.dtype),
        },
        rtol=rtol * 2,
        atol=rtol,
    )

SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42, -1e-42, 1.0, -1.0, 88.7, -103.9, 89.0, -104.5, 1e38]
)


def with_special(rng, n, dtype, low, high):
    x = uniform(rng, n, dtype, low, high)
    with np.errstate(over="ignore"):
        x[: len(SPECIAL)] = SPECIAL.astype(x.dtype)
    return x


def quiet(f):
    def g(*args):
        with np.errstate(all="ignore"):
            return f(*args)

    return g


for dtype, rtol in (("f32", 3e-7), ("f64", 5e-16)):
    tiny = 1.5e-45 if dtype == "f32" else 0.0
    case(
        f"exp_special_{dtype}",
        "exponential",
        [A(dtype, 1)] * 2 + [128],
        (2,),
        lambda rng, d=dtype: (with_special(rng, 200, d, -90, 90), like(200, d)),
        quiet(lambda x, z: {1: np.exp(wide(x)[0]).astype(x.dtype)}),
        rtol=rtol,
        atol=tiny,
    )
    case(
        f"log_special_{dtype}",
        "logarithm",
        [A(dtype, 1)] * 2 + [128],
        (2,),
        lambda rng, d=dtype: (with_special(rng, 200, d, 0, 3), like(200, d)),
        quiet(lambda x, z: {1: np.log(wide(x)[0]).astype(x.dtype)}),
        rtol=rtol,
        atol=rtol / 4,
    )

case(
    "pow_f32",
    "power",
    [A("f32", 1)] * 3 + [128],
    (2,),
    lambda rng: (uniform(rng, 250, "f32", 0.01, 10), uniform(rng, 250, "f32", -6, 6), like(250)),
    lambda x, y, z: {2: np.power(*wide(x, y)).astype("f4")},
    rtol=2e-6,
)
case(
    "pow_f32_signs",
    "power",
    [A("f32", 1)] * 3 + [128],
    (1,),
    lambda rng: (
        np.array([-2, -2, -2, 0, -0.0, 0, 1, np.inf, -np.inf, -np.inf, np.nan, 5, -1], "f4"),
        np.array([3, 2, 0.5, 2, -3, 0, np.nan, -1, 3, -2, 0, -np.inf, np.inf], "f4"),
        like(13),
    ),
    quiet(lambda x, y, z: {2: np.power(x.astype("f8"), y.astype("f8")).astype("f4")}),
    rtol=2e-6,
)
case(
    "atan2_f32",
    "arctangent2",
    [A("f32", 1)] * 3 + [128],
    (2,),
    lambda rng: (uniform(rng, 200), uniform(rng, 200), like(200)),
    lambda y, x, z: {2: np.arctan2(*wide(y, x)).astype("f4")},
    rtol=6e-7,
    since="13.2",
)
case(
    "floor_ceil_f32",
    "round_half",
    [A("f32", 1)] * 3 + [128],
    (2,),
    lambda rng: (with_special(rng, 200, "f32", -9, 9), like(200), like(200)),
    lambda x, lo, hi: {1: np.floor(x), 2: np.ceil(x)},
)
case(
    "floor_ceil_f16",
    "round_half",
    [A("f16", 1)] * 3 + [128],
    (2,),
    lambda rng: (uniform(rng, 200, "f16", -9, 9), like(200, "f16"), like(200, "f16")),
    lambda x, lo, hi: {1: np.floor(x), 2: np.ceil(x)},
)
for dtype in ("f32", "f64", "f16", "bf16"):
    case(
        f"divide_{dtype}",
        "divide",
        [A(dtype, 1)] * 3 + [128],
        (2,),
        lambda rng, d=dtype: (with_special(rng, 200, d, -9, 9), uniform(rng, 200, d, -3, 3), like(200, d)),
        quiet(lambda x, y, z: {2: (x / y).astype(x.dtype)}),
    )
case(
    "divide_approx_f32",
    "divide_fast",
    [A("f32", 1)] * 3 + [128],
    (2,),
    lambda rng: (uniform(rng, 200), uniform(rng, 200, "f32", 0.5, 3), like(200)),
    lambda x, y, z: {2: x / y},
    rtol=4e-7,
)


def directed(x, y, up, down, cut):
    """The exact sum of two f32 fits f64 here (close exponents): each rounding picks a neighbour."""
    exact = x.astype("f8") + y.astype("f8")
    near = exact.astype("f4")
    ceil = np.where(near.astype("f8") < exact, np.nextafter(near, np.float32(np.inf)), near)
    floor = np.where(near.astype("f8") > exact, np.nextafter(near, np.float32(-np.inf)), near)
    return {2: ceil, 3: floor, 4: np.where(exact > 0, floor, ceil)}


case(
    "directed_add_f32",
    "directed_add",
    [A("f32", 1)] * 5 + [128],
    (2,),
    lambda rng: (uniform(rng, 200), uniform(rng, 200), like(200), like(200), like(200)),
    directed,
)
case(
    "flush_to_zero_mul",
    "flush_mul",
    [A("f32", 1)] * 3 + [64],
    (1,),
    lambda rng: (
        np.array([1e-20, 1e-42, -1e-42, 1.0, 3.0, -1e-20, 2e-38], "f4"),
        np.array([1e-20, 1e10, 1.0, 1e-42, 5.0, 1e-19, 1.0], "f4"),
        like(7),
    ),
    lambda x, y, z: {2: np.array([0.0, 0.0, -0.0, 0.0, 15.0, -0.0, 2e-38], "f4")},
)


def python_mod(x, y, z):
    """cuda.tile's mod of floats follows Python: the sign of the divisor."""
    return {2: np.mod(x, y)}


case(
    "mod_f32",
    "float_remainder",
    [A("f32", 1)] * 3 + [128],
    (2,),
    lambda rng: (uniform(rng, 200, "f32", -90, 90), uniform(rng, 200, "f32", -7, 7), like(200)),
    python_mod,
    rtol=3e-7,
    atol=1e-6,
)


def nan_pairs(rng):
    x, y = uniform(rng, 200), uniform(rng, 200)
    x[:6] = [np.nan, 1, np.nan, 0.0, -0.0, np.inf]
    y[:6] = [1, np.nan, np.nan, -0.0, 0.0, -np.inf]
    return x, y, like(200), like(200)


def ignoring(x, y, lo, hi):
    """NaN loses against a number, and +0 is above -0."""
    low, high = np.fmin(x, y), np.fmax(x, y)
    zeros = (x == 0) & (y == 0)
    negative, positive = np.signbit(x) | np.signbit(y), ~(np.signbit(x) & np.signbit(y))
    low = np.where(zeros, np.where(negative, np.float32(-0.0), np.float32(0)), low)
    high = np.where(zeros, np.where(positive, np.float32(0), np.float32(-0.0)), high)
    return {2: low, 3: high}


def propagating(x, y, lo, hi):
    base = ignoring(x, y, lo, hi)
    bad = np.isnan(x) | np.isnan(y)
    return {k: np.where(bad, np.float32(np.nan), v) for k, v in base.items()}


case("min_max_f32", "min_max", [A("f32", 1)] * 4 + [128], (2,), nan_pairs, ignoring)
case("min_max_nan_f32", "min_max_nan", [A("f32", 1)] * 4 + [128], (2,), nan_pairs, propagating)
case(
    "min_max_i32",
    "min_max",
    [A("i32", 1)] * 4 + [128],
    (2,),
    lambda rng: (integers(rng, 200), integers(rng, 200), like(200, "i32"), like(200, "i32")),
    lambda x, y, lo, hi: {2: np.minimum(x, y), 3: np.maximum(x, y)},
)
case(
    "min_max_u32",
    "min_max",
    [A("u32", 1)] * 4 + [128],
    (2,),
    lambda rng: (integers(rng, 200, "u32"), integers(rng, 200, "u32"), like(200, "u32"), like(200, "u32")),
    lambda x, y, lo, hi: {2: np.minimum(x, y), 3: np.maximum(x, y)},
)


def mixed(x, k, z):
    a, b = x.astype("f8"), k.astype("f8") * 0.25
    return {2: np.where(a > b, np.sqrt(np.maximum(a - b, 0)), np.exp(np.minimum(a - b, 0))).astype("f2")}


case(
    "mixed_chain",
    "mixed_chain",
    [A("f16", 1), A("i32", 1), A("f16", 1), 256],
    (2,),
    lambda rng: (uniform(rng, 400, "f16", -8, 8), integers(rng, 400, "i32", -20, 20), like(400, "f16")),
    mixed,
    rtol=HALF,
    atol=1e-6,
    tags=("first",),
)


def momentum(w, g, m, lr, beta):
    v = fma(np.float32(beta), m, g)
    return {2: v, 0: fma(-np.float32(lr), v, w)}


case(
    "gradient_step",
    "gradient_step",
    [A("f32", 1)] * 3 + [Scalar("f32"), Scalar("f32"), 256],
    (2,),
    lambda rng: (uniform(rng, 400), uniform(rng, 400), uniform(rng, 400), np.float32(0.01), np.float32(0.9)),
    momentum,
)
