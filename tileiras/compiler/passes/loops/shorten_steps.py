"""TileAAShortenSteps: loops over K whose stages are too large for three of them take half of a step, or less, at a time.

Before: `for %k = %lo to %hi { %a = load %va[%i, %k] : 128x64, %b = load %vb[%k, %j] : 64x256, mmaf }`.
After:  `for %k = 2 %lo to 2 %hi { %a = load %va'[%i, %k] : 128x32, %b = load %vb'[%k, %j] : 32x256, mmaf }`.

Where the induction variable, counted by one, numbers the tiles of an operand along K, it numbers the smaller ones then. Tiles of
another number, as those of a list or the one that has all of K, are numbered by that and the part of the step. Operands may come
through tiles of pointers (address_parts.py), by steps of any size, and from several loads, as the sum of two arrays does. What
else the variable is used for, scales of a whole step, gets the step's number by a division. The new variable has 64 bits: no
bound overflows. Additions happen in the same order.
"""

from __future__ import annotations

from math import prod

from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Op, Value
from tileiras.compiler.ir.dense import constant_bytes
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.types import I64, Dense, PartitionView, TensorType, TileType
from tileiras.compiler.ir.walk import erase_unused
from tileiras.compiler.schedule.candidates import computes, constant_int, writes
from tileiras.compiler.target.products import PRODUCTS, SCALED

from .address_parts import Cutter, Place, before, carried_in, cut_with, only_feeds, shorter, without

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class ShortenSteps(Pass):
    NAME = "TileAAShortenSteps"
    SUMMARY = "Take less of K an iteration where three stages of it do not fit shared memory"
    """
    does: splits steps over K where three stages of them do not fit into shared memory, also of tiles of pointers and
      where operands take scales of a whole step, or are made from several loads; block scales are cut with the operands
    without: fewer stages
    acts: large_matmul_64x64x256 on sm_80
    """
    KEEPS_ANALYSES = True
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        from tileiras.compiler.schedule.loops import parts_of_step

        if context.target is None:
            return True
        for loop in [op for op in func.walk() if op.spec.name == "for"]:
            parts = parts_of_step(func, loop, context.analyses)
            if parts > 1:
                chains = operand_chains(loop)
                if chains is not None and (parts := min(parts, *(chain.most for chain in chains))) > 1:
                    shorten(loop, chains, parts)
                    context.analyses.drop()
        return True


class Chain:
    """One operand of a product, or its scales: ops whose results get shorter with the dimension of K in each, those that read
    memory with the place of the tile's number among their operands, or through pointers, and constants and scalars of a
    whole tile, which are made anew."""

    def __init__(self) -> None:
        self.ops: list[tuple[Op, int]] = []
        self.loads: list[tuple[Op, int]] = []
        self.pointers: list[tuple[Op, int]] = []
        self.constants: list[tuple[Op, int, int]] = []  # user, operand, dimension of K
        self.most = 1 << 30  # parts that a step may be cut into: what several elements are made of is not cut


def operand_chains(loop: Op) -> list[Chain] | None:
    """Both operands of the one product of a loop, and their scales; None where the loop is not of that kind."""
    from tileiras.compiler.schedule.products import adds_up

    body = loop.regions[0].block
    products = [op for op in body.ops if op.spec.name in PRODUCTS]
    step = constant_int(loop.operands[2])
    if len(products) != 1 or step is None or adds_up(products[0]) is not loop:
        return None
    product = products[0]
    out = []
    for which in (0, 1) if product.spec.name != SCALED else (0, 1, 3, 4):
        chain = Chain()
        value = product.operands[which]
        dim = len(value.type.shape) - (1 if which in (0, 3) else 2)  # type: ignore[attr-defined]
        if not follow(value, dim, body, chain) or not chain.loads + chain.pointers:
            return None
        out.append(chain)
    if step != 1 and any(chain.loads for chain in out):
        return None
    places = cut_with(addresses(out), loop)
    if places is None:
        return None
    pointers = carried_in(places, loop)
    loads = {op for chain in out for op, _ in chain.pointers}
    if not all(only_feeds(p, loads, places) for p in pointers):
        return None
    # what else is done in a step is done several times: it must not add up
    carried = [arg for arg in body.args[1:] if isinstance(arg.type, TensorType) and arg not in pointers]
    if len(carried) != 1 or any(op.regions or writes(op) for op in body.ops):
        return None
    return out


def addresses(chains: list[Chain]) -> list[Place]:
    """What the loads through pointers read of each element of their tiles: pointers, masks and paddings."""
    found = []
    for op, dim in (load for chain in chains for load in chain.pointers):
        tiles = [op.operand(name) for name in ("source", "mask", "paddingValue")]
        found += [(tile, dim) for tile in tiles if tile is not None]
    return found


def follow(value: Value, dim: int, body: Any, chain: Chain) -> bool:
    """Adds to a chain what a value is made of, back to its load. `dim`: the dimension of K."""
    operand, last = value, value.op
    work = [(value, dim)]
    seen: dict[Op, int] = {}
    while work:
        value, dim = work.pop()
        op: Any = value.op
        if op is None or op.block is not body:
            return False
        if op in seen:  # both halves of a byte come from one load
            if seen[op] != dim:
                return False
            continue
        seen[op] = dim
        chain.ops.append((op, dim))
        if op.spec.name == "load_view_tko":
            if not _follow_load(op, dim, body.args[0], chain):
                return False
        elif op.spec.name == "load_ptr_tko":
            chain.pointers.append((op, dim))
        elif op.spec.name == "broadcast":
            source, result = (v.type.shape[dim] for v in (op.operands[0], op.result))
            if source > 1:  # what neighbours are unpacked from
                work.append((op.operands[0], dim))
            elif result == 1:
                return False  # else one scale for all of the step
        else:
            makers = _follow_op(op, dim, chain)
            if makers is None:
                return False
            work += makers
    users = [user for op in seen if op is not last for user, _ in op.results[0].uses]
    return len(operand.uses) == 1 and all(user in seen for user in users)


def _follow_load(op: Op, dim: int, induction: Value, chain: Chain) -> bool:
    view: Any = op.operand("view")
    if (
        view.op is None
        or view.op.spec.name != "make_partition_view"
        or not isinstance(view.type, PartitionView)
    ):
        return False
    indices = op.group("index")
    if indices[dim] is induction and induction in indices[:dim] + indices[dim + 1 :]:
        return False
    chain.loads.append((op, 1 + dim))  # behind the view
    return True


def _follow_op(op: Op, dim: int, chain: Chain) -> list[tuple[Value, int]] | None:
    """The operands that get shorter with an op, and the dimension of K in each; None where it is not elementwise."""
    from tileiras.compiler.schedule.staging import is_elementwise

    found = before(op, dim)
    if found is not None:
        return [found]
    if op.spec.name == "cat" and op.attr("dim") != dim:
        return [(operand, dim) for operand in op.operands]
    if op.spec.name == "reshape":
        return apart(op, dim, chain)
    if not is_elementwise(op):
        return None
    out = []
    for k, operand in enumerate(op.operands):
        if operand.op is not None and (operand.op.spec.name == "constant" or one_number(operand, op, dim)):
            chain.constants.append((op, k, dim))
        else:
            out.append((operand, dim))
    return out


def one_number(value: Value, user: Op, dim: int) -> bool:
    """Whether a tile has one scalar, or one row of them, everywhere along a dimension, and is made outside of the loop of its
    user."""
    maker = value.op
    return (
        maker is not None
        and maker.spec.name == "broadcast"
        and maker.block is not user.block
        and maker.operands[0].type.shape[dim] == 1  # type: ignore[attr-defined]
    )


def apart(op: Op, dim: int, chain: Chain) -> list[tuple[Value, int]] | None:
    """The operand of a reshape that leaves the dimension of K as it is, as where bytes become rows of two, or makes it of
    several, as where both halves of a byte are neighbours: then the outermost of them is cut. None where it does neither."""
    source, result = op.operands[0].type.shape, op.result.type.shape  # type: ignore[attr-defined]
    for d, extent in enumerate(source):
        if extent > 1 and prod(source[:d]) == prod(result[:dim]):
            if any(prod(source[d:e]) == result[dim] for e in range(d + 1, len(source) + 1)):
                chain.most = min(chain.most, extent)
                return [(op.operands[0], d)]
            return None
    return None


def shorten(loop: Op, chains: list[Chain], parts: int) -> None:
    walking = {p.index for p in carried_in(cut_with(addresses(chains), loop) or set(), loop)}
    body = loop.regions[0].block
    block = loop.block
    assert block is not None
    number = body.args[0]
    kept: Any = number.type

    def put(anchor: Op, name: str, operands: Any, type: Any, attrs: dict[str, Any]) -> Value:
        assert anchor.block is not None
        made = create(tileaa.BY_NAME[name], operands, (type,), attrs, (), loop.loc)
        return anchor.block.insert_before(anchor, made).result

    scalar = TensorType(I64, (), None)

    def number_of(anchor: Op, value: int) -> Value:
        data = value.to_bytes(constant_bytes(I64), "little")
        return put(anchor, "constant", (), scalar, {"value": Dense(TileType(I64, ()), data)})

    factor = number_of(loop, parts)
    signedness = "unsigned" if loop.attr("unsignedCmp") else "signed"
    low, high = (
        put(loop, "exti", (v,), scalar, {"signedness": signedness}) if v.type.elem.bits < 64 else v  # type: ignore[attr-defined]
        for v in loop.operands[:2]
    )
    stride = constant_int(loop.operands[2])
    assert stride is not None
    first = low
    if stride != 1:  # counted from zero then
        length = put(loop, "subi", (high, low), scalar, {"overflow": "none"})
        length = put(loop, "addi", (length, number_of(loop, stride - 1)), scalar, {"overflow": "none"})
        rounding = {"signedness": "signed", "rounding": "negative_inf"}
        low, high = number_of(loop, 0), put(loop, "divi", (length, number_of(loop, stride)), scalar, rounding)
        # bounds without a sign, the upper one in front: their difference is below zero, and there is no step
        loop.attrs = {name: value for name, value in loop.attrs.items() if name != "unsignedCmp"}
    for i, bound in enumerate((low, high)):
        loop.set_operand(i, put(loop, "muli", (bound, factor), scalar, {"overflow": "none"}))
    loop.set_operand(2, number_of(loop, 1))
    number.type = scalar
    loads = [load for chain in chains for load in chain.loads]
    tiles = [(op, index) for op, index in loads if op.operands[index] is number]
    others = [use for use in number.uses if use not in tiles]
    pointers = sorted(
        (load for chain in chains for load in chain.pointers), key=lambda p: body.ops.index(p[0])
    )
    begin = body.ops[0]
    if others or pointers:  # the number of the whole step, for what is the same in all of it
        rounding = {"signedness": signedness, "rounding": "negative_inf"}
        step = whole = put(begin, "divi", (number, factor), scalar, rounding)
        if stride != 1:
            whole = put(begin, "muli", (whole, number_of(begin, stride)), scalar, {"overflow": "none"})
            whole = put(begin, "addi", (whole, first), scalar, {"overflow": "none"})
        if kept.elem.bits < 64:
            whole = put(begin, "trunci", (whole,), kept, {"overflow": "none"})
        for user, index in others:
            user.set_operand(index, whole)
    if pointers or len(tiles) < len(loads):
        part = put(begin, "andi", (number, number_of(begin, parts - 1)), scalar, {})
    for op, index in loads:
        if (op, index) not in tiles:
            place = op.operands[index]
            if place.type.elem.bits < 64:  # type: ignore[attr-defined]
                place = put(op, "exti", (place,), scalar, {"signedness": "unsigned"})  # as loads read it
            place = put(op, "muli", (place, factor), scalar, {"overflow": "none"})
            op.set_operand(index, put(op, "addi", (place, part), scalar, {"overflow": "none"}))
    if pointers:
        step = put(begin, "subi", (step, low), scalar, {"overflow": "none"})
        cutter = Cutter(loop, parts, part, step)
        for load, dim in pointers:
            for name in ("source", "mask", "paddingValue"):
                tile = load.operand(name)
                if tile is not None:
                    load.set_operand(load.operands.index(tile), cutter.cut((tile, dim), load))
                    erase_unused(tile.op, computes)
    for chain in chains:
        for user, index, dim in chain.constants:
            value = user.operands[index]
            type, maker = shorter(value.type, dim, parts), value.op
            assert maker is not None
            if maker.spec.name == "constant":
                attrs = {"value": Dense(TileType(type.elem, type.shape), maker.attr("value").data)}
                user.set_operand(index, put(user, "constant", (), type, attrs))
            else:
                user.set_operand(index, put(user, "broadcast", maker.operands, type, {}))
        for op, dim in chain.ops:
            op.results[0].type = shorter(op.results[0].type, dim, parts)
            if op.spec.name == "load_view_tko":
                old: Any = op.operand("view")
                view: Any = old.type
                small = PartitionView(op.results[0].type.shape, view.view, view.dim_map, view.padding)
                maker = create(old.op.spec, old.op.operands, (small,), dict(old.op.attrs), (), old.op.loc)
                body.insert_before(op, maker)
                op.set_operand(op.operands.index(old), maker.result)
    if walking:
        without(loop, walking)
