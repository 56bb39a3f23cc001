"""TileAAHalveRows: loops whose scores do not fit the registers beside their sums take one half of the rows after the other.

Before: `for .. iter(%o : 256x128) { %s = mmaf %q, %k, %z : 256x128 .. %n = mmaf %p, %v, %o continue %n }`.
After:  `for .. iter(%o0, %o1 : 128x128) { %s0 = mmaf %q0, %k, %z' .. %n0 = mmaf %p0, %v, %o0
                                           %s1 = mmaf %q1, %k, %z' .. %n1 = mmaf %p1, %v, %o1 continue %n0, %n1 }`, `cat`.

Rows of attention know nothing of each other, so that each half has its own scores, one after the other in the same registers, and
both read the same keys and values from where these lie. What each element is computed from, and in which order, stays.

Backwards from what the loop carries, `Rows` finds what has to be halved and along which dimension. What lies in front of the loop
is halved where it is made, if that is a load or index arithmetic, and else cut by `extract`; what follows is halved as far as it
is elementwise.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import diags as D
from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.clone import clone_region
from tileiras.compiler.ir.core import Block, Op, Region, Value
from tileiras.compiler.ir.dense import constant_bytes
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.types import I32, I64, Dense, PartitionView, TensorType, TileType
from tileiras.compiler.ir.walk import erase_unused
from tileiras.compiler.passes.tileaa.slice_loop import is_splat
from tileiras.compiler.passes.tileaa.slice_plan import PRODUCTS
from tileiras.compiler.passes.tileaa.slices import reshaped_cut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Pair = tuple[Value, Value]


DIFFERENT = frozenset(("iota", "load_view_tko"))  # ops whose halves differ though their operands do not


class HalveRows(Pass):
    NAME = "TileAAHalveRows"
    SUMMARY = "Take half of the rows at a time where scores and sums do not fit the registers together"
    """
    does: loops of warpgroups whose scores and sums do not fit the registers together take one half of the rows after
      the other
    without: spills
    acts: staged_attention_full_f16 on sm_90
    """
    KEEPS_ANALYSES = True
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        from tileiras.compiler.schedule.halves import wanted

        for loop in [op for op in func.walk() if op.spec.name == "for"]:
            sums = wanted(func, loop, context.analyses) if context.target is not None else []
            if not sums:
                continue
            rows = Rows(loop)
            if rows.plan(sums):
                Halves(rows).carry_out()
                context.analyses.drop()
                type: Any = sums[0].type
                context.remark(D.HALVED, loop, rows=type.shape[0])
        return True


class Rows:
    """Which values of a loop have rows of their own for each half, and their dimension."""

    def __init__(self, loop: Op) -> None:
        self.loop = loop
        self.body = loop.regions[0].block
        self.dims: dict[Value, int] = {}

    def plan(self, sums: list[Value]) -> bool:
        """Whether all that depends on some carried tiles, which are halved along their first dimension, can be halved."""
        jump, extent = self.body.ops[-1], sums[0].type.shape[0]  # type: ignore[attr-defined]
        if not all(self.demand(arg, 0) for arg in sums):
            return False
        for arg, value in zip(self.body.args[1:], jump.operands):
            shape = getattr(arg.type, "shape", ())
            if arg in self.dims or not shape:
                continue
            for dim in [d for d, e in enumerate(shape) if e == extent]:
                known = dict(self.dims)
                if self.demand(arg, dim):
                    break
                self.dims = known
            else:
                if self.depends(value):
                    return False
        return self.is_closed()

    def demand(self, value: Value, dim: int) -> bool:
        """Whether the halves of a value along a dimension can be made; adds what that takes."""
        work = [(value, dim)]
        while work:
            value, dim = work.pop()
            if is_splat(value.op):
                continue
            known = self.dims.get(value)
            if known is not None:
                if known != dim:
                    return False
                continue
            type: Any = value.type
            if not isinstance(type, TensorType) or not type.shape or type.shape[dim] < 2:
                return False
            self.dims[value] = dim
            if value.op is None and value.owner is self.body:
                if not value.index:
                    return False
                work.append((self.body.ops[-1].operands[value.index - 1], dim))
                continue
            op = value.op
            if op is None or op.block is not self.body:
                continue  # in front of the loop everything can be halved
            found = operands_of(op, dim)
            if found is None:
                return False
            work += found
        return True

    def depends(self, value: Value) -> bool:
        """Whether a value of the body is computed from what is halved."""
        work, seen = [value], {value}
        while work:
            value = work.pop()
            if value in self.dims:
                return True
            op = value.op
            if op is not None and op.block is self.body:
                fresh = [v for v in op.operands if v not in seen]
                seen.update(fresh)
                work += fresh
        return False

    def is_closed(self) -> bool:
        """Whether nobody in the body needs both halves at once."""
        changing: set[Value] = {arg for arg in self.body.args[1:] if arg in self.dims}
        for op in self.body.ops[:-1]:
            halved = any(r in self.dims for r in op.results)
            if halved and any(r not in self.dims and r.uses for r in op.results):
                return False
            if not halved and any(v in changing for inner in op.walk() for v in inner.operands):
                return False
            if halved:
                changing.update(op.results)
        given = zip(self.body.args[1:], self.body.ops[-1].operands)
        return not any(value in changing and arg not in self.dims for arg, value in given)


def operands_of(op: Op, dim: int) -> list[tuple[Value, int]] | None:
    """The operands that have halves where an op's result has them along a dimension, and the dimension of each; None where the
    op cannot be halved so."""
    name = op.spec.name
    shape: Any = op.results[0].type.shape  # type: ignore[attr-defined]
    if is_splat(op) or name == "iota":
        return []
    if op.spec.elementwise:
        same = all(getattr(v.type, "shape", None) == shape for v in op.operands)
        return [(v, dim) for v in op.operands] if same else None
    if name == "broadcast":
        source = op.operands[0]
        return [(source, dim)] if source.type.shape[dim] > 1 else []  # type: ignore[attr-defined]
    if name == "reshape":
        source = op.operands[0]
        cut = reshaped_cut(shape, (dim,), source.type.shape)  # type: ignore[attr-defined]
        return [(source, cut[0])] if cut is not None else None
    if name == "permute":
        return [(op.operands[0], op.attr("permutation")[dim])]
    if name == "reduce":
        along = op.attr("dim")
        return [(v, dim + (dim >= along)) for v in op.operands]
    if name in PRODUCTS and len(shape) == 2 and dim == 0:
        return [(op.operands[0], 0), (op.operands[2], 0)]
    if name == "load_view_tko" and is_partition(op):
        return []
    return None


def is_partition(op: Op) -> bool:
    """Whether a load is one of a grid of tiles, of which each half is one of a finer grid."""
    view: Any = op.operand("view")
    return (
        op.attr("memory_ordering_semantics") == "weak"
        and view.op is not None
        and view.op.spec.name == "make_partition_view"
        and isinstance(view.type, PartitionView)
        and not op.results[1].uses
    )


def half_of(type: Any, dim: int) -> TensorType:
    return TensorType(type.elem, tuple(e // 2 if d == dim else e for d, e in enumerate(type.shape)))


class Halves:
    """Makes the two halves of everything that `Rows` found."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.loop = rows.loop
        self.dims = rows.dims
        self.pairs: dict[Value, Pair] = {}

    def carry_out(self) -> None:
        loop, old = self.loop, self.rows.body
        block = loop.block
        assert block is not None
        inits: list[Value] = []
        for arg, init in zip(old.args[1:], loop.operands[3:]):
            inits += self.outside(init, self.dims[arg]) if arg in self.dims else (init,)
        new = Block()
        for arg in old.args:
            if arg in self.dims:
                type = half_of(arg.type, self.dims[arg])
                self.pairs[arg] = new.add_arg(type), new.add_arg(type)
            else:
                arg.replace_all_uses_with(new.add_arg(arg.type, arg.name))
        jump = old.ops[-1]
        second: list[Op] = []
        for op in list(old.ops[:-1]):
            if any(r in self.dims for r in op.results):
                first, later = self.halve(op)
                for made in first:
                    new.append(made)
                second += later
            else:
                old.ops.remove(op)
                new.append(op)
        for op in second:
            new.append(op)
        given: list[Value] = []
        for arg, value in zip(old.args[1:], list(jump.operands)):
            given += self.pair(value, self.dims[arg]) if arg in self.dims else (value,)
        new.append(create(jump.spec, given, (), dict(jump.attrs), (), jump.loc, (len(given),)))
        made_loop = create(
            loop.spec, [*loop.operands[:3], *inits], [v.type for v in inits], dict(loop.attrs), [Region([new])],
            loop.loc, (1, 1, 1, len(inits)),
        )  # fmt: skip
        block.insert_before(loop, made_loop)
        results = iter(made_loop.results)
        for arg, result in zip(old.args[1:], loop.results):
            if arg in self.dims:
                self.pairs[result] = next(results), next(results)
                self.dims[result] = self.dims[arg]
            else:
                result.replace_all_uses_with(next(results))
        self.behind(block)
        for result in loop.results:
            if result.uses:
                self.join(result, loop)
        loop.erase()
        for value in self.pairs:
            maker = value.op
            if maker is not None and maker is not loop and maker.block is not old:
                erase_unused(maker, may_go)

    # ---- one op
    def halve(self, op: Op) -> tuple[list[Op], list[Op]]:
        """What the first half of an op takes, and the second; one that serves both is in the first."""
        dim = self.dims[op.results[0]]
        found = operands_of(op, dim)
        assert found is not None
        sides = {v: self.pair(v, d) for v, d in found}
        ops: tuple[list[Op], list[Op]] = [], []
        made = [self.half(op, dim, 0, {v: pair[0] for v, pair in sides.items()}, ops[0])]
        if op.spec.name in DIFFERENT or any(low is not high for low, high in sides.values()):
            made.append(self.half(op, dim, 1, {v: pair[1] for v, pair in sides.items()}, ops[1]))
        self.pairs[op.results[0]] = made[0].results[0], made[-1].results[0]
        for number, result in enumerate(op.results[1:], 1):
            if result in self.dims:
                self.pairs[result] = made[0].results[number], made[-1].results[number]
        return ops

    def half(self, op: Op, dim: int, which: int, sides: dict[Value, Value], into: list[Op]) -> Op:
        """One half of an op, behind what it needs, at the end of `into`."""
        if op.spec.name == "load_view_tko":
            return half_load(op, dim, which, into)
        types = [half_of(r.type, self.dims.get(r, dim)) for r in op.results]
        regions = [clone_region(region, {}) for region in op.regions]
        operands = [sides.get(v, v) for v in op.operands]
        made = create(op.spec, operands, types, dict(op.attrs), regions, op.loc, op.segments)
        into.append(made)
        if op.spec.name == "iota" and which:
            start = splat(types[0], types[0].shape[0])
            into.append(start)
            attrs = {"overflow": "none"}
            made = create(tileaa.BY_NAME["addi"], (made.result, start.result), (types[0],), attrs, (), op.loc)
            into.append(made)
        return made

    def pair(self, value: Value, dim: int) -> Pair:
        """Both halves of a value that has them, or may have."""
        return self.pairs[value] if value in self.pairs else self.outside(value, dim)

    # ---- in front of the loop
    def outside(self, value: Value, dim: int) -> Pair:
        """Both halves of a value from outside of the loop, made where it is made."""
        work = [(value, dim)]
        while work:
            current, d = work[-1]
            op = current.op
            found = None
            if current in self.pairs:
                work.pop()
                continue
            self.dims[current] = d
            if is_splat(op):
                assert op is not None and op.block is not None
                type = half_of(current.type, d)
                data = Dense(TileType(type.elem, type.shape), op.attr("value").data)  # type: ignore[union-attr]
                made = create(op.spec, (), (type,), {"value": data}, (), op.loc)
                op.block.insert_before(op, made)
                self.pairs[current] = made.result, made.result
            elif op is not None and is_joined(op, d):
                self.pairs[current] = op.operands[0], op.operands[1]
            else:
                if op is not None and is_made_anew(op):
                    found = operands_of(op, d)
                missing = [(v, k) for v, k in found or () if v not in self.pairs]
                if missing:
                    work += missing
                    continue
                if found is None or op is None:
                    self.pairs[current] = self.extracted(current, d)
                else:
                    for ops in self.halve(op):
                        for made in ops:
                            op.block.insert_before(op, made)  # type: ignore[union-attr]
            work.pop()
        return self.pairs[value]

    def extracted(self, value: Value, dim: int) -> Pair:
        """Both halves of a whole tile, cut in front of the loop."""
        block, type = self.loop.block, half_of(value.type, dim)
        assert block is not None
        numbers = [splat(TensorType(I32, ()), n) for n in (0, 1)]
        parts = []
        for op in numbers:
            block.insert_before(self.loop, op)
        for which in (0, 1):
            places = [numbers[which if d == dim else 0].result for d in range(len(type.shape))]
            made = create(
                tileaa.BY_NAME["extract"], (value, *places), (type,), {}, (), self.loop.loc, (1, len(places))
            )
            parts.append(block.insert_before(self.loop, made).result)
        return parts[0], parts[1]

    # ---- behind it
    def behind(self, block: Block) -> None:
        """Elementwise ops on results work on halves as well, up to what needs them whole."""
        done: list[Op] = []
        halved = set(self.loop.results)
        for op in block.ops[block.ops.index(self.loop) + 1 :]:
            source = next((v for v in op.operands if v in halved and v in self.pairs), None)
            dim = dim_behind(op, source, self.dims[source]) if source is not None else None
            found = operands_of(op, dim) if dim is not None else None
            if found is None or dim is None:
                continue
            if all(is_splat(v.op) or v in halved and self.dims.get(v) == d for v, d in found):
                self.dims[op.result] = dim
                for ops in self.halve(op):
                    for made in ops:
                        block.insert_before(op, made)
                halved.add(op.result)
                done.append(op)
        for op in reversed(done):
            if op.result.uses:
                self.join(op.result, op)
            op.erase()

    def join(self, value: Value, anchor: Op) -> None:
        """The whole of a value for everybody who is left."""
        assert anchor.block is not None
        attrs = {"dim": self.dims[value]}
        made = create(tileaa.BY_NAME["cat"], self.pairs[value], (value.type,), attrs, (), anchor.loc)
        value.replace_all_uses_with(anchor.block.insert_before(anchor, made).result)


def half_load(op: Op, dim: int, which: int, into: list[Op]) -> Op:
    """A half of a tile: the tile of a finer grid. Its numbers have 64 bits, so that none overflows."""
    view: Any = op.operand("view")
    old: Any = view.type
    tile = half_of(op.results[0].type, dim)
    long = TensorType(I64, ())

    def put(name: str, operands: Any, type: Any, attrs: dict[str, Any]) -> Value:
        made = create(tileaa.BY_NAME[name], operands, (type,), attrs, (), op.loc)
        into.append(made)
        return made.result

    def number(value: int) -> Value:
        into.append(splat(long, value))
        return into[-1].result

    small = PartitionView(tile.shape, old.view, old.dim_map, old.padding)
    finer = put("make_partition_view", view.op.operands, small, dict(view.op.attrs))
    indices: list[Value] = []
    for d, value in enumerate(op.group("index")):
        if value.type is not long:
            value = put("exti", (value,), long, {"signedness": "unsigned"})
        if d == dim:
            value = put("muli", (value, number(2)), long, {"overflow": "none"})
            value = put("addi", (value, number(which)), long, {"overflow": "none"})
        indices.append(value)
    operands = list(op.operands)
    operands[operands.index(view)] = finer
    first = 1
    operands[first : first + len(indices)] = indices
    made = create(op.spec, operands, (tile, op.results[1].type), dict(op.attrs), (), op.loc, op.segments)
    into.append(made)
    return made


def splat(type: Any, value: int) -> Op:
    """A constant of one number everywhere."""
    data = value.to_bytes(constant_bytes(type.elem), "little")
    return create(
        tileaa.BY_NAME["constant"], (), (type,), {"value": Dense(TileType(type.elem, type.shape), data)}
    )


def may_go(op: Op) -> bool:
    return (
        op.spec.is_pure or op.spec.name == "load_view_tko" and op.attr("memory_ordering_semantics") == "weak"
    )


def is_joined(op: Op, dim: int) -> bool:
    """Whether an op put two halves together, as an earlier loop's."""
    return op.spec.name == "cat" and op.attr("dim") == dim and op.operands[0].type is op.operands[1].type


def is_made_anew(op: Op) -> bool:
    """Whether both halves of what is made outside of the loop are made anew: index arithmetic, and loads of which nobody needs
    the whole."""
    name = op.spec.name
    return (
        name not in PRODUCTS
        and name != "reduce"
        and (name != "load_view_tko" or len(op.results[0].uses) == 1)
    )


def dim_behind(op: Op, source: Value, dim: int) -> int | None:
    """The dimension of an elementwise op's result along which it has halves where an operand has."""
    name = op.spec.name
    if op.spec.elementwise or name == "broadcast":
        return dim
    if name != "reshape":
        return None
    cut = reshaped_cut(source.type.shape, (dim,), op.result.type.shape)  # type: ignore[attr-defined]
    return cut[0] if cut is not None else None
