"""Operands that products read from shared memory in slices of K, and those of which several products read each slice once.

    %a = load_shared .. : 64x64                  %a0 = load_shared .., %b0 = load_shared ..
    %d = mmaf %a, %b, %x            becomes      %d0 = mmaf %a0, %b0, %x, ..
    %e = mmaf %a, %c, %y                         %c0 = load_shared .., %e0 = mmaf %a0, %c0, %y, ..

So activations meet two weights, and parts of complex numbers each other. The slices wait in registers from the first of these
products to the last.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.types import TensorType
from tileiras.compiler.schedule.multiply_adds import slice_bits
from tileiras.compiler.schedule.staging import LOADS, RENAMES, is_elementwise
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.products import PRODUCTS
from tileiras.compiler.target.registers import registers_packed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value

# Behind these, and behind what is pure, a stage is what it was: nobody fills it without a wait or a barrier.
_QUIET = PRODUCTS | LOADS | {
    "reduce", "scan", "join_tokens", "load_shared", "async.copy_view", "async.copy_pointers", "async.commit_group",
}  # fmt: skip


def source_of(value: Value, common: Container[Op] = ()) -> Op | None:
    """The load from shared memory behind a value, through elementwise ops of one use each; of loads with several uses those in
    `common`."""
    op = value.op
    while op is not None and is_elementwise(op) and len(op.result.uses) == 1:
        tiles = moving(op)
        if len(tiles) != 1:
            return None
        op = tiles[0].op
    if op is None or op.spec is not tileas.LOAD_SHARED:
        return None
    return op if len(op.result.uses) == 1 or op in common else None


def moving(op: Op) -> list[Value]:
    """The operands of an op but for constants and what waits in registers while the loop runs: factors of rows or columns."""
    return [
        v for v in op.operands if v.op is not None and v.op.spec.name != "constant" and not waits(v, op.block)
    ]


def waits(value: Value, body: Any) -> bool:
    """Whether a value is made outside of a loop's body, or is a slice of one."""
    op = value.op
    if body is None or body.region is None or body.region.op is None or body.region.op.spec.name != "for":
        return False
    while op is not None and op.block is body and (op.spec.name in RENAMES or op.spec.name == "extract"):
        value = op.operands[0]
        op = value.op
    return op.block is not body if op is not None else value.owner is not body


def common_loads(func: Any) -> dict[Op, int]:
    """The loads of which several products have each slice in common, and a number for those that read the same."""
    groups: dict[Any, list[Op]] = {}
    for op in func.walk():
        if op.spec is tileas.LOAD_SHARED:
            attrs = tuple(sorted(op.attrs.items()))
            groups.setdefault((op.block, *op.operands, op.result.type, attrs), []).append(op)
    found: dict[Op, int] = {}
    for number, loads in enumerate(groups.values()):
        if sum(len(op.result.uses) for op in loads) > 1 and _are_common(loads):
            found.update(dict.fromkeys(loads, number))
    return found


def _are_common(loads: list[Op]) -> bool:
    """Whether products in slices of one depth are all that takes what equal loads read, nothing between the first and the last
    may change it, and registers hold it beside what the loop carries."""
    block = loads[0].block
    if block is None:
        return False
    takers: list[Op] = []
    seen = set()
    for load in loads:
        for user, _ in load.result.uses:
            product = _product(user)
            side = _side(product, load) if product is not None and product.block is block else None
            if product is None or side is None:
                return False
            seen.add((side, slice_bits(product)))
            takers.append(product)
    if len(seen) > 1 or None in next(iter(seen)):
        return False
    places = [block.ops.index(op) for op in (*loads, *takers)]
    if any(not (op.spec.is_pure or op.spec.name in _QUIET) for op in block.ops[min(places) : max(places)]):
        return False
    carried = sum(registers_packed(v.type) for v in block.args if isinstance(v.type, TensorType))
    cost = CostModel
    return carried + registers_packed(loads[0].result.type) <= cost.max_registers - cost.multiplying_registers


def _product(user: Op) -> Op | None:
    """The product that a user of a load is, or alone computes for."""
    while is_elementwise(user) and len(user.result.uses) == 1:
        user = user.result.uses[0][0]
    return user if user.spec.name in PRODUCTS else None


def _side(product: Op, load: Op) -> int | None:
    """Which of a product's operands comes from a load."""
    sides = [n for n, v in enumerate(product.operands[:2]) if source_of(v, {load}) is load]
    return sides[0] if len(sides) == 1 else None
