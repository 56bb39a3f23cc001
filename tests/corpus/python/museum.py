"""Kernels with the shape of public reports of tile compilers that crashed, hung, spilled or failed without a reason.

Each is written anew from what its report describes; tests/museum/museum.toml has addresses and symptoms.
"""

import cuda.tile as ct

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def add_blocks(a, b, c, T: Const):
    i = ct.bid(0)
    ct.store(c, (i,), ct.load(a, (i,), (T,)) + ct.load(b, (i,), (T,)))


@ct.kernel
def centre_in_place(x, T: Const):
    """A row is picked by an index tile, reduced, and written back to the array it came from."""
    row = ct.bid(0) + ct.arange(1, dtype=ct.int32)
    v = ct.load_advanced_indexing(x, (row, ct.Slice(0, T)))
    ct.store_advanced_indexing(x, (row, ct.Slice(0, T)), v - ct.sum(v, axis=1, keepdims=True))


@ct.kernel
def scale_in_place(x, w, T: Const):
    """As above with a product of 1x1 by 1xT in place of the sum."""
    row = ct.bid(0) + ct.arange(1, dtype=ct.int32)
    v = ct.load_advanced_indexing(x, (row, ct.Slice(0, T)))
    ct.store_advanced_indexing(x, (row, ct.Slice(0, T)), ct.matmul(ct.load(w, (0, 0), (1, 1)), v))


@ct.kernel
def panels(m, columns, R: Const, C: Const):
    """Columns by raw addresses and panels by tiles, of one array, in nested loops around a reduction."""
    memory = m.get_raw_memory()
    rows = ct.arange(R, dtype=ct.int32)
    for panel in range(2):
        for j in range(2):
            k = panel * 2 + j
            ct.store(columns, (k, 0), memory.load_offset(rows * m.shape[1] + k).reshape((1, R)))
        t = ct.load(m, (0, panel), (R, C))
        ct.store(m, (0, panel), t / ct.sqrt(ct.sum(t * t, axis=0, keepdims=True) + 1.0))


@ct.kernel(occupancy=2)
def factor(a, b, lu, product, B: Const, N: Const):
    """LU factors of a tile in registers, then a product with a panel, two blocks to a processor."""
    x = ct.load(a, (0, 0), (B, B))
    cols = ct.arange(B, dtype=ct.int32)[None, :]
    rows = ct.arange(B, dtype=ct.int32)[:, None]
    for p in range(B):
        column = ct.extract(x, (0, p), shape=(B, 1)) / ct.extract(x, (p, p), shape=(1, 1))
        below = rows > p
        x = ct.where(below & (cols > p), x - column * ct.extract(x, (p, 0), shape=(1, B)), x)
        x = ct.where(below & (cols == p), column, x)
    ct.store(lu, (0, 0), x)
    ct.store(product, (0, 0), ct.mma(x, ct.load(b, (0, 0), (B, N)), ct.zeros((B, N), ct.float32)))


@ct.kernel
def two_products(a, b, half, out, steps, M: Const, N: Const, K: Const):
    """Two product loops of runtime length around a panel that is changed and stored, the second under a condition."""
    acc = ct.zeros((M, N), ct.float32)
    for k in range(steps):
        x = ct.load(a, (0, k), (M, K)).astype(ct.tfloat32)
        acc = ct.mma(x, ct.load(b, (k, 0), (K, N)).astype(ct.tfloat32), acc)
    left = ct.extract(acc, (0, 0), shape=(M, N // 2))
    ct.store(half, (0, 0), ct.abs(left))
    if steps > 1:
        for k in range(steps):
            x = ct.load(a, (0, k), (M, K)).astype(ct.tfloat32)
            acc = ct.mma(x, ct.load(b, (k, 0), (K, N)).astype(ct.tfloat32), acc)
        ct.store(out, (0, 0), acc)


@ct.kernel
def gathered_product(a, b, c, index, M: Const, N: Const, K: Const):
    """Rows of a by an index array, columns by a counter, b by tiles, c by a scatter."""
    j = ct.bid(0)
    rows = ct.gather(index, ct.arange(M, dtype=ct.int32)).reshape((M, 1))
    acc = ct.zeros((M, N), ct.float32)
    k = 0
    while k < ct.num_tiles(b, 0, (K, N)):
        cols = (k * K + ct.arange(K, dtype=ct.int32)).reshape((1, K))
        acc = ct.mma(ct.gather(a, (rows, cols)), ct.load(b, (k, j), (K, N), padding_mode=ZERO), acc)
        k += 1
    out = (j * N + ct.arange(N, dtype=ct.int32)).reshape((1, N))
    ct.scatter(c, (rows, out), acc.astype(c.dtype))


@ct.kernel
def scatter_rows(out, tokens, count, stride, T: Const):
    """A row number of each line comes from memory; the address is column + row * stride."""
    i = ct.arange(T, dtype=ct.int32)
    rows = ct.gather(tokens, i, mask=i < count, padding_value=0).reshape((T, 1))
    cols = i.reshape((1, T))
    value = ct.broadcast_to(i.reshape((T, 1)), (T, T)).astype(ct.float16)
    mask = ct.broadcast_to(i.reshape((T, 1)) < count, (T, T))
    out.get_raw_memory().store_offset(cols + rows * stride, value, mask=mask)


@ct.kernel
def mix_bits(x, y, T: Const):
    """xor, shifts, and, or on the elements of a tile."""
    i = ct.bid(0)
    v = ct.load(x, (i,), (T,))
    v = v ^ (v >> 16)
    v = (v << 8) | (v & 0xFF)
    ct.store(y, (i,), v & 0x7FFFFFFF)


@ct.kernel
def nested_while(y, n):
    """Two while loops with a counter each, of which the outer one leaves its loop."""
    i, total = 1, 0
    while i <= n:
        j = 1
        while j <= i:
            total += j
            j += 1
        i += 1
    ct.store(y, (0,), ct.full((2,), i * 1000, ct.int32) + total)


@ct.kernel
def scaled_loop(a, sa, b, sb, c, M: Const, N: Const, K: Const):
    """A block-scaled product summed over K in a loop."""
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        x, sx = ct.load(a, (0, k), (M, K)), ct.load(sa, (0, k), (M, K // 32))
        y, sy = ct.load(b, (k, 0), (K, N)), ct.load(sb, (k, 0), (K // 32, N))
        acc = ct.mma_scaled(x, sx, y, sy, acc)
    ct.store(c, (0, 0), acc)


@ct.kernel
def attend(q, k, v, o, scale, H: Const, M: Const, N: Const, D: Const):
    """Attention of grouped heads: H query heads share one of keys and values."""
    i, h = ct.bid(0), ct.bid(1)
    x = ct.load(q, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
    acc = ct.zeros((M, D), ct.float32)
    top = ct.full((M, 1), float("-inf"), ct.float32)
    norm = ct.zeros((M, 1), ct.float32)
    for j in range(ct.num_tiles(k, 1, (1, N, D))):
        y = ct.load(k, (h // H, j, 0), (1, N, D), padding_mode=ZERO).reshape((N, D))
        s = ct.mma(x, ct.transpose(y), ct.zeros((M, N), ct.float32)) * scale
        new = ct.maximum(top, ct.max(s, axis=1, keepdims=True))
        p = ct.exp(s - new)
        shrink = ct.exp(top - new)
        norm = norm * shrink + ct.sum(p, axis=1, keepdims=True)
        z = ct.load(v, (h // H, j, 0), (1, N, D), padding_mode=ZERO).reshape((N, D))
        acc = ct.mma(p.astype(v.dtype), z, acc * shrink)
        top = new
    ct.store(o, (h, i, 0), (acc / norm).astype(o.dtype).reshape((1, M, D)))


@ct.kernel
def scores_then_weights(q, k, a, M: Const, N: Const, D: Const):
    """Scores are written in one loop; a second loop over the same array turns them into weights."""
    i = ct.bid(0)
    x = ct.load(q, (i, 0), (M, D))
    top = ct.full((M, 1), float("-inf"), ct.float32)
    norm = ct.zeros((M, 1), ct.float32)
    for j in range(ct.num_tiles(k, 0, (N, D))):
        s = ct.mma(x, ct.transpose(ct.load(k, (j, 0), (N, D))), ct.zeros((M, N), ct.float32))
        new = ct.maximum(top, ct.max(s, axis=1, keepdims=True))
        norm = norm * ct.exp2(top - new) + ct.sum(ct.exp2(s - new), axis=1, keepdims=True)
        top = new
        ct.store(a, (i, j), s)
    for j in range(ct.num_tiles(k, 0, (N, D))):
        ct.store(a, (i, j), ct.exp2(ct.load(a, (i, j), (M, N)) - top) / norm)


@ct.kernel
def product_gelu(a, b, bias, rest, c, M: Const, N: Const, K: Const):
    """A product whose epilogue holds bias, activation and residual beside the accumulator."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        acc = ct.mma(ct.load(a, (i, k), (M, K)), ct.load(b, (k, j), (K, N)), acc)
    v = acc + ct.load(bias, (j,), (N,)).reshape((1, N))
    v = v / (1.0 + ct.exp(-1.702 * v)) + ct.load(rest, (i, j), (M, N))
    ct.store(c, (i, j), v.astype(c.dtype))


@ct.kernel
def product(a, b, c, M: Const, N: Const, K: Const):
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.int32 if a.dtype == ct.int8 else ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        acc = ct.mma(x, ct.load(b, (k, j), (K, N), padding_mode=ZERO), acc)
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def waves(x, s, c, T: Const):
    """Sine and cosine with their reduction of large arguments, which needs no memory."""
    i = ct.bid(0)
    v = ct.load(x, (i,), (T,), padding_mode=ZERO)
    ct.store(s, (i,), ct.sin(v))
    ct.store(c, (i,), ct.cos(v))


@ct.kernel
def normalize_rows(x, w, y, M: Const, N: Const):
    """A block of rows far beyond the registers: three passes over it, mean and variance between."""
    r = ct.bid(0)
    v = ct.load(x, (r, 0), (M, N), padding_mode=ZERO)
    inside = ct.arange(N, dtype=ct.int32).reshape((1, N)) < x.shape[1]
    mean = ct.sum(v, axis=1, keepdims=True) / x.shape[1]
    d = ct.where(inside, v - mean, 0.0)
    var = ct.sum(d * d, axis=1, keepdims=True) / x.shape[1]
    scale = ct.load(w, (0,), (N,), padding_mode=ZERO).reshape((1, N))
    ct.store(y, (r, 0), d * ct.rsqrt(var + 1e-5) * scale)


@ct.kernel
def ring_sums(x, y, T: Const):
    """Offsets from rounded cosines and sines, a gather along each ray, one sum for every block."""
    b = ct.bid(0)
    ray = ct.arange(T, dtype=ct.int32).astype(ct.float32) * 0.125
    dx = ct.floor(ct.cos(ray) * (b + 1) + 0.5).astype(ct.int32)
    dy = ct.floor(ct.sin(ray) * (b + 1) + 0.5).astype(ct.int32)
    ct.store(y, (b,), ct.sum(ct.gather(x, (dx + 8, dy + 8), padding_value=0), keepdims=True))


@ct.kernel
def batched_by_shared(a, w, y, B: Const, M: Const, K: Const, N: Const):
    """A batch of products whose right side is one matrix for all."""
    x = ct.load(a, (0, 0, 0), (B, M, K))
    z = ct.broadcast_to(ct.load(w, (0, 0), (K, N)).reshape((1, K, N)), (B, K, N))
    ct.store(y, (0, 0, 0), ct.mma(x, z, ct.zeros((B, M, N), ct.float32)))


@ct.kernel
def product_of_product(a, b, c, d, M: Const, N: Const, K: Const):
    """Fragments of one product become an operand of the next inside a loop, and an elementwise branch reads both."""
    acc = ct.zeros((M, K), ct.float32)
    for k in range(ct.num_tiles(b, 1, (K, N))):
        x = ct.mma(ct.load(a, (0, 0), (M, K)), ct.load(b, (0, k), (K, N)), ct.zeros((M, N), ct.float32))
        acc = ct.mma(x.astype(ct.float16), ct.load(c, (k, 0), (N, K)), acc)
        acc = ct.where(acc > 4.0, acc * 0.5, acc)
    ct.store(d, (0, 0), acc)


@ct.kernel
def reduce_and_spread(x, y, G: Const, R: Const, C: Const):
    """A sum is reshaped twice and broadcast over the tile it came from."""
    b = ct.bid(0)
    v = ct.load(x, (b, 0), (G * R, C)).astype(ct.float32)
    s = ct.sum(v.reshape((G, R * C)), axis=1)
    t = ct.broadcast_to(s.reshape((G, 1)).reshape((G, 1, 1)), (G, R, C)).reshape((G * R, C))
    ct.store(y, (b, 0), (v / t).astype(y.dtype))


@ct.kernel
def shuffle_dims(x, y, A: Const, B: Const, C: Const):
    """Dimensions are permuted, split and joined again between a load and a store."""
    v = ct.permute(ct.load(x, (0, 0, 0), (A, B, C)), (2, 0, 1))
    w = ct.permute(v.reshape((C // 2, 2, A, B)), (1, 0, 3, 2)).reshape((C * B, A))
    ct.store(
        y, (0, 0), ct.cat((ct.extract(w, (1, 0), (C * B // 2, A)), ct.extract(w, (0, 0), (C * B // 2, A))), 0)
    )


def _line(a, b, c, d):
    return a * c, c * b + d


@ct.kernel
def linear_scan(a, b, y, N: Const):
    """h = a h + b along a row: an operator that does not commute."""
    r = ct.bid(0)
    x, z = ct.load(a, (r, 0), (1, N)), ct.load(b, (r, 0), (1, N))
    _, h = ct.scan((x, z), 1, _line, (1.0, 0.0))
    ct.store(y, (r, 0), h)


@ct.kernel
def counts_in_loop(y, n, T: Const):
    """A short prefix sum of a mask inside a loop."""
    for j in range(ct.cdiv(n, T)):
        i = j * T + ct.arange(T, dtype=ct.int32)
        inside = i < n
        ct.scatter(y, i, ct.cumsum(ct.where(inside, 1, 0), 0), mask=inside)


@ct.kernel
def sums_from_the_end(x, y, N: Const):
    r = ct.bid(0)
    ct.store(y, (r, 0), ct.cumsum(ct.load(x, (r, 0), (1, N)), 1, reverse=True))


@ct.kernel
def last_of_loop(x, y, steps):
    """A loop only carries what it loaded last; a reduction over four elements takes it."""
    v = ct.full((1, 4), float("-inf"), ct.float32)
    for k in range(steps):
        v = ct.load(x, (0, k), (1, 4))
    ct.store(y, (0,), ct.max(v, axis=1))


@ct.kernel
def product_of_row(x, y, M: Const, N: Const):
    """The product of rows of runtime length."""
    r = ct.bid(0)
    acc = ct.ones((M, N), ct.float32)
    for k in range(ct.num_tiles(x, 1, (M, N))):
        inside = k * N + ct.arange(N, dtype=ct.int32).reshape((1, N)) < x.shape[1]
        acc = acc * ct.where(inside, ct.load(x, (r, k), (M, N), padding_mode=ZERO), 1.0)
    ct.store(y, (r,), ct.prod(acc, axis=1))


@ct.kernel
def count_tokens(x, lengths, y, S: Const, N: Const):
    """An unrolled loop, each step behind a condition that is known at run time only."""
    b = ct.bid(0)
    length = ct.load(lengths, (b,), (1,)).item()
    i = ct.arange(N, dtype=ct.int32)
    acc = ct.zeros((N,), ct.int32)
    for s in ct.static_iter(range(S)):
        if s < length:
            acc = acc + (i == ct.load(x, (b, s), (1, 1)).item()).astype(ct.int32)
    ct.store(y, (b, 0), acc.reshape((1, N)))


@ct.kernel
def naive_dft(x, re, im, M: Const, N: Const):
    """Sine and cosine of a whole matrix in double precision."""
    r = ct.bid(0)
    k = (r * M + ct.arange(M, dtype=ct.int32)).reshape((M, 1))
    n = ct.arange(N, dtype=ct.int32).reshape((1, N))
    turn = ct.full((1, 1), -6.283185307179586, ct.float64)
    angle = turn * ((k * n) % x.shape[0]).astype(ct.float64) / ct.full((1, 1), x.shape[0], ct.float64)
    v = ct.load(x, (0,), (N,), padding_mode=ZERO).reshape((1, N))
    ct.store(re, (r,), ct.sum(ct.cos(angle) * v, axis=1))
    ct.store(im, (r,), ct.sum(ct.sin(angle) * v, axis=1))


@ct.kernel
def pool(x, y, flag, H: Const, W: Const):
    """Maxima of 2x2 squares, with the store of one number amid the loads."""
    b = ct.bid(0)
    rows = (2 * b).astype(ct.int32)
    cols = ct.arange(W, dtype=ct.int32) * 2
    top = ct.maximum(ct.gather(x, (rows, cols)), ct.gather(x, (rows, cols + 1)))
    ct.store(flag, (b,), ct.full((1,), 1.0, ct.float32))
    for h in range(1, H):
        top = ct.maximum(top, ct.maximum(ct.gather(x, (rows + h, cols)), ct.gather(x, (rows + h, cols + 1))))
    ct.store(y, (b, 0), top.reshape((1, W)))


@ct.kernel
def two_outputs(a, b, c, d, M: Const, N: Const, K: Const):
    """A product over dimensions known at run time, stored and reduced into two arrays."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        acc = ct.mma(x, ct.load(b, (k, j), (K, N), padding_mode=ZERO), acc)
    ct.store(c, (i, j), acc.astype(c.dtype))
    rows = (i * M + ct.arange(M, dtype=ct.int32)).astype(ct.int32)
    ct.atomic_max(d, rows, ct.max(acc, axis=1).astype(ct.int32))


@ct.kernel
def bitonic(x, y, N: Const):
    """A whole sort of one tile in exchanges of partners."""
    r = ct.bid(0)
    i = ct.arange(N, dtype=ct.int32)
    ct.scatter(y, (r, i), ct.gather(x, (r, i)))
    width = 2
    while width <= N:
        step = width // 2
        while step > 0:
            v = ct.gather(y, (r, i))
            other = ct.gather(y, (r, i ^ step))
            low = ((i & step) == 0) == ((i & width) == 0)
            ct.scatter(y, (r, i), ct.where(low, ct.minimum(v, other), ct.maximum(v, other)))
            step = step // 2
        width = width * 2


@ct.kernel
def sum_along(x, y, AXIS: Const, T: Const):
    """One kernel for sums along either axis; the other form of view and loop is never made."""
    b = ct.bid(0)
    if AXIS == 0:
        acc = ct.zeros((T, 1), ct.float32)
        for k in range(ct.num_tiles(x, 0, (T, 1))):
            acc = acc + ct.load(x, (k, b), (T, 1), padding_mode=ZERO)
        ct.store(y, (b,), ct.sum(acc, axis=0))
    else:
        acc = ct.zeros((1, T), ct.float32)
        for k in range(ct.num_tiles(x, 1, (1, T))):
            acc = acc + ct.load(x, (b, k), (1, T), padding_mode=ZERO)
        ct.store(y, (b,), ct.sum(acc, axis=1))


@ct.kernel
def unpacked_product(a, packed, scales, c, M: Const, N: Const, K: Const):
    """Weights of four bits, two to a byte, are widened, scaled and multiplied inside the loop."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    cols = (j * N + ct.arange(N, dtype=ct.int32)).reshape((1, N))
    for k in range(ct.num_tiles(a, 1, (M, K))):
        rows = (k * K + ct.arange(K, dtype=ct.int32)).reshape((K, 1))
        w = ct.gather(packed, (rows // 2, cols)).astype(ct.int32)
        w = ((w >> ((rows % 2) * 4)) & 15) - 8
        w = w.astype(ct.float16) * ct.gather(scales, cols)
        acc = ct.mma(ct.load(a, (i, k), (M, K)), w.astype(ct.float16), acc)
    ct.store(c, (i, j), acc)


@ct.kernel
def widened_product(a, b, c, M: Const, N: Const, K: Const):
    """Bytes are converted to f16 on their way into a product of depth 16."""
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        acc = ct.mma(ct.load(a, (0, k), (M, K)), ct.load(b, (k, 0), (K, N)).astype(ct.float16), acc)
    ct.store(c, (0, 0), acc)


@ct.kernel
def nested_pointers(x, y, T: Const):
    """Indices that two nested loops carry and change, each load and store by them."""
    i = ct.arange(T, dtype=ct.int32)
    src, dst = i, i
    for a in range(2):
        src = src + a * 2
        ct.scatter(y, dst, ct.gather(x, src))
        src, dst = src + T, dst + T
        for b in range(3):
            src = src + b * 3
            ct.scatter(y, dst, ct.gather(x, src))
            src, dst = src + T, dst + T


@ct.kernel
def loop_in_branch(x, y, n, T: Const):
    """A loop over memory in one branch of a condition, a constant in the other."""
    b = ct.bid(0)
    if b % 2 == 0:
        acc = ct.zeros((T,), ct.float32)
        for k in range(n):
            acc = acc + ct.load(x, (k,), (T,))
        ct.store(y, (b,), acc)
    else:
        ct.store(y, (b,), ct.full((T,), -1.0, ct.float32))


@ct.kernel
def norm_gradient(g, x, w, mean, std, gx, gw, HAS_W: Const, N: Const):
    """Backward of a row norm; weights that may be absent are a tile of ones."""
    r = ct.bid(0)
    i = ct.arange(N, dtype=ct.int32)
    inside = i < x.shape[1]
    go = ct.gather(g, (r, i), padding_value=0)
    if HAS_W:
        weight = ct.gather(w, i, padding_value=0)
    else:
        weight = ct.full((N,), 1.0, ct.float32)
    n = x.shape[1]
    a = go * weight
    m, s = ct.load(mean, (r,), (1,)).item(), ct.load(std, (r,), (1,)).item()
    b = ct.where(inside, (ct.gather(x, (r, i), padding_value=0) - m) / s, 0.0)
    ct.scatter(gx, (r, i), (a - b * (ct.sum(b * a) / n) - ct.sum(a) / n) / s)
    ct.atomic_add(gw, i, go * b)


@ct.kernel
def add_atomically(x, y, T: Const):
    """All blocks add to the same numbers of 16 bits."""
    i = ct.arange(T, dtype=ct.int32)
    ct.atomic_add(y, i, ct.load(x, (ct.bid(0), 0), (1, T)).reshape((T,)))


@ct.kernel
def count_by_cas(x):
    """Every block raises one counter by compare-and-swap until it succeeds."""
    done = 0
    while done == 0:
        seen = ct.load(x, (0,), (1,)).item()
        if ct.atomic_cas(x, 0, seen, seen + 1) == seen:
            done = 1


@ct.kernel
def widen(x, y, T: Const):
    i = ct.bid(0)
    ct.store(
        y, (i,), (ct.zeros((T,), ct.float32) + ct.load(x, (i,), (T,)).astype(ct.float32)).astype(y.dtype)
    )


@ct.kernel
def product_softmax(a, b, y, M: Const, N: Const, K: Const):
    """A product and the softmax of its rows in one kernel."""
    i = ct.bid(0)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        acc = ct.mma(ct.load(a, (i, k), (M, K)), ct.load(b, (k, 0), (K, N)), acc)
    e = ct.exp(acc - ct.max(acc, axis=1, keepdims=True))
    ct.store(y, (i, 0), e / ct.sum(e, axis=1, keepdims=True))


@ct.kernel
def chained_products(q, k, v, y, M: Const, D: Const, N: Const):
    """The result of one product, narrowed, is the left operand of the next: no loop around them."""
    s = ct.matmul(ct.load(q, (0, 0), (M, D)), ct.load(k, (0, 0), (D, N)))
    ct.store(y, (0, 0), ct.matmul(ct.astype(s, ct.bfloat16), ct.load(v, (0, 0), (N, D))))


@ct.kernel
def scaled_by_scanned_column(x, scale, y, N: Const):
    """The prefix sums of one column are spread over all columns of a square."""
    c = ct.cumsum(ct.load(scale, (0, 0), (N, 1)), 0)
    ct.store(y, (0, 0), c * ct.load(x, (0, 0), (N, N)))


@ct.kernel
def largest_of_block(x, y, T: Const):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(y, (j, i), ct.reshape(ct.max(ct.load(x, (j, i), (1, T)), axis=1), (1, 1)))


@ct.kernel
def halves_apart(x, y, M: Const, N: Const):
    """Two interleaved halves of a tile go to two places, through a tile of rank three."""
    t = ct.permute(ct.reshape(ct.load(x, (0, 0), (M, 2 * N)), (M, 2, N)), (0, 2, 1))
    ct.store(y, (0, 0), ct.astype(ct.reshape(ct.extract(t, (0, 0, 0), (M, N, 1)), (M, N)), ct.float16))
    ct.store(y, (0, 1), ct.astype(ct.reshape(ct.extract(t, (0, 0, 1), (M, N, 1)), (M, N)), ct.float16))


@ct.kernel
def scan_of_long_rows(x, y, N: Const):
    r = ct.bid(0)
    ct.store(y, (r, 0), ct.cumsum(ct.load(x, (r, 0), (2, N)), 1))


@ct.kernel
def stores_in_short_loops(x, y, n, T: Const):
    """Loops of two rounds with a load that does not depend on them and two stores, the second a constant."""
    for i in range(2):
        for j in range(2):
            k = (i * 2 + j) * T + ct.arange(T, dtype=ct.int32)
            ct.scatter(y, k, ct.gather(x, ct.arange(T, dtype=ct.int32)) + n, mask=k < 3 * T)
            ct.scatter(y, k + 4 * T, ct.full((T,), 1234.0, ct.float32))


@ct.kernel
def batch_turned(a, b, y, B: Const, N: Const):
    """A batch of products is stored with its dimensions in another order."""
    p = ct.matmul(ct.load(a, (0, 0, 0), (B, N, N)), ct.load(b, (0, 0, 0), (B, N, N)))
    ct.store(y, (0, 0, 0), ct.astype(ct.permute(p, (2, 0, 1)), ct.float16))


@ct.kernel
def exchanged_pairs(x, y, at, N: Const):
    """One step of a bitonic sorter: values and their numbers change places in pairs."""
    v, i = ct.load(x, (0,), (N,)), ct.arange(N, dtype=ct.int32)
    for s in ct.static_iter((1, 2, 4, 8)):
        a, b = ct.reshape(v, (N // 2 // s, 2, s)), ct.reshape(i, (N // 2 // s, 2, s))
        low, high = (
            ct.extract(a, (0, 0, 0), (N // 2 // s, 1, s)),
            ct.extract(a, (0, 1, 0), (N // 2 // s, 1, s)),
        )
        p, q = ct.extract(b, (0, 0, 0), (N // 2 // s, 1, s)), ct.extract(b, (0, 1, 0), (N // 2 // s, 1, s))
        swap = low > high
        v = ct.reshape(ct.cat((ct.where(swap, high, low), ct.where(swap, low, high)), 1), (N,))
        i = ct.reshape(ct.cat((ct.where(swap, q, p), ct.where(swap, p, q)), 1), (N,))
    ct.store(y, (0,), v)
    ct.store(at, (0,), i)


@ct.kernel(num_ctas=2)
def scan_in_cluster(x, y, M: Const, N: Const):
    ct.store(y, (0, 0), ct.cumsum(ct.load(x, (0, 0), (M, N)), 1))


@ct.kernel
def wide_product(a, b, y, M: Const, K: Const, N: Const):
    """A product whose result is wider than an instruction is, from rows that end inside of the tile."""
    i = ct.bid(0)
    p = ct.matmul(ct.load(a, (i, 0), (M, K), padding_mode=ZERO), ct.load(b, (0, 0), (K, N)))
    ct.store(y, (i, 0), ct.astype(p, ct.bfloat16))
