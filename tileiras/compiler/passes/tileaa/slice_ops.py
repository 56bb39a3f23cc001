"""What one op becomes when it works on a slice of its tiles: the twins that loops over slices (slice_loop.py) and tile
blocks of several CTAs (split_block.py) are made of.

A cut says how tiles are divided (slices.py), a plan which slices of its operands an op needs (slice_plan.py), and the slice's
number is a value of the new code.
"""

from __future__ import annotations

from math import gcd

from tileiras.compiler.dialects.nv_tileaa.ops import BY_NAME
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Block, Op, Region, Value
from tileiras.compiler.ir.dense import constant_bytes, dense_bits
from tileiras.compiler.ir.types import (
    I1,
    I32,
    I64,
    Dense,
    GatherScatterView,
    PartitionView,
    StridedView,
    TensorType,
    TileType,
)

from .slice_plan import number_of
from .slices import positions_of, sliced

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from .slice_plan import Plan
    from .slices import Cut


def splat_constant(elem: Any, shape: tuple[int, ...], bits: int) -> Dense:
    data = b"\xff" if elem.name == "i1" and bits else bits.to_bytes(constant_bytes(elem), "little")
    return Dense(TileType(elem, shape), data)


def is_splat(op: Op | None) -> bool:
    return op is not None and op.spec.name == "constant" and len(set(dense_bits(op.attr("value")))) == 1


class Body:
    """A block under construction: scalars and slices."""

    def __init__(self) -> None:
        self.block = Block()
        self.may_unroll = False  # by ptxas, which would need registers for every copy of the body

    def op(self, name: str, operands: list[Value], type: Any, segments: Any = None, **attrs: Any) -> Value:
        return self.block.append(create(BY_NAME[name], operands, [type], attrs, segments=segments)).result

    def number(self, value: int) -> Value:
        return self.op("constant", [], TensorType(I32, ()), value=splat_constant(I32, (), value))

    def bits(self, index: Value, s: int, places: Sequence[int]) -> Value:
        """The number made of some bits of an s-bit number; place 0 is its top bit."""
        if len(places) == s:
            return index
        out: Value | None = None
        left = len(places)
        at = 0
        while at < left:
            end = at
            while end + 1 < left and places[end + 1] == places[end] + 1:
                end += 1
            count, shift = end - at + 1, s - 1 - places[end]
            part = index
            if shift:
                part = self.op("shri", [part, self.number(shift)], index.type, signedness="unsigned")
            if places[at]:
                part = self.op("andi", [part, self.number((1 << count) - 1)], index.type)
            if left - 1 - end:
                part = self.op("shli", [part, self.number(left - 1 - end)], index.type)
            out = part if out is None else self.op("ori", [out, part], index.type)
            at = end + 1
        return out if out is not None else self.number(0)

    def dim_blocks(self, index: Value, cut: Cut, rank: int) -> list[Value]:
        """Per dimension the number of the block that a slice is."""
        return [self.bits(index, len(cut), positions_of(cut, (d,))) for d in range(rank)]

    def extract(self, whole: Value, index: Value, cut: Cut) -> Value:
        """A slice of a tile by its number."""
        if not cut:
            return whole
        type: Any = whole.type
        indices = self.dim_blocks(index, cut, len(type.shape))
        small = TensorType(type.elem, sliced(type.shape, cut))
        return self.op("extract", [whole, *indices], small, segments=(1, len(indices)))

    def insert(self, part: Value, whole: Value, indices: list[Value]) -> Value:
        return self.op("insert", [part, whole, *indices], whole.type, segments=(1, 1, len(indices)))

    def choose(self, condition: Value, yes: Value, no: Value) -> Value:
        """`yes` where a scalar condition holds, else `no`."""
        shape = yes.type.shape  # type: ignore[attr-defined]
        if shape:
            condition = self.op("reshape", [condition], TensorType(I1, (1,) * len(shape)))
            condition = self.op("broadcast", [condition], TensorType(I1, shape))
        return self.op("select", [condition, yes, no], yes.type)

    def loop(
        self, outer: Block, s: int, inits: list[Value], yields: list[Value], loc: Any = None
    ) -> list[Value]:
        """Append `for` over 2^s slices with this body; its first argument is the slice number."""
        scalar = TensorType(I32, ())

        def constant(value: int) -> Value:
            op = create(BY_NAME["constant"], [], [scalar], {"value": splat_constant(I32, (), value)})
            return outer.append(op).result

        bounds = [constant(0), constant(1 << s), constant(1)]
        self.block.append(create(BY_NAME["continue"], yields, [], {}, segments=(len(yields),)))
        attrs = {} if self.may_unroll else {"nv_tileaa.nounroll": True}
        loop = create(BY_NAME["for"], [*bounds, *inits], [v.type for v in inits], attrs, [Region([self.block])], loc,
                  (1, 1, 1, len(inits)))  # fmt: skip
        return list(outer.append(loop).results)


class Slicer(Body):
    """Makes the twins of ops. Who derives from it says where slices of operands come from, and keeps the results.

    `index`: the number of the current slice, of `s` bits.
    """

    s: int
    index: Value

    def use(self, value: Value) -> Value:
        """The whole value in the new code."""
        raise NotImplementedError

    def operand(self, plan: Plan, i: int) -> Value:
        """What an op's twin gets as operand `i`."""
        raise NotImplementedError

    def keep(self, plan: Plan, i: int, value: Value) -> None:
        """Takes result `i` of an op's twin."""
        raise NotImplementedError

    def number_at(self, places: tuple[int, ...]) -> Value:
        """Some bits of the current slice number."""
        return self.bits(self.index, self.s, places)

    def index_type(self, op: Op, cut: Cut) -> Any:
        """The type that the indices of an access have when they count slices."""
        return I64

    def twin(self, plan: Plan) -> None:
        """The op on slices."""
        special: dict[str, Callable[[Plan], None]] = {
            "iota": self.iota, "broadcast": self.broadcast, "cat": self.cat, "load_view_tko": self.view,
            "store_view_tko": self.view, "atomic_red_view_tko": self.view, "assume": self.skip,
        }  # fmt: skip
        special.get(plan.op.spec.name, self.plain)(plan)

    def result_type(self, plan: Plan, i: int) -> Any:
        """The type of a result of the twin."""
        type: Any = plan.op.results[i].type
        cut = plan.results[i]
        return TensorType(type.elem, sliced(type.shape, cut)) if cut is not None else type

    def results(self, plan: Plan, new: Op) -> None:
        for i, result in enumerate(new.results):
            self.keep(plan, i, result)

    def skip(self, plan: Plan) -> None:
        self.keep(plan, 0, self.operand(plan, 0))

    def plain(self, plan: Plan) -> None:
        """The same op on slices (elementwise, pointer accesses, permute, reshape, products, tokens)."""
        op = plan.op
        operands = [self.operand(plan, i) for i in range(len(op.operands))]
        types = [self.result_type(plan, i) for i in range(len(op.results))]
        self.results(
            plan, self.block.append(create(op.spec, operands, types, op.attrs, [], op.loc, op.segments))
        )

    def iota(self, plan: Plan) -> None:
        self.keep(plan, 0, self.count(self.result_type(plan, 0), self.index))

    def count(self, type: Any, start: Value) -> Value:
        """The numbers of the slice of an iota that has a number itself."""
        elem = type.elem
        base = self.op("iota", [], type)
        if elem is not I32:
            kind = "exti" if elem.bits > 32 else "trunci"
            attrs = {"signedness": "unsigned"} if kind == "exti" else {}
            start = self.op(kind, [start], TensorType(elem, ()), **attrs)
        length = splat_constant(elem, (), type.shape[0] & ((1 << elem.bits) - 1))
        start = self.op(
            "muli", [start, self.op("constant", [], TensorType(elem, ()), value=length)], TensorType(elem, ())
        )
        start = self.op("reshape", [start], TensorType(elem, (1,)))
        start = self.op("broadcast", [start], type)
        return self.op("addi", [base, start], type)

    def broadcast(self, plan: Plan) -> None:
        type = self.result_type(plan, 0)
        self.keep(plan, 0, self.op("broadcast", [self.operand(plan, 0)], type))

    def cat(self, plan: Plan) -> None:
        op = plan.op
        if len(plan.wants[0][1]) == self.s:  # the joined dimension is not cut
            return self.plain(plan)
        chooser = plan.cut.index(op.attr("dim"))
        bit = self.number_at((chooser,))
        low = self.op("cmpi", [bit, self.number(0)], TensorType(I1, ()), comparison_predicate="equal",
                      signedness="unsigned")  # fmt: skip
        self.keep(plan, 0, self.choose(low, self.operand(plan, 0), self.operand(plan, 1)))

    def view(self, plan: Plan) -> None:
        """A load, store or reduction of a view: a view of smaller tiles, the index scaled."""
        op, cut = plan.op, plan.cut
        view = op.operand("view")
        assert view is not None and view.op is not None
        type: Any = view.type
        small, scales, steps = _smaller_view(type, cut)
        base = self.use(view.op.operands[0])
        made = self.block.append(create(view.op.spec, [base], [small], {}, loc=op.loc)).result
        elem = self.index_type(op, cut)
        wide = TensorType(elem, ())

        def long(value: Value) -> Value:
            same = value.type.elem is elem  # type: ignore[attr-defined]
            return value if same else self.op("exti", [value], wide, signedness="unsigned")

        def number(value: int) -> Value:
            return self.op("constant", [], wide, value=splat_constant(elem, (), value))

        first = number_of(op, "index")
        operands = []
        for i, v in enumerate(op.operands):
            d = i - first
            if v is view:
                operands.append(made)
            elif not 0 <= d < len(type.tile) or v.type.shape:  # type: ignore[attr-defined]
                operands.append(self.operand(plan, i))
            else:
                value = long(self.use(v))
                if d in cut:
                    if (
                        elem is I32
                    ):  # a number that would wrap is that of a tile outside, as is the last one that does not
                        last = number((1 << 32) // scales[d] - 1)
                        value = self.op("mini", [value, last], wide, signedness="unsigned")
                    step = long(self.number_at(positions_of(cut, (d,))))
                    if steps[d] != 1:
                        step = self.op("muli", [step, number(steps[d])], wide)
                    if scales[d] != 1:
                        value = self.op("muli", [value, number(scales[d])], wide)
                    value = self.op("addi", [value, step], wide)
                operands.append(value)
        types = [self.result_type(plan, i) for i in range(len(op.results))]
        self.results(
            plan, self.block.append(create(op.spec, operands, types, op.attrs, [], op.loc, op.segments))
        )

    def clone(self, op: Op, operands: list[Value], types: list[Any]) -> list[Value]:
        """The op with its body on other operands."""
        region = copy_region(op.regions[0], self.use)
        new = self.block.append(create(op.spec, operands, types, op.attrs, [region], op.loc, op.segments))
        return list(new.results)

    def inline(self, op: Op, earlier: list[Value], later: list[Value], shape: tuple[int, ...]) -> list[Value]:
        """The body of a reduce or scan on whole tiles instead of scalars."""
        body = op.regions[0].block
        env: dict[Value, Value] = {}
        for i, (x, y) in enumerate(zip(earlier, later)):
            env[body.args[2 * i]], env[body.args[2 * i + 1]] = x, y
        for inner in body.ops[:-1]:
            types = [TensorType(r.type.elem, shape) for r in inner.results]  # type: ignore[attr-defined]
            attrs = inner.attrs
            if inner.spec.name == "constant":
                bits = dense_bits(inner.attr("value"))[0]
                attrs = {"value": splat_constant(inner.result.type.elem, shape, bits)}  # type: ignore[attr-defined]
            operands = []
            for v in inner.operands:
                if v in env:
                    operands.append(env[v])
                else:  # an outer scalar
                    spread = self.use(v)
                    elem = v.type.elem  # type: ignore[attr-defined]
                    if shape:
                        spread = self.op("reshape", [spread], TensorType(elem, (1,) * len(shape)))
                        spread = self.op("broadcast", [spread], TensorType(elem, shape))
                    operands.append(spread)
            new = self.block.append(create(inner.spec, operands, types, attrs, [], inner.loc, inner.segments))
            for old, result in zip(inner.results, new.results):
                env[old] = result
        return [env[v] for v in body.ops[-1].operands]


def _smaller_view(type: Any, cut: Cut) -> tuple[Any, list[int], list[int]]:
    """The view of slices of a view's tiles; per dimension, what an old index and a block count for in its indices.

    Those of a gather or scatter count elements, all others tiles.
    """
    tile = sliced(type.tile, cut)
    rank = len(tile)
    scales, steps = [1 << cut.count(d) for d in range(rank)], [1] * rank
    if isinstance(type, GatherScatterView):
        return GatherScatterView(tile, type.view, type.sparse_dim, type.padding), steps, list(tile)
    if isinstance(type, PartitionView):
        return PartitionView(tile, type.view, type.dim_map, type.padding), scales, steps
    traversal = tuple(gcd(t, e) if d in cut else t for d, (t, e) in enumerate(zip(type.traversal, tile)))
    scales = [old // new for old, new in zip(type.traversal, traversal)]
    steps = [e // t if d in cut else 1 for d, (e, t) in enumerate(zip(tile, traversal))]
    return StridedView(tile, traversal, type.view, type.dim_map, type.padding), scales, steps


def copy_region(region: Region, use: Callable[[Value], Value], swapped: bool = False) -> Region:
    """A body of scalars copied op by op; `swapped`: what comes earlier and what comes later trade places."""
    out = Region()
    env: dict[Value, Value] = {}
    for block in region.blocks:
        new = Block()
        args = [new.add_arg(arg.type, arg.name) for arg in block.args]
        for i, arg in enumerate(block.args):
            env[arg] = args[i ^ 1 if swapped else i]
        for op in block.ops:
            copy = create(op.spec, [env.get(v) or use(v) for v in op.operands], [r.type for r in op.results], op.attrs, [],
                      op.loc, op.segments)  # fmt: skip
            for old, result in zip(op.results, copy.results):
                env[old] = result
            new.append(copy)
        out.append(new)
    return out
