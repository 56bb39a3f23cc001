"""Counts of a launch by instruction: work by class, shared-memory wavefronts, global sectors, bytes in flight at products.

A *wavefront* is one cycle of the 32 banks of shared memory, 4 bytes each; lanes are served in groups of 32, 16 or 8 for
accesses of up to 4, of 8 and of 16 bytes. A *sector* is 32 bytes of global memory. The least possible number is what the
different bytes of a warp's access need at full width.
"""

from __future__ import annotations

import numpy as np

TENSOR, SHARED, GLOBAL, LOCAL, COPY, BARRIER, FLOAT, INTEGER, CONTROL = (
    "tensor", "shared", "global", "local", "copy", "barrier", "float", "integer", "control",
)  # fmt: skip
_FLOATS = {"f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64", "tf32"}
_CONTROL = {"bra", "brx", "ret", "exit", "call", "trap", "brkpt", "nanosleep"}
_BARRIERS = {"bar", "barrier", "mbarrier", "fence", "membar"}
_PRODUCTS = {"mma", "wgmma", "wmma", "tcgen05"}


def class_of(inst) -> str:
    """Which unit an instruction keeps busy, roughly."""
    op, mods = inst.op, inst.mods
    if op in _PRODUCTS:
        return TENSOR if any(m == "mma" or m.startswith("mma") for m in (op, *mods)) else BARRIER
    if op in _BARRIERS:
        return BARRIER
    if op in ("cp", "prefetch", "prefetchu"):
        return COPY
    if op in ("ldmatrix", "stmatrix"):
        return SHARED
    if op in ("ld", "ldu", "st", "atom", "red"):
        spaces = {m.partition("::")[0] for m in mods}
        return SHARED if "shared" in spaces else LOCAL if spaces & {"local", "param", "const"} else GLOBAL
    if op in _CONTROL:
        return CONTROL
    return FLOAT if _FLOATS & set(mods) else INTEGER


class Counts:
    """What one instruction, or several together, did in a launch.

    warps: times that a warp issued it; threads: lanes that took part; by_class: warps by class of instruction. wavefronts
    and sectors, each with the least possible; copied: bytes of asynchronous copies issued. in_flight: per product and
    CTA the bytes of copies issued and not waited for: (least, sum, greatest), products counts them.
    """

    __slots__ = (
        "by_class", "copied", "flight_least", "flight_most", "flight_sum", "least_sectors", "least_wavefronts",
        "products", "sectors", "threads", "warps", "wavefronts",
    )  # fmt: skip

    def __init__(self) -> None:
        self.warps = self.threads = self.wavefronts = self.least_wavefronts = 0
        self.sectors = self.least_sectors = self.copied = 0
        self.products = self.flight_sum = self.flight_most = 0
        self.flight_least: int | None = None
        self.by_class: dict[str, int] = {}

    def add(self, other: Counts) -> None:
        for name in ("warps", "threads", "wavefronts", "least_wavefronts", "sectors", "least_sectors", "copied",
                     "products", "flight_sum"):  # fmt: skip
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.flight_most = max(self.flight_most, other.flight_most)
        if other.flight_least is not None:
            self.flight_least = min(other.flight_least, self.flight_least or other.flight_least)
        for name, count in other.by_class.items():
            self.by_class[name] = self.by_class.get(name, 0) + count

    @property
    def barriers(self) -> int:
        """Warps that passed barriers, fences and waits."""
        return self.by_class.get(BARRIER, 0)

    @property
    def in_flight(self) -> tuple[int, float, int] | None:
        """(least, mean, most) bytes in flight at a product of a CTA; None without products."""
        if not self.products:
            return None
        return self.flight_least or 0, self.flight_sum / self.products, self.flight_most


class Meter:
    """Of one launch: Counts per instruction. `instructions` maps PTX line numbers to (text, class)."""

    def __init__(self) -> None:
        self.of: dict[int, Counts] = {}  # id of the instruction
        self.insts: dict[int, object] = {}

    def counts(self, inst) -> Counts:
        found = self.of.get(id(inst))
        if found is None:
            found = self.of[id(inst)] = Counts()
            self.insts[id(inst)] = inst
        return found

    def issued(self, inst, warps: int, threads: int) -> None:
        c = self.counts(inst)
        c.warps += warps
        c.threads += threads
        name = class_of(inst)
        c.by_class[name] = c.by_class.get(name, 0) + warps

    def access(self, batch, at: np.ndarray, width: int, lanes: np.ndarray, inst=None) -> None:
        """An access of `width` bytes by each lane, at real addresses."""
        inst = inst or batch.current_inst()
        if inst is None or not lanes.size:
            return
        at = np.broadcast_to(at, (lanes.size,))
        low, high = batch.shared_start, batch.shared_start + batch.shared_stride * batch.cta_count
        inside = (at >= low) & (at < high)
        if inside.any():
            self.shared(inst, at[inside] - low, width, lanes[inside])
        if not inside.all():
            start, end = batch._local_range() if batch._local is not None else (0, 0)
            far = ~inside & ~((at >= start) & (at < end))
            if far.any() and class_of(inst) != LOCAL:  # parameters and constants have caches of their own
                self.far(batch, inst, at[far], width, lanes[far])

    def shared(self, inst, offset: np.ndarray, width: int, lanes: np.ndarray) -> None:
        words = max(1, width // 4)
        first = offset >> 2
        word = (first[:, None] + np.arange(words)).reshape(-1)
        warp = np.repeat(lanes >> 5, words)
        phase_lanes = 32 // min(words, 4)
        phase = np.repeat((lanes & 31) // phase_lanes, words)
        c = self.counts(inst)
        actual = crowding(warp * 4 + phase, word, 4)
        whole = crowding(warp, word, 1)  # lanes of several groups that agree are served together
        different = spread(warp, word)
        least = -(-different // 32)
        c.wavefronts += int(np.where(whole == 1, 1, actual[: whole.size]).sum())
        c.least_wavefronts += int(least.sum())

    def far(self, batch, inst, at: np.ndarray, width: int, lanes: np.ndarray) -> None:
        """Sectors, as if each array began on a boundary of 256 bytes, as a GPU's allocator has it."""
        c = self.counts(inst)
        starts = np.array(batch.memory.starts)
        region = np.searchsorted(starts, at, "right") - 1
        at = at - starts[region] + (region << 44)
        warp = lanes >> 5
        step = min(width, 32)
        piece = (at[:, None] + np.arange(0, width, step)).reshape(-1)
        owner = np.repeat(warp, piece.size // warp.size)
        ends = np.concatenate([piece >> 5, (piece + step - 1) >> 5])
        c.sectors += int(spread(np.concatenate([owner, owner]), ends).sum())
        small = min(step, 4)
        grains = (piece[:, None] + np.arange(0, step, small)).reshape(-1) // small
        c.least_sectors += int((-(-spread(np.repeat(owner, step // small), grains) * small // 32)).sum())

    def copy(self, inst, bytes_: int) -> None:
        if inst is not None:
            self.counts(inst).copied += bytes_

    def product(self, batch, lanes: np.ndarray, inst=None) -> None:
        """A matrix product by some lanes: notes what its CTAs have under way."""
        inst = inst or batch.current_inst()
        if inst is None:
            return
        bytes_ = np.zeros(batch.cta_count, np.int64)
        for copy in batch.copies:
            size = copy.size if copy.count is None else copy.count
            np.add.at(bytes_, batch.cta_of[copy.lanes], size)
        for flight in batch.flights:
            bytes_[flight.cta] += flight.size
        c = self.counts(inst)
        flight = bytes_[np.unique(batch.cta_of[lanes])]
        c.products += flight.size
        c.flight_sum += int(flight.sum())
        c.flight_most = max(c.flight_most, int(flight.max()))
        least = int(flight.min())
        c.flight_least = least if c.flight_least is None else min(c.flight_least, least)

    def lines(self) -> dict[int, tuple[str, Counts]]:
        """PTX line -> (instruction, its counts); several instructions of a line together."""
        out: dict[int, tuple[str, Counts]] = {}
        for key, counts in self.of.items():
            inst = self.insts[key]
            text, total = out.setdefault(inst.line, (inst.text, Counts()))
            if text != inst.text and inst.text not in text:
                out[inst.line] = f"{text} {inst.text}", total
            total.add(counts)
        return dict(sorted(out.items()))


def spread(owner: np.ndarray, item: np.ndarray) -> np.ndarray:
    """How many different items each owner has, for owners in order."""
    pairs = np.unique(np.stack([owner, item], 1), axis=0)
    return np.unique(pairs[:, 0], return_counts=True)[1]


def crowding(owner: np.ndarray, word: np.ndarray, group: int) -> np.ndarray:
    """Per group of owners the sum of their cycles: the most different words of one bank that each wants."""
    pairs = np.unique(np.stack([owner, word], 1), axis=0)
    banks, count = np.unique(pairs[:, 0] * 32 + (pairs[:, 1] & 31), return_counts=True)
    owners, first = np.unique(banks >> 5, return_index=True)
    cycles = np.maximum.reduceat(count, first)
    first = np.unique(owners // group, return_index=True)[1]
    return np.add.reduceat(cycles, first)
