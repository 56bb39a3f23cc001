"""Block-scaled products of several steps, ragged in M, N and K. Operands and scales have few bits near one: what the parts
of a sum lose is what f32 additions lose."""

from __future__ import annotations

import numpy as np

from tests.corpus.case import DTYPES, Array, Family, like, wide

case = Family("scaled", "python/scaled.py")
NIBBLES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def scales(rng, shape, dtype):
    """Powers of two near one; those of f8E4M3FN also negative and with a fraction."""
    value = np.exp2(rng.integers(-3, 4, shape))
    if dtype == "e4m3":
        value *= rng.choice([1, 1.5, -1], shape)
    return value.astype(DTYPES[dtype])


def operands(m, n, k, element, scale, block, layout):
    turned = (n, k // block) if layout == "nt" else (k // block, n)

    def make(rng):
        if element == "e2m1":
            a, b = (rng.integers(0, 256, (r, k // 2), np.uint8) for r in (m, n))
        else:
            shape = (n, k) if layout == "nt" else (k, n)
            a, b = (rng.integers(-6, 7, s).astype(DTYPES[element]) for s in ((m, k), shape))
        return a, scales(rng, (m, k // block), scale), b, scales(rng, turned, scale), like((m, n))

    return make


def expected(element, block, layout):
    def opened(x):
        return (
            NIBBLES[np.stack([x & 15, x >> 4], -1).reshape(x.shape[0], -1)]
            if element == "e2m1"
            else wide(x)[0]
        )

    def f(a, sa, b, sb, c):
        x, y, u, v = opened(a), opened(b), wide(sa)[0], wide(sb)[0]
        if layout == "nn":
            y, v = y.T, v.T
        return {4: ((x * np.repeat(u, block, 1)) @ (y * np.repeat(v, block, 1)).T).astype("f4")}

    return f


for name, element, scale, block, layout, tile, (m, n, k) in (
    ("mxfp8_nt", "e4m3", "e8m0", 32, "nt", (64, 64, 128), (80, 112, 512)),
    ("mxfp8_nn", "e5m2", "e8m0", 32, "nn", (64, 32, 64), (80, 112, 512)),
    ("mxfp8_128", "e4m3", "e8m0", 32, "nt", (128, 128, 128), (144, 144, 512)),
    ("mxfp8_deep", "e5m2", "e8m0", 32, "nt", (128, 128, 256), (144, 144, 1024)),
    ("mxfp4_128", "e2m1", "e8m0", 32, "nt", (128, 128, 128), (144, 144, 512)),
    ("nvfp4_128", "e2m1", "e4m3", 16, "nt", (128, 64, 128), (144, 80, 512)),
    ("mxfp8_one_scale", "e4m3", "e8m0", 32, "nt", (32, 64, 32), (48, 80, 512)),
    ("mxfp4", "e2m1", "e8m0", 32, "nt", (64, 64, 256), (80, 112, 1024)),
    ("mxfp4_by_16", "e2m1", "e8m0", 16, "nt", (32, 64, 64), (48, 80, 256)),
    ("nvfp4", "e2m1", "e4m3", 16, "nt", (64, 128, 128), (80, 144, 512)),
    ("nvfp4_narrow", "e2m1", "e4m3", 16, "nt", (16, 16, 64), (32, 48, 256)),
):
    kernel = "four_bits_loop" if element == "e2m1" else "scaled_loop_nt" if layout == "nt" else "scaled_loop"
    A = Array("u8" if element == "e2m1" else element, 2, div=16)
    s = Array(scale, 2, div=16)
    case(
        f"scaled_{name}", kernel, [A, s, A, s, Array("f32", 2, div=16), *tile, block],
        (-(-m // tile[0]), -(-n // tile[1])), operands(m, n, k, element, scale, block, layout), expected(element, block, layout),
        since="13.3", min_arch=100, tags=("fp8",), rtol=1e-5, atol=4e-2,
    )  # fmt: skip
