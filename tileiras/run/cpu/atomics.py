"""Atomic updates: element after element, by the CPU's own instructions or a compare-and-swap loop."""

from __future__ import annotations

from .code import MEMORY, REGISTER, bytes_of
from .formats import narrow, narrow64, round_odd, two_sum, widen, widen64
from .memory import ORDER, changed, waits, watch
from .registry import lowers
from .space import Chunk, identity
from .tiles import Node, Stored, Uniform, load_elements, store_elements
from .views import Window

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tileiras.compiler.ir.core import Op

    from .lower import Lower

INTEGER = {"and": "and", "or": "or", "xor": "xor", "add": "add", "max": "max", "min": "min", "umax": "umax",
           "umin": "umin", "xchg": "xchg"}  # fmt: skip
BITWISE = {"float": "i32", "double": "i64"}


def update(lower: Lower, name: str, mode: str, pointer: str, value: str, order: str) -> str:
    """The old element; memory then holds mode(old, value)."""
    c, type = lower.c, MEMORY[name]
    integer = BITWISE.get(type, type)
    if mode != "addf":
        bits = c.cast("bitcast", type, integer, 1, value)
        old = c.op(
            f"atomicrmw {INTEGER[mode]} ptr {pointer}, {integer} {bits} {order}, align {bytes_of(name)}"
        )
        return c.cast("bitcast", integer, type, 1, old)
    # a compare-and-swap loop with our own addition: one rounding in every format
    head, done, before = c.new_label("cas"), c.new_label("swapped"), c.label
    first = c.op(f"load atomic {integer}, ptr {pointer} monotonic, align {bytes_of(name)}")
    again = c.fresh()
    c.jump(head)
    c.begin(head)
    old = c.op(f"phi {integer} [ {first}, %{before} ], [ {again}, %{head} ]")
    element = c.cast("bitcast", integer, type, 1, old)
    new = c.cast("bitcast", type, integer, 1, added(c, name, element, value))
    weak = "acquire" if order in ("acquire", "acq_rel") else "monotonic"
    pair = c.op(
        f"cmpxchg ptr {pointer}, {integer} {old}, {integer} {new} {order} {weak}, align {bytes_of(name)}"
    )
    c.do(f"{again} = extractvalue {{ {integer}, i1 }} {pair}, 0")
    c.branch(c.op(f"extractvalue {{ {integer}, i1 }} {pair}, 1"), done, head)
    c.begin(done)
    return c.cast("bitcast", integer, type, 1, old)


def differs(lower: Lower, name: str, mode: str, old: str, value: str) -> str:
    """Whether an update of this mode changed the element."""
    c, type = lower.c, MEMORY[name]
    integer = BITWISE.get(type, type)
    a, b = (c.cast("bitcast", type, integer, 1, v) for v in (old, value))
    if mode in ("add", "addf"):
        return c.cmp("ne", integer, 1, b, "0")
    if mode in ("max", "min", "umax", "umin"):
        predicate = {"max": "slt", "min": "sgt", "umax": "ult", "umin": "ugt"}[mode]
        return c.cmp(predicate, integer, 1, a, b)
    new = b if mode == "xchg" else c.bin(mode, integer, 1, a, b)
    return c.cmp("ne", integer, 1, a, new)


def added(c: Any, name: str, a: str, b: str) -> str:
    if name in ("f32", "f64"):
        return c.bin("fadd", REGISTER[name], 1, a, b)  # type: ignore[no-any-return]
    if name == "f16":
        return narrow(c, 1, c.bin("fadd", "float", 1, widen(c, 1, a, name), widen(c, 1, b, name)), name)
    s, e = two_sum(c, 1, "double", widen64(c, 1, a, name), widen64(c, 1, b, name))
    return narrow64(c, 1, round_odd(c, 1, s, e), name)


def atomically(
    lower: Lower, op: Op, name: str, shape: Any, nodes: list[Node], place: Callable[[Chunk], tuple[str, str | None]],
    act: Callable[[Chunk, str], tuple[str, Callable[[], str]]], off: Callable[[Chunk], str] | None, read: bool,
) -> Node:  # fmt: skip
    """act(chunk, pointer) for every element whose mask is on; the old elements, `off` where it is off.

    act gives the old element and what computes whether memory changed: a lock that stays taken is no change.
    """
    c = lower.c
    lower.done.add(op)
    lower.settle()
    for node in nodes:
        lower.force(node)
    bits = nodes[0].bits
    lower.check_access(op, bits, bytes_of(name), True, place)
    map = identity(bits)
    out = Stored(name, shape, lower.arena.new(bytes_of(name) << bits if read or not bits else 1))
    last: list[str] = []

    def body(chunk: Chunk) -> None:
        address, mask = place(chunk)
        keep = read or not bits
        slot = c.gep(lower.arena.touch(out.buffer), chunk.offset(map), MEMORY[name]) if keep else ""
        last.append(address)
        if keep and mask is not None and off is not None:
            store_elements(c, 1, off(chunk), slot, name)

        def go() -> None:
            old, differs = act(chunk, c.pointer(address))
            if lower.will_wait:
                with c.when(differs()):
                    changed(lower)
            if keep:
                c.store(MEMORY[name], 1, old, slot, bytes_of(name))

        if mask is None:
            go()
        else:
            with c.when(mask):
                go()

    lower.walk(bits, 0, set(), body, False)
    if bits == 0:
        value = load_elements(c, 1, lower.arena.touch(out.buffer), name)
        if waits(lower, op):
            watch(lower, op, value, name, last[-1])
        return Uniform(name, shape, value)
    if waits(lower, op):
        watch(lower, op, load_elements(c, 1, lower.arena.touch(out.buffer), name), name, "0")
    return out


def zero_of(name: str) -> str:
    type = REGISTER[name]
    return "0x0000000000000000" if type in ("float", "double") else "false" if type == "i1" else "0"


@lowers("atomic_rmw_tko")
def lower_rmw(lower: Lower, op: Op) -> None:
    pointers, arg = lower.node(op.group("pointers")[0]), lower.node(op.group("arg")[0])
    mask_value = op.operand("mask")
    mask = None if mask_value is None else lower.node(mask_value)
    name, order = arg.name, ORDER[op.attr("memory_ordering_semantics")]
    map = identity(arg.bits)

    def place(chunk: Chunk) -> tuple[str, str | None]:
        return pointers.get(lower, chunk, map), None if mask is None else mask.get(lower, chunk, map)

    def act(chunk: Chunk, pointer: str) -> tuple[str, Callable[[], str]]:
        value = arg.get(lower, chunk, map)
        old = update(lower, name, op.attr("mode"), pointer, value, order)
        return old, lambda: differs(lower, name, op.attr("mode"), old, value)

    nodes = [n for n in (arg, pointers, mask) if n is not None]
    read = bool(op.results[0].uses)
    node = atomically(lower, op, name, arg.shape, nodes, place, act, lambda _: zero_of(name), read)
    lower.values[op.results[0]], lower.values[op.results[1]] = node, None


@lowers("atomic_cas_tko")
def lower_cas(lower: Lower, op: Op) -> None:
    c = lower.c
    pointers, cmp, val = (lower.node(op.group(x)[0]) for x in ("pointers", "cmp", "val"))
    mask_value = op.operand("mask")
    mask = None if mask_value is None else lower.node(mask_value)
    name, order = val.name, ORDER[op.attr("memory_ordering_semantics")]
    weak = "acquire" if order in ("acquire", "acq_rel") else "monotonic"
    map, type = identity(val.bits), MEMORY[val.name]
    integer = BITWISE.get(type, type)

    def place(chunk: Chunk) -> tuple[str, str | None]:
        return pointers.get(lower, chunk, map), None if mask is None else mask.get(lower, chunk, map)

    def act(chunk: Chunk, pointer: str) -> tuple[str, Callable[[], str]]:
        want = c.cast("bitcast", type, integer, 1, cmp.get(lower, chunk, map))
        new = c.cast("bitcast", type, integer, 1, val.get(lower, chunk, map))
        pair = c.op(
            f"cmpxchg ptr {pointer}, {integer} {want}, {integer} {new} {order} {weak}, align {bytes_of(name)}"
        )
        old = c.cast("bitcast", integer, type, 1, c.op(f"extractvalue {{ {integer}, i1 }} {pair}, 0"))
        return old, lambda: c.op(f"extractvalue {{ {integer}, i1 }} {pair}, 1")

    nodes = [n for n in (val, cmp, pointers, mask) if n is not None]
    node = atomically(
        lower,
        op,
        name,
        val.shape,
        nodes,
        place,
        act,
        lambda chunk: cmp.get(lower, chunk, map),
        bool(op.results[0].uses),
    )
    lower.values[op.results[0]], lower.values[op.results[1]] = node, None


@lowers("atomic_red_view_tko")
def lower_red_view(lower: Lower, op: Op) -> None:
    value = lower.node(op.group("value")[0])
    window = Window(lower, op, value.name)
    order, map = ORDER[op.attr("memory_ordering_semantics")], identity(value.bits)

    def act(chunk: Chunk, pointer: str) -> tuple[str, Callable[[], str]]:
        element = value.get(lower, chunk, map)
        old = update(lower, value.name, op.attr("mode"), pointer, element, order)
        return old, lambda: differs(lower, value.name, op.attr("mode"), old, element)

    atomically(
        lower,
        op,
        value.name,
        value.shape,
        [value],
        lambda chunk: window.scattered(lower, chunk, map)[:2],
        act,
        None,
        False,
    )
    lower.values[op.results[0]] = None
