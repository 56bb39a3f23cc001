"""Shared memory that a loop with products takes beside the stages of its loads."""

from __future__ import annotations

from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.products import PRODUCTS, SIDES
from tileiras.compiler.target.registers import shared_bytes

from .instructions import mma_sync
from .lookups import lookups_of
from .restage import from_product
from .staging import Staged, feeding_loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value


def scratch_bytes(loop: Op, members: dict[Op, Staged], target: Any, rounds: int = 1) -> int:
    """Shared memory that the rest of the loop's body takes at once: conversions (in so many rounds), reductions across warps,
    blocks of tiles."""
    from .exchange import conversion

    most = 0
    for op in loop.walk():
        if op.spec.name == "convert_layout":
            source = op.operands[0]
            maker = source.op
            while maker is not None and maker.spec.name in ("reshape", "permute"):
                maker = maker.operands[0].op
            if maker not in members and not is_written_back(op.results[0]):
                most = max(
                    most, conversion(source.type, op.results[0].type, target).get("bytes", 0) // rounds
                )
    return max(most, exchanged_bytes(loop, target))


def exchanged_bytes(loop: Op, target: Any) -> int:
    """Shared memory that one of a loop's ops takes at most which cannot go in rounds, as conversions can."""
    from .exchange import EXCHANGES, multiplied

    most = 0
    for op in loop.walk():
        name = op.spec.name
        if name in PRODUCTS and "atom" not in op.attrs and mma_sync(op, target) is None:
            most = max(most, multiplied(op)[0])
        elif name != "convert_layout" and name in EXCHANGES and (name != "reduce" or "layout" in op.attrs):
            most = max(most, EXCHANGES[name](op)[0])
    return most


def is_written_back(operand: Value) -> bool:
    """Whether products alone use a value, from buffers of its own in shared memory."""
    return all(
        user.spec.name in PRODUCTS and which < 2 and f"restage_{SIDES[which]}" in user.attrs
        for user, which in operand.uses
    )


def fits_shared(loop: Op, size: int, otherwise: int, target: Any) -> bool:
    """Whether a buffer of `size` bytes leaves at least half of a block's shared memory to the loop's ring; or the loop's loads
    have neither ring nor queue beside `otherwise` bytes of scratch that it saves, which other exchanges may take then."""
    have = CostModel(target).shared_bytes
    if size <= have // 2:
        return True
    body = loop.regions[0].block
    lookups = lookups_of(body)
    most = 0  # that one product takes
    for product in [op for op in body.ops if op.spec.name in PRODUCTS]:
        groups = zip(product.operands[:2], feeding_loads(product, body, lookups))
        loads = [op for operand, group in groups if not from_product(operand, body) for op in group]
        types: list[Any] = [op.results[0].type for op in loads]
        most = max(most, sum(shared_bytes(type.elem) * num_elements(type.shape) for type in types))
    parts = CostModel.queue_parts_alone[-1]
    return most * (parts + 1) // parts + otherwise > have >= size + otherwise


def held_around(loop: Op) -> int:
    """Bytes of shared buffers in front of a loop that it uses."""
    found: dict[Op, int] = {}
    for op in loop.walk():
        for v in op.operands:
            if v.op is not None and v.op.spec.name == "alloc_shared":
                found[v.op] = v.op.attr("offset") + v.op.attr("bytes")
    return max(found.values(), default=0)
