"""Which loads of a loop may run ahead of the iteration that uses them; what is there before a loop or in order with its accesses.

Tokens alone order accesses of a tile block (memory model of Tile IR: neither program order nor dependences do). A load that
waits for no token of its loop runs ahead as far as there are stages (`can_run_ahead`). One that a token puts behind accesses of
the iteration before, as those of attention's backward pass behind the atomics that add dQ (acq_rel is cuTile's default, and what
stands behind an acquire may read what another block has released), may not pass these, but need not wait for its own iteration
to begin either: its copy is issued as soon as they are through (`can_follow`).
"""

from __future__ import annotations

import math

from tileiras.compiler.ir.spec import NO_MEMORY_EFFECT, PURE
from tileiras.compiler.ir.types import TOKEN, Ptr
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.products import PRODUCTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value

LOOPS = frozenset(("for", "loop"))
PLAIN_LOADS = frozenset(("load_view_tko", "load_ptr_tko"))
LOADS = PLAIN_LOADS | frozenset(("tiled_tma_load", "async.tiled_tma_load", "async.copy"))
PRODUCERS = LOADS | {"async.pipeline.produce_one", "async.pipeline.transfer"}
EXITS = frozenset(("break", "return"))
SEARCH = "search"  # attribute of a loop that looks for an iteration of another one: of the one around it, or behind it


def writes(op: Op) -> bool:
    """Whether an op changes memory or orders other accesses."""
    name = op.spec.name
    return name.startswith(("store_", "atomic_", "multimem_", "memory_fence", "print_", "gdc_")) or name in (
        "assert",
        "call",
    )


def constant_int(value: Value) -> int | None:
    """The integer of a scalar constant, through casts of layout and assumptions."""
    op = value.op
    while op is not None and op.spec.name in ("convert_layout", "assume"):
        op = op.operands[0].op
    if op is None or op.spec.name != "constant":
        return None
    from tileiras.compiler.ir.dense import dense_bits

    dense = op.attr("value")
    bits = dense_bits(dense)
    if dense.type.elem.is_float or len(set(bits)) != 1:
        return None
    width = dense.type.elem.bits
    return bits[0] - (1 << width) if bits[0] >> (width - 1) else bits[0]


def is_outside(value: Value, loop: Op) -> bool:
    """Whether a value is there before a loop begins."""
    block = value.op.block if value.op is not None else value.owner
    while block is not None:
        parent = block.region.op if block.region is not None else None  # type: ignore[union-attr]
        if parent is loop:
            return False
        block = parent.block if parent is not None else None
    return True


def captured(op: Op) -> Iterable[Value]:
    """Operands of an op, and what the ops in its regions use from outside of it."""
    yield from op.operands
    if op.regions:
        inside = {r for inner in op.walk() for r in inner.results}
        inside |= {
            a
            for inner in op.walk()
            for region in inner.regions
            for block in region.blocks
            for a in block.args
        }
        for inner in op.walk():
            if inner is not op:
                yield from (v for v in inner.operands if v not in inside)


def backward(values: Iterable[Value], body: Any, given: Collection[Op] = ()) -> tuple[list[Op], set[int]]:
    """(ops of the body that the values need, in body order; indices of body arguments that they need). `given`: ops whose
    results are there already."""
    ops, args = needed(values, body, given)
    return [op for op in body.ops if op in ops], args


def needed(values: Iterable[Value], body: Any, given: Collection[Op] = ()) -> tuple[set[Op], set[int]]:
    """What `backward` finds, in no order: for questions that each load of a long body is asked."""
    work = list(values)
    ops: set[Op] = set()
    args: set[int] = set()
    while work:
        value = work.pop()
        if value.type is TOKEN:
            continue  # order only; see `dependence`
        op = value.op
        if op is None:
            if value.owner is body:
                args.add(value.index)
            continue
        while op is not None and op.block is not body:
            op = op.parent
        if op is not None and op not in ops and op not in given:
            ops.add(op)
            work += captured(op)
    return ops, args


def outermost_loop(op: Op) -> Op | None:
    """The outermost loop around an op."""
    found = None
    parent = op.parent
    while parent is not None:
        if parent.spec.name in LOOPS:
            found = parent
        parent = parent.parent
    return found


def can_run_ahead(op: Op, loop: Op) -> bool:
    """A weak load of numbers; nobody in the loop waits for its token, and it waits for none of the loop."""
    if op.spec.name not in PLAIN_LOADS or op.attr("memory_ordering_semantics") != "weak":
        return False
    if not only_leaves(op.results[1], loop):
        return False
    return not any(v.type is TOKEN and ordered_in(v, loop) for v in op.operands)


def can_follow(op: Op, loop: Op) -> bool:
    """A weak load of numbers that may be copied when the iteration before its own ends: no op of its own iteration orders it. Who
    waits for its token waits for the copies at the iteration's begin."""
    if op.spec.name not in PLAIN_LOADS or op.attr("memory_ordering_semantics") != "weak":
        return False
    return op.block is loop.regions[0].block and all(
        joined(v, loop) is not None for v in op.operands if v.type is TOKEN
    )


def can_be_copied(op: Op, loop: Op) -> bool:
    """Whether a load's copies may be under way when its iteration begins."""
    return can_run_ahead(op, loop) or can_follow(op, loop)


def joined(token: Value, loop: Op) -> tuple[list[Value], list[int]] | None:
    """(tokens from outside of a loop, body arguments by index) that a token of its body consists of; None where an op of the
    body has made one of them. Weak loads hand on what they wait for: two of them have no order that anybody could see."""
    body = loop.regions[0].block
    outside: dict[Value, None] = {}
    carried: dict[int, None] = {}
    work, seen = [token], {token}
    while work:
        value = work.pop()
        if not ordered_in(value, loop):
            outside[value] = None
        elif value.op is None and value.owner is body:
            carried[value.index] = None
        elif value.op is not None and hands_on(value.op):
            fresh = [v for v in value.op.operands if v.type is TOKEN and v not in seen]
            seen.update(fresh)
            work += fresh
        else:
            return None
    return list(outside), list(carried)


def hands_on(op: Op) -> bool:
    """Whether what waits for an op's token waits for the op's own tokens only."""
    weak = op.attr("memory_ordering_semantics") == "weak" if op.spec.name in PLAIN_LOADS else False
    return weak or op.spec.name == "join_tokens"


def multiplies(body: Any) -> bool:
    """Whether a loop has products, for which loads are copied to shared memory."""
    return any(op.spec.name in PRODUCTS for op in body.ops)


def is_index(op: Op, loop: Op, products: bool | None = None, codes: Collection[Op] | None = None) -> bool:
    """Whether a load brings a number, or in a loop of products a few, from a place that nothing but the loop's counter decides:
    loads of later iterations may need them. `products`, `codes`: what `multiplies` and `codes_of` say, where they were asked
    already."""
    body = loop.regions[0].block
    type: Any = op.results[0].type if op.results else None
    if op.block is not body or not can_run_ahead(op, loop):
        return False
    numbers = math.prod(type.shape)
    if numbers > CostModel.carried_rows or isinstance(type.elem, Ptr):
        return False
    if numbers > 1 and not (multiplies(body) if products is None else products):
        return False  # nothing is copied: loads would wait in registers for the registers of others
    if numbers > CostModel.carried_indices and op in (codes_of(body) if codes is None else codes):
        return False
    needs, args = needed(op.operands, body)
    return not args - {0} and all(computes(o) and not o.regions for o in needs)


def codes_of(body: Any) -> set[Op]:
    """The ops of a body that bring numbers each of which names one place of its own to a load by pointers."""
    work = [op.operands[0] for op in body.ops if op.spec.name == "load_ptr_tko"]
    seen = set(work)
    while work:
        op = work.pop().op
        if op is not None and op.block is body and is_placewise(op):
            fresh = [v for v in op.operands if v not in seen]
            seen.update(fresh)
            work += fresh
    return {v.op for v in seen if v.op is not None}


def is_placewise(op: Op) -> bool:
    """Whether an op's result has its operands' elements one for one, or computes one from each."""
    return bool(op.spec.elementwise) or op.spec.name in ("reshape", "permute", "convert_layout", "cat")


def computes(op: Op) -> bool:
    """Whether an op may run for an iteration that does not: it only makes values, or promises something about one."""
    return bool(op.spec.traits & (PURE | NO_MEMORY_EFFECT)) or op.spec.name == "assume"


def is_search(op: Op, loop: Op) -> bool:
    """Whether an op of a loop is a search that may run for iterations that do not: `left_out.py` promises that it ends, and it
    asks nothing but numbers, and weak loads of them that wait for nobody in the loop."""
    if op.spec.name != "loop" or SEARCH not in op.attrs:
        return False
    return all(
        getattr(r.type, "shape", ()) == () for o in op.walk() for r in o.results if r.type is not TOKEN
    ) and all(
        computes(o) or o.spec.name in ("if", "yield", "break", "continue") or is_free(o, loop)
        for o in op.walk()
        if o is not op
    )


def is_free(op: Op, loop: Op) -> bool:
    """Whether an op is a weak load that is in no order with other accesses of a loop."""
    if (
        op.spec.name not in PLAIN_LOADS
        or op.attr("memory_ordering_semantics") != "weak"
        or op.results[1].uses
    ):
        return False
    return not any(v.type is TOKEN and ordered_in(v, loop) for v in op.operands)


def inside_search(op: Op, loop: Op) -> bool:
    """Whether an op of a loop is, or is part of, a search in it."""
    while op is not loop and op.parent is not loop:
        op = op.parent  # type: ignore[assignment]
    return op is not loop and is_search(op, loop)


def indices_of(loop: Op) -> frozenset[Op]:
    """The loads of a loop that bring such numbers."""
    body = loop.regions[0].block
    products = multiplies(body)
    codes = codes_of(body) if products else ()
    return frozenset(op for op in body.ops if is_index(op, loop, products, codes))


def only_leaves(token: Value, loop: Op) -> bool:
    """Whether a token is joined and carried in a loop, but orders nothing before its end."""
    body = loop.regions[0].block
    work, seen = [token], {token}
    while work:
        value = work.pop()
        for user, index in value.uses:
            if user.block is not body:
                if value in loop.results:
                    continue
                return False
            following = None
            if user.spec.name == "join_tokens":
                following = user.results[0]
            elif user.spec.name == "continue":
                following = body.args[index + 1]
            if following is None:
                return False
            if following not in seen:
                seen.add(following)
                work.append(following)
    return True


def ordering(op: Op, loop: Op) -> list[Value]:
    """The tokens of a loop that an op, or what its regions hold, waits for."""
    found = [v for v in captured(op) if v.type is TOKEN and ordered_in(v, loop)]
    return list(dict.fromkeys(found))


def ordered_in(value: Value, loop: Op) -> bool:
    """Whether a token is made inside of the loop, or carried around it."""
    op = value.op
    owner = op if op is not None else value.owner.region.op  # type: ignore[union-attr]
    while owner is not None and owner is not loop:
        owner = owner.parent
    return owner is loop
