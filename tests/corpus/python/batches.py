"""Products of tiles of three dimensions in loops: batches that have operands of their own, share one, or are added up."""

import cuda.tile as ct

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def batches(a, b, c, B: Const, M: Const, N: Const, K: Const):
    """Each batch has a left and a right operand of its own."""
    z, i, j = ct.bid(2), ct.bid(0), ct.bid(1)
    acc = ct.zeros((B, M, N), ct.float32)
    for k in range(ct.num_tiles(a, 2, (B, M, K))):
        x = ct.load(a, (z, i, k), (B, M, K), padding_mode=ZERO)
        y = ct.load(b, (z, k, j), (B, K, N), padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
    ct.store(c, (z, i, j), acc.astype(c.dtype))


@ct.kernel
def batches_persistent(a, b, c, B: Const, M: Const, N: Const, K: Const):
    """Blocks take tiles in turn; the right operand is turned."""
    rows, columns, parts = ct.cdiv(c.shape[1], M), ct.cdiv(c.shape[2], N), ct.cdiv(c.shape[0], B)
    for t in range(ct.bid(0), rows * columns * parts, ct.num_blocks(0)):
        z, i, j = t // (rows * columns), t // columns % rows, t % columns
        acc = ct.zeros((B, M, N), ct.float32)
        for k in range(ct.num_tiles(a, 2, (B, M, K))):
            x = ct.load(a, (z, i, k), (B, M, K), padding_mode=ZERO)
            y = ct.load(b, (z, j, k), (B, N, K), padding_mode=ZERO)
            acc = ct.mma(x, ct.permute(y, (0, 2, 1)), acc)
        ct.store(c, (z, i, j), acc.astype(c.dtype))


@ct.kernel
def batches_attention(q, k, v, o, scale, B: Const, M: Const, N: Const, D: Const):
    """Attention of several heads in one tile."""
    z, i = ct.bid(1), ct.bid(0)
    x = ct.load(q, (z, i, 0), (B, M, D), padding_mode=ZERO)
    most = ct.full((B, M, 1), -1e30, ct.float32)
    total = ct.zeros((B, M, 1), ct.float32)
    acc = ct.zeros((B, M, D), ct.float32)
    for j in range(ct.num_tiles(k, 1, (B, N, D))):
        y = ct.permute(ct.load(k, (z, j, 0), (B, N, D), padding_mode=ZERO), (0, 2, 1))
        p = ct.mma(x, y, ct.zeros((B, M, N), ct.float32)) * scale
        p = ct.where((j * N + ct.arange(N, dtype=ct.int32))[None, None, :] < k.shape[1], p, -1e30)
        high = ct.maximum(most, ct.max(p, 2, keepdims=True))
        p, factor = ct.exp(p - high), ct.exp(most - high)
        total = total * factor + ct.sum(p, 2, keepdims=True)
        acc = ct.mma(p.astype(v.dtype), ct.load(v, (z, j, 0), (B, N, D), padding_mode=ZERO), acc * factor)
        most = high
    ct.store(o, (z, i, 0), (acc / total).astype(o.dtype))


@ct.kernel
def batches_with_one_left(a, b, c, B: Const, M: Const, N: Const, K: Const):
    """The left operand is the same for all batches."""
    z, i, j = ct.bid(2), ct.bid(0), ct.bid(1)
    acc = ct.zeros((B, M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        x = ct.broadcast_to(ct.load(a, (i, k), (M, K), padding_mode=ZERO)[None, :, :], (B, M, K))
        acc = ct.mma(x, ct.load(b, (z, k, j), (B, K, N), padding_mode=ZERO), acc)
    ct.store(c, (z, i, j), acc.astype(c.dtype))


@ct.kernel
def batches_added(a, b, c, B: Const, M: Const, N: Const, K: Const):
    """The products of all batches are added up."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((B, M, N), ct.float32)
    for k in range(ct.num_tiles(a, 2, (B, M, K))):
        x = ct.load(a, (0, i, k), (B, M, K), padding_mode=ZERO)
        y = ct.load(b, (0, k, j), (B, K, N), padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
    ct.store(c, (i, j), ct.sum(acc, 0).astype(c.dtype))
