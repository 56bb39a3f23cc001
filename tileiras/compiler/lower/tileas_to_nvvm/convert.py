"""convert_layout: rename registers, shuffle within warps, or a swizzled round trip through shared memory."""

from __future__ import annotations

from tileiras.compiler.layout import convert as plans
from tileiras.compiler.layout.linear import LinearLayout, with_inv

from . import ldmatrix
from .shared import accesses, load_shared, owner_guard, store_shared
from .state import Lowering, Tile, reg_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tileiras.compiler.ir.core import Op

_BYTES = {"p": 1, "h": 2, "r": 4, "d": 8}


def lower_convert_layout(lowering: Lowering, op: Op) -> None:
    source = lowering.tile(op.operands[0])
    target = op.results[0].type.layout  # type: ignore[attr-defined]
    lowering.define(op.results[0], convert(lowering, source, target))


def convert(lowering: Lowering, source: Tile, target: LinearLayout) -> Sequence[Any]:
    """The registers of `source` in `target`'s layout."""
    plan = plans.plan(source.layout, target)
    if plan.kind == plans.RENAME:
        return [source.regs[r] for r in plan.regs]
    narrow = with_inv(target, source.layout.inv)
    if narrow is not target:  # move what differs once, then copy names
        moved = Tile(source.elem, source.shape, narrow, convert(lowering, source, narrow))
        return [moved.regs[r] for r in plans.plan(narrow, target).regs]
    if plan.kind == plans.SHUFFLE:
        return _shuffle(lowering, source, plan)
    return _through_shared(lowering, source, target)


def _shuffle(lowering: Lowering, source: Tile, plan: plans.Plan) -> list[Any]:
    lanes: dict[int, Any] = {}
    b = lowering.b
    base = b.thread_linear(plan.lane_columns, ())
    identity = all(c == 1 << i for i, c in enumerate(plan.lane_columns))
    out = []
    for r, xor in zip(plan.regs, plan.lane_xor):
        value = source.regs[r]
        if identity and xor == 0:
            out.append(value)
            continue
        if xor not in lanes:
            lanes[xor] = b.xor(32, base, xor)
        out.append(shuffle(lowering, "idx", value, lanes[xor], reg_class(source.elem)))
    return out


def shuffle(lowering: Lowering, mode: str, value: Any, lane: Any, cls: str) -> Any:
    """shfl.sync of any register class across the whole warp (`mode` idx, bfly, up or down)."""
    b = lowering.b
    clamp = 0 if mode == "up" else 31
    if isinstance(value, int) and cls != "p":
        return value

    def one(word: Any) -> Any:
        return b.emit(f"shfl.sync.{mode}.b32", word, lane, clamp, 0xFFFFFFFF)

    if cls == "r":
        return one(b.materialize(value, "r"))
    if cls == "p":
        return b.emit("setp.ne.b32", one(b.emit("selp.b32", 1, 0, value)), 0)
    if cls == "h":
        word = b.emit("cvt.u32.u16", value)
        return b.emit("cvt.u16.u32", one(word))
    low, high = split64(lowering, value)
    return join64(lowering, one(low), one(high))


def split64(lowering: Lowering, value: Any) -> tuple[Any, Any]:
    b = lowering.b
    low, high = b.reg("r"), b.reg("r")
    b.emit_to((low, high), "mov.b64", b.materialize(value, "d"))
    return low, high


def join64(lowering: Lowering, low: Any, high: Any) -> Any:
    return lowering.b.emit("mov.b64", (low, high))


ROUND_BYTES = 48 * 1024  # shared memory a conversion takes at once; larger tiles go in rounds


def _through_shared(lowering: Lowering, source: Tile, target: LinearLayout) -> list[Any]:
    size = _BYTES[reg_class(source.elem)]
    rounds = round_bits(source.layout, target.reg, size, ROUND_BYTES)
    if not rounds:
        return _one_round(lowering, source, target, None)
    # the index bits of `rounds` are fixed in each round: registers are chosen by them, threads guarded
    mask = sum(rounds)
    narrow = with_inv(target, source.layout.inv | mask)
    out: list[Any] = [None] * target.num_regs
    for i in range(1 << len(rounds)):
        value = sum(bit for k, bit in enumerate(rounds) if i >> k & 1)
        part, guard = fixed_part(lowering, source, mask, value)
        moved = _one_round(lowering, part, narrow, guard)
        reg_of = narrow.reg_of
        for r, offset in enumerate(target.reg_table):
            if offset & mask == value:
                out[r] = moved[reg_of[offset & ~narrow.inv]]
    return out


def round_bits(layout: LinearLayout, candidates: Sequence[int], size: int, limit: int) -> list[int]:
    """Index bits to fix in rounds so that a tile takes at most `limit` bytes: highest candidates first."""
    live = layout.bits - bin(layout.inv).count("1")
    singles = sorted((c for c in candidates if c & (c - 1) == 0 and not c & layout.inv), reverse=True)
    out: list[int] = []
    while singles and (size << live) > limit:
        out.append(singles.pop(0))
        live -= 1
    return out


def fixed_part(lowering: Lowering, tile: Tile, mask: int, value: int) -> tuple[Tile, Any]:
    """The part of a tile whose index bits in `mask` are `value`, as a tile that does not depend on them, and the
    predicate of threads that own its elements (None: all)."""
    layout = tile.layout
    narrow = with_inv(layout, layout.inv | mask)
    reg_of = layout.reg_of
    want_regs = sum(c for c in layout.reg if c & mask) & value
    regs = [tile.regs[reg_of[offset | want_regs]] for offset in narrow.reg_table]
    lanes, warps = narrow.replicated
    copies = lanes | warps << 5
    want = 0
    for k, c in enumerate((*layout.lane, *layout.warp)):
        if c & mask and c & value:
            want |= 1 << k
    guard = None
    if copies:
        b = lowering.b
        guard = b.entry("setp.eq.u32", b.entry("and.b32", b.tid, copies), want)
    return Tile(tile.elem, tile.shape, narrow, regs), guard


def _one_round(lowering: Lowering, source: Tile, target: LinearLayout, guard: Any) -> list[Any]:
    cls = reg_class(source.elem)
    layout = source.layout
    if cls == "h":
        fragment = ldmatrix.arrangement(layout, target)
        if fragment is not None:
            return ldmatrix.move(lowering, source, target, fragment, guard or owner_guard(lowering, layout))
    plan = plans.shared_plan(layout, target, _BYTES[cls])
    if lowering.observer is not None:
        lowering.observer.trips.append((layout, target, plan))
    base = lowering.scratch(plan.bytes)
    if guard is None:  # every element once: copies in replicated lanes and warps would write the same value
        guard = owner_guard(lowering, layout)
    for regs, address in accesses(lowering, layout, plan.columns, plan.store_vec, base):
        store_shared(lowering, address, [source.regs[r] for r in regs], cls, guard)
    lowering.barrier()
    out: list[Any] = [None] * target.num_regs
    for regs, address in accesses(lowering, target, plan.columns, plan.load_vec, base):
        for r, value in zip(regs, load_shared(lowering, address, len(regs), cls)):
            out[r] = value
    lowering.scratch_busy = True
    return out
