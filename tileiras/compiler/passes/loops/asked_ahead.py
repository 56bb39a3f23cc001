"""Where a loop will be left by a test that knows nothing of its products: looked for in front of it.

    for %k = %lo to %hi { %p = pages[%k]; if %p < 0 { break }; load, load, mma }

The test needs numbers only: of the index, of what the loop does not change, and loaded in no order with the loop's accesses. So

    %end = loop iter(%k = %lo) { if %k >= %hi or pages[%k] < 0 { break %k }; continue %k + 1 }

says how far the loop goes, and what it loads for products runs ahead. No number is loaded that the loop would not have loaded.
"""

from __future__ import annotations

import math

from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.clone import clone_into
from tileiras.compiler.ir.core import Block, Op, Region, Value
from tileiras.compiler.ir.types import I1, TOKEN, Dense, TileType
from tileiras.compiler.ir.walk import erase_unused, held_in
from tileiras.compiler.schedule.candidates import PLAIN_LOADS, SEARCH, backward, computes, ordered_in
from tileiras.compiler.target.products import PRODUCTS

from .index_bounds import without_effect
from .loop_body import owner_of
from .maker import FLAG, Maker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST = 8  # conditions that are asked, one within the other


def asked_ahead(condition: Value, loop: Op) -> list[Op] | str:
    """The ops of a `for` that its condition needs, in order; why it cannot be asked for steps that were not done, nothing where
    nobody gains by it: the loop has no products, for which loads would run ahead."""
    body = loop.regions[0].block
    if not any(op.spec.name in PRODUCTS for op in body.ops):
        return ""
    ops, args = backward([condition], body)
    if args - {0}:
        return "its end depends on what the loop carries"
    for op in ops:
        if reason := not_asked(op, loop):
            return reason
    return ops


def not_asked(op: Op, loop: Op) -> str:
    """Why an op of a loop cannot be asked in front of it."""
    if op.spec.name in PLAIN_LOADS:
        if not loads_freely(op, loop):
            return "its end is loaded in an order with accesses of the loop"
    elif op.regions or not computes(op):
        return f"its end needs {op.spec.full_name}"
    if math.prod(getattr(op.results[0].type, "shape", ())) != 1:
        return "its end looks at a tile"
    return ""


def loads_freely(op: Op, loop: Op) -> bool:
    """Whether a load waits for nothing in a loop, and nothing in it for the load: its token is joined, chosen and carried."""
    if op.attr("memory_ordering_semantics") != "weak":
        return False
    if any(v.type is TOKEN and ordered_in(v, loop) for v in op.operands):
        return False
    body = loop.regions[0].block
    work, seen = [op.results[1]], {op.results[1]}
    while work:
        for user, number in work.pop().uses:
            fresh: list[Value] = []
            if user.spec.name == "join_tokens":
                fresh = [user.result]
            elif user.spec.name == "yield" and user.parent is not None and user.parent.spec.name == "if":
                fresh = [user.parent.results[number]]
            elif user.spec.name == "continue" and owner_of(user) is loop:
                fresh = [body.args[number + (loop.spec.name == "for")]]
            elif held_in(body, user) is not None and (
                user.spec.name != "break" or owner_of(user) is not loop
            ):
                return False
            fresh = [v for v in fresh if v not in seen]
            seen.update(fresh)
            work += fresh
    return True


class Search(Maker):
    """The first index of a `for`, below `upper`, in which one of some conditions holds, looked for in front of it: the lower
    bound where that is not below `upper`. `asked`: the conditions, each with the ops that it needs; one is asked where those
    in front of it do not hold. `token`: of the loads that were asked, where theirs are used."""

    def __init__(self, loop: Op, upper: Value, asked: list[tuple[Value, list[Op]]]) -> None:
        super().__init__(loop)
        self.loads = list(dict.fromkeys(op for _, ops in asked for op in ops if op.spec.name in PLAIN_LOADS))
        self.token: Value | None = None
        ordered = [TOKEN] if any(op.results[1].uses for op in self.loads) else []
        lower, _, step = loop.operands[:3]
        type: Any = lower.type
        inner, there, beyond, leave = Block(), Block(), Block(), Block()
        index, *given = [inner.add_arg(t) for t in (type, *ordered)]
        runs = self.compare(inner, "less_than", index, upper, "signed")
        self.ask(there, asked, {loop.regions[0].block.args[0]: index}, given)
        self.end(beyond, "yield", [self.true(beyond), *given])
        found, *after = self.branch(inner, runs, [FLAG, *ordered], there, beyond).results
        self.end(leave, "break", [index, *after])
        self.branch(inner, found, [], leave, Block())
        self.end(inner, "continue", [self.beyond(inner, index, upper, step), *after])
        block = loop.block
        assert block is not None
        first = [lower]
        if ordered:
            begin = create(tileaa.BY_NAME["make_token"], (), (TOKEN,), {}, (), loop.loc)
            first.append(block.insert_before(loop, begin).result)
        regions, types = (Region([inner]),), [type, *ordered]
        made = create(tileaa.BY_NAME["loop"], first, types, {SEARCH: True}, regions, loop.loc, (len(first),))
        block.insert_before(loop, made)
        self.index = made.results[0]
        if ordered:
            self.token = made.results[1]

    def ask(
        self,
        block: Block,
        asked: list[tuple[Value, list[Op]]],
        values: dict[Value, Value],
        tokens: list[Value],
    ) -> None:
        """Fills a side of a branch that says whether one of the conditions holds."""
        (condition, ops), *others = asked
        clone_into(block, [op for op in ops if op.results[0] not in values], values)
        if tokens:
            loads = [values[op.results[1]] for op in ops if op.spec.name in PLAIN_LOADS]
            tokens = [self.joined(block, [*tokens, *loads])]
        holds = values.get(condition, condition)
        if not others:
            self.end(block, "yield", [holds, *tokens])
            return
        yes, no = Block(), Block()
        self.end(yes, "yield", [self.true(yes), *tokens])
        self.ask(no, others, values, tokens)
        either = self.branch(block, holds, [FLAG, *(t.type for t in tokens)], yes, no)
        self.end(block, "yield", either.results)

    def true(self, block: Block) -> Value:
        return self.make(block, "constant", [], FLAG, {"value": Dense(TileType(I1, ()), b"\1")})

    def branch(self, block: Block, condition: Value, types: list[Any], *sides: Block) -> Op:
        regions = tuple(Region([side] if side.ops else []) for side in sides)
        return block.append(create(tileaa.BY_NAME["if"], (condition,), types, {}, regions, self.loop.loc))

    def order(self) -> None:
        """What waits for the loop waits for the loads that were asked, too. To be called when tests are gone from the loop: those
        loads that only they needed go, too."""
        if self.token is None:
            return
        block = self.loop.block
        assert block is not None
        place = block.ops[block.ops.index(self.loop) + 1]
        for result in self.loop.results:
            if result.type is TOKEN and result.uses:
                uses = list(result.uses)
                tokens = (result, self.token)
                join = create(tileaa.BY_NAME["join_tokens"], tokens, (TOKEN,), {}, (), self.loop.loc, (2,))
                block.insert_before(place, join)
                for user, number in uses:
                    user.set_operand(number, join.result)
        for op in self.loads:
            if not op.results[0].uses:
                op.results[1].replace_all_uses_with(self.token)
                erase_unused(op, without_effect)
