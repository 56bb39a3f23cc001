"""Products by fused multiply-add whose operands wait in shared memory: which elements a thread multiplies, and what it reads.

A thread has a square of sums, as nearly as may be: for 8 rows and 8 columns it reads 16 words and multiplies 64 times. Along a
dimension in which an operand is contiguous it has four neighbours, one access of 16 bytes, and its lanes the next ones;
where K is contiguous an access has four of K, and lanes have neighbouring rows, whose lines reach all banks. Eight lanes walk the
columns and four the rows, so that both operands are read in few distinct words.
"""

from __future__ import annotations

from tileiras.compiler.layout.linear import LANE_BITS, LinearLayout, dim_bits, log2, remap_bits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

SLICE = 2  # log2 of the elements along K that an access of 16 bytes has
_VECTOR = 2  # log2 of the neighbours that one has along M or N
_COLUMN_LANES = 3


def accumulator_layout(shape: Sequence[int], log2_warps: int, near: tuple[bool, bool]) -> LinearLayout:
    """Where the sums of a product lie, tiles of `shape`. `near`: whether what is read for rows, and for columns, is contiguous
    along them."""
    spans = dim_bits(shape)
    (m_low, m), (n_low, n) = spans[-2:]
    batch = [1 << bit for low, count in spans[:-2] for bit in range(low, low + count)]
    warps, beyond = batch[:log2_warps], batch[log2_warps:]
    held = max(0, m + n + len(batch) - LANE_BITS - log2_warps - len(beyond))
    rows = min(m, max(held // 2, held - n))
    columns = min(n, held - rows)
    column_lanes = min(n - columns, _COLUMN_LANES)
    row_lanes = min(m - rows, LANE_BITS - column_lanes)
    column_lanes = min(n - columns, LANE_BITS - row_lanes)
    reg: list[int] = []
    lane: list[int] = []
    top: list[int] = []
    for low, count, mine, lanes, contiguous in (
        (n_low, n, columns, column_lanes, near[1]), (m_low, m, rows, row_lanes, near[0]),
    ):  # fmt: skip
        bits = [1 << bit for bit in range(low, low + count)]
        first = min(mine, _VECTOR) if contiguous else 0
        reg += bits[:first]
        lane += bits[first : first + lanes]
        rest = bits[first + lanes :]
        split = len(rest) - (mine - first)
        warps += rest[:split]
        top += rest[split:]
    lane += [0] * (LANE_BITS - len(lane))
    warps += [0] * (log2_warps - len(warps))
    return LinearLayout(sum(count for _, count in spans), [*reg, *top, *beyond], lane, warps)


def operand_layout(
    shape: Sequence[int], which: int, result: LinearLayout, result_shape: Sequence[int]
) -> LinearLayout:
    """What threads read of an operand of `shape`, the left (0) or the right one (1), whose sums lie as `result` says: all of K
    for their rows or columns."""
    rank = len(shape)
    kept = rank - 2 + which
    k_low, k_count = dim_bits(shape)[rank - 1 - which]
    moved = [-1] * result.bits
    for d in (*range(rank - 2), kept):
        theirs, ours = dim_bits(result_shape)[d], dim_bits(shape)[d]
        for bit in range(theirs[1]):
            moved[theirs[0] + bit] = ours[0] + bit
    out = remap_bits(result, moved, sum(log2(e) for e in shape))
    along = [1 << bit for bit in range(k_low, k_low + k_count)]
    return LinearLayout(out.bits, [*along, *(c for c in out.reg if c)], out.lane, out.warp)
