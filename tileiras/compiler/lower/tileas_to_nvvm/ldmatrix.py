"""Fragments of 16-bit matrix operands through ldmatrix, for tiles that lie in registers (layout/matrices.py)."""

from __future__ import annotations

from tileiras.compiler.layout.gf2 import apply
from tileiras.compiler.layout.linear import LinearLayout

from .shared import accesses, owner_guard, store_shared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op

    from .state import Lowering, Tile


def move(lowering: Lowering, op: Op, source: Tile, target: LinearLayout) -> list[Any]:
    """The registers of `source` in `target`'s layout: one round trip."""
    b = lowering.b
    image = op.attr("columns")
    base = lowering.scratch(op, op.attr("bytes"))
    guard = owner_guard(lowering, source.layout)
    for regs, address in accesses(lowering, source.layout, image, op.attr("vectors")[0], base):
        store_shared(lowering, address, [source.regs[r] for r in regs], "h", guard)
    lowering.barrier()

    def offset(index: int) -> int:
        return apply(image, index)

    extra = target.reg[1:3]  # register bits that number the matrices of one instruction
    lane = [offset(r) for r in op.attr("rows")] + [offset(c) for c in extra]
    lane += [0] * (5 - len(lane))
    warp = [offset(c) for c in target.warp]
    thread = b.thread_linear(lane, warp)
    used = 0
    for c in (*lane, *warp):
        used |= c
    count = 1 << len(extra)
    opcode = f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if op.attr('transposed') else ''}.shared.b16"
    low = 1 + len(extra)
    out: list[Any] = [None] * target.num_regs
    starts: dict[int, Any] = {}
    for high in range(target.num_regs >> low):
        start = offset(apply(target.reg, high << low))
        clash, plain = start & used, start & ~used
        if clash not in starts:
            starts[clash] = b.add(32, base, thread if clash == 0 else b.xor(32, thread, clash))
        words = tuple(b.reg("r") for _ in range(count))
        b.emit_to(words if count > 1 else (words[0],), opcode, b.address(starts[clash], plain))
        for j, word in enumerate(words):
            first, second = b.unpack(word)
            r = high << low | j << 1
            out[r], out[r | 1] = first, second
    return out
