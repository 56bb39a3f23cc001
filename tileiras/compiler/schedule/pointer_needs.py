"""What must hold at run time for the tile of a load through pointers to come in wide chunks: scalars in front of its loop.

Addresses and masks are followed back to the scalars that they are made of. With all of these taken for multiples of a chunk,
not negative and far from overflow, the axis facts say whether the pointers would count up in chunks, under one mask each; then
each scalar, or what is not needed of it, that this does not depend on is dropped again.
"""

from __future__ import annotations

from tileiras.compiler.ir.types import Ptr
from tileiras.compiler.passes.tileaa.facts import Facts

from .candidates import computes, is_outside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value

MOST_SCALARS = 16  # that are looked at: an address has a base, a stride and an edge for each dimension


def pointer_needs(
    op: Op, loop: Op, chunk: int, run: Callable[[Op, Facts], tuple[int, int]]
) -> dict[Value, int] | None:
    """Which bits of which scalars must be zero for chunks of so many bytes: the lowest ones, the highest; None where alignment is
    not all that is missing. `run`: along which dimension pointers count up, and how far, under given facts."""
    size: int = op.results[0].type.elem.bytes  # type: ignore[attr-defined]

    def suffices(assumed: dict[Value, int]) -> bool:
        unit, count = run(op, Facts(assumed))
        return unit >= 0 and count * size >= chunk

    if suffices({}):
        return {}
    found = scalars_behind(op, loop)
    if not found or len(found) > MOST_SCALARS:
        return None
    needs = {}
    for value in found:
        elem: Any = value.type.elem  # type: ignore[attr-defined]
        needs[value] = chunk - 1 if isinstance(elem, Ptr) else chunk - 1 | 3 << elem.bits - 2
    if not suffices(needs):
        return None
    for value, bits in list(needs.items()):
        high = bits & ~(chunk - 1)
        for less in sorted({0, high, chunk // size - 1, chunk // size - 1 | high, chunk - 1}):
            fewer = {v: b for v, b in {**needs, value: less}.items() if b}
            if less < bits and suffices(fewer):
                needs = fewer
                break
    return needs


def scalars_behind(op: Op, loop: Op) -> list[Value]:
    """The scalars in front of a loop that a load's addresses and mask are made of: what varies from block to block first,
    pointers last."""
    found: list[Value] = []
    work: list[Any] = [v for v in (op.operand("source"), op.operand("mask")) if v is not None]
    seen = set(work)
    while work:
        value = work.pop()
        parts: list[Any] = []
        if not hasattr(value.type, "shape"):
            continue
        if value.type.shape == () and is_outside(value, loop):
            if value.op is None or value.op.spec.name != "constant":
                found.append(value)
        elif value.op is not None:
            parts = value.op.operands if computes(value.op) and not value.op.regions else []
        elif (
            value.owner is loop.regions[0].block
        ):  # carried: what it begins with and goes on with; counted: from, by
            before, following = loop.operands, value.owner.ops[-1].operands
            k = value.index
            parts = [before[2 + k], following[k - 1]] if k else [before[0], before[2]]
        work += [v for v in parts if v not in seen]
        seen.update(parts)
    return sorted(found, key=lambda v: (isinstance(v.type.elem, Ptr), v.op is None))  # type: ignore[attr-defined]
