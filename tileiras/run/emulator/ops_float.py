"""Floating-point arithmetic; add, sub, mul, mad, div, min, max, abs, neg also send integers to `ops_int`."""

from __future__ import annotations

from . import ops_int
from .gen import BlockGen, flavour_of, handles
from .ops_int import is_float, type_of
from .syntax import Inst

_ROUND = ("rn", "rz", "rm", "rp")


def _mode(inst: Inst) -> str:
    return next((m for m in inst.mods if m in _ROUND), "rn")


def _args(g: BlockGen, inst: Inst, type_: str, ops: list) -> list[str]:
    """Operands, flushed under .ftz."""
    flavour = flavour_of(type_)
    names = [g.use(op, flavour) for op in ops]
    if "ftz" in inst.mods:
        fn = "flush16" if type_ in ("f16", "f16x2") else "flush32"
        names = [g.tmp(f"{fn}({name})") for name in names]
    return names


def _finish(g: BlockGen, inst: Inst, type_: str, expr: str, canonical: bool = True) -> None:
    """Flush, saturate, canonical NaN, store."""
    half = type_ in ("f16", "f16x2")
    if "ftz" in inst.mods:
        expr = f"{'flush16' if half else 'flush32'}({expr})"
    if "sat" in inst.mods:
        expr = f"saturate({expr})"
    if "relu" in inst.mods:
        expr = f"relu({expr})"
    if canonical:
        kind = {
            "f32": "canon32",
            "f64": "canon64",
            "f32x2": "canon32",
            "f16": "canon16",
            "f16x2": "canon16",
        }.get(type_)
        if kind:
            expr = f"{kind}({expr})"
    g.set(inst.ops[0], flavour_of(type_), expr)


@handles("add", "sub")
def add(g: BlockGen, inst: Inst) -> None:
    if not is_float(inst):
        ops_int.int_binary(g, inst)
        return
    types = [m for m in inst.mods if m in ("f16", "bf16", "f32", "f64", "f16x2", "bf16x2", "f32x2")]
    if len(types) == 2:  # add.f32.f16: mixed precision
        a = g.tmp(f"{g.use(inst.ops[1], flavour_of(types[1]))}.astype(np.float32)")
        b = g.use(inst.ops[2], types[0])
        if inst.op == "sub":
            b = g.tmp(f"-{b}")
        _finish(g, inst, types[0], f"add32({a}, {b}, '{_mode(inst)}')")
        return
    type_, mode = types[0], _mode(inst)
    a, b = _args(g, inst, type_, inst.ops[1:3])
    if mode == "rn":
        _finish(g, inst, type_, f"{a} {'+' if inst.op == 'add' else '-'} {b}")
        return
    if inst.op == "sub":
        b = g.tmp(f"-{b}")
    _finish(g, inst, type_, f"{'add64' if type_ == 'f64' else 'add32'}({a}, {b}, '{mode}')")


@handles("mul")
def mul(g: BlockGen, inst: Inst) -> None:
    if not is_float(inst):
        ops_int.int_mul(g, inst)
        return
    type_, mode = type_of(inst), _mode(inst)
    a, b = _args(g, inst, type_, inst.ops[1:3])
    expr = f"{a} * {b}" if mode == "rn" else f"{'mul64' if type_ == 'f64' else 'mul32'}({a}, {b}, '{mode}')"
    _finish(g, inst, type_, expr)


@handles("fma", "mad")
def fma(g: BlockGen, inst: Inst) -> None:
    if not is_float(inst):
        ops_int.int_mad(g, inst)
        return
    types = [m for m in inst.mods if m in ("f16", "bf16", "f32", "f64", "f16x2", "bf16x2", "f32x2")]
    type_, mode = types[0], _mode(inst)
    if len(types) == 2:
        a, b = (g.tmp(f"{g.use(op, flavour_of(types[1]))}.astype(np.float32)") for op in inst.ops[1:3])
        c = g.use(inst.ops[3], type_)
    else:
        a, b, c = _args(g, inst, type_, inst.ops[1:4])
    if type_ in ("f32", "f64"):
        expr = f"fma{type_[1:]}({a}, {b}, {c}, '{mode}')"
    elif type_ == "f32x2":
        expr = f"fma32({a}, {b}, {c}, '{mode}')"
    elif type_ in ("f16", "f16x2"):
        expr = f"fma16({a}, {b}, {c})"
    else:
        expr = f"fmabf({a}, {b}, {c})"
    if "oob" in inst.mods:
        expr = (
            f"where(({a}.view(np.uint16) == 0xFFFF) | ({b}.view(np.uint16) == 0xFFFF), np.float16(0), {expr})"
        )
    _finish(g, inst, type_, expr)


@handles("div")
def div(g: BlockGen, inst: Inst) -> None:
    if not is_float(inst):
        ops_int.int_div(g, inst)
        return
    type_, mode = type_of(inst), _mode(inst)
    a, b = _args(g, inst, type_, inst.ops[1:3])
    if type_ == "f64":
        expr = f"div64({a}, {b}, '{mode}')"
    elif "approx" in inst.mods:  # 2^126 < |b| < 2^128 gives 0
        far = g.tmp(f"(np.abs({b}) > np.float32(2.0**126)) & np.isfinite({b}) & np.isfinite({a})")
        expr = _approximate(
            g, inst, type_, a, f"where({far}, np.copysign(np.float32(0), {a} / {b}), {a} / {b})"
        )
    else:
        expr = f"div32({a}, {b}, '{mode}')"
    _finish(g, inst, type_, expr)


@handles("rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh")
def unary(g: BlockGen, inst: Inst) -> None:
    type_, mode, op = type_of(inst), _mode(inst), inst.op
    approx = "approx" in inst.mods
    (a,) = _args(g, inst, type_, inst.ops[1:2])
    if type_ == "f64":
        if op == "rcp" and approx:  # 20 bits of mantissa; the low word is zero
            expr = f"((1.0 / flush64({a})).view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(np.float64)"
        elif op == "rsqrt":
            expr = f"rsqrt64({a})"
            if approx and "ftz" in inst.mods:
                expr = f"(rsqrt64(flush64({a})).view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(np.float64)"
        elif op == "rcp":
            expr = f"div64(np.ones(1), {a}, '{mode}')"
        else:
            expr = f"sqrt64({a}, '{mode}')"
        g.set(inst.ops[0], "f64", f"canon64({expr})")
        return
    if type_ in ("f16", "f16x2", "bf16", "bf16x2"):
        kind = "np.float16" if "bf" not in type_ else "np.float32"
        expr = _approximate(g, inst, type_, a, f"approx32('{op}', {a})")
        _finish(g, inst, type_, f"({expr}).astype({kind})")
        return
    if op in ("rcp", "sqrt") and not approx:
        expr = f"{op}32({a}, '{mode}')"
    elif op == "rcp":
        expr = f"rcp32({a}, 'rn')"
    elif op == "sqrt":
        expr = f"np.sqrt({a})"
    else:
        expr = f"approx32('{op}', {a})"
    _finish(g, inst, type_, _approximate(g, inst, type_, a, expr) if approx else expr)


def _approximate(g: BlockGen, inst: Inst, type_: str, argument: str, expr: str) -> str:
    """An approximation, at the end of its error that the launch asks for."""
    end = g.unit.error_end
    if not end:
        return expr
    kind = type_.removesuffix("x2")
    return f"nudge('{inst.op}', '{kind}', {end}, {argument}, {expr})"


@handles("abs", "neg")
def sign(g: BlockGen, inst: Inst) -> None:
    """Bit operations on the sign; under .ftz also flushing."""
    if not is_float(inst):
        ops_int.int_unary(g, inst)
        return
    type_ = type_of(inst)
    if "ftz" in inst.mods:
        (a,) = _args(g, inst, type_, inst.ops[1:2])
        g.set(inst.ops[0], flavour_of(type_), f"np.abs({a})" if inst.op == "abs" else f"-{a}")
        return
    bits, mask = {
        "f16": (16, 0x8000),
        "bf16": (16, 0x8000),
        "f32": (32, 0x80000000),
        "f64": (64, 1 << 63),
        "f16x2": (32, 0x80008000),
        "bf16x2": (32, 0x80008000),
        "f32x2": (64, 0x8000000080000000),
    }[type_]
    a = g.use(inst.ops[1], f"u{bits}")
    if inst.op == "abs":
        g.set(inst.ops[0], f"u{bits}", f"{a} & np.uint{bits}({mask ^ ((1 << bits) - 1)})")
    else:
        g.set(inst.ops[0], f"u{bits}", f"{a} ^ np.uint{bits}({mask})")


@handles("copysign")
def copysign(g: BlockGen, inst: Inst) -> None:
    flavour = flavour_of(type_of(inst))
    a, b = g.use(inst.ops[1], flavour), g.use(inst.ops[2], flavour)
    g.set(inst.ops[0], flavour, f"np.copysign({b}, {a})")


@handles("testp")
def testp(g: BlockGen, inst: Inst) -> None:
    g.set(inst.ops[0], "pred", f"testp({g.use(inst.ops[1], type_of(inst))}, '{inst.mods[0]}')")


@handles("min", "max")
def minmax(g: BlockGen, inst: Inst) -> None:
    if not is_float(inst):
        ops_int.int_minmax(g, inst)
        return
    type_ = type_of(inst)
    values = _args(g, inst, type_, inst.ops[1:])
    nan = "NaN" in inst.mods
    fn = f"float_{inst.op}"
    if "xorsign" in inst.mods:
        a, b = values
        expr = (
            f"np.copysign({fn}(np.abs({a}), np.abs({b}), {nan}), "
            f"where(np.signbit({a}) ^ np.signbit({b}), -np.abs({a}), np.abs({a})))"
        )
    else:
        if "abs" in inst.mods:
            values = [f"np.abs({v})" for v in values]
        expr = values[0]
        for v in values[1:]:
            expr = f"{fn}({expr}, {v}, {nan})"
    _finish(g, inst, type_, expr)
