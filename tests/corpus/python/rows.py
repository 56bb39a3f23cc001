"""Row-wise kernels: softmax in several forms, layer norm, RMS norm, cross entropy."""

import cuda.tile as ct

Const = ct.Constant[int]
NEG_INF = ct.PaddingMode.NEG_INF
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def softmax_row(x, y, N: Const):
    """One row per block, the row in one tile, padded with -inf."""
    r = ct.bid(0)
    v = ct.load(x, (r, 0), (1, N), padding_mode=NEG_INF).astype(ct.float32)
    e = ct.exp(v - ct.max(v, 1, keepdims=True))
    ct.store(y, (r, 0), (e / ct.sum(e, 1, keepdims=True)).astype(y.dtype))


@ct.kernel
def softmax_rows(x, y, M: Const, N: Const):
    """M rows per block."""
    r = ct.bid(0)
    v = ct.load(x, (r, 0), (M, N), padding_mode=NEG_INF)
    e = ct.exp(v - ct.max(v, 1, keepdims=True))
    ct.store(y, (r, 0), e / ct.sum(e, 1, keepdims=True))


@ct.kernel
def softmax_columns(x, y, M: Const, N: Const):
    """Along the first axis: a strided reduction."""
    c = ct.bid(0)
    v = ct.load(x, (0, c), (M, N), padding_mode=NEG_INF)
    e = ct.exp(v - ct.max(v, 0, keepdims=True))
    ct.store(y, (0, c), e / ct.sum(e, 0, keepdims=True))


@ct.kernel
def softmax_online(x, y, T: Const):
    """Chunks of a long row: running maximum and rescaled sum, then a second pass."""
    r = ct.bid(0)
    n = ct.num_tiles(x, 1, (1, T))
    top = ct.full((1, 1), -1.0e30, ct.float32)
    total = ct.zeros((1, 1), ct.float32)
    for k in range(n):
        v = ct.load(x, (r, k), (1, T), padding_mode=NEG_INF)
        new = ct.maximum(top, ct.max(v, 1, keepdims=True))
        total = total * ct.exp(top - new) + ct.sum(ct.exp(v - new), 1, keepdims=True)
        top = new
    for k in range(n):
        v = ct.load(x, (r, k), (1, T), padding_mode=NEG_INF)
        ct.store(y, (r, k), ct.exp(v - top) / total)


@ct.kernel
def softmax_base2(x, y, scale, N: Const):
    """exp2 with a scale folded in, and a reciprocal multiply."""
    r = ct.bid(0)
    v = ct.load(x, (r, 0), (1, N), padding_mode=NEG_INF) * (scale * 1.4426950408889634)
    e = ct.exp2(v - ct.max(v, 1, keepdims=True))
    ct.store(y, (r, 0), e * (1.0 / ct.sum(e, 1, keepdims=True)))


@ct.kernel
def log_softmax(x, y, N: Const):
    r = ct.bid(0)
    v = ct.load(x, (r, 0), (1, N), padding_mode=NEG_INF)
    v = v - ct.max(v, 1, keepdims=True)
    ct.store(y, (r, 0), v - ct.log(ct.sum(ct.exp(v), 1, keepdims=True)))


@ct.kernel
def softmax_masked(x, lengths, y, N: Const):
    """Row r counts only its first lengths[r] columns."""
    r = ct.bid(0)
    n = ct.gather(lengths, r)
    cols = ct.arange(N, dtype=ct.int32)
    v = ct.gather(x, (r, cols), padding_value=0.0)
    v = ct.where(cols < n, v, -1.0e30)
    e = ct.where(cols < n, ct.exp(v - ct.max(v, 0)), 0.0)
    ct.scatter(y, (r, cols), e / ct.sum(e, 0))


@ct.kernel
def softmax_backward(p, g, out, N: Const):
    r = ct.bid(0)
    a = ct.load(p, (r, 0), (1, N), padding_mode=ZERO)
    b = ct.load(g, (r, 0), (1, N), padding_mode=ZERO)
    ct.store(out, (r, 0), a * (b - ct.sum(a * b, 1, keepdims=True)))


@ct.kernel
def cross_entropy(x, labels, loss, N: Const):
    r = ct.bid(0)
    v = ct.load(x, (r, 0), (1, N), padding_mode=NEG_INF)
    m = ct.max(v, 1, keepdims=True)
    lse = ct.log(ct.sum(ct.exp(v - m), 1, keepdims=True)) + m
    label = ct.gather(labels, r)
    ct.scatter(loss, r, lse.reshape(()) - ct.gather(x, (r, label)))


@ct.kernel
def layer_norm(x, w, b, y, eps, n, N: Const):
    r = ct.bid(0)
    v = ct.load(x, (r, 0), (1, N), padding_mode=ZERO).astype(ct.float32)
    count = n.astype(ct.float32)
    mean = ct.sum(v, 1, keepdims=True) / count
    inside = ct.arange(N, dtype=ct.int32).reshape((1, N)) < n
    d = ct.where(inside, v - mean, 0.0)
    rstd = ct.rsqrt(ct.sum(d * d, 1, keepdims=True) / count + eps)
    g = ct.load(w, (0,), (N,), padding_mode=ZERO).reshape((1, N)).astype(ct.float32)
    c = ct.load(b, (0,), (N,), padding_mode=ZERO).reshape((1, N)).astype(ct.float32)
    ct.store(y, (r, 0), (d * rstd * g + c).astype(y.dtype))


@ct.kernel
def layer_norm_chunked(x, w, b, y, mean_out, rstd_out, eps, T: Const):
    """Two passes for the statistics and one for the result, over chunks of a row."""
    r = ct.bid(0)
    n = ct.num_tiles(x, 1, (1, T))
    width = x.shape[1]
    acc = ct.zeros((1, T), ct.float32)
    for k in range(n):
        acc = acc + ct.load(x, (r, k), (1, T), padding_mode=ZERO)
    mean = ct.sum(acc, 1, keepdims=True) / width
    var = ct.zeros((1, T), ct.float32)
    cols = ct.arange(T, dtype=ct.int32).reshape((1, T))
    for k in range(n):
        d = ct.load(x, (r, k), (1, T), padding_mode=ZERO) - mean
        d = ct.where(cols + k * T < width, d, 0.0)
        var = var + d * d
    rstd = ct.rsqrt(ct.sum(var, 1, keepdims=True) / width + eps)
    ct.scatter(mean_out, r, mean.reshape(()))
    ct.scatter(rstd_out, r, rstd.reshape(()))
    for k in range(n):
        v = ct.load(x, (r, k), (1, T), padding_mode=ZERO)
        g = ct.load(w, (k,), (T,), padding_mode=ZERO).reshape((1, T))
        c = ct.load(b, (k,), (T,), padding_mode=ZERO).reshape((1, T))
        ct.store(y, (r, k), (v - mean) * rstd * g + c)


@ct.kernel
def rms_norm(x, w, y, eps, N: Const):
    r = ct.bid(0)
    v = ct.load(x, (r, 0), (1, N), padding_mode=ZERO).astype(ct.float32)
    scale = ct.rsqrt(ct.sum(v * v, 1, keepdims=True) / x.shape[1] + eps)
    g = ct.load(w, (0,), (N,), padding_mode=ZERO).reshape((1, N)).astype(ct.float32)
    ct.store(y, (r, 0), (v * scale * g).astype(y.dtype))


@ct.kernel
def group_norm(x, y, eps, G: Const, N: Const):
    """Rows as G groups of N columns each, normalised within the group, through a 3-D tile."""
    r = ct.bid(0)
    v = ct.load(x, (r, 0), (1, G * N)).reshape((1, G, N))
    mean = ct.sum(v, 2, keepdims=True) / N
    d = v - mean
    rstd = ct.rsqrt(ct.sum(d * d, 2, keepdims=True) / N + eps)
    ct.store(y, (r, 0), (d * rstd).reshape((1, G * N)))


@ct.kernel
def l2_normalize(x, y, N: Const):
    r = ct.bid(0)
    v = ct.load(x, (r, 0), (1, N), padding_mode=ZERO)
    ct.store(y, (r, 0), v / ct.sqrt(ct.sum(v * v, 1, keepdims=True)))


@ct.kernel
def kl_divergence(logp, q, loss, T: Const):
    """Sum of q (log q - log p) of each row; what is 0 counts as the least that its logarithm is taken of."""
    row = ct.bid(0)
    total = ct.zeros((1, T), ct.float32)
    for j in range(ct.cdiv(q.shape[1], T)):
        p = ct.load(logp, (row, j), (1, T), padding_mode=ct.PaddingMode.ZERO)
        t = ct.load(q, (row, j), (1, T), padding_mode=ct.PaddingMode.ZERO)
        total += t * (ct.log(ct.maximum(t, 1e-10)) - p)
    ct.store(loss, (row,), ct.sum(total, 1))
