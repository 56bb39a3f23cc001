"""Cases of tests/corpus/python/museum.py. Where products count, operands are small integers and sums exact; other
bounds are those of the families that the kernels resemble.
"""

from __future__ import annotations

import numpy as np

from tests.corpus.case import DTYPES, Family, Scalar, integers, like, uniform, wide
from tests.corpus.case import Array as A

case = Family("museum", "python/museum.py")
F, I = "f32", "i32"
TAGS = ("museum",)
LARGE = ("museum", "large")
SUM = {"rtol": 1e-5, "atol": 1e-5}
PRODUCT = {"rtol": 2e-6, "atol": 1e-4}
HALF = {"rtol": 2e-3, "atol": 2e-3}


def whole(rng, shape, dtype=F, low=-3, high=4):
    """Small integers, exact in every float type and in sums of thousands of products."""
    return rng.integers(low, high, shape).astype(DTYPES[dtype])


def exhibit(name, kernel, signature, grid, inputs, expect, **more):
    more.setdefault("tags", TAGS)
    more.setdefault("version", more.get("since", "13.1"))  # what older assemblers read, too
    case(f"museum_{name}", kernel, signature, grid, inputs, expect, **more)


for d in ("f32", "f64"):
    exhibit(
        f"add_16_{d}",
        "add_blocks",
        [A(d, 1)] * 3 + [16],
        (3,),
        lambda rng, d=d: (uniform(rng, 40, d), uniform(rng, 40, d), like(40, d)),
        lambda a, b, c: {2: a + b},
    )


def centred(x):
    y = x.copy()
    y[:3] -= wide(x[:3])[0].sum(1, keepdims=True).astype("f4")
    return {0: y}


exhibit("centre_in_place", "centre_in_place", [A(F, 2), 32], (3,), lambda rng: (whole(rng, (5, 32)),), centred,
        since="13.3")  # fmt: skip
exhibit(
    "scale_in_place",
    "scale_in_place",
    [A(F, 2), A(F, 2), 32],
    (3,),
    lambda rng: (whole(rng, (5, 32)), np.full((1, 1), 3, "f4")),
    lambda x, w: {0: np.concatenate([x[:3] * 3, x[3:]])},
    since="13.3",
)


def panelled(m, columns):
    m, out = m.copy(), columns.copy()
    for p in range(2):
        for j in range(2):
            out[2 * p + j] = m[:, 2 * p + j]
        t = wide(m[:, 32 * p : 32 * p + 32])[0]
        m[:, 32 * p : 32 * p + 32] = t / np.sqrt((t * t).sum(0) + 1)
    return {0: m, 1: out}


exhibit("panels", "panels", [A(F, 2), A(F, 2), 512, 32], (1,),
        lambda rng: (uniform(rng, (512, 64)), like((4, 512))), panelled, **SUM)  # fmt: skip


def factored(a, b, lu, c):
    x = wide(a)[0]
    for p in range(len(x)):
        x[p + 1 :, p] /= x[p, p]
        x[p + 1 :, p + 1 :] -= np.outer(x[p + 1 :, p], x[p, p + 1 :])
    return {2: x.astype("f4"), 3: (x @ wide(b)[0]).astype("f4")}


exhibit(
    "factor_32",
    "factor",
    [A(F, 2)] * 4 + [32, 64],
    (1,),
    lambda rng: (
        uniform(rng, (32, 32)) + 64 * np.eye(32, dtype="f4"),
        uniform(rng, (32, 64)),
        like((32, 32)),
        like((32, 64)),
    ),
    factored,
    rtol=1e-4,
    atol=1e-3,
)


def two(a, b, half, out, steps):
    c = (wide(a)[0] @ wide(b)[0]).astype("f4")
    return {2: np.abs(c[:, :32]), 3: 2 * c}


exhibit(
    "two_products",
    "two_products",
    [A(F, 2)] * 4 + [Scalar(I), 128, 64, 32],
    (1,),
    lambda rng: (whole(rng, (128, 64)), whole(rng, (64, 64)), like((128, 32)), like((128, 64)), 2),
    two,
    min_arch=80,
)


def gathered(a, b, c, index):
    out = c.copy()
    out[index] = (wide(a)[0][index] @ wide(b)[0]).astype(c.dtype)
    return {2: out}


exhibit(
    "gathered_product",
    "gathered_product",
    [A("f16", 2)] * 3 + [A(I, 1), 32, 32, 16],
    (2,),
    lambda rng: (
        whole(rng, (40, 48), "f16"),
        whole(rng, (48, 64), "f16"),
        like((40, 64), "f16"),
        rng.permutation(40)[:32].astype("i4"),
    ),
    gathered,
)


def scattered(out, tokens, count, stride):
    y = out.copy().reshape(-1)
    for i in range(count):
        y[tokens[i] * stride : tokens[i] * stride + 64] = i
    return {0: y.reshape(out.shape)}


exhibit(
    "scatter_rows",
    "scatter_rows",
    [A("f16", 2), A(I, 1), Scalar(I), Scalar(I), 64],
    (1,),
    lambda rng: (like((70, 72), "f16", -1), rng.permutation(70)[:64].astype("i4"), 50, 72),
    scattered,
)


def mixed(x, y):
    v = x ^ (x >> 16)
    return {1: ((v << 8) | (v & 0xFF)) & 0x7FFFFFFF}


exhibit("mix_bits", "mix_bits", [A(I, 1)] * 2 + [64], (3,), lambda rng: (integers(rng, 170), like(170, I)),
        mixed)  # fmt: skip
exhibit(
    "nested_while",
    "nested_while",
    [A(I, 1), Scalar(I)],
    (1,),
    lambda rng: (like(2, I), 5),
    lambda y, n: {0: np.full(2, 6035, "i4")},
)


def scales(rng, shape):
    return np.exp2(rng.integers(-1, 2, shape)).astype(DTYPES["e8m0"])


def scaled(a, sa, b, sb, c):
    x = wide(a)[0] * np.repeat(wide(sa)[0], 32, 1)
    return {4: (x @ (wide(b)[0] * np.repeat(wide(sb)[0], 32, 0))).astype("f4")}


exhibit(
    "scaled_loop",
    "scaled_loop",
    [A("e4m3", 2), A("e8m0", 2), A("e4m3", 2), A("e8m0", 2), A(F, 2), 128, 64, 256],
    (1,),
    lambda rng: (
        whole(rng, (128, 512), "e4m3"),
        scales(rng, (128, 16)),
        whole(rng, (512, 64), "e4m3"),
        scales(rng, (16, 64)),
        like((128, 64)),
    ),
    scaled,
    since="13.3",
    min_arch=100,
    tags=("museum", "fp8"),
)


def attended(q, k, v, o, scale):
    group = len(q) // len(k)
    y, z = (np.repeat(t, group, 0) for t in wide(k, v))
    s = wide(q)[0] @ y.transpose(0, 2, 1) * float(scale)
    e = np.exp(s - s.max(2, keepdims=True))
    return {3: ((e / e.sum(2, keepdims=True)) @ z).astype("f4").astype(o.dtype)}


for name, d, (heads, group, n, m), (tm, tn, td), more in (
    ("grouped", "f16", (4, 2, 64, 128), (64, 64, 32), HALF),
    ("head_128", "f16", (1, 1, 64, 64), (64, 32, 128), HALF),
    ("skinny", "f16", (2, 1, 16, 96), (16, 32, 32), HALF),
):
    exhibit(
        f"attend_{name}",
        "attend",
        [A(d, 3)] * 4 + [Scalar(F), group, tm, tn, td],
        (n // tm, heads),
        lambda rng, d=d, h=heads, g=group, n=n, m=m, t=td: (
            uniform(rng, (h, n, t), d),
            uniform(rng, (h // g, m, t), d),
            uniform(rng, (h // g, m, t), d),
            like((h, n, t), d),
            0.125,
        ),
        attended,
        **more,
    )


def weights(q, k, a):
    s = wide(q)[0] @ wide(k)[0].T
    e = np.exp2(s - s.max(1, keepdims=True))
    return {2: (e / e.sum(1, keepdims=True)).astype("f4")}


exhibit(
    "scores_then_weights",
    "scores_then_weights",
    [A("f16", 2), A("f16", 2), A(F, 2), 32, 32, 32],
    (2,),
    lambda rng: (uniform(rng, (64, 32), "f16"), uniform(rng, (96, 32), "f16"), like((64, 96))),
    weights,
    **SUM,
)


def gelu(a, b, bias, rest, c):
    v = wide(a)[0] @ wide(b)[0] + wide(bias)[0]
    return {4: (v / (1 + np.exp(-1.702 * v)) + wide(rest)[0]).astype("f4").astype(c.dtype)}


exhibit(
    "product_gelu",
    "product_gelu",
    [A("f16", 2), A("f16", 2), A(F, 1), A(F, 2), A("f16", 2), 128, 256, 64],
    (1, 1),
    lambda rng: (
        uniform(rng, (128, 128), "f16", -1, 1),
        uniform(rng, (128, 256), "f16", -1, 1),
        uniform(rng, 256),
        uniform(rng, (128, 256)),
        like((128, 256), "f16"),
    ),
    gelu,
    tags=LARGE,
    **HALF,
)


def exact_product(a, b, c):
    return {2: (wide(a)[0] @ wide(b)[0]).astype(c.dtype)}


for name, d, out, tile, (m, n, k), more in (
    ("32", "f16", F, (32, 32, 32), (64, 32, 64), {}),
    ("beyond_shared", "f16", F, (128, 256, 128), (128, 256, 256), {"tags": LARGE}),
    ("256_cubed", "f16", F, (256, 256, 256), (256, 256, 256), {"tags": LARGE}),
    ("int8_128", "i8", I, (128, 32, 32), (128, 32, 64), {}),
    ("fp8", "e4m3", F, (32, 32, 32), (32, 64, 64), {"min_arch": 89, "tags": ("museum", "fp8")}),
    ("odd_extents", "bf16", F, (64, 64, 32), (50, 77, 45), {}),
):
    exhibit(
        f"product_{name}",
        "product",
        [A(d, 2), A(d, 2), A(out, 2), *tile],
        (-(-m // tile[0]), -(-n // tile[1])),
        lambda rng, m=m, n=n, k=k, d=d, out=out: (
            whole(rng, (m, k), d),
            whole(rng, (k, n), d),
            like((m, n), out),
        ),
        exact_product,
        **more,
    )

exhibit(
    "waves",
    "waves",
    [A(F, 1)] * 3 + [1024],
    (1,),
    lambda rng: (uniform(rng, 1000, low=-1e6, high=1e6), like(1000), like(1000)),
    lambda x, s, c: {1: np.sin(wide(x)[0]).astype("f4"), 2: np.cos(wide(x)[0]).astype("f4")},
    rtol=3e-7,
    atol=1e-7,
)


def normalized(x, w, y):
    v = wide(x)[0]
    d = v - v.mean(1, keepdims=True)
    return {2: (d / np.sqrt((d * d).mean(1, keepdims=True) + 1e-5) * wide(w)[0]).astype("f4")}


for name, tile, (m, n), more in (
    ("small", (4, 256), (6, 200), {}),
    ("4x65536", (4, 65536), (4, 65000), {"tags": LARGE}),
):
    exhibit(
        f"normalize_rows_{name}",
        "normalize_rows",
        [A(F, 2), A(F, 1), A(F, 2), *tile],
        (-(-m // tile[0]),),
        lambda rng, m=m, n=n: (uniform(rng, (m, n)), uniform(rng, n), like((m, n))),
        normalized,
        **{"tags": TAGS, "rtol": 1e-5, "atol": 1e-4, **more},
    )


def rings(x, y):
    ray = np.arange(64, dtype="f4") * np.float32(0.125)
    out = []
    for b in range(len(y)):
        at = [np.floor(f(ray.astype("f8")) * (b + 1) + 0.5).astype(int) + 8 for f in (np.cos, np.sin)]
        inside = (at[0] >= 0) & (at[0] < 17) & (at[1] >= 0) & (at[1] < 17)
        out.append(x[np.clip(at[0], 0, 16), np.clip(at[1], 0, 16)][inside].sum())
    return {1: np.array(out, "i4")}


exhibit("ring_sums", "ring_sums", [A(I, 2), A(I, 1), 64], (6,), lambda rng: (integers(rng, (17, 17), I, 1, 100),
        like(6, I)), rings)  # fmt: skip
exhibit(
    "batched_by_shared",
    "batched_by_shared",
    [A("f16", 3), A("f16", 2), A(F, 3), 4, 16, 32, 16],
    (1,),
    lambda rng: (whole(rng, (4, 16, 32), "f16"), whole(rng, (32, 16), "f16"), like((4, 16, 16))),
    lambda a, w, y: {2: (wide(a)[0] @ wide(w)[0]).astype("f4")},
)


def chained(a, b, c, d):
    acc = np.zeros(d.shape)
    for k in range(2):
        at = slice(32 * k, 32 * k + 32)
        x = (wide(a)[0] @ wide(b)[0][:, at]).astype("f2")
        acc = acc + wide(x)[0] @ wide(c)[0][at]
        acc = np.where(acc > 4, acc * 0.5, acc)
    return {3: acc.astype("f4")}


exhibit(
    "product_of_product",
    "product_of_product",
    [A("f16", 2)] * 3 + [A(F, 2), 32, 32, 32],
    (1,),
    lambda rng: (
        whole(rng, (32, 32), "f16"),
        whole(rng, (32, 64), "f16"),
        whole(rng, (64, 32), "f16"),
        like((32, 32)),
    ),
    chained,
)


def spread(x, y):
    v = wide(x)[0].reshape(2, 4, 8 * 16)
    return {1: (v / v.sum(2, keepdims=True)).reshape(x.shape).astype("f4").astype(y.dtype)}


exhibit(
    "reduce_and_spread",
    "reduce_and_spread",
    [A("bf16", 2)] * 2 + [4, 8, 16],
    (2,),
    lambda rng: (uniform(rng, (64, 16), "bf16", 1, 2), like((64, 16), "bf16")),
    spread,
    rtol=8e-3,
)


def shuffled(x, y):
    w = x.transpose(2, 0, 1).reshape(8, 2, 4, 8).transpose(1, 0, 3, 2).reshape(128, 4)
    return {1: np.concatenate([w[64:], w[:64]])}


exhibit("shuffle_dims", "shuffle_dims", [A(F, 3), A(F, 2), 4, 8, 16], (1,),
        lambda rng: (uniform(rng, (4, 8, 16)), like((128, 4))), shuffled)  # fmt: skip


def scanned(a, b, y):
    h, out = np.zeros(len(a)), []
    for x, z in zip(wide(a)[0].T, wide(b)[0].T):
        h = x * h + z
        out.append(h)
    return {2: np.array(out).T.astype("f4")}


exhibit(
    "linear_scan",
    "linear_scan",
    [A(F, 2)] * 3 + [64],
    (3,),
    lambda rng: (uniform(rng, (3, 64), low=-1, high=1), uniform(rng, (3, 64)), like((3, 64))),
    scanned,
    rtol=1e-5,
    atol=1e-5,
)
exhibit(
    "counts_in_loop",
    "counts_in_loop",
    [A(I, 1), Scalar(I), 8],
    (1,),
    lambda rng: (like(22, I), 20),
    lambda y, n: {0: np.where(np.arange(22) < 20, np.arange(22) % 8 + 1, 0).astype("i4")},
)
exhibit(
    "sums_from_the_end",
    "sums_from_the_end",
    [A(F, 2)] * 2 + [128],
    (2,),
    lambda rng: (whole(rng, (2, 128)), like((2, 128))),
    lambda x, y: {1: x[:, ::-1].cumsum(1)[:, ::-1]},
)
exhibit(
    "last_of_loop",
    "last_of_loop",
    [A(F, 2), A(F, 1), Scalar(I)],
    (1,),
    lambda rng: (uniform(rng, (1, 12)), like(1), 3),
    lambda x, y, n: {1: x[:, 8:].max(1)},
)
exhibit(
    "product_of_row",
    "product_of_row",
    [A(F, 2), A(F, 1), 4, 16],
    (2,),
    lambda rng: (uniform(rng, (8, 40), low=0.5, high=1.5), like(8)),
    lambda x, y: {1: wide(x)[0].prod(1).astype("f4")},
    rtol=1e-5,
)


def counted(x, lengths, y):
    return {2: np.array([np.bincount(r[:n], minlength=32) for r, n in zip(x, lengths)], "i4")}


exhibit(
    "count_tokens",
    "count_tokens",
    [A(I, 2), A(I, 1), A(I, 2), 8, 32],
    (3,),
    lambda rng: (integers(rng, (3, 8), I, 0, 32), np.array([0, 5, 8], "i4"), like((3, 32), I, -1)),
    counted,
)


def transformed(x, re, im):
    k = np.arange(len(x))
    turn = float(np.float32(-2 * np.pi))  # the frontend rounds literals
    angle = turn * (np.outer(k, k) % len(x)) / len(x)
    return {1: np.cos(angle) @ x, 2: np.sin(angle) @ x}


for name, m, n, more in (("small", 4, 32, {}), ("64x128", 64, 128, {"tags": LARGE})):
    exhibit(
        f"naive_dft_{name}",
        "naive_dft",
        [A("f64", 1)] * 3 + [m, n],
        (-(-(n - 3) // m),),
        lambda rng, n=n: (uniform(rng, n - 3, "f64"), like(n - 3, "f64"), like(n - 3, "f64")),
        transformed,
        rtol=1e-11,
        atol=1e-11,
        **more,
    )


def pooled(x, y, flag):
    return {1: x.reshape(3, 2, 16, 2).max((1, 3)), 2: np.ones(3, "f4")}


exhibit("pool", "pool", [A(F, 2), A(F, 2), A(F, 1), 2, 16], (3,),
        lambda rng: (uniform(rng, (6, 32)), like((3, 16)), like(3)), pooled)  # fmt: skip


def both(a, b, c, d):
    p = wide(a)[0] @ wide(b)[0]
    tiles = np.pad(p, ((0, 14), (0, 19)))  # what lies outside is a product of zeros
    return {2: p.astype("f2"), 3: tiles.max(1).astype("i4")[: len(d)]}


exhibit(
    "two_outputs",
    "two_outputs",
    [A("f16", 2)] * 3 + [A(I, 1), 32, 32, 16],
    (2, 3),
    lambda rng: (
        whole(rng, (50, 40), "f16"),
        whole(rng, (40, 77), "f16"),
        like((50, 77), "f16"),
        like(64, I, -10000),
    ),
    both,
)
exhibit(
    "bitonic_256",
    "bitonic",
    [A(I, 2)] * 2 + [256],
    (2,),
    lambda rng: (integers(rng, (2, 256)), like((2, 256), I)),
    lambda x, y: {1: np.sort(x, 1)},
)
for axis in (0, 1):
    exhibit(
        f"sum_along_{axis}",
        "sum_along",
        [A(F, 2), A(F, 1), axis, 16],
        ((40, 24)[1 - axis],),
        lambda rng, axis=axis: (whole(rng, (40, 24)), like((40, 24)[1 - axis])),
        lambda x, y, axis=axis: {1: x.sum(axis)},
    )


def unpacked(a, packed, scale, c):
    w = np.empty((2 * len(packed), packed.shape[1]))
    w[::2], w[1::2] = (packed & 15).astype("i4") - 8, ((packed.astype("i4") >> 4) & 15) - 8
    return {3: (wide(a)[0] @ (w * wide(scale)[0])).astype("f4")}


exhibit(
    "unpacked_product",
    "unpacked_product",
    [A("f16", 2), A("i8", 2), A("f16", 1), A(F, 2), 32, 32, 32],
    (1, 2),
    lambda rng: (
        whole(rng, (32, 64), "f16"),
        integers(rng, (32, 64), "i8"),
        whole(rng, 64, "f16", 1, 3),
        like((32, 64)),
    ),
    unpacked,
)
exhibit(
    "widened_product",
    "widened_product",
    [A("f16", 2), A("i8", 2), A(F, 2), 32, 64, 16],
    (1,),
    lambda rng: (whole(rng, (32, 32), "f16"), integers(rng, (32, 64), "i8"), like((32, 64))),
    exact_product,
)


def followed(x, y):
    out, i = y.copy(), np.arange(16)
    src, dst = i, i
    for a in range(2):
        src = src + a * 2
        out[dst] = x[src]
        src, dst = src + 16, dst + 16
        for b in range(3):
            src = src + b * 3
            out[dst] = x[src]
            src, dst = src + 16, dst + 16
    return {1: out}


exhibit("nested_pointers", "nested_pointers", [A(F, 1)] * 2 + [16], (1,),
        lambda rng: (uniform(rng, 180), like(130)), followed)  # fmt: skip
exhibit(
    "loop_in_branch",
    "loop_in_branch",
    [A(F, 1)] * 2 + [Scalar(I), 32],
    (3,),
    lambda rng: (whole(rng, 128), like(96), 4),
    lambda x, y, n: {
        1: np.concatenate([x.reshape(4, 32).sum(0), np.full(32, -1, "f4"), x.reshape(4, 32).sum(0)])
    },
)


def gradient(has_w):
    def f(g, x, w, mean, std, gx, gw):
        go, a = wide(g)[0], wide(g)[0] * (wide(w)[0] if has_w else 1)
        b = (wide(x)[0] - wide(mean)[0][:, None]) / wide(std)[0][:, None]
        n = x.shape[1]
        inner = a - b * (b * a).sum(1, keepdims=True) / n - a.sum(1, keepdims=True) / n
        return {5: (inner / wide(std)[0][:, None]).astype("f4"), 6: (go * b).sum(0).astype("f4")}

    return f


for has_w in (0, 1):
    exhibit(
        f"norm_gradient_{has_w}",
        "norm_gradient",
        [A(F, 2), A(F, 2), A(F, 1), A(F, 1), A(F, 1), A(F, 2), A(F, 1), has_w, 64],
        (3,),
        lambda rng: (
            uniform(rng, (3, 50)),
            uniform(rng, (3, 50)),
            uniform(rng, 50),
            uniform(rng, 3),
            uniform(rng, 3, low=1, high=2),
            like((3, 50)),
            like(50),
        ),
        gradient(has_w),
        **SUM,
    )
exhibit(
    "add_atomically_bf16",
    "add_atomically",
    [A("bf16", 2), A("bf16", 1), 32],
    (4,),
    lambda rng: (whole(rng, (4, 32), "bf16"), like(32, "bf16")),
    lambda x, y: {1: wide(x)[0].sum(0).astype(x.dtype)},
    since="13.3",
)
exhibit("count_by_cas_u64", "count_by_cas", [A("u64", 1)], (5,), lambda rng: (like(1, "u64", 7),),
        lambda x: {0: x + 5})  # fmt: skip
exhibit(
    "widen_bf16",
    "widen",
    [A("bf16", 1)] * 2 + [128],
    (1,),
    lambda rng: (uniform(rng, 128, "bf16"), like(128, "bf16")),
    lambda x, y: {1: x},
)


def softmaxed(a, b, y):
    s = wide(a)[0] @ wide(b)[0]
    e = np.exp(s - s.max(1, keepdims=True))
    return {2: (e / e.sum(1, keepdims=True)).astype("f4")}


exhibit(
    "product_softmax",
    "product_softmax",
    [A("f16", 2), A("f16", 2), A(F, 2), 32, 64, 32],
    (2,),
    lambda rng: (uniform(rng, (64, 64), "f16", -1, 1), uniform(rng, (64, 64), "f16", -1, 1), like((64, 64))),
    softmaxed,
    rtol=1e-5,
    atol=1e-6,
)


def chained(q, k, v, y):
    s = (wide(q)[0] @ wide(k)[0]).astype(DTYPES["bf16"]).astype("f8")
    return {3: (s @ wide(v)[0]).astype("f4")}


exhibit(
    "chained_products",
    "chained_products",
    [A("bf16", 2)] * 3 + [A(F, 2), 64, 128, 64],
    (1,),
    lambda rng: (
        whole(rng, (64, 128), "bf16", -1, 2),
        whole(rng, (128, 64), "bf16", -1, 2),
        whole(rng, (64, 128), "bf16", -1, 2),
        like((64, 128)),
    ),
    chained,
)
exhibit(
    "scaled_by_scanned_column",
    "scaled_by_scanned_column",
    [A(F, 2)] * 3 + [16],
    (1,),
    lambda rng: (whole(rng, (16, 16)), whole(rng, (16, 1)), like((16, 16))),
    lambda x, scale, y: {2: x * scale.cumsum(0)},
)
exhibit(
    "largest_of_block",
    "largest_of_block",
    [A(I, 2)] * 2 + [64],
    (3, 2),
    lambda rng: (whole(rng, (2, 192), I, -1000, 1000), like((2, 3), I)),
    lambda x, y: {1: x.reshape(2, 3, 64).max(2)},
)
exhibit(
    "halves_apart",
    "halves_apart",
    [A(F, 2), A("f16", 2), 128, 64],
    (1,),
    lambda rng: (whole(rng, (128, 128)), like((128, 128), "f16")),
    lambda x, y: {1: x.astype("f2")},
)
exhibit(
    "scan_of_long_rows",
    "scan_of_long_rows",
    [A(F, 2)] * 2 + [1024],
    (1,),
    lambda rng: (whole(rng, (2, 1024)), like((2, 1024))),
    lambda x, y: {1: x.cumsum(1)},
)


def stored(x, y, n):
    y = y.copy()
    y[:96] = np.tile(x[:32] + n, 3)
    y[128:] = 1234
    return {1: y}


exhibit(
    "stores_in_short_loops",
    "stores_in_short_loops",
    [A(F, 1)] * 2 + [Scalar(I), 32],
    (1,),
    lambda rng: (whole(rng, 32), like(256), 3),
    stored,
)
exhibit(
    "batch_turned",
    "batch_turned",
    [A("f16", 3)] * 3 + [2, 32],
    (1,),
    lambda rng: (whole(rng, (2, 32, 32), "f16"), whole(rng, (2, 32, 32), "f16"), like((32, 2, 32), "f16")),
    lambda a, b, y: {2: (wide(a)[0] @ wide(b)[0]).transpose(2, 0, 1).astype("f2")},
)


def exchanged(x, y, at):
    v, i = x.copy(), np.arange(64, dtype="i4")
    for s in (1, 2, 4, 8):
        a, b = v.reshape(-1, 2, s).copy(), i.reshape(-1, 2, s).copy()
        swap = a[:, 0] > a[:, 1]
        v = np.stack([np.where(swap, a[:, 1], a[:, 0]), np.where(swap, a[:, 0], a[:, 1])], 1).reshape(-1)
        i = np.stack([np.where(swap, b[:, 1], b[:, 0]), np.where(swap, b[:, 0], b[:, 1])], 1).reshape(-1)
    return {1: v, 2: i}


exhibit(
    "exchanged_pairs",
    "exchanged_pairs",
    [A(F, 1), A(F, 1), A(I, 1), 64],
    (1,),
    lambda rng: (whole(rng, 64, F, -99, 99), like(64), like(64, I)),
    exchanged,
)
exhibit(
    "scan_in_cluster",
    "scan_in_cluster",
    [A(F, 2)] * 2 + [32, 64],
    (1,),
    lambda rng: (whole(rng, (32, 64)), like((32, 64))),
    lambda x, y: {1: x.cumsum(1)},
)
exhibit(
    "wide_product",
    "wide_product",
    [A("bf16", 2)] * 3 + [16, 128, 512],
    (2,),
    lambda rng: (
        whole(rng, (21, 128), "bf16", -1, 2),
        whole(rng, (128, 512), "bf16", -1, 2),
        like((21, 512), "bf16"),
    ),
    lambda a, b, y: {2: (wide(a)[0] @ wide(b)[0]).astype(y.dtype)},
)
