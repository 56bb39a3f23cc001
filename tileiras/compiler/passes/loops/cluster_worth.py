"""Whether a tile block with products is faster on a cluster: CTAs that share one load an operand of its products each for itself.

Dividing a product by rows leaves each CTA all columns of the right operand to load, so that the bytes of a step for each
multiply-add grow, and the second-level cache is what feeds the tensor cores. It pays where

- no operand is needed whole, as in products of batches, or there are no products;
- the sums of the whole block do not fit one CTA: it would run in parts, which load operands again as well; or
- the operand is copied once for all CTAs (TileASMulticast), which takes warps that copy and tensor maps; or
- pairs of CTAs multiply as one, each with half of the operand (schedule/pairs.py): as many bytes for each multiply-add as one CTA
  would load, of which each has half.

Layouts and rings come later, so that the last two are promised only of loops whose loads all have maps for certain.
"""

from __future__ import annotations

from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.ir.types import PartitionView
from tileiras.compiler.ir.views import view_dims
from tileiras.compiler.passes.tileaa.facts import Facts
from tileiras.compiler.passes.tileaa.slice_demand import LOADS
from tileiras.compiler.passes.tileaa.slice_plan import PRODUCTS
from tileiras.compiler.passes.tileaa.slices import sliced
from tileiras.compiler.schedule import bulk, pairs
from tileiras.compiler.schedule.hints import flag
from tileiras.compiler.schedule.staging import unit_dimension
from tileiras.compiler.schedule.tensor_memory import SUM, head, is_zero, role
from tileiras.compiler.target import sm, tcgen05, wgmma
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.registers import registers_of_element
from tileiras.compiler.target.tensor_maps import ELEMENTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Block, Op, Value
    from tileiras.compiler.passes.tileaa.split_demand import Division

SLOWER = "each CTA would load an operand of the products whole, and one CTA holds the sums of the tile block"


def slower(division: Division, target: Any) -> str | None:
    """Why one CTA is faster than those of a cluster; None where it is not."""
    products = {op: plans for op, plans in division.plans.items() if op.spec.name in PRODUCTS}
    repeated = [
        op.operands[i]
        for op, plans in products.items()
        for plan in plans.values()
        for i in (0, 1)
        if plan is not None and not plan.wants[i][0]
    ]
    if not repeated or not fit(list(products), target):
        return None
    if copied_once(division, products, repeated, target) or paired(division, products, target):
        return None
    return SLOWER


def fit(products: list[Op], target: Any) -> bool:
    """Whether one CTA holds the sums that live at once: in tensor memory, or in registers."""
    in_memory = all(_goes_to_tensor_memory(op.operands[0], target) for op in products)
    room = tcgen05.COLUMNS if in_memory else CostModel.sums_of_block
    used: dict[Block | None, int] = {}
    for op in products:
        before = op.operands[2].op
        if before is None or before.spec.name not in PRODUCTS:  # else it adds to the same sum
            type: Any = op.result.type
            columns = tcgen05.columns_of(type.shape) if len(type.shape) > 1 else 1
            size = columns if in_memory else num_elements(type.shape) * registers_of_element(type.elem)
            used[op.block] = used.get(op.block, 0) + size
    return max(used.values(), default=0) <= room


def _goes_to_tensor_memory(operand: Value, target: Any) -> bool:
    name = operand.type.elem.name  # type: ignore[attr-defined]
    return bool(target.has(sm.TCGEN05_I8 if name == "i8" else sm.TCGEN05)) and name in tcgen05.TYPES


def copied_once(division: Division, products: dict[Op, Any], repeated: list[Value], target: Any) -> bool:
    """Whether TileASMulticast will find one ring, and what all CTAs load in it."""
    if not (bulk.wanted(target) and target.has(sm.WGMMA) and target.has(sm.SETMAXNREG)):
        return False
    sources = {v: _source(v) for op in products for v in op.operands[:2]}
    for op, plans in products.items():
        if any(len(shape) != 2 or shape[0] < wgmma.M for shape in _shapes(op, plans)):
            return False
        for v, depth in zip(op.operands, (1, 0)):
            form = wgmma.row_of(v.type.elem.name)  # type: ignore[attr-defined]
            if form is None or not form[2] and sources[v][1] != depth:
                return False  # another instruction's, or turned in registers
    return _one_ring(division, products, repeated, sources, target)


def paired(division: Division, products: dict[Op, Any], target: Any) -> bool:
    """Whether warps will have roles, and pairs of CTAs multiply as one."""
    if not (
        bulk.wanted(target) and target.has(sm.PAIRS) and target.has(sm.TCGEN05) and target.has(sm.SETMAXNREG)
    ):
        return False
    operands = [v for op in products for v in op.operands[:2]]
    sources = {v: _source(v) for v in operands}
    for op, plans in products.items():
        left: Any = op.operands[0].type
        shapes = _shapes(op, plans)
        whole = [plan is None or plan.wants[1][0] == () for plan in plans.values()]  # of the right operand
        if not _goes_to_tensor_memory(op.operands[0], target) or left.elem.name == "tf32" or not all(whole):
            return False
        if role(op) != SUM or not is_zero(_begin(op)):
            return False
        for shape in shapes:
            along = sources[op.operands[1]][1] == 1
            line = shape[1] * left.elem.bytes if along else None
            if len(shape) != 2 or pairs.suits(shape[0], shape[1], line) is not None:
                return False
            stage = sum(shape) * left.shape[-1] * left.elem.bytes
            if CostModel.uncut_stages * stage > CostModel(target).shared_bytes:
                return False  # its steps will be cut (TileAAShortenSteps), and sums go on from part to part
    return _one_ring(division, products, operands, sources, target)


def _begin(product: Op) -> Value:
    """What the sum of a product in a loop begins with."""
    loop, first = product.parent, head(product)
    assert loop is not None
    return loop.operands[2 + first.operands[2].index]


def _shapes(op: Op, plans: Any) -> list[Any]:
    return [sliced(op.result.type.shape, cut) for cut in plans]  # type: ignore[attr-defined]


def _one_ring(
    division: Division, products: dict[Op, Any], wanted: list[Value], sources: Any, target: Any
) -> bool:
    """Whether one loop has all products, which read what it loads, and all its loads have maps. `wanted`: operands that it must
    load itself."""
    func = division.func
    blocks = {op.block for op in products}
    loop = next(iter(products)).parent
    if len(blocks) > 1 or loop is None or loop.spec.name != "for":
        return False
    if any(op.spec.name == "return" and op.block is not func.regions[0].block for op in func.walk()):
        return False
    loads = {op for op in loop.walk() if op.spec.name in LOADS}
    read = {load for load, _ in sources.values()}
    return (
        loads <= read  # else an operand is computed on its way
        and all(sources[v][0] in loads for v in wanted)
        and all(_has_map(func, op, target) for op in loads)
    )


def _source(value: Value) -> tuple[Op | None, int]:
    """The load that an operand comes from without arithmetic, and which of its dimensions is contiguous; None: none."""
    moves, op = [], value.op
    while op is not None and op.spec.name in ("permute", "reshape"):
        moves.append(op)
        op = op.operands[0].op
    if op is None or op.spec.name not in LOADS:
        return None, -1
    unit = unit_dimension(op)
    for move in reversed(moves):
        if unit < 0:
            return None, -1
        if move.spec.name == "permute":
            unit = list(move.attr("permutation")).index(unit)
        else:  # of dimensions of one element only
            old, new = (v.type.shape for v in (move.operands[0], move.result))  # type: ignore[attr-defined]
            kept = [d for d, extent in enumerate(new) if extent > 1]
            if [new[d] for d in kept] != [extent for extent in old if extent > 1]:
                return None, -1
            unit = kept[sum(extent > 1 for extent in old[:unit])]
    return op, unit


def _has_map(func: Op, load: Op, target: Any) -> bool:
    """Whether a tensor map of what is loaded can be made, whatever its arrangement."""
    unit = unit_dimension(load)
    if unit < 0 or flag(load, target, "allow_tma") is False or not bulk.fresh(load.operand("token")):
        return False
    view = load.operand("view")
    assert view is not None
    type: Any = view.type
    if not isinstance(type, PartitionView) or type.view.elem.name not in ELEMENTS:
        return False
    dims = view_dims(type)
    order = [dims[d] for d in (*(d for d in range(len(dims)) if d != unit), unit)]
    try:
        bulk.traced(func, Facts(), view, order, type.view.elem.bytes)
    except bulk.NoMap:
        return False
    return True
