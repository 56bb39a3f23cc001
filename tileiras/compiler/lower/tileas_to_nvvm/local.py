"""Slices of huge tiles in per-thread local memory: slot = slice number, one register after another."""

from __future__ import annotations

from tileiras.compiler.nvvm.build import _sym
from tileiras.compiler.target.registers import CLASS_BYTES, reg_class

from .state import Lowering, LoweringError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op

LOCAL_BYTES = 512 * 1024  # of one thread (CUDA C++ Programming Guide, technical specifications)


class Slots:
    """A handle at run time: where it starts in the local arena (bytes), known once its first write has shown how
    many bytes a slice takes."""

    __slots__ = ("log2_slices", "slice_bytes", "start")

    def __init__(self, log2_slices: int) -> None:
        self.log2_slices = log2_slices
        self.start = -1
        self.slice_bytes = 0

    def place(self, lowering: Lowering, slice_bytes: int) -> None:
        if self.start < 0:
            self.slice_bytes = max(16, slice_bytes)
            self.start = (lowering.fn.local_bytes + 15) & ~15
            total = self.start + (self.slice_bytes << self.log2_slices)
            if total > LOCAL_BYTES:
                raise LoweringError(
                    f"huge tiles wait in {total} bytes of local memory a thread, of at most {LOCAL_BYTES}"
                )
            lowering.fn.local_bytes = total


def lower_alloc(lowering: Lowering, op: Op) -> None:
    lowering.env[op.results[0]] = Slots(op.attr("log2_slices"))


def _address(lowering: Lowering, slots: Slots, index: Any) -> Any:
    b = lowering.b
    base = b.entry("mov.u64", _sym("$stack"))
    if isinstance(index, int):
        return base, slots.start + index * slots.slice_bytes
    offset = b.emit("mul.wide.u32", index, slots.slice_bytes)
    return b.emit("add.s64", base, offset), slots.start


def lower_write(lowering: Lowering, op: Op) -> None:
    from .transfer import store_units

    slots = lowering.env[op.operands[0]]
    layout = op.attrs["layout"]
    regs = lowering.regs_as(op.operands[2], layout)
    cls = reg_class(op.operands[2].type.elem)  # type: ignore[attr-defined]
    slots.place(lowering, len(regs) * CLASS_BYTES[cls])
    base, start = _address(lowering, slots, lowering.scalar(op.operands[1]))
    store_units(lowering, "st.local", base, start, regs, cls)


def lower_read(lowering: Lowering, op: Op) -> None:
    from .transfer import load_units

    slots = lowering.env[op.operands[0]]
    result: Any = op.results[0]
    cls = reg_class(result.type.elem)
    count = result.type.layout.num_regs
    slots.place(lowering, count * CLASS_BYTES[cls])
    base, start = _address(lowering, slots, lowering.scalar(op.operands[1]))
    lowering.define(result, load_units(lowering, "ld.local", base, start, count, cls))


def lower_read_all(lowering: Lowering, op: Op) -> None:
    """The whole tile: the slices' registers, slice bits on top."""
    from .transfer import load_units

    slots = lowering.env[op.operands[0]]
    result: Any = op.results[0]
    cls = reg_class(result.type.elem)
    count = result.type.layout.num_regs >> slots.log2_slices
    slots.place(lowering, count * CLASS_BYTES[cls])
    out: list[Any] = []
    for i in range(1 << slots.log2_slices):
        base, start = _address(lowering, slots, i)
        out += load_units(lowering, "ld.local", base, start, count, cls)
    lowering.define(result, out)


LOWER = {
    "local_alloc": lower_alloc,
    "local_write": lower_write,
    "local_read": lower_read,
    "local_read_all": lower_read_all,
}
