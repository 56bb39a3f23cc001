"""Products whose operands are masked on their way."""

import cuda.tile as ct

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def lower_triangle(a, b, c, M: Const, N: Const, K: Const):
    """C = tril(A) B: sums end at the diagonal, whose tiles are masked."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    rows = i * M + ct.arange(M, dtype=ct.int32).reshape((M, 1))
    for k in range(ct.cdiv((i + 1) * M, K)):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        columns = k * K + ct.arange(K, dtype=ct.int32).reshape((1, K))
        x = ct.where(columns <= rows, x, 0.0).astype(a.dtype)
        acc = ct.mma(x, ct.load(b, (k, j), (K, N), padding_mode=ZERO), acc)
    ct.store(c, (i, j), acc)
