"""Products that feed each other in one loop, with more sums than columns of tensor memory, or sums that fade and are read."""

import cuda.tile as ct

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO
LOG2E = 1.4426950408889634


@ct.kernel
def faded_state(c, b, x, decay, y, M: Const, S: Const, D: Const):
    """Chunks of M tokens; a state of S x D is read, faded and added to. decay: sums of logarithms within each chunk."""
    h = ct.bid(0)
    state = ct.zeros((S, D), ct.float32)
    rows = ct.arange(M, dtype=ct.int32)[:, None]
    columns = ct.arange(M, dtype=ct.int32)[None, :]
    for i in range(ct.cdiv(x.shape[1], M)):
        cc = ct.load(c, (h, i, 0), (1, M, S), padding_mode=ZERO).reshape((M, S))
        bb = ct.load(b, (h, i, 0), (1, M, S), padding_mode=ZERO).reshape((M, S))
        xx = ct.load(x, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
        a = ct.load(decay, (h, i), (1, M), padding_mode=ZERO)
        down = a.reshape((M, 1))
        last = ct.min(a)
        s = ct.mma(cc, ct.transpose(bb), ct.zeros((M, M), ct.float32))
        s = ct.where(rows >= columns, s * ct.exp(ct.where(rows >= columns, down - a, 0.0)), 0.0)
        out = ct.mma(s.astype(x.dtype), xx, ct.zeros((M, D), ct.float32))
        out += ct.mma(cc, state.astype(x.dtype), ct.zeros((M, D), ct.float32)) * ct.exp(down)
        ct.store(y, (h, i, 0), out.astype(y.dtype).reshape((1, M, D)))
        w = (bb.astype(ct.float32) * ct.exp(last - down)).astype(x.dtype)
        state = ct.mma(ct.transpose(w), xx, state * ct.exp(last))


@ct.kernel
def latent(q, qr, c, cr, o, scale, M: Const, N: Const, D: Const, R: Const):
    """Attention over a latent of width D that is keys and values, with R columns of positions."""
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
        s = ct.mma(qp, ct.transpose(cp), s) * (scale * LOG2E)
        s = ct.where(j * N + columns < c.shape[1], s, -1.0e30)
        new = ct.maximum(top, ct.max(s, 1, keepdims=True))
        p = ct.exp2(s - new)
        fix = ct.exp2(top - new)
        total = total * fix + ct.sum(p, 1, keepdims=True)
        acc = ct.mma(p.astype(c.dtype), ck, acc * fix)
        top = new
    ct.store(o, (b, 0, 0), (acc / total).reshape((1, M, D)))


@ct.kernel
def latent_twice(q, qr, c, cr, o, scale, M: Const, N: Const, D: Const, R: Const):
    """The same beside a sink whose score is 0; the latent is loaded as keys, by columns, and again as values."""
    b, steps = ct.bid(0), ct.cdiv(c.shape[1], N)
    qt = ct.load(q, (b, 0, 0), (1, M, D)).reshape((M, D))
    qp = ct.load(qr, (b, 0, 0), (1, M, R)).reshape((M, R))
    top = ct.zeros((M, 1), ct.float32)
    total = ct.full((M, 1), 1.0, ct.float32)
    acc = ct.zeros((M, D), ct.float32)
    columns = ct.arange(N, dtype=ct.int32).reshape((1, N))
    for j in range(steps):
        keys = ct.load(c, (b, 0, j), (1, D, N), order=(0, 2, 1), padding_mode=ZERO, latency=2).reshape((D, N))
        places = ct.load(cr, (b, 0, j), (1, R, N), order=(0, 2, 1), padding_mode=ZERO).reshape((R, N))
        s = ct.mma(qp, places, ct.mma(qt, keys, ct.zeros((M, N), ct.float32))) * (scale * LOG2E)
        s = ct.where(j * N + columns < c.shape[1], s, -1.0e30)
        new = ct.maximum(top, ct.max(s, 1, keepdims=True))
        p = ct.exp2(s - new)
        fix = ct.exp2(top - new)
        total = total * fix + ct.sum(p, 1, keepdims=True)
        values = ct.load(c, (b, j, 0), (1, N, D), padding_mode=ZERO, latency=4).reshape((N, D))
        acc = ct.mma(p.astype(c.dtype), values, acc * fix)
        top = new
    ct.store(o, (b, 0, 0), (acc / total).reshape((1, M, D)))


@ct.kernel
def gated_state(q, k, v, g, o, M: Const, D: Const):
    """Chunks of gated linear attention: a gate a column of keys, g has sums of logarithms within each chunk."""
    h = ct.bid(0)
    state = ct.zeros((D, D), ct.float32)
    rows = ct.arange(M, dtype=ct.int32)[:, None]
    columns = ct.arange(M, dtype=ct.int32)[None, :]
    for i in range(ct.cdiv(q.shape[1], M)):
        qt = ct.load(q, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
        kt = ct.load(k, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
        vt = ct.load(v, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
        gt = ct.load(g, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
        last = ct.min(gt, 0, keepdims=True)
        qg = (qt.astype(ct.float32) * ct.exp(gt)).astype(q.dtype)
        kg = (kt.astype(ct.float32) * ct.exp(-gt)).astype(q.dtype)
        s = ct.mma(qg, ct.transpose(kg), ct.zeros((M, M), ct.float32))
        s = ct.where(rows >= columns, s, 0.0).astype(v.dtype)
        out = ct.mma(s, vt, ct.mma(qg, state.astype(q.dtype), ct.zeros((M, D), ct.float32)))
        ct.store(o, (h, i, 0), out.astype(o.dtype).reshape((1, M, D)))
        kd = (kt.astype(ct.float32) * ct.exp(last - gt)).astype(q.dtype)
        state = ct.mma(ct.transpose(kd), vt, state * ct.exp(ct.transpose(last)))


@ct.kernel
def retained(q, k, v, o, gamma, M: Const, D: Const):
    """Chunks of retention, one decay a head: the mask and the decays wait in registers while the loop runs."""
    h = ct.bid(0)
    state = ct.zeros((D, D), ct.float32)
    rows = ct.arange(M, dtype=ct.int32)[:, None]
    columns = ct.arange(M, dtype=ct.int32)[None, :]
    fade = ct.log(ct.gather(gamma, h))
    mask = ct.where(rows >= columns, ct.exp((rows - columns).astype(ct.float32) * fade), 0.0)
    into = ct.exp((rows + 1).astype(ct.float32) * fade)
    down = ct.exp((M - 1 - rows).astype(ct.float32) * fade)
    whole = ct.exp(fade * M)
    for i in range(ct.cdiv(q.shape[1], M)):
        qt = ct.load(q, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
        kt = ct.load(k, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
        vt = ct.load(v, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
        s = ct.mma(qt, ct.transpose(kt), ct.zeros((M, M), ct.float32)) * mask
        out = ct.mma(s.astype(v.dtype), vt, ct.zeros((M, D), ct.float32))
        out = out + ct.mma(qt, state.astype(q.dtype), ct.zeros((M, D), ct.float32)) * into
        ct.store(o, (h, i, 0), out.astype(o.dtype).reshape((1, M, D)))
        kd = (kt.astype(ct.float32) * down).astype(q.dtype)
        state = ct.mma(ct.transpose(kd), vt, state * whole)


@ct.kernel
def delta_rule(q, k, w, u, o, M: Const, D: Const):
    """Chunks of the delta rule, whose systems are solved: w and u are what the state is corrected by, and with."""
    h = ct.bid(0)
    state = ct.zeros((D, D), ct.float32)
    rows = ct.arange(M, dtype=ct.int32)[:, None]
    columns = ct.arange(M, dtype=ct.int32)[None, :]
    for i in range(ct.cdiv(q.shape[1], M)):
        qt = ct.load(q, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
        kt = ct.load(k, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
        wt = ct.load(w, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
        ut = ct.load(u, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
        before = state.astype(q.dtype)
        new = (ut.astype(ct.float32) - ct.mma(wt, before, ct.zeros((M, D), ct.float32))).astype(q.dtype)
        s = ct.mma(qt, ct.transpose(kt), ct.zeros((M, M), ct.float32))
        s = ct.where(rows >= columns, s, 0.0).astype(q.dtype)
        out = ct.mma(s, new, ct.mma(qt, before, ct.zeros((M, D), ct.float32)))
        ct.store(o, (h, i, 0), out.astype(o.dtype).reshape((1, M, D)))
        state = ct.mma(ct.transpose(kt), new, state)


@ct.kernel
def gated_delta_rule(q, k, w, u, g, o, M: Const, D: Const):
    """The same with a gate a token: what is read of the state fades. g has sums of logarithms within each chunk."""
    h = ct.bid(0)
    state = ct.zeros((D, D), ct.float32)
    rows = ct.arange(M, dtype=ct.int32)[:, None]
    columns = ct.arange(M, dtype=ct.int32)[None, :]
    for i in range(ct.cdiv(q.shape[1], M)):
        qt = ct.load(q, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
        kt = ct.load(k, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
        wt = ct.load(w, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
        ut = ct.load(u, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
        gt = ct.load(g, (h, i), (1, M), padding_mode=ZERO)
        down = gt.reshape((M, 1))
        last = ct.min(gt)
        before = state.astype(q.dtype)
        new = ut.astype(ct.float32) - ct.mma(wt, before, ct.zeros((M, D), ct.float32))
        s = ct.mma(qt, ct.transpose(kt), ct.zeros((M, M), ct.float32))
        s = ct.where(rows >= columns, s * ct.exp(ct.where(rows >= columns, down - gt, 0.0)), 0.0).astype(
            q.dtype
        )
        read = ct.mma(qt, before, ct.zeros((M, D), ct.float32)) * ct.exp(down)
        out = ct.mma(s, new.astype(q.dtype), read)
        ct.store(o, (h, i, 0), out.astype(o.dtype).reshape((1, M, D)))
        kept = (new * ct.exp(last - down)).astype(q.dtype)
        state = ct.mma(ct.transpose(kt), kept, state * ct.exp(last))


@ct.kernel
def steps_in_place(a, w, M: Const, D: Const):
    """Each step multiplies the rows that the step before has stored, in halves: a load may not pass the stores in front of it."""
    j = ct.bid(0)
    left, right = ct.load(w, (0, 0), (2 * D, D)), ct.load(w, (0, 1), (2 * D, D))
    for i in range(a.shape[1] // M - 1):
        x = ct.load(a, (j, i, 0), (1, M, 2 * D)).reshape((M, 2 * D))
        y = ct.mma(x, left, ct.zeros((M, D), ct.float32))
        z = ct.mma(x, right, ct.zeros((M, D), ct.float32))
        ct.store(a, (j, i + 1, 0), y.astype(a.dtype).reshape((1, M, D)))
        ct.store(a, (j, i + 1, 1), z.astype(a.dtype).reshape((1, M, D)))


@ct.kernel
def wide_heads(q, k, v, o, scale, M: Const, N: Const, D: Const):
    """Attention whose heads are so wide that shared memory holds a tile of keys and one of values, once."""
    h = ct.bid(0)
    qt = ct.load(q, (h, 0, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
    top = ct.full((M, 1), -1.0e30, ct.float32)
    total = ct.zeros((M, 1), ct.float32)
    acc = ct.zeros((M, D), ct.float32)
    columns = ct.arange(N, dtype=ct.int32).reshape((1, N))
    for j in range(ct.cdiv(k.shape[1], N)):
        kt = ct.load(k, (h, j, 0), (1, N, D), padding_mode=ZERO).reshape((N, D))
        s = ct.mma(qt, ct.transpose(kt), ct.zeros((M, N), ct.float32)) * (scale * LOG2E)
        s = ct.where(j * N + columns < k.shape[1], s, -1.0e30)
        new = ct.maximum(top, ct.max(s, 1, keepdims=True))
        p = ct.exp2(s - new)
        fix = ct.exp2(top - new)
        total = total * fix + ct.sum(p, 1, keepdims=True)
        vt = ct.load(v, (h, j, 0), (1, N, D), padding_mode=ZERO).reshape((N, D))
        acc = ct.mma(p.astype(v.dtype), vt, acc * fix)
        top = new
    ct.store(o, (h, 0, 0), (acc / total).reshape((1, M, D)))
