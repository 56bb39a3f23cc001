"""wgmma: descriptors of operands in shared memory, one instruction a slice of K and 64 rows, groups and waits."""

from __future__ import annotations

from tileiras.compiler.ir.dense import dense_bits
from tileiras.compiler.layout.gf2 import apply
from tileiras.compiler.layout.linear import dim_bits, log2
from tileiras.compiler.layout.shared import matrix_operand
from tileiras.compiler.target import wgmma as atoms

from .staging import units_of
from .state import Lowering
from .transfer import pack_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op


def warpgroup(lowering: Lowering) -> Any:
    """The number of this warp's warpgroup, in a way that shows ptxas that all lanes agree."""
    b = lowering.b
    return b.entry("shfl.sync.idx.b32", b.entry("shr.u32", b.tid, 7), 0, 31, 0xFFFFFFFF)


def part_of_group(lowering: Lowering, op: Op, which: int, shape: Any, columns: Any, start: Any) -> Any:
    """Where this warpgroup's rows of the left operand (0), or columns of the right one (1), begin in shared memory. Bits of its
    number stand for the tops of rows, then of columns."""
    b = lowering.b
    groups = split(lowering, op)
    low, count = dim_bits(shape)[which]
    for k in range(groups[which]):
        step = apply(columns, 1 << low + count - 1 - k)
        bit = warpgroup(lowering)
        if sum(groups) > 1:
            bit = b.entry("and.b32", b.entry("shr.u32", bit, groups[0] * which + k), 1)
        start = b.entry("mad.lo.s32", bit, step, start)
    return start


def split(lowering: Lowering, op: Op) -> tuple[int, int]:
    """Bits of a warpgroup's number that choose rows and columns of a product."""
    found = atoms.split_groups(op.results[0].type.shape, log2(lowering.num_warps))  # type: ignore[attr-defined]
    assert found is not None
    return found


class Operand:
    """An operand of a product: where slices and rows of it begin, and the fixed bits of its descriptors.

    The place of the buffer goes into the descriptor in the prologue; a loop adds the slot, in units of 16 bytes. Both stay below
    the 2^14 units that a descriptor has, so that nothing is carried into its other bits.
    """

    def __init__(
        self,
        lowering: Lowering,
        buffer: Any,
        slot: Any,
        start: Any,
        columns: Any,
        shape: Any,
        which: int,
        size: int,
    ) -> None:
        self.lowering = lowering
        self.columns = columns
        dims = dim_bits(shape)
        self.k, self.other = (dims[-1], dims[-2]) if which == 0 else (dims[-2], dims[-1])
        found = matrix_operand(columns, self.k, self.other, size)
        assert found is not None
        self.matrix = found
        fixed = atoms.descriptor(found.swizzle_bytes, found.leading_bytes, found.stride_bytes)
        b = lowering.b
        place = lowering.smem_base
        if not isinstance(start, int):
            place = b.entry("add.s32", place, start)
            start = 0
        if start := start + lowering.env[buffer]:
            place = b.entry("add.s32", place, start)
        units = units_of(lowering, place)
        base = b.entry("add.s64", units, fixed - (fixed >> 63 << 64))
        self.base = b.add(64, base, b.wide(b.shr(32, lowering.scalar(slot), 4), signed=False))

    def at(self, k: int, other: int) -> Any:
        """The descriptor of the part that begins at depth k and row (column) `other`."""
        offset = apply(self.columns, k << self.k[0] | other << self.other[0])
        return self.lowering.b.add(64, self.base, offset >> 4)


def lower_wgmma(lowering: Lowering, op: Op) -> None:
    """Both operands in shared memory."""
    rows = op.results[0].type.shape[0]  # type: ignore[attr-defined]
    depth, size = op.attr("depth"), _size(op)
    start = part_of_group(lowering, op, 0, (rows, depth), op.attrs["a_arrangement"], op.attr("a_start"))
    left = Operand(
        lowering, op.operands[0], op.operands[1], start, op.attrs["a_arrangement"], (rows, depth), 0, size
    )
    _issue(lowering, op, left.at, left.matrix.k_major, op.operands[2:])


def lower_wgmma_registers(lowering: Lowering, op: Op) -> None:
    """A in registers, in mma.sync's fragment layout: words of four bytes along K."""
    b = lowering.b
    a: Any = op.operands[0].type
    tile = lowering.tile(op.operands[0])
    m_low, k_low = dim_bits(a.shape)[0][0], dim_bits(a.shape)[1][0]
    reg_of, keep = tile.layout.reg_of, ~tile.layout.inv
    count = 4 // _size(op)  # elements of a word

    def words(k: int, m: int) -> tuple[Any, ...]:
        out = []
        for step in (0, 4 * count):
            for row in (0, 8):
                values = [
                    tile.regs[reg_of[((k + step + i) << k_low | (m + row) << m_low) & keep]]
                    for i in range(count)
                ]
                if count == 1:
                    out.append(b.materialize(values[0], "r"))
                else:
                    out += pack_words(lowering, values, tile.elem)
        return tuple(out)

    _issue(lowering, op, words, True, op.operands[1:])


def _size(op: Op) -> int:
    """Bytes of an element of the operands."""
    return 1 << (5 - _row(op)[1])


def _row(op: Op) -> tuple[str, int, bool]:
    found = atoms.row_of(op.attr("elem"))
    assert found is not None
    return found


def _issue(lowering: Lowering, op: Op, left: Any, a_k_major: bool, others: Any) -> None:
    """One instruction for 64 rows of each warpgroup, up to 256 columns and one slice of K. `left(k, m)`: what stands for A."""
    b = lowering.b
    result = op.results[0]
    type: Any = result.type
    layout = type.layout
    columns = type.shape[1]
    depth, elem = op.attr("depth"), op.attr("elem")
    name, log2_k, _ = _row(op)
    buffer, slot, acc = others
    arrangement = op.attrs["b_arrangement"]
    start = part_of_group(lowering, op, 1, (depth, columns), arrangement, op.attr("b_start"))
    right = Operand(lowering, buffer, slot, start, arrangement, (depth, columns), 1, _size(op))
    own_rows, own_columns = (e >> k for e, k in zip(type.shape, split(lowering, op)))
    n_low, m_low = dim_bits(type.shape)[1][0], dim_bits(type.shape)[0][0]
    wide = min(own_columns, atoms.MAX_N)
    names = (name, name)
    if elem == "i8":
        signs = [op.attrs.get(f"signedness_{side}", "signed") for side in ("lhs", "rhs")]
        names = ("s8" if signs[0] == "signed" else "u8", "s8" if signs[1] == "signed" else "u8")
    kind = "s32" if type.elem.name == "i32" else "f32"
    opcode = f"wgmma.mma_async.sync.aligned.m64n{wide}k{1 << log2_k}.{kind}.{names[0]}.{names[1]}"
    tail: list[Any] = [] if elem == "i8" else [1, 1]
    in_shared = op.spec.name == "wgmma"
    if elem in ("f16", "bf16"):
        if in_shared:
            tail.append(int(not a_k_major))
        tail.append(int(not right.matrix.k_major))
    zero = is_zero(acc)
    regs = [b.reg("r") for _ in range(layout.num_regs)] if zero else accumulators(lowering, acc, layout)
    sides = [
        (m, n, k, left(k, m), right.at(k, n))
        for m in range(0, own_rows, atoms.M)
        for n in range(0, own_columns, wide)
        for k in range(0, depth, 1 << log2_k)
    ]
    yes = b.true()
    first = b.true(False) if zero else yes
    b.emit_to(None, "wgmma.fence.sync.aligned")
    reg_of = layout.reg_of
    for m, n, k, a, other in sides:
        d = tuple(
            regs[reg_of[(n + 8 * i + (j & 1)) << n_low | (m + 8 * (j >> 1)) << m_low]]
            for i in range(wide // 8)
            for j in range(4)
        )
        b.emit_to(d, opcode, a, other, first if k == 0 else yes, *tail)
    lowering.define(result, regs)


def is_zero(acc: Any) -> bool:
    """Whether an accumulator begins as zeros, which the first instruction need not read."""

    op = acc.op
    return op is not None and op.spec.name == "constant" and not any(dense_bits(op.attr("value")))


def accumulators(lowering: Lowering, acc: Any, layout: Any) -> list[Any]:
    """Registers that the product adds to: those of the value where nobody else can look at them, else copies.

    What was computed from a value that the loop carries and nobody else uses can have no twin that shares registers.
    """
    b = lowering.b
    found = list(lowering.regs_as(acc, layout))
    op = acc.op
    own = op is None or op.spec.name == "wgmma"
    if not own and op.spec.is_pure and len(op.results) == 1:
        own = any(v.op is None and len(v.uses) == 1 and v.type is acc.type for v in op.operands)
    if own and len(acc.uses) == 1 and len(set(found)) == len(found):
        b.forget(found)
        return found
    return [b.fresh(r, "r") for r in found]


def lower_commit(lowering: Lowering, op: Op) -> None:
    lowering.b.emit_to(None, "wgmma.commit_group.sync.aligned")


def lower_wait(lowering: Lowering, op: Op) -> None:
    lowering.b.emit_to(None, "wgmma.wait_group.sync.aligned", op.attr("pending"))


def lower_turn(lowering: Lowering, op: Op) -> None:
    """A named barrier of both warpgroups' threads: one of them waits there and the other arrives.

    ptxas would wait first and compute then. So the barrier's number depends on what is to be computed before: by bits of which
    none is kept, since the warpgroup's number is 0 or 1, which ptxas does not know.
    """
    b, first, threads = lowering.b, op.attr("barrier"), 2 * 32 * atoms.WARPS
    number = warpgroup(lowering)
    name = op.spec.name
    if name == "turns.take":
        own = b.entry("add.s32", number, first)
        for value in op.operands:
            some, *more = lowering.tile(value).regs
            for reg in more:
                some = b.emit("or.b32", some, reg)
            own = b.emit("add.s32", own, b.emit("and.b32", some, b.entry("shr.u32", number, 1)))
        b.emit_to(None, "bar.sync", own, threads)
    elif name == "turns.give":
        b.emit_to(None, "bar.arrive", b.entry("sub.s32", first + 1, number), threads)
    else:
        only = 1 if name == "turns.begin" else 0
        guard = b.entry("setp.eq.u32", number, only)
        b.emit_to(None, "bar.arrive", first + 1 - only, threads, guard=guard)


LOWER = {
    **dict.fromkeys(("turns.begin", "turns.take", "turns.give", "turns.end"), lower_turn),
    "wgmma": lower_wgmma, "wgmma.registers": lower_wgmma_registers, "wgmma.commit_group": lower_commit,
    "wgmma.wait_group": lower_wait,
}  # fmt: skip
