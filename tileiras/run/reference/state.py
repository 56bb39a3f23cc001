"""What a launch knows while it runs: memory, findings, output, and per tile block its id and scratch
memory.
"""

from __future__ import annotations

import ctypes
import sys

import numpy as np

from tileiras.diag import Emitted
from tileiras.run.errors import LaunchError

from . import diags
from .memory import Fault, Memory
from .races import Races

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TextIO

    from tileiras.compiler.ir.core import Op
    from tileiras.diag import Diag

    from .schedule import Scheduler

KEEP = 3  # findings of one kind at one op that are kept; the rest is counted


class Launch:
    """State of one launch, shared by its tile blocks (only one of which runs at a time)."""

    __slots__ = (
        "check",
        "counts",
        "findings",
        "globals",
        "grid",
        "keep",
        "memory",
        "out",
        "races",
        "scheduler",
    )

    def __init__(self, memory: Memory, grid: tuple[int, int, int], check: bool, out: TextIO | None) -> None:
        self.memory, self.grid, self.check = memory, grid, check
        self.out = out
        self.findings: list[Emitted] = []
        self.counts: dict[tuple[str, int], int] = {}
        self.globals: dict[str, int] = {}
        self.keep: list[Any] = []
        self.scheduler: Scheduler | None = None
        self.races = Races(memory) if check else None

    def write(self, text: str) -> None:
        (self.out or sys.stdout).write(text)

    def report(self, diag: Diag, op: Op, **facts: object) -> None:
        """Record a finding; the launch goes on and raises at its end."""
        key = diag.code, id(op)
        count = self.counts[key] = self.counts.get(key, 0) + 1
        if count <= KEEP:
            self.findings.append(Emitted(diag, op.loc, op.spec.full_name, facts.items()))

    def report_elements(self, diag: Diag, op: Op, state: Block, bad: Any, **facts: object) -> None:
        """One finding for each true element of `bad`."""
        bad = np.asarray(bad)
        for place in np.argwhere(bad)[:KEEP]:
            self.report(diag, op, block=state.id_text, element=element_text(tuple(place)), **facts)
        extra = int(np.count_nonzero(bad)) - KEEP
        if extra > 0:
            key = diag.code, id(op)
            self.counts[key] = self.counts.get(key, 0) + extra

    def finish(self) -> None:
        """Raise what was found."""
        if not self.findings:
            return
        for (code, _), count in self.counts.items():
            if count > KEEP:
                last = [e for e in self.findings if e.code == code][-1]
                last.notes.append(Emitted(diags.MORE, last.loc, None, [("count", count - KEEP)]))
        raise LaunchError(self.findings)

    def allocate(self, size: int, alignment: int, label: str) -> tuple[int, Any]:
        """Address of fresh zeroed memory, registered as a region."""
        alignment = max(alignment, 16)
        raw = (ctypes.c_ubyte * (size + alignment))()
        start = (ctypes.addressof(raw) + alignment - 1) // alignment * alignment
        if size:
            self.memory.add(start, start + size, label, raw)
        return start, raw


class Block:
    """One tile block: slot 0 of its frame."""

    __slots__ = ("entered", "id", "launch", "memory", "observe", "order", "races", "scratch", "unspecified")

    def __init__(self, launch: Launch, id: tuple[int, int, int]) -> None:
        self.launch, self.id, self.memory = launch, id, launch.memory
        self.scratch: dict[int, tuple[int, Any]] = {}  # alloca site -> its memory
        self.races = launch.races
        self.unspecified: dict[int, Any] = {}  # slot -> mask, see taint.py
        self.order: Any = None if launch.races is None else launch.races.order()
        self.entered: dict[int, int] = {}  # loop -> how often, where a tile block may wait in it
        self.observe: Callable[..., None] | None = None  # set when blocks must take turns

    @property
    def id_text(self) -> str:
        return "({}, {}, {})".format(*self.id)

    def release(self) -> None:
        for start, _ in self.scratch.values():
            self.memory.remove(start)
            if self.races is not None:
                self.races.forget(start)
        self.scratch.clear()


def element_text(place: tuple[Any, ...]) -> str:
    return "[" + ", ".join(str(int(i)) for i in place) + "]"


def raise_fault(state: Block, op: Op, fault: Fault, shape: tuple[int, ...], mask: Any) -> None:
    """Turn a refused access into the error of the launch."""
    position = fault.position
    if mask is not None:
        position = int(np.flatnonzero(mask)[position])
    place = np.unravel_index(position, shape) if shape else ()
    common = [
        ("verb", fault.verb),
        ("size", fault.size),
        ("address", f"{fault.address:#x}"),
        ("block", state.id_text),
    ]
    common.append(("element", element_text(place)))
    name, loc = op.spec.full_name, op.loc
    if fault.kind == "read-only" and fault.region is not None:
        found = Emitted(diags.READ_ONLY, loc, name, [("label", fault.region.label), ("block", state.id_text)])
    elif fault.kind == "aligned":
        found = Emitted(diags.MISALIGNED, loc, name, common)
    else:
        found = Emitted(diags.OUT_OF_BOUNDS, loc, name, common)
        nearest = state.memory.nearest(fault.address)
        if nearest is not None:
            region, distance = nearest
            if distance < 0:
                where = f"{-distance} bytes before its start"
            elif fault.address >= region.end:
                where = f"{distance} bytes past its end"
            else:
                where = f"the access starts {region.end - fault.address} bytes before its end and passes it"
            found.notes.append(
                Emitted(diags.NEAREST, loc, None, [("label", region.label), ("distance", where)])
            )
    raise LaunchError([*state.launch.findings, found])
