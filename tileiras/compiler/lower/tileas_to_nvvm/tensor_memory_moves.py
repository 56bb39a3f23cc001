"""What moves between registers and tensor memory: accumulators in, out and scaled in place, and rows of left operands."""

from __future__ import annotations

from tileiras.compiler.layout.linear import dim_bits
from tileiras.compiler.target import sm, tcgen05

from .state import Lowering
from .tensor_memory import LANES_AT, Memory, wait_for_product
from .transfer import pack_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op


def _most(lowering: Lowering, op: Op) -> int:
    """Registers that one instruction moves at most."""
    found: int | None = op.attr("most")
    if found is None:
        raise lowering.undecided(op, "most", "TileASPlaceShared")
    return found


def _pieces(layout: Any, shape: Any, most: int) -> list[tuple[int, str, list[int], tuple[int, ...]]]:
    """(column, form, registers, column of the upper lanes) of what one instruction moves: at most `most` registers, columns
    of one block of rows. What one moves lies side by side: for 128 registers ptxas finds no place where as many wait."""
    (m_low, _), (n_low, n_bits) = dim_bits(shape)
    mask = (1 << n_bits) - 1
    half = shape[0] <= tcgen05.HALF
    split = layout.lane[4] >> n_low & mask if half else 0  # where two threads share a row
    most = min(most, split or most)
    found: dict[int, dict[int, int]] = {}
    for r, offset in enumerate(layout.reg_table):
        row, column = offset >> m_low, offset >> n_low & mask
        if half and not split:  # four registers for eight columns of sixteen rows
            found.setdefault(0, {})[(column >> 3) * 4 + (row >> 3) * 2 + (column & 1)] = r
        else:
            found.setdefault(row, {})[column] = r
    out: list[tuple[int, str, list[int], tuple[int, ...]]] = []
    for row, columns in found.items():
        order = sorted(columns)
        for i in range(0, len(order), most):
            part = order[i : i + most]
            places = [columns[c] for c in part]
            if split:
                out.append((part[0], f"16x32bx2.x{len(part)}", places, (split,)))
            elif half:
                out.append((2 * part[0], f"16x256b.x{len(part) // 4}", places, ()))
            else:
                out.append((shape[1] * (row >> 7) + part[0], f"32x32b.x{len(part)}", places, ()))
    return out


def _thread_address(lowering: Lowering, memory: Memory, layout: Any, shape: Any) -> Any:
    """Where a warp's part begins: its lanes, and the columns or rows beyond 128 that its warpgroup takes."""
    b = lowering.b
    (m_low, _), (n_low, n_bits) = dim_bits(shape)
    columns = []
    for c in layout.warp[2:]:
        columns.append(shape[1] * (c >> m_low >> 7) if c >> m_low else c >> n_low & ((1 << n_bits) - 1))
    part = b.thread_linear([0] * 5, [32 << LANES_AT, 64 << LANES_AT, *columns])
    return b.add(32, memory.address, part)


def _read(lowering: Lowering, base: Any, piece: Any) -> tuple[Any, ...]:
    b = lowering.b
    column, form, places, upper = piece
    words = tuple(b.reg("r") for _ in places)
    b.emit_to(words, f"tcgen05.ld.sync.aligned.{form}.b32", b.address(b.add(32, base, column)), *upper)
    return words


def _write(lowering: Lowering, base: Any, piece: Any, words: Any) -> None:
    b = lowering.b
    column, form, _, upper = piece
    b.emit_to(None, f"tcgen05.st.sync.aligned.{form}.b32", b.address(b.add(32, base, column)), *upper, words)


def lower_store(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    memory: Memory = lowering.env[op.operands[0]]
    tile = lowering.tile(op.operands[1])
    shape = tile.shape
    type: Any = op.operands[1].type
    regs = lowering.regs_as(op.operands[1], type.layout)
    base = _thread_address(lowering, memory, type.layout, shape)
    for piece in _pieces(type.layout, shape, _most(lowering, op)):
        _write(lowering, base, piece, tuple(b.materialize(regs[p], "r") for p in piece[2]))
    b.emit_to(None, "tcgen05.wait::st.sync.aligned")
    b.emit_to(None, "tcgen05.fence::before_thread_sync")


def lower_load(lowering: Lowering, op: Op) -> None:
    """Waits for a product, then brings the accumulator."""
    b = lowering.b
    memory: Memory = lowering.env[op.operands[0]]
    wait_for_product(lowering, memory, b.add(32, lowering.scalar(op.operands[1]), -op.attr("before")))
    b.emit_to(None, "tcgen05.fence::after_thread_sync")
    type: Any = op.results[0].type
    base = _thread_address(lowering, memory, type.layout, type.shape)
    pieces = _pieces(type.layout, type.shape, _most(lowering, op))
    if not op.attr("apart"):
        out: list[Any] = [None] * type.layout.num_regs
        for piece in pieces:
            for p, word in zip(piece[2], _read(lowering, base, piece)):
                out[p] = word
        b.emit_to(None, "tcgen05.wait::ld.sync.aligned")
        b.emit_to(None, "tcgen05.fence::before_thread_sync")
        return lowering.define(op.results[0], out)

    def part(piece: Any) -> tuple[Any, ...]:
        words = _read(lowering, base, piece)
        b.emit_to(None, "tcgen05.wait::ld.sync.aligned")
        return words

    parts = [(piece[2], lambda piece=piece: part(piece)) for piece in pieces]
    fence = lambda: b.emit_to(None, "tcgen05.fence::before_thread_sync")  # noqa: E731
    lowering.comes(op.results[0], parts, fence)


def lower_scale(lowering: Lowering, op: Op) -> None:
    """The sum of the product before this iteration's, times a factor. Where they are tested, a warp all of whose factors are 1
    leaves its part as it is: multiplying by 1 changes no number."""
    b = lowering.b
    memory: Memory = lowering.env[op.operands[0]]
    shape = lowering.tile(op.operands[2]).shape
    layout = tcgen05.layout_of(shape, lowering.log2_warps, bool(op.attr("rows_of_halves")))
    factors = lowering.regs_as(op.operands[2], layout)
    base = _thread_address(lowering, memory, layout, shape)
    wait_for_product(lowering, memory, b.add(32, lowering.scalar(op.operands[1]), -1))
    b.emit_to(None, "tcgen05.fence::after_thread_sync")
    skip = b.label()
    distinct = list(dict.fromkeys(factors))
    if op.attr("tested"):
        tests = [b.setp("neu", "f32", factor, b.float("r", 0x3F800000)) for factor in distinct]
        differs = tests[0]
        for test in tests[1:]:
            differs = b.emit("or.pred", differs, test)
        any_lane = b.reg("p")
        b.emit_to(any_lane, "vote.sync.any.pred", differs, 0xFFFFFFFF)
        b.bra(skip, (any_lane, True))
    b.push()
    for piece in _pieces(layout, shape, _most(lowering, op)):
        words = _read(lowering, base, piece)
        b.emit_to(None, "tcgen05.wait::ld.sync.aligned")
        _write(lowering, base, piece, _multiply(lowering, words, [factors[p] for p in piece[2]]))
    b.emit_to(None, "tcgen05.wait::st.sync.aligned")
    b.pop()
    b.place(skip)
    b.emit_to(None, "tcgen05.fence::before_thread_sync")


def _multiply(lowering: Lowering, words: Any, factors: Any) -> tuple[Any, ...]:
    """Products of f32 values, two an instruction where the target has that."""
    b = lowering.b
    if not lowering.target.has(sm.F32X2):
        return tuple(b.emit("mul.rn.f32", word, factor) for word, factor in zip(words, factors))
    out: list[Any] = []
    for i in range(0, len(words), 2):
        both = b.emit("mul.rn.f32x2", b.pair(words[i], words[i + 1]), b.pair(factors[i], factors[i + 1]))
        out += b.halves_of(both)
    return tuple(out)


def lower_store_rows(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    memory: Memory = lowering.env[op.operands[0]]
    tile = lowering.tile(op.operands[1])
    shape = tile.shape
    layout = tcgen05.layout_of(shape, lowering.log2_warps, rows_of_halves=shape[0] <= tcgen05.HALF)
    regs = lowering.regs_as(op.operands[1], layout)
    lanes = [32 << LANES_AT, 64 << LANES_AT]
    part = b.thread_linear(
        [0] * 5, [*lanes, *(op.attr("stride") << k for k in range(lowering.log2_warps - 2))]
    )
    base = b.add(32, memory.address, b.add(32, part, op.attr("column")))
    packed = 32 // tile.elem.bits
    for column, form, places, upper in _pieces(layout, shape, 2 * tcgen05.LANES):
        words = tuple(pack_words(lowering, [regs[p] for p in places], tile.elem))
        piece = (
            column // packed,
            f"{form.partition('.')[0]}.x{len(words)}",
            places,
            tuple(c // packed for c in upper),
        )
        _write(lowering, base, piece, words)
    b.emit_to(None, "tcgen05.wait::st.sync.aligned")
    b.emit_to(None, "tcgen05.fence::before_thread_sync")


LOWER = {
    "tensor_memory.store": lower_store, "tensor_memory.load": lower_load, "tensor_memory.scale": lower_scale,
    "tensor_memory.store_rows": lower_store_rows,
}  # fmt: skip
