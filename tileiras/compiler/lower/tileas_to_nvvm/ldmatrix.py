"""Fragments of 16-bit matrix operands through ldmatrix.

ldmatrix reads 8x8 matrices whose rows are 16 bytes of shared memory and hands thread t two neighbours of row t / 4
(or, transposed, of column t / 4). Both forms are one arrangement of index bits: three bits along a row (`run`),
three bits that number the rows (`rows`). An operand layout offers two such choices; the one whose run lies in the
source's registers is stored with wide vectors. Rows are swizzled over the banks, so neither side conflicts.
Source: PTX ISA manual, ldmatrix.
"""

from __future__ import annotations

from tileiras.compiler.layout.gf2 import apply
from tileiras.compiler.layout.linear import LinearLayout

from .shared import accesses, store_shared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .state import Lowering, Tile


class Arrangement:
    """Byte offsets of index bits, the row and run bits, whether ldmatrix transposes, log2 of the store vector."""

    __slots__ = ("bytes", "columns", "rows", "store_vec", "transposed")

    def __init__(
        self, columns: list[int], size: int, rows: Sequence[int], transposed: bool, store_vec: int
    ) -> None:
        self.columns = columns
        self.bytes = size
        self.rows = rows
        self.transposed = transposed
        self.store_vec = store_vec


_ARRANGEMENTS: dict[tuple[LinearLayout, LinearLayout], Arrangement | None] = {}


def arrangement(source: LinearLayout, target: LinearLayout) -> Arrangement | None:
    """How to move 16-bit elements into a fragment layout by ldmatrix; None when `target` is no fragment."""
    key = (source, target)
    if key not in _ARRANGEMENTS:
        _ARRANGEMENTS[key] = _arrange(source, target)
    return _ARRANGEMENTS[key]


def _arrange(source: LinearLayout, target: LinearLayout) -> Arrangement | None:
    if source.inv or target.inv or not target.reg:
        return None
    inner = (target.reg[0], target.lane[0], target.lane[1])
    outer = tuple(target.lane[2:5])
    bits = (*inner, *outer)
    if any(c == 0 or c & (c - 1) for c in bits) or len(set(bits)) != 6:
        return None

    def stored(run: Sequence[int]) -> int:
        count = 0
        while count < 3 and run[count] in source.reg:
            count += 1
        return count

    transposed = stored(outer) > stored(inner)
    run, rows = (outer, inner) if transposed else (inner, outer)
    order = [*run, *(1 << k for k in range(target.bits) if 1 << k not in run)]
    columns = {bit: 2 << i for i, bit in enumerate(order)}
    # the three row bits must reach all eight 16-byte bank groups
    own = {columns[r] for r in rows if 16 <= columns[r] <= 64}
    free = [b for b in (16, 32, 64) if b not in own]
    for r in rows:
        if not 16 <= columns[r] <= 64:
            if not free:
                break
            columns[r] ^= free.pop(0)
    image = [columns[1 << k] for k in range(target.bits)]
    return Arrangement(image, 2 << target.bits, rows, transposed, stored(run))


def move(lowering: Lowering, source: Tile, target: LinearLayout, plan: Arrangement, guard: Any) -> list[Any]:
    """The registers of `source` in `target`'s layout: one round trip."""
    b = lowering.b
    base = lowering.scratch(plan.bytes)
    for regs, address in accesses(lowering, source.layout, plan.columns, plan.store_vec, base):
        store_shared(lowering, address, [source.regs[r] for r in regs], "h", guard)
    lowering.barrier()
    image = plan.columns

    def offset(index: int) -> int:
        return apply(image, index)

    extra = target.reg[1:3]  # register bits that number the matrices of one instruction
    lane = [offset(r) for r in plan.rows] + [offset(c) for c in extra]
    lane += [0] * (5 - len(lane))
    warp = [offset(c) for c in target.warp]
    thread = b.thread_linear(lane, warp)
    used = 0
    for c in (*lane, *warp):
        used |= c
    count = 1 << len(extra)
    opcode = f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if plan.transposed else ''}.shared.b16"
    low = 1 + len(extra)
    out: list[Any] = [None] * target.num_regs
    starts: dict[int, Any] = {}
    for high in range(target.num_regs >> low):
        start = offset(apply(target.reg, high << low))
        clash, plain = start & used, start & ~used
        if clash not in starts:
            starts[clash] = b.add(32, base, thread if clash == 0 else b.xor(32, thread, clash))
        words = tuple(b.reg("r") for _ in range(count))
        b.emit_to(words if count > 1 else (words[0],), opcode, b.address(starts[clash], plain))
        for j, word in enumerate(words):
            first, second = b.unpack(word)
            r = high << low | j << 1
            out[r], out[r | 1] = first, second
    lowering.scratch_busy = True
    return out
