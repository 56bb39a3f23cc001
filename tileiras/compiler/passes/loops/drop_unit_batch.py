"""TileAADropUnitBatch: products of one batch become products of matrices, and loops carry their sums as matrices.

Before: `for … iter_args(%s : 1x128x128) { %t = mmaf %a, %b, %s : 1x128x64, 1x64x128, 1x128x128 }`.
After:  `for … iter_args(%s : 128x128) { %t = mmaf %a', %b', %s : 128x64, 64x128, 128x128 }`, with `reshape` around both.

Warpgroups and tensor memory multiply matrices only. A reshape by an extent of one renames registers. It moves up through
elementwise ops and broadcasts on its way to the loop's argument, so that a sum that is scaled in each step is a
matrix as well.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Op, Value
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.types import Dense, TensorType, TileType
from tileiras.compiler.ir.walk import parts_first

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PRODUCTS = ("mmaf", "mmai", "mma_block_scaled")
RESHAPE = tileaa.BY_NAME["reshape"]


class DropUnitBatch(Pass):
    NAME = "TileAADropUnitBatch"
    SUMMARY = "Multiply matrices where a product has a batch of one"
    """
    does: products of one batch become products of matrices, and loops carry their sums as matrices
    without: `mma.sync`
    acts: staged_batched_wide on sm_90
    """
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        products = [op for op in func.walk() if op.spec.name in PRODUCTS and _one_batch(op)]
        for product in products:
            self._replace(product)
        if products:
            loops = [op for op in func.walk() if op.spec.name in ("for", "loop")]
            for loop in reversed(loops):  # inner ones first: an outer one carries what they return
                _carry_matrices(loop)
        return True

    @staticmethod
    def _replace(product: Op) -> None:
        block = product.block
        assert block is not None
        operands = [_matrix(v, product) for v in product.operands]
        type: Any = product.result.type
        new = create(
            product.spec,
            operands,
            (_without_batch(type),),
            dict(product.attrs),
            (),
            product.loc,
            product.segments,
        )
        block.insert_before(product, new)
        back = block.insert_before(product, create(RESHAPE, (new.result,), (type,), {}, (), product.loc))
        product.result.replace_all_uses_with(back.result)
        before = [v.op for v in product.operands]
        product.erase()
        _erase_unused(before)


def _erase_unused(ops: list[Op | None]) -> None:
    """Erases those that nothing uses any more, and what only they used."""
    while ops:
        op = ops.pop()
        if op is None or op.block is None or any(r.uses for r in op.results):
            continue
        if op.spec.name in ("reshape", "constant") or _is_pointwise(op):
            ops += [v.op for v in op.operands]
            op.erase()


def _one_batch(product: Op) -> bool:
    return all(len(v.type.shape) == 3 and v.type.shape[0] == 1 for v in product.operands)  # type: ignore[attr-defined]


def _without_batch(type: Any) -> TensorType:
    return TensorType(type.elem, type.shape[1:], None)


def _matrix(value: Value, user: Op) -> Value:
    """The value without its batch dimension, for `user`: what it was reshaped from, or computed so where that is all
    it is for."""
    made: dict[tuple[Value, Op], Value] = {}
    for part in parts_first([(value, user)], lambda part: _batched_parts(part, user.block)):
        made[part] = _one_matrix(*part, made)
    return made[value, user]


def _batched_parts(part: tuple[Value, Op], block: Any) -> list[tuple[Value, Op]]:
    """The operands of a value that is computed without the batch, for it."""
    op = part[0].op
    if (
        op is None
        or op.block is not block
        or len(part[0].uses) > 1
        or op.spec.name in ("reshape", "constant")
    ):
        return []
    return [(v, op) for v in op.operands] if _is_pointwise(op) else []


def _one_matrix(value: Value, user: Op, made: dict[tuple[Value, Op], Value]) -> Value:
    op = value.op
    type = _without_batch(value.type)
    block = user.block
    assert block is not None
    if op is not None:
        name = op.spec.name
        if name == "reshape" and op.operands[0].type.shape == type.shape:  # type: ignore[attr-defined]
            return op.operands[0]
        if name == "constant":
            old: Any = op.attr("value")
            dense = Dense(TileType(type.elem, type.shape), old.data)
            return block.insert_before(
                user, create(op.spec, (), (type,), {"value": dense}, (), op.loc)
            ).result
        parts = _batched_parts((value, user), block)
        if parts:
            operands = [made[part] for part in parts]
            attrs = dict(op.attrs)
            return block.insert_before(
                op, create(op.spec, operands, (type,), attrs, (), op.loc, op.segments)
            ).result
    loc = op.loc if op is not None else user.loc
    return block.insert_before(user, create(RESHAPE, (value,), (type,), {}, (), loc)).result


def _is_pointwise(op: Op) -> bool:
    """Whether the op works on each element of a batch of one as it would on a matrix."""
    from tileiras.compiler.schedule.staging import is_elementwise

    if op.spec.name != "broadcast" and not is_elementwise(op):
        return False
    return all(len(v.type.shape) == 3 and v.type.shape[0] == 1 for v in op.operands)  # type: ignore[attr-defined]


def _leaves(op: Op, loop: Op) -> bool:
    """Whether a `continue` ends an iteration of this loop, not of one inside of it."""
    owner = op.parent
    while owner is not None and owner.spec.name == "if":
        owner = owner.parent
    return owner is loop


def _carry_matrices(loop: Op) -> None:
    """Values that a loop carries with a batch of one, and only uses without it, are carried without it."""
    body = loop.regions[0].block
    end = body.ops[-1]
    first = len(body.args) - len(loop.results)
    inits = len(loop.operands) - len(loop.results)
    if len(end.operands) != len(loop.results) or any(
        op.spec.name == "break" or op.spec.name == "continue" and op is not end and _leaves(op, loop)
        for op in loop.walk()
    ):
        return
    for i, result in enumerate(loop.results):
        arg = body.args[first + i]
        type: Any = arg.type
        if not isinstance(type, TensorType) or len(type.shape) != 3 or type.shape[0] != 1:
            continue
        small, next = _without_batch(type), end.operands[i].op
        if next is None or next.spec.name != "reshape" or next.operands[0].type != small:
            continue
        if not all(op.spec.name == "reshape" and op.result.type == small for op, _ in arg.uses):
            continue
        loop.set_operand(inits + i, _matrix(loop.operands[inits + i], loop))
        arg.type = result.type = small
        for op in [op for op, _ in arg.uses]:
            op.result.replace_all_uses_with(arg)
            op.erase()
        end.set_operand(i, next.operands[0])
        if not next.result.uses:
            next.erase()
        assert loop.block is not None
        back = create(RESHAPE, (result,), (type,), {}, (), loop.loc)
        result.replace_all_uses_with(back.result)
        back.set_operand(0, result)
        place = loop.block.ops.index(loop) + 1
        if place < len(loop.block.ops):
            loop.block.insert_before(loop.block.ops[place], back)
        else:
            loop.block.append(back)
