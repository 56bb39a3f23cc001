"""The tensor maps of a function: its attribute `nv_tileas.tensor_maps`, in the order of the hidden parameters.

    nv_tileas.tensor_maps = [{array = 0, box = [128, 64], element = "bf16", extents = [{param = 1}, {param = 2}],
                              fill = "zeros", strides = [{param = 3}, {const = 1}], swizzle = "128B"}]

A map is a row of the kernel table (compiler/target/tensor_maps.py) without its kind; ops name maps by their number.
"""

from __future__ import annotations

from tileiras.compiler.layout.algebra import BLOCK, Map
from tileiras.compiler.target.tensor_maps import TensorMap, from_dict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tileiras.compiler.ir.core import Op

KEY = "nv_tileas.tensor_maps"
BOX = "box"


def number_of(func: Op, map: TensorMap) -> int:
    """The number of a map among those of a function, which gets it where it has none like it."""
    row = {name: _tuples(v) for name, v in map.as_dict().items() if name != "kind"}
    known = func.attrs.get(KEY, ())
    if row not in known:
        known = func.attrs[KEY] = (*known, row)
    return list(known).index(row)


def replace(func: Op, number: int, map: TensorMap) -> int:
    """Puts a map in the place of one that nobody uses any more; returns its number."""
    known = func.attrs[KEY]
    row = {name: _tuples(v) for name, v in map.as_dict().items() if name != "kind"}
    func.attrs[KEY] = (*known[:number], row, *known[number + 1 :])
    return number


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


def boxes(tile: Sequence[int], box: Sequence[int]) -> Map:
    """The number of a box of a tile to its first element, a result for each dimension, outermost first. Boxes are numbered as
    they follow each other in shared memory: those of one line's width first."""
    bits = [extent.bit_length() - 1 for extent in tile]
    columns = []
    for d in (*reversed(range(len(tile) - 1)), len(tile) - 1):
        low = sum(bits[:d])
        columns += [1 << low + k for k in range(box[d].bit_length() - 1, bits[d])]
    return Map({BOX: columns}, {str(d): count for d, count in enumerate(bits)})


def parts(tile: Sequence[int], box: Sequence[int]) -> list[tuple[int, ...]]:
    """First elements of the boxes of a tile, in the order of their numbers."""
    places = boxes(tile, box)
    return [places.split(places(box=n)) for n in range(1 << len(places.ins[BOX]))]


def shares(tile: Sequence[int], box: Sequence[int], ctas: int) -> Map | None:
    """The boxes of a tile, shared out among the CTAs of a cluster: the CTA's rank, `block`, and the number of a box among its
    own to the first element. CTA r copies each box whose number is r modulo `ctas`. None where there are fewer boxes."""
    places = boxes(tile, box)
    own = ctas.bit_length() - 1
    columns = places.ins[BOX]
    return Map({BLOCK: columns[:own], BOX: columns[own:]}, places.outs) if len(columns) >= own else None
