"""One row per architecture: base, first PTX ISA version, limits, features added.

Ask `target.has(FEATURE)`, never whether a number is at least another. Nothing inherits an `a` target: the
features of sm_90a and sm_100a are asked for by name and choose the spelling of the target (`ptx_target`).
Sources: PTX ISA manual (target ISA notes of each instruction), CUDA C++ programming guide (compute capability
tables).
"""

from __future__ import annotations

KIB = 1024

# features (names of what an instruction or modifier needs)
MMA_F16_M16N8K8 = "mma.m16n8k8.f16"
MMA_SM80 = "mma.sm80"  # m16n8k16 f16/bf16, tf32, s8 m16n8k32, f64 m8n8k4
MMA_FP8 = "mma.fp8"  # m16n8k32 e4m3/e5m2
MMA_F64_SM90 = "mma.f64.m16n8"
CP_ASYNC = "cp.async"
LDMATRIX = "ldmatrix"
STMATRIX = "stmatrix"
REDUX = "redux.sync"
BF16_CVT = "cvt.bf16"  # cvt.rn.bf16.f32
BF16_ARITH = "fma.bf16"
BF16_ADD = "add.bf16"  # add/sub/mul.bf16
MINMAX_NAN = "min.NaN"
F16_MINMAX = "min.f16"
ATOM_BF16 = "atom.add.bf16"
ATOM_F16 = "atom.add.noftz.f16"
FP8_CVT = "cvt.fp8"
FP4_CVT = "cvt.fp4"  # family-specific targets
UE8M0_CVT = "cvt.ue8m0"
CLUSTER = "cluster"
TMA = "cp.async.bulk.tensor"
GDC = "griddepcontrol"
TANH_APPROX = "tanh.approx.f32"
EX2_BF16 = "ex2.approx.ftz.bf16"
CVT_TF32 = "cvt.rna.tf32"
CVT_TF32_RN = "cvt.rn.tf32"
WGMMA = "wgmma"
TCGEN05 = "tcgen05"
ATOM_B128 = "atom.b128"


class Sm:
    """An architecture. `ptx` is the first PTX ISA version that knows it; `smem_bytes_max` per block, opt-in."""

    __slots__ = ("adds", "base", "name", "number", "ptx", "regs_per_sm", "smem_bytes_max", "threads_per_sm")

    def __init__(
        self,
        number: int,
        base: Sm | None,
        ptx: tuple[int, int],
        smem_kib: int,
        threads: int,
        adds: frozenset[str],
    ) -> None:
        self.number = number
        self.name = f"sm_{number}"
        self.base = base
        self.ptx = ptx
        self.smem_bytes_max = smem_kib * KIB
        self.threads_per_sm = threads
        self.regs_per_sm = 65536
        self.adds = adds if base is None else adds | base.adds

    def has(self, feature: str) -> bool:
        return feature in self.adds

    def __repr__(self) -> str:
        return self.name


def _rows() -> dict[int, Sm]:
    f = frozenset
    sm75 = Sm(75, None, (6, 3), 64, 1024, f({MMA_F16_M16N8K8, LDMATRIX, TANH_APPROX, ATOM_F16}))
    sm80 = Sm(
        80, sm75, (7, 0), 163, 2048,
        f({MMA_SM80, CP_ASYNC, REDUX, BF16_CVT, BF16_ARITH, MINMAX_NAN, F16_MINMAX, CVT_TF32}),
    )  # fmt: skip
    sm86 = Sm(86, sm80, (7, 1), 99, 1536, f())
    sm87 = Sm(87, sm80, (7, 4), 163, 1536, f())
    sm88 = Sm(88, sm80, (9, 0), 163, 1536, f())
    sm89 = Sm(89, sm80, (7, 8), 99, 1536, f({MMA_FP8, FP8_CVT}))
    sm90 = Sm(
        90, sm89, (7, 8), 227, 2048,
        f({BF16_ADD, ATOM_BF16, CLUSTER, TMA, GDC, STMATRIX, EX2_BF16, CVT_TF32_RN, MMA_F64_SM90, ATOM_B128}),
    )  # fmt: skip
    sm100 = Sm(100, sm90, (8, 6), 227, 2048, f())
    sm103 = Sm(103, sm100, (8, 8), 227, 2048, f())
    sm107 = Sm(107, sm100, (9, 4), 227, 2048, f())
    sm110 = Sm(110, sm100, (9, 0), 227, 2048, f())
    sm120 = Sm(120, sm90, (8, 7), 99, 1536, f())
    sm121 = Sm(121, sm120, (8, 8), 99, 1536, f())
    return {
        s.number: s
        for s in (sm75, sm80, sm86, sm87, sm88, sm89, sm90, sm100, sm103, sm107, sm110, sm120, sm121)
    }


ROWS = _rows()
NAMES = tuple(row.name for row in ROWS.values())


def find(name: str) -> Sm | None:
    """The row of `sm_NN`; None when the architecture is not supported."""
    return next((row for row in ROWS.values() if row.name == name), None)
