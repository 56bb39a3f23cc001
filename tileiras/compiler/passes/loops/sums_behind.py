"""TileAASumsBehind: sums beside a loop's products are joined behind the loop: of integers along an operand between threads, of
exponentials of scores between warps.

Before: `%s = for … iter_args(%c) { %r = reduce %y dim 0 : 64x128 -> 128; %n = addi %c, reshape %r; continue %n }`.
After:  `%p = for … iter_args(%q : 32x128) { %r = reduce (reshape %y : 2x32x128) dim 0; %n = addi %q, %r; continue %n }`,
`%s = addi %c, reshape (reduce %p dim 0)`.

Sums of rows and columns beside a product correct its zero points. In each step they would cross shared memory between two
barriers, while the product waits. A thread adds up what it holds instead: sixteen bytes of a row, or rows far from each other.
Integers wrap around: the order of additions is of no account.

Where warps share out the columns of scores, as in decoding, the total of a row's exponentials is kept for each warp's columns and
scaled there: `%l = %l * %f + reduce %p dim 1 : 32x64 -> 32` carries 32x4. Only the maximum crosses shared memory in a step. What
scales it must be finite, as in TileAASplitDepth; no exponential is negative, so that a part is never larger than the total.
"""

from __future__ import annotations

from math import inf, prod
from struct import pack, unpack

from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.clone import clone_region
from tileiras.compiler.ir.core import Op, Value
from tileiras.compiler.ir.dense import dense_bits
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.types import F32, I32, Dense, TensorType, TileType
from tileiras.compiler.layout.linear import log2, permuted
from tileiras.compiler.schedule.restage import product_of
from tileiras.compiler.target.cost import CostModel

from .split_depth import is_finite
from .widen_sums import may_end_early

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class SumsBehind(Pass):
    NAME = "TileAASumsBehind"
    SUMMARY = "Join sums of integers between threads, of exponentials between warps, behind loops of products"
    """
    does: sums of integers along operands of a loop's product, and of exponentials whose columns warps share out, are kept in
      parts, and joined behind the loop
    without: sums cross shared memory in each step
    acts: products_beside_zero on sm_90
    """
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        for loop in [op for op in func.walk() if op.spec.name == "for"]:
            ops = loop.regions[0].block.ops
            if any(op.spec.name == "mmaf" for op in ops) and not may_end_early(loop):
                self._totals(func, loop, context)
            if any(op.spec.name == "mmai" for op in ops) and not may_end_early(loop):
                for index in range(len(loop.results)):
                    found = _sum(loop, index)
                    if found:
                        _move(loop, index, *found)
        return True

    def _totals(self, func: Any, loop: Op, context: Context) -> None:
        """Keeps the totals of a loop's exponentials in parts, one for each warp that has columns of its own."""
        for index in range(len(loop.results)):
            found = _total(loop, index)
            if found is None:
                continue
            parts = warps_of_columns(func, found[1].operands[0], context)
            if parts > 1:
                _keep_parts(loop, index, *found, parts)
                context.analyses.drop()


def _total(loop: Op, index: int) -> tuple[Op, Op] | None:
    """What ends a step of a total of exponentials that is scaled by a finite number of each row, and the reduction it adds."""
    body = loop.regions[0].block
    carried, place = body.args[1 + index], len(loop.operands) - len(loop.results) + index
    end = body.ops[-1].operands[index].op
    if end is None or end.block is not body or len(end.result.uses) != 1 or len(carried.uses) != 1:
        return None
    if end.spec.name == "fma" and carried in end.operands[:2]:
        scale, added = end.operands[1 - carried.uses[0][1]], end.operands[2]
    elif end.spec.name == "addf":
        scaled = carried.uses[0][0]
        if scaled.spec.name != "mulf" or len(scaled.result.uses) != 1 or scaled.result not in end.operands:
            return None
        scale, added = scaled.operands[1 - carried.uses[0][1]], end.operands[1 - scaled.result.uses[0][1]]
    else:
        return None
    if carried.type.elem is not F32 or not is_finite(scale) or start_of(loop.operands[place]) is None:
        return None
    reduced = added.op
    if reduced is not None and reduced.spec.name == "reshape" and len(reduced.result.uses) == 1:
        reduced = reduced.operands[0].op
    if (
        reduced is None
        or reduced.spec.name != "reduce"
        or reduced.block is not body
        or len(reduced.results) != 1
    ):
        return None
    type: Any = reduced.operands[0].type
    inner = reduced.regions[0].block.ops
    if (
        type.elem is not F32
        or len(type.shape) != 2
        or reduced.attr("dim") != 1
        or len(reduced.result.uses) != 1
    ):
        return None
    if carried.type.shape not in ((type.shape[0],), (type.shape[0], 1)) or [op.spec.name for op in inner] != [
        "addf",
        "yield",
    ]:
        return None
    return (end, reduced) if set(inner[0].operands) == set(reduced.regions[0].block.args) else None


def start_of(value: Value) -> float | None:
    """The one number that a tile of constants of f32 has, where a small power of two divides it exactly."""
    op = value.op
    if op is None or op.spec.name != "constant":
        return None
    bits = set(dense_bits(op.attr("value")))
    number: float = unpack("<f", bits.pop().to_bytes(4, "little"))[0]
    return number if not bits and (not number or 1e-30 < abs(number) < inf) else None


def warps_of_columns(func: Any, tile: Value, context: Context) -> int:
    """How many warps share out the columns of a tile that is computed from a product's scores; 1 where nobody can tell."""
    from tileiras.compiler.dialects.nv_tileaa.kernel_spec import KEY
    from tileiras.compiler.schedule.product_layouts import ProductLayouts

    type: Any = tile.type
    scores = product_of(tile, tile.op.block) if tile.op is not None else None
    if scores is None or KEY not in func.attrs or context.target is None:
        return 1
    layouts = ProductLayouts(func, context.analyses, log2(func.attrs[KEY].num_warps))
    layout = None
    if scores.result.type.shape == type.shape:  # type: ignore[attr-defined]
        found = layouts.of(scores)
        layout = found[1] if found is not None and scores not in layouts.in_tensor_memory else None
    elif scores.result.type.shape == type.shape[::-1] and is_turned(scores.result):  # type: ignore[attr-defined]
        found = layouts.of(scores)
        if found is not None and scores not in layouts.in_tensor_memory:
            layout = permuted(found[1], type.shape[::-1], (1, 0))
    elif scores.result.uses and (user := scores.result.uses[0][0]).spec.name == "reduce":
        layout = layouts.joined(user)  # of the parts of K that warps have
    if layout is None:
        return 1
    of_columns = [bit for bit in layout.warp if bit & type.shape[1] - 1]
    parts = 1 << len(of_columns)
    return parts if all(bit >= type.shape[1] // parts for bit in of_columns) else 1  # the uppermost bits


def is_turned(value: Value) -> bool:
    """Whether a tile of two dimensions is used turned alone."""
    return bool(value.uses) and all(
        user.spec.name == "permute" and tuple(user.attr("permutation")) == (1, 0) for user, _ in value.uses
    )


def _keep_parts(loop: Op, index: int, end: Op, reduced: Op, parts: int) -> None:
    block, whole = loop.block, reduced.operands[0]
    assert block is not None
    type: Any = whole.type
    m, n = type.shape
    part = TensorType(F32, (m, parts), None)
    place = len(loop.operands) - len(loop.results) + index
    result, carried = loop.results[index], loop.regions[0].block.args[1 + index]
    old = result.type

    def put(
        before: Op, name: str, operands: tuple[Value, ...], type: Any, like: Op | None = None, **more: Any
    ) -> Value:
        return _put(before, end, name, operands, type, like, more)

    each = start_of(loop.operands[place]) or 0.0
    start = {"value": Dense(TileType(F32, part.shape), pack("<f", each / parts))}
    loop.set_operand(place, put(loop, "constant", (), part, None, **start))
    tile = put(end, "reshape", (whole,), TensorType(F32, (m, parts, n // parts), None))
    some = put(end, "reduce", (tile,), part, reduced, dim=2)
    scaled = carried.uses[0][0]
    scale = scaled.operands[1 - carried.uses[0][1]]
    if len(old.shape) == 1:
        scale = put(scaled, "reshape", (scale,), TensorType(F32, (m, 1), None))
    spread = put(scaled, "broadcast", (scale,), part)
    uses = list(result.uses)
    carried.type = result.type = part
    if scaled is end:
        total = put(end, "fma", (carried, spread, some), part, end)
    else:
        product = put(scaled, "mulf", (carried, spread), part, scaled)
        total = put(end, "addf", (product, some), part, end)
    behind = block.ops[block.ops.index(loop) + 1]
    joined = put(behind, "reduce", (result,), reduced.result.type, reduced)
    if reduced.result.type != old:
        joined = put(behind, "reshape", (joined,), old)
    for user, number in uses:
        user.set_operand(number, joined)
    loop.regions[0].block.ops[-1].set_operand(index, total)
    _erase(end)


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
        return _put(before, add, name, operands, type, like, more)

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


def _put(
    before: Op,
    place: Op,
    name: str,
    operands: tuple[Value, ...],
    type: Any,
    like: Op | None,
    more: dict[str, Any],
) -> Value:
    """The result of a new op that says it comes from `place`, with regions and attributes of `like`."""
    regions = [clone_region(r, {}) for r in like.regions] if like is not None else []
    attrs = {**(like.attrs if like is not None else {}), **more}
    segments = like.segments if like is not None else None
    made = create(tileaa.BY_NAME[name], operands, (type,), attrs, regions, place.loc, segments)
    assert before.block is not None
    return before.block.insert_before(before, made).result


def _erase(add: Op) -> None:
    """Takes an addition out, and the reduction that only it used."""
    work = [add]
    while work:
        op = work.pop()
        if op.spec.name in GONE and not op.result.uses:
            work += [v.op for v in op.operands if v.op is not None]
            op.erase()


GONE = frozenset(("addi", "addf", "mulf", "fma", "reshape", "reduce"))
