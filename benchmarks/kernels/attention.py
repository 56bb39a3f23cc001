"""Attention of production size, forward, with a running maximum; K and V may serve GROUP heads each."""

import cuda.tile as ct

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO
LOG2E = 1.4426950408889634


@ct.kernel
def forward(q, k, v, o, scale, M: Const, N: Const, D: Const, CAUSAL: Const, GROUP: Const):
    """One block a row tile of one head. Masks only where a tile of keys can need one."""
    i, h = ct.bid(0), ct.bid(1)
    length = k.shape[1]
    qt = ct.load(q, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
    top = ct.full((M, 1), -1.0e30, ct.float32)
    total = ct.zeros((M, 1), ct.float32)
    acc = ct.zeros((M, D), ct.float32)
    rows = i * M + ct.arange(M, dtype=ct.int32).reshape((M, 1))
    columns = ct.arange(N, dtype=ct.int32).reshape((1, N))
    end = ct.cdiv(length, N)
    unmasked = length // N
    if CAUSAL:
        end = ct.minimum(end, ct.cdiv((i + 1) * M, N))
        unmasked = ct.minimum(unmasked, i * M // N)
    for j in range(end):
        kt = ct.load(k, (h // GROUP, 0, j), (1, D, N), order=(0, 2, 1), padding_mode=ZERO).reshape((D, N))
        s = ct.mma(qt, kt, ct.zeros((M, N), ct.float32))
        if j >= unmasked:
            at = j * N + columns
            ok = at < length
            if CAUSAL:
                ok = ok & (at <= rows)
            s = ct.where(ok, s, -1.0e30)
        new = ct.maximum(top, ct.max(s, 1, keepdims=True) * (scale * LOG2E))
        p = ct.exp2(s * (scale * LOG2E) - new)
        fix = ct.exp2(top - new)
        total = total * fix + ct.sum(p, 1, keepdims=True)
        vt = ct.load(v, (h // GROUP, j, 0), (1, N, D), padding_mode=ZERO).reshape((N, D))
        acc = ct.mma(p.astype(v.dtype), vt, acc * fix)
        top = new
    ct.store(o, (h, i, 0), (acc / total).astype(o.dtype).reshape((1, M, D)))


@ct.kernel
def backward_keys(q, k, v, do, lse, delta, dk, dv, scale, M: Const, N: Const, D: Const):
    """Gradients of K and V of causal attention, one tile of keys a block."""
    j, h = ct.bid(0), ct.bid(1)
    kt = ct.load(k, (h, j, 0), (1, N, D), padding_mode=ZERO).reshape((N, D))
    vt = ct.load(v, (h, j, 0), (1, N, D), padding_mode=ZERO).reshape((N, D))
    gk = ct.zeros((N, D), ct.float32)
    gv = ct.zeros((N, D), ct.float32)
    columns = j * N + ct.arange(N, dtype=ct.int32).reshape((1, N))
    for i in range((j * N) // M, ct.cdiv(q.shape[1], M)):
        qt = ct.load(q, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
        gt = ct.load(do, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
        rows = i * M + ct.arange(M, dtype=ct.int32).reshape((M, 1))
        s = ct.mma(qt, ct.transpose(kt), ct.zeros((M, N), ct.float32)) * (scale * LOG2E)
        l = ct.load(lse, (h, i), (1, M)).reshape((M, 1)) * LOG2E
        p = ct.where(columns <= rows, ct.exp2(s - l), 0.0)
        gv = ct.mma(ct.transpose(p.astype(do.dtype)), gt, gv)
        dp = ct.mma(gt, ct.transpose(vt), ct.zeros((M, N), ct.float32))
        ds = p * (dp - ct.load(delta, (h, i), (1, M)).reshape((M, 1)))
        gk = ct.mma(ct.transpose(ds.astype(q.dtype)), qt, gk)
    ct.store(dk, (h, j, 0), (gk * scale).astype(dk.dtype).reshape((1, N, D)))
    ct.store(dv, (h, j, 0), gv.astype(dv.dtype).reshape((1, N, D)))


@ct.kernel
def backward_fused(
    q, k, v, do, lse, delta, dq, dk, dv, scale, M: Const, N: Const, D: Const, RELAXED: Const, GROUP: Const
):
    """All gradients of causal attention in one pass, dQ by atomics: acq_rel, which is cuTile's default, or relaxed."""
    j, h = ct.bid(0), ct.bid(1)
    kt = ct.load(k, (h // GROUP, j, 0), (1, N, D), padding_mode=ZERO).reshape((N, D))
    vt = ct.load(v, (h // GROUP, j, 0), (1, N, D), padding_mode=ZERO).reshape((N, D))
    gk = ct.zeros((N, D), ct.float32)
    gv = ct.zeros((N, D), ct.float32)
    columns = j * N + ct.arange(N, dtype=ct.int32).reshape((1, N))
    dims = ct.arange(D, dtype=ct.int32).reshape((1, D))
    for i in range((j * N) // M, ct.cdiv(q.shape[1], M)):
        qt = ct.load(q, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
        gt = ct.load(do, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
        rows = i * M + ct.arange(M, dtype=ct.int32).reshape((M, 1))
        s = ct.mma(qt, ct.transpose(kt), ct.zeros((M, N), ct.float32)) * (scale * LOG2E)
        l = ct.load(lse, (h, i), (1, M)).reshape((M, 1)) * LOG2E
        p = ct.where(columns <= rows, ct.exp2(s - l), 0.0)
        gv = ct.mma(ct.transpose(p.astype(do.dtype)), gt, gv)
        dp = ct.mma(gt, ct.transpose(vt), ct.zeros((M, N), ct.float32))
        ds = (p * (dp - ct.load(delta, (h, i), (1, M)).reshape((M, 1))) * scale).astype(q.dtype)
        gk = ct.mma(ct.transpose(ds), qt, gk)
        g = ct.mma(ds, kt, ct.zeros((M, D), ct.float32))
        if RELAXED:
            ct.atomic_add(dq, (h, rows, dims), g, memory_order=ct.MemoryOrder.RELAXED)
        else:
            ct.atomic_add(dq, (h, rows, dims), g)
    ct.store(dk, (h, j, 0), gk.astype(dk.dtype).reshape((1, N, D)))
    ct.store(dv, (h, j, 0), gv.astype(dv.dtype).reshape((1, N, D)))


@ct.kernel
def decoding(q, k, v, o, lse, scale, M: Const, N: Const, D: Const, S: Const):
    """One token of M heads that share keys; S tiles of keys a block."""
    g, s, b = ct.bid(0), ct.bid(1), ct.bid(2)
    qt = ct.load(q, (b, g, 0, 0), (1, 1, M, D)).reshape((M, D))
    m_i = ct.full((M, 1), -1.0e30, ct.float32)
    l_i = ct.zeros((M, 1), ct.float32)
    acc = ct.zeros((M, D), ct.float32)
    for j in range(s * S, (s + 1) * S):
        kt = ct.load(k, (b, g, j, 0), (1, 1, N, D), padding_mode=ZERO).reshape((N, D))
        qk = ct.mma(qt, ct.transpose(kt), ct.zeros((M, N), ct.float32)) * (scale * LOG2E)
        new = ct.maximum(m_i, ct.max(qk, 1, keepdims=True))
        p = ct.exp2(qk - new)
        al = ct.exp2(m_i - new)
        l_i = l_i * al + ct.sum(p, 1, keepdims=True)
        vt = ct.load(v, (b, g, j, 0), (1, 1, N, D), padding_mode=ZERO).reshape((N, D))
        acc = ct.mma(p.astype(v.dtype), vt, acc * al)
        m_i = new
    ct.store(o, (b, g, s, 0, 0), (acc / l_i).reshape((1, 1, 1, M, D)))
    ct.store(lse, (b, g, s, 0), (m_i + ct.log2(l_i)).reshape((1, 1, 1, M)))


@ct.kernel
def backward_queries(q, k, v, do, lse, delta, dq, scale, M: Const, N: Const, D: Const):
    """Gradient of Q, one tile of queries a block."""
    i, h = ct.bid(0), ct.bid(1)
    qt = ct.load(q, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
    gt = ct.load(do, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
    l = ct.load(lse, (h, i), (1, M)).reshape((M, 1)) * LOG2E
    de = ct.load(delta, (h, i), (1, M)).reshape((M, 1))
    acc = ct.zeros((M, D), ct.float32)
    for j in range(ct.cdiv(k.shape[1], N)):
        kt = ct.load(k, (h, j, 0), (1, N, D), padding_mode=ZERO).reshape((N, D))
        vt = ct.load(v, (h, j, 0), (1, N, D), padding_mode=ZERO).reshape((N, D))
        s = ct.mma(qt, ct.transpose(kt), ct.zeros((M, N), ct.float32)) * (scale * LOG2E)
        p = ct.exp2(s - l)
        dp = ct.mma(gt, ct.transpose(vt), ct.zeros((M, N), ct.float32))
        ds = (p * (dp - de)).astype(q.dtype)
        acc = ct.mma(ds, kt, acc)
    ct.store(dq, (h, i, 0), (acc * scale).astype(dq.dtype).reshape((1, M, D)))


@ct.kernel
def linear(q, k, v, o, M: Const, D: Const):
    """Chunks of linear attention: a matrix of state is carried."""
    h = ct.bid(0)
    state = ct.zeros((D, D), ct.float32)
    rows = ct.arange(M, dtype=ct.int32)[:, None]
    cols = ct.arange(M, dtype=ct.int32)[None, :]
    for i in range(ct.cdiv(q.shape[1], M)):
        qt = ct.load(q, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
        kt = ct.load(k, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
        vt = ct.load(v, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
        s = ct.mma(qt, ct.transpose(kt), ct.zeros((M, M), ct.float32))
        s = ct.where(rows >= cols, s, 0.0).astype(v.dtype)
        out = ct.mma(s, vt, ct.mma(qt, state.astype(q.dtype), ct.zeros((M, D), ct.float32)))
        ct.store(o, (h, i, 0), out.astype(o.dtype).reshape((1, M, D)))
        state = ct.mma(ct.transpose(kt), vt, state)


@ct.kernel
def biased(q, k, v, bias, o, scale, M: Const, N: Const, D: Const):
    """An array is added to the scores."""
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


@ct.kernel
def latent(q, qr, c, cr, o, lse, scale, M: Const, N: Const, D: Const, R: Const, S: Const):
    """Decoding over a latent of width D that is keys and values, with R columns of positions; S tiles of keys a block."""
    b, s0 = ct.bid(0), ct.bid(1)
    qt = ct.load(q, (b, 0, 0), (1, M, D)).reshape((M, D))
    qp = ct.load(qr, (b, 0, 0), (1, M, R)).reshape((M, R))
    top = ct.full((M, 1), -1.0e30, ct.float32)
    total = ct.zeros((M, 1), ct.float32)
    acc = ct.zeros((M, D), ct.float32)
    columns = ct.arange(N, dtype=ct.int32).reshape((1, N))
    for j in range(s0 * S, ct.minimum((s0 + 1) * S, ct.cdiv(c.shape[1], N))):
        ck = ct.load(c, (b, j, 0), (1, N, D), padding_mode=ZERO).reshape((N, D))
        cp = ct.load(cr, (b, j, 0), (1, N, R), padding_mode=ZERO).reshape((N, R))
        s = ct.mma(qt, ct.transpose(ck), ct.zeros((M, N), ct.float32))
        s = ct.mma(qp, ct.transpose(cp), s) * (scale * LOG2E)
        s = ct.where(j * N + columns < c.shape[1], s, -1.0e30)
        new = ct.maximum(top, ct.max(s, 1, keepdims=True))
        p = ct.exp2(s - new)
        fix = ct.exp2(top - new)
        total = total * fix + ct.sum(p, 1, keepdims=True)
        acc = ct.mma(p.astype(c.dtype), ck, acc * fix)
        top = new
    ct.store(o, (b, s0, 0, 0), (acc / total).reshape((1, 1, M, D)))
    ct.store(lse, (b, s0, 0), (top + ct.log2(total)).reshape((1, 1, M)))


@ct.kernel
def persistent(q, k, v, o, scale, M: Const, N: Const, D: Const, HEADS: Const):
    """As many blocks as fit take blocks of queries in turn."""
    tall = ct.cdiv(q.shape[1], M)
    for w in range(ct.bid(0), tall * HEADS, ct.num_blocks(0)):
        h, i = w // tall, w % tall
        qt = ct.load(q, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
        top = ct.full((M, 1), -1e30, ct.float32)
        total = ct.zeros((M, 1), ct.float32)
        acc = ct.zeros((M, D), ct.float32)
        for t in range(ct.cdiv(k.shape[1], N)):
            kt = ct.load(k, (h, t, 0), (1, N, D), padding_mode=ZERO).reshape((N, D))
            s = ct.mma(qt, ct.transpose(kt), ct.zeros((M, N), ct.float32)) * scale
            new = ct.maximum(top, ct.max(s, 1, keepdims=True))
            p = ct.exp2(s - new)
            fix = ct.exp2(top - new)
            total = total * fix + ct.sum(p, 1, keepdims=True)
            vt = ct.load(v, (h, t, 0), (1, N, D), padding_mode=ZERO).reshape((N, D))
            acc = ct.mma(p.astype(v.dtype), vt, acc * fix)
            top = new
        ct.store(o, (h, i, 0), (acc / total).astype(o.dtype).reshape((1, M, D)))


@ct.kernel
def packed(q, k, v, starts, o, scale, M: Const, N: Const, D: Const):
    """Sequences of any length one behind the other, read by rows' numbers; causal."""
    i, h, b = ct.bid(0), ct.bid(1), ct.bid(2)
    start = ct.gather(starts, b)
    n = ct.gather(starts, b + 1) - start
    lanes = ct.arange(D, dtype=ct.int32)
    rows = i * M + ct.arange(M, dtype=ct.int32)
    mine = (rows < n)[:, None]
    qt = ct.gather(q, ((start + rows)[:, None], h, lanes[None, :]), mask=mine, padding_value=0)
    top = ct.full((M, 1), -1e30, ct.float32)
    total = ct.zeros((M, 1), ct.float32)
    acc = ct.zeros((M, D), ct.float32)
    for t in range(ct.cdiv(ct.minimum((i + 1) * M, n), N)):
        keys = t * N + ct.arange(N, dtype=ct.int32)
        there = (keys < n)[:, None]
        kt = ct.gather(k, ((start + keys)[:, None], h, lanes[None, :]), mask=there, padding_value=0)
        s = ct.mma(qt, ct.transpose(kt), ct.zeros((M, N), ct.float32)) * scale
        s = ct.where((keys[None, :] <= rows[:, None]) & (keys < n)[None, :], s, -1e30)
        new = ct.maximum(top, ct.max(s, 1, keepdims=True))
        p = ct.exp2(s - new)
        fix = ct.exp2(top - new)
        total = total * fix + ct.sum(p, 1, keepdims=True)
        vt = ct.gather(v, ((start + keys)[:, None], h, lanes[None, :]), mask=there, padding_value=0)
        acc = ct.mma(p.astype(v.dtype), vt, acc * fix)
        top = new
    ct.scatter(o, ((start + rows)[:, None], h, lanes[None, :]), (acc / total).astype(o.dtype), mask=mine)
