"""TileAAStepOnce: products outside of loops, with the loads that feed them, become a loop of one step for tensor memory.

Before: `%a = load ..`, `%b = load ..`, `%s = mmaf %a, %b, %zero`, `store %s`.
After:  `%r = for 0 to 1 iter(%any = 0) { %a = load ..  %b = load ..  %s = mmaf %a, %b, %zero  continue %s }`, `store %r`.

What is decided about operands of a loop's products holds for these then: they are copied to where tcgen05 reads them, or stored
there by the threads. TileASTensorMemoryProducts puts the step in the place of its loop again. Where tensor memory would not take
all products, or mma.sync would have multiplied before their sums are back, everything stays as it is.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import diags as D
from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Block, Op, Region, Value
from tileiras.compiler.ir.dense import constant_bytes, num_elements
from tileiras.compiler.ir.inline import put_in_place
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.spec import NO_MEMORY_EFFECT, PURE
from tileiras.compiler.ir.types import I32, TOKEN, Dense, Scalar, TensorType, TileType
from tileiras.compiler.ir.walk import held_in
from tileiras.compiler.layout.linear import log2
from tileiras.compiler.schedule.candidates import EXITS, LOOPS, outermost_loop
from tileiras.compiler.schedule.once import ONCE
from tileiras.compiler.target import sm, tcgen05
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.products import PRODUCTS, SCALED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class StepOnce(Pass):
    NAME = "TileAAStepOnce"
    SUMMARY = "Multiply in tensor memory outside of loops, too"
    """
    does: products outside of loops become a loop of one step, with their loads, where tensor memory takes them
    without: `mma.sync`
    acts: once_cross on sm_100
    """
    KEEPS_ANALYSES = True
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        target = context.target
        if target is None or not target.has(sm.TCGEN05):
            return True
        blocks = dict.fromkeys(
            op.block for op in func.walk() if op.spec.name in PRODUCTS and outermost_loop(op) is None
        )
        for block in blocks:
            for span in spans(block):
                if worthwhile(span, target):
                    wrap(func, span, context)
        return True


def spans(block: Any) -> list[list[Op]]:
    """The ops of a block from the first load that feeds one of its products to the last product, for each part of the block that
    no loop, and no branch with products, cuts."""
    from tileiras.compiler.schedule.staging import feeding_loads

    found = []
    place = {op: n for n, op in enumerate(block.ops)}
    parts: list[list[Op]] = [[]]
    for op in block.ops:
        if op.regions and any(cuts(inner) for inner in op.walk()):
            parts.append([])
        else:
            parts[-1].append(op)
    for part in parts:
        products = [op for op in part if op.spec.name in PRODUCTS]
        if products:
            feeding = {load for op in products for group in feeding_loads(op, block) for load in group}
            loads = [op for op in part if op in feeding]
            if loads:
                found.append(block.ops[place[loads[0]] : place[products[-1]] + 1])
    return found


def cuts(op: Op) -> bool:
    return op.spec.name in LOOPS or op.spec.name in PRODUCTS or op.spec.name in EXITS


def worthwhile(span: list[Op], target: Any) -> bool:
    """Whether tensor memory has sums of the shapes of a span's products, and mma.sync takes longer for these than the way of
    sums to tensor memory and back."""
    cost = CostModel(target)
    clocks = ways = 0
    for op in span:
        if op.spec.name in PRODUCTS:
            left: Any = op.operands[0].type
            shape: Any = op.result.type.shape  # type: ignore[attr-defined]
            if op.spec.name != SCALED and left.elem.name not in tcgen05.TYPES:
                return False
            if not any(tcgen05.fits(shape, log2_warps) for log2_warps in (2, 3)):
                return False
            fma = num_elements(shape) * left.shape[-1]
            clocks += cost.product_clocks(fma, max(8, left.elem.bits))
            ways += 1
    return clocks >= ways * CostModel.once_clocks


def wrap(func: Op, span: list[Op], context: Context) -> None:
    """The ops of a span in a loop of one step, if tensor memory takes its products then."""
    block = span[0].block
    assert block is not None
    inside = set(span)
    free = without_loads(span)
    kept = [op for op in span if op not in free or not stays(op, inside)]
    moved = set(kept)
    out = [
        v for op in kept for v in op.results if any(held_in(block, user) not in moved for user, _ in v.uses)
    ]
    if not all(can_be_carried(v) for v in out):
        return
    known, before = in_tensor_memory(func, context), list(block.ops)
    following = block.ops[block.ops.index(span[-1]) + 1]
    for op in kept:
        block.ops.remove(op)

    def put(
        name: str, operands: Any, types: Any, attrs: Any = None, regions: Any = (), segments: Any = None
    ) -> Op:
        op = create(tileaa.BY_NAME[name], operands, types, attrs or {}, regions, span[0].loc, segments)
        return block.insert_before(following, op)

    made: dict[tuple[Any, int], Value] = {}

    def constant(type: Any, value: int) -> Value:
        if (type, value) not in made:
            if type is TOKEN:
                made[type, value] = put("make_token", (), (TOKEN,)).result
            else:
                number = value.to_bytes(constant_bytes(type.elem), "little")
                data = Dense(TileType(type.elem, type.shape), number)
                made[type, value] = put("constant", (), (type,), {"value": data}).result
        return made[type, value]

    scalar = TensorType(I32, ())
    bounds = [constant(scalar, 0), constant(scalar, 1), constant(scalar, 1)]
    begun = [constant(v.type, 0) for v in out]
    body = Block([scalar, *(v.type for v in out)])
    for op in kept:
        body.append(op)
    body.append(create(tileaa.BY_NAME["continue"], out, (), {}, (), span[-1].loc, (len(out),)))
    loop = put(
        "for", [*bounds, *begun], [v.type for v in out], {ONCE: True}, (Region([body]),), (1, 1, 1, len(out))
    )
    for value, result in zip(out, loop.results):
        for user, index in [use for use in value.uses if held_in(block, use[0]) is not loop]:
            user.set_operand(index, result)
    context.analyses.drop()
    products = [op for op in kept if op.spec.name in PRODUCTS]
    if in_tensor_memory(func, context) >= known.union(products) and not better_in_parts(
        func, products, context
    ):
        context.remark(D.STEP_ONCE, products[0], count=len(products))
        return
    put_in_place(loop)
    for value in made.values():
        if value.op is not None:
            value.op.erase()
    block.ops = before
    context.analyses.drop()


def in_tensor_memory(func: Op, context: Context) -> frozenset[Op]:
    """The products that tensor memory takes, with as many warps as the function gets."""
    from tileiras.compiler.schedule.kernel_spec import kernel_spec
    from tileiras.compiler.schedule.tensor_memory import chosen

    warps = kernel_spec(func, context.analyses, context.module.attrs).num_warps
    return chosen(func, context.analyses, log2(warps))


def better_in_parts(func: Op, products: list[Op], context: Context) -> bool:
    """Whether one product's operands take so much shared memory that no other block loads while it multiplies: in parts of K it
    does so itself."""
    from tileiras.compiler.schedule.loops import staged_products

    plans = {plan.op: plan for op in products for plan in context.analyses.get(staged_products, func)[op]}
    stage = sum(plan.room for plan in plans.values())
    return len(products) == 1 and 2 * stage > CostModel(context.target).shared_bytes


def without_loads(span: list[Op]) -> set[Op]:
    """The ops of a span that may run before all others of it: they compute, and need nothing that these make."""
    free: set[Op] = set()
    inside = set(span)
    for op in span:
        if op.regions or not op.spec.traits & (PURE | NO_MEMORY_EFFECT) and op.spec.name != "assume":
            continue
        if all(v.op not in inside or v.op in free for v in op.operands):
            free.add(op)
    return free


def stays(op: Op, inside: set[Op]) -> bool:
    """Whether such an op goes in front of the loop: it makes no tile, or one that is wanted outside."""
    return all(not getattr(r.type, "shape", ()) for r in op.results) or any(
        user not in inside for r in op.results for user, _ in r.uses
    )


def can_be_carried(value: Value) -> bool:
    return value.type is TOKEN or isinstance(value.type, TensorType) and isinstance(value.type.elem, Scalar)
