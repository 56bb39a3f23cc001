"""Values of tiles while code is made: scalars, stored tiles, and expressions that are computed where they are used.

An expression costs nothing until a loop asks for it, vector by vector; chains of ops thereby become one loop. What
several loops need is kept in a buffer by the first loop that computes it.
"""

from __future__ import annotations

from .code import BITS, MEMORY, REGISTER, bytes_of, const_vector, vec
from .registry import ELEMENTWISE
from .space import ONE, Chunk, Map, bits_of, breaks_of, compose

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .arena import Buffer
    from .code import Code

CHEAP = 3  # ops on indices and constants that are computed again rather than kept
GATHERED = ("i32", "i64", "float", "double")
WINDOW = 8  # vectors that one load may span before its lanes are picked


class Survey:
    """What a loop over some expressions must know before it starts."""

    __slots__ = ("breaks", "cost", "loads", "reads", "seen", "widest")

    def __init__(self) -> None:
        self.breaks: set[int] = set()
        self.reads: list[tuple[Any, Map]] = []  # tiles that are read from memory
        self.widest = 1  # bytes of the widest element
        self.loads: list[tuple[Any, Map]] = []  # loads from views that are still to be done
        self.cost = 0
        self.seen: set[Any] = set()


class Node:
    """A tile: element type name, shape, and how a vector of it is made."""

    __slots__ = ("bits", "buffer", "cost", "home", "keep", "name", "op", "shape", "wanted")

    def __init__(self, name: str, shape: Sequence[int]) -> None:
        self.name, self.shape = name, tuple(shape)
        self.bits = bits_of(self.shape)
        self.buffer: Buffer | None = None
        self.wanted: Buffer | None = None  # where a loop that computes all of it leaves a copy
        self.keep = False  # several loops use it
        self.home: Any = None  # the block of ops that made it: only code of this block may keep it for others
        self.cost = 1
        self.op: Any = None

    def sources(self) -> Sequence[Node]:
        return ()

    def get(self, lower: Any, chunk: Chunk, map: Map) -> str:
        """The vector of a chunk; `map` gives this tile's index bits in bits of the loop."""
        key = (self, map)
        found = chunk.memo.get(key)
        if found is None:
            if self.buffer is not None:
                found = load_mapped(chunk, lower.arena.touch(self.buffer), self.name, map)
            else:
                found = self.compute(lower, chunk, map)
                if self.keep and map in chunk.covers and self.home is lower.place:
                    if self.wanted is None:
                        self.wanted = lower.arena.new(bytes_of(self.name) << self.bits)
                    store_mapped(chunk, lower.arena.touch(self.wanted), self.name, map, found)
                    chunk.written[self] = None
            chunk.memo[key] = found
        return found

    def compute(self, lower: Any, chunk: Chunk, map: Map) -> str:
        raise NotImplementedError

    def survey(self, map: Map, into: Survey) -> None:
        if (self, map) in into.seen:
            return
        into.seen.add((self, map))
        into.widest = max(into.widest, bytes_of(self.name))
        if self.buffer is not None:
            into.breaks |= breaks_of(map)
            into.reads.append((self, map))
        else:
            self.explore(map, into)

    def explore(self, map: Map, into: Survey) -> None:
        """What a value that is not stored asks of the loop."""


class Uniform(Node):
    """One scalar in every element."""

    __slots__ = ("value",)

    def __init__(self, name: str, shape: Sequence[int], value: str) -> None:
        super().__init__(name, shape)
        self.value, self.cost = value, 0

    def get(self, lower: Any, chunk: Chunk, map: Map) -> str:
        key = ("splat", REGISTER[self.name], self.value)
        found = chunk.memo.get(key)
        if found is None:
            found = chunk.memo[key] = chunk.code.splat(REGISTER[self.name], chunk.lanes, self.value)
        return found

    def survey(self, map: Map, into: Survey) -> None:
        into.widest = max(into.widest, bytes_of(self.name))


class Iota(Node):
    """0, 1, 2, ..."""

    __slots__ = ()

    def compute(self, lower: Any, chunk: Chunk, map: Map) -> str:
        c, type, n = chunk.code, REGISTER[self.name], chunk.lanes
        start = chunk.offset(map)
        if not start.lstrip("-").isdigit():
            if type != "i64":
                start = c.op(f"trunc i64 {start} to {type}")
            base = c.splat(type, n, start)
        else:
            base = c.splat(
                type,
                n,
                str(int(start) & ((1 << BITS[type]) - 1))
                if type != "i1"
                else ("true" if int(start) & 1 else "false"),
            )
        steps = chunk.lane_offsets(map)
        mask = (1 << BITS[type]) - 1 if type != "i1" else 1
        return (
            c.bin("add", type, n, base, const_vector(type, [s & mask for s in steps])) if any(steps) else base
        )

    def explore(self, map: Map, into: Survey) -> None:
        into.breaks |= breaks_of(map)


class Stored(Node):
    """A tile that lies in a buffer, or at a pointer that is fixed for the whole function."""

    __slots__ = ("pointer",)

    def __init__(self, name: str, shape: Sequence[int], buffer: Buffer | None, pointer: str = "") -> None:
        super().__init__(name, shape)
        self.buffer, self.pointer = buffer, pointer

    def compute(self, lower: Any, chunk: Chunk, map: Map) -> str:
        return load_mapped(chunk, self.pointer, self.name, map)

    def explore(self, map: Map, into: Survey) -> None:
        into.breaks |= breaks_of(map)
        into.reads.append((self, map))


class Elementwise(Node):
    """An op on equally placed elements of its operands."""

    __slots__ = ("operands",)

    def __init__(self, op: Any, name: str, shape: Sequence[int], operands: Sequence[Node]) -> None:
        super().__init__(name, shape)
        self.op, self.operands = op, tuple(operands)
        self.cost = weight(op.spec.name) + sum(o.cost for o in operands)

    def sources(self) -> Sequence[Node]:
        return self.operands

    def compute(self, lower: Any, chunk: Chunk, map: Map) -> str:
        args = [o.get(lower, chunk, map) for o in self.operands]
        return ELEMENTWISE[self.op.spec.name](chunk.code, chunk.lanes, self.op, *args)

    def explore(self, map: Map, into: Survey) -> None:
        into.cost += weight(self.op.spec.name)
        for o in self.operands:
            o.survey(map, into)


def weight(name: str) -> int:
    """About how much an op costs, in simple instructions."""
    return WEIGHTS.get(name, 1)


WEIGHTS = {
    **dict.fromkeys(("exp", "exp2", "log", "log2", "tanh"), 20),
    **dict.fromkeys(("sin", "cos", "tan", "sinh", "cosh", "fpowf", "fpowi", "atan2", "remf"), 60),
    **dict.fromkeys(("divf", "sqrt", "rsqrt"), 6),
    **dict.fromkeys(("divi", "remi"), 10),
    **dict.fromkeys(("maxf", "minf", "ftof"), 4),
}


class Remapped(Node):
    """Elements of another tile in other places: reshape, broadcast, permute. `inner`: its bits in ours."""

    __slots__ = ("inner", "source")

    def __init__(self, source: Node, shape: Sequence[int], inner: Map) -> None:
        super().__init__(source.name, shape)
        self.source, self.inner, self.cost = source, inner, source.cost

    def sources(self) -> Sequence[Node]:
        return (self.source,)

    def compute(self, lower: Any, chunk: Chunk, map: Map) -> str:
        return self.source.get(lower, chunk, compose(self.inner, map))

    def explore(self, map: Map, into: Survey) -> None:
        self.source.survey(compose(self.inner, map), into)


# ---- vectors from and to memory


def load_elements(c: Code, n: int, pointer: str, name: str, more: str = "") -> str:
    """n consecutive elements; an i1 is a byte in memory."""
    out = c.load(MEMORY[name], n, pointer, bytes_of(name), more)
    return c.cmp("ne", "i8", n, out, "0" if n == 1 else "zeroinitializer") if name == "i1" else out


def as_memory(c: Code, n: int, value: str, name: str) -> str:
    return c.cast("zext", "i1", "i8", n, value) if name == "i1" else value


def store_elements(c: Code, n: int, value: str, pointer: str, name: str, more: str = "") -> None:
    c.store(MEMORY[name], n, as_memory(c, n, value, name), pointer, bytes_of(name), more)


def load_mapped(chunk: Chunk, pointer: str, name: str, map: Map) -> str:
    """The chunk's elements of a packed tile at `pointer`."""
    c, n = chunk.code, chunk.lanes
    base, lanes, type = chunk.offset(map), chunk.lane_offsets(map), MEMORY[name]
    if lanes == list(range(n)):
        return load_elements(c, n, c.gep(pointer, base, type), name)
    if len(set(lanes)) == 1:
        one = load_elements(c, 1, c.gep(pointer, c.add(base, str(lanes[0])), type), name)
        return c.splat(REGISTER[name], n, one)
    top = max(lanes).bit_length()
    if (1 << top) <= WINDOW * n and all(m < 0 or m % (1 << 16) < chunk.w for m in map[:top]):
        low = sum(1 << i for i, m in enumerate(map[:top]) if m == ONE)
        start = c.gep(pointer, c.add(base, str(-low)), type)
        window = load_elements(c, 1 << top, start, name)
        return c.shuffle(REGISTER[name], 1 << top, window, None, [lane + low for lane in lanes])
    start = c.gep(pointer, base, type)
    if type in GATHERED and "gather" in c.features:
        pointers = c.op(f"getelementptr {type}, ptr {start}, <{n} x i64> {const_vector('i64', lanes)}")
        return gather(c, n, pointers, type, None, None)
    out = "poison"
    for lane, at in enumerate(lanes):
        one = c.load(type, 1, c.gep(start, str(at), type), bytes_of(name))
        out = c.op(f"insertelement {vec(type, n)} {out}, {type} {one}, i64 {lane}")
    return c.cmp("ne", "i8", n, out, "zeroinitializer") if name == "i1" else out


def store_mapped(chunk: Chunk, pointer: str, name: str, map: Map, value: str) -> None:
    """The chunk's elements into a packed tile at `pointer`."""
    c, n = chunk.code, chunk.lanes
    base, lanes, type = chunk.offset(map), chunk.lane_offsets(map), MEMORY[name]
    if lanes == list(range(n)):
        store_elements(c, n, value, c.gep(pointer, base, type), name)
        return
    value = as_memory(c, n, value, name)
    for lane, at in enumerate(lanes):
        one = c.op(f"extractelement {vec(type, n)} {value}, i64 {lane}")
        c.store(type, 1, one, c.gep(pointer, c.add(base, str(at)), type), bytes_of(name))


def gather(c: Code, n: int, pointers: str, type: str, mask: str | None, other: str | None) -> str:
    """Elements at a vector of pointers; `other` where the mask is off."""
    t, name = (
        vec(type, n),
        f"llvm.masked.gather.v{n}{ {'float': 'f32', 'double': 'f64'}.get(type, type) }.v{n}p0",
    )
    c.module.declare(name, f"declare {t} @{name}(<{n} x ptr>, i32, <{n} x i1>, {t})")
    return c.op(
        f"call {t} @{name}(<{n} x ptr> {pointers}, i32 {BITS[type] // 8}, <{n} x i1> {mask or 'splat (i1 true)'}, "
        f"{t} {other or 'poison'})"
    )
