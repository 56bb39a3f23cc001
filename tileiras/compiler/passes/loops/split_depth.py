"""TileAASplitDepth: products keep a sum for each warp, joined behind the loop: of scores that have one instruction's rows, and of
loaded tiles that warps would read several times.

Before: `for .. iter(%o : 16x64) { %s = %o * %f  %n = mmaf %p, %v, %s : 16x128, 128x64, 16x64 continue %n }`.
After:  `for .. iter(%o : 4x16x64) { %s = %o * %f'  %n = mmaf %p', %v', %s : 4x16x32, 4x32x64, 4x16x64 continue %n }`, `reduce`.

Before: `for .. iter(%o : 16x32) { %n = mmaf %a, %b, %o : 16x512, 512x32, 16x32 continue %n }`.
After:  `for .. iter(%o : 4x16x32) { %n = mmaf %a', %b', %o : 4x16x128, 4x128x32, 4x16x32 continue %n }`, `reduce`: into how many
        parts is in schedule/depth_parts.py.

Before: `%s = mmaf %q, %k, %zero : 16x512, 512x32, 16x32`, where the queries are too many for the registers of each warp.
After:  `%t = mmaf %q', %k', %zeros : 4x16x128, 4x128x32, 4x16x32`, `%s = reduce %t` (share_depth.py).

Warps have no rows to share out then: each computes the scores of keys of its own. Multiplied with columns of all values, scores
cross shared memory in each step, and each warp reads all of them. Multiplied with the values of its own keys, they stay in
registers. What scales the sum must be finite, as in attention: a warp whose keys are all masked has a sum of zeros, and infinity
times zero is no number where the whole sum, times infinity, is infinite.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import diags as D
from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Op, Value
from tileiras.compiler.ir.dense import dense_bits
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.types import F32, Dense, TensorType, TileType
from tileiras.compiler.ir.walk import erase_unused, is_pure
from tileiras.compiler.layout.linear import LANE_BITS, log2
from tileiras.compiler.passes.tileaa.short_results import SHAPES, below_maximum
from tileiras.compiler.schedule.staging import RENAMES
from tileiras.compiler.target.cost import CostModel

from .depth_cut import Cut
from .parts_joined import joined
from .share_depth import share_depth
from .widen_sums import may_end_early

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class SplitDepth(Pass):
    NAME = "TileAASplitDepth"
    SUMMARY = "Keep a sum for each warp where warps share out keys, or K, not rows"
    """
    does: products of scores that have one instruction's rows keep a sum for each warp, of its own keys, joined behind the loop;
      of scores whose queries are too many for registers, as those of a latent are, each warp has a part of K, joined in the step;
      where warps would read tiles several times, products that only add up keep a sum for each part of K
    without: all scores cross shared memory in each step; each warp reads all queries, or all of an operand of few rows
    acts: attention_full_f16 on sm_90
    """
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        from tileiras.compiler.dialects.nv_tileaa.kernel_spec import KEY

        if KEY not in func.attrs:
            return True
        warps = func.attrs[KEY].num_warps
        for product in [op for op in func.walk() if op.spec.name == "mmaf"]:
            factor = _worthwhile(product, warps, context.target)
            if factor is not None:
                cut = Cut(product, warps)
                _split(product, factor[0], warps, [cut.of(product.operands[n], 1 - n) for n in (0, 1)])
                context.analyses.drop()
        self.share(func, warps, context)
        self.share_steps(func, warps, context)
        return True

    @staticmethod
    def share_steps(func: Any, warps: int, context: Context) -> None:
        """Products that only add up, whose operands several warps would read in each step: each has a part of K."""
        from tileiras.compiler.schedule import tensor_memory
        from tileiras.compiler.schedule.depth_parts import parts_of_depth
        from tileiras.compiler.schedule.loops import staged_products
        from tileiras.compiler.schedule.products import warpgroup_products

        if context.target is None or warps < 2:
            return
        staged = context.analyses.get(staged_products, func)
        elsewhere = {
            *tensor_memory.chosen(func, context.analyses, log2(warps)),
            *context.analyses.get(warpgroup_products, func),
        }
        for loop in dict.fromkeys(op.parent for op in staged if op not in elsewhere):
            assert loop is not None
            parts = 1 if may_end_early(loop) else parts_of_depth(loop, log2(warps), staged, context.target)
            if parts > 1:
                context.remark(D.SHARES_STEPS, loop, parts=parts)
                for product in [op for op in loop.regions[0].block.ops if op in staged]:
                    cut = Cut(product, parts)
                    _split(product, None, parts, [cut.of_loaded(product.operands[n], 1 - n) for n in (0, 1)])
                context.analyses.drop()

    @staticmethod
    def share(func: Any, warps: int, context: Context) -> None:
        """Scores whose queries are too many for each warp's registers: each has a part of K."""
        from tileiras.compiler.schedule import tensor_memory
        from tileiras.compiler.schedule.loops import staged_products
        from tileiras.compiler.schedule.products import warpgroup_products
        from tileiras.compiler.schedule.shared_depth import links_to_share, parts_of

        if context.target is None:
            return
        staged = context.analyses.get(staged_products, func)
        tried = {op: links_to_share(op, warps, staged, context.target) for op in func.walk() if op in staged}
        if not any(tried.values()):
            return
        elsewhere = {
            *tensor_memory.chosen(func, context.analyses, log2(warps)),
            *context.analyses.get(warpgroup_products, func),
        }
        for product, links in tried.items():
            if product in elsewhere or links is None:
                continue
            if isinstance(links, str):
                context.remark(D.READS_ALL_DEPTH, product, reason=links)
                continue
            rows = product.result.type.shape[0]  # type: ignore[attr-defined]
            depth = sum([op.operands[0].type.shape[1] for op in links])  # type: ignore[attr-defined]
            context.remark(
                D.SHARES_DEPTH, product, rows=rows, depth=depth, parts=parts_of(warps, context.target)
            )
            share_depth(links, parts_of(warps, context.target))
            context.analyses.drop()


def _worthwhile(product: Op, warps: int, target: Any) -> tuple[Op | None] | None:
    """What scales the sum in each step, if anything does; None where the product is not to be split."""
    from tileiras.compiler.schedule.instructions import mma_sync
    from tileiras.compiler.schedule.restage import from_product

    left, type = product.operands[0].type, product.result.type
    atom = mma_sync(product, target) if target is not None else None
    if (
        atom is None
        or len(type.shape) != 2
        or type.elem is not F32
        or type.shape[0] != 1 << atom.m
        or warps < 2
    ):
        return None
    if left.shape[1] < warps << atom.k or type.shape[0] * type.shape[1] >> LANE_BITS > _most_sums(
        product.operands[1]
    ):
        return None
    body, loop = product.block, product.parent
    if body is None or loop is None or loop.spec.name != "for" or not from_product(product.operands[0], body):
        return None
    scale, sum = None, product.operands[2]
    if sum.op is not None:
        scale = sum.op
        if scale.spec.name != "mulf" or scale.block is not body or len(sum.uses) != 1:
            return None
        sum, by = scale.operands
        if by.op is None or by.op.spec.name != "broadcast" or by.op.block is not body or not is_finite(by):
            return None
    if sum.owner is not body or not sum.index or len(sum.uses) != 1 or may_end_early(loop):
        return None
    uses = product.result.uses
    if (
        len(uses) != 1
        or uses[0] != (body.ops[-1], sum.index - 1)
        or not is_zero(loop.operands[2 + sum.index])
    ):
        return None
    return (scale,)


def _most_sums(values: Value) -> int:
    """Registers that the sums of a warp may take beside a tile of values: none where threads compute it, fewer where they hold
    the addresses of its rows."""
    op = values.op
    while op is not None and op.spec.name in RENAMES:
        op = op.operands[0].op
    name = op.spec.name if op is not None else ""
    most = {"load_view_tko": CostModel.split_sums, "load_ptr_tko": CostModel.split_sums_of_pointers}
    return most.get(name, 0)


def is_finite(value: Value) -> bool:
    """Whether a value is an exponential of what a maximum is subtracted from, spread out."""
    op = value.op
    while op is not None and op.spec.name in SHAPES:
        op = op.operands[0].op
    return op is not None and op.spec.name in ("exp", "exp2") and below_maximum(op.operands[0])


def is_zero(value: Value) -> bool:
    return (
        value.op is not None
        and value.op.spec.name == "constant"
        and not any(dense_bits(value.op.attr("value")))
    )


def _split(product: Op, scale: Op | None, parts: int, sides: list[Value]) -> None:
    loop, body = product.parent, product.block
    assert loop is not None and body is not None and loop.block is not None
    before = product.operands[:2]
    sum = product.operands[2] if scale is None else scale.operands[0]
    whole: Any = sum.type
    m, n = whole.shape
    type = TensorType(whole.elem, (parts, m, n), None)

    def put(name: str, operands: Any, type: Any, attrs: Any = None, before: Op = product) -> Value:
        assert before.block is not None
        made = create(tileaa.BY_NAME[name], operands, (type,), attrs or {}, (), product.loc)
        return before.block.insert_before(before, made).result

    zero = {"value": Dense(TileType(whole.elem, type.shape), bytes(4))}
    place, number = 2 + sum.index, sum.index - 1
    loop.set_operand(place, put("constant", (), type, zero, loop))
    sum.type = type
    carried: Value = sum
    if scale is not None:
        rows = scale.operands[1].op.operands[0]  # type: ignore[union-attr]
        shape: Any = rows.type
        rows = put("reshape", (rows,), TensorType(F32, (1, *shape.shape), None))
        rows = put("broadcast", (rows,), type)
        carried = put("mulf", (sum, rows), type, dict(scale.attrs))
    made = create(
        product.spec, (*sides, carried), (type,), dict(product.attrs), (), product.loc, product.segments
    )
    body.insert_before(product, made)
    body.ops[-1].set_operand(number, made.result)
    product.erase()
    for value in before:
        erase_unused(value.op, is_pure)
    if scale is not None:
        by = scale.operands[1].op
        scale.erase()
        if by is not None and not by.result.uses:
            by.erase()
    result = loop.results[number]
    result.type = type
    following = loop.block.ops[loop.block.ops.index(loop) + 1]
    users = list(result.uses)
    whole_sum = joined(result, whole, following)
    for user, at in users:
        user.set_operand(at, whole_sum)
