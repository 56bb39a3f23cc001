"""Boxes of tensors in global memory: tensor maps, what of a box lies in its tensor, its bytes, and maps that kernels change."""

from __future__ import annotations

import ctypes

import numpy as np

from .access import Fault, combine
from .memory import VIEW
from .tensor_map import NANS, TensorMap, replace


def window(address: int, shape: tuple, strides: tuple) -> np.ndarray:
    """Bytes at a real address as an array of bytes."""
    span = 1 + sum((n - 1) * s for n, s in zip(shape, strides))
    raw = (ctypes.c_ubyte * span).from_address(address)
    return np.ndarray(shape, np.uint8, buffer=memoryview(raw), strides=strides)


def numpy_type(type_: str):
    """The NumPy type that holds elements of a PTX type; bf16 as its bits."""
    return {"f16": np.float16, "bf16": np.uint16, "f32": np.float32, "tf32": np.float32, "f64": np.float64,
            "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "s32": np.int32, "u64": np.uint64, "s64": np.int64,
            "b32": np.uint32, "b64": np.uint64}[type_]  # fmt: skip


class BoxOps:
    """Mixed into Batch."""

    def tensor_map_at(self, lane: int, address: int, rank: int, mode: str) -> TensorMap:
        if address % 64:
            raise Fault("misaligned", f"tensor map at {address:#x} is not aligned to 64 bytes", lane)
        at = self.global_span(lane, address, 128, False)
        tm = TensorMap(ctypes.string_at(at, 128))
        if tm.rank != rank:
            raise Fault("out of bounds", f"{rank} coordinates for a tensor map of {tm.rank} dimensions", lane)
        if (tm.corners is not None) != (mode == "im2col"):
            kind = "an im2col" if mode == "im2col" else "a tiled"
            raise Fault("out of bounds", f"{kind} copy wants a tensor map of its own kind", lane)
        return tm

    def tensor_clip(self, tm: TensorMap, origin: list[int], lane: int, write: bool):
        """The part of a box inside the tensor: (address, shape, byte strides, first index and count per dimension).

        Outermost dimension first, elements as the innermost axis of bytes. None where nothing is inside.
        """
        per, size, _ = tm.group
        first, count = [], []
        for d in range(tm.rank):
            start = origin[d] - (1 << 32) if origin[d] >> 31 & 1 else origin[d]
            step, extent, counts = tm.steps[d], tm.extents[d], tm.counts[d]
            if d == 0 and per > 1:
                if start % per or extent % per or counts % per or step > 1:
                    raise Fault(
                        "misaligned",
                        f"elements {start} to {start + counts - 1} of {extent} of a tensor map whose elements lie in groups "
                        f"of {per}",
                        lane,
                    )
                start, extent, counts = start // per, extent // per, counts // per
            low = max(0, -(start // step)) if start < 0 else 0
            high = min(counts, -(-(extent - start) // step)) if extent > start else 0
            if high <= low:
                return None
            first.append((low, start + low * step))
            count.append(high - low)
        strides = [size, *tm.strides[1 : tm.rank]]
        address = tm.address + sum(f[1] * s for f, s in zip(first, strides))
        steps = [s * k for s, k in zip(strides, tm.steps)]
        last = address + sum((c - 1) * s for c, s in zip(count, steps)) + size
        region = self.memory.region_of(address)
        if region is None or last > region.end or (write and not region.writable):
            raise Fault(
                "out of bounds",
                f"bulk tensor {'store' if write else 'load'} of {address:#x} to {last:#x}, {self.memory.nearest(address)}",
                lane,
            )
        shape = (*count[::-1], size)
        return address, shape, (*steps[::-1], 1), [f[0] for f in first][::-1]

    def tensor_record(self, inside, lane: int, kind: str):
        """Notes what a lane's copy touches of a tensor (inside: as `tensor_clip` gives it): (chunk addresses, width)."""
        if (self.checker is None and self.meter is None) or inside is None:
            return None
        address, shape, strides, _ = inside
        if strides[-2] == shape[-1]:  # contiguous rows
            row = shape[-2] * shape[-1]
            shape, strides = (*shape[:-2], row), (*strides[:-2], 1)
        width = 16
        for v in (address, shape[-1], *strides[:-1]):
            width = min(width, v & -v) if v else width
        at = np.array([address])
        for c, s in zip((*shape[:-1], shape[-1] // width), (*strides[:-1], width)):
            at = (at[:, None] + np.arange(c) * s).reshape(-1)
        self.far.setdefault((kind, width), []).append((at, lane))
        return at, width

    def tensor_read(self, tm: TensorMap, origin: list[int], lane: int) -> np.ndarray:
        """The box as 16-byte chunks, before swizzling."""
        name = tm.name
        per, size, room = tm.group
        counts = tm.counts[::-1]
        out = np.zeros((*counts[:-1], counts[-1] // per, room), np.uint8)
        if tm.fill and name in NANS:
            out[...] = np.frombuffer(NANS[name].to_bytes(size, "little"), np.uint8)
        inside = self.tensor_clip(tm, origin, lane, False)
        if inside is not None:
            address, shape, strides, first = inside
            part = tuple(slice(f, f + c) for f, c in zip(first, shape))
            out[..., :size][part] = window(address, shape, strides)
        return out.reshape(-1).view("V16")

    def tensor_write(self, tm: TensorMap, origin: list[int], lane: int, data: np.ndarray, op: str) -> None:
        inside = self.tensor_clip(tm, origin, lane, True)
        if inside is None:
            return
        name = tm.name
        per, size, room = tm.group
        address, shape, strides, first = inside
        counts = tm.counts[::-1]
        box = data.view(np.uint8).reshape(*counts[:-1], counts[-1] // per, room)[..., :size]
        part = np.ascontiguousarray(box[tuple(slice(f, f + c) for f, c in zip(first, shape))])
        to = window(address, shape, strides)
        if not op:
            to[...] = part
            return
        old = np.ascontiguousarray(to).view(numpy_type(name))
        result = combine(op, name, old, part.view(numpy_type(name)))
        to[...] = np.ascontiguousarray(result).view(np.uint8)

    def tensormap_replace(
        self, space: str, where, field: str, ordinal: int, value, mask, idx, n: int
    ) -> None:
        for lane, (address, new) in self.each(mask, idx, n, where, value):
            at = self.descriptor_place(lane, space, address, True)
            raw = replace(ctypes.string_at(at, 128), field, ordinal, new)
            VIEW[1][at - 1 : at + 127] = np.frombuffer(raw, np.uint8)

    def tensormap_copy(self, to, source, idx, n: int) -> None:
        """tensormap.cp_fenceproxy: one copy for each warp."""
        first = None
        for lane, (dst, src) in self.each(None, idx, n, to, source):
            if first == lane >> 5:
                continue
            first = lane >> 5
            at = self.descriptor_place(lane, "shared", src, False)
            out = self.global_span(lane, dst, 128, True)
            VIEW[1][out - 1 : out + 127] = np.frombuffer(ctypes.string_at(at, 128), np.uint8)

    def descriptor_place(self, lane: int, space: str, address: int, write: bool) -> int:
        if space == "shared" or address >> 60 == 1:
            cta, offset = self.shared_place(lane, address)
            return self.shared_span(lane, cta, offset, 128, 128)
        return self.global_span(lane, address, 128, write)
