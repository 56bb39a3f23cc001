"""Loads that a loop of products computes with: a table is looked up at numbers that the same iteration loads.

Codes of four bits name one of sixteen values: each element of the operand has a place of its own in the table, which no copy
could bring ahead. Such a load runs where the step computes, as a conversion would, and what it looks up by, the codes, travels
with the loop's other loads. Rows that a loaded list names are none: a number names many elements there, which copies bring once
it is known (`candidates.is_index`).
"""

from __future__ import annotations

from tileiras.compiler.ir.dense import num_elements

from .candidates import PRODUCERS, can_run_ahead, indices_of, multiplies

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value

BROUGHT = PRODUCERS | {"async.pipeline.consume_one"}
KEEPS = frozenset(("reshape", "permute", "convert_layout", "cat"))  # elements, though not their places


def lookups_of(body: Any) -> frozenset[Op]:
    """The weak loads of a loop's body, in no order with other accesses of the loop, whose every element lies where a number of
    its own says that the iteration loads."""
    loop = body.region.op if body.region is not None else None
    if loop is None or loop.spec.name != "for" or not multiplies(body):
        return frozenset()
    loads = [op for op in body.ops if op.spec.name in BROUGHT]
    if not any(op.spec.name == "load_ptr_tko" for op in loads):
        return frozenset()
    found: set[Op] = set()
    indices = indices_of(loop)
    loaded: set[Value] = set()  # element by element from what was loaded
    for op in body.ops:
        name = op.spec.name
        if name in BROUGHT:
            if name == "load_ptr_tko" and op.operand("source") in loaded and can_run_ahead(op, loop):
                found.add(op)
            if op not in indices:
                loaded.update(value for value in op.results if is_tile(value))
        elif (op.spec.elementwise or name in KEEPS) and any(v in loaded for v in op.operands):
            loaded.update(op.results)
    return frozenset(found)


def is_tile(value: Value) -> bool:
    """Whether a value has many elements."""
    return num_elements(getattr(value.type, "shape", ())) > 1
