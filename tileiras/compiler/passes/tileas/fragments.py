"""Products that were laid out for another instruction and stay with mma.sync after all, or with multiply-adds."""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.core import Op
from tileiras.compiler.ir.passes import Context
from tileiras.compiler.ir.rewrite import Rewriter
from tileiras.compiler.ir.types import TensorType
from tileiras.compiler.layout import convert
from tileiras.compiler.layout.linear import blocked
from tileiras.compiler.schedule.exchange import make_conversion
from tileiras.compiler.schedule.instructions import mma_sync
from tileiras.compiler.schedule.multiply_adds import in_fragments
from tileiras.compiler.schedule.products import scale_layout
from tileiras.compiler.target import mma as atoms
from tileiras.compiler.target import wgmma
from tileiras.compiler.target.cost import CostModel

from .staged_operands import source_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def on_fragments(op: Op, context: Context) -> bool:
    """A product that stays with mma.sync takes fragments, whatever its surroundings have."""
    type: Any = op.result.type
    atom = mma_sync(op, context.target)
    op.attrs = {name: value for name, value in op.attrs.items() if name != "atom"}
    warps = len(type.layout.warp)
    assert atom is not None and op.block is not None
    groups = wgmma.split_warps(type.shape, warps)
    split = atoms.split_warps(type.shape, atom, warps, warps)
    if groups is not None and atoms.accumulator_layout(type.shape, atom, groups) is type.layout:
        split = groups  # the sums lie right for mma.sync as well
    want = atoms.accumulator_layout(type.shape, atom, split)
    rewriter = Rewriter(context, op)
    for index, value in enumerate(op.operands):
        have: Any = value.type
        if index > 2:
            layout = scale_layout(op, index - 3, have, split, context.target)
        else:
            layout = want if index == 2 else atoms.operand_layout(have.shape, atom, index, split)
        if convert.plan(have.layout, layout).kind == convert.RENAME:
            continue
        made = make_conversion(rewriter, value, TensorType(have.elem, have.shape, layout))
        if made is None:
            return False
        op.set_operand(index, made.result)
    if type.layout is want:
        return True
    op.result.type = TensorType(type.elem, type.shape, want)
    following = op.block.ops[op.block.ops.index(op) + 1]
    users = list(op.result.uses)
    back = make_conversion(Rewriter(context, following), op.result, type)
    if back is None:
        return False
    for user, at in users:
        user.set_operand(at, back.result)
    return True


def off_fragments(op: Op) -> None:
    """A product by multiply-add whose operands do not both wait in shared memory takes them as they lie, to exchange them itself:
    of all of K, threads would hold too much."""
    if not in_fragments(op) or all(source_of(value) is not None for value in op.operands[:2]):
        return
    for index, value in enumerate(op.operands[:2]):
        maker, type = value.op, value.type
        if maker is not None and maker.spec is tileas.CONVERT_LAYOUT and len(value.uses) == 1:
            op.set_operand(index, maker.operands[0])
            maker.erase()
        elif maker is not None and maker.spec is tileas.LOAD_SHARED and len(value.uses) == 1:
            shape: Any = type.shape  # type: ignore[attr-defined]
            order = tuple(reversed(range(len(shape))))
            layout = blocked(shape, order, CostModel.log2_vector, len(type.layout.warp))  # type: ignore[attr-defined]
            value.type = TensorType(type.elem, shape, layout)  # type: ignore[attr-defined]
