"""Bulk tensor copies whose boxes are lists of rows: im2col, and the four rows of tile::gather4 and tile::scatter4.

im2col: a tensor of images, dimensions C, W, H, D, N (two to four of W, H, D and N less for smaller ranks). The coordinates name
a pixel of the bounding box, which reaches from its lower corner (counted from the first pixel) to its upper one (counted from the
last); from there one goes on through the box by the traversal strides, W first, D before N, into further images, for as many
pixels as a column has. What is read for a pixel lies the im2col offsets further on, channels-per-pixel elements of it; outside of
the tensor that is the fill. Shared memory holds the pixels one after another, as rows of a box.
"""

from __future__ import annotations

import numpy as np

from .access import Fault
from .memory import gather
from .tensor_map import NANS, TensorMap


def signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 & 1 else word


class PixelOps:
    """Mixed into Batch."""

    def pixel_spots(
        self, tm: TensorMap, mode: str, at: list[int], offsets: list[int], lane: int
    ) -> np.ndarray:
        """Coordinates [rows, rank - 1] of what a copy's rows are of the tensor, without its innermost dimension; any may lie
        outside."""
        at = [signed(c) for c in at]
        if mode == "rows":
            if tm.box[1] != 1 or tm.steps[0] != 1 or len(at) != 5:
                raise Fault(
                    "out of bounds",
                    "tile::gather4 and tile::scatter4 want boxes of one row, and five coordinates",
                    lane,
                )
            return np.array(at[1:])[:, None]
        assert tm.corners is not None
        inner = tm.rank - 2
        low = tm.corners[0][:inner]
        high = [e - 1 + c for e, c in zip(tm.extents[1:], tm.corners[1][:inner])]
        for d in range(inner):
            if not low[d] <= at[d + 1] <= high[d]:
                raise Fault(
                    "out of bounds",
                    f"coordinate {at[d + 1]} of dimension {d + 1} lies outside of the bounding box of an im2col copy, {low[d]} "
                    f"to {high[d]}",
                    lane,
                )
        rows = np.arange(tm.box[1])
        out = []
        for d in range(inner):
            # how many steps fit from one side to the other, and which of them this one is: the start need not be a whole number
            # of steps from the corner, so the first line may be shorter or longer than the others.
            step = tm.steps[d + 1]
            first, line = (high[d] - at[d + 1]) // step + 1, (high[d] - low[d]) // step + 1
            later = rows >= first
            place = np.where(later, low[d] + (rows - first) % line * step, at[d + 1] + rows * step)
            out.append(place + offsets[d])
            rows = np.where(later, 1 + (rows - first) // line, 0)
        return np.stack([*out, at[-1] + rows], 1)

    def pixel_rows(self, tm: TensorMap, mode: str, at: list[int], offsets: list[int], lane: int, write: bool):
        """(which rows are inside, addresses [rows, chunks] of what is inside of these, width of a chunk, first byte of a row that
        is inside, bytes of a row), or None where nothing is inside.

        Errors: Fault for what the tensor map does not allow, and outside of memory.
        """
        if tm.group[0] != 1:
            raise Fault(
                "out of bounds", "elements below one byte are not copied by rows on the emulator", lane
            )
        spots = self.pixel_spots(tm, mode, at, offsets, lane)
        inside = np.flatnonzero(((spots >= 0) & (spots < tm.extents[1 : tm.rank])).all(1))
        size, first = tm.group[1], signed(at[0])
        low, high = max(0, -first), min(tm.box[0], tm.extents[0] - first)
        if not inside.size or high <= low:
            return None
        base = tm.address + (first + low) * size + spots[inside] @ np.array(tm.strides[1 : tm.rank])
        count = (high - low) * size
        width = 16
        for v in (int(np.bitwise_or.reduce(base)), count):
            width = min(width, v & -v)
        chunks = base[:, None] + np.arange(0, count, width)
        bad = self.memory.outside(chunks.reshape(-1), width, write)
        if bad is not None:
            where = int(chunks.reshape(-1)[bad[0]])
            verb = "store" if write else "load"
            raise Fault(
                "out of bounds",
                f"bulk tensor {verb} of rows at {where:#x}, {self.memory.nearest(where)}",
                lane,
            )
        return inside, chunks, width, low * size

    def pixel_record(self, found, lane: int, kind: str):
        """Notes what a lane's copy touches of the tensor, as `tensor_record` does."""
        if (self.checker is None and self.meter is None) or found is None:
            return None
        at, width = found[1].reshape(-1), found[2]
        self.far.setdefault((kind, width), []).append((at, lane))
        return at, width

    def pixel_read(self, tm: TensorMap, mode: str, found) -> np.ndarray:
        """The rows as 16-byte chunks, before swizzling."""
        rows, name, size = 4 if mode == "rows" else tm.box[1], tm.name, tm.group[1]
        out = np.zeros((rows, tm.box[0], size), np.uint8)
        if tm.fill and name in NANS:
            out[...] = np.frombuffer(NANS[name].to_bytes(size, "little"), np.uint8)
        out = out.reshape(rows, -1)
        if found is not None:
            inside, chunks, width, low = found
            got = np.ascontiguousarray(gather(chunks, width)).view(np.uint8).reshape(len(inside), -1)
            out[inside, low : low + got.shape[1]] = got
        return out.reshape(-1).view("V16")

    def pixel_write(self, tm: TensorMap, mode: str, found, data: np.ndarray) -> None:
        if found is None:
            return
        inside, chunks, width, low = found
        box = data.view(np.uint8).reshape(4 if mode == "rows" else tm.box[1], -1)
        part = np.ascontiguousarray(box[inside, low : low + chunks.shape[1] * width])
        self.write(chunks.reshape(-1), width, part.reshape(-1).view(f"u{width}" if width < 16 else "V16"))
