"""Tiles that wait in shared memory: buffers, asynchronous copies into them, fragments out of them.

The schedule room has decided everything: offsets of buffers, arrangements, widths, groups. This file spells it.
"""

from __future__ import annotations

from tileiras.compiler.ir.types import TensorType
from tileiras.compiler.layout import convert
from tileiras.compiler.layout.gf2 import apply
from tileiras.compiler.layout.shared import matrix_load, stored_layout
from tileiras.compiler.nvvm.directives import cluster_dim
from tileiras.compiler.target.registers import reg_class

from .addresses import pointer_access, view_access
from .shared import accesses, load_shared, matrices, owner_guard, store_shared
from .state import Lowering, LoweringError, elem_bytes
from .transfer import store_vector, unpack_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tileiras.compiler.ir.core import Op


def lower_alloc_shared(lowering: Lowering, op: Op) -> None:
    """The buffer is a place in the block's arena."""
    lowering.env[op.results[0]] = op.attr("offset")


_SCALE_TILE, _SCALE_THREADS = 512, 128


def lower_clear_shared(lowering: Lowering, op: Op) -> None:
    """Zeros in the words of tiles of block scales that belong to no row: a word a thread, row r in word 4 (r % 32) + r / 32.
    Nobody uses their values, but they are copied with the others."""
    b = lowering.b
    rows = op.attr("filled")
    mine = b.entry("setp.lt.u32", b.tid, _SCALE_THREADS)
    if rows >= 32:
        empty = b.entry("setp.ge.u32", b.entry("and.b32", b.tid, 3), rows // 32)
        mine = b.entry("and.pred", mine, empty)
    elif rows:
        beyond = b.entry("setp.ge.u32", b.entry("bfe.u32", b.tid, 2, 5), rows)
        other = b.entry("setp.ne.b32", b.entry("and.b32", b.tid, 3), 0)
        mine = b.entry("and.pred", mine, b.entry("or.pred", beyond, other))
    offset = lowering.env[op.operands[0]] + op.attr("start")
    base = b.entry("add.s32", b.entry("add.s32", lowering.smem_base, offset), b.entry("shl.b32", b.tid, 2))
    zero = b.materialize(0, "r")
    for slot in range(op.attr("slots")):
        for at in range(0, op.attr("bytes"), _SCALE_TILE):
            b.emit_to(None, "st.shared.b32", b.address(base, slot * op.attr("stride") + at), zero, guard=mine)


def lower_free_shared(lowering: Lowering, op: Op) -> None:
    """Nothing runs: the place may have other users from here on."""


def _base(lowering: Lowering, op: Op) -> Any:
    """Address of the slot that an op works on, without the op's static start."""
    return slot_address(lowering, op.operands[0], op.operands[1])


def slot_address(lowering: Lowering, buffer: Any, slot: Any) -> Any:
    b = lowering.b
    offset = lowering.env[buffer]
    base = b.entry("add.s32", lowering.smem_base, offset) if offset else lowering.smem_base
    return b.add(32, base, lowering.scalar(slot))


def units_of(lowering: Lowering, place: Any) -> Any:
    """A place in shared memory as a descriptor of an operand has it: 64 bits, in units of 16 bytes.

    In a cluster an address says in its upper bits which CTA it belongs to; a descriptor has no room for these.
    """
    b = lowering.b
    units = b.entry("shr.u32", place, 4)
    if max(cluster_dim(lowering.fn)) > 1:
        units = b.entry("and.b32", units, 0x3FFF)
    return b.entry("cvt.u64.u32", units)


def lower_copy_view(lowering: Lowering, op: Op) -> None:
    """One cp.async a chunk; what lies outside of the view is filled with zeros by a smaller source size.

    With `part_mask`, only elements whose index has the bits `part` there are copied; all parts lie in one place.
    """
    layout = op.attrs["layout"]
    type = TensorType(op.operand("view").type.view.elem, op.operand("view").type.tile)  # type: ignore[union-attr]
    size = elem_bytes(type.elem)  # type: ignore[attr-defined]
    chunk = op.attrs["width"] // size
    _copy(lowering, op, view_access(lowering, op, type, layout, chunk), layout, chunk, size)


def lower_copy_pointers(lowering: Lowering, op: Op) -> None:
    """One cp.async a chunk, from its first pointer; what is masked off is filled with zeros by a source size of 0."""
    pointers: Any = op.operand("source")
    layout = op.attrs["layout"]
    size = elem_bytes(pointers.type.elem.pointee)
    _copy(
        lowering, op, pointer_access(lowering, op, pointers, layout), layout, op.attrs["width"] // size, size
    )


def _copy(lowering: Lowering, op: Op, access: Any, layout: Any, chunk: int, size: int) -> None:
    b = lowering.b
    columns, width = op.attrs["arrangement"], op.attrs["width"]
    runs = lowering.scalar(op.operands[2])
    guard = b.pand(None if isinstance(runs, int) else runs, owner_guard(lowering, layout))
    opcode = f"cp.async.{'cg' if width == 16 else 'ca'}.shared.global"
    base = _base(lowering, op)
    mask, part = op.attrs.get("part_mask", 0), op.attrs.get("part", 0)
    for regs, address in accesses(lowering, layout, columns, chunk.bit_length() - 1, base):
        place = b.address(address.base, address.offset_bytes + op.attr("start"))
        first = next(r for r in regs if apply(layout.reg, r) & mask == part)
        source = b.address(access.pointers[first], access.offsets[first])
        srcs: list[Any] = [place, source, width]
        count = _source_size(lowering, access, first, chunk, size)
        if count is not None:
            srcs.append(count)
        b.emit_to(None, opcode, *srcs, guard=guard)


def _source_size(lowering: Lowering, access: Any, first: int, chunk: int, size: int) -> Any:
    """Bytes of a chunk that lie inside of the view; None when all of it does."""
    b = lowering.b
    mask = access.masks[first]
    left = access.left[first] if access.left is not None else None  # elements from here to the extent
    if left is None:
        return None if mask is None else b.emit("selp.b32", chunk * size, 0, mask)
    inside = b.mul(32, b.emit("max.s32", b.emit("min.s32", left, chunk), 0), size)
    return inside if mask is None else b.emit("selp.b32", inside, 0, mask)


def lower_commit_group(lowering: Lowering, op: Op) -> None:
    lowering.b.emit_to(None, "cp.async.commit_group")


def lower_wait_group(lowering: Lowering, op: Op) -> None:
    lowering.b.emit_to(None, "cp.async.wait_group", op.attr("pending"))


def lower_load_shared(lowering: Lowering, op: Op) -> None:
    result = op.results[0]
    type: Any = result.type
    size = elem_bytes(type.elem)
    columns = op.attrs["arrangement"]
    start = op.attr("start")
    base = _base(lowering, op)
    if _plan(lowering, op) == convert.MATRICES:
        plan = _matrices_of(columns, type)
        if plan.pair:
            return lowering.define(
                result, _load_pairs(lowering, type, columns, plan, base, start, op.attrs.get("within", 0))
            )
        words = load_matrices(lowering, type.layout, columns, plan, base, start, op.attrs.get("within", 0))
        cls = reg_class(type.elem)
        if cls == "r" and size == 4:
            return lowering.define(result, words)
        return lowering.define(
            result, [v for word in words for v in unpack_words(lowering, [word], type.elem)]
        )
    regs: list[Any] = [None] * type.layout.num_regs
    for group, address in _neighbours(lowering, op, type.layout, base):
        place = lowering.b.address(address.base, address.offset_bytes + start)
        for r, value in zip(group, _load_elements(lowering, type.elem, place, len(group), size)):
            regs[r] = value
    lowering.define(result, regs)


def _load_elements(lowering: Lowering, elem: Any, address: Any, count: int, size: int) -> Sequence[Any]:
    if size == 1:
        if count < 4:
            word = lowering.b.reg("r")
            lowering.b.emit_to(word, f"ld.shared.u{8 * count}", address)
            words = [word]
        else:
            words = load_shared(lowering, address, count // 4, "r")
        return unpack_words(lowering, words, elem)[:count]
    if size == 2 and reg_class(elem) == "r":
        if count == 1:
            word = lowering.b.reg("r")
            lowering.b.emit_to(word, "ld.shared.u16", address)
            return [word]
        return unpack_words(lowering, load_shared(lowering, address, count // 2, "r"), elem)
    return load_shared(lowering, address, count, reg_class(elem))


def _plan(lowering: Lowering, op: Op) -> str:
    """How an op moves its tile."""
    plan: str | None = op.attrs.get("plan")
    if plan is None:
        raise lowering.undecided(op, "plan", "TileASPlaceShared")
    return plan


def _neighbours(lowering: Lowering, op: Op, layout: Any, base: Any) -> list[tuple[list[int], Any]]:
    """(registers, address) of each access of as many elements as the op says."""
    vector = op.attrs.get("vector")
    if vector is None:
        raise lowering.undecided(op, "vector", "TileASPlaceShared")
    found = accesses(lowering, layout, op.attrs["arrangement"], vector, base, op.attrs.get("within", 0))
    if any(len(group) != 1 << vector for group, _ in found):
        raise LoweringError(f"no {1 << vector} elements of a thread are neighbours in shared memory")
    return found


def _matrices_of(columns: tuple[int, ...], type: Any) -> Any:
    """Where the rows of a tile's 8x8 matrices lie."""
    plan = matrix_load(columns, type.layout, elem_bytes(type.elem))
    if plan is None:
        raise LoweringError("its layout and its arrangement make no 8x8 matrices")
    return plan


def load_matrices(
    lowering: Lowering, layout: Any, columns: tuple[int, ...], plan: Any, base: Any, start: int, within: int
) -> list[Any]:
    """32-bit words of a fragment, in the order of the layout's registers, by ldmatrix. All addresses come first."""
    b = lowering.b
    out: list[Any] = []
    rest = layout.reg[plan.word_bits :]
    for address, count in list(matrices(lowering, layout, columns, plan.rows, rest, base, start, within)):
        words = tuple(b.reg("r") for _ in range(count))
        b.emit_to(words, f"ldmatrix{_form(plan, count)}", address)
        out += words
    return out


def _load_pairs(
    lowering: Lowering, type: Any, columns: tuple[int, ...], plan: Any, base: Any, start: int, within: int
) -> list[Any]:
    """Bytes that were transposed in pairs, in the order of the layout's registers: each word of a matrix has two neighbours
    along the fragment's rows (`plan.pair`), in two places of its words."""
    b = lowering.b
    layout = type.layout
    regs: list[Any] = [None] * layout.num_regs
    low, pair = layout.reg[0], plan.pair
    rest = [bit for bit in layout.reg if bit not in (low, pair)]
    words: list[Any] = []
    for address, count in list(matrices(lowering, layout, columns, plan.rows, rest, base, start, within)):
        made = tuple(b.reg("r") for _ in range(count))
        b.emit_to(made, f"ldmatrix{_form(plan, count)}", address)
        words += made
    whole = layout.reg[1] == 2 * low  # four neighbours of a row, half of them in the next matrix, make a word
    for number in range(0, len(words), 1 + whole):
        place = apply(rest, number)
        if whole:
            for side, selector in ((0, 0x6420), (pair, 0x7531)):
                word = b.emit("prmt.b32", words[number], words[number + 1], selector)
                first = layout.reg_of[place ^ side]
                regs[first : first + 4] = unpack_words(lowering, [word], type.elem)
            continue
        for at, value in zip((0, pair, low, low ^ pair), unpack_words(lowering, [words[number]], type.elem)):
            regs[layout.reg_of[place ^ at]] = value
    return regs


def _form(plan: Any, count: int) -> str:
    return f".sync.aligned.m8n8.x{count}{'.trans' if plan.transposed else ''}.shared.b16"


def _store_matrices(lowering: Lowering, tile: Any, columns: tuple[int, ...], base: Any, start: int) -> None:
    """Fragments of 16-bit elements by stmatrix."""
    plan = _matrices_of(columns, tile)
    b = lowering.b
    words = [b.pack(tile.regs[r], tile.regs[r + 1]) for r in range(0, len(tile.regs), 2)]
    at = 0
    rest = tile.layout.reg[plan.word_bits :]
    for address, count in list(matrices(lowering, tile.layout, columns, plan.rows, rest, base, start)):
        b.emit_to(None, f"stmatrix{_form(plan, count)}", address, tuple(words[at : at + count]))
        at += count


def lower_store_shared(lowering: Lowering, op: Op) -> None:
    value = op.operands[2]
    tile = lowering.tile(value)
    size = elem_bytes(tile.elem)
    columns = op.attrs["arrangement"]
    cls = reg_class(tile.elem)
    base = _base(lowering, op)
    if _plan(lowering, op) == convert.STMATRIX:
        return _store_matrices(lowering, tile, columns, base, op.attr("start"))
    layout = stored_layout(tile.layout, columns)
    guard = owner_guard(lowering, layout)
    keep = ~tile.layout.inv
    regs = [tile.regs[tile.layout.reg_of[offset & keep]] for offset in layout.reg_table]
    for group, address in _neighbours(lowering, op, layout, base):
        place = lowering.b.address(address.base, address.offset_bytes + op.attr("start"))
        values = [regs[r] for r in group]
        if size <= 2 and cls == "r":
            store_vector(lowering, tile.elem, place, values, "st.shared", guard)
        else:
            store_shared(lowering, place, values, cls, guard)


LOWER = {
    "alloc_shared": lower_alloc_shared, "free_shared": lower_free_shared, "clear_shared": lower_clear_shared,
    "async.copy_view": lower_copy_view, "async.copy_pointers": lower_copy_pointers,
    "async.commit_group": lower_commit_group, "async.wait_group": lower_wait_group,
    "load_shared": lower_load_shared, "store_shared": lower_store_shared,
}  # fmt: skip
