"""TileAALoopsToFor: `loop`s that count are written as `for`, so that they can run ahead.

Tile C++ writes `for (i = lo; i < n; ++i)` as a loop that knows whether it is the first time round:

    loop iter(%acc = %zero, %i = %lo, %first = 1) {            for %j = %lo to %n step 1 iter(%acc = %zero) {
      %j = if %first { yield %i } else { yield %i + 1 }          .. %j ..
      if %j < %n { .. continue %next, %j, 0 }                    continue %next
      break %acc                                               }
    }

`while`, `do .. while`, a `break` in front of the work, counting down and comparisons of every kind come in other shapes. Each is
brought to the same one first: an index that goes up by a step, held against a bound that the loop does not change, before
anything is done. Only where nothing else leaves the loop. What the body computes from values outside of it alone moves in
front. An index that is read behind its loop, as by the next of two loops that share it, is computed from the bounds: with a
step of 1 it is the greater one of the lower and the upper bound, so that a loop which goes on from there to the same bound
has nothing left to do, and goes.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Block, Op, Region, Value
from tileiras.compiler.ir.dense import constant_bytes
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.spec import NO_MEMORY_EFFECT, PURE
from tileiras.compiler.ir.types import I1, TOKEN, Dense, TensorType, TileType
from tileiras.compiler.schedule.candidates import constant_int, is_outside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Steps = tuple[tuple[str, int], ...]

SWAPPED = {
    "less_than": "greater_than", "less_than_or_equal": "greater_than_or_equal", "greater_than": "less_than",
    "greater_than_or_equal": "less_than_or_equal", "equal": "equal", "not_equal": "not_equal",
}  # fmt: skip
NEGATED = {
    "less_than": "greater_than_or_equal", "less_than_or_equal": "greater_than", "greater_than": "less_than_or_equal",
    "greater_than_or_equal": "less_than", "equal": "not_equal", "not_equal": "equal",
}  # fmt: skip
NO_SIGNED_WRAP = frozenset(("no_signed_wrap", "no_wrap"))


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
            found = counted(loop)
            if found is not None:
                found.rewrite()
        for op in list(func.walk()):
            if op.spec.name == "for" and is_done(op):
                for result, value in zip(op.results, op.operands[3:]):
                    result.replace_all_uses_with(value)
                op.erase()
        return True


class Body:
    """The parts of a loop's body around the one place where it is left.

    before: ops in front of the test, which run once more than the rest. work: those behind it, up to the jump.
    leave: the break. taken: the region of the branch that jumps. negated: whether the loop ends where the condition holds.
    """

    def __init__(
        self, before: list[Op], branch: Op, work: list[Op], jump: Op, leave: Op, taken: int, negated: bool
    ) -> None:
        self.before = before
        self.branch = branch
        self.work = work
        self.jump = jump
        self.leave = leave
        self.taken = taken
        self.negated = negated

    def passed(self, value: Value) -> Value:
        """A result of the branch as the region that does not jump has it; any other value as it is."""
        if value.op is not self.branch:
            return value
        return self.branch.regions[1 - self.taken].block.ops[-1].operands[value.index]


class Counted:
    """A loop that counts: the value that is its index in one iteration, and how that goes on."""

    def __init__(
        self, loop: Op, body: Body, index: int, flag: int | None, chosen: Op | None, test: Test
    ) -> None:
        self.loop = loop
        self.body = body
        self.index = index
        self.flag = flag  # tells whether the loop goes round for the first time
        self.chosen = chosen
        self.test = test

    @property
    def current(self) -> Value:
        """The index of an iteration."""
        if self.chosen is not None and not self.test.once:
            return self.chosen.result
        return self.loop.regions[0].block.args[self.index]

    def rewrite(self) -> None:
        loop, parts = self.loop, self.body
        block, body = loop.block, loop.regions[0].block
        assert block is not None
        hoist(loop, body)
        kept = [k for k in range(len(loop.operands)) if k not in (self.index, self.flag)]
        leaving = [parts.passed(v) for v in parts.leave.operands]
        inner = Block()
        counter = inner.add_arg(body.args[self.index].type)
        lower, upper, step, unsigned = self.test.bounds(self)
        current = self.test.index(self, counter, inner)
        behind: dict[int, Value] = {}
        for result, value in zip(loop.results, leaving):
            if value is self.current and result.uses and not behind:
                behind[id(value)] = self.test.behind(self, lower, upper)
        args = [inner.add_arg(body.args[k].type, body.args[k].name) for k in kept]
        gone = {self.chosen} | {
            op for op in parts.before if self.flag is not None and body.args[self.flag] in op.operands
        }
        moved = [op for op in (*parts.before, *parts.work) if op not in gone and op.block is not block]
        self.current.replace_all_uses_with(current)
        for k, arg in zip(kept, args):
            body.args[k].replace_all_uses_with(arg)
        for op in moved:
            op.block.ops.remove(op)  # type: ignore[union-attr]
            inner.append(op)
        for result in parts.branch.results:
            result.replace_all_uses_with(parts.passed(result))
        following = [parts.jump.operands[k] for k in kept]
        inner.append(create(tileaa.BY_NAME["continue"], following, (), {}, (), parts.jump.loc, (len(kept),)))
        carried = [loop.operands[k] for k in kept]
        types = [body.args[k].type for k in kept]
        attrs = {"unsignedCmp": True} if unsigned else {}
        operands = [lower, upper, step, *carried]
        new = create(
            tileaa.BY_NAME["for"], operands, types, attrs, (Region([inner]),), loop.loc, (1, 1, 1, len(kept))
        )
        block.insert_before(loop, new)
        hoist(new, inner)
        at = {id(body.args[k]): new.results[i] for i, k in enumerate(kept)} | behind
        for old, value in zip(loop.results, leaving):
            old.replace_all_uses_with(at.get(id(value), value))
        loop.erase()
        test = self.test.compare
        if test.block is not None and not test.result.uses:
            test.erase()


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
            trips = put("addi", (far, put.number(start, -self.by - 1)), start.type) if self.by < -1 else far
            if self.by < -1:
                attrs = {"signedness": "unsigned", "rounding": "zero"}
                trips = put("divi", (trips, put.number(start, -self.by)), start.type, attrs)
            zero = put.number(start, 0)
            return zero, put("select", (holds, trips, zero), start.type), put.number(start, 1), True
        for name, by in self.steps:
            if name == "muli":
                towards = "positive_inf" if self.predicate == "less_than" else "negative_inf"
                attrs = {"signedness": "signed", "rounding": towards}
                bound = put("divi", (bound, put.number(start, by)), start.type, attrs)
            else:
                least = by - (1 << (start.type.elem.bits - 1))  # type: ignore[attr-defined]
                bound = put("maxi", (bound, put.number(start, least)), start.type, {"signedness": "signed"})
                bound = put("subi", (bound, put.number(start, by)), start.type)
        if self.predicate == "less_than_or_equal":
            bound = put("addi", (bound, put.number(start, 1)), start.type)
        if self.once:
            least = put("addi", (start, put.number(start, 1)), start.type)
            sign = {"signedness": "unsigned" if self.unsigned else "signed"}
            bound = put("maxi", (bound, least), start.type, sign)
        step = self.step
        if self.unknown:
            step = put("maxi", (step, put.number(start, 1)), start.type, {"signedness": "signed"})
        return start, bound, step, self.unsigned

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


class Before:
    """Makes scalars in front of an op."""

    def __init__(self, anchor: Op) -> None:
        self.anchor = anchor

    def __call__(
        self, name: str, operands: Iterable[Value], type: Any, attrs: dict[str, Any] | None = None
    ) -> Value:
        block = self.anchor.block
        assert block is not None
        made = create(tileaa.BY_NAME[name], operands, (type,), attrs or {}, (), self.anchor.loc)
        return block.insert_before(self.anchor, made).result

    def number(self, like: Value, value: int) -> Value:
        """A constant of the type of another scalar."""
        elem: Any = like.type.elem  # type: ignore[attr-defined]
        data = (value % (1 << elem.bits)).to_bytes(constant_bytes(elem), "little")
        return self("constant", (), like.type, {"value": Dense(TileType(elem, ()), data)})


def hoist(loop: Op, body: Block) -> None:
    """Moves pure ops that use nothing of the loop in front of it."""
    assert loop.block is not None
    for op in list(body.ops):
        if not movable(op):
            continue
        if all(is_outside(v, loop) for v in op.operands):
            body.ops.remove(op)
            loop.block.insert_before(loop, op)


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
    if parts is None:
        return None
    body = loop.regions[0].block
    choices = [op for op in parts.before if op.regions]
    if any(op.spec.name != "if" for op in choices):
        return None
    if any(not movable(op) for op in parts.before if op not in choices) or len(choices) > 1:
        return None
    flag, chosen = None, None
    if choices:
        chosen = choices[0]
        flag = flag_of(loop, parts, chosen)
        if flag is None:
            return None
    found = _chosen_index(loop, parts, chosen) if chosen is not None else None
    if found is None:
        found = _plain_index(loop, parts, chosen)
    if found is None:
        return None
    index, test = found
    result = Counted(loop, parts, index, flag, chosen, test)
    return result if _leaves_cleanly(result, body) else None


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
                if jumps(inside[:-1], loop):
                    return None
                return Body(ops[:-2], branch, inside[:-1], inside[-1], ops[-1], going, going == 1)
        return None
    if last != "continue":
        return None
    for k, branch in enumerate(ops):
        if branch.spec.name == "if" and jumps([branch], loop):
            sides = [_ops(branch, 0), _ops(branch, 1)]
            for leaving in (0, 1):
                inside = sides[leaving]
                if [op.spec.name for op in inside] == ["break"] and _only_yields(sides[1 - leaving]):
                    if jumps(ops[k + 1 : -1], loop):
                        return None
                    return Body(ops[:k], branch, ops[k + 1 : -1], ops[-1], inside[0], leaving, leaving == 0)
            return None
    return None


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
                owner = inner.parent
                while owner is not None and owner.spec.name == "if":
                    owner = owner.parent
                if owner is loop:
                    return True
    return False


def flag_of(loop: Op, parts: Body, chosen: Op) -> int | None:
    """Which argument tells `chosen` that the loop goes round for the first time."""
    body = loop.regions[0].block
    if len(chosen.results) != 1 or any(len(_ops(chosen, k)) == 0 for k in (0, 1)):
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
    """`if first { yield %i } else { yield %i + step }`: the index of this iteration, which is tested behind it."""
    body = loop.regions[0].block
    start, again = _ops(chosen, 0), _ops(chosen, 1)
    if [op.spec.name for op in start] != ["yield"] or [op.spec.name for op in again] != ["addi", "yield"]:
        return None
    index = position(body, start[0].operands[0])
    bump = again[0]
    if (
        index is None
        or again[1].operands[0] is not bump.result
        or parts.jump.operands[index] is not chosen.result
    ):
        return None
    if {op for op, _ in body.args[index].uses} != {bump, start[0]}:
        return None
    test = _test(
        loop, parts, parts.branch.operands[0].op, parts.negated, chosen.result, body.args[index], bump
    )
    return None if test is None else (index, test)


def _plain_index(loop: Op, parts: Body, chosen: Op | None) -> tuple[int, Test] | None:
    """An argument that is held against a bound, at once or (`chosen`) from the second time on, and goes on by a step."""
    body = loop.regions[0].block
    compare, negated = parts.branch.operands[0].op, parts.negated
    if chosen is not None:  # `if first { yield true } else { yield %i < %n }`
        start, again = _ops(chosen, 0), _ops(chosen, 1)
        if compare is not chosen or negated or [op.spec.name for op in start] != ["yield"]:
            return None
        if [op.spec.name for op in again] != ["cmpi", "yield"] or again[1].operands[0] is not again[0].result:
            return None
        if not constant_int(start[0].operands[0]):
            return None
        compare = again[0]
    if compare is None or compare.spec.name != "cmpi":
        return None
    for side in compare.operands:
        value = unwound(side)[0]
        index = position(body, value)
        if index is None:
            continue
        bump = parts.jump.operands[index].op
        if bump is not None and bump.spec.name == "addi" and not is_outside(bump.result, loop):
            test = _test(loop, parts, compare, negated, value, value, bump, chosen is not None)
            if test is not None:
                return index, test
    return None


def _test(
    loop: Op,
    parts: Body,
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
    tested = [unwound(v) for v in compare.operands]
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
    if by == 0 or not invariant(step, loop):
        return None
    signed = compare.attr("signedness") == "signed"
    safe = signed and bump.attr("overflow") in NO_SIGNED_WRAP
    if by is None:  # below 1 the index never gets to the bound, or overflows
        if safe and predicate in ("less_than", "less_than_or_equal"):
            return Test(compare, predicate, False, bound, step, 1, once, steps, True)
        return None
    start = constant_int(loop.operands[position(loop.regions[0].block, carried) or 0])
    if by > 0:
        unsigned = not signed
        if steps and not (safe and flagged and predicate != "not_equal"):
            ends = signed and not once and ends_before_wrapping(start, by, steps, bound.type.elem.bits)  # type: ignore[attr-defined]
            if not (ends and predicate in ("less_than", "less_than_or_equal")):
                return None
            return Test(compare, predicate, False, bound, step, by, once, steps)
        if predicate == "not_equal" and by == 1 and (safe or start == 0 and not once):
            predicate, unsigned = "less_than", not safe  # it gets there, or the index overflows
        if predicate == "less_than" or predicate == "less_than_or_equal" and safe:
            return Test(compare, predicate, unsigned, bound, step, by, once, steps)
        return None
    if not safe or once or steps:
        return None
    if predicate == "not_equal" and by == -1:
        predicate = "greater_than"
    if predicate in ("greater_than", "greater_than_or_equal"):
        return Test(compare, predicate, True, bound, step, by, once, steps)
    return None


def unwound(value: Value) -> tuple[Value, Steps, bool]:
    """(%i, what became of it, whether it is said not to overflow) for %i * 64 or %i + 64; the last step first."""
    steps: list[tuple[str, int]] = []
    flagged = True
    op = value.op
    while op is not None and op.spec.name in ("muli", "addi"):
        known = [constant_int(v) for v in op.operands]
        side = 1 if known[1] is not None else 0
        by = known[side]
        if by is None or by <= 0:
            break
        steps.append((op.spec.name, by))
        flagged = flagged and op.attr("overflow") in NO_SIGNED_WRAP
        value = op.operands[1 - side]
        op = value.op
    return value, tuple(steps), flagged


def ends_before_wrapping(start: int | None, by: int, steps: Steps, bits: int) -> bool:
    """Whether what is tested, as %i * 64 of an index from zero on, passes each bound before it wraps, or never: it goes up by a
    power of two from a number that is not negative, so that behind the greatest come only numbers below those that were there."""
    if start is None or start < 0:
        return False
    for name, amount in reversed(steps):
        start = start * amount if name == "muli" else start + amount
        by = by * amount if name == "muli" else by
    return start < 1 << (bits - 1) and by & (by - 1) == 0


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
    for result, value in zip(found.loop.results, found.body.leave.operands):
        value = found.body.passed(value)
        if value is found.current and not found.test.unknown:
            continue
        if (
            result.uses
            and not is_outside(value, found.loop)
            and (value.op is not None or position(body, value) in (found.index, found.flag))
        ):
            return False
    return True


def movable(op: Op) -> bool:
    """Whether an op may be computed where nobody asked for it: no effects, and no division that could fail."""
    if op.spec.is_terminator or op.regions or not op.spec.traits & (PURE | NO_MEMORY_EFFECT):
        return False
    return op.spec.name not in ("divi", "remi") or (constant_int(op.operands[1]) or 0) > 0


def position(body: Block, value: Value | None) -> int | None:
    """Which argument of a body a value is."""
    return value.index if value is not None and value.owner is body else None


def truth_of(value: Value) -> Value | None:
    """The value that a comparison holds against zero."""
    op = value.op
    if op is None or op.spec.name != "cmpi" or op.attr("comparison_predicate") != "not_equal":
        return None
    return op.operands[0] if constant_int(op.operands[1]) == 0 else None


def invariant(value: Value, loop: Op) -> bool:
    """Whether a value is made by pure ops from what is outside of a loop."""
    seen: set[Value] = set()
    work = [value]
    while work:
        value = work.pop()
        if value in seen or is_outside(value, loop):
            continue
        seen.add(value)
        if value.op is None or not movable(value.op):
            return False
        work += value.op.operands
    return True
