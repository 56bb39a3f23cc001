"""Reductions and scans: trees over the bits of one dimension, in the order of the reference interpreter.

A body of one op whose operands may be swapped combines halves of the dimension, any other combines neighbours, the
earlier element first. A scan combines neighbours, scans the pairs and fills in between. The order depends on the
extent alone, never on the vectors or threads of a machine.
"""

from __future__ import annotations

from .code import MEMORY, REGISTER, bytes_of, const, const_vector, name_of
from .regions import Target
from .registry import ELEMENTWISE, lowers
from .space import FLIP, ONE, ZERO, Chunk, Map, dim_ranges, identity, log2
from .tiles import Node, Remapped, Stored, Uniform, load_elements, store_elements, store_mapped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from tileiras.compiler.ir.core import Block, Op, Value

    from .lower import Lower

    Combine = Callable[[int, list[str], list[str]], list[str]]

COMMUTATIVE = ("addf", "mulf", "maxf", "minf", "addi", "muli", "maxi", "mini", "andi", "ori", "xori")
AT_ONCE = 3  # bits of the dimension that one round folds while vectors stay whole


def commutative(block: Block) -> bool:
    """A single op whose operands may be swapped."""
    if len(block.ops) != 2 or block.ops[0].spec.name not in COMMUTATIVE:
        return False
    first = block.ops[0]
    return set(first.operands) == set(block.args) and block.ops[1].operands == [first.result]


def vectorizable(block: Block) -> bool:
    """Whether a body can run on vectors: elementwise ops, constants and `if` only."""
    for op in block.ops:
        name = op.spec.name
        if name == "if":
            if len(op.regions) < 2 or not all(r.blocks and vectorizable(r.block) for r in op.regions):
                return False
        elif name not in ELEMENTWISE and name not in (
            "yield",
            "assume",
            "constant",
            "get_tile_block_id",
            "get_num_tile_blocks",
        ):
            return False
        if any(getattr(v.type, "shape", ()) for v in (*op.operands, *op.results)):
            return False
    return True


def on_vectors(lower: Lower, block: Block, n: int, values: dict[Value, str]) -> list[str]:
    """What a body of elementwise ops yields for vectors."""
    c = lower.c

    def value(v: Value) -> str:
        if v not in values:
            values[v] = c.splat(REGISTER[name_of(v.type.elem)], n, lower.scalar(v))  # type: ignore[attr-defined]
        return values[v]

    for op in block.ops:
        name = op.spec.name
        if name == "yield":
            return [value(v) for v in op.operands]
        if name == "if":
            condition = value(op.operands[0])
            sides = [on_vectors(lower, r.block, n, dict(values)) for r in op.regions]
            for result, a, b in zip(op.results, *sides):
                type = REGISTER[name_of(result.type.elem)]  # type: ignore[attr-defined]
                values[result] = c.select(type, n, condition, a, b)
        elif name == "assume":
            values[op.result] = value(op.operands[0])
        elif name in ELEMENTWISE:
            values[op.result] = ELEMENTWISE[name](c, n, op, *(value(v) for v in op.operands))
        else:
            lower.op(op)
            for result in op.results:
                value(result)
    return []


def one_by_one(lower: Lower, op: Op, accumulators: list[str], elements: list[str]) -> list[str]:
    """What a body of any ops yields for one element."""
    c, block = lower.c, op.regions[0].block
    slots = lower.slots(op.results)
    scalars = [type(s)(lower, s.name, ()) for s in slots if s is not None]
    for i, (acc, x) in enumerate(zip(accumulators, elements)):
        for arg, text in zip(block.args[2 * i : 2 * i + 2], (acc, x)):
            lower.values[arg] = Uniform(name_of(arg.type.elem), (), text)  # type: ignore[attr-defined]
    done = c.new_label("combined")
    for inner in op.walk():  # the body is made anew for each pair: nothing of it is done yet
        if inner is not op:
            lower.done.discard(inner)
            for result in inner.results:
                lower.values.pop(result, None)
    lower.targets.append(Target("if", yield_=(scalars, done)))
    lower.block(block)
    lower.targets.pop()
    c.jump(done)
    c.begin(done)
    return [s.read(lower).value for s in scalars]  # type: ignore[attr-defined]


def combiner(lower: Lower, op: Op) -> tuple[Combine, bool]:
    """(combine(lanes, accumulators, elements), whether it takes vectors)."""
    block = op.regions[0].block
    if not vectorizable(block):
        return lambda n, accumulators, elements: one_by_one(lower, op, accumulators, elements), False

    def combine(n: int, accumulators: list[str], elements: list[str]) -> list[str]:
        values: dict[Value, str] = {}
        for i, pair in enumerate(zip(accumulators, elements)):
            values.update(zip(block.args[2 * i : 2 * i + 2], pair))
        return on_vectors(lower, block, n, values)

    return combine, True


def sources_of(lower: Lower, op: Op, vectors: bool) -> list[Node]:
    """The operands; in memory when the body is more than arithmetic."""
    nodes = [lower.node(v) for v in op.operands]
    if not vectors:
        lower.before_region(op)
        for node in nodes:
            lower.force(node)
    return nodes


@lowers("reduce")
def lower_reduce(lower: Lower, op: Op) -> None:
    dim = op.attr("dim")
    shape: Any = op.operands[0].type.shape  # type: ignore[attr-defined]
    combine, vectors = combiner(lower, op)
    tiles = sources_of(lower, op, vectors)
    halves = commutative(op.regions[0].block)
    low, high = dim_ranges(shape)[dim]
    bits = sum(log2(d) for d in shape)
    rest = high - low
    while rest:
        widest = max(bytes_of(t.name) for t in tiles)
        w = min(bits - 1, max(0, (lower.vector_bytes // widest).bit_length() - 1)) if vectors else 0
        k = 1
        while vectors and k < min(AT_ONCE, rest) and (low + rest - k - 1 >= w if halves else low >= w):
            k += 1
        tiles = fold(lower, tiles, bits, low, rest, k, halves, combine, vectors)
        rest, bits = rest - k, bits - k
    for result, tile in zip(op.results, tiles):
        type: Any = result.type
        if bits == 0:
            lower.values[result] = Uniform(tile.name, type.shape, lower.element_of(tile))
        else:
            lower.set(result, Remapped(tile, type.shape, identity(bits)))


def fold(
    lower: Lower, tiles: Sequence[Node], bits: int, low: int, rest: int, k: int, halves: bool, combine: Combine,
    vectors: bool,
) -> list[Node]:  # fmt: skip
    """The tiles with k bits of the range [low, low + rest) combined: the highest for halves, else the lowest."""
    at = low + rest - k if halves else low
    left = bits - k
    maps: list[Map] = [
        (*range(at), *(ONE if t >> i & 1 else ZERO for i in range(k)), *range(at, left))
        for t in range(1 << k)
    ]
    outs = [Stored(t.name, (1 << left,), lower.arena.new(bytes_of(t.name) << left)) for t in tiles]

    def body(chunk: Chunk) -> None:
        # a tree: per level, pairs that differ in the bit whose turn it is
        def tree(chosen: list[int]) -> list[str]:
            if len(chosen) == 1:
                return [t.get(lower, chunk, maps[chosen[0]]) for t in tiles]
            if halves:  # the first level of the tree is the last to be called: halves of halves
                evens, odds = chosen[0::2], chosen[1::2]
            else:
                evens, odds = chosen[: len(chosen) // 2], chosen[len(chosen) // 2 :]
            return combine(chunk.lanes, tree(evens), tree(odds))

        for out, value in zip(outs, tree(list(range(1 << k)))):
            store_mapped(chunk, lower.arena.touch(out.buffer), out.name, identity(left), value)

    lower.each(left, [(t, m) for t in tiles for m in maps], body, covers=maps, limit=99 if vectors else 0)
    return list(outs)


# ---- scans


@lowers("scan")
def lower_scan(lower: Lower, op: Op) -> None:
    dim = op.attr("dim")
    shape: Any = op.operands[0].type.shape  # type: ignore[attr-defined]
    combine, vectors = combiner(lower, op)
    nodes = sources_of(lower, op, vectors)
    low, high = dim_ranges(shape)[dim]
    bits = sum(log2(d) for d in shape)
    turned = (*range(low), *(b + FLIP for b in range(low, high)), *range(high, bits))
    if op.attr("reverse"):
        nodes = [Remapped(n, n.shape, turned) for n in nodes]
    for node in nodes:
        lower.force(node)
    done = prefixes(lower, nodes, bits, low, high - low, combine, vectors)
    for result, tile in zip(op.results, done):
        inner: Map = turned if op.attr("reverse") else identity(bits)
        type: Any = result.type
        if bits == 0:
            lower.values[result] = Uniform(tile.name, type.shape, lower.element_of(tile))
        else:
            lower.set(result, Remapped(tile, type.shape, inner))


def prefixes(
    lower: Lower, tiles: Sequence[Node], bits: int, low: int, rest: int, combine: Combine, vectors: bool
) -> list[Node]:
    """Inclusive prefixes along the bits [low, low + rest)."""
    if rest == 0:
        return list(tiles)
    pairs = fold(lower, tiles, bits, low, rest, 1, False, combine, vectors)
    pairs = prefixes(lower, pairs, bits - 1, low, rest - 1, combine, vectors)
    left, c = bits - 1, lower.c
    # copies of the pairs behind a gap of one step, so that the one before the first can be read too
    gaps = [(bytes_of(t.name) << low) + 63 & ~63 for t in tiles]
    starts = []
    for pair, gap in zip(pairs, gaps):
        buffer = lower.arena.new((bytes_of(pair.name) << left) + gap)
        pointer = c.gep(buffer.pointer, str(gap))
        starts.append((buffer, pointer))

        def copy(chunk: Chunk, pair: Node = pair, buffer: Any = buffer, pointer: str = pointer) -> None:
            lower.arena.touch(buffer)
            store_mapped(chunk, pointer, pair.name, identity(left), pair.get(lower, chunk, identity(left)))

        lower.each(left, [(pair, identity(left))], copy)
    outs = [Stored(t.name, (1 << bits,), lower.arena.new(bytes_of(t.name) << bits)) for t in tiles]
    even: Map = (*range(low), ZERO, *range(low, left))
    place: Map = tuple(range(low, low + rest - 1))

    def body(chunk: Chunk) -> None:
        n = chunk.lanes
        at = chunk.offset(identity(left))
        before, own = [], []
        for tile, (buffer, pointer) in zip(tiles, starts):
            lower.arena.touch(buffer)
            type = MEMORY[tile.name]
            own.append(load_elements(c, n, c.gep(pointer, at, type), tile.name))
            before.append(load_elements(c, n, c.gep(pointer, c.add(at, str(-(1 << low))), type), tile.name))
        elements = [t.get(lower, chunk, even) for t in tiles]
        index = c.splat("i64", n, chunk.offset(place))
        steps = chunk.lane_offsets(place)
        if any(steps):
            index = c.bin("add", "i64", n, index, const_vector("i64", steps))
        first = c.cmp("eq", "i64", n, index, const("i64", n, 0))
        if vectors:
            between = combine(n, before, elements)
        else:  # the body may have effects: not for the first
            places = [c.alloca(REGISTER[t.name], 8) for t in tiles]
            for p, tile, x in zip(places, tiles, elements):
                c.do(f"store {REGISTER[tile.name]} {x}, ptr {p}, align 8")
            with c.when(c.op(f"xor i1 {first}, true")):
                for p, tile, x in zip(places, tiles, combine(1, before, elements)):
                    c.do(f"store {REGISTER[tile.name]} {x}, ptr {p}, align 8")
            between = [c.op(f"load {REGISTER[t.name]}, ptr {p}, align 8") for p, t in zip(places, tiles)]
        for out, x, filled, pair in zip(outs, elements, between, own):
            type = REGISTER[out.name]
            value = c.select(type, n, first, x, filled) if vectors else filled
            pointer = lower.arena.touch(out.buffer)
            if low >= chunk.w:
                for bit, v in ((ZERO, value), (ONE, pair)):
                    store_mapped(chunk, pointer, out.name, (*range(low), bit, *range(low, left)), v)
                continue
            order = [
                ((d & ((1 << low) - 1)) | (d >> (low + 1) << low)) + (n if d >> low & 1 else 0)
                for d in range(2 * n)
            ]
            both = c.shuffle(type, n, value, pair, order)
            store_elements(c, 2 * n, both, c.gep(pointer, c.shl(at, 1), MEMORY[out.name]), out.name)

    lower.each(left, [(t, even) for t in tiles], body, limit=99 if vectors else 0)
    return list(outs)
