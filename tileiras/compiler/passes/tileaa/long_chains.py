"""Long chains of elementwise ops over tiles of middling size, as loops over slices.

A thread that holds 64 elements runs every op of a chain 64 times in a row: thousands of instructions, which ptxas
takes seconds over and an instruction cache does not hold. Where a function only computes element by element between
loads and stores, a loop over slices of a few elements a thread does the same in little code. Nothing waits in memory
between loops: a chain that would need that stays whole.
"""

from __future__ import annotations

from tileiras.compiler.ir.core import Op
from tileiras.compiler.ir.dense import dense_bits, num_elements
from tileiras.compiler.ir.types import Ptr, TensorType
from tileiras.compiler.target.cost import CostModel

from .facts import Facts
from .slice_plan import MEMORY
from .slices import HUGE, Limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

POINTED = frozenset({"load_ptr_tko", "store_ptr_tko"})  # pointers come first
FREE = frozenset({"iota", "broadcast", "reshape", "constant", "offset", "assume", "bitcast", "select"})


def cut_long_chains(func: Op, num_warps: int) -> Op:
    """The function with its chains as loops; the function itself when they are short or not all of it."""
    threads = 32 * num_warps
    total, per_element = _instructions(func, threads)
    if total <= CostModel.chain_instructions:
        return func
    from .strip_mine import needs_strip_mining, strip_mine

    half = per_element >= CostModel.heavy_instructions
    elems = threads * CostModel.chain_elements >> half
    limits = Limits(elems, HUGE.big, elems.bit_length() - 1)
    cut = strip_mine(func, None, limits)
    waits = any(op.spec.name.startswith("local_") for op in cut.walk())
    return func if waits or needs_strip_mining(cut, limits) else cut


def _instructions(func: Op, threads: int) -> tuple[int, int]:
    """Instructions of a thread, and of one element, about; nothing where not all of it is elementwise. What makes addresses and
    masks counts once for the neighbours that one access moves."""
    total = per_element = 0
    neighbours = _neighbours(func)
    for op in func.walk():
        name = op.spec.name
        tiles = [v.type for v in (*op.operands, *op.results) if isinstance(v.type, TensorType)]
        elements = max((num_elements(t.shape) for t in tiles), default=0)  # type: ignore[attr-defined]
        if elements <= threads:
            continue
        if name == "constant":
            if len(set(dense_bits(op.attr("value")))) > 1:
                return 0, 0
        elif not op.spec.elementwise and name not in MEMORY and name not in FREE:
            return 0, 0
        elif name not in FREE:
            each = CostModel.sequences.get(name, 1)
            per_element += each // neighbours.get(op, 1)
            total += each * elements // threads // neighbours.get(op, 1)
    return total, per_element


def _neighbours(func: Op) -> dict[Op, int]:
    """Ops that accesses through pointers need for their pointers and masks alone -> elements that an access moves at least."""
    facts = Facts()
    runs: dict[Op, int] = {}
    found: dict[Op, int] = {}
    for op in reversed(list(func.walk())):
        if op.spec.name in POINTED:
            pointers = op.operands[0]
            pointee: Any = pointers.type.elem.pointee  # type: ignore[attr-defined]
            size = 8 if isinstance(pointee, Ptr) else max(1, pointee.bits // 8)
            runs[op] = facts.pointer_vector(pointers, op.operand("mask"), size)[1]
        served = [
            runs[user]
            if user in runs and (index == 0 or user.operands[index] is user.operand("mask"))
            else found.get(user, 1)
            for result in op.results
            for user, index in result.uses
        ]
        if served and min(served) > 1:
            found[op] = min(served)
    return found
