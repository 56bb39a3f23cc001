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
from tileiras.compiler.ir.core import Op
from tileiras.compiler.ir.passes import Context
from tileiras.compiler.ir.rewrite import Rewriter

from .ring_loops import RingLoop, ring_loops

READS = frozenset((tileas.WGMMA, tileas.WGMMA_REGISTERS))


def release_stages(func: Op, context: Context) -> bool:
    """Does so for every loop that can be. False when an op could not be made."""
    return all(release(ring, context) for ring in list(ring_loops(func)))


def release(ring: RingLoop, context: Context) -> bool:
    body, load = ring.body, ring.load
    barrier = next((op for op in body.ops if op.spec is tileas.BARRIER), None)
    products = [op for op in body.ops if op.spec is tileas.WGMMA_COMMIT]
    if barrier is None or not products or not ring.has_room:
        return True
    if not any(op.spec in READS for op in ring.users):
        return True
    attrs = ring.release_by(1 << len(body.args[0].type.layout.warp))
    Rewriter(context, barrier).create(tileas.BULK_RELEASE, (load.operands[0], ring.put), (), attrs)
    barrier.erase()
    # what its indices need is known
    behind = body.ops[max(body.ops.index(products[0]), body.ops.index(load)) + 1]
    sources = [*load.operands[:3], load.group("index"), ring.wait.operands[2]]
    made = Rewriter(context, behind).create(
        tileas.BULK_LOAD, sources, (), {**load.attrs, "released": ring.released}, loc=load.loc
    )
    load.erase()
    return made is not None and Rewriter(context, ring.end).create(tileas.BARRIER) is not None
