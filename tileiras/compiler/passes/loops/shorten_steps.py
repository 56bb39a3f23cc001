"""TileAAShortenSteps: loops over K whose stages are too large for three of them take half of a step, or less, at a time.

Before: `for %k = %lo to %hi { %a = load %va[%i, %k] : 128x64, %b = load %vb[%k, %j] : 64x256, mmaf }`.
After:  `for %k = 2 %lo to 2 %hi { %a = load %va'[%i, %k] : 128x32, %b = load %vb'[%k, %j] : 32x256, mmaf }`.

Only where the induction variable, counted by one, numbers the tiles of both operands along K and nothing else. The new one
has 64 bits: no bound overflows. Additions happen in the same order.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Op, Value
from tileiras.compiler.ir.dense import constant_bytes
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.types import I64, Dense, PartitionView, TensorType, TileType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class ShortenSteps(Pass):
    NAME = "TileAAShortenSteps"
    SUMMARY = "Take less of K an iteration where three stages of it do not fit shared memory"
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
                if chains is not None:
                    shorten(loop, chains, parts)
                    context.analyses.drop()
        return True


def operand_chains(loop: Op) -> list[tuple[Op, list[tuple[Op, int]], int]] | None:
    """(product, ops from load to product with the dimension of K in each result, index of the load's K operand) of both
    operands of the one product of a loop; None where the loop is not of that kind."""
    from tileiras.compiler.schedule.candidates import constant_int
    from tileiras.compiler.schedule.products import adds_up

    body = loop.regions[0].block
    products = [op for op in body.ops if op.spec.name in ("mmaf", "mmai")]
    if len(products) != 1 or constant_int(loop.operands[2]) != 1 or adds_up(products[0]) is not loop:
        return None
    product = products[0]
    induction = body.args[0]
    out = []
    for which in (0, 1):
        value = product.operands[which]
        dim = len(value.type.shape) - (1 if which == 0 else 2)  # type: ignore[attr-defined]
        chain: list[tuple[Op, int]] = []
        while True:
            op = value.op
            if op is None or op.block is not body or len(value.uses) != 1:
                return None
            chain.append((op, dim))
            if op.spec.name == "load_view_tko":
                break
            found = before(op, dim)
            if found is None:
                return None
            value, dim = found
        load = chain[-1][0]
        view: Any = load.operand("view")
        if (
            view.op is None
            or view.op.spec.name != "make_partition_view"
            or not isinstance(view.type, PartitionView)
        ):
            return None
        indices = load.group("index")
        if indices[dim] is not induction or induction in indices[:dim] + indices[dim + 1 :]:
            return None
        out.append((product, chain[::-1], load.operands.index(induction)))
    if len(induction.uses) != 2:
        return None
    return out


def before(op: Op, dim: int) -> tuple[Value, int] | None:
    """The operand that an op renames or converts element by element, and the dimension of K in it."""
    from tileiras.compiler.schedule.staging import is_elementwise

    if op.spec.name == "permute":
        return op.operands[0], op.attr("permutation")[dim]
    if op.spec.name == "reshape":
        source, result = op.operands[0].type.shape, op.result.type.shape  # type: ignore[attr-defined]
        kept = [d for d, e in enumerate(source) if e != 1]
        if [source[d] for d in kept] != [e for e in result if e != 1] or result[dim] == 1:
            return None
        return op.operands[0], kept[sum(e != 1 for e in result[:dim])]
    if is_elementwise(op) and len(op.operands) == 1:
        return op.operands[0], dim
    return None


def shorten(loop: Op, chains: list[tuple[Op, list[tuple[Op, int]], int]], parts: int) -> None:
    body = loop.regions[0].block
    assert loop.block is not None
    block = loop.block

    def put(name: str, operands: Any, type: Any, attrs: dict[str, Any]) -> Value:
        return block.insert_before(
            loop, create(tileaa.BY_NAME[name], operands, (type,), attrs, (), loop.loc)
        ).result

    scalar = TensorType(I64, (), None)

    def number(value: int) -> Value:
        data = value.to_bytes(constant_bytes(I64), "little")
        return put("constant", (), scalar, {"value": Dense(TileType(I64, ()), data)})

    signedness = "unsigned" if loop.attr("unsignedCmp") else "signed"
    factor = number(parts)
    for i in (0, 1):
        bound = loop.operands[i]
        if bound.type.elem.bits < 64:  # type: ignore[attr-defined]
            bound = put("exti", (bound,), scalar, {"signedness": signedness})
        loop.set_operand(i, put("muli", (bound, factor), scalar, {"overflow": "none"}))
    loop.set_operand(2, number(1))
    body.args[0].type = scalar
    for _product, chain, _ in chains:
        for op, dim in chain:
            type: Any = op.results[0].type
            shape = tuple(e // parts if d == dim else e for d, e in enumerate(type.shape))
            op.results[0].type = TensorType(type.elem, shape, type.layout)
            if op.spec.name == "load_view_tko":
                old: Any = op.operand("view")
                view: Any = old.type
                small = PartitionView(shape, view.view, view.dim_map, view.padding)
                maker = create(old.op.spec, old.op.operands, (small,), dict(old.op.attrs), (), old.op.loc)
                body.insert_before(op, maker)
                op.set_operand(op.operands.index(old), maker.result)
