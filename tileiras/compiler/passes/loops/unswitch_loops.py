"""TileAAUnswitchLoops: a branch of a loop of products that asks what the loop does not change is asked once, in front of it.

Before: `for %k { %x = load; %s' = if %mode { %y = load %b; mma %x, %y, %s } else { %y = load %c; mma %x, %y, %s } }`.
After:  `if %mode { for %k { %x = load; %y = load %b; mma %x, %y, %s } } else { for %k { %x = load; %y = load %c; mma .. } }`.

Loads in a branch do not run ahead, and a product in one is `mma.sync`. Only branches that load tiles or multiply are worth two
loops. Inner loops come first: the branch around two of them is one of the loop around it then, and goes in front of that, too.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import diags as D
from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Block, Op, Region
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.schedule.candidates import EXITS, LOOPS, PLAIN_LOADS
from tileiras.compiler.schedule.left_out import blocks_of
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.products import PRODUCTS

from .index_bounds import in_front, invariant, without_effect
from .split_at_bound import one_side

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class UnswitchLoops(Pass):
    NAME = "TileAAUnswitchLoops"
    SUMMARY = "Ask in front of a loop what a branch of it asks in each step"
    """
    does: a branch that loads tiles or multiplies in a loop of products, and asks what the loop does not change, is asked in front
      of the loop, of which each side has its own
    without: loads in the branch do not run ahead, and its products are `mma.sync`
    acts: products_by_mode_0 on sm_90
    """
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        rest = CostModel.unswitched_branches
        work = [op for op in func.walk() if op.spec.name == "for"]
        while work and rest:
            loop = work.pop()
            branch = asked_in_each_step(loop)
            if branch is None or sum(1 for _ in func.walk()) > CostModel.unswitched_ops:
                continue
            context.remark(D.UNSWITCHED, branch)
            work += unswitch(loop, branch)
            context.analyses.drop()
            rest -= 1
        return True


def asked_in_each_step(loop: Op) -> Op | None:
    """A branch of a loop's body that loads tiles or multiplies, and whose condition is the same in each step. Beside another loop
    it has to have one itself: work of one step there is no loop's (`rest_as_loop.py`)."""
    body = loop.regions[0].block
    if not any(op.spec.name in PRODUCTS for op in loop.walk()):
        return None
    beside = any(op.spec.name in LOOPS for op in body.ops)
    for op in body.ops:
        if op.spec.name != "if" or beside and not any(inner.spec.name in LOOPS for inner in op.walk()):
            continue
        if any(map(works, blocks_of(op))) and invariant(op.operands[0], loop):
            names = {inner.spec.name for side in blocks_of(op) for inner in side}
            if not names & (EXITS | {"continue"}):
                return op
    return None


def works(ops: list[Op]) -> bool:
    """Whether ops multiply, or load tiles."""
    for op in ops:
        for inner in op.walk():
            if inner.spec.name in PRODUCTS:
                return True
            if inner.spec.name in PLAIN_LOADS and inner.results[0].type.shape:  # type: ignore[attr-defined]
                return True
    return False


def unswitch(loop: Op, branch: Op) -> list[Op]:
    """Puts a branch around two copies of a loop, each with one side of it, in the place of the loop; the copies."""
    block = loop.block
    assert block is not None
    condition = branch.operands[0]
    in_front(condition, loop)
    made: list[Op] = []
    regions = []
    for side in (0, 1):
        inside = Block()
        copy = inside.append(one_side(loop, branch, side, loop.operands))
        end = create(tileaa.BY_NAME["yield"], copy.results, (), {}, (), loop.loc, (len(copy.results),))
        inside.append(end)
        regions.append(Region([inside]))
        made.append(copy)
        for op in list(reversed(copy.regions[0].block.ops)):
            if not any(result.uses for result in op.results) and without_effect(op):
                op.erase()  # what the other side alone needs
    types = [result.type for result in loop.results]
    around = create(tileaa.BY_NAME["if"], (condition,), types, {}, tuple(regions), branch.loc)
    block.insert_before(loop, around)
    for old, new in zip(loop.results, around.results):
        old.replace_all_uses_with(new)
    loop.erase()
    return made
