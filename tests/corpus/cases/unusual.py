"""Forms that strangers wrote. Operands are small and whole: sums are exact in any order, in f16 below 2048."""

from __future__ import annotations

import numpy as np

from tests.corpus.case import DTYPES, Array, Family, Scalar, like, uniform, wide

case = Family("unusual", "python/unusual.py")


def A(dtype, ndim=2, div=16):
    return Array(dtype, ndim, div=div)


def whole(rng, shape, dtype="f16", most=2):
    return rng.integers(-most, most + 1, shape).astype(np.float32).astype(DTYPES[dtype])


def nested_sums(a, b, c):
    x, y = wide(a, b)
    seen = np.zeros((64, 64))
    for k in range(0, x.shape[1], 32):
        seen = np.maximum(seen + x[:, k : k + 32] @ y[:, k : k + 32].T, 0)
    return {2: (x @ y.T - seen).astype("f2")}


case(
    "nested_sums_of_16_bits",
    "nested_sums_of_16_bits",
    [A("f16")] * 3 + [64, 64, 32, 2],
    (1,),
    lambda rng: (whole(rng, (64, 208)), whole(rng, (64, 208)), like((64, 64), "f16")),
    nested_sums,
)
for steps in (3, 4):
    case(
        f"stream_k_{steps}",
        "stream_k",
        [A("bf16"), A("bf16"), A("f32"), Scalar("i32"), 64, 64, 32],
        (-(-2 * 2 * 4 // steps),),
        lambda rng, s=steps: (
            whole(rng, (112, 112), "bf16"),
            whole(rng, (112, 128), "bf16"),
            like((112, 128)),
            s,
        ),
        lambda a, b, c, s: {2: (wide(a)[0] @ wide(b)[0]).astype("f4")},
    )
case(
    "nearest_centre",
    "nearest",
    [A("f16"), A("f16"), A("f32", 1), A("i32", 1), 64, 32, 64],
    (2,),
    lambda rng: (
        whole(rng, (128, 64)),
        whole(rng, (128, 64)),
        rng.integers(90, 150, 128).astype("f4"),
        like((128,), "i32"),
    ),
    lambda x, c, n, best: {3: np.argmin(n - 2 * (wide(x)[0] @ wide(c)[0].T), 1).astype("i4")},
)


def sampled(x, fy, fx, y):
    pixels = wide(x)[0].reshape(16, 16, 64)
    r, c = np.floor(fy).astype(int), np.floor(fx).astype(int)
    b, a = (fy - r)[:, None], (fx - c)[:, None]
    top = pixels[r, c] + a * (pixels[r, c + 1] - pixels[r, c])
    low = pixels[r + 1, c] + a * (pixels[r + 1, c + 1] - pixels[r + 1, c])
    return {3: (top + b * (low - top)).astype("f2")}


case(
    "bilinear_samples",
    "bilinear",
    [A("f16"), A("f32", 1), A("f32", 1), A("f16"), 32, 64],
    (2,),
    lambda rng: (
        uniform(rng, (16, 16 * 64), "f16"),
        uniform(rng, (64,), "f32", 0, 14.9),
        uniform(rng, (64,), "f32", 0, 14.9),
        like((64, 64), "f16"),
    ),
    sampled,
    rtol=2e-3,
    atol=2e-3,
)
case(
    "cast_both_ways",
    "cast_both_ways",
    [A("bf16"), A("e4m3"), A("e4m3"), A("i32", 1), 32, 64],
    (2, 2),
    lambda rng: (
        uniform(rng, (64, 112), "bf16"),
        like((64, 112), "e4m3"),
        like((112, 64), "e4m3"),
        like((16,), "i32"),
    ),
    lambda x, y, yt, amax: {
        1: (2 * wide(x)[0]).astype(y.dtype),
        2: (2 * wide(x)[0]).astype(y.dtype).T,
        3: np.r_[np.abs(x.astype("f4")).max(keepdims=True).reshape(1).view("i4"), np.zeros(15, "i4")],
    },
    min_arch=89,
    tags=("fp8",),
)


def attended(q, k, v, mask, o, scale):
    x, y, z = wide(q, k, v)
    s = np.where(mask != 0, scale * x[0] @ y[0].T, -np.inf)
    p = np.exp(s - s.max(1, keepdims=True))
    return {4: (p / p.sum(1, keepdims=True) @ z[0]).astype("f2")[None]}


case(
    "masked_attention",
    "masked",
    [A("f16", 3)] * 3 + [A("i8"), A("f16", 3), Scalar("f32"), 128, 64, 64],
    (1, 1),
    lambda rng: (
        uniform(rng, (1, 128, 64), "f16", -1, 1),
        uniform(rng, (1, 176, 64), "f16", -1, 1),
        uniform(rng, (1, 176, 64), "f16"),
        (rng.integers(0, 3, (128, 176)) > 0).astype("i1"),
        like((1, 128, 64), "f16"),
        0.3,
    ),
    attended,
    rtol=4e-3,
    atol=4e-3,
)


def windows(step):
    """Rows r below, and columns from step k on, of what lies beyond a zero."""

    def values(x, w, y):
        a, b = wide(x, w)
        a = np.pad(a, ((0, 64), (0, 64)))
        out = np.zeros(y.shape)
        for r in range(b.shape[0]):
            for k in range(b.shape[1] // 32):
                out += a[r : r + y.shape[0], k * step : k * step + 32] @ b[r, 32 * k : 32 * k + 32]
        return {2: out.astype("f4")}

    return values


for dtype, step, div in (("bf16", 32, 16), ("f16", 8, 16), ("f16", 4, 16), ("f16", 3, 1), ("e4m3", 16, 16)):
    case(
        f"windows_{dtype}_{step}_{div}",
        "windows",
        [A(dtype, 2, div), A(dtype, 3, div), A("f32", 2, div), 64, 64, 32, step],
        (2, 1),
        lambda rng, dtype=dtype: (
            whole(rng, (112, 80), dtype),
            whole(rng, (3, 96, 64), dtype),
            like((112, 64)),
        ),
        windows(step),
        since="13.3",
        min_arch=89 if dtype == "e4m3" else 75,
    )


def multiplied(a, b, c):
    x, y = wide(a, b)
    return {2: (x @ y).astype(c.dtype)}


for name, kernel, grid in (
    ("operands_ahead", "operands_ahead", (2, 1)),
    ("right_operand_ahead", "right_operand_ahead", (2, 1)),
    ("one_loop_for_all_tiles", "one_loop", (2,)),
):
    case(
        name,
        kernel,
        [A("f16")] * 3 + [64, 64, 32],
        grid,
        lambda rng: (whole(rng, (112, 112)), whole(rng, (112, 64)), like((112, 64), "f16")),
        multiplied,
    )
case(
    "one_loop_by_columns",
    "one_loop_by_columns",
    [A("bf16"), A("bf16"), A("f32", 1), A("f32"), 64, 64, 32],
    (2,),
    lambda rng: (
        whole(rng, (176, 112), "bf16"),
        whole(rng, (112, 128), "bf16"),
        whole(rng, (128,), "f32"),
        like((176, 128)),
    ),
    lambda a, b, bias, c: {3: np.matmul(*wide(a, b)) + bias},
)
case(
    "products_beside_zero",
    "beside_zero",
    [A("i8"), A("i8"), A("i32"), Scalar("i32"), Scalar("i32"), 64, 64, 32],
    (2, 1),
    lambda rng: (
        rng.integers(-128, 128, (112, 112), dtype="i1"),
        rng.integers(-128, 128, (112, 64), dtype="i1"),
        like((112, 64), "i32"),
        3,
        -5,
    ),
    lambda a, b, c, za, zb: {2: (a.astype("i4") - za) @ (b.astype("i4") - zb)},
)


def rounded(dtype, step):
    def steps(a, b, c):
        x, y = wide(a, b)
        total = np.zeros(c.shape, "f4")
        for k in range(0, a.shape[1], step):
            product = x[:, k : k + step] @ y[:, k : k + step].T
            total += product.astype("f2").astype(DTYPES[dtype]).astype("f4")
        return {2: total.astype(c.dtype)}

    return steps


for dtype in ("e4m3", "e5m2", "f16"):
    case(
        f"rounded_steps_{dtype}",
        "rounded_steps",
        [A(dtype), A(dtype), A("f32"), 64, 64, 64],
        (2, 1),
        lambda rng, dtype=dtype: (
            whole(rng, (112, 144), dtype),
            whole(rng, (64, 144), dtype),
            like((112, 64)),
        ),
        rounded(dtype, 64),
        min_arch=75 if dtype == "f16" else 89,
    )


def over_taps(x, w, bias, y, step=2):
    a, b = wide(x, w)
    high, broad, channels = a.shape[1:]
    padded = np.pad(a, ((0, 0), (1, 1), (1, 1), (0, 0)))
    b = b.reshape(3, 3, channels, -1)
    out = sum(
        padded[:, r : r + high : step, s : s + broad : step] @ b[r, s] for r in range(3) for s in range(3)
    )
    return {3: np.maximum(out.reshape(len(y), -1) + wide(bias)[0], 0).astype(y.dtype)}


for name, channels in (("one_step", 64), ("two_steps", 128)):
    case(
        f"taps_{name}",
        "taps",
        [A("f16", 4), A("f16"), A("f16", 1), A("f16"), 8, 8, 2, channels, 64, 64, 64],
        (2, 1),
        lambda rng, c=channels: (
            whole(rng, (2, 16, 16, c), most=1),
            whole(rng, (9 * c, 64), most=1),
            whole(rng, (64,)),
            like((128, 64), "f16"),
        ),
        over_taps,
    )
