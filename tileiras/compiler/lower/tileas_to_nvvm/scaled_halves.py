"""Block scales around mma.sync of f16, for targets and shapes without block-scaled instructions.

Elements of 8 and 4 bits are f16 numbers. Fragments of bytes become fragments of f16 in the same lane: a sum over K may take its
terms in any order, if A and B are in the same. Scales of f8E4M3FN have so few bits and so small a range that an element times
its scale is an f16 number as well: they are applied to the elements, with their signs. Powers of two are applied to the sum of
each block in two factors of half the exponent: no step overflows or loses bits where the end result does not.
"""

from __future__ import annotations

from tileiras.compiler.layout.linear import dim_bits
from tileiras.compiler.target import mma as atoms
from tileiras.compiler.target import sm

from .block_scaled import ROWS, SCALES_A_WORD
from .transfer import pack_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op

    from .state import Lowering

SIGNS = 0x80008000  # of two f16 numbers
NAN = 0x7FC00000


class Halves:
    """The scales of one product, and its multiplication. Rows, columns and `k` are numbers of elements (bytes) as the
    product's loops count."""

    __slots__ = ("block", "each", "elem", "factors", "first", "lowering", "sides", "signed")

    def __init__(self, lowering: Lowering, op: Op) -> None:
        self.lowering = lowering
        self.sides = [lowering.tile(v) for v in op.operands[3:]]
        self.elem: str = op.attr("element").name
        self.block: int = op.attr("block")
        self.each = 2 if self.elem == "f4E2M1FN" else 1  # elements in a byte
        self.first: int = op.attrs.get("first", 0)
        self.signed = self.sides[0].elem.name == "f8E4M3FN"  # type: ignore[attr-defined]
        self.factors: dict[tuple[int, int, int], tuple[Any, Any]] = {}

    def number(self, k: int) -> int:
        """Of the scales at byte k."""
        return self.first + k * self.each // self.block

    # ---- operands
    def prepared(self, words: list[Any], which: int, other: int, k: int) -> list[Any]:
        """Pairs of f16 numbers out of a fragment of bytes: a list for each word."""
        b = self.lowering.b
        out = []
        halves = (0, ROWS) if which == 0 else (0,)
        for i, word in enumerate(words):
            pairs = self.pairs(word, self.elem)
            if self.signed:
                step, half = divmod(i, len(halves))
                scale = self.lane_scale(which, other | halves[half], k, step)
                pairs = [b.emit("mul.rn.f16x2", pair, scale) for pair in pairs]
            out.append(pairs)
        return out

    def lane_scale(self, which: int, other: int, k: int, step: int) -> Any:
        """Twice the scale of what this lane holds of a row (column), sixteen elements of four bits: lanes 0 and 1 have the
        first block of a step, lanes 2 and 3 the second."""
        b = self.lowering.b
        number = self.number(k) + 2 * step
        word = self.word(which, other, number // SCALES_A_WORD)
        upper = b.entry("mul.lo.s32", b.entry("bfe.u32", b.tid, 1, 1), 0x1111)
        place = b.entry("add.s32", upper, 0x1111 * (number % SCALES_A_WORD))
        return self.pairs(b.emit("prmt.b32", word, 0, place), "f8E4M3FN")[0]

    def word(self, which: int, other: int, group: int) -> Any:
        """Four neighbouring scales of a row or column."""
        values = [self.scale(which, other, group * SCALES_A_WORD + i) for i in range(SCALES_A_WORD)]
        return pack_words(self.lowering, values, self.sides[which].elem)[0]

    def scale(self, which: int, other: int, number: int) -> Any:
        tile = self.sides[which]
        dims = dim_bits(tile.shape)
        (k_low, k_bits), (o_low, _) = (dims[1], dims[0]) if which == 0 else (dims[0], dims[1])
        if number >> k_bits:
            return 0
        return tile.regs[tile.layout.reg_of[(number << k_low | other << o_low) & ~tile.layout.inv]]

    def pairs(self, word: Any, elem: str) -> list[Any]:
        """The elements of a word, two f16 numbers a register."""
        b = self.lowering.b
        word = b.materialize(word, "r")
        if elem == "f4E2M1FN":  # 2^-14 of them, then they themselves
            small = []
            for i in range(4):
                top = b.shl(32, word, 12 - 4 * i)
                small.append(b.or_(32, b.and_(32, top, SIGNS), b.and_(32, b.shr(32, top, 3), 0x0E000E00)))
            return [
                b.emit("mul.rn.f16x2", b.materialize(x, "r"), b.entry("mov.b32", 0x74007400)) for x in small
            ]
        if elem == "f8E5M2":  # the upper byte of f16
            return [b.and_(32, b.shl(32, word, shift), 0xFF00FF00) for shift in (8, 0)]
        if self.lowering.target.has(sm.FP8_CVT):
            out = []
            for half in b.unpack(word):
                pair = b.reg("r")
                b.emit_to(pair, "cvt.rn.f16x2.e4m3x2", half)
                out.append(pair)
            return out
        return [self.e4m3(b.shl(32, word, shift)) for shift in (8, 0)]

    def e4m3(self, word: Any) -> Any:
        """Bytes 1 and 3 of a word: 2^-8 of them, then they themselves, or NaN where all bits but the sign are set."""
        b = self.lowering.b
        size = b.and_(32, word, 0x7F007F00)
        small = b.or_(32, b.and_(32, word, SIGNS), b.shr(32, size, 1))
        value = b.emit("mul.rn.f16x2", b.materialize(small, "r"), b.entry("mov.b32", 0x5C005C00))
        full = b.shr(32, b.and_(32, b.add(32, size, 0x01000100), SIGNS), 15)
        return b.or_(32, value, b.mul(32, full, 0x7E00))

    # ---- products
    def multiply(self, d: list[Any], a: list[Any], b: list[Any], m: int, n: int, k: int) -> list[Any]:
        """d plus the products of a step of bytes: words of A in the order step, row; of B by step."""
        if self.signed:
            for step in (0, 1):
                d = self.chain(d, a, b, step)
            return d
        number = self.number(k)
        bytes_a_block = self.block // self.each
        if bytes_a_block == atoms.SCALED_BYTES:
            return self.add(d, self.chain(self.chain(None, a, b, 0), a, b, 1), m, n, number)
        for step in (0, 1):
            if bytes_a_block == atoms.SCALED_BYTES // 2:
                d = self.add(d, self.chain(None, a, b, step), m, n, number + step)
                continue
            for half in (0, 1):  # lanes 0 and 1 have the first of two blocks
                kept = self.of_half(a, step, half)
                d = self.add(d, self.chain(None, kept, b, step), m, n, number + 2 * step + half)
        return d

    def of_half(self, a: list[Any], step: int, half: int) -> list[Any]:
        """A with zeros in the lanes that hold the other block."""
        b = self.lowering.b
        mine = b.entry("setp.eq.u32", b.entry("bfe.u32", b.tid, 1, 1), half)
        out = list(a)
        for i in (2 * step, 2 * step + 1):
            out[i] = [b.emit("selp.b32", pair, 0, mine) for pair in a[i]]
        return out

    def chain(self, d: Any, a: list[Any], b: list[Any], step: int) -> list[Any]:
        """The products of a step (half of the bytes) added to d; None: to zero."""
        builder = self.lowering.b
        rows, rows_8, columns = a[2 * step], a[2 * step + 1], b[step]
        sums: list[Any] = [builder.float("r", 0)] * 4 if d is None else d
        for i in range(0, len(columns), 2):
            out = tuple(builder.reg("r") for _ in range(4))
            fragment = (rows[i], rows_8[i], rows[i + 1], rows_8[i + 1])
            c = tuple(builder.materialize(x, "r") for x in sums)
            builder.emit_to(out, atoms.HALVES, fragment, (columns[i], columns[i + 1]), c)
            sums = list(out)
        return sums

    def add(self, d: list[Any], part: list[Any], m: int, n: int, number: int) -> list[Any]:
        """d plus a block's sums times both scales: columns 2 t and 2 t + 1 of row g, then of row g + 8."""
        b = self.lowering.b
        right = [self.powers(1, n | column, number) for column in (0, 1)]
        out: list[Any] = []
        for i, row in enumerate((0, ROWS)):
            left = self.powers(0, m | row, number)
            sums, old = part[2 * i : 2 * i + 2], d[2 * i : 2 * i + 2]
            if self.lowering.target.has(sm.F32X2):
                both = b.pair(*sums)
                factors = [
                    b.emit("mul.rn.f32x2", b.pair(left[f], left[f]), b.pair(right[0][f], right[1][f]))
                    for f in (0, 1)
                ]
                both = b.emit("mul.rn.f32x2", both, factors[0])
                both = b.emit("fma.rn.f32x2", both, factors[1], b.pair(*(b.materialize(x, "r") for x in old)))
                out += b.halves_of(both)
                continue
            for j in (0, 1):
                low, high = (b.emit("mul.rn.f32", left[f], right[j][f]) for f in (0, 1))
                scaled = b.emit("mul.rn.f32", sums[j], low)
                out.append(b.emit("fma.rn.f32", scaled, high, b.materialize(old[j], "r")))
        return out

    def powers(self, which: int, other: int, number: int) -> tuple[Any, Any]:
        """Two f32 numbers whose product is a scale of f8E8M0FNU: 2^(code - 127), NaN for 255."""
        found = self.factors.get((which, other, number))
        if found is None:
            b = self.lowering.b
            code = b.and_(32, self.scale(which, other, number), 0xFF)
            half = b.shr(32, code, 1)
            low = b.shl(32, b.add(32, half, 63), 23)
            high = b.shl(32, b.add(32, b.sub(32, code, half), 64), 23)
            none = b.emit("setp.eq.b32", b.materialize(code, "r"), 255)
            found = b.emit("selp.b32", NAN, low, none), b.materialize(high, "r")
            self.factors[which, other, number] = found
        return found
