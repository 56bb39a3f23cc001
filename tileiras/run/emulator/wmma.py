"""wmma: matrices loaded, multiplied and stored by whole warps.

The ISA leaves open which thread holds which element of a fragment; here unit u of the matrix, row by row (B: of its transpose),
is slot u % slots of lane u / slots. Fragments of 16 by 16 halves have room for two copies of each element, as on GPUs. A unit is
an element, or a 32-bit word of those below a byte.
"""

from __future__ import annotations

import numpy as np

from . import numerics as num
from .mma import decode, dims


class WmmaOps:
    """Mixed into Batch."""

    def wmma_places(
        self, where, pitch, rows: int, columns: int, unit: int, slots: int, along: bool, idx, n: int
    ):
        """(form, addresses, lanes) of the units of each lane: flat over [warps, 32, slots]."""
        f = self.form(idx, n)
        u = np.arange(32 * slots) % (rows * columns)
        r, c = u // columns, u % columns
        base = f.spread(np.broadcast_to(where, (n,)), n)[:, :1]
        step = f.spread(np.broadcast_to(pitch, (n,)), n)[:, :1]
        at = base + unit * (r * step + c if along else c * step + r)
        lanes = np.repeat(self.lane_ids(idx, n, f), slots, axis=1)
        return f, at.reshape(-1), lanes.reshape(-1)

    def wmma_load(
        self,
        where,
        space: str,
        pitch,
        rows: int,
        columns: int,
        unit: int,
        count: int,
        along: bool,
        idx,
        n: int,
    ):
        slots = count * (1 if unit == 8 else 4 // unit)
        f, at, lanes = self.wmma_places(where, pitch, rows, columns, unit, slots, along, idx, n)
        data = np.ascontiguousarray(self.load_lanes(at, space, unit, lanes, "wmma.load"))
        words = data.view(np.uint64 if unit == 8 else np.uint32).reshape(-1, 32, count)
        return [f.collect(words[:, :, i]) for i in range(count)]

    def wmma_store(
        self,
        where,
        space: str,
        pitch,
        rows: int,
        columns: int,
        unit: int,
        values: tuple,
        along: bool,
        idx,
        n: int,
    ):
        slots = len(values) * (1 if unit == 8 else 4 // unit)
        f, at, lanes = self.wmma_places(where, pitch, rows, columns, unit, slots, along, idx, n)
        words = np.stack([f.spread(v, n) for v in values], 2)
        data = np.ascontiguousarray(words).reshape(-1).view(f"u{unit}")
        self.store_lanes(at, space, unit, data, lanes, "wmma.store")

    def wmma(self, shape: str, dt: str, at: str, bt: str, ct: str, a: tuple, b: tuple, c: tuple, bit_op: str,
             satfinite: bool, idx, n: int):  # fmt: skip
        if self.meter is not None:
            self.meter.product(self, self.lanes(idx, n, None))
        f = self.form(idx, n)
        m, nn, k = dims(shape)

        def matrix(regs: tuple, type_: str, rows: int, columns: int) -> np.ndarray:
            words = np.ascontiguousarray(np.stack([f.spread(x, n) for x in regs], 2))
            flat = words if type_ in ("f32", "s32") else decode(words, type_)
            return (
                flat.reshape(len(words), -1)[:, : rows * columns]
                .reshape(-1, rows, columns)
                .astype(np.float64)
            )

        am, bm, cm = matrix(a, at, m, k), matrix(b, bt, nn, k).transpose(0, 2, 1), matrix(c, ct, m, nn)
        if bit_op:
            fn = np.logical_and if bit_op == "and" else np.logical_xor
            product = fn(am[:, :, :, None] != 0, bm[:, None, :, :] != 0).sum(2).astype(np.float64)
        else:
            product = np.matmul(am, bm)
        total = product + cm
        if dt == "s32":
            whole = total.astype(np.int64)
            words = (np.clip(whole, -(2**31), 2**31 - 1) if satfinite else whole).astype(np.int32)
        elif dt == "f64":
            words = total
        elif dt == "f32":
            words = num.canon32(total.astype(np.float32))
        else:
            words = (
                np.ascontiguousarray(num.canon16(total.astype(np.float16)))
                .reshape(-1, 32, m * nn // 32)
                .view(np.uint32)
            )
        words = words.reshape(len(am), 32, -1)
        return [f.collect(words[:, :, i]) for i in range(words.shape[2])]
