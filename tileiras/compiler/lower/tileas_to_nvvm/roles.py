"""Agents: warps that run code of their own, one behind the other in the function, each passed over by the others.

An agent's barrier has the number behind its own, and its warps' threads; barrier 0 is the whole block's.
"""

from __future__ import annotations

from .control import lower_block
from .state import Lowering

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op


def warp_number(lowering: Lowering) -> Any:
    """The number of this warp in its block, in a way that shows ptxas that all lanes agree."""
    b = lowering.b
    return b.entry("shfl.sync.idx.b32", b.entry("shr.u32", b.tid, 5), 0, 31, 0xFFFFFFFF)


def lower_agent(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    assert op.block is not None
    before_it = op.block.ops[: op.block.ops.index(op)]
    first = sum(other.attr("num_warps") for other in before_it if other.spec is op.spec)
    warps, registers, issuing = (op.attr(name) for name in ("num_warps", "registers", "issuing_warps"))
    skip = b.label()
    number = warp_number(lowering)
    b.bra(skip, (_within(b, number, first, warps), True))
    b.push()
    if registers is not None:
        action = "inc" if registers > lowering.fn.attrs["nvvm.maxnreg"] else "dec"
        b.emit_to(None, f"setmaxnreg.{action}.sync.aligned.u32", registers)
    if issuing is not None and issuing < warps:
        b.bra(skip, (_within(b, number, first, issuing), True))
    before = lowering.agent, lowering.num_warps, lowering.log2_warps, lowering.exchanging
    lowering.agent, lowering.num_warps, lowering.exchanging = op.attr("id"), warps, None
    lowering.log2_warps = warps.bit_length() - 1
    lower_block(lowering, op.regions[0].block)
    lowering.agent, lowering.num_warps, lowering.log2_warps, lowering.exchanging = before
    b.pop()
    b.place(skip)


def _within(b: Any, number: Any, first: int, count: int) -> Any:
    if first == 0:
        return b.entry("setp.lt.u32", number, count)
    return b.entry("setp.lt.u32", b.entry("sub.s32", number, first), count)


LOWER = {"agent": lower_agent}
