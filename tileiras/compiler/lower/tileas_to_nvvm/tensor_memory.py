"""Tensor memory: allocation, the mbarriers of accumulators, and who waits for whom.

A block allocates once, because who has given up the right to allocate may not do so again, and who keeps it holds up the
other blocks of the SM. It keeps some bytes in front of all other shared memory: the address of the allocated columns, and for
each accumulator of the current loop two mbarriers, on which its products arrive in turn.
"""

from __future__ import annotations

from tileiras.compiler.nvvm.build import _sym

from .cta_pairs import at_leader, group_of
from .mbarriers import WHOLE_WARP, by_warp, commit, wait_for_phase
from .state import Lowering

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op

_BARRIERS = 2
LANES_AT = 16  # bit of a tensor memory address where the lane begins


class Memory:
    """Tensor memory: address of the first column, of the state in shared memory, and how many columns. `phase`: of the one
    mbarrier that a buffer's sum arrives on, where loop after loop adds up in it."""

    __slots__ = ("address", "columns", "phase", "readers", "state")

    def __init__(self, address: Any, state: Any, columns: int, readers: int = 0, phase: Any = None) -> None:
        self.address = address
        self.state = state
        self.columns = columns
        self.readers = readers
        self.phase = phase


def lower_alloc(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    offset, columns, group = op.attr("offset"), op.attr("columns"), group_of(op)
    state = b.entry("add.s32", lowering.smem_base, offset) if offset else lowering.smem_base

    def allocate() -> None:
        count = b.materialize(columns, "r")
        b.emit_to(None, f"tcgen05.alloc.{group}.sync.aligned.shared::cta.b32", b.address(state), count)
        b.emit_to(None, f"tcgen05.relinquish_alloc_permit.{group}.sync.aligned")

    by_warp(lowering, True, allocate)
    b.emit_to(None, "tcgen05.fence::before_thread_sync")
    lowering.barrier()
    b.emit_to(None, "tcgen05.fence::after_thread_sync")
    address = b.reg("r")
    b.emit_to(address, "ld.shared.b32", b.address(state))
    lowering.env[op.results[0]] = Memory(address, state, columns)


def lower_free(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    memory: Memory = lowering.env[op.operands[0]]
    b.emit_to(None, "tcgen05.fence::before_thread_sync")
    lowering.barrier()

    def release() -> None:
        b.emit_to(None, "tcgen05.fence::after_thread_sync")
        count = b.materialize(memory.columns, "r")
        b.emit_to(None, f"tcgen05.dealloc.{group_of(op)}.sync.aligned.b32", memory.address, count)

    by_warp(lowering, True, release)


def lower_begin(lowering: Lowering, op: Op) -> None:
    """The mbarriers of an accumulator begin with their first phase."""
    b = lowering.b
    memory: Memory = lowering.env[op.operands[0]]
    readers = op.attr("readers") or 0
    writers = op.attr("writers") or 0
    if op.attr("pair"):
        readers *= 2
    # it is there; it was read; what it is made of was stored
    counts = [1] * _BARRIERS + [n for n in (readers, writers) if n for _ in range(_BARRIERS)]
    state = b.add(32, memory.state, 16 + 8 * len(counts) * op.attr("number"))

    def init() -> None:
        for i, count in enumerate(counts):
            b.emit_to(
                None, "mbarrier.init.shared::cta.b64", b.address(state, 8 * i), b.materialize(count, "r")
            )
        b.emit_to(None, "fence.mbarrier_init.release.cluster")

    by_warp(lowering, False, init)
    place = op.attr("column") + ((op.attr("lane") or 0) << LANES_AT)
    lowering.env[op.results[0]] = Memory(b.add(32, memory.address, place), state, 0, readers)


def lower_end(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    memory: Memory = lowering.env[op.operands[0]]

    def inval() -> None:
        for i in range(2 * _BARRIERS if op.attr("writers") else _BARRIERS):
            b.emit_to(None, "mbarrier.inval.shared::cta.b64", b.address(memory.state, 8 * i))

    by_warp(lowering, False, inval)


# ---- operands that warps store
def _stored(lowering: Lowering, op: Op) -> tuple[Any, Any]:
    """The mbarrier on which warps arrive for a product of a number, and its phase: two take turns, as those of products do."""
    b = lowering.b
    memory: Memory = lowering.env[op.operands[0]]
    count = lowering.scalar(op.operands[1])
    place = b.add(32, memory.state, b.shl(32, b.and_(32, count, 1), 3))
    return b.add(32, place, 8 * _BARRIERS), b.and_(32, b.shr(32, count, 1), 1)


def lower_stored(lowering: Lowering, op: Op) -> None:
    """Each thread fences what it has written, one arrives for its warp."""
    b = lowering.b
    b.emit_to(None, "fence.proxy.async.shared::cta")
    b.emit_to(None, "bar.warp.sync", WHOLE_WARP)
    lane = b.entry("setp.eq.b32", b.entry("and.b32", b.tid, 31), 0)
    place, _ = _stored(lowering, op)
    b.emit_to(_sym("_"), "mbarrier.arrive.shared::cta.b64", b.address(place), guard=lane)


def lower_wait_stored(lowering: Lowering, op: Op) -> None:
    by_warp(lowering, True, lambda: wait_for_phase(lowering, *_stored(lowering, op)))


# ---- sums that some warps add up and others read


def lower_turn(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    memory: Memory = lowering.env[op.operands[0]]
    number = lowering.scalar(op.operands[1])
    double = op.attr("buffers") == 2
    address, state = memory.address, memory.state
    if double:
        which = b.and_(32, number, 1)
        address = b.add(32, address, b.mul(32, which, op.attr("stride")))
        state = b.add(32, state, b.shl(32, which, 3))
    phase = b.and_(32, b.shr(32, number, 1) if double else number, 1)
    lowering.env[op.results[0]] = Memory(address, state, 0, memory.readers, phase)


def lower_acquire(lowering: Lowering, op: Op) -> None:
    """The phase before the first counts as complete: buffers are free at first."""
    b = lowering.b
    memory: Memory = lowering.env[op.operands[0]]
    ctas = 2 if op.attr("pair") else 1
    wait_for_phase(lowering, b.add(32, memory.state, 8 * _BARRIERS), b.xor(32, memory.phase, 1), ctas)
    b.emit_to(None, "tcgen05.fence::after_thread_sync")


def lower_commit(lowering: Lowering, op: Op) -> None:
    memory: Memory = lowering.env[op.operands[0]]
    by_warp(lowering, False, lambda: commit(lowering, memory.state, bool(op.attr("pair"))))


def lower_release(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    memory: Memory = lowering.env[op.operands[0]]
    lane = b.entry("setp.eq.b32", b.entry("and.b32", b.tid, 31), 0)
    if op.attr("pair"):
        there = at_leader(lowering, b.add(32, memory.state, 8 * _BARRIERS))
        form = "mbarrier.arrive.release.cluster.shared::cluster.b64"
        b.emit_to(_sym("_"), form, b.address(there), guard=lane)
        return
    b.emit_to(
        _sym("_"), "mbarrier.arrive.shared::cta.b64", b.address(memory.state, 8 * _BARRIERS), guard=lane
    )


# ---- products that are waited for


def lower_wait(lowering: Lowering, op: Op) -> None:
    """For a product; those that never were are not waited for."""
    memory: Memory = lowering.env[op.operands[0]]
    wait_for_product(
        lowering, memory, lowering.b.add(32, lowering.scalar(op.operands[1]), -op.attr("before"))
    )


def wait_for_product(lowering: Lowering, memory: Memory, number: Any) -> None:
    """Until product `number` is complete. A barrier that nothing arrived on lets whoever waits for odd phases pass, so
    that negative numbers wait for nothing."""
    b = lowering.b
    if memory.phase is not None:
        return wait_for_phase(lowering, memory.state, memory.phase)
    bar = b.add(32, memory.state, b.shl(32, b.and_(32, number, 1), 3))
    wait_for_phase(lowering, bar, b.and_(32, b.shr(32, number, 1), 1))


LOWER = {
    "tensor_memory.alloc": lower_alloc, "tensor_memory.free": lower_free, "tensor_memory.begin": lower_begin,
    "tensor_memory.end": lower_end, "tensor_memory.wait": lower_wait, "tensor_memory.turn": lower_turn,
    "tensor_memory.acquire": lower_acquire, "tensor_memory.commit": lower_commit, "tensor_memory.release": lower_release,
    "tensor_memory.stored": lower_stored, "tensor_memory.wait_stored": lower_wait_stored,
}  # fmt: skip
