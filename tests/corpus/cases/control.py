"""Control flow: integers are exact; float loops repeat the kernel's roundings in f32."""

from __future__ import annotations

import numpy as np

from tests.corpus.case import Array as A
from tests.corpus.case import Family, Scalar, fma, integers, like, uniform

case = Family("control", "python/control.py")
first = ("first",)
F, I32 = "f32", "i32"


def horner(x, y, n):
    acc = np.ones_like(x)
    for _ in range(n):
        acc = fma(acc, x, np.float32(1))
    return {1: acc}


case(
    "power_sum",
    "power_sum",
    [A(F, 1), A(F, 1), Scalar(I32), 128],
    (2,),
    lambda rng: (uniform(rng, 200, F, -1, 1), like(200), np.int32(7)),
    horner,
    tags=first,
)


def swapped(x, y, a, b, n):
    for _ in range(n):
        x, y = y, x + y
    return {2: x, 3: y}


for n in (0, 1, 7):
    case(
        f"swap_loop_{n}",
        "swap_loop",
        [A(I32, 1)] * 4 + [Scalar(I32), 64],
        (1,),
        lambda rng, n=n: (
            integers(rng, 64, I32, 0, 99),
            integers(rng, 64, I32, 0, 99),
            like(64, I32),
            like(64, I32),
            np.int32(n),
        ),
        swapped,
        tags=first,
    )


def nested(x, y, n, m):
    acc = np.zeros_like(x)
    for i in range(n):
        for j in range(1, m, 2):
            acc = acc + x * (j + i)
        acc = acc - i
    return {1: acc}


case(
    "nested_loops",
    "nested_loops",
    [A(I32, 1), A(I32, 1), Scalar(I32), Scalar(I32), 64],
    (2,),
    lambda rng: (integers(rng, 100, I32, -99, 99), like(100, I32), np.int32(5), np.int32(8)),
    nested,
    tags=first,
)


def collatz(x, y):
    def steps(v):
        n = 0
        while v > 1:
            v, n = (v // 2 if v % 2 == 0 else 3 * v + 1), n + 1
        return n

    return {1: np.array([steps(int(v)) for v in x], "i4")}


case(
    "while_collatz",
    "collatz",
    [A(I32, 1), A(I32, 1)],
    (8,),
    lambda rng: (np.array([1, 2, 3, 7, 27, 97, 0, -5], "i4"), like(8, I32)),
    collatz,
)


def converged(x, y, rounds):
    # The pause of `tally` makes k - tally one more than the passes that did not leave: always 1.
    return {1: np.sqrt(x.astype("f8")).astype("f4"), 2: np.ones_like(rounds)}


case(
    "while_newton",
    "newton_sqrt",
    [A(F, 1), A(F, 1), A(I32, 1), 64],
    (3,),
    lambda rng: (uniform(rng, 192, F, 0.5, 2), like(192), like(3, I32)),
    converged,
    rtol=3e-7,
)


def first_hit(x, y, key):
    out = np.empty_like(y)
    for r, row in enumerate(x):
        hits = np.flatnonzero(row == key)
        out[r] = (hits[0], hits[0] // 16 + 1) if len(hits) else (-1, -(-len(row) // 16))
    return {1: out}


case(
    "find_first",
    "find_first",
    [A(I32, 2), A(I32, 2), Scalar(I32), 16],
    (6,),
    lambda rng: (integers(rng, (6, 90), I32, 1, 60), like((6, 2), I32), np.int32(17)),
    first_hit,
    tags=first,
)


def broken(x, y):
    acc = np.zeros_like(x)
    for i in range(6):
        for j in range(6):
            if i > 1 and j * i > 7:
                break
            if (i + j) % 3 == 0:
                continue
            acc = acc + x * (i + 1) + j
    return {1: acc}


case(
    "break_nested",
    "break_nested",
    [A(I32, 1), A(I32, 1), 32],
    (2,),
    lambda rng: (integers(rng, 64, I32, -99, 99), like(64, I32)),
    broken,
)


def branches(x, y):
    v = x.astype("f8").reshape(6, 32)
    out = np.stack(
        [np.exp(r) if b % 3 == 0 else 2 * r * r if b % 3 == 1 else -r * r.sum() for b, r in enumerate(v)]
    )
    return {1: out.ravel().astype("f4")}


case(
    "branch_tiles",
    "branch_tiles",
    [A(F, 1), A(F, 1), 32],
    (6,),
    lambda rng: (uniform(rng, 192), like(192)),
    branches,
    rtol=2e-6,
    atol=2e-5,
    tags=first,
)
case(
    "early_return",
    "early_return",
    [A(F, 1), A(F, 1), A(I32, 1), 32],
    (4,),
    lambda rng: (uniform(rng, 128), like(128, F, 9), np.array([1, 0, 0, 1], "i4")),
    lambda x, y, f: {1: np.where(np.repeat(f, 32) != 0, x + np.float32(1), y)},
)


def stored(x, y, limit):
    out = np.concatenate([(r * 2 if r.sum() > limit else r - 1) + 1 for r in x.reshape(4, 32)])
    return {1: out.astype("i4")}


case(
    "store_in_branch",
    "store_in_branch",
    [A(I32, 1), A(I32, 1), Scalar(I32), 32],
    (4,),
    lambda rng: (integers(rng, 128, I32, -50, 51), like(128, I32), np.int32(0)),
    stored,
)


def rounds(x, n):
    for k in range(n):
        x = x * 2 + np.int32(k)
    return {0: x}


case(
    "in_place_rounds",
    "in_place_rounds",
    [A(I32, 1), Scalar(I32), 64],
    (2,),
    lambda rng: (integers(rng, 128, I32, -99, 99), np.int32(6)),
    rounds,
)
for n in (3, 2):
    case(
        f"zero_trips_{n}",
        "zero_trips",
        [A(I32, 1), A(I32, 1), Scalar(I32), 32],
        (1,),
        lambda rng, n=n: (integers(rng, 32, I32, -99, 99), like(32, I32), np.int32(n)),
        lambda x, y, n: {1: x - 5 if n >= 3 else x * 0 + 2},
    )
case(
    "bisection",
    "bisection",
    [A(I32, 1), A(I32, 1), A(I32, 1), Scalar(I32), 64],
    (2,),
    lambda rng: (
        np.sort(integers(rng, 300, I32, -999, 999)),
        integers(rng, 128, I32, -1000, 1000),
        like(128, I32),
        np.int32(300),
    ),
    lambda t, x, y, n: {2: np.searchsorted(t, x).astype("i4")},
)


def fibonacci(y):
    out = [0, 1]
    while len(out) < 64:
        out.append((out[-1] + out[-2]) % 1000007)
    return {0: np.array(out[:41] + [out[40]] * 23, "i8")}


case("fibonacci_mod", "fibonacci_mod", [A("i64", 1), 32], (2,), lambda rng: (like(64, "i64"),), fibonacci)


def stencil(a, b, n):
    for _ in range(n):
        p = np.pad(a, 1)
        b = p[:-2] + 2 * p[1:-1] + p[2:]
        a = b % np.int32(1009)
    return {0: a, 1: b}


case(
    "stencil_rounds",
    "stencil_rounds",
    [A(I32, 1), A(I32, 1), Scalar(I32), 128],
    (1,),
    lambda rng: (integers(rng, 100, I32, 0, 1009), like(100, I32), np.int32(4)),
    stencil,
)
