"""Products of packed weights of four bits with zero points. Values and scales are small and whole: sums are exact."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.corpus.case import DTYPES, Array, Family, like, wide

case = Family("packed", "python/packed.py")


def A(dtype: str, div: int = 16) -> Array:
    return Array(dtype, 2, div=div)


def whole(rng: np.random.Generator, shape: Any, dtype: str, most: int) -> np.ndarray:
    return rng.integers(-most, most + 1, shape).astype(DTYPES[dtype])


def numbers(rng: np.random.Generator, shape: Any, dtype: str) -> np.ndarray:
    """Integers of all bits."""
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)


APART = [0, 4, 1, 5, 2, 6, 3, 7]  # of a word's numbers, the lowest first, which its columns are


def zeros_are_bytes(kernel: str) -> bool:
    return kernel in ("in_bytes", "in_words_of_rows")


def nibbles(packed: np.ndarray) -> np.ndarray:
    """Integers of four bits, the lowest of each number first, side by side along the last axis."""
    bits = packed.view(f"u{packed.itemsize}").astype("u8")[..., None]
    return (
        (bits >> (4 * np.arange(2 * packed.itemsize, dtype="u8")) & 15)
        .reshape(*packed.shape[:-1], -1)
        .astype("i8")
    )


def expected_of(kernel: str, depth: int) -> Any:
    rows = kernel == "in_words_of_rows"

    def expected(x: Any, w: Any, s: Any, z: Any, y: Any) -> dict[int, np.ndarray]:
        weights = nibbles(w)
        zero = z.astype("i8") if zeros_are_bytes(kernel) else nibbles(z)
        if kernel == "in_words_apart":
            weights, zero = (t.reshape(len(t), -1, 8)[:, :, APART].reshape(t.shape) for t in (weights, zero))
        axis = int(rows)
        spread = [np.repeat(each, depth, axis) for each in (zero, wide(s)[0])]
        u = (weights - spread[0]) * spread[1]
        return {4: (wide(x)[0] @ (u.T if rows else u)).astype(y.dtype)}

    return expected


for name, kernel, d, tile, (m, n, k), div in (
    ("_bytes", "in_bytes", "bf16", (128, 128, 64), (112, 128, 320), 16),
    ("_bytes_f16", "in_bytes", "f16", (64, 64, 64), (64, 128, 192), 16),
    ("_bytes_unaligned", "in_bytes", "bf16", (64, 64, 32), (48, 64, 96), 1),
    ("_words", "in_words", "f16", (128, 128, 64), (112, 128, 320), 16),
    ("_words_bf16", "in_words", "bf16", (64, 128, 128), (64, 256, 384), 16),
    ("_words_narrow", "in_words", "bf16", (16, 128, 128), (16, 128, 256), 16),
    ("_words_apart", "in_words_apart", "f16", (128, 128, 64), (112, 128, 320), 16),
    ("_words_apart_bf16", "in_words_apart", "bf16", (64, 128, 64), (64, 256, 192), 16),
    ("_words_of_rows", "in_words_of_rows", "f16", (64, 128, 128), (48, 128, 384), 16),
    ("_words_of_rows_bf16", "in_words_of_rows", "bf16", (128, 64, 64), (128, 128, 192), 16),
):
    rows, words = kernel == "in_words_of_rows", kernel != "in_bytes"
    packed, zeros = "i32" if words else "u8", "u8" if zeros_are_bytes(kernel) else "i32"
    case(
        f"packed{name}",
        kernel,
        [A(d, div), A(packed, div), A(d, div), A(zeros, div), A("f32"), *tile],
        (-(-m // tile[0]), n // tile[1]),
        lambda rng, d=d, t=tile, m=m, n=n, k=k, rows=rows, words=words, zeros=zeros: (
            whole(rng, (m, k), d, 1),
            numbers(rng, (n, k // 8) if rows else (k, n // 8), "i4")
            if words
            else numbers(rng, (k, n // 2), "u1"),
            whole(rng, (n, k // t[2]) if rows else (k // t[2], n), d, 1),
            numbers(rng, (k // t[2], n // 8), "i4")
            if zeros == "i32"
            else numbers(rng, (n, k // t[2]) if rows else (k // t[2], n), "u1"),
            like((m, n)),
        ),
        expected_of(kernel, tile[2]),
    )
