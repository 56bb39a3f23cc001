"""Sums that a loop leaves to the next one stay in tensor memory.

Before: `%n = for .. { .. product %m .. }`, `%s = tensor_memory.load %m, %n {before = 1}`, .., `tensor_memory.end %m`, ..,
        `%k = tensor_memory.begin %all`, .., `tensor_memory.store %k, %s`, `for .. { .. product %k .. }`.
After:  `tensor_memory.wait %m, %n {before = 1}` in the place of the load, and no store.

So attention is written whose last steps have a mask, as two loops. Held in registers meanwhile, a sum stands beside the addresses
of the next loop's first copies. It stays where it lies in the same columns for both loops, and no products come between them.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.core import Op, Value
from tileiras.compiler.ir.passes import Context
from tileiras.compiler.ir.rewrite import Rewriter


def leave_sums(func: Op, context: Context) -> bool:
    """Does so for every sum that can stay. False when an op could not be made."""
    for store in [op for op in func.walk() if op.spec is tileas.TENSOR_STORE]:
        moves, load = _source(store)
        if (
            load is None
            or not _same_place(load.operands[0], store.operands[0])
            or not _neighbours(load, store)
        ):
            continue
        attrs = {"before": load.attr("before")}
        if Rewriter(context, load).create(tileas.TENSOR_WAIT, tuple(load.operands), (), attrs) is None:
            return False
        store.erase()
        for op in (*moves, load):
            if not op.result.uses:
                op.erase()
    return True


def _source(store: Op) -> tuple[list[Op], Op | None]:
    """(conversions, load) that a stored sum comes from, from the last one on; no load where it is another value."""
    value, moves = store.operands[1], []
    while value.op is not None and value.op.spec is tileas.CONVERT_LAYOUT:
        moves.append(value.op)
        value = value.op.operands[0]
    load = value.op
    if load is None or load.spec is not tileas.TENSOR_LOAD or value.type != store.operands[1].type:
        return moves, None
    return moves, load


def _same_place(one: Value, other: Value) -> bool:
    """Whether two sums begin in the same columns and lanes of one allocation."""
    first, second = one.op, other.op
    if first is None or second is None or {first.spec, second.spec} != {tileas.TENSOR_BEGIN}:
        return False
    return first.operands[0] is second.operands[0] and all(
        first.attrs.get(name) == second.attrs.get(name) for name in ("column", "lane")
    )


def _neighbours(load: Op, store: Op) -> bool:
    """Whether nothing between a load and a store multiplies: other sums of the next loop have columns of their own."""
    block = load.block
    if block is None or block is not store.block:
        return False
    between = block.ops[block.ops.index(load) + 1 : block.ops.index(store)]
    touched = (inner for op in between if op.regions for inner in op.walk())
    return not any(inner.spec.name.startswith("tensor_memory.") for inner in touched)
