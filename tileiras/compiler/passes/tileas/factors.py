"""Factors of rows or columns that a loop does not change, on what it loads for a product of mma.sync.

    %k = load                                      %k = load
    %w = mulf %k, %down                            %t = permute %k
    %t = permute %w                                %d = convert_layout %down_turned     of rows alone
    %z = convert_layout %t                         %z = mulf (convert_layout %t), %d
    mmaf %z ..                                     mmaf %z ..

What is loaded travels as it was loaded, asynchronously where it may, and each slice of the product's K is multiplied as it
is read.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.core import Op, Value
from tileiras.compiler.ir.passes import Context
from tileiras.compiler.ir.rewrite import Rewriter
from tileiras.compiler.ir.types import TensorType
from tileiras.compiler.layout.linear import permuted
from tileiras.compiler.schedule.restage import is_invariant
from tileiras.compiler.schedule.staging import LOADS, is_elementwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def one_value(value: Value) -> bool:
    """Whether every thread has all of a tile: a constant, a number for all elements."""
    return value.type.layout.is_splat  # type: ignore[attr-defined, no-any-return]


def in_loop(op: Op) -> bool:
    """Whether an op is in a loop's body itself."""
    region = op.block.region if op.block is not None else None
    return region is not None and region.op is not None and region.op.spec.name in ("for", "loop")


def is_factor(value: Value, op: Op) -> bool:
    """Whether an operand is of rows or columns alone, and the loop around its op does not change it."""
    return in_loop(op) and bool(value.type.layout.inv) and is_invariant(value, op.block)  # type: ignore[attr-defined]


def unmoved(value: Value, body: Any) -> Value:
    """A factor as it lies in front of the loop."""
    while value.op is not None and value.op.block is body and value.op.spec is tileas.CONVERT_LAYOUT:
        value = value.op.operands[0]
    return value


def turn_first(operand: Value, product: Op, context: Context) -> None:
    """Transposes what is loaded, and the factors in front of the loop, in the place of what they make."""
    convert = operand.op
    if (
        convert is None
        or convert.spec is not tileas.CONVERT_LAYOUT
        or "atom" in product.attrs
        or not in_loop(product)
    ):
        return
    permute = convert.operands[0].op
    if permute is None or permute.spec.name != "permute" or permute.block is not product.block:
        return
    if len(permute.result.uses) != 1 or len(operand.uses) != 1:
        return
    chain = _chain(permute)
    if any(is_factor(v, op) for op in chain for v in op.operands):
        _turn(permute, chain, product.parent, context)


def _chain(permute: Op) -> list[Op]:
    """The elementwise ops between a load and a permutation, the last one first; none where there is anything else."""
    chain: list[Op] = []
    op = permute.operands[0].op
    while op is not None and op.block is permute.block and is_elementwise(op):
        tiles = [v for v in op.operands if not one_value(v) and not is_factor(v, op)]
        if len(tiles) != 1 or len(op.result.uses) != 1 or op.segments is not None:
            return []
        factors = [unmoved(v, op.block) for v in op.operands if is_factor(v, op)]
        if any(v.op is not None and v.op.block is op.block for v in factors):
            return []
        chain.append(op)
        op = tiles[0].op
    while op is not None and op.spec.name in ("reshape", "permute"):
        op = op.operands[0].op
    return chain if op is not None and op.spec.name in LOADS else []


def _turn(permute: Op, chain: list[Op], loop: Any, context: Context) -> None:
    order = permute.attr("permutation")
    inside, before = Rewriter(context, permute), Rewriter(context, loop)

    def turned(type: Any) -> TensorType:
        return TensorType(
            type.elem, tuple(type.shape[d] for d in order), permuted(type.layout, type.shape, order)
        )

    def turn(where: Rewriter, value: Value) -> Any:
        made = where.create(permute.spec, (value,), (turned(value.type),), dict(permute.attrs))
        return made.result if made is not None else None

    source = next(v for v in chain[-1].operands if not one_value(v) and not is_factor(v, chain[-1]))
    tile = turn(inside, source)
    for op in reversed(chain):
        operands: list[Any] = []
        for v in op.operands:
            if one_value(v):
                operands.append(turn(inside, v))
            elif not is_factor(v, op):
                operands.append(tile)
            else:
                factor, want = turn(before, unmoved(v, op.block)), turned(v.type)
                if factor is not None and factor.type.layout is not want.layout:
                    moved = inside.create(tileas.CONVERT_LAYOUT, (factor,), (want,))
                    factor = moved.result if moved is not None else None
                operands.append(factor)
        made = (
            inside.create(op.spec, operands, (turned(op.result.type),), dict(op.attrs))
            if None not in operands
            else None
        )
        if made is None:
            return
        made.loc = op.loc
        tile = made.result
    inside.replace(permute, [tile])
    for op in chain:
        moves = [v.op for v in op.operands if v.op is not None and v.op.spec is tileas.CONVERT_LAYOUT]
        op.erase()
        for each in moves:
            if not each.result.uses:
                each.erase()
