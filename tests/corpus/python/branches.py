"""Loops of products with branches: what a flag ends, what a mode chooses, what both sides of a branch multiply, and sums that a
branch changes every few steps."""

import cuda.tile as ct

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def ends_at_flag(a, b, flags, c, M: Const, N: Const, K: Const):
    """The first zero among the flags of a row of tiles ends its sum."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        if ct.load(flags, (i, k), (1, 1)).item() == 0:
            break
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        y = ct.load(b, (k, j), (K, N), padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def ends_behind_flag(a, b, flags, limit, c, M: Const, N: Const, K: Const):
    """The same, tested behind each step, and a limit in front of it."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        if k * K >= limit:
            break
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        y = ct.load(b, (k, j), (K, N), padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
        if ct.gather(flags, (i, k)) == 0:
            break
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def pages_to_end(q, keys, values, pages, o, scale: float, M: Const, N: Const, D: Const):
    """Attention over the pages of a list, which a negative number ends."""
    h, i = ct.bid(0), ct.bid(1)
    x = ct.load(q, (h, i, 0), (1, M, D), padding_mode=ZERO).reshape((M, D))
    most = ct.full((M, 1), -1e30, ct.float32)
    total = ct.zeros((M, 1), ct.float32)
    acc = ct.zeros((M, D), ct.float32)
    for t in range(pages.shape[1]):
        page = ct.load(pages, (h, t), (1, 1)).item()
        if page < 0:
            break
        k = ct.load(keys, (page, 0, 0), (1, N, D), padding_mode=ZERO).reshape((N, D))
        v = ct.load(values, (page, 0, 0), (1, N, D), padding_mode=ZERO).reshape((N, D))
        s = ct.mma(x, k.transpose(), ct.zeros((M, N), ct.float32)) * scale
        now = ct.maximum(most, ct.max(s, axis=1, keepdims=True))
        p = ct.exp2(s - now)
        fade = ct.exp2(most - now)
        total = total * fade + ct.sum(p, axis=1, keepdims=True)
        acc = ct.mma(p.astype(v.dtype), v, acc * fade)
        most = now
    ct.store(o, (h, i, 0), (acc / total).astype(o.dtype).reshape((1, M, D)))


@ct.kernel
def right_by_mode(a, b, turned, c, mode, M: Const, N: Const, K: Const):
    """The right operand comes as it is, or turned."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        if mode == 0:
            y = ct.load(b, (k, j), (K, N), padding_mode=ZERO)
        else:
            y = ct.load(turned, (j, k), (N, K), padding_mode=ZERO).transpose()
        acc = ct.mma(x, y, acc)
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def products_by_mode(a, b, turned, c, mode, M: Const, N: Const, K: Const):
    """The same for all tiles of a row, one after the other, with products on both sides and more on one."""
    i = ct.bid(0)
    for j in range(ct.num_tiles(b, 1, (K, N))):
        acc = ct.zeros((M, N), ct.float32)
        for k in range(ct.num_tiles(a, 1, (M, K))):
            x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
            if mode == 0:
                y = ct.load(b, (k, j), (K, N), padding_mode=ZERO)
                acc = ct.mma(x, y, acc)
            elif mode == 1:
                y = ct.load(turned, (j, k), (N, K), padding_mode=ZERO)
                acc = ct.mma(x, y.transpose(), acc)
            else:
                y = ct.load(b, (k, j), (K, N), padding_mode=ZERO)
                z = ct.load(turned, (j, k), (N, K), padding_mode=ZERO)
                acc = ct.mma(x, y, acc)
                acc = ct.mma(x, z.transpose(), acc)
        ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def chosen_products(a, b, other, flags, c, M: Const, N: Const, K: Const):
    """A flag says from which array a step takes its right operand."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    taken = 0
    for k in range(ct.num_tiles(a, 1, (M, K))):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        if ct.gather(flags, (i, k)) != 0:
            y = ct.load(b, (k, j), (K, N), padding_mode=ZERO)
            acc = ct.mma(x, y, acc)
            taken += 1
        else:
            y = ct.load(other, (j, k), (N, K), padding_mode=ZERO)
            acc = ct.mma(x, y.transpose(), acc)
    ct.store(c, (i, j), (acc * taken).astype(c.dtype))


@ct.kernel
def two_sums_in_turn(a, b, c, d, M: Const, N: Const, K: Const, SUM: Const):
    """Even steps add to one sum, odd ones to another."""
    i, j = ct.bid(0), ct.bid(1)
    sum_type = ct.float32 if SUM == 0 else ct.int32 if SUM == 1 else ct.float64 if SUM == 2 else ct.float16
    one = ct.zeros((M, N), sum_type)
    other = ct.zeros((M, N), sum_type)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        y = ct.load(b, (k, j), (K, N), padding_mode=ZERO)
        if k % 2 == 0:
            one = ct.mma(x, y, one)
        else:
            other = ct.mma(x, y, other)
    ct.store(c, (i, j), one.astype(c.dtype))
    ct.store(d, (i, j), other.astype(d.dtype))


@ct.kernel
def added_or_taken(a, b, flags, c, M: Const, N: Const, K: Const):
    """A flag says whether a step is added or taken away."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        y = ct.load(b, (k, j), (K, N), padding_mode=ZERO)
        if ct.gather(flags, (i, k)) != 0:
            acc = ct.mma(x, y, acc)
        else:
            acc = acc - ct.mma(x, y, ct.zeros((M, N), ct.float32))
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def begun_anew(a, b, flags, c, M: Const, N: Const, K: Const):
    """A flag says whether a step goes on with the sum, or begins a new one."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        y = ct.load(b, (k, j), (K, N), padding_mode=ZERO)
        if ct.gather(flags, (i, k)) != 0:
            acc = ct.mma(x, y, acc)
        else:
            acc = ct.mma(x, y, ct.zeros((M, N), ct.float32))
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def halved_every_third(a, b, c, M: Const, N: Const, K: Const):
    """Every third step halves the sum."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        y = ct.load(b, (k, j), (K, N), padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
        if k % 3 == 2:
            acc = acc * 0.5
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def promoted(a, b, c, M: Const, N: Const, K: Const):
    """Every other step the sum of the tensor cores is added to one in registers, and begins anew."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    part = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        y = ct.load(b, (k, j), (K, N), padding_mode=ZERO)
        part = ct.mma(x, y, part)
        if k % 2 == 1:
            acc = acc + part
            part = ct.zeros((M, N), ct.float32)
    ct.store(c, (i, j), (acc + part).astype(c.dtype))
