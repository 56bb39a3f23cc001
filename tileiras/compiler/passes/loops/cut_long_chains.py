"""TileAACutLongChains: long chains of elementwise ops run as loops over slices that fit registers well.

Before: forty ops on `tensor<4096xf32>`. After: a `for` over slices with the forty ops, unrolled by nobody. Only functions
that are elementwise throughout, multiply no matrices and hold no huge tile.
"""

from __future__ import annotations

from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.types import TensorType
from tileiras.compiler.schedule.budget import budget_of
from tileiras.compiler.target.cost import CostModel

from .whole import become, has_big, has_products

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class CutLongChains(Pass):
    NAME = "TileAACutLongChains"
    SUMMARY = "Loops over slices for long chains of elementwise ops"
    """
    does: long elementwise chains run as loops over slices
    without: unrolled
    acts: large_gelu_16384 on sm_80
    """
    KEEPS_ANALYSES = True
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        budget = budget_of(func, context)
        work = 0
        for op in func.walk():
            for r in op.results:
                if isinstance(r.type, TensorType):
                    work += num_elements(r.type.shape)
        if budget is None or work < CostModel.chain_work * budget.num_warps:
            return True
        from tileiras.compiler.passes.tileaa.long_chains import cut_long_chains

        if not func.attrs.get("strip_mined") and not has_big(func) and not has_products(func):
            become(func, cut_long_chains(func, budget.num_warps), context)
        return True
