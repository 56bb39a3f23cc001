"""Whole algorithms. Bounds follow from the steps: f32 sums as in the reductions, products as in the matrix
products; f16 outputs half an ULP (5e-4) more. mandelbrot counts in the kernel's own f32 steps, so it is
exact.
"""

from __future__ import annotations

import numpy as np

from tests.corpus.case import Array as A
from tests.corpus.case import Family, Scalar, fma, integers, like, uniform, wide

conv = Family("convolution", "python/algorithms.py")
attention = Family("attention", "python/algorithms.py")
fft = Family("fft", "python/algorithms.py")
case = Family("algorithm", "python/algorithms.py")
module = Family("module", "python/algorithms.py")
F, I = "f32", "i32"
SUM = {"rtol": 1e-5, "atol": 1e-5}


def same_conv(x, w, y):
    p = np.pad(wide(x)[0], len(w) // 2)
    return {2: np.array([p[i : i + len(w)] @ w.astype("f8") for i in range(len(x))]).astype("f4")}


conv(
    "conv1d",
    "conv1d",
    [A(F, 1)] * 3 + [5, 64],
    (3,),
    lambda rng: (uniform(rng, 150), uniform(rng, 5), like(150)),
    same_conv,
    **SUM,
)


def same_conv2d(x, w, y):
    p = np.pad(wide(x)[0], 1)
    h, n = x.shape
    return {
        2: sum(p[i : i + h, j : j + n] * w[i, j].astype("f8") for i in range(3) for j in range(3)).astype(
            "f4"
        )
    }


conv(
    "conv2d_direct",
    "conv2d_direct",
    [A(F, 2)] * 3 + [16, 16],
    (2, 3),
    lambda rng: (uniform(rng, (20, 40)), uniform(rng, (3, 3)), like((20, 40))),
    same_conv2d,
    **SUM,
)


def valid_conv(x, w, y):
    image = wide(x)[0].reshape(10, 12, 16)
    k = wide(w)[0].reshape(3, 3, 16, 32)
    out = sum(image[i : i + 8, j : j + 10] @ k[i, j] for i in range(3) for j in range(3)).reshape(80, 32)
    return {2: out.astype("f4")}


conv(
    "conv2d_implicit_gemm",
    "conv2d_implicit_gemm",
    [A("f16", 2), A("f16", 3), A(F, 2), 10, 12, 32, 16, 32],
    (3,),
    lambda rng: (
        uniform(rng, (120, 16), "f16", -1, 1),
        uniform(rng, (9, 16, 32), "f16", -1, 1),
        like((80, 32)),
    ),
    valid_conv,
    rtol=2e-6,
    atol=1e-4,
)


def causal_conv(x, w, y):
    p = np.pad(wide(x)[0], ((3, 0), (0, 0)))
    return {2: sum(p[k : k + len(x)] * w[k].astype("f8") for k in range(4)).astype("f4")}


conv(
    "depthwise_conv",
    "depthwise_conv",
    [A(F, 2)] * 3 + [16, 32],
    (3,),
    lambda rng: (uniform(rng, (40, 32)), uniform(rng, (4, 32)), like((40, 32))),
    causal_conv,
    **SUM,
)


def attended(causal):
    def f(q, k, v, o, scale):
        s = wide(q)[0] @ wide(k)[0].transpose(0, 2, 1) * float(scale)
        if causal:
            s = np.where(
                np.arange(s.shape[2])[None, None, :] <= np.arange(s.shape[1])[None, :, None], s, -np.inf
            )
        e = np.exp(s - s.max(2, keepdims=True))
        return {3: ((e / e.sum(2, keepdims=True)) @ wide(v)[0]).astype("f4").astype(o.dtype)}

    return f


for name, d, out, (h, n, m), (tm, tn, td), causal, tol in (
    # P is rounded to f16 before the second product: 5e-4 of values up to 2.
    ("causal_f16", "f16", "f16", (2, 70, 70), (32, 32, 32), 1, {"rtol": 2e-3, "atol": 2e-3}),
    ("full_f16", "f16", "f32", (2, 40, 90), (16, 64, 64), 0, {"rtol": 2e-3, "atol": 2e-3}),
    ("causal_bf16", "bf16", "f32", (1, 64, 64), (32, 16, 64), 1, {"rtol": 1.6e-2, "atol": 1.6e-2}),
    ("causal_f32", "f32", "f32", (1, 48, 48), (16, 16, 16), 1, {"rtol": 1e-5, "atol": 1e-5}),
):
    attention(
        f"attention_{name}",
        "attention",
        [A(d, 3), A(d, 3), A(d, 3), A(out, 3), Scalar(F), tm, tn, td, causal],
        (-(-n // tm), h),
        lambda rng, d=d, out=out, h=h, n=n, m=m, td=td: (
            uniform(rng, (h, n, td), d),
            uniform(rng, (h, m, td), d),
            uniform(rng, (h, m, td), d),
            like((h, n, td), out),
            np.float32(td**-0.5),
        ),
        attended(causal),
        **tol,
    )


def decoded(q, k, v, lengths, o, scale):
    out = np.zeros(o.shape)
    for b, n in enumerate(lengths):
        s = wide(k)[0][b, :n] @ wide(q)[0][b] * float(scale)
        e = np.exp(s - s.max())
        out[b] = e / e.sum() @ wide(v)[0][b, :n]
    return {4: out.astype("f4").astype(o.dtype)}


attention(
    "decode_attention",
    "decode_attention",
    [A("f16", 2), A("f16", 3), A("f16", 3), A(I, 1), A("f16", 2), Scalar(F), 16, 64],
    (3,),
    lambda rng: (
        uniform(rng, (3, 64), "f16"),
        uniform(rng, (3, 50, 64), "f16"),
        uniform(rng, (3, 50, 64), "f16"),
        np.array([50, 1, 33], "i4"),
        like((3, 64), "f16"),
        np.float32(0.125),
    ),
    decoded,
    rtol=1e-3,
    atol=1e-4,
)


def spectrum(re, im):
    z = np.fft.fft(wide(re)[0] + 1j * wide(im)[0])
    return z.real.astype("f4"), z.imag.astype("f4")


for n, log in ((16, 4), (64, 6)):
    fft(
        f"fft_{n}",
        "fft_stockham",
        [A(F, 2)] * 4 + [n, log],
        (2,),
        lambda rng, n=n: (uniform(rng, (2, n)), uniform(rng, (2, n)), like((2, n)), like((2, n))),
        lambda re, im, a, b: dict(zip((2, 3), spectrum(re, im))),
        rtol=1e-5,
        atol=2e-5,
    )


def dft_inputs(rng):
    angle = 2 * np.pi * np.outer(np.arange(32), np.arange(32)) / 32
    return (
        uniform(rng, (16, 32)),
        uniform(rng, (16, 32)),
        np.cos(angle).astype("f4"),
        np.sin(angle).astype("f4"),
        like((16, 32)),
        like((16, 32)),
    )


fft(
    "dft_by_mma",
    "dft_by_mma",
    [A(F, 2)] * 6 + [16, 32],
    (1,),
    dft_inputs,
    lambda re, im, c, s, a, b: dict(zip((4, 5), spectrum(re, im))),
    rtol=1e-5,
    atol=5e-5,
)

case(
    "bitonic_sort_i32",
    "bitonic_sort",
    [A(I, 2), A(I, 2), 64, 6],
    (3,),
    lambda rng: (integers(rng, (3, 64)), like((3, 64), I)),
    lambda x, y: {1: np.sort(x, 1)},
)
case(
    "bitonic_sort_f32",
    "bitonic_sort",
    [A(F, 2), A(F, 2), 32, 5],
    (2,),
    lambda rng: (uniform(rng, (2, 32)), like((2, 32))),
    lambda x, y: {1: np.sort(x, 1)},
)


def escape(y, width, height, rounds):
    one = np.float32
    with np.errstate(over="ignore", invalid="ignore"):
        cr = fma(np.arange(y.shape[1]).astype("f4"), one(3) / one(width), one(-2))[None, :] + np.zeros(
            y.shape, "f4"
        )
        ci = fma(np.arange(y.shape[0]).astype("f4"), one(2) / one(height), one(-1))[:, None] + np.zeros(
            y.shape, "f4"
        )
        zr, zi, count = np.zeros(y.shape, "f4"), np.zeros(y.shape, "f4"), np.zeros(y.shape, "i4")
        for _ in range(rounds):
            inside = fma(zr, zr, zi * zi) <= 4
            nr, ni = fma(zr, zr, -(zi * zi)) + cr, fma(one(2) * zr, zi, ci)
            zr, zi = np.where(inside, nr, zr), np.where(inside, ni, zi)
            count += inside
    return {0: count}


case(
    "mandelbrot",
    "mandelbrot",
    [A(I, 2), Scalar(F), Scalar(F), Scalar(I), 16, 32],
    (2, 2),
    lambda rng: (like((24, 50), I), np.float32(50), np.float32(24), np.int32(20)),
    escape,
)


def lived(x, y):
    around = sum(np.roll(x, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
    return {1: ((around == 3) | ((x == 1) & (around == 2))).astype("i1")}


case(
    "game_of_life",
    "life",
    [A("i8", 2), A("i8", 2), 16, 16],
    (2, 2),
    lambda rng: (integers(rng, (20, 30), "i8", 0, 2), like((20, 30), "i8")),
    lived,
)


def priced(s, k, t, call, rate, vol):
    def normal(d):
        u = 1 / (1 + 0.2316419 * abs(d))
        poly = u * (
            0.31938153 + u * (-0.356563782 + u * (1.781477937 + u * (-1.821255978 + u * 1.330274429)))
        )
        tail = 0.3989422804014327 * np.exp(-0.5 * d * d) * poly
        return np.where(d > 0, 1 - tail, tail)

    spot, strike, years = wide(s, k, t)
    r, v = float(rate), float(vol)
    root = v * np.sqrt(years)
    d1 = (np.log(spot / strike) + (r + 0.5 * v * v) * years) / root
    return {3: (spot * normal(d1) - strike * np.exp(-r * years) * normal(d1 - root)).astype("f4")}


case(
    "black_scholes",
    "black_scholes",
    [A(F, 1)] * 4 + [Scalar(F), Scalar(F), 128],
    (2,),
    lambda rng: (
        uniform(rng, 250, F, 5, 30),
        uniform(rng, 250, F, 5, 30),
        uniform(rng, 250, F, 0.3, 3),
        like(250),
        np.float32(0.02),
        np.float32(0.3),
    ),
    priced,
    rtol=1e-5,
    atol=4e-5,
)


def pulled(p, a, n):
    q = wide(p)[0][:n]
    d = q[None, :, :3] - q[:, None, :3]
    inv = 1 / np.sqrt((d * d).sum(2) + 0.01)
    out = wide(a)[0]
    out[:n, :3] = ((q[None, :, 3] * inv**3)[..., None] * d).sum(1)
    return {1: out.astype("f4")}


case(
    "nbody",
    "nbody",
    [A(F, 2), A(F, 2), Scalar(I), 16, 32],
    (3,),
    lambda rng: (uniform(rng, (48, 4), F, 0, 1), like((48, 4), F, 3), np.int32(48)),
    pulled,
    rtol=1e-5,
    atol=2e-3,
)


def largest(x, value, index):
    at = np.argsort(-x, 1, kind="stable")[:, :4].astype("i4")
    return {1: np.take_along_axis(x, at, 1), 2: at}


case(
    "top_k",
    "top_k",
    [A(F, 2), A(F, 2), A(I, 2), 64, 4],
    (3,),
    lambda rng: (uniform(rng, (3, 50)), like((3, 4)), like((3, 4), I)),
    largest,
)
case(
    "nearest_center",
    "nearest_center",
    [A("f32", 2), A("f32", 2), A(I, 1), 32, 8, 16],
    (2,),
    lambda rng: (uniform(rng, (60, 16)), uniform(rng, (8, 16)), like(60, I)),
    lambda x, c, label: {2: ((x[:, None].astype("f8") - c[None]) ** 2).sum(2).argmin(1).astype("i4")},
)


def driven(a, x, b, c, y):
    av, xv, bv, cv = wide(a, x, b, c)
    h, out = np.zeros(a.shape), np.zeros(y.shape)
    for t in range(x.shape[1]):
        h = av * h + bv[t] * xv[:, t : t + 1]
        out[:, t] = h @ cv[t]
    return {4: out.astype("f4")}


case(
    "state_space",
    "state_space",
    [A(F, 2)] * 5 + [20, 16],
    (3,),
    lambda rng: (
        uniform(rng, (3, 16), F, 0.5, 1),
        uniform(rng, (3, 20)),
        uniform(rng, (20, 16)),
        uniform(rng, (20, 16)),
        like((3, 20)),
    ),
    driven,
    rtol=1e-5,
    atol=2e-5,
)

for d, k in (("f32", 3), ("i32", 5), ("f16", 2)):
    module(
        f"several_entries_{d}",
        "two_signatures",
        [A(d, 1), A(d, 1), 64, k],
        (2,),
        lambda rng, d=d: (
            uniform(rng, 100, "f32", -8, 8).astype("i4") if d == "i32" else uniform(rng, 100, d, -8, 8),
            like(100, d),
        ),
        lambda x, y, k=k: {1: fma(x, x.dtype.type(k), x) if x.dtype.kind == "f" else x * k + x},
        module="several_entries",
        version="13.3",
    )
module(
    "hinted_entry",
    "hinted",
    [A(F, 1), A(F, 1), 256],
    (2,),
    lambda rng: (uniform(rng, 500), like(500)),
    lambda x, y: {1: x + np.float32(1)},
    version="13.3",
    min_arch=90,
)
