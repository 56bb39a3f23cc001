"""Memory as the kernel sees it: real addresses, inside the regions that were passed and nowhere else.

A region is a byte interval that holds one array, or several that overlap. Accesses come as tiles of
addresses; when one region contains them all (nearly always) they become one indexing operation of a typed
view of that region. Every other access is resolved region by region, and what belongs to none is reported.
"""

from __future__ import annotations

import ctypes

import numpy as np

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Region:
    """Bytes [start, end); `label` says whose; `keep` holds what owns them."""

    __slots__ = ("bytes", "end", "keep", "label", "read_only", "start", "views")

    def __init__(self, start: int, end: int, label: str, keep: Any, read_only: bool = False) -> None:
        self.start, self.end, self.label, self.keep, self.read_only = start, end, label, keep, read_only
        raw = (ctypes.c_ubyte * (end - start)).from_address(start)
        self.bytes = np.frombuffer(memoryview(raw), np.uint8)
        self.views: dict[Any, tuple[int, Any]] = {}

    def view(self, dtype: Any) -> tuple[int, Any]:
        """(address of item 0, array) over the aligned items of `dtype` in the region."""
        found = self.views.get(dtype)
        if found is None:
            size = dtype.itemsize
            base = (self.start + size - 1) // size * size
            count = max(0, (self.end - base) // size)
            skip = base - self.start
            array = self.bytes[skip : skip + count * size].view(dtype) if count else np.empty(0, dtype)
            found = self.views[dtype] = base, array
        return found


class Fault(Exception):
    """An access that memory refuses; the op's site turns it into a diagnostic."""

    def __init__(
        self, kind: str, verb: str, size: int, address: int, position: int, region: Region | None = None
    ) -> None:
        super().__init__(kind)
        self.kind, self.verb, self.size, self.address, self.position, self.region = (
            kind,
            verb,
            size,
            address,
            position,
            region,
        )


def byte_bounds(a: np.ndarray) -> tuple[int, int]:
    """[low, high) of the bytes that an array's elements lie in, for any strides."""
    low = high = a.__array_interface__["data"][0]
    if a.size == 0:
        return low, low
    for extent, stride in zip(a.shape, a.strides):
        if stride < 0:
            low += (extent - 1) * stride
        else:
            high += (extent - 1) * stride
    return low, high + a.itemsize


def describe(a: np.ndarray) -> str:
    return f"{a.dtype}{list(a.shape)}"


class Memory:
    """All regions, sorted by address and disjoint."""

    __slots__ = ("changes", "ends", "last", "regions", "starts")

    def __init__(self) -> None:
        self.regions: list[Region] = []
        self.starts = np.empty(0, np.int64)
        self.ends = np.empty(0, np.int64)
        self.last: Region | None = None
        self.changes = 0  # counts stores: what tells waiting tile blocks from a deadlock

    def add_array(self, a: np.ndarray, label: str) -> None:
        low, high = byte_bounds(a)
        if high > low:
            self.add(low, high, f"{label}, {describe(a)}", a, not a.flags.writeable)

    def add(self, start: int, end: int, label: str, keep: Any, read_only: bool = False) -> None:
        """Register bytes; regions that overlap become one."""
        apart, keeps = [], [keep]
        for r in self.regions:
            if r.end <= start or r.start >= end:
                apart.append(r)
            else:
                keeps.append(r.keep)
                if label not in r.label:
                    label = f"{r.label}; {label}"
                start, end = min(start, r.start), max(end, r.end)
                read_only = read_only and r.read_only
        apart.append(Region(start, end, label, keeps, read_only))
        self.set(apart)

    def remove(self, start: int) -> None:
        self.set([r for r in self.regions if r.start != start])

    def set(self, regions: list[Region]) -> None:
        self.regions = sorted(regions, key=lambda r: r.start)
        self.starts = np.array([r.start for r in self.regions], np.int64)
        self.ends = np.array([r.end for r in self.regions], np.int64)
        self.last = self.regions[0] if self.regions else None

    def find(self, low: int, high: int) -> Region | None:
        """The region that contains [low, high), None when no single one does."""
        r = self.last
        if r is not None and r.start <= low and high <= r.end:
            return r
        k = int(self.starts.searchsorted(low, "right")) - 1
        if k >= 0 and high <= self.regions[k].end:
            self.last = self.regions[k]
            return self.last
        return None

    def nearest(self, address: int) -> tuple[Region, int] | None:
        """The region closest to an address, and the distance: positive behind its end, negative before it."""
        best = None
        for r in self.regions:
            distance = address - r.end if address >= r.end else min(0, address - r.start)
            if best is None or abs(distance) < abs(best[1]):
                best = r, distance
        return best

    # ---- tiles of addresses

    def locate(self, addresses: Any, dtype: Any, verb: str, use: Callable[[Any, Any, Any], None]) -> None:
        """Call use(view, item numbers, which addresses) per region for addresses of any number of regions."""
        size = dtype.itemsize
        flat = np.asarray(addresses).reshape(-1)
        if not self.regions:
            raise Fault("bounds", verb, size, int(flat[0]), 0)
        k = np.searchsorted(self.starts, flat, "right") - 1
        bad = (k < 0) | (flat + size > self.ends[k])
        if bad.any():
            i = int(np.argmax(bad))
            raise Fault("bounds", verb, size, int(flat[i]), i)
        bad = (flat & (size - 1)) != 0
        if bad.any():
            i = int(np.argmax(bad))
            raise Fault("aligned", verb, size, int(flat[i]), i)
        for number in np.unique(k):
            region = self.regions[number]
            which = np.flatnonzero(k == number)
            if verb == "writes" and region.read_only:
                raise Fault("read-only", verb, size, int(flat[which[0]]), int(which[0]), region)
            base, view = region.view(dtype)
            use(view, (flat[which] - base) // size, which)

    def _one(self, addresses: Any, dtype: Any, verb: str) -> tuple[Any, Any] | None:
        """(view, item numbers) when one region holds all of these aligned addresses."""
        size = dtype.itemsize
        region = self.find(int(addresses.min()), int(addresses.max()) + size)
        if region is None:
            return None
        if verb == "writes" and region.read_only:
            return None
        base, view = region.view(dtype)
        offset = addresses - base
        if size == 1:
            return view, offset
        if (offset & (size - 1)).any():
            return None
        return view, offset >> (size.bit_length() - 1)

    def load(self, addresses: Any, dtype: Any) -> Any:
        """Elements of `dtype` at a non-empty tile of addresses."""
        one = self._one(addresses, dtype, "reads")
        if one is not None:
            return one[0][one[1]]
        out = np.empty(np.shape(addresses), dtype)
        flat = out.reshape(-1)

        def use(view: Any, items: Any, which: Any) -> None:
            flat[which] = view[items]

        self.locate(addresses, dtype, "reads", use)
        return out

    def store(self, addresses: Any, values: Any, dtype: Any) -> None:
        self.changes += 1
        one = self._one(addresses, dtype, "writes")
        if one is not None:
            one[0][one[1]] = values
            return
        flat = np.broadcast_to(values, np.shape(addresses)).reshape(-1)

        def use(view: Any, items: Any, which: Any) -> None:
            view[items] = flat[which]

        self.locate(addresses, dtype, "writes", use)

    def combine(self, ufunc: Any, addresses: Any, values: Any, dtype: Any) -> bool:
        """memory[a] = ufunc(memory[a], value) for each address in turn; False when not in one writable region."""
        one = self._one(addresses, dtype, "writes")
        if one is None:
            return False
        self.changes += 1
        ufunc.at(one[0], one[1], values)
        return True

    # ---- rectangular blocks

    def block(
        self, address: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any, verb: str
    ) -> Any:
        """An array over memory: element (i, j) at address + i*strides[0] + j*strides[1]; no extent is 0."""
        low = high = address
        for extent, stride in zip(shape, strides):
            if stride < 0:
                low += (extent - 1) * stride
            else:
                high += (extent - 1) * stride
        size = dtype.itemsize
        region = self.find(low, high + size)
        if region is not None and not (verb == "writes" and region.read_only) and address % size == 0:
            return np.ndarray(shape, dtype, region.bytes, address - region.start, strides)
        grid: Any = np.int64(address)
        for d, (extent, stride) in enumerate(zip(shape, strides)):
            steps = np.arange(extent, dtype=np.int64) * stride
            grid = grid + steps.reshape((-1,) + (1,) * (len(shape) - 1 - d))
        raise Spread(grid)


class Spread(Exception):
    """A block that no single region holds: its addresses, to be accessed one by one."""

    def __init__(self, addresses: Any) -> None:
        super().__init__()
        self.addresses = addresses
