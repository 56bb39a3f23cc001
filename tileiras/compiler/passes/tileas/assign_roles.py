"""TileASAssignRoles: a warpgroup of its own issues the copies of the rings, all others do the rest.

    bulk.begin %ring                            bulk.begin %ring
    barrier                                     barrier
    bulk.load %ring, ..                         agent {id = 0, num_warps = 8, registers = 232} {
    for .. {                                      for .. {
      bulk.wait %ring, %take, %phase                bulk.wait %ring, %take, %phase
      bulk.release %ring, %put                      bulk.release %ring, %put
      wgmma ..                                      wgmma ..
      bulk.load %ring, %put, .., %phase           }
    }                                             ..
    ..                                          }
                                                agent {id = 1, num_warps = 4, registers = 40, issuing_warps = 1} {
                                                  for .. {
                                                    bulk.load %ring, %slot, .., %phase
                                                  }
                                                }

The first agent has the threads that the function had, so that layouts stay; barriers inside it are for its warps alone. The
other one has the loops, branches and exits around the copies, and what they are computed from (`schedule/roles.py`). Its loop
runs an iteration for every stage and waits only for a free one. The first `ahead` stages are free from the start: until then it
waits for the phase before the first, which counts as complete; from then on a stage has been released once more than filled.

Sums in tensor memory (from sm_100 on): one warp copies, one multiplies, and the loop is theirs alone. The others only see sums:

    tensor_memory.begin %all {readers = 8}
    agent {id = 0, num_warps = 8} {
      %sum = tensor_memory.turn %acc, %number
      %r = tensor_memory.load %sum, ..
      tensor_memory.release %sum
      ..
    }
    agent {id = 1, num_warps = 1} { for .. { bulk.load %ring, %slot, .., %phase } }
    agent {id = 2, num_warps = 1} {
      %sum = tensor_memory.turn %acc, %number
      tensor_memory.acquire %sum
      for .. {
        bulk.wait %ring, %slot, %phase
        tensor_memory.product %sum, %step ..
        bulk.commit %ring, %slot
      }
      tensor_memory.commit %sum
    }

In loops around it there are two buffers of each sum, so that one adds up while the other is read and stored.

In loops that are entered again, both sides carry on with the stage behind the last: the copies of the next tile start while
this one's results are stored. Loops one behind the other share a ring where its form is the same. Such a ring keeps its bytes
and its mbarriers to the end of the kernel.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from tileiras.compiler.dialects.nv_tileaa.kernel_spec import KEY, KernelSpec
from tileiras.compiler.dialects.nv_tileas import diags as D
from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.clone import clone_op
from tileiras.compiler.ir.core import Block, Op, Region, Value
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.spec import NO_MEMORY_EFFECT
from tileiras.compiler.ir.types import I1, TOKEN, Dense, TensorType, TileType
from tileiras.compiler.layout.linear import LinearLayout
from tileiras.compiler.schedule import pairs, roles
from tileiras.compiler.schedule.candidates import constant_int
from tileiras.compiler.target import sm
from tileiras.compiler.target.cost import CostModel

from .pair_ctas import by_leader, close, narrow
from .place_shared import ALIGN, SHARED_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# of a ring: what working warps leave to others
FILLS = frozenset((tileas.BULK_LOAD, tileas.BULK_ACQUIRE, tileas.ASYNC_ARRIVE, *roles.COPIES))
AGENT = tileas.BY_NAME["agent"]
REGISTERS = "nvvm.maxnreg"


class AssignRoles(Pass):
    NAME = "TileASAssignRoles"
    SUMMARY = "Let a warpgroup of its own issue the copies of pipelined loops"
    """
    does: warps of their own issue the copies of pipelined loops, and the products that add up in tensor memory; there,
      pairs of CTAs of a cluster multiply as one
    without: all warps do everything
    acts: staged_f16_nt on sm_90 with tensor maps
    """
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:

        if context.target is None or not context.target.has(sm.SETMAXNREG):
            return True
        found = roles.rings(func)
        if not found:
            return True
        try:
            plan = Plan(func, found, context.target)
        except roles.NoRoles as refused:
            say(context, D.NO_ROLES, refused.op, name=refused.op.spec.full_name, reason=refused.reason)
            return True
        plan.carry_out()
        if plan.alone is not None:
            say(context, D.NO_PAIR, found[0].loop, reason=plan.alone)
        if plan.pair is not None:
            say(context, D.PAIR, found[0].loop, stages=plan.pair.stages, bytes=plan.pair.stage)
        say(
            context, D.ROLES, found[0].loop, warps=plan.warps, copying=plan.others,
            does="copy" if plan.sums is None else "copy or multiply",
            registers=f", {plan.more} and {plan.less} registers a thread" if plan.more else "",
        )  # fmt: skip
        return True


def say(context: Context, diag: Any, op: Op, **fields: Any) -> None:
    if (context.remarks or {}).get(diag.kind, "none") in ("all", diag.category):
        context.sink.emit(diag, loc=op.loc, function=context.function, **fields)


class Plan:
    """What is decided for a function; nothing is changed yet."""

    def __init__(self, func: Any, found: list[roles.Ring], target: Any) -> None:

        self.func = func
        self.rings = found
        spec: KernelSpec = func.attrs[KEY]
        self.warps = spec.num_warps
        first = found[0].loop
        self.sums = found[0].sums
        self.pair: pairs.Pair | None = None
        self.alone: str | None = None  # why the CTAs of a cluster are no pairs
        self.others = CostModel.copying_warps if self.sums is None else 2
        if self.sums is not None:
            return self.decide_sums(found[0], target)
        if self.warps % CostModel.copying_warps or self.warps + CostModel.copying_warps > 32:
            raise roles.NoRoles(
                first, f"{self.warps} warps are no warpgroups, or leave no room for another one"
            )
        self.share(target)
        copying = CostModel.copying_registers if found[0].load is not None else CostModel.addressing_registers
        needed = roles.needed_registers(func)
        chosen = roles.registers(self.warps, needed, self.shared, spec.occupancy, copying)
        if isinstance(chosen, str):
            raise roles.NoRoles(first, chosen)
        self.start, self.more, self.less = chosen

    def share(self, target: Any) -> None:
        """What copying warps run, and places in shared memory that they leave alone."""
        self.needs = roles.Needs(self.func, self.rings)
        self.pools = list(dict.fromkeys(ring.pool for ring in self.rings))
        self.places, self.twins = roles.make_room(self.func, self.rings, CostModel(target).shared_bytes)
        ends = [start + size for start, size in self.places.values()]
        self.shared = max([self.func.attrs.get(SHARED_BYTES, 0), *ends]) + ALIGN - 1 & -ALIGN

    def decide_sums(self, ring: roles.Ring, target: Any) -> None:
        """Two warps more, one that copies and one that multiplies; nobody gives registers away."""
        if len(self.rings) > 1:
            raise roles.NoRoles(self.rings[1].loop, "sums of two loops lie in tensor memory")
        roles.check_sums(self.func, ring)
        self.share(target)
        self.multiplies = roles.Needs(self.func, self.rings, copies=False)
        self.buffers = roles.sum_buffers(ring, self.shared)
        cost = CostModel
        warps = (
            -(-(self.warps + self.others) // 4) * 4
        )  # an SM has four parts, each with a quarter of the registers
        left = cost.register_file // (32 * warps) // cost.register_unit * cost.register_unit
        self.start, self.more, self.less = left, None, None
        if roles.reading_registers(ring) > left:
            raise roles.NoRoles(
                ring.loop, "its registers do not suffice for warps that only copy and multiply as well"
            )
        if (self.func.attrs[KEY].tile_ctas or 1) > 1:
            try:
                self.pair = pairs.Pair(self.func, ring, target)
            except pairs.NoPair as reason:
                self.alone = str(reason)

    def carry_out(self) -> None:
        func = self.func
        for op, place in self.places.items():
            op.attrs = {**op.attrs, roles.EXCHANGE: place}
        func.attrs[SHARED_BYTES] = self.shared
        if self.pair is not None:
            narrow(self.pair)
        body = func.regions[0].block
        works = Working(self) if self.sums is None else Reading(self)
        agents: list[Agent] = [works, Copying(self, works)]
        if isinstance(works, Reading):
            agents.append(Multiplying(self, works))
        inner = [agent.agent(body) for agent in agents]
        if self.pair is not None:
            self.drain(agents[1], inner[1])
            inner[-1] = by_leader(inner[-1], agents[-1].flag.layout)
            close(inner)
        ends = body.ops[-1]
        for op in reversed(body.ops[:-1]):
            op.erase()
        for ring in self.pools:
            body.insert_before(ends, works.allocs[ring])
        for ring in self.pools:
            buffer, old = works.allocs[ring].result, ring.begin
            arrivals = {"arrivals": 32 * self.others} if ring.copies else {}
            body.insert_before(ends, create(old.spec, [buffer], (), {**old.attrs, **arrivals}, (), old.loc))
        for op in works.memory:
            body.insert_before(ends, op)
        together = {"cluster": True} if self.pair is not None else {}
        body.insert_before(ends, create(tileas.BARRIER, (), (), together, (), ends.loc))
        spec: KernelSpec = func.attrs[KEY]
        fields = {**spec.entries(), "num_warps": self.warps + self.others}
        func.attrs[KEY] = KernelSpec(**fields)
        if self.more:
            func.attrs[REGISTERS] = min(self.start, CostModel.max_registers)
        counts: Any = ((self.warps, self.more), (CostModel.copying_warps, self.less))
        if self.sums is not None:
            counts = ((self.warps, None), (1, None), (1, None))
        for number, (block, (warps, registers)) in enumerate(zip(inner, counts)):
            attrs: dict[str, Any] = {"id": number, "num_warps": warps}
            if registers:
                attrs["registers"] = registers
            if number and not self.rings[0].copies:
                attrs["issuing_warps"] = 1
            body.insert_before(ends, create(AGENT, (), (), attrs, [Region([block])], func.loc))

    def drain(self, copying: Any, block: Block) -> None:
        """Waits behind the copies of a pair until every stage is released: the leader's products reach this CTA's mbarriers."""
        (ring,) = self.rings
        names = ("barriers", "stage_bytes", "released")
        attrs = {name: ring.begin.attr(name) for name in names}
        slot, phase = copying.state[ring]
        for stage in range(ring.stages):
            if stage:
                slot, phase = copying.advanced(ring, block, slot, phase)
            operands = (copying.buffers[ring], slot, phase)
            block.append(create(tileas.BULK_ACQUIRE, operands, (), dict(attrs), (), ring.loop.loc))


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


def by_warps(layout: Any, warps: int) -> Any:
    """A layout of copies for fewer warps: each has what the others had, too."""
    kept = warps.bit_length() - 1
    more = tuple(column for column in layout.warp[kept:] if column)
    return LinearLayout(layout.bits, (*layout.reg, *more), layout.lane, layout.warp[:kept], layout.inv)


def resized(op: Op, count: int) -> tuple[int, ...] | None:
    """Operands of each field where the last one has another number of them."""
    return None if op.segments is None else (*op.segments[:-1], count)


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


def turned(agent: Any, block: Block, number: Value) -> dict[Value, Value]:
    """The buffers of a sum's number, by the accumulators of the function as it was."""
    made = {}
    for old, accumulator in agent.accumulators.items():
        op = create(tileas.TENSOR_TURN, (accumulator, number), (accumulator.type,), dict(agent.turning))
        made[old] = block.append(op).result
    return made


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
