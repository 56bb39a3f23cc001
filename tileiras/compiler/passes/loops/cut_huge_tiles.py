"""TileAACutHugeTiles: tiles that the registers of a block cannot hold run as loops over slices.

Before: `%s = addf %x, %y : tensor<1048576xf32>`. After: a `for` over 128 slices of 8192 elements each. Products whose
operands are huge and whose sum is not are taken in parts of K first.

Keys and values of 128 rows and 512 columns stay whole where they only wait for products of their loop: they travel through shared
memory, in parts (`schedule/queue.py`, `schedule/steps.py`).
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa.kernel_spec import KEY
from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.passes.tileaa.slices import HUGE
from tileiras.compiler.schedule.budget import budget_of
from tileiras.compiler.target.cost import CostModel

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
        if budget is None or not has_big(func) or are_staged(func, budget.target, context):
            return True
        from tileiras.compiler.passes.tileaa.stream_products import stream_products
        from tileiras.compiler.passes.tileaa.strip_mine import strip_mine

        new = func
        if has_products(func):
            new = stream_products(new, budget, huge_only=True)
        become(func, strip_mine(new, budget), context)
        return True


def are_staged(func: Any, target: Any, context: Context) -> bool:
    """Whether all huge tiles of a function are at most twice as large as registers hold, and loaded in loops for products whose
    loads are staged."""
    if func.attrs[KEY].num_stages == 1:
        return False
    huge = [v for op in func.walk() for v in op.results if HUGE.is_big(v)]
    if any(num_elements(v.type.shape) > 2 * CostModel.huge_elements for v in huge):  # type: ignore[attr-defined]
        return False
    from tileiras.compiler.schedule.loops import staged_products
    from tileiras.compiler.schedule.staging import RENAMES

    staged = context.analyses.get(staged_products, func)
    copied = {plan.op for plans in staged.values() for plan in plans}
    for value in huge:
        maker = value.op
        if maker is None or not (maker in copied or maker.spec.name in RENAMES):
            return False
        for user, index in value.uses:
            if user.spec.name not in RENAMES and not (user in staged and index < 2):
                return False
    return not any(
        HUGE.is_big(arg) for op in func.walk() for r in op.regions for b in r.blocks for arg in b.args
    )
