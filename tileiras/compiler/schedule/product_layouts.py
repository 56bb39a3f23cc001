"""How products lie in registers: which instruction each is laid out for, and the layouts of its operands and result.

Layout inference follows these; it chooses none itself.
"""

from __future__ import annotations

from tileiras.compiler.target import mma, tcgen05, wgmma
from tileiras.compiler.target.cost import CostModel

from . import multiply_adds, shared_depth, tensor_memory
from .byte_fragments import chained, turned
from .instructions import mma_sync
from .loops import staged_products
from .products import buffers, scale_layout, shared_rows, warpgroup_products

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.analyses import Analyses
    from tileiras.compiler.ir.core import Op
    from tileiras.compiler.layout.linear import LinearLayout

    from .restage import Restaged


class ProductLayouts:
    """The products of a function: those for wgmma with the operands that are written back, those for tensor memory, and
    by default mma.sync."""

    __slots__ = (
        "_asks",
        "_log2_warps",
        "_rows",
        "_staged",
        "_target",
        "copied",
        "in_tensor_memory",
        "of_warpgroups",
    )

    def __init__(self, func: Op, analyses: Analyses, log2_warps: int) -> None:
        self._log2_warps = log2_warps
        self._asks: dict[Op, tuple[bool, bool] | None] = {}  # of the products whose turning was asked for
        self._target = analyses.target
        self.of_warpgroups: dict[Op, dict[int, Restaged]] = {
            op: back
            for op, back in analyses.get(warpgroup_products, func).items()
            if wgmma.split_warps(op.result.type.shape, log2_warps) is not None  # type: ignore[attr-defined]
        }
        self.in_tensor_memory = tensor_memory.chosen(func, analyses, log2_warps)
        self._staged = analyses.get(staged_products, func)
        elsewhere = {*self.of_warpgroups, *self.in_tensor_memory}
        self._rows = shared_rows(func, log2_warps, self._target, self._staged.keys() - elsewhere)
        self.copied = {
            plan.op: plan for plans in self._staged.values() for plan in plans
        }  # loads that go to shared memory

    def turned(self, op: Op) -> tuple[bool, bool]:
        """Whether the rows and columns of a product are turned, so that operands of bytes need no transposition."""
        if any(other in self.of_warpgroups or other in self.in_tensor_memory for other in chained(op)):
            return mma.STRAIGHT
        return turned(op, self._target, lambda other: self._staged.get(other, []), self._asks)

    def of(self, op: Op) -> tuple[list[LinearLayout], LinearLayout] | None:
        """Layouts of the operands, scales included, and of the result; None where the target has no instruction."""
        acc = op.operands[2].type.shape  # type: ignore[attr-defined]
        atom = mma_sync(op, self._target)
        if atom is None:
            return (
                multiply_adds.layouts(op, self._staged[op], self._log2_warps) if op in self._staged else None
            )
        warps = wgmma.split_warps(acc, self._log2_warps) if op in self.of_warpgroups else None
        turns = self.turned(op) if warps is None else mma.STRAIGHT
        if warps is None:
            warps = mma.split_warps(acc, atom, self._log2_warps, self._rows.get(op), turns)
        sides = [
            mma.operand_layout(v.type.shape, atom, which, warps, turns)  # type: ignore[attr-defined]
            for which, v in enumerate(op.operands[:2])
        ]
        for which, form in self.of_warpgroups.get(op, {}).items():
            sides[which] = form.layout(self._log2_warps)
        result = mma.accumulator_layout(acc, atom, warps, turns)
        if op in self.in_tensor_memory:
            rows_of_halves = acc[0] <= tcgen05.HALF and tensor_memory.reduces_rows(op)
            result = tcgen05.layout_of(acc, self._log2_warps, rows_of_halves)
        scales = [
            scale_layout(op, which, v.type, warps, self._target) for which, v in enumerate(op.operands[3:])
        ]
        return [*sides, result, *scales], result

    def joined(self, op: Op) -> LinearLayout | None:
        """Where the sum of the parts lies that warps have of a product; None of other reductions."""
        return shared_depth.joined(op, self._log2_warps, self._target)

    def leaves_in_rows(self, op: Op) -> bool:
        """Whether a store in a loop of tensor memory has no room to turn its tile."""
        return tensor_memory.leaves_in_rows(
            op.block, self.in_tensor_memory, self._staged, self._target, self._log2_warps
        )

    def leaves_in_fragments(self, op: Op) -> bool:
        """Whether two stages fit beside a store and products of warpgroups only where its tile crosses no shared memory."""
        body: Any = op.block
        own = [other for other in body.ops if other in self.of_warpgroups]
        if not own:
            return False
        stage = {plan.op: plan.room for other in own for plan in self._staged[other]}
        room = CostModel(self._target).shared_bytes - 2 * sum(stage.values())
        room -= sum(buffers(own, self.of_warpgroups).sizes)
        return 0 <= room < tensor_memory.turned_bytes(body)

    def is_stored(self, op: Op, which: int) -> bool:
        """Whether threads write an operand to shared memory for tcgen05: it does not lie there as it was loaded."""
        return (
            op in self.in_tensor_memory
            and tensor_memory.where(op, which, self._staged[op]) != tensor_memory.LOADED
        )
