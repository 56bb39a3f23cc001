"""Checks of a launch: data races, uninitialised shared memory, barrier divergence.

Happens-before is kept with vector clocks: within a CTA one clock per warp (barriers, mbarriers, releases and acquires
join them), between CTAs by counting releases (an acquire that reads a release is ordered after everything its CTA had
done by then). Every granule of memory remembers its last write and its last two readers from different warps; a record
is one integer: strong flag, warp, lane (32: several), warp clock, release count of the CTA.

Strong accesses (atomics, volatile, relaxed and stronger) do not race with each other. Lanes of one instruction that
store to one address do not race: the ISA lets one of them win. Lanes of one warp need `bar.warp.sync` between
conflicting accesses: lockstep is not promised.
"""

from __future__ import annotations

import numpy as np

from .race_async import AsyncChecks

_SEQ, _CLOCK, _LANE, _WARP = 18, 20, 6, 18
_CLOCK_AT, _LANE_AT, _WARP_AT, _STRONG_AT = (
    _SEQ,
    _SEQ + _CLOCK,
    _SEQ + _CLOCK + _LANE,
    _SEQ + _CLOCK + _LANE + _WARP,
)
_PENDING = (1 << _CLOCK) - 1  # clock of a copy that is still under way: ordered before nothing
_MANY = 32


class Shadow:
    """Access records of one range of memory, at a granularity that shrinks to the narrowest access seen."""

    def __init__(self, start: int, size: int, granule: int) -> None:
        self.start, self.granule = start & ~15, granule
        count = (size + 31) // granule
        self.write = np.full(count, -1, np.int64)
        self.read = np.full(count, -1, np.int64)
        self.read2 = np.full(count, -1, np.int64)
        self.write_line = np.zeros(count, np.int32)
        self.read_line = np.zeros(count, np.int32)

    def refine(self, granule: int) -> None:
        k = self.granule // granule
        for name in ("write", "read", "read2", "write_line", "read_line"):
            setattr(self, name, np.repeat(getattr(self, name), k))
        self.granule = granule


class Checker(AsyncChecks):
    """One per launch with check=True."""

    PENDING = _PENDING

    def __init__(self, launch) -> None:
        self.launch = launch
        self.shadows: dict[int, Shadow] = {}
        self.seen: set = set()
        self.opcodes: dict[int, str] = {}
        self.batches: dict = {}
        self.objects: dict = {}  # sync address -> (CTA knowledge, {cta: warp clocks})
        self.cta_total = int(np.prod(launch.grid))
        self.released = np.zeros(self.cta_total, np.int64)
        self.knows: np.ndarray | None = None  # [warps, CTAs] releases known, made on first use

    # clocks
    def state(self, batch) -> BatchState:
        got = self.batches.get(id(batch))
        if got is None:
            got = self.batches[id(batch)] = BatchState(batch)
        return got

    def know(self) -> np.ndarray:
        if self.knows is None:
            self.knows = np.zeros((self.cta_total * self.launch_warps(), self.cta_total), np.int32)
        return self.knows

    def launch_warps(self) -> int:
        return -(-int(np.prod(self.launch.unit.block)) // 32)

    def warp_sync(self, batch, idx, n: int) -> None:
        s = self.state(batch)
        warps = np.unique(batch.lanes(idx, n, None) >> 5)
        s.tick(warps)

    def cta_sync(self, batch, lanes: np.ndarray) -> None:
        """A barrier that whole CTAs pass."""
        s = self.state(batch)
        ctas = np.unique(batch.cta_of[lanes])
        for cta in ctas.tolist():
            if batch.cta_live[cta] != batch.threads:
                self.divergence(
                    batch,
                    cta,
                    f"{batch.threads - int(batch.cta_live[cta])} of {batch.threads} threads exited before it",
                )
        s.vc[ctas] = s.vc[ctas].max(1, keepdims=True)
        if self.knows is not None:
            w = batch.warps_per_cta
            for cta in ctas.tolist():
                rows = self.knows[(s.base + cta) * w : (s.base + cta + 1) * w]
                rows[:] = rows.max(0)
        warps = (ctas[:, None] * batch.warps_per_cta + np.arange(batch.warps_per_cta)).reshape(-1)
        s.absorb(warps)
        s.tick(warps)

    def barrier_arrive(self, batch, lanes: np.ndarray, ids: np.ndarray) -> None:
        s = self.state(batch)
        warps, first = np.unique(lanes >> 5, return_index=True)
        cta, ident, w = warps // batch.warps_per_cta, ids[first], warps % batch.warps_per_cta
        for c, i, k, warp in zip(cta.tolist(), ident.tolist(), w.tolist(), warps.tolist()):
            key = (c, i)
            row, known = (
                s.vc[c, k],
                None if self.knows is None else self.knows[s.base * batch.warps_per_cta + warp],
            )
            old = s.barriers.get(key)
            if old is not None:
                row = np.maximum(old[0], row)
                known = old[1] if known is None else known if old[1] is None else np.maximum(old[1], known)
            s.barriers[key] = row.copy(), None if known is None else known.copy()
        s.tick(warps)

    def barrier_release(self, batch, lanes: np.ndarray, ids: np.ndarray) -> None:
        s = self.state(batch)
        warps, first, count = np.unique(lanes >> 5, return_index=True, return_counts=True)
        for w, i, size in zip(warps.tolist(), ids[first].tolist(), count.tolist()):
            c, k = divmod(w, batch.warps_per_cta)
            joined = s.barriers.get((c, i))
            if joined is not None:
                s.vc[c, k] = np.maximum(s.vc[c, k], joined[0])
                if joined[1] is not None:
                    known = self.know()[s.base * batch.warps_per_cta + w]
                    np.maximum(known, joined[1], out=known)
            part = lanes[lanes >> 5 == w]
            pcs = np.unique(batch.bar_pc[part])
            inst = batch.unit.pieces[int(pcs[0])].insts[0]
            aligned = inst.op == "bar" or "aligned" in inst.mods
            if aligned and (pcs.size > 1 or size != int(batch.warp_live[w])):
                self.divergence(
                    batch,
                    c,
                    f"only {size if pcs.size == 1 else 'some'} of the {int(batch.warp_live[w])} "
                    f"threads of warp {k} arrived at it together",
                    inst,
                )
        s.absorb(warps)
        s.tick(warps)
        for c in np.unique(batch.cta_of[lanes]).tolist():
            part = lanes[batch.cta_of[lanes] == c]
            for i in np.unique(ids[batch.cta_of[lanes] == c]).tolist():
                s.barriers.pop((c, i), None)
                if batch.bar_want[c, i] < 0 and batch.cta_live[c] != batch.threads:
                    inst = batch.unit.pieces[int(batch.bar_pc[part[0]])].insts[0]
                    self.divergence(
                        batch,
                        c,
                        f"{batch.threads - int(batch.cta_live[c])} of {batch.threads} threads "
                        "exited before it",
                        inst,
                    )

    def divergence(self, batch, cta: int, why: str, inst=None) -> None:
        inst = inst or batch.current_inst()
        where = tuple(int(v) for v in batch.ctas[cta])
        self.report("barrier divergence", f"CTA {where}: {why}", inst)

    def cluster_arrive(self, batch, lanes: np.ndarray) -> None:
        self.publish_cluster(batch, lanes)

    def publish_cluster(self, batch, lanes: np.ndarray) -> None:
        s = self.state(batch)
        for cta in np.unique(batch.cta_of[lanes]).tolist():
            self.released[s.base + cta] += 1
        s.tick(np.unique(lanes >> 5))

    def cluster_wait(self, batch, lanes: np.ndarray) -> None:
        s, know, size = self.state(batch), self.know(), batch.cluster_size
        for w in np.unique(lanes >> 5).tolist():
            c = w // batch.warps_per_cta
            first = s.base + c // size * size
            row = know[s.base * batch.warps_per_cta + w]
            row[first : first + size] = np.maximum(
                row[first : first + size], self.released[first : first + size]
            )
            s.vc[c, w % batch.warps_per_cta] = np.maximum(s.vc[c, w % batch.warps_per_cta], s.vc[c].max(0))
        s.tick(np.unique(lanes >> 5))

    # release and acquire
    def fence(self, batch, idx, n: int) -> None:
        s = self.state(batch)
        warps = np.unique(batch.lanes(idx, n, None) >> 5)
        s.absorb(warps)
        for w in warps.tolist():
            c, k = divmod(w, batch.warps_per_cta)
            self.released[s.base + c] += 1
            s.fenced[w] = self.snapshot(batch, s, w, c, k)
        s.tick(warps)

    def snapshot(self, batch, s, w: int, c: int, k: int) -> tuple:
        seq = int(self.released[s.base + c])
        known = None if self.knows is None else self.knows[s.base * batch.warps_per_cta + w].copy()
        return s.base + c, seq, s.vc[c, k].copy(), known

    def release(self, batch, at: np.ndarray, lanes: np.ndarray) -> None:
        """mbarrier arrivals."""
        s = self.state(batch)
        pairs = np.unique(np.stack([at, lanes >> 5], 1), axis=0)
        for address, w in pairs.tolist():
            c, k = divmod(w, batch.warps_per_cta)
            self.released[s.base + c] += 1
            self.publish((address, "pending"), self.snapshot(batch, s, w, c, k))
        s.tick(np.unique(lanes >> 5))

    def phase_flip(self, address: int) -> None:
        self.objects[address, "done"] = self.objects.pop((address, "pending"), None)

    def acquire(self, batch, at: np.ndarray, lanes: np.ndarray) -> None:
        s = self.state(batch)
        pairs = np.unique(np.stack([at, lanes >> 5], 1), axis=0)
        for address, w in pairs.tolist():
            self.join(batch, s, w, self.objects.get((address, "done")))

    def publish(self, key, snap: tuple) -> None:
        cta, seq, vc, known = snap
        obj = self.objects.get(key)
        if obj is None:
            seqs: dict[int, int] = {}
            clocks: dict[int, np.ndarray] = {}
            obj = self.objects[key] = (seqs, clocks)
        seqs, clocks = obj
        seqs[cta] = max(seqs.get(cta, 0), seq)
        clocks[cta] = vc.copy() if cta not in clocks else np.maximum(clocks[cta], vc)
        if known is not None:
            for other in np.flatnonzero(known).tolist():
                seqs[other] = max(seqs.get(other, 0), int(known[other]))

    def join(self, batch, s, w: int, obj) -> None:
        if not obj:
            return
        seqs, clocks = obj
        c, k = divmod(w, batch.warps_per_cta)
        own = s.base + c
        if own in clocks:
            s.vc[c, k] = np.maximum(s.vc[c, k], clocks[own])
        others = [o for o in seqs if o != own]
        if others:
            row = self.know()[s.base * batch.warps_per_cta + w]
            for other in others:
                row[other] = max(row[other], seqs[other])

    def synchronise(self, batch, s, kind: str, at: np.ndarray, lanes: np.ndarray, order: str) -> None:
        """What strong accesses order: acquire joins, release publishes, relaxed ones together with fences."""
        warps = lanes >> 5
        reads, writes = kind in ("r", "a"), kind in ("w", "a")
        acquires, releases = order in ("acquire", "acq_rel"), order in ("release", "acq_rel")
        publishes = writes and (releases or bool(s.fenced))
        if not publishes and not (reads and self.objects):
            return
        # in the order of lanes, which is the order in which atomics of one instruction happen
        for address, w in dict.fromkeys(zip(at.tolist(), warps.tolist())):
            obj = self.objects.get(address) if reads else None
            if obj is not None:
                if acquires:
                    self.join(batch, s, w, obj)
                else:
                    s.pending.setdefault(w, []).append(obj)
            if publishes:
                c, k = divmod(w, batch.warps_per_cta)
                if releases:
                    self.released[s.base + c] += 1
                    self.publish(address, self.snapshot(batch, s, w, c, k))
                elif w in s.fenced:
                    self.publish(address, s.fenced[w])
        if writes and releases:
            s.tick(np.unique(warps))

    # accesses
    def access(
        self, batch, kind: str, space: str, where, at, width: int, idx, n: int, sel, strong: str
    ) -> None:
        lanes = batch.lanes(idx, n, sel)
        if not lanes.size:
            return
        at = np.broadcast_to(at, (lanes.size,))
        self.record(batch, kind, at, width, lanes, strong or ("relaxed" if kind == "a" else ""), None)

    def record(self, batch, kind: str, at, width: int, lanes, strong: str, clock, inst=None) -> None:
        s = self.state(batch)
        low, high = s.shared
        inside = (at >= low) & (at < high)
        if strong:
            self.synchronise(batch, s, kind, at, lanes, strong)
        for shared in (True, False):
            part = inside if shared else ~inside
            if not part.any():
                continue
            a, ln = (at, lanes) if part.all() else (at[part], lanes[part])
            if not shared:
                start, end = batch._local_range() if batch._local is not None else (0, 0)
                own = (a >= start) & (a < end)
                if own.all():
                    continue
                a, ln = a[~own], ln[~own]
            inst = inst or batch.current_inst()
            if shared:
                if kind != "w":
                    self.uninitialised(batch, s, a, width, ln, inst)
                if kind != "r":
                    if clock is None:
                        s.mark(a, width)
                    self.generic_write(batch, s, a, width, ln, clock is None)
            self.examine(batch, s, kind, a, width, ln, bool(strong), inst, shared, clock)

    def uninitialised(self, batch, s, at, width: int, lanes, inst) -> None:
        base = at - s.shared[0]
        for b in range(width):
            bad = ~s.initialised[base + b]
            if bad.any():
                i = int(np.flatnonzero(bad)[0])
                offset = int(base[i] + b) % batch.shared_stride
                self.report(
                    "uninitialised shared memory",
                    f"byte {offset} of shared memory is read by {batch.thread_name(int(lanes[i]))} "
                    "before anything wrote it",
                    inst,
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

    def examine(
        self, batch, s, kind: str, at, width: int, lanes, strong: bool, inst, shared: bool, clock
    ) -> None:
        granule = min(4, width)
        if shared:
            self.examine_range(
                batch,
                s,
                kind,
                at,
                width,
                lanes,
                strong,
                inst,
                self.shadow(batch, s, 0, True, granule),
                shared,
                clock,
            )
            return
        while at.size:
            region = batch.memory.region_of(int(at[0]))
            part = (at >= region.start) & (at < region.end)
            self.examine_range(
                batch,
                s,
                kind,
                at[part],
                width,
                lanes[part],
                strong,
                inst,
                self.shadow(batch, s, int(at[0]), False, granule),
                shared,
                clock,
            )
            at, lanes = at[~part], lanes[~part]

    def examine_range(
        self, batch, s, kind: str, at, width: int, lanes, strong: bool, inst, sh: Shadow, shared: bool, clock
    ) -> None:
        slot = (at - sh.start) // sh.granule
        wpc = batch.warps_per_cta
        warp = lanes >> 5
        cta = warp // wpc
        own = s.vc[cta, warp % wpc, warp % wpc]
        seq = self.released[s.base + cta]
        stamp = own if clock is None else np.full(own.shape, clock, np.int64)
        gwarp = warp + s.base * wpc
        rec = (
            (np.int64(strong) << _STRONG_AT)
            | (gwarp << _WARP_AT)
            | ((lanes & 31) << _LANE_AT)
            | (stamp << _CLOCK_AT)
            | (seq & ((1 << _SEQ) - 1))
        )
        line = inst.line if inst is not None else 0
        for k in range(max(1, width // sh.granule)):
            i = slot + k
            self.conflict(
                batch,
                s,
                sh.write[i],
                sh.write_line[i],
                "write",
                kind,
                lanes,
                warp,
                own,
                strong,
                inst,
                at,
                shared,
                sh,
                i,
            )
            if kind == "r":
                old = sh.read[i]
                other = (old >= 0) & ((old >> _WARP_AT & (1 << _WARP) - 1) != gwarp)
                sh.read2[i[other]] = old[other]
                same = (
                    (old >= 0)
                    & ~other
                    & ((old >> _LANE_AT & 63) != (lanes & 31))
                    & ((old >> _CLOCK_AT & (1 << _CLOCK) - 1) == stamp)
                )
                new = np.where(same, (rec & ~(np.int64(63) << _LANE_AT)) | (np.int64(_MANY) << _LANE_AT), rec)
                sh.read[i] = new
                if (
                    i.size > 1 and not (i[1:] > i[:-1]).all()
                ):  # several lanes of this instruction at one place
                    order = np.argsort(i, kind="stable")
                    dup = i[order][1:] == i[order][:-1]
                    if dup.any():
                        again = i[order][1:][dup]
                        sh.read[again] = (sh.read[again] & ~(np.int64(63) << _LANE_AT)) | (
                            np.int64(_MANY) << _LANE_AT
                        )
                        self.spread_readers(sh, i[order], rec[order], gwarp[order])
                sh.read_line[i] = line
            else:
                for reads in (sh.read, sh.read2):
                    self.conflict(
                        batch,
                        s,
                        reads[i],
                        sh.read_line[i],
                        "read",
                        kind,
                        lanes,
                        warp,
                        own,
                        strong,
                        inst,
                        at,
                        shared,
                        sh,
                        i,
                    )
                if not strong and kind == "w":
                    self.collide(batch, s, i, gwarp, lanes, inst, at, shared)
                sh.write[i] = rec
                sh.write_line[i] = line
                sh.read[i] = -1
                sh.read2[i] = -1

    def collide(self, batch, s, slots, gwarp, lanes, inst, at, shared: bool) -> None:
        """Lanes of different warps that store to one place in the same step."""
        if slots.size < 2 or gwarp[0] == gwarp[-1] and (gwarp == gwarp[0]).all():
            return
        order = np.argsort(slots, kind="stable")
        warps = gwarp[order]
        bad = (slots[order][1:] == slots[order][:-1]) & (warps[1:] != warps[:-1])
        if not bad.any():
            return
        j = int(np.flatnonzero(bad)[0])
        one, two = int(order[j]), int(order[j + 1])
        line = inst.line if inst is not None else 0
        text = (
            f"write of {self.place(batch, s, int(at[two]), shared)} by {batch.thread_name(int(lanes[two]))} is not "
            f"ordered after the write at PTX line {line} by {batch.thread_name(int(lanes[one]))}"
        )
        self.report("shared-memory race" if shared else "global-memory race", text, inst, line)

    @staticmethod
    def place(batch, s, address: int, shared: bool) -> str:
        if shared:
            return f"shared offset {(address - s.shared[0]) % batch.shared_stride}"
        return f"{address:#x} in '{batch.memory.region_of(address).name}'"

    @staticmethod
    def spread_readers(sh: Shadow, slots, recs, warps) -> None:
        """Two warps that read one place in the same step: keep one record of each."""
        first = np.flatnonzero(np.append(True, slots[1:] != slots[:-1]))
        last = np.append(first[1:], slots.size) - 1
        two = warps[first] != warps[last]
        sh.read2[slots[first[two]]] = recs[first[two]]

    def conflict(
        self,
        batch,
        s,
        rec,
        lines,
        what: str,
        kind: str,
        lanes,
        warp,
        own,
        strong: bool,
        inst,
        at,
        shared: bool,
        sh,
        slots,
    ) -> None:
        there = rec >= 0
        if not there.any():
            return
        wpc = batch.warps_per_cta
        r_strong = rec >> _STRONG_AT & 1
        r_warp = rec >> _WARP_AT & (1 << _WARP) - 1
        r_lane = rec >> _LANE_AT & 63
        r_clock = rec >> _CLOCK_AT & (1 << _CLOCK) - 1
        r_seq = rec & (1 << _SEQ) - 1
        me = warp + s.base * wpc
        r_cta, cta = r_warp // wpc, warp // wpc + s.base
        same_warp = r_warp == me
        same_cta = (r_cta == cta) & ~same_warp
        ordered = same_warp & (((r_lane == (lanes & 31)) & (r_clock != _PENDING)) | (r_clock < own))
        local = np.where(same_cta, r_warp % wpc, 0)
        ordered |= same_cta & (r_clock <= s.vc[warp // wpc, warp % wpc, local])
        if self.knows is not None:
            far = ~same_warp & ~same_cta
            ordered |= far & (r_seq < self.knows[me, np.where(far & there, r_cta, 0)])
        bad = there & ~ordered
        if strong:
            bad &= r_strong == 0
        if not bad.any():
            return
        j = int(np.flatnonzero(bad)[0])
        place = self.place(batch, s, int(at[j]), shared)
        verb = {"r": "read", "w": "write", "a": "atomic"}[kind]
        who = batch.thread_name(int(lanes[j]))
        if int(r_clock[j]) == _PENDING:
            op = self.opcode(batch, int(lines[j]))
            doing = "writing" if what == "write" else "reading"
            text = f"{verb} of {place} by {who} while the {op} of PTX line {int(lines[j])} may still be {doing} it"
        else:
            rw, rl = int(r_warp[j]), int(r_lane[j])
            lane_text = "several lanes" if rl == _MANY else f"lane {rl}"
            cta_text = "the same CTA" if r_cta[j] == cta[j] else "another CTA"
            text = (
                f"{verb} of {place} by {who} is not ordered after the {what} at PTX line {int(lines[j])} by "
                f"warp {rw % wpc}, {lane_text}, of {cta_text}"
            )
        self.report("shared-memory race" if shared else "global-memory race", text, inst, int(lines[j]))

    # asynchronous copies
    def copy_issued(self, batch, at, size: int, lanes) -> None:
        self.record(batch, "w", at, size, lanes, "", _PENDING)

    def copy_done(self, batch, at, size: int, lanes) -> None:
        s = self.state(batch)
        s.mark(at, size)
        self.settle(batch, s, ("write",), at, size, lanes)

    def settle(self, batch, s, fields: tuple[str, ...], at, size: int, lanes) -> None:
        """Records that these lanes have pending get their warps' present clocks."""
        sh = self.shadow(batch, s, 0, True, 4)
        warp = lanes >> 5
        wpc = batch.warps_per_cta
        own = s.vc[warp // wpc, warp % wpc, warp % wpc]
        gwarp = warp + s.base * wpc
        for k in range(max(1, size // sh.granule)):
            i = (at - sh.start) // sh.granule + k
            for field in fields:
                records = getattr(sh, field)
                old = records[i]
                mine = ((old >> _CLOCK_AT & (1 << _CLOCK) - 1) == _PENDING) & (
                    old >> _WARP_AT & (1 << _WARP) - 1 == gwarp
                )
                new = (old & ~(np.int64((1 << _CLOCK) - 1) << _CLOCK_AT)) | (own << _CLOCK_AT)
                records[i[mine]] = new[mine]

    def opcode(self, batch, line: int) -> str:
        """The asynchronous instruction at a PTX line, without its modifiers."""
        if not self.opcodes:
            for piece in batch.unit.pieces:
                for inst in piece.insts:
                    if inst.op in ("cp", "wgmma", "tcgen05"):
                        short = "cp.async.bulk" if "bulk" in inst.mods else "cp.async"
                        self.opcodes[inst.line] = short if inst.op == "cp" else inst.op
        return self.opcodes.get(line, "asynchronous instruction")

    def barrier_init(self, batch, at, lanes) -> None:
        self.state(batch).mark(at, 8)

    def report(self, kind: str, text: str, inst, other: int = 0) -> None:
        """One finding per kind and pair of instructions."""
        from . import Finding

        key = (kind, inst.line if inst is not None else 0, other)
        if key in self.seen:
            return
        self.seen.add(key)
        tail = f"; PTX line {inst.line}, `{inst.text}`" if inst is not None else ""
        self.launch.report.findings.append(Finding(kind, f"{kind}: {text}{tail}", inst))


class BatchState:
    """Clocks and shared-memory state of one batch."""

    def __init__(self, batch) -> None:
        self.batch = batch  # keeps id(batch) unique
        self.base = batch.first_cta
        w = batch.warps_per_cta
        self.vc = np.zeros(
            (batch.cta_count, w, 2 * w), np.int64
        )  # the second half: what was fenced for other proxies
        diagonal = np.arange(w)
        self.vc[:, diagonal, diagonal] = 1
        self.barriers: dict = {}
        self.fenced: dict = {}
        self.pending: dict = {}
        size = batch.shared_stride * batch.cta_count
        self.shared = (batch.shared_start, batch.shared_start + size)
        self.initialised = np.zeros(size, bool)
        self.shadow: Shadow | None = None
        self.generic: np.ndarray | None = None  # last write of each word of shared memory, if generic
        self.generic_line: np.ndarray | None = None
        self.dirty: dict[int, np.ndarray] = {}  # registers of wgmma written since the warp's last fence

    def tick(self, warps: np.ndarray) -> None:
        """Accesses from here on are not covered by what was just published."""
        w = self.batch.warps_per_cta
        self.vc[warps // w, warps % w, warps % w] += 1

    def absorb(self, warps: np.ndarray) -> None:
        """Relaxed reads seen earlier take effect at a fence or barrier."""
        if not self.pending:
            return
        checker = self.batch.checker
        for w in warps.tolist():
            for obj in self.pending.pop(w, ()):
                checker.join(self.batch, self, w, obj)

    def mark(self, at: np.ndarray, width: int) -> None:
        base = at - self.shared[0]
        for b in range(width):
            self.initialised[base + b] = True
