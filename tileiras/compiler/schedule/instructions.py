"""The mma.sync instruction of a product: the one place that asks the target's table for it.

Where a product goes by wgmma or tcgen05, the fragments of this instruction are still what its operands have in registers.
"""

from __future__ import annotations

from tileiras.compiler.target import sm
from tileiras.compiler.target.mma import SCALED_ATOM, find_atom, find_scaled
from tileiras.compiler.target.products import SCALED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op
    from tileiras.compiler.target.mma import Atom


def mma_sync(product: Op, target: Any) -> Atom | None:
    """Shape and opcode for a product's types; None where the target has none: FMA code multiplies then. With block scales,
    fragments are of bytes wherever there is mma.sync for more than f16."""
    if product.spec.name == SCALED:
        return SCALED_ATOM if target.has(sm.MMA_SM80) else None
    signed = (True, True)
    if product.spec.name == "mmai":
        signed = (product.attr("signedness_lhs") == "signed", product.attr("signedness_rhs") == "signed")
    return find_atom(target, product.operands[0].type.elem.name, signed)  # type: ignore[attr-defined]


def scaled_form(product: Op) -> tuple[str, str, int]:
    """Element, scale and elements of a block of a product with block scales."""
    scale: Any = product.operands[3].type
    return product.attr("element").name, scale.elem.name, product.attr("block")


def block_scaled(product: Op, target: Any) -> str | None:
    """The opcode of a product with block scales; None for others, and where the target has none."""
    if product.spec.name != SCALED:
        return None
    return find_scaled(target, *scaled_form(product))
