"""Agents: each has a copy of the function with what it runs of it, and carries through loops and branches how far it is with
each ring. What one runs, its own file says: `computing_agents.py`, `issuing_agents.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.clone import clone_op
from tileiras.compiler.ir.core import Block, Op, Region, Value
from tileiras.compiler.ir.types import I1, Dense, TensorType, TileType
from tileiras.compiler.schedule import roles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .assign_roles import Plan


class Agent(ABC):
    """Copies a function's block for one agent. `state`: of each ring the values that stand for how far its agent is with it,
    carried through every loop and branch around the ring's own loop."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.values: dict[Value, Value] = {}
        self.rings = {ring.loop: ring for ring in plan.rings}
        self.state: dict[roles.Ring, list[Value]] = {}
        self.around: dict[Op, list[roles.Ring]] = {}  # rings inside a loop or branch
        for ring in plan.rings:
            op: Op | None = ring.loop.parent
            while op is not None and op is not plan.func:
                inside = self.around.setdefault(op, [])
                if ring.pool not in inside:
                    inside.append(ring.pool)
                op = op.parent
        self.pairing = {"pair": True} if plan.pair is not None else {}
        self.loops: list[Op] = []
        layout = plan.rings[0].wait.operands[1].type.layout  # type: ignore[attr-defined]
        self.flag = TensorType(I1, (), layout)

    # ---- what an agent decides for itself
    @abstractmethod
    def runs(self, op: Op) -> bool:
        """Whether the agent runs an op."""

    @abstractmethod
    def kept(self, op: Op) -> list[int]:
        """Which of the values that a loop carries the agent has."""

    @abstractmethod
    def given(self, op: Op) -> list[int]:
        """Which results of a loop or branch the agent has."""

    @abstractmethod
    def begin(self, block: Block, ring: roles.Ring) -> list[Value]:
        """What the agent makes in front of the outermost loop around a ring: the state that it starts with."""

    @abstractmethod
    def ring_loop(self, op: Op, ring: roles.Ring, block: Block) -> None:
        """The ring's own loop."""

    def single(self, op: Op, block: Block) -> None:
        block.append(clone_op(op, self.values))

    # ---- the copy
    def agent(self, body: Block) -> Block:
        block = Block()
        for ring in self.plan.pools:
            self.state[ring] = self.begin(block, ring)
        self.ops(body.ops[:-1], block)
        return block

    def ops(self, ops: list[Op], block: Block) -> None:
        for op in ops:
            if not self.runs(op):
                continue
            name = op.spec.name
            if op in self.rings:
                self.ring_loop(op, self.rings[op], block)
            elif name in ("for", "loop"):
                self.loop(op, block)
            elif name == "if":
                self.branch(op, block)
            elif name in ("continue", "break"):
                self.leave(op, block)
            elif name == "yield" and op.parent is not None and op.parent.spec.name == "if":
                self.give(op, block)
            else:
                self.single(op, block)

    def value(self, value: Value) -> Value:
        return self.values.get(value, value)

    def loop(
        self,
        op: Op,
        block: Block,
        extra: list[Value] | None = None,
        body: Callable[[Op, Block, list[Value]], None] | None = None,
    ) -> None:
        """A loop with the values that the agent keeps, and the state of the rings inside (`extra` for a ring's own, whose
        `body` is another)."""
        first = 3 if op.spec.name == "for" else 0
        inside = self.around.get(op, [])
        states = [v for ring in inside for v in self.state[ring]] if extra is None else extra
        kept = self.kept(op)
        operands = [self.value(v) for v in op.operands[:first]]
        operands += [*(self.value(op.operands[first + k]) for k in kept), *states]
        old, new = op.regions[0].block, Block()
        lead = 1 if first else 0
        for arg in [*old.args[:lead], *(old.args[lead + k] for k in kept)]:
            self.values[arg] = new.add_arg(arg.type, arg.name)
        args = [new.add_arg(v.type) for v in states]
        self.spread(inside, args)
        self.loops.append(op)
        self.ops(old.ops, new) if body is None else body(op, new, args)
        self.loops.pop()
        given = self.given(op)
        types = [op.results[k].type for k in given] + [v.type for v in states]
        count = resized(op, len(kept) + len(states))
        made = create(op.spec, operands, types, dict(op.attrs), [Region([new])], op.loc, count)
        block.append(made)
        for k, result in zip(given, made.results):
            self.values[op.results[k]] = result
        after = made.results[len(given) :]
        if extra is None:
            self.spread(inside, after)
        else:
            self.state[self.rings[op].pool] = after

    def spread(self, inside: list[roles.Ring], values: list[Value]) -> None:
        at = 0
        for ring in inside:
            count = len(self.state[ring])
            self.state[ring] = values[at : at + count]
            at += count

    def leave(self, op: Op, block: Block) -> None:
        """`continue` or `break` of the innermost loop."""
        loop = self.loops[-1]
        inside = self.around.get(loop, [])
        kept = self.kept(loop) if op.spec.name == "continue" else self.given(loop)
        operands = [self.value(op.operands[k]) for k in kept]
        operands += [v for ring in inside for v in self.state[ring]]
        block.append(create(op.spec, operands, (), dict(op.attrs), (), op.loc, resized(op, len(operands))))

    def branch(self, op: Op, block: Block) -> None:
        inside = self.around.get(op, [])
        kept = self.given(op)
        before = {ring: self.state[ring] for ring in inside}
        regions = []
        for region in op.regions:
            self.state.update(before)
            if not region.blocks:
                if not inside:
                    regions.append(Region())
                    continue
                new = Block()
                spec = tileas.BY_NAME["yield"]
                given = [v for ring in inside for v in self.state[ring]]
                new.append(create(spec, given, loc=op.loc, segments=(len(given),)))
            else:
                new = Block()
                self.ops(region.block.ops, new)
            regions.append(Region([new]))
        types = [op.results[k].type for k in kept] + [v.type for ring in inside for v in before[ring]]
        made = create(
            op.spec, [self.value(op.operands[0])], types, dict(op.attrs), regions, op.loc, op.segments
        )
        block.append(made)
        for k, result in zip(kept, made.results):
            self.values[op.results[k]] = result
        self.state.update(before)
        self.spread(inside, made.results[len(kept) :])

    def give(self, op: Op, block: Block) -> None:
        """`yield` of a branch."""
        parent = op.parent
        assert parent is not None
        operands = [self.value(op.operands[k]) for k in self.given(parent)]
        operands += [v for ring in self.around.get(parent, []) for v in self.state[ring]]
        block.append(create(op.spec, operands, (), dict(op.attrs), (), op.loc, resized(op, len(operands))))

    # ---- numbers
    def number(self, block: Block, type: Any, value: int) -> Value:
        data = Dense(TileType(type.elem, ()), value.to_bytes(max(1, type.elem.bits // 8), "little"))
        return block.append(create(tileas.BY_NAME["constant"], (), (type,), {"value": data})).result

    def make(self, block: Block, name: str, operands: Any, type: Any, attrs: Any = None) -> Value:
        spec = tileas.BY_NAME[name]
        return block.append(create(spec, operands, (type,), attrs or {})).result


def resized(op: Op, count: int) -> tuple[int, ...] | None:
    """Operands of each field where the last one has another number of them."""
    return None if op.segments is None else (*op.segments[:-1], count)


def turned(agent: Any, block: Block, number: Value) -> dict[Value, Value]:
    """The buffers of a sum's number, by the accumulators of the function as it was."""
    made = {}
    for old, accumulator in agent.accumulators.items():
        op = create(tileas.TENSOR_TURN, (accumulator, number), (accumulator.type,), dict(agent.turning))
        made[old] = block.append(op).result
    return made
