"""TileAAInlineOneStep: a loop of one step gives way to its body, where that leaves each product in a loop.

Before: `for %t = 0 to 9 iter(%s) { .. %r = for %c = 0 to 1 iter(%u = %s) { load, load, mma; continue %n } continue %r }`.
After:  `for %t = 0 to 9 iter(%s) { .. load, load, mma; continue %n }`.

So convolutions are written that go over the channels of each tap where a tile has all channels. Loads run ahead within the
innermost loop of their product: of one step, that is nothing. A loop of one step that stands in no other stays: its product
would lose the copies and the instruction that loops have.

Before: `load, load; %r:2 = for %g = 0 to 1 iter(%u = 0, %v = 0) { for %j = .. iter(%x = %u, %y = %v) { .. mma, mma; .. } .. }`.
After:  `load, load; for %j = .. iter(%x = 0, %y = 0) { .. mma, mma; .. }`.

So gradients of keys are written that go over the heads of queries of a head of keys, where each has one. In tensor memory both
operands of a product come from shared memory: loaded in front of the loop, they would wait in registers beside the sums that it
carries. Operands of other products wait in registers anyhow.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import diags as D
from tileiras.compiler.ir.core import Op
from tileiras.compiler.ir.inline import put_in_place
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.schedule.candidates import constant_int
from tileiras.compiler.target import sm
from tileiras.compiler.target.products import PRODUCTS

from .widen_sums import may_end_early

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class InlineOneStep(Pass):
    NAME = "TileAAInlineOneStep"
    SUMMARY = "Put the body of a loop of one step in its place"
    """
    does: a loop of one step that is all that the loop around it carries gives way to its body; for tensor memory one around
      loops with products does, too
    without: loads do not run ahead from one step of the loop around it to the next; what is loaded in front waits in registers
    acts: taps_one_step on sm_90
    """
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        target = context.target
        wide = target is not None and target.has(sm.TCGEN05)
        for loop in [op for op in func.walk() if op.spec.name == "for"]:
            if has_one_step(loop) and (is_all_of_a_loop(loop) or wide and is_around_products(loop)):
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


def is_around_products(loop: Op) -> bool:
    """Whether products stand in a loop, each of them in a loop of its own within it."""
    products = [op for op in loop.walk() if op.spec.name in PRODUCTS]
    return bool(products) and all(innermost(op) is not loop for op in products)


def innermost(op: Op) -> Op:
    """The innermost loop around an op in a loop."""
    while op.spec.name not in ("for", "loop"):
        assert op.parent is not None
        op = op.parent
    return op


def body(loop: Op) -> list[Op]:
    ops: list[Op] = loop.regions[0].block.ops
    return ops
