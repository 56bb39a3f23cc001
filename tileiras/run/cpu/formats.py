"""Float formats as bit patterns: how each is widened to f32 or f64 and rounded to, on any number of lanes.

Narrow formats are integers in registers. f16 uses the CPU's conversions where it has them; everything else is
integer code, which rounds once in any mode. Values between two steps that must round only once are first rounded
to odd: the last bit keeps what was lost.
"""

from __future__ import annotations

from .code import Code, const, float_of_bits

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass

RN, RZ, RM, RP, RA = "nearest_even", "zero", "negative_inf", "positive_inf", "nearest_away"


class Format:
    """A binary float format: mantissa bits without the hidden one, smallest normal exponent, largest finite code."""

    __slots__ = ("emin", "inf", "mantissa", "max_code", "name", "nan", "sign")

    def __init__(
        self, name: str, mantissa: int, emin: int, max_code: int, inf: int | None, nan: int | None, sign: int
    ) -> None:
        self.name, self.mantissa, self.emin, self.max_code = name, mantissa, emin, max_code
        self.inf, self.nan, self.sign = inf, nan, sign  # sign: the bit's position, 0 for unsigned formats


# Codes of the magnitude. Formats without infinity overflow to NaN, those without NaN to their largest value.
FORMATS = {
    f.name: f
    for f in (
        Format("f16", 10, -14, 0x7BFF, 0x7C00, 0x7FFF, 15),
        Format("bf16", 7, -126, 0x7F7F, 0x7F80, 0x7FFF, 15),
        Format("tf32", 10, -126, 0x3FBFF, 0x3FC00, 0x3FFFF, 18),
        Format("f32", 23, -126, 0x7F7FFFFF, 0x7F800000, 0x7FFFFFFF, 31),
        Format("f64", 52, -1022, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000, 0x7FFFFFFFFFFFFFFF, 63),
        Format("f8E4M3FN", 3, -6, 0x7E, None, 0x7F, 7),
        Format("f8E5M2", 2, -14, 0x7B, 0x7C, 0x7F, 7),
        Format("f8E8M0FNU", 0, -127, 0xFE, None, 0xFF, 0),
        Format("f4E2M1FN", 1, 0, 0x7, None, None, 3),
        Format("fnv8E5M3FNU", 3, -14, 0xFE, None, 0xFF, 0),
    )
}
SATURATING = ("f8E4M3FN", "f8E5M2", "f8E8M0FNU", "f4E2M1FN", "fnv8E5M3FNU")


def computed(name: str) -> str:
    """The LLVM type that a float format is widened to."""
    return "double" if name == "f64" else "float"


def widen(c: Code, n: int, x: str, name: str) -> str:
    """The f32 value of stored elements (f64 stays what it is); exact."""
    if name in ("f32", "f64", "tf32"):
        return x
    if name == "bf16":
        wide = c.cast("zext", "i16", "i32", n, x)
        return c.cast("bitcast", "i32", "float", n, c.bin("shl", "i32", n, wide, const("i32", n, 16)))
    if name == "f16" and "f16c" in c.features:
        return c.cast("fpext", "half", "float", n, c.cast("bitcast", "i16", "half", n, x))
    return decode(c, n, x, FORMATS[name])


def decode(c: Code, n: int, x: str, f: Format) -> str:
    """f32 of the codes of a narrow format, by integer arithmetic."""
    code = c.cast("zext", "i16" if f.name == "f16" else "i8", "i32", n, x)

    def k(value: int) -> str:
        return const("i32", n, value)

    if f.name == "f8E8M0FNU":
        bits = c.bin("shl", "i32", n, code, k(23))
        bits = c.select("i32", n, c.cmp("eq", "i32", n, code, k(0)), k(0x400000), bits)
        bits = c.select("i32", n, c.cmp("eq", "i32", n, code, k(255)), k(0x7FFFFFFF), bits)
        return c.cast("bitcast", "i32", "float", n, bits)
    top = f.sign or 8
    magnitude = c.bin("and", "i32", n, code, k((1 << top) - 1))
    m = f.mantissa
    normal = c.bin("shl", "i32", n, magnitude, k(23 - m))
    normal = c.bin("add", "i32", n, normal, k((f.emin - 1 + 127) << 23))
    small = c.cast("uitofp", "i32", "float", n, magnitude)
    small = c.bin("fmul", "float", n, small, const("float", n, 2.0 ** (f.emin - m)))
    below = c.cmp("ult", "i32", n, magnitude, k(1 << m))
    bits = c.select("i32", n, below, c.cast("bitcast", "float", "i32", n, small), normal)
    if f.inf is not None:
        special = c.bin("or", "i32", n, c.bin("shl", "i32", n, magnitude, k(23 - m)), k(0x7F800000))
        bits = c.select("i32", n, c.cmp("uge", "i32", n, magnitude, k(f.inf)), special, bits)
    elif f.nan is not None:
        bits = c.select("i32", n, c.cmp("eq", "i32", n, magnitude, k(f.nan)), k(0x7FFFFFFF), bits)
    if f.sign:
        sign = c.bin("and", "i32", n, code, k(1 << f.sign))
        bits = c.bin("or", "i32", n, bits, c.bin("shl", "i32", n, sign, k(31 - f.sign)))
    return c.cast("bitcast", "i32", "float", n, bits)


def widen64(c: Code, n: int, x: str, name: str) -> str:
    """The f64 value of stored elements; exact."""
    return c.cast(
        "fpext" if computed(name) == "float" else "bitcast", computed(name), "double", n, widen(c, n, x, name)
    )


def narrow(c: Code, n: int, x: str, name: str) -> str:
    """Stored elements of f32 values (f64 for f64), to nearest even."""
    if name in ("f32", "f64"):
        return x
    if name == "f16" and "f16c" in c.features:
        return c.cast("bitcast", "half", "i16", n, c.cast("fptrunc", "float", "half", n, x))
    if name == "bf16":
        return f32_to_bf16(c, n, x)
    return round_to(c, n, x, "float", name, RN)


def f32_to_bf16(c: Code, n: int, x: str) -> str:
    bits = c.cast("bitcast", "float", "i32", n, x)
    odd = c.bin("and", "i32", n, c.bin("lshr", "i32", n, bits, const("i32", n, 16)), const("i32", n, 1))
    up = c.bin("add", "i32", n, bits, c.bin("add", "i32", n, odd, const("i32", n, 0x7FFF)))
    code = c.cast("trunc", "i32", "i16", n, c.bin("lshr", "i32", n, up, const("i32", n, 16)))
    return c.select("i16", n, c.cmp("uno", "float", n, x, x), const("i16", n, 0x7FFF), code)


def narrow64(c: Code, n: int, x: str, name: str, mode: str = RN, saturate: bool = False) -> str:
    """Stored elements of f64 values, rounded once in `mode`."""
    if name == "f64":
        return x
    if mode == RN and not saturate:
        if name == "f32":
            return c.cast("fptrunc", "double", "float", n, x)
        if name in ("f16", "bf16"):
            return narrow(c, n, f64_to_f32_odd(c, n, x), name)
    return round_to(c, n, x, "double", name, mode, saturate)


def move_bits(c: Code, n: int, type: str, x: str, up: str, step: str) -> str:
    """x, or where `up` holds its bit pattern plus `step`."""
    it = "i32" if type == "float" else "i64"
    bits = c.cast("bitcast", type, it, n, x)
    moved = c.select(it, n, up, c.bin("add", it, n, bits, step), bits)
    return c.cast("bitcast", it, type, n, moved)


def is_finite(c: Code, n: int, x: str) -> str:
    """Whether doubles are."""
    size = c.intrinsic("fabs", "double", n, x)
    return c.cmp("olt", "double", n, size, const("double", n, float("inf")))


def f64_to_f32_odd(c: Code, n: int, x: str) -> str:
    """f32 of f64 values rounded to odd: any narrower rounding is then right."""
    y = c.cast("fptrunc", "double", "float", n, x)
    back = c.cast("fpext", "float", "double", n, y)
    bits = c.cast("bitcast", "float", "i32", n, y)
    # toward x: a magnitude that came out too large steps down (infinity to the largest finite number), else up
    grew = c.cmp(
        "ogt", "double", n, c.intrinsic("fabs", "double", n, back), c.intrinsic("fabs", "double", n, x)
    )
    step = c.select("i32", n, grew, const("i32", n, -1), const("i32", n, 1))
    even = c.cmp("eq", "i32", n, c.bin("and", "i32", n, bits, const("i32", n, 1)), const("i32", n, 0))
    inexact = c.cmp("one", "double", n, back, x)
    move = c.bin("and", "i1", n, even, inexact)
    return move_bits(c, n, "float", y, move, step)


def two_sum(c: Code, n: int, type: str, a: str, b: str) -> tuple[str, str]:
    """(s, e): s + e == a + b, s rounded to nearest."""
    s = c.bin("fadd", type, n, a, b)
    t = c.bin("fsub", type, n, s, a)
    e = c.bin("fsub", type, n, a, c.bin("fsub", type, n, s, t))
    return s, c.bin("fadd", type, n, e, c.bin("fsub", type, n, b, t))


def round_odd(c: Code, n: int, s: str, e: str) -> str:
    """f64 of s + e rounded to odd, s being s + e to nearest."""
    bits = c.cast("bitcast", "double", "i64", n, s)
    zero = const("double", n, 0.0)
    even = c.cmp("eq", "i64", n, c.bin("and", "i64", n, bits, const("i64", n, 1)), const("i64", n, 0))
    move = c.bin("and", "i1", n, even, c.cmp("one", "double", n, e, zero))
    move = c.bin("and", "i1", n, move, is_finite(c, n, s))
    same = c.bin("xor", "i1", n, c.cmp("ogt", "double", n, e, zero), c.cmp("ogt", "double", n, s, zero))
    step = c.select("i64", n, same, const("i64", n, -1), const("i64", n, 1))
    return move_bits(c, n, "double", s, move, step)


def round_to(c: Code, n: int, x: str, source: str, name: str, mode: str, saturate: bool = False) -> str:
    """Stored elements of f32 or f64 values in any format of at most their width, rounded once in `mode`.

    saturate: what is beyond the range becomes the largest finite value of its sign, infinities too.
    """
    f = FORMATS[name]
    if name == "f8E8M0FNU":
        return round_e8m0(c, n, x, source, mode, saturate)
    it, width = ("i32", 32) if source == "float" else ("i64", 64)
    s = FORMATS["f32" if source == "float" else "f64"]

    def k(value: int) -> str:
        return const(it, n, value)

    bits = c.cast("bitcast", source, it, n, x)
    size = c.bin("and", it, n, bits, k((1 << (width - 1)) - 1))
    negative = c.cmp("slt", it, n, bits, k(0))
    exponent = c.bin("lshr", it, n, size, k(s.mantissa))
    fraction = c.bin("and", it, n, size, k((1 << s.mantissa) - 1))
    normal = c.cmp("ne", it, n, exponent, k(0))
    significand = c.bin("or", it, n, fraction, c.select(it, n, normal, k(1 << s.mantissa), k(0)))
    # value = significand * 2**(e - mantissa), e at least the source's smallest exponent
    e = c.bin("add", it, n, c.intrinsic("umax", it, n, exponent, k(1)), k(s.emin - 1))
    below = c.intrinsic("smax", it, n, c.bin("sub", it, n, k(f.emin), e), k(0))
    shift = c.bin("add", it, n, below, k(s.mantissa - f.mantissa))
    shift = c.intrinsic("umin", it, n, shift, k(s.mantissa + 2))
    q = c.bin("lshr", it, n, significand, shift)
    rest = c.bin("sub", it, n, significand, c.bin("shl", it, n, q, shift))
    some = c.cmp("ne", it, n, rest, k(0))
    one = k(1)
    exact = c.cmp("eq", it, n, shift, k(0))
    half = c.bin("lshr", it, n, c.bin("shl", it, n, one, shift), one)
    if mode in (RN, RA):
        over = c.cmp("ugt", it, n, rest, half)
        tie = c.cmp("eq", it, n, rest, half)
        odd = c.cmp("ne", it, n, c.bin("and", it, n, q, one), k(0))
        up = c.bin("or", "i1", n, over, tie if mode == RA else c.bin("and", "i1", n, tie, odd))
        up = c.select("i1", n, exact, const("i1", n, 0), up)
    elif mode == RZ:
        up = const("i1", n, 0)
    else:
        side = negative if mode == RM else c.bin("xor", "i1", n, negative, const("i1", n, 1))
        up = c.bin("and", "i1", n, some, side)
    q = c.bin("add", it, n, q, c.cast("zext", "i1", it, n, up))
    steps = c.intrinsic("smax", it, n, c.bin("sub", it, n, e, k(f.emin)), k(0))
    code = c.bin("add", it, n, c.bin("shl", it, n, steps, k(f.mantissa)), q)
    beyond = c.cmp("ugt", it, n, code, k(f.max_code))
    infinite = c.cmp("eq", it, n, size, k(s.inf or 0))
    nan = c.cmp("ugt", it, n, size, k(s.inf or 0))
    if f.inf is None and f.nan is None:
        saturate = True
    top = f.inf if f.inf is not None else f.nan
    if saturate:
        code = c.select(it, n, beyond, k(f.max_code), code)
    else:
        limit = k(top or 0)
        if mode == RZ:
            limit = k(f.max_code)
        elif mode in (RM, RP):
            limit = c.select(it, n, negative, k(top or 0) if mode == RM else k(f.max_code),
                             k(f.max_code) if mode == RM else k(top or 0))  # fmt: skip
        code = c.select(it, n, beyond, limit, code)
        code = c.select(it, n, infinite, k(top or 0), code)
    if f.sign:
        code = c.bin("or", it, n, code, c.select(it, n, negative, k(1 << f.sign), k(0)))
    else:  # a negative value has no place: NaN; zero keeps its code
        bad = c.bin("and", "i1", n, negative, c.cmp("ne", it, n, code, k(0)))
        code = c.select(it, n, bad, k(f.nan or 0), code)
    code = c.select(it, n, nan, k(f.nan if f.nan is not None else f.max_code), code)
    if name == "tf32":
        wide = c.cast("trunc", it, "i32", n, code)
        return c.cast("bitcast", "i32", "float", n, c.bin("shl", "i32", n, wide, const("i32", n, 13)))
    target = {"f16": "i16", "bf16": "i16", "f32": "i32", "f64": "i64"}.get(name, "i8")
    code = c.cast("trunc", it, target, n, code)
    if name in ("f32", "f64"):
        return c.cast("bitcast", target, "float" if name == "f32" else "double", n, code)
    return code


def round_e8m0(c: Code, n: int, x: str, source: str, mode: str, saturate: bool) -> str:
    """Powers of two: the sign is dropped, what is at most 2**-127 gives the smallest code."""
    if source == "float":
        x, source = c.cast("fpext", "float", "double", n, x), "double"

    def k(value: int) -> str:
        return const("i64", n, value)

    size = c.bin("and", "i64", n, c.cast("bitcast", "double", "i64", n, x), k((1 << 63) - 1))
    exponent = c.bin("sub", "i64", n, c.bin("lshr", "i64", n, size, k(52)), k(1023 - 127))
    fraction = c.bin("and", "i64", n, size, k((1 << 52) - 1))
    if mode == RP:
        up = c.cmp("ne", "i64", n, fraction, k(0))
    elif mode == RZ:
        up = const("i1", n, 0)
    else:
        up = c.cmp("uge", "i64", n, fraction, k(1 << 51))  # half way goes up
    code = c.bin("add", "i64", n, exponent, c.cast("zext", "i1", "i64", n, up))
    tiny = c.cmp("ule", "i64", n, size, k((1023 - 127) << 52))
    code = c.select("i64", n, tiny, k(0), code)
    high = 254 if saturate or mode == RZ else 255
    code = c.intrinsic("smin", "i64", n, c.intrinsic("smax", "i64", n, code, k(0)), k(high))
    code = c.select("i64", n, c.cmp("eq", "i64", n, size, k(0x7FF << 52)), k(254 if saturate else 255), code)
    code = c.select("i64", n, c.cmp("ugt", "i64", n, size, k(0x7FF << 52)), k(255), code)
    return c.cast("trunc", "i64", "i8", n, code)


def canonical_nan(name: str, n: int) -> str:
    """The NaN that arithmetic gives, as a stored constant."""
    f = FORMATS[name]
    if name in ("f32", "tf32"):
        return float_of_bits("float", n, 0x7FFFFFFF)
    if name == "f64":
        return float_of_bits("double", n, 0x7FFFFFFFFFFFFFFF)
    return const("i16" if f.sign == 15 else "i8", n, f.nan or 0)


def flush(c: Code, n: int, x: str) -> str:
    """f32 with subnormals replaced by zeros of their sign."""
    size = c.intrinsic("fabs", "float", n, x)
    tiny = c.cmp("olt", "float", n, size, const("float", n, 2.0**-126))
    zero = c.intrinsic("copysign", "float", n, const("float", n, 0.0), x)
    return c.select("float", n, tiny, zero, x)
