"""Attention beside what algorithms.py and training.py have: the gradient of Q, pages of keys, a bias, a latent."""

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


@ct.kernel
def paged_attention(q, kc, vc, table, lengths, o, scale, M: Const, N: Const, D: Const):
    """One token of M heads that share keys; pages of N keys lie where the table says."""
    b = ct.bid(0)
    qt = ct.load(q, (b, 0, 0), (1, M, D)).reshape((M, D))
    top = ct.full((M, 1), -1.0e30, ct.float32)
    total = ct.zeros((M, 1), ct.float32)
    acc = ct.zeros((M, D), ct.float32)
    n = ct.gather(lengths, b)
    columns = ct.arange(N, dtype=ct.int32).reshape((1, N))
    for j in range(ct.cdiv(n, N)):
        page = ct.gather(table, (b, j))
        kt = ct.load(kc, (page, 0, 0), (1, N, D), padding_mode=ZERO).reshape((N, D))
        s = ct.mma(qt, ct.transpose(kt), ct.zeros((M, N), ct.float32)) * scale
        s = ct.where(j * N + columns < n, s, -1.0e30)
        new = ct.maximum(top, ct.max(s, 1, keepdims=True))
        p = ct.exp(s - new)
        fix = ct.exp(top - new)
        total = total * fix + ct.sum(p, 1, keepdims=True)
        vt = ct.load(vc, (page, 0, 0), (1, N, D), padding_mode=ZERO).reshape((N, D))
        acc = ct.mma(p.astype(vc.dtype), vt, acc * fix)
        top = new
    ct.store(o, (b, 0, 0), (acc / total).reshape((1, M, D)))


@ct.kernel
def biased_attention(q, k, v, bias, o, scale, M: Const, N: Const, D: Const):
    """What is added to the scores comes by a load whose padding is not zero."""
    i = ct.bid(0)
    qt = ct.load(q, (i, 0), (M, D), padding_mode=ZERO)
    top = ct.full((M, 1), -1.0e30, ct.float32)
    total = ct.zeros((M, 1), ct.float32)
    acc = ct.zeros((M, D), ct.float32)
    for j in range(ct.cdiv(k.shape[0], N)):
        kt = ct.load(k, (j, 0), (N, D), padding_mode=ZERO)
        s = ct.mma(qt, ct.transpose(kt), ct.zeros((M, N), ct.float32)) * scale
        s = s + ct.load(bias, (i, j), (M, N), padding_mode=ct.PaddingMode.NEG_INF).astype(ct.float32)
        new = ct.maximum(top, ct.max(s, 1, keepdims=True))
        p = ct.exp(s - new)
        fix = ct.exp(top - new)
        total = total * fix + ct.sum(p, 1, keepdims=True)
        vt = ct.load(v, (j, 0), (N, D), padding_mode=ZERO)
        acc = ct.mma(p.astype(v.dtype), vt, acc * fix)
        top = new
    ct.store(o, (i, 0), (acc / total).astype(o.dtype))


@ct.kernel
def latent_attention(q, qr, c, cr, o, scale, M: Const, N: Const, D: Const, R: Const):
    """M heads of a token over a latent of width D that is keys and values, with R columns of positions besides."""
    b = ct.bid(0)
    qt = ct.load(q, (b, 0, 0), (1, M, D)).reshape((M, D))
    qp = ct.load(qr, (b, 0, 0), (1, M, R)).reshape((M, R))
    top = ct.full((M, 1), -1.0e30, ct.float32)
    total = ct.zeros((M, 1), ct.float32)
    acc = ct.zeros((M, D), ct.float32)
    columns = ct.arange(N, dtype=ct.int32).reshape((1, N))
    for j in range(ct.cdiv(c.shape[1], N)):
        ck = ct.load(c, (b, j, 0), (1, N, D), padding_mode=ZERO).reshape((N, D))
        cp = ct.load(cr, (b, j, 0), (1, N, R), padding_mode=ZERO).reshape((N, R))
        s = ct.mma(qt, ct.transpose(ck), ct.zeros((M, N), ct.float32))
        s = ct.mma(qp, ct.transpose(cp), s) * scale
        s = ct.where(j * N + columns < c.shape[1], s, -1.0e30)
        new = ct.maximum(top, ct.max(s, 1, keepdims=True))
        p = ct.exp(s - new)
        fix = ct.exp(top - new)
        total = total * fix + ct.sum(p, 1, keepdims=True)
        acc = ct.mma(p.astype(c.dtype), ck, acc * fix)
        top = new
    ct.store(o, (b, 0, 0), (acc / total).reshape((1, M, D)))


@ct.kernel
def documents_attention(q, k, v, doc, o, scale, M: Const, N: Const, D: Const):
    """Tokens see tokens of their own document."""
    i = ct.bid(0)
    qt = ct.load(q, (i, 0), (M, D), padding_mode=ZERO)
    mine = ct.load(doc, (i,), (M,), padding_mode=ZERO).reshape((M, 1))
    top = ct.full((M, 1), -1.0e30, ct.float32)
    total = ct.zeros((M, 1), ct.float32)
    acc = ct.zeros((M, D), ct.float32)
    for j in range(ct.cdiv(k.shape[0], N)):
        kt = ct.load(k, (j, 0), (N, D), padding_mode=ZERO)
        s = ct.mma(qt, ct.transpose(kt), ct.zeros((M, N), ct.float32)) * scale
        s = ct.where(ct.load(doc, (j,), (N,), padding_mode=ZERO).reshape((1, N)) == mine, s, -1.0e30)
        new = ct.maximum(top, ct.max(s, 1, keepdims=True))
        p = ct.exp(s - new)
        fix = ct.exp(top - new)
        total = total * fix + ct.sum(p, 1, keepdims=True)
        vt = ct.load(v, (j, 0), (N, D), padding_mode=ZERO)
        acc = ct.mma(p.astype(v.dtype), vt, acc * fix)
        top = new
    ct.store(o, (i, 0), (acc / total).astype(o.dtype))


@ct.kernel
def flash_bwd_fused(
    q, k, v, do, lse, delta, dq, dk, dv, scale, TM: Const, TN: Const, D: Const, RELAXED: Const
):
    """All gradients of causal attention in one pass, one tile of keys per block; dQ by atomics, acq_rel by default: every step's
    loads stand behind the atomics of the step before."""
    j, h = ct.bid(0), ct.bid(1)
    n = q.shape[1]
    kt = ct.load(k, (h, j, 0), (1, TN, D), padding_mode=ZERO).reshape((TN, D))
    vt = ct.load(v, (h, j, 0), (1, TN, D), padding_mode=ZERO).reshape((TN, D))
    gk = ct.zeros((TN, D), ct.float32)
    gv = ct.zeros((TN, D), ct.float32)
    cols = j * TN + ct.arange(TN, dtype=ct.int32)[None, :]
    dims = ct.arange(D, dtype=ct.int32)[None, :]
    for i in range((j * TN) // TM, ct.cdiv(n, TM)):
        qt = ct.load(q, (h, i, 0), (1, TM, D), padding_mode=ZERO).reshape((TM, D))
        gt = ct.load(do, (h, i, 0), (1, TM, D), padding_mode=ZERO).reshape((TM, D))
        l = ct.load(lse, (h, i), (1, TM), padding_mode=ZERO).reshape((TM, 1))
        dl = ct.load(delta, (h, i), (1, TM), padding_mode=ZERO).reshape((TM, 1))
        rows = i * TM + ct.arange(TM, dtype=ct.int32)[:, None]
        s = ct.mma(qt, ct.transpose(kt), ct.zeros((TM, TN), ct.float32)) * scale
        p = ct.where((cols <= rows) & (cols < n), ct.exp(s - l), 0.0)
        gv = ct.mma(ct.transpose(p.astype(do.dtype)), gt, gv)
        dp = ct.mma(gt, ct.transpose(vt), ct.zeros((TM, TN), ct.float32))
        ds = (p * (dp - dl) * scale).astype(q.dtype)
        gk = ct.mma(ct.transpose(ds), qt, gk)
        g = ct.mma(ds, kt, ct.zeros((TM, D), ct.float32))
        if RELAXED:
            ct.atomic_add(dq, (h, rows, dims), g, memory_order=ct.MemoryOrder.RELAXED)
        else:
            ct.atomic_add(dq, (h, rows, dims), g)
    ct.store(dk, (h, j, 0), gk.reshape((1, TN, D)))
    ct.store(dv, (h, j, 0), gv.reshape((1, TN, D)))


@ct.kernel
def packed_attention(q, k, v, starts, o, scale, M: Const, N: Const, D: Const):
    """Sequences one behind the other, rows by number; a token sees itself and those before it."""
    i, b = ct.bid(0), ct.bid(1)
    start = ct.gather(starts, b)
    n = ct.gather(starts, b + 1) - start
    lanes = ct.arange(D, dtype=ct.int32)
    rows = i * M + ct.arange(M, dtype=ct.int32)
    mine = (rows < n)[:, None]
    qt = ct.gather(q, ((start + rows)[:, None], lanes[None, :]), mask=mine, padding_value=0)
    top = ct.full((M, 1), -1.0e30, ct.float32)
    total = ct.zeros((M, 1), ct.float32)
    acc = ct.zeros((M, D), ct.float32)
    for j in range(ct.cdiv(ct.minimum((i + 1) * M, n), N)):
        keys = j * N + ct.arange(N, dtype=ct.int32)
        there = (keys < n)[:, None]
        kt = ct.gather(k, ((start + keys)[:, None], lanes[None, :]), mask=there, padding_value=0)
        s = ct.mma(qt, ct.transpose(kt), ct.zeros((M, N), ct.float32)) * scale
        s = ct.where((keys[None, :] <= rows[:, None]) & (keys < n)[None, :], s, -1.0e30)
        new = ct.maximum(top, ct.max(s, 1, keepdims=True))
        p = ct.exp(s - new)
        fix = ct.exp(top - new)
        total = total * fix + ct.sum(p, 1, keepdims=True)
        vt = ct.gather(v, ((start + keys)[:, None], lanes[None, :]), mask=there, padding_value=0)
        acc = ct.mma(p.astype(v.dtype), vt, acc * fix)
        top = new
    ct.scatter(o, ((start + rows)[:, None], lanes[None, :]), (acc / total).astype(o.dtype), mask=mine)


@ct.kernel
def kept_sums(q, k, v, o, lse, scale, M: Const, N: Const, D: Const):
    """[batch, place, head, D]; what the rows were divided by is kept, as a backward pass wants it."""
    i, h, b = ct.bid(0), ct.bid(1), ct.bid(2)
    length = k.shape[1]
    qt = ct.load(q, (b, i, h, 0), (1, M, 1, D), padding_mode=ZERO).reshape((M, D))
    top = ct.full((M,), -1.0e30, ct.float32)
    total = ct.zeros((M,), ct.float32)
    acc = ct.zeros((M, D), ct.float32)
    for j in range(ct.cdiv(length, N)):
        kt = ct.load(k, (b, j, h, 0), (1, N, 1, D), padding_mode=ZERO).reshape((N, D))
        s = ct.mma(qt, ct.transpose(kt), ct.zeros((M, N), ct.float32)) * (scale * 1.4426950408889634)
        s = ct.where((j * N + ct.arange(N, dtype=ct.int32))[None, :] < length, s, -1.0e30)
        new = ct.maximum(top, ct.max(s, 1))
        p = ct.exp2(s - new[:, None])
        fix = ct.exp2(top - new)
        total = total * fix + ct.sum(p, 1)
        vt = ct.load(v, (b, j, h, 0), (1, N, 1, D), padding_mode=ZERO).reshape((N, D))
        acc = ct.mma(p.astype(v.dtype), vt, acc * fix[:, None])
        top = new
    ct.store(o, (b, i, h, 0), (acc / total[:, None]).astype(o.dtype).reshape((1, M, 1, D)))
    ct.store(lse, (b, h, i), (top + ct.log2(total)).reshape((1, 1, M)))
