"""Products of weights that codes name in a table. Values and factors are small and whole: sums are exact in any order."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.corpus.case import DTYPES, Array, Family, like, wide

case = Family("looked_up", "python/looked_up.py")


def A(dtype: str, ndim: int = 2, div: int = 16) -> Array:
    return Array(dtype, ndim, div=div)


def whole(rng: np.random.Generator, shape: Any, dtype: str, most: int = 3) -> np.ndarray:
    return rng.integers(-most, most + 1, shape).astype(DTYPES[dtype])


def codes(rng: np.random.Generator, shape: Any) -> np.ndarray:
    return rng.integers(0, 256, shape, dtype="u1")


def unpacked(p: np.ndarray, axis: int) -> np.ndarray:
    """The codes of four bits of each byte, the lower one first, side by side along an axis."""
    return (
        np.repeat(p, 2, axis) >> (4 * (np.arange(2 * p.shape[axis]) % 2)).reshape((-1, 1)[:: 1 - 2 * axis])
        & 15
    )


def by_code(depth: int, axis: int) -> Any:
    """`axis`: along which K lies."""

    def expected(x: Any, w: Any, table: Any, scale: Any, y: Any) -> dict[int, np.ndarray]:
        u = wide(table)[0][unpacked(w, axis)] * np.repeat(wide(scale)[0], depth, axis)
        return {4: (wide(x)[0] @ (u.T if axis else u)).astype(y.dtype)}

    return expected


for name, kernel, d, stored, tile, (m, n, k), div in (
    ("", "by_code", "bf16", "f32", (64, 128, 64), (112, 128, 320), 16),
    ("_f16", "by_code", "f16", "f16", (128, 128, 64), (128, 256, 192), 16),
    ("_narrow", "by_code", "bf16", "f32", (16, 64, 128), (16, 64, 384), 16),
    ("_unaligned", "by_code", "f16", "f32", (64, 64, 32), (48, 64, 96), 1),
    ("_of_rows", "by_code_of_rows", "bf16", "f32", (64, 128, 64), (112, 128, 320), 16),
    ("_of_rows_wide", "by_code_of_rows", "f16", "f16", (128, 256, 64), (128, 256, 192), 16),
):
    axis = int(kernel == "by_code_of_rows")
    case(
        f"looked_up{name}",
        kernel,
        [A(d, 2, div), A("u8", 2, div), A(stored, 1), A("f32", 2, div), A("f32"), *tile],
        (-(-m // tile[0]), n // tile[1]),
        lambda rng, d=d, stored=stored, t=tile, m=m, n=n, k=k, axis=axis: (
            whole(rng, (m, k), d),
            codes(rng, (n, k // 2) if axis else (k // 2, n)),
            (np.arange(16) - 8).astype(DTYPES[stored]),
            whole(rng, (n, k // t[2]) if axis else (k // t[2], n), "f32", 2),
            like((m, n)),
        ),
        by_code(tile[2], axis),
    )


def by_byte(depth: int) -> Any:
    def expected(w: Any, x: Any, tables: Any, y: Any) -> dict[int, np.ndarray]:
        u = wide(tables)[0][np.arange(w.shape[1])[None, :] // depth, w]
        return {3: (u @ wide(x)[0]).astype(y.dtype)}

    return expected


for name, d, tile in (("", "f16", (128, 128, 64)), ("_bf16", "bf16", (64, 64, 32))):
    case(
        f"looked_up_left{name}",
        "by_byte",
        [A("u8"), A(d), A(d), A("f32"), *tile],
        (1, 1),
        lambda rng, d=d, t=tile: (
            codes(rng, (t[0] - 16, 4 * t[2])),
            whole(rng, (4 * t[2], t[1] - 16), d),
            whole(rng, (4, 256), d),
            like((t[0] - 16, t[1] - 16)),
        ),
        by_byte(tile[2]),
    )
case(
    "looked_up_both",
    "by_both",
    [A("u8"), A("u8"), A("bf16", 1), A("bf16", 1), A("f32"), 64, 64, 64],
    (2, 1),
    lambda rng: (
        codes(rng, (128, 320)),
        codes(rng, (320, 64)),
        whole(rng, (256,), "bf16"),
        whole(rng, (256,), "bf16"),
        like((128, 64)),
    ),
    lambda v, w, first, second, y: {4: (wide(first)[0][v] @ wide(second)[0][w]).astype("f4")},
)


def by_vector(x: Any, w: Any, table: Any, y: Any) -> dict[int, np.ndarray]:
    return {3: (wide(x)[0] @ wide(table)[0][w].reshape(len(w), -1).T).astype(y.dtype)}


for name, kernel, d, tile, v, since in (
    ("vectors", "by_vector", "f16", (64, 128, 64), 8, "13.1"),
    ("vectors_of_four", "by_vector", "bf16", (128, 64, 64), 4, "13.1"),
    ("rows", "by_row", "f16", (64, 128, 64), 8, "13.3"),
):
    case(
        f"looked_up_{name}",
        kernel,
        [A(d), A("u8"), A(d), A("f32"), *tile, v],
        (2, 1),
        lambda rng, d=d, t=tile, v=v: (
            whole(rng, (2 * t[0] - 16, 4 * t[2]), d),
            codes(rng, (t[1], 4 * t[2] // v)),
            whole(rng, (256, v), d),
            like((2 * t[0] - 16, t[1])),
        ),
        by_vector,
        since=since,
    )
