"""TileAALeaveOutSteps: loops whose loads and products stand behind a condition go from one iteration that has work to the next.

Before: `for %k = %lo to %hi iter(%s) { %c = .. %mask[%k] ..; %r = if %c { load, load, mma } else { %s }; continue %r }`.
After:  `%n = for %k = %lo to %hi iter(%n = 0) { %c = .. %mask[%k] ..; continue %n + %c }`, `%first = search(%lo)` and
        `for %i = 0 to %n iter(%s, %k = %first) { load, load, mma; continue %r, search(%k + 1) }`, where
        `search(%x) = loop iter(%k = %x) { if %k == %hi or .. %mask[%k] .. { break %k }; continue %k + 1 }`.

Loads in front of the branch that it alone uses move into it first (`load_in_branch.py`).

The new loop has nothing in a branch, so that its copies run ahead: the search is as many iterations ahead as they are
(`passes/tileas/pipeline_loop.py`). Which loops: `schedule/left_out.py`; what ends iterations early is an `if` first
(`early_continue.py`). Where the upper bound is reached, the search stays.

Tokens that the loop hands on for what is behind it become one, of all that was read and written, as the count of the iterations
has read all conditions before.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.clone import clone_into, clone_op
from tileiras.compiler.ir.core import Block, Op, Region, Value
from tileiras.compiler.ir.dense import constant_bytes
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.types import TOKEN, Dense, DivBy, TileType
from tileiras.compiler.passes.tileaa.facts import facts_of
from tileiras.compiler.schedule.candidates import PLAIN_LOADS, SEARCH
from tileiras.compiler.schedule.left_out import Work, blocks_of, branches_with_work, left_out, say

from .early_continue import ask_at_once, join, keep_tokens
from .load_in_branch import load_in_branch
from .maker import FLAG, Maker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class LeaveOutSteps(Pass):
    NAME = "TileAALeaveOutSteps"
    SUMMARY = "Go from one iteration that has work to the next where a condition leaves others out"
    """
    does: loops whose loads and products stand behind an `if` count the iterations that have work and look for the next
      of them beforehand
    without: loads in the `if` do not run ahead
    acts: left_out on sm_80
    """
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        from tileiras.compiler.target import sm

        if context.target is None or not context.target.has(sm.CP_ASYNC):
            return True
        for loop in [op for op in func.walk() if op.spec.name == "for"]:
            join(loop)
            load_in_branch(loop)
            branches = branches_with_work(loop)
            for branch in branches:
                ask_at_once(branch.operands[0], loop)
            if branches:
                keep_tokens(loop)
            found = left_out(loop)
            if found is not None:
                say(found, loop, context)
            if isinstance(found, Work):
                divisor = context.analyses.get(facts_of, func).divisor(loop.regions[0].block.args[0])
                Steps(found, divisor).rewrite()
                context.analyses.drop()
        return True


class Steps(Maker):
    """The rewriting of one loop. `divisor`: what divides its counter."""

    def __init__(self, work: Work, divisor: int) -> None:
        super().__init__(work.loop)
        self.work = work
        self.body = work.loop.regions[0].block
        self.divisor = divisor
        self.lower, self.upper, self.step = work.loop.operands[:3]
        self.type = self.lower.type
        self.signedness = "unsigned" if work.loop.attr("unsignedCmp") else "signed"
        self.seen = [op.results[0] for op in work.seen]
        self.asked: Value | None = None  # token of the count, where tokens leave the loop

    # ---- making ops
    def number(self, block: Block, type: Any, value: int) -> Value:
        data = value.to_bytes(constant_bytes(type.elem), "little")
        return self.make(block, "constant", (), type, {"value": Dense(TileType(type.elem, ()), data)})

    # ---- parts
    def given(self, counter: Value, stepped: list[Value]) -> dict[Value, Value]:
        """What stands for the loop's arguments in another one; what the branch changes, a test does not need."""
        args = {self.body.args[n + 1]: value for n, value in zip(self.work.stepped, stepped)}
        return {self.body.args[0]: counter, **args}

    def test(
        self, block: Block, counter: Value, stepped: list[Value], ordered: bool = False
    ) -> tuple[Value, list[Value]]:
        """Whether an iteration has work, and what the work needs of what was loaded to know that. `ordered`: with the tokens of
        loads in branches."""
        values = self.given(counter, stepped)
        for op in self.work.test:
            made = block.append(clone_op(op, values))
            if not ordered and op.regions:
                unordered(made)
        condition = self.work.branch.operands[0]
        has = values.get(condition, condition)
        if self.work.side:
            has = self.make(block, "xori", (has, self.number(block, FLAG, 1)), FLAG)
        return has, [values[v] for v in self.seen]

    def following(self, block: Block, counter: Value, stepped: list[Value]) -> list[Value]:
        """The values of the next iteration that change in every one."""
        values = self.given(counter, stepped)
        clone_into(block, self.work.steps, values)
        ends = [self.body.ops[-1].operands[n] for n in self.work.stepped]
        return [values.get(v, v) for v in ends]

    def loop_of(
        self,
        name: str,
        bounds: list[Value],
        first: list[Value],
        attrs: dict[str, Any],
        fill: Callable[[Block], None],
    ) -> Op:
        """A loop that carries values from `first` on."""
        block = Block()
        if bounds:
            block.add_arg(bounds[0].type)
        for value in first:
            block.add_arg(value.type)
        fill(block)
        types = [value.type for value in first]
        segments = (*(1 for _ in bounds), len(first))
        return create(
            tileaa.BY_NAME[name], [*bounds, *first], types, attrs, (Region([block]),), self.loop.loc, segments
        )

    def count(self, before: Block) -> Value:
        """How many iterations have work."""
        leaving = [self.make(before, "make_token", (), TOKEN)] if self.work.leaving else []

        def fill(block: Block) -> None:
            counter, number, *stepped = block.args
            tokens = [stepped.pop() for _ in leaving]
            has, _ = self.test(block, counter, stepped, bool(tokens))
            one = self.make(block, "exti", (has,), self.type, {"signedness": "unsigned"})
            more = self.make(block, "addi", (number, one), self.type, {"overflow": "none"})
            loads = [
                op.results[1]
                for op in block.ops
                if op.spec.name in PLAIN_LOADS or op.regions and len(op.results) > 1
            ]
            joined = [self.joined(block, [token, *loads]) for token in tokens]
            self.end(block, "continue", [more, *self.following(block, counter, stepped), *joined])

        first = [self.number(before, self.type, 0), *self.begin(), *leaving]
        attrs = dict(self.loop.attrs)
        made = before.append(self.loop_of("for", [self.lower, self.upper, self.step], first, attrs, fill))
        if leaving:
            self.asked = made.results[-1]
        return made.results[0]

    def begin(self) -> list[Value]:
        return [self.loop.operands[3 + n] for n in self.work.stepped]

    def search(self, block: Block, counter: Value, stepped: list[Value], seen: list[Value]) -> list[Value]:
        """The next iteration that has work, this one first: its counter, what is stepped, and what was loaded to know."""
        count = len(stepped)

        def fill(inner: Block) -> None:
            counter, stepped, seen = inner.args[0], inner.args[1 : 1 + count], inner.args[1 + count :]
            runs = self.compare(inner, "less_than", counter, self.upper, self.signedness)
            then, other, leave = Block(), Block(), Block()
            has, loaded = self.test(then, counter, stepped)
            self.end(then, "yield", [has, *loaded])
            self.end(other, "yield", [self.number(other, FLAG, 1), *seen])
            types = [FLAG, *(v.type for v in seen)]
            regions = (Region([then]), Region([other]))
            ends, *seen = inner.append(
                create(tileaa.BY_NAME["if"], (runs,), types, {}, regions, self.loop.loc)
            ).results
            self.end(leave, "break", [counter, *stepped, *seen])
            regions = (Region([leave]), Region())
            inner.append(create(tileaa.BY_NAME["if"], (ends,), (), {}, regions, self.loop.loc))
            next = self.following(inner, counter, stepped)
            self.end(inner, "continue", [self.beyond(inner, counter, self.upper, self.step), *next, *seen])

        made = self.loop_of("loop", [], [counter, *stepped, *seen], {SEARCH: True}, fill)
        return block.append(made).results

    # ---- the loop
    def rewrite(self) -> None:
        work, loop = self.work, self.loop
        before = Block()
        number = self.count(before)
        start = self.make(
            before, "mini", (self.lower, self.upper), self.type, {"signedness": self.signedness}
        )
        nothing = [self.number(before, v.type, 0) for v in self.seen]
        counter, *first = self.search(before, start, self.begin(), nothing)
        stepped = dict(zip(work.stepped, first))
        carried = [stepped.get(n, value) for n, value in enumerate(loop.operands[3:])]
        zero, one = self.number(before, self.type, 0), self.number(before, self.type, 1)
        carried += [counter, *first[len(work.stepped) :]]
        if self.asked is not None:
            carried.append(self.asked)
        attrs = dict(loop.attrs)
        if self.type.elem.bits < 32:  # an i8 counts to 127, and from -128 on there are 255 iterations
            attrs["unsignedCmp"] = True
        made = self.loop_of("for", [zero, number, one], carried, attrs, self.fill)
        before.append(made)
        leaves: dict[int, Value] = {}
        if self.asked is not None:
            given = [value for value in loop.operands[3:] if value.type is TOKEN]
            token = self.joined(before, [made.results[-1], *given])
            leaves = {n: token for n, old in enumerate(loop.results) if old.type is TOKEN}
        block = loop.block
        assert block is not None
        for op in list(before.ops):
            before.ops.remove(op)
            block.insert_before(loop, op)
        for n, (old, new) in enumerate(zip(loop.results, made.results)):
            old.replace_all_uses_with(leaves.get(n, new))
        loop.erase()

    def fill(self, block: Block) -> None:
        """The body: what stood in the branch, and the search for the next iteration."""
        work, body = self.work, self.body
        count = len(body.args)
        counter, seen = block.args[count], block.args[count + 1 : count + 1 + len(self.seen)]
        values: dict[Value, Value] = dict(zip(body.args[1:], block.args[1:]))
        values.update(zip(self.seen, seen))
        known = counter
        if self.divisor > 1:
            known = self.make(
                block, "assume", (counter,), self.type, {"predicate": DivBy(self.divisor, None, None)}
            )
        values[body.args[0]] = known
        gone = {op for op in work.test if op not in work.shared or op in work.seen}
        if self.asked is not None:
            gone |= self.without_order(values)
        for op in body.ops[:-1]:
            if op is work.branch:
                inside = blocks_of(op)[work.side]
                clone_into(block, [o for o in inside[:-1] if o not in gone], values)
                values.update(zip(op.results, [values.get(v, v) for v in inside[-1].operands]))
            elif op not in gone:
                clone_into(block, [op], values)
        now = [block.args[n + 1] for n in work.stepped]
        order = []
        if self.asked is not None:
            made = [r for op in block.ops for r in op.results if r.type is TOKEN]
            order.append(self.joined(block, [block.args[-1], *made]))
        found = self.search(
            block,
            self.beyond(block, counter, self.upper, self.step),
            self.following(block, counter, now),
            seen,
        )
        ends = [values.get(v, v) for v in body.ops[-1].operands]
        for n, value in zip(work.stepped, found[1:]):
            ends[n] = value
        if self.asked is not None:
            ends = [block.args[n + 1] if v.type is TOKEN else v for n, v in enumerate(ends)]
        self.end(block, "continue", [*ends, found[0], *found[1 + len(work.stepped) :], *order])

    def without_order(self, values: dict[Value, Value]) -> set[Op]:
        """The joins of the body, which the body needs no more: nothing in it waits for what they stand for."""
        work, body = self.work, self.body
        assert self.asked is not None
        joins = [
            op for op in (*body.ops, *blocks_of(work.branch)[work.side]) if op.spec.name == "join_tokens"
        ]
        asked = [op for op in work.test if op.spec.name in PLAIN_LOADS or op.regions and len(op.results) > 1]
        values.update({arg: self.asked for arg in body.args if arg.type is TOKEN})
        values.update({op.result: self.asked for op in joins})
        values.update({op.results[1]: self.asked for op in asked})
        return set(joins)


def unordered(branch: Op) -> None:
    """Takes the tokens out of what a branch hands on, where it has a number in front of them."""
    for region in branch.regions:
        end = region.block.ops[-1]
        made = create(end.spec, end.operands[:1], (), {}, (), end.loc, (1,))
        region.block.insert_before(end, made)
        end.erase()
    del branch.results[1:]
