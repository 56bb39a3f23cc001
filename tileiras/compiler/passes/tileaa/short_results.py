"""TileAAMarkShortResults: which math functions only ever reach results of 16 bits or less.

Before: `%e = exp %x : f32; %y = ftof %e : f32 -> bf16`. After: `%e = exp %x {nv_tileaa.short_result}`: the lowering may
take ex2.approx and rcp.approx, whose error of a few f32 ulps disappears in the rounding (docs/accuracy.md has the bound).

An exponential in attention may flush what is below 2^-126 besides (`nv_tileaa.tiny_is_zero`): of a number minus a maximum of
its row, where values are only summed and multiplied as matrices, because the maximum's own term is 1 and next to it nothing
so small changes a sum of f32, whatever becomes of the sum; and of a score minus what was kept of its row, where values are
only multiplied as matrices. `exp2` of f32 may where its sums are kept in f32, too: it is ex2.approx in any case.

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
TINY_IS_ZERO = "nv_tileaa.tiny_is_zero"
PRODUCTS = frozenset(("mmaf",))
SHAPES = frozenset(("broadcast", "reshape", "permute"))
DEPTH = 12  # ops between an argument and the maximum that it is compared with
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
    """
    does: marks f32 functions that only reach results of 16 bits: they may be approximate
    without: full precision
    acts: attention_causal_f16 on sm_80
    """
    KEEPS_ANALYSES = True
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        for op in func.walk():
            name = op.spec.name
            short = name in MARKED and _is_short(op)
            if short:
                op.attrs[SHORT] = True
            if (short and name == "exp" or name == "exp2") and may_flush(op):
                op.attrs[TINY_IS_ZERO] = True
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
    parent = op.parent
    if parent is not None and (name, parent.spec.name) == ("continue", "for"):
        return [parent.results[index], parent.regions[0].blocks[0].args[index + 1]]
    if parent is not None and (name, parent.spec.name) == ("yield", "if"):
        return [parent.results[index]]
    return None


def may_flush(op: Op) -> bool:
    """Whether results of an exponential below 2^-126 may be zero."""
    if below_maximum(op.operands[0]):
        return only_multiplied(op.results[0], True)
    return of_score(op.operands[0]) and only_multiplied(op.results[0], False)


def of_score(value: Value) -> bool:
    """Whether something is subtracted from the result of a matrix product."""
    op = value.op
    if op is None or op.spec.name not in ("subf", "fma"):
        return False
    minuend = op.operands[0]
    for _ in range(DEPTH):
        maker = minuend.op
        if maker is None or maker.spec.name not in PRODUCTS | {"mulf", "select"}:
            return False
        if maker.spec.name in PRODUCTS:
            return True
        minuend = maker.operands[1 if maker.spec.name == "select" else 0]
    return False


def below_maximum(value: Value) -> bool:
    """Whether a maximum over rows is subtracted from a value."""
    work, seen = [value], {value}
    while work:
        op = work.pop().op
        if op is None:
            continue
        name = op.spec.name
        if name in ("subf", "fma"):
            if of_maximum(op.operands[1 if name == "subf" else 2], DEPTH):
                return True
        elif name in ("mulf", "select"):
            work += [v for v in op.operands if v not in seen]
            seen.update(op.operands)
    return False


def of_maximum(value: Value, depth: int) -> bool:
    """Whether a value is a maximum over rows, perhaps negated, scaled, of more maxima, or spread out."""
    op = value.op
    if op is None or not depth:
        return False
    if op.spec.name == "reduce":
        return "maxf" in {inner.spec.name for inner in op.regions[0].block.ops}
    if op.spec.name not in SHAPES | {"negf", "mulf", "maxf"}:
        return False
    return any(of_maximum(v, depth - 1) for v in op.operands)


def only_multiplied(value: Value, sums: bool) -> bool:
    """Whether every way from a value ends, rounded to 16 bits or less, in an operand of a matrix product, or in a sum
    where that is as good."""
    seen = {value}
    todo = [(value, False)]
    while todo:
        current, rounded = todo.pop()
        for op, index in current.uses:
            name = op.spec.name
            if name in PRODUCTS and rounded and index < 2:
                continue
            if (
                sums
                and name == "reduce"
                and {inner.spec.name for inner in op.regions[0].block.ops}
                <= {
                    "addf",
                    "yield",
                }
            ):
                continue
            if name not in SHAPES | {"ftof", "mulf"} and not (name == "select" and index):
                return False
            result = op.results[0]
            if result not in seen:
                seen.add(result)
                todo.append((result, rounded or name == "ftof"))
    return True
