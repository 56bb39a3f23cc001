"""Checks of asynchronous readers and writers: wgmma, bulk copies, tensor memory, and the proxies between them.

A place that an instruction in flight may still read or write carries a record with the clock `PENDING`, which orders
before nothing; when its completion has been waited for, the record becomes an ordinary one. What an mbarrier tells of
carries the channel and its count instead (`race_clocks.py`): copies once they have landed, tcgen05 from its issue.

Generic writes become visible to the asynchronous proxy by `fence.proxy.async` somewhere on the way from the writer to
the instruction. Each warp's clock vector has a second half for that: what it knows to have been fenced. A fence copies
the first half to the second, and whatever joins vectors joins both. `cp.async` (not bulk) is a generic write, too, made
when it is waited for or handed to an mbarrier: a fence before that does not see it.
"""

from __future__ import annotations

import numpy as np

from .race_clocks import larger

LATE = 1 << 24  # "writers" from here on are channels that tell of an st.async


class AsyncChecks:
    """Mixed into Checker."""

    # proxies
    def proxy_fence(self, batch, idx, n: int, mask) -> None:
        s = self.state(batch)
        w = batch.warps_per_cta
        warps = np.unique(batch.lanes(idx, n, batch.select(mask, n)) >> 5)
        rows = s.vc[warps // w, warps % w]
        rows[:, w : 2 * w] = np.maximum(rows[:, w : 2 * w], rows[:, :w])
        s.vc[warps // w, warps % w] = rows
        if batch.cluster_size > 1:
            for warp, row in zip(warps.tolist(), rows):
                known = s.fenced_far.setdefault(warp // w, {})
                known["row"] = larger(known.get("row"), s.rows.get(warp))
                known["channels"] = larger(row[2 * w :], known.get("channels"))
        s.tick(warps)

    def generic_write(
        self, batch, s, at: np.ndarray, width: int, lanes: np.ndarray, proxy: bool, line: int = 0
    ) -> None:
        """Remembers who wrote through the generic proxy last (line: of a copy); other writes (proxy False) clear that."""
        if s.generic is None:
            if not proxy:
                return
            s.generic = np.full((s.shared[1] - s.shared[0]) // 4, -1, np.int64)
            s.generic_line = np.zeros(s.generic.size, np.int32)
        slot = (at - s.shared[0]) >> 2
        w = batch.warps_per_cta
        value: np.ndarray | int = -1
        if proxy:
            warp = lanes >> 5
            value = (warp << 32) | s.vc[warp // w, warp % w, warp % w]
            inst = batch.current_inst()
            line = line or (inst.line if inst is not None else 0)
        for k in range(max(1, width // 4)):
            s.generic[slot + k] = value
            if proxy:
                s.generic_line[slot + k] = line

    def unfenced(self, batch, s, inst, at: np.ndarray, width: int, lanes: np.ndarray, verb: str) -> None:
        """Reports places written through the generic proxy and not fenced on the way here."""
        if s.generic is None:
            return
        slot = (at - s.shared[0]) >> 2
        w = batch.warps_per_cta
        reader = lanes >> 5
        for k in range(max(1, width // 4)):
            value = s.generic[slot + k]
            there = value >= 0
            if not there.any():
                continue
            writer, clock = value >> 32, value & 0xFFFFFFFF
            same = there & (writer // w == reader // w)
            known = s.vc[reader // w, reader % w, w + np.where(same, writer % w, 0)]
            bad = same & (clock > known)
            if batch.cluster_size > 1 and not same[there].all():
                bad |= self.unfenced_far(batch, s, there & ~same, writer, clock, reader // w)
            if bad.any():
                j = int(np.flatnonzero(bad)[0])
                offset = (int(at[j]) - s.shared[0]) % batch.shared_stride + 4 * k
                line = int(s.generic_line[int(slot[j]) + k])
                self.report(
                    "missing proxy fence",
                    f"shared offset {offset} was written by PTX line {line} through the generic proxy and is {verb} "
                    f"by an asynchronous instruction of {batch.thread_name(int(lanes[j]))} without fence.proxy.async "
                    "in between",
                    inst,
                    line,
                )
                return

    def unfenced_far(
        self, batch, s, far: np.ndarray, writer: np.ndarray, clock: np.ndarray, reader: np.ndarray
    ) -> np.ndarray:
        """Which places of other CTAs' stores, or of st.async, no thread of the writer's or of the reader's CTA has fenced since.
        Whether that fence lies on the way from one to the other is not followed."""
        bad = np.zeros(far.shape, np.bool_)
        w = batch.warps_per_cta
        for j in np.flatnonzero(far).tolist():
            by, when, here = int(writer[j]), int(clock[j]), int(reader[j])
            near = s.fenced_far.get(here, {})
            if by >= LATE:
                channels = near.get("channels")
                told = by - LATE
                bad[j] = channels is None or told >= channels.size or channels[told] < when
                continue
            row = near.get("row")
            known = row is not None and row[s.base * w + by] >= when
            bad[j] = not known and int(s.vc[by // w, :, w + by % w].max()) < when
        return bad

    def stored_late(self, batch, inst, at: np.ndarray, width: int, barrier: int) -> None:
        """An st.async has landed: a write through the generic proxy that a phase of its mbarrier tells of."""
        s = self.state(batch)
        self.generic_write(batch, s, at, width, np.zeros(at.size, np.int64), True, inst.line)
        clock = s.signals.get(("phases", barrier), 0) + 1
        slot = (at - s.shared[0]) >> 2
        for k in range(max(1, width // 4)):
            s.generic[slot + k] = (LATE + s.channel("phases", barrier)) << 32 | clock

    # places in flight
    def async_read(self, batch, inst, at: np.ndarray, width: int, lanes: np.ndarray, mark: int = -1) -> None:
        """An asynchronous read of shared memory begins: it may happen until it is waited for (mark: as `record` has it)."""
        s = self.state(batch)
        self.unfenced(batch, s, inst, at, width, lanes, "read")
        self.record(batch, "r", at, width, lanes, "", self.PENDING, inst, mark)

    def async_read_done(self, batch, at: np.ndarray, width: int, lanes: np.ndarray) -> None:
        """The reader waited: its reads are over, and ordered like its own."""
        s = self.state(batch)
        self.settle(batch, s, ("read", "read2"), at, width, lanes)

    def async_write(self, batch, inst, at: np.ndarray, width: int, lanes: np.ndarray) -> None:
        """An asynchronous write of shared memory begins."""
        self.record(batch, "w", at, width, lanes, "", self.PENDING, inst)

    def async_written(self, batch, at: np.ndarray, width: int, barrier: int) -> None:
        """It has landed: whoever sees the present phase of its mbarrier complete is ordered after it."""
        s = self.state(batch)
        s.mark(at, width)
        clock = s.signals.get(("phases", barrier), 0) + 1
        self.landed(batch, s, at, width, s.channel("phases", barrier), clock)

    # registers of wgmma
    def wgmma_fence(self, batch, warps: np.ndarray) -> None:
        self.state(batch).wgmma_fenced[warps] = True
        dirty = self.state(batch).dirty
        for marked in dirty.values():
            marked[warps] = False

    def wgmma_written(self, batch, regs: tuple, lanes: np.ndarray) -> None:
        dirty = self.state(batch).dirty
        for k in regs:
            marked = dirty.get(k)
            if marked is None:
                marked = dirty[k] = np.zeros(batch.L // 32, bool)
            marked[lanes >> 5] = True

    def wgmma_registers(self, batch, inst, regs: tuple, sources: tuple, warps: np.ndarray) -> None:
        """Before the first wgmma there is a wgmma.fence, and registers written since the last one may not be used."""
        dirty = self.state(batch).dirty
        for k in (*regs, *sources):
            marked = dirty.get(k)
            if marked is not None and marked[warps].any():
                warp = int(warps[np.flatnonzero(marked[warps])[0]])
                self.report(
                    "missing wgmma.fence",
                    f"{batch.unit.register_name(k)} was written by {batch.thread_name(warp * 32)} after its last "
                    "wgmma.fence",
                    inst,
                )
                return
        late = warps[~self.state(batch).wgmma_fenced[warps]]
        if late.size:
            who = batch.thread_name(int(late[0]) * 32)
            self.report("missing wgmma.fence", f"{who} has executed none before its first wgmma", inst)

    def wgmma_touched(self, batch, inst, product, warp: int, write: bool, regs: list) -> None:
        names = ", ".join(batch.unit.register_name(k) for k in regs[:3])
        what = "written" if write else "read"
        part = "accumulator" if regs[0] in product.regs else "fragment of A"
        copy = product.copies.get(regs[0], {})
        if copy and part != "accumulator" and not write:
            part = f"copy of the accumulator {batch.unit.register_name(next(iter(copy.values())))}"
        group = int(product.group[product.warps == warp][0])
        state = "is committed" if batch.wgmma_committed[warp] > group else "is not committed"
        self.report(
            "wgmma in flight",
            f"{names} ({part} of the wgmma at PTX line {product.inst.line}, whose group {group} {state} and not waited "
            f"for) is {what} by {batch.thread_name(warp * 32)}",
            inst,
            product.inst.line,
        )
