"""Matrix products: plain K loops, transposed operands, batched, split-K, persistent, grouped, mixture of
experts.
"""

import cuda.tile as ct

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def matmul(a, b, c, M: Const, N: Const, K: Const):
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        acc = ct.mma(
            ct.load(a, (i, k), (M, K), padding_mode=ZERO), ct.load(b, (k, j), (K, N), padding_mode=ZERO), acc
        )
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def matmul_tf32(a, b, c, M: Const, N: Const, K: Const):
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO).astype(ct.tfloat32)
        y = ct.load(b, (k, j), (K, N), padding_mode=ZERO).astype(ct.tfloat32)
        acc = ct.mma(x, y, acc)
    ct.store(c, (i, j), acc)


@ct.kernel
def matmul_f64(a, b, c, M: Const, N: Const, K: Const):
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float64)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        acc = ct.mma(
            ct.load(a, (i, k), (M, K), padding_mode=ZERO), ct.load(b, (k, j), (K, N), padding_mode=ZERO), acc
        )
    ct.store(c, (i, j), acc)


@ct.kernel
def matmul_f16_acc(a, b, c, M: Const, N: Const, K: Const):
    """Half-precision accumulator."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float16)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        acc = ct.mma(
            ct.load(a, (i, k), (M, K), padding_mode=ZERO), ct.load(b, (k, j), (K, N), padding_mode=ZERO), acc
        )
    ct.store(c, (i, j), acc)


@ct.kernel
def matmul_int8(a, b, c, M: Const, N: Const, K: Const):
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.int32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        acc = ct.mma(
            ct.load(a, (i, k), (M, K), padding_mode=ZERO), ct.load(b, (k, j), (K, N), padding_mode=ZERO), acc
        )
    ct.store(c, (i, j), acc)


@ct.kernel
def matmul_nt(a, b, c, M: Const, N: Const, K: Const):
    """b is stored N x K; the tile is transposed in registers."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        y = ct.transpose(ct.load(b, (j, k), (N, K), padding_mode=ZERO))
        acc = ct.mma(ct.load(a, (i, k), (M, K), padding_mode=ZERO), y, acc)
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def matmul_tn(a, b, c, M: Const, N: Const, K: Const):
    """a is stored K x M, read through a view with swapped dimensions."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(b, 0, (K, N))):
        x = ct.load(a, (i, k), (M, K), order="F", padding_mode=ZERO)
        acc = ct.mma(x, ct.load(b, (k, j), (K, N), padding_mode=ZERO), acc)
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def linear_gelu(a, w, bias, c, M: Const, N: Const, K: Const):
    """Product with bias and activation in the epilogue."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        acc = ct.mma(
            ct.load(a, (i, k), (M, K), padding_mode=ZERO), ct.load(w, (k, j), (K, N), padding_mode=ZERO), acc
        )
    v = acc + ct.load(bias, (j,), (N,), padding_mode=ZERO).reshape((1, N)).astype(ct.float32)
    v = 0.5 * v * (1.0 + ct.tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)))
    ct.store(c, (i, j), v.astype(c.dtype))


@ct.kernel
def batched(a, b, c, M: Const, N: Const, K: Const):
    i, j, z = ct.bid(0), ct.bid(1), ct.bid(2)
    acc = ct.zeros((1, M, N), ct.float32)
    for k in range(ct.num_tiles(a, 2, (1, M, K))):
        x = ct.load(a, (z, i, k), (1, M, K), padding_mode=ZERO)
        y = ct.load(b, (z, k, j), (1, K, N), padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
    ct.store(c, (z, i, j), acc.astype(c.dtype))


@ct.kernel
def batched_tile(a, b, c, B: Const, M: Const, N: Const, K: Const):
    """Several matrices in one rank-3 mma."""
    acc = ct.mma(
        ct.load(a, (0, 0, 0), (B, M, K)), ct.load(b, (0, 0, 0), (B, K, N)), ct.zeros((B, M, N), ct.float32)
    )
    ct.store(c, (0, 0, 0), acc)


@ct.kernel
def split_k(a, b, c, M: Const, N: Const, K: Const, S: Const):
    """Every block adds its share of K atomically."""
    i, j, s = ct.bid(0), ct.bid(1), ct.bid(2)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(s, ct.num_tiles(a, 1, (M, K)), S):
        acc = ct.mma(
            ct.load(a, (i, k), (M, K), padding_mode=ZERO), ct.load(b, (k, j), (K, N), padding_mode=ZERO), acc
        )
    rows = (i * M + ct.arange(M, dtype=ct.int32)).reshape((M, 1))
    cols = (j * N + ct.arange(N, dtype=ct.int32)).reshape((1, N))
    ct.atomic_add(c, (rows, cols), acc)


@ct.kernel
def persistent(a, b, c, M: Const, N: Const, K: Const):
    """Fewer blocks than tiles: each block walks over several."""
    tm, tn = ct.cdiv(a.shape[0], M), ct.cdiv(b.shape[1], N)
    kt = ct.num_tiles(a, 1, (M, K))
    for t in range(ct.bid(0), tm * tn, ct.num_blocks(0)):
        i, j = t // tn, t % tn
        acc = ct.zeros((M, N), ct.float32)
        for k in range(kt):
            acc = ct.mma(
                ct.load(a, (i, k), (M, K), padding_mode=ZERO),
                ct.load(b, (k, j), (K, N), padding_mode=ZERO),
                acc,
            )
        ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def grouped_order(a, b, c, M: Const, N: Const, K: Const, G: Const):
    """One-dimensional grid walked in groups of G row tiles, for cache reuse."""
    tm, tn = ct.cdiv(a.shape[0], M), ct.cdiv(b.shape[1], N)
    t = ct.bid(0)
    group = t // (G * tn)
    height = ct.minimum(tm - group * G, G)
    i = group * G + (t % (G * tn)) % height
    j = (t % (G * tn)) // height
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        acc = ct.mma(
            ct.load(a, (i, k), (M, K), padding_mode=ZERO), ct.load(b, (k, j), (K, N), padding_mode=ZERO), acc
        )
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def grouped(a_list, b_list, c_list, M: Const, N: Const, K: Const):
    """Several products of different sizes in one launch, through lists of arrays."""
    last = 0
    t = ct.bid(0)
    for g in range(len(a_list)):
        a, b, c = a_list[g], b_list[g], c_list[g]
        tm, tn = ct.cdiv(a.shape[0], M), ct.cdiv(b.shape[1], N)
        count = tm * tn
        if t >= last and t < last + count:
            i, j = (t - last) // tn, (t - last) % tn
            acc = ct.zeros((M, N), ct.float32)
            for k in range(ct.num_tiles(a, 1, (M, K))):
                acc = ct.mma(
                    ct.load(a, (i, k), (M, K), padding_mode=ZERO),
                    ct.load(b, (k, j), (K, N), padding_mode=ZERO),
                    acc,
                )
            ct.store(c, (i, j), acc.astype(c.dtype))
        last = last + count


@ct.kernel
def experts(x, w, order, expert_of_tile, y, M: Const, N: Const, K: Const):
    """Mixture of experts: rows gathered by `order`, each row tile served by one expert's matrix."""
    i, j = ct.bid(0), ct.bid(1)
    e = ct.gather(expert_of_tile, i)
    rows = ct.gather(order, i * M + ct.arange(M, dtype=ct.int32), padding_value=-1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(x.shape[1], K)):
        cols = k * K + ct.arange(K, dtype=ct.int32)
        a = ct.gather(x, (rows.reshape((M, 1)), cols.reshape((1, K))), padding_value=0.0)
        b = ct.load(w, (e, k, j), (1, K, N), padding_mode=ZERO).reshape((K, N))
        acc = ct.mma(a, b, acc)
    out = j * N + ct.arange(N, dtype=ct.int32)
    ct.scatter(y, (rows.reshape((M, 1)), out.reshape((1, N))), acc.astype(y.dtype))


@ct.kernel
def matvec(a, x, y, M: Const, K: Const):
    """Matrix times vector without mma."""
    i = ct.bid(0)
    acc = ct.zeros((M, K), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        acc += ct.load(a, (i, k), (M, K), padding_mode=ZERO) * ct.load(
            x, (k,), (K,), padding_mode=ZERO
        ).reshape((1, K))
    ct.store(y, (i,), ct.sum(acc, 1))


@ct.kernel
def scaled_fp8(a, sa, b, sb, c, M: Const, N: Const, K: Const):
    """Block-scaled product of fp8 operands, one e8m0 scale per 32 of K."""
    t = ct.mma_scaled(
        ct.load(a, (0, 0), (M, K)),
        ct.load(sa, (0, 0), (M, K // 32)),
        ct.load(b, (0, 0), (K, N)),
        ct.load(sb, (0, 0), (K // 32, N)),
        ct.zeros((M, N), ct.float32),
    )
    ct.store(c, (0, 0), t)


@ct.kernel
def dequantized(a, q, scale, c, M: Const, N: Const, K: Const):
    """Weights of 8-bit integers with one scale per column, widened before the product."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        w = ct.load(q, (k, j), (K, N), padding_mode=ZERO).astype(ct.float16)
        acc = ct.mma(ct.load(a, (i, k), (M, K), padding_mode=ZERO), w, acc)
    s = ct.load(scale, (j,), (N,), padding_mode=ZERO).reshape((1, N))
    ct.store(c, (i, j), acc * s)


@ct.kernel
def residual(a, b, r, c, M: Const, N: Const, K: Const):
    """What is added behind the loop is as large as the accumulator."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        y = ct.load(b, (k, j), (K, N), padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
    acc = acc + ct.load(r, (i, j), (M, N), padding_mode=ZERO).astype(ct.float32)
    ct.store(c, (i, j), acc.astype(c.dtype))
