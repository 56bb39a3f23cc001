"""TileAAMarkShortResults: which math functions only ever reach results of 16 bits or less.

Before: `%e = exp %x : f32; %y = ftof %e : f32 -> bf16`. After: `%e = exp %x {nv_tileaa.short_result}`: the lowering may
take ex2.approx and rcp.approx, whose error of a few f32 ulps disappears in the rounding (docs/accuracy.md has the bound).

A value may pass through arithmetic, selections, shapes, sums and maxima, and be carried by loops. It may not be
compared, rounded to an integer, stored or returned in f32, where a last bit shows. A quotient passes through no sum:
6 / 3 - 2 is 0, and with an approximate reciprocal it is not.
"""

from __future__ import annotations

from tileiras.compiler.ir.passes import Context, Pass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value

SHORT = "nv_tileaa.short_result"
MARKED = frozenset(("exp", "exp2", "tanh", "divf"))
SCALING = frozenset(
    ("mulf", "negf", "maxf", "minf", "divf", "select", "broadcast", "reshape", "permute", "extract")
)
ARITHMETIC = SCALING | {"addf", "subf", "fma"}
COMBINES = frozenset(("addf", "mulf", "maxf", "minf", "yield"))
SHORT_BITS = 16


class MarkShortResults(Pass):
    NAME = "TileAAMarkShortResults"
    SUMMARY = "Find f32 functions whose values end in 16-bit results"
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        for op in func.walk():
            if op.spec.name in MARKED and _is_short(op):
                op.attrs[SHORT] = True
        return True


def _is_short(op: Op) -> bool:
    elem = getattr(getattr(op.results[0].type, "elem", None), "name", "")
    quotient = op.spec.name == "divf"  # of 16 bits: correctly rounded
    if elem == "f32":
        return ends_short(op.results[0], SCALING if quotient else ARITHMETIC)
    return elem in ("f16", "bf16") and not quotient


def ends_short(value: Value, through: frozenset[str]) -> bool:
    """Whether every way from a value ends in a conversion to 16 bits or less."""
    seen = {value}
    todo = [value]
    while todo:
        for op, index in todo.pop().uses:
            following = _following(op, index, through)
            if following is None:
                return False
            for one in following:
                if one not in seen:
                    seen.add(one)
                    todo.append(one)
    return True


def _following(op: Op, index: int, through: frozenset[str]) -> list[Value] | None:
    """The values that an operand goes into; None where its last bits show."""
    name = op.spec.name
    if name == "ftof":
        elem: Any = op.results[0].type.elem  # type: ignore[attr-defined]
        return [] if elem.bits <= SHORT_BITS else None
    if name in through:
        return list(op.results)
    if name == "reduce":
        inner = {one.spec.name for one in op.regions[0].blocks[0].ops}
        return list(op.results) if inner <= COMBINES and ("addf" in through or "addf" not in inner) else None
    if name == "for" and index >= 3:
        return [op.results[index - 3], op.regions[0].blocks[0].args[index - 2]]
    if name in ("continue", "yield"):
        parent = op.parent
        if parent is not None and parent.spec.name == "for":
            return [parent.results[index], parent.regions[0].blocks[0].args[index + 1]]
        if parent is not None and parent.spec.name == "if":
            return [parent.results[index]]
    return None
