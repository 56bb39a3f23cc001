"""How many warps a kernel with products gets, and how each product is split over them.

A warp tile of 64x64 reads the least shared memory per multiply-add that registers allow (128 accumulators a thread in
32 bits). Products whose rows are reduced, or feed the left side of another product, as in attention, give whole rows
to each warp: reductions then stay inside a warp and scores become the next left operand without moving.
"""

from __future__ import annotations

from tileiras.compiler.ir.dense import num_elements

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value

PRODUCTS = frozenset(("mmaf", "mmai"))
ACCUMULATORS = 144  # 32-bit registers of a thread that results of products may take
REACH = 64  # ops that a search from one product visits


def choose_warps(func: Op, target: Any, least: int, most: int) -> int | None:
    """Warps for a kernel whose products are staged; None when it has none."""
    from .loops import staged_products

    products = staged_products(func, target)
    if not products:
        return None
    held: dict[Any, int] = {}
    for product in products:
        type: Any = product.result.type
        held[product.block] = held.get(product.block, 0) + num_elements(type.shape) * max(
            1, type.elem.bits // 32
        )
    warps = least
    while warps < most and max(held.values()) > warps * 32 * ACCUMULATORS:
        warps *= 2
    return warps


def row_products(func: Op) -> frozenset[Op]:
    """Products whose warps share out rows only."""
    products = [op for op in func.walk() if op.spec.name in PRODUCTS]
    found: set[Op] = set()
    if len(products) > 1:
        for product in products:
            fed = _reaches(product.result)
            if fed is not None:
                found.add(product)
                if fed.spec.name in PRODUCTS:
                    found.add(fed)
    return frozenset(found)


def _reaches(value: Value) -> Op | None:
    """The product whose left operand, or the reduction along rows that `value` flows into within its block."""
    work, seen = [value], {value}
    best: Op | None = None
    while work and len(seen) < REACH:
        current = work.pop()
        for user, index in current.uses:
            name = user.spec.name
            if name in PRODUCTS:
                if index == 0:
                    return user
            elif name == "reduce":
                if user.attr("dim") == len(current.type.shape) - 1:  # type: ignore[attr-defined]
                    best = user
            elif user.spec.is_pure and not user.regions and name != "permute":
                for result in user.results:
                    if result not in seen:
                        seen.add(result)
                        work.append(result)
    return best
