"""Loops whose iterations end early where there is nothing to do, in the form of an `if` around what is done.

Before: `for .. { if %c { continue %s }; load, load, mma; continue %next }`.
After:  `for .. { %r = if %c { yield %s } else { load, load, mma; yield %next }; continue %r }`.

Of several such branches one behind another, with nothing but arithmetic and loads of numbers between them, the last one asks for
all. Tokens that such a branch hands on as it got them are the ones from in front of the loop.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Block, Op, Region, Value
from tileiras.compiler.ir.types import TOKEN
from tileiras.compiler.schedule.candidates import PLAIN_LOADS, constant_int, is_outside, ordered_in
from tileiras.compiler.schedule.left_out import blocks_of, has_work, is_number

from .index_bounds import Before, movable


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
                ask_for_all(branch, ends.index(True), loop)
                take_in(branch, ends.index(True))
            return


def ask_for_all(branch: Op, leaves: int, loop: Op) -> None:
    """Branches in front of one that ends an iteration do so in its place, as far as arithmetic, and loads of numbers, alone stand
    between them. These loads have branches of their own then: what ends an iteration may keep them from reading out of bounds."""
    body = branch.block
    assert body is not None
    ask_at_once(branch.operands[0], loop)
    loads: list[Op] = []
    guards: list[Op] = []
    for op in reversed(body.ops[: body.ops.index(branch)]):
        if op.block is None or movable(op) or op.spec.name in ("join_tokens", "assume"):
            continue
        if loads_number(op, loop):
            loads.append(op)
            continue
        asked = give_way(op, branch, leaves, loop)
        if asked is None:
            return
        for guard in guards:
            both = (asked, guard.operands[0])
            guard.set_operand(0, Before(guard)("andi" if leaves else "ori", both, asked.type))
        guards += [guarded(load, asked, leaves) for load in loads]
        loads = []


def loads_number(op: Op, loop: Op) -> bool:
    """Whether an op is a weak load of a number that waits for nothing in its loop."""
    if op.spec.name not in PLAIN_LOADS or op.attr("memory_ordering_semantics") != "weak":
        return False
    return is_number(op.results[0]) and not any(v.type is TOKEN and ordered_in(v, loop) for v in op.operands)


def guarded(load: Op, asked: Value, leaves: int) -> Op:
    """A branch in place of a load, which loads where the iteration goes on, and says zero elsewhere."""
    block = load.block
    assert block is not None
    anchor = block.ops[block.ops.index(load) + 1]
    ended, goes = Block(), Block()
    given = [value for value in load.results if value.uses]
    uses = [list(value.uses) for value in given]
    instead = [
        Before(load).number(value, 0)
        if value.type is not TOKEN
        else ended.append(create(tileaa.BY_NAME["make_token"], (), (TOKEN,), {}, (), load.loc)).result
        for value in given
    ]
    block.ops.remove(load)
    goes.append(load)
    for side, values in ((goes, given), (ended, instead)):
        side.append(create(tileaa.BY_NAME["yield"], values, (), {}, (), load.loc, (len(values),)))
    regions = [Region([side]) for side in ((goes, ended) if leaves else (ended, goes))]
    types = [value.type for value in given]
    made = create(tileaa.BY_NAME["if"], (asked,), types, {}, regions, load.loc)
    block.insert_before(anchor, made)
    for result, users in zip(made.results, uses):
        for user, k in users:
            user.set_operand(k, result)
    return made


def give_way(earlier: Op, branch: Op, leaves: int, loop: Op) -> Value | None:
    """What a branch asked that ends the iteration as a later one does, and gave way to that; None where it does not."""
    if earlier.spec.name != "if":
        return None
    sides = blocks_of(earlier)
    names = [[op.spec.name for op in side] for side in sides]
    last = blocks_of(branch)[leaves]
    if ["continue"] not in names or len(last) != 1:
        return None
    ending = names.index(["continue"])
    if names[1 - ending] not in ([], ["yield"]):
        return None
    given = sides[1 - ending][0].operands if sides[1 - ending] else []
    now = [given[v.index] if v.op is earlier else v for v in last[0].operands]
    tokens: dict[int, list[Value]] = {}
    for number, (one, other) in enumerate(zip(sides[ending][0].operands, now)):
        if one is not other and one.type is TOKEN:
            tokens[number] = [one, other]
        elif one is not other and (constant_int(one) is None or constant_int(one) != constant_int(other)):
            return None
    for result, value in zip(earlier.results, list(given)):
        result.replace_all_uses_with(value)
    put = Before(branch)
    for number, both in tokens.items():  # more order than was asked for, of what is there already
        joined = create(tileaa.BY_NAME["join_tokens"], both, (TOKEN,), {}, (), branch.loc, (2,))
        last[0].set_operand(number, put.anchor.block.insert_before(branch, joined).result)  # type: ignore[union-attr]
    ask_at_once(earlier.operands[0], loop)
    asked = earlier.operands[0]
    if ending != leaves:
        first = Before(earlier)
        asked = first("xori", (asked, first.number(asked, 1)), asked.type)
    branch.set_operand(0, put("andi" if leaves else "ori", (asked, branch.operands[0]), asked.type))
    earlier.erase()
    return asked


def ask_at_once(condition: Value, loop: Op) -> None:
    """Branches that a condition of a loop asks in, as `&&` and `||` leave them, give way to arithmetic, where that alone is in
    them."""
    asked: dict[Op, None] = {}  # outer ones first
    work, seen = [condition], {condition}
    while work:
        value = work.pop()
        op = value.op
        if op is None or is_outside(value, loop) or value.type != condition.type:
            continue
        fresh: list[Value] = list(op.operands) if op.spec.name in ("andi", "ori", "xori") else []
        if op.spec.name == "if":
            asked[op] = None
            fresh = [v for side in blocks_of(op) if side for v in (*side[-1].operands, op.operands[0])]
        fresh = [v for v in dict.fromkeys(fresh) if v not in seen]
        seen.update(fresh)
        work += fresh
    for op in reversed(asked):
        without_branch(op)


def without_branch(branch: Op) -> None:
    """Computes what a branch says about one of its sides, which the other one knows, in front of it."""
    sides = blocks_of(branch)
    if len(branch.results) != 1 or not all(side and side[-1].spec.name == "yield" for side in sides):
        return
    known = [constant_int(side[-1].operands[0]) for side in sides]
    first = 0 if known[0] is not None else 1  # the side that is known
    says, other = known[first], sides[1 - first]
    if says is None or not all(movable(op) for op in other[:-1]):
        return
    asked = branch.operands[0]
    put = Before(branch)
    for op in other[:-1]:
        op.block.ops.remove(op)  # type: ignore[union-attr]
        branch.block.insert_before(branch, op)  # type: ignore[union-attr]
    if first != (0 if says else 1):  # true where `asked` is not, or false where it is
        asked = put("xori", (asked, put.number(asked, 1)), asked.type)
    made = put("ori" if says else "andi", (asked, blocks_of(branch)[1 - first][-1].operands[0]), asked.type)
    branch.results[0].replace_all_uses_with(made)
    branch.erase()


def take_in(branch: Op, leaves: int) -> Op:
    """Moves what follows a branch into its side that does not end the iteration; the branch that has it. What both sides hand on
    and is made in front of it, as the next index, goes on without the branch."""
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
    ends = [side.ops[-1].operands for side in sides]
    for number, result in enumerate(made.results):
        alike = ends[0][number] is ends[1][number] and ends[0][number].op is not None
        jump.set_operand(number, ends[0][number] if alike else result)
    return made


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
