"""Constant data: what sizes are allowed, and the bit patterns of its elements.

Data is raw bytes as the constant section holds them: one element (a splat) or all of them, low byte first;
i1 is packed, or one byte; tf32 takes three bytes.
"""

from __future__ import annotations

from tileiras.compiler.ir import floats
from tileiras.compiler.ir import types as T
from tileiras.compiler.ir.dense import constant_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def check_dense(type: Any, raw: bytes) -> str | None:
    """What is wrong with the size of constant data, or None. Sizes: one element (splat) or all of them."""
    count = 1
    for d in type.shape:
        count *= d
    elem = type.elem
    if not isinstance(elem, T.Scalar) or elem is T.I4:
        return f"element type '{elem}' has no constants"
    if elem is T.I1:
        if len(raw) in (1, (count + 7) // 8):
            return None
        return f"i1 dense attribute payload size {len(raw)} is not a recognized encoding for {count} elements"
    if len(raw) in (constant_bytes(elem), constant_bytes(elem) * count):
        return None
    return "failed to validate buffer size and format"


def elements_of(dense: Any) -> list[int]:
    """Bit patterns of all elements, or one for a splat."""
    elem, data = dense.type.elem, dense.data
    count = 1
    for d in dense.type.shape:
        count *= d
    if elem is T.I1:
        if len(data) == (count + 7) // 8 and not (len(data) == 1 and count > 8):
            return [data[i >> 3] >> (i & 7) & 1 for i in range(count)]
        return [data[0] & 1]
    size = constant_bytes(elem)
    mask = (1 << floats.width_of(elem)) - 1 if elem.is_float else (1 << elem.bits) - 1
    return [int.from_bytes(data[i : i + size], "little") & mask for i in range(0, len(data), size)]


def unique_value(dense: Any) -> int | None:
    """The bit pattern that all elements have, or None."""
    data, elem = dense.data, dense.type.elem
    if elem is not T.I1:
        size = constant_bytes(elem)
        if data != data[:size] * (len(data) // size):
            return None
        return elements_of(T.Dense(T.TileType(elem, ()), data[:size]))[0]
    found = elements_of(dense)
    return found[0] if found and all(v == found[0] for v in found) else None


def pack_elements(elem: Any, values: list[int], count: int) -> bytes:
    """Constant bytes of all elements; equal ones become a splat, as NVIDIA's writer stores them."""
    if elem is T.I1:
        if values and all(v == values[0] for v in values):
            if count <= 8:
                return bytes([((1 << count) - 1) * values[0]]) if count else b""
            return b"\xff" if values[0] else b"\x00"
        if len(values) == 1:
            values = values * count
        out = bytearray((count + 7) // 8)
        for i, v in enumerate(values):
            out[i >> 3] |= v << (i & 7)
        return bytes(out)
    if len(values) > 1 and all(v == values[0] for v in values):
        values = values[:1]
    return b"".join(v.to_bytes(constant_bytes(elem), "little") for v in values)


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if bits > 1 and value >> (bits - 1) & 1 else value
