"""Tile C++ arithmetic: one template per subject, an entry for each element type, formulas in NumPy.

All entries share one bytecode file, as a user's source with several instantiations does; their symbols are the
mangled names of the C++ ABI.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from tests.corpus.case import DTYPES, Family, fma, integers, like, uniform
from tests.corpus.rounding import rounded

number = Family("cpp_numbers", "cpp/numbers.cu")
i4 = np.int32
MANGLED = {"i8": "a", "u8": "h", "i16": "s", "u16": "t", "i32": "i", "u32": "j", "i64": "x", "u64": "y", "f16": "6__half",
           "bf16": "13__nv_bfloat16", "f32": "f", "f64": "d", "i1": "b"}  # fmt: skip
N = 100


def symbol(kernel: str, d: str, tail: str = "vPKT_S2_PS0_i") -> str:
    """The mangled name of `kernel<T>(const T *, const T *, T *, int)`."""
    if len(MANGLED[d]) > 1:  # a class takes a number of its own among the substitutions
        tail = tail.replace("S2_", "S3_").replace("PS0_", "PS1_")
    return f"_Z{len(kernel)}{kernel}I{MANGLED[d]}E{tail}"


def case(name: str, entry: str, grid: int, inputs: Any, expect: Any, **more: Any) -> None:
    number(name, entry, [], (grid,), inputs, quiet(expect), module="cpp_numbers", **more)


def quiet(f: Any) -> Any:
    def silent(*args: Any) -> Any:
        with np.errstate(all="ignore"):
            return f(*args)

    return silent


def corners(rng: np.random.Generator, d: str, n: int = N) -> np.ndarray:
    """Integers of the whole range with the extreme ones among them."""
    x = integers(rng, n, d)
    info = np.iinfo(DTYPES[d])
    x[:6] = [info.min, info.max, 0, 1, info.max - 1, info.min + 1]
    return x


# Arithmetic that wraps where the type is unsigned; signed overflow is undefined, as in C++


def factors(rng: np.random.Generator, d: str) -> np.ndarray:
    if d[0] == "u":
        return corners(rng, d)
    half = 2 ** (int(d[1:]) // 2 - 1)
    return integers(rng, N, d, -half + 1, half)


def wrapped(x: np.ndarray, y: np.ndarray, z: np.ndarray, n: int) -> dict[int, np.ndarray]:
    five = x.dtype.type(5)
    return {
        2: np.stack([x + y, x - y, x * y, -x, ~x, (x & y) | (x ^ five), np.maximum(x, y), np.minimum(x, y)])
    }


INTS = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")
for d in INTS:
    case(
        f"cpp_wrap_{d}",
        symbol("num_wrap", d),
        1,
        lambda rng, d=d: (factors(rng, d), factors(rng, d), like((8, N), d), i4(N)),
        wrapped,
    )


# Division, remainder and their roundings


def dividends(rng: np.random.Generator, d: str) -> Any:
    x, y = corners(rng, d), integers(rng, N, d)
    y[10:60] = integers(rng, 50, d, 1, 12)
    y[y == 0] = 3
    if d[0] == "i":
        y[20:40] = -y[20:40]
        x[(x == np.iinfo(x.dtype).min) & (y == -1)] = 5
    return x, y, like((6, N), d), i4(N)


def divided(x: np.ndarray, y: np.ndarray, z: np.ndarray, n: int) -> dict[int, np.ndarray]:
    rows: list[list[int]] = [[] for _ in range(6)]
    for a, b in zip(map(int, x), map(int, y)):
        trunc = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        seventh = abs(a) // 7 * (-1 if a < 0 else 1)
        ten = abs(a) // 10 * (-1 if a < 0 else 1)
        for row, v in zip(rows, (trunc, a - trunc * b, -(-a // b), a // b, seventh, a - 10 * ten)):
            row.append(v)
    return {2: np.array(rows, object).astype(x.dtype)}


for d in INTS:
    case(f"cpp_divide_{d}", symbol("num_divide", d), 2, lambda rng, d=d: dividends(rng, d), divided)


# Shifts, absolute values, comparisons


def shifted(x: np.ndarray, s: np.ndarray, z: np.ndarray, less: np.ndarray, n: int) -> dict[int, np.ndarray]:
    return {2: np.stack([x << s, x >> s, np.abs(x)]), 3: (x < s) != (x >= x.dtype.type(100))}


for d in ("i8", "u8", "i16", "i32", "u32", "i64", "u64"):
    bits = np.iinfo(DTYPES[d]).bits
    case(
        f"cpp_shift_{d}",
        symbol("num_shift", d, "vPKT_S2_PS0_Pbi"),
        2,
        lambda rng, d=d, bits=bits: (
            corners(rng, d),
            integers(rng, N, d, 0, bits),
            like((3, N), d),
            like(N, "i1"),
            i4(N),
        ),
        shifted,
    )


# Conversions


CASTS = ("i8", "u16", "i32", "u64", "f16", "bf16", "f32", "f64", "i1")


def cast_tail(d: str) -> str:
    """The mangled parameters of num_cast: a type met before is written as a substitution."""
    half = "PS0_" if d == "f16" else "P6__half"
    brain = "PS0_" if d == "bf16" else "P13__nv_bfloat16"
    return f"vPKT_PaPtPiPy{half}{brain}PfPdPbi"


def converted(x: np.ndarray, *_: Any) -> dict[int, np.ndarray]:
    wide = x.astype(np.float64) if x.dtype.kind not in "iub" else x
    out = {}
    for k, d in enumerate(CASTS):
        if d == "i1":
            out[k + 1] = x != 0
        elif d in ("f16", "bf16") and x.dtype.kind in "iu":
            out[k + 1] = x.astype(np.float32).astype(DTYPES[d])  # exact in f32: the values are below 2^24
        else:
            out[k + 1] = wide.astype(DTYPES[d])
    return out


def cast_source(rng: np.random.Generator, d: str) -> np.ndarray:
    if d == "i1":
        return rng.integers(0, 2, N).astype(bool)
    x = np.abs(integers(rng, N, "i32", 0, 128)).astype(DTYPES[d])
    if x.dtype.kind not in "iu":
        x[::2] = (rng.uniform(0, 127, N // 2)).astype(x.dtype)
        x[:4] = [0.0, 0.5, 1e-3, 126.9]
    return x


for d in ("i8", "u8", "i16", "u32", "i64", "f16", "bf16", "f32", "f64", "i1"):
    case(
        f"cpp_cast_{d}",
        symbol("num_cast", d, cast_tail(d))
        if d not in ("f16", "bf16")
        else f"_Z8num_castI{MANGLED[d]}E{cast_tail(d)}",
        2,
        lambda rng, d=d: (cast_source(rng, d), *(like(N, t) for t in CASTS), i4(N)),
        converted,
    )


def mixed(a: Any, b: Any, c: Any, d: Any, *_: Any) -> dict[int, np.ndarray]:
    return {
        4: a.astype("i8") * 3 + (b >> np.uint32(3)).astype("i8"),
        5: fma(c.astype("f4"), np.float32(1.5), a.astype("f4")),
        6: fma(d, 2.0, b.astype("f8")),
        7: a.astype("i4") < (b & np.uint32(127)).astype("i4"),
    }


case(
    "cpp_mixed",
    "num_mixed",
    1,
    lambda rng: (
        integers(rng, 64, "i8"),
        integers(rng, 64, "u32"),
        uniform(rng, 64, "f16"),
        uniform(rng, 64, "f64"),
        like(64, "i64"),
        like(64),
        like(64, "f64"),
        like(64, "i1"),
    ),
    mixed,
)


# Rounding modes: exact rational values, rounded once


def directed(x: np.ndarray, y: np.ndarray, z: np.ndarray, n: int) -> dict[int, np.ndarray]:
    rows = []
    for mode, exact in (
        ("up", lambda a, b: a + b),
        ("down", lambda a, b: a - b),
        ("zero", lambda a, b: a * b),
        ("up", lambda a, b: a / b),
        ("down", lambda a, b: a * b + a),
    ):
        rows.append(
            [rounded(exact(Fraction(float(a)), Fraction(float(b))), x.dtype, mode) for a, b in zip(x, y)]
        )
    rows.append([rounded(Fraction(float(a)), x.dtype, "zero", root=True) for a in np.abs(x)])
    return {2: np.array(rows, np.float64).astype(x.dtype)}


for d in ("f32", "f64", "f16", "bf16"):
    case(
        f"cpp_round_{d}",
        symbol("num_round", d),
        1,
        lambda rng, d=d: (uniform(rng, 60, d), uniform(rng, 60, d, 0.5, 3), like((6, 60), d), i4(60)),
        directed,
    )


# NaN, infinities and signed zeros


def special_pairs(rng: np.random.Generator, d: str) -> Any:
    x, y = uniform(rng, N, d, -50, 50), uniform(rng, N, d, -50, 50)
    specials = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.5, -1.5]
    pairs = [(a, b) for a in specials for b in specials if (a, b) not in ((0.0, -0.0),)]
    x[: len(pairs)], y[: len(pairs)] = zip(*pairs)
    return x, y, like((6, N), d), i4(N)


def nans(x: np.ndarray, y: np.ndarray, z: np.ndarray, n: int) -> dict[int, np.ndarray]:
    a, b = x.astype(np.float64), y.astype(np.float64)
    less = (a < b) | ((a == b) & np.signbit(a) & ~np.signbit(b))
    either = np.isnan(a) | np.isnan(b)
    high, low = np.where(less, b, a), np.where(less, a, b)
    quiet_high = np.where(np.isnan(a), b, np.where(np.isnan(b), a, high))
    quiet_low = np.where(np.isnan(a), b, np.where(np.isnan(b), a, low))
    chosen = np.where(a == b, a, np.where(np.isnan(a), b, -a))
    loud = np.where(either, np.nan, high)
    return {2: np.stack([loud, quiet_low, quiet_high, np.floor(a), np.ceil(b), chosen]).astype(x.dtype)}


for d in ("f32", "f64", "f16", "bf16"):
    case(f"cpp_nan_{d}", symbol("num_nan", d), 2, lambda rng, d=d: special_pairs(rng, d), nans)


def tiny(rng: np.random.Generator) -> Any:
    x, y = (uniform(rng, N) * 2.0 ** rng.integers(-149, -60, N)).astype("f4"), uniform(rng, N)
    y[::3] *= np.float32(2.0**-70)
    y[::5] = (y[::5].astype("f8") * 2.0**-127).astype("f4")
    return x, y, like((5, N)), i4(N)


def flushed(x: np.ndarray, y: np.ndarray, z: np.ndarray, n: int) -> dict[int, np.ndarray]:
    """Subnormal inputs and results become zeros of their sign."""

    def flush(v: np.ndarray) -> np.ndarray:
        return np.where(np.abs(v) < 2.0**-126, np.copysign(np.float32(0), v), v).astype("f4")

    a, b = flush(x), flush(y)
    high = np.where((a > b) | ((a == b) & ~np.signbit(a)), a, b)
    return {2: np.stack([flush(a + b), flush(a * b), flush(fma(a, b, a)), high, x * y])}


case("cpp_flush", "num_flush", 2, tiny, flushed)


# Functions


def functions(x: np.ndarray, y: np.ndarray, z: np.ndarray, n: int) -> dict[int, np.ndarray]:
    a, b = x.astype(np.longdouble), y.astype(np.longdouble)
    rows = [np.exp(a), np.exp2(a), np.log(b), np.log2(b), np.sin(a), np.cos(a), np.tan(a), np.sinh(a), np.cosh(a),
            np.tanh(a), np.sqrt(b), 1 / np.sqrt(b), np.power(b, a), np.arctan2(a, b), np.fmod(a, b)]  # fmt: skip
    return {2: np.stack(rows).astype(np.float64).astype(x.dtype)}


for d, tolerance in (("f32", 4e-7), ("f64", 1e-15), ("f16", 1e-3), ("bf16", 8e-3)):
    case(
        f"cpp_math_{d}",
        symbol("num_math", d),
        2,
        lambda rng, d=d: (uniform(rng, N, d, -6, 6), uniform(rng, N, d, 0.25, 5), like((15, N), d), i4(N)),
        functions,
        rtol=tolerance,
        atol=tolerance / 100,
    )


def approximate(x: np.ndarray, y: np.ndarray, z: np.ndarray, n: int) -> dict[int, np.ndarray]:
    a, b = x.astype("f8"), y.astype("f8")
    return {2: np.stack([a / b, a / b, np.sqrt(b), np.exp(a), np.tanh(a), np.exp2(a), b**-0.5]).astype("f4")}


case(
    "cpp_approx",
    "num_approx",
    2,
    lambda rng: (uniform(rng, N, "f32", -6, 6), uniform(rng, N, "f32", 0.25, 5), like((7, N)), i4(N)),
    approximate,
    rtol=1e-3,
)


# Scalars, bytes, logic


def scalars(x: np.ndarray, y: np.ndarray, z: np.ndarray, w: np.ndarray) -> dict[int, np.ndarray]:
    out, real = [], []
    for b, (a, t) in enumerate(zip(map(int, x), map(float, y))):
        u = a * 0x9E3779B97F4A7C15 % 2**64
        u ^= u >> 29
        out.append(u % 1000003 - (a << 3) + (a >> 2) * (-1 if b else 1))
        for _ in range(20):
            if t <= 1.0:
                break
            t = t / 2.0 - 0.125
        real.append(-t if t < 0 else t * (b + 1))
    return {2: np.array(out, "i8"), 3: np.array(real)}


case(
    "cpp_scalars",
    "num_scalars",
    6,
    lambda rng: (integers(rng, 6), uniform(rng, 6, "f64", -5, 5000), like(6, "i64"), like(6, "f64")),
    scalars,
)


def crc(x: np.ndarray, *_: Any) -> dict[int, np.ndarray]:
    c = ~x
    for _ in range(32):
        c = np.where(c & 1, (c >> 1) ^ np.uint32(0xEDB88320), c >> 1).astype("u4")
    return {1: x.view("u1"), 2: ~c}


case(
    "cpp_bytes",
    "num_bytes",
    1,
    lambda rng: (integers(rng, 32, "u32"), like(128, "u8"), like(32, "u32")),
    crc,
)
case(
    "cpp_bool",
    "num_bool",
    1,
    lambda rng: (rng.integers(0, 2, 64) > 0, rng.integers(0, 2, 64) > 0, like(192, "i1"), like(64, "i32")),
    lambda p, q, r, s: {
        2: np.concatenate([p ^ q, p == q, np.where(p, q, ~q)]),
        3: p.astype("i4") * 2 + q.astype("i4"),
    },
)
