"""Loops that add up a matrix product beyond the registers of a block, run once per slice of the rows (or columns).

256x256 f32 accumulators fill the register file of an SM: nothing is left for fragments. Such a loop joins the loop
over slices as one op: every slice of the accumulator runs the whole loop, with the rows of the left operand that it
needs and all of the right one. What follows (casts, the store) then works on the same slices.

Only loops that read memory and write none can run again, and only operands that are made inside can be made by slices.
"""

from __future__ import annotations

from tileiras.compiler.ir.core import Op, Value
from tileiras.compiler.ir.types import TensorType, TokenType
from tileiras.compiler.target.cost import CostModel

from .slice_demand import LOADS, demand, writes_memory
from .slice_plan import PRODUCTS, Plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tileiras.compiler.schedule.budget import Budget

    from .slice_plan import Want
    from .slices import Cut

REPEATABLE = (
    PRODUCTS
    | LOADS
    | {"constant", "iota", "broadcast", "reshape", "permute", "make_partition_view", "make_tensor_view", "make_token",
       "join_tokens", "get_tile_block_id", "get_num_tile_blocks", "get_index_space_shape", "continue"}
)  # fmt: skip


class LoopPlan(Plan):
    """A loop in slices: which ops of its body are sliced, and which are copied whole."""

    __slots__ = ("inner", "whole")

    def __init__(
        self,
        op: Op,
        cut: Cut,
        wants: dict[int, Want],
        results: list[Cut | None],
        inner: dict[Op, Plan],
        whole: set[Op],
    ) -> None:
        super().__init__(op, cut, wants, results)
        self.inner = inner
        self.whole = whole


def plan_product_loop(op: Op, budget: Budget) -> LoopPlan | None:
    """How a loop runs in slices of its accumulator; None when it need not or cannot."""
    body = op.regions[0].block
    args, jump = body.args[1:], body.ops[-1]
    huge = [i for i, arg in enumerate(args) if isinstance(arg.type, TensorType)]
    if len(huge) != 1 or any(not isinstance(a.type, TokenType) for i, a in enumerate(args) if i != huge[0]):
        return None
    at = huge[0]
    product = jump.operands[at].op
    if product is None or product.spec.name not in PRODUCTS or product.block is not body:
        return None
    acc = args[at]
    if product.operands[2] is not acc or len(acc.uses) != 1 or len(product.result.uses) != 1:
        return None
    if any(not (o.spec.elementwise or o.spec.name in REPEATABLE) for o in body.ops) or writes_memory(
        body.ops
    ):
        return None
    shape = acc.type.shape  # type: ignore[attr-defined]
    rank = len(shape)
    for s in range(6):
        for dim in sorted((rank - 2, rank - 1), key=lambda d: -shape[d]):
            cut = (dim,) * s
            if shape[dim] >> s >= CostModel.part_rows and budget.fits(product, cut):
                return _sliced_loop(op, product, at, cut) if s else None
    return None


def _sliced_loop(op: Op, product: Op, at: int, cut: Cut) -> LoopPlan | None:
    body = op.regions[0].block
    rank = len(product.result.type.shape)  # type: ignore[attr-defined]
    side = 0 if cut[0] == rank - 2 else 1
    everywhere = tuple(range(len(cut)))
    inner: dict[Op, Plan] = {}
    if not demand(product.operands[side], cut, set(body.ops), inner):
        return None
    inner[product] = Plan(product, cut, {side: (cut, everywhere), 2: (cut, everywhere)}, [cut])
    whole: set[Op] = set()
    todo: list[Value] = [v for i, v in enumerate(body.ops[-1].operands) if i != at]
    for plan in inner.values():
        skipped = {i for i, (want, _) in plan.wants.items() if want}
        todo += [v for i, v in enumerate(plan.op.operands) if i not in skipped]
        view = plan.op.operand("view") if "view" in plan.op.spec.operand_index else None
        if view is not None and view.op is not None:
            todo += view.op.operands
    while todo:
        value = todo.pop()
        made = value.op
        if made is None or made.block is not body or made in whole:
            continue
        if isinstance(value.type, TokenType) and made in inner:
            continue
        whole.add(made)
        todo += made.operands
    results: list[Cut | None] = [cut if isinstance(r.type, TensorType) else None for r in op.results]
    return LoopPlan(op, cut, {3 + at: (cut, everywhere)}, results, inner, whole)
