"""TileAAMarkNonPositive: which exponentials are of a number minus a maximum that it took part in, as in every softmax.

Before: `%m = reduce max %x; %d = subf %x, %m; %e = exp %d`. After: `%e = exp %d {nv_tileaa.nonpositive}`: the argument is at
most 0 or NaN, so that the lowering leaves out what keeps large results in range.
"""

from __future__ import annotations

from tileiras.compiler.ir.passes import Context, Pass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value

NONPOSITIVE = "nv_tileaa.nonpositive"
RENAMES = frozenset(("reshape", "broadcast"))
DEPTH = 8  # maxima of maxima


class MarkNonPositive(Pass):
    NAME = "TileAAMarkNonPositive"
    SUMMARY = "Find exponentials of what is not positive"
    """
    does: marks exponentials of a number minus a maximum that it took part in
    without: the range of any number
    acts: attention_causal_f32 on sm_80
    """
    KEEPS_ANALYSES = True
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        for op in func.walk():
            if op.spec.name == "exp":
                difference = op.operands[0].op
                if (
                    difference is not None
                    and difference.spec.name == "subf"
                    and _bounds(*difference.operands)
                ):
                    op.attrs[NONPOSITIVE] = True
        return True


def _bounds(value: Value, bound: Value) -> bool:
    """Whether `bound` is a maximum over `value`: equal to it element by element, or larger, or NaN where one is."""
    value = _renamed(value, frozenset(("reshape",)))
    work, steps = (
        [(bound, False)],
        0,
    )  # with each value, whether a NaN of it may be lost on the way to `bound`
    while work and steps < DEPTH:
        steps += 1
        current, lossy = work.pop()
        current = _renamed(current, RENAMES)
        if current is value and current.type.shape == bound.type.shape:  # type: ignore[attr-defined]
            return True
        op = current.op
        if op is None:
            continue
        if op.spec.name == "maxf":
            work += [(v, lossy or not op.attr("propagate_nan")) for v in op.operands]
        elif op.spec.name == "reduce" and len(op.operands) == 1:
            ops = op.regions[0].block.ops
            alone = len(ops) == 2 and ops[0].spec.name == "maxf" and ops[1].operands[0] is ops[0].result
            if not alone or lossy and ops[0].attr("propagate_nan"):
                continue
            if _renamed(op.operands[0], frozenset(("reshape",))) is value and _same_rows(op, bound):
                return True
    return False


def _renamed(value: Value, names: frozenset[str]) -> Value:
    while value.op is not None and value.op.spec.name in names:
        value = value.op.operands[0]
    return value


def _same_rows(op: Op, bound: Value) -> bool:
    """Whether a reduction's results, spread over the dimension that it took, meet the rows that they are of."""
    source: Any = op.operands[0].type
    dim: int = op.attr("dim")
    kept = [e for d, e in enumerate(source.shape) if d != dim]
    # all elements of one row; else the broadcast that ends in `bound` must repeat along the reduced dimension
    if all(e == 1 for e in kept):
        return True
    spread = bound.op
    if spread is None or spread.spec.name != "broadcast":
        return False
    before: Any = spread.operands[0].type
    wanted = tuple(1 if d == dim else e for d, e in enumerate(source.shape))
    return tuple(before.shape) == wanted and tuple(bound.type.shape) == tuple(source.shape)  # type: ignore[attr-defined]
