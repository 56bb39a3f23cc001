"""Attention of few rows, as in decoding: which loops have products of tensor memory or of warpgroups all the same.

    scores  16x32 = queries 16x576, keys^T 576x32      of the queries four copies: 64 rows, of which each warp reads 16
    sums    512x16 = values^T 512x32, scores^T 32x16   transposed: the columns of values are rows then

By mma.sync warps have no rows to share out: each reads all queries again in every step. Copies of them stay in tensor memory, or
in the registers of each warp of a warpgroup, and no thread reads keys and values.
"""

from __future__ import annotations

from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.target import sm, tcgen05, wgmma
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.products import PRODUCTS

from .products import has_few_rows
from .queue import load_of
from .shared_depth import warps_to_share
from .tensor_memory import (
    COMPUTED,
    LOADED,
    SCALED,
    SUM,
    columns,
    head,
    is_repeated,
    place,
    role,
    stored_bytes,
    sum_before,
    tail,
    where,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Block, Op


def sums_beside_scores(body: Block, staged: Any, target: Any, warps: int | None) -> list[Op] | str | None:
    """The sums of a loop that are to add up transposed beside scores of few rows; why its products stay with mma.sync; None where
    the target has nothing else, or the loop no such scores, or no sums. `staged`: the loads of each product that is fed by
    copies; `warps` that a hint asks for."""
    if target is None or not target.has(sm.TCGEN05) and not target.has(sm.WGMMA):
        return None
    products = [op for op in body.ops if op.spec.name in PRODUCTS]
    scores = [op for op in products if is_repeated(op)]
    sums = [op for op in products if op not in scores]
    if not scores or not sums or not all(op in staged for op in scores):
        return None
    if warps not in (None, 1 << tcgen05.WARPGROUP):
        return f"{warps} warps were asked for, and {1 << tcgen05.WARPGROUP} hold its scores"
    if not all(may_turn(op, target) for op in sums):
        return "another product of the loop does not add up what is made of the scores"
    if not all(op in staged and where(op, 1, staged[op]) == LOADED for op in products):
        return "keys or values do not lie in shared memory as they were loaded"
    in_memory = target.has(sm.TCGEN05)
    if not in_memory:
        held = _held(scores, sums)
        if held > CostModel.few_rows_held:
            return f"queries, scores and sums take {held} registers of a thread"
    taken = columns(scores, tcgen05.WARPGROUP) if in_memory else None
    shapes: list[Any] = [op.result.type.shape[::-1] for op in sums]  # type: ignore[attr-defined]
    if in_memory and (taken is None or taken.total + sum(map(tcgen05.columns_of, shapes)) > tcgen05.COLUMNS):
        return f"{tcgen05.COLUMNS} columns of tensor memory are too few"
    stage = sum({plan.op: plan.room for op in products for plan in staged[op]}.values())
    least = CostModel.least_stages * stage
    if in_memory:  # three products do not queue for it
        least = least_room(products, staged) if len(products) == 2 else 2 * stage
    if least + sum(stored_bytes(op, 0) for op in sums) > CostModel(target).shared_bytes:
        return f"stages of {stage} bytes do not fit shared memory"
    stays, goes = clocks(scores, sums, stage)
    if not in_memory:
        goes = max(goes, warpgroup_clocks(scores, sums, target))
    if stays < goes:
        return f"it takes {stays} clocks of shared memory a step, and {goes} of issue or products otherwise"
    return sums


def least_room(products: list[Op], staged: Any) -> int:
    """Bytes of two stages of what a loop's products read, or of a queue of three slots, where each reads something else."""
    rooms = {plan.op: plan.room for op in products for plan in staged[op]}
    loads = [load_of(op, 1, True, None) for op in products]
    least = 2 * sum(rooms.values())
    if None in loads or len(set(loads)) < len(loads):
        return least
    return min(least, CostModel.least_stages * max(rooms.values()))


def clocks(scores: list[Op], sums: list[Op], stage: int) -> tuple[int, int]:
    """Clocks of a step, about: of shared memory by mma.sync, where two groups of warps with 16 rows each read all operands, and
    of issue in tensor memory, where threads read none."""
    cost = CostModel
    rows, keys = scores[0].result.type.shape  # type: ignore[attr-defined]
    parts = rows // tcgen05.FEW[0]
    read = sum([stored_bytes(op, 1) for op in (*scores, *sums)])
    stays = (stage + parts * read) // cost.bank_bytes + parts * cost.few_rows_exchange
    threads = 32 << tcgen05.WARPGROUP
    types: list[Any] = [op.result.type for op in sums]
    held = sum(num_elements(type.shape) for type in types) // threads
    copies = stage // (16 * threads)
    goes = cost.few_rows_instructions + cost.few_rows_of_key * keys + cost.few_rows_of_copy * copies
    return stays, goes + int(cost.few_rows_of_sums * held)


def copies_fit(op: Op) -> bool:
    """Whether a product is one of scores of few rows beside sums of rows enough for warpgroups, and copies of their left operands
    fit the registers beside all of them."""
    assert op.block is not None
    if not is_repeated(op):
        return False
    products = [other for other in op.block.ops if other.spec.name in PRODUCTS]
    scores = [other for other in products if is_repeated(other)]
    sums = [other for other in products if other not in scores]
    if not sums or any(other.result.type.shape[-2:][0] < wgmma.M for other in sums):  # type: ignore[attr-defined]
        return False
    return _held(scores, sums) <= CostModel.few_rows_held


def sums_beside_parts(body: Block, staged: Any, target: Any, warps: int | None) -> list[Op]:
    """The sums of a loop that are to add up transposed, by warpgroups, beside scores that stay with mma.sync, whose depth warps
    share out: their queries are too many for copies."""
    products = [op for op in body.ops if op.spec.name in PRODUCTS]
    scores = [op for op in products if is_repeated(op)]
    sums = [op for op in products if op not in scores]
    if target.has(sm.TCGEN05) or not target.has(sm.WGMMA) or warps not in (None, 1 << tcgen05.WARPGROUP):
        return []
    if not scores or not sums or not all(op in staged and may_turn(op, target) for op in sums):
        return []
    if any(where(op, 1, staged[op]) != LOADED for op in sums):
        return []
    _, links = warps_to_share(scores[-1], staged, target)
    return sums if links and len(links) == len(scores) else []


def _held(scores: list[Op], sums: list[Op]) -> int:
    """Registers of a thread that products of warpgroups take: copies of queries, scores, and sums."""
    threads = 32 << tcgen05.WARPGROUP
    left: list[Any] = [op.operands[0].type for op in scores]
    held = sum(wgmma.M * type.shape[1] * type.elem.bits // 32 for type in left) // threads
    types: list[Any] = [op.result.type for op in sums]
    last: Any = scores[-1].result.type
    return held + (wgmma.M * last.shape[1] + sum(num_elements(type.shape) for type in types)) // threads


def warpgroup_clocks(scores: list[Op], sums: list[Op], target: Any) -> int:
    """Clocks that the tensor cores need for a step, copies included."""
    left: list[Any] = [op.operands[0].type for op in (*scores, *sums)]
    rights: list[Any] = [op.operands[1].type for op in (*scores, *sums)]
    rows = [wgmma.M] * len(scores) + [type.shape[0] for type in left[len(scores) :]]
    fma = sum(m * num_elements(type.shape) for m, type in zip(rows, rights))
    return CostModel(target).product_clocks(fma, left[0].elem.bits, "wgmma")


def may_turn(op: Op, target: Any) -> bool:
    """Whether a product only adds up something of its step, scaled or not, and may do so transposed."""
    if role(op) not in (SUM, SCALED) or head(op) is not tail(op) or not has_few_rows(op, target):
        return False
    if place(op.operands[0], op.block) != COMPUTED or len(op.result.uses) != 1:
        return False
    elements = num_elements(op.result.type.shape)  # type: ignore[attr-defined]
    return (
        len(sum_before(op).uses) == 1
        and elements >> tcgen05.WARPGROUP + 5 <= CostModel.tensor_memory_elements
    )
