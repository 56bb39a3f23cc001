"""Tile blocks that wait for each other: one thread each, only one running, handing on a baton.

Most kernels never wait, so blocks run one after another on the caller's thread. When a loop of the kernel
reads memory with more than weak ordering, blocks are watched: one that keeps reading the same at one place
hands on to a block that has not started, else to the next that waits. Many turns in which nobody changed
memory are a deadlock and are reported as one.
"""

from __future__ import annotations

import threading
from collections import deque

import numpy as np

from tileiras.diag import Emitted
from tileiras.run.errors import LaunchError

from . import diags

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from tileiras.compiler.ir.core import Op

    from .state import Launch

PATIENCE = 64  # equal reads in a row before a block is thought to wait
TURNS = 3000  # turns without a change of memory before the launch is thought to be stuck


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
        self.idle = 0  # turns taken since memory changed
        self.seen = -1

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

    def wait(self, op: Op) -> None:
        """The running block cannot go on by itself: let another one run."""
        changes = self.launch.memory.changes
        if changes != self.seen:
            self.seen, self.idle = changes, 0
        self.idle += 1
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
            if self.idle > max(TURNS, 8 * len(self.parked)):
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

    def watch(self) -> Callable[[int, Op, Any], None]:
        """The observer of one tile block: counts equal reads at each place."""
        last: dict[int, tuple[bytes, int]] = {}
        limit = PATIENCE

        def observe(site: int, op: Op, value: Any) -> None:
            nonlocal limit
            if self.failure is not None:
                raise Abandoned
            data = np.asarray(value).tobytes()
            found = last.get(site)
            if found is None or found[0] != data:
                last[site] = data, 0
                limit = PATIENCE
            elif found[1] < limit:
                last[site] = data, found[1] + 1
            else:
                limit = 4  # it has waited once: believe it sooner
                last[site] = data, 0
                self.wait(op)

        return observe
