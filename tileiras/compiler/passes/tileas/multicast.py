"""TileASMulticast: what all CTAs of a cluster load alike, each loads a part of, for all of them.

    bulk.begin %ring {readers = 4}              bulk.begin %ring {readers = 4, ctas = 2}
    barrier                                     barrier {cluster}
    agent { for .. {                            agent { for .. {
      bulk.wait %ring, %take, %phase              bulk.wait %ring, %take, %phase
      bulk.release %ring, %put                    bulk.release %ring, %put {ctas = 2}
      wgmma .. }                                  wgmma .. }
      barrier                                     barrier {cluster}
      bulk.end %ring }                            bulk.end %ring }
    agent { for .. {                            agent { for .. {
      bulk.load %ring, ..                         bulk.load %ring, .. {ctas = 2, shared = [0, 1]}
    } }                                           }
                                                  barrier {cluster} }

Of a shared tile, box k goes by the CTA whose rank is k modulo the CTAs, into all of them at once, and completes on the mbarrier
of each: every CTA still waits for the bytes of all its tiles. A stage is free when the readers of all CTAs have released it, so
that each of them says so to each CTA. Nobody touches another CTA's mbarriers before they are there, or after they are none any
more: the cluster waits for itself in front of the loop and behind it. Loops run equally often in all CTAs, because no number
that decides it depends on the rank (split_demand.py). Only kernels with one ring, which a warp of its own fills, and without
exits.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa.kernel_spec import KEY
from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.dialects.nv_tileas.tensor_maps import maps_of, shares
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Op
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.schedule.bulk import depends_on_rank

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Multicast(Pass):
    NAME = "TileASMulticast"
    SUMMARY = "Let each CTA of a cluster load a part of what all of them need"
    """
    does: what the CTAs that share a tile block load alike, each loads a part of, for all of them
    without: each loads all of it
    acts: cluster_product_2_128x64x32 on sm_90 with tensor maps
    """
    KEEPS_ANALYSES = True
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        ctas = func.attrs[KEY].tile_ctas or 1
        found = shared_ring(func, ctas) if ctas > 1 else None
        if found is not None:
            found.carry_out(ctas)
        return True


class SharedRing:
    """A ring whose copies can be shared. `fence`: the barrier behind its beginning; `last`: the one in front of its end, None
    where it lasts as long as the kernel; `shared`: 1 for each tile that all CTAs load, 0 for the others."""

    def __init__(self, begin: Op, load: Op, releases: list[Op], agents: list[Op]) -> None:
        self.begin, self.load, self.releases, self.agents = begin, load, releases, agents
        self.fence: Op | None = None
        self.last: Op | None = None
        self.shared: tuple[int, ...] = ()

    def carry_out(self, ctas: int) -> None:
        assert self.fence is not None
        for op in (self.begin, self.load, *self.releases):
            op.attrs = {**op.attrs, "ctas": ctas}
        self.load.attrs = {**self.load.attrs, "shared": self.shared}
        self.fence.attrs = {**self.fence.attrs, "cluster": True}
        if self.last is None:
            for agent in self.agents:
                agent.regions[0].block.append(cluster_barrier())
            return
        self.last.attrs = {**self.last.attrs, "cluster": True}
        loop = self.load.parent
        assert loop is not None and loop.block is not None
        after = loop.block.ops.index(loop) + 1
        if after == len(loop.block.ops):
            loop.block.append(cluster_barrier())
        else:
            loop.block.insert_before(loop.block.ops[after], cluster_barrier())


def cluster_barrier() -> Op:
    return create(tileas.BARRIER, (), (), {"cluster": True})


def shared_ring(func: Any, ctas: int) -> SharedRing | None:
    """The only ring of a kernel, where CTAs can share what fills it."""
    body = func.regions[0].block
    of: dict[Any, list[Op]] = {}
    for op in func.walk():
        of.setdefault(op.spec, []).append(op)
    begins, loads, releases, ends = (
        of.get(s, []) for s in (tileas.BULK_BEGIN, tileas.BULK_LOAD, tileas.BULK_RELEASE, tileas.BULK_END)
    )
    agents = [op for op in body.ops if op.spec.name == "agent"]
    exits = [op for op in func.walk() if op.spec.name == "return" and op.block is not body]
    if len(begins) != 1 or len(loads) != 1 or len(agents) != 2 or len(ends) > 1 or not releases or exits:
        return None
    ring = SharedRing(begins[0], loads[0], releases, agents)
    ring.fence = following(ring.begin)
    if ring.begin.block is not body or ring.fence is None or loads[0].operand("phase") is None:
        return None
    if ends:
        block = ends[0].block
        at = block.ops.index(ends[0])  # type: ignore[union-attr]
        ring.last = block.ops[at - 1] if at else None  # type: ignore[union-attr]
        loop = releases[0].parent
        if (
            ring.last is None
            or ring.last.spec is not tileas.BARRIER
            or loop is None
            or loop.block is not block
        ):
            return None
    ring.shared = shared_tiles(func, ring.load, ctas)
    return ring if any(ring.shared) else None


def following(op: Op) -> Op | None:
    """The barrier behind an op."""
    block = op.block
    assert block is not None
    after = block.ops[block.ops.index(op) + 1]
    return after if after.spec is tileas.BARRIER else None


def shared_tiles(func: Any, load: Op, ctas: int) -> tuple[int, ...]:
    """1 for each tile whose place does not depend on the CTA and whose boxes CTAs can divide, 0 for the others."""
    maps = maps_of(func)
    out, at = [], 0
    for number in load.attr("maps"):
        box = maps[number].box
        end = at + len(box)
        alike = not any(map(depends_on_rank, load.group("index")[at:end]))
        out.append(int(alike and shares(load.attr("tile")[at:end], box, ctas) is not None))
        at = end
    return tuple(out)
