"""Warp-wide instructions over [warps, 32] arrays: shuffles, votes, matches, reductions, matrix fragments."""

from __future__ import annotations

import numpy as np

from . import numerics as num

_LANE = np.arange(32, dtype=np.uint32)
_BIT = np.uint32(1) << _LANE


class Form:
    """How the running lanes lie in warps: [W, 32] with a presence mask where warps are incomplete."""

    __slots__ = ("at", "present", "warps", "whole")

    def __init__(self, idx: np.ndarray | None, n: int) -> None:
        self.whole = True
        self.at: np.ndarray | None = None
        self.present: np.ndarray | None = None
        self.warps = n // 32
        if idx is None:
            return
        if n % 32 == 0 and not (idx[::32] & 31).any() and ((idx[31::32] - idx[::32]) == 31).all():
            return
        self.whole = False
        ids, first = np.unique(idx >> 5, return_inverse=True)
        self.warps = ids.size
        self.at = first * 32 + (idx & 31)
        self.present = np.zeros((self.warps, 32), bool)
        self.present.reshape(-1)[self.at] = True

    def spread(self, v: np.ndarray, n: int) -> np.ndarray:
        """Values of the running lanes as [W, 32]."""
        if self.whole:
            return np.broadcast_to(v, (n,)).reshape(-1, 32) if v.size != n else v.reshape(-1, 32)
        out = np.zeros(self.warps * 32, v.dtype)
        out[self.at] = v
        return out.reshape(-1, 32)

    def collect(self, m: np.ndarray) -> np.ndarray:
        flat = np.ascontiguousarray(m).reshape(-1)
        return flat if self.whole else flat[self.at]

    def active(self) -> np.ndarray:
        return np.ones((self.warps, 32), bool) if self.present is None else self.present


class WarpOps:
    """Mixed into Batch."""

    def form(self, idx, n: int) -> Form:
        if idx is not self.form_key or self.form_value is None:
            self.form_key, self.form_value = idx, Form(idx, n)
        return self.form_value

    def shfl(self, mode: str, a, b, c, idx, n: int):
        f = self.form(idx, n)
        if a.size == 1 and mode != "x" and f.whole and b.size == 1 and c.size == 1 and n > 1:
            a = np.broadcast_to(a, (n,))
        m = f.spread(a, n)
        lane = _LANE
        if b.size == 1 and c.size == 1:
            bv, cv = int(b[0]) & 31, int(c[0])
            seg, clamp = np.uint32(cv >> 8 & 31), np.uint32(cv & 31)
            bv = np.uint32(bv)
        else:
            bv = f.spread(b, n) & np.uint32(31)
            cw = f.spread(c, n)
            seg, clamp = (cw >> np.uint32(8)) & np.uint32(31), cw & np.uint32(31)
        top = (lane & seg) | (clamp & ~seg)
        low = lane & seg
        if mode == "up":
            j = lane.astype(np.int32) - np.int32(1) * bv.astype(np.int32)
            ok = j >= top.astype(np.int32)
        elif mode == "down":
            j = lane.astype(np.int32) + bv.astype(np.int32)
            ok = j <= top.astype(np.int32)
        elif mode == "bfly":
            j = (lane ^ bv).astype(np.int32)
            ok = j <= top.astype(np.int32)
        else:
            j = (low | (bv & ~seg)).astype(np.int32)
            ok = j <= top.astype(np.int32)
        j = np.where(ok, j, lane.astype(np.int32))
        if j.ndim == 1 or j.shape[0] == 1:
            out = m[:, j.reshape(-1)]
        else:
            out = np.take_along_axis(m, j.astype(np.int64), 1)
        return f.collect(out), f.collect(np.broadcast_to(ok, out.shape))

    def vote(self, how: str, pred, mask, guard, idx, n: int):
        f = self.form(idx, n)
        p = f.spread(pred, n)
        act = f.active()
        if guard is not None:
            act = act & f.spread(guard, n)
        if mask is not None:
            mw = f.spread(mask, n)
            member = (np.max(mw, 1, keepdims=True) & _BIT) != 0
            act = act & member
        p = p & act
        if how == "ballot":
            y = (p * _BIT).sum(1, dtype=np.uint32, keepdims=True)
        elif how == "all":
            y = (p | ~act).all(1, keepdims=True)
        elif how == "any":
            y = p.any(1, keepdims=True)
        else:
            y = (p | ~act).all(1, keepdims=True) | ~p.any(1, keepdims=True)
        return f.collect(np.broadcast_to(y, p.shape))

    def match(self, all_: bool, value, mask, idx, n: int):
        f = self.form(idx, n)
        v, act = f.spread(value, n), f.active() & ((f.spread(mask, n) & _BIT) != 0)
        same = (v[:, :, None] == v[:, None, :]) & act[:, None, :] & act[:, :, None]
        bits = (same * _BIT).sum(2, dtype=np.uint32)
        if not all_:
            return f.collect(bits), None
        members = (act * _BIT).sum(1, dtype=np.uint32, keepdims=True)
        full = (bits == members) & act
        return f.collect(np.where(full, members, np.uint32(0))), f.collect(full)

    def redux(self, how: str, value, mask, absolute: bool, nan: bool, idx, n: int):
        f = self.form(idx, n)
        v = f.spread(value, n)
        mw = f.spread(mask, n)
        act = f.active() & ((mw & _BIT) != 0)
        out = np.zeros_like(v)
        # lanes that name different masks reduce separately
        for m in np.unique(mw[f.active()]):
            member = act & ((np.uint32(m) & _BIT) != 0) & (mw == m)
            if v.dtype.kind == "f":
                x = np.abs(v) if absolute else v
                fn = num.float_min if how == "min" else num.float_max
                y: np.ndarray | None = None
                for lane in range(32):
                    if not (int(m) >> lane & 1):
                        continue
                    col = np.where(member[:, lane : lane + 1], x[:, lane : lane + 1], np.float32(np.nan))
                    y = col if y is None else np.asarray(fn(y, col, False))
                if nan:
                    lost = (member & (v != v)).any(1, keepdims=True)
                    y = np.asarray(np.where(lost, np.float32(np.nan), np.asarray(y)))
                y = num.canon32(np.asarray(y))
            else:
                op = {
                    "add": np.add,
                    "min": np.minimum,
                    "max": np.maximum,
                    "and": np.bitwise_and,
                    "or": np.bitwise_or,
                    "xor": np.bitwise_xor,
                }[how]
                info = np.iinfo(v.dtype)
                identity = {
                    "add": 0,
                    "or": 0,
                    "xor": 0,
                    "and": -1 if info.min < 0 else info.max,
                    "min": info.max,
                    "max": info.min,
                }[how]
                y = op.reduce(
                    np.where(member, v, v.dtype.type(identity)), axis=1, keepdims=True, dtype=v.dtype
                )
            out = np.where(mw == m, y, out)
        return f.collect(out)

    def elect(self, mask, idx, n: int):
        f = self.form(idx, n)
        act = f.active() & ((f.spread(mask, n) & _BIT) != 0)
        leader = act.argmax(1)[:, None].astype(np.uint32)
        return f.collect(np.broadcast_to(leader, act.shape)), f.collect((leader == _LANE) & act)

    def warp_barrier(self, mask, idx, n: int) -> None:
        if self.checker is not None:
            self.checker.warp_sync(self, idx, n)

    def movmatrix(self, a, idx, n: int):
        """8x8 transpose of 16-bit elements: row r of a fragment lies in lanes 4r..4r+3."""
        f = self.form(idx, n)
        m = np.ascontiguousarray(f.spread(a, n)).view(np.uint16).reshape(-1, 8, 8)
        return f.collect(np.ascontiguousarray(m.transpose(0, 2, 1)).view(np.uint32).reshape(-1, 32))

    def ldmatrix(self, where, space: str, count: int, trans: bool, idx, n: int):
        f = self.form(idx, n)
        lanes = f.spread(np.broadcast_to(where, (n,)), n)
        rows = np.ascontiguousarray(lanes[:, : 8 * count]).reshape(-1)
        row_lane = self.lane_ids(idx, n, f)[:, : 8 * count].reshape(-1)
        data = self.load_lanes(rows, space, 16, row_lane, "ldmatrix")
        mats = data.view(np.uint16).reshape(-1, count, 8, 8)
        if trans:
            mats = np.ascontiguousarray(mats.transpose(0, 1, 3, 2))
        words = mats.view(np.uint32).reshape(-1, count, 32)
        return [f.collect(words[:, i]) for i in range(count)]

    def ldmatrix_bytes(self, where, space: str, count: int, bits: int, trans: bool, idx, n: int):
        """Rows of 16 bytes, or of 16 elements of four or six bits, packed before padding, that become the low bits of bytes.

        Without trans (m8n16), four lanes hold a row, as of 16-bit elements. With it (m16n16), lane t holds rows 4 (t % 4)
        to 4 (t % 4) + 3 of column t / 4, and in the next register of column t / 4 + 8.
        """
        f = self.form(idx, n)
        lanes = f.spread(np.broadcast_to(where, (n,)), n)
        total = (16 if trans else 8) * count
        rows = np.ascontiguousarray(lanes[:, :total]).reshape(-1)
        row_lane = self.lane_ids(idx, n, f)[:, :total].reshape(-1)
        raw = self.load_lanes(rows, space, 16, row_lane, "ldmatrix").view(np.uint8).reshape(-1, 16)
        if bits < 8:
            stream = np.unpackbits(raw[:, : 2 * bits], axis=-1, bitorder="little").reshape(-1, 16, bits)
            raw = (stream << np.arange(bits, dtype=np.uint8)).sum(-1, dtype=np.uint8)
        if not trans:
            words = np.ascontiguousarray(raw).view(np.uint32).reshape(-1, count, 32)
            return [f.collect(words[:, i]) for i in range(count)]
        columns = np.ascontiguousarray(raw.reshape(-1, count, 16, 16).transpose(0, 1, 3, 2))
        pairs = columns.view(np.uint32).reshape(-1, count, 2, 32)
        return [f.collect(pairs[:, i, half]) for i in range(count) for half in range(2)]

    def stmatrix(self, where, space: str, values: tuple, trans: bool, idx, n: int) -> None:
        f = self.form(idx, n)
        count = len(values)
        lanes = f.spread(np.broadcast_to(where, (n,)), n)
        rows = np.ascontiguousarray(lanes[:, : 8 * count]).reshape(-1)
        row_lane = self.lane_ids(idx, n, f)[:, : 8 * count].reshape(-1)
        words = np.stack([np.ascontiguousarray(f.spread(v, n)) for v in values], 1)
        mats = words.view(np.uint16).reshape(-1, count, 8, 8)
        if trans:
            mats = mats.transpose(0, 1, 3, 2)
        data = np.ascontiguousarray(mats).reshape(-1).view("V16")
        self.store_lanes(rows, space, 16, data, row_lane, "stmatrix")

    def lane_ids(self, idx, n: int, f: Form) -> np.ndarray:
        """Batch lane numbers as [W, 32]."""
        if idx is None:
            return np.arange(n).reshape(-1, 32)
        if f.at is None:
            return idx.reshape(-1, 32)
        first = np.zeros(f.warps, np.int64)
        first[f.at // 32] = idx & ~31
        return first[:, None] + np.arange(32)
