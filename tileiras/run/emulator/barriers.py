"""Barriers of a CTA and of a cluster: lanes arrive, some with a count or a value, and go on when all that are expected are there.

An exited lane counts for the barrier that the rest of its warp waits at.
"""

from __future__ import annotations

import numpy as np

from .syntax import EmulatorError


class BarrierOps:
    """The part of a batch that knows who waits where."""

    def cta_barrier(self, idx, n: int) -> None:
        self.progress.met(self, self.lanes(idx, n, None))
        if self.checker is not None:
            self.checker.cta_sync(self, self.lanes(idx, n, None))

    def cta_reduce(self, how: str, p: np.ndarray, idx, n: int) -> np.ndarray:
        self.cta_barrier(idx, n)
        lanes = self.lanes(idx, n, None)
        full = np.zeros(self.L, np.int64)
        full[lanes] = p
        total = full.reshape(self.cta_count, -1).sum(1)
        if how == "popc":
            return total.astype(np.uint32)[self.cta_of[lanes]]
        y = total > 0 if how == "or" else total == self.cta_live
        return y[self.cta_of[lanes]]

    def arrive(self, pc: int, idx: np.ndarray | None) -> None:
        unit = self.unit
        piece = unit.pieces[pc]
        inst = piece.insts[0]
        lanes = np.arange(self.L) if idx is None else idx
        ids, counts, pred, guard = unit.expression(pc, "barrier", True)(self, self.R, lanes, lanes.size)
        after = piece.next.pc
        if guard is not None:
            guard = np.broadcast_to(guard, (lanes.size,))
            if not guard.all():
                self.push(after, lanes[~guard])
            ids, counts, pred = (v[guard] if v is not None and v.size > 1 else v for v in (ids, counts, pred))
            lanes = lanes[guard]
            if not lanes.size:
                return
        key = (pc, -1)
        self.counts[key] = self.counts.get(key, 0) + lanes.size
        if self.meter is not None:
            self.count_warps(key, lanes)
        if inst.mods[0] == "cluster":
            self.cluster_barrier(inst, pc, after, lanes)
            return
        ids = np.broadcast_to(ids, (lanes.size,)).astype(np.int64)
        if int(ids.max()) > 15:
            raise EmulatorError(f"PTX line {inst.line}: barrier {int(ids.max())} of 16: `{inst.text}`")
        cta = self.cta_of[lanes]
        want = np.broadcast_to(counts, (lanes.size,)).astype(np.int64) if counts is not None else -1
        np.add.at(self.bar_count, (cta, ids), 1)
        self.bar_want[cta, ids] = want
        if self.checker is not None:
            self.checker.barrier_arrive(self, lanes, ids)
        if "arrive" in inst.mods:
            self.push(after, lanes)
        else:
            self.bar_at[lanes] = ids
            self.bar_pc[lanes] = pc
            self.bar_value[lanes] = False if pred is None else pred
        self.release_barriers()

    def release_barriers(self) -> None:
        if not self.bar_count.any():
            return
        dead = self.span - self.cta_live
        expected = np.where(self.bar_want < 0, self.cta_live[:, None], self.bar_want)
        count = np.where(self.bar_want < 0, self.bar_count, self.bar_count + self.dead_partners(dead))
        full = (self.bar_count > 0) & (count >= expected)
        if not full.any():
            return
        waiting = np.flatnonzero(self.bar_at >= 0)
        free = waiting[full[self.cta_of[waiting], self.bar_at[waiting]]]
        self.progress.met(self, free)
        ids = self.bar_at[free]
        if self.checker is not None:
            self.checker.barrier_release(self, free, ids)
        pcs = self.bar_pc[free]
        for pc in np.unique(pcs).tolist():
            part = free[pcs == pc]
            self.finish_barrier(pc, part)
        self.bar_at[free] = -1
        self.bar_count[full] = 0
        for pc in np.unique(pcs).tolist():
            self.push(self.unit.pieces[pc].next.pc, free[pcs == pc])

    def dead_partners(self, dead: np.ndarray) -> np.ndarray:
        """Barriers with a count count whole warps: exited lanes of a warp that waits are counted with it."""
        extra = np.zeros_like(self.bar_count)
        if not dead.any():
            return extra
        waiting = np.flatnonzero(self.bar_at >= 0)
        warps, first = np.unique(waiting >> 5, return_index=True)
        missing = 32 - self.warp_live[warps]
        np.add.at(extra, (self.cta_of[waiting[first]], self.bar_at[waiting[first]]), missing)
        return extra

    def finish_barrier(self, pc: int, lanes: np.ndarray) -> None:
        """Writes the result of bar.red."""
        inst = self.unit.pieces[pc].insts[0]
        if "red" not in inst.mods:
            return
        how = next(m for m in inst.mods if m in ("popc", "and", "or"))
        cta, ident = self.cta_of[lanes], self.bar_at[lanes]
        total = np.zeros((self.cta_count, 16), np.int64)
        members = np.zeros((self.cta_count, 16), np.int64)
        waiting = np.flatnonzero(self.bar_at >= 0)
        np.add.at(total, (self.cta_of[waiting], self.bar_at[waiting]), self.bar_value[waiting])
        np.add.at(members, (self.cta_of[waiting], self.bar_at[waiting]), 1)
        value = total[cta, ident]
        reg = inst.ops[0][1]
        k = reg.id + self.unit.reg_base[self.unit.pieces[pc].func.name]
        if how == "popc":
            self.put(k, value.astype(np.uint32), lanes)
        else:
            self.put(k, value > 0 if how == "or" else value == members[cta, ident], lanes)

    def cluster_barrier(self, inst, pc: int, after: int, lanes: np.ndarray) -> None:
        cluster = self.cta_of[lanes] // self.cluster_size
        if "arrive" in inst.mods:
            self.lane_phase[lanes] = self.cluster_phase[cluster]
            np.add.at(self.cluster_arrived, cluster, 1)
            if self.checker is not None:
                self.checker.cluster_arrive(self, lanes, "relaxed" in inst.mods)
            self.cluster_check()
            self.push(after, lanes)
            return
        done = self.cluster_phase[cluster] > self.lane_phase[lanes]
        if done.any():
            if self.checker is not None:
                self.checker.cluster_wait(self, lanes[done])
            self.push(after, lanes[done])
        if not done.all():
            rest = lanes[~done]
            others = self.groups.get(pc)
            self.groups[pc] = rest if others is None else np.union1d(rest, others)
            self.since[pc] = (self.steps, self.spins)
            self.stalled.add(pc)

    def cluster_check(self) -> None:
        live = self.cta_live.reshape(-1, self.cluster_size).sum(1)
        full = (self.cluster_arrived >= live) & (self.cluster_arrived > 0)
        if full.any():
            self.cluster_phase[full] += 1
            self.cluster_arrived[full] = 0
            self.stalled.clear()
