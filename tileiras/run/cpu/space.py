"""Where elements are: tiles are indexed by the bits of their packed row-major number, chunks walk those bits.

All extents are powers of two, so a reshape keeps the index, a broadcast drops bits, a permute renames them. A map
says for each index bit of a tile which bit of the loop's index it is. The low `w` bits of the loop's index are the
lanes of a vector, the rest are counters of nested loops.
"""

from __future__ import annotations

from .code import Code, is_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

ZERO, ONE = -1, -2  # a bit that is constant
FLIP = 1 << 16  # added to a bit that counts down
Map = tuple[int, ...]


def log2(n: int) -> int:
    return n.bit_length() - 1


def bits_of(shape: Sequence[int]) -> int:
    return sum(log2(d) for d in shape)


def identity(bits: int) -> Map:
    return tuple(range(bits))


def dim_ranges(shape: Sequence[int]) -> list[tuple[int, int]]:
    """Per dimension the range [low, high) of its index bits."""
    out, at = [], bits_of(shape)
    for extent in shape:
        out.append((at - log2(extent), at))
        at -= log2(extent)
    return out


def compose(inner: Map, outer: Map) -> Map:
    """Bits of a source as bits of the loop: `inner` in bits of a tile, `outer` the tile's bits in those of the loop."""
    out = []
    for s in inner:
        if s < 0:
            out.append(s)
            continue
        m = outer[s % FLIP]
        if s >= FLIP:
            m = ONE if m == ZERO else ZERO if m == ONE else m - FLIP if m >= FLIP else m + FLIP
        out.append(m)
    return tuple(out)


def permute_map(shape: Sequence[int], permutation: Sequence[int]) -> Map:
    """Source bits in result bits; result dimension i is source dimension permutation[i]."""
    result = [shape[p] for p in permutation]
    at = dim_ranges(result)
    where = {p: at[i] for i, p in enumerate(permutation)}
    return tuple(
        b for d in reversed(range(len(shape))) for b in range(*where[d])
    )  # low bits first: the last dimension


def broadcast_map(source: Sequence[int], result: Sequence[int]) -> Map:
    """Source bits in result bits where extents of 1 were spread."""
    at = dim_ranges(result)
    return tuple(b for d in reversed(range(len(source))) if source[d] != 1 for b in range(*at[d]))


def turned_at(map: Map, w: int) -> int | None:
    """The loop bit q >= w that the source's low w bits are, where the lanes are w other bits of it in a row.

    2**w vectors that differ in the loop's bits [q, q + w) are then 2**w rows of the source, transposed.
    """
    q = map[0] if map else ZERO
    if q < w or map[:w] != tuple(range(q, q + w)):
        return None
    lanes = tuple(range(w))
    return q if any(map[p : p + w] == lanes for p in range(w, len(map) - w + 1)) else None


def exchange(map: Map, q: int, w: int) -> Map:
    """The map of a loop whose bits [0, w) and [q, q + w) have changed places."""

    def other(m: int) -> int:
        if m < 0:
            return m
        bit = m % FLIP
        return m - bit + (bit + q if bit < w else bit - q if q <= bit < q + w else bit)

    return tuple(other(m) for m in map)


class Chunk:
    """One vector's place in a loop nest. `parts`: (low bit, high bit, counter) of the scalar bits, low first."""

    __slots__ = ("bits", "code", "covers", "fast", "lanes", "memo", "parts", "w", "written")

    def __init__(
        self,
        code: Code,
        w: int,
        bits: int,
        parts: list[tuple[int, int, str]],
        fast: bool,
        covers: Sequence[Map],
    ) -> None:
        self.code, self.w, self.bits, self.parts = code, w, bits, parts
        self.lanes = 1 << w
        self.fast = fast  # views are whole and dense here, no masks are needed
        self.covers = (
            covers  # maps by which the loop visits every element once: values may be kept on the way
        )
        self.memo: dict[Any, str] = {}
        self.written: dict[Any, None] = {}

    def counter(self, low: int, length: int) -> str:
        """The number that loop bits [low, low + length) make."""
        key = ("counter", low, length)
        if key in self.memo:
            return self.memo[key]
        c, total = self.code, "0"
        for start, end, name in self.parts:
            first, last = max(start, low), min(end, low + length)
            if first >= last:
                continue
            part = name
            if is_number(part):
                part = str(int(part) >> (first - start) & ((1 << (last - first)) - 1))
            else:
                if first > start:
                    part = c.op(f"lshr i64 {part}, {first - start}")
                if last < end:
                    part = c.op(f"and i64 {part}, {(1 << (last - first)) - 1}")
            total = c.add(total, c.shl(part, first - low))
        self.memo[key] = total
        return total

    def offset(self, map: Map) -> str:
        """The source index of lane 0, lanes left out."""
        key = ("offset", map)
        if key in self.memo:
            return self.memo[key]
        c, total, fixed, i = self.code, "0", 0, 0
        while i < len(map):
            m = map[i]
            if m < 0:
                fixed += (m == ONE) << i
                i += 1
                continue
            j = m % FLIP
            if j < self.w:
                i += 1
                continue
            k = 1
            while i + k < len(map) and map[i + k] == m + k:
                k += 1
            part = self.counter(j, k)
            if m >= FLIP:
                mask = (1 << k) - 1
                part = str(int(part) ^ mask) if is_number(part) else c.op(f"xor i64 {part}, {mask}")
            total = c.add(total, c.shl(part, i))
            i += k
        out = self.memo[key] = c.add(total, str(fixed))
        return out

    def lane_offsets(self, map: Map) -> list[int]:
        """What each lane adds to the source index."""
        out = [0] * self.lanes
        for i, m in enumerate(map):
            if m < 0 or m % FLIP >= self.w:
                continue
            flip, j = m >= FLIP, m % FLIP
            for lane in range(self.lanes):
                out[lane] += ((lane >> j & 1) ^ flip) << i
        return out


def breaks_of(map: Map) -> set[int]:
    """Loop bits at which a map starts or ends a run: nested loops that split there have linear addresses."""
    out: set[int] = set()
    i = 0
    while i < len(map):
        m = map[i]
        if m < 0:
            i += 1
            continue
        k = 1
        while i + k < len(map) and map[i + k] == m + k:
            k += 1
        out |= {m % FLIP, m % FLIP + k}
        i += k
    return out
