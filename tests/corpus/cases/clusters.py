"""Cases of tests/corpus/python/clusters.py: what is divided among CTAs, and what cannot be. Bounds of products are those of
cases/matmul.py and of staged.py; everything else is exact, or bounded as in the family that it resembles.
"""

from __future__ import annotations

import numpy as np

from tests.corpus.case import Array as A
from tests.corpus.case import Family, like, uniform, wide

case = Family("clusters", "python/clusters.py")
F = "f32"
BF16 = {"rtol": 8e-3, "atol": 1e-2}
PRODUCT = {"rtol": 2e-6, "atol": 2e-4}
KNOWN = {"div": 16, "align": 16}


def shared(name, kernel, signature, grid, inputs, expect, **more):
    case(
        f"cluster_{name}",
        kernel,
        signature,
        grid,
        inputs,
        expect,
        **{"version": "13.3", "min_arch": 90, **more},
    )


def operands(m, n, k, out, d="bf16"):
    return lambda rng: (uniform(rng, (m, k), d, -1, 1), uniform(rng, (k, n), d, -1, 1), like((m, n), out))


def product(a, b, c):
    return {2: (wide(a)[0] @ wide(b)[0]).astype("f4").astype(c.dtype)}


for kernel, tile, (m, n, k), blocks in (
    ("product_2", (256, 128, 64), (256, 128, 192), 0),
    ("product_2", (256, 256, 64), (256, 256, 128), 0),
    ("product_2", (128, 128, 64), (200, 136, 136), 0),
    ("product_2", (128, 64, 32), (128, 64, 96), 0),
    ("product_4", (256, 128, 64), (264, 128, 128), 0),
    ("product_4", (256, 256, 64), (200, 248, 192), 0),
    ("product_4", (128, 128, 32), (128, 256, 64), 0),
    ("persistent_2", (128, 64, 32), (200, 264, 96), 3),
):
    suffix = f"{kernel[-1]}_{'x'.join(map(str, tile))}" + ("_ragged" if m % tile[0] else "")
    shared(
        ("persistent_" if blocks else "product_") + suffix,
        kernel,
        [A("bf16", 2, **KNOWN), A("bf16", 2, **KNOWN), A("f32", 2, **KNOWN), *tile],
        (blocks,) if blocks else (-(-m // tile[0]), -(-n // tile[1])),
        operands(m, n, k, "f32"),
        product,
        tags=("large",) if m * n * k > 1 << 21 else (),
        **PRODUCT,
    )

shared(
    "linear_relu",
    "linear_relu",
    [A("f16", 2), A("f16", 2), A("f16", 1), A("f16", 2), 128, 64, 32],
    (2, 2),
    lambda rng: (
        uniform(rng, (72, 136), "f16", -1, 1),
        uniform(rng, (88, 72), "f16", -1, 1),
        uniform(rng, 88, "f16", -1, 1),
        like((88, 136), "f16"),
    ),
    lambda a, b, bias, c: {
        3: np.maximum(a.T.astype("f4") @ b.T.astype("f4") + bias.astype("f4"), 0).T.astype("f2")
    },
    rtol=2e-3,
    atol=2e-3,
)


def attended(q, k, v, o, lse):
    s = np.einsum("hmd,hnd->hmn", wide(q)[0], wide(k)[0]) * 0.18033688
    top = s.max(2, keepdims=True)
    p = np.exp2(s - top)
    total = p.sum(2, keepdims=True)
    out = np.einsum("hmn,hnd->hmd", p / total, wide(v)[0])
    return {3: out.astype(o.dtype), 4: (top + np.log2(total))[..., 0].astype("f4")}


shared(
    "attention",
    "attention",
    [A("f16", 3, **KNOWN)] * 4 + [A(F, 2), 128, 64, 64],
    (2, 2),
    lambda rng: (
        uniform(rng, (2, 200, 64), "f16", -1, 1),
        uniform(rng, (2, 144, 64), "f16", -1, 1),
        uniform(rng, (2, 144, 64), "f16", -1, 1),
        like((2, 200, 64), "f16"),
        like((2, 200), F),
    ),
    attended,
    rtol=4e-3,
    atol=4e-3,
)
for n, tile, size in ((2, 1024, 2000), (4, 256, 700), (4, 4, 10)):
    shared(
        f"add_{n}_{tile}",
        f"add_{n}",
        [A(F, 1)] * 3 + [tile],
        (-(-size // tile),),
        lambda rng, size=size: (uniform(rng, size, F), uniform(rng, size, F), like(size, F)),
        lambda x, y, z: {2: x + y},
    )


def softmax(x, y):
    v = x.astype("f8")
    e = np.exp(v - v.max(1, keepdims=True))
    return {1: (e / e.sum(1, keepdims=True)).astype(y.dtype)}


ROWS = {"rtol": 1e-5, "atol": 1e-6}
shared("softmax_rows", "softmax_rows", [A(F, 2), A(F, 2), 16, 256], (3,),
       lambda rng: (uniform(rng, (40, 200), F), like((40, 200), F)), softmax, **ROWS)  # fmt: skip
shared("scale_in_place", "scale_in_place", [A(F, 2), 16, 64], (3,),
       lambda rng: (uniform(rng, (40, 50), F),),
       lambda x: {0: ((x * np.float32(2) + np.float32(1)) * 2 + 1) * 2 + np.float32(1)}, **ROWS)  # fmt: skip


def gathered(x, rows, y):
    v = x[rows]
    v[1::2] *= -1
    return {2: v}


shared("gather_rows", "gather_rows", [A(F, 2), A("i32", 1), A(F, 2), 16, 32], (2,),
       lambda rng: (uniform(rng, (50, 32), F), rng.integers(0, 50, 30).astype("i4"), like((30, 32), F)),
       gathered)  # fmt: skip
shared("branches", "branches", [A(F, 1), A(F, 1), 256], (3,),
       lambda rng: (uniform(rng, 600, F, -1, 1), like(600, F)),
       lambda x, y: {1: (x * 2 if x[0] > 0 else x - np.float32(1)) / np.float32(16)})  # fmt: skip

# ---- one CTA all the same
shared("softmax_row_refused", "softmax_row", [A(F, 2), A(F, 2), 256], (5,),
       lambda rng: (uniform(rng, (5, 200), F), like((5, 200), F)), softmax, **ROWS)  # fmt: skip


def shifted(x):
    y = x.copy().reshape(-1, 2, 128)
    y[:, 0] += 1
    y[:, 1] = y[:, 0, ::-1]
    return {0: y.reshape(-1)}


shared("order_refused", "shifted_in_place", [A(F, 1), 128], (2,),
       lambda rng: (uniform(rng, 512, F),), shifted)  # fmt: skip
shared("atomics_refused", "counted", [A("i32", 1), A("i32", 1), 128, 8], (2,),
       lambda rng: (rng.integers(0, 100, 256).astype("i4"), np.zeros(8, "i4")),
       lambda x, counts: {1: np.bincount(x % 8, minlength=8).astype("i4")})  # fmt: skip
