"""Rings that bulk copies fill and warpgroups read: warps release the stages, and no barrier holds up the loop.

    for .. {                                    for .. {
      bulk.wait %ring, %take, %phase              bulk.wait %ring, %take, %phase
      wgmma.wait_group {pending = 1}              wgmma.wait_group {pending = 1}
      barrier                                     bulk.release %ring, %put
      bulk.load %ring, %put, %more, ..            wgmma ..
      wgmma ..                                    bulk.load %ring, %put, %more, .., %phase
    }                                           }
                                                barrier

The stage that is overwritten was filled in the loop as often as the one that is read was read: their phases are the same.
Each warp arrives once for every use of a stage, and the thread that issues waits for all of them, when the first product of
its own warpgroup is on its way. No warp gets two uses of a stage ahead of another: it would wait for copies that nobody issued.
The barrier behind the loop lets nobody wait for mbarriers that are none any more.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.dialects.nv_tileas.rings import RESERVED_BYTES, span_of
from tileiras.compiler.ir.core import Op
from tileiras.compiler.ir.passes import Context
from tileiras.compiler.ir.rewrite import Rewriter

# what reads or writes shared memory in the generic way needs the barrier; exchanges have places and barriers of their own
GENERIC = frozenset((tileas.LOAD_SHARED, tileas.STORE_SHARED, tileas.COPY_VIEW, tileas.COPY_POINTERS))
READS = frozenset((tileas.WGMMA, tileas.WGMMA_REGISTERS))


def release_stages(func: Op, context: Context) -> bool:
    """Does so for every loop that can be. False when an op could not be made."""
    return all(release(op, context) for op in [op for op in func.walk() if op.spec is tileas.BULK_BEGIN])


def release(begin: Op, context: Context) -> bool:
    ring = begin.operands[0]
    users = [user for user, _ in ring.uses]
    waits = [op for op in users if op.spec is tileas.BULK_WAIT]
    loop = waits[0].parent if len(waits) == 1 else None
    if loop is None or loop.spec.name != "for":
        return True
    body = loop.regions[0].block
    loads = [op for op in users if op.spec is tileas.BULK_LOAD and op.block is body]
    ends = [op for op in users if op.spec is tileas.BULK_END]
    barrier = next((op for op in body.ops if op.spec is tileas.BARRIER), None)
    products = [op for op in body.ops if op.spec is tileas.WGMMA_COMMIT]
    stage, stages = begin.attr("stage_bytes"), begin.attr("stages")
    room = 2 * span_of(stage, stages) <= RESERVED_BYTES
    if barrier is None or not products or len(loads) != 1 or len(ends) != 1 or not room:
        return True
    if any(op.spec in GENERIC for op in loop.walk()) or not any(op.spec in READS for op in users):
        return True
    load = loads[0]
    put = load.operands[1]
    if put.op is not None or put.owner is not body:
        return True  # one stage only
    released = begin.attr("barriers") + span_of(stage, stages)
    where = {name: begin.attr(name) for name in ("barriers", "stage_bytes")}
    readers = 1 << len(body.args[0].type.layout.warp)  # type: ignore[attr-defined]
    begin.attrs = {**begin.attrs, "released": released, "readers": readers}
    ends[0].attrs = {**ends[0].attrs, "released": released}
    Rewriter(context, barrier).create(tileas.BULK_RELEASE, (ring, put), (), {**where, "released": released})
    barrier.erase()
    behind = body.ops[
        max(body.ops.index(products[0]), body.ops.index(load)) + 1
    ]  # what its indices need is known
    sources = [*load.operands[:3], load.group("index"), waits[0].operands[2]]
    made = Rewriter(context, behind).create(
        tileas.BULK_LOAD, sources, (), {**load.attrs, "released": released}, loc=load.loc
    )
    load.erase()
    return made is not None and Rewriter(context, ends[0]).create(tileas.BARRIER) is not None
