"""TileAAStreamProducts: products whose operands are too deep for the registers load and multiply parts of K in a loop.

Before: `%a = load : 64x512`, `%b = load : 512x64`, `mmaf %a, %b, %c`. After: a `for` over four parts that loads 64x128 and
128x64 and adds up. Products whose operands wait in shared memory anyway stay as they are.
"""

from __future__ import annotations

from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.schedule.budget import budget_of

from .whole import become, has_products

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class StreamProducts(Pass):
    NAME = "TileAAStreamProducts"
    SUMMARY = "Multiply operands that are too deep for the registers in parts of K"
    """
    does: products too deep for the registers are taken in parts of K
    without: held whole
    acts: large_matmul_64x64x256 on sm_80
    """
    KEEPS_ANALYSES = True
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        budget = budget_of(func, context)
        if budget is None or not has_products(func):
            return True
        from tileiras.compiler.passes.tileaa.stream_products import stream_products
        from tileiras.compiler.schedule.loops import staged_products

        staged = context.analyses.get(staged_products, func)
        become(func, stream_products(func, budget, staged=staged), context)
        return True
