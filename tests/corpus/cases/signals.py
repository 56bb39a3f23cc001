"""Images, signals, and scans and reductions whose bodies are the author's own.

Integer results are exact; f32 ones err by their sums and products.
"""

from __future__ import annotations

import numpy as np

from tests.corpus.case import Array as A
from tests.corpus.case import Family, Scalar, integers, like, uniform, wide

F, I = "f32", "i32"
T5 = {"rtol": 1e-5, "atol": 1e-5}

image_case = Family("image", "python/signals.py")


def median3x3_values(x, y):
    p = np.pad(x, 1, mode="edge")
    h, w = x.shape
    return {
        1: np.median(np.stack([p[i : i + h, j : j + w] for i in range(3) for j in range(3)]), 0).astype(
            x.dtype
        )
    }


for d in ("u8", "i16", "f32"):
    image_case(
        f"median3x3_{d}",
        "median3x3",
        [A(d, 2), A(d, 2), 16],
        (2, 2),
        lambda rng, d=d: (
            uniform(rng, (25, 30), d) if d[0] == "f" else integers(rng, (25, 30), d),
            like((25, 30), d),
        ),
        median3x3_values,
    )


def bilinear_values(x, y):
    H, W = y.shape
    h, w = x.shape
    fy = (np.arange(H) + 0.5) * (h / H) - 0.5
    fx = (np.arange(W) + 0.5) * (w / W) - 0.5
    y0 = np.floor(fy).astype(int)
    x0 = np.floor(fx).astype(int)
    wy = (fy - y0)[:, None]
    wx = (fx - x0)[None]

    def g(a, b):
        return x.astype("f8")[np.clip(a, 0, h - 1)[:, None], np.clip(b, 0, w - 1)[None]]

    return {
        1: (
            (g(y0, x0) * (1 - wx) + g(y0, x0 + 1) * wx) * (1 - wy)
            + (g(y0 + 1, x0) * (1 - wx) + g(y0 + 1, x0 + 1) * wx) * wy
        ).astype("f4")
    }


image_case(
    "bilinear",
    "bilinear",
    [A("u8", 2), A(F, 2), 16],
    (2, 3),
    lambda rng: (integers(rng, (11, 17), "u8"), like((27, 40))),
    bilinear_values,
    rtol=1e-5,
    atol=1e-3,
)

image_case(
    "integral_image",
    "integral_image",
    [A("u8", 2), A(I, 2), 32],
    (1,),
    lambda rng: (integers(rng, (30, 27), "u8"), like((30, 27), I)),
    lambda x, y: {1: x.astype("i4").cumsum(0).cumsum(1).astype("i4")},
)


def overlap_pool_values(x, y):
    p = np.pad(wide(x)[0], ((0, 0), (0, 8), (0, 8)))
    out = np.zeros(y.shape)
    for i in range(y.shape[1]):
        for j in range(y.shape[2]):
            out[:, i, j] = p[:, 3 * i : 3 * i + 4, 3 * j : 3 * j + 4].sum((1, 2)) / 16
    return {1: out.astype("f4")}


image_case(
    "overlap_pool",
    "overlap_pool",
    [A(F, 3), A(F, 3), 4, 3],
    (2, 4, 4),
    lambda rng: (uniform(rng, (2, 11, 11)), like((2, 4, 4))),
    overlap_pool_values,
    rtol=1e-6,
    atol=1e-6,
    since="13.3",
)


signal_case = Family("signal", "python/signals.py")


def dct8_values():
    k = np.arange(8)
    m = np.cos(np.pi * (2 * k[None] + 1) * k[:, None] / 16) * 0.5
    m[0] /= np.sqrt(2)
    return m.astype("f4")


signal_case(
    "dct8",
    "dct8",
    [A(F, 3), A(F, 2), A(F, 3), 4],
    (2,),
    lambda rng: (uniform(rng, (7, 8, 8), F, -128, 127), dct8_values(), like((7, 8, 8))),
    lambda x, d, y: {2: (wide(d)[0] @ wide(x)[0] @ wide(d)[0].T).astype("f4")},
    rtol=1e-5,
    atol=1e-3,
)


def haar_values(x, y):
    y = y.copy()
    v = wide(x)[0]
    for _ in range(3):
        e, o = v[:, ::2], v[:, 1::2]
        n = e.shape[1]
        y[:, n : 2 * n] = (e - o) / 2
        v = (e + o) / 2
    y[:, : v.shape[1]] = v
    return {1: y}


signal_case(
    "haar",
    "haar",
    [A(F, 2), A(F, 2), 64, 3],
    (3,),
    lambda rng: (uniform(rng, (3, 64)), like((3, 64))),
    haar_values,
    **T5,
)


def iir_scan_values(x, a1, a2, y):
    a1, a2 = float(a1), float(a2)
    out = np.zeros(y.shape)
    p = q = np.zeros(len(x))
    for t in range(x.shape[1]):
        n = a1 * p + a2 * q + x[:, t]
        q = p
        p = n
        out[:, t] = n
    return {3: out.astype("f4")}


signal_case(
    "iir_scan",
    "iir_scan",
    [A(F, 2), Scalar(F), Scalar(F), A(F, 2), 64],
    (2,),
    lambda rng: (uniform(rng, (2, 64)), np.float32(1.2), np.float32(-0.5), like((2, 64))),
    iir_scan_values,
    rtol=1e-4,
    atol=1e-4,
)


def fft_mixed_fftf(re, im, wr, wi, tr, ti, a, b):
    z = wide(re)[0] + 1j * wide(im)[0]
    w = wide(wr)[0] + 1j * wide(wi)[0]
    t = wide(tr)[0] + 1j * wide(ti)[0]
    o = ((w @ z) * t).transpose(0, 2, 1)
    return {6: o.real.astype("f4"), 7: o.imag.astype("f4")}


def fft_mixed_values(rng):
    N1, N2 = 16, 8
    a = -2 * np.pi * np.outer(np.arange(N1), np.arange(N1)) / N1
    t = -2 * np.pi * np.outer(np.arange(N1), np.arange(N2)) / (N1 * N2)
    return (
        uniform(rng, (2, N1, N2)),
        uniform(rng, (2, N1, N2)),
        np.cos(a).astype("f4"),
        np.sin(a).astype("f4"),
        np.cos(t).astype("f4"),
        np.sin(t).astype("f4"),
        like((2, N2, N1)),
        like((2, N2, N1)),
    )


signal_case(
    "fft_four_step",
    "fft_mixed",
    [A(F, 3)] * 2 + [A(F, 2)] * 4 + [A(F, 3)] * 2 + [16, 8],
    (2,),
    fft_mixed_values,
    fft_mixed_fftf,
    rtol=1e-5,
    atol=5e-5,
)


def fft_radix4_values(re, im, a, b):
    z = (wide(re)[0] + 1j * wide(im)[0]).reshape(-1, 4, 16)
    y = np.fft.fft(z, axis=1) * np.exp(-2j * np.pi * np.outer(np.arange(4), np.arange(16)) / 64)
    y = y.transpose(0, 2, 1).reshape(-1, 64)
    return {2: y.real.astype("f4"), 3: y.imag.astype("f4")}


signal_case(
    "fft_radix4",
    "fft_radix4",
    [A(F, 2)] * 4 + [64],
    (3,),
    lambda rng: (uniform(rng, (3, 64)), uniform(rng, (3, 64)), like((3, 64)), like((3, 64))),
    fft_radix4_values,
    rtol=1e-5,
    atol=1e-5,
)

signal_case(
    "winograd",
    "winograd",
    [A("f64", 1)] * 3 + [16],
    (3,),
    lambda rng: (uniform(rng, 82, "f64"), uniform(rng, 3, "f64"), like(80, "f64")),
    lambda x, w, y: {2: np.correlate(x, w, "valid")},
    rtol=1e-12,
    atol=1e-12,
)


def lattice_values(f, g):
    cx = [0, 1, 0, -1, 0, 1, -1, -1, 1]
    cy = [0, 0, 1, 0, -1, 1, 1, -1, -1]
    w = [4 / 9] + [1 / 9] * 4 + [1 / 36] * 4
    s = np.stack([np.roll(wide(f)[0][k], (cy[k], cx[k]), (0, 1)) for k in range(9)])
    rho = s.sum(0)
    ux = sum(s[k] * cx[k] for k in range(9)) / rho
    uy = sum(s[k] * cy[k] for k in range(9)) / rho
    return {
        1: np.stack(
            [
                s[k]
                + 0.6
                * (
                    w[k]
                    * rho
                    * (1 + 3 * (e := ux * cx[k] + uy * cy[k]) + 4.5 * e * e - 1.5 * (ux * ux + uy * uy))
                    - s[k]
                )
                for k in range(9)
            ]
        ).astype("f4")
    }


signal_case(
    "lattice",
    "lattice",
    [A(F, 3), A(F, 3), 0.6, 16, 32],
    (1,),
    lambda rng: (uniform(rng, (9, 16, 32), F, 0.5, 1), like((9, 16, 32))),
    lattice_values,
    **T5,
)


scan_case = Family("scan", "python/signals.py")


def segmented_scan_values(axis, rev):
    def f(x, fl, y):
        a = np.moveaxis(x, axis, 1)
        g = np.moveaxis(fl, axis, 1)
        if rev:
            a = a[:, ::-1]
            g = g[:, ::-1]
        out = np.zeros_like(a)
        c = np.zeros(len(a), "i4")
        for t in range(a.shape[1]):
            c = np.where(g[:, t] != 0, a[:, t], c + a[:, t])
            out[:, t] = c
        if rev:
            out = out[:, ::-1]
        return {2: np.moveaxis(out, 1, axis)}

    return f


for ax in (0, 1):
    for rv in (False, True):
        scan_case(
            f"segmented_scan_{ax}_{int(rv)}",
            "segmented_scan",
            [A(I, 2), A(I, 2), A(I, 2), 32, ax, rv],
            (1,),
            lambda rng: (
                integers(rng, (32, 32), I, -99, 99),
                (rng.random((32, 32)) < 0.2).astype("i4"),
                like((32, 32), I),
            ),
            segmented_scan_values(ax, rv),
        )


def matrix_scan_values(a, b, c, d, o):
    out = np.zeros_like(a)
    for r in range(len(a)):
        m = np.eye(2, dtype="i4")
        for t in range(a.shape[1]):
            m = (m @ np.array([[a[r, t], b[r, t]], [c[r, t], d[r, t]]], "i4")).astype("i4")
            out[r, t] = m[0, 0] + m[0, 1] * 3 + m[1, 0] * 5 + m[1, 1] * 7
    return {4: out}


scan_case(
    "matrix_scan",
    "matrix_scan",
    [A(I, 2)] * 5 + [64],
    (3,),
    lambda rng: (*[integers(rng, (3, 64), I, -3, 4) for _ in range(4)], like((3, 64), I)),
    matrix_scan_values,
)

scan_case(
    "reduce_mixed",
    "reduce_mixed",
    [A("f16", 3), A("f16", 2), A("f64", 2), A("i64", 2), 4, 16, 8, 1],
    (1,),
    lambda rng: (
        uniform(rng, (4, 16, 8), "f16"),
        like((4, 8), "f16"),
        like((4, 8), "f64"),
        like((4, 8), "i64"),
    ),
    lambda x, m, s, i: {1: x.max(1), 2: x.astype("f8").sum(1), 3: x.argmax(1)},
    rtol=1e-12,
    atol=1e-12,
)

scan_case(
    "reduce_all_axes",
    "reduce_all_axes",
    [A(I, 4), A(I, 4), 2, 4, 8, 4],
    (1,),
    lambda rng: (integers(rng, (2, 4, 8, 4), I, -99, 99), like((2, 4, 8, 4), I)),
    lambda x, o: {
        1: x * 2
        + x.sum((0, 2), keepdims=True)
        + x.max((1, 3), keepdims=True)
        + x.min()
        + x.sum(3, keepdims=True)
    },
)
