"""Products outside of loops: attention over one tile of keys, a product as deep as one tile, products that feed each other."""

import cuda.tile as ct

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO
LOG2E = 1.4426950408889634


@ct.kernel
def cross(q, k, v, o, scale, M: Const, N: Const, D: Const):
    """Attention over as many keys as one tile has."""
    i, h = ct.bid(0), ct.bid(1)
    qt = ct.load(q, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
    kt = ct.load(k, (h, 0, 0), (1, N, D), padding_mode=ZERO).reshape((N, D))
    s = ct.mma(qt, ct.transpose(kt), ct.zeros((M, N), ct.float32)) * (scale * LOG2E)
    s = ct.where(ct.arange(N, dtype=ct.int32).reshape((1, N)) < k.shape[1], s, -1.0e30)
    p = ct.exp2(s - ct.max(s, 1, keepdims=True))
    total = ct.sum(p, 1, keepdims=True)
    vt = ct.load(v, (h, 0, 0), (1, N, D), padding_mode=ZERO).reshape((N, D))
    acc = ct.mma(p.astype(v.dtype), vt, ct.zeros((M, D), ct.float32))
    ct.store(o, (h, i, 0), (acc / total).astype(o.dtype).reshape((1, M, D)))


@ct.kernel
def one_deep(a, b, r, c, M: Const, N: Const, K: Const):
    """A product as deep as one tile, and what is added to it."""
    i, j = ct.bid(0), ct.bid(1)
    at = ct.load(a, (i, 0), (M, K), padding_mode=ZERO)
    bt = ct.load(b, (0, j), (K, N), padding_mode=ZERO)
    acc = ct.mma(at, bt, ct.zeros((M, N), ct.float32))
    ct.store(c, (i, j), (acc + ct.load(r, (i, j), (M, N)).astype(ct.float32)).astype(c.dtype))


@ct.kernel
def in_a_row(a, b, d, s, c, M: Const, N: Const):
    """gelu-like: c = ((a s) b) d + a, where rows are scaled before they are multiplied; all that is computed is kept."""
    i = ct.bid(0)
    at = ct.load(a, (i, 0), (M, N), padding_mode=ZERO)
    scaled = (at.astype(ct.float32) * ct.load(s, (i,), (M,)).reshape((M, 1))).astype(a.dtype)
    first = ct.mma(scaled, ct.load(b, (0, 0), (N, N)), ct.zeros((M, N), ct.float32))
    first = ct.maximum(first, 0.0)
    second = ct.mma(first.astype(a.dtype), ct.load(d, (0, 0), (N, N)), ct.zeros((M, N), ct.float32))
    ct.store(c, (i, 0), second + first + at.astype(ct.float32))
