"""What the passes that run a function in parts ask of it, and how they hand it back."""

from __future__ import annotations

from tileiras.compiler.passes.tileaa.slices import HUGE
from tileiras.compiler.target.products import PRODUCTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tileiras.compiler.ir.core import Op
    from tileiras.compiler.ir.passes import Context


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
