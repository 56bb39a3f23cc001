"""Matrix products whose operands change on their way from memory: other layouts for every type, weights of 8 and 4 bits."""

import cuda.tile as ct

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def product_tf32(a, b, c, M: Const, N: Const, K: Const, AT: Const, BT: Const):
    """AT and BT: the operand is stored with K outermost (A) or innermost (B)."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[0 if AT else 1], K)):
        x = ct.load(a, (i, k), (M, K), order="F" if AT else "C", padding_mode=ZERO).astype(ct.tfloat32)
        y = ct.load(b, (k, j), (K, N), order="F" if BT else "C", padding_mode=ZERO).astype(ct.tfloat32)
        acc = ct.mma(x, y, acc)
    ct.store(c, (i, j), acc)


@ct.kernel
def product_tf32_in_parts(a, b, c, M: Const, N: Const, K: Const, AT: Const, BT: Const):
    """Nearly f32: what tf32 leaves of an operand is multiplied, too."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[0 if AT else 1], K)):
        x = ct.load(a, (i, k), (M, K), order="F" if AT else "C", padding_mode=ZERO)
        y = ct.load(b, (k, j), (K, N), order="F" if BT else "C", padding_mode=ZERO)
        high_x, high_y = x.astype(ct.tfloat32), y.astype(ct.tfloat32)
        low_x = (x - high_x.astype(ct.float32)).astype(ct.tfloat32)
        low_y = (y - high_y.astype(ct.float32)).astype(ct.tfloat32)
        acc = ct.mma(low_x, high_y, acc)
        acc = ct.mma(high_x, low_y, acc)
        acc = ct.mma(high_x, high_y, acc)
    ct.store(c, (i, j), acc)


@ct.kernel
def product_int8(a, b, c, M: Const, N: Const, K: Const, AT: Const, BT: Const):
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.int32)
    for k in range(ct.cdiv(a.shape[0 if AT else 1], K)):
        x = ct.load(a, (i, k), (M, K), order="F" if AT else "C", padding_mode=ZERO)
        y = ct.load(b, (k, j), (K, N), order="F" if BT else "C", padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
    ct.store(c, (i, j), acc)


@ct.kernel
def weights_8bit(a, q, scale, c, M: Const, N: Const, K: Const, BT: Const):
    """One scale a column, applied behind the product."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        w = ct.load(q, (k, j), (K, N), order="F" if BT else "C", padding_mode=ZERO)
        acc = ct.mma(x, w.astype(a.dtype), acc)
    s = ct.load(scale, (j,), (N,), padding_mode=ZERO).reshape((1, N))
    ct.store(c, (i, j), acc * s)


@ct.kernel
def activations_8bit(a, b, c, M: Const, N: Const, K: Const):
    """The left operand is widened."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO).astype(b.dtype)
        acc = ct.mma(x, ct.load(b, (k, j), (K, N), padding_mode=ZERO), acc)
    ct.store(c, (i, j), acc)


@ct.kernel
def weights_4bit(a, q, scale, c, M: Const, N: Const, K: Const, G: Const):
    """Row r of Q holds rows r (low nibble) and r + K (high nibble) of each 2 K rows; one scale a column and G rows of Q."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(q.shape[0], K)):
        w = ct.load(q, (k, j), (K, N), padding_mode=ZERO)
        s = ct.load(scale, (k * K // G, j), (1, N), padding_mode=ZERO)
        low = ct.bitwise_and(w, 15).astype(a.dtype) - 8
        high = ct.bitwise_and(ct.bitwise_rshift(w, 4), 15).astype(a.dtype) - 8
        acc = ct.mma(ct.load(a, (i, 2 * k), (M, K), padding_mode=ZERO), low * s, acc)
        acc = ct.mma(ct.load(a, (i, 2 * k + 1), (M, K), padding_mode=ZERO), high * s, acc)
    ct.store(c, (i, j), acc)


@ct.kernel
def scaled_sums(a, sa, b, sb, c, M: Const, N: Const, K: Const):
    """Each step's product is scaled by a number a row of A and one for all of B, then added to the sum that the loop
    carries."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        y = ct.load(b, (k, j), (K, N), order="F", padding_mode=ZERO)
        u = ct.load(sa, (i, k), (M, 1), padding_mode=ZERO)
        v = ct.load(sb, (j, k), (1, 1), padding_mode=ZERO)
        acc = acc + ct.mma(x, y, ct.zeros((M, N), ct.float32)) * (u * v)
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def packed_weights(a, q, scale, c, M: Const, N: Const, K: Const):
    """Weights of four bits, two to a byte along K, less 8, times a scale a row of N and step."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        w = ct.load(q, (j, k), (N, K // 2), padding_mode=ZERO)
        low = ((w & 15).astype(ct.int32) - 8).reshape((N, K // 2, 1))
        high = ((w >> 4).astype(ct.int32) - 8).reshape((N, K // 2, 1))
        s = ct.load(scale, (j, k), (N, 1), padding_mode=ZERO)
        y = ct.cat((low, high), 2).reshape((N, K)).astype(a.dtype) * s
        acc = ct.mma(x, ct.transpose(y), acc)
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def group_scales(a, w, scale, c, M: Const, N: Const, K: Const):
    """Weights of eight bits with a scale a row of N and step, halved on their way."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        s = ct.load(scale, (j, k), (N, 1), padding_mode=ZERO)
        y = ct.load(w, (j, k), (N, K), padding_mode=ZERO).astype(a.dtype) * s * 0.5
        acc = ct.mma(x, ct.transpose(y), acc)
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def positive_part(a, b, c, factor, M: Const, N: Const, K: Const):
    """Operands meet numbers for all of their elements on the way: a constant, and a parameter."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.maximum(ct.load(a, (i, k), (M, K), padding_mode=ZERO), 0)
        y = ct.load(b, (k, j), (K, N), padding_mode=ZERO) * factor.astype(b.dtype)
        acc = ct.mma(x, y, acc)
    ct.store(c, (i, j), acc)


@ct.kernel
def rounded_left(a, w, c, M: Const, N: Const, K: Const):
    """Activations of 32 bits beside weights of 16, stored N x K."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO).astype(w.dtype)
        y = ct.load(w, (k, j), (K, N), order="F", padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
    ct.store(c, (i, j), acc)


@ct.kernel
def turned_tf32(a, b, c, M: Const, N: Const, K: Const):
    """A is stored K x M, rounded, and turned as a value."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[0], K)):
        x = ct.load(a, (k, i), (K, M), padding_mode=ZERO).astype(ct.tfloat32)
        y = ct.load(b, (k, j), (K, N), padding_mode=ZERO).astype(ct.tfloat32)
        acc = ct.mma(ct.transpose(x), y, acc)
    ct.store(c, (i, j), acc)


@ct.kernel
def groups_of_steps(a, q, scale, c, M: Const, N: Const, K: Const, G: Const):
    """8-bit weights with a row of scales for G steps: a loop over steps in one over groups, each with a sum."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for g in range(scale.shape[0]):
        part = ct.zeros((M, N), ct.float32)
        for t in range(G):
            x = ct.load(a, (i, g * G + t), (M, K), padding_mode=ZERO)
            y = ct.load(q, (g * G + t, j), (K, N), padding_mode=ZERO)
            part = ct.mma(x, y.astype(a.dtype), part)
        acc = acc + part * ct.load(scale, (g, j), (1, N), padding_mode=ZERO)
    ct.store(c, (i, j), acc)


@ct.kernel
def sums_on_the_way(a, r, g, b, f, c, M: Const, N: Const, K: Const):
    """A layer whose input is a sum of two arrays, times a factor a column of K, and whose weights have one a column of N."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO) + ct.load(r, (i, k), (M, K), padding_mode=ZERO)
        x = ct.maximum(x, 0) * ct.load(g, (k,), (K,), padding_mode=ZERO)[None, :]
        y = ct.load(b, (k, j), (K, N), padding_mode=ZERO) * ct.load(f, (j,), (N,), padding_mode=ZERO)[None, :]
        acc = ct.mma(x, y, acc)
    ct.store(c, (i, j), acc)


@ct.kernel
def gradient_where_positive(dy, y, w, dx, M: Const, N: Const, K: Const, T: Const):
    """The left operand is made of two loads, element by element; T: both are stored K x M."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(w.shape[1], K)):
        if T:
            g = ct.load(dy, (k, i), (K, M), padding_mode=ZERO)
            v = ct.load(y, (k, i), (K, M), padding_mode=ZERO)
            g = ct.where(v > 0, g, 0).astype(dy.dtype).transpose()
        else:
            g = ct.load(dy, (i, k), (M, K), padding_mode=ZERO)
            v = ct.load(y, (i, k), (M, K), padding_mode=ZERO)
            g = ct.where(v > 0, g, 0).astype(dy.dtype)
        acc = ct.mma(g, ct.load(w, (j, k), (N, K), padding_mode=ZERO).transpose(), acc)
    ct.store(dx, (i, j), acc)
