"""Products fed by tiles of pointers or indices: what arrives by copies of 16, 8 and 4 bytes, what cannot, ragged edges."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tests.corpus.case import DTYPES, Array, Family, Scalar, integers, like, uniform, wide
from tests.corpus.cases.cpp_numbers import quiet
from tests.corpus.cases.matmul import F32
from tests.corpus.cases.staged import WIDE, expected, operands

case = Family("pointers", "python/pointers.py")
cpp = Family("cpp_pointers", "cpp/pointers.cu")
i4 = np.int32


def A(dtype: str, ndim: int) -> Array:
    return Array(dtype, ndim, div=16)


for name, d, out, layout, tile, (m, n, k), tol, least in (
    ("bf16_nn", "bf16", "f32", "nn", (64, 64, 64), (112, 80, 272), F32, 75),
    ("bf16_nn_128", "bf16", "f32", "nn", (128, 128, 64), (144, 272, 208), F32, 75),
    ("f16_nt", "f16", "f32", "nt", (128, 64, 32), (160, 112, 144), F32, 75),
    ("f16_tn", "f16", "f32", "tn", (64, 128, 64), (96, 176, 304), F32, 75),
    ("f16_narrow", "f16", "f32", "nn", (16, 16, 16), (32, 48, 112), F32, 75),
    ("tf32_nn", "tf32", "f32", "nn", (64, 64, 32), (80, 112, 144), F32, 75),
    ("f64_nn", "f64", "f64", "nn", (32, 32, 16), (48, 64, 80), {"rtol": 1e-13, "atol": 1e-13}, 75),
    ("i8_nt", "i8", "i32", "nt", (64, 64, 64), (96, 80, 208), {}, 75),
    ("i8_nn", "i8", "i32", "nn", (64, 64, 64), (96, 80, 208), {}, 75),
    ("e4m3_nt", "e4m3", "f32", "nt", (64, 128, 128), (80, 144, 272), WIDE, 90),
):  # fmt: skip
    stored = "f32" if d == "tf32" else d
    constants = tile if d == "tf32" else (*tile, int(layout[0] == "t"), int(layout[1] == "t"))
    case(
        f"pointers_{name}",
        "by_index_tf32" if d == "tf32" else "by_index",
        [A(stored, 2), A(stored, 2), A(out, 2), *constants],
        (-(-m // tile[0]), -(-n // tile[1])),
        operands(m, n, k, stored, out, layout),
        expected(layout, d),
        min_arch=least,
        tags=("fp8",) if d == "e4m3" else (),
        **tol,
    )


def rows_of(a: Any, b: Any, ids: Any, c: Any) -> dict[int, np.ndarray]:
    x, y = wide(a)[0], wide(b)[0]
    return {3: (taken(x, ids) @ y).astype("f4")}


for name, d, least in (("", "f16", 75), ("_bytes", "i8", 75)):
    case(
        f"pointers_gathered_rows{name}",
        "gathered_rows",
        [A("f16", 2), A(d, 2), A("i32", 1), A("f32", 2), 64, 64, 32],
        (2, 2),
        lambda rng, d=d: (
            uniform(rng, (48, 144), "f16", -1, 1),
            uniform(rng, (144, 80), "f16", -1, 1) if d == "f16" else integers(rng, (144, 80), "i8"),
            integers(rng, 96, "i32", -3, 60),
            like((96, 80)),
        ),
        rows_of,
        min_arch=least,
        rtol=1e-5,
        atol=1e-3,
    )


def whole(rng: np.random.Generator, shape: Any, dtype: str) -> np.ndarray:
    return rng.integers(-3, 4, shape).astype(DTYPES[dtype])


def taken(x: np.ndarray, ids: Any) -> np.ndarray:
    """Rows of a matrix that a list names; zeros where it has none."""
    return np.where((ids >= 0)[:, None] & (ids < len(x))[:, None], x[np.clip(ids, 0, len(x) - 1)], 0)


def listed(name: str, entry: str, d: str, tile: tuple[int, int, int], rows: int, **more: Any) -> None:
    """A product whose right operand are rows that a list names, some of which are not there."""
    case(
        name,
        entry,
        [A(d, 2), A(d, 2), A("i32", 1), A("f32", 2), *tile],
        (2, 1),
        lambda rng: (
            whole(rng, (2 * tile[0] - 16, 4 * tile[2] + 16), d),
            whole(rng, (rows, tile[1] - 16), d),
            integers(rng, 4 * tile[2] + 16, "i32", -3, rows + 9),
            like((2 * tile[0] - 16, tile[1] - 16)),
        ),
        lambda a, b, ids, c: {3: (wide(a)[0] @ taken(wide(b)[0], ids)).astype("f4")},
        **more,
    )


for name, d, tile, rows in (
    ("", "f16", (128, 128, 64), 300),
    ("_bf16_wide", "bf16", (64, 256, 32), 75),
    ("_f32", "f32", (64, 64, 32), 75),
):
    listed(f"pointers_listed_rows{name}", "listed_rows", d, tile, rows)
    if d != "f32":
        listed(f"pointers_listed_through_view{name}", "listed_through_view", d, tile, rows, since="13.3")

for name, d, div in (("", "f16", 16), ("_bytes", "e4m3", 16), ("_unproven", "bf16", 1)):
    tile = (64, 64, 128 if d == "e4m3" else 32)
    case(
        f"pointers_rows_through_view{name}",
        "rows_through_view",
        [Array(d, 2, div=div), A(d, 2), A("i32", 1), A("f32", 2), *tile],
        (2, 2),
        lambda rng, d=d, div=div: (
            whole(rng, (48, 272 - 9 * (div == 1)), d),
            whole(rng, (272, 80), d),
            integers(rng, 96, "i32", -3, 60),
            like((96, 80)),
        ),
        lambda a, b, ids, c: {3: (taken(wide(a)[0], ids) @ wide(b)[0][: a.shape[1]]).astype("f4")},
        since="13.3",
        min_arch=90 if d == "e4m3" else 75,
        tags=("fp8",) if d == "e4m3" else (),
    )

case(
    "pointers_rows_from_anywhere",
    "rows_from_anywhere",
    [A("f16", 2), A("f16", 2), A("i32", 1), A("f32", 2), Scalar("i32"), 64, 64, 32],
    (2, 1),
    lambda rng: (
        whole(rng, (48, 144), "f16"),
        whole(rng, (112, 64), "f16"),
        integers(rng, 96, "i32", -3, 60),
        like((96, 64)),
        37,
    ),
    lambda a, b, ids, c, start: {
        3: (taken(wide(a)[0], ids)[:, start:] @ wide(b)[0][: a.shape[1] - start]).astype("f4")
    },
    since="13.3",
)


def sparse(values, first, columns, b, c):
    out = np.zeros(c.shape)
    x, y = wide(values)[0], np.pad(wide(b)[0], ((0, 256), (0, 0)))
    for i, (low, high) in enumerate(itertools.pairwise(first)):
        for at in range(low, high):
            out[64 * i :][:64] += x[at] @ y[256 * columns[at] :][:256]
    return {4: out.astype("f4")}


case(
    "pointers_sparse_blocks",
    "sparse_blocks",
    [A("f16", 3), Array("i32", 1), Array("i32", 1), A("f16", 2), A("f32", 2), 64, 64, 256],
    (3, 1),
    lambda rng: (
        whole(rng, (6, 64, 256), "f16"),
        np.array([0, 4, 4, 6], "i4"),
        np.array([0, 2, 1, 2, 2, 0], "i4"),
        whole(rng, (144 + 512, 64), "f16"),
        like((192, 64)),
    ),
    sparse,
    rtol=0,
)

case(
    "pointers_listed_pages",
    "listed_pages",
    [A("bf16", 2), A("bf16", 2), A("i32", 1), A("f32", 2), 128, 64, 64],
    (1, 2),
    lambda rng: (
        whole(rng, (208, 112), "bf16"),
        whole(rng, (208, 80), "bf16"),
        integers(rng, 16, "i32", -2, 15),
        like((112, 80)),
    ),
    lambda a, b, pages, c: {
        3: (
            taken(wide(a)[0], (pages[:, None] * 16 + np.arange(16)).ravel()).T
            @ taken(wide(b)[0], (pages[:, None] * 16 + np.arange(16)).ravel())
        ).astype("f4")
    },
)


def padded_with_ones(a: Any, b: Any, c: Any) -> dict[int, np.ndarray]:
    x, y = wide(a)[0], wide(b)[0]
    x = np.pad(x, ((0, c.shape[0] - len(x)), (0, 0)), constant_values=1)
    return {2: (x @ y).astype("f4")}


case(
    "pointers_other_padding",
    "other_padding",
    [A("f16", 2), A("f16", 2), A("f32", 2), 64, 64, 32],
    (2, 1),
    lambda rng: (
        uniform(rng, (80, 144), "f16", -1, 1),
        uniform(rng, (144, 64), "f16", -1, 1),
        like((112, 64)),
    ),
    padded_with_ones,
    **F32,
)


def convolved(x: Any, w: Any, y: Any) -> dict[int, np.ndarray]:
    taps = w.shape[0]
    a = np.pad(wide(x)[0], ((0, 0), (taps // 2,) * 2, (taps // 2,) * 2, (0, 0)))
    n, h, v, _ = x.shape
    out = sum(a[:, r : r + h, s : s + v] @ wide(w)[0][r, s] for r in range(taps) for s in range(taps))
    return {2: out.reshape(n * h * v, -1).astype("f4").astype(y.dtype)}


case(
    "pointers_convolution",
    "convolution",
    [A("f16", 4), A("f16", 4), A("f32", 2), 64, 32, 32, 8, 6, 3],
    (2, 2),
    lambda rng: (
        uniform(rng, (2, 8, 6, 80), "f16", -1, 1),
        uniform(rng, (3, 3, 80, 48), "f16", -1, 1),
        like((96, 48)),
    ),
    convolved,
    rtol=1e-5,
    atol=2e-3,
)


def attended(q: Any, k: Any, v: Any, o: Any, scale: Any) -> dict[int, np.ndarray]:
    s = wide(q)[0] @ wide(k)[0].T * float(scale)
    e = np.exp(s - s.max(1, keepdims=True))
    return {3: (e / e.sum(1, keepdims=True) @ wide(v)[0]).astype("f4")}


case(
    "pointers_attention",
    "attention_by_index",
    [A("f16", 2), A("f16", 2), A("f16", 2), A("f32", 2), Scalar("f32"), 64, 32, 64],
    (2,),
    lambda rng: (
        uniform(rng, (96, 64), "f16", -1, 1),
        uniform(rng, (80, 64), "f16", -1, 1),
        uniform(rng, (80, 64), "f16", -1, 1),
        like((96, 64)),
        np.float32(0.125),
    ),
    attended,
    rtol=2e-3,
    atol=2e-3,
)


def product(a: Any, b: Any, c: Any, *sizes: Any) -> dict[int, np.ndarray]:
    return {2: (wide(a)[0] @ wide(b)[0]).astype("f4")}


for name, d, tile, (m, n, k) in (
    ("stepping", "bf16", (64, 64), (112, 80, 144)),
    ("stepping_unaligned", "f16", (64, 32), (71, 45, 77)),
    ("stepping_narrow", "f16", (64, 32), (71, 44, 78)),
):
    cpp(
        f"cpp_pointers_{name}",
        f"ptr_{name}",
        [],
        (-(-m // tile[0]), -(-n // tile[1])),
        lambda rng, d=d, m=m, n=n, k=k: (
            uniform(rng, (m, k), d, -1, 1),
            uniform(rng, (k, n), d, -1, 1),
            like((m, n)),
            i4(m),
            i4(n),
            i4(k),
        ),
        quiet(product),
        module="cpp_pointers",
        **F32,
    )
for name in ("whole", "two_walks"):
    cpp(
        f"cpp_pointers_{name}",
        f"ptr_{name}",
        [],
        (2, 2),
        lambda rng: (
            uniform(rng, (128, 160), "f16", -1, 1),
            uniform(rng, (160, 128), "f16", -1, 1),
            like((128, 128)),
            i4(128),
            i4(160),
        ),
        quiet(product),
        module="cpp_pointers",
        **F32,
    )
cpp(
    "cpp_pointers_bytes",
    "ptr_bytes",
    [],
    (2, 2),
    lambda rng: (
        integers(rng, (96, 144), "i8"),
        integers(rng, (80, 144), "i8"),
        like((96, 80), "i32"),
        i4(96),
        i4(80),
        i4(144),
    ),
    quiet(lambda a, b, c, *sizes: {2: a.astype("i4") @ b.astype("i4").T}),
    module="cpp_pointers",
)


def begun_again(back):
    def values(a, b, c):
        x, y = wide(a, b)
        rows = np.arange(128) % x.shape[0]
        cols = (np.arange(-64 * back, 128 - 64 * back)) % y.shape[1]
        return {2: (x[rows] @ y[:, cols]).astype("f4")}

    return values


for dtype, back, div in (("f16", 1, 16), ("bf16", 0, 16), ("f16", 2, 1)):
    case(
        f"pointers_begun_again_{dtype}_{back}_{div}",
        "begun_again",
        [Array(dtype, 2, div=div), Array(dtype, 2, div=div), Array("f32", 2, div=16), 64, 64, 32, back],
        (2, 2),
        lambda rng, dtype=dtype, div=div: (
            uniform(rng, (112, 80), dtype),
            uniform(rng, (80, 96 if div == 16 else 100), dtype),
            like((128, 128)),
        ),
        begun_again(back),
        **F32,
    )


def remainders(x, y, n):
    at = np.arange(-128, 256).reshape(3, 128)
    parts = [x[at % 16], x[at % -16 + 15], x[at % x.shape[0]], x[at % n + 32]]
    return {1: np.concatenate(parts, 1)}


for n in (16, -32):
    case(
        f"pointers_signs_of_remainders_{abs(n)}_{'below' if n < 0 else 'above'}",
        "signs_of_remainders",
        [Array("f16", 1, div=16), Array("f16", 2, div=16), Scalar("i32"), 128],
        (3,),
        lambda rng, n=n: (uniform(rng, 80, "f16"), like((3, 512), "f16"), n),
        remainders,
    )
