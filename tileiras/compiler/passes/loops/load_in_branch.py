"""Loads that one side of a branch alone uses stand in it, where the loop can go from one iteration with work to the next then.

Before: `for %k { %x = load, %y = load; %c = ..; %s' = if %c { mma %x, %y, %s } else { %s } }`.
After:  `for %k { %c = ..; %s' = if %c { %x = load, %y = load; mma %x, %y, %s } else { %s } }`.

A product in a branch takes nothing from copies that run ahead, and what is loaded in front of the branch waits in registers,
needed or not. Which loops: `schedule/left_out.py`. Nothing writes between a load and its branch, and nobody waits for the load.
"""

from __future__ import annotations

from tileiras.compiler.schedule.candidates import EXITS, LOOPS, PLAIN_LOADS, computes
from tileiras.compiler.schedule.left_out import Work, blocks_of, left_out
from tileiras.compiler.target.products import PRODUCTS

from .load_where_used import is_quiet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tileiras.compiler.ir.core import Block, Op


def load_in_branch(loop: Op) -> None:
    """Moves loads of a `for` into the one side of a branch that multiplies, with what is computed of them for it alone."""
    body = loop.regions[0].block
    if any(op.spec.name in PRODUCTS for op in body.ops):
        return
    branches = [op for op in body.ops if op.spec.name == "if" and any(map(multiplies, blocks_of(op)))]
    sides = [multiplies(ops) for ops in blocks_of(branches[0])] if branches else []
    if len(branches) != 1 or sides.count(True) != 1:
        return
    branch = branches[0]
    side = branch.regions[sides.index(True)].block
    moved = wanted_there(branch, side)
    if not any(op.spec.name in PLAIN_LOADS for op in moved):
        return
    first, order = side.ops[0], list(body.ops)
    for op in moved:
        body.ops.remove(op)
        side.insert_before(first, op)
    if not isinstance(left_out(loop), Work):
        for op in moved:
            side.ops.remove(op)
            body.insert_before(branch, op)
        body.ops[:] = order  # a load that stays is as far in front of its use as it was


def multiplies(ops: list[Op]) -> bool:
    """Whether ops multiply, and are no loop."""
    inside = {inner.spec.name for op in ops for inner in op.walk()}
    return any(op.spec.name in PRODUCTS for op in ops) and not inside & (LOOPS | EXITS | {"continue"})


def wanted_there(branch: Op, side: Block) -> list[Op]:
    """The tiles that ops in front of a branch load and compute for one side of it alone, in order; none behind what may write."""
    block = branch.block
    assert block is not None
    found: list[Op] = []
    for op in reversed(block.ops[: block.ops.index(branch)]):
        if op.regions or not is_quiet(op):
            break
        users = [user for result in op.results for user, _ in result.uses]
        tile = op.spec.name in PLAIN_LOADS or computes(op) and bool(getattr(op.results[0].type, "shape", ()))
        if tile and users and all(user in found or stands_in(user, side) for user in users):
            found.append(op)
    return found[::-1]


def stands_in(op: Op, block: Block) -> bool:
    """Whether an op stands in a block, or in a branch there."""
    here = op.block
    while here is not None and here is not block:
        above = here.region.op if here.region is not None else None
        here = above.block if above is not None else None
    return here is block
