"""Integer and float arithmetic, comparisons, selects: one function per op, called once per register.

Narrow integers live in 32-bit registers with undefined upper bits: whatever depends on them (division, right
shift, comparison, minimum, conversion) extends first. Signs belong to ops, not to values.
"""

from __future__ import annotations

from tileiras.compiler.nvvm.code import Float, Reg
from tileiras.compiler.target import sm
from tileiras.compiler.target.registers import reg_class

from .state import Lowering, elementwise, paired

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op

ROUND = {"nearest_even": "rn", "zero": "rz", "negative_inf": "rm", "positive_inf": "rp"}
_SET = {
    "equal": "eq", "not_equal": "ne", "less_than": "lt", "less_than_or_equal": "le", "greater_than": "gt",
    "greater_than_or_equal": "ge",
}  # fmt: skip
_SIGNED_MIN = {8: -128, 16: -32768}


def sext(lowering: Lowering, x: Any, bits: int) -> Any:
    """A narrow integer sign-extended to 32 bits."""
    if bits >= 32:
        return x
    if isinstance(x, int):
        x &= (1 << bits) - 1
        return (x - (1 << bits) if x >> (bits - 1) else x) & 0xFFFFFFFF
    if bits == 8:
        return lowering.b.byte_signed(x)
    if bits == 16:
        return lowering.b.emit("cvt.s32.s16", x)
    return lowering.b.emit("bfe.s32", x, 0, bits)


def zext(lowering: Lowering, x: Any, bits: int) -> Any:
    """A narrow integer zero-extended to 32 bits."""
    return lowering.b.and_(32, x, (1 << bits) - 1) if bits < 32 else x


def extended(lowering: Lowering, x: Any, bits: int, signed: bool) -> Any:
    return sext(lowering, x, bits) if signed else zext(lowering, x, bits)


def signed_imm(x: Any, width: int) -> Any:
    """Integers as the two's complement value that signed instructions expect."""
    if isinstance(x, int):
        x &= (1 << width) - 1
        return x - (1 << width) if x >> (width - 1) else x
    return x


def _bits(op: Op) -> int:
    return op.operands[0].type.elem.bits  # type: ignore[attr-defined]


def _is_pred(op: Op) -> bool:
    return _bits(op) == 1


# ---- integers


def lower_addi(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    if _is_pred(op):
        return elementwise(lowering, op, lambda x, y: b.emit("xor.pred", x, y))
    w = max(32, _bits(op))
    elementwise(lowering, op, lambda x, y: b.add(w, x, y))


def lower_subi(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    if _is_pred(op):
        return elementwise(lowering, op, lambda x, y: b.emit("xor.pred", x, y))
    w = max(32, _bits(op))

    def one(x: Any, y: Any) -> Any:
        if isinstance(y, int):
            return b.add(w, x, -y)
        return b.emit(f"sub.s{w}", signed_imm(x, w), y)

    elementwise(lowering, op, one)


def lower_muli(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    if _is_pred(op):
        return elementwise(lowering, op, lambda x, y: b.emit("and.pred", x, y))
    w = max(32, _bits(op))
    elementwise(lowering, op, lambda x, y: b.mul(w, x, y))


def lower_negi(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    if _is_pred(op):
        return elementwise(lowering, op, lambda x: x)
    w = max(32, _bits(op))
    elementwise(lowering, op, lambda x: -x & ((1 << w) - 1) if isinstance(x, int) else b.emit(f"neg.s{w}", x))


def lower_absi(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    bits = _bits(op)
    if bits == 1:
        return elementwise(lowering, op, lambda x: x)
    w = max(32, bits)
    elementwise(lowering, op, lambda x: b.emit(f"abs.s{w}", signed_imm(sext(lowering, x, bits), w)))


def lower_mulhii(lowering: Lowering, op: Op) -> None:
    """Upper half of the unsigned product."""
    b = lowering.b
    bits = _bits(op)
    if bits == 1:
        return elementwise(lowering, op, lambda x, y: b.true(False))
    if bits >= 32:
        return elementwise(lowering, op, lambda x, y: b.emit(f"mul.hi.u{bits}", x, y))

    def one(x: Any, y: Any) -> Any:
        product = b.emit("mul.lo.u32", zext(lowering, x, bits), zext(lowering, y, bits))
        return b.shr(32, product, bits)

    elementwise(lowering, op, one)


def lower_divi(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    bits = _bits(op)
    signed = op.attr("signedness") == "signed"
    rounding = op.attr("rounding")
    if bits == 1:  # the only defined divisor is 1 (signed: -1, and -1 / -1 overflows)
        return elementwise(lowering, op, lambda x, y: x)
    w = max(32, bits)
    t = f"{'s' if signed else 'u'}{w}"

    def one(x: Any, y: Any) -> Any:
        x, y = extended(lowering, x, bits, signed), extended(lowering, y, bits, signed)
        known = _quotient(x, y, w, signed)
        if known is not None:
            whole, rest = known  # towards zero
            if rest and rounding == "negative_inf" and rest ^ _number(y, w, signed) < 0:
                whole -= 1
            if rest and rounding == "positive_inf" and rest ^ _number(y, w, signed) >= 0:
                whole += 1
            return whole & ((1 << w) - 1)
        if (
            isinstance(y, int)
            and not signed
            and y
            and y & (y - 1) == 0
            and rounding in ("zero", "negative_inf")
        ):
            return b.shr(w, x, y.bit_length() - 1)
        if signed:
            x, y = signed_imm(x, w), signed_imm(y, w)
            if isinstance(y, int) and y > 0 and y & (y - 1) == 0 and rounding == "negative_inf":
                return b.emit(f"shr.{t}", x, y.bit_length() - 1) if y > 1 else x
        q = b.emit(f"div.{t}", x, y)
        if rounding in ("zero", "nearest_int_to_zero") or (rounding == "negative_inf" and not signed):
            return q
        # adjust by one when the division was inexact and the true quotient lies on the other side
        r = b.sub(w, x, b.emit(f"mul.lo.s{w}", q, y))
        inexact = b.setp("ne", f"b{w}", r, 0)
        if not signed:  # positive_inf
            return b.emit(f"selp.b{w}", b.add(w, q, 1), q, inexact)
        negative = b.setp("lt", f"s{w}", b.emit(f"xor.b{w}", x, y), 0)
        if rounding == "negative_inf":
            take = b.emit("and.pred", inexact, negative)
            return b.emit(f"selp.b{w}", b.add(w, q, -1), q, take)
        take = b.emit("and.pred", inexact, b.emit("not.pred", negative))
        return b.emit(f"selp.b{w}", b.add(w, q, 1), q, take)

    elementwise(lowering, op, one)


def _number(x: int, width: int, signed: bool) -> int:
    return int(signed_imm(x, width)) if signed else x & ((1 << width) - 1)


def _quotient(x: Any, y: Any, width: int, signed: bool) -> tuple[int, int] | None:
    """Quotient and rest of two constants, rounded to zero; None of others, and where there are none."""
    if not isinstance(x, int) or not isinstance(y, int):
        return None
    x, y = _number(x, width, signed), _number(y, width, signed)
    if y == 0:
        return None
    whole = abs(x) // abs(y) * (-1 if x ^ y < 0 else 1)
    return whole, x - whole * y


def lower_remi(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    bits = _bits(op)
    signed = op.attr("signedness") == "signed"
    if bits == 1:
        return elementwise(lowering, op, lambda x, y: b.true(False))
    w = max(32, bits)

    def one(x: Any, y: Any) -> Any:
        x, y = extended(lowering, x, bits, signed), extended(lowering, y, bits, signed)
        known = _quotient(x, y, w, signed)
        if known is not None:
            return known[1] & ((1 << w) - 1)
        if isinstance(y, int) and not signed and y and y & (y - 1) == 0:
            return b.and_(w, x, y - 1)
        if signed:
            x, y = signed_imm(x, w), signed_imm(y, w)
        return b.emit(f"rem.{'s' if signed else 'u'}{w}", x, y)

    elementwise(lowering, op, one)


def _minmax(name: str) -> Any:
    def lower(lowering: Lowering, op: Op) -> None:
        b = lowering.b
        bits = _bits(op)
        signed = op.attr("signedness") == "signed"
        if bits == 1:  # signed i1: true is -1
            either = (name == "max") != signed
            return elementwise(lowering, op, lambda x, y: b.emit("or.pred" if either else "and.pred", x, y))
        w = max(32, bits)

        def one(x: Any, y: Any) -> Any:
            x, y = extended(lowering, x, bits, signed), extended(lowering, y, bits, signed)
            if signed:
                x, y = signed_imm(x, w), signed_imm(y, w)
            return b.emit(f"{name}.{'s' if signed else 'u'}{w}", x, y)

        elementwise(lowering, op, one)

    return lower


def _condition(lowering: Lowering, name: str, x: Any, y: Any) -> Any:
    """Two conditions combined, where they are known beforehand."""
    b = lowering.b
    for one, other in ((x, y), (y, x)):
        known = b.known(one)
        if known is not None and (name != "xor" or not known):
            neutral = name == "and"
            return other if known == neutral else one
    return b.emit(f"{name}.pred", x, y)


def _bitwise(name: str) -> Any:
    def lower(lowering: Lowering, op: Op) -> None:
        b = lowering.b
        if _is_pred(op):
            return elementwise(lowering, op, lambda x, y: _condition(lowering, name, x, y))
        w = max(32, _bits(op))
        fold = {"and": b.and_, "or": b.or_, "xor": b.xor}[name]
        elementwise(lowering, op, lambda x, y: fold(w, x, y))

    return lower


def lower_shli(lowering: Lowering, op: Op) -> None:
    """PTX clamps shift amounts to the register width, so an amount past a narrow type leaves zeros too."""
    b = lowering.b
    bits = _bits(op)
    if bits == 1:
        return elementwise(lowering, op, lambda x, y: b.emit("and.pred", x, b.emit("not.pred", y)))
    w = max(32, bits)

    def one(x: Any, y: Any) -> Any:
        if isinstance(y, int):
            y &= (1 << bits) - 1
            return 0 if y >= bits else b.shl(w, x, y)
        return b.emit(f"shl.b{w}", x, _amount(lowering, y, bits))

    elementwise(lowering, op, one)


def lower_shri(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    bits = _bits(op)
    signed = op.attr("signedness") == "signed"
    if bits == 1:
        if signed:
            return elementwise(lowering, op, lambda x, y: x)
        return elementwise(lowering, op, lambda x, y: b.emit("and.pred", x, b.emit("not.pred", y)))
    w = max(32, bits)

    def one(x: Any, y: Any) -> Any:
        x = extended(lowering, x, bits, signed)
        if isinstance(y, int):
            y = min(y & ((1 << bits) - 1), w)
            if y == 0:
                return x
            if signed and isinstance(x, int):
                return _number(x, w, True) >> y & ((1 << w) - 1)
            if not signed and (w == 32 or isinstance(x, int)):
                return b.shr(w, x, y)
            if w == 32 and not isinstance(x, int):
                return b.shr_signed(x, y)
        else:
            y = _amount(lowering, y, bits)
        return b.emit(f"shr.{'s' if signed else 'u'}{w}", signed_imm(x, w) if signed else x, y)

    elementwise(lowering, op, one)


def _amount(lowering: Lowering, y: Any, bits: int) -> Any:
    """A shift amount as u32, saturated for 64-bit types."""
    b = lowering.b
    if bits == 64:
        return b.emit("cvt.u32.u64", b.emit("min.u64", y, 64))
    return zext(lowering, y, bits)


def lower_cmpi(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    bits = _bits(op)
    signed = op.attr("signedness") == "signed"
    predicate = _SET[op.attr("comparison_predicate")]
    if bits == 1:
        return elementwise(lowering, op, lambda x, y: _compare_pred(lowering, predicate, signed, x, y))
    w = max(32, bits)
    kind = "b" if predicate in ("eq", "ne") else "s" if signed else "u"

    def one(x: Any, y: Any) -> Any:
        x, y = extended(lowering, x, bits, signed), extended(lowering, y, bits, signed)
        if signed and kind == "s":
            x, y = signed_imm(x, w), signed_imm(y, w)
        if isinstance(x, int) and isinstance(y, int):
            result = {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}[
                predicate
            ]
            return b.true(result)
        if isinstance(x, int):  # the first operand must be a register
            swap = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}.get(predicate, predicate)
            return compared(b, swap, kind, y, x)
        return compared(b, predicate, kind, x, y)

    def compared(b: Any, predicate: str, kind: str, x: Any, y: Any) -> Any:
        short = b.narrow(x, y) if w == 64 else None
        if short is None:
            return b.emit(f"setp.{predicate}.{kind}{w}", x, y)
        x, y, extended = short  # the order of numbers is that of what they were extended from
        if not extended and kind == "s":
            kind = "u"
        return b.emit(f"setp.{predicate}.{kind}32", x, signed_imm(y, 32) if kind == "s" else y)

    elementwise(lowering, op, one)


def _compare_pred(lowering: Lowering, predicate: str, signed: bool, x: Any, y: Any) -> Any:
    b = lowering.b
    if predicate == "ne":
        return b.emit("xor.pred", x, y)
    if predicate == "eq":
        return b.emit("not.pred", b.emit("xor.pred", x, y))
    if signed:  # true is -1: the order is reversed
        predicate = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}[predicate]
    if predicate in ("gt", "ge"):
        x, y = y, x
        predicate = {"gt": "lt", "ge": "le"}[predicate]
    if predicate == "lt":
        return b.emit("and.pred", b.emit("not.pred", x), y)
    return b.emit("or.pred", b.emit("not.pred", x), y)


def lower_select(lowering: Lowering, op: Op) -> None:
    cls = reg_class(op.results[0].type.elem)  # type: ignore[attr-defined]
    elementwise(lowering, op, lambda p, x, y: select(lowering, cls, p, x, y))


def select(lowering: Lowering, cls: str, p: Any, x: Any, y: Any) -> Any:
    b = lowering.b
    known = b.known(p)
    if x is y or known is not None:
        return x if x is y or known else y
    if cls == "p":
        return b.emit("or.pred", b.emit("and.pred", p, x), b.emit("and.pred", b.emit("not.pred", p), y))
    if cls == "h":
        return b.emit("selp.b16", x, y, p)
    kind = "b"
    if isinstance(x, Float) or isinstance(y, Float):
        kind = "f"
    return b.emit(f"selp.{kind}{32 if cls == 'r' else 64}", x, y, p)


# ---- floats


def word_of(lowering: Lowering, x: Any) -> Reg:
    """The bits of an f32 operand in a register."""
    if isinstance(x, Float):
        return lowering.b.materialize(x.bits, "r")
    return lowering.b.materialize(x, "r")


def upcast(lowering: Lowering, x: Any, name: str) -> Any:
    """f16 or bf16 to f32 (exact)."""
    b = lowering.b
    if name == "f16":
        return b.emit("cvt.f32.f16", x)
    # bf16 is the upper half of f32
    return b.emit("mov.b32", (b.imm16(0), x))


def downcast(lowering: Lowering, x: Any, name: str, rounding: str = "rn") -> Any:
    """f32 to f16 or bf16, rounded once; directed modes exist for rn and rz only, others are composed."""
    b = lowering.b
    if name == "f16":
        return b.emit(f"cvt.{rounding}.f16.f32", x)

    if lowering.target.has(sm.BF16_CVT):
        return b.emit(f"cvt.{rounding}.bf16.f32", x)
    return _bf16_by_integer(lowering, x, rounding)


def _bf16_by_integer(lowering: Lowering, x: Any, rounding: str) -> Any:
    """Round to nearest even (or toward zero) on the bit pattern; NaN stays NaN. For targets without cvt.bf16."""
    b = lowering.b
    word = word_of(lowering, x)
    if rounding == "rn":
        odd = b.emit("bfe.u32", word, 16, 1)
        rounded = b.add(32, b.add(32, word, odd), 0x7FFF)
        nan = b.emit("setp.nan.f32", word, word)
        word = b.emit("selp.b32", 0x7FFFFFFF, rounded, nan)
    low, high = b.reg("h"), b.reg("h")
    b.emit_to((low, high), "mov.b32", word)
    return high


def in_f32(lowering: Lowering, op: Op, one: Any) -> None:
    """Lower an op on f16 or bf16 through f32 (`one` computes on f32)."""
    name = op.results[0].type.elem.name  # type: ignore[attr-defined]

    def wrapped(*args: Any) -> Any:
        return downcast(lowering, one(*[upcast(lowering, a, name) for a in args]), name)

    elementwise(lowering, op, wrapped)


def lower_float_binary(name: str) -> Any:
    """addf, subf, mulf: always with a rounding modifier, so that ptxas never contracts."""

    def lower(lowering: Lowering, op: Op) -> None:
        b = lowering.b
        elem = op.results[0].type.elem.name  # type: ignore[attr-defined]
        rounding = ROUND[op.attr("rounding_mode")]
        ftz = ".ftz" if op.attr("flush_to_zero") else ""
        if elem in ("f32", "f64"):
            if elem == "f32" and paired(lowering, op, f"{name}.{rounding}{ftz}"):
                return
            opcode = f"{name}.{rounding}{ftz}.{elem}"
            return elementwise(lowering, op, lambda x, y: b.emit(opcode, x, y))
        narrow_float(lowering, op, name, rounding)

    return lower


def narrow_float(lowering: Lowering, op: Op, name: str, rounding: str) -> None:
    """add, sub, mul on f16 and bf16. One f32 operation is exact enough that the second rounding is harmless
    (f32 has more than 2p+2 bits of either type); other modes than nearest round toward the mode twice."""

    b = lowering.b
    elem = op.results[0].type.elem.name  # type: ignore[attr-defined]
    if rounding == "rn" and (elem == "f16" or lowering.target.has(sm.BF16_ADD)):
        opcode = f"{name}.rn.{elem}"
        return elementwise(lowering, op, lambda x, y: b.emit(opcode, x, y))
    if rounding == "rn" and lowering.target.has(sm.BF16_ARITH):
        return elementwise(lowering, op, _BY_FMA[name](b))

    def one(x: Any, y: Any) -> Any:
        wide = b.emit(f"{name}.{rounding}.f32", upcast(lowering, x, elem), upcast(lowering, y, elem))
        return round_directed(lowering, wide, elem, rounding)

    elementwise(lowering, op, one)


# x + y, x - y and x * y of bf16 with the one instruction that sm_80 has: an fma whose third part changes nothing.
_BY_FMA = {
    "add": lambda b: lambda x, y: b.emit("fma.rn.bf16", x, b.imm16(0x3F80), y),
    "sub": lambda b: lambda x, y: b.emit("fma.rn.bf16", y, b.imm16(0xBF80), x),
    "mul": lambda b: lambda x, y: b.emit("fma.rn.bf16", x, y, b.imm16(0x8000)),
}


def round_directed(lowering: Lowering, x: Any, elem: str, rounding: str) -> Any:
    """f32 to f16 or bf16 in any of the four modes."""
    b = lowering.b
    if rounding in ("rn", "rz"):
        return downcast(lowering, x, elem, rounding)
    # toward an infinity: truncate, then step one unit outward when inexact and on that side
    z = downcast(lowering, x, elem, "rz")
    back = upcast(lowering, z, elem)
    wrong = b.emit("setp.lt.f32" if rounding == "rp" else "setp.gt.f32", back, x)
    sign = b.emit("shr.u16", z, 15)
    # stepping outward means +1 on the magnitude bits when moving away from zero, which truncation guarantees
    stepped = b.emit("add.u16", z, 1)
    zero = b.emit("setp.eq.b16", b.emit("and.b16", z, 0x7FFF), 0)
    smallest = b.imm16(0x0001 if rounding == "rp" else 0x8001)
    del sign
    stepped = b.emit("selp.b16", smallest, stepped, zero)
    return b.emit("selp.b16", stepped, z, wrong)


def lower_fma(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    elem = op.results[0].type.elem.name  # type: ignore[attr-defined]
    rounding = ROUND[op.attr("rounding_mode")]
    ftz = ".ftz" if op.attr("flush_to_zero") else ""
    if elem == "f32" and paired(lowering, op, f"fma.{rounding}{ftz}"):
        return
    if elem in ("f32", "f64"):
        return elementwise(lowering, op, lambda x, y, z: b.emit(f"fma.{rounding}{ftz}.{elem}", x, y, z))

    if rounding == "rn" and (elem == "f16" or lowering.target.has(sm.BF16_ARITH)):
        return elementwise(lowering, op, lambda x, y, z: b.emit(f"fma.rn.{elem}", x, y, z))

    def one(x: Any, y: Any, z: Any) -> Any:
        wide = [b.emit("cvt.f64.f32", upcast(lowering, v, elem)) for v in (x, y, z)]
        if rounding != "rn":  # rounding twice in one direction is rounding once
            return from_f64(lowering, b.emit(f"fma.{rounding}.f64", *wide), elem, rounding)
        return from_f64(
            lowering, _odd_sum(lowering, b.emit("mul.rn.f64", wide[0], wide[1]), wide[2]), elem, "rn"
        )

    elementwise(lowering, op, one)


def _odd_sum(lowering: Lowering, x: Any, y: Any) -> Any:
    """x + y in f64 rounded to odd: the exact error of the nearest sum says which neighbour that is."""
    b = lowering.b
    total = b.emit("add.rn.f64", x, y)
    back = b.emit("sub.rn.f64", total, x)
    error = b.emit(
        "add.rn.f64",
        b.emit("sub.rn.f64", x, b.emit("sub.rn.f64", total, back)),
        b.emit("sub.rn.f64", y, back),
    )
    inexact = b.emit("setp.ne.f64", error, b.float("d", 0))
    even = b.emit("setp.eq.b64", b.emit("and.b64", total, 1), 0)
    outward = b.emit("setp.ge.s64", b.emit("xor.b64", total, error), 0)  # the error points away from zero
    moved = b.emit("add.s64", total, b.emit("selp.s64", 1, -1, outward))
    return b.emit("selp.b64", moved, total, b.emit("and.pred", inexact, even))


def from_f64(lowering: Lowering, x: Any, elem: str, rounding: str) -> Any:
    """f64 to f16 or bf16 with one rounding: through f32 rounded to odd."""
    b = lowering.b
    down = b.emit("cvt.rz.f32.f64", x)
    inexact = b.emit("setp.neu.f64", b.emit("cvt.f64.f32", down), x)
    odd = b.emit("or.b32", down, 1)
    finite = b.emit("setp.lt.f32", b.emit("abs.f32", down), b.float("r", 0x7F800000))
    take = b.emit("and.pred", inexact, finite)
    return round_directed(lowering, b.emit("selp.b32", odd, down, take), elem, rounding)


def lower_negf(lowering: Lowering, op: Op) -> None:
    _sign_bit(lowering, op, "xor")


def lower_absf(lowering: Lowering, op: Op) -> None:
    _sign_bit(lowering, op, "and")


def _sign_bit(lowering: Lowering, op: Op, how: str) -> None:
    """Sign changes are bit operations: exact for NaN payloads and subnormals on every target."""
    b = lowering.b
    elem = op.results[0].type.elem.name  # type: ignore[attr-defined]
    bits = 64 if elem == "f64" else 32 if elem == "f32" else 16
    mask = 1 << (bits - 1)
    if how == "and":
        mask -= 1
    if bits == 32:
        return elementwise(lowering, op, lambda x: b.emit("neg.f32" if how == "xor" else "abs.f32", x))
    if bits == 64:
        return elementwise(lowering, op, lambda x: b.emit("neg.f64" if how == "xor" else "abs.f64", x))
    elementwise(lowering, op, lambda x: b.emit(f"{how}.b16", x, mask))


def _float_minmax(name: str) -> Any:
    def lower(lowering: Lowering, op: Op) -> None:

        b = lowering.b
        elem = op.results[0].type.elem.name  # type: ignore[attr-defined]
        nan = op.attr("propagate_nan")
        ftz = ".ftz" if op.attr("flush_to_zero") else ""

        def f32(x: Any, y: Any) -> Any:
            if not nan:
                return b.emit(f"{name}{ftz}.f32", x, y)
            if lowering.target.has(sm.MINMAX_NAN):
                return b.emit(f"{name}{ftz}.NaN.f32", x, y)
            p = b.emit("setp.nan.f32", x, y)
            return b.emit("selp.f32", b.float("r", 0x7FFFFFFF), b.emit(f"{name}{ftz}.f32", x, y), p)

        if elem == "f32":
            return elementwise(lowering, op, f32)
        if elem == "f64":

            def f64(x: Any, y: Any) -> Any:
                value = b.emit(f"{name}.f64", x, y)
                if not nan:
                    return value
                p = b.emit("setp.nan.f64", x, y)
                return b.emit("selp.f64", b.float("d", 0x7FF8000000000000), value, p)

            return elementwise(lowering, op, f64)
        if lowering.target.has(sm.F16_MINMAX):
            opcode = f"{name}{'.NaN' if nan else ''}.{elem}"
            return elementwise(lowering, op, lambda x, y: b.emit(opcode, x, y))
        in_f32(lowering, op, f32)

    return lower


def lower_cmpf(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    elem = op.operands[0].type.elem.name  # type: ignore[attr-defined]
    predicate = _SET[op.attr("comparison_predicate")]
    if op.attr("comparison_ordering") == "unordered":
        predicate += "u"

    def one(x: Any, y: Any) -> Any:
        if elem in ("f16", "bf16"):
            x, y = upcast(lowering, x, elem), upcast(lowering, y, elem)
        return b.emit(f"setp.{predicate}.{'f64' if elem == 'f64' else 'f32'}", x, y)

    elementwise(lowering, op, one)


LOWER = {
    "addi": lower_addi, "subi": lower_subi, "muli": lower_muli, "negi": lower_negi, "absi": lower_absi,
    "mulhii": lower_mulhii, "divi": lower_divi, "remi": lower_remi, "maxi": _minmax("max"), "mini": _minmax("min"),
    "andi": _bitwise("and"), "ori": _bitwise("or"), "xori": _bitwise("xor"), "shli": lower_shli, "shri": lower_shri,
    "cmpi": lower_cmpi, "select": lower_select, "addf": lower_float_binary("add"), "subf": lower_float_binary("sub"),
    "mulf": lower_float_binary("mul"), "fma": lower_fma, "negf": lower_negf, "absf": lower_absf,
    "maxf": _float_minmax("max"), "minf": _float_minmax("min"), "cmpf": lower_cmpf,
}  # fmt: skip
