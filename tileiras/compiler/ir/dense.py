"""Element bit patterns of dense constants, as the constant section stores them (format facts, section 3)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CONSTANT_BYTES = {"tf32": 3}  # the 19-bit pattern in three bytes


def constant_bytes(elem: Any) -> int:
    """Bytes of one element in constant data."""
    return _CONSTANT_BYTES.get(elem.name) or max(1, elem.bits // 8)


def num_elements(shape: tuple[int, ...]) -> int:
    n = 1
    for extent in shape:
        n *= extent
    return n


def dense_bits(dense: Any) -> list[int]:
    """Bit patterns of a Dense attribute: one value when the data is a splat, else one per element in row-major order."""
    elem, n, data = dense.type.elem, num_elements(dense.type.shape), dense.data
    if elem.name == "i1":
        if len(data) == (n + 7) // 8:
            return [data[i >> 3] >> (i & 7) & 1 for i in range(n)]
        return [data[0] & 1]
    size = constant_bytes(elem)
    if size == 1:
        mask = (1 << elem.bits) - 1
        return [byte & mask for byte in data]
    return [int.from_bytes(data[i : i + size], "little") for i in range(0, len(data), size)]


def splat_bits(dense: Any) -> int | None:
    """The bit pattern of all elements, where one literal in their place would be read as the same data; else None."""
    elem, data = dense.type.elem, dense.data
    if elem.name == "i1":
        n = num_elements(dense.type.shape)
        ones = bytes([(1 << n) - 1 if n < 8 else 0xFF])
        return {ones: 1, b"\0": 0}.get(data) if n else None
    if len(data) != constant_bytes(elem):
        return None
    bits = int.from_bytes(data, "little")
    return bits if bits >> elem.bits == 0 else None
