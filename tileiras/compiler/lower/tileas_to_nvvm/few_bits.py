"""Integers of few bits as f16 or bf16, two at a time.

A 16-bit float of exponent 2^size (size: bits of its mantissa) counts in its lower bits: 0x4300 | n is 128 + n in bf16, 0x6400 | n
is 1024 + n in f16. So the bits of two integers, wherever they lie in words, are brought into the halves of one (prmt), masked and
joined with that exponent (one instruction), and one fma takes away what is too much, and a constant with it: three instructions
for two floats, where a conversion needs each integer alone, in f32, behind its own shift and mask. Neighbours of the tile are
neighbours in the word, as whoever multiplies and stores pairs wants them.
"""

from __future__ import annotations

from tileiras.compiler.nvvm.code import Sym
from tileiras.compiler.passes.tileaa.exact_integers import EXACT
from tileiras.compiler.target import sm

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value

    from .state import Lowering

BYTE = 0xFF
SIGN = 0x80

# bits of the mantissa, bias, 1.0, and what computes two
HALVES = {"f16": (10, 15, 0x3C00, "f16x2"), "bf16": (7, 127, 0x3F80, "bf16x2")}


class Bits:
    """An integer: the bits `mask` (0xff at most) of a register shifted right by `first`, plus a constant. `signed`: a byte of
    two's complement, which has no mask."""

    __slots__ = ("constant", "first", "mask", "signed", "source")

    def __init__(self, source: Any, first: int, mask: int, constant: int, signed: bool) -> None:
        self.source = source
        self.first = first
        self.mask = mask
        self.constant = constant
        self.signed = signed

    @property
    def form(self) -> tuple[int, int, bool]:
        """What two integers that become a pair have in common."""
        return self.mask, self.constant, self.signed


def in_halves(lowering: Lowering, op: Op) -> bool:
    """Lowers a conversion of few bits of registers, less a constant or less other few bits, to 16 bits, two at a time; whether it
    did."""
    result = op.results[0]
    type: Any = result.type
    name = type.elem.name
    source: Any = op.operands[0].type
    size = source.elem.bits
    exact = size <= 16 or EXACT in op.attrs
    if not exact or size not in (8, 32) or name not in HALVES or type.layout.num_regs & 1:
        return False
    if not (name == "f16" or lowering.target.has(sm.BF16_ARITH)):
        return False
    signed = op.attr("signedness") == "signed"
    pairs = Pairs(lowering, name)
    words = pairs.of_all(few_bits(lowering, op.operands[0], type.layout, size, signed))
    if words is None and size == 32:
        words = _difference(lowering, pairs, op.operands[0], type.layout)
    if words is None:
        return False
    lowering.define(result, [half for word in words for half in lowering.b.unpack(word)])
    return True


def few_bits(lowering: Lowering, value: Value, layout: Any, size: int, signed: bool) -> list[Bits] | None:
    """The integers of a tile, where each is some bits of a register plus a constant."""
    b = lowering.b
    out = []
    for x in lowering.regs_as(value, layout):
        if isinstance(x, int):
            return None
        bits, constant = b.addc.get(x, (x, 0))
        source, first, mask = b.parts.get(bits, (bits, 0, (1 << 32) - 1))
        constant = (constant ^ 1 << 31) - (1 << 31)
        if size == 8:
            mask &= BYTE
            least, most = (-SIGN, SIGN - 1) if signed else (0, BYTE)
            constant = (constant - least & BYTE) + least
            if mask == BYTE and constant:
                return None  # may have wrapped around
            if mask != BYTE and not least <= constant <= most - mask:
                return None
        if not 0 < mask <= BYTE:
            return None
        out.append(Bits(source, first, mask, constant, size == 8 and signed and mask == BYTE))
    return out


def _difference(lowering: Lowering, pairs: Pairs, value: Value, layout: Any) -> list[Any] | None:
    """Pairs of floats of the difference of two tiles of few bits, as of weights and their zero points; None for others. Both are
    taken with the exponent that they were joined with, which the subtraction takes away."""
    op = value.op
    if op is None or op.spec.name != "subi":
        return None
    left, right = (few_bits(lowering, v, layout, 32, True) for v in op.operands)
    if left is None or right is None:
        return None
    out = []
    for low, high, less, least in zip(left[::2], left[1::2], right[::2], right[1::2]):
        constant = less.constant - low.constant
        if low.constant != high.constant or less.constant != least.constant:
            return None
        whole = pairs.joined(low, high)
        if (
            whole is not None
            and less.form == least.form == (BYTE, low.constant, False)
            and less.mask >= pairs.base
        ):
            out.append(pairs.less_bytes(whole, less, least))
            continue
        taken = pairs.joined(less, least)
        if whole is None or taken is None:
            return None
        if constant:
            if less.mask + abs(constant) >= pairs.base:
                return None
            taken = pairs.plus(taken, constant)
        out.append(pairs.minus(whole, taken))
    return out


class Pairs:
    """Words of two 16-bit floats of a type, made from integers of few bits."""

    __slots__ = ("b", "base", "bias", "form", "one", "size", "word")

    def __init__(self, lowering: Lowering, name: str) -> None:
        self.b = lowering.b
        self.size, self.bias, self.one, self.form = HALVES[name]
        self.base = 1 << self.size
        self.word = (self.bias + self.size) << self.size  # the float `base`: its mantissa counts ones

    def of_all(self, found: list[Bits] | None) -> list[Any] | None:
        """The floats of a tile's integers, two a word; None where they are not of one form, or too large."""
        if found is None or any(each.form != found[0].form for each in found):
            return None
        mask, constant, signed = found[0].form
        pairs = zip(found[::2], found[1::2])
        if signed and mask >= self.base:
            return [self.of_bytes(low, high) for low, high in pairs]
        if mask == BYTE and not constant and mask >= self.base:
            return [self.of_unsigned(low, high) for low, high in pairs]
        away = self.base - constant + (SIGN if signed else 0)
        if not 0 < away < 2 * self.base or mask >= self.base:
            return None
        return [self.plus(self.joined(low, high), -away) for low, high in pairs]

    def of_bytes(self, low: Bits, high: Bits) -> Any:
        """Two signed bytes, in a mantissa that has one bit less: base + seven bits, less base or, with the sign, twice that."""
        halves = self.side_by_side(low, high)
        magnitude = self.with_base(halves, SIGN - 1)
        return self.minus(magnitude, self.with_base(halves, SIGN))

    def of_unsigned(self, low: Bits, high: Bits) -> Any:
        """Two unsigned bytes, in a mantissa that has one bit less: base + seven bits, plus the eighth less base. All sums are
        eight bits and a sign."""
        halves = self.side_by_side(low, high)
        eighth = self.plus(self.with_base(halves, SIGN), -2 * self.base)
        return self.sum(self.with_base(halves, SIGN - 1), eighth)

    def less_bytes(self, whole: Any, low: Bits, high: Bits) -> Any:
        """base + n of two small integers, less two unsigned bytes and base, in a mantissa that has one bit less than they: first
        less base + seven bits, then less the eighth, so that no difference is larger than 2 * base."""
        halves = self.side_by_side(low, high)
        eighth = self.plus(self.with_base(halves, SIGN), -self.base)
        return self.minus(self.minus(whole, self.with_base(halves, SIGN - 1)), eighth)

    def joined(self, low: Bits, high: Bits) -> Any:
        """base + n of two integers without their constants (base + 128 + n of signed bytes); None where n is too large."""
        if low.mask >= self.base or low.form[0::2] != high.form[0::2]:
            return None
        whole = low.mask == high.mask == BYTE and not (low.first | high.first) & 7
        if whole and low.source is high.source and high.first != low.first + 16:
            return self.of_word(low, high)
        halves = self.side_by_side(low, high)
        if low.signed:
            bits = self.b.emit("and.b32", halves, self.twice(BYTE))
            return self.b.emit("xor.b32", bits, self.hidden(self.word | SIGN))
        return self.with_base(halves, low.mask)

    def of_word(self, low: Bits, high: Bits) -> Any:
        """base + n of two whole bytes of a word: one instruction brings them, and the exponent with them. The signs of four bytes
        are turned at once."""
        b = self.b
        word = b.emit("xor.b32", low.source, self.twice(SIGN << 8 | SIGN)) if low.signed else low.source
        return b.emit("prmt.b32", word, self.twice(self.word), low.first >> 3 | high.first >> 3 << 8 | 0x5050)

    def with_base(self, halves: Any, mask: int) -> Any:
        """base + n of the masked halves of a word."""
        return self.b.emit("or.b32", self.b.emit("and.b32", halves, self.twice(mask)), self.hidden(self.word))

    def side_by_side(self, low: Bits, high: Bits) -> Any:
        """A word whose halves have the bits of two integers at their lower ends, and anything above a byte."""
        b = self.b
        if low.source is high.source and high.first == low.first + 16:
            return b.shr(32, low.source, low.first)
        (first, at), (second, then) = (self.byte_of(each) for each in (low, high))
        then += 4
        return b.emit("prmt.b32", first, second, at | at << 4 | then << 8 | then << 12)

    def byte_of(self, bits: Bits) -> tuple[Any, int]:
        """A register and its byte whose lowest bit is an integer's."""
        return self.b.shr(32, bits.source, bits.first & 7), bits.first >> 3

    def twice(self, half: int) -> Any:
        """A constant in both halves."""
        return self.b.entry("mov.b32", half << 16 | half)

    def hidden(self, half: int) -> Any:
        """A constant in both halves that ptxas does not know. One instruction masks and joins, but has room for one constant:
        ptxas would move the other one to a register again for most of them. No grid has 2^31 blocks along z."""
        b = self.b
        zero = b.entry("and.b32", b.entry("mov.u32", Sym("%ctaid.z")), 1 << 31)
        return b.entry("or.b32", zero, half << 16 | half)

    def plus(self, pair: Any, constant: int) -> Any:
        """A pair plus an integer of at most twice base; exact, as the sums are such, too."""
        size = abs(constant)
        exponent = size.bit_length() - 1
        bits = (self.bias + exponent) << self.size | (size - (1 << exponent)) << self.size >> exponent
        sign = 1 << 15 if constant < 0 else 0
        return self.b.emit(f"fma.rn.{self.form}", pair, self.twice(self.one), self.twice(sign | bits))

    def sum(self, pair: Any, other: Any) -> Any:
        """The sum of two pairs."""
        return self.b.emit(f"fma.rn.{self.form}", other, self.twice(self.one), pair)

    def minus(self, pair: Any, other: Any) -> Any:
        """The difference of two pairs."""
        return self.b.emit(f"fma.rn.{self.form}", other, self.twice(1 << 15 | self.one), pair)
