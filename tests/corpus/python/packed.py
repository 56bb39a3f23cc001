"""Products of weights of four bits with zero points, packed in bytes and words."""

import cuda.tile as ct

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def in_bytes(x, w, s, z, y, M: Const, N: Const, K: Const):
    """w (K, N / 2): neighbours along N in a byte; zero points are bytes, a row of them and of scales for each K."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(x.shape[1], K)):
        p = ct.load(w, (k, j), (K, N // 2), padding_mode=ZERO).astype(ct.int32)
        both = ct.cat(((p & 15)[:, :, None], (p >> 4)[:, :, None]), 2).reshape((K, N))
        zero = ct.load(z, (k, j), (1, N), padding_mode=ZERO).astype(ct.int32)
        u = (both - zero).astype(x.dtype) * ct.load(s, (k, j), (1, N), padding_mode=ZERO)
        acc = ct.mma(ct.load(x, (i, k), (M, K), padding_mode=ZERO), u, acc)
    ct.store(y, (i, j), acc.astype(y.dtype))


@ct.kernel
def in_words(x, w, s, z, y, M: Const, N: Const, K: Const):
    """w (K, N / 8): eight neighbours along N in a word, and so are zero points, a row of them and of scales for each K."""
    i, j = ct.bid(0), ct.bid(1)
    nibbles = (ct.arange(8, dtype=ct.int32) * 4)[None, None, :]
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(x.shape[1], K)):
        p = ct.load(w, (k, j), (K, N // 8), padding_mode=ZERO)
        q = ct.load(z, (k, j), (1, N // 8), padding_mode=ZERO)
        both = ((p[:, :, None] >> nibbles) & 15).reshape((K, N)) - ((q[:, :, None] >> nibbles) & 15).reshape(
            (1, N)
        )
        u = both.astype(x.dtype) * ct.load(s, (k, j), (1, N), padding_mode=ZERO)
        acc = ct.mma(ct.load(x, (i, k), (M, K), padding_mode=ZERO), u, acc)
    ct.store(y, (i, j), acc.astype(y.dtype))


@ct.kernel
def in_words_apart(x, w, s, z, y, M: Const, N: Const, K: Const):
    """As in_words, neighbours in different halves of their word: in the order 0 2 4 6 1 3 5 7."""
    i, j = ct.bid(0), ct.bid(1)
    number = ct.arange(8, dtype=ct.int32)
    nibbles = ((number // 2 + number % 2 * 4) * 4)[None, None, :]
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(x.shape[1], K)):
        p = ct.load(w, (k, j), (K, N // 8), padding_mode=ZERO)
        q = ct.load(z, (k, j), (1, N // 8), padding_mode=ZERO)
        zero = ((q[:, :, None] >> nibbles) & 15).reshape((1, N))
        both = ((p[:, :, None] >> nibbles) & 15).reshape((K, N)) - zero
        u = both.astype(x.dtype) * ct.load(s, (k, j), (1, N), padding_mode=ZERO)
        acc = ct.mma(ct.load(x, (i, k), (M, K), padding_mode=ZERO), u, acc)
    ct.store(y, (i, j), acc.astype(y.dtype))


@ct.kernel
def in_words_of_rows(x, w, s, z, y, M: Const, N: Const, K: Const):
    """w (N, K / 8): eight neighbours along K in a word; zero points are bytes, a column of them and of scales for each K."""
    i, j = ct.bid(0), ct.bid(1)
    nibbles = (ct.arange(8, dtype=ct.int32) * 4)[None, None, :]
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(x.shape[1], K)):
        p = ct.load(w, (j, k), (N, K // 8), padding_mode=ZERO)
        both = ((p[:, :, None] >> nibbles) & 15).reshape((N, K))
        zero = ct.load(z, (j, k), (N, 1), padding_mode=ZERO).astype(ct.int32)
        u = (both - zero).astype(x.dtype) * ct.load(s, (j, k), (N, 1), padding_mode=ZERO)
        acc = ct.mma(ct.load(x, (i, k), (M, K), padding_mode=ZERO), u.transpose(), acc)
    ct.store(y, (i, j), acc.astype(y.dtype))
