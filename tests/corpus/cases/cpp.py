"""Tile C++ kernels: the same families as seen by the other frontend. A case's arguments are the C
parameters.
"""

from __future__ import annotations

import numpy as np

from tests.corpus.case import DTYPES, Family, fma, integers, like, strided_in, uniform, wide

element = Family("cpp_elementwise", "cpp/elementwise.cu")
block = Family("cpp_blocks", "cpp/blocks.cu")
control = Family("cpp_control", "cpp/control.cu")
i4 = np.int32
SUM = {"rtol": 1e-5, "atol": 1e-5}
PRODUCT = {"rtol": 2e-6, "atol": 1e-4}


def numbers(rng, n, d):
    return integers(rng, n, d) if d[0] in "iu" else uniform(rng, n, d, -100, 100)


def quiet(f):
    def g(*args):
        with np.errstate(all="ignore"):
            return f(*args)

    return g


for d in ("f32", "f16", "bf16", "i32", "f64"):
    element(
        f"cpp_vadd_{d}",
        f"cpp_vadd_{d}",
        [],
        (3,),
        lambda rng, d=d: (numbers(rng, 300, d), numbers(rng, 300, d), like(300, d), i4(300)),
        quiet(lambda x, y, z, n: {2: x + y}),
        tags=("first",),
    )
element(
    "cpp_axpy_aligned",
    "cpp_axpy_aligned",
    [],
    (2,),
    lambda rng: (np.float32(1.7), uniform(rng, 512), uniform(rng, 512)),
    lambda a, x, y: {2: fma(a, x, y)},
    tags=("first",),
)


def chained(x, k, z, n):
    v, w = wide(x, k)
    r = (
        np.where(v > w, np.sqrt(abs(v - w)), np.exp(np.minimum(v - w, 0)))
        + np.log(abs(v) + 1)
        + np.tanh(w) * np.cos(v)
    )
    return {2: r.astype("f4")}


element(
    "cpp_chain",
    "cpp_chain",
    [],
    (2,),
    lambda rng: (uniform(rng, 200, "f16", -6, 6), integers(rng, 200, "i32", -9, 9), like(200), i4(200)),
    chained,
    rtol=2e-6,
    atol=1e-6,
    tags=("first",),
)


def directed(x, y, up, down, cut, n):
    """The product of two f32 is exact in f64."""
    exact = x.astype("f8") * y.astype("f8")
    near = exact.astype("f4")
    ceil = np.where(near.astype("f8") < exact, np.nextafter(near, np.float32(np.inf)), near)
    floor = np.where(near.astype("f8") > exact, np.nextafter(near, np.float32(-np.inf)), near)
    return {2: ceil, 3: floor, 4: np.where(exact > 0, floor, ceil)}


element(
    "cpp_rounding",
    "cpp_rounding",
    [],
    (2,),
    lambda rng: (uniform(rng, 100), uniform(rng, 100), like(100), like(100), like(100), i4(100)),
    directed,
)


element(
    "cpp_fused",
    "cpp_fused",
    [],
    (2,),
    lambda rng: (uniform(rng, 100), uniform(rng, 100), uniform(rng, 100), like(100), i4(100)),
    lambda x, y, z, out, n: {3: fma(x, y, z)},
)


def dividends(rng):
    x, y = integers(rng, 100), integers(rng, 100, "i32", -40, 41)
    y[y == 0] = 3
    x[x == -(2**31)] = 5
    x[:6], y[:6] = [7, -7, 7, -7, 2**31 - 1, -(2**31) + 1], [2, 2, -2, -2, -1, 1]
    return (x, y, *(like(100, "i32") for _ in range(5)), i4(100))


def divided(x, y, *_):
    a, b = x.astype("i8"), y.astype("i8")
    floor = a // b
    trunc = np.where((a % b != 0) & ((a < 0) != (b < 0)), floor + 1, floor)
    return {
        2: trunc.astype("i4"),
        3: (a - trunc * b).astype("i4"),
        4: (-(-a // b)).astype("i4"),
        5: floor.astype("i4"),
        6: high_half(x, y),
    }


def high_half(x, y):
    """`mulhii` is unsigned; the frontend writes it for signed operands too, and the assembler keeps that."""
    return ((x.view("u4").astype("u8") * y.view("u4").astype("u8")) >> np.uint64(32)).astype("u4").view("i4")


element("cpp_integers", "cpp_integers", [], (2,), dividends, divided)


def high(x, y, h64, h32, n):
    full = [int(a) * int(b) for a, b in zip(x, y)]
    low = [(int(a) & 0xFFFFFFFF) * (int(b) & 0xFFFFFFFF) for a, b in zip(x, y)]
    return {2: np.array([p >> 64 for p in full], "u8"), 3: np.array([p >> 32 for p in low], "u4")}


element(
    "cpp_mulhi_u64",
    "cpp_mulhi_u64",
    [],
    (2,),
    lambda rng: (
        integers(rng, 100, "u64"),
        integers(rng, 100, "u64"),
        like(100, "u64"),
        like(100, "u32"),
        i4(100),
    ),
    high,
)


def rotated(x, s, out, flag, n):
    return {2: ((x << s) | (x >> (np.uint32(32) - s))) ^ ~x, 3: (x > 1000) & (s != 3)}


element(
    "cpp_shift_logic",
    "cpp_shift_logic",
    [],
    (2,),
    lambda rng: (
        integers(rng, 100, "u32"),
        integers(rng, 100, "u32", 1, 32),
        like(100, "u32"),
        like(100, "i1"),
        i4(100),
    ),
    rotated,
)
element(
    "cpp_bits",
    "cpp_bits",
    [],
    (2,),
    lambda rng: (uniform(rng, 100), like(100, "u32"), like(100), i4(100)),
    lambda x, y, back, n: {1: x.view("u4"), 2: np.abs(x)},
)
element(
    "cpp_remainder",
    "cpp_remainder",
    [],
    (2,),
    lambda rng: (
        uniform(rng, 100, "f64", -90, 90),
        uniform(rng, 100, "f64", -7, 7),
        like(100, "f64"),
        i4(100),
    ),
    lambda x, y, z, n: {2: np.fmod(x, y)},
)


def special_inputs(rng):
    x = uniform(rng, 100)
    x[:4] = [np.nan, np.inf, -np.inf, 0]
    return x, like(100), like(100), like(100, "i1"), like(100, "i1"), i4(100)


def special(x, a, b, nan, inf, n):
    v = wide(x)[0]
    return {
        1: np.arctan2(v, v * v + 0.5).astype("f4"),
        2: np.power(abs(v), 1 / (v * v + 1)).astype("f4"),
        3: np.isnan(x),
        4: np.isinf(x),
    }


element("cpp_special", "cpp_special", [], (2,), special_inputs, quiet(special), rtol=2e-6, atol=1e-7)
element(
    "cpp_add_2d",
    "cpp_add_2d",
    [],
    (3, 2),
    lambda rng: (
        strided_in(uniform(rng, (40, 50)), (1, 1)),
        uniform(rng, (40, 50)),
        like((40, 50)),
        i4(40),
        i4(50),
        np.int64(50),
    ),
    lambda x, y, z, *_: {2: x + y},
)


def soft(x, y, *_):
    e = np.exp(wide(x)[0] - x.max(1, keepdims=True))
    return {1: (e / e.sum(1, keepdims=True)).astype("f4")}


block(
    "cpp_softmax",
    "cpp_softmax",
    [],
    (4,),
    lambda rng: (uniform(rng, (4, 200), "f32", -5, 5), like((4, 200)), i4(4), i4(200)),
    soft,
    rtol=1e-5,
    tags=("first",),
)


def layer(x, w, b, y, rows, cols, eps):
    v, g, c = wide(x, w, b)
    out = (v - v.mean(1, keepdims=True)) / np.sqrt(v.var(1, keepdims=True) + float(eps)) * g + c
    return {3: out.astype("f4").astype("f2")}


block(
    "cpp_layer_norm",
    "cpp_layer_norm",
    [],
    (3,),
    lambda rng: (
        uniform(rng, (3, 100), "f16"),
        uniform(rng, 100),
        uniform(rng, 100),
        like((3, 100), "f16"),
        i4(3),
        i4(100),
        np.float32(1e-5),
    ),
    layer,
    rtol=1e-3,
    atol=1e-3,
    tags=("first",),
)
block(
    "cpp_reductions",
    "cpp_reductions",
    [],
    (1,),
    lambda rng: (integers(rng, (16, 32), "i32", -500, 500), *(like(16, "i32") for _ in range(5))),
    lambda x, *_: {
        1: x.sum(1).astype("i4"),
        2: x.min(1),
        3: x.max(1),
        4: x.argmax(1).astype("i4"),
        5: np.bitwise_xor.reduce(x, 1),
    },
    tags=("first",),
)
block(
    "cpp_column_sums",
    "cpp_column_sums",
    [],
    (2,),
    lambda rng: (uniform(rng, (50, 40), "f64"), like((1, 40), "f64"), i4(50), i4(40)),
    lambda x, y, *_: {1: x.sum(0, keepdims=True)},
    rtol=1e-13,
    atol=1e-13,
)
block(
    "cpp_any_all",
    "cpp_any_all",
    [],
    (1,),
    lambda rng: (uniform(rng, (8, 64)), like(8, "i1"), like(8, "i1")),
    lambda x, a, b: {1: (x > np.float32(1.9)).any(1), 2: (x > np.float32(-1.9)).all(1)},
)
block(
    "cpp_scans",
    "cpp_scans",
    [],
    (1,),
    lambda rng: (
        integers(rng, (4, 64), "i32", -3, 4),
        like((4, 64), "i32"),
        like((4, 64), "i32"),
        like((4, 64), "i64"),
    ),
    lambda x, s, b, p: {
        1: np.cumsum(x, 1).astype("i4"),
        2: np.cumsum(x[::-1], 0)[::-1].astype("i4"),
        3: np.cumprod(x.astype("i8"), 1),
    },
)
block(
    "cpp_transpose",
    "cpp_transpose",
    [],
    (2, 2),
    lambda rng: (uniform(rng, (50, 100), "f16"), like((100, 50), "f16"), i4(50), i4(100)),
    lambda x, y, *_: {1: x.T},
    tags=("first",),
)
block(
    "cpp_permute",
    "cpp_permute",
    [],
    (1,),
    lambda rng: (integers(rng, (4, 8, 16)), like((16, 4, 8), "i32")),
    lambda x, y: {1: x.transpose(2, 0, 1)},
)
block(
    "cpp_cat_extract",
    "cpp_cat_extract",
    [],
    (1,),
    lambda rng: (uniform(rng, (16, 16)), like((16, 16))),
    lambda x, y: {1: np.concatenate([x[8:], x[:8] * 2])},
)


def multiplied(a, b, c, *_):
    return {2: (wide(a)[0] @ wide(b)[0]).astype("f4" if c.dtype != "f8" else "f8").astype(c.dtype)}


for name, d, out, (m, n, k), tile, tol in (
    ("f16", "f16", "f32", (64, 50, 70), (32, 32), PRODUCT),
    ("bf16", "bf16", "bf16", (64, 64, 32), (64, 32), {"rtol": 8e-3, "atol": 1e-2}),
    ("f32", "f32", "f32", (20, 30, 40), (16, 16), PRODUCT),
):
    block(
        f"cpp_matmul_{name}",
        f"cpp_matmul_{name}",
        [],
        (-(-m // tile[0]), -(-n // tile[1])),
        lambda rng, d=d, out=out, m=m, n=n, k=k: (
            uniform(rng, (m, k), d, -1, 1),
            uniform(rng, (k, n), d, -1, 1),
            like((m, n), out),
            i4(m),
            i4(n),
            i4(k),
        ),
        multiplied,
        tags=("first",) if name == "f16" else (),
        **tol,
    )
block(
    "cpp_matmul_i8",
    "cpp_matmul_i8",
    [],
    (2, 1),
    lambda rng: (
        integers(rng, (40, 64), "i8"),
        integers(rng, (64, 32), "i8"),
        like((40, 32), "i32"),
        i4(40),
        i4(32),
        i4(64),
    ),
    lambda a, b, c, *_: {2: a.astype("i4") @ b.astype("i4")},
)
block(
    "cpp_matmul_u8_s8",
    "cpp_matmul_u8_s8",
    [],
    (1,),
    lambda rng: (integers(rng, (16, 32), "u8"), integers(rng, (32, 16), "i8"), like((16, 16), "i32")),
    lambda a, b, c: {2: a.astype("i4") @ b.astype("i4") + 7},
)
block(
    "cpp_matmul_f64",
    "cpp_matmul_f64",
    [],
    (1,),
    lambda rng: (uniform(rng, (16, 32), "f64"), uniform(rng, (32, 16), "f64"), like((16, 16), "f64")),
    multiplied,
    rtol=1e-13,
    atol=1e-13,
)
block(
    "cpp_matmul_tt",
    "cpp_matmul_tt",
    [],
    (2, 2),
    lambda rng: (
        uniform(rng, (64, 64), "f16", -1, 1),
        uniform(rng, (50, 64), "f16", -1, 1),
        like((64, 50)),
        i4(64),
        i4(50),
        i4(64),
    ),
    lambda a, b, c, *_: {2: (wide(a)[0].T @ wide(b)[0].T).astype("f4")},
    **PRODUCT,
)
block(
    "cpp_padding",
    "cpp_padding",
    [],
    (1,),
    lambda rng: (uniform(rng, 20), like(64), i4(20)),
    lambda x, y, n: {1: np.concatenate([x, np.full(12, np.nan, "f4"), x, np.full(12, np.inf, "f4")])},
)
block(
    "cpp_windows",
    "cpp_windows",
    [],
    (12,),
    lambda rng: (np.round(uniform(rng, 48) * 8), like(12), i4(48)),
    lambda x, y, n: {1: np.array([np.pad(x, (0, 16))[4 * b : 4 * b + 16].sum() for b in range(12)], "f4")},
)
block(
    "cpp_gather_view",
    "cpp_gather_view",
    [],
    (1,),
    lambda rng: (
        uniform(rng, (20, 32)),
        np.array([3, 3, 0, 19, 20, 7, 25, 1], "i4"),
        like((8, 32), "f32", 9),
        i4(20),
    ),
    lambda x, rows, y, n: {2: np.where((rows < 20)[:, None], x[np.minimum(rows, 19)], np.float32(0))},
)
block(
    "cpp_fp8",
    "cpp_fp8",
    [],
    (2,),
    lambda rng: (uniform(rng, 100, "f32", -400, 400), like(100, "e4m3"), like(100), i4(100)),
    lambda x, a, back, n: {
        1: x.astype(DTYPES["e4m3"]),
        2: x.astype(DTYPES["e4m3"]).astype("f4") + np.float32(1),
    },
    min_arch=90,
    tags=("fp8",),
)


def collatz(x, y):
    def steps(v):
        n = 0
        while v > 1:
            v, n = (v // 2 if v % 2 == 0 else 3 * v + 1), n + 1
        return n

    return {1: np.array([steps(int(v)) for v in x], "i4")}


control(
    "cpp_collatz",
    "cpp_collatz",
    [],
    (6,),
    lambda rng: (np.array([1, 2, 27, 6, -3, 97], "i4"), like(6, "i32")),
    collatz,
    tags=("first",),
)


def early(x, y, n, limit):
    rows = x.reshape(-1, 32)
    acc, seen = np.zeros(32, "i4"), 0
    for i in range(n):
        if i % 3 == 1:
            continue
        stop = False
        for j in range(4):
            if rows[i * 4 + j].max() > limit:
                stop = True
                break
            acc, seen = acc + rows[i * 4 + j], seen + 1
        if stop:
            break
    return {1: acc + i4(seen)}


for limit in (99, 40, 1000):
    control(
        f"cpp_early_exit_{limit}",
        "cpp_early_exit",
        [],
        (1,),
        lambda rng, limit=limit: (
            np.where(np.arange(768) == 500, 100, integers(rng, 768, "i32", 0, 40)).astype("i4"),
            like(32, "i32"),
            i4(6),
            i4(limit),
        ),
        early,
        tags=("first",),
    )
control(
    "cpp_return_early",
    "cpp_return_early",
    [],
    (4,),
    lambda rng: (uniform(rng, 100), like(100), i4(100)),
    lambda x, y, n: {1: x * 2},
)


def switched(x, y, mode):
    out = []
    for b in range(4):
        k = mode + b
        out.append(
            x + np.float32(1)
            if k == 0
            else -(x * x)
            if k == 1
            else -x
            if k == 2
            else np.exp(wide(x)[0]).astype("f4")
        )
    return {1: np.concatenate(out)}


control(
    "cpp_switch",
    "cpp_switch",
    [],
    (4,),
    lambda rng: (uniform(rng, 64), like(256), i4(0)),
    switched,
    rtol=3e-7,
)
control(
    "cpp_histogram",
    "cpp_histogram",
    [],
    (3,),
    lambda rng: (integers(rng, 300, "u8"), like(256, "i32"), i4(300)),
    lambda x, b, n: {1: np.bincount(x, minlength=256).astype("i4")},
)


def atomics(x, old, total):
    v = np.arange(32, dtype="u4") * np.uint32(7) + np.uint32(1)
    a, b, _c, d = x.reshape(4, 32)
    new = np.concatenate([np.maximum(a, v), b ^ v, v, np.where(d == v, v + 1, d)])
    return {0: new, 1: x, 2: total - np.float32(4)}


def atomic_inputs(rng):
    x = integers(rng, 128, "u32", 0, 200)
    x[96:128:2] = np.arange(0, 32, 2) * 7 + 1
    return x, like(128, "u32"), np.ones(4, "f4")


control("cpp_atomics", "cpp_atomics", [], (1,), atomic_inputs, atomics)
control(
    "cpp_spin_lock",
    "cpp_spin_lock",
    [],
    (5,),
    lambda rng: (like(1, "i32"), like(32, "i32"), integers(rng, 160, "i32", 0, 99)),
    lambda k, t, x: {1: x.reshape(5, 32).sum(0).astype("i4")},
)


def flagged(flag, data, out):
    i = np.arange(32, dtype="i4")
    f, d, o = flag.copy(), data.copy(), out.copy()
    for b in (0, 2, 4):
        f[b], d[b * 32 : b * 32 + 32], o[b * 32 + 32 : b * 32 + 64] = 1, i * (b + 1), i * (b + 1) + 5
    return {0: f, 1: d, 2: o}


control(
    "cpp_flags",
    "cpp_flags",
    [],
    (6,),
    lambda rng: (like(6, "i32"), like(192, "i32"), like(192, "i32")),
    flagged,
)
control(
    "cpp_wide",
    "cpp_wide",
    [],
    (2,),
    lambda rng: (integers(rng, 300, "i16"), like(100, "i16"), np.int64(100), np.int64(3)),
    lambda x, y, n, s: {1: x[::3]},
    tags=("index64",),
)


def moved(x, y, chunks):
    acc = np.zeros(32, "f4")
    for row in x.reshape(-1, 32)[::-1]:
        acc = acc * np.float32(0.5) + row
    return {1: acc}


control(
    "cpp_moving_pointer",
    "cpp_moving_pointer",
    [],
    (1,),
    lambda rng: (uniform(rng, 160), like(32), i4(5)),
    moved,
)
control(
    "cpp_scalar_arguments",
    "cpp_scalar_arguments",
    [],
    (1,),
    lambda rng: (uniform(rng, 64), like(64), np.int8(-5), np.float64(0.75), np.int16(300), np.bool_(True)),
    lambda x, y, a, b, c, d: {1: fma(x, np.float32(b), np.float32(a)) + np.float32(c)},
)
control(
    "cpp_global_table",
    "cpp_global_table",
    [],
    (1,),
    lambda rng: (uniform(rng, 64), like(64)),
    lambda x, y: {1: x * np.tile(np.array([0.1, 0.2, 0.3, 0.4], "f4"), 16)},
)


def rings(x, y):
    out = []
    for v in x:
        ring = [1, 2, 3, 4]
        for k in range(16):
            ring[(k + int(v)) % 4] += ring[k % 4] + k
        out.append(sum(10**j * r for j, r in enumerate(ring)))
    return {1: np.array(out, "i8").astype("i4")}


control(
    "cpp_local_array",
    "cpp_local_array",
    [],
    (4,),
    lambda rng: (np.array([0, 1, 2, 7], "i4"), like(4, "i32")),
    rings,
)
