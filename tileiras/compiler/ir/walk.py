"""Walks along operands and uses without a Python frame a step: generated programs have chains of thousands of ops.

What a value is computed from is a graph in which values are shared; a function that asked for its operands by calling itself
would run out of stack in a long chain, and out of time where each op uses the one before it twice.
"""

from __future__ import annotations

DEEP = (
    64  # calls within one another before what recurs takes to `parts_first`: small beside Python's thousand
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeVar

    from .core import Block, Op

    T = TypeVar("T")


def held_in(block: Block | None, op: Op) -> Op | None:
    """The op of a block that is, or holds, an op; None where none of it does."""
    at: Op | None = op
    while at is not None and at.block is not block:
        at = at.parent
    return at


def parts_first(roots: Iterable[T], parts: Callable[[T], Iterable[T]]) -> list[T]:
    """All that is reached from the roots, each once, behind its parts, and otherwise in the order of a call of one's own. What
    is reached again from its own parts comes where it was first."""
    out: list[T] = []
    seen: set[T] = set()
    for root in roots:
        if root in seen:
            continue
        seen.add(root)
        work: list[tuple[T, Iterator[T]]] = [(root, iter(parts(root)))]
        while work:
            node, rest = work[-1]
            for part in rest:
                if part not in seen:
                    seen.add(part)
                    work.append((part, iter(parts(part))))
                    break
            else:
                out.append(node)
                work.pop()
    return out


def is_pure(op: Op) -> bool:
    """Whether an op only computes: it may go once nothing uses it."""
    return op.spec.is_pure


def erase_unused(op: Op | None, may_go: Callable[[Op], bool]) -> None:
    """Takes an op out that nothing uses, and then what only it used, as far as ops may go."""
    work = [op]
    while work:
        op = work.pop()
        if op is None or op.block is None or op.regions or any(r.uses for r in op.results) or not may_go(op):
            continue
        makers = [v.op for v in op.operands]
        op.erase()
        work += reversed(makers)
