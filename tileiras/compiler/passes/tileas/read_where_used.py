"""Large sums out of tensor memory are read where they are used, part by part.

    tensor_memory.product %sum, %i ..                   tensor_memory.product %sum, %i ..
    %x = tensor_memory.load %sum, %i {apart = 1}        %s = convert_layout %f {plan = "shared", apart = 1}
    %s = convert_layout %f {plan = "shared"}            %x = tensor_memory.load %sum, %i {apart = 1}
    %z = fma %x, %s, %y                                 %z = fma %x, %s, %y

Loads and exchanges that stand between go on while the product runs, and no barrier parts the sum from its use: what is read
`apart`, by so many registers as one instruction moves, comes in front of the instructions that use each part.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.layout import convert
from tileiras.compiler.schedule.staging import LOADS
from tileiras.compiler.target.products import PRODUCTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op

# A sum is read behind these and behind what is pure. Others may write what its product reads, or tell somebody that it may go.
_QUIET = LOADS | {"if", "yield", "join_tokens"}


def read_where_used(load: Op) -> None:
    """Moves a load of a sum to its first user, as far as that may be; exchanges that it passes and meets there come in parts."""
    block = load.block
    assert block is not None
    users = {user for user, _ in load.result.uses}
    first = block.ops.index(load)
    passed: list[Op] = []
    for op in block.ops[first + 1 : -1]:
        inside = list(op.walk())
        if any(inner in users or _stays_behind(inner) for inner in inside):
            break
        passed.append(op)
    if not passed:
        return
    anchor = block.ops[first + len(passed) + 1]
    block.ops.remove(load)
    block.insert_before(anchor, load)
    most = load.attr("most")
    for op in passed:
        if (
            op.spec is not tileas.CONVERT_LAYOUT
            or op.attrs.get("plan") != convert.SHARED
            or op.attrs.get("rounds")
        ):
            continue
        layout: Any = op.result.type.layout  # type: ignore[attr-defined]
        if layout.num_regs > most and all(user in users for user, _ in op.result.uses):
            op.attrs = {**op.attrs, "apart": 1}


def _stays_behind(op: Op) -> bool:
    return not (op.spec.is_pure or op.spec.name in _QUIET) or op.spec.name in PRODUCTS
