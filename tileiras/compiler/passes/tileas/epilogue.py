"""Epilogues that load a second tile beside the sums of a product, as in `alpha * A @ B + beta * C`, and store what they make.

Before: `%c = load_view` (128x256), `%d = convert_layout %c`, `%e = fma %sums, %d`, `%f = convert_layout %e`, `store_view %f`.
After:  `%s = convert_layout %sums`, and for each quarter of the rows `load_view`, `extract %s`, `fma`, `store_view` (32x256):
the sums alone change their layout, to the one of the store, in which the second tile is loaded, too; and of the second
tile no more than two slices are in registers. The next slice is on its way while one is computed.

Where sums are stored as they lie, nothing changes its layout: slices are columns, whose registers each thread has. Where columns
belong to warps, tiles stay whole, and each thread takes its registers in parts (`apart`): some are loaded, while those before
them are added and stored.

A slice is stored before later slices are loaded. Nobody can tell where the tokens do not order the store behind the load,
and where both are of the same tiles of the same view, as each thread then loads what it stores itself.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.rewrite import Rewriter
from tileiras.compiler.ir.types import I32, Dense, PartitionView, TensorType, TileType
from tileiras.compiler.layout.linear import LinearLayout, dim_bits, log2, splat, unbroadcasted, with_inv
from tileiras.compiler.schedule.staging import is_elementwise
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.products import PRODUCTS

from .masks import part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value
    from tileiras.compiler.ir.passes import Context

BY_REGISTERS = frozenset(("addf", "subf", "mulf", "fma", "negf"))
QUIET = frozenset(("make_partition_view", "make_tensor_view", "join_tokens", "load_view_tko"))


def slice_epilogues(func: Op, context: Context) -> None:
    """Every store of what is made of a product's sums and of loaded tiles, where both are more than registers hold well."""
    for store in [op for op in func.walk() if op.spec.name == "store_view_tko"]:
        found = Epilogue.of(store)
        if found is not None:
            found.build(context)


def part_epilogues(func: Op) -> None:
    """Every store that is left, of sums and of tiles that are loaded as these lie, in parts of each thread's registers."""
    for store in [op for op in func.walk() if op.spec.name == "store_view_tko"]:
        found = Epilogue.of(store, whole=True)
        if found is not None:
            found.part()


class Epilogue:
    """`ops`: elementwise ones between `loads` (and `sums`) and `store`, as they stand. `kept`: rows, columns and numbers.
    `convert`: what changes the layout of what is stored, if anything does; `dim`: the dimension that is cut."""

    def __init__(self, store: Op, convert: Op | None) -> None:
        self.store, self.convert = store, convert
        tile: Any = store.operand("tile")
        self.root: Value = tile if convert is None else convert.operands[0]
        type: Any = tile.type
        self.dim = 0 if convert is not None else len(type.shape) - 1
        self.layout: LinearLayout = type.layout
        self.shape: tuple[int, ...] = type.shape
        self.ops: list[Op] = []
        self.sums: list[Value] = []
        self.loads: list[Op] = []
        self.kept: list[Value] = []
        self.joins: list[Op] = []  # of tokens, between the loads and the store
        self.cut = 0  # index bits that count slices: the highest ones

    @staticmethod
    def of(store: Op, whole: bool = False) -> Epilogue | None:
        """What can be taken in slices, and is worth it; `whole`: in parts of registers."""
        tile: Any = store.operand("tile")
        maker = tile.op
        if maker is None or len(tile.uses) != 1:
            return None
        found = Epilogue(store, maker if maker.spec is tileas.CONVERT_LAYOUT else None)
        if found.convert is None and not lies_in_sectors(found.layout, found.shape):
            return None
        if not found.collect() or not (found.parts() if whole else found.pays()) or not found.may_wait():
            return None
        return found

    def collect(self) -> bool:
        """Sorts what the stored tile is made of; False where some of it is nothing of the kind, or others want it, too."""
        work, seen = [self.root], set()
        chain = {self.store if self.convert is None else self.convert}
        while work:
            value = work.pop()
            if value in seen:
                continue
            seen.add(value)
            type: Any = value.type
            op = value.op
            if type.layout.is_splat:
                self.kept.append(value)
            elif type.shape == self.shape and is_sum(value):
                self.sums.append(value)
            elif op is None or op.block is not self.store.block or type.shape != self.shape:
                return False
            elif op.spec.name == "broadcast":
                self.kept.append(value)
            elif op.spec.name == "load_view_tko":
                self.loads.append(op)
            elif op.spec is tileas.CONVERT_LAYOUT or is_elementwise(op) and op.segments is None:
                self.ops.append(op)
                chain.add(op)
                work += op.operands
            else:
                return False
        tiles = [*(op.result for op in self.ops), *(op.results[0] for op in self.loads)]
        tiles += [v for v in self.sums if v.op.block is self.store.block]  # type: ignore[union-attr]
        if len(self.sums) != 1 or not self.loads or any(u not in chain for v in tiles for u, _ in v.uses):
            return False
        order = {op: i for i, op in enumerate(self.store.block.ops)}  # type: ignore[union-attr]
        self.ops.sort(key=order.__getitem__)
        self.loads.sort(key=order.__getitem__)
        return True

    def fills(self) -> int:
        """Registers of what is loaded, where it and the sums fill a thread's; else 0."""
        loaded = sum(words(self.layout, op.results[0]) for op in self.loads)
        return loaded if words(self.layout, self.sums[0]) + loaded > CostModel.epilogue_registers else 0

    def parts(self) -> bool:
        """Whether parts of registers are worth it, and everything between loads and store is done register by register."""
        layouts = [v.type.layout for op in (*self.loads, *self.ops) for v in op.results[:1]]  # type: ignore[attr-defined]
        apart = self.layout.inv == 0 and not any(self.layout.replicated)
        apart = apart and self.convert is None and all(layout is self.layout for layout in layouts)
        return apart and self.fills() > 0 and all(op.spec.name in BY_REGISTERS for op in self.ops)

    def part(self) -> None:
        """Loads in front of what is computed, and nothing between them and the store but that."""
        block: Any = self.store.block
        mine = {*self.loads, *self.joins, *self.ops}
        first = block.ops.index(self.loads[0])
        between = block.ops[first : block.ops.index(self.store)]
        block.ops[first : first + len(between)] = [
            *(op for op in between if op not in mine),
            *(op for op in between if op in mine),
        ]
        each = CostModel.epilogue_slice >> (len(self.loads) - 1).bit_length()
        for op in self.loads:
            op.attrs = {**op.attrs, "apart": each}
        self.store.attrs = {**self.store.attrs, "apart": 1}

    def pays(self) -> bool:
        """Whether sums and loaded tiles fill the registers, and slices of rows are registers of every thread."""
        loaded = self.fills()
        if not loaded:
            return False
        low, count = dim_bits(self.shape)[self.dim]
        columns = (*self.layout.reg, *self.layout.lane, *self.layout.warp)
        while self.cut < count and loaded >> self.cut > CostModel.epilogue_slice:
            top = 1 << (low + count - self.cut - 1)
            if top not in self.layout.reg or sum(1 for c in columns if c & top) != 1:
                break
            self.cut += 1
        return self.cut > 0 and not self.layout.inv and not any(self.layout.replicated)

    def may_wait(self) -> bool:
        """Whether loads may be done as late as the store, and later ones behind parts of the store."""
        store = self.store
        ops: list[Op] = store.block.ops  # type: ignore[union-attr]
        between = ops[ops.index(self.loads[0]) : ops.index(store)]
        for op in (*self.loads, store):
            if op.attr("memory_ordering_semantics") != "weak" or not is_partition(op):
                return False
        for op in between:
            if op.regions or not (op.spec.is_pure or op.spec.name in QUIET):
                return False
        self.joins = [op for op in between if op.spec.name == "join_tokens"]
        others = set(between).difference(self.joins)  # that may not wait for the loads
        waited_for = [*(op.results[1] for op in self.loads), *(op.results[0] for op in self.joins)]
        if any(user in others for token in waited_for for user, _ in token.uses):
            return False
        behind = ordered_behind(store, set(self.joins))
        return all(load.results[1] not in behind or same_tile(load, store) for load in self.loads)

    # ---- building
    def build(self, context: Context) -> None:
        """The slices, in front of the store, which goes; and what they need."""
        here = Rewriter(context, self.store)
        whole: dict[Value, Value] = {}
        total = self.sums[0]
        type: Any = total.type
        whole[total] = total
        if self.convert is not None:
            made = here.create(
                tileas.CONVERT_LAYOUT, (total,), (TensorType(type.elem, type.shape, self.layout),)
            )
            if made is None:
                return
            whole[total] = made.result
        for value in self.kept:
            spread = self.spread(value, here, context)
            if spread is None:
                return
            whole[value] = spread
        count = 1 << self.cut
        waiting: list[list[Op]] = [[] for _ in range(count)]
        stored: list[Value] = []
        base = ordered_behind(self.store, set(self.joins))
        mine = {op.results[1] for op in self.loads}
        first = [v for v in base if v not in mine and (v.op is None or v.op not in self.joins)]
        for s in range(count):
            for ahead in range(s, min(s + 2, count)):
                if not waiting[ahead]:
                    waiting[ahead] = [self.access(op, ahead, here) for op in self.loads]
            tile = self.compute(s, dict(zip(self.loads, waiting[s])), whole, here)
            tokens = [op.results[1] for op, old in zip(waiting[s], self.loads) if old.results[1] in base]
            token = self.joined([*first, *tokens], here)
            stored.append(self.access(self.store, s, here, tile, token).results[0])
        for i, load in enumerate(self.loads):
            load.results[1].replace_all_uses_with(self.joined([ops[i].results[1] for ops in waiting], here))  # type: ignore[arg-type]
        for op in self.joins:  # others behind the store may want them
            op.block.ops.remove(op)  # type: ignore[union-attr]
            self.store.block.insert_before(self.store, op)  # type: ignore[union-attr]
        here.replace(self.store, [self.joined(stored, here)])
        if self.convert is not None:
            self.convert.erase()
        for op in reversed(self.ops):
            op.erase()
        for op in self.loads:
            op.erase()

    def spread(self, value: Value, here: Rewriter, context: Context) -> Value | None:
        """A row, a column or a number in the layout of the store."""
        type: Any = value.type
        if type.layout.is_splat:
            return value
        op = value.op
        assert op is not None
        source: Any = op.operands[0].type
        small = part(
            op.operands[0], unbroadcasted(self.layout, source.shape, type.shape), self.store, context
        )
        if small is None:
            return None
        want = TensorType(type.elem, type.shape, with_inv(self.layout, type.layout.inv))
        made = here.create(op.spec, (small,), (want,), dict(op.attrs))
        return made.result if made is not None else None

    def sliced(self, old: Value) -> TensorType:
        """The type of a slice of a tile."""
        type: Any = old.type
        shape = list(self.shape)
        shape[self.dim] >>= self.cut
        layout = with_inv(self.layout, type.layout.inv)
        low, count = dim_bits(self.shape)[self.dim]
        below = (1 << low + count - self.cut) - 1
        counts = (1 << low + count) - 1 & ~below  # the bits that tell slices apart

        def inside(column: int) -> int:
            return column & below | column >> self.cut & ~below

        reg, lane, warp = (
            [inside(c) for c in part if not c & counts or part is not layout.reg]
            for part in (layout.reg, layout.lane, layout.warp)
        )
        bits = layout.bits - self.cut
        return TensorType(
            type.elem, tuple(shape), LinearLayout(bits, reg, lane, warp, inside(layout.inv & ~counts))
        )

    def compute(self, s: int, loaded: dict[Op, Op], whole: dict[Value, Value], here: Rewriter) -> Value:
        """One slice of what is stored."""
        parts: dict[Value, Value] = {op.results[0]: new.results[0] for op, new in loaded.items()}
        at = [number(here, s if d == self.dim else 0, self.layout.num_warps) for d in range(len(self.shape))]
        for old, value in whole.items():
            parts[old] = made(here, "extract", (value, at), self.sliced(value)).result
        for op in self.ops:
            if op.spec is tileas.CONVERT_LAYOUT:
                parts[op.result] = parts[op.operands[0]]
                continue
            new = here.create(
                op.spec,
                [parts[v] for v in op.operands],
                (self.sliced(op.result),),
                dict(op.attrs),
                loc=op.loc,
            )
            assert new is not None
            parts[op.result] = new.result
        return parts[self.root]

    def access(
        self, op: Op, s: int, here: Rewriter, tile: Value | None = None, token: Value | None = None
    ) -> Op:
        """A load or store of one slice."""
        view: Any = op.operand("view")
        old: PartitionView = view.type
        tile_shape, n = list(old.tile), self.layout.num_warps
        tile_shape[self.dim] >>= self.cut
        type = PartitionView(tuple(tile_shape), old.view, old.dim_map, old.padding)
        small = made(here, view.op.spec.name, (view.op.operands[0],), type).result
        indices = list(op.group("index"))
        index: Any = indices[self.dim]
        bits = index.type.elem.bits
        # a number that would wrap is that of a tile outside, as is the last one that does not
        last = number(here, (1 << bits - self.cut) - 1, n, index.type.elem)
        index = made(here, "mini", (index, last), index.type, signedness="unsigned").result
        index = made(
            here, "muli", (index, number(here, 1 << self.cut, n, index.type.elem)), index.type
        ).result
        indices[self.dim] = made(
            here, "addi", (index, number(here, s, n, index.type.elem)), index.type
        ).result
        operands = {"view": small, "index": indices}
        types: list[Any] = [r.type for r in op.results]
        attrs = dict(op.attrs)
        if tile is not None:
            operands |= {"tile": tile, "token": token}
            attrs["layout"] = tile.type.layout  # type: ignore[attr-defined]
        else:
            types[0] = self.sliced(op.results[0])
        groups = [operands.get(name, op.group(name)) for name in op.spec.operand_index]
        new = here.create(op.spec, groups, types, attrs, loc=op.loc)
        assert new is not None
        return new

    def joined(self, tokens: list[Value], here: Rewriter) -> Value | None:
        """One token for several; none for none."""
        if len(tokens) < 2:
            return tokens[0] if tokens else None
        return made(here, "join_tokens", (tokens,), tokens[0].type).result


def is_sum(value: Value) -> bool:
    """Whether a value is the result of a product, of a loop, or of a branch that hands on one of them, as two versions of a loop
    do. It may stand around the branch that stores it, and be wanted by others there."""
    work = [value]
    while work:
        value = work.pop()
        op = value.op
        if op is not None and (op.spec.name in PRODUCTS or op.spec.name == "for"):
            return True
        if op is not None and op.spec.name == "if":
            ends = [region.block.ops[-1] for region in op.regions]
            work += [end.operands[value.index] for end in ends if end.spec.name == "yield"]
    return False


def lies_in_sectors(layout: LinearLayout, shape: tuple[int, ...]) -> bool:
    """Whether neighbouring lanes have what lies side by side in memory, two elements each, as in fragments of sums."""
    near = list(layout.reg[:1]) == [1] and list(layout.lane[:2]) == [2, 4]
    return near and shape[-1] >= 8 and not layout.inv and not any(layout.replicated)


def words(layout: LinearLayout, value: Value) -> int:
    """Registers of a thread that a tile takes."""
    return int(layout.num_regs * max(8, value.type.elem.bits) // 32)  # type: ignore[attr-defined]


def is_partition(op: Op) -> bool:
    """Whether tiles of a view lie side by side, and the slices of one are tiles of a finer view."""
    view: Any = op.operand("view")
    return isinstance(view.type, PartitionView) and view.op is not None


def ordered_behind(store: Op, joins: set[Op]) -> dict[Value, None]:
    """Tokens that a store waits for, through joins of them."""
    token = store.operand("token")
    found: dict[Value, None] = {}
    work = [token] if token is not None else []
    while work:
        value = work.pop()
        if value not in found:
            found[value] = None
            if value.op is not None and value.op in joins:
                work += value.op.operands
    return found


def same_tile(load: Op, store: Op) -> bool:
    """Whether the same tile of the same tensor is loaded and stored."""
    a, b = load.operand("view"), store.operand("view")
    x: Any = a.type  # type: ignore[union-attr]
    y: Any = b.type  # type: ignore[union-attr]
    return (
        a.op.operands[0] is b.op.operands[0]  # type: ignore[union-attr]
        and (x.tile, x.dim_map) == (y.tile, y.dim_map)
        and load.group("index") == store.group("index")
    )


def made(here: Rewriter, name: str, groups: Any, type: Any, **attrs: Any) -> Op:
    """An op that keeps the rules by construction."""
    op = here.create(tileas.BY_NAME[name], groups, (type,), attrs)
    assert op is not None
    return op


def number(here: Rewriter, value: int, num_warps: int, elem: Any = I32) -> Value:
    """A constant."""
    type = TensorType(elem, (), splat(0, log2(num_warps)))
    data = value.to_bytes(elem.bits // 8, "little")
    return made(here, "constant", (), type, value=Dense(TileType(elem, ()), data)).result
