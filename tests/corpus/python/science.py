"""Algorithms from outside neural networks: ciphers, checksums, linear algebra, dynamic programming, graphs, images,
signals."""

import cuda.tile as ct

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


def _rotl(v, k: Const):
    return (v << k) | (v >> (32 - k))


def _quarter(a, b, c, d):
    a = a + b
    d = _rotl(d ^ a, 16)
    c = c + d
    b = _rotl(b ^ c, 12)
    a = a + b
    d = _rotl(d ^ a, 8)
    c = c + d
    b = _rotl(b ^ c, 7)
    return a, b, c, d


@ct.kernel
def chacha(key, out, T: Const):
    """ChaCha20 blocks: 16 carried tiles of u32, ten double rounds."""
    b = ct.bid(0)
    z = ct.zeros((T,), ct.uint32)
    s0, s1, s2, s3 = z + 0x61707865, z + 0x3320646E, z + 0x79622D32, z + 0x6B206574
    s4, s5, s6, s7 = (
        z + ct.gather(key, 0),
        z + ct.gather(key, 1),
        z + ct.gather(key, 2),
        z + ct.gather(key, 3),
    )
    s8, s9, s10, s11 = (
        z + ct.gather(key, 4),
        z + ct.gather(key, 5),
        z + ct.gather(key, 6),
        z + ct.gather(key, 7),
    )
    s12 = ct.arange(T, dtype=ct.uint32) + (b * T).astype(ct.uint32)
    s13, s14, s15 = z, z + 7, z + 9
    x0, x1, x2, x3, x4, x5, x6, x7 = s0, s1, s2, s3, s4, s5, s6, s7
    x8, x9, x10, x11, x12, x13, x14, x15 = s8, s9, s10, s11, s12, s13, s14, s15
    for _ in range(10):
        x0, x4, x8, x12 = _quarter(x0, x4, x8, x12)
        x1, x5, x9, x13 = _quarter(x1, x5, x9, x13)
        x2, x6, x10, x14 = _quarter(x2, x6, x10, x14)
        x3, x7, x11, x15 = _quarter(x3, x7, x11, x15)
        x0, x5, x10, x15 = _quarter(x0, x5, x10, x15)
        x1, x6, x11, x12 = _quarter(x1, x6, x11, x12)
        x2, x7, x8, x13 = _quarter(x2, x7, x8, x13)
        x3, x4, x9, x14 = _quarter(x3, x4, x9, x14)
    at = b * T + ct.arange(T, dtype=ct.int32)
    ct.scatter(out, (at, 0), x0 + s0)
    ct.scatter(out, (at, 1), x1 + s1)
    ct.scatter(out, (at, 2), x2 + s2)
    ct.scatter(out, (at, 3), x3 + s3)
    ct.scatter(out, (at, 4), x4 + s4)
    ct.scatter(out, (at, 5), x5 + s5)
    ct.scatter(out, (at, 6), x6 + s6)
    ct.scatter(out, (at, 7), x7 + s7)
    ct.scatter(out, (at, 8), x8 + s8)
    ct.scatter(out, (at, 9), x9 + s9)
    ct.scatter(out, (at, 10), x10 + s10)
    ct.scatter(out, (at, 11), x11 + s11)
    ct.scatter(out, (at, 12), x12 + s12)
    ct.scatter(out, (at, 13), x13 + s13)
    ct.scatter(out, (at, 14), x14 + s14)
    ct.scatter(out, (at, 15), x15 + s15)


@ct.kernel
def crc32(data, table, out, N: Const, T: Const):
    """Table-driven CRC of many byte rows; u8 loads, u32 gathers in a dependent loop."""
    b = ct.bid(0)
    r = b * T + ct.arange(T, dtype=ct.int32)
    c = ct.full((T,), 0xFFFFFFFF, ct.uint32)
    for k in range(N):
        v = ct.gather(data, (r, k)).astype(ct.uint32)
        c = ct.gather(table, ((c ^ v) & 255).astype(ct.int32)) ^ (c >> 8)
    ct.scatter(out, r, ~c)


@ct.kernel
def mod_pow(base, e, out, m, T: Const):
    """Modular power with 64-bit products; loop length by bits; unsigned remainder."""
    b = ct.bid(0)
    x = ct.load(base, (b,), (T,), padding_mode=ZERO) % m
    k = ct.load(e, (b,), (T,), padding_mode=ZERO)
    r = ct.ones((T,), ct.uint64)
    while ct.max(k) > 0:
        r = ct.where(k & 1 == 1, r * x % m, r)
        x = x * x % m
        k = k >> 1
    ct.store(out, (b,), r)


@ct.kernel
def bigint_mul(a, b_, c, N: Const):
    """Schoolbook product of 32-bit limbs: column sums of 64-bit partial products, carries left to the reader."""
    r = ct.bid(0)
    acc_lo = ct.zeros((2 * N,), ct.uint64)
    at = ct.arange(2 * N, dtype=ct.int32)
    for i in range(N):
        x = ct.gather(a, (r, i)).astype(ct.uint64)
        y = ct.gather(b_, (r, at - i), padding_value=0).astype(ct.uint64)
        y = ct.where((at >= i) & (at < i + N), y, ct.zeros((2 * N,), ct.uint64))
        p = x * y
        lo = p & 0xFFFFFFFF
        acc_lo = acc_lo + lo
        hi = ct.gather(b_, (r, at - i - 1), padding_value=0).astype(ct.uint64)
        hi = ct.where((at >= i + 1) & (at < i + 1 + N), (x * hi) >> 32, ct.zeros((2 * N,), ct.uint64))
        acc_lo = acc_lo + hi
    ct.scatter(c, (r, at), acc_lo)


@ct.kernel
def morton(x, y, z, T: Const):
    b = ct.bid(0)

    def sp(v):
        v = (v | (v << 16)) & 0x0000FFFF0000FFFF
        v = (v | (v << 8)) & 0x00FF00FF00FF00FF
        v = (v | (v << 4)) & 0x0F0F0F0F0F0F0F0F
        v = (v | (v << 2)) & 0x3333333333333333
        return (v | (v << 1)) & 0x5555555555555555

    ct.store(
        z,
        (b,),
        sp(ct.load(x, (b,), (T,)).astype(ct.uint64)) | (sp(ct.load(y, (b,), (T,)).astype(ct.uint64)) << 1),
    )


@ct.kernel
def sieve(flags, n, T: Const):
    """Strided stores through computed offsets: primes."""
    raw = flags.get_raw_memory()
    i = ct.arange(T, dtype=ct.int32)
    p = 2
    while p * p <= n:
        if raw.load_offset(p) == 0:
            k = p * p
            while k <= n:
                at = k + i * p
                raw.store_offset(at, 1, mask=at <= n)
                k = k + T * p
        p = p + 1


@ct.kernel
def radix_pass(x, y, T: Const):
    """One stable radix-4 pass: ranks by scans over one-hot columns."""
    v = ct.load(x, (0,), (T,))
    d = (v >> 4) & 3
    hot = (d.reshape((T, 1)) == ct.arange(4, dtype=ct.int32).reshape((1, 4))).astype(ct.int32)
    rank = ct.cumsum(hot, 0)
    count = ct.sum(hot, 0, keepdims=True)
    start = ct.cumsum(count, 1) - count
    at = ct.sum(hot * (rank - 1 + start), 1)
    ct.scatter(y, at, v)


@ct.kernel
def sort_pairs(k, v, ok, ov, N: Const, L: Const):
    """Rank sort: every key counts the smaller ones and the equal ones before it."""
    a = ct.load(k, (0,), (N,))
    b = ct.load(v, (0,), (N,))
    i = ct.arange(N, dtype=ct.int32)
    less = (a.reshape((1, N)) < a.reshape((N, 1))) | (
        (a.reshape((1, N)) == a.reshape((N, 1))) & (i.reshape((1, N)) < i.reshape((N, 1)))
    )
    at = ct.sum(less.astype(ct.int32), 1)
    ct.scatter(ok, at, a)
    ct.scatter(ov, at, b)


@ct.kernel
def lu_tile(a, out, N: Const):
    """LU without pivots in one tile: masks and reductions pick the pivot row and column."""
    b = ct.bid(0)
    m = ct.load(a, (b, 0, 0), (1, N, N)).reshape((N, N))
    r = ct.arange(N, dtype=ct.int32).reshape((N, 1))
    c = ct.arange(N, dtype=ct.int32).reshape((1, N))
    for k in range(N):
        row = ct.sum(ct.where(r == k, m, 0.0), 0, keepdims=True)
        col = ct.sum(ct.where(c == k, m, 0.0), 1, keepdims=True)
        piv = ct.sum(ct.where((r == k) & (c == k), m, 0.0))
        l = ct.where(r > k, col / piv, 0.0)
        m = ct.where((r > k) & (c == k), l, ct.where((r > k) & (c > k), m - l * row, m))
    ct.store(out, (b, 0, 0), m.reshape((1, N, N)))


@ct.kernel
def cholesky_f64(a, out, N: Const):
    m = ct.load(a, (0, 0), (N, N))
    r = ct.arange(N, dtype=ct.int32).reshape((N, 1))
    c = ct.arange(N, dtype=ct.int32).reshape((1, N))
    l = ct.zeros((N, N), ct.float64)
    for k in range(N):
        d = ct.sqrt(ct.sum(ct.where((r == k) & (c == k), m, 0.0)))
        col = ct.sum(ct.where(c == k, m, 0.0), 1, keepdims=True) / d
        col = ct.where(r >= k, col, 0.0)
        l = ct.where(c == k, col, l)
        m = m - col * ct.transpose(col)
    ct.store(out, (0, 0), l)


@ct.kernel
def gauss_jordan(a, rhs, x, N: Const):
    """Solve with partial pivoting: argmax, swaps through gathers from global scratch."""
    b = ct.bid(0)
    i = ct.arange(N, dtype=ct.int32)
    for k in range(N):
        col = ct.gather(a, (b, i, k))
        p = ct.argmax(ct.where(i >= k, ct.abs(col), -1.0), 0)
        rk = ct.gather(a, (b, k, i))
        rp = ct.gather(a, (b, p, i))
        ct.scatter(a, (b, p, i), rk)
        ct.scatter(a, (b, k, i), rp)
        vk = ct.gather(rhs, (b, k))
        vp = ct.gather(rhs, (b, p))
        ct.scatter(rhs, (b, p), vk)
        ct.scatter(rhs, (b, k), vp)
        m = ct.gather(a, (b, i.reshape((N, 1)), i.reshape((1, N))))
        piv = ct.gather(a, (b, k, k))
        f = ct.where(i == k, 0.0, ct.gather(a, (b, i, k)) / piv)
        row = ct.gather(a, (b, k, i))
        ct.scatter(a, (b, i.reshape((N, 1)), i.reshape((1, N))), m - f.reshape((N, 1)) * row.reshape((1, N)))
        ct.scatter(rhs, (b, i), ct.gather(rhs, (b, i)) - f * ct.gather(rhs, (b, k)))
    ct.scatter(x, (b, i), ct.gather(rhs, (b, i)) / ct.gather(a, (b, i, i)))


@ct.kernel
def block_sparse(a, b_, cols, starts, c, T: Const):
    """BSR times dense: dynamic list of blocks per row."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((T, T), ct.float32)
    for e in range(ct.gather(starts, i), ct.gather(starts, i + 1)):
        acc = ct.mma(
            ct.load(a, (e, 0, 0), (1, T, T)).reshape((T, T)),
            ct.load(b_, (ct.gather(cols, e), j), (T, T), padding_mode=ZERO),
            acc,
        )
    ct.store(c, (i, j), acc)


@ct.kernel
def mm_complex(ar, ai, br, bi, cr, ci, T: Const):
    i, j = ct.bid(0), ct.bid(1)
    re = ct.zeros((T, T), ct.float32)
    im = ct.zeros((T, T), ct.float32)
    for k in range(ct.num_tiles(ar, 1, (T, T))):
        a, b = ct.load(ar, (i, k), (T, T), padding_mode=ZERO), ct.load(ai, (i, k), (T, T), padding_mode=ZERO)
        c, d = ct.load(br, (k, j), (T, T), padding_mode=ZERO), ct.load(bi, (k, j), (T, T), padding_mode=ZERO)
        re = ct.mma(a, c, re)
        re = ct.mma(-b, d, re)
        im = ct.mma(a, d, im)
        im = ct.mma(b, c, im)
    ct.store(cr, (i, j), re)
    ct.store(ci, (i, j), im)


@ct.kernel
def levenshtein(s, t, out, N: Const):
    """Edit distance along anti-diagonals: three rotating tiles, shifts through scratch rows."""
    b = ct.bid(0)
    i = ct.arange(2 * N, dtype=ct.int32)
    big = ct.full((2 * N,), 9999, ct.int32)
    prev2 = ct.where(i == 0, 0, big)
    prev = ct.where(i <= 1, 1, big)
    raw = out.get_raw_memory()
    n = s.shape[1]
    row = b * 4 * N
    sc = ct.gather(s, (b, i - 1), padding_value=-1)
    for d in range(2, 2 * n + 1):
        j = d - i
        raw.store_offset(row + i, prev)
        raw.store_offset(row + 2 * N + i, prev2)
        up = raw.load_offset(row + i - 1, mask=i > 0, padding_value=9999)
        dia = raw.load_offset(row + 2 * N + i - 1, mask=i > 0, padding_value=9999)
        tc = ct.gather(t, (b, j - 1), padding_value=-2)
        cost = (sc != tc).astype(ct.int32)
        cur = ct.minimum(ct.minimum(up, prev) + 1, dia + cost)
        cur = ct.where((i == 0) | (j == 0), d, cur)
        cur = ct.where((j < 0) | (i > n) | (j > n), big, cur)
        prev2 = prev
        prev = cur
    raw.store_offset(row + i, prev)
    ct.scatter(out, row + 2 * N + i, ct.where(i == 0, ct.max(ct.where(i == n, prev, 0)), 0))


@ct.kernel
def viterbi(logp, trans, emit_path, S: Const):
    """Max-plus products with back pointers, then a scalar walk backwards (negative direction)."""
    b = ct.bid(0)
    n = logp.shape[1]
    j = ct.arange(S, dtype=ct.int32)
    tr = ct.load(trans, (0, 0), (S, S))
    v = ct.load(logp, (b, 0, 0), (1, 1, S)).reshape((S,))
    for t in range(1, n):
        sc = v.reshape((S, 1)) + tr
        ct.scatter(emit_path, (b, t, j), ct.argmax(sc, 0))
        v = ct.max(sc, 0) + ct.load(logp, (b, t, 0), (1, 1, S)).reshape((S,))
    k = ct.argmax(v, 0)
    t = n - 1
    while t > 0:
        nk = ct.gather(emit_path, (b, t, k))
        ct.scatter(emit_path, (b, t, S), k)
        k = nk
        t = t - 1
    ct.scatter(emit_path, (b, 0, S), k)


@ct.kernel
def ctc_forward(lp, labels, loss, S: Const):
    """CTC loss in log space: neighbours one and two places away by masked maxima."""
    b = ct.bid(0)
    i = ct.arange(S, dtype=ct.int32)
    n = lp.shape[1]
    L = labels.shape[1]
    lab = ct.where(i % 2 == 1, ct.gather(labels, (b, i // 2), padding_value=0), 0)
    lab2 = ct.where((i % 2 == 1) & (i > 1), ct.gather(labels, (b, i // 2 - 1), padding_value=0), 0)
    skip = (i % 2 == 1) & (i > 1) & (lab != lab2)
    inf = -1.0e30
    a = ct.where(i < 2, ct.gather(lp, (b, 0, lab)), inf)
    for t in range(1, n):
        hist = ct.where(i.reshape((1, S)) == i.reshape((S, 1)) - 1, a.reshape((1, S)), inf)
        a1 = ct.max(hist, 1)
        a2 = ct.where(
            skip, ct.max(ct.where(i.reshape((1, S)) == i.reshape((S, 1)) - 2, a.reshape((1, S)), inf), 1), inf
        )
        m = ct.maximum(a, ct.maximum(a1, a2))
        a = m + ct.log(ct.exp(a - m) + ct.exp(a1 - m) + ct.exp(a2 - m)) + ct.gather(lp, (b, t, lab))
        a = ct.where(i < 2 * L + 1, a, inf)
    x = ct.max(ct.where(i == 2 * L, a, inf))
    y = ct.max(ct.where(i == 2 * L - 1, a, inf))
    m = ct.maximum(x, y)
    ct.scatter(loss, b, -(m + ct.log(ct.exp(x - m) + ct.exp(y - m))))


@ct.kernel
def floyd_block(d, N: Const):
    """All pairs shortest paths in one tile; row and column k by masked min."""
    m = ct.load(d, (0, 0), (N, N))
    r = ct.arange(N, dtype=ct.int32).reshape((N, 1))
    c = ct.arange(N, dtype=ct.int32).reshape((1, N))
    for k in range(N):
        row = ct.min(ct.where(r == k, m, 1.0e9), 0, keepdims=True)
        col = ct.min(ct.where(c == k, m, 1.0e9), 1, keepdims=True)
        m = ct.minimum(m, row + col)
    ct.store(d, (0, 0), m)
