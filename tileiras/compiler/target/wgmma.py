"""wgmma: shapes per element type, accumulator layout, descriptors of operands in shared memory.

One warpgroup (four warps) multiplies A [64, K] by B [K, N], N a multiple of 8 up to 256, both in shared memory. Its
accumulator is that of mma.sync m16n8 repeated along N, warp w of the group holding rows 16 w to 16 w + 15.
Source: PTX ISA manual, "Asynchronous warpgroup level matrix instructions".
"""

from __future__ import annotations

from tileiras.compiler.layout.linear import log2

from .tcgen05 import FEW  # rows of a left operand in registers that may have copies, too

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

M, WARPS = 64, 4
MIN_N, MAX_N = 8, 256
# operand type -> (spelling, log2 of the depth of one instruction, whether rows along M or N may be contiguous)
TYPES = {
    "f16": ("f16", 4, True),
    "bf16": ("bf16", 4, True),
    "tf32": ("tf32", 3, False),
    "f8E4M3FN": ("e4m3", 5, False),
    "f8E5M2": ("e5m2", 5, False),
}
_I8 = ("s8", 5, False)
SWIZZLES = {128: 1, 64: 2, 32: 3}  # bytes of a line -> layout type, bits 62 and 63 of a descriptor


def row_of(elem: str) -> tuple[str, int, bool] | None:
    """The row of TYPES of an operand type; None where wgmma does not take it."""
    return _I8 if elem == "i8" else TYPES.get(elem)


def split_groups(shape: Sequence[int], log2_warps: int) -> tuple[int, int] | None:
    """Bits of the number of a warpgroup that choose rows, and those that choose columns: 64 rows to a group are the least, or
    copies of few, then they share out columns. None where there is no whole one, or nothing left for it."""
    groups = log2_warps - 2
    if groups < 0 or len(shape) != 2:
        return None
    rows = 0 if shape[-2] in FEW else min(groups, log2(shape[-2]) - log2(M))
    columns = groups - rows
    return (rows, columns) if rows >= 0 and shape[-1] >> columns >= MIN_N else None


def split_warps(shape: Sequence[int], log2_warps: int) -> list[tuple[int, int]] | None:
    """For every warp bit (dimension, bit of that dimension); None where warpgroups do not divide a product.

    Warps of a group take rows 16 to 63; groups take the tops of M, then of N.
    """
    groups = split_groups(shape, log2_warps)
    if groups is None:
        return None
    d = len(shape) - 2
    tops = [log2(e) - 1 for e in shape[-2:]]
    return [(d, 4), (d, 5), *[(d + i, tops[i] - k) for i in (0, 1) for k in range(groups[i])]]


def descriptor(swizzle_bytes: int, leading_bytes: int, stride_bytes: int) -> int:
    """The 64 bits that say how an operand lies, without its address (bits 0 to 13, in units of 16 bytes)."""
    return (
        (leading_bytes >> 4 & 0x3FFF) << 16
        | (stride_bytes >> 4 & 0x3FFF) << 32
        | SWIZZLES[swizzle_bytes] << 62
    )
