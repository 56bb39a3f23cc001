"""TileASTensorMemoryProducts: products meant for tcgen05 add up in tensor memory; the loop carries their number instead.

Before: `%r = for .. iter(%c = %zero) { %a, %b = load_shared ..; %d = mmaf %a, %b, %c {atom = "tcgen05"}; continue %d }`.
After:  `%m = tensor_memory.begin %all`, `tensor_memory.store %m, %zero`, `%n = for .. iter(%i = 0) { tensor_memory.wait %m, %i;
        barrier; tensor_memory.product %m, %i ..; continue %i + 1 }`, `%r = tensor_memory.load %m, %n`, `tensor_memory.end`.

Two products may be on their way: the stage that the next copies overwrite was read by the one before the last. What the
threads computed they store to shared memory in front of the product; a product that begins at zero is read back at once; an
accumulator that every iteration scales is scaled where it lies, one that every iteration looks at is loaded for that.

The function allocates tensor memory once, around all loops that use it, and frees it on every way out.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.dialects.nv_tileas.rings import RESERVED_BYTES, in_units, span_of
from tileiras.compiler.dialects.nv_tileas.types import SHARED, TENSOR_MEMORY
from tileiras.compiler.ir.core import Value
from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.ir.inline import put_in_place
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.rewrite import Rewriter
from tileiras.compiler.ir.types import I32, Dense, TensorType, TileType
from tileiras.compiler.ir.walk import held_in
from tileiras.compiler.layout.linear import dim_bits, splat
from tileiras.compiler.layout.shared import arrange
from tileiras.compiler.schedule import tensor_memory
from tileiras.compiler.schedule.exchange import conversion
from tileiras.compiler.schedule.instructions import scaled_form
from tileiras.compiler.schedule.once import runs_once
from tileiras.compiler.schedule.products import carried_beside, described
from tileiras.compiler.schedule.scratch import exchanged_bytes
from tileiras.compiler.target import sm, tcgen05
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.products import SCALED

from .again import erase_load, lay_out, loaded_again
from .fragments import on_fragments
from .hoist_conversions import end_of_buffers
from .lower_pipelines import add_operand
from .read_where_used import read_where_used
from .warpgroup_products import fence_barriers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op


COPIES = frozenset((tileas.COPY_VIEW, tileas.COPY_POINTERS))
ROUNDED = {"rounding_mode": "nearest_even"}
_RING_BARRIERS = 512  # bytes into the state, behind what accumulators need


class TensorMemoryProducts(Pass):
    NAME = "TileASTensorMemoryProducts"
    SUMMARY = "Let products add up in tensor memory"
    """
    does: products add up in tensor memory (`tcgen05`) and release the stages of rings; copies, and operands that threads
      store, arrive on mbarriers, and the loop has no barrier
    without: `mma.sync`
    acts: staged_bf16_nn_128 on sm_100
    """
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        loops: dict[Op, list[Op]] = {}
        for op in func.walk():
            if op.attrs.get("atom") == "tcgen05" and op.parent is not None:
                loops.setdefault(op.parent, []).append(op)
        moved: list[Accumulation] = []
        for loop, products in loops.items():
            accumulation = Accumulation(loop, products, context)
            if accumulation.possible():
                moved.append(accumulation)
            elif not all(on_fragments(op, context) for op in products):
                return False
        if not moved:
            return True
        memory = allocate(func, [a.loop for a in moved], max(a.columns for a in moved), context)
        if memory is None or not all(accumulation.move(memory) for accumulation in moved):
            return False
        for accumulation in moved:
            for value in accumulation.sources:
                erase_load(value)
        fence_barriers(func)
        if any(op.spec is tileas.BULK_BEGIN for op in func.walk()):
            from .commit_stages import commit_stages

            if not commit_stages(func, context):
                return False
        arrivals = context.target is not None and context.target.has(sm.ARRIVALS)
        if arrivals and any(op.spec in COPIES for op in func.walk()):
            from .arrive_stages import arrive_stages

            if not arrive_stages(func, context, barriers_end(func)):
                return False
        if any(op.spec is tileas.STORE_SHARED for op in func.walk()):
            from .arrive_operands import arrive_operands

            if not arrive_operands(func, context):
                return False
        around = [accumulation.loop.parent for accumulation in moved]
        if len(moved) > 1 or any(op is not None and op.spec.name == "for" for op in around):
            from .operands_left import leave_operands

            leave_operands(func)
        for accumulation in moved:
            if runs_once(accumulation.loop):
                put_in_place(accumulation.loop)
        return True


def allocate(func: Op, loops: list[Op], columns: int, context: Context) -> Value | None:
    """Tensor memory for all loops, in front of the first and freed behind the last and before every return between; its
    state comes first in shared memory."""
    block = func.regions[0].block

    for op in func.walk():
        if op.spec is tileas.ALLOC_SHARED:
            op.attrs = {**op.attrs, "offset": op.attr("offset") + tcgen05.STATE_BYTES}
    keep_barriers(func)
    around = sorted({block.ops.index(held_in(block, loop)) for loop in loops})  # type: ignore[arg-type]
    first, last = block.ops[around[0]], block.ops[around[-1] + 1]
    ways_out = [
        inner
        for op in block.ops[around[0] : around[-1] + 1]
        for inner in op.walk()
        if inner.spec.name == "return"
    ]
    attrs = {"columns": tcgen05.allocated(columns), "offset": 0}
    made = Rewriter(context, first).create(tileas.TENSOR_ALLOC, (), (TENSOR_MEMORY,), attrs)
    if made is None:
        return None
    for op in (*ways_out, last):
        if Rewriter(context, op).create(tileas.TENSOR_FREE, (made.result,)) is None:
            return None
    return made.result


def barriers_end(func: Op) -> int:
    """Where the state has room behind the mbarriers of rings."""
    at = _RING_BARRIERS
    for begin in [op for op in func.walk() if op.spec is tileas.BULK_BEGIN]:
        at += 2 * span_of(begin.attr("stage_bytes"), begin.attr("stages"))
    return at


def keep_barriers(func: Op) -> None:
    """The mbarriers of rings that bulk copies fill find room in the state, which costs a block no shared memory."""
    at = _RING_BARRIERS
    for begin in [op for op in func.walk() if op.spec is tileas.BULK_BEGIN]:
        alloc = begin.operands[0].op
        size = 2 * span_of(
            begin.attr("stage_bytes"), begin.attr("stages")
        )  # for those that are released, too
        if alloc is None or alloc.spec is not tileas.ALLOC_SHARED or at + size > tcgen05.STATE_BYTES:
            continue
        alloc.attrs = {**alloc.attrs, "bytes": alloc.attr("bytes") - RESERVED_BYTES}
        for op, _ in alloc.result.uses:
            if "barriers" in op.attrs:
                op.attrs = {**op.attrs, "barriers": at - alloc.attr("offset")}
        at += size


def loaded(value: Value) -> Op | None:
    """The load from shared memory that makes an operand; None when it is in registers."""
    op = value.op
    return op if op is not None and op.spec is tileas.LOAD_SHARED else None


def lies_ready(value: Value, which: int) -> bool:
    """Whether an operand lies in shared memory as tcgen05 takes it."""
    load = loaded(value)
    type: Any = value.type
    if load is None or type.elem.name == "tf32":
        return False
    columns = load.attrs["arrangement"]
    if which > 2:
        return bool(columns == tcgen05.scale_arrangement(type.shape, which - 3))
    return described(value, columns, which, bytes_of(type)) is not None


def bytes_of(type: Any) -> int:
    """Bytes of an operand's element in shared memory."""
    return 4 if type.elem.name == "tf32" else max(1, type.elem.bits // 8)


class Buffer:
    """An operand that threads store to shared memory: its arrangement, bytes, and whether every iteration stores it."""

    def __init__(self, value: Value, which: int, computed: bool) -> None:
        type: Any = value.type
        self.value = value
        self.computed = computed
        self.buffer: Any = None
        self.slot: Any = None
        self.filled: int | None = None  # that block scales have where they leave holes in their tiles
        if which > 2:  # block scales
            self.unit_is_k = True
            self.arrangement = tcgen05.scale_arrangement(type.shape, which - 3)
            self.size = tcgen05.scale_bytes(type.shape, which - 3)
            self.bytes = in_units(self.size)
            rows = tcgen05.scale_rows(type.shape, which - 3)
            self.filled = rows if rows < tcgen05.SCALE_ROWS else None
            return
        dims = dim_bits(type.shape)
        low = type.layout.reg[0] if type.layout.reg else 1
        unit = next((d for d, (at, count) in enumerate(dims) if at <= low.bit_length() - 1 < at + count), 1)
        size, k = bytes_of(type), 1 - which
        self.arrangement = arrange(type.shape, unit, size)
        if described(value, self.arrangement, which, size) is None:  # lines along M or N are too short
            unit = k
            self.arrangement = arrange(type.shape, unit, size)
        self.unit_is_k = unit == k
        self.bytes = in_units(tensor_memory.operand_bytes(value))


class Accumulation:
    """The products of one loop."""

    def __init__(self, loop: Op, products: list[Op], context: Context) -> None:
        self.loop, self.products, self.context = loop, products, context
        self.body = loop.regions[0].block
        self.failed = False
        self.spare = bool(loop.attrs.get("spare_stages"))
        self.roles = [tensor_memory.role(op) for op in products]
        self.warps = len(products[0].result.type.layout.warp)  # type: ignore[attr-defined]
        self.tails = {op: tensor_memory.tail(op) for op in products}
        self.heads = {op: tensor_memory.head(op) for op in products}
        self.looks: dict[
            Op, tuple[Any, list[Any], list[Any]]
        ] = {}  # who sees a sum before a product, and after
        self.places = tensor_memory.columns(products, self.warps)
        self.repeated = {op for op in products if tensor_memory.is_repeated(op)}
        self.columns: int = self.places.total if self.places is not None else 0
        self.starts: dict[Op, Value] = {}  # what a sum begins with
        self.carries: dict[
            Op, tuple[int, Value, list[Any]]
        ] = {}  # its number among the carried values, and who uses it
        self.sources: list[Value] = []  # values that were loaded again
        self.refill: Op | None = None
        self.buffers: dict[tuple[Op, int], Buffer] = {}
        for op in products:
            for which in tensor_memory.operands_of(op):
                value = op.operands[which]
                if which == 0 and self.places is not None and op in self.places.operands:
                    continue
                if not lies_ready(value, which):
                    computed = tensor_memory.place(value, self.body) == tensor_memory.COMPUTED
                    self.buffers[op, which] = Buffer(value, which, computed)
        sizes = {key: buffer.bytes for key, buffer in self.buffers.items()}
        computed_ones = {key for key, buffer in self.buffers.items() if buffer.computed and key[1] < 2}
        self.sharing = tensor_memory.Sharing(products, sizes, computed_ones)
        # a lone product may still read one buffer while the next is written
        room = CostModel(context.target).shared_bytes - end_of_buffers(loop)
        taken = sum(self.sharing.sizes)
        again = sum(buffer.bytes for buffer in self.buffers.values() if buffer.computed)
        # sums may change their layout through shared memory before the buffers are free, and blocks of tiles go through it
        back = max(min(CostModel.conversion_bytes, 4 * num_elements(op.result.type.shape)) for op in products)  # type: ignore[attr-defined]
        back = max(back, exchanged_bytes(loop, context.target))
        self.doubled = len(products) == 1 and self.spare and 0 < taken + again <= room - back
        self.fit = taken <= room

    def possible(self) -> bool:
        """Whether everything lies where tcgen05 reaches it."""
        if None in self.roles or not self.fit or self.places is None:
            return False
        if any(op.spec.name == SCALED and which < 2 for op, which in self.buffers):
            return False
        if any(buffer.value.type.layout.inv for buffer in self.buffers.values()):  # type: ignore[attr-defined]
            return False
        if any(b.value.type.elem.name == "tf32" and not b.unit_is_k for b in self.buffers.values()):  # type: ignore[attr-defined]
            return False
        return any(inner.spec is tileas.BARRIER for inner in self.body.ops)

    def refilled(self) -> Op | None:
        """The barrier in front of copies into the stage that the products of this iteration have read; None where copies go to
        another one."""
        ops = self.body.ops
        last = max(ops.index(op) for op in self.products)
        reads = {tuple(op.operands[:2]) for op in ops if op.spec is tileas.LOAD_SHARED}
        behind = [op for op in ops[last:] if op.spec in COPIES and tuple(op.operands[:2]) in reads]
        if not behind:
            return None
        return next(op for op in reversed(ops[: ops.index(behind[0])]) if op.spec is tileas.BARRIER)

    def make(self, anchor: Op, spec: Any, groups: Any = (), types: Any = (), attrs: Any = None) -> Any:
        made = Rewriter(self.context, anchor).create(spec, groups, types, attrs)
        self.failed = self.failed or made is None
        return made

    def number(self, anchor: Op, value: int) -> Value:
        data = Dense(TileType(I32, ()), value.to_bytes(4, "little"))
        constant = tileas.BY_NAME["constant"]
        return self.make(anchor, constant, (), (self.scalar,), {"value": data}).result  # type: ignore[no-any-return]

    def move(self, memory: Value) -> bool:
        loop, body = self.loop, self.body
        assert self.places is not None
        self.memory = memory
        self.scalar = TensorType(I32, (), splat(0, self.warps))
        self.rename_outside()
        self.store_outside()
        accumulators: dict[Op, Value] = {}
        for n, op in enumerate(dict.fromkeys(self.tails.values())):
            attrs = {"column": self.places.accumulators[op], "number": n}
            if self.heads[op] in self.places.upper:
                attrs["lane"] = tcgen05.UPPER_LANE
            begun = self.make(loop, tileas.TENSOR_BEGIN, (memory,), (TENSOR_MEMORY,), attrs)
            accumulators[op] = begun.result
        self.make(loop, tileas.BARRIER)
        count, total = self.count()
        self.refill = self.refilled()
        terminator = body.ops[-1]
        top = next(inner for inner in body.ops if inner.spec is tileas.BARRIER or inner.spec in COPIES)
        assert loop.block is not None
        following = loop.block.ops[loop.block.ops.index(loop) + 1]
        for op, what in zip(self.products, self.roles):
            if self.tails[op] is not op:
                continue  # with the last link of its chain, or moved there
            links = [other for other in self.products if self.tails[other] is op]
            self.gather(links)
            if what == tensor_memory.FRESH:
                self.fresh(links, accumulators[op], count)
            else:
                self.carried(links, what, accumulators[op], count, total, top, following)
        self.make(following, tileas.BARRIER)
        for accumulator in accumulators.values():
            self.make(following, tileas.TENSOR_END, (accumulator,))
        for place in dict.fromkeys(self.buffers[key].buffer for key in self.sharing.first.values()):
            self.make(following, tileas.FREE_SHARED, (place,))
        return not self.failed and terminator is body.ops[-1]

    # ---- in front of the loop
    def rename_outside(self) -> None:
        """Transpositions and the like of what comes from outside are done there."""
        for op in self.products:
            for value in [op.operands[which] for which in tensor_memory.operands_of(op)]:
                chain = []
                while (
                    value.op is not None
                    and value.op.block is self.body
                    and value.op.spec.name in tensor_memory.RENAMES
                ):
                    chain.append(value.op)
                    value = value.op.operands[0]
                owner = value.op.block if value.op is not None else value.owner
                if owner is not self.body and self.loop.block is not None:
                    for inner in reversed(chain):
                        self.body.ops.remove(inner)
                        self.loop.block.insert_before(self.loop, inner)

    def store_outside(self) -> None:
        """Buffers of operands; what does not change lies there from the start."""
        zero = self.number(self.loop, 0)
        places: dict[int, Value] = {}
        for key, buffer in self.buffers.items():
            if self.sharing.first[key] != key:
                continue
            size = buffer.bytes * (2 if self.doubled and buffer.computed else 1)
            place = self.sharing.place[key]
            if place not in places:
                most = max(size, self.sharing.sizes[place])
                attrs = {"bytes": most, "offset": max(tcgen05.STATE_BYTES, end_of_buffers(self.loop))}
                places[place] = self.make(self.loop, tileas.ALLOC_SHARED, (), (SHARED,), attrs).result
            buffer.buffer, buffer.slot = places[place], zero
            if buffer.filled is not None:
                attrs = {
                    "start": 0, "bytes": buffer.size, "filled": buffer.filled, "slots": size // buffer.bytes,
                    "stride": buffer.bytes,
                }  # fmt: skip
                self.make(self.loop, tileas.CLEAR_SHARED, (buffer.buffer,), (), attrs)
                self.make(self.loop, tileas.BARRIER)
            if not buffer.computed:
                first = buffer.value
                buffer.value = loaded_again(first, self.loop)
                self.store(buffer, self.loop)
                self.sources.append(first)
        for op in self.products:
            if op in self.repeated:
                self.store_repeated(op)

    def store_repeated(self, op: Op) -> None:
        """The left operand of a product lies in tensor memory from the start, as often as makes 64 rows."""
        assert self.places is not None
        first = op.operands[0]
        type: Any = first.type
        layout = tcgen05.layout_of(type.shape, self.warps, rows_of_halves=True)
        value = loaded_again(first, self.loop)
        if value is not first:
            self.sources.append(first)
        if value is first or not lay_out(value, layout):
            value = self.converted(self.loop, value, TensorType(type.elem, type.shape, layout))
        column, stride = self.places.operands[op]
        attrs = {"column": column, "stride": stride}
        self.make(self.loop, tileas.TENSOR_STORE_ROWS, (self.memory, value), (), attrs)

    def store(self, buffer: Buffer, anchor: Op) -> None:
        attrs = {"arrangement": buffer.arrangement, "start": 0}
        self.make(anchor, tileas.STORE_SHARED, (buffer.buffer, buffer.slot, buffer.value), (), attrs)

    def behind(self, value: Value) -> Op:
        """The op in front of which a value of the body is there."""
        ops = self.body.ops
        return ops[ops.index(value.op) + 1]  # type: ignore[arg-type]

    def count(self) -> tuple[Value, Value]:
        """(number of the iteration's products, how many there were): takes the place of a sum, or is carried besides."""
        loop, body = self.loop, self.body
        terminator = body.ops[-1]
        found = None
        for op, what in zip(self.products, self.roles):
            if what == tensor_memory.FRESH or self.tails[op] is not op:
                continue
            index = tensor_memory.sum_number(op)
            assert index is not None
            self.starts[op] = loop.operands[3 + index]
            loop.set_operand(3 + index, self.number(loop, 0))
            arg, result = body.args[1 + index], loop.results[index]
            self.carries[op] = index, arg, list(result.uses)
            if what in (tensor_memory.WATCHED, tensor_memory.SCALED):
                first = self.heads[op]
                times = first.operands[2].op if what == tensor_memory.SCALED else None
                before = [use for use in arg.uses if use != (first, 2) and use[0] is not times]
                after = [use for use in op.result.uses if use != (terminator, index)]
                self.looks[op] = arg.type, before, after
            arg.type = result.type = self.scalar
            if found is None:
                found = arg, result, index
        if found is None:
            add_operand(loop, self.number(loop, 0))
            arg, result = body.add_arg(self.scalar), Value(self.scalar, loop, len(loop.results))
            loop.results.append(result)
            add_operand(terminator, arg)
            found = arg, result, len(terminator.operands) - 1
        arg, result, index = found
        more = self.make(
            terminator, tileas.BY_NAME["addi"], (arg, self.number(terminator, 1)), (self.scalar,), {"overflow": "none"}
        ).result  # fmt: skip
        self.more = index, more
        return arg, result

    # ---- products
    def gather(self, links: list[Op]) -> None:
        """The links of a chain stand next to each other, so that one barrier serves them."""
        for op in links[:-1]:
            self.body.ops.remove(op)
            self.body.insert_before(links[-1], op)

    def fresh(self, links: list[Op], accumulator: Value, count: Value) -> None:
        op = links[-1]
        assert self.places is not None
        self.issue(links, accumulator, count, True, links[0] in self.places.again)
        type: Any = op.result.type
        lying = self.lying(type)
        attrs = {"before": 0}
        start = links[0].operands[2]
        begun = not tensor_memory.is_zero(start)
        held = carried_beside(self.body) + num_elements(type.shape) * (2 if begun else 1)
        if held > CostModel.results_registers << self.warps + 5:
            # who adds them up makes room for the next ones
            attrs |= {"most": CostModel.part_registers, "apart": 1}
        load = self.make(op, tileas.TENSOR_LOAD, (accumulator, count), (lying,), attrs)
        back = found = self.converted(op, load.result, type)
        if begun:
            name, how = ("addf", ROUNDED) if type.elem.is_float else ("addi", {"overflow": "none"})
            found = self.make(op, tileas.BY_NAME[name], (start, back), (type,), how).result
        op.result.replace_all_uses_with(found)
        self.erase(links)
        if "apart" in attrs and back is load.result:
            read_where_used(load)
        if not self.carries:
            index, more = self.more
            self.body.ops[-1].set_operand(index, more)

    def lying(self, type: Any) -> TensorType:
        """A sum as a load brings it: in the layout that it has already, if that is one of them."""
        rows = tcgen05.layout_of(type.shape, self.warps, rows_of_halves=True)
        layout = rows if type.layout is rows else tcgen05.layout_of(type.shape, self.warps)
        return TensorType(type.elem, type.shape, layout)

    def converted(self, anchor: Op, value: Value, type: Any) -> Value:
        if value.type.layout is type.layout:  # type: ignore[attr-defined]
            return value
        return self.make(
            anchor, tileas.CONVERT_LAYOUT, (value,), (type,), conversion(value.type, type)
        ).result  # type: ignore[no-any-return]

    def carried(
        self,
        links: list[Op],
        what: Any,
        accumulator: Value,
        count: Value,
        total: Value,
        top: Op,
        following: Op,
    ) -> None:
        """A chain whose sum the loop carried."""
        first, op = links[0], links[-1]
        loop, terminator = self.loop, self.body.ops[-1]
        type: Any = op.result.type
        lying = self.lying(type)
        index, arg, users = self.carries[op]
        start = self.converted(loop, self.starts[op], lying)
        self.make(loop, tileas.TENSOR_STORE, (accumulator, start))
        assert self.places is not None
        in_rows = any(link in self.places.operands for link in links)
        computed = in_rows or any(key[0] in links and buffer.computed for key, buffer in self.buffers.items())
        early = not self.spare or in_rows and self.places.shared  # what comes next overwrites what it reads
        waits = 2 if not early and (not computed or self.doubled) else 1
        times = first.operands[2].op if what == tensor_memory.SCALED else None
        watched, before, after = self.looks.get(op, (None, [], []))
        looked = bool(before) and self.look(first, accumulator, count, watched, before)
        written = looked or times is not None  # scaled behind the barrier at which those who looked have met
        if times is not None:
            if early:
                self.make(top, tileas.TENSOR_WAIT, (accumulator, count), (), {"before": 1})
            factor = next(v for v in times.operands if v is not arg)
            rows_of_halves = lying.layout is not tcgen05.layout_of(type.shape, self.warps)
            self.make(
                first,
                tileas.TENSOR_SCALE,
                (accumulator, count, factor),
                (),
                {"rows_of_halves": int(rows_of_halves)},
            )
        elif before and not early:
            pass  # who looks has waited
        elif waits == 2 or early:
            self.make(top, tileas.TENSOR_WAIT, (accumulator, count), (), {"before": waits})
        else:
            self.make(first, tileas.TENSOR_WAIT, (accumulator, count), (), {"before": 1})
        self.issue(links, accumulator, count, False, written)
        if self.refill is not None:
            self.make(self.refill, tileas.TENSOR_WAIT, (accumulator, count), (), {"before": 0})
        if after:
            seen = self.make(op, tileas.TENSOR_LOAD, (accumulator, count), (lying,), {"before": 0}).result
            seen = self.converted(op, seen, type)
            for user, at in after:
                user.set_operand(at, seen)
        mine, more = self.more
        terminator.set_operand(index, more if index == mine else arg)
        self.erase(links)
        if times is not None:
            times.erase()
        if users:
            result = self.make(
                following, tileas.TENSOR_LOAD, (accumulator, total), (lying,), {"before": 1}
            ).result
            back = self.converted(following, result, type)
            for user, at in users:
                user.set_operand(at, back)
        else:
            self.make(following, tileas.TENSOR_WAIT, (accumulator, total), (), {"before": 1})

    def look(
        self, first: Op, accumulator: Value, count: Value, type: Any, users: list[tuple[Op, int]]
    ) -> bool:
        """Loads a sum for those who see it before its product; whether a barrier must still part the two."""
        places = {held_in(self.body, user): None for user, _ in users}
        anchor = next(op for op in self.body.ops if op in places or op is first)
        lying = self.lying(type)
        load = self.make(anchor, tileas.TENSOR_LOAD, (accumulator, count), (lying,), {"before": 1})
        seen = self.converted(anchor, load.result, type)
        for user, at in users:
            user.set_operand(at, seen)
        ops = self.body.ops
        between = ops[ops.index(load) : ops.index(first)]
        return not any(op.spec is tileas.BARRIER for op in between)

    def issue(
        self, links: list[Op], accumulator: Value, count: Value, fresh: bool, written: bool = False
    ) -> None:
        """Issues the products of a chain. `written`: threads have just changed its sums, or looked at what was in their place."""
        made = [self.product(op, accumulator, count, fresh and op is links[0]) for op in links]
        if written or any(stored for _, _, _, stored in made):
            self.make(links[-1], tileas.BARRIER)
        for spec, groups, attrs, _ in made[:-1]:
            self.make(links[-1], spec, groups, (), {**attrs, "commit": 0})
        spec, groups, attrs, _ = made[-1]
        self.make(links[-1], spec, groups, (), attrs)

    def product(
        self, op: Op, accumulator: Value, count: Value, fresh: bool
    ) -> tuple[Any, list[Any], dict[str, Any], bool]:
        """(op, operands, attributes) of a product in tensor memory, and whether threads store an operand."""
        type: Any = op.result.type
        left: Any = op.operands[0].type
        rows = tcgen05.HALF if op in self.repeated else type.shape[0]
        attrs: dict[str, Any] = {
            "m": rows, "n": type.shape[1], "depth": left.shape[-1], "elem": left.elem.name, "fresh": int(fresh)
        }  # fmt: skip
        for name in ("signedness_lhs", "signedness_rhs"):
            if name in op.attrs:
                attrs[name] = op.attrs[name]
        groups: list[Any] = [accumulator, count]
        assert self.places is not None
        in_rows = self.places.operands.get(op)
        stored = in_rows is not None and op not in self.repeated
        spec = tileas.TENSOR_PRODUCT
        if op.spec.name == SCALED:
            spec = tileas.TENSOR_PRODUCT_SCALED
            attrs["elem"], attrs["scale"], attrs["block"] = scaled_form(op)
            attrs["column"] = self.places.scales[op]
            groups.append(self.memory)
        for which in tensor_memory.operands_of(op):
            value = op.operands[which]
            name = ("a", "b", "", "sa", "sb")[which]
            if which == 0 and in_rows is not None:
                spec = tileas.TENSOR_PRODUCT_ROWS
                placed = {"column": in_rows[0], "stride": in_rows[1]}
                if op not in self.repeated:
                    layout = tcgen05.layout_of(left.shape, self.warps)
                    lying = self.converted(op, value, TensorType(left.elem, left.shape, layout))
                    self.make(op, tileas.TENSOR_STORE_ROWS, (self.memory, lying), (), placed)
                groups.append(self.memory)
                attrs.update(placed)
                continue
            buffer = self.buffers.get((op, which))
            if buffer is None:
                load = loaded(value)
                assert load is not None
                groups += load.operands[:2]
                attrs[f"{name}_start"], attrs[f"{name}_arrangement"] = (
                    load.attr("start"),
                    load.attrs["arrangement"],
                )
                continue
            first = self.sharing.first[op, which]
            if first != (op, which):
                buffer = self.buffers[first]
            elif buffer.computed:
                buffer.value = value
                if self.doubled:
                    parity = self.make(
                        op, tileas.BY_NAME["andi"], (count, self.number(op, 1)), (self.scalar,)
                    ).result
                    buffer.slot = self.make(
                        op, tileas.BY_NAME["muli"], (parity, self.number(op, buffer.bytes)), (self.scalar,),
                        {"overflow": "none"},
                    ).result  # fmt: skip
                self.store(buffer, self.behind(value) if first in self.sharing.early else op)
                stored = True
            groups += [buffer.buffer, buffer.slot]
            attrs[f"{name}_start"], attrs[f"{name}_arrangement"] = 0, buffer.arrangement
        return spec, groups, attrs, stored

    def erase(self, links: list[Op]) -> None:
        """The products go, and the loads that nobody else uses."""
        loads = [loaded(op.operands[which]) for op in links for which in tensor_memory.operands_of(op)]
        for op in reversed(links):
            op.erase()
        for load in dict.fromkeys(loads):
            if load is not None and not load.result.uses:
                load.erase()
