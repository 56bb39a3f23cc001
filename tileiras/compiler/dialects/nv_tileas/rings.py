"""A ring of stages in shared memory, and the mbarriers that bulk tensor copies complete on: where they lie, in bytes."""

from __future__ import annotations

MAX_DEPTH = 16  # stages
STAGE_UNIT = 1024  # after which the swizzle of 128-byte lines repeats
MBARRIER_BYTES = 8  # PTX ISA, mbarrier
RESERVED_BYTES = 1024  # for the mbarriers of a ring: what lies behind them may be swizzled, too


def shift_of(stage_bytes: int) -> int:
    """By how many bits the offset of a stage is shifted to that of its mbarrier."""
    return (stage_bytes & -stage_bytes).bit_length() - MBARRIER_BYTES.bit_length()


def span_of(stage_bytes: int, stages: int) -> int:
    """Bytes from the first mbarrier of a ring to behind its last."""
    return MBARRIER_BYTES + ((stages - 1) * stage_bytes >> shift_of(stage_bytes))
