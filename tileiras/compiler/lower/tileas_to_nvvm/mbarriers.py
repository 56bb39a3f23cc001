"""Who issues, and who waits: one elected thread for a whole block, and everybody for a phase of an mbarrier. Bulk copies and
products in tensor memory have both in common.
"""

from __future__ import annotations

from .cta_pairs import GROUPS, both_of_pair
from .state import Lowering

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

WHOLE_WARP = 0xFFFFFFFF


def by_warp(lowering: Lowering, warp_only: bool, emit: Any) -> None:
    """Code that warp 0 runs, or its first thread alone; of warps of which only one comes here, that one. What follows
    without anything between is in the same branch."""
    b = lowering.b
    alone = lowering.agent is not None and lowering.num_warps == 1
    if alone and warp_only:
        return emit()  # type: ignore[no-any-return]
    skip, of_thread = lowering.passed_over or (None, False)
    if skip is None or b.code[-1] is not skip or of_thread and warp_only:
        skip, of_thread = b.label(), False
        if warp_only:
            b.bra(skip, (b.entry("setp.lt.u32", b.tid, 32), True))
    else:
        b.code.pop()
    if not warp_only and not of_thread:
        if alone:
            mine = b.reg("p")
            b.emit_to((b.reg("r"), mine), "elect.sync", WHOLE_WARP)
        else:
            mine = b.entry("setp.eq.u32", b.tid, 0)
        b.bra(skip, (mine, True))
    b.push()
    emit()
    b.pop()
    b.place(skip)
    lowering.passed_over = skip, not warp_only


def wait_for_phase(lowering: Lowering, bar: Any, parity: Any, ctas: int = 1) -> None:
    """Until the phase of an mbarrier that has this parity is complete. `ctas`: of how many threads arrive on it."""
    b = lowering.b
    again, done = b.label(), b.reg("p")
    b.place(again)
    order = ".acquire.cluster" if ctas > 1 else ""
    form = f"mbarrier.try_wait.parity{order}.shared::cta.b64"
    b.emit_to(done, form, b.address(bar), b.materialize(parity, "r"))
    b.bra(again, (done, True))


def commit(lowering: Lowering, barrier: Any, pair: bool = False, ctas: int = 0) -> None:
    """What this thread has issued arrives on an mbarrier when it is done; for a pair on that of both CTAs, or of so many."""
    b = lowering.b
    form = f"tcgen05.commit.{GROUPS[pair]}.mbarrier::arrive::one.shared::cluster"
    if not pair:
        return b.emit_to(None, f"{form}.b64", b.address(barrier))
    b.emit_to(
        None,
        f"{form}.multicast::cluster.b64",
        b.address(barrier),
        b.materialize((1 << ctas) - 1, "h") if ctas else both_of_pair(lowering),
    )
    return None
