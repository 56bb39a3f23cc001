"""Instruction rows: what an opcode yields, whether it is pure, and what it needs of a target.

`resolve(opcode)` reads the modifiers once per distinct opcode. The result class follows from the row's form:
"last" (type of the last modifier), "cvt" (the type before the last), "wide" (twice the last type), "pred"
(setp), "none" (no result), or a fixed class letter.
Source: PTX ISA manual, per-instruction "Target ISA notes".
"""

from __future__ import annotations

from tileiras.compiler.target import sm

CLASS_OF_TYPE = {
    "pred": "p",
    "b8": "h", "u8": "h", "s8": "h",
    "b16": "h", "u16": "h", "s16": "h", "f16": "h", "bf16": "h", "e4m3x2": "h", "e5m2x2": "h", "ue8m0x2": "h",
    "b32": "r", "u32": "r", "s32": "r", "f32": "r", "f16x2": "r", "bf16x2": "r", "tf32": "r", "u16x2": "r", "s16x2": "r",
    "b64": "d", "u64": "d", "s64": "d", "f64": "d",
}  # fmt: skip
_WIDE = {"u16": "r", "s16": "r", "u32": "d", "s32": "d"}

# name -> (form, pure)
FORMS: dict[str, tuple[str, bool]] = {
    **dict.fromkeys((
        "mov", "add", "sub", "mad", "fma", "div", "rem", "abs", "neg", "min", "max", "and", "or", "xor",
        "not", "shl", "shr", "selp", "sqrt", "rsqrt", "rcp", "ex2", "lg2", "sin", "cos", "tanh", "copysign",
        "lop3", "bfi", "bfe", "brev", "prmt", "sad", "cnot", "slct", "mul24", "mad24", "set",
    ), ("last", True)),
    "mul": ("last", True),
    "setp": ("pred", True),
    "testp": ("pred", True),
    "cvt": ("cvt", True),
    "cvta": ("last", True),
    "popc": ("r", True), "clz": ("r", True), "bfind": ("r", True), "shf": ("last", True), "dp4a": ("r", True),
    "ld": ("last", False), "atom": ("last", False), "shfl": ("last", False), "redux": ("last", False),
    "vote": ("vote", False), "activemask": ("r", False), "ldmatrix": ("none", False), "elect": ("none", False),
    "add.cc": ("last", False), "addc": ("last", False),
    "mma": ("none", True),
    "st": ("none", False), "red": ("none", False), "bar": ("none", False), "barrier": ("none", False),
    "bra": ("none", False), "ret": ("none", False), "exit": ("none", False), "trap": ("none", False),
    "membar": ("none", False), "fence": ("none", False), "cp": ("none", False), "stmatrix": ("none", False),
    "griddepcontrol": ("none", False), "nanosleep": ("none", False), "call": ("none", False),
    "prefetch": ("none", False), "mbarrier": ("none", False), "isspacep": ("pred", True),
}  # fmt: skip


class Resolved:
    """An opcode after its modifiers were read: result class, purity, needed feature (None: base of sm_75)."""

    __slots__ = ("cls", "need", "pure")

    def __init__(self, cls: str | None, pure: bool, need: str | None) -> None:
        self.cls = cls
        self.pure = pure
        self.need = need


_CACHE: dict[str, Resolved] = {}


def resolve(opcode: str) -> Resolved:
    """The row of an opcode; ValueError for one that no row covers (a bug of ours, never of the input)."""
    found = _CACHE.get(opcode)
    if found is None:
        found = _CACHE.setdefault(opcode, _resolve(opcode))
    return found


def _resolve(opcode: str) -> Resolved:
    parts = opcode.split(".")
    name = parts[0]
    row = FORMS.get(name)
    if row is None:
        raise ValueError(f"no instruction row for {opcode!r}")
    form, pure = row
    cls: str | None
    if form == "last":
        cls = CLASS_OF_TYPE[parts[-1]]
        if name == "mul" and parts[1] == "wide" or name == "mad" and parts[1] == "wide":
            cls = _WIDE[parts[-1]]
    elif form == "cvt":
        cls = CLASS_OF_TYPE[parts[-2]]
    elif form == "pred":
        cls = "p"
    elif form == "vote":
        cls = "r" if "ballot" in parts else "p"
    elif form == "none":
        cls = None
    else:
        cls = form
    if "volatile" in parts:
        pure = False
    return Resolved(cls, pure, _need(name, parts))


def _need(name: str, parts: list[str]) -> str | None:
    """The feature an opcode needs beyond sm_75."""
    if name == "cvt":
        if any(p in ("e2m1x2",) for p in parts):
            return sm.FP4_CVT
        if any(p == "ue8m0x2" for p in parts):
            return sm.UE8M0_CVT
        if any(p in ("e4m3x2", "e5m2x2") for p in parts):
            return sm.FP8_CVT
        if "tf32" in parts:
            return sm.CVT_TF32 if "rna" in parts else sm.CVT_TF32_RN
        if "bf16" in parts or "bf16x2" in parts:
            return sm.BF16_CVT
        return None
    last = parts[-1]
    if name in ("add", "sub", "mul") and last in ("bf16", "bf16x2"):
        return sm.BF16_ADD
    if name in ("fma", "neg", "abs", "min", "max") and last in ("bf16", "bf16x2"):
        return sm.BF16_ARITH
    if name in ("min", "max"):
        if "NaN" in parts:
            return sm.MINMAX_NAN
        if last in ("f16", "f16x2"):
            return sm.F16_MINMAX
    if name == "mma":
        if "e4m3" in parts or "e5m2" in parts:
            return sm.MMA_FP8
        if "m16n8k8" in parts and parts[-2] == "f16":
            return sm.MMA_F16_M16N8K8
        if "m8n8k16" in parts:
            return None
        return sm.MMA_SM80
    if name == "cp":
        return sm.TMA if "bulk" in parts else sm.CP_ASYNC
    if name == "redux":
        return sm.REDUX
    if name == "stmatrix":
        return sm.STMATRIX
    if name == "griddepcontrol":
        return sm.GDC
    if name in ("atom", "red") and last in ("bf16", "bf16x2"):
        return sm.ATOM_BF16
    return None
