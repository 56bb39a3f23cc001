"""Tile C++ memory: atomics of every kind, order and scope, locks, views of all layouts, tables, structures."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.corpus.case import DTYPES, Family, fma, integers, like, strided_in, uniform
from tests.corpus.cases.cpp_numbers import quiet

memory = Family("cpp_memory", "cpp/memory.cu")
i4 = np.int32


def case(name: str, grid: tuple[int, ...], inputs: Any, expect: Any, **more: Any) -> None:
    entry = name.replace("cpp_", "mem_")
    memory(name, entry, [], grid, inputs, quiet(expect), module="cpp_memory", **more)


# Atomics


def every(x: np.ndarray, old: np.ndarray) -> dict[int, np.ndarray]:
    v = (np.arange(32) * 3 + 2).astype(x.dtype)
    a = x.reshape(9, 32)
    new = [a[0] + v, a[1] - v, np.minimum(a[2], v), np.maximum(a[3], v), a[4] & v, a[5] | v, a[6] ^ v, v,
           np.where(a[8] == v, v + v.dtype.type(1), a[8])]  # fmt: skip
    return {0: np.concatenate(new), 1: x}


def every_input(rng: np.random.Generator, d: str) -> Any:
    x = integers(rng, 288, d)
    x[64:128] = integers(rng, 64, d, -50 if d[0] == "i" else 0, 100)
    x[256:288:2] = (np.arange(0, 32, 2) * 3 + 2).astype(DTYPES[d])
    return x, like(288, d)


for d in ("i32", "u32", "i64", "u64"):
    case(f"cpp_every_{d}", (1,), lambda rng, d=d: every_input(rng, d), every)


def masked(x: Any, y: Any, z: Any, limit: Any) -> dict[int, np.ndarray]:
    i = np.arange(64, dtype="i4")
    m = (i < limit) & (i % 3 != 1)
    a, b = x.reshape(3, 64), y.reshape(2, 64)
    u, five = i.astype("u8"), np.uint64(5)
    f = z.copy()
    np.add.at(f, i[m] // 4, np.float32(0.25))
    f[16:] -= np.where(m, i, 0).astype("f4")
    rows = [
        np.where(m, a[0] + i, a[0]),
        np.where(m, a[1], a[1] | 8),
        np.where(m, np.maximum(a[2], i * 2), a[2]),
    ]
    words = [np.where(m, u, b[0]), np.where(m & (b[1] == five), np.uint64(9), b[1])]
    return {0: np.concatenate(rows), 1: np.concatenate(words), 2: f}


def masked_input(rng: np.random.Generator) -> Any:
    y = integers(rng, 128, "u64")
    y[64::3] = 5
    return integers(rng, 192, "i32", -99, 99), y, np.round(uniform(rng, 80) * 4), i4(50)


case("cpp_masked", (1,), masked_input, masked)


def adds(a: Any, b: Any, c: Any) -> dict[int, np.ndarray]:
    i = np.arange(64)
    out = [v.copy() for v in (a, b, c)]
    for v, n in zip(out, (8, 4, 16)):
        np.add.at(v, i % n, (i % 5).astype(v.dtype))
    return dict(enumerate(out))


case("cpp_float_adds", (1,), lambda rng: (like(8), np.ones(4), like(16, "f16")), adds)


def swapped(x: Any, y: Any, old: Any) -> dict[int, np.ndarray]:
    b = x.reshape(2, 32)[1]
    minus = np.signbit(b) & (b == 0)
    return {
        0: np.concatenate([np.arange(32, dtype="f4"), np.where(minus, np.float32(7), b)]),
        1: np.where(y == 1.5, 2.5, y),
        2: x,
    }


def swap_input(rng: np.random.Generator) -> Any:
    x, y = uniform(rng, 64), uniform(rng, 32, "f64")
    x[32:40], y[::4] = [0.0, -0.0] * 4, 1.5
    return x, y, like(64)


case("cpp_float_swap", (1,), swap_input, swapped)


def view_atomics(x: Any, y: Any, z: Any, w: Any, rows: Any, cols: Any) -> dict[int, np.ndarray]:
    x, y, z, w = (v.copy() for v in (x, y, z, w))
    for i in range(3):
        for j in range(3):
            cut = np.s_[8 * i : 8 * i + 8, 16 * j : 16 * j + 16]
            x[cut] = (x[cut] + (i + 1)) | 256
            low = np.arange(128, dtype="i8").reshape(8, 16)[: w[cut].shape[0], : w[cut].shape[1]] - 64
            w[cut] = np.minimum(w[cut], low) ^ 0x100000001
            step = np.s_[4 * i : 4 * i + 8, 8 * j : 8 * j + 16]
            y[step] = np.maximum(y[step], np.uint32(3 * i + j))
            z[step] -= np.float32(0.5)
    return {0: x, 1: y, 2: z, 3: w}


case(
    "cpp_view_atomics",
    (3, 3),
    lambda rng: (
        integers(rng, (20, 40), "i32", 0, 100),
        integers(rng, (20, 40), "u32", 0, 6),
        np.round(uniform(rng, (20, 40)) * 4),
        integers(rng, (20, 40), "i64", -90, 90),
        i4(20),
        i4(40),
    ),
    view_atomics,
)


def ordered(x: Any, y: Any, z: Any) -> dict[int, np.ndarray]:
    i = np.arange(64)
    b = np.where(i % 2 == 0, x, -1)
    out = y.copy()
    out[:64] = x + b
    out[64:114] = np.where(i < 40, x, 0)[:50]
    return {1: out, 2: np.where(i < 50, b, z.astype("i4")).astype("f2")}


case(
    "cpp_ordered",
    (1,),
    lambda rng: (integers(rng, 64, "i32", -500, 500), like(128, "i32", 7), like(64, "f16", 3)),
    ordered,
)

# Blocks that wait for each other

case(
    "cpp_lock",
    (4,),
    lambda rng: (like(1, "i32"), like(32), np.round(uniform(rng, 256) * 8), i4(2)),
    lambda k, t, x, r: {1: x.reshape(8, 32).sum(0)},
)
case(
    "cpp_ticket",
    (6,),
    lambda rng: (like(1, "u32"), like(1, "u32"), like(6, "i32", -1), like(1, "i32")),
    lambda *_: {
        0: np.array([6], "u4"),
        1: np.array([6], "u4"),
        2: np.arange(6, dtype="i4") * 10,
        3: np.array([6], "i4"),
    },
)


def met(arrived: Any, data: Any, out: Any) -> dict[int, np.ndarray]:
    rows = np.arange(16) * np.arange(5)[:, None] + 1
    return {0: np.array([5], "i4"), 1: rows.ravel(), 2: (rows.sum(0) + np.arange(5)[:, None]).ravel()}


case("cpp_grid_barrier", (5,), lambda rng: (like(1, "i32"), like(80, "i32"), like(80, "i32")), met)
case(
    "cpp_chained_scan",
    (5,),
    lambda rng: (integers(rng, 320, "i32", -99, 99), like(320, "i32"), like(5, "i32"), like(5, "i32")),
    lambda x, y, f, c: {1: np.cumsum(x), 2: np.ones(5), 3: np.cumsum(x)[63::64]},
)

# Views


def gathered(x: Any, at: Any, rows: Any, cols: Any, copy: Any, m: Any, n: Any) -> dict[int, np.ndarray]:
    wide_rows = np.full((100, 40), np.nan, "f4")
    wide_rows[:m, :n] = x
    wide_cols = np.full((40, 100), -0.0, "f4")
    wide_cols[:m, :n] = x
    out = copy.copy()
    padded = np.zeros((100, 40), "f4")
    padded[:m, :n] = x
    for k, r in enumerate(at):
        if r < m:
            out[r, :16] = padded[k + 2, : out[r, :16].size]
    return {2: wide_rows[at, 4:20], 3: wide_cols[3:19, at], 4: out}


case(
    "cpp_gather",
    (1,),
    lambda rng: (
        uniform(rng, (12, 14)),
        np.array([3, 0, 11, 12, 40, 7, 5, 9], "i4"),
        like((8, 16), fill=9),
        like((16, 8), fill=9),
        like((12, 14), fill=9),
        i4(12),
        i4(14),
    ),
    gathered,
)


def laid_out(x: Any, left: Any, padded: Any, strided: Any, repeated: Any, *_: Any) -> dict[int, np.ndarray]:
    a, b = padded.copy(), strided.copy()
    a[:, : x.shape[1]] = x + 1
    b[:, : 2 * x.shape[1] : 2] = x * 2
    return {1: x.T, 2: a, 3: b, 4: x[:1] - x}


case(
    "cpp_layouts",
    (3, 2),
    lambda rng: (
        integers(rng, (20, 30), "i32", -9999, 9999),
        like((30, 20), "i32"),
        like((20, 32), "i32", 5),
        like((20, 70), "i32", 5),
        like((20, 30), "i32"),
        i4(20),
        i4(30),
        i4(70),
        i4(0),
    ),
    laid_out,
)
case(
    "cpp_wide_view",
    (3,),
    lambda rng: (
        strided_in(integers(rng, (40, 4), "u8"), (3, 1)),
        like((40, 4), "u8"),
        np.int64(40),
        np.int64(12),
    ),
    lambda x, y, n, s: {1: x},
    tags=("index64",),
)

# Output, tables, pointers, structures, hints

case(
    "cpp_print",
    (2,),
    lambda rng: (integers(rng, 8, "i32", -99, 99), like(16)),
    lambda x, y: {1: np.tile(x.astype("f4") * np.float32(0.5), 2)},
)


def tables(at: Any, text: Any, cells: Any, value: Any, calls: Any) -> dict[int, np.ndarray]:
    x, acc = at * 0.125, np.zeros(16)
    for p in (0.5, -0.25, 0.125, -0.0625, 1.0):
        acc = fma(acc, x, np.full(16, p))
    letters = np.frombuffer(b"tile by tile ok\0", "u1")
    return {1: letters[at % 16], 2: (at % 12 + 1).astype("i4"), 3: acc, 4: np.array([1], "i4")}


case(
    "cpp_tables",
    (1,),
    lambda rng: (
        integers(rng, 16, "i32", 0, 99),
        like(16, "u8"),
        like(16, "i32"),
        like(16, "f64"),
        like(1, "i32"),
    ),
    tables,
)


def structures(x: Any, mean: Any, power: Any, count: Any, n: Any) -> dict[int, np.ndarray]:
    f = np.float32
    state = [np.zeros(32, "f4"), np.zeros(32, "f4"), 0]

    def add(v: np.ndarray) -> None:
        state[2] += 1
        d = v - state[0]
        state[0] = state[0] + d / f(state[2])
        state[1] = fma(d, v - state[0], state[1])

    for row in range(int(n)):
        if row == 3:
            continue
        v = x.reshape(-1, 32)[row]
        if (v > 100).any():
            break
        for k in range(row % 3):
            add(v + f(k))
        add(v if row % 4 == 0 else -v)
    return {1: state[0], 2: state[1], 3: np.array([state[2]], "i4")}


def structure_input(rng: np.random.Generator) -> Any:
    x = uniform(rng, 320)
    x[32 * 7 + 5] = 1000
    return x, like(32), like(32), like(1, "i32"), i4(10)


case("cpp_structures", (1,), structure_input, structures, rtol=1e-6, atol=1e-6)
case(
    "cpp_hints",
    (3,),
    lambda rng: (strided_in(uniform(rng, (40, 32)), (2, 1)), like((40, 32)), i4(40), i4(64)),
    lambda x, y, n, s: {1: x * np.float32(3)},
)
