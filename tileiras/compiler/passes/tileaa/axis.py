"""Axis facts: how the elements of an integer or pointer tile relate along each dimension.

contig[d]: elements in aligned groups of this many along d count up by one (pointers: by one pointee).
const[d]: elements in aligned groups of this many along d are equal.
div[d]: a power of two that divides the first element of every group of contig[d] along d (pointers: bytes).
All are powers of two; 1 says nothing. A group never crosses the range of its integer type, because its start is
a multiple of its size wherever that matters.
"""

from __future__ import annotations

from tileiras.compiler.ir.dense import dense_bits
from tileiras.compiler.ir.types import DivBy, Ptr, SameElements
from tileiras.compiler.ir.walk import DEEP, parts_first

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value

    from .facts import Facts

MAX_DIVISOR = 1 << 32


def low_bit(x: int) -> int:
    """Largest power of two that divides x (0: everything divides it)."""
    return x & -x if x else MAX_DIVISOR


class Axis:
    """Facts of one tile, one entry per dimension."""

    __slots__ = ("const", "contig", "div")

    def __init__(self, contig: tuple[int, ...], const: tuple[int, ...], div: tuple[int, ...]) -> None:
        self.contig = contig
        self.const = const
        self.div = div

    def at_least(self, other: Axis) -> bool:
        return all(a >= b for a, b in zip(self.contig, other.contig)) and all(
            a >= b for a, b in zip(self.const, other.const)
        )

    def elementwise(self, d: int) -> int:
        """A divisor of every element along d, not only of group starts."""
        return self.div[d] if self.contig[d] == 1 else 1

    def start(self, d: int, group: int, unit: int = 1) -> int:
        """A divisor of the first element of groups of at most contig[d] elements, `unit` apart."""
        return self.div[d] if group >= self.contig[d] else min(self.div[d], group * unit)


def nothing(rank: int) -> Axis:
    return Axis((1,) * rank, (1,) * rank, (1,) * rank)


def makers(value: Value, rules: Mapping[str, Any]) -> Sequence[Value]:
    """The tiles and scalars from which a rule derives a fact of a value."""
    op = value.op
    return (
        ()
        if op is None or op.spec.name not in rules
        else [v for v in op.operands if hasattr(v.type, "shape")]
    )


class AxisFacts:
    """Answers for one function; rides on its scalar `Facts`."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.known: dict[Value, Axis] = {}
        self._depth = 0

    def of(self, value: Value) -> Axis:
        found = self.known.get(value)
        if found is None:
            shape: Any = value.type.shape  # type: ignore[attr-defined]
            self.known[value] = nothing(len(shape))
            self._depth += 1
            if self._depth == DEEP:  # of a long chain the far end first, so that no call goes deeper
                for part in parts_first([value], lambda v: makers(v, _RULES))[:-1]:
                    self.of(part)
            found = self.known[value] = self._derive(value, shape)
            self._depth -= 1
        return found

    def _uniform(self, value: Value, shape: tuple[int, ...]) -> Axis:
        return Axis((1,) * len(shape), shape, (self.facts.divisor(value),) * len(shape))

    def _derive(self, value: Value, shape: tuple[int, ...]) -> Axis:
        if not shape:
            return Axis((), (), ())
        op = value.op
        if op is None:
            return self._carried(value, shape)
        rule = _RULES.get(op.spec.name)
        if rule is None:
            return nothing(len(shape))
        return rule(self, op, shape)

    def _carried(self, value: Value, shape: tuple[int, ...]) -> Axis:
        """A value that a `for` carries: what its start has, if the next one keeps it."""
        owner = value.owner.region.op if value.owner.region is not None else None  # type: ignore[union-attr]
        if owner is None or owner.spec.name != "for" or value.index == 0:
            return nothing(len(shape))
        start = self.of(owner.operands[2 + value.index])
        last = owner.regions[0].block.ops[-1]
        if last.spec.name != "continue" or _has_early_exit(owner):
            return nothing(len(shape))
        before = dict(self.known)
        holds = start
        for _ in range(2):  # what it begins with; else that with the divisors that a step leaves
            self.known = {**before, value: holds}
            following = self.of(last.operands[value.index - 1])
            if not following.at_least(holds):
                break
            least = tuple(min(a, b) for a, b in zip(following.div, holds.div))
            if least == holds.div:
                return holds
            holds = Axis(start.contig, start.const, least)  # and nothing that was found with more
        self.known = before
        return nothing(len(shape))


def _has_early_exit(loop: Op) -> bool:
    return any(
        op.spec.name in ("continue", "break") and op is not loop.regions[0].block.ops[-1]
        for op in loop.walk()
    )


def _constant(f: AxisFacts, op: Op, shape: tuple[int, ...]) -> Axis:
    values = set(dense_bits(op.attr("value")))
    if len(values) != 1:
        return nothing(len(shape))
    return Axis((1,) * len(shape), shape, (low_bit(values.pop()),) * len(shape))


def _iota(f: AxisFacts, op: Op, shape: tuple[int, ...]) -> Axis:
    return Axis(shape, (1,), (MAX_DIVISOR,))


def _broadcast(f: AxisFacts, op: Op, shape: tuple[int, ...]) -> Axis:
    source = op.operands[0]
    have: Any = source.type.shape  # type: ignore[attr-defined]
    axis = f.of(source)
    if all(e == 1 for e in have):
        return f._uniform(source, shape)
    contig, const, div = list(axis.contig), list(axis.const), list(axis.div)
    for d, (a, b) in enumerate(zip(have, shape)):
        if a != b:
            contig[d], const[d] = 1, b
            div[d] = min(axis.elementwise(k) for k in range(len(shape)) if have[k] > 1)
    return Axis(tuple(contig), tuple(const), tuple(div))


def _reshape(f: AxisFacts, op: Op, shape: tuple[int, ...]) -> Axis:
    """Unit dimensions come and go; anything else says nothing."""
    source = op.operands[0]
    have: Any = source.type.shape  # type: ignore[attr-defined]
    if not have or all(e == 1 for e in have):
        return f._uniform(source, shape)
    if [e for e in have if e > 1] != [e for e in shape if e > 1]:
        return nothing(len(shape))
    axis = f.of(source)
    real = [d for d, e in enumerate(have) if e > 1]
    contig, const = [1] * len(shape), [1] * len(shape)
    div = [min(axis.elementwise(d) for d in real)] * len(shape)
    for k, d in zip(real, [d for d, e in enumerate(shape) if e > 1]):
        contig[d], const[d], div[d] = axis.contig[k], axis.const[k], axis.div[k]
    return Axis(tuple(contig), tuple(const), tuple(div))


def _permute(f: AxisFacts, op: Op, shape: tuple[int, ...]) -> Axis:
    axis = f.of(op.operands[0])
    p = op.attr("permutation")
    return Axis(*(tuple(field[i] for i in p) for field in (axis.contig, axis.const, axis.div)))


def _extract(f: AxisFacts, op: Op, shape: tuple[int, ...]) -> Axis:
    """Slices begin at multiples of their extents: groups stay aligned."""
    axis = f.of(op.operands[0])
    contig = tuple(min(c, e) for c, e in zip(axis.contig, shape))
    const = tuple(min(c, e) for c, e in zip(axis.const, shape))
    return Axis(contig, const, tuple(axis.start(d, g) for d, g in enumerate(contig)))


def _same(f: AxisFacts, op: Op, shape: tuple[int, ...]) -> Axis:
    return f.of(op.operands[0])


def _sum(f: AxisFacts, op: Op, shape: tuple[int, ...]) -> Axis:
    return _added(f.of(op.operands[0]), f.of(op.operands[1]))


def _added(a: Axis, b: Axis, unit: int = 1) -> Axis:
    """a + b, of which b counts units (bytes)."""
    contig, const, div = [], [], []
    for d in range(len(a.contig)):
        left = min(a.contig[d], b.const[d])
        right = min(b.contig[d], a.const[d])
        group = max(left, right, 1)
        contig.append(group)
        const.append(min(a.const[d], b.const[d]))
        div.append(min(a.start(d, group), b.start(d, group) * unit))
    return Axis(tuple(contig), tuple(const), tuple(div))


def _difference(f: AxisFacts, op: Op, shape: tuple[int, ...]) -> Axis:
    a, b = f.of(op.operands[0]), f.of(op.operands[1])
    contig = tuple(max(1, min(x, y)) for x, y in zip(a.contig, b.const))
    const = tuple(min(x, y) for x, y in zip(a.const, b.const))
    return Axis(contig, const, tuple(min(a.start(d, g), b.elementwise(d)) for d, g in enumerate(contig)))


def _product(f: AxisFacts, op: Op, shape: tuple[int, ...]) -> Axis:
    a, b = f.of(op.operands[0]), f.of(op.operands[1])
    const = tuple(min(x, y) for x, y in zip(a.const, b.const))
    for x, other in ((a, op.operands[1]), (b, op.operands[0])):
        maker = other.op
        if (
            maker is not None
            and maker.spec.name == "constant"
            and set(dense_bits(maker.attr("value"))) == {1}
        ):
            return x
    return Axis(
        (1,) * len(shape), const, tuple(a.elementwise(d) * b.elementwise(d) for d in range(len(shape)))
    )


def _remainder(f: AxisFacts, op: Op, shape: tuple[int, ...]) -> Axis:
    """x % n for counting x and equal n goes back to zero only at a multiple of what divides both."""
    a, b = f.of(op.operands[0]), f.of(op.operands[1])
    const = tuple(min(x, y) for x, y in zip(a.const, b.const))
    width: int = op.results[0].type.elem.bits  # type: ignore[attr-defined]
    if op.attr("signedness") != "unsigned" and f.facts.bits(op.operands[0]) == width:  # may be negative
        return Axis((1,) * len(shape), const, (1,) * len(shape))
    return _begun_again(a, b, const)


def _begun_again(a: Axis, b: Axis, const: tuple[int, ...]) -> Axis:
    contig, div = [], []
    for d in range(len(const)):
        group = min(a.contig[d], b.const[d], b.elementwise(d))
        while group > 1 and a.start(d, group) < group:
            group //= 2
        contig.append(group)
        div.append(min(a.start(d, group), b.elementwise(d)))
    return Axis(tuple(contig), const, tuple(div))


def _select(f: AxisFacts, op: Op, shape: tuple[int, ...]) -> Axis:
    """x % n of Python is made of a remainder, to which n is added where their signs differ: for n above 0 it goes back to zero
    only at a multiple of n, from below zero, too."""
    found = _floored(op)
    if found is None or f.facts.bits(found[1]) == found[1].type.elem.bits:  # type: ignore[attr-defined]
        return _smallest(f, op, shape)
    a, b = f.of(found[0]), f.of(found[1])
    return _begun_again(a, b, tuple(min(x, y) for x, y in zip(a.const, b.const)))


def _floored(op: Op) -> tuple[Value, Value] | None:
    """(x, n) where a choice is `(r < 0) != (n < 0) and r != 0 ? r + n : r` of r = x % n, signed."""
    condition, added, rest = op.operands
    maker = rest.op
    if maker is None or maker.spec.name != "remi" or maker.attr("signedness") == "unsigned":
        return None
    x, n = maker.operands
    if added.op is None or added.op.spec.name != "addi" or set(added.op.operands) != {rest, n}:
        return None
    both = _operands(condition, "andi")
    tested = [_against_zero(v) for v in both]
    if ("not_equal", rest) not in tested:
        return None
    signs = _operands(both[1 - tested.index(("not_equal", rest))], "xori")
    differ = {("less_than", rest), ("less_than", n)}
    return (x, n) if {_against_zero(v) for v in signs} == differ else None


def _operands(value: Value, name: str) -> Sequence[Value]:
    """The operands of the op that makes a value; none where it has another name."""
    op = value.op
    return op.operands if op is not None and op.spec.name == name else ()


def _against_zero(value: Value) -> tuple[str, Value] | None:
    """(predicate, v) where a value compares v with zero, signed."""
    op = value.op
    if op is None or op.spec.name != "cmpi" or op.attr("signedness") == "unsigned":
        return None
    zero = op.operands[1].op
    if zero is None or zero.spec.name != "constant" or any(dense_bits(zero.attr("value"))):
        return None
    return op.attr("comparison_predicate"), op.operands[0]


def _offset(f: AxisFacts, op: Op, shape: tuple[int, ...]) -> Axis:
    pointee: Any = op.results[0].type.elem.pointee  # type: ignore[attr-defined]
    size = 8 if isinstance(pointee, Ptr) else max(1, pointee.bits // 8)
    return _added(f.of(op.operands[0]), f.of(op.operands[1]), size)


def _assume(f: AxisFacts, op: Op, shape: tuple[int, ...]) -> Axis:
    axis = f.of(op.operands[0])
    predicate: Any = op.attr("predicate")
    if isinstance(predicate, DivBy):
        divisor = low_bit(predicate.divisor)
        if predicate.every is None:
            return Axis(axis.contig, axis.const, tuple(max(x, divisor) for x in axis.div))
        d, every = predicate.along, low_bit(predicate.every)
        if every > axis.contig[d]:
            contig, div = list(axis.contig), list(axis.div)
            contig[d], div[d] = every, divisor
            return Axis(tuple(contig), axis.const, tuple(div))
    if isinstance(predicate, SameElements):
        const = tuple(max(c, low_bit(v) if v else 1) for c, v in zip(axis.const, predicate.values))
        return Axis(axis.contig, const, axis.div)
    return axis


def _compare(f: AxisFacts, op: Op, shape: tuple[int, ...]) -> Axis:
    """x < n for counting x and equal n flips only at a multiple of what divides both."""
    a, b = f.of(op.operands[0]), f.of(op.operands[1])
    predicate = op.attr("comparison_predicate")
    if predicate in ("greater_than", "less_than_or_equal"):  # n > x, n <= x
        a, b = b, a
        predicate = {"greater_than": "less_than", "less_than_or_equal": "greater_than_or_equal"}[predicate]
    const = []
    for d in range(len(shape)):
        equal = min(a.const[d], b.const[d])
        if predicate in ("less_than", "greater_than_or_equal"):
            group = min(a.contig[d], b.const[d], b.elementwise(d))
            while group > 1 and a.start(d, group) < group:
                group //= 2
            equal = max(equal, group)
        const.append(equal)
    return Axis((1,) * len(shape), tuple(const), (1,) * len(shape))


def _smallest(f: AxisFacts, op: Op, shape: tuple[int, ...]) -> Axis:
    axes = [f.of(v) for v in op.operands]
    const = tuple(min(a.const[d] for a in axes) for d in range(len(shape)))
    return Axis((1,) * len(shape), const, (1,) * len(shape))


_RULES: dict[str, Any] = {
    "constant": _constant, "iota": _iota, "broadcast": _broadcast, "reshape": _reshape, "permute": _permute,
    "extract": _extract,
    "addi": _sum, "subi": _difference, "muli": _product, "remi": _remainder,
    "offset": _offset, "assume": _assume, "cmpi": _compare,
    "andi": _smallest, "ori": _smallest, "xori": _smallest, "select": _select, "exti": _same,
    "convert_layout": _same,
}  # fmt: skip
