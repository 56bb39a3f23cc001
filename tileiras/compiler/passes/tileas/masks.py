"""Tiles made of rows and columns, as the mask `%m = cmpi (broadcast %row), (broadcast %column)`, in the layout that is wanted.

Before: `%r = broadcast %row`, `%m = cmpi %r, %c`, `%z = convert_layout %m : 128x64xi1`.
After:  `%s = convert_layout %row : 128x1`, `%r = broadcast %s`, .., `%z = cmpi %r, %c`: what moves are a few numbers a thread.
What stands in front of a loop changes its layout there. Products of scales, of rows and of columns, and pointers go so, too.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.core import Op, Value
from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.ir.rewrite import Rewriter
from tileiras.compiler.ir.types import I8, TensorType
from tileiras.compiler.ir.walk import erase_unused, held_in, is_pure
from tileiras.compiler.layout.linear import unbroadcasted, with_inv
from tileiras.compiler.schedule.staging import is_elementwise
from tileiras.compiler.target.cost import CostModel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.passes import Context


def move_to_parts(convert: Op, context: Context) -> bool:
    """Makes the tile behind a conversion anew from its rows and columns; False, and nothing done, where it is not made so."""
    result: Any = convert.result.type
    ops: list[Op] = []
    spread: list[Op] = []
    work = [convert.operands[0]]
    while work:
        value = work.pop()
        op = value.op
        if value.type.layout.is_splat:  # type: ignore[attr-defined]
            continue
        while op is not None and op.spec is tileas.CONVERT_LAYOUT:
            op = op.operands[0].op
        if op is None or value.type.shape != result.shape:  # type: ignore[attr-defined]
            return False
        if op.spec.name == "broadcast":
            source: Any = op.operands[0].type
            if num_elements(source.shape) * CostModel.small_load_part > num_elements(result.shape):
                return False
            spread.append(op)
        elif is_elementwise(op) and op.segments is None and is_made_for(op, convert):
            ops.append(op)
            work += op.operands
        else:
            return False
    if not ops or len(ops) > CostModel.mask_operations or not spread:
        return False
    if with_inv(result.layout, ops[0].results[0].type.layout.inv) is not result.layout:  # type: ignore[attr-defined]
        return False
    made: dict[Op, Value] = {}
    here = Rewriter(context, convert)
    for op in reversed([*ops, *dict.fromkeys(spread)]):
        old: Any = op.results[0].type
        type = TensorType(old.elem, old.shape, with_inv(result.layout, old.layout.inv))
        if op in spread:
            operands = [
                part(
                    op.operands[0],
                    unbroadcasted(result.layout, op.operands[0].type.shape, old.shape),
                    convert,
                    context,
                )
            ]  # type: ignore[attr-defined]
        else:
            operands = [v if v.type.layout.is_splat else made[behind(v)] for v in op.operands]  # type: ignore[attr-defined]
        if None in operands or (new := here.create(op.spec, operands, (type,), dict(op.attrs))) is None:
            return False
        new.loc = op.loc
        made[op] = new.result
    here.replace(convert, [made[ops[0]]])
    for op in ops:  # conversions between rows and tiles that are made anew would still meet in shared memory
        erase_unused(op, is_pure)
    return True


def is_made_for(op: Op, convert: Op) -> bool:
    """Whether a tile is made for what is converted alone, or is a mask from in front of a loop by which numbers are chosen: it is
    made again."""
    if op.block is convert.block:
        return len(op.result.uses) == 1
    chooses = getattr(convert.result.type.elem, "is_float", False)  # type: ignore[attr-defined]
    return chooses and op.spec.name == "cmpi" and held_in(op.block, convert) is not None


def behind(value: Value) -> Op:
    """The op that makes a value, before changes of its layout."""
    op = value.op
    while op is not None and op.spec is tileas.CONVERT_LAYOUT:
        op = op.operands[0].op
    assert op is not None
    return op


def part(value: Value, layout: Any, convert: Op, context: Context) -> Value | None:
    """A row or a column in a layout, changed where it is made: in front of the loops that it does not depend on. What was
    changed so before is not changed again, and what was widened, as numbers of rows are for addresses, is widened behind it."""
    while value.op is not None and value.op.spec is tileas.CONVERT_LAYOUT:
        value = value.op.operands[0]
    type: Any = value.type
    want = TensorType(type.elem, type.shape, with_inv(layout, type.layout.inv))
    if type.layout.is_splat or want.layout is type.layout:
        return value
    home: Any = value.op.block if value.op is not None else value.owner
    anchor = held_in(home, convert)
    if anchor is None:
        return None
    if value.op is not None and is_widened(value.op):
        narrow = part(value.op.operands[0], layout, convert, context)
        if narrow is None:
            return None
        made = Rewriter(context, anchor).create(value.op.spec, (narrow,), (want,), dict(value.op.attrs))
        return made.result if made is not None else None
    for user, _ in value.uses:
        if user.spec is tileas.CONVERT_LAYOUT and user.block is home and user.result.type == want:
            if home.ops.index(user) < home.ops.index(anchor):  # type: ignore[union-attr]
                return user.result
    made = Rewriter(context, anchor).create(tileas.CONVERT_LAYOUT, (value,), (want,))
    return made.result if made is not None else None


def is_widened(op: Op) -> bool:
    """Whether an op makes numbers of more bits from such of at least 8."""
    return op.spec.name == "exti" and op.operands[0].type.elem.bits >= I8.bits  # type: ignore[attr-defined]
