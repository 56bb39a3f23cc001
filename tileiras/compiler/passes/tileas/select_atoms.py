"""TileASSelectAtoms: the instruction of every product that is left as one op.

Before: `mmaf %a, %b, %c`, perhaps with `atom = "wgmma"` that TileASWarpgroupProducts could not grant. After: with
`atom = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"`, or `"fma"` where the target has none for the type.
"""

from __future__ import annotations

from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.schedule.instructions import block_scaled, mma_sync
from tileiras.compiler.target.mma import FMA
from tileiras.compiler.target.products import PRODUCTS, SCALED

from .fragments import off_fragments, on_fragments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class SelectAtoms(Pass):
    NAME = "TileASSelectAtoms"
    SUMMARY = "Name the instruction of every product that no other pass has lowered"
    """
    does: names the instruction of every product that is left, or `fma`
    needed: nv_tileas.mmaf on sm_80
    """
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        for op in list(func.walk()):
            if op.spec.name == SCALED:
                found = block_scaled(op, context.target)
                if "atom" in op.attrs and found is not None and not on_fragments(op, context):
                    return False
                if found is not None:
                    op.attrs = {**op.attrs, "atom": found}
            elif op.spec.name in PRODUCTS:
                atom = mma_sync(op, context.target)
                if "atom" in op.attrs and atom is not None and not on_fragments(op, context):
                    return False
                op.attrs = {**op.attrs, "atom": FMA if atom is None else atom.opcode}
                if atom is None:
                    off_fragments(op)
        return True
