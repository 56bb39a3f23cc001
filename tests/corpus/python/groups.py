"""Heads of queries that share keys and values, one after the other in a loop around the one that multiplies."""

import cuda.tile as ct

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def keys_of_groups(q, k, v, do, lse, delta, dk, dv, scale, M: Const, N: Const, D: Const, G: Const):
    """Gradients of keys and values, scores transposed."""
    j, h = ct.bid(0), ct.bid(1)
    kt = ct.load(k, (h, j, 0), (1, N, D), padding_mode=ZERO).reshape((N, D))
    vt = ct.load(v, (h, j, 0), (1, N, D), padding_mode=ZERO).reshape((N, D))
    gk = ct.zeros((N, D), ct.float32)
    gv = ct.zeros((N, D), ct.float32)
    for g in range(G):
        for i in range(ct.cdiv(q.shape[1], M)):
            qt = ct.load(q, (h * G + g, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
            gt = ct.load(do, (h * G + g, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
            l = ct.load(lse, (h * G + g, i), (1, M), padding_mode=ZERO)
            d = ct.load(delta, (h * G + g, i), (1, M), padding_mode=ZERO)
            p = ct.exp(ct.mma(kt, ct.transpose(qt), ct.zeros((N, M), ct.float32)) * scale - l)
            gv = ct.mma(p.astype(do.dtype), gt, gv)
            dp = ct.mma(vt, ct.transpose(gt), ct.zeros((N, M), ct.float32))
            gk = ct.mma((p * (dp - d)).astype(q.dtype), qt, gk)
    ct.store(dk, (h, j, 0), (gk * scale).reshape((1, N, D)))
    ct.store(dv, (h, j, 0), gv.reshape((1, N, D)))
