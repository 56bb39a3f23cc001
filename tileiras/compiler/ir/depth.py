"""How deeply regions may nest, and the room on Python's stack that this takes.

The parser, the verifier and the lowerings walk regions by calling themselves: some ten calls a level. Python stops at a
thousand calls, which is enough for what people write. Where a program nests deeper, `make_room` raises that limit, once
and for the whole process: to lower it again would take it from another thread that is still deep inside.
"""

from __future__ import annotations

import sys

MAX_REGIONS = 512  # generated code: NVIDIA's assembler takes some hundred loops in one another
DEEP = 40  # levels that need no more room than Python gives
_CALLS = 20  # at most, per level


def make_room(depth: int) -> None:
    """Call when regions nest as deep as `DEEP`; nothing happens at any other depth."""
    if depth == DEEP:
        need = 2000 + MAX_REGIONS * _CALLS
        if sys.getrecursionlimit() < need:
            sys.setrecursionlimit(need)
