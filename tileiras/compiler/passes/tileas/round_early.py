"""What threads of warpgroups make of a product's result, and round for products further down, is rounded where it is made.

Before: `%n = subf %u, %p`, `%s = mmaf ..`, `%x = ftof %n`, `%y = mulf %n, %f`, `%z = ftof %y`, `mmaf .., %x, ..`, ..
After:  `%n = subf %u, %p`, `%x = ftof %n`, `%y = mulf %n, %f`, `%z = ftof %y`, `%s = mmaf ..`, `mmaf .., %x, ..`, ..

While the products between run, a thread holds elements of 16 bits in the place of those of 32, or none where they wait in shared
memory (`warpgroup_products.py`). Factors of rows and columns that the chains take are made there, too.
"""

from __future__ import annotations

from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.ir.types import F32, TensorType
from tileiras.compiler.schedule.candidates import computes, needed
from tileiras.compiler.schedule.staging import is_elementwise
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.products import PRODUCTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value


def round_early(func: Op, loop: Op, target: Any) -> None:
    """Does so for every tile of the body of a loop whose tiles do not fit the registers."""
    from tileiras.compiler.schedule.registers import spare_registers

    body = loop.regions[0].block
    products = [op for op in body.ops if op.spec.name in PRODUCTS]
    if not products or any(op.attrs.get("atom") != "wgmma" for op in products):
        return
    if spare_registers(func, loop, target):
        return
    for op in list(body.ops):
        if is_elementwise(op) and op.segments is None and is_wide(op.result):
            move_up(op, body)


def is_wide(value: Value) -> bool:
    """Whether a value is a whole tile of f32."""
    type: Any = value.type
    whole = isinstance(type, TensorType) and bool(type.shape) and not type.layout.inv  # type: ignore[attr-defined]
    return whole and type.elem is F32


def move_up(maker: Op, body: Any) -> None:
    """Moves the chains that round a tile behind its op, where they are all that outlives the next product."""
    start = body.ops.index(maker)
    place = {op: n for n, op in enumerate(body.ops)}
    until = next((n for n in range(start, len(body.ops)) if body.ops[n].spec.name in PRODUCTS), None)
    if until is None:
        return
    late: list[Op] = []
    narrow = 0
    for user, _ in dict.fromkeys(maker.result.uses):
        if place.get(user, until) < until:
            continue
        chain = chain_to_rounding(user)
        if chain is None or user in late:
            return
        late += chain
        narrow += chain[-1].result.type.elem.bits  # type: ignore[attr-defined]
    if not late or narrow > maker.result.type.elem.bits:  # type: ignore[attr-defined]
        return
    ready = set(body.ops[: start + 1])
    more, _ = needed([v for op in late for v in op.operands], body, ready)
    if not all(
        computes(op) and op.spec.name not in PRODUCTS and (op in late or is_small(op, maker)) for op in more
    ):
        return
    anchor = body.ops[start + 1]
    for op in sorted({*late, *more}, key=place.__getitem__):
        if op is anchor:
            anchor = body.ops[body.ops.index(op) + 1]
            continue
        body.ops.remove(op)
        body.insert_before(anchor, op)


def chain_to_rounding(op: Op) -> list[Op] | None:
    """Elementwise ops of one use each, up to the one that rounds to fewer bits; None where an op computes anything else."""
    chain = []
    block = op.block
    while is_elementwise(op) and op.segments is None and op.block is block:
        chain.append(op)
        if op.spec.name == "ftof" and op.result.type.elem.bits < op.operands[0].type.elem.bits:  # type: ignore[attr-defined]
            return chain
        if len(op.result.uses) != 1:
            return None
        op = op.result.uses[0][0]
    return None


def is_small(op: Op, maker: Op) -> bool:
    """Whether an op makes rows, columns or numbers beside a tile."""
    whole = num_elements(maker.result.type.shape)  # type: ignore[attr-defined]
    for value in op.results:
        type: Any = value.type
        if not isinstance(type, TensorType):
            return False
        if not type.layout.inv and num_elements(type.shape) * CostModel.small_load_part > whole:  # type: ignore[attr-defined]
            return False
    return True
