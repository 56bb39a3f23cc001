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
    """
    does: masks that were widened to bytes, combined and held against zero are combined as conditions
    without: four instructions more an element in Tile C++
    acts: cpp_add_2d on sm_80
    """
    __slots__ = ("made", "truths")

    def run(self, func: Any, context: Context) -> bool:
        self.truths: set[Value] = set()
        self.made: dict[Value, Value] = {}
        tests: list[Op] = []
        for op in func.walk():  # operands come before their users: one look at each op
            if op.spec.name == "cmpi":
                if (
                    op.attr("comparison_predicate") in ("equal", "not_equal")
                    and op.operands[0] in self.truths
                ):
                    if _splat(op.operands[1]) == 0:
                        tests.append(op)
            elif len(op.results) == 1 and self._is_truth(op):
                self.truths.add(op.results[0])
        for op in tests:
            found = self._condition(op.operands[0])
            if op.attr("comparison_predicate") == "equal":
                found = _put(op, "xori", (found, _constant(op, found.type, 1)), found.type, {})
            op.results[0].replace_all_uses_with(found)
        for op in tests:
            _erase(op)
        return True

    def _is_truth(self, op: Op) -> bool:
        """Whether all elements are 0 or 1, by conditions that were widened: a number is not 0 where its condition holds."""
        name = op.spec.name
        if name == "constant":
            return _bits(op.results[0]) > 1 and _splat(op.results[0]) in (0, 1)
        if name in WIDTHS and _bits(op.operands[0]) == 1:
            return bool(op.attr("signedness") == "unsigned")
        return name in LOGIC | SHAPES | WIDTHS and all(v in self.truths for v in op.operands)

    def _condition(self, value: Value) -> Value:
        """The condition behind a value of 0 and 1, computed where the value is."""
        work = [value]
        while work:
            op = work[-1].op
            assert op is not None
            if work[-1] in self.made:
                work.pop()
            elif op.spec.name == "constant":
                small = _small(work[-1])
                self.made[work.pop()] = _constant(op, small, _splat(op.results[0]) or 0)
            elif op.spec.name in WIDTHS and _bits(op.operands[0]) == 1:
                self.made[work.pop()] = op.operands[0]
            elif missing := [v for v in op.operands if v not in self.made]:
                work += missing
            elif op.spec.name in WIDTHS:
                self.made[work.pop()] = self.made[op.operands[0]]
            else:
                operands = [self.made[v] for v in op.operands]
                small = _small(work[-1])
                self.made[work.pop()] = _put(op, op.spec.name, operands, small, dict(op.attrs))
        return self.made[value]


def _bits(value: Value) -> int:
    return getattr(getattr(value.type, "elem", None), "bits", 0)


def _splat(value: Value) -> int | None:
    """The number that every element of a constant is."""
    if value.op is None or value.op.spec.name != "constant":
        return None
    found = set(dense_bits(value.op.attr("value")))
    return found.pop() if len(found) == 1 else None


def _small(value: Value) -> TensorType:
    """The type of a value as a condition."""
    type: Any = value.type
    return TensorType(I1, type.shape, type.layout)


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
