"""Cuts: how a huge tile is divided into slices.

A cut of a tile with 2^s slices names, for every bit of the slice number from the top down, the dimension that the
bit belongs to; the k-th mention of a dimension is its k-th highest bit. Cut (0, 0, 1) of tile<4x64>: slice number
0b101 is row 2, the upper half: a slice has shape 1x32. A slice is a block of the tile in every dimension, so a view,
an extract and an insert can name it.

The leading cut takes dimensions in order. Reshapes lead leading cuts to leading cuts, because they keep the packed
index; permutations rename the dimensions.
"""

from __future__ import annotations

from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.ir.types import TensorType
from tileiras.compiler.target.cost import CostModel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tileiras.compiler.ir.core import Value

    Cut = tuple[int, ...]


def _log2(extent: int) -> int:
    return extent.bit_length() - 1


class Limits:
    """Sizes in elements: tiles above `big` are cut; those above `vast` cannot be held in registers across a loop; a
    slice has 2^log2_slice."""

    __slots__ = ("big", "log2_slice", "vast")

    def __init__(self, big: int, vast: int, log2_slice: int) -> None:
        self.big = big
        self.vast = vast
        self.log2_slice = log2_slice

    def is_big(self, value: Value) -> bool:
        return isinstance(value.type, TensorType) and num_elements(value.type.shape) > self.big  # type: ignore[attr-defined]

    def is_vast(self, value: Value) -> bool:
        return isinstance(value.type, TensorType) and num_elements(value.type.shape) > self.vast  # type: ignore[attr-defined]

    def log2_slices(self, shape: Sequence[int]) -> int:
        """log2 of the slices that a tile is best divided into."""
        return max(0, _log2(num_elements(tuple(shape))) - self.log2_slice)


HUGE = Limits(CostModel.huge_elements, CostModel.huge_elements, CostModel.log2_slice)


def leading_cut(shape: Sequence[int], s: int, last: Iterable[int] = ()) -> Cut:
    """2^s slices, dimensions in order; those of `last` come behind all others."""
    late = set(last)
    cut: list[int] = []
    for d in sorted(range(len(shape)), key=lambda d: d in late):
        cut += [d] * min(_log2(shape[d]), s - len(cut))
    return tuple(cut)


def sliced(shape: Sequence[int], cut: Cut) -> tuple[int, ...]:
    """The shape of one slice."""
    return tuple(extent >> cut.count(d) for d, extent in enumerate(shape))


def cut_fits(shape: Sequence[int], cut: Cut) -> bool:
    """Whether every dimension has the bits that the cut takes."""
    return all(cut.count(d) <= _log2(extent) for d, extent in enumerate(shape))


def extended_cut(shape: Sequence[int], cut: Cut, s: int) -> Cut:
    """A cut of 2^s slices that begins with `cut`."""
    out = list(cut)
    for d, extent in enumerate(shape):
        out += [d] * min(_log2(extent) - out.count(d), s - len(out))
    return tuple(out)


def cut_bits(shape: Sequence[int], cut: Cut) -> list[int]:
    """The bit of the packed index behind every bit of the slice number, from the top down."""
    high = []
    total = 0
    for extent in reversed(shape):
        total += _log2(extent)
        high.append(total)
    high.reverse()
    out = []
    for d in cut:
        high[d] -= 1
        out.append(high[d])
    return out


def reshaped_cut(shape: Sequence[int], cut: Cut, target: Sequence[int]) -> Cut | None:
    """The cut of a reshaped tile with the same slices; None where its slices would be no blocks."""
    spans = []
    low = 0
    for extent in reversed(target):
        spans.append((low, low + _log2(extent)))
        low += _log2(extent)
    spans.reverse()
    high = [top for _, top in spans]
    out = []
    for bit in cut_bits(shape, cut):
        d = next(d for d, (start, end) in enumerate(spans) if start <= bit < end)
        high[d] -= 1
        if high[d] != bit:
            return None
        out.append(d)
    return tuple(out)


def is_prefix(cut: Cut, longer: Cut) -> bool:
    return longer[: len(cut)] == cut


def positions_of(cut: Cut, dims: Iterable[int]) -> tuple[int, ...]:
    """Places in a slice number, from the top, whose bits belong to the dimensions."""
    wanted = set(dims)
    return tuple(p for p, d in enumerate(cut) if d in wanted)
