"""Products of weights that codes name: a table of values, or of rows of neighbours, is looked up by what the loop loads."""

import cuda.tile as ct

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def by_code(x, w, table, scale, y, M: Const, N: Const, K: Const):
    """Two codes of four bits a byte, neighbours along K, one of 16 values each (NF4); a factor for K rows and a column."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(x, 1, (M, K))):
        p = ct.load(w, (k, j), (K // 2, N), padding_mode=ZERO)
        low = ct.gather(table, (p & 15).astype(ct.int32))
        high = ct.gather(table, (p >> 4).astype(ct.int32))
        u = ct.cat((low[:, None, :], high[:, None, :]), 1).reshape((K, N)).astype(ct.float32)
        f = ct.load(scale, (k, j), (1, N), padding_mode=ZERO)
        t = ct.load(x, (i, k), (M, K), padding_mode=ZERO)
        acc = ct.mma(t, (u * f).astype(x.dtype), acc)
    ct.store(y, (i, j), acc.astype(y.dtype))


@ct.kernel
def by_code_of_rows(x, w, table, scale, y, M: Const, N: Const, K: Const):
    """The same, rows of weights: codes are neighbours along K in memory, too."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(x, 1, (M, K))):
        t = ct.load(x, (i, k), (M, K), padding_mode=ZERO)
        p = ct.load(w, (j, k), (N, K // 2), padding_mode=ZERO).astype(ct.int32)
        u = ct.gather(table, ct.cat(((p & 15)[:, :, None], (p >> 4)[:, :, None]), 2).reshape((N, K)))
        f = ct.load(scale, (j, k), (N, 1), padding_mode=ZERO)
        acc = ct.mma(t, (u.astype(ct.float32) * f).astype(x.dtype).transpose(), acc)
    ct.store(y, (i, j), acc.astype(y.dtype))


@ct.kernel
def by_byte(w, x, tables, y, M: Const, N: Const, K: Const):
    """Rows of codes on the left, a byte each, and a table of 256 values for each K of them."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(w, 1, (M, K))):
        p = ct.load(w, (i, k), (M, K), padding_mode=ZERO).astype(ct.int32)
        u = ct.gather(tables, (k, p), padding_value=0)
        acc = ct.mma(u, ct.load(x, (k, j), (K, N), padding_mode=ZERO), acc)
    ct.store(y, (i, j), acc.astype(y.dtype))


@ct.kernel
def by_both(v, w, first, second, y, M: Const, N: Const, K: Const):
    """Codes on both sides, each of a table of its own."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(v, 1, (M, K))):
        t = ct.gather(first, ct.load(v, (i, k), (M, K), padding_mode=ZERO).astype(ct.int32))
        u = ct.gather(second, ct.load(w, (k, j), (K, N), padding_mode=ZERO).astype(ct.int32))
        acc = ct.mma(t, u, acc)
    ct.store(y, (i, j), acc.astype(y.dtype))


@ct.kernel
def by_vector(x, w, table, y, M: Const, N: Const, K: Const, V: Const):
    """A code for V neighbours along K: a row of a table of vectors."""
    i, j = ct.bid(0), ct.bid(1)
    lanes = ct.arange(V, dtype=ct.int32)[None, None, :]
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(x, 1, (M, K))):
        t = ct.load(x, (i, k), (M, K), padding_mode=ZERO)
        p = ct.load(w, (j, k), (N, K // V), padding_mode=ZERO).astype(ct.int32)
        u = ct.gather(table, (p[:, :, None], lanes), padding_value=0).reshape((N, K))
        acc = ct.mma(t, u.transpose(), acc)
    ct.store(y, (i, j), acc.astype(y.dtype))


@ct.kernel
def by_row(x, w, table, y, M: Const, N: Const, K: Const, V: Const):
    """The same, by a list of the table's rows."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.num_tiles(x, 1, (M, K))):
        t = ct.load(x, (i, k), (M, K), padding_mode=ZERO)
        p = ct.load(w, (j, k), (N, K // V), padding_mode=ZERO).astype(ct.int32)
        rows = ct.load_advanced_indexing(table, (p.reshape((N * K // V,)), ct.Slice(0, V)), padding_mode=ZERO)
        acc = ct.mma(t, rows.reshape((N, K)).transpose(), acc)
    ct.store(y, (i, j), acc.astype(y.dtype))
