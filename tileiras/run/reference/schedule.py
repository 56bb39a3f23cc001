"""Tile blocks that wait for each other: one thread each, only one running, handing on a baton.

Most kernels never wait, so blocks run one after another on the caller's thread. When a loop of the kernel
reads memory with more than weak ordering, blocks are watched: one that keeps reading the same at one place
hands on to a block that has not started, else to the next that waits. When all that wait have come round in the
state that they were in (`progress.py`) and nobody changed memory since, that is a deadlock. Waits whose rounds
differ, by a counter that chooses what to read or that ends the wait at last, cannot be told from work: very many
turns in which nobody read what had not been read before are taken for a deadlock.
"""

from __future__ import annotations

import threading
import zlib
from collections import deque

import numpy as np

from tileiras.diag import Emitted
from tileiras.run.errors import LaunchError

from . import diags
from .progress import Rounds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from tileiras.compiler.ir.core import Op

    from .progress import Levels
    from .registry import Frame
    from .state import Launch

PATIENCE = 64  # equal reads in a row before a block is thought to wait
TURNS = 3000  # turns of blocks that repeat themselves without a change of memory before the launch is stuck
QUIET_TURNS = 40_000  # turns without a new read before the launch is thought to be stuck
KNOWN_READS = 4096  # more different ones are no wait


class Abandoned(BaseException):
    """Unwinds a waiting tile block after another one failed."""


class Carrier:
    """A thread that runs tile blocks until one waits; then it keeps that one."""

    __slots__ = ("baton", "changes", "thread")

    def __init__(self) -> None:
        self.baton = threading.Semaphore(0)
        self.thread: threading.Thread | None = None
        self.changes = 0


class Scheduler:
    """Runs `run(id)` for all ids so that waiting blocks let the others progress."""

    def __init__(
        self,
        kernel: str,
        launch: Launch,
        ids: Iterable[tuple[int, int, int]],
        total: int,
        run: Callable[[Any], None],
    ) -> None:
        self.kernel = kernel
        self.launch, self.run, self.total = launch, run, total
        self.fresh: Iterator[tuple[int, int, int]] = iter(ids)
        self.exhausted = False  # no block, or no thread for one, is left to start
        self.parked: deque[Carrier] = deque()
        self.failure: BaseException | None = None
        self.current = Carrier()
        self.done = threading.Semaphore(0)
        self.idle = 0  # turns taken since memory changed, or a block that waits did not repeat itself
        self.seen = -1
        self.quiet = 0  # turns taken since a block read something new
        self.known: set[tuple[int, int]] = set()

    def start(self) -> None:
        """Run everything; raises what the first failing block raised."""
        self.spawn()
        try:
            self.done.acquire()
        except BaseException as interrupt:
            self.failure = interrupt  # Ctrl-C or an alarm: the carriers stop at their next wait or block
            raise
        if self.failure is not None:
            raise self.failure

    def spawn(self) -> None:
        carrier = Carrier()
        carrier.thread = threading.Thread(target=self.carry, args=(carrier,), name="tile block", daemon=True)
        carrier.thread.start()  # it waits for its baton, so that only one carrier ever runs
        self.current = carrier
        carrier.baton.release()

    def carry(self, carrier: Carrier) -> None:
        carrier.baton.acquire()
        try:
            with np.errstate(all="ignore"):
                while self.failure is None:
                    block = next(self.fresh, None)
                    if block is None:
                        self.exhausted = True
                        break
                    self.run(block)
        except Abandoned:
            pass
        except BaseException as failure:
            if self.failure is None:
                self.failure = failure
        self.hand_on()

    def hand_on(self) -> None:
        """This carrier ends: the next waiting one goes on, or the launch is over."""
        if self.parked:
            self.current = self.parked.popleft()
            self.current.baton.release()
        else:
            self.done.release()

    def wait(self, op: Op, repeats: bool) -> None:
        """The running block cannot go on by itself: let another one run."""
        changes = self.launch.memory.changes
        if changes != self.seen or not repeats:
            self.seen, self.idle = changes, 0
        self.idle += 1
        self.quiet += 1
        me = self.current
        if not self.exhausted:
            self.parked.append(me)
            try:
                self.spawn()
            except RuntimeError:  # the system gives no more threads: those that wait must do
                self.parked.pop()
                self.exhausted = True
                return
        else:
            if self.idle > max(TURNS, 8 * len(self.parked)) or self.quiet > max(
                QUIET_TURNS, 8 * len(self.parked)
            ):
                self.give_up(op)
            if not self.parked:
                return
            self.parked.append(me)
            self.current = self.parked.popleft()
            self.current.baton.release()
        me.baton.acquire()
        if self.failure is not None:
            raise Abandoned

    def give_up(self, op: Op) -> None:
        waiting = len(self.parked) + 1
        facts = [("kernel", self.kernel), ("count", waiting), ("total", self.total)]
        raise LaunchError([*self.launch.findings, Emitted(diags.DEADLOCK, op.loc, op.spec.full_name, facts)])

    def read(self, site: int, data: bytes) -> None:
        """What a block read: it may be news."""
        key = site, zlib.crc32(data)
        if key in self.known:
            return
        self.quiet = 0
        if len(self.known) >= KNOWN_READS:
            self.known.clear()
        self.known.add(key)

    def watch(self) -> Callable[[int, Op, Any, Levels, Frame], None]:
        """The observer of one tile block: counts equal reads at each place."""
        last: dict[int, tuple[bytes, int]] = {}
        rounds: dict[int, Rounds] = {}
        limit = PATIENCE

        def observe(site: int, op: Op, value: Any, levels: Levels, frame: Frame) -> None:
            nonlocal limit
            if self.failure is not None:
                raise Abandoned
            data = np.asarray(value).tobytes()
            found = last.get(site)
            if found is None or found[0] != data:
                last[site] = data, 0
                limit = PATIENCE
                self.read(site, data)
            elif found[1] < limit:
                last[site] = data, found[1] + 1
            else:
                limit = 4  # it has waited once: believe it sooner
                last[site] = data, 0
                here = rounds.get(site)
                if here is None:
                    here = rounds[site] = Rounds()
                self.wait(op, here.again(levels.state(frame), self.launch.memory.changes))

        return observe
