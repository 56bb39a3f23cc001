"""Atomics on pointer tiles and views. Each element once: copies wait and get the owner's result.

A type or operation the target has no instruction for goes through a compare-and-swap loop on the containing
32- or 64-bit word. A vector result of replicated elements travels through shared memory.

Ordering is that of the whole tile: its elements come in no order, so all that its token orders comes before or behind all of
them. Where a thread has one element, the order is spelled on the instruction. Where it has more, the elements are relaxed
between two fences: `fence.acq_rel` and a strong write behind it release, a strong read and `fence.acq_rel` behind it acquire
(PTX ISA, "Release and Acquire Patterns"). Spelled on every instruction, each element would wait for the one before it.
"""

from __future__ import annotations

from tileiras.compiler.target import sm
from tileiras.compiler.target.registers import reg_class

from .addresses import pointer_access, view_access
from .memory import SCOPE
from .shared import broadcast_owned, owner_guard
from .state import Lowering, Tile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from tileiras.compiler.ir.core import Op

_INTEGER = {"add": "add.u", "and": "and.b", "or": "or.b", "xor": "xor.b", "max": "max.s", "min": "min.s", "umax": "max.u",
            "umin": "min.u", "xchg": "exch.b"}  # fmt: skip


def lower_atomic_rmw(lowering: Lowering, op: Op) -> None:
    result = op.results[0]
    layout = result.type.layout  # type: ignore[attr-defined]
    values = lowering.regs_as(op.operand("arg"), layout)  # type: ignore[arg-type]
    access = pointer_access(lowering, op, op.operand("pointers"), layout)  # type: ignore[arg-type]
    used = bool(result.uses)
    old = _update_all(lowering, op, op.attr("mode"), result.type.elem, layout, access, values)  # type: ignore[attr-defined]
    tile = Tile(result.type.elem, result.type.shape, layout, old)  # type: ignore[attr-defined]
    lowering.define(result, _shared_result(lowering, op, tile) if used else old)
    lowering.env[op.results[1]] = None


def lower_atomic_cas(lowering: Lowering, op: Op) -> None:
    """A masked-off lane returns `cmp`."""
    b = lowering.b
    result = op.results[0]
    layout = result.type.layout  # type: ignore[attr-defined]
    compare = lowering.regs_as(op.operand("cmp"), layout)  # type: ignore[arg-type]
    values = lowering.regs_as(op.operand("val"), layout)  # type: ignore[arg-type]
    access = pointer_access(lowering, op, op.operand("pointers"), layout)  # type: ignore[arg-type]
    cls = reg_class(result.type.elem)  # type: ignore[attr-defined]
    bits = 64 if cls == "d" else 32
    owner = owner_guard(lowering, layout)
    order = _Order(op, layout.num_regs)
    order.before(lowering)
    old = []
    for r in range(layout.num_regs):
        guard = b.pand(access.masks[r], owner)
        want = b.materialize(compare[r], cls)
        dst = b.fresh(want, cls) if guard is not None else b.reg(cls)
        opcode = f"atom{order.suffix}{lowering.space}.cas.b{bits}"
        b.emit_to(
            dst,
            opcode,
            b.address(access.pointers[r], access.offsets[r]),
            want,
            b.materialize(values[r], cls),
            guard=guard,
        )
        old.append(dst)
    order.behind(lowering)
    tile = Tile(result.type.elem, result.type.shape, layout, old)  # type: ignore[attr-defined]
    lowering.define(result, _shared_result(lowering, op, tile))
    lowering.env[op.results[1]] = None


def lower_atomic_red_view(lowering: Lowering, op: Op) -> None:
    value = op.operand("value")
    layout = op.attrs["layout"]
    access = view_access(lowering, op, value.type, layout)  # type: ignore[union-attr]
    values = lowering.regs_as(value, layout)  # type: ignore[arg-type]
    _update_all(lowering, op, op.attr("mode"), value.type.elem, layout, access, values)  # type: ignore[union-attr]
    lowering.env[op.results[0]] = None


def lower_fence_alias(lowering: Lowering, op: Op) -> None:
    lowering.b.emit_to(None, "fence.proxy.alias")
    lowering.env[op.results[0]] = None


def _shared_result(lowering: Lowering, op: Op, tile: Tile) -> Sequence[Any]:
    """The owner's value in every copy; nothing to do when nobody holds copies."""
    if owner_guard(lowering, tile.layout) is None:
        return tile.regs
    return broadcast_owned(lowering, op, tile)


class _Order:
    """How the order of an atomic is spelled where each thread has so many elements: on the instructions, as `.order.scope`, or in
    front of them and behind them."""

    __slots__ = ("fence", "order", "suffix")

    def __init__(self, op: Op, elements: int) -> None:
        order, scope = op.attr("memory_ordering_semantics"), SCOPE[op.attr("memory_scope")]
        self.order, self.fence = order, f"fence.acq_rel.{scope}" if elements > 1 else None
        self.suffix = f".relaxed.{scope}" if self.fence else f".{order}.{scope}"

    def before(self, lowering: Lowering) -> None:
        if self.fence and self.order in ("release", "acq_rel"):
            lowering.b.emit_to(None, self.fence)

    def behind(self, lowering: Lowering) -> None:
        if self.fence and self.order in ("acquire", "acq_rel"):
            lowering.b.emit_to(None, self.fence)


def _update_all(
    lowering: Lowering,
    op: Op,
    mode: str,
    elem: Any,
    layout: Any,
    access: Any,
    values: Sequence[Any],
) -> list[Any]:
    b = lowering.b
    owner = owner_guard(lowering, layout)
    order = _Order(op, layout.num_regs)
    order.before(lowering)
    old = []
    for r in range(layout.num_regs):
        guard = b.pand(access.masks[r], owner)
        address = b.address(access.pointers[r], access.offsets[r])
        old.append(_update(lowering, order.suffix, mode, elem, address, values[r], guard))
    order.behind(lowering)
    return old


def _update(
    lowering: Lowering, suffix: str, mode: str, elem: Any, address: Any, value: Any, guard: Any
) -> Any:
    """One atomic update; the old value (undefined where the guard is false)."""
    b = lowering.b
    cls = reg_class(elem)
    value = b.materialize(value, cls)
    name = getattr(elem, "name", "i64")
    if mode == "addf":
        if name == "f16":
            return _emit(lowering, f"atom{suffix}{lowering.space}.add.noftz.f16", "h", address, value, guard)
        if name == "bf16":
            if lowering.target.has(sm.ATOM_BF16):
                return _emit(
                    lowering, f"atom{suffix}{lowering.space}.add.noftz.bf16", "h", address, value, guard
                )
            return _half_by_cas(
                lowering, suffix, address, lambda old: _add_half(lowering, old, value, name), guard
            )
        # ptxas has no memory form that flushes: .f32 add keeps subnormals on global memory
        return _emit(lowering, f"atom{suffix}{lowering.space}.add.{name}", cls, address, value, guard)
    bits = 64 if cls == "d" else 32
    return _emit(lowering, f"atom{suffix}{lowering.space}.{_INTEGER[mode]}{bits}", cls, address, value, guard)


def _emit(lowering: Lowering, opcode: str, cls: str, address: Any, value: Any, guard: Any) -> Any:
    b = lowering.b
    dst = b.fresh(0, cls) if guard is not None else b.reg(cls)
    b.emit_to(dst, opcode, address, value, guard=guard)
    return dst


def _add_half(lowering: Lowering, old: Any, value: Any, name: str) -> Any:
    from .arith import downcast, upcast

    wide = lowering.b.emit("add.rn.f32", upcast(lowering, old, name), upcast(lowering, value, name))
    return downcast(lowering, wide, name)


def _half_by_cas(
    lowering: Lowering, suffix: str, address: Any, update: Callable[[Any], Any], guard: Any
) -> Any:
    """A 16-bit update by compare-and-swap on 16 bits."""
    b = lowering.b
    done = b.label()
    head = b.label()
    old = b.fresh(0, "h")
    if guard is not None:
        b.bra(done, (guard, True))
    b.emit_to(old, f"ld.relaxed.gpu{lowering.space}.b16", address)
    b.place(head)
    b.push()
    new = update(old)
    found = b.reg("h")
    b.emit_to(found, f"atom{suffix}{lowering.space}.cas.b16", address, old, new)
    again = b.emit_fresh("setp.ne.b16", found, old)
    b.pop()
    b.copy(old, found)
    b.bra(head, again)
    b.place(done)
    return old


LOWER = {
    "atomic_rmw_tko": lower_atomic_rmw, "atomic_cas_tko": lower_atomic_cas, "atomic_red_view_tko": lower_atomic_red_view,
    "memory_fence_alias_tko": lower_fence_alias,
}  # fmt: skip
