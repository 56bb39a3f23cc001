"""Data races by the memory model, found while tile blocks run one after another (check=True only).

Per byte range the shadow of a region keeps the last weak and strong read and write: which tile block, which of
its memory operations, at which clock. An access that conflicts with one of them must come after it: within a
tile block by a path of tokens, between tile blocks by release and acquire. A token is the set of operations
before it, as the bits of an integer; what one block knows of the others is a vector of clocks. Only the last
access of each kind is kept, so a race can be missed, but what is reported is one.
"""

from __future__ import annotations

import numpy as np

from . import diags

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op

    from .memory import Memory
    from .state import Block

BLOCK_BITS, STEP_BITS, CLOCK_BITS = 22, 22, 19  # of an int64, the sign left alone
STEP_MASK, CLOCK_MASK = (1 << STEP_BITS) - 1, (1 << CLOCK_BITS) - 1
KINDS = ("weak read", "weak write", "strong read", "strong write")
# What conflicts: at least one writes, at least one is weak.
CONFLICTS = {
    "weak read": ("weak write", "strong write"),
    "weak write": KINDS,
    "strong read": ("weak write",),
    "strong write": ("weak read", "weak write"),
}
RELEASES, ACQUIRES = ("release", "acq_rel"), ("acquire", "acq_rel")


class Shadow:
    """The last accesses of one region, per `grain` bytes."""

    __slots__ = ("grain", "last", "size", "start")

    def __init__(self, start: int, end: int, grain: int) -> None:
        self.start, self.size, self.grain = start, end - start, grain
        self.last: dict[str, Any] = {}

    def refine(self, grain: int) -> None:
        for kind, marks in self.last.items():
            self.last[kind] = np.repeat(marks, self.grain // grain)
        self.grain = grain

    def marks(self, kind: str) -> Any:
        found = self.last.get(kind)
        if found is None:
            found = self.last[kind] = np.zeros(-(-self.size // self.grain) + 1, np.int64)
        return found


class Order:
    """What is ordered before what, as far as one tile block knows."""

    __slots__ = ("clock", "known", "number", "steps")

    def __init__(self, number: int) -> None:
        self.number = number  # of the tile block, from 1
        self.clock = 1
        self.steps = 0  # memory operations so far
        self.known: dict[int, int] = {}  # other block -> its clock at the release that was acquired


class Races:
    """The race detector of one launch."""

    __slots__ = ("memory", "orders", "releases", "shadows")

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.shadows: dict[int, Shadow] = {}
        self.orders = 0
        self.releases: dict[int, dict[int, int]] = {}  # address -> clocks published there

    def order(self) -> Order:
        self.orders += 1
        return Order(self.orders)

    def forget(self, start: int) -> None:
        self.shadows.pop(start, None)

    def shadow(self, region: Any, size: int) -> Shadow:
        found = self.shadows.get(region.start)
        if found is None:
            found = self.shadows[region.start] = Shadow(region.start, region.end, size)
        elif size < found.grain:
            found.refine(size)
        return found

    def access(
        self, state: Block, op: Op, addresses: Any, mask: Any, size: int, write: bool, strong: bool, before: int, step: int
    ) -> None:  # fmt: skip
        """Check and record one memory operation; `before` is its token, `step` its number in the tile block."""
        flat = np.asarray(addresses).reshape(-1)
        lanes = np.arange(flat.size) if mask is None else np.flatnonzero(mask)
        flat = flat[lanes]
        if not flat.size:
            return
        numbers = np.searchsorted(self.memory.starts, flat, "right") - 1
        kind = ("strong " if strong else "weak ") + ("write" if write else "read")
        for number in np.unique(numbers):
            which = np.flatnonzero(numbers == number)
            region = self.memory.regions[number]
            self.check(
                state, op, region, flat[which], lanes[which], np.shape(addresses), size, kind, before, step
            )

    def check(
        self, state: Block, op: Op, region: Any, addresses: Any, lanes: Any, shape: tuple[int, ...], size: int,
        kind: str, before: int, step: int,
    ) -> None:  # fmt: skip
        shadow = self.shadow(region, size)
        items = (addresses - shadow.start) // shadow.grain
        wide = size // shadow.grain
        if wide > 1:
            items = (items[:, None] + np.arange(wide)).reshape(-1)
        order = state.order
        for other in CONFLICTS[kind]:
            marks = shadow.last.get(other)
            if marks is None:
                continue
            seen = marks[items]
            bad = self.unordered(order, seen, before)
            if bad is not None and bad.any():
                i = int(np.argmax(bad))
                self.report(
                    state,
                    op,
                    kind,
                    other,
                    int(seen[i]),
                    int(lanes[i // wide]),
                    shape,
                    int(addresses[i // wide]),
                )
                break
        mark = (
            (order.number << (STEP_BITS + CLOCK_BITS))
            | ((step & STEP_MASK) << CLOCK_BITS)
            | (order.clock & CLOCK_MASK)
        )
        shadow.marks(kind)[items] = mark

    @staticmethod
    def unordered(order: Order, seen: Any, before: int) -> Any:
        """Which marks are of accesses that nothing orders before this one; None: none of them."""
        if not seen.any():
            return None
        bad = np.zeros(seen.shape, np.bool_)
        for mark in np.unique(seen):
            if mark == 0:
                continue
            block, step, clock = unpack(int(mark))
            if block == order.number:
                fine = bool(before >> step & 1)
            else:
                fine = order.known.get(block, 0) >= clock
            if not fine:
                bad |= seen == mark
        return bad

    def report(
        self, state: Block, op: Op, kind: str, other: str, mark: int, lane: int, shape: tuple[int, ...], address: int
    ) -> None:  # fmt: skip
        block, _, _ = unpack(mark)
        place = np.unravel_index(lane, shape) if shape else ()
        element = "[" + ", ".join(str(int(i)) for i in place) + "]"
        facts = {
            "kind": kind,
            "other": other,
            "address": f"{address:#x}",
            "block": state.id_text,
            "element": element,
        }
        if state.order is not None and block == state.order.number:
            state.launch.report(diags.RACE_TOKENS, op, **facts)
        else:
            state.launch.report(diags.RACE_BLOCKS, op, **facts)

    def synchronise(self, state: Block, addresses: Any, mask: Any, ordering: str) -> None:
        """An atomic operation with acquire or release semantics, after its accesses."""
        flat = np.asarray(addresses).reshape(-1)
        order = state.order
        for address in np.unique(flat if mask is None else flat[np.asarray(mask).reshape(-1)]).tolist():
            if ordering in ACQUIRES:
                for block, clock in self.releases.get(address, {}).items():
                    if block != order.number and order.known.get(block, 0) < clock:
                        order.known[block] = clock
            if ordering in RELEASES:
                published = self.releases.setdefault(address, {})
                for block, clock in ((order.number, order.clock), *order.known.items()):
                    if published.get(block, 0) < clock:
                        published[block] = clock
        if ordering in RELEASES:
            order.clock += 1


def unpack(mark: int) -> tuple[int, int, int]:
    """(tile block, step, clock) of a mark."""
    return mark >> (STEP_BITS + CLOCK_BITS), mark >> CLOCK_BITS & STEP_MASK, mark & CLOCK_MASK
