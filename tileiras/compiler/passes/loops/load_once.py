"""TileAALoadOnce: what a step loads twice for its products, also turned, it loads once.

Before: `%k = load %columns[0, %j] : 512x32` (dim_map = [1, 0]), `%s = mmaf %q, %k, ..`, `%v = load %rows[%j, 0] : 32x512`,
        `%o = mmaf %p, %v, ..`.
After:  `%v = load %rows[%j, 0] : 32x512`, `%k = permute %v`.

A latent is keys and values. Copied once it takes half of the shared memory, which is read in either order. It has to be the same
tile by its view, its place and its token: nothing that is ordered between both loads may have changed it.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import diags as D
from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Op, Value
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.types import TOKEN, PartitionView, TensorType
from tileiras.compiler.schedule.candidates import constant_int, writes
from tileiras.compiler.schedule.kernel_spec import entry_hint
from tileiras.compiler.target.products import PRODUCTS

from .load_where_used import matches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

RENAMES = frozenset(("reshape", "permute"))


class LoadOnce(Pass):
    NAME = "TileAALoadOnce"
    SUMMARY = "Load once what a step's products read twice"
    """
    does: a tile that a step loads twice for its products, also turned, as a latent that is keys and values, is loaded once
    without: it is copied twice
    acts: staged_latent_twice_256 on sm_90
    """
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        blocks = dict.fromkeys(op.block for op in func.walk() if op.spec.name in PRODUCTS)
        for block in blocks:
            loads: list[Op] = []
            for op in list(block.ops):  # type: ignore[union-attr]
                if any(writes(inner) for inner in op.walk()):
                    loads = []
                elif is_operand(op):
                    first = next((load for load in loads if is_same(load, op)), None)
                    if first is None:
                        loads.append(op)
                    else:
                        context.remark(D.LOADED_ONCE, op)
                        loads[loads.index(first)] = join(first, op, context.target)
                        context.analyses.drop()
        return True


def is_operand(op: Op) -> bool:
    """Whether an op is a weak load of which only products read, under any shape."""
    if op.spec.name != "load_view_tko" or op.attr("memory_ordering_semantics") != "weak":
        return False
    type: Any = op.operands[0].type
    return isinstance(type, PartitionView) and bool(op.results[0].uses) and feeds(op.results[0])


def feeds(value: Value) -> bool:
    """Whether products multiply a value, under any shape, and nothing else reads it. Chains of renames may be long."""
    work = [value]
    while work:
        for user, at in work.pop().uses:
            if user.spec.name in RENAMES:
                work.append(user.result)
            elif user.spec.name not in PRODUCTS or at > 1:
                return False
    return True


def place(load: Op) -> tuple[dict[int, tuple[int, Value]], list[Value]]:
    """(extent and number of the tile along each dimension of the tensor, tokens that the load waits for)"""
    type: Any = load.operands[0].type
    order = type.dim_map
    numbers = load.operands[1 : 1 + len(order)]
    return {d: (type.tile[n], numbers[n]) for n, d in enumerate(order)}, [
        v for v in load.operands if v.type is TOKEN
    ]


def is_same(a: Op, b: Op) -> bool:
    """Whether two loads bring the same elements."""
    views: list[Any] = [op.operands[0].type for op in (a, b)]
    if views[0].view != views[1].view or views[0].padding != views[1].padding or a.segments is None:
        return False
    (at, before), (bt, then) = place(a), place(b)
    if before != then or at.keys() != bt.keys():
        return False
    makers = [op.operands[0].op for op in (a, b)]
    if any(maker is None or maker.spec.name != "make_partition_view" for maker in makers):
        return False
    pairs = [(makers[0].operands[0], makers[1].operands[0])]  # type: ignore[union-attr]
    for d, (extent, number) in at.items():
        if extent != bt[d][0]:
            return False
        pairs.append((number, bt[d][1]))
    return all(matches(v, w, equal) is not None for v, w in pairs)


def equal(v: Value, w: Value) -> bool:
    number = constant_int(v)
    return number is not None and v.type == w.type and number == constant_int(w)


def join(first: Op, second: Op, target: Any) -> Op:
    """The one load in the place of both, with the order of dimensions that the tensor has, if one of them has it."""
    block = first.block
    assert block is not None
    types: list[Any] = [op.operands[0].type for op in (first, second)]
    plain = next((t for t in types if t.dim_map == tuple(sorted(t.dim_map))), types[0])
    where, _ = place(first)
    maker = first.operands[0].op
    assert maker is not None
    view = block.insert_before(
        first, create(maker.spec, maker.operands, (plain,), dict(maker.attrs), (), first.loc)
    )
    elem: Any = first.results[0].type
    operands = [view.result, *(where[d][1] for d in plain.dim_map), *first.operands[1 + len(plain.dim_map) :]]
    kinds = TensorType(elem.elem, plain.tile), TOKEN
    made = block.insert_before(
        first,
        create(
            first.spec, operands, kinds, attrs_of(first, second, plain, target), (), first.loc, first.segments
        ),
    )
    for load, type in zip((first, second), types):
        value: Value = made.results[0]
        order = tuple(plain.dim_map.index(d) for d in type.dim_map)
        if order != tuple(range(len(order))):
            attrs = {"permutation": order}
            turned = create(tileaa.BY_NAME["permute"], (value,), (load.results[0].type,), attrs, (), load.loc)
            value = block.insert_before(load, turned).result
        load.results[0].replace_all_uses_with(value)
        load.results[1].replace_all_uses_with(made.results[1])
        load.erase()
    return made


def attrs_of(first: Op, second: Op, plain: Any, target: Any) -> dict[str, Any]:
    """The attributes of that load which is to be the furthest ahead; inside of the tensor is a dimension of which either load
    says so: both are executed."""
    attrs = dict(max((first, second), key=lambda op: entry_hint(op, target, "latency") or 0).attrs)
    inside: set[int] = set()
    for load in (first, second):
        order: Any = load.operands[0].type.dim_map  # type: ignore[attr-defined]
        inside.update(d for d, known in zip(order, load.attrs.get("inbounds") or ()) if known)
    attrs.pop("inbounds", None)
    if inside:
        attrs["inbounds"] = tuple(d in inside for d in plain.dim_map)
    return attrs
