"""Long chains of elementwise ops over tiles of middling size, as loops over slices.

A thread that holds 64 elements runs every op of a chain 64 times in a row: thousands of instructions, which ptxas
takes seconds over and an instruction cache does not hold. Where a function only computes element by element between
loads and stores, a loop over slices of a few elements a thread does the same in little code. Nothing waits in memory
between loops: a chain that would need that stays whole.
"""

from __future__ import annotations

from tileiras.compiler.ir.core import Op
from tileiras.compiler.ir.dense import dense_bits, num_elements
from tileiras.compiler.ir.types import TensorType

from .slice_plan import ELEMENTWISE, MEMORY
from .slices import HUGE, Limits

ELEMS_PER_THREAD = 8  # of a slice: two vectors of 16 bytes for f32, one for f16
HEAVY = 40  # instructions an element from which half of them are enough
LONG = 400  # instructions of a thread from which a loop is better
FREE = frozenset({"iota", "broadcast", "reshape", "constant", "offset", "assume", "bitcast", "select"})
SEQUENCES = {
    "cos": 40, "sin": 40, "tan": 50, "sinh": 30, "cosh": 30, "tanh": 20, "exp": 12, "exp2": 10, "log": 20, "log2": 20,
    "fpowf": 60, "fpowi": 30, "atan2": 40, "divf": 8, "sqrt": 4, "rsqrt": 4, "remf": 30, "divi": 20, "remi": 20,
}  # fmt: skip


def cut_long_chains(func: Op, num_warps: int) -> Op:
    """The function with its chains as loops; the function itself when they are short or not all of it."""
    threads = 32 * num_warps
    total, per_element = _instructions(func, threads)
    if total <= LONG:
        return func
    from .strip_mine import needs_strip_mining, strip_mine

    elems = threads * (ELEMS_PER_THREAD if per_element < HEAVY else ELEMS_PER_THREAD // 2)
    limits = Limits(elems, HUGE.big, elems.bit_length() - 1)
    cut = strip_mine(func, None, limits)
    waits = any(op.spec.name.startswith("local_") for op in cut.walk())
    return func if waits or needs_strip_mining(cut, limits) else cut


def _instructions(func: Op, threads: int) -> tuple[int, int]:
    """Instructions of a thread, and of one element, about; nothing where not all of it is elementwise."""
    total = per_element = 0
    for op in func.walk():
        name = op.spec.name
        tiles = [v.type for v in (*op.operands, *op.results) if isinstance(v.type, TensorType)]
        elements = max((num_elements(t.shape) for t in tiles), default=0)  # type: ignore[attr-defined]
        if elements <= threads:
            continue
        if name == "constant":
            if len(set(dense_bits(op.attr("value")))) > 1:
                return 0, 0
        elif name not in ELEMENTWISE and name not in MEMORY and name not in FREE:
            return 0, 0
        elif name not in FREE:
            per_element += SEQUENCES.get(name, 1)
            total += SEQUENCES.get(name, 1) * elements // threads
    return total, per_element
