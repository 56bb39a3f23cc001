"""Products outside of loops: tensor memory multiplies them where it pays. Tolerances as in matmul.py and staged.py."""

from __future__ import annotations

import numpy as np

from tests.corpus.case import DTYPES, Array, Family, Scalar, like, uniform, wide
from tests.corpus.cases.matmul import F32

once = Family("once", "python/once.py")


def A(dtype: str, ndim: int) -> Array:
    return Array(dtype, ndim, div=16)


def over_one_tile(q, k, v, o, scale):
    x, y, z = (wide(t)[0] for t in (q, k, v))
    s = x @ y.transpose(0, 2, 1) * float(scale)
    e = np.exp(s - s.max(2, keepdims=True))
    return {3: (e / e.sum(2, keepdims=True) @ z).astype(o.dtype)}


for name, d, (m, n, depth), (rows, keys) in (
    ("cross", "bf16", (128, 64, 64), (208, 64)),
    ("cross_ragged", "f16", (128, 128, 64), (144, 80)),
    ("cross_64", "bf16", (64, 64, 128), (80, 48)),
    ("cross_256", "f16", (256, 64, 64), (272, 64)),
    ("cross_few", "f16", (32, 64, 64), (48, 64)),
):
    once(
        f"once_{name}",
        "cross",
        [A(d, 3)] * 4 + [Scalar("f32"), m, n, depth],
        (-(-rows // m), 2),
        lambda rng, d=d, rows=rows, keys=keys, depth=depth: (
            uniform(rng, (2, rows, depth), d, -1, 1),
            uniform(rng, (2, keys, depth), d, -1, 1),
            uniform(rng, (2, keys, depth), d, -1, 1),
            like((2, rows, depth), d),
            np.float32(depth**-0.5),
        ),
        over_one_tile,
        rtol=1.6e-2,
        atol=8e-3,
    )

for name, d, (m, n, k), (rows, columns, deep), tol in (
    ("f16", "f16", (128, 128, 64), (144, 272, 48), F32),
    ("bf16_deep", "bf16", (128, 64, 256), (160, 80, 256), F32),
    ("e4m3", "e4m3", (64, 128, 128), (80, 144, 112), {"rtol": 1e-2, "atol": 2e-2}),
):
    once(
        f"once_deep_{name}",
        "one_deep",
        [A(d, 2), A(d, 2), A("f32", 2), A("f32", 2), m, n, k],
        (-(-rows // m), -(-columns // n)),
        lambda rng, d=d, rows=rows, columns=columns, deep=deep: (
            uniform(rng, (rows, deep), d, -1, 1),
            uniform(rng, (deep, columns), d, -1, 1),
            uniform(rng, (rows, columns), "f32", -1, 1),
            like((rows, columns)),
        ),
        lambda a, b, r, c: {3: (wide(a)[0] @ wide(b)[0] + r).astype("f4")},
        min_arch=90 if d == "e4m3" else 75,
        tags=("fp8",) if d == "e4m3" else (),
        **tol,
    )


def rows_in_turn(a, b, d, s, c):
    x, y, z = (wide(t)[0] for t in (a, b, d))
    scaled = (x * wide(s)[0][: len(x), None]).astype(DTYPES["f16"])
    first = np.maximum(wide(scaled)[0] @ y, 0.0)
    return {4: (wide(first.astype(DTYPES["f16"]))[0] @ z + first + x).astype("f4")}


once(
    "once_in_a_row",
    "in_a_row",
    [A("f16", 2), A("f16", 2), A("f16", 2), A("f32", 1), A("f32", 2), 128, 64],
    (2,),
    lambda rng: (
        uniform(rng, (208, 64), "f16", -1, 1),
        uniform(rng, (64, 64), "f16", -0.25, 0.25),
        uniform(rng, (64, 64), "f16", -0.25, 0.25),
        uniform(rng, 256, "f32", 0.5, 2),
        like((208, 64)),
    ),
    rows_in_turn,
    rtol=1e-2,
    atol=1e-2,
)
