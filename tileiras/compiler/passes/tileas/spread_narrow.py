"""Tiles of a loop that become wider and are spread over another dimension change their layout before they do.

Before: `%w = ftof %x : f16 to f32`, `%b = broadcast %w`, `%z = convert_layout %b`.
After:  `%b = broadcast %x`, `%y = convert_layout %b`, `%z = ftof %y`: half the bytes cross shared memory, or a quarter.
"""

from __future__ import annotations

from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.ir.rewrite import Rewriter
from tileiras.compiler.ir.types import I8, I32, TensorType
from tileiras.compiler.target.cost import CostModel

from .factors import in_loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op
    from tileiras.compiler.ir.passes import Context

WIDENS = frozenset(("ftof", "exti"))


def spread_narrow(convert: Op, context: Context) -> bool:
    """Does so for a conversion; False, and nothing done, where its tile was not made so."""
    spread = convert.operands[0].op
    if (
        spread is None
        or spread.spec.name != "broadcast"
        or not is_alone(spread, convert)
        or not in_loop(convert)
    ):
        return False
    renames: list[Op] = []
    op = spread.operands[0].op
    while op is not None and op.spec.name == "reshape" and is_alone(op, convert):
        renames.append(op)
        op = op.operands[0].op
    if op is None or op.spec.name not in WIDENS or not is_alone(op, convert):
        return False
    narrow: Any = op.operands[0].type
    whole: Any = convert.result.type
    if not I8.bits <= narrow.elem.bits < I32.bits == whole.elem.bits or narrow.layout.inv:
        return False
    if num_elements(narrow.shape) * CostModel.small_load_part <= num_elements(whole.shape):
        return False  # rows and columns: few bytes
    rewriter = Rewriter(context, convert)
    value = op.operands[0]
    for step in (*reversed(renames), spread, convert):
        old: Any = step.results[0].type
        made = rewriter.create(
            step.spec, (value,), (TensorType(narrow.elem, old.shape, old.layout),), dict(step.attrs)
        )
        if made is None:
            return False
        made.loc = step.loc
        value = made.result
    wide = rewriter.create(op.spec, (value,), (convert.result.type,), dict(op.attrs))
    if wide is None:
        return False
    wide.loc = op.loc
    rewriter.replace(convert, [wide.result])
    for step in (spread, *renames, op):
        step.erase()
    return True


def is_alone(op: Op, convert: Op) -> bool:
    """Whether an op beside a conversion is made for it alone."""
    return op.block is convert.block and len(op.results[0].uses) == 1
