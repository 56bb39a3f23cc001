"""TileAALoopsToFor: `loop`s that count are written as `for`, so that they can run ahead.

Tile C++ writes `for (i = lo; i < n; ++i)` as a loop that knows whether it is the first time round:

    loop iter(%acc = %zero, %i = %lo, %first = 1) {            for %j = %lo to %n step 1 iter(%acc = %zero) {
      %j = if %first { yield %i } else { yield %i + 1 }          .. %j ..
      if %j < %n { .. continue %next, %j, 0 }                    continue %next
      break %acc                                               }
    }

`while`, `do .. while`, a `break` in front of the work, counting down and comparisons of every kind come in other shapes. Each
is brought to the same one first: an index that goes up by a step, held against a bound that the loop does not change, before
anything is done; so are flags that say whether to go on, several conditions, and several indices that step together. What
leaves the loop besides, in front of its work and where the index is above a number, lowers the bound. What the body computes
from values outside of it alone moves in front. An index that is read behind its loop, as by the next of two loops that share
it, is computed from the bounds: with a step of 1 it is the greater one of the lower and the upper bound, so that a loop which
goes on from there to the same bound has nothing left to do, and goes.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Block, Op, Region, Value
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.types import I1, TOKEN, TensorType
from tileiras.compiler.ir.walk import erase_unused
from tileiras.compiler.schedule.candidates import constant_int, is_outside

from .index_bounds import (
    NEGATED,
    NO_SIGNED_WRAP,
    SWAPPED,
    Before,
    ends_before_wrapping,
    first_beyond,
    hoist,
    in_front,
    invariant,
    leaves_at,
    movable,
    unwound,
    without_effect,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from .index_bounds import Grid, Steps


STEPS = (["addi", "yield"], ["subi", "yield"])
COUNTS = frozenset(("cmpi", "addi", "subi", "continue", "break"))
# an index of so many bits that steps over a bound near the greatest number, and may, goes round for so long that nobody asks
SELDOM = 32


class LoopsToFor(Pass):
    NAME = "TileAALoopsToFor"
    SUMMARY = "Write loops that count as for"
    """
    does: a `loop` that counts, up or down, tested in front or behind, by a comparison of any kind, becomes a `for`
    without: stays a `loop`: not pipelined
    acts: cpp_moving_pointer on sm_80
    """
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        loops = [op for op in func.walk() if op.spec.name == "loop"]
        for loop in reversed(loops):  # inner ones first: their jumps are gone then
            order_in_front(loop)
            count_plainly(loop)
            step_behind(loop)
            found = counted(loop)
            if found is not None:
                found.rewrite()
        for op in reversed(
            [op for op in func.walk() if op.spec.name == "for"]
        ):  # those in one that goes are gone then
            if is_done(op):
                for result, value in zip(op.results, op.operands[3:]):
                    result.replace_all_uses_with(value)
                op.erase()
        return True


class Body:
    """The parts of a loop's body around the one place where it is left.

    before: ops in front of the test, which run once more than the rest. work: those behind it, up to the jump.
    leave: the break. taken: the region of the branch that jumps. negated: whether the loop ends where the condition holds.
    early: branches in front of the work that leave the loop, too, each with its region that does. tests: the ops that make the
    condition; of several, each has to go on. shorts: branches among them, as `&&` leaves them. skips: jumps in the work that
    end an iteration.
    """

    def __init__(
        self,
        before: list[Op],
        branch: Op,
        work: list[Op],
        jump: Op,
        leave: Op,
        taken: int,
        negated: bool,
        early: list[tuple[Op, int]],
        skips: list[Op],
    ) -> None:
        self.skips = skips
        self.before = before
        self.branch = branch
        self.work = work
        self.jump = jump
        self.leave = leave
        self.taken = taken
        self.negated = negated
        self.early = early
        self.tests, self.shorts = all_of(branch.operands[0], negated)

    def passed(self, value: Value) -> Value:
        """A result of the branch as the region that does not jump has it; any other value as it is."""
        for branch, side in ((self.branch, self.taken), *reversed(self.early)):
            if value.op is branch:
                value = branch.regions[1 - side].block.ops[-1].operands[value.index]
        return value


class Counted:
    """A loop that counts: the value that is its index in one iteration, and how that goes on."""

    def __init__(
        self,
        loop: Op,
        body: Body,
        index: int,
        flag: int | None,
        chosen: Op | None,
        test: Test,
        early: list[Test],
        behind: bool = False,
        entered: bool | None = None,
    ) -> None:
        self.entered = entered  # the loop goes round at all where its `flag` is, or is not, zero at first
        self.behind = behind  # the test stands behind the work: what the loop leaves with is what would go on
        self.loop = loop
        self.body = body
        self.index = index
        self.flag = flag  # tells whether the loop goes round for the first time
        self.chosen = chosen
        self.test = test
        self.early = early

    @property
    def current(self) -> Value:
        """The index of an iteration."""
        if self.steps_first and self.chosen is not None:
            return self.chosen.results[0]
        return self.loop.regions[0].block.args[self.index]

    @property
    def following(self) -> list[Value]:
        """What goes on to the next iteration."""
        return [self.body.passed(v) for v in self.body.jump.operands]

    @property
    def left(self) -> Value:
        """The index that the loop is left with."""
        return self.following[self.index] if self.behind else self.current

    @property
    def steps_first(self) -> bool:
        """Whether the index goes on in front of the test, but the first time round: `chosen` gives it."""
        return self.chosen is not None and self.chosen.results[0].type.elem is not I1  # type: ignore[attr-defined]

    def asked_first(self, put: Before) -> Value:
        """Whether the flag is not zero at first."""
        assert self.flag is not None
        first = self.loop.operands[self.flag]
        if bit_of(first).type.elem is I1:  # type: ignore[attr-defined]
            return bit_of(first)
        attrs = {"comparison_predicate": "not_equal", "signedness": "signed"}
        return put("cmpi", (first, put.number(first, 0)), TensorType(I1, (), None), attrs)

    def jump(self, old: Op, kept: list[int]) -> Op:
        """A jump to the next iteration, with what the `for` carries."""
        following = [old.operands[k] for k in kept]
        return create(tileaa.BY_NAME["continue"], following, (), {}, (), old.loc, (len(kept),))

    def rewrite(self) -> None:
        loop, parts = self.loop, self.body
        block, body = loop.block, loop.regions[0].block
        assert block is not None
        hoist(loop, body)
        for test in (self.test, *self.early):
            in_front(test.bound, loop)
            in_front(test.step, loop)
        kept = [k for k in range(len(loop.operands)) if k not in (self.index, self.flag)]
        leaving = [parts.passed(v) for v in parts.leave.operands]
        inner = Block()
        counter = inner.add_arg(body.args[self.index].type)
        lower, upper, step, unsigned = self.test.bounds(self)
        put = Before(loop)
        for test in self.early:
            upper = put("mini", (upper, test.ends(put, lower, upper)), upper.type, {"signedness": "signed"})
        if self.entered is not None and self.test.once:
            asked = self.asked_first(put)
            upper = put(
                "select", (asked, upper, lower) if self.entered else (asked, lower, upper), upper.type
            )
        current = self.test.index(self, counter, inner)
        behind: dict[int, Value] = {}
        for result, value in zip(loop.results, leaving):
            if value is self.left and result.uses and not behind:
                behind[id(value)] = self.test.behind(self, lower, upper)
        args = [inner.add_arg(body.args[k].type, body.args[k].name) for k in kept]
        gone = {self.chosen, *parts.shorts, *(branch for branch, _ in parts.early)} | {
            op for op in parts.before if self.flag is not None and body.args[self.flag] in op.operands
        }
        if self.entered is not None:  # what is made of the flag has no other use
            for op in parts.before:
                if any(v.op in gone for v in op.operands if v.op is not None):
                    gone.add(op)
        moved = [op for op in (*parts.before, *parts.work) if op not in gone and op.block is not block]
        self.current.replace_all_uses_with(current)
        for k, arg in zip(kept, args):
            body.args[k].replace_all_uses_with(arg)
        for op in moved:
            op.block.ops.remove(op)  # type: ignore[union-attr]
            inner.append(op)
        for branch in (parts.branch, *(branch for branch, _ in parts.early)):
            for result in branch.results:
                result.replace_all_uses_with(parts.passed(result))
        for skip in parts.skips:
            assert skip.block is not None
            skip.block.insert_before(skip, self.jump(skip, kept))
            skip.erase()
        inner.append(self.jump(parts.jump, kept))
        carried = [loop.operands[k] for k in kept]
        types = [body.args[k].type for k in kept]
        attrs = {"unsignedCmp": True} if unsigned else {}
        operands = [lower, upper, step, *carried]
        new = create(
            tileaa.BY_NAME["for"], operands, types, attrs, (Region([inner]),), loop.loc, (1, 1, 1, len(kept))
        )
        block.insert_before(loop, new)
        hoist(new, inner)
        ends = self.following if self.behind else body.args
        at = {id(ends[k]): new.results[i] for i, k in enumerate(kept)} | behind
        for old, value in zip(loop.results, leaving):
            old.replace_all_uses_with(at.get(id(value), value))
        loop.erase()
        for test in (self.test, *self.early):
            for user, _ in list(test.compare.result.uses):
                erase_unused(user, movable)
        for test in (self.test, *self.early):
            if test.compare.block is not None and not test.compare.result.uses:
                test.compare.erase()


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


def order_in_front(loop: Op) -> None:
    """Tokens that a branch of a loop's body chooses become one that waits for both sides, where the branch only chooses: as the
    index of the first time round comes with those of the loads of a lambda. More order than was asked for, and none that
    anything waits longer for: all of it is there before the branch."""
    for branch in list(loop.regions[0].block.ops):
        if branch.spec.name != "if" or not any(r.type is TOKEN for r in branch.results):
            continue
        sides = [_ops(branch, k) for k in (0, 1)]
        inside = [op for side in sides for op in side[:-1]]
        if any(not movable(op) for op in inside) or any(s[-1].spec.name != "yield" for s in sides):
            continue
        block = branch.block
        assert block is not None
        given = [v for side in sides for v in side[-1].operands if v.type is TOKEN]
        before = leaves(given, branch)
        if not before:
            continue
        joined = create(tileaa.BY_NAME["join_tokens"], before, (TOKEN,), {}, (), branch.loc, (len(before),))
        token = block.insert_before(branch, joined).result
        kept = [k for k, r in enumerate(branch.results) if r.type is not TOKEN]
        for side in sides:
            end, values = side[-1], [side[-1].operands[k] for k in kept]
            made = create(end.spec, values, (), {}, (), end.loc, (len(values),))
            end.block.insert_before(end, made)  # type: ignore[union-attr]
            end.erase()
        for op in reversed(inside):  # a join uses those in front of it
            if op.spec.name == "join_tokens" and not op.results[0].uses:
                op.erase()
        regions = list(branch.regions)
        branch.regions = []
        types = [branch.results[k].type for k in kept]
        chosen = create(branch.spec, branch.operands, types, dict(branch.attrs), regions, branch.loc)
        block.insert_before(branch, chosen)
        for place, k in enumerate(kept):
            branch.results[k].replace_all_uses_with(chosen.results[place])
        for result in branch.results:
            if result.type is TOKEN:
                result.replace_all_uses_with(token)
        branch.erase()


def count_plainly(loop: Op) -> None:
    """What counts and tests an argument of a loop's body has it as it is, not with what is assumed of it, as cuTile says of an
    index that all its steps divide: neither needs to know, and the index of a `for` is another value."""
    body = loop.regions[0].block
    for op in list(body.ops):
        if op.spec.name != "assume":
            continue
        value = op.operands[0]
        if position(body, value) is None:
            continue
        for user, k in list(op.result.uses):
            if user.spec.name in COUNTS or user.spec.name == "assume":
                user.set_operand(k, value)
        if not op.result.uses:
            op.erase()


def step_behind(loop: Op) -> None:
    """Several indices that go on in front of the test, but the first time round, go on behind the work, as those of
    `for (i = 0, k = 0; i < n; ++i, k += 64)`. Each is an argument of the body then, as in a `while`."""
    parts = body_of(loop)
    chosen = next((op for op in loop.regions[0].block.ops if op.regions), None)
    if parts is None or parts.skips or chosen not in parts.before or chosen in parts.shorts:
        return
    assert chosen is not None
    if len(chosen.results) < 2 or any(r.type is TOKEN or r.type.elem is I1 for r in chosen.results):  # type: ignore[attr-defined]
        return
    body = loop.regions[0].block
    if chosen.spec.name != "if" or flag_of(loop, parts, chosen) is None:
        return
    (*here, start), (*steps, again) = _ops(chosen, 0), _ops(chosen, 1)
    places = [position(body, value) for value in start.operands]
    if here or start.spec.name != "yield" or again.spec.name != "yield" or not all(map(movable, steps)):
        return
    if any(k is None or parts.jump.operands[k] is not r for k, r in zip(places, chosen.results)):
        return
    inside = {result for op in steps for result in op.results}
    for value in (*again.operands, *(v for op in steps for v in op.operands)):
        if value not in inside and not is_outside(value, loop) and position(body, value) not in places:
            return
    where = parts.jump.block
    assert where is not None
    for op in steps:
        chosen.regions[1].block.ops.remove(op)
        where.insert_before(parts.jump, op)
    for k, value in zip(places, list(again.operands)):
        parts.jump.set_operand(k, value)  # type: ignore[arg-type]
    for k, result in zip(places, chosen.results):
        result.replace_all_uses_with(body.args[k])  # type: ignore[index]
    condition = chosen.operands[0].op
    chosen.erase()
    erase_unused(condition, movable)


def leaves(tokens: Iterable[Value], branch: Op) -> list[Value]:
    """The tokens from outside of a branch that joins in it wait for, each once."""
    found: dict[Value, None] = {}
    work, seen = list(tokens), set(tokens)
    while work:
        value = work.pop()
        if is_outside(value, branch):
            found[value] = None
            continue
        fresh = [v for v in value.op.operands if v not in seen]  # type: ignore[union-attr]
        seen.update(fresh)
        work += fresh
    return list(found)


def counted(loop: Op) -> Counted | None:
    """What a loop counts; None where it is no counting loop."""
    parts = body_of(loop)
    return None if parts is None else _counted_in_front(loop, parts) or _counted_behind(loop, parts)


def _counted_behind(loop: Op, parts: Body) -> Counted | None:
    """`while (true) { work; if (++i == n) break; }`: what it leaves with is what would go on, and the first iteration is not
    tested."""
    if parts.work or parts.early:
        return None
    body = loop.regions[0].block
    for index, value in enumerate(parts.passed(v) for v in parts.jump.operands):
        bump = value.op
        if bump is None or bump.spec.name not in ("addi", "subi") or is_outside(value, loop):
            continue
        test = _test(loop, parts.branch.operands[0].op, parts.negated, value, body.args[index], bump, True)
        if test is None:
            continue
        found = Counted(loop, parts, index, None, None, test, [], True)
        ends = [v for k, v in enumerate(found.following) if k != index or not test.unknown]
        left = [parts.passed(v) for v, r in zip(parts.leave.operands, loop.results) if r.uses]
        clean = all(v in ends or (is_outside(v, loop) and position(body, v) is None) for v in left)
        return found if clean else None
    return None


def _counted_in_front(loop: Op, parts: Body) -> Counted | None:
    """A loop whose test stands in front of its work."""
    body = loop.regions[0].block
    choices = [op for op in parts.before if op.regions and op not in parts.shorts]
    if any(op.spec.name != "if" for op in choices):
        return None
    if any(not movable(op) and op.spec.name != "assume" for op in parts.before if not op.regions):
        return None
    if len(choices) > 1:
        return None
    flag, chosen = None, None
    if choices:
        chosen = choices[0]
        flag = flag_of(loop, parts, chosen)
        if flag is None or len(chosen.results) not in (1, 2):
            return None
    found = _chosen_index(loop, parts, chosen) if chosen is not None else None
    if found is None:
        found = _plain_index(loop, parts, chosen)
    entered = None
    if found is None and chosen is None:
        told = _told_index(loop, parts)
        if told is not None:
            flag, entered, found = told
    if found is None:
        return None
    index, test = found
    for skip in parts.skips:  # go on as the others do
        for k in (index, flag):
            if k is not None and not same(skip.operands[k], parts.jump.operands[k]):
                return None
    result = Counted(loop, parts, index, flag, chosen, test, [], entered=entered)
    unlike = test.compare.attr("comparison_predicate") in ("equal", "not_equal")
    others = [op for op in parts.tests if op is not test.compare] if len(parts.tests) > 1 else []
    if (parts.early or others) and (
        test.unsigned or test.by < 0 or unlike
    ):  # which may never be left by its own test
        return None
    if others and (test.once or entered is not None):  # the first iteration is not tested
        return None
    leaving: list[tuple[Op | None, bool]] = [(op, parts.negated) for op in others]
    leaving += [(branch.operands[0].op, side == 0) for branch, side in parts.early]
    for compare, negated in leaving:
        bump = step_of(result)
        if compare is None or compare.attr("comparison_predicate") in ("equal", "not_equal"):
            return None
        early = _test(loop, compare, negated, result.current, body.args[index], bump)
        if early is None or early.unsigned or early.by < 0:
            return None
        result.early.append(early)
    return result if _leaves_cleanly(result, body) else None


def step_of(found: Counted) -> Op:
    """The op that makes the next index."""
    if found.steps_first and found.chosen is not None:
        bump = _ops(found.chosen, 1)[-1].operands[0].op
        assert bump is not None
        return bump
    bump = found.body.jump.operands[found.index].op
    assert bump is not None
    return bump


def body_of(loop: Op) -> Body | None:
    """The parts of a loop that is left in one place, by a branch in front of its work."""
    ops = loop.regions[0].block.ops
    last = ops[-1].spec.name
    if last == "break" and len(ops) > 1 and ops[-2].spec.name == "if":
        branch = ops[-2]
        sides = [_ops(branch, 0), _ops(branch, 1)]
        for going in (0, 1):
            inside, other = sides[going], sides[1 - going]
            if inside and inside[-1].spec.name == "continue" and _only_yields(other):
                early = early_leaves(inside[:-1], loop)
                if early is None:
                    return None
                return Body(ops[:-2], branch, inside[:-1], inside[-1], ops[-1], going, going == 1, *early)
        return None
    if last != "continue":
        return None
    for k, branch in enumerate(ops):
        if branch.spec.name == "if" and jumps([branch], loop):
            sides = [_ops(branch, 0), _ops(branch, 1)]
            for leaving in (0, 1):
                inside = sides[leaving]
                if [op.spec.name for op in inside] == ["break"] and _only_yields(sides[1 - leaving]):
                    work = ops[k + 1 : -1]
                    early = early_leaves(work, loop)
                    if early is None:
                        return None
                    return Body(ops[:k], branch, work, ops[-1], inside[0], leaving, leaving == 0, *early)
            return None
    return None


def all_of(condition: Value, negated: bool) -> tuple[list[Op], list[Op]]:
    """The ops of which each has to go on, and the branches that ask for one behind another: `%i < %n && %i < %m`, or, where the
    condition leaves, `||`. One op for a condition that is made otherwise."""
    tests: list[Op] = []
    shorts: list[Op] = []
    work = [condition]
    while work:
        value = work.pop()
        op = value.op
        if op is None or len(op.results) != 1 or len(value.uses) != 1:
            return [condition.op], []  # type: ignore[list-item]
        if op.spec.name == ("ori" if negated else "andi"):
            work += reversed(op.operands)
        elif op.spec.name == "if":
            asked, given = (_ops(op, 1), _ops(op, 0)) if negated else (_ops(op, 0), _ops(op, 1))
            for side in (asked, given):
                if (
                    not side
                    or side[-1].spec.name != "yield"
                    or not all(movable(inner) for inner in side[:-1])
                ):
                    return [condition.op], []  # type: ignore[list-item]
            if constant_int(given[-1].operands[0]) not in ((1, -1) if negated else (0,)):
                return [condition.op], []  # type: ignore[list-item]
            shorts.append(op)
            work += (asked[-1].operands[0], op.operands[0])
        else:
            tests.append(op)
    return tests, shorts


def _ops(branch: Op, k: int) -> list[Op]:
    return branch.regions[k].block.ops if branch.regions[k].blocks else []


def _only_yields(ops: list[Op]) -> bool:
    return not ops or [op.spec.name for op in ops] == ["yield"]


def jumps(ops: list[Op], loop: Op) -> bool:
    """Whether one of the ops leaves the loop, or an iteration of it."""
    for op in ops:
        for inner in op.walk():
            name = inner.spec.name
            if name == "return":
                return True
            if name in ("break", "continue"):
                if owner_of(inner) is loop:
                    return True
    return False


def early_leaves(ops: list[Op], loop: Op) -> tuple[list[tuple[Op, int]], list[Op]] | None:
    """(the branches that leave a loop before anything is done, each with its region that does; the jumps that end an iteration);
    None where another op leaves it."""
    found: list[tuple[Op, int]] = []
    skips: list[Op] = []
    quiet = True  # nothing in front of an op has an effect
    for op in ops:
        if jumps([op], loop):
            ends = skips_of(op, loop)
            if ends:
                skips += ends
                quiet = False
                continue
            sides = [_ops(op, k) for k in range(len(op.regions))]
            names = [[inner.spec.name for inner in side] for side in sides]
            if not quiet or op.spec.name != "if" or ["break"] not in names:
                return None
            leaving = names.index(["break"])
            if not _only_yields(sides[1 - leaving]):
                return None
            found.append((op, leaving))
        else:
            quiet = quiet and without_effect(op)
    return found, skips


def skips_of(branch: Op, loop: Op) -> list[Op]:
    """The jumps of a branch to the next iteration; none where it leaves the loop, too."""
    found = []
    for op in branch.walk():
        if op.spec.name in ("break", "continue", "return"):
            if op.spec.name == "continue" and owner_of(op) is loop:
                found.append(op)
            elif jumps([op], loop):
                return []
    return found


def owner_of(jump: Op) -> Op | None:
    """The loop of a jump."""
    owner = jump.parent
    while owner is not None and owner.spec.name == "if":
        owner = owner.parent
    return owner


def flag_of(loop: Op, parts: Body, chosen: Op) -> int | None:
    """Which argument tells `chosen` that the loop goes round for the first time."""
    body = loop.regions[0].block
    if any(len(_ops(chosen, k)) == 0 for k in (0, 1)):
        return None
    value = truth_of(chosen.operands[0])
    first = position(body, value)
    if first is None or value is None or constant_int(loop.operands[first]) in (None, 0):
        return None
    if constant_int(parts.jump.operands[first]) != 0:
        return None
    used = {op for op, _ in value.uses}
    return first if used <= {chosen.operands[0].op, parts.jump, parts.leave} else None


def _chosen_index(loop: Op, parts: Body, chosen: Op) -> tuple[int, Test] | None:
    """`if first { yield %i } else { yield %i + step }`: the index of this iteration, which is tested behind it; or, as
    `do .. while (--i > n)` is left, `if first { yield %i, true } else { %j = %i + step; yield %j, %j > %n }`."""
    body = loop.regions[0].block
    start = _ops(chosen, 0)
    again = [
        op for op in _ops(chosen, 1) if not (movable(op) and all(invariant(r, loop) for r in op.results))
    ]
    once = len(chosen.results) == 2
    names = [op.spec.name for op in again]
    if [op.spec.name for op in start] != ["yield"] or [*names[:1], names[-1]] not in STEPS:
        return None
    index = position(body, start[0].operands[0])
    bump = again[0]
    if (
        index is None
        or again[-1].operands[0] is not bump.result
        or parts.jump.operands[index] is not chosen.results[0]
    ):
        return None
    if {op for op, _ in body.args[index].uses} != {bump, start[0]}:
        return None
    compare: Op | None = parts.tests[0]
    current = chosen.results[0]
    if once:
        go = chosen.results[1]
        if compare is not chosen or parts.negated or {op for op, _ in go.uses} != {parts.branch}:
            return None
        if not constant_int(start[0].operands[1]) or not all(movable(op) for op in again[1:-1]):
            return None
        compare, current = again[-1].operands[1].op, bump.result
        if compare is None or compare.block is not bump.block:
            return None
    elif len(again) != 2:
        return None
    test = _test(loop, compare, parts.negated, current, body.args[index], bump, once)
    return None if test is None else (index, test)


def _plain_index(loop: Op, parts: Body, chosen: Op | None) -> tuple[int, Test] | None:
    """An argument that is held against a bound, at once or (`chosen`) from the second time on, and goes on by a step."""
    body = loop.regions[0].block
    compare: Op | None = parts.tests[0]
    negated = parts.negated
    if chosen is not None:  # `if first { yield true } else { yield %i < %n }`
        start, again = _ops(chosen, 0), _ops(chosen, 1)
        if compare is not chosen or negated or [op.spec.name for op in start] != ["yield"]:
            return None
        if [op.spec.name for op in again[-2:]] != ["cmpi", "yield"] or not all(
            movable(op) for op in again[:-1]
        ):
            return None
        if again[-1].operands[0] is not again[-2].result:
            return None
        if not constant_int(start[0].operands[0]):
            return None
        compare = again[-2]
    if compare is None or compare.spec.name != "cmpi":
        return None
    for side in compare.operands:
        value = unwound(side)[0]
        index = position(body, value)
        if index is None:
            continue
        bump = parts.jump.operands[index].op
        if bump is not None and bump.spec.name in ("addi", "subi") and not is_outside(bump.result, loop):
            test = _test(loop, compare, negated, value, value, bump, chosen is not None)
            if test is not None:
                return index, test
    return None


def _told_index(loop: Op, parts: Body) -> tuple[int, bool, tuple[int, Test]] | None:
    """`while (more) { work; more = ++i < n; }`: an iteration tells whether there is a next one. (the argument that does, whether
    the loop goes on where it is not zero, the index and its test)."""
    body = loop.regions[0].block
    value, goes = parts.branch.operands[0], not parts.negated
    while position(body, value) is None:
        found = asked_of(value)
        if found is None or is_outside(value, loop) or len(value.uses) != 1:
            return None
        value, goes = found[0], goes == found[1]
    flag = position(body, value)
    if flag is None or sum(user is not parts.leave for user, _ in value.uses) != 1:
        return None
    compare = bit_of(parts.jump.operands[flag]).op
    if compare is None or is_outside(compare.result, loop):
        return None
    for index, following in enumerate(parts.jump.operands):
        bump = following.op
        if bump is None or bump.spec.name not in ("addi", "subi") or is_outside(following, loop):
            continue
        test = _test(loop, compare, not goes, following, body.args[index], bump, True)
        if test is not None:
            if _tested_first(loop.operands[flag], loop.operands[index], test, goes):
                test.once = False
            return flag, goes, (index, test)
    return None


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


def _test(
    loop: Op,
    compare: Op | None,
    negated: bool,
    current: Value,
    carried: Value,
    bump: Op,
    once: bool = False,
) -> Test | None:
    """How the index is tested; None where a `for` would not go round as often."""
    if compare is None or compare.spec.name != "cmpi":
        return None
    tested = [unwound(v, current) for v in compare.operands]
    side = next((k for k in (0, 1) if tested[k][0] is current), None)
    if side is None:
        return None
    steps, flagged = tested[side][1:]
    predicate, bound = compare.attr("comparison_predicate"), compare.operands[1 - side]
    if side == 1:
        predicate = SWAPPED[predicate]
    if negated:
        predicate = NEGATED[predicate]
    if carried not in bump.operands or not invariant(bound, loop):
        return None
    step = bump.operands[1 - bump.operands.index(carried)]
    by = constant_int(step)
    if bump.spec.name == "subi":
        if by is None or by < 0 or carried is not bump.operands[0]:
            return None
        by = -by
    if by == 0 or not invariant(step, loop):
        return None
    signed = compare.attr("signedness") == "signed"
    safe = signed and bump.attr("overflow") in NO_SIGNED_WRAP
    if by is None:  # below 1 the index never gets to the bound, or overflows
        blocks = signed and not steps and predicate == "less_than" and _is_number_of_blocks(step)
        if blocks or (safe and predicate in ("less_than", "less_than_or_equal")):
            return Test(compare, predicate, False, bound, step, 1, once, steps, True)
        return None
    start = constant_int(loop.operands[position(loop.regions[0].block, carried) or 0])
    if by > 0:
        unsigned = not signed
        if not safe and (by > 1 or once) and bound.type.elem.bits < SELDOM:  # type: ignore[attr-defined]
            return None
        if steps and not (safe and flagged and predicate != "not_equal"):
            ends = signed and not once and ends_before_wrapping(start, by, steps, bound.type.elem.bits)  # type: ignore[attr-defined]
            if not (ends and predicate in ("less_than", "less_than_or_equal")):
                return None
            assert start is not None
            return Test(compare, predicate, False, bound, step, by, once, steps, wraps=(start, by))
        if predicate == "not_equal" and by == 1 and (safe or start == 0 and not once):
            predicate, unsigned = "less_than", not safe  # it gets there, or the index overflows
        if predicate == "less_than" or predicate == "less_than_or_equal" and safe:
            return Test(compare, predicate, unsigned, bound, step, by, once, steps)
        return None
    if not signed or steps or (once and not safe):
        return None
    if predicate == "not_equal" and by == -1 and safe:
        predicate = "greater_than"
    if not safe:  # an index that is tested is not below its bound
        least, bits = constant_int(bound), bound.type.elem.bits  # type: ignore[attr-defined]
        if least is None or least + by < -1 << (bits - 1):
            return None
    if predicate in ("greater_than", "greater_than_or_equal"):
        return Test(compare, predicate, True, bound, step, by, once, steps)
    return None


def _is_number_of_blocks(step: Value) -> bool:
    """Whether a step is as many as the grid has blocks, in 32 bits: an index that steps over its bound then does not wrap, but
    for a bound that nobody gets near."""
    return step.op is not None and step.op.spec.name == "get_num_tile_blocks"


def is_done(loop: Op) -> bool:
    """Whether a `for` starts at the greater one of its upper bound and something."""
    lower, upper = loop.operands[:2]
    signed = "unsigned" if loop.attr("unsignedCmp") else "signed"
    start = lower.op
    if start is None or start.spec.name != "maxi" or start.attr("signedness") != signed:
        return False
    return upper in start.operands


def _leaves_cleanly(found: Counted, body: Block) -> bool:
    """Whether what the loop leaves with is there behind a `for`: carried values, those from outside, and the index."""
    for number, (result, value) in enumerate(zip(found.loop.results, found.body.leave.operands)):
        value = found.body.passed(value)
        for branch, side in found.body.early:
            if result.uses and found.body.passed(_ops(branch, side)[0].operands[number]) is not value:
                return False
        if value is found.current and not found.test.unknown:
            continue
        if (
            result.uses
            and not is_outside(value, found.loop)
            and (value.op is not None or position(body, value) in (found.index, found.flag))
        ):
            return False
    return True


def same(one: Value, other: Value) -> bool:
    """Whether two values are known to be one number."""
    return one is other or constant_int(one) is not None and constant_int(one) == constant_int(other)


def position(body: Block, value: Value | None) -> int | None:
    """Which argument of a body a value is."""
    return value.index if value is not None and value.owner is body else None


def truth_of(value: Value) -> Value | None:
    """The value that a comparison holds against zero."""
    op = value.op
    if op is None or op.spec.name != "cmpi" or op.attr("comparison_predicate") != "not_equal":
        return None
    return op.operands[0] if constant_int(op.operands[1]) == 0 else None
