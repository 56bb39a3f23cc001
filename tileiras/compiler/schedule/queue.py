"""Queues: operands of a loop's products wait in one row of equal slots, in the order in which the products take them.

A ring (`rings.py`) moves by whole iterations: with two stages in shared memory its wait leaves nothing under way. A loop
with several products one behind the other, as attention has, needs only what the next product reads: a queue moves by
products, or by a part of a product's K. Each step waits for its own slot, and the copies of the steps behind it stay
under way; the slot that the step before has read is filled again.

    ring    2 stages of K and V:     2 (K + V)         nothing under way at the wait
    queue   3 slots, K or V each:    1.5 (K + V)       one slot under way
    queue   3 slots, half of one:    0.75 (K + V)      the same, two barriers a product

A tile that several products take, as the keys of linear attention for scores and for the state, is loaded for each of them
then (`OwnLoads`): it comes from the second-level cache again, and its slot is free as soon as one product has read it. What
warpgroups multiply stays in its slot for all products of the iteration (as keys and values do for both halves of the rows,
`passes/loops/halve_rows.py`): the copies behind fill what the iteration before has read, so that a slot more is needed for each
tile of an iteration but one. A product that takes nothing loaded in the loop, as the gradient of queries from those of scores
and from keys that stay, has no step: it stands where it stood.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas.rings import in_units
from tileiras.compiler.layout.algebra import INDEX, LANE, REGISTER, WARP, Map, compose
from tileiras.compiler.layout.linear import LinearLayout, dim_bits, log2
from tileiras.compiler.layout.shared import CHUNK_BYTES, arrange
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.products import PRODUCTS, SIDES

from .candidates import can_run_ahead
from .instructions import mma_sync
from .restage import from_product, is_invariant
from .staging import LOADS, RENAMES, Staged, copying_layout, is_elementwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value


class Queue:
    """Slots of `piece` bytes; each holds one of `parts` parts of what a product takes. Copies run `ahead` products ahead. A slot
    is `held` until that many others behind it have been waited for: one, or where products share slots, all of an iteration."""

    __slots__ = ("ahead", "early", "held", "members", "parts", "piece", "products", "slots", "steps")

    def __init__(
        self,
        products: int,
        parts: int,
        ahead: int,
        piece: int,
        held: int = 1,
        early: bool = False,
        steps: int = 0,
    ) -> None:
        self.steps = steps  # of an iteration, where each product has its own parts, and `ahead` counts steps; see steps.py
        self.products = products
        self.early = early
        self.parts = parts
        self.ahead = ahead
        self.held = held
        self.piece = piece
        self.slots = parts * ahead + held
        self.members: list[tuple[Op | OwnLoad, Staged, dict[str, Any]]] = []


def plan_queue(
    products: Sequence[Op],
    members: dict[Op, Staged],
    room: int,
    log2_warps: int,
    target: Any,
    own: OwnLoads | None = None,
    alone: bool = False,
    memory: bool = False,
) -> Queue | None:
    """How the members of a loop's ring queue for its products instead; None where they cannot, or a wait would leave nothing
    under way either. `room`: bytes of shared memory; `own`: copies of loads that products get for themselves; `alone`: not even
    two stages fit, so that smaller parts, rows of a sector, copies by some of the threads, and of wgmma two slots, one landing
    while the other is read, are better than none; `memory`: the products are for tensor memory."""
    groups: list[list[tuple[Op | OwnLoad, int]]] = []
    queued: list[Op] = []
    staged_of: dict[Op | OwnLoad, Staged] = dict(members.items())
    for copy in own.of.values() if own is not None else ():
        staged_of[copy] = members[copy.path[-1]]
    if memory and not all(can_run_ahead(op, products[0].parent) for op in members):  # type: ignore[arg-type]
        return None  # what the step before orders cannot be copied amid it
    if memory and any(op.operands[2].op in products for op in products):
        return None  # a product that goes on where another one ends is issued with it: it would read what is on its way
    for product in products:
        if len(product.operands) > 3 or not (memory or reads_when_issued(product, members)):
            return None
        shared = "atom" in product.attrs and not memory
        found = [(load_of(product, which, shared, own), which) for which in (0, 1)]
        group = [(load, which) for load, which in found if load is not None and load in staged_of]
        if group:
            groups.append(group)
            queued.append(product)
        elif any("atom" in p.attrs for p in products) or not takes_no_load(product):
            return None
    products = queued
    loads = [load for group in groups for load, _ in group]
    whole = memory or any("atom" in product.attrs for product in products)
    users = [[n for n, other in enumerate(groups) if other == group] for group in groups]
    shared = len(set(loads)) != len(loads)
    if shared and whole:  # each tile once, for all products of the iteration that take it
        steps = [n for n, same in enumerate(users) if same[0] == n]
        groups, products = [groups[n] for n in steps], [products[n] for n in steps]
        users = [users[n] for n in steps]
        loads = [load for group in groups for load, _ in group]
    if len(groups) < 2 or len(set(loads)) != len(loads) or set(loads) != set(staged_of):
        return None
    most = max(sum(staged_of[load].bytes for load, _ in group) for group in groups)
    held = len(groups) if shared else 1
    ways = CostModel.queue_parts_alone if alone else CostModel.queue_parts
    for parts in ways[:1] if whole else ways:
        piece = in_units(most // parts)
        ahead = min(2 * len(groups) - held, (room // piece - held) // parts)
        if ahead < 1 or parts * ahead < 2 - (memory or alone and whole):
            continue
        queue = Queue(len(groups), parts, ahead, piece, held, memory)
        for number, (product, group) in enumerate(zip(products, groups)):
            start = 0
            for load, which in group:
                member = part_of(product, which, staged_of[load], parts, log2_warps, target, alone)
                if member is None:
                    return None
                staged, mask = member
                attrs: dict[str, Any] = {
                    "product": number, "products": len(groups), "ahead": ahead, "parts": parts, "part_mask": mask,
                    "piece": piece, "start": start, "depth": -(-max(0, ahead - number) // len(groups)) + 1,
                }  # fmt: skip
                if shared:
                    attrs["users"] = tuple(users[number])
                if memory:
                    attrs["early"] = 1
                queue.members.append((load, staged, attrs))
                start += in_units(staged.bytes // parts)
            if start > piece:
                return None
        return queue
    return None


def reads_when_issued(product: Op, members: dict[Op, Staged]) -> bool:
    """Whether a product has read its slot when the one behind it begins. So does mma.sync, and wgmma where it is waited for at
    once: a product that adds up in the ring of a loop is not, and in a queue there is none. What wgmma does not read as it was
    loaded in the loop lies elsewhere, and what bulk tensor copies bring comes in time with warps of its own."""
    if "atom" not in product.attrs:
        return True
    moved = any(
        f"restage_{side}" in product.attrs
        and not (from_product(v, product.block) or is_invariant(v, product.block))
        for side, v in zip(SIDES, product.operands)
    )
    return product.attrs["atom"] == "wgmma" and not moved and all(m.boxes is None for m in members.values())


def takes_no_load(product: Op) -> bool:
    """Whether a product's operands were computed from other products, or stay for the whole loop: it has no step of its own."""
    body = product.block
    return all(
        from_product(v, body) or is_invariant(v, body) or is_read_again(v) for v in product.operands[:2]
    )


def is_read_again(value: Value) -> bool:
    """Whether a value that stays lies in shared memory, from where each iteration reads it."""
    while value.op is not None and value.op.spec.name in RENAMES:
        value = value.op.operands[0]
    return value.op is not None and value.op.spec.name == "load_shared"


class OwnLoad:
    """A copy of a load that several products share, for one of them: `path`, the ops from where the products part back to the
    load, is copied, and operand `index` of `user` comes from the copies."""

    __slots__ = ("index", "path", "user")

    def __init__(self, path: list[Op], user: Op, index: int) -> None:
        self.path = path
        self.user = user
        self.index = index


class OwnLoads:
    """The copies that give every product of a loop loads of its own, and where each operand comes from then."""

    __slots__ = ("_parted", "of")

    def __init__(self, products: Sequence[Op], members: dict[Op, Staged]) -> None:
        self.of: dict[
            tuple[Op, int], OwnLoad
        ] = {}  # by product and operand, in the order in which they are made
        self._parted: dict[Value, int] = {}  # uses that copies take over
        for product in products:
            for which in (0, 1):
                self._own(product, which, members)

    def uses(self, value: Value) -> int:
        """Uses that a value has left."""
        return len(value.uses) - self._parted.get(value, 0)

    def _own(self, product: Op, which: int, members: dict[Op, Staged]) -> None:
        user, index = product, which
        path: list[Op] = []
        value = product.operands[which]
        while value.op is not None and value.op.block is product.block:
            op = value.op
            if path or self.uses(value) > 1:
                path.append(op)
            else:
                user, index = op, 0
            if op in members:
                break
            tiles = made_here(op)
            if len(tiles) != 1 or not (op.spec.name in RENAMES or is_elementwise(op)):
                return
            if user is op:
                index = op.operands.index(tiles[0])
            value = tiles[0]
        else:
            return
        if path:
            self.of[product, which] = OwnLoad(path, user, index)
            shared = user.operands[index]
            self._parted[shared] = self._parted.get(shared, 0) + 1


def load_of(product: Op, which: int, shared: bool, own: OwnLoads | None) -> Op | OwnLoad | None:
    """The load of the same block behind a product's operand: elementwise ops, one conversion of layout, reshapes and permutes
    between them, each used once; `shared`: or by several products, as it was loaded. None where it is anything else."""
    renamed = converted = False
    copy = None if own is None else own.of.get((product, which))
    value = product.operands[which]
    while value.op is not None and value.op.block is product.block:
        op = value.op
        copied = copy is not None and op in copy.path
        uses = len(value.uses) if own is None else own.uses(value)
        if (
            uses > 1
            and not copied
            and not (shared and all(is_product_or_renames(user) for user, _ in value.uses))
        ):
            return None
        name = op.spec.name
        if name in LOADS:
            return copy or op
        if name == "convert_layout" and not converted and not renamed:
            renamed = converted = True
        elif name in ("reshape", "permute"):
            renamed = True
        elif renamed or not is_elementwise(op):
            return None
        tiles = made_here(op)
        if len(tiles) != 1:
            return None
        value = tiles[0]
    return None


def made_here(op: Op) -> list[Value]:
    """The operands of an op that its block makes: factors of rows that wait in registers, and constants, it only reads."""
    return [v for v in op.operands if not is_invariant(v, op.block) and not is_constant(v)]


def is_constant(value: Value) -> bool:
    return value.op is not None and value.op.spec.name == "constant"


def is_product_or_renames(op: Op) -> bool:
    return op.spec.name in PRODUCTS or op.spec.name in RENAMES


def part_of(
    product: Op,
    which: int,
    member: Staged,
    parts: int,
    log2_warps: int,
    target: Any,
    alone: bool = False,
    first: int | None = None,
) -> tuple[Staged, int] | None:
    """A load whose parts along the product's K lie one behind the other, with the index bits (of the loaded tile) that number
    the parts; None where K cannot be cut so. `alone`: as `plan_queue` has it; `first`: the first of the operand's index bits
    that number parts of its columns instead."""
    if parts == 1:
        return member, 0
    value = product.operands[which]
    type: Any = value.type
    atom = mma_sync(product, target)
    low, count = dim_bits(type.shape)[-1 if which == 0 else -2]
    cut = log2(parts)
    if atom is None or first is None and count - cut < atom.k:
        return None
    bits = [(low + count - cut if first is None else first) + k for k in range(cut)]
    while value.op is not member.op:
        op: Any = value.op
        value = made_here(op)[0]
        if op.spec.name == "permute":
            order = op.attr("permutation")
            ours, theirs = dim_bits(op.result.type.shape), dim_bits(value.type.shape)  # type: ignore[attr-defined]
            where = {ours[i][0] + k: theirs[p][0] + k for i, p in enumerate(order) for k in range(ours[i][1])}
            bits = [where[bit] for bit in bits]
    load: Any = member.op
    shape = load.results[0].type.shape
    spans = dim_bits(shape)
    held = ((d, start, n) for d, (start, n) in enumerate(spans) if start <= bits[0] and bits[-1] < start + n)
    dim, start, extent = next(held, (None, 0, 0))
    unit = member.unit
    size = load.results[0].type.elem.bytes
    if dim is None or bits != list(range(bits[0], bits[0] + cut)):
        return None
    if first is None and bits[-1] + 1 != start + extent:
        return None
    small = [e // parts if d == dim else e for d, e in enumerate(shape)]
    row = CostModel.row_stage_bytes if alone else CostModel.queue_row_bytes
    run = 1 << bits[0] - start if dim == unit else small[unit]  # neighbours of a part
    if run * size < row or run * size < member.width:
        return None
    chunk = log2(min(member.width, CHUNK_BYTES) // size)
    inner = copying_layout(small, unit, chunk, log2_warps)
    kept = [k for k in range(sum(c for _, c in spans)) if k not in bits]
    columns = [0] * (len(kept) + cut)
    for k, column in zip(kept, arrange(small, unit, size)):
        columns[k] = column
    for k, bit in enumerate(bits):
        columns[bit] = member.bytes // parts << k
    wide = compose(inner.map, Map({INDEX: [1 << k for k in kept]}, {INDEX: len(columns)})).ins
    layout = LinearLayout(
        len(columns),
        [*wide[REGISTER], *(1 << bit for bit in bits)],
        wide[LANE],
        wide[WARP],
    )
    mask = sum(1 << bit for bit in bits)
    if load.spec.name == "load_ptr_tko":  # the pointers lie as they lie
        layout = member.layout
        if any(c & mask for c in (*layout.lane, *layout.warp)):
            return None
    elif any(layout.replicated) and not any(member.layout.replicated) and not alone:
        return None
    return Staged(member.op, unit, member.width, tuple(columns), member.bytes, layout), mask
