"""Reductions that choose one of two elements and its number by comparisons (argmax, argmin), where numbers increase.

A body of them asks whether elements are equal and which number is smaller, and whether each is NaN: eight instructions or more.
In one thread the earlier element has the smaller number. Then how two elements relate is all that matters, and two comparisons
tell that at most: less or equal, or the later one is NaN.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.passes.tileaa.commute import WAYS, earlier_is_chosen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value

    from .state import Lowering

_NAN = frozenset(WAYS[3:])
_COMPARES = {
    "lt": ("lt",), "le": ("lt", "eq"), "gt": ("gt",), "ge": ("gt", "eq"), "eq": ("eq",), "ne": ("lt", "gt"),
}  # fmt: skip
_ORDERED = {name: frozenset(ways) for name, ways in _COMPARES.items()}
COMPARES = {**_ORDERED, **{name + "u": ways | _NAN for name, ways in _ORDERED.items()}}
# of one element: which of the two, whether it is to be NaN, and how the two then relate
TESTS = [
    (0, "nan", frozenset(("x_nan", "nan"))), (1, "nan", frozenset(("y_nan", "nan"))),
    (0, "num", frozenset(WAYS) - {"x_nan", "nan"}), (1, "num", frozenset(WAYS) - {"y_nan", "nan"}),
]  # fmt: skip


def chooser(lowering: Lowering, op: Op) -> Any:
    """What combines two pairs (element, number) of which the first has the smaller number, or None where the body of a reduction
    has to."""
    if len(op.operands) != 2 or not increases(op.operands[1], op.attr("dim")):
        return None
    if op.operands[0].type.elem.name != "f32" or op.operands[1].type.elem.name != "i32":  # type: ignore[attr-defined]
        return None
    chosen = earlier_is_chosen(op.regions[0].block)
    asked = None if chosen is None else question(chosen)
    if asked is None:
        return None
    b = lowering.b
    compare, joined, test = asked

    def combine(x: tuple[Any, ...], y: tuple[Any, ...]) -> tuple[Any, ...]:
        earlier = b.emit(f"setp.{compare}.f32", x[0], y[0])
        if test is not None:
            which, kind, _ = TESTS[test]
            one = (x, y)[which][0]
            earlier = b.emit(f"{joined}.pred", earlier, b.emit(f"setp.{kind}.f32", one, one))
        return b.emit("selp.f32", x[0], y[0], earlier), b.emit("selp.b32", x[1], y[1], earlier)

    return combine


def question(chosen: frozenset[str]) -> tuple[str, str, int | None] | None:
    """(comparison, how a test is joined, which test) that is true where elements relate in the ways `chosen`."""
    for compare, ways in COMPARES.items():
        if ways == chosen:
            return compare, "", None
    for compare, ways in COMPARES.items():
        for number, (_, _, tested) in enumerate(TESTS):
            if ways | tested == chosen:
                return compare, "or", number
            if ways & tested == chosen:
                return compare, "and", number
    return None


def increases(value: Value, dim: int) -> bool:
    """Whether a tile's elements are 0, 1, 2 .. along a dimension."""
    size = value.type.shape[dim]  # type: ignore[attr-defined]
    while value.op is not None:
        op, shape = value.op, value.type.shape  # type: ignore[attr-defined]
        if op.spec.name == "iota":
            return shape[0] == size  # type: ignore[no-any-return]
        if op.spec.name == "reshape":
            if [n for n in shape if n > 1] != [size] or shape[dim] != size:
                return False
            source = op.operands[0].type.shape  # type: ignore[attr-defined]
            dim = next((n for n, extent in enumerate(source) if extent == size), 0)
        elif op.spec.name == "broadcast":
            if op.operands[0].type.shape[dim] != size:  # type: ignore[attr-defined]
                return False
        elif op.spec is not tileas.CONVERT_LAYOUT:
            return False
        value = op.operands[0]
    return False
