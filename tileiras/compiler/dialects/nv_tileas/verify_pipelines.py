"""Pipelines: their slots, and the regions of producers and consumers.

What looks beyond the op itself (the other half of a pipeline) holds for ops that stand in a block: an op under
construction is judged by its own fields only.
"""

from __future__ import annotations

from tileiras.compiler.ir.verify import Invalid
from tileiras.diag import Catalogue

from .rings import MAX_DEPTH
from .verify import listed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value

D = Catalogue("tileiras.compiler.dialects.nv_tileas.diags")
# how loads travel -> what is known of their tiles
TRANSPORTS = {
    "cp.async": ("width", "bytes", "arrangement", "layout"),
    "bulk": ("map", "tile", "order", "bytes", "arrangement"),
}
LOADS = frozenset(("load_view_tko", "load_ptr_tko"))


def types_of(values: Any) -> list[Any]:
    return [v.type for v in values]


def partners(pipeline: Value, *names: str) -> list[Op]:
    """Ops on a pipeline by short name, in order of use."""
    return [op for op, index in pipeline.uses if index == 0 and op.spec.name.rpartition(".")[2] in names]


def yielded(op: Op) -> list[Value]:
    return op.regions[0].block.ops[-1].operands


def check_create(op: Op) -> None:
    depth = op.attrs.get("depth")
    if not isinstance(depth, int) or not 1 <= depth <= MAX_DEPTH:
        raise Invalid(D.DEPTH, got=depth)
    transport = op.attrs.get("transport")
    if transport is None:
        return
    for name in TRANSPORTS.get(transport, ("transport",)):
        if name not in op.attrs or transport not in TRANSPORTS:
            got = op.attrs.get(name)
            raise Invalid(D.BUFFER, what=f"{name} {got}, of which it cannot be told how tiles travel and lie")


def check_no_args(op: Op) -> None:
    args = op.regions[0].blocks[0].args if op.regions[0].blocks else []
    if args:
        raise Invalid(D.PRODUCER_ARGS, got=f"[{listed(args)}]")


def check_produce_one(op: Op) -> None:
    check_no_args(op)
    if op.block is None:  # not in its place yet
        return
    if not partners(op.operands[0], "consume_one"):
        raise Invalid(D.NO_CONSUMER)
    create = op.operands[0].op
    if create is not None and "transport" in create.attrs and not has_load(op):
        raise Invalid(D.BUFFER, what="no load, and its pipeline says how loads travel")


def has_load(producer: Op) -> bool:
    """Whether a producer loads its tile: in its region, or where its condition holds."""
    ops = producer.regions[0].block.ops
    branch = next((op for op in ops if op.spec.name == "if"), None)
    return any(op.spec.name in LOADS for op in (branch.regions[0].block.ops if branch is not None else ops))


def check_transfer(op: Op) -> None:
    check_no_args(op)
    check_yield(op)
    if op.block is not None:
        other = partners(op.operands[0], "produce_one", "consume_one")
        if other:
            raise Invalid(D.LEFT_OVER, other=other[0].spec.full_name)


def check_yield(op: Op) -> None:
    if types_of(op.results) != types_of(yielded(op)):
        raise Invalid(D.YIELD_TYPES, want=listed(op.results), got=listed(yielded(op)))


def check_consume_one(op: Op) -> None:
    check_yield(op)
    if op.block is None:
        return
    args = op.regions[0].block.args
    makers = partners(op.operands[0], "produce_one")
    for maker in makers:
        if types_of(yielded(maker)) != types_of(args):
            raise Invalid(D.CONSUMER_TYPES, want=listed(yielded(maker)), got=listed(args))
    if not makers:
        raise Invalid(D.CONSUMER_TYPES, want="", got=listed(args))
