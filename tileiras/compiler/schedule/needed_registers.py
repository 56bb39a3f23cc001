"""Registers of a thread that products need, and how a block's are shared out among warps that compute and warps that copy."""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa.kernel_spec import KEY
from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.types import TensorType
from tileiras.compiler.target import sm, wgmma
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.products import PRODUCTS
from tileiras.compiler.target.registers import registers_apart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value


def is_product(op: Op) -> bool:
    return op.spec.name in PRODUCTS or op.spec.name.startswith("wgmma")


def needed_registers(func: Op) -> tuple[int, int]:
    """Registers of a thread that multiplies: what a loop carries, and what its products take and give besides. And those
    that one instruction needs, below which a kernel cannot start: ptxas refuses it, whatever its warps take later."""
    cost = CostModel
    most = least = 0
    groups: dict[Any, list[Op]] = {}
    for op in func.walk():
        if is_product(op) and op.results:
            groups.setdefault(op.block, []).append(op)
    for block, products in groups.items():
        held = cost.multiplying_registers
        if any(op.spec is not tileas.WGMMA and not takes_scores(op) for op in products):
            held += cost.fragment_registers
        carried = block.ops[-1].operands
        place = {op: n for n, op in enumerate(block.ops)}
        held += sum(registers_apart(v.type) for v in block.args if isinstance(v.type, TensorType))
        made = [(place[op], v) for op in products for v in op.results if v not in carried]
        spans = [(start, last_place(v, place), registers_apart(v.type)) for start, v in made]
        held += max(
            (sum(n for first, last, n in spans if first <= start <= last) for start, _, _ in spans), default=0
        )
        most = max(most, held)
    for products in groups.values():
        columns = max(op.results[0].type.shape[-1] for op in products)  # type: ignore[attr-defined]
        least = max(least, min(columns, wgmma.MAX_N) // 2 + cost.instruction_registers)
    return min(cost.max_registers, most + cost.register_unit - 1 & -cost.register_unit), least


def most_blocks(func: Op, products: list[Op], target: Any) -> int:
    """Blocks of a function that registers leave room for on an SM, with warps that copy where products are of warpgroups."""
    cost = CostModel
    warps = func.attrs[KEY].num_warps
    most, least = needed_registers(func)
    blocks = cost.register_file // (32 * warps * most)
    if target.has(sm.SETMAXNREG) and all(op.attrs.get("atom") == "wgmma" for op in products):
        with_them = 32 * (warps * most + cost.copying_warps * cost.addressing_registers)
        started = 32 * (warps + cost.copying_warps) * max(least, cost.addressing_registers)
        blocks = cost.register_file // max(with_them, started)
    return blocks


def takes_scores(op: Op) -> bool:
    """Whether a product's left operand stays in registers where the result of another one was that it is computed from."""
    if op.spec is not tileas.WGMMA_REGISTERS:
        return False
    work, seen = [op.operands[0]], {op.operands[0]}
    while work:
        maker = work.pop().op
        if maker is None or maker.block is not op.block:
            continue
        if is_product(maker):
            return True
        fresh = [v for v in maker.operands if v not in seen]
        seen.update(fresh)
        work += fresh
    return False


def last_place(value: Value, place: dict[Op, int]) -> int:
    """Where what elementwise ops compute from a product's result is used last: one half of the rows is done with its scores
    before the other one begins."""
    shape = value.type.shape  # type: ignore[attr-defined]
    last, work, seen = 0, [value], {value}
    while work:
        for user, _ in work.pop().uses:
            if user not in place:
                return len(place)
            last = max(last, place[user])
            for result in user.results:
                if (
                    not is_product(user)
                    and getattr(result.type, "shape", None) == shape
                    and result not in seen
                ):
                    seen.add(result)
                    work.append(result)
    return last


def registers(
    warps: int,
    needed: tuple[int, int],
    shared_bytes: int,
    occupancy: int | None,
    copying: int,
    sm_threads: int,
) -> tuple[int, int | None, int | None] | str:
    """(registers a thread starts with, those of warps that do all else, those of warps that copy) for a block whose other
    warps need `needed` of them (`needed_registers`) and warps that copy `copying`; both None where nobody needs more than all
    have. The reason where there are none.

    As many blocks as shared memory takes, and a hint's `occupancy` at least, are to fit an SM, as long as registers suffice. One
    block alone where two were before would leave the tensor cores idle while it stores its results. Warps that copy by cp.async
    issue a third more than all warps together would (64x64x32: 372 instructions a step, not 284): they are not worth any block.
    `sm_threads`: that an SM holds at once.
    """
    cost = CostModel
    most, least = needed
    threads = 32 * (warps + cost.copying_warps)
    room = cost.shared_of_sm // (shared_bytes + cost.shared_of_block)
    before = min(
        room, cost.register_file // (32 * warps * min(cost.max_registers, most + cost.register_unit))
    )
    fewest = before if copying > cost.copying_registers else min(before, 2)
    for count in range(max(1, min(room, sm_threads // threads)), 0, -1):
        if count < fewest:
            return "fewer blocks would fit an SM"
        start = min(
            cost.granted_registers[1],
            cost.register_file // (threads * count) // cost.register_unit * cost.register_unit,
        )
        if occupancy is not None:
            fair = cost.register_file // (threads * min(occupancy, max(1, room)))
            start = min(start, fair // cost.register_unit * cost.register_unit)
        if start > cost.max_registers - cost.register_unit:  # the most that instructions can name
            return start, None, None
        if start < max(least, copying):
            continue
        more = start + (start - copying) * cost.copying_warps // warps
        more = min(cost.most_granted, more // cost.register_unit * cost.register_unit)
        if more >= most:
            return start, more, copying
    return "its registers do not suffice for warps that only copy as well"
