"""Bulk tensor copies into the stages of a ring: mbarriers, the thread that issues, and who waits.

The mbarriers lie behind the stages, each at the place that the offset of its stage shifts to. One warp takes the branch and
elects the thread that issues: ptxas keeps coordinates and addresses in uniform registers then.
"""

from __future__ import annotations

from math import prod

from tileiras.compiler.dialects.nv_tileas.rings import MBARRIER_BYTES, is_exact, place_of, shift_of
from tileiras.compiler.dialects.nv_tileas.tensor_maps import BOX, parts, shares
from tileiras.compiler.layout.algebra import BLOCK, Map
from tileiras.compiler.layout.linear import log2
from tileiras.compiler.nvvm.build import _sym
from tileiras.compiler.nvvm.code import TensorAddr

from .cta_pairs import at_leader, leader_of_pair, rank
from .mbarriers import WHOLE_WARP, by_warp, commit, wait_for_phase
from .roles import warp_number
from .staging import slot_address
from .state import Lowering

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value

_COPY = "shared::cluster.global.tile.mbarrier::complete_tx::bytes"
_BEYOND = 1 << 31  # a coordinate in front of every tensor, as a signed number


def _first(lowering: Lowering, op: Op, which: str = "barriers") -> Any:
    """Address of the first mbarrier. `which`: "released" for those that readers arrive on."""
    b = lowering.b
    start = lowering.env[op.operands[0]] + op.attr(which)
    return b.entry("add.s32", lowering.smem_base, start)


def _barrier(lowering: Lowering, op: Op, which: str = "barriers") -> Any:
    """Address of the mbarrier of the stage that an op works on."""
    b = lowering.b
    stage = op.attr("stage_bytes")
    place = b.shr(32, lowering.scalar(op.operands[1]), shift_of(stage))
    if not is_exact(stage):
        place = b.and_(32, place, -MBARRIER_BYTES & 0xFFFFFFFF)
    return b.add(32, _first(lowering, op, which), place)


def _all(lowering: Lowering, op: Op, which: str = "barriers") -> list[Any]:
    """Addresses of all mbarriers of a ring."""
    if op.attr(which) is None:
        return []
    first = _first(lowering, op, which)
    return [lowering.b.address(first, place_of(n, op.attr("stage_bytes"))) for n in range(op.attr("stages"))]


def lower_begin(lowering: Lowering, op: Op) -> None:
    """The one arrival of a phase is that of the thread that issues, with the bytes that it expects, or one of each thread
    that copies; where warps release stages, one of each warp."""
    b = lowering.b

    def init() -> None:
        for which, count in (("barriers", op.attr("arrivals") or 1), ("released", op.attr("readers"))):
            if which == "released" and op.attr("ctas"):
                count *= op.attr("ctas")
            for address in _all(lowering, op, which):
                b.emit_to(None, "mbarrier.init.shared::cta.b64", address, b.materialize(count, "r"))
        b.emit_to(None, "fence.mbarrier_init.release.cluster")

    by_warp(lowering, False, init)


def lower_end(lowering: Lowering, op: Op) -> None:
    b = lowering.b

    def inval() -> None:
        for address in (*_all(lowering, op), *_all(lowering, op, "released")):
            b.emit_to(None, "mbarrier.inval.shared::cta.b64", address)

    by_warp(lowering, False, inval)


def lower_wait(lowering: Lowering, op: Op) -> None:
    def wait() -> None:
        wait_for_phase(lowering, _barrier(lowering, op), lowering.scalar(op.operands[2]))
        if op.attr("proxy_fence"):
            lowering.b.emit_to(None, "fence.proxy.async.shared::cta")

    by_warp(lowering, True, wait) if op.attr("issuing") else wait()


def lower_acquire(lowering: Lowering, op: Op) -> None:
    wait_for_phase(lowering, _barrier(lowering, op, "released"), lowering.scalar(op.operands[2]))


def lower_arrive(lowering: Lowering, op: Op) -> None:
    """The arrival is one of those that the mbarrier counts on, so that it must not add another one (`noinc`)."""
    runs = lowering.scalar(op.operands[2])
    guard = None if isinstance(runs, int) else runs
    place = lowering.b.address(_barrier(lowering, op))
    lowering.b.emit_to(None, "cp.async.mbarrier.arrive.noinc.shared::cta.b64", place, guard=guard)


def lower_release(lowering: Lowering, op: Op) -> None:
    """One lane of a warp arrives; where CTAs share copies, one for each of them."""
    b = lowering.b
    ctas = op.attr("ctas")
    if op.attr("threads"):
        b.emit_to(None, "bar.warp.sync", WHOLE_WARP)
    if ctas:
        number = b.entry("and.b32", b.tid, 31)
        mine = b.entry("setp.lt.u32", number, ctas)
        rank = b.entry("and.b32", number, ctas - 1)
        there = b.emit(
            "mapa.shared::cluster.u32", b.materialize(_barrier(lowering, op, "released"), "r"), rank
        )
        form = "mbarrier.arrive.release.cluster.shared::cluster.b64"
        b.emit_to(_sym("_"), form, b.address(there), guard=mine)
        return
    lane = b.entry("setp.eq.b32", b.entry("and.b32", b.tid, 31), 0)
    place = b.address(_barrier(lowering, op, "released"))
    b.emit_to(_sym("_"), "mbarrier.arrive.shared::cta.b64", place, guard=lane)


def lower_commit(lowering: Lowering, op: Op) -> None:
    pair, ctas = bool(op.attr("pair")), op.attr("ctas") or 0
    by_warp(lowering, False, lambda: commit(lowering, _barrier(lowering, op, "released"), pair, ctas))


def lower_load(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    runs = lowering.scalar(op.operands[2])
    barrier = _barrier(lowering, op)
    address = slot_address(lowering, op.operands[0], op.operands[1])
    index = op.group("index")
    copies = []
    at = 0
    for number, start in zip(op.attr("maps"), op.attr("starts")):
        map = lowering.fn.tensor_maps[number]
        end = at + len(map.box)
        tile = op.attr("tile")[at:end]
        halved = (op.attr("halved") or (False,) * len(index))[at:end]
        inside = (op.attrs.get("inbounds") or ()) and op.attrs["inbounds"][at:end]
        corner = [
            _coordinate(lowering, value, extent, bool(inside and inside[d]))
            for d, (value, extent) in enumerate(zip(index[at:end], tile))
        ]
        for d in [d for d, half in enumerate(halved) if half]:  # this CTA's half
            half = tile[d] // 2
            corner[d] = b.add(32, corner[d], b.linear(rank(lowering), [half]))
            tile = (*tile[:d], half, *tile[d + 1 :])
        size = prod(map.box) * map.element_bytes
        copies.append((_descriptor(lowering, number), start, corner, tile, map.box, size))
        at = end
    skip = b.label()
    alone = issues_alone(op)
    mine = None if alone else b.entry("setp.eq.b32", warp_number(lowering), 0)
    if not isinstance(runs, int):
        mine = runs if mine is None else b.pand(mine, runs)
    if mine is not None:
        b.bra(skip, (mine, True))
    b.push()
    phase = op.operand("phase")
    if phase is not None:  # the whole warp waits, which leaves it in step for ptxas
        wait_for_phase(
            lowering, _barrier(lowering, op, "released"), lowering.scalar(phase), op.attr("ctas") or 1
        )
    elected = b.reg("p")
    b.emit_to((b.reg("r"), elected), "elect.sync", 0xFFFFFFFF)
    b.bra(skip, (elected, True))
    place = b.address(barrier)
    pair = bool(op.attr("pair"))
    leads = b.entry("setp.eq.b32", rank(lowering), leader_of_pair(lowering)) if pair else None
    expected = sum(op.attr("bytes")) << pair
    b.emit_to(_sym("_"), "mbarrier.arrive.expect_tx.shared::cta.b64", place, expected, guard=leads)
    group = ""
    if pair:  # both halves complete on the leader's mbarrier
        place, group = b.address(at_leader(lowering, barrier)), ".cta_group::2"
    shared = op.attr("shared") or (0,) * len(copies)
    for (descriptor, start, corner, tile, box, size), together in zip(copies, shared):
        share = shares(tile, box, op.attr("ctas") >> pair) if together else None
        if share is not None:
            share_boxes(lowering, op, descriptor, b.add(32, address, start), corner, share, size, place)
            continue
        for n, begin in enumerate(parts(tile, box)):
            first = [b.materialize(b.add(32, c, at), "r") for c, at in zip(corner, begin)]
            source = TensorAddr(descriptor, tuple(reversed(first)))
            opcode = f"cp.async.bulk.tensor.{len(box)}d.{_COPY}{group}"
            b.emit_to(None, opcode, b.address(address, start + n * size), source, place)
    b.pop()
    b.place(skip)


def share_boxes(
    lowering: Lowering, op: Op, descriptor: Any, address: Any, corner: list[Any], share: Map, size: int, place: Any
) -> None:  # fmt: skip
    """The boxes of a tile that this CTA copies into all of the cluster, or with pairs into those of its parity."""
    b = lowering.b
    pair = bool(op.attr("pair"))
    ctas = op.attr("ctas") >> pair
    number = rank(lowering)
    if pair:
        even = b.materialize(sum(1 << 2 * k for k in range(ctas)), "r")
        everybody = b.entry("cvt.u16.u32", b.entry("shl.b32", even, b.entry("and.b32", number, 1)))
    else:
        everybody = b.materialize((1 << ctas) - 1, "h")
    group, parity = (".cta_group::2", [0]) if pair else ("", [])  # bit 0 tells both halves of a pair apart
    by_rank = [share.split(column) for column in share.ins[BLOCK]]
    own = [
        b.add(32, c, b.linear(number, [*parity, *(column[d] for column in by_rank)]))
        for d, c in enumerate(corner)
    ]
    address = b.add(32, address, b.linear(number, [*parity, *(size << k for k in range(len(by_rank)))]))
    for n in range(1 << len(share.ins[BOX])):
        first = [b.materialize(b.add(32, c, at), "r") for c, at in zip(own, share.split(share(box=n)))]
        source = TensorAddr(descriptor, tuple(reversed(first)))
        opcode = f"cp.async.bulk.tensor.{len(corner)}d.{_COPY}.multicast::cluster{group}"
        b.emit_to(None, opcode, b.address(address, n * ctas * size), source, place, everybody)


def issues_alone(op: Op) -> bool:
    """Whether only one warp comes to an op."""
    parent = op.parent
    while parent is not None and parent.spec.name != "agent":
        parent = parent.parent
    return parent is not None and parent.attr("issuing_warps") == 1


def _coordinate(lowering: Lowering, index: Value, extent: int, inside: bool) -> Any:
    """First element of a tile. Indices are unsigned: one whose element no 32-bit coordinate reaches is outside."""
    from .arith import zext

    b = lowering.b
    operand = lowering.scalar(index)
    bits: int = index.type.elem.bits  # type: ignore[attr-defined]
    if isinstance(operand, int):
        return min((operand & ((1 << bits) - 1)) * extent, _BEYOND)
    if bits > 32:
        operand = b.emit("cvt.u32.u64", operand if inside else b.emit("min.u64", operand, _BEYOND // extent))
    elif bits < 32:
        operand = zext(lowering, operand, bits)
    elif not inside:
        operand = b.emit("min.u32", operand, _BEYOND // extent)
    return b.shl(32, operand, log2(extent))


def _descriptor(lowering: Lowering, number: int) -> Any:
    """Address of a tensor map among the parameters."""
    b = lowering.b
    name = _sym(f"{lowering.fn.name}_param_{len(lowering.fn.params) + number}")
    return b.entry("cvta.param.u64", b.entry("mov.u64", name))


LOWER = {
    "bulk.begin": lower_begin, "bulk.load": lower_load, "bulk.wait": lower_wait, "bulk.acquire": lower_acquire,
    "bulk.release": lower_release, "bulk.commit": lower_commit, "bulk.end": lower_end, "async.arrive": lower_arrive,
}  # fmt: skip
