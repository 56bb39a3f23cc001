"""Elementwise kernels: one tile per block over 1-D arrays whose length need not be a multiple of the tile."""

import cuda.tile as ct

Const = ct.Constant[int]


@ct.kernel
def vadd(x, y, z, T: Const):
    i = ct.bid(0)
    ct.store(z, (i,), ct.load(x, (i,), (T,)) + ct.load(y, (i,), (T,)))


@ct.kernel
def axpy(a, x, y, T: Const):
    i = ct.bid(0)
    ct.store(y, (i,), a * ct.load(x, (i,), (T,)) + ct.load(y, (i,), (T,)))


@ct.kernel
def add_2d(x, y, z, M: Const, N: Const):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(z, (i, j), ct.load(x, (i, j), (M, N)) + ct.load(y, (i, j), (M, N)))


@ct.kernel
def gelu_tanh(x, z, T: Const):
    i = ct.bid(0)
    v = ct.load(x, (i,), (T,))
    inner = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    ct.store(z, (i,), 0.5 * v * (1.0 + ct.tanh(inner)))


@ct.kernel
def gelu_half(x, z, T: Const):
    i = ct.bid(0)
    v = ct.load(x, (i,), (T,)).astype(ct.float32)
    inner = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    ct.store(z, (i,), (0.5 * v * (1.0 + ct.tanh(inner))).astype(z.dtype))


@ct.kernel
def silu_mul(gate, up, z, T: Const):
    i = ct.bid(0)
    g = ct.load(gate, (i,), (T,)).astype(ct.float32)
    u = ct.load(up, (i,), (T,)).astype(ct.float32)
    ct.store(z, (i,), (g / (1.0 + ct.exp(-g)) * u).astype(z.dtype))


@ct.kernel
def log_sqrt_chain(x, z, T: Const):
    i = ct.bid(0)
    v = ct.load(x, (i,), (T,))
    ct.store(z, (i,), ct.log(1.0 + ct.sqrt(ct.abs(v))) * ct.rsqrt(v * v + 1.0))


@ct.kernel
def sin_cos_chain(x, s, c, T: Const):
    i = ct.bid(0)
    v = ct.load(x, (i,), (T,))
    ct.store(s, (i,), ct.sin(v))
    ct.store(c, (i,), ct.cos(v))


@ct.kernel
def hyperbolic(x, s, c, t, T: Const):
    i = ct.bid(0)
    v = ct.load(x, (i,), (T,))
    ct.store(s, (i,), ct.sinh(v))
    ct.store(c, (i,), ct.cosh(v))
    ct.store(t, (i,), ct.tanh(v))


@ct.kernel
def tangent(x, z, T: Const):
    i = ct.bid(0)
    ct.store(z, (i,), ct.tan(ct.load(x, (i,), (T,))))


@ct.kernel
def base_two(x, e, l, T: Const):
    i = ct.bid(0)
    v = ct.load(x, (i,), (T,))
    ct.store(e, (i,), ct.exp2(v))
    ct.store(l, (i,), ct.log2(ct.abs(v) + 0.125))


@ct.kernel
def exponential(x, z, T: Const):
    i = ct.bid(0)
    ct.store(z, (i,), ct.exp(ct.load(x, (i,), (T,))))


@ct.kernel
def logarithm(x, z, T: Const):
    i = ct.bid(0)
    ct.store(z, (i,), ct.log(ct.load(x, (i,), (T,))))


@ct.kernel
def power(x, y, z, T: Const):
    i = ct.bid(0)
    ct.store(z, (i,), ct.pow(ct.load(x, (i,), (T,)), ct.load(y, (i,), (T,))))


@ct.kernel
def arctangent2(y, x, z, T: Const):
    i = ct.bid(0)
    ct.store(z, (i,), ct.atan2(ct.load(y, (i,), (T,)), ct.load(x, (i,), (T,))))


@ct.kernel
def round_half(x, lo, hi, T: Const):
    i = ct.bid(0)
    v = ct.load(x, (i,), (T,))
    ct.store(lo, (i,), ct.floor(v))
    ct.store(hi, (i,), ct.ceil(v))


@ct.kernel
def divide(x, y, z, T: Const):
    i = ct.bid(0)
    ct.store(z, (i,), ct.load(x, (i,), (T,)) / ct.load(y, (i,), (T,)))


@ct.kernel
def divide_fast(x, y, z, T: Const):
    i = ct.bid(0)
    ct.store(
        z,
        (i,),
        ct.truediv(ct.load(x, (i,), (T,)), ct.load(y, (i,), (T,)), rounding_mode=ct.RoundingMode.APPROX),
    )


@ct.kernel
def directed_add(x, y, up, down, cut, T: Const):
    i = ct.bid(0)
    a, b = ct.load(x, (i,), (T,)), ct.load(y, (i,), (T,))
    ct.store(up, (i,), ct.add(a, b, rounding_mode=ct.RoundingMode.RP))
    ct.store(down, (i,), ct.add(a, b, rounding_mode=ct.RoundingMode.RM))
    ct.store(cut, (i,), ct.add(a, b, rounding_mode=ct.RoundingMode.RZ))


@ct.kernel
def flush_mul(x, y, z, T: Const):
    i = ct.bid(0)
    ct.store(z, (i,), ct.mul(ct.load(x, (i,), (T,)), ct.load(y, (i,), (T,)), flush_to_zero=True))


@ct.kernel
def float_remainder(x, y, z, T: Const):
    i = ct.bid(0)
    ct.store(z, (i,), ct.mod(ct.load(x, (i,), (T,)), ct.load(y, (i,), (T,))))


@ct.kernel
def min_max(x, y, lo, hi, T: Const):
    i = ct.bid(0)
    a, b = ct.load(x, (i,), (T,)), ct.load(y, (i,), (T,))
    ct.store(lo, (i,), ct.minimum(a, b))
    ct.store(hi, (i,), ct.maximum(a, b))


@ct.kernel
def min_max_nan(x, y, lo, hi, T: Const):
    i = ct.bid(0)
    a, b = ct.load(x, (i,), (T,)), ct.load(y, (i,), (T,))
    ct.store(lo, (i,), ct.minimum(a, b, propagate_nan=True))
    ct.store(hi, (i,), ct.maximum(a, b, propagate_nan=True))


@ct.kernel
def mixed_chain(x, y, z, T: Const):
    """Half and single precision, an integer and a select in one chain."""
    i = ct.bid(0)
    a = ct.load(x, (i,), (T,)).astype(ct.float32)
    k = ct.load(y, (i,), (T,))
    b = k.astype(ct.float32) * 0.25
    r = ct.where(a > b, ct.sqrt(a - b), ct.exp(a - b))
    ct.store(z, (i,), r.astype(z.dtype))


@ct.kernel
def gradient_step(w, g, m, lr, beta, T: Const):
    """Momentum update: two arrays written in place."""
    i = ct.bid(0)
    v = beta * ct.load(m, (i,), (T,)) + ct.load(g, (i,), (T,))
    ct.store(m, (i,), v)
    ct.store(w, (i,), ct.load(w, (i,), (T,)) - lr * v)
