"""Whole tiles in a loop, and the rest under a mask in a branch behind it: of the keys, of K, in persistent blocks."""

import cuda.tile as ct

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO
LOG2E = 1.4426950408889634


def attended(q, k, v, seen, high, total, acc, scale):
    s = ct.mma(q, ct.transpose(k), ct.zeros((q.shape[0], k.shape[0]), ct.float32)) * (scale * LOG2E)
    s = ct.where(seen, s, -1.0e30)
    new = ct.maximum(high, ct.max(s, 1, keepdims=True))
    p = ct.exp2(s - new)
    f = ct.exp2(high - new)
    return new, total * f + ct.sum(p, 1, keepdims=True), ct.mma(p.astype(v.dtype), v, acc * f)


@ct.kernel
def rest_keys(q, k, v, o, sums, scale, M: Const, N: Const, D: Const):
    """Attention: whole tiles of keys without a mask, then what is left."""
    i, h = ct.bid(0), ct.bid(1)
    n = k.shape[1]
    qt = ct.load(q, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
    high = ct.full((M, 1), -1.0e30, ct.float32)
    total = ct.zeros((M, 1), ct.float32)
    acc = ct.zeros((M, D), ct.float32)
    places = ct.arange(N, dtype=ct.int32).reshape((1, N))
    for j in range(n // N):
        kt = ct.load(k, (h, j, 0), (1, N, D)).reshape((N, D))
        vt = ct.load(v, (h, j, 0), (1, N, D)).reshape((N, D))
        high, total, acc = attended(qt, kt, vt, ct.full((1, N), True, ct.bool_), high, total, acc, scale)
    if n % N != 0:
        kt = ct.load(k, (h, n // N, 0), (1, N, D), padding_mode=ZERO).reshape((N, D))
        vt = ct.load(v, (h, n // N, 0), (1, N, D), padding_mode=ZERO).reshape((N, D))
        high, total, acc = attended(qt, kt, vt, n // N * N + places < n, high, total, acc, scale)
    ct.store(o, (h, i, 0), (acc / total).astype(o.dtype).reshape((1, M, D)))
    ct.store(sums, (h, i), (high + ct.log2(total)).reshape((1, M)))


@ct.kernel
def rest_of_k(a, b, c, M: Const, N: Const, K: Const):
    """A product: whole tiles of K, then what is left."""
    i, j = ct.bid(0), ct.bid(1)
    deep = a.shape[1]
    acc = ct.zeros((M, N), ct.float32)
    for k in range(deep // K):
        acc = ct.mma(ct.load(a, (i, k), (M, K)), ct.load(b, (k, j), (K, N)), acc)
    if deep % K > 0:
        at = ct.load(a, (i, deep // K), (M, K), padding_mode=ZERO)
        bt = ct.load(b, (deep // K, j), (K, N), padding_mode=ZERO)
        acc = ct.mma(at, bt, acc)
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def rest_in_turn(a, b, c, M: Const, N: Const, K: Const):
    """The same by blocks that take tile after tile; the branch is the one without work."""
    deep, broad = a.shape[1], ct.cdiv(b.shape[0], N)
    for tile in range(ct.bid(0), ct.cdiv(a.shape[0], M) * broad, ct.num_blocks(0)):
        i, j = tile // broad, tile % broad
        acc = ct.zeros((M, N), ct.float32)
        for k in range(deep // K):
            acc = ct.mma(ct.load(a, (i, k), (M, K)), ct.transpose(ct.load(b, (j, k), (N, K))), acc)
        if deep % K == 0:
            pass
        else:
            at = ct.load(a, (i, deep // K), (M, K), padding_mode=ZERO)
            bt = ct.load(b, (j, deep // K), (N, K), padding_mode=ZERO)
            acc = ct.mma(at, ct.transpose(bt), acc)
        ct.store(c, (i, j), acc.astype(c.dtype))
