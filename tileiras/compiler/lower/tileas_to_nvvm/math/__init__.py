"""Math functions as instruction sequences, in f32 and f64; f16 and bf16 are computed in f32 and rounded once.

There is no libdevice: every function is its own argument reduction and polynomial (`tables.py`, fitted by
scripts/fit_polynomials.py). Maximum errors in units of the last place: docs/accuracy.md.
"""

from __future__ import annotations

from .. import state
from ..arith import in_f32
from . import basic, exponential, power, remainder, trigonometric
from .floats import Floats

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tileiras.compiler.ir.core import Op

    from ..state import Lowering


def _function(compute: Callable[..., Any]) -> Callable[[Lowering, Op], None]:
    """Lowering of an elementwise function written once for both widths: compute(Floats, op, *operands)."""

    def lower(lowering: Lowering, op: Op) -> None:
        elem = op.results[0].type.elem.name  # type: ignore[attr-defined]
        if elem in ("f32", "f64"):
            floats = Floats(lowering, elem)
            return state.elementwise(lowering, op, lambda *args: compute(floats, op, *args))
        floats = Floats(lowering, "f32")
        in_f32(lowering, op, lambda *args: compute(floats, op, *args))

    return lower


LOWER = {
    **basic.LOWER,
    "exp": _function(exponential.exp),
    "exp2": _function(exponential.exp2),
    "log": _function(exponential.log),
    "log2": _function(exponential.log2),
    "sinh": _function(exponential.sinh),
    "cosh": _function(exponential.cosh),
    "tanh": _function(exponential.tanh),
    "sin": _function(trigonometric.sin),
    "cos": _function(trigonometric.cos),
    "tan": _function(trigonometric.tan),
    "atan2": _function(trigonometric.atan2),
    "fpowf": _function(power.pow),
    "fpowi": power.lower_fpowi,
    "remf": _function(remainder.rem),
}
