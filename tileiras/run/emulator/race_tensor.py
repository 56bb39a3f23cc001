"""Checks of tensor memory: who may touch a column while products are in flight, and registers not loaded yet.

Tensor memory is watched in granules of 32 lanes of one column. Instructions of one CTA's queue follow each other; all
others need a commit whose mbarrier they saw complete, or an ordinary order between threads.
"""

from __future__ import annotations

import numpy as np

from .race_records import ENGINE, PENDING, WEAK, Records, Shadow, pack

PLACE = 1 << 59  # addresses of granules: above any real one
GRANULES = 4 * 512  # of one CTA


class TensorChecks:
    """Mixed into Checker."""

    def tensor_shadow(self, batch, s) -> Shadow:
        if s.tensor is None:
            s.tensor = Shadow(PLACE, GRANULES * batch.cta_count * 4, 4)
        return s.tensor

    def tensor_access(self, batch, inst, kind: str, granules: np.ndarray, lane: int, queued: bool) -> None:
        """An access by a warp, or (queued) by an instruction that will run later."""
        from .race import Access

        s = self.state(batch)
        sh = self.tensor_shadow(batch, s)
        lanes = np.full(granules.size, lane)
        a = Access(batch, s, kind, PLACE + granules * 4, 4, lanes, WEAK, inst)
        a.shadow = sh
        for field in ("write",) if kind == "r" else ("write", "read", "read2"):
            packed = getattr(sh, field)[granules]
            if queued:
                r = Records(packed)
                running = (r.clock == PENDING) & (r.warp == a.global_warps)
                cta = (
                    batch.warps_per_cta
                )  # committed, not waited for, and still before this one in the CTA's queue
                queue = (r.lane == ENGINE) & (r.warp // cta == a.global_warps // cta)
                packed = np.where(running | queue, -1, packed)
            self.conflict(
                a, packed, getattr(sh, f"{field}_line")[granules], "write" if field == "write" else "read"
            )
        stamp = np.full(granules.size, PENDING) if queued else a.clocks
        records = pack(WEAK, a.global_warps, np.zeros(granules.size, np.int64) + (lane & 31), stamp)
        if kind == "r":
            sh.add_readers(granules, records, a.line)
        else:
            sh.add_writers(granules, records, a.line)

    def tensor_committed(self, batch, lane: int, tasks: list, signals: list[int]) -> None:
        """What a commit covers is over for those who see its mbarrier's phase complete."""
        from .race_async import known_engines

        s = self.state(batch)
        issuer = (lane >> 5) + s.base * batch.warps_per_cta
        clocks: dict[int, int] = {}

        def record(cta: int) -> np.ndarray:
            if cta not in clocks:
                s.engine[cta] += 1
                clocks[cta] = int(s.engine[cta])
            first = np.array([(s.base + cta) * batch.warps_per_cta])
            return pack(WEAK, first, np.array([ENGINE]), np.array([clocks[cta]]))

        def settle(sh: Shadow, fields: tuple[str, ...], slots: np.ndarray, new: np.ndarray) -> None:
            for field in fields:
                packed = getattr(sh, field)
                r = Records(packed[slots])
                mine = r.there & (r.clock == PENDING) & (r.warp == issuer)
                packed[slots[mine]] = new

        for task in tasks:
            if task.reads is not None:
                sh = self.shadow(batch, s, 0, True, 16)
                ctas = (task.reads - s.shared[0]) // batch.shared_stride
                for cta in np.unique(ctas).tolist():
                    for slots in sh.slots(task.reads[ctas == cta], 16):
                        settle(sh, ("read", "read2"), slots, record(cta))
            for kind, granules in task.holds:
                cta = int(granules[0]) // GRANULES
                fields = ("write",) if kind == "w" else ("read", "read2")
                settle(self.tensor_shadow(batch, s), fields, granules, record(cta))
        for address in signals:
            known_engines(self, batch, s, address, clocks)

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
