"""TileASHoistConversions: operands of products change their layout where that moves least.

Before: `%x = load`, `%y = ftof %x`, `%z = convert_layout %y`, `mmaf %z ..`.
After:  `%x = load`, `%y = convert_layout %x`, `%z = ftof %y`, `mmaf %z ..`: what travels is the loaded type, and it may
travel by an asynchronous copy. What is added to their results does so too where it becomes wider on the way.

A conversion in a loop of a value from outside of it moves in front of the loop, and of loops around that leave the value as it
is, when the fragments fit the registers beside the accumulators; else the value waits in shared memory, stored once, and every
iteration reads it from there. What
several products take, in both orientations, as keys in the backward pass of attention, waits once: ldmatrix turns what it reads.
What no product takes moves where it takes no more registers than what would wait to be converted. Tiles beside sums: epilogue.py.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.dialects.nv_tileas.types import SHARED
from tileiras.compiler.ir.core import Op, Value
from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.rewrite import Rewriter
from tileiras.compiler.ir.types import I1, I8, I32, Dense, TensorType, TileType
from tileiras.compiler.layout.linear import dim_bits, log2, permuted, splat, with_inv
from tileiras.compiler.layout.shared import arrange, matrix_load
from tileiras.compiler.layout.shared import permuted as arrangement_of
from tileiras.compiler.schedule.staging import LOADS, PADDING, is_elementwise
from tileiras.compiler.target import sm
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.products import PRODUCTS, SIDES
from tileiras.compiler.target.registers import registers_packed

from .again import erase_load, loaded_again
from .epilogue import lies_in_sectors, part_epilogues, slice_epilogues
from .factors import in_loop, is_factor, one_value, turn_first, unmoved
from .masks import move_to_parts
from .round_early import round_early
from .spread_narrow import spread_narrow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .recompute import Recompute


class HoistConversions(Pass):
    NAME = "TileASHoistConversions"
    SUMMARY = "Convert layouts of operands next to their loads, and loop-invariant ones once"
    """
    does: operands that a loop does not change are moved and converted in front of it; a mask of rows and columns is made in
      the layout of what it masks, so that only rows and columns move, and so is decay between them; what factors of rows
      multiply is transposed before; what is spread over another dimension moves before it becomes wider; results that
      registers do not hold are rounded for later products where they are made
    without: operands are converted in each step, and masks move as a whole
    acts: attention_full_f16 on sm_90
    """
    __slots__ = ("waiting",)

    def run(self, func: Any, context: Context) -> bool:
        # (buffer, its beginning, arrangement) of tiles that wait for a loop's products, by loop and tile
        self.waiting: dict[tuple[Op, Value], tuple[Value, Value, tuple[int, ...]]] = {}
        for product in [op for op in func.walk() if op.spec.name in PRODUCTS]:
            for operand in product.operands[:2]:
                turn_first(operand, product, context)
                self.to_load(operand, context)
        for convert in [op for op in func.walk() if op.spec is tileas.CONVERT_LAYOUT]:
            if self.widens(convert):
                self.to_load(convert.result, context)
        for convert in [op for op in func.walk() if op.spec is tileas.CONVERT_LAYOUT]:
            if convert.block is None or move_to_parts(convert, context) or spread_narrow(convert, context):
                continue
            if convert.result.type.elem == I1 and self.is_staged(convert, func, context):  # type: ignore[attr-defined]
                self.to_load(convert.result, context)
        for convert in reversed([op for op in func.walk() if op.spec is tileas.CONVERT_LAYOUT]):
            if convert.block is not None and in_loop(convert):
                self.spread(convert, context)
        for loop in [op for op in func.walk() if op.spec.name == "for"]:
            self.out_of(loop, func, context)
            round_early(func, loop, context.target)
        slice_epilogues(func, context)
        for convert in [op for op in func.walk() if op.spec is tileas.CONVERT_LAYOUT]:
            wanted: Any = convert.result.type
            chain = self.read_by_sectors(convert, context.target)
            for op in chain:
                old: Any = op.results[0].type
                op.results[0].type = TensorType(old.elem, old.shape, wanted.layout)
            if chain:
                convert.result.replace_all_uses_with(chain[0].results[0])
                convert.erase()
        part_epilogues(func)
        return True

    @staticmethod
    def read_by_sectors(convert: Op, target: Any) -> list[Op]:
        """A tile that is loaded once, beside no products, and what is computed of it alone, where it is wanted in pieces of
        whole sectors: what an epilogue adds to fragments of 32 bits is loaded as fragments, and so is what it adds to many of
        16 bits beside warpgroups' sums, in halves of sectors. The load comes last."""
        chain: list[Op] = []
        load = convert.operands[0].op
        while load is not None and load.block is convert.block and len(load.results[0].uses) == 1:
            chain.append(load)
            if load.spec.name == "load_view_tko" or not is_elementwise(load) or load.segments is not None:
                break
            tiles = [v for v in load.operands if not one_value(v)]
            load = tiles[0].op if len(tiles) == 1 else None
        else:
            return []
        layout: Any = convert.result.type.layout  # type: ignore[attr-defined]
        if load.spec.name != "load_view_tko":
            return []
        type: Any = load.results[0].type
        if not lies_in_sectors(layout, type.shape):
            return []
        # of 16 bits the other half of each sector comes with the next register: where warps that copy have registers of their
        # own, and the tile would not fit beside the sums
        many = layout.num_regs >= CostModel.epilogue_fragments and target is not None and target.has(sm.WGMMA)
        if type.elem.bits != 32 and not (type.elem.bits == 16 and many):
            return []
        if type.layout.reg[:1] != layout.reg[:1]:
            return []
        block = load.block
        while block is not None and block.region is not None:
            parent = block.region.op
            if parent is None or parent.spec.name in ("for", "loop"):
                return []
            block = parent.block
        return chain

    def widens(self, convert: Op) -> bool:
        """Whether what changes its layout is wider than what was loaded, and no thread has elements twice: what an epilogue adds
        to an accumulator takes half the registers and half the shared memory before it becomes f32."""
        if convert.block is None:  # erased with a chain that was computed again
            return False
        maker = convert.operands[0].op
        if maker is None or maker.block is not convert.block or not self.movable(maker):
            return False
        load = maker
        while load.spec.name != "load_view_tko":
            makers = (v.op for v in chosen_among(load) if v.op is not None and not one_value(v))
            found = next(makers, None)
            if found is None:  # of numbers alone
                return False
            load = found
        layouts = [v.type.layout for v in (load.results[0], maker.result, convert.result)]  # type: ignore[attr-defined]
        if any(layout.inv or any(layout.replicated) for layout in layouts):
            return False
        narrow, wide = load.results[0].type.elem.bits, maker.result.type.elem.bits  # type: ignore[attr-defined]
        return bool(I8.bits <= narrow < wide)

    def is_staged(self, convert: Op, func: Op, context: Context) -> bool:
        """Whether a mask is made of one tile that waits in shared memory: threads may read it from there as they want it."""
        from tileiras.compiler.schedule.loops import staged_products

        maker = convert.operands[0].op
        if maker is None or maker.block is not convert.block or not self.movable(maker):
            return False
        value: Value | None = maker.result
        while value is not None and value.op is not None and value.op.spec.name not in LOADS:
            value = next((v for v in value.op.operands if not one_value(v)), None)
        plans = context.analyses.get(staged_products, func).values()
        return value is not None and any(value.op is plan.op for found in plans for plan in found)

    def to_load(self, value: Value, context: Context) -> None:
        """Moves a conversion above the elementwise ops between it and a load."""
        convert = value.op
        while convert is not None and convert.spec is tileas.CONVERT_LAYOUT:
            maker = convert.operands[0].op
            if maker is not None and maker.spec.name == "permute" and self.read_turned(convert, maker):
                convert = self.in_front_of(maker, convert, context)
                continue
            if maker is None or not self.movable(maker) or maker.block is not convert.block:
                self.recompute(convert, context)
                return
            layout = convert.result.type.layout  # type: ignore[attr-defined]
            rewriter = Rewriter(context, convert)
            operands: list[Any] = []
            following = None
            for v in maker.operands:
                type: Any = v.type
                want = TensorType(type.elem, type.shape, layout)
                if one_value(v):
                    operands.append(v)  # any layout holds it
                    continue
                if is_factor(v, maker):
                    want = TensorType(type.elem, type.shape, with_inv(layout, type.layout.inv))
                    made = rewriter.create(tileas.CONVERT_LAYOUT, (unmoved(v, maker.block),), (want,))
                    if made is None:
                        return
                    operands.append(made.result)
                    continue
                made = rewriter.create(tileas.CONVERT_LAYOUT, (v,), (want,))
                if made is None:
                    return
                if v in chosen_among(maker):
                    following = made
                operands.append(made.result)
            new = rewriter.create(maker.spec, operands, (convert.result.type,), dict(maker.attrs))
            if new is None:
                return
            new.loc = maker.loc
            rewriter.replace(convert, [new.result])
            if not maker.result.uses:
                maker.erase()
            convert = following

    def read_turned(self, convert: Op, permute: Op) -> bool:
        """Whether what is permuted are bytes that became wider, or words, and no element is wanted by two warps: fragments are
        then read element by element, from where they were copied to."""
        layout = convert.result.type.layout  # type: ignore[attr-defined]
        made = permute.operands[0].op
        if permute.block is not convert.block or len(permute.result.uses) != 1 or any(layout.replicated):
            return False
        if made is None or made.block is not convert.block or not self.movable(made):
            return False
        while made.spec.name not in LOADS:
            made = next(v.op for v in made.operands if v.op is not None and not one_value(v))
        loaded, wanted = made.results[0].type.elem.bits, convert.result.type.elem.bits  # type: ignore[attr-defined]
        return bool(loaded == I8.bits < wanted or loaded == I32.bits == wanted)

    @staticmethod
    def in_front_of(permute: Op, convert: Op, context: Context) -> Op | None:
        """A conversion behind a permutation in front of it instead."""
        order = permute.attr("permutation")
        type: Any = convert.result.type
        layout = permuted(type.layout, type.shape, [order.index(k) for k in range(len(order))])
        source: Any = permute.operands[0].type
        rewriter = Rewriter(context, convert)
        want = TensorType(source.elem, source.shape, layout)
        made = rewriter.create(tileas.CONVERT_LAYOUT, (permute.operands[0],), (want,))
        if made is None:
            return None
        new = rewriter.create(permute.spec, (made.result,), (type,), dict(permute.attrs))
        if new is None:
            return None
        new.loc = permute.loc
        rewriter.replace(convert, [new.result])
        permute.erase()
        return made

    @staticmethod
    def recompute(convert: Op, context: Context) -> None:
        """An operand that is unpacked from bytes is unpacked in the layout that is wanted."""
        from .recompute import Recompute

        carry_out(Recompute(convert), context)

    @staticmethod
    def spread(convert: Op, context: Context) -> None:
        """What small loads are spread over is computed in the layout that is wanted."""
        from .recompute import Spread

        carry_out(Spread(convert, context.target), context)

    @staticmethod
    def movable(op: Op) -> bool:
        """An elementwise op of one use whose one tile comes from a load, perhaps through more of them."""
        while True:
            if not is_elementwise(op) or len(op.result.uses) != 1:
                return False
            if op.segments is not None:
                return False
            tiles = []
            for v in chosen_among(op):
                if not one_value(v) and not is_factor(v, op):
                    tiles.append(v)
            if len(tiles) != 1 or tiles[0].op is None or tiles[0].type.layout.inv:  # type: ignore[attr-defined]
                return False
            op = tiles[0].op
            while op.spec.name in ("reshape", "permute") and op.operands[0].op is not None:
                op = op.operands[0].op
            if op.spec.name in LOADS:
                return True

    def out_of(self, loop: Op, func: Op, context: Context) -> None:
        """Conversions of values from outside of the loop: what its products read, and rows and columns of its addresses."""
        from tileiras.compiler.schedule.registers import free_registers

        body = loop.regions[0].block
        free: int | None = None
        for op in list(body.ops):
            if op.spec is not tileas.CONVERT_LAYOUT or op.block is not body:
                continue
            source = op.operands[0]
            inside = source.op.block if source.op is not None else source.owner
            if inside is body or loop.block is None:
                continue
            products = [u.spec.name in PRODUCTS for u, _ in op.result.uses]
            if not all(products):
                if waits_alone(op):
                    body.ops.remove(op)
                    loop.block.insert_before(loop, op)
                    continue
                # the rows of a gather
                named = all(user.spec.name == "load_view_tko" for user, _ in op.result.uses)
                if any(products) or not named and not op.result.type.layout.inv:  # type: ignore[attr-defined]
                    continue
            if any(f"restage_{SIDES[i]}" in u.attrs for u, i in op.result.uses if i < len(SIDES)):
                continue  # it will be stored in front of the loop from the layout that it has
            if free is None:
                free = free_registers(func, loop, context.target)
            type: Any = op.result.type
            need = registers_packed(type)
            few = (
                CostModel.buffered_byte_registers
                if type.elem.bits == I8.bits
                else CostModel.buffered_registers
            )
            anchor = outermost(loop, source)
            alike = conversions_alike(op, anchor)
            if len(alike) < len(source.uses):
                anchor, alike = loop, conversions_alike(op, loop)
            # what it is made of would wait in as many registers, and change its layout in each step
            instead = all(products) and need <= few and len(alike) == len(source.uses) and narrows(op)
            if need <= max(0, free - CostModel.loop_registers) or instead and need <= free:
                free -= need
                body.ops.remove(op)
                anchor.block.insert_before(anchor, op)  # type: ignore[union-attr]
                for other in alike[1:]:
                    other.result.replace_all_uses_with(op.result)
                    other.erase()
            elif all(products) and (need > few or is_read_by_warpgroups(op)):
                self.stage(op, loop, context)

    def stage(self, convert: Op, loop: Op, context: Context) -> None:
        """The value waits in shared memory; what was a conversion reads it from there."""
        from tileiras.compiler.schedule.exchange import conversion
        from tileiras.compiler.schedule.scratch import fits_shared

        type: Any = convert.result.type
        size = max(8, type.elem.bits) // 8
        total = num_elements(type.shape) * size
        source = convert.operands[0]
        tile, renames = renamed(source)
        if (loop, tile) in self.waiting:
            buffer, zero, columns = self.waiting[loop, tile]
            for op in reversed(renames):
                columns = turned(columns, op)
            if matrix_load(columns, type.layout, size) is not None:
                self.read(convert, buffer, zero, columns, context)
                erase_load(source)
                return
        moved = conversion(source.type, type, context.target).get("bytes", 0)
        if type.elem.bits < 8 or not fits_shared(loop, total, moved, context.target) or loop.block is None:
            return
        columns = arrange(type.shape, len(type.shape) - 1, size)
        along = arrange(type.shape, neighbours(source), size)
        if matrix_load(along, type.layout, size) is not None:  # stored in whole chunks
            columns = along
        if size == 1 and matrix_load(columns, type.layout, size) is None:
            return  # bytes would be read one by one
        anchor = outermost(loop, source)
        before = Rewriter(context, anchor)
        scalar = TensorType(I32, (), splat(0, log2(type.layout.num_warps)))
        start = before.create(
            tileas.BY_NAME["constant"], (), (scalar,), {"value": Dense(TileType(I32, ()), bytes(4))}
        )
        offset = end_of_buffers(loop)
        place = before.create(tileas.ALLOC_SHARED, (), (SHARED,), {"bytes": total, "offset": offset})
        if start is None or place is None:
            return
        again = loaded_again(source, anchor)
        attrs = {"arrangement": columns, "start": 0}
        before.create(tileas.STORE_SHARED, (place.result, start.result, again), (), attrs)
        before.create(tileas.BARRIER)
        if not self.read(convert, place.result, start.result, columns, context):
            return
        for op in renames:
            columns = turned(columns, op, back=True)
        self.waiting[loop, tile] = place.result, start.result, columns
        erase_load(source)
        following = anchor.block.ops[anchor.block.ops.index(anchor) + 1]  # type: ignore[union-attr]
        Rewriter(context, following).create(tileas.FREE_SHARED, (place.result,))

    @staticmethod
    def read(convert: Op, buffer: Value, zero: Value, columns: tuple[int, ...], context: Context) -> bool:
        """What was a conversion reads shared memory."""
        attrs = {"arrangement": columns, "start": 0}
        made = Rewriter(context, convert).create(
            tileas.LOAD_SHARED, (buffer, zero), (convert.result.type,), attrs
        )
        if made is None:
            return False
        convert.result.replace_all_uses_with(made.result)
        convert.erase()
        return True


def carry_out(chain: Recompute, context: Context) -> None:
    """Computes a chain in the wanted layout, where it is worth it."""
    if chain.worth():
        rewriter = Rewriter(context, chain.convert)
        made = chain.build(rewriter)
        if made is not None:
            rewriter.replace(chain.convert, [made])
            chain.visited.discard(chain.convert)
            chain.erase()


def renamed(value: Value) -> tuple[Value, list[Op]]:
    """The tile that a value is in another shape or turned, and the ops back to it."""
    found: list[Op] = []
    while value.op is not None and value.op.spec.name in ("reshape", "permute"):
        found.append(value.op)
        value = value.op.operands[0]
    return value, found


def turned(columns: tuple[int, ...], op: Op, back: bool = False) -> tuple[int, ...]:
    """The arrangement of what a reshape or permute makes of an arranged tile; `back`: of what it was made from."""
    if op.spec.name != "permute":
        return columns
    order = op.attr("permutation")
    if back:
        return arrangement_of(columns, op.result.type.shape, [order.index(k) for k in range(len(order))])  # type: ignore[attr-defined]
    return arrangement_of(columns, op.operands[0].type.shape, order)  # type: ignore[attr-defined]


def neighbours(value: Value) -> int:
    """The dimension along which threads hold neighbours of a tile; the last one where they hold none."""
    type: Any = value.type
    first = tuple(type.layout.reg[:1])
    spans = dim_bits(type.shape)
    return next((d for d, (low, count) in enumerate(spans) if count and first == (1 << low,)), len(spans) - 1)


def waits_alone(convert: Op) -> bool:
    """Whether a value from outside of a loop waits through it for one conversion alone, which takes no more registers: it may as
    well wait as it is wanted."""
    return len(convert.operands[0].uses) == 1 and narrows(convert)


def narrows(convert: Op) -> bool:
    """Whether what is wanted takes no more registers than what it is made of."""
    have, want = (value.type.layout.num_regs for value in (convert.operands[0], convert.result))  # type: ignore[attr-defined]
    return bool(want <= have)


def chosen_among(op: Op) -> list[Value]:
    """The operands of an op that bring elements: of the choice of what pads a tile, not its mask, which is made anew."""
    return list(op.operands[PADDING in op.attrs :])


def is_read_by_warpgroups(convert: Op) -> bool:
    """Whether only products of warpgroups use a value: they read it from shared memory, and no thread does."""
    users = [user.attrs.get("atom") for user, _ in convert.result.uses]
    return bool(users) and all(atom == "wgmma" for atom in users)


def outermost(loop: Op, value: Value) -> Op:
    """The outermost of the loops around one that do not make a value, and have no other loop beside it: what is done with the
    value in front of it is done once."""
    made: Any = value.op.block if value.op is not None else value.owner
    outside: set[Any] = set()
    while made is not None:
        outside.add(made)
        around = made.region.op if made.region is not None else None
        made = around.block if around is not None else None
    while (parent := loop.parent) is not None and parent.spec.name == "for" and loop.block not in outside:
        inside = [op for op in parent.regions[0].block.ops if op is not loop]
        if any(inner.spec.name in ("for", "loop") for op in inside for inner in op.walk()):
            break
        loop = parent
    return loop


def conversions_alike(convert: Op, loop: Op) -> list[Op]:
    """A conversion in a loop, first, and those of the same value to the same layout in loops behind it: made once in front of the
    loop, it serves all of them."""
    assert loop.block is not None
    behind = set(loop.block.ops[loop.block.ops.index(loop) :])
    found = [convert]
    for user, _ in convert.operands[0].uses:
        around: Op | None = user
        while around is not None and around.block is not loop.block:
            around = around.parent
        alike = user.spec is tileas.CONVERT_LAYOUT and user.result.type == convert.result.type
        if alike and around in behind and user is not convert and around is not user:
            found.append(user)
    return found


def end_of_buffers(loop: Op) -> int:
    """Bytes of the block's arena that buffers around a loop take."""
    end = 0
    op: Op | None = loop
    while op is not None and op.block is not None:
        live: dict[Value, int] = {}
        for before in op.block.ops[: op.block.ops.index(op)]:
            if before.spec is tileas.ALLOC_SHARED:
                live[before.result] = before.attr("offset") + before.attr("bytes")
            elif before.spec is tileas.FREE_SHARED:
                live.pop(before.operands[0], None)
        end = max(end, *live.values(), 0)
        op = op.parent
    return end
