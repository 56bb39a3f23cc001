"""What the products of a function may use of a thread's registers, for passes that take them in parts."""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa.kernel_spec import KEY
from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.layout.linear import log2
from tileiras.compiler.passes.tileaa.slices import sliced
from tileiras.compiler.target import mma
from tileiras.compiler.target.cost import CostModel

from .instructions import mma_sync
from .kernel_spec import registers_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op
    from tileiras.compiler.ir.passes import Context
    from tileiras.compiler.passes.tileaa.slices import Cut


class Budget:
    """Warps of a block, and registers that each of its threads can count on."""

    __slots__ = ("num_warps", "registers", "target")

    def __init__(self, target: Any, num_warps: int, registers: int) -> None:
        self.target = target
        self.num_warps = num_warps
        self.registers = registers

    def needs(self, product: Op, shapes: list[tuple[int, ...]]) -> tuple[int, int, int]:
        """Registers a thread needs for a product of tiles of `shapes` (left, right, accumulator): accumulator and what is
        always there, fragments of the operands. And the least depth of K that makes sense."""
        acc, elem = product.operands[2].type.elem, product.operands[0].type.elem  # type: ignore[attr-defined]
        bits = elem.bits if elem.bits > 8 else 2 * elem.bits  # bytes are gathered one by one
        bits = 32 if elem.name == "tf32" else bits
        wide = max(1, acc.bits // 32)
        threads = 32 * self.num_warps
        cost = CostModel
        atom = mma_sync(product, self.target)
        if atom is None:
            sizes = [num_elements(shape) for shape in shapes]
            fragments = (sizes[0] + sizes[1]) * max(32, bits) // 32 // threads
            return sizes[2] * wide // threads + cost.fma_registers, fragments, cost.part_depth
        warps = mma.split_warps(shapes[2], atom, log2(self.num_warps))
        fragments = sum(mma.operand_layout(shapes[i], atom, i, warps).num_regs for i in (0, 1)) * bits // 32
        held = mma.accumulator_layout(shapes[2], atom, warps).num_regs * wide
        return held + cost.stream_registers, fragments, max(cost.part_depth, 1 << atom.k)

    def fits(self, product: Op, cut: Cut) -> bool:
        """Whether a product on a slice of its rows or columns fits, streamed if need be."""
        shapes = [v.type.shape for v in product.operands]  # type: ignore[attr-defined]
        rank = len(shapes[2])
        shapes[2] = sliced(shapes[2], cut)
        if rank - 2 in cut:
            shapes[0] = sliced(shapes[0], (rank - 2,) * len(cut))
        else:
            shapes[1] = sliced(shapes[1], (rank - 1,) * len(cut))
        held, fragments, least = self.needs(product, shapes)
        parts = max(1, shapes[0][-1] // least)
        return held + fragments // parts <= self.registers


def budget_of(func: Op, context: Context) -> Budget | None:
    """The budget of a function's kernel spec; None where no target is known, or no kernel spec."""
    spec = func.attrs.get(KEY)
    if context.target is None or spec is None:
        return None
    return Budget(context.target, spec.num_warps, registers_of(spec))
