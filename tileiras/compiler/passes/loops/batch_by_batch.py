"""TileAABatchByBatch: a tile block whose products have a batch dimension runs batch by batch, for warpgroups and tensor memory.

Before: `for %k iter(%s : 2x64x64) { %t = mmaf %a, %b, %s : 2x64x32, 2x32x64, 2x64x64 }; store %s, %v[%z, %i, %j]`.
After:  `for %r in 0 to 2 { for %k iter(%s : 1x64x64) { .. }; store %s, %v[2 %z + %r, %i, %j] }`.

Warpgroups and tensor memory multiply matrices only; TileAADropUnitBatch makes matrices of products of one batch. A batch is what
a CTA of a cluster would do (split_demand.py), its number in the place of the rank. Batches share no operand, or the block stays
whole: nothing is copied twice, and no product or reduction is done twice.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import diags as D
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.layout.linear import log2
from tileiras.compiler.schedule.candidates import outermost_loop
from tileiras.compiler.schedule.kernel_spec import entry_hint
from tileiras.compiler.schedule.products import adds_up
from tileiras.compiler.schedule.staging import feeding_loads
from tileiras.compiler.target import sm, tcgen05, wgmma
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.products import PRODUCTS

from .run_parts import one_behind_the_other
from .whole import become

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op

SUMS = ("f32", "f16")  # TileAAWidenSums makes f32 of the latter


class BatchByBatch(Pass):
    NAME = "TileAABatchByBatch"
    SUMMARY = "Multiply batch by batch what warpgroups and tensor memory take as matrices"
    """
    does: tile blocks whose products have a batch dimension run batch by batch, where warpgroups or tensor memory take a batch
      and are faster
    without: `mma.sync`
    acts: batches on sm_90
    """
    KEEPS_ANALYSES = True
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        from tileiras.compiler.passes.tileaa.split_block import split_block
        from tileiras.compiler.passes.tileaa.split_demand import Refused, division_of

        if entry_hint(func, context.target, "num_cta_in_cga") not in (None, 1):
            return True  # CTAs of a cluster share out the batches
        batches = batches_of(func, context.target)
        if batches > 1:
            try:
                new = split_block(division_of(func, log2(batches)))
            except Refused:
                return True
            if all(op.result.type.shape[0] == 1 for op in new.walk() if op.spec.name in PRODUCTS):  # type: ignore[attr-defined]
                become(func, one_behind_the_other(new, batches), context)
                context.remark(D.RUNS_BATCHES, func, batches=batches)
        return True


def batches_of(func: Op, target: Any) -> int:
    """How many batches all of a function's products have, where each is a loop's and taken as matrices; else 1."""
    products = [op for op in func.walk() if op.spec.name in PRODUCTS]
    counts = {op.result.type.shape[0] if len(op.result.type.shape) == 3 else 1 for op in products}  # type: ignore[attr-defined]
    if len(counts) != 1 or not all(taken_as_matrices(op, target) for op in products):
        return 1
    return int(counts.pop())


def taken_as_matrices(product: Op, target: Any) -> bool:
    """Whether warpgroups or tensor memory take a batch of a loop's product, and what is loaded for it has batches as well."""
    left: Any = product.operands[0].type
    type: Any = product.result.type
    if target is None or product.spec.name != "mmaf" or left.elem.bits != 16 or type.elem.name not in SUMS:
        return False
    (rows, columns), depth = type.shape[-2:], left.shape[-1]
    if rows < wgmma.M and adds_up(product) is not None:
        rows, columns = columns, rows  # TileAATurnFewRows turns it
    if target.has(sm.TCGEN05):
        fits = tcgen05.fits((rows, columns), tcgen05.WARPGROUP) and depth >= CostModel.warpgroup_depth
    else:
        fits = target.has(sm.WGMMA) and rows >= wgmma.M and columns >= wgmma.MIN_N
        fits = fits and depth >= CostModel.batch_depth and rows * columns * depth >= CostModel.batch_fma
    if not fits or outermost_loop(product) is None:
        return False
    loads = [load for feeding in feeding_loads(product, product.block) for load in feeding]
    return all(load.result.type.shape[:1] == type.shape[:1] for load in loads)  # type: ignore[attr-defined]
