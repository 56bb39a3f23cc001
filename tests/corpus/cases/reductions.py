"""Reductions and scans. Integer results are exact; an f32 tree sum of n terms errs by about log2(n) ULP of
the sum of magnitudes (the bound here is absolute: 1e-6 times n times the largest term is generous for n
<= 1000).
"""

from __future__ import annotations

import numpy as np

from tests.corpus.case import Array as A
from tests.corpus.case import Family, integers, like, uniform, wide

case = Family("reduction", "python/reductions.py")
scan = Family("scan", "python/reductions.py")
first = ("first",)
for axis in (0, 1):
    for dtype in ("f32", "i32", "f16", "f64", "i64"):
        if axis == 0 and dtype in ("f16", "i64"):
            continue

        def make(rng, d=dtype, axis=axis):
            shape = (50, 60)
            x = integers(rng, shape, d, -1000, 1000) if d[0] == "i" else uniform(rng, shape, d)
            return x, like(shape[1 - axis], d)

        case(
            f"sum_axis{axis}_{dtype}",
            "sum_axis",
            [A(dtype, 2), A(dtype, 1), *((16, 64) if axis else (64, 16)), axis],
            (4,),
            make,
            lambda x, y, axis=axis: {1: wide(x)[0].sum(axis).astype(x.dtype)},
            rtol=0 if dtype[0] == "i" else 1e-12 if dtype == "f64" else 3e-3 if dtype == "f16" else 1e-5,
            atol=0 if dtype[0] == "i" else 1e-12 if dtype == "f64" else 0.06 if dtype == "f16" else 1e-5,
            tags=first if dtype in ("f32", "i32") else (),
        )


def extremes(axis):
    return lambda x, *_: {
        1: x.max(axis),
        2: x.min(axis),
        3: x.argmax(axis).astype("i4"),
        4: x.argmin(axis).astype("i4"),
    }


for axis, n in ((0, 32), (1, 16)):
    for dtype in ("f32", "i32"):
        case(
            f"extrema_axis{axis}_{dtype}",
            "extrema",
            [A(dtype, 2), A(dtype, 1), A(dtype, 1), A("i32", 1), A("i32", 1), 16, 32, axis],
            (1,),
            lambda rng, d=dtype, n=n: (
                uniform(rng, (16, 32)) if d == "f32" else integers(rng, (16, 32), "i32", -9, 9),
                like(n, d),
                like(n, d),
                like(n, "i32"),
                like(n, "i32"),
            ),
            extremes(axis),
            tags=first,
        )
case(
    "product_f32",
    "product",
    [A("f32", 2), A("f32", 1), 8, 16, 1],
    (1,),
    lambda rng: (uniform(rng, (8, 16), "f32", 0.5, 1.5), like(8)),
    lambda x, y: {1: wide(x)[0].prod(1).astype("f4")},
    rtol=4e-6,
)
case(
    "product_i32_wraps",
    "product",
    [A("i32", 2), A("i32", 1), 16, 8, 0],
    (1,),
    lambda rng: (integers(rng, (16, 8)), like(8, "i32")),
    lambda x, y: {1: np.multiply.reduce(x.astype("u4"), 0).astype("u4").view("i4")},
)
case(
    "total_f32",
    "total",
    [A("f32", 2), A("f32", 1), 32, 64],
    (1,),
    lambda rng: (uniform(rng, (30, 50)), like(1)),
    lambda x, y: {1: wide(x)[0].sum(keepdims=True).reshape(1).astype("f4")},
    rtol=1e-5,
    atol=1e-4,
)
for axis in (0, 1, 2):
    kept = [n for k, n in enumerate((8, 4, 16)) if k != axis]
    case(
        f"sum_3d_axis{axis}",
        "total_3d",
        [A("f32", 3), A("f32", 2), 8, 4, 16, axis],
        (1,),
        lambda rng, kept=kept: (uniform(rng, (8, 4, 16)), like(kept)),
        lambda x, y, axis=axis: {1: wide(x)[0].sum(axis).astype("f4")},
        rtol=1e-5,
        atol=1e-5,
    )
case(
    "mean_var",
    "mean_var",
    [A("f32", 2), A("f32", 1), A("f32", 1), 4, 64],
    (3,),
    lambda rng: (uniform(rng, (12, 64)), like(12), like(12)),
    lambda x, m, v: {1: wide(x)[0].mean(1).astype("f4"), 2: wide(x)[0].var(1).astype("f4")},
    rtol=1e-5,
    atol=1e-6,
)
case(
    "sum_long_rows",
    "sum_long",
    [A("f32", 2), A("f32", 1), 256],
    (3,),
    lambda rng: (uniform(rng, (3, 1500)), like(3)),
    lambda x, y: {1: wide(x)[0].sum(1).astype("f4")},
    rtol=1e-5,
    atol=1e-4,
    tags=first,
)
for dtype in ("i32", "i64", "u8"):
    case(
        f"xor_all_{dtype}",
        "xor_all",
        [A(dtype, 2), A(dtype, 1), 128],
        (3,),
        lambda rng, d=dtype: (integers(rng, (3, 128), d), like(3, d)),
        lambda x, y: {1: np.bitwise_xor.reduce(x, 1)},
    )
case(
    "sum_and_squares",
    "sum_and_squares",
    [A("f32", 2), A("f32", 1), A("f32", 1), 4, 128],
    (2,),
    lambda rng: (uniform(rng, (8, 100)), like(8), like(8)),
    lambda x, s, q: {1: wide(x)[0].sum(1).astype("f4"), 2: (wide(x)[0] ** 2).sum(1).astype("f4")},
    rtol=1e-5,
    atol=2e-5,
)
case(
    "argmax_last",
    "argmax_last",
    [A("f32", 2), A("f32", 1), A("i32", 1), 64],
    (4,),
    lambda rng: (np.round(uniform(rng, (4, 64), "f32", -3, 3)), like(4), like(4, "i32")),
    lambda x, v, i: {1: x.max(1), 2: (63 - x[:, ::-1].argmax(1)).astype("i4")},
)
case(
    "saturating_sum",
    "saturating_sum",
    [A("i32", 2), A("i32", 1), 32],
    (5,),
    lambda rng: (integers(rng, (5, 32), "i32", 0, 6), like(5, "i32")),
    lambda x, y: {1: np.minimum(x.sum(1), 100).astype("i4")},
)
case(
    "any_all",
    "any_all",
    [A("i32", 2), A("i32", 1), A("i32", 1), 16, 32],
    (1,),
    lambda rng: (integers(rng, (16, 32), "i32", -95, 96), like(16, "i32"), like(16, "i32")),
    lambda x, a, b: {1: (x > 90).any(1).astype("i4"), 2: (x > -90).all(1).astype("i4")},
)


def cumsum(x, axis, reverse):
    return (
        np.flip(np.cumsum(np.flip(x, axis), axis, dtype=x.dtype), axis)
        if reverse
        else np.cumsum(x, axis, dtype=x.dtype)
    )


for name, dtype, shape, tile, axis, reverse in (
    ("cumsum_rows_f32", "f32", (8, 60), (8, 64), 1, 0),
    ("cumsum_columns_f32", "f32", (60, 8), (64, 8), 0, 0),
    ("cumsum_reverse_i32", "i32", (4, 128), (4, 128), 1, 1),
    ("cumsum_i64", "i64", (2, 256), (2, 256), 1, 0),
    ("cumsum_columns_i32", "i32", (32, 16), (32, 16), 0, 1),
):
    scan(
        name,
        "cumulative",
        [A(dtype, 2), A(dtype, 2), *tile, axis, bool(reverse)],
        (1,),
        lambda rng, s=shape, d=dtype: (
            uniform(rng, s) if d[0] == "f" else integers(rng, s, d, -999, 999),
            like(s, d),
        ),
        lambda x, y, a=axis, r=reverse: {
            1: cumsum(x.astype("f8") if x.dtype.kind == "f" else x, a, r).astype(x.dtype)
        },
        rtol=0 if dtype[0] == "i" else 1e-5,
        atol=0 if dtype[0] == "i" else 1e-5,
    )
scan(
    "cumprod_f32",
    "cumulative_product",
    [A("f32", 2), A("f32", 2), 4, 32, 1],
    (1,),
    lambda rng: (uniform(rng, (4, 32), "f32", 0.7, 1.3), like((4, 32))),
    lambda x, y: {1: np.cumprod(wide(x)[0], 1).astype("f4")},
    rtol=5e-6,
)
scan(
    "cumsum_long_rows",
    "cumulative_rows",
    [A("f32", 2), A("f32", 2), 128],
    (2,),
    lambda rng: (uniform(rng, (2, 500)), like((2, 500))),
    lambda x, y: {1: np.cumsum(wide(x)[0], 1).astype("f4")},
    rtol=1e-5,
    atol=2e-5,
)
for reverse in (0, 1):
    scan(
        f"running_max{'_reverse' * reverse}",
        "running_max",
        [A("i32", 2), A("i32", 2), 64, bool(reverse)],
        (3,),
        lambda rng: (integers(rng, (3, 64)), like((3, 64), "i32")),
        lambda x, y, r=reverse: {
            1: np.maximum.accumulate(x[:, ::-1], 1)[:, ::-1] if r else np.maximum.accumulate(x, 1)
        },
    )


def recurrence(a, b, y):
    h, out = np.zeros(a.shape[0]), np.zeros(a.shape)
    for t in range(a.shape[1]):
        h = a[:, t].astype("f8") * h + b[:, t]
        out[:, t] = h
    return {2: out.astype("f4")}


scan(
    "linear_recurrence",
    "linear_recurrence",
    [A("f32", 2)] * 3 + [64],
    (3,),
    lambda rng: (uniform(rng, (3, 64), "f32", 0.5, 1), uniform(rng, (3, 64)), like((3, 64))),
    recurrence,
    rtol=1e-5,
    atol=1e-5,
)
