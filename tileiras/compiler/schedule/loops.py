"""Rings of shared memory between the copies and the products of a loop: which loads, and how many stages."""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa.kernel_spec import KEY
from tileiras.compiler.dialects.nv_tileas.diags import NO_ROOM
from tileiras.compiler.dialects.nv_tileas.rings import RESERVED_BYTES
from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.layout.linear import log2
from tileiras.compiler.layout.shared import CHUNK_BYTES, arrange
from tileiras.compiler.passes.tileaa.facts import Facts, facts_of
from tileiras.compiler.target import sm, tcgen05
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.products import PRODUCTS, SCALED, SIDES
from tileiras.compiler.target.registers import shared_bytes

from . import multiply_adds
from .byte_fragments import apart
from .candidates import can_be_copied, is_outside, ordering
from .direct import loaded_by_threads
from .instructions import mma_sync
from .interval import SHARED, TENSOR, Interval, interval
from .lookups import lookups_of
from .needed_registers import most_blocks
from .once import runs_once
from .queue import OwnLoads, Queue, plan_queue
from .refusal import refusal
from .registers import registers_where_used, spare_registers
from .restage import from_product, origin, plan_copies, plan_early_copies, source_load
from .staging import (
    LOADS,
    ONE,
    PADDING,
    Staged,
    feeding_loads,
    missing,
    staged,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from tileiras.compiler.ir.analyses import Analyses
    from tileiras.compiler.ir.core import Op, Value

    from .direct import Direct
    from .refilled import Refilled


def _instructions(product: Op, atom: Any) -> int:
    """mma instructions of all warps of a product."""
    k = product.operands[0].type.shape[-1]  # type: ignore[attr-defined]
    return num_elements(product.result.type.shape) * k >> (atom.m + atom.n + atom.k)  # type: ignore[attr-defined]


def staged_products(func: Op, analyses: Analyses) -> dict[Op, list[Staged]]:
    """Products (before or after layouts are chosen) all of whose operands that are loaded in their loop can be staged,
    with those loads. Their fragments need not live in registers as a whole."""

    out: dict[Op, list[Staged]] = {}
    target = analyses.target
    if not target.has(sm.CP_ASYNC):
        return out
    facts, cost = analyses.get(facts_of, func), CostModel(target)
    for loop in [op for op in func.walk() if op.spec.name == "for"]:
        body = loop.regions[0].block
        products = [op for op in body.ops if op.spec.name in PRODUCTS]
        if not products or refusal(loop, dynamic_step=True) is not None:
            continue
        lookups = lookups_of(body)
        for product in products:
            atom = mma_sync(product, target)
            if atom is None and multiply_adds.parts(product) > 1:
                continue
            if atom is not None and _instructions(product, atom) > cost.step_instructions:
                continue
            plans = _plans(product, loop, facts, cost, lookups, atom is None)
            if plans:
                out[product] = plans
    return out


def _plans(
    product: Op, loop: Op, facts: Facts, cost: CostModel, lookups: Collection[Op], multiplied: bool
) -> list[Staged]:
    """How the loads of a product are staged; empty where one cannot be, or none need be. `multiplied`: by multiply-add."""
    body = loop.regions[0].block
    if multiplied and not multiply_adds.may_read(product, body):
        return []
    plans: list[Staged] = []
    for which, group in enumerate(feeding_loads(product, body, lookups)):
        for op in group:
            plan = staged(op, facts, cost, 0) if can_be_copied(op, loop) else None
            if plan is None and comes_in_registers(product, which, body):
                continue
            if plan is None:
                return []
            plans.append(plan)
    return plans


def sums_of_multiply_adds(func: Op, analyses: Analyses) -> int:
    """Elements that the products of a loop add up at once, at the most, where all of a function are by multiply-add, of operands
    that wait in shared memory, or do in parts of K; 0 where one is not."""
    staged = analyses.get(staged_products, func)
    sums: dict[Any, int] = {}
    for op in [op for op in func.walk() if op.spec.name in PRODUCTS]:
        waits = op in staged or _parts_of_multiply_adds(func, op.parent, analyses) > 1
        if not waits or mma_sync(op, analyses.target) is not None:
            return 0
        sums[op.block] = sums.get(op.block, 0) + num_elements(op.result.type.shape)  # type: ignore[attr-defined]
    return max(sums.values(), default=0)


def comes_in_registers(product: Op, which: int, body: Any) -> bool:
    """Whether an operand of `feeding_loads` may be made from loads that are not staged: scales, and what registers hold anyway
    because it is computed from another product, as weights of attention are from scores and a bias."""
    return which > 1 or from_product(product.operands[which], body)


def missing_facts(loop: Op, target: Any) -> dict[Value, int] | None:
    """Which bits of which scalars must be zero so that all loads of a loop's products can be staged in chunks of 16 bytes; None
    where more than that is in the way, or the loop has no products."""

    body = loop.regions[0].block
    products = [op for op in body.ops if op.spec.name in PRODUCTS]
    if not target.has(sm.CP_ASYNC) or not products or refusal(loop, dynamic_step=True) is not None:
        return None
    facts, cost, lookups = Facts(), CostModel(target), lookups_of(body)
    needs: dict[Value, int] = {}
    loads = 0
    for product in products:
        if mma_sync(product, target) is None:
            return None
        for which, group in enumerate(feeding_loads(product, body, lookups)):
            for op in group:
                chunk = CHUNK_BYTES if which < 2 else cost.min_copy_bytes  # of scales, words of four
                found = missing(op, loop, facts, chunk) if can_be_copied(op, loop) else None
                if found is None and comes_in_registers(product, which, body):
                    continue
                if found is None:
                    return None
                loads += 1
                for value, bits in found.items():
                    if ONE in (bits, needs.get(value, bits)) and needs.get(value, bits) != bits:
                        return None  # a stride of 1 that is a multiple as well
                    needs[value] = bits | needs.get(value, 0)
    return needs if loads and all(is_outside(value, loop) for value in needs) else None


def parts_of_step(func: Op, loop: Op, analyses: Analyses) -> int:
    """Into how many parts a step over K is cut so that three stages fit shared memory, beside one that wgmma or tcgen05 still
    reads and operands that are written back: 1 where they do as it is."""
    from .products import adds_up, warpgroup_products

    target = analyses.target
    staged = analyses.get(staged_products, func)
    products = [op for op in loop.regions[0].block.ops if op in staged]
    if not products:
        return _parts_of_multiply_adds(func, loop, analyses)
    if len(products) != 1:
        return 1
    cost = CostModel(target)
    plans = staged[products[0]]
    stage = sum(plan.room for plan in {plan.op: plan for plan in plans}.values())
    left: Any = products[0].operands[0].type
    atom = mma_sync(products[0], target)
    smallest = min(1 << atom.k if atom is not None else 16, left.shape[-1])
    back = analyses.get(warpgroup_products, func).get(products[0])
    in_memory = target.has(sm.TCGEN05) and tcgen05.TYPES.get(left.elem.name) is not None
    in_memory = in_memory and tcgen05.fits(products[0].result.type.shape, log2(CostModel.least_warps))  # type: ignore[attr-defined]
    spare = int((back is not None or in_memory) and adds_up(products[0]) is not None)
    fewest = cost.least_stages + spare
    for which, form in (back or {}).items():
        operand = products[0].operands[which]
        if form.before_size != form.size or source_load(operand) is None:  # two buffers of its own
            stage += 2 * form.size * num_elements(operand.type.shape) // fewest  # type: ignore[attr-defined]
    width = min(8 * plan.op.results[0].type.elem.bytes for plan in plans)  # type: ignore[attr-defined]
    least = max(smallest, cost.row_stage_bytes * 8 // width)
    if products[0].spec.name == SCALED:
        columns = products[0].operands[3].type.shape[-1]  # type: ignore[attr-defined]
        words = max(least, left.shape[-1] * cost.min_copy_bytes // columns)
        # tensor memory takes words of scales; elsewhere less than a copy's bytes would go through registers, with barriers
        if target.has(sm.TCGEN05) or 2 * stage * words // left.shape[-1] < cost.shared_bytes:
            least = words
        else:
            least = max(least, left.shape[-1] // columns)
    parts = 1
    while fewest * stage // parts > cost.shared_bytes and left.shape[-1] // (2 * parts) >= least:
        parts *= 2
    return parts


def _parts_of_multiply_adds(func: Op, loop: Op | None, analyses: Analyses) -> int:
    """Into how many parts a step of a product by multiply-add is cut so that its code is short enough for operands to be read
    where they wait; 1 where that is not all that is in the way."""
    if loop is None or loop.spec.name != "for":
        return 1
    target, body = analyses.target, loop.regions[0].block
    products = [op for op in body.ops if op.spec.name in PRODUCTS]
    if len(products) != 1 or mma_sync(products[0], target) is not None or not target.has(sm.CP_ASYNC):
        return 1
    if refusal(loop, dynamic_step=True) is not None:
        return 1
    plans = _plans(
        products[0], loop, analyses.get(facts_of, func), CostModel(target), lookups_of(body), multiplied=True
    )
    return multiply_adds.parts(products[0]) if plans else 1


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
    from .products import adds_up
    from .tensor_memory import buffered_bytes, bytes_back, copied_scales, staged_scales

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
    if not members:
        return f"none has rows aligned to {cost.min_copy_bytes} bytes, zeros outside of its view and no access to wait for"
    spec = func.attrs[KEY]
    direct = loaded_by_threads(
        loop, products, members, wish, lambda: spare_registers(func, loop, context.target),
        max(1, cost.register_file // (32 * spec.num_warps * registers_of(spec))), context.target,
    )  # fmt: skip
    members = {op: member for op, member in members.items() if op not in direct}
    stage = sum(member.room for member in members.values())
    step = interval(loop, products, members.values(), context.target)
    clocks = step.clocks
    if wish is None:
        wish = hinted_stages(members, context.target, cost.wanted(clocks))
    scratch = max(scratch_bytes(loop, members, context.target), bytes_back(products))
    other = scratch + held_around(loop) + buffered_bytes(products, members)
    back = plan_copies(products, direct)
    other += back
    if runs_once(loop):
        if stage + other <= cost.shared_bytes:
            return Ring(1, 1, list(members.values()), "", step, direct)
        return (
            f"a stage of {stage} bytes does not fit {cost.shared_bytes} bytes beside {other} of other buffers"
        )
    barriers = 0
    if context.target.tensor_maps != "none":
        barriers = plan_boxes(func, loop, list(members.values()), facts, context)
    # a product of warpgroups or of tensor memory reads its stage for an iteration longer
    spare = int(
        all(p.attrs.get("atom") == "tcgen05" for p in products)
        or all(p.attrs.get("atom") == "wgmma" and adds_up(p) is not None for p in products)
    )
    most = most_blocks(func, products, context.target)
    slots = cost.stages(clocks, stage, other + barriers, wish, spare, most)
    if multiply_adds.exchange(products, context.target):
        # while one block exchanges operands, others multiply
        turns = cost.exchanging_blocks[clocks > 4 * cost.latency_clocks]
        have, slots = min(turns, most, cost.shared_blocks(other)), max(2, slots)
        while slots > 1 and cost.shared_blocks(slots * stage + other + barriers) < have:
            slots -= 1
        if have > 1 and slots < 2:
            return f"{have} blocks that exchange operands in turn have no room for two stages of {stage} bytes each"
    if barriers and slots < 2:
        drop_boxes(members, "no room for mbarriers beside two stages", context)
        slots = cost.stages(clocks, stage, other, wish, spare, most)
    if slots < 2 or not barriers:
        # copies that stand behind what an iteration does come when it has read its stage
        follows = any(ordering(op, loop) for op in members) and not any("atom" in p.attrs for p in products)
        if follows and stage + other <= cost.shared_bytes:
            return Ring(2, 1, list(members.values()), "", step, direct)
    alone = slots < 2
    memory = alone and all(p.attrs.get("atom") == "tcgen05" for p in products)
    # the wait of a ring would leave nothing under way
    if slots - spare < cost.least_stages and (wish is None or wish >= cost.least_stages or memory):
        room = cost.shared_bytes - other
        queue = plan_queue(products, members, room, log2_warps, context.target, alone=alone, memory=memory)
        if queue is None:
            queue = queue_of_own_loads(
                products, members, room, step.by[TENSOR], log2_warps, context.target, alone
            )
        if queue is None and alone and not any("atom" in p.attrs for p in products):
            # what changes its layout in two rounds leaves more room
            room += scratch - scratch_bytes(loop, members, context.target, rounds=2)
            queue = queue_of_own_loads(
                products, members, room, step.by[TENSOR], log2_warps, context.target, alone
            )
        if queue is None and alone:
            from .steps import plan_steps

            room = cost.shared_bytes - other
            queue = plan_steps(products, members, room, step.by[TENSOR], log2_warps, context.target)
        if queue is None and alone:
            from .refilled import plan_refilled

            refilled = plan_refilled(loop, products, members, cost.shared_bytes - other, step)
            if refilled is not None:
                plan_early_copies(products, direct, cost.shared_bytes - other + back - refilled.bytes)
                drop_boxes(members, "the loop has one stage, which is filled part by part", context)
                return refilled
        if queue is not None:
            drop_boxes(members, "the loop's operands queue product by product", context)
            return queue
    # mma.sync would read its operands again from registers, or from exchanges
    warpgroups = alone and all(p.attrs.get("atom") == "wgmma" for p in products)
    if (memory or warpgroups) and stage + other <= cost.shared_bytes:
        drop_boxes(members, "the loop has one stage, which is filled when all products have read it", context)
        return Ring(2, 1, list(members.values()), "", step, direct)
    if slots < 2:
        return f"two stages of {stage} bytes do not fit {cost.shared_bytes} bytes beside {other} of other buffers"
    blocks = min(most, cost.shared_blocks(slots * stage + other + barriers))
    depth = max(2, slots - spare)
    wanted, cut = cost.wanted(clocks, wish) + spare, ""
    if slots < wanted:
        fits = (slots + 1) * stage + other + barriers <= cost.shared_bytes
        cut = f"; {wanted} were wanted, " + ("which fewer blocks have room for" if fits else NO_ROOM)
    return Ring(depth, slots, list(members.values()), cut, step, direct, blocks)


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


def is_written_back(operand: Value) -> bool:
    """Whether products alone use a value, from buffers of its own in shared memory."""
    return all(
        user.spec.name in PRODUCTS and which < 2 and f"restage_{SIDES[which]}" in user.attrs
        for user, which in operand.uses
    )


def scratch_bytes(loop: Op, members: dict[Op, Staged], target: Any, rounds: int = 1) -> int:
    """Shared memory that the rest of the loop's body takes at once: conversions (in so many rounds), reductions across warps,
    blocks of tiles."""
    from .exchange import conversion

    most = 0
    for op in loop.walk():
        if op.spec.name == "convert_layout":
            source = op.operands[0]
            maker = source.op
            while maker is not None and maker.spec.name in ("reshape", "permute"):
                maker = maker.operands[0].op
            if maker not in members and not is_written_back(op.results[0]):
                most = max(
                    most, conversion(source.type, op.results[0].type, target).get("bytes", 0) // rounds
                )
    return max(most, exchanged_bytes(loop, target))


def exchanged_bytes(loop: Op, target: Any) -> int:
    """Shared memory that one of a loop's ops takes at most which cannot go in rounds, as conversions can."""
    from .exchange import EXCHANGES, multiplied

    most = 0
    for op in loop.walk():
        name = op.spec.name
        if name in PRODUCTS and "atom" not in op.attrs and mma_sync(op, target) is None:
            most = max(most, multiplied(op)[0])
        elif name != "convert_layout" and name in EXCHANGES and (name != "reduce" or "layout" in op.attrs):
            most = max(most, EXCHANGES[name](op)[0])
    return most


def fits_shared(loop: Op, size: int, otherwise: int, target: Any) -> bool:
    """Whether a buffer of `size` bytes leaves at least half of a block's shared memory to the loop's ring; or the loop's loads
    have neither ring nor queue beside `otherwise` bytes of scratch that it saves, which other exchanges may take then."""
    have = CostModel(target).shared_bytes
    if size <= have // 2:
        return True
    body = loop.regions[0].block
    lookups = lookups_of(body)
    most = 0  # that one product takes
    for product in [op for op in body.ops if op.spec.name in PRODUCTS]:
        groups = zip(product.operands[:2], feeding_loads(product, body, lookups))
        loads = [op for operand, group in groups if not from_product(operand, body) for op in group]
        types: list[Any] = [op.results[0].type for op in loads]
        most = max(most, sum(shared_bytes(type.elem) * num_elements(type.shape) for type in types))
    parts = CostModel.queue_parts_alone[-1]
    return most * (parts + 1) // parts + otherwise > have >= size + otherwise


def held_around(loop: Op) -> int:
    """Bytes of shared buffers in front of a loop that it uses."""
    found: dict[Op, int] = {}
    for op in loop.walk():
        for v in op.operands:
            if v.op is not None and v.op.spec.name == "alloc_shared":
                found[v.op] = v.op.attr("offset") + v.op.attr("bytes")
    return max(found.values(), default=0)
