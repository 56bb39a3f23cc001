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
def words_of_columns(a, q, s, z, c, M: Const, N: Const, K: Const):
    """4-bit weights, eight neighbours along N in a word; zero points in words too, scales and zero points of groups of K."""
    i, j = ct.bid(0), ct.bid(1)
    shifts = (ct.arange(8, dtype=ct.int32) * 4).reshape((1, 1, 8))
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        words = ct.load(q, (k, j), (K, N // 8), padding_mode=ZERO).reshape((K, N // 8, 1))
        weights = (ct.bitwise_rshift(words, shifts) & 15).reshape((K, N))
        zeros = ct.load(z, (k, j), (1, N // 8), padding_mode=ZERO).reshape((1, N // 8, 1))
        zeros = (ct.bitwise_rshift(zeros, shifts) & 15).reshape((1, N))
        scale = ct.load(s, (k, j), (1, N), padding_mode=ZERO)
        acc = ct.mma(x, (weights - zeros).astype(a.dtype) * scale, acc)
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def scaled_sums(a, q, s, c, M: Const, N: Const, K: Const):
    """4-bit weights in bytes along K; the scales of a group multiply the sums of a step."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        pairs = ct.load(q, (j, k), (N, K // 2), padding_mode=ZERO)
        low = (pairs & 15).astype(ct.int8)[:, :, None]
        high = (pairs >> 4).astype(ct.int8)[:, :, None]
        w = (ct.cat((low, high), 2).reshape((N, K)) - 8).astype(a.dtype)
        part = ct.mma(x, w.transpose(), ct.zeros((M, N), ct.float32))
        acc += part * ct.load(s, (k, j), (1, N), padding_mode=ZERO).astype(ct.float32)
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def channels_last(x, w, bias, y, P: Const, N: Const, K: Const, H: Const, W: Const, C: Const):
    """3x3 convolution of images H x W x C as one product; K goes over taps and channels in one."""
    i, j = ct.bid(0), ct.bid(1)
    p = i * P + ct.arange(P, dtype=ct.int32)
    n, at = p // (H * W), p % (H * W)
    h, v = at // W, at % W
    acc = ct.zeros((P, N), ct.float32)
    for k in range(9 * C // K):
        tap = k * K // C
        channels = (k * K) % C + ct.arange(K, dtype=ct.int32)
        row, column = h + tap // 3 - 1, v + tap % 3 - 1
        inside = (row >= 0) & (row < H) & (column >= 0) & (column < W)
        place = (n[:, None], row[:, None], column[:, None], channels[None, :])
        a = ct.gather(x, place, mask=inside[:, None], padding_value=0)
        acc = ct.mma(a, ct.load(w, (k, j), (K, N), padding_mode=ZERO), acc)
    z = acc + ct.load(bias, (j,), (N,), padding_mode=ZERO).astype(ct.float32)[None, :]
    ct.store(y, (i, j), ct.maximum(z, 0.0).astype(y.dtype))


@ct.kernel
def norm_in_front(x, g, w, y, eps, M: Const, N: Const, K: Const):
    """A product of rows that are scaled on the way, whose sums of squares are taken beside and divide the result."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    squares = ct.zeros((M, 1), ct.float32)
    for k in range(ct.num_tiles(x, 1, (M, K))):
        t = ct.load(x, (i, k), (M, K), padding_mode=ZERO)
        f = t.astype(ct.float32)
        squares = squares + ct.sum(f * f, 1, keepdims=True)
        t = t * ct.load(g, (k,), (K,), padding_mode=ZERO)[None, :]
        acc = ct.mma(t, ct.load(w, (k, j), (K, N), padding_mode=ZERO), acc)
    ct.store(y, (i, j), (acc * ct.rsqrt(squares / x.shape[1] + eps)).astype(y.dtype))
