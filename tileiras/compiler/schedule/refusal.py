"""Why a loop cannot be pipelined: the question that the schedule room, D11 and the modulo scheduler ask.

A loop can when it counts by a static positive step, loads something, leaves only at its end, holds no other loop but a search
(`is_search`), and no load needs what a load of the same or of an earlier iteration produced. A few numbers may be needed, as the
page that a table of pages names, or the rows that a list does (`is_index`): they are loaded an iteration earlier still. What is
looked up by loaded codes (`lookups.py`) stays in its iteration, whatever it needs. Rings of shared memory take steps of 32 bits
that are known at run time only, too.
"""

from __future__ import annotations

from .candidates import (
    EXITS,
    LOOPS,
    PRODUCERS,
    captured,
    constant_int,
    indices_of,
    inside_search,
    joined,
    multiplies,
    needed,
    ordering,
    writes,
)
from .lookups import lookups_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tileiras.compiler.ir.core import Op


def refusal(loop: Op, dynamic_step: bool = False) -> str | None:
    """Why a loop cannot be pipelined; None when it can. `dynamic_step`: its step need not be static."""
    if loop.spec.name != "for":
        return "the loop has no static step: it ends by an early exit"
    body = loop.regions[0].block
    for op in loop.walk():
        if op is loop or (op.spec.name in LOOPS | EXITS | {"continue"} and inside_search(op, loop)):
            continue
        if op.spec.name in LOOPS:
            return "the loop holds another loop"
        if op.spec.name in EXITS or (op.spec.name == "continue" and op is not body.ops[-1]):
            return f"the loop has an early exit: {op.spec.full_name}"
    step = constant_int(loop.operands[2])
    counts = dynamic_step and loop.operands[2].type.elem.bits <= 32  # type: ignore[attr-defined]
    if step is None and not counts or step is not None and step <= 0:
        return "the step of the loop is no positive constant"
    producers = [op for op in body.ops if op.spec.name in PRODUCERS]
    if not producers:
        if loads(loop):
            return "the loop has no producer: what it loads stands behind a condition"
        return "the loop has no producer: nothing is loaded in it"
    return dependence(loop, producers)


def loads(loop: Op) -> bool:
    """Whether anything is loaded in a loop, and not in a loop within it."""
    work = list(loop.regions[0].block.ops)
    while work:
        op = work.pop()
        if op.spec.name in PRODUCERS:
            return True
        if op.spec.name not in LOOPS:
            work += [inner for region in op.regions for block in region.blocks for inner in block.ops]
    return False


def dependence(loop: Op, producers: list[Op]) -> str | None:
    """A chain from what a load produced to what a load needs."""
    body = loop.regions[0].block
    brought = {op for op in body.ops if op.spec.name == "async.pipeline.consume_one"}.union(producers)
    given = indices_of(loop)
    following = body.ops[-1].operands
    lookups = lookups_of(body)  # run in their iteration
    for producer in [op for op in producers if op not in lookups]:
        needs, args = needed(captured(producer), body, given)
        if not (needs - {producer}).isdisjoint(brought):
            return f"{producer.spec.full_name} depends on a value that the same iteration loads"
        seen: set[int] = set()
        work = [index for index in args if index > 0]
        while work:
            index = work.pop()
            if index in seen:
                continue
            seen.add(index)
            needs, more = needed([following[index - 1]], body)
            if not needs.isdisjoint(brought):
                return f"{producer.spec.full_name} depends on a value that the iteration before loads"
            work += [i for i in more if i > 0]
    if any(writes(op) for op in loop.walk()):  # then tokens order loads behind writes
        rings = multiplies(body)  # whose copies may follow what carries a token
        for producer in producers:
            for value in ordering(producer, loop):
                if not rings or joined(value, loop) is None:
                    return f"{producer.spec.full_name} is ordered behind an access of the loop"
    return None
