"""Gradients that stand beside those of training.py."""

import cuda.tile as ct

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def flash_bwd_dq(q, k, v, do, lse, delta, dq, scale, TM: Const, TN: Const, D: Const):
    """Gradient of Q of causal attention, one query tile per block."""
    i, h = ct.bid(0), ct.bid(1)
    n = k.shape[1]
    qt = ct.load(q, (h, i, 0), (1, TM, D), padding_mode=ZERO).reshape((TM, D))
    gt = ct.load(do, (h, i, 0), (1, TM, D), padding_mode=ZERO).reshape((TM, D))
    l = ct.load(lse, (h, i), (1, TM), padding_mode=ZERO).reshape((TM, 1))
    dl = ct.load(delta, (h, i), (1, TM), padding_mode=ZERO).reshape((TM, 1))
    rows = i * TM + ct.arange(TM, dtype=ct.int32).reshape((TM, 1))
    acc = ct.zeros((TM, D), ct.float32)
    for j in range(ct.minimum(ct.cdiv(n, TN), ct.cdiv((i + 1) * TM, TN))):
        kt = ct.load(k, (h, j, 0), (1, TN, D), padding_mode=ZERO).reshape((TN, D))
        vt = ct.load(v, (h, j, 0), (1, TN, D), padding_mode=ZERO).reshape((TN, D))
        s = ct.mma(qt, ct.transpose(kt), ct.zeros((TM, TN), ct.float32)) * scale
        cols = j * TN + ct.arange(TN, dtype=ct.int32).reshape((1, TN))
        p = ct.where((cols <= rows) & (cols < n), ct.exp(s - l), 0.0)
        dp = ct.mma(gt, ct.transpose(vt), ct.zeros((TM, TN), ct.float32))
        acc = ct.mma((p * (dp - dl) * scale).astype(q.dtype), kt, acc)
    ct.store(dq, (h, i, 0), acc.reshape((1, TM, D)))
