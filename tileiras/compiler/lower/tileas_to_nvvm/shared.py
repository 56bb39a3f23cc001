"""Shared memory between the threads of a block: who stores an element, where it lies, in what vectors it travels."""

from __future__ import annotations

from tileiras.compiler.layout.algebra import LANE, REGISTER, WARP
from tileiras.compiler.layout.gf2 import apply, table
from tileiras.compiler.layout.linear import LinearLayout, placed
from tileiras.compiler.target.registers import CLASS_BYTES, reg_class

from .state import Lowering, Tile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from tileiras.compiler.ir.core import Op


def owner_guard(lowering: Lowering, layout: LinearLayout) -> Any:
    """The predicate of threads that own their elements; None when every thread does."""
    lanes, warps = layout.replicated
    mask = lanes | warps << 5
    if not mask:
        return None
    b = lowering.b
    return b.entry("setp.eq.u32", b.entry("and.b32", b.tid, mask), 0)


def broadcast_owned(lowering: Lowering, op: Op, tile: Tile) -> Sequence[Any]:
    """Every copy of an element gets the value of its owner (a strong load or an atomic ran once)."""
    b = lowering.b
    cls = reg_class(tile.elem)
    size = CLASS_BYTES[cls]
    layout = tile.layout
    count = 1 << layout.bits
    base = lowering.scratch(op, count * size)
    guard = owner_guard(lowering, layout)
    thread = b.thread_linear([c * size for c in layout.lane], [c * size for c in layout.warp])
    where = [b.address(b.add(32, base, b.xor(32, thread, offset * size))) for offset in layout.reg_table]
    for address, value in zip(where, tile.regs):
        store_shared(lowering, address, [value], cls, guard)
    lowering.barrier()
    out = [load_shared(lowering, address, 1, cls)[0] for address in where]
    return out


def accesses(
    lowering: Lowering, layout: LinearLayout, columns: tuple[int, ...], vec: int, base: Any, within: int = 0
) -> list[tuple[list[int], Any]]:
    """(registers, address) of every access: 2^vec registers whose offsets are consecutive. Element 0 lies `within`
    bytes behind the base."""
    place = placed(layout, columns).ins
    at = Threads(lowering, base, place[LANE], place[WARP])
    elem = min((c for c in columns if c), default=1)
    groups: dict[int, list[tuple[int, int]]] = {}
    mask = (elem << vec) - 1
    for r, offset in enumerate(table(place[REGISTER])):
        total = within ^ offset
        groups.setdefault(total & ~mask, []).append((total & mask, r))
    return [([r for _, r in sorted(members)], at(start)) for start, members in groups.items()]


class Threads:
    """Addresses of shared memory that are linear in the thread: `base`, what `lane` and `warp` add by xor, and an offset that
    is xored as well where the thread may have its bits, and an immediate where not."""

    def __init__(self, lowering: Lowering, base: Any, lane: Sequence[int], warp: Sequence[int]) -> None:
        self.b = lowering.b
        self.base = base
        self.thread = self.b.thread_linear(lane, warp)
        self.used = 0
        for c in (*lane, *warp):
            self.used |= c
        self.xored: dict[int, Any] = {}

    def __call__(self, offset: int, immediate: int = 0) -> Any:
        clash = offset & self.used
        if clash not in self.xored:
            where = self.thread if clash == 0 else self.b.xor(32, self.thread, clash)
            self.xored[clash] = self.b.add(32, self.base, where)
        return self.b.address(self.xored[clash], immediate + (offset & ~self.used))


def matrices(
    lowering: Lowering,
    layout: LinearLayout,
    columns: tuple[int, ...],
    rows: Sequence[int],
    numbers: Sequence[int],
    base: Any,
    start: int = 0,
    within: int = 0,
) -> Iterator[tuple[Any, int]]:
    """(address of this lane's row, matrices) of every instruction that moves 8x8 matrices of a tile in `layout`. `rows`: the
    index bits that number a matrix's rows; `numbers`: those of registers that number the matrices, in order. The tile lies
    `start` bytes behind the base; its element 0 lies at `within`, which a swizzle may have mixed."""
    together = numbers[:2]  # matrices of one instruction: up to four
    lane = [apply(columns, c) for c in (*rows, *together)]
    at = Threads(lowering, base, lane + [0] * (5 - len(lane)), placed(layout, columns).ins[WARP])
    for offset in table([apply(columns, c) for c in numbers[2:]]):
        yield at(within ^ offset, start), 1 << len(together)


def store_shared(lowering: Lowering, address: Any, values: Sequence[Any], cls: str, guard: Any) -> None:
    """One vector store of register-class elements (p: one byte each)."""
    b = lowering.b
    if cls == "p":
        for i, value in enumerate(values):
            word = b.emit("selp.b32", 1, 0, value)
            b.emit_to(None, "st.shared.u8", _shift(b, address, i), word, guard=guard)
        return
    if cls == "h" and len(values) > 1:
        words = [b.pack(values[i], values[i + 1]) for i in range(0, len(values), 2)]
        return store_shared(lowering, address, words, "r", guard)
    bits = {"h": 16, "r": 32, "d": 64}[cls]
    values = [b.materialize(value, cls) for value in values]
    if len(values) == 1:
        b.emit_to(None, f"st.shared.b{bits}", address, values[0], guard=guard)
    else:
        b.emit_to(None, f"st.shared.v{len(values)}.b{bits}", address, tuple(values), guard=guard)


def load_shared(lowering: Lowering, address: Any, count: int, cls: str) -> list[Any]:
    """One vector load of `count` register-class elements."""
    b = lowering.b
    if cls == "p":
        out = []
        for i in range(count):
            word = b.reg("r")
            b.emit_to(word, "ld.shared.u8", _shift(b, address, i))
            out.append(b.emit("setp.ne.b32", word, 0))
        return out
    if cls == "h" and count > 1:
        halves: list[Any] = []
        for word in load_shared(lowering, address, count // 2, "r"):
            halves += b.unpack(word)
        return halves
    bits = {"h": 16, "r": 32, "d": 64}[cls]
    if count == 1:
        return [b.emit(f"ld.shared.b{bits}", address)]
    regs = tuple(b.reg(cls) for _ in range(count))
    b.emit_to(regs, f"ld.shared.v{count}.b{bits}", address)
    return list(regs)


def _shift(b: Any, address: Any, offset_bytes: int) -> Any:
    return b.address(address.base, address.offset_bytes + offset_bytes) if offset_bytes else address
