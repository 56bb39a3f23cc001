"""TileAATurnFewRows: products of few rows and many columns are computed transposed: C^T = B^T A^T.

Before: `for .. iter(%s : 32x128) { %t = mmaf %a, %b, %s : 32x64, 64x128, 32x128 }`.
After:  `for .. iter(%s : 128x32) { %t = mmaf %b', %a', %s : 128x64, 64x32, 128x32 }`, with `permute` around both and behind.

Before: `for .. iter(%o : 16x512) { %n = mmaf %p, %v, %o * %f }` beside scores of 16 or 32 rows, which are reduced.
After:  `for .. iter(%o : 512x16) { %n = mmaf %v', %p', %o * %f' }`: scores get copies of their queries (schedule/few_rows.py), or
        turn as well: `%s = mmaf %k', %q', ..`, and a `permute` behind (schedule/turned_scores.py).

Warpgroups and tensor memory multiply at least 64 rows, and any few columns. Operands are read in either order where they lie, so
that only the result is turned, once: sums behind their loop, scores, where tensor memory takes them, in it, which renames what
threads hold. The products of an element and their order are the same.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import diags as D
from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Op, Value
from tileiras.compiler.ir.dense import dense_bits
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.types import Dense, TensorType, TileType
from tileiras.compiler.ir.walk import erase_unused, is_pure
from tileiras.compiler.target import tcgen05
from tileiras.compiler.target.products import PRODUCTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PERMUTE = tileaa.BY_NAME["permute"]
SWAPPED = {"signedness_lhs": "signedness_rhs", "signedness_rhs": "signedness_lhs"}


class TurnFewRows(Pass):
    NAME = "TileAATurnFewRows"
    SUMMARY = "Multiply transposed what has too few rows for warpgroups and tensor memory"
    """
    does: sums of fewer than 64 rows and more columns add up transposed, for warpgroups and tensor memory; for the latter, scores
      beside them are computed transposed, too; where their rows are reduced, with copies of the queries as 64 rows, for both;
      for warpgroups transposed where copies are too many and a tile has 64 keys
    without: `mma.sync`
    acts: matmul_f16_ragged on sm_100
    """
    KEEPS_ANALYSES = True
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        from tileiras.compiler.dialects.nv_tileaa.kernel_spec import KEY
        from tileiras.compiler.schedule.kernel_spec import kernel_spec
        from tileiras.compiler.schedule.loops import staged_products
        from tileiras.compiler.schedule.products import adds_up, has_few_rows
        from tileiras.compiler.target import sm

        target = context.target
        few = [op for op in func.walk() if op.spec.name in ("mmaf", "mmai") and has_few_rows(op, target)]
        if few:
            staged = context.analyses.get(staged_products, func)
            few = [op for op in few if op in staged]
        sums = [op for op in few if adds_up(op) is not None]
        scores = [op for op in few if is_scores(op)] if target is not None and target.has(sm.TCGEN05) else []
        scores = [op for op in scores if all_turn(op, {*sums, *scores})]
        beside = self.beside_scores(few, func, context) if few else []
        for op in dict.fromkeys((*sums, *beside)):
            turn(op)
        for op in scores:
            turn_scores([op])
        if sums or scores or beside:
            context.analyses.drop()
        # Now for tensor memory or warpgroups, whose rows warps share out otherwise.
        if (scores or beside) and KEY in func.attrs:
            spec = kernel_spec(func, context.analyses, context.module.attrs)
            func.attrs[KEY].num_warps = spec.num_warps
        return True

    @staticmethod
    def beside_scores(few: list[Op], func: Any, context: Context) -> list[Op]:
        """Sums of attention of few rows whose scores multiply as 64 rows."""
        from tileiras.compiler.schedule.few_rows import sums_beside_parts, sums_beside_scores
        from tileiras.compiler.schedule.kernel_spec import given_warps
        from tileiras.compiler.schedule.loops import staged_products
        from tileiras.compiler.schedule.turned_scores import copies_take_longer, turned_scores

        staged = context.analyses.get(staged_products, func)
        warps = given_warps(func, context.target, context.module.attrs)
        out: list[Op] = []
        for body in dict.fromkeys(op.block for op in few):
            assert body is not None and body.region is not None
            loop: Any = body.region.op
            found = sums_beside_scores(body, staged, context.target, warps)
            chains = turned_scores(body, staged, context.target, warps)
            scores = [op for chain in chains for op in chain]
            if scores and (
                isinstance(found, str) or copies_take_longer(scores, body, staged, context.target)
            ):
                rows, keys = scores[0].result.type.shape  # type: ignore[attr-defined]
                context.remark(D.TURNED_SCORES, loop, rows=rows, keys=keys)
                found = [op for op in few if op.block is body and op not in scores]
                for chain in chains:
                    turn_scores(chain)
                out += found
                continue
            if isinstance(found, str) and (turned := sums_beside_parts(body, staged, context.target, warps)):
                out += turned
            elif isinstance(found, str):
                context.remark(D.STAYS_FEW_ROWS, loop, reason=found)
            elif found:
                out += found
                context.remark(D.FEW_ROWS, loop, rows=found[0].result.type.shape[0])  # type: ignore[attr-defined]
        return out


def is_scores(product: Op) -> bool:
    """Whether a product begins at zero, and its result is read as it is, by nothing that meets along its rows."""
    from tileiras.compiler.schedule import tensor_memory
    from tileiras.compiler.schedule.products import reaches

    if tensor_memory.role(product) != tensor_memory.FRESH or tensor_memory.next_link(product) is not None:
        return False
    if not tensor_memory.is_zero(product.operands[2]):
        return False
    return not reaches(product.result)[1]


def all_turn(product: Op, turning: set[Op]) -> bool:
    """Whether tensor memory has rows enough of all other products of a loop, if those turn that may: all of them go there, or
    none."""
    assert product.block is not None
    others = [op for op in product.block.ops if op.spec.name in PRODUCTS]
    return all(op in turning or op.result.type.shape[-2:][0] >= tcgen05.HALF for op in others)  # type: ignore[attr-defined]


def turned(type: Any) -> TensorType:
    return TensorType(type.elem, type.shape[::-1])


def transposed(value: Value, user: Op) -> Value:
    """The transpose of a tile, for `user`; what it was made of where it is one, or the same splat."""
    op, block = value.op, user.block
    assert block is not None
    type = turned(value.type)
    if op is not None and op.spec is PERMUTE and tuple(op.attr("permutation")) == (1, 0):
        return op.operands[0]
    if op is not None and op.spec.name == "constant" and len(set(dense_bits(op.attr("value")))) == 1:
        old: Any = op.attr("value")
        data = Dense(TileType(old.type.elem, type.shape), old.data)
        return block.insert_before(user, create(op.spec, (), (type,), {"value": data}, (), op.loc)).result
    attrs = {"permutation": (1, 0)}
    return block.insert_before(user, create(PERMUTE, (value,), (type,), attrs, (), user.loc)).result


def turn(product: Op) -> None:
    """A product that a loop adds up, scaled in each step or not, and the sum that the loop carries."""
    from tileiras.compiler.schedule.tensor_memory import sum_before

    a, b, sum = product.operands
    loop, body = product.parent, product.block
    assert loop is not None and body is not None and loop.block is not None
    times = sum.op
    sum = sum_before(product)  # type: ignore[assignment]
    number = sum.index - 1
    result, type = loop.results[number], turned(sum.type)
    attrs = {SWAPPED.get(name, name): value for name, value in product.attrs.items()}
    start = transposed(loop.operands[3 + number], loop)
    sides = transposed(b, product), transposed(a, product)
    sum.type = result.type = type
    scaled = sum
    if times is not None:
        factors = [v if v is sum else turned_factor(v, product) for v in times.operands]
        scaled = body.insert_before(
            product, create(times.spec, factors, (type,), dict(times.attrs), (), times.loc)
        ).result
    made = create(product.spec, (*sides, scaled), (type,), attrs, (), product.loc, product.segments)
    body.insert_before(product, made)
    body.ops[-1].set_operand(number, made.result)
    product.erase()
    if times is not None:
        by = next(v for v in times.operands if v is not sum)
        times.erase()
        erase_unused(by.op, is_pure)
    loop.set_operand(3 + number, start)
    following = loop.block.ops[loop.block.ops.index(loop) + 1]
    back = create(PERMUTE, (result,), (turned(type),), {"permutation": (1, 0)}, (), product.loc)
    result.replace_all_uses_with(back.result)
    back.set_operand(0, result)
    loop.block.insert_before(following, back)


def turned_factor(value: Value, user: Op) -> Value:
    """The transpose of what scales a sum, for `user`: of rows alone it is spread behind the transposition."""
    spread, block = value.op, user.block
    if spread is None or spread.spec.name != "broadcast":
        return transposed(value, user)
    assert block is not None
    small = transposed(spread.operands[0], user)
    made = create(spread.spec, (small,), (turned(value.type),), dict(spread.attrs), (), spread.loc)
    return block.insert_before(user, made).result


def turn_scores(links: list[Op]) -> None:
    """Products that go on where others end, the first of them from zero, and whose last result is turned back at once: a renaming
    of what threads hold."""
    sum = links[0].operands[2]
    made: Value | None = None
    for product in links:
        a, b, _ = product.operands
        assert product.block is not None
        attrs = {SWAPPED.get(name, name): value for name, value in product.attrs.items()}
        sides = transposed(b, product), transposed(a, product)
        made = transposed(sum, product) if made is None else made
        new = create(product.spec, (*sides, made), (made.type,), attrs, (), product.loc, product.segments)
        made = product.block.insert_before(product, new).result
    last = links[-1]
    assert last.block is not None and made is not None
    back = create(PERMUTE, (made,), (sum.type,), {"permutation": (1, 0)}, (), last.loc)
    last.block.insert_before(last, back)
    last.result.replace_all_uses_with(back.result)
    for product in reversed(links):
        product.erase()
