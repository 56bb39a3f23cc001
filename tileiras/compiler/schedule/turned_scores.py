"""Attention of few rows whose scores multiply transposed by warpgroups, as sums beside them do: keys are their rows.

    scores  64x16 = keys 64x576, queries^T 576x16      queries wait in shared memory, once
    sums    512x16 = values^T 512x64, scores^T 64x16   exponentials cross shared memory

No thread holds queries, and no product is one of copies (few_rows.py). But a row's maximum meets across warps, behind a barrier
in each step: for queries of which copies do not fit the registers, or would take longer than all else. In tensor memory they fit.
"""

from __future__ import annotations

from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.ir.types import F32
from tileiras.compiler.target import sm, tcgen05, wgmma
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.products import PRODUCTS

from .few_rows import clocks, least_room, may_turn, warpgroup_clocks
from .tensor_memory import LOADED, head, is_repeated, stored_bytes, where

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Block, Op


def turned_scores(body: Block, staged: Any, target: Any, warps: int | None) -> list[list[Op]]:
    """The scores of a loop that are to multiply transposed with all sums beside them, those that go on where others end
    together; none where the target has tensor memory, or an operand does not lie as it was loaded, or they do not pay.
    `staged`: the loads of each product that is fed by copies; `warps` that a hint asks for."""
    if target is None or target.has(sm.TCGEN05) or not target.has(sm.WGMMA):
        return []
    products = [op for op in body.ops if op.spec.name in PRODUCTS]
    scores = [op for op in products if is_repeated(op)]
    sums = [op for op in products if op not in scores]
    if not scores or not sums or warps not in (None, 1 << tcgen05.WARPGROUP):
        return []
    rows, keys = scores[0].result.type.shape  # type: ignore[attr-defined]
    if keys < wgmma.M or any(op.result.type.shape != (rows, keys) for op in scores):  # type: ignore[attr-defined]
        return []
    if not all(op in staged and may_turn(op, target) for op in sums):
        return []
    if not all(op in staged and where(op, 1, staged[op]) == LOADED for op in products):
        return []
    stage = sum({plan.op: plan.room for op in products for plan in staged[op]}.values())
    results: list[Any] = [op.result.type for op in (scores[-1], *sums)]
    held = sum([num_elements(type.shape) for type in results])
    if held >> tcgen05.WARPGROUP + 5 > CostModel.shared_depth_registers:
        return []
    other = sum([stored_bytes(op, 0) for op in products])  # queries and exponentials
    other += rows * F32.bytes * CostModel.whole_warps  # maxima of all warps
    if least_room(products, staged) + other > CostModel(target).shared_bytes:
        return []
    stays, goes = clocks(scores, sums, stage)
    chains: dict[Op, list[Op]] = {}
    for op in scores:
        chains.setdefault(head(op), []).append(op)
    return list(chains.values()) if stays >= goes else []


def copies_take_longer(scores: list[Op], body: Block, staged: Any, target: Any) -> bool:
    """Whether products of copies of such scores, and sums beside them, take longer than what they read is on its way."""
    products = [op for op in body.ops if op.spec.name in PRODUCTS]
    stage = sum({plan.op: plan.room for op in products for plan in staged[op]}.values())
    sums = [op for op in products if op not in scores]
    return warpgroup_clocks(scores, sums, target) > stage // CostModel(target).cache_bytes
