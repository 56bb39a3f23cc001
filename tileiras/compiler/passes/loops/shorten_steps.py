"""TileAAShortenSteps: loops over K whose stages are too large for three of them take half of a step, or less, at a time.

Before: `for %k = %lo to %hi { %a = load %va[%i, %k] : 128x64, %b = load %vb[%k, %j] : 64x256, mmaf }`.
After:  `for %k = 2 %lo to 2 %hi { %a = load %va'[%i, %k] : 128x32, %b = load %vb'[%k, %j] : 32x256, mmaf }`.

Only where the induction variable, counted by one, numbers the tiles of both operands along K. What else it is used for, scales
of a whole step, gets the step's number by a division. The new variable has 64 bits: no bound overflows. Additions happen in
the same order.
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


class Chain:
    """One operand of a product: ops whose results get shorter with the dimension of K in each, those that read memory with
    the place of the loop's number among their operands, and constants that are made anew."""

    def __init__(self) -> None:
        self.ops: list[tuple[Op, int]] = []
        self.loads: list[tuple[Op, int]] = []
        self.constants: list[tuple[Op, int, int]] = []  # user, operand, dimension of K


def operand_chains(loop: Op) -> list[Chain] | None:
    """Both operands of the one product of a loop; None where the loop is not of that kind."""
    from tileiras.compiler.schedule.candidates import constant_int, writes
    from tileiras.compiler.schedule.products import adds_up

    body = loop.regions[0].block
    products = [op for op in body.ops if op.spec.name in ("mmaf", "mmai")]
    if len(products) != 1 or constant_int(loop.operands[2]) != 1 or adds_up(products[0]) is not loop:
        return None
    product = products[0]
    out = []
    for which in (0, 1):
        chain = Chain()
        value = product.operands[which]
        dim = len(value.type.shape) - (1 if which == 0 else 2)  # type: ignore[attr-defined]
        if not follow(value, dim, body, chain) or len(chain.loads) != 1:
            return None
        out.append(chain)
    if (
        len(body.args[0].uses) > 2
    ):  # what else is done with the number is done several times: it must not add up
        carried = [arg for arg in body.args[1:] if isinstance(arg.type, TensorType)]
        if len(carried) != 1 or any(op.regions or writes(op) for op in body.ops):
            return None
    return out


def follow(value: Value, dim: int, body: Any, chain: Chain) -> bool:
    """Adds to a chain what a value is made of, back to its load. `dim`: the dimension of K."""
    work = [(value, dim)]
    while work:
        value, dim = work.pop()
        op: Any = value.op
        if op is None or op.block is not body or len(value.uses) != 1:
            return False
        chain.ops.append((op, dim))
        if op.spec.name == "load_view_tko":
            if not _follow_load(op, dim, body.args[0], chain):
                return False
        elif op.spec.name == "broadcast":  # of one scale for all of the step
            if op.operands[0].type.shape[dim] != 1 or op.result.type.shape[dim] == 1:  # type: ignore[attr-defined]
                return False
        else:
            makers = _follow_op(op, dim, chain)
            if makers is None:
                return False
            work += makers
    return True


def _follow_load(op: Op, dim: int, induction: Value, chain: Chain) -> bool:
    view: Any = op.operand("view")
    if (
        view.op is None
        or view.op.spec.name != "make_partition_view"
        or not isinstance(view.type, PartitionView)
    ):
        return False
    indices = op.group("index")
    if indices[dim] is not induction or induction in indices[:dim] + indices[dim + 1 :]:
        return False
    chain.loads.append((op, op.operands.index(induction)))
    return True


def _follow_op(op: Op, dim: int, chain: Chain) -> list[tuple[Value, int]] | None:
    """The operands that get shorter with an op, and the dimension of K in each; None where it is not elementwise."""
    from tileiras.compiler.schedule.staging import is_elementwise

    found = before(op, dim)
    if found is not None:
        return [found]
    if not is_elementwise(op):
        return None
    out = []
    for k, operand in enumerate(op.operands):
        if operand.op is not None and operand.op.spec.name == "constant":
            chain.constants.append((op, k, dim))
        else:
            out.append((operand, dim))
    return out


def before(op: Op, dim: int) -> tuple[Value, int] | None:
    """The operand that an op renames, and the dimension of K in it."""
    if op.spec.name == "permute":
        return op.operands[0], op.attr("permutation")[dim]
    if op.spec.name == "reshape":
        source, result = op.operands[0].type.shape, op.result.type.shape  # type: ignore[attr-defined]
        kept = [d for d, e in enumerate(source) if e != 1]
        if [source[d] for d in kept] != [e for e in result if e != 1] or result[dim] == 1:
            return None
        return op.operands[0], kept[sum(e != 1 for e in result[:dim])]
    return None


def shorten(loop: Op, chains: list[Chain], parts: int) -> None:
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
    data = parts.to_bytes(constant_bytes(I64), "little")
    factor = put(loop, "constant", (), scalar, {"value": Dense(TileType(I64, ()), data)})
    signedness = "unsigned" if loop.attr("unsignedCmp") else "signed"
    for i in (0, 1):
        bound = loop.operands[i]
        if bound.type.elem.bits < 64:  # type: ignore[attr-defined]
            bound = put(loop, "exti", (bound,), scalar, {"signedness": signedness})
        loop.set_operand(i, put(loop, "muli", (bound, factor), scalar, {"overflow": "none"}))
    one = (1).to_bytes(constant_bytes(I64), "little")
    loop.set_operand(2, put(loop, "constant", (), scalar, {"value": Dense(TileType(I64, ()), one)}))
    number.type = scalar
    tiles = [load for chain in chains for load in chain.loads]
    others = [use for use in number.uses if use not in tiles]
    if others:  # the number of the whole step, for scales that serve all of it
        rounding = {"signedness": signedness, "rounding": "negative_inf"}
        whole = put(body.ops[0], "divi", (number, factor), scalar, rounding)
        if kept.elem.bits < 64:
            whole = put(body.ops[1], "trunci", (whole,), kept, {"overflow": "none"})
        for user, index in others:
            user.set_operand(index, whole)
    for chain in chains:
        for user, index, dim in chain.constants:
            value = user.operands[index]
            type = shorter(value.type, dim, parts)
            attrs = {"value": Dense(TileType(type.elem, type.shape), value.op.attr("value").data)}  # type: ignore[union-attr]
            user.set_operand(index, put(user, "constant", (), type, attrs))
        for op, dim in chain.ops:
            op.results[0].type = shorter(op.results[0].type, dim, parts)
            if op.spec.name == "load_view_tko":
                old: Any = op.operand("view")
                view: Any = old.type
                small = PartitionView(op.results[0].type.shape, view.view, view.dim_map, view.padding)
                maker = create(old.op.spec, old.op.operands, (small,), dict(old.op.attrs), (), old.op.loc)
                body.insert_before(op, maker)
                op.set_operand(op.operands.index(old), maker.result)


def shorter(type: Any, dim: int, parts: int) -> TensorType:
    shape = tuple(e // parts if d == dim else e for d, e in enumerate(type.shape))
    return TensorType(type.elem, shape, type.layout)
