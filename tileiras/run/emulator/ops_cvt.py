"""cvt: every pair of integer and floating types, with rounding, saturation and the packed narrow formats."""

from __future__ import annotations

import numpy as np

from . import numerics as num
from .gen import RUNTIME, BlockGen, flavour_of, handles
from .syntax import WIDTH_BITS, Inst

# name: (total bits, exponent bits, fraction bits, bias, largest finite, has infinity)
SMALL = {
    "e4m3": (8, 4, 3, 7, 448.0, False),
    "e5m2": (8, 5, 2, 15, 57344.0, True),
    "e2m1": (4, 2, 1, 1, 6.0, False),
    "e2m3": (6, 2, 3, 1, 7.5, False),
    "e3m2": (6, 3, 2, 3, 28.0, False),
}
_FLOATS = ("f16", "bf16", "f32", "f64", "tf32")
_MODES = ("rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi", "rs")


def encode_small(x: np.ndarray, name: str, mode: str = "rn", satfinite: bool = True) -> np.ndarray:
    """f64 values to codes of a small format (uint8). NaN: the canonical NaN, or +largest where there is none."""
    bits, exp_bits, frac, bias, largest, _ = SMALL[name]
    y = num.round_to_format(x, frac, 1 - bias, mode)
    over = np.abs(y) > largest
    nan = x != x
    sign = np.signbit(x)
    mag = np.where(over | nan | np.isinf(x), 0.0, np.abs(y))
    _, e = np.frexp(mag)
    e = np.maximum(e - 1, 1 - bias)
    steps = np.ldexp(mag, frac - e).astype(np.int64)  # fraction with hidden bit, or subnormal count
    hidden = 1 << frac
    code = np.where(steps >= hidden, ((e + bias) << frac) + (steps - hidden), steps)
    top = ((1 << exp_bits) - 1) << frac
    nan_code = top | (hidden - 1)
    if name == "e4m3":
        finite_code, inf_code = 0x7E, 0x7F
    elif name == "e5m2":
        finite_code, inf_code = 0x7B, 0x7C
    else:
        finite_code = inf_code = (1 << bits - 1) - 1
        nan_code = finite_code
    big = over | np.isinf(x)
    code = np.where(big, finite_code if satfinite else inf_code, code)
    code = np.where(nan, nan_code, code)
    sign = sign & ~nan
    return (code | (sign.astype(np.int64) << (bits - 1))).astype(np.uint8)


def decode_small(code: np.ndarray, name: str) -> np.ndarray:
    """Codes of a small format as f32."""
    bits, exp_bits, frac, bias, _, has_inf = SMALL[name]
    code = code.astype(np.int64) & (1 << bits) - 1
    sign = np.where(code >> (bits - 1), -1.0, 1.0)
    exp = (code >> frac) & (1 << exp_bits) - 1
    man = code & (1 << frac) - 1
    mag = np.where(
        exp == 0,
        np.ldexp(man.astype(np.float64), 1 - bias - frac),
        np.ldexp((man + (1 << frac)).astype(np.float64), (exp - bias - frac).astype(np.int64)),
    )
    if name == "e4m3":
        mag = np.where((code & 0x7F) == 0x7F, np.nan, mag)
    elif has_inf:
        mag = np.where(exp == (1 << exp_bits) - 1, np.where(man == 0, np.inf, np.nan), mag)
    return (sign * mag).astype(np.float32)


def encode_ue8m0(x: np.ndarray, mode: str, satfinite: bool) -> np.ndarray:
    """f32-like values to power-of-two codes, rounded toward zero or up; negative, NaN to 0xff."""
    m, e = np.frexp(np.where(np.isfinite(x) & (x > 0), x, 1.0))
    e = e - 1 + np.where((mode == "rp") & (m > 0.5), 1, 0)
    code = np.clip(e + 127, 0, 254)
    code = np.where(x == 0, 0, code)
    code = np.where(np.isinf(x), 254 if satfinite else 255, code)
    return np.where((x != x) | (x < 0), 255, code).astype(np.uint8)


def decode_ue8m0(code: np.ndarray) -> np.ndarray:
    return np.where(code == 255, np.nan, np.ldexp(1.0, code.astype(np.int64) - 127))


def to_tf32(x: np.ndarray, mode: str, sat: bool, relu: bool) -> np.ndarray:
    """f32 rounded to 10 fraction bits; the low 13 bits are zero."""
    y = num.round_to_format(x.astype(np.float64), 10, -126, mode)
    y = np.where(np.abs(y) > 3.4e38, np.copysign(np.inf, y), y)
    if sat:
        largest = float(np.uint32(0x7F7FE000).view(np.float32))
        y = np.where(np.isnan(y), y, np.clip(y, -largest, largest))
    if relu:
        y = np.where(y < 0, 0.0, y)
    return num.canon32(y.astype(np.float32))


def to_narrow(x: np.ndarray, kind: str, mode: str, satfinite: bool, relu: bool) -> np.ndarray:
    """f64 (exact source values) to f32, f16 or bf16 in f32; one rounding."""
    with_inf = np.isinf(x)
    if mode == "rna":
        y = num.round_to_format(
            x, {"f16": 10, "bf16": 7, "f32": 23}[kind], {"f16": -14}.get(kind, -126), "rna"
        )
        y = y.astype(np.float16 if kind == "f16" else np.float32)
    elif kind == "f32":
        y = num.f64_to_f32(x, mode)
    elif kind == "f16":
        y = num.f64_to_half(x, mode)
    elif mode == "rn":
        y = num.bf16_to_f32(num.f32_to_bf16(num.fmabf_round(x)))
    else:
        y = num.round_to_format(x, 7, -126, mode)
        largest = float(np.uint32(0x7F7F0000).view(np.float32))
        away = {"rz": np.zeros_like(with_inf), "rm": x < 0, "rp": x > 0}[mode]
        over = (np.abs(y) > largest) & ~with_inf
        y = np.where(over, np.copysign(np.where(away, np.inf, largest), x), y).astype(np.float32)
    if satfinite:
        largest = {
            "f16": 65504.0,
            "f32": 3.4028234663852886e38,
            "bf16": float(np.uint32(0x7F7F0000).view(np.float32)),
        }[kind]
        y = np.where(np.isinf(y), np.copysign(y.dtype.type(largest), y), y)
    if relu:
        y = num.relu(y)
    return num.canon16(y) if kind == "f16" else num.canon32(y)


def _widen(g: BlockGen, op, type_: str, ftz: bool) -> str:
    """A floating operand as exact f64."""
    name = g.use(op, flavour_of(type_))
    if ftz and type_ == "f32":
        name = g.tmp(f"flush32({name})")
    return name if type_ == "f64" else g.tmp(f"{name}.astype(np.float64)")


@handles("cvt")
def cvt(g: BlockGen, inst: Inst) -> None:
    if "pack" in inst.mods:
        cvt_pack(g, inst)
        return
    types = [m for m in inst.mods if m in WIDTH_BITS]
    to, src = types[0], types[1]
    mode = next((m for m in inst.mods if m in _MODES), "")
    sat, satfinite, relu, ftz = (m in inst.mods for m in ("sat", "satfinite", "relu", "ftz"))
    dst, ops = inst.ops[0], inst.ops[1:]
    if mode == "rs":
        g.fail("stochastic rounding is not supported by the emulator")
    base = to[:-2] if to.endswith("x2") else to
    if to.endswith("x4") or src.endswith("x4"):
        g.fail("this conversion is not supported by the emulator")
    if base in SMALL or base == "ue8m0" or to in ("f16x2", "bf16x2"):
        packed(g, inst, to, src, mode or "rn", satfinite, relu)
        return
    if to == "tf32":
        x = g.use(ops[0], "f32")
        g.set(dst, "f32", f"to_tf32({x}, '{mode}', {satfinite}, {relu})")
        return
    if to in _FLOATS and src in _FLOATS:
        float_to_float(g, inst, to, src, mode, sat, satfinite, relu, ftz)
    elif to in _FLOATS:
        x = g.use(ops[0], src)
        if to == "f64":
            y = f"int_to_f64({x}, '{mode or 'rn'}')"
        else:
            y = f"to_narrow(int_to_f64_odd({x}), '{to}', '{mode or 'rn'}', False, False)"
        g.set(dst, flavour_of(to), f"saturate({y})" if sat else y)
    elif src in _FLOATS:
        x = g.use(ops[0], flavour_of(src))
        if ftz and src == "f32":
            x = g.tmp(f"flush32({x})")
        bits, signed = WIDTH_BITS[to], to[0] == "s"
        nan_zero = src != "f64" and bits != 64
        g.set(
            dst,
            f"{'s' if signed else 'u'}{bits}",
            f"float_to_int({x}, '{mode or 'rzi'}', {bits}, {signed}, {nan_zero})",
        )
    else:
        x = g.use(ops[0], src if src[0] != "b" else f"u{WIDTH_BITS[src]}")
        to = to if to[0] != "b" else f"u{WIDTH_BITS[to]}"
        bits = WIDTH_BITS[to]
        y = (
            f"clamp_int({x}, {bits}, {to[0] == 's'})"
            if sat
            else f"{x}.astype(np.{'' if to[0] == 's' else 'u'}int{bits})"
        )
        g.set(dst, to, y)


def float_to_float(
    g: BlockGen, inst: Inst, to: str, src: str, mode: str, sat: bool, satfinite: bool, relu: bool, ftz: bool
) -> None:
    dst, op = inst.ops[0], inst.ops[1]
    if mode in ("rni", "rzi", "rmi", "rpi"):  # to an integral value of the same type
        x = g.use(op, flavour_of(src))
        if ftz and src == "f32":
            x = g.tmp(f"flush32({x})")
        y = f"round_f64({x}, '{mode}')"
        if to != src:
            y = (
                f"to_narrow({y}.astype(np.float64), '{to}', 'rn', False, False)"
                if to != "f64"
                else f"{y}.astype(np.float64)"
            )
    elif WIDTH_BITS[to] == WIDTH_BITS[src] and to == src:
        y = g.use(op, flavour_of(src))
        if ftz and src == "f32":
            y = f"flush32({y})"
    elif to == "f64":
        y = _widen(g, op, src, ftz)
    elif to == "f32" and src in ("f16", "bf16"):
        y = f"canon32({g.use(op, flavour_of(src))}.astype(np.float32))"
    elif to == "f32" and mode in ("", "rn") and not satfinite and not relu:
        y = f"canon32({g.use(op, 'f64')}.astype(np.float32))"
    else:
        y = f"to_narrow({_widen(g, op, src, ftz)}, '{to}', '{mode or 'rn'}', {satfinite}, {relu})"
    if ftz and to == "f32":
        y = f"flush32({y})"
    if sat:
        y = f"saturate({y})"
    g.set(dst, flavour_of(to), y)


def packed(g: BlockGen, inst: Inst, to: str, src: str, mode: str, satfinite: bool, relu: bool) -> None:
    """Two values to a pair, or a pair of small values to f16x2/bf16x2. The first source is the upper half."""
    dst, ops = inst.ops[0], inst.ops[1:]
    ftz = "ftz" in inst.mods
    base = to[:-2] if to.endswith("x2") else to
    if src == "f32":
        high = _widen(g, ops[0], "f32", ftz)
        low = _widen(g, ops[1], "f32", ftz)
        if base in ("f16", "bf16"):
            h = g.tmp(f"to_narrow({high}, '{base}', '{mode}', {satfinite}, {relu})")
            lo = g.tmp(f"to_narrow({low}, '{base}', '{mode}', {satfinite}, {relu})")
            if base == "bf16":
                h, lo = g.tmp(f"f32_to_bf16({h})"), g.tmp(f"f32_to_bf16({lo})")
            g.set(dst, "u32", f"pack(({lo}, {h}), 'uint32')")
            return
    elif src in ("f16x2", "bf16x2"):
        both = g.use(ops[0], flavour_of(src))
        low, high = (g.tmp(f"{both}[:, {i}].astype(np.float64)") for i in (0, 1))
    else:
        decode_pair(g, inst, to, src, relu)
        return
    if base == "ue8m0":
        h, lo = (g.tmp(f"encode_ue8m0({x}, '{mode}', {satfinite})") for x in (high, low))
    else:
        if relu:
            high, low = g.tmp(f"relu({high})"), g.tmp(f"relu({low})")
        h, lo = (g.tmp(f"encode_small({x}, '{base}', '{mode}', {satfinite})") for x in (high, low))
    if base == "e2m1":
        g.set(dst, "u8", f"({lo} | ({h} << np.uint8(4)))")
    else:
        g.set(dst, "u16", f"pack(({lo}, {h}), 'uint16')")


def decode_pair(g: BlockGen, inst: Inst, to: str, src: str, relu: bool) -> None:
    base = src[:-2]
    if base == "e2m1":
        both = g.use(inst.ops[1], "u8")
        low, high = g.tmp(f"{both} & np.uint8(15)"), g.tmp(f"{both} >> np.uint8(4)")
    else:
        both = g.tmp(f"unpack({g.use(inst.ops[1], 'u16')}, np.uint8)")
        low, high = g.tmp(f"{both}[0]"), g.tmp(f"{both}[1]")
    fn = "decode_ue8m0({})" if base == "ue8m0" else "decode_small({}, '" + base + "')"
    kind = "f16" if to == "f16x2" else "bf16"
    parts = []
    for x in (low, high):
        y = g.tmp(f"to_narrow({fn.format(x)}.astype(np.float64), '{kind}', 'rn', False, {relu})")
        parts.append(g.tmp(f"{y}.view(np.uint16)" if kind == "f16" else f"f32_to_bf16({y})"))
    g.set(inst.ops[0], "u32", f"pack(({parts[0]}, {parts[1]}), 'uint32')")


def cvt_pack(g: BlockGen, inst: Inst) -> None:
    """cvt.pack.sat: two s32 to narrow integers; with a third operand, shifted into its upper bits."""
    types = [m for m in inst.mods if m in WIDTH_BITS or m in ("u2", "s2", "u4", "s4")]
    to = types[0]
    bits = int(to[1:])
    a, b = g.use(inst.ops[1], "s32"), g.use(inst.ops[2], "s32")
    c = g.use(inst.ops[3], "u32") if len(inst.ops) > 3 else None
    low = 0 if to[0] == "u" else -(1 << bits - 1)
    high = (1 << bits) - 1 if to[0] == "u" else (1 << bits - 1) - 1
    mask = (1 << bits) - 1
    y, x = (g.tmp(f"np.clip({v}, {low}, {high}).view(np.uint32) & np.uint32({mask})") for v in (a, b))
    expr = f"({x} | ({y} << np.uint32({bits})))"
    if c is not None and bits < 16:
        expr = f"({expr} | ({c} << np.uint32({2 * bits})))"
    g.set(inst.ops[0], "u32", expr)


def int_to_f64(x: np.ndarray, mode: str) -> np.ndarray:
    """Integers to f64 in any rounding mode."""
    if x.dtype.itemsize < 8:
        return x.astype(np.float64)
    y = x.astype(np.float64)
    if mode == "rn":
        return y
    hi = (x >> x.dtype.type(32)).astype(np.float64) * 4294967296.0
    lo = (x & x.dtype.type(0xFFFFFFFF)).astype(np.float64)
    return num.add64(hi, lo, mode)


RUNTIME.update(
    encode_small=encode_small,
    decode_small=decode_small,
    encode_ue8m0=encode_ue8m0,
    decode_ue8m0=decode_ue8m0,
    to_tf32=to_tf32,
    to_narrow=to_narrow,
    int_to_f64=int_to_f64,
    flush64=lambda x: np.where(np.abs(x) < 2.2250738585072014e-308, np.copysign(0.0, x), x),
)
