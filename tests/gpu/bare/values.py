"""Numbers in memory, for a machine without NumPy: decoding, comparing, and patterns to fill arrays with."""

from __future__ import annotations

import math
import random
import struct
from array import array

INTEGERS = {
    "i8": "b",
    "u8": "B",
    "i1": "B",
    "i16": "h",
    "u16": "H",
    "i32": "i",
    "u32": "I",
    "i64": "q",
    "u64": "Q",
}
SIZES = {"i8": 1, "u8": 1, "i1": 1, "i16": 2, "u16": 2, "i32": 4, "u32": 4, "i64": 8, "u64": 8, "f16": 2, "bf16": 2,
         "f32": 4, "f64": 8, "e4m3": 1, "e5m2": 1, "e8m0": 1}  # fmt: skip


def _small_floats(exponent_bits: int, fraction_bits: int, finite: bool) -> list[float]:
    """The 256 values of an 8-bit format; `finite` ones have no infinities and one NaN."""
    out = []
    top, bias = (1 << exponent_bits) - 1, (1 << exponent_bits - 1) - 1
    for code in range(256):
        sign = -1.0 if code >> 7 else 1.0
        exponent, fraction = code >> fraction_bits & top, code & ((1 << fraction_bits) - 1)
        if exponent == top and not finite:
            value = math.inf if fraction == 0 else math.nan
        elif finite and code & 0x7F == 0x7F:
            value = math.nan
        elif exponent == 0:
            value = math.ldexp(fraction, 1 - bias - fraction_bits)
        else:
            value = math.ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits)
        out.append(sign * value)
    return out


E4M3 = _small_floats(4, 3, True)
E5M2 = _small_floats(5, 2, False)
E8M0 = [math.ldexp(1.0, code - 127) if code < 255 else math.nan for code in range(256)]


def decode(data: bytes, kind: str) -> list[float] | list[int]:
    """The values of an array's bytes."""
    count = len(data) // SIZES[kind]
    if kind in INTEGERS:
        return array(INTEGERS[kind], data).tolist()
    if kind == "bf16":
        wide = b"".join(b"\0\0" + data[i : i + 2] for i in range(0, len(data), 2))
        return list(struct.unpack(f"<{count}f", wide))
    table = {"e4m3": E4M3, "e5m2": E5M2, "e8m0": E8M0}.get(kind)
    if table:
        return [table[code] for code in data]
    return list(struct.unpack(f"<{count}{ {'f16': 'e', 'f32': 'f', 'f64': 'd'}[kind] }", data))


def difference(got: bytes, want: bytes, kind: str, rtol: float, atol: float) -> str:
    """ "" when two arrays agree as tests/corpus/check.py judges it, else how many differ and the first."""
    if got == want:
        return ""
    if len(got) != len(want):
        return f"{len(got)} bytes, not {len(want)}"
    bad, first = 0, ""
    for index, (g, w) in enumerate(zip(decode(got, kind), decode(want, kind))):
        if not _close(g, w, rtol, atol):
            bad += 1
            first = first or f"first at {index}: got {g}, want {w}"
    return f"{bad} of {len(got) // SIZES[kind]} differ, {first}" if bad else ""


def _close(g: float, w: float, rtol: float, atol: float) -> bool:
    if isinstance(g, int):
        return g == w
    if math.isnan(w):
        return math.isnan(g)
    if g == w:
        return bool(rtol or atol) or math.copysign(1, g) == math.copysign(1, w)
    return not math.isinf(w) and not math.isnan(g) and abs(g - w) <= atol + rtol * abs(w)


def spread(a: bytes, b: bytes, kind: str) -> float:
    """The largest difference of two arrays over the largest magnitude of the second; inf where only one is NaN."""
    worst, largest = 0.0, 0.0
    for x, y in zip(decode(a, kind), decode(b, kind)):
        if math.isnan(x) or math.isnan(y):
            worst = worst if math.isnan(x) and math.isnan(y) else math.inf
            continue
        largest = max(largest, abs(y))
        worst = max(worst, abs(x - y) if x != y else 0.0)
    return worst / largest if largest else worst


def pattern(kind: str, seed: int = 1, count: int = 65521) -> bytes:
    """Random values of a type between -1 and 1 (integers: small ones); a prime number of them, so that rows differ."""
    draw = random.Random(seed)
    if kind in INTEGERS:
        low = 0 if kind[0] == "u" or kind == "i1" else -8
        return array(
            INTEGERS[kind], [draw.randint(low, 1 if kind == "i1" else 7) for _ in range(count)]
        ).tobytes()
    if kind in ("e4m3", "e5m2"):
        table = E4M3 if kind == "e4m3" else E5M2
        small = [code for code, value in enumerate(table) if abs(value) <= 1]
        return bytes(draw.choice(small) for _ in range(count))
    if kind == "e8m0":
        return bytes(draw.randint(120, 128) for _ in range(count))
    floats = [draw.uniform(-1, 1) for _ in range(count)]
    if kind == "bf16":
        return b"".join(struct.pack("<f", value)[2:] for value in floats)
    return struct.pack(f"<{count}{ {'f16': 'e', 'f32': 'f', 'f64': 'd'}[kind] }", *floats)
