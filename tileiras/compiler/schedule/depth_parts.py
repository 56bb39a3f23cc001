"""Sums of few rows whose warps share out K: in how many parts each product of a loop multiplies.

    sums 16x32 += 16x512, 512x32      each warp: 16x128 and 128x32, and its own 16x32, of which four are added behind the loop

Where a product has few rows or columns, all warps read the whole of one operand in each step, and shared memory is what a step
waits for. Of its own part of K a warp reads both operands once, and nothing is exchanged until the loop is through.
"""

from __future__ import annotations

from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.ir.types import F32, I32
from tileiras.compiler.layout.linear import LANE_BITS
from tileiras.compiler.target import mma
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.products import PRODUCTS, SCALED
from tileiras.compiler.target.registers import moved_bytes

from .byte_fragments import turned
from .candidates import constant_int
from .instructions import mma_sync
from .products import adds_up, carried_beside
from .restage import is_invariant, source_load
from .tensor_memory import is_zero

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op

    from .staging import Staged


class Reading:
    """What a step takes when warps share out K in some parts: clocks of tensor cores, bytes read of shared memory; registers of
    sums."""

    __slots__ = ("read", "registers", "tensor")

    def __init__(self) -> None:
        self.read = self.registers = self.tensor = 0


def parts_of_depth(loop: Op, log2_warps: int, staged: dict[Op, list[Staged]], target: Any) -> int:
    """Into how many parts warps divide K of each product of a loop: 1 where they share out rows and columns."""
    body = loop.regions[0].block
    products = [op for op in body.ops if op.spec.name in PRODUCTS]
    if not products or not all(op in staged and _may_share(op, loop, staged, target) for op in products):
        return 1
    cost = CostModel(target)
    brought = sum({plan.op: plan.bytes for op in products for plan in staged[op]}.values())
    beside = carried_beside(body) >> LANE_BITS + log2_warps
    best, parts = None, 1
    for bits in range(log2_warps + 1):
        found = _reading(products, bits, log2_warps, cost, target)
        if found is None or bits and found.registers + beside > CostModel.accumulators:
            break
        shared = (brought + found.read) // cost.bank_bytes
        clocks = max(shared, found.tensor, brought // cost.cache_bytes)
        if bits:  # each warp's sums are written and read once, behind the loop
            sums: list[int] = [num_elements(op.result.type.shape) for op in products]  # type: ignore[attr-defined]
            words = sum(sums) << bits
            clocks += 8 * words // cost.bank_bytes // _steps(loop, products[0])
        if best is None or clocks < best:
            best, parts = clocks, 1 << bits
    return parts


def _may_share(product: Op, loop: Op, staged: dict[Op, list[Staged]], target: Any) -> bool:
    """Whether a product only adds to a sum that begins at zero, of what is loaded in each step."""
    type: Any = product.result.type
    if product.spec.name == SCALED or type.elem not in (F32, I32) or len(type.shape) != 2:
        return False
    if adds_up(product) is not loop or mma_sync(product, target) is None:
        return False
    if any(turned(product, target, lambda op: staged.get(op, []), {})):
        return False  # of parts, bytes would be read one by one
    sides = product.operands[:2]
    if any(is_invariant(v, product.block) or source_load(v) is None for v in sides):
        return False
    return is_zero(loop.operands[2 + product.operands[2].index])


def _reading(products: list[Op], bits: int, log2_warps: int, cost: CostModel, target: Any) -> Reading | None:
    """None where a part of K is less than an instruction takes."""
    out = Reading()
    for op in products:
        left, result = op.operands[0].type, op.result.type
        atom = mma_sync(op, target)
        if atom is None or left.shape[1] >> bits < 1 << atom.k:  # type: ignore[attr-defined]
            return None
        shape: Any = result.shape  # type: ignore[attr-defined]
        warps = mma.split_warps(shape, atom, log2_warps - bits)
        rows, columns = (sum(d == dim for d, _ in warps) for dim in (0, 1))
        again = log2_warps - bits - rows - columns  # warps that do what others do
        for value, times in zip(op.operands[:2], (columns, rows)):
            type: Any = value.type
            out.read += num_elements(type.shape) * moved_bytes(type.elem) << times + again
        out.registers += num_elements(shape) >> LANE_BITS + rows + columns
        fma = num_elements(shape) * left.shape[1] << again  # type: ignore[attr-defined]
        out.tensor += cost.product_clocks(fma, left.elem.bits)  # type: ignore[attr-defined]
    return out


def _steps(loop: Op, product: Op) -> int:
    """Steps of a loop; those of a usual depth, where they are not known."""
    low, high, step = (constant_int(v) for v in loop.operands[:3])
    if low is None or high is None or step is None:
        depth: int = product.operands[0].type.shape[1]  # type: ignore[attr-defined]
        return max(1, CostModel.usual_depth // depth)
    return max(1, -(-(high - low) // step))
