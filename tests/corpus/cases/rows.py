"""Softmax and norms. A sum of n f32 terms in any order errs by at most n ULP of the sum of magnitudes, in
practice about log2(n) for a tree; 1e-5 relative holds for rows of up to a thousand with exp and division
(4 ULP each).
"""

from __future__ import annotations

import numpy as np

from tests.corpus.case import Array as A
from tests.corpus.case import Family, Scalar, integers, like, uniform, wide

softmax_case = Family("softmax", "python/rows.py")
norm_case = Family("norm", "python/rows.py")
HALF, BF16, F32 = 1e-3, 8e-3, 1e-5


def soft(x, axis=1, scale=1.0):
    v = wide(x)[0] * scale
    e = np.exp(v - v.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def rows(m, n, dtype="f32", low=-5.0, high=5.0):
    return lambda rng: (uniform(rng, (m, n), dtype, low, high), like((m, n), dtype))


first = ("first",)
softmax_case(
    "softmax_row_f32",
    "softmax_row",
    [A("f32", 2), A("f32", 2), 256],
    (5,),
    rows(5, 200),
    lambda x, y: {1: soft(x).astype("f4")},
    rtol=F32,
    tags=first,
)
softmax_case(
    "softmax_row_f32_exact",
    "softmax_row",
    [A("f32", 2, div=16), A("f32", 2, div=16), 1024],
    (4,),
    rows(4, 1024),
    lambda x, y: {1: soft(x).astype("f4")},
    rtol=F32,
    tags=first,
)
softmax_case(
    "softmax_row_f16",
    "softmax_row",
    [A("f16", 2), A("f16", 2), 128],
    (6,),
    rows(6, 100, "f16"),
    lambda x, y: {1: soft(x).astype("f2")},
    rtol=HALF,
    atol=1e-7,
    tags=first,
)
softmax_case(
    "softmax_row_bf16",
    "softmax_row",
    [A("bf16", 2), A("bf16", 2), 128],
    (6,),
    rows(6, 128, "bf16"),
    lambda x, y: {1: soft(x).astype("f4").astype(x.dtype)},
    rtol=BF16,
)
softmax_case(
    "softmax_row_tiny",
    "softmax_row",
    [A("f32", 2), A("f32", 2), 2],
    (3,),
    rows(3, 2),
    lambda x, y: {1: soft(x).astype("f4")},
    rtol=F32,
)
softmax_case(
    "softmax_rows_f32",
    "softmax_rows",
    [A("f32", 2)] * 2 + [8, 64],
    (3,),
    rows(20, 50),
    lambda x, y: {1: soft(x).astype("f4")},
    rtol=F32,
)
softmax_case(
    "softmax_rows_f64",
    "softmax_rows",
    [A("f64", 2)] * 2 + [4, 64],
    (2,),
    rows(8, 64, "f64"),
    lambda x, y: {1: soft(x)},
    rtol=1e-14,
)
softmax_case(
    "softmax_columns",
    "softmax_columns",
    [A("f32", 2)] * 2 + [64, 16],
    (3,),
    rows(50, 40),
    lambda x, y: {1: soft(x, 0).astype("f4")},
    rtol=F32,
)
softmax_case(
    "softmax_online",
    "softmax_online",
    [A("f32", 2)] * 2 + [128],
    (3,),
    rows(3, 700),
    lambda x, y: {1: soft(x).astype("f4")},
    rtol=2e-5,
    tags=first,
)
softmax_case(
    "softmax_base2",
    "softmax_base2",
    [A("f32", 2)] * 2 + [Scalar("f32"), 256],
    (4,),
    lambda rng: (uniform(rng, (4, 256), "f32", -30, 30), like((4, 256)), np.float32(0.125)),
    lambda x, y, s: {1: soft(x, 1, 0.125).astype("f4")},
    rtol=F32,
)
softmax_case(
    "log_softmax",
    "log_softmax",
    [A("f32", 2)] * 2 + [128],
    (4,),
    rows(4, 100),
    lambda x, y: {1: np.log(soft(x)).astype("f4")},
    rtol=F32,
    atol=1e-6,
)


def masked_soft(x, lengths, y):
    out = np.zeros(x.shape)
    for r, n in enumerate(lengths):
        out[r, :n] = soft(x[r : r + 1, :n])
    return {2: out.astype("f4")}


softmax_case(
    "softmax_masked",
    "softmax_masked",
    [A("f32", 2), A("i32", 1), A("f32", 2), 128],
    (5,),
    lambda rng: (uniform(rng, (5, 100)), np.array([1, 100, 37, 64, 99], "i4"), like((5, 100), "f32", 9)),
    masked_soft,
    rtol=F32,
)


def soft_backward(p, g, out):
    a, b = wide(p, g)
    return {2: (a * (b - (a * b).sum(1, keepdims=True))).astype("f4")}


softmax_case(
    "softmax_backward",
    "softmax_backward",
    [A("f32", 2)] * 3 + [128],
    (4,),
    lambda rng: (soft(uniform(rng, (4, 120))).astype("f4"), uniform(rng, (4, 120)), like((4, 120))),
    soft_backward,
    rtol=F32,
    atol=1e-7,
)


def entropy(x, labels, loss):
    v = np.log(soft(x))
    return {2: (-v[np.arange(len(labels)), labels]).astype("f4")}


softmax_case(
    "cross_entropy",
    "cross_entropy",
    [A("f32", 2), A("i32", 1), A("f32", 1), 256],
    (6,),
    lambda rng: (uniform(rng, (6, 200)), integers(rng, 6, "i32", 0, 200), like(6)),
    entropy,
    rtol=F32,
    atol=2e-6,
)


def layer(x, w, b, eps):
    v, g, c = wide(x, w, b)
    mean, var = v.mean(1, keepdims=True), v.var(1, keepdims=True)
    return (v - mean) / np.sqrt(var + float(eps)) * g + c, mean, 1 / np.sqrt(var + float(eps))


EPS = np.float32(1e-5)
for dtype, n, rtol, atol in (("f32", 200, F32, 1e-5), ("f16", 128, HALF, 1e-3), ("bf16", 100, BF16, 8e-3)):
    norm_case(
        f"layer_norm_{dtype}",
        "layer_norm",
        [A(dtype, 2), A(dtype, 1), A(dtype, 1), A(dtype, 2), Scalar("f32"), Scalar("i32"), 256],
        (4,),
        lambda rng, d=dtype, n=n: (
            uniform(rng, (4, n), d),
            uniform(rng, n, d),
            uniform(rng, n, d),
            like((4, n), d),
            EPS,
            np.int32(n),
        ),
        lambda x, w, b, y, eps, n: {3: layer(x, w, b, eps)[0].astype("f4").astype(x.dtype)},
        rtol=rtol,
        atol=atol,
        tags=first,
    )


def chunked(x, w, b, y, mean_out, rstd_out, eps):
    out, mean, rstd = layer(x, w, b, eps)
    return {3: out.astype("f4"), 4: mean[:, 0].astype("f4"), 5: rstd[:, 0].astype("f4")}


norm_case(
    "layer_norm_chunked",
    "layer_norm_chunked",
    [A("f32", 2), A("f32", 1), A("f32", 1), A("f32", 2), A("f32", 1), A("f32", 1), Scalar("f32"), 64],
    (3,),
    lambda rng: (
        uniform(rng, (3, 300)) + 1,
        uniform(rng, 300),
        uniform(rng, 300),
        like((3, 300)),
        like(3),
        like(3),
        EPS,
    ),
    chunked,
    rtol=F32,
    atol=1e-5,
    tags=first,
)


def rms(x, w, eps):
    v, g = wide(x, w)
    return v / np.sqrt((v * v).mean(1, keepdims=True) + float(eps)) * g


for dtype, rtol in (("f32", F32), ("f16", HALF), ("bf16", BF16)):
    norm_case(
        f"rms_norm_{dtype}",
        "rms_norm",
        [A(dtype, 2), A(dtype, 1), A(dtype, 2), Scalar("f32"), 256],
        (4,),
        lambda rng, d=dtype: (uniform(rng, (4, 150), d), uniform(rng, 150, d), like((4, 150), d), EPS),
        lambda x, w, y, eps: {2: rms(x, w, eps).astype("f4").astype(x.dtype)},
        rtol=rtol,
        atol=1e-7,
    )


def group(x, y, eps):
    v = wide(x)[0].reshape(x.shape[0], 4, 32)
    d = v - v.mean(2, keepdims=True)
    return {1: (d / np.sqrt((d * d).mean(2, keepdims=True) + float(eps))).reshape(x.shape).astype("f4")}


norm_case(
    "group_norm",
    "group_norm",
    [A("f32", 2), A("f32", 2), Scalar("f32"), 4, 32],
    (3,),
    lambda rng: (uniform(rng, (3, 128)), like((3, 128)), EPS),
    group,
    rtol=F32,
    atol=1e-6,
)
norm_case(
    "l2_normalize",
    "l2_normalize",
    [A("f32", 2), A("f32", 2), 64],
    (3,),
    lambda rng: (uniform(rng, (3, 60)), like((3, 60))),
    lambda x, y: {1: (wide(x)[0] / np.sqrt((wide(x)[0] ** 2).sum(1, keepdims=True))).astype("f4")},
    rtol=F32,
)


def divergence(logp, q, loss):
    p, t = wide(logp, q)
    return {2: (t * (np.log(np.maximum(t, 1e-10)) - p)).sum(1).astype("f4")}


norm_case(
    "kl_divergence",
    "kl_divergence",
    [A("f32", 2), A("f32", 2), A("f32", 1), 64],
    (3,),
    lambda rng: (
        uniform(rng, (3, 150), low=-3, high=0),
        np.maximum(uniform(rng, (3, 150), low=-0.1, high=1), 0),
        like(3),
    ),
    divergence,
    rtol=1e-5,
    atol=1e-5,
)
