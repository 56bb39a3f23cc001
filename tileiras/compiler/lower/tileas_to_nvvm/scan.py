"""scan: inclusive prefix combination along one dimension, forward or reverse.

After index bits 0..k-1 of the dimension every element holds the scan of its aligned group of 2^k; the step for
bit k gives each upper half the total of its lower half. Layout assignment puts the dimension in registers and
lanes, with warps (if at all) on its top bits: the totals of warps meet in shared memory.
"""

from __future__ import annotations

from tileiras.compiler.layout.linear import LANE_BITS, dim_bits
from tileiras.compiler.target.registers import CLASS_BYTES, reg_class

from .arith import select
from .control import inline_body
from .convert import shuffle
from .shared import load_shared, store_shared
from .state import Lowering

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op


def lower_scan(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    block = op.regions[0].block
    source_type: Any = op.operands[0].type
    layout = op.results[0].type.layout  # type: ignore[attr-defined]
    low, count = dim_bits(source_type.shape)[op.attr("dim")]
    reverse = bool(op.attr("reverse"))
    classes = [reg_class(v.type.elem) for v in op.operands]  # type: ignore[attr-defined]
    columns = [lowering.regs_as(v, layout) for v in op.operands]
    state: dict[int, tuple[Any, ...]] = dict(zip(layout.reg_table, zip(*columns)))

    def combine(x: tuple[Any, ...], y: tuple[Any, ...]) -> tuple[Any, ...]:
        """x came earlier in scan order."""
        args: list[Any] = []
        for earlier, later in zip(x, y):
            args += [earlier, later]
        return tuple(inline_body(lowering, block, args))

    lane_of = {c: k for k, c in enumerate(layout.lane) if c}
    warp_of = {c: k for k, c in enumerate(layout.warp) if c}
    registers = set(layout.reg)
    warp_bits = []
    for i in range(count):
        bit = 1 << (low + i)
        if bit in warp_of:
            warp_bits.append(warp_of[bit])
            continue
        lanes_below = sum(1 << lane_of[1 << k] for k in range(low, low + i) if 1 << k in lane_of)
        regs_below = sum(1 << k for k in range(low, low + i) if 1 << k in registers)
        # the total of the group before: the last element of it in scan order
        edge = 0 if reverse else regs_below
        if bit in registers:
            updated = {}
            for offset, values in state.items():
                takes = not offset & bit if reverse else bool(offset & bit)
                if takes:
                    source = ((offset ^ bit) & ~regs_below) | edge
                    total = _from_edge_lane(lowering, state[source], lanes_below, reverse, classes)
                    updated[offset] = combine(total, values)
            state.update(updated)
        else:
            k = lane_of[bit]
            mine = b.entry("and.b32", b.tid, 1 << k)
            takes_lane = b.entry("setp.eq.b32" if reverse else "setp.ne.b32", mine, 0)
            lane = b.lane
            if reverse:  # the sibling has the bit set and lower lane bits clear
                where = b.entry("or.b32", b.entry("and.b32", lane, ~(lanes_below | 1 << k) & 31), 1 << k)
            else:
                where = b.entry("or.b32", b.entry("and.b32", lane, ~(1 << k) & 31), lanes_below)
            totals: dict[int, tuple[Any, ...]] = {}
            updated = {}
            for offset, values in state.items():
                source = (offset & ~regs_below) | edge
                if source not in totals:
                    totals[source] = tuple(
                        shuffle(lowering, "idx", v, where, c) for v, c in zip(state[source], classes)
                    )
                merged = combine(totals[source], values)
                updated[offset] = tuple(
                    select(lowering, c, takes_lane, m, v) for c, m, v in zip(classes, merged, values)
                )
            state = updated
    if warp_bits:
        state = _across_warps(lowering, op, layout, low, count, warp_bits, reverse, classes, state, combine)
    for i, result in enumerate(op.results):
        lowering.define(result, [state[offset][i] for offset in layout.reg_table])


def _from_edge_lane(
    lowering: Lowering, values: tuple[Any, ...], lanes_below: int, reverse: bool, classes: list[str]
) -> tuple[Any, ...]:
    """The value of the lane that holds the group's last element (first, in reverse)."""
    if not lanes_below:
        return values
    b = lowering.b
    if reverse:
        where = b.entry("and.b32", b.lane, ~lanes_below & 31)
    else:
        where = b.entry("or.b32", b.lane, lanes_below)
    return tuple(shuffle(lowering, "idx", v, where, c) for v, c in zip(values, classes))


def _across_warps(
    lowering: Lowering, op: Op, layout: Any, low: int, count: int, warp_bits: list[int], reverse: bool,
    classes: list[str], state: Any, combine: Any,
) -> Any:  # fmt: skip
    """Totals of warps through shared memory; every warp adds those before it, in order."""
    b = lowering.b
    mask = ((1 << count) - 1) << low
    parts = 1 << len(warp_bits)
    kept_bits = [k for k in range(layout.bits) if not mask >> k & 1]

    def compact(index: int) -> int:
        out = 0
        for i, k in enumerate(kept_bits):
            out |= (index >> k & 1) << i
        return out

    groups = 1 << len(kept_bits)
    part_warp = [0] * len(layout.warp)
    for i, k in enumerate(warp_bits):
        part_warp[k] = 1 << i
    starts = []
    total = 0
    for c in classes:
        total = (total + 7) & ~7
        starts.append(total)
        total += CLASS_BYTES[c] * groups * parts
    base = lowering.scratch(op, total)
    # only threads at the edge of the dimension within their warp hold totals, and of copies one stores
    edge_lanes = sum(1 << k for k, c in enumerate(layout.lane) if c & mask)
    copies = sum(1 << k for k, c in enumerate(layout.lane) if not c)
    copied_warps = sum(1 << k for k, c in enumerate(layout.warp) if not c)
    want = 0 if reverse else edge_lanes
    guard = None
    if copied_warps:
        held = edge_lanes | copies | copied_warps << LANE_BITS
        guard = b.entry("setp.eq.b32", b.entry("and.b32", b.tid, held), want)
    elif edge_lanes | copies:
        guard = b.entry("setp.eq.b32", b.entry("and.b32", b.lane, edge_lanes | copies), want)
    edge_regs = sum(c for c in layout.reg if c & mask)
    addresses: dict[tuple[int, int], Any] = {}
    for i, c in enumerate(classes):
        size = CLASS_BYTES[c]
        lane_cols = [compact(x & ~mask) * size for x in layout.lane]
        warp_cols = [compact(x & ~mask) * size for x in layout.warp]
        store_cols = [x ^ (p * groups * size) for x, p in zip(warp_cols, part_warp)]
        thread_store = b.thread_linear(lane_cols, store_cols)
        thread_load = b.thread_linear(lane_cols, warp_cols)
        for offset, values in state.items():
            edge = offset & edge_regs
            if edge != (0 if reverse else edge_regs):
                continue
            kept = compact(offset & ~mask) * size
            where = b.add(32, base, b.xor(32, thread_store, kept))
            store_shared(lowering, b.address(where, starts[i]), [values[i]], c, guard)
            addresses[i, offset & ~mask] = b.add(32, base, b.xor(32, thread_load, kept))
    lowering.barrier()
    part = b.thread_linear((0,) * len(layout.lane), part_warp)
    out = dict(state)
    for kept in {offset & ~mask for offset in state}:
        prefix: Any = None
        order = range(parts - 1, 0, -1) if reverse else range(parts - 1)
        have: Any = None
        for p in order:
            values = tuple(
                load_shared(
                    lowering, b.address(addresses[i, kept], starts[i] + p * groups * CLASS_BYTES[c]), 1, c
                )[0]
                for i, c in enumerate(classes)
            )
            counts = b.emit("setp.lt.u32" if reverse else "setp.gt.u32", part, p)
            if prefix is None:
                prefix, have = values, counts
            else:
                merged = combine(prefix, values)
                prefix = tuple(select(lowering, c, counts, m, v) for c, m, v in zip(classes, merged, prefix))
        for offset, values in state.items():
            if offset & ~mask == kept:
                merged = combine(prefix, values)
                out[offset] = tuple(
                    select(lowering, c, have, m, v) for c, m, v in zip(classes, merged, values)
                )
    return out


LOWER = {"scan": lower_scan}
