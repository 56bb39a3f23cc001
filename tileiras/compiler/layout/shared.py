"""Arrangements: where the elements of a tile lie in shared memory.

An arrangement is a linear map (algebra.py) from the packed index of an element to its offset in bytes; ops carry its columns:
`columns[k]` are the bytes that bit k of the index adds, by xor.
Tiles that arrive by asynchronous copies lie in lines of at most 128 bytes along the dimension in which they are
contiguous in global memory; lines follow each other, and what exceeds 128 bytes of a row comes behind all lines of
the first 128 (a panel). The 16-byte chunks of a line are permuted by the line's number, so that eight lines read at
the same chunk reach all 32 banks. Rows of 128, 64 and 32 bytes give the three swizzles that wgmma, tcgen05 and bulk
tensor copies know (PTX ISA manual, "Shared memory matrix layout").

Worked value: a tile [64, 64] of 2-byte elements, contiguous along dimension 1: columns 0..5 are 2, 4, .. 64, columns
6, 7, 8 (row bits 0 to 2) are 128 ^ 16, 256 ^ 32, 512 ^ 64, then 1024, 2048, 4096.
"""

from __future__ import annotations

from tileiras.memo import remembered

from .algebra import LANE, OFFSET, REGISTER, Map, compose, divide, identity, invert, product
from .linear import arrangement, dim_bits, log2, placed, without_inv

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .linear import LinearLayout

LINE_BYTES = 128  # all 32 banks
CHUNK_BYTES = 16  # of one asynchronous copy, and a row of an 8x8 matrix of ldmatrix
BANK_GROUPS = (16, 32, 64)  # bits of an address that tell the eight groups of four banks apart
MIN_SWIZZLED = (
    2 * CHUNK_BYTES
)  # bytes of the narrowest lines that wgmma, tcgen05 and bulk tensor copies swizzle
_LINE, _ROW, _PANEL = (
    "line",
    "row",
    "panel",
)  # the coordinates of a tile in lines: along one, their number, what exceeds them


# ---- arrangements


@remembered(1024)
def swizzle(width: int, bits: int, turn: int = 0) -> Map:
    """How the hardware permutes the 16-byte chunks of lines of `width` bytes, by the number of the line: an offset of `bits`
    bits to an offset. `turn` is not the hardware's: bits by which the number is rotated first."""
    chunks = log2(width) - log2(CHUNK_BYTES)
    columns = [1 << k for k in range(bits)]
    for j in range(min(chunks, bits - log2(LINE_BYTES))):
        columns[log2(LINE_BYTES) + j] ^= CHUNK_BYTES << (j + turn) % chunks
    return Map({OFFSET: columns}, {OFFSET: bits})


def in_lines(line: int, rows: int, panels: int, elem_bytes: int) -> Map:
    """(line, row, panel), bits of each, to the offset, without a swizzle: lines, then all lines of the next panel."""
    return product(
        Map({_LINE: [elem_bytes << k for k in range(line)]}, {OFFSET: log2(elem_bytes) + line}),
        identity(_ROW, rows, OFFSET),
        identity(_PANEL, panels, OFFSET),
    )


def arrange(
    shape: Sequence[int], unit: int, elem_bytes: int, turn: int = 0, lines: Sequence[int] = ()
) -> tuple[int, ...]:
    """The arrangement of a tile that is contiguous along dimension `unit`. `turn`: as `swizzle` has it. `lines`: numbers of the
    index bits that tell apart the lines which are read at once, where they are not the lowest. wgmma and its like know
    neither."""
    spans = dim_bits(shape)
    low, count = spans[unit]
    line = min(count, log2(LINE_BYTES // elem_bytes))
    rows = [spans[d][0] + k for d in reversed(range(len(shape))) if d != unit for k in range(spans[d][1])]
    tile = in_lines(line, len(rows), 0, elem_bytes)
    if not lines:
        tile = compose(tile, swizzle(elem_bytes << line, tile.outs[OFFSET], turn))
    tile = product(tile, identity(_PANEL, count - line, OFFSET))
    columns = [0] * (count + len(rows))
    columns[low : low + count] = *tile.ins[_LINE], *tile.ins[_PANEL]
    for bit, place in zip(rows, tile.ins[_ROW]):
        columns[bit] = place
    return tuple(spread(columns, lines))


def spread(columns: Sequence[int], lines: Iterable[int]) -> list[int]:
    """Columns in which those of `lines` that reach no group of banks of their own are xored with the free ones."""
    out = list(columns)
    lines = list(lines)
    taken = {out[k] for k in lines}
    free = [chunk for chunk in BANK_GROUPS if chunk not in taken]
    for k in lines:
        if out[k] not in BANK_GROUPS and free:
            out[k] ^= free.pop(0)
    return out


def permuted(columns: Sequence[int], shape: Sequence[int], permutation: Sequence[int]) -> tuple[int, ...]:
    """The arrangement of a permuted tile: the same bytes under other index bits."""
    source, result = dim_bits(shape), dim_bits([shape[p] for p in permutation])
    out = [0] * len(columns)
    for i, p in enumerate(permutation):
        for k in range(source[p][1]):
            out[result[i][0] + k] = columns[source[p][0] + k]
    return tuple(out)


# ---- 8x8 matrices of ldmatrix and stmatrix

RUN, MATRIX_ROW = "run", "row"  # elements along a row of 16 bytes, the eight rows


@remembered(1024)
def matrix_tile(elem_bytes: int, transposed: bool = False, pair: int = 0) -> Map:
    """(run, row) of a matrix to the register and the lane that get the element.

    Thread t gets the 32-bit word t % 4 of row t / 4, or, transposed, 16-bit elements 2 (t % 4) and the next of column t / 4.
    Bytes are transposed two by two, as 16-bit elements: of rows 2 (t % 4) and the next, thread t gets bytes 2 (t / 4) and the
    next, the latter in the register that bit `pair` of its number leads to. Source: PTX ISA manual, ldmatrix.
    """
    words = 2 - log2(elem_bytes)  # bits of a register's number within one 32-bit word
    registers = max(words, pair + 1)
    inner = [*(1 << k for k in range(words)), *(1 << registers + k for k in (0, 1))]
    outer = [1 << registers + k for k in (2, 3, 4)]
    if pair:
        inner, outer = [1 << pair, *outer], [1, *inner[words:]]
    elif transposed:
        inner, outer = outer, inner
    return Map({RUN: inner, MATRIX_ROW: outer}, {REGISTER: registers, LANE: 5})


class MatrixLoad:
    """How ldmatrix reads a fragment: index bits that number the rows of a matrix, and whether it transposes. `pair`: the index
    bit that tells the two bytes apart which are transposed as one element; 0 where elements are."""

    __slots__ = ("pair", "rows", "transposed", "word_bits")

    def __init__(self, rows: tuple[int, ...], transposed: bool, word_bits: int, pair: int = 0) -> None:
        self.rows = rows
        self.transposed = transposed
        self.word_bits = word_bits  # register bits of the layout inside one 32-bit word
        self.pair = pair


@remembered(1024)
def matrix_load(columns: tuple[int, ...], layout: LinearLayout, elem_bytes: int) -> MatrixLoad | None:
    """How ldmatrix brings a tile that lies as `columns` say into `layout`; None when it cannot.

    The elements that a matrix's places hold, composed with where they lie, must divide by a row of 16 bytes: what is left
    are the rows, each a multiple of 16 bytes from the others. Turned fragments of bytes (target/mma.py) want both bytes of a
    pair in one lane; what they hold side by side along K comes from as many matrices as it has pairs.
    """
    words = 2 - log2(elem_bytes)
    if words < 0 or len(layout.reg) < words or layout.inv:
        return None
    where = arrangement(columns)
    run = in_lines(log2(CHUNK_BYTES // elem_bytes), 0, 0, elem_bytes)
    row = Map({RUN: run.ins[_LINE]}, run.outs)
    forms = [(False, 0), *([(True, 0)] if elem_bytes == 2 else [])]
    if elem_bytes == 1:
        offsets = placed(layout, columns).ins[REGISTER]
        forms += [(True, k) for k, offset in enumerate(offsets) if offset == 1 and k][:1]
    for transposed, pair in forms:
        elements = compose(matrix_tile(elem_bytes, transposed, pair), layout.map)
        rest = divide(compose(elements, where), row)
        if rest is not None and 0 not in rest.ins[MATRIX_ROW]:
            found = elements.ins[MATRIX_ROW]
            return MatrixLoad(found, transposed, 1 if pair else words, layout.reg[pair] if pair else 0)
    return None


# ---- operands of wgmma and tcgen05, boxes of tensor maps


class MatrixOperand:
    """How a matrix of shared memory is described to wgmma: swizzle, strides, and which dimension is contiguous."""

    __slots__ = ("k_major", "leading_bytes", "stride_bytes", "swizzle_bytes")

    def __init__(self, swizzle_bytes: int, leading_bytes: int, stride_bytes: int, k_major: bool) -> None:
        self.swizzle_bytes = swizzle_bytes
        self.leading_bytes = leading_bytes
        self.stride_bytes = stride_bytes
        self.k_major = k_major


def is_swizzled(
    columns: Sequence[int], line: Sequence[int], rows: Sequence[int], elem_bytes: int, count: int
) -> bool:
    """Whether a tile lies in lines of 2^count elements, panel behind panel, under the hardware's swizzle for such lines: what
    is left without the swizzle has no permutation. `line`: index bits along a line and its panels, `rows`: along the lines."""
    plain = in_lines(count, len(rows), len(line) - count, elem_bytes)
    if any(c >> plain.outs[OFFSET] for c in columns):
        return False
    tile = Map(
        {
            _LINE: [columns[k] for k in line[:count]],
            _ROW: [columns[k] for k in rows],
            _PANEL: [columns[k] for k in line[count:]],
        },
        plain.outs,
    )
    straight = invert(swizzle(elem_bytes << count, plain.outs[OFFSET]))
    return straight is not None and compose(tile, straight) == plain


def matrix_operand(
    columns: Sequence[int], k_bits: tuple[int, int], other_bits: tuple[int, int], elem_bytes: int
) -> MatrixOperand | None:
    """The description of an arranged tile as an operand; None when it is none. `k_bits`, `other_bits`: (low, count) of the
    index bits of K and of M or N.

    Lines lie along the contiguous dimension; eight of them make a core group, whose size is the stride. Contiguous
    along M or N, panels of a line's width follow each other at the leading stride.
    """
    for k_major, (low, count), (rows_low, rows) in (
        (True, k_bits, other_bits), (False, other_bits, k_bits)
    ):  # fmt: skip
        line = 0
        while line < count and columns[low + line] == elem_bytes << line and elem_bytes << line < LINE_BYTES:
            line += 1
        width = elem_bytes << line
        if width < MIN_SWIZZLED or rows < 3:
            continue
        bits = range(low, low + count), range(rows_low, rows_low + rows)
        if is_swizzled(columns, *bits, elem_bytes, line):
            return MatrixOperand(width, 0 if k_major else width << rows, 8 * width, k_major)
    return None


def stored_layout(layout: LinearLayout, columns: Sequence[int]) -> LinearLayout:
    """The layout that a tile is stored from: memory has a place for every element, also where a register stands for many."""
    near = sum(1 << k for k, place in enumerate(columns) if place < CHUNK_BYTES)
    return without_inv(layout, near)
