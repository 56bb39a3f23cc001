"""Checks of a launch: data races, uninitialised shared memory, barrier divergence.

Happens-before is kept with vector clocks (`race_clocks.py`). Every granule of memory remembers its last write and its last
two readers from different warps, as packed records (`race_records.py`).

Strong accesses (atomics, volatile, relaxed and stronger) do not race with each other where their scopes contain each other's
threads. Lanes of one instruction that store to one address do not race: the ISA lets one of them win. Lanes of one warp
need `bar.warp.sync` between conflicting accesses: lockstep is not promised.
"""

from __future__ import annotations

import numpy as np

from .race_async import AsyncChecks
from .race_clocks import BatchState, Clocks
from .race_clusters import ClusterChecks
from .race_records import (
    CHANNEL,
    CLUSTER_SCOPE,
    CTA_SCOPE,
    ENGINE,
    GPU_SCOPE,
    MANY,
    MOST_WARPS,
    PENDING,
    SCOPES,
    WEAK,
    Records,
    Shadow,
    channel_of,
    pack,
    signal,
)
from .race_tensor import PLACE, TensorChecks
from .syntax import EmulatorError

TOO_SMALL = ": both are strong, but the scope of one is too small for the other"
UNFENCED = ": threads are ordered, but without a tcgen05.fence on the way"
VERBS = {"r": "read", "w": "write", "a": "atomic", "f": "freeing"}


def granule_of(width: int) -> int:
    """Bytes of the records of an access: a power of two that divides it, as a partial copy of 12 bytes needs."""
    return min(16, width & -width)


class Access:
    """One access of some lanes, in one range of memory: what its checks ask for."""

    __slots__ = (
        "at", "batch", "clocks", "cta", "global_warps", "inst", "kind", "lanes", "mark", "scope", "shadow", "shared",
        "state", "warps", "width",
    )  # fmt: skip

    def __init__(
        self, batch, state: BatchState, kind: str, at, width: int, lanes, scope: int, inst, mark: int = -1
    ) -> None:
        self.batch, self.state, self.kind, self.inst = batch, state, kind, inst
        self.at, self.width, self.lanes, self.scope = at, width, lanes, scope
        self.warps = lanes >> 5
        self.cta = self.warps // batch.warps_per_cta + state.base
        self.global_warps = self.warps + state.base * batch.warps_per_cta
        self.clocks = state.clock(self.warps)
        self.mark = mark  # the record of an access by a channel; -1: one by its warp
        self.shared = False

    def part(self, which: np.ndarray) -> Access:
        """The same access of some of the lanes."""
        if which.all():
            return self
        some = self.at[which]
        return Access(
            self.batch,
            self.state,
            self.kind,
            some,
            self.width,
            self.lanes[which],
            self.scope,
            self.inst,
            self.mark,
        )

    @property
    def line(self) -> int:
        return self.inst.line if self.inst is not None else 0

    def place(self, j: int) -> str:
        return self.batch.spell_place(int(self.at[j]))


class Checker(Clocks, AsyncChecks, TensorChecks, ClusterChecks):
    """One per launch with check=True."""

    PENDING = PENDING

    def __init__(self, launch) -> None:
        self.launch = launch
        self.shadows: dict[int, Shadow] = {}
        self.seen_pairs: set = set()
        self.opcodes: dict[int, str] = {}
        self.batches: dict = {}
        self.sources: list = []  # bulk copies out of global memory whose end nobody has seen
        self.synchronisation(launch)
        if self.total > MOST_WARPS:
            raise EmulatorError(f"check: at most {MOST_WARPS} warps in a launch, got {self.total}")

    def state(self, batch) -> BatchState:
        got = self.batches.get(id(batch))
        if got is None:
            got = self.batches[id(batch)] = BatchState(batch)
        return got

    # accesses
    def access(
        self, batch, kind: str, space: str, where, at, width: int, idx, n: int, sel, strong: str
    ) -> None:
        lanes = batch.lanes(idx, n, sel)
        if not lanes.size:
            return
        at = np.broadcast_to(at, (lanes.size,))
        self.record(batch, kind, at, width, lanes, strong or ("relaxed.gpu" if kind == "a" else ""), None)

    def record(
        self, batch, kind: str, at, width: int, lanes, strong: str, clock, inst=None, mark: int = -1
    ) -> None:
        """Examines an access. strong: "" or order and scope, as in "acquire.gpu"; clock: PENDING, or None for the present;
        mark: the record to leave, where a channel tells of its end."""
        s = self.state(batch)
        order, _, reach = strong.partition(".")
        scope = SCOPES.get(reach, GPU_SCOPE) if strong else WEAK
        if strong:
            self.synchronise(batch, s, kind, at, lanes, order, scope)
        whole = Access(batch, s, kind, at, width, lanes, scope, inst, mark)
        low, high = s.shared
        inside = (at >= low) & (at < high)
        if inside.any():
            a = whole.part(inside)
            a.shared, a.inst = True, inst or batch.current_inst()
            if self.cluster_size > 1 and (clock is None or mark >= 0):
                channel = channel_of(mark) if mark >= 0 else -1
                self.remote_access(batch, s, a.at, a.lanes, a.inst, channel, mark & PENDING)
            if kind != "w":
                self.uninitialised(a)
            if kind != "r":
                if clock is None:
                    s.mark(a.at, width)
                self.generic_write(batch, s, a.at, width, a.lanes, clock is None)
            a.shadow = self.shadow(batch, s, 0, True, granule_of(width))
            self.examine(a, clock)
        if inside.all():
            return
        start, end = batch._local_range() if batch._local is not None else (0, 0)
        outside = ~inside & ~((at >= start) & (at < end))
        if outside.any():
            a = whole.part(outside)
            a.inst = inst or batch.current_inst()
            if kind != "r" and clock is None and batch.copies:
                self.sources_in_flight(a)
            if kind != "r" and self.sources:
                self.bulk_sources(a)
            for some in self.by_region(a):
                self.examine(some, clock)

    def by_region(self, a: Access):
        """An access of global memory, region by region."""
        while a.at.size:
            region = a.batch.memory.region_of(int(a.at[0]))
            here = (a.at >= region.start) & (a.at < region.end)
            some = a.part(here)
            some.shadow = self.shadow(a.batch, a.state, int(a.at[0]), False, granule_of(a.width))
            yield some
            if here.all():
                return
            a = a.part(~here)

    def uninitialised(self, a: Access) -> None:
        s, batch = a.state, a.batch
        base = a.at - s.shared[0]
        for b in range(a.width):
            bad = ~s.initialised[base + b]
            if bad.any():
                i = int(np.flatnonzero(bad)[0])
                offset = int(base[i] + b) % batch.shared_stride
                self.report(
                    "uninitialised shared memory",
                    f"byte {offset} of shared memory is read by {batch.thread_name(int(a.lanes[i]))} "
                    "before anything wrote it",
                    a.inst,
                )
                return

    def shadow(self, batch, s, address: int, shared: bool, granule: int) -> Shadow:
        if shared:
            if s.shadow is None:
                s.shadow = Shadow(s.shared[0], s.shared[1] - s.shared[0], granule)
            sh = s.shadow
        else:
            region = batch.memory.region_of(address)
            sh = self.shadows.get(region.start)
            if sh is None:
                sh = self.shadows[region.start] = Shadow(region.start, region.end - region.start, granule)
        if granule < sh.granule:
            sh.refine(granule)
        return sh

    def examine(self, a: Access, clock) -> None:
        """Compares an access with the records of its places, and leaves its own."""
        sh = a.shadow
        stamp = a.clocks if clock is None else np.full(a.clocks.shape, clock, np.int64)
        records = pack(a.scope, a.global_warps, a.lanes & 31, stamp)
        if a.mark >= 0:
            records = np.full(a.at.size, a.mark)
        for i in sh.slots(a.at, a.width):
            self.conflict(a, sh.write[i], sh.write_line[i], "write")
            if a.kind == "r":
                sh.add_readers(i, records, a.line)
                continue
            self.conflict(a, sh.read[i], sh.read_line[i], "read")
            self.conflict(a, sh.read2[i], sh.read2_line[i], "read")
            if a.scope < GPU_SCOPE:
                self.collide(a, i)
            sh.add_writers(i, records, a.line)

    def collide(self, a: Access, slots: np.ndarray) -> None:
        """Lanes of different warps that write one place in the same step; where strong, of CTAs too far apart."""
        gwarp = a.global_warps
        if slots.size < 2 or gwarp[0] == gwarp[-1] and (gwarp == gwarp[0]).all():
            return
        order = np.argsort(slots, kind="stable")
        warps = gwarp[order]
        bad = (slots[order][1:] == slots[order][:-1]) & (warps[1:] != warps[:-1])
        if a.scope:
            bad &= self.distance(a.cta[order][1:], a.cta[order][:-1]) > a.scope
        if not bad.any():
            return
        j = int(np.flatnonzero(bad)[0])
        one, two = int(order[j]), int(order[j + 1])
        names = a.batch.thread_name(int(a.lanes[one])), a.batch.thread_name(int(a.lanes[two]))
        self.report_race(
            a,
            f"{VERBS[a.kind]} of {a.place(two)} by {names[1]} is not ordered after the {VERBS[a.kind]} at PTX line "
            f"{a.line} by {names[0]}{TOO_SMALL if a.scope else ''}",
            a.line,
        )

    def ordered(self, a: Access, r: Records, fences: bool = True) -> np.ndarray:
        """Which records are of accesses that come before this one (fences: with those of tcgen05 on the way)."""
        wpc = a.batch.warps_per_cta
        r_cta = r.warp // wpc
        engine = r.lane == ENGINE
        same_warp = (r.warp == a.global_warps) & ~engine
        same_cta = (r_cta == a.cta) & ~same_warp & ~engine
        good = same_warp & (((r.lane == (a.lanes & 31)) & (r.clock != PENDING)) | (r.clock < a.clocks))
        local = np.where(same_cta, r.warp % wpc, 0)
        good |= same_cta & (r.clock <= a.state.vc[a.warps // wpc, a.warps % wpc, local])
        if engine.any():
            column = np.where(engine, 2 * wpc + r.warp - CHANNEL, 0)
            good |= engine & (r.clock <= a.state.vc[a.warps // wpc, a.warps % wpc, column])
            if a.mark >= 0:  # one queue: in the order of issue
                good |= engine & (r.warp == CHANNEL + channel_of(a.mark))
        rows = a.state.rows
        if rows:
            far = r.there & (r_cta != a.cta) & ~engine
            for w in np.unique(a.warps[far]).tolist():
                row = rows.get(w)
                if row is not None:
                    mine = far & (a.warps == w)
                    good[mine] = r.clock[mine] <= row[r.warp[mine]]
        if fences and int(a.at[0]) >= PLACE and any(self.tensor_fences(a.batch)):
            good = self.fenced(a, r, good, same_cta, engine)
        return good

    def together(self, a: Access, r: Records) -> np.ndarray:
        """Which records are of strong accesses whose scope and this one's contain each other's thread."""
        return np.minimum(r.scope, a.scope) >= self.distance(r.warp // a.batch.warps_per_cta, a.cta)

    def distance(self, one: np.ndarray, two: np.ndarray) -> np.ndarray:
        """The smallest scope that contains threads of both CTAs."""
        near = one // self.cluster_size == two // self.cluster_size
        return np.where(one == two, CTA_SCOPE, np.where(near, CLUSTER_SCOPE, GPU_SCOPE))

    def conflict(self, a: Access, packed: np.ndarray, lines: np.ndarray, what: str) -> None:
        if not (packed >= 0).any():
            return
        r = Records(packed)
        fences = a.kind != "f"
        bad = r.there & ~self.ordered(a, r, fences)
        if a.scope and bad.any():
            bad &= ~self.together(a, r)
        if not bad.any():
            return
        batch, wpc = a.batch, a.batch.warps_per_cta
        j = int(np.flatnonzero(bad)[0])
        unfenced = fences and int(a.at[0]) >= PLACE and bool(self.ordered(a, r, fences=False)[j])
        verb, line = VERBS[a.kind], int(lines[j])
        who = batch.thread_name(int(a.lanes[j]))
        if int(r.clock[j]) == PENDING or int(r.lane[j]) == ENGINE:
            op = self.opcode(batch, line)
            doing = "writing" if what == "write" else "reading"
            text = (
                f"{verb} of {a.place(j)} by {who} while the {op} of PTX line {line} may still be {doing} it"
            )
            if int(r.lane[j]) == ENGINE:
                text += UNFENCED if unfenced else self.unseen(a, int(r.warp[j]) - CHANNEL, int(r.clock[j]))
            else:
                text += self.flight(a, line, int(r.warp[j]), int(r.lane[j]))
        else:
            warp, lane = int(r.warp[j]), int(r.lane[j])
            near = warp // wpc == int(a.cta[j])
            author = (
                f"warp {warp % wpc}, {'several lanes' if lane == MANY else f'lane {lane}'}, "
                f"of {'the same CTA' if near else 'another CTA'}"
            )
            text = f"{verb} of {a.place(j)} by {who} is not ordered after the {what} at PTX line {line} by {author}"
            if a.scope and r.scope[j]:
                text += TOO_SMALL
            text += UNFENCED if unfenced else a.state.last_wait(int(a.warps[j]))
        self.report_race(a, text, line)

    def report_race(self, a: Access, text: str, line: int) -> None:
        kind = "shared" if a.shared else "tensor" if int(a.at[0]) >= PLACE else "global"
        self.report(f"{kind}-memory race", text, a.inst, line)

    # asynchronous copies
    def copy_issued(self, batch, copy, inst) -> None:
        """A cp.async begins: until it is waited for, it may read its source and write its destination at any moment."""
        for at, width, lanes in copy.reads():
            self.record(batch, "r", at, width, lanes, "", PENDING, inst)
        self.record(batch, "w", copy.to, copy.size, copy.lanes, "", PENDING, inst)

    def copy_done(self, batch, copy) -> None:
        """Its own lanes have waited for it."""
        s = self.state(batch)
        s.mark(copy.to, copy.size)
        self.copies_written(batch, s, copy, copy.number > s.handed[copy.lanes])
        self.settle(batch, s, ("write",), copy.to, copy.size, copy.lanes)
        self.settle_sources(batch, s, copy)

    def copies_handed(self, batch, lanes: np.ndarray) -> None:
        """Lanes let an mbarrier tell of the copies that they have issued."""
        s = self.state(batch)
        mine = np.zeros(batch.L, np.bool_)
        mine[lanes] = True
        for c in batch.copies:
            self.copies_written(batch, s, c, mine[c.lanes] & (c.number > s.handed[c.lanes]))
        s.handed[lanes] = batch.issued

    def copies_written(self, batch, s, copy, which: np.ndarray) -> None:
        """Copies of some lanes count as written, through the generic proxy, at their present clocks."""
        if which.any():
            self.generic_write(batch, s, copy.to[which], copy.size, copy.lanes[which], True, copy.line)

    def copy_signals(self, batch, copy, barrier: int) -> None:
        """It has landed, and an mbarrier has been told: whoever sees that phase complete is ordered after it."""
        ctas = batch.cta_of[copy.lanes]
        for cta in np.unique(ctas).tolist():
            self.async_written(batch, copy.to[ctas == cta], copy.size, barrier)
        self.settle_sources(batch, self.state(batch), copy)

    def settle_sources(self, batch, s, copy) -> None:
        """Its reads of global memory are over."""
        for at, width, lanes in copy.reads():
            self.settle_global(batch, ("read", "read2"), at, width, lanes)

    def settle_global(self, batch, fields: tuple[str, ...], at, width: int, lanes) -> None:
        """What these lanes have pending in global memory gets their warps' present clocks."""
        for a in self.by_region(Access(batch, self.state(batch), "r", at, width, lanes, WEAK, None)):
            for i in a.shadow.slots(a.at, a.width):
                a.shadow.settle(fields, i, a.global_warps, a.clocks)

    def bulk_sources(self, a: Access) -> None:
        """Reports a store to what a bulk copy may still read: one whose end nobody has seen."""
        low, high = int(a.at.min()), int(a.at.max()) + a.width
        for t in self.sources:
            at, width = t.far
            if high <= int(at[0]) or low >= int(at[-1]) + width:
                continue
            first = np.searchsorted(at, a.at + a.width, "left") - 1  # the last that begins before its end
            hit = (first >= 0) & (at[np.maximum(first, 0)] + width > a.at)
            if hit.any():
                j = int(np.flatnonzero(hit)[0])
                self.report_race(
                    a,
                    f"{VERBS[a.kind]} of {a.place(j)} by {a.batch.thread_name(int(a.lanes[j]))} while the cp.async.bulk of "
                    f"PTX line {t.inst.line} may still be reading it (nobody has seen a phase of the mbarrier at "
                    f"{t.batch.spell_place(t.signals[0][0])} complete that tells of it)",
                    t.inst.line,
                )
                return

    def phases_of(self, batch, barrier: int) -> int:
        return self.state(batch).signals.get(("phases", barrier), 0)

    def sources_in_flight(self, a: Access) -> None:
        """Reports a plain store to what a cp.async of the batch may still read: exact where records are forgotten."""
        low, high = int(a.at.min()), int(a.at.max()) + a.width
        for copy in a.batch.copies:
            for at, width, lanes in copy.reads():
                if high <= int(at.min()) or low >= int(at.max()) + width:
                    continue
                order = np.argsort(at)
                last = (
                    np.searchsorted(at[order], a.at + a.width, "left") - 1
                )  # the last that begins before its end
                hit = (last >= 0) & (at[order][np.maximum(last, 0)] + width > a.at)
                if hit.any():
                    j = int(np.flatnonzero(hit)[0])
                    owner = int(lanes[order[last[j]]])
                    self.report_race(
                        a,
                        f"{VERBS[a.kind]} of {a.place(j)} by {a.batch.thread_name(int(a.lanes[j]))} while the cp.async of "
                        f"PTX line {copy.line} may still be reading it{self.group_of(a.batch, copy, owner)}",
                        copy.line,
                    )
                    return

    def unseen(self, a: Access, channel: int, clock: int) -> str:
        """What a warp has not seen that would tell it of the end of asynchronous work."""
        kind, at = next(key for key, number in a.state.channels.items() if number == channel)
        if kind == "inits":
            return " (nothing orders this behind the fence.mbarrier_init that tells of it)"
        if kind == "commits":
            return " (the thread has seen no tcgen05.commit behind it complete)" + a.state.last_wait(
                int(a.warps[0])
            )
        stride = a.batch.shared_stride
        cluster = int(a.cta[0] - a.state.base) // self.cluster_size * self.cluster_size
        place = a.batch.spell_place(a.state.shared[0] + cluster * stride + at)
        text = f" (the copy engine tells of it with phase {clock - 1} of the mbarrier at {place}, not seen complete)"
        return text + a.state.last_wait(int(a.warps[0]))

    def flight(self, a: Access, line: int, warp: int, lane: int) -> str:
        """The group of the cp.async at a PTX line that a record says is under way."""
        owner = (warp - a.state.base * self.warps) * 32 + (lane & 31)
        for copy in a.batch.copies:
            if copy.line == line and (copy.lanes == owner).any():
                return self.group_of(a.batch, copy, owner)
        return ""

    def group_of(self, batch, copy, lane: int) -> str:
        group = int(copy.group[copy.lanes == lane][0])
        state = "not waited for" if batch.committed[lane] > group else "not committed"
        return f" (group {group} of {batch.thread_name(lane)}, {state})"

    def settle(self, batch, s, fields: tuple[str, ...], at, size: int, lanes) -> None:
        """What these lanes have pending in shared memory gets their warps' present clocks."""
        sh = self.shadow(batch, s, 0, True, min(16, size))
        warps = lanes >> 5
        for i in sh.slots(at, size):
            sh.settle(fields, i, warps + s.base * batch.warps_per_cta, s.clock(warps))

    def landed(self, batch, s, at, size: int, channel: int, clock: int) -> None:
        """Pending writes become writes that a phase of an mbarrier tells of."""
        sh = self.shadow(batch, s, 0, True, min(16, size))
        for i in sh.slots(at, size):
            sh.write[i[Records(sh.write[i]).clock == PENDING]] = signal(channel, clock)

    def opcode(self, batch, line: int) -> str:
        """The asynchronous instruction at a PTX line, without its modifiers."""
        if not self.opcodes:
            for piece in batch.unit.pieces:
                for inst in piece.insts:
                    if inst.op in ("cp", "mbarrier", "st", "wgmma", "tcgen05"):
                        short = "cp.async.bulk" if "bulk" in inst.mods else "cp.async"
                        names = {"cp": short, "mbarrier": "mbarrier.init", "st": "st.async"}
                        self.opcodes[inst.line] = names.get(inst.op, inst.op)
        return self.opcodes.get(line, "asynchronous instruction")

    # mbarriers
    def barrier_init(self, batch, at, lanes) -> None:
        """An mbarrier is made or invalidated: a plain write, which all who use it must be ordered with."""
        self.record(batch, "w", at, 8, lanes, "", None)
        s, inst = self.state(batch), batch.current_inst()
        clocks = s.clock(lanes >> 5).tolist()
        for address, lane, clock in zip(at.tolist(), lanes.tolist(), clocks):
            s.inits[address] = clock, lane, inst
            s.inits_told.pop(address, None)
            s.inits_open.setdefault(lane >> 5, []).append(address)
        s.told_inits.clear()

    def initialised_by(self, batch, s, at: np.ndarray, number: int, count: int) -> None:
        """From here on a channel tells of the writes that initialised mbarriers."""
        sh = self.shadow(batch, s, 0, True, 8)
        for i in sh.slots(at, 8):
            sh.write[i] = signal(number, count)

    def behind_init(self, batch, s, at: np.ndarray, lanes: np.ndarray, inst) -> None:
        """Who uses an mbarrier comes behind its initialisation, however many others have used it since."""
        used = {(a, x >> 5): x for a, x in zip(at.tolist(), lanes.tolist())}
        for address, w in used.keys() - s.told_inits:
            s.told_inits.add((address, w))
            if address not in s.inits:
                self.report(
                    "mbarrier",
                    f"the mbarrier at {batch.spell_place(address)} is used by {batch.thread_name(used[address, w])}, which "
                    "nothing orders behind its initialisation: nobody has begun that yet",
                    inst,
                )
                continue
            clock, maker, made = s.inits[address]
            cta, by = w // self.warps, maker >> 5
            if by // self.warps == cta:
                good = by == w or s.vc[cta, w % self.warps, by % self.warps] >= clock
            else:
                row = s.rows.get(w)
                good = row is not None and row[s.base * self.warps + by] >= clock
            if not good and address in s.inits_told:
                number, count = s.inits_told[address]
                good = s.vc[cta, w % self.warps, 2 * self.warps + number] >= count
            if not good:
                line = made.line if made is not None else 0
                self.report(
                    "shared-memory race",
                    f"the mbarrier at {batch.spell_place(address)} is used by {batch.thread_name(used[address, w])}, which "
                    f"nothing orders behind its initialisation at PTX line {line} by {batch.thread_name(maker)}",
                    inst,
                    line,
                )

    def barrier_used(self, batch, at, lanes, by_thread: bool = True) -> None:
        """Threads arrive or wait, or (not by_thread) what they issue will arrive."""
        s = self.state(batch)
        a = Access(batch, s, "a", at, 8, lanes, CLUSTER_SCOPE, batch.current_inst())
        self.behind_init(batch, s, at, lanes, a.inst)
        if by_thread and self.cluster_size > 1:
            self.remote_access(batch, s, at, lanes, a.inst, -1, 0)
        a.shared, a.shadow = True, self.shadow(batch, s, 0, True, 8)
        self.examine(a, None)

    def report(self, kind: str, text: str, inst, other: int = 0) -> None:
        """One finding per kind and pair of instructions."""
        from . import Finding

        key = (kind, inst.line if inst is not None else 0, other)
        if key in self.seen_pairs:
            return
        self.seen_pairs.add(key)
        tail = f"; PTX line {inst.line}, `{inst.text}`" if inst is not None else ""
        self.launch.report.findings.append(Finding(kind, f"{kind}: {text}{tail}", inst))
