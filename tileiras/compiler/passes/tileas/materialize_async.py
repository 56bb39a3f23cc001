"""TileASMaterializeAsync (D08): every transfer becomes its two halves, a producer and a consumer region.

Before: `%x = async.pipeline.transfer %p { ..; yield %v }`.
After:  `async.pipeline.produce_one %p { ..; yield %v }`, `%x = async.pipeline.consume_one %p { ^bb0(%a): yield %a }`.

All producers of one pipeline must use one kind of instruction: the consumer waits for it in one way. A pipeline where
they differ is left alone, with an error; the others are materialised.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import diags as D
from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Block, Op, Region, Value
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.rewrite import Rewriter
from tileiras.diag import Emitted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PRODUCE_LIKE = frozenset(spec.name for spec in tileas.PRODUCE_LIKE)
KINDS = {
    "async.tiled_tma_load": "TMA",
    "async.copy": "cp.async",
    "load_view_tko": "load",
    "load_ptr_tko": "load",
}


def instruction_kind(producer: Op) -> str:
    """The class of the instruction that fills the pipeline: TMA, cp.async, load, or compute."""
    for op in producer.walk():
        kind = KINDS.get(op.spec.name)
        if kind is not None:
            return kind
    return "compute"


def pipelines_of(func: Op) -> list[Value]:
    return [op.result for op in func.walk() if op.spec is tileas.CREATE]


def producers_on(func: Op, pipeline: Value) -> list[Op]:
    """Producer-like ops of a pipeline in program order."""
    return [op for op in func.walk() if op.spec.name in PRODUCE_LIKE and op.operands[0] is pipeline]


class MaterializeAsync(Pass):
    NAME = "TileASMaterializeAsync"
    SUMMARY = "Split every transfer through a pipeline into produce_one and consume_one (D08)"
    """
    does: a transfer becomes `produce_one` and `consume_one`
    needed: nv_tileas.async.pipeline.create
    called: D08
    """
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        for pipeline in pipelines_of(func):
            producers = producers_on(func, pipeline)
            if not self.same_instruction(producers, context):
                continue
            for op in producers:
                if op.spec is tileas.TRANSFER and not self.split(op, context):
                    return False
        return True

    def same_instruction(self, producers: list[Op], context: Context) -> bool:
        """Compares every producer with the first; stops at the first difference."""
        for op in producers[1:]:
            first, got = instruction_kind(producers[0]), instruction_kind(op)
            if got != first:
                why = f"'{op.spec.full_name}' uses {got}, the first producer of the pipeline uses {first}"
                self.miss(
                    context,
                    D.TWO_INSTRUCTIONS,
                    op,
                    notes=[Emitted(D.WHY, producers[0].loc, facts=(("why", why),))],
                )
                return False
        return True

    def split(self, op: Op, context: Context) -> bool:
        pipeline = op.operands[0]
        types = [r.type for r in op.results]
        region = op.regions[0]
        op.regions = []
        rewriter = Rewriter(context, op)
        produced = rewriter.create(tileas.PRODUCE_ONE, [pipeline], (), {}, [region])
        block = Block(types)
        block.append(create(tileas.PIPELINE_YIELD, list(block.args), loc=op.loc, segments=(len(types),)))
        consumed = rewriter.create(tileas.CONSUME_ONE, [pipeline], types, {}, [Region([block])])
        if produced is None or consumed is None:
            return False
        rewriter.replace(op, consumed.results)
        return True
