"""What an index is held against, and where it gets there: the algebra of loops that count.

An index %i that goes up by a step is tested as %i * 64 + 1 < %bound. The first index for which that does not hold is a number
that can be computed in front of the loop, where neither the bound nor the step changes in it.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Block, Op, Value
from tileiras.compiler.ir.dense import constant_bytes
from tileiras.compiler.ir.spec import NO_MEMORY_EFFECT, PURE
from tileiras.compiler.ir.types import I1, Dense, TensorType, TileType
from tileiras.compiler.ir.walk import parts_first
from tileiras.compiler.schedule.candidates import PLAIN_LOADS, constant_int, is_outside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Steps = tuple[tuple[str, int], ...]
    Grid = tuple[int, int]  # where an index begins, and by what it goes up

SWAPPED = {
    "less_than": "greater_than", "less_than_or_equal": "greater_than_or_equal", "greater_than": "less_than",
    "greater_than_or_equal": "less_than_or_equal", "equal": "equal", "not_equal": "not_equal",
}  # fmt: skip
NEGATED = {
    "less_than": "greater_than_or_equal", "less_than_or_equal": "greater_than", "greater_than": "less_than_or_equal",
    "greater_than_or_equal": "less_than", "equal": "not_equal", "not_equal": "equal",
}  # fmt: skip
NO_SIGNED_WRAP = frozenset(("no_signed_wrap", "no_wrap"))


class Before:
    """Makes scalars in front of an op."""

    def __init__(self, anchor: Op) -> None:
        self.anchor = anchor

    def __call__(
        self, name: str, operands: Iterable[Value], type: Any, attrs: dict[str, Any] | None = None
    ) -> Value:
        block = self.anchor.block
        assert block is not None
        made = create(tileaa.BY_NAME[name], operands, (type,), attrs or {}, (), self.anchor.loc)
        return block.insert_before(self.anchor, made).result

    def number(self, like: Value, value: int) -> Value:
        """A constant of the type of another scalar."""
        elem: Any = like.type.elem  # type: ignore[attr-defined]
        data = (value % (1 << elem.bits)).to_bytes(constant_bytes(elem), "little")
        return self("constant", (), like.type, {"value": Dense(TileType(elem, ()), data)})


def hoist(loop: Op, body: Block) -> None:
    """Moves pure ops that use nothing of the loop in front of it."""
    assert loop.block is not None
    for op in list(body.ops):
        if not movable(op):
            continue
        if all(is_outside(v, loop) for v in op.operands):
            body.ops.remove(op)
            loop.block.insert_before(loop, op)


def first_beyond(
    put: Before, like: Value, predicate: str, bound: Value, steps: Steps, kept: bool = False
) -> Value:
    """The first index for which what `steps` make of it is no longer `predicate` (less_than, less_than_or_equal) the bound.
    `kept`: where each one holds, the greatest number, which no `for` gets to, and not the least."""
    bits = like.type.elem.bits  # type: ignore[attr-defined]
    for name, by in steps:
        if name == "muli":
            towards = "positive_inf" if predicate == "less_than" else "negative_inf"
            bound = put(
                "divi",
                (bound, put.number(like, by)),
                like.type,
                {"signedness": "signed", "rounding": towards},
            )
            continue
        if predicate == "less_than_or_equal":  # %i + 64 <= %n: %i + 63 < %n
            predicate, by = "less_than", by - 1
        if by:
            least = by - (1 << (bits - 1))
            bound = put("maxi", (bound, put.number(like, least)), like.type, {"signedness": "signed"})
            bound = put("subi", (bound, put.number(like, by)), like.type)
    if predicate == "less_than_or_equal":
        greatest = (1 << (bits - 1)) - 1
        if kept and greatest_kept(steps, bits) == greatest:  # what is multiplied has gone down
            bound = put("mini", (bound, put.number(like, greatest - 1)), like.type, {"signedness": "signed"})
        bound = put("addi", (bound, put.number(like, 1)), like.type)
    return bound


def leaves_at(
    put: Before, like: Value, predicate: str, bound: Value, steps: Steps, wraps: Grid | None, never: Value
) -> Value:
    """`first_beyond` for a test that may hold up to the end of its loop: `never` where what is tested wraps before. `wraps`:
    where it may, the numbers that the index begins at and goes up by."""
    first = first_beyond(put, like, predicate, bound, steps, True)
    if wraps is None:
        return first
    bits, (start, by) = like.type.elem.bits, wraps  # type: ignore[attr-defined]
    last = greatest_kept(steps, bits)
    last -= (last - start) % by
    if last + by >= 1 << (bits - 1):  # the index is as far as it can be
        return first
    attrs = {"comparison_predicate": "greater_than", "signedness": "signed"}
    beyond = put("cmpi", (first, put.number(like, last)), TensorType(I1, (), None), attrs)
    return put("select", (beyond, never, first), like.type)


def greatest_kept(steps: Steps, bits: int) -> int:
    """The greatest index of which the steps make a number that has not wrapped."""
    times, plus = 1, 0
    for name, by in reversed(steps):
        times, plus = (times * by, plus * by) if name == "muli" else (times, plus + by)
    return ((1 << (bits - 1)) - 1 - plus) // times


def in_front(value: Value, loop: Op) -> None:
    """Moves the pure ops that make an invariant of a loop in front of it."""

    def inside(value: Value) -> list[Value]:
        return [] if value.op is None or is_outside(value, loop) else list(value.op.operands)

    assert loop.block is not None
    for at in parts_first([value], inside):
        if at.op is not None and not is_outside(at, loop):
            at.op.block.ops.remove(at.op)  # type: ignore[union-attr]
            loop.block.insert_before(loop, at.op)


def unwound(value: Value, index: Value | None = None) -> tuple[Value, Steps, bool]:
    """(%i, what became of it, whether it is said not to overflow) for %i * 64, %i << 6 or %i + 64; the last step first. `index`
    is such an %i whatever it was made of."""
    steps: list[tuple[str, int]] = []
    flagged = True
    op = value.op
    while op is not None and value is not index and op.spec.name in ("muli", "addi", "shli"):
        known = [constant_int(v) for v in op.operands]
        shifted = op.spec.name == "shli"
        side = 1 if shifted or known[1] is not None else 0
        by = known[side]
        if by is None or by <= 0:
            break
        if shifted:
            if by >= op.result.type.elem.bits - 1:  # type: ignore[attr-defined]
                break
            by = 1 << by
        steps.append(("muli" if shifted else op.spec.name, by))
        flagged = flagged and op.attr("overflow") in NO_SIGNED_WRAP
        value = op.operands[1 - side]
        op = value.op
    return value, tuple(steps), flagged


def ends_before_wrapping(start: int | None, by: int, steps: Steps, bits: int) -> bool:
    """Whether what is tested, as %i * 64 of an index from zero on, passes each bound before it wraps, or never: it goes up by a
    power of two from a number that is not negative, so that behind the greatest come only numbers below those that were there."""
    if start is None or start < 0:
        return False
    for name, amount in reversed(steps):
        start = start * amount if name == "muli" else start + amount
        by = by * amount if name == "muli" else by
    return start < 1 << (bits - 1) and by & (by - 1) == 0


def movable(op: Op) -> bool:
    """Whether an op may be computed where nobody asked for it: no effects, and no division that could fail."""
    if op.spec.is_terminator or op.regions or not op.spec.traits & (PURE | NO_MEMORY_EFFECT):
        return False
    return op.spec.name not in ("divi", "remi") or (constant_int(op.operands[1]) or 0) > 0


def without_effect(op: Op) -> bool:
    """Whether nobody sees if an op was done, where nothing uses what it made."""
    return movable(op) or op.spec.name in PLAIN_LOADS and op.attr("memory_ordering_semantics") == "weak"


def invariant(value: Value, loop: Op) -> bool:
    """Whether a value is made by pure ops from what is outside of a loop."""
    seen: set[Value] = set()
    work = [value]
    while work:
        value = work.pop()
        if value in seen or is_outside(value, loop):
            continue
        seen.add(value)
        if value.op is None or not movable(value.op):
            return False
        work += value.op.operands
    return True
