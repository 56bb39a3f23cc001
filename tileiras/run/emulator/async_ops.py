"""cp.async groups and mbarriers.

A copy may happen at any moment between its issue and its wait. Without a seed that is the last one: a kernel that forgets
to wait reads the old bytes, as it may on hardware, and what changes the source meanwhile is copied. With a seed it is any,
lane by lane. An mbarrier is a 64-bit word in shared memory: bit 0 the phase parity, then pending arrivals (20 bits),
expected arrivals (20 bits) and the pending transaction count (22 bits, signed).
"""

from __future__ import annotations

import numpy as np

from .access import Fault
from .memory import gather, scatter

NEVER, READY, GONE = 0, 1, 2  # states of the 8 bytes of an mbarrier
LAND_AT_ONCE, LAND_IN_STEP = 0.2, 0.3  # chances that a copy lands at its issue, or that some do in a step


class Copy:
    """A cp.async of some lanes. count: bytes read by each, None for all; the lanes' groups; what has landed already.

    number: copies and arrivals of a batch are numbered in the order of their issue."""

    __slots__ = ("count", "group", "landed", "lanes", "line", "number", "size", "source", "to")

    def __init__(self, to, source, size: int, count, lanes, group, landed, line: int, number: int) -> None:
        self.to, self.source, self.size, self.count, self.lanes, self.group = (
            to,
            source,
            size,
            count,
            lanes,
            group,
        )
        self.landed, self.line, self.number = landed, line, number

    def part(self, which: np.ndarray) -> Copy:
        count = None if self.count is None else self.count[which]
        return Copy(
            self.to[which], self.source[which], self.size, count, self.lanes[which], self.group[which],
            self.landed[which], self.line, self.number,
        )  # fmt: skip

    def reads(self):
        """(addresses, bytes, lanes) of what it reads, in widths that divide."""
        if self.count is None:
            yield self.source, self.size, self.lanes
            return
        for count in np.unique(self.count).tolist():
            width = count & ~3 if count >= 4 else count & ~1 if count >= 2 else count
            if width:
                some = self.count == count
                yield self.source[some], width, self.lanes[some]


class Arrival:
    """A cp.async.mbarrier.arrive: each lane arrives when the copies that it had issued have landed."""

    __slots__ = ("at", "lanes", "number")

    def __init__(self, at: np.ndarray, lanes: np.ndarray, number: int) -> None:
        self.at, self.lanes, self.number = at, lanes, number

    def part(self, which: np.ndarray) -> Arrival:
        return Arrival(self.at[which], self.lanes[which], self.number)


class AsyncOps:
    """Mixed into Batch."""

    def cp_async(self, to, source, size: int, count, mask, idx, n: int) -> None:
        sel = self.select(mask, n)
        if sel is not None:
            if sel.size == 0:
                return
            to, source = (v[sel] if v.size > 1 else v for v in (to, source))
            count = count[sel] if count is not None and count.size > 1 else count
        total = n if sel is None else sel.size
        to, source = np.broadcast_to(to, (total,)), np.broadcast_to(source, (total,))
        at = self.host(to, "shared" if not (int(to.max()) >> 60) else "generic", size, idx, n, sel, True)
        if count is None:
            source = self.host(source, "global", size, idx, n, sel, False)
        else:
            count = np.broadcast_to(np.minimum(count, size), (total,))
            full = np.flatnonzero(count > 0)
            if full.size:  # only the bytes that are read need to exist
                place = (np.arange(n) if sel is None else sel)[full]
                for size_read in np.unique(count[full]):
                    some = count[full] == size_read
                    self.check_global(source[full][some], int(size_read), size, idx, n, place[some])
        lanes = self.lanes(idx, n, sel)
        inst = self.current_inst()
        line = inst.line if inst is not None else 0
        group, landed = self.committed[lanes], np.zeros(total, bool)
        self.issued += 1
        copy = Copy(at, source, size, count, lanes, group, landed, line, self.issued)
        if self.checker is not None:
            self.checker.copy_issued(self, copy, inst)
        if self.meter is not None and inst is not None:
            for where, width, who in copy.reads():
                self.meter.far(self, inst, where, width, who)
            self.meter.shared(inst, at - self.shared_start, size, lanes)
            self.meter.copy(inst, total * size if count is None else int(count.sum()))
        self.copies.append(copy)
        if self.order is not None and self.order.rng.random() < LAND_AT_ONCE:
            self.land(copy, None)

    def land(self, copy: Copy, which: np.ndarray | None) -> None:
        """Moves the bytes of some lanes' copies (a mask; None: all) that have not landed yet."""
        due = ~copy.landed if which is None else which & ~copy.landed
        if not due.any():
            return
        copy.landed |= due
        self.progress.changed(self.launch.steps)
        to, source = copy.to[due], copy.source[due]
        if copy.count is None:
            scatter(to, copy.size, gather(source, copy.size))
            return
        count = copy.count[due]
        whole = count >= copy.size
        scatter(to[whole], copy.size, gather(source[whole], copy.size))
        t, s, k = to[~whole], source[~whole], count[~whole]
        for i in range(copy.size if t.size else 0):
            take = k > i
            scatter(t[~take] + i, 1, np.zeros(1, np.uint8))
            scatter(t[take] + i, 1, gather(s[take] + i, 1))

    def land_some(self) -> None:
        """With a seed: perhaps some copies of some lanes land between two steps, or an arrival is made."""
        rng = self.order.rng
        if rng.random() > LAND_IN_STEP:
            return
        if self.copies:
            copy = self.copies[int(rng.integers(len(self.copies)))]
            self.land(copy, None if rng.random() < 0.5 else rng.random(copy.lanes.size) < 0.5)
        if self.arrivals:
            self.arrive_some(rng)

    def land_all(self) -> bool:
        """Everything under way comes to its end, as it must some time; whether there was anything."""
        some = bool(self.arrivals or self.transfers or self.tasks) or any(
            not c.landed.all() for c in self.copies
        )
        for copy in self.copies:
            self.land(copy, None)
        while self.arrivals:
            self.arrive_late(self.arrivals.pop(0))
        self.drain()
        return some

    def check_global(self, where, width: int, align: int, idx, n: int, sel) -> None:
        """Bounds of partial copies: any byte count at the alignment of the whole."""
        if np.bitwise_or.reduce(where) & (align - 1):
            bad = int(np.flatnonzero(where & (align - 1))[0])
            self.fault("misaligned", f"{align}-byte copy from {int(where[bad]):#x}", idx, n, sel, where, bad)
        bad = self.memory.outside(where, width)
        if bad is not None:
            at = int(bad[0])
            self.fault(
                "out of bounds",
                f"{width}-byte copy from {int(where[at]):#x}, {self.memory.nearest(int(where[at]))}",
                idx,
                n,
                sel,
                where,
                at,
            )

    def cp_commit(self, idx, n: int, mask) -> None:
        sel = self.select(mask, n)
        if idx is None and sel is None:
            self.committed += 1
        else:
            self.committed[self.lanes(idx, n, sel)] += 1

    def cp_wait(self, idx, n: int, keep: int, mask) -> None:
        """Completes groups older than the `keep` newest of each lane; keep -1: everything, committed or not."""
        if not self.copies:
            return
        lanes = self.lanes(idx, n, self.select(mask, n))
        limit = np.full(self.L, -1, np.int64)
        limit[lanes] = self.committed[lanes] - keep if keep >= 0 else 1 << 60
        left = []
        waited = np.zeros(self.L, np.bool_)
        for c in self.copies:
            due = c.group < limit[c.lanes]
            waited[c.lanes[due]] = True
            if not due.any():
                left.append(c)
                continue
            self.land(c, due)
            if self.checker is not None:
                self.checker.copy_done(self, c if due.all() else c.part(due))
            if not due.all():
                left.append(c.part(~due))
        self.copies = left
        if (
            self.checker is not None
        ):  # an arrival that is still to be made tells of what has landed before it, too
            for a in self.arrivals:
                mine = waited[a.lanes]
                if mine.any():
                    self.checker.release(self, a.at[mine], a.lanes[mine])

    def cp_mbarrier(self, where, space: str, noinc: bool, mask, idx, n: int) -> None:
        """The lane arrives on a barrier when its copies so far have landed; without noinc that adds itself to the count."""
        at, sel = self.barrier_words(where, space, mask, idx, n)
        if at is None:
            return
        lanes = self.lanes(idx, n, sel)
        if self.checker is not None:
            self.checker.copies_handed(self, lanes)
            self.checker.release(self, at, lanes)
        if not noinc:
            for address in at.tolist():
                self.mbar_change(address, -1, 0, False)
        self.issued += 1
        self.arrivals.append(Arrival(at, lanes, self.issued))

    def arrive_some(self, rng) -> None:
        """With a seed: some lanes of one instruction arrive, after what they had still to arrive on before."""
        last = self.arrivals[int(rng.integers(len(self.arrivals)))]
        some = last.lanes if rng.random() < 0.5 else last.lanes[rng.random(last.lanes.size) < 0.5]
        chosen = np.zeros(self.L, np.bool_)
        chosen[some] = True
        ready, left = [], []
        for a in self.arrivals:
            due = chosen[a.lanes] & (a.number <= last.number)
            if due.any():
                ready.append(a.part(due))
            if not due.all():
                left.append(a.part(~due))
        self.arrivals = left
        for a in ready:
            self.arrive_late(a)

    def arrive_late(self, arrival: Arrival) -> None:
        target = np.full(self.L, -1, np.int64)
        target[arrival.lanes] = arrival.at
        left = []
        for c in self.copies:
            barrier = target[c.lanes] if c.number < arrival.number else np.full(c.lanes.size, -1)
            mine = barrier >= 0
            if not mine.any():
                left.append(c)
                continue
            self.land(c, mine)
            if self.checker is not None:
                for address in np.unique(barrier[mine]).tolist():
                    self.checker.copy_signals(self, c.part(barrier == address), address)
            if not mine.all():
                left.append(c.part(~mine))
        self.copies = left
        for address in arrival.at.tolist():
            self.mbar_change(address, 1, 0, False)

    # mbarriers
    def barrier_words(self, where, space: str, mask, idx, n: int, write: bool = True, fresh: bool = False):
        """(real addresses, which lanes) of mbarriers, which must be initialised unless fresh."""
        sel = self.select(mask, n)
        if sel is not None and sel.size == 0:
            return None, None
        if sel is not None and where.size > 1:
            where = where[sel]
        total = n if sel is None else sel.size
        at = self.host(np.broadcast_to(where, (total,)), space, 8, idx, n, sel, write)
        lanes = self.lanes(idx, n, sel)
        inside = (at >= self.shared_start) & (at < self.shared_start + self.shared_stride * self.cta_count)
        if not inside.all():
            bad = int(np.flatnonzero(~inside)[0])
            raise Fault("mbarrier", f"mbarrier at {int(at[bad]):#x} is not in shared memory", int(lanes[bad]))
        if self.barrier_states is None:
            self.barrier_states = np.zeros(self.shared_stride * self.cta_count // 8, np.uint8)
        if not fresh:
            self.check_ready(at, lanes)
            if self.checker is not None:
                self.checker.barrier_used(self, at, lanes)
        return at, sel

    def check_ready(self, at: np.ndarray, lanes: np.ndarray | None) -> None:
        """Errors: Fault for an mbarrier that was not initialised."""
        states = None if self.barrier_states is None else self.barrier_states[at - self.shared_start >> 3]
        if states is not None and (states == READY).all():
            return
        bad = 0 if states is None else int(np.flatnonzero(states != READY)[0])
        why = "was invalidated" if states is not None and states[bad] == GONE else "was never initialised"
        lane = None if lanes is None else int(lanes[bad])
        raise Fault("mbarrier", f"the mbarrier at {self.spell_place(int(at[bad]))} {why}", lane)

    def owed(self, address: int) -> tuple[str, int]:
        """What an mbarrier's phase still waits for, as a deadlock tells it, and its count of bytes; ("", 0) elsewhere."""
        inside = self.shared_start <= address < self.shared_start + self.shared_stride * self.cta_count
        if not inside or self.barrier_states is None or address % 8 or address not in self.phases:
            return "", 0
        if self.barrier_states[(address - self.shared_start) >> 3] != READY:
            return "", 0
        word = int(gather(np.array([address]), 8)[0])
        arrivals, count = word >> 1 & 0xFFFFF, word >> 41
        count = count - (1 << 23) if count >> 22 else count
        text = f", whose phase {self.phases[address]} lacks {arrivals} arrivals"
        if count > 0:
            text += f" and {count} bytes that no copy brings"
        elif count < 0:
            text += f" and has {-count} bytes more than were expected"
        return text, count

    def bytes_kept(self) -> None:
        """At the end: mbarriers have got the bytes that they expected, and no others."""
        if self.checker is None or self.barrier_states is None:
            return
        for address in (np.flatnonzero(self.barrier_states == READY) * 8 + self.shared_start).tolist():
            count = self.owed(address)[1]
            if not count:
                continue
            inst = self.checker.state(self).inits[address][2]
            cta = tuple(self.ctas[(address - self.shared_start) // self.shared_stride].tolist())
            what = (
                f"expects {count} bytes that no copy brings"
                if count > 0
                else f"got {-count} bytes that nobody expected"
            )
            where = f"phase {self.phases[address]} of the mbarrier at {self.spell_place(address)}"
            self.checker.report("mbarrier", f"CTA {cta} ended while {where} {what}", inst)

    def mbar_init(self, where, space: str, count, mask, idx, n: int) -> None:
        at, sel = self.barrier_words(where, space, mask, idx, n, fresh=True)
        if at is None:
            return
        c = np.broadcast_to(count if sel is None or count.size == 1 else count[sel], at.shape).astype(
            np.uint64
        )
        scatter(at, 8, (c << np.uint64(1)) | (c << np.uint64(21)) | (np.uint64(0) << np.uint64(41)))
        self.barrier_states[at - self.shared_start >> 3] = READY
        for address in at.tolist():
            self.phases[address] = 0
        if self.checker is not None:
            self.checker.barrier_init(self, at, self.lanes(idx, n, sel))

    def mbar_inval(self, where, space: str, mask, idx, n: int) -> None:
        at, sel = self.barrier_words(where, space, mask, idx, n)
        if at is None:
            return
        scatter(at, 8, np.zeros(1, np.uint64))
        self.barrier_states[at - self.shared_start >> 3] = GONE
        if self.checker is not None:
            self.checker.barrier_init(self, at, self.lanes(idx, n, sel))

    def mbar_change(self, address: int, arrivals: int, tx: int, drop: bool) -> int:
        """Applies pending-count and tx-count changes to one barrier; returns the state before."""
        self.check_ready(np.array([address]), None)
        word = int(gather(np.array([address]), 8)[0])
        phase, pending, expected, count = word & 1, word >> 1 & 0xFFFFF, word >> 21 & 0xFFFFF, word >> 41
        count = count - (1 << 23) if count >> 22 else count
        state = word
        if drop:
            expected -= arrivals
        pending -= arrivals
        count += tx
        if pending < 0:
            raise Fault(
                "mbarrier",
                f"more arrivals than the {expected} expected at the mbarrier at {self.spell_place(address)}, "
                f"phase {self.phases[address]}",
                None,
            )
        if pending == 0 and count == 0:
            phase, pending = phase ^ 1, expected
            self.phases[address] += 1
            if self.checker is not None:
                self.checker.phase_flip(self, address)
        self.write(
            np.array([address]),
            8,
            np.array([phase | pending << 1 | expected << 21 | (count & (1 << 23) - 1) << 41], np.uint64),
        )
        return state

    def mbar_arrive(
        self, where, space: str, count, tx, drop: bool, relaxed: bool, mask, idx, n: int
    ) -> np.ndarray:
        at, sel = self.barrier_words(where, space, mask, idx, n)
        out = np.zeros(n, np.uint64)
        if at is None:
            return out
        lanes = self.lanes(idx, n, sel)
        if self.checker is not None:
            self.checker.release(self, at, lanes, relaxed)
        place = np.arange(n) if sel is None else sel

        def of(v, i: int, default: int) -> int:
            return default if v is None else int(v[0] if v.size == 1 else v[i])

        left: np.ndarray | range = range(at.size)
        if tx is None and not drop and at.size > 1 and (count is None or count.size == 1):
            left = self.arrive_together(at, place, of(count, 0, 1), out)
        for k in left:
            address, i = int(at[k]), int(place[k])
            bytes_ = of(tx, i, 0)
            if bytes_:
                self.mbar_change(address, 0, bytes_, False)
            out[i] = self.mbar_change(address, of(count, i, 1), 0, drop)
        return out

    def arrive_together(self, at: np.ndarray, place: np.ndarray, count: int, out: np.ndarray) -> np.ndarray:
        """Arrivals of several lanes that end no more than one phase, in one step; returns the lanes of the others."""
        order = np.argsort(at, kind="stable")
        ranked = at[order]
        starts = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1]))
        ends = np.append(starts[1:], at.size)
        left = []
        for start, end in zip(starts.tolist(), ends.tolist()):
            lanes = order[start:end]
            address, total = int(ranked[start]), count * (end - start)
            if int(gather(ranked[start : start + 1], 8)[0]) >> 1 & 0xFFFFF < total:
                left.append(lanes)
                continue
            before = self.mbar_change(address, total, 0, False)
            out[place[lanes]] = np.uint64(before) - (
                np.arange(end - start, dtype=np.uint64) * np.uint64(2 * count)
            )
        return np.sort(np.concatenate(left)) if left else np.zeros(0, np.int64)

    def mbar_tx(self, where, space: str, tx, complete: bool, mask, idx, n: int) -> None:
        at, sel = self.barrier_words(where, space, mask, idx, n)
        if at is None:
            return
        place = np.arange(n) if sel is None else sel
        for k, address in enumerate(at.tolist()):
            value = int(tx[0] if tx.size == 1 else tx[int(place[k])])
            self.mbar_change(address, 0, -value if complete else value, False)

    def mbar_test(self, where, space: str, what, relaxed: bool, mask, idx, n: int) -> np.ndarray:
        """Whether the phase named by a state or a parity has completed."""
        if self.transfers or self.tasks:
            self.engine_step()
        if self.arrivals and self.order is not None:
            self.arrive_some(self.order.rng)
        while self.arrivals and self.order is None:
            self.arrive_late(self.arrivals.pop(0))
        at, sel = self.barrier_words(where, space, mask, idx, n, write=False)
        out = np.zeros(n, bool)
        if at is None:
            return out
        now = gather(at, 8) & np.uint64(1)
        want = what if sel is None or what.size == 1 else what[sel]
        done = now != (want & want.dtype.type(1)).astype(np.uint64)
        if not done.all():
            self.spins += 1
            if self.progress.looking:
                lanes = self.lanes(idx, n, sel)[~done]
                self.progress.polled(self, self.current_inst(), int(at[~done][0]), lanes, True)
                self.progress.read(self, at, [now], "shared", lanes, True)
        if self.flights and done.any():
            seen = {a: self.phases.get(a, 0) for a in np.unique(at[done]).tolist()}
            self.flights = [f for f in self.flights if f.phase < 0 or f.phase >= seen.get(f.barrier, 0)]
        if self.checker is not None and done.any():
            self.checker.acquire(self, at[done], self.lanes(idx, n, sel)[done], relaxed)
        if sel is None:
            return done
        out[sel] = done
        return out
