"""Operands that are written back to shared memory in the form that wgmma reads.

wgmma takes the right operand from shared memory only, and operands of 8 and 32 bits only with K contiguous. What is loaded in
another form, or converted between load and product, goes from its stage through registers to shared memory once: to the
place where it came from when its elements keep their size, else to a buffer of its own, two of them where a product is
waited for one iteration later.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas.rings import in_units
from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.ir.walk import parts_first
from tileiras.compiler.layout.linear import dim_bits, log2
from tileiras.compiler.layout.shared import arrange, permuted
from tileiras.compiler.layout.turn import exchange
from tileiras.compiler.target.products import PRODUCTS, SIDES

from .lookups import lookups_of
from .staging import LOADS, RENAMES, is_elementwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value
    from tileiras.compiler.layout.linear import LinearLayout

SEARCH = 256  # ops that are visited for the origin of an operand


class Restaged:
    """One operand: how it lies when it has been written back, and before, with the bytes of an element each. `matrices`: its
    stage may be laid out for ldmatrix."""

    __slots__ = ("arrangement", "before", "before_size", "matrices", "size")

    def __init__(
        self,
        arrangement: tuple[int, ...],
        size: int,
        before: tuple[int, ...],
        before_size: int,
        matrices: bool = False,
    ):
        self.matrices = matrices
        self.arrangement = arrangement
        self.size = size
        self.before = before
        self.before_size = before_size

    def layout(self, log2_warps: int) -> LinearLayout:
        """In registers, on the way."""
        return exchange(self.before, self.before_size, self.arrangement, self.size, log2_warps, self.matrices)


def restaged(
    product: Op, which: int, size: int, any_major: bool, plans: Any, matrices: bool = False
) -> Restaged:
    """How an operand of a product is written back, elements of `size` bytes. `any_major`: rows along M or N may be
    contiguous; they stay as they were loaded then. `matrices`: stages may be laid out for ldmatrix, no hardware fills them."""
    operand = product.operands[which]
    shape = operand.type.shape  # type: ignore[attr-defined]
    found = origin(operand, plans)
    k = len(shape) - 1 - which
    if found is None:
        packed = unpacked_along(operand, plans) if any_major else None
        columns = arrange(shape, k if packed is None else packed, size)
        return Restaged(columns, size, columns, size)
    before, before_size, unit = found
    alone = matrices and source_load(operand) is not None
    return Restaged(arrange(shape, unit if any_major else k, size), size, before, before_size, alone)


def origin(value: Value, plans: Any) -> tuple[tuple[int, ...], int, int] | None:
    """(arrangement, bytes of an element, dimension of neighbours) of the loaded tile that a value is computed from, element by
    element; None when there is none of its size."""
    by_op = {plan.op: plan for plan in plans}

    def makers(value: Value) -> list[Value]:
        """The operands that have an element for each of the value's."""
        op = value.op
        if op is None or op in by_op:
            return []
        if op.spec.name in RENAMES:
            return [op.operands[0]]
        total = num_elements(value.type.shape)  # type: ignore[attr-defined]
        return [v for v in op.operands if _has_elements(v.type, total)] if is_elementwise(op) else []

    known: dict[Value, tuple[tuple[int, ...], int, int] | None] = {}
    for current in parts_first([value], makers):
        op: Any = current.op
        if op in by_op:
            unit = by_op[op].unit if len(current.type.shape) > 1 else 0  # type: ignore[attr-defined]
            known[current] = by_op[op].arrangement, op.results[0].type.elem.bytes, unit
            continue
        found = next((known[v] for v in makers(current) if known[v] is not None), None)
        known[current] = _renamed(op, found) if found is not None else None
    return known[value]


def unpacked_along(value: Value, plans: Any) -> int | None:
    """The dimension of an operand whose neighbours are unpacked from one element of what is loaded, so that a thread has them
    side by side: the one that packed words, or both halves of bytes, were spread along. None where there is none."""
    loads = {plan.op for plan in plans}
    work: list[tuple[Value, list[int]]] = [(value, list(range(log2(num_elements(value.type.shape)))))]  # type: ignore[attr-defined]
    seen: set[Value] = set()
    while work and len(seen) < SEARCH:
        current, bits = work.pop()  # of the operand's index, by those of the value's
        op = current.op
        if op is None or current in seen or op in loads:
            continue
        seen.add(current)
        name = op.spec.name
        if name in ("broadcast", "cat"):
            spread = _spread_bits(op)
            if spread and any(made_from(v, loads) for v in op.operands):
                for d, (low, count) in enumerate(dim_bits(value.type.shape)):  # type: ignore[attr-defined]
                    if count and bits[spread[0]] == low:
                        return d
        elif name == "permute":
            work.append((op.operands[0], _before_permute(op, bits)))
        elif name in RENAMES or is_elementwise(op):
            total = num_elements(current.type.shape)  # type: ignore[attr-defined]
            work += [(v, bits) for v in op.operands if _has_elements(v.type, total)]
    return None


def _spread_bits(op: Op) -> list[int]:
    """The bits of a result's index along which a broadcast, or a `cat` of single elements, makes several elements of one."""
    shapes: list[Any] = [v.type.shape for v in (op.operands[0], op.result)]  # type: ignore[attr-defined]
    found: list[int] = []
    for (low, count), before, after in zip(dim_bits(shapes[1]), *shapes):
        if before == 1 < after:
            found += range(low, low + count)
    return sorted(found)


def _before_permute(op: Op, bits: list[int]) -> list[int]:
    """`bits`, of the result of a permute, for its operand."""
    source, result = dim_bits(op.operands[0].type.shape), dim_bits(op.result.type.shape)  # type: ignore[attr-defined]
    out = list(bits)
    for d, s in enumerate(op.attr("permutation")):
        for n in range(source[s][1]):
            out[source[s][0] + n] = bits[result[d][0] + n]
    return out


def made_from(value: Value, loads: Collection[Op]) -> bool:
    """Whether a value is computed from one of some loads, element by element."""
    work, seen = [value], {value}
    while work and len(seen) < SEARCH:
        op = work.pop().op
        if op is None:
            continue
        if op in loads:
            return True
        if op.spec.name in RENAMES or is_elementwise(op):
            fresh = [v for v in op.operands if v not in seen]
            seen.update(fresh)
            work += fresh
    return False


def _has_elements(type: Any, total: int) -> bool:
    shape = getattr(type, "shape", None)
    return shape is not None and num_elements(shape) == total


def _renamed(op: Op, found: tuple[tuple[int, ...], int, int]) -> tuple[tuple[int, ...], int, int] | None:
    """What `origin` says of an operand, for the op's result."""
    columns, size, unit = found
    if op.spec.name == "permute":
        order = op.attr("permutation")
        return permuted(columns, op.operands[0].type.shape, order), size, tuple(order).index(unit)  # type: ignore[attr-defined]
    if op.spec.name not in RENAMES or op.spec.name == "convert_layout":
        return found
    source, shape = op.operands[0].type.shape, op.result.type.shape  # type: ignore[attr-defined]
    kept = [e for e in source if e > 1] == [e for e in shape if e > 1]
    if not kept:
        return None
    number = sum(e > 1 for e in source[:unit])
    places = [d for d, e in enumerate(shape) if e > 1]
    return columns, size, places[number] if number < len(places) else len(shape) - 1


def waits_in_registers(left: Value, body: Any, size: int) -> bool:
    """Whether the left operand of a wgmma goes there from registers: it was computed there, it stays for the whole loop, its
    elements of 32 bits are rounded on the way, which a fragment takes as it is, or its stage has no place for it."""
    if size == 4 or from_product(left, body) or is_invariant(left, body):
        return True
    return size == 2 and outgrows_stage(left, body)


def outgrows_stage(left: Value, body: Any) -> bool:
    """Whether a left operand of 16 bits is computed, element by element, from a loaded tile that others read, too, or whose
    elements have another size: it cannot be written back to where that lies. Or from two loaded tiles: a place of its own and a
    barrier in each step are more than fragments cost."""
    work, computed, no_place = [left], False, False
    loads: set[Op] = set()
    while work and len(work) < SEARCH:
        value = work.pop()
        op = value.op
        if op is None or op.block is not body:
            continue
        others = _readers(value) != 1
        if op.spec.name in PRODUCTS:
            return False
        if op.spec.name in LOADS:
            loads.add(op)
            no_place = no_place or others or bytes_of(value.type) != 2 or len(loads) > 1
        elif op.spec.name in RENAMES:
            no_place = no_place or others  # each user reads the stage for itself
            work.append(op.operands[0])
        elif others:
            return False
        elif is_elementwise(op):
            computed = True
            work += [v for v in op.operands if getattr(v.type, "shape", ()) == value.type.shape]  # type: ignore[attr-defined]
    return computed and no_place


def _readers(value: Value) -> int:
    """Uses of a value, those aside whose results nobody uses: operands that were turned leave such."""
    return sum(not user.results or any(r.uses for r in user.results) for user, _ in value.uses)


def from_product(value: Value, body: Any) -> bool:
    """Whether a value is computed from the result of a product of the same block."""
    return product_of(value, body) is not None


def product_of(value: Value, body: Any) -> Op | None:
    """The product of a block from whose result a value of it is computed, the first that is found."""
    work, seen = [value], {value}
    while work and len(seen) < SEARCH:
        op = work.pop().op
        if op is None or op.block is not body:
            continue
        if op.spec.name in PRODUCTS:
            return op
        for operand in op.operands:
            if operand not in seen:
                seen.add(operand)
                work.append(operand)
    return None


def is_invariant(value: Value, body: Any) -> bool:
    """Whether a value is made outside of a block, through renamings and changes of layout."""
    op = value.op
    while op is not None and op.block is body and op.spec.name in RENAMES:
        value = op.operands[0]
        op = value.op
    return op.block is not body if op is not None else value.owner is not body


def source_load(value: Value) -> Op | None:
    """The load that alone makes a value, element by element, and nothing else; before or after it was staged. What is looked up
    in a table has no stage."""
    while value.op is not None and len(value.uses) == 1:
        op = value.op
        if op.spec.name in LOADS or op.spec.name == "load_shared":
            return None if op.spec.name == "load_ptr_tko" and op in lookups_of(op.block) else op
        tiles = list(op.operands)
        if is_elementwise(op):
            tiles = [v for v in op.operands if v.op is None or v.op.spec.name != "constant"]
        elif op.spec.name not in RENAMES:
            return None
        if len(tiles) != 1:
            return None
        value = tiles[0]
    return None


class Places:
    """Buffers of a loop's products, in their order: `place` has the number of each operand's, `sizes` the bytes of all.

    What an iteration computes lies in its buffer from its store to the end of its product, which is waited for at once; the next
    product's operands may take it then. A value that several products read in one form is stored once, and lasts to the last of
    them. An operand that is read for an iteration longer, or waits for the whole loop, has its buffers to itself. `early`: values
    are stored when they are made, before other products run, while the buffers for that take no more bytes than so many."""

    __slots__ = ("place", "sizes")

    def __init__(
        self,
        forms: list[tuple[Op, dict[int, tuple[int, ...]]]],
        direct: Collection[Op] = (),
        early: int = 0,
    ) -> None:
        self.place: dict[tuple[Op, int], int] = {}
        self.sizes: list[int] = []
        last: dict[Any, int] = {}  # number of the last product that reads a value in a form
        for number, (product, arrangements) in enumerate(forms):
            for which, arrangement in arrangements.items():
                last[_unmoved(product.operands[which]), tuple(arrangement)] = number
        known: dict[Any, int] = {}
        free: dict[int, int] = {}  # place -> the first product that may store there
        for number, (product, arrangements) in enumerate(forms):
            for which, arrangement in arrangements.items():
                copies = buffers_of(product, which, direct)
                if not copies:
                    continue
                operand = product.operands[which]
                size, key = buffer_bytes(operand.type), (_unmoved(operand), tuple(arrangement))
                if copies > 1 or is_invariant(operand, product.block):
                    self.place[product, which] = len(self.sizes)
                    self.sizes.append(copies * size)
                    continue
                at = known.get(key)
                if at is None:
                    alike = {n: until for n, until in free.items() if self.sizes[n] == size}
                    stored = number
                    if sum(self.sizes) + size <= early:
                        stored = first_behind(key[0], [product for product, _ in forms])
                    fitting = (n for n, until in alike.items() if until <= stored)
                    at = known[key] = next(fitting, len(self.sizes))
                    if at == len(self.sizes):
                        self.sizes.append(size)
                    free[at] = last[key] + 1
                self.place[product, which] = at


def first_behind(value: Value, products: Sequence[Op]) -> int:
    """The number of the first of a body's products that stands behind what makes a value."""
    op, body = value.op, products[0].block
    if op is None or op.block is not body:
        return 0
    place = {op: n for n, op in enumerate(body.ops)}  # type: ignore[union-attr]
    return next(n for n, product in enumerate(products) if place[product] > place[op])


def _unmoved(value: Value) -> Value:
    """A value without what only changes its layout."""
    while value.op is not None and value.op.spec.name == "convert_layout":
        value = value.op.operands[0]
    return value


def plan_copies(products: list[Op], direct: Collection[Op] = (), early: int = 0) -> int:
    """Decides in how many buffers of its own each operand is written back (`copies_lhs`, `copies_rhs`; 0: where it was loaded),
    and which of the loop's buffers that is (`place_lhs`, `place_rhs`); returns the bytes of all. `direct`: loads that have no
    stage to be written back to; `early`: as `Places` has it."""
    forms = []
    for product in products:
        sides = {which: product.attrs.get(f"restage_{side}") for which, side in enumerate(SIDES)}
        forms.append((product, {which: form for which, form in sides.items() if form is not None}))
    places = Places(forms, direct, early)
    for product, sides in forms:
        for which in sides:
            decided = {f"copies_{SIDES[which]}": buffers_of(product, which, direct)}
            if (product, which) in places.place:
                decided[f"place_{SIDES[which]}"] = places.place[product, which]
            product.attrs = {**product.attrs, **decided}
    return sum(places.sizes)


def plan_early_copies(products: list[Op], direct: Collection[Op], room: int) -> None:
    """Decides the same again with values that are stored when they are made, where their buffers fit so many bytes."""
    if plan_copies(products, direct, room) > room:
        plan_copies(products, direct)


def buffers_of(product: Op, which: int, direct: Collection[Op] = ()) -> int:
    """In how many buffers of its own an operand is written back: none where it keeps the place that it was loaded to, two where
    wgmma may still read the one of the step before."""
    from .products import adds_up

    operand = product.operands[which]
    load = source_load(operand)
    size = bytes_of(operand.type)
    staged = load is not None and load.block is product.block and load not in direct
    if staged and load.results[0].type.elem.bytes == size:  # type: ignore[union-attr]
        return 0
    return 1 if adds_up(product) is None or is_invariant(operand, product.block) else 2


def bytes_of(type: Any) -> int:
    """Bytes of an element in shared memory."""
    return type.elem.bytes  # type: ignore[no-any-return]


def buffer_bytes(type: Any) -> int:
    """Bytes of a buffer for a tile; swizzles repeat after 1 KiB."""
    return in_units(num_elements(type.shape) * bytes_of(type))
