"""Movement inside tiles is exact."""

from __future__ import annotations

import numpy as np

from tests.corpus.case import DTYPES, Family, fma, integers, like, transposed, uniform
from tests.corpus.case import Array as A

case = Family("shape", "python/shapes.py")
first = ("first",)


def numbers(rng, shape, d):
    return integers(rng, shape, d) if d[0] in "iu" else uniform(rng, shape, d)


for d, tile, shape in (
    ("f32", (32, 32), (70, 50)),
    ("f16", (16, 64), (40, 100)),
    ("i8", (64, 32), (64, 64)),
    ("f64", (8, 16), (20, 30)),
    ("bf16", (32, 16), (33, 31)),
):
    grid = (-(-shape[0] // tile[0]), -(-shape[1] // tile[1]))
    case(
        f"transpose_{d}",
        "transpose_tiles",
        [A(d, 2), A(d, 2), *tile],
        grid,
        lambda rng, d=d, s=shape: (numbers(rng, s, d), like(s[::-1], d)),
        lambda x, y: {1: x.T},
        tags=first,
    )
case(
    "transpose_by_order",
    "transpose_by_order",
    [A("f32", 2), A("f32", 2), 16, 32],
    (4, 2),
    lambda rng: (uniform(rng, (50, 60)), like((60, 50))),
    lambda x, y: {1: x.T},
    tags=first,
)
case(
    "transpose_of_column_major",
    "transpose_tiles",
    [A("f32", 2, strided=True), A("f32", 2), 32, 32],
    (2, 2),
    lambda rng: (transposed(uniform(rng, (40, 60))), like((60, 40))),
    lambda x, y: {1: x.T},
)
for p, axes in enumerate(((2, 0, 1), (0, 2, 1), (2, 1, 0))):
    case(
        f"permute_{''.join(map(str, axes))}",
        "permute_3d",
        [A("f32", 3), A("f32", 3), 4, 8, 16, p],
        (1,),
        lambda rng, axes=axes: (uniform(rng, (4, 8, 16)), like(tuple((4, 8, 16)[a] for a in axes))),
        lambda x, y, axes=axes: {1: x.transpose(axes)},
    )
case(
    "reshape_sum",
    "reshape_sum",
    [A("i32", 1), A("i32", 1), 128],
    (3,),
    lambda rng: (integers(rng, 384, "i32", -99, 99), like(96, "i32")),
    lambda x, y: {1: x.reshape(-1, 4).sum(1).astype("i4")},
)
case(
    "outer_product",
    "outer",
    [A("f32", 1), A("f32", 1), A("f32", 2), 16, 32],
    (3, 2),
    lambda rng: (uniform(rng, 40), uniform(rng, 50), like((40, 50))),
    lambda x, y, z: {2: fma(x[:, None], y[None], x[:, None])},
)
case(
    "halves_swapped",
    "halves_swapped",
    [A("i32", 2), A("i32", 2), 16, 32],
    (1,),
    lambda rng: (integers(rng, (16, 32)), like((16, 32), "i32")),
    lambda x, y: {1: np.roll(np.roll(x, 8, 0), 16, 1)},
)


def rotated(x, c, s, y):
    a, b = x[:, :32], x[:, 32:]
    return {3: np.concatenate([fma(a, c, -(b * s)), fma(b, c, a * s)], 1)}


case(
    "rotary",
    "rotary",
    [A("f32", 2)] * 4 + [64],
    (3,),
    lambda rng: (uniform(rng, (3, 64)), uniform(rng, (3, 32)), uniform(rng, (3, 32)), like((3, 64))),
    rotated,
)


def inserted(x, p, y):
    out = np.concatenate([x, x])
    out[:8, 8:], out[24:, 8:] = p, p
    return {2: out}


case(
    "insert_block",
    "insert_block",
    [A("f32", 2)] * 3 + [16],
    (2,),
    lambda rng: (uniform(rng, (16, 16)), uniform(rng, (8, 8)), like((32, 16))),
    inserted,
    since="13.4",
)
case(
    "dynamic_extract",
    "dynamic_extract",
    [A("f32", 1), A("i32", 1), A("f32", 1), 64, 16],
    (4,),
    lambda rng: (uniform(rng, 64), np.array([2, 0, 3, 2], "i4"), like(64)),
    lambda x, w, y: {2: x.reshape(4, 16)[w].ravel()},
)
for src, dst in (("f32", "i32"), ("i64", "f64"), ("u16", "f16"), ("bf16", "i16")):
    case(
        f"bitcast_{src}_{dst}",
        "bits_of",
        [A(src, 1), A(dst, 1), 64],
        (2,),
        lambda rng, s=src, d=dst: (numbers(rng, 100, s), like(100, d)),
        lambda x, y, d=dst: {1: x.view(DTYPES[d])},
    )
case(
    "abs_by_bits",
    "abs_by_bits",
    [A("f16", 1), A("f16", 1), 64],
    (2,),
    lambda rng: (uniform(rng, 128, "f16"), like(128, "f16")),
    lambda x, y: {1: np.abs(x)},
)
for d in ("i32", "f16", "f64"):
    size = np.dtype(DTYPES[d]).itemsize
    case(
        f"pack_bytes_{d}",
        "pack_bytes",
        [A(d, 1), A("u8", 1), 32],
        (2,),
        lambda rng, d=d, n=size: (numbers(rng, 64, d), like(64 * n, "u8")),
        lambda x, y: {1: x.view(np.uint8)},
        since="13.3",
    )
    case(
        f"unpack_bytes_{d}",
        "unpack_bytes",
        [A("u8", 1), A(d, 1), 32 * size],
        (2,),
        lambda rng, d=d, n=size: (numbers(rng, 64, d).view(np.uint8), like(64, d)),
        lambda x, y: {1: x.view(y.dtype)},
        since="13.3",
    )
case(
    "triangle",
    "triangle",
    [A("f32", 3), A("f32", 3), 16],
    (3,),
    lambda rng: (uniform(rng, (3, 16, 16)), like((3, 16, 16))),
    lambda x, y: {1: np.triu(x)},
)
case(
    "times_transpose",
    "gram_diagonal",
    [A("f32", 2), A("f32", 2), 32],
    (1,),
    lambda rng: (uniform(rng, (32, 32)), like((32, 32))),
    lambda x, y: {1: fma(x, x.T, x)},
)
case(
    "interleave",
    "interleave",
    [A("f16", 1)] * 3 + [32],
    (2,),
    lambda rng: (uniform(rng, 64, "f16"), uniform(rng, 64, "f16"), like(128, "f16")),
    lambda x, y, z: {2: np.stack([x, y], 1).ravel()},
)
