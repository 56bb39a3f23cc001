"""TileASUnspecializedPipeline (D11): software pipelining of loops, all warps doing the same.

Before, with a pipeline of depth 2:                After:
    for %i = %lb to %ub step 16 {                      produce_one %p { if %lb < %ub { load %lb } }
      produce_one %p { load %i }                       for %i = %lb to %ub step 16 {
      %x = consume_one %p { .. }                         produce_one %p { if %ub - %i > 16 { load %i + 16 } }
      use %x                                             %x = consume_one %p { .. }
    }                                                    use %x
                                                       }

A loop whose shape cannot be pipelined stays as it is: a remark, the bit, and its body is not visited. A loop that loads
nothing itself, or has no pipelines because no stages were asked for, is left alone without a word.
"""

from __future__ import annotations

from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.schedule.candidates import LOOPS, SEARCH
from tileiras.compiler.schedule.refusal import loads, refusal
from tileiras.diag import Emitted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op


class UnspecializedPipeline(Pass):
    NAME = "TileASUnspecializedPipeline"
    SUMMARY = "Software-pipeline the loops that can be (D11)"
    """
    does: software-pipelines loops as far ahead as the stages say, with what their addresses need; names loops that it leaves
    needed: nv_tileas.async.pipeline.create
    called: D11
    """
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        self.visit(func, context)
        return True

    def visit(self, op: Op, context: Context) -> None:
        """Pre-order; the body of a refused loop is skipped."""
        for region in op.regions:
            for block in region.blocks:
                for inner in list(block.ops):
                    if inner.spec.name in LOOPS and self.is_tried(inner):
                        why = refusal(inner, has_ring(inner)) or self.pipeline(inner)
                        if why is not None:
                            self.refuse(inner, why, context)
                            continue
                    if inner.regions:
                        self.visit(inner, context)

    def is_tried(self, loop: Op) -> bool:
        return loads(loop) and not (only_holds_loops(loop) or SEARCH in loop.attrs)

    def pipeline(self, loop: Op) -> str | None:
        """Rewrites a loop that has pipelines; why not, when that cannot be."""
        if not any(op.spec.name == "async.pipeline.produce_one" for op in loop.regions[0].block.ops):
            return None
        from .pipeline_loop import expand

        return expand(loop)

    def refuse(self, loop: Op, why: str, context: Context) -> None:
        from tileiras.compiler.dialects.nv_tileas import diags as D

        notes = [Emitted(D.WHY, loop.loc, facts=(("why", why),))]
        self.miss(context, D.NOT_PIPELINED, loop, notes=notes, function=context.function)


def only_holds_loops(loop: Op) -> bool:
    """A loop around one that is to be pipelined, nothing of which was meant to run ahead itself."""
    producers = [op for op in loop.walk() if op.spec.name == "async.pipeline.produce_one"]
    return bool(producers) and all(op.parent is not loop for op in producers)


def has_ring(loop: Op) -> bool:
    """Whether what runs ahead waits in shared memory."""
    return any(
        op.spec.name == "async.pipeline.produce_one"
        and op.operands[0].op is not None
        and op.operands[0].op.attrs.get("transport") is not None
        for op in loop.regions[0].block.ops
    )
