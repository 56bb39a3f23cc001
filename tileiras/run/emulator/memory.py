"""Memory at real addresses: NumPy arrays of the caller, checked on every access.

One array per element width spans the whole user address space, so that a load of many lanes is a single `take` on real
addresses whichever arrays they point into. Nothing is read or written before its address was found inside a registered
region (`Memory.check`).

Shared and local state spaces are windows: PTX sees offsets, `cvta` adds a window base above any real address.
"""

from __future__ import annotations

import bisect
import ctypes

import numpy as np

from .syntax import EmulatorError

SHARED_WINDOW = np.uint64(1 << 60)
LOCAL_WINDOW = np.uint64(1 << 61)
WINDOW_SHIFT = 60
CLUSTER_SHIFT = 24  # a shared address: rank in the cluster << 24 | offset
_LIMIT = 1 << 47


def _spanning(dtype: str) -> np.ndarray:
    width = np.dtype(dtype).itemsize
    count = _LIMIT // width - 1
    raw = (ctypes.c_ubyte * (count * width)).from_address(width if width > 1 else 1)
    return np.ndarray((count,), dtype, buffer=memoryview(raw))


# element i of VIEW[w] lies at address (i + 1) * w, for every address but the first few (NumPy refuses address 0)
VIEW = {
    1: _spanning("uint8"),
    2: _spanning("uint16"),
    4: _spanning("uint32"),
    8: _spanning("uint64"),
    16: _spanning("V16"),
}
LOG2 = {1: 0, 2: 1, 4: 2, 8: 3, 16: 4, 32: 5}


class Region:
    """[start, end) in bytes, with a name for reports; `owner` keeps the memory alive."""

    __slots__ = ("end", "name", "owner", "start", "writable")

    def __init__(self, start: int, end: int, name: str, owner, writable: bool = True) -> None:
        self.start, self.end, self.name, self.owner, self.writable = start, end, name, owner, writable


class Memory:
    """Registered regions, sorted by address."""

    def __init__(self) -> None:
        self.regions: list[Region] = []
        self.starts: list[int] = []
        self._bounds: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None  # made again after a change

    def add(self, array: np.ndarray, name: str = "") -> int:
        """Registers an array's bytes; returns the address of its first element."""
        low, high = (
            np.lib.array_utils.byte_bounds(array) if hasattr(np.lib, "array_utils") else np.byte_bounds(array)
        )
        if array.size:
            self.insert(
                Region(
                    low,
                    high,
                    name or f"array {array.shape} {array.dtype}",
                    array,
                    bool(array.flags.writeable),
                )
            )
        return array.ctypes.data

    def allocate(self, nbytes: int, name: str = "allocation", align: int = 256) -> int:
        """Address of fresh zeroed memory."""
        raw = np.zeros(nbytes + align, np.uint8)
        start = -(-raw.ctypes.data // align) * align
        self.insert(Region(start, start + nbytes, name, raw))
        return start

    def release(self, address: int) -> bool:
        """Forgets an allocation (device-side free)."""
        for i, r in enumerate(self.regions):
            if r.start == address:
                del self.regions[i], self.starts[i]
                self._bounds = None
                return True
        return False

    def insert(self, region: Region) -> None:
        """Adds a region; overlapping ones (views of one array) merge."""
        at = bisect.bisect_left(self.starts, region.start)
        while at > 0 and self.regions[at - 1].end > region.start:
            at -= 1
        end = at
        while end < len(self.regions) and self.regions[end].start < region.end:
            other = self.regions[end]
            name = region.name if other.name == region.name else f"{other.name}, {region.name}"
            region = Region(
                min(region.start, other.start),
                max(region.end, other.end),
                name,
                (region.owner, other.owner),
                region.writable or other.writable,
            )
            end += 1
        self.regions[at:end] = [region]
        self.starts[at:end] = [region.start]
        self._bounds = None

    def region_of(self, address: int) -> Region | None:
        at = bisect.bisect_right(self.starts, address) - 1
        if at >= 0 and address < self.regions[at].end:
            return self.regions[at]
        return None

    def nearest(self, address: int) -> str:
        """Where an address lies relative to the nearest region, in words."""
        if not self.regions:
            return "no memory is registered"
        best = min(
            self.regions,
            key=lambda r: r.start - address if address < r.start else max(0, address - r.end + 1),
        )
        size = best.end - best.start
        if address < best.start:
            return f"{best.start - address} bytes before '{best.name}' ({size} bytes at {best.start:#x})"
        return (
            f"{address - best.end} bytes past the end of '{best.name}' ({size} bytes at {best.start:#x})"
            if address >= best.end
            else f"at the end of '{best.name}' ({size} bytes at {best.start:#x})"
        )

    def outside(self, address: np.ndarray, width: int, write: bool = False) -> np.ndarray | None:
        """Indices of accesses not wholly inside one region, or None when all are."""
        low, high = int(address.min()), int(address.max())
        at = bisect.bisect_right(self.starts, low) - 1
        if at >= 0:
            r = self.regions[at]
            if high + width <= r.end and (r.writable or not write):
                return None
        if not self.regions:
            return np.arange(address.size)
        if self._bounds is None:
            self._bounds = (
                np.array(self.starts, np.int64),
                np.array([r.end for r in self.regions], np.int64),
                np.array([r.writable for r in self.regions]),
            )
        starts, ends, writable = self._bounds
        slot = np.searchsorted(starts, address, "right") - 1
        good = (slot >= 0) & (address + width <= ends[slot])
        if write:
            good &= writable[slot]
        return None if good.all() else np.flatnonzero(~good)


def gather(address: np.ndarray, width: int) -> np.ndarray:
    """Elements of `width` bytes at (checked, aligned) addresses."""
    return VIEW[width].take((address >> LOG2[width]) - 1)


def scatter(address: np.ndarray, width: int, value: np.ndarray) -> None:
    VIEW[width][(address >> LOG2[width]) - 1] = value


def read_string(memory: Memory, address: int, limit: int = 1 << 16) -> bytes:
    """The NUL-terminated bytes at an address."""
    region = memory.region_of(address)
    if region is None:
        raise EmulatorError(f"string at {address:#x} is not in registered memory: {memory.nearest(address)}")
    raw = ctypes.string_at(address, min(region.end - address, limit))
    return raw.split(b"\0", 1)[0]
