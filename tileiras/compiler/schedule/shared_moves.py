"""How a tile goes between registers and shared memory: in 8x8 matrices, or as elements that are neighbours there.

`plan` is the word that conversions of layout have for the same (`layout/convert.py`); `vector` is log2 of the elements of an
access, for those that go one by one.
"""

from __future__ import annotations

from tileiras.compiler.layout import convert
from tileiras.compiler.layout.algebra import REGISTER
from tileiras.compiler.layout.linear import placed
from tileiras.compiler.layout.shared import CHUNK_BYTES, matrix_load, stored_layout
from tileiras.compiler.target.registers import reg_class
from tileiras.compiler.target.sm import STMATRIX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tileiras.compiler.ir.core import Op
    from tileiras.compiler.layout.linear import LinearLayout


def load_plan(op: Op, target: Any) -> dict[str, Any]:
    """The attributes of a `load_shared`."""
    type: Any = op.results[0].type
    columns = op.attrs["arrangement"]
    if matrix_load(columns, type.layout, type.elem.bytes) is not None:
        return {"plan": convert.MATRICES}
    return {"plan": convert.SHARED, "vector": neighbours(type.elem, type.layout, columns)}


def store_plan(op: Op, target: Any) -> dict[str, Any]:
    """The attributes of a `store_shared`: matrices where elements of 16 bits are no neighbours."""
    type: Any = op.operands[2].type
    columns = op.attrs["arrangement"]
    layout = stored_layout(type.layout, columns)
    vector = neighbours(type.elem, layout, columns) if reg_class(type.elem) != "p" else 0
    if (
        vector < 2
        and reg_class(type.elem) == "h"
        and target is not None
        and target.has(STMATRIX)
        and not any(type.layout.replicated)
        and matrix_load(columns, type.layout, type.elem.bytes) is not None
    ):
        return {"plan": convert.STMATRIX}
    return {"plan": convert.SHARED, "vector": vector}


def neighbours(elem: Any, layout: LinearLayout, columns: tuple[int, ...]) -> int:
    """Register bits that are neighbours in shared memory, up to 16 bytes."""
    offsets = placed(layout, columns).ins[REGISTER]
    size, found = elem.bytes, 0
    while size << found < CHUNK_BYTES and size << found in offsets:
        found += 1
    return found


MOVES: dict[str, Callable[[Op, Any], dict[str, Any]]] = {"load_shared": load_plan, "store_shared": store_plan}
