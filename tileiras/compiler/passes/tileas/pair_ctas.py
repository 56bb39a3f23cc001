"""What TileASAssignRoles changes where pairs of CTAs multiply as one (schedule/pairs.py).

    bulk.begin %ring                            bulk.begin %ring
    tensor_memory.begin %all                    tensor_memory.begin %all {pair}
    barrier                                     barrier {cluster}
    agent {id = 0} {                            agent {id = 0} {
      tensor_memory.load %sum, ..                 tensor_memory.load %sum, ..
      tensor_memory.release %sum                  tensor_memory.release %sum {pair}
      ..                                          ..
      tensor_memory.free %all }                   barrier {cluster}
                                                  tensor_memory.free %all {pair} }
    agent {id = 1} { for .. {                   agent {id = 1} { for .. {
      bulk.load %ring, .. } }                     bulk.load %ring, .. {pair, halved = [.., true, ..]} }
                                                  barrier {cluster} }
    agent {id = 2} {                            agent {id = 2} {
      for .. {                                    if %leader { for .. {
        bulk.wait %ring, ..                         bulk.wait %ring, ..
        tensor_memory.product %sum, ..              tensor_memory.product %sum, .. {pair}
        bulk.commit %ring, ..                       bulk.commit %ring, .. {pair}
      }                                           }
      tensor_memory.commit %sum }                 tensor_memory.commit %sum {pair} }
                                                  barrier {cluster} }

Nobody touches another CTA's mbarriers and tensor memory before they are there, or after they are none any more: the cluster waits
for itself in front of the agents and behind them. Of several pairs, `bulk.load` and `bulk.commit` have the `ctas` of all.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.dialects.nv_tileas.rings import span_of
from tileiras.compiler.dialects.nv_tileas.tensor_maps import number_of, replace
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Block, Region
from tileiras.compiler.ir.types import I1, I32, Dense, TensorType, TileType

from .multicast import cluster_barrier

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.schedule.pairs import Pair


def narrow(pair: Pair) -> None:
    """Gives a ring its smaller stages, before agents are made of its function."""
    func, ring = pair.func, pair.ring
    numbers = [tile.number for tile in pair.tiles]
    for tile in pair.tiles:
        if any(tile.halved):
            alone = numbers.count(tile.number) == 1
            tile.number = replace(func, tile.number, tile.map) if alone else number_of(func, tile.map)
    released = pair.barriers + span_of(pair.stage, pair.stages)
    common = {"barriers": pair.barriers, "stage_bytes": pair.stage, "released": released}
    ring.stage, ring.stages, ring.ahead = pair.stage, pair.stages, pair.stages
    readers = pair.ctas // 2 if pair.together else 1  # one thread of each pair commits for it
    ring.begin.attrs = {**ring.begin.attrs, **common, "stages": pair.stages, "readers": readers}
    ring.wait.attrs = {**ring.wait.attrs, "barriers": pair.barriers, "stage_bytes": pair.stage}
    ring.release.attrs = {**ring.release.attrs, **common, "pair": True}
    ring.load.attrs = {
        **ring.load.attrs, **common, "pair": True,
        "maps": tuple(tile.number for tile in pair.tiles),
        "starts": tuple(tile.start for tile in pair.tiles),
        "bytes": tuple(tile.size for tile in pair.tiles),
        "halved": tuple(half for tile in pair.tiles for half in tile.halved),
    }  # fmt: skip
    if pair.together:
        shared = tuple(int(tile.shared) for tile in pair.tiles)
        ring.load.attrs = {**ring.load.attrs, "ctas": pair.ctas, "shared": shared}
        ring.release.attrs = {**ring.release.attrs, "ctas": pair.ctas}
    for op in pair.products:
        op.attrs = pair.product(op)
    assert ring.sums is not None
    memory = ring.sums.memory
    frees = [user for user, _ in memory.result.uses if user.spec is tileas.TENSOR_FREE]
    for op in (memory, *frees, *ring.sums.begins):
        op.attrs = {**op.attrs, "pair": True}


def close(agents: list[Block]) -> None:
    """The cluster waits for itself behind all agents; the first of them gives tensor memory back behind that."""
    for block in agents:
        free = next((op for op in block.ops if op.spec is tileas.TENSOR_FREE), None)
        if free is not None:
            block.insert_before(free, cluster_barrier())
        else:
            block.append(cluster_barrier())


def by_leader(block: Block, layout: Any) -> Block:
    """A block whose ops the leader of a pair alone runs: the CTA with the even rank."""
    number, flag = TensorType(I32, (), layout), TensorType(I1, (), layout)
    out = Block()

    def made(name: str, operands: Any, type: Any, **attrs: Any) -> Any:
        return out.append(create(tileas.BY_NAME[name], operands, (type,), attrs)).result

    def constant(value: int) -> Any:
        return made("constant", (), number, value=Dense(TileType(I32, ()), value.to_bytes(4, "little")))

    second = made("andi", (made("get_cta_rank", (), number), constant(1)), number)
    equal = {"comparison_predicate": "equal", "signedness": "unsigned"}
    leads = made("cmpi", (second, constant(0)), flag, **equal)
    block.append(create(tileas.BY_NAME["yield"], (), (), {}, (), None, (0,)))
    out.append(create(tileas.BY_NAME["if"], (leads,), (), {}, [Region([block]), Region()]))
    return out
