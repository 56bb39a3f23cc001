"""mmaf_scaled: as one op where instructions take fragments of its shape and types, `mma_block_scaled`; else as ordinary ops:
for each block of K one product in f16, then its results times both scales.

Before: `mmaf_scaled %a, %b, %c, %sa, %sb`. After, for each block: `mmaf` of slices of A and B, widened to f16, into zero,
then mulf and fma by the scales. Elements of 8 and 4 bits are f16 numbers, so a block's sum is that of the operands
as they are. A power of two comes in two factors of half its exponent, which the exponents of both scales add up to
without leaving f32: no step overflows or loses bits where the end result does not. Other scales have so few bits and so small
a range that their product is one f32 factor.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa.ops import BY_NAME
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Op
from tileiras.compiler.ir.spec import part_of
from tileiras.compiler.ir.types import F16, F32, I1, I8, I32, Dense, TensorType, TileType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Block, Value
    from tileiras.compiler.ir.spec import OpSpec

NAN = 0x7FC00000
PARTS: dict[str, OpSpec] = {}
MOST_ELEMENTS = 1 << 15  # of a tile that is not taken in slices


def lower_mmaf_scaled(block: Block, op: Op, operands: list[Value], native: Any = None) -> Value:
    """Appends the replacement; its result."""
    lhs, rhs, acc, lhs_scale, rhs_scale = operands
    make = Maker(block, op.loc)
    if native is not None:
        whole = make.block_scaled(operands, native)
        if whole is not None:
            return whole
    steps: int = lhs_scale.type.shape[-1]  # type: ignore[attr-defined]
    zero = make.constant(F32, acc.type.shape, 0)  # type: ignore[attr-defined]
    a, b = (make.tile("ftof", [v], F16, rounding_mode="nearest_even") for v in (lhs, rhs))
    left, right = make.factors(lhs_scale), make.factors(rhs_scale)
    total = acc
    for n in range(steps):
        part = make.tile("mmaf", [make.slice(a, -1, steps, n), make.slice(b, -2, steps, n), zero], F32, acc)
        scales = []
        for x, y in zip(left, right):
            spread = [
                make.tile("broadcast", [make.slice(v, dim, steps, n)], F32, acc)
                for v, dim in ((x, -1), (y, -2))
            ]
            scales.append(make.tile("mulf", spread, F32, acc, rounding_mode="nearest_even"))
        for factor in scales[:-1]:
            part = make.tile("mulf", [part, factor], F32, acc, rounding_mode="nearest_even")
        total = make.tile("fma", [part, scales[-1], total], F32, acc, rounding_mode="nearest_even")
    return total


class Maker:
    """Appends ops to a block, all at one location."""

    __slots__ = ("block", "loc")

    def __init__(self, block: Block, loc: Any) -> None:
        self.block = block
        self.loc = loc

    def op(
        self, name: str, operands: list[Value], type: TensorType, segments: Any = None, **attrs: Any
    ) -> Value:
        return self.block.append(
            create(self.spec(name), operands, [type], attrs, loc=self.loc, segments=segments)
        ).result

    def spec(self, name: str) -> OpSpec:
        """The op, called by what it is a part of."""
        if name not in PARTS:
            PARTS[name] = part_of(BY_NAME[name], "cuda_tile.mmaf_scaled")
        return PARTS[name]

    def tile(
        self, name: str, operands: list[Value], elem: Any, like: Value | None = None, **attrs: Any
    ) -> Value:
        """An op whose result has the shape of `like`, else of its first operand."""
        shape = (like or operands[0]).type.shape  # type: ignore[attr-defined]
        return self.op(name, operands, TensorType(elem, tuple(shape)), **attrs)

    def constant(self, elem: Any, shape: Any, bits: int) -> Value:
        data = Dense(TileType(elem, tuple(shape)), bits.to_bytes(4, "little"))
        return self.op("constant", [], TensorType(elem, tuple(shape)), value=data)

    def slice(self, value: Value, dim: int, count: int, number: int) -> Value:
        """The given one of `count` equal parts along a dimension."""
        if count == 1:
            return value
        type: Any = value.type
        shape = list(type.shape)
        shape[dim] //= count
        where = [self.constant(I32, (), 0) for _ in shape]
        where[dim] = self.constant(I32, (), number)
        return self.op("extract", [value, *where], TensorType(type.elem, tuple(shape)), (1, len(shape)))

    def block_scaled(self, operands: list[Value], native: Any) -> Value | None:
        """The product by block-scaled instructions; None where they do not fit."""
        lhs, rhs, acc, lhs_scale, rhs_scale = operands
        types: list[Any] = [v.type for v in operands]
        if len(types[0].shape) != 2:
            return None
        (m, k), n, elem = types[0].shape, types[1].shape[1], types[0].elem
        sizes = (m * k * elem.bits // 8, k * n * elem.bits // 8, m * n)
        length = k // types[3].shape[1]
        if not native(elem.name, types[3].elem.name, length):
            return None
        if m < 16 or n < 8 or k * elem.bits < 256 or max(sizes) > MOST_ELEMENTS:
            return None
        sides: list[Value | None] = [lhs, rhs]
        if elem.bits == 4:
            sides = [self.packed(lhs, (m, k // 2)), self.packed(rhs, (k // 2, n))]
        a, b = sides
        if a is None or b is None:
            return None
        return self.op(
            "mma_block_scaled", [a, b, acc, lhs_scale, rhs_scale], types[2], element=elem, block=length
        )

    def packed(self, value: Value, shape: tuple[int, int]) -> Value | None:
        """The bytes that a tile of four-bit elements was unpacked from, neighbours along K in one; None when there are none."""
        turned = value.op is not None and value.op.spec.name == "permute"
        if turned:
            if value.op.attr("permutation") != (1, 0):  # type: ignore[union-attr]
                return None
            value, shape = value.op.operands[0], shape[::-1]  # type: ignore[union-attr]
        elif shape[0] * 2 == value.type.shape[0]:  # type: ignore[attr-defined]
            return None  # neighbours along K lie rows apart
        value = _behind(value)
        if value.op is None or value.op.spec.name != "unpack":
            return None
        source = _behind(value.op.operands[0])
        type: Any = source.type
        if type.shape != shape:
            source = self.op("reshape", [source], TensorType(I8, shape))
        if turned:
            source = self.op("permute", [source], TensorType(I8, shape[::-1]), permutation=(1, 0))
        return source

    def factors(self, scale: Value) -> list[Value]:
        """f32 tiles whose product is a scale."""
        type: Any = scale.type
        if type.elem.name != "f8E8M0FNU":
            return [self.tile("ftof", [scale], F32, rounding_mode="nearest_even")]

        def number(n: int) -> Value:
            return self.constant(I32, type.shape, n)

        def integer(name: str, x: Value, y: Value, **attrs: Any) -> Value:
            return self.tile(name, [x, y], I32, **attrs)

        code = self.tile("exti", [self.tile("bitcast", [scale], I8)], I32, signedness="unsigned")
        low = integer("shri", code, number(1), signedness="unsigned")
        high = integer("subi", code, low, overflow="none")
        out = []
        for half, bias in (
            (low, 63),
            (high, 64),
        ):  # 2^(code - 127) with each half of the exponent biased by 127
            word = integer(
                "shli", integer("addi", half, number(bias), overflow="none"), number(23), overflow="none"
            )
            out.append(word)
        none = self.op(
            "cmpi",
            [code, number(255)],
            TensorType(I1, type.shape),
            comparison_predicate="equal",
            signedness="unsigned",
        )
        out[0] = self.op("select", [none, number(NAN), out[0]], TensorType(I32, type.shape))
        return [self.tile("bitcast", [word], F32) for word in out]


def _behind(value: Value) -> Value:
    """What a value is a reshape of."""
    while value.op is not None and value.op.spec.name == "reshape":
        value = value.op.operands[0]
    return value
