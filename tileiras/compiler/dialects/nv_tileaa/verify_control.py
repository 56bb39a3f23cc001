"""Loops and branches over tensors: every way around a loop, out of it and out of a branch carries the types that it promises.

At construction an op is judged by its own fields and regions; what looks at the ops around it (an early exit and its loop)
holds for ops that stand in a block. The texts are those of cuda_tile.
"""

from __future__ import annotations

from tileiras.compiler.ir.verify import Invalid, elem_of, shape_of
from tileiras.diag import Catalogue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op

D = Catalogue("tileiras.compiler.dialects.cuda_tile.diags")
LOOPS = ("for", "loop")


def types_of(values: Any) -> list[Any]:
    return [v.type for v in values]


def carried(loop: Op) -> list[Any]:
    """Types of the values that a loop carries, as its body has them."""
    blocks = loop.regions[0].blocks
    return types_of(blocks[0].args[1:] if loop.spec.name == "for" else blocks[0].args) if blocks else []


def wanted(exit: Op, loop: Op) -> list[Any]:
    """Types that a `break` or `continue` hands to a loop."""
    return types_of(loop.results) if exit.spec.name == "break" else carried(loop)


def agree(got: list[Any], want: list[Any]) -> bool:
    """Whether values can be handed on. Layouts may differ: a value that is the same on all index bits has none of its own."""
    return len(got) == len(want) and all(
        a is b or shape_of(a) is not None and shape_of(a) == shape_of(b) and elem_of(a) is elem_of(b)
        for a, b in zip(got, want)
    )


def last_of(op: Op, region: int = 0) -> Op | None:
    blocks = op.regions[region].blocks
    return blocks[0].ops[-1] if blocks and blocks[0].ops else None


def check_loop(op: Op) -> None:
    """The values that go in, arrive in the body, go around and, of a `for`, come out have one type each."""
    want = carried(op)
    inits = types_of(op.operands)
    if op.spec.name == "for":
        bounds, inits = inits[:3] + types_of(op.regions[0].blocks[0].args[:1]), inits[3:]
        if len(bounds) < 4 or not agree(bounds, bounds[:1] * 4):
            raise Invalid(D.FOR_TYPES)
        if not agree(types_of(op.results), want):
            raise Invalid(D.FOR_RESULTS)
    if not agree(inits, want):
        raise Invalid(D.FOR_INIT)
    last = last_of(op)
    if last is not None and last.spec.name in ("break", "continue"):
        if not agree(types_of(last.operands), wanted(last, op)):
            raise Invalid(D.EARLY_EXIT_TYPES)


def check_if(op: Op) -> None:
    want = types_of(op.results)
    for region in (0, 1):
        last = last_of(op, region)
        if last is None:
            if want:
                raise Invalid(D.IF_ELSE)
        elif last.spec.name == "yield":
            got = types_of(last.operands)
            if len(got) != len(want):
                raise Invalid(D.TERMINATOR_COUNT, got=len(got), want=len(want))
            for one, other in zip(got, want):
                if not agree([one], [other]):
                    raise Invalid(D.TERMINATOR_TYPE, got=one, want=other)


def check_early_exit(op: Op) -> None:
    """break and continue reach their loop through ifs only, and carry its types."""
    if op.block is None:
        return
    loop = op.parent
    while loop is not None and loop.spec.name == "if":
        loop = loop.parent
    if loop is None:
        return  # the function is not complete yet
    if loop.spec.name not in (LOOPS if op.spec.name == "continue" else LOOPS[1:]):
        raise Invalid(D.EARLY_EXIT)
    if not agree(types_of(op.operands), wanted(op, loop)):
        raise Invalid(D.EARLY_EXIT_TYPES)
