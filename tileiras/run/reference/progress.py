"""Whether a tile block that reads the same again and again will ever stop: what a loop's end depends on.

A tile block that comes back to one place of a loop which it has not left, while memory is as it was, with the same values in
all that decides jumps and accesses of this loop, does the same for ever. Counters of rounds that are only looked at behind
the loop, or by the next one around it, decide nothing.
"""

from __future__ import annotations

import numpy as np

from tileiras.compiler.ir.spec import PURE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value

    from .compile import Compiler
    from .registry import Frame

_ENDS = ("break", "continue", "yield", "return")


def deciding(loop: Op) -> set[Value]:
    """The values of a loop's body that decide its jumps and accesses."""
    makers: dict[Value, list[Value]] = {}  # value -> what it is made of
    needed: list[Value] = []
    _read(loop, loop, makers, needed)
    found: set[Value] = set()
    while needed:
        value = needed.pop()
        if value not in found:
            found.add(value)
            needed += makers.get(value, ())
    return found


def _read(op: Op, loop: Op, makers: dict[Value, list[Value]], needed: list[Value]) -> None:
    """The body of `op`, a loop or an `if`; `loop` is the innermost around it."""
    carried = loop.regions[0].block.args[1:] if loop.spec.name == "for" else loop.regions[0].block.args
    for region in op.regions:
        for inner in region.block.ops if region.blocks else ():
            name = inner.spec.name
            if name == "break":
                _flow(makers, loop.results, inner.operands)
            elif name == "continue":
                _flow(makers, carried, inner.operands)
                if loop.spec.name == "for":
                    _flow(makers, loop.results, inner.operands)
            elif name == "yield":
                _flow(makers, op.results, inner.operands)
            elif name == "if":
                needed.append(inner.operands[0])
                _read(inner, loop, makers, needed)
            elif name == "loop":
                _flow(makers, inner.regions[0].block.args, inner.operands)
                _read(inner, inner, makers, needed)
            elif name == "for":
                needed += inner.operands[:3]
                _flow(makers, inner.regions[0].block.args[1:], inner.operands[3:])
                _flow(makers, inner.results, inner.operands[3:])
                _read(inner, inner, makers, needed)
            elif name not in _ENDS:
                operands = list(_operands(inner))
                if inner.spec.traits & PURE:
                    for result in inner.results:
                        makers[result] = operands
                else:
                    needed += operands


def _flow(makers: dict[Value, list[Value]], targets: Any, sources: Any) -> None:
    for target, source in zip(targets, sources):
        makers.setdefault(target, []).append(source)


def _operands(op: Op) -> Iterator[Value]:
    yield from op.operands
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                yield from _operands(inner)


class Levels:
    """The loops around a place where a tile block may wait, outermost first, each with what decides its end there."""

    __slots__ = ("loops", "slots")

    def __init__(self, c: Compiler) -> None:
        self.loops = tuple(map(id, c.loops))
        self.slots: list[tuple[int, ...]] = []
        for i, loop in enumerate(c.loops):
            found = deciding(loop)
            args = [arg for inner in c.loops[i:] for arg in inner.regions[0].block.args]
            counters = [inner.regions[0].block.args[0] for inner in c.loops[i:] if inner.spec.name == "for"]
            self.slots.append(c.slots_of([arg for arg in args if arg in found or arg in counters]))

    def state(self, frame: Frame) -> list[tuple[Any, ...]]:
        """Per loop: how often it and those around it were entered, and the bytes of what decides its end."""
        entered = frame[0].entered
        times = tuple(entered.get(loop, 0) for loop in self.loops)
        return [
            (times[: i + 1], *(np.asarray(frame[slot]).tobytes() for slot in slots))
            for i, slots in enumerate(self.slots)
        ]


class Rounds:
    """What one tile block was like at one place: whether it has come round in the same state (Brent's search)."""

    __slots__ = ("changes", "count", "kept")

    def __init__(self) -> None:
        self.kept: list[tuple[Any, ...]] = []
        self.changes = -1
        self.count = 0

    def again(self, state: list[tuple[Any, ...]], changes: int) -> bool:
        """Whether some loop goes on for ever; `changes` counts those of memory."""
        if self.changes == changes and any(a == b for a, b in zip(self.kept, state)):
            return True
        self.count += 1
        if self.changes != changes or self.count & (self.count - 1) == 0:
            self.kept, self.changes = state, changes
        return False
