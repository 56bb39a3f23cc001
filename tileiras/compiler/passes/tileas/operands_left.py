"""Operands that threads store for several loops, one behind the other or in the steps of a loop around them, are stored once.

Before: `%b = alloc_shared`, `%q = load ..`, `store_shared %b, %q`, `for {..}`, `free_shared %b`, .., `%c = alloc_shared`,
        `%r = load ..`, `store_shared %c, %r`, `for {..}`, `free_shared %c`.
After:  `%b = alloc_shared`, `%q = load ..`, `store_shared %b, %q`, `for {..}`, .., `for {..}`, `free_shared %b`.

So the queries of attention lie whose last steps have a mask, as two loops. Otherwise they, or the addresses to load them from
once more, wait through the first loop. Both have to lie at the same place of the block's shared memory, and nothing else takes
it between the loops.

Before: `for {.., %b = alloc_shared, store_shared %b, %k, for {..}, free_shared %b, ..}`, where `%k` comes from in front.
After:  `%b = alloc_shared`, `store_shared %b, %k`, `for {.., for {..}, ..}`, `free_shared %b`.

So keys and values lie whose gradients go over the heads of queries of a head of keys. In registers they would wait beside sums.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.core import Op, Value
from tileiras.compiler.ir.walk import erase_unused, is_pure
from tileiras.compiler.schedule.candidates import writes
from tileiras.compiler.schedule.exchange import EXCHANGES

from .again import chain_of, erase_load
from .commit_stages import PRODUCTS


def leave_operands(func: Op) -> None:
    """Does so for every operand that can stay."""
    stores = [op for op in func.walk() if op.spec is tileas.STORE_SHARED]
    for store in stores:
        place = store.operands[0].op
        if place is not None and _stays_the_same(store, place):
            _move_out(store, place)
    for n, store in enumerate(stores):
        for earlier in stores[:n]:
            if earlier.block is store.block and _is_there(earlier, store):
                _leave(earlier, store)
                break


def _stays_the_same(store: Op, place: Op) -> bool:
    """Whether every step of the loop around stores the same tile for loops in it, at a place that nothing else takes."""
    loop, block = store.parent, store.block
    if loop is None or loop.spec.name != "for" or block is None or place.spec is not tileas.ALLOC_SHARED:
        return False
    users = [op for op, _ in place.result.uses]
    frees = [op for op in users if op.spec is tileas.FREE_SHARED]
    if place.block is not block or len(frees) != 1 or frees[0].block is not block or loop.block is None:
        return False
    if sum(op.spec is tileas.STORE_SHARED for op in users) > 1 or any(
        op.spec in PRODUCTS and op.block is block for op in users
    ):
        return False
    inside = {*loop.walk()}
    value, slot = store.operands[2], store.operands[1]
    if value.owner is block or value.op in inside or slot.op is None or slot.op.spec.name != "constant":
        return False
    start, end = block.ops.index(place), block.ops.index(frees[0])
    if not start < block.ops.index(store) < end:
        return False
    beside = [op for top in (*block.ops[:start], *block.ops[end:]) for op in top.walk()]
    others = [op for op in inside if op.spec is tileas.ALLOC_SHARED and op is not place]
    return not any(op.spec.name in EXCHANGES for op in beside) and not any(
        _overlaps(op, place) for op in others
    )


def _move_out(store: Op, place: Op) -> None:
    loop, block = store.parent, store.block
    assert (
        loop is not None and loop.block is not None and block is not None and store.operands[1].op is not None
    )
    free = next(op for op, _ in place.result.uses if op.spec is tileas.FREE_SHARED)
    slot = store.operands[1].op
    around = loop.block
    if slot.block is block:
        block.ops.remove(slot)
        around.insert_before(loop, slot)
    for op in (place, store):
        block.ops.remove(op)
        around.insert_before(loop, op)
    block.ops.remove(free)
    around.insert_before(around.ops[around.ops.index(loop) + 1], free)


def _is_there(earlier: Op, store: Op) -> bool:
    """Whether what one op stores lies there already when another is to store it."""
    first, second = earlier.operands[0].op, store.operands[0].op
    if (
        first is None
        or second is None
        or first is second
        or {first.spec, second.spec} != {tileas.ALLOC_SHARED}
    ):
        return False
    if first.attrs != second.attrs or earlier.attrs != store.attrs:
        return False
    if not _same(earlier.operands[1], store.operands[1]) or not _same_tile(
        earlier.operands[2], store.operands[2]
    ):
        return False
    frees = [op for op, _ in first.result.uses if op.spec is tileas.FREE_SHARED]
    others = [
        op for place in (first, second) for op, _ in place.result.uses if op.spec is tileas.STORE_SHARED
    ]
    block = store.block
    if block is None or len(frees) != 1 or frees[0].block is not block or set(others) != {earlier, store}:
        return False
    ops = block.ops
    start, free, end = ops.index(earlier), ops.index(frees[0]), ops.index(store)
    if not start < free < end or second.block is not block or first.block is not block:
        return False
    own = {second, *chain_of(store.operands[2])}
    between = [op for top in ops[free:end] for op in top.walk() if op not in own]
    return not any(op.spec.name in EXCHANGES or _overlaps(op, first) for op in between)


def _same(one: Value, other: Value) -> bool:
    """Whether two values are one, or equal constants."""
    if one is other:
        return True
    first, second = one.op, other.op
    if first is None or second is None or {first.spec.name, second.spec.name} != {"constant"}:
        return False
    return first.attrs == second.attrs and one.type == other.type


def _same_tile(one: Value, other: Value) -> bool:
    """Whether two values are one, or computed alike from loads of one tile."""
    if one is other:
        return True
    first, second = chain_of(one), chain_of(other)
    if not first or len(first) != len(second) or one.type != other.type:
        return False
    block = first[-1].block
    if block is None or second[-1].block is not block:
        return False
    start, end = sorted(block.ops.index(chain[-1]) for chain in (first, second))
    if any(
        writes(op) and op.spec is not tileas.STORE_SHARED for top in block.ops[start:end] for op in top.walk()
    ):
        return False
    inside = {*first, *second}
    for a, b in zip(first, second):
        if a.spec is not b.spec or a.attrs != b.attrs or len(a.operands) != len(b.operands):
            return False
        for x, y in zip(a.operands, b.operands):
            if not _same(x, y) and not (x.op in inside and y.op in inside):
                return False
    return first[-1].attr("memory_ordering_semantics") == "weak"


def _overlaps(op: Op, place: Op) -> bool:
    """Whether an op allocates bytes of a place."""
    if op.spec is not tileas.ALLOC_SHARED:
        return False
    start, end = place.attr("offset"), place.attr("offset") + place.attr("bytes")
    return bool(op.attr("offset") < end and start < op.attr("offset") + op.attr("bytes"))


def _leave(earlier: Op, store: Op) -> None:
    first, second = earlier.operands[0].op, store.operands[0].op
    assert first is not None and second is not None
    next(op for op, _ in first.result.uses if op.spec is tileas.FREE_SHARED).erase()
    slot, value = store.operands[1:3]
    store.erase()
    second.result.replace_all_uses_with(first.result)
    second.erase()
    erase_load(value)
    if slot.op is not None and not slot.uses:
        erase_unused(slot.op, is_pure)
