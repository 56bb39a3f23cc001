"""Blocks that wait for each other: locks, barriers, chained scans, products shared by several blocks.

Sums of f32 in any order: bounds as in the matrix products.
"""

from __future__ import annotations

import numpy as np

from tests.corpus.case import Array as A
from tests.corpus.case import Family, Scalar, integers, like, uniform, wide

F, I = "f32", "i32"
F32T = {"rtol": 4e-6, "atol": 2e-4}

lock = Family("lock", "python/locks.py")


lock(
    "ticket_lock",
    "ticket_lock",
    [A(I, 1), A(I, 1), A(I, 1), A(I, 1), A(I, 1), 32],
    (6,),
    lambda rng: (like(1, I), like(1, I), like(6, I), like(32, I), np.zeros(192, "i4")),
    lambda h, t, s, tot, x: {
        0: np.array([6], "i4"),
        1: np.array([6], "i4"),
        2: np.ones(6, "i4"),
        3: np.full(32, 6, "i4"),
    },
)

lock(
    "producer_consumer",
    "producer_consumer",
    [A(I, 1), A(I, 1), A(I, 1), 64],
    (6,),
    lambda rng: (like(3, I), like(192, I), like(192, I)),
    lambda f, d, o: {
        0: np.full(3, 2, "i4"),
        1: np.concatenate([np.arange(64) * (2 * i + 1) for i in range(3)]).astype("i4"),
        2: np.concatenate([np.arange(64) * (2 * i + 1) + 7 for i in range(3)]).astype("i4"),
    },
)


def grid_barrier_values(c, a, b, r):
    a = a.copy().reshape(4, 16)
    for _ in range(int(r)):
        a = a + np.roll(a, -1, 0)
    return {0: np.array([4 * 2 * int(r)], "i4"), 1: a.reshape(-1), 2: a.reshape(-1)}


lock(
    "grid_barrier",
    "grid_barrier",
    [A(I, 1), A(I, 1), A(I, 1), Scalar(I), 16],
    (4,),
    lambda rng: (like(1, I), integers(rng, 64, I, -9, 9), like(64, I), np.int32(3)),
    grid_barrier_values,
)

lock(
    "lookback_scan",
    "lookback_scan",
    [A(I, 1), A(I, 1), A("i64", 1), 64],
    (5,),
    lambda rng: (integers(rng, 300, I, 0, 1000), like(300, I), np.full(5, -1, "i8")),
    lambda x, y, s: {
        1: np.cumsum(x).astype("i4"),
        2: np.cumsum(np.add.reduceat(x.astype("i8"), np.arange(0, 300, 64))),
    },
)


def lock_array_values(l, a, k, w):
    a = np.zeros(a.shape)
    np.add.at(a[:, 0], k, w.astype("f8"))
    np.add.at(a[:, 1], k, 1)
    return {1: a.astype("f4")}


lock(
    "lock_array",
    "lock_array",
    [A(I, 1), A(F, 2), A(I, 1), A(F, 1), 8],
    (5,),
    lambda rng: (like(3, I), like((3, 2)), integers(rng, 40, I, 0, 3), uniform(rng, 40)),
    lock_array_values,
    rtol=1e-5,
    atol=1e-5,
)


matmul = Family("matmul", "python/locks.py")


def prod(a, b, c):
    return {2: (wide(a)[0] @ wide(b)[0]).astype("f4").astype(c.dtype)}


matmul(
    "mm_split_lock",
    "mm_split_lock",
    [A("f16", 2), A("f16", 2), A(F, 2), A(I, 1), 32, 32, 16, 4],
    (2, 2, 4),
    lambda rng: (
        uniform(rng, (50, 200), "f16", -1, 1),
        uniform(rng, (200, 40), "f16", -1, 1),
        like((50, 40)),
        like(4, I),
    ),
    lambda a, b, c, l: {2: prod(a, b, c)[2]},
    **F32T,
)

matmul(
    "mm_split_ticket",
    "mm_split_ticket",
    [A("bf16", 2), A("bf16", 2), A(F, 3), A("f16", 2), A(I, 2), 32, 32, 32, 3],
    (2, 2, 3),
    lambda rng: (
        uniform(rng, (50, 200), "bf16", -1, 1),
        uniform(rng, (200, 40), "bf16", -1, 1),
        np.zeros((3, 50, 40), "f4"),
        like((50, 40), "f16"),
        like((2, 2), I),
    ),
    lambda a, b, p, c, l: {
        2: np.stack(
            [(wide(a)[0][:, s * 96 : (s * 96 + 96)] @ wide(b)[0][s * 96 : s * 96 + 96]) for s in range(3)]
        ).astype("f4"),
        3: (wide(a)[0] @ wide(b)[0]).astype("f2"),
    },
    rtol=1e-3,
    atol=1e-3,
)

matmul(
    "mm_stream_k",
    "mm_stream_k",
    [A("f16", 2), A("f16", 2), A(F, 2), 32, 32, 32],
    (5,),
    lambda rng: (
        uniform(rng, (90, 130), "f16", -1, 1),
        uniform(rng, (130, 70), "f16", -1, 1),
        like((90, 70)),
    ),
    prod,
    **F32T,
)

matmul(
    "mm_syrk",
    "mm_syrk",
    [A("f16", 2), A(F, 2), 32, 32],
    (3, 3),
    lambda rng: (uniform(rng, (80, 70), "f16", -1, 1), like((80, 80), F, 9)),
    lambda a, c: {1: np.where(np.tri(80, dtype=bool), wide(a)[0] @ wide(a)[0].T, 9).astype("f4")},
    **F32T,
)


def mm_experts_topk_values(x, w, ids, g, y):
    out = np.zeros(y.shape)
    for t in range(len(x)):
        for s in range(2):
            out[t] += g[t, s].astype("f8") * (x[t].astype("f8") @ w[ids[t, s]].astype("f8"))
    return {4: out.astype("f4")}


matmul(
    "mm_experts_topk",
    "mm_experts_topk",
    [A("f16", 2), A("f16", 3), A(I, 2), A(F, 2), A(F, 2), 32, 32, 32, 5],
    (2, 2),
    lambda rng: (
        uniform(rng, (40, 32), "f16", -1, 1),
        uniform(rng, (5, 32, 50), "f16", -1, 1),
        np.stack([rng.permutation(5)[:2] for _ in range(40)]).astype("i4"),
        uniform(rng, (40, 2), F, 0.1, 1),
        like((40, 50)),
    ),
    mm_experts_topk_values,
    **F32T,
)
