"""Pairs of CTAs that multiply as one (tcgen05.mma.cta_group::2): which products can, and what becomes of their ring.

The CTAs of a cluster with the ranks 2 i and 2 i + 1 are a pair. Each has its own rows: of the left operand in shared memory, of
the sum in its tensor memory. The right operand both need whole, and each loads one half of its columns: a stage is smaller, and
nothing crosses the second-level cache twice. One thread of the even CTA, the leader, issues the products of both. Copies of
both complete on the leader's mbarriers; what products release, and their sums, arrive on the mbarriers of both.

In a cluster of several pairs, CTAs of the same parity load the same half: each copies a part of it into all of them. A stage is
free when the products of all pairs have read it.

It is decided where warps are given roles (assign_roles.py): sums in tensor memory, one ring that bulk copies fill, and a warp
of its own for either side. `suits` says early, of shapes alone, whether that can become of a product.
"""

from __future__ import annotations

from math import prod

from tileiras.compiler.dialects.nv_tileaa.kernel_spec import KEY
from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.dialects.nv_tileas.rings import MAX_DEPTH, RESERVED_BYTES, STAGE_UNIT, span_of
from tileiras.compiler.dialects.nv_tileas.tensor_maps import maps_of, shares
from tileiras.compiler.layout.linear import dim_bits
from tileiras.compiler.layout.shared import MIN_SWIZZLED, arrange, matrix_operand
from tileiras.compiler.target import sm, tcgen05
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.tensor_maps import TensorMap

from .bulk import SWIZZLES, NoMap, box_of, depends_on_rank, divided

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op

    from .roles import Ring


ELSEWHERE = "its right operand lies in another order than it was loaded"


class NoPair(Exception):
    """Why the CTAs of a cluster multiply each for itself."""


def suits(rows: int, columns: int, line_bytes: int | None) -> str | None:
    """Why CTAs of `rows` rows each cannot multiply as pairs; None where they can. `line_bytes`: of all columns, where these lie
    contiguous."""
    if rows % tcgen05.LANES:
        return f"{rows} rows of a CTA are no multiple of {tcgen05.LANES}"
    if not tcgen05.PAIRED_N <= columns <= tcgen05.MAX_N:
        return f"{columns} columns are not {tcgen05.PAIRED_N} to {tcgen05.MAX_N}"
    if line_bytes is not None and line_bytes // 2 < MIN_SWIZZLED:
        return f"half of its columns are lines of {line_bytes // 2} bytes, below {MIN_SWIZZLED}"
    return None


class Tile:
    """What each CTA of a pair copies of one tile of a stage: its map, bytes, where it lies, and which dimensions are halved.
    `own`: whether it may be another one in each CTA."""

    def __init__(
        self, map: TensorMap, number: int, tile: tuple[int, ...], start: int, size: int, own: bool
    ) -> None:
        self.map, self.number, self.tile, self.start, self.size = map, number, tile, start, size
        self.own = own
        self.first = start  # where it lay
        self.halved = [False] * len(tile)
        self.shared = False  # by CTAs of the same parity
        self.arrangement: tuple[int, ...] | None = None  # as a right operand, where it is halved


class Pair:
    """A ring whose products pairs of CTAs issue together: `stages` of `stage` bytes, its `tiles`."""

    def __init__(self, func: Op, ring: Ring, target: Any) -> None:
        spec = func.attrs[KEY]
        if (spec.tile_ctas or 1) < 2:
            raise NoPair("no CTAs share the tile block")
        if not target.has(sm.PAIRS):
            raise NoPair("pairs of CTAs are left out")
        if any(op.spec.name == "return" and op.parent is not func for op in func.walk()):
            raise NoPair("one CTA of a pair might leave the kernel alone")
        assert ring.sums is not None
        self.func, self.ring = func, ring
        self.ctas: int = spec.tile_ctas
        self.products = ring.sums.products
        self.tiles = self.loaded()
        self.by_start = {tile.first: tile for tile in self.tiles}
        for op in self.products:
            self.halve(op)
        lefts = {op.attr("a_start") for op in self.products}
        if any(any(tile.halved) and tile.first in lefts for tile in self.tiles):
            raise NoPair("a tile is a left and a right operand")
        at = 0
        for tile in self.tiles:
            tile.start = at
            at += tile.size + STAGE_UNIT - 1 & -STAGE_UNIT
        self.stage = at
        self.stages, self.barriers = self.depth()

    def loaded(self) -> list[Tile]:
        """The tiles of a stage."""
        load, maps = self.ring.load, maps_of(self.func)
        found, at = [], 0
        for number, start, size in zip(load.attr("maps"), load.attr("starts"), load.attr("bytes")):
            end = at + len(maps[number].box)
            own = any(map(depends_on_rank, load.group("index")[at:end]))
            found.append(Tile(maps[number], number, load.attr("tile")[at:end], start, size, own))
            at = end
        return found

    def halve(self, op: Op) -> None:
        """The right operand of a product: halves of its columns."""
        if op.spec is not tileas.TENSOR_PRODUCT:
            raise NoPair("its operands have block scales")
        depth, columns = op.attr("depth"), op.attr("n")
        size = 1 << 5 - tcgen05.TYPES[op.attr("elem")][2]
        k_bits, n_bits = dim_bits((depth, columns))
        whole = op.attrs["b_arrangement"]
        form = matrix_operand(whole, k_bits, n_bits, size)
        if form is None:
            raise NoPair(ELSEWHERE)
        why = suits(op.attr("m"), columns, None if form.k_major else columns * size)
        if why is not None:
            raise NoPair(why)
        unit = 0 if form.k_major else 1
        tile = self.by_start.get(op.attr("b_start"))
        if tile is None or op.attr("a_start") not in self.by_start:
            raise NoPair("an operand is a part of a tile that copies bring")
        if tile.own:  # of a product that is computed transposed (TileAATurnFewRows), it is the rows
            raise NoPair("each CTA has a right operand of its own")
        d = len(tile.tile) - 1 if unit else next(
            (d for d in reversed(range(len(tile.tile) - 1)) if tile.tile[d] > 1), 0
        )  # fmt: skip
        if (
            tile.tile[d] != columns
            or prod(tile.tile) != depth * columns
            or whole != arrange((depth, columns), unit, size)
        ):
            raise NoPair(ELSEWHERE)
        tile.halved = [at == d for at in range(len(tile.tile))]
        tile.arrangement = arrange((depth, columns // 2), unit, size)
        tile.size = depth * columns * size // 2
        part = tuple(extent >> half for extent, half in zip(tile.tile, tile.halved))
        try:
            box = divided(part, box_of(part, size), self.ctas // 2)
        except NoMap as reason:
            raise NoPair(str(reason)) from None
        tile.shared = self.ctas > 2 and shares(part, box, self.ctas // 2) is not None
        old = tile.map
        swizzle = SWIZZLES[box[-1] * size]
        tile.map = TensorMap(old.base, old.element, old.extents, old.strides, box, swizzle, old.fill)

    def depth(self) -> tuple[int, int]:
        """(as many stages as the ring's bytes hold, where its mbarriers begin: behind them where they have no room else)."""
        ring = self.ring
        size, barriers = ring.stages * ring.stage, ring.begin.attr("barriers")
        stages = min(MAX_DEPTH, CostModel.pair_stages, size // self.stage)
        room = tcgen05.STATE_BYTES - (barriers + ring.start) if barriers < 0 else RESERVED_BYTES
        if 2 * span_of(self.stage, stages) > room:
            stages = min(stages, (size - RESERVED_BYTES) // self.stage)
            barriers = stages * self.stage
        if stages < 2:
            raise NoPair("its bytes hold no two stages")
        return stages, barriers

    @property
    def together(self) -> bool:
        """Whether several pairs share copies."""
        return any(tile.shared for tile in self.tiles)

    def product(self, op: Op) -> dict[str, Any]:
        """The attributes of a product of the ring."""
        left, right = (self.by_start[op.attr(f"{which}_start")] for which in "ab")
        return {
            **op.attrs, "pair": True, "a_start": left.start, "b_start": right.start, "b_arrangement": right.arrangement,
        }  # fmt: skip
