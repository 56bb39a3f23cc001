"""A loop's condition of which the second part loads: the second part leaves the loop in front of its work.

Before: `loop { %c = if %i < %n { %p = pages[%i]; yield %p >= 0 } else { yield false }; if %c { work; continue }; break }`.
After:  `loop { if %i < %n { %p = pages[%i]; if %p >= 0 {} else { break }; work; continue }; break }`.

So `&&` leaves it in Tile C++. What is left is a test of an index, and one that can be asked ahead (`asked_ahead.py`).
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Block, Op, Region, Value
from tileiras.compiler.schedule.candidates import PLAIN_LOADS, constant_int
from tileiras.compiler.target.products import PRODUCTS

from .index_bounds import without_effect
from .loop_body import ops_of


def nest_condition(loop: Op) -> None:
    """Takes the second part of a loop's condition into its branch, where that loads and the work multiplies."""
    body = loop.regions[0].block
    if len(body.ops) < 3:
        return
    asked, branch, leave = body.ops[-3:]
    if leave.spec.name != "break" or branch.spec.name != "if" or asked.spec.name != "if":
        return
    number = next((n for n, result in enumerate(asked.results) if result is branch.operands[0]), None)
    if number is None or len(asked.results[number].uses) != 1:
        return
    first, other = (list(ops_of(asked, side)) for side in (0, 1))
    work, stays = ops_of(branch, 0), ops_of(branch, 1)
    if not first or first[-1].spec.name != "yield" or [op.spec.name for op in other] != ["yield"]:
        return
    then, given = first.pop(), other[0]
    if constant_int(given.operands[number]) != 0 or not any(op.spec.name in PLAIN_LOADS for op in first):
        return
    if any(op.regions or not without_effect(op) for op in first):
        return
    if not work or work[-1].spec.name != "continue" or not any(op.spec.name in PRODUCTS for op in work):
        return
    if [op.spec.name for op in stays] not in ([], ["yield"]):
        return
    kept = list(stays[0].operands) if stays else []
    inside: dict[Value, Value] = dict(zip(asked.results, then.operands))
    beyond: dict[Value, Value] = dict(zip(asked.results, given.operands))
    passed = dict(zip(branch.results, kept))
    left = [passed.get(v, v) for v in leave.operands]
    ends = [inside.get(v, v) for v in left]
    condition, test = asked.operands[0], then.operands[number]
    # in front of the work: the ops of the second part, and a branch that leaves where it does not hold
    on, out = Block(), Block()
    on.append(create(tileaa.BY_NAME["yield"], (), (), {}, (), branch.loc, (0,)))
    out.append(create(leave.spec, ends, (), {}, (), leave.loc, (len(ends),)))
    block, start = branch.regions[0].block, work[0]
    for op in first:
        asked.regions[0].block.ops.remove(op)
        block.insert_before(start, op)
    regions = (Region([on]), Region([out]))
    block.insert_before(start, create(tileaa.BY_NAME["if"], (test,), (), {}, regions, branch.loc))
    for op in work:
        for inner in op.walk():
            for k, value in enumerate(inner.operands):
                if value in inside:
                    inner.set_operand(k, inside[value])
    for end in (*stays, leave):
        for k, value in enumerate(end.operands):
            if value in beyond:
                end.set_operand(k, beyond[value])
    branch.set_operand(0, condition)
    asked.erase()
