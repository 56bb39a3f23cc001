"""Two indices of a `loop` that go towards each other, as those of `for (q = 0, r = n - 1; q <= r; ++q, --r)`, counted by a third.

Before: `loop iter(%q = %lo, %r = %hi) { if %q <= %r { .. %q != %r ..; continue %q + 1, %r - 1 }; break }`.
After:  `loop iter(%q, %r, %t = 0) { if %t < %way / 2 + 1 { .. %t < (%way + 1) / 2 ..; continue .., %t + 1 }; break }`, where
        `%way` is `%hi - %lo`, and what the body asks `%q` for is `%lo + %t`.

The way from one to the other is up to all the bits long, and gets shorter by the same number in every step: what is asked of both
holds up to a step that is known in front of the loop.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Op, Value
from tileiras.compiler.ir.types import I1, TensorType
from tileiras.compiler.schedule.candidates import constant_int, is_outside

from .index_bounds import NEGATED, NO_SIGNED_WRAP, SWAPPED, Before
from .loop_body import Body, body_of, position
from .loop_index import OWN_INDEX, WRAPS

FLAG = TensorType(I1, (), None)
UNSIGNED = {"signedness": "unsigned"}
NO_STEP = "one of its two indices does not go on by a number that is known"
# what is asked of the lower and the upper index where the lower one is not above the other: whether it holds until they meet
UNTIL_THEY_MEET = {"not_equal": True, "less_than": True, "equal": False, "greater_than_or_equal": False}


def count_meeting(loop: Op) -> bool | str:
    """Whether it added an index that counts the steps of a loop whose two indices go towards each other, held against their
    number; why not, where two indices are compared."""
    parts = body_of(loop)
    if isinstance(parts, str):
        return False
    body = loop.regions[0].block
    compare: Op | None = parts.tests[0]
    if compare is None or compare.spec.name != "cmpi":
        return False
    if any(position(body, v) is None or parts.jump.operands[v.index] is v for v in compare.operands):
        return False
    if any(
        skip.operands[v.index] is not parts.jump.operands[v.index]
        for skip in parts.skips
        for v in compare.operands
    ):
        return OWN_INDEX
    if parts.early or len(parts.tests) != 1:
        return "it is left by another test, too, than that of two indices"
    found = _approach(loop, parts, compare)
    if isinstance(found, str):
        return found or False
    (lower, upper), predicate, (up, down) = found
    put = Before(loop)
    begin, end = loop.operands[lower], loop.operands[upper]
    runs = put("cmpi", (begin, end), FLAG, {"comparison_predicate": predicate, "signedness": "signed"})
    way = put("subi", (end, begin), begin.type)
    zero, one, step = put.number(begin, 0), put.number(begin, 1), put.number(begin, up - down)
    meet = put("divi", (way, step), begin.type, {**UNSIGNED, "rounding": "positive_inf"})
    times = meet
    if predicate == "less_than_or_equal":
        times = put("divi", (way, step), begin.type, {**UNSIGNED, "rounding": "zero"})
        times = put("addi", (times, one), begin.type)
    meet, times = (put("select", (runs, n, zero), begin.type) for n in (meet, times))
    counter = _carry(loop, parts, zero, one)
    indices = [body.args[lower], body.args[upper]]
    for op in [op for work in parts.work for op in work.walk()]:
        holds = _holds_until_they_meet(op, indices)
        if holds is not None:
            _ask(op, counter, meet, holds)
    _ask(compare, counter, times, not parts.negated)
    _compute(parts, indices[0], begin, counter, up)
    _compute(parts, indices[1], end, counter, down)
    return True


def _approach(loop: Op, parts: Body, compare: Op) -> tuple[tuple[int, int], str, tuple[int, int]] | str:
    """(the places of the lower and the upper index, how they are compared, by how much each goes up in a step); why they do not
    go towards each other, nothing where one of them is no index."""
    body = loop.regions[0].block
    places = [value.index for value in compare.operands]
    predicate = compare.attr("comparison_predicate")
    if parts.negated:
        predicate = NEGATED[predicate]
    if predicate in ("greater_than", "greater_than_or_equal"):
        places.reverse()
        predicate = SWAPPED[predicate]
    lower, upper = places
    up, down = (_step(loop, body.args[k], parts.jump.operands[k]) for k in (lower, upper))
    if up == "" or down == "":
        return ""
    if compare.attr("signedness") != "signed":
        return "its two indices are compared unsigned"
    if predicate not in ("less_than", "less_than_or_equal"):
        return "its two indices are not compared for less or greater"
    if isinstance(up, str) or isinstance(down, str):
        return up if isinstance(up, str) else str(down)
    bits = body.args[lower].type.elem.bits  # type: ignore[attr-defined]
    if not up or not down or not 1 < up - down < 1 << (bits - 1):
        return "its two indices do not get at least two numbers nearer in each step"
    return (lower, upper), predicate, (up, down)


def _step(loop: Op, index: Value, following: Value) -> int | str:
    """By how much an index goes on, where it never overflows; why that is not known, nothing where it is no index."""
    op = following.op
    if op is None or is_outside(following, loop) or op.spec.name not in ("addi", "subi"):
        return ""
    if index not in (op.operands if op.spec.name == "addi" else op.operands[:1]):
        return ""
    by = constant_int(op.operands[1 - op.operands.index(index)])
    if by is None:
        return NO_STEP
    if op.attr("overflow") not in NO_SIGNED_WRAP:
        return WRAPS
    return by if op.spec.name == "addi" else -by


def _carry(loop: Op, parts: Body, zero: Value, one: Value) -> Value:
    """An index from zero on, which the loop carries behind everything else."""
    index = loop.regions[0].block.add_arg(zero.type)
    bump = create(
        tileaa.BY_NAME["addi"], (index, one), (zero.type,), {"overflow": "no_unsigned_wrap"}, (), loop.loc
    )
    where = parts.behind
    where.block.insert_before(where, bump)  # type: ignore[union-attr]
    jumps = [(jump, bump.result) for jump in (parts.jump, *parts.skips)]
    for op, value in ((loop, zero), *jumps, (parts.leave, index)):
        value.uses.append((op, len(op.operands)))
        op.operands.append(value)
        op.segments = (len(op.operands),)
    loop.results.append(Value(zero.type, loop, len(loop.results)))
    return index


def _compute(parts: Body, index: Value, start: Value, counter: Value, step: int) -> None:
    """Computes an index from the counter where the work uses it: warps that only copy carry nothing."""
    work = [op for op in parts.work if op.block is not None]
    bump = parts.jump.operands[index.index].op
    inside = {op for outer in work for op in outer.walk()} - {bump}
    uses = [use for use in index.uses if use[0] in inside]
    if not uses:
        return
    put = Before(work[0])
    way = put("muli", (counter, put.number(start, abs(step))), start.type) if abs(step) > 1 else counter
    now = put("addi" if step > 0 else "subi", (start, way), start.type)
    for user, k in uses:
        user.set_operand(k, now)


def _holds_until_they_meet(op: Op, indices: list[Value]) -> bool | None:
    """Whether a comparison of both indices holds until they meet, or from there on; None for other ops."""
    if op.spec.name != "cmpi" or op.attr("signedness") != "signed":
        return None
    predicate = op.attr("comparison_predicate")
    if list(op.operands) == indices[::-1]:
        predicate = SWAPPED[predicate]
    elif list(op.operands) != indices:
        return None
    return UNTIL_THEY_MEET.get(predicate)


def _ask(compare: Op, counter: Value, bound: Value, below: bool) -> None:
    """Puts another comparison in place of one: whether a counter is below a bound, or is not."""
    attrs = {"comparison_predicate": "less_than" if below else "greater_than_or_equal", **UNSIGNED}
    made = create(compare.spec, (counter, bound), (FLAG,), attrs, (), compare.loc)
    compare.block.insert_before(compare, made)  # type: ignore[union-attr]
    compare.result.replace_all_uses_with(made.result)
    compare.erase()
