"""tcgen05.mma: what it multiplies, descriptors of operands and instruction, how accumulators lie in tensor memory.

Tensor memory has 128 lanes of 512 columns of 32 bits. One thread issues the product of A [128, K] and B [K, N], both in
shared memory; row m of the accumulator is lane m, column n is column n. Warp w of a warpgroup reads lanes 32 w to 32 w + 31.
With 64 rows, row m is lane m % 16 + 32 (m / 16): each warp has sixteen of them, in the lower half of its lanes, or in the upper.
A left operand of 16 or 32 rows may lie there several times: then so does the accumulator.
Source: PTX ISA manual, "TensorCore 5th Generation Family Instructions".
"""

from __future__ import annotations

from tileiras.compiler.layout.algebra import OFFSET, Map, identity, product
from tileiras.compiler.layout.linear import LinearLayout, dim_bits, log2

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

LANES, COLUMNS = 128, 512
WARPGROUP = 2  # log2 of the warps that share out its lanes
HALF = 64  # rows of the smaller form
# Rows of which a left operand in tensor memory, or in the registers of a warpgroup, has as many copies as make 64: whole ones
# for each warp.
FEW = (16, 32)
UPPER_LANE = 16  # where its rows begin in the other half of each warp's lanes: two accumulators share columns
SIDE_BY_SIDE = (
    64  # columns of a row that two threads share, in each of them: what one instruction moves lies together
)
PAIRED_N = 32  # columns of a product of two CTAs, at least
LEAST_N, MAX_N = 16, 256  # columns of a product of 128 rows
ROW_DEPTH = 32  # elements along K of a left operand in tensor memory, at least: an instruction's of 8 bits
SIGNED_N = 32  # columns whose scales may have signs, at least: a warp turns those of a row a lane
STATE_BYTES = 1024  # of shared memory in front of buffers, whose swizzles repeat after as many
# operand type -> (kind, format in the instruction descriptor, log2 of the depth of one instruction)
TYPES = {
    "f16": ("f16", 0, 4),
    "bf16": ("f16", 1, 4),
    "f8E4M3FN": ("f8f6f4", 0, 5),
    "f8E5M2": ("f8f6f4", 1, 5),
    "i8": ("i8", 1, 5),  # signed; unsigned is 0
    "tf32": ("tf32", 2, 3),
}
# (element, scale, elements of a block) -> (kind with its modifiers, format in the instruction descriptor, scales of an
# instruction along K). All of them take 32 bytes along K, elements of four bits two to a byte and with K contiguous.
SCALED = {
    ("f8E4M3FN", "f8E8M0FNU", 32): ("mxf8f6f4.block_scale", 0, 1),
    ("f8E5M2", "f8E8M0FNU", 32): ("mxf8f6f4.block_scale", 1, 1),
    ("f4E2M1FN", "f8E8M0FNU", 32): ("mxf4.block_scale", 1, 2),
    ("f4E2M1FN", "f8E8M0FNU", 16): ("mxf4nvf4.block_scale.block16", 1, 4),
    ("f4E2M1FN", "f8E4M3FN", 16): ("mxf4nvf4.block_scale.block16", 1, 4),
}
SCALED_BYTES = 32
# Scales lie in shared memory as tcgen05.cp.32x128b.warpx4 takes them: 128 rows (columns) times 4 along K in 512 bytes, those of
# row r at 16 (r % 32) + 4 (r / 32). It gives each 32 rows a column of tensor memory, in all four partitions of lanes.
SCALE_ROWS, SCALE_DEPTH, SCALE_BYTES, SCALE_COLUMNS = 128, 4, 512, 4
_ROW, _K = "row", "k"
_SCALES = Map({_ROW: (16, 32, 64, 128, 256, 4, 8), _K: (1, 2)}, {OFFSET: log2(SCALE_BYTES)})
SWIZZLES = {128: 2, 64: 4, 32: 6}  # bytes of a line -> layout type, bits 61 to 63 of a descriptor
VERSION = 1 << 46  # of the descriptor's form
SCALE_DESCRIPTOR = (
    16 >> 4 << 16 | 128 >> 4 << 32 | VERSION
)  # of 32 rows of 16 bytes without swizzle, without its address
F32, S32 = 1 << 4, 2 << 4  # of the accumulator, in the instruction descriptor


def columns_of(shape: Sequence[int]) -> int:
    """Columns that an accumulator [M, N] takes: N for every 128 rows."""
    return shape[-1] * max(1, shape[-2] // LANES)


def allocated(columns: int) -> int:
    """The least that can be allocated for so many columns: a power of two from 32."""
    return max(32, 1 << (columns - 1).bit_length())


def layout_of(shape: Sequence[int], log2_warps: int, rows_of_halves: bool = False) -> LinearLayout:
    """Who holds what after a load. 128 rows: a row a thread; warpgroups take the top of the rows beyond 128, then of the
    columns. 64 rows: as mma.sync's accumulators lie, sixteen rows a warp, or (`rows_of_halves`) half a row a thread. Of fewer
    rows several warps have the same ones."""
    (m_low, m_bits), (n_low, n_bits) = dim_bits(shape)
    rows, columns = [1 << (m_low + k) for k in range(m_bits)], [1 << (n_low + k) for k in range(n_bits)]
    rows += [0] * (log2(HALF) - m_bits)
    if shape[-2] <= HALF and rows_of_halves:
        rest, warp = list(columns), rows[4:6]
        high = [rest.pop() for _ in range(log2_warps - 2)]
        other = rest.pop(min(len(rest) - 1, log2(SIDE_BY_SIDE)))
        return LinearLayout(m_bits + n_bits, rest, [*rows[:4], other], [*warp, *high])
    if shape[-2] <= HALF:
        lane = [*columns[1:3], *rows[:3]]
        warp = rows[4:6]
        rest = [columns[0], rows[3], *columns[3:]]
    else:
        lane, warp = rows[:5], rows[5:7]
        rest = [*columns, *rows[7:]]
    for _ in range(log2_warps - 2):
        warp.append(rest.pop())
    return LinearLayout(m_bits + n_bits, rest, lane, warp)


def fits(shape: Sequence[int], log2_warps: int) -> bool:
    """Whether an accumulator lies in tensor memory and whole warpgroups read it."""
    if len(shape) != 2 or shape[0] % LANES and shape[0] != HALF or shape[1] < 16 or log2_warps < 2:
        return False
    if columns_of(shape) > COLUMNS:
        return False
    return (
        log2(shape[0] * shape[1]) - (9 if shape[0] == HALF else 7) >= log2_warps - 2
    )  # what one instruction moves


def operand_descriptor(swizzle_bytes: int, leading_bytes: int, stride_bytes: int) -> int:
    """The 64 bits that say how an operand lies, without its address (bits 0 to 13, in units of 16 bytes)."""
    fields = (leading_bytes >> 4 & 0x3FFF) << 16 | (stride_bytes >> 4 & 0x3FFF) << 32
    return fields | VERSION | SWIZZLES[swizzle_bytes] << 61


def _scale_dims(shape: Sequence[int], which: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """(low, count) of the index bits of rows (columns) and of K of the scales of the left (right) operand."""
    first, second = dim_bits(shape)
    return (first, second) if which == 0 else (second, first)


def scale_tiles(shape: Sequence[int], which: int) -> tuple[int, int]:
    """Tiles of 512 bytes that scales take: along rows (columns), along K."""
    (_, rows), (_, depth) = _scale_dims(shape, which)
    return max(1, (1 << rows) // SCALE_ROWS), max(1, (1 << depth) // SCALE_DEPTH)


def scale_rows(shape: Sequence[int], which: int) -> int:
    """Rows (columns) that have scales; 0 where a word of four along K is not full."""
    (_, rows), (_, depth) = _scale_dims(shape, which)
    return 1 << rows if 1 << depth >= SCALE_DEPTH else 0


def scale_bytes(shape: Sequence[int], which: int) -> int:
    """Bytes that the scales of an operand take in shared memory."""
    rows, depth = scale_tiles(shape, which)
    return rows * depth * SCALE_BYTES


def scale_columns(shape: Sequence[int], which: int) -> int:
    """Columns that they take in tensor memory."""
    rows, depth = scale_tiles(shape, which)
    return rows * depth * SCALE_COLUMNS


def scale_arrangement(shape: Sequence[int], which: int) -> tuple[int, ...]:
    """How the scales of an operand lie in shared memory: tiles follow each other along rows first."""
    (row_low, rows), (k_low, depth) = _scale_dims(shape, which)
    tiles = [log2(count) for count in scale_tiles(shape, which)]
    places = product(_SCALES, identity(_ROW, tiles[0], OFFSET), identity(_K, tiles[1], OFFSET)).ins
    columns = [0] * (rows + depth)
    columns[row_low : row_low + rows] = places[_ROW][:rows]  # fewer leave holes
    columns[k_low : k_low + depth] = places[_K][:depth]
    return tuple(columns)


def scaled_descriptor(
    form: tuple[str, str, int], n: int, a_k_major: bool, b_k_major: bool, number: int
) -> int:
    """instruction_descriptor with block scales; `number` of the first scale in its word of four."""
    fmt = SCALED[form][1]
    majors = (not a_k_major) << 15 | (not b_k_major) << 16
    powers = (form[1] == "f8E8M0FNU") << 23
    return (
        number << 4 | fmt << 7 | fmt << 10 | majors | n >> 3 << 17 | powers | LANES >> 4 << 24 | number << 29
    )


def instruction_descriptor(
    elem: str,
    n: int,
    a_k_major: bool,
    b_k_major: bool,
    signed: tuple[bool, bool] = (True, True),
    m: int = LANES,
) -> int:
    """The 32 bits that say what is multiplied: m rows, n columns, formats, which dimension is contiguous."""
    form = TYPES[elem][1]
    a, b = (int(signed[0]), int(signed[1])) if elem == "i8" else (form, form)
    sums = S32 if elem == "i8" else F32
    majors = (not a_k_major) << 15 | (not b_k_major) << 16
    return sums | a << 7 | b << 10 | majors | n >> 3 << 17 | m >> 4 << 24
