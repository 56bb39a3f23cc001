"""Reductions that choose one of two elements and its number by comparisons (argmax, argmin), where numbers increase.

A body of them asks whether elements are equal and which number is smaller, and whether each is NaN: eight instructions or more.
In one thread the earlier element has the smaller number. Then how two elements relate is all that matters, and two comparisons
tell that at most: less or equal, or the later one is NaN.

What a thread keeps beside the greatest element is how far its number is from the first: a constant to choose by, where the
numbers themselves would be sums of their own and wait in as many registers as the elements. Elements are taken in a few chains,
so that the registers of those that were looked at are free.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.nvvm.build import MASK32
from tileiras.compiler.passes.tileaa.commute import WAYS, earlier_is_chosen
from tileiras.compiler.target.cost import CostModel

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


class Chooser:
    """Chooses between pairs (element, number) of which the first has the smaller number."""

    __slots__ = ("b", "compare", "joined", "test")

    def __init__(self, lowering: Lowering, compare: str, joined: str, test: int | None) -> None:
        self.b = lowering.b
        self.compare, self.joined, self.test = compare, joined, test

    def earlier(self, x: Any, y: Any) -> Any:
        """The predicate that chooses the earlier of two elements."""
        b = self.b
        found = b.emit(f"setp.{self.compare}.f32", x, y)
        if self.test is None:
            return found
        which, kind, _ = TESTS[self.test]
        one = (x, y)[which]
        return b.emit(f"{self.joined}.pred", found, b.emit(f"setp.{kind}.f32", one, one))

    def __call__(self, x: tuple[Any, ...], y: tuple[Any, ...]) -> tuple[Any, ...]:
        chosen = self.earlier(x[0], y[0])
        return self.b.emit("selp.f32", x[0], y[0], chosen), self.b.emit("selp.b32", x[1], y[1], chosen)

    def of_thread(self, pairs: list[tuple[Any, ...]]) -> tuple[Any, ...]:
        """The one that is chosen of those of a thread, in the order of their numbers."""
        b = self.b
        sums = [(0, n) if isinstance(n, int) else b.addc.get(n, (n, 0)) for _, n in pairs]
        first = pairs[0][1]
        ahead = [(number - sums[0][1]) & MASK32 for _, number in sums]
        together = all(root is sums[0][0] for root, _ in sums)
        each = max(1, len(pairs) // CostModel.chooser_chains) if together else 1
        level = []
        for start in range(0, len(pairs), each):
            value, number = pairs[start][0], ahead[start] if together else pairs[start][1]
            for k in range(start + 1, start + each):
                chosen = self.earlier(value, pairs[k][0])
                value = b.emit("selp.f32", value, pairs[k][0], chosen)
                number = b.emit("selp.b32", number, ahead[k], chosen)
            level.append((value, number))
        while len(level) > 1:
            level = [self(level[i], level[i + 1]) for i in range(0, len(level), 2)]
        value, number = level[0]
        return value, b.add(32, first, number) if together else number


def chooser(lowering: Lowering, op: Op) -> Chooser | None:
    """What chooses where a reduction does nothing else, or None where its body has to combine."""
    if len(op.operands) != 2 or not increases(op.operands[1], op.attr("dim")):
        return None
    if op.operands[0].type.elem.name != "f32" or op.operands[1].type.elem.name != "i32":  # type: ignore[attr-defined]
        return None
    chosen = earlier_is_chosen(op.regions[0].block)
    asked = None if chosen is None else question(chosen)
    if asked is None:
        return None
    return Chooser(lowering, *asked)


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
