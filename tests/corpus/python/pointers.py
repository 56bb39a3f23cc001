"""Matrix products whose operands come by tiles of indices: gathers on both sides, gathered rows, pixels of images."""

import cuda.tile as ct

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def by_index(a, b, c, M: Const, N: Const, K: Const, AT: Const, BT: Const):
    """AT and BT: the operand is stored with K outermost (A) or innermost (B)."""
    i, j = ct.bid(0), ct.bid(1)
    rows = (i * M + ct.arange(M, dtype=ct.int32))[:, None]
    cols = (j * N + ct.arange(N, dtype=ct.int32))[None, :]
    acc = ct.zeros((M, N), c.dtype)
    for k in range(ct.cdiv(a.shape[0 if AT else 1], K)):
        depth = k * K + ct.arange(K, dtype=ct.int32)
        across, down = depth[None, :], depth[:, None]
        x = ct.gather(a, (across, rows)) if AT else ct.gather(a, (rows, across))
        y = ct.gather(b, (cols, down)) if BT else ct.gather(b, (down, cols))
        acc = ct.mma(x, y, acc)
    ct.store(c, (i, j), acc)


@ct.kernel
def by_index_tf32(a, b, c, M: Const, N: Const, K: Const):
    i, j = ct.bid(0), ct.bid(1)
    rows = (i * M + ct.arange(M, dtype=ct.int32))[:, None]
    cols = (j * N + ct.arange(N, dtype=ct.int32))[None, :]
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        depth = k * K + ct.arange(K, dtype=ct.int32)
        x = ct.gather(a, (rows, depth[None, :])).astype(ct.tfloat32)
        y = ct.gather(b, (depth[:, None], cols)).astype(ct.tfloat32)
        acc = ct.mma(x, y, acc)
    ct.store(c, (i, j), acc)


@ct.kernel
def gathered_rows(a, b, ids, c, M: Const, N: Const, K: Const):
    """Rows of A by a list of indices, some outside of it; B by tiles, its bytes widened."""
    i, j = ct.bid(0), ct.bid(1)
    rows = ct.load(ids, (i,), (M,), padding_mode=ZERO)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        cols = k * K + ct.arange(K, dtype=ct.int32)
        x = ct.gather(a, (rows[:, None], cols[None, :]))
        y = ct.load(b, (k, j), (K, N), padding_mode=ZERO).astype(a.dtype)
        acc = ct.mma(x, y, acc)
    ct.store(c, (i, j), acc)


@ct.kernel
def other_padding(a, b, c, M: Const, N: Const, K: Const):
    """What lies outside of A counts as ones: no copy brings those."""
    i, j = ct.bid(0), ct.bid(1)
    rows = (i * M + ct.arange(M, dtype=ct.int32))[:, None]
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        depth = k * K + ct.arange(K, dtype=ct.int32)
        x = ct.gather(a, (rows, depth[None, :]), padding_value=1)
        y = ct.load(b, (k, j), (K, N), padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
    ct.store(c, (i, j), acc)


@ct.kernel
def convolution(x, w, y, P: Const, N: Const, K: Const, H: Const, W: Const, R: Const):
    """NHWC with padding: pixels of images of H x W, R x R taps, as a product a tap."""
    i, j = ct.bid(0), ct.bid(1)
    p = i * P + ct.arange(P, dtype=ct.int32)
    n, at = p // (H * W), p % (H * W)
    h, v = at // W, at % W
    acc = ct.zeros((P, N), ct.float32)
    for r in range(R):
        for s in range(R):
            ih, iw = h + r - R // 2, v + s - R // 2
            for k in range(ct.cdiv(x.shape[3], K)):
                ch = k * K + ct.arange(K, dtype=ct.int32)
                a = ct.gather(x, (n[:, None], ih[:, None], iw[:, None], ch[None, :]), padding_value=0)
                b = ct.load(w, (r, s, k, j), (1, 1, K, N), padding_mode=ZERO).reshape((K, N))
                acc = ct.mma(a, b, acc)
    ct.store(y, (i, j), acc.astype(y.dtype))


@ct.kernel
def attention_by_index(q, k, v, o, scale, M: Const, N: Const, D: Const):
    """One head; keys and values come row by row of an index tile."""
    i = ct.bid(0)
    lanes = ct.arange(D, dtype=ct.int32)[None, :]
    qt = ct.load(q, (i, 0), (M, D), padding_mode=ZERO)
    top = ct.full((M, 1), -1e30, ct.float32)
    total = ct.zeros((M, 1), ct.float32)
    acc = ct.zeros((M, D), ct.float32)
    for t in range(ct.cdiv(k.shape[0], N)):
        keys = t * N + ct.arange(N, dtype=ct.int32)
        kt = ct.gather(k, (keys[:, None], lanes))
        s = ct.mma(qt, ct.permute(kt, (1, 0)), ct.zeros((M, N), ct.float32)) * scale
        s = ct.where(keys[None, :] < k.shape[0], s, -1e30)
        high = ct.maximum(top, ct.max(s, axis=1, keepdims=True))
        p = ct.exp(s - high)
        shrink = ct.exp(top - high)
        total = total * shrink + ct.sum(p, axis=1, keepdims=True)
        vt = ct.gather(v, (keys[:, None], lanes))
        acc = ct.mma(p.astype(v.dtype), vt, acc * shrink)
        top = high
    ct.store(o, (i, 0), (acc / total).astype(o.dtype))


@ct.kernel
def listed_rows(a, b, ids, c, M: Const, N: Const, K: Const):
    """Rows of B by a list of indices, some outside of it: each step loads those of its own."""
    i, j = ct.bid(0), ct.bid(1)
    cols = j * N + ct.arange(N, dtype=ct.int32)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        rows = ct.load(ids, (k,), (K,), padding_mode=ZERO)
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        y = ct.gather(b, (rows[:, None], cols[None, :]))
        acc = ct.mma(x, y, acc)
    ct.store(c, (i, j), acc)


@ct.kernel
def rows_through_view(a, b, ids, c, M: Const, N: Const, K: Const):
    """As `gathered_rows`, through a view that takes its rows by number."""
    i, j = ct.bid(0), ct.bid(1)
    rows = ct.load(ids, (i,), (M,), padding_mode=ZERO)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.load_advanced_indexing(a, (rows, ct.Slice(k * K, K)), padding_mode=ZERO)
        y = ct.load(b, (k, j), (K, N), padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
    ct.store(c, (i, j), acc)


@ct.kernel
def listed_through_view(a, b, ids, c, M: Const, N: Const, K: Const):
    """As `listed_rows`, through such a view."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        rows = ct.load(ids, (k,), (K,), padding_mode=ZERO)
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        y = ct.load_advanced_indexing(b, (rows, ct.Slice(j * N, N)), padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
    ct.store(c, (i, j), acc)


@ct.kernel
def rows_from_anywhere(a, b, ids, c, start, M: Const, N: Const, K: Const):
    """The columns of the rows begin at a number of which nothing is known."""
    i = ct.bid(0)
    rows = ct.load(ids, (i,), (M,), padding_mode=ZERO)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(b.shape[0], K)):
        x = ct.load_advanced_indexing(a, (rows, ct.Slice(k * K + start, K)), padding_mode=ZERO)
        acc = ct.mma(x, ct.load(b, (k, 0), (K, N), padding_mode=ZERO), acc)
    ct.store(c, (i, 0), acc)


@ct.kernel
def sparse_blocks(values, first, columns, b, c, M: Const, N: Const, K: Const):
    """Blocks of a sparse matrix, one behind the other, each beside the rows of B that a list names."""
    i, j = ct.bid(0), ct.bid(1)
    at = ct.gather(first, i)
    acc = ct.zeros((M, N), ct.float32)
    while at < ct.gather(first, i + 1):
        x = ct.load(values, (at, 0, 0), (1, M, K)).reshape((M, K))
        y = ct.load(b, (ct.gather(columns, at), j), (K, N), padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
        at += 1
    ct.store(c, (i, j), acc)


@ct.kernel
def listed_pages(a, b, pages, c, M: Const, N: Const, K: Const):
    """Rows of both operands by a table of pages of 16 rows, whose numbers are gathered themselves."""
    i, j = ct.bid(0), ct.bid(1)
    lines = i * M + ct.arange(M, dtype=ct.int32)
    cols = j * N + ct.arange(N, dtype=ct.int32)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(pages.shape[0] * 16, K)):
        at = k * K + ct.arange(K, dtype=ct.int32)
        rows = ct.gather(pages, at // 16, padding_value=-1) * 16 + at % 16
        x = ct.gather(a, (rows[:, None], lines[None, :]))
        y = ct.gather(b, (rows[:, None], cols[None, :]))
        acc = ct.mma(ct.transpose(x), y, acc)
    ct.store(c, (i, j), acc)


@ct.kernel
def begun_again(a, b, c, M: Const, N: Const, K: Const, BACK: Const):
    """Rows and columns that begin again behind the last one; the first tiles of columns lie BACK tiles in front of zero."""
    i, j = ct.bid(0), ct.bid(1)
    rows = (i * M + ct.arange(M, dtype=ct.int32)) % a.shape[0]
    cols = ((j - BACK) * N + ct.arange(N, dtype=ct.int32)) % b.shape[1]
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        depth = k * K + ct.arange(K, dtype=ct.int32)
        x = ct.gather(a, (rows[:, None], depth[None, :]), padding_value=0)
        y = ct.gather(b, (depth[:, None], cols[None, :]), padding_value=0)
        acc = ct.mma(x, y, acc)
    ct.store(c, (i, j), acc)


@ct.kernel
def signs_of_remainders(x, y, n, T: Const):
    """Remainders of numbers on both sides of zero, by numbers of both signs."""
    at = ct.bid(0) * T - T + ct.arange(T, dtype=ct.int32)
    ct.store(y, (ct.bid(0), 0), ct.gather(x, at % 16).reshape((1, T)))
    ct.store(y, (ct.bid(0), 1), ct.gather(x, at % -16 + 15).reshape((1, T)))
    ct.store(y, (ct.bid(0), 2), ct.gather(x, at % x.shape[0]).reshape((1, T)))
    ct.store(y, (ct.bid(0), 3), ct.gather(x, at % n + 32).reshape((1, T)))
