"""TileAACutHugeTiles: tiles that the registers of a block cannot hold run as loops over slices.

Before: `%s = addf %x, %y : tensor<1048576xf32>`. After: a `for` over 128 slices of 8192 elements each. Products whose
operands are huge and whose sum is not are taken in parts of K first.
"""

from __future__ import annotations

from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.schedule.budget import budget_of

from .whole import become, has_big, has_products

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class CutHugeTiles(Pass):
    NAME = "TileAACutHugeTiles"
    SUMMARY = "Loops over slices of tiles that registers cannot hold"
    """
    does: tiles of more than 2^15 elements run as loops over slices
    without: held whole: local memory, long compiles
    acts: large_gelu_65536 on sm_80
    """
    KEEPS_ANALYSES = True
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        budget = budget_of(func, context)
        if budget is None or not has_big(func):
            return True
        from tileiras.compiler.passes.tileaa.stream_products import stream_products
        from tileiras.compiler.passes.tileaa.strip_mine import strip_mine

        new = func
        if has_products(func):
            new = stream_products(new, budget, huge_only=True)
        become(func, strip_mine(new, budget), context)
        return True
