"""TileAALoopsToFor: `loop`s that count are written as `for`, so that they can run ahead.

Tile C++ writes `for (i = lo; i < n; ++i)` as a loop that knows whether it is the first time round:

    loop iter(%acc = %zero, %i = %lo, %first = 1) {            for %j = %lo to %n step 1 iter(%acc = %zero) {
      %j = if %first { yield %i } else { yield %i + 1 }          .. %j ..
      if %j < %n { .. continue %next, %j, 0 }                    continue %next
      break %acc                                               }
    }

`while`, `do .. while`, a `break` in front of the work, counting down and comparisons of every kind come in other shapes. Each
is brought to the same one first: an index that goes up by a step, held against a bound that the loop does not change, before
anything is done; so are flags that say whether to go on, several conditions, and several indices that step together or meet. What
leaves the loop besides, in front of its work and where the index is above a number, lowers the bound; so does a test of loaded
numbers in a loop of products, which a search in front finds to hold (`asked_ahead.py`, `nest_condition.py`). What the body
computes from values outside of it alone moves in front. An index that is read behind its loop, as by the next of two loops that
share it, is computed from the bounds: with a step of 1 it is the greater one of the lower and the upper bound, so that a loop
which goes on from there to the same bound has nothing left to do, and goes.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import diags as D
from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Block, Op, Region, Value
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.types import I1, TOKEN, TensorType
from tileiras.compiler.ir.walk import erase_unused
from tileiras.compiler.schedule.candidates import PLAIN_LOADS, constant_int, is_outside
from tileiras.compiler.target.products import PRODUCTS

from .asked_ahead import MOST, Search, asked_ahead, not_asked
from .index_bounds import Before, hoist, in_front, movable, unwound, without_effect
from .loop_body import Body, body_of, ops_of, position
from .loop_index import OWN_INDEX, Test, bit_of, chosen_index, flag_of, plain_index, test_of, told_index
from .meeting_indices import count_meeting
from .nest_condition import nest_condition
from .share_steps import share_steps
from .split_at_bound import split_at_bound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

COUNTS = frozenset(("cmpi", "addi", "subi", "continue", "break"))
# why a loop is no `for`
NO_INDEX = "its test is no comparison of an index that goes on by a number in each step"
NO_BOUND = "another test that ends it is not whether its index is above a number"
LEFT_WITH = "what it is left with is no value of a whole number of steps"


class LoopsToFor(Pass):
    NAME = "TileAALoopsToFor"
    SUMMARY = "Write loops that count as for"
    """
    does: a `loop` that counts, up or down, tested in front or behind, by a comparison of any kind, or from both ends, becomes a
      `for`; where products of it stand behind a test of its index, it becomes two
    without: stays a `loop`: not pipelined
    acts: cpp_moving_pointer on sm_80
    """
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        loops = [op for op in func.walk() if op.spec.name == "loop"]
        for loop in reversed(loops):  # inner ones first: their jumps are gone then
            nest_condition(loop)
            order_in_front(loop)
            count_plainly(loop)
            step_behind(loop)
            meets = count_meeting(loop)
            found = counted(loop)
            if isinstance(found, str) and share_steps(loop):
                meets = count_meeting(loop)
                found = counted(loop)
            if isinstance(found, str):
                if loads_tiles(loop):
                    context.remark(D.STAYS_A_LOOP, loop, reason=meets if isinstance(meets, str) else found)
                continue
            how = "its two indices go towards each other" if meets is True else "its index goes down"
            if meets is True or found.test.by < 0:
                context.remark(D.COUNTED, loop, how=how)
            if len(found.body.early) > len(found.asked):
                context.remark(D.BREAK_IS_A_BOUND, loop)
            if found.asked:
                context.remark(D.END_LOOKED_FOR, loop)
            found.rewrite()
        for op in reversed(
            [op for op in func.walk() if op.spec.name == "for"]
        ):  # those in one that goes are gone then
            if is_done(op):
                for result, value in zip(op.results, op.operands[3:]):
                    result.replace_all_uses_with(value)
                op.erase()
                continue
            split = split_at_bound(op)
            if isinstance(split, str) and split:
                context.remark(D.STAYS_ONE_LOOP, op, reason=split)
            elif split:
                context.remark(D.SPLIT_AT_BOUND, op)
        return True


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
        self.asked: list[tuple[Op, int]] = []  # what leaves the loop by a test that is asked in front of it

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

    def idle(self, k: int) -> Op | None:
        """The op by which a value goes on that nothing else uses, as an index that is computed from another one now."""
        following, arg = self.body.jump.operands[k], self.loop.regions[0].block.args[k]
        bump = following.op
        if k == self.index or bump is None or not movable(bump):
            return None
        for user, at in arg.uses:
            if user is not bump and (user is not self.body.leave or self.loop.results[at].uses):
                return None
        jumps = {self.body.jump, *self.body.skips}
        return bump if all(user in jumps and at == k for user, at in following.uses) else None

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
        idle = {k: op for k in range(len(loop.operands)) if parts.skips and (op := self.idle(k)) is not None}
        kept = [k for k in range(len(loop.operands)) if k not in (self.index, self.flag, *idle)]
        leaving = [parts.passed(v) for v in parts.leave.operands]
        ends = (
            self.following if self.behind else body.args
        )  # as they are before arguments give way to those of the `for`
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
        left = self.left
        read = any(value is left and result.uses for result, value in zip(loop.results, leaving))
        behind = {id(left): self.test.behind(self, lower, upper)} if read and not self.asked else {}
        args = [inner.add_arg(body.args[k].type, body.args[k].name) for k in kept]
        gone = {self.chosen, *idle.values(), *parts.shorts, *(branch for branch, _ in parts.early)} | {
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
        tests = [holding(new, branch.operands[0], side) for branch, side in self.asked]
        search = look_for(new, tests) if tests else None
        if read and search is not None:
            behind = {id(left): self.test.behind(self, lower, new.operands[1])}
        at = {id(ends[k]): new.results[i] for i, k in enumerate(kept)} | behind
        for old, value in zip(loop.results, leaving):
            old.replace_all_uses_with(at.get(id(value), value))
        loop.erase()
        if search is not None:
            for value in tests:
                erase_unused(value.op, without_effect)
            search.order()
        for test in (self.test, *self.early):
            for user, _ in list(test.compare.result.uses):
                erase_unused(user, movable)
        for test in (self.test, *self.early):
            if test.compare.block is not None and not test.compare.result.uses:
                test.compare.erase()


def holding(new: Op, condition: Value, side: int) -> Value:
    """What is true in a `for` where a branch takes this side."""
    if not side:
        return condition
    put = Before(new.regions[0].block.ops[-1])
    return put("xori", (condition, put.number(condition, 1)), condition.type)


def look_for(new: Op, tests: list[Value]) -> Search:
    """Ends a `for` where one of some tests of its body holds first."""
    upper = new.operands[1]
    asked = []
    for test in tests:
        ops = asked_ahead(test, new)
        assert isinstance(ops, list)  # as `asks_numbers` has seen
        asked.append((test, ops))
    search = Search(new, upper, asked)
    new.set_operand(1, Before(new)("mini", (upper, search.index), upper.type, {"signedness": "signed"}))
    return search


def asks_numbers(condition: Value, found: Counted) -> bool:
    """Whether a test in a loop of products asks for its index and numbers that are loaded in no order with its accesses alone."""
    loop = found.loop
    if not any(op.spec.name in PRODUCTS for op in found.body.work):
        return False
    work, seen = [condition], {condition}
    while work:
        value = work.pop()
        op = value.op
        if value is found.current or value.type is TOKEN or is_outside(value, loop):
            continue
        if op is None or not_asked(op, loop):
            return False
        fresh = [v for v in op.operands if v not in seen]
        seen.update(fresh)
        work += fresh
    return True


def loads_tiles(loop: Op) -> bool:
    """Whether a loop has loads of tiles, and not only in a loop of its own."""
    work = list(loop.regions[0].block.ops)
    while work:
        op = work.pop()
        if op.spec.name in PLAIN_LOADS and op.results[0].type.shape:  # type: ignore[attr-defined]
            return True
        if op.spec.name == "if":
            work += [*ops_of(op, 0), *ops_of(op, 1)]
    return False


def order_in_front(loop: Op) -> None:
    """Tokens that a branch of a loop's body chooses become one that waits for both sides, where the branch only chooses: as the
    index of the first time round comes with those of the loads of a lambda. More order than was asked for, and none that
    anything waits longer for: all of it is there before the branch."""
    for branch in list(loop.regions[0].block.ops):
        if branch.spec.name != "if" or not any(r.type is TOKEN for r in branch.results):
            continue
        sides = [ops_of(branch, k) for k in (0, 1)]
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
    `for (i = 0, k = 0; i < n; ++i, k += 64)`; in front of it where a `continue` goes on, too. Each is an argument of
    the body then, as in a `while`."""
    parts = body_of(loop)
    chosen = next((op for op in loop.regions[0].block.ops if op.regions), None)
    if isinstance(parts, str) or chosen not in parts.before or chosen in parts.shorts:
        return
    assert chosen is not None
    if len(chosen.results) < 2 or any(r.type is TOKEN or r.type.elem is I1 for r in chosen.results):  # type: ignore[attr-defined]
        return
    body = loop.regions[0].block
    if chosen.spec.name != "if" or flag_of(loop, parts, chosen) is None:
        return
    (*here, start), (*steps, again) = ops_of(chosen, 0), ops_of(chosen, 1)
    places = [position(body, value) for value in start.operands]
    if here or start.spec.name != "yield" or again.spec.name != "yield" or not all(map(movable, steps)):
        return
    jumps = (parts.jump, *parts.skips)
    if any(k is None or j.operands[k] is not r for k, r in zip(places, chosen.results) for j in jumps):
        return
    inside = {result for op in steps for result in op.results}
    for value in (*again.operands, *(v for op in steps for v in op.operands)):
        if value not in inside and not is_outside(value, loop) and position(body, value) not in places:
            return
    where = parts.behind
    for op in steps:
        chosen.regions[1].block.ops.remove(op)
        where.block.insert_before(where, op)  # type: ignore[union-attr]
    for k, value in zip(places, list(again.operands)):
        for jump in jumps:
            jump.set_operand(k, value)  # type: ignore[arg-type]
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


def counted(loop: Op) -> Counted | str:
    """What a loop counts; why it is no counting loop."""
    parts = body_of(loop)
    if isinstance(parts, str):
        return parts
    found = _counted_in_front(loop, parts)
    if not isinstance(found, str):
        return found
    behind = _counted_behind(loop, parts)
    return behind if not isinstance(behind, str) else found or behind or NO_INDEX


def _counted_behind(loop: Op, parts: Body) -> Counted | str:
    """`while (true) { work; if (++i == n) break; }`: what it leaves with is what would go on, and the first iteration is not
    tested. Why not, where it counts otherwise; nothing where it does not count so."""
    if parts.work or parts.early:
        return ""
    why = ""
    body = loop.regions[0].block
    for index, value in enumerate(parts.passed(v) for v in parts.jump.operands):
        bump = value.op
        if bump is None or bump.spec.name not in ("addi", "subi") or is_outside(value, loop):
            continue
        test = test_of(loop, parts.branch.operands[0].op, parts.negated, value, body.args[index], bump, True)
        if isinstance(test, str):
            why = why or test
            continue
        found = Counted(loop, parts, index, None, None, test, [], True)
        ends = [v for k, v in enumerate(found.following) if k != index or not test.unknown]
        left = [parts.passed(v) for v, r in zip(parts.leave.operands, loop.results) if r.uses]
        clean = all(v in ends or (is_outside(v, loop) and position(body, v) is None) for v in left)
        return found if clean else LEFT_WITH
    return why


def _counted_in_front(loop: Op, parts: Body) -> Counted | str:
    """A loop whose test stands in front of its work; why it does not count, nothing where its test is of another kind."""
    body = loop.regions[0].block
    choices = [op for op in parts.before if op.regions and op not in parts.shorts]
    for op in parts.before:
        if (
            op in choices
            and op.spec.name != "if"
            or not op.regions
            and not movable(op)
            and op.spec.name != "assume"
        ):
            return f"{op.spec.full_name} stands in front of the branch that ends it"
    if len(choices) > 1:
        return "several branches stand in front of the one that ends it"
    flag, chosen = None, None
    if choices:
        chosen = choices[0]
        flag = flag_of(loop, parts, chosen)
        if flag is None or len(chosen.results) not in (1, 2):
            return "a branch in front of the one that ends it is not about the first step"
    why = ""
    found = chosen_index(loop, parts, chosen) if chosen is not None else ""
    if isinstance(found, str):
        why = found
        found = plain_index(loop, parts, chosen)
    entered = None
    if isinstance(found, str) and chosen is None:
        why = why or found
        told = told_index(loop, parts)
        if isinstance(told, str):
            found = told
        else:
            flag, entered, found = told
    if isinstance(found, str):
        return (
            why
            or found
            or (OWN_INDEX if any(_steps_alone(skip, parts, body) for skip in parts.skips) else "")
        )
    index, test = found
    for skip in parts.skips:  # go on as the others do
        for k in (index, flag):
            if k is not None and not same(skip.operands[k], parts.jump.operands[k]):
                return OWN_INDEX
    result = Counted(loop, parts, index, flag, chosen, test, [], entered=entered)
    unlike = test.compare.attr("comparison_predicate") in ("equal", "not_equal")
    others = [op for op in parts.tests if op is not test.compare] if len(parts.tests) > 1 else []
    if (parts.early or others) and (
        test.unsigned or test.by < 0 or unlike
    ):  # which may never be left by its own test
        return "it is left by several tests, and the one of its index is unsigned, counts down or asks for one number"
    if others and (test.once or entered is not None):  # the first iteration is not tested
        return "it is left by several tests, none of which is asked in the first step"
    for op in others:
        early = _early_bound(result, op, parts.negated)
        if isinstance(early, str):
            return early
        result.early.append(early)
    for branch, side in parts.early:
        early = _early_bound(result, branch.operands[0].op, side == 0)
        if not isinstance(early, str):
            result.early.append(early)
        elif len(result.asked) < MOST and asks_numbers(branch.operands[0], result):
            result.asked.append((branch, side))
        else:
            return early
    return result if _leaves_cleanly(result, body) else LEFT_WITH


def _early_bound(found: Counted, compare: Op | None, negated: bool) -> Test | str:
    """What else leaves a loop, where that is a test of its index against a number; why it is not."""
    if compare is None or compare.attr("comparison_predicate") in ("equal", "not_equal"):
        return NO_BOUND
    arg = found.loop.regions[0].block.args[found.index]
    early = test_of(found.loop, compare, negated, found.current, arg, step_of(found))
    if isinstance(early, str):
        return early or NO_BOUND
    return NO_BOUND if early.unsigned or early.by < 0 else early


def _steps_alone(skip: Op, parts: Body, body: Block) -> bool:
    """Whether what is tested goes on to the next iteration otherwise from one place than from the end of the work."""
    compare = parts.tests[0]
    tested = [] if compare is None else [position(body, unwound(v)[0]) for v in compare.operands]
    return any(k is not None and not same(skip.operands[k], parts.jump.operands[k]) for k in tested)


def step_of(found: Counted) -> Op:
    """The op that makes the next index."""
    if found.steps_first and found.chosen is not None:
        bump = ops_of(found.chosen, 1)[-1].operands[0].op
        assert bump is not None
        return bump
    bump = found.body.jump.operands[found.index].op
    assert bump is not None
    return bump


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
            if result.type is TOKEN and (branch, side) in found.asked:
                continue  # of accesses that steps do not do which are not there: what was asked is waited for
            if result.uses and found.body.passed(ops_of(branch, side)[0].operands[number]) is not value:
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
