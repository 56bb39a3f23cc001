"""The byte level: varints, integer lists, and the numbers of sections, types, attributes and debug records.

Reading is strict: a varint has the shortest form and at most 64 bits. Everything that is wrong with the bytes
raises `Damage`, which the reader turns into one diagnostic.
"""

from __future__ import annotations

import struct

from tileiras.compiler.ir import types as T

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from tileiras.diag import Diag

MAGIC = b"\x7fTileIR\x00"
MLIR_MAGIC = b"ML\xefR"
PAD = 0xCB
NEWEST = 5  # minor version; 5 is what nvcc 13.5 writes

END, STRING, FUNC, DEBUG, CONSTANT, TYPE, GLOBAL, PRODUCER = range(8)
SECTION_NAMES = ("end", "string", "function", "debug", "constant", "type", "global", "producer")
ALIGN = {STRING: 4, FUNC: 8, DEBUG: 8, CONSTANT: 8, TYPE: 4}

F_PRIVATE, F_ENTRY, F_HINTS = 1, 2, 4  # function record flags

# Element types by tag, and the minor version that introduced them.
SCALARS: dict[int, tuple[T.Scalar, int]] = {
    0: (T.I1, 1), 1: (T.I8, 1), 2: (T.I16, 1), 3: (T.I32, 1), 4: (T.I64, 1), 5: (T.F16, 1), 6: (T.BF16, 1),
    7: (T.F32, 1), 8: (T.TF32, 1), 9: (T.F64, 1), 10: (T.F8E4M3FN, 1), 11: (T.F8E5M2, 1), 18: (T.F8E8M0FNU, 2),
    19: (T.F4E2M1FN, 3), 22: (T.I4, 3), 130: (T.FNV8E5M3FNU, 4),
}  # fmt: skip
SCALAR_TAGS = {scalar: (tag, since) for tag, (scalar, since) in SCALARS.items()}
# What the real reader calls a type in "type 'X' requires bytecode version ...".
SCALAR_CLASS = {
    T.F8E8M0FNU: "Float8E8M0FNU", T.F4E2M1FN: "Float4E2M1FN", T.I4: "Int4", T.FNV8E5M3FNU: "FloatNV8E5M3FNU",
}  # fmt: skip
(PTR, TILE, TENSOR_VIEW, PARTITION_VIEW, FUNCTION, TOKEN) = range(12, 18)
GATHER_SCATTER_VIEW, STRIDED_VIEW = 20, 21

(
    A_INTEGER,
    A_FLOAT,
    A_BOOL,
    A_TYPE,
    A_STRING,
    A_ARRAY,
    A_DENSE,
    A_DIV_BY,
    A_SAME,
    A_DICT,
    A_HINTS,
    A_BOUNDED,
) = range(1, 13)
(D_UNKNOWN, D_COMPILE_UNIT, D_FILE, D_BLOCK, D_LOC, D_SUBPROGRAM, D_CALL_SITE) = range(7)

# No known writer emits overlong varints, and the contract refuses them; NVIDIA's reader takes up to ten bytes.
ACCEPT_OVERLONG = False

MAX_DEPTH = 64  # types, attributes, scopes in one another: far above real files, far below Python's stack
MAX_CALLERS = (
    4096  # call sites that a location went through; cuTile Python inlines recursion 1000 levels deep
)


class Damage(Exception):
    """The bytes are wrong: `what`, at `offset`; `diag` when it is not the plain text with an offset."""

    def __init__(self, what: str, offset: int, diag: Diag | None = None, **facts: object) -> None:
        super().__init__(what)
        self.what = what
        self.offset = offset
        self.diag = diag
        self.facts = facts


def varint(data: bytes, pos: int, bits: int = 64) -> tuple[int, int]:
    """Value and next position. Errors: Damage; IndexError at the end of `data` (callers turn it into Damage)."""
    byte = data[pos]
    if byte < 128:
        return byte, pos + 1
    start = pos
    value = byte & 127
    shift = 7
    while True:
        pos += 1
        byte = data[pos]
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 63:
            raise Damage("VarInt is longer than 10 bytes", start)
    if byte == 0 and not ACCEPT_OVERLONG:
        from .diags import NON_CANONICAL

        raise Damage("non-canonical VarInt", start, NON_CANONICAL)
    if value >> bits:
        raise Damage("VarInt has more than 64 bits", start)
    return value, pos + 1


def unzigzag(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


def zigzag(value: int) -> int:
    """The varint of a signed 64-bit value."""
    return (value << 1) ^ (value >> 63) if value < 0 else value << 1


def ints(data: bytes, pos: int, width_bytes: int) -> tuple[tuple[int, ...], int]:
    """A counted list of little-endian signed integers."""
    start = pos
    count, pos = varint(data, pos)
    end = pos + count * width_bytes
    if end > len(data):
        raise Damage(f"list of {count} elements exceeds the remaining data", start)
    return struct.unpack_from(f"<{count}{'q' if width_bytes == 8 else 'i'}", data, pos), end


def put_varint(out: bytearray, value: int) -> None:
    """Appends the shortest form."""
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def put_ints(out: bytearray, values: Sequence[int], width_bytes: int) -> None:
    put_varint(out, len(values))
    out += struct.pack(f"<{len(values)}{'q' if width_bytes == 8 else 'i'}", *values)


def float_bits(data: bytes, pos: int, bits: int) -> tuple[int, int]:
    """Bit pattern of a float attribute: one byte up to 8 bits, else a zigzag varint of the pattern.

    cuTile Python doubles the unsigned pattern, which takes 65 bits for a negative f64; NVIDIA's reader drops
    the top one and turns -inf into +inf. The bit is in the file, so it is read: the frontend meant it.
    """
    if bits <= 8:
        return data[pos], pos + 1
    start = pos
    value, pos = varint(data, pos, 65)
    value = unzigzag(value) & ((1 << 64) - 1)
    if value >> bits:
        if value >> bits != (1 << (64 - bits)) - 1:
            raise Damage(f"float attribute does not fit {bits} bits", start)
        value &= (1 << bits) - 1
    return value, pos


def put_float_bits(out: bytearray, value: int, bits: int) -> None:
    if bits <= 8:
        out.append(value)
        return
    if value >> 63:
        value -= 1 << 64
    put_varint(out, zigzag(value))
