"""Data movement inside tiles: transpose, permute, reshape, broadcast, cat, extract, insert, select, pack,
bitcast.
"""

import cuda.tile as ct

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def transpose_tiles(x, y, M: Const, N: Const):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(y, (j, i), ct.transpose(ct.load(x, (i, j), (M, N))))


@ct.kernel
def transpose_by_order(x, y, M: Const, N: Const):
    """The load swaps the axes: a view with a dimension map."""
    i, j = ct.bid(0), ct.bid(1)
    ct.store(y, (i, j), ct.load(x, (i, j), (M, N), order="F"))


@ct.kernel
def permute_3d(x, y, A: Const, B: Const, C: Const, P: ct.Constant):
    t = ct.load(x, (0, 0, 0), (A, B, C))
    if P == 0:
        ct.store(y, (0, 0, 0), ct.permute(t, (2, 0, 1)))
    elif P == 1:
        ct.store(y, (0, 0, 0), ct.permute(t, (0, 2, 1)))
    else:
        ct.store(y, (0, 0, 0), ct.permute(t, (2, 1, 0)))


@ct.kernel
def reshape_sum(x, y, N: Const):
    """Blocks of 4 neighbours summed through a reshape."""
    b = ct.bid(0)
    ct.store(y, (b,), ct.sum(ct.load(x, (b,), (N,)).reshape((N // 4, 4)), 1))


@ct.kernel
def outer(x, y, z, M: Const, N: Const):
    i, j = ct.bid(0), ct.bid(1)
    a = ct.load(x, (i,), (M,)).reshape((M, 1))
    b = ct.load(y, (j,), (N,)).reshape((1, N))
    ct.store(z, (i, j), a * b + a)


@ct.kernel
def halves_swapped(x, y, M: Const, N: Const):
    """cat of two extracts, along either axis."""
    v = ct.load(x, (0, 0), (M, N))
    top, bottom = v.extract((0, 0), (M // 2, N)), v.extract((1, 0), (M // 2, N))
    w = ct.cat((bottom, top), 0)
    left, right = w.extract((0, 0), (M, N // 2)), w.extract((0, 1), (M, N // 2))
    ct.store(y, (0, 0), ct.cat((right, left), 1))


@ct.kernel
def rotary(x, cos, sin, y, N: Const):
    """Rotary embedding: the two halves of a row are rotated against each other."""
    r = ct.bid(0)
    v = ct.load(x, (r, 0), (1, N))
    a, b = v.extract((0, 0), (1, N // 2)), v.extract((0, 1), (1, N // 2))
    c = ct.load(cos, (r, 0), (1, N // 2))
    s = ct.load(sin, (r, 0), (1, N // 2))
    ct.store(y, (r, 0), ct.cat((a * c - b * s, b * c + a * s), 1))


@ct.kernel
def insert_block(x, patch, y, N: Const):
    b = ct.bid(0)
    v = ct.load(x, (0, 0), (N, N))
    p = ct.load(patch, (0, 0), (N // 2, N // 2))
    ct.store(y, (b, 0), ct.insert(v, (b, 1), p))


@ct.kernel
def dynamic_extract(x, which, y, N: Const, T: Const):
    """The piece is chosen at run time."""
    b = ct.bid(0)
    v = ct.load(x, (0,), (N,))
    ct.store(y, (b,), ct.extract(v, (ct.gather(which, b),), (T,)))


@ct.kernel
def bits_of(x, y, T: Const):
    b = ct.bid(0)
    ct.store(y, (b,), ct.bitcast(ct.load(x, (b,), (T,)), y.dtype))


@ct.kernel
def abs_by_bits(x, y, T: Const):
    """Clears the sign bit of f16 as an integer."""
    b = ct.bid(0)
    v = ct.bitcast(ct.load(x, (b,), (T,)), ct.uint16)
    ct.store(y, (b,), ct.bitcast(v & 0x7FFF, ct.float16))


@ct.kernel
def pack_bytes(x, y, T: Const):
    b = ct.bid(0)
    v = ct.pack_to_bytes(ct.load(x, (b,), (T,)))
    ct.store(y, (b,), v)


@ct.kernel
def unpack_bytes(x, y, T: Const):
    b = ct.bid(0)
    ct.store(y, (b,), ct.unpack_from_bytes(ct.load(x, (b,), (T,)), y.dtype))


@ct.kernel
def triangle(x, y, N: Const):
    """Upper triangle from two iotas and a select."""
    b = ct.bid(0)
    v = ct.load(x, (b, 0, 0), (1, N, N)).reshape((N, N))
    rows = ct.arange(N, dtype=ct.int32).reshape((N, 1))
    cols = ct.arange(N, dtype=ct.int32).reshape((1, N))
    ct.store(y, (b, 0, 0), ct.where(cols >= rows, v, 0.0).reshape((1, N, N)))


@ct.kernel
def gram_diagonal(x, y, N: Const):
    """Transposes in registers and multiplies by itself: the layout of both sides must meet."""
    v = ct.load(x, (0, 0), (N, N))
    ct.store(y, (0, 0), v * ct.transpose(v) + v)


@ct.kernel
def interleave(x, y, z, N: Const):
    """Even and odd positions of the result from two arrays."""
    b = ct.bid(0)
    a = ct.load(x, (b,), (N,)).reshape((N, 1))
    c = ct.load(y, (b,), (N,)).reshape((N, 1))
    ct.store(z, (b,), ct.cat((a, c), 1).reshape((2 * N,)))
