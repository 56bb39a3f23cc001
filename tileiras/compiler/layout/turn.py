"""Layouts in which a tile goes from one arrangement in shared memory through registers to another.

Each thread takes a block whose sides are vectors of the two arrangements, so that the block is transposed by naming
registers. Lanes are numbered so that the threads that access shared memory together reach all 32 banks, reading and
writing: a lane bit may step along both sides at once.

Worked value: 32x32 of 4 bytes, lines along dimension 1 before and along dimension 0 behind: registers hold 4x4; lane bit 0
steps 4 columns (the next chunk before, four lines on behind), bit 1 steps 4 rows, bit 2 steps 8 rows and 8 columns.
"""

from __future__ import annotations

from tileiras.memo import remembered

from .gf2 import Basis, apply
from .linear import LANE_BITS, LinearLayout, log2
from .shared import CHUNK_BYTES, LINE_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

WORD_BYTES = 4


def vector(columns: Sequence[int], size: int, limit: int) -> list[int]:
    """The index bits of neighbours in an arrangement, up to `limit` bytes."""
    out: list[int] = []
    while size << len(out) < limit and size << len(out) in columns:
        out.append(columns.index(size << len(out)))
    return out


@remembered(64)
def exchange(
    before: tuple[int, ...],
    before_size: int,
    after: tuple[int, ...],
    after_size: int,
    log2_warps: int,
    matrices: bool = False,
) -> LinearLayout:
    """The layout of a tile read from arrangement `before`, elements of `before_size` bytes, and written to `after`.
    `matrices`: the lines of `before` may lie so that ldmatrix reads them without conflicts."""
    if matrices and before_size == after_size == 1:
        found = in_pairs(before, after, log2_warps)
        if found is not None:
            return found
    bits = len(after)
    registers = max(0, bits - LANE_BITS - log2_warps)
    write = vector(after, after_size, CHUNK_BYTES)[:registers]
    read = vector(before, before_size, CHUNK_BYTES)
    while len(set(read) | set(write)) > registers and len(read) > max(0, log2(WORD_BYTES // before_size)):
        read.pop()
    least = max(0, log2(WORD_BYTES // after_size))
    while len(set(read) | set(write)) > registers and len(write) > least:
        write.pop()
    chosen = [1 << k for k in dict.fromkeys((*write, *read))][:registers]
    span = Basis(chosen)
    sides = [
        _Banks(before, [1 << k for k in read], before_size << len(read)),
        _Banks(after, [1 << k for k in write], after_size << len(write)),
    ]
    single = [1 << k for k in range(bits) if 1 << k not in chosen]
    candidates = [*single, *(a | b for i, a in enumerate(single) for b in single[i + 1 :])]
    lane: list[int] = []
    for number in range(LANE_BITS):
        best, most = 0, -1
        for column in candidates:
            if not span.reduce(column)[0]:
                continue
            score = sum(side.reaches(column, number) for side in sides)
            if score > most:
                best, most = column, score
                if score == len(sides):
                    break
        if not best:
            lane.append(0)
            continue
        span.insert(best)
        for side in sides:
            side.take(best)
        lane.append(best)
    rest = [c for c in single if span.insert(c)]
    kept = max(0, len(rest) - log2_warps)
    warp = [*rest[kept:], *[0] * (log2_warps - len(rest))]
    reg = [*chosen, *rest[:kept]]
    return LinearLayout(bits, reg, lane, warp)


def in_pairs(before: tuple[int, ...], after: tuple[int, ...], log2_warps: int) -> LinearLayout | None:
    """The layout of a tile of bytes that ldmatrix transposes two by two, as `matrix_load` reads it; None where its sides are too
    short, or more than two threads would store to a bank at once, as lines of 64 bytes have it in any layout.

    A thread has neighbours of `after` from as many matrices as make a word, and of `before` both bytes of a pair.
    """
    bits = len(after)
    registers = bits - LANE_BITS - log2_warps
    read = vector(before, 1, CHUNK_BYTES)
    line: list[int] = []
    for k in vector(after, 1, LINE_BYTES):
        if k in read:  # the next line: this one is shorter
            break
        line.append(k)
    if len(read) < log2(CHUNK_BYTES) or len(line) < log2(CHUNK_BYTES) or line[1] != line[0] + 1:
        return None
    best, fewest = None, 2
    for width in range(min(log2(CHUNK_BYTES), registers - 1), log2(WORD_BYTES) - 1, -1):
        rest = [1 << k for k in line[width:]]
        for lanes in ((a, b) for i, a in enumerate(rest) for b in rest[i + 1 :]):
            lane = [*lanes, *(1 << k for k in read[1:])]
            side, conflicts = _Banks(after, [], 1 << width), 0
            for number, column in enumerate(lane):
                conflicts += not side.reaches(column, number)
                side.take(column)
            if conflicts < fewest:
                best, fewest = ([*(1 << k for k in line[:width]), 1 << read[0]], lane), conflicts
    if best is None:
        return None
    reg, lane = best
    others = [1 << k for k in range(bits) if 1 << k not in (*reg, *lane)]
    kept = registers - len(reg)
    return LinearLayout(bits, [*reg, *others[:kept]], lane, others[kept:])


class _Banks:
    """Which banks the lanes chosen so far reach in one arrangement."""

    def __init__(self, columns: Sequence[int], vector: Sequence[int], width: int) -> None:
        self.columns = columns
        self.mask = LINE_BYTES - 1 & ~(width - 1)
        self.together = max(0, log2(LINE_BYTES // max(width, WORD_BYTES)))  # lane bits of one wavefront
        self.basis = Basis()

    def reaches(self, column: int, number: int) -> bool:
        """Whether lane bit `number` may be this column: it leads to other banks, where that counts."""
        return number >= self.together or bool(self.basis.reduce(apply(self.columns, column) & self.mask)[0])

    def take(self, column: int) -> None:
        self.basis.insert(apply(self.columns, column) & self.mask)
