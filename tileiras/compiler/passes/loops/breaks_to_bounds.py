"""TileAABreaksToBounds: a `for` that a test of its index leaves ends at the bound where that test would.

A `for` has no `break`. cuTile writes one as a flag that the loop carries, and goes round to the end with nothing done:

    for %k = %lo to %hi iter(%s, %left = false) {              %end = min(%hi, %limit / 64 rounded up)
      if %left { continue %s, %left }                          for %k = %lo to %end iter(%s) {
      if %k * 64 >= %limit { continue %s, true }                 load, load, mma
      load, load, mma                                            continue %next
      continue %next, %left                                    }
    }

A test behind the work lets the step through that it holds in, and ends the loop after it. What is tested may wrap: then the loop
goes on as if there were no test. Where a loop of products asks something else that can be known in front of it, as a number that
it loads, the step in which it is left is looked for there (`asked_ahead.py`). Tile C++'s `break` stands in a `loop`, which
TileAALoopsToFor turns.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import diags as D
from tileiras.compiler.ir.core import Op, Value
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.walk import erase_unused
from tileiras.compiler.schedule.candidates import constant_int, is_outside

from .address_parts import without
from .asked_ahead import MOST, Search, asked_ahead
from .index_bounds import (
    NEGATED,
    SWAPPED,
    Before,
    ends_before_wrapping,
    hoist,
    in_front,
    invariant,
    leaves_at,
    unwound,
    without_effect,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .index_bounds import Grid, Steps

SIGNED = {"signedness": "signed"}
NO_COMPARISON = "its end is no comparison of its index"


class BreaksToBounds(Pass):
    NAME = "TileAABreaksToBounds"
    SUMMARY = "End loops that a test of numbers leaves at the bound where it would"
    """
    does: a `for` whose iterations do nothing once its index got to a number that the loop does not change ends there; one of
      products that a test of loaded numbers leaves, where a search in front of it finds that the test will hold
    without: loads stand behind two branches: they do not run ahead, and products are `mma.sync`
    acts: left_out_by_break_3 on sm_90
    """
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        for loop in [op for op in func.walk() if op.spec.name == "for"]:
            constants_in_front(loop)
            flag = flag_of(loop)
            if flag is None:
                continue
            found = breaks(loop, flag)
            if isinstance(found, str):
                context.remark(D.BREAK_STAYS, loop, reason=found)
            else:
                if any(leave.tests for leave in found):
                    context.remark(D.BREAK_IS_A_BOUND, loop)
                if any(leave.asked is not None for leave in found):
                    context.remark(D.END_LOOKED_FOR, loop)
                rewrite(loop, flag, found)
                context.analyses.drop()
        return True


class Leave:
    """A branch that ends all further iterations, and the comparisons, index * 64 < bound, of which each has to hold to go on; or
    the ops that its condition needs, which are asked in front of the loop."""

    def __init__(self, branch: Op, behind: bool) -> None:
        self.branch = branch
        self.behind = behind  # tested when the work of an iteration is done
        self.tests: list[Holds] = []
        self.asked: list[Op] | None = None


class Holds:
    """index `steps` PREDICATE bound, less_than or less_than_or_equal."""

    def __init__(self, predicate: str, bound: Value, steps: Steps, wraps: Grid | None = None) -> None:
        self.predicate = predicate
        self.bound = bound
        self.steps = steps
        self.wraps = wraps


# ---- what a loop says
def flag_of(loop: Op) -> int | None:
    """Which argument of a body tells that the loop was left: it is false at first, and iterations where it is true do nothing."""
    body = loop.regions[0].block
    guard = body.ops[0]
    if (
        guard.spec.name != "if"
        or sides_of(guard)[0] != ["continue"]
        or sides_of(guard)[1] not in ([], ["yield"])
    ):
        return None
    flag = guard.operands[0]
    if flag.owner is not body or flag.index == 0 or constant_int(loop.operands[2 + flag.index]) != 0:
        return None
    return flag.index if list(guard.regions[0].block.ops[0].operands) == body.args[1:] else None


def constants_in_front(loop: Op) -> None:
    """Moves constants of a branch that goes on to the next iteration in front of it: the flag that it hands on may be one."""
    body = loop.regions[0].block
    for branch in [op for op in body.ops if op.spec.name == "if"]:
        for region in branch.regions:
            inside = region.block.ops if region.blocks else []
            if not inside or inside[-1].spec.name != "continue":
                continue
            for op in [op for op in inside if op.spec.name == "constant"]:
                inside.remove(op)
                body.insert_before(branch, op)


def sides_of(branch: Op) -> list[list[str]]:
    return [[op.spec.name for op in r.block.ops] if r.blocks else [] for r in branch.regions]


def breaks(loop: Op, flag: int) -> list[Leave] | str:
    """The branches that leave a loop; why they are no bounds where they are not."""
    body = loop.regions[0].block
    last = body.ops[-1]
    if loop.attr("unsignedCmp"):
        return "bounds are unsigned"
    if loop.results[flag - 1].uses:
        return "whether it was left is asked behind it"
    if last.operands[flag - 1] is not body.args[flag]:
        return "a step leaves it without a branch that does only that"
    found: list[Leave] = []
    quiet = True
    for number, op in enumerate(body.ops[1:-1], 1):
        ends = ends_of(op, loop, flag)
        if ends is None:
            quiet = quiet and without_effect(op)
            continue
        if isinstance(ends, str):
            return ends
        given = ends.operands
        if quiet and all(v is body.args[n] for n, v in enumerate(given, 1) if n != flag):
            leave = Leave(op, False)
        elif number == len(body.ops) - 2 and all(
            v is last.operands[n] for n, v in enumerate(given) if n != flag - 1
        ):
            leave = Leave(op, True)
        else:
            return "it is left with some of a step's work done"
        reason = tested(leave, op.operands[0], loop)
        if reason:
            asked = asked_ahead(op.operands[0], loop)
            if isinstance(asked, str):
                return asked or reason if reason == NO_COMPARISON else reason
            leave.asked, leave.tests = asked, []
        found.append(leave)
    if not found:
        return "no branch of its own leaves it"
    searched = [leave for leave in found if leave.asked is not None]
    if len(searched) > MOST or len({leave.behind for leave in searched}) > 1:
        return "it is left by several tests of loaded numbers"
    return found


def ends_of(op: Op, loop: Op, flag: int) -> Op | str | None:
    """The jump of a branch that says that the loop was left; None of another op, a reason where one does so otherwise."""
    body = loop.regions[0].block
    jumps = [
        inner
        for inner in op.walk()
        if inner.spec.name == "continue"
        and owner_of(inner) is loop
        and inner.operands[flag - 1] is not body.args[flag]
    ]
    if not jumps:
        return None
    if op.spec.name != "if" or sides_of(op)[0] != ["continue"] or sides_of(op)[1] not in ([], ["yield"]):
        return "the branch that leaves it does more"
    if op.results or constant_int(jumps[0].operands[flag - 1]) in (None, 0):
        return "the branch that leaves it does more"
    return jumps[0]


def owner_of(jump: Op) -> Op | None:
    owner = jump.parent
    while owner is not None and owner.spec.name == "if":
        owner = owner.parent
    return owner


def tested(leave: Leave, condition: Value, loop: Op) -> str | None:
    """Reads what a branch tests; why it is no bound where it is none."""
    work = [condition]
    while work:
        op = work.pop().op
        if op is not None and op.spec.name == "ori" and not is_outside(op.result, loop):
            work += op.operands
            continue
        if op is None or op.spec.name != "cmpi" or is_outside(op.result, loop):
            return NO_COMPARISON
        holds = holds_of(op, loop)
        if isinstance(holds, str):
            return holds
        leave.tests.append(holds)
    return None


def holds_of(compare: Op, loop: Op) -> Holds | str:
    """The comparison that goes on where `compare` leaves."""
    index = loop.regions[0].block.args[0]
    found = [unwound(v) for v in compare.operands]
    side = next((k for k in (0, 1) if found[k][0] is index), None)
    if side is None:
        return NO_COMPARISON
    _, steps, flagged = found[side]
    predicate, bound = compare.attr("comparison_predicate"), compare.operands[1 - side]
    predicate = NEGATED[SWAPPED[predicate] if side == 1 else predicate]
    if predicate not in ("less_than", "less_than_or_equal") or compare.attr("signedness") != "signed":
        return "its end is not the first index above a number"
    if not invariant(bound, loop):
        return "what its index is held against changes with the steps, or is loaded in them"
    start, step = constant_int(loop.operands[0]), constant_int(loop.operands[2])
    if not steps or flagged:
        return Holds(predicate, bound, steps)
    bits = index.type.elem.bits  # type: ignore[attr-defined]
    if start is None or step is None or step <= 0 or not ends_before_wrapping(start, step, steps, bits):
        return "what is made of its index may wrap and hold again"
    return Holds(predicate, bound, steps, (start, step))


# ---- the loop without
def rewrite(loop: Op, flag: int, found: list[Leave]) -> None:
    body = loop.regions[0].block
    lower, upper, step = loop.operands[:3]
    put = Before(loop)
    for leave in found:
        for test in leave.tests:
            in_front(test.bound, loop)
            end = leaves_at(put, lower, test.predicate, test.bound, test.steps, test.wraps, upper)
            if leave.behind:
                end = step_after(put, end, lower, upper, step)
            upper = put("mini", (upper, end), upper.type, SIGNED)
    asked = [(leave.branch.operands[0], leave.asked) for leave in found if leave.asked is not None]
    search = Search(loop, upper, asked) if asked else None  # of the steps up to the bounds that are known
    if search is not None:
        end = search.index
        if any(leave.behind for leave in found if leave.asked is not None):
            end = step_after(put, end, lower, upper, step)
        upper = put("mini", (upper, end), upper.type, SIGNED)
    loop.set_operand(1, upper)
    body.ops[0].erase()
    for leave in found:
        condition = leave.branch.operands[0]
        leave.branch.erase()
        erase_unused(condition.op, without_effect)
    if search is not None:
        search.order()
    if {user for user, _ in body.args[flag].uses} <= {body.ops[-1]}:
        loop = without(loop, {flag})
    hoist(loop, loop.regions[0].block)


def step_after(put: Before, first: Value, lower: Value, upper: Value, step: Value) -> Value:
    """The bound of a loop whose last step is the first one from an index on."""
    greatest = put.number(lower, (1 << (lower.type.elem.bits - 1)) - 1)  # type: ignore[attr-defined]
    last = put("mini", (put("maxi", (first, lower), lower.type, SIGNED), upper), lower.type, SIGNED)
    room = put("subi", (greatest, step), lower.type)
    return put("addi", (put("mini", (last, room), lower.type, SIGNED), step), lower.type)
