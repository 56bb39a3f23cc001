"""Fragments of 16-bit matrix operands through ldmatrix, for tiles that lie in registers (layout/matrices.py)."""

from __future__ import annotations

from tileiras.compiler.layout.linear import LinearLayout

from .shared import accesses, matrices, owner_guard, store_shared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op

    from .state import Lowering, Tile


def move(lowering: Lowering, op: Op, source: Tile, target: LinearLayout, guard: Any) -> list[Any]:
    """The registers of `source` in `target`'s layout: one round trip, of the threads that `guard` names, if it does."""
    b = lowering.b
    columns = op.attr("columns")
    base = lowering.scratch(op, op.attr("bytes"))
    if guard is None:
        guard = owner_guard(lowering, source.layout)
    for regs, address in accesses(lowering, source.layout, columns, op.attr("vectors")[0], base):
        store_shared(lowering, address, [source.regs[r] for r in regs], "h", guard)
    lowering.barrier()
    form = ".trans" if op.attr("transposed") else ""
    out: list[Any] = []
    for address, count in matrices(lowering, target, columns, op.attr("rows"), target.reg[1:], base):
        words = tuple(b.reg("r") for _ in range(count))
        opcode = f"ldmatrix.sync.aligned.m8n8.x{count}{form}.shared.b16"
        b.emit_to(words, opcode, address)
        for word in words:
            out += b.unpack(word)
    return out
