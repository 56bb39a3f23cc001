"""Memory of a tile block: buffers that hold tiles, placed so that those which never live together share bytes."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tileiras.compiler.ir.core import Op

    from .code import Code

ALIGN = 64
ON_STACK = 512  # bytes up to which a buffer is a local variable, which LLVM may keep in registers


class Buffer:
    """Bytes for one tile: `pointer` is its LLVM name, [first, last] the ops between which it is in use."""

    __slots__ = ("first", "last", "number", "pointer", "size")

    def __init__(self, number: int, size: int, pointer: str, now: int) -> None:
        self.number, self.size, self.pointer = number, size, pointer
        self.first = self.last = now


class Arena:
    """Buffers of one function. Offsets are decided when all uses are known: until then they stand as @@n@@."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.buffers: list[Buffer] = []
        self.now = 0
        self.loops: list[tuple[int, int]] = []  # ops [start, end] of each loop
        self.size = 0
        self.op: Op | None = None  # that is being lowered
        self.largest: tuple[int, Op | None] = 0, None  # bytes, the op that asked for them

    def new(self, size: int, keep: bool = False) -> Buffer:
        """A buffer of so many bytes; keep: it lives as long as the function."""
        if size <= ON_STACK and not keep:
            pointer = self.code.alloca(f"[{max(size, 1)} x i8]", ALIGN)
            return Buffer(-1, size, pointer, self.now)
        if size > self.largest[0]:
            self.largest = size, self.op
        number = len(self.buffers)
        pointer = self.code.at_entry(f"getelementptr i8, ptr %arena, i64 @@{number}@@")
        buffer = Buffer(number, size, pointer, self.now)
        if keep:
            buffer.first, buffer.last = 0, 1 << 60
        self.buffers.append(buffer)
        return buffer

    def touch(self, buffer: Buffer) -> str:
        """The buffer's pointer; it is in use now."""
        buffer.last = max(buffer.last, self.now)
        return buffer.pointer

    def place(self, text: str) -> str:
        """The function's text with all offsets; `size` is then what a tile block needs."""
        for buffer in self.buffers:
            for start, end in self.loops:
                if buffer.first < start <= buffer.last < end:  # made before the loop, used in every round
                    buffer.last = end
        placed: list[tuple[int, int, Buffer]] = []
        for buffer in sorted(self.buffers, key=lambda b: -b.size):
            size = (buffer.size + ALIGN - 1) // ALIGN * ALIGN
            at = 0
            for start, end, other in sorted(placed, key=lambda p: p[0]):
                if other.last < buffer.first or buffer.last < other.first:
                    continue
                if at + size <= start:
                    break
                at = max(at, end)
            placed.append((at, at + size, buffer))
            self.size = max(self.size, at + size)
        for at, _, buffer in placed:
            text = text.replace(f"@@{buffer.number}@@", str(at))
        return text
