"""Copies of ops and regions under a map of values."""

from __future__ import annotations

from .build import create
from .core import Block, Region

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .core import Op, Value


def clone_op(op: Op, values: dict[Value, Value]) -> Op:
    """A copy that is in no block yet. Operands and nested ops go through `values`, which receives the results."""
    regions = [clone_region(region, values) for region in op.regions]
    operands = [values.get(v, v) for v in op.operands]
    new = create(
        op.spec, operands, [r.type for r in op.results], dict(op.attrs), regions, op.loc, op.segments
    )
    for old, result in zip(op.results, new.results):
        values[old] = result
        result.name = old.name
    return new


def clone_region(region: Region, values: dict[Value, Value]) -> Region:
    out = Region()
    for block in region.blocks:
        new = Block()
        for arg in block.args:
            values[arg] = new.add_arg(arg.type, arg.name)
        for op in block.ops:
            new.append(clone_op(op, values))
        out.append(new)
    return out


def clone_into(block: Block, ops: Iterable[Op], values: dict[Value, Value]) -> None:
    for op in ops:
        block.append(clone_op(op, values))
