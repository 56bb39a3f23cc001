"""Which elements of a tile lie inside of the tensor: one comparison a register, in 32 bits where that is enough."""

from __future__ import annotations

from tileiras.compiler.layout.linear import log2
from tileiras.compiler.passes.tileaa.facts import unsigned_bits
from tileiras.compiler.target import sm
from tileiras.compiler.target.cost import CostModel

from .state import Lowering
from .views import widened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Value


def tile_start(lowering: Lowering, index: Value, step: int) -> Any:
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


def counts_below(lowering: Lowering, index: Value, limit: int) -> bool:
    """Whether an index is the number of a loop that never reaches the limit."""
    block: Any = index.owner
    loop = block.region.op if index.op is None and index.index == 0 else None
    if loop is None or loop.spec.name != "for":
        return False
    low, high = lowering.scalar(loop.operands[0]), lowering.scalar(loop.operands[1])
    return (
        isinstance(low, int) and isinstance(high, int) and 0 <= low <= high <= limit
    )  # as bits: -1 is the largest


def limit_masks(
    lowering: Lowering,
    extent: tuple[Any, int],
    index: Value,
    step: int,
    coords: list[Any],
    size: int,
    sparing: bool,
    within: Any = None,
) -> list[Any]:
    """coordinate < extent - start, per register; `within` is a condition of all of them."""
    b = lowering.b
    if size == 1 and step == 1 and within is None and not isinstance(lowering.scalar(index), int):
        total, number = _narrow_extent(lowering, extent), narrow_index(lowering, index)
        if total is not None and number is not None:
            return [_below32(lowering, number, total)] * len(coords)
        return [below64(lowering, tile_start(lowering, index, 1), widened(lowering, extent))] * len(coords)
    left = _narrow_room(lowering, extent, index, step)
    if left is None:
        left = room(lowering, extent, index, step, size)
    elif isinstance(left, int):
        left = min(left, size)
    if left == size:
        return [within] * len(coords)
    if within is not None:
        left = b.emit("selp.b32", left, 0, within)
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


def room(lowering: Lowering, extent: tuple[Any, int], index: Value, step: int, size: int) -> Any:
    """extent - start brought into 0..size, once: elements of a tile that are inside."""
    b = lowering.b
    short = _narrow_room(lowering, extent, index, step)
    if short is not None:
        return min(short, size) if isinstance(short, int) else b.emit("min.u32", short, size)
    total, start = widened(lowering, extent), tile_start(lowering, index, step)
    if isinstance(total, int) and isinstance(start, int):
        return min(max(total - start, 0), size)
    if not isinstance(start, int) and unsigned_bits(index) + step.bit_length() > 63:
        # the number of a tile has no sign, and its product with the step may wrap: none is above the extent
        start = b.mul(64, b.emit("min.u64", lowering.scalar(index), total), step)
    room = b.sub(64, total, start) if not isinstance(total, int) else b.emit("sub.s64", total, start)
    room = b.emit("max.s64", b.emit("min.s64", room, size), 0)
    return b.emit("cvt.u32.u64", room)


def _narrow_room(lowering: Lowering, extent: tuple[Any, int], index: Value, step: int) -> Any:
    """extent - start, at least 0, where the extent has 32 bits and tiles start at multiples of a power of two; else None. A
    tile that starts beyond 32 bits has its number above the extent's, so that nothing wraps. Numbers of 64 bits that do not
    change in a loop are left out: a loop over slices has what they leave in front of it."""
    b = lowering.b
    total = _narrow_extent(lowering, extent)
    if total is None:
        return None
    if isinstance(lowering.scalar(index), int):
        start = tile_start(lowering, index, step)
        if isinstance(total, int):
            return max(total - start, 0)
        if start == 0 or start > 0xFFFFFFFF:
            return total if start == 0 else 0
        return b.emit("selp.b32", b.sub(32, total, start), 0, b.emit("setp.gt.u32", total, start))
    if step & (step - 1) or step > 1 << 31:
        return None
    shift = log2(step)
    number = narrow_index(lowering, index)
    if number is None and (lowering.target.has(sm.MINMAX_64) or not _counts(index)):
        return None
    wide: Any = lowering.scalar(index) if number is None else None
    low = b.emit("cvt.u32.u64", wide) if number is None else number
    room = b.emit("sub.s32", total, b.shl(32, low, shift))
    whole = b.shr(32, total, shift)
    if wide is None:
        inside = b.emit("setp.le.u32", number, whole)
    else:
        inside = b.emit("setp.le.u64", wide, b.wide(whole, signed=False))
    return b.emit("selp.b32", room, 0, inside)


def _counts(index: Value, depth: int = 6) -> bool:
    """Whether an index is computed from the number of a loop's step."""
    op = index.op
    if op is None:
        loop = index.owner.region.op if index.index == 0 else None  # type: ignore[union-attr]
        return loop is not None and loop.spec.name == "for"
    return (
        depth > 0
        and op.spec.name in ("addi", "muli", "exti")
        and any(_counts(v, depth - 1) for v in op.operands)
    )


def _narrow_extent(lowering: Lowering, extent: tuple[Any, int]) -> Any:
    """An extent as unsigned 32 bits; None where it may have more."""
    operand, bits = extent
    if isinstance(operand, int):
        return operand if operand < 1 << 31 else None
    from .arith import zext

    return zext(lowering, operand, bits) if bits <= 32 else None


def narrow_index(lowering: Lowering, index: Value) -> Any:
    """The number of a tile as unsigned 32 bits; None where it may have more."""
    from .arith import zext

    bits: int = index.type.elem.bits  # type: ignore[attr-defined]
    return zext(lowering, lowering.scalar(index), bits) if bits <= 32 else None


def _below32(lowering: Lowering, number: Any, total: Any) -> Any:
    return lowering.b.emit("setp.lt.u32", number, total)


def difference(lowering: Lowering, limit: Any, coordinate: Any) -> Any:
    """limit - coordinate, 32 bits, negative beyond the limit."""
    b = lowering.b
    if isinstance(limit, int) and isinstance(coordinate, int):
        return b.materialize((limit - coordinate) & 0xFFFFFFFF, "r")
    if isinstance(limit, int):
        return b.emit("sub.s32", b.materialize(limit, "r"), coordinate)
    return b.sub(32, limit, coordinate)


def below64(lowering: Lowering, row: Any, limit: Any) -> Any:
    b = lowering.b
    if isinstance(row, int):
        if isinstance(limit, int):
            return None if row < limit else b.true(False)
        return b.emit("setp.gt.u64", limit, row)
    return b.emit("setp.lt.u64", row, limit)
