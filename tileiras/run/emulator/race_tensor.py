"""Checks of tensor memory: who may touch a column while products are in flight, and registers not loaded yet.

Tensor memory is watched in granules of 16 lanes of one column. Instructions that one thread issues follow each other; all
others need a commit of that thread whose mbarrier they saw complete, or an ordinary order between threads.

By the ISA tcgen05.fence stands on both sides of such an order: ::before_thread_sync in the thread that is done (a commit has one
of its own), ::after_thread_sync in the one that goes on. CUTLASS and Triton have neither, so each is asked for only in kernels
that have one.
"""

from __future__ import annotations

import numpy as np

from .race_clocks import Known
from .race_records import CHANNEL, CLUSTER_SCOPE, WEAK, Shadow, signal

PLACE = 1 << 59  # addresses of granules: above any real one
GRANULES = 8 * 512  # of one CTA


class TensorChecks:
    """Mixed into Checker."""

    fences: tuple[bool, bool] | None = None

    def tensor_shadow(self, batch, s) -> Shadow:
        if s.tensor is None:
            s.tensor = Shadow(PLACE, GRANULES * batch.cta_count * 4, 4)
        return s.tensor

    def tensor_access(self, batch, inst, kind: str, granules: np.ndarray, lane: int, mark: int = -1) -> None:
        """An access by a warp, pending until its tcgen05.wait, or (mark: its record) by an instruction that runs later."""
        from .race import Access

        s = self.state(batch)
        sh = self.tensor_shadow(batch, s)
        lanes = np.full(granules.size, lane)
        a = Access(batch, s, kind, PLACE + granules * 4, 4, lanes, WEAK, inst, mark)
        a.shadow = sh
        if mark >= 0:
            self.examine(a, None)
            return
        self.examine(a, self.PENDING)
        s.unwaited.setdefault((kind, lane >> 5), []).append(granules)

    def tensor_issued(self, batch, inst, lane: int, reads: np.ndarray, holds: list) -> None:
        """A product or copy: until a commit of its thread behind it is seen complete, it may read and write all this."""
        s = self.state(batch)
        mark = signal(s.channel("commits", lane), s.signals.get(("commits", lane), 0) + 1)
        self.async_read(batch, inst, reads, 16, np.full(reads.size, lane), mark)
        for kind, granules in holds:
            self.tensor_access(batch, inst, kind, granules, lane, mark)

    def tensor_commit(self, batch, lane: int) -> tuple[Known, int]:
        """What a commit hands on when it arrives, and its number: it covers all that its thread issued before, so that who
        sees it is also behind what that thread knew of others. The thread's own ordinary accesses it does not release."""
        s = self.state(batch)
        number = s.signals["commits", lane] = s.signals.get(("commits", lane), 0) + 1
        column = 2 * self.warps + s.channel("commits", lane)
        known = self.snapshot(s, lane >> 5)
        (block,) = known.blocks.values()
        own = (lane >> 5) % self.warps
        block[own] = block[self.warps + own] = 0
        block[column] = number
        return known, number

    def tensor_arrives(self, batch, barrier: int, known: Known, number: int, lane: int, inst) -> None:
        s = self.state(batch)
        owner = (barrier - s.shared[0]) // batch.shared_stride
        if owner != int(batch.cta_of[lane]):
            self.remote_signal(s, owner, s.channel("commits", lane), number, lane, inst)
        self.publish((barrier, "pending"), s, owner * self.warps, known, CLUSTER_SCOPE)

    def tensor_waited(self, batch, kind: str, warps: np.ndarray) -> None:
        """tcgen05.wait::ld ("r") and ::st ("w"): what these warps did before is over."""
        s = self.state(batch)
        for warp in warps.tolist():
            for granules in s.unwaited.pop((kind, warp), ()):
                number = np.full(granules.size, warp)
                fields = ("read", "read2") if kind == "r" else ("write",)
                clocks = s.clock(number)
                s.tensor.settle(fields, granules, number + s.base * batch.warps_per_cta, clocks)

    # allocation
    def tensor_freed(self, batch, inst, granules: np.ndarray, lane: int, own: bool) -> None:
        """Columns go back: whoever used them is done, and the thread that frees them knows. No tcgen05.fence is asked for.
        own: not those of the peer, which itself frees them."""
        from .race import Access

        s = self.state(batch)
        sh = self.tensor_shadow(batch, s)
        for (kind, warp), parts in s.unwaited.items():
            flying = (
                np.intersect1d(np.concatenate(parts), granules) if kind == "r" and parts else granules[:0]
            )
            if flying.size:
                self.report(
                    "tcgen05.ld in flight",
                    f"{batch.spell_place(PLACE + int(flying[0]) * 4)}, is freed by {batch.thread_name(lane)} before a "
                    f"tcgen05.wait::ld of {batch.thread_name(warp * 32)} behind its tcgen05.ld",
                    inst,
                )
                for records in (sh.read, sh.read2) if own else ():
                    records[flying] = -1
        a = Access(batch, s, "f", PLACE + granules * 4, 4, np.full(granules.size, lane), WEAK, inst)
        for records, lines, what in (
            (sh.write, sh.write_line, "write"), (sh.read, sh.read_line, "read"), (sh.read2, sh.read2_line, "read"),
        ):  # fmt: skip
            self.conflict(a, records[granules], lines[granules], what)
            if own:
                records[granules] = -1

    def tensor_allocated(self, batch, inst, cta: int, lane: int, count: int) -> None:
        s = self.state(batch)
        before = s.most_allocated.setdefault(cta, count)
        if count > before:
            self.report(
                "tensor memory",
                f"{batch.thread_name(lane)} allocates {count} columns behind an allocation of {before}: by the ISA a CTA's "
                "allocations do not grow",
                inst,
            )
        s.most_allocated[cta] = min(count, before)
        clock = int(s.clock(np.array([lane >> 5]))[0])
        s.allocations.setdefault(cta, []).append((lane >> 5, clock, inst))

    def tensor_closed(self, batch, inst, cta: int, lane: int) -> None:
        """A CTA gives up its right to allocate: what it has allocated came before that."""
        s, w = self.state(batch), lane >> 5
        for maker, clock, made in s.allocations.get(cta, ()):
            if maker != w and s.vc[cta, w % self.warps, maker % self.warps] < clock:
                self.report(
                    "tensor memory",
                    f"{batch.thread_name(lane)} gives up its CTA's right to allocate, and nothing orders that behind the "
                    f"allocation at PTX line {made.line} by {batch.thread_name(maker * 32)}",
                    inst,
                    made.line,
                )

    # tcgen05.fence
    def tensor_fences(self, batch) -> tuple[bool, bool]:
        """Whether the kernel has a fence ::before_thread_sync, and one ::after_thread_sync."""
        if self.fences is None:
            found = {
                inst.mods[0]
                for p in batch.unit.pieces
                for inst in p.insts
                if inst.op == "tcgen05" and inst.mods
            }
            self.fences = "fence::before_thread_sync" in found, "fence::after_thread_sync" in found
        return self.fences

    def tensor_fenced(self, batch, after: bool, warps: np.ndarray) -> None:
        s, w = self.state(batch), batch.warps_per_cta
        if after:
            view = self.seen_after(s)
            view[warps // w, warps % w] = s.vc[warps // w, warps % w]
            return
        for warp, clock in zip(warps.tolist(), s.clock(warps).tolist()):
            s.before.setdefault(warp, []).append(clock)
        s.tick(warps)

    def seen_after(self, s) -> np.ndarray:
        """What each warp knew at its last fence ::after_thread_sync, in the columns of vc."""
        if s.after is None:
            s.after = np.zeros_like(s.vc)
        elif s.after.shape[2] < s.vc.shape[2]:
            more = np.zeros((*s.vc.shape[:2], s.vc.shape[2] - s.after.shape[2]), np.int64)
            s.after = np.concatenate([s.after, more], axis=2)
        return s.after

    def fenced(self, a, r, good: np.ndarray, near: np.ndarray, engine: np.ndarray) -> np.ndarray:
        """Of the records that an order between threads puts before an access of tensor memory, those with their fences too.
        near: records of other warps of the CTA; engine: of products and copies."""
        before, after = self.tensor_fences(a.batch)
        wpc, s = a.batch.warps_per_cta, a.state
        cta, warp = a.warps // wpc, a.warps % wpc
        if after:
            view = self.seen_after(s)
            column = np.where(near, r.warp % wpc, np.where(engine, 2 * wpc + r.warp - CHANNEL, 0))
            issuers = np.array([at >> 5 if kind == "commits" else -1 for kind, at in s.channels] or [-1])
            channel = np.where(engine, r.warp - CHANNEL, 0)
            own = engine & (issuers[channel] == a.warps % (wpc * a.batch.cluster_size))  # its own products
            own |= engine & (a.mark >= 0)
            good &= ~(near | engine) | own | (r.clock <= view[cta, warp, column])
        if before:
            for other in np.unique(r.warp[near & good]).tolist():
                clocks = np.array([*s.before.get(other - s.base * wpc, ()), np.iinfo(np.int64).max])
                mine = near & good & (r.warp == other)
                fence = clocks[np.searchsorted(clocks, r.clock[mine])]
                good[mine] = fence <= s.vc[cta[mine], warp[mine], other % wpc]
        return good

    # registers of tcgen05.ld
    def tensor_loading(self, inst, regs: tuple, warps: np.ndarray, batch) -> None:
        loading = self.state(batch).loading
        for k in regs:
            loading.setdefault(k, {}).update(dict.fromkeys(warps.tolist(), (inst, k)))

    def tensor_loads_over(self, batch, warps: np.ndarray) -> None:
        loading = self.state(batch).loading
        over = set(warps.tolist())
        for k in list(loading):
            left = {w: load for w, load in loading[k].items() if w not in over}
            if left:
                loading[k] = left
            else:
                del loading[k]

    def tensor_register(self, batch, inst, regs: tuple, writes: tuple, lanes: np.ndarray) -> None:
        """An ordinary instruction reads or writes registers that a tcgen05.ld may not have loaded yet. A mov of one is a
        renaming: what it writes is in flight too, until it is written anew."""
        loading = self.state(batch).loading
        if not loading:
            return
        renames = inst.op == "mov"
        for w in np.unique(lanes >> 5).tolist():
            flying = [k for k in regs if w in loading.get(k, ())]
            lost = [k for k in writes if k not in regs and loading.get(k, {}).get(w, (None, -1))[1] == k]
            if lost or flying and not renames:
                self.tensor_register_used(batch, inst, (lost or flying)[0], w)
                return
            for k in writes:
                if flying:
                    loading.setdefault(k, {})[w] = loading[flying[0]][w]
                elif k in loading:
                    loading[k].pop(w, None)

    def tensor_register_used(self, batch, inst, k: int, warp: int) -> None:
        load, loaded = self.state(batch).loading[k][warp]
        name = batch.unit.register_name
        copy = "" if k == loaded else f"a copy of {name(loaded)}, "
        self.report(
            "tcgen05.ld in flight",
            f"{name(k)}, {copy}loaded at PTX line {load.line}, is used by {batch.thread_name(warp * 32)} before "
            "tcgen05.wait::ld",
            inst,
            load.line,
        )
