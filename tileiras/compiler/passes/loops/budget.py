"""What the tiles of a function may use, for the passes that run it in parts."""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa.kernel_spec import KEY
from tileiras.compiler.passes.tileaa.slices import HUGE
from tileiras.compiler.target.products import PRODUCTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op
    from tileiras.compiler.ir.passes import Context


def budget_of(func: Op, context: Context) -> tuple[Any, int, int] | None:
    """(target, warps of a block, registers of a thread); None where no target is known, or no kernel spec."""
    from tileiras.compiler.schedule.kernel_spec import registers_of

    spec = func.attrs.get(KEY)
    return (
        None
        if context.target is None or spec is None
        else (context.target, spec.num_warps, registers_of(spec))
    )


def has_big(func: Op) -> bool:
    """Whether any tile of the function is above the limit."""
    return any(HUGE.is_big(r) for op in func.walk() for r in op.results)


def has_products(func: Op) -> bool:
    return any(op.spec.name in PRODUCTS for op in func.walk())


def become(func: Op, new: Op, context: Context) -> None:
    """The function takes the body and the attributes of `new`, which was made from it."""
    if new is not func:
        context.analyses.drop()
        func.attrs, func.regions = new.attrs, new.regions
        for region in func.regions:
            region.op = func
