"""Loops of one step: what they run, once, could stand in their place."""

from __future__ import annotations

from .candidates import constant_int

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tileiras.compiler.ir.core import Op


def runs_once(loop: Op | None) -> bool:
    """Whether a loop counts, and is known to have one step."""
    if loop is None or loop.spec.name != "for":
        return False
    lower, upper, step = (constant_int(v) for v in loop.operands[:3])
    if lower is None or upper is None or step is None:
        return False
    return 0 <= lower < upper <= lower + step


def put_in_place(loop: Op) -> None:
    """The ops of such a loop's body in the place of the loop."""
    body, block = loop.regions[0].block, loop.block
    assert block is not None
    body.args[0].replace_all_uses_with(loop.operands[0])
    for arg, begin in zip(body.args[1:], loop.operands[3:]):
        arg.replace_all_uses_with(begin)
    jump = body.ops.pop()
    ends = list(jump.operands)
    jump.block = None
    jump.drop_operands()
    for op in body.ops:
        block.insert_before(loop, op)
    body.ops = []
    for result, end in zip(loop.results, ends):
        result.replace_all_uses_with(end)
    loop.erase()
