"""Sparse A of mma.sync.sp and wgmma.sp: which columns the elements that are stored belong to.

Of each chunk of four elements of a row two are stored, in order, and their places are two codes of two bits; four-bit
elements are stored in pairs, whose places in chunks of four pairs are the codes; of two tf32 elements one is stored, whose
place is half the first of two codes. A quad of lanes holds the codes of rows g and g + 8 of 16, lowest bits first:

    elements  codes a row  lanes of the quad            row g       row g + 8
    16 or 32   8           the selector's               bits 0-15   bits 16-31
    16 or 32  16           0 and 1, or 2 and 3: each    bits 0-15   bits 16-31   of half of the codes
    8 or 4    16           0 and 1, or 2 and 3          the first   the second
    8 or 4    32           all                          0 and 2     1 and 3
"""

from __future__ import annotations

import numpy as np

WIDE = ("f16", "bf16", "tf32")
PAIRS = ("s4", "u4", "packed")  # packed: two e2m1 to a byte


def row_codes(words: np.ndarray, count: int, wide: bool, selector: int) -> np.ndarray:
    """The codes of the 16 rows of each warp, [W, 16, count], of its lanes' registers [W, 32]."""
    quads = words.reshape(-1, 8, 4)
    if wide:
        some = (
            quads[:, :, selector : selector + 1]
            if count == 8
            else quads[:, :, 2 * selector : 2 * selector + 2]
        )
        halves = np.stack([some & np.uint32(0xFFFF), some >> np.uint32(16)], 1)
    elif count == 16:
        halves = np.stack(
            [quads[:, :, 2 * selector : 2 * selector + 1], quads[:, :, 2 * selector + 1 : 2 * selector + 2]],
            1,
        )
    else:
        halves = np.stack([quads[:, :, 0::2], quads[:, :, 1::2]], 1)  # [W, half of the rows, quad, word]
    shifts = np.arange(0, 16 if wide else 32, 2, dtype=np.uint32)
    codes = (halves[..., None] >> shifts) & np.uint32(3)
    return codes.reshape(-1, 16, count).astype(np.int64)


def expand(stored: np.ndarray, words: np.ndarray, type_: str, selector: int) -> np.ndarray:
    """A [W, 16, k] of the elements that are stored, [W, 16, k / 2]."""
    kept = stored.shape[2]
    count = 2 * kept if type_ == "tf32" else kept // 2 if type_ in PAIRS else kept
    codes = row_codes(words, count, type_ in WIDE, selector)
    place = np.arange(count)
    if type_ == "tf32":
        columns = 2 * place[:kept] + (codes[..., ::2] >> 1)
    elif type_ in PAIRS:
        pairs = 4 * (place // 2) + codes
        columns = (2 * pairs[..., None] + np.arange(2)).reshape(*codes.shape[:2], kept)
    else:
        columns = 4 * (place // 2) + codes
    out = np.zeros((*stored.shape[:2], 2 * kept), stored.dtype)
    np.put_along_axis(out, columns, stored, 2)
    return out
