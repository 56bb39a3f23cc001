"""Tiles that wait in registers through a loop which does not change them: a mask, decay beside products."""

from __future__ import annotations

from math import prod

from tileiras.compiler.ir.dense import dense_bits
from tileiras.compiler.ir.types import TensorType
from tileiras.compiler.target.products import PRODUCTS
from tileiras.compiler.target.registers import registers_of_element

from .candidates import captured, is_outside
from .staging import RENAMES, is_elementwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Value


def waiting_beside(body: Any) -> int:
    """32-bit registers of a block in which tiles wait through a loop that it does not change, for others than products: a mask,
    decay."""
    loop = body.region.op
    found = 0
    for value in {value: None for op in body.ops for value in captured(op)}:
        type: Any = value.type
        maker = value.op
        if maker is None or not isinstance(type, TensorType) or not getattr(type.elem, "is_float", False):
            continue
        if not is_outside(value, loop) or _is_operand(value):
            continue
        found += prod(type.shape[d] for d in _varies(value)) * registers_of_element(type.elem)
    return found


def _varies(value: Value) -> list[int]:
    """Dimensions of a tile along which its elements differ, as far as elementwise ops and broadcasts tell."""
    known: dict[Value, set[int]] = {}
    work = [value]
    while work:
        made = work[-1]
        shape: Any = made.type.shape  # type: ignore[attr-defined]
        known[made] = {d for d, extent in enumerate(shape) if extent > 1}
        maker = made.op
        if maker is not None and maker.spec.name == "constant":
            if len(set(dense_bits(maker.attr("value")))) == 1:
                known[made] = set()
        elif maker is not None and (maker.spec.name == "broadcast" or is_elementwise(maker)):
            new = [v for v in maker.operands if v not in known]
            if new:
                work += new
                continue
            known[made] = set().union(*(known[v] for v in maker.operands))
        work.pop()
    return sorted(known[value])


def _is_operand(value: Value) -> bool:
    """Whether products alone take a value, perhaps renamed."""
    work, seen = [value], {value}
    while work:
        for user, index in work.pop().uses:
            if user.spec.name in PRODUCTS:
                if index == 2:
                    return False
            elif user.spec.name not in RENAMES:
                return False
            elif user.results[0] not in seen:
                seen.add(user.results[0])
                work.append(user.results[0])
    return True
