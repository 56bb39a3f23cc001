"""Tiles that are reduced, and what is combined with them: layouts that keep a row in a warp and small loads where they are used.

A row that two warps share needs shared memory and two barriers for each reduction; a warp needs shuffles. So where a tile
that is loaded is reduced later, its warps go to the dimensions that stay. And a small tile that is loaded only to be
broadcast over a large one is loaded by the threads that need it, instead of moved between them through shared memory.
A tile that waits in shared memory for a product need not be read as it was copied: where the sums of its columns would cross
warps, each warp reads columns.
"""

from __future__ import annotations

from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.ir.types import TensorType
from tileiras.compiler.layout.linear import LinearLayout, dim_bits, remap_bits
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.products import PRODUCTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value

LOADS = frozenset(("load_view_tko", "load_ptr_tko"))
STORES = frozenset(("store_view_tko", "store_ptr_tko", "atomic_rmw_tko", "atomic_red_view_tko"))
MOST_OPS = 64  # that are computed from a small tile and looked at
MATRIX_BITS = 3  # of the eight rows and columns of a matrix that ldmatrix brings


def _keeps_index(op: Op) -> bool:
    """Whether elements stay where they are in the packed index."""
    return op.spec.elementwise or op.spec.name == "reshape"


def reduced_bits(func: Op) -> dict[tuple[int, ...], int]:
    """By shape of loaded tiles, the index bits over which all reductions of them go; shapes that are reduced in
    different ways are left out."""
    reduced: dict[int, list[Value]] = {}  # by bits: one walk for all that are reduced alike
    for op in func.walk():
        if op.spec.name == "reduce":
            low, count = dim_bits(op.operands[0].type.shape)[op.attr("dim")]  # type: ignore[attr-defined]
            reduced.setdefault(((1 << count) - 1) << low, []).extend(op.operands)
    found: dict[tuple[int, ...], set[int]] = {}
    for mask, values in reduced.items():
        for load in _loads_behind(values):
            found.setdefault(load.results[0].type.shape, set()).add(mask)  # type: ignore[attr-defined]
    return {shape: masks.pop() for shape, masks in found.items() if len(masks) == 1}


def _loads_behind(values: list[Value]) -> list[Op]:
    """Loads whose elements come to these values where they are: through arithmetic, reshapes and loops."""
    seen: set[Value] = set()
    found = []
    while values:
        value = values.pop()
        op = value.op
        if value in seen or op is None:
            continue
        seen.add(value)
        if op.spec.name in LOADS:
            found.append(op)
        elif op.spec.name == "for":
            values.append(op.regions[0].block.ops[-1].operands[value.index])
        elif _keeps_index(op):
            values += [v for v in op.operands if isinstance(v.type, TensorType) and v.type.shape]  # type: ignore[attr-defined]
    return found


def within_warps(layout: LinearLayout, mask: int, vector_bits: int) -> LinearLayout:
    """The layout with warp columns of reduced index bits exchanged for register columns of others, the highest first.
    The first registers, which one instruction moves, stay."""
    reg, warp = list(layout.reg), list(layout.warp)
    spare = [k for k in range(vector_bits, len(reg)) if reg[k] and not reg[k] & mask]
    for i in reversed(range(len(warp))):
        if warp[i] & mask and spare:
            k = spare.pop()
            reg[k], warp[i] = warp[i], reg[k]
    return LinearLayout(layout.bits, reg, layout.lane, warp, layout.inv)


def down_columns(shape: tuple[int, ...], mask: int, log2_warps: int) -> LinearLayout | None:
    """The layout of a tile of 16-bit elements in which a warp has whole columns, as ldmatrix.trans brings them from lines along
    the last dimension, where the dimension before it is reduced; None where something else is, or warps have no eight columns.

    A thread adds two neighbours of each matrix, and its matrices, by itself; two shuffles add the rest, no warp asks another.
    """
    low, count = dim_bits(shape)[-1]
    rows = [1 << k for k in range(mask.bit_length()) if mask >> k & 1]
    columns = [1 << k for k in range(low, low + count)]
    if (
        low
        or not rows
        or rows[0] != 1 << count
        or count < MATRIX_BITS + log2_warps
        or len(rows) < MATRIX_BITS
    ):
        return None
    bits = sum(extent for _, extent in dim_bits(shape))
    others = [1 << k for k in range(count, bits) if not mask >> k & 1]
    mine = count - log2_warps
    reg = [rows[0], *columns[MATRIX_BITS:mine], *rows[MATRIX_BITS:], *others]
    return LinearLayout(bits, reg, [*rows[1:MATRIX_BITS], *columns[:MATRIX_BITS]], columns[mine:])


def stored_only(values: list[Value]) -> tuple[Op, Value] | None:
    """The first of the memory ops, and what it stores, that are all that becomes of values, as they are, changed element by
    element or carried by loops; None where something else wants any of them, a broadcast among it."""
    found = None
    seen: set[Value] = set(values)
    work = list(values)
    while work:
        value = work.pop()
        for user, index in value.uses:
            name = user.spec.name
            if name in STORES:
                found = found or (user, value)
                continue
            if name == "continue" and user.parent is not None and user.parent.spec.name == "for":
                made = [user.parent.regions[0].block.args[index + 1], user.parent.results[index]]
            elif name == "for" and index > 2:
                made = [user.regions[0].block.args[index - 2], user.results[index - 3]]
            elif _keeps_index(user):
                made = list(user.results)
            else:
                return None
            if len(seen) > MOST_OPS:
                return None
            work += [v for v in made if v not in seen]
            seen.update(made)
    return found


def computes_with(value: Value) -> bool:
    """Whether anything is computed from a tile element by element before it is spread over a larger one."""
    work = [value]
    while work:
        for user, _ in work.pop().uses:
            if user.spec.elementwise:
                return True
            if user.spec.name == "reshape":
                work.append(user.result)
    return False


def is_only_reduced(load: Op) -> bool:
    """Whether threads want a loaded tile for reductions alone, as it is or changed element by element, beside products that read
    it from where it lies."""
    made, work = {load.results[0]}, [load.results[0]]
    met: set[Op] = set()
    while work:
        for user, _ in work.pop().uses:
            if user in met or user.spec.name in PRODUCTS or user.spec.name == "reduce":
                continue
            met.add(user)
            if user.spec.name == "permute" and user.operands[0] is load.results[0]:
                if any(reader.spec.name not in PRODUCTS for reader, _ in user.result.uses):
                    return False
            elif user.spec.elementwise and all(v in made or _is_constant(v) for v in user.operands):
                made.add(user.result)
                work.append(user.result)
            else:
                return False
    return not any(user.spec.name in PRODUCTS for value in made - {load.results[0]} for user, _ in value.uses)


def left_of(load: Op) -> list[Op]:
    """The products whose left operand is computed from a loaded tile, element by element."""
    shape = load.results[0].type.shape  # type: ignore[attr-defined]
    found: dict[Op, None] = {}
    work, seen = [load.results[0]], {load.results[0]}
    while work and len(seen) < MOST_OPS:
        for user, index in work.pop().uses:
            if user.spec.name in PRODUCTS:
                if index == 0:
                    found[user] = None
            elif user.spec.elementwise and user.result.type.shape == shape and user.result not in seen:  # type: ignore[attr-defined]
                seen.add(user.result)
                work.append(user.result)
    return list(found)


def beside(load: Op, layout_of: Callable[[Value], LinearLayout | None]) -> LinearLayout | None:
    """The layout in which a loaded tile is wanted when all that happens to it is a broadcast over a tile whose layout is
    known; None otherwise."""
    wanted = {_restricted(value, layout_of) for value in _broadcasts(load.results[0])}
    layout = wanted.pop() if len(wanted) == 1 else None
    if layout is None or layout.num_regs >= CostModel.converted_again and _is_converted(load):
        return None
    return layout


def _is_converted(load: Op) -> bool:
    """Whether a loop computes something of each element of what it loads: as many threads as have the element would."""
    inside = load.parent is not None and load.parent.spec.name in ("for", "loop")
    return inside and any(user.spec.elementwise for user, _ in load.results[0].uses)


def again(load: Op, place: Callable[[tuple[int, ...]], LinearLayout | None]) -> LinearLayout | None:
    """The layout in which a small tile is loaded of which nothing but broadcasts is wanted, with what is computed from it element
    by element: where the large tiles of all of them have its elements, so that each thread computes again what it needs of it.
    None where threads would have too much to do, or something else wants it. `place`: where large tiles of a shape lie."""
    made = _computed_from(load.results[0])
    wanted = {
        v
        for value in made or ()
        for user, _ in value.uses
        if user.spec.name == "broadcast"
        for v in user.results
    }
    shapes = {(value.op.operands[0].type.shape, value.type.shape) for value in wanted}  # type: ignore[attr-defined,union-attr]
    layouts = {
        None if (outer := place(large)) is None else before_broadcast(outer, small, large)
        for small, large in shapes
    }
    layout = layouts.pop() if len(layouts) == 1 else None
    return layout if layout is not None and layout.num_regs <= CostModel.computed_again else None


def _computed_from(value: Value) -> set[Value] | None:
    """What is computed from a tile element by element, with the tile; None where something but broadcasts wants any of it."""
    made, work = {value}, [value]
    users: dict[Op, None] = {}
    while work:
        for user, _ in work.pop().uses:
            if user.spec.name == "broadcast" or user in users:
                continue
            if not _keeps_index(user) or len(user.results) != 1 or len(users) == MOST_OPS:
                return None
            users[user] = None
            made.add(user.result)
            work.append(user.result)
    alone = all(v in made or _is_constant(v) for user in users for v in user.operands)
    return made if alone else None


def _broadcasts(value: Value) -> list[Value | None]:
    """The broadcast tiles that a value becomes by reshapes and arithmetic with constants; None among them for any other use."""
    found: list[Value | None] = []
    work, seen = [value], {value}
    while work:
        value = work.pop()
        for op, _ in value.uses:
            if op.spec.name == "broadcast":
                found.append(op.results[0])
            elif not _keeps_index(op) or any(v is not value and not _is_constant(v) for v in op.operands):
                found.append(None)
            elif op.results[0] not in seen:
                seen.add(op.results[0])
                work.append(op.results[0])
    return found


def _is_constant(value: Value) -> bool:
    """Whether a value is a constant, also one of a single element that was broadcast."""
    while value.op is not None and value.op.spec.name in ("reshape", "broadcast"):
        value = value.op.operands[0]
    return not isinstance(value.type, TensorType) or value.op is not None and value.op.spec.name == "constant"


def _restricted(
    large: Value | None, layout_of: Callable[[Value], LinearLayout | None]
) -> LinearLayout | None:
    """The layout of what a broadcast tile is combined with, without the dimensions that were broadcast."""
    if large is None or large.op is None:
        return None
    inner: Any = large.op.operands[0].type
    outer: Any = large.type
    tile = large
    while len(tile.uses) == 1 and len(tile.uses[0][0].operands) == 1 and tile.uses[0][0].spec.elementwise:
        tile = tile.uses[0][0].result
    for user, index in tile.uses:
        if not user.spec.elementwise:
            return None
        for other in user.operands[:index] + user.operands[index + 1 :]:
            layout = layout_of(other) if getattr(other.type, "shape", None) == outer.shape else None
            if layout is None or layout.inv:
                continue
            return before_broadcast(layout, inner.shape, outer.shape)
    return None


def before_broadcast(layout: LinearLayout, inner: tuple[int, ...], outer: tuple[int, ...]) -> LinearLayout:
    """The layout of a tile whose broadcast over a larger one then lies in a given layout."""
    moved = [-1] * layout.bits
    for (low, count), (wide, extent) in zip(dim_bits(inner), dim_bits(outer)):
        if count == extent:
            moved[wide : wide + extent] = range(low, low + count)
    bits = sum(count for _, count in dim_bits(inner))
    out = remap_bits(layout, moved, bits)
    reg = list(dict.fromkeys(c for c in out.reg if c))
    return LinearLayout(bits, reg, out.lane, out.warp)


def behind(value: Value) -> tuple[list[Op], list[Value]]:
    """(loads, values) that a tile is computed from element by element, through the addresses of these loads, too."""
    loads: list[Op] = []
    found: dict[Value, None] = {}
    size = num_elements(value.type.shape)  # type: ignore[attr-defined]
    work = [value]
    while work:
        value = work.pop()
        op = value.op
        if value in found or op is None or num_elements(getattr(value.type, "shape", ())) != size:
            continue
        if op.spec.name in LOADS:
            loads.append(op)
        elif not _keeps_index(op):
            continue
        found[value] = None
        work += op.operands
    return loads, list(found)
