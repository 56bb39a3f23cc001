"""Whether the threads of a launch still get on: a wait for what nobody will do is reported, not run for ever.

Now and then a window opens in which every arrival of lanes at a piece is looked at: a lane that has not left a loop since
an earlier visit, whose registers are those of then, as far as jumps and accesses of this loop depend on them, with the
same bytes in shared and global memory, will come round for ever. When that holds for every
lane of every CTA that has not ended (or it waits at a barrier), nothing can go on. A byte of global memory that changes,
a clock that is read or a copy that lands closes the window.

That is a proof, and some waits escape it: a counter may choose which of some flags is read next, be kept in memory, or
end the wait after 2^31 rounds. So in a long launch reads are looked at (`Watch`): when for very many steps no
thread has read anything that was not read before, although all poll or wait, nobody learns of anything any more.
"""

from __future__ import annotations

import zlib

import numpy as np

from .memory import gather

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

FIRST_LOOK = 600  # steps of a launch before the first window
LONGEST_REST = 200_000  # steps between windows, at most
WINDOW = 200  # steps in which at least one more lane must be seen to repeat itself
REPEATS = 3  # visits in one state that make a lane one that repeats itself
FIRST_WATCH = 20_000  # steps of a launch before reads are looked at
QUIET = 100_000  # steps without a new read in which all threads must have polled
KNOWN_READS = 4096  # more different ones are no poll
_PRIME = np.uint64(0x9E3779B97F4A7C15)


class Visits:
    """What the lanes of one batch were like at one piece: the state kept, how often they came, how often as kept."""

    __slots__ = ("count", "kept", "repeats")

    def __init__(self, lanes: int) -> None:
        self.kept = np.zeros(lanes, np.uint64)
        self.count = np.zeros(lanes, np.int64)
        self.repeats = np.zeros(lanes, np.int64)

    def add(self, lanes: np.ndarray, state: np.ndarray) -> np.ndarray:
        """Records one visit of each lane; those that repeat themselves with it."""
        same = (self.kept[lanes] == state) & (self.count[lanes] > 0)
        self.count[lanes] += 1
        self.repeats[lanes] += same
        count = self.count[lanes]
        renew = ~same & (count & (count - 1) == 0)  # Brent: also states that come back only after a while
        self.kept[lanes[renew]] = state[renew]
        self.repeats[lanes[renew]] = 0
        return lanes[same & (self.repeats[lanes] >= REPEATS)]


class Progress:
    """One per launch."""

    def __init__(self) -> None:
        self.open = False  # whether a window is open
        self.at = (
            FIRST_LOOK  # the step that opens the next window, or the one by which this must have found more
        )
        self.rest = FIRST_LOOK
        self.watch_at = self.watch_rest = FIRST_WATCH
        self.watch(0)
        self.watching = False  # whether reads are looked at
        self.forget()

    def forget(self) -> None:
        self.visits: dict[tuple[int, int, int], Visits] = {}
        self.stuck: dict[
            int, np.ndarray
        ] = {}  # batch -> number of the loop that each lane never leaves, or -1
        self.inside: dict[
            tuple[int, str], np.ndarray
        ] = {}  # batch, function -> innermost loop of each lane, or -1
        self.around: dict[int, tuple[int, ...]] = {-1: ()}  # loop -> it and the loops around it
        self.times_left: dict[tuple[int, int], np.ndarray] = {}  # batch, loop -> how often each lane has
        self.shared: dict[int, dict[int, int]] = {}
        self.contents: dict[tuple[int, int], set[int]] = {}  # batch, cluster -> what shared memory was like
        self.polls: dict[int, tuple] = {}  # PTX line -> strong, instruction, address, thread, batch

    def look(self, steps: int) -> None:
        """Opens a window, or closes one in which nothing repeats itself."""
        if self.open:
            self.close(steps)
        else:
            self.open, self.at = True, steps + WINDOW
            self.forget()

    def close(self, steps: int) -> None:
        self.open = False
        self.rest = min(2 * self.rest, LONGEST_REST)
        self.at = steps + self.rest
        self.forget()

    def changed(self, steps: int) -> None:
        """Something happened that others may wait for, or see from outside."""
        if self.open:
            self.close(steps)
        if self.watching:
            self.learned(steps)

    def stored(self, batch, at: np.ndarray, width: int, before: np.ndarray) -> None:
        """After a write: global bytes that differ are a change, shared ones are part of the state of their CTA."""
        if self.watching:
            self.new((-at.size, zlib.crc32(at.tobytes())), batch.launch.steps)
        if not self.open:
            return
        low, high = batch.shared_start, batch.shared_start + batch.shared_stride * batch.cta_count
        inside = (at >= low) & (at < high)
        if inside.any():
            known = self.shared.setdefault(batch.first_cta, {})
            for cta in np.unique((at[inside] - low) // batch.shared_stride).tolist():
                known.pop(cta, None)
        if not inside.all() and gather(at[~inside], width).tobytes() != before[~inside].tobytes():
            self.close(batch.launch.steps)

    def polled(self, batch, inst, address: int, lanes: np.ndarray, strong: bool) -> None:
        """A load, a failed swap or a failed test: what a loop may be waiting with."""
        if inst is not None and (strong or inst.line not in self.polls):
            self.polls[inst.line] = (strong, inst, address, batch.thread_name(int(lanes[0])), batch)

    def visit(self, batch, piece, idx: np.ndarray | None) -> None:
        lanes = np.arange(batch.L) if idx is None else idx
        self.leave_loops(batch, piece, lanes)
        if not piece.loops:
            return
        stuck = self.stuck_in(batch)
        everywhere = self.everywhere(batch, piece, lanes)
        for loop, needed in piece.loops:
            key = (batch.first_cta, piece.pc, loop)
            found = self.visits.get(key)
            if found is None:
                found = self.visits[key] = Visits(batch.L)
            again = found.add(lanes, self.state(batch, piece, lanes, loop, needed, everywhere))
            if again.size and (stuck[again] < 0).any():
                stuck[again] = loop
                self.at = batch.launch.steps + WINDOW

    def stuck_in(self, batch) -> np.ndarray:
        stuck = self.stuck.get(batch.first_cta)
        if stuck is None:
            stuck = self.stuck[batch.first_cta] = np.full(batch.L, -1, np.int64)
        return stuck

    def leave_loops(self, batch, piece, lanes: np.ndarray) -> None:
        """Lanes at a piece have left the loops that they were in and that are not around it."""
        where = (batch.first_cta, piece.func.name)
        inside = self.inside.get(where)
        if inside is None:
            inside = self.inside[where] = np.full(batch.L, -1, np.int64)
        loops = tuple(loop for loop, _ in piece.loops)
        now = loops[-1] if loops else -1
        for i, loop in enumerate(loops):
            self.around[loop] = loops[: i + 1]
        before = inside[lanes]
        if (before == now).all():
            return
        stuck = self.stuck_in(batch)
        for old in np.unique(before).tolist():
            for loop in self.around[old]:
                if loop in loops:
                    continue
                who = lanes[before == old]
                times = self.times_left.get((batch.first_cta, loop))
                if times is None:
                    times = self.times_left[batch.first_cta, loop] = np.zeros(batch.L, np.uint64)
                times[who] += np.uint64(1)
                stuck[who[stuck[who] == loop]] = -1
        inside[lanes] = now

    def everywhere(self, batch, piece, lanes: np.ndarray) -> np.ndarray:
        """A hash per lane of what decides what it does next whatever loop it is in: place, callers, shared memory."""
        depth = batch.depth[lanes]
        hashed = np.full(lanes.size, piece.pc, np.uint64) * _PRIME + depth.astype(np.uint64)
        if depth.any():  # registers of the callers live on
            base = batch.unit.reg_base[piece.func.name]
            own = range(base, base + len(piece.func.regs) + 1)
            hashed = _mixed(hashed, (batch.R[r] for r in range(len(batch.R)) if r not in own), lanes)
        known = self.shared.setdefault(batch.first_cta, {})
        size = batch.cluster_size
        clusters = np.unique(batch.cta_of[lanes] // size).tolist()
        table = np.zeros(batch.cta_count // size, np.uint64)
        for cluster in clusters:
            for cta in range(cluster * size, (cluster + 1) * size):
                if cta not in known:
                    start = batch.shared_start - batch.shared_memory.ctypes.data + cta * batch.shared_stride
                    known[cta] = zlib.crc32(batch.shared_memory[start : start + batch.shared_stride])
            content = hash(tuple(known[cta] for cta in range(cluster * size, (cluster + 1) * size)))
            table[cluster] = content & 0xFFFFFFFFFFFFFFFF
            seen = self.contents.setdefault((batch.first_cta, cluster), set())
            if content not in seen:  # news to all that can read it
                seen.add(content)
                self.stuck_in(batch).reshape(-1, size * batch.span)[cluster] = -1
        return hashed ^ table[batch.cta_of[lanes] // size] * _PRIME

    def state(
        self, batch, piece, lanes: np.ndarray, loop: int, needed: int, everywhere: np.ndarray
    ) -> np.ndarray:
        """A hash per lane of all that decides whether and how a loop around it goes on."""
        base = batch.unit.reg_base[piece.func.name]
        times = self.times_left.get((batch.first_cta, loop))
        hashed = everywhere if times is None else (everywhere ^ times[lanes]) * _PRIME
        return _mixed(hashed, (batch.R[base + r] for r in _bits(needed)), lanes)

    @property
    def looking(self) -> bool:
        return self.open or self.watching

    def gone_quiet(self, steps: int) -> bool:
        """Whether there has been no news for long; begins to look for news where it is time to."""
        if self.watching:
            return steps - self.read_at > QUIET
        if steps >= self.watch_at:
            self.watch(steps)
        return False

    def hopeless(self, batch) -> bool:
        """Whether nothing that the batch does can be the end of what others, or its own lanes, wait for."""
        return (self.open and self.repeats(batch)) or (
            self.gone_quiet(batch.launch.steps) and self.ignorant(batch)
        )

    def repeats(self, batch) -> bool:
        """Whether every lane of the batch that has not ended repeats itself or waits for one that does."""
        stuck = self.stuck.get(batch.first_cta)
        if stuck is None or not batch.live.any():
            return False
        return bool(((stuck >= 0) | waiting_lanes(batch) | ~batch.live).all())

    # all reads, for the waits whose rounds differ

    def watch(self, steps: int) -> None:
        """Begins to look at reads."""
        self.watching, self.read_at = True, steps
        self.known: set[tuple[int, int]] = set()  # reads with what they gave, and places written
        self.busy: dict[
            int, np.ndarray
        ] = {}  # batch -> warps that have read or met others since the last news
        self.polling: dict[int, np.ndarray] = {}  # batch -> CTAs that have polled since then

    def learned(self, steps: int) -> None:
        """Something is new to a thread."""
        self.read_at = steps
        self.busy.clear()
        self.polling.clear()

    def read(
        self, batch, at: np.ndarray, values: list[np.ndarray], space: str, lanes: np.ndarray, strong: bool
    ) -> None:
        """After a load, an atomic or a test of a barrier's phase."""
        if not self.watching or space == "local":  # a thread's own memory holds its counters, say
            return
        crc = zlib.crc32(at.tobytes())
        for value in values:
            crc = zlib.crc32(value.tobytes(), crc)
        self.new((at.size, crc), batch.launch.steps)
        self.met(batch, lanes)
        if strong:
            polling = self.polling.get(batch.first_cta)
            if polling is None:
                polling = self.polling[batch.first_cta] = np.zeros(batch.cta_count, bool)
            polling[batch.cta_of[lanes]] = True

    def new(self, access: tuple[int, int], steps: int) -> None:
        """Learns of what was never read or written before, and gives up where that is much."""
        if access in self.known:
            return
        self.learned(steps)
        self.known.add(access)
        if len(self.known) > KNOWN_READS:
            self.watching = False
            self.watch_rest = min(2 * self.watch_rest, LONGEST_REST)
            self.watch_at = steps + self.watch_rest

    def met(self, batch, lanes: np.ndarray) -> None:
        """Lanes have read something or passed a barrier: they do not only compute."""
        if not self.watching:
            return
        busy = self.busy.get(batch.first_cta)
        if busy is None:
            busy = self.busy[batch.first_cta] = np.zeros(batch.L // 32, bool)
        busy[lanes >> 5] = True

    def ignorant(self, batch) -> bool:
        """Whether the warps of the batch only read again what they have read, and all its CTAs poll."""
        busy, polling = self.busy.get(batch.first_cta), self.polling.get(batch.first_cta)
        if busy is None or polling is None:
            return False
        waiting = (waiting_lanes(batch) | ~batch.live).reshape(-1, 32).all(1)
        return bool((busy | waiting).all() and (polling | (batch.cta_live == 0)).all())

    def told(self, batches: list, waiting: int) -> tuple[str, object]:
        """The text of a deadlock and the instruction to blame."""
        lanes = sum(int(b.live.sum()) for b in batches)
        ctas = sum(int((b.cta_live > 0).sum()) for b in batches)
        text = (
            f"deadlock: kernel '{batches[0].unit.entry.name}' never ends: the {lanes} threads left in "
            f"{ctas} {'CTA' if ctas == 1 else 'CTAs'} go round loops or wait, and "
        )
        if all(self.open and self.repeats(batch) for batch in batches):
            text += "nothing changes"
        else:
            text += f"in {QUIET} steps none has read what it had not read before"
        if waiting:
            text += f" ({waiting} more CTAs start only when one of these ends)"
        for batch in batches:
            for who in batch.registers.stuck_report() if batch.registers is not None else ():
                text += f"; {who}"
        if not self.polls:
            return text, None
        # a barrier whose copies do not add up is the cause, others wait for who waits there
        owed = {line: poll[4].owed(poll[2]) for line, poll in self.polls.items()}
        line = max(self.polls, key=lambda at: (bool(owed[at][1]), self.polls[at][0]))
        _, inst, address, who, batch = self.polls[line]
        return (
            f"{text}; {who} waits for {batch.spell_place(address)}{owed[line][0]}; PTX line {inst.line}, `{inst.text}`",
            inst,
        )


def waiting_lanes(batch) -> np.ndarray:
    """Which lanes stand at a barrier, or at an instruction whose partners are missing."""
    waiting = batch.bar_at >= 0
    if batch.registers is not None:
        waiting |= batch.registers.at >= 0
    for pc in batch.stalled:
        waiting[batch.groups[pc] if batch.groups.get(pc) is not None else slice(None)] = True
    return waiting


def _mixed(hashed: np.ndarray, values: Iterable[np.ndarray], lanes: np.ndarray) -> np.ndarray:
    """`hashed` with registers, of one element for all lanes of the batch or one for each."""
    hashed = hashed.copy()
    for value in values:
        for word in _words(value if value.size == 1 else value[lanes]):
            hashed = (hashed ^ word) * _PRIME
            hashed ^= hashed >> np.uint64(29)
    return hashed


def _bits(number: int):
    while number:
        low = number & -number
        yield low.bit_length() - 1
        number ^= low


def _words(value: np.ndarray) -> list[np.ndarray]:
    """The bits of each element as 64-bit words."""
    size = value.dtype.itemsize
    if size == 16:
        pairs = np.ascontiguousarray(value).view(np.uint64).reshape(-1, 2)
        return [pairs[:, 0], pairs[:, 1]]
    return [np.ascontiguousarray(value).view(f"uint{8 * size}").astype(np.uint64)]
