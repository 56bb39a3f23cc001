"""Loops in a kernel's PTX: which one issues copies, which one multiplies, and how many stages lie between them."""

from __future__ import annotations

import re

LOOP = re.compile(r"^(\$L\d+):\n.*?\bbra \1;", re.M | re.S)


def loops_of(kernel: str) -> list[str]:
    """Each outermost loop, from its label to the branch back to it."""
    return [found[0] for found in LOOP.finditer(kernel)]


def loops_that_arrive(kernel: str) -> tuple[str, str]:
    """The loop whose copies arrive on mbarriers and the one that waits for them and multiplies: of different warps, or the same.

    Neither waits for a thread's own copies, and more stages than one are under way while one is read.
    """
    (copies,) = [loop for loop in loops_of(kernel) if "cp.async.mbarrier.arrive.noinc" in loop]
    (works,) = [loop for loop in loops_of(kernel) if "wgmma.mma_async" in loop]
    assert works.index("mbarrier.try_wait") < works.index("wgmma.mma_async")
    assert "cp.async.cg.shared.global" in copies and "cp.async.wait" not in copies + works
    assert stages_of(kernel) > 2
    return copies, works


def stages_of(kernel: str) -> int:
    """Of a ring: two mbarriers each, one for what has landed, one for who has read."""
    return kernel.count("\tmbarrier.init.") // 2
