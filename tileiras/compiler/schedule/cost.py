"""CostModel: the numbers of one target that choices are made by, each with its source; hints override them.

Throughput figures are per SM and clock. Sources: CUDA C++ programming guide (compute capability tables: registers,
shared memory, threads); NVIDIA's architecture white papers (dense tensor throughput); latencies are rounded from
published microbenchmarks and matter to a factor of two only.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# 16-bit multiply-adds of mma.sync a clock and SM, by architecture number; other types relative to them.
_MMA_FMA_PER_CLOCK = {75: 512, 80: 1024, 86: 512, 87: 1024, 88: 512, 89: 512, 90: 1290, 100: 1024, 103: 1024, 107: 1024,
                      110: 1024, 120: 1024, 121: 1024}  # fmt: skip
_GLOBAL_LATENCY_CLOCKS = 900  # L2 miss to first byte in shared memory, loaded machine


class CostModel:
    """Numbers of a target."""

    __slots__ = ("fma_per_clock", "latency_clocks", "max_stages", "min_copy_bytes", "shared_bytes")

    def __init__(self, target: Any) -> None:
        self.shared_bytes: int = (
            target.smem_bytes_max - 1024
        )  # of a block; the last KiB is left for small things
        self.latency_clocks = _GLOBAL_LATENCY_CLOCKS
        self.fma_per_clock = _MMA_FMA_PER_CLOCK.get(target.number, 1024)
        self.max_stages = 5
        self.min_copy_bytes = 4  # the smallest cp.async

    def product_clocks(self, fma: int, elem_bits: int) -> int:
        """Clocks an SM needs for that many multiply-adds of operands of a width."""
        return max(1, fma * elem_bits // 16 // self.fma_per_clock)

    def wanted(self, step_clocks: int, wish: int | None = None) -> int:
        """Slots that a loop wants: one in use, one landing, and as many as cover the latency."""
        if wish is not None:
            return wish
        return min(self.max_stages, 2 + -(-self.latency_clocks // max(step_clocks, 1)))

    def stages(
        self, step_clocks: int, stage_bytes: int, other_bytes: int, wish: int | None = None, spare: int = 0
    ) -> int:
        """Slots of a ring: what is wanted and spare ones, as far as they fit. 1: none."""
        fits = (self.shared_bytes - other_bytes) // max(stage_bytes, 1)
        return max(1, min(self.wanted(step_clocks, wish) + spare, fits))
