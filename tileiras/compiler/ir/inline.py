"""The body of a loop in the place of the loop."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .core import Op


def put_in_place(loop: Op) -> None:
    """The ops of the body of a counted loop that has one step in the place of the loop."""
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
