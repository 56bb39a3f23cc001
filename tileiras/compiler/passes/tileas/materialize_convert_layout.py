"""TileASMaterializeConvertLayout (D09): decides how every convert_layout moves its tile.

Before: `convert_layout %a : tensor<.., #a> -> tensor<.., #b>`. After: with `plan = "rename"`, `"shuffle"` or `"shared"`
(registers, one shuffle a register, a round trip through shared memory); one between equal layouts is gone.
"""

from __future__ import annotations

from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.schedule.exchange import conversion
from tileiras.diag import Emitted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def problem(source: Any, target: Any) -> str | None:
    """Why there is no way from one tensor type to the other; None when there is."""
    if source.elem is not target.elem:
        return f"element type {source.elem} against {target.elem}"
    if source.layout.bits != target.layout.bits:
        return f"{1 << source.layout.bits} elements against {1 << target.layout.bits}"
    if len(source.layout.warp) != len(target.layout.warp):
        return f"{source.layout.num_warps} warps against {target.layout.num_warps}"
    if target.layout.inv & ~source.layout.inv:
        return f"the result ignores index bits {target.layout.inv & ~source.layout.inv} that the source depends on"
    return None


class MaterializeConvertLayout(Pass):
    NAME = "TileASMaterializeConvertLayout"
    SUMMARY = "Choose registers, shuffles or shared memory for every convert_layout (D09)"
    """
    does: registers, shuffles, ldmatrix or shared memory for every `convert_layout`, with swizzle, widths and rounds
    needed: nv_tileas.convert_layout
    called: D09
    """
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        for op in [op for op in func.walk() if op.spec.name == "convert_layout"]:
            source, target = op.operands[0].type, op.results[0].type
            why = problem(source, target)
            if why is not None:
                from tileiras.compiler.dialects.nv_tileas import diags as D

                self.miss(
                    context, D.NOT_DECOMPOSED, op, notes=[Emitted(D.WHY, op.loc, facts=(("why", why),))]
                )
            elif source is target:
                op.results[0].replace_all_uses_with(op.operands[0])
                op.erase()
            else:
                op.attrs = {**op.attrs, **conversion(source, target, context.target)}
        return True
