"""Ops that reach beyond tiles: assertions, printing, globals, memory of a tile block, bytes of tiles."""

from __future__ import annotations

from .code import MEMORY, bytes_of, name_of
from .registry import Unsupported, lowers
from .runtime import FIXED
from .space import ONE, ZERO, Chunk, Map, identity
from .tiles import Node, Remapped, Stored, Survey, Uniform

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tileiras.compiler.ir.core import Op

    from .lower import Lower


@lowers("assert")
def lower_assert(lower: Lower, op: Op) -> None:
    node = lower.node(op.operands[0])
    if isinstance(node, Uniform):
        lower.fault(op, lower.c.op(f"xor i1 {node.value}, true"), "-1" if not node.shape else "0")
        return
    lower.force(node)
    map = identity(node.bits)

    def body(chunk: Chunk) -> None:
        value = node.get(lower, chunk, map)
        lower.fault(op, lower.c.op(f"xor i1 {value}, true"), chunk.offset(map))

    lower.walk(node.bits, 0, set(), body, True)


@lowers("get_global")
def lower_get_global(lower: Lower, op: Op) -> None:
    number = lower.globals[op.attr("name")]
    first = FIXED + len(lower.func.regions[0].block.args)
    lower.values[op.result] = Uniform("ptr", (), lower.word(first + number))


@lowers("alloca")
def lower_alloca(lower: Lower, op: Op) -> None:
    """Memory of the tile block, zero when the block starts; the same op gets the same bytes again."""
    pointee: Any = op.result.type.elem.pointee  # type: ignore[attr-defined]
    size = max(1, op.attr("num_elem") * getattr(pointee, "bytes", 8))
    alignment = max(op.attr("alignment") or 1, 16)
    c = lower.c
    buffer = lower.arena.new(size + alignment, keep=True)
    address = c.at_entry(f"ptrtoint ptr {buffer.pointer} to i64")
    up = c.at_entry(f"add i64 {address}, {alignment - 1}")
    place = c.at_entry(f"and i64 {up}, {-alignment}")
    c.module.declare("llvm.memset.p0.i64", "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
    c.entry.append(
        f"  call void @llvm.memset.p0.i64(ptr {buffer.pointer}, i8 0, i64 {buffer.size}, i1 false)"
    )
    lower.values[op.result] = Uniform("ptr", (), place)


@lowers("print_tko")
def lower_print(lower: Lower, op: Op) -> None:
    """A call back into the launcher with the address of each argument's elements."""
    c = lower.c
    nodes = [lower.node(v) for v in op.group("args")]
    places = []
    for node in nodes:
        if node.bits == 0:
            slot = c.alloca(MEMORY[node.name], 8)
            from .tiles import store_elements

            store_elements(c, 1, lower.element_of(node), slot, node.name)
            places.append(slot)
        else:
            places.append(lower.pointer_of(node))
    lower.prints.append(op)
    table = c.alloca(f"[{max(1, len(places))} x ptr]", 8)
    for i, place in enumerate(places):
        c.do(f"store ptr {place}, ptr {c.gep(table, str(i), 'ptr')}, align 8")
    function = c.op(f"inttoptr i64 {lower.word(7)} to ptr")
    c.do(f"call void {function}(i64 {lower.site(op)}, ptr {table})")
    for result in op.results:
        lower.values[result] = None


# ---- bytes of tiles


class Bytes(Node):
    """Elements made of several elements of the source, or parts of one: pack and unpack below eight bits."""

    __slots__ = ("count", "source", "unpack")

    def __init__(self, source: Node, name: str, shape: Sequence[int], count: int, unpack: bool) -> None:
        super().__init__(name, shape)
        self.source, self.count, self.unpack, self.cost = source, count, unpack, 4 + source.cost

    def sources(self) -> Sequence[Node]:
        return (self.source,)

    def inner(self, map: Map, part: int) -> Map:
        low = self.count.bit_length() - 1
        if self.unpack:
            return map[low:]
        return (*(ONE if part >> i & 1 else ZERO for i in range(low)), *map)

    def explore(self, map: Map, into: Survey) -> None:
        into.cost += 4
        for part in range(1 if self.unpack else self.count):
            self.source.survey(self.inner(map, part), into)

    def compute(self, lower: Any, chunk: Chunk, map: Map) -> str:
        from .code import const, const_vector

        c, n, each = chunk.code, chunk.lanes, 8 // self.count
        if not self.unpack:
            out = const("i8", n, 0)
            for part in range(self.count):
                x = self.source.get(lower, chunk, self.inner(map, part))
                x = (
                    c.cast("zext", "i1", "i8", n, x)
                    if each == 1
                    else c.bin("and", "i8", n, x, const("i8", n, 15))
                )
                out = c.bin("or", "i8", n, out, c.bin("shl", "i8", n, x, const("i8", n, part * each)))
            return out
        byte = self.source.get(lower, chunk, self.inner(map, 0))
        low = map[: self.count.bit_length() - 1]
        at = chunk.offset(low)
        if not at.isdigit():
            at = c.op(f"trunc i64 {at} to i8")
        amount = c.splat("i8", n, at)
        steps = chunk.lane_offsets(low)
        if any(steps):
            amount = c.bin("add", "i8", n, amount, const_vector("i8", steps))
        x = c.bin("lshr", "i8", n, byte, c.bin("mul", "i8", n, amount, const("i8", n, each)))
        x = c.bin("and", "i8", n, x, const("i8", n, (1 << each) - 1))
        return c.cast("trunc", "i8", "i1", n, x) if each == 1 else x


@lowers("pack", "unpack")
def lower_bytes(lower: Lower, op: Op) -> None:
    source, type = lower.node(op.operands[0]), op.result.type
    name, shape = name_of(type.elem), type.shape  # type: ignore[attr-defined]
    unpack = op.spec.name == "unpack"
    small = name if unpack else source.name
    count = {"i1": 8, "i4": 2, "f4E2M1FN": 2}.get(small, 1)
    if count > 1:
        if source.bits == 0:
            buffer = lower.arena.new(bytes_of(source.name))
            copy = Stored(source.name, source.shape, buffer)
            lower.write(source, copy)
            source = copy
        lower.set(op.result, Bytes(source, name, shape, count, unpack))
        return
    pointer = lower.pointer_of(source)
    if source.buffer is None and isinstance(source, Remapped):
        source = source.source
    if source.buffer is None:
        lower.set(op.result, Stored(name, shape, None, pointer))
    else:
        lower.set(op.result, Stored(name, shape, source.buffer))


@lowers("multimem_load_reduce_view_tko", "multimem_reduce_view_tko", "multimem_store_view_tko")
def lower_multimem(lower: Lower, op: Op) -> None:
    raise Unsupported(op, "needs memory that several GPUs share")
