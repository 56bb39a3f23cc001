"""Cases of tests/corpus/python/batches.py: what runs batch by batch, for warpgroups and tensor memory, and what does not. Bounds
as in cases/matmul.py and cases/algorithms.py. Batches, rows, columns and depth end inside a tile.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.corpus.case import Array, Family, Scalar, like, uniform, wide
from tests.corpus.cases.algorithms import attended
from tests.corpus.cases.matmul import F32

case = Family("batches", "python/batches.py")


def A(dtype: str, ndim: int) -> Array:
    return Array(dtype, ndim, div=16)


def product(*values: Any) -> dict[int, np.ndarray]:
    a, b, c = values
    return {2: (wide(a)[0] @ wide(b)[0]).astype(c.dtype)}


def turned(*values: Any) -> dict[int, np.ndarray]:
    a, b, c = values
    return {2: (wide(a)[0] @ wide(b)[0].transpose(0, 2, 1)).astype(c.dtype)}


for name, kernel, d, tile, grid in (
    ("batches", "batches", "f16", (2, 64, 64, 32), (2, 2, 2)),
    ("batches_of_four", "batches", "bf16", (4, 128, 64, 64), (2, 2, 1)),
    ("batches_of_few_rows", "batches_persistent", "bf16", (2, 32, 64, 64), (3,)),
    ("batches_of_short_steps", "batches", "f16", (2, 64, 64, 16), (2, 2, 2)),
    ("batches_too_small", "batches", "bf16", (4, 32, 32, 32), (2, 2, 1)),
):
    B, M, N, K = tile
    case(
        name,
        kernel,
        [A(d, 3), A(d, 3), A("f32", 3), *tile],
        grid,
        lambda rng, d=d, B=B, M=M, N=N, K=K, t=kernel == "batches_persistent": (
            uniform(rng, (B + (B == 2), M + 16, 3 * K + 16), d, -1, 1),
            uniform(rng, (B + (B == 2), *((N + 16, 3 * K + 16) if t else (3 * K + 16, N + 16))), d, -1, 1),
            like((B + (B == 2), M + 16, N + 16)),
        ),
        turned if kernel == "batches_persistent" else product,
        **F32,
    )
case(
    "batches_attention",
    "batches_attention",
    [A("f16", 3), A("f16", 3), A("f16", 3), A("f32", 3), Scalar("f32"), 2, 64, 32, 64],
    (2, 2),
    lambda rng: (
        uniform(rng, (3, 80, 64), "f16", -1, 1),
        uniform(rng, (3, 80, 64), "f16", -1, 1),
        uniform(rng, (3, 80, 64), "f16", -1, 1),
        like((3, 80, 64)),
        np.float32(64**-0.5),
    ),
    attended(0),
    rtol=2e-3,
    atol=2e-3,
)
case(
    "batches_with_one_left",
    "batches_with_one_left",
    [A("f16", 2), A("f16", 3), A("f32", 3), 2, 64, 64, 32],
    (1, 2, 2),
    lambda rng: (
        uniform(rng, (64, 112), "f16", -1, 1),
        uniform(rng, (3, 112, 80), "f16", -1, 1),
        like((3, 64, 80)),
    ),
    product,
    **F32,
)
case(
    "batches_added",
    "batches_added",
    [A("f16", 3), A("f16", 3), A("f32", 2), 2, 64, 64, 32],
    (2, 1),
    lambda rng: (
        uniform(rng, (2, 80, 112), "f16", -1, 1),
        uniform(rng, (2, 112, 64), "f16", -1, 1),
        like((80, 64)),
    ),
    lambda a, b, c: {2: (wide(a)[0] @ wide(b)[0]).sum(0).astype(c.dtype)},
    **F32,
)
