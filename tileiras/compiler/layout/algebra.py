"""Linear maps over GF(2) between named coordinates: compose, invert, product, divide.

Everything that says where data lies is such a map, and what is asked about it is one of four operations:

- a layout takes (register, lane, warp) to the index of a tile's element (linear.py); tiles that the CTAs of a cluster copy
  for each other have a coordinate `block` besides, the CTA's rank (dialects/nv_tileas/tensor_maps.py);
- an arrangement takes the index to the byte of shared memory, `offset` (shared.py); layout and arrangement composed take each
  thread's registers to their bytes;
- what an instruction moves is a map, too: of ldmatrix, the bytes of a row and the number of the row to the register and the
  lane that get them. An instruction fits where what is composed divides by its tile;
- where an element of one layout is found in another is the one composed with the inverse of the other.

A column says which bits of the result flip with one bit of a coordinate; the results' coordinates are packed into it, the first
one lowest.

Worked value: ins {"lane": (2, 4), "register": (1,)}, outs {"column": 1, "row": 2}: register 1 of lane 2 is 4 ^ 1 = 5, column 1
of row 2. Source: linear layouts as in arXiv 2505.23819; `divide` is their left division.
"""

from __future__ import annotations

from .gf2 import Basis, apply

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

REGISTER, LANE, WARP, BLOCK = "register", "lane", "warp", "block"
INDEX, OFFSET = "index", "offset"


class Map:
    """`ins`: columns by name, bit 0 first. `outs`: bits by name. Compared by what they say, not by identity."""

    __slots__ = ("ins", "outs")

    def __init__(self, ins: Mapping[str, Sequence[int]], outs: Mapping[str, int]) -> None:
        self.ins = {name: tuple(columns) for name, columns in ins.items()}
        self.outs = dict(outs)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Map)
            and self.ins == other.ins
            and list(self.outs.items()) == list(other.outs.items())
        )

    def __hash__(self) -> int:
        return hash((frozenset(self.ins.items()), tuple(self.outs.items())))

    def __call__(self, **place: int) -> int:
        """The packed result; a coordinate that is not given is 0."""
        out = 0
        for name, value in place.items():
            out ^= apply(self.ins[name], value)
        return out

    def split(self, packed: int) -> tuple[int, ...]:
        """The results that a packed one holds, in their order."""
        out = []
        for bits in self.outs.values():
            out.append(packed & ((1 << bits) - 1))
            packed >>= bits
        return tuple(out)

    def __repr__(self) -> str:
        return f"Map({self.ins}, {self.outs})"


def identity(name: str, bits: int, to: str) -> Map:
    """Bit k of one coordinate is bit k of the other."""
    return Map({name: [1 << k for k in range(bits)]}, {to: bits})


def compose(first: Map, second: Map) -> Map:
    """`first`, then `second`, whose coordinates include the results of `first`; further ones are 0."""
    columns: list[int] = []
    for name, bits in first.outs.items():
        mine = second.ins[name][:bits]
        columns += mine
        columns += [0] * (bits - len(mine))
    return Map({name: [apply(columns, c) for c in ins] for name, ins in first.ins.items()}, second.outs)


def locate(map: Map, within: Map) -> Map | None:
    """`map` composed with the inverse of `within`, which has the same results: for a place of the one, a place of the other
    that has the same (compose(answer, within) is `map`). None where one is missing. Of several places it is the one whose
    coordinates come first, and of copies the one at 0."""
    basis = Basis(c for columns in within.ins.values() for c in columns)
    ins = {name: [basis.solve(c) for c in columns] for name, columns in map.ins.items()}
    if any(None in places for places in ins.values()):
        return None
    return Map(ins, {name: len(columns) for name, columns in within.ins.items()})  # type: ignore[arg-type]


def invert(map: Map) -> Map | None:
    """A map from the results to a place that has them: composed with `map`, the identity. None where some are not reached."""
    ins, low = {}, 0
    for name, bits in map.outs.items():
        ins[name] = [1 << low + k for k in range(bits)]
        low += bits
    return locate(Map(ins, map.outs), map)


def product(*maps: Map) -> Map:
    """Side by side: bits of a coordinate that several have follow each other, before and behind."""
    outs: dict[str, int] = {}
    for map in maps:
        for name, bits in map.outs.items():
            outs[name] = outs.get(name, 0) + bits
    ins: dict[str, list[int]] = {}
    taken = dict.fromkeys(outs, 0)
    for map in maps:
        lows, low = [], 0
        for name, bits in map.outs.items():
            lows.append((low, bits, _low(outs, name) + taken[name]))
            low += bits
            taken[name] += bits
        for name, columns in map.ins.items():
            ins.setdefault(name, []).extend(_moved(c, lows) for c in columns)
    return Map(ins, outs)


def divide(map: Map, tile: Map) -> Map | None:
    """What `tile` must be multiplied with to give `map`: product(tile, quotient) is `map`, results in that order. None where
    there is nothing."""
    if list(map.outs) != [*tile.outs, *(name for name in map.outs if name not in tile.outs)]:
        return None
    if (
        any(map.outs[name] < bits for name, bits in tile.outs.items())
        or not tile.ins.keys() <= map.ins.keys()
    ):
        return None
    lows, rest = [], []
    inside = low = left = 0
    for name, bits in map.outs.items():
        own = tile.outs.get(name, 0)
        if own:
            lows.append((_low(tile.outs, name), own, low))
        inside |= ((1 << own) - 1) << low
        rest.append((low + own, bits - own, left))
        low += bits
        left += bits - own
    ins = {}
    for name, columns in map.ins.items():
        own_columns = tile.ins.get(name, ())
        count = len(own_columns)
        if columns[:count] != tuple(_moved(c, lows) for c in own_columns):
            return None
        if any(c & inside for c in columns[count:]):
            return None
        ins[name] = [_moved(c, rest) for c in columns[count:]]
    return Map(ins, {name: bits - tile.outs.get(name, 0) for name, bits in map.outs.items()})


def _low(outs: Mapping[str, int], name: str) -> int:
    """The bit of a column at which a result begins."""
    low = 0
    for other, bits in outs.items():
        if other == name:
            break
        low += bits
    return low


def _moved(column: int, fields: Sequence[tuple[int, int, int]]) -> int:
    """A column whose fields, (from, bits, to), go elsewhere."""
    out = 0
    for low, bits, to in fields:
        out |= (column >> low & (1 << bits) - 1) << to
    return out
