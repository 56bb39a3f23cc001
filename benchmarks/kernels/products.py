"""Matrix products of production size: plain, transposed operands, converted operands, persistent, grouped, split-K."""

import cuda.tile as ct

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def product(a, b, c, M: Const, N: Const, K: Const, AT: Const, BT: Const):
    """AT and BT: the operand is stored with K outermost (A) or innermost (B)."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[0 if AT else 1], K)):
        x = ct.load(a, (i, k), (M, K), order="F" if AT else "C", padding_mode=ZERO)
        y = ct.load(b, (k, j), (K, N), order="F" if BT else "C", padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def product_float64(a, b, c, M: Const, N: Const, K: Const, AT: Const, BT: Const):
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float64)
    for k in range(ct.cdiv(a.shape[0 if AT else 1], K)):
        x = ct.load(a, (i, k), (M, K), order="F" if AT else "C", padding_mode=ZERO)
        y = ct.load(b, (k, j), (K, N), order="F" if BT else "C", padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
    ct.store(c, (i, j), acc)


@ct.kernel
def transposed_in_registers(a, b, c, M: Const, N: Const, K: Const):
    """B is stored N x K, loaded so and transposed as a value."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        y = ct.load(b, (j, k), (N, K), padding_mode=ZERO)
        acc = ct.mma(x, ct.transpose(y), acc)
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def weights_8bit(a, q, scale, c, M: Const, N: Const, K: Const, BT: Const):
    """8-bit weights with one scale a column, widened before the product."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        w = ct.load(q, (k, j), (K, N), order="F" if BT else "C", padding_mode=ZERO)
        acc = ct.mma(x, w.astype(a.dtype), acc)
    s = ct.load(scale, (j,), (N,), padding_mode=ZERO).astype(ct.float32).reshape((1, N))
    ct.store(c, (i, j), (acc * s).astype(c.dtype))


@ct.kernel
def linear_gelu(a, w, bias, c, M: Const, N: Const, K: Const):
    """Product with bias and activation in the epilogue; W is stored N x K as a layer keeps it."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        y = ct.load(w, (k, j), (K, N), order="F", padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
    v = acc + ct.load(bias, (j,), (N,), padding_mode=ZERO).astype(ct.float32).reshape((1, N))
    v = 0.5 * v * (1.0 + ct.tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)))
    ct.store(c, (i, j), v.astype(c.dtype))


@ct.kernel
def persistent(a, b, c, M: Const, N: Const, K: Const):
    """Fewer blocks than tiles: each block walks over several."""
    across = ct.cdiv(b.shape[1], N)
    for t in range(ct.bid(0), ct.cdiv(a.shape[0], M) * across, ct.num_blocks(0)):
        i, j = t // across, t % across
        acc = ct.zeros((M, N), ct.float32)
        for k in range(ct.cdiv(a.shape[1], K)):
            x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
            y = ct.load(b, (k, j), (K, N), padding_mode=ZERO)
            acc = ct.mma(x, y, acc)
        ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def grouped_order(a, b, c, M: Const, N: Const, K: Const, G: Const):
    """A one-dimensional grid walked in groups of G row tiles, for cache reuse."""
    down, across = ct.cdiv(a.shape[0], M), ct.cdiv(b.shape[1], N)
    t = ct.bid(0)
    first = t // (G * across) * G
    height = ct.minimum(down - first, G)
    i = first + (t % (G * across)) % height
    j = (t % (G * across)) // height
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        y = ct.load(b, (k, j), (K, N), padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def grouped(a_list, b_list, c_list, M: Const, N: Const, K: Const):
    """Several products of different sizes in one launch, through lists of arrays."""
    last = 0
    t = ct.bid(0)
    for g in range(len(a_list)):
        a, b, c = a_list[g], b_list[g], c_list[g]
        across = ct.cdiv(b.shape[1], N)
        count = ct.cdiv(a.shape[0], M) * across
        if t >= last and t < last + count:
            i, j = (t - last) // across, (t - last) % across
            acc = ct.zeros((M, N), ct.float32)
            for k in range(ct.cdiv(a.shape[1], K)):
                x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
                y = ct.load(b, (k, j), (K, N), padding_mode=ZERO)
                acc = ct.mma(x, y, acc)
            ct.store(c, (i, j), acc.astype(c.dtype))
        last = last + count


@ct.kernel
def split_k(a, b, c, M: Const, N: Const, K: Const, S: Const):
    """Every block adds its share of K atomically."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.bid(2), ct.cdiv(a.shape[1], K), S):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        y = ct.load(b, (k, j), (K, N), padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
    rows = (i * M + ct.arange(M, dtype=ct.int32)).reshape((M, 1))
    cols = (j * N + ct.arange(N, dtype=ct.int32)).reshape((1, N))
    ct.atomic_add(c, (rows, cols), acc)


@ct.kernel(occupancy=1)
def hinted(a, b, c, M: Const, N: Const, K: Const):
    """Hints on the kernel and on both loads."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO, latency=4, allow_tma=True)
        y = ct.load(b, (k, j), (K, N), padding_mode=ZERO, latency=4, allow_tma=True)
        acc = ct.mma(x, y, acc)
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def weights_4bit(a, q, scale, c, M: Const, N: Const, K: Const):
    """4-bit weights, two to a byte along K, with one scale a row of N and step."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        w = ct.load(q, (j, k), (N, K // 2), padding_mode=ZERO)
        lo = (w & 15).astype(ct.int32) - 8
        hi = (w >> 4).astype(ct.int32) - 8
        y = ct.cat((lo.reshape((N, K // 2, 1)), hi.reshape((N, K // 2, 1))), 2).reshape((N, K))
        s = ct.load(scale, (j, k), (N, 1), padding_mode=ZERO)
        acc = ct.mma(x, ct.transpose(y.astype(a.dtype) * s), acc)
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def weights_in_words(a, q, scale, zero, c, M: Const, N: Const, K: Const):
    """4-bit weights, eight neighbours along N in a word, and zero points packed alike, a row of them and of scales a step."""
    i, j = ct.bid(0), ct.bid(1)
    nibbles = (ct.arange(8, dtype=ct.int32) * 4)[None, None, :]
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        w = ct.load(q, (k, j), (K, N // 8), padding_mode=ZERO)
        z = ct.load(zero, (k, j), (1, N // 8), padding_mode=ZERO)
        s = ct.load(scale, (k, j), (1, N), padding_mode=ZERO)
        less = ((z[:, :, None] >> nibbles) & 15).reshape((1, N))
        y = (((w[:, :, None] >> nibbles) & 15).reshape((K, N)) - less).astype(a.dtype) * s
        acc = ct.mma(ct.load(a, (i, k), (M, K), padding_mode=ZERO), y, acc)
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def weights_in_words_of_rows(a, q, scale, zero, c, M: Const, N: Const, K: Const):
    """4-bit weights, eight neighbours along K in a word; zero points are bytes, a column of them and of scales a step."""
    i, j = ct.bid(0), ct.bid(1)
    nibbles = (ct.arange(8, dtype=ct.int32) * 4)[None, None, :]
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        w = ct.load(q, (j, k), (N, K // 8), padding_mode=ZERO)
        z = ct.load(zero, (j, k), (N, 1), padding_mode=ZERO).astype(ct.int32)
        s = ct.load(scale, (j, k), (N, 1), padding_mode=ZERO)
        y = (((w[:, :, None] >> nibbles) & 15).reshape((N, K)) - z).astype(a.dtype) * s
        acc = ct.mma(ct.load(a, (i, k), (M, K), padding_mode=ZERO), ct.transpose(y), acc)
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def scaled_steps(a, sa, b, sb, c, M: Const, N: Const, K: Const):
    """In every step of K, a scale for each row of A and one for all of B."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        y = ct.load(b, (k, j), (K, N), order="F", padding_mode=ZERO)
        u = ct.load(sa, (i, k), (M, 1), padding_mode=ZERO)
        v = ct.load(sb, (j, k), (1, 1), padding_mode=ZERO)
        acc = acc + ct.mma(x, y, ct.zeros((M, N), ct.float32)) * (u * v)
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def batched(a, b, c, M: Const, N: Const, K: Const):
    """The batch stays a dimension of the tiles."""
    h, i, j = ct.bid(2), ct.bid(0), ct.bid(1)
    acc = ct.zeros((1, M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[2], K)):
        x = ct.load(a, (h, i, k), (1, M, K), padding_mode=ZERO)
        y = ct.load(b, (h, k, j), (1, K, N), padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
    ct.store(c, (h, i, j), acc.astype(c.dtype))


@ct.kernel
def gated(x, wg, wu, c, M: Const, N: Const, K: Const):
    """Two products of one left operand, joined by a gate."""
    i, j = ct.bid(0), ct.bid(1)
    g = ct.zeros((M, N), ct.float32)
    u = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(x.shape[1], K)):
        t = ct.load(x, (i, k), (M, K), padding_mode=ZERO)
        g = ct.mma(t, ct.load(wg, (k, j), (K, N), padding_mode=ZERO), g)
        u = ct.mma(t, ct.load(wu, (k, j), (K, N), padding_mode=ZERO), u)
    ct.store(c, (i, j), (g / (1.0 + ct.exp(-g)) * u).astype(c.dtype))


@ct.kernel
def gathered(a, b, ids, c, M: Const, N: Const, K: Const):
    """Rows of A by an index list, as experts take them."""
    i, j = ct.bid(0), ct.bid(1)
    rows = ct.load(ids, (i,), (M,), padding_mode=ZERO)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        cols = k * K + ct.arange(K, dtype=ct.int32)
        x = ct.gather(a, (rows[:, None], cols[None, :]))
        y = ct.load(b, (k, j), (K, N), padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
    out = j * N + ct.arange(N, dtype=ct.int32)
    ct.scatter(c, (rows[:, None], out[None, :]), acc.astype(c.dtype))


@ct.kernel
def by_index(a, b, c, M: Const, N: Const, K: Const):
    """Both operands by index tiles, as kernels come that were written with pointers."""
    i, j = ct.bid(0), ct.bid(1)
    rows = i * M + ct.arange(M, dtype=ct.int32)
    cols = j * N + ct.arange(N, dtype=ct.int32)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        depth = k * K + ct.arange(K, dtype=ct.int32)
        x = ct.gather(a, (rows[:, None], depth[None, :]))
        y = ct.gather(b, (depth[:, None], cols[None, :]))
        acc = ct.mma(x, y, acc)
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def convolution(x, w, y, P: Const, N: Const, K: Const, H: Const, W: Const, R: Const, S: Const):
    """NHWC, padded, as a product of gathered pixels and weights: images of H x W, R x S taps."""
    i, j = ct.bid(0), ct.bid(1)
    p = i * P + ct.arange(P, dtype=ct.int32)
    n, at = p // (H * W), p % (H * W)
    h, v = at // W, at % W
    acc = ct.zeros((P, N), ct.float32)
    for r in range(R):
        for s in range(S):
            ih, iw = h + r - R // 2, v + s - S // 2
            for k in range(ct.cdiv(x.shape[3], K)):
                ch = k * K + ct.arange(K, dtype=ct.int32)
                a = ct.gather(x, (n[:, None], ih[:, None], iw[:, None], ch[None, :]), padding_value=0)
                b = ct.load(w, (r, s, k, j), (1, 1, K, N), padding_mode=ZERO).reshape((K, N))
                acc = ct.mma(a, b, acc)
    ct.store(y, (i, j), acc.astype(y.dtype))


@ct.kernel
def positive_part(a, b, c, M: Const, N: Const, K: Const):
    """An activation between load and product."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.maximum(ct.load(a, (i, k), (M, K), padding_mode=ZERO), 0)
        y = ct.load(b, (k, j), (K, N), padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def f32_in_parts(a, b, c, M: Const, N: Const, K: Const):
    """f32 by three products of high and low halves in bf16."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        y = ct.load(b, (k, j), (K, N), padding_mode=ZERO)
        xh, yh = x.astype(ct.bfloat16), y.astype(ct.bfloat16)
        xl = (x - xh.astype(ct.float32)).astype(ct.bfloat16)
        yl = (y - yh.astype(ct.float32)).astype(ct.bfloat16)
        acc = ct.mma(xh, yh, ct.mma(xh, yl, ct.mma(xl, yh, acc)))
    ct.store(c, (i, j), acc)


@ct.kernel
def alpha_beta(a, b, c, alpha: float, beta: float, M: Const, N: Const, K: Const):
    """As BLAS has it: what was in the result is a part of it."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        y = ct.load(b, (k, j), (K, N), padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
    old = ct.load(c, (i, j), (M, N), padding_mode=ZERO).astype(ct.float32)
    ct.store(c, (i, j), (alpha * acc + beta * old).astype(c.dtype))
