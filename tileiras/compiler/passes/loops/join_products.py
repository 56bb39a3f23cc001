"""TileAAJoinProducts: products on both sides of a branch become one product, in front of the branch or behind it.

Of the same operands, in front of it, where each side adds it to its own sum:

    for %k {                                                   for %k {
      %x = load, %y = load                                       %x = load, %y = load
      %s', %t' = if %c { mma %x, %y, %s; yield .., %t }          %p = mma %x, %y, 0
                 else { mma %x, %y, %t; yield %s, .. }           %s', %t' = if %c { yield %s + %p, %t }
    }                                                                       else { yield %s, %t + %p }
                                                               }

Of other operands, behind it, where both are the same result of the branch:

    %s' = if %c { %y = load %b; mma %x, %y, %s }               %y = if %c { load %b } else { load %d }
          else { %z = load %d; mma %x, %z, %s }                %s' = mma %x, %y, %s

A product in a branch takes nothing from copies that run ahead, and is `mma.sync`. Sums of other types than f32 and i32, which an
addition behind the product would round once more, are chosen in front of it; so they have to be there, or are constants.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import diags as D
from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.clone import clone_op
from tileiras.compiler.ir.core import Op, Value
from tileiras.compiler.ir.dense import constant_bytes
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.types import F32, I1, I32, Dense, TensorType, TileType
from tileiras.compiler.schedule.candidates import is_outside
from tileiras.compiler.schedule.left_out import blocks_of
from tileiras.compiler.schedule.tensor_memory import is_zero
from tileiras.compiler.target.products import PRODUCTS

from .parts_joined import ROUNDED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Block

ACCUMULATOR = 2  # the number of a product's operand


class JoinProducts(Pass):
    NAME = "TileAAJoinProducts"
    SUMMARY = "Multiply once, in front of a branch or behind it, what both of its sides multiply"
    """
    does: products that both sides of a branch in a loop have are one product: of the same operands in front of it, which a side
      adds to its sum; of others behind it, which takes the operands of the side that ran
    without: loads do not run ahead to products in the branch, which are `mma.sync`
    acts: two_sums_in_turn on sm_90
    """
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        for loop in [op for op in func.walk() if op.spec.name == "for"]:
            for branch in [op for op in loop.regions[0].block.ops if op.spec.name == "if"]:
                pairs = common_products(branch)
                places = [] if pairs else last_products(branch)
                if pairs or places:
                    where = "in front of" if pairs else "behind"
                    context.remark(D.JOINED_PRODUCTS, branch, count=len(pairs or places), where=where)
                for one, other in pairs:
                    hoist(branch, one, other)
                if places:
                    sink(branch, places)
                if pairs or places:
                    context.analyses.drop()
        return True


# ---- in front
def common_products(branch: Op) -> list[tuple[Op, Op]]:
    """The products of a branch, side by side; none where a side has others, or of what it makes itself."""
    sides = [[op for op in side if op.spec.name in PRODUCTS] for side in blocks_of(branch)]
    inside = [op for op in branch.walk() if op.spec.name in PRODUCTS]
    if len(sides) != 2 or len(sides[0]) != len(sides[1]) or len(inside) != 2 * len(sides[0]):
        return []
    pairs = list(zip(*sides))
    return pairs if all(is_common(one, other, branch) for one, other in pairs) else []


def is_common(one: Op, other: Op, branch: Op) -> bool:
    """Whether two products are of one kind and of the same operands, which are there in front of a branch; so are sums that an
    addition does not make up for."""
    if not alike(one, other):
        return False
    for number, (mine, its) in enumerate(zip(one.operands, other.operands)):
        if number != ACCUMULATOR:
            if mine is not its or not is_outside(mine, branch):
                return False
        elif mine is its or not is_added(one.result.type):
            if not all(is_outside(v, branch) or is_constant(v) for v in (mine, its)):
                return False
    return True


def alike(one: Op, other: Op) -> bool:
    """Whether two products differ in their operands alone."""
    types = [[v.type for v in (*op.operands, op.result)] for op in (one, other)]
    return one.spec is other.spec and one.attrs == other.attrs and types[0] == types[1]


def is_constant(value: Value) -> bool:
    return value.op is not None and value.op.spec.name == "constant"


def is_added(type: Any) -> bool:
    """Whether what is added to a product behind it is rounded as in it, or not at all."""
    return type.elem is F32 or type.elem is I32


def hoist(branch: Op, one: Op, other: Op) -> None:
    """Computes two products, one of each side of a branch, as one in front of it."""
    block = branch.block
    assert block is not None

    def make(name: str, operands: list[Value], type: Any, attrs: Any = None) -> Value:
        made = create(tileaa.BY_NAME[name], operands, (type,), attrs or {}, (), one.loc)
        return block.insert_before(branch, made).result  # type: ignore[union-attr]

    sums = [op.operands[ACCUMULATOR] for op in (one, other)]
    type: Any = one.result.type
    product = clone_op(one, {})
    if sums[0] is not sums[1] and is_added(type):
        zero = Dense(TileType(type.elem, type.shape), bytes(constant_bytes(type.elem)))
        product.set_operand(ACCUMULATOR, make("constant", [], type, {"value": zero}))
        block.insert_before(branch, product)
        for op in (one, other):
            behind = product.result
            if not is_zero(op.operands[ACCUMULATOR]):
                behind = op.block.insert_before(op, added(product.result, op)).result  # type: ignore[union-attr]
            op.result.replace_all_uses_with(behind)
            op.erase()
        return
    for n, value in enumerate(sums):
        if not is_outside(value, branch):
            sums[n] = block.insert_before(branch, clone_op(value.op, {})).result  # type: ignore[arg-type]
    if sums[0] is not sums[1]:
        flag = make("reshape", [branch.operands[0]], TensorType(I1, (1,) * len(type.shape), None))
        flags = make("broadcast", [flag], TensorType(I1, type.shape, None))
        sums = [make("select", [flags, *sums], type)]
    product.set_operand(ACCUMULATOR, sums[0])
    block.insert_before(branch, product)
    for op in (one, other):
        op.result.replace_all_uses_with(product.result)
        op.erase()


def added(product: Value, op: Op) -> Op:
    """What a product of which the sum was left out adds up to."""
    type: Any = op.result.type
    name, how = ("addf", ROUNDED) if type.elem is F32 else ("addi", {"overflow": "none"})
    return create(tileaa.BY_NAME[name], (op.operands[ACCUMULATOR], product), (type,), dict(how), (), op.loc)


# ---- behind
def last_products(branch: Op) -> list[int]:
    """The results of a branch that are products of one kind on both sides, which nobody else on these sides asks for; none where
    a side has other products."""
    ends = [side[-1] if side else None for side in blocks_of(branch)]
    if len(ends) != 2 or any(end is None or end.spec.name != "yield" for end in ends):
        return []
    found: list[int] = []
    for number, values in enumerate(zip(*(end.operands for end in ends if end is not None))):
        made = [value.op for value in values]
        if any(op is None or op.spec.name not in PRODUCTS or len(op.result.uses) > 1 for op in made):
            continue
        one, other = made
        if one is not None and other is not None and all(op.parent is branch for op in (one, other)):
            if alike(one, other):
                found.append(number)
    inside = sum(op.spec.name in PRODUCTS for op in branch.walk())
    return found if 2 * len(found) == inside else []


def sink(branch: Op, places: list[int]) -> None:
    """Computes results of a branch behind it, of the operands that it hands on where its sides have others."""
    block = branch.block
    assert block is not None
    ends = [side[-1] for side in blocks_of(branch)]
    kept = [n for n in range(len(branch.results)) if n not in places]
    handed = [[end.operands[n] for n in kept] for end in ends]
    known: dict[tuple[Value, Value], int] = {}
    plans = []
    for place in places:
        pairs = list(zip(*(end.operands[place].op.operands for end in ends)))  # type: ignore[union-attr]
        plans.append((ends[0].operands[place].op, pairs))
        for pair in pairs:
            if pair[0] is not pair[1] and pair not in known:
                known[pair] = len(handed[0])
                for values, value in zip(handed, pair):
                    values.append(value)
    products = [end.operands[n].op for end in ends for n in places]
    regions, branch.regions = branch.regions, []
    for end, values in zip(ends, handed):
        replaced(end, values)
    types = [value.type for value in handed[0]]
    made = create(branch.spec, branch.operands, types, dict(branch.attrs), regions, branch.loc)
    block.insert_before(branch, made)
    for n, old in enumerate(kept):
        branch.results[old].replace_all_uses_with(made.results[n])
    for place, (product, pairs) in zip(places, plans):
        copy = clone_op(product, {})  # type: ignore[arg-type]
        for n, pair in enumerate(pairs):
            copy.set_operand(n, pair[0] if pair[0] is pair[1] else made.results[known[pair]])
        block.insert_before(branch, copy)
        branch.results[place].replace_all_uses_with(copy.result)
    for op in products:
        op.erase()  # type: ignore[union-attr]
    branch.erase()


def replaced(end: Op, values: list[Value]) -> None:
    """Hands other values on at the end of a side."""
    block: Block | None = end.block
    assert block is not None
    block.insert_before(end, create(end.spec, values, (), {}, (), end.loc, (len(values),)))
    end.erase()
