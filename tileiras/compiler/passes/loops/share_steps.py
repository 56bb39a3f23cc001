"""A `loop` whose `continue`s each step its index by an op of their own has one step for all of them.

Before: `{ if %c { %u = %i + 1; continue %u }; work; %v = %i + 1; continue %v }`.
After:  `{ %v = %i + 1; if %c { continue %v }; work; continue %v }`.

`while (i < n) { if (..) { ++i; continue; } work; ++i; }` leaves it so; the index behind a branch that ends a step is its result.
"""

from __future__ import annotations

from tileiras.compiler.ir.core import Op, Value
from tileiras.compiler.ir.walk import erase_unused
from tileiras.compiler.schedule.candidates import constant_int, is_outside

from .index_bounds import movable
from .loop_body import Body, body_of, ops_of, position


def share_steps(loop: Op) -> bool:
    """Whether values that all jumps to the next iteration step alike are stepped by one op now."""
    parts = body_of(loop)
    if isinstance(parts, str):
        return False
    found = False
    for k, value in enumerate(parts.jump.operands):
        others = [skip.operands[k] for skip in parts.skips]
        if all(other is value for other in others):
            continue
        if all(_steps(v, k, loop, parts) and _alike(v, value, parts) for v in (value, *others)):
            _share(k, value, parts)
            found = True
    return found


def _handed_on(value: Value, parts: Body) -> Value:
    """A value as a branch that ends a step hands it on where it does not."""
    while value.op in parts.work and value.op.spec.name == "if":  # type: ignore[union-attr]
        sides = [ops_of(value.op, side) for side in (0, 1)]  # type: ignore[arg-type]
        ends = [side for side in sides if side and side[-1].spec.name == "continue"]
        given = [side for side in sides if [op.spec.name for op in side] == ["yield"]]
        if len(ends) != 1 or len(given) != 1:
            break
        value = given[0][-1].operands[value.index]
    return value


def _steps(value: Value, k: int, loop: Op, parts: Body) -> bool:
    """Whether a value is one that the loop carries, stepped by something from in front of the loop."""
    op = value.op
    if op is None or op.spec.name not in ("addi", "subi") or is_outside(value, loop):
        return False
    given = [_handed_on(v, parts) for v in op.operands]
    body = loop.regions[0].block
    return any(position(body, v) == k for v in given) and all(
        position(body, v) == k or is_outside(v, loop) for v in given
    )


def _alike(one: Value, other: Value, parts: Body) -> bool:
    """Whether two ops make one number."""
    a, b = one.op, other.op
    if a is None or b is None or a.spec is not b.spec or a.attrs != b.attrs:
        return False
    pairs = [(_handed_on(x, parts), _handed_on(y, parts)) for x, y in zip(a.operands, b.operands)]
    return all(x is y or constant_int(x) is not None and constant_int(x) == constant_int(y) for x, y in pairs)


def _share(k: int, value: Value, parts: Body) -> None:
    """Steps a value in front of the work."""
    step = value.op
    assert step is not None and step.block is not None
    for number, operand in enumerate(list(step.operands)):
        step.set_operand(number, _handed_on(operand, parts))
    step.block.ops.remove(step)
    first = next(op for op in parts.work if op.block is not None and op is not step)
    first.block.insert_before(first, step)  # type: ignore[union-attr]
    for skip in parts.skips:
        old = skip.operands[k].op
        skip.set_operand(k, value)
        if old is not step:
            erase_unused(old, movable)
