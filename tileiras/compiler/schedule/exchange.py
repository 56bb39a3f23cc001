"""What ops exchange through shared memory: bytes of their place, and how they go about it.

One function per family returns (bytes, attributes for the op); no bytes: the op stays within registers and lanes.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.layout import convert
from tileiras.compiler.layout.linear import dim_bits, embedded, kept_in_warp, reduced
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.mma import FMA
from tileiras.compiler.target.registers import moved_bytes, shared_bytes
from tileiras.compiler.target.sm import STMATRIX

from .multiply_adds import in_fragments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value
    from tileiras.compiler.ir.rewrite import Rewriter

PLANNED = frozenset(
    ("plan", "bytes", "columns", "vectors", "rounds", "rows", "transposed")
)  # what `convert.decide` says
NOTHING: tuple[int, dict[str, Any]] = (0, {})


def conversion(source: Any, target: Any, gpu: Any = None) -> dict[str, Any]:
    """The attributes of a convert_layout from one tensor type to another (`convert.decide`), by what `gpu` has."""
    stmatrix = gpu is not None and gpu.has(STMATRIX) and str(source.elem) in ("f16", "bf16")
    return convert.decide(source.layout, target.layout, moved_bytes(source.elem), stmatrix)


def in_rounds(op: Op, room: int) -> int:
    """Lets a convert_layout move its tile in as many rounds as `room` bytes need; what a round takes."""
    source: Any = op.operands[0].type
    target: Any = op.results[0].type
    found = convert.decide(source.layout, target.layout, moved_bytes(source.elem), room=room)
    kept = {name: value for name, value in op.attrs.items() if name not in PLANNED}
    op.attrs = {**kept, **found}
    return int(found["bytes"])


def make_conversion(rewriter: Rewriter, value: Value, type: Any) -> Op | None:
    """A convert_layout with its plan, for passes behind TileASMaterializeConvertLayout; None as `Rewriter.create` has it."""
    return rewriter.create(tileas.CONVERT_LAYOUT, (value,), (type,), conversion(value.type, type))


def _convert(op: Op) -> tuple[int, dict[str, Any]]:
    return op.attrs.get("bytes", 0), {}


def _convert_all(op: Op) -> tuple[int, dict[str, Any]]:
    return op.attr("bytes"), {}


def _reduce(op: Op) -> tuple[int, dict[str, Any]]:
    """`order`: "any" takes registers, lanes, then warps; "index" joins neighbours from the lowest index bit up, because
    the body does not commute. `halves`: lanes exchange them, in place of butterflies. `joined`: where a place of each
    warp's own begins, for results that its lanes join and all of them read. `rounds`: for each exchange between warps,
    the index bits that are fixed in a round. `beside`: for each of them, 1 where the partials of one result lie side by side, as
    they may where those of a warp's lanes reach no bank twice: a load then takes several; 0 where the results of one part do."""
    from tileiras.compiler.passes.tileaa.commute import commutes, is_one_op

    layout = op.attrs["layout"]
    low, count = dim_bits(op.operands[0].type.shape)[op.attr("dim")]  # type: ignore[attr-defined]
    mask = ((1 << count) - 1) << low
    types: Any = [v.type for v in op.operands]
    element = sum(shared_bytes(type.elem) for type in types)

    def partials(done: int, warps: int) -> int:
        return element << warps << bin(~(done | layout.inv) & (1 << layout.bits) - 1).count("1")

    def beside(done: int, warps: int) -> int:
        lanes_apart = sum(1 for c in layout.lane if c & ~(done | layout.inv))
        return int(
            max(shared_bytes(type.elem) for type in types) << warps + lanes_apart <= CostModel.bank_bytes
        )

    if commutes(op.regions[0].block):
        warps = sum(1 for c in layout.warp if c & mask)
        size = partials(mask, warps) if warps else 0
        shape, given = types[0].shape, op.results[0].type.layout  # type: ignore[attr-defined]
        elsewhere = given is not reduced(layout, shape, op.attr("dim"))
        lying: dict[str, tuple[int, ...]] = {}
        if size:
            lying = {"beside": (0 if elsewhere else beside(mask, warps),)}
        results = 1 << sum(1 for c in layout.reg if c & ~mask)  # of a thread
        in_lanes = any(c & mask for c in layout.lane)
        if not size or not in_lanes or results < CostModel.folded_results or not _repeats(op):
            return size, {"order": "any", **lying}
        if not is_one_op(op.regions[0].block) or elsewhere or results < CostModel.joined_results:
            return size, {"order": "any", "halves": True, **lying}
        place = element << len(kept_in_warp(layout, mask)) << len(layout.warp)
        # who joins them moves neighbours
        return size + place, {"order": "any", "halves": True, "joined": size, "beside": (0,)}
    most, rounds, apart, done, group = 0, [], [], 0, 0
    crossing = set(layout.warp)
    for k in range(low, low + count):
        bit = 1 << k
        across = bit in crossing and not bit & layout.inv
        done |= bit
        group += across
        if not group or across and k + 1 < low + count and bit << 1 in crossing:
            continue
        # the last of neighbouring bits that warps hold
        size, fixed = partials(done, group), 0
        for c in sorted((c for c in layout.reg if c & ~done), reverse=True):
            if size <= CostModel.reduction_bytes:
                break
            fixed |= c
            size >>= 1
        rounds.append(fixed)
        apart.append(beside(done | fixed, group))
        most = max(most, size)
        group = 0
    given_rounds = {"rounds": tuple(rounds)} if any(rounds) else {}
    return most, {"order": "index", **given_rounds, **({"beside": tuple(apart)} if apart else {})}


def _repeats(op: Op) -> bool:
    """Whether an op stands in a loop. Behind one, what instructions it saves once is less than its addresses cost there."""
    parent = op.parent
    while parent is not None and parent.spec.name not in ("for", "loop"):
        parent = parent.parent
    return parent is not None


def _scan(op: Op) -> tuple[int, dict[str, Any]]:
    layout: Any = op.results[0].type.layout  # type: ignore[attr-defined]
    low, count = dim_bits(op.operands[0].type.shape)[op.attr("dim")]  # type: ignore[attr-defined]
    mask = ((1 << count) - 1) << low
    warps = sum(1 for c in layout.warp if c & mask)
    if not warps:
        return NOTHING
    total = 0
    for value in op.operands:
        total = (total + 7) & ~7
        total += shared_bytes(value.type.elem) << (layout.bits - count) << warps  # type: ignore[attr-defined]
    return total, {}


def _extract(op: Op) -> tuple[int, dict[str, Any]]:
    """`plan = "shared"`: the block is read from an address; without it, it is chosen among registers."""
    source: Any = op.operands[0].type
    result: Any = op.results[0].type
    held = embedded(result.layout, result.shape, source.shape)
    if convert.plan(source.layout, held).kind == convert.RENAME:
        return NOTHING
    live = source.layout.bits - bin(source.layout.inv).count("1")
    return shared_bytes(source.elem) << live, {"plan": convert.SHARED}


def _product(op: Op) -> tuple[int, dict[str, Any]]:
    """A product by multiply-adds reads both operands from shared memory; `round_depth`: as much of K at a time; `unroll`: steps
    of K in one pass of its loop."""
    return multiplied(op) if op.attrs.get("atom") == FMA else NOTHING


def multiplied(op: Op) -> tuple[int, dict[str, Any]]:
    """The same of a product that is known to go by multiply-adds, before it is told so."""
    if in_fragments(op):
        return NOTHING
    lhs, acc = op.operands[0].type.shape, op.results[0].type.shape  # type: ignore[attr-defined]
    size = 8 if op.results[0].type.elem.name == "f64" else 4  # type: ignore[attr-defined]
    per_k = (acc[0] if len(acc) == 3 else 1) * (acc[-2] + acc[-1]) * size
    depth = lhs[-1]
    while depth > 1 and per_k * depth > convert.ROUND_BYTES:
        depth //= 2
    rounds = {"round_depth": depth} if depth != lhs[-1] else {}
    return per_k * depth, {**rounds, "unroll": min(depth, CostModel.fma_unroll)}


def _print(op: Op) -> tuple[int, dict[str, Any]]:
    """`unrolled`: 1 for each argument whose elements are written one by one, 0 for those that a loop writes."""
    total, unrolled = 0, []
    for value in op.group("args"):
        count = num_elements(value.type.shape)  # type: ignore[attr-defined]
        unrolled.append(int(count <= CostModel.print_unrolled))
        if value.type.shape:  # type: ignore[attr-defined]
            total = (total + 7) & ~7
            total += shared_bytes(value.type.elem) * count  # type: ignore[attr-defined]
    return total, {"unrolled": tuple(unrolled)} if total else {}


def _owned(op: Op) -> tuple[int, dict[str, Any]]:
    """A strong load or an atomic runs once an element, in its owner; holders of copies learn the result."""
    result = op.results[0]
    layout: Any = result.type.layout  # type: ignore[attr-defined]
    if layout.replicated == (0, 0) or op.spec.name == "atomic_rmw_tko" and not result.uses:
        return NOTHING
    return shared_bytes(result.type.elem) << layout.bits, {}  # type: ignore[attr-defined]


def _load(op: Op) -> tuple[int, dict[str, Any]]:
    return _owned(op) if op.attr("memory_ordering_semantics") != "weak" else NOTHING


EXCHANGES: dict[str, Callable[[Op], tuple[int, dict[str, Any]]]] = {
    "convert_layout": _convert, "convert_layouts": _convert_all, "reduce": _reduce, "scan": _scan, "extract": _extract,
    "mmaf": _product, "mmai": _product, "print_tko": _print, "atomic_rmw_tko": _owned, "atomic_cas_tko": _owned,
    "load_view_tko": _load, "load_ptr_tko": _load,
}  # fmt: skip
