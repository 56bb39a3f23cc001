"""Global memory: views, loads and stores through views and pointer tiles.

Addresses are split three ways: what the whole CTA shares (64-bit, once), what a thread adds (from its lane
and warp), and what a register adds (an immediate where strides are static). Registers whose elements are
neighbours in memory, aligned as the facts promise and masked alike, travel as one vector.

Tokens have no code here: TileASPlaceShared put barriers where they order accesses of different threads.
"""

from __future__ import annotations

from tileiras.compiler.ir.types import GatherScatterView, StridedView
from tileiras.compiler.layout.linear import dim_bits, log2
from tileiras.compiler.passes.tileaa.facts import unsigned_bits
from tileiras.compiler.target.cost import CostModel

from .shape import constant_operand, coordinates
from .shared import broadcast_owned, owner_guard
from .state import Lowering, Tile, View, elem_bytes, elementwise
from .transfer import load_vector, store_vector

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value

# bits of each padding value by element type
_PADDING = {
    "zero": dict.fromkeys(
        ("i1", "i4", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "tf32", "f64", "f8E4M3FN", "f8E5M2",
         "f8E8M0FNU", "f4E2M1FN", "fnv8E5M3FNU"), 0,
    ),
    "neg_zero": {"f16": 1 << 15, "bf16": 1 << 15, "f32": 1 << 31, "tf32": 1 << 31, "f64": 1 << 63,
                 "f8E4M3FN": 0x80, "f8E5M2": 0x80, "f4E2M1FN": 0x8},
    "nan": {"f16": 0x7E00, "bf16": 0x7FC0, "f32": 0x7FC00000, "tf32": 0x7FC00000, "f64": 0x7FF8 << 48,
            "f8E4M3FN": 0x7F, "f8E5M2": 0x7E, "f8E8M0FNU": 0xFF},
    "pos_inf": {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000, "tf32": 0x7F800000, "f64": 0x7FF0 << 48,
                "f8E5M2": 0x7C},
    "neg_inf": {"f16": 0xFC00, "bf16": 0xFF80, "f32": 0xFF800000, "tf32": 0xFF800000, "f64": 0xFFF0 << 48,
                "f8E5M2": 0xFC},
}  # fmt: skip


# ---- views


def lower_make_tensor_view(lowering: Lowering, op: Op) -> None:
    type = op.results[0].type
    base = lowering.scalar(op.operand("base"))  # type: ignore[arg-type]

    def operands(static: Any, dynamic: list[Value]) -> list[tuple[Any, int]]:
        rest = iter(dynamic)
        out = []
        for extent in static:
            if extent is None:
                value = next(rest)
                out.append((lowering.scalar(value), value.type.elem.bits))  # type: ignore[attr-defined]
            else:
                out.append((extent, 64))
        return out

    lowering.env[op.results[0]] = View(
        type,
        base,
        operands(type.shape, op.group("dynamicShape")),  # type: ignore[attr-defined]
        operands(type.strides, op.group("dynamicStrides")),  # type: ignore[attr-defined]
    )


def lower_make_view(lowering: Lowering, op: Op) -> None:
    view = lowering.env[op.operands[0]]
    lowering.env[op.results[0]] = View(op.results[0].type, view.base, view.shape, view.strides)


def widened(lowering: Lowering, value: tuple[Any, int], signed: bool = False) -> Any:
    """An extent or stride as 64 bits."""
    operand, bits = value
    if isinstance(operand, int) or bits == 64:
        return operand
    from .arith import extended

    return lowering.b.wide(extended(lowering, operand, bits, signed), signed)


def lower_get_tensor_shape(lowering: Lowering, op: Op) -> None:
    view = lowering.env[op.operands[0]]
    for result, extent in zip(op.results, view.shape):
        lowering.define(result, [_to_width(lowering, extent, result.type.elem.bits)])  # type: ignore[attr-defined]


def _to_width(lowering: Lowering, value: tuple[Any, int], bits: int) -> Any:
    operand, have = value
    if isinstance(operand, int):
        return operand & ((1 << bits) - 1)
    if bits == 64:
        return widened(lowering, value)
    if have == 64:
        return lowering.b.emit("cvt.u32.u64", operand)
    return operand


def view_steps(type: Any) -> tuple[Sequence[int], Sequence[int]]:
    """(elements between neighbouring tiles, tensor dimension) per view dimension."""
    if isinstance(type, StridedView):
        return type.traversal, type.dim_map  # type: ignore[attr-defined]
    if isinstance(type, GatherScatterView):
        # dense indices of a gather are element offsets (seen in NVIDIA's code), so tiles start every element
        return (1,) * len(type.tile), tuple(range(len(type.tile)))  # type: ignore[attr-defined]
    return type.tile, type.dim_map


def lower_get_index_space_shape(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    view = lowering.env[op.operands[0]]
    steps, dims = view_steps(view.type)
    for result, step, m in zip(op.results, steps, dims):
        bits = result.type.elem.bits  # type: ignore[attr-defined]
        extent, have = view.shape[m]
        if isinstance(extent, int):
            lowering.define(result, [-(-extent // step) & ((1 << bits) - 1)])
            continue
        w = 64 if have == 64 else 32
        # ceil without overflow: (extent - 1) / step + 1, and 0 for an empty dimension
        if step & (step - 1) == 0:
            down = b.shr(w, extent, log2(step))
            rest = b.and_(w, extent, step - 1)
        else:
            down = b.emit(f"div.u{w}", extent, step)
            rest = b.emit(f"rem.u{w}", extent, step)
        more = b.emit(f"setp.ne.b{w}", rest, 0) if rest != 0 else None
        count = down if more is None else b.add(w, down, b.emit(f"selp.b{w}", 1, 0, more))
        lowering.define(result, [_to_width(lowering, (count, w), bits)])


# ---- element access


class Access:
    """Where a tile lives in global memory: per register an address (Reg, byte offset) and a mask."""

    __slots__ = ("alignment", "left", "masks", "offsets", "pointers", "run")

    def __init__(
        self, pointers: list[Any], offsets: list[int], masks: list[Any], run: int, alignment: int,
        left: list[Any] | None = None,
    ) -> None:  # fmt: skip
        self.pointers = pointers  # 64-bit base per register
        self.offsets = offsets  # bytes per register
        self.masks = masks  # predicate or None per register
        self.run = run  # registers 0..run-1 (and every aligned group of them) are neighbours in memory
        self.alignment = alignment  # bytes the address of each group is known to be a multiple of
        self.left = left  # elements from each register to the extent, where `masks` leave that dimension out


def view_access(lowering: Lowering, op: Op, value_type: Any, layout: Any, chunk: int = 0) -> Access:
    """Addresses and masks of a tile of a view, in `layout`.

    `chunk`: elements that an asynchronous copy moves at once. Where an extent may end inside of a chunk, the result
    has `left` in the place of a mask for that dimension.
    """
    b = lowering.b
    view_value: Any = op.operand("view")
    view = lowering.env[view_value]
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
    run_dim = next(
        (d for d, m in enumerate(dims) if type.view.strides[m] == 1 and shape[d] > 1 and d != sparse), -1
    )
    run = _run_of(layout, spans[run_dim], size) if run_dim >= 0 else 1
    alignment = lowering.facts.pointer_alignment(view_value)
    # beside accumulators, and above all those of wgmma, which ptxas cannot move: what waits through a loop is kept small
    sparing = chunk > 0
    registers: list[list[Any]] = []  # per dimension: (64-bit terms, static bytes) per register
    turning: list[Any] = []  # bytes that change with the loop, added behind what threads add
    walks: list[tuple[Any, list[int]]] = []  # scales, and what each register multiplies one by
    remaining: list[Any] | None = None
    masks: list[list[Any]] = []
    for d, m in enumerate(dims):
        stride, stride_bits = view.strides[m]
        extent = view.shape[m]
        coords = coordinates(lowering, layout, *spans[d])
        safe = bool(inbounds and d < len(inbounds) and inbounds[d])
        stride64 = widened(lowering, (stride, stride_bits), signed=True)
        if d != run_dim:
            alignment = min(alignment, lowering.facts.stride_alignment(view_value, m, size))
        elif isinstance(type, StridedView):
            alignment = min(alignment, size * (steps[d] & -steps[d]))
        elif sparse >= 0:
            alignment = min(alignment, size * lowering.facts.divisor(indices[d]))
        if d == sparse:
            rows = _sparse_rows(lowering, indices[d], layout, spans[d], value_type)
            scale = b.mul(64, stride64, size)
            registers.append([((b.mul(64, row, scale),), 0) for row in rows])
            if not safe:
                limit = widened(lowering, extent)
                masks.append([_below64(lowering, row, limit) for row in rows])
            continue
        if sparing and _changes(lowering, op, indices[d]):
            turning.append(_turning_bytes(lowering, indices[d], steps[d], stride64, size))
        else:
            start = _tile_start(lowering, indices[d], steps[d])  # 64 bits, elements
            uniform = b.add(64, uniform, b.mul(64, b.mul(64, start, stride64), size))
        if shape[d] > 1:
            if isinstance(stride, int):
                registers.append([_static_term(lowering, c, stride * size) for c in coords])
            else:
                scale = b.mul(64, stride64, size)
                parts = _parts(lowering, coords) if sparing else None
                if parts is None:
                    registers.append([_dynamic_terms(lowering, c, scale) for c in coords])
                else:
                    walks.append((scale, parts[1]))
                    if parts[0] is not None:
                        uniform = b.add(64, uniform, b.mul(64, b.wide(parts[0], signed=False), scale))
        aligned = not isinstance(type, StridedView) and sparse < 0  # tiles start at multiples of their extent
        if not safe and aligned and isinstance(extent[0], int) and extent[0] % shape[d] == 0:
            tiles = extent[0] // shape[d]  # each lies inside or outside as a whole
            if not _counts_below(lowering, indices[d], tiles):
                masks.append(
                    _limit_masks(lowering, (tiles, 32), indices[d], 1, [0] * len(coords), 1, sparing)
                )
        elif not safe:
            if d == run_dim and lowering.facts.extent_divisor(view_value, m) % max(chunk, 1):
                limit = _room(lowering, extent, indices[d], steps[d], shape[d])
                remaining = [_difference(lowering, limit, c) for c in coords]
                continue
            if d == run_dim and run > 1:  # neighbours inside a divisor of the extent share their mask
                group = min(run, lowering.facts.extent_divisor(view_value, m))
                if isinstance(type, StridedView):
                    group = min(group, steps[d] & -steps[d])
                elif sparse >= 0:
                    group = min(group, lowering.facts.divisor(indices[d]))
                coords = [coords[r - r % group] for r in range(len(coords))]
            masks.append(_limit_masks(lowering, extent, indices[d], steps[d], coords, shape[d], sparing))
    count = layout.num_regs
    pointers: list[Any] = []
    offsets: list[int] = []
    if sparing:
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
    combined = []
    for r in range(count):
        mask = None
        for column in masks:
            mask = b.pand(mask, column[r])
        combined.append(mask)
    return Access(pointers, offsets, combined, run, alignment, remaining)


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
    number = _narrow_index(lowering, index)
    if isinstance(number, int) or number is None:
        return b.mul(64, b.mul(64, _tile_start(lowering, index, step), stride), size)
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


def _dynamic_terms(lowering: Lowering, coordinate: Any, scale: Any) -> tuple[tuple[Any, ...], int]:
    """(64-bit terms, 0) of coordinate * scale: what the thread adds, then what the register adds.

    The second is the same in all threads (a multiple of a stride), the first in all registers: one multiplication.
    """
    b = lowering.b
    if isinstance(coordinate, int):
        return (b.mul(64, scale, coordinate),) if coordinate else (), 0
    thread, constant = b.addc.get(coordinate, (coordinate, 0))
    term = b.mul(64, b.wide(thread, signed=False), scale)
    return (term, b.mul(64, scale, constant)) if constant else (term,), 0


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


def _tile_start(lowering: Lowering, index: Value, step: int) -> Any:
    """First element of a tile: index * step, 64 bits; indices are unsigned."""
    from .arith import zext

    b = lowering.b
    operand = lowering.scalar(index)
    bits = index.type.elem.bits  # type: ignore[attr-defined]
    if isinstance(operand, int):
        return (operand & ((1 << bits) - 1)) * step
    if bits < 64:
        operand = zext(lowering, operand, bits)
        if step < 1 << 31:
            return b.emit("mul.wide.u32", operand, step) if step != 1 else b.wide(operand, signed=False)
        operand = b.wide(operand, signed=False)
    return b.mul(64, operand, step)


def _counts_below(lowering: Lowering, index: Value, limit: int) -> bool:
    """Whether an index is the number of a loop that never reaches the limit."""
    block: Any = index.owner
    loop = block.region.op if index.op is None and index.index == 0 else None
    if loop is None or loop.spec.name != "for":
        return False
    low, high = lowering.scalar(loop.operands[0]), lowering.scalar(loop.operands[1])
    return (
        isinstance(low, int) and isinstance(high, int) and 0 <= low <= high <= limit
    )  # as bits: -1 is the largest


def _limit_masks(
    lowering: Lowering,
    extent: tuple[Any, int],
    index: Value,
    step: int,
    coords: list[Any],
    size: int,
    sparing: bool,
) -> list[Any]:
    """coordinate < extent - start, per register."""
    b = lowering.b
    if size == 1 and step == 1 and not isinstance(lowering.scalar(index), int):
        total, number = _narrow_extent(lowering, extent), _narrow_index(lowering, index)
        if total is not None and number is not None:
            return [_below32(lowering, number, total)] * len(coords)
    left = _narrow_room(lowering, extent, index, step)
    if left is None:
        left = _room(lowering, extent, index, step, size)
    elif isinstance(left, int):
        left = min(left, size)
    if left == size:
        return [None] * len(coords)
    out: list[Any] = []
    beyond = _beyond(lowering, left, coords) if sparing else {}
    for c in coords:
        if c in beyond:
            out.append(b.emit("setp.gt.u32", *beyond[c]))
        elif isinstance(c, int) and isinstance(left, int):
            out.append(None if c < left else b.true(False))
        elif isinstance(c, int):
            out.append(b.emit("setp.gt.u32", left, c))
        else:
            out.append(b.emit("setp.lt.u32", c, left))
    return out


def _beyond(lowering: Lowering, left: Any, coords: list[Any]) -> dict[Any, tuple[Any, int]]:
    """For coordinates that are a thread's part and a constant: what is left behind the thread's part, and the constant."""
    b = lowering.b
    if isinstance(left, int):
        return {}
    roots = {c: b.addc.get(c) for c in coords if not isinstance(c, int)}
    threads = {root[0] for root in roots.values() if root is not None and root[1] >= 0}
    if len(threads) != 1 or len(roots) < CostModel.many_coordinates:
        return {}
    thread = threads.pop()
    rest = b.sub(32, b.emit("max.u32", left, thread), thread)
    out = {c: (rest, root[1]) for c, root in roots.items() if root is not None and root[1] >= 0}
    if thread in roots:
        out[thread] = (rest, 0)
    return out


def _room(lowering: Lowering, extent: tuple[Any, int], index: Value, step: int, size: int) -> Any:
    """extent - start brought into 0..size, once: elements of a tile that are inside."""
    b = lowering.b
    short = _narrow_room(lowering, extent, index, step)
    if short is not None:
        return min(short, size) if isinstance(short, int) else b.emit("min.u32", short, size)
    total, start = widened(lowering, extent), _tile_start(lowering, index, step)
    if isinstance(total, int) and isinstance(start, int):
        return min(max(total - start, 0), size)
    if not isinstance(start, int) and unsigned_bits(index) + step.bit_length() > 63:
        # the number of a tile has no sign, and its product with the step may wrap: none is above the extent
        start = b.mul(64, b.emit("min.u64", lowering.scalar(index), total), step)
    room = b.sub(64, total, start) if not isinstance(total, int) else b.emit("sub.s64", total, start)
    room = b.emit("max.s64", b.emit("min.s64", room, size), 0)
    return b.emit("cvt.u32.u64", room)


def _narrow_room(lowering: Lowering, extent: tuple[Any, int], index: Value, step: int) -> Any:
    """extent - start, at least 0, where extent and index have 32 bits and tiles start at multiples of a power of two; else
    None. A tile that starts beyond 32 bits has its number above the extent's, so that nothing wraps."""
    b = lowering.b
    total = _narrow_extent(lowering, extent)
    if total is None:
        return None
    if isinstance(lowering.scalar(index), int):
        start = _tile_start(lowering, index, step)
        if isinstance(total, int):
            return max(total - start, 0)
        if start == 0 or start > 0xFFFFFFFF:
            return total if start == 0 else 0
        return b.emit("selp.b32", b.sub(32, total, start), 0, b.emit("setp.gt.u32", total, start))
    number = _narrow_index(lowering, index)
    if number is None or step & (step - 1) or step > 1 << 31:
        return None
    shift = log2(step)
    room = b.emit("sub.s32", total, b.shl(32, number, shift))
    whole = b.shr(32, total, shift)
    inside = b.emit("setp.le.u32", number, whole)
    return b.emit("selp.b32", room, 0, inside)


def _narrow_extent(lowering: Lowering, extent: tuple[Any, int]) -> Any:
    """An extent as unsigned 32 bits; None where it may have more."""
    operand, bits = extent
    if isinstance(operand, int):
        return operand if operand < 1 << 31 else None
    from .arith import zext

    return zext(lowering, operand, bits) if bits <= 32 else None


def _narrow_index(lowering: Lowering, index: Value) -> Any:
    """The number of a tile as unsigned 32 bits; None where it may have more."""
    from .arith import zext

    bits: int = index.type.elem.bits  # type: ignore[attr-defined]
    return zext(lowering, lowering.scalar(index), bits) if bits <= 32 else None


def _below32(lowering: Lowering, number: Any, total: Any) -> Any:
    return lowering.b.emit("setp.lt.u32", number, total)


def _difference(lowering: Lowering, limit: Any, coordinate: Any) -> Any:
    """limit - coordinate, 32 bits, negative beyond the limit."""
    b = lowering.b
    if isinstance(limit, int) and isinstance(coordinate, int):
        return b.materialize((limit - coordinate) & 0xFFFFFFFF, "r")
    if isinstance(limit, int):
        return b.emit("sub.s32", b.materialize(limit, "r"), coordinate)
    return b.sub(32, limit, coordinate)


def _below64(lowering: Lowering, row: Any, limit: Any) -> Any:
    b = lowering.b
    if isinstance(row, int):
        if isinstance(limit, int):
            return None if row < limit else b.true(False)
        return b.emit("setp.gt.u64", limit, row)
    return b.emit("setp.lt.u64", row, limit)


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


def _run_of(layout: Any, span: tuple[int, int], size: int) -> int:
    """Registers that are neighbours along one dimension: leading register columns 1, 2, 4 ... of that dimension."""
    low, count = span
    run = 0
    limit = log2(16 // size)
    while run < limit and run < count and run < len(layout.reg) and layout.reg[run] == 1 << (low + run):
        run += 1
    return 1 << run


def vector_width(access: Access, size: int, first: int) -> int:
    """Registers from `first` that one instruction may move: neighbours, aligned, under one mask."""
    width = access.run
    while width > 1 and (width * size > 16 or width * size > access.alignment):
        width >>= 1
    while width > 1:
        if first % width == 0:
            mask, pointer, offset = access.masks[first], access.pointers[first], access.offsets[first]
            if all(
                access.masks[first + i] is mask
                and access.pointers[first + i] is pointer
                and access.offsets[first + i] == offset + i * size
                for i in range(1, width)
            ):
                return width
        width >>= 1
    return 1


# ---- instructions


_SCOPE = {"tl_blk": "cta", "device": "gpu", "sys": "sys"}


def load_opcode(lowering: Lowering, op: Op) -> str:
    ordering = op.attr("memory_ordering_semantics")
    if ordering == "weak":
        return f"ld{lowering.space}"
    return f"ld.{ordering}.{_SCOPE[op.attr('memory_scope')]}{lowering.space}"


def store_opcode(lowering: Lowering, op: Op) -> str:
    ordering = op.attr("memory_ordering_semantics")
    if ordering == "weak":
        return f"st{lowering.space}"
    return f"st.{ordering}.{_SCOPE[op.attr('memory_scope')]}{lowering.space}"


# ---- loads and stores


def lower_load_view(lowering: Lowering, op: Op) -> None:
    result = op.results[0]
    type: Any = result.type
    access = view_access(lowering, op, type, type.layout)
    padding = op.operand("view").type.padding  # type: ignore[union-attr]
    pad = None
    if padding is not None:
        bits = _PADDING[padding].get(type.elem.name, 0)
        pad = constant_operand(lowering, type.elem, bits >> 13 if type.elem.name == "tf32" else bits)
    _load(lowering, op, result, access, [pad] * type.layout.num_regs)
    lowering.env[op.results[1]] = None


def _load(lowering: Lowering, op: Op, result: Value, access: Access, pads: list[Any]) -> None:
    b = lowering.b
    type: Any = result.type
    size = elem_bytes(type.elem)
    if lowering.observer is not None:
        lowering.observer.access = access
    opcode = load_opcode(lowering, op)
    strong = op.attr("memory_ordering_semantics") != "weak"
    count = type.layout.num_regs
    guard_owner = owner_guard(lowering, type.layout) if strong else None
    out: list[Any] = []
    r = 0
    while r < count:
        width = 1 if strong else vector_width(access, size, r)
        address = b.address(access.pointers[r], access.offsets[r])
        guard = b.pand(access.masks[r], guard_owner)
        out += load_vector(lowering, type.elem, address, width, opcode, guard, pads[r : r + width])
        r += width
    if strong and guard_owner is not None:
        out = list(broadcast_owned(lowering, op, Tile(type.elem, type.shape, type.layout, out)))
    lowering.define(result, out)


def lower_store_view(lowering: Lowering, op: Op) -> None:
    value = op.operand("tile")
    type: Any = value.type  # type: ignore[union-attr]
    access = view_access(lowering, op, type, op.attrs["layout"])
    _store(lowering, op, value, access)  # type: ignore[arg-type]
    lowering.env[op.results[0]] = None


def _store(lowering: Lowering, op: Op, value: Value, access: Access) -> None:
    b = lowering.b
    layout = op.attrs["layout"]
    regs = lowering.regs_as(value, layout)
    elem = value.type.elem  # type: ignore[attr-defined]
    size = elem_bytes(elem)
    if lowering.observer is not None:
        lowering.observer.access = access
    opcode = store_opcode(lowering, op)
    strong = op.attr("memory_ordering_semantics") != "weak"
    owner = owner_guard(lowering, layout)
    r = 0
    while r < len(regs):
        width = 1 if strong else vector_width(access, size, r)
        address = b.address(access.pointers[r], access.offsets[r])
        guard = b.pand(access.masks[r], owner)
        store_vector(lowering, elem, address, regs[r : r + width], opcode, guard)
        r += width


def pointer_access(lowering: Lowering, op: Op, pointers: Value, layout: Any) -> Access:
    regs = lowering.regs_as(pointers, layout)
    mask = op.operand("mask")
    masks = list(lowering.regs_as(mask, layout)) if mask is not None else [None] * layout.num_regs
    size = elem_bytes(pointers.type.elem.pointee)  # type: ignore[attr-defined]
    run, alignment = lowering.facts.pointer_run(pointers, mask, layout, size)
    if run > 1:  # the facts promise neighbours: address the group by its first register
        bases, offsets, group_masks = [], [], []
        for r in range(layout.num_regs):
            first = r - r % run
            bases.append(regs[first])
            offsets.append((r - first) * size)
            group_masks.append(masks[first])
        return Access(bases, offsets, group_masks, run, alignment)
    return Access(list(regs), [0] * layout.num_regs, masks, 1, size)


def lower_load_ptr(lowering: Lowering, op: Op) -> None:
    result = op.results[0]
    layout = result.type.layout  # type: ignore[attr-defined]
    access = pointer_access(lowering, op, op.operand("source"), layout)  # type: ignore[arg-type]
    padding = op.operand("paddingValue")
    pads = list(lowering.regs_as(padding, layout)) if padding is not None else [None] * layout.num_regs
    _load(lowering, op, result, access, pads)
    lowering.env[op.results[1]] = None


def lower_store_ptr(lowering: Lowering, op: Op) -> None:
    value = op.operand("value")
    access = pointer_access(lowering, op, op.operand("destination"), op.attrs["layout"])  # type: ignore[arg-type]
    _store(lowering, op, value, access)  # type: ignore[arg-type]
    lowering.env[op.results[0]] = None


def lower_offset(lowering: Lowering, op: Op) -> None:
    """ptr + offset * size of the pointee; the offset is signed."""
    from .arith import sext

    b = lowering.b
    size = elem_bytes(op.results[0].type.elem.pointee)  # type: ignore[attr-defined]
    bits = op.operands[1].type.elem.bits  # type: ignore[attr-defined]

    def one(pointer: Any, offset: Any) -> Any:
        if isinstance(offset, int):
            offset &= (1 << bits) - 1
            if offset >> (bits - 1):
                offset -= 1 << bits
            return b.add(64, pointer, offset * size)
        if bits == 64:
            return b.add(64, pointer, b.mul(64, offset, size))
        offset = sext(lowering, offset, bits)
        return b.add(64, pointer, b.emit("mul.wide.s32", offset, size))

    elementwise(lowering, op, one)


def lower_pointer_cast(lowering: Lowering, op: Op) -> None:
    lowering.define(op.results[0], lowering.regs_as(op.operands[0], op.results[0].type.layout))  # type: ignore[attr-defined]


LOWER = {
    "make_tensor_view": lower_make_tensor_view, "make_partition_view": lower_make_view,
    "make_strided_view": lower_make_view, "make_gather_scatter_view": lower_make_view,
    "get_tensor_shape": lower_get_tensor_shape, "get_index_space_shape": lower_get_index_space_shape,
    "load_view_tko": lower_load_view, "store_view_tko": lower_store_view, "load_ptr_tko": lower_load_ptr,
    "store_ptr_tko": lower_store_ptr, "offset": lower_offset, "ptr_to_int": lower_pointer_cast,
    "int_to_ptr": lower_pointer_cast, "ptr_to_ptr": lower_pointer_cast,
}  # fmt: skip
