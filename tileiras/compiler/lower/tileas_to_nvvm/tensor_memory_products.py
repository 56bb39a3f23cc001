"""Products in tensor memory (tcgen05.mma): descriptors of operands in shared memory, and what one thread issues."""

from __future__ import annotations

from tileiras.compiler.layout.gf2 import apply
from tileiras.compiler.layout.linear import dim_bits
from tileiras.compiler.layout.shared import matrix_operand
from tileiras.compiler.target import tcgen05

from .cta_pairs import GROUPS
from .mbarriers import by_warp, commit
from .staging import slot_address, units_of
from .state import Lowering
from .tensor_memory import Memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op


def lower_product(lowering: Lowering, op: Op) -> None:
    """Both operands in shared memory."""

    def issue() -> None:
        left = Operand(lowering, op, 0, op.operands[2:4], (op.attr("m"), op.attr("depth")))
        at = lambda k, m: lowering.b.materialize(left.at(k, m), "d")  # noqa: E731
        _issue(lowering, op, at, left.matrix.k_major, op.operands[4:])

    by_warp(lowering, False, issue)


def lower_product_rows(lowering: Lowering, op: Op) -> None:
    """The left operand in tensor memory."""
    b = lowering.b
    memory: Memory = lowering.env[op.operands[2]]
    packed = _packed(op.attr("elem"))

    def left(k: int, m: int) -> Any:
        column = op.attr("column") + m // tcgen05.LANES * op.attr("stride") + k // packed
        return b.address(b.add(32, memory.address, column))

    by_warp(lowering, False, lambda: _issue(lowering, op, left, True, op.operands[3:]))


def _packed(elem: str) -> int:
    """Elements of a left operand in one column."""
    return int(1 << tcgen05.TYPES[elem][2] - 3)


class Operand:
    """An operand in shared memory: descriptors of its parts."""

    def __init__(self, lowering: Lowering, op: Op, which: int, place: Any, shape: tuple[int, int]) -> None:
        b = lowering.b
        name = "ab"[which]
        dims = dim_bits(shape)
        self.k, self.other = (dims[1], dims[0]) if which == 0 else (dims[0], dims[1])
        self.arrangement = op.attrs[f"{name}_arrangement"]
        size = 1 if "block" in op.attrs else 1 << (5 - tcgen05.TYPES[op.attr("elem")][2])
        found = matrix_operand(self.arrangement, self.k, self.other, size)
        assert found is not None
        self.matrix = found
        fixed = tcgen05.operand_descriptor(found.swizzle_bytes, found.leading_bytes, found.stride_bytes)
        # the place of the buffer is known in the prologue, a loop adds the slot: both stay below the 2^14 units of 16 bytes
        start = lowering.env[place[0]] + op.attr(f"{name}_start")
        buffer = b.entry("add.s32", lowering.smem_base, start) if start else lowering.smem_base
        units = units_of(lowering, buffer)
        base = b.entry("add.s64", units, fixed - (fixed >> 63 << 64))
        self.base = b.add(64, base, b.wide(b.shr(32, lowering.scalar(place[1]), 4), signed=False))
        self.place = place
        self.start = op.attr(f"{name}_start")
        self.b = b

    def address(self, lowering: Lowering) -> Any:
        return self.b.add(32, slot_address(lowering, *self.place), self.start)

    def at(self, k: int, other: int) -> Any:
        """The descriptor of the part that begins at depth k and row (column) `other`."""
        offset = apply(self.arrangement, k << self.k[0] | other << self.other[0])
        return self.b.add(64, self.base, offset >> 4)


def _issue(lowering: Lowering, op: Op, left: Any, a_k_major: bool, right_place: Any) -> None:
    """One instruction for 128 rows (or 64), 256 columns and one slice of K; for a pair of CTAs, for 128 rows of each. `left(k,
    m)`: what stands for A."""
    b = lowering.b
    memory: Memory = lowering.env[op.operands[0]]
    count = lowering.scalar(op.operands[1])
    rows, columns, depth, elem = op.attr("m"), op.attr("n"), op.attr("depth"), op.attr("elem")
    kind, _, log2_k = tcgen05.TYPES[elem]
    wide = min(columns, tcgen05.MAX_N)
    pair = bool(op.attr("pair"))
    right = Operand(lowering, op, 1, right_place, (depth, columns >> pair))
    signs = [op.attrs.get(f"signedness_{side}", "signed") == "signed" for side in ("lhs", "rhs")]
    form = tcgen05.instruction_descriptor(
        elem, wide, a_k_major, right.matrix.k_major, (signs[0], signs[1]), min(rows, tcgen05.LANES) << pair
    )
    b.emit_to(None, "tcgen05.fence::after_thread_sync")
    yes, first = b.true(), adds(lowering, op)
    for m in range(0, rows, tcgen05.LANES):
        for n in range(0, columns, wide):
            target = b.address(b.add(32, memory.address, m // tcgen05.LANES * columns + n))
            for k in range(0, depth, 1 << log2_k):
                b.emit_to(
                    None, f"tcgen05.mma.{GROUPS[pair]}.kind::{kind}", target, left(k, m),
                    b.materialize(right.at(k, n), "d"), b.materialize(form, "r"), first if k == 0 else yes,
                )  # fmt: skip
    if op.attrs.get("commit", 1):  # what goes on with the sum commits for both
        commit(lowering, b.add(32, memory.state, b.shl(32, b.and_(32, count, 1), 3)))


def adds(lowering: Lowering, op: Op) -> Any:
    """Whether the first instruction of a product adds to what there is."""
    b = lowering.b
    if op.attr("fresh") == 2:
        return b.emit("setp.ne.b32", lowering.scalar(op.operands[1]), 0)
    return b.true(not op.attr("fresh"))


LOWER = {
    "tensor_memory.product": lower_product, "tensor_memory.product_rows": lower_product_rows,
}  # fmt: skip
