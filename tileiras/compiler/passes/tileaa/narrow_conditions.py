"""TileAANarrowConditions: conditions of tiles that were widened to integers are computed as conditions.

Before: `%a = exti %p : i1 to i8; %b = exti %q : i1 to i8; %c = andi %a, %b; %r = cmpi not_equal %c, %zero`.
After:  `%r = andi %p, %q : i1`.

Tile C++ keeps `bool` in bytes: every `&` of two masks is a select, an and, and a comparison an element otherwise.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Op, Value
from tileiras.compiler.ir.dense import dense_bits
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.types import I1, Dense, TensorType, TileType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SHAPES = frozenset(("broadcast", "reshape", "permute"))
LOGIC = frozenset(("andi", "ori", "xori"))
WIDTHS = frozenset(("exti", "trunci"))


class NarrowConditions(Pass):
    NAME = "TileAANarrowConditions"
    SUMMARY = "Compute conditions of tiles that were widened to integers as conditions"
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        for op in [op for op in func.walk() if op.spec.name == "cmpi"]:
            predicate = op.attr("comparison_predicate")
            if predicate in ("equal", "not_equal") and op.block is not None and _splat(op.operands[1]) == 0:
                tested = op.operands[0]
                if _bits(tested) > 1 and is_truth(tested):
                    found = narrowed(tested, op)
                    if predicate == "equal":
                        found = _put(op, "xori", (found, _constant(op, found.type, 1)), found.type, {})
                    op.results[0].replace_all_uses_with(found)
                    _erase(op)
        return True


def _bits(value: Value) -> int:
    return getattr(getattr(value.type, "elem", None), "bits", 0)


def _splat(value: Value) -> int | None:
    """The number that every element of a constant is."""
    if value.op is None or value.op.spec.name != "constant":
        return None
    found = set(dense_bits(value.op.attr("value")))
    return found.pop() if len(found) == 1 else None


def is_truth(value: Value) -> bool:
    """Whether all elements are 0 or 1, by conditions that were widened: the number is not 0 where the condition holds."""
    op = value.op
    if op is None:
        return False
    name = op.spec.name
    if name == "constant":
        return _splat(value) in (0, 1)
    if name in WIDTHS:
        source = op.operands[0]
        if _bits(source) == 1:
            return op.attr("signedness") == "unsigned"
        return is_truth(source)
    return name in LOGIC | SHAPES and all(is_truth(v) for v in op.operands)


def narrowed(value: Value, user: Op) -> Value:
    """The condition behind a value of 0 and 1, for `user`, which it is put in front of where it is not there yet."""
    op = value.op
    assert op is not None
    name = op.spec.name
    type: Any = value.type
    small = TensorType(I1, type.shape, type.layout)
    if name == "constant":
        return _constant(user, small, _splat(value) or 0)
    if name in WIDTHS:
        source = op.operands[0]
        return source if _bits(source) == 1 else narrowed(source, user)
    return _put(user, name, [narrowed(v, user) for v in op.operands], small, dict(op.attrs))


def _constant(user: Op, type: Any, truth: int) -> Value:
    return _put(
        user, "constant", (), type, {"value": Dense(TileType(I1, type.shape), b"\xff" if truth else b"\x00")}
    )


def _put(user: Op, name: str, operands: Any, type: Any, attrs: dict[str, Any]) -> Value:
    assert user.block is not None
    return user.block.insert_before(
        user, create(tileaa.BY_NAME[name], operands, (type,), attrs, (), user.loc)
    ).result


def _erase(op: Op) -> None:
    """Erases an op that nothing uses, and what only it used."""
    work: list[Op | None] = [op]
    while work:
        dead = work.pop()
        if dead is None or dead.block is None or any(r.uses for r in dead.results):
            continue
        if dead is op or dead.spec.name in LOGIC | SHAPES | WIDTHS or dead.spec.name == "constant":
            work += [v.op for v in dead.operands]
            dead.erase()
