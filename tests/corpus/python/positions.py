"""Attention whose loop makes keys of several loads: turned by their positions, in two halves with a product each."""

import cuda.tile as ct

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def turned_keys(q, k, v, cos, sin, o, scale, M: Const, N: Const, D: Const):
    """Queries are turned already."""
    i, h = ct.bid(0), ct.bid(1)
    half = D // 2
    n = k.shape[1]
    low = ct.load(q, (h, i, 0), (1, M, half), padding_mode=ZERO).reshape((M, half))
    high = ct.load(q, (h, i, 1), (1, M, half), padding_mode=ZERO).reshape((M, half))
    top = ct.full((M, 1), -1.0e30, ct.float32)
    total = ct.zeros((M, 1), ct.float32)
    acc = ct.zeros((M, D), ct.float32)
    for j in range(ct.cdiv(n, N)):
        x = ct.load(k, (h, j, 0), (1, N, half), padding_mode=ZERO).reshape((N, half)).astype(ct.float32)
        y = ct.load(k, (h, j, 1), (1, N, half), padding_mode=ZERO).reshape((N, half)).astype(ct.float32)
        c = ct.load(cos, (j, 0), (N, half), padding_mode=ZERO)
        d = ct.load(sin, (j, 0), (N, half), padding_mode=ZERO)
        s = ct.mma(low, ct.transpose((x * c - y * d).astype(q.dtype)), ct.zeros((M, N), ct.float32))
        s = ct.mma(high, ct.transpose((y * c + x * d).astype(q.dtype)), s) * scale
        s = ct.where((j * N + ct.arange(N, dtype=ct.int32))[None, :] < n, s, -1.0e30)
        new = ct.maximum(top, ct.max(s, 1, keepdims=True))
        p = ct.exp(s - new)
        fix = ct.exp(top - new)
        total = total * fix + ct.sum(p, 1, keepdims=True)
        vt = ct.load(v, (h, j, 0), (1, N, D), padding_mode=ZERO).reshape((N, D))
        acc = ct.mma(p.astype(v.dtype), vt, acc * fix)
        top = new
    ct.store(o, (h, i, 0), (acc / total).astype(o.dtype).reshape((1, M, D)))
