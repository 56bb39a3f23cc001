"""Algorithms in Tile C++ that a user would write whole: attention, convolution, sorting, norms, products."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.corpus.case import Family, integers, like, uniform, wide
from tests.corpus.cases.cpp_numbers import quiet

algorithm = Family("cpp_algorithms", "cpp/algorithms.cu")
narrow = Family("cpp_narrow", "cpp/narrow.cu")
i4 = np.int32
PRODUCT = {"rtol": 2e-6, "atol": 1e-4}


def case(name: str, grid: tuple[int, ...], inputs: Any, expect: Any, entry: str = "", **more: Any) -> None:
    entry = entry or name.replace("cpp_", "alg_")
    algorithm(name, entry, [], grid, inputs, quiet(expect), module="cpp_algorithms", **more)


def attended(q: Any, k: Any, v: Any, o: Any, length: Any, scale: Any) -> dict[int, np.ndarray]:
    a, b, c = wide(q, k, v)
    s = np.where(np.tri(len(a)) > 0, a @ b.T * float(scale), -np.inf)
    p = np.exp(s - s.max(1, keepdims=True))
    return {3: (p @ c / p.sum(1, keepdims=True)).astype("f4")}


case(
    "cpp_attention",
    (3,),
    lambda rng: (
        *(uniform(rng, (80, 32), "f16") for _ in range(3)),
        like((80, 32)),
        i4(80),
        np.float32(0.176),
    ),
    attended,
    rtol=2e-3,
    atol=2e-3,
)


def convolved(x: Any, w: Any, y: Any, rows: Any, cols: Any) -> dict[int, np.ndarray]:
    v = np.pad(wide(x)[0], 1)
    taps = [
        v[i : i + x.shape[0], j : j + x.shape[1]] * float(w[3 * i + j]) for i in range(3) for j in range(3)
    ]
    return {2: sum(taps).astype("f4")}


case(
    "cpp_conv2d",
    (3, 2),
    lambda rng: (uniform(rng, (19, 45)), uniform(rng, 9), like((19, 45)), i4(19), i4(45)),
    convolved,
    rtol=1e-5,
    atol=1e-5,
)


def channels(x: Any, w: Any, y: Any, length: Any) -> dict[int, np.ndarray]:
    v, u = wide(x, w)
    return {2: sum(u[t] @ v[:, t : t + y.shape[1]] for t in range(3)).astype("f4")}


case(
    "cpp_conv1d_channels",
    (2,),
    lambda rng: (uniform(rng, (16, 60), "f16"), uniform(rng, (3, 32, 16), "f16"), like((32, 58)), i4(60)),
    channels,
    **PRODUCT,
)


def pooled(x: Any, high: Any, mean: Any, rows: Any, cols: Any) -> dict[int, np.ndarray]:
    top, avg = np.pad(x, (0, 4), constant_values=-np.inf), np.pad(x, (0, 4))
    at = [(slice(2 * i, 2 * i + 4), slice(2 * j, 2 * j + 4)) for i in range(5) for j in range(6)]
    return {
        1: np.array([top[s].max() for s in at], "f4"),
        2: np.array([avg[s].sum() / 16 for s in at], "f4"),
    }


case(
    "cpp_pool",
    (5, 6),
    lambda rng: (np.round(uniform(rng, (10, 12)) * 8), like(30), like(30), i4(10), i4(12)),
    pooled,
)


def transformed(x: Any, y: Any) -> dict[int, np.ndarray]:
    v = x.astype("f8").reshape(-1, 64, 2)
    out = np.fft.fft(v[..., 0] + 1j * v[..., 1], axis=1)
    return {1: np.stack([out.real, out.imag], -1).reshape(x.shape).astype("f4")}


case("cpp_fft", (3,), lambda rng: (uniform(rng, 384), like(384)), transformed, rtol=1e-5, atol=3e-5)
case(
    "cpp_sort",
    (1,),
    lambda rng: (integers(rng, 128, "i32", -40, 40), like(128, "i32")),
    lambda k, p: {0: np.sort(k), 1: np.argsort(k, kind="stable").astype("i4")},
)
case(
    "cpp_rank",
    (1,),
    lambda rng: (np.round(uniform(rng, 64) * 8), like(64, "i32")),
    lambda x, r: {1: np.argsort(np.argsort(x, kind="stable"), kind="stable").astype("i4")},
)
case(
    "cpp_bins",
    (1,),
    lambda rng: (integers(rng, 300, "u8"), like(32, "i32"), i4(300)),
    lambda x, b, n: {1: np.bincount(x >> 3, minlength=32).astype("i4")},
    "alg_histogram",
)


def rms(x: Any, w: Any, y: Any, *_: Any) -> dict[int, np.ndarray]:
    v, g = wide(x, w)
    return {2: (v / np.sqrt((v * v).mean(1, keepdims=True) + 1e-6) * g).astype("f4").astype(y.dtype)}


case(
    "cpp_rms_norm",
    (3,),
    lambda rng: (
        uniform(rng, (3, 300), "bf16"),
        uniform(rng, 300, "bf16"),
        like((3, 300), "bf16"),
        i4(3),
        i4(300),
    ),
    rms,
    rtol=8e-3,
    atol=1e-3,
)


def batch(x: Any, y: Any, mean: Any, var: Any, *_: Any) -> dict[int, np.ndarray]:
    v = wide(x)[0]
    m, d = v.mean(0), v.var(0)
    return {1: ((v - m) / np.sqrt(d + 1e-5)).astype("f4"), 2: m.astype("f4"), 3: d.astype("f4")}


case(
    "cpp_batch_norm",
    (2,),
    lambda rng: (uniform(rng, (50, 20)), like((50, 20)), like(20), like(20), i4(50), i4(20)),
    batch,
    rtol=1e-4,
    atol=1e-5,
)


def reduced(x: Any, *_: Any) -> dict[int, np.ndarray]:
    return {
        1: x.sum(0, dtype="i4").ravel(),
        2: x.min(1).ravel(),
        3: x.argmin(2).ravel().astype("u4"),
        4: ((x & 3).astype("i8") + 1).prod(2).ravel(),
    }


case(
    "cpp_reduce3",
    (1,),
    lambda rng: (
        integers(rng, (8, 4, 16), "i16", -20, 20),
        like(64, "i32"),
        like(128, "i16"),
        like(32, "u32"),
        like(32, "i64"),
    ),
    reduced,
)


def folded(x: Any, y: Any, z: Any) -> dict[int, np.ndarray]:
    v = x.reshape(4, 32)
    rows = [f.reduce(v, axis=1) for f in (np.bitwise_and, np.bitwise_or, np.bitwise_xor)]
    return {1: np.concatenate(rows), 2: ((v & np.uint64(255)) == 7).any(1)}


def bit_inputs(rng: np.random.Generator) -> Any:
    x = integers(rng, 128, "u64") | np.uint64(1 << 40)
    x[:32] |= np.uint64(0xF0)
    x[40] = 0x100000000000707
    return x, like(12, "u64"), like(4, "i1")


case("cpp_fold_bits", (1,), bit_inputs, folded, "alg_bits")


def scanned(x: Any, *_: Any) -> dict[int, np.ndarray]:
    eight = np.floor(x * 8)
    return {
        1: np.cumsum(x, 0),
        2: np.cumprod(x[:, ::-1], 1)[:, ::-1],
        3: np.cumsum(eight[:, ::-1], 1)[:, ::-1].astype("f4"),
    }


case(
    "cpp_scan_f64",
    (1,),
    lambda rng: (uniform(rng, (16, 32), "f64"), like((16, 32), "f64"), like((16, 32), "f64"), like((16, 32))),
    scanned,
    "alg_scan",
    rtol=1e-12,
    atol=1e-13,
)

# Products


def product(bias: float = 0.0) -> Any:
    def f(a: Any, b: Any, c: Any, *_: Any) -> dict[int, np.ndarray]:
        x, y = wide(a, b)
        return {2: (x @ y + bias).astype(c.dtype)}

    return f


case(
    "cpp_batched",
    (1,),
    lambda rng: (uniform(rng, (4, 16, 32), "bf16"), uniform(rng, (1, 32, 16), "bf16"), like((4, 16, 16))),
    product(0.5),
    **PRODUCT,
)
case(
    "cpp_mma_half",
    (1,),
    lambda rng: (uniform(rng, (32, 16), "f16"), uniform(rng, (16, 32), "f16"), like((32, 32), "f16")),
    product(),
    rtol=2e-3,
    atol=2e-2,
)


def tf32(x: np.ndarray) -> np.ndarray:
    """Ten bits of the fraction are left, ties to even."""
    bits = x.view("u4").astype("u8")
    return ((bits + 0xFFF + (bits >> np.uint64(13) & np.uint64(1))) & 0xFFFFE000).astype("u4").view("f4")


case(
    "cpp_mma_tf32",
    (1,),
    lambda rng: (uniform(rng, (32, 32)), uniform(rng, (32, 16)), like((32, 16))),
    lambda a, b, c: product()(tf32(a), tf32(b), c),
    rtol=2e-6,
    atol=1e-5,
)
for left, code in (("u8", "hh"), ("i8", "ah")):
    case(
        f"cpp_mma_{left}_u8",
        (1,),
        lambda rng, left=left: (
            integers(rng, (16, 64), left),
            integers(rng, (64, 32), "u8"),
            like((16, 32), "i32"),
        ),
        lambda a, b, c: {2: a.astype("i4") @ b.astype("i4") - 9},
        f"_Z13alg_mma_bytesI{code}EvPKT_PKT0_Pi",
    )
case(
    "cpp_mma_f64",
    (1,),
    lambda rng: (uniform(rng, (32, 48), "f64"), uniform(rng, (48, 8), "f64"), like((32, 8), "f64"), i4(48)),
    product(),
    rtol=1e-13,
    atol=1e-13,
)
for shares in (1, 3):

    def planes(a: Any, b: Any, c: Any, *_: Any, shares: int = shares) -> dict[int, np.ndarray]:
        x, y = wide(a, b)
        out = np.zeros(c.shape)
        for s in range(4):
            out[s % shares] += x[:, 32 * s : 32 * s + 32] @ y[32 * s : 32 * s + 32]
        return {2: out.astype("f4")}

    case(
        f"cpp_every_share_{shares}",
        (2, 1, shares),
        lambda rng, shares=shares: (
            uniform(rng, (80, 112), "bf16"),
            uniform(rng, (112, 64), "bf16"),
            like((shares, 80, 64)),
            i4(80),
            i4(64),
            i4(112),
            i4(shares),
        ),
        planes,
        "alg_every_share",
        **PRODUCT,
    )
case(
    "cpp_split_k",
    (2, 2, 3),
    lambda rng: (
        uniform(rng, (50, 96), "f16"),
        uniform(rng, (96, 40), "f16"),
        like((50, 40)),
        i4(50),
        i4(40),
        i4(96),
        i4(2),
    ),
    product(),
    **PRODUCT,
)
case(
    "cpp_persistent",
    (3,),
    lambda rng: (
        uniform(rng, (100, 64), "f16"),
        uniform(rng, (64, 70), "f16"),
        like((100, 70), "f16"),
        i4(100),
        i4(70),
        i4(64),
    ),
    lambda a, b, c, *_: {2: np.maximum(product()(a, b, c)[2], 0)},
    rtol=1e-3,
    atol=1e-3,
)
case(
    "cpp_one_loop",
    (2,),
    lambda rng: (
        uniform(rng, (176, 112), "bf16"),
        uniform(rng, (112, 128), "bf16"),
        like((176, 128)),
        i4(176),
        i4(128),
        i4(112),
    ),
    product(),
    **PRODUCT,
)


def routed(x: Any, w: Any, expert: Any, token: Any, y: Any, tokens: Any) -> dict[int, np.ndarray]:
    v, u = wide(x, w)
    out = np.zeros(y.shape)
    for b, e in enumerate(expert):
        for t in token[16 * b : 16 * b + 16]:
            if t < tokens:
                out[t] = v[t] @ u[e]
    return {4: out.astype("f4")}


def routes(rng: np.random.Generator) -> Any:
    token = np.full(64, 1000, "i4")  # what no token fills lies outside
    token[:50] = rng.permutation(50)
    expert = np.array([2, 0, 1, 2], "i4")
    return (
        uniform(rng, (50, 32), "f16"),
        uniform(rng, (3, 32, 16), "f16"),
        expert,
        token,
        like((50, 16)),
        i4(50),
    )


case("cpp_experts", (4,), routes, routed, **PRODUCT)


def escaped(count: Any, width: Any) -> dict[int, np.ndarray]:
    f = np.float32
    i = np.arange(count.size)
    cx = (i % width).astype(f) * (f(3) / f(width)) - f(2)
    cy = (i // width).astype(f) * f(0.125) - f(1)
    x, y = np.zeros_like(cx), np.zeros_like(cx)
    n = np.zeros(count.size, "i4")
    for _ in range(50):
        near = x.astype("f8") ** 2 + y.astype("f8") ** 2 <= 4
        t = x * x - y * y + cx
        y, x = np.where(near, x * y * 2 + cy, y), np.where(near, t, x)
        n += near
    return {0: n}


case("cpp_mandelbrot", (4,), lambda rng: (like(256, "i32"), i4(16)), escaped)

# Eight-bit floats

for d, tail in (("e4m3", "S3_"), ("e5m2", "S3_")):
    name = f"__nv_fp8_{d}"
    narrow(
        f"cpp_product_{d}",
        f"_Z11fp8_productI{len(name)}{name}EvPKT_{tail}Pf",
        [],
        (1,),
        lambda rng, d=d: (uniform(rng, (32, 64), d), uniform(rng, (64, 32), d), like((32, 32))),
        product(),
        module="cpp_narrow",
        min_arch=90,
        tags=("fp8",),
        rtol=1e-3,
        atol=2e-2,
    )

    def quantised(x: Any, q: Any, scale: Any, back: Any) -> dict[int, np.ndarray]:
        v = x.astype("f4").reshape(-1, 128)
        top = np.abs(v).max(1, keepdims=True)
        s = np.where(top > 0, top / np.float32(256), np.float32(1))
        n = (v / s).astype(q.dtype)
        return {1: n.ravel(), 2: s.ravel(), 3: (n.astype("f4") * s).astype("f2").ravel()}

    narrow(
        f"cpp_quantise_{d}",
        f"_Z12fp8_quantiseI{len(name)}{name}EvPK6__halfPT_PfPS1_",
        [],
        (3,),
        lambda rng, d=d: (
            np.concatenate([uniform(rng, 256, "f16"), np.zeros(128, "f2")]),
            like(384, d),
            like(3),
            like(384, "f16"),
        ),
        quantised,
        module="cpp_narrow",
        min_arch=90,
        tags=("fp8",),
    )


def kept_steps(a: Any, b: Any, c: Any, kept: Any, *rest: Any) -> dict[int, np.ndarray]:
    x, y = wide(a, b)
    columns = np.repeat(kept != 0, 32)[: x.shape[1]]
    return {2: (x[:, columns] @ y[columns]).astype("f4")}


case(
    "cpp_skipped_steps",
    (2, 1),
    lambda rng: (
        uniform(rng, (80, 240), "bf16"),
        uniform(rng, (240, 64), "bf16"),
        like((80, 64)),
        np.array([0, 3, 1, 0, 0, 2, 1, 0], i4),
        i4(80),
        i4(64),
        i4(240),
    ),
    kept_steps,
    **PRODUCT,
)
for depth in (240, 208, 16):  # an even number of steps, an odd one, one step
    case(
        f"cpp_from_both_ends_{depth}",
        (2, 1),
        lambda rng, depth=depth: (
            uniform(rng, (80, depth), "bf16"),
            uniform(rng, (depth, 64), "bf16"),
            like((80, 64)),
            i4(80),
            i4(64),
            i4(depth),
        ),
        product(),
        "alg_from_both_ends",
        **PRODUCT,
    )
