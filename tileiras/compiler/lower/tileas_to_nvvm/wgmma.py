"""wgmma: descriptors of operands in shared memory, one instruction a slice of K and 64 rows, groups and waits."""

from __future__ import annotations

from tileiras.compiler.layout.gf2 import apply
from tileiras.compiler.layout.linear import dim_bits
from tileiras.compiler.layout.shared import matrix_operand
from tileiras.compiler.target import wgmma as atoms

from .staging import slot_address
from .state import Lowering

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op

_UNITS = 0x3FFF  # of an address in a descriptor, 16 bytes each


def warpgroup(lowering: Lowering) -> Any:
    """The number of this warp's warpgroup, in a way that shows ptxas that all lanes agree."""
    b = lowering.b
    return b.entry("shfl.sync.idx.b32", b.entry("shr.u32", b.tid, 7), 0, 31, 0xFFFFFFFF)


class Operand:
    """An operand of a product: where slices and rows of it begin, and the fixed bits of its descriptors."""

    def __init__(
        self, lowering: Lowering, address: Any, columns: Any, shape: Any, which: int, size: int
    ) -> None:
        self.lowering = lowering
        self.columns = columns
        dims = dim_bits(shape)
        self.k, self.other = (dims[-1], dims[-2]) if which == 0 else (dims[-2], dims[-1])
        found = matrix_operand(columns, self.k, self.other, size)
        assert found is not None
        self.matrix = found
        self.fixed = atoms.descriptor(found.swizzle_bytes, found.leading_bytes, found.stride_bytes)
        b = lowering.b
        units = b.and_(32, b.shr(32, address, 4), _UNITS)
        self.base = b.add(64, b.wide(units, signed=False), self.fixed)

    def at(self, k: int, other: int) -> Any:
        """The descriptor of the part that begins at depth k and row (column) `other`."""
        offset = apply(self.columns, k << self.k[0] | other << self.other[0])
        return self.lowering.b.add(64, self.base, offset >> 4)


def lower_wgmma(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    result = op.results[0]
    type: Any = result.type
    layout = type.layout
    rows, columns = type.shape
    depth, elem = op.attr("depth"), op.attr("elem")
    name, log2_k, _ = atoms.TYPES.get(elem, ("s8", 5, False))
    size = 1 << (5 - log2_k)
    groups = lowering.num_warps // atoms.WARPS
    rows_each = rows // groups
    a_address = b.add(32, slot_address(lowering, op.operands[0], op.operands[1]), op.attr("a_start"))
    if groups > 1:  # groups take consecutive rows
        step = apply(op.attrs["a_arrangement"], rows_each << dim_bits((rows, depth))[0][0])
        a_address = b.add(32, a_address, b.mul(32, warpgroup(lowering), step))
    b_address = b.add(32, slot_address(lowering, op.operands[2], op.operands[3]), op.attr("b_start"))
    left = Operand(lowering, a_address, op.attrs["a_arrangement"], (rows, depth), 0, size)
    right = Operand(lowering, b_address, op.attrs["b_arrangement"], (depth, columns), 1, size)
    acc = op.operands[4]
    regs = accumulators(lowering, acc, layout)
    n_low, _ = dim_bits(type.shape)[1]
    m_low, _ = dim_bits(type.shape)[0]
    wide = min(columns, atoms.MAX_N)
    kind = "s32" if type.elem.name == "i32" else "f32"
    names = (name, name)
    if elem == "i8":
        signs = [op.attrs.get(f"signedness_{side}", "signed") for side in ("lhs", "rhs")]
        names = ("s8" if signs[0] == "signed" else "u8", "s8" if signs[1] == "signed" else "u8")
    opcode = f"wgmma.mma_async.sync.aligned.m64n{wide}k{1 << log2_k}.{kind}.{names[0]}.{names[1]}"
    tail: list[Any] = [] if elem == "i8" else [1, 1]
    if elem in ("f16", "bf16"):
        tail += [int(not left.matrix.k_major), int(not right.matrix.k_major)]
    b.emit_to(None, "wgmma.fence.sync.aligned")
    yes = b.true()
    reg_of = layout.reg_of
    for m in range(0, rows_each, atoms.M):
        for n in range(0, columns, wide):
            places = [
                reg_of[(n + 8 * i + (j & 1)) << n_low | (m + 8 * (j >> 1)) << m_low]
                for i in range(wide // 8)
                for j in range(4)
            ]
            d = tuple(regs[p] for p in places)
            for k in range(0, depth, 1 << log2_k):
                b.emit_to(d, opcode, left.at(k, m), right.at(k, n), yes, *tail)
    lowering.define(result, regs)


def accumulators(lowering: Lowering, acc: Any, layout: Any) -> list[Any]:
    """Registers that the product adds to: those of the value where nobody else looks at it, else copies."""
    b = lowering.b
    found = list(lowering.regs_as(acc, layout))
    block_arg = acc.op is None
    if len(acc.uses) == 1 and (block_arg or acc.op.spec.name == "wgmma") and len(set(found)) == len(found):
        return found
    return [b.fresh(r, "r") for r in found]


def lower_commit(lowering: Lowering, op: Op) -> None:
    lowering.b.emit_to(None, "wgmma.commit_group.sync.aligned")


def lower_wait(lowering: Lowering, op: Op) -> None:
    lowering.b.emit_to(None, "wgmma.wait_group.sync.aligned", op.attr("pending"))


LOWER = {"wgmma": lower_wgmma, "wgmma.commit_group": lower_commit, "wgmma.wait_group": lower_wait}
