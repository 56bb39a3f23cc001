"""Rings of shared memory between the copies and the products of a loop: which loads, and how many stages."""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa.kernel_spec import KEY
from tileiras.compiler.dialects.nv_tileas.diags import NO_ROOM
from tileiras.compiler.dialects.nv_tileas.rings import RESERVED_BYTES
from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.layout.linear import log2
from tileiras.compiler.layout.shared import arrange
from tileiras.compiler.passes.tileaa.facts import Facts, facts_of
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.products import SCALED, SIDES

from . import multiply_adds
from .byte_fragments import apart
from .candidates import ordering
from .direct import loaded_by_threads
from .interval import SHARED, TENSOR, Interval, interval
from .lookups import lookups_of
from .needed_registers import most_blocks
from .once import runs_once
from .queue import OwnLoads, Queue, plan_queue
from .registers import registers_where_used, spare_registers
from .restage import origin, plan_copies, plan_early_copies, source_load
from .scratch import held_around, scratch_bytes
from .staging import LOADS, PADDING, Staged, feeding_loads, staged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from tileiras.compiler.ir.core import Op

    from .direct import Direct
    from .refilled import Refilled


class Ring:
    """Stages of a loop: its members lie one behind the other in each stage."""

    __slots__ = ("blocks", "cut", "depth", "direct", "interval", "members", "slots")

    def __init__(
        self,
        depth: int,
        slots: int,
        members: list[Staged],
        cut: str,
        interval: Interval,
        direct: dict[Op, Direct],
        blocks: int = 1,
    ) -> None:
        self.blocks = blocks  # that an SM has room for beside it
        self.cut = cut  # how many slots were wanted and why there are fewer, if there are
        self.depth = depth  # iterations that run ahead, and one
        self.direct = direct  # loads that need no stage
        self.interval = interval
        self.slots = slots
        self.members = members


def plan_ring(
    func: Op, loop: Op, products: list[Op], loads: list[Op], context: Any, wish: int | None
) -> Ring | Queue | Refilled | str:
    """How the loads that feed a loop's products are staged; the reason when none can be, or two stages do not fit. Those whose
    padding would be chosen pad by themselves in registers where copies of them cost a block, which hides more than these."""
    found = plan_stages(func, loop, products, loads, context, wish)
    rest = [op for op in loads if PADDING not in op.attrs]
    if len(rest) == len(loads):
        return with_rows(found, func, loop, products, loads, context, wish)
    without = plan_stages(func, loop, products, rest, context, wish)
    if isinstance(found, Ring) and not (isinstance(without, Ring) and without.blocks > found.blocks):
        return found
    return without


def with_rows(
    found: Ring | Queue | Refilled | str,
    func: Op,
    loop: Op,
    products: list[Op],
    loads: list[Op],
    context: Any,
    wish: int | None,
) -> Ring | Queue | Refilled | str:
    """The same ring with rows that scores are compared with or scaled by, statistics of attention's backward pass, of which each
    thread takes several elements, and others take the same: one copy for all of them. Where products read their operands by
    themselves, no stage and no block is lost, and shared memory is not what a step waits for then."""
    if not isinstance(found, Ring) or found.slots < 2 or context.target.tensor_maps != "none":
        return found
    if any(p.attrs.get("atom") not in ("wgmma", "tcgen05") for p in products):
        return found
    members = {member.op for member in found.members}
    taken = {op: registers_where_used(op.results[0]) for op in loads if op not in members and are_floats(op)}
    rows = [op for op, held in taken.items() if held > 1]
    if not rows:
        return found
    more = plan_stages(func, loop, products, loads, context, wish, rows)
    if not isinstance(more, Ring) or (more.blocks, more.slots) < (found.blocks, found.slots):
        return found
    cost = CostModel(context.target)
    read = 32 << log2(func.attrs[KEY].num_warps)
    clocks = more.interval.by[SHARED] + 4 * read * sum(taken[op] for op in rows) // cost.bank_bytes
    return more if clocks <= found.interval.clocks else found


def are_floats(load: Op) -> bool:
    """Whether a load brings f32 of a view."""
    elem: Any = load.results[0].type.elem  # type: ignore[attr-defined]
    return load.spec.name == "load_view_tko" and getattr(elem, "name", "") == "f32"


def plan_stages(
    func: Op,
    loop: Op,
    products: list[Op],
    loads: list[Op],
    context: Any,
    wish: int | None,
    rows: Collection[Op] = (),
) -> Ring | Queue | Refilled | str:
    """How these loads of a loop are staged, all that can be; small ones among `rows` only."""
    from .kernel_spec import registers_of

    members = staged_loads(func, loop, products, loads, context, rows)
    cost = CostModel(context.target)
    if not members:
        return f"none has rows aligned to {cost.min_copy_bytes} bytes, zeros outside of its view and no access to wait for"
    spec = func.attrs[KEY]
    direct = loaded_by_threads(
        loop, products, members, wish, lambda: spare_registers(func, loop, context.target),
        max(1, cost.register_file // (32 * spec.num_warps * registers_of(spec))), context.target,
    )  # fmt: skip
    members = {op: member for op, member in members.items() if op not in direct}
    return Stages(func, loop, products, members, direct, context, wish).plan()


def staged_loads(
    func: Op, loop: Op, products: list[Op], loads: list[Op], context: Any, rows: Collection[Op]
) -> dict[Op, Staged]:
    """The loads of a loop that can be staged, and how each lies; of small ones those among `rows` only."""
    from .tensor_memory import copied_scales, staged_scales

    body = loop.regions[0].block
    facts = context.analyses.get(facts_of, func)
    cost, lookups = CostModel(context.target), lookups_of(body)
    log2_warps = log2(func.attrs[KEY].num_warps)
    members: dict[Op, Staged] = {}
    for product in products:
        for group in feeding_loads(product, body, lookups, rows):
            for op in group:
                if op in loads and op not in members:
                    plan = staged(op, facts, cost, log2_warps)
                    if plan is not None:
                        members[op] = plan
        if product.attrs.get("atom") != "tcgen05":
            turn_gathered(product, members)
            if context.target.tensor_maps == "none":
                apart(product, members)
                multiply_adds.in_straight_lines(product, members)
        elif product.spec.name == SCALED:
            for which in (3, 4):
                plan = copied_scales(product, which, list(members.values()))
                if plan is not None:
                    members[plan.op] = staged_scales(product, which, plan, log2_warps)
    if not members and not runs_once(loop):
        for op in loads_beside(products, body, lookups):
            plan = staged(op, facts, cost, log2_warps) if op in loads else None
            if plan is not None:
                members[op] = plan
    return members


class Stages:
    """Stages of a loop while their number is decided: `stage` bytes each, beside `other` bytes of buffers, of which `scratch` are
    what exchanges take and `back` what is written back; `barriers` are the bytes of mbarriers. `most`: blocks that registers
    leave room for; `spare`: stages that products still read while the next one is used."""

    __slots__ = (
        "back", "barriers", "clocks", "context", "cost", "direct", "func", "loop", "members", "most", "other", "products",
        "scratch", "slots", "spare", "stage", "step", "wish",
    )  # fmt: skip

    def __init__(
        self,
        func: Op,
        loop: Op,
        products: list[Op],
        members: dict[Op, Staged],
        direct: dict[Op, Direct],
        context: Any,
        wish: int | None,
    ) -> None:
        from .tensor_memory import buffered_bytes, bytes_back

        self.func, self.loop, self.products, self.members = func, loop, products, members
        self.direct, self.context = direct, context
        self.cost = CostModel(context.target)
        self.stage = sum(member.room for member in members.values())
        self.step = interval(loop, products, members.values(), context.target)
        self.clocks = self.step.clocks
        if wish is None:
            wish = hinted_stages(members, context.target, self.cost.wanted(self.clocks))
        self.wish = wish
        self.scratch = max(scratch_bytes(loop, members, context.target), bytes_back(products))
        self.back = plan_copies(products, direct)
        self.other = self.scratch + held_around(loop) + buffered_bytes(products, members) + self.back
        self.barriers = self.spare = self.most = self.slots = 0

    def plan(self) -> Ring | Queue | Refilled | str:
        """A ring, a queue or one stage; the reason where none of them fits."""
        if runs_once(self.loop):
            if self.fits_once():
                return self.ring(1, 1)
            have = self.cost.shared_bytes
            return f"a stage of {self.stage} bytes does not fit {have} bytes beside {self.other} of other buffers"
        refused = self.count()
        if refused is not None:
            return refused
        if (self.slots < 2 or not self.barriers) and self.follows() and self.fits_once():
            return self.ring(2, 1)
        return self.queued() or self.filled_whole() or self.of_slots()

    def fits_once(self) -> bool:
        return self.stage + self.other <= self.cost.shared_bytes

    def all_by(self, atom: str) -> bool:
        return all(p.attrs.get("atom") == atom for p in self.products)

    def ring(self, depth: int, slots: int, cut: str = "", blocks: int = 1) -> Ring:
        return Ring(depth, slots, list(self.members.values()), cut, self.step, self.direct, blocks)

    def drop_boxes(self, reason: str) -> None:
        drop_boxes(self.members, reason, self.context)

    def count(self) -> str | None:
        """Decides which members come by bulk tensor copies, and how many stages there are; the reason where products that
        exchange their operands leave no room."""
        from .products import adds_up

        cost, products = self.cost, self.products
        if self.context.target.tensor_maps != "none":
            facts = self.context.analyses.get(facts_of, self.func)
            self.barriers = plan_boxes(self.func, self.loop, list(self.members.values()), facts, self.context)
        # a product of warpgroups or of tensor memory reads its stage for an iteration longer
        self.spare = int(
            self.all_by("tcgen05") or (self.all_by("wgmma") and all(adds_up(p) is not None for p in products))
        )
        self.most = most_blocks(self.func, products, self.context.target)
        beside = self.other + self.barriers
        self.slots = cost.stages(self.clocks, self.stage, beside, self.wish, self.spare, self.most)
        if multiply_adds.exchange(products, self.context.target):
            # while one block exchanges operands, others multiply
            turns = cost.exchanging_blocks[self.clocks > 4 * cost.latency_clocks]
            have, self.slots = min(turns, self.most, cost.shared_blocks(self.other)), max(2, self.slots)
            while self.slots > 1 and cost.shared_blocks(self.slots * self.stage + beside) < have:
                self.slots -= 1
            if have > 1 and self.slots < 2:
                return f"{have} blocks that exchange operands in turn have no room for two stages of {self.stage} bytes each"
        if self.barriers and self.slots < 2:
            self.drop_boxes("no room for mbarriers beside two stages")
            self.slots = cost.stages(self.clocks, self.stage, self.other, self.wish, self.spare, self.most)
        return None

    def follows(self) -> bool:
        """Whether copies stand behind what an iteration does: they come when it has read its stage."""
        return any(ordering(op, self.loop) for op in self.members) and not any(
            "atom" in p.attrs for p in self.products
        )

    def queued(self) -> Queue | Refilled | None:
        """Operands one by one, where the wait of a ring would leave nothing under way."""
        alone = self.slots < 2
        memory = alone and self.all_by("tcgen05")
        least = self.cost.least_stages
        if self.slots - self.spare >= least or not (self.wish is None or self.wish >= least or memory):
            return None
        products, members, target = self.products, self.members, self.context.target
        log2_warps, busy = log2(self.func.attrs[KEY].num_warps), self.step.by[TENSOR]
        room = self.cost.shared_bytes - self.other
        queue = plan_queue(products, members, room, log2_warps, target, alone=alone, memory=memory)
        if queue is None:
            queue = queue_of_own_loads(products, members, room, busy, log2_warps, target, alone)
        if queue is None and alone and not any("atom" in p.attrs for p in products):
            # what changes its layout in two rounds leaves more room
            more = room + self.scratch - scratch_bytes(self.loop, members, target, rounds=2)
            queue = queue_of_own_loads(products, members, more, busy, log2_warps, target, alone)
        if queue is None and alone:
            from .steps import plan_steps

            queue = plan_steps(products, members, room, busy, log2_warps, target)
        if queue is None and alone:
            from .refilled import plan_refilled

            refilled = plan_refilled(self.loop, products, members, room, self.step)
            if refilled is not None:
                plan_early_copies(products, self.direct, room + self.back - refilled.bytes)
                self.drop_boxes("the loop has one stage, which is filled part by part")
                return refilled
        if queue is not None:
            self.drop_boxes("the loop's operands queue product by product")
        return queue

    def filled_whole(self) -> Ring | None:
        """One stage; mma.sync would read its operands again from registers, or from exchanges."""
        if self.slots > 1 or not (self.all_by("tcgen05") or self.all_by("wgmma")) or not self.fits_once():
            return None
        self.drop_boxes("the loop has one stage, which is filled when all products have read it")
        return self.ring(2, 1)

    def of_slots(self) -> Ring | str:
        """As many stages as were counted."""
        cost, slots, barriers = self.cost, self.slots, self.barriers
        if slots < 2:
            return f"two stages of {self.stage} bytes do not fit {cost.shared_bytes} bytes beside {self.other} of other buffers"
        blocks = min(self.most, cost.shared_blocks(slots * self.stage + self.other + barriers))
        wanted, cut = cost.wanted(self.clocks, self.wish) + self.spare, ""
        if slots < wanted:
            fits = (slots + 1) * self.stage + self.other + barriers <= cost.shared_bytes
            cut = f"; {wanted} were wanted, " + ("which fewer blocks have room for" if fits else NO_ROOM)
        return self.ring(max(2, slots - self.spare), slots, cut, blocks)


def loads_beside(products: list[Op], body: Any, lookups: Collection[Op]) -> list[Op]:
    """The loads of a loop's body as large as a result of its products, where these take nothing loaded, as in recurrent layers:
    inputs that a product is added to. None beside products of warpgroups and of tensor memory."""
    if any("atom" in p.attrs or any(feeding_loads(p, body, lookups)) for p in products):
        return []
    sizes = {num_elements(p.result.type.shape) for p in products}  # type: ignore[attr-defined]
    return [
        op
        for op in body.ops
        if op.spec.name in LOADS and num_elements(op.results[0].type.shape) in sizes  # type: ignore[attr-defined]
    ]


def queue_of_own_loads(
    products: list[Op],
    members: dict[Op, Staged],
    room: int,
    clocks: int,
    log2_warps: int,
    target: Any,
    alone: bool,
) -> Queue | None:
    """A queue of products that share loads: each gets its own, where the products take longer than what they load. `alone`: as
    `plan_queue` has it."""
    if any("atom" in p.attrs or len(p.operands) > 3 for p in products):
        return None
    own = OwnLoads(products, members)
    again = sum(members[copy.path[-1]].bytes for copy in own.of.values())
    loaded = again + sum(member.bytes for member in members.values())
    if not again or loaded > clocks * CostModel.cache_bytes:
        return None
    return plan_queue(products, members, room, log2_warps, target, own, alone)


def plan_boxes(func: Op, loop: Op, members: list[Staged], facts: Facts, context: Any) -> int:
    """Says of the loads of a ring which come by bulk tensor copies, and why others do not; bytes of their mbarriers."""
    from . import bulk

    if not bulk.wanted(context.target):
        return 0
    for member in members:
        try:
            member.boxes = bulk.boxes(func, loop, member, facts, context.target)
        except bulk.NoMap as reason:
            bulk.report(member.op, str(reason), context)
    return RESERVED_BYTES if any(member.boxes is not None for member in members) else 0


def drop_boxes(members: dict[Op, Staged], reason: str, context: Any) -> None:
    """No bulk tensor copies after all."""
    for member in members.values():
        if member.boxes is not None:
            from .bulk import report

            member.boxes = None
            report(member.op, reason, context)


def turn_gathered(product: Op, members: dict[Op, Staged]) -> None:
    """Operands whose 32-bit elements fragments gather across lines: the four lines that the lanes of a row of fragments read
    lie in different halves of the banks then."""
    for which, operand in enumerate(product.operands[:2]):
        load = source_load(operand)
        if load not in members or load is None or f"restage_{SIDES[which]}" in product.attrs:
            continue
        found = origin(operand, [members[load]])
        if found is not None and found[1] == 4 and found[2] != len(operand.type.shape) - 1 - which:  # type: ignore[attr-defined]
            shape = load.results[0].type.shape  # type: ignore[attr-defined]
            members[load].arrangement = arrange(shape, members[load].unit, 4, turn=1)


def hinted_stages(members: dict[Op, Staged], target: Any, usual: int) -> int | None:
    """Stages that the loads' `latency` hints ask for: the usual number scaled by the largest of them; None without."""
    from .kernel_spec import entry_hint

    hints = [h for h in (entry_hint(op, target, "latency") for op in members) if h is not None]
    least, most = CostModel.hinted_stages
    return max(least, min(most, -(-usual * max(hints) // CostModel.usual_latency))) if hints else None
