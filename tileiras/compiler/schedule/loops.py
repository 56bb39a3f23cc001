"""Loops with products: which of their loads can be staged in shared memory, and into how many parts their steps are cut."""

from __future__ import annotations

from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.layout.linear import log2
from tileiras.compiler.layout.shared import CHUNK_BYTES
from tileiras.compiler.passes.tileaa.facts import Facts, facts_of
from tileiras.compiler.target import sm, tcgen05
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.products import PRODUCTS, SCALED

from . import multiply_adds
from .candidates import can_be_copied, is_outside
from .instructions import mma_sync
from .lookups import lookups_of
from .refusal import refusal
from .restage import from_product, source_load
from .staging import (
    ONE,
    Staged,
    feeding_loads,
    missing,
    staged,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from tileiras.compiler.ir.analyses import Analyses
    from tileiras.compiler.ir.core import Op, Value


def _instructions(product: Op, atom: Any) -> int:
    """mma instructions of all warps of a product."""
    k = product.operands[0].type.shape[-1]  # type: ignore[attr-defined]
    return num_elements(product.result.type.shape) * k >> (atom.m + atom.n + atom.k)  # type: ignore[attr-defined]


def staged_products(func: Op, analyses: Analyses) -> dict[Op, list[Staged]]:
    """Products (before or after layouts are chosen) all of whose operands that are loaded in their loop can be staged,
    with those loads. Their fragments need not live in registers as a whole."""

    out: dict[Op, list[Staged]] = {}
    target = analyses.target
    if not target.has(sm.CP_ASYNC):
        return out
    facts, cost = analyses.get(facts_of, func), CostModel(target)
    for loop in [op for op in func.walk() if op.spec.name == "for"]:
        body = loop.regions[0].block
        products = [op for op in body.ops if op.spec.name in PRODUCTS]
        if not products or refusal(loop, dynamic_step=True) is not None:
            continue
        lookups = lookups_of(body)
        for product in products:
            atom = mma_sync(product, target)
            if atom is None and multiply_adds.parts(product) > 1:
                continue
            if atom is not None and _instructions(product, atom) > cost.step_instructions:
                continue
            plans = _plans(product, loop, facts, cost, lookups, atom is None)
            if plans:
                out[product] = plans
    return out


def _plans(
    product: Op, loop: Op, facts: Facts, cost: CostModel, lookups: Collection[Op], multiplied: bool
) -> list[Staged]:
    """How the loads of a product are staged; empty where one cannot be, or none need be. `multiplied`: by multiply-add."""
    body = loop.regions[0].block
    if multiplied and not multiply_adds.may_read(product, body):
        return []
    plans: list[Staged] = []
    for which, group in enumerate(feeding_loads(product, body, lookups)):
        for op in group:
            plan = staged(op, facts, cost, 0) if can_be_copied(op, loop) else None
            if plan is None and comes_in_registers(product, which, body):
                continue
            if plan is None:
                return []
            plans.append(plan)
    return plans


def sums_of_multiply_adds(func: Op, analyses: Analyses) -> int:
    """Elements that the products of a loop add up at once, at the most, where all of a function are by multiply-add, of operands
    that wait in shared memory, or do in parts of K; 0 where one is not."""
    staged = analyses.get(staged_products, func)
    sums: dict[Any, int] = {}
    for op in [op for op in func.walk() if op.spec.name in PRODUCTS]:
        waits = op in staged or _parts_of_multiply_adds(func, op.parent, analyses) > 1
        if not waits or mma_sync(op, analyses.target) is not None:
            return 0
        sums[op.block] = sums.get(op.block, 0) + num_elements(op.result.type.shape)  # type: ignore[attr-defined]
    return max(sums.values(), default=0)


def comes_in_registers(product: Op, which: int, body: Any) -> bool:
    """Whether an operand of `feeding_loads` may be made from loads that are not staged: scales, and what registers hold anyway
    because it is computed from another product, as weights of attention are from scores and a bias."""
    return which > 1 or from_product(product.operands[which], body)


def missing_facts(loop: Op, target: Any) -> dict[Value, int] | None:
    """Which bits of which scalars must be zero so that all loads of a loop's products can be staged in chunks of 16 bytes; None
    where more than that is in the way, or the loop has no products."""

    body = loop.regions[0].block
    products = [op for op in body.ops if op.spec.name in PRODUCTS]
    if not target.has(sm.CP_ASYNC) or not products or refusal(loop, dynamic_step=True) is not None:
        return None
    facts, cost, lookups = Facts(), CostModel(target), lookups_of(body)
    needs: dict[Value, int] = {}
    loads = 0
    for product in products:
        if mma_sync(product, target) is None:
            return None
        for which, group in enumerate(feeding_loads(product, body, lookups)):
            for op in group:
                chunk = CHUNK_BYTES if which < 2 else cost.min_copy_bytes  # of scales, words of four
                found = missing(op, loop, facts, chunk) if can_be_copied(op, loop) else None
                if found is None and comes_in_registers(product, which, body):
                    continue
                if found is None:
                    return None
                loads += 1
                for value, bits in found.items():
                    if ONE in (bits, needs.get(value, bits)) and needs.get(value, bits) != bits:
                        return None  # a stride of 1 that is a multiple as well
                    needs[value] = bits | needs.get(value, 0)
    return needs if loads and all(is_outside(value, loop) for value in needs) else None


def parts_of_step(func: Op, loop: Op, analyses: Analyses) -> int:
    """Into how many parts a step over K is cut so that three stages fit shared memory, beside one that wgmma or tcgen05 still
    reads and operands that are written back: 1 where they do as it is."""
    from .products import adds_up, warpgroup_products

    target = analyses.target
    staged = analyses.get(staged_products, func)
    products = [op for op in loop.regions[0].block.ops if op in staged]
    if not products:
        return _parts_of_multiply_adds(func, loop, analyses)
    if len(products) != 1:
        return 1
    cost = CostModel(target)
    plans = staged[products[0]]
    stage = sum(plan.room for plan in {plan.op: plan for plan in plans}.values())
    left: Any = products[0].operands[0].type
    atom = mma_sync(products[0], target)
    smallest = min(1 << atom.k if atom is not None else 16, left.shape[-1])
    back = analyses.get(warpgroup_products, func).get(products[0])
    in_memory = target.has(sm.TCGEN05) and tcgen05.TYPES.get(left.elem.name) is not None
    in_memory = in_memory and tcgen05.fits(products[0].result.type.shape, log2(CostModel.least_warps))  # type: ignore[attr-defined]
    spare = int((back is not None or in_memory) and adds_up(products[0]) is not None)
    fewest = cost.least_stages + spare
    for which, form in (back or {}).items():
        operand = products[0].operands[which]
        if form.before_size != form.size or source_load(operand) is None:  # two buffers of its own
            stage += 2 * form.size * num_elements(operand.type.shape) // fewest  # type: ignore[attr-defined]
    width = min(8 * plan.op.results[0].type.elem.bytes for plan in plans)  # type: ignore[attr-defined]
    least = max(smallest, cost.row_stage_bytes * 8 // width)
    if products[0].spec.name == SCALED:
        columns = products[0].operands[3].type.shape[-1]  # type: ignore[attr-defined]
        words = max(least, left.shape[-1] * cost.min_copy_bytes // columns)
        # tensor memory takes words of scales; elsewhere less than a copy's bytes would go through registers, with barriers
        if target.has(sm.TCGEN05) or 2 * stage * words // left.shape[-1] < cost.shared_bytes:
            least = words
        else:
            least = max(least, left.shape[-1] // columns)
    parts = 1
    while fewest * stage // parts > cost.shared_bytes and left.shape[-1] // (2 * parts) >= least:
        parts *= 2
    return parts


def _parts_of_multiply_adds(func: Op, loop: Op | None, analyses: Analyses) -> int:
    """Into how many parts a step of a product by multiply-add is cut so that its code is short enough for operands to be read
    where they wait; 1 where that is not all that is in the way."""
    if loop is None or loop.spec.name != "for":
        return 1
    target, body = analyses.target, loop.regions[0].block
    products = [op for op in body.ops if op.spec.name in PRODUCTS]
    if len(products) != 1 or mma_sync(products[0], target) is not None or not target.has(sm.CP_ASYNC):
        return 1
    if refusal(loop, dynamic_step=True) is not None:
        return 1
    plans = _plans(
        products[0], loop, analyses.get(facts_of, func), CostModel(target), lookups_of(body), multiplied=True
    )
    return multiply_adds.parts(products[0]) if plans else 1
