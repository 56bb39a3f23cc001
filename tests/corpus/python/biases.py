"""Attention beside a bias that ends in front of the keys: behind its end there is nothing to look at."""

import cuda.tile as ct

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def ending_bias(q, k, v, bias, o, scale, M: Const, N: Const, D: Const):
    """What pads the bias is minus infinity."""
    i, h = ct.bid(0), ct.bid(1)
    qt = ct.load(q, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
    top = ct.full((M, 1), -1.0e30, ct.float32)
    total = ct.zeros((M, 1), ct.float32)
    acc = ct.zeros((M, D), ct.float32)
    for j in range(ct.cdiv(k.shape[1], N)):
        kt = ct.load(k, (h, j, 0), (1, N, D), padding_mode=ZERO).reshape((N, D))
        s = ct.mma(qt, ct.transpose(kt), ct.zeros((M, N), ct.float32)) * scale
        b = ct.load(bias, (h, i, j), (1, M, N), padding_mode=ct.PaddingMode.NEG_INF).reshape((M, N))
        s = s + b.astype(ct.float32)
        new = ct.maximum(top, ct.max(s, 1, keepdims=True))
        p = ct.exp(s - new)
        fix = ct.exp(top - new)
        total = total * fix + ct.sum(p, 1, keepdims=True)
        vt = ct.load(v, (h, j, 0), (1, N, D), padding_mode=ZERO).reshape((N, D))
        acc = ct.mma(p.astype(v.dtype), vt, acc * fix)
        top = new
    ct.store(o, (h, i, 0), (acc / total).astype(o.dtype).reshape((1, M, D)))
