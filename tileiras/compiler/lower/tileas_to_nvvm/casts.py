"""Conversions among element types: integers, floats of every width, bit casts, packing.

8-bit floats are converted by hardware where a target has it and by integer arithmetic elsewhere; both saturate
(overflow and infinity give the largest finite value, NaN stays NaN), as NVIDIA's code does.
"""

from __future__ import annotations

from tileiras.compiler.nvvm.code import Float
from tileiras.compiler.passes.tileaa.exact_integers import EXACT
from tileiras.compiler.target import sm
from tileiras.compiler.target.registers import reg_class

from .arith import ROUND, downcast, extended, from_f64, round_directed, upcast, word_of
from .few_bits import in_halves
from .multiplied import only_multiplied
from .state import Lowering, elementwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op


RN_TO_MULTIPLY = "rn, to multiply"  # whoever reads the result ignores the bits behind those of tf32


class Mini:
    """A small float: exponent bits, mantissa bits, bias; whether it has infinities."""

    __slots__ = ("bias", "exponent", "has_inf", "largest", "mantissa", "name", "nan", "ptx")

    def __init__(
        self,
        name: str,
        exponent: int,
        mantissa: int,
        bias: int,
        has_inf: bool,
        largest: int,
        nan: int,
        ptx: str,
    ) -> None:
        self.name = name
        self.exponent = exponent
        self.mantissa = mantissa
        self.bias = bias
        self.has_inf = has_inf
        self.largest = largest  # pattern of the largest finite value
        self.nan = nan
        self.ptx = ptx


MINI = {
    "f8E4M3FN": Mini("f8E4M3FN", 4, 3, 7, False, 0x7E, 0x7F, "e4m3x2"),
    "f8E5M2": Mini("f8E5M2", 5, 2, 15, True, 0x7B, 0x7F, "e5m2x2"),
    "f4E2M1FN": Mini("f4E2M1FN", 2, 1, 1, False, 0x7, 0x7, "e2m1x2"),
}


_CVT_PAIRS = ("f8E4M3FN", "f8E5M2")  # what cvt packs two of


def _types(op: Op) -> tuple[Any, Any]:
    return op.operands[0].type.elem, op.results[0].type.elem  # type: ignore[attr-defined]


# ---- integers


def lower_exti(lowering: Lowering, op: Op) -> None:
    source, target = _types(op)
    signed = op.attr("signedness") == "signed"
    elementwise(lowering, op, lambda x: extend(lowering, x, source.bits, target.bits, signed))


def extend(lowering: Lowering, x: Any, source: int, target: int, signed: bool) -> Any:
    b = lowering.b
    if source == 1:
        one = -1 if signed else 1
        if target == 64:
            return b.emit("selp.s64", one, 0, x)
        return b.emit("selp.s32", one, 0, x)
    x = extended(lowering, x, source, signed)
    return b.wide(x, signed) if target == 64 else x


def lower_trunci(lowering: Lowering, op: Op) -> None:
    source, target = _types(op)
    b = lowering.b

    def one(x: Any) -> Any:
        if isinstance(x, int):
            x &= (1 << target.bits) - 1
            return b.true(bool(x)) if target.bits == 1 else x
        if source.bits == 64:
            x = b.emit("cvt.u32.u64", x)
        if target.bits == 1:
            return b.emit("setp.ne.b32", b.and_(32, x, 1), 0)
        return x

    elementwise(lowering, op, one)


# ---- integer to float


def lower_itof(lowering: Lowering, op: Op) -> None:
    source, target = _types(op)
    signed = op.attr("signedness") == "signed"
    b = lowering.b
    kind = ("s" if signed else "u") + ("64" if source.bits == 64 else "32")
    exact = source.bits <= 16 or EXACT in op.attrs
    if in_halves(lowering, op):
        return

    def one(x: Any) -> Any:
        if source.bits == 1:
            x = b.emit("selp.s32", -1 if signed else 1, 0, x)
        else:
            x = extended(lowering, x, source.bits, signed)
        x = b.materialize(x, "d" if source.bits == 64 else "r")
        if target.name in ("f32", "f64"):
            return b.emit(f"cvt.rn.{target.name}.{kind}", x)
        if target.name == "f16":
            return b.emit(f"cvt.rn.f16.{kind}", x)
        if source.bits <= 8 and target.name == "bf16":  # exact: the upper half of the f32 is all of it
            return b.unpack(b.emit(f"cvt.rn.f32.{kind}", x))[1]
        single = b.emit(f"cvt.rn.f32.{kind}", x) if exact else _odd_f32(lowering, x, kind)
        if target.name == "tf32":
            return f32_to_tf32(lowering, single, "rn")
        return to_float(lowering, single, "f32", target.name, "rn")

    elementwise(lowering, op, one)


def _odd_f32(lowering: Lowering, x: Any, kind: str) -> Any:
    """An integer as f32 rounded to odd, so that a later rounding to a narrower float is right."""
    b = lowering.b
    down = b.emit(f"cvt.rz.f32.{kind}", x)
    # exact iff converting back gives the same integer (rz never leaves the integer's range)
    back = b.emit(f"cvt.rzi.{kind}.f32", down)
    inexact = b.emit(f"setp.ne.b{kind[1:]}", back, x)
    return b.emit("or.b32", down, b.emit("selp.b32", 1, 0, inexact))


# ---- float to integer


def lower_ftoi(lowering: Lowering, op: Op) -> None:
    """Truncates by default; PTX saturates and turns NaN into 0, which is what `saturating` asks for."""
    source, target = _types(op)
    signed = op.attr("signedness") == "signed"
    mode = {
        "nearest_int_to_zero": "rzi",
        "zero": "rzi",
        "nearest_even": "rni",
        "negative_inf": "rmi",
        "positive_inf": "rpi",
    }[op.attr("rounding_mode") or "nearest_int_to_zero"]
    b = lowering.b
    bits = target.bits

    def one(x: Any) -> Any:
        name = source.name
        if name not in ("f32", "f64", "f16"):
            x, name = float_to_f32(lowering, x, name), "f32"
        if bits == 1:  # not zero: what NVIDIA's assembler makes of it, NaN included
            if name == "f16":
                x, name = upcast(lowering, x, name), "f32"
            return b.emit(f"setp.neu.{name}", x, b.float("d" if name == "f64" else "r", 0))
        wide = 64 if bits == 64 else 32
        kind = f"{'s' if signed else 'u'}{wide}"
        value = b.emit(f"cvt.{mode}.{kind}.{name}", x)
        if op.attr("saturating") and (
            name == "f64" or wide == 64
        ):  # these give the most negative value for NaN
            nan = b.emit(
                f"setp.nan.{'f64' if name == 'f64' else 'f32'}",
                *[upcast(lowering, x, name) if name == "f16" else x] * 2,
            )
            value = b.emit(f"selp.b{wide}", 0, value, nan)
        if bits < 32 and op.attr("saturating"):
            low = -(1 << (bits - 1)) if signed else 0
            high = (1 << (bits - 1)) - 1 if signed else (1 << bits) - 1
            value = b.emit(f"min.{kind}", b.emit(f"max.{kind}", value, low), high)
        return value

    elementwise(lowering, op, one)


# ---- float to float


def lower_ftof(lowering: Lowering, op: Op) -> None:
    source, target = _types(op)
    rounding = ROUND.get(op.attr("rounding_mode"), "rna")
    layout = op.results[0].type.layout  # type: ignore[attr-defined]
    if lowering.target.has(sm.FP8_CVT) and (source.name in _CVT_PAIRS or target.name in _CVT_PAIRS):
        regs, name = list(lowering.regs_as(op.operands[0], layout)), source.name
        if name in _CVT_PAIRS:
            regs, name = _f16_of_pairs(lowering, regs, MINI[name]), "f16"
        if target.name in _CVT_PAIRS and layout.num_regs % 4 == 0 and name != "f64":
            return lowering.define(op.results[0], _to_words(lowering, regs, name, MINI[target.name]))
        return lowering.define(
            op.results[0], [to_float(lowering, x, name, target.name, rounding) for x in regs]
        )
    if (source.name, target.name, rounding) == ("f32", "f16", "rn") and _to_be_smaller(op):
        singles = list(lowering.regs_as(op.operands[0], layout))
        return lowering.define(op.results[0], _f16_in_pairs(lowering, singles))
    if target.name == "tf32" and source.name != "f64" and rounding == "rn" and only_multiplied(op.results[0]):
        rounding = RN_TO_MULTIPLY
    elementwise(lowering, op, lambda x: to_float(lowering, x, source.name, target.name, rounding))


def _to_be_smaller(op: Op) -> bool:
    """Whether f16 numbers become small floats, which happens two at a time."""
    uses = op.results[0].uses
    return bool(uses) and all(
        user.spec.name == "ftof" and user.results[0].type.elem.name in _CVT_PAIRS  # type: ignore[attr-defined]
        for user, _ in uses
    )


def _f16_in_pairs(lowering: Lowering, regs: list[Any]) -> list[Any]:
    """f32 as f16, two an instruction: ptxas makes none of two that no instruction packs as a word of its own."""
    b = lowering.b
    if len(regs) & 1 or not lowering.target.has(sm.BF16_CVT):
        return [downcast(lowering, x, "f16") for x in regs]
    return [
        half
        for low, high in zip(regs[::2], regs[1::2])
        for half in b.unpack(b.emit("cvt.rn.f16x2.f32", high, low))
    ]


def _f16_of_pairs(lowering: Lowering, regs: list[Any], mini: Mini) -> list[Any]:
    """Small floats of eight bits as f16 (exact), two an instruction where both are in one half of a word."""
    b = lowering.b
    found: dict[Any, Any] = {}
    out = []
    for x in regs:
        word, first, mask = b.parts.get(x, (x, 0, 0xFF))
        if first & 7 or mask & 0xFF != 0xFF:  # no byte of a word
            word, first = x, 0
        place = (word, first >> 4)
        if place not in found:
            half = b.emit("cvt.u16.u32", x) if isinstance(word, int) else b.unpack(word)[first >> 4]
            pair = b.reg("r")
            b.emit_to(pair, f"cvt.rn.f16x2.{mini.ptx}", half)
            found[place] = b.unpack(pair)
        out.append(found[place][first >> 3 & 1])
    return out


def _to_words(lowering: Lowering, values: list[Any], source: str, mini: Mini) -> list[Any]:
    """Floats to a small float, two an instruction and four to a word, which whoever stores neighbours takes as it is."""
    b = lowering.b
    form = "f16x2" if source == "f16" else "f32"
    halves = []
    for low, high in zip(values[::2], values[1::2]):
        if source == "f16":
            pair = [b.pack(low, high)]
        else:
            pair = [float_to_f32(lowering, x, source) for x in (high, low)]
        halves.append(b.emit(f"cvt.rn.satfinite.{mini.ptx}.{form}", *pair))
    out: list[Any] = []
    for low, high in zip(halves[::2], halves[1::2]):
        word = b.pack(low, high)
        parts = [word, *(b.shr(32, word, 8 * k) for k in (1, 2, 3))]
        b.words[tuple(parts)] = word
        out += parts
    return out


def float_to_f32(lowering: Lowering, x: Any, source: str) -> Any:
    """Any float of at most 32 bits as f32 (exact)."""
    if source in ("f32", "tf32"):
        return x
    if source in ("f16", "bf16"):
        return upcast(lowering, x, source)
    b = lowering.b
    if source == "f8E8M0FNU":
        return _from_e8m0(lowering, x)
    if source == "fnv8E5M3FNU":
        return _from_mini(lowering, x, Mini(source, 5, 3, 15, False, 0xFE, 0xFF, ""), unsigned=True)
    mini = MINI[source]
    if source in ("f8E4M3FN", "f8E5M2") and lowering.target.has(sm.FP8_CVT):
        half = b.emit("cvt.u16.u32", x)
        pair = b.reg("r")
        b.emit_to(pair, f"cvt.rn.f16x2.{mini.ptx}", half)
        low, high = b.reg("h"), b.reg("h")
        b.emit_to((low, high), "mov.b32", pair)
        return b.emit("cvt.f32.f16", low)
    if source == "f8E5M2":  # the upper byte of f16
        return b.emit("cvt.f32.f16", b.emit("cvt.u16.u32", b.emit("shl.b32", b.and_(32, x, 0xFF), 8)))
    return _from_mini(lowering, x, mini)


def _from_mini(lowering: Lowering, x: Any, mini: Mini, unsigned: bool = False) -> Any:
    """Small float to f32 by integer arithmetic: shift into place, scale by the difference of biases."""
    b = lowering.b
    width = mini.exponent + mini.mantissa
    magnitude = b.and_(32, x, (1 << width) - 1)
    shifted = b.shl(32, magnitude, 23 - mini.mantissa)
    scale = b.float("r", (127 + 127 - mini.bias) << 23)
    value: Any = b.emit("mul.rn.f32", b.materialize(shifted, "r"), scale)
    if mini.name == "f8E4M3FN" or unsigned:
        nan = b.emit("setp.eq.b32", magnitude, mini.nan & ((1 << width) - 1))
        value = b.emit("selp.b32", 0x7FC00000, value, nan)
    if unsigned:
        return value
    sign = b.shl(32, b.and_(32, x, 1 << width), 31 - width)
    return b.or_(32, value, sign)


def _from_e8m0(lowering: Lowering, x: Any) -> Any:
    """2^(x - 127); 0 is the subnormal 2^-127, 255 is NaN."""
    b = lowering.b
    value = b.and_(32, x, 0xFF)
    power = b.shl(32, value, 23)
    zero = b.emit("setp.eq.b32", b.materialize(value, "r"), 0)
    nan = b.emit("setp.eq.b32", b.materialize(value, "r"), 255)
    power = b.emit("selp.b32", 0x00400000, power, zero)
    return b.emit("selp.b32", 0x7FC00000, power, nan)


def to_float(lowering: Lowering, x: Any, source: str, target: str, rounding: str) -> Any:
    """One float type to another with a single rounding."""
    b = lowering.b
    if source == target:
        return x
    if source == "f64":
        if target == "f32":
            return b.emit(f"cvt.{rounding}.f32.f64", x)
        if target == "f16" and rounding == "rn":
            return b.emit("cvt.rn.f16.f64", x)
        if target in ("f16", "bf16"):
            return from_f64(lowering, x, target, rounding)
        return to_float(lowering, _odd_from_f64(lowering, x), "f32", target, rounding)
    if target == "f64":
        return b.emit("cvt.f64.f32", float_to_f32(lowering, x, source))
    value = float_to_f32(lowering, x, source)
    if target == "f32":
        return value
    if target == "tf32":
        return f32_to_tf32(lowering, value, rounding)
    if target in ("f16", "bf16"):
        return (
            round_directed(lowering, value, target, rounding)
            if rounding != "rna"
            else downcast(lowering, value, target)
        )
    if target == "f8E8M0FNU":
        return _to_e8m0(lowering, value, rounding)
    if target == "fnv8E5M3FNU":
        return _to_mini(lowering, value, Mini(target, 5, 3, 15, False, 0xFE, 0xFF, ""), unsigned=True)
    mini = MINI[target]
    if target in _CVT_PAIRS and lowering.target.has(sm.FP8_CVT):
        pair = b.emit(f"cvt.rn.satfinite.{mini.ptx}.f32", b.float("r", 0), value)
        return b.emit("cvt.u32.u16", pair)
    return _to_mini(lowering, value, mini)


def _odd_from_f64(lowering: Lowering, x: Any) -> Any:
    """f64 to f32 rounded to odd (infinities and NaN unchanged)."""
    b = lowering.b
    down = b.emit("cvt.rz.f32.f64", x)
    inexact = b.emit("setp.ne.f64", b.emit("cvt.f64.f32", down), x)
    finite = b.emit("setp.lt.f32", b.emit("abs.f32", down), b.float("r", 0x7F800000))
    take = b.emit("and.pred", inexact, finite)
    return b.emit("or.b32", down, b.emit("selp.b32", 1, 0, take))


def f32_to_tf32(lowering: Lowering, x: Any, rounding: str) -> Any:
    """Round the low 13 bits away; the result is an f32 pattern, but for these bits where tensor cores alone read it. NaN stays
    NaN."""
    b = lowering.b
    word = word_of(lowering, x)
    if rounding in ("rn", RN_TO_MULTIPLY) and lowering.target.has(sm.CVT_TF32_RN):
        rounded = b.emit("cvt.rn.tf32.f32", b.materialize(x, "r"))
        return rounded if rounding == RN_TO_MULTIPLY else b.emit("and.b32", rounded, 0xFFFFE000)
    if rounding == "rz":
        cut = b.emit("and.b32", word, 0xFFFFE000)
    else:
        if rounding == "rna":
            rounded = b.add(32, word, 0x1000)
        else:
            odd = b.emit("bfe.u32", word, 13, 1)
            rounded = b.add(32, b.add(32, word, odd), 0x0FFF)
        cut = b.emit("and.b32", rounded, 0xFFFFE000)
    # infinities have a zero mantissa and survive; NaN may lose its payload bits
    nan = b.emit("setp.nan.f32", word, word)
    return b.emit("selp.b32", 0x7FC00000, cut, nan)


def _to_mini(lowering: Lowering, x: Any, mini: Mini, unsigned: bool = False) -> Any:
    """f32 to a small float: nearest even, saturating, NaN kept (a type without NaN gets its largest value).

    Adding a power of two whose unit in the last place is the small float's subnormal step rounds subnormals;
    normal values are rounded on the bit pattern.
    """
    b = lowering.b
    word = word_of(lowering, x)
    magnitude = b.emit("and.b32", word, 0x7FFFFFFF)
    drop = 23 - mini.mantissa
    # normal: add half an ulp minus one plus the kept bit, then rebias
    odd = b.emit("bfe.u32", magnitude, drop, 1)
    rounded = b.add(32, b.add(32, magnitude, odd), (1 << (drop - 1)) - 1)
    normal = b.sub(32, b.shr(32, rounded, drop), (127 - mini.bias) << mini.mantissa)
    # subnormal: value * 1 + 2^k puts the rounded count of steps into the low mantissa bits
    step_exponent = 1 - mini.bias - mini.mantissa  # log2 of the subnormal step
    magic = (127 + 23 + step_exponent) << 23
    summed = b.emit("add.rn.f32", magnitude, b.float("r", magic))
    subnormal = b.sub(32, summed, magic)
    smallest_normal = (127 + 1 - mini.bias) << 23
    small = b.emit("setp.lt.u32", magnitude, smallest_normal)
    value = b.emit("selp.b32", subnormal, normal, small)
    limit = mini.largest
    over = b.emit("setp.gt.s32", value, limit)
    value = b.emit("selp.b32", limit, value, over)
    nan = b.emit("setp.gt.u32", magnitude, 0x7F800000)
    value = b.emit("selp.b32", mini.nan, value, nan)
    if unsigned:  # negative values have no place: zero
        negative = b.emit("setp.lt.s32", word, 0)
        positive = b.emit("not.pred", nan)
        return b.emit("selp.b32", 0, value, b.emit("and.pred", negative, positive))
    width = mini.exponent + mini.mantissa
    sign = b.and_(32, b.shr(32, word, 31 - width), 1 << width)
    if mini.name == "f4E2M1FN":  # no NaN: the largest value, positive
        sign = b.emit("selp.b32", 0, sign, nan)
    elif mini.name in ("f8E4M3FN", "f8E5M2"):  # NaN is 0x7f without a sign, as the hardware writes it
        sign = b.emit("selp.b32", 0, sign, nan)
    return b.or_(32, value, sign)


def _to_e8m0(lowering: Lowering, x: Any, rounding: str) -> Any:
    """f32 to a power of two: toward zero or toward +infinity; out of range saturates, NaN is 255."""
    b = lowering.b
    word = word_of(lowering, x)
    magnitude = b.emit("and.b32", word, 0x7FFFFFFF)
    exponent = b.shr(32, magnitude, 23)
    if rounding == "rp":
        rest = b.emit("and.b32", magnitude, 0x7FFFFF)
        up = b.emit("setp.ne.b32", rest, 0)
        # below the smallest normal: 2^-127 covers up to 0x00400000, more rounds to 2^-126
        tiny = b.emit("setp.lt.u32", magnitude, 0x00800000)
        tiny_up = b.emit("setp.gt.u32", magnitude, 0x00400000)
        grown = b.add(32, exponent, b.emit("selp.b32", 1, 0, up))
        exponent = b.emit("selp.b32", b.emit("selp.b32", 1, 0, tiny_up), grown, tiny)
    value = b.emit("min.u32", exponent, 254)
    nan = b.emit("setp.gt.u32", magnitude, 0x7F800000)
    return b.emit("selp.b32", 255, value, nan)


# ---- bit casts


def lower_bitcast(lowering: Lowering, op: Op) -> None:
    source, target = _types(op)
    elementwise(lowering, op, lambda x: bitcast(lowering, x, source, target))


def bitcast(lowering: Lowering, x: Any, source: Any, target: Any) -> Any:
    """The same bits in the other type's register form."""
    b = lowering.b
    have, want = reg_class(source), reg_class(target)
    if source.name == "tf32" and target.name != "tf32":
        x = b.shr(32, b.materialize(x, "r"), 13)
    if target.name == "tf32" and source.name != "tf32":
        x = b.shl(32, b.materialize(x, "r"), 13)
    if isinstance(x, Float):
        x = x.bits
    elif isinstance(x, int) and str(target) in ("f32", "f64"):
        return b.float(want, x & ((1 << target.bits) - 1))
    if have == want:
        return x
    if want == "h":
        return b.imm16(x) if isinstance(x, int) else b.emit("cvt.u16.u32", x)
    if have == "h":
        return b.emit("cvt.u32.u16", x)
    return x


# ---- pack and unpack: the bytes of a rank-1 tile


def lower_pack(lowering: Lowering, op: Op) -> None:
    """Elements to bytes, little endian; two 4-bit elements a byte, low nibble first."""
    from .shape import bytes_of

    b = lowering.b
    source = lowering.tile(op.operands[0])
    layout = op.results[0].type.layout  # type: ignore[attr-defined]
    bits = source.elem.bits  # type: ignore[attr-defined]
    if bits == 19:
        bits = 32
    keep = ~source.layout.inv
    reg_of = source.layout.reg_of
    out: list[Any] = []
    parts: dict[int, list[Any]] = {}
    for offset in layout.reg_table:
        if bits < 8:
            low = source.regs[reg_of[(offset << 1) & keep]]
            high = source.regs[reg_of[(offset << 1 | 1) & keep]]
            out.append(b.or_(32, b.and_(32, low, 15), b.shl(32, b.and_(32, high, 15), 4)))
            continue
        count = bits // 8
        index = offset // count & keep
        if index not in parts:
            parts[index] = bytes_of(lowering, source.regs[reg_of[index]], source.elem, count)
        out.append(parts[index][offset % count])
    lowering.define(op.results[0], out)


def lower_unpack(lowering: Lowering, op: Op) -> None:
    from .shape import from_bytes

    b = lowering.b
    source = lowering.tile(op.operands[0])
    result = op.results[0]
    elem: Any = result.type.elem  # type: ignore[attr-defined]
    bits = 32 if elem.bits == 19 else elem.bits
    keep = ~source.layout.inv
    reg_of = source.layout.reg_of
    out = []
    for offset in result.type.layout.reg_table:  # type: ignore[attr-defined]
        if bits < 8:
            byte = source.regs[reg_of[offset >> 1 & keep]]
            out.append(b.and_(32, b.shr(32, byte, 4 * (offset & 1)), 15))
            continue
        count = bits // 8
        out.append(
            from_bytes(
                lowering, [source.regs[reg_of[(offset * count + i) & keep]] for i in range(count)], elem
            )
        )
    lowering.define(result, out)


LOWER = {
    "pack": lower_pack, "unpack": lower_unpack, "exti": lower_exti, "trunci": lower_trunci,
    "itof": lower_itof, "ftoi": lower_ftoi, "ftof": lower_ftof, "bitcast": lower_bitcast,
}  # fmt: skip
