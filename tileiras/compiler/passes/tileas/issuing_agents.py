"""The warps that issue for the others what runs by itself: copies into the stages of rings, products in tensor memory."""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.clone import clone_op
from tileiras.compiler.ir.core import Block, Op, Value
from tileiras.compiler.ir.types import TOKEN
from tileiras.compiler.layout.linear import LinearLayout
from tileiras.compiler.schedule import roles
from tileiras.compiler.target.cost import CostModel

from .agents import Agent, resized, turned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .assign_roles import Plan
    from .computing_agents import Reading, Working


class Copying(Agent):
    """The warps that copy."""

    def __init__(self, plan: Plan, works: Working) -> None:
        super().__init__(plan)
        self.needs = plan.needs
        self.buffers = {ring: made.result for ring, made in works.allocs.items()}

    def runs(self, op: Op) -> bool:
        if op.spec.is_terminator and op.parent in self.needs.ops:
            return True
        return op in self.needs.ops

    def kept(self, op: Op) -> list[int]:
        return sorted(self.needs.carried.get(op, ()))

    def given(self, op: Op) -> list[int]:
        known = self.needs.carried if op.spec.name == "for" else self.needs.given
        return sorted(known.get(op, ()))

    def begin(self, block: Block, ring: roles.Ring) -> list[Value]:
        """Offset of the stage to fill, and the phase in which it is free: at first the one before the first."""
        type = ring.wait.operands[1].type
        return [self.number(block, type, 0), self.number(block, type, 1)]

    def agent(self, body: Block) -> Block:
        block = super().agent(body)
        self.land(block)
        return block

    def land(self, block: Block) -> None:
        """Threads end when all that they have copied has landed."""
        if self.plan.rings[0].copies:
            block.append(create(tileas.COMMIT_GROUP))
            block.append(create(tileas.WAIT_GROUP, (), (), {"pending": 0}))

    def single(self, op: Op, block: Block) -> None:
        token = op.operand("token") if op.spec.name in roles.LOADS else None
        if token is not None and token not in self.values:
            self.values[token] = self.make(block, "make_token", (), TOKEN)
        if op.spec.name == "return":
            self.land(block)
        super().single(op, block)

    def ring_loop(self, op: Op, ring: roles.Ring, block: Block) -> None:
        self.loop(op, block, self.state[ring.pool], self.ring_body)

    def fill(self, ring: roles.Ring, op: Op, block: Block, slot: Value, phase: Value) -> None:
        """The copies of an op into a stage, behind a wait for it."""
        buffer = self.buffers[ring.pool]
        runs = self.number(block, self.flag, 1)
        if op is ring.load:
            index = [self.value(v) for v in op.group("index")]
            operands = [buffer, slot, runs, *index, phase]
            parts = (1, 1, 1, len(index), 1)
            block.append(create(op.spec, operands, (), dict(op.attrs), (), op.loc, parts))
            return
        attrs = {name: ring.begin.attr(name) for name in ("barriers", "stage_bytes")}
        released = {**attrs, "released": ring.begin.attr("released")}
        if op is ring.copies[0]:
            block.append(create(tileas.BULK_ACQUIRE, (buffer, slot, phase), (), released, (), op.loc))
        values = [self.value(v) for v in op.operands[3:] if v.type is not TOKEN]
        segments = (1, 1, 1, 1, len(values) - 1, 0)
        layout = by_warps(op.attrs["layout"], CostModel.copying_warps)
        more = {**op.attrs, "layout": layout}
        block.append(create(op.spec, [buffer, slot, runs, *values], (), more, (), op.loc, segments))
        if op is ring.copies[-1]:
            block.append(create(tileas.ASYNC_ARRIVE, (buffer, slot, runs), (), attrs, (), op.loc))

    def ring_body(self, op: Op, block: Block, args: list[Value]) -> None:
        ring = self.rings[op]
        slot, phase = args
        body = op.regions[0].block
        for inner in body.ops[:-1]:
            if inner in ring.fills:
                self.fill(ring, inner, block, slot, phase)
            elif any(v in self.needs.shifted for v in inner.results):
                self.values[inner.result] = self.value(body.args[0])
            elif self.runs(inner):
                self.single(inner, block)
        self.end_of_body(op, block, self.advanced(ring, block, slot, phase))

    def advanced(self, ring: roles.Ring, block: Block, slot: Value, phase: Value) -> list[Value]:
        """The stage behind one, and its phase."""
        type = slot.type
        more = self.make(
            block, "addi", (slot, self.number(block, type, ring.stage)), type, {"overflow": "none"}
        )
        equal = {"comparison_predicate": "equal", "signedness": "unsigned"}
        total = self.number(block, type, ring.stages * ring.stage)
        wraps = turns = self.make(block, "cmpi", (more, total), self.flag, equal)
        more = self.make(block, "select", (wraps, self.number(block, type, 0), more), type)
        if ring.ahead < ring.stages:
            turn = self.number(block, type, ring.ahead * ring.stage)
            turns = self.make(block, "cmpi", (more, turn), self.flag, equal)
        other = self.make(block, "xori", (phase, self.number(block, type, 1)), type)
        return [more, self.make(block, "select", (turns, other, phase), type)]

    def end_of_body(self, op: Op, block: Block, states: list[Value]) -> None:
        ends = op.regions[0].block.ops[-1]
        operands = [*(self.value(ends.operands[k]) for k in self.kept(op)), *states]
        block.append(
            create(ends.spec, operands, (), dict(ends.attrs), (), ends.loc, resized(ends, len(operands)))
        )


class Multiplying(Copying):
    """The warp that issues products. It waits for stages, for sums that were read, and for nothing else."""

    def __init__(self, plan: Plan, works: Reading) -> None:
        super().__init__(plan, works)
        self.needs = plan.multiplies
        self.accumulators, self.turning = works.accumulators, works.turning
        (memory,) = [ring.sums.memory for ring in plan.rings]  # type: ignore[union-attr]
        self.values[memory.result] = works.values[memory.result]
        self.current: dict[Value, Value] = {}

    def begin(self, block: Block, ring: roles.Ring) -> list[Value]:
        """Offset of the stage to read, the phase in which it has landed, and how many sums there were."""
        type = ring.wait.operands[1].type
        return [self.number(block, type, 0) for _ in range(3)]

    def ring_loop(self, op: Op, ring: roles.Ring, block: Block) -> None:
        slot, phase, number = self.state[ring.pool]
        self.current = turned(self, block, number)
        for sum in self.current.values():
            block.append(create(tileas.TENSOR_ACQUIRE, (sum,), (), dict(self.pairing), (), op.loc))
        self.loop(op, block, [slot, phase, self.number(block, number.type, 0)], self.ring_body)
        slot, phase, _ = self.state[ring.pool]
        for sum in self.current.values():
            block.append(create(tileas.TENSOR_COMMIT, (sum,), (), dict(self.pairing), (), op.loc))
        one = self.number(block, number.type, 1)
        more = self.make(block, "addi", (number, one), number.type, {"overflow": "none"})
        self.state[ring.pool] = [slot, phase, more]

    def ring_body(self, op: Op, block: Block, args: list[Value]) -> None:
        ring = self.rings[op]
        slot, phase, step = args
        sums = ring.sums
        assert sums is not None
        self.values.update(self.current)
        self.values[ring.alloc.result] = self.buffers[ring.pool]
        self.values[ring.wait.operands[1]] = slot
        self.values[ring.wait.operands[2]] = phase
        begun: set[Value] = set()
        for inner in op.regions[0].block.ops[:-1]:
            if inner is ring.wait or inner is ring.release:
                attrs = {name: value for name, value in inner.attrs.items() if name != "issuing"}
                operands = [self.value(v) for v in inner.operands]
                block.append(create(inner.spec, operands, (), attrs, (), inner.loc))
            elif inner in sums.products:
                sum = inner.operands[0]
                self.values[inner.operands[1]] = step
                made = clone_op(inner, self.values)
                if sum not in begun:
                    made.attrs = {**made.attrs, "fresh": 2}
                begun.add(sum)
                block.append(made)
            elif self.runs(inner):
                self.single(inner, block)
        one = self.number(block, step.type, 1)
        more = self.make(block, "addi", (step, one), step.type, {"overflow": "none"})
        self.end_of_body(op, block, [*self.advanced(ring, block, slot, phase), more])


def by_warps(layout: Any, warps: int) -> Any:
    """A layout of copies for fewer warps: each has what the others had, too."""
    kept = warps.bit_length() - 1
    more = tuple(column for column in layout.warp[kept:] if column)
    return LinearLayout(layout.bits, (*layout.reg, *more), layout.lane, layout.warp[:kept], layout.inv)
