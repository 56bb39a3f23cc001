"""Constants that stand in a block several times become one: passes make them where they need them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .core import Op, Value


def merge_constants(func: Op) -> None:
    """Before: `%a = constant 0`, `%b = constant 0` in one block. After: `%a` alone, in the places of both."""
    first: dict[Any, Value] = {}
    twice = []
    for op in func.walk():
        if op.spec.name == "constant":
            made = first.setdefault((op.block, op.attrs["value"], op.result.type), op.result)
            if made is not op.result:
                op.result.replace_all_uses_with(made)
                twice.append(op)
    for op in twice:
        op.erase()
