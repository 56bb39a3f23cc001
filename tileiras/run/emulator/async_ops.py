"""cp.async groups and mbarriers.

A copy is performed when its group is waited for, not when it is issued: a kernel that forgets to wait reads the old
bytes, as it may on hardware. An mbarrier is a 64-bit word in shared memory: bit 0 the phase parity, then pending
arrivals (20 bits), expected arrivals (20 bits) and the pending transaction count (22 bits, signed).
"""

from __future__ import annotations

import numpy as np

from .memory import gather, scatter

_TX = 1 << 41


class Copy:
    __slots__ = ("barriers", "count", "group", "lanes", "size", "source", "to")

    def __init__(self, to, source, size, count, lanes, group) -> None:
        self.to, self.source, self.size, self.count, self.lanes, self.group = (
            to,
            source,
            size,
            count,
            lanes,
            group,
        )


def _perform(c: Copy, part) -> None:
    to = c.to if part is None else c.to[part]
    source = c.source if part is None else c.source[part]
    if c.count is None:
        scatter(to, c.size, gather(source, c.size))
        return
    count = c.count if part is None or c.count.size == 1 else c.count[part]
    whole = np.broadcast_to(count >= c.size, to.shape)
    scatter(to[whole], c.size, gather(np.broadcast_to(source, to.shape)[whole], c.size))
    rest = ~whole
    if rest.any():
        t, s, k = to[rest], source[rest], np.broadcast_to(count, to.shape)[rest]
        for i in range(c.size):
            take = k > i
            scatter(t[~take] + i, 1, np.zeros(1, np.uint8))
            scatter(t[take] + i, 1, gather(s[take] + i, 1))


class AsyncOps:
    """Mixed into Batch."""

    def cp_async(self, to, source, size: int, count, mask, idx, n: int) -> None:
        sel = self.select(mask, n)
        if sel is not None:
            if sel.size == 0:
                return
            to, source = (v[sel] if v.size > 1 else v for v in (to, source))
            count = count[sel] if count is not None and count.size > 1 else count
        total = n if sel is None else sel.size
        to, source = np.broadcast_to(to, (total,)), np.broadcast_to(source, (total,))
        at = self.host(to, "shared" if not (int(to.max()) >> 60) else "generic", size, idx, n, sel, True)
        if count is None:
            src = self.host(source, "global", size, idx, n, sel, False)
            if self.checker is not None:
                self.checker.access(self, "r", "global", source, src, size, idx, n, sel, "")
        else:
            count = np.broadcast_to(np.minimum(count, size), (total,))
            src = source
            full = np.flatnonzero(count > 0)
            if full.size:  # only the bytes that are read need to exist
                place = (np.arange(n) if sel is None else sel)[full]
                for size_read in np.unique(count[full]):
                    some = count[full] == size_read
                    self.check_global(source[full][some], int(size_read), size, idx, n, place[some])
        lanes = self.lanes(idx, n, sel)
        if self.checker is not None:
            self.checker.copy_issued(self, at, size, lanes)
        self.copies.append(Copy(at, src, size, count, lanes, self.committed[lanes]))

    def check_global(self, where, width: int, align: int, idx, n: int, sel) -> None:
        """Bounds of partial copies: any byte count at the alignment of the whole."""
        if np.bitwise_or.reduce(where) & (align - 1):
            bad = int(np.flatnonzero(where & (align - 1))[0])
            self.fault("misaligned", f"{align}-byte copy from {int(where[bad]):#x}", idx, n, sel, where, bad)
        bad = self.memory.outside(where, width)
        if bad is not None:
            at = int(bad[0])
            self.fault(
                "out of bounds",
                f"{width}-byte copy from {int(where[at]):#x}, {self.memory.nearest(int(where[at]))}",
                idx,
                n,
                sel,
                where,
                at,
            )

    def cp_commit(self, idx, n: int, mask) -> None:
        sel = self.select(mask, n)
        if idx is None and sel is None:
            self.committed += 1
        else:
            self.committed[self.lanes(idx, n, sel)] += 1

    def cp_wait(self, idx, n: int, keep: int, mask) -> None:
        """Completes groups older than the `keep` newest of each lane; keep -1: everything, committed or not."""
        if not self.copies:
            return
        lanes = self.lanes(idx, n, self.select(mask, n))
        limit = np.full(self.L, -1, np.int64)
        limit[lanes] = self.committed[lanes] - keep if keep >= 0 else 1 << 60
        left = []
        for c in self.copies:
            due = c.group < limit[c.lanes]
            if due.all():
                _perform(c, None)
                if self.checker is not None:
                    self.checker.copy_done(self, c.to, c.size, c.lanes)
            elif due.any():
                part = np.flatnonzero(due)
                _perform(c, part)
                if self.checker is not None:
                    self.checker.copy_done(self, c.to[part], c.size, c.lanes[part])
                rest = np.flatnonzero(~due)
                left.append(
                    Copy(
                        c.to[rest],
                        c.source[rest],
                        c.size,
                        None if c.count is None else c.count[rest],
                        c.lanes[rest],
                        c.group[rest],
                    )
                )
            else:
                left.append(c)
        self.copies = left

    def cp_mbarrier(self, where, space: str, noinc: bool, mask, idx, n: int) -> None:
        """The lane's copies so far arrive on a barrier. We complete them now: one permitted moment."""
        self.cp_wait(idx, n, -1, mask)
        if noinc:
            self.mbar_arrive(where, space, None, None, False, mask, idx, n)

    # mbarriers
    def barrier_words(self, where, space: str, mask, idx, n: int, write: bool = True):
        sel = self.select(mask, n)
        if sel is not None and sel.size == 0:
            return None, None
        if sel is not None and where.size > 1:
            where = where[sel]
        total = n if sel is None else sel.size
        at = self.host(np.broadcast_to(where, (total,)), space, 8, idx, n, sel, write)
        return at, sel

    def mbar_init(self, where, space: str, count, mask, idx, n: int) -> None:
        at, sel = self.barrier_words(where, space, mask, idx, n)
        if at is None:
            return
        c = np.broadcast_to(count if sel is None or count.size == 1 else count[sel], at.shape).astype(
            np.uint64
        )
        scatter(at, 8, (c << np.uint64(1)) | (c << np.uint64(21)) | (np.uint64(0) << np.uint64(41)))
        if self.checker is not None:
            self.checker.barrier_init(self, at, self.lanes(idx, n, sel))

    def mbar_inval(self, where, space: str, mask, idx, n: int) -> None:
        at, _ = self.barrier_words(where, space, mask, idx, n)
        if at is not None:
            scatter(at, 8, np.zeros(1, np.uint64))

    def mbar_change(self, address: int, arrivals: int, tx: int, drop: bool) -> int:
        """Applies pending-count and tx-count changes to one barrier; returns the state before."""
        word = int(gather(np.array([address]), 8)[0])
        phase, pending, expected, count = word & 1, word >> 1 & 0xFFFFF, word >> 21 & 0xFFFFF, word >> 41
        count = count - (1 << 23) if count >> 22 else count
        state = word
        if drop:
            expected -= arrivals
        pending -= arrivals
        count += tx
        if pending < 0:
            from .access import Fault

            raise Fault("mbarrier", f"more arrivals than expected at mbarrier {address:#x}", None)
        if pending == 0 and count == 0:
            phase, pending = phase ^ 1, expected
            if self.checker is not None:
                self.checker.phase_flip(address)
        self.write(
            np.array([address]),
            8,
            np.array([phase | pending << 1 | expected << 21 | (count & (1 << 23) - 1) << 41], np.uint64),
        )
        return state

    def mbar_arrive(self, where, space: str, count, tx, drop: bool, mask, idx, n: int) -> np.ndarray:
        at, sel = self.barrier_words(where, space, mask, idx, n)
        out = np.zeros(n, np.uint64)
        if at is None:
            return out
        lanes = self.lanes(idx, n, sel)
        if self.checker is not None:
            self.checker.release(self, at, lanes)
        place = np.arange(n) if sel is None else sel

        def of(v, i: int, default: int) -> int:
            return default if v is None else int(v[0] if v.size == 1 else v[i])

        for k, address in enumerate(at.tolist()):
            i = int(place[k])
            bytes_ = of(tx, i, 0)
            if bytes_:
                self.mbar_change(address, 0, bytes_, False)
            out[i] = self.mbar_change(address, of(count, i, 1), 0, drop)
        return out

    def mbar_tx(self, where, space: str, tx, complete: bool, mask, idx, n: int) -> None:
        at, sel = self.barrier_words(where, space, mask, idx, n)
        if at is None:
            return
        place = np.arange(n) if sel is None else sel
        for k, address in enumerate(at.tolist()):
            value = int(tx[0] if tx.size == 1 else tx[int(place[k])])
            self.mbar_change(address, 0, -value if complete else value, False)

    def mbar_test(self, where, space: str, what, parity: bool, mask, idx, n: int) -> np.ndarray:
        """Whether the phase named by a state or a parity has completed."""
        if self.transfers:
            self.engine_step()
        at, sel = self.barrier_words(where, space, mask, idx, n, write=False)
        out = np.zeros(n, bool)
        if at is None:
            return out
        now = gather(at, 8) & np.uint64(1)
        want = what if sel is None or what.size == 1 else what[sel]
        done = now != (want & want.dtype.type(1)).astype(np.uint64)
        if not done.all():
            self.spins += 1
            if self.progress.open:
                lanes = self.lanes(idx, n, sel)[~done]
                self.progress.polled(self, self.current_inst(), int(at[~done][0]), lanes, True)
        if self.checker is not None and done.any():
            self.checker.acquire(self, at[done], self.lanes(idx, n, sel)[done])
        if sel is None:
            return done
        out[sel] = done
        return out
