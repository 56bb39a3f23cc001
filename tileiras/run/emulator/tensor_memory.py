"""Tensor memory: 128 lanes by 512 columns of 32 bits per CTA, who has allocated them, and what moves between them and registers.

Products and copies that write it are in tcgen05.py.
"""

from __future__ import annotations

import numpy as np

from .access import Fault

LANES, COLUMNS = 128, 512
PARTS = 8  # of a CTA's lanes, sixteen each: what a product of 64 rows, or a load of sixteen, touches of a warp's lanes


def granules(
    cta: int, column: int, count: int, part: int = 0, parts: int = PARTS, warps: int = 1
) -> np.ndarray:
    """Numbers of what the checks watch, sixteen lanes of one column each: `parts` from `part` on, once a warp of `warps`."""
    rows = (np.arange(parts) + part + 2 * np.arange(warps)[:, None]).reshape(-1, 1)
    return ((cta * PARTS + rows) * COLUMNS + np.arange(column, column + count)).reshape(-1)


class TensorMemoryOps:
    """Mixed into Batch, below TensorOps."""

    _tensor: np.ndarray | None = None  # [CTA, lane, column], made on first use
    tensor_used: np.ndarray  # [CTA, column]: allocated
    tensor_closed: np.ndarray  # [CTA]: gave up the right to allocate
    pair_tickets: dict[int, int]  # warp -> at which of its CTA's collective instructions it waits
    pair_asked: dict[int, int]  # CTA -> how many of these its warps have come to
    pair_log: dict[int, list]  # CTA -> what it has allocated and freed with its peer

    @property
    def tensor_memory(self) -> np.ndarray:
        if self._tensor is None:
            count = int(self.cta_count)
            self._tensor = np.zeros(count * LANES * COLUMNS, np.uint32).reshape(count, LANES, COLUMNS)
            self.tensor_used = np.zeros(count * COLUMNS, np.bool_).reshape(count, COLUMNS)
            self.tensor_closed = np.zeros(count, np.bool_)
        return self._tensor

    def tensor_span(self, lane: int, cta: int, column: int, count: int) -> None:
        """Columns must be allocated."""
        _ = self.tensor_memory
        if column + count > COLUMNS or not self.tensor_used[cta, column : column + count].all():
            raise Fault(
                "tensor memory",
                f"columns {column} to {column + count - 1} of tensor memory are not allocated",
                lane,
            )

    # allocation: one warp of each CTA
    def meet_peer(self, pc: int, lanes: np.ndarray) -> np.ndarray | None:
        """tcgen05.alloc and dealloc of a pair: warps go on when as many of the peer have come to one. The others wait."""
        warps = np.unique(lanes >> 5).tolist()
        for warp in warps:
            if warp not in self.pair_tickets:
                cta = warp // self.warps_per_cta
                self.pair_tickets[warp] = self.pair_asked[cta] = self.pair_asked.get(cta, 0) + 1
                self.stalled.clear()
        go = [w for w in warps if self.pair_asked.get(w // self.warps_per_cta ^ 1, 0) >= self.pair_tickets[w]]
        for warp in go:
            del self.pair_tickets[warp]
        some = np.isin(lanes >> 5, go)
        if not some.all():
            others = pc in self.groups  # as in `ready`
            self.push(pc, lanes[~some])
            if not others:
                self.stalled.add(pc)
        return lanes[some] if go else None

    def pair_agrees(self, lane: int, cta: int, *what) -> None:
        """Errors: Fault where the CTAs of a pair allocate or free different columns together."""
        mine, other = (self.pair_log.setdefault(c, []) for c in (cta, cta ^ 1))
        mine.append(what)
        k = len(mine) - 1
        if k < len(other) and other[k] != what:
            texts = [f"{verb} {count} columns from {column} on" for verb, column, count in (what, other[k])]
            raise Fault("tensor memory", f"a CTA {texts[0]}, while its peer {texts[1]}", lane)

    def tensor_alloc(self, inst, pair: bool, where, space: str, count, idx, n: int) -> None:
        last = None
        for lane, (address, want) in self.each(None, idx, n, where, count):
            if last == lane >> 5:
                continue
            last = lane >> 5
            cta = int(self.cta_of[lane])
            if want < 32 or want > COLUMNS or want & (want - 1):
                raise Fault(
                    "tensor memory", f"an allocation has 32, 64, 128, 256 or 512 columns, not {want}", lane
                )
            _ = self.tensor_memory
            if self.tensor_closed[cta]:
                raise Fault(
                    "tensor memory", "a CTA allocates nothing behind tcgen05.relinquish_alloc_permit", lane
                )
            free = [c for c in range(0, COLUMNS, want) if not self.tensor_used[cta, c : c + want].any()]
            if not free:
                raise Fault("tensor memory", f"no {want} columns of tensor memory are free in CTA", lane)
            self.tensor_used[cta, free[0] : free[0] + want] = True
            if pair:
                self.pair_agrees(lane, cta, "allocates", free[0], want)
            if self.checker is not None:
                self.checker.tensor_allocated(self, inst, cta, lane, want)
            value = np.array([free[0]], np.uint32)
            here = np.array([lane])
            self.store(np.array([address]), 0, space, 4, (value,), None, here, 1, "")

    def tensor_relinquish(self, idx, n: int) -> None:
        """From here on the CTA may not allocate (PTX ISA: doing so is illegal)."""
        _ = self.tensor_memory
        for lane, _ in self.each(None, idx, n):
            cta = int(self.cta_of[lane])
            self.tensor_closed[cta] = True
            if self.checker is not None and lane % 32 == 0:
                self.checker.tensor_closed(self, self.current_inst(), cta, lane)

    def tensor_dealloc(self, inst, pair: bool, address, count, idx, n: int) -> None:
        last = None
        for lane, (where, want) in self.each(None, idx, n, address, count):
            if last != lane >> 5:
                last = lane >> 5
                cta, column = int(self.cta_of[lane]), where & 0xFFFF
                self.tensor_span(lane, cta, column, want)
                self.tensor_used[cta, column : column + want] = False
                if pair:
                    self.pair_agrees(lane, cta, "frees", column, want)
                if self.checker is not None:
                    self.checker.tensor_freed(self, inst, granules(cta, column, want), lane, True)
                    if pair:  # by the ISA both warps come behind the accesses to the tensor memory of both
                        self.checker.tensor_freed(self, inst, granules(cta ^ 1, column, want), lane, False)

    def tensor_kept(self) -> None:
        """At the end: tensor memory must have been freed."""
        if self.checker is None or self._tensor is None or not self.tensor_used.any():
            return
        cta = int(np.flatnonzero(self.tensor_used.any(1))[0])
        where = tuple(int(v) for v in self.ctas[cta])
        inst = next(
            (i for p in self.unit.pieces for i in p.insts if i.op == "tcgen05" and i.mods[0] == "alloc"), None
        )
        count = int(self.tensor_used[cta].sum())
        self.checker.report(
            "tensor memory not freed",
            f"CTA {where} ended with {count} columns of tensor memory allocated",
            inst,
        )

    # registers to tensor memory and back
    def tensor_places(self, shape: str, address, count: int, pack: bool, split: int, idx, n: int):
        """(CTA, lane, column) of each register's word: arrays [registers, W, 32] (pack: a further axis of 2)."""
        f = self.whole_warps(idx, n)
        address = f.spread(np.broadcast_to(address, (n,)), n)[:, 0].astype(np.int64)
        lanes = self.lanes(idx, n, None)[::32]
        lane0, column = address >> 16, address & 0xFFFF
        quarter = (lanes // 32 % self.warps_per_cta) % 4
        rows = 32 if shape == "32x32b" else 16
        bad = (lane0 // 32 != quarter) | (lane0 % rows != 0)
        if bad.any():
            i = int(np.flatnonzero(bad)[0])
            raise Fault(
                "out of bounds",
                f"lane {int(lane0[i])} of tensor memory: warp {int(quarter[i])} of its group reaches lanes "
                f"{int(quarter[i]) * 32} to {int(quarter[i]) * 32 + 31}",
                int(lanes[i]),
            )
        t = np.arange(32)
        j = np.arange(count)[:, None]
        if shape == "32x32b":
            row, col = t + 0 * j, j + 0 * t
        elif shape == "16x64b":
            row, col = t % 2 * 8 + t // 4 + 0 * j, 2 * j + t // 2 % 2
        elif shape == "16x128b":
            row, col = t // 4 + j % 2 * 8, j // 2 * 4 + t % 4
        elif shape == "16x256b":
            row, col = t // 4 + j // 2 % 2 * 8, j // 4 * 8 + t % 4 * 2 + j % 2
        else:  # 16x32bx2
            row, col = t % 16 + 0 * j, j + t // 16 * split
        span = int(col.max()) + 1
        ctas = self.cta_of[lanes]
        if pack:
            col, span = np.stack([2 * col, 2 * col + 1], -1), 2 * span
            row = np.broadcast_to(row[..., None], col.shape)
        for cta, first, lane in {(int(c), int(b), int(x)) for c, b, x in zip(ctas, column, lanes)}:
            self.tensor_span(lane, cta, first, span)
        extra = (1,) * (col.ndim - 2)
        where = (
            ctas.reshape(1, -1, 1, *extra),
            lane0.reshape(1, -1, 1, *extra) + row[:, None],
            column.reshape(1, -1, 1, *extra) + col[:, None],
        )
        if self.checker is not None:
            self.tensor_touch = [
                (granules(int(c), int(b), span, int(first) // 16, rows // 16), int(x))
                for c, first, b, x in zip(ctas, lane0, column, lanes)
            ]
        return f, where

    def tensor_load_registers(
        self, inst, shape: str, address, count: int, pack: bool, split: int, idx, n: int
    ):
        f, where = self.tensor_places(shape, address, count, pack, split, idx, n)
        if self.checker is not None:
            for touched, lane in self.tensor_touch:
                self.checker.tensor_access(self, inst, "r", touched, lane)
        data = self.tensor_memory[where]
        if pack:
            data = (data[..., 0] & np.uint32(0xFFFF)) | (data[..., 1] << np.uint32(16))
        return [f.collect(row) for row in data]

    def tensor_store_registers(
        self, inst, shape: str, address, values: tuple, pack: bool, split: int, idx, n: int
    ) -> None:
        f, where = self.tensor_places(shape, address, len(values), pack, split, idx, n)
        if self.checker is not None:
            for touched, lane in self.tensor_touch:
                self.checker.tensor_access(self, inst, "w", touched, lane)
        data = np.stack([f.spread(v, n) for v in values])
        if pack:
            data = np.stack([data & np.uint32(0xFFFF), data >> np.uint32(16)], -1)
        self.tensor_memory[where] = data

    def tensor_pending(self, inst, regs: tuple, idx, n: int) -> None:
        """The registers of a tcgen05.ld may not be used before its wait."""
        if self.checker is not None:
            self.checker.tensor_loading(inst, regs, np.unique(self.lanes(idx, n, None) >> 5), self)

    def tensor_use(self, inst, regs: tuple, writes: tuple, mask, idx, n: int) -> None:
        if self.checker is not None:
            lanes = self.lanes(idx, n, self.select(mask, n))
            if lanes.size:
                self.checker.tensor_register(self, inst, regs, writes, lanes)

    def tensor_wait(self, inst, idx, n: int) -> None:
        """tcgen05.wait::ld and ::st: the registers and tensor memory are up to date already."""
        if self.checker is None:
            return
        warps, load = np.unique(self.lanes(idx, n, None) >> 5), "wait::ld" in inst.mods
        self.checker.tensor_waited(self, "r" if load else "w", warps)
        if load:
            self.checker.tensor_loads_over(self, warps)

    def tensor_fence(self, after: bool, mask, idx, n: int) -> None:
        """tcgen05.fence::after_thread_sync or ::before_thread_sync."""
        if self.checker is not None:
            lanes = self.lanes(idx, n, self.select(mask, n))
            self.checker.tensor_fenced(self, after, np.unique(lanes >> 5))
