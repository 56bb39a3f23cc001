"""How much of a GPU's tensor peak a hot loop can reach, from its machine code alone.

One pass of the hot loop over the blocks that reside on one SM, in cycles of that SM:

    T  tensor: flops / (peak x rate of the instructions used)
    I  issue: instructions x warps / 4 schedulers
    S  shared memory: wavefronts of loads, stores and copies into it
    L  second-level cache: bytes of operands / 64

Where warps of their own copy by cp.async, I and S count their loop with the one that multiplies. Where warps of two kinds
multiply, each in its own loop, and only both loops together make a step, all terms count both.

    fed      share = 0.9 x P / max(T, I, S, L)
    not fed  share = P / (latency + 30 x barriers + L + max(S, other I) + T)

with P = flops / peak, what the target's best instruction would take. A loop is fed when the operands of later steps are
under way while it multiplies: by asynchronous copies, with a wait that leaves at least one group unfinished, or behind
mbarriers, but for copies that begin only when what each step acquires is there. Nothing here was fitted to a run on
hardware: it ranks two kernels, it does not predict times.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from tileiras.compiler.target.cost import MMA_SYNC_SHARE, TENSOR_FMA


class Gpu(NamedTuple):
    """What one SM has and does in a cycle. `peak` is in flops, dense, for f32 (i32) accumulation.

    Sources: NVIDIA's architecture whitepapers (A100, H100, Blackwell, RTX Blackwell PRO) for the peaks, divided by SMs and
    boost clock; CUDA C++ programming guide, "Technical specifications per compute capability", for the limits.
    """

    name: str
    peak: dict[str, int]
    rate: dict[str, float]  # share of the peak that an instruction class reaches; 1 where absent
    registers: int
    shared_bytes: int
    threads: int
    blocks: int


def _peaks(number: int, f64: int, f32: int, fp8: int, i8: int) -> dict[str, int]:
    f16 = 2 * TENSOR_FMA[number]
    return {
        "f16": f16,
        "bf16": f16,
        "tf32": f16 // 2,
        "e4m3": fp8,
        "e2m1": 2 * fp8,
        "i8": i8,
        "f64": f64,
        "f32": f32,
    }


KIB = 1024
# fp8 on sm_80 has no instruction: its peak is that of f16, to which both compilers widen.
GPUS = {
    80: Gpu("A100", _peaks(80, 128, 128, 2048, 4096), {}, 65536, 164 * KIB, 2048, 32),
    90: Gpu(
        "H100", _peaks(90, 256, 256, 8192, 8192), {"mma": MMA_SYNC_SHARE[90]}, 65536, 228 * KIB, 2048, 32
    ),
    100: Gpu(
        "B200", _peaks(100, 128, 256, 16384, 16384), {"mma": MMA_SYNC_SHARE[100]}, 65536, 228 * KIB, 2048, 32
    ),
    120: Gpu("RTX PRO 6000", _peaks(120, 4, 256, 2048, 2048), {}, 65536, 100 * KIB, 1536, 24),
}
LATENCY = (
    550  # cycles of a load that misses L2: 466 to 542 measured on A100, RTX 4090, H100 (arXiv 2402.13499)
)
BARRIER = 30  # cycles from the last warp's arrival to the first one's going on, and refilling the pipelines
L2_BYTES = 64  # bytes an SM gets from L2 in a cycle (A100 and H100 whitepapers)
SCHEDULERS = 4
FED = 0.9  # what the best known kernels reach of the bound
RESERVED_SHARED = 1024  # bytes of shared memory that the system takes of each block


@dataclasses.dataclass(frozen=True)
class Residency:
    """Blocks that fit an SM, by each resource; `blocks` is the least."""

    by_registers: int
    by_shared: int
    by_threads: int
    limit: int

    @property
    def blocks(self) -> int:
        return max(1, min(self.by_registers, self.by_shared, self.by_threads, self.limit))


def residency(gpu: Gpu, registers: int, shared_bytes: int, threads: int) -> Residency:
    """How many blocks of a kernel reside on one SM."""
    warps = -(-threads // 32)
    per_warp = -(-registers * 32 // 256) * 256  # registers are handed out 256 at a time
    per_block = -(-(shared_bytes + RESERVED_SHARED) // 128) * 128
    return Residency(
        by_registers=gpu.registers // max(1, per_warp * warps),
        by_shared=gpu.shared_bytes // per_block,
        by_threads=gpu.threads // (warps * 32),
        limit=gpu.blocks,
    )


@dataclasses.dataclass(frozen=True)
class Pass:
    """What one pass of a block's hot loop does. `flops` by class: mma (a warp's), group (wgmma, tcgen05), only (of a type that
    has one instruction), fma, unfused."""

    element: str
    flops: dict[str, float]
    kinds: dict[str, str]  # class -> the element type whose peak its instructions have
    issued: float  # instructions x warps
    tensor_issued: float
    wavefronts: float
    bytes: float
    barriers: int
    fed: bool
    useful: float = 0.0  # flops of them that the step is made of, where products of copies are more; 0: all


@dataclasses.dataclass(frozen=True)
class Terms:
    """The terms of the model in cycles, and the modelled share of the peak."""

    P: float
    T: float
    I: float
    other_I: float
    S: float
    L: float
    fed: bool
    share: float

    @property
    def bound(self) -> str:
        """The largest term."""
        return max("TISL", key=lambda name: getattr(self, name))


def terms(gpu: Gpu, work: Pass, blocks: int) -> Terms:
    """The model of a pass of `blocks` resident blocks."""
    total = (work.useful or sum(work.flops.values())) * blocks
    ideal = total / gpu.peak[work.element]
    rates = {"unfused": 0.5, **gpu.rate}  # a product and a sum in two instructions
    tensor = sum(
        flops * blocks / (gpu.peak[work.kinds[which]] * rates.get(which, 1.0))
        for which, flops in work.flops.items()
    )
    issue = work.issued * blocks / SCHEDULERS
    other = (work.issued - work.tensor_issued) * blocks / SCHEDULERS
    shared = work.wavefronts * blocks
    second = work.bytes * blocks / L2_BYTES
    if work.fed:
        share = FED * ideal / max(tensor, issue, shared, second)
    else:
        share = ideal / (LATENCY + BARRIER * work.barriers + second + max(shared, other) + tensor)
    return Terms(ideal, tensor, issue, other, shared, second, work.fed, min(share, FED))


def geometric_mean(values: list[float]) -> float:
    """0.0 of nothing."""
    import math

    return math.exp(sum(math.log(v) for v in values) / len(values)) if values else 0.0
