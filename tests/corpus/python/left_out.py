"""Products and attention whose loops leave steps out: their loads stand behind an `if`."""

import cuda.tile as ct

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def by_flag(a, b, mask, c, M: Const, N: Const, K: Const):
    """A mask names the blocks of A that are not zero."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        if ct.gather(mask, (i, k)) != 0:
            x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
            y = ct.load(b, (k, j), (K, N), padding_mode=ZERO)
            acc = ct.mma(x, y, acc)
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def by_place(a, b, places, c, M: Const, N: Const, K: Const):
    """A list says which block of A and B each step takes; a negative one is none. How many were taken decides the sign."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    taken = 0
    for k in range(places.shape[1]):
        place = ct.gather(places, (i, k))
        if place < 0:
            taken = taken + 0
        else:
            x = ct.load(a, (i, place), (M, K), padding_mode=ZERO)
            y = ct.load(b, (place, j), (K, N), padding_mode=ZERO)
            acc = ct.mma(x, y, acc)
            taken = taken + 1
    if taken % 2 == 1:
        acc = -acc
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def attention_by_flag(q, k, v, mask, o, scale, M: Const, N: Const, D: Const, CAUSAL: Const):
    """Tiles of scores that a mask names, none behind the diagonal; those on it are masked by element."""
    i = ct.bid(0)
    qt = ct.load(q, (i, 0), (M, D), padding_mode=ZERO)
    top = ct.full((M, 1), -1.0e30, ct.float32)
    total = ct.zeros((M, 1), ct.float32)
    acc = ct.zeros((M, D), ct.float32)
    rows = i * M + ct.arange(M, dtype=ct.int32)[:, None]
    for j in range(ct.num_tiles(k, 0, (N, D))):
        wanted = j * N < (i + 1) * M if CAUSAL else ct.gather(mask, (i, j)) != 0
        if wanted:
            kt = ct.load(k, (j, 0), (N, D), padding_mode=ZERO)
            s = ct.mma(qt, ct.transpose(kt), ct.zeros((M, N), ct.float32)) * scale
            cols = j * N + ct.arange(N, dtype=ct.int32)[None, :]
            s = ct.where((cols < k.shape[0]) & ((cols <= rows) | (CAUSAL == 0)), s, -1.0e30)
            new = ct.maximum(top, ct.max(s, 1, keepdims=True))
            p = ct.exp(s - new)
            fix = ct.exp(top - new)
            total = total * fix + ct.sum(p, 1, keepdims=True)
            vt = ct.load(v, (j, 0), (N, D), padding_mode=ZERO)
            acc = ct.mma(p.astype(v.dtype), vt, acc * fix)
            top = new
    ct.store(o, (i, 0), acc / total)


@ct.kernel
def until_full(a, b, c, M: Const, N: Const, K: Const):
    """Steps are added while the first sum is small: what the condition needs, the products make."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        if ct.extract(acc, (0, 0), (1, 1)).item() < 20.0:
            x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
            y = ct.load(b, (k, j), (K, N), padding_mode=ZERO)
            acc = ct.mma(x, y, acc)
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def by_any(a, b, mask, c, M: Const, N: Const, K: Const):
    """A step is left out where no byte of a tile of the mask is set."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        m = ct.load(mask, (i, k), (M, K), padding_mode=ZERO)
        if ct.max(m.astype(ct.int32)) > 0:
            x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
            y = ct.load(b, (k, j), (K, N), padding_mode=ZERO)
            acc = ct.mma(ct.where(m != 0, x, 0.0).astype(a.dtype), y, acc)
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def by_skip(a, b, mask, c, M: Const, N: Const, K: Const):
    """A step that a mask does not name ends at once."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        if ct.gather(mask, (i, k)) == 0:
            continue
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        y = ct.load(b, (k, j), (K, N), padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def left_by_break(a, b, c, limit, M: Const, N: Const, K: Const):
    """The loop ends where a length that the caller gives does, tested in front of each step."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        if k * K >= limit:
            break
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        y = ct.load(b, (k, j), (K, N), padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def counted_down(a, b, c, limit, M: Const, N: Const, K: Const):
    """What is left of the columns is counted down, their tiles are counted up."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    left, k = min(limit, a.shape[1]), 0
    while left > 0:
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        y = ct.load(b, (k, j), (K, N), padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
        left -= K
        k += 1
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def left_behind(a, b, c, limit, M: Const, N: Const, K: Const):
    """The same, tested behind each step, so that there is one at least; two limits."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        y = ct.load(b, (k, j), (K, N), padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
        if (k + 1) * K >= limit:
            break
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def left_at_list(a, b, lengths, c, M: Const, N: Const, K: Const):
    """Each row of tiles has a length of its own, which a list says; and so has each column."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    steps = 0
    rows, columns = ct.gather(lengths, (0, i)), ct.gather(lengths, (1, j))
    for k in range(ct.num_tiles(a, 1, (M, K))):
        if k >= rows:
            break
        if columns <= k:
            break
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        y = ct.load(b, (k, j), (K, N), padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
        steps = steps + 1
    if steps % 2 == 1:
        acc = -acc
    ct.store(c, (i, j), acc.astype(c.dtype))


@ct.kernel
def loaded_in_front(a, b, mask, c, M: Const, N: Const, K: Const):
    """A mask names the blocks of A that are not zero, the product alone stands behind it."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        y = ct.load(b, (k, j), (K, N), padding_mode=ZERO)
        if ct.gather(mask, (i, k)) != 0:
            acc = ct.mma(x, y, acc)
    ct.store(c, (i, j), acc.astype(c.dtype))
