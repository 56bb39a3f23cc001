"""Whether the threads of a launch still get on: a wait for what nobody will do is reported, not run for ever.

Now and then a window opens in which every arrival of lanes at a piece is looked at: a lane whose registers are those
of an earlier visit, as far as jumps and accesses of the loop depend on them, with the same bytes in shared and global
memory, will come round for ever. When that holds for every
lane of every CTA that has not ended (or it waits at a barrier), nothing can go on. A byte of global memory that changes,
a clock that is read or a copy that lands closes the window.
"""

from __future__ import annotations

import zlib

import numpy as np

from .memory import gather

FIRST_LOOK = 600  # steps of a launch before the first window
LONGEST_REST = 200_000  # steps between windows, at most
WINDOW = 200  # steps in which at least one more lane must be seen to repeat itself
REPEATS = 3  # visits in one state that make a lane one that repeats itself
_PRIME = np.uint64(0x9E3779B97F4A7C15)


class Visits:
    """What the lanes of one batch were like at one piece: the state kept, how often they came, how often as kept."""

    __slots__ = ("count", "kept", "repeats")

    def __init__(self, lanes: int) -> None:
        self.kept = np.zeros(lanes, np.uint64)
        self.count = np.zeros(lanes, np.int64)
        self.repeats = np.zeros(lanes, np.int64)

    def add(self, lanes: np.ndarray, state: np.ndarray) -> np.ndarray:
        """Records one visit of each lane; those that have repeated themselves."""
        same = (self.kept[lanes] == state) & (self.count[lanes] > 0)
        self.count[lanes] += 1
        self.repeats[lanes] += same
        count = self.count[lanes]
        renew = ~same & (count & (count - 1) == 0)  # Brent: also states that come back only after a while
        self.kept[lanes[renew]] = state[renew]
        self.repeats[lanes[renew]] = 0
        return lanes[self.repeats[lanes] >= REPEATS]


class Progress:
    """One per launch."""

    def __init__(self) -> None:
        self.open = False  # whether a window is open
        self.at = (
            FIRST_LOOK  # the step that opens the next window, or the one by which this must have found more
        )
        self.rest = FIRST_LOOK
        self.forget()

    def forget(self) -> None:
        self.visits: dict[tuple[int, int], Visits] = {}
        self.stuck: dict[int, np.ndarray] = {}
        self.shared: dict[int, dict[int, int]] = {}
        self.polls: dict[int, tuple] = {}

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
        """Something happened that others may wait for."""
        if self.open:
            self.close(steps)

    def stored(self, batch, at: np.ndarray, width: int, before: np.ndarray) -> None:
        """After a write: global bytes that differ are a change, shared ones are part of the state of their CTA."""
        low, high = batch.shared_start, batch.shared_start + batch.shared_stride * batch.cta_count
        inside = (at >= low) & (at < high)
        if inside.any():
            known = self.shared.setdefault(id(batch), {})
            for cta in np.unique((at[inside] - low) // batch.shared_stride).tolist():
                known.pop(cta, None)
        if not inside.all() and gather(at[~inside], width).tobytes() != before[~inside].tobytes():
            self.changed(batch.launch.steps)

    def polled(self, batch, inst, address: int, lanes: np.ndarray, strong: bool) -> None:
        """A load, a failed swap or a failed test: what a loop may be waiting with."""
        if inst is not None and (strong or inst.line not in self.polls):
            self.polls[inst.line] = (strong, inst, address, batch.thread_name(int(lanes[0])))

    def visit(self, batch, piece, idx: np.ndarray | None) -> None:
        lanes = np.arange(batch.L) if idx is None else idx
        key = (id(batch), piece.pc)
        found = self.visits.get(key)
        if found is None:
            found = self.visits[key] = Visits(batch.L)
        stuck = self.stuck.get(id(batch))
        if stuck is None:
            stuck = self.stuck[id(batch)] = np.zeros(batch.L, bool)
        again = found.add(lanes, self.state(batch, piece, lanes))
        if again.size and not stuck[again].all():
            stuck[again] = True
            self.at = batch.launch.steps + WINDOW

    def state(self, batch, piece, lanes: np.ndarray) -> np.ndarray:
        """A hash per lane of all that decides what it does next."""
        unit = batch.unit
        base = unit.reg_base[piece.func.name]
        depth = batch.depth[lanes]
        if depth.any():  # registers of the callers live on
            registers = list(range(len(batch.R)))
        else:
            registers = [base + r for r in _bits(piece.needed)]
        hashed = np.full(lanes.size, piece.pc, np.uint64) * _PRIME + depth.astype(np.uint64)
        for r in registers:
            value = batch.R[r]
            value = value if value.size == 1 else value[lanes]
            for word in _words(value):
                hashed = (hashed ^ word) * _PRIME
                hashed ^= hashed >> np.uint64(29)
        known = self.shared.setdefault(id(batch), {})
        ctas = batch.cta_of[lanes]
        for cta in np.unique(ctas).tolist():
            if cta not in known:
                start = batch.shared_start - batch.shared_memory.ctypes.data + cta * batch.shared_stride
                known[cta] = zlib.crc32(batch.shared_memory[start : start + batch.shared_stride])
        table = np.zeros(batch.cta_count, np.uint64)
        table[list(known)] = list(known.values())
        return hashed ^ table[ctas] * _PRIME

    def hopeless(self, batch) -> bool:
        """Whether every lane of the batch that has not ended repeats itself or waits for one that does."""
        stuck = self.stuck.get(id(batch))
        if stuck is None:
            return False
        waiting = batch.bar_at >= 0
        if batch.registers is not None:
            waiting |= batch.registers.at >= 0
        for pc in batch.stalled:
            waiting[batch.groups[pc] if batch.groups.get(pc) is not None else slice(None)] = True
        return bool((stuck | waiting | ~batch.live).all())

    def told(self, batches: list, waiting: int) -> tuple[str, object]:
        """The text of a deadlock and the instruction to blame."""
        lanes = sum(int(b.live.sum()) for b in batches)
        ctas = sum(int((b.cta_live > 0).sum()) for b in batches)
        text = (
            f"deadlock: kernel '{batches[0].unit.entry.name}' never ends: the {lanes} threads left in "
            f"{ctas} {'CTA' if ctas == 1 else 'CTAs'} go round loops or wait, and nothing changes"
        )
        if waiting:
            text += f" ({waiting} more CTAs start only when one of these ends)"
        if not self.polls:
            return text, None
        _, inst, address, who = max(self.polls.values(), key=lambda poll: poll[0])
        return (
            f"{text}; {who} waits for {batches[0].spell_place(address)}; PTX line {inst.line}, `{inst.text}`",
            inst,
        )


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
