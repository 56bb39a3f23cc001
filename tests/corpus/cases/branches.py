"""Loops of products with branches: what a flag ends, what a mode chooses, what both sides of a branch multiply, and sums that a
branch changes every few steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.corpus.case import DTYPES, Array, Family, Scalar, like, uniform, wide
from tests.corpus.cases.cpp_algorithms import PRODUCT

case = Family("branches", "python/branches.py")


def A(dtype: str, ndim: int = 2) -> Array:
    return Array(dtype, ndim, div=16)


def whole(rng: np.random.Generator, shape: Any, dtype: str) -> np.ndarray:
    return rng.integers(-3, 4, shape).astype(DTYPES[dtype])


def steps(a: Any, b: Any, depth: int) -> list[np.ndarray]:
    """The product of each step over K."""
    x, y = wide(a)[0], wide(b)[0]
    return [x[:, k : k + depth] @ y[k : k + depth] for k in range(0, x.shape[1], depth)]


def rows_of(flags: Any, step: int, height: int, rows: int) -> np.ndarray:
    """The flag of a step for each row of the result."""
    return np.repeat(np.asarray(flags)[:, step], height)[:rows, None]


def until_zero(depth: int, height: int, behind: bool, limit: int = 2**31 - 1) -> Any:
    def expected(a: Any, b: Any, flags: Any, *rest: Any) -> dict[int, np.ndarray]:
        out = np.zeros((a.shape[0], b.shape[1]))
        runs = np.ones((a.shape[0], 1), bool)
        for k, product in enumerate(steps(a, b, depth)):
            flag = rows_of(flags, k, height, a.shape[0]) != 0
            runs &= k * depth < limit
            if not behind:
                runs &= flag
            out += np.where(runs, product, 0)
            if behind:
                runs &= flag
        return {2 + len(rest): out.astype("f4")}

    return expected


ENDS = {
    "": [[1, 1, 0, 1, 1, 1], [1, 1, 1, 1, 5, 0]],
    "_none": [[0, 1, 1, 1, 1, 1]] * 2,
    "_all": np.ones((2, 6)),
}
for name, d, tile in (
    ("", "f16", (128, 128, 64)),
    ("_none", "bf16", (64, 64, 32)),
    ("_all", "bf16", (128, 64, 64)),
):
    flags = np.array(ENDS[name], "i4")
    m, n, k = tile
    inputs = lambda rng, d=d, m=m, n=n, k=k: (  # noqa: E731
        whole(rng, (2 * m - 16, 6 * k - 8), d), whole(rng, (6 * k - 8, n - 8), d)
    )  # fmt: skip
    case(
        f"ends_at_flag{name}",
        "ends_at_flag",
        [A(d), A(d), A("i32"), A("f32"), *tile],
        (2, 1),
        lambda rng, inputs=inputs, flags=flags, m=m, n=n: (
            *inputs(rng), flags, like((2 * m - 16, n - 8), "f32", 7),
        ),
        until_zero(k, m, False),
    )  # fmt: skip
    for limit in (2**31 - 1, 3 * k) if name != "_none" else (2**31 - 1,):
        case(
            f"ends_behind_flag{name}{'' if limit > 1 << 20 else '_limit'}",
            "ends_behind_flag",
            [A(d), A(d), A("i32"), Scalar("i32"), A("f32"), *tile],
            (2, 1),
            lambda rng, inputs=inputs, flags=flags, m=m, n=n, limit=limit: (
                *inputs(rng), flags, limit, like((2 * m - 16, n - 8), "f32", 7),
            ),
            until_zero(k, m, True, limit),
        )  # fmt: skip


def paged(q: Any, keys: Any, values: Any, pages: Any, o: Any, scale: float) -> dict[int, np.ndarray]:
    out = np.zeros(o.shape)
    for h, row in enumerate(pages):
        used = row[: list(row).index(-1)] if -1 in row else row
        k, v = (np.concatenate([wide(x)[0][p] for p in used]) for x in (keys, values))
        s = wide(q)[0][h] @ k.T * float(scale)
        p = np.exp2(s - s.max(axis=1, keepdims=True))
        out[h] = p @ v / p.sum(axis=1, keepdims=True)
    return {4: out.astype(o.dtype)}


for name, d, (m, n, depth) in (("", "bf16", (128, 64, 128)), ("_64", "f16", (64, 64, 64))):
    case(
        f"pages_to_end{name}",
        "pages_to_end",
        [A(d, 3), A(d, 3), A(d, 3), A("i32"), A("f32", 3), Scalar("f32"), m, n, depth],
        (2, 1),
        lambda rng, d=d, m=m, n=n, depth=depth: (
            uniform(rng, (2, m, depth), d, -1, 1),
            uniform(rng, (6, n, depth), d, -1, 1),
            uniform(rng, (6, n, depth), d, -1, 1),
            np.array([[3, 0, 5, -1, 2, 2], [1, 4, 2, 0, 3, 5]], "i4"),
            like((2, m, depth)),
            np.float32(0.125),
        ),
        paged,
        rtol=8e-3,
        atol=8e-3,
    )


def of_mode(mode: int, both: bool) -> Any:
    def expected(a: Any, b: Any, turned: Any, c: Any, _: Any) -> dict[int, np.ndarray]:
        x, y, z = (wide(v)[0] for v in (a, b, turned))
        right = y if mode == 0 else z.T if mode == 1 or not both else y + z.T
        return {3: (x @ right).astype("f4")}

    return expected


for mode in (0, 1, 2):
    for kernel, grid in (("right_by_mode", (2, 2)), ("products_by_mode", (2,))):
        if kernel == "products_by_mode" or mode < 2:
            case(
                f"{kernel}_{mode}",
                kernel,
                [A("bf16"), A("bf16"), A("bf16"), A("f32"), Scalar("i32"), 128, 64, 64],
                grid,
                lambda rng, mode=mode: (
                    whole(rng, (240, 376), "bf16"), whole(rng, (376, 120), "bf16"), whole(rng, (120, 376), "bf16"),
                    like((240, 120), "f32", 7), mode,
                ),
                of_mode(mode, kernel == "products_by_mode"),
            )  # fmt: skip


def chosen(depth: int, height: int) -> Any:
    def expected(a: Any, b: Any, other: Any, flags: Any, c: Any) -> dict[int, np.ndarray]:
        out = np.zeros(c.shape)
        for k, pair in enumerate(zip(steps(a, b, depth), steps(a, other.T, depth))):
            out += np.where(rows_of(flags, k, height, a.shape[0]) != 0, *pair)
        taken = np.repeat((flags != 0).sum(axis=1), height)[: a.shape[0], None]
        return {4: (out * taken).astype(c.dtype)}

    return expected


for name, d, (m, n, k) in (("", "bf16", (128, 128, 64)), ("_64", "f16", (64, 64, 64))):
    case(
        f"chosen_products{name}",
        "chosen_products",
        [A(d), A(d), A(d), A("i32"), A("f32"), m, n, k],
        (2, 1),
        lambda rng, d=d, m=m, n=n, k=k: (
            whole(rng, (2 * m - 16, 6 * k - 8), d), whole(rng, (6 * k - 8, n), d), whole(rng, (n, 6 * k - 8), d),
            np.array([[1, 0, 1, 1, 0, 1], [0, 0, 1, 0, 1, 1]], "i4"), like((2 * m - 16, n), "f32", 7),
        ),
        chosen(k, m),
    )  # fmt: skip

for name, d, out, tile in (
    ("", "f16", "f32", (128, 128, 64)),
    ("_small", "bf16", "f32", (64, 64, 32)),
    ("_i8", "i8", "i32", (128, 64, 64)),
    ("_f64", "f64", "f64", (64, 32, 32)),
    ("_f16", "f16", "f16", (64, 64, 32)),  # three steps of 32 products of at most nine: f16 holds them
):
    m, n, k = tile
    case(
        f"two_sums_in_turn{name}",
        "two_sums_in_turn",
        [A(d), A(d), A(out), A(out), *tile, {"f32": 0, "i32": 1, "f64": 2, "f16": 3}[out]],
        (2, 1),
        lambda rng, d=d, out=out, m=m, n=n, k=k: (
            whole(rng, (2 * m - 16, 5 * k - 16), d), whole(rng, (5 * k - 16, n), d),
            like((2 * m - 16, n), out, 7), like((2 * m - 16, n), out, 7),
        ),
        lambda a, b, c, d, k=k: {
            2 + odd: np.sum(steps(a, b, k)[odd::2], axis=0).astype(c.dtype) for odd in (0, 1)
        },
    )  # fmt: skip


def by_flags(depth: int, height: int, anew: bool) -> Any:
    def expected(a: Any, b: Any, flags: Any, c: Any) -> dict[int, np.ndarray]:
        out = np.zeros(c.shape)
        for k, product in enumerate(steps(a, b, depth)):
            on = rows_of(flags, k, height, a.shape[0]) != 0
            out = np.where(on, out + product, product if anew else out - product)
        return {3: out.astype(c.dtype)}

    return expected


for kernel in ("added_or_taken", "begun_anew"):
    for name, d, (m, n, k) in (("", "bf16", (128, 128, 64)), ("_64", "f16", (64, 64, 64))):
        case(
            f"{kernel}{name}",
            kernel,
            [A(d), A(d), A("i32"), A("f32"), m, n, k],
            (2, 1),
            lambda rng, d=d, m=m, n=n, k=k: (
                whole(rng, (2 * m - 16, 6 * k - 8), d), whole(rng, (6 * k - 8, n), d),
                np.array([[1, 0, 1, 1, 0, 1], [0, 0, 1, 0, 1, 1]], "i4"), like((2 * m - 16, n), "f32", 7),
            ),
            by_flags(k, m, kernel == "begun_anew"),
        )  # fmt: skip


def halved(depth: int) -> Any:
    def expected(a: Any, b: Any, c: Any) -> dict[int, np.ndarray]:
        out = np.zeros(c.shape)
        for k, product in enumerate(steps(a, b, depth)):
            out = (out + product) * (0.5 if k % 3 == 2 else 1)
        return {2: out.astype(c.dtype)}

    return expected


for kernel in ("halved_every_third", "promoted"):
    for name, d, (m, n, k) in (
        ("", "bf16", (128, 128, 64)),
        ("_64", "f16", (64, 64, 64)),
        ("_e4m3", "e4m3", (128, 128, 64)),
    ):
        case(
            f"{kernel}{name}",
            kernel,
            [A(d), A(d), A("f32"), m, n, k],
            (2, 1),
            lambda rng, d=d, m=m, n=n, k=k: (
                whole(rng, (2 * m - 16, 7 * k - 16), d), whole(rng, (7 * k - 16, n), d), like((2 * m - 16, n), "f32", 7),
            ),
            halved(k) if kernel == "halved_every_third" else lambda a, b, c: {2: (wide(a)[0] @ wide(b)[0]).astype("f4")},
            **({"min_arch": 90} if d == "e4m3" else {}),
        )  # fmt: skip


# ---- Tile C++
cpp = Family("cpp_branches", "cpp/branches.cu")
i4 = np.int32
PLACES = {"": [3, 0, 7, 5, -1, 2, 6, 4], "_none": [-1, 1, 1, 1, 1, 1, 1, 1], "_all": [0, 6, 1, 5, 2, 7, 3, 4]}


def listed(entry: str, name: str, takes: Any, *more: Any) -> None:
    places = np.array(PLACES[name], i4)

    def expected(a: Any, b: Any, c: Any, *_: Any) -> dict[int, np.ndarray]:
        x, y = wide(a)[0], wide(b)[0]
        taken = takes(places, *more)
        out = sum((x[:, 32 * p : 32 * p + 32] @ y[32 * p : 32 * p + 32] for p in taken), np.zeros(c.shape))
        return {2: (out * (len(taken) if entry in ("br_counted", "br_while") else 1)).astype("f4")}

    cpp(
        f"cpp_{entry}{name}",
        entry,
        [],
        (2, 1),
        lambda rng: (
            whole(rng, (80, 240), "bf16"), whole(rng, (240, 64), "bf16"), like((80, 64), "f32", 7), places,
            i4(80), i4(64), i4(240), i4(len(places)), *map(i4, more),
        ),
        expected,
        module="cpp_branches",
        **PRODUCT,
    )  # fmt: skip


def forwards(places: Any) -> list[int]:
    return [int(p) for n, p in enumerate(places) if (places[: n + 1] >= 0).all()]


def backwards(places: Any, least: int) -> list[int]:
    found: list[int] = []
    for p, q in zip(places[::-1], places):
        if p < 0 or p + q <= least:
            break
        found.append(int(p))
    return found


for name in PLACES:
    listed("br_listed", name, forwards)
    listed("br_backwards", name, backwards, 5)
    listed("br_counted", name, forwards)
    listed("br_while", name, forwards)


def in_turn(mode: int) -> Any:
    def expected(a: Any, b: Any, c: Any, other: Any, d: Any, *_: Any) -> dict[int, np.ndarray]:
        products = steps(a, b if mode == 0 else other, 32)
        even, odd = (
            (sum(products[::2]), -sum(products[1::2])) if mode == 0 else (sum(products), np.zeros(c.shape))
        )
        return {2: np.asarray(even, "f4"), 4: np.asarray(odd, "f4")}

    return expected


for mode in (0, 1):
    cpp(
        f"cpp_br_in_turn_{mode}",
        "br_in_turn",
        [],
        (2, 1),
        lambda rng, mode=mode: (
            whole(rng, (80, 240), "bf16"), whole(rng, (240, 64), "bf16"), like((80, 64), "f32", 7), whole(rng, (240, 64), "bf16"),
            like((80, 64), "f32", 7), i4(80), i4(64), i4(240), i4(mode),
        ),
        in_turn(mode),
        module="cpp_branches",
        **PRODUCT,
    )  # fmt: skip
