"""Products, attention and streams of production size in forms that the other files do not have."""

import cuda.tile as ct

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO
LOG2E = 1.4426950408889634


@ct.kernel
def sums_of_16_bits(a, b, c, M: Const, N: Const, K: Const):
    """Products add up in f16; B is stored N x K."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float16)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        y = ct.load(b, (j, k), (N, K), padding_mode=ZERO)
        acc = ct.mma(x, y.transpose(), acc)
    ct.store(c, (i, j), acc)


@ct.kernel(num_ctas=2, occupancy=2)
def short_latency(a, b, c, M: Const, N: Const, K: Const):
    """Hints that ask for less than a loop needs."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO, latency=3)
        y = ct.load(b, (k, j), (K, N), padding_mode=ZERO, latency=3)
        acc = ct.mma(x, y, acc)
    ct.store(c, (i, j), acc.astype(c.dtype), allow_tma=False)


@ct.kernel
def promoted(a, b, c, M: Const, N: Const, K: Const, EACH: Const):
    """8-bit products whose sum goes to another one after EACH steps."""
    i, j = ct.bid(0), ct.bid(1)
    total = ct.zeros((M, N), ct.float32)
    for o in range(ct.cdiv(a.shape[1], K * EACH)):
        part = ct.zeros((M, N), ct.float32)
        for k in range(EACH):
            x = ct.load(a, (i, o * EACH + k), (M, K), padding_mode=ZERO)
            y = ct.load(b, (j, o * EACH + k), (N, K), padding_mode=ZERO)
            part = ct.mma(x, y.transpose(), part)
        total = total + part
    ct.store(c, (i, j), total.astype(c.dtype))


@ct.kernel
def stream_k(a, b, c, steps, M: Const, N: Const, K: Const):
    """A block takes so many steps of all tiles in a row; what it has of a tile is added."""
    n = ct.num_tiles(a, 1, (M, K))
    across = ct.num_tiles(b, 1, (K, N))
    at = ct.bid(0) * steps
    end = ct.minimum(at + steps, ct.num_tiles(a, 0, (M, K)) * across * n)
    while at < end:
        tile = at // n
        first = at - tile * n
        last = ct.minimum(n, first + (end - at))
        i, j = tile // across, tile % across
        acc = ct.zeros((M, N), ct.float32)
        for k in range(first, last):
            x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
            acc = ct.mma(x, ct.load(b, (k, j), (K, N), padding_mode=ZERO), acc)
        rows = (i * M + ct.arange(M, dtype=ct.int32))[:, None]
        cols = (j * N + ct.arange(N, dtype=ct.int32))[None, :]
        ct.atomic_add(c, (rows, cols), acc, memory_order=ct.MemoryOrder.RELAXED)
        at = at + (last - first)


@ct.kernel
def low_rank(x, w, down, up, y, scale, M: Const, N: Const, K: Const, R: Const):
    """x W + scale (x A) B: two sums of different widths share their left operand."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    low = ct.zeros((M, R), ct.float32)
    for k in range(ct.num_tiles(x, 1, (M, K))):
        t = ct.load(x, (i, k), (M, K), padding_mode=ZERO)
        acc = ct.mma(t, ct.load(w, (k, j), (K, N), padding_mode=ZERO), acc)
        low = ct.mma(t, ct.load(down, (k, 0), (K, R), padding_mode=ZERO), low)
    acc = ct.mma((low * scale).astype(x.dtype), ct.load(up, (0, j), (R, N), padding_mode=ZERO), acc)
    ct.store(y, (i, j), acc.astype(y.dtype))


@ct.kernel
def nearest(x, c, norms, best, M: Const, N: Const, D: Const):
    """The centre with the least |c|^2 - 2 x c."""
    i = ct.bid(0)
    t = ct.load(x, (i, 0), (M, D), padding_mode=ZERO)
    low = ct.full((M,), 3.0e38, ct.float32)
    arg = ct.zeros((M,), ct.int32)
    for j in range(ct.num_tiles(c, 0, (N, D))):
        u = ct.load(c, (j, 0), (N, D), padding_mode=ZERO)
        near = ct.mma(t, u.transpose(), ct.zeros((M, N), ct.float32))
        d = ct.load(norms, (j,), (N,)).reshape((1, N)) - 2.0 * near
        least = ct.min(d, 1)
        arg = ct.where(least < low, ct.argmin(d, 1) + j * N, arg)
        low = ct.minimum(low, least)
    ct.store(best, (i,), arg)


@ct.kernel
def windowed(q, k, v, o, scale, cap, window, M: Const, N: Const, D: Const):
    """Attention to a window, scores bounded by a hyperbolic tangent."""
    i, h = ct.bid(0), ct.bid(1)
    qt = ct.load(q, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
    m_i = ct.full((M, 1), -1.0e30, ct.float32)
    l_i = ct.zeros((M, 1), ct.float32)
    acc = ct.zeros((M, D), ct.float32)
    rows = i * M + ct.arange(M, dtype=ct.int32).reshape((M, 1))
    for j in range(ct.maximum(i * M - window, 0) // N, ct.cdiv((i + 1) * M, N)):
        kt = ct.load(k, (h, j, 0), (1, N, D), padding_mode=ZERO).reshape((N, D))
        s = ct.mma(qt, kt.transpose(), ct.zeros((M, N), ct.float32)) * scale
        s = cap * ct.tanh(s / cap) * LOG2E
        cols = j * N + ct.arange(N, dtype=ct.int32).reshape((1, N))
        s = ct.where((cols <= rows) & (rows - cols < window), s, -1.0e30)
        new = ct.maximum(m_i, ct.max(s, 1, keepdims=True))
        p = ct.exp2(s - new)
        al = ct.exp2(m_i - new)
        l_i = l_i * al + ct.sum(p, 1, keepdims=True)
        vt = ct.load(v, (h, j, 0), (1, N, D), padding_mode=ZERO).reshape((N, D))
        acc = ct.mma(p.astype(v.dtype), vt, acc * al)
        m_i = new
    ct.store(o, (h, i, 0), (acc / l_i).astype(o.dtype).reshape((1, M, D)))


@ct.kernel
def bilinear(x, fy, fx, y, P: Const, C: Const):
    """Samples at P places between pixels; C channels lie together."""
    i = ct.bid(0)
    v, u = ct.load(fy, (i,), (P,)), ct.load(fx, (i,), (P,))
    r, c = ct.floor(v), ct.floor(u)
    b, a = (v - r)[:, None], (u - c)[:, None]
    r, c = r.astype(ct.int32)[:, None], c.astype(ct.int32)[:, None]
    ch = ct.arange(C, dtype=ct.int32)[None, :]
    p00 = ct.gather(x, (r, c * C + ch), padding_value=0.0).astype(ct.float32)
    p01 = ct.gather(x, (r, (c + 1) * C + ch), padding_value=0.0).astype(ct.float32)
    p10 = ct.gather(x, (r + 1, c * C + ch), padding_value=0.0).astype(ct.float32)
    p11 = ct.gather(x, (r + 1, (c + 1) * C + ch), padding_value=0.0).astype(ct.float32)
    top, low = p00 + a * (p01 - p00), p10 + a * (p11 - p10)
    ct.store(y, (i, 0), (top + b * (low - top)).astype(y.dtype))


@ct.function
def high_product(a, b):
    return ((a.astype(ct.uint64) * b.astype(ct.uint64)) >> 32).astype(ct.uint32)


@ct.kernel
def dropout(x, y, seed, p, T: Const):
    """Ten rounds of Philox an element."""
    b = ct.bid(0)
    c0 = (b * T + ct.arange(T, dtype=ct.int32)).astype(ct.uint32)
    c1, c2, c3 = ct.zeros((T,), ct.uint32), ct.zeros((T,), ct.uint32), ct.zeros((T,), ct.uint32)
    k0, k1 = ct.full((T,), seed, ct.uint32), ct.zeros((T,), ct.uint32)
    m0, m1 = ct.full((T,), 0xD2511F53, ct.uint32), ct.full((T,), 0xCD9E8D57, ct.uint32)
    for _ in ct.static_iter(range(10)):
        h0, l0 = high_product(m0, c0), m0 * c0
        h1, l1 = high_product(m1, c2), m1 * c2
        c0, c1, c2, c3 = h1 ^ c1 ^ k0, l1, h0 ^ c3 ^ k1, l0
        k0 = k0 + ct.full((T,), 0x9E3779B9, ct.uint32)
        k1 = k1 + ct.full((T,), 0xBB67AE85, ct.uint32)
    u = (c0 >> 8).astype(ct.float32) * 5.9604645e-08
    v = ct.load(x, (b,), (T,)).astype(ct.float32)
    ct.store(y, (b,), ct.where(u > p, v / (1.0 - p), 0.0).astype(y.dtype))


@ct.kernel
def masked(q, k, v, mask, o, scale, M: Const, N: Const, D: Const):
    """Attention where a byte says which scores count."""
    i, h = ct.bid(0), ct.bid(1)
    qt = ct.load(q, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
    m_i = ct.full((M, 1), -1.0e30, ct.float32)
    l_i = ct.zeros((M, 1), ct.float32)
    acc = ct.zeros((M, D), ct.float32)
    for j in range(ct.cdiv(k.shape[1], N)):
        kt = ct.load(k, (h, 0, j), (1, D, N), order=(0, 2, 1), padding_mode=ZERO).reshape((D, N))
        keep = ct.load(mask, (i, j), (M, N), padding_mode=ZERO) != 0
        s = ct.mma(qt, kt, ct.zeros((M, N), ct.float32)) * (scale * LOG2E)
        s = ct.where(keep, s, -1.0e30)
        new = ct.maximum(m_i, ct.max(s, 1, keepdims=True))
        p = ct.exp2(s - new)
        al = ct.exp2(m_i - new)
        l_i = l_i * al + ct.sum(p, 1, keepdims=True)
        vt = ct.load(v, (h, j, 0), (1, N, D), padding_mode=ZERO).reshape((N, D))
        acc = ct.mma(p.astype(v.dtype), vt, acc * al)
        m_i = new
    ct.store(o, (h, i, 0), (acc / l_i).astype(o.dtype).reshape((1, M, D)))
