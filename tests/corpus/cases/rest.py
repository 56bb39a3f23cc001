"""The rest of the keys, or of K, in a branch behind a loop: there, none, and nothing but a rest. Tolerances as in matmul.py."""

from __future__ import annotations

import numpy as np

from tests.corpus.case import Array, Family, Scalar, like, uniform, wide
from tests.corpus.cases.matmul import F32

rest = Family("rest", "python/rest.py")


def A(dtype: str, ndim: int) -> Array:
    return Array(dtype, ndim, div=16)


def attended(q, k, v, o, sums, scale):
    x, y, z = (wide(t)[0] for t in (q, k, v))
    s = x @ y.transpose(0, 2, 1) * float(scale)
    high = s.max(2, keepdims=True)
    e = np.exp(s - high)
    total = e.sum(2, keepdims=True)
    logs = ((high + np.log(total)) / np.log(2.0))[:, :, 0]
    return {3: (e / total @ z).astype(o.dtype), 4: logs.astype("f4")}


for name, d, (m, n, depth), (rows, keys) in (
    ("keys", "f16", (128, 64, 128), (144, 176)),
    ("keys_none", "bf16", (128, 64, 64), (144, 128)),
    ("keys_alone", "bf16", (64, 64, 64), (80, 48)),
):
    rest(
        f"rest_{name}",
        "rest_keys",
        [A(d, 3)] * 4 + [A("f32", 2), Scalar("f32"), m, n, depth],
        (-(-rows // m), 2),
        lambda rng, d=d, rows=rows, keys=keys, depth=depth: (
            uniform(rng, (2, rows, depth), d, -1, 1),
            uniform(rng, (2, keys, depth), d, -1, 1),
            uniform(rng, (2, keys, depth), d, -1, 1),
            like((2, rows, depth), d),
            like((2, rows)),
            np.float32(depth**-0.5),
        ),
        attended,
        rtol=1.6e-2,
        atol=8e-3,
    )

for name, kernel, d, (m, n, k), deep, grid in (
    ("of_k", "rest_of_k", "f16", (128, 128, 64), 208, (2, 2)),
    ("of_k_none", "rest_of_k", "bf16", (64, 128, 32), 96, (3, 2)),
    ("of_k_alone", "rest_of_k", "bf16", (128, 64, 64), 48, (2, 3)),
    ("in_turn", "rest_in_turn", "bf16", (128, 128, 64), 176, (3,)),
):
    rest(
        f"rest_{name}",
        kernel,
        [A(d, 2), A(d, 2), A("f32", 2), m, n, k],
        grid,
        lambda rng, d=d, deep=deep, turned=kernel == "rest_in_turn": (
            uniform(rng, (144, deep), d, -1, 1),
            uniform(rng, (144, deep) if turned else (deep, 144), d, -1, 1),
            like((144, 144)),
        ),
        lambda a, b, c, turned=kernel == "rest_in_turn": {
            2: (wide(a)[0] @ (wide(b)[0].T if turned else wide(b)[0])).astype("f4")
        },
        **F32,
    )
