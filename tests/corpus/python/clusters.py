"""Tile blocks that the CTAs of a cluster share (num_ctas), and some that they cannot share."""

import cuda.tile as ct

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO
NEG = ct.PaddingMode.NEG_INF


@ct.kernel(num_ctas=2)
def product_2(a, b, c, M: Const, N: Const, K: Const):
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        y = ct.load(b, (k, j), (K, N), padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel(num_ctas=4)
def product_4(a, b, c, M: Const, N: Const, K: Const):
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        y = ct.load(b, (k, j), (K, N), padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel(num_ctas=2)
def persistent_2(a, b, c, M: Const, N: Const, K: Const):
    """Blocks that go on to further tiles: the number of tile blocks counts clusters."""
    columns = ct.cdiv(c.shape[1], N)
    tiles = ct.cdiv(c.shape[0], M) * columns
    for t in range(ct.bid(0), tiles, ct.num_blocks(0)):
        i, j = t // columns, t % columns
        acc = ct.zeros((M, N), ct.float32)
        for k in range(ct.cdiv(a.shape[1], K)):
            x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
            y = ct.load(b, (k, j), (K, N), padding_mode=ZERO)
            acc = ct.mma(x, y, acc)
        ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel(num_ctas=2)
def linear_relu(a, b, bias, c, M: Const, N: Const, K: Const):
    """A bias that every CTA needs whole, both operands transposed, and a result that is stored transposed."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[0], K)):
        x = ct.load(a, (k, i), (K, M), padding_mode=ZERO)
        y = ct.load(b, (j, k), (N, K), padding_mode=ZERO)
        acc = ct.mma(ct.transpose(x), ct.transpose(y), acc)
    acc = acc + ct.load(bias, (j,), (N,), padding_mode=ZERO).reshape((1, N)).astype(ct.float32)
    ct.store(c, (j, i), ct.transpose(ct.maximum(acc, 0.0)).astype(c.dtype))


@ct.kernel(num_ctas=2)
def attention(q, k, v, o, lse, M: Const, N: Const, D: Const):
    i, h = ct.bid(0), ct.bid(1)
    qt = ct.load(q, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
    top = ct.full((M, 1), -1.0e30, ct.float32)
    total = ct.zeros((M, 1), ct.float32)
    acc = ct.zeros((M, D), ct.float32)
    n = k.shape[1]
    for j in range(ct.cdiv(n, N)):
        kt = ct.load(k, (h, 0, j), (1, D, N), order=(0, 2, 1), padding_mode=ZERO).reshape((D, N))
        s = ct.mma(qt, kt, ct.zeros((M, N), ct.float32)) * 0.18033688
        s = ct.where((j * N + ct.arange(N, dtype=ct.int32)).reshape((1, N)) < n, s, -1.0e30)
        new = ct.maximum(top, ct.max(s, 1, keepdims=True))
        p = ct.exp2(s - new)
        fix = ct.exp2(top - new)
        total = total * fix + ct.sum(p, 1, keepdims=True)
        vt = ct.load(v, (h, j, 0), (1, N, D), padding_mode=ZERO).reshape((N, D))
        acc = ct.mma(p.astype(v.dtype), vt, acc * fix)
        top = new
    ct.store(o, (h, i, 0), (acc / total).astype(o.dtype).reshape((1, M, D)))
    ct.store(lse, (h, i), (top + ct.log2(total)).reshape((1, M)))


@ct.kernel(num_ctas=2)
def add_2(x, y, z, T: Const):
    b = ct.bid(0)
    ct.store(z, (b,), ct.load(x, (b,), (T,)) + ct.load(y, (b,), (T,)))


@ct.kernel(num_ctas=4)
def add_4(x, y, z, T: Const):
    b = ct.bid(0)
    ct.store(z, (b,), ct.load(x, (b,), (T,)) + ct.load(y, (b,), (T,)))


@ct.kernel(num_ctas=4)
def softmax_rows(x, y, R: Const, C: Const):
    """Rows are divided, columns are not."""
    b = ct.bid(0)
    v = ct.load(x, (b, 0), (R, C), padding_mode=NEG).astype(ct.float32)
    e = ct.exp(v - ct.max(v, 1, keepdims=True))
    ct.store(y, (b, 0), (e / ct.sum(e, 1, keepdims=True)).astype(y.dtype))


@ct.kernel(num_ctas=2)
def scale_in_place(x, R: Const, C: Const):
    """Loads and stores of one array: each CTA touches its own rows of it."""
    b = ct.bid(0)
    for _ in range(3):
        ct.store(x, (b, 0), ct.load(x, (b, 0), (R, C), padding_mode=ZERO) * 2.0 + 1.0)


@ct.kernel(num_ctas=2)
def gather_rows(x, rows, y, R: Const, C: Const):
    """Elements by number, their numbers counted up in the tile, and a choice that depends on these."""
    b = ct.bid(0)
    at = b * R + ct.arange(R, dtype=ct.int32)
    row = ct.gather(rows, at, padding_value=0).reshape((R, 1))
    column = ct.arange(C, dtype=ct.int32).reshape((1, C))
    v = ct.gather(x, (row, column), padding_value=0)
    v = ct.where(at.reshape((R, 1)) % 2 == 0, v, -v)
    ct.scatter(y, (at.reshape((R, 1)), column), v)


@ct.kernel(num_ctas=2)
def branches(x, y, T: Const):
    """Tiles that branches yield and a loop carries until a condition that is loaded holds."""
    b = ct.bid(0)
    v = ct.load(x, (b,), (T,), padding_mode=ZERO)
    first = ct.load(x, (0,), (1,)).item()
    if first > 0.0:
        w = v * 2.0
    else:
        w = v - 1.0
    n = 0
    while True:
        w = w * 0.5
        n = n + 1
        if n > 3:
            break
    ct.store(y, (b,), w)


@ct.kernel(num_ctas=2)
def softmax_row(x, y, C: Const):
    """Refused: one row, whose sum every CTA would need."""
    b = ct.bid(0)
    v = ct.load(x, (b, 0), (1, C), padding_mode=NEG)
    e = ct.exp(v - ct.max(v, 1, keepdims=True))
    ct.store(y, (b, 0), e / ct.sum(e, 1, keepdims=True))


@ct.kernel(num_ctas=2)
def shifted_in_place(x, T: Const):
    """Refused: what the other CTA stores is loaded behind it."""
    b = ct.bid(0)
    ct.store(x, (2 * b,), ct.load(x, (2 * b,), (T,), padding_mode=ZERO) + 1.0)
    at = 2 * b * T + ct.arange(T, dtype=ct.int32)
    v = ct.gather(x, 2 * b * T + T - 1 - ct.arange(T, dtype=ct.int32))
    ct.scatter(x, at + T, v)


@ct.kernel(num_ctas=2)
def counted(x, counts, T: Const, BINS: Const):
    """Refused: atomic additions."""
    b = ct.bid(0)
    v = ct.load(x, (b,), (T,), padding_mode=ZERO)
    ct.atomic_add(counts, v % BINS, 1)
