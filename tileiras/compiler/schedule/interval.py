"""The initiation interval of a loop with products: clocks of an SM from the start of one iteration to that of the next, when the
copies run far enough ahead. The busiest resource sets it; the depth of a ring is the latency of a copy over it.

    tensor cores    multiply-adds of the products
    L2              bytes that the iteration's copies bring
    shared memory   those bytes on their way in, and the fragments that warps read; wgmma and tcgen05 read by themselves what
                    need not go through registers first
    CUDA cores      instructions of elementwise ops, reductions and scans
    MUFU            exponentials, logarithms, roots, quotients
"""

from __future__ import annotations

from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.products import SIDES
from tileiras.compiler.target.registers import moved_bytes

from .candidates import backward, captured
from .instructions import mma_sync
from .restage import is_invariant, source_load
from .staging import is_elementwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from tileiras.compiler.ir.core import Op

    from .staging import Staged

TENSOR, L2, SHARED, CORES, MUFU = "tensor cores", "L2", "shared memory", "CUDA cores", "MUFU"
FUNCTIONS = frozenset(
    ("exp", "exp2", "log", "log2", "sin", "cos", "tan", "sinh", "cosh", "tanh", "sqrt", "rsqrt", "divf")
)


class Interval:
    """Clocks of an iteration by resource."""

    __slots__ = ("by",)

    def __init__(self, by: dict[str, int]) -> None:
        self.by = by

    @property
    def bound(self) -> str:
        """The busiest resource."""
        return max(self.by, key=self.by.__getitem__)

    @property
    def clocks(self) -> int:
        return max(1, self.by[self.bound])


def interval(loop: Op, products: Collection[Op], members: Collection[Staged], target: Any) -> Interval:
    """What an iteration takes when `members` are the loads of a loop that are staged for its products."""
    cost = CostModel(target)
    brought = sum(member.bytes for member in members)
    by = {TENSOR: 0, L2: brought // cost.cache_bytes, SHARED: brought, CORES: 0, MUFU: 0}
    for product in products:
        if mma_sync(product, target) is None:
            by[CORES] += multiply_adds(product)
            by[SHARED] += fragment_bytes(product)
            continue
        by[TENSOR] += tensor_clocks(product, cost)
        if product.attrs.get("atom") not in ("wgmma", "tcgen05"):
            by[SHARED] += fragment_bytes(product)
        elif product.attrs["atom"] == "wgmma":
            by[SHARED] += through_registers(product, {member.op: member for member in members})
    by[SHARED] //= cost.bank_bytes
    body = loop.regions[0].block
    addresses = backward([v for member in members for v in captured(member.op)], body)[0]
    apart = {loop, *products, *addresses}  # a thread computes an address for each copy, not for each element
    for op in loop.walk():
        if op in apart or not op.results:
            continue
        elements = 0
        if is_elementwise(op):
            elements = num_elements(getattr(op.results[0].type, "shape", ()))
        elif op.spec.name in ("reduce", "scan"):
            elements = num_elements(op.operands[0].type.shape)  # type: ignore[attr-defined]
        by[CORES] += elements * cost.sequences.get(op.spec.name, 1)
        if op.spec.name in FUNCTIONS:
            by[MUFU] += elements
    by[CORES] //= cost.issued_threads
    by[MUFU] //= cost.functions_a_clock
    return Interval(by)


def through_registers(product: Op, members: dict[Op, Staged]) -> int:
    """Bytes that the threads of a wgmma read of its operands' stages, or write back in the form that it reads."""
    total = 0
    for operand, side in zip(product.operands[:2], SIDES):
        type: Any = operand.type
        load = source_load(operand)
        back = f"restage_{side}" in product.attrs
        if load in members and (back or type.elem.bits == 32):  # those go to registers, to be rounded
            total += members[load].bytes
        if back and not is_invariant(operand, product.block):
            total += num_elements(type.shape) * type.elem.bytes
    return total


def tensor_clocks(product: Op, cost: CostModel) -> int:
    """Clocks in which an SM does a product, by the instruction that was chosen for it."""
    left: Any = product.operands[0].type
    return cost.product_clocks(multiply_adds(product), left.elem.bits, product.attrs.get("atom"))


def multiply_adds(product: Op) -> int:
    left: Any = product.operands[0].type
    return num_elements(product.result.type.shape) * left.shape[-1]  # type: ignore[attr-defined]


def fragment_bytes(product: Op) -> int:
    """Bytes that warps read of a product's operands: each reads the rows and columns of its tile, so both operands cross once
    for each warp tile along the other side."""
    rows, columns = product.result.type.shape[-2:]  # type: ignore[attr-defined]
    total = 0
    for operand, across in zip(product.operands[:2], (columns, rows)):
        type: Any = operand.type
        total += num_elements(type.shape) * moved_bytes(type.elem) * -(-across // CostModel.warp_tile)
    return total
