"""Layers of neural networks, forward and backward: attention variants, norms, recurrent cells, optimizers, losses.

f32 results err by a few sums (1e-5); where P or an output is rounded to f16 or bf16, by half an ULP of it.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tests.corpus.case import Array as A
from tests.corpus.case import Family, Scalar, integers, like, uniform, wide

F, I, U = "f32", "i32", "u32"
T3 = {"rtol": 2e-3, "atol": 2e-3}

attention_case = Family("attention", "python/training.py")


def flash_values(causal, window, group):
    def f(q, k, v, o, lse, scale):
        k2 = np.repeat(wide(k)[0], group, 0)
        v2 = np.repeat(wide(v)[0], group, 0)
        s = wide(q)[0] @ k2.transpose(0, 2, 1) * float(scale)
        r = np.arange(s.shape[1])[:, None]
        c = np.arange(s.shape[2])[None]
        ok = np.ones(s.shape[1:], bool)
        if causal:
            ok &= c <= r
        if window:
            ok &= c > r - window
        s = np.where(ok, s, -np.inf)
        mx = s.max(2, keepdims=True)
        e = np.exp(s - mx)
        z = e.sum(2, keepdims=True)
        return {3: (e / z @ v2).astype("f4").astype(o.dtype), 4: (mx + np.log(z))[..., 0].astype("f4")}

    return f


for nm, d, (h, n, m), (tm, tn, td), ca, wi, gr, tol in (
    ("gqa", "f16", (4, 100, 100), (64, 64, 64), 1, 0, 2, T3),
    ("window", "bf16", (2, 130, 130), (32, 32, 32), 1, 40, 1, {"rtol": 1.6e-2, "atol": 1.6e-2}),
    ("cross", "f16", (2, 50, 90), (32, 64, 128), 0, 0, 2, T3),
    ("mqa_d128", "f16", (3, 128, 128), (128, 64, 128), 1, 0, 3, T3),
    ("d256", "bf16", (1, 70, 70), (64, 32, 256), 1, 0, 1, {"rtol": 1.6e-2, "atol": 1.6e-2}),
    ("f32", "f32", (2, 40, 40), (16, 32, 32), 1, 0, 1, {"rtol": 2e-5, "atol": 2e-5}),
):
    attention_case(
        f"flash_{nm}",
        "flash",
        [A(d, 3)] * 3 + [A(d, 3), A(F, 2), Scalar(F), tm, tn, td, ca, wi, gr],
        (-(-n // tm), h),
        lambda rng, d=d, h=h, n=n, m=m, td=td, gr=gr: (
            uniform(rng, (h, n, td), d, -1, 1),
            uniform(rng, (h // gr, m, td), d, -1, 1),
            uniform(rng, (h // gr, m, td), d, -1, 1),
            like((h, n, td), d),
            like((h, n)),
            np.float32(td**-0.5),
        ),
        flash_values(ca, wi, gr),
        **tol,
    )


def flash_bwd_dkdv_bwd(q, k, v, do, lse, delta, dk, dv, sc):
    sc = float(sc)
    n = q.shape[1]
    q, k, v, do = wide(q, k, v, do)
    s = q @ k.transpose(0, 2, 1) * sc
    p = np.where(np.tri(n, dtype=bool), np.exp(s - lse[..., None]), 0)
    dp = do @ v.transpose(0, 2, 1)
    ds = p * (dp - delta[..., None]) * sc
    return {6: (ds.transpose(0, 2, 1) @ q).astype("f4"), 7: (p.transpose(0, 2, 1) @ do).astype("f4")}


def bwd_in(d, h, n, D):
    def g(rng):
        q, k, v, do = [uniform(rng, (h, n, D), d, -1, 1) for _ in range(4)]
        sc = D**-0.5
        s = wide(q)[0] @ wide(k)[0].transpose(0, 2, 1) * sc
        s = np.where(np.tri(n, dtype=bool), s, -np.inf)
        mx = s.max(2)
        lse = mx + np.log(np.exp(s - mx[..., None]).sum(2))
        p = np.exp(s - lse[..., None])
        o = p @ wide(v)[0]
        delta = (o * wide(do)[0]).sum(2)
        return (
            q,
            k,
            v,
            do,
            lse.astype("f4"),
            delta.astype("f4"),
            like((h, n, D)),
            like((h, n, D)),
            np.float32(sc),
        )

    return g


for d, h, n, D, tm, tn, tol in (
    ("f16", 2, 70, 32, 32, 32, {"rtol": 5e-3, "atol": 5e-3}),
    ("bf16", 1, 96, 64, 64, 32, {"rtol": 3e-2, "atol": 3e-2}),
    ("f32", 1, 40, 16, 16, 16, {"rtol": 1e-4, "atol": 1e-4}),
):
    attention_case(
        f"flash_bwd_{d}",
        "flash_bwd_dkdv",
        [A(d, 3)] * 4 + [A(F, 2)] * 2 + [A(F, 3)] * 2 + [Scalar(F), tm, tn, D],
        (-(-n // tn), h),
        bwd_in(d, h, n, D),
        flash_bwd_dkdv_bwd,
        **tol,
    )


norm_case = Family("norm", "python/training.py")


def layer_norm_bwd_lnb(x, w, dy, mu, rs, dx, dw, db, n):
    v, w, g = wide(x, w, dy)
    xh = (v - mu[:, None]) * rs[:, None]
    wg = g * w
    c1 = (xh * wg).mean(1, keepdims=True)
    c2 = wg.mean(1, keepdims=True)
    return {
        5: ((wg - (xh * c1 + c2)) * rs[:, None]).astype("f4").astype(dx.dtype),
        6: (g * xh).sum(0).astype("f4"),
        7: g.sum(0).astype("f4"),
    }


def lnb_in(d):
    def g(rng):
        x = uniform(rng, (13, 100), d)
        v = wide(x)[0]
        mu = v.mean(1)
        rs = 1 / np.sqrt(v.var(1) + 1e-5)
        return (
            x,
            uniform(rng, 100, d),
            uniform(rng, (13, 100), d),
            mu.astype("f4"),
            rs.astype("f4"),
            like((13, 100), d),
            like(100),
            like(100),
            np.int32(100),
        )

    return g


for d, t in (
    ("f32", {"rtol": 1e-5, "atol": 2e-5}),
    ("f16", {"rtol": 2e-3, "atol": 2e-3}),
    ("bf16", {"rtol": 1e-2, "atol": 1e-2}),
):
    norm_case(
        f"layer_norm_bwd_{d}",
        "layer_norm_bwd",
        [A(d, 2), A(d, 1), A(d, 2), A(F, 1), A(F, 1), A(d, 2), A(F, 1), A(F, 1), Scalar(I), 4, 128],
        (4,),
        lnb_in(d),
        layer_norm_bwd_lnb,
        **t,
    )


def rms_norm_bwd_values(x, w, dy, dx, dwp, eps):
    v, w, g = wide(x, w, dy)
    rs = 1 / np.sqrt((v * v).mean(1, keepdims=True) + float(eps))
    xh = v * rs
    wg = g * w
    d = rs * (wg - xh * (xh * wg).mean(1, keepdims=True))
    p = np.stack([(g * xh)[i::3].sum(0) for i in range(3)])
    return {3: d.astype("f4"), 4: p.astype("f4")}


norm_case(
    "rms_norm_bwd",
    "rms_norm_bwd",
    [A(F, 2), A(F, 1), A(F, 2), A(F, 2), A(F, 2), Scalar(F), 1, 256],
    (3,),
    lambda rng: (
        uniform(rng, (11, 200)),
        uniform(rng, 200),
        uniform(rng, (11, 200)),
        like((11, 200)),
        like((3, 200)),
        np.float32(1e-5),
    ),
    rms_norm_bwd_values,
    rtol=1e-5,
    atol=2e-5,
)


def batch_norm_values(x, g, b, y):
    v = wide(x)[0]
    return {3: ((v - v.mean(0)) / np.sqrt(v.var(0) + 1e-5) * wide(g)[0] + wide(b)[0]).astype("f4")}


norm_case(
    "batch_norm_welford",
    "batch_norm",
    [A(F, 2), A(F, 1), A(F, 1), A(F, 2), 64, 16],
    (2,),
    lambda rng: (uniform(rng, (64, 30)), uniform(rng, 30), uniform(rng, 30), like((64, 30))),
    batch_norm_values,
    rtol=1e-5,
    atol=2e-5,
)


def group_norm_nchw_values(x, y, eps):
    v = wide(x)[0].reshape(2, 3, 4, 49)
    return {
        1: ((v - v.mean((2, 3), keepdims=True)) / np.sqrt(v.var((2, 3), keepdims=True) + float(eps)))
        .reshape(2, 12, 49)
        .astype("f4")
    }


norm_case(
    "group_norm_nchw",
    "group_norm_nchw",
    [A(F, 3), A(F, 3), 4, 64, Scalar(F)],
    (2, 3),
    lambda rng: (uniform(rng, (2, 12, 49)), like((2, 12, 49)), np.float32(1e-5)),
    group_norm_nchw_values,
    rtol=1e-5,
    atol=1e-5,
)


softmax_case = Family("softmax", "python/training.py")


def softmax_causal_values(x, y, s):
    v = wide(x)[0] * float(s)
    v = np.where(np.tri(*v.shape, dtype=bool), v, -np.inf)
    e = np.exp(v - v.max(1, keepdims=True))
    return {1: (e / e.sum(1, keepdims=True)).astype("f4").astype(y.dtype)}


softmax_case(
    "softmax_causal",
    "softmax_causal",
    [A("f16", 2), A("f16", 2), Scalar(F), 64],
    (50,),
    lambda rng: (uniform(rng, (50, 50), "f16", -9, 9), like((50, 50), "f16"), np.float32(0.7)),
    softmax_causal_values,
    rtol=1e-3,
    atol=1e-6,
)


def softmax_online_pairs_sm(x, y):
    v = wide(x)[0]
    e = np.exp(v - v.max(1, keepdims=True))
    return {1: (e / e.sum(1, keepdims=True)).astype("f4")}


def softmax_online_pairs_values(rng):
    x = uniform(rng, (6, 100), F, -90, 90)
    x[1] = 3e38
    x[2, :] = -np.inf
    x[2, 5] = 0
    x[3] = -3e38
    x[4, ::2] = -np.inf
    return x, like((6, 100))


softmax_case(
    "softmax_online_pairs",
    "softmax_online_pairs",
    [A(F, 2), A(F, 2), 128],
    (6,),
    softmax_online_pairs_values,
    softmax_online_pairs_sm,
    rtol=1e-5,
    atol=1e-30,
)


def cross_entropy_bwd_values(x, l, lo, dx, sm):
    v = wide(x)[0]
    n = v.shape[1]
    sm = float(sm)
    e = np.exp(v - v.max(1, keepdims=True))
    p = e / e.sum(1, keepdims=True)
    hot = np.eye(n)[np.maximum(l, 0)] * (1 - sm) + sm / n
    g = p - hot
    L = -(hot * np.log(p)).sum(1)
    g[l == -100] = 0
    L[l == -100] = 0
    return {2: L.astype("f4"), 3: g.astype("f4").astype(dx.dtype)}


softmax_case(
    "cross_entropy_bwd",
    "cross_entropy_bwd",
    [A("bf16", 2), A("i64", 1), A(F, 1), A("bf16", 2), Scalar(F), 128],
    (6,),
    lambda rng: (
        uniform(rng, (6, 100), "bf16", -4, 4),
        np.array([3, -100, 99, 0, 50, 7], "i8"),
        like(6),
        like((6, 100), "bf16", 3),
        np.float32(0.1),
    ),
    cross_entropy_bwd_values,
    rtol=8e-3,
    atol=1e-4,
)


def top_p_values(l, u, t):
    out = []
    for r in range(len(l)):
        e = np.exp(l[r].astype("f8") - l[r].max())
        p = e / e.sum()
        o = np.argsort(-p, kind="stable")
        m = np.cumsum(p[o]) - p[o]
        ins = m < 0.7
        g = u[r] * p[o][ins].sum()
        k = np.searchsorted(np.cumsum(p[o]), g, side="right")
        out.append(o[k])
    return {2: np.array(out, "i4")}


softmax_case(
    "top_p",
    "top_p",
    [A(F, 2), A(F, 1), A(I, 1), 64, 6],
    (4,),
    lambda rng: (uniform(rng, (4, 50), F, -3, 3), uniform(rng, 4, F, 0.05, 0.95), like(4, I)),
    top_p_values,
)


convolution_case = Family("convolution", "python/training.py")


def conv_nhwc_values(S, P):
    def f(x, w, y):
        a = np.pad(wide(x)[0], ((0, 0), (P, P), (P, P), (0, 0)))
        kh, kw = w.shape[:2]
        oh, ow = y.shape[1:3]
        out = np.zeros(y.shape)
        for r in range(kh):
            for s in range(kw):
                out += a[:, r : r + S * oh : S, s : s + S * ow : S][:, :oh, :ow] @ w[r, s].astype("f8")
        return {2: out.astype("f4").astype(y.dtype)}

    return f


for d in ("f16", "f32"):
    convolution_case(
        f"conv_nhwc_{d}",
        "conv_nhwc",
        [A(d, 4), A(d, 4), A(F, 4), 5, 32, 16, 16, 3, 3, 2, 1],
        (1, 2, 2),
        lambda rng, d=d: (
            uniform(rng, (2, 9, 10, 20), d, -1, 1),
            uniform(rng, (3, 3, 20, 24), d, -1, 1),
            like((2, 5, 5, 24)),
        ),
        conv_nhwc_values(2, 1),
        rtol=1e-5,
        atol=2e-4,
    )


def depthwise_2d_values(x, w, y):
    a = np.pad(wide(x)[0], ((1, 1), (1, 1), (0, 0)))
    H, W, _ = x.shape
    return {
        2: np.maximum(
            sum(a[r : r + H, s : s + W] * w[r, s].astype("f8") for r in range(3) for s in range(3)), 0
        )
        .astype("f4")
        .astype(y.dtype)
    }


convolution_case(
    "depthwise_2d",
    "depthwise_2d",
    [A("f16", 3)] * 3 + [4, 8, 8],
    (3, 2, 2),
    lambda rng: (
        uniform(rng, (10, 14, 12), "f16"),
        uniform(rng, (3, 3, 12), "f16"),
        like((10, 14, 12), "f16"),
    ),
    depthwise_2d_values,
    rtol=1e-3,
    atol=2e-3,
)


def conv_transpose_1d_values(x, w, y):
    out = np.zeros(len(y))
    for i, v in enumerate(x.astype("f8")):
        for k in range(5):
            out[i * 2 + k] += v * w[k]
    return {2: out.astype("f4")}


convolution_case(
    "conv_transpose_1d",
    "conv_transpose_1d",
    [A(F, 1)] * 3 + [32, 5, 2],
    (2,),
    lambda rng: (uniform(rng, 50), uniform(rng, 5), like(103)),
    conv_transpose_1d_values,
    rtol=1e-5,
    atol=1e-5,
)


layer_case = Family("layer", "python/training.py")


def lstm_cell_values(x, h, c, w, u, b, ho, co):
    z = wide(x)[0] @ wide(w)[0] + wide(h)[0] @ wide(u)[0] + wide(b)[0]
    a, f, g, o = np.split(z, 4, 1)

    def s(v):
        return 1 / (1 + np.exp(-v))

    cn = s(f) * wide(c)[0] + s(a) * np.tanh(g)
    return {6: (s(o) * np.tanh(cn)).astype("f2"), 7: cn.astype("f4")}


layer_case(
    "lstm_cell",
    "lstm_cell",
    [A("f16", 2), A("f16", 2), A(F, 2), A("f16", 2), A("f16", 2), A(F, 1), A("f16", 2), A(F, 2), 16, 32, 32],
    (2,),
    lambda rng: (
        uniform(rng, (30, 32), "f16", -1, 1),
        uniform(rng, (30, 32), "f16", -1, 1),
        uniform(rng, (30, 32)),
        uniform(rng, (32, 128), "f16", -1, 1),
        uniform(rng, (32, 128), "f16", -1, 1),
        uniform(rng, 128),
        like((30, 32), "f16"),
        like((30, 32)),
    ),
    lstm_cell_values,
    rtol=1e-3,
    atol=1e-4,
)


def wkv_values(k, v, w, u, y):
    k, v, w, u = wide(k, v, w, u)
    a = np.zeros(len(w))
    b = a.copy()
    out = np.zeros(y.shape)
    for t in range(len(k)):
        e = np.exp(u + k[t])
        out[t] = (a + e * v[t]) / (b + e)
        a = np.exp(w) * a + np.exp(k[t]) * v[t]
        b = np.exp(w) * b + np.exp(k[t])
    return {4: out.astype("f4")}


layer_case(
    "wkv",
    "wkv",
    [A(F, 2), A(F, 2), A(F, 1), A(F, 1), A(F, 2), 32],
    (2,),
    lambda rng: (
        uniform(rng, (10, 50)),
        uniform(rng, (10, 50)),
        uniform(rng, 50, F, -2, -0.1),
        uniform(rng, 50),
        like((10, 50)),
    ),
    wkv_values,
    rtol=2e-5,
    atol=2e-5,
)


def adamw_values(w, g, m, v, lr, b1, b2, eps, wd, step):
    lr, b1, b2, eps, wd = map(float, (lr, b1, b2, eps, wd))
    W, G, M, V = wide(w, g, m, v)
    M = b1 * M + (1 - b1) * G
    V = b2 * V + (1 - b2) * G * G
    W = W - lr * (M / (1 - b1 ** int(step)) / (np.sqrt(V / (1 - b2 ** int(step))) + eps) + wd * W)
    return {0: W.astype("f4").astype(w.dtype), 2: M.astype("f4"), 3: V.astype("f4")}


for d, t in (("bf16", {"rtol": 8e-3, "atol": 1e-5}), ("f32", {"rtol": 1e-4, "atol": 1e-5})):
    layer_case(
        f"adamw_{d}",
        "adamw",
        [A(d, 1), A(d, 1), A(F, 1), A(F, 1)] + [Scalar(F)] * 5 + [Scalar(I), 128],
        (2,),
        lambda rng, d=d: (
            uniform(rng, 200, d),
            uniform(rng, 200, d),
            uniform(rng, 200),
            np.abs(uniform(rng, 200)),
            *map(np.float32, (0.01, 0.9, 0.99, 1e-8, 0.1)),
            np.int32(7),
        ),
        adamw_values,
        **t,
    )


def philox_dropout_values(x, y, m, seed, p):
    n = len(x)
    c = [np.arange(n, dtype="u4"), *[np.zeros(n, "u4") for _ in range(3)]]
    k0 = np.uint32(seed)
    k1 = np.uint32(0)
    with np.errstate(all="ignore"):
        for _ in range(10):
            p0 = c[0].astype("u8") * np.uint64(0xD2511F53)
            p1 = c[2].astype("u8") * np.uint64(0xCD9E8D57)
            c = [
                (p1 >> np.uint64(32)).astype("u4") ^ c[1] ^ k0,
                p1.astype("u4"),
                (p0 >> np.uint64(32)).astype("u4") ^ c[3] ^ k1,
                p0.astype("u4"),
            ]
            k0 = np.uint32((int(k0) + 0x9E3779B9) & 0xFFFFFFFF)
            k1 = np.uint32((int(k1) + 0xBB67AE85) & 0xFFFFFFFF)
    u = (c[0] >> np.uint32(8)).astype("f4") * np.float32(1 / 16777216)
    kp = u >= p
    return {1: np.where(kp, x / (np.float32(1) - p), 0).astype("f4"), 2: kp}


layer_case(
    "philox_dropout",
    "philox_dropout",
    [A(F, 1), A(F, 1), A("i1", 1), Scalar(U), Scalar(F), 128],
    (3,),
    lambda rng: (uniform(rng, 300), like(300), like(300, "i1"), np.uint32(12345), np.float32(0.3)),
    philox_dropout_values,
)

layer_case(
    "stochastic_round",
    "stochastic_round",
    [A(F, 1), A("u16", 1), A("bf16", 1), 128],
    (2,),
    lambda rng: (uniform(rng, 200), integers(rng, 200, "u16"), like(200, "bf16")),
    lambda x, b, y: {2: ((x.view("u4") + b) >> np.uint32(16)).astype("u2").view(ml_dtypes.bfloat16)},
)


def mm_gated_values(x, a, b, y):
    g = wide(x)[0] @ wide(a)[0]
    u = wide(x)[0] @ wide(b)[0]
    return {3: (g / (1 + np.exp(-g)) * u).astype("f4").astype(y.dtype)}


layer_case(
    "mm_gated",
    "mm_gated",
    [A("bf16", 2)] * 3 + [A("f16", 2), 64, 64, 32],
    (2, 2),
    lambda rng: (
        uniform(rng, (100, 90), "bf16", -1, 1),
        uniform(rng, (90, 100), "bf16", -1, 1),
        uniform(rng, (90, 100), "bf16", -1, 1),
        like((100, 100), "f16"),
    ),
    mm_gated_values,
    rtol=2e-3,
    atol=2e-3,
)


def fchain(x, a, b, y):
    h = np.maximum(wide(x)[0] @ wide(a)[0], 0).astype("f4").astype(x.dtype)
    return {3: (wide(h)[0] @ wide(b)[0]).astype("f4")}


for d in ("f16", "bf16"):
    layer_case(
        f"mm_chain_{d}",
        "mm_chain",
        [A(d, 2)] * 3 + [A(F, 2), 32, 64],
        (2,),
        lambda rng, d=d: (
            uniform(rng, (50, 32), d, -1, 1),
            uniform(rng, (32, 150), d, -1, 1),
            uniform(rng, (150, 32), d, -1, 1),
            like((50, 32)),
        ),
        fchain,
        rtol=1e-2,
        atol=6e-2,
    )


def mm_int4_values(a, q, s, c):
    w = np.stack([(q & 15).astype("f8") - 8, (q >> 4).astype("f8") - 8], 1).reshape(-1, q.shape[1])
    w = w * np.repeat(wide(s)[0], 32, 0)
    return {3: (wide(a)[0] @ w.astype("f2").astype("f8")).astype("f4")}


layer_case(
    "mm_int4",
    "mm_int4",
    [A("f16", 2), A("u8", 2), A("f16", 2), A(F, 2), 32, 32, 32],
    (2, 2),
    lambda rng: (
        uniform(rng, (50, 96), "f16", -1, 1),
        integers(rng, (48, 50), "u8"),
        uniform(rng, (3, 50), "f16", 0.5, 1),
        like((50, 50)),
    ),
    mm_int4_values,
    rtol=1e-5,
    atol=2e-3,
)


def gate_values(dy, g, u, dg, du):
    d, a, b = (wide(t)[0] for t in (dy, g, u))
    s = 1.0 / (1.0 + np.exp(-a))
    return {3: (d * b * s * (1.0 + a * (1.0 - s))).astype(dg.dtype), 4: (d * a * s).astype(du.dtype)}


layer_case(
    "gate_gradients",
    "gate_gradients",
    [A("bf16", 2, div=8)] * 5 + [4, 1024],
    (3, 2),
    lambda rng: (
        *(uniform(rng, (10, 1304), "bf16", -2, 2) for _ in range(3)),
        like((10, 1304), "bf16"),
        like((10, 1304), "bf16"),
    ),
    gate_values,
    rtol=8e-3,
    atol=1e-4,
)
