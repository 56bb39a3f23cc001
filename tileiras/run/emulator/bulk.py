"""Bulk copies: `cp.async.bulk` and its tensor and reducing forms, `st.async`, and their completion.

A copy is carried out by an engine of its own at some moment after its issue. Without a seed that is when a thread next
looks at an mbarrier, waits for a group, or nothing else can run; with one it is any moment, chosen by the seed, and in
any order. A copy into shared memory completes on an mbarrier by its bytes; a copy out of it belongs to the issuing
thread's group, and reads its source first (`wait_group.read`) and writes later.
"""

from __future__ import annotations

import numpy as np

from .access import Fault, combine
from .boxes import BoxOps, numpy_type
from .memory import CLUSTER_SHIFT, gather
from .pixels import PixelOps
from .tensor_map import TensorMap

_OFFSET = (1 << CLUSTER_SHIFT) - 1


class Transfer:
    """One copy under way.

    lane: who issued it. signals: (mbarrier address, bytes) per destination CTA. read(): takes the source; write(data)
    puts it down. source, targets: chunk addresses in shared memory, for the checks; far: (chunk addresses, width) in
    global memory, of the source where signals tell of the end, else of the target. phase: the phases that its mbarrier
    had behind it when it landed. batch: whose, where that is asked from outside.
    """

    __slots__ = (
        "batch", "data", "far", "flights", "group", "inst", "lane", "phase", "read", "signals", "source", "taken", "targets",
        "width", "write",
    )  # fmt: skip

    def __init__(
        self, inst, lane: int, read, write, signals, group: int, source, targets, width: int, far=None
    ) -> None:
        self.inst, self.lane, self.read, self.write, self.signals = inst, lane, read, write, signals
        self.group, self.source, self.targets, self.width, self.far = group, source, targets, width, far
        self.data = None
        self.batch: BulkOps | None = None
        self.taken = False
        self.phase = -1
        self.flights: list[Flight] = []


class Flight:
    """A bulk copy into a CTA as the meter follows it: until somebody has seen its mbarrier's phase complete."""

    __slots__ = ("barrier", "cta", "phase", "size")

    def __init__(self, barrier: int, size: int, cta: int) -> None:
        self.barrier, self.size, self.cta = barrier, size, cta
        self.phase = -1  # phases that the mbarrier had behind it when the copy landed


class BulkOps(BoxOps, PixelOps):
    """Mixed into Batch."""

    # addresses
    def shared_place(self, lane: int, address: int) -> tuple[int, int]:
        """(CTA of the batch, offset) of a shared::cluster, shared::cta or generic shared address."""
        address &= (1 << 60) - 1
        cta = int(self.cta_of[lane])
        rank = address >> CLUSTER_SHIFT
        if self.cluster_size > 1:
            if rank >= self.cluster_size:
                raise Fault("out of bounds", f"CTA {rank} of a cluster of {self.cluster_size}", lane)
            cta = cta // self.cluster_size * self.cluster_size + rank
            self.check_there(lane, cta)
        return cta, address & _OFFSET

    def check_there(self, lane: int, cta: int, inst=None) -> None:
        """Errors: Fault where what a lane does (or has done, by an instruction that is under way) meets a CTA that has ended."""
        if self.ended[cta] and cta != int(self.cta_of[lane]):
            late = f" by the instruction at PTX line {inst.line}" if inst is not None else ""
            raise Fault(
                "ended CTA", f"CTA {tuple(self.ctas[cta].tolist())} has ended before this access{late}", lane
            )

    def shared_span(self, lane: int, cta: int, offset: int, size: int, align: int) -> int:
        """The checked real address of bytes of shared memory."""
        if offset % align:
            raise Fault(
                "misaligned", f"shared offset {offset} of a bulk copy is not a multiple of {align}", lane
            )
        if offset + size > self.shared_bytes:
            raise Fault(
                "out of bounds",
                f"{size} bytes at shared offset {offset} ({self.shared_bytes} bytes of shared memory)",
                lane,
            )
        return self.shared_start + cta * self.shared_stride + offset

    def global_span(self, lane: int, address: int, size: int, write: bool) -> int:
        where = np.array([address], np.int64)
        if size and self.memory.outside(where, size, write) is not None:
            verb = "store" if write else "load"
            raise Fault(
                "out of bounds",
                f"{size}-byte bulk {verb} at {address:#x}, {self.memory.nearest(address)}",
                lane,
            )
        return address

    def each(self, mask, idx, n: int, *arrays):
        """(lane, values) of the lanes that take part."""
        sel = self.select(mask, n)
        lanes = self.lanes(idx, n, sel)
        places = np.arange(n) if sel is None else sel
        for lane, at in zip(lanes.tolist(), places.tolist()):
            yield lane, [int(a[0] if a.size == 1 else a[at]) for a in arrays]

    def destinations(self, lane: int, cta: int, mask: int | None, barrier: int | None, pair: bool):
        """(CTA, CTA of its mbarrier, offset of that) for a copy without or with multicast."""
        at, offset = (None, None) if barrier is None else self.shared_place(lane, barrier)
        if mask is None:
            if at is not None and not (pair and cta // 2 == at // 2):
                self.same_cta(lane, cta, at)
            return [(cta, at, offset)]
        self.ranks_exist(lane, mask)
        if at is not None and not (pair and cta // 2 == at // 2):
            self.same_cta(lane, cta, at)
        first = cta // self.cluster_size * self.cluster_size
        out = []
        for rank in range(self.cluster_size):
            if mask >> rank & 1:
                to = first + rank
                owner = to if not pair else first + (rank & ~1 | (at - first) & 1)
                self.check_there(lane, to)
                out.append((to, owner, offset))
        return out

    def same_cta(self, lane: int, cta: int, owner: int) -> None:
        """Errors: Fault where data goes to one CTA and its mbarrier lies in another."""
        if cta != owner:
            one, two = (c % self.cluster_size for c in (cta, owner))
            text = f"the destination lies in CTA {one} of the cluster, and the mbarrier that tells of it in CTA {two}"
            raise Fault("mbarrier", text, lane)

    def ranks_exist(self, lane: int, mask: int) -> None:
        """Errors: Fault for a mask of CTAs that names more than the cluster has."""
        if mask >> self.cluster_size:
            rank = mask.bit_length() - 1
            raise Fault(
                "cluster", f"mask {mask:#x} names CTA {rank} of a cluster of {self.cluster_size}", lane
            )

    def signal_of(self, lane: int, places, size: int) -> list:
        return [
            (self.shared_span(lane, owner, offset, 8, 8), size, to)
            for to, owner, offset in places
            if owner is not None
        ]

    # issue
    def bulk_copy(self, inst, to_space: str, from_space: str, op: str, type_: str, multicast: bool,
                  to, source, size, barrier, ranks, mask, idx, n: int) -> None:  # fmt: skip
        """cp.async.bulk and cp.reduce.async.bulk; barrier is None where a group completes it."""
        arrays = [
            to,
            source,
            size,
            *((barrier,) if barrier is not None else ()),
            *((ranks,) if multicast else ()),
        ]
        for lane, values in self.each(mask, idx, n, *arrays):
            dst, src, count = values[:3]
            bar = values[3] if barrier is not None else None
            if count % 16:
                raise Fault("misaligned", f"a bulk copy of {count} bytes is not a multiple of 16", lane)
            reads = writes = far = None
            if from_space == "global":
                if src % 16:
                    raise Fault("misaligned", f"source {src:#x} of a bulk copy is not a multiple of 16", lane)
                source_at = self.global_span(lane, src, count, False)
                far = self.global_access(lane, "r", source_at, count)
            else:
                cta, offset = self.shared_place(lane, src)
                source_at = self.shared_span(lane, cta, offset, count, 16)
                reads = np.arange(source_at, source_at + count, 16)
            signals: list = []
            if to_space == "global":
                if dst % 16:
                    raise Fault(
                        "misaligned", f"destination {dst:#x} of a bulk copy is not a multiple of 16", lane
                    )
                target = [self.global_span(lane, dst, count, True)]
                far = self.global_access(lane, "w" if not op else "a", dst, count)
            else:
                cta, offset = self.shared_place(lane, dst)
                places = self.destinations(lane, cta, values[-1] if multicast else None, bar, False)
                target = [self.shared_span(lane, p[0], offset, count, 16) for p in places]
                signals = self.signal_of(lane, places, count)
                writes = [np.arange(t, t + count, 16) for t in target]

            def read(at=source_at, count=count):
                return gather(np.arange(at, at + count, 16), 16)

            def write(data, target=target):
                for t in target:
                    if op:
                        where = np.arange(t, t + data.size * 16, np.dtype(numpy_type(type_)).itemsize)
                        new = data.view(numpy_type(type_))
                        old = gather(where, new.dtype.itemsize).view(new.dtype)
                        result = combine(op, type_, old, new)
                        self.write(
                            where,
                            new.dtype.itemsize,
                            np.ascontiguousarray(result).view(f"u{new.dtype.itemsize}"),
                        )
                    else:
                        self.write(np.arange(t, t + data.size * 16, 16), 16, data)

            self.launch_transfer(inst, lane, read, write, signals, reads, writes, far=far)
        self.issued_far(inst)

    def store_async(self, inst, to, values: tuple, op: str, type_: str, barrier, mask, idx, n: int) -> None:
        """st.async and red.async."""
        width = values[0].dtype.itemsize
        for lane, row in self.each(mask, idx, n, to, barrier, *values):
            if self.cluster_size == 1:
                raise Fault("cluster", f"{inst.op}.async needs a cluster of more than one CTA", lane)
            cta, offset = self.shared_place(lane, row[0])
            size = width * (len(row) - 2)
            at = self.shared_span(lane, cta, offset, size, size)
            owner, place = self.shared_place(lane, row[1])
            self.same_cta(lane, cta, owner)
            signals = [(self.shared_span(lane, owner, place, 8, 8), size, cta)]
            where = np.arange(at, at + size, width)
            data = np.array(row[2:], values[0].dtype)

            def write(data, where=where):
                if op:
                    old = gather(where, width).view(numpy_type(type_))
                    data = np.ascontiguousarray(combine(op, type_, old, data.view(numpy_type(type_)))).view(
                        data.dtype
                    )
                self.write(where, width, data)

            self.launch_transfer(inst, lane, lambda data=data: data, write, signals, None, [where], width)

    def try_cancel(self, inst, to, barrier, everyone: bool, mask, idx, n: int) -> None:
        """clusterlaunchcontrol.try_cancel: 16 bytes of shared memory receive (x, y, z, whether) of a cluster that will not
        be launched, and complete on an mbarrier, in all CTAs of the cluster if asked for. NVIDIA's encoding is not public."""
        for lane, (address, bar) in self.each(mask, idx, n, to, barrier):
            cta, offset = self.shared_place(lane, address)
            ranks = (1 << self.cluster_size) - 1 if everyone else None
            places = self.destinations(lane, cta, ranks, bar, False)
            targets = [self.shared_span(lane, p[0], offset, 16, 16) for p in places]
            first = self.launch.cancel(self.cluster_size)
            words = np.array([*(first if first is not None else (0, 0, 0)), first is not None], np.uint32)
            answer = words.view("V16")

            def write(data, targets=targets):
                for t in targets:
                    self.write(np.array([t]), 16, data)

            self.launch_transfer(
                inst, lane, lambda data=answer: data, write, self.signal_of(lane, places, 16), None,
                [np.array([t]) for t in targets],
            )  # fmt: skip

    def global_access(self, lane: int, kind: str, address: int, size: int):
        """Notes what a lane's copy touches in global memory: (chunk addresses, width)."""
        if (self.checker is None and self.meter is None) or not size:
            return None
        width = min(16, (address | size) & -(address | size))
        at = np.arange(address, address + size, width)
        self.far.setdefault((kind, width), []).append((at, lane))
        return at, width

    def issued_far(self, inst) -> None:
        """Records what the lanes of one instruction touch in global memory: at once, for lanes of one instruction that write
        the same place do not race. A copy out of shared memory may write until its thread has waited for its group."""
        for (kind, width), parts in self.far.items():
            at = np.concatenate([p[0] for p in parts])
            lanes = np.repeat([p[1] for p in parts], [p[0].size for p in parts])
            if self.meter is not None:
                self.meter.far(self, inst, at, width, lanes)
            if self.checker is None:
                continue
            clock = None if kind == "r" else self.checker.PENDING
            self.checker.record(self, kind, at, width, lanes, "relaxed" if kind == "a" else "", clock, inst)
        self.far.clear()

    def tensor_load(self, inst, mode: str, multicast: bool, pair: bool, to, table, coords, offsets, barrier, ranks, mask, idx,
                    n: int) -> None:  # fmt: skip
        arrays = [to, table, barrier, *coords, *offsets, *((ranks,) if multicast else ())]
        for lane, values in self.each(mask, idx, n, *arrays):
            origin = values[3 : 3 + len(coords)]
            tm = self.tensor_map_at(lane, values[1], 2 if mode == "rows" else len(coords), mode)
            size = tm.box_bytes(mode)
            cta, offset = self.shared_place(lane, values[0])
            places = self.destinations(lane, cta, values[-1] if multicast else None, values[2], pair)
            targets = [self.shared_span(lane, p[0], offset, size, 128) for p in places]
            signals = self.signal_of(lane, places, size)
            chunks = tm.where(np.arange(offset, offset + size, 16)) - offset
            away = values[3 + len(coords) : 3 + len(coords) + len(offsets)]
            read, far = self.box_source(tm, mode, origin, away, lane)

            def write(data, targets=targets, chunks=chunks):
                for t in targets:
                    self.write(t + chunks, 16, data)

            self.launch_transfer(
                inst, lane, read, write, signals, None, [t + np.sort(chunks) for t in targets], far=far
            )
        self.issued_far(inst)

    def box_source(self, tm: TensorMap, mode: str, origin: list[int], offsets: list[int], lane: int):
        """(what reads a box of a tensor, what it touches there, as `launch_transfer` wants both)."""
        if mode == "tile":
            far = self.tensor_record(self.tensor_clip(tm, origin, lane, False), lane, "r")
            return lambda: self.tensor_read(tm, origin, lane), far
        found = self.pixel_rows(tm, mode, origin, offsets, lane, False)
        return lambda: self.pixel_read(tm, mode, found), self.pixel_record(found, lane, "r")

    def box_target(self, tm: TensorMap, mode: str, origin: list[int], op: str, lane: int):
        """(what writes a box of a tensor, what it touches there)."""
        if mode == "tile":
            far = self.tensor_record(self.tensor_clip(tm, origin, lane, True), lane, "a" if op else "w")
            return lambda data: self.tensor_write(tm, origin, lane, data, op), far
        found = self.pixel_rows(tm, mode, origin, [0] * (tm.rank - 2), lane, True)
        return lambda data: self.pixel_write(tm, mode, found, data), self.pixel_record(found, lane, "w")

    def tensor_store(self, inst, mode: str, op: str, table, coords, source, mask, idx, n: int) -> None:
        for lane, values in self.each(mask, idx, n, table, source, *coords):
            tm = self.tensor_map_at(lane, values[0], 2 if mode == "rows" else len(coords), mode)
            origin = values[2:]
            size = tm.box_bytes(mode)
            cta, offset = self.shared_place(lane, values[1])
            at = (
                self.shared_span(lane, cta, offset, size, 128)
                + tm.where(np.arange(offset, offset + size, 16))
                - offset
            )
            write, far = self.box_target(tm, mode, origin, op, lane)

            def read(at=at):
                return gather(at, 16)

            self.launch_transfer(inst, lane, read, write, [], np.sort(at), None, far=far)
        self.issued_far(inst)

    def launch_transfer(
        self, inst, lane: int, read, write, signals, reads, writes, width: int = 16, far=None
    ) -> None:
        group = int(self.bulk_committed[lane])
        t = Transfer(inst, lane, read, write, signals, group, reads, writes, width, far)
        if self.checker is not None:
            if reads is not None:
                self.checker.async_read(self, inst, reads, 16, np.full(reads.size, lane))
            for at in writes or ():
                self.checker.async_write(self, inst, at, width, np.full(at.size, lane))
            if signals:
                barriers = np.array([signal[0] for signal in signals])
                self.checker.barrier_used(self, barriers, np.full(barriers.size, lane), False)
            if signals and far is not None:
                t.batch = self
                self.checker.sources.append(t)
        if self.meter is not None:
            bytes_ = sum(size for _, size, _ in signals) or (0 if reads is None else reads.size * 16)
            self.meter.copy(inst, bytes_)
            t.flights = [Flight(*signal) for signal in signals]
            self.flights += t.flights
        self.transfers.append(t)
        if self.order is not None and self.order.rng.random() < 0.3:
            self.finish_transfer(t)

    # progress
    def take_source(self, t: Transfer) -> None:
        if not t.taken:
            t.data, t.taken = t.read(), True

    def finish_transfer(self, t: Transfer) -> None:
        for _, _, to in t.signals:
            self.check_there(t.lane, to, t.inst)
        self.take_source(t)
        t.write(t.data)
        t.data = None
        self.transfers.remove(t)
        self.progress.changed(self.launch.steps)
        if self.checker is not None:
            if t.signals:
                t.phase = self.checker.phases_of(self, t.signals[0][0])
            for i, at in enumerate(t.targets or ()):
                self.checker.async_written(self, at, t.width, t.signals[i][0])
                if t.inst.op in ("st", "red"):
                    self.checker.stored_late(self, t.inst, at, t.width, t.signals[i][0])
            if t.signals and self.cluster_size > 1:
                self.checker.copy_landed(self, t)
        for flight in t.flights:
            flight.phase = self.phases.get(flight.barrier, 0)
        for address, size, _ in t.signals:
            self.mbar_change(address, 0, -size, False)
        if not t.signals and (t.source is not None or t.far is not None):
            self.transfers_done.append(t)

    def engine_step(self) -> None:
        """The engines go on: all the way without a seed, else perhaps by one copy or product."""
        if self.order is None:
            self.drain()
            return
        rng, soon = self.order.rng, self.order.engine
        if self.transfers and rng.random() < soon:
            self.finish_transfer(self.transfers[int(rng.integers(len(self.transfers)))])
        if self.tasks and rng.random() < soon:
            self.tensor_step(int(self.cta_of[self.tasks[int(rng.integers(len(self.tasks)))].lane]))

    def drain(self) -> None:
        """The engines finish."""
        while self.transfers:
            self.finish_transfer(self.transfers[0])
        while self.tasks:
            self.tensor_step()

    def bulk_kept(self) -> None:
        """At the end: what was copied into shared memory has been waited for, and what is copied out of it has been read."""
        if self.checker is None:
            return
        mine = [t for t in self.checker.sources if t.batch is self]
        self.checker.sources = [t for t in self.checker.sources if t.batch is not self]
        for t in mine:
            self.checker.report(
                "copy not waited for",
                f"{self.thread_name(t.lane)} ended before anybody saw a phase of the mbarrier at "
                f"{self.spell_place(t.signals[0][0])} complete that tells of its copy",
                t.inst,
            )
        for t in (*self.transfers, *self.transfers_done):
            if t.source is not None and not t.signals:
                self.checker.report(
                    "copy not waited for",
                    f"{self.thread_name(t.lane)} ended while group {t.group} of its copies out of shared memory may still "
                    "read: no cp.async.bulk.wait_group.read came behind it",
                    t.inst,
                )

    def bulk_commit(self, mask, idx, n: int) -> None:
        self.bulk_committed[self.lanes(idx, n, self.select(mask, n))] += 1

    def bulk_wait(self, keep: int, read_only: bool, mask, idx, n: int) -> None:
        if not self.transfers and not self.transfers_done:
            return
        lanes = self.lanes(idx, n, self.select(mask, n))
        limit = np.full(self.L, -1, np.int64)
        limit[lanes] = self.bulk_committed[lanes] - keep
        for t in list(self.transfers):
            if not t.signals and t.group < limit[t.lane]:
                if read_only:
                    self.take_source(t)
                    self.reads_over(t)
                else:
                    self.finish_transfer(t)
        left = []
        for t in self.transfers_done:
            if t.group < limit[t.lane]:
                self.reads_over(t)
                if not read_only or t.far is None:
                    self.writes_over(t)
                    continue
            left.append(t)
        self.transfers_done = left

    def reads_over(self, t: Transfer) -> None:
        if self.checker is not None and t.source is not None:
            self.checker.async_read_done(self, t.source, 16, np.full(t.source.size, t.lane))
            t.source = None

    def writes_over(self, t: Transfer) -> None:
        if self.checker is not None and t.far is not None:
            at, width = t.far
            self.checker.settle_global(self, ("write",), at, width, np.full(at.size, t.lane))
