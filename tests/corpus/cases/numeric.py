"""Casts, integers, comparisons: everything here is exact. Divisions avoid zero and INT_MIN / -1, float to
integer casts stay inside the range: outside of it the result is undefined by the format.
"""

from __future__ import annotations

import numpy as np

from tests.corpus.case import DTYPES, Family, Scalar, integers, like, uniform
from tests.corpus.case import Array as A

cast = Family("cast", "python/numeric.py")
integer = Family("integer", "python/numeric.py")
select = Family("select", "python/numeric.py")


def numbers(rng, n, d):
    if d == "i1":
        return rng.integers(0, 2, n).astype(bool)
    return integers(rng, n, d) if d[0] in "iu" else uniform(rng, n, d, -100, 100)


FP8_MAX = {"e4m3": 448.0, "e5m2": 57344.0}


def values(src, dst):
    """Numbers of type src that have a defined value in dst, with ties to round among them."""

    def make(rng):
        if src[0] in "iu" or src == "i1":
            low, high = (None, None)
            if dst in ("f16", "e4m3", "e5m2"):
                low, high = (-400, 401) if src[0] == "i" else (0, 401)
            info = np.iinfo(DTYPES[src]) if src != "i1" else None
            if low is not None and info is not None:
                low, high = max(low, info.min), min(high, info.max + 1)
            x = rng.integers(0, 2, 200).astype(bool) if src == "i1" else integers(rng, 200, src, low, high)
        elif dst[0] in "iu" and dst != "i1":
            bound = float(min(2.0 ** (np.iinfo(DTYPES[dst]).bits - 1 - (dst[0] == "i") * 0) * 0.98, 3e4))
            bound = min(bound, 120.0) if dst in ("i8", "u8") else bound
            x = rng.uniform(0 if dst[0] == "u" else -bound, bound, 200).astype(DTYPES[src])
        elif dst == "e4m3":
            x = rng.uniform(-440, 440, 200).astype(DTYPES[src])
            x[:8] = np.array([0, -0.0, 1.0625, 1.1875, 0.001953125, 0.0009765625, 0.0029296875, 448]).astype(
                x.dtype
            )
        else:
            x = (rng.uniform(-1, 1, 200) * 2.0 ** rng.integers(-12, 12, 200)).astype(DTYPES[src])
            x[:8] = np.array(
                [0, -0.0, 1.00048828125, 1.00390625, 1.01171875, np.inf, -np.inf, np.nan]
            ).astype(x.dtype)
        return x, like(200, dst)

    return make


def converted(dst):
    """The cast as the assembler does it: fp8 saturates, infinities too (cvt.satfinite); NaN stays NaN."""

    def f(x, y):
        if dst in FP8_MAX and x.dtype.kind not in "iub":
            x = np.clip(x.astype("f8"), -FP8_MAX[dst], FP8_MAX[dst]).astype(x.dtype)
        if dst[0] in "iu" and dst != "i1" and x.dtype.kind not in "iub":
            return {1: np.trunc(x.astype("f8")).astype(DTYPES[dst])}
        if x.dtype.kind in "iub" and dst in ("f16", "bf16", "e4m3", "e5m2"):
            return {1: x.astype("f4" if dst != "f16" else "f8").astype(DTYPES[dst])}
        if x.dtype == np.float64 and dst in ("bf16", "e4m3", "e5m2"):
            return {1: round_once(x, dst)}
        return {1: x.astype(DTYPES[dst])}

    return f


def round_once(x, dst):
    """f64 to a narrow float without the double rounding that a detour through f32 makes."""
    near = x.astype("f4")
    back = near.astype("f8")
    odd = near.view("u4") | 1
    # Round to odd in f32: keeps the sticky information that the second rounding needs.
    exact = (back == x) | ~np.isfinite(x)
    toward = np.where(np.abs(back) > np.abs(x), np.nextafter(near, np.float32(0)), near)
    return (
        np.where(exact, near, (toward.view("u4") | 1).view("f4")).astype("f4").astype(DTYPES[dst])
        if odd.size
        else near
    )


PAIRS = [
    ("f32", "f16"),
    ("f32", "bf16"),
    ("f32", "f64"),
    ("f64", "f32"),
    ("f64", "f16"),
    ("f64", "bf16"),
    ("f16", "f32"),
    ("f16", "bf16"),
    ("f16", "f64"),
    ("bf16", "f32"),
    ("bf16", "f16"),
    ("bf16", "f64"),
    ("f32", "i32"),
    ("f32", "u32"),
    ("f32", "i64"),
    ("f32", "i8"),
    ("f32", "u8"),
    ("f32", "i16"),
    ("f64", "i32"),
    ("f64", "i64"),
    ("f16", "i32"),
    ("f16", "i8"),
    ("bf16", "i32"),
    ("i32", "f32"),
    ("i32", "f16"),
    ("i32", "bf16"),
    ("i32", "f64"),
    ("i64", "f32"),
    ("i64", "f64"),
    ("u32", "f32"),
    ("u64", "f32"),
    ("u64", "f64"),
    ("i8", "f32"),
    ("i8", "f16"),
    ("u8", "f32"),
    ("i16", "f32"),
    ("u16", "bf16"),
    ("i8", "i32"),
    ("u8", "i32"),
    ("i32", "i8"),
    ("i64", "i32"),
    ("i32", "i64"),
    ("u32", "i64"),
    ("u64", "i16"),
    ("i16", "i64"),
    ("i1", "i32"),
    ("i1", "f32"),
    ("u8", "u64"),
]
FP8 = [
    ("f32", "e4m3"),
    ("f32", "e5m2"),
    ("f16", "e4m3"),
    ("f16", "e5m2"),
    ("e4m3", "f32"),
    ("e5m2", "f32"),
    ("e4m3", "f16"),
    ("e5m2", "f16"),
    ("bf16", "e4m3"),
    ("e4m3", "bf16"),
]
for src, dst in PAIRS + FP8:
    cast(
        f"cast_{src}_{dst}",
        "cast",
        [A(src, 1), A(dst, 1), 128],
        (2,),
        values(src, dst),
        converted(dst),
        min_arch=90 if (src, dst) in FP8 else 75,
        tags=("fp8",) if (src, dst) in FP8 else (),
    )


def truncated(dst):
    """Toward zero: the neighbour nearer zero where rounding to nearest went outward."""

    def f(x, y):
        with np.errstate(over="ignore"):
            near = x.astype(DTYPES[dst])
        step = np.nextafter(near, DTYPES[dst](0)) if dst != "bf16" else (near.view("u2") - 1).view(near.dtype)
        outward = np.abs(near.astype("f8")) > np.abs(x.astype("f8"))
        return {1: np.where(outward, step, near)}

    return f


for src, dst in (("f32", "f16"), ("f32", "bf16"), ("f64", "f32")):
    cast(
        f"cast_rz_{src}_{dst}",
        "cast_toward_zero",
        [A(src, 1), A(dst, 1), 128],
        (2,),
        values(src, dst),
        truncated(dst),
        since="13.4",
    )
cast(
    "through_fp8",
    "through_fp8",
    [A("f32", 1)] * 3 + [128],
    (2,),
    lambda rng: (uniform(rng, 200, "f32", -448, 448), like(200), like(200)),
    lambda x, y, z: {1: x.astype(DTYPES["e4m3"]).astype("f4"), 2: x.astype(DTYPES["e5m2"]).astype("f4")},
    min_arch=90,
    tags=("fp8",),
)
cast(
    "to_bool",
    "to_bool",
    [A("f32", 1), A("i1", 1), 64],
    (2,),
    lambda rng: (uniform(rng, 100), like(100, "i1")),
    lambda x, y: {1: x > 0},
)
cast(
    "from_bool",
    "from_bool",
    [A("i1", 1), A("i32", 1), A("i32", 1), 64],
    (2,),
    lambda rng: (rng.integers(0, 2, 100).astype(bool), integers(rng, 100), like(100, "i32")),
    lambda m, x, y: {2: np.where(m, x, 0)},
)


def dividends(d):
    def make(rng):
        x, y = integers(rng, 200, d), integers(rng, 200, d, *((-50, 51) if d[0] == "i" else (1, 90)))
        info = np.iinfo(DTYPES[d])
        if d[0] == "i":
            y[y == 0] = 7
            x[x == info.min] += 1
            x[:8], y[:8] = [7, -7, 7, -7, 6, -6, info.max, -info.max], [2, 2, -2, -2, 3, -3, -1, 1]
        else:
            x[:3], y[:3] = [info.max, info.max, 0], [1, info.max, info.max]
        return x, y, like(200, d), like(200, d), like(200, d)

    return make


def divided(x, y, floor, rem, up):
    return {2: x // y, 3: x % y, 4: x // y + (x % y != 0).astype(x.dtype)}


for d in ("i32", "i64", "i8", "i16"):
    integer(f"divisions_{d}", "divisions", [A(d, 1)] * 5 + [128], (2,), dividends(d), divided)
for d in ("u32", "u64", "u8"):
    integer(
        f"divisions_{d}",
        "unsigned_divisions",
        [A(d, 1)] * 4 + [128],
        (2,),
        lambda rng, d=d: dividends(d)(rng)[:4],
        lambda x, y, rem, up: {2: x % y, 3: x // y + (x % y != 0).astype(x.dtype)},
    )
integer(
    "divide_by_constants",
    "divide_by_constants",
    [A("i32", 1)] * 4 + [128],
    (2,),
    lambda rng: (integers(rng, 200), like(200, "i32"), like(200, "i32"), like(200, "i32")),
    lambda x, a, b, c: {1: x // 8, 2: x % 7, 3: x // -3},
)
for d in ("i32", "u64", "i8"):
    integer(
        f"bit_ops_{d}",
        "bit_ops",
        [A(d, 1)] * 6 + [128],
        (2,),
        lambda rng, d=d: (integers(rng, 200, d), integers(rng, 200, d), *(like(200, d) for _ in range(4))),
        lambda x, y, *_: {2: x & y, 3: x | y, 4: x ^ y, 5: ~x},
    )
for d in ("i32", "u32", "i64", "u64", "i16", "u8"):
    bits = np.iinfo(DTYPES[d]).bits
    integer(
        f"shifts_{d}",
        "shifts",
        [A(d, 1)] * 4 + [128],
        (2,),
        lambda rng, d=d, n=bits: (
            integers(rng, 200, d),
            integers(rng, 200, d, 0, n),
            like(200, d),
            like(200, d),
        ),
        lambda x, s, *_: {2: x << s, 3: x >> s},
    )
for d in ("i32", "i64", "i8", "u16", "u32"):

    def wrapped(x, y, *_):
        with np.errstate(over="ignore"):
            return {2: x + y, 3: x - y, 4: x * y, 5: np.negative(x)}

    integer(
        f"wrap_{d}",
        "wrap_arith",
        [A(d, 1)] * 6 + [128],
        (2,),
        lambda rng, d=d: (integers(rng, 200, d), integers(rng, 200, d), *(like(200, d) for _ in range(4))),
        wrapped,
    )
for d in ("i32", "i64", "f16", "f64", "i8"):
    integer(
        f"abs_{d}",
        "absolute",
        [A(d, 1)] * 2 + [128],
        (2,),
        lambda rng, d=d: (numbers(rng, 200, d), like(200, d)),
        lambda x, y: {1: np.abs(x)},
    )


def mixed_hash(x, y):
    h = x.copy()
    with np.errstate(over="ignore"):
        for shift, k in ((16, 0x7FEB352D), (15, 0x846CA68B)):
            h = (h ^ (h >> np.uint32(shift))) * np.uint32(k)
    return {1: h ^ (h >> np.uint32(16))}


integer(
    "hash_mix",
    "hash_mix",
    [A("u32", 1)] * 2 + [128],
    (2,),
    lambda rng: (integers(rng, 200, "u32"), like(200, "u32")),
    mixed_hash,
)


def pcg(y, seed):
    with np.errstate(over="ignore"):
        h = np.arange(len(y), dtype="u4") * np.uint32(747796405) + np.uint32(seed)
        h = ((h >> ((h >> np.uint32(28)) + np.uint32(4))) ^ h) * np.uint32(277803737)
    h = (h >> np.uint32(22)) ^ h
    return {0: (h >> np.uint32(8)).astype("f4") * np.float32(1 / 16777216)}


integer(
    "random_uniform",
    "random_uniform",
    [A("f32", 1), Scalar("u32"), 128],
    (3,),
    lambda rng: (like(384), np.uint32(12345)),
    pcg,
)
integer(
    "pow_int_exponent",
    "float_power_int",
    [A("f32", 1), A("f32", 1), 128],
    (1,),
    lambda rng: (uniform(rng, 128), like(128)),
    lambda x, y: {1: (x.astype("f8") ** 5).astype("f4")},
    rtol=1e-6,
)
integer(
    "scalar_arguments",
    "small_scalar",
    [A("f64", 1), Scalar("i8"), Scalar("f64"), Scalar("i16"), Scalar("f32")],
    (1,),
    lambda rng: (like(4, "f64"), np.int8(-7), np.float64(1e-300), np.int16(-300), np.float32(0.1)),
    lambda y, a, b, c, d: {0: np.array([a, b, c, d], "f8")},
)


def compared(x, y, out):
    parts = (x < y, x <= y, x > y, x >= y, x == y, x != y)
    return {2: sum(p.astype("i4") << k for k, p in enumerate(parts)).astype("i4")}


def pairs(d):
    def make(rng):
        x = numbers(rng, 200, d)
        y = np.where(rng.integers(0, 3, 200) == 0, x, numbers(rng, 200, d)).astype(x.dtype)
        if x.dtype.kind not in "iub":
            x[:5], y[:5] = (
                np.array([np.nan, 1, np.nan, 0.0, np.inf]),
                np.array([1, np.nan, np.nan, -0.0, np.inf]),
            )
        return x, y, like(200, "i32")

    return make


for d in ("f32", "i32", "u32", "f16", "i64", "f64", "u8", "bf16"):
    select(f"compare_{d}", "compare_all", [A(d, 1), A(d, 1), A("i32", 1), 128], (2,), pairs(d), compared)


def with_nan(rng):
    x = uniform(rng, 200)
    x[::7] = np.nan
    return x, uniform(rng, 200), like(200)


select(
    "nan_select",
    "nan_select",
    [A("f32", 1)] * 3 + [128],
    (2,),
    with_nan,
    lambda x, y, z: {2: np.where(np.isnan(x), y, x)},
)
select(
    "clamp_select",
    "clamp_select",
    [A("f32", 1), A("f32", 1), Scalar("f32"), Scalar("f32"), 128],
    (2,),
    lambda rng: (uniform(rng, 200), like(200), np.float32(-0.5), np.float32(1.25)),
    lambda x, z, lo, hi: {1: np.clip(x, lo, hi)},
)
select(
    "mask_logic",
    "mask_logic",
    [A("i32", 1), A("i32", 1), 128],
    (2,),
    lambda rng: (integers(rng, 200, "i32", -300, 300), like(200, "i32")),
    lambda x, y: {1: np.where(((x % 2 == 0) & (x > 100)) | ((x < 0) ^ (x % 2 == 0)), x, ~x)},
)
