"""TileAAWidenSums: products that add up in f16 do so in f32, and round once: behind a loop that carries them, or behind a
product that begins with zeros.

Before: `%r = for … iter_args(%s : 128x128xf16) { %t = mmaf %a, %b, %s continue %t }`.
After:  `%w = for … iter_args(%s : 128x128xf32) { %t = mmaf %a, %b, %s continue %t }`, `%r = ftof %w`.
Before: `%r = mmaf %a, %b, 0 : 128x128xf16`.  After: `%w = mmaf %a, %b, 0 : 128x128xf32`, `%r = ftof %w`.

Tensor instructions add in f32 as fast as in f16. Rounding after each product takes longer than the product, unless
the instruction rounds within its own sum, further from what was meant; and warpgroups add up in f32 alone. Of carried sums
only those that nothing but products looks at are widened, through loops in the loop as well.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Op, Value
from tileiras.compiler.ir.dense import dense_bits
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.types import F16, F32, Dense, TensorType, TileType
from tileiras.compiler.schedule.candidates import EXITS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class WidenSums(Pass):
    NAME = "TileAAWidenSums"
    SUMMARY = "Add up in f32 what products add up in f16"
    """
    does: loops whose products add up in f16 carry their sums in f32, and round them once, behind; a product that begins
      with zeros adds up in f32, too
    without: a sum is rounded after each product, by `mma.sync`
    acts: matmul_f16_acc on sm_90
    """
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        for loop in [op for op in func.walk() if op.spec.name == "for"]:  # outer ones come first
            for index in range(len(loop.results)):
                values = _sums(loop, index)
                if values:
                    _widen(loop, index, values)
        for op in [op for op in func.walk() if op.spec.name == "mmaf"]:
            if op.result.type.elem is F16 and _is_zero(op.operands[2]):
                _widen_one(op)
        return True


def _sums(loop: Op, index: int) -> list[Value]:
    """What a carried sum of f16 passes through in a loop, until it is carried on; empty where anything else takes part."""
    if getattr(loop.results[index].type, "elem", None) is not F16:
        return []
    found: list[Value] = []
    around = [(loop, index)]
    products = 0
    if may_end_early(loop):
        return []
    value = loop.regions[0].block.args[1 + index]
    while True:
        found.append(value)
        if len(value.uses) != 1:
            return []
        user, place = value.uses[0]
        if user.spec.name == "mmaf" and place == 2:
            products += 1
            value = user.result
        elif user.spec.name == "for" and place >= _bounds(user) and not may_end_early(user):
            around.append((user, place - _bounds(user)))
            value = user.regions[0].block.args[1 + around[-1][1]]
        elif user.spec.name == "continue" and user.parent is around[-1][0] and place == around[-1][1]:
            inner, number = around.pop()
            if not around:
                return found if products else []
            value = inner.results[number]
        else:
            return []


def _bounds(loop: Op) -> int:
    """Operands of a loop in front of what it carries."""
    return len(loop.operands) - len(loop.results)


def may_end_early(loop: Op) -> bool:
    """Whether an iteration may end before its last op."""
    end = loop.regions[0].block.ops[-1]
    return any(
        op.spec.name in EXITS
        or op.spec.name == "continue"
        and op is not end
        and op.parent is not None
        and op.parent.spec.name == "if"
        for op in loop.walk()
    )


def _widen(loop: Op, index: int, values: list[Value]) -> None:
    result = loop.results[index]
    narrow: Any = result.type
    wide = TensorType(F32, narrow.shape, None)
    for value in values:
        value.type = wide
    place = _bounds(loop) + index
    loop.set_operand(place, _as_f32(loop.operands[place], wide, loop))
    result.type = wide
    _round_back(loop, result, narrow)


def _widen_one(product: Op) -> None:
    narrow: Any = product.result.type
    wide = TensorType(F32, narrow.shape, None)
    product.set_operand(2, _as_f32(product.operands[2], wide, product))
    product.result.type = wide
    _round_back(product, product.result, narrow)


def _round_back(op: Op, result: Value, narrow: TensorType) -> None:
    """All that used a result of `op` takes it rounded."""
    block = op.block
    assert block is not None
    back = _cast(result, narrow, op)
    result.replace_all_uses_with(back.result)
    back.set_operand(0, result)
    block.insert_before(block.ops[block.ops.index(op) + 1], back)


def _is_zero(value: Value) -> bool:
    return (
        value.op is not None
        and value.op.spec.name == "constant"
        and not any(dense_bits(value.op.attr("value")))
    )


def _as_f32(value: Value, wide: TensorType, user: Op) -> Value:
    block = user.block
    assert block is not None
    if _is_zero(value):
        op: Any = value.op
        zero = {"value": Dense(TileType(F32, wide.shape), bytes(4))}
        return block.insert_before(user, create(op.spec, (), (wide,), zero, (), op.loc)).result
    return block.insert_before(user, _cast(value, wide, user)).result


def _cast(value: Value, type: TensorType, user: Op) -> Op:
    rounding = {"rounding_mode": "nearest_even"}
    return create(tileaa.BY_NAME["ftof"], (value,), (type,), rounding, (), user.loc)
