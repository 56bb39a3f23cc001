"""TileAALoopsToFor: `loop`s that count are written as `for`, so that they can run ahead.

Tile C++ writes `for (i = lo; i < n; ++i)` as a loop that knows whether it is the first time round:

    loop iter(%acc = %zero, %i = %lo, %first = 1) {            for %j = %lo to %n step 1 iter(%acc = %zero) {
      %j = if %first { yield %i } else { yield %i + 1 }          .. %j ..
      if %j < %n { .. continue %next, %j, 0 }                    continue %next
      break %acc                                               }
    }

`while`, `do .. while`, a `break` in front of the work, counting down and comparisons of every kind come in other shapes. Each is
brought to the same one first: an index that goes up by a constant step, held against a bound that the loop does not change,
before anything is done. Only where nothing else leaves the loop and the index has no use behind it. What the body computes
from values outside of it alone moves in front.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Block, Op, Region, Value
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.spec import NO_MEMORY_EFFECT, PURE

from .runtime_versions import is_outside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class LoopsToFor(Pass):
    NAME = "TileAALoopsToFor"
    SUMMARY = "Write loops that count as for"
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        for loop in [op for op in func.walk() if op.spec.name == "loop"]:
            found = counted(loop)
            if found is not None:
                found.rewrite()
        return True


class Counted:
    """A loop that counts: its index and flag among what it carries, the branch that goes on, bounds and step."""

    def __init__(
        self, loop: Op, index: int, first: int, chosen: Op, branch: Op, upper: Value, step: Value
    ) -> None:
        self.loop = loop
        self.index = index
        self.first = first
        self.chosen = chosen
        self.branch = branch
        self.upper = upper
        self.step = step

    def rewrite(self) -> None:
        loop = self.loop
        block, body = loop.block, loop.regions[0].block
        assert block is not None
        hoist(loop, body)
        kept = [k for k in range(len(loop.operands)) if k not in (self.index, self.first)]
        inner = Block()
        induction = inner.add_arg(self.chosen.result.type)
        self.chosen.result.replace_all_uses_with(induction)
        for k in kept:
            body.args[k].replace_all_uses_with(inner.add_arg(body.args[k].type, body.args[k].name))
        going = self.branch.regions[0].block
        jump = going.ops[-1]
        gone = {body.args[self.index], body.args[self.first]}
        stay = [op for op in body.ops[:-2] if op is self.chosen or not gone.isdisjoint(op.operands)]
        for op in body.ops[:-2]:
            if op not in stay:
                inner.append(op)
        for op in going.ops[:-1]:
            inner.append(op)
        body.ops = [*stay, *body.ops[-2:]]
        following = [jump.operands[k] for k in kept]
        inner.append(create(tileaa.BY_NAME["continue"], following, (), {}, (), jump.loc, (len(kept),)))
        carried = [loop.operands[k] for k in kept]
        operands = [loop.operands[self.index], self.upper, self.step, *carried]
        types = [body.args[k].type for k in kept]
        new = create(
            tileaa.BY_NAME["for"], operands, types, {}, (Region([inner]),), loop.loc, (1, 1, 1, len(kept))
        )
        block.insert_before(loop, new)
        hoist(new, inner)
        # what the loop leaves with: a carried value, what the branch not taken yields of them, or something from outside
        at = {inner.args[1 + i]: new.results[i] for i in range(len(kept))}
        left = body.ops[-1]
        other = self.branch.regions[1].block.ops[-1].operands if self.branch.results else []
        for old, value in zip(loop.results, left.operands):
            if value.op is self.branch:
                value = other[value.index]
            old.replace_all_uses_with(at.get(value, value))
        going.ops = [jump]
        loop.erase()


def hoist(loop: Op, body: Block) -> None:
    """Moves pure ops that use nothing of the loop in front of it."""
    assert loop.block is not None
    for op in list(body.ops):
        if not movable(op):
            continue
        if all(is_outside(v, loop) for v in op.operands):
            body.ops.remove(op)
            loop.block.insert_before(loop, op)


def counted(loop: Op) -> Counted | None:
    """What a loop counts; None where it is no counting loop."""
    from tileiras.compiler.schedule.candidates import constant_int

    body = loop.regions[0].block
    if len(body.ops) < 3 or body.ops[-1].spec.name != "break" or body.ops[-2].spec.name != "if":
        return None
    branch, left = body.ops[-2], body.ops[-1]
    if len(branch.regions[0].blocks) != 1:
        return None
    going = branch.regions[0].block
    if going.ops[-1].spec.name != "continue":
        return None
    if any(op.spec.name in ("break", "return", "continue") for op in walk(going.ops[:-1])):
        return None
    if branch.regions[1].blocks and [op.spec.name for op in branch.regions[1].block.ops] != ["yield"]:
        return None
    choices = [op for op in body.ops[:-2] if op.regions]
    if len(choices) != 1 or choices[0].spec.name != "if" or len(choices[0].results) != 1:
        return None
    chosen = choices[0]
    if any(not movable(op) for op in body.ops[:-2] if op is not chosen):
        return None
    jump = going.ops[-1]
    flag = truth_of(chosen.operands[0])
    first = position(body, flag)
    if first is None or flag is None or constant_int(loop.operands[first]) in (None, 0):
        return None
    if constant_int(jump.operands[first]) != 0:
        return None
    start, again = chosen.regions[0].block, chosen.regions[1].block
    if [op.spec.name for op in start.ops] != ["yield"] or [op.spec.name for op in again.ops] != [
        "addi",
        "yield",
    ]:
        return None
    index = position(body, start.ops[0].operands[0])
    bump = again.ops[0]
    if (
        index is None
        or bump.operands[0] is not body.args[index]
        or again.ops[1].operands[0] is not bump.result
    ):
        return None
    step = bump.operands[1]
    if (
        jump.operands[index] is not chosen.result
        or not is_outside(step, loop)
        or (constant_int(step) or 0) <= 0
    ):
        return None
    test = comparison_of(branch.operands[0])
    if test is None or test.operands[0] is not chosen.result:
        return None
    if test.attr("comparison_predicate") != "less_than" or test.attr("signedness") != "signed":
        return None
    # neither the index nor the flag is looked at elsewhere
    used = {id(op) for value in (body.args[index], body.args[first]) for op, _ in value.uses}
    allowed = {id(bump), id(start.ops[0])} | {id(op) for op in body.ops[:-2]}
    if not used <= allowed:
        return None
    for result, value in zip(loop.results, left.operands):
        if value.op is branch:
            value = branch.regions[1].block.ops[-1].operands[value.index]
        if (
            result.uses
            and not is_outside(value, loop)
            and (value.op is not None or position(body, value) in (index, first))
        ):
            return None  # computed in the loop: not there behind a `for`
    if not invariant(test.operands[1], loop):
        return None
    return Counted(loop, index, first, chosen, branch, test.operands[1], step)


def movable(op: Op) -> bool:
    """Whether an op may be computed where nobody asked for it: no effects, and no division that could fail."""
    from tileiras.compiler.schedule.candidates import constant_int

    if op.spec.is_terminator or op.regions or not op.spec.traits & (PURE | NO_MEMORY_EFFECT):
        return False
    return op.spec.name not in ("divi", "remi") or (constant_int(op.operands[1]) or 0) > 0


def walk(ops: list[Op]) -> Any:
    for op in ops:
        yield from op.walk()


def position(body: Block, value: Value | None) -> int | None:
    """Which argument of a body a value is."""
    return value.index if value is not None and value.owner is body else None


def truth_of(value: Value) -> Value | None:
    """The value that a comparison holds against zero."""
    from tileiras.compiler.schedule.candidates import constant_int

    op = value.op
    if op is None or op.spec.name != "cmpi" or op.attr("comparison_predicate") != "not_equal":
        return None
    return op.operands[0] if constant_int(op.operands[1]) == 0 else None


def comparison_of(value: Value) -> Op | None:
    """The comparison behind a condition that was widened and tested against zero."""
    op = value.op
    while op is not None and op.spec.name == "cmpi":
        inner = truth_of(value)
        if inner is None or inner.op is None or inner.op.spec.name != "exti":
            return op
        value = inner.op.operands[0]
        op = value.op
    return None


def invariant(value: Value, loop: Op) -> bool:
    """Whether a value is made by pure ops from what is outside of a loop."""
    if is_outside(value, loop):
        return True
    op = value.op
    return op is not None and movable(op) and all(invariant(v, loop) for v in op.operands)
