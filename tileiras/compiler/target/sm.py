"""One row per feature; the architectures themselves are the rows of `tileiras/archs.py`.

Ask `target.has(FEATURE)`, never whether a number is at least another. A target as the user spelled it (`sm_90`) may be
raised to the `f` or `a` spelling that a feature in use needs (`spelling`); one spelled `sm_100f` or `sm_90a` is kept, and
has what that spelling has. `portable(target)` has what every later GPU has as well: PTX for a virtual architecture.
`has` is what a compile may choose; `knows` is what the GPU can execute, parts that a compile leaves out included.
Sources: PTX ISA manual, target ISA notes of each instruction, tried with ptxas 13.5 on every target
(`tests/unit/test_instruction_rows.py`).
"""

from __future__ import annotations

from tileiras import archs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

KIB = 1024

# features (names of what an instruction or modifier needs)
MMA_F16_M16N8K8 = "mma.m16n8k8.f16"
MMA_I8 = "mma.m8n8k16.s8"
LARGE_PARAMETERS = "parameters.32k"
MMA_SM80 = "mma.sm80"  # m16n8k16 f16/bf16, tf32, s8 m16n8k32, f64 m8n8k4
MMA_FP8 = "mma.fp8"  # m16n8k32 e4m3/e5m2 into f32
MMA_FP8_K16 = "mma.fp8.k16"  # m16n8k16, and f16 accumulators
MMA_F64_SM90 = "mma.f64.m16n8"
MMA_KIND_F8 = "mma.kind::f8f6f4"  # of 8-bit types alone
MMA_F8F6F4 = "mma.f8f6f4"  # mixed 8, 6 and 4 bits, block scale
CP_ASYNC = "cp.async"
LDMATRIX = "ldmatrix"
STMATRIX = "stmatrix"
MATRIX_B8 = "ldmatrix.b8"  # 8-bit transposes, 6 and 4 bits unpacked
REDUX = "redux.sync"
REDUX_F32 = "redux.f32"
BF16_CVT = "cvt.bf16"  # cvt.rn.bf16.f32
BF16_ARITH = "fma.bf16"
BF16_ADD = "add.bf16"  # add/sub/mul.bf16
MINMAX_NAN = "min.NaN"
MINMAX_3 = "min.f32.3"
F16_MINMAX = "min.f16"
F32X2 = "add.f32x2"
ATOM_BF16 = "atom.add.bf16"
FP8_CVT = "cvt.fp8"
FP6_CVT = "cvt.fp6"
UE8M0_CVT = "cvt.ue8m0"
LD_EVICT = "ld.L1::evict"
L2_HINT = "L2::cache_hint"
U16X2 = "add.u16x2"
LD_256 = "ld.v8.b32"
CLUSTER = "cluster"
BLOCKS_ARE_CLUSTERS = "blocksareclusters"
TMA = "cp.async.bulk.tensor"
BULK_CTA = "cp.async.bulk.shared::cta"
TENSORMAP = "tensormap.replace"
TENSORMAP_FENCE = "fence.proxy.tensormap"
MBARRIER = "mbarrier"
MBARRIER_TRY = "mbarrier.try_wait"
ELECT = "elect.sync"
SETMAXNREG = "setmaxnreg"
TURNS = "turns of warpgroups"
PAIRS = "pairs of CTAs"
MINMAX_64 = "min.s64 in one instruction"
ARRIVALS = "copies that arrive on mbarriers"
GDC = "griddepcontrol"
CLUSTER_CONTROL = "clusterlaunchcontrol"
CLUSTER_CONTROL_MULTICAST = "clusterlaunchcontrol.multicast"
TANH_APPROX = "tanh.approx.f32"
EX2_BF16 = "ex2.approx.ftz.bf16"
CVT_TF32 = "cvt.rna.tf32"
CVT_TF32_RN = "cvt.rn.tf32"
WGMMA = "wgmma"
TCGEN05 = "tcgen05"
TCGEN05_I8 = "tcgen05.mma.kind::i8"
TCGEN05_SHIFT = "tcgen05.shift"
TCGEN05_BLOCK = "tcgen05.mma.block16"  # and .block32

# feature: (least PTX ISA version, base targets from this number on (0: none), families with an `f` spelling by their
# first number, architectures whose `a` spelling alone has it). A family's `f` is also in the `a` of its members.
FEATURES: dict[str, tuple[tuple[int, int], int, tuple[int, ...], tuple[int, ...]]] = {
    MMA_F16_M16N8K8: ((6, 5), 75, (), ()),
    MMA_I8: ((6, 5), 75, (), ()),
    LDMATRIX: ((6, 5), 75, (), ()),
    TANH_APPROX: ((7, 0), 75, (), ()),
    LD_EVICT: ((7, 4), 75, (), ()),
    L2_HINT: ((7, 4), 80, (), ()),
    LARGE_PARAMETERS: ((7, 0), 80, (), ()),
    MMA_SM80: ((7, 0), 80, (), ()),
    CP_ASYNC: ((7, 0), 80, (), ()),
    MBARRIER: ((7, 0), 80, (), ()),
    REDUX: ((7, 0), 80, (), ()),
    BF16_CVT: ((7, 0), 80, (), ()),
    BF16_ARITH: ((7, 0), 80, (), ()),
    MINMAX_NAN: ((7, 0), 80, (), ()),
    F16_MINMAX: ((7, 0), 80, (), ()),
    CVT_TF32: ((7, 0), 80, (), ()),
    MMA_FP8: ((8, 4), 89, (), ()),
    MMA_FP8_K16: ((8, 7), 89, (), ()),
    FP8_CVT: ((8, 1), 89, (), ()),
    BF16_ADD: ((7, 8), 90, (), ()),
    ATOM_BF16: ((7, 8), 90, (), ()),
    U16X2: ((8, 0), 90, (), ()),
    CLUSTER: ((8, 0), 90, (), ()),
    BLOCKS_ARE_CLUSTERS: ((9, 0), 90, (), ()),
    TMA: ((8, 0), 90, (), ()),
    BULK_CTA: ((8, 6), 90, (), ()),
    TENSORMAP_FENCE: ((8, 3), 90, (), ()),
    MBARRIER_TRY: ((8, 0), 90, (), ()),
    ELECT: ((8, 0), 90, (), ()),
    GDC: ((7, 8), 90, (), ()),
    STMATRIX: ((7, 8), 90, (), ()),
    EX2_BF16: ((7, 8), 90, (), ()),
    CVT_TF32_RN: ((7, 8), 90, (), ()),
    MMA_F64_SM90: ((7, 8), 90, (), ()),
    F32X2: ((8, 6), 100, (), ()),
    LD_256: ((8, 8), 100, (), ()),
    MINMAX_3: ((8, 8), 100, (), ()),
    CLUSTER_CONTROL: ((8, 6), 100, (), ()),
    MINMAX_64: ((8, 7), 120, (), ()),
    FP6_CVT: ((8, 6), 0, (100, 110, 120), ()),
    UE8M0_CVT: ((8, 6), 0, (100, 110, 120), ()),
    MATRIX_B8: ((8, 6), 0, (100, 110, 120), ()),
    REDUX_F32: ((8, 6), 0, (100,), ()),
    CLUSTER_CONTROL_MULTICAST: ((8, 6), 0, (100, 110, 120), ()),
    SETMAXNREG: ((8, 0), 0, (100, 110, 120), (90,)),
    TURNS: ((8, 0), 0, (), (90,)),
    ARRIVALS: ((8, 0), 90, (), ()),
    TENSORMAP: ((8, 3), 0, (100, 110, 120), (90,)),
    MMA_KIND_F8: ((8, 7), 0, (100, 110, 120), ()),
    MMA_F8F6F4: ((8, 7), 0, (120,), ()),
    TCGEN05: ((8, 6), 0, (100, 110), ()),
    TCGEN05_I8: ((8, 6), 0, (), (100, 110)),
    PAIRS: ((8, 6), 0, (100, 110), ()),
    TCGEN05_BLOCK: ((8, 8), 0, (100, 110), ()),
    TCGEN05_SHIFT: ((8, 6), 0, (), (100, 103, 107, 110)),
    WGMMA: ((8, 0), 0, (), (90,)),
}
_LEVELS = {"": 0, "f": 1, "a": 2}
# parts of the code generator that a compile may leave out (`options.PARTS`): what it then does not choose
_PARTS: dict[str, tuple[str, ...]] = {
    "wgmma": (WGMMA,),
    "tcgen05": (TCGEN05, TCGEN05_BLOCK, TCGEN05_I8, TCGEN05_SHIFT),
    "bulk": (TMA, BULK_CTA),
    "arrivals": (ARRIVALS,),
    "roles": (SETMAXNREG,),
    "turns": (TURNS,),
    "clusters": (BLOCKS_ARE_CLUSTERS,),
    "pairs": (PAIRS,),
    "cp.async": (CP_ASYNC,),
}
# what a level leaves out: -O1 multiplies by mma.sync, -O0 also loads through registers
_LEAST_LEVELS = {
    "wgmma": 2, "tcgen05": 2, "bulk": 2, "arrivals": 2, "roles": 2, "turns": 2, "clusters": 2, "pairs": 2, "cp.async": 1,
}  # fmt: skip
PORTABLE = "portable"  # how far a target may reach: nothing beyond its base


class Sm:
    """A target: an architecture and how it is spelled. `smem_bytes_max` is per block, opt-in."""

    __slots__ = (
        "_levels",
        "highest",
        "left_out",
        "name",
        "number",
        "regs_per_sm",
        "smem_bytes_max",
        "suffix",
        "tensor_maps",
        "threads_per_sm",
    )

    def __init__(self, number: int, smem_kib: int, threads: int, suffix: str = "", reach: str = "") -> None:
        self.number = number
        self.suffix = suffix
        self.name = f"sm_{number}{suffix}"
        self.smem_bytes_max = smem_kib * KIB
        self.threads_per_sm = threads
        self.regs_per_sm = 65536
        # the most specific spelling that code for it may take
        self.highest = 0 if reach == PORTABLE and not suffix else _LEVELS[suffix] if suffix else 2
        self._levels: dict[str, int] = {}
        self.left_out: frozenset[str] = frozenset()  # features that the compile may not choose
        self.tensor_maps = "none"  # "launcher": kernels may take maps as hidden parameters

    def level(self, feature: str) -> int:
        """What the least specific spelling with a feature is: 0 base, 1 `f`, 2 `a`, 3 none."""
        found = self._levels.get(feature)
        if found is None:
            _, base, families, own = FEATURES[feature]
            number = self.number
            found = (
                0 if base and number >= base
                else 1 if any(number >= first and number // 10 == first // 10 for first in families)
                else 2 if number in own
                else 3
            )  # fmt: skip
            self._levels[feature] = found
        return found

    def has(self, feature: str) -> bool:
        """Whether code for the target may use a feature by choice."""
        return feature not in self.left_out and self.knows(feature)

    def knows(self, feature: str) -> bool:
        """Whether the target executes a feature."""
        return self.level(feature) <= self.highest

    def spelling(self, features: set[str]) -> str:
        """The least specific name of the target that has all of them; what the user spelled stays."""
        if self.suffix or not features:
            return self.name
        level = max(map(self.level, features))
        return self.name + ("", "f", "a")[min(level, 2)]

    def __repr__(self) -> str:
        return self.name


def _row(number: int) -> tuple[int, int]:
    return next((smem, threads) for n, smem, threads, *_ in archs.ROWS if n == number)


NAMES = archs.NAMES
ROWS = {number: Sm(number, smem, threads) for number, smem, threads, *_ in archs.ROWS}


def find(name: str, reach: str = "") -> Sm | None:
    """The target that `sm_90`, `sm_90a`, `sm_100f` names; None when it is not supported."""
    if name not in archs.PTXAS_SINCE:
        return None
    suffix = name[-1] if name[-1] in "af" else ""
    number = int(name[3 : len(name) - len(suffix)])
    return ROWS[number] if not suffix and not reach else Sm(number, *_row(number), suffix, reach)


def portable(target: Sm) -> Sm:
    """The same target without what only an `a` or `f` spelling has, unless the user spelled one."""
    return Sm(target.number, *_row(target.number), target.suffix, PORTABLE)


def restricted(target: Sm, opt_level: int, disabled: Iterable[str] = (), tensor_maps: str = "none") -> Sm:
    """The same target without the parts that were disabled, and those that the optimisation level leaves out.

    `tensor_maps`: "launcher" where whoever launches encodes maps (`Sm.tensor_maps`).
    """
    parts = {*disabled, *(part for part, least in _LEAST_LEVELS.items() if opt_level < least)}
    if not parts and tensor_maps == target.tensor_maps:
        return target
    made = Sm(target.number, *_row(target.number), target.suffix)
    made.highest = target.highest
    made.left_out = frozenset(feature for part in parts for feature in _PARTS[part])
    made.tensor_maps = tensor_maps
    return made


def first_ptx(name: str) -> tuple[int, int]:
    """The first PTX ISA version that knows a spelled target."""
    return next(
        ptx
        for number, *_, spellings in archs.ROWS
        for suffix, ptx, _ in spellings
        if f"sm_{number}{suffix}" == name
    )
