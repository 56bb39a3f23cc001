"""Fragments of 16-bit matrices that stmatrix stores, and layouts that read them back in rows of 16 bytes.

stmatrix takes 8x8 matrices as the accumulators of products lie in a warp: thread t has two neighbours of row t / 4. Each
row goes to 16 bytes of shared memory whose address one thread gives. Source: PTX ISA manual, stmatrix.
"""

from __future__ import annotations

from .convert import SharedPlan
from .linear import LinearLayout
from .shared import BANK_GROUPS

ELEM_BYTES = 2


def whole_rows(source: LinearLayout, target: LinearLayout) -> bool:
    """Whether the eight elements of a matrix row in `source` are neighbours in each thread's registers in `target`."""
    if source.inv or target.inv or len(target.reg) < 3 or not source.reg:
        return False
    row = (source.reg[0], *source.lane[:2])
    return 0 not in (*row, *source.lane[2:5]) and tuple(target.reg[:3]) == row


def row_plan(source: LinearLayout, target: LinearLayout) -> SharedPlan | None:
    """Where each row of the matrices of `source` lies in 16 bytes, without bank conflicts on either side where the rows that
    one instruction stores and the chunks that neighbouring lanes load are told apart by different bits; None when a column of
    either layout is more than one bit."""
    row, numbers = (source.reg[0], *source.lane[:2]), source.lane[2:5]
    if any(c & (c - 1) for layout in (source, target) for c in (*layout.reg, *layout.lane, *layout.warp)):
        return None
    order = [*row]
    for bit in (*target.lane, *(1 << k for k in range(source.bits))):
        if bit and bit not in order:
            order.append(bit)
    columns = {bit: ELEM_BYTES << i for i, bit in enumerate(order)}
    free = [b for b in BANK_GROUPS if b not in {columns[r] for r in numbers}]
    for r in numbers:
        if columns[r] not in BANK_GROUPS and free:
            columns[r] ^= free.pop(0)
    image = [columns[1 << k] for k in range(source.bits)]
    return SharedPlan(image, ELEM_BYTES << source.bits, 1, 3)
