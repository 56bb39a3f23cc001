"""Images, signals, and scans and reductions whose bodies are the author's own."""

import cuda.tile as ct

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO
NEG = ct.PaddingMode.NEG_INF


@ct.kernel
def median3x3(x, y, T: Const):
    """Median of nine by a sorting network; nine gathers with clamped edges."""
    i, j = ct.bid(0), ct.bid(1)
    r = i * T + ct.arange(T, dtype=ct.int32).reshape((T, 1))
    c = j * T + ct.arange(T, dtype=ct.int32).reshape((1, T))
    h, w = x.shape[0] - 1, x.shape[1] - 1
    v = ()
    for dr in ct.static_iter(range(-1, 2)):
        for dc in ct.static_iter(range(-1, 2)):
            v = v + (
                ct.gather(x, (ct.minimum(ct.maximum(r + dr, 0), h), ct.minimum(ct.maximum(c + dc, 0), w))),
            )
    p = v
    v0, v1, v2, v3, v4, v5, v6, v7, v8 = p
    v1, v2 = ct.minimum(v1, v2), ct.maximum(v1, v2)
    v4, v5 = ct.minimum(v4, v5), ct.maximum(v4, v5)
    v7, v8 = ct.minimum(v7, v8), ct.maximum(v7, v8)
    v0, v1 = ct.minimum(v0, v1), ct.maximum(v0, v1)
    v3, v4 = ct.minimum(v3, v4), ct.maximum(v3, v4)
    v6, v7 = ct.minimum(v6, v7), ct.maximum(v6, v7)
    v1, v2 = ct.minimum(v1, v2), ct.maximum(v1, v2)
    v4, v5 = ct.minimum(v4, v5), ct.maximum(v4, v5)
    v7, v8 = ct.minimum(v7, v8), ct.maximum(v7, v8)
    v3 = ct.maximum(v0, v3)
    v5 = ct.minimum(v5, v8)
    v4, v7 = ct.minimum(v4, v7), ct.maximum(v4, v7)
    v6 = ct.maximum(v3, v6)
    v4 = ct.maximum(v1, v4)
    v2 = ct.minimum(v2, v5)
    v4 = ct.minimum(v4, v7)
    v4, v2 = ct.minimum(v4, v2), ct.maximum(v4, v2)
    v4 = ct.maximum(v6, v4)
    v4 = ct.minimum(v4, v2)
    ct.scatter(y, (r, c), v4)


@ct.kernel
def bilinear(x, y, T: Const):
    """Resize: floor, fractions, four gathers, u8 in and out with rounding."""
    i, j = ct.bid(0), ct.bid(1)
    r = (i * T + ct.arange(T, dtype=ct.int32)).reshape((T, 1))
    c = (j * T + ct.arange(T, dtype=ct.int32)).reshape((1, T))
    fy = (r.astype(ct.float32) + 0.5) * (x.shape[0] / y.shape[0]) - 0.5
    fx = (c.astype(ct.float32) + 0.5) * (x.shape[1] / y.shape[1]) - 0.5
    y0, x0 = ct.floor(fy), ct.floor(fx)
    wy, wx = fy - y0, fx - x0
    iy, ix = y0.astype(ct.int32), x0.astype(ct.int32)

    def g(a, b):
        at = ct.minimum(ct.maximum(a, 0), x.shape[0] - 1), ct.minimum(ct.maximum(b, 0), x.shape[1] - 1)
        return ct.gather(x, at).astype(ct.float32)

    v = (g(iy, ix) * (1.0 - wx) + g(iy, ix + 1) * wx) * (1.0 - wy) + (
        g(iy + 1, ix) * (1.0 - wx) + g(iy + 1, ix + 1) * wx
    ) * wy
    ct.scatter(y, (r, c), v)


@ct.kernel
def integral_image(x, y, N: Const):
    ct.store(
        y, (0, 0), ct.cumsum(ct.cumsum(ct.load(x, (0, 0), (N, N), padding_mode=ZERO).astype(ct.int32), 0), 1)
    )


@ct.kernel
def overlap_pool(x, y, T: Const, S: Const):
    """Average pooling over overlapping windows, 3-D view, traversal steps."""
    c, i, j = ct.bid(0), ct.bid(1), ct.bid(2)
    v = x.tiled_view((1, T, T), traversal_steps=(1, S, S), padding_mode=ZERO).load((c, i, j))
    ct.scatter(y, (c, i, j), ct.sum(v) / (T * T))


@ct.kernel
def dct8(x, d, y, T: Const):
    """8x8 block DCT as two products around a 3-D batch of blocks."""
    i = ct.bid(0)
    v = ct.load(x, (i, 0, 0), (T, 8, 8))
    m = ct.load(d, (0, 0), (8, 8))
    mt = ct.transpose(m)
    a = ct.mma(v, mt, ct.zeros((T, 8, 8), ct.float32))
    b = ct.mma(m, a, ct.zeros((T, 8, 8), ct.float32))
    ct.store(y, (i, 0, 0), b)


@ct.kernel
def haar(x, y, N: Const, L: Const):
    """Wavelet levels by reshape and extract, results in place of the halves."""
    b = ct.bid(0)
    v = ct.load(x, (b, 0), (1, N)).reshape((N,))
    for k in ct.static_iter(range(L)):
        n = N >> k
        p = v.reshape((n // 2, 2))
        e, o = (
            p.extract((0, 0), (n // 2, 1)).reshape((n // 2,)),
            p.extract((0, 1), (n // 2, 1)).reshape((n // 2,)),
        )
        ct.store(y, (b, 1), ((e - o) * 0.5).reshape((1, n // 2)))
        v = (e + o) * 0.5
    ct.store(y, (b, 0), v.reshape((1, N >> L)))


def _affine(a, b, c, d, e, f, A_, B_, C_, D_, E_, F_):
    return (
        A_ * a + B_ * c,
        A_ * b + B_ * d,
        C_ * a + D_ * c,
        C_ * b + D_ * d,
        A_ * e + B_ * f + E_,
        C_ * e + D_ * f + F_,
    )


@ct.kernel
def iir_scan(x, a1, a2, y, N: Const):
    """Second-order recursive filter as a scan of 2x2 affine maps (six operands)."""
    r = ct.bid(0)
    v = ct.load(x, (r, 0), (1, N))
    z = ct.zeros((1, N), ct.float32)
    o = z + 1.0
    _p, _q, _s, _t, u, _w = ct.scan((z + a1, z + a2, o, z, v, z), 1, _affine, (1.0, 0.0, 0.0, 1.0, 0.0, 0.0))
    ct.store(y, (r, 0), u)


@ct.kernel
def fft_mixed(re, im, w16r, w16i, tr, ti, or_, oi, N1: Const, N2: Const):
    """Mixed radix N = N1 * N2: DFT matrices by mma and a twiddle table (four-step)."""
    b = ct.bid(0)
    xr = ct.load(re, (b, 0, 0), (1, N1, N2)).reshape((N1, N2))
    xi = ct.load(im, (b, 0, 0), (1, N1, N2)).reshape((N1, N2))
    fr, fi = ct.load(w16r, (0, 0), (N1, N1)), ct.load(w16i, (0, 0), (N1, N1))
    z = ct.zeros((N1, N2), ct.float32)
    ar = ct.mma(fr, xr, z) - ct.mma(fi, xi, z)
    ai = ct.mma(fr, xi, z) + ct.mma(fi, xr, z)
    cr, ci = ct.load(tr, (0, 0), (N1, N2)), ct.load(ti, (0, 0), (N1, N2))
    br = ar * cr - ai * ci
    bi = ar * ci + ai * cr
    ct.store(or_, (b, 0, 0), ct.transpose(br).reshape((1, N2, N1)))
    ct.store(oi, (b, 0, 0), ct.transpose(bi).reshape((1, N2, N1)))


@ct.kernel
def fft_radix4(re, im, or_, oi, N: Const):
    """One radix-4 step by reshape/permute/extract and twiddles by sin/cos."""
    b = ct.bid(0)
    xr = ct.load(re, (b, 0), (1, N)).reshape((4, N // 4))
    xi = ct.load(im, (b, 0), (1, N)).reshape((4, N // 4))
    q = N // 4
    a0, a1, a2, a3 = (
        xr.extract((0, 0), (1, q)),
        xr.extract((1, 0), (1, q)),
        xr.extract((2, 0), (1, q)),
        xr.extract((3, 0), (1, q)),
    )
    b0, b1, b2, b3 = (
        xi.extract((0, 0), (1, q)),
        xi.extract((1, 0), (1, q)),
        xi.extract((2, 0), (1, q)),
        xi.extract((3, 0), (1, q)),
    )
    y0r, y0i = a0 + a1 + a2 + a3, b0 + b1 + b2 + b3
    y1r, y1i = a0 + b1 - a2 - b3, b0 - a1 - b2 + a3
    y2r, y2i = a0 - a1 + a2 - a3, b0 - b1 + b2 - b3
    y3r, y3i = a0 - b1 - a2 + b3, b0 + a1 - b2 - a3
    outr = ct.cat((ct.cat((y0r, y1r), 0), ct.cat((y2r, y3r), 0)), 0)
    outi = ct.cat((ct.cat((y0i, y1i), 0), ct.cat((y2i, y3i), 0)), 0)
    ang = (
        ct.arange(4, dtype=ct.int32).reshape((4, 1)) * ct.arange(q, dtype=ct.int32).reshape((1, q))
    ).astype(ct.float32) * (-6.283185307179586 / N)
    c, s = ct.cos(ang), ct.sin(ang)
    ct.store(or_, (b, 0), ct.transpose(outr * c - outi * s).reshape((1, N)))
    ct.store(oi, (b, 0), ct.transpose(outr * s + outi * c).reshape((1, N)))


@ct.kernel
def winograd(x, w, y, T: Const):
    """F(2,3) in one dimension: small dense transforms written out."""
    b = ct.bid(0)
    i = b * T + ct.arange(T, dtype=ct.int32)
    d0, d1, d2, d3 = (
        ct.gather(x, 2 * i),
        ct.gather(x, 2 * i + 1),
        ct.gather(x, 2 * i + 2),
        ct.gather(x, 2 * i + 3),
    )
    g0, g1, g2 = ct.gather(w, 0), ct.gather(w, 1), ct.gather(w, 2)
    m1 = (d0 - d2) * g0
    m4 = (d1 - d3) * g2
    m2 = (d1 + d2) * ((g0 + g1 + g2) * 0.5)
    m3 = (d2 - d1) * ((g0 - g1 + g2) * 0.5)
    ct.scatter(y, 2 * i, m1 + m2 + m3)
    ct.scatter(y, 2 * i + 1, m2 - m3 - m4)


@ct.kernel
def lattice(f, g, OMEGA: ct.Constant[float], H: Const, W: Const):
    """D2Q9 lattice Boltzmann: 3-D arrays, periodic wraps, nine loads and stores."""
    r = ct.arange(H, dtype=ct.int32).reshape((H, 1))
    c = ct.arange(W, dtype=ct.int32).reshape((1, W))
    rho = ct.zeros((H, W), ct.float32)
    ux = ct.zeros((H, W), ct.float32)
    uy = ct.zeros((H, W), ct.float32)
    for k in ct.static_iter(range(9)):
        cx, cy = (0, 1, 0, -1, 0, 1, -1, -1, 1)[k], (0, 0, 1, 0, -1, 1, 1, -1, -1)[k]
        v = ct.gather(f, (k, (r - cy + H) % H, (c - cx + W) % W))
        rho = rho + v
        ux = ux + v * cx
        uy = uy + v * cy
    ux = ux / rho
    uy = uy / rho
    sq = ux * ux + uy * uy
    for k in ct.static_iter(range(9)):
        cx, cy = (0, 1, 0, -1, 0, 1, -1, -1, 1)[k], (0, 0, 1, 0, -1, 1, 1, -1, -1)[k]
        w = (4 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 36, 1 / 36, 1 / 36, 1 / 36)[k]
        v = ct.gather(f, (k, (r - cy + H) % H, (c - cx + W) % W))
        e = ux * cx + uy * cy
        ct.scatter(g, (k, r, c), v + OMEGA * (w * rho * (1.0 + 3.0 * e + 4.5 * e * e - 1.5 * sq) - v))


def _seg(v1, f1, v2, f2):
    return ct.where(f2 != 0, v2, v1 + v2), f1 | f2


@ct.kernel
def segmented_scan(x, f, y, N: Const, AXIS: Const, REV: ct.Constant[bool]):
    v = ct.load(x, (0, 0), (N, N))
    g = ct.load(f, (0, 0), (N, N))
    s, _ = ct.scan((v, g), AXIS, _seg, (0, 0), reverse=REV)
    ct.store(y, (0, 0), s)


def _mat2(a, b, c, d, e, f, g, h):
    return a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h


@ct.kernel
def matrix_scan(a, b, c, d, o, N: Const):
    """Scan of four operands: products of 2x2 integer matrices."""
    r = ct.bid(0)
    w, x, y, z = ct.scan(
        (
            ct.load(a, (r, 0), (1, N)),
            ct.load(b, (r, 0), (1, N)),
            ct.load(c, (r, 0), (1, N)),
            ct.load(d, (r, 0), (1, N)),
        ),
        1,
        _mat2,
        (1, 0, 0, 1),
    )
    ct.store(o, (r, 0), w + x * 3 + y * 5 + z * 7)


def _mixed(m1, s1, i1, m2, s2, i2):
    t = m2 > m1
    return ct.where(t, m2, m1), s1 + s2, ct.where(t, i2, i1)


@ct.kernel
def reduce_mixed(x, m, s, i, A_: Const, B: Const, C: Const, AXIS: Const):
    """Three operands of three types along the middle axis of 3-D."""
    v = ct.load(x, (0, 0, 0), (A_, B, C), padding_mode=NEG)
    idx = ct.broadcast_to(ct.arange(B, dtype=ct.int64).reshape((1, B, 1)), (A_, B, C))
    a, b, c = ct.reduce((v, v.astype(ct.float64), idx), AXIS, _mixed, (float("-inf"), 0.0, -1))
    ct.store(m, (0, 0), a)
    ct.store(s, (0, 0), b)
    ct.store(i, (0, 0), c)


@ct.kernel
def reduce_all_axes(x, o, A_: Const, B: Const, C: Const, D: Const):
    """4-D reductions over tuples of axes and all, keepdims."""
    v = ct.load(x, (0, 0, 0, 0), (A_, B, C, D))
    a = ct.sum(v, (0, 2))
    b = ct.max(v, (1, 3), keepdims=True)
    c = ct.min(v)
    d = ct.sum(v, 3, keepdims=True)
    ct.store(o, (0, 0, 0, 0), v * 2 + a.reshape((1, B, 1, D)) + b + c + d)
