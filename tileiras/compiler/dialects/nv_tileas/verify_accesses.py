"""How wide accesses of global memory are, as far as layouts tell: a thread has as many neighbours, in 16 bytes at most.

Whether they are aligned, and inside of the tensor together, facts tell: TileASPlaceShared asks them.
"""

from __future__ import annotations

from tileiras.compiler.ir.verify import Invalid
from tileiras.compiler.ir.views import unit_dim
from tileiras.compiler.layout.linear import dim_bits, log2, neighbours
from tileiras.diag import Catalogue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op

D = Catalogue("tileiras.compiler.dialects.nv_tileas.diags")
WIDEST_BYTES = 16  # that one instruction of a thread moves


def check_widths(op: Op) -> None:
    layout = op.attrs["layout"] if "layout" in op.attrs else op.results[0].type.layout  # type: ignore[attr-defined]
    if layout is None:
        return
    most = _most(op, layout)
    for name in ("vector", "together"):
        given = op.attrs.get(name, 0)
        if not 0 <= given <= most:
            why = f"expected at least 0 and at most {most}, the neighbours in memory that a thread has"
            raise Invalid(D.WIDE, name=name, given=given, why=why)
    parts = op.attrs.get("apart", 1)
    weak = op.attr("memory_ordering_semantics") == "weak"
    if "apart" in op.attrs and (not weak or parts < 1 or layout.num_regs % parts):
        why = f"expected a weak access of so many of a thread's {layout.num_regs} elements at a time"
        raise Invalid(D.WIDE, name="apart", given=parts, why=why)
    if op.attrs.get("vector") and op.attr("memory_ordering_semantics") != "weak":
        raise Invalid(
            D.WIDE, name="vector", given=op.attrs["vector"], why="each element of a strong access goes alone"
        )


def _most(op: Op, layout: Any) -> int:
    """log2 of the elements of a thread that may be neighbours; of pointers, along any dimension."""
    if "view" in op.spec.operand_index:
        type: Any = op.operand("view").type  # type: ignore[union-attr]
        unit = unit_dim(type)
        return (
            0
            if unit < 0
            else neighbours(layout, *dim_bits(type.tile)[unit], log2(WIDEST_BYTES // type.view.elem.bytes))
        )
    pointers: Any = next(v.type for v in op.operands if hasattr(getattr(v.type, "elem", None), "pointee"))
    size = pointers.elem.pointee.bytes
    return max(
        (neighbours(layout, *span, log2(WIDEST_BYTES // size)) for span in dim_bits(pointers.shape)),
        default=0,
    )
