"""Data races by the memory model, found while tile blocks run one after another (check=True only).

Per byte range the shadow of a region keeps the last weak and strong read and write: which tile block, which of
its memory operations. An access that conflicts with one of them must come after it: within a tile block by a
path of tokens, between tile blocks by release and acquire, which tokens must connect with the accesses on their
side: a release hands on what its token orders before it, and what an acquire learns holds behind its token. Only
the last access of each kind is kept, so a race can be missed, but what is reported is one.
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

STEP_BITS = 32  # of an int64 mark; above it the tile block
STEP_MASK = (1 << STEP_BITS) - 1
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


class Token:
    """What comes before: operations of the own tile block as the bits of `own`, of others likewise in `known`."""

    __slots__ = ("known", "own")

    def __init__(self, own: int, known: dict[int, int]) -> None:
        self.own, self.known = own, known  # known is shared by tokens and never changed

    def join(self, other: Token | None) -> Token:
        if other is None or other is self:
            return self
        return Token(self.own | other.own, both(self.known, other.known))


def both(a: dict[int, int], b: dict[int, int]) -> dict[int, int]:
    """Operations in either of two sets, by tile block."""
    if a is b or not b:
        return a
    if not a:
        return b
    out = dict(a)
    for block, operations in b.items():
        out[block] = out.get(block, 0) | operations
    return out


START = Token(0, {})


class Order:
    """Which operations a tile block has made so far: it gives them numbers."""

    __slots__ = ("number", "steps")

    def __init__(self, number: int) -> None:
        self.number = number  # of the tile block, from 1
        self.steps = 0


class Races:
    """The race detector of one launch."""

    __slots__ = ("memory", "orders", "releases", "shadows")

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.shadows: dict[int, Shadow] = {}
        self.orders = 0
        self.releases: dict[int, dict[int, int]] = {}  # address -> operations that releases there come after

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
        self, state: Block, op: Op, addresses: Any, mask: Any, size: int, write: bool, strong: bool, before: Token, step: int
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
        kind: str, before: Token, step: int,
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
        shadow.marks(kind)[items] = order.number << STEP_BITS | step & STEP_MASK

    @staticmethod
    def unordered(order: Order, seen: Any, before: Token) -> Any:
        """Which marks are of accesses that nothing orders before this one; None: none of them."""
        if not seen.any():
            return None
        bad = np.zeros(seen.shape, np.bool_)
        for mark in np.unique(seen):
            if mark == 0:
                continue
            block, step = unpack(int(mark))
            operations = before.own if block == order.number else before.known.get(block, 0)
            if not operations >> step & 1:
                bad |= seen == mark
        return bad

    def report(
        self, state: Block, op: Op, kind: str, other: str, mark: int, lane: int, shape: tuple[int, ...], address: int
    ) -> None:  # fmt: skip
        block, _ = unpack(mark)
        element = element_at(lane, shape)
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

    def duplicates(self, state: Block, op: Op, addresses: Any, mask: Any) -> None:
        """Report elements of one weak store that go to one address: no order is promised among them."""
        flat = np.asarray(addresses).reshape(-1)
        lanes = np.arange(flat.size) if mask is None else np.flatnonzero(mask)
        order = lanes[np.argsort(flat[lanes], kind="stable")]
        again = np.flatnonzero(flat[order][1:] == flat[order][:-1])
        if again.size:
            first = again[np.argmin(order[again + 1])]
            shape = np.shape(addresses)
            state.launch.report(
                diags.RACE_ELEMENTS,
                op,
                address=f"{int(flat[order[first]]):#x}",
                block=state.id_text,
                element=element_at(int(order[first + 1]), shape),
                other=element_at(int(order[first]), shape),
            )

    def acquire(self, before: Token, addresses: Any, mask: Any) -> Token:
        """The token behind an acquire: with what releases of these addresses come after."""
        known = before.known
        for address in active(addresses, mask):
            known = both(known, self.releases.get(address, {}))
        return before if known is before.known else Token(before.own, known)

    def release(self, order: Order, token: Token, addresses: Any, mask: Any) -> None:
        """Leave what comes before a release, and the release itself, at its addresses."""
        operations = both(token.known, {order.number: token.own})
        for address in active(addresses, mask):
            self.releases[address] = both(self.releases.get(address, {}), operations)


def active(addresses: Any, mask: Any) -> list[int]:
    flat = np.asarray(addresses).reshape(-1)
    return np.unique(flat if mask is None else flat[np.asarray(mask).reshape(-1)]).tolist()


def element_at(lane: int, shape: tuple[int, ...]) -> str:
    """The index of an element, as findings spell it."""
    place = np.unravel_index(lane, shape) if shape else ()
    return "[" + ", ".join(str(int(i)) for i in place) + "]"


def unpack(mark: int) -> tuple[int, int]:
    """(tile block, step) of a mark."""
    return mark >> STEP_BITS, mark & STEP_MASK
