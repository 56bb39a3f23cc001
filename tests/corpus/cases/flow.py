"""Control flow as users write it: returns and breaks out of nests, loops that do not run, carried tuples, effects in
branches, memory that two parameters share.
"""

from __future__ import annotations

import numpy as np

from tests.corpus.case import DTYPES, Family, Scalar, integers, keep, like, place, uniform
from tests.corpus.case import Array as A

F, I = "f32", "i32"

control_case = Family("control", "python/flow.py")


def return_from_nested_values(x, y, key):
    out = []
    for r in x:
        w = np.flatnonzero(r == key)
        out.append(-1 if not len(w) else (w[0] // 4) * 10 + w[0] % 4)
    return {1: np.array(out, "i4")}


control_case(
    "return_from_nested",
    "return_from_nested",
    [A(I, 2), A(I, 1), Scalar(I), 4],
    (6,),
    lambda rng: (integers(rng, (6, 16), I, 0, 20), like(6, I, 5), np.int32(3)),
    return_from_nested_values,
)


def countdown_values(x, y, n):
    acc = np.zeros_like(x)
    k = int(n)
    while k > 0:
        acc = acc * 3 + x * k
        k -= 2
    for j in range(5, int(n)):
        acc = acc + j
    return {1: acc}


for n in (-3, 0, 1, 7):
    control_case(
        f"countdown_{n}".replace("-", "m"),
        "countdown",
        [A(I, 1), A(I, 1), Scalar(I), 64],
        (2,),
        lambda rng, n=n: (integers(rng, 100, I, -50, 50), like(100, I, 5), np.int32(n)),
        countdown_values,
    )


def while_break_continue_values(x, y):
    out = np.zeros_like(y)
    T = 16
    for b in range(4):
        acc = np.zeros(T, "f4")
        k = hits = 0
        while k < 20:
            k += 1
            if k % 4 == b:
                continue
            inner = 0
            while True:
                inner += 1
                if inner * k > 15:
                    break
                if inner > 5:
                    break
                v = np.zeros(T, "f4")
                part = x[inner * T : (inner + 1) * T]
                v[: len(part)] = part
                acc = acc + v
            hits += inner
            if hits > 60:
                break
        out[b * T : (b + 1) * T] = acc + np.float32(hits)
    return {1: out}


control_case(
    "while_break_continue",
    "while_break_continue",
    [A(F, 1), A(F, 1), 16],
    (4,),
    lambda rng: (uniform(rng, 70), like(64)),
    while_break_continue_values,
)


def return_in_while_values(x, y, limit):
    out = np.zeros((len(x), 2), "i4")
    for b, r in enumerate(x):
        t = 0
        for i, v in enumerate(r):
            t += int(v)
            if t > limit:
                out[b] = (t + 1, i)
                break
        else:
            out[b] = (t, -1)
    return {1: out}


control_case(
    "return_in_while",
    "return_in_while",
    [A(I, 2), A(I, 2), Scalar(I)],
    (7,),
    lambda rng: (integers(rng, (7, 30), I, -3, 8), like((7, 2), I), np.int32(60)),
    return_in_while_values,
)


def helper_calls_values(x, y, lo, hi):
    def h(v, lo, hi):
        return v if lo > hi else np.minimum(np.maximum(v, lo), hi)

    w = h(x, lo, hi)
    u = h(w * np.float32(2), -hi, -lo)
    return {1: w + u}


for n, (lo, hi) in {"a": (-0.5, 0.7), "b": (1, -1)}.items():
    control_case(
        f"helper_calls_{n}",
        "helper_calls",
        [A(F, 1), A(F, 1), Scalar(F), Scalar(F), 128],
        (2,),
        lambda rng, lo=lo, hi=hi: (uniform(rng, 200), like(200), np.float32(lo), np.float32(hi)),
        helper_calls_values,
    )


def tuple_carry_values(x, y, n):
    out = np.zeros(x.shape, "f8")
    for b in range(2):
        v = x[b * 32 : b * 32 + 32].astype("f8")
        k = 0
        s = 0.0
        for i in range(int(n)):
            if i % 2 == 0:
                s += v.sum()
                v = v + 1
                k += i
            else:
                v = v * 0.5
        out[b * 32 : b * 32 + 32] = v + k + s
    return {1: out.astype("f4")}


control_case(
    "tuple_carry",
    "tuple_carry",
    [A(F, 1), A(F, 1), Scalar(I), 32],
    (2,),
    lambda rng: (uniform(rng, 64), like(64), np.int32(5)),
    tuple_carry_values,
    rtol=1e-5,
    atol=1e-4,
)


def int64_loop_values(x, y, lo, hi, step):
    out = []
    for b in range(3):
        acc = 0
        for k in range(int(lo), int(hi), int(step)):
            acc ^= ((k * (b + 3) + 2**63) % 2**64) - 2**63
        out.append(acc)
    return {1: np.array(out, "i8")}


control_case(
    "int64_loop",
    "int64_loop",
    [A(I, 1), A("i64", 1), Scalar("i64"), Scalar("i64"), Scalar("i64")],
    (3,),
    lambda rng: (
        like(1, I),
        like(3, "i64"),
        np.int64(2**40),
        np.int64(2**40 + 2**35),
        np.int64(2**31 + 12345),
    ),
    int64_loop_values,
)


def branch_memory_values(x, y, z):
    y = y.copy()
    z = z.copy()
    for b in range(8):
        v = x[b * 16 : b * 16 + 16].copy()
        if v.max() > 50:
            if v.min() < -50:
                z[0] += 1
                v = v * 2
            elif b > 2:
                z[1] = max(z[1], v.sum())
        else:
            if b % 2 == 0:
                v = y[b * 16 : b * 16 + 16] + v
            z[2] = min(z[2], b)
        y[b * 16 : b * 16 + 16] = v
    return {1: y, 2: z}


control_case(
    "branch_memory",
    "branch_memory",
    [A(I, 1), A(I, 1), A(I, 1), 16],
    (8,),
    lambda rng: (
        integers(rng, 128, I, -60, 56) // np.repeat([1, 1, 2, 3, 1, 2, 1, 1], 16).astype("i4"),
        integers(rng, 128, I, 0, 9),
        np.array([0, -1000, 99], "i4"),
    ),
    branch_memory_values,
)


def mutual_carry_values(y, n):
    out = []
    for b in range(2):
        p = np.arange(64, dtype="i4") + b
        q = p.astype("f4") * np.float32(0.5)
        m = p % 2 == 0
        for i in range(int(n)):
            p = np.where(m, p + i, p - i).astype("i4")
            m = (np.mod(p, 3) == 0) ^ m
            q = np.where(m, q + 1, -q).astype("f4")
        out.append(p + q + m)
    return {0: np.concatenate(out).astype("f4")}


for n in (0, 1, 6):
    control_case(
        f"mutual_carry_{n}",
        "mutual_carry",
        [A(F, 1), Scalar(I), 64],
        (2,),
        lambda rng, n=n: (like(128), np.int32(n)),
        mutual_carry_values,
    )


def invariant_hoist_values(x, y, z, n):
    z = z.copy()
    y = y.copy()
    for i in range(int(n)):
        z[i] = y - x
        y = y + x * i
    return {1: y, 2: z}


control_case(
    "invariant_hoist",
    "invariant_hoist",
    [A(I, 1), A(I, 1), A(I, 2), Scalar(I), 32],
    (3,),
    lambda rng: (integers(rng, 80, I, -99, 99), integers(rng, 80, I, -99, 99), like((4, 80), I), np.int32(4)),
    invariant_hoist_values,
)


def alias_rounds_f13(x, y, n):
    v = x
    for _ in range(int(n)):
        v = (v + 1) * 2
    return {0: v, 1: v}


def same_twice(rng):
    a = place(integers(rng, 64, I, -9, 9))
    return (keep(a), keep(a), np.int32(3))


control_case(
    "alias_rounds",
    "alias_rounds",
    [A(I, 1, alias=("g",)), A(I, 1, alias=("g",)), Scalar(I), 32],
    (2,),
    same_twice,
    alias_rounds_f13,
)


def deep_nest_values(x, y):
    acc = x.copy()
    for i in range(3):
        for j in range(i, 4):
            if (i + j) % 2 == 0:
                for k in range(j):
                    if k == 2:
                        if i == 1:
                            break
                        continue
                    acc = acc + (i * 100 + j * 10 + k)
            else:
                acc = acc - 7
                if j == 3:
                    continue
            acc = acc ^ j
    return {1: acc}


control_case(
    "deep_nest",
    "deep_nest",
    [A(I, 1), A(I, 1), 64],
    (2,),
    lambda rng: (integers(rng, 100, I, -999, 999), like(100, I)),
    deep_nest_values,
)


def conditional_expr_values(flag):
    def f(x, y):
        out = np.zeros_like(x)
        for b in range(4):
            s = slice(b * 32, b * 32 + 32)
            v = x[s]
            w = v * 2 if flag else v - 1
            u = w + 1 if b > 0 else w
            t = (b > 0 and v.sum() > 0) or b == 0
            out[s] = u if t else u * 10
        return {1: out}

    return f


for fl in (True, False):
    control_case(
        f"conditional_expr_{fl}".lower(),
        "conditional_expr",
        [A(I, 1), A(I, 1), fl, 32],
        (4,),
        lambda rng: (integers(rng, 128, I, -99, 99), like(128, I)),
        conditional_expr_values(fl),
    )


def grid_3d_values(y, z):
    i, j, k = np.indices((3, 2, 4))
    n = 3 + 20 + 400
    return {
        0: (i + 10 * j + 100 * k + 1000 * n).astype("i4"),
        1: np.array([(((i == 1) & (j == 0)) | (k == 1)).sum()], "i4"),
    }


control_case(
    "grid_3d",
    "grid_3d",
    [A(I, 3), A(I, 1)],
    (3, 2, 4),
    lambda rng: (like((3, 2, 4), I), like(1, I)),
    grid_3d_values,
)

control_case(
    "empty_extent",
    "empty_extent",
    [A(F, 2), A(F, 2), Scalar(I), 16],
    (3,),
    lambda rng: (np.zeros((3, 0), "f4"), like((3, 10)), np.int32(0)),
    lambda x, y, n: {1: np.full((3, 10), 7, "f4")},
)

control_case(
    "many_args",
    "many_args",
    [
        Scalar("i8"),
        Scalar("i8"),
        Scalar("u16"),
        Scalar("u16"),
        Scalar("f16"),
        Scalar("f64"),
        Scalar("bf16"),
        Scalar("f32"),
        Scalar("i64"),
        Scalar("u8"),
        Scalar("i1"),
        Scalar("u64"),
        A("f64", 1),
    ],
    (1,),
    lambda rng: (
        np.int8(-5),
        np.int8(7),
        np.uint16(60000),
        np.uint16(1),
        np.float16(1.5),
        np.float64(1e100),
        DTYPES["bf16"](2.5),
        np.float32(-3),
        np.int64(-(2**50)),
        np.uint8(255),
        np.bool_(True),
        np.uint64(2**63),
        like(8, "f64"),
    ),
    lambda *v: {12: np.array([9, 59999, 1e100 + 1.5, -7.5, -(2.0**50), 255, 1, 2.0**63])},
)
