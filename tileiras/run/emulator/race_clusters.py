"""Checks of clusters: shared memory is gone with its CTA, so what others do with it must come before the CTA's end.

A CTA ends with its last thread. Until then one of its threads must have learned, as for any other order, of each access by
threads of other CTAs, and of the end of copies, arrivals and products that others have under way there. Only the last
access of a warp and the last signal of a channel need to be remembered: who knows of one knows of those before it.
"""

from __future__ import annotations

import numpy as np


class ClusterChecks:
    """Mixed into Checker. CTAs and warps are numbered within their batch."""

    def remote_access(
        self, batch, s, at: np.ndarray, lanes: np.ndarray, inst, channel: int, clock: int
    ) -> None:
        """Lanes touch shared memory, some of it of other CTAs: now, or (channel 0 and up) until that channel's signal."""
        owner = (at - s.shared[0]) // batch.shared_stride
        far = owner != batch.cta_of[lanes]
        if not far.any():
            return
        for cta, lane in {(int(c), int(x) & ~31) for c, x in zip(owner[far], lanes[far])}:
            if channel >= 0:
                self.remote_signal(s, cta, channel, clock, lane, inst)
            else:
                w = lane >> 5
                s.remote.setdefault(cta, {})["warp", w] = int(s.clock(np.array([w]))[0]), lane, inst

    def remote_signal(self, s, cta: int, channel: int, clock: int, lane: int, inst) -> None:
        """What another CTA's thread has under way in this one's shared memory ends with a signal."""
        s.remote.setdefault(cta, {})["channel", channel] = clock, lane, inst

    def copy_landed(self, batch, t) -> None:
        """A bulk copy between CTAs is over: each of them must see a phase of the mbarrier that tells of it."""
        s = self.state(batch)
        mine = int(batch.cta_of[t.lane])
        stride = batch.shared_stride
        places = [(int(at[0]), barrier) for at, (barrier, _, _) in zip(t.targets or (), t.signals)]
        places += [(barrier, barrier) for barrier, _, _ in t.signals]
        for place, barrier in places:
            cta = (place - s.shared[0]) // stride
            if cta != mine:
                self.remote_signal(s, cta, *self.phase_of(s, barrier), t.lane, t.inst)
        if t.source is not None and any((b - s.shared[0]) // stride != mine for b, _, _ in t.signals):
            self.remote_signal(s, mine, *self.phase_of(s, t.signals[0][0]), t.lane, t.inst)

    def phase_of(self, s, barrier: int) -> tuple[int, int]:
        """(channel, its signal) of an mbarrier's present phase."""
        return s.channel("phases", barrier), s.signals.get(("phases", barrier), 0) + 1

    def ended(self, batch, ctas: np.ndarray) -> None:
        """CTAs whose last thread has left."""
        s = self.state(batch)
        for cta in ctas.tolist():
            rows = [
                s.rows[w]
                for w in range(cta * self.warps, (cta + 1) * self.warps)
                if s.rows.get(w) is not None
            ]
            channels = s.vc[cta].max(0)[2 * self.warps :]
            for (kind, number), (clock, lane, inst) in s.remote.pop(cta, {}).items():
                if kind == "channel":
                    known = number < channels.size and channels[number] >= clock
                else:
                    known = any(row[s.base * self.warps + number] >= clock for row in rows)
                if not known:
                    self.may_end_first(batch, cta, lane, inst)
            for t in batch.transfers:
                if int(batch.cta_of[t.lane]) != cta and any(to == cta for _, _, to in t.signals):
                    self.may_end_first(batch, cta, t.lane, t.inst)

    def may_end_first(self, batch, cta: int, lane: int, inst) -> None:
        where = tuple(int(v) for v in batch.ctas[cta])
        self.report(
            "shared memory of an ended CTA",
            f"CTA {where} may end before {batch.thread_name(lane)}, or its warp, is done with its shared memory: no thread of it "
            "has waited for anything that tells of this",
            inst,
        )
