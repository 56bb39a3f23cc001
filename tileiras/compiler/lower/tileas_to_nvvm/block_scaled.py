"""Block-scaled mma.sync: the words of scales, and what their signs do to the operands.

A register holds four neighbouring scales along K of one row of A or column of B; the instruction takes one, two or all
four of them, of lane 4 g for row (column) g and of lane 4 g + 1 for row g + 8. Scales of f8E4M3FN are signed numbers, which
the instruction reads without their sign: a negative one turns the signs of the elements that it scales.
"""

from __future__ import annotations

from tileiras.compiler.layout.linear import dim_bits
from tileiras.compiler.target import mma as atoms

from .transfer import pack_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op

    from .state import Lowering

SCALES_A_WORD = 4
ROWS = 8  # between the two rows of A that a lane's registers have
SIGNS = 0x88888888  # of eight elements of four bits


def scales_of(lowering: Lowering, op: Op) -> Any:
    """How a product is multiplied with its scales, as its atom says."""
    if op.attr("atom") == atoms.HALVES:
        from .scaled_halves import Halves

        return Halves(lowering, op)
    return Scales(lowering, op)


class Scales:
    """The scales of one product. Rows, columns and `k` are the packed numbers of elements as the product's loops count."""

    __slots__ = ("count", "first", "lowering", "opcode", "sides", "signs", "step", "words")

    def __init__(self, lowering: Lowering, op: Op) -> None:
        scale: Any = op.operands[3].type
        self.lowering = lowering
        self.sides = [lowering.tile(v) for v in op.operands[3:]]
        self.signs = scale.elem.name == "f8E4M3FN"
        self.first = op.attrs.get("first", 0)
        self.opcode = op.attr("atom")
        self.count = atoms.SCALES[self.opcode]
        self.step = atoms.SCALED_BYTES
        self.words: dict[tuple[int, int, int], Any] = {}

    def multiply(self, d: list[Any], a: list[Any], b: list[Any], m: int, n: int, k: int) -> list[Any]:
        builder = self.lowering.b
        number = self.first + k // self.step * self.count
        group, byte = divmod(number, SCALES_A_WORD)
        operands: list[Any] = []
        for which, other in ((0, m), (1, n)):
            operands += [self.word(which, other, group), (byte, 0)]
        out = tuple(builder.reg("r") for _ in d)
        c = tuple(builder.materialize(x, "r") for x in d)
        builder.emit_to(out, self.opcode, tuple(a), tuple(b), c, *operands)
        return list(out)

    def word(self, which: int, other: int, group: int) -> Any:
        """What the instruction takes of a row block of A or a column block of B."""
        found = self.words.get((which, other, group))
        if found is None:
            b = self.lowering.b
            found = self.row(which, other, group)
            if self.signs:
                if which == 0:
                    odd = b.entry("setp.ne.b32", b.entry("and.b32", b.tid, 1), 0)
                    found = b.emit("selp.b32", self.row(0, other | ROWS, group), found, odd)
                found = b.emit("and.b32", found, 0x7F7F7F7F)
            self.words[which, other, group] = found
        return found

    def row(self, which: int, other: int, group: int) -> Any:
        """Four neighbouring scales of the row or column that this lane holds."""
        tile = self.sides[which]
        dims = dim_bits(tile.shape)
        (k_low, k_bits), (o_low, _) = (dims[1], dims[0]) if which == 0 else (dims[0], dims[1])
        keep = ~tile.layout.inv
        values: list[Any] = []
        for i in range(SCALES_A_WORD):
            number = group * SCALES_A_WORD + i
            if number >> k_bits:
                values.append(0)
                continue
            values.append(tile.regs[tile.layout.reg_of[(number << k_low | other << o_low) & keep]])
        return pack_words(self.lowering, values, tile.elem)[0]

    def prepared(self, words: list[Any], which: int, other: int, k: int) -> list[Any]:
        """A fragment whose elements take the signs of their scales: a lane's words are of scales 0 or 1, then 2 or 3."""
        if not self.signs:
            return words
        b = self.lowering.b
        group = (self.first + k // self.step * self.count) // SCALES_A_WORD
        half = b.entry("bfe.u32", b.tid, 1, 1)
        low = b.entry(
            "add.s32", b.entry("mul.lo.s32", half, 0x1111), 0x8888
        )  # the sign of byte 0 or 1, everywhere
        high = b.entry("add.s32", low, 0x2222)
        rows = [self.row(which, other | half_row, group) for half_row in ((0, ROWS) if which == 0 else (0,))]
        out = []
        for i, word in enumerate(words):
            mask = b.emit("prmt.b32", rows[i % len(rows)], 0, low if i < len(rows) else high)
            out.append(b.emit("xor.b32", word, b.emit("and.b32", mask, SIGNS)))
        return out
