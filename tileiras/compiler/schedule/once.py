"""Loops of one step that TileAAStepOnce made: what they run, once, stands in their place in the end."""

from __future__ import annotations

from .candidates import constant_int

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tileiras.compiler.ir.core import Op

ONCE = "nv_tileaa.once"


def runs_once(loop: Op | None) -> bool:
    """Whether a loop is marked as one of these, and is known to have one step. A program's own loops of one step stay loops:
    in a loop over tiles their loads run ahead into the next tile."""
    if loop is None or ONCE not in loop.attrs or loop.spec.name != "for":
        return False
    lower, upper, step = (constant_int(v) for v in loop.operands[:3])
    if lower is None or upper is None or step is None:
        return False
    return 0 <= lower < upper <= lower + step
