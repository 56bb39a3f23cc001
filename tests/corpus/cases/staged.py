"""Products whose operands run ahead through shared memory: rows aligned to 16 bytes, as real arrays mostly are.

Every element type and layout, ragged in M, N and K, more steps than the ring has stages and fewer, tiles of one and of
several warpgroups. Tolerances as in matmul.py; values of 8-bit floats are exact, their sums round in f32.
"""

from __future__ import annotations

import itertools

import numpy as np

from tests.corpus.case import DTYPES, Array, Family, Scalar, integers, like, uniform, wide
from tests.corpus.cases.algorithms import attended
from tests.corpus.cases.matmul import F32, OUT16, as_tf32, product
from tests.corpus.cases.science import mm_complex_values
from tests.corpus.cases.training import bwd_in, flash_bwd_dkdv_bwd, flash_values, mm_gated_values

case = Family("staged", "python/matmul.py")
converted = Family("staged_converted", "python/converted.py")
attention = Family("staged_attention", "python/algorithms.py")
flash = Family("staged_attention", "python/training.py")
pages = Family("staged_attention", "python/attention.py")
chain = Family("staged_chains", "python/chains.py")
positions = Family("staged_positions", "python/positions.py")
biases = Family("staged_biases", "python/biases.py")
groups = Family("staged_groups", "python/groups.py")
numbers = Family("staged_numbers", "python/science.py")
layers = Family("staged_layers", "python/training.py")
wide_heads = Family("staged_wide_heads", "python/chains.py")
sums = Family("staged_sums", "python/converted.py")


def A(dtype: str, ndim: int) -> Array:
    return Array(dtype, ndim, div=16)


def operands(m, n, k, d, out, layout):
    a, b = (k, m) if layout[0] == "t" else (m, k), (n, k) if layout[1] == "t" else (k, n)
    make = (
        (lambda rng, s: integers(rng, s, d))
        if d in ("i8", "u8")
        else (lambda rng, s: uniform(rng, s, d, -1, 1))
    )
    return lambda rng: (make(rng, a), make(rng, b), like((m, n), out))


def expected(layout, d):
    def f(a, b, c):
        if d == "i8":
            x, y = a.astype("i4"), b.astype("i4")
        else:
            x, y = (as_tf32(a), as_tf32(b)) if d == "tf32" else (a, b)
            x, y = wide(x)[0], wide(y)[0]
        x = x.T if layout[0] == "t" else x
        y = y.T if layout[1] == "t" else y
        return {2: (x @ y).astype("f8" if d == "f64" else "i4" if d == "i8" else "f4").astype(c.dtype)}

    return f


KERNEL = {"nn": "matmul", "nt": "matmul_nt", "tn": "matmul_tn"}
WIDE = {"rtol": 1e-2, "atol": 2e-2}
for name, d, out, layout, tile, (m, n, k), tol, least in (
    ("bf16_nn", "bf16", "f32", "nn", (64, 64, 64), (112, 80, 272), F32, 75),
    ("bf16_nn_128", "bf16", "bf16", "nn", (128, 128, 64), (144, 272, 208), {"rtol": 8e-3, "atol": 1e-2}, 75),
    ("f16_nt", "f16", "f16", "nt", (128, 64, 32), (160, 112, 144), OUT16, 75),
    ("f16_tn", "f16", "f32", "tn", (64, 128, 64), (96, 176, 304), F32, 75),
    ("bf16_one_step", "bf16", "f32", "nn", (64, 32, 64), (64, 32, 48), F32, 75),
    ("f16_narrow", "f16", "f32", "nn", (16, 16, 16), (32, 48, 112), F32, 75),
    ("f16_wide", "f16", "f16", "nn", (64, 256, 32), (80, 288, 96), OUT16, 75),
    ("tf32_nn", "tf32", "f32", "nn", (64, 64, 32), (80, 112, 144), F32, 75),
    ("tf32_nn_128", "tf32", "f32", "nn", (128, 64, 32), (144, 80, 112), F32, 75),
    ("f64_nn", "f64", "f64", "nn", (32, 32, 16), (48, 64, 80), {"rtol": 1e-13, "atol": 1e-13}, 75),
    ("f32_nn", "f32", "f32", "nn", (32, 64, 16), (48, 80, 64), F32, 75),
    ("f32_nt", "f32", "f32", "nt", (64, 64, 16), (80, 112, 144), F32, 75),
    ("f32_tn", "f32", "f32", "tn", (32, 128, 32), (48, 144, 112), F32, 75),
    ("f32_deep", "f32", "f32", "nn", (64, 64, 64), (80, 96, 144), F32, 75),
    ("i8_nn", "i8", "i32", "nn", (64, 64, 64), (96, 80, 208), {}, 75),
    ("e4m3_nn", "e4m3", "f32", "nn", (64, 64, 64), (80, 96, 208), WIDE, 90),
    ("e5m2_nt", "e5m2", "f32", "nt", (128, 64, 64), (144, 80, 144), {"rtol": 1e-2, "atol": 5e-2}, 90),
    ("e4m3_nt", "e4m3", "f32", "nt", (64, 128, 128), (80, 144, 272), WIDE, 90),
):  # fmt: skip
    kernel = {"tf32": "matmul_tf32", "f64": "matmul_f64", "i8": "matmul_int8"}.get(d, KERNEL[layout])
    stored = "f32" if d == "tf32" else d
    case(
        f"staged_{name}",
        kernel,
        [A(stored, 2), A(stored, 2), A(out, 2), *tile],
        (-(-m // tile[0]), -(-n // tile[1])),
        operands(m, n, k, stored, out, layout),
        expected(layout, d),
        min_arch=least,
        tags=("fp8",) if d in ("e4m3", "e5m2") else (),
        **tol,
    )
case(
    "staged_persistent",
    "persistent",
    [A("bf16", 2), A("bf16", 2), A("f32", 2), 64, 64, 32],
    (3,),
    operands(160, 144, 112, "bf16", "f32", "nn"),
    product("bf16"),
    **F32,
)
case(
    "staged_persistent_128",
    "persistent",
    [A("bf16", 2), A("bf16", 2), A("f32", 2), 128, 64, 32],
    (2,),
    operands(144, 144, 80, "bf16", "f32", "nn"),
    product("bf16"),
    **F32,
)
case(
    "staged_dequantized",
    "dequantized",
    [A("f16", 2), A("i8", 2), A("f32", 1), A("f32", 2), 128, 64, 32],
    (2, 2),
    lambda rng: (
        uniform(rng, (144, 144), "f16", -1, 1),
        integers(rng, (144, 80), "i8"),
        uniform(rng, 80, "f32", 0, 0.1),
        like((144, 80)),
    ),
    lambda a, q, s, c: {3: (wide(a)[0] @ wide(q)[0] * wide(s)[0]).astype("f4")},
    rtol=1e-4,
    atol=1e-3,
)
case(
    "staged_batched",
    "batched",
    [A("f16", 3), A("f16", 3), A("f32", 3), 32, 32, 32],
    (2, 1, 3),
    lambda rng: (
        uniform(rng, (3, 48, 80), "f16", -1, 1),
        uniform(rng, (3, 80, 32), "f16", -1, 1),
        like((3, 48, 32)),
    ),
    lambda a, b, c: {2: (wide(a)[0] @ wide(b)[0]).astype("f4")},
    **F32,
)
case(
    "staged_batched_wide",
    "batched",
    [A("f16", 3), A("f16", 3), A("f32", 3), 64, 64, 32],
    (2, 2, 2),
    lambda rng: (
        uniform(rng, (2, 80, 144), "f16", -1, 1),
        uniform(rng, (2, 144, 80), "f16", -1, 1),
        like((2, 80, 80)),
    ),
    lambda a, b, c: {2: (wide(a)[0] @ wide(b)[0]).astype("f4")},
    **F32,
)
attention(
    "staged_attention_of_batches",
    "attention_of_batches",
    [A("f16", 3), A("f16", 3), A("f16", 3), A("f32", 3), Scalar("f32"), 64, 32, 64],
    (2, 2),
    lambda rng: (
        uniform(rng, (2, 96, 64), "f16", -1, 1),
        uniform(rng, (2, 80, 64), "f16", -1, 1),
        uniform(rng, (2, 80, 64), "f16", -1, 1),
        like((2, 96, 64)),
        np.float32(64**-0.5),
    ),
    attended(0),
    rtol=2e-3,
    atol=2e-3,
)


def kept(q, k, v, o, lse, scale):
    """Attention of [batch, place, head, lane], and the logarithm in base two of each row's sum of powers of two."""
    a, b, c = (x.transpose(0, 2, 1, 3) for x in wide(q, k, v))
    s = a @ b.transpose(0, 1, 3, 2) * (float(scale) * 1.4426950408889634)
    top = s.max(-1, keepdims=True)
    p = np.exp2(s - top)
    total = p.sum(-1, keepdims=True)
    return {
        3: (p @ c / total).transpose(0, 2, 1, 3).astype("f4").astype(o.dtype),
        4: (top + np.log2(total))[..., 0].astype("f4"),
    }


pages(
    "staged_attention_kept_sums",
    "kept_sums",
    [*(A("bf16", 4),) * 4, A("f32", 3), Scalar("f32"), 64, 64, 128],
    (2, 2, 1),
    lambda rng: (
        uniform(rng, (1, 112, 2, 128), "bf16", -1, 1),
        uniform(rng, (1, 176, 2, 128), "bf16", -1, 1),
        uniform(rng, (1, 176, 2, 128), "bf16", -1, 1),
        like((1, 112, 2, 128), "bf16"),
        like((1, 2, 112)),
        np.float32(128**-0.5),
    ),
    kept,
    rtol=1e-2,
    atol=1e-2,
)


def linear(q, k, v, o):
    """The same as one product: the mask keeps what lies at or before a row."""
    s = np.tril(wide(q)[0] @ wide(k)[0].transpose(0, 2, 1))
    return {3: (s @ wide(v)[0]).astype("f4").astype(o.dtype)}


for m, d in ((64, 64), (64, 128)):
    attention(
        f"staged_linear_attention_d{d}",
        "linear_attention",
        [A("f16", 3), A("f16", 3), A("f16", 3), A("f32", 3), m, d],
        (2,),
        lambda rng, d=d: (
            *(uniform(rng, (2, 208, d), "f16", -0.25, 0.25) for _ in range(3)),
            like((2, 208, d)),
        ),
        linear,
        rtol=1e-2,
        atol=1e-2,
    )


def faded(m):
    def f(c, b, x, decay, y):
        within, begun = wide(decay)[0], np.arange(decay.shape[1]) // m * m
        total = [
            sum(row[min(start + m, len(row)) - 1] for start in range(0, end, m))
            for row in within
            for end in begun
        ]
        sums = within + np.reshape(total, within.shape)
        fade = np.exp(np.minimum(sums[:, :, None] - sums[:, None, :], 0.0))
        s = np.tril(wide(c)[0] @ wide(b)[0].transpose(0, 2, 1) * fade)
        return {4: (s @ wide(x)[0]).astype("f4").astype(y.dtype)}

    return f


def decays(rng, shape, m):
    steps = rng.uniform(-0.08, -0.01, shape)
    for start in range(0, shape[1], m):
        steps[:, start : start + m] = steps[:, start : start + m].cumsum(1)
    return steps.astype(DTYPES["f32"])


for m, s, d, length in ((64, 128, 64, 208), (128, 128, 64, 272)):
    chain(
        f"staged_faded_state_{m}",
        "faded_state",
        [A("f16", 3), A("f16", 3), A("f16", 3), A("f32", 2), A("f32", 3), m, s, d],
        (2,),
        lambda rng, m=m, s=s, d=d, length=length: (
            *(uniform(rng, (2, length, s), "f16", -0.25, 0.25) for _ in range(2)),
            uniform(rng, (2, length, d), "f16", -1, 1),
            decays(rng, (2, length), m),
            like((2, length, d)),
        ),
        faded(m),
        rtol=1e-2,
        atol=1e-2,
    )


def gated(q, k, v, g, o):
    begun = np.arange(g.shape[1]) // 64 * 64
    sums = wide(g)[0].copy()
    for start in begun[begun > 0]:  # of all tokens, from those of each chunk
        if start % 64 == 0:
            sums[:, start : start + 64] = wide(g)[0][:, start : start + 64] + sums[:, start - 1 : start]
    s = np.tril((wide(q)[0] * np.exp(sums)) @ (wide(k)[0] * np.exp(-sums)).transpose(0, 2, 1))
    return {4: (s @ wide(v)[0]).astype("f4").astype(o.dtype)}


def stepped(a, w):
    out, m = a.copy(), 64
    for at in range(m, out.shape[1], m):
        out[:, at : at + m] = (wide(out[:, at - m : at])[0] @ wide(w)[0]).astype("f4").astype(a.dtype)
    return {0: out}


chain(
    "staged_in_place",
    "steps_in_place",
    [A("bf16", 3), A("bf16", 2), 64, 64],
    (2,),
    lambda rng: (
        uniform(rng, (2, 320, 128), "bf16", -1, 1),
        np.eye(128)[rng.permutation(128)].astype("f4").astype(DTYPES["bf16"]),  # exact: rows change places
    ),
    stepped,
)
chain(
    "staged_gated_state",
    "gated_state",
    [A("f16", 3), A("f16", 3), A("f16", 3), A("f32", 3), A("f32", 3), 64, 128],
    (1,),
    lambda rng: (
        *(uniform(rng, (1, 176, 128), "f16", -0.25, 0.25) for _ in range(2)),
        uniform(rng, (1, 176, 128), "f16", -1, 1),
        np.stack([decays(rng, (128, 176), 64).T]).copy(),
        like((1, 176, 128)),
    ),
    gated,
    rtol=2e-2,
    atol=2e-2,
)


def retained(q, k, v, o, gamma):
    q, k, v = (wide(x)[0] for x in (q, k, v))
    rows = np.arange(q.shape[1])
    far = rows[:, None] - rows[None, :]
    fade = np.where(far >= 0, wide(gamma)[0][: len(q), None, None] ** np.maximum(far, 0), 0.0)
    return {3: ((q @ k.transpose(0, 2, 1)) * fade @ v).astype(DTYPES["f16"])}


chain(
    "staged_retained_128",
    "retained",
    [A("f16", 3)] * 4 + [A("f32", 1), 128, 128],
    (2,),
    lambda rng: (
        *(uniform(rng, (2, 272, 128), "f16", -0.25, 0.25) for _ in range(2)),
        uniform(rng, (2, 272, 128), "f16", -1, 1),
        like((2, 272, 128), "f16"),
        uniform(rng, (16,), "f32", 0.9, 0.99),
    ),
    retained,
    rtol=1.6e-2,
    atol=1.6e-2,
)


def corrected(q, k, w, u, o):
    q, k, w, u = (wide(x)[0] for x in (q, k, w, u))
    out = np.zeros_like(q)
    for h in range(len(q)):
        state = np.zeros((q.shape[2], q.shape[2]))
        for i in range(0, q.shape[1], 128):
            x, y, z = q[h, i : i + 128], k[h, i : i + 128], w[h, i : i + 128]
            new = u[h, i : i + 128] - z @ state
            out[h, i : i + 128] = x @ state + np.tril(x @ y.T) @ new
            state = state + y.T @ new
    return {4: out.astype(o.dtype)}


for d, length in (("bf16", 512), ("f16", 304)):
    chain(
        f"staged_delta_rule_{d}",
        "delta_rule",
        [A(d, 3)] * 5 + [128, 128],
        (2,),
        lambda rng, d=d, length=length: (
            *(uniform(rng, (2, length, 128), d, -0.125, 0.125) for _ in range(3)),
            uniform(rng, (2, length, 128), d, -1, 1),
            like((2, length, 128), d),
        ),
        corrected,
        rtol=1.6e-2,
        atol=1.6e-2,
    )


def gated_corrections(m):
    def f(q, k, w, u, g, o):
        q, k, w, u, g = (wide(x)[0] for x in (q, k, w, u, g))
        out = np.zeros_like(q)
        for h in range(len(q)):
            state = np.zeros((q.shape[2], q.shape[2]))
            for i in range(0, q.shape[1], m):
                x, y, z, a = q[h, i : i + m], k[h, i : i + m], w[h, i : i + m], g[h, i : i + m, None]
                last = min(a.min(), 0.0) if len(a) < m else a.min()  # what the padding adds
                new = u[h, i : i + m] - z @ state
                fade = np.exp(np.tril(a - a.T))
                out[h, i : i + m] = x @ state * np.exp(a) + np.tril(x @ y.T * fade) @ new
                state = state * np.exp(last) + y.T @ (new * np.exp(last - a))
        return {5: out.astype(o.dtype)}

    return f


for d, m, width in (("bf16", 64, 128), ("f16", 128, 128), ("f16", 64, 64)):
    chain(
        f"staged_gated_delta_rule_{m}x{width}",
        "gated_delta_rule",
        [A(d, 3)] * 4 + [A("f32", 2), A(d, 3), m, width],
        (2,),
        lambda rng, d=d, m=m, width=width: (
            *(uniform(rng, (2, 304, width), d, -0.125, 0.125) for _ in range(3)),
            uniform(rng, (2, 304, width), d, -1, 1),
            decays(rng, (2, 304), m),
            like((2, 304, width), d),
        ),
        gated_corrections(m),
        rtol=1.6e-2,
        atol=1.6e-2,
    )


def over_latent(q, qr, c, cr, o, scale):
    q, qr, c, cr = (wide(v)[0] for v in (q, qr, c, cr))
    s = (q @ c.transpose(0, 2, 1) + qr @ cr.transpose(0, 2, 1)) * float(scale)
    e = np.exp(s - s.max(2, keepdims=True))
    return {4: (e / e.sum(2, keepdims=True) @ c).astype("f4")}


def over_latent_and_sink(q, qr, c, cr, o, scale):
    q, qr, c, cr = (wide(v)[0] for v in (q, qr, c, cr))
    e = np.exp((q @ c.transpose(0, 2, 1) + qr @ cr.transpose(0, 2, 1)) * float(scale))
    return {4: (e / (1 + e.sum(2, keepdims=True)) @ c).astype("f4")}


for name, d, m, n, width, places in (
    ("512", "bf16", 64, 64, 512, 64),
    ("256", "f16", 64, 32, 256, 32),
    ("512_few", "bf16", 64, 16, 512, 64),
    ("512_of_16_rows", "bf16", 16, 32, 512, 64),
    ("256_of_32_rows", "f16", 32, 64, 256, 32),
    ("256_beside_128", "f16", 32, 32, 256, 128),
    ("twice_512", "bf16", 16, 64, 512, 64),
    ("twice_256", "f16", 32, 32, 256, 32),
    ("twice_256_of_16_rows", "bf16", 16, 128, 256, 64),
    ("twice_512_of_32_rows", "bf16", 32, 32, 512, 64),
    ("twice_512_of_64_rows", "bf16", 64, 64, 512, 64),
):
    chain(
        f"staged_latent_{name}",
        "latent_twice" if "twice" in name else "latent",
        [A(d, 3)] * 4 + [A("f32", 3), Scalar("f32"), m, n, width, places],
        (1,),
        lambda rng, d=d, m=m, width=width, places=places: (
            uniform(rng, (1, m, width), d, -1, 1),
            uniform(rng, (1, m, places), d, -1, 1),
            uniform(rng, (1, 208, width), d, -1, 1),
            uniform(rng, (1, 208, places), d, -1, 1),
            like((1, m, width)),
            np.float32(width**-0.5),
        ),
        over_latent_and_sink if "twice" in name else over_latent,
        rtol=1.6e-2,
        atol=8e-3,
    )


def over_keys(q, k, v, o, scale):
    q, k, v = (wide(x)[0] for x in (q, k, v))
    s = q @ k.transpose(0, 2, 1) * float(scale)
    e = np.exp(s - s.max(2, keepdims=True))
    return {3: (e / e.sum(2, keepdims=True) @ v).astype("f4")}


for name, d, m, n, width in (
    ("512", "bf16", 64, 64, 512),
    ("512_of_16_rows", "bf16", 16, 64, 512),
    ("256_of_32_rows", "f16", 32, 128, 256),
    ("512_by_128_keys", "bf16", 16, 128, 512),  # tiles of 2^16 elements
):
    (wide_heads if n * width > 1 << 15 else chain)(
        f"staged_wide_heads_{name}",
        "wide_heads",
        [A(d, 3)] * 3 + [A("f32", 3), Scalar("f32"), m, n, width],
        (1,),
        lambda rng, d=d, m=m, width=width: (
            uniform(rng, (1, m, width), d, -1, 1),
            uniform(rng, (1, 208, width), d, -1, 1),
            uniform(rng, (1, 208, width), d, -1, 1),
            like((1, m, width)),
            np.float32(width**-0.5),
        ),
        over_keys,
        rtol=1.6e-2,
        atol=8e-3,
    )


def complex_values(ar, ai, br, bi, cr, ci):
    a, b = wide(ar)[0] + 1j * wide(ai)[0], wide(br)[0] + 1j * wide(bi)[0]
    return {4: (a @ b).real.astype("f4"), 5: (a @ b).imag.astype("f4")}


for name, d, tile, (m, n, k) in (
    ("f16", "f16", (128, 64, 32), (144, 80, 304)),
    ("bf16_64", "bf16", (64, 64, 64), (80, 64, 48)),
):
    attention(
        f"staged_complex_product_{name}",
        "complex_product",
        [A(d, 2)] * 4 + [A("f32", 2)] * 2 + list(tile),
        (2, 2),
        lambda rng, d=d, m=m, n=n, k=k: (
            *(uniform(rng, (m, k), d, -1, 1) for _ in range(2)), *(uniform(rng, (k, n), d, -1, 1) for _ in range(2)),
            like((m, n)), like((m, n)),
        ),
        complex_values,
        **F32,
    )  # fmt: skip


def states(before, after):
    def f(k, v, s, scale):
        out, total = s.copy(), 0.0
        for i in range(0, k.shape[1], 64):
            if before:
                out[:, i // 32] = total * np.float32(0.5)
            total = total + wide(k)[0][:, i : i + 64].transpose(0, 2, 1) @ wide(v)[0][:, i : i + 64]
            if after:
                out[:, i // 32 + 1] = total * scale
        return {2: out}

    return f


for before, after, d in ((1, 0, 64), (0, 1, 64), (1, 1, 128)):
    attention(
        f"staged_running_states_{before}{after}",
        "running_states",
        [A("f16", 3), A("f16", 3), A("f32", 4), Scalar("f32"), 64, d, before, after],
        (2,),
        lambda rng, d=d: (
            uniform(rng, (2, 336, d), "f16", -1, 1), uniform(rng, (2, 336, d), "f16", -1, 1),
            like((2, 12, d, d)), np.float32(0.25),
        ),
        states(before, after),
        **F32,
    )  # fmt: skip
case(
    "staged_split_k",
    "split_k",
    [A("f16", 2), A("f16", 2), A("f32", 2), 64, 64, 32, 3],
    (2, 1, 3),
    operands(80, 64, 304, "f16", "f32", "nn"),
    product("f16"),
    **F32,
)

masked = Family("staged_masked", "python/masked.py")
for d in ("bf16", "f16"):
    masked(
        f"staged_masked_triangle_{d}",
        "lower_triangle",
        [A(d, 2), A(d, 2), A("f32", 2), 64, 64, 32],
        (3, 2),
        lambda rng, d=d: (
            uniform(rng, (160, 160), d, -1, 1),
            uniform(rng, (160, 80), d, -1, 1),
            like((160, 80)),
        ),
        lambda a, b, c: {2: (np.tril(wide(a)[0]) @ wide(b)[0]).astype("f4")},
        **F32,
    )

# ---- operands that are transposed or converted between load and product
for name, d, tile, (m, n, k), least in (
    ("tf32_nt", "tf32", (64, 64, 64), (80, 112, 144), 75),
    ("tf32_tn", "tf32", (128, 64, 32), (144, 80, 112), 75),
    ("tf32_tt", "tf32", (64, 32, 32), (64, 48, 80), 75),
    ("i8_tn", "i8", (64, 128, 64), (96, 144, 208), 75),
    ("i8_nn_deep", "i8", (64, 64, 128), (80, 80, 400), 75),
    ("i8_tt", "i8", (128, 64, 64), (144, 80, 144), 75),
):
    layout = name.split("_")[1]
    stored, out = ("i8", "i32") if d == "i8" else ("f32", "f32")
    converted(
        f"staged_converted_{name}",
        "product_int8" if d == "i8" else "product_tf32",
        [A(stored, 2), A(stored, 2), A(out, 2), *tile, int(layout[0] == "t"), int(layout[1] == "t")],
        (-(-m // tile[0]), -(-n // tile[1])),
        operands(m, n, k, stored, out, layout),
        expected(layout, d),
        min_arch=least,
        **({} if d == "i8" else F32),
    )
for layout, tile, (m, n, k) in (
    ("nn", (128, 64, 32), (144, 80, 80)),
    ("nt", (64, 64, 32), (80, 80, 144)),
    ("tn", (64, 128, 32), (80, 144, 112)),
):
    converted(
        f"staged_converted_tf32_{layout}_in_parts",
        "product_tf32_in_parts",
        [A("f32", 2), A("f32", 2), A("f32", 2), *tile, int(layout[0] == "t"), int(layout[1] == "t")],
        (-(-m // tile[0]), -(-n // tile[1])),
        operands(m, n, k, "f32", "f32", layout),
        expected(layout, "f32"),
        rtol=1e-4,
        atol=1e-4,
    )


def weights(m, n, k, layout):
    b = (n, k) if layout[1] == "t" else (k, n)
    return lambda rng: (
        uniform(rng, (m, k), "bf16", -1, 1), integers(rng, b, "i8"), uniform(rng, n, "f32", 0, 0.1), like((m, n)),
    )  # fmt: skip


for layout in ("nn", "nt"):
    converted(
        f"staged_converted_w8a16_{layout}",
        "weights_8bit",
        [A("bf16", 2), A("i8", 2), A("f32", 1), A("f32", 2), 64, 128, 64, int(layout[1] == "t")],
        (2, 2),
        weights(80, 144, 272, layout),
        lambda a, q, s, c, t=layout[1] == "t": {
            3: (wide(a)[0] @ wide(q)[0].T * wide(s)[0] if t else wide(a)[0] @ wide(q)[0] * wide(s)[0]).astype(
                "f4"
            )
        },
        **F32,
    )
converted(
    "staged_converted_a8w16",
    "activations_8bit",
    [A("e5m2", 2), A("f16", 2), A("f32", 2), 128, 64, 64],
    (2, 2),
    lambda rng: (
        uniform(rng, (144, 208), "e5m2", -1, 1),
        uniform(rng, (208, 80), "f16", -1, 1),
        like((144, 80)),
    ),
    lambda a, b, c: {2: (wide(a)[0] @ wide(b)[0]).astype("f4")},
    min_arch=90,
    tags=("fp8",),
    **F32,
)
converted(
    "staged_converted_rounded_left",
    "rounded_left",
    [A("f32", 2), A("bf16", 2), A("f32", 2), 128, 128, 64],
    (2, 2),
    lambda rng: (
        rng.integers(-9, 10, (144, 208)).astype("f4"),
        uniform(rng, (144, 208), "bf16", -1, 1),
        like((144, 144)),
    ),
    lambda a, w, c: {2: (wide(a)[0] @ wide(w)[0].T).astype("f4")},
    **F32,
)
converted(
    "staged_converted_turned_tf32",
    "turned_tf32",
    [A("f32", 2), A("f32", 2), A("f32", 2), 128, 64, 32],
    (2, 2),
    operands(160, 80, 112, "f32", "f32", "tn"),
    expected("tn", "tf32"),
    **F32,
)
converted(
    "staged_converted_groups_of_steps",
    "groups_of_steps",
    [A("f16", 2), A("i8", 2), A("f32", 2), A("f32", 2), 128, 128, 64, 2],
    (2, 1),
    lambda rng: (
        uniform(rng, (144, 320), "f16", -1, 1),
        integers(rng, (320, 112), "i8"),
        uniform(rng, (3, 112), "f32", 0, 0.1),
        like((144, 112)),
    ),
    lambda a, q, s, c: {
        3: (wide(a)[0] @ (wide(q)[0] * np.repeat(wide(s)[0], 128, axis=0)[:320])).astype("f4")
    },
    **F32,
)


def nibbles(a, q, s, c, rows=32):
    """Q as `weights_4bit` reads it, one scale for `rows` rows of it."""
    k = q.shape[0]
    u = q.view("u1").astype("i4")
    scale = np.repeat(wide(s)[0], rows, axis=0)[:k]
    halves = [((u & 15) - 8) * scale, ((u >> 4) - 8) * scale]
    blocks = [half[r : r + rows] for r in range(0, k, rows) for half in halves]
    w = np.concatenate(blocks).astype("f2").astype("f8")
    return {3: (wide(a)[0] @ w).astype("f4")}


converted(
    "staged_converted_w4a16",
    "weights_4bit",
    [A("f16", 2), A("i8", 2), A("f16", 2), A("f32", 2), 64, 64, 32, 32],
    (2, 2),
    lambda rng: (
        uniform(rng, (80, 192), "f16", -1, 1), integers(rng, (96, 80), "i8"), uniform(rng, (3, 80), "f16", 0.5, 1),
        like((80, 80)),
    ),
    nibbles,
    rtol=2e-3,
    atol=2e-2,
)  # fmt: skip

P16 = {"rtol": 2e-3, "atol": 2e-3}
P8 = {"rtol": 4e-2, "atol": 4e-2}  # probabilities keep four bits
for name, d, out, (h, n, m), (tm, tn, td), causal, tol in (
    ("f16", "f16", "f16", (2, 144, 208), (128, 64, 64), 0, P16),
    ("causal_bf16", "bf16", "f32", (1, 160, 160), (64, 32, 128), 1, {"rtol": 1.6e-2, "atol": 1.6e-2}),
    ("small_f16", "f16", "f32", (1, 48, 80), (16, 16, 32), 0, P16),
    ("d256_bf16", "bf16", "f32", (1, 80, 80), (64, 64, 256), 1, {"rtol": 1.6e-2, "atol": 1.6e-2}),
    ("wide_bf16", "bf16", "bf16", (1, 288, 144), (256, 64, 64), 0, {"rtol": 1.6e-2, "atol": 1.6e-2}),
    ("full_f16", "f16", "f16", (1, 240, 272), (256, 128, 128), 0, P16),  # takes all of sm_100's tensor memory
    ("full_causal_bf16", "bf16", "f32", (1, 272, 272), (256, 128, 128), 1, {"rtol": 1.6e-2, "atol": 1.6e-2}),
    ("e4m3", "e4m3", "f32", (1, 144, 208), (64, 64, 128), 0, {"rtol": 6e-2, "atol": 6e-2}),  # so does P
    ("e4m3_causal", "e4m3", "f32", (1, 144, 144), (128, 128, 128), 1, {"rtol": 6e-2, "atol": 6e-2}),
    ("rows_e4m3", "e4m3", "f32", (2, 144, 464), (128, 64, 128), 0, P8),
    ("causal_e4m3", "e4m3", "bf16", (1, 272, 272), (128, 128, 64), 1, P8),
    ("wide_e4m3", "e4m3", "f32", (1, 288, 144), (256, 64, 64), 0, P8),
    ("e5m2", "e5m2", "f32", (1, 80, 208), (64, 64, 64), 0, {"rtol": 8e-2, "atol": 8e-2}),
):
    attention(
        f"staged_attention_{name}",
        "attention",
        [A(d, 3), A(d, 3), A(d, 3), A(out, 3), Scalar("f32"), tm, tn, td, causal],
        (-(-n // tm), h),
        lambda rng, d=d, out=out, h=h, n=n, m=m, td=td: (
            uniform(rng, (h, n, td), d), uniform(rng, (h, m, td), d), uniform(rng, (h, m, td), d),
            like((h, n, td), out), np.float32(td**-0.5),
        ),
        attended(causal),
        min_arch=90 if d in ("e4m3", "e5m2") else 75,
        tags=("fp8",) if d in ("e4m3", "e5m2") else (),
        **tol,
    )  # fmt: skip


def by_distance(q, k, v, o, slopes, scale):
    """The bias of a row differs from that of columns alone by what cancels in the quotient."""
    s = wide(q)[0] @ wide(k)[0].transpose(0, 2, 1) * scale + slopes[:, None, None] * np.arange(k.shape[1])
    s = np.where(np.tri(q.shape[1], k.shape[1], dtype=bool), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return {3: (p @ wide(v)[0] / p.sum(-1, keepdims=True)).astype("f4").astype(o.dtype)}


for name, d, (tm, tn, td) in (
    ("128", "f16", (128, 128, 64)),
    ("64", "f16", (64, 32, 64)),
    ("d256", "bf16", (128, 64, 256)),
):
    attention(
        f"staged_distance_attention_{name}",
        "distance_attention",
        [A(d, 3)] * 3 + [A("f32", 3), A("f32", 1), Scalar("f32"), tm, tn, td],
        (-(-(tm + 80) // tm), 2),
        lambda rng, d=d, tm=tm, td=td: (
            *(uniform(rng, (2, tm + 80, td), d) for _ in range(3)),
            like((2, tm + 80, td)), np.array([0.0625, 0.5], "f4"), np.float32(td**-0.5),
        ),
        by_distance,
        **(P16 if d == "f16" else {"rtol": 1.6e-2, "atol": 1.6e-2}),
    )  # fmt: skip


def quantized(q, k, sq, sk, v, o):
    s = (q.astype("f8") * sq[:, :, None]) @ (k.astype("f8") * sk[:, :, None]).transpose(0, 2, 1)
    p = np.exp(s - s.max(-1, keepdims=True))
    return {5: (p @ wide(v)[0] / p.sum(-1, keepdims=True)).astype("f4").astype(o.dtype)}


for m, n, d in ((128, 64, 64), (64, 64, 128)):
    attention(
        f"staged_quantized_attention_{m}",
        "quantized_attention",
        [A("i8", 3), A("i8", 3), A("f32", 2), A("f32", 2), A("f16", 3), A("f32", 3), m, n, d],
        (2, 2),
        lambda rng, m=m, d=d: (
            integers(rng, (2, m + 16, d), "i8"), integers(rng, (2, 208, d), "i8"),
            rng.uniform(1e-3, 8e-3, (2, m + 16)).astype("f4"), rng.uniform(1e-3, 8e-3, (2, 208)).astype("f4"),
            uniform(rng, (2, 208, d), "f16"), like((2, m + 16, d)),
        ),
        quantized,
        **P16,
    )  # fmt: skip

for name, group, window, (h, n, m), (tm, tn, td) in (
    ("gqa_128", 2, 0, (2, 144, 144), (128, 64, 64)),
    ("window_64", 1, 40, (1, 144, 144), (64, 32, 64)),
):
    flash(
        f"staged_flash_{name}",
        "flash",
        [A("f16", 3)] * 3 + [A("f16", 3), A("f32", 2), Scalar("f32"), tm, tn, td, 1, window, group],
        (-(-n // tm), h),
        lambda rng, h=h, n=n, m=m, td=td, group=group: (
            uniform(rng, (h, n, td), "f16", -1, 1), uniform(rng, (h // group, m, td), "f16", -1, 1),
            uniform(rng, (h // group, m, td), "f16", -1, 1), like((h, n, td), "f16"), like((h, n)), np.float32(td**-0.5),
        ),
        flash_values(1, window, group),
        **P16,
    )  # fmt: skip
for name, d, n, (tm, tn, td), tol in (
    ("f16_64", "f16", 144, (64, 64, 64), {"rtol": 4e-3, "atol": 4e-3}),
    ("bf16_128", "bf16", 144, (128, 64, 64), {"rtol": 2e-2, "atol": 3e-2}),
    ("f16_few", "f16", 112, (32, 64, 64), {"rtol": 4e-3, "atol": 4e-3}),
    ("bf16_wide", "bf16", 144, (128, 128, 64), {"rtol": 2e-2, "atol": 3e-2}),
):
    flash(
        f"staged_flash_bwd_{name}",
        "flash_bwd_dkdv",
        [A(d, 3)] * 4 + [A("f32", 2)] * 2 + [A("f32", 3)] * 2 + [Scalar("f32"), tm, tn, td],
        (-(-n // tn), 1),
        bwd_in(d, 1, n, td),
        flash_bwd_dkdv_bwd,
        **tol,
    )


def queries_bwd(q, k, v, do, lse, delta, dq, sc):
    sc = float(sc)
    q, k, v, do = wide(q, k, v, do)
    p = np.exp(q @ k.transpose(0, 2, 1) * sc - lse[..., None])
    p = np.where(np.tri(q.shape[1], dtype=bool), p, 0)
    ds = p * (do @ v.transpose(0, 2, 1) - delta[..., None]) * sc
    return {6: (ds @ k).astype("f4")}


def queries_in(d, h, n, width):
    def g(rng):
        *given, _, dq, sc = bwd_in(d, h, n, width)(rng)
        return (*given, dq, sc)

    return g


for name, d, n, (tm, tn, td), tol in (
    ("f16_64", "f16", 144, (64, 32, 64), {"rtol": 4e-3, "atol": 4e-3}),
    ("bf16_128", "bf16", 208, (128, 64, 128), {"rtol": 2e-2, "atol": 3e-2}),
    ("f16_few", "f16", 208, (32, 64, 64), {"rtol": 4e-3, "atol": 4e-3}),
):
    pages(
        f"staged_flash_bwd_dq_{name}",
        "flash_bwd_dq",
        [A(d, 3)] * 4 + [A("f32", 2)] * 2 + [A("f32", 3), Scalar("f32"), tm, tn, td],
        (-(-n // tm), 1),
        queries_in(d, 1, n, td),
        queries_bwd,
        **tol,
    )


def fused_bwd(q, k, v, do, lse, delta, dq, dk, dv, sc):
    found = flash_bwd_dkdv_bwd(q, k, v, do, lse, delta, dk, dv, sc)
    return {**queries_bwd(q, k, v, do, lse, delta, dq, sc), 7: found[6], 8: found[7]}


def fused_in(d, h, n, width):
    def g(rng):
        *given, dk, dv, sc = bwd_in(d, h, n, width)(rng)
        return (*given, like((h, n, width)), dk, dv, sc)

    return g


for name, d, n, (tm, tn, td), relaxed, tol in (
    ("bf16_64", "bf16", 208, (64, 64, 64), 0, {"rtol": 2e-2, "atol": 3e-2}),
    ("f16_128", "f16", 144, (32, 64, 128), 0, {"rtol": 4e-3, "atol": 4e-3}),
    ("whole_128", "f16", 144, (64, 64, 128), 0, {"rtol": 4e-3, "atol": 4e-3}),
    ("relaxed", "bf16", 208, (64, 128, 64), 1, {"rtol": 2e-2, "atol": 3e-2}),
    ("wide", "bf16", 144, (64, 128, 128), 1, {"rtol": 2e-2, "atol": 3e-2}),
):
    pages(
        f"staged_flash_bwd_fused_{name}",
        "flash_bwd_fused",
        [A(d, 3)] * 4 + [A("f32", 2)] * 2 + [A("f32", 3)] * 3 + [Scalar("f32"), tm, tn, td, relaxed],
        (-(-n // tn), 1),
        fused_in(d, 1, n, td),
        fused_bwd,
        **tol,
    )


def paged(q, kc, vc, table, lengths, o, sc):
    out = np.zeros(o.shape)
    for b, n in enumerate(lengths):
        keys, values = (np.concatenate(list(wide(x)[0][table[b]]))[:n] for x in (kc, vc))
        s = wide(q)[0][b] @ keys.T * float(sc)
        e = np.exp(s - s.max(1, keepdims=True))
        out[b] = e / e.sum(1, keepdims=True) @ values
    return {5: out.astype("f4")}


pages(
    "staged_paged_attention",
    "paged_attention",
    [A("bf16", 3)] * 3 + [A("i32", 2), A("i32", 1), A("f32", 3), Scalar("f32"), 16, 32, 64],
    (3,),
    lambda rng: (
        uniform(rng, (3, 16, 64), "bf16"), uniform(rng, (12, 32, 64), "bf16"), uniform(rng, (12, 32, 64), "bf16"),
        rng.permutation(12)[:12].astype("i4").reshape(3, 4), np.array([128, 70, 9], "i4"), like((3, 16, 64)),
        np.float32(0.125),
    ),
    paged,
    rtol=1.6e-2,
    atol=1.6e-2,
)  # fmt: skip


# ---- scales beside the operands
def scaled_sums(k, width):
    def f(a, sa, b, sb, c):
        x, y = wide(a)[0], wide(b)[0]
        parts = [slice(i, i + k) for i in range(0, x.shape[1], k)]
        rows = np.repeat(sb, width, 0)[: y.shape[0]]
        out = sum(x[:, p] @ y[:, p].T * sa[:, n, None] * rows[None, :, n] for n, p in enumerate(parts))
        return {4: out.astype("f4").astype(c.dtype)}

    return f


def unpacked(k, d):
    def f(a, q, scale, c):
        w = np.stack([q & 15, q >> 4], 2).reshape(q.shape[0], -1).astype("f4") - 8
        y = (w * np.repeat(wide(scale)[0], k, 1)[:, : a.shape[1]]).astype(DTYPES[d])
        return {3: (wide(a)[0] @ y.T.astype("f8")).astype("f4").astype(c.dtype)}

    return f


for name, d, (tm, tn, tk), (m, n, k), least in (
    ("e4m3", "e4m3", (128, 128, 128), (144, 128, 272), 90),
    ("f16", "f16", (64, 64, 64), (80, 96, 208), 75),
):
    steps = -(-k // tk)
    converted(
        f"staged_scaled_sums_{name}",
        "scaled_sums",
        [A(d, 2), Array("f32", 2), A(d, 2), Array("f32", 2), A("f32", 2), tm, tn, tk],
        (-(-m // tm), -(-n // tn)),
        lambda rng, d=d, m=m, n=n, k=k, tn=tn, steps=steps: (
            uniform(rng, (m, k), d, -1, 1),
            uniform(rng, (m, steps), "f32", 0.5, 2),
            uniform(rng, (n, k), d, -1, 1),
            uniform(rng, (-(-n // tn), steps), "f32", 0.5, 2),
            like((m, n)),
        ),
        scaled_sums(tk, tn),
        min_arch=least,
        **WIDE,
    )


def group_scaled(k, d):
    def f(a, w, scale, c):
        y = (wide(w)[0] * np.repeat(wide(scale)[0], k, 1)[:, : a.shape[1]]).astype(DTYPES[d])
        return {3: (wide(a)[0] @ (0.5 * y.T.astype("f8"))).astype("f4").astype(c.dtype)}

    return f


for name, d, (tm, tn, tk), (m, n, k) in (
    ("f16", "f16", (64, 64, 256), (80, 96, 624)),
    ("bf16", "bf16", (128, 128, 128), (144, 128, 272)),
):
    converted(
        f"staged_group_scales_{name}",
        "group_scales",
        [A(d, 2), A("i8", 2), Array(d, 2), A("f32", 2), tm, tn, tk],
        (-(-m // tm), -(-n // tn)),
        lambda rng, d=d, m=m, n=n, k=k, tk=tk: (
            uniform(rng, (m, k), d, -1, 1),
            integers(rng, (n, k), "i8"),
            uniform(rng, (n, -(-k // tk)), d, 0.01, 0.1),
            like((m, n)),
        ),
        group_scaled(tk, d),
        **WIDE,
    )
for name, d, (tm, tn, tk), (m, n, k) in (
    ("f16", "f16", (64, 64, 64), (80, 96, 224)),
    ("bf16", "bf16", (64, 64, 64), (80, 96, 224)),
    ("f16_wide", "f16", (128, 128, 64), (144, 128, 288)),
):
    converted(
        f"staged_packed_weights_{name}",
        "packed_weights",
        [A(d, 2), A("u8", 2), Array(d, 2), A("f32", 2), tm, tn, tk],
        (-(-m // tm), -(-n // tn)),
        lambda rng, d=d, m=m, n=n, k=k, tk=tk: (
            uniform(rng, (m, k), d, -1, 1),
            integers(rng, (n, k // 2), "u8"),
            uniform(rng, (n, -(-k // tk)), d, 0.01, 0.1),
            like((m, n)),
        ),
        unpacked(tk, d),
        **WIDE,
    )


def weighted(q, k, v, s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True)) @ v


def biased(q, k, v, bias, o, sc):
    x, y, z, w = wide(q, k, v, bias)
    return {4: weighted(x, y, z, x @ y.T * float(sc) + w).astype(o.dtype)}


def latent(q, qr, c, cr, o, sc):
    x, xr, y, yr = wide(q, qr, c, cr)
    s = (x @ y.transpose(0, 2, 1) + xr @ yr.transpose(0, 2, 1)) * float(sc)
    return {4: weighted(x, y, y, s).astype("f4")}


for name, tile in (("", (32, 32, 32)), ("_128", (128, 64, 64))):
    pages(
        f"staged_biased_attention{name}",
        "biased_attention",
        [A("f16", 2)] * 5 + [Scalar("f32"), *tile],
        (-(-144 // tile[0]),),
        lambda rng, d=tile[2]: (
            uniform(rng, (144, d), "f16"), uniform(rng, (208, d), "f16"), uniform(rng, (208, d), "f16"),
            uniform(rng, (144, 208), "f16"), like((144, d), "f16"), np.float32(0.125),
        ),
        biased,
        **P16,
    )  # fmt: skip
for name, tile in (("", (16, 32, 128, 32)), ("_64", (64, 64, 512, 64))):
    pages(
        f"staged_latent_attention{name}",
        "latent_attention",
        [A("bf16", 3)] * 4 + [A("f32", 3), Scalar("f32"), *tile],
        (2,),
        lambda rng, m=tile[0], d=tile[2], r=tile[3]: (
            uniform(rng, (2, m, d), "bf16"), uniform(rng, (2, m, r), "bf16"), uniform(rng, (2, 80, d), "bf16"),
            uniform(rng, (2, 80, r), "bf16"), like((2, m, d)), np.float32(0.0625),
        ),
        latent,
        rtol=1.6e-2,
        atol=1.6e-2,
    )  # fmt: skip
converted(
    "staged_converted_positive_part",
    "positive_part",
    [A("bf16", 2), A("bf16", 2), A("f32", 2), Scalar("f32"), 128, 128, 64],
    (2, 2),
    lambda rng: (
        uniform(rng, (144, 208), "bf16"), uniform(rng, (208, 144), "bf16"), like((144, 144)), np.float32(2.0),
    ),
    lambda a, b, c, f: {2: (np.maximum(wide(a)[0], 0) @ (wide(b)[0] * float(f))).astype("f4")},
    **F32,
)  # fmt: skip
converted(
    "staged_converted_positive_part_deep",
    "positive_part",
    [A("bf16", 2), A("bf16", 2), A("f32", 2), Scalar("f32"), 64, 64, 256],
    (1, 2),
    lambda rng: (
        uniform(rng, (48, 592), "bf16"), uniform(rng, (592, 80), "bf16"), like((48, 80)), np.float32(2.0),
    ),
    lambda a, b, c, f: {2: (np.maximum(wide(a)[0], 0) @ (wide(b)[0] * float(f))).astype("f4")},
    **F32,
)  # fmt: skip
for name, turned in (("", 0), ("_tn", 1)):
    converted(
        f"staged_converted_where_positive{name}",
        "gradient_where_positive",
        [A("bf16", 2), A("bf16", 2), A("bf16", 2), A("f32", 2), 128, 128, 64, turned],
        (2, 2),
        lambda rng, s=(208, 144) if turned else (144, 208): (
            uniform(rng, s, "bf16"), uniform(rng, s, "bf16"), uniform(rng, (144, 208), "bf16"), like((144, 144)),
        ),
        lambda g, y, w, c, t=turned: {
            3: ((wide(g)[0].T * (wide(y)[0].T > 0) if t else wide(g)[0] * (wide(y)[0] > 0)) @ wide(w)[0].T).astype("f4")
        },
        **F32,
    )  # fmt: skip

sums(
    "staged_sums_on_the_way",
    "sums_on_the_way",
    [A("f16", 2), A("f16", 2), A("f16", 1), A("f16", 2), A("f16", 1), A("f32", 2), 128, 128, 64],
    (2, 2),
    lambda rng: (
        *(rng.integers(-4, 5, s).astype("f2") for s in ((144, 208), (144, 208), 208, (208, 144), 144)), like((144, 144)),
    ),
    lambda a, r, g, b, f, c: {
        5: ((np.maximum(wide(a)[0] + wide(r)[0], 0) * wide(g)[0]) @ (wide(b)[0] * wide(f)[0])).astype("f4")
    },
    rtol=0,
)  # fmt: skip


def documents(q, k, v, doc, o, sc):
    x, y, z = wide(q, k, v)
    return {4: weighted(x, y, z, np.where(doc[:, None] == doc, x @ y.T * float(sc), -1e30)).astype(o.dtype)}


pages(
    "staged_documents_attention",
    "documents_attention",
    [A("f16", 2)] * 3 + [A("i32", 1), A("f16", 2), Scalar("f32"), 64, 64, 64],
    (3,),
    lambda rng: (
        uniform(rng, (160, 64), "f16"), uniform(rng, (160, 64), "f16"), uniform(rng, (160, 64), "f16"),
        np.sort(rng.integers(1, 5, 160)).astype("i4"), like((160, 64), "f16"), np.float32(0.125),
    ),
    documents,
    **P16,
)  # fmt: skip


def packed(q, k, v, starts, o, scale):
    qw, kw, vw = wide(q, k, v)
    out = np.zeros(q.shape)
    for a, b in itertools.pairwise(starts):
        s = qw[a:b] @ kw[a:b].T * float(scale)
        s = np.where(np.tri(b - a, dtype=bool), s, -np.inf)
        e = np.exp(s - s.max(1, keepdims=True))
        out[a:b] = e / e.sum(1, keepdims=True) @ vw[a:b]
    return {4: out.astype("f4").astype(o.dtype)}


pages(
    "staged_packed_attention",
    "packed_attention",
    [A("f16", 2)] * 3 + [A("i32", 1), A("f16", 2), Scalar("f32"), 64, 64, 64],
    (2, 3),
    lambda rng: (
        uniform(rng, (160, 64), "f16"), uniform(rng, (160, 64), "f16"), uniform(rng, (160, 64), "f16"),
        np.array([0, 33, 133, 160], "i4"), like((160, 64), "f16"), np.float32(0.125),
    ),
    packed,
    **P16,
)  # fmt: skip


def turned_keys(q, k, v, cos, sin, o, scale):
    x, y = np.split(wide(k)[0], 2, 2)
    c, d = wide(cos)[0], wide(sin)[0]
    turned = np.concatenate((x * c - y * d, y * c + x * d), 2)
    s = wide(q)[0] @ turned.transpose(0, 2, 1) * float(scale)
    e = np.exp(s - s.max(2, keepdims=True))
    return {5: (e / e.sum(2, keepdims=True) @ wide(v)[0]).astype("f4").astype(o.dtype)}


for d, m, n, width, length in (
    ("bf16", 128, 64, 128, 208),
    ("f16", 64, 64, 128, 304),
    ("f16", 64, 32, 64, 80),
):
    positions(
        f"staged_turned_keys_{m}x{n}_d{width}",
        "turned_keys",
        [A(d, 3)] * 3 + [A("f32", 2)] * 2 + [A(d, 3), Scalar("f32"), m, n, width],
        (1, 2),
        lambda rng, d=d, m=m, width=width, length=length: (
            uniform(rng, (2, m - 16, width), d),
            *(uniform(rng, (2, length, width), d) for _ in range(2)),
            *(uniform(rng, (length, width // 2)) for _ in range(2)),
            like((2, m - 16, width), d),
            np.float32(width**-0.5),
        ),
        turned_keys,
        rtol=1.6e-2,
        atol=1.6e-2,
    )


def keys_of_groups(q, k, v, do, lse, delta, dk, dv, scale):
    x, y, z, g = wide(q, k, v, do)
    share = len(q) // len(k)
    y, z = (np.repeat(t, share, 0) for t in (y, z))
    p = np.exp(x @ y.transpose(0, 2, 1) * float(scale) - lse[..., None])
    ds = p * (g @ z.transpose(0, 2, 1) - delta[..., None]) * float(scale)
    found = [a.transpose(0, 2, 1) @ b for a, b in ((ds, x), (p, g))]
    return {
        6 + n: each.reshape(len(k), share, *each.shape[1:]).sum(1).astype("f4")
        for n, each in enumerate(found)
    }


for d, m, n, width in (("f16", 64, 64, 128), ("bf16", 128, 64, 64)):
    groups(
        f"staged_keys_of_groups_{m}x{n}_d{width}",
        "keys_of_groups",
        [A(d, 3)] * 4 + [A("f32", 2)] * 2 + [A("f32", 3)] * 2 + [Scalar("f32"), m, n, width, 2],
        (2, 1),
        lambda rng, d=d, width=width: (
            uniform(rng, (2, 208, width), d, -1, 1),
            uniform(rng, (1, 80, width), d, -1, 1),
            uniform(rng, (1, 80, width), d, -1, 1),
            uniform(rng, (2, 208, width), d, -1, 1),
            uniform(rng, (2, 208), "f32", 4, 5),
            uniform(rng, (2, 208), "f32", -1, 1),
            like((1, 80, width)),
            like((1, 80, width)),
            np.float32(width**-0.5),
        ),
        keys_of_groups,
        rtol=2e-2,
        atol=2e-2,
    )


def ending_bias(q, k, v, bias, o, scale):
    x, y, z, b = wide(q, k, v, bias)
    n, rows = bias.shape[2], q.shape[1]
    s = x @ y[:, :n].transpose(0, 2, 1) * float(scale) + b[:, :rows]
    e = np.exp(s - s.max(2, keepdims=True))
    return {4: (e / e.sum(2, keepdims=True) @ z[:, :n]).astype("f4").astype(o.dtype)}


for name, d, extra, m, n, width, rows, keys, biased in (
    ("", "f16", "f16", 128, 64, 64, 112, 208, 152),
    ("_f32", "bf16", "f32", 64, 64, 64, 80, 208, 208),
    ("_short", "bf16", "bf16", 128, 64, 64, 144, 320, 72),
):
    biases(
        f"staged_ending_bias{name}",
        "ending_bias",
        [A(d, 3)] * 3 + [A(extra, 3), A(d, 3), Scalar("f32"), m, n, width],
        (-(-rows // m), 2),
        lambda rng, d=d, extra=extra, width=width, rows=rows, keys=keys, biased=biased: (
            uniform(rng, (2, rows, width), d, -1, 1),
            uniform(rng, (2, keys, width), d, -1, 1),
            uniform(rng, (2, keys, width), d, -1, 1),
            uniform(rng, (2, rows, biased), extra, -1, 1),
            like((2, rows, width), d),
            np.float32(0.125),
        ),
        ending_bias,
        rtol=1.6e-2,
        atol=1.6e-2,
    )


# An operand that meets two others in a step is read from its stage once for both.
numbers(
    "staged_complex",
    "mm_complex",
    [A("f16", 2)] * 4 + [A("f32", 2)] * 2 + [64],
    (2, 2),
    lambda rng: (
        *[uniform(rng, (80, 208) if n < 2 else (208, 80), "f16", -1, 1) for n in range(4)],
        like((80, 80), "f32"),
        like((80, 80), "f32"),
    ),
    mm_complex_values,
    **F32,
)


def recurrent(x, w, y, last):
    h, found = np.zeros(last.shape), []
    for u, v in zip(wide(x)[0][:, :, :128], wide(x)[0][:, :, 128:]):
        h = np.clip(h @ wide(w)[0] + u - v, -4, 4)
        found.append(h)
    return {2: np.array(found).astype(y.dtype), 3: h.astype(last.dtype)}


layers(
    "staged_recurrent",
    "recurrent",
    [A("f16", 3), A("f16", 2), A("f16", 3), A("f16", 2), 64, 128],
    (1,),
    lambda rng: (
        rng.integers(-3, 4, (7, 48, 256)).astype("f2"), rng.integers(-1, 2, (128, 128)).astype("f2"),
        like((7, 48, 128), "f16"), like((48, 128), "f16"),
    ),
    recurrent,
    rtol=0,
)  # fmt: skip
layers(
    "staged_gated_64x128",
    "mm_gated",
    [A("bf16", 2)] * 4 + [64, 128, 32],
    (2, 2),
    lambda rng: (
        uniform(rng, (80, 144), "bf16", -1, 1),
        uniform(rng, (144, 144), "bf16", -1, 1),
        uniform(rng, (144, 144), "bf16", -1, 1),
        like((80, 144), "bf16"),
    ),
    mm_gated_values,
    rtol=2e-2,
    atol=2e-2,
)


def halves_rotated(x, w, cos, sin, y):
    z, c, s = wide(x)[0] @ wide(w)[0], *wide(cos, sin)
    low, high = z.reshape(len(z), -1, 2, c.shape[1]).transpose(2, 0, 1, 3)
    both = low * c[:, None] - high * s[:, None], high * c[:, None] + low * s[:, None]
    return {4: np.stack(both, 2).reshape(z.shape).astype("f4").astype(y.dtype)}


rotated = Family("staged_rotated", "python/rotated.py")
for name, dtype, tile, width in (("bf16", "bf16", (128, 64, 64), 256), ("f16_64", "f16", (64, 64, 32), 128)):
    rotated(
        f"staged_rotated_{name}",
        "rotated",
        [A(dtype, 2), A(dtype, 2), A("f32", 2), A("f32", 2), A(dtype, 2), *tile],
        (2, width // 128),
        lambda rng, t=dtype, m=tile[0], n=width: (
            uniform(rng, (m + 16, 144), t, -1, 1), uniform(rng, (144, n), t, -1, 1),
            uniform(rng, (m + 16, 64)), uniform(rng, (m + 16, 64)), like((m + 16, n), t),
        ),
        halves_rotated,
        rtol=2e-2,
        atol=5e-2,
    )  # fmt: skip
