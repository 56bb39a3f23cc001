"""Arrangements: where the elements of a tile lie in shared memory.

An arrangement is a linear map, like a layout: `columns[k]` are the bytes that bit k of the packed index adds, by xor.
Tiles that arrive by asynchronous copies lie in lines of at most 128 bytes along the dimension in which they are
contiguous in global memory; lines follow each other, and what exceeds 128 bytes of a row comes behind all lines of
the first 128 (a panel). The 16-byte chunks of a line are permuted by the line's number, so that eight lines read at
the same chunk reach all 32 banks. Rows of 128, 64 and 32 bytes give the three swizzles that wgmma, tcgen05 and bulk
tensor copies know (PTX ISA manual, "Shared memory matrix layout").

Worked value: a tile [64, 64] of 2-byte elements, contiguous along dimension 1: columns 0..5 are 2, 4, .. 64, columns
6, 7, 8 (row bits 0 to 2) are 128 ^ 16, 256 ^ 32, 512 ^ 64, then 1024, 2048, 4096.
"""

from __future__ import annotations

from .gf2 import apply
from .linear import dim_bits, log2

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .linear import LinearLayout

LINE_BYTES = 128  # all 32 banks
CHUNK_BYTES = 16  # of one asynchronous copy, and a row of an 8x8 matrix of ldmatrix
BANK_GROUPS = (16, 32, 64)  # bits of an address that tell the eight groups of four banks apart


def arrange(
    shape: Sequence[int], unit: int, elem_bytes: int, turn: int = 0, lines: Sequence[int] = ()
) -> tuple[int, ...]:
    """The arrangement of a tile that is contiguous along dimension `unit`. `turn`: bits by which the number of a line is
    rotated before it permutes the chunks. `lines`: numbers of the index bits that tell apart the lines which are read at once,
    where they are not the lowest. wgmma and its like know neither."""
    spans = dim_bits(shape)
    low, count = spans[unit]
    elem = log2(elem_bytes)
    line = min(count, log2(LINE_BYTES) - elem)
    columns = [0] * sum(c for _, c in spans)
    for k in range(line):
        columns[low + k] = elem_bytes << k
    place = elem_bytes << line
    width = place
    rows = [spans[d][0] + k for d in reversed(range(len(shape))) if d != unit for k in range(spans[d][1])]
    for bit in rows:
        columns[bit] = place
        place <<= 1
    for k in range(line, count):
        columns[low + k] = place
        place <<= 1
    if lines:
        banks = {columns[bit] for bit in lines}
        free = [chunk for chunk in BANK_GROUPS if chunk not in banks]
        for bit in lines:
            if columns[bit] not in BANK_GROUPS and free:
                columns[bit] ^= free.pop(0)
        return tuple(columns)
    chunks = log2(width) - log2(CHUNK_BYTES)
    shared_lines = log2(LINE_BYTES) - log2(width)  # low row bits that stay within 128 bytes
    for j in range(chunks):
        if shared_lines + j < len(rows):
            columns[rows[shared_lines + j]] ^= CHUNK_BYTES << (j + turn) % chunks
    return tuple(columns)


class MatrixLoad:
    """How ldmatrix reads a fragment: index bits that number the rows of a matrix, and whether it transposes. `pair`: the index
    bit that tells the two bytes apart which are transposed as one element; 0 where elements are."""

    __slots__ = ("pair", "rows", "transposed", "word_bits")

    def __init__(self, rows: tuple[int, ...], transposed: bool, word_bits: int, pair: int = 0) -> None:
        self.rows = rows
        self.transposed = transposed
        self.word_bits = word_bits  # register bits of the layout inside one 32-bit word
        self.pair = pair


def matrix_load(columns: Sequence[int], layout: LinearLayout, elem_bytes: int) -> MatrixLoad | None:
    """How ldmatrix brings a tile that lies as `columns` say into `layout`; None when it cannot.

    ldmatrix hands thread t the 32-bit word t % 4 of row t / 4, or, transposed, 16-bit elements 2 (t % 4) and the next
    of column t / 4. So the bits within a row of 16 bytes are those of a word's elements and of the two low lane bits,
    the rows are numbered by the three high lane bits; transposed, the other way round.

    Bytes are transposed two by two, as 16-bit elements: of rows 2 (t % 4) and the next, thread t gets bytes 2 (t / 4) and the
    next. Turned fragments (target/mma.py) want both in one lane; what they hold side by side along K comes from as many
    matrices as it has pairs.
    """
    word_bits = 2 - log2(elem_bytes)
    if word_bits < 0 or len(layout.reg) < word_bits or layout.inv:
        return None
    inner = (*layout.reg[:word_bits], *layout.lane[:2])
    outer = tuple(layout.lane[2:5])
    if 0 in (*inner, *outer):
        return None

    def is_row(bits: Sequence[int]) -> bool:
        return all(apply(columns, bit) == elem_bytes << i for i, bit in enumerate(bits))

    def are_rows(bits: Sequence[int]) -> bool:
        return all(apply(columns, bit) % CHUNK_BYTES == 0 for bit in bits)

    if is_row(inner) and are_rows(outer):
        return MatrixLoad(outer, False, word_bits)
    if elem_bytes == 2 and is_row(outer) and are_rows(inner):
        return MatrixLoad(inner, True, word_bits)
    if elem_bytes == 1:
        pair = next((bit for bit in layout.reg if apply(columns, bit) == 1), 0)
        lanes = [apply(columns, bit) for bit in outer]
        rows = (layout.reg[0], *layout.lane[:2])
        if pair and lanes == [2, 4, 8] and pair != layout.reg[0] and are_rows(rows):
            return MatrixLoad(rows, True, 1, pair)
    return None


def permuted(columns: Sequence[int], shape: Sequence[int], permutation: Sequence[int]) -> tuple[int, ...]:
    """The arrangement of a permuted tile: the same bytes under other index bits."""
    source, result = dim_bits(shape), dim_bits([shape[p] for p in permutation])
    out = [0] * len(columns)
    for i, p in enumerate(permutation):
        for k in range(source[p][1]):
            out[result[i][0] + k] = columns[source[p][0] + k]
    return tuple(out)


class MatrixOperand:
    """How a matrix of shared memory is described to wgmma: swizzle, strides, and which dimension is contiguous."""

    __slots__ = ("k_major", "leading_bytes", "stride_bytes", "swizzle_bytes")

    def __init__(self, swizzle_bytes: int, leading_bytes: int, stride_bytes: int, k_major: bool) -> None:
        self.swizzle_bytes = swizzle_bytes
        self.leading_bytes = leading_bytes
        self.stride_bytes = stride_bytes
        self.k_major = k_major


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
        if width < 2 * CHUNK_BYTES or rows < 3:
            continue
        chunks, spare = log2(width) - log2(CHUNK_BYTES), log2(LINE_BYTES) - log2(width)
        want = [width << j for j in range(rows)]
        for j in range(chunks):
            want[spare + j] ^= CHUNK_BYTES << j
        if list(columns[rows_low : rows_low + rows]) != want:
            continue
        panels = list(columns[low + line : low + count])
        if panels != [width << (rows + j) for j in range(len(panels))]:
            continue
        return MatrixOperand(width, 0 if k_major else width << rows, 8 * width, k_major)
    return None
