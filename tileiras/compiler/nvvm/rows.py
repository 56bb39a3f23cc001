"""The instruction table: a row per form of a PTX instruction, grouped by the first word of its name.

    (modifiers, operands, pure, feature)

`modifiers`: the words behind the first dot, in PTX's order; `a|b` is a choice, a trailing `?` makes a word optional, a
`*` stands for a number that is a multiple of 8. `operands`: what stands left and right of `=` in a record, without `=`
where nothing is returned:

    T   a value of the last modifier's type        U   of the type before the last      W   of twice the width of T
    Tw Uw   the same or in a wider register, of which PTX takes the low bits
    p h r d   a register of that class (or a constant of it)     p? an operand that may be left out
    r4  four registers in braces                   r|p  two results, joined as PTX joins them (either may be `_`)
    V   what `.v2` .. `.v8` and the type say; 8-bit values take wider registers
    X   one register per `.x` of a matrix          Y   tensor-memory columns: `.x` times the words of the shape
    D   the accumulator of a wgmma, by shape and type       M   the sides of a mov: a value, its halves, or a name
    H   the cache policy of a `.L2::cache_hint`
    A   an address    m   a tensor map with coordinates     i   an integer    L   a label    N   a name    t   a tuple
    a/b either

`feature` is a name of target/sm.py, whose row has targets and PTX version; None: every target. Builder, verifier, text
form and printer read these rows through inst.py. `tests/unit/test_instruction_rows.py` holds each of them against ptxas.
Source: PTX ISA manual 9.4, the syntax and "Target ISA notes" of each instruction.
"""

from __future__ import annotations

from tileiras.compiler.target import sm

TYPE_CHECKING = False
if TYPE_CHECKING:
    Row = tuple[str, str, bool, str | None]

_INT = "u16|s16|u32|s32|u64|s64"
_CVT_INT = "u8|s8|u16|s16|u32|s32|u64|s64"
_ROUND = "rn|rz|rm|rp"
_TO_INT = "rni|rzi|rmi|rpi"
_BITS = "b16|b32|b64"
_CMP = "eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan"
_SMALL = "b8|b16|b32|u8|u16|u32|s8|s16|s32|f32"
_LARGE = "b64|u64|s64|f64"
_SPACE = "global|shared|shared::cta?"
_SMEM = "shared|shared::cta"
_SCOPE = "cta|cluster|gpu|sys"
_EVICT = "L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate?"
_SIZE = "L2::64B|L2::128B?"
_HINT = "L2::cache_hint?"
_GROUP = "cta_group::1|cta_group::2"
_TX = "mbarrier::complete_tx::bytes"
_DIMS = "1d|2d|3d|4d|5d"
_F8F6F4 = "e4m3|e5m2|e3m2|e2m3|e2m1"
_MMA = "sync.aligned"
_INT8 = "s8|u8"


def _unary(*types: str) -> tuple[Row, ...]:
    return tuple((t, "T = T", True, None) for t in types)


def _logic(operands: str, types: str = "pred|b16|b32|b64") -> tuple[Row, ...]:
    return ((types, operands, True, None),)


def _vectors(modifiers: str, operands: str, feature: str | None = None) -> tuple[Row, Row]:
    """ld and st of up to 16 bytes."""
    return (
        (f"{modifiers}.v2|v4?.{_SMALL}", operands, False, feature),
        (f"{modifiers}.v2?.{_LARGE}", operands, False, feature),
    )


def _atomic(modifiers: str, operands: str, feature: str | None = None) -> tuple[Row, Row, Row]:
    """atom (with a result) and red."""
    order = "relaxed|acquire|release|acq_rel?" if "=" in operands else "relaxed|release?"
    return (
        (f"{order}.cta|gpu|sys?.{_SPACE}.{modifiers}", operands, False, feature),
        (f"{order}.cluster.{_SPACE}.{modifiers}", operands, False, feature or sm.CLUSTER),
        (f"{order}.{_SCOPE}?.shared::cluster.{modifiers}", operands, False, feature or sm.CLUSTER),
    )


def _float_arithmetic() -> tuple[Row, ...]:
    """add, sub, mul."""
    return (
        (f"{_ROUND}?.ftz?.sat?.f32", "T = T T", True, None),
        (f"{_ROUND}?.f64", "T = T T", True, None),
        ("rn?.ftz?.sat?.f16|f16x2", "T = T T", True, None),
        ("rn?.bf16|bf16x2", "T = T T", True, sm.BF16_ADD),
        (f"{_ROUND}?.ftz?.f32x2", "T = T T", True, sm.F32X2),
    )


def _min_max() -> tuple[Row, ...]:
    return (
        (_INT, "T = T T", True, None),
        ("ftz?.f32", "T = T T", True, None),
        ("f64", "T = T T", True, None),
        ("ftz?.NaN.f32", "T = T T", True, sm.MINMAX_NAN),
        ("ftz?.f16|f16x2", "T = T T", True, sm.F16_MINMAX),
        ("ftz?.NaN.f16|f16x2", "T = T T", True, sm.MINMAX_NAN),
        ("NaN?.bf16|bf16x2", "T = T T", True, sm.BF16_ARITH),
        ("ftz?.NaN?.abs?.f32", "T = T T T", True, sm.MINMAX_3),
        ("u16x2|s16x2", "T = T T", True, sm.U16X2),
    )


def _approximate() -> tuple[Row, ...]:
    return (("approx.ftz?.f32", "T = T", True, None),)


ROWS: dict[str, tuple[Row, ...]] = {
    # ---- moves, logic, integers
    "mov": ((f"pred|u16|u32|u64|s16|s32|s64|f32|f64|{_BITS}", "M = M", True, None),),
    "and": _logic("T = T T"), "or": _logic("T = T T"), "xor": _logic("T = T T"), "not": _logic("T = T"),
    "cnot": _logic("T = T", _BITS),
    "shl": _logic("T = T r", _BITS),
    "shr": _logic("T = T r", f"{_BITS}|{_INT}"),
    "shf": (("l|r.wrap|clamp.b32", "T = T T r", True, None),),
    "lop3": (("b32", "T = T T T i", True, None),),
    "prmt": (("b32", "T = T T T", True, None), ("b32.f4e|b4e|rc8|ecl|ecr|rc16", "r = r r r", True, None)),
    "bfi": (("b32|b64", "T = T T r r", True, None),),
    "bfe": (("u32|s32|u64|s64", "T = T r r", True, None),),
    "brev": _unary("b32|b64"),
    "popc": (("b32|b64", "r = T", True, None),),
    "clz": (("b32|b64", "r = T", True, None),),
    "bfind": (("shiftamt?.u32|s32|u64|s64", "r = T", True, None),),
    "sad": ((_INT, "T = T T T", True, None),),
    "dp4a": (("u32|s32.u32|s32", "r = r r r", True, None),),
    "selp": ((f"{_BITS}|{_INT}|f32|f64", "T = T T p", True, None),),
    "setp": (
        (f"eq|ne.{_BITS}", "p = T T", True, None),
        ("eq|ne|lt|le|gt|ge.s16|s32|s64", "p = T T", True, None),
        ("eq|ne|lt|le|gt|ge|lo|ls|hi|hs.u16|u32|u64", "p = T T", True, None),
        (f"{_CMP}.ftz?.f16|f32", "p = T T", True, None),
        (f"{_CMP}.f64", "p = T T", True, None),
        (f"{_CMP}.bf16", "p = T T", True, sm.BF16_ADD),
    ),
    "testp": (("finite|infinite|number|notanumber|normal|subnormal.f32|f64", "p = T", True, None),),
    "isspacep": (("const|global|local|shared|param", "p = d", True, None),),
    "rem": ((_INT, "T = T T", True, None),),
    "mad": (
        (f"lo|hi.{_INT}", "T = T T T", True, None),
        ("wide.u16|s16|u32|s32", "W = T T W", True, None),
    ),
    "addc": (("cc?.u32|s32|u64|s64", "T = T T", False, None),),
    # ---- floats
    "add": (
        (_INT, "T = T T", True, None), ("u16x2|s16x2", "T = T T", True, sm.U16X2),
        ("cc.u32|s32|u64|s64", "T = T T", False, None),
        *_float_arithmetic(),
    ),
    "sub": (
        (_INT, "T = T T", True, None),
        ("cc.u32|s32|u64|s64", "T = T T", False, None),
        *_float_arithmetic(),
    ),
    "mul": (
        (f"lo|hi.{_INT}", "T = T T", True, None),
        ("wide.u16|s16|u32|s32", "W = T T", True, None),
        *_float_arithmetic(),
    ),
    "fma": (
        (f"{_ROUND}.ftz?.sat?.f32", "T = T T T", True, None),
        (f"{_ROUND}.f64", "T = T T T", True, None),
        ("rn.ftz?.sat?.f16|f16x2", "T = T T T", True, None),
        ("rn.ftz?.relu.f16|f16x2", "T = T T T", True, sm.F16_MINMAX),
        ("rn.relu?.bf16|bf16x2", "T = T T T", True, sm.BF16_ARITH),
        (f"{_ROUND}.ftz?.f32x2", "T = T T T", True, sm.F32X2),
    ),
    "div": (
        (_INT, "T = T T", True, None),
        (f"approx|full|{_ROUND}.ftz?.f32", "T = T T", True, None),
        (f"{_ROUND}.f64", "T = T T", True, None),
    ),
    "abs": (
        ("s16|s32|s64|f64", "T = T", True, None), ("ftz?.f32", "T = T", True, None),
        ("ftz?.f16|f16x2", "T = T", True, None), ("bf16|bf16x2", "T = T", True, sm.BF16_ARITH),
    ),
    "neg": (
        ("s16|s32|s64|f64", "T = T", True, None), ("ftz?.f32", "T = T", True, None),
        ("ftz?.f16|f16x2", "T = T", True, None), ("bf16|bf16x2", "T = T", True, sm.BF16_ARITH),
    ),
    "min": _min_max(), "max": _min_max(),
    "copysign": (("f32|f64", "T = T T", True, None),),
    "sqrt": ((f"approx|{_ROUND}.ftz?.f32", "T = T", True, None), (f"{_ROUND}.f64", "T = T", True, None)),
    "rcp": (
        (f"approx|{_ROUND}.ftz?.f32", "T = T", True, None), (f"{_ROUND}.f64", "T = T", True, None),
        ("approx.ftz.f64", "T = T", True, None),
    ),
    "rsqrt": (*_approximate(), ("approx.ftz?.f64", "T = T", True, None)),
    "sin": _approximate(), "cos": _approximate(), "lg2": _approximate(),
    "ex2": (
        *_approximate(), ("approx.f16|f16x2", "T = T", True, sm.TANH_APPROX),
        ("approx.ftz.bf16|bf16x2", "T = T", True, sm.EX2_BF16),
    ),
    "tanh": (
        ("approx.f32|f16|f16x2", "T = T", True, sm.TANH_APPROX), ("approx.bf16|bf16x2", "T = T", True, sm.EX2_BF16),
    ),
    # ---- conversions
    "cvt": (
        (f"{_CVT_INT}.{_CVT_INT}", "Uw = Tw", True, None),
        (f"{_ROUND}.f16|f32|f64.{_CVT_INT}", "U = Tw", True, None),
        (f"{_TO_INT}.ftz?.sat?.{_CVT_INT}.f32", "Uw = T", True, None),
        (f"{_TO_INT}.sat?.{_CVT_INT}.f16|f64", "Uw = T", True, None),
        (f"{_TO_INT}.ftz?.sat?.f32.f32", "U = T", True, None),
        (f"{_TO_INT}.sat?.f16.f16", "U = T", True, None), (f"{_TO_INT}.sat?.f64.f64", "U = T", True, None),
        ("ftz?.sat?.f32.f16", "U = T", True, None), ("sat?.f64.f16", "U = T", True, None),
        ("ftz?.sat?.f64.f32", "U = T", True, None),
        (f"{_ROUND}.ftz?.sat?.f16.f32", "U = T", True, None), (f"{_ROUND}.ftz?.sat?.f32.f64", "U = T", True, None),
        (f"{_ROUND}.sat?.f16.f64", "U = T", True, None),
        ("rn|rz.relu?.f16x2.f32", "U = T T", True, sm.BF16_CVT),
        ("rn|rz.relu?.bf16.f32", "U = T", True, sm.BF16_CVT),
        ("rn|rz.relu?.bf16x2.f32", "U = T T", True, sm.BF16_CVT),
        (f"{_TO_INT}.{_INT}|bf16.bf16", "U = T", True, sm.BF16_ADD),
        ("f32.bf16", "U = T", True, sm.BF16_CVT), ("f64.bf16", "U = T", True, sm.BF16_ADD),
        (f"{_ROUND}.f16.bf16", "U = T", True, sm.BF16_ADD),
        (f"{_ROUND}.bf16.{_INT}|f16|f64", "U = T", True, sm.BF16_ADD),
        ("rna.tf32.f32", "U = T", True, sm.CVT_TF32),
        ("rn|rz.relu?.tf32.f32", "U = T", True, sm.CVT_TF32_RN),
        ("rn.satfinite.relu?.e4m3x2|e5m2x2.f32", "U = T T", True, sm.FP8_CVT),
        ("rn.satfinite.relu?.e4m3x2|e5m2x2.f16x2", "U = T", True, sm.FP8_CVT),
        ("rn.relu?.f16x2.e4m3x2|e5m2x2", "U = T", True, sm.FP8_CVT),
        ("rn.satfinite.relu?.e2m3x2|e3m2x2.f32", "U = T T", True, sm.FP6_CVT),
        ("rn.relu?.f16x2.e2m3x2|e3m2x2", "U = T", True, sm.FP6_CVT),
        ("rz|rp.satfinite?.ue8m0x2.f32", "U = T T", True, sm.UE8M0_CVT),
        ("rz|rp.satfinite?.ue8m0x2.bf16x2", "U = T", True, sm.UE8M0_CVT),
        ("rn.bf16x2.ue8m0x2", "U = T", True, sm.UE8M0_CVT),
    ),
    "cvta": (
        ("to?.global|local|const.u64", "d = d", True, None), ("to?.shared|shared::cta.u64", "d = d", True, None),
        ("to?.shared::cluster.u64", "d = d", True, sm.CLUSTER), ("param.u64", "d = d", True, None),
    ),
    # ---- memory
    "ld": (
        *_vectors("param|param::entry", "V = A"),
        *_vectors("volatile.local|shared|shared::cta|global?", "V = A"),
        *_vectors("const|local|shared|shared::cta|global?.ca|cg|cs|lu|cv?", "V = A"),
        *_vectors(f"global.{_EVICT}.{_SIZE}", "V = A", sm.LD_EVICT),
        *_vectors(f"global.ca|cg|cs?.nc.{_SIZE}", "V = A", sm.LD_EVICT),
        *_vectors(f"global.nc.{_EVICT}.{_SIZE}", "V = A", sm.LD_EVICT),
        *_vectors(f"global.nc?.{_EVICT}.{_HINT}.L2::64B|L2::128B|L2::256B?", "V = A H", sm.L2_HINT),
        *_vectors(f"relaxed|acquire.cta|gpu|sys.{_SPACE}", "V = A"),
        *_vectors(f"relaxed|acquire.cluster.{_SPACE}", "V = A", sm.CLUSTER),
        *_vectors(f"relaxed|acquire.{_SCOPE}.shared::cluster", "V = A", sm.CLUSTER),
        *_vectors("shared::cluster", "V = A", sm.CLUSTER),
        (f"global.nc?.{_EVICT}.v8.b32|f32", "V = A", False, sm.LD_256),
        (f"global.nc?.{_EVICT}.v4.b64|f64", "V = A", False, sm.LD_256),
    ),
    "st": (
        *_vectors("volatile.local|shared|shared::cta|global?", "A V"),
        *_vectors("local|shared|shared::cta|global?.wb|cg|cs|wt?", "A V"),
        *_vectors(f"relaxed|release.cta|gpu|sys.{_SPACE}", "A V"),
        *_vectors(f"relaxed|release.cluster.{_SPACE}", "A V", sm.CLUSTER),
        *_vectors(f"relaxed|release.{_SCOPE}.shared::cluster", "A V", sm.CLUSTER),
        *_vectors(f"global.{_EVICT}", "A V", sm.LD_EVICT),
        *_vectors(f"global.{_EVICT}.{_HINT}", "A V H", sm.L2_HINT),
        *_vectors("shared::cluster", "A V", sm.CLUSTER),
        (f"global.{_EVICT}.v8.b32|f32", "A V", False, sm.LD_256),
        (f"global.{_EVICT}.v4.b64|f64", "A V", False, sm.LD_256),
        (f"async.shared::cluster.{_TX}.v2|v4?.b32|u32|s32|f32", "A V A", False, sm.TMA),
        (f"async.shared::cluster.{_TX}.v2?.b64|u64|s64|f64", "A V A", False, sm.TMA),
    ),
    "atom": (
        *_atomic("add.u32|s32|u64|f32|f64", "T = A T"),
        *_atomic("and|or|xor|exch.b32|b64", "T = A T"),
        *_atomic("min|max.u32|s32|u64|s64", "T = A T"),
        *_atomic("inc|dec.u32", "T = A T"),
        *_atomic("cas.b16|b32|b64", "T = A T T"),
        *_atomic("add.noftz.f16|f16x2", "T = A T"),
        *_atomic("add.noftz.bf16|bf16x2", "T = A T", sm.ATOM_BF16),
    ),
    "red": (
        *_atomic("add.u32|s32|u64|f32|f64", "A T"),
        *_atomic("and|or|xor.b32|b64", "A T"),
        *_atomic("min|max.u32|s32|u64|s64", "A T"),
        *_atomic("inc|dec.u32", "A T"),
        *_atomic("add.noftz.f16|f16x2", "A T"),
        *_atomic("add.noftz.bf16|bf16x2", "A T", sm.ATOM_BF16),
        (f"async.relaxed.cluster.shared::cluster.{_TX}.add|min|max|inc|dec.u32", "A T A", False, sm.TMA),
        (f"async.relaxed.cluster.shared::cluster.{_TX}.and|or|xor.b32", "A T A", False, sm.TMA),
    ),
    "prefetch": (
        ("global.L1|L2", "A", False, None), ("global.L2::evict_last|L2::evict_normal", "A", False, sm.L2_HINT),
        ("tensormap", "A", False, sm.TMA),
    ),
    "createpolicy": (
        ("fractional.L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged.b64", "d =", True, sm.L2_HINT),
    ),
    # ---- warps
    "shfl": (("sync.up|down|bfly|idx.b32", "r/r|p = r r r r", False, None),),
    "vote": (("sync.all|any|uni.pred", "p = p r", False, None), ("sync.ballot.b32", "r = p r", False, None)),
    "match": (("any.sync.b32|b64", "r = T r", False, None),),
    "activemask": (("b32", "r =", False, None),),
    "redux": (
        ("sync.add|min|max.u32|s32", "r = r r", False, sm.REDUX), ("sync.and|or|xor.b32", "r = r r", False, sm.REDUX),
        ("sync.min|max.abs?.NaN?.f32", "r = r r", False, sm.REDUX_F32),
    ),
    "elect": (("sync", "r|p = r", False, sm.ELECT),),
    "setmaxnreg": (("inc|dec.sync.aligned.u32", "i", False, sm.SETMAXNREG),),
    # ---- matrices
    "ldmatrix": (
        (f"{_MMA}.m8n8.x1|x2|x4.trans?.{_SMEM}.b16", "X = A", False, sm.LDMATRIX),
        (f"{_MMA}.m16n16.x1|x2.trans.{_SMEM}.b8", "X = A", False, sm.MATRIX_B8),
        (f"{_MMA}.m16n16.x1|x2.trans.{_SMEM}.b8x16.b6x16_p32|b4x16_p64", "X = A", False, sm.MATRIX_B8),
        (f"{_MMA}.m8n16.x1|x2|x4.{_SMEM}.b8x16.b6x16_p32|b4x16_p64", "X = A", False, sm.MATRIX_B8),
    ),
    "stmatrix": (
        (f"{_MMA}.m8n8.x1|x2|x4.trans?.{_SMEM}.b16", "A X", False, sm.STMATRIX),
        (f"{_MMA}.m16n8.x1|x2|x4.trans.{_SMEM}.b8", "A X", False, sm.MATRIX_B8),
    ),
    "movmatrix": ((f"{_MMA}.m8n8.trans.b16", "r = r", False, sm.LDMATRIX),),
    "mma": (
        (f"{_MMA}.m16n8k8.row.col.f32.f16.f16.f32", "r4 = r2 r1 r4", True, sm.MMA_F16_M16N8K8),
        (f"{_MMA}.m16n8k8.row.col.f16.f16.f16.f16", "r2 = r2 r1 r2", True, sm.MMA_F16_M16N8K8),
        (f"{_MMA}.m16n8k16.row.col.f32.f16.f16.f32", "r4 = r4 r2 r4", True, sm.MMA_SM80),
        (f"{_MMA}.m16n8k16.row.col.f16.f16.f16.f16", "r2 = r4 r2 r2", True, sm.MMA_SM80),
        (f"{_MMA}.m16n8k8.row.col.f32.bf16.bf16.f32", "r4 = r2 r1 r4", True, sm.MMA_SM80),
        (f"{_MMA}.m16n8k16.row.col.f32.bf16.bf16.f32", "r4 = r4 r2 r4", True, sm.MMA_SM80),
        (f"{_MMA}.m16n8k4.row.col.f32.tf32.tf32.f32", "r4 = r2 r1 r4", True, sm.MMA_SM80),
        (f"{_MMA}.m16n8k8.row.col.f32.tf32.tf32.f32", "r4 = r4 r2 r4", True, sm.MMA_SM80),
        (f"{_MMA}.m8n8k16.row.col.satfinite?.s32.{_INT8}.{_INT8}.s32", "r2 = r1 r1 r2", True, sm.MMA_I8),
        (f"{_MMA}.m16n8k16.row.col.satfinite?.s32.{_INT8}.{_INT8}.s32", "r4 = r2 r1 r4", True, sm.MMA_SM80),
        (f"{_MMA}.m16n8k32.row.col.satfinite?.s32.{_INT8}.{_INT8}.s32", "r4 = r4 r2 r4", True, sm.MMA_SM80),
        (f"{_MMA}.m16n8k16.row.col.f32.e4m3|e5m2.e4m3|e5m2.f32", "r4 = r2 r1 r4", True, sm.MMA_FP8_K16),
        (f"{_MMA}.m16n8k32.row.col.f32.e4m3|e5m2.e4m3|e5m2.f32", "r4 = r4 r2 r4", True, sm.MMA_FP8),
        (f"{_MMA}.m16n8k16.row.col.f16.e4m3|e5m2.e4m3|e5m2.f16", "r2 = r2 r1 r2", True, sm.MMA_FP8_K16),
        (f"{_MMA}.m16n8k32.row.col.f16.e4m3|e5m2.e4m3|e5m2.f16", "r2 = r4 r2 r2", True, sm.MMA_FP8_K16),
        (f"{_MMA}.m8n8k4.row.col.f64.f64.f64.f64", "d2 = d1 d1 d2", True, sm.MMA_SM80),
        (f"{_MMA}.m16n8k4.row.col.f64.f64.f64.f64", "d4 = d2 d1 d4", True, sm.MMA_F64_SM90),
        (f"{_MMA}.m16n8k8.row.col.f64.f64.f64.f64", "d4 = d4 d2 d4", True, sm.MMA_F64_SM90),
        (f"{_MMA}.m16n8k16.row.col.f64.f64.f64.f64", "d4 = d8 d4 d4", True, sm.MMA_F64_SM90),
        (f"{_MMA}.m16n8k32.row.col.kind::f8f6f4.f32.e4m3|e5m2.e4m3|e5m2.f32", "r4 = r4 r2 r4", True, sm.MMA_KIND_F8),
        (f"{_MMA}.m16n8k32.row.col.kind::f8f6f4.f32.{_F8F6F4}.{_F8F6F4}.f32", "r4 = r4 r2 r4", True, sm.MMA_F8F6F4),
        (f"{_MMA}.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.{_F8F6F4}.{_F8F6F4}.f32.ue8m0",
         "r4 = r4 r2 r4 r t r t", True, sm.MMA_F8F6F4),
        (f"{_MMA}.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0",
         "r4 = r4 r2 r4 r t r t", True, sm.MMA_F8F6F4),
        (f"{_MMA}.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0",
         "r4 = r4 r2 r4 r t r t", True, sm.MMA_F8F6F4),
        (f"{_MMA}.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3",
         "r4 = r4 r2 r4 r t r t", True, sm.MMA_F8F6F4),
    ),
    "wgmma": (
        ("fence.sync.aligned", "", False, sm.WGMMA),
        ("commit_group.sync.aligned", "", False, sm.WGMMA),
        ("wait_group.sync.aligned", "i", False, sm.WGMMA),
        # descriptors or registers of A, descriptor of B, whether to add, signs of A and B, [A and B transposed]
        ("mma_async.sync.aligned.m64n*k16.f32|f16.f16.f16", "D = d/r4 d p i i i i?", False, sm.WGMMA),
        ("mma_async.sync.aligned.m64n*k16.f32.bf16.bf16", "D = d/r4 d p i i i i?", False, sm.WGMMA),
        ("mma_async.sync.aligned.m64n*k8.f32.tf32.tf32", "D = d/r4 d p i i", False, sm.WGMMA),
        ("mma_async.sync.aligned.m64n*k32.f32|f16.e4m3|e5m2.e4m3|e5m2", "D = d/r4 d p i i", False, sm.WGMMA),
        (f"mma_async.sync.aligned.m64n*k32.s32.{_INT8}.{_INT8}", "D = d/r4 d p", False, sm.WGMMA),
    ),
    # ---- asynchronous copies
    "cp": (
        (f"async.ca.{_SMEM}.global.{_HINT}.L2::64B|L2::128B|L2::256B?", "A A i r? H", False, sm.CP_ASYNC),
        (f"async.cg.{_SMEM}.global.{_HINT}.L2::64B|L2::128B|L2::256B?", "A A i r? H", False, sm.CP_ASYNC),
        ("async.commit_group", "", False, sm.CP_ASYNC),
        ("async.wait_group", "i", False, sm.CP_ASYNC),
        ("async.wait_all", "", False, sm.CP_ASYNC),
        (f"async.mbarrier.arrive.noinc?.{_SMEM}.b64", "A", False, sm.CP_ASYNC),
        (f"async.bulk.shared::cluster.global.{_TX}.{_HINT}", "A A r A H", False, sm.TMA),
        (f"async.bulk.shared::cluster.global.{_TX}.multicast::cluster.{_HINT}", "A A r A h H", False, sm.TMA),
        (f"async.bulk.shared::cta.global.{_TX}.{_HINT}", "A A r A H", False, sm.BULK_CTA),
        (f"async.bulk.shared::cluster.shared::cta.{_TX}", "A A r A", False, sm.TMA),
        (f"async.bulk.global.shared::cta.bulk_group.{_HINT}", "A A r H", False, sm.TMA),
        ("async.bulk.prefetch.L2.global", "A r", False, sm.TMA),
        ("async.bulk.commit_group", "", False, sm.TMA),
        ("async.bulk.wait_group.read?", "i", False, sm.TMA),
        (f"async.bulk.tensor.{_DIMS}.shared::cluster.global.tile?.{_TX}.{_HINT}", "A m A H", False, sm.TMA),
        (f"async.bulk.tensor.{_DIMS}.shared::cluster.global.tile?.{_TX}.multicast::cluster.{_HINT}", "A m A h H", False,
         sm.TMA),
        (f"async.bulk.tensor.{_DIMS}.shared::cluster.global.tile?.{_TX}.{_GROUP}.{_HINT}", "A m A H", False, sm.TCGEN05),
        (f"async.bulk.tensor.{_DIMS}.shared::cluster.global.tile?.{_TX}.multicast::cluster.{_GROUP}.{_HINT}",
         "A m A h H", False, sm.TCGEN05),
        (f"async.bulk.tensor.{_DIMS}.shared::cta.global.tile?.{_TX}.{_HINT}", "A m A H", False, sm.BULK_CTA),
        (f"async.bulk.tensor.{_DIMS}.global.shared::cta.tile?.bulk_group.{_HINT}", "m A H", False, sm.TMA),
        (f"async.bulk.prefetch.tensor.{_DIMS}.L2.global.tile?", "m", False, sm.TMA),
        ("reduce.async.bulk.global.shared::cta.bulk_group.add.f32|f64|u32|s32|u64", "A A r", False, sm.TMA),
        ("reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f16|bf16", "A A r", False, sm.TMA),
        (f"reduce.async.bulk.tensor.{_DIMS}.global.shared::cta.add|min|max|and|or|xor.tile?.bulk_group", "m A", False, sm.TMA),
    ),
    "tensormap": (
        ("replace.tile.global_address.global|shared::cta.b1024.b64", "A d", False, sm.TENSORMAP),
        ("replace.tile.rank.global|shared::cta.b1024.b32", "A r", False, sm.TENSORMAP),
        ("replace.tile.box_dim|global_dim|element_stride.global|shared::cta.b1024.b32", "A i r", False, sm.TENSORMAP),
        ("replace.tile.global_stride.global|shared::cta.b1024.b64", "A i d", False, sm.TENSORMAP),
        ("replace.tile.elemtype|interleave_layout|swizzle_mode|fill_mode.global|shared::cta.b1024.b32", "A i", False,
         sm.TENSORMAP),
        (f"cp_fenceproxy.global.shared::cta.tensormap::generic.release.{_SCOPE}.sync.aligned", "A A i", False,
         sm.TENSORMAP_FENCE),
    ),
    # ---- order
    "bar": (
        ("sync", "r r?", False, None), ("arrive", "r r", False, None), ("warp.sync", "r", False, None),
        ("red.and|or.pred", "p = r p", False, None), ("red.popc.u32", "r = r p", False, None),
    ),
    "barrier": (
        ("cta?.sync.aligned?", "r r?", False, None), ("cta?.arrive.aligned?", "r r", False, None),
        ("cta?.red.and|or.aligned?.pred", "p = r p", False, None),
        ("cluster.arrive.release|relaxed?.aligned?", "", False, sm.CLUSTER),
        ("cluster.wait.acquire?.aligned?", "", False, sm.CLUSTER),
    ),
    "membar": (("cta|gl|sys", "", False, None),),
    "fence": (
        ("sc|acq_rel.cta|gpu|sys", "", False, None), ("sc|acq_rel.cluster", "", False, sm.CLUSTER),
        ("proxy.alias", "", False, None),
        ("proxy.async", "", False, sm.TMA),
        ("proxy.async.global|shared::cta|shared::cluster", "", False, sm.TMA),
        ("mbarrier_init.release.cluster", "", False, sm.TMA),
        (f"proxy.tensormap::generic.release.{_SCOPE}", "", False, sm.TENSORMAP_FENCE),
        (f"proxy.tensormap::generic.acquire.{_SCOPE}", "A i", False, sm.TENSORMAP_FENCE),
    ),
    "mbarrier": (
        (f"init.{_SMEM}.b64", "A r", False, sm.MBARRIER),
        (f"inval.{_SMEM}.b64", "A", False, sm.MBARRIER),
        (f"arrive.{_SMEM}.b64", "d = A", False, sm.MBARRIER),
        (f"arrive.{_SMEM}.b64", "d = A r", False, sm.TMA),
        (f"arrive.release.cta.{_SMEM}.b64", "d = A", False, sm.MBARRIER),
        (f"arrive.release.cta.{_SMEM}.b64", "d = A r", False, sm.TMA),
        (f"arrive.release.cluster.{_SMEM}.b64", "d = A r?", False, sm.TMA),
        (f"arrive.relaxed.cta|cluster.{_SMEM}.b64", "d = A r?", False, sm.TMA),
        (f"arrive.expect_tx.{_SMEM}.b64", "d = A r", False, sm.TMA),
        (f"arrive.expect_tx.release|relaxed.cta|cluster.{_SMEM}.b64", "d = A r", False, sm.TMA),
        ("arrive.shared::cluster.b64", "N = A r?", False, sm.TMA),
        ("arrive.release|relaxed.cluster.shared::cluster.b64", "N = A r?", False, sm.TMA),
        ("arrive.expect_tx.shared::cluster.b64", "N = A r", False, sm.TMA),
        ("arrive.expect_tx.release|relaxed.cluster.shared::cluster.b64", "N = A r", False, sm.TMA),
        (f"arrive_drop.{_SMEM}.b64", "d = A", False, sm.MBARRIER),
        (f"expect_tx|complete_tx.{_SMEM}|shared::cluster.b64", "A r", False, sm.TMA),
        (f"expect_tx|complete_tx.relaxed.cta|cluster.{_SMEM}|shared::cluster.b64", "A r", False, sm.TMA),
        (f"test_wait.{_SMEM}.b64", "p = A d", False, sm.MBARRIER),
        (f"test_wait.parity.{_SMEM}.b64", "p = A r", False, sm.MBARRIER),
        (f"try_wait.{_SMEM}.b64", "p = A d r?", False, sm.MBARRIER_TRY),
        (f"try_wait.acquire|relaxed.cta|cluster.{_SMEM}.b64", "p = A d r?", False, sm.MBARRIER_TRY),
        (f"try_wait.parity.{_SMEM}.b64", "p = A r r?", False, sm.MBARRIER_TRY),
        (f"try_wait.parity.acquire|relaxed.cta|cluster.{_SMEM}.b64", "p = A r r?", False, sm.MBARRIER_TRY),
        ("pending_count.b64", "r = d", False, sm.MBARRIER),
    ),
    # ---- clusters
    "mapa": (
        ("shared::cluster?.u32", "r = r r", True, sm.CLUSTER), ("shared::cluster?.u64", "d = d r", True, sm.CLUSTER),
    ),
    "getctarank": (("shared::cluster?.u32", "r = r", True, sm.CLUSTER), ("shared::cluster?.u64", "r = d", True, sm.CLUSTER)),
    "clusterlaunchcontrol": (
        (f"try_cancel.async.shared::cta?.{_TX}.b128", "A A", False, sm.CLUSTER_CONTROL),
        (f"try_cancel.async.shared::cta?.{_TX}.multicast::cluster::all.b128", "A A", False, sm.CLUSTER_CONTROL_MULTICAST),
    ),
    "griddepcontrol": (("wait|launch_dependents", "", False, sm.GDC),),
    # ---- tensor memory
    "tcgen05": (
        (f"alloc.{_GROUP}.sync.aligned.shared::cta?.b32", "A r", False, sm.TCGEN05),
        (f"dealloc.{_GROUP}.sync.aligned.b32", "r r", False, sm.TCGEN05),
        (f"relinquish_alloc_permit.{_GROUP}.sync.aligned", "", False, sm.TCGEN05),
        ("fence::before_thread_sync|fence::after_thread_sync", "", False, sm.TCGEN05),
        ("wait::ld|wait::st.sync.aligned", "", False, sm.TCGEN05),
        ("ld.sync.aligned.32x32b|16x64b|16x128b|16x256b.x1|x2|x4|x8|x16|x32|x64|x128.pack::16b?.b32", "Y = A", False, sm.TCGEN05),
        ("st.sync.aligned.32x32b|16x64b|16x128b|16x256b.x1|x2|x4|x8|x16|x32|x64|x128.unpack::16b?.b32", "A Y", False, sm.TCGEN05),
        # .. rows 0 to 15 once more for the upper lanes, from so many columns on
        ("ld.sync.aligned.16x32bx2.x1|x2|x4|x8|x16|x32|x64|x128.pack::16b?.b32", "Y = A i", False, sm.TCGEN05),
        ("st.sync.aligned.16x32bx2.x1|x2|x4|x8|x16|x32|x64|x128.unpack::16b?.b32", "A i Y", False, sm.TCGEN05),
        (f"commit.{_GROUP}.mbarrier::arrive::one.shared::cluster?.b64", "A", False, sm.TCGEN05),
        (f"commit.{_GROUP}.mbarrier::arrive::one.shared::cluster?.multicast::cluster.b64", "A h", False, sm.TCGEN05),
        (f"cp.{_GROUP}.128x256b|4x256b|128x128b", "A d", False, sm.TCGEN05),
        (f"cp.{_GROUP}.64x128b.warpx2::02_13|warpx2::01_23", "A d", False, sm.TCGEN05),
        (f"cp.{_GROUP}.32x128b.warpx4", "A d", False, sm.TCGEN05),
        (f"shift.{_GROUP}.down", "A", False, sm.TCGEN05_SHIFT),
        # accumulator, A (descriptor or tensor memory), descriptor of B, instruction descriptor, [lanes], whether to add
        (f"mma.{_GROUP}.kind::f16|kind::tf32|kind::f8f6f4", "A d/A d r t? p", False, sm.TCGEN05),
        (f"mma.{_GROUP}.kind::i8", "A d/A d r t? p", False, sm.TCGEN05_I8),
        # .. with the addresses of both scales
        (f"mma.{_GROUP}.kind::mxf8f6f4|kind::mxf4.block_scale", "A d/A d r A A p", False, sm.TCGEN05),
        (f"mma.{_GROUP}.kind::mxf8f6f4|kind::mxf4.block_scale.block32", "A d/A d r A A p", False, sm.TCGEN05_BLOCK),
        (f"mma.{_GROUP}.kind::mxf4nvf4.block_scale.block16|block32", "A d/A d r A A p", False, sm.TCGEN05_BLOCK),
    ),
    # ---- control
    "bra": (("uni?", "L", False, None),),
    "ret": (("", "", False, None),), "exit": (("", "", False, None),), "trap": (("", "", False, None),),
    "nanosleep": (("u32", "r", False, None),),
    # ---- what PTX has no instruction of that shape for: printed by ptx/text.py, each in its own way
    "call": (("uni", "r? = N t", False, None),),  # name, arguments: a block of its own around the call
    "loc": (("", "t", False, None),),  # a position of the source, as nvvm/code.py's DebugTable numbers it
    "pragma": (("", "s", False, None),),
    "launch": (("", "N *", False, None),),  # of another kernel: the host's to do, never printed
}  # fmt: skip
