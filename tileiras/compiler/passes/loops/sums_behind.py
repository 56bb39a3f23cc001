"""TileAASumsBehind: sums of integers along an operand of a loop's product are joined between threads behind the loop.

Before: `%s = for … iter_args(%c) { %r = reduce %y dim 0 : 64x128 -> 128; %n = addi %c, reshape %r; continue %n }`.
After:  `%p = for … iter_args(%q : 32x128) { %r = reduce (reshape %y : 2x32x128) dim 0; %n = addi %q, %r; continue %n }`,
`%s = addi %c, reshape (reduce %p dim 0)`.

Sums of rows and columns beside a product correct its zero points. In each step they would cross shared memory between two
barriers, while the product waits. A thread adds up what it holds instead: sixteen bytes of a row, or rows far from each other.
Integers wrap around: the order of additions is of no account.
"""

from __future__ import annotations

from math import prod

from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.clone import clone_region
from tileiras.compiler.ir.core import Op, Value
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.types import I32, Dense, TensorType, TileType
from tileiras.compiler.target.cost import CostModel

from .widen_sums import may_end_early

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class SumsBehind(Pass):
    NAME = "TileAASumsBehind"
    SUMMARY = "Join sums of integers between threads behind loops of products"
    """
    does: sums of integers along operands of a loop's product are kept in parts, and joined behind the loop
    without: sums cross shared memory in each step
    acts: products_beside_zero on sm_90
    """
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        for loop in [op for op in func.walk() if op.spec.name == "for"]:
            ops = loop.regions[0].block.ops
            if any(op.spec.name == "mmai" for op in ops) and not may_end_early(loop):
                for index in range(len(loop.results)):
                    found = _sum(loop, index)
                    if found:
                        _move(loop, index, *found)
        return True


def _sum(loop: Op, index: int) -> tuple[Op, Op, int] | None:
    """The addition to a carried sum, the reduction that it adds, and how many parts of the reduced extent a thread joins."""
    carried = loop.regions[0].block.args[1 + index]
    if len(carried.uses) != 1:
        return None
    add = carried.uses[0][0]
    if add.spec.name != "addi" or add.attr("overflow") != "none" or add.parent is not loop:
        return None
    uses = add.result.uses
    if len(uses) != 1 or uses[0][0].spec.name != "continue" or uses[0][1] != index:
        return None
    reduced = add.operands[1 - carried.uses[0][1]].op
    if reduced is not None and reduced.spec.name == "reshape" and len(reduced.result.uses) == 1:
        reduced = reduced.operands[0].op
    if reduced is None or reduced.spec.name != "reduce" or reduced.parent is not loop:
        return None
    if len(reduced.results) != 1 or len(reduced.result.uses) != 1:
        return None
    type: Any = reduced.operands[0].type
    body = reduced.regions[0].block.ops
    if type.elem is not I32 or len(type.shape) != 2 or [op.spec.name for op in body] != ["addi", "yield"]:
        return None
    if set(body[0].operands) != set(reduced.regions[0].block.args):
        return None
    source = reduced.operands[0].op
    narrow: Any = source.operands[0].type if source is not None and source.spec.name == "exti" else type
    dim = reduced.attr("dim")
    held = CostModel.summed_bits // narrow.elem.bits
    if dim == 0:
        held = prod(type.shape) // (held * CostModel.summing_threads)
    return (add, reduced, held) if 1 < held < type.shape[dim] else None


def _move(loop: Op, index: int, add: Op, reduced: Op, held: int) -> None:
    block, whole = loop.block, reduced.operands[0]
    assert block is not None and add.block is not None
    type: Any = whole.type
    dim = reduced.attr("dim")
    (m, n), rest = type.shape, type.shape[dim] // held
    split, at = ((held, rest, n), 0) if dim == 0 else ((m, rest, held), 2)
    part = TensorType(I32, (rest, n) if dim == 0 else (m, rest), None)
    place = len(loop.operands) - len(loop.results) + index
    start, result, old = loop.operands[place], loop.results[index], add.result.type
    zero = {"value": Dense(TileType(I32, part.shape), bytes(4))}
    loop.set_operand(
        place,
        block.insert_before(loop, create(tileaa.BY_NAME["constant"], (), (part,), zero, (), add.loc)).result,
    )

    def put(
        before: Op, name: str, operands: tuple[Value, ...], type: Any, like: Op | None = None, **more: Any
    ) -> Value:
        regions = [clone_region(r, {}) for r in like.regions] if like is not None else []
        attrs = {**(like.attrs if like is not None else {}), **more}
        segments = like.segments if like is not None else None
        made = create(tileaa.BY_NAME[name], operands, (type,), attrs, regions, add.loc, segments)
        assert before.block is not None
        return before.block.insert_before(before, made).result

    carried: Any = loop.regions[0].block.args[1 + index]
    carried.type = result.type = part
    tile = put(add, "reshape", (whole,), TensorType(I32, split, None))
    some = put(add, "reduce", (tile,), part, reduced, dim=at)
    total = put(add, "addi", (carried, some), part, add)
    uses = list(result.uses)
    behind = block.ops[block.ops.index(loop) + 1]
    joined = put(behind, "reduce", (result,), reduced.result.type, reduced)
    if reduced.result.type != old:
        joined = put(behind, "reshape", (joined,), old)
    final = put(behind, "addi", (start, joined), old, add)
    for user, number in uses:
        user.set_operand(number, final)
    end, number = add.result.uses[0]
    end.set_operand(number, total)
    _erase(add)


def _erase(add: Op) -> None:
    """Takes an addition out, and the reduction that only it used."""
    work = [add]
    while work:
        op = work.pop()
        if op.spec.name in GONE and not op.result.uses:
            work += [v.op for v in op.operands if v.op is not None]
            op.erase()


GONE = frozenset(("addi", "reshape", "reduce"))
