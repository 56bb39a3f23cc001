"""Views move data exactly: padding, strides, overlaps, slices."""

from __future__ import annotations

import numpy as np

from tests.corpus.case import Array as A
from tests.corpus.case import Family, Scalar, integers, keep, like, place, strided_in, transposed, uniform

case = Family("view", "python/views.py")
I, F = "i32", "f32"


def padded(x, *_):
    out = {}
    for k, pad in enumerate((0.0, -0.0, np.nan, np.inf, -np.inf), 1):
        y = np.full((32, 64), pad, x.dtype)
        y[: x.shape[0], : x.shape[1]] = x
        out[k] = y
    return out


for d in ("f32", "f16", "bf16"):
    case(
        f"padding_modes_{d}",
        "padding",
        [A(d, 2)] * 6 + [16, 32],
        (2, 2),
        lambda rng, d=d: (uniform(rng, (20, 50), d), *(like((32, 64), d, 5) for _ in range(5))),
        padded,
    )
case(
    "permuted_view",
    "permuted_view",
    [A(F, 3), A(F, 3), 4, 8, 2],
    (2, 2, 2),
    lambda rng: (uniform(rng, (3, 7, 12)), like((7, 12, 3))),
    lambda x, y: {1: x.transpose(1, 2, 0)},
)
case(
    "store_by_order",
    "store_by_order",
    [A(F, 2), A(F, 2), 16, 8],
    (2, 3),
    lambda rng: (uniform(rng, (30, 20)), like((20, 30))),
    lambda x, y: {1: x.T},
)
case(
    "strided_input",
    "store_by_order",
    [A(F, 2, strided=True), A(F, 2, strided=True), 16, 8],
    (2, 3),
    lambda rng: (strided_in(uniform(rng, (30, 20)), (2, 3)), strided_in(like((20, 30)), (1, 2))),
    lambda x, y: {1: x.T},
)
case(
    "column_major_output",
    "store_by_order",
    [A(F, 2), A(F, 2, strided=True), 16, 8],
    (2, 3),
    lambda rng: (uniform(rng, (30, 20)), transposed(like((20, 30)))),
    lambda x, y: {1: x.T},
)


def window_sums(x, y):
    p = np.pad(x, (0, 32))
    return {1: np.array([p[4 * k : 4 * k + 16].sum() for k in range(len(y))], "i4")}


case(
    "overlapping_windows",
    "windows",
    [A(I, 1), A(I, 1), 16, 4],
    (15,),
    lambda rng: (integers(rng, 60, I, -99, 99), like(15, I)),
    window_sums,
    since="13.3",
)


def with_gaps(x, y):
    k = np.arange(len(x))
    return {1: np.where(k % 12 < 8, x + 1, y)}


case(
    "gaps_between_tiles",
    "gaps",
    [A(I, 1), A(I, 1), 8, 12],
    (5,),
    lambda rng: (integers(rng, 58, I, -99, 99), like(58, I, 1000)),
    with_gaps,
    since="13.3",
)


def max_pool(x, y):
    p = np.pad(x, ((0, 4), (0, 4)), constant_values=-np.inf)
    return {
        1: np.array(
            [[p[i : i + 3, j : j + 3].max() for j in range(x.shape[1])] for i in range(x.shape[0])], "f4"
        )
    }


case(
    "max_pool_windows",
    "windows_2d",
    [A(F, 2), A(F, 2), 4, 4],
    (6, 9),
    lambda rng: (uniform(rng, (6, 9)), like((6, 9))),
    max_pool,
    since="13.3",
)
case(
    "num_tiles",
    "num_tiles_of",
    [A(F, 2), A(I, 1), 16, 8, 6],
    (1, 3),
    lambda rng: (uniform(rng, (50, 33)), like(8, I)),
    lambda x, y: {1: np.array([4, 5, 9, 6, 50, 33, 33, 3], "i4")},
    since="13.3",
)


def sparse(x, index, y):
    out = np.zeros((16, 32), "f4")
    for k, r in enumerate(index):
        if 0 <= r < len(x):
            out[k, : x.shape[1]] = x[r]
    return {2: out}


case(
    "gather_view_rows",
    "sparse_rows",
    [A(F, 2), A(I, 1), A(F, 2), 8, 16],
    (2, 2),
    lambda rng: (uniform(rng, (20, 28)), integers(rng, 16, I, 0, 24), like((16, 32), F, 3)),
    sparse,
    since="13.3",
)


def scattered(x, index, y):
    out = y.copy()
    out[:, index] = x * 2
    return {2: out}


case(
    "scatter_view_columns",
    "sparse_columns_scatter",
    [A(F, 2), A(I, 1), A(F, 2), 8, 16],
    (2,),
    lambda rng: (uniform(rng, (16, 16)), rng.permutation(24)[:16].astype("i4"), like((16, 24), F, 3)),
    scattered,
    since="13.3",
)


def slice_plus_one(x, y, lo, hi):
    out = y.copy()
    out[lo:hi] = x[lo:hi] + 1
    return {1: out}


case(
    "sliced_array",
    "sliced",
    [A(I, 2), A(I, 2), Scalar(I), Scalar(I), 16],
    (2,),
    lambda rng: (integers(rng, (40, 16), I, -99, 99), like((40, 16), I, 7), np.int32(3), np.int32(26)),
    slice_plus_one,
)
case(
    "unchecked_bounds",
    "unchecked",
    [A(F, 1, div=16), A(F, 1, div=16), 128],
    (2,),
    lambda rng: (uniform(rng, 256), like(256)),
    lambda x, y: {1: x + np.float32(1)},
    since="13.4",
)
case(
    "four_dimensions",
    "four_dims",
    [A("f16", 4), A("f16", 4), 2, 4, 4, 8],
    (2, 1),
    lambda rng: (uniform(rng, (3, 4, 3, 8), "f16"), like((3, 4, 3, 8), "f16")),
    lambda x, y: {1: x * 2},
)


def overlapping(rng):
    base = place(integers(rng, 70, I, -99, 99))
    return keep(base[:64]), keep(base[6:70])


def shifted(x, y):
    out = np.concatenate([x[:6], x + 1])
    return {0: out[:64], 1: out[6:]}


case(
    "overlapping_arrays",
    "shift_in_place",
    [A(I, 1, alias=("g",), align=8), A(I, 1, alias=("g",), align=8), 64],
    (1,),
    overlapping,
    shifted,
)


def zero_stride(rng):
    row = place(uniform(rng, 32))
    return keep(np.broadcast_to(row, (20, 32))), like((20, 32))


case(
    "zero_stride_rows",
    "broadcast_rows",
    [A(F, 2, overlaps=True), A(F, 2), 8, 32],
    (3,),
    zero_stride,
    lambda x, y: {1: x * 2},
)
case(
    "index64_transpose",
    "store_by_order",
    [A(F, 2, index="i64"), A(F, 2, index="i64"), 16, 8],
    (2, 3),
    lambda rng: (uniform(rng, (30, 20)), like((20, 30))),
    lambda x, y: {1: x.T},
    tags=("index64",),
)
