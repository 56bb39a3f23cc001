"""Reductions whose threads hold several results, over lanes and warps, without every lane doing all of it.

Butterflies give each of 32 lanes every result: n results take 5 n shuffles. But what goes on to other warps needs each partial
result once: two lanes exchange halves of their results, each keeps one half, and so on; n results take n - 1 shuffles. The
partials of the warps are then combined by the lanes that hold them, and each warp reads the results from a place of its own.
"""

from __future__ import annotations

from tileiras.compiler.layout.linear import LinearLayout, table

from .convert import shuffle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .state import Lowering


def fold_lanes(
    lowering: Lowering, layout: LinearLayout, mask: int, classes: list[str], state: Any, combine: Any
) -> tuple[LinearLayout, Any]:
    """Halves of the results cross lanes for as long as there are two. The layout of what is left: a lane bit that
    was inside the reduced dimension (of `mask`) now tells which half its lane holds."""
    from .arith import select

    b = lowering.b
    halves = sorted(c for c in layout.reg if c & ~mask)
    lanes = list(layout.lane)
    for _, k in sorted((c & mask, k) for k, c in enumerate(lanes) if c & mask):
        if not halves:
            break
        column = halves.pop()
        upper = b.emit("setp.ne.b32", b.emit("and.b32", b.tid, 1 << k), 0)
        kept: dict[int, tuple[Any, ...]] = {}
        for offset in table(halves):
            mine, given = [], []
            for cls, x, y in zip(classes, state[offset], state[offset ^ column]):
                mine.append(select(lowering, cls, upper, y, x))
                given.append(shuffle(lowering, "bfly", select(lowering, cls, upper, x, y), 1 << k, cls))
            kept[offset] = combine(tuple(mine), tuple(given))
        state = kept
        lanes[k] = column
    registers = [c for c in layout.reg if c & mask or c in halves]
    return LinearLayout(layout.bits, registers, lanes, layout.warp, layout.inv), state
