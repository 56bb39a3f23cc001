"""Loads, stores and atomics of many lanes at once."""

from __future__ import annotations

import numpy as np

from . import numerics as num
from .memory import CLUSTER_SHIFT, VIEW, WINDOW_SHIFT, gather, scatter
from .syntax import WIDTH_BITS

_UNSIGNED = {w: np.dtype(name) for w, name in ((1, "u1"), (2, "u2"), (4, "u4"), (8, "u8"), (16, "V16"))}
_OFFSET = (1 << CLUSTER_SHIFT) - 1


class Fault(Exception):
    """A failed access or a trap, before it is known to which instruction it belongs."""

    def __init__(self, kind: str, text: str, lane: int | None) -> None:
        super().__init__(text)
        self.kind, self.text, self.lane = kind, text, lane


class AccessOps:
    """Mixed into Batch."""

    def lanes(self, idx, n: int, sel) -> np.ndarray:
        """Batch lane numbers of the running lanes (a subset of them under sel)."""
        base = np.arange(n) if idx is None else idx
        return base if sel is None else base[sel]

    def host(self, where: np.ndarray, space: str, width: int, idx, n: int, sel, write: bool) -> np.ndarray:
        """Checked real addresses; where is already reduced to sel."""
        if width > 1:
            low = int(where[0]) if where.size == 1 else int(np.bitwise_or.reduce(where))
            if low & (width - 1):
                bad = int(np.flatnonzero(where & (width - 1))[0])
                self.fault(
                    "misaligned",
                    f"{width}-byte access at {self.spell(space, int(where[bad]))}",
                    idx,
                    n,
                    sel,
                    where,
                    bad,
                )
        if space == "global":
            bad = self.memory.outside(where, width, write)
            if bad is not None:
                at = int(bad[0])
                address = int(where[at])
                region = self.memory.region_of(address)
                how = (
                    "store to read-only memory"
                    if region and region.end >= address + width
                    else f"{width}-byte {'store' if write else 'load'}"
                )
                self.fault(
                    "out of bounds",
                    f"{how} at {address:#x}, {self.memory.nearest(address)}",
                    idx,
                    n,
                    sel,
                    where,
                    at,
                )
            return where
        if space == "shared":
            return self.shared_host(where, width, idx, n, sel)
        if space == "local":
            low, high = int(where.min()), int(where.max())
            if low < 0 or high + width > self.local_bytes:
                at = int(np.flatnonzero((where < 0) | (where + width > self.local_bytes))[0])
                self.fault(
                    "out of bounds",
                    f"{width}-byte access at local offset {int(where[at])} "
                    f"({self.local_bytes} bytes of local memory)",
                    idx,
                    n,
                    sel,
                    where,
                    at,
                )
            return where + self.pick_lanes(self.local_base, idx, sel)
        if space == "cluster":
            return self.cluster_host(where, width, idx, n, sel)
        return self.generic_host(where, width, idx, n, sel, write)

    def pick_lanes(self, per_lane: np.ndarray, idx, sel) -> np.ndarray:
        if per_lane.size == 1:
            return per_lane
        v = per_lane if idx is None else per_lane.take(idx)
        return v if sel is None else v[sel]

    def shared_host(self, where: np.ndarray, width: int, idx, n: int, sel) -> np.ndarray:
        low, high = int(where.min()), int(where.max())
        if low < 0 or high + width > self.shared_bytes:
            if low >> WINDOW_SHIFT == high >> WINDOW_SHIFT == 1:
                # PTX truncates addresses to the width of the state space. Of a generic address of shared memory that leaves the
                # shared one, as on GPUs, and experts rely on it; other addresses of 64 bits are mistakes.
                return self.shared_host(where & 0xFFFFFFFF, width, idx, n, sel)
            if high >> CLUSTER_SHIFT and low >= 0:
                return self.cluster_host(where, width, idx, n, sel)
            at = int(np.flatnonzero((where < 0) | (where + width > self.shared_bytes))[0])
            self.fault(
                "out of bounds",
                f"{width}-byte access at shared offset {int(where[at])} "
                f"({self.shared_bytes} bytes of shared memory)",
                idx,
                n,
                sel,
                where,
                at,
            )
        return where + self.pick_lanes(self.shared_base, idx, sel)

    def cluster_host(self, where: np.ndarray, width: int, idx, n: int, sel) -> np.ndarray:
        """shared::cluster addresses: the CTA of a rank of the cluster."""
        rank = where >> CLUSTER_SHIFT
        offset = where & _OFFSET
        own = self.pick_lanes(self.cta_of, idx, sel)
        size = self.cluster_size
        target = own // size * size + rank
        bad = (offset + width > self.shared_bytes) | (rank >= size) | (where < 0)
        if bad.any():
            at = int(np.flatnonzero(bad)[0])
            self.fault(
                "out of bounds",
                f"{width}-byte access at shared::cluster address {int(where[at]):#x}",
                idx,
                n,
                sel,
                where,
                at,
            )
        gone = self.ended[target] & (target != own)
        if gone.any():
            at = int(np.flatnonzero(gone)[0])
            cta = tuple(self.ctas[np.broadcast_to(target, gone.shape)[at]].tolist())
            self.fault("ended CTA", f"CTA {cta} has ended before this access", idx, n, sel, where, at)
        return self.shared_start + target * self.shared_stride + offset

    def generic_host(self, where: np.ndarray, width: int, idx, n: int, sel, write: bool) -> np.ndarray:
        window = where >> WINDOW_SHIFT
        low, high = int(window.min()), int(window.max())
        if low == high:
            if low == 0:
                return (
                    self.host(where, "global", 1, idx, n, sel, write)
                    if width == 1
                    else self.global_host(where, width, idx, n, sel, write)
                )
            if low == 1:
                return self.shared_host(where & ((1 << WINDOW_SHIFT) - 1), width, idx, n, sel)
            if low == 2:
                return self.host(where & ((1 << WINDOW_SHIFT) - 1), "local", width, idx, n, sel, write)
        out = np.zeros(where.size, np.int64)
        place = np.arange(n) if sel is None else sel
        for value in range(low, high + 1):
            part = np.flatnonzero(window == value)
            if part.size:
                sub = place[part] if place.size == where.size else place
                out[part] = (
                    self.generic_host(where[part], width, idx, n, sub, write)
                    if value in (0, 1, 2)
                    else self.host(where[part], "global", width, idx, n, sub, write)
                )
        return out

    def global_host(self, where: np.ndarray, width: int, idx, n: int, sel, write: bool) -> np.ndarray:
        return self.host(where, "global", width, idx, n, sel, write)

    def spell(self, space: str, address: int) -> str:
        if space == "generic" and address >> WINDOW_SHIFT in (1, 2):
            name = "shared" if address >> WINDOW_SHIFT == 1 else "local"
            return f"{name} offset {address & ((1 << WINDOW_SHIFT) - 1)} (generic)"
        return f"{space} offset {address}" if space in ("shared", "local") else f"{address:#x}"

    def fault(self, kind: str, text: str, idx, n: int, sel, where, at: int) -> None:
        lanes = self.lanes(idx, n, sel)
        raise Fault(kind, text, int(lanes[at if where.size > 1 else 0]))

    def select(self, mask, n: int):
        """None for all lanes, else the positions that take part (possibly none)."""
        if mask is None:
            return None
        if mask.size == 1 and n != 1:
            return None if mask[0] else _EMPTY
        sel = np.flatnonzero(mask)
        return None if sel.size == n else sel

    def load(
        self, where, offset: int, space: str, width: int, count: int, mask, idx, n: int, strong: str
    ) -> list[np.ndarray]:
        """`count` consecutive elements of each lane, as unsigned arrays."""
        if self.copies and self.order is not None:
            self.land_some()
        sel = self.select(mask, n)
        if sel is not None:
            if sel.size == 0:
                return [np.zeros(1, _UNSIGNED[width])] * count
            if where.size > 1:
                where = where[sel]
        if offset:
            where = where + offset
        at = self.host(where, space, width * count, idx, n, sel, False)
        if self.checker is not None:
            self.checker.access(self, "r", space, where, at, width * count, idx, n, sel, strong)
        if self.meter is not None:
            self.meter.access(self, at, width * count, self.lanes(idx, n, sel))
        if strong:
            self.spins += 1
            if self.lines:
                self.flush_prints_of(self.lanes(idx, n, sel))
        out = [gather(at if i == 0 else at + i * width, width) for i in range(count)]
        if self.progress.looking:
            lanes = self.lanes(idx, n, sel)
            self.progress.polled(self, self.current_inst(), int(at[0]), lanes, bool(strong))
            self.progress.read(self, at, out, space, lanes, bool(strong))
        if (sel is not None and at.size > 1) or (sel is not None and n > 1):
            full = []
            for v in out:
                if v.size == 1:
                    full.append(v)
                    continue
                w = np.zeros(n, v.dtype)
                w[sel] = v
                full.append(w)
            return full
        return out

    def store(
        self, where, offset: int, space: str, width: int, values: tuple, mask, idx, n: int, strong: str
    ) -> None:
        if self.copies and self.order is not None:
            self.land_some()
        sel = self.select(mask, n)
        if sel is not None:
            if sel.size == 0:
                return
            if where.size > 1:
                where = where[sel]
            values = tuple(v[sel] if v.size > 1 else v for v in values)
        if offset:
            where = where + offset
        at = self.host(where, space, width * len(values), idx, n, sel, True)
        if self.checker is not None:
            self.checker.access(self, "w", space, where, at, width * len(values), idx, n, sel, strong)
        if self.meter is not None:
            self.meter.access(self, at, width * len(values), self.lanes(idx, n, sel))
        if strong and self.lines:
            self.flush_prints_of(self.lanes(idx, n, sel))
        for i, v in enumerate(values):
            if at.size == 1 and v.size > 1:
                v = v[-1:]
            self.write(at + i * width if i else at, width, v)

    def write(self, at: np.ndarray, width: int, value) -> None:
        """Changes memory, under the eyes of what looks for progress."""
        if not self.progress.looking:
            scatter(at, width, value)
            return
        before = gather(at, width)
        scatter(at, width, value)
        self.progress.stored(self, at, width, before)

    # rows of matrices: addresses with explicit lanes
    def load_lanes(self, where, space: str, width: int, lanes: np.ndarray, what: str) -> np.ndarray:
        at = self.host(where, space, width, lanes, lanes.size, None, False)
        if self.checker is not None:
            self.checker.access(self, "r", space, where, at, width, lanes, lanes.size, None, "")
        if self.meter is not None:
            self.meter.access(self, at, width, lanes)
        return gather(at, width)

    def store_lanes(self, where, space: str, width: int, data, lanes: np.ndarray, what: str) -> None:
        at = self.host(where, space, width, lanes, lanes.size, None, True)
        if self.checker is not None:
            self.checker.access(self, "w", space, where, at, width, lanes, lanes.size, None, "")
        if self.meter is not None:
            self.meter.access(self, at, width, lanes)
        self.write(at, width, data)

    # local memory at fixed offsets: parameters of device functions
    def local_copy(self, to: int, source: int, size: int, mask, idx, n: int) -> None:
        width = next(w for w in (8, 4, 2, 1) if not (to | source | size) % w)
        base = self.local_lanes(mask, idx, n)
        if base is None:
            return
        for i in range(0, size, width):
            scatter(base + (to + i), width, gather(base + (source + i), width))

    def local_lanes(self, mask, idx, n: int):
        sel = self.select(mask, n)
        if sel is not None and sel.size == 0:
            return None
        return self.pick_lanes(self.local_base, idx, sel)

    def local_load(self, at: int, width: int, idx, n: int) -> np.ndarray:
        return gather(self.pick_lanes(self.local_base, idx, None) + at, width)

    def local_store(self, at: int, value, mask, idx, n: int) -> None:
        sel = self.select(mask, n)
        if sel is not None and sel.size == 0:
            return
        if sel is not None and value.size > 1:
            value = value[sel]
        scatter(self.pick_lanes(self.local_base, idx, sel) + at, value.dtype.itemsize, value)

    # atomics
    def atomic(
        self,
        where,
        space: str,
        op: str,
        type_: str,
        value,
        extra,
        mask,
        idx,
        n: int,
        order: str,
        want: bool,
        flush: bool,
        vector_bytes: int,
    ) -> np.ndarray | None:
        """Old values (where wanted) of read-modify-writes performed one lane after another, in lane order."""
        sel = self.select(mask, n)
        count = n if sel is None else sel.size
        if count == 0:
            return np.zeros(1, value.dtype)
        if sel is not None:
            where, value = (v[sel] if v.size > 1 else v for v in (where, value))
            extra = extra[sel] if extra is not None and extra.size > 1 else extra
        width = WIDTH_BITS[type_] // 8
        if vector_bytes:
            self.host(where, space, vector_bytes, idx, n, sel, True)
        at = self.host(where, space, width, idx, n, sel, True)
        if self.checker is not None:
            self.checker.access(self, "a", space, where, at, width, idx, n, sel, order)
        if self.meter is not None:
            self.meter.access(self, at, width, self.lanes(idx, n, sel))
        if self.lines:
            self.flush_prints_of(self.lanes(idx, n, sel))
        at = np.broadcast_to(at, (count,))
        value = np.broadcast_to(value, (count,))
        if extra is not None:
            extra = np.broadcast_to(extra, (count,))
        before = gather(at, width) if self.progress.looking else None
        old = _atomic(at, width, op, type_, value, extra, want, flush)
        if before is not None:
            lanes = self.lanes(idx, n, sel)
            self.progress.polled(self, self.current_inst(), int(at[0]), lanes, True)
            self.progress.read(self, at, [before], space, lanes, True)
            self.progress.stored(self, at, width, before)
        if (op == "cas" and not (old == value).any()) or (op == "exch" and want and (old == value).all()):
            self.spins += 1
        if not want:
            return None
        if sel is None:
            return old
        out = np.zeros(n, old.dtype)
        out[sel] = old
        return out


_EMPTY = np.zeros(0, np.int64)


def combine(
    op: str, type_: str, old: np.ndarray, value: np.ndarray, extra=None, flush: bool = False
) -> np.ndarray:
    if op == "exch":
        return value
    if op == "cas":
        return np.where(old == value, extra, old)
    if op in ("and", "or", "xor"):
        return {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[op](old, value)
    if op == "inc":
        return np.where(old >= value, old.dtype.type(0), old + old.dtype.type(1))
    if op == "dec":
        return np.where((old == 0) | (old > value), value, old - old.dtype.type(1))
    if type_ in ("f16", "f16x2", "bf16", "bf16x2"):
        bf = type_[0] == "b"
        a, b = (
            num.bf16_to_f32(v.view(np.uint16)) if bf else v.view(np.float16)
            for v in (np.ascontiguousarray(old), np.ascontiguousarray(value))
        )
        y = a + b if op == "add" else (num.float_min if op == "min" else num.float_max)(a, b, False)
        y = num.f32_to_bf16(y) if bf else num.canon16(y.astype(np.float16)).view(np.uint16)
        return y.view(old.dtype)
    if op == "add":
        if flush:
            return num.canon32(num.flush32(num.flush32(old) + num.flush32(value)))
        return old + value
    if type_[0] == "f":
        return (num.float_min if op == "min" else num.float_max)(old, value, False)
    return (np.minimum if op == "min" else np.maximum)(old, value)


def _typed(type_: str, width: int):
    if type_ in ("f32", "f64"):
        return np.float32 if type_ == "f32" else np.float64
    if type_[0] == "s":
        return np.int32 if width == 4 else np.int64
    return _UNSIGNED[width]


def _compare_and_swap(
    current: np.ndarray, group: np.ndarray, start: np.ndarray, want: np.ndarray, new: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Old value of each swap and the final value of each group: one round per swap that succeeds."""
    count = want.size
    place = np.arange(count)
    before = np.empty(count, want.dtype)
    done = np.full(start.size, -1)
    current = current.copy()
    while True:
        hit = (want == current[group]) & (place > done[group])
        first = np.minimum.reduceat(np.where(hit, place, count), start)
        now = (place > done[group]) & (place <= first[group])
        before[now] = current[group[now]]
        found = first < count
        if not found.any():
            return before, current
        current[found] = new[first[found]]
        done = np.where(found, first, count)


def _atomic(
    at: np.ndarray, width: int, op: str, type_: str, value: np.ndarray, extra, want: bool, flush: bool
) -> np.ndarray:
    kind = _typed(type_, width)
    slot = (at >> {1: 0, 2: 1, 4: 2, 8: 3, 16: 4}[width]) - 1
    view = VIEW[width]

    def read(s: np.ndarray) -> np.ndarray:
        return view.take(s) if width == 16 else view.take(s).view(kind)

    def write(s: np.ndarray, v: np.ndarray) -> None:
        view[s] = v if width == 16 else np.ascontiguousarray(v).view(_UNSIGNED[width])

    if slot.size == 1:
        old = read(slot)
        write(slot, combine(op, type_, old, value, extra, flush))
        return old
    order = np.argsort(slot, kind="stable")
    ranked = slot[order]
    fresh = np.empty(ranked.size, bool)
    fresh[0] = True
    np.not_equal(ranked[1:], ranked[:-1], out=fresh[1:])
    if fresh.all():
        old = read(slot)
        write(slot, combine(op, type_, old, value, extra, flush))
        return old
    start = np.flatnonzero(fresh)
    if (
        op in ("add", "min", "max", "and", "or", "xor")
        and type_ not in ("f16", "f16x2", "bf16", "bf16x2")
        and not flush
        and (type_[0] in "usb" or op == "add")
    ):
        fn = {
            "add": np.add,
            "min": np.minimum,
            "max": np.maximum,
            "and": np.bitwise_and,
            "or": np.bitwise_or,
            "xor": np.bitwise_xor,
        }[op]
        lengths = np.diff(np.append(start, ranked.size))
        if not want and type_[0] in "usb":
            heads = ranked[start]
            base = read(heads)
            write(heads, fn(base, fn.reduceat(value[order], start)).astype(kind))
            return base
        if start.size * 4 < int(lengths.max()) * 3 or start.size == 1:
            old = np.empty(slot.size, kind)
            sorted_values = value[order]
            for s, length in zip(start.tolist(), lengths.tolist()):
                base = read(ranked[s : s + 1])
                chain = fn.accumulate(np.concatenate([base, sorted_values[s : s + length]]), dtype=kind)
                old[order[s : s + length]] = chain[:-1]
                write(ranked[s : s + 1], chain[-1:])
            return old
    group = np.cumsum(fresh) - 1
    if op in ("exch", "cas") and width < 16:
        old = np.empty(slot.size, kind)
        if op == "exch":
            before = np.empty(slot.size, kind)
            before[1:] = value[order][:-1]
            before[start] = read(ranked[start])
            write(ranked[start], value[order][np.append(start[1:], ranked.size) - 1])
        else:
            before, current = _compare_and_swap(read(ranked[start]), group, start, value[order], extra[order])
            write(ranked[start], current)
        old[order] = before
        return old
    # round k performs the k-th access to every address
    position = np.arange(ranked.size) - start[group]
    by_round = np.argsort(position, kind="stable")
    bounds = np.searchsorted(position[by_round], np.arange(int(position.max()) + 2))
    old = np.empty(slot.size, kind)
    for k in range(bounds.size - 1):
        chosen = order[by_round[bounds[k] : bounds[k + 1]]]
        s = slot[chosen]
        before = read(s)
        old[chosen] = before
        write(s, combine(op, type_, before, value[chosen], None if extra is None else extra[chosen], flush))
    return old
