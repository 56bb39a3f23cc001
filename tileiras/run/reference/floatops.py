"""Float ops: arithmetic rounded once in the op's mode, extrema, compares, and math functions.

Math functions are computed in float64 and rounded to the element type, so f16, bf16 and f32 results are
correctly rounded but for rare ties; f64 results are as good as the host's library (below 1 ULP for most).
"""

from __future__ import annotations

import numpy as np

from .exact import compute
from .floats import F32, F64, FORMATS, RN, Format, decode, decode64, encode, encode_f32, flush
from .ints import COMPARE, as_signed
from .registry import elem_name, pure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tileiras.compiler.ir.core import Op

APPROXIMATE = ("approx", "full")  # modes that promise no rounding: the reference gives the nearest


def fmt_of(op: Op) -> Format:
    return FORMATS[elem_name(op.operands[0])]


def mode_of(op: Op) -> str:
    mode = op.attr("rounding_mode") or RN
    return RN if mode in APPROXIMATE else mode


def with_flush(op: Op, fn: Callable[..., Any]) -> Callable[..., Any]:
    """flush_to_zero: subnormal inputs and results become zeros of their sign."""
    if not op.attr("flush_to_zero"):
        return fn
    return lambda *args: flush(fn(*(flush(a) for a in args)))


NATIVE = {
    "addf": ("add", np.add),
    "subf": ("sub", np.subtract),
    "mulf": ("mul", np.multiply),
    "divf": ("div", np.divide),
    "sqrt": ("sqrt", np.sqrt),
}


@pure("addf", "subf", "mulf", "divf", "sqrt", elementwise=True)
def build_arithmetic(op: Op) -> Any:
    fmt, mode = fmt_of(op), mode_of(op)
    name, native = NATIVE[op.spec.name]
    if mode != RN:
        return with_flush(op, lambda *args: compute(name, fmt, mode, *args))
    if fmt is F32 or fmt is F64:
        return with_flush(op, native)
    # float32 holds twice the digits of f16 and bf16 and two more: rounding twice is rounding once
    return lambda *args: encode_f32(native(*(decode(a, fmt) for a in args)), fmt)


@pure("fma", elementwise=True)
def build_fma(op: Op) -> Any:
    fmt, mode = fmt_of(op), mode_of(op)
    return with_flush(op, lambda a, b, c: compute("fma", fmt, mode, a, b, c))


SIGN_BIT = {16: np.int16(-0x8000), 32: np.int32(-0x80000000), 64: np.int64(-0x8000000000000000)}


@pure("negf", "absf", elementwise=True)
def build_sign(op: Op) -> Any:
    """The sign bit flipped or cleared, of NaN too."""
    fmt = fmt_of(op)
    bit, storage = SIGN_BIT[fmt.bits], fmt.storage
    if op.spec.name == "negf":
        return lambda a: (a.view(bit.dtype) ^ bit).view(storage)
    return lambda a: (a.view(bit.dtype) & ~bit).view(storage)


@pure("maxf", "minf", elementwise=True)
def build_extremum(op: Op) -> Any:
    fmt = fmt_of(op)
    greater = op.spec.name == "maxf"
    propagate = bool(op.attr("propagate_nan"))
    bits = {16: np.int16, 32: np.int32, 64: np.int64}[fmt.bits]
    nan = np.array(fmt.canonical_nan, {16: np.uint16, 32: np.uint32, 64: np.uint64}[fmt.bits]).view(
        fmt.storage
    )[()]

    def extremum(a: Any, b: Any) -> Any:
        x, y = decode(a, fmt), decode(b, fmt)
        out = np.where((x > y) if greater else (x < y), a, b)
        equal = x == y  # +0 is larger than -0: and-ing bits prefers the clear sign, or-ing the set one
        if equal.any():
            i, j = a.view(bits), b.view(bits)
            out = np.where(equal, ((i & j) if greater else (i | j)).view(fmt.storage), out)
        nx, ny = x != x, y != y
        if nx.any() or ny.any():
            if propagate:
                out = np.where(nx | ny, nan, out)
            else:
                out = np.where(nx, np.where(ny, nan, b), np.where(ny, a, out))
        return out.astype(fmt.storage, copy=False)

    return with_flush(op, extremum)


@pure("cmpf", elementwise=True)
def build_cmpf(op: Op) -> Any:
    fmt = fmt_of(op)
    predicate, unordered = op.attr("comparison_predicate"), op.attr("comparison_ordering") == "unordered"
    fn = COMPARE[predicate]

    def compare(a: Any, b: Any) -> Any:
        x, y = decode(a, fmt), decode(b, fmt)
        if predicate == "not_equal" and not unordered:
            return (x < y) | (x > y)
        if unordered and predicate != "not_equal":
            return fn(x, y) | (x != x) | (y != y)
        return fn(x, y)

    return compare


@pure("floor", "ceil", elementwise=True)
def build_round(op: Op) -> Any:
    fmt = fmt_of(op)
    fn = np.floor if op.spec.name == "floor" else np.ceil
    return lambda a: encode_f32(fn(decode(a, fmt)), fmt) if fmt is not F64 else fn(a)


@pure("remf", elementwise=True)
def build_remf(op: Op) -> Any:
    fmt = fmt_of(op)
    return lambda a, b: encode(np.fmod(decode64(a, fmt), decode64(b, fmt)), fmt)  # fmod is exact


MATH: dict[str, Callable[..., Any]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "fpowf": np.power,
    "atan2": np.arctan2,  # the first operand is the numerator
}


@pure(*MATH, elementwise=True)
def build_math(op: Op) -> Any:
    fmt, fn = fmt_of(op), MATH[op.spec.name]
    if fmt is F64:
        return fn
    return with_flush(op, lambda *args: encode(fn(*(decode64(a, fmt) for a in args)), fmt))


@pure("fpowi", elementwise=True)
def build_fpowi(op: Op) -> Any:
    fmt, name = fmt_of(op), elem_name(op.operands[1])
    return lambda a, n: encode(np.power(decode64(a, fmt), as_signed(n, name).astype(np.float64)), fmt)
