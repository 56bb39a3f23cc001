"""Memory-bound kernels of production size: elementwise, rows, gathers, transposes."""

import cuda.tile as ct

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO
NEG_INF = ct.PaddingMode.NEG_INF


@ct.kernel
def gelu(x, y, T: Const):
    b = ct.bid(0)
    v = ct.load(x, (b,), (T,)).astype(ct.float32)
    v = 0.5 * v * (1.0 + ct.tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)))
    ct.store(y, (b,), v.astype(y.dtype))


@ct.kernel
def adamw(p, g, m, v, rate, T: Const):
    """One step of the optimizer, in place."""
    b = ct.bid(0)
    grad = ct.load(g, (b,), (T,)).astype(ct.float32)
    first = 0.9 * ct.load(m, (b,), (T,)) + 0.1 * grad
    second = 0.999 * ct.load(v, (b,), (T,)) + 0.001 * grad * grad
    old = ct.load(p, (b,), (T,))
    ct.store(m, (b,), first)
    ct.store(v, (b,), second)
    ct.store(p, (b,), old - rate * (first / (ct.sqrt(second) + 1.0e-8) + 0.01 * old))


@ct.kernel
def layer_norm(x, w, b, y, eps, T: Const):
    """A row a block, in chunks of T, in two passes."""
    r = ct.bid(0)
    n = ct.cdiv(x.shape[1], T)
    total = ct.zeros((1, T), ct.float32)
    square = ct.zeros((1, T), ct.float32)
    for k in range(n):
        v = ct.load(x, (r, k), (1, T), padding_mode=ZERO).astype(ct.float32)
        total += v
        square += v * v
    mean = ct.sum(total, 1, keepdims=True) / x.shape[1]
    scale = ct.rsqrt(ct.sum(square, 1, keepdims=True) / x.shape[1] - mean * mean + eps)
    for k in range(n):
        v = ct.load(x, (r, k), (1, T), padding_mode=ZERO).astype(ct.float32)
        g = ct.load(w, (k,), (T,), padding_mode=ZERO).astype(ct.float32).reshape((1, T))
        s = ct.load(b, (k,), (T,), padding_mode=ZERO).astype(ct.float32).reshape((1, T))
        ct.store(y, (r, k), ((v - mean) * scale * g + s).astype(y.dtype))


@ct.kernel
def rms_norm_rope(x, w, cos, sin, y, eps, H: Const, D: Const):
    """Norm of each head of a token, then rotation of its two halves; x is [token, head, half, D]."""
    t = ct.bid(0)
    lo = ct.load(x, (t, 0, 0, 0), (1, H, 1, D)).reshape((H, D)).astype(ct.float32)
    hi = ct.load(x, (t, 0, 1, 0), (1, H, 1, D)).reshape((H, D)).astype(ct.float32)
    square = ct.sum(lo * lo + hi * hi, 1, keepdims=True)
    scale = ct.rsqrt(square / (2 * D) + eps)
    lo = lo * scale * ct.load(w, (0, 0), (1, D)).astype(ct.float32)
    hi = hi * scale * ct.load(w, (1, 0), (1, D)).astype(ct.float32)
    c, s = ct.load(cos, (t, 0), (1, D)), ct.load(sin, (t, 0), (1, D))
    ct.store(y, (t, 0, 0, 0), (lo * c - hi * s).astype(y.dtype).reshape((1, H, 1, D)))
    ct.store(y, (t, 0, 1, 0), (hi * c + lo * s).astype(y.dtype).reshape((1, H, 1, D)))


@ct.kernel
def embedding(table, ids, y, D: Const):
    """One row of the table a block."""
    t = ct.bid(0)
    at = ct.arange(D, dtype=ct.int32)
    ct.store(y, (t, 0), ct.gather(table, (ct.gather(ids, t), at)).reshape((1, D)))


@ct.kernel
def row_sum(x, y, M: Const, T: Const):
    """M rows a block, in chunks of T, summed in each step."""
    i = ct.bid(0)
    total = ct.zeros((M,), ct.float32)
    for k in range(ct.cdiv(x.shape[1], T)):
        total += ct.sum(ct.load(x, (i, k), (M, T), padding_mode=ZERO).astype(ct.float32), 1)
    ct.store(y, (i,), total)


@ct.kernel
def quantize(x, q, scale, N: Const):
    """A row a block to 8 bits, by its largest magnitude."""
    r = ct.bid(0)
    v = ct.load(x, (r, 0), (1, N), padding_mode=ZERO).astype(ct.float32)
    s = ct.maximum(ct.max(ct.abs(v), 1, keepdims=True), 1.0e-10) / 127.0
    ct.store(q, (r, 0), ct.floor(v / s + 0.5).astype(ct.int8))
    ct.store(scale, (r,), s.reshape((1,)))


@ct.kernel
def cross_entropy(x, labels, loss, T: Const):
    """The loss of one row, in chunks of T, with a running maximum."""
    r = ct.bid(0)
    top = ct.full((1, 1), -1.0e30, ct.float32)
    total = ct.zeros((1, 1), ct.float32)
    for k in range(ct.cdiv(x.shape[1], T)):
        v = ct.load(x, (r, k), (1, T), padding_mode=NEG_INF).astype(ct.float32)
        new = ct.maximum(top, ct.max(v, 1, keepdims=True))
        total = total * ct.exp(top - new) + ct.sum(ct.exp(v - new), 1, keepdims=True)
        top = new
    own = ct.gather(x, (r, ct.gather(labels, r))).astype(ct.float32)
    ct.store(loss, (r,), (ct.log(total) + top).reshape((1,)) - own)


@ct.kernel
def residual_rms_norm(x, r, w, y, s, eps, N: Const):
    """A residual is added and kept, then the row is normalized."""
    i = ct.bid(0)
    v = ct.load(x, (i, 0), (1, N)).astype(ct.float32) + ct.load(r, (i, 0), (1, N)).astype(ct.float32)
    ct.store(s, (i, 0), v.astype(s.dtype))
    inv = ct.rsqrt(ct.sum(v * v, 1, keepdims=True) / N + eps)
    g = ct.load(w, (0,), (N,)).astype(ct.float32).reshape((1, N))
    ct.store(y, (i, 0), (v * inv * g).astype(y.dtype))


@ct.kernel
def softmax_backward(y, dy, dx, N: Const):
    """A row a block."""
    i = ct.bid(0)
    a = ct.load(y, (i, 0), (1, N)).astype(ct.float32)
    g = ct.load(dy, (i, 0), (1, N)).astype(ct.float32)
    ct.store(dx, (i, 0), (a * (g - ct.sum(a * g, 1, keepdims=True))).astype(dx.dtype))


@ct.kernel
def quantize_groups(x, y, s, G: Const, T: Const):
    """T groups of G neighbours of a row a block, a scale each."""
    i, j = ct.bid(0), ct.bid(1)
    v = ct.load(x, (i, j), (1, T * G)).astype(ct.float32).reshape((T, G))
    m = ct.max(ct.abs(v), 1, keepdims=True)
    sc = ct.maximum(m, 1.0e-10) / 448.0
    ct.store(y, (i, j), (v / sc).astype(y.dtype).reshape((1, T * G)))
    ct.store(s, (i, j), sc.reshape((1, T)))


@ct.kernel
def cumulative_sums(x, y, M: Const, N: Const):
    """Along M rows a block."""
    i = ct.bid(0)
    v = ct.load(x, (i, 0), (M, N)).astype(ct.float32)
    ct.store(y, (i, 0), ct.cumsum(v, 1).astype(y.dtype))


@ct.kernel
def argmax(x, y, M: Const, N: Const):
    """Of M rows a block."""
    i = ct.bid(0)
    v = ct.load(x, (i, 0), (M, N))
    ct.store(y, (i,), ct.argmax(v, 1))


@ct.kernel
def gelu_backward(x, dy, dx, T: Const):
    b = ct.bid(0)
    v = ct.load(x, (b,), (T,)).astype(ct.float32)
    g = ct.load(dy, (b,), (T,)).astype(ct.float32)
    t = ct.tanh(0.7978845608028654 * (v + 0.044715 * v * v * v))
    d = 0.5 * (1.0 + t) + 0.5 * v * (1.0 - t * t) * 0.7978845608028654 * (1.0 + 0.134145 * v * v)
    ct.store(dx, (b,), (g * d).astype(dx.dtype))


@ct.kernel
def divergence(logp, q, loss, T: Const):
    """Kullback-Leibler divergence of each row: the sum of q (log q - log p)."""
    row = ct.bid(0)
    total = ct.zeros((1, T), ct.float32)
    for j in range(ct.cdiv(q.shape[1], T)):
        p = ct.load(logp, (row, j), (1, T), padding_mode=ZERO).astype(ct.float32)
        t = ct.load(q, (row, j), (1, T), padding_mode=ZERO).astype(ct.float32)
        total += t * (ct.log(ct.maximum(t, 1e-10)) - p)
    ct.store(loss, (row,), ct.sum(total, 1))


@ct.kernel
def bias_gradient(x, y, M: Const, N: Const):
    """Sums of columns, added to what other blocks add."""
    i, j = ct.bid(0), ct.bid(1)
    part = ct.sum(ct.load(x, (i, j), (M, N), padding_mode=ZERO).astype(ct.float32), 0)
    ct.atomic_add(y, j * N + ct.arange(N, dtype=ct.int32), part)


@ct.kernel
def swap_heads(x, y, S: Const, H: Const, D: Const):
    """[batch, place, head, lane] as [batch, head, place, lane]."""
    b, s = ct.bid(0), ct.bid(1)
    t = ct.load(x, (b, s, 0, 0), (1, S, H, D)).reshape((S, H, D))
    ct.store(y, (b, 0, s, 0), ct.permute(t, (1, 0, 2)).reshape((1, H, S, D)))


@ct.kernel
def add_by_index(x, y, z, T: Const):
    at = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
    ct.scatter(z, at, ct.gather(x, at) + ct.gather(y, at))
