"""How a `loop` tests its index: which argument that is, what it is held against, by what it goes on, and the bounds of a `for`
that goes round as often.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Block, Op, Value
from tileiras.compiler.ir.types import I1, TensorType
from tileiras.compiler.schedule.candidates import constant_int, is_outside

from .index_bounds import (
    NEGATED,
    NO_SIGNED_WRAP,
    SWAPPED,
    Before,
    ends_before_wrapping,
    first_beyond,
    invariant,
    leaves_at,
    movable,
    unwound,
)
from .loop_body import Body, ops_of, position

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .index_bounds import Grid, Steps
    from .loops_to_for import Counted

STEPS = (["addi", "yield"], ["subi", "yield"])
# an index of so many bits that steps over a bound near the greatest number, and may, goes round for so long that nobody asks
SELDOM = 32
OWN_INDEX = "a `continue` goes on with an index of its own"
WRAPS = "its index may wrap before it gets to its bound: nothing says that it does not overflow"


class Test:
    """The comparison that keeps a loop going, as index PREDICATE bound, and the step of the index."""

    def __init__(
        self,
        compare: Op,
        predicate: str,
        unsigned: bool,
        bound: Value,
        step: Value,
        by: int,
        once: bool,
        steps: Steps,
        unknown: bool = False,
        wraps: Grid | None = None,
    ) -> None:
        self.compare = compare
        self.unsigned = unsigned
        self.predicate = predicate
        self.bound = bound
        self.step = step
        self.by = by
        self.once = once  # the first iteration is not tested
        self.steps = steps  # from the index to what is held against the bound, the last one first
        self.unknown = unknown  # the step is a value of the run: at least 1 where the loop ends
        self.wraps = wraps  # what is tested may wrap before it gets to the bound, from where, by which step

    def bounds(self, loop: Counted) -> tuple[Value, Value, Value, bool]:
        """(lower, upper, step, whether bounds are unsigned) of the `for`."""
        put = Before(loop.loop)
        start, bound = loop.loop.operands[loop.index], self.bound
        if self.by < 0:  # counts the iterations up
            attrs = {"comparison_predicate": self.predicate, "signedness": "signed"}
            holds = put("cmpi", (start, bound), TensorType(I1, (), None), attrs)
            far = put("subi", (start, bound), start.type)
            if self.predicate == "greater_than_or_equal":
                far = put("addi", (far, put.number(start, 1)), start.type)
            trips = far
            if self.by < -1:  # the way is up to all the bits long
                attrs = {"signedness": "unsigned", "rounding": "positive_inf"}
                trips = put("divi", (far, put.number(start, -self.by)), start.type, attrs)
            zero, one = put.number(start, 0), put.number(start, 1)
            return zero, put("select", (holds, trips, one if self.once else zero), start.type), one, True
        if loop.early:  # one of these may leave it where its own test never does
            greatest = (1 << (start.type.elem.bits - 1)) - 1  # type: ignore[attr-defined]
            bound = leaves_at(
                put, start, self.predicate, bound, self.steps, self.wraps, put.number(start, greatest)
            )
        else:
            bound = first_beyond(put, start, self.predicate, bound, self.steps)
        if self.once:
            least = put("addi", (start, put.number(start, 1)), start.type)
            sign = {"signedness": "unsigned" if self.unsigned else "signed"}
            bound = put("maxi", (bound, least), start.type, sign)
        step = self.step
        if self.unknown:
            step = put("maxi", (step, put.number(start, 1)), start.type, {"signedness": "signed"})
        return start, bound, step, self.unsigned

    def ends(self, put: Before, like: Value, never: Value) -> Value:
        """Where the index leaves in front of the work; `never` where it does not get there."""
        return leaves_at(put, like, self.predicate, self.bound, self.steps, self.wraps, never)

    def behind(self, loop: Counted, lower: Value, upper: Value) -> Value:
        """The index that ends the loop, from the bounds of the `for`."""
        put = Before(loop.loop)
        start = loop.loop.operands[loop.index]
        if self.by < 0:  # the upper bound is the number of iterations
            return put(
                "subi", (start, put("muli", (upper, put.number(start, -self.by)), start.type)), start.type
            )
        sign = {"signedness": "unsigned" if self.unsigned else "signed"}
        end = put("maxi", (lower, upper), start.type, sign)
        if self.by == 1:
            return end
        by = put.number(start, self.by)
        attrs = {"signedness": "unsigned", "rounding": "positive_inf"}  # the way is up to all the bits long
        trips = put("divi", (put("subi", (end, lower), start.type), by), start.type, attrs)
        return put("addi", (lower, put("muli", (trips, by), start.type)), start.type)

    def index(self, loop: Counted, counter: Value, inner: Block) -> Value:
        """The index where the iterations are counted."""
        if self.by > 0:
            return counter
        start = loop.loop.operands[loop.index]
        put = Before(loop.loop)
        back = counter
        if self.by < -1:
            times = put.number(start, -self.by)
            back = inner.append(
                create(tileaa.BY_NAME["muli"], (counter, times), (start.type,), {}, (), loop.loop.loc)
            ).result
        return inner.append(
            create(tileaa.BY_NAME["subi"], (start, back), (start.type,), {}, (), loop.loop.loc)
        ).result


def flag_of(loop: Op, parts: Body, chosen: Op) -> int | None:
    """Which argument tells `chosen` that the loop goes round for the first time."""
    body = loop.regions[0].block
    if any(len(ops_of(chosen, k)) == 0 for k in (0, 1)):
        return None
    value = truth_of(chosen.operands[0])
    first = position(body, value)
    if first is None or value is None or constant_int(loop.operands[first]) in (None, 0):
        return None
    if constant_int(parts.jump.operands[first]) != 0:
        return None
    used = {op for op, _ in value.uses}
    return first if used <= {chosen.operands[0].op, parts.jump, parts.leave} else None


def chosen_index(loop: Op, parts: Body, chosen: Op) -> tuple[int, Test] | str:
    """`if first { yield %i } else { yield %i + step }`: the index of this iteration, which is tested behind it; or, as
    `do .. while (--i > n)` is left, `if first { yield %i, true } else { %j = %i + step; yield %j, %j > %n }`. Why not, where it
    does not count; nothing where it is another shape."""
    body = loop.regions[0].block
    start = ops_of(chosen, 0)
    again = [
        op for op in ops_of(chosen, 1) if not (movable(op) and all(invariant(r, loop) for r in op.results))
    ]
    once = len(chosen.results) == 2
    names = [op.spec.name for op in again]
    if [op.spec.name for op in start] != ["yield"] or [*names[:1], names[-1]] not in STEPS:
        return ""
    index = position(body, start[0].operands[0])
    bump = again[0]
    if (
        index is None
        or again[-1].operands[0] is not bump.result
        or parts.jump.operands[index] is not chosen.results[0]
    ):
        return ""
    if {op for op, _ in body.args[index].uses} != {bump, start[0]}:
        return ""
    compare: Op | None = parts.tests[0]
    current = chosen.results[0]
    if once:
        go = chosen.results[1]
        if compare is not chosen or parts.negated or {op for op, _ in go.uses} != {parts.branch}:
            return ""
        if not constant_int(start[0].operands[1]) or not all(movable(op) for op in again[1:-1]):
            return ""
        compare, current = again[-1].operands[1].op, bump.result
        if compare is None or compare.block is not bump.block:
            return ""
    elif len(again) != 2:
        return ""
    test = test_of(loop, compare, parts.negated, current, body.args[index], bump, once)
    return test if isinstance(test, str) else (index, test)


def plain_index(loop: Op, parts: Body, chosen: Op | None) -> tuple[int, Test] | str:
    """An argument that is held against a bound, at once or (`chosen`) from the second time on, and goes on by a step; why not."""
    body = loop.regions[0].block
    compare: Op | None = parts.tests[0]
    negated = parts.negated
    if chosen is not None:  # `if first { yield true } else { yield %i < %n }`
        start, again = ops_of(chosen, 0), ops_of(chosen, 1)
        if compare is not chosen or negated or [op.spec.name for op in start] != ["yield"]:
            return ""
        if [op.spec.name for op in again[-2:]] != ["cmpi", "yield"] or not all(
            movable(op) for op in again[:-1]
        ):
            return ""
        if again[-1].operands[0] is not again[-2].result:
            return ""
        if not constant_int(start[0].operands[0]):
            return ""
        compare = again[-2]
    if compare is None or compare.spec.name != "cmpi":
        return ""
    why = ""
    for side in compare.operands:
        value = unwound(side)[0]
        index = position(body, value)
        if index is None:
            continue
        bump = parts.jump.operands[index].op
        if bump is not None and bump.spec.name in ("addi", "subi") and not is_outside(bump.result, loop):
            test = test_of(loop, compare, negated, value, value, bump, chosen is not None)
            if not isinstance(test, str):
                return index, test
            why = why or test
    return why


def told_index(loop: Op, parts: Body) -> tuple[int, bool, tuple[int, Test]] | str:
    """`while (more) { work; more = ++i < n; }`: an iteration tells whether there is a next one. (the argument that does, whether
    the loop goes on where it is not zero, the index and its test); why not."""
    body = loop.regions[0].block
    value, goes = parts.branch.operands[0], not parts.negated
    while position(body, value) is None:
        found = asked_of(value)
        if found is None or is_outside(value, loop) or len(value.uses) != 1:
            return ""
        value, goes = found[0], goes == found[1]
    flag = position(body, value)
    if flag is None or sum(user is not parts.leave for user, _ in value.uses) != 1:
        return ""
    compare = bit_of(parts.jump.operands[flag]).op
    if compare is None or is_outside(compare.result, loop):
        return ""
    why = ""
    for index, following in enumerate(parts.jump.operands):
        bump = following.op
        if bump is None or bump.spec.name not in ("addi", "subi") or is_outside(following, loop):
            continue
        test = test_of(loop, compare, not goes, following, body.args[index], bump, True)
        if isinstance(test, str):
            why = why or test
        else:
            if _tested_first(loop.operands[flag], loop.operands[index], test, goes):
                test.once = False
            return flag, goes, (index, test)
    return why


def _tested_first(asked: Value, start: Value, test: Test, goes: bool) -> bool:
    """Whether a loop is entered where its test holds of the index that it starts at."""
    compare = bit_of(asked).op
    if compare is None or compare.spec.name != "cmpi" or test.steps:
        return False
    if compare.attr("signedness") != test.compare.attr("signedness"):
        return False
    predicate = compare.attr("comparison_predicate")
    if not goes:
        predicate = NEGATED[predicate]
    for side in (0, 1):
        if predicate == test.predicate and compare.operands[1 - side] is test.bound:
            at = compare.operands[side]
            if at is start or constant_int(at) is not None and constant_int(at) == constant_int(start):
                return True
        predicate = SWAPPED[predicate]
    return False


def asked_of(value: Value) -> tuple[Value, bool] | None:
    """What a flag is made of, and whether it is zero where that is: `!more` is the lowest bit of the
    complement of a comparison, widened."""
    op = value.op
    if op is None:
        return None
    if op.spec.name == "cmpi" and constant_int(op.operands[1]) == 0:
        predicate = op.attr("comparison_predicate")
        return (op.operands[0], predicate == "not_equal") if predicate in ("equal", "not_equal") else None
    if op.spec.name == "exti":
        return op.operands[0], True
    if not is_bit(value):
        return None
    same, at = True, value
    while at is value or at.type.elem is not I1:  # type: ignore[attr-defined]
        op = at.op
        if op is None or len(at.uses) != 1 or op.spec.name not in ("exti", "trunci", "xori", "andi"):
            return None
        if op.spec.name in ("xori", "andi"):
            by = constant_int(op.operands[1])
            if by is None or op.spec.name == "andi" and by % 2 == 0:
                return None
            same = same == (op.spec.name == "andi" or by % 2 == 0)
        at = op.operands[0]
    return at, same


def is_bit(value: Value) -> bool:
    """Whether a number is 0 or 1."""
    while value.type.elem is not I1:  # type: ignore[attr-defined]
        op = value.op
        if op is None:
            return False
        if op.spec.name == "andi":
            return constant_int(op.operands[1]) == 1
        widened = op.spec.name == "exti" and op.attr("signedness") == "unsigned"
        turned = op.spec.name == "xori" and constant_int(op.operands[1]) == 1
        if not (widened or turned or op.spec.name == "trunci"):
            return False
        value = op.operands[0]
    return True


def bit_of(value: Value) -> Value:
    """The bit that a flag of more bits was made of; the flag where it was made of something else."""
    at = value
    while at.op is not None and at.op.spec.name in ("exti", "trunci"):
        at = at.op.operands[0]
        if at.type.elem is I1:  # type: ignore[attr-defined]
            return at
    return value


def test_of(
    loop: Op,
    compare: Op | None,
    negated: bool,
    current: Value,
    carried: Value,
    bump: Op,
    once: bool = False,
) -> Test | str:
    """How the index is tested; why a `for` would not go round as often; nothing where it is not this index that is tested."""
    if compare is None or compare.spec.name != "cmpi":
        return ""
    tested = [unwound(v, current) for v in compare.operands]
    side = next((k for k in (0, 1) if tested[k][0] is current), None)
    if side is None:
        return ""
    steps, flagged = tested[side][1:]
    predicate, bound = compare.attr("comparison_predicate"), compare.operands[1 - side]
    if side == 1:
        predicate = SWAPPED[predicate]
    if negated:
        predicate = NEGATED[predicate]
    if carried not in bump.operands:
        return ""
    if not invariant(bound, loop):
        return "what its index is held against changes with the steps, or is loaded in them"
    step = bump.operands[1 - bump.operands.index(carried)]
    by = constant_int(step)
    if bump.spec.name == "subi":
        if carried is not bump.operands[0]:
            return "its index is subtracted from a number"
        if by is None or by < 0:
            return "its index goes down by a number that is not known"
        by = -by
    if by == 0 or not invariant(step, loop):
        return "its index does not go on by the same number in each step"
    signed = compare.attr("signedness") == "signed"
    safe = signed and bump.attr("overflow") in NO_SIGNED_WRAP
    if by is None:  # below 1 the index never gets to the bound, or overflows
        blocks = signed and not steps and predicate == "less_than" and _is_number_of_blocks(step)
        if blocks or (safe and predicate in ("less_than", "less_than_or_equal")):
            return Test(compare, predicate, False, bound, step, 1, once, steps, True)
        if predicate not in ("less_than", "less_than_or_equal"):
            return "its step is not known, and its test is not whether the index is less than a number"
        return WRAPS
    start = constant_int(loop.operands[position(loop.regions[0].block, carried) or 0])
    if by > 0:
        unsigned = not signed
        if not safe and (by > 1 or once) and bound.type.elem.bits < SELDOM:  # type: ignore[attr-defined]
            return WRAPS
        if steps and not (safe and flagged and predicate != "not_equal"):
            ends = signed and not once and ends_before_wrapping(start, by, steps, bound.type.elem.bits)  # type: ignore[attr-defined]
            if not (ends and predicate in ("less_than", "less_than_or_equal")):
                return "what is made of its index may wrap and hold again"
            assert start is not None
            return Test(compare, predicate, False, bound, step, by, once, steps, wraps=(start, by))
        if predicate == "not_equal" and by == 1 and (safe or start == 0 and not once):
            predicate, unsigned = "less_than", not safe  # it gets there, or the index overflows
        if predicate == "less_than" or predicate == "less_than_or_equal" and safe:
            return Test(compare, predicate, unsigned, bound, step, by, once, steps)
        if predicate in ("less_than_or_equal", "not_equal"):
            return WRAPS
        return "its index goes up, and its test is not whether that is less than a number"
    if not signed:
        return "its index goes down, and is compared unsigned"
    if steps:
        return "its index goes down, and what is compared is made of it"
    if once and not safe:
        return WRAPS
    if predicate == "not_equal" and by == -1 and safe:
        predicate = "greater_than"
    if not safe:  # an index that is tested is not below its bound
        least, bits = constant_int(bound), bound.type.elem.bits  # type: ignore[attr-defined]
        if least is None or least + by < -1 << (bits - 1):
            return WRAPS
    if predicate in ("greater_than", "greater_than_or_equal"):
        return Test(compare, predicate, True, bound, step, by, once, steps)
    return "its index goes down, and its test is not whether that is greater than a number"


def _is_number_of_blocks(step: Value) -> bool:
    """Whether a step is as many as the grid has blocks, in 32 bits: an index that steps over its bound then does not wrap, but
    for a bound that nobody gets near."""
    return step.op is not None and step.op.spec.name == "get_num_tile_blocks"


def truth_of(value: Value) -> Value | None:
    """The value that a comparison holds against zero."""
    op = value.op
    if op is None or op.spec.name != "cmpi" or op.attr("comparison_predicate") != "not_equal":
        return None
    return op.operands[0] if constant_int(op.operands[1]) == 0 else None
