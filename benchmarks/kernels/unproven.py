"""Products and streams by index tiles, of arrays of which nothing is promised: no alignment, no divisor."""

import cuda.tile as ct

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def by_index(a, b, c, M: Const, N: Const, K: Const, AT: Const, BT: Const):
    """AT and BT: the operand is stored with K outermost (A) or innermost (B)."""
    i, j = ct.bid(0), ct.bid(1)
    rows = i * M + ct.arange(M, dtype=ct.int32)
    cols = j * N + ct.arange(N, dtype=ct.int32)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[0 if AT else 1], K)):
        depth = k * K + ct.arange(K, dtype=ct.int32)
        if AT:
            x = ct.transpose(ct.gather(a, (depth[:, None], rows[None, :])))
        else:
            x = ct.gather(a, (rows[:, None], depth[None, :]))
        if BT:
            y = ct.transpose(ct.gather(b, (cols[:, None], depth[None, :])))
        else:
            y = ct.gather(b, (depth[:, None], cols[None, :]))
        acc = ct.mma(x, y, acc)
    ct.scatter(c, (rows[:, None], cols[None, :]), acc.astype(c.dtype))


@ct.kernel
def by_index_int32(a, b, c, M: Const, N: Const, K: Const):
    i, j = ct.bid(0), ct.bid(1)
    rows = i * M + ct.arange(M, dtype=ct.int32)
    cols = j * N + ct.arange(N, dtype=ct.int32)
    acc = ct.zeros((M, N), ct.int32)
    for k in range(ct.cdiv(a.shape[1], K)):
        depth = k * K + ct.arange(K, dtype=ct.int32)
        x = ct.gather(a, (rows[:, None], depth[None, :]))
        y = ct.transpose(ct.gather(b, (cols[:, None], depth[None, :])))
        acc = ct.mma(x, y, acc)
    ct.scatter(c, (rows[:, None], cols[None, :]), acc)


@ct.kernel
def experts(a, w, ids, chosen, c, M: Const, N: Const, K: Const):
    """Rows of A by a list, the weights of the expert that a block of rows has chosen (N x K each)."""
    i, j = ct.bid(0), ct.bid(1)
    rows = ct.load(ids, (i,), (M,), padding_mode=ZERO)
    e = ct.gather(chosen, i)
    cols = j * N + ct.arange(N, dtype=ct.int32)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        depth = k * K + ct.arange(K, dtype=ct.int32)
        x = ct.gather(a, (rows[:, None], depth[None, :]))
        y = ct.transpose(ct.gather(w, (e, cols[:, None], depth[None, :])))
        acc = ct.mma(x, y, acc)
    ct.scatter(c, (rows[:, None], cols[None, :]), acc.astype(c.dtype))


@ct.kernel
def paged(q, k, v, o, pages, scale, M: Const, N: Const, D: Const):
    """Attention whose keys and values lie in pages of N rows, named by a table."""
    h, b = ct.bid(0), ct.bid(1)
    rows = ct.arange(M, dtype=ct.int32)
    cols = ct.arange(D, dtype=ct.int32)
    query = ct.gather(q, (h * M + rows[:, None], cols[None, :]))
    acc = ct.zeros((M, D), ct.float32)
    high = ct.full((M, 1), -1.0e30, ct.float32)
    total = ct.zeros((M, 1), ct.float32)
    inside = ct.arange(N, dtype=ct.int32)
    for t in range(pages.shape[1]):
        page = ct.gather(pages, (b, t))
        keys = ct.gather(k, (page * N + inside[:, None], cols[None, :]))
        s = ct.mma(query, ct.transpose(keys), ct.zeros((M, N), ct.float32)) * scale
        now = ct.maximum(high, ct.max(s, 1, keepdims=True))
        p = ct.exp2(s - now)
        old = ct.exp2(high - now)
        total = total * old + ct.sum(p, 1, keepdims=True)
        values = ct.gather(v, (page * N + inside[:, None], cols[None, :]))
        acc = ct.mma(p.astype(v.dtype), values, acc * old)
        high = now
    ct.scatter(o, (h * M + rows[:, None], cols[None, :]), (acc / total).astype(o.dtype))


@ct.kernel
def gated_norm(x, g, r, w, y, s, eps, T: Const):
    """Five arrays a chunk, in two passes over a row."""
    i = ct.bid(0)
    n = ct.cdiv(x.shape[1], T)
    square = ct.zeros((1, T), ct.float32)
    for k in range(n):
        v = ct.load(x, (i, k), (1, T), padding_mode=ZERO).astype(ct.float32)
        v = v + ct.load(r, (i, k), (1, T), padding_mode=ZERO).astype(ct.float32)
        square += v * v
    scale = ct.rsqrt(ct.sum(square, 1, keepdims=True) / x.shape[1] + eps)
    for k in range(n):
        v = ct.load(x, (i, k), (1, T), padding_mode=ZERO).astype(ct.float32)
        v = v + ct.load(r, (i, k), (1, T), padding_mode=ZERO).astype(ct.float32)
        gate = ct.load(g, (i, k), (1, T), padding_mode=ZERO).astype(ct.float32)
        f = ct.load(w, (k,), (T,), padding_mode=ZERO).astype(ct.float32).reshape((1, T))
        ct.store(s, (i, k), v.astype(s.dtype))
        ct.store(y, (i, k), (v * scale * f * gate).astype(y.dtype))
