"""The 208-byte diagnostic record, built where its bytes mean something: at the C border.

A record lives in an arena together with everything it points to (strings, spilled arguments, location, notes). In the
arena a pointer is an offset, and its place is listed, so that a worker can send the arena to another process, which
adds the address it put it at. Offsets (all numbers little-endian):

    +0x00  pointer to the location        never null while the body is alive
    +0x10  u16 severity word
    +0x18  pointer args_begin             +0x20 u32 count    +0x24 u32 capacity
    +0x28  four argument slots of 24 bytes; the fifth argument moves all of them to the heap
    +0x88  pointer to an array of pointers to the records of the notes    +0x90 u32 count
    +0x98  pointer to the op name, null without one
    +0xcf  the guard byte: nonzero once the engine had the body

An argument is (u64 kind, u64 value, u64 length): a string or type text (pointer, NUL-terminated UTF-8, length in
bytes), a signed integer, or the bits of a double. A location is (pointer to file, u32 line, u32 column, pointer to
the call site's location or null).
"""

from __future__ import annotations

import struct

from tileiras.diag import UNKNOWN, WORD_TRACE, Diag, Emitted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tileiras.diag import Loc

SIZE = 208
LOCATION = 0x00
SEVERITY = 0x10
ARGS_BEGIN = 0x18
ARG_COUNT = 0x20
ARG_CAPACITY = 0x24
INLINE = 0x28
INLINE_SLOTS = 4
ARG_SIZE = 24
NOTES = 0x88
NOTE_COUNT = 0x90
OP_NAME = 0x98
GUARD = 0xCF

STRING, INTEGER, DOUBLE, TYPE = 1, 2, 3, 4
LOCATION_SIZE = 24


class Arena:
    """Memory that grows; what is allocated is zero-filled, whatever the buffer held before."""

    __slots__ = ("memory", "pointers", "used")

    def __init__(self, memory: bytearray | None = None) -> None:
        self.memory = bytearray() if memory is None else memory
        self.used = 0
        self.pointers: list[int] = []  # places that hold an offset into this arena

    def allocate(self, size_bytes: int) -> int:
        at = -(-self.used // 8) * 8
        end = at + size_bytes
        if end > len(self.memory):
            self.memory.extend(bytes(end - len(self.memory)))
        self.memory[at:end] = bytes(size_bytes)
        self.used = end
        return at

    def point(self, place: int, target: int) -> None:
        """Store a pointer."""
        struct.pack_into("<Q", self.memory, place, target)
        if place not in self.pointers:
            self.pointers.append(place)

    def text(self, value: str) -> tuple[int, int]:
        """(offset, length in bytes) of a NUL-terminated UTF-8 string."""
        data = value.encode("utf-8", "surrogateescape")
        at = self.allocate(len(data) + 1)
        self.memory[at : at + len(data)] = data
        return at, len(data)

    def location(self, loc: Loc) -> int:
        at = self.allocate(LOCATION_SIZE)
        self.point(at, self.text(loc.file)[0])
        struct.pack_into("<II", self.memory, at + 8, loc.line & 0xFFFFFFFF, loc.col & 0xFFFFFFFF)
        return at

    def place_at(self, address: int) -> bytes:
        """The bytes as they must lie at `address`."""
        placed = bytearray(self.memory[: self.used])
        for place in self.pointers:
            struct.pack_into("<Q", placed, place, struct.unpack_from("<Q", placed, place)[0] + address)
        return bytes(placed)


class Body:
    """A record under construction."""

    __slots__ = ("arena", "at")

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self.at = arena.allocate(SIZE)
        struct.pack_into("<I", arena.memory, self.at + ARG_CAPACITY, INLINE_SLOTS)
        arena.point(self.at + ARGS_BEGIN, self.at + INLINE)

    def word(self, offset: int, form: str) -> int:
        """A field's value."""
        return struct.unpack_from("<" + form, self.arena.memory, self.at + offset)[0]

    def append(self, value: object) -> int:
        """Stream one argument; the offset of its slot."""
        memory = self.arena.memory
        count, capacity = self.word(ARG_COUNT, "I"), self.word(ARG_CAPACITY, "I")
        if count == capacity:
            self._spill(count)
        slot = self.word(ARGS_BEGIN, "Q") + count * ARG_SIZE
        if isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63:
            struct.pack_into("<QqQ", memory, slot, INTEGER, value, 0)
        elif isinstance(value, float):
            struct.pack_into("<QdQ", memory, slot, DOUBLE, value, 0)
        else:
            kind = TYPE if type(value).__module__.endswith(".ir.types") else STRING
            text, length = self.arena.text(str(value))
            struct.pack_into("<QQQ", memory, slot, kind, 0, length)
            self.arena.point(slot + 8, text)
        struct.pack_into("<I", memory, self.at + ARG_COUNT, count + 1)
        return slot

    def _spill(self, count: int) -> None:
        old = self.word(ARGS_BEGIN, "Q")
        memory = self.arena.memory
        heap = self.arena.allocate(2 * count * ARG_SIZE)
        memory[heap : heap + count * ARG_SIZE] = memory[old : old + count * ARG_SIZE]
        for place in [p for p in self.arena.pointers if old <= p < old + count * ARG_SIZE]:
            self.arena.pointers.append(place - old + heap)
        struct.pack_into("<I", memory, self.at + ARG_CAPACITY, 2 * count)
        self.arena.point(self.at + ARGS_BEGIN, heap)


def encode(emitted: Emitted, arena: Arena | None = None) -> Arena:
    """The record of a diagnostic and everything behind it; the body is at offset 0 of a new arena."""
    arena = arena if arena is not None else Arena()
    body = Body(arena)
    if emitted.loc is not None:
        place = body.at + LOCATION
        arena.point(place, arena.location(emitted.loc))
        inner = struct.unpack_from("<Q", arena.memory, place)[0]
        for caller in emitted.loc.callers:
            outer = arena.location(caller)
            arena.point(inner + 16, outer)
            inner = outer
    struct.pack_into("<H", arena.memory, body.at + SEVERITY, emitted.word)
    for value in emitted.args:
        body.append(value)
    if emitted.op:
        arena.point(body.at + OP_NAME, arena.text(emitted.op)[0])
    loc = emitted.loc or UNKNOWN
    trace = [Emitted(_TRACE, loc, facts=(("where", str(caller)),)) for caller in loc.callers]
    children = [encode_child(note, arena) for note in [*trace, *emitted.notes]]
    if children:
        table = arena.allocate(8 * len(children))
        for i, child in enumerate(children):
            arena.point(table + 8 * i, child)
        arena.point(body.at + NOTES, table)
        struct.pack_into("<I", arena.memory, body.at + NOTE_COUNT, len(children))
    arena.memory[body.at + GUARD] = emitted.flushed & 0xFF
    return arena


def encode_child(note: Emitted, arena: Arena) -> int:
    """The offset of a note's record in the arena of its parent."""
    at = -(-arena.used // 8) * 8
    encode(Emitted(note.diag, _plain(note.loc), note.op, note.facts, note.notes), arena)
    return at


def _plain(loc: Loc | None) -> Loc:
    """A location without its call sites: the parent's trace has them."""
    from tileiras.diag import Loc as Location

    return Location(loc.file, loc.line, loc.col) if loc is not None else UNKNOWN


_TRACE = Diag("TRACE", WORD_TRACE & 0xFF, "called from {where}", word=WORD_TRACE)
"""
cause: One step of the way by which the place above was reached.
remedy: Nothing to do for itself; see the error that it belongs to.

! One step of the call trace in the records that C programs see; the message that it belongs to has a code of its
own.
"""


class Record:
    """A record at a real address of this process, for Python callbacks and for ctypes."""

    __slots__ = ("_buffer", "address")

    def __init__(self, emitted: Emitted) -> None:
        import ctypes

        arena = encode(emitted)
        self._buffer = ctypes.create_string_buffer(arena.used)
        self.address = ctypes.addressof(self._buffer)
        ctypes.memmove(self._buffer, arena.place_at(self.address), arena.used)

    def __bytes__(self) -> bytes:
        """The 208 bytes of the body."""
        return self._buffer.raw[:SIZE]
