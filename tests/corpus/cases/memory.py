"""Gather, scatter and atomics. Integer atomics commute exactly; float atomic sums are checked with the bound
of any order of additions. The locks need blocks that make progress independently of each other.
"""

from __future__ import annotations

import itertools

import numpy as np

from tests.corpus.case import Array as A
from tests.corpus.case import Family, Scalar, integers, like, uniform, wide

gather = Family("gather", "python/memory.py")
histogram = Family("histogram", "python/memory.py")
atomic = Family("atomic", "python/memory.py")
lock = Family("lock", "python/memory.py")
debug = Family("debug", "python/memory.py")
I, F = "i32", "f32"


def gathered(x, index, y):
    rows = np.where(
        ((index >= 0) & (index < len(x)))[:, None], x[np.clip(index, 0, len(x) - 1)], np.float32(-7)
    )
    return {2: rows.astype(x.dtype)}


gather(
    "gather_rows",
    "gather_rows",
    [A(F, 2), A(I, 1), A(F, 2), 8, 64],
    (3,),
    lambda rng: (uniform(rng, (30, 64)), integers(rng, 21, I, -2, 33), like((21, 64))),
    gathered,
)
gather(
    "scatter_permuted",
    "scatter_permuted",
    [A(F, 1), A(I, 1), A(F, 1), 64],
    (2,),
    lambda rng: (uniform(rng, 100), rng.permutation(100).astype("i4"), like(100)),
    lambda x, i, y: {2: x[np.argsort(i)]},
)


def masked(x, index, keep, y):
    return {3: np.where(keep != 0, x[index], y)}


gather(
    "masked_gather",
    "masked_gather",
    [A(I, 1)] * 4 + [64],
    (2,),
    lambda rng: (
        integers(rng, 50),
        integers(rng, 100, I, 0, 50),
        integers(rng, 100, I, 0, 2),
        like(100, I, 77),
    ),
    masked,
)
gather(
    "reverse",
    "reverse",
    [A(F, 1), A(F, 1), 64],
    (3,),
    lambda rng: (uniform(rng, 150), like(150)),
    lambda x, y: {1: x[::-1]},
)


def columns(x, y, step):
    i = np.arange(len(y))
    return {1: x[i % x.shape[0], (i * step) % x.shape[1]]}


gather(
    "strided_columns",
    "strided_columns",
    [A("f16", 2), A("f16", 1), Scalar(I), 64],
    (2,),
    lambda rng: (uniform(rng, (7, 30), "f16"), like(128, "f16"), np.int32(11)),
    columns,
)
gather(
    "gather_index64",
    "wide_index",
    [A(I, 1, index="i64"), A(I, 1, index="i64"), 64],
    (3,),
    lambda rng: (integers(rng, 180), like(180, I)),
    lambda x, y: {1: x[(np.arange(180, dtype="i8") * 2654435761) % 180]},
    tags=("index64",),
)


def csr(rng):
    degree = rng.integers(0, 9, 12)
    return (
        np.concatenate([[0], np.cumsum(degree)]).astype("i4"),
        integers(rng, int(degree.sum()), I, 0, 12),
        uniform(rng, 12),
        like(12),
    )


def ranked(starts, targets, rank, out):
    return {
        3: np.array([rank[targets[a:b]].astype("f8").sum() for a, b in itertools.pairwise(starts)]).astype(
            "f4"
        )
    }


gather(
    "graph_step", "graph_step", [A(I, 1), A(I, 1), A(F, 1), A(F, 1)], (12,), csr, ranked, rtol=1e-6, atol=1e-6
)


def compacted(x, y, count):
    kept = x[x > 0]
    out = y.copy()
    out[: len(kept)] = kept
    return {1: out, 2: np.array([len(kept)], "i4")}


gather(
    "compaction",
    "compaction",
    [A(I, 1)] * 3 + [128],
    (1,),
    lambda rng: (integers(rng, 100, I, -50, 50), like(100, I, -1), like(1, I)),
    compacted,
)
gather(
    "raw_offsets",
    "raw_offsets",
    [A(I, 1), A(I, 1), 64],
    (2,),
    lambda rng: (integers(rng, 180, I, -999, 999), like(128, I, 9)),
    lambda x, y: {1: np.concatenate([x[:180:2] + 1, np.full(10, 6, "i4"), y[100:]])},
)

histogram(
    "histogram",
    "histogram",
    [A(I, 1), A(I, 1), 128],
    (4,),
    lambda rng: (integers(rng, 500, I, 0, 16), like(16, I)),
    lambda x, c: {1: np.bincount(x, minlength=16).astype("i4")},
)
histogram(
    "histogram_one_bin",
    "histogram",
    [A(I, 1), A("i64", 1), 256],
    (2,),
    lambda rng: (np.full(400, 3, "i4"), like(8, "i64")),
    lambda x, c: {1: np.bincount(x, minlength=8)},
)
histogram(
    "histogram_local",
    "histogram_local",
    [A(I, 1), A(I, 1), 64, 16],
    (3,),
    lambda rng: (integers(rng, 192, I, 0, 16), integers(rng, 16, I, 0, 9)),
    lambda x, c: {1: c + np.bincount(x, minlength=16).astype("i4")},
)
histogram(
    "weighted_histogram",
    "weighted_histogram",
    [A(I, 1), A(F, 1), A(F, 1), 128],
    (3,),
    lambda rng: (integers(rng, 300, I, 0, 10), uniform(rng, 300), like(10)),
    lambda x, w, s: {2: np.bincount(x, w.astype("f8"), 10).astype("f4")},
    rtol=1e-5,
    atol=1e-5,
)


def reduced(x, add, lo, hi, band, bor, bxor):
    n = len(add)
    out = [a.copy() for a in (add, lo, hi, band, bor, bxor)]
    with np.errstate(over="ignore"):
        for f, a in zip((np.add, np.minimum, np.maximum, np.bitwise_and, np.bitwise_or, np.bitwise_xor), out):
            f.at(a, np.arange(len(x)) % n, x)
    return dict(enumerate(out, 1))


for d in ("i32", "u32", "i64", "u64"):
    atomic(
        f"atomic_integers_{d}",
        "atomic_integers",
        [A(d, 1)] * 7 + [64],
        (3,),
        lambda rng, d=d: (integers(rng, 192, d), *(integers(rng, 10, d) for _ in range(6))),
        reduced,
    )
for d, rtol, atol in (("f32", 1e-5, 1e-5), ("f64", 1e-14, 1e-13), ("f16", 1e-2, 5e-2), ("bf16", 5e-2, 0.3)):
    atomic(
        f"atomic_add_{d}",
        "atomic_float_add",
        [A(d, 1), A(d, 1), 64],
        (2,),
        lambda rng, d=d: (uniform(rng, 128, d), uniform(rng, 16, d)),
        lambda x, y: {
            1: (wide(y)[0] + wide(x)[0].reshape(8, 16).sum(0))
            .astype("f4" if y.dtype != "f8" else "f8")
            .astype(y.dtype)
        },
        rtol=rtol,
        atol=atol,
        min_arch=90 if d == "bf16" else 75,
    )
atomic(
    "atomic_ticket",
    "atomic_ticket",
    [A(I, 1), A(I, 1), 64],
    (3,),
    lambda rng: (like(1, I), like(192, I)),
    lambda c, o: {0: np.array([192], "i4"), 1: np.ones(192, "i4")},
)
atomic(
    "atomic_exchange",
    "atomic_exchange",
    [A(I, 1), A(I, 1), 64],
    (2,),
    lambda rng: (integers(rng, 100), like(100, I)),
    lambda x, y: {0: np.arange(100, dtype="i4") * 10, 1: x},
)
for d in ("i32", "i64"):
    atomic(
        f"atomic_cas_{d}",
        "atomic_compare_swap",
        [A(d, 1), A(d, 1), 64],
        (2,),
        lambda rng, d=d: (integers(rng, 100, d, 0, 6), like(100, d)),
        lambda x, y: {0: np.where(x == 3, 100 + np.arange(100), x).astype(x.dtype), 1: x},
    )
atomic(
    "view_reductions",
    "view_reductions",
    [A(I, 1)] * 5 + [64],
    (3,),
    lambda rng: (integers(rng, 192), *(integers(rng, 50, I) for _ in range(4))),
    lambda x, add, lo, hi, bor: (
        lambda v: {
            1: np.add.reduce([add, *v]).astype("i4"),
            2: np.minimum.reduce([lo, *v]),
            3: np.maximum.reduce([hi, *v]),
            4: np.bitwise_or.reduce([bor, *v]),
        }
    )(x.reshape(3, 64)[:, :50]),
    since="13.3",
)
atomic(
    "view_reduction_float",
    "view_reduction_float",
    [A(F, 2), A(F, 2), 16, 32],
    (3, 2),
    lambda rng: (uniform(rng, (40, 50)), like((1, 50))),
    lambda x, y: {1: wide(x)[0].sum(0, keepdims=True).astype("f4")},
    rtol=1e-5,
    atol=1e-5,
    since="13.3",
)


def raw(x, y):
    i = np.arange(128)
    a, b = x.copy(), y.copy()
    np.add.at(a, i[i % 3 == 0] % 16, i[i % 3 == 0].astype("i4"))
    np.maximum.at(b, i[i % 3 != 0] % 16, i[i % 3 != 0].astype("i4"))
    return {0: a, 1: b}


atomic(
    "raw_atomics",
    "raw_atomics",
    [A(I, 1), A(I, 1), 64],
    (2,),
    lambda rng: (integers(rng, 16, I, 0, 99), integers(rng, 16, I, 0, 99)),
    raw,
)
atomic(
    "ordered_access",
    "ordered_access",
    [A(I, 1)] * 3 + [32],
    (2,),
    lambda rng: (like(64, I), integers(rng, 64, I, -99, 99), like(64, I)),
    lambda f, x, y: {0: x, 2: x + 1},
    since="13.2",
)

lock(
    "spin_lock",
    "spin_lock",
    [A(I, 1), A(I, 1), A(I, 1), 64],
    (6,),
    lambda rng: (like(1, I), integers(rng, 64, I, 0, 99), integers(rng, 384, I, 0, 99)),
    lambda k, t, x: {1: (t + x.reshape(6, 64).sum(0)).astype("i4")},
)
lock(
    "cas_accumulate",
    "cas_accumulate",
    [A(F, 1), A(F, 1), 16],
    (5,),
    lambda rng: (uniform(rng, 80, F, 0.9, 1.1), np.ones(1, "f4")),
    lambda x, y: {1: np.array([x.astype("f8").prod()], "f4")},
    rtol=1e-5,
)


def last_sums(x, partial, counter, y):
    p = x.reshape(5, 64).astype("i8").sum(1).astype("i4")
    return {1: p, 2: np.array([5], "i4"), 3: np.array([p.sum()], "i4")}


lock(
    "last_block_sums",
    "last_block_sums",
    [A(I, 1), A(I, 1), A(I, 1), A(I, 1), 64, 8],
    (5,),
    lambda rng: (integers(rng, 320, I, -999, 999), like(5, I), like(1, I), like(1, I)),
    last_sums,
)

debug(
    "prints",
    "prints",
    [A(I, 1), A(I, 1), 4],
    (2,),
    lambda rng: (integers(rng, 8, I, 0, 99), like(8, I)),
    lambda x, y: {1: x + 1},
    since="13.2",
)
debug(
    "asserts",
    "asserts",
    [A(I, 1), A(I, 1), 32],
    (2,),
    lambda rng: (integers(rng, 50, I, 0, 99), like(50, I)),
    lambda x, y: {1: x * 3},
)
debug(
    "dependent_launch",
    "dependent_launch",
    [A(I, 1), A(I, 1), 32],
    (2,),
    lambda rng: (integers(rng, 64, I, 0, 99), like(64, I)),
    lambda x, y: {1: x + 1},
    since="13.4",
    min_arch=90,
)
