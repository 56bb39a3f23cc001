"""Slices on demand: which ops have to be sliced, backwards from a value, so that one slice of it can be made.

A tile that fits registers alone may not fit beside others. Where all that makes it can be done again per slice
(views loaded, casts, index arithmetic), a loop makes one slice at a time.
"""

from __future__ import annotations

from tileiras.compiler.ir.core import Op, Value
from tileiras.compiler.ir.types import TensorType

from .slice_ops import is_splat
from .slice_plan import MEMORY, PRODUCTS, Plan, index_space, plan_of
from .slices import cut_fits, reshaped_cut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from .slices import Cut

LOADS = frozenset({"load_view_tko", "load_ptr_tko"})
QUIET = frozenset({"print_tko"})  # named like memory ops, and touch none


def demand(value: Value, cut: Cut, inside: Container[Op], plans: dict[Op, Plan]) -> bool:
    """Whether a slice of the value can be made from ops `inside`; adds how to `plans`."""
    work = [(value, cut, True)]
    while work:
        value, cut, fits = work.pop()
        if not fits:
            return False
        if not cut or is_splat(value.op):
            continue
        op = value.op
        if op is None or op not in inside:
            return False
        space = index_cut(op, cut)
        shape = _shape(op)
        if space is None or shape is None or not cut_fits(shape, space):
            return False
        if op in plans:
            if plans[op].cut != space:
                return False
            continue
        plan = plan_of(op, space)
        if plan is None:
            return False
        plan.results = [cut if isinstance(r.type, TensorType) else None for r in op.results]
        plans[op] = plan
        work += [
            (op.operands[i], want, not want or len(places) == len(space))
            for i, (want, places) in reversed(plan.wants.items())
        ]
    return True


def _shape(op: Op) -> tuple[int, ...] | None:
    if op.spec.name in PRODUCTS:
        return op.result.type.shape  # type: ignore[attr-defined]
    return index_space(op)


def index_cut(op: Op, cut: Cut) -> Cut | None:
    """The cut of an op's index space behind a cut of its result."""
    name = op.spec.name
    if name == "permute":
        order = list(op.attr("permutation"))
        return tuple(order[d] for d in cut)
    if name == "reshape":
        return reshaped_cut(op.result.type.shape, cut, op.operands[0].type.shape)  # type: ignore[attr-defined]
    if name in LOADS:
        return cut if op.attr("memory_ordering_semantics") == "weak" else None
    return cut if op.spec.elementwise or name in PRODUCTS or name in ("iota", "broadcast") else None


def writes_memory(ops: Iterable[Op]) -> bool:
    """Whether anything but weak loads touches memory."""
    for op in ops:
        for inner in op.walk():
            name = inner.spec.name
            if name in LOADS:
                if inner.attr("memory_ordering_semantics") != "weak":
                    return True
            elif name in MEMORY or (name.endswith("_tko") and name not in QUIET):
                return True
    return False
