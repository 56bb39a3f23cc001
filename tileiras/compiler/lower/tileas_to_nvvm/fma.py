"""Matrix products by fused multiply-add: f32 operands, and every type a target has no atom for.

Where both operands wait in shared memory (schedule/multiply_adds.py), threads have of a slice of K what they multiply. Else
both go through shared memory here, as f32 (f64, i32): A as [K, M], B as [K, N], so that a thread reads its rows and columns as
vectors. K is a loop, unrolled a little.
"""

from __future__ import annotations

from tileiras.compiler.layout.algebra import LANE, REGISTER, WARP
from tileiras.compiler.layout.gf2 import table
from tileiras.compiler.layout.linear import dim_bits, placed
from tileiras.compiler.target import fma

from .arith import extended, upcast
from .convert import fixed_part
from .shared import load_shared, owner_guard, store_shared
from .state import Lowering, Tile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op


_CLASS = {"f64": ("d", "fma.rn.f64"), "i32": ("r", "mad.lo.s32")}  # by the type of the sums


def lower_fma_mma(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    result = op.results[0]
    layout = result.type.layout  # type: ignore[attr-defined]
    acc_elem = result.type.elem.name  # type: ignore[attr-defined]
    acc = list(lowering.regs_as(op.operands[2], layout))
    if acc_elem == "f16":
        acc = [b.emit("cvt.f32.f16", x) for x in acc]
    cls, opcode = _CLASS.get(acc_elem, ("r", "fma.rn.f32"))
    shape = result.type.shape  # type: ignore[attr-defined]
    lhs, rhs = lowering.tile(op.operands[0]), lowering.tile(op.operands[1])
    signed = (True, True)
    if op.spec.name == "mmai":
        signed = (op.attr("signedness_lhs") == "signed", op.attr("signedness_rhs") == "signed")
    whole_k = lhs.shape[-1]
    sides = tuple(fma.operand_layout(t.shape, which, layout, shape) for which, t in enumerate((lhs, rhs)))
    if (lhs.layout, rhs.layout) == sides:
        return _fragments(lowering, op, lhs, rhs, signed, acc)
    k = op.attrs.get("round_depth", whole_k)  # K in rounds when both operands together are too large
    regs = [b.fresh(x, cls) for x in acc]
    for start in range(0, whole_k, k):
        _round(lowering, op, lhs, rhs, signed, regs, layout, shape, start, k, whole_k, cls, opcode)
    out: list[Any] = list(regs)
    if acc_elem == "f16":
        out = [b.emit_fresh("cvt.rn.f16.f32", x) for x in out]
    lowering.define(result, out)


def _fragments(
    lowering: Lowering, op: Op, lhs: Tile, rhs: Tile, signed: tuple[bool, bool], acc: list[Any]
) -> None:
    """acc + A x B, where each thread has the rows and columns that it multiplies."""
    b = lowering.b
    result: Any = op.results[0]
    layout, shape = result.type.layout, result.type.shape
    cls, opcode = _CLASS.get(result.type.elem.name, ("r", "fma.rn.f32"))
    places = []
    for which, tile in enumerate((lhs, rhs)):
        left_out = len(shape) - 1 - which
        ours, theirs = dim_bits(tile.shape), dim_bits(shape)
        low, count = ours[left_out]
        values = [b.materialize(_widen(lowering, x, tile.elem, signed[which]), cls) for x in tile.regs]
        # by the place of the sums, and by the number along K
        at = {}
        for offset in layout.reg_table:
            index = 0
            for d, (start, bits) in enumerate(theirs):
                if d != left_out:
                    index |= (offset >> start & (1 << bits) - 1) << ours[d][0]
            at[offset] = index
        reg_of, keep = tile.layout.reg_of, ~tile.layout.inv
        places.append(
            [
                {offset: values[reg_of[(index | k << low) & keep]] for offset, index in at.items()}
                for k in range(1 << count)
            ]
        )
    for left, right in zip(*places):
        acc = [b.emit(opcode, left[offset], right[offset], x) for offset, x in zip(layout.reg_table, acc)]
    if result.type.elem.name == "f16":
        acc = [b.emit("cvt.rn.f16.f32", x) for x in acc]
    lowering.define(result, acc)


def _round(
    lowering: Lowering, op: Op, lhs: Tile, rhs: Tile, signed: tuple[bool, bool], regs: list[Any], layout: Any,
    shape: tuple[int, ...], start: int, k: int, whole_k: int, cls: str, opcode: str,
) -> None:  # fmt: skip
    """acc += A[:, start : start + k] x B[start : start + k, :]."""
    b = lowering.b
    size = 8 if cls == "d" else 4
    rank = len(shape)
    batch = shape[0] if rank == 3 else 1
    m, n = shape[-2], shape[-1]
    a_bytes, b_bytes = batch * m * k * size, batch * k * n * size
    base = lowering.scratch(op, a_bytes + b_bytes)
    # byte offsets of index bits; K bits above the round are fixed and have no place
    a_columns = _columns(
        lhs.shape, [1 if d == rank - 2 else m if d == rank - 1 else m * k for d in range(rank)], size
    )
    b_columns = _columns(
        rhs.shape, [n if d == rank - 2 else 1 if d == rank - 1 else n * k for d in range(rank)], size
    )
    for tile, columns, where, sign, dim in (
        (lhs, a_columns, 0, signed[0], rank - 1), (rhs, b_columns, a_bytes, signed[1], rank - 2),
    ):  # fmt: skip
        low, _ = dim_bits(tile.shape)[dim]
        mask = (whole_k - 1 & ~(k - 1)) << low
        staged, guard = (tile, owner_guard(lowering, tile.layout))
        if mask:
            staged, guard = fixed_part(lowering, tile, mask, start << low)
            columns = tuple(0 if mask >> i & 1 else c for i, c in enumerate(columns))
        _stage(lowering, staged, columns, where, base, cls, sign, guard, mask)
    lowering.barrier()
    # which rows and columns a thread needs
    spans = dim_bits(shape)
    m_low, m_count = spans[-2]
    n_low, n_count = spans[-1]

    def part(index: int, low: int, count: int) -> int:
        return index >> low & ((1 << count) - 1)

    def a_offset(index: int) -> int:
        outer = index >> spans[0][0] if rank == 3 else 0
        return (part(index, m_low, m_count) + outer * m * k) * size

    def b_offset(index: int) -> int:
        outer = index >> spans[0][0] if rank == 3 else 0
        return (part(index, n_low, n_count) + outer * n * k) * size

    thread_a = b.thread_linear([a_offset(c) for c in layout.lane], [a_offset(c) for c in layout.warp])
    thread_b = b.thread_linear([b_offset(c) for c in layout.lane], [b_offset(c) for c in layout.warp])
    unroll = op.attrs.get("unroll")
    if unroll is None:
        raise lowering.undecided(op, "unroll", "TileASPlaceShared")
    pa = b.fresh(b.add(32, base, thread_a), "r")
    pb = b.fresh(b.add(32, b.add(32, base, a_bytes), thread_b), "r")
    counter = b.fresh(0, "r")
    head = b.label()
    loops = k > unroll
    if loops:
        b.place(head)
    b.push()
    for step in range(unroll):
        a_values = _vectors(
            lowering, pa, step * m * size, sorted({a_offset(o) for o in layout.reg_table}), size, cls
        )
        b_values = _vectors(
            lowering, pb, step * n * size, sorted({b_offset(o) for o in layout.reg_table}), size, cls
        )
        for r, offset in enumerate(layout.reg_table):
            b.emit_to(regs[r], opcode, a_values[a_offset(offset)], b_values[b_offset(offset)], regs[r])
    b.pop()
    if loops:
        b.emit_to(pa, "add.s32", pa, unroll * m * size)
        b.emit_to(pb, "add.s32", pb, unroll * n * size)
        b.emit_to(counter, "add.s32", counter, unroll)
        b.bra(head, b.emit_fresh("setp.lt.s32", counter, k))


def _columns(shape: Any, weights: list[int], size: int) -> tuple[int, ...]:
    """Byte offset of every packed index bit when dimension d has this element weight."""
    out = []
    for (low, count), weight in sorted(zip(dim_bits(shape), weights)):
        del low
        out += [weight * size << i for i in range(count)]
    return tuple(out)


def _stage(
    lowering: Lowering,
    tile: Tile,
    columns: tuple[int, ...],
    start: int,
    base: Any,
    cls: str,
    signed: bool,
    guard: Any,
    fixed: int,
) -> None:
    """Write a tile to shared memory, widened to the accumulator's class. Values not depending on an index bit
    are written for both settings of it."""
    b = lowering.b
    layout = tile.layout
    place = placed(layout, columns).ins
    thread = b.thread_linear(place[LANE], place[WARP])
    copies = [0]
    for k in range(layout.bits):
        if (layout.inv & ~fixed) >> k & 1:
            copies += [c ^ columns[k] for c in copies]
    for offset, value in zip(table(place[REGISTER]), tile.regs):
        wide = _widen(lowering, value, tile.elem, signed)
        for copy in copies:
            where = b.xor(32, thread, offset ^ copy)
            store_shared(lowering, b.address(b.add(32, base, where), start), [wide], cls, guard)


def _widen(lowering: Lowering, value: Any, elem: Any, signed: bool) -> Any:
    if elem.name in ("f16", "bf16"):
        return upcast(lowering, value, elem.name)
    if elem.name == "i8":
        return extended(lowering, value, 8, signed)
    if elem.name in ("f8E4M3FN", "f8E5M2"):
        from .casts import float_to_f32

        return float_to_f32(lowering, value, elem.name)
    return value


def _vectors(
    lowering: Lowering, pointer: Any, start: int, offsets: list[int], size: int, cls: str
) -> dict[int, Any]:
    """Values at the byte offsets, neighbours loaded as vectors of up to 16 bytes."""
    b = lowering.b
    out: dict[int, Any] = {}
    limit = 16 // size
    i = 0
    while i < len(offsets):
        width = limit
        while width > 1 and (
            offsets[i] % (width * size)
            or start % (width * size)
            or any(i + j >= len(offsets) or offsets[i + j] != offsets[i] + j * size for j in range(width))
        ):
            width >>= 1
        values = load_shared(lowering, b.address(pointer, start + offsets[i]), width, cls)
        for j, value in enumerate(values):
            out[offsets[i] + j * size] = value
        i += width
    return out
