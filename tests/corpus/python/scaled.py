"""Block-scaled matrix products in loops over K."""

import cuda.tile as ct

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def scaled_loop(a, sa, b, sb, c, M: Const, N: Const, K: Const, S: Const):
    """A scale for S elements along K; B is stored with N innermost."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        y = ct.load(b, (k, j), (K, N), padding_mode=ZERO)
        u = ct.load(sa, (i, k), (M, K // S), padding_mode=ZERO)
        v = ct.load(sb, (k, j), (K // S, N), padding_mode=ZERO)
        acc = ct.mma_scaled(x, u, y, v, acc)
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def scaled_loop_nt(a, sa, b, sb, c, M: Const, N: Const, K: Const, S: Const):
    """B and its scales are stored with K innermost."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        y = ct.load(b, (k, j), (K, N), order="F", padding_mode=ZERO)
        u = ct.load(sa, (i, k), (M, K // S), padding_mode=ZERO)
        v = ct.load(sb, (k, j), (K // S, N), order="F", padding_mode=ZERO)
        acc = ct.mma_scaled(x, u, y, v, acc)
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def four_bits_loop(a, sa, b, sb, c, M: Const, N: Const, K: Const, S: Const):
    """Four bits an element, two neighbours along K to a byte; B is stored as rows of N."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K // 2)):
        x = ct.load(a, (i, k), (M, K // 2), padding_mode=ZERO)
        y = ct.load(b, (j, k), (N, K // 2), padding_mode=ZERO)
        x = ct.unpack_from_bytes(x.reshape((M * K // 2,)), ct.float4_e2m1fn).reshape((M, K))
        y = ct.unpack_from_bytes(y.reshape((N * K // 2,)), ct.float4_e2m1fn).reshape((N, K)).transpose()
        u = ct.load(sa, (i, k), (M, K // S), padding_mode=ZERO)
        v = ct.load(sb, (k, j), (K // S, N), order="F", padding_mode=ZERO)
        acc = ct.mma_scaled(x, u, y, v, acc)
    ct.store(c, (i, j), acc.astype(c.dtype))
