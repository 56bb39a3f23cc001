"""The rewriting of D11: a loop with produce_one and consume_one, its producers as many iterations ahead as their stage is
before that of the consumer.

Iterations that do not run produce zeros: their condition is computed without overflow from the distance to the bound.
What an address needs and is loaded itself, as the page of a table or the rows that a list names, is loaded an iteration
before the copies that need it, and carried to them. A value that the loop carries and an address needs, as pointers that
step along K, is carried once more, as far ahead as the copies are.

A producer that a token of the loop orders is issued where its iteration would begin, at the end of the one before, behind
what the token stands for: it gets the token that this iteration hands on.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.clone import clone_into
from tileiras.compiler.ir.core import Block, Op, Region, Value
from tileiras.compiler.ir.dense import constant_bytes
from tileiras.compiler.ir.types import I1, I64, TOKEN, Dense, Scalar, TensorType, TileType
from tileiras.compiler.schedule.candidates import (
    SEARCH,
    backward,
    captured,
    computes,
    constant_int,
    indices_of,
    is_search,
    joined,
    ordering,
)
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.registers import registers_apart

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
        steps_of = carried_by(args, body)
        if steps_of is None:
            return "an address depends on a loop-carried value that is more than computed"
        if not all(map(computes, needs)):
            return "an address depends on an op with effects"
        ahead = distance(loop, op, consumers[0], create.attrs["depth"])
        if not 0 <= ahead < create.attrs["depth"]:
            return f"stages {ahead} apart need more than the {create.attrs['depth']} slots of the pipeline"
        if ahead > 1 and ordering(op, loop):
            return f"what the iteration before orders runs {ahead} iterations ahead"
        if step is not None and (ahead + bool(given)) * step >= 1 << (width - 1):
            return "the steps of the stages overflow the induction variable"
        if not all(isinstance(v.type, TensorType) and isinstance(v.type.elem, Scalar) for v in yielded(op)):  # type: ignore[attr-defined]
            return "the pipeline carries pointers"
        plans.append((op, needs, ahead, given, steps_of))
    made = [(pipeline_of(op).attrs, ahead) for op, _, ahead, _, _ in plans]
    rings = {ahead for attrs, ahead in made if "transport" in attrs and "parts" not in attrs}
    if len(rings) > 1:
        return "what shares a ring has different stages"
    lower, upper = loop.operands[0], loop.operands[1]
    signedness = "unsigned" if loop.attr("unsignedCmp") else "signed"
    assert loop.block is not None
    numbers, carried = Numbers(loop), Carried(loop)
    for op, needs, ahead, given, steps_of in plans:
        for k in range(ahead):
            put = inserter(loop.block, loop)
            runs = reaches(put, loop, k, signedness)
            values = {index.results[0]: numbers.before(index, k, signedness) for index in given}
            values |= carried.before(steps_of, k)
            values |= tokens_of(op, loop, loop.operands[3:], put, {})
            guarded(op, needs, body, put, add(put, lower, steps(put, loop, k)), runs, values)
        queued = "parts" in op.operands[0].op.attrs  # type: ignore[union-attr]
        if ahead or queued:  # what queues is issued where the queue wants it
            one_stage = op.operands[0].op.attrs.get("slots") == 1  # type: ignore[union-attr]
            late = bool(ahead and (one_stage or ordering(op, loop)))
            first = queued or parts_operands(op, body)
            put = inserter(body, body.ops[-1] if late else body.ops[0] if first else op)
            induction = body.args[0]
            if op.operands[0].op.attrs.get("mixed"):  # type: ignore[union-attr]
                # the first steps of the next iteration, the others of this one
                now = number(put, TensorType(I1, (), induction.type.layout), 1)  # type: ignore[attr-defined]
                guarded(op, needs, body, put, induction, now, {})
            runs = further(put, induction, upper, steps(put, loop, ahead))
            values = {index.results[0]: numbers.carried(index, ahead, signedness) for index in given}
            values |= carried.inside(steps_of, ahead)
            if late:
                last = {"stage": loop.attrs["schedule"]["stages"] - 1} if "schedule" in loop.attrs else {}
                values |= tokens_of(op, loop, body.ops[-1].operands, put, last)
            guarded(op, needs, body, put, add(put, induction, steps(put, loop, ahead)), runs, values)
            op.erase()
    made_for = {need for _, needs, *_ in plans for need in needs}
    for need in reversed([op for op in body.ops if op in made_for]):  # exchanges among them would stay
        if not any(result.uses for result in need.results):
            need.erase()
    for index in indices:
        if not any(result.uses for result in index.results):
            index.erase()
    drop_carried(loop, {index for *_, steps_of in plans for index in steps_of})
    carried.search_once()
    return None


def tokens_of(op: Op, loop: Op, carried: list[Value], put: Any, attrs: dict[str, Any]) -> dict[Value, Value]:
    """The tokens of a loop that a producer waits for, as another iteration has them. `carried`: what that one gets."""
    out: dict[Value, Value] = {}
    for token in ordering(op, loop):
        found = joined(token, loop)
        assert found is not None  # or the loop had been refused
        parts = list(dict.fromkeys([*found[0], *(carried[index - 1] for index in found[1])]))
        out[token] = parts[0] if len(parts) == 1 else put("join_tokens", parts, [TOKEN], attrs).result
    return out


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


def pipeline_of(producer: Op) -> Op:
    """The op that made a producer's pipeline."""
    made = producer.operands[0].op
    assert made is not None
    return made


def carried_by(args: set[int], body: Block) -> list[int] | None:
    """The carried values that some of a loop's body arguments are made of from one iteration to the next, these included, in
    order; None where more than arithmetic makes them."""
    found: set[int] = set()
    work = [index for index in args if index > 0]
    while work:
        index = work.pop()
        if index in found:
            continue
        found.add(index)
        needs, more = backward([body.ops[-1].operands[index - 1]], body)
        if not all(is_ahead(op, body) for op in needs):
            return None
        work += [i for i in more if i > 0]
    return sorted(found)


class Carried:
    """Values that the loop carries, as they will be iterations later: each once in front of the loop, and once in it. An entry of
    a table is one iteration's values, by the body's arguments."""

    def __init__(self, loop: Op) -> None:
        self.loop = loop
        self.body = loop.regions[0].block
        self.following = list(
            self.body.ops[-1].operands
        )  # of every argument but the first, before any is added
        self.early: dict[int, list[Value]] = {}
        self.ahead: dict[tuple[int, int], Value] = {}

    def before(self, indices: list[int], k: int) -> dict[Value, Value]:
        """What iteration k has, in front of the loop."""
        for index in indices:
            self.early.setdefault(index, [self.loop.operands[2 + index]])
        assert self.loop.block is not None
        while any(len(self.early[index]) <= k for index in indices):
            behind = [index for index in indices if len(self.early[index]) <= k]
            n = min(len(self.early[index]) for index in behind) - 1
            put = inserter(self.loop.block, self.loop)
            values = {self.body.args[0]: add(put, self.loop.operands[0], steps(put, self.loop, n))}
            known = [index for index in indices if len(self.early[index]) > n]
            values |= {self.body.args[index]: self.early[index][n] for index in known}
            for index in behind:
                if len(self.early[index]) == n + 1:
                    self.early[index].append(self.next_one(index, dict(values), self.loop.block, self.loop))
        return {self.body.args[index]: self.early[index][k] for index in indices}

    def inside(self, indices: list[int], ahead: int) -> dict[Value, Value]:
        """What the iteration `ahead` of the current one has: carried as well."""
        from .lower_pipelines import add_operand

        if ahead == 0:
            return {}
        loop, body = self.loop, self.body
        fresh = [index for index in indices if (index, ahead) not in self.ahead]
        if fresh:
            first = self.before(indices, ahead)
            for index in fresh:
                add_operand(loop, first[body.args[index]])
                loop.results.append(Value(body.args[index].type, loop, len(loop.results)))
                self.ahead[index, ahead] = body.add_arg(body.args[index].type)
            jump = body.ops[-1]
            put = inserter(body, jump)
            values = {body.args[0]: add(put, body.args[0], steps(put, loop, ahead))}
            values |= {body.args[index]: self.ahead[index, ahead] for index in indices}
            for index in fresh:
                add_operand(jump, self.next_one(index, dict(values), body, jump))
        return {body.args[index]: self.ahead[index, ahead] for index in indices}

    def next_one(self, index: int, values: dict[Value, Value], block: Block, anchor: Op) -> Value:
        """The value of the iteration behind the one whose values are given."""
        value = self.following[index - 1]
        needs, _ = backward([value], self.body)
        made = Block()
        clone_into(made, needs, values)
        for op in list(made.ops):
            made.ops.remove(op)
            block.insert_before(anchor, op)
        return values.get(value, value)

    def search_once(self) -> None:
        """Where an iteration reads what a search has found, too, it is handed down from the search for the one furthest ahead."""
        from .lower_pipelines import add_operand

        loop, body = self.loop, self.body
        jump = body.ops[-1]
        for index in dict.fromkeys(index for index, _ in self.ahead):
            ahead = max(far for known, far in self.ahead if known == index)
            maker = jump.operands[index - 1].op
            if maker is None or not is_search(maker, loop) or maker.block is not body:
                continue
            for far in range(1, ahead):
                if (index, far) not in self.ahead:
                    add_operand(loop, self.early[index][far])
                    loop.results.append(Value(body.args[index].type, loop, len(loop.results)))
                    self.ahead[index, far] = body.add_arg(body.args[index].type)
                    add_operand(jump, self.ahead[index, far])
            for far in range(ahead):
                arg = body.args[index] if not far else self.ahead[index, far]
                jump.set_operand(arg.index - 1, self.ahead[index, far + 1])
        erase_unused_searches(body)


def erase_unused_searches(body: Block) -> None:
    for op in reversed(list(body.ops)):
        if op.attrs.get(SEARCH) and not any(result.uses for result in op.results):
            op.erase()


def drop_carried(loop: Op, indices: set[int]) -> None:
    """Carried values that nothing reads any more, but what makes the next ones, keep what they begin with."""
    body = loop.regions[0].block
    jump = body.ops[-1]
    unread = {index for index in indices if not loop.results[index - 1].uses}
    while True:
        kept = {index for index in unread if not only_carried(body.args[index], body, unread)}
        if not kept:
            break
        unread -= kept
    makers: set[Op] = set()
    for index in unread:
        makers |= set(backward([jump.operands[index - 1]], body)[0])
        jump.set_operand(index - 1, body.args[index])
    for op in reversed([op for op in body.ops if op in makers]):
        if not any(result.uses for result in op.results):
            op.erase()


def is_ahead(op: Op, body: Block) -> bool:
    """Whether an op of a loop may run for a later iteration, which perhaps there is not."""
    loop = body.region.op if body.region is not None else None
    return computes(op) and not op.regions or loop is not None and is_search(op, loop)


def only_carried(value: Value, body: Block, unread: set[int]) -> bool:
    """Whether all that a value becomes in a body are values that are carried and unread."""
    work, seen = [value], {value}
    while work:
        for user, index in work.pop().uses:
            if user is body.ops[-1]:
                if index + 1 not in unread:
                    return False
            elif user.block is not body or not is_ahead(user, body):
                return False
            for result in user.results:
                if result not in seen:
                    seen.add(result)
                    work.append(result)
    return True


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


def parts_operands(producer: Op, body: Block) -> bool:
    """Whether a few numbers are loaded ahead beside sums that fill the registers. Whether their iteration runs is a branch,
    across which ptxas moves nothing: behind what an iteration makes of its operands it would part them from the products."""
    if "transport" in pipeline_of(producer).attrs:
        return False
    if sum(registers_apart(v.type) for v in yielded(producer)) > CostModel.waiting_registers:
        return False
    carried = sum(registers_apart(arg.type) for arg in body.args if isinstance(arg.type, TensorType))
    return carried > CostModel.divided_sums


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
