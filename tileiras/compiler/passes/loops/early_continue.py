"""Loops whose iterations end early where there is nothing to do, in the form of an `if` around what is done.

Before: `for .. { if %c { continue %s }; load, load, mma; continue %next }`.
After:  `for .. { %r = if %c { yield %s } else { load, load, mma; yield %next }; continue %r }`.

Tokens that such a branch hands on as it got them are the ones from in front of the loop.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Block, Op, Region, Value
from tileiras.compiler.ir.types import TOKEN
from tileiras.compiler.schedule.left_out import blocks_of, has_work


def join(loop: Op) -> None:
    """Where the rest of a body loads and multiplies, and a branch in front of it ends the iteration, it moves in there."""
    ops = loop.regions[0].block.ops
    for place in range(len(ops) - 2, -1, -1):
        branch = ops[place]
        if branch.spec.name != "if":
            continue
        ends = [bool(side) and side[-1].spec.name == "continue" for side in blocks_of(branch)]
        if any(ends):  # what stands behind an earlier one ends iterations itself
            if ends.count(True) == 1 and has_work(ops[place + 1 : -1]):
                take_in(branch, ends.index(True))
            return


def take_in(branch: Op, leaves: int) -> None:
    """Moves what follows a branch into its side that does not end the iteration."""
    body = branch.block
    assert body is not None
    jump = body.ops[-1]
    rest = body.ops[body.ops.index(branch) + 1 : -1]
    sides = []
    for number, region in enumerate(branch.regions):
        side = region.block if region.blocks else Block()
        given: list[Value] = list(side.ops[-1].operands) if side.ops else []
        if side.ops:
            side.ops[-1].erase()
        if number != leaves:
            for result, value in zip(branch.results, given):
                result.replace_all_uses_with(value)
            given = list(jump.operands)
            for op in rest:
                body.ops.remove(op)
                side.append(op)
        side.append(create(tileaa.BY_NAME["yield"], given, (), {}, (), branch.loc, (len(given),)))
        sides.append(side)
    types = [value.type for value in jump.operands]
    regions = [Region([side]) for side in sides]
    made = create(tileaa.BY_NAME["if"], branch.operands, types, dict(branch.attrs), regions, branch.loc)
    body.insert_before(branch, made)
    branch.regions = []
    branch.erase()
    for number, result in enumerate(made.results):
        jump.set_operand(number, result)


def keep_tokens(loop: Op) -> None:
    """Tokens that a `for` hands on as they were are carried around its branches, and read in front of it."""
    body = loop.regions[0].block
    jump = body.ops[-1]
    for number, value in enumerate(list(jump.operands)):
        arg = body.args[number + 1]
        if value.type is TOKEN and is_handed_on(value, arg):
            arg.replace_all_uses_with(loop.operands[number + 3])
            jump.set_operand(number, arg)


def is_handed_on(value: Value, arg: Value) -> bool:
    """Whether a value is an argument of a loop's body, on all ways through branches."""
    work, seen = [value], {arg}
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        branch = value.op
        if branch is None or branch.spec.name != "if":
            return False
        ends = [side[-1] if side else None for side in blocks_of(branch)]
        for end in ends:
            if end is None or end.spec.name != "yield":
                return False
            work.append(end.operands[value.index])
    return True
