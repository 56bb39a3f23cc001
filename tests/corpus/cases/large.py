"""Tiles of 2^16 to 2^20 elements and the shapes on which assemblers tend to fall off a cliff.

The same kernels as in the small families. Sums of n f32 terms: the bound grows with the magnitude of the sum, so it
is absolute here, a few times n * 2^-24 for a tree over terms of size 1.
"""

from __future__ import annotations

import numpy as np

from tests.corpus.case import Array as A
from tests.corpus.case import Family, integers, like, uniform, wide

element = Family("large", "python/elementwise.py")
rows = Family("large", "python/rows.py")
reduction = Family("large", "python/reductions.py")
shape = Family("large", "python/shapes.py")
product = Family("large", "python/matmul.py")
TAGS = {"tags": ("large",)}


def softmax(x, y):
    e = np.exp(wide(x)[0] - x.max(1, keepdims=True))
    return {1: (e / e.sum(1, keepdims=True)).astype("f4").astype(x.dtype)}


def multiplied(a, b, c):
    return {2: (wide(a)[0] @ wide(b)[0]).astype("f4").astype(c.dtype)}


for log2 in (16, 18, 20):
    n = 1 << log2
    element(
        f"large_vadd_{1 << log2}",
        "vadd",
        [A("f32", 1)] * 3 + [n],
        (1,),
        lambda rng, n=n: (uniform(rng, n - 7), uniform(rng, n - 7), like(n - 7)),
        lambda x, y, z: {2: x + y},
        **TAGS,
    )
for log2 in (14, 16, 18):
    n = 1 << log2
    element(
        f"large_gelu_{1 << log2}",
        "gelu_half",
        [A("f16", 1)] * 2 + [n],
        (1,),
        lambda rng, n=n: (uniform(rng, n, "f16", -4, 4), like(n, "f16")),
        lambda x, z: {
            1: (lambda v: 0.5 * v * (1 + np.tanh(0.7978845608028654 * (v + 0.044715 * v**3))))(wide(x)[0])
            .astype("f4")
            .astype("f2")
        },
        rtol=1e-3,
        atol=2e-6,
        **TAGS,
    )
for log2 in (13, 15, 17):
    n = 1 << log2
    rows(
        f"large_softmax_{1 << log2}",
        "softmax_row",
        [A("f32", 2), A("f32", 2), n],
        (1,),
        lambda rng, n=n: (uniform(rng, (1, n - 5), "f32", -5, 5), like((1, n - 5))),
        softmax,
        rtol=2e-5,
        **TAGS,
    )
    reduction(
        f"large_sum_{1 << log2}",
        "sum_axis",
        [A("f32", 2), A("f32", 1), 1, n, 1],
        (1,),
        lambda rng, n=n: (uniform(rng, (1, n)), like(1)),
        lambda x, y: {1: wide(x)[0].sum(1).astype("f4")},
        rtol=1e-5,
        atol=n * 2e-7,
        **TAGS,
    )
    reduction(
        f"large_cumsum_{1 << log2}",
        "cumulative",
        [A("i32", 2), A("i32", 2), 1, n, 1, False],
        (1,),
        lambda rng, n=n: (integers(rng, (1, n)), like((1, n), "i32")),
        lambda x, y: {1: np.cumsum(x.astype("u4"), 1, dtype="u4").view("i4")},
        **TAGS,
    )
reduction(
    "large_sum_columns",
    "sum_axis",
    [A("f32", 2), A("f32", 1), 1024, 64, 0],
    (1,),
    lambda rng: (uniform(rng, (1000, 64)), like(64)),
    lambda x, y: {1: wide(x)[0].sum(0).astype("f4")},
    rtol=1e-5,
    atol=2e-4,
    **TAGS,
)
for d, m, n in (("f32", 256, 256), ("f16", 512, 128), ("i8", 256, 512)):
    shape(
        f"large_transpose_{d}",
        "transpose_tiles",
        [A(d, 2), A(d, 2), m, n],
        (1, 1),
        lambda rng, d=d, m=m, n=n: (
            integers(rng, (m, n), d) if d == "i8" else uniform(rng, (m, n), d),
            like((n, m), d),
        ),
        lambda x, y: {1: x.T},
        **TAGS,
    )
for m, n, k in ((128, 256, 64), (256, 128, 32), (64, 64, 256), (256, 256, 64)):
    product(
        f"large_matmul_{m}x{n}x{k}",
        "matmul",
        [A("f16", 2), A("f16", 2), A("f16", 2), m, n, k],
        (1, 1),
        lambda rng, m=m, n=n, k=k: (
            uniform(rng, (m, 2 * k), "f16", -1, 1),
            uniform(rng, (2 * k, n), "f16", -1, 1),
            like((m, n), "f16"),
        ),
        multiplied,
        rtol=1e-3,
        atol=1e-3,
        **TAGS,
    )
product(
    "large_matmul_f32",
    "matmul",
    [A("f32", 2)] * 3 + [128, 128, 32],
    (1, 1),
    lambda rng: (
        uniform(rng, (128, 64), "f32", -1, 1),
        uniform(rng, (64, 128), "f32", -1, 1),
        like((128, 128)),
    ),
    multiplied,
    rtol=2e-6,
    atol=1e-4,
    **TAGS,
)
