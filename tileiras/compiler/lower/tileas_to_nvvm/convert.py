"""convert_layout: registers renamed, shuffled within warps, or a round trip through shared memory, as its `plan` says."""

from __future__ import annotations

from tileiras.compiler.layout import convert as plans
from tileiras.compiler.layout.linear import LinearLayout, with_inv
from tileiras.compiler.target.registers import CLASS_BYTES, moved_bytes, reg_class

from . import ldmatrix
from .shared import accesses, load_shared, matrices, owner_guard, store_shared
from .state import Lowering, Tile
from .transfer import load_vector, store_vector

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from tileiras.compiler.ir.core import Op


def lower_convert_layout(lowering: Lowering, op: Op) -> None:
    """The registers of the source in the result's layout, moved as the op's `plan` says."""
    source = lowering.tile(op.operands[0])
    target: LinearLayout = op.results[0].type.layout  # type: ignore[attr-defined]
    kind = op.attrs.get("plan")
    if kind is None:
        raise lowering.undecided(op, "plan", "TileASMaterializeConvertLayout")
    if kind == plans.RENAME:
        return lowering.define(op.results[0], lowering.regs_as(op.operands[0], target))
    narrow = with_inv(target, source.layout.inv)
    if "apart" in op.attrs:
        return _in_parts(lowering, op, source, narrow)
    regs: Sequence[Any]
    if kind == plans.SHUFFLE:
        regs = _shuffle(lowering, source, plans.plan(source.layout, narrow))
    elif kind == plans.MATRICES:
        regs = _in_rounds(lowering, op, source, narrow, ldmatrix.move)
    elif kind == plans.STMATRIX:
        regs = _through_matrices(lowering, op, source, narrow)
    else:
        regs = _in_rounds(lowering, op, source, narrow, _through_shared)
    lowering.define(op.results[0], named(regs, narrow, target))  # what differs moved once


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


def _in_rounds(lowering: Lowering, op: Op, source: Tile, target: LinearLayout, move: Any) -> list[Any]:
    """The registers of `source` in `target`'s layout. The index bits of `rounds` are fixed in each round: registers are chosen by
    them, threads guarded. `move(lowering, op, part, layout, guard)` moves what there is of a round."""
    rounds = op.attrs.get("rounds", ())
    if not rounds:
        return move(lowering, op, source, target, None)  # type: ignore[no-any-return]
    mask = sum(rounds)
    narrow = with_inv(target, source.layout.inv | mask)
    out: list[Any] = [None] * target.num_regs
    for i in range(1 << len(rounds)):
        value = sum(bit for k, bit in enumerate(rounds) if i >> k & 1)
        part, guard = fixed_part(lowering, source, mask, value)
        moved = move(lowering, op, part, narrow, guard)
        reg_of = narrow.reg_of
        for r, offset in enumerate(target.reg_table):
            if offset & mask == value:
                out[r] = moved[reg_of[offset & ~narrow.inv]]
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


def _through_shared(lowering: Lowering, op: Op, source: Tile, target: LinearLayout, guard: Any) -> list[Any]:
    trip, base = _stored(lowering, op, source, target, guard)
    return load(lowering, source.elem, target, trip, base)


def _in_parts(lowering: Lowering, op: Op, source: Tile, narrow: LinearLayout) -> None:
    """A tile that comes back from shared memory in parts, each in front of its first use."""
    target: LinearLayout = op.results[0].type.layout  # type: ignore[attr-defined]
    names: dict[int, list[int]] = {}
    for place, r in enumerate(named(range(narrow.num_regs), narrow, target)):
        names.setdefault(r, []).append(place)
    trip, base = _stored(lowering, op, source, narrow, None)
    read = reader(lowering, source.elem)

    def part(regs: list[int], address: Any) -> tuple[list[int], Callable[[], Sequence[Any]]]:
        places = [place for r in regs for place in names[r]]
        return places, lambda: [v for r, v in zip(regs, read(address, len(regs))) for _ in names[r]]

    reads = accesses(lowering, narrow, trip.columns, trip.load_vec, base)
    lowering.comes(op.results[0], [part(*each) for each in reads])


def _stored(
    lowering: Lowering, op: Op, source: Tile, target: LinearLayout, guard: Any
) -> tuple[plans.SharedPlan, Any]:
    """Stores a tile to shared memory for loads in `target`, with a barrier behind: how it lies there, and where."""
    trip = plans.SharedPlan(op.attr("columns"), op.attr("bytes"), *op.attr("vectors"))
    if lowering.observer is not None:
        lowering.observer.trips.append((source.layout, target, trip))
    base = lowering.scratch(op, trip.bytes)
    store(lowering, source, trip, base, guard)
    lowering.barrier()
    return trip, base


def lower_convert_layouts(lowering: Lowering, op: Op) -> None:
    """The registers of several tiles in other layouts: one barrier between all stores and all loads."""
    base = lowering.scratch(op, op.attr("bytes"))
    columns, vectors = op.attr("columns"), op.attr("vectors")
    moved = []
    for n, (value, start) in enumerate(zip(op.operands, op.attr("starts"))):
        source = lowering.tile(value)
        bits = source.layout.bits
        trip = plans.SharedPlan(columns[:bits], 0, *vectors[2 * n : 2 * n + 2])
        columns = columns[bits:]
        place = lowering.b.entry("add.s32", base, start) if start else base
        store(lowering, source, trip, place, None)
        moved.append((op.results[n], source, trip, place))
    lowering.barrier()
    for result, source, trip, place in moved:
        target: LinearLayout = result.type.layout  # type: ignore[attr-defined]
        narrow = with_inv(target, source.layout.inv)
        lowering.define(result, named(load(lowering, source.elem, narrow, trip, place), narrow, target))


def store(lowering: Lowering, source: Tile, trip: plans.SharedPlan, base: Any, guard: Any) -> None:
    """Puts a tile where its plan has it."""
    cls = reg_class(source.elem)
    layout = source.layout
    if guard is None:  # every element once: copies in replicated lanes and warps would write the same value
        guard = owner_guard(lowering, layout)
    packed = moved_bytes(source.elem) < CLASS_BYTES[cls]
    for regs, address in accesses(lowering, layout, trip.columns, trip.store_vec, base):
        values = [source.regs[r] for r in regs]
        if packed:
            store_vector(lowering, source.elem, address, values, "st.shared", guard)
        else:
            store_shared(lowering, address, values, cls, guard)


def reader(lowering: Lowering, elem: Any) -> Callable[[Any, int], Sequence[Any]]:
    """What loads so many elements that lie side by side at an address."""
    cls = reg_class(elem)
    if moved_bytes(elem) < CLASS_BYTES[cls]:
        return lambda address, count: load_vector(lowering, elem, address, count, "ld.shared", None, ())
    return lambda address, count: load_shared(lowering, address, count, cls)


def load(lowering: Lowering, elem: Any, target: LinearLayout, trip: plans.SharedPlan, base: Any) -> list[Any]:
    """The registers of what was put there, in another layout."""
    read = reader(lowering, elem)
    out: list[Any] = [None] * target.num_regs
    for regs, address in accesses(lowering, target, trip.columns, trip.load_vec, base):
        for r, value in zip(regs, read(address, len(regs))):
            out[r] = value
    return out


def named(regs: Sequence[Any], narrow: LinearLayout, target: LinearLayout) -> Sequence[Any]:
    """The registers of a tile in a layout that has copies: these are names."""
    return regs if narrow is target else [regs[r] for r in plans.plan(narrow, target).regs]


def _through_matrices(lowering: Lowering, op: Op, source: Tile, target: LinearLayout) -> list[Any]:
    """To shared memory by stmatrix, up to four 8x8 matrices at once, and back in rows of 16 bytes."""
    b = lowering.b
    layout = source.layout
    trip = plans.SharedPlan(op.attr("columns"), op.attr("bytes"), *op.attr("vectors"))
    if lowering.observer is not None:
        lowering.observer.trips.append((layout, target, trip))
    base = lowering.scratch(op, trip.bytes)
    guard = owner_guard(lowering, layout)  # all lanes hold elements; of warps, those with copies stay out

    halves = iter(source.regs)
    for address, count in matrices(lowering, layout, trip.columns, layout.lane[2:5], layout.reg[1:], base):
        words = tuple(b.pack(next(halves), next(halves)) for _ in range(count))
        opcode = f"stmatrix.sync.aligned.m8n8.x{count}.shared.b16"
        b.emit_to(None, opcode, address, words if count > 1 else words[0], guard=guard)
    lowering.barrier()
    out: list[Any] = [None] * target.num_regs
    for regs, address in accesses(lowering, target, trip.columns, trip.load_vec, base):
        for r, value in zip(regs, load_shared(lowering, address, len(regs), "h")):
            out[r] = value
    return out
