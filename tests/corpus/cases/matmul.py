"""Matrix products. Products of f16, bf16, tf32 and fp8 are exact in f32; only the additions round. Summing K
products in f32 in any order errs by at most K * 2^-24 * sum |a b|; with |a|, |b| <= 2 and K <= 256 the
sum is below 1024 and in practice near 2 sqrt(K): 1e-4 absolute is some ten times what is seen. Tensor
cores may drop low bits of the addition (truncation): the bound covers a few ULP per step. f16 outputs add
half an ULP (5e-4).
"""

from __future__ import annotations

import numpy as np

from tests.corpus.case import DTYPES, Family, ListOf, integers, like, uniform, wide
from tests.corpus.case import Array as A

case = Family("matmul", "python/matmul.py")
first = ("first",)
F32, OUT16 = {"rtol": 2e-6, "atol": 1e-4}, {"rtol": 1e-3, "atol": 1e-3}


def product(dtype):
    return lambda a, b, c: {
        2: (wide(a)[0] @ wide(b)[0]).astype("f4" if dtype != "f64" else "f8").astype(c.dtype)
    }


def operands(m, n, k, d, out):
    return lambda rng: (uniform(rng, (m, k), d, -1, 1), uniform(rng, (k, n), d, -1, 1), like((m, n), out))


for name, d, out, tile, (m, n, k), tol, tags in (
    ("f16_f32", "f16", "f32", (32, 32, 32), (64, 64, 96), F32, first),
    ("f16_ragged", "f16", "f16", (32, 64, 16), (50, 70, 40), OUT16, first),
    ("f16_128", "f16", "f16", (128, 128, 64), (128, 128, 128), OUT16, ("large",)),
    ("f16_small", "f16", "f32", (16, 8, 16), (16, 8, 16), F32, first),
    ("bf16_f32", "bf16", "f32", (64, 32, 32), (64, 64, 64), F32, ()),
    ("bf16_bf16", "bf16", "bf16", (32, 32, 32), (40, 40, 40), {"rtol": 8e-3, "atol": 1e-2}, ()),
    ("f32", "f32", "f32", (32, 32, 16), (64, 48, 80), F32, first),
    ("f32_tiny", "f32", "f32", (4, 4, 4), (10, 6, 7), F32, first),
):
    grid = (-(-m // tile[0]), -(-n // tile[1]))
    case(
        f"matmul_{name}",
        "matmul",
        [A(d, 2), A(d, 2), A(out, 2), *tile],
        grid,
        operands(m, n, k, d, out),
        product(d),
        tags=tags,
        **tol,
    )
for d, _arch in (("e4m3", 89), ("e5m2", 89)):
    case(
        f"matmul_{d}",
        "matmul",
        [A(d, 2), A(d, 2), A("f32", 2), 32, 32, 32],
        (2, 1),
        operands(64, 32, 64, d, "f32"),
        product(d),
        min_arch=90,
        rtol=1e-2,
        atol=2e-2 if d == "e4m3" else 5e-2,
        tags=("fp8",),
    )


def as_tf32(x):
    """Rounded to 10 fraction bits, to nearest even."""
    bits = x.view(np.uint32).astype(np.uint64)
    bits = (bits + 0xFFF + ((bits >> 13) & 1)) & 0xFFFFE000
    return bits.astype(np.uint32).view(np.float32)


case(
    "matmul_tf32",
    "matmul_tf32",
    [A("f32", 2)] * 3 + [32, 32, 32],
    (2, 2),
    operands(64, 50, 64, "f32", "f32"),
    lambda a, b, c: {2: (wide(as_tf32(a))[0] @ wide(as_tf32(b))[0]).astype("f4")},
    **F32,
)
case(
    "matmul_f64",
    "matmul_f64",
    [A("f64", 2)] * 3 + [16, 16, 16],
    (2, 2),
    operands(32, 30, 40, "f64", "f64"),
    product("f64"),
    rtol=1e-13,
    atol=1e-13,
)
case(
    "matmul_f16_acc",
    "matmul_f16_acc",
    [A("f16", 2)] * 3 + [16, 16, 16],
    (1, 2),
    operands(16, 32, 32, "f16", "f16"),
    product("f16"),
    rtol=1e-2,
    atol=1e-2,
)
for d in ("i8", "u8"):
    case(
        f"matmul_{d}",
        "matmul_int8",
        [A(d, 2), A(d, 2), A("i32", 2), 32, 32, 64],
        (2, 1),
        lambda rng, d=d: (integers(rng, (64, 96), d), integers(rng, (96, 32), d), like((64, 32), "i32")),
        lambda a, b, c: {2: a.astype("i4") @ b.astype("i4")},
    )
case(
    "matmul_nt",
    "matmul_nt",
    [A("f16", 2), A("f16", 2), A("f32", 2), 32, 32, 32],
    (2, 2),
    lambda rng: (uniform(rng, (64, 64), "f16", -1, 1), uniform(rng, (50, 64), "f16", -1, 1), like((64, 50))),
    lambda a, b, c: {2: (wide(a)[0] @ wide(b)[0].T).astype("f4")},
    tags=first,
    **F32,
)
case(
    "matmul_tn",
    "matmul_tn",
    [A("f16", 2), A("f16", 2), A("f32", 2), 32, 32, 32],
    (2, 2),
    lambda rng: (uniform(rng, (64, 64), "f16", -1, 1), uniform(rng, (64, 50), "f16", -1, 1), like((64, 50))),
    lambda a, b, c: {2: (wide(a)[0].T @ wide(b)[0]).astype("f4")},
    tags=first,
    **F32,
)


def linear(a, w, bias, c):
    v = wide(a)[0] @ wide(w)[0] + wide(bias)[0]
    return {
        3: (0.5 * v * (1 + np.tanh(0.7978845608028654 * (v + 0.044715 * v**3)))).astype("f4").astype(c.dtype)
    }


case(
    "linear_gelu",
    "linear_gelu",
    [A("f16", 2), A("f16", 2), A("f16", 1), A("f16", 2), 32, 32, 32],
    (2, 2),
    lambda rng: (
        uniform(rng, (64, 64), "f16", -1, 1),
        uniform(rng, (64, 64), "f16", -1, 1),
        uniform(rng, 64, "f16"),
        like((64, 64), "f16"),
    ),
    linear,
    **OUT16,
)
case(
    "matmul_batched",
    "batched",
    [A("f16", 3), A("f16", 3), A("f32", 3), 16, 32, 16],
    (2, 1, 3),
    lambda rng: (
        uniform(rng, (3, 30, 40), "f16", -1, 1),
        uniform(rng, (3, 40, 32), "f16", -1, 1),
        like((3, 30, 32)),
    ),
    product("f16"),
    **F32,
)
case(
    "matmul_batched_tile",
    "batched_tile",
    [A("f16", 3), A("f16", 3), A("f32", 3), 4, 16, 16, 32],
    (1,),
    lambda rng: (
        uniform(rng, (4, 16, 32), "f16", -1, 1),
        uniform(rng, (4, 32, 16), "f16", -1, 1),
        like((4, 16, 16)),
    ),
    product("f16"),
    **F32,
)
case(
    "matmul_split_k",
    "split_k",
    [A("f16", 2), A("f16", 2), A("f32", 2), 32, 32, 16, 3],
    (1, 2, 3),
    operands(32, 50, 112, "f16", "f32"),
    product("f16"),
    **F32,
)
case(
    "matmul_persistent",
    "persistent",
    [A("f16", 2), A("f16", 2), A("f32", 2), 32, 32, 32],
    (3,),
    operands(80, 80, 64, "f16", "f32"),
    product("f16"),
    **F32,
)
case(
    "matmul_grouped_order",
    "grouped_order",
    [A("f16", 2), A("f16", 2), A("f16", 2), 32, 32, 32, 2],
    (9,),
    operands(96, 90, 32, "f16", "f16"),
    product("f16"),
    **OUT16,
)

SIZES = ((32, 40, 32), (70, 32, 16), (16, 16, 64))


def group(rng):
    return (
        [uniform(rng, (m, k), "f16", -1, 1) for m, n, k in SIZES],
        [uniform(rng, (k, n), "f16", -1, 1) for m, n, k in SIZES],
        [like((m, n)) for m, n, k in SIZES],
    )


case(
    "matmul_grouped",
    "grouped",
    [ListOf(A("f16", 2)), ListOf(A("f16", 2)), ListOf(A("f32", 2)), 32, 32, 32],
    (6,),
    group,
    lambda a, b, c: {2: [(wide(x)[0] @ wide(y)[0]).astype("f4") for x, y in zip(a, b)]},
    tags=("lists",),
    **F32,
)


def routed(rng):
    """48 rows over 3 experts in tiles of 16: an unfilled slot of a tile holds a row number past the end."""
    order = np.full(64, 1 << 20, "i4")
    slots = np.concatenate([np.arange(16), 16 + np.arange(10), 32 + np.arange(16), 48 + np.arange(6)])
    order[slots] = rng.permutation(48).astype("i4")
    return (
        uniform(rng, (48, 40), "f16", -1, 1),
        uniform(rng, (3, 40, 32), "f16", -1, 1),
        order,
        np.array([2, 0, 1, 0], "i4"),
        like((48, 32)),
    )


def moe(x, w, order, expert, y):
    out = np.zeros(y.shape)
    for slot, row in enumerate(order):
        if row < 48:
            out[row] = wide(x[row])[0] @ wide(w[expert[slot // 16]])[0]
    return {4: out.astype("f4")}


case(
    "matmul_experts",
    "experts",
    [A("f16", 2), A("f16", 3), A("i32", 1), A("i32", 1), A("f32", 2), 16, 32, 32],
    (4, 1),
    routed,
    moe,
    **F32,
)
case(
    "matvec",
    "matvec",
    [A("f32", 2), A("f32", 1), A("f32", 1), 16, 64],
    (3,),
    lambda rng: (uniform(rng, (40, 150)), uniform(rng, 150), like(40)),
    lambda a, x, y: {2: (wide(a)[0] @ wide(x)[0]).astype("f4")},
    **F32,
)


def scales(rng, shape):
    return np.exp2(rng.integers(-3, 4, shape)).astype(DTYPES["e8m0"])


def any_scales(rng, shape):
    """Every scale that there is, NaN in one of 64."""
    codes = np.where(rng.random(shape) < 1 / 64, 255, rng.integers(0, 255, shape))
    return codes.astype("u1").view(DTYPES["e8m0"])


def scaled(a, sa, b, sb, c):
    total = np.zeros(c.shape, "f4")
    for n in range(2):
        at = slice(32 * n, 32 * n + 32)
        part = (wide(a)[0][:, at] @ wide(b)[0][at]).astype("f4").astype("f8")
        factor = wide(sa)[0][:, n : n + 1].astype("f8") * wide(sb)[0][n : n + 1]
        with np.errstate(over="ignore"):
            total = (total + part * factor).astype("f4")
    return {4: total}


for d in ("e4m3", "e5m2"):
    for which, make in (("", scales), ("_any_scale", any_scales)):
        case(
            f"mma_scaled_{d}{which}",
            "scaled_fp8",
            [A(d, 2), A("e8m0", 2), A(d, 2), A("e8m0", 2), A("f32", 2), 16, 16, 64],
            (1,),
            lambda rng, d=d, which=which, make=make: (
                uniform(
                    rng, (16, 64), d, 0 if which else -1, 1
                ),  # of one sign: no order of additions overflows first
                make(rng, (16, 2)),
                uniform(rng, (64, 16), d, 0 if which else -1, 1),
                make(rng, (2, 16)),
                like((16, 16)),
            ),
            scaled,
            since="13.3",
            min_arch=100,
            tags=("fp8",),
            rtol=1e-5,
            atol=0 if which else 2e-3,
        )
case(
    "matmul_dequantized",
    "dequantized",
    [A("f16", 2), A("i8", 2), A("f32", 1), A("f32", 2), 32, 32, 32],
    (1, 2),
    lambda rng: (
        uniform(rng, (32, 64), "f16", -1, 1),
        integers(rng, (64, 64), "i8"),
        uniform(rng, 64, "f32", 0, 0.1),
        like((32, 64)),
    ),
    lambda a, q, s, c: {3: (wide(a)[0] @ wide(q)[0] * wide(s)[0]).astype("f4")},
    **F32,
)
case(
    "matmul_residual",
    "residual",
    [A("bf16", 2, div=8, align=16)] * 4 + [128, 128, 64],
    (1, 2),
    lambda rng: (
        uniform(rng, (120, 96), "bf16", -1, 1),
        uniform(rng, (96, 200), "bf16", -1, 1),
        uniform(rng, (120, 200), "bf16", -4, 4),
        like((120, 200), "bf16"),
    ),
    lambda a, b, r, c: {3: (wide(a)[0] @ wide(b)[0] + wide(r)[0]).astype("f4").astype(c.dtype)},
    tags=("large",),
    rtol=8e-3,
    atol=1e-2,
)
