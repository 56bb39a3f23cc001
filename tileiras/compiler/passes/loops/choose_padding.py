"""TileAAChoosePadding: what is added to a loop's products behind the end of a tensor is chosen, not loaded, where it is no zero.

Before: `%v = make_partition_view %t : .. padding_value = neg_inf`, and in the loop `%b = load_view_tko %v[%i, %j] : 128x64xf16`,
        `%x = ftof %b : 128x64xf32`.
After:  `%v = make_partition_view %t : .. padding_value = zero`, in front of the loop the rows that are left of the tensor, and in
        it `%b = load_view_tko %v[%i, %j]`, `%x = ftof %b`, `%m = andi (%row < %rows), (64 * %j + %column < %extent)`,
        `%y = select %m, %x, -inf`.

An asynchronous copy leaves zeros where there is nothing to copy. A bias of scores that ends with minus infinity would wait in
registers else, for all of its latency in each step. Steps that lie within the tensor have neither comparison nor choice later on
(`passes/tileas/unmasked_steps.py`), which is why only loops that it divides are looked at: they count by one from a number that
is not negative, and name tiles by their counter. A load that is not copied after all gets its padding back
(`passes/tileas/padding.py`).
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import diags as D
from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Op, Value
from tileiras.compiler.ir.dense import constant_bytes, num_elements
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.types import I1, I32, I64, Dense, PartitionView, TensorType, TileType
from tileiras.compiler.ir.views import view_dims
from tileiras.compiler.passes.tileaa.facts import Facts, facts_of
from tileiras.compiler.schedule.candidates import can_run_ahead, constant_int, is_outside
from tileiras.compiler.schedule.restage import from_product
from tileiras.compiler.schedule.staging import PADDING, feeding_loads, staged
from tileiras.compiler.target import sm
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.products import PRODUCTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BITS = {
    "f16": {"neg_zero": 0x8000, "nan": 0x7E00, "pos_inf": 0x7C00, "neg_inf": 0xFC00},
    "bf16": {"neg_zero": 0x8000, "nan": 0x7FC0, "pos_inf": 0x7F80, "neg_inf": 0xFF80},
    "f32": {"neg_zero": 1 << 31, "nan": 0x7FC00000, "pos_inf": 0x7F800000, "neg_inf": 0xFF800000},
}  # fmt: skip
WORDS = {"neg_zero": "minus zero", "nan": "NaN", "pos_inf": "infinity", "neg_inf": "minus infinity"}
LAST = (1 << 31) - 1
SIGNED = {"signedness": "signed"}
UNSIGNED = {"signedness": "unsigned"}


class ChoosePadding(Pass):
    NAME = "TileAAChoosePadding"
    SUMMARY = "Choose what pads operands of loops where it is no zero, which copies leave"
    """
    does: loads of loops with products whose padding is no zero, as a bias of minus infinity has, are padded with zeros, and
      what lies behind the end of the tensor is chosen
    without: they wait in registers, and do not run ahead
    acts: staged_ending_bias on sm_90
    """
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        target = context.target
        if target is None or not target.has(sm.CP_ASYNC):
            return True
        facts, cost = context.analyses.get(facts_of, func), CostModel(target)
        changed = False
        for loop in [op for op in func.walk() if op.spec.name == "for" and counts_steps(op)]:
            body = loop.regions[0].block
            found: dict[Op, None] = {}
            for product in [op for op in body.ops if op.spec.name in PRODUCTS]:
                for operand, group in zip(product.operands[:2], feeding_loads(product, body)):
                    if from_product(operand, body):  # others are read from where they were copied to
                        found.update((op, None) for op in group)
            for load in found:
                ends = ends_of(load, loop, facts)
                if ends is not None and can_run_ahead(load, loop) and choose(load, ends, loop, facts, cost):
                    context.remark(D.CHOOSES_PADDING, load, padding=WORDS[load.attrs[PADDING]])
                    changed = True
        if changed:
            context.analyses.drop()
        return True


def counts_steps(loop: Op) -> bool:
    """Whether a loop counts by one in 32 bits, from a number that is known not to be negative."""
    first = constant_int(loop.operands[0])
    index: Any = loop.operands[0].type
    if index.elem != I32 or loop.attr("unsignedCmp") or constant_int(loop.operands[2]) != 1:
        return False
    return first is not None and first >= 0


class Ends:
    """Of the dimensions of a tile: those that end where a tensor does in some step, by extent and length, and those that do so
    in all steps alike, by extent, index and length."""

    __slots__ = ("alike", "along")

    def __init__(self) -> None:
        self.along: list[tuple[int, Value | int]] = []
        self.alike: list[tuple[int, Value | int, Value]] = []


def ends_of(load: Op, loop: Op, facts: Facts) -> Ends | None:
    """Where the tile of a load ends with its tensor; None where it is padded with zeros, or that is not known in front of the
    loop."""
    if load.spec.name != "load_view_tko":
        return None
    value = load.operand("view")
    view: Any = value.type if value is not None else None
    if not isinstance(view, PartitionView) or view.padding in (None, "zero"):
        return None
    if view.padding not in BITS.get(view.view.elem.name, ()):
        return None
    assert value is not None
    made = facts.tensor_view_op(value)
    given = list(made.group("dynamicShape"))
    extents: list[Value | int] = [given.pop(0) if e is None else e for e in view.view.shape]
    inside = load.attrs.get("inbounds") or ()
    ends = Ends()
    for d, (m, index) in enumerate(zip(view_dims(view), load.group("index"))):
        if inside[d : d + 1] and inside[d]:
            continue
        extent = extents[m]
        bits = index.type.elem.bits  # type: ignore[attr-defined]
        if bits > I32.bits or not isinstance(extent, int) and extent.type.elem.bits > I32.bits:  # type: ignore[attr-defined]
            return None
        if isinstance(extent, int) and extent > LAST:
            return None
        if index is loop.regions[0].block.args[0]:
            if view.tile[d] == 1:
                return None
            ends.along.append((d, extent))
        elif is_outside(index, loop):
            ends.alike.append((d, extent, index))
        else:
            return None
    return ends if ends.along else None


def choose(load: Op, ends: Ends, loop: Op, facts: Facts, cost: CostModel) -> bool:
    """Pads the tile of a load with zeros, and chooses among it and what padded it; False, and nothing done, where it would not
    run ahead all the same."""
    at = list(load.operands).index(load.operand("view"))  # type: ignore[arg-type]
    value: Any = load.operands[at]
    view: Any = value.type
    put = Before(loop)
    zeros = put(
        "make_partition_view",
        (value.op.operands[0],),
        PartitionView(view.tile, view.view, view.dim_map, "zero"),
    )
    load.set_operand(at, zeros)
    load.attrs = {**load.attrs, PADDING: view.padding}
    if staged(load, facts, cost, 0) is None:
        load.set_operand(at, value)
        load.attrs = {name: v for name, v in load.attrs.items() if name != PADDING}
        assert zeros.op is not None
        zeros.op.erase()
        return False
    end = load.results[0]
    while len(end.uses) == 1 and end.uses[0][0].spec.name in ("reshape", "ftof"):
        user = end.uses[0][0]
        if extents(user.result.type) != extents(end.type) or user.result.type.elem.name not in BITS:  # type: ignore[attr-defined]
            break
        end = user.result
    mask = mask_of(end, view.tile, ends, put, load)
    type: Any = end.type
    bits = BITS[type.elem.name][view.padding]
    after = load.block.ops[load.block.ops.index(end.op) + 1]  # type: ignore[union-attr, arg-type]
    inside = Before(after)
    users = list(end.uses)
    pads = inside.constant(type.elem, type.shape, bits)
    chosen = inside("select", (mask(inside), end, pads), type, {PADDING: view.padding})
    for user, index in users:
        user.set_operand(index, chosen)
    return True


def extents(type: Any) -> list[int]:
    """The extents of a tile, those of 1 left out."""
    return [e for e in type.shape if e > 1]


def mask_of(end: Value, tile: tuple[int, ...], ends: Ends, front: Before, load: Op) -> Any:
    """What makes the mask of the elements of a tile that lie within their tensor. `end`: the tile in the shape that is masked."""
    type: Any = end.type
    shape = type.shape
    places = [d for d, e in enumerate(shape) if e > 1]
    place = dict(zip([d for d, e in enumerate(tile) if e > 1], places))
    lefts: list[tuple[int | None, Value]] = []  # how much of a tile there is along a dimension
    for d, extent, index in ends.alike:
        size = tile[d]
        whole = front.wide(front.number(extent, I32) if isinstance(extent, int) else extent)
        start = front("muli", (front.wide(index), front.number(size, I64)), whole.type, {"overflow": "none"})
        left = front("subi", (whole, start), whole.type, {"overflow": "none"})
        left = front("maxi", (left, front.number(0, I64)), left.type, SIGNED)
        left = front("mini", (left, front.number(size, I64)), left.type, SIGNED)
        lefts.append((place.get(d), front("trunci", (left,), scalar(I32), {"overflow": "none"})))
    columns = []
    for d, extent in ends.along:
        given = front.number(extent, I32) if isinstance(extent, int) else extent
        whole = front("mini", (front.wide(given), front.number(LAST, I64)), scalar(I64), SIGNED)
        columns.append((d, front("trunci", (whole,), scalar(I32), {"overflow": "none"})))
    d, whole = columns[0]
    for where, left in lefts:
        if where is None:  # none of the tile is there, or all of it
            whole = front("muli", (whole, left), whole.type, {"overflow": "none"})
    columns[0] = d, whole
    counter = load.parent.regions[0].block.args[0]  # type: ignore[union-attr]

    def make(put: Before) -> Value:
        parts = []
        for where, left in lefts:
            if where is not None:
                parts.append(put.below(put.iota(shape, where), left, shape))
        for d, whole in columns:
            last = put.number(LAST // tile[d] - 1, I32)
            attrs = {"comparison_predicate": "less_than_or_equal", **SIGNED}
            parts.append(put.spread(put("cmpi", (counter, last), scalar(I1), attrs), shape))
            first = put("muli", (counter, put.number(tile[d], I32)), scalar(I32), {"overflow": "none"})
            numbers = put.iota(shape, place[d])
            flat: Any = numbers.type
            numbers = put("addi", (put.spread(first, flat.shape), numbers), flat, {"overflow": "none"})
            parts.append(put.below(numbers, whole, shape))
        found = parts[0]
        for part in parts[1:]:
            found = put("andi", (found, part), found.type)
        return found

    return make


def scalar(elem: Any) -> Any:
    return TensorType(elem, (), None)


class Before:
    """Makes ops in front of another."""

    def __init__(self, anchor: Op) -> None:
        self.anchor = anchor

    def __call__(self, name: str, operands: Any, type: Any, attrs: dict[str, Any] | None = None) -> Value:
        made = create(tileaa.BY_NAME[name], operands, (type,), attrs or {}, (), self.anchor.loc)
        return self.anchor.block.insert_before(self.anchor, made).result  # type: ignore[union-attr]

    def constant(self, elem: Any, shape: tuple[int, ...], bits: int) -> Value:
        """A tile of one number."""
        data = bits.to_bytes(constant_bytes(elem), "little")
        return self(
            "constant", (), TensorType(elem, shape, None), {"value": Dense(TileType(elem, shape), data)}
        )

    def number(self, value: int, elem: Any) -> Value:
        return self.constant(elem, (), value % (1 << elem.bits))

    def wide(self, value: Value) -> Value:
        """An index or an extent in 64 bits: they are unsigned."""
        return self("exti", (value,), scalar(I64), UNSIGNED)

    def iota(self, shape: tuple[int, ...], dim: int) -> Value:
        """The number of each element along a dimension, the others of one element."""
        flat = self("iota", (), TensorType(I32, (shape[dim],), None))
        ones = tuple(e if d == dim else 1 for d, e in enumerate(shape))
        return self("reshape", (flat,), TensorType(I32, ones, None)) if len(shape) > 1 else flat

    def spread(self, value: Value, shape: tuple[int, ...]) -> Value:
        """A scalar for all elements of a tile."""
        type: Any = value.type
        one = self("reshape", (value,), TensorType(type.elem, (1,) * len(shape), None))
        return (
            self("broadcast", (one,), TensorType(type.elem, shape, None)) if num_elements(shape) > 1 else one
        )

    def below(self, numbers: Value, limit: Value, shape: tuple[int, ...]) -> Value:
        """Where numbers lie below a limit, for each element of a tile."""
        type: Any = numbers.type
        if type.shape != shape:
            numbers = self("broadcast", (numbers,), TensorType(I32, shape, None))
        attrs = {"comparison_predicate": "less_than", **SIGNED}
        return self("cmpi", (numbers, self.spread(limit, shape)), TensorType(I1, shape, None), attrs)
