"""The warps that compute: all of the function but what others issue for them, or, where sums lie in tensor memory, all but
the products' loop.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.clone import clone_op
from tileiras.compiler.ir.core import Block, Op, Region, Value
from tileiras.compiler.ir.spec import NO_MEMORY_EFFECT
from tileiras.compiler.ir.types import TOKEN, Dense, TileType
from tileiras.compiler.schedule import roles
from tileiras.compiler.schedule.candidates import constant_int

from .agents import Agent, turned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .assign_roles import Plan

# of a ring: what working warps leave to others
FILLS = frozenset((tileas.BULK_LOAD, tileas.BULK_ACQUIRE, tileas.ASYNC_ARRIVE, *roles.COPIES))


class Working(Agent):
    """The warps that do everything but copy."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.allocs: dict[roles.Ring, Op] = {}
        self.memory: list[Op] = []  # tensor memory, for all agents
        self.left_out: set[Op] = set()
        for ring in plan.rings:
            if ring.pool is ring:
                self.allocs[ring] = clone_op(ring.alloc, self.values)
            else:
                self.values[ring.alloc.result] = self.allocs[ring.pool].result
            users = [user for user, _ in ring.alloc.result.uses]
            self.left_out |= {ring.alloc, ring.begin}
            self.left_out |= {op for op in users if op.spec in FILLS}
            if not roles.ends_in_time([other for other in plan.rings if other.pool is ring.pool]):
                self.left_out.add(ring.end)
            around = ring.begin.block
            assert around is not None
            following = around.ops[around.ops.index(ring.begin) + 1]
            if following.spec is tileas.BARRIER and first_of_all(plan.func, ring.begin):
                self.left_out.add(following)  # the whole block has waited already
        # what only copies were computed from
        for op in reversed(list(plan.func.walk())):
            if op.spec.is_pure and not op.regions and op.results and not op.spec.is_terminator:
                uses = [user for r in op.results for user, _ in r.uses]
                if uses and all(user in self.left_out for user in uses):
                    self.left_out.add(op)

    def runs(self, op: Op) -> bool:
        return op not in self.left_out

    def single(self, op: Op, block: Block) -> None:
        twin = self.plan.twins.get(op)
        if twin is not None:
            self.values[op.result] = self.value(twin.result)
        else:
            super().single(op, block)

    def kept(self, op: Op) -> list[int]:
        return list(range(len(op.operands) - (3 if op.spec.name == "for" else 0)))

    def given(self, op: Op) -> list[int]:
        return list(range(len(op.results)))

    def begin(self, block: Block, ring: roles.Ring) -> list[Value]:
        """Offsets of the stages to read and to release, the phase to wait for."""
        first = 3
        out = []
        for place in ring.places:
            made = clone_op(ring.loop.operands[first + place].op, {})  # type: ignore[arg-type]
            block.append(made)
            out.append(made.result)
        return out

    def ring_loop(self, op: Op, ring: roles.Ring, block: Block) -> None:
        inits = [self.value(v) for v in op.operands[3:]]
        for place, value in zip(ring.places, self.state[ring.pool]):
            inits[place] = value
        old, new = op.regions[0].block, Block()
        for arg in old.args:
            self.values[arg] = new.add_arg(arg.type, arg.name)
        self.loops.append(op)
        self.ops(old.ops, new)
        self.loops.pop()
        operands = [*(self.value(v) for v in op.operands[:3]), *inits]
        types = [r.type for r in op.results]
        made = create(op.spec, operands, types, dict(op.attrs), [Region([new])], op.loc, op.segments)
        block.append(made)
        for result, fresh in zip(op.results, made.results):
            self.values[result] = fresh
        self.state[ring.pool] = [made.results[place] for place in ring.places]


class Reading(Working):
    """The warps that do everything but copy and multiply: of a loop they have its sums. They count the sums."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        (ring,) = plan.rings
        sums = ring.sums
        assert sums is not None
        old = sums.memory
        columns = plan.buffers * old.attr("columns")
        self.turning = {"buffers": plan.buffers, "stride": old.attr("columns")}
        alloc = create(old.spec, (), (old.result.type,), {**old.attrs, "columns": columns}, (), old.loc)
        self.values[old.result] = alloc.result
        self.memory.append(alloc)
        self.accumulators: dict[Value, Value] = {}
        self.current: dict[Value, Value] = {}
        for begin in sums.begins:
            attrs = {**begin.attrs, "readers": plan.warps}
            made = create(begin.spec, (alloc.result,), (begin.result.type,), attrs, (), begin.loc)
            self.accumulators[begin.result] = made.result
            self.memory.append(made)
            ends = [user for user, _ in begin.result.uses if user.spec is tileas.TENSOR_END]
            self.left_out |= {begin, *ends}
        self.left_out |= {old, *sums.stores, *sums.commits, ring.end}
        around = ring.loop.block
        assert around is not None
        for op in around.ops[around.ops.index(ring.begin) : around.ops.index(ring.loop)]:
            if op.spec is tileas.BARRIER:  # it kept others from mbarriers and sums that are not ready yet
                self.left_out.add(op)
        self.reads = set(sums.reads)
        self.allocates: Op = old
        self.allocated = False  # in the function as it was
        self.runs_at_all: Value | None = None

    def begin(self, block: Block, ring: roles.Ring) -> list[Value]:
        """How many sums there were."""
        return [self.number(block, ring.wait.operands[1].type, 0)]

    def ring_loop(self, op: Op, ring: roles.Ring, block: Block) -> None:
        (number,) = self.state[ring.pool]
        self.current = turned(self, block, number)
        lower, upper = (self.value(v) for v in op.operands[:2])
        known = [constant_int(v) for v in op.operands[:2]]
        self.runs_at_all = None
        signed = "unsigned" if op.attr("unsignedCmp") else "signed"
        if None in known or known[0] >= known[1]:  # type: ignore[operator]
            attrs = {"comparison_predicate": "less_than", "signedness": signed}
            self.runs_at_all = self.make(block, "cmpi", (lower, upper), self.flag, attrs)
        for k, result in enumerate(op.results):
            if result.type is TOKEN:
                self.values[result] = self.value(op.operands[3 + k])
        one = self.number(block, number.type, 1)
        self.state[ring.pool] = [self.make(block, "addi", (number, one), number.type, {"overflow": "none"})]

    def runs(self, op: Op) -> bool:
        self.allocated = self.allocated or op is self.allocates
        return super().runs(op)

    def single(self, op: Op, block: Block) -> None:
        if op.spec.name == "return" and not self.allocated:  # for all agents it has been
            block.append(create(tileas.TENSOR_FREE, (self.memory[0].result,), (), {}, (), op.loc))
        if op not in self.reads:
            return super().single(op, block)
        sum = self.current[op.operands[0]]
        number = self.number(block, op.operands[1].type, 0)
        if not op.results:
            block.append(create(op.spec, (sum, number), (), dict(op.attrs), (), op.loc))
        elif self.runs_at_all is None:
            made = create(op.spec, (sum, number), (op.result.type,), dict(op.attrs), (), op.loc)
            self.values[op.result] = block.append(made).result
        else:
            self.values[op.result] = self.load_or_zero(op, sum, block)
        block.append(create(tileas.TENSOR_RELEASE, (sum,), (), dict(self.pairing), (), op.loc))

    def load_or_zero(self, op: Op, sum: Value, block: Block) -> Value:
        """A sum, zeros where its loop never ran."""
        type: Any = op.result.type
        regions = []
        for runs in (True, False):
            inner = Block()
            number = self.number(inner, op.operands[1].type, 0)
            if runs:
                value = inner.append(
                    create(op.spec, (sum, number), (type,), dict(op.attrs), (), op.loc)
                ).result
            else:  # who multiplies has been here, or would take the release for that of the next sum
                inner.append(create(tileas.TENSOR_WAIT, (sum, number), (), {"before": 0}, (), op.loc))
                data = Dense(TileType(type.elem, type.shape), bytes(max(1, type.elem.bits // 8)))
                zeros = create(tileas.BY_NAME["constant"], (), (type,), {"value": data}, (), op.loc)
                value = inner.append(zeros).result
            inner.append(create(tileas.BY_NAME["yield"], [value], loc=op.loc, segments=(1,)))
            regions.append(Region([inner]))
        assert self.runs_at_all is not None
        made = create(tileas.BY_NAME["if"], [self.runs_at_all], (type,), {}, regions, op.loc)
        return block.append(made).result


def first_of_all(func: Op, op: Op) -> bool:
    """Whether nothing in front of an op has effects."""
    for other in func.walk():
        if other is op:
            return True
        spec = other.spec
        harmless = spec.is_pure or spec.name in roles.HARMLESS or spec is tileas.ALLOC_SHARED
        if other is not func and (
            roles.EXCHANGE in other.attrs or not harmless and not spec.traits & NO_MEMORY_EFFECT
        ):
            return False
    return False
