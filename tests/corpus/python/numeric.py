"""Casts among all types, integer corner cases, comparisons and selects."""

import cuda.tile as ct

Const = ct.Constant[int]
RM = ct.RoundingMode


@ct.kernel
def cast(x, y, T: Const):
    b = ct.bid(0)
    ct.store(y, (b,), ct.load(x, (b,), (T,)).astype(y.dtype))


@ct.kernel
def cast_toward_zero(x, y, T: Const):
    b = ct.bid(0)
    ct.store(y, (b,), ct.astype(ct.load(x, (b,), (T,)), y.dtype, rounding_mode=RM.RZ))


@ct.kernel
def through_fp8(x, y, z, T: Const):
    """f32 to both fp8 types and back."""
    b = ct.bid(0)
    v = ct.load(x, (b,), (T,))
    ct.store(y, (b,), v.astype(ct.float8_e4m3fn).astype(ct.float32))
    ct.store(z, (b,), v.astype(ct.float8_e5m2).astype(ct.float32))


@ct.kernel
def to_bool(x, y, T: Const):
    """A mask stored as bytes, and one loaded from them."""
    b = ct.bid(0)
    ct.store(y, (b,), ct.load(x, (b,), (T,)) > 0)


@ct.kernel
def from_bool(m, x, y, T: Const):
    b = ct.bid(0)
    ct.store(y, (b,), ct.where(ct.load(m, (b,), (T,)), ct.load(x, (b,), (T,)), 0))


@ct.kernel
def divisions(x, y, floor, rem, up, T: Const):
    b = ct.bid(0)
    p, q = ct.load(x, (b,), (T,)), ct.load(y, (b,), (T,))
    ct.store(floor, (b,), p // q)
    ct.store(rem, (b,), p % q)
    ct.store(up, (b,), ct.cdiv(p, q))


@ct.kernel
def unsigned_divisions(x, y, rem, up, T: Const):
    """The frontend has no floor division of unsigned numbers that the assembler takes."""
    b = ct.bid(0)
    p, q = ct.load(x, (b,), (T,)), ct.load(y, (b,), (T,))
    ct.store(rem, (b,), p % q)
    ct.store(up, (b,), ct.cdiv(p, q))


@ct.kernel
def divide_by_constants(x, a, b_out, c, T: Const):
    """Divisors known at compile time: power of two, odd, negative."""
    b = ct.bid(0)
    v = ct.load(x, (b,), (T,))
    ct.store(a, (b,), v // 8)
    ct.store(b_out, (b,), v % 7)
    ct.store(c, (b,), v // -3)


@ct.kernel
def bit_ops(x, y, a, o, e, n, T: Const):
    b = ct.bid(0)
    p, q = ct.load(x, (b,), (T,)), ct.load(y, (b,), (T,))
    ct.store(a, (b,), p & q)
    ct.store(o, (b,), p | q)
    ct.store(e, (b,), p ^ q)
    ct.store(n, (b,), ~p)


@ct.kernel
def shifts(x, s, left, right, T: Const):
    b = ct.bid(0)
    v, k = ct.load(x, (b,), (T,)), ct.load(s, (b,), (T,))
    ct.store(left, (b,), v << k)
    ct.store(right, (b,), v >> k)


@ct.kernel
def wrap_arith(x, y, s, d, p, n, T: Const):
    b = ct.bid(0)
    u, v = ct.load(x, (b,), (T,)), ct.load(y, (b,), (T,))
    ct.store(s, (b,), u + v)
    ct.store(d, (b,), u - v)
    ct.store(p, (b,), u * v)
    ct.store(n, (b,), -u)


@ct.kernel
def absolute(x, y, T: Const):
    b = ct.bid(0)
    ct.store(y, (b,), ct.abs(ct.load(x, (b,), (T,))))


@ct.kernel
def compare_all(x, y, out, T: Const):
    """Six comparisons packed in the bits of a byte."""
    b = ct.bid(0)
    p, q = ct.load(x, (b,), (T,)), ct.load(y, (b,), (T,))
    r = ct.zeros((T,), ct.int32)
    r = r + (p < q).astype(ct.int32)
    r = r + (p <= q).astype(ct.int32) * 2
    r = r + (p > q).astype(ct.int32) * 4
    r = r + (p >= q).astype(ct.int32) * 8
    r = r + (p == q).astype(ct.int32) * 16
    r = r + (p != q).astype(ct.int32) * 32
    ct.store(out, (b,), r)


@ct.kernel
def nan_select(x, y, z, T: Const):
    b = ct.bid(0)
    p, q = ct.load(x, (b,), (T,)), ct.load(y, (b,), (T,))
    ct.store(z, (b,), ct.where(ct.isnan(p), q, p))


@ct.kernel
def clamp_select(x, z, lo, hi, T: Const):
    b = ct.bid(0)
    v = ct.load(x, (b,), (T,))
    ct.store(z, (b,), ct.where(v < lo, lo, ct.where(v > hi, hi, v)))


@ct.kernel
def mask_logic(x, y, T: Const):
    b = ct.bid(0)
    v = ct.load(x, (b,), (T,))
    even, big, negative = v % 2 == 0, v > 100, v < 0
    ct.store(y, (b,), ct.where((even & big) | (negative ^ even), v, ~v))


@ct.kernel
def hash_mix(x, y, T: Const):
    """A 32-bit finaliser: multiplies, xors and logical shifts."""
    b = ct.bid(0)
    h = ct.load(x, (b,), (T,))
    h = h ^ (h >> 16)
    h = h * 0x7FEB352D
    h = h ^ (h >> 15)
    h = h * 0x846CA68B
    ct.store(y, (b,), h ^ (h >> 16))


@ct.kernel
def random_uniform(y, seed, T: Const):
    """Counter-based random numbers made into floats in [0, 1)."""
    b = ct.bid(0)
    h = (ct.arange(T, dtype=ct.uint32) + (b * T).astype(ct.uint32)) * 747796405 + seed
    h = ((h >> ((h >> 28) + 4)) ^ h) * 277803737
    h = (h >> 22) ^ h
    ct.store(y, (b,), (h >> 8).astype(ct.float32) * (1.0 / 16777216.0))


@ct.kernel
def float_power_int(x, y, T: Const):
    b = ct.bid(0)
    ct.store(y, (b,), ct.pow(ct.load(x, (b,), (T,)), 5))


@ct.kernel
def small_scalar(y, a, b, c, d):
    """Scalar arguments of every size, in an order that needs padding between them."""
    ct.scatter(y, 0, a.astype(ct.float64))
    ct.scatter(y, 1, b.astype(ct.float64))
    ct.scatter(y, 2, c.astype(ct.float64))
    ct.scatter(y, 3, d.astype(ct.float64))
