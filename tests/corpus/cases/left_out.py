"""Loops that leave steps out: blocks of a sparse operand, tiles of scores that a mask or the diagonal leaves out, places in a
list; conditions that can be known ahead, and such that cannot."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.corpus.case import DTYPES, Array, Family, Scalar, like, uniform, wide

case = Family("left_out", "python/left_out.py")


def A(dtype: str, ndim: int) -> Array:
    return Array(dtype, ndim, div=16)


def whole(rng: np.random.Generator, shape: Any, dtype: str) -> np.ndarray:
    return rng.integers(-3, 4, shape).astype(DTYPES[dtype])


def kept(flags: Any, tile: tuple[int, int], shape: tuple[int, int]) -> np.ndarray:
    """Flags of tiles, as flags of elements."""
    return np.kron(flags != 0, np.ones(tile, bool))[: shape[0], : shape[1]]


FLAGS: dict[str, Any] = {
    "": [[1, 0, 0, 1, 1, 0], [0, 1, 1, 0, 0, 3]],
    "_none": np.zeros((2, 6)),
    "_all": np.ones((2, 6)),
    "_skip": [[0, 1, 0, 0, 1, 0], [1, 0, 0, 1, 1, 0]],
    "_front": [[1, 0, 0, 1, 1, 0], [0, 0, 1, 0, 0, 1]],
    "_last": [[0, 0, 0, 0, 0, 1], [1, 0, 0, 0, 0, 0]],
}
for name, d, tile, out in (
    ("", "f16", (128, 128, 64), "f32"),
    ("_none", "f16", (64, 64, 32), "f32"),
    ("_all", "bf16", (128, 64, 64), "bf16"),
    ("_last", "f16", (64, 128, 64), "f16"),
    ("_skip", "bf16", (128, 128, 64), "f32"),
    ("_front", "bf16", (128, 128, 64), "f32"),
):
    flags = np.array(FLAGS[name], "i4")
    case(
        f"left_out{name}",
        {"_skip": "by_skip", "_front": "loaded_in_front"}.get(name, "by_flag"),
        [A(d, 2), A(d, 2), A("i32", 2), A(out, 2), *tile],
        (2, 2),
        lambda rng, d=d, tile=tile, out=out, flags=flags: (
            whole(rng, (2 * tile[0] - 16, 6 * tile[2] - 8), d),
            whole(rng, (6 * tile[2] - 8, 2 * tile[1] - 16), d),
            flags,
            like((2 * tile[0] - 16, 2 * tile[1] - 16), out, 7),
        ),
        lambda a, b, flags, c, tile=tile: {
            3: (np.where(kept(flags, (tile[0], tile[2]), a.shape), wide(a)[0], 0) @ wide(b)[0]).astype(
                c.dtype
            )
        },
        **({} if out == "f32" else {"rtol": 1e-2, "atol": 1e-2}),
    )


def by_place(tile: tuple[int, int, int]) -> Any:
    m, _, k = tile

    def expected(a: Any, b: Any, places: Any, c: Any) -> dict[int, np.ndarray]:
        x, y, out = wide(a)[0], wide(b)[0], np.zeros(c.shape)
        for i, row in enumerate(places):
            lines = slice(i * m, (i + 1) * m)
            for p in row[row >= 0]:
                out[lines] += x[lines, p * k : (p + 1) * k] @ y[p * k : (p + 1) * k]
            out[lines] *= -1 if np.sum(row >= 0) % 2 else 1
        return {3: out.astype("f4")}

    return expected


for name, d, tile in (("", "f16", (128, 128, 64)), ("_bf16", "bf16", (64, 64, 32))):
    case(
        f"left_out_listed{name}",
        "by_place",
        [A(d, 2), A(d, 2), A("i32", 2), A("f32", 2), *tile],
        (2, 1),
        lambda rng, d=d, tile=tile: (
            whole(rng, (2 * tile[0] - 16, 5 * tile[2]), d),
            whole(rng, (5 * tile[2], tile[1] - 16), d),
            np.array([[3, -1, 0, 4, -1, 3, 1], [-1, -1, 2, -7, 0, -1, -1]], "i4"),
            like((2 * tile[0] - 16, tile[1] - 16)),
        ),
        by_place(tile),
    )


def attended(tile: tuple[int, int], causal: int) -> Any:
    def expected(q: Any, k: Any, v: Any, mask: Any, o: Any, scale: Any) -> dict[int, np.ndarray]:
        s = wide(q)[0] @ wide(k)[0].T * float(scale)
        seen = kept(mask, tile, s.shape)
        if causal:
            seen = np.arange(s.shape[0])[:, None] >= np.arange(s.shape[1])[None, :]
        s = np.where(seen, s, -np.inf)
        p = np.exp(s - s.max(1, keepdims=True))
        return {4: (p / p.sum(1, keepdims=True) @ wide(v)[0]).astype("f4")}

    return expected


for name, tile, causal in (("", (64, 64, 64), 0), ("_128", (128, 64, 128), 0), ("_causal", (64, 64, 64), 1)):
    case(
        f"left_out_attention{name}",
        "attention_by_flag",
        [A("f16", 2), A("f16", 2), A("f16", 2), A("i32", 2), A("f32", 2), Scalar("f32"), *tile, causal],
        (2,),
        lambda rng, tile=tile: (
            uniform(rng, (2 * tile[0] - 16, tile[2]), "f16", -1, 1),
            uniform(rng, (5 * tile[1] - 8, tile[2]), "f16", -1, 1),
            uniform(rng, (5 * tile[1] - 8, tile[2]), "f16", -1, 1),
            np.array([[0, 1, 1, 0, 1], [1, 0, 0, 1, 0]], "i4"),
            like((2 * tile[0] - 16, tile[2])),
            np.float32(0.125),
        ),
        attended(tile[:2], causal),
        rtol=4e-3,
        atol=4e-3,
    )


def until_full(a: Any, b: Any, c: Any) -> dict[int, np.ndarray]:
    x, y, out = wide(a)[0], wide(b)[0], np.zeros(c.shape)
    for k in range(0, x.shape[1], 32):
        if out[0, 0] < 20:
            out += x[:, k : k + 32] @ y[k : k + 32]
    return {2: out.astype("f4")}


case(
    "left_out_until_full",
    "until_full",
    [A("f16", 2), A("f16", 2), A("f32", 2), 64, 64, 32],
    (1, 1),
    lambda rng: (
        rng.integers(0, 2, (64, 192)).astype(DTYPES["f16"]),
        rng.integers(0, 2, (192, 64)).astype(DTYPES["f16"]),
        like((64, 64)),
    ),
    until_full,
)

case(
    "left_out_any",
    "by_any",
    [A("f16", 2), A("f16", 2), A("u8", 2), A("f32", 2), 64, 64, 64],
    (1, 1),
    lambda rng: (
        whole(rng, (64, 320), "f16"),
        whole(rng, (320, 64), "f16"),
        (rng.integers(0, 4, (64, 320)) * kept(np.array([[1, 0, 0, 1, 0]]), (64, 64), (64, 320))).astype("u1"),
        like((64, 64)),
    ),
    lambda a, b, mask, c: {3: (np.where(mask != 0, wide(a)[0], 0) @ wide(b)[0]).astype("f4")},
)


def first_columns(a: Any, b: Any, count: int) -> np.ndarray:
    return wide(a)[0][:, :count] @ wide(b)[0][:count]


for name, kernel, limits in (
    ("by_break", "left_by_break", (0, -5, 100, 192, 1000, 2**31 - 1)),
    ("counted_down", "counted_down", (0, -(2**31), 100, 192, 2**31 - 1)),
    ("behind", "left_behind", (-7, 64, 130, 2**31 - 1)),
):
    for number, limit in enumerate(limits):
        count = (
            max(64, min(-(-limit // 64) * 64, 512))
            if name == "behind"
            else max(0, min(-(-limit // 64) * 64, 512))
        )
        case(
            f"left_out_{name}_{number}",
            kernel,
            [A("f16", 2), A("f16", 2), A("f32", 2), Scalar("i32"), 128, 128, 64],
            (2, 1),
            lambda rng, limit=limit: (
                whole(rng, (240, 376), "f16"),
                whole(rng, (376, 120), "f16"),
                like((240, 120), "f32", 7),
                limit,
            ),
            lambda a, b, c, limit, count=count: {2: first_columns(a, b, count).astype("f4")},
        )
for name, rows, columns in (("", [3, 6], [5, 2]), ("_none", [0, -1], [4, 9]), ("_ragged", [1, 7], [1, 3])):
    lengths = np.array([rows, columns], "i4")

    def expected(a: Any, b: Any, lengths: Any, c: Any) -> dict[int, np.ndarray]:
        out = np.zeros(c.shape)
        for i in (0, 1):
            for j in (0, 1):
                steps = max(0, min(lengths[0, i], lengths[1, j], -(-a.shape[1] // 32)))
                place = slice(64 * i, 64 * i + 64), slice(64 * j, 64 * j + 64)
                out[place] = wide(a)[0][place[0], : 32 * steps] @ wide(b)[0][: 32 * steps, place[1]]
                out[place] *= -1 if steps % 2 else 1
        return {3: out.astype("f4")}

    case(
        f"left_out_at_list{name}",
        "left_at_list",
        [A("bf16", 2), A("bf16", 2), A("i32", 2), A("f32", 2), 64, 64, 32],
        (2, 2),
        lambda rng, lengths=lengths: (
            whole(rng, (120, 200), "bf16"),
            whole(rng, (200, 112), "bf16"),
            lengths,
            like((120, 112), "f32", 7),
        ),
        expected,
    )
