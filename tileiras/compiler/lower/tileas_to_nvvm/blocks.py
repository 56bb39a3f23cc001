"""Blocks of tiles: extract, insert, cat.

Where the bits that choose a block are registers of one thread, an extract is a tree of selects (nothing at all for a
constant index). Where layout assignment left the source as it lay, because it has too many blocks for that, it goes
through shared memory and the block is read from an address computed at run time.
"""

from __future__ import annotations

from tileiras.compiler.layout import convert as plans
from tileiras.compiler.layout.linear import dim_bits, log2
from tileiras.compiler.target.registers import CLASS_BYTES, reg_class

from .shape import coordinates
from .shared import accesses, load_shared, owner_guard, store_shared
from .state import Lowering, Tile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op


def lower_extract(lowering: Lowering, op: Op) -> None:
    """A block of the source chosen at run time."""
    source = lowering.tile(op.operands[0])
    result: Any = op.results[0]
    layout = result.type.layout
    if op.attrs.get("plan") == plans.SHARED:
        return lowering.define(result, _through_shared(lowering, op, source))
    sdims, rdims = dim_bits(source.shape), dim_bits(result.type.shape)
    cls = reg_class(source.elem)
    reg_of = source.layout.reg_of
    keep = ~source.layout.inv
    selectors = _block_selectors(lowering, op, op.operands[1:], sdims, rdims)
    out = []
    for offset in layout.reg_table:
        base = 0
        for (slow, _), (rlow, rcount) in zip(sdims, rdims):
            base |= (offset >> rlow & ((1 << rcount) - 1)) << slow
        out.append(_choose(lowering, cls, source, reg_of, keep, base, list(selectors)))
    lowering.define(result, out)


def _through_shared(lowering: Lowering, op: Op, source: Tile) -> list[Any]:
    """The whole source in shared memory, element by element in order; every thread reads what it has of the block."""
    b = lowering.b
    result: Any = op.results[0]
    layout = result.type.layout
    cls = reg_class(source.elem)
    size = CLASS_BYTES[cls]
    columns = []
    total = size
    for k in range(source.layout.bits):
        kept = not source.layout.inv >> k & 1
        columns.append(total if kept else 0)
        total <<= kept
    base = lowering.scratch(op, total)
    guard = owner_guard(lowering, source.layout)
    for regs, address in accesses(lowering, source.layout, tuple(columns), 0, base):
        store_shared(lowering, address, [source.regs[r] for r in regs], cls, guard)
    lowering.barrier()
    inner = [0] * layout.bits
    where: Any = base
    for value, (olow, ocount), (ilow, icount) in zip(
        op.operands[1:], dim_bits(source.shape), dim_bits(result.type.shape)
    ):
        inner[ilow : ilow + icount] = columns[olow : olow + icount]
        index = lowering.scalar(value)
        for k in range(icount, ocount):
            if columns[olow + k]:
                bit = b.and_(32, b.shr(32, index, k - icount), 1)
                where = b.add(32, where, b.shl(32, bit, log2(columns[olow + k])))
    out: list[Any] = [None] * layout.num_regs
    for regs, address in accesses(lowering, layout, tuple(inner), 0, where):
        value = load_shared(lowering, address, 1, cls)[0]
        for r in regs:
            out[r] = value
    return out


def _block_selectors(
    lowering: Lowering, op: Op, indices: Any, outer: Any, inner: Any
) -> list[tuple[int, Any]]:
    """(packed index bit, predicate or bool) for every bit of the block index, highest first."""
    b = lowering.b
    out: list[tuple[int, Any]] = []
    for value, (olow, ocount), (_, icount) in zip(indices, outer, inner):
        index = lowering.scalar(value)
        for k in range(ocount - icount):
            bit = 1 << (olow + icount + k)
            if isinstance(index, int):
                out.append((bit, bool(index >> k & 1)))
            else:
                out.append((bit, b.emit("setp.ne.b32", b.and_(32, index, 1 << k), 0)))
    return out[::-1]


def _choose(
    lowering: Lowering,
    cls: str,
    source: Any,
    reg_of: Any,
    keep: int,
    base: int,
    selectors: list[tuple[int, Any]],
) -> Any:
    from .arith import select

    if not selectors:
        return source.regs[reg_of[base & keep]]
    (bit, predicate), *rest = selectors
    if isinstance(predicate, bool):
        return _choose(lowering, cls, source, reg_of, keep, base | bit if predicate else base, rest)
    one = _choose(lowering, cls, source, reg_of, keep, base | bit, rest)
    zero = _choose(lowering, cls, source, reg_of, keep, base, rest)
    return select(lowering, cls, predicate, one, zero)


def lower_insert(lowering: Lowering, op: Op) -> None:
    """The destination with one block replaced, chosen at run time: every register asks whether it is in the block."""
    from .arith import select

    b = lowering.b
    source, destination = op.operands[0], op.operands[1]
    result: Any = op.results[0]
    layout = result.type.layout
    cls = reg_class(result.type.elem)
    outer, inner = dim_bits(result.type.shape), dim_bits(source.type.shape)  # type: ignore[attr-defined]
    block = lowering.tile(source)
    reg_of = block.layout.reg_of
    keep = ~block.layout.inv
    hits: list[Any] = [True] * layout.num_regs
    for value, (olow, ocount), (_, icount) in zip(op.operands[2:], outer, inner):
        if ocount == icount:
            continue
        index = lowering.scalar(value)
        tests: dict[Any, Any] = {}
        for r, mine in enumerate(coordinates(lowering, layout, olow + icount, ocount - icount)):
            if mine not in tests:
                both = isinstance(mine, int) and isinstance(index, int)
                tests[mine] = mine == index if both else b.emit("setp.eq.u32", mine, index)
            hits[r] = _both(lowering, hits[r], tests[mine])
    out = []
    for offset, old, hit in zip(layout.reg_table, lowering.regs_as(destination, layout), hits):
        if hit is False:
            out.append(old)
            continue
        at = 0
        for (olow, _), (ilow, icount) in zip(outer, inner):
            at |= (offset >> olow & ((1 << icount) - 1)) << ilow
        new = block.regs[reg_of[at & keep]]
        out.append(new if hit is True else select(lowering, cls, hit, new, old))
    lowering.define(result, out)


def _both(lowering: Lowering, p: Any, q: Any) -> Any:
    if p is False or q is False:
        return False
    if p is True or q is True:
        return q if p is True else p
    return lowering.b.emit("and.pred", p, q)


def lower_cat(lowering: Lowering, op: Op) -> None:
    """The joining bit is the top bit of `dim`, a register bit of the result: low half lhs, high half rhs."""
    result = op.results[0]
    layout = result.type.layout  # type: ignore[attr-defined]
    dim = op.attr("dim")
    rdims = dim_bits(result.type.shape)  # type: ignore[attr-defined]
    parts = [lowering.tile(v) for v in op.operands]
    sdims = dim_bits(parts[0].shape)
    top = 1 << (rdims[dim][0] + log2(parts[0].shape[dim]))
    out = []
    for offset in layout.reg_table:
        part = parts[1] if offset & top else parts[0]
        index = 0
        for (slow, scount), (rlow, _) in zip(sdims, rdims):
            index |= (offset >> rlow & ((1 << scount) - 1)) << slow
        out.append(part.regs[part.layout.reg_of[index & ~part.layout.inv]])
    lowering.define(result, out)


LOWER = {"extract": lower_extract, "insert": lower_insert, "cat": lower_cat}
