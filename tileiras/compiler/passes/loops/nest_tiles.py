"""TileAANestTiles: a loop over the steps of all tiles becomes a loop over tiles around a loop over steps.

Before: `for %i = 0 to %total iter(%sum = 0, %k = 0, %t = %first) { .. load[%t, %k], mma ..
          %r = if %k + 1 == %n { store %sum[%t]; yield 0, 0, %t + %grid } else { yield %sum, %k + 1, %t }; continue %r }`.
After:  `for %o = 0 to %total / %n iter(%t = %first) {
          %sum = for %k = 0 to %n iter(%sum = 0) { .. load[%t, %k], mma ..; continue %sum }
          store %sum[%t]; continue %t + %grid }`.

The inner loop is a product's loop as any other: its copies run ahead, its sums stay where an asynchronous product has them,
and the outer one is a persistent kernel's. What the steps do not change is computed once a tile. Steps behind the last whole
tile leave nothing and go; no tile is whole where %n is no positive number, or greater than %total. Which loops:
`schedule/flat_loops.py`.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import diags as D
from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.clone import clone_into
from tileiras.compiler.ir.core import Block, Op, Region, Value
from tileiras.compiler.ir.dense import constant_bytes
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.types import I1, TOKEN, Dense, TensorType, TileType
from tileiras.compiler.schedule.candidates import PLAIN_LOADS, computes, constant_int, is_outside
from tileiras.compiler.schedule.flat_loops import Flat, behind, flat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

FLAG = TensorType(I1, (), None)
SIGNED = {"signedness": "signed"}


class NestTiles(Pass):
    NAME = "TileAANestTiles"
    SUMMARY = "Split loops over the steps of all tiles into a loop over tiles and one over steps"
    """
    does: a loop whose branch ends a tile each time that a counter of steps gets to its bound becomes a loop over tiles
      around a loop over steps
    without: the loop's loads wait behind the branch, and its products are `mma.sync`
    acts: one_loop_for_all_tiles on sm_90
    """
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        for loop in [op for op in func.walk() if op.spec.name == "for"]:
            if loop.block is None:
                continue  # it was at the end of a tile of another one
            found = flat(loop)
            if isinstance(found, str):
                context.remark(D.NOT_NESTED, loop, reason=found)
            elif found is not None:
                context.remark(D.NESTED, loop)
                Nest(found).rewrite()
                context.analyses.drop()
        return True


class Nest:
    """The rewriting of one loop."""

    def __init__(self, found: Flat) -> None:
        self.found = found
        self.loop = found.loop
        self.body = found.loop.regions[0].block
        self.type: Any = found.counter.type
        self.behind = behind(found)
        self.steps: Value = found.bound  # of one tile
        self.before = Block()

    # ---- making ops
    def make(
        self, block: Block, name: str, operands: Iterable[Value], attrs: Any = None, type: Any = None
    ) -> Value:
        made = create(tileaa.BY_NAME[name], operands, (type or self.type,), attrs or {}, (), self.loop.loc)
        return block.append(made).result

    def add(self, block: Block, x: Value, y: Value, name: str = "addi") -> Value:
        return self.make(block, name, (x, y), {"overflow": "none"})

    def number(self, block: Block, value: int) -> Value:
        elem = self.type.elem
        data = (value % (1 << elem.bits)).to_bytes(constant_bytes(elem), "little")
        return self.make(block, "constant", (), {"value": Dense(TileType(elem, ()), data)})

    def loop_of(self, count: Value, first: list[Value], fill: Callable[[Block], None]) -> Op:
        """A loop from 0 up to a number that carries values from `first` on."""
        block = Block([self.type, *(value.type for value in first)])
        fill(block)
        bounds = [self.number(self.before, 0), count, self.number(self.before, 1)]
        types = [value.type for value in first]
        return create(
            tileaa.BY_NAME["for"], [*bounds, *first], types, {}, (Region([block]),), self.loop.loc, (1, 1, 1, len(first))
        )  # fmt: skip

    def end(self, block: Block, values: list[Value]) -> None:
        block.append(create(tileaa.BY_NAME["continue"], values, (), {}, (), self.loop.loc, (len(values),)))

    # ---- parts
    def rewrite(self) -> None:
        found, loop = self.found, self.loop
        count = self.tiles()
        outer = [*found.kept, *found.carried]
        made = self.loop_of(count, [loop.operands[3 + n] for n in outer], self.tile)
        self.before.append(made)
        block = loop.block
        assert block is not None
        for op in list(self.before.ops):
            self.before.ops.remove(op)
            block.insert_before(loop, op)
        for number, result in zip(outer, made.results):
            loop.results[number].replace_all_uses_with(result)
        loop.erase()

    def tiles(self) -> Value:
        """How many whole tiles the loop has. Finds out how many steps are one."""
        found, block, loop = self.found, self.before, self.loop
        start = loop.operands[2 + found.counter.index]
        bound = found.bound
        if not is_outside(bound, loop):
            bound = self.number(block, constant_int(bound) or 0)
        if found.least:
            bound = self.make(block, "maxi", (bound, self.number(block, found.ahead)), SIGNED)
        if constant_int(start) != 0:
            bound = self.add(block, bound, start, "subi")
        if not found.ahead:
            bound = self.add(block, bound, self.number(block, 1))
        self.steps = bound
        lower, upper = loop.operands[:2]
        total = self.add(block, self.make(block, "maxi", (lower, upper), SIGNED), lower, "subi")
        zero, one = self.number(block, 0), self.number(block, 1)
        known = constant_int(bound)
        if known is not None:
            return self.whole(total, bound) if known > 0 else zero
        count = self.whole(total, self.make(block, "maxi", (bound, one), SIGNED))
        attrs = {"comparison_predicate": "greater_than", **SIGNED}
        some = self.make(block, "cmpi", (bound, zero), attrs, FLAG)
        return self.make(block, "select", (some, count, zero))

    def whole(self, total: Value, steps: Value) -> Value:
        return self.make(self.before, "divi", (total, steps), {"rounding": "zero", **SIGNED})

    def tile(self, block: Block) -> None:
        """The body of the outer loop."""
        found, loop, body = self.found, self.loop, self.body
        outer = [*found.kept, *found.carried]
        now: dict[Value, Value] = {body.args[n + 1]: arg for n, arg in zip(outer, block.args[1:])}
        known = {body.args[n + 1]: now[body.args[n + 1]] for n in found.kept}
        gone = self.once(block, known)
        start = loop.operands[2 + found.counter.index]
        inner = [*found.carried, *found.restarted]
        begin = []
        for n in inner:
            value = now.get(body.args[n + 1], loop.operands[3 + n])
            if n in found.restarted and value.op is not None and value.op.spec.name == "constant":
                again: dict[Value, Value] = {}
                clone_into(block, [value.op], again)
                value = again[value]
            begin.append(value)
        begin += [self.make(block, "make_token", (), type=TOKEN) for _ in found.handed]

        def step(inside: Block) -> None:
            values = {**known, **{body.args[n + 1]: arg for n, arg in zip(inner, inside.args[1:])}}
            values.update(self.counters(inside, block.args[0], inside.args[0], start))
            self.fill(inside, values, gone, False)
            following = [*(found.following(n, False) for n in inner), *found.handed]
            self.end(inside, [values.get(v, v) for v in following])
            drop_unused(inside)

        made = block.append(self.loop_of(self.steps, begin, step))
        last = self.add(block, self.steps, self.number(block, 1), "subi")
        values = {**known, **self.counters(block, block.args[0], last, start)}
        results = dict(zip(inner, made.results))
        for value, n in self.behind.items():
            if n in results:
                values[value] = results[n]
        values.update(zip(found.handed, made.results[len(inner) :]))
        self.fill(block, values, gone, True)
        self.end(block, [values.get(v, v) for v in (found.following(n, True) for n in outer)])
        drop_unused(block)

    def once(self, block: Block, known: dict[Value, Value]) -> set[Op]:
        """Puts what the steps of a tile do not change in front of them."""
        gone = set()
        for op in self.body.ops[:-1]:
            if op.regions or not computes(op):
                continue
            if all(v in known or is_outside(v, self.loop) for v in op.operands):
                clone_into(block, [op], known)
                gone.add(op)
        return gone

    def counters(self, block: Block, tile: Value, step: Value, start: Value) -> dict[Value, Value]:
        """The two counters of the loop in a step of a tile."""
        lower = self.loop.operands[0]
        counter = step if constant_int(start) == 0 else self.add(block, start, step)
        index = self.body.args[0]
        values = {self.found.counter: counter}
        if index.uses:
            values[index] = self.add(block, self.add(block, tile, self.steps, "muli"), step)
            if constant_int(lower) != 0:
                values[index] = self.add(block, lower, values[index])
        return values

    def fill(self, block: Block, values: dict[Value, Value], gone: set[Op], last: bool) -> None:
        """What is done in a step, or behind the last one of a tile."""
        found = self.found
        for op in self.body.ops[:-1]:
            if op in gone:
                continue
            if op is found.branch:
                inside = op.regions[found.side if last else 1 - found.side].block.ops
                clone_into(block, inside[:-1], values)
                values.update(zip(op.results, [values.get(v, v) for v in inside[-1].operands]))
                continue
            chosen = [found.resolve(r, last) for r in op.results]
            if op.spec.name == "select" and chosen[0] is not op.result:
                values[op.result] = values.get(chosen[0], chosen[0])
            elif (op in found.again or not last) and (not op.results or op.results[0] not in values):
                clone_into(block, [op], values)


def drop_unused(block: Block) -> None:
    """Drops what only the condition needed."""
    for op in reversed(block.ops[:-1]):
        pure = computes(op) and not op.regions or op.spec.name in PLAIN_LOADS
        if pure and op.results and not any(r.uses for r in op.results):
            op.erase()
