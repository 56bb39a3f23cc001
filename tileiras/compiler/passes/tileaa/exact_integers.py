"""TileAAMarkExactIntegers: which integers of 32 and 64 bits are known to be small when they become floats.

Before: `%m = andi %w, 15; %e = exti %m; %f = itof %e : i32 -> bf16`. After: `%f = itof %e {nv_tileaa.exact}`: at most 2^24 in
size, the integer is an f32 number, so that the only rounding is that to the result.
"""

from __future__ import annotations

from tileiras.compiler.ir.dense import dense_bits
from tileiras.compiler.ir.passes import Context, Pass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value

EXACT = "nv_tileaa.exact"
LARGEST = 1 << 24  # f32 holds all integers up to here
DEPTH = 12
SAME = frozenset(("reshape", "permute", "broadcast", "cat", "select", "extract"))
Range = tuple[int, int]


class MarkExactIntegers(Pass):
    NAME = "TileAAMarkExactIntegers"
    SUMMARY = "Find integers that are floats of 32 bits"
    """
    does: marks integers of at most 2^24, which f32 holds, where they become floats
    without: they are rounded to odd first, so that rounding twice is rounding once
    acts: staged_packed_weights_bf16 on sm_80
    """
    KEEPS_ANALYSES = True
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        known: dict[Value, Range] = {}
        for op in func.walk():
            if op.spec.name == "itof" and op.operands[0].type.elem.bits > 16:
                low, high = bounds(op.operands[0], known)
                if op.attr("signedness") == "unsigned" and low < 0:
                    continue
                if -LARGEST <= low and high <= LARGEST:
                    op.attrs[EXACT] = True
        return True


def bounds(value: Value, known: dict[Value, Range], depth: int = 0) -> Range:
    """Least and greatest element of a tile of signed integers, as far as its ops tell."""
    found = known.get(value)
    if found is None:
        bits: int = value.type.elem.bits  # type: ignore[attr-defined]
        least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        found = least, most
        if value.op is not None and depth < DEPTH:
            low, high = _of_op(value.op, (least, most), known, depth + 1)
            if least <= low and high <= most:  # else it may have wrapped around
                found = low, high
        known[value] = found
    return found


def _of_op(op: Op, anything: Range, known: dict[Value, Range], depth: int) -> Range:
    name = op.spec.name
    if name == "constant":
        bits = op.result.type.elem.bits  # type: ignore[attr-defined]
        values = [v - (1 << bits) if v >> (bits - 1) else v for v in dense_bits(op.attr("value"))]
        return min(values), max(values)
    if name == "iota":
        return 0, op.result.type.shape[0] - 1  # type: ignore[attr-defined]
    if name in SAME:
        parts = [bounds(v, known, depth) for v in op.operands if v.type.elem == op.result.type.elem]  # type: ignore[attr-defined]
        return min(p[0] for p in parts), max(p[1] for p in parts)
    if name == "exti":
        low, high = bounds(op.operands[0], known, depth)
        if op.attr("signedness") == "unsigned" and low < 0:
            return 0, (1 << op.operands[0].type.elem.bits) - 1  # type: ignore[attr-defined]
        return low, high
    if name == "trunci":
        return bounds(op.operands[0], known, depth)
    if name not in ("andi", "addi", "subi", "muli", "shri", "maxi", "mini"):
        return anything
    (a, b), (c, d) = (bounds(v, known, depth) for v in op.operands)
    if name == "andi":
        masks = [high for low, high in ((a, b), (c, d)) if low >= 0]
        return (0, min(masks)) if masks else anything
    if name == "addi":
        return a + c, b + d
    if name == "subi":
        return a - d, b - c
    if name == "muli":
        ends = [x * y for x in (a, b) for y in (c, d)]
        return min(ends), max(ends)
    signed = op.attr("signedness") == "signed"
    if name == "shri":
        if not signed and a < 0:
            a, b = 0, (1 << op.result.type.elem.bits) - 1  # type: ignore[attr-defined]
        if c < 0:
            return anything
        return min(a >> c, a >> d), max(b >> c, b >> d)
    if not signed and (a < 0 or c < 0):
        return anything
    return (max(a, c), max(b, d)) if name == "maxi" else (min(a, c), min(b, d))
