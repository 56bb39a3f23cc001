"""Ops that move elements or only rename them: constants, shapes, blocks of tiles, ids, tokens."""

from __future__ import annotations

from tileiras.compiler.ir.dense import dense_bits, num_elements

from .code import BITS, MEMORY, REGISTER, bytes_of, const, name_of
from .registry import lowers
from .space import (
    ONE,
    ZERO,
    Map,
    bits_of,
    breaks_of,
    broadcast_map,
    compose,
    dim_ranges,
    identity,
    log2,
    permute_map,
)
from .tiles import Iota, Node, Remapped, Stored, Uniform, load_mapped, store_mapped
from .views import ViewLoad

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value

    from .lower import Lower


@lowers("constant")
def lower_constant(lower: Lower, op: Op) -> None:
    dense: Any = op.attr("value")
    shape, name = op.result.type.shape, name_of(dense.type.elem)  # type: ignore[attr-defined]
    lower.values[op.result] = constant_node(lower, dense, name, shape)


def constant_node(lower: Lower, dense: Any, name: str, shape: Sequence[int]) -> Node:
    bits = dense_bits(dense)
    count = num_elements(tuple(shape))
    if len(bits) == 1 or len(set(bits)) == 1:
        return Uniform(name, shape, scalar_constant(name, bits[0]))
    size = bytes_of(name)
    if name == "tf32":
        bits = [b << 13 for b in bits]
    data = b"".join(b.to_bytes(size, "little") for b in bits[:count])
    return Stored(name, shape, None, lower.c.module.constant(data))


def scalar_constant(name: str, bits: int) -> str:
    """The LLVM literal of a bit pattern."""
    import struct

    type = REGISTER[name]
    if type == "i1":
        return "true" if bits & 1 else "false"
    if type == "float":
        word = bits << 13 if name == "tf32" else bits
        value = struct.unpack("<f", word.to_bytes(4, "little"))[0]
        if value != value:
            return f"bitcast (i32 {word} to float)"
        return const("float", 1, value)
    if type == "double":
        return f"0x{bits:016X}"
    return str(bits - (1 << BITS[type]) if bits >> (BITS[type] - 1) else bits)


@lowers("iota")
def lower_iota(lower: Lower, op: Op) -> None:
    type: Any = op.result.type
    lower.set(op.result, Iota(name_of(type.elem), type.shape))


@lowers("reshape", "broadcast", "permute")
def lower_places(lower: Lower, op: Op) -> None:
    source, shape = lower.node(op.operands[0]), op.result.type.shape  # type: ignore[attr-defined]
    if isinstance(source, Uniform):
        lower.values[op.result] = Uniform(source.name, shape, source.value)
        return
    if op.spec.name == "reshape":
        inner: Map = identity(source.bits)
    elif op.spec.name == "broadcast":
        inner = broadcast_map(source.shape, shape)
        if not lower.is_light(source) and source.bits != bits_of(shape):
            lower.force(source)
    else:
        inner = permute_map(source.shape, op.attr("permutation"))
        if not lower.is_light(source) and not reads_rows(op.operands[0], source):
            lower.force(source)
    if source.bits == 0:
        lower.values[op.result] = Uniform(source.name, shape, lower.element_of(source))
        return
    lower.set(op.result, Remapped(source, shape, inner))


def reads_rows(value: Value, node: Node) -> bool:
    """Whether a tile is nothing but rows that are still to be loaded, for one user: loops transpose them in registers."""
    while isinstance(node, Remapped) and node.inner == identity(node.source.bits):
        node = node.source
    while value.op is not None and value.op.spec.name == "reshape" and len(value.uses) == 1:
        value = value.op.operands[0]
    return isinstance(node, ViewLoad) and node.window.rows_are_dense and len(value.uses) == 1


@lowers("extract")
def lower_extract(lower: Lower, op: Op) -> None:
    source, shape = lower.node(op.operands[0]), op.result.type.shape  # type: ignore[attr-defined]
    if isinstance(source, Uniform):
        lower.values[op.result] = Uniform(source.name, shape, source.value)
        return
    inner, start = block_place(lower, shape, source.shape, op.operands[1:])
    pointer = lower.c.gep(lower.pointer_of(source), start, MEMORY[source.name])
    part = Part(source, shape, pointer, inner)
    lower.set(op.result, part)


class Part(Node):
    """A block of a stored tile."""

    __slots__ = ("inner", "pointer", "source")

    def __init__(self, source: Node, shape: Sequence[int], pointer: str, inner: Map) -> None:
        super().__init__(source.name, shape)
        self.source, self.pointer, self.inner, self.cost = source, pointer, inner, 0

    def sources(self) -> Sequence[Node]:
        return (self.source,)

    def compute(self, lower: Any, chunk: Any, map: Map) -> str:
        lower.pointer_of(self.source)
        return load_mapped(chunk, self.pointer, self.name, compose(self.inner, map))

    def explore(self, map: Map, into: Any) -> None:
        into.breaks |= breaks_of(compose(self.inner, map))


def reads_buffer(node: Node, buffer: Any, allowed: Map | None, map: Map | None = None) -> bool:
    """Whether a value is computed from a buffer, other than element by element in `allowed` places."""
    if buffer is None:
        return False
    if map is None:
        map = identity(node.bits)
    if node.buffer is not None:
        return node.buffer is buffer and (allowed is None or map != allowed)
    if isinstance(node, Remapped):
        return reads_buffer(node.source, buffer, allowed, compose(node.inner, map))
    extra = getattr(getattr(node, "window", None), "rows", None)
    if extra is not None and reads_buffer(extra, buffer, None):
        return True
    aligned = len(map) == node.bits and not isinstance(
        node, Part
    )  # its elements come from equally placed ones
    return any(
        reads_buffer(s, buffer, allowed, map)
        if aligned and s.bits == node.bits
        else reads_buffer(s, buffer, None)
        for s in node.sources()
    )


def block_place(
    lower: Lower, shape: Sequence[int], whole: Sequence[int], indices: Sequence[Any]
) -> tuple[Map, str]:
    """(bits of the whole tile in those of the block, element at which block `indices` starts)."""
    c, start = lower.c, "0"
    inner: list[int] = []
    mine, all_ = dim_ranges(shape), dim_ranges(whole)
    for d in reversed(range(len(whole))):
        low, high = mine[d]
        inner += [*range(low, high), *[ZERO] * (all_[d][1] - all_[d][0] - (high - low))]
    for d, value in enumerate(indices):
        count = whole[d] // shape[d]
        index = lower.scalar(value)
        wide = (
            str(int(index) % count)
            if index.lstrip("-").isdigit()
            else c.op(f"and i64 {c.op(f'sext i32 {index} to i64')}, {count - 1}")
        )
        start = c.add(start, c.shl(wide, all_[d][0] + log2(shape[d])))
    return tuple(inner), start


@lowers("insert")
def lower_insert(lower: Lower, op: Op) -> None:
    source, whole = lower.node(op.operands[0]), lower.node(op.operands[1])
    buffer = lower.arena.new(bytes_of(whole.name) << whole.bits)
    result = Stored(whole.name, whole.shape, buffer)
    lower.write(whole, result)
    inner, start = block_place(lower, source.shape, whole.shape, op.operands[2:])
    put_block(lower, source, result, inner, lower.c.gep(buffer.pointer, start, MEMORY[whole.name]))
    lower.set(op.result, result)


def put_block(lower: Lower, source: Node, result: Stored, inner: Map, pointer: str) -> None:
    """Stores a tile as a block of another."""
    map = identity(source.bits)

    def body(chunk: Any) -> None:
        value = source.get(lower, chunk, map)
        lower.arena.touch(result.buffer)
        store_mapped(chunk, pointer, source.name, inner, value)

    width = 0
    while width < source.bits and inner[width : width + 1] == (width,):
        width += 1
    lower.each(source.bits, [(source, map)], body, limit=width)


@lowers("cat")
def lower_cat(lower: Lower, op: Op) -> None:
    dim, type = op.attr("dim"), op.result.type
    shape: Any = type.shape  # type: ignore[attr-defined]
    name = name_of(type.elem)  # type: ignore[attr-defined]
    buffer = lower.arena.new(bytes_of(name) << bits_of(shape))
    result = Stored(name, shape, buffer)
    for part, bit in zip(op.operands, (ZERO, ONE)):
        node = lower.node(part)
        inner: list[int] = []
        ranges = dim_ranges(node.shape)
        for d in reversed(range(len(shape))):
            inner += range(*ranges[d])
            if d == dim:
                inner.append(bit)
        put_block(lower, node, result, tuple(inner), buffer.pointer)
    lower.set(op.result, result)


@lowers("get_tile_block_id")
def lower_block_id(lower: Lower, op: Op) -> None:
    for result, name in zip(op.results, ("%x", "%y", "%z")):
        lower.values[result] = Uniform("i32", (), name)


@lowers("get_num_tile_blocks")
def lower_num_blocks(lower: Lower, op: Op) -> None:
    for i, result in enumerate(op.results):
        value = lower.c.at_entry(f"trunc i64 {lower.word(i)} to i32")
        lower.values[result] = Uniform("i32", (), value)


@lowers("make_token", "join_tokens", "gdc_launch_dependents_tko", "gdc_wait_tko", "memory_fence_alias_tko")
def lower_token(lower: Lower, op: Op) -> None:
    lower.values[op.result] = None


@lowers("assume")
def lower_assume(lower: Lower, op: Op) -> None:
    source = lower.values[op.operands[0]]
    if isinstance(source, Node) and not isinstance(source, Uniform):
        lower.set(op.result, Remapped(source, source.shape, identity(source.bits)))
    else:
        lower.values[op.result] = source
