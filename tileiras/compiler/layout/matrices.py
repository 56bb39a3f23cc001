"""Fragments of 16-bit matrix operands that registers exchange through ldmatrix.

ldmatrix reads 8x8 matrices whose rows are 16 bytes of shared memory and hands thread t two neighbours of row t / 4
(or, transposed, of column t / 4). Both forms are one arrangement of index bits: three bits along a row (`run`),
three bits that number the rows (`rows`). An operand layout offers two such choices; the one whose run lies in the
source's registers is stored with wide vectors. Rows are swizzled over the banks, so neither side conflicts.
Source: PTX ISA manual, ldmatrix.
"""

from __future__ import annotations

from .linear import LinearLayout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class Arrangement:
    """Byte offsets of index bits, the row and run bits, whether ldmatrix transposes, log2 of the store vector."""

    __slots__ = ("bytes", "columns", "rows", "store_vec", "transposed")

    def __init__(
        self, columns: list[int], size: int, rows: Sequence[int], transposed: bool, store_vec: int
    ) -> None:
        self.columns = columns
        self.bytes = size
        self.rows = rows
        self.transposed = transposed
        self.store_vec = store_vec


_ARRANGEMENTS: dict[tuple[LinearLayout, LinearLayout], Arrangement | None] = {}


def arrangement(source: LinearLayout, target: LinearLayout) -> Arrangement | None:
    """How to move 16-bit elements into a fragment layout by ldmatrix; None when `target` is no fragment."""
    key = (source, target)
    if key not in _ARRANGEMENTS:
        _ARRANGEMENTS[key] = _arrange(source, target)
    return _ARRANGEMENTS[key]


def _arrange(source: LinearLayout, target: LinearLayout) -> Arrangement | None:
    if source.inv or target.inv or not target.reg:
        return None
    inner = (target.reg[0], target.lane[0], target.lane[1])
    outer = tuple(target.lane[2:5])
    bits = (*inner, *outer)
    if any(c == 0 or c & (c - 1) for c in bits) or len(set(bits)) != 6:
        return None

    def stored(run: Sequence[int]) -> int:
        count = 0
        while count < 3 and run[count] in source.reg:
            count += 1
        return count

    transposed = stored(outer) > stored(inner)
    run, rows = (outer, inner) if transposed else (inner, outer)
    order = [*run, *(1 << k for k in range(target.bits) if 1 << k not in run)]
    columns = {bit: 2 << i for i, bit in enumerate(order)}
    # the three row bits must reach all eight 16-byte bank groups
    own = {columns[r] for r in rows if 16 <= columns[r] <= 64}
    free = [b for b in (16, 32, 64) if b not in own]
    for r in rows:
        if not 16 <= columns[r] <= 64:
            if not free:
                break
            columns[r] ^= free.pop(0)
    image = [columns[1 << k] for k in range(target.bits)]
    return Arrangement(image, 2 << target.bits, rows, transposed, stored(run))
