"""TileAAInlineOneStep: a loop of one step that is all that the loop around it carries gives way to its body.

Before: `for %t = 0 to 9 iter(%s) { .. %r = for %c = 0 to 1 iter(%u = %s) { load, load, mma; continue %n } continue %r }`.
After:  `for %t = 0 to 9 iter(%s) { .. load, load, mma; continue %n }`.

So convolutions are written that go over the channels of each tap where a tile has all channels. Loads run ahead within the
innermost loop of their product: of one step, that is nothing. A loop of one step that stands in no other stays: its product
would lose the copies and the instruction that loops have.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import diags as D
from tileiras.compiler.ir.core import Op
from tileiras.compiler.ir.inline import put_in_place
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.schedule.candidates import constant_int
from tileiras.compiler.target.products import PRODUCTS

from .widen_sums import may_end_early

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class InlineOneStep(Pass):
    NAME = "TileAAInlineOneStep"
    SUMMARY = "Put the body of a loop of one step in its place within another loop"
    """
    does: a loop of one step that is all that the loop around it carries gives way to its body
    without: loads do not run ahead from one step of the loop around it to the next
    acts: taps_one_step on sm_90
    """
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        for loop in [op for op in func.walk() if op.spec.name == "for"]:
            if has_one_step(loop) and is_all_of_a_loop(loop):
                context.remark(D.INLINES_ONE_STEP, loop)
                put_in_place(loop)
                context.analyses.drop()
        return True


def has_one_step(loop: Op) -> bool:
    lower, upper, step = (constant_int(v) for v in loop.operands[:3])
    if lower is None or upper is None or step is None or loop.attr("unsignedCmp"):
        return False
    return step > 0 and lower < upper <= lower + step and not may_end_early(loop)


def is_all_of_a_loop(loop: Op) -> bool:
    """Whether the loop around one with products carries what that carries, and nothing else."""
    outer = loop.parent
    if outer is None or outer.spec.name != "for" or not any(op.spec.name in PRODUCTS for op in body(loop)):
        return False
    inside = outer.regions[0].block
    carried = [v for v in loop.operands[3:] if v.owner is inside]
    return (
        len(carried) == len(loop.results) == len(outer.results)
        and set(carried) == set(inside.args[1:])
        and set(body(outer)[-1].operands) == set(loop.results)
    )


def body(loop: Op) -> list[Op]:
    ops: list[Op] = loop.regions[0].block.ops
    return ops
