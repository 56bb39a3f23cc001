"""TileASOptimizePipelineRegion (D13): moves out of the regions of pipelined loops what need not be inside.

Before: `produce_one %p { %o = muli ..; load %o; yield }`. After: `%o = muli ..`, `produce_one %p { load %o; yield }`.

A function in which D11 left a loop synchronous is skipped.
"""

from __future__ import annotations

from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.spec import NO_MEMORY_EFFECT, PURE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op

REGIONS = frozenset(("async.pipeline.produce_one", "async.pipeline.consume_one"))
D11 = "TileASUnspecializedPipeline"


class OptimizePipelineRegion(Pass):
    NAME = "TileASOptimizePipelineRegion"
    SUMMARY = "Shrink the regions of produce_one and consume_one (D13)"
    """
    does: moves out of pipeline regions what need not be inside
    without: stays inside; the same PTX
    acts: in the dump alone
    called: D13
    """
    OPTIONS = (("ignore-predecessor", False, "Walk functions that D11 left synchronous, too"),)
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        d11 = context.lookup(D11)
        if d11 is not None and d11.soft_failed and not self.options["ignore-predecessor"]:
            return True
        for op in [op for op in func.walk() if op.spec.name in REGIONS]:
            context.event("visit", self.NAME, op.spec.full_name)
            shrink(op)
        return True


def shrink(op: Op) -> None:
    """Pure ops that use nothing of the region stand in front of it."""
    assert op.block is not None
    body = op.regions[0].block
    inside = set(body.args)
    for inner in list(body.ops):
        movable = (
            bool(inner.spec.traits & (PURE | NO_MEMORY_EFFECT))
            and not inner.regions
            and not inner.spec.is_terminator
        )
        if movable and not inside.intersection(inner.operands):
            body.ops.remove(inner)
            op.block.insert_before(op, inner)
        else:
            inside.update(inner.results)
