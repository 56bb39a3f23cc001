"""Products and gathers in forms that the other files do not have."""

import cuda.tile as ct

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO
LOG2E = 1.4426950408889634


@ct.kernel
def nested_sums_of_16_bits(a, b, c, M: Const, N: Const, K: Const, EACH: Const):
    """Two loops carry one sum in f16; another one is looked at in every step."""
    acc = ct.zeros((M, N), ct.float16)
    seen = ct.zeros((M, N), ct.float16)
    for o in range(ct.cdiv(a.shape[1], K * EACH)):
        for k in range(EACH):
            x = ct.load(a, (0, o * EACH + k), (M, K), padding_mode=ZERO)
            y = ct.load(b, (0, o * EACH + k), (N, K), padding_mode=ZERO)
            acc = ct.mma(x, y.transpose(), acc)
            seen = ct.maximum(ct.mma(x, y.transpose(), seen), 0.0)
    ct.store(c, (0, 0), acc - seen)


@ct.kernel
def stream_k(a, b, c, steps, M: Const, N: Const, K: Const):
    """A block takes so many steps of all tiles in a row; what it has of a tile is added."""
    n = ct.num_tiles(a, 1, (M, K))
    across = ct.num_tiles(b, 1, (K, N))
    at = ct.bid(0) * steps
    end = ct.minimum(at + steps, ct.num_tiles(a, 0, (M, K)) * across * n)
    while at < end:
        tile = at // n
        first = at - tile * n
        last = ct.minimum(n, first + (end - at))
        i, j = tile // across, tile % across
        acc = ct.zeros((M, N), ct.float32)
        for k in range(first, last):
            x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
            acc = ct.mma(x, ct.load(b, (k, j), (K, N), padding_mode=ZERO), acc)
        rows = (i * M + ct.arange(M, dtype=ct.int32))[:, None]
        cols = (j * N + ct.arange(N, dtype=ct.int32))[None, :]
        ct.atomic_add(c, (rows, cols), acc, memory_order=ct.MemoryOrder.RELAXED)
        at = at + (last - first)


@ct.kernel
def nearest(x, c, norms, best, M: Const, N: Const, D: Const):
    """The centre with the least |c|^2 - 2 x c."""
    i = ct.bid(0)
    t = ct.load(x, (i, 0), (M, D), padding_mode=ZERO)
    low = ct.full((M,), 3.0e38, ct.float32)
    arg = ct.zeros((M,), ct.int32)
    for j in range(ct.num_tiles(c, 0, (N, D))):
        u = ct.load(c, (j, 0), (N, D), padding_mode=ZERO)
        near = ct.mma(t, u.transpose(), ct.zeros((M, N), ct.float32))
        d = ct.load(norms, (j,), (N,)).reshape((1, N)) - 2.0 * near
        least = ct.min(d, 1)
        arg = ct.where(least < low, ct.argmin(d, 1) + j * N, arg)
        low = ct.minimum(low, least)
    ct.store(best, (i,), arg)


@ct.kernel
def bilinear(x, fy, fx, y, P: Const, C: Const):
    """Samples at P places between pixels; C channels lie together."""
    i = ct.bid(0)
    v, u = ct.load(fy, (i,), (P,)), ct.load(fx, (i,), (P,))
    r, c = ct.floor(v), ct.floor(u)
    b, a = (v - r)[:, None], (u - c)[:, None]
    r, c = r.astype(ct.int32)[:, None], c.astype(ct.int32)[:, None]
    ch = ct.arange(C, dtype=ct.int32)[None, :]
    p00 = ct.gather(x, (r, c * C + ch), padding_value=0.0).astype(ct.float32)
    p01 = ct.gather(x, (r, (c + 1) * C + ch), padding_value=0.0).astype(ct.float32)
    p10 = ct.gather(x, (r + 1, c * C + ch), padding_value=0.0).astype(ct.float32)
    p11 = ct.gather(x, (r + 1, (c + 1) * C + ch), padding_value=0.0).astype(ct.float32)
    top, low = p00 + a * (p01 - p00), p10 + a * (p11 - p10)
    ct.store(y, (i, 0), (top + b * (low - top)).astype(y.dtype))


@ct.kernel
def cast_both_ways(x, y, yt, amax, M: Const, N: Const):
    """8-bit floats of a tile, its transpose and the largest magnitude."""
    i, j = ct.bid(0), ct.bid(1)
    v = ct.load(x, (i, j), (M, N), padding_mode=ZERO).astype(ct.float32)
    q = ct.minimum(ct.maximum(v * 2.0, -448.0), 448.0).astype(y.dtype)
    ct.store(y, (i, j), q)
    ct.store(yt, (j, i), q.transpose())
    ct.atomic_max(amax, 0, ct.bitcast(ct.max(ct.abs(v)), ct.int32))


@ct.kernel
def masked(q, k, v, mask, o, scale, M: Const, N: Const, D: Const):
    """Attention where a byte says which scores count."""
    i, h = ct.bid(0), ct.bid(1)
    qt = ct.load(q, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
    m_i = ct.full((M, 1), -1.0e30, ct.float32)
    l_i = ct.zeros((M, 1), ct.float32)
    acc = ct.zeros((M, D), ct.float32)
    for j in range(ct.cdiv(k.shape[1], N)):
        kt = ct.load(k, (h, 0, j), (1, D, N), order=(0, 2, 1), padding_mode=ZERO).reshape((D, N))
        keep = ct.load(mask, (i, j), (M, N), padding_mode=ZERO) != 0
        s = ct.mma(qt, kt, ct.zeros((M, N), ct.float32)) * (scale * LOG2E)
        s = ct.where(keep, s, -1.0e30)
        new = ct.maximum(m_i, ct.max(s, 1, keepdims=True))
        p = ct.exp2(s - new)
        al = ct.exp2(m_i - new)
        l_i = l_i * al + ct.sum(p, 1, keepdims=True)
        vt = ct.load(v, (h, j, 0), (1, N, D), padding_mode=ZERO).reshape((N, D))
        acc = ct.mma(p.astype(v.dtype), vt, acc * al)
        m_i = new
    ct.store(o, (h, i, 0), (acc / l_i).astype(o.dtype).reshape((1, M, D)))


@ct.kernel
def windows(x, w, y, P: Const, N: Const, K: Const, S: Const):
    """Convolution along rows: views whose tiles begin at every row, and at every S-th column."""
    i, j = ct.bid(0), ct.bid(1)
    view = x.tiled_view((P, K), traversal_steps=(1, S), padding_mode=ZERO)
    acc = ct.zeros((P, N), ct.float32)
    for r in range(w.shape[0]):
        for k in range(ct.cdiv(w.shape[1], K)):
            u = ct.load(w, (r, k, j), (1, K, N), padding_mode=ZERO).reshape((K, N))
            acc = ct.mma(view.load((i * P + r, k)), u, acc)
    ct.store(y, (i, j), acc.astype(y.dtype))


@ct.kernel
def operands_ahead(a, b, c, M: Const, N: Const, K: Const):
    """The program loads the operands of the next step itself, and carries them."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    x = ct.load(a, (i, 0), (M, K), padding_mode=ZERO)
    y = ct.load(b, (0, j), (K, N), padding_mode=ZERO)
    for k in range(1, ct.num_tiles(a, 1, (M, K))):
        following = (
            ct.load(a, (i, k), (M, K), padding_mode=ZERO),
            ct.load(b, (k, j), (K, N), padding_mode=ZERO),
        )
        acc = ct.mma(x, y, acc)
        x, y = following
    ct.store(c, (i, j), ct.mma(x, y, acc).astype(c.dtype))


@ct.kernel
def right_operand_ahead(a, b, c, M: Const, N: Const, K: Const):
    """As operands_ahead, of the right operand alone, whose last load is for nothing."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    y = ct.load(b, (0, j), (K, N), padding_mode=ZERO)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        following = ct.load(b, (k + 1, j), (K, N), padding_mode=ZERO)
        acc = ct.mma(ct.load(a, (i, k), (M, K), padding_mode=ZERO), y, acc)
        y = following
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def one_loop(a, b, c, M: Const, N: Const, K: Const):
    """One loop over the steps of all of a block's tiles: behind a tile's last step its sum is stored and begun anew."""
    across, depth = ct.cdiv(c.shape[1], N), ct.num_tiles(a, 1, (M, K))
    t, k = ct.bid(0), 0
    mine = ct.cdiv(ct.cdiv(c.shape[0], M) * across - t, ct.num_blocks(0))
    acc = ct.zeros((M, N), ct.float32)
    for _ in range(mine * depth):
        i, j = t // across, t % across
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        acc = ct.mma(x, ct.load(b, (k, j), (K, N), padding_mode=ZERO), acc)
        k += 1
        if k == depth:
            ct.store(c, (i, j), acc.astype(c.dtype))
            acc = ct.zeros((M, N), ct.float32)
            k = 0
            t += ct.num_blocks(0)


@ct.kernel
def one_loop_by_columns(a, b, bias, c, M: Const, N: Const, K: Const):
    """As one_loop: tiles go down the columns, the last step is asked for in front of the next one, and its branch loads."""
    down, depth = ct.cdiv(c.shape[0], M), ct.num_tiles(a, 1, (M, K))
    t, step, grid = ct.bid(0), 0, ct.num_blocks(0)
    i, j = t % down, t // down
    acc = ct.zeros((M, N), ct.float32)
    for _ in range(ct.cdiv(ct.cdiv(c.shape[1], N) * down - t, grid) * depth):
        x = ct.load(a, (i, step), (M, K), padding_mode=ZERO)
        acc = ct.mma(x, ct.load(b, (step, j), (K, N), padding_mode=ZERO), acc)
        if step >= depth - 1:
            ct.store(c, (i, j), (acc + ct.load(bias, (j,), (N,))).astype(c.dtype))
            acc = ct.zeros((M, N), ct.float32)
            step = 0
            t += grid
            i, j = t % down, t // down
        else:
            step += 1


@ct.kernel
def beside_zero(a, b, c, za, zb, M: Const, N: Const, K: Const):
    """Numbers of 8 bits whose zeros are elsewhere: what rows and columns sum up to corrects the product."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.int32)
    rows = ct.zeros((M, 1), ct.int32)
    cols = ct.zeros((1, N), ct.int32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        y = ct.load(b, (k, j), (K, N), padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
        rows = rows + ct.sum(x.astype(ct.int32), 1, keepdims=True)
        cols = cols + ct.sum(y.astype(ct.int32), 0, keepdims=True)
    ct.store(c, (i, j), acc - rows * zb - cols * za + za * zb * a.shape[1])


@ct.kernel
def rounded_steps(a, b, c, M: Const, N: Const, K: Const):
    """The product of a step rounded to its operands' type, before it is added up in f32."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        y = ct.load(b, (j, k), (N, K), padding_mode=ZERO).transpose()
        acc += ct.matmul(x, y).astype(ct.float32)
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def taps(x, w, bias, y, H: Const, W: Const, S: Const, C: Const, P: Const, N: Const, K: Const):
    """3x3 convolution by strides of S, as a product over the channels of each tap: of one step where K is C."""
    i, j = ct.bid(0), ct.bid(1)
    p = i * P + ct.arange(P, dtype=ct.int32)
    n, row, column = p // (H * W), p // W % H * S - 1, p % W * S - 1
    acc = ct.zeros((P, N), ct.float32)
    for t in range(9):
        down, right = row + t // 3, column + t % 3
        for c in range(C // K):
            channels = c * K + ct.arange(K, dtype=ct.int32)
            place = (n[:, None], down[:, None], right[:, None], channels[None, :])
            a = ct.gather(x, place, padding_value=0)
            acc = ct.mma(a, ct.load(w, (t * (C // K) + c, j), (K, N), padding_mode=ZERO), acc)
    z = acc + ct.load(bias, (j,), (N,), padding_mode=ZERO).astype(ct.float32)[None, :]
    ct.store(y, (i, j), ct.maximum(z, 0.0).astype(y.dtype))
