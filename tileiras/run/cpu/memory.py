"""Loads and stores: through views and through tiles of pointers, weak ones fused with what surrounds them.

A load is done where its elements are used, unless memory may change before. A store whose value still has loads to
do tests at run time that what they read is apart from what it writes, or element for element the same; otherwise
the value is computed into a buffer first.
"""

from __future__ import annotations

from .access import load_lanes, load_one, store_lanes
from .code import MEMORY, REGISTER, bytes_of, const, const_vector, name_of, vec
from .registry import Unsupported, lowers
from .space import Chunk, Map, identity
from .tiles import Node, Stored, Survey, load_elements, store_elements
from .views import ViewLoad, Window, can_mask, fence, masked_load, masked_store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tileiras.compiler.ir.core import Op

    from .lower import Lower

ORDER = {
    "weak": "monotonic",
    "relaxed": "monotonic",
    "acquire": "acquire",
    "release": "release",
    "acq_rel": "acq_rel",
}


def is_strong(op: Op) -> bool:
    """Whether other tile blocks may look at the access: it is atomic, element by element."""
    return op.attr("memory_ordering_semantics") != "weak" and op.attr("memory_scope") != "tl_blk"


def in_loop(lower: Lower, kind: str = "") -> bool:
    return any(t.kind != "if" and (not kind or t.kind == kind) for t in lower.targets)


def waits(lower: Lower, op: Op) -> bool:
    """Whether a loop may wait with this op for another tile block."""
    if not op.results or not op.results[0].uses or not in_loop(lower):
        return False
    if op.attr("memory_ordering_semantics") == "weak" and not in_loop(lower, "loop"):
        return False
    lower.waits = True
    return True


def watch(lower: Lower, op: Op, value: str, name: str, address: str) -> None:
    """Behind a read that may be one of a waiting loop: let others run when it keeps reading the same."""
    c, type = lower.c, REGISTER[name]
    wide = c.cast("bitcast", type, {"float": "i32", "double": "i64"}.get(type, type), 1, value)
    bits = {"float": "i32", "double": "i64"}.get(type, type)
    if bits != "i64":
        wide = c.op(f"zext {bits} {wide} to i64")
    stop = c.call(
        "tile.watch", "i1",
        [("ptr", "%launch"), ("ptr", "%state"), ("i64", str(lower.site(op))), ("i64", wide), ("i64", address)],
    )  # fmt: skip
    go = c.new_label("go")
    c.branch(stop, "exit", go)
    c.begin(go)


def changed(lower: Lower) -> None:
    """Behind a write of a kernel whose blocks wait: a deadlock is when nobody writes."""
    if lower.will_wait:
        lower.c.call("tile.changed", "void", [("ptr", "%launch"), ("ptr", "%state")])


class PointerLoad(Node):
    """Elements at a tile of pointers, read where they are used."""

    __slots__ = ("mask", "padding", "pointers")
    reads = True

    def __init__(
        self, op: Op, name: str, shape: Sequence[int], pointers: Node, mask: Node | None, padding: Node | None
    ) -> None:
        super().__init__(name, shape)
        self.op, self.pointers, self.mask, self.padding = op, pointers, mask, padding
        self.cost = 8

    def sources(self) -> Sequence[Node]:
        return [n for n in (self.pointers, self.mask, self.padding) if n is not None]

    def span(self, lower: Any) -> None:
        return None

    def dense_conditions(self, lower: Any, w: int, map: Map) -> list[str]:
        return []

    def explore(self, map: Map, into: Survey) -> None:
        into.cost += 8
        for source in self.sources():
            source.survey(map, into)
        into.loads.append((self, map))

    def compute(self, lower: Any, chunk: Chunk, map: Map) -> str:
        c, n, type = chunk.code, chunk.lanes, REGISTER[self.name]
        address = self.pointers.get(lower, chunk, map)
        mask = None if self.mask is None else self.mask.get(lower, chunk, map)
        other = zero(type, n) if self.padding is None else self.padding.get(lower, chunk, map)
        if n == 1:
            return load_one(c, address, self.name, mask, other)
        near, far, done = c.new_label("near"), c.new_label("far"), c.new_label("done")
        first = in_a_row(c, n, address, bytes_of(self.name), near, far)
        c.begin(near)
        pointer = c.pointer(first)
        if mask is None:
            value = load_elements(c, n, pointer, self.name)
        elif can_mask(c, self.name):
            value = masked_load(
                c, n, pointer, self.name, mask, "false" if self.name == "i1" else zero(type, 1)
            )
            if self.padding is not None:
                value = c.select(type, n, mask, value, other)
        else:
            value = load_lanes(c, n, address, self.name, mask, other)
        near = c.label
        c.jump(done)
        c.begin(far)
        scattered = load_lanes(c, n, address, self.name, mask, other)
        far = c.label
        c.jump(done)
        c.begin(done)
        return c.op(f"phi {vec(type, n)} [ {value}, %{near} ], [ {scattered}, %{far} ]")


def zero(type: str, n: int) -> str:
    return const(type, n, 0)


def in_a_row(c: Any, n: int, address: str, size: int, near: str, far: str) -> str:
    """Branches to `near` where the lanes' addresses follow each other; the first address."""
    t = vec("i64", n)
    first = c.op(f"extractelement {t} {address}, i64 0")
    row = c.bin("add", "i64", n, c.splat("i64", n, first), const_vector("i64", [i * size for i in range(n)]))
    differ = c.cmp("ne", "i64", n, address, row)
    any_ = c.op(f"bitcast <{n} x i1> {differ} to i{n}")
    c.branch(c.op(f"icmp eq i{n} {any_}, 0"), near, far)
    return first  # type: ignore[no-any-return]


@lowers("load_view_tko")
def lower_load_view(lower: Lower, op: Op) -> None:
    result = op.results[0]
    name = name_of(result.type.elem)  # type: ignore[attr-defined]
    load = ViewLoad(op, Window(lower, op, name))
    lower.values[op.results[1]] = None
    finish_load(lower, op, load)


def finish_load(lower: Lower, op: Op, load: Node) -> None:
    """A weak load waits until it is needed; others are done at once."""
    map = identity(load.bits)
    size = 1 if getattr(getattr(load, "window", None), "nibble", False) else bytes_of(load.name)
    lower.check_access(op, load.bits, size, False, lambda chunk: element_place(lower, load, chunk, map)[:2])
    if not op.results[0].uses and not is_strong(op):
        lower.values[op.results[0]] = load
        return
    waiting = waits(lower, op)
    if is_strong(op) or waiting:
        node = strong_load(lower, op, load, waiting)
        lower.values[op.results[0]] = node
        return
    if not getattr(load, "window", None) or load.window.sparse is None:  # type: ignore[attr-defined]
        lower.loads.append(load)
        lower.set(op.results[0], load)
        return
    lower.force(load)
    lower.set(op.results[0], load)


def strong_load(lower: Lower, op: Op, load: Node, waiting: bool) -> Node:
    """Every element by an atomic load of its own."""
    from .tiles import Uniform

    c, name = lower.c, load.name
    if getattr(getattr(load, "window", None), "nibble", False):
        raise Unsupported(op, "4-bit elements have no atomic access")
    order = ORDER[op.attr("memory_ordering_semantics")]
    target = Stored(name, load.shape, lower.arena.new(bytes_of(name) << load.bits))
    map = identity(load.bits)
    last: list[tuple[str, str]] = []

    def body(chunk: Chunk) -> None:
        address, mask, other = element_place(lower, load, chunk, map)
        slot = c.gep(lower.arena.touch(target.buffer), chunk.offset(map), MEMORY[name])
        store_elements(c, 1, other, slot, name)

        def read() -> None:
            pointer = c.pointer(address)
            raw = atomic_load(c, name, pointer, order)
            c.store(MEMORY[name], 1, raw, slot, bytes_of(name))

        if mask is None:
            read()
        else:
            with c.when(mask):
                read()
        last.append((slot, address))

    for source in load.sources():
        lower.force(source)
    lower.walk(load.bits, 0, set(), body, False)
    if waiting:
        value = load_elements(c, 1, lower.arena.touch(target.buffer), name)
        watch(lower, op, value, name, last[-1][1] if load.bits == 0 else "0")
    if load.bits == 0:
        return Uniform(name, load.shape, load_elements(c, 1, lower.arena.touch(target.buffer), name))
    return target


def atomic_load(c: Any, name: str, pointer: str, order: str) -> str:
    type = MEMORY[name]
    integer = {"float": "i32", "double": "i64"}.get(type, type)
    raw = c.op(f"load atomic volatile {integer}, ptr {pointer} {order}, align {bytes_of(name)}")
    return c.cast("bitcast", integer, type, 1, raw)  # type: ignore[no-any-return]


def element_place(lower: Lower, load: Any, chunk: Chunk, map: Map) -> tuple[str, str | None, str]:
    """(address, mask, what stands for elements outside) of a chunk of one lane."""
    type = REGISTER[load.name]
    window = getattr(load, "window", None)
    if window is None:
        mask = None if load.mask is None else load.mask.get(lower, chunk, map)
        other = zero(type, 1) if load.padding is None else load.padding.get(lower, chunk, map)
        return load.pointers.get(lower, chunk, map), mask, other
    address, mask, _ = window.scattered(lower, chunk, map)
    return address, mask, window.padding


@lowers("load_ptr_tko")
def lower_load_pointer(lower: Lower, op: Op) -> None:
    result: Any = op.results[0]
    mask, padding = op.operand("mask"), op.operand("paddingValue")
    load = PointerLoad(
        op, name_of(result.type.elem), result.type.shape, lower.node(op.group("source")[0]),
        None if mask is None else lower.node(mask), None if padding is None else lower.node(padding),
    )  # fmt: skip
    lower.values[op.results[1]] = None
    finish_load(lower, op, load)


# ---- stores


@lowers("store_view_tko")
def lower_store_view(lower: Lower, op: Op) -> None:
    value = lower.node(op.group("tile")[0])
    window = Window(lower, op, value.name)
    lower.values[op.results[0]] = None
    lower.done.add(op)
    lower.settle()
    map = identity(value.bits)
    size = 1 if window.nibble else bytes_of(value.name)
    lower.check_access(op, value.bits, size, True, lambda chunk: window.scattered(lower, chunk, map)[:2])
    if is_strong(op):
        lower.force(value)
        strong_store(lower, op, value, lambda chunk: window.scattered(lower, chunk, map)[:2])
        changed(lower)
        return
    found = lower.survey([(value, map)])
    conditions: list[str] = []
    mine = window.span(lower)
    for load, place in found.loads:
        if load.buffer is not None:
            continue
        other = load.span(lower)
        if mine is None or other is None:
            lower.force(load)
            continue
        conditions.append(apart(lower, window, mine, load, place, other))
    pending = any(load.buffer is None for load, _ in found.loads)
    condition = ""
    for one in conditions:
        condition = lower.c.op(f"and i1 {condition}, {one}") if condition else one

    window.stream = window.streams(lower)
    for load, _ in found.loads if window.stream else ():
        if load.buffer is None:  # what is in the caches already is written there
            other = lower.c.op(f"icmp ne i64 {load.window.tensor.base}, {window.tensor.base}")
            window.stream = lower.c.op(f"and i1 {window.stream}, {other}")

    def body(chunk: Chunk) -> None:
        window.store(lower, chunk, map, value.get(lower, chunk, map))

    def slow(survey: Survey, w: int) -> None:
        copy = Stored(value.name, value.shape, lower.arena.new(bytes_of(value.name) << value.bits))

        def compute(chunk: Chunk) -> None:
            from .tiles import store_mapped

            store_mapped(chunk, lower.arena.touch(copy.buffer), value.name, map, value.get(lower, chunk, map))

        lower.walk(value.bits, w, survey.breaks, compute, False)
        lower.walk(
            value.bits,
            w,
            survey.breaks,
            lambda chunk: window.store(lower, chunk, map, copy.get(lower, chunk, map)),
            False,
        )

    lower.each(
        value.bits, [(value, map)], body, more=[(WindowUse(window), map)], condition=condition,
        slow=slow if pending else None,
    )  # fmt: skip
    if window.stream:
        fence(lower.c, window.stream)
    changed(lower)


class WindowUse:
    """A window that a loop stores to, as `each` asks about loads."""

    def __init__(self, window: Window) -> None:
        self.window = window

    def dense_conditions(self, lower: Any, w: int, map: Map) -> list[str]:
        return self.window.dense_conditions(lower, w, map)


def apart(
    lower: Lower, window: Window, mine: tuple[str, str], load: Any, map: Map, other: tuple[str, str]
) -> str:
    """Whether a load and a store touch different memory, or each element the same."""
    c = lower.c
    before = c.op(f"icmp ule i64 {other[1]}, {mine[0]}")
    behind = c.op(f"icmp ule i64 {mine[1]}, {other[0]}")
    out = c.op(f"or i1 {before}, {behind}")
    theirs = load.window
    if map == identity(load.bits) and theirs.shape == window.shape and theirs.size == window.size:
        same = c.op(f"icmp eq i64 {theirs.base}, {window.base}")
        for a, b in zip(theirs.steps, window.steps):
            if a != b:
                same = c.op(f"and i1 {same}, {c.op(f'icmp eq i64 {a}, {b}')}")
        out = c.op(f"or i1 {out}, {same}")
    return out


@lowers("store_ptr_tko")
def lower_store_pointer(lower: Lower, op: Op) -> None:
    pointers, value = lower.node(op.group("destination")[0]), lower.node(op.group("value")[0])
    mask_value = op.operand("mask")
    mask = None if mask_value is None else lower.node(mask_value)
    lower.values[op.results[0]] = None
    lower.done.add(op)
    lower.settle()
    map = identity(value.bits)
    wanted = [(n, map) for n in (pointers, value, mask) if n is not None]
    for load, place in lower.survey(wanted).loads:
        if not same_place(load, place, op, map):
            lower.force(load)

    def place_of(chunk: Chunk) -> tuple[str, str | None]:
        return pointers.get(lower, chunk, map), None if mask is None else mask.get(lower, chunk, map)

    lower.check_access(op, value.bits, bytes_of(value.name), True, place_of)
    if is_strong(op):
        for node, _ in wanted:
            lower.force(node)
        strong_store(lower, op, value, place_of)
        changed(lower)
        return

    def body(chunk: Chunk) -> None:
        c, n = chunk.code, chunk.lanes
        address = pointers.get(lower, chunk, map)
        where = None if mask is None else mask.get(lower, chunk, map)
        elements = value.get(lower, chunk, map)
        if n == 1:
            store_lanes(c, 1, address, value.name, where, elements)
            return
        near, far, done = c.new_label("near"), c.new_label("far"), c.new_label("done")
        first = in_a_row(c, n, address, bytes_of(value.name), near, far)
        c.begin(near)
        if where is None:
            store_elements(c, n, elements, c.pointer(first), value.name)
        elif can_mask(c, value.name):
            masked_store(c, n, c.pointer(first), value.name, where, elements)
        else:
            store_lanes(c, n, address, value.name, where, elements)
        c.jump(done)
        c.begin(far)
        store_lanes(c, n, address, value.name, where, elements)
        c.jump(done)
        c.begin(done)

    lower.each(value.bits, wanted, body, ordered=True)
    changed(lower)


def same_place(load: Any, place: Map, op: Op, map: Map) -> bool:
    """Whether a load reads, element for element, what a store then writes: through the very same pointers."""
    if place != map or load.op.spec.name != "load_ptr_tko":
        return False
    return load.op.group("source")[0] is op.group("destination")[0] and not op.operand("mask")


def strong_store(lower: Lower, op: Op, value: Node, place: Any) -> None:
    """Every element by an atomic store of its own."""
    c, name = lower.c, value.name
    order = ORDER[op.attr("memory_ordering_semantics")]
    type = MEMORY[name]
    integer = {"float": "i32", "double": "i64"}.get(type, type)

    def body(chunk: Chunk) -> None:
        from .tiles import as_memory

        address, mask = place(chunk)
        element = as_memory(c, 1, value.get(lower, chunk, identity(value.bits)), name)
        bits = c.cast("bitcast", type, integer, 1, element)

        def write() -> None:
            c.do(f"store atomic {integer} {bits}, ptr {c.pointer(address)} {order}, align {bytes_of(name)}")

        if mask is None:
            write()
        else:
            with c.when(mask):
                write()

    lower.walk(value.bits, 0, set(), body, False)
