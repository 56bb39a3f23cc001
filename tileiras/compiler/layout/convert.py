"""Plans to move a tile from one layout to another: rename registers, shuffle lanes, or go through shared memory.

All three fall out of one question: for a destination place, which source place holds the element? That is the target's map
composed with the inverse of the source's; where its lane and warp parts are the identity nothing moves but names.

`decide` chooses among them; TileASMaterializeConvertLayout writes what it chose onto the op, and the lowering obeys.
"""

from __future__ import annotations

from tileiras.memo import remembered

from .algebra import INDEX, LANE, OFFSET, REGISTER, Map, compose, locate
from .gf2 import Basis, table
from .linear import LinearLayout, with_inv

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

RENAME, SHUFFLE, SHARED, MATRICES = "rename", "shuffle", "shared", "ldmatrix"
STMATRIX = "stmatrix"
SHUFFLED_REGISTERS = 16  # at most, of a conversion by shuffles
STMATRIX_BYTES = (
    64 * 1024
)  # of a tile that goes by stmatrix at once: rings of products of that size have left as much
ROUND_BYTES = 48 * 1024  # shared memory a conversion takes at once; larger tiles go in rounds


class Plan:
    """How to convert. `kind` RENAME: regs[r] = source register. SHUFFLE: regs[r] = source register and
    lane_xor[r], with the source lane = linear(lane_columns)(lane) ^ lane_xor[r]. SHARED: nothing more."""

    __slots__ = ("kind", "lane_columns", "lane_xor", "regs")

    def __init__(
        self,
        kind: str,
        regs: Sequence[int] = (),
        lane_columns: Sequence[int] = (),
        lane_xor: Sequence[int] = (),
    ) -> None:
        self.kind = kind
        self.regs = regs
        self.lane_columns = lane_columns
        self.lane_xor = lane_xor


_PLANS: dict[tuple[LinearLayout, LinearLayout], Plan] = {}


def plan(source: LinearLayout, target: LinearLayout) -> Plan:
    """The cheapest plan from `source` to `target` (same tile; target.inv must be within source.inv)."""
    found = _PLANS.get((source, target))
    if found is None:
        found = _PLANS.setdefault((source, target), _plan(source, target))
    return found


def _plan(source: LinearLayout, target: LinearLayout) -> Plan:
    keep = ~source.inv
    # Same lane and warp columns modulo what the value does not depend on: registers are renamed.
    lanes = [(t ^ s) & keep for s, t in zip(source.lane, target.lane)]
    warps = [(t ^ s) & keep for s, t in zip(source.warp, target.warp)]
    offsets = [offset & keep for offset in target.reg_table]
    reg_of = source.reg_of
    if not any(lanes) and not any(warps):
        regs = [reg_of.get(offset) for offset in offsets]
        if None not in regs:
            return Plan(RENAME, regs)  # type: ignore[arg-type]
        # registers may reach the element together with replicated lanes only through a shuffle
    if any(warps):
        return Plan(SHARED)
    if target.num_regs > SHUFFLED_REGISTERS:
        return Plan(SHARED)

    def part(layout: LinearLayout, *names: str) -> Map:
        return Map({name: [c & keep for c in layout.map.ins[name]] for name in names}, layout.map.outs)

    # One shuffle a register: the source's lane depends on the lane alone, and its register on the register alone.
    lane = locate(part(target, LANE), part(source, LANE))
    register = locate(part(target, REGISTER), part(source, REGISTER, LANE))
    if lane is None or register is None:
        return Plan(SHARED)
    found = table(register.ins[REGISTER])
    return Plan(
        SHUFFLE,
        [p & source.num_regs - 1 for p in found],
        lane.ins[LANE],
        [p >> len(source.reg) for p in found],
    )


def round_bits(layout: LinearLayout, candidates: Sequence[int], size: int, limit: int) -> list[int]:
    """Index bits to fix in rounds so that a tile takes at most `limit` bytes: highest candidates first."""
    live = layout.bits - bin(layout.inv).count("1")
    singles = sorted((c for c in candidates if c & (c - 1) == 0 and not c & layout.inv), reverse=True)
    out: list[int] = []
    while singles and (size << live) > limit:
        out.append(singles.pop(0))
        live -= 1
    return out


def decide(
    source: LinearLayout, target: LinearLayout, size: int, stmatrix: bool = False, room: int | None = None
) -> dict[str, Any]:
    """How a conversion moves elements of `size` bytes, as attributes of the op; in rounds where `room` is not enough for one.

    `plan` is "rename", "shuffle", "shared", "ldmatrix" or, where the target has it, "stmatrix". With the last three:
    `columns`, the bytes that each index bit adds by xor to the place of an element; `bytes`, what one round takes;
    `vectors`, log2 of the elements that a store and a load move; `rounds`, the index bits that are fixed in each round (all but
    stmatrix); `rows`, the index bits that number the rows of an 8x8 matrix, and `transposed` (ldmatrix).
    """
    if plan(source, target).kind == RENAME:
        return {"plan": RENAME}
    target = with_inv(target, source.inv)  # what differs moves once; copies are names
    kind = plan(source, target).kind
    if kind != SHARED:
        return {"plan": kind}
    rows = False
    if size == 2:
        from .matrices import by_ldmatrix, by_stmatrix, whole_rows

        rows = whole_rows(source, target)
        found = by_stmatrix(source, target) if rows and stmatrix else None
        if found is not None and found.bytes <= STMATRIX_BYTES:
            return {
                "plan": STMATRIX, "bytes": found.bytes, "columns": found.columns,
                "vectors": (1, found.vector),
            }  # fmt: skip
    limit = ROUND_BYTES if room is None else min(room, ROUND_BYTES)
    if size == 2 and not rows:
        found = by_ldmatrix(source, target, limit)
        if found is not None:
            moved = {
                "plan": MATRICES, "bytes": found.bytes, "columns": found.columns, "rows": found.rows,
                "transposed": found.transposed, "vectors": (found.vector, 3),
            }  # fmt: skip
            return {**moved, "rounds": found.rounds} if found.rounds else moved
    rounds = round_bits(source, target.reg, size, limit)
    fixed = source.inv | sum(rounds)
    trip = shared_plan(with_inv(source, fixed), with_inv(target, fixed), size)
    out = {
        "plan": SHARED, "bytes": trip.bytes, "columns": trip.columns,
        "vectors": (trip.store_vec, trip.load_vec),
    }  # fmt: skip
    if rounds:
        out["rounds"] = tuple(rounds)
    return out


def bank_conflicts(offsets_log2_bytes: Sequence[int], access_bytes: int) -> int:
    """Wavefronts of one warp access whose byte offset is linear in the lane: columns in, count out.

    Shared memory has 32 banks of 4 bytes; wider accesses are served in phases of 128 bytes. Lanes that read
    one word are served together.
    """
    word_columns = [c >> 2 for c in offsets_log2_bytes]
    phase_lanes = max(0, 5 - max(0, (access_bytes // 4).bit_length() - 1))
    lanes = word_columns[:phase_lanes]
    distinct = Basis(lanes).rank
    banks = Basis([c & 31 for c in lanes]).rank
    return 1 << (distinct - banks)


class SharedPlan:
    """Shared-memory round trip: element index -> byte offset is linear (`columns` of index bits, bytes).

    `store_vec` and `load_vec` are log2 of the elements one access moves on each side.
    """

    __slots__ = ("bytes", "columns", "load_vec", "store_vec")

    def __init__(self, columns: Sequence[int], bytes: int, store_vec: int, load_vec: int) -> None:
        self.columns = tuple(columns)
        self.bytes = bytes
        self.store_vec = store_vec
        self.load_vec = load_vec


_SHARED: dict[tuple[LinearLayout, LinearLayout, int], SharedPlan] = {}


def shared_plan(source: LinearLayout, target: LinearLayout, elem_bytes: int) -> SharedPlan:
    """The swizzled arrangement with the fewest bank conflicts among a small family, widest vectors first."""
    key = (source, target, elem_bytes)
    found = _SHARED.get(key)
    if found is None:
        found = _SHARED.setdefault(key, _shared_plan(source, target, elem_bytes))
    return found


def _shared_plan(source: LinearLayout, target: LinearLayout, elem_bytes: int) -> SharedPlan:
    live = [1 << k for k in range(source.bits) if not source.inv >> k & 1]
    keep = ~source.inv
    log2_elem = elem_bytes.bit_length() - 1
    max_vec = max(0, 4 - log2_elem)
    source_regs = [c & keep for c in source.reg]
    target_regs = [c & keep for c in target.reg]
    common = [c for c in source_regs if c in target_regs and c & (c - 1) == 0]
    lanes = [Map({LANE: [c & keep for c in layout.lane]}, layout.map.outs) for layout in (source, target)]
    best = None
    # The low offset bits are index bits that one side keeps in registers: shared ones first, then the target's
    # (reads outnumber writes), then the source's.
    for first in (
        common + [c for c in target_regs if c not in common],
        common + [c for c in source_regs if c not in common],
    ):
        order = [c for c in dict.fromkeys(first) if c in live][:max_vec]
        order += [c for c in live if c not in order]
        straight = [0] * source.bits
        for k, bit in enumerate(order):
            straight[bit.bit_length() - 1] = elem_bytes << k
        places = Map({INDEX: straight}, {OFFSET: len(order) + log2_elem})
        sides = [compose(lane, places) for lane in lanes]
        store_vec = _vector(source_regs, order, max_vec)
        load_vec = _vector(target_regs, order, max_vec)
        vector = min(max(store_vec, load_vec), max_vec)
        for swizzle in _swizzles(len(order), vector, log2_elem):
            cost = 0.0
            for layout, vec, side in ((source, store_vec, sides[0]), (target, load_vec, sides[1])):
                accesses = max(1, layout.num_regs >> vec)
                conflicts = bank_conflicts(compose(side, swizzle).ins[LANE], elem_bytes << vec)
                cost += conflicts * accesses * max(1, (elem_bytes << vec) / 4)
            if best is None or cost < best[0]:
                best = (cost, compose(places, swizzle).ins[INDEX], store_vec, load_vec)
    assert best is not None
    return SharedPlan(best[1], elem_bytes << len(live), best[2], best[3])


def _vector(regs: Sequence[int], order: Sequence[int], max_vec: int) -> int:
    """How many leading offset bits are single registers of a layout."""
    vec = 0
    while vec < max_vec and vec < len(order) and order[vec] in regs:
        vec += 1
    return vec


@remembered(1024)
def _swizzles(count: int, vector: int, log2_elem: int) -> list[Map]:
    """Candidates, offset to offset of 2^count elements: nothing, or the bits above the banks folded down, behind `vector`."""
    bank_bits = 7 - log2_elem  # 128 bytes of banks
    free = max(0, bank_bits - vector)
    out: list[list[tuple[int, int]]] = [[]]  # (high offset bit, low offset bit)
    for start in range(bank_bits, count):
        pairs = [(start + k, vector + k) for k in range(min(free, count - start))]
        if pairs:
            out.append(pairs)
            out.append([(high, bank_bits - 1 - k) for k, (high, _) in enumerate(pairs)])

    def folded(pairs: list[tuple[int, int]]) -> Map:
        columns = [1 << k for k in range(count + log2_elem)]
        for high, low in pairs:
            columns[high + log2_elem] ^= 1 << low + log2_elem
        return Map({OFFSET: columns}, {OFFSET: len(columns)})

    return [folded(pairs) for pairs in out]
