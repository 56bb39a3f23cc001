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

from tileiras.compiler.dialects.nv_tileaa.kernel_spec import KEY, KernelSpec
from tileiras.compiler.dialects.nv_tileas import diags as D
from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Block, Region
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.schedule import needed_registers, pairs, roles
from tileiras.compiler.target import sm
from tileiras.compiler.target.cost import CostModel

from .computing_agents import Reading, Working
from .issuing_agents import Copying, Multiplying
from .pair_ctas import by_leader, close, narrow
from .place_shared import ALIGN, SHARED_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .agents import Agent

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
            context.remark(D.NO_ROLES, refused.op, name=refused.op.spec.full_name, reason=refused.reason)
            return True
        plan.carry_out()
        if plan.alone is not None:
            context.remark(D.NO_PAIR, found[0].loop, reason=plan.alone)
        if plan.pair is not None:
            context.remark(D.PAIR, found[0].loop, stages=plan.pair.stages, bytes=plan.pair.stage)
        context.remark(
            D.ROLES, found[0].loop, warps=plan.warps, copying=plan.others,
            does="copy" if plan.sums is None else "copy or multiply",
            registers=f", {plan.more} and {plan.less} registers a thread" if plan.more else "",
        )  # fmt: skip
        return True


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
        if (
            self.warps % CostModel.copying_warps
            or self.warps + CostModel.copying_warps > CostModel.block_warps
        ):
            raise roles.NoRoles(
                first, f"{self.warps} warps are no warpgroups, or leave no room for another one"
            )
        self.share(target)
        copying = CostModel.copying_registers if found[0].load is not None else CostModel.addressing_registers
        needed = needed_registers.needed_registers(func)
        chosen = needed_registers.registers(
            self.warps, needed, self.shared, spec.occupancy, copying, target.threads_per_sm
        )
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
