"""Conversions: between floats, between floats and integers, bit patterns, pack and unpack, pointers."""

from __future__ import annotations

import numpy as np

from .floats import (
    E2M1,
    E4M3,
    E5M2,
    E5M3,
    E8M0,
    F32,
    F64,
    FORMATS,
    RN,
    TF32,
    Format,
    decode,
    decode64,
    encode,
    round_odd,
    storage_dtype,
    two_sum,
)  # fmt: skip
from .ints import BITS, as_signed, as_unsigned, from_wide
from .registry import elem_name, pure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op

# NVIDIA's assembler converts to these with F2FP.SATFINITE (seen in the SASS of sm_100): overflow and infinity
# give the largest finite value, NaN stays NaN.
SATFINITE = (E4M3, E5M2, E8M0, E2M1, E5M3)


def convert_float(x: Any, source: Format, target: Format, mode: str) -> Any:
    if source is TF32:
        source = F32  # NVIDIA's code takes all 32 bits of a tf32 here; only products ignore the lower 13
    if source is F32 and mode == RN and target not in (TF32, F64) and target not in SATFINITE:
        return encode(x.astype(np.float64), target) if target.name == "bf16" else x.astype(target.storage)
    if target is F64:
        return decode64(x, source)
    if target is F32 and source is not F64:
        return decode(x, source)
    return encode(decode64(x, source), target, mode, saturate=target in SATFINITE)


@pure("ftof", elementwise=True)
def build_ftof(op: Op) -> Any:
    source, target = FORMATS[elem_name(op.operands[0])], FORMATS[elem_name(op.result)]
    mode = op.attr("rounding_mode") or RN
    return lambda a: convert_float(a, source, target, mode)


def saturate_to_int(x: Any, name: str, signed: bool) -> Any:
    """float64 truncated to an integer type, clamped to its range; NaN gives 0, as `cvt.rzi` does."""
    bits = BITS[name]
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    t = np.trunc(x)
    above, below, nan = t > float(high), t < float(low), np.isnan(t)
    # float(high) may round up to 2**bits: what is not below that power is clamped too
    above = above | (t >= float(high + 1))
    safe = np.where(above | below | nan, 0.0, t)
    wide = safe.astype(np.int64 if signed else np.uint64)
    wide = np.where(above, wide.dtype.type(high), np.where(below, wide.dtype.type(low), wide))
    return from_wide(wide, name)


@pure("ftoi", elementwise=True)
def build_ftoi(op: Op) -> Any:
    source, name, signed = (
        FORMATS[elem_name(op.operands[0])],
        elem_name(op.result),
        op.attr("signedness") == "signed",
    )
    if name == "i1":  # not zero, NaN included: FSETP.NEU in NVIDIA's code
        return lambda a: decode64(a, source) != 0
    return lambda a: saturate_to_int(decode64(a, source), name, signed)


def int_to_float(x: Any, fmt: Format) -> Any:
    """Stored elements of int64 or uint64 values, to nearest even."""
    if fmt is F64 or fmt is F32:
        return x.astype(fmt.storage)  # one rounding
    high = (x >> x.dtype.type(32)).astype(np.float64) * 2.0**32
    low = (x & x.dtype.type(0xFFFFFFFF)).astype(np.float64)
    return encode(round_odd(*two_sum(high, low)), fmt, saturate=fmt in SATFINITE)


@pure("itof", elementwise=True)
def build_itof(op: Op) -> Any:
    name, fmt = elem_name(op.operands[0]), FORMATS[elem_name(op.result)]
    if op.attr("signedness") == "signed":
        return lambda a: int_to_float(as_signed(a, name).astype(np.int64), fmt)
    return lambda a: int_to_float(as_unsigned(a, name).astype(np.uint64), fmt)


@pure("bitcast", elementwise=True)
def build_bitcast(op: Op) -> Any:
    source, target = op.operands[0].type.elem, op.result.type.elem  # type: ignore[attr-defined]
    dtype = storage_dtype(target)
    if source.bits == 1 or dtype == storage_dtype(source):
        return lambda a: a
    return lambda a: a.view(dtype)


def to_bytes(x: Any, name: str) -> Any:
    """The little-endian bytes of a rank-1 tile; 4-bit elements low nibble first, i1 bit 0 first."""
    x = np.ascontiguousarray(x)
    if name == "i1":
        return np.packbits(x, bitorder="little")
    if name in ("i4", "f4E2M1FN"):
        return (x[0::2] & np.uint8(15)) | (x[1::2] << np.uint8(4))
    return x.view(np.uint8)


def from_bytes(x: Any, name: str, count: int, dtype: Any) -> Any:
    x = np.ascontiguousarray(x).view(np.uint8)
    if name == "i1":
        return np.unpackbits(x, bitorder="little", count=count).astype(np.bool_)
    if name in ("i4", "f4E2M1FN"):
        return np.stack((x & np.uint8(15), x >> np.uint8(4)), axis=-1).reshape(-1)
    return x.view(dtype)


@pure("pack")
def build_pack(op: Op) -> Any:
    name = elem_name(op.operands[0])
    return lambda a: to_bytes(a, name).view(np.int8)


@pure("unpack")
def build_unpack(op: Op) -> Any:
    elem, (count,) = op.result.type.elem, op.result.type.shape  # type: ignore[attr-defined]
    return lambda a: from_bytes(a, elem.name, count, storage_dtype(elem))


@pure("int_to_ptr", "ptr_to_int", "ptr_to_ptr", elementwise=True)
def build_pointer_cast(op: Op) -> Any:
    return lambda a: a


def pointee_bytes(op: Op, index: int = 0) -> int:
    """Bytes of one pointee of operand `index`; 4-bit pointees count as one byte, pointers as 8."""
    return getattr(op.operands[index].type.elem.pointee, "bytes", 8)  # type: ignore[attr-defined]


@pure("offset", elementwise=True)
def build_offset(op: Op) -> Any:
    size, name = pointee_bytes(op), elem_name(op.operands[1])
    if size == 1:
        return lambda p, o: p + as_signed(o, name).astype(np.int64)
    return lambda p, o: p + as_signed(o, name).astype(np.int64) * np.int64(size)
