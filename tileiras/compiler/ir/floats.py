"""Float formats as parameters: decimal and rational values to bit patterns and back, in exact integers.

Covers every element type of Tile IR. `spell` gives the text MLIR prints: six digits when they read back to the
same bits, else enough digits, else hexadecimal.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .types import Scalar

# name -> (exponent bits, mantissa bits, has a sign bit, what all-ones exponents are).
# "ieee": infinities and NaNs; "fn": finite but for one NaN pattern; "finite": numbers only.
FORMATS: dict[str, tuple[int, int, bool, str]] = {
    "f16": (5, 10, True, "ieee"),
    "bf16": (8, 7, True, "ieee"),
    "f32": (8, 23, True, "ieee"),
    "tf32": (8, 10, True, "ieee"),
    "f64": (11, 52, True, "ieee"),
    "f8E5M2": (5, 2, True, "ieee"),
    "f8E4M3FN": (4, 3, True, "fn"),
    "f8E8M0FNU": (8, 0, False, "fn"),
    "f4E2M1FN": (2, 1, True, "finite"),
    "fnv8E5M3FNU": (5, 3, False, "fn"),
}


def width_of(elem: Scalar) -> int:
    """Bits of the pattern (tf32: 19)."""
    e, m, signed, _ = FORMATS[elem.name]
    return e + m + signed


def decode(bits: int, elem: Scalar) -> tuple[int, int, int] | str:
    """(sign, mantissa, exponent) with value = mantissa * 2**exponent, or "nan", "inf", "-inf"."""
    e, m, signed, kind = FORMATS[elem.name]
    sign = bits >> (e + m) & 1 if signed else 0
    exponent = bits >> m & ((1 << e) - 1)
    mantissa = bits & ((1 << m) - 1)
    ones = (1 << e) - 1
    if exponent == ones:
        if kind == "ieee":
            return "nan" if mantissa else ("-inf" if sign else "inf")
        if kind == "fn" and mantissa == (1 << m) - 1:
            return "nan"
    bias = (1 << (e - 1)) - 1
    if m == 0 and not signed:  # exponent only: 2**(x - bias), no zero
        return 0, 1, exponent - bias
    if exponent == 0:
        return sign, mantissa, 1 - bias - m
    return sign, mantissa | 1 << m, exponent - bias - m


def encode(sign: int, numerator: int, denominator: int, elem: Scalar) -> int:
    """Bits of numerator/denominator, rounded to nearest even; overflow gives infinity, or NaN, or the maximum."""
    e, m, signed, kind = FORMATS[elem.name]
    bias = (1 << (e - 1)) - 1
    ones = (1 << e) - 1
    top = sign << (e + m) if signed else 0
    if numerator == 0:
        return top
    exponent = numerator.bit_length() - denominator.bit_length()
    if (numerator << max(-exponent, 0)) < (denominator << max(exponent, 0)):
        exponent -= 1  # now 2**exponent <= value < 2**(exponent + 1)
    lowest = -bias if m == 0 and not signed else 1 - bias
    exponent = max(exponent, lowest)
    shift = m - exponent
    scaled, rest = divmod(numerator << max(shift, 0), denominator << max(-shift, 0))
    divisor = denominator << max(-shift, 0)
    if 2 * rest > divisor or (2 * rest == divisor and scaled & 1):
        scaled += 1
    if scaled >> (m + 1):
        scaled >>= 1
        exponent += 1
    if m == 0 and not signed:
        field = exponent + bias
        return min(max(field, 0), ones)
    field = exponent + bias if scaled >> m else 0
    overflow = field > ones or (field == ones and kind == "ieee")
    if kind == "fn" and field == ones and scaled & ((1 << m) - 1) == (1 << m) - 1:
        overflow = True
    if overflow:
        if kind == "ieee":
            return top | ones << m
        return top | ((1 << (e + m)) - 1)
    return top | field << m | (scaled & ((1 << m) - 1))


def parse_decimal(text: str, elem: Scalar) -> int:
    """Bits of a decimal literal such as `-1.5e-3`. The exponent is bounded by the caller's lexer."""
    sign = 1 if text[0] == "-" else 0
    body = text.lstrip("+-").lower()
    digits, _, power = body.partition("e")
    whole, _, fraction = digits.partition(".")
    exponent = int(power or 0) - len(fraction)
    value = int((whole + fraction) or "0")
    if value == 0:
        return encode(sign, 0, 1, elem)
    magnitude = len(str(value)) + exponent  # far out of range: no need for huge powers
    if magnitude > 400:
        return encode(sign, 1 << 2000, 1, elem)
    if magnitude < -400:
        return encode(sign, 0, 1, elem)
    if exponent >= 0:
        return encode(sign, value * 10**exponent, 1, elem)
    return encode(sign, value, 10**-exponent, elem)


def _digits(mantissa: int, exponent: int, precision: int) -> tuple[str, int]:
    """Decimal digits (no trailing zeros) and power of ten of the last one, as LLVM's APFloat finds them.

    Digits that precision does not need are cut off first, the rest is rounded half up: 0.01f has the digits
    999999 at six digits, not 1.
    """
    while mantissa and not mantissa & 1:
        mantissa, exponent = mantissa >> 1, exponent + 1
    if exponent >= 0:
        value, power = mantissa << exponent, 0
    else:
        value, power = mantissa * 5**-exponent, exponent
    needed = (precision * 196 + 58) // 59
    if value.bit_length() > needed:
        cut = (value.bit_length() - needed) * 59 // 196
        value, power = value // 10**cut, power + cut
    text = str(value)
    stripped = text.rstrip("0") or "0"
    power += len(text) - len(stripped)
    if len(stripped) > precision:
        drop = len(stripped) - precision
        head = str(int(stripped[:precision]) + (stripped[precision] >= "5"))
        power += drop
        stripped = head.rstrip("0") or "0"
        power += len(head) - len(stripped)
    return stripped, power


def spell(bits: int, elem: Scalar) -> str:
    """Text of a float as MLIR prints it, without the type."""
    parts = decode(bits, elem)
    if not isinstance(parts, str):
        sign, mantissa, exponent = parts
        minus = "-" if sign else ""
        digits, power = _digits(mantissa, exponent, 6)
        tens = power + len(digits) - 1 if mantissa else 0
        short = f"{minus}{digits[0]}.{digits[1:]:0<6}e{'-' if tens < 0 else '+'}{abs(tens):02d}"
        if parse_decimal(short, elem) == bits:
            return short
        precision = 2 + (FORMATS[elem.name][1] + 1) * 59 // 196
        digits, power = _digits(mantissa, exponent, precision)
        count = len(digits)
        msd = power + count - 1
        if power >= 0:
            scientific = power > 3 or count + power > precision
        else:
            scientific = msd < 0 and -msd > 3
        if scientific:
            text = f"{minus}{digits[0]}.{digits[1:] or '0'}E{'-' if msd < 0 else '+'}{abs(msd)}"
        elif power >= 0:
            text = minus + digits + "0" * power
        elif msd >= 0:
            text = f"{minus}{digits[: msd + 1]}.{digits[msd + 1 :]}"
        else:
            text = f"{minus}0.{'0' * (-msd - 1)}{digits}"
        if "." in text:
            return text
    return f"0x{bits:0{(width_of(elem) + 3) // 4}X}"
