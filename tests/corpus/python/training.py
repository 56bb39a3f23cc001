"""Layers of neural networks, forward and backward: attention variants, norms, recurrent cells, optimizers, losses."""

import cuda.tile as ct

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO
NEG = ct.PaddingMode.NEG_INF


@ct.kernel
def flash(q, k, v, o, lse, scale, TM: Const, TN: Const, D: Const, CAUSAL: Const, WINDOW: Const, GROUP: Const):
    """Causal flash attention with grouped heads, sliding window, log-sum-exp output, ragged in both."""
    i, h = ct.bid(0), ct.bid(1)
    n = k.shape[1]
    qt = ct.load(q, (h, i, 0), (1, TM, D), padding_mode=ZERO).reshape((TM, D))
    m = ct.full((TM, 1), -1.0e30, ct.float32)
    l = ct.zeros((TM, 1), ct.float32)
    acc = ct.zeros((TM, D), ct.float32)
    rows = i * TM + ct.arange(TM, dtype=ct.int32).reshape((TM, 1))
    hi = ct.cdiv(n, TN)
    lo = 0
    if CAUSAL:
        hi = ct.minimum(hi, ct.cdiv((i + 1) * TM, TN))
    if WINDOW > 0:
        lo = ct.maximum(0, (i * TM - WINDOW + 1) // TN)
    for j in range(lo, hi):
        kt = ct.load(k, (h // GROUP, 0, j), (1, D, TN), order=(0, 2, 1), padding_mode=ZERO).reshape((D, TN))
        s = ct.mma(qt, kt, ct.zeros((TM, TN), ct.float32)) * (scale * 1.4426950408889634)
        cols = j * TN + ct.arange(TN, dtype=ct.int32).reshape((1, TN))
        ok = cols < n
        if CAUSAL:
            ok = ok & (cols <= rows)
        if WINDOW > 0:
            ok = ok & (cols > rows - WINDOW)
        s = ct.where(ok, s, -1.0e30)
        new = ct.maximum(m, ct.max(s, 1, keepdims=True))
        p = ct.where(ok, ct.exp2(s - new), 0.0)
        a = ct.exp2(m - new)
        l = l * a + ct.sum(p, 1, keepdims=True)
        vt = ct.load(v, (h // GROUP, j, 0), (1, TN, D), padding_mode=ZERO).reshape((TN, D))
        acc = ct.mma(p.astype(v.dtype), vt, acc * a)
        m = new
    ct.store(o, (h, i, 0), (acc / l).astype(o.dtype).reshape((1, TM, D)))
    ct.store(lse, (h, i), (m * 0.6931471805599453 + ct.log(l)).reshape((1, TM)))


@ct.kernel
def flash_bwd_dkdv(q, k, v, do, lse, delta, dk, dv, scale, TM: Const, TN: Const, D: Const):
    """Gradients of K and V of causal attention, one key tile per block."""
    j, h = ct.bid(0), ct.bid(1)
    n = q.shape[1]
    kt = ct.load(k, (h, j, 0), (1, TN, D), padding_mode=ZERO).reshape((TN, D))
    vt = ct.load(v, (h, j, 0), (1, TN, D), padding_mode=ZERO).reshape((TN, D))
    gk = ct.zeros((TN, D), ct.float32)
    gv = ct.zeros((TN, D), ct.float32)
    cols = j * TN + ct.arange(TN, dtype=ct.int32).reshape((1, TN))
    for i in range((j * TN) // TM, ct.cdiv(n, TM)):
        qt = ct.load(q, (h, i, 0), (1, TM, D), padding_mode=ZERO).reshape((TM, D))
        gt = ct.load(do, (h, i, 0), (1, TM, D), padding_mode=ZERO).reshape((TM, D))
        rows = i * TM + ct.arange(TM, dtype=ct.int32).reshape((TM, 1))
        s = ct.mma(qt, ct.transpose(kt), ct.zeros((TM, TN), ct.float32)) * scale
        l = ct.load(lse, (h, i), (1, TM), padding_mode=ZERO).reshape((TM, 1))
        ok = (cols <= rows) & (rows < n) & (cols < n)
        p = ct.where(ok, ct.exp(s - l), 0.0)
        gv = ct.mma(ct.transpose(p.astype(q.dtype)), gt, gv)
        dp = ct.mma(gt, ct.transpose(vt), ct.zeros((TM, TN), ct.float32))
        dl = ct.load(delta, (h, i), (1, TM), padding_mode=ZERO).reshape((TM, 1))
        ds = (p * (dp - dl) * scale).astype(q.dtype)
        gk = ct.mma(ct.transpose(ds), qt, gk)
    ct.store(dk, (h, j, 0), gk.reshape((1, TN, D)))
    ct.store(dv, (h, j, 0), gv.reshape((1, TN, D)))


@ct.kernel
def layer_norm_bwd(x, w, dy, mean, rstd, dx, dw, db, n, M: Const, N: Const):
    """The input's gradient per row, those of weight and bias atomically over row blocks."""
    i = ct.bid(0)
    v = ct.load(x, (i, 0), (M, N), padding_mode=ZERO).astype(ct.float32)
    g = ct.load(dy, (i, 0), (M, N), padding_mode=ZERO).astype(ct.float32)
    ww = ct.load(w, (0,), (N,), padding_mode=ZERO).astype(ct.float32).reshape((1, N))
    mu = ct.load(mean, (i,), (M,), padding_mode=ZERO).reshape((M, 1))
    rs = ct.load(rstd, (i,), (M,), padding_mode=ZERO).reshape((M, 1))
    cols = ct.arange(N, dtype=ct.int32).reshape((1, N)) < n
    xh = ct.where(cols, (v - mu) * rs, 0.0)
    wg = g * ww
    c1 = ct.sum(xh * wg, 1, keepdims=True) / n
    c2 = ct.sum(wg, 1, keepdims=True) / n
    ct.store(dx, (i, 0), ((wg - (xh * c1 + c2)) * rs).astype(dx.dtype))
    at = ct.arange(N, dtype=ct.int32)
    ct.atomic_add(dw, at, ct.sum(g * xh, 0))
    ct.atomic_add(db, at, ct.sum(g, 0))


@ct.kernel
def rms_norm_bwd(x, w, dy, dx, dwp, eps, M: Const, N: Const):
    i = ct.bid(0)
    acc = ct.zeros((1, N), ct.float32)
    ww = ct.load(w, (0,), (N,), padding_mode=ZERO).reshape((1, N))
    n = x.shape[1]
    for r in range(i, x.shape[0], ct.num_blocks(0)):
        v = ct.load(x, (r, 0), (1, N), padding_mode=ZERO)
        g = ct.load(dy, (r, 0), (1, N), padding_mode=ZERO)
        rs = ct.rsqrt(ct.sum(v * v, 1, keepdims=True) / n + eps)
        xh = v * rs
        wg = g * ww
        ct.store(dx, (r, 0), rs * (wg - xh * (ct.sum(xh * wg, 1, keepdims=True) / n)))
        acc = acc + g * xh
    ct.store(dwp, (i, 0), acc)


def _welford(m1, s1, c1, m2, s2, c2):
    c = c1 + c2
    d = m2 - m1
    r = ct.where(c > 0.0, c2 / ct.maximum(c, 1.0), 0.0)
    return m1 + d * r, s1 + s2 + d * d * c1 * r, c


@ct.kernel
def batch_norm(x, g, b, y, M: Const, N: Const):
    """Columns normalised over rows, Welford merge through reduce of three operands."""
    j = ct.bid(0)
    v = ct.load(x, (0, j), (M, N))
    one = ct.ones((M, N), ct.float32)
    mean, m2, cnt = ct.reduce((v, one * 0.0, one), 0, _welford, (0.0, 0.0, 0.0))
    var = m2 / cnt
    r = ct.rsqrt(var + 1e-5)
    gg = ct.load(g, (j,), (N,)) * r
    ct.store(
        y, (0, j), (v - mean.reshape((1, N))) * gg.reshape((1, N)) + ct.load(b, (j,), (N,)).reshape((1, N))
    )


@ct.kernel
def group_norm_nchw(x, y, C: Const, HW: Const, eps):
    n, g = ct.bid(0), ct.bid(1)
    hw = x.shape[2]
    v = ct.load(x, (n, g, 0), (1, C, HW), padding_mode=ZERO)
    cnt = C * hw
    mu = ct.sum(v) / cnt
    ok = ct.arange(HW, dtype=ct.int32).reshape((1, 1, HW)) < hw
    d = ct.where(ok, v - mu, 0.0)
    ct.store(y, (n, g, 0), d * ct.rsqrt(ct.sum(d * d) / cnt + eps))


@ct.kernel
def softmax_causal(x, y, scale, N: Const):
    """Columns past the row are masked by -inf."""
    r = ct.bid(0)
    c = ct.arange(N, dtype=ct.int32).reshape((1, N))
    v = ct.load(x, (r, 0), (1, N), padding_mode=NEG).astype(ct.float32) * scale
    v = ct.where(c <= r, v, float("-inf"))
    e = ct.exp(v - ct.max(v, 1, keepdims=True))
    ct.store(y, (r, 0), (e / ct.sum(e, 1, keepdims=True)).astype(y.dtype))


def _ms(m1, s1, m2, s2):
    m = ct.maximum(m1, m2)
    a = ct.where(m1 == m, s1, s1 * ct.exp(m1 - m))
    b = ct.where(m2 == m, s2, s2 * ct.exp(m2 - m))
    return m, a + b


@ct.kernel
def softmax_online_pairs(x, y, N: Const):
    """Max and sum in one reduction over pairs; all-equal, huge and -inf rows."""
    r = ct.bid(0)
    v = ct.load(x, (r, 0), (1, N), padding_mode=NEG)
    m, s = ct.reduce((v, ct.ones((1, N), ct.float32)), 1, _ms, (float("-inf"), 0.0))
    ct.store(y, (r, 0), ct.exp(v - m.reshape((1, 1))) / s.reshape((1, 1)))


@ct.kernel
def cross_entropy_bwd(x, label, loss, dx, smooth, N: Const):
    """Label smoothing, gradient in place of logits (bf16), 64-bit labels, ignore index."""
    r = ct.bid(0)
    t = ct.gather(label, r)
    c = ct.arange(N, dtype=ct.int32).reshape((1, N))
    n = x.shape[1]
    if t == -100:
        ct.store(dx, (r, 0), ct.zeros((1, N), dx.dtype))
        ct.scatter(loss, r, 0.0)
        return
    v = ct.load(x, (r, 0), (1, N), padding_mode=NEG).astype(ct.float32)
    m = ct.max(v)
    e = ct.exp(v - m)
    s = ct.sum(e)
    lse = m + ct.log(s)
    hot = ct.where(c == t.astype(ct.int32), 1.0 - smooth, 0.0) + smooth / n
    ct.store(dx, (r, 0), (e / s - hot).astype(dx.dtype))
    ct.scatter(loss, r, ct.sum(ct.where(c < n, hot * (lse - ct.where(c < n, v, 0.0)), 0.0)))


@ct.kernel
def top_p(logits, u, token, N: Const, L: Const):
    """Nucleus sampling: by the rank of probabilities, cumsum and a threshold."""
    r = ct.bid(0)
    v = ct.load(logits, (r, 0), (1, N), padding_mode=NEG).reshape((N,))
    e = ct.exp(v - ct.max(v))
    p = e / ct.sum(e)
    i = ct.arange(N, dtype=ct.int32)
    before = (p.reshape((1, N)) > p.reshape((N, 1))) | (
        (p.reshape((1, N)) == p.reshape((N, 1))) & (i.reshape((1, N)) < i.reshape((N, 1)))
    )
    mass = ct.sum(ct.where(before, p.reshape((1, N)), 0.0), 1)
    inside = mass < 0.7
    tot = ct.sum(ct.where(inside, p, 0.0))
    goal = ct.gather(u, r) * tot
    pick = inside & (mass <= goal) & (mass + p > goal)
    ct.scatter(token, r, ct.max(ct.where(pick, i, -1)))


@ct.kernel
def conv_nhwc(
    x, w, y, OW: Const, TP: Const, TC: Const, TK: Const, KH: Const, KW: Const, S: Const, PAD: Const
):
    """Implicit GEMM with stride and padding through gathers; output pixels x output channels."""
    p0, c0, n = ct.bid(0), ct.bid(1), ct.bid(2)
    pix = p0 * TP + ct.arange(TP, dtype=ct.int32)
    oh, ow = pix // OW, pix % OW
    acc = ct.zeros((TP, TK), ct.float32)
    for r in range(KH):
        for s in range(KW):
            ih, iw = oh * S - PAD + r, ow * S - PAD + s
            for c in range(ct.cdiv(x.shape[3], TC)):
                ch = c * TC + ct.arange(TC, dtype=ct.int32).reshape((1, TC))
                a = ct.gather(x, (n, ih.reshape((TP, 1)), iw.reshape((TP, 1)), ch), padding_value=0)
                b = ct.load(w, (r, s, c, c0), (1, 1, TC, TK), padding_mode=ZERO).reshape((TC, TK))
                acc = ct.mma(a, b, acc)
    k = c0 * TK + ct.arange(TK, dtype=ct.int32).reshape((1, TK))
    ct.scatter(y, (n, oh.reshape((TP, 1)), ow.reshape((TP, 1)), k), acc.astype(y.dtype))


@ct.kernel
def depthwise_2d(x, w, y, TH: Const, TW: Const, TC: Const):
    """Depthwise 3x3 same, as nine shifted gathers."""
    i, j, c = ct.bid(0), ct.bid(1), ct.bid(2)
    h = (i * TH + ct.arange(TH, dtype=ct.int32)).reshape((TH, 1, 1))
    q = (j * TW + ct.arange(TW, dtype=ct.int32)).reshape((1, TW, 1))
    ch = (c * TC + ct.arange(TC, dtype=ct.int32)).reshape((1, 1, TC))
    acc = ct.zeros((TH, TW, TC), ct.float32)
    for r in range(3):
        for s in range(3):
            acc = acc + ct.gather(x, (h + (r - 1), q + (s - 1), ch)).astype(ct.float32) * ct.gather(
                w, (r, s, ch)
            ).astype(ct.float32)
    ct.scatter(y, (h, q, ch), ct.maximum(acc, 0.0).astype(y.dtype))


@ct.kernel
def conv_transpose_1d(x, w, y, T: Const, K: Const, S: Const):
    """Scatter form with atomics: output overlaps."""
    b = ct.bid(0)
    i = b * T + ct.arange(T, dtype=ct.int32)
    v = ct.load(x, (b,), (T,), padding_mode=ZERO)
    for k in range(K):
        ct.atomic_add(y, ct.where(i < x.shape[0], i * S + k, -1), v * ct.gather(w, k))


@ct.kernel
def lstm_cell(x, h, c, w, u, bias, ho, co, B: Const, K: Const, H: Const):
    """Four gates from two products, extracted from one wide tile."""
    i = ct.bid(0)
    z = ct.mma(ct.load(x, (i, 0), (B, K)), ct.load(w, (0, 0), (K, 4 * H)), ct.zeros((B, 4 * H), ct.float32))
    z = ct.mma(ct.load(h, (i, 0), (B, H)), ct.load(u, (0, 0), (H, 4 * H)), z) + ct.load(
        bias, (0,), (4 * H,)
    ).reshape((1, 4 * H))
    a, f, g, o = (
        z.extract((0, 0), (B, H)),
        z.extract((0, 1), (B, H)),
        z.extract((0, 2), (B, H)),
        z.extract((0, 3), (B, H)),
    )

    def s(v):
        return 1.0 / (1.0 + ct.exp(-v))

    cn = s(f) * ct.load(c, (i, 0), (B, H)) + s(a) * ct.tanh(g)
    ct.store(co, (i, 0), cn)
    ct.store(ho, (i, 0), (s(o) * ct.tanh(cn)).astype(ho.dtype))


@ct.kernel
def wkv(k, v, w, u, y, T: Const):
    """Numerically stable exponential mix over time (RWKV): carried (a, b, max)."""
    c = ct.bid(0)
    ww = ct.load(w, (c,), (T,))
    uu = ct.load(u, (c,), (T,))
    a = ct.zeros((1, T), ct.float32)
    b = ct.zeros((1, T), ct.float32)
    p = ct.full((1, T), -1.0e38, ct.float32)
    for t in range(k.shape[0]):
        kt = ct.load(k, (t, c), (1, T))
        vt = ct.load(v, (t, c), (1, T))
        q = ct.maximum(p, uu.reshape((1, T)) + kt)
        e1 = ct.exp(p - q)
        e2 = ct.exp(uu.reshape((1, T)) + kt - q)
        ct.store(y, (t, c), (e1 * a + e2 * vt) / (e1 * b + e2))
        q = ct.maximum(p + ww.reshape((1, T)), kt)
        e1 = ct.exp(p + ww.reshape((1, T)) - q)
        e2 = ct.exp(kt - q)
        a = e1 * a + e2 * vt
        b = e1 * b + e2
        p = q


@ct.kernel
def adamw(w, g, m, v, lr, b1, b2, eps, wd, step, T: Const):
    """Weights in bf16 with f32 moments, bias correction by pow of a scalar."""
    b = ct.bid(0)
    gr = ct.load(g, (b,), (T,)).astype(ct.float32)
    mm = b1 * ct.load(m, (b,), (T,)) + (1.0 - b1) * gr
    vv = b2 * ct.load(v, (b,), (T,)) + (1.0 - b2) * gr * gr
    c1 = 1.0 - ct.pow(b1, step.astype(ct.float32))
    c2 = 1.0 - ct.pow(b2, step.astype(ct.float32))
    p = ct.load(w, (b,), (T,)).astype(ct.float32)
    p = p - lr * (mm / c1 / (ct.sqrt(vv / c2) + eps) + wd * p)
    ct.store(w, (b,), p.astype(w.dtype))
    ct.store(m, (b,), mm)
    ct.store(v, (b,), vv)


@ct.kernel
def philox_dropout(x, y, mask, seed, p, T: Const):
    """Philox 4x32 by 64-bit products, dropout scaling, a bool mask stored."""
    b = ct.bid(0)
    c0 = ct.arange(T, dtype=ct.uint32) + (b * T).astype(ct.uint32)
    c1 = ct.zeros((T,), ct.uint32)
    c2 = ct.zeros((T,), ct.uint32)
    c3 = ct.zeros((T,), ct.uint32)
    k0 = ct.zeros((T,), ct.uint32) + seed
    k1 = ct.zeros((T,), ct.uint32)
    for _ in range(10):
        p0 = c0.astype(ct.uint64) * 0xD2511F53
        p1 = c2.astype(ct.uint64) * 0xCD9E8D57
        c0, c1, c2, c3 = (
            (p1 >> 32).astype(ct.uint32) ^ c1 ^ k0,
            p1.astype(ct.uint32),
            (p0 >> 32).astype(ct.uint32) ^ c3 ^ k1,
            p0.astype(ct.uint32),
        )
        k0 = k0 + 0x9E3779B9
        k1 = k1 + 0xBB67AE85
    u = (c0 >> 8).astype(ct.float32) * (1.0 / 16777216.0)
    keep_ = u >= p
    v = ct.load(x, (b,), (T,))
    ct.store(y, (b,), ct.where(keep_, v / (1.0 - p), 0.0))
    ct.store(mask, (b,), keep_)


@ct.kernel
def stochastic_round(x, bits, y, T: Const):
    """From f32 to bf16 by adding random low bits to the pattern."""
    b = ct.bid(0)
    p = ct.bitcast(ct.load(x, (b,), (T,)), ct.uint32) + (ct.load(bits, (b,), (T,)).astype(ct.uint32))
    ct.store(y, (b,), ct.bitcast((p >> 16).astype(ct.uint16), ct.bfloat16))


@ct.kernel
def mm_gated(x, wg, wu, y, M: Const, N: Const, K: Const):
    """SwiGLU: two accumulators share the A tile."""
    i, j = ct.bid(0), ct.bid(1)
    g = ct.zeros((M, N), ct.float32)
    u = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(x, 1, (M, K))):
        t = ct.load(x, (i, k), (M, K), padding_mode=ZERO)
        g = ct.mma(t, ct.load(wg, (k, j), (K, N), padding_mode=ZERO), g)
        u = ct.mma(t, ct.load(wu, (k, j), (K, N), padding_mode=ZERO), u)
    ct.store(y, (i, j), (g / (1.0 + ct.exp(-g)) * u).astype(y.dtype))


@ct.kernel
def mm_chain(x, a, b, y, T: Const, H: Const):
    """MLP: relu(x a) b in one block."""
    i = ct.bid(0)
    acc = ct.zeros((T, T), ct.float32)
    v = ct.load(x, (i, 0), (T, T), padding_mode=ZERO)
    for h in range(ct.num_tiles(a, 1, (T, H))):
        t = ct.mma(v, ct.load(a, (0, h), (T, H), padding_mode=ZERO), ct.zeros((T, H), ct.float32))
        t = ct.maximum(t, 0.0).astype(x.dtype)
        acc = ct.mma(t, ct.load(b, (h, 0), (H, T), padding_mode=ZERO), acc)
    ct.store(y, (i, 0), acc)


@ct.kernel
def mm_int4(a, q, s, c, M: Const, N: Const, K: Const):
    """Weights 4 bits, two per byte along K, groups of 32."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        p = ct.load(q, (k, j), (K // 2, N), padding_mode=ZERO)
        lo = (p & 15).astype(ct.float16) - 8.0
        hi = ((p >> 4) & 15).astype(ct.float16) - 8.0
        w = ct.cat((lo.reshape((K // 2, 1, N)), hi.reshape((K // 2, 1, N))), 1).reshape((K, N))
        sc = ct.load(s, (k, j), (1, N), padding_mode=ZERO)
        acc = ct.mma(ct.load(a, (i, k), (M, K), padding_mode=ZERO), w * sc, acc)
    ct.store(c, (i, j), acc)


@ct.kernel
def gate_gradients(dy, g, u, dg, du, M: Const, T: Const):
    """Backward of silu(g) * u: five arrays that a block of rows goes through in slices."""
    i, j = ct.bid(0), ct.bid(1)
    d = ct.load(dy, (i, j), (M, T), padding_mode=ZERO).astype(ct.float32)
    a = ct.load(g, (i, j), (M, T), padding_mode=ZERO).astype(ct.float32)
    b = ct.load(u, (i, j), (M, T), padding_mode=ZERO).astype(ct.float32)
    s = 1.0 / (1.0 + ct.exp(-a))
    ct.store(du, (i, j), (d * a * s).astype(du.dtype))
    ct.store(dg, (i, j), (d * b * s * (1.0 + a * (1.0 - s))).astype(dg.dtype))


@ct.kernel
def recurrent(x, w, y, last, B: Const, D: Const):
    """A recurrent layer: each step multiplies what the step before has left; half of its input comes in front of the sum, the
    other behind it."""
    weights = ct.load(w, (0, 0), (D, D), padding_mode=ZERO)
    h = ct.zeros((B, D), x.dtype)
    for t in range(x.shape[0]):
        u = ct.load(x, (t, 0, 0), (1, B, D), padding_mode=ZERO).reshape((B, D)).astype(ct.float32)
        v = ct.load(x, (t, 0, 1), (1, B, D), padding_mode=ZERO).reshape((B, D)).astype(ct.float32)
        h = ct.minimum(ct.maximum(ct.mma(h, weights, u) - v, -4), 4).astype(x.dtype)
        ct.store(y, (t, 0, 0), h.reshape((1, B, D)))
    ct.store(last, (0, 0), h)
