"""mmaf_scaled as ordinary ops: widen both operands, multiply each by its block's scale, then mmaf in f32.

Before: `mmaf_scaled %a, %b, %c, %sa, %sb`. After: ftof, reshape, broadcast, mulf on each side, then `mmaf`.
The products of an 8-bit float and a power-of-two or 8-bit scale are exact in f32, but for scales so large that the
product leaves its range (2^119 and more with f8E4M3FN, 2^112 with f8E5M2): those overflow to infinity.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa.ops import BY_NAME
from tileiras.compiler.ir.core import Op
from tileiras.compiler.ir.types import F32, TensorType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Block, Value


def lower_mmaf_scaled(block: Block, op: Op, operands: list[Value]) -> Op:
    """Appends the replacement; the last op has the result."""
    lhs, rhs, acc, lhs_scale, rhs_scale = operands

    def make(name: str, values: list[Value], shape: Any, **attrs: Any) -> Value:
        return block.append(
            Op(BY_NAME[name], values, [TensorType(F32, tuple(shape))], attrs, loc=op.loc)
        ).result

    def widen(value: Value) -> Value:
        return make("ftof", [value], value.type.shape, rounding_mode="nearest_even")  # type: ignore[attr-defined]

    def scaled(value: Value, scale: Value, k: int) -> Value:
        """value * scale, the scale repeated along dimension k."""
        shape = list(value.type.shape)  # type: ignore[attr-defined]
        steps = list(scale.type.shape)  # type: ignore[attr-defined]
        each = shape[k] // steps[k]
        spread = widen(scale)
        spread = make("reshape", [spread], [*steps[: k + 1], 1, *steps[k + 1 :]])
        spread = make("broadcast", [spread], [*steps[: k + 1], each, *steps[k + 1 :]])
        spread = make("reshape", [spread], shape)
        return make("mulf", [widen(value), spread], shape, rounding_mode="nearest_even")

    rank = len(lhs.type.shape)  # type: ignore[attr-defined]
    a = scaled(lhs, lhs_scale, rank - 1)
    b = scaled(rhs, rhs_scale, rank - 2)
    return block.append(Op(BY_NAME["mmaf"], [a, b, acc], [acc.type], {}, loc=op.loc))
