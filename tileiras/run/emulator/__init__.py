"""Executes PTX text on the CPU with NumPy: `launch`, `Memory`, `Report`, `EmulatorError`.

The emulator is a witness of what was really emitted, so it shares nothing with the compiler: it reads PTX as the ISA
manual defines it. Many warps run at once (see `machine.py`); CTAs of a grid run in batches that are all co-resident up
to `RESIDENT_CTAS`, so persistent kernels that wait for each other work up to that size.
"""

from __future__ import annotations

import collections
import sys
from contextvars import ContextVar

import numpy as np

from .machine import Batch, Stuck
from .memory import Memory
from .meter import Counts, Meter
from .order import Order
from .progress import Progress
from .shape import launch_shape, triple
from .syntax import EmulatorError
from .tensor_map import tensor_map
from .unit import Unit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

__all__ = [
    "Counts",
    "EmulatorError",
    "Finding",
    "Kernel",
    "Memory",
    "Report",
    "launch",
    "tensor_map",
    "watcher",
]

RESIDENT_CTAS = 132 * 8  # CTAs that may wait for each other
BATCH_LANES = 1 << 14  # lanes that run together: large enough to amortise NumPy, small enough for caches
CHECK_LANES = 1 << 13  # the same where the order is perturbed
DEFAULT_STEPS = 50_000_000
ENDS = {"exact": 0, "low": -1, "high": 1}


# Called with (CTAs that have ended, CTAs of the grid) as a launch goes on, in clusters where the launch counts these; who
# shows progress sets it.
watcher: ContextVar[Callable[[int, int], None] | None] = ContextVar("watcher", default=None)


class Finding:
    """One problem: kind, text, PTX line and instruction."""

    __slots__ = ("instruction", "kind", "line", "text")

    def __init__(self, kind: str, text: str, inst=None) -> None:
        self.kind, self.text = kind, text
        self.line = inst.line if inst is not None else 0
        self.instruction = inst.text if inst is not None else ""

    def __repr__(self) -> str:
        return f"<{self.text}>"


class Report:
    """What a launch printed and what was found; executed counts instructions by opcode, lanes by instruction."""

    def __init__(self) -> None:
        self.printed: list[str] = []
        self.findings: list[Finding] = []
        self.executed: collections.Counter = collections.Counter()
        self.thread_instructions = 0
        self.steps = 0
        self.profile: dict[
            int, tuple[str, Counts]
        ] = {}  # with profile=True: PTX line -> (instruction, Counts)


class _Abort(Exception):
    """The launch ends here; its report says why."""


class Launch:
    """State shared by the batches of one launch."""

    def __init__(
        self, unit: Unit, shape, memory: Memory, check: bool, seed, max_steps, out, profile: bool
    ) -> None:
        self.unit, self.memory = unit, memory
        self.out: TextIO = out or sys.stdout
        self.grid, cluster, self.counted = shape
        self.explicit_cluster = cluster is not None
        self.cluster = cluster or (1, 1, 1)
        self.cluster_size = int(np.prod(self.cluster))
        self.report = Report()
        self.steps = 0
        self.max_steps = max_steps or DEFAULT_STEPS
        self.progress = Progress()
        self.meter = Meter() if profile else None
        self.check = check
        self.checker = None
        self.order = Order(self.cluster_size, seed) if check or seed is not None else None
        unit.ordered, unit.cluster_size = self.order is not None, self.cluster_size
        if check:
            from .race import Checker

            self.checker = Checker(self)

    def fatal(self, kind: str, text: str, inst) -> None:
        self.report.findings.append(Finding(kind, text, inst))
        if self.check and kind != "out of bounds":
            raise _Abort
        error = EmulatorError(text)
        error.report = self.report
        error.line = inst.line if inst is not None else 0
        raise error

    def cta_order(self) -> np.ndarray:
        """[n, 3] coordinates: clusters in x, y, z order, within a cluster by rank."""
        gx, gy, gz = self.grid
        cx, cy, cz = self.cluster
        if self.cluster_size == 1:
            i = np.arange(gx * gy * gz)
            return np.stack([i % gx, i // gx % gy, i // (gx * gy)], 1)
        k = np.arange(gx // cx * (gy // cy) * (gz // cz))
        base = np.stack(
            [k % (gx // cx) * cx, k // (gx // cx) % (gy // cy) * cy, k // (gx // cx * (gy // cy)) * cz], 1
        )
        r = np.arange(self.cluster_size)
        rank = np.stack([r % cx, r // cx % cy, r // (cx * cy)], 1)
        return (base[:, None, :] + rank[None, :, :]).reshape(-1, 3)

    def run(self) -> Report:
        ctas = self.cta_order()
        span = -(-int(np.prod(self.unit.block)) // 32) * 32
        per = max(1, (BATCH_LANES if self.order is None else CHECK_LANES) // span)
        per = max(self.cluster_size, per // self.cluster_size * self.cluster_size)
        if self.order is not None:
            ctas = self.order.shuffle(ctas)
        self.ctas, self.next, self.end = ctas, 0, len(ctas)
        if self.unit.cancels:  # some clusters must still be waiting when others ask for their work
            clusters = len(ctas) // self.cluster_size
            some = -(-clusters // 2) if self.order is None else int(self.order.rng.integers(1, clusters + 1))
            per = min(per, some * self.cluster_size)
        resident: list[Batch] = []
        room = -(-RESIDENT_CTAS // per)
        tell, ended = watcher.get(), 0
        try:
            while self.next < self.end or resident:
                progressed = False
                if self.next < self.end and len(resident) < room:
                    at, self.next = self.next, min(self.next + per, self.end)
                    resident.append(Batch(self, ctas[at : self.next], at))
                for batch in list(resident):
                    alone = self.next >= self.end and len(resident) == 1
                    outcome = self.turn(batch, alone)
                    if outcome == "done":
                        resident.remove(batch)
                        self.collect(batch)
                        ended += batch.cta_count
                        if tell is not None:
                            tell(ended // self.counted, self.end // self.counted)
                        progressed = True
                        break  # start a fresh batch rather than spin on
                if not progressed and (self.next >= self.end or len(resident) >= room):
                    self.find_deadlock(resident, self.end - self.next)
        except _Abort:
            for batch in resident:
                self.collect(batch)
        finally:
            for batch in resident:
                batch.flush_prints()
        self.report.steps = self.steps
        if self.meter is not None:
            self.report.profile = self.meter.lines()
        return self.report

    def cancel(self, size: int):
        """The coordinates of the first CTA of a cluster (of `size`) that has not begun and now never will, or None."""
        if self.end - self.next < size:
            return None
        self.end -= size
        self.progress.changed(self.steps)
        return self.ctas[self.end]

    def turn(self, batch: Batch, alone: bool) -> str:
        try:
            return batch.run(alone)
        except Stuck:
            kind = "barrier divergence" if (batch.bar_at >= 0).any() else "deadlock"
            text = f"{kind} in kernel '{self.unit.entry.name}': no thread can go on: {batch.stuck_report()}"
            self.fatal(kind, text, batch.first_waiting())
            return "done"

    def find_deadlock(self, resident: list[Batch], waiting: int) -> None:
        """Ends the launch when no CTA that has begun can go on."""
        progress = self.progress
        if resident and all(progress.hopeless(batch) for batch in resident):
            late = [batch.land_all() for batch in resident]
            if any(late):
                progress.changed(self.steps)
                return
            text, inst = progress.told(resident, waiting)
            self.fatal("deadlock", text, inst)

    def collect(self, batch: Batch) -> None:
        """Adds a batch's execution counts."""
        report = self.report
        for (pc, level), lanes in batch.counts.items():
            insts = (
                self.unit.pieces[pc].insts[:1]
                if level < 0
                else [i for p in self.unit.run_of(pc, level) for i in p.insts]
            )
            for inst in insts:
                if inst.op[0] != "$":
                    if self.meter is not None:
                        self.meter.issued(inst, batch.warp_counts[pc, level], lanes)
                    report.executed[".".join((inst.op, *inst.mods))] += lanes
                    report.thread_instructions += lanes


class Kernel:
    """One kernel, translated once: launched any number of times, by several threads at once if need be.

    block None takes .reqntid; cluster None takes .reqnctapercluster. Errors: EmulatorError.
    """

    def __init__(self, ptx: str, entry: str, block=None, dynamic_shared_bytes: int = 0, cluster=None) -> None:
        self.ptx, self.name, self.cluster = ptx, entry, cluster
        self.block = None if block is None else triple(block, "block")
        self.dynamic_shared_bytes = dynamic_shared_bytes
        # Addresses of parameters and globals are part of the translated code, so a launch has a unit to itself.
        self.idle = [self.translate()]

    def translate(self) -> Unit:
        return Unit(self.ptx, self.name, self.block, Memory(), self.dynamic_shared_bytes)

    def launch(
        self,
        grid,
        params: list,
        *,
        memory=(),
        check: bool = False,
        seed: int | None = None,
        max_steps: int | None = None,
        out: TextIO | None = None,
        profile: bool = False,
        approximate: str = "exact",
    ) -> Report:
        """Runs the kernel to its end; see `launch` below."""
        if approximate not in ENDS:
            raise EmulatorError(f"approximate must be one of {', '.join(ENDS)}, got {approximate!r}")
        if seed is not None and (
            not isinstance(seed, (int, np.integer)) or isinstance(seed, bool) or seed < 0
        ):
            raise EmulatorError(f"seed must be an integer from 0 on or None, got {seed!r}")
        if isinstance(memory, Memory):
            mem = memory
        elif memory is None or isinstance(memory, np.ndarray):
            got = "None" if memory is None else "one array: put it into a list"
            raise EmulatorError(f"memory must be a sequence of NumPy arrays, got {got}")
        else:
            mem = Memory()
            for i, array in enumerate(memory):
                mem.add(array, f"memory[{i}]")
        try:
            unit = self.idle.pop()
        except IndexError:
            unit = self.translate()
        try:
            entry = unit.entry
            shape = launch_shape(entry.name, entry.directives, grid, self.cluster)
            unit.fill_globals()
            for region in unit.memory.regions:
                mem.insert(region)
            unit.encode_params(params, mem)
            with np.errstate(all="ignore"):
                unit.error_end = ENDS[approximate]
                return Launch(unit, shape, mem, check, seed, max_steps, out, profile).run()
        finally:
            self.idle.append(unit)


def launch(
    ptx: str,
    entry: str,
    grid,
    block,
    params: list,
    *,
    memory=(),
    dynamic_shared_bytes: int = 0,
    cluster=None,
    check: bool = False,
    seed: int | None = None,
    max_steps: int | None = None,
    profile: bool = False,
    approximate: str = "exact",
) -> Report:
    """Runs one kernel to its end and returns what it printed and what was found.

    params: one item per .param, a number (encoded by the declared type), bytes, or a NumPy array (its address; its bytes
    become accessible). memory: arrays reached only through pointers stored elsewhere, or a prepared `Memory`. block None
    takes .reqntid; cluster None takes .reqnctapercluster. The grid counts CTAs, with .blocksareclusters clusters. A seed
    perturbs the order of warps and CTAs; check does so too, and looks for races and other silent errors, listed in
    `Report.findings`. profile counts work by PTX line, in `Report.profile`. approximate "low" and "high" give approximate
    instructions the ends of their documented error.

    Errors: EmulatorError for accesses out of bounds, misaligned accesses, traps, deadlock and unsupported instructions;
    with check, all of these but the first and last are findings and end the launch.
    """
    kernel = Kernel(ptx, entry, block, dynamic_shared_bytes, cluster)
    return kernel.launch(
        grid, params, memory=memory, check=check, seed=seed, max_steps=max_steps, profile=profile,
        approximate=approximate,
    )  # fmt: skip
