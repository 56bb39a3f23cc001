"""Integer, logic, predicate and move instructions."""

from __future__ import annotations

from .gen import FLAVOUR_BITS, BlockGen, flavour_of, handles
from .syntax import WIDTH_BITS, Inst

_CMP = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "lo": "<",
    "ls": "<=",
    "hi": ">",
    "hs": ">=",
}
_UNORDERED = {"equ": "==", "neu": "!=", "ltu": "<", "leu": "<=", "gtu": ">", "geu": ">="}
FLOATS = {"f16", "bf16", "f32", "f64", "f16x2", "bf16x2", "f32x2"}


def type_of(inst: Inst) -> str:
    """The last modifier that is a type."""
    for m in reversed(inst.mods):
        if m in WIDTH_BITS:
            return m
    return ""


def is_float(inst: Inst) -> bool:
    return type_of(inst) in FLOATS


@handles("mov")
def mov(g: BlockGen, inst: Inst) -> None:
    type_ = type_of(inst)
    flavour = (
        "pred"
        if type_ == "pred"
        else {1: "pred", 8: "u8", 16: "u16", 32: "u32", 64: "u64", 128: "v16"}[WIDTH_BITS[type_]]
    )
    dst, src = inst.ops
    if dst[0] == "vec" and src[0] == "vec":
        values = [g.use(s, "u32") for s in src[1]]
        for d, v in zip(dst[1], values):
            g.set(d, "u32", v)
        return
    if type_ in ("f32", "f64") and src[0] != "sym":
        flavour = type_
    g.set(dst, flavour, g.use(src, flavour))


@handles("cvta")
def cvta(g: BlockGen, inst: Inst) -> None:
    """Address conversion: shared and local windows are offsets, everything else is a host address already."""
    space = next(
        m for m in inst.mods if m.partition("::")[0] in ("global", "shared", "local", "const", "param")
    )
    flavour = "u64" if type_of(inst) == "u64" else "u32"
    src = inst.ops[1]
    value = g.use(src, flavour)
    base = space.partition("::")[0]
    window = {"shared": "SHARED_WINDOW", "local": "LOCAL_WINDOW"}.get(base)
    if base == "param" and g.unit.param_is_local(src):
        window = "LOCAL_WINDOW"
    if window is None:
        g.set(inst.ops[0], flavour, value)
    elif "to" in inst.mods:
        g.set(inst.ops[0], flavour, f"({value} - {window})" if flavour == "u64" else value)
    else:
        g.set(inst.ops[0], flavour, f"({value} + {window})" if flavour == "u64" else value)


@handles("isspacep")
def isspacep(g: BlockGen, inst: Inst) -> None:
    value = g.use(inst.ops[1], "u64")
    space = inst.mods[0].partition("::")[0]
    g.set(inst.ops[0], "pred", f"B.in_space({value}, '{space}')")


_SIMPLE = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^"}


def int_binary(g: BlockGen, inst: Inst) -> None:
    """add, sub, and, or, xor on integers and predicates."""
    type_ = type_of(inst)
    flavour = flavour_of(type_)
    a, b = g.use(inst.ops[1], flavour), g.use(inst.ops[2], flavour)
    if "cc" in inst.mods:
        unsigned = f"u{FLAVOUR_BITS[flavour]}"
        a, b = g.use(inst.ops[1], unsigned), g.use(inst.ops[2], unsigned)
        pair = g.tmp(f"{'wide_add' if inst.op == 'add' else 'wide_sub'}({a}, {b}, None)")
        g.set(inst.ops[0], unsigned, f"{pair}[0]")
        g.set(g.unit.cc(g), "pred", f"{pair}[1]")
        return
    if "sat" in inst.mods:
        g.set(inst.ops[0], "s32", f"clamp_int({a}.astype(np.int64) {_SIMPLE[inst.op]} {b}, 32, True)")
        return
    g.set(inst.ops[0], flavour, f"{a} {_SIMPLE[inst.op]} {b}")


handles("and", "or", "xor")(int_binary)


@handles("addc", "subc")
def addc(g: BlockGen, inst: Inst) -> None:
    flavour = f"u{WIDTH_BITS[type_of(inst)]}"
    a, b = g.use(inst.ops[1], flavour), g.use(inst.ops[2], flavour)
    cc = g.use(g.unit.cc(g), "pred")
    pair = g.tmp(f"{'wide_add' if inst.op == 'addc' else 'wide_sub'}({a}, {b}, {cc})")
    g.set(inst.ops[0], flavour, f"{pair}[0]")
    if "cc" in inst.mods:
        g.set(g.unit.cc(g), "pred", f"{pair}[1]")


def product(g: BlockGen, inst: Inst, type_: str, part: str) -> tuple[str, str]:
    """(expression, flavour) of mul.lo / mul.hi / mul.wide."""
    bits = WIDTH_BITS[type_]
    signed = type_[0] == "s"
    flavour = f"{'s' if signed else 'u'}{bits}"
    a, b = g.use(inst.ops[1], flavour), g.use(inst.ops[2], flavour)
    if part == "lo":
        return f"({a} * {b})", flavour
    if part == "wide":
        wide = f"np.{'' if signed else 'u'}int{2 * bits}"
        return f"({a}.astype({wide}) * {b})", f"{flavour[0]}{2 * bits}"
    if bits == 64:
        return f"mulhi_{flavour}({a}, {b})", flavour
    wide = f"np.{'' if signed else 'u'}int{2 * bits}"
    return (
        f"(({a}.astype({wide}) * {b}) >> {wide}({bits})).astype(np.{'' if signed else 'u'}int{bits})",
        flavour,
    )


def int_mul(g: BlockGen, inst: Inst) -> None:
    part = next((m for m in inst.mods if m in ("lo", "hi", "wide")), "lo")
    expr, flavour = product(g, inst, type_of(inst), part)
    g.set(inst.ops[0], flavour, expr)


def int_mad(g: BlockGen, inst: Inst) -> None:
    part = next((m for m in inst.mods if m in ("lo", "hi", "wide")), "lo")
    expr, flavour = product(g, inst, type_of(inst), part)
    if "sat" in inst.mods:
        c = g.use(inst.ops[3], "s32")
        g.set(inst.ops[0], "s32", f"clamp_int({expr}.astype(np.int64) + {c}, 32, True)")
        return
    if "cc" in inst.mods or inst.op == "madc":
        unsigned = f"u{FLAVOUR_BITS[flavour]}"
        c = g.use(inst.ops[3], unsigned)
        carry = g.use(g.unit.cc(g), "pred") if inst.op == "madc" else "None"
        pair = g.tmp(f"mad_carry({expr}.view(np.uint{unsigned[1:]}), {c}, {carry})")
        g.set(inst.ops[0], unsigned, f"{pair}[0]")
        if "cc" in inst.mods:
            g.set(g.unit.cc(g), "pred", f"{pair}[1]")
        return
    g.set(inst.ops[0], flavour, f"{expr} + {g.use(inst.ops[3], flavour)}")


handles("madc")(int_mad)


@handles("mul24", "mad24")
def mul24(g: BlockGen, inst: Inst) -> None:
    signed = type_of(inst)[0] == "s"
    flavour = "s32" if signed else "u32"
    a, b = g.use(inst.ops[1], flavour), g.use(inst.ops[2], flavour)
    cut = (
        "(({0}.astype(np.int64) << 40) >> 40)" if signed else "({0}.astype(np.uint64) & np.uint64(0xFFFFFF))"
    )
    p = g.tmp(f"{cut.format(a)} * {cut.format(b)}")
    kind = "np.int32" if signed else "np.uint32"
    expr = (
        f"({p} >> {'np.int64' if signed else 'np.uint64'}(16)).astype({kind})"
        if "hi" in inst.mods
        else f"{p}.astype({kind})"
    )
    if inst.op == "mad24":
        c = g.use(inst.ops[3], flavour)
        if "sat" in inst.mods:
            expr = f"clamp_int({expr}.astype(np.int64) + {c}, 32, True)"
        else:
            expr = f"{expr} + {c}"
    g.set(inst.ops[0], flavour, expr)


@handles("sad")
def sad(g: BlockGen, inst: Inst) -> None:
    flavour = type_of(inst)
    a, b, c = (g.use(op, flavour) for op in inst.ops[1:4])
    g.set(inst.ops[0], flavour, f"sad({a}, {b}, {c})")


@handles("rem")
def rem(g: BlockGen, inst: Inst) -> None:
    flavour = type_of(inst)
    g.set(inst.ops[0], flavour, f"remainder({g.use(inst.ops[1], flavour)}, {g.use(inst.ops[2], flavour)})")


def int_div(g: BlockGen, inst: Inst) -> None:
    flavour = type_of(inst)
    g.set(inst.ops[0], flavour, f"divide({g.use(inst.ops[1], flavour)}, {g.use(inst.ops[2], flavour)})")


def int_unary(g: BlockGen, inst: Inst) -> None:
    """abs and neg."""
    flavour = type_of(inst)
    a = g.use(inst.ops[1], flavour)
    g.set(inst.ops[0], flavour, f"np.abs({a})" if inst.op == "abs" else f"-{a}")


def int_minmax(g: BlockGen, inst: Inst) -> None:
    type_ = type_of(inst)
    flavour = flavour_of(type_)
    values = [g.use(op, flavour) for op in inst.ops[1:]]
    expr = values[0]
    for v in values[1:]:
        expr = f"np.{inst.op}imum({expr}, {v})"
    if "relu" in inst.mods:
        expr = f"np.maximum({expr}, np.{'int16' if '16' in flavour else 'int32'}(0))"
    g.set(inst.ops[0], flavour, expr)


@handles("not", "cnot")
def not_(g: BlockGen, inst: Inst) -> None:
    flavour = flavour_of(type_of(inst))
    a = g.use(inst.ops[1], flavour)
    g.set(inst.ops[0], flavour, f"~{a}" if inst.op == "not" else f"({a} == 0).astype({a}.dtype)")


@handles("shl", "shr")
def shift(g: BlockGen, inst: Inst) -> None:
    flavour = flavour_of(type_of(inst))
    n = inst.ops[2]
    a = g.use(inst.ops[1], flavour)
    if n[0] == "imm" and 0 <= n[1] < FLAVOUR_BITS[flavour]:
        amount = g.use(("imm", n[1], "int"), flavour)
        g.set(inst.ops[0], flavour, f"{a} {'<<' if inst.op == 'shl' else '>>'} {amount}")
        return
    g.set(inst.ops[0], flavour, f"{inst.op}({a}, {g.use(n, 'u32')})")


@handles("shf")
def shf(g: BlockGen, inst: Inst) -> None:
    a, b, c = (g.use(op, "u32") for op in inst.ops[1:4])
    g.set(inst.ops[0], "u32", f"funnel({a}, {b}, {c}, {'l' in inst.mods}, {'clamp' in inst.mods})")


@handles("lop3")
def lop3(g: BlockGen, inst: Inst) -> None:
    ops = inst.ops
    a, b, c = (g.use(op, "u32") for op in ops[1:4])
    value = g.tmp(f"lop3({a}, {b}, {c}, {ops[4][1] & 255})")
    boolean = next((m for m in inst.mods if m in ("and", "or")), None)
    if boolean is None:
        g.set(ops[0], "u32", value)
        return
    q = g.use(ops[5], "pred")
    dst, p = (ops[0][1], ops[0][2]) if ops[0][0] == "pair" else (ops[0], ("sink",))
    pred = g.tmp(f"({value} != 0) {'&' if boolean == 'and' else '|'} {q}")
    g.set(dst, "u32", value)
    g.set(p, "pred", pred)


@handles("bfe")
def bfe(g: BlockGen, inst: Inst) -> None:
    flavour = type_of(inst)
    g.set(
        inst.ops[0],
        flavour,
        f"bfe({g.use(inst.ops[1], flavour)}, {g.use(inst.ops[2], 'u32')}, {g.use(inst.ops[3], 'u32')})",
    )


@handles("bfi")
def bfi(g: BlockGen, inst: Inst) -> None:
    flavour = flavour_of(type_of(inst))
    a, b = g.use(inst.ops[1], flavour), g.use(inst.ops[2], flavour)
    g.set(inst.ops[0], flavour, f"bfi({a}, {b}, {g.use(inst.ops[3], 'u32')}, {g.use(inst.ops[4], 'u32')})")


@handles("bfind")
def bfind(g: BlockGen, inst: Inst) -> None:
    type_ = type_of(inst)
    bits = WIDTH_BITS[type_]
    a = g.use(inst.ops[1], f"u{bits}")
    if type_[0] == "s":
        signed = g.use(inst.ops[1], f"s{bits}")
        a = g.tmp(f"where({signed} < 0, ~{a}, {a})")
    y = g.tmp(f"leading({a})")
    if "shiftamt" in inst.mods:
        y = g.tmp(f"where({y} < 0, {y}, np.int32({bits - 1}) - {y})")
    g.set(inst.ops[0], "u32", f"{y}.view(np.uint32)")


@handles("brev")
def brev(g: BlockGen, inst: Inst) -> None:
    flavour = flavour_of(type_of(inst))
    g.set(inst.ops[0], flavour, f"reverse_bits({g.use(inst.ops[1], flavour)})")


@handles("popc")
def popc(g: BlockGen, inst: Inst) -> None:
    g.set(inst.ops[0], "u32", f"popcount({g.use(inst.ops[1], flavour_of(type_of(inst)))})")


@handles("clz")
def clz(g: BlockGen, inst: Inst) -> None:
    flavour = flavour_of(type_of(inst))
    bits = FLAVOUR_BITS[flavour]
    a = g.use(inst.ops[1], flavour)
    g.set(inst.ops[0], "u32", f"(np.int32({bits - 1}) - leading({a})).view(np.uint32)")


@handles("fns")
def fns(g: BlockGen, inst: Inst) -> None:
    a, b, c = g.use(inst.ops[1], "u32"), g.use(inst.ops[2], "u32"), g.use(inst.ops[3], "s32")
    g.set(inst.ops[0], "u32", f"fns({a}, {b}, {c})")


@handles("prmt")
def prmt(g: BlockGen, inst: Inst) -> None:
    mode = next((m for m in inst.mods if m != "b32"), "")
    a, b, c = (g.use(op, "u32") for op in inst.ops[1:4])
    g.set(inst.ops[0], "u32", f"prmt({a}, {b}, {c}, '{mode}')")


@handles("bmsk")
def bmsk(g: BlockGen, inst: Inst) -> None:
    a, b = g.use(inst.ops[1], "u32"), g.use(inst.ops[2], "u32")
    g.set(inst.ops[0], "u32", f"bmsk({a}, {b}, {'clamp' in inst.mods})")


@handles("szext")
def szext(g: BlockGen, inst: Inst) -> None:
    flavour = type_of(inst)
    a, b = g.use(inst.ops[1], flavour), g.use(inst.ops[2], "u32")
    g.set(inst.ops[0], flavour, f"szext({a}, {b}, {'clamp' in inst.mods})")


@handles("dp4a", "dp2a")
def dp(g: BlockGen, inst: Inst) -> None:
    at, bt = [m for m in inst.mods if m in ("u32", "s32")]
    a, b = g.use(inst.ops[1], "u32"), g.use(inst.ops[2], "u32")
    out = "u32" if at == bt == "u32" else "s32"
    c = g.use(inst.ops[3], out)
    part = {"s": "int8", "u": "uint8"}
    wide = {"s": "int16", "u": "uint16"}
    if inst.op == "dp4a":
        expr = f"dot({a}, {b}, {c}, '{part[at[0]]}', '{part[bt[0]]}', None)"
    else:
        expr = f"dot({a}, {b}, {c}, '{wide[at[0]]}', '{part[bt[0]]}', {'hi' in inst.mods})"
    g.set(inst.ops[0], out, expr)


_SIMD = ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax", "vset")


@handles(*(f"{name}{parts}" for name in _SIMD for parts in (2, 4)))
def simd(g: BlockGen, inst: Inst) -> None:
    """Words as two or four parts, without masks and selectors: c is what masked parts would keep."""
    types = [m for m in inst.mods if m in ("u32", "s32")]
    bits = 32 // int(inst.op[-1])
    kinds = tuple(f"{'u' if t == 'u32' else ''}int{bits}" for t in types)
    name = next(m for m in inst.mods if m in _CMP) if inst.op.startswith("vset") else inst.op[:-1]
    if len(kinds) == 2:  # vset has no type of its own for the result
        kinds = (f"uint{bits}", *kinds)
    a, b = g.use(inst.ops[1], "u32"), g.use(inst.ops[2], "u32")
    total = g.use(inst.ops[3], "u32") if "add" in inst.mods else "None"
    g.set(inst.ops[0], "u32", f"simd({name!r}, {kinds!r}, {a}, {b}, {'sat' in inst.mods}, {total})")


# comparison and selection
def comparison(g: BlockGen, a: str, b: str, cmp: str, floating: bool) -> str:
    if cmp == "num":
        return f"(({a} == {a}) & ({b} == {b}))"
    if cmp == "nan":
        return f"(({a} != {a}) | ({b} != {b}))"
    if floating and cmp in _UNORDERED:
        if cmp == "neu":
            return f"({a} != {b})"
        return f"(({a} {_UNORDERED[cmp]} {b}) | ({a} != {a}) | ({b} != {b}))"
    if floating and cmp == "ne":
        return f"(({a} != {b}) & ({a} == {a}) & ({b} == {b}))"
    return f"({a} {_CMP[cmp]} {b})"


def compare(g: BlockGen, inst: Inst, cmp: str, type_: str, ops: list) -> str:
    flavour = flavour_of(type_)
    if cmp in ("lo", "ls", "hi", "hs"):
        flavour = f"u{WIDTH_BITS[type_]}"
    a, b = g.use(ops[0], flavour), g.use(ops[1], flavour)
    if "ftz" in inst.mods:
        fn = "flush32" if type_ == "f32" else "flush16"
        a, b = g.tmp(f"{fn}({a})"), g.tmp(f"{fn}({b})")
    return g.tmp(comparison(g, a, b, cmp, type_ in FLOATS))


@handles("setp")
def setp(g: BlockGen, inst: Inst) -> None:
    type_ = type_of(inst)
    names = [m for m in inst.mods if m not in ("ftz", type_)]
    result = compare(g, inst, names[0], type_, inst.ops[1:3])
    dst = inst.ops[0]
    p, q = (dst[1], dst[2]) if dst[0] == "pair" else (dst, None)
    if type_ in ("f16x2", "bf16x2"):
        low, high = g.tmp(f"{result}[:, 0].copy()"), g.tmp(f"{result}[:, 1].copy()")
        if len(names) > 1:
            c = g.use(inst.ops[3], "pred")
            sign = {"and": "&", "or": "|", "xor": "^"}[names[1]]
            low, high = g.tmp(f"{low} {sign} {c}"), g.tmp(f"{high} {sign} {c}")
        g.set(p, "pred", low)
        g.set(q, "pred", high)
        return
    inverse = g.tmp(f"~{result}")
    if len(names) > 1:
        c = g.use(inst.ops[3], "pred")
        sign = {"and": "&", "or": "|", "xor": "^"}[names[1]]
        result, inverse = g.tmp(f"{result} {sign} {c}"), g.tmp(f"{inverse} {sign} {c}")
    g.set(p, "pred", result)
    if q is not None:
        g.set(q, "pred", inverse)


@handles("set")
def set_(g: BlockGen, inst: Inst) -> None:
    types = [m for m in inst.mods if m in WIDTH_BITS]
    names = [m for m in inst.mods if m not in ("ftz", *types)]
    result = compare(g, inst, names[0], types[-1], inst.ops[1:3])
    if len(names) > 1:
        c = g.use(inst.ops[3], "pred")
        if types[-1] in ("f16x2", "bf16x2"):
            c = f"{c}.reshape(-1, 1)"
        result = g.tmp(f"{result} {({'and': '&', 'or': '|', 'xor': '^'})[names[1]]} {c}")
    dtype = types[0]
    if dtype in ("f16x2", "bf16x2"):
        flavour = flavour_of(dtype)
        g.set(inst.ops[0], flavour, f"{result}.astype(np.{'float16' if flavour == 'h2' else 'float32'})")
    elif types[-1] in ("f16x2", "bf16x2"):
        g.set(inst.ops[0], "u32", f"packed2(where({result}, np.uint16(0xFFFF), np.uint16(0)))")
    elif dtype in ("f32", "f16", "bf16", "f64"):
        kind = {"f16": "float16", "f64": "float64"}.get(dtype, "float32")
        g.set(inst.ops[0], flavour_of(dtype), f"{result}.astype(np.{kind})")
    else:
        bits = WIDTH_BITS[dtype]
        g.set(inst.ops[0], f"u{bits}", f"where({result}, np.uint{bits}({(1 << bits) - 1}), np.uint{bits}(0))")


@handles("selp")
def selp(g: BlockGen, inst: Inst) -> None:
    flavour = flavour_of(type_of(inst))
    a, b = g.use(inst.ops[1], flavour), g.use(inst.ops[2], flavour)
    g.set(inst.ops[0], flavour, f"where({g.use(inst.ops[3], 'pred')}, {a}, {b})")


@handles("slct")
def slct(g: BlockGen, inst: Inst) -> None:
    types = [m for m in inst.mods if m in WIDTH_BITS]
    flavour = flavour_of(types[0])
    a, b, c = g.use(inst.ops[1], flavour), g.use(inst.ops[2], flavour), g.use(inst.ops[3], types[1])
    if "ftz" in inst.mods:
        c = g.tmp(f"flush32({c})")
    g.set(inst.ops[0], flavour, f"where({c} >= 0, {a}, {b})")
