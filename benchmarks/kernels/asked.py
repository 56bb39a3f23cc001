"""Matrix products in forms that services and training ask for: experts by token, weights of few bits, sums that blocks share,
blocks of K that are left out, what is summed beside a product."""

import cuda.tile as ct

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def scaled_rows(a, b, sa, sb, bias, c, M: Const, N: Const, K: Const):
    """8-bit rows by 8-bit rows, a scale for each row and column, and a bias."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.int32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        y = ct.load(b, (j, k), (N, K), padding_mode=ZERO)
        acc = ct.mma(x, y.transpose(), acc)
    scale = (
        ct.load(sa, (i,), (M,), padding_mode=ZERO)[:, None]
        * ct.load(sb, (j,), (N,), padding_mode=ZERO)[None, :]
    )
    add = ct.load(bias, (j,), (N,), padding_mode=ZERO).astype(ct.float32)[None, :]
    ct.store(c, (i, j), (acc.astype(ct.float32) * scale + add).astype(c.dtype))


@ct.kernel
def experts_by_token(x, w, y, share, order, expert, WIDTH: Const, M: Const, N: Const, K: Const, TOP: Const):
    """Rows of a flat array by the token that a list names, weights of the block's expert, results to the token's rows."""
    i, j = ct.bid(0), ct.bid(1)
    token = ct.gather(order, i * M + ct.arange(M, dtype=ct.int32), padding_value=0)
    e = ct.load(expert, (i,), (1,)).item()
    row = (token // TOP)[:, None] * WIDTH
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(WIDTH, K)):
        t = ct.gather(x, row + (k * K + ct.arange(K, dtype=ct.int32))[None, :], padding_value=0)
        u = ct.load(w, (e, k, j), (1, K, N), order=(0, 2, 1)).reshape((K, N))
        acc = ct.mma(t, u, acc)
    acc = acc * ct.gather(share, token, padding_value=0)[:, None]
    columns = j * N + ct.arange(N, dtype=ct.int32)
    ct.scatter(y, (token[:, None], columns[None, :]), acc.astype(y.dtype))


@ct.kernel
def one_after_the_other(a, b, c, locks, counts, M: Const, N: Const, K: Const, PARTS: Const):
    """Parts of K by several blocks, which add to the result one after the other: a lock and a count each tile."""
    tiles = ct.cdiv(b.shape[1], N)
    i, j = ct.bid(0) // tiles, ct.bid(0) % tiles
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.bid(1), ct.num_tiles(a, 1, (M, K)), PARTS):
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO).astype(ct.tfloat32)
        y = ct.load(b, (k, j), (K, N), padding_mode=ZERO).astype(ct.tfloat32)
        acc = ct.mma(x, y, acc)
    place = ct.bid(0)
    while ct.atomic_cas(locks, place, 0, 1, memory_order=ct.MemoryOrder.ACQUIRE) == 1:
        pass
    count = ct.gather(counts, place)
    if count == 0:
        ct.store(c, (i, j), acc)
    else:
        ct.store(c, (i, j), ct.load(c, (i, j), (M, N)) + acc)
    ct.scatter(counts, place, (count + 1) % PARTS)
    ct.atomic_xchg(locks, place, 0, memory_order=ct.MemoryOrder.RELEASE)


@ct.kernel
def weights_of_rows(x, w, s, y, M: Const, N: Const, K: Const):
    """8-bit weights stored N x K, a scale for each column behind the product."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(x, 1, (M, K))):
        t = ct.load(x, (i, k), (M, K), padding_mode=ZERO)
        u = ct.load(w, (j, k), (N, K), padding_mode=ZERO).astype(x.dtype)
        acc = ct.mma(t, u.transpose(), acc)
    scale = ct.load(s, (j,), (N,), padding_mode=ZERO).astype(ct.float32)[None, :]
    ct.store(y, (i, j), (acc * scale).astype(y.dtype))


@ct.kernel
def weights_of_four_bits(x, w, s, y, M: Const, N: Const, K: Const):
    """Two weights a byte, neighbours along K; a scale for each column and step."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(x, 1, (M, K))):
        t = ct.load(x, (i, k), (M, K), padding_mode=ZERO)
        p = ct.load(w, (j, k), (N, K // 2), padding_mode=ZERO)
        low = ((p & 15).astype(ct.int8) - 8).reshape((N, K // 2, 1))
        high = ((p >> 4).astype(ct.int8) - 8).reshape((N, K // 2, 1))
        u = ct.cat((low, high), 2).reshape((N, K)).astype(x.dtype)
        acc = ct.mma(t, (u * ct.load(s, (j, k), (N, 1), padding_mode=ZERO)).transpose(), acc)
    ct.store(y, (i, j), acc.astype(y.dtype))


@ct.kernel
def gradient_of_weights(x, dy, dw, db, M: Const, N: Const, K: Const):
    """x transposed times dy, and the sum of dy's rows beside."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    rows = ct.zeros((1, N), ct.float32)
    for k in range(ct.num_tiles(x, 0, (K, M))):
        t = ct.load(x, (k, i), (K, M), padding_mode=ZERO)
        u = ct.load(dy, (k, j), (K, N), padding_mode=ZERO)
        acc = ct.mma(t.transpose(), u, acc)
        rows = rows + ct.sum(u.astype(ct.float32), axis=0, keepdims=True)
    ct.store(dw, (i, j), acc.astype(dw.dtype))
    if i == 0:
        ct.store(db, (j,), rows.reshape((N,)))


@ct.kernel
def rows_of_a_list(a, b, places, c, M: Const, N: Const, K: Const):
    """A list names the rows of B."""
    i, j = ct.bid(0), ct.bid(1)
    columns = j * N + ct.arange(N, dtype=ct.int32)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        rows = ct.load(places, (k,), (K,), padding_mode=ZERO)
        x = ct.load(a, (i, k), (M, K), padding_mode=ZERO)
        acc = ct.mma(x, ct.gather(b, (rows[:, None], columns[None, :])), acc)
    ct.store(c, (i, j), acc.astype(c.dtype))
