"""Block-scaled products in tensor memory: scales go there by tcgen05.cp; signs, which it does not know, into the elements."""

from __future__ import annotations

from tileiras.compiler.layout.gf2 import apply
from tileiras.compiler.target import tcgen05

from .cta_pairs import GROUPS
from .mbarriers import WHOLE_WARP, by_warp, commit
from .staging import slot_address
from .state import Lowering
from .tensor_memory import Memory
from .tensor_memory_products import Operand, adds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op

_SCALE_SIGNS = 0x80808080
_ELEMENT_SIGNS = 0x88888888


def lower_product_scaled(lowering: Lowering, op: Op) -> None:
    """Copies the scales, then one instruction for 128 rows, 256 columns and 32 bytes of K: all by one thread, in order."""
    b = lowering.b
    memory: Memory = lowering.env[op.operands[0]]
    count = lowering.scalar(op.operands[1])
    room: Memory = lowering.env[op.operands[2]]
    rows, columns, depth = op.attr("m"), op.attr("n"), op.attr("depth")
    form = op.attr("elem"), op.attr("scale"), op.attr("block")
    kind, _, along = tcgen05.SCALED[form]
    left = Operand(lowering, op, 0, op.operands[3:5], (rows, depth))
    right = Operand(lowering, op, 1, op.operands[5:7], (depth, columns))
    blocks = depth // tcgen05.SCALED_BYTES * along
    sides = [((rows, blocks), 0, "sa", op.operands[7:9]), ((blocks, columns), 1, "sb", op.operands[9:11])]
    places = [
        b.add(32, slot_address(lowering, *place), op.attr(f"{name}_start")) for _, _, name, place in sides
    ]
    taken = [tcgen05.scale_columns(shape, which) for shape, which, _, _ in sides]
    parity = b.and_(32, count, 1)
    scales = b.add(32, b.add(32, room.address, op.attr("column")), b.mul(32, parity, sum(taken)))
    bar = b.add(32, memory.state, b.shl(32, parity, 3))
    wide = min(columns, tcgen05.MAX_N)

    def copy(which: int, base: Any) -> None:
        start = b.wide(b.and_(32, b.shr(32, places[which], 4), 0x3FFF), signed=False)
        first = b.add(64, start, tcgen05.SCALE_DESCRIPTOR)
        for tile in range(taken[which] // tcgen05.SCALE_COLUMNS):
            target = b.address(b.add(32, base, tcgen05.SCALE_COLUMNS * tile))
            source = b.materialize(b.add(64, first, tcgen05.SCALE_BYTES * tile >> 4), "d")
            b.emit_to(None, f"tcgen05.cp.{GROUPS[0]}.32x128b.warpx4", target, source)

    def scale_of(which: int, base: Any, other: int, number: int) -> Any:
        tiles, _ = tcgen05.scale_tiles(*sides[which][:2])
        column = number // tcgen05.SCALE_DEPTH * tiles * tcgen05.SCALE_COLUMNS + other // 32
        return b.address(b.add(32, base, column))

    def issue() -> None:
        b.emit_to(None, "tcgen05.fence::after_thread_sync")
        bases = [scales, b.add(32, scales, taken[0])]
        for which, base in enumerate(bases):
            copy(which, base)
        yes, first = b.true(), adds(lowering, op)
        for m in range(0, rows, tcgen05.LANES):
            for n in range(0, columns, wide):
                target = b.address(b.add(32, memory.address, m // tcgen05.LANES * columns + n))
                for k in range(0, depth, tcgen05.SCALED_BYTES):
                    number = k // tcgen05.SCALED_BYTES * along
                    word = tcgen05.scaled_descriptor(
                        form, wide, left.matrix.k_major, right.matrix.k_major, number % tcgen05.SCALE_DEPTH
                    )
                    b.emit_to(
                        None, f"tcgen05.mma.{GROUPS[0]}.kind::{kind}", target, b.materialize(left.at(k, m), "d"),
                        b.materialize(right.at(k, n), "d"), b.materialize(word, "r"), scale_of(0, bases[0], m, number),
                        scale_of(1, bases[1], n, number), first if k == 0 else yes,
                    )  # fmt: skip
        if op.attrs.get("commit", 1):
            commit(lowering, bar)

    if form[1] != "f8E4M3FN":
        return by_warp(lowering, False, issue)

    def turn_and_issue() -> None:
        _turn_signs(lowering, [(left, places[0], rows), (right, places[1], columns)], blocks)
        by_warp(lowering, False, issue)

    by_warp(lowering, True, turn_and_issue)


def _turn_signs(lowering: Lowering, sides: list[tuple[Operand, Any, int]], blocks: int) -> None:
    """Scales have no sign for tcgen05: where one is negative, the sixteen elements of four bits that it scales change
    theirs in shared memory. One warp looks at all scales of a step, 16 bytes a lane and tile; most have nothing to do.

    `sides`: operand, address of its scales, and how many rows (columns) it has.
    """
    b = lowering.b
    found: Any = 0
    lane = b.entry("shl.b32", b.entry("and.b32", b.tid, 31), 4)
    own = [b.add(32, scales, lane) for _, scales, _ in sides]
    groups = blocks // tcgen05.SCALE_DEPTH
    for (_, _, count), place in zip(sides, own):
        words = min(count, tcgen05.SCALE_ROWS) // 32
        for tile in range(max(1, count // tcgen05.SCALE_ROWS) * groups):
            for word in _load_words(lowering, b.address(place, tcgen05.SCALE_BYTES * tile), words):
                found = b.or_(32, found, word)
    negative = b.emit("setp.ne.b32", b.and_(32, found, _SCALE_SIGNS), 0)
    any_lane, done = b.reg("p"), b.label()
    b.emit_to(any_lane, "vote.sync.any.pred", negative, WHOLE_WARP)
    b.bra(done, (any_lane, True))
    b.push()
    for (operand, _, count), place in zip(sides, own):
        for tile in range(max(1, count // tcgen05.SCALE_ROWS)):
            for group in range(groups):
                number = group * max(1, count // tcgen05.SCALE_ROWS) + tile
                scales = b.add(32, place, tcgen05.SCALE_BYTES * number)
                _turn_rows(lowering, operand, scales, tile, group, min(count, tcgen05.SCALE_ROWS) // 32)
    b.emit_to(None, "fence.proxy.async.shared::cta")
    b.emit_to(None, "bar.warp.sync", WHOLE_WARP)
    b.pop()
    b.place(done)


def _turn_rows(lowering: Lowering, operand: Operand, scales: Any, tile: int, group: int, words: int) -> None:
    """A row a lane, 32 bytes of it, for each of a lane's words of scales in turn."""
    b = lowering.b
    low = operand.other[0]
    columns = operand.arrangement
    lanes = [columns[low + k] for k in range(5)]
    own = b.thread_linear(lanes, [0] * lowering.log2_warps)
    used = 0
    for column in lanes:
        used |= column
    starts = []
    for half in (0, 16):
        offset = apply(
            columns, group * tcgen05.SCALED_BYTES + half << operand.k[0] | tile * tcgen05.SCALE_ROWS << low
        )
        where = b.xor(32, own, offset & used) if offset & used else own
        starts.append(b.add(32, b.add(32, operand.address(lowering), where), offset & ~used))
    at = [b.reg("r") for _ in range(3)]
    for register, value in zip(at, (scales, *starts)):
        b.copy(register, value)
    end = b.add(32, scales, 4 * words)
    again, more = b.label(), b.reg("p")
    b.place(again)
    b.emit_to(None, "pragma", "nounroll")
    (word,) = _load_words(lowering, b.address(at[0]), 1)
    for half in (0, 1):
        row = _load_words(lowering, b.address(at[1 + half]), 4)
        turned = []
        for k, value in enumerate(row):
            mask, number = b.reg("r"), 2 * half + k // 2
            b.emit_to(mask, "prmt.b32", word, 0, 0x8888 + 0x1111 * number)  # the sign of a byte, everywhere
            b.emit_to(mask, "and.b32", mask, _ELEMENT_SIGNS)
            b.emit_to(mask, "xor.b32", mask, value)
            turned.append(mask)
        b.emit_to(None, "st.shared.v4.b32", b.address(at[1 + half]), tuple(turned))
    b.emit_to(word, "and.b32", word, 0x7F7F7F7F)
    b.emit_to(None, "st.shared.b32", b.address(at[0]), word)
    for register, step in zip(at, (4, *[columns[low + 5] if words > 1 else 0] * 2)):
        b.emit_to(register, "add.s32", register, step)
    b.emit_to(more, "setp.ne.u32", at[0], end)
    b.bra(again, (more, False))


def _load_words(lowering: Lowering, address: Any, count: int) -> tuple[Any, ...]:
    """Words of shared memory that others write, too: never reused."""
    b = lowering.b
    words = tuple(b.reg("r") for _ in range(count))
    vector = f".v{count}" if count > 1 else ""
    b.emit_to(words if count > 1 else words[0], f"ld.shared{vector}.b32", address)
    return words


LOWER = {"tensor_memory.product_scaled": lower_product_scaled}
