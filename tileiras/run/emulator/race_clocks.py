"""Happens-before: what each warp knows that others have done, and how barriers, releases and acquires hand it on.

A warp counts its intervals (its clock ticks whenever others may learn of what it did). It knows a clock of every warp: of
those of its CTA in `BatchState.vc`, of the others in a row over all warps of the launch, made when it first learns of one.
Rows and what is published are never changed in place, so that warps of a CTA and messages can share them.

What the hardware does beside the threads is known channel by channel: an mbarrier counts its phases, a thread that issues
tcgen05 its commits. A place that a bulk copy wrote is ordered before those who know that phase of its mbarrier, one that
tcgen05 holds before those who know of any commit of its thread behind it, whichever mbarrier told them.

A release publishes at an address what its warp knows, once for each scope that is allowed to see it; an acquire takes what
its own scope may see. `.cta` on either side therefore hands nothing on between CTAs.
"""

from __future__ import annotations

import numpy as np

from .race_records import CLUSTER_SCOPE, CTA_SCOPE, GPU_SCOPE

_FEW = 4  # CTAs whose clocks are kept apart in one message; more become a row


class Known:
    """Clocks of warps, by CTA (blocks: all columns of BatchState.vc) and over the launch (row or None)."""

    __slots__ = ("blocks", "row")

    def __init__(self, blocks: dict[int, np.ndarray], row: np.ndarray | None) -> None:
        self.blocks, self.row = blocks, row

    def join(self, other: Known, warps: int, total: int, cluster: int) -> Known:
        """All that both know. cluster: CTAs in one."""
        blocks = dict(self.blocks)
        for cta, block in other.blocks.items():
            blocks[cta] = block if cta not in blocks else wider(blocks[cta], block)
        row = larger(self.row, other.row)
        if len(blocks) > _FEW:
            row = np.zeros(total, np.int32) if row is None else row.copy()
            kept: dict[int, np.ndarray] = {}
            for cta, block in blocks.items():
                part = row[cta * warps : (cta + 1) * warps]
                np.maximum(part, block[:warps].astype(np.int32), out=part)
                if block[2 * warps :].any():  # channels are the cluster's: one block keeps them
                    first = cta // cluster * cluster
                    block = block.copy()
                    block[: 2 * warps] = 0
                    kept[first] = block if first not in kept else wider(kept[first], block)
            blocks = kept
        return Known(blocks, row)


def wider(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Element-wise maximum of two blocks, one of which may be of a time with fewer channels."""
    if a.size < b.size:
        a, b = b, a
    out = a.copy()
    np.maximum(out[: b.size], b, out=out[: b.size])
    return out


def larger(a: np.ndarray | None, b: np.ndarray | None) -> np.ndarray | None:
    """Element-wise maximum of two rows; one of them itself where it has all."""
    if a is None or b is None or a is b:
        return b if a is None else a
    if a.size != b.size:
        return wider(a, b)
    if (a >= b).all():
        return a
    return np.maximum(a, b)


class BatchState:
    """Clocks and shared-memory state of one batch."""

    def __init__(self, batch) -> None:
        self.batch = batch  # keeps id(batch) unique
        self.base = batch.first_cta
        w = batch.warps_per_cta
        # a warp's clocks of its CTA's warps, the same as fenced for other proxies, those of its cluster's channels
        self.vc = np.zeros((batch.cta_count, w, 2 * w + 8), np.int64)
        self.channels: dict[tuple[str, int], int] = {}  # by place in the cluster; clusters share the columns
        self.signals: dict[tuple[str, int], int] = {}  # how far each is, by place in the batch
        diagonal = np.arange(w)
        self.vc[:, diagonal, diagonal] = 1
        self.rows: dict[int, np.ndarray] = {}  # warp of the batch -> clocks known of the warps of other CTAs
        self.barriers: dict = {}
        self.fenced: dict[int, dict[int, Known]] = {}  # warp -> scope of a fence -> what it knew there
        self.pending: dict[int, dict] = {}  # warp -> address -> (scope, messages) of relaxed reads
        self.waits: dict[int, tuple] = {}  # warp -> mbarrier, phase, instruction of its last wait there
        size = batch.shared_stride * batch.cta_count
        self.shared = (batch.shared_start, batch.shared_start + size)
        self.initialised = np.zeros(size, bool)
        self.shadow = None
        self.generic: np.ndarray | None = None  # last write of each word of shared memory, if generic
        self.handed = np.zeros(batch.L, np.int64)  # the last copy of each lane that an mbarrier tells of
        self.generic_line: np.ndarray | None = None
        self.fenced_far: dict[int, dict] = {}  # CTA -> what its fences for other proxies knew of other CTAs
        self.tensor = None  # the records of tensor memory
        self.allocations: dict[
            int, list[tuple[int, int, object]]
        ] = {}  # CTA -> warp, its clock, instruction of each
        self.most_allocated: dict[int, int] = {}  # CTA -> columns of its last allocation
        self.unwaited: dict[tuple[str, int], list] = {}  # ("r" or "w", warp) -> granules of tcgen05.ld and st
        self.loading: dict[int, dict] = {}  # register -> warp -> (tcgen05.ld not waited for, its register)
        self.after: np.ndarray | None = (
            None  # vc as each warp knew it at its last tcgen05.fence::after_thread_sync
        )
        self.before: dict[int, list[int]] = {}  # warp of the batch -> its clocks at each ::before_thread_sync
        self.inits: dict[int, tuple] = {}  # mbarrier -> clock, lane and instruction of its initialisation
        self.told_inits: set[tuple[int, int]] = set()  # (mbarrier, warp) of warps behind that
        self.inits_open: dict[
            int, list[int]
        ] = {}  # warp -> mbarriers that it has initialised since its last fence for that
        self.inits_told: dict[
            int, tuple[int, int]
        ] = {}  # mbarrier -> the signal that tells of its initialisation
        self.inits_fenced: dict[int, Known] = {}  # warp -> those of its signals
        self.remote: dict[
            int, dict
        ] = {}  # CTA -> who of other CTAs touches its shared memory: (clock, lane, instruction)
        self.wgmma_fenced = np.zeros(batch.L // 32, bool)  # warps that have executed a wgmma.fence
        self.dirty: dict[int, np.ndarray] = {}  # registers of wgmma written since the warp's last fence

    def last_wait(self, warp: int) -> str:
        """The mbarrier that a warp has waited for last, as findings spell it."""
        if warp not in self.waits:
            return ""
        address, phase, inst = self.waits[warp]
        place = self.batch.spell_place(address)
        line = f" at PTX line {inst.line}" if inst is not None else ""
        return f"; its last wait{line} was for phase {phase} of the mbarrier at {place}"

    def channel(self, kind: str, at: int) -> int:
        """The number of a channel: "phases" of the mbarrier at a real address, "commits" or "inits" of a lane of the batch."""
        batch = self.batch
        if kind == "phases":
            at = (at - self.shared[0]) % (batch.shared_stride * batch.cluster_size)
        else:
            at %= batch.warps_per_cta * 32 * batch.cluster_size
        number = self.channels.setdefault((kind, at), len(self.channels))
        have = self.vc.shape[2] - 2 * batch.warps_per_cta
        if number >= have:
            self.vc = np.concatenate([self.vc, np.zeros((*self.vc.shape[:2], have), np.int64)], axis=2)
        return number

    def clock(self, warps: np.ndarray) -> np.ndarray:
        """The present clocks of warps."""
        w = self.batch.warps_per_cta
        return self.vc[warps // w, warps % w, warps % w]

    def tick(self, warps: np.ndarray) -> None:
        """Accesses from here on are not covered by what was just published."""
        w = self.batch.warps_per_cta
        self.vc[warps // w, warps % w, warps % w] += 1

    def mark(self, at: np.ndarray, width: int) -> None:
        base = at - self.shared[0]
        for b in range(width):
            self.initialised[base + b] = True


class Clocks:
    """Mixed into Checker: synchronisation."""

    def synchronisation(self, launch) -> None:
        self.objects: dict = {}  # address or barrier -> who may see -> Known
        self.cluster_size = launch.cluster_size
        self.warps = -(-int(np.prod(launch.unit.block)) // 32)  # of a CTA
        self.total = int(np.prod(launch.grid)) * self.warps
        self.sizes = self.warps, self.total, self.cluster_size

    # barriers
    def warp_sync(self, batch, idx, n: int) -> None:
        s = self.state(batch)
        s.tick(np.unique(batch.lanes(idx, n, None) >> 5))

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
        if s.rows or s.fenced:
            for cta in ctas.tolist():
                self.share(s, range(cta * self.warps, (cta + 1) * self.warps))
        warps = (ctas[:, None] * batch.warps_per_cta + np.arange(batch.warps_per_cta)).reshape(-1)
        self.absorb(s, warps, CTA_SCOPE)
        s.tick(warps)

    def share(self, s, warps) -> None:
        """Warps of a CTA tell each other what they know of other CTAs, and which fences they have passed."""
        row, fences = None, None
        for w in warps:
            row = larger(row, s.rows.get(w))
            fences = self.both(fences, s.fenced.get(w))
        for w in warps:
            if row is not None:
                s.rows[w] = row
            if fences is not None:
                s.fenced[w] = fences

    def both(self, a, b):
        """Fences passed by either of two warps."""
        if not a or not b or a is b:
            return a or b
        out = dict(a)
        for scope, known in b.items():
            out[scope] = known if scope not in out else out[scope].join(known, *self.sizes)
        return out

    def barrier_arrive(self, batch, lanes: np.ndarray, ids: np.ndarray) -> None:
        s = self.state(batch)
        warps, first = np.unique(lanes >> 5, return_index=True)
        for w, ident in zip(warps.tolist(), ids[first].tolist()):
            c, k = divmod(w, self.warps)
            clocks, row, fences = s.vc[c, k].copy(), s.rows.get(w), s.fenced.get(w)
            old = s.barriers.get((c, ident))
            if old is not None:
                clocks = wider(old[0], clocks)
                row, fences = larger(old[1], row), self.both(old[2], fences)
            s.barriers[c, ident] = clocks, row, fences
        s.tick(warps)

    def barrier_release(self, batch, lanes: np.ndarray, ids: np.ndarray) -> None:
        s = self.state(batch)
        warps, first, count = np.unique(lanes >> 5, return_index=True, return_counts=True)
        for w, i, size in zip(warps.tolist(), ids[first].tolist(), count.tolist()):
            c, k = divmod(w, self.warps)
            joined = s.barriers.get((c, i))
            if joined is not None:
                clocks, row, fences = joined
                s.vc[c, k] = wider(s.vc[c, k], clocks)
                if row is not None:
                    s.rows[w] = larger(s.rows.get(w), row)
                if fences is not None:
                    s.fenced[w] = self.both(s.fenced.get(w), fences)
            part = lanes[lanes >> 5 == w]
            pcs = np.unique(batch.bar_pc[part])
            inst = batch.unit.pieces[int(pcs[0])].insts[0]
            aligned = inst.op == "bar" or "aligned" in inst.mods
            if aligned and (pcs.size > 1 or size != int(batch.warp_live[w])):
                some = size if pcs.size == 1 else "some"
                why = (
                    f"only {some} of the {int(batch.warp_live[w])} threads of warp {k} arrived at it together"
                )
                self.divergence(batch, c, why, inst)
        self.absorb(s, warps, CTA_SCOPE)
        s.tick(warps)
        for c in np.unique(batch.cta_of[lanes]).tolist():
            part = lanes[batch.cta_of[lanes] == c]
            for i in np.unique(ids[batch.cta_of[lanes] == c]).tolist():
                s.barriers.pop((c, i), None)
                if batch.bar_want[c, i] < 0 and batch.cta_live[c] != batch.threads:
                    inst = batch.unit.pieces[int(batch.bar_pc[part[0]])].insts[0]
                    gone = batch.threads - int(batch.cta_live[c])
                    self.divergence(batch, c, f"{gone} of {batch.threads} threads exited before it", inst)

    def divergence(self, batch, cta: int, why: str, inst=None) -> None:
        inst = inst or batch.current_inst()
        where = tuple(int(v) for v in batch.ctas[cta])
        self.report("barrier divergence", f"CTA {where}: {why}", inst)

    def cluster_arrive(self, batch, lanes: np.ndarray, relaxed: bool) -> None:
        """Before the phase of a cluster's barrier may end. A relaxed arrival hands on what fences before it did."""
        s = self.state(batch)
        warps = np.unique(lanes >> 5)
        for w in warps.tolist():
            number = (s.base + w // self.warps) // self.cluster_size
            phase = int(batch.cluster_phase[w // self.warps // self.cluster_size])
            self.objects.pop(("cluster", number, phase - 2), None)
            key = ("cluster", number, phase)
            if relaxed:
                self.publish_fenced(key, s, w, CLUSTER_SCOPE)
            else:
                self.publish(key, s, w, self.snapshot(s, w), CLUSTER_SCOPE)
        s.tick(warps)

    def cluster_wait(self, batch, lanes: np.ndarray) -> None:
        s = self.state(batch)
        warps, first = np.unique(lanes >> 5, return_index=True)
        for w, phase in zip(warps.tolist(), batch.lane_phase[lanes[first]].tolist()):
            number = (s.base + w // self.warps) // self.cluster_size
            self.join(s, w, self.seen(("cluster", number, phase), s, w), CLUSTER_SCOPE)
        s.tick(warps)

    # messages
    def snapshot(self, s, w: int) -> Known:
        """What a warp of the batch knows now."""
        c, k = divmod(w, self.warps)
        return Known({s.base + c: s.vc[c, k].copy()}, s.rows.get(w))

    def publish(self, key, s, w: int, known: Known, scope: int) -> None:
        """Leaves what a warp knew at an address, for those that the scope lets see it."""
        cta = s.base + w // self.warps
        seers = [("cta", cta)]
        if scope >= CLUSTER_SCOPE and self.cluster_size > 1:
            seers.append(("cluster", cta // self.cluster_size))
        if scope >= GPU_SCOPE:
            seers.append(("gpu", 0))
        messages = self.objects.setdefault(key, {})
        for who in seers:
            old = messages.get(who)
            messages[who] = known if old is None else old.join(known, *self.sizes)

    def publish_fenced(self, key, s, w: int, scope: int) -> None:
        """Leaves what a warp knew at its fences, as a relaxed operation behind them does."""
        for reach, known in s.fenced.get(w, {}).items():
            self.publish(key, s, w, known, min(reach, scope))
        if w in s.inits_fenced:
            self.publish(key, s, w, s.inits_fenced[w], scope)

    def seen(self, key, s, w: int) -> tuple:
        """The messages at an address that a warp may see: of its CTA, its cluster, of all."""
        messages = self.objects.get(key)
        if not messages:
            return ()
        cta = s.base + w // self.warps
        return (
            messages.get(("cta", cta)),
            messages.get(("cluster", cta // self.cluster_size)),
            messages.get(("gpu", 0)),
        )

    def join(self, s, w: int, messages: tuple, scope: int) -> None:
        """A warp learns what messages say, as far as its own scope reaches."""
        c, k = divmod(w, self.warps)
        own = s.base + c
        for known in messages[:scope]:
            if known is None:
                continue
            row = known.row
            far = {cta: block for cta, block in known.blocks.items() if cta != own}
            if own in known.blocks:
                s.vc[c, k] = wider(s.vc[c, k], known.blocks[own])
            if row is not None:
                part = s.vc[c, k, : self.warps]
                np.maximum(part, row[own * self.warps : (own + 1) * self.warps], out=part)
                s.rows[w] = larger(s.rows.get(w), row)
            for cta, block in far.items():
                if cta // self.cluster_size == own // self.cluster_size:
                    channels = s.vc[c, k, 2 * self.warps : block.size]
                    np.maximum(channels, block[2 * self.warps :], out=channels)
            if far:
                mine = s.rows.get(w)
                new = np.zeros(self.total, np.int32) if mine is None else mine.copy()
                for cta, block in far.items():
                    part = new[cta * self.warps : (cta + 1) * self.warps]
                    np.maximum(part, block[: self.warps].astype(np.int32), out=part)
                s.rows[w] = new

    def fence(self, batch, idx, n: int, mask, scope: int) -> None:
        s = self.state(batch)
        warps = np.unique(batch.lanes(idx, n, batch.select(mask, n)) >> 5)
        self.absorb(s, warps, scope)
        for w in warps.tolist():
            s.fenced[w] = {**s.fenced.get(w, {}), scope: self.snapshot(s, w)}
        s.tick(warps)

    def fence_inits(self, batch, idx, n: int, mask) -> None:
        """fence.mbarrier_init: of all that a warp has done it orders the initialisations of mbarriers alone, so that these are
        told of by a channel of their own."""
        s = self.state(batch)
        warps = np.unique(batch.lanes(idx, n, batch.select(mask, n)) >> 5)
        for w in warps.tolist():
            made = s.inits_open.pop(w, ())
            if not made:
                continue
            c, k = divmod(w, self.warps)
            number = s.channel("inits", w * 32)
            count = s.signals["inits", w] = s.signals.get(("inits", w), 0) + 1
            column = 2 * self.warps + number
            s.vc[c, k, column] = count
            block = np.zeros(s.vc.shape[2], np.int64)
            block[column] = count
            s.inits_fenced[w] = Known({s.base + c: block}, None)
            at = np.array(made)
            for address in made:
                s.inits_told[address] = number, count
            self.initialised_by(batch, s, at, number, count)
        s.tick(warps)

    def absorb(self, s, warps: np.ndarray, scope: int) -> None:
        """Relaxed reads seen earlier take effect at a fence or barrier, as far as that reaches."""
        if not s.pending:
            return
        for w in warps.tolist():
            reads = s.pending.get(w)
            if not reads:
                continue
            for address, (reach, messages) in list(reads.items()):
                self.join(s, w, messages, min(scope, reach))
                if scope >= reach:
                    del reads[address]

    def synchronise(
        self, batch, s, kind: str, at: np.ndarray, lanes: np.ndarray, order: str, scope: int
    ) -> None:
        """What strong accesses order: acquire joins, release publishes, relaxed ones together with fences."""
        warps = lanes >> 5
        reads, writes = kind in ("r", "a"), kind in ("w", "a")
        acquires, releases = order in ("acquire", "acq_rel"), order in ("release", "acq_rel")
        publishes = writes and (releases or bool(s.fenced) or bool(s.inits_fenced))
        if not publishes and not (reads and self.objects):
            return
        # in the order of lanes, which is the order in which atomics of one instruction happen
        for address, w in dict.fromkeys(zip(at.tolist(), warps.tolist())):
            messages = self.seen(address, s, w) if reads else ()
            if messages:
                if acquires:
                    self.join(s, w, messages, scope)
                else:
                    s.pending.setdefault(w, {})[address] = scope, messages
            if not publishes:
                continue
            if releases:
                self.publish(address, s, w, self.snapshot(s, w), scope)
            self.publish_fenced(address, s, w, scope)
        if writes and releases:
            s.tick(np.unique(warps))

    # mbarriers
    def release(self, batch, at: np.ndarray, lanes: np.ndarray, relaxed: bool = False) -> None:
        """Arrivals at mbarriers."""
        s = self.state(batch)
        pairs = np.unique(np.stack([at, lanes >> 5], 1), axis=0)
        for address, w in pairs.tolist():
            if relaxed:
                self.publish_fenced((address, "pending"), s, w, CLUSTER_SCOPE)
            else:
                self.publish((address, "pending"), s, w, self.snapshot(s, w), CLUSTER_SCOPE)
        s.tick(np.unique(lanes >> 5))

    def phase_flip(self, batch, address: int) -> None:
        """The arrivals so far are what a wait will see, with those of earlier phases and what landed in them."""
        s = self.state(batch)
        count = s.signals["phases", address] = s.signals.get(("phases", address), 0) + 1
        at = (address - s.shared[0]) % (batch.shared_stride * batch.cluster_size)
        number = s.channels.get(("phases", at))
        if number is not None:
            block = np.zeros(s.vc.shape[2], np.int64)
            block[2 * self.warps + number] = count
            owner = (address - s.shared[0]) // batch.shared_stride
            known = Known({s.base + owner: block}, None)
            self.publish((address, "pending"), s, owner * self.warps, known, CLUSTER_SCOPE)
        done = self.objects.setdefault((address, "done"), {})
        for who, known in self.objects.pop((address, "pending"), {}).items():
            done[who] = known if who not in done else done[who].join(known, *self.sizes)

    def acquire(self, batch, at: np.ndarray, lanes: np.ndarray, relaxed: bool = False) -> None:
        """Waits at mbarriers that have ended."""
        s = self.state(batch)
        pairs = np.unique(np.stack([at, lanes >> 5], 1), axis=0)
        if self.sources:
            over = {a: s.signals.get(("phases", a), 0) for a in np.unique(at).tolist()}
            self.sources = [t for t in self.sources if t.phase < 0 or t.phase >= over.get(t.signals[0][0], 0)]
        for address, w in pairs.tolist():
            messages = self.seen((address, "done"), s, w)
            if not relaxed:
                self.join(s, w, messages, CLUSTER_SCOPE)
            elif messages:  # a fence will
                s.pending.setdefault(w, {})[address, "done"] = CLUSTER_SCOPE, messages
            s.waits[w] = address, batch.phases.get(address, 1) - 1, batch.current_inst()
