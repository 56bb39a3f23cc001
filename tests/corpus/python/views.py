"""Views: padding modes, permuted and strided partitions, overlapping and gather/scatter views, slices,
static shapes.
"""

import cuda.tile as ct

Const = ct.Constant[int]
P = ct.PaddingMode


@ct.kernel
def padding(x, z, nz, nan, hi, lo, M: Const, N: Const):
    """One ragged tile loaded with each padding value and stored whole."""
    i, j = ct.bid(0), ct.bid(1)
    ct.store(z, (i, j), ct.load(x, (i, j), (M, N), padding_mode=P.ZERO))
    ct.store(nz, (i, j), ct.load(x, (i, j), (M, N), padding_mode=P.NEG_ZERO))
    ct.store(nan, (i, j), ct.load(x, (i, j), (M, N), padding_mode=P.NAN))
    ct.store(hi, (i, j), ct.load(x, (i, j), (M, N), padding_mode=P.POS_INF))
    ct.store(lo, (i, j), ct.load(x, (i, j), (M, N), padding_mode=P.NEG_INF))


@ct.kernel
def permuted_view(x, y, A: Const, B: Const, C: Const):
    """A 3-D view whose axes are rotated."""
    i, j, k = ct.bid(0), ct.bid(1), ct.bid(2)
    ct.store(y, (i, j, k), ct.load(x, (i, j, k), (A, B, C), order=(1, 2, 0), padding_mode=P.ZERO))


@ct.kernel
def store_by_order(x, y, M: Const, N: Const):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(y, (i, j), ct.load(x, (i, j), (M, N)), order=(1, 0))


@ct.kernel
def windows(x, y, N: Const, S: Const):
    """Overlapping windows: traversal step S < N."""
    b = ct.bid(0)
    v = x.tiled_view((N,), traversal_steps=(S,), padding_mode=P.ZERO).load((b,))
    ct.scatter(y, b, ct.sum(v))


@ct.kernel
def gaps(x, y, N: Const, S: Const):
    """Traversal step S > N: elements in the gaps are never touched."""
    b = ct.bid(0)
    v = x.tiled_view((N,), traversal_steps=(S,), padding_mode=P.ZERO).load((b,))
    y.tiled_view((N,), traversal_steps=(S,)).store((b,), v + 1)


@ct.kernel
def windows_2d(x, y, M: Const, N: Const):
    """3 x 3 maximum over 4 x 4 windows that move by one, with -inf outside."""
    i, j = ct.bid(0), ct.bid(1)
    v = x.tiled_view((M, N), traversal_steps=(1, 1), padding_mode=P.NEG_INF).load((i, j))
    r, c = ct.arange(M, dtype=ct.int32).reshape((M, 1)), ct.arange(N, dtype=ct.int32).reshape((1, N))
    inside = (r < 3) & (c < 3)
    ct.scatter(y, (i, j), ct.max(ct.where(inside, v, -1.0e30)))


@ct.kernel
def num_tiles_of(x, y, M: Const, N: Const, S: Const):
    """Index space sizes of plain and strided views, and the array's own shape and strides."""
    tv = x.tiled_view((M, N))
    sv = x.tiled_view((M, N), traversal_steps=(S, S))
    if ct.bid(1) == 0:
        ct.scatter(y, 0, tv.num_tiles(0))
        ct.scatter(y, 1, tv.num_tiles(1))
        ct.scatter(y, 2, sv.num_tiles(0))
        ct.scatter(y, 3, sv.num_tiles(1))
        ct.scatter(y, 4, x.shape[0])
        ct.scatter(y, 5, x.shape[1])
        ct.scatter(y, 6, x.strides[0])
        ct.scatter(y, 7, ct.num_blocks(1))


@ct.kernel
def sparse_rows(x, index, y, M: Const, N: Const):
    """Gather through a view: rows by number, columns contiguous."""
    i, j = ct.bid(0), ct.bid(1)
    rows = ct.load(index, (i,), (M,))
    v = ct.load_advanced_indexing(x, (rows, ct.Slice(j * N, N)), padding_mode=P.ZERO)
    ct.store(y, (i, j), v)


@ct.kernel
def sparse_columns_scatter(x, index, y, M: Const, N: Const):
    i = ct.bid(0)
    cols = ct.load(index, (0,), (N,))
    v = ct.load(x, (i, 0), (M, N))
    ct.store_advanced_indexing(y, (ct.Slice(i * M, M), cols), v * 2)


@ct.kernel
def sliced(x, y, lo, hi, T: Const):
    """A sub-array by run-time bounds: stores beyond its end are dropped."""
    b = ct.bid(0)
    part = x.slice(axis=0, start=lo, stop=hi)
    out = y.slice(axis=0, start=lo, stop=hi)
    ct.store(out, (b, 0), ct.load(part, (b, 0), (T, T), padding_mode=P.ZERO) + 1)


@ct.kernel
def unchecked(x, y, T: Const):
    """Bounds promised: no masks at all."""
    b = ct.bid(0)
    ct.store(y, (b,), ct.load(x, (b,), (T,), check_bounds=False) + 1.0, check_bounds=False)


@ct.kernel
def four_dims(x, y, A: Const, B: Const, C: Const, D: Const):
    i, j = ct.bid(0), ct.bid(1)
    v = ct.load(x, (i, j, 0, 0), (A, B, C, D), padding_mode=P.ZERO)
    ct.store(y, (i, j, 0, 0), v * 2.0)


@ct.kernel
def shift_in_place(x, y, T: Const):
    """Two parameters that may overlap: loads finish before the store."""
    v = ct.load(x, (0,), (T,))
    ct.store(y, (0,), v + 1)


@ct.kernel
def broadcast_rows(x, y, M: Const, N: Const):
    """An input whose row stride is zero."""
    i = ct.bid(0)
    ct.store(y, (i, 0), ct.load(x, (i, 0), (M, N), padding_mode=P.ZERO) * 2.0)
