"""How the elements of a tile go between threads and global memory: how many with an instruction, and under one mask.

`vector` is log2 of the elements that a load or a store moves with an instruction; `together`, log2 of a thread's neighbours that
lie inside of the tensor, or are masked off, together. Of a load or a store it stands there where it is more than `vector`, of
atomics and asynchronous copies always: a copy of more elements than these may end inside of one.
"""

from __future__ import annotations

from tileiras.compiler.ir.views import unit_dim
from tileiras.compiler.layout.linear import dim_bits, log2, neighbours
from tileiras.compiler.passes.tileaa.facts import VECTOR_BYTES, facts_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tileiras.compiler.ir.analyses import Analyses
    from tileiras.compiler.ir.core import Op
    from tileiras.compiler.passes.tileaa.facts import Facts


def widths(op: Op, func: Op, analyses: Analyses) -> dict[str, int]:
    """The attributes of an access, as wide as it can be."""
    return ACCESSES[op.spec.name](op, analyses.get(facts_of, func))


def of_view(op: Op, layout: Any, facts: Facts) -> tuple[int, int]:
    """(`vector`, `together`) of an access by a view, as far as layout and facts allow."""
    type: Any = op.operand("view").type  # type: ignore[union-attr]
    unit = unit_dim(type)
    if unit < 0:
        return 0, 0
    run = neighbours(layout, *dim_bits(type.tile)[unit], log2(VECTOR_BYTES // type.view.elem.bytes))
    if not run:
        return 0, 0
    together = min(run, log2(facts.view_together(op, unit)))
    return min(run, log2(facts.view_vector(op)[1])), together


def of_pointers(op: Op, pointers: str, layout: Any, facts: Facts) -> tuple[int, int]:
    """The same of an access by a tile of pointers."""
    value: Any = op.operand(pointers)
    run = facts.pointer_run(value, op.operand("mask"), layout, value.type.elem.pointee.bytes)
    return run, run


def _access(op: Op, facts: Facts, found: tuple[int, int]) -> dict[str, int]:
    vector, together = found
    if op.attr("memory_ordering_semantics") != "weak":
        vector = 0  # each element is ordered by an instruction of its own
    return {"vector": vector, "together": together} if together > vector else {"vector": vector}


def load_view(op: Op, facts: Facts) -> dict[str, int]:
    return _access(op, facts, of_view(op, op.results[0].type.layout, facts))  # type: ignore[attr-defined]


def store_view(op: Op, facts: Facts) -> dict[str, int]:
    return _access(op, facts, of_view(op, op.attrs["layout"], facts))


def load_pointers(op: Op, facts: Facts) -> dict[str, int]:
    return _access(op, facts, of_pointers(op, "source", op.results[0].type.layout, facts))  # type: ignore[attr-defined]


def store_pointers(op: Op, facts: Facts) -> dict[str, int]:
    return _access(op, facts, of_pointers(op, "destination", op.attrs["layout"], facts))


def atomic_pointers(op: Op, facts: Facts) -> dict[str, int]:
    layout: Any = op.results[0].type.layout  # type: ignore[attr-defined]
    return {"together": of_pointers(op, "pointers", layout, facts)[1]}


def atomic_or_copy_view(op: Op, facts: Facts) -> dict[str, int]:
    """Of atomics without results and of copies."""
    return {"together": of_view(op, op.attrs["layout"], facts)[1]}


def copy_pointers(op: Op, facts: Facts) -> dict[str, int]:
    return {"together": of_pointers(op, "source", op.attrs["layout"], facts)[1]}


ACCESSES: dict[str, Callable[[Op, Facts], dict[str, int]]] = {
    "load_view_tko": load_view, "store_view_tko": store_view, "load_ptr_tko": load_pointers,
    "store_ptr_tko": store_pointers, "atomic_rmw_tko": atomic_pointers, "atomic_cas_tko": atomic_pointers,
    "atomic_red_view_tko": atomic_or_copy_view, "async.copy_view": atomic_or_copy_view, "async.copy_pointers": copy_pointers,
}  # fmt: skip
