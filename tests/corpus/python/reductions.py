"""Reductions along either axis, with built-in and written-out bodies, and scans."""

import cuda.tile as ct

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def sum_axis(x, y, M: Const, N: Const, AXIS: Const):
    """One M x N tile per block along the kept axis."""
    b = ct.bid(0)
    if AXIS == 1:
        ct.store(y, (b,), ct.sum(ct.load(x, (b, 0), (M, N), padding_mode=ZERO), 1))
    else:
        ct.store(y, (b,), ct.sum(ct.load(x, (0, b), (M, N), padding_mode=ZERO), 0))


@ct.kernel
def extrema(x, hi, lo, ihi, ilo, M: Const, N: Const, AXIS: Const):
    v = ct.load(x, (0, 0), (M, N))
    ct.store(hi, (0,), ct.max(v, AXIS))
    ct.store(lo, (0,), ct.min(v, AXIS))
    ct.store(ihi, (0,), ct.argmax(v, AXIS))
    ct.store(ilo, (0,), ct.argmin(v, AXIS))


@ct.kernel
def product(x, y, M: Const, N: Const, AXIS: Const):
    ct.store(y, (0,), ct.prod(ct.load(x, (0, 0), (M, N)), AXIS))


@ct.kernel
def total(x, y, M: Const, N: Const):
    ct.scatter(y, 0, ct.sum(ct.load(x, (0, 0), (M, N), padding_mode=ZERO)))


@ct.kernel
def total_3d(x, y, A: Const, B: Const, C: Const, AXIS: Const):
    ct.store(y, (0, 0), ct.sum(ct.load(x, (0, 0, 0), (A, B, C)), AXIS))


@ct.kernel
def mean_var(x, mean, var, M: Const, N: Const):
    r = ct.bid(0)
    v = ct.load(x, (r, 0), (M, N))
    m = ct.sum(v, 1, keepdims=True) / N
    d = v - m
    ct.store(mean, (r,), m.reshape((M,)))
    ct.store(var, (r,), (ct.sum(d * d, 1) / N))


@ct.kernel
def sum_long(x, y, T: Const):
    """Accumulates a long row chunk by chunk, then reduces once."""
    r = ct.bid(0)
    acc = ct.zeros((1, T), ct.float32)
    for k in range(ct.num_tiles(x, 1, (1, T))):
        acc += ct.load(x, (r, k), (1, T), padding_mode=ZERO)
    ct.store(y, (r,), ct.sum(acc, 1))


def _xor(a, b):
    return a ^ b


@ct.kernel
def xor_all(x, y, T: Const):
    b = ct.bid(0)
    ct.store(y, (b,), ct.reduce(ct.load(x, (b, 0), (1, T)), 1, _xor, 0))


def _sum_and_square(a, q, b, p):
    return a + b, q + p


@ct.kernel
def sum_and_squares(x, s, q, M: Const, N: Const):
    """Two operands reduced by one body."""
    r = ct.bid(0)
    v = ct.load(x, (r, 0), (M, N), padding_mode=ZERO)
    a, b = ct.reduce((v, v * v), 1, _sum_and_square, (0.0, 0.0))
    ct.store(s, (r,), a)
    ct.store(q, (r,), b)


def _last_max(v, i, w, j):
    """The greater value, and among equals the greater index."""
    take = (w > v) | ((w == v) & (j > i))
    return ct.where(take, w, v), ct.where(take, j, i)


@ct.kernel
def argmax_last(x, value, index, N: Const):
    r = ct.bid(0)
    v = ct.load(x, (r, 0), (1, N))
    at = ct.arange(N, dtype=ct.int32).reshape((1, N))
    a, b = ct.reduce((v, at), 1, _last_max, (-1.0e30, -1))
    ct.store(value, (r,), a)
    ct.store(index, (r,), b)


def _clamped(a, b):
    return ct.minimum(a + b, 100)


@ct.kernel
def saturating_sum(x, y, N: Const):
    r = ct.bid(0)
    ct.store(y, (r,), ct.reduce(ct.load(x, (r, 0), (1, N)), 1, _clamped, 0))


@ct.kernel
def any_all(x, anyp, allp, M: Const, N: Const):
    v = ct.load(x, (0, 0), (M, N))
    ct.store(anyp, (0,), ct.max((v > 90).astype(ct.int32), 1))
    ct.store(allp, (0,), ct.min((v > -90).astype(ct.int32), 1))


@ct.kernel
def cumulative(x, y, M: Const, N: Const, AXIS: Const, REVERSE: Const):
    ct.store(y, (0, 0), ct.cumsum(ct.load(x, (0, 0), (M, N), padding_mode=ZERO), AXIS, reverse=REVERSE))


@ct.kernel
def cumulative_product(x, y, M: Const, N: Const, AXIS: Const):
    ct.store(y, (0, 0), ct.cumprod(ct.load(x, (0, 0), (M, N)), AXIS))


@ct.kernel
def cumulative_rows(x, y, T: Const):
    """A scan of a long row: chunk by chunk with a carried total."""
    r = ct.bid(0)
    carry = ct.zeros((1, 1), ct.float32)
    for k in range(ct.num_tiles(x, 1, (1, T))):
        v = ct.load(x, (r, k), (1, T), padding_mode=ZERO)
        ct.store(y, (r, k), ct.cumsum(v, 1) + carry)
        carry = carry + ct.sum(v, 1, keepdims=True)


def _larger(a, b):
    return ct.maximum(a, b)


@ct.kernel
def running_max(x, y, N: Const, REVERSE: Const):
    r = ct.bid(0)
    v = ct.load(x, (r, 0), (1, N))
    ct.store(y, (r, 0), ct.scan(v, 1, _larger, -2147483648, reverse=REVERSE))


def _linear(a, b, c, d):
    """Composition of x -> a x + b, then x -> c x + d."""
    return a * c, b * c + d


@ct.kernel
def linear_recurrence(a, b, y, N: Const):
    """h[t] = a[t] h[t-1] + b[t] by a scan over pairs: the combiner does not commute."""
    r = ct.bid(0)
    _, h = ct.scan((ct.load(a, (r, 0), (1, N)), ct.load(b, (r, 0), (1, N))), 1, _linear, (1.0, 0.0))
    ct.store(y, (r, 0), h)
