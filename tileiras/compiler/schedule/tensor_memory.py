"""Which products of a loop use tensor memory (tcgen05), and in what role.

    sum     the loop carries the accumulator and nobody looks at it before the end
    scaled  every iteration multiplies it by a factor first, and may look at it: a running maximum, a state that fades
    fresh   it begins at zero, and its result is read in the same iteration: scores. So does what begins with something that
            the iteration has computed, which is added when the result is read
    watched the loop carries the accumulator, and every iteration looks at it: the state of linear attention

A product that goes on where another one ended, which nobody else looks at, shares its accumulator: they are links of a chain.

Operands lie in shared memory: as they were loaded (in the ring of the loop), or stored there by the threads: once in front of
the loop, or in every iteration what was computed. A left operand made of scores, as probabilities are, lies in tensor memory
instead, two or four elements a column: each thread has a row of it. So does the left operand of scores of 16 or 32 rows which
does not change, as queries in decoding, as often as makes 64 rows: each warp then has whole rows of the scores. All products
of a loop go this way, or none.
"""

from __future__ import annotations

from tileiras.compiler.ir.dense import dense_bits, num_elements
from tileiras.compiler.layout.linear import LANE_BITS, blocked, log2
from tileiras.compiler.layout.shared import permuted
from tileiras.compiler.target import sm, tcgen05
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.products import PRODUCTS
from tileiras.compiler.target.products import SCALED as SCALED_PRODUCT

from .candidates import needed
from .instructions import scaled_form
from .once import runs_once
from .products import carried_beside, operand_matrix, reaches
from .queue import plan_queue
from .restage import source_load
from .staging import Staged
from .waiting import waiting_beside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.analyses import Analyses
    from tileiras.compiler.ir.core import Op, Value

SUM, SCALED, FRESH, WATCHED = "sum", "scaled", "fresh", "watched"
LOADED, OUTSIDE, COMPUTED = "loaded", "outside", "computed"
RENAMES = frozenset(("reshape", "permute", "convert_layout"))
_MOVES = frozenset(("permute", "reshape", "broadcast", "extract", "insert", "cat"))


def role(op: Op) -> str | None:
    """What the accumulator of a product's chain is; None when it is nothing that tensor memory serves."""
    first, last = head(op), tail(op)
    acc = first.operands[2]
    if is_zero(acc):
        return FRESH
    if factor(first, last) is not None:
        return SCALED
    if acc.op is not None and (acc.op.block is op.block or runs_once(op.parent)):
        return FRESH
    index = sum_number(last)
    if index is None and acc.owner is op.block and op.spec.name != SCALED_PRODUCT:
        return FRESH
    if index is None or acc.owner is not op.block or acc.index != index + 1:
        return None
    if len(acc.uses) == len(last.result.uses) == 1:
        return SUM
    return WATCHED if op.spec.name != SCALED_PRODUCT else None


def head(op: Op) -> Op:
    """The first link of a product's chain."""
    while op.spec.name != SCALED_PRODUCT and (before := op.operands[2].op) is not None:
        if before.block is not op.block or next_link(before) is not op:
            break
        op = before
    return op


def tail(op: Op) -> Op:
    """The last link of a product's chain."""
    while (after := next_link(op)) is not None:
        op = after
    return op


def next_link(op: Op) -> Op | None:
    """The product that goes on where this one ends."""
    if op.spec.name not in PRODUCTS or op.spec.name == SCALED_PRODUCT or len(op.result.uses) != 1:
        return None
    user, index = op.result.uses[0]
    if index != 2 or user.block is not op.block or user.spec is not op.spec:
        return None
    one, other = (o.operands[0].type.elem for o in (op, user))  # type: ignore[attr-defined]
    return user if one is other else None  # tensor memory orders products of one shape and kind


def sum_number(last: Op) -> int | None:
    """The number of the value that a loop carries a product's result in; None when it carries it in none, or in several."""
    loop = last.parent
    if loop is None or loop.spec.name != "for" or last.block is None:
        return None
    ends = [index for user, index in last.result.uses if user is last.block.ops[-1]]
    return ends[0] if len(ends) == 1 and last.block.ops[-1].spec.name == "continue" else None


def is_zero(value: Value) -> bool:
    op = value.op
    return op is not None and op.spec.name == "constant" and not any(dense_bits(op.attr("value")))


def factor(first: Op, last: Op) -> Value | None:
    """What the accumulator of a chain is multiplied by before every iteration; None when it is something else."""
    times, body = first.operands[2].op, first.block
    if times is None or times.spec.name != "mulf" or times.block is not body or body is None:
        return None
    if times.attrs.get("flush_to_zero") or len(times.result.uses) != 1:
        return None
    if getattr(times.attr("rounding_mode"), "name", times.attr("rounding_mode")) not in (
        None,
        "nearest_even",
    ):
        return None
    index = sum_number(last)
    if index is None:
        return None
    for mine, other in ((0, 1), (1, 0)):
        carried, by = times.operands[mine], times.operands[other]
        if carried.owner is body and carried.index == index + 1 and by is not carried:
            return by
    return None


def sum_before(op: Op) -> Value:
    """The sum that a product adds to, before it is scaled."""
    value = op.operands[2]
    times = value.op
    if times is None or times.block is not op.block:
        return value
    return next(v for v in times.operands if v.op is None and v.owner is op.block)


def place(value: Value, body: Any) -> str:
    """Where an operand comes from that does not lie in shared memory as it was loaded."""
    while value.op is not None and value.op.block is body and value.op.spec.name in RENAMES:
        value = value.op.operands[0]
    owner = value.op.block if value.op is not None else value.owner
    return COMPUTED if owner is body else OUTSIDE


def chosen(func: Op, analyses: Analyses, log2_warps: int) -> frozenset[Op]:
    """Products for tcgen05."""
    from .loops import staged_products

    target = analyses.target
    if not target.has(sm.TCGEN05):
        return frozenset()
    staged = analyses.get(staged_products, func)
    found: set[Op] = set()
    for body in {op.block: None for op in staged}:
        assert body is not None
        products = [op for op in body.ops if op.spec.name in PRODUCTS]
        if all(op in staged and _suits(op, staged[op], target, log2_warps) for op in products):
            if all(is_repeated(op) for op in products):
                continue  # scores alone are read less by mma.sync
            if _fits(products, staged, target, log2_warps):
                found.update(products)
    return frozenset(found)


def _suits(op: Op, plans: Any, target: Any, log2_warps: int) -> bool:
    left: Any = op.operands[0].type
    type: Any = op.result.type
    if op.spec.name == SCALED_PRODUCT:
        return unscaled_reason(op, plans, log2_warps) is None
    row = tcgen05.TYPES.get(left.elem.name)
    if row is None or type.elem.name not in ("f32", "i32"):
        return False
    if not tcgen05.fits(type.shape, log2_warps) and not (log2_warps == tcgen05.WARPGROUP and is_repeated(op)):
        return False
    if type.elem.name == "i32" and not target.has(sm.TCGEN05_I8):
        return False
    what = role(op)
    return (
        what is not None
        and left.shape[-1] >= 1 << row[2]
        and num_elements(type.shape) >> log2_warps + 5 <= CostModel.tensor_memory_elements
    )


def unscaled_reason(op: Op, plans: Any, log2_warps: int) -> str | None:
    """Why tcgen05 does not multiply with these block scales; None when it does. `plans`: the loads of its loop that are
    staged, None where that is not known any more."""
    form = scaled_form(op)
    shape: Any = op.result.type.shape  # type: ignore[attr-defined]
    depth = op.operands[0].type.shape[-1]  # type: ignore[attr-defined]
    if form not in tcgen05.SCALED:
        return f"it has no {form[0]} with a {form[1]} for {form[2]} elements"
    if shape[0] % tcgen05.LANES or shape[1] < tcgen05.LEAST_N or depth < tcgen05.SCALED_BYTES:
        least = f"{tcgen05.LANES}x{tcgen05.LEAST_N}x{tcgen05.SCALED_BYTES}"
        return f"{shape[0]}x{shape[1]} results of {depth} bytes along K are no multiple of {least}"
    if (
        not tcgen05.fits(shape, log2_warps)
        or num_elements(shape) >> log2_warps + 5 > CostModel.tensor_memory_elements
    ):
        return f"sums of {shape[0]}x{shape[1]} are too many for {1 << log2_warps} warps"
    if plans is None or op.parent is None or op.parent.spec.name != "for":
        return "its operands do not come by asynchronous copies of a loop"
    what = role(op)
    if what is None:
        return "its sums are looked at in the loop"
    held = num_elements(shape) + carried_beside(op.block)
    if what == FRESH and held >> log2_warps + 5 > CostModel.results_registers:
        return "what the loop carries beside its results leaves no registers for them"
    if form[1] == "f8E4M3FN" and (reason := unsigned_reason(op)) is not None:
        return reason
    for which in (0, 1):
        found = operand_matrix(op.operands[which], plans, which, 1)
        if found is None or form[0] == "f4E2M1FN" and not found.k_major:
            return "its operands do not lie in shared memory as they must"
    return None


def unsigned_reason(op: Op) -> str | None:
    """Why negative scales cannot turn the signs of their elements where both lie; None when they can: once an iteration,
    for nobody else."""
    assert op.block is not None
    if op.result.type.shape[1] < tcgen05.SIGNED_N:  # type: ignore[attr-defined]
        return f"fewer than {tcgen05.SIGNED_N} columns have scales with signs"
    if len([other for other in op.block.ops if other.spec.name in PRODUCTS]) > 1:
        return "another product of the loop may read operands whose signs turn with their scales"
    if any(place(op.operands[which], op.block) == OUTSIDE for which in operands_of(op)):
        return "operands whose signs turn with their scales come from outside of the loop"
    sources = [source_load(op.operands[which]) for which in (0, 1)]
    if None in sources or sources[0] is sources[1]:
        return "operands whose signs turn with their scales have other users"
    return None


def copied_scales(op: Op, which: int, plans: Any) -> Any:
    """The plan of the load that brings the scales of an operand (3, 4) in words of four along K; None where threads do."""
    value, low = op.operands[which], which == 3
    dim = len(value.type.shape) - 1 if low else 0  # type: ignore[attr-defined]
    while value.op is not None and len(value.uses) == 1:
        maker = value.op
        for plan in plans:
            if plan.op is maker:
                wide = plan.width >= tcgen05.SCALE_DEPTH and plan.unit == dim
                return plan if wide else None
        if maker.spec.name == "permute":
            dim = maker.attr("permutation")[dim]
        elif maker.spec.name != "convert_layout":
            return None
        value = maker.operands[0]
    return None


def staged_scales(op: Op, which: int, plan: Any, log2_warps: int) -> Staged:
    """That load, as its words travel to where tcgen05.cp takes them."""
    value = op.operands[which]
    columns = tcgen05.scale_arrangement(value.type.shape, which - 3)  # type: ignore[attr-defined]
    maker = value.op
    while maker is not plan.op:
        assert maker is not None
        if maker.spec.name == "permute":
            order = maker.attr("permutation")
            back = [order.index(d) for d in range(len(order))]
            columns = permuted(columns, value.type.shape, back)  # type: ignore[attr-defined]
        value = maker.operands[0]
        maker = value.op
    load: Any = plan.op
    shape = value.type.shape  # type: ignore[attr-defined]
    unit = plan.unit
    layout = blocked(shape, [unit, 1 - unit], log2(tcgen05.SCALE_DEPTH), log2_warps)
    size = tcgen05.scale_bytes(op.operands[which].type.shape, which - 3)  # type: ignore[attr-defined]
    rows = tcgen05.scale_rows(op.operands[which].type.shape, which - 3)  # type: ignore[attr-defined]
    holes = rows if rows < tcgen05.SCALE_ROWS else 0
    return Staged(load, unit, tcgen05.SCALE_DEPTH, columns, size, layout, holes)


def where(op: Op, which: int, plans: Any) -> str:
    """Where an operand of a product comes from."""
    if op.spec.name == SCALED_PRODUCT:
        if which < 2 or copied_scales(op, which, plans) is not None:
            return LOADED
        return place(op.operands[which], op.block)
    value = op.operands[which]
    name = value.type.elem.name  # type: ignore[attr-defined]
    size = 1 << 5 - tcgen05.TYPES[name][2]
    if name != "tf32" and operand_matrix(value, plans, which, size) is not None:
        return LOADED
    return place(value, op.block)


def _fits(products: list[Op], staged: Any, target: Any, log2_warps: int) -> bool:
    stage = {plan.op: plan.room for op in products for plan in staged[op]}
    extra = kept_bytes(products, lambda op: staged[op], log2_warps)
    ends = [op for op in products if next_link(op) is None]
    back = [num_elements(op.result.type.shape) for op in ends if role(op) != FRESH]  # type: ignore[attr-defined]
    if len(back) > 1 and sum(back) >> log2_warps + 5 > CostModel.results_registers:
        return False
    most = max(num_elements(op.result.type.shape) for op in ends)  # type: ignore[attr-defined]
    if waiting_beside(products[0].block) + most >> log2_warps + 5 > CostModel.results_registers:
        return False
    room = CostModel(target).shared_bytes - extra
    if columns(products, log2_warps) is None:
        return False
    if needed_stages(products, staged, room, target, log2_warps) * sum(stage.values()) <= room:
        return True
    return _queues(products, staged, room, target, log2_warps)


def needed_stages(products: list[Op], staged: Any, room: int, target: Any, log2_warps: int) -> int:
    """Stages of a ring without which a loop's products do not go this way. `room`: bytes beside operands that are stored. Where
    neither two nor a queue find room, one is filled behind the products that read it: mma.sync would take longer than to wait."""
    if runs_once(products[0].parent):
        return 1
    stage = sum({plan.op: plan.room for op in products for plan in staged[op]}.values())
    if 2 * stage <= room or _queues(products, staged, room, target, log2_warps):
        return 2
    return 1 if stage + turned_bytes(products[0].block) <= room else 2


def _queues(products: list[Op], staged: Any, room: int, target: Any, log2_warps: int) -> bool:
    """Whether the operands of products queue for them where no two stages fit."""
    members = {plan.op: plan for op in products for plan in staged[op]}
    if any(next_link(op) is not None for op in products):
        return False
    room -= turned_bytes(products[0].block)
    return plan_queue(products, members, room, log2_warps, target, alone=True, memory=True) is not None


def leaves_in_rows(body: Any, products: frozenset[Op], staged: Any, target: Any, log2_warps: int) -> bool:
    """Whether tiles of whole rows a thread are stored as they lie: two stages leave no room for them to cross shared memory."""
    own = [op for op in body.ops if op in products]
    if not own:
        return False
    stage = {plan.op: plan.room for op in own for plan in staged[op]}
    extra = kept_bytes(own, lambda op: staged[op], log2_warps)
    room = CostModel(target).shared_bytes - extra
    room -= needed_stages(own, staged, room, target, log2_warps) * sum(stage.values())
    return turned_bytes(body) > room


def turned_bytes(body: Any) -> int:
    """Shared memory through which products' tiles cross to be stored in lines, while a loop's ring lies there."""
    most = 0
    for op in body.ops:
        type: Any = op.operand("tile").type if op.spec.name == "store_view_tko" else None  # type: ignore[union-attr]
        if type is None or not type.shape or type.shape[-2:][0] < tcgen05.LANES:
            continue
        size = num_elements(type.shape) * max(1, type.elem.bits // 8)
        if num_elements(type.shape) >= 1 << CostModel.log2_whole_rows:
            while size > CostModel.conversion_bytes:
                size //= 2
            most = max(most, size)
    return most


class Columns:
    """Columns of tensor memory that the products of a loop take: where each accumulator begins, and each left operand that
    lies there, with the columns from one block of 128 rows to the next. `shared`: operands in the place of scores. `scales`:
    where block scales begin, those of two products. `upper`: accumulators of 64 rows in the upper half of each warp's lanes.
    `again`: accumulators that begin at zero in columns of others of the iteration, which all warps must have read."""

    __slots__ = ("accumulators", "again", "operands", "scales", "shared", "total", "upper")

    def __init__(self) -> None:
        self.accumulators: dict[Op, int] = {}
        self.again: set[Op] = set()
        self.upper: set[Op] = set()
        self.operands: dict[Op, tuple[int, int]] = {}
        self.scales: dict[Op, int] = {}
        self.shared = False
        self.total = 0


def columns(products: list[Op], log2_warps: int) -> Columns | None:
    """How the products of a loop share tensor memory; None where it does not hold them."""
    out = Columns()
    heads = {op: tcgen05.columns_of(op.result.type.shape) for op in products if head(op) is op}  # type: ignore[attr-defined]
    if sum(heads.values()) > tcgen05.COLUMNS:
        halves = [op for op in heads if op.result.type.shape[0] == tcgen05.HALF]  # type: ignore[attr-defined]
        _share_lanes({op: heads[op] for op in halves}, out)
        if not halves:
            _share_columns(heads, out)
    for op in products:
        if op in out.accumulators:
            continue
        if head(op) is not op:
            out.accumulators[op] = out.accumulators[head(op)]
            continue
        out.accumulators[op] = out.total
        out.total += heads[op]
        if op.spec.name == SCALED_PRODUCT:
            out.scales[op] = out.total
            for which in (3, 4):
                out.total += 2 * tcgen05.scale_columns(op.operands[which].type.shape, which - 3)  # type: ignore[attr-defined]
    rows = {op: op.operands[0].type.shape for op in products if in_rows(op, log2_warps)}  # type: ignore[attr-defined]
    per_column = {op: 32 // op.operands[0].type.elem.bits for op in rows}  # type: ignore[attr-defined]
    for op in products:
        if is_repeated(op):
            out.operands[op] = out.total, 0
            out.total += op.operands[0].type.shape[1] * op.operands[0].type.elem.bits // 32  # type: ignore[attr-defined]
    need = sum(tcgen05.columns_of(shape) // per_column[op] for op, shape in rows.items())
    fits = out.total + need <= tcgen05.COLUMNS
    placed = None
    # scores that were read make room for what was made of them; of one step, so that more blocks have columns
    if rows and (not fits or runs_once(products[0].parent)):
        placed = _in_place_of_scores(rows, products, out)
    if placed is not None:
        out.shared = True
        out.operands.update(placed)
    elif not fits:
        return None
    else:
        for op, shape in rows.items():
            out.operands[op] = out.total, shape[1] // per_column[op]
            out.total += tcgen05.columns_of(shape) // per_column[op]
    return out if out.total <= tcgen05.COLUMNS else None


def _in_place_of_scores(
    rows: dict[Op, Any], products: list[Op], found: Columns
) -> dict[Op, tuple[int, int]] | None:
    """Where left operands lie that take the columns of scores; None where there are fewer scores of their shapes."""
    out: dict[Op, tuple[int, int]] = {}
    for op, shape in rows.items():
        scores = [o for o in products if role(o) == FRESH and head(o) is o and o.result.type.shape == shape]  # type: ignore[attr-defined]
        taken = {at for at, _ in out.values()}
        free = [o for o in scores if found.accumulators[o] not in (*taken, found.accumulators[op])]
        if not free:
            return None
        out[op] = found.accumulators[free[0]], shape[1]
    return out


def _share_lanes(widths: dict[Op, int], out: Columns) -> None:
    """Accumulators of 64 rows take half of each warp's lanes: two lie in the same columns, the widest first."""
    ends = [0, 0]
    for op in sorted(widths, key=lambda op: -widths[op]):
        upper = ends[0] > ends[1]
        if upper:
            out.upper.add(op)
        out.accumulators[op] = ends[upper]
        ends[upper] += widths[op]
    out.total = max(ends)


def _share_columns(widths: dict[Op, int], out: Columns) -> None:
    """Results that are read back before other products run leave their columns to these, those that were read first first."""
    if any(op.spec.name == SCALED_PRODUCT for op in widths):
        return
    order = sorted(widths, key=lambda op: role(op) == FRESH)  # sums that go on keep columns of their own
    read: list[Op] = []
    for op in order:
        before = next((o for o in read if widths[o] == widths[op]), None)
        if out.total + widths[op] > tcgen05.COLUMNS and before is not None and role(op) == FRESH:
            out.accumulators[op] = out.accumulators[before]
            out.again |= {before, op}
            read.remove(before)
        else:
            out.accumulators[op] = out.total
            out.total += widths[op]
        if role(op) == FRESH:
            read.append(op)


def in_rows(op: Op, log2_warps: int) -> bool:
    """Whether a product's left operand lies in tensor memory: made of scores, 8 or 16 bits an element, a row a thread."""
    left: Any = op.operands[0].type
    rows = left.shape[0]
    if left.elem.bits not in (8, 16) or left.elem.name not in tcgen05.TYPES:
        return False
    if rows % tcgen05.LANES or 1 << log2_warps != rows >> LANE_BITS or left.shape[1] < tcgen05.ROW_DEPTH:
        return False
    work, seen = [op.operands[0]], {op.operands[0]}
    while work:
        maker = work.pop().op
        if maker is None:
            continue
        if maker.spec.name in PRODUCTS:
            if maker.block is op.block and role(maker) == FRESH:
                return True
            continue
        if maker.spec.name == "if":
            made = [v for region in maker.regions for v in region.block.ops[-1].operands]
        elif maker.spec.is_pure and not maker.regions and maker.spec.name not in _MOVES:
            made = list(maker.operands)
        else:
            continue
        for value in made:
            if value not in seen and getattr(value.type, "shape", None) == left.shape:
                seen.add(value)
                work.append(value)
    return False


def is_repeated(op: Op) -> bool:
    """Whether copies of a product's left operand in tensor memory make up for rows that it has too few of: of 16 bits, from
    outside of the loop, for scores whose rows are reduced."""
    left: Any = op.operands[0].type
    shape: Any = op.result.type.shape  # type: ignore[attr-defined]
    if op.spec.name != "mmaf" or len(shape) != 2 or shape[0] not in tcgen05.FEW or shape[1] < tcgen05.LEAST_N:
        return False
    if left.elem.bits != 16 or left.elem.name not in tcgen05.TYPES or left.shape[1] < tcgen05.ROW_DEPTH:
        return False
    first, last = head(op), tail(op)
    if not is_zero(first.operands[2]) or place(op.operands[0], op.block) != OUTSIDE:
        return False
    return reaches(last.result)[1]


def reduces_rows(op: Op) -> bool:
    """Whether the loop of a product reduces rows of scores: two threads then share a row of 64, and hold nothing of others."""
    assert op.block is not None
    others = [other for other in op.block.ops if other.spec.name in PRODUCTS]
    return any(role(other) == FRESH and reaches(other.result)[1] for other in others)


def operands_of(op: Op) -> tuple[int, ...]:
    """Numbers of the operands that are to lie in shared memory."""
    return (0, 1, 3, 4) if op.spec.name == SCALED_PRODUCT else (0, 1)


def stored_bytes(op: Op, which: int) -> int:
    """Bytes that the operand of a product takes in shared memory."""
    if which > 2:
        return tcgen05.scale_bytes(op.operands[which].type.shape, which - 3)  # type: ignore[attr-defined]
    return operand_bytes(op.operands[which])


def operand_bytes(value: Value) -> int:
    """Bytes that an operand takes in shared memory."""
    type: Any = value.type
    return (4 if type.elem.name == "tf32" else max(1, type.elem.bits // 8)) * num_elements(type.shape)


def through_registers(op: Op) -> bool:
    """Whether threads hold a product's accumulator while the loop runs, in the layout of tensor memory."""
    assert op.block is not None
    others = [other for other in op.block.ops if other.spec.name in PRODUCTS]
    return role(op) != SUM or sum(next_link(other) is None for other in others) > 1


def bytes_back(products: list[Op]) -> int:
    """Shared memory through which sums change their layout behind the loop, where its ring still lies."""
    most = 0
    for op in products:
        if next_link(op) is None and op.attrs.get("atom") == "tcgen05" and not through_registers(op):
            size = 4 * num_elements(op.result.type.shape)  # type: ignore[attr-defined]
            while size > CostModel.conversion_bytes:
                size //= 2
            most = max(most, size)
    return most


def kept_bytes(products: list[Op], plans_of: Any, log2_warps: int) -> int:
    """Shared memory that operands of a loop's products take which do not lie there as they were loaded."""
    stored: dict[tuple[Op, int], int] = {}
    computed = set()
    for op in products:
        for which in operands_of(op):
            found = where(op, which, plans_of(op))
            if found != LOADED and not (which == 0 and (in_rows(op, log2_warps) or is_repeated(op))):
                stored[op, which] = stored_bytes(op, which)
                if found == COMPUTED and which < 2:
                    computed.add((op, which))
    sharing = Sharing(products, stored, computed)
    return sum(sharing.sizes)


class Sharing:
    """Operands that threads store, and the places that they share: `first` has each operand's twin whose value it is, `place`
    the number of its place, `sizes` the bytes of the places, `early` operands that are stored as soon as they are computed.

    What an iteration computes lies in its place from its store to the end of its product. A product that is read back in its
    iteration has ended there, and with it all that were issued before: one that the loop carries lasts to the next of these,
    which may be one of the next iteration. So what was made of such a product's result may be stored at once, and needs no
    registers while other products run: where that takes no more places."""

    __slots__ = ("early", "first", "place", "sizes")

    def __init__(
        self, products: list[Op], stored: dict[tuple[Op, int], int], computed: set[tuple[Op, int]]
    ) -> None:
        chains = [op for op in products if next_link(op) is None]
        begins = {}
        for op, which in computed:
            begun = 1 + last_read(op.operands[which], chains)
            if 0 < begun < chains.index(tail(op)):
                begins[op, which] = begun
        self.early: dict[tuple[Op, int], int] = {}
        self._share(products, stored, computed)
        if begins:
            least = sum(self.sizes)
            self.early = begins
            self._share(products, stored, computed)
            if sum(self.sizes) > least:
                self.early = {}
                self._share(products, stored, computed)

    def _share(
        self, products: list[Op], stored: dict[tuple[Op, int], int], computed: set[tuple[Op, int]]
    ) -> None:
        self.first: dict[tuple[Op, int], tuple[Op, int]] = {}
        self.place: dict[tuple[Op, int], int] = {}
        self.sizes: list[int] = []
        chains = [op for op in products if next_link(op) is None]
        fresh = [role(op) == FRESH for op in chains]
        alive: dict[tuple[Op, int], set[int]] = {}
        twins: dict[Any, tuple[Op, int]] = {}
        numbers = {key: chains.index(tail(key[0])) for key in stored}
        for key, number in sorted(numbers.items(), key=lambda item: item[1]):  # as they are issued
            op, which = key
            known = _unmoved(op.operands[which]), which, key in computed
            twin = twins.setdefault(known, key)
            begun = self.early.get(twin, numbers[twin])
            if which > 1 or key in computed and begun != number and begun in _lasting(number, fresh):
                twin = key  # it may still be read where the next iteration stores its twin
            self.first[key] = twin
            lasts = alive.setdefault(twin, set())
            if key in computed and (twin is not key or key in self.early):
                lasts |= set(range(self.early.get(twin, begun), number + 1))
            lasts |= _lasting(number, fresh)
        taken: list[set[int]] = []
        for key in sorted(alive, key=lambda key: -stored[key]):
            lasts = alive[key] if key in computed else set(range(len(chains)))
            place = next((n for n, others in enumerate(taken) if not lasts & others), len(taken))
            if place == len(taken):
                taken.append(set())
                self.sizes.append(stored[key])
            taken[place] |= lasts
            self.place[key] = place
        for key, twin in self.first.items():
            self.place[key] = self.place[twin]


def last_read(value: Value, chains: list[Op]) -> int:
    """The last chain of products that an iteration has read back where a value is computed; -1 where it may be none."""
    body = chains[0].block
    ops, _ = needed([value], body)
    return max((n for n, op in enumerate(chains) if op in ops and role(op) == FRESH), default=-1)


def _lasting(number: int, fresh: list[bool]) -> set[int]:
    """Chains of products, by number, during which the operands of one are read."""
    lasts = {number}
    while not fresh[number]:
        number = (number + 1) % len(fresh)
        if number in lasts:
            return set(range(len(fresh)))
        lasts.add(number)
    return lasts


def _unmoved(value: Value) -> Value:
    """A value without what only changes its layout."""
    while value.op is not None and value.op.spec.name == "convert_layout":
        value = value.op.operands[0]
    return value


def buffered_bytes(products: list[Op], members: Any) -> int:
    """Shared memory that operands take which are not members of a loop's ring."""
    plans = list(members.values())
    own = [op for op in products if op.attrs.get("atom") == "tcgen05"]
    if not own:
        return 0
    return kept_bytes(own, lambda op: plans, len(own[0].result.type.layout.warp))  # type: ignore[attr-defined]
