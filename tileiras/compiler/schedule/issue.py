"""What one pass of a loop issues, and what its products and copies take: whether instructions are what it waits for.

`interval.py` knows tiles only, in front of layouts. Here nv_tileas text is counted, before addresses and masks are settled:
a tenth too few, as a rule. A layout says how many elements of a tile a thread holds: what all elements of a row have alike is
computed once.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.ir.types import TensorType
from tileiras.compiler.passes.tileaa.short_results import SHORT, TINY_IS_ZERO
from tileiras.compiler.target import wgmma
from tileiras.compiler.target.cost import CostModel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Block, Op

COPIES = frozenset((tileas.COPY_VIEW, tileas.COPY_POINTERS))
PRODUCTS = frozenset((tileas.WGMMA, tileas.WGMMA_REGISTERS))
# other names for registers, and what instructions have in themselves
FREE = frozenset((
    "constant", "broadcast", "reshape", "permute", "iota", "assume", "bitcast", "negf", "absf", "make_token", "join_tokens",
    "continue", "yield",
))  # fmt: skip
PAIRED = frozenset(("addf", "subf", "mulf", "fma", "maxf", "minf", "ftof"))  # two results of 16 bits at once


def issue_clocks(block: Block, warps: int, more: int = 0) -> int:
    """Clocks in which an SM issues a pass of a block by so many warps, `more` instructions for each of them included."""
    for_copies: set[Op] = set()  # counted with them
    total = more
    for op in reversed(block.ops):
        users = [user for result in op.results for user, _ in result.uses]
        if op.results and all(user in for_copies or user.spec in COPIES for user in users):
            for_copies.add(op)
        else:
            total += instructions(op)
    return total * 32 * warps // CostModel.issued_threads


def busy_clocks(block: Block, warps: int, target: Any) -> int:
    """Clocks in which tensor cores do the products of a pass of a block, or the second-level cache gives what it copies."""
    multiply = moved = 0
    for op in block.ops:
        if op.spec in PRODUCTS:
            multiply += num_elements(op.results[0].type.shape) * steps(op)  # type: ignore[attr-defined]
        elif op.spec in COPIES:
            moved += chunks(op) * op.attr("width") * 32 * warps
    products = CostModel(target).product_clocks(multiply * CostModel.warpgroup_depth, 16, "wgmma")
    return max(products, moved // CostModel.cache_bytes)


def instructions(op: Op) -> int:
    """Of a thread, that an op becomes, about; those in its regions once."""
    name = op.spec.name
    if name in FREE:
        return 0
    if op.spec in COPIES:
        return chunks(op) * CostModel.copy_instructions
    inside = sum(instructions(o) for region in op.regions for b in region.blocks for o in b.ops)
    held = max((held_elements(v.type) for v in op.results), default=1)
    if op.spec in PRODUCTS:
        type: Any = op.results[0].type
        columns = min(type.shape[-1], wgmma.MAX_N) // 2  # registers of one instruction's result
        return 2 * -(-held // columns) * steps(op)  # each with its descriptor
    if name == "reduce":  # in a thread, then between four lanes, each by a move and what combines
        taken = max(held_elements(v.type) for v in op.operands)
        return (taken - held + 2 * held) * max(1, inside) + 2 * held * len(op.results)
    if not op.spec.elementwise:
        return max(1, held * words(op.results[0].type)) + inside if op.results else 1 + inside
    each = held * element_instructions(op) * words(op.results[0].type)
    return (each + 1) // 2 if name in PAIRED and element_bits(op.results[0].type) == 16 else each


def element_instructions(op: Op) -> int:
    """Of one element of an elementwise op."""
    name = op.spec.name
    attrs = op.attrs
    if name in ("exp", "exp2") and (
        attrs.get(SHORT) or name == "exp2" or attrs.get("rounding_mode") == "approx"
    ):
        flushed = attrs.get(TINY_IS_ZERO) or attrs.get("flush_to_zero")
        return (name == "exp") + (1 if flushed else CostModel.unflushed_exponential)
    each = CostModel.sequences.get(name, 1)
    return each // 2 if attrs.get(SHORT) else each


def steps(product: Op) -> int:
    """Slices of K, an instruction each."""
    row = wgmma.row_of(product.attr("elem"))
    assert row is not None
    return max(1, product.attr("depth") >> row[1])  # type: ignore[no-any-return]


def chunks(copy: Op) -> int:
    """Copies that a thread issues for a tile."""
    source: Any = copy.operands[3].type
    elem = source.view.elem if copy.spec is tileas.COPY_VIEW else source.elem.pointee
    return max(1, copy.attrs["layout"].num_regs * elem.bits // 8 // copy.attr("width"))  # type: ignore[no-any-return]


def held_elements(type: Any) -> int:
    return type.layout.num_regs if isinstance(type, TensorType) and type.layout is not None else 1


def element_bits(type: Any) -> int:
    return getattr(getattr(type, "elem", None), "bits", 64)


def words(type: Any) -> int:
    return max(1, element_bits(type) // 32)
