"""Rings that threads fill by cp.async and warpgroups read: copies arrive on mbarriers, and no barrier holds up the loop.

    async.copy_view %ring, 0, ..                bulk.begin %ring {arrivals = 256, readers = 8}
    async.commit_group                          barrier
    ..                                          async.copy_view %ring, 0, ..
    for .. {                                    async.arrive %ring, 0, %any
      async.wait_group {pending = 2}            ..
      wgmma.wait_group {pending = 1}            for .. {
      barrier {proxy_fence}                       bulk.wait %ring, %take, %phase {proxy_fence}
      async.copy_view %ring, %put, %more, ..      wgmma.wait_group {pending = 1}
      async.commit_group                          bulk.release %ring, %put
      wgmma ..                                    wgmma ..
    }                                             bulk.acquire %ring, %put, %phase
                                                  async.copy_view %ring, %put, %more, ..
                                                  async.arrive %ring, %put, %more
                                                }
                                                barrier
                                                bulk.end %ring

Every thread arrives on a stage's mbarrier when its own copies have landed. Who multiplies waits for all of them. What cp.async
wrote, it wrote in the generic way: the fence towards what tensor cores read stands behind that wait, in every warp whose
products read, for a thread that copies would have to wait for its own copies first. The stage that is overwritten was filled in
the loop as often as the one that is read was read, so that their phases are the same. All threads copy, or warps of their own
(TileASAssignRoles). Threads may read the stages as well, operands that are rounded on their way or rows of statistics: a warp
releases a stage when all its threads have read it.

A warp and step issue a few instructions more than with a group and a barrier: where schedulers, not tensor cores or copies, are
what a loop waits for (attention with short rows), it stays as it is.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import diags as D
from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.dialects.nv_tileas.rings import span_of
from tileiras.compiler.ir.core import Op
from tileiras.compiler.ir.passes import Context
from tileiras.compiler.schedule.issue import busy_clocks, issue_clocks
from tileiras.compiler.target.cost import CostModel

from .arrive_stages import COPIES, CopiedRing, NotAlone, carried
from .commit_stages import Change, turns
from .place_shared import ALIGN
from .release_stages import READS


def arrive_warpgroups(func: Op, context: Context) -> bool:
    """Does so for every loop that can be. False when an op could not be made."""
    found, waiting = [], []
    for alloc in [op for op in func.walk() if op.spec is tileas.ALLOC_SHARED]:
        loop = next(
            (user.parent for user, _ in alloc.result.uses if user.spec in COPIES and multiplies(user)), None
        )
        if loop is None:
            continue
        try:
            ring = CopiedRing(alloc, READS | {tileas.LOAD_SHARED}, frozenset())
            check_room(func, ring, context)
            found.append(ring)
        except NotAlone as reason:
            context.remark(D.NO_ARRIVALS, loop, reason=str(reason))
            continue
        clocks = (
            issue_clocks(ring.body, warps_of(ring), CostModel.arrival_instructions),
            busy_clocks(ring.body, warps_of(ring), context.target),
        )
        if clocks[0] > clocks[1]:
            waiting.append((loop, clocks))
    if found and len(waiting) == len(found):  # what a mask adds to a loop's last steps does not count
        for loop, (issue, busy) in waiting:
            slow = f"its instructions take {issue} clocks, its products and copies {busy}"
            context.remark(D.NO_ARRIVALS, loop, reason=slow)
        return True
    return all(arrive(ring, Change(context)) for ring in found)


def multiplies(op: Op) -> bool:
    """Whether an op stands beside products of warpgroups in a loop."""
    loop = op.parent
    return (
        loop is not None
        and loop.spec.name == "for"
        and any(o.spec is tileas.WGMMA_COMMIT for o in loop.walk())
    )


def warps_of(ring: CopiedRing) -> int:
    return 1 << len(ring.body.args[0].type.layout.warp)


def barrier_bytes(ring: CopiedRing) -> int:
    """Of shared memory, for both rows of mbarriers."""
    return 2 * span_of(ring.stage, ring.stages) + ALIGN - 1 & -ALIGN


def check_room(func: Op, ring: CopiedRing, context: Context) -> None:
    """Whether mbarriers fit behind the stages: no other buffer lives there meanwhile, and no block fewer fits an SM. Errors:
    NotAlone."""
    alloc = ring.alloc
    start = alloc.attr("offset") + alloc.attr("bytes")
    more = barrier_bytes(ring)
    order = {op: number for number, op in enumerate(func.walk())}

    def span(op: Op) -> tuple[int, int]:
        return order[op], max((order[user] for user, _ in op.result.uses), default=order[op])

    begins, ends = span(alloc)
    most = 0
    for other in [op for op in order if op.spec is tileas.ALLOC_SHARED]:
        first, behind = other.attr("offset"), other.attr("offset") + other.attr("bytes")
        most = max(most, behind)
        since, until = span(other)
        if other is not alloc and first < start + more and behind > start and since < ends and until > begins:
            raise NotAlone("another buffer lies behind the stages, where mbarriers would")
    after = max(most, start + more)
    blocks = [CostModel.shared_of_sm // (size + CostModel.shared_of_block) for size in (most, after)]
    if after > CostModel(context.target).shared_bytes or blocks[0] != blocks[1]:
        raise NotAlone("shared memory has no room for mbarriers, or holds a block fewer with them")


def arrive(ring: CopiedRing, change: Change) -> bool:
    loop, body, alloc = ring.loop, ring.body, ring.alloc
    buffer = alloc.result
    bars = {"barriers": alloc.attr("bytes"), "stage_bytes": ring.stage}
    released = {**bars, "released": bars["barriers"] + span_of(ring.stage, ring.stages)}
    alloc.attrs = {**alloc.attrs, "bytes": alloc.attr("bytes") + barrier_bytes(ring)}
    warps = warps_of(ring)
    start = ring.ahead[0][0][0]
    counts = {"stages": ring.stages, "readers": warps, "arrivals": 32 * warps}
    change.make(start, tileas.BULK_BEGIN, (buffer,), (), {**released, **counts})
    change.make(start, tileas.BARRIER, attrs={"proxy_fence": True})
    for group, closes in ring.ahead:
        change.make(closes, tileas.ASYNC_ARRIVE, (buffer, *group[0].operands[1:3]), (), bars)
        closes.erase()
    phase = carried(loop, change, 0, ring.take.type, turns(body, ring.take))
    top = ring.wait
    change.make(top, tileas.BULK_WAIT, (buffer, ring.take, phase), (), {**bars, "proxy_fence": True})
    threads = {"threads": True} if any(op.spec is tileas.LOAD_SHARED for op in ring.products) else {}
    change.make(ring.barrier, tileas.BULK_RELEASE, (buffer, ring.put), (), {**released, **threads})
    first = next(op for op in body.ops if op.spec is tileas.WGMMA_COMMIT)
    behind = body.ops[max(body.ops.index(op) for op in (first, *ring.begins, ring.commit)) + 1]
    change.make(behind, tileas.BULK_ACQUIRE, (buffer, ring.put, phase), (), released)
    for op in ring.begins:
        body.ops.remove(op)
        body.insert_before(behind, op)
    change.make(behind, tileas.ASYNC_ARRIVE, (buffer, *ring.begins[0].operands[1:3]), (), bars)
    for op in (ring.wait, ring.barrier, ring.commit):
        op.erase()
    frees = next(op for op, _ in buffer.uses if op.spec is tileas.FREE_SHARED)
    change.make(frees, tileas.BARRIER)
    change.make(frees, tileas.BULK_END, (buffer,), (), {**released, "stages": ring.stages})
    return not change.failed
