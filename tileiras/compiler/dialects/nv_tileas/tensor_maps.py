"""The tensor maps of a function: its attribute `nv_tileas.tensor_maps`, in the order of the hidden parameters.

    nv_tileas.tensor_maps = [{array = 0, box = [128, 64], element = "bf16", extents = [{param = 1}, {param = 2}],
                              fill = "zeros", strides = [{param = 3}, {const = 1}], swizzle = "128B"}]

A map is a row of the kernel table (compiler/target/tensor_maps.py) without its kind; ops name maps by their number.
"""

from __future__ import annotations

from tileiras.compiler.target.tensor_maps import TensorMap, from_dict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tileiras.compiler.ir.core import Op

KEY = "nv_tileas.tensor_maps"


def number_of(func: Op, map: TensorMap) -> int:
    """The number of a map among those of a function, which gets it where it has none like it."""
    row = {name: _tuples(v) for name, v in map.as_dict().items() if name != "kind"}
    known = func.attrs.get(KEY, ())
    if row not in known:
        known = func.attrs[KEY] = (*known, row)
    return list(known).index(row)


def maps_of(func: Op) -> list[TensorMap]:
    """The tensor maps of a function. Errors: ValueError for an attribute that describes none."""
    return [from_dict(_plain(row)) for row in func.attrs.get(KEY, ())]


def _tuples(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(v) for name, v in value.items()}
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    return getattr(value, "value", value)


def parts(tile: Sequence[int], box: Sequence[int]) -> list[tuple[int, ...]]:
    """First elements of the boxes of a tile, in the order in which they follow each other in shared memory: those of one
    line's width first. Dimensions outermost first."""
    starts: list[tuple[int, ...]] = [()]
    for extent, size in zip(tile[:-1], box[:-1]):
        starts = [(*s, at) for s in starts for at in range(0, extent, size)]
    return [(*s, at) for at in range(0, tile[-1], box[-1]) for s in starts]
