"""TileAALoadWhereUsed: loops that carry the operands of the next step load them in the step that uses them.

Before: `%x0 = load[0]; %s, %x = for %k = 1 to %n iter(%s = 0, %x = %x0) { %next = load[%k]; %s' = mma %x, .., %s;
          continue %s', %next }; mma %x, .., %s`.
After:  `for %c = 0 to max(1, %n) iter(%s = 0) { %x = load[%c]; %s' = mma %x, .., %s; continue %s' }`.

A program that loads ahead by itself, in registers, is as far ahead as one step; copies to shared memory run further. It has to
be the same load, in the loop for the counter of the step before the first one and in front of it. What follows the loop is
its last step where it is what a step does; where nobody asks for what was loaded last, there is no such step. Loads move
where tokens let them: nothing in the loop writes, and nobody waits for the loads.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import diags as D
from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.clone import clone_into
from tileiras.compiler.ir.core import Block, Op, Region, Value
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.types import TOKEN
from tileiras.compiler.schedule.candidates import (
    PLAIN_LOADS,
    backward,
    captured,
    computes,
    constant_int,
    is_outside,
    writes,
)
from tileiras.compiler.target.products import PRODUCTS

from .index_bounds import Before

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

ARITHMETIC = frozenset(("addi", "subi", "muli"))


class LoadWhereUsed(Pass):
    NAME = "TileAALoadWhereUsed"
    SUMMARY = "Load operands in the step that uses them where a loop carries those of the next one"
    """
    does: a loop of products that carries the operands of its next step loads them in the step that uses them
    without: operands stay in registers for a step, and are not copied ahead
    acts: operands_ahead on sm_80
    """
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        for loop in [op for op in func.walk() if op.spec.name == "for"]:
            found = ahead(loop)
            if isinstance(found, str):
                context.remark(D.NOT_WHERE_USED, loop, reason=found)
            elif found is not None:
                context.remark(D.WHERE_USED, loop, count=len(found.loaded))
                found.rewrite()
                context.analyses.drop()
        return True


class Ahead:
    """A loop that carries what it loads for the next step. `loaded`: the numbers of these values; `last`: ops behind the loop
    that are one more step, `result` what they make of the carried value number `sum`."""

    def __init__(self, loop: Op, loaded: list[int]) -> None:
        self.loop = loop
        self.body = loop.regions[0].block
        self.loaded = loaded
        self.last: list[Op] = []
        self.sum = -1
        self.result: Value | None = None

    def rewrite(self) -> None:
        loop, body = self.loop, self.body
        put = Before(loop)
        lower, upper = loop.operands[:2]
        first = put.number(lower, (constant_int(lower) or 0) - 1)
        end = put("maxi", (lower, upper), lower.type, {"signedness": "signed"})
        if self.result is None:
            end = put("subi", (end, put.number(lower, 1)), lower.type)
        kept = [n for n in range(len(loop.results)) if n not in self.loaded]
        if self.result is not None:
            kept = [self.sum]  # nobody asks for others, and they have no step more
        block = Block([lower.type, *(loop.results[n].type for n in kept)])
        values: dict[Value, Value] = {body.args[n + 1]: arg for n, arg in zip(kept, block.args[1:])}
        following = body.ops[-1].operands
        wanted = [following[n] for n in self.loaded]
        loads, _ = backward(wanted, body)
        before = {**values, body.args[0]: block.args[0]}
        clone_into(block, loads, before)
        for n in self.loaded:
            values[body.args[n + 1]] = before[following[n]]
        others, _ = backward([following[n] for n in kept], body)
        if body.args[0].uses:
            operands = [block.args[0], put.number(lower, 1)]
            step = create(tileaa.BY_NAME["addi"], operands, (lower.type,), {}, (), loop.loc)
            values[body.args[0]] = block.append(step).result
        clone_into(block, others, values)
        ends = [values.get(following[n], following[n]) for n in kept]
        block.append(create(tileaa.BY_NAME["continue"], ends, (), {}, (), loop.loc, (len(kept),)))
        carried = [loop.operands[3 + n] for n in kept]
        operands = [first, end, loop.operands[2], *carried]
        types = [value.type for value in carried]
        made = create(
            tileaa.BY_NAME["for"],
            operands,
            types,
            dict(loop.attrs),
            (Region([block]),),
            loop.loc,
            (1, 1, 1, len(kept)),
        )
        put.anchor.block.insert_before(loop, made)  # type: ignore[union-attr]
        results = dict(zip(kept, made.results))
        if self.result is not None:
            self.result.replace_all_uses_with(results[self.sum])
            for op in reversed(self.last):
                op.erase()
        for n, result in results.items():
            loop.results[n].replace_all_uses_with(result)
        begun = [loop.operands[3 + n].op for n in self.loaded]
        loop.erase()
        for begin in begun:
            if begin is not None and begin.block is not None and not any(r.uses for r in begin.results):
                begin.erase()


def ahead(loop: Op) -> Ahead | str | None:
    """What a loop loads for its next step; None where it does not, the reason where what follows it keeps its loads there."""
    body = loop.regions[0].block
    if loop.attr("unsignedCmp") or constant_int(loop.operands[2]) != 1:
        return None
    start = constant_int(loop.operands[0])
    if start is None or start < 0 or not any(op.spec.name in PRODUCTS for op in body.ops):
        return None
    if any(not is_quiet(inner) for op in body.ops for inner in op.walk()):
        return None
    if any(v.type is TOKEN and not is_outside(v, loop) for op in body.ops for v in captured(op)):
        return None  # accesses wait for one another
    counter = body.args[0]

    def begun(v: Value, w: Value) -> bool:
        if getattr(v.type, "shape", None) != () or v.type != w.type:
            return False
        known = number(v, counter, start - 1)
        return known is not None and number(w, counter, 0) == known

    jump = body.ops[-1]
    loaded = [
        n
        for n, value in enumerate(jump.operands)
        if value.type is not TOKEN
        and getattr(value.type, "shape", None)
        and loads(value, loop)
        and matches(value, loop.operands[3 + n], begun) is not None
    ]
    if not loaded:
        return None
    found = Ahead(loop, loaded)
    if not any(loop.results[n].uses for n in loaded):
        return found
    return (
        found if absorbs(found) else "what was loaded last is not used by one more step behind the loop alone"
    )


def is_quiet(op: Op) -> bool:
    """Whether an op writes nothing and orders nothing."""
    if op.spec.name in PLAIN_LOADS:
        return op.attr("memory_ordering_semantics") == "weak" and not op.results[1].uses
    return not writes(op) and (computes(op) or op.spec.is_terminator)


def loads(value: Value, loop: Op) -> bool:
    """Whether a value is loaded in the body, from a place that the counter and what is outside decide."""
    ops, args = backward([value], loop.regions[0].block)
    return not args - {0} and any(op.spec.name in PLAIN_LOADS for op in ops)


def number(value: Value, counter: Value, at: int, most: int = 8) -> int | None:
    """What a scalar is where the counter is `at`, if it is computed in a few steps from that and constants."""
    if value is counter:
        return at
    op = value.op
    if op is None or op.spec.name not in ARITHMETIC or not most:
        return constant_int(value)
    x, y = (number(v, counter, at, most - 1) for v in op.operands)
    if x is None or y is None:
        return None
    bits = value.type.elem.bits  # type: ignore[attr-defined]
    made = {"addi": x + y, "subi": x - y, "muli": x * y}[op.spec.name]
    wrapped = (made + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
    promised = op.attr("overflow") or "none"
    if promised != "none" and (wrapped != made or promised != "no_signed_wrap" and min(x, y, made) < 0):
        return None
    return wrapped


def matches(value: Value, other: Value, known: Callable[[Value, Value], bool]) -> list[Op] | None:
    """The ops that make one value as others make another, where `known` says which stand for each other; None: they do not."""
    work, seen = [(value, other)], {(value, other)}
    ops: dict[Op, None] = {}
    while work:
        v, w = work.pop()
        if v is w or known(v, w):
            continue
        a, b = v.op, w.op
        if a is None or b is None or a.spec is not b.spec or a.attrs != b.attrs or v.index != w.index:
            return None
        if a.regions or v.type != w.type or len(a.operands) != len(b.operands) or a.segments != b.segments:
            return None
        if a.spec.name in PLAIN_LOADS:
            if not is_quiet(b):
                return None
        elif not computes(a):
            return None
        ops[b] = None
        pairs = [pair for pair in zip(a.operands, b.operands) if pair not in seen]
        seen.update(pairs)
        work += pairs
    return list(ops)


def absorbs(found: Ahead) -> bool:
    """Whether what follows the loop is one more step, and nobody asks for anything else."""
    loop, body = found.loop, found.body
    asked = [n for n, result in enumerate(loop.results) if result.uses]
    sums = [n for n in asked if n not in found.loaded]
    if len(sums) != 1 or len(loop.results[sums[0]].uses) != 1:
        return False
    found.sum = sums[0]
    last = loop.results[found.sum].uses[0][0]
    if last.block is not loop.block or len(last.results) != 1:
        return False

    def step(v: Value, w: Value) -> bool:
        return v.op is None and v.owner is body and v.index > 0 and w is loop.results[v.index - 1]

    ops = matches(body.ops[-1].operands[found.sum], last.result, step)
    if ops is None:
        return False
    block = loop.block
    assert block is not None
    behind = block.ops[block.ops.index(loop) :]
    found.last = [op for op in behind if op in ops]
    found.result = last.result
    inside = set(found.last)
    values = [loop.results[n] for n in asked] + [r for op in found.last if op is not last for r in op.results]
    return all(user in inside for value in values for user, _ in value.uses)
