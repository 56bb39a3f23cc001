"""Integer arithmetic with PTX's exact semantics on NumPy arrays: wide products, bit fields, carries, permutes."""

from __future__ import annotations

import numpy as np

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "bfe",
    "bfi",
    "bmsk",
    "clamp_int",
    "divide",
    "dot",
    "fns",
    "funnel",
    "leading",
    "lop3",
    "mad_carry",
    "mulhi_s64",
    "mulhi_u64",
    "popcount",
    "prmt",
    "remainder",
    "reverse_bits",
    "sad",
    "shl",
    "shr",
    "simd",
    "szext",
    "wide_add",
    "wide_sub",
]

_U64 = np.uint64


def clamp_int(x: np.ndarray, bits: int, signed: bool) -> np.ndarray:
    """Integers clamped to a narrower type (as int64 or uint64 values, then cast)."""
    kind = np.dtype(f"{'' if signed else 'u'}int{bits}")
    info = np.iinfo(kind)
    lo, hi = info.min, info.max
    src = np.iinfo(x.dtype)
    y = x
    if src.min < lo:
        y = np.where(y < x.dtype.type(lo), x.dtype.type(lo), y)
    if src.max > hi:
        y = np.where(y > x.dtype.type(hi), x.dtype.type(hi), y)
    return y.astype(kind)


def mulhi_u64(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    m, s = _U64(0xFFFFFFFF), _U64(32)
    al, ah, bl, bh = a & m, a >> s, b & m, b >> s
    mid = ah * bl + ((al * bl) >> s)
    mid2 = al * bh + (mid & m)
    return ah * bh + (mid >> s) + (mid2 >> s)


def mulhi_s64(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    ua, ub = a.view(_U64), b.view(_U64)
    hi = mulhi_u64(ua, ub)
    return (hi - np.where(a < 0, ub, _U64(0)) - np.where(b < 0, ua, _U64(0))).view(np.int64)


def divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Integer division toward zero. By zero: all ones, as the hardware sequence gives; min/-1 wraps."""
    zero = b == 0
    kind = a.dtype.type
    safe = np.where(zero, kind(1), b)
    if a.dtype.kind == "u":
        q = a // safe
    else:
        q = a // safe
        q = q + ((q * safe != a) & ((a < 0) != (safe < 0)))
        q = q.astype(a.dtype)
    return np.where(zero, kind(-1) if a.dtype.kind == "i" else kind(~kind(0)), q)


def remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    zero = b == 0
    q = divide(a, np.where(zero, b.dtype.type(1), b))
    return np.where(zero, a, a - q * b)


def shl(a: np.ndarray, n: np.ndarray) -> np.ndarray:
    """a << n; amounts of the width or more give 0."""
    bits = a.dtype.itemsize * 8
    if n.size == 1:
        k = int(n[0])
        return a << a.dtype.type(k) if k < bits else np.zeros_like(a)
    return np.where(n < bits, a << np.minimum(n, bits - 1).astype(a.dtype), a.dtype.type(0))


def shr(a: np.ndarray, n: np.ndarray) -> np.ndarray:
    """a >> n, arithmetic for signed; amounts of the width or more give 0 or the sign."""
    bits = a.dtype.itemsize * 8
    k = np.minimum(n, bits - 1)
    y = a >> k.astype(a.dtype)
    if a.dtype.kind == "i" or (n.size == 1 and n[0] < bits):
        return y
    return np.where(n < bits, y, a.dtype.type(0))


def popcount(a: np.ndarray) -> np.ndarray:
    if hasattr(np, "bitwise_count"):
        return np.bitwise_count(a).astype(np.uint32)
    return (
        np.unpackbits(np.ascontiguousarray(a).view(np.uint8).reshape(a.size, -1), axis=1)
        .sum(1)
        .astype(np.uint32)
    )


def leading(a: np.ndarray) -> np.ndarray:
    """Index of the highest set bit of an unsigned array, -1 for zero (as int32)."""
    y = a.copy()
    bits = a.dtype.itemsize * 8
    k = 1
    while k < bits:
        y |= y >> a.dtype.type(k)
        k *= 2
    return popcount(y).view(np.int32) - np.int32(1)


def reverse_bits(a: np.ndarray) -> np.ndarray:
    y = a
    masks = {1: 0x5555555555555555, 2: 0x3333333333333333, 4: 0x0F0F0F0F0F0F0F0F}
    kind = a.dtype.type
    full = (1 << a.dtype.itemsize * 8) - 1
    for k, m in masks.items():
        y = ((y >> kind(k)) & kind(m & full)) | ((y & kind(m & full)) << kind(k))
    return y.byteswap()


def bfe(a: np.ndarray, pos: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Bit field of a at pos, length bits (8-bit counts), sign- or zero-extended; the sign repeats the top bit."""
    bits = a.dtype.itemsize * 8
    pos, length = (pos & 0xFF).astype(np.int64), (length & 0xFF).astype(np.int64)
    unsigned = a.view(f"uint{bits}")
    part = shr(unsigned, pos)
    kept = np.where(
        length >= bits,
        ~unsigned.dtype.type(0),
        (unsigned.dtype.type(1) << np.minimum(length, bits - 1).astype(unsigned.dtype))
        - unsigned.dtype.type(1),
    )
    part = part & kept
    if a.dtype.kind == "u":
        return part
    at = np.minimum(pos + length - 1, bits - 1)
    sign = np.where(
        length == 0, 0, (shr(unsigned, np.maximum(at, 0)) & unsigned.dtype.type(1)).astype(np.int64)
    )
    # bits of the field that lie beyond the register repeat the sign as well
    have = np.clip(np.minimum(length, bits - pos), 0, bits)
    kept = np.where(
        have >= bits,
        ~unsigned.dtype.type(0),
        (unsigned.dtype.type(1) << np.minimum(have, bits - 1).astype(unsigned.dtype))
        - unsigned.dtype.type(1),
    )
    return np.where(sign != 0, part | ~kept, part & kept).view(a.dtype)


def bfi(a: np.ndarray, b: np.ndarray, pos: np.ndarray, length: np.ndarray) -> np.ndarray:
    bits = a.dtype.itemsize * 8
    kind = a.dtype.type
    pos, length = (pos & 0xFF).astype(np.int64), (length & 0xFF).astype(np.int64)
    ones = np.where(
        length >= bits, kind(~kind(0)), (kind(1) << np.minimum(length, bits - 1).astype(a.dtype)) - kind(1)
    )
    mask = shl(ones, pos)
    return (b & ~mask) | (shl(a, pos) & mask)


def bmsk(a: np.ndarray, b: np.ndarray, clamp: bool) -> np.ndarray:
    a, b = a.astype(np.int64), b.astype(np.int64)
    if not clamp:
        a, b = a & 31, b & 31
    one = np.uint64(1)
    a1, b1 = np.minimum(a, 32).astype(np.uint64), np.minimum(b, 32).astype(np.uint64)
    low = (one << b1) - one
    return ((low << a1) & np.uint64(0xFFFFFFFF)).astype(np.uint32)


def szext(a: np.ndarray, n: np.ndarray, clamp: bool) -> np.ndarray:
    n = n.astype(np.int64)
    n = np.minimum(n, 32) if clamp else n & 31
    k = (32 - n).astype(np.int64)
    return np.where(
        n == 0,
        a.dtype.type(0),
        (a.astype(np.uint32) << np.minimum(k, 31).astype(np.uint32)).view(a.dtype)
        >> np.minimum(k, 31).astype(a.dtype),
    )


def lop3(a: np.ndarray, b: np.ndarray, c: np.ndarray, table: int) -> np.ndarray:
    known = {
        0x80: lambda: a & b & c,
        0xFE: lambda: a | b | c,
        0x96: lambda: a ^ b ^ c,
        0xC0: lambda: a & b,
        0xFC: lambda: a | b,
        0x3C: lambda: a ^ b,
        0xEA: lambda: (a & b) | c,
        0xE2: lambda: (a & b) | (c & ~b),
        0xCA: lambda: (a & b) | (~a & c),
        0xF8: lambda: a | (b & c),
        0xA8: lambda: (a | b) & c,
        0xE8: lambda: (a & b) | (a & c) | (b & c),
        0x78: lambda: a ^ (b & c),
        0x6A: lambda: (a & b) ^ c,
    }
    if table in known:
        return known[table]()
    out = None
    for i in range(8):
        if table >> i & 1:
            term = (a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c)
            out = term if out is None else out | term
    return np.zeros_like(a) if out is None else out


def prmt(a: np.ndarray, b: np.ndarray, sel: np.ndarray, mode: str) -> np.ndarray:
    both = a.astype(np.uint64) | (b.astype(np.uint64) << np.uint64(32))
    out = np.zeros(1, np.uint32)
    low = sel & np.uint32(3)
    for i in range(4):
        if mode == "":
            nib = (sel >> np.uint32(4 * i)) & np.uint32(15)
            at, sign = nib & np.uint32(7), nib >> np.uint32(3)
        else:
            sign = np.zeros(1, np.uint32)
            k = np.uint32(i)
            at = {
                "f4e": low + k,
                "b4e": (low - k) & np.uint32(7),
                "rc8": low,
                "ecl": np.maximum(low, k),
                "ecr": np.minimum(low, k),
                "rc16": (low & np.uint32(1)) * np.uint32(2) + (k & np.uint32(1)),
            }[mode]
        byte = ((both >> (at.astype(np.uint64) * np.uint64(8))) & np.uint64(255)).astype(np.uint32)
        if sign.any():
            byte = np.where(
                sign != 0, np.where(byte >> np.uint32(7) != 0, np.uint32(255), np.uint32(0)), byte
            )
        out = out | (byte << np.uint32(8 * i))
    return out


def funnel(a: np.ndarray, b: np.ndarray, n: np.ndarray, left: bool, clamp: bool) -> np.ndarray:
    """shf: b:a as 64 bits, shifted."""
    n = np.minimum(n, 32).astype(np.uint64) if clamp else (n & np.uint32(31)).astype(np.uint64)
    both = a.astype(np.uint64) | (b.astype(np.uint64) << np.uint64(32))
    if left:
        return ((both << n) >> np.uint64(32)).astype(np.uint32)
    return (both >> n).astype(np.uint32)


def fns(mask: np.ndarray, base: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """Position of the n-th set bit from base, upward or downward; -1 where there is none."""
    mask, base, offset = np.broadcast_arrays(mask, base, offset)
    out = np.full(mask.size, 0xFFFFFFFF, np.uint32)
    for i in range(mask.size):
        m, b, o = int(mask[i]), int(base[i]) & 31, int(offset[i])
        step = 1 if o >= 0 else -1
        if o == 0:
            out[i] = b if m >> b & 1 else 0xFFFFFFFF
            continue
        left, at = abs(o), b
        while 0 <= at < 32:
            if m >> at & 1:
                left -= 1
                if left == 0:
                    out[i] = at
                    break
            at += step
    return out


def wide_add(a: np.ndarray, b: np.ndarray, carry) -> tuple[np.ndarray, np.ndarray]:
    """Sum and carry out; carry is None or a bool array."""
    s = a + b
    out = s < a
    if carry is not None:
        s2 = s + carry.astype(a.dtype)
        out = out | (s2 < s)
        s = s2
    return s, out


def wide_sub(a: np.ndarray, b: np.ndarray, borrow) -> tuple[np.ndarray, np.ndarray]:
    d = a - b
    out = a < b
    if borrow is not None:
        d2 = d - borrow.astype(a.dtype)
        out = out | (d < borrow.astype(a.dtype))
        d = d2
    return d, out


def mad_carry(product: np.ndarray, c: np.ndarray, carry) -> tuple[np.ndarray, np.ndarray]:
    return wide_add(product, c, carry)


def sad(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    diff = np.where(a > b, a - b, b - a)
    return c + diff.astype(c.dtype)


_SIMD: dict[str, Callable[..., np.ndarray]] = {
    "vadd": lambda a, b: a + b,
    "vsub": lambda a, b: a - b,
    "vavrg": lambda a, b: a + b + (a + b >= 0) >> 1,  # halves go away from zero
    "vabsdiff": lambda a, b: abs(a - b),
    "vmin": np.minimum,
    "vmax": np.maximum,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def simd(op: str, kinds: tuple[str, str, str], a: np.ndarray, b: np.ndarray, sat: bool, total) -> np.ndarray:
    """vadd4, vset2 and their like: `op` on the bytes or halves of words (kinds: of the result, of a, of b), or with `total` that
    plus their sum."""
    parts = 32 // np.dtype(kinds[0]).itemsize // 8
    x, y = (
        np.ascontiguousarray(v).view(kind).reshape(-1, parts).astype(np.int64)
        for v, kind in ((a, kinds[1]), (b, kinds[2]))
    )
    out = _SIMD[op](x, y).astype(np.int64)
    if total is not None:
        return (total.astype(np.int64) + out.sum(1)).astype(np.uint32)
    if sat:
        limits = np.iinfo(kinds[0])
        out = np.clip(out, limits.min, limits.max)
    return np.ascontiguousarray(out.astype(kinds[0])).view(np.uint32).reshape(-1)


def dot(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, a_kind: str, b_kind: str, high: bool | None
) -> np.ndarray:
    """dp4a (high None) and dp2a (lo/hi): c plus products of the parts."""
    if high is None:
        x = np.ascontiguousarray(a).view(a_kind).reshape(-1, 4).astype(np.int64)
        y = np.ascontiguousarray(b).view(b_kind).reshape(-1, 4).astype(np.int64)
    else:
        x = np.ascontiguousarray(a).view(a_kind).reshape(-1, 2).astype(np.int64)
        y = np.ascontiguousarray(b).view(b_kind).reshape(-1, 4).astype(np.int64)
        y = y[:, 2:] if high else y[:, :2]
    return ((x * y).sum(1) + c.astype(np.int64)).astype(np.uint32 if c.dtype.kind == "u" else np.int32)
