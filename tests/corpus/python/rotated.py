"""Products whose results are rotated behind them."""

import cuda.tile as ct

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def rotated(x, w, cos, sin, y, M: Const, D: Const, K: Const):
    """Heads of 2 D columns, one half against the other: two sums meet two loaded tiles, and both results take all four."""
    i, h = ct.bid(0), ct.bid(1)
    low = ct.zeros((M, D), ct.float32)
    high = ct.zeros((M, D), ct.float32)
    for k in range(ct.num_tiles(x, 1, (M, K))):
        t = ct.load(x, (i, k), (M, K), padding_mode=ZERO)
        low = ct.mma(t, ct.load(w, (k, 2 * h), (K, D), padding_mode=ZERO), low)
        high = ct.mma(t, ct.load(w, (k, 2 * h + 1), (K, D), padding_mode=ZERO), high)
    c = ct.load(cos, (i, 0), (M, D), padding_mode=ZERO)
    s = ct.load(sin, (i, 0), (M, D), padding_mode=ZERO)
    ct.store(y, (i, 2 * h), (low * c - high * s).astype(y.dtype))
    ct.store(y, (i, 2 * h + 1), (high * c + low * s).astype(y.dtype))
