"""Loads and stores of global memory, through views and pointer tiles.

Tokens have no code here: TileASPlaceShared put barriers where they order accesses of different threads.
"""

from __future__ import annotations

from tileiras.compiler.nvvm.code import Reg

from .addresses import Access, pointer_access, vector, view_access
from .coming import ahead
from .guarded import indices_in_range, split
from .shape import constant_operand
from .shared import broadcast_owned, owner_guard
from .state import Lowering, Tile, elem_bytes, elementwise
from .transfer import load_vector, store_vector

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value

# bits of each padding value by element type
_PADDING = {
    "zero": dict.fromkeys(
        ("i1", "i4", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "tf32", "f64", "f8E4M3FN", "f8E5M2",
         "f8E8M0FNU", "f4E2M1FN", "fnv8E5M3FNU"), 0,
    ),
    "neg_zero": {"f16": 1 << 15, "bf16": 1 << 15, "f32": 1 << 31, "tf32": 1 << 31, "f64": 1 << 63,
                 "f8E4M3FN": 0x80, "f8E5M2": 0x80, "f4E2M1FN": 0x8},
    "nan": {"f16": 0x7E00, "bf16": 0x7FC0, "f32": 0x7FC00000, "tf32": 0x7FC00000, "f64": 0x7FF8 << 48,
            "f8E4M3FN": 0x7F, "f8E5M2": 0x7E, "f8E8M0FNU": 0xFF},
    "pos_inf": {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000, "tf32": 0x7F800000, "f64": 0x7FF0 << 48,
                "f8E5M2": 0x7C},
    "neg_inf": {"f16": 0xFC00, "bf16": 0xFF80, "f32": 0xFF800000, "tf32": 0xFF800000, "f64": 0xFFF0 << 48,
                "f8E5M2": 0xFC},
}  # fmt: skip


# ---- instructions


SCOPE = {"tl_blk": "cta", "device": "gpu", "sys": "sys"}


def load_opcode(lowering: Lowering, op: Op) -> str:
    ordering = op.attr("memory_ordering_semantics")
    if ordering == "weak":
        return f"ld{lowering.space}"
    return f"ld.{ordering}.{SCOPE[op.attr('memory_scope')]}{lowering.space}"


def store_opcode(lowering: Lowering, op: Op) -> str:
    ordering = op.attr("memory_ordering_semantics")
    if ordering == "weak":
        return f"st{lowering.space}"
    return f"st.{ordering}.{SCOPE[op.attr('memory_scope')]}{lowering.space}"


# ---- loads and stores


def lower_load_view(lowering: Lowering, op: Op) -> None:
    result = op.results[0]
    type: Any = result.type
    access = view_access(lowering, op, type, type.layout)
    padding = op.operand("view").type.padding  # type: ignore[union-attr]
    pad = None
    if padding is not None:
        bits = _PADDING[padding].get(type.elem.name, 0)
        pad = constant_operand(lowering, type.elem, bits >> 13 if type.elem.name == "tf32" else bits)
    _load(lowering, op, result, access, [pad] * type.layout.num_regs)
    lowering.env[op.results[1]] = None


def _load(lowering: Lowering, op: Op, result: Value, access: Access, pads: list[Any]) -> None:
    b = lowering.b
    type: Any = result.type
    opcode = load_opcode(lowering, op)
    strong = op.attr("memory_ordering_semantics") != "weak"
    count = type.layout.num_regs
    guard_owner = owner_guard(lowering, type.layout) if strong else None
    width = vector(lowering, op)

    def some(places: Sequence[int]) -> list[Any]:
        out: list[Any] = []
        for r in places[::width]:
            address = b.address(access.pointers[r], access.offsets[r])
            guard = b.pand(access.masks[r], guard_owner)
            out += load_vector(lowering, type.elem, address, width, opcode, guard, pads[r : r + width])
        return out

    size = op.attrs.get("apart")
    if size:
        size = max(size, width)
        return lowering.comes(result, ahead([list(range(r, r + size)) for r in range(0, count, size)], some))
    out = some(range(count))
    if strong and guard_owner is not None:
        out = list(broadcast_owned(lowering, op, Tile(type.elem, type.shape, type.layout, out)))
    lowering.define(result, out)


def lower_store_view(lowering: Lowering, op: Op) -> None:
    value = op.operand("tile")
    type: Any = value.type  # type: ignore[union-attr]
    access = view_access(lowering, op, type, op.attrs["layout"])
    _store(lowering, op, value, access)  # type: ignore[arg-type]
    lowering.env[op.results[0]] = None


def _store(lowering: Lowering, op: Op, value: Value, access: Access) -> None:
    b = lowering.b
    layout = op.attrs["layout"]
    regs = lowering.regs_as(value, layout)
    elem = value.type.elem  # type: ignore[attr-defined]
    opcode = store_opcode(lowering, op)
    owner = owner_guard(lowering, layout)
    width = vector(lowering, op)
    for r in range(0, len(regs), width):
        address = b.address(access.pointers[r], access.offsets[r])
        guard = b.pand(access.masks[r], owner)
        store_vector(lowering, elem, address, regs[r : r + width], opcode, guard)


def lower_load_ptr(lowering: Lowering, op: Op) -> None:
    result = op.results[0]
    layout = result.type.layout  # type: ignore[attr-defined]
    access = pointer_access(lowering, op, op.operand("source"), layout)  # type: ignore[arg-type]
    padding = op.operand("paddingValue")
    pads = list(lowering.regs_as(padding, layout)) if padding is not None else [None] * layout.num_regs
    _load(lowering, op, result, access, pads)
    lowering.env[op.results[1]] = None


def lower_store_ptr(lowering: Lowering, op: Op) -> None:
    value = op.operand("value")
    access = pointer_access(lowering, op, op.operand("destination"), op.attrs["layout"])  # type: ignore[arg-type]
    _store(lowering, op, value, access)  # type: ignore[arg-type]
    lowering.env[op.results[0]] = None


def lower_offset(lowering: Lowering, op: Op) -> None:
    """ptr + offset * size of the pointee; the offset is signed."""
    from .arith import sext

    b = lowering.b
    size = elem_bytes(op.results[0].type.elem.pointee)  # type: ignore[attr-defined]
    bits = op.operands[1].type.elem.bits  # type: ignore[attr-defined]

    in_range = bits == 64 and indices_in_range(op)

    def one(pointer: Any, offset: Any) -> Any:
        constant = 0
        if in_range:
            offset, constant = split(lowering, offset)
        known = b.widened.get(offset) if isinstance(offset, Reg) else None
        if known is not None and known[1]:
            pointer = b.add(64, pointer, b.emit("mul.wide.s32", known[0], size))
            return b.add(64, pointer, constant * size)
        if constant:
            return b.add(64, b.add(64, pointer, b.mul(64, offset, size)), constant * size)
        if isinstance(offset, int):
            offset &= (1 << bits) - 1
            if offset >> (bits - 1):
                offset -= 1 << bits
            return b.add(64, pointer, offset * size)
        if bits == 64:
            return b.add(64, pointer, b.mul(64, offset, size))
        offset = sext(lowering, offset, bits)
        return b.add(64, pointer, b.emit("mul.wide.s32", offset, size))

    elementwise(lowering, op, one)


def lower_pointer_cast(lowering: Lowering, op: Op) -> None:
    lowering.define(op.results[0], lowering.regs_as(op.operands[0], op.results[0].type.layout))  # type: ignore[attr-defined]


LOWER = {
    "load_view_tko": lower_load_view, "store_view_tko": lower_store_view, "load_ptr_tko": lower_load_ptr,
    "store_ptr_tko": lower_store_ptr, "offset": lower_offset, "ptr_to_int": lower_pointer_cast,
    "int_to_ptr": lower_pointer_cast, "ptr_to_ptr": lower_pointer_cast,
}  # fmt: skip
