"""The rewriting of D11: a loop with produce_one and consume_one, its producers as many iterations ahead as their stage is
before that of the consumer.

Iterations that do not run produce zeros: their condition is computed without overflow from the distance to the bound.
A number that an address needs and that is loaded itself, as the page of a table, is loaded an iteration before the copies
that need it, and carried to them.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.clone import clone_into
from tileiras.compiler.ir.core import Block, Op, Region, Value
from tileiras.compiler.ir.dense import constant_bytes
from tileiras.compiler.ir.types import I1, I64, Dense, Scalar, TensorType, TileType
from tileiras.compiler.schedule.candidates import backward, captured, computes, constant_int, indices_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any


def expand(loop: Op) -> str | None:
    """Rewrites a loop with produce_one and consume_one. Why not, when it cannot; nothing is changed then."""
    body = loop.regions[0].block
    producers = [op for op in body.ops if op.spec is tileas.PRODUCE_ONE]
    step = constant_int(loop.operands[2])
    width = loop.operands[2].type.elem.bits  # type: ignore[attr-defined]
    indices = indices_of(loop)
    plans = []
    for op in producers:
        create = op.operands[0].op
        consumers = [c for c in body.ops if c.spec is tileas.CONSUME_ONE and c.operands[0] is op.operands[0]]
        if create is None or create.spec is not tileas.CREATE or len(consumers) != 1:
            return f"{op.spec.full_name} has no consumer of its own in the loop"
        if sum(other.operands[0] is op.operands[0] for other in producers) > 1:
            return "two producers share a pipeline"
        needs, args = backward(captured(op), body, indices)
        given = [
            index for index in indices_in_order(loop, indices) if uses_result(captured(op), needs, index)
        ]
        if args - {0}:
            return "an address depends on a loop-carried value"
        if not all(map(computes, needs)):
            return "an address depends on an op with effects"
        ahead = distance(loop, op, consumers[0], create.attrs["depth"])
        if not 0 <= ahead < create.attrs["depth"]:
            return f"stages {ahead} apart need more than the {create.attrs['depth']} slots of the pipeline"
        if step is not None and (ahead + bool(given)) * step >= 1 << (width - 1):
            return "the steps of the stages overflow the induction variable"
        if not all(isinstance(v.type, TensorType) and isinstance(v.type.elem, Scalar) for v in yielded(op)):  # type: ignore[attr-defined]
            return "the pipeline carries pointers"
        plans.append((op, needs, ahead, given))
    made: list[tuple[dict[str, Any], int]] = [(op.operands[0].op.attrs, ahead) for op, _, ahead, _ in plans]  # type: ignore[union-attr]
    rings = {ahead for attrs, ahead in made if "transport" in attrs and "parts" not in attrs}
    if len(rings) > 1:
        return "what shares a ring has different stages"
    lower, upper = loop.operands[0], loop.operands[1]
    signedness = "unsigned" if loop.attr("unsignedCmp") else "signed"
    assert loop.block is not None
    numbers = Numbers(loop)
    for op, needs, ahead, given in plans:
        for k in range(ahead):
            put = inserter(loop.block, loop)
            runs = reaches(put, loop, k, signedness)
            values = {index.results[0]: numbers.before(index, k, signedness) for index in given}
            guarded(op, needs, body, put, add(put, lower, steps(put, loop, k)), runs, values)
        queued = "parts" in op.operands[0].op.attrs  # type: ignore[union-attr]
        if ahead or queued:  # what queues is issued where the queue wants it
            put = inserter(body, body.ops[0] if queued else op)
            induction = body.args[0]
            runs = further(put, induction, upper, steps(put, loop, ahead))
            values = {index.results[0]: numbers.carried(index, ahead, signedness) for index in given}
            guarded(op, needs, body, put, add(put, induction, steps(put, loop, ahead)), runs, values)
            op.erase()
    for index in indices:
        if not any(result.uses for result in index.results):
            index.erase()
    return None


def indices_in_order(loop: Op, indices: frozenset[Op]) -> list[Op]:
    return [op for op in loop.regions[0].block.ops if op in indices]


def uses_result(values: Iterable[Value], needs: list[Op], index: Op) -> bool:
    """Whether what some values need reads the number that a load brings."""
    number = index.results[0]
    return any(v is number for v in values) or any(v is number for op in needs for v in captured(op))


class Numbers:
    """Numbers that are loaded for later iterations: each once for an iteration in front of the loop, and once in it."""

    def __init__(self, loop: Op) -> None:
        self.loop = loop
        self.body = loop.regions[0].block
        self.early: dict[tuple[Op, int], Value] = {}
        self.in_loop: dict[tuple[Op, int], Value] = {}

    def before(self, index: Op, k: int, signedness: str) -> Value:
        """What iteration k needs, loaded in front of the loop."""
        if (index, k) not in self.early:
            assert self.loop.block is not None
            put = inserter(self.loop.block, self.loop)
            runs = reaches(put, self.loop, k, signedness)
            lower = self.loop.operands[0]
            self.early[index, k] = self.load(index, put, add(put, lower, steps(put, self.loop, k)), runs)
        return self.early[index, k]

    def carried(self, index: Op, ahead: int, signedness: str) -> Value:
        """What the iteration `ahead` of the current one needs: loaded by the one before it."""
        from .lower_pipelines import add_operand

        if ahead == 0:
            return index.results[0]
        if (index, ahead) not in self.in_loop:
            loop, body = self.loop, self.body
            type = index.results[0].type
            first = self.before(index, ahead, signedness)
            put = inserter(body, body.ops[0])
            runs = further(put, body.args[0], loop.operands[1], steps(put, loop, ahead + 1))
            following = self.load(index, put, add(put, body.args[0], steps(put, loop, ahead + 1)), runs)
            add_operand(loop, first)
            loop.results.append(Value(type, loop, len(loop.results)))
            add_operand(body.ops[-1], following)
            self.in_loop[index, ahead] = body.add_arg(type)
        return self.in_loop[index, ahead]

    def load(self, index: Op, put: Any, induction: Value, runs: Value) -> Value:
        """The number of another iteration; zero where that does not run."""
        values: dict[Value, Value] = {self.body.args[0]: induction}
        needs, _ = backward(captured(index), self.body)
        inside = Block()
        clone_into(inside, [*needs, index], values)
        types = [index.results[0].type]
        inside.append(
            create(tileas.BY_NAME["yield"], [values[index.results[0]]], loc=index.loc, segments=(1,))
        )
        other = Block()
        nothing = other.append(zero(types[0], index)).result
        other.append(create(tileas.BY_NAME["yield"], [nothing], loc=index.loc, segments=(1,)))
        return put("if", [runs], types, {}, [Region([inside]), Region([other])]).result  # type: ignore[no-any-return]


def reaches(put: Any, loop: Op, k: int, signedness: str) -> Value:
    """Whether a loop has an iteration k, in front of it."""
    lower, upper = loop.operands[0], loop.operands[1]
    runs = compare(put, "less_than", lower, upper, signedness)
    return both(put, runs, further(put, lower, upper, steps(put, loop, k))) if k else runs


def distance(loop: Op, producer: Op, consumer: Op, depth: int) -> int:
    """Iterations that a producer runs ahead: what TileASMaterializeSchedule says, all slots but one where it says nothing."""
    if "schedule" not in loop.attrs:
        return depth - 1
    return int(consumer.attrs.get("stage", 0) - producer.attrs.get("stage", 0))


def yielded(op: Op) -> list[Value]:
    return op.regions[0].block.ops[-1].operands


def inserter(block: Block, anchor: Op) -> Callable[..., Op]:
    """put(name, operands, result types, attrs, regions): an op before the anchor, at its location."""

    def put(
        name: str, operands: Any, types: Any, attrs: dict[str, Any] | None = None, regions: Any = ()
    ) -> Op:
        spec = tileas.BY_NAME[name]
        segments = (len(operands),) if spec.varies else None
        return block.insert_before(
            anchor, create(spec, operands, types, attrs or {}, regions, anchor.loc, segments)
        )

    return put


def number(put: Any, type: Any, value: int) -> Value:
    data = (value & ((1 << type.elem.bits) - 1)).to_bytes(constant_bytes(type.elem), "little")
    return put("constant", (), (type,), {"value": Dense(TileType(type.elem, ()), data)}).result


def steps(put: Any, loop: Op, count: int) -> int | Value:
    """`count` steps of a loop: a number, or a value of twice the bits where the step is known at run time only."""
    step = constant_int(loop.operands[2])
    if step is not None:
        return count * step
    wide = twice(put, loop.operands[2], "signed")
    return put("muli", (wide, number(put, wide.type, count)), (wide.type,), {"overflow": "none"}).result


def twice(put: Any, value: Value, signedness: str) -> Value:
    """A value of at most 32 bits in 64."""
    type = TensorType(I64, (), value.type.layout)  # type: ignore[attr-defined]
    return put("exti", (value,), (type,), {"signedness": signedness}).result


def add(put: Any, value: Value, by: int | Value) -> Value:
    if isinstance(by, int):
        if not by:
            return value
        by = number(put, value.type, by)
    else:
        by = put("trunci", (by,), (value.type,), {"overflow": "none"}).result
    return put("addi", (value, by), (value.type,), {"overflow": "none"}).result


def compare(put: Any, predicate: str, x: Value, y: Value, signedness: str) -> Value:
    type = TensorType(I1, (), x.type.layout)  # type: ignore[attr-defined]
    return put("cmpi", (x, y), (type,), {"comparison_predicate": predicate, "signedness": signedness}).result


def further(put: Any, start: Value, upper: Value, distance: int | Value) -> Value:
    """Whether start + distance < upper, where start < upper: the difference does not overflow."""
    left = put("subi", (upper, start), (start.type,), {"overflow": "none"}).result
    if not isinstance(distance, int):
        return compare(put, "greater_than", twice(put, left, "unsigned"), distance, "unsigned")
    return compare(put, "greater_than", left, number(put, start.type, distance), "unsigned")


def both(put: Any, x: Value, y: Value) -> Value:
    return put("andi", (x, y), (x.type,)).result


def guarded(
    op: Op, needs: list[Op], body: Block, put: Any, induction: Value, runs: Value, given: dict[Value, Value]
) -> None:
    """A copy of the producer for another iteration, which makes zeros where that iteration does not run. `given`: what it needs
    that was made for that iteration elsewhere."""
    types = [v.type for v in yielded(op)]
    values: dict[Value, Value] = {body.args[0]: induction, **given}
    inside = Block()
    clone_into(inside, needs, values)
    source = op.regions[0].block
    clone_into(inside, source.ops[:-1], values)
    results = [values.get(v, v) for v in yielded(op)]
    inside.append(create(tileas.BY_NAME["yield"], results, loc=op.loc, segments=(len(types),)))
    other = Block()
    zeros = [other.append(zero(type, op)).result for type in types]
    other.append(create(tileas.BY_NAME["yield"], zeros, loc=op.loc, segments=(len(types),)))
    region = Block()
    made = region.append(
        create(tileas.BY_NAME["if"], [runs], types, {}, [Region([inside]), Region([other])], op.loc)
    )
    region.append(create(tileas.PIPELINE_YIELD, list(made.results), loc=op.loc, segments=(len(types),)))
    put(tileas.PRODUCE_ONE.name, (op.operands[0],), (), dict(op.attrs), [Region([region])])


def zero(type: Any, op: Op) -> Op:
    data = Dense(TileType(type.elem, type.shape), bytes(constant_bytes(type.elem)))
    return create(tileas.BY_NAME["constant"], (), (type,), {"value": data}, loc=op.loc)
