"""Operands that threads store for tcgen05: each warp says that it has stored its part, and only who issues the product waits.

    for .. {                                      for .. {
      async.wait_group {pending = 1}                async.wait_group {pending = 1}
      barrier                                       %x = load_shared %ring, %take
      %x = load_shared %ring, %take                 %y = itof %x
      %y = itof %x                                  tensor_memory.wait %sum, %i {before = 1}
      tensor_memory.wait %sum, %i {before = 1}      store_shared %buffer, %y
      store_shared %buffer, %y                      tensor_memory.stored %sum, %i
      barrier                                       tensor_memory.wait_stored %sum, %i
      tensor_memory.product %sum, %i ..             tensor_memory.product %sum, %i ..
    }                                             }

The first barrier goes where every thread reads only what it has copied itself: copies take the layout that they are read in
(ldmatrix reads rows of other lanes). A stage, and the place of a stored operand, is written again behind a product that every
thread has waited for.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.core import Op
from tileiras.compiler.ir.passes import Context
from tileiras.compiler.layout.linear import log2
from tileiras.compiler.layout.shared import matrix_load

from .commit_stages import PRODUCTS, TOUCHES, Change

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def arrive_operands(func: Op, context: Context) -> bool:
    """Does so for every loop that can be. False when an op could not be made."""
    loops = dict.fromkeys(op.parent for op in func.walk() if op.spec in PRODUCTS)
    return all(loop is None or _loop(loop, context) for loop in loops)


def _loop(loop: Op, context: Context) -> bool:
    inside = list(loop.walk())
    body: Any = loop.regions[0].block if loop.spec.name == "for" else None
    products = [op for op in inside if op.spec in PRODUCTS]
    stores = [op for op in inside if op.spec is tileas.STORE_SHARED]
    barriers = [op for op in inside if op.spec is tileas.BARRIER]
    sums = dict.fromkeys(op.operands[0] for op in products)
    if body is None or not stores or len(barriers) != 2 or len(sums) != 1:
        return True
    if any(op.block is not body for op in (*products, *stores, *barriers)):
        return True
    if any(op.spec in TOUCHES and op.spec not in PRODUCTS for op in inside):
        return True
    place = {op: n for n, op in enumerate(body.ops)}
    first, second = barriers
    waits = [op for op in body.ops if op.spec is tileas.TENSOR_WAIT]
    last = max(place[op] for op in stores)
    if not waits or not place[first] < min(place[op] for op in stores) or not last < place[second]:
        return True
    if place[second] > place[products[0]] or place[waits[0]] > min(place[op] for op in stores):
        return True
    (sum,) = sums
    change = Change(context)
    warps = 1 << len(products[0].operands[1].type.layout.warp)  # type: ignore[attr-defined]
    begin: Any = sum.op
    begin.attrs = {**begin.attrs, "writers": warps}
    for user, _ in sum.uses:
        if user.spec is tileas.TENSOR_END:
            user.attrs = {**user.attrs, "writers": warps}
    change.make(second, tileas.TENSOR_STORED, products[0].operands[:2])
    change.make(second, tileas.TENSOR_WAIT_STORED, products[0].operands[:2])
    second.erase()
    if own_parts(loop, inside):
        first.erase()
    return not change.failed


def own_parts(loop: Op, inside: list[Op]) -> bool:
    """Whether every thread reads only what it has copied; if so, copies have the layouts that they are read in."""
    reads = [op for op in inside if op.spec is tileas.LOAD_SHARED]
    rings = dict.fromkeys(op.operands[0] for op in reads)
    if len(rings) != 1:
        return False
    (ring,) = rings
    users = [user for user, _ in ring.uses]
    copies: dict[int, list[Op]] = {}
    for op in users:
        if op.spec is tileas.COPY_VIEW:
            copies.setdefault(op.attr("start"), []).append(op)
        elif op.spec.name.startswith("bulk.") or op.spec is tileas.COPY_POINTERS:
            return False
    layouts: dict[Op, Any] = {}
    for read in reads:
        mine = copies.pop(read.attr("start"), [])
        type: Any = read.result.type
        layout = type.layout
        if not mine or "within" in read.attrs or layout.inv or any(layout.replicated):
            return False
        if matrix_load(read.attrs["arrangement"], layout, type.elem.bytes) is not None:
            return False  # a lane gives the address of a row that others have copied
        for copy in mine:
            source: Any = copy.operand("view").type  # type: ignore[union-attr]
            chunk = log2(copy.attr("width") // source.view.elem.bytes)
            if (
                copy.attrs["arrangement"] != read.attrs["arrangement"]
                or copy.attrs.get("part_mask")
                or tuple(source.tile) != tuple(type.shape)
                or tuple(copy.attrs["layout"].reg[:chunk]) != tuple(layout.reg[:chunk])
            ):
                return False
            layouts[copy] = layout
    for copy, layout in layouts.items():
        copy.attrs = {**copy.attrs, "layout": layout}
    return bool(layouts)
