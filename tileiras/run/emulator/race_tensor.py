"""Checks of tensor memory: who may touch a column while products are in flight, and registers not loaded yet.

Tensor memory is watched in granules of 32 lanes of one column. Instructions that one thread issues follow each other; all
others need a commit of that thread whose mbarrier they saw complete, or an ordinary order between threads.
"""

from __future__ import annotations

import numpy as np

from .race_clocks import Known
from .race_records import CLUSTER_SCOPE, WEAK, Shadow, signal

PLACE = 1 << 59  # addresses of granules: above any real one
GRANULES = 4 * 512  # of one CTA


class TensorChecks:
    """Mixed into Checker."""

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

    def tensor_commit(self, batch, lane: int) -> Known:
        """What a commit hands on when it arrives: it covers all that its thread issued before, so that who sees it is also
        behind what that thread knew of others. The thread's own ordinary accesses it does not release."""
        s = self.state(batch)
        number = s.signals["commits", lane] = s.signals.get(("commits", lane), 0) + 1
        column = 2 * self.warps + s.channel("commits", lane)
        known = self.snapshot(s, lane >> 5)
        (block,) = known.blocks.values()
        own = (lane >> 5) % self.warps
        block[own] = block[self.warps + own] = 0
        block[column] = number
        return known

    def tensor_arrives(self, batch, barrier: int, known: Known) -> None:
        s = self.state(batch)
        owner = (barrier - s.shared[0]) // batch.shared_stride
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

    # registers of tcgen05.ld
    def tensor_loading(self, inst, regs: tuple, warps: np.ndarray, batch) -> None:
        loading = self.state(batch).loading
        for k in regs:
            loading.setdefault(k, {}).update(dict.fromkeys(warps.tolist(), inst))

    def tensor_loads_over(self, batch, warps: np.ndarray) -> None:
        loading = self.state(batch).loading
        over = set(warps.tolist())
        for k in list(loading):
            left = {w: inst for w, inst in loading[k].items() if w not in over}
            if left:
                loading[k] = left
            else:
                del loading[k]

    def tensor_register(self, batch, inst, regs: tuple, lanes: np.ndarray) -> None:
        loading = self.state(batch).loading
        if not loading:
            return
        for k in regs:
            waiting = loading.get(k)
            if waiting is None:
                continue
            for w in np.unique(lanes >> 5).tolist():
                if w in waiting:
                    self.report(
                        "tcgen05.ld in flight",
                        f"{batch.unit.register_name(k)}, loaded at PTX line {waiting[w].line}, is used by "
                        f"{batch.thread_name(w * 32)} before tcgen05.wait::ld",
                        inst,
                        waiting[w].line,
                    )
                    return
