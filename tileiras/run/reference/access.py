"""Loads and stores through tiles of pointers, and what every memory op shares: addresses, masks, faults, waiting."""

from __future__ import annotations

import numpy as np

from .floats import storage_dtype
from .memory import Fault
from .progress import Levels
from .races import ACQUIRES, RELEASES, START, Token
from .registry import effect
from .state import Block, raise_fault
from .taint import full, put, report_use

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op

    from .compile import Compiler
    from .registry import Frame, Step

NIBBLES = ("f4E2M1FN", "i4")
UINT8 = np.dtype(np.uint8)


class Site:
    """A memory op: the element type it moves, and how its faults are told."""

    __slots__ = (
        "dtype", "elem", "is_bool", "nibble", "op", "ordering", "stored", "strong", "token", "token_result", "zero",
    )  # fmt: skip

    def __init__(self, c: Compiler, op: Op, elem: Any) -> None:
        self.op, self.elem = op, elem
        self.ordering = op.attr("memory_ordering_semantics")
        self.strong = self.ordering != "weak" and op.attr("memory_scope") != "tl_blk"
        token = op.operand("token")
        self.token = None if token is None else c.slot(token)
        self.token_result = c.slot(op.results[-1])
        name = getattr(elem, "name", "ptr")
        self.dtype = storage_dtype(elem)
        self.is_bool, self.nibble = name == "i1", name in NIBBLES
        self.stored = UINT8 if self.is_bool else self.dtype  # as it lies in memory
        self.zero = self.dtype.type(0)

    def track(self, s: Frame, addresses: Any, mask: Any, write: bool) -> None:
        """With check=True, behind the access: look for races, and make the result token."""
        state = s[0]
        order, races = state.order, state.races
        before = START if self.token is None else s[self.token] or START
        step = order.steps
        order.steps = step + 1
        if self.strong and self.ordering in ACQUIRES:
            before = races.acquire(before, addresses, mask)
        if write and self.ordering == "weak" and not self.nibble:
            races.duplicates(state, self.op, addresses, mask)
        races.access(state, self.op, addresses, mask, self.stored.itemsize, write, self.strong, before, step)
        after = s[self.token_result] = Token(before.own | 1 << step, before.known)
        if self.strong and self.ordering in RELEASES:
            races.release(order, after, addresses, mask)

    # addresses and mask: any shape; mask None means all. Nibbles: which half of the byte, or None.

    def load(self, state: Block, addresses: Any, mask: Any, padding: Any, half: Any = None) -> Any:
        shape = np.shape(addresses)
        if mask is not None:
            if mask.all():
                mask = None
            elif not mask.any():
                return np.broadcast_to(padding, shape)
        try:
            values = state.memory.load(addresses if mask is None else addresses[mask], self.stored)
        except Fault as fault:
            raise_fault(state, self.op, fault, shape, mask)
        if self.nibble:
            values = values >> half_of(half, mask) & np.uint8(15)
        elif self.is_bool:
            values = values != 0
        if mask is None:
            return values
        out = np.array(np.broadcast_to(padding, shape), self.dtype)
        out[mask] = values
        return out

    def store(self, state: Block, addresses: Any, values: Any, mask: Any, half: Any = None) -> None:
        shape = np.shape(addresses)
        values = np.broadcast_to(values, shape)
        if mask is not None:
            if mask.all():
                mask = None
            elif not mask.any():
                return
            else:
                addresses, values = addresses[mask], values[mask]
        try:
            if self.nibble:
                self.store_nibbles(state, np.asarray(addresses), values, half_of(half, mask))
            else:
                state.memory.store(
                    addresses, values.astype(np.uint8) if self.is_bool else values, self.stored
                )
        except Fault as fault:
            raise_fault(state, self.op, fault, shape, mask)

    def store_nibbles(self, state: Block, addresses: Any, values: Any, shift: Any) -> None:
        shift = np.broadcast_to(shift, addresses.shape)
        for place in (0, 4):  # two elements share a byte: one half after the other
            which = shift == place
            if which.any():
                old = state.memory.load(addresses[which], UINT8)
                new = (old & np.uint8(0xF0 >> place)) | ((values[which] & np.uint8(15)) << np.uint8(place))
                state.memory.store(addresses[which], new, UINT8)


def half_of(half: Any, mask: Any) -> Any:
    """Bit position of each nibble."""
    if half is None:
        return np.uint8(0)
    half = half if mask is None else half[mask]
    return half.astype(np.uint8) * np.uint8(4)


def waits(c: Compiler, op: Op) -> bool:
    """Whether an op may be what a loop waits with for another tile block: its result is used, and it is an atomic,
    a load with more than weak ordering, or any load in a `loop` (to wait with a weak load is a race, but it must
    not hang here).
    """
    if not c.loops or not op.results[0].uses:
        return False
    if op.attr("memory_ordering_semantics") == "weak" and all(loop.spec.name == "for" for loop in c.loops):
        return False
    c.waits = True
    return True


def observed(c: Compiler, op: Op, step: Step, slot: int) -> Step:
    """The step, after which the tile block may let others run if it keeps reading the same."""
    if not waits(c, op):
        return step
    site = id(op)
    levels = Levels(c)
    c.watched.update(levels.loops)

    def watch(s: Frame) -> None:
        step(s)
        observe = s[0].observe
        if observe is not None:
            observe(site, op, s[slot], levels, s)

    return watch


# ---- tiles of pointers


@effect("load_ptr_tko")
def compile_load_ptr(c: Compiler, op: Op) -> Step:
    site = Site(c, op, op.results[0].type.elem)  # type: ignore[attr-defined]
    source, mask, padding = (
        c.at(op, "source"),
        c.one(op.operand("mask")),
        c.one(op.operand("paddingValue")),
    )
    d = c.slot(op.results[0])

    def step(s: Frame) -> None:
        state = s[0]
        m = None if mask is None else s[mask]
        s[d] = site.load(state, s[source], m, site.zero if padding is None else s[padding])
        if state.races is not None:
            site.track(s, s[source], m, write=False)
            if padding is None:
                put(s, d, None if m is None else ~m)
            else:
                put(s, d, None if m is None else ~m & full(state.unspecified.get(padding), m))

    return observed(c, op, step, d)


@effect("store_ptr_tko")
def compile_store_ptr(c: Compiler, op: Op) -> Step:
    site = Site(c, op, op.operand("value").type.elem)  # type: ignore[union-attr]
    destination, value, mask = (
        c.at(op, "destination"),
        c.at(op, "value"),
        c.one(op.operand("mask")),
    )

    def step(s: Frame) -> None:
        m = None if mask is None else s[mask]
        if s[0].unspecified:
            report_use(s[0], op, value, m, "stores")
        site.store(s[0], s[destination], s[value], m)
        if s[0].races is not None:
            site.track(s, s[destination], m, write=True)

    return step
