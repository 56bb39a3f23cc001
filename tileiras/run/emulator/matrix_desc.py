"""Operands of wgmma and tcgen05 in shared memory: matrix descriptors and the canonical layouts that they name.

A descriptor holds, in units of 16 bytes, the start address (bits 0-13), the leading dimension byte offset LBO (16-29)
and the stride dimension byte offset SBO (32-45), and the swizzle mode: bits 62-63 for wgmma (1: 128 bytes, 2: 64,
3: 32), bits 61-63 for tcgen05 (1: 128 bytes in atoms of 32, 2: 128, 4: 64, 6: 32).

An operand is read in chunks of 16 bytes. K-major: chunk c of row r lies in a pattern of 8 rows, SBO from one group of
8 rows to the next; without swizzle LBO leads from chunk to chunk. MN-major: chunk i along M or N at depth k lies in a
pattern of 8 depths; LBO leads from one swizzle width to the next along M or N and SBO from 8 depths to the next, the
other way round without swizzle. A swizzle then flips address bits 4-6 by bits 7-9 (64: two of them, 32: one).
"""

from __future__ import annotations

import functools

import numpy as np

from .memory import VIEW
from .syntax import EmulatorError

WGMMA_SWIZZLE = {0: 0, 1: 128, 2: 64, 3: 32}
TCGEN05_SWIZZLE = {0: 0, 1: -128, 2: 128, 4: 64, 6: 32}  # -128: 128 bytes in atoms of 32


class Operand:
    """What a descriptor says, for one kind of instruction."""

    __slots__ = ("leading", "start", "stride", "swizzle")

    def __init__(self, word: int, tcgen05: bool) -> None:
        self.start = (word & 0x3FFF) << 4
        self.leading = (word >> 16 & 0x3FFF) << 4
        self.stride = (word >> 32 & 0x3FFF) << 4
        if word >> 49 & 7:
            raise EmulatorError(
                f"matrix descriptor {word:#x}: a base offset is not supported by the emulator"
            )
        if tcgen05:
            if word >> 52 & 1:
                raise EmulatorError(
                    f"matrix descriptor {word:#x}: an absolute leading dimension is not supported"
                )
            mode = TCGEN05_SWIZZLE.get(word >> 61 & 7)
            if mode is None:
                raise EmulatorError(
                    f"matrix descriptor {word:#x}: swizzle mode {word >> 61 & 7} does not exist"
                )
        else:
            mode = WGMMA_SWIZZLE[word >> 62 & 3]
        self.swizzle = mode

    @property
    def kind(self) -> tuple[int, int, int]:
        return self.swizzle, self.leading, self.stride


def swizzled(address: np.ndarray, mode: int) -> np.ndarray:
    """Where a swizzle moves the 16-byte chunk at an address of shared memory."""
    if mode == 0:
        return address
    if mode == -128:  # atoms of 32 bytes: bits 5-6 flip by bits 7-8
        return address ^ ((address >> 7 & 3) << 5)
    return address ^ ((address >> 7 & (abs(mode) // 16 - 1)) << 4)


@functools.lru_cache(256)
def chunk_offsets(kind: tuple[int, int, int], rows: int, depth: int, bits: int, k_major: bool) -> np.ndarray:
    """Offsets of an operand's chunks before swizzling: [rows, chunks along K], or MN-major [chunks along MN, depth]."""
    mode, leading, stride = kind
    width = abs(mode) or 16
    if k_major:
        r, c = np.arange(rows)[:, None], np.arange(depth * bits // 128)[None, :]
        out = r % 8 * width + r // 8 * stride
        return out + (c * leading if mode == 0 else c * 16)
    per = 128 // bits
    i, k = np.arange(rows // per)[:, None], np.arange(depth)[None, :]
    if mode == 0:
        return i * stride + k % 8 * 16 + k // 8 * leading
    if mode == -128:
        return i % 8 * 16 + i // 8 * leading + k % 4 * 128 + k // 4 * stride
    across = width // 16
    return i % across * 16 + i // across * leading + k % 8 * width + k // 8 * stride


def addresses(kind, starts: np.ndarray, rows: int, depth: int, bits: int, k_major: bool) -> np.ndarray:
    """Shared-memory addresses of the chunks: [operands, ...], one operand for each start address."""
    offsets = chunk_offsets(kind, rows, depth, bits, k_major)
    return swizzled(starts[:, None, None] + offsets, kind[0])


def elements(chunks: np.ndarray, dtype, k_major: bool) -> np.ndarray:
    """Chunks at (checked) real addresses as [operands, rows, depth] of an unsigned type."""
    raw = VIEW[16].take((chunks >> 4) - 1).view(dtype)
    if k_major:
        return raw.reshape(*chunks.shape[:2], -1)
    count, across, depth = chunks.shape
    return raw.reshape(count, across, depth, -1).transpose(0, 1, 3, 2).reshape(count, -1, depth)
