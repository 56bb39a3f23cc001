"""Float formats bit for bit: how each element type is stored, decoded to float32/float64 and rounded to.

Types that NumPy has are stored as such (f16, f32, f64; tf32 as float32); all others as their bit patterns
(bf16 in uint16, 8-bit and 4-bit types in uint8), so that moving a value never changes a NaN. Rounding goes
through float64: `round_odd` folds what float64 lost into its last bit, after which rounding to any format of
at most 51 bits is right in every mode.
"""

from __future__ import annotations

import numpy as np

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.types import Type

Array = np.ndarray

RN, RZ, RM, RP, RA = "nearest_even", "zero", "negative_inf", "positive_inf", "nearest_away"


class Format:
    """A binary float format. `precision` counts the hidden bit; `emin` is the smallest normal exponent."""

    __slots__ = (
        "bits", "canonical_nan", "emin", "has_inf", "has_nan", "has_zero", "max", "name", "positive",
        "precision", "signed", "storage", "table",
    )  # fmt: skip

    def __init__(
        self, name: str, bits: int, storage: Any, precision: int, emin: int, max: float, canonical_nan: int,
        *, has_inf: bool = True, has_nan: bool = True, signed: bool = True, has_zero: bool = True,
    ) -> None:  # fmt: skip
        self.name, self.bits, self.storage = name, bits, np.dtype(storage)
        self.precision, self.emin, self.max = precision, emin, max
        self.canonical_nan = canonical_nan
        self.has_inf, self.has_nan, self.signed, self.has_zero = has_inf, has_nan, signed, has_zero
        self.table: Array | None = None  # bits -> float32, for formats of at most 8 bits
        self.positive: Array | None = None  # finite values with the sign bit clear, ascending, as float64

    def __repr__(self) -> str:
        return self.name


def _small(
    name: str, bits: int, exponent_bits: int, bias: int, nan: set[int], inf: set[int], **kw: Any
) -> Format:
    """A format of at most 8 bits with its decode table."""
    signed = kw.get("signed", True)
    mantissa_bits = bits - exponent_bits - (1 if signed else 0)
    table = np.zeros(256, np.float32)
    positive = []
    for code in range(1 << bits):
        magnitude = code & ((1 << (bits - 1)) - 1) if signed else code
        e, m = magnitude >> mantissa_bits, magnitude & ((1 << mantissa_bits) - 1)
        if e == 0 and kw.get("has_zero", True):
            value = m * 2.0 ** (1 - bias - mantissa_bits)
        else:
            value = (1 + m / (1 << mantissa_bits)) * 2.0 ** (e - bias)
        if magnitude in nan:
            value = np.nan
        elif magnitude in inf:
            value = np.inf
        elif code == magnitude:
            positive.append(value)
        table[code] = np.copysign(value, -1.0) if signed and code >> (bits - 1) else value
    for code in range(1 << bits, 256):  # 4-bit types: high nibble is not part of the value
        table[code] = table[code & ((1 << bits) - 1)]
    emin = 1 - bias if kw.get("has_zero", True) else -bias
    fmt = Format(
        name, bits, np.uint8, mantissa_bits + 1, emin, positive[-1], max(nan, default=0),
        has_inf=bool(inf), has_nan=bool(nan), **kw,
    )  # fmt: skip
    fmt.table, fmt.positive = table, np.array(positive)
    return fmt


F16 = Format("f16", 16, np.float16, 11, -14, 65504.0, 0x7FFF)
BF16 = Format("bf16", 16, np.uint16, 8, -126, 2.0**128 - 2.0**120, 0x7FFF)
F32 = Format("f32", 32, np.float32, 24, -126, 2.0**128 - 2.0**104, 0x7FFFFFFF)
TF32 = Format("tf32", 32, np.float32, 11, -126, 2.0**128 - 2.0**117, 0x7FFFE000)
F64 = Format("f64", 64, np.float64, 53, -1022, float(np.finfo(np.float64).max), 0x7FFFFFFFFFFFFFFF)
E4M3 = _small("f8E4M3FN", 8, 4, 7, {0x7F}, set())
E5M2 = _small("f8E5M2", 8, 5, 15, {0x7D, 0x7E, 0x7F}, {0x7C})
E8M0 = _small("f8E8M0FNU", 8, 8, 127, {0xFF}, set(), signed=False, has_zero=False)
E2M1 = _small("f4E2M1FN", 4, 2, 1, set(), set())
E5M3 = _small("fnv8E5M3FNU", 8, 5, 15, {0xFF}, set(), signed=False)

FORMATS: dict[str, Format] = {f.name: f for f in (F16, BF16, F32, TF32, F64, E4M3, E5M2, E8M0, E2M1, E5M3)}

# Integers: i1 as bool, i4 as its nibble; no sign is implied by the storage, each op brings its own.
STORAGE: dict[str, np.dtype[Any]] = {
    "i1": np.dtype(np.bool_),
    "i4": np.dtype(np.uint8),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    **{f.name: f.storage for f in FORMATS.values()},
}
POINTER = np.dtype(np.int64)


def storage_dtype(elem: Type) -> np.dtype[Any]:
    """The NumPy dtype in which tiles of `elem` are kept; pointers are addresses in int64."""
    name = getattr(elem, "name", None)
    return POINTER if name is None else STORAGE[name]


def decode(x: Any, fmt: Format) -> Any:
    """float32 values of stored elements (float64 for f64); exact."""
    if fmt is F32 or fmt is F64:
        return x
    if fmt is F16:
        return x.astype(np.float32)
    if fmt is BF16:
        return (x.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if fmt is TF32:  # only the upper 19 bits count
        return (np.asarray(x).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    assert fmt.table is not None
    return fmt.table[x]


def decode64(x: Any, fmt: Format) -> Any:
    return decode(x, fmt).astype(np.float64)


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """s + e == a + b exactly, s rounded to nearest (no overflow assumed)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def round_odd(s: Any, e: Any) -> Any:
    """float64 of s + e rounded to odd, where s is s + e rounded to nearest: e's sign is all that counts."""
    s = np.asarray(s)
    bits = s.view(np.int64)
    move = (e != 0) & ((bits & 1) == 0) & np.isfinite(s)
    step = np.where((e > 0) == (s > 0), 1, -1)
    return np.where(move, bits + step, bits).view(np.float64)


def f64_to_f32_odd(x: Any) -> Any:
    """float32 of float64 values rounded to odd (then any narrower rounding is right)."""
    y = np.asarray(x).astype(np.float32)
    back = y.astype(np.float64)
    bits = y.view(np.int32)
    away = np.where((x > back) == (y > 0), 1, -1).astype(np.int32)
    # zero results: the neighbour toward x is the smallest subnormal of x's sign
    zero = (y == 0) & (x != 0)
    tiny = np.where(x < 0, np.int32(-0x7FFFFFFF), np.int32(1))
    move = (back != x) & ((bits & 1) == 0) & np.isfinite(y)
    # a finite value that overflowed rounds to odd as the largest finite number (its last bit is odd)
    over = np.isinf(y) & np.isfinite(x)
    out = np.where(move, bits + away, bits)
    out = np.where(zero, tiny, out)
    out = np.where(over, np.where(x > 0, np.int32(0x7F7FFFFF), np.int32(-0x800001)), out)
    return out.astype(np.int32).view(np.float32)


def _to_integral(y: Any, mode: str) -> Any:
    if mode == RN:
        return np.rint(y)
    if mode == RZ:
        return np.trunc(y)
    if mode == RM:
        return np.floor(y)
    if mode == RP:
        return np.ceil(y)
    return np.copysign(np.floor(np.abs(y) + 0.5), y)  # nearest_away


def round_grid(x: Any, fmt: Format, mode: str) -> Any:
    """float64 values rounded to the format's grid, without its upper bound."""
    _, e = np.frexp(x)
    quantum = np.maximum(e - 1, fmt.emin) - (fmt.precision - 1)
    return np.ldexp(_to_integral(np.ldexp(x, -quantum), mode), quantum)


def encode_small(v: Any, fmt: Format) -> Any:
    """Bit patterns of float64 values that lie on the grid of a format of at most 8 bits, within its range."""
    assert fmt.positive is not None
    code = np.searchsorted(fmt.positive, np.abs(v)).astype(np.uint8)
    if fmt.signed:
        code |= np.where(np.signbit(v), np.uint8(1 << (fmt.bits - 1)), np.uint8(0))
    return code


def encode(x: Any, fmt: Format, mode: str = RN, saturate: bool = False) -> Any:
    """Stored elements of float64 values, rounded once in `mode`.

    saturate (`.satfinite` of PTX, for formats of at most 8 bits): values beyond the range and infinities
    become the largest finite value of their sign; otherwise infinity, or NaN where the format has none. NaN
    becomes the canonical NaN; formats without NaN give their largest value.
    """
    x = np.asarray(x, np.float64)
    if mode == RN and not saturate:
        if fmt is F64:
            return x
        if fmt is F32:
            return x.astype(np.float32)
        if fmt is F16:
            return x.astype(np.float16)
        if fmt is BF16:
            return f32_to_bf16(f64_to_f32_odd(x))
    if fmt is E8M0:
        return _encode_e8m0(x, mode, saturate)
    v = round_grid(x, fmt, mode)
    over = np.isfinite(x) & (np.abs(v) > fmt.max)
    if over.any():
        toward_max = saturate | (mode == RZ) | ((mode == RM) & (x > 0)) | ((mode == RP) & (x < 0))
        beyond = np.where(toward_max, fmt.max, np.inf)
        v = np.where(over, np.copysign(beyond, x), v)
    if fmt is F64:
        return v
    if fmt is F32:
        return v.astype(np.float32)
    if fmt is F16:
        return v.astype(np.float16)
    if fmt is BF16:
        bits = (v.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
        return np.where(np.isnan(x), np.uint16(0x7FFF), bits)
    if fmt is TF32:
        bits = v.astype(np.float32).view(np.uint32)
        return np.where(np.isnan(x), np.uint32(0x7FFFE000), bits).view(np.float32)
    inf, nan = np.isinf(v), np.isnan(v)
    code = encode_small(np.where(inf | nan, 0.0, v), fmt)
    sign = np.where(np.signbit(v), np.uint8(1 << (fmt.bits - 1)), np.uint8(0)) if fmt.signed else np.uint8(0)
    assert fmt.positive is not None
    largest = np.uint8(len(fmt.positive) - 1)
    if not fmt.signed:  # a negative value has no place: NaN, like every value that cannot be said
        code = np.where(v < 0, np.uint8(fmt.canonical_nan), code)
    if inf.any():
        if saturate or not (fmt.has_inf or fmt.has_nan):
            code = np.where(inf, largest | sign, code)
        elif fmt.has_inf:
            code = np.where(inf, np.uint8(largest + 1) | sign, code)
        else:
            code = np.where(inf, np.uint8(fmt.canonical_nan), code)
    if nan.any():
        code = np.where(nan, np.uint8(fmt.canonical_nan) if fmt.has_nan else largest, code)
    return code.astype(np.uint8)


def _encode_e8m0(x: Any, mode: str, saturate: bool) -> Any:
    """Powers of two: the sign is dropped; zero and what is below the smallest power give the smallest."""
    magnitude = np.abs(x)
    m, e = np.frexp(magnitude)  # magnitude = m * 2**e, m in [0.5, 1)
    exponent = (e - 1).astype(np.int64)
    up = m > 0.5
    if mode == RP:
        exponent = exponent + up
    elif mode != RZ:  # nearest: ties to even have no meaning with one bit of precision; half way goes up
        exponent = exponent + (m >= 0.75)
    code = exponent + 127
    code = np.where(magnitude <= 2.0**-127, 0, code)
    high = 254 if saturate or mode == RZ else 255
    code = np.where(np.isinf(x), 254 if saturate else 255, np.clip(code, 0, high))
    return np.where(np.isnan(x), 255, code).astype(np.uint8)


def f32_to_bf16(x: Any) -> Any:
    """bf16 bits of float32 values, to nearest even."""
    u = np.asarray(x).view(np.uint32)
    r = (u + np.uint32(0x7FFF) + ((u >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where((u & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000), np.uint32(0x7FFF), r).astype(
        np.uint16
    )


def encode_f32(x: Any, fmt: Format) -> Any:
    """Stored elements of float32 values, to nearest even: the short way for f16, bf16 and f32."""
    if fmt is F32:
        return x
    if fmt is BF16:
        return f32_to_bf16(x)
    if fmt is F16:
        return x.astype(np.float16)
    return encode(np.asarray(x).astype(np.float64), fmt)


def flush(x: Any) -> Any:
    """float32 with subnormals replaced by zeros of their sign."""
    return np.where(np.abs(x) < np.float32(2.0**-126), np.copysign(np.float32(0), x), x)
