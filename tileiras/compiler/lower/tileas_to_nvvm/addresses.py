"""Where the elements of a tile lie in global memory.

Addresses are split three ways: what the whole CTA shares (64-bit, once), what a thread adds (from its lane
and warp), and what a register adds (an immediate where strides are static). The op says which registers are
neighbours in memory under one mask.
"""

from __future__ import annotations

from tileiras.compiler.ir.types import GatherScatterView, StridedView
from tileiras.compiler.ir.views import unit_dim
from tileiras.compiler.layout.linear import dim_bits
from tileiras.compiler.target.cost import CostModel

from .bounds import below64, counts_below, difference, limit_masks, narrow_index, room, tile_start
from .shape import coordinates
from .state import Lowering, elem_bytes
from .views import view_steps, widened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value


class Access:
    """Where a tile lives in global memory: per register an address (Reg, byte offset) and a mask."""

    __slots__ = ("left", "masks", "offsets", "pointers")

    def __init__(
        self, pointers: list[Any], offsets: list[int], masks: list[Any], left: list[Any] | None = None
    ) -> None:
        self.pointers = pointers  # 64-bit base per register
        self.offsets = offsets  # bytes per register
        self.masks = masks  # predicate or None per register
        self.left = left  # elements from each register to the extent, where `masks` leave that dimension out


def view_access(lowering: Lowering, op: Op, value_type: Any, layout: Any, chunk: int = 0) -> Access:
    """Addresses and masks of a tile of a view, in `layout`.

    `chunk`: elements that an asynchronous copy moves at once. Where an extent may end inside of a chunk, the result
    has `left` in the place of a mask for that dimension.
    """
    together = _together(lowering, op)
    b = lowering.b
    view = lowering.env[op.operand("view")]  # type: ignore[index]
    type = view.type
    tensor: Any = type.view
    size = elem_bytes(tensor.elem)
    shape = value_type.shape
    spans = dim_bits(shape)
    steps, dims = view_steps(type)
    inbounds = op.attr("inbounds") if "inbounds" in op.spec.attr_by_name else None
    sparse = type.sparse_dim if isinstance(type, GatherScatterView) else -1  # type: ignore[attr-defined]
    indices = op.group("index")
    uniform: Any = view.base
    run_dim = unit_dim(type)
    # beside accumulators, and above all those of wgmma, which ptxas cannot move: what waits through a loop is kept small
    sparing = chunk > 0
    registers: list[list[Any]] = []  # per dimension: (64-bit terms, static bytes) per register
    turning: list[Any] = []  # bytes that change with the loop, added behind what threads add
    walks: list[tuple[Any, list[int]]] = []  # scales, and what each register multiplies one by
    remaining: list[Any] | None = None
    masks: list[list[Any]] = []
    varying: list[
        Any
    ] = []  # the place in `masks`, and what to compare, of a dimension in which registers differ
    for d, m in enumerate(dims):
        stride, stride_bits = view.strides[m]
        extent = view.shape[m]
        coords = coordinates(lowering, layout, *spans[d])
        safe = bool(inbounds and d < len(inbounds) and inbounds[d])
        stride64 = widened(lowering, (stride, stride_bits), signed=True)
        if d == sparse:
            rows = _sparse_rows(lowering, indices[d], layout, spans[d], value_type)
            scale = b.mul(64, stride64, size)
            registers.append([((b.mul(64, row, scale),), 0) for row in rows])
            if not safe:
                limit = widened(lowering, extent)
                masks.append([below64(lowering, row, limit) for row in rows])
            continue
        if sparing and _changes(lowering, op, indices[d]):
            turning.append(_turning_bytes(lowering, indices[d], steps[d], stride64, size))
        else:
            start = tile_start(lowering, indices[d], steps[d])  # 64 bits, elements
            uniform = b.add(64, uniform, b.mul(64, b.mul(64, start, stride64), size))
        if shape[d] > 1:
            if isinstance(stride, int):
                registers.append([_static_term(lowering, c, stride * size) for c in coords])
            else:
                walked = sparing or len(set(coords)) >= CostModel.many_rows
                parts = _parts(lowering, coords) if walked else None
                if parts is None:
                    registers.append([_dynamic_terms(lowering, c, stride64, size) for c in coords])
                else:
                    scale = b.mul(64, stride64, size)
                    walks.append((scale, parts[1]))
                    if parts[0] is not None:
                        uniform = b.add(64, uniform, b.mul(64, b.wide(parts[0], signed=False), scale))
        aligned = not isinstance(type, StridedView) and sparse < 0  # tiles start at multiples of their extent
        if not safe and aligned and isinstance(extent[0], int) and extent[0] % shape[d] == 0:
            tiles = extent[0] // shape[d]  # each lies inside or outside as a whole
            if not counts_below(lowering, indices[d], tiles):
                masks.append(limit_masks(lowering, (tiles, 32), indices[d], 1, [0] * len(coords), 1, sparing))
        elif not safe:
            if d == run_dim and together < chunk:
                limit = room(lowering, extent, indices[d], steps[d], shape[d])
                remaining = [difference(lowering, limit, c) for c in coords]
                continue
            if d == run_dim:  # neighbours that are inside together share their mask
                coords = [coords[r - r % together] for r in range(len(coords))]
            if sparing and len(set(coords)) > 1:
                varying.append((len(masks), d, coords))
                masks.append([])
            else:
                masks.append(limit_masks(lowering, extent, indices[d], steps[d], coords, shape[d], sparing))
    count = layout.num_regs
    pointers: list[Any] = []
    offsets: list[int] = []
    for columns in registers:
        uniform = _shared_terms(lowering, uniform, columns)
    for moved in turning:
        uniform = b.add(64, uniform, moved)
    starts = [uniform] * count
    for scale, constants in walks:
        starts = _stepped(lowering, starts, scale, constants)
    for r in range(count):
        pointer, offset = starts[r], 0
        for terms in registers:
            dynamic, static = terms[r]
            for term in dynamic:
                pointer = b.add(64, pointer, term)
            offset += static
        pointers.append(pointer)
        offsets.append(offset)
    within: Any = None
    shared = [column[0] for column in masks if len(set(map(id, column))) == 1 and column[0] is not None]
    if len(varying) == 1 and len(shared) == len(masks) - 1 >= CostModel.shared_conditions:
        for mask in (
            shared
        ):  # outside in a dimension that all registers share: no room in the one in which they differ
            within = b.pand(within, mask)
        masks, varying = [[]], [(0, *varying[0][1:])]
    for place, d, coords in varying:
        extent = view.shape[dims[d]]
        masks[place] = limit_masks(lowering, extent, indices[d], steps[d], coords, shape[d], sparing, within)
    combined = []
    for r in range(count):
        mask = None
        for column in masks:
            mask = b.pand(mask, column[r])
        combined.append(mask)
    return Access(pointers, offsets, combined, remaining)


def vector(lowering: Lowering, op: Op) -> int:
    """Elements that each instruction of a load or store moves."""
    found = op.attrs.get("vector")
    if found is None:
        raise lowering.undecided(op, "vector", "TileASPlaceShared")
    return 1 << found


def _together(lowering: Lowering, op: Op) -> int:
    """Registers of an access that are neighbours in memory under one mask."""
    found = op.attrs.get("together", op.attrs.get("vector"))
    if found is None:
        name = "vector" if "vector" in op.spec.attr_by_name else "together"
        raise lowering.undecided(op, name, "TileASPlaceShared")
    return 1 << found


def _changes(lowering: Lowering, op: Op, index: Value) -> bool:
    """Whether an index is computed in the loop that an op is in, or is a number, as in copies of that loop's first steps."""
    if isinstance(lowering.scalar(index), int):
        return True
    loop = op.parent
    while loop is not None and loop.spec.name not in ("for", "loop"):
        loop = loop.parent
    block: Any = index.op.block if index.op is not None else index.owner
    while loop is not None and block is not None and block.region is not None:
        if block.region.op is loop:
            return True
        block = block.region.op.block
    return False


def _turning_bytes(lowering: Lowering, index: Value, step: int, stride: Any, size: int) -> Any:
    """Bytes from the first tile to the one of an index, as one multiplication of what changes by what does not."""
    b = lowering.b
    number = narrow_index(lowering, index)
    if isinstance(number, int) or number is None:
        return b.mul(64, b.mul(64, tile_start(lowering, index, step), stride), size)
    scale = b.mul(64, stride, step * size)
    if isinstance(scale, int) and 0 <= scale < 1 << 31:
        return b.emit("mul.wide.u32", number, scale)
    return b.mul(64, b.wide(number, signed=False), scale)


def _shared_terms(lowering: Lowering, uniform: Any, column: list[Any]) -> Any:
    """The pointer with the terms of a dimension that all registers have, which are taken out of it: what a thread adds comes in
    front of what changes with a loop, so that one sum waits through it."""
    for term in [t for t in column[0][0] if all(t in terms for terms, _ in column)]:
        uniform = lowering.b.add(64, uniform, term)
        column[:] = [(tuple(t for t in terms if t is not term), static) for terms, static in column]
    return uniform


def _stepped(lowering: Lowering, bases: list[Any], scale: Any, constants: list[int]) -> list[Any]:
    """For each register its base and constant * scale, each from the one before it: one multiple of the stride waits through a
    loop where rows lie evenly."""
    b = lowering.b
    wanted: dict[Any, set[int]] = {}
    for base, constant in zip(bases, constants):
        wanted.setdefault(base, set()).add(constant)
    made: dict[tuple[Any, int], Any] = {}
    for base, values in wanted.items():
        pointer, reached = base, 0
        for constant in sorted(values):
            pointer = b.add(64, pointer, b.mul(64, scale, constant - reached))
            made[base, constant], reached = pointer, constant
    return [made[at] for at in zip(bases, constants)]


def _parts(lowering: Lowering, coords: list[Any]) -> tuple[Any, list[int]] | None:
    """What a thread adds to all of its coordinates, None for nothing, and what each register adds."""
    found = [(None, c) if isinstance(c, int) else lowering.b.addc.get(c, (c, 0)) for c in coords]
    return (found[0][0], [c for _, c in found]) if len({thread for thread, _ in found}) == 1 else None


def _dynamic_terms(
    lowering: Lowering, coordinate: Any, stride: Any, size: int
) -> tuple[tuple[Any, ...], int]:
    """(64-bit terms, 0) of coordinate * stride * size: what the thread adds, then what the register adds.

    The second is the same in all threads (a multiple of a stride), the first in all registers: one multiplication. Where the
    stride has 32 bits, both multiply it as it is: an instruction that adds as well, and one register that waits for it.
    """
    b = lowering.b
    thread, constant = (
        (0, coordinate) if isinstance(coordinate, int) else b.addc.get(coordinate, (coordinate, 0))
    )
    short = b.widened.get(stride)
    if short is not None and short[1]:
        term = b.emit("mul.wide.s32", b.mul(32, thread, size), short[0]) if thread else None
        apart = b.emit("mul.wide.s32", short[0], constant * size) if constant else None
    else:
        scale = b.mul(64, stride, size)
        term = b.mul(64, b.wide(thread, signed=False), scale) if thread else None
        apart = b.mul(64, scale, constant) if constant else None
    return tuple(t for t in (term, apart) if t is not None), 0


def _static_term(lowering: Lowering, coordinate: Any, scale_bytes: int) -> tuple[tuple[Any, ...], int]:
    """(64-bit dynamic parts, immediate bytes) of coordinate * scale."""
    b = lowering.b
    if isinstance(coordinate, int):
        return (), coordinate * scale_bytes
    root = b.addc.get(coordinate)
    constant = 0
    if root is not None:
        coordinate, constant = root
    if scale_bytes < 1 << 31:
        return (b.emit("mul.wide.u32", coordinate, scale_bytes),), constant * scale_bytes
    return (b.mul(64, b.wide(coordinate, signed=False), scale_bytes),), constant * scale_bytes


def _sparse_rows(
    lowering: Lowering, index: Value, layout: Any, span: tuple[int, int], value_type: Any
) -> list[Any]:
    """The row number of every register, 64 bits: the index tile was laid out as the slice of the value's layout."""
    from .arith import zext

    b = lowering.b
    tile = lowering.tile(index)
    low, count = span
    mask = ((1 << count) - 1) << low
    reg_of = tile.layout.reg_of
    keep = ~tile.layout.inv
    bits = tile.elem.bits  # type: ignore[attr-defined]
    out = []
    for offset in layout.reg_table:
        value = tile.regs[reg_of[((offset & mask) >> low) & keep]]
        if bits < 64:
            value = zext(lowering, value, bits)
            value = b.wide(value, signed=False)
        out.append(value)
    return out


def pointer_access(lowering: Lowering, op: Op, pointers: Value, layout: Any) -> Access:
    regs = lowering.regs_as(pointers, layout)
    mask = op.operand("mask")
    masks = list(lowering.regs_as(mask, layout)) if mask is not None else [None] * layout.num_regs
    size = elem_bytes(pointers.type.elem.pointee)  # type: ignore[attr-defined]
    together = _together(lowering, op)
    places = range(layout.num_regs)
    first = [r - r % together for r in places]  # addresses the group
    offsets = [r % together * size for r in places]
    return Access([regs[r] for r in first], offsets, [masks[r] for r in first])
