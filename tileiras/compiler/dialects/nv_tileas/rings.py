"""A ring of stages in shared memory, and the mbarriers that bulk tensor copies complete on: where they lie, in bytes."""

from __future__ import annotations

MAX_DEPTH = 16  # stages
STAGE_UNIT = 1024  # after which the swizzle of 128-byte lines repeats
MBARRIER_BYTES = 8  # PTX ISA, mbarrier
RESERVED_BYTES = 1024  # for the mbarriers of a ring: what lies behind them may be swizzled, too


BUFFER_BYTES = (
    227 * 1024
)  # all of a block's shared memory, at most; CUDA C++ Programming Guide, compute capabilities


def in_units(size: int) -> int:
    """Bytes of shared memory that a buffer of a stage takes: the next one begins where a swizzle begins."""
    return (size + STAGE_UNIT - 1) & -STAGE_UNIT


def shift_of(stage_bytes: int) -> int:
    """By how many bits the offset of a stage is shifted to that of its mbarrier; see `is_exact`."""
    exact = (stage_bytes & -stage_bytes).bit_length() - MBARRIER_BYTES.bit_length()
    return exact if is_exact(stage_bytes) else stage_bytes.bit_length() - MBARRIER_BYTES.bit_length()


def is_exact(stage_bytes: int) -> bool:
    """Whether shifted offsets of stages are multiples of an mbarrier's size, close enough together for two rows of mbarriers.
    Those of other sizes, 33 KB say, are shifted further and rounded down: at least one mbarrier's size stays between them."""
    step = stage_bytes // (stage_bytes & -stage_bytes) * MBARRIER_BYTES
    stages = min(MAX_DEPTH, BUFFER_BYTES // stage_bytes)
    return 2 * (MBARRIER_BYTES + (stages - 1) * step) <= RESERVED_BYTES


def place_of(stage: int, stage_bytes: int) -> int:
    """Bytes from the first mbarrier of a ring to that of a stage."""
    return (stage * stage_bytes >> shift_of(stage_bytes)) & -MBARRIER_BYTES


def span_of(stage_bytes: int, stages: int) -> int:
    """Bytes from the first mbarrier of a ring to behind its last."""
    return MBARRIER_BYTES + place_of(stages - 1, stage_bytes)
