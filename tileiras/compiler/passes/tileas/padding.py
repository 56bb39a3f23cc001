"""Loads whose padding was to be chosen (`passes/loops/choose_padding.py`), and that nothing copies after all.

Before: `%b = load_view_tko %zeros[..]`, `%x = ftof %b`, `%y = select %mask, %x, -inf`.
After:  `%b = load_view_tko %padded[..]`, `%x = ftof %b`: a load into registers fills what lies behind the end of its tensor.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.rewrite import Rewriter
from tileiras.compiler.ir.types import PartitionView
from tileiras.compiler.ir.walk import erase_unused, is_pure
from tileiras.compiler.schedule.staging import PADDING, RENAMES, is_elementwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from tileiras.compiler.ir.core import Op
    from tileiras.compiler.ir.passes import Context


def pad_again(ops: Iterable[Op], context: Context) -> bool:
    """Gives the loads among some ops their padding back; False when an op could not be made."""
    for load in [op for op in ops if op.spec.name == "load_view_tko" and PADDING in op.attrs]:
        value = load.operand("view")
        view: Any = value.type if value is not None else None
        choice = choice_of(load)
        if choice is None or not isinstance(view, PartitionView) or value is None or value.op is None:
            continue
        padded = PartitionView(view.tile, view.view, view.dim_map, load.attrs[PADDING])
        made = Rewriter(context, value.op).create(
            tileas.BY_NAME["make_partition_view"], (value.op.operands[0],), (padded,)
        )
        if made is None:
            return False
        load.set_operand(list(load.operands).index(value), made.result)
        load.attrs = {name: v for name, v in load.attrs.items() if name != PADDING}
        mask = choice.operands[0].op
        choice.result.replace_all_uses_with(choice.operands[1])
        choice.erase()
        if mask is not None:
            erase_unused(mask, is_pure)
    return True


def choice_of(load: Op) -> Op | None:
    """The op that chooses what pads a load; None where others see the zeros as well."""
    value = load.results[0]
    while len(value.uses) == 1:
        user, index = value.uses[0]
        if user.spec.name == "select" and PADDING in user.attrs:
            return user if index == 1 and user.result.type == value.type else None
        if user.spec.name not in RENAMES and not is_elementwise(user):
            return None
        value = user.result
    return None
