"""reduce: a tree over registers, butterflies over lanes, shared memory over warps.

The layout's columns are each inside or outside the reduced dimension (layout assignment sees to it). Copies
end bitwise equal in every thread. Where the body is not known to commute, index bits are taken from the lowest to
the highest wherever each lies, and the value of the lower index is always the left operand.
"""

from __future__ import annotations

from tileiras.compiler.layout.linear import (
    LANE_BITS,
    LinearLayout,
    dim_bits,
    kept_in_warp,
    reduced,
    remap_bits,
    table,
)
from tileiras.compiler.passes.tileaa.commute import chooses_alike, is_one_op
from tileiras.compiler.target import sm
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.registers import CLASS_BYTES, reg_class

from .choose import chooser
from .control import inline_body
from .convert import shuffle
from .fold import fold_lanes
from .remarks import WIDEST_BYTES
from .shared import load_shared, store_shared
from .state import Lowering

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op


def lower_reduce(lowering: Lowering, op: Op) -> None:
    block = op.regions[0].block
    source_type: Any = op.operands[0].type
    layout = op.attrs["layout"]
    low, count = dim_bits(source_type.shape)[op.attr("dim")]
    mask = ((1 << count) - 1) << low
    classes = [reg_class(v.type.elem) for v in op.operands]  # type: ignore[attr-defined]
    columns = [lowering.regs_as(v, layout) for v in op.operands]

    def combine(x: tuple[Any, ...], y: tuple[Any, ...]) -> tuple[Any, ...]:
        """x is the earlier value (block argument 2i), y the later one (2i + 1)."""
        args: list[Any] = []
        for earlier, later in zip(x, y):
            args += [earlier, later]
        return tuple(inline_body(lowering, block, args))

    chooses = chooser(lowering, op)
    in_thread = chooses or combine
    state: dict[int, tuple[Any, ...]] = dict(zip(layout.reg_table, zip(*columns)))
    if op.attr("order") == "any":
        tree = chooses.of_thread if chooses is not None else _tree(lowering, block, combine)
        by_lane = not is_one_op(block) and not (chooses is not None and chooses_alike(block))
        state = _any_order(lowering, op, layout, mask, classes, state, combine, by_lane, tree)
    else:
        state = _index_order(lowering, op, layout, mask, classes, state, combine, in_thread)
    target = _given(op)
    for i, result in enumerate(op.results):
        regs = [state[_unsqueeze(offset, low, count)][i] for offset in target.reg_table]
        lowering.define(result, regs)


def _given(op: Op) -> Any:
    """The layout of the results: the source's without the reduced dimension, or, of what crosses warps, any."""
    return op.results[0].type.layout  # type: ignore[attr-defined]


def _tree(lowering: Lowering, block: Any, combine: Any) -> Any:
    """How the values of one thread are combined, any order being as good: two sums an instruction where the target adds
    pairs of f32; three numbers a maximum, which its assembler makes one instruction; four bytes of a word a sum of integers."""

    def by_twos(level: list[tuple[Any, ...]]) -> tuple[Any, ...]:
        while len(level) > 1:
            last = level[len(level) & ~1 :]  # one that is left over
            level = [combine(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)] + last
        return level[0]

    b = lowering.b
    first = block.ops[0]
    type: Any = block.args[0].type
    if is_one_op(block) and first.spec.name == "addi" and type.elem.name == "i32":

        def of_bytes(level: list[tuple[Any, ...]]) -> tuple[Any, ...]:
            rest = [value for (value,) in level]
            words: dict[tuple[Any, bool], dict[int, Any]] = {}
            for value in rest:
                found = b.byte_of(value)
                if found is not None:
                    words.setdefault((found[0], found[2]), {}).setdefault(found[1], value)
            total: Any = 0
            for (word, signed), bytes_ in words.items():
                if len(bytes_) > 1:
                    ones = sum(1 << 8 * n for n in bytes_)
                    total = b.emit(f"dp4a.{'s32' if signed else 'u32'}.u32", word, ones, total)
                    for value in bytes_.values():
                        rest.remove(value)
            return by_twos([(value,) for value in rest + ([] if total == 0 else [total])])

        return of_bytes
    plain = is_one_op(block) and lowering.target.has(sm.F32X2) and block.args[0].type.elem.name == "f32"
    name = first.spec.name if plain else ""
    rounded = first.attrs.get("rounding_mode")
    if name == "addf" and getattr(rounded, "name", rounded) in (None, "nearest_even"):
        ftz = ".ftz" if first.attr("flush_to_zero") else ""

        def sums(level: list[tuple[Any, ...]]) -> tuple[Any, ...]:
            if len(level) >= CostModel.paired_registers:
                pairs = [b.pair(level[i][0], level[i + 1][0]) for i in range(0, len(level), 2)]
                while len(pairs) > 1:
                    pairs = [
                        b.emit(f"add.rn{ftz}.f32x2", pairs[i], pairs[i + 1]) for i in range(0, len(pairs), 2)
                    ]
                level = [(half,) for half in b.halves_of(pairs[0])]
            return by_twos(level)

        return sums

    def by_threes(level: list[tuple[Any, ...]]) -> tuple[Any, ...]:
        while len(level) > 1:
            parts = [level[i : i + 3] for i in range(0, len(level), 3)]
            level = [
                combine(combine(p[0], p[1]), p[2]) if len(p) > 2 else combine(*p) if len(p) > 1 else p[0]
                for p in parts
            ]
        return level[0]

    return by_threes if name in ("maxf", "minf") else by_twos


def _any_order(
    lowering: Lowering,
    op: Op,
    layout: Any,
    mask: int,
    classes: list[str],
    state: Any,
    combine: Any,
    by_lane: bool,
    tree: Any,
) -> Any:
    """Registers first, then lanes, then warps: the least traffic. `by_lane`: the lower lane's value comes first, so
    that both lanes hold the same bits."""
    b = lowering.b
    groups: dict[int, list[tuple[int, tuple[Any, ...]]]] = {}
    for offset, values in state.items():
        groups.setdefault(offset & ~mask, []).append((offset & mask, values))
    out: dict[int, tuple[Any, ...]] = {}
    for kept, members in groups.items():
        out[kept] = tree([values for _, values in sorted(members, key=lambda m: m[0])])
    # index bits the value does not depend on: combining equal values, once per bit
    for _ in range(bin(layout.inv & mask).count("1")):
        out = {kept: combine(values, values) for kept, values in out.items()}
    warp_bits = [k for _, k in sorted((c & mask, k) for k, c in enumerate(layout.warp) if c & mask)]
    held = layout
    if op.attr("halves") and not by_lane:
        held, out = fold_lanes(lowering, layout, mask, classes, out, combine)
    for _, k in sorted((c & mask, k) for k, c in enumerate(held.lane) if c & mask):
        upper = b.entry("setp.ne.b32", b.entry("and.b32", b.tid, 1 << k), 0) if by_lane else None
        for kept, values in out.items():
            out[kept] = _ordered(
                lowering, classes, upper, values, _other_lane(lowering, values, k, classes), combine
            )
    if not warp_bits:
        return out
    return _across_warps(lowering, op, layout, mask, warp_bits, classes, out, combine, held=held)


def _index_order(
    lowering: Lowering,
    op: Op,
    layout: Any,
    mask: int,
    classes: list[str],
    state: Any,
    combine: Any,
    in_thread: Any,
) -> Any:
    """Index bits from the lowest up, so that every step joins neighbouring spans."""
    b = lowering.b
    bits = [1 << k for k in range(mask.bit_length()) if mask >> k & 1]
    lane_of = {c: k for k, c in enumerate(layout.lane) if c}
    warp_of = {c: k for k, c in enumerate(layout.warp) if c}
    rounds = list(op.attrs.get("rounds", ()))  # one for each group of bits that warps hold
    done = number = 0
    while bits:
        bit = bits.pop(0)
        done |= bit
        if bit & layout.inv:
            state = {offset: combine(values, values) for offset, values in state.items()}
        elif bit in lane_of:
            k = lane_of[bit]
            upper = b.entry("setp.ne.b32", b.entry("and.b32", b.tid, 1 << k), 0)
            for offset, values in state.items():
                state[offset] = _ordered(
                    lowering, classes, upper, values, _other_lane(lowering, values, k, classes), combine
                )
        elif bit in warp_of:
            group = [warp_of[bit]]
            while bits and bits[0] in warp_of:
                done |= bits[0]
                group.append(warp_of[bits.pop(0)])
            fixed = rounds.pop(0) if rounds else 0
            state = _in_rounds(lowering, op, layout, done, group, classes, state, combine, fixed, number)
            number += 1
        else:
            state = {
                offset: in_thread(values, state[offset | bit])
                for offset, values in state.items()
                if not offset & bit
            }
    return state


def _in_rounds(
    lowering: Lowering,
    op: Op,
    layout: Any,
    mask: int,
    warp_bits: list[int],
    classes: list[str],
    state: Any,
    combine: Any,
    fixed: int,
    number: int,
) -> Any:
    """Across warps with so few registers at a time (those that agree in the bits of `fixed`) that their partial results
    fit their place."""
    rounds: dict[int, dict[int, tuple[Any, ...]]] = {}
    for offset, values in state.items():
        rounds.setdefault(offset & fixed, {})[offset] = values
    out: dict[int, tuple[Any, ...]] = {}
    for part in rounds.values():
        out.update(
            _across_warps(lowering, op, layout, mask, warp_bits, classes, part, combine, fixed, number=number)
        )
    return out


def _other_lane(lowering: Lowering, values: tuple[Any, ...], k: int, classes: list[str]) -> tuple[Any, ...]:
    return tuple(shuffle(lowering, "bfly", v, 1 << k, cls) for v, cls in zip(values, classes))


def _unsqueeze(index: int, low: int, count: int) -> int:
    """The index in the source, at the beginning of the reduced dimension, of a result."""
    return index & ((1 << low) - 1) | index >> low << (low + count)


def _ordered(lowering: Lowering, classes: Any, upper: Any, mine: Any, others: Any, combine: Any) -> Any:
    if upper is None:
        return combine(mine, others)
    from .arith import select

    first = tuple(select(lowering, c, upper, o, m) for c, m, o in zip(classes, mine, others))
    second = tuple(select(lowering, c, upper, m, o) for c, m, o in zip(classes, mine, others))
    return combine(first, second)


def _across_warps(
    lowering: Lowering, op: Op, layout: Any, mask: int, warp_bits: list[int], classes: list[str], state: Any, combine: Any,
    fixed: int = 0, held: Any = None, number: int = 0,
) -> Any:  # fmt: skip
    """Every warp leaves its partial results in shared memory; every thread combines all partials in order.

    `mask`: the index bits that are combined once this is done, those of `warp_bits` among them; `fixed`: index
    bits that all of `state` agree in; `held`: where the partials of a warp lie, if its lanes hold halves (fold.py);
    `number`: of the op's exchanges. Partials of one result lie side by side, or the results of one part do, and a thread moves
    neighbours together.
    """
    b = lowering.b
    apart = op.attrs.get("beside")
    if apart is None:
        raise lowering.undecided(op, "beside", "TileASPlaceShared")
    beside = apart[number]
    held = held or layout
    parts = 1 << len(warp_bits)
    kept_bits = [k for k in range(layout.bits) if not (mask | layout.inv | fixed) >> k & 1]
    place = {1 << k: i for i, k in enumerate(kept_bits)}

    def compact(index: int) -> int:
        out = 0
        for bit, i in place.items():
            if index & bit:
                out |= 1 << i
        return out

    count = 1 << len(kept_bits)
    # the part number: position of this warp among those that share elements
    part_warp = [0] * len(layout.warp)
    for i, k in enumerate(warp_bits):
        part_warp[k] = 1 << i
    sizes = [CLASS_BYTES[c] for c in classes]
    starts = []
    total = 0
    for size in sorted(set(sizes), reverse=True):
        for i, s in enumerate(sizes):
            if s == size:
                starts.append((i, total))
                total += size * count * parts
    start_of = dict(starts)
    base = lowering.scratch(op, total)
    # lanes and warps that hold copies of the same partial do not store

    owner = LinearLayout(
        layout.bits + len(warp_bits),
        [c for c in held.reg if not c & mask],
        [0 if c & mask else c for c in held.lane],
        [part << layout.bits if part else 0 if c & mask else c for part, c in zip(part_warp, layout.warp)],
        0,
    )
    lanes, warps = owner.replicated
    copies = lanes | warps << LANE_BITS
    guard = b.entry("setp.eq.u32", b.entry("and.b32", b.tid, copies), 0) if copies else None
    # Where the results lie: as the partials do, or wherever the op's results want them.
    read = None if fixed else _elsewhere(op, layout)
    of_lanes, of_warps = (read.lane, read.warp) if read is not None else (layout.lane, layout.warp)
    wanted = list(state) if held is layout else table([c for c in layout.reg if c & ~mask])
    if read is not None:
        wanted = read.reg_table
    joined = op.attr("joined") if read is None and held is not layout else None
    if joined is not None:
        wanted, of_lanes = list(state), held.lane
    stride, step = (
        (parts, 1) if beside else (1, count)
    )  # in elements: from result to result, from part to part
    addresses: dict[tuple[int, int], Any] = {}
    for i, size in enumerate(sizes):
        lane_cols = [compact(c & ~mask) * size * stride for c in held.lane]
        warp_cols = [compact(c & ~mask) * size * stride for c in layout.warp]
        store_warp = [c ^ (p * step * size) for c, p in zip(warp_cols, part_warp)]
        thread_store = b.thread_linear(lane_cols, store_warp)
        for run in _runs(state, compact, 1 if beside else WIDEST_BYTES // size, (*held.lane, *held.warp)):
            offset = compact(run[0]) * size * stride
            address = b.address(b.add(32, base, b.xor(32, thread_store, offset)), start_of[i])
            store_shared(lowering, address, [state[kept][i] for kept in run], classes[i], guard)
        read_lanes = [compact(c & ~mask) * size * stride for c in of_lanes]
        read_warps = [compact(c & ~mask) * size * stride for c in of_warps]
        thread_load = b.thread_linear(read_lanes, read_warps)
        for kept in wanted:
            offset = compact(kept) * size * stride
            addresses[i, kept] = b.add(32, base, b.xor(32, thread_load, offset))
    lowering.barrier()
    out: dict[int, tuple[Any, ...]] = {}
    for run in _runs(wanted, compact, 1 if beside else WIDEST_BYTES // max(sizes), (*of_lanes, *of_warps)):
        partials: list[list[list[Any]]] = []  # by operand, by part: of the results of the run
        for i, size in enumerate(sizes):
            width = min(parts, WIDEST_BYTES // size) if beside else 1
            values = []
            for part in range(0, parts, width):
                address = b.address(addresses[i, run[0]], start_of[i] + part * step * size)
                found = load_shared(lowering, address, width * len(run), classes[i])
                values += [[v] for v in found] if beside else [found]
            partials.append(values)
        for j, kept in enumerate(run):
            level = [tuple(each[part][j] for each in partials) for part in range(parts)]
            while len(level) > 1:
                level = [combine(level[j], level[j + 1]) for j in range(0, len(level), 2)]
            out[kept] = level[0]
    return out if joined is None else _spread(lowering, layout, held, mask, classes[0], base, joined, out)


def _spread(
    lowering: Lowering, layout: LinearLayout, held: LinearLayout, mask: int, cls: str, base: Any, start: int, state: Any
) -> Any:  # fmt: skip
    """Every lane leaves the results it has joined in its warp's place, which begins at `start`, and reads all of its own."""
    b = lowering.b
    size = CLASS_BYTES[cls]
    place = {1 << k: 1 << i for i, k in enumerate(kept_in_warp(layout, mask))}

    def number(index: int) -> int:
        return sum(i for bit, i in place.items() if index & bit)

    def at(index: int) -> int:
        return number(index & ~mask) * size

    warps = [size << len(place) + i for i in range(len(layout.warp))]
    owner = LinearLayout(
        layout.bits, [c for c in held.reg if not c & mask], [0 if c & mask else c for c in held.lane], ()
    )
    copies = owner.replicated[0]
    guard = b.entry("setp.eq.u32", b.entry("and.b32", b.tid, copies), 0) if copies else None
    mine = b.thread_linear([at(c) for c in held.lane], warps)
    most = WIDEST_BYTES // size
    for run in _runs(state, number, most, held.lane):
        address = b.address(b.add(32, base, b.xor(32, mine, at(run[0]))), start)
        store_shared(lowering, address, [state[kept][0] for kept in run], cls, guard)
    b.emit_to(None, "bar.warp.sync", 0xFFFFFFFF)
    all_mine = b.thread_linear([at(c) for c in layout.lane], warps)
    out: dict[int, tuple[Any, ...]] = {}
    for run in _runs(table([c for c in layout.reg if c & ~mask]), number, most, layout.lane):
        address = b.address(b.add(32, base, b.xor(32, all_mine, at(run[0]))), start)
        out.update(zip(run, ((value,) for value in load_shared(lowering, address, len(run), cls))))
    return out


def _elsewhere(op: Op, layout: LinearLayout) -> LinearLayout | None:
    """Where the results of an op lie, in the source's index, when that is not where its partials do."""
    shape = op.operands[0].type.shape  # type: ignore[attr-defined]
    target = _given(op)
    if op.attr("order") != "any" or target is reduced(layout, shape, op.attr("dim")):
        return None
    low, count = dim_bits(shape)[op.attr("dim")]
    moved = [k if k < low else k + count for k in range(target.bits)]
    return remap_bits(target, moved, layout.bits)


def _runs(kept: Any, compact: Any, most: int, threads: Any) -> list[list[int]]:
    """The indices in runs of as many neighbours in shared memory as one instruction moves; `threads`: the columns of lanes and
    warps, which must not lead between neighbours."""
    place_of = {compact(index): index for index in kept}
    taken = 0
    for column in threads:
        taken |= compact(column)
    width = 1
    while width < most and not taken & width and width in place_of and len(place_of) == len(kept):
        width *= 2
    if width == 1:
        return [[index] for index in kept]
    return [
        [place_of[place + i] for i in range(width)] for place in sorted(place_of) if not place & (width - 1)
    ]


LOWER = {"reduce": lower_reduce}
