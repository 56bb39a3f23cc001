"""Registers of a thread: what a loop leaves free, and below how many a kernel spills."""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa.kernel_spec import KEY
from tileiras.compiler.ir.types import TensorType
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.products import PRODUCTS
from tileiras.compiler.target.registers import registers_apart, registers_packed

from .candidates import captured
from .instructions import mma_sync
from .needed_registers import is_product
from .restage import from_product, is_invariant
from .staging import RENAMES, is_elementwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value


def registers_where_used(value: Value) -> int:
    """32-bit registers of a thread that a tile takes in the largest layout that it is moved to, by itself or computed with others
    of its size."""
    most, work, seen = 0, [value], {value}
    while work:
        value = work.pop()
        most = max(most, registers_packed(value.type))
        for user, _ in value.uses:
            if is_elementwise(user) or user.spec.name in RENAMES:
                work += [v for v in user.results if v not in seen]
                seen.update(user.results)
    return most


def spare_registers(func: Op, loop: Op, target: Any) -> int:
    """Registers of a thread that a loop leaves for operands of products that stay, beside its addresses."""
    return max(0, free_registers(func, loop, target) - CostModel.loop_registers)


def free_registers(func: Op, loop: Op, target: Any) -> int:
    """Registers of a thread that a loop leaves for addresses and operands of products that stay, beside what is alive at once of
    carried and computed tiles, and two slices of the operands of the product at that point; below 0 where these spill."""
    from tileiras.compiler.schedule.kernel_spec import registers_of

    body = loop.regions[0].block
    place = {op: n for n, op in enumerate(body.ops)}
    last: dict[Value, int] = {}
    for n, op in enumerate(body.ops):
        for value in captured(op):
            last[value] = n
    counted = {value for value in last if stays_in_registers(value, body)}
    alive = {v for v in counted if v.op is None or v.op not in place}
    now = sum(registers_packed(v.type) for v in alive)
    most = now
    for n, op in enumerate(body.ops):
        for value in {*captured(op)} & alive:
            inside = value.op in place if value.op is not None else value.owner is body
            if last[value] == n and inside:  # others are there for the next iteration
                alive.discard(value)
                now -= registers_packed(value.type)
        for value in op.results:
            if value in counted:
                alive.add(value)
                now += registers_packed(value.type)
        most = max(most, now + slices_of(op, body, target))
    return registers_of(func.attrs[KEY]) - most


def stays_in_registers(value: Value, body: Any) -> bool:
    """Whether a loop holds a value in registers from where it is made to where it is used last; operands of products that are
    loaded, or come from outside of the loop, are not counted."""
    if not isinstance(value.type, TensorType) or getattr(value.type, "layout", None) is None:
        return False
    op = value.op
    if op is None or op.block is not body:
        users = [user for user, _ in value.uses if user.block is body]
        return not all(u.spec.name in ("convert_layout", *PRODUCTS) for u in users)
    return from_product(value, body) or not any(is_staged_operand(v) for v in op.results)


def is_staged_operand(value: Value) -> bool:
    """Whether a value is used by products only, through renamings, changes of layout and elementwise ops."""
    work, seen = [value], {value}
    while work:
        for user, index in work.pop().uses:
            if user.spec.name in PRODUCTS:
                if index > 1:
                    return False
            elif not (user.spec.name in RENAMES or is_elementwise(user)):
                return False
            elif user.result not in seen:
                seen.add(user.result)
                work.append(user.result)
    return True


def slices_of(product: Op, body: Any, target: Any) -> int:
    """Registers of the slices of a product's operands that come from shared memory: one in use, one on its way."""
    if product.spec.name not in PRODUCTS:
        return 0
    atom = mma_sync(product, target)
    left: Any = product.operands[0].type
    parts = max(1, left.shape[-1] >> atom.k) if atom is not None else 1
    both = 0
    for operand in product.operands[:2]:
        if not from_product(operand, body) and not is_invariant(operand, body):
            elems: Any = operand.type
            both += elems.layout.num_regs * max(1, elems.elem.bits) // 32 // parts
    return 2 * both


# Between registers and tensor memory, all at once: one instruction names up to 128 registers.
MOVED = frozenset(("tensor_memory.load", "tensor_memory.store", "tensor_memory.store_rows"))


def least_registers(func: Op) -> int:
    """Registers of a thread below which the products of a kernel, and the loops that hold them, would spill, or below which
    a sum cannot come from tensor memory; 0 for kernels without."""
    most = 0
    for product in func.walk():
        if product.spec.name in MOVED:
            moved = product.results[0] if product.results else product.operands[1]
            most = max(most, CostModel.loop_registers + registers_packed(moved.type))
        if not is_product(product):
            continue
        loop = product.parent
        held = CostModel.loop_registers + CostModel.fragment_registers
        values: Any = product.results
        if loop is not None and loop.spec.name == "for":
            values = loop.regions[0].block.args
        for value in values:
            type: Any = value.type
            if isinstance(type, TensorType):
                held += registers_apart(type)
        most = max(most, held)
    return min(CostModel.max_registers, most + 7 & ~7)
