"""Values that only wait for a store in front of a loop are loaded there: not before, and for every loop once more.

Before: `%q = load`, prologue, `store_shared %b, %q`, `for {..}`, prologue, `store_shared %c, %q`, `for {..}`.
After:  prologue, `%q = load`, `store_shared %b, %q`, `for {..}`, prologue, `%r = load`, `store_shared %c, %r`, `for {..}`.

A tile of queries is 64 registers of a thread; where two loops read it, the first one would run around them.
"""

from __future__ import annotations

from tileiras.compiler.ir.clone import clone_into
from tileiras.compiler.ir.core import Block
from tileiras.compiler.ir.types import TensorType
from tileiras.compiler.schedule.candidates import writes
from tileiras.compiler.schedule.staging import RENAMES, is_elementwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value
    from tileiras.compiler.layout.linear import LinearLayout

MOST_OPS = 512  # between the load and the store: they are looked through for writes


def loaded_again(value: Value, anchor: Op) -> Value:
    """The value, computed in front of the anchor from a load of its own; as it is where it does not come from a weak load of
    the same block through renamings and arithmetic with constants, or where something is written in between."""
    chain = chain_of(value)
    block = anchor.block
    if not chain or block is None or any(op.block is not block for op in chain):
        return value
    load = chain[-1]
    start, end = block.ops.index(load), block.ops.index(anchor)
    if (
        load.attr("memory_ordering_semantics") != "weak"
        or load.results[1].uses
        or not 0 < end - start < MOST_OPS
    ):
        return value
    for inner in (inner for op in block.ops[start:end] for inner in op.walk()):
        if (
            writes(inner) and inner.spec.name != "store_shared"
        ):  # what is staged changes nothing that was loaded
            return value
    fresh = Block()
    values: dict[Value, Value] = {}
    clone_into(fresh, list(reversed(chain)), values)
    for op in list(fresh.ops):
        fresh.ops.remove(op)
        block.insert_before(anchor, op)
    return values[value]


def chain_of(value: Value) -> list[Op]:
    """The ops from a value back to the load that it is made of, the load last; none where it is made of anything else."""
    chain: list[Op] = []
    op = value.op
    while op is not None:
        chain.append(op)
        if op.spec.name == "load_view_tko":
            return chain
        tiles = [v for v in op.operands if v.op is None or v.op.spec.name != "constant"]
        if not (op.spec.name in RENAMES or is_elementwise(op)) or len(tiles) != 1:
            return []
        op = tiles[0].op
    return []


def lay_out(value: Value, layout: LinearLayout) -> bool:
    """Loads a value that has no user yet in a layout; False where what makes it moves elements."""
    chain = chain_of(value)
    if any(op.spec.name in ("permute", "convert_layout") for op in chain):
        return False
    for op in chain:
        type: Any = op.results[0].type
        op.results[0].type = TensorType(type.elem, type.shape, layout)
    return bool(chain)


def erase_load(value: Value) -> None:
    """Takes out what made a value that nobody uses any more."""
    for op in chain_of(value):
        if any(result.uses for result in op.results):
            return
        op.erase()
