"""Loads that a loop of products computes with: a table is looked up at numbers that the same iteration loads.

Codes of four bits name one of sixteen values: each element of the operand has a place of its own in the table, which no copy
could bring ahead. Such a load runs where the step computes, as a conversion would, and what it looks up by, the codes, travels
with the loop's other loads. Rows that a loaded list names are none: a number names many elements there, which copies bring once
it is known (`candidates.is_index`).
"""

from __future__ import annotations

from tileiras.compiler.ir.dense import num_elements

from .candidates import PRODUCERS, can_run_ahead, indices_of, is_placewise, multiplies

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value

BROUGHT = PRODUCERS | {"async.pipeline.consume_one"}


def lookups_of(body: Any) -> frozenset[Op]:
    """The weak loads of a loop's body, in no order with other accesses of the loop, whose every element lies where a number of
    its own says that the iteration loads."""
    loop = body.region.op if body.region is not None else None
    if loop is None or loop.spec.name != "for" or not multiplies(body):
        return frozenset()
    found = placed_by_loaded(body, frozenset())
    if found:  # numbers that come an iteration earlier are there
        found = placed_by_loaded(body, indices_of(loop))
    return frozenset(op for op in found if can_run_ahead(op, loop))


def placed_by_loaded(body: Any, indices: frozenset[Op]) -> list[Op]:
    """The loads of a body by pointers that are computed, element by element, from tiles that other loads than `indices` bring."""
    found: list[Op] = []
    loaded: set[Value] = set()
    for op in body.ops:
        name = op.spec.name
        if name in BROUGHT:
            if name == "load_ptr_tko" and op.operand("source") in loaded:
                found.append(op)
            if op not in indices:
                loaded.update(value for value in op.results if is_tile(value))
        elif is_placewise(op) and any(v in loaded for v in op.operands):
            loaded.update(op.results)
    return found


def is_tile(value: Value) -> bool:
    """Whether a value has many elements."""
    return num_elements(getattr(value.type, "shape", ())) > 1
