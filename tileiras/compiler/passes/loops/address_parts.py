"""Tiles of addresses, masks and paddings for a part of a step over K: what a load through pointers reads when a step is cut.

Before: `%k = iota : tile<64xi32>`, and what is computed from it element by element. After, for the second of two parts:
`%k' = iota : tile<32xi32> + 32`, and the same ops on shorter tiles. Pointers that a loop carries and moves by the same distance
each step become their beginning and so many distances: a part of a step has none of its own.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.clone import clone_op
from tileiras.compiler.ir.core import Block, Op, Region, Value
from tileiras.compiler.ir.dense import constant_bytes, dense_bits
from tileiras.compiler.ir.types import I64, Dense, Ptr, TensorType, TileType
from tileiras.compiler.ir.walk import parts_first
from tileiras.compiler.schedule.candidates import computes, is_outside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

Place = tuple[Value, int]  # a tile and its dimension of K


def parts_of(place: Place, loop: Op) -> list[Place] | None:
    """The tiles that are cut with a tile, each with its dimension of K; None where a part of it cannot be computed."""
    value, dim = place
    op: Any = value.op
    shape = value.type.shape  # type: ignore[attr-defined]
    if op is None:
        return [(loop.operands[2 + value.index], dim)] if distances(value, loop) is not None else None
    name = op.spec.name
    if name == "constant":
        return [] if len(set(dense_bits(op.attr("value")))) == 1 else None
    if name == "iota":
        return []
    if name == "broadcast":
        source = op.operands[0]
        return [] if source.type.shape[dim] == 1 else [(source, dim)]
    if name in ("permute", "reshape"):
        found = before(op, dim)
        return None if found is None else [found]
    if len(op.results) != 1 or op.regions or not computes(op):
        return None
    if any(getattr(v.type, "shape", None) != shape for v in op.operands):
        return None
    return [(v, dim) for v in op.operands]


def before(op: Op, dim: int) -> Place | None:
    """The operand that an op renames, and the dimension of K in it."""
    if op.spec.name == "permute":
        return op.operands[0], op.attr("permutation")[dim]
    if op.spec.name == "reshape":
        source, result = op.operands[0].type.shape, op.result.type.shape  # type: ignore[attr-defined]
        kept = [d for d, e in enumerate(source) if e != 1]
        if [source[d] for d in kept] != [e for e in result if e != 1] or result[dim] == 1:
            return None
        return op.operands[0], kept[sum(e != 1 for e in result[:dim])]
    return None


def cut_with(places: list[Place], loop: Op) -> set[Place] | None:
    """All tiles that are cut where some are; None where a part of one cannot be computed."""
    work, seen = list(places), set(places)
    while work:
        found = parts_of(work.pop(), loop)
        if found is None:
            return None
        work += [p for p in found if p not in seen]
        seen.update(found)
    return seen


def carried_in(places: set[Place], loop: Op) -> list[Value]:
    """The values that a loop carries among tiles, in the order of its arguments."""
    body = loop.regions[0].block
    return sorted({v for v, _ in places if v.op is None and v.owner is body}, key=lambda v: v.index)


def only_feeds(value: Value, loads: set[Op], places: set[Place]) -> bool:
    """Whether pointers that a loop carries are used for nothing but tiles that are cut, loads, and their own next value."""
    cut = {v for v, _ in places}
    work, seen = [value], {value}
    while work:
        for user, index in work.pop().uses:
            if user in loads or user.spec.name == "continue" and index == value.index - 1:
                continue
            (result,) = user.results if len(user.results) == 1 else (None,)
            if result is None or result not in cut and user.spec.name != "offset":
                return False
            if result not in seen:
                seen.add(result)
                work.append(result)
    return True


def distances(value: Value, loop: Op) -> list[Value] | None:
    """The scalars by which pointers that a loop carries move in each step, one behind the other; None where they are anything
    else, or somebody looks at where they ended."""
    body = loop.regions[0].block
    if value.owner is not body or value.index == 0 or not isinstance(value.type.elem, Ptr):  # type: ignore[attr-defined]
        return None
    if loop.results[value.index - 1].uses:
        return None
    found = []
    at = body.ops[-1].operands[value.index - 1]
    while at is not value:
        op = at.op
        if op is None or op.block is not body or op.spec.name != "offset":
            return None
        by = scalar_of(op.operands[1])
        if by is None or not is_invariant(by, loop):
            return None
        found.append(by)
        at = op.operands[0]
    return found or None


def scalar_of(value: Value) -> Value | None:
    """The one number that all elements of a tile are: a scalar, or a constant tile."""
    while value.type.shape != ():  # type: ignore[attr-defined]
        op = value.op
        if op is None:
            return None
        if op.spec.name == "constant":
            return value if len(set(dense_bits(op.attr("value")))) == 1 else None
        if op.spec.name not in ("broadcast", "reshape"):
            return None
        value = op.operands[0]
    return value


def is_invariant(value: Value, loop: Op) -> bool:
    """Whether a value is there before a loop, or could be computed there."""
    work, seen = [value], {value}
    while work:
        value = work.pop()
        if is_outside(value, loop):
            continue
        if value.op is None or value.op.regions or not computes(value.op):
            return False
        work += [v for v in value.op.operands if v not in seen]
        seen.update(value.op.operands)
    return True


class Cutter:
    """Computes parts of tiles in front of an op. `part`: which part of the step, `steps`: how many steps were before; 64 bits."""

    def __init__(self, loop: Op, parts: int, part: Value, steps: Value) -> None:
        self.loop = loop
        self.parts = parts
        self.part = part
        self.steps = steps
        self.known: dict[Place, Value] = {}
        self.copies: dict[Value, Value] = {}

    def cut(self, place: Place, anchor: Op) -> Value:
        for at in parts_first([place], lambda p: parts_of(p, self.loop) or []):
            if at not in self.known:
                self.known[at] = self.make(at, anchor)
        return self.known[place]

    def put(self, anchor: Op, name: str, operands: Any, type: Any, attrs: Any = None) -> Value:
        assert anchor.block is not None
        made = create(tileaa.BY_NAME[name], operands, (type,), attrs or {}, (), self.loop.loc)
        return anchor.block.insert_before(anchor, made).result

    def number(self, anchor: Op, value: int, elem: Any, shape: tuple[int, ...] = ()) -> Value:
        bits = (value & (1 << elem.bits) - 1).to_bytes(constant_bytes(elem), "little")
        return self.put(
            anchor,
            "constant",
            (),
            TensorType(elem, shape, None),
            {"value": Dense(TileType(elem, shape), bits)},
        )

    def spread(self, anchor: Op, scalar: Value, shape: tuple[int, ...]) -> Value:
        elem: Any = scalar.type.elem  # type: ignore[attr-defined]
        one = self.put(anchor, "reshape", (scalar,), TensorType(elem, (1,) * len(shape), None))
        return self.put(anchor, "broadcast", (one,), TensorType(elem, shape, None))

    def make(self, place: Place, anchor: Op) -> Value:
        value, dim = place
        op: Any = value.op
        type: Any = shorter(value.type, dim, self.parts)
        if op is None:
            return self.moved(value, self.known[self.loop.operands[2 + value.index], dim], anchor)
        name = op.spec.name
        if name == "constant":
            attrs = {"value": Dense(TileType(type.elem, type.shape), op.attr("value").data)}
            return self.put(anchor, "constant", (), type, attrs)
        if name == "iota":
            size = self.number(anchor, type.shape[0], I64)
            first = self.put(anchor, "muli", (self.part, size), size.type, {"overflow": "none"})
            if type.elem.bits < 64:
                first = self.put(
                    anchor, "trunci", (first,), TensorType(type.elem, (), None), {"overflow": "none"}
                )
            counted = self.put(anchor, "iota", (), type)
            return self.put(
                anchor, "addi", (counted, self.spread(anchor, first, type.shape)), type, {"overflow": "none"}
            )
        found = parts_of(place, self.loop)
        assert found is not None
        operands = [self.known[p] for p in found] if found else op.operands
        return self.put(anchor, name, operands, type, dict(op.attrs))

    def copied(self, value: Value, anchor: Op) -> Value:
        """A value that does not vary in the loop, in front of an op."""

        def inside(value: Value) -> list[Value]:
            return [] if value.op is None or is_outside(value, self.loop) else list(value.op.operands)

        for at in parts_first([value], inside):
            if at.op is not None and not is_outside(at, self.loop) and at not in self.copies:
                anchor.block.insert_before(anchor, clone_op(at.op, self.copies))  # type: ignore[union-attr]
        return self.copies.get(value, value)

    def moved(self, value: Value, begin: Value, anchor: Op) -> Value:
        """Where pointers that began as `begin` are after the steps that were."""
        total: Value | None = None
        for by in distances(value, self.loop) or ():
            elem: Any = by.type.elem  # type: ignore[attr-defined]
            by = self.copied(by, anchor)
            if by.type.shape != ():  # type: ignore[attr-defined]
                by = self.number(anchor, dense_bits(by.op.attr("value"))[0], elem)  # type: ignore[union-attr]
            if elem.bits < 64:
                by = self.put(anchor, "exti", (by,), TensorType(I64, (), None), {"signedness": "signed"})
            total = (
                by if total is None else self.put(anchor, "addi", (total, by), by.type, {"overflow": "none"})
            )
        assert total is not None
        far = self.put(anchor, "muli", (total, self.steps), total.type, {"overflow": "none"})
        shape: Any = begin.type.shape  # type: ignore[attr-defined]
        return self.put(anchor, "offset", (begin, self.spread(anchor, far, shape)), begin.type)


def shorter(type: Any, dim: int, parts: int) -> TensorType:
    shape = tuple(e // parts if d == dim else e for d, e in enumerate(type.shape))
    return TensorType(type.elem, shape, type.layout)


def without(loop: Op, gone: set[int]) -> Op:
    """The loop without values that it carries: the numbers of its block's arguments, used by nothing but their own next value."""
    block, body = loop.block, loop.regions[0].block
    assert block is not None
    kept = [k for k in range(1, len(body.args)) if k not in gone]
    last = body.ops[-1]
    inner, values = Block(), [body.args[0], *(body.args[k] for k in kept)]
    for old in values:
        old.replace_all_uses_with(inner.add_arg(old.type, old.name))
    following = [last.operands[k - 1] for k in kept]
    chains = [last.operands[k - 1].op for k in sorted(gone)]
    last.erase()
    for op in chains:  # from the last step of each back to the argument
        while op is not None and not op.result.uses:
            source = op.operands[0].op
            op.erase()
            op = source
    for op in list(body.ops):
        body.ops.remove(op)
        inner.append(op)
    inner.append(create(last.spec, following, (), dict(last.attrs), (), last.loc, (len(following),)))
    operands = [*loop.operands[:3], *(loop.operands[2 + k] for k in kept)]
    types = [loop.results[k - 1].type for k in kept]
    made = create(
        loop.spec, operands, types, dict(loop.attrs), (Region([inner]),), loop.loc, (1, 1, 1, len(kept))
    )
    block.insert_before(loop, made)
    for k, result in zip(kept, made.results):
        result.name = loop.results[k - 1].name
        loop.results[k - 1].replace_all_uses_with(result)
    loop.erase()
    return made
