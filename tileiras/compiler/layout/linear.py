"""LinearLayout: where the elements of a tile live.

A tile of 2^bits elements is indexed by its packed row-major index (the last dimension has the low bits), so a
reshape never changes a layout. A place is (register, lane, warp); column k of a hardware dimension says which
index bits flip when bit k of that coordinate flips. Several places may hold one element: a zero column of a
lane or warp bit means that the two halves hold copies.

`inv` is a mask of index bits on which the value does not depend (a splat, a broadcast dimension): columns are
zero there and the tile is only stored modulo those bits. A broadcast therefore moves nothing.

Worked value: tile<8x4> on 2 registers, 8 lanes used of 32, 1 warp: reg=(1,), lane=(2, 4, 8, 16, 0), warp=():
register 1 of lane 5 (bits 0 and 2) holds index 1 ^ 2 ^ 8 = 11 = row 2, column 3.
Source: linear layouts as in arXiv 2505.23819; the quotient by `inv` is ours.
"""

from __future__ import annotations

from tileiras.memo import remembered

from .algebra import INDEX, LANE, OFFSET, REGISTER, WARP, Map, compose
from .gf2 import Basis, apply, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

LANE_BITS = 5


class LinearLayout:
    """Hardware place -> packed tensor index, by xor of columns. Interned: compare with `is`."""

    __slots__ = ("_cache", "bits", "inv", "lane", "reg", "warp")
    _pool: dict[Any, LinearLayout] = {}

    def __new__(
        cls, bits: int, reg: Sequence[int], lane: Sequence[int], warp: Sequence[int], inv: int = 0
    ) -> LinearLayout:
        key = (bits, tuple(reg), tuple(lane), tuple(warp), inv)
        self = cls._pool.get(key)
        if self is None:
            self = object.__new__(cls)
            self.bits, self.reg, self.lane, self.warp, self.inv = key
            self._cache = {}
            self = cls._pool.setdefault(key, self)
        return self

    def __call__(self, reg: int = 0, lane: int = 0, warp: int = 0) -> int:
        return apply(self.reg, reg) ^ apply(self.lane, lane) ^ apply(self.warp, warp)

    @property
    def map(self) -> Map:
        """(register, lane, warp) -> index."""
        found = self._cache.get("map")
        if found is None:
            found = self._cache["map"] = Map(
                {REGISTER: self.reg, LANE: self.lane, WARP: self.warp}, {INDEX: self.bits}
            )
        return found

    @property
    def num_regs(self) -> int:
        return 1 << len(self.reg)

    @property
    def num_warps(self) -> int:
        return 1 << len(self.warp)

    @property
    def reg_table(self) -> list[int]:
        """Packed index offset of every register."""
        found = self._cache.get("regs")
        if found is None:
            found = self._cache["regs"] = table(self.reg)
        return found

    @property
    def reg_of(self) -> dict[int, int]:
        """Register by its packed index offset (registers hold distinct offsets by construction)."""
        found = self._cache.get("reg_of")
        if found is None:
            found = self._cache["reg_of"] = {offset: r for r, offset in enumerate(self.reg_table)}
        return found

    @property
    def replicated(self) -> tuple[int, int]:
        """Masks of lane bits and warp bits that only hold copies (first-come columns own the element)."""
        found = self._cache.get("rep")
        if found is None:
            basis = Basis(self.reg)
            lanes = warps = 0
            for i, column in enumerate(self.lane):
                if not basis.insert(column):
                    lanes |= 1 << i
            for i, column in enumerate(self.warp):
                if not basis.insert(column):
                    warps |= 1 << i
            found = self._cache["rep"] = (lanes, warps)
        return found

    @property
    def problem(self) -> str | None:
        """Why it does not say where the elements of a tile are, as one that was written by hand may; None where it does."""
        if "problem" not in self._cache:
            self._cache["problem"] = self._problem()
        return self._cache["problem"]  # type: ignore[no-any-return]

    def _problem(self) -> str | None:
        columns = (*self.reg, *self.lane, *self.warp)
        counted = ((1 << self.bits) - 1) & ~self.inv
        if any(column & self.inv for column in columns):
            return "has places within inv"
        if Basis(self.reg).rank < len(self.reg):
            return "has two registers of a thread for one element"
        return None if Basis(columns).rank == bin(counted).count("1") else "has no place for some elements"

    @property
    def is_splat(self) -> bool:
        return self.inv == (1 << self.bits) - 1

    def __str__(self) -> str:
        def cols(columns: tuple[int, ...]) -> str:
            return "[" + ", ".join(map(str, columns)) + "]"

        inv = f", inv = {self.inv}" if self.inv else ""
        return f"#linear<{self.bits}, reg = {cols(self.reg)}, lane = {cols(self.lane)}, warp = {cols(self.warp)}{inv}>"

    def __repr__(self) -> str:
        return str(self)


def arrangement(columns: Sequence[int]) -> Map:
    """The map from the index to the offset in shared memory that an op's columns are (shared.py)."""
    return Map({INDEX: columns}, {OFFSET: max((c.bit_length() for c in columns), default=0)})


@remembered(1024)
def placed(layout: LinearLayout, columns: tuple[int, ...]) -> Map:
    """(register, lane, warp) -> offset of a tile that has `layout` in registers and lies as `columns` say."""
    return compose(layout.map, arrangement(columns))


def splat(bits: int, log2_warps: int) -> LinearLayout:
    """Every thread holds the one value."""
    return LinearLayout(bits, (), (0,) * LANE_BITS, (0,) * log2_warps, (1 << bits) - 1)


def log2(n: int) -> int:
    return n.bit_length() - 1


def dim_bits(shape: Sequence[int]) -> list[tuple[int, int]]:
    """(low bit, bit count) of every dimension in the packed index."""
    out = []
    low = 0
    for extent in reversed(shape):
        count = log2(extent)
        out.append((low, count))
        low += count
    return out[::-1]


def blocked(shape: Sequence[int], order: Sequence[int], vector_bits: int, log2_warps: int) -> LinearLayout:
    """Coalesced layout: `2^vector_bits` neighbours along order[0] a thread, then lanes, then warps, then registers.

    `order` lists dimensions from fastest to slowest. Copies fill lanes and warps when the tile is small.
    """
    spans = dim_bits(shape)
    total = sum(count for _, count in spans)
    sequence = [1 << (spans[d][0] + k) for d in order for k in range(spans[d][1])]
    vector = sequence[:vector_bits]
    rest = sequence[vector_bits:]
    lane = rest[:LANE_BITS]
    warp = rest[LANE_BITS : LANE_BITS + log2_warps]
    reg = vector + rest[LANE_BITS + log2_warps :]
    lane += [0] * (LANE_BITS - len(lane))
    warp += [0] * (log2_warps - len(warp))
    return LinearLayout(total, reg, lane, warp)


def neighbours(layout: LinearLayout, low: int, count: int, most: int) -> int:
    """log2 of a thread's registers that follow each other along the `count` index bits from `low` on, at most `most`."""
    run = 0
    while run < min(most, count, len(layout.reg)) and layout.reg[run] == 1 << (low + run):
        run += 1
    return run


def remap_bits(layout: LinearLayout, moved: Sequence[int], bits: int) -> LinearLayout:
    """Every index bit k goes to bit moved[k]; a negative entry drops the bit (it must be invariant or unused)."""
    columns = [1 << to if to >= 0 else 0 for to in moved]
    places = compose(layout.map, Map({INDEX: columns}, {INDEX: bits})).ins
    return LinearLayout(bits, places[REGISTER], places[LANE], places[WARP], apply(columns, layout.inv))


def permuted(layout: LinearLayout, shape: Sequence[int], permutation: Sequence[int]) -> LinearLayout:
    """Layout of permute(tile): result dimension i is source dimension permutation[i]. Nothing moves."""
    source = dim_bits(shape)
    result = dim_bits([shape[p] for p in permutation])
    moved = [0] * layout.bits
    for i, p in enumerate(permutation):
        for k in range(source[p][1]):
            moved[source[p][0] + k] = result[i][0] + k
    return remap_bits(layout, moved, layout.bits)


def broadcasted(layout: LinearLayout, shape: Sequence[int], target: Sequence[int]) -> LinearLayout:
    """Layout of broadcast(tile): dimensions of extent 1 grow; the new index bits are invariant. Nothing moves."""
    source = dim_bits(shape)
    result = dim_bits(target)
    moved = [0] * layout.bits
    bits = sum(count for _, count in result)
    inv = 0
    for (slow, scount), (rlow, rcount) in zip(source, result):
        if scount == rcount:
            for k in range(scount):
                moved[slow + k] = rlow + k
        else:
            inv |= ((1 << rcount) - 1) << rlow
    out = remap_bits(layout, moved, bits)
    return LinearLayout(bits, out.reg, out.lane, out.warp, out.inv | inv)


def unpermuted(layout: LinearLayout, shape: Sequence[int], permutation: Sequence[int]) -> LinearLayout:
    """The layout of a tile of `shape` whose permutation has `layout`. Nothing moves."""
    source = dim_bits(shape)
    result = dim_bits([shape[p] for p in permutation])
    moved = [0] * layout.bits
    for i, p in enumerate(permutation):
        for k in range(source[p][1]):
            moved[result[i][0] + k] = source[p][0] + k
    return remap_bits(layout, moved, layout.bits)


def unbroadcasted(layout: LinearLayout, shape: Sequence[int], target: Sequence[int]) -> LinearLayout:
    """The layout of a tile of `shape` that broadcasts to `target` into (a renaming of) `layout`."""
    source, result = dim_bits(shape), dim_bits(target)
    moved = [-1] * layout.bits
    for (slow, scount), (rlow, _) in zip(source, result):
        for k in range(scount):
            moved[rlow + k] = slow + k
    bits = sum(count for _, count in source)
    out = remap_bits(layout, moved, bits)
    seen = dict.fromkeys(c for c in out.reg if c)
    return LinearLayout(bits, tuple(seen), out.lane, out.warp, out.inv)


def halved(layout: LinearLayout, shape: Sequence[int], dim: int) -> LinearLayout | None:
    """The layout of both halves, along `dim`, of a tile of `shape`; None unless one register bit tells them apart."""
    low, count = dim_bits(shape)[dim]
    top = 1 << (low + count - 1)
    columns = (*layout.reg, *layout.lane, *layout.warp)
    if top not in layout.reg or sum(1 for c in columns if c & top) != 1:
        return None
    moved = [k if k < low + count - 1 else k - 1 for k in range(layout.bits)]
    moved[low + count - 1] = -1
    out = remap_bits(layout, moved, layout.bits - 1)
    return LinearLayout(out.bits, [c for c in out.reg if c], out.lane, out.warp, out.inv)


def kept_in_warp(layout: LinearLayout, mask: int) -> list[int]:
    """The index bits outside `mask` that the registers and lanes of one warp tell apart."""
    told = 0
    for column in (*layout.reg, *layout.lane):
        told |= column & ~mask
    return [k for k in range(layout.bits) if told >> k & 1]


def reduced(layout: LinearLayout, shape: Sequence[int], dim: int) -> LinearLayout:
    """Layout after all index bits of `dim` are gone: places that differed only there hold copies."""
    low, count = dim_bits(shape)[dim]
    moved = [k if k < low else (-1 if k < low + count else k - count) for k in range(layout.bits)]
    out = remap_bits(layout, moved, layout.bits - count)
    return LinearLayout(out.bits, [c for c in out.reg if c], out.lane, out.warp, out.inv)


def embedded(layout: LinearLayout, inner: Sequence[int], outer: Sequence[int]) -> LinearLayout:
    """A layout of `inner` extended to `outer` (dims are multiples): the extra bits of every dimension are registers."""
    idims, odims = dim_bits(inner), dim_bits(outer)
    bits = sum(c for _, c in odims)
    moved = [0] * layout.bits
    extra = []
    for (ilow, icount), (olow, ocount) in zip(idims, odims):
        for k in range(icount):
            moved[ilow + k] = olow + k
        extra += [1 << (olow + k) for k in range(icount, ocount)]
    out = remap_bits(layout, moved, bits)
    return LinearLayout(bits, (*out.reg, *sorted(extra)), out.lane, out.warp, out.inv)


def with_inv(layout: LinearLayout, inv: int) -> LinearLayout:
    """The layout of a value known not to depend on the index bits of `inv`: those bits leave the columns."""
    keep = ~inv
    basis = Basis()
    reg = [c & keep for c in layout.reg]
    reg = [c for c in reg if c and basis.insert(c)]
    return LinearLayout(
        layout.bits, reg, [c & keep for c in layout.lane], [c & keep for c in layout.warp], layout.inv | inv
    )


def without_inv(layout: LinearLayout, near: int) -> LinearLayout:
    """A layout of the same value that names a place for every element. Bits of `inv` that are in `near` are the first registers;
    then copies in lanes and warps take one each, and registers, the last ones, take the rest."""
    if not layout.inv:
        return layout
    bits = [1 << k for k in range(layout.bits) if layout.inv >> k & 1]
    first, rest = [c for c in bits if c & near], [c for c in bits if not c & near]
    lane, warp = list(layout.lane), list(layout.warp)
    for columns, copies in zip((lane, warp), layout.replicated):
        for i in range(len(columns)):
            if copies >> i & 1 and rest:
                columns[i] ^= rest.pop(0)
    return LinearLayout(layout.bits, (*first, *layout.reg, *rest), lane, warp)
