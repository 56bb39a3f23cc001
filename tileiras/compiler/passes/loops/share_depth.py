"""Products of scores as a product for each warp, of its part of K, and the sum of these (TileAASplitDepth).

Before: `%s = mmaf %q, %k, %zero : 16x512, 512x32, 16x32`.
After:  `%t = mmaf %q', %k', %zeros : 4x16x128, 4x128x32, 4x16x32`, `%s = reduce %t`: what to choose by is in
        schedule/shared_depth.py.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Op, Value
from tileiras.compiler.ir.types import F32, Dense, TensorType, TileType

from .parts_joined import joined

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def share_depth(links: list[Op], parts: int) -> None:
    """Replaces the products of scores, each of which goes on where the one before it ends."""
    last = links[-1]
    whole: Any = last.result.type
    type = TensorType(F32, (parts, *whole.shape), None)

    def put(name: str, value: Value | None, type: Any, attrs: Any, before: Op) -> Value:
        operands = () if value is None else (value,)
        made = create(tileaa.BY_NAME[name], operands, (type,), attrs, (), before.loc)
        assert before.block is not None
        return before.block.insert_before(before, made).result

    zero = {"value": Dense(TileType(F32, type.shape), bytes(4))}
    sum = put("constant", None, type, zero, links[0])
    for op in links:
        left, right = op.operands[:2]
        (m, k), n = left.type.shape, right.type.shape[1]  # type: ignore[attr-defined]
        elems = left.type.elem, right.type.elem  # type: ignore[attr-defined]
        loop = op.parent
        assert loop is not None
        move_out(left, loop)
        a = put("reshape", left, TensorType(elems[0], (m, parts, k // parts), None), {}, loop)
        a = put(
            "permute", a, TensorType(elems[0], (parts, m, k // parts), None), {"permutation": (1, 0, 2)}, loop
        )
        b = put("reshape", right, TensorType(elems[1], (parts, k // parts, n), None), {}, op)
        made = create(op.spec, (a, b, sum), (type,), dict(op.attrs), (), op.loc, op.segments)
        assert op.block is not None
        sum = op.block.insert_before(op, made).result
    last.result.replace_all_uses_with(joined(sum, whole, last))
    for op in reversed(links):
        op.erase()


def move_out(value: Value, loop: Op) -> None:
    """What only renames something from outside of a loop goes in front of it."""
    body, op, chain = loop.regions[0].block, value.op, []
    while op is not None and op.block is body:
        chain.append(op)
        op = op.operands[0].op
    for each in reversed(chain):
        assert loop.block is not None
        body.ops.remove(each)
        loop.block.insert_before(loop, each)
