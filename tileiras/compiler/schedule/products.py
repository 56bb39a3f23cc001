"""How many warps a kernel with products gets, and how each product is split over them.

A warp tile of 64x64 reads the least shared memory per multiply-add that registers allow (128 accumulators a thread in
32 bits). Products whose rows are reduced, or feed the left side of another product, as in attention, give whole rows
to each warp: reductions then stay inside a warp and scores become the next left operand without moving.
"""

from __future__ import annotations

from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.ir.types import Ptr
from tileiras.compiler.layout.linear import dim_bits, log2
from tileiras.compiler.target import mma, sm, tcgen05
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.mma import HALVES
from tileiras.compiler.target.products import PRODUCTS, SCALED
from tileiras.compiler.target.registers import registers_of_element

from .candidates import LOOPS, captured, ordering
from .instructions import block_scaled, mma_sync
from .once import runs_once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable
    from typing import Any

    from tileiras.compiler.ir.analyses import Analyses
    from tileiras.compiler.ir.core import Op, Value

    from .restage import Places, Restaged

REACH = 64  # ops that a search from one product visits


def choose_warps(func: Op, analyses: Analyses, least: int, most: int) -> int | None:
    """Warps for a kernel whose products are staged; None when it has none, or when others hold tiles of pointers with their
    operands, the slow versions of loops: then threads are as many as if nothing were staged."""
    from .loops import staged_products
    from .staging import feeding_loads

    # those by fused multiply-add have the threads that they had if nothing were staged
    staged = analyses.get(staged_products, func)
    products = {op: plans for op, plans in staged.items() if mma_sync(op, analyses.target) is not None}
    if not products:
        return None
    from .tensor_memory import chosen, is_repeated, through_registers

    for log2_warps in (2, 3):  # whole rows to a warp: a warpgroup has 128
        found = chosen(func, analyses, log2_warps)
        if any(is_repeated(op) for op in found):
            return max(least, 1 << log2_warps)
        rows = [op.result.type.shape[0] for op in found if through_registers(op)]  # type: ignore[attr-defined]
        if rows and max(rows) >> 5 <= 1 << log2_warps:
            room = CostModel.results_registers << log2_warps + 5
            if scores_at_once(found) > room and 2 << log2_warps <= most:
                if found <= chosen(func, analyses, log2_warps + 1):
                    continue
            if log2_warps == 2 and most > 4 and read_back(found) > CostModel.read_back_elements << 7:
                if found <= chosen(func, analyses, 3):
                    continue
            return max(least, 1 << log2_warps)
    found = chosen(func, analyses, 3)
    sums = [num_elements(op.result.type.shape) for op in found if not through_registers(op)]  # type: ignore[attr-defined]
    if sums and len(sums) == len(found) and max(sums) > least * 32 * CostModel.read_back_elements:
        return max(least, min(most, CostModel.whole_warps))
    grouped = analyses.get(warpgroup_products, func)
    if grouped:
        apart = [op for op in products if is_repeated(op) and op not in grouped]
        if apart:  # scores beside them whose depth warps share out
            from .shared_depth import warps_to_share

            return max(least, 1 << tcgen05.WARPGROUP, warps_to_share(apart[-1], products, analyses.target)[0])
        elems = max(num_elements(op.result.type.shape) for op in grouped)  # type: ignore[attr-defined]
        least_rows = min(op.result.type.shape[0] for op in grouped)  # type: ignore[attr-defined]
        warps = 4 * max(1, min(least_rows // 64, most // 4, 2))
        while warps < most and elems > warps * 32 * CostModel.warpgroup_accumulators:
            warps *= 2
        if (
            warps < min(most, CostModel.whole_warps)
            and held_at_once(grouped) > warps * 32 * CostModel.warpgroup_tiles
        ):
            warps *= 2
        return warps
    held: dict[Any, int] = {}
    for product in products:
        type: Any = product.result.type
        if product.block not in held:
            held[product.block] = carried_beside(product.block) + carried_around(product.block)
        held[product.block] += num_elements(type.shape) * registers_of_element(type.elem)
    limit = CostModel.accumulators
    tensor = chosen(func, analyses, 2)
    if any(block_scaled(p, analyses.target) == HALVES for p in products if p not in tensor):
        limit = CostModel.scaled_accumulators
    warps = least
    while warps < most and max(held.values()) > warps * 32 * limit:
        warps *= 2
    whole = CostModel.whole_warps
    if warps > whole and limit == CostModel.accumulators:
        alive = alive_at_once(products)
        if max(alive[b] + carried_beside(b) for b in alive) <= whole * 32 * CostModel.product_tiles:
            warps = whole
    if warps > least and wait_for_each_other(products):
        blocks = dict.fromkeys(product.block for product in products)
        if max(alive_in_order(block) for block in blocks) <= least * 32 * CostModel.ordered_tiles:
            warps = least
    for product in func.walk():
        if product.spec.name in PRODUCTS and product not in products:
            loads = feeding_loads(product, product.block)
            if any(op.spec.name == "load_ptr_tko" for group in loads for op in group):
                return None
    return warps


def wait_for_each_other(products: dict[Op, Any]) -> bool:
    """Whether the copies of all loops of products stand behind what the step before does, as beside ordered atomics: nothing is
    under way while a step multiplies, and what it reads of shared memory counts in full. Fewer warps read less."""
    return all(
        any(ordering(plan.op, product.parent) for plan in plans)
        for product, plans in products.items()
        if product.parent is not None
    )


def held_at_once(products: Iterable[Op]) -> int:
    """Elements that the products of a loop in which one adds up hold at once, at the most."""
    products = list(products)
    alive = alive_at_once(products)
    return max((alive[op.block] for op in products if adds_up(op) is not None), default=0)


def alive_at_once(products: Iterable[Op]) -> dict[Any, int]:
    """Elements that the products of a block hold at once, at the most: sums that only add up, and the two largest others, as
    scores and their gradient in attention's backward pass."""
    sums: dict[Any, int] = {}
    others: dict[Any, list[int]] = {}
    for op in products:
        size = num_elements(op.result.type.shape)  # type: ignore[attr-defined]
        if adds_up(op) is not None:
            sums[op.block] = sums.get(op.block, 0) + size
        else:
            others.setdefault(op.block, []).append(size)
    return {b: sums.get(b, 0) + sum(sorted(others.get(b, ()))[-2:]) for b in {**sums, **others}}


def alive_in_order(block: Any) -> int:
    """32-bit registers that what a block's products make, and what is computed from that, takes at once in the order of its ops,
    with the sums that its loop carries; tiles that change their shape or layout stay where they are."""
    from .restage import from_product
    from .staging import RENAMES

    last: dict[Value, int] = {}
    names: dict[Value, Value] = {}
    for n, op in enumerate(block.ops):
        if op.spec.name in RENAMES:
            names[op.result] = names.get(op.operands[0], op.operands[0])
        for value in captured(op):
            last[names.get(value, value)] = n
    alive = {arg: _registers(arg) for arg in block.args if arg in last}
    most = now = sum(alive.values())
    for n, op in enumerate(block.ops):
        for value in {names.get(v, v) for v in captured(op)}:
            if last[value] == n:
                now -= alive.pop(value, 0)
        for value in op.results:
            if value in last and value not in names and from_product(value, block):
                alive[value] = _registers(value)
                now += alive[value]
        most = max(most, now)
    return most


def _registers(value: Value) -> int:
    type: Any = value.type
    if not getattr(type, "shape", ()) or isinstance(type.elem, Ptr) or type.elem.bits == 1:
        return 0
    return num_elements(type.shape) * type.elem.bits // 32


def read_back(products: Iterable[Op]) -> int:
    """Elements of all sums that a loop leaves in tensor memory, at the most, where it leaves nothing else there: what follows it
    has them in registers together."""
    from .tensor_memory import SUM, next_link, role

    found: dict[Any, int] = {}
    for op in products:
        if role(op) != SUM:
            return 0
        if next_link(op) is None:
            found[op.block] = found.get(op.block, 0) + num_elements(op.result.type.shape)  # type: ignore[attr-defined]
    return max(found.values(), default=0)


def scores_at_once(products: Iterable[Op]) -> int:
    """Elements of results in tensor memory that threads hold at once, at the most: the two largest of a loop that begin at zero,
    as scores and their gradient in attention's backward pass, with the sums that wait in registers, as those which a branch of
    the step adds one to. What a loop of one step only hands on comes behind the others."""
    from .tensor_memory import FRESH, role

    found: dict[Any, list[int]] = {}
    beside: dict[Any, int] = {}
    for op in products:
        if role(op) == FRESH and not (runs_once(op.parent) and only_leaves_step(op)):
            found.setdefault(op.block, []).append(num_elements(op.result.type.shape))  # type: ignore[attr-defined]
            # a branch takes it whole; where it is only added to a sum, it is read in parts
            if any(user.block is not op.block for user, _ in op.result.uses):
                beside[op.block] = carried_beside(op.block)
    return max((sum(sorted(sizes)[-2:]) + beside.get(b, 0) for b, sizes in found.items()), default=0)


def only_leaves_step(op: Op) -> bool:
    """Whether the result of a product is only handed on, to the next step or to what follows the loop."""
    assert op.block is not None
    return all(user is op.block.ops[-1] for user, _ in op.result.uses)


def carried_beside(body: Any) -> int:
    """32-bit registers of a block that a loop carries in sums which are no product's own result; pointers, of which threads
    need one a copy, are not counted."""
    return carried(body.ops[-1].operands) if body.region.op.spec.name in LOOPS else 0


def carried(values: Iterable[Value]) -> int:
    """32-bit registers of those of the values that a loop hands on which are no product's own result."""
    found = 0
    for value in values:
        type: Any = value.type
        if not getattr(type, "shape", ()) or isinstance(type.elem, Ptr):
            continue
        if value.op is None or value.op.spec.name not in PRODUCTS:
            found += num_elements(type.shape) * registers_of_element(type.elem)
    return found


def carried_around(body: Any) -> int:
    """32-bit registers of sums that the loops around a loop carry beside its own, as where each group of steps has a scale."""
    found, inner = 0, body.region.op
    while (block := inner.block) is not None and block.region is not None:
        loop = block.region.op
        if loop.spec.name in LOOPS:
            beside = [
                v
                for v in block.ops[-1].operands
                if v.op is None or v.op.block is not block or not v.op.regions
            ]
            found += carried(beside)
        inner = loop
    return found


def scale_layout(op: Op, which: int, type: Any, warps: Any, target: Any) -> Any:
    """The layout in which mma.sync wants the scales of an operand."""
    signed = type.elem.name == "f8E4M3FN"
    halves = block_scaled(op, target) == HALVES
    return mma.scale_layout(type.shape, which, warps, signed or halves, halves and not signed)


def row_products(func: Op) -> frozenset[Op]:
    """Products whose warps share out rows only, and those that add to the same sums: they do not move between them."""
    from .byte_fragments import chained

    products = [op for op in func.walk() if op.spec.name in PRODUCTS]
    found: set[Op] = set()
    if len(products) > 1:
        for product in products:
            fed, reduced = reaches(product.result)
            if fed or reduced:
                found.add(product)
                found |= fed
    for product in [op for op in products if op in found]:
        found.update(chained(product))
    return frozenset(found)


def shared_rows(func: Op, log2_warps: int, target: Any, on_fragments: Container[Op]) -> dict[Op, int]:
    """How many bits of the warp number the rows of a product take, for products whose warps share out rows before columns: all,
    unless rows are too few for all warps of a loop's products `on_fragments`. Scores cross shared memory then anyhow, and where
    each warp has more rows, fewer warps read the same keys and values."""
    found = dict.fromkeys(row_products(func), log2_warps)
    groups: dict[Any, list[Op]] = {}
    for op in found:
        groups.setdefault(op.block, []).append(op)
    fed = [group for group in groups.values() if all(op in on_fragments for op in group)]
    # one number for all loops: one may go on with the sums of another
    bits = max((_row_bits(group, log2_warps, target) for group in fed), default=log2_warps)
    found.update((op, bits) for group in fed for op in group)
    return found


def _row_bits(group: list[Op], log2_warps: int, target: Any) -> int:
    """Bits of the warp number that the rows of products of a loop take so that least is read from shared memory."""
    from .restage import is_invariant

    shapes = {op.result.type.shape[:-1] for op in group}  # type: ignore[attr-defined]
    atoms = [mma_sync(op, target) for op in group]
    if len(shapes) > 1 or len(max(shapes)) > 1 or None in atoms:
        return log2_warps
    rows = log2(max(shapes)[0])
    most = rows - max(atom.m for atom in atoms if atom is not None)
    if most >= log2_warps:
        return log2_warps
    block: Any = group[0].block
    tiles = [(op.operands[0].type.shape, op.attr("dim")) for op in block.ops if op.spec.name == "reduce"]
    along = sum(shape[0] == 1 << rows and dim == len(shape) - 1 for shape, dim in tiles)
    cost, clocks = CostModel(target), 0
    for op in group:
        left, result = (op.operands[n].type for n in (0, 2))  # type: ignore[attr-defined]
        clocks += cost.product_clocks(num_elements(result.shape) * left.shape[-1], left.elem.bits)
    best, bits = None, log2_warps
    for taken in range(most, -1, -1):
        columns = log2_warps - taken
        # maxima and sums of words come from as many warps to each lane that has the row
        read, held = along << rows + columns + 5 + mma.ROW_LANES + columns, 0
        stay = again = 0  # left operands that stay: what a warp holds of them, or reads
        for op, atom in zip(group, atoms, strict=True):
            left, right, result = (v.type for v in op.operands[:3])  # type: ignore[attr-defined]
            if atom is None or log2(result.shape[-1]) - columns < atom.n + 1:
                return bits  # ldmatrix reads two instructions' columns at once
            read += num_elements(right.shape) * right.elem.bits << taken
            held += num_elements(result.shape) * result.elem.bits >> log2_warps
            size = num_elements(left.shape) * left.elem.bits
            if is_invariant(op.operands[0], op.block):
                stay += size >> taken
                again += size << columns
            else:
                read += size << columns
        registers = held + stay >> 10
        fewer = registers <= CostModel.few_rows_registers
        # The left operands wait in shared memory then, and products for it.
        if registers > CostModel.max_registers - CostModel.loop_registers:
            read += again
            fewer = best is not None and best > clocks * 8 * CostModel.bank_bytes
        if best is None or fewer and read < best:
            best, bits = read, taken
    return bits


def reaches(value: Value) -> tuple[set[Op], bool]:
    """The products whose left operand `value` flows into within its block, and whether it does into a reduction along rows."""
    work, seen = [value], {value}
    fed: set[Op] = set()
    reduced = False
    while work and len(seen) < REACH:
        current = work.pop()
        for user, index in current.uses:
            name = user.spec.name
            if name in PRODUCTS:
                if index == 0:
                    fed.add(user)
            elif name == "reduce":
                reduced = reduced or user.attr("dim") == len(current.type.shape) - 1  # type: ignore[attr-defined]
            elif user.spec.is_pure and not user.regions and name != "permute":
                for result in user.results:
                    if result not in seen:
                        seen.add(result)
                        work.append(result)
    return fed, reduced


def warpgroup_products(func: Op, analyses: Analyses) -> dict[Op, dict[int, Restaged]]:
    """Products for wgmma, and which of their operands are written back to shared memory in another form. The others lie
    there as they were loaded, or the left one waits in registers. None of a loop whose products would write back more than
    shared memory holds."""
    from tileiras.compiler.target import wgmma

    from .loops import staged_products
    from .restage import restaged, waits_in_registers

    if not analyses.target.has(sm.WGMMA):
        return {}
    found: dict[Op, dict[int, Restaged]] = {}
    for product, plans in analyses.get(staged_products, func).items():
        row = wgmma.row_of(product.operands[0].type.elem.name)  # type: ignore[attr-defined]
        if product.spec.name == SCALED or row is None or no_warpgroups(product) is not None:
            continue
        size = 1 << 5 - row[1]
        back: dict[int, Restaged] = {}
        for which, operand in enumerate(product.operands[:2]):
            lies = operand_matrix(operand, plans, which, size)
            if lies is not None and (lies.k_major or row[2]):
                continue
            if which == 0 and waits_in_registers(operand, product.block, size):
                continue
            form = restaged(product, which, size, row[2], plans, analyses.target.tensor_maps == "none")
            if described(operand, form.arrangement, which, size) is None:
                break
            back[which] = form
        else:
            found[product] = back
    written: dict[Any, list[Op]] = {}
    for product in found:
        written.setdefault(product.block, []).append(product)
    room = CostModel(analyses.target).shared_bytes
    # the step of one product may yet become shorter
    fits = {
        block
        for block, products in written.items()
        if len(products) == 1 or written_back(products, found) <= room
    }
    return {product: back for product, back in found.items() if product.block in fits}


def written_back(products: list[Op], forms: dict[Op, dict[int, Restaged]]) -> int:
    """Bytes that operands of a loop's products take where they are written back, at the least: in stages, or in buffers."""
    from .restage import buffer_bytes

    places = buffers(products, forms)
    staged = [
        buffer_bytes(product.operands[which].type)
        for product in products
        for which in forms[product]
        if (product, which) not in places.place
    ]
    return sum(places.sizes) + sum(staged)


def buffers(products: list[Op], forms: dict[Op, dict[int, Restaged]]) -> Places:
    """The buffers that operands of a loop's products are written back to."""
    from .restage import Places

    in_order = sorted(products, key=lambda op: op.block.ops.index(op))  # type: ignore[union-attr]
    return Places([(op, {which: form.arrangement for which, form in forms[op].items()}) for op in in_order])


def no_warpgroups(product: Op) -> str | None:
    """Why a product's types or extents are none of wgmma's; None when they are."""
    from tileiras.compiler.target import wgmma

    left: Any = product.operands[0].type
    type: Any = product.result.type
    row = wgmma.row_of(left.elem.name)
    if row is None or type.elem.name not in ("f32", "i32"):
        return f"it takes no {left.elem.name} with sums in {type.elem.name}"
    if len(type.shape) != 2:
        return "the tiles have a batch dimension"
    (m, n), k = type.shape, left.shape[-1]
    if m < wgmma.M and product.operands[0].type.elem.bits == 16:  # type: ignore[attr-defined]
        from .few_rows import copies_fit

        m = wgmma.M if copies_fit(product) else m
    if m < wgmma.M or n < wgmma.MIN_N or k < 1 << row[1]:
        return f"{m}x{n}x{k} is less than {wgmma.M}x{wgmma.MIN_N}x{1 << row[1]}"
    return None


def operand_matrix(value: Value, plans: Any, which: int, size: int) -> Any:
    """How the operand of a product will lie in shared memory; None where it is not what was loaded."""
    columns = _columns(value, plans)
    return None if columns is None else described(value, columns, which, size)


def described(value: Value, columns: tuple[int, ...], which: int, size: int) -> Any:
    """The matrix operand that a tile arranged so is; None where it is none."""
    from tileiras.compiler.layout.shared import matrix_operand

    dims = dim_bits(value.type.shape)  # type: ignore[attr-defined]
    k, other = (dims[-1], dims[-2]) if which == 0 else (dims[-2], dims[-1])
    return matrix_operand(columns, k, other, size)


def _columns(value: Value, plans: Any) -> tuple[int, ...] | None:
    from tileiras.compiler.layout.shared import permuted

    by_op = {plan.op: plan for plan in plans}
    op, permutes = value.op, []
    while op not in by_op:
        if op is None or op.spec.name not in ("reshape", "permute", "convert_layout"):
            return None  # others may use the tile, too: each reads it for itself
        if op.spec.name == "permute":
            permutes.append(op)
        op = op.operands[0].op
    columns: tuple[int, ...] = by_op[op].arrangement
    for permute in reversed(permutes):
        columns = permuted(columns, permute.operands[0].type.shape, permute.attr("permutation"))  # type: ignore[attr-defined]
    return columns


def has_few_rows(op: Op, target: Any) -> bool:
    """Whether warpgroups or tensor memory multiply the transpose of a product, and not itself: it has fewer rows than they do."""
    left: Any = op.operands[0].type
    shape: Any = op.result.type.shape  # type: ignore[attr-defined]
    if target is None or len(shape) != 2 or shape[0] >= tcgen05.HALF or shape[1] < tcgen05.HALF:
        return False
    if target.has(sm.TCGEN05):
        known = left.elem.name in tcgen05.TYPES and left.elem.bits <= 16
        return known and tcgen05.fits(shape[::-1], CostModel.least_warps.bit_length() - 1)
    return target.has(sm.WGMMA) and left.elem.bits == 16  # type: ignore[no-any-return]


def adds_up(op: Op) -> Op | None:
    """The loop in which a product only adds to what the loop carries; None when somebody looks at it before the end."""
    acc, result = op.operands[2], op.result
    body = op.block
    if body is None or acc.owner is not body or len(acc.uses) != 1 or len(result.uses) != 1:
        return None
    user, index = result.uses[0]
    if user is not body.ops[-1] or user.spec.name != "continue" or index != acc.index - 1:
        return None
    loop = op.parent
    return loop if loop is not None and loop.spec.name == "for" else None
