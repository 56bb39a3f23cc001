"""Products by fused multiply-add whose operands wait in shared memory: which they are, how many warps they get, how operands lie.

    %a = load_shared .. : 64x16                  %a0 = load_shared .. : 64x4, %b0 = load_shared .. : 4x64
    %d = mmaf %a, %b, %c {atom = "fma"}  becomes %d0 = mmaf %a0, %b0, %c, ..

Products of f32 have no tensor core that keeps their bits. A thread has a square of sums (`target/fma.py`) and reads its rows and
columns of both operands a slice of K ahead, as fragments of mma.sync are read. Other products by multiply-add, as of what a loop
computes, write both operands to shared memory themselves (`exchange.py`).
"""

from __future__ import annotations

from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.ir.types import F32
from tileiras.compiler.layout.linear import dim_bits
from tileiras.compiler.layout.shared import BANK_GROUPS, arrange
from tileiras.compiler.target import fma
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.mma import FMA, fragments_of

from .instructions import mma_sync
from .restage import origin
from .staging import LOADS, RENAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value
    from tileiras.compiler.layout.linear import LinearLayout

    from .staging import Staged


def may_read(product: Op, body: Any) -> bool:
    """Whether the threads of a product by multiply-add may read what they multiply where it waits in shared memory, loaded in its
    loop."""
    left: Any = product.operands[0].type
    if left.elem is not F32 or product.result.type.elem is not F32:  # type: ignore[attr-defined]
        return False
    return all(comes_as_loaded(operand, body) for operand in product.operands[:2])


def parts(product: Op) -> int:
    """Into how many parts of K a product's step is to be cut: its code is as long as its multiply-adds are many."""
    left: Any = product.operands[0].type
    elems = num_elements(product.result.type.shape)  # type: ignore[attr-defined]
    threads = 32 * warps_of(elems, CostModel.most_warps)
    return max(1, elems * left.shape[-1] // (threads * CostModel.step_multiplications))


def comes_as_loaded(operand: Value, body: Any) -> bool:
    """Whether an operand is what was loaded in a loop's body for it alone, renamed, widened, or turned around zero. Several
    threads want each element, and all of them compute it again. What two products read would wait in registers between them,
    for all of K."""
    value = operand
    while (op := value.op) is not None and op.block is body and len(value.uses) == 1:
        if op.spec.name in LOADS:
            return True
        if op.spec.name not in RENAMES and op.spec.name not in ("ftof", "negf", "absf"):
            return False
        value = op.operands[0]
    return False


def warps_of(elems: int, most: int) -> int:
    """Warps for so many sums: threads have 8 rows and 8 columns of them, for which they read least beside what they multiply."""
    warps = CostModel.least_multiplying_warps
    while warps < most and elems > warps * 32 * CostModel.thread_elements:
        warps *= 2
    return warps


def layouts(product: Op, plans: list[Staged], log2_warps: int) -> tuple[list[LinearLayout], LinearLayout]:
    """Layouts of the operands and of the result. `plans`: the loads of its loop that are staged."""
    shape: Any = product.result.type.shape  # type: ignore[attr-defined]
    near = [runs_along(product, which, plans) for which in (0, 1)]
    result = fma.accumulator_layout(shape, log2_warps, (near[0], near[1]))
    types: list[Any] = [v.type for v in product.operands[:2]]
    sides = [fma.operand_layout(type.shape, which, result, shape) for which, type in enumerate(types)]
    return [*sides, result], result


def runs_along(product: Op, which: int, plans: Iterable[Staged]) -> bool:
    """Whether what an operand is loaded as is contiguous along its rows or columns, not along K."""
    lies = origin(product.operands[which], plans)
    return lies is not None and lies[2] == len(product.result.type.shape) - 2 + which  # type: ignore[attr-defined]


def in_fragments(product: Op) -> bool:
    """Whether threads have of both operands of a product what they multiply. Layouts are chosen already."""
    type: Any = product.result.type
    sides: list[Any] = [v.type for v in product.operands[:2]]
    return all(
        side.layout is fma.operand_layout(side.shape, which, type.layout, type.shape)
        for which, side in enumerate(sides)
    )


def exchange(products: Iterable[Op], target: Any) -> bool:
    """Whether products by multiply-add among some exchange their operands. Layouts are chosen already."""
    return any(mma_sync(op, target) is None and not in_fragments(op) for op in products)


def slice_bits(product: Op) -> int | None:
    """log2 of the elements along K in which a product takes operands that wait in shared memory; None where it wants them whole.
    Its instruction is named already."""
    name = product.attrs.get("atom")
    if name == FMA:
        return fma.SLICE if in_fragments(product) else None
    atom = fragments_of(product.spec.name, name)
    return None if atom is None else atom.k


def in_straight_lines(product: Op, members: dict[Op, Staged]) -> None:
    """Operands that are contiguous along rows or columns lie as they come: lanes read neighbouring chunks of one line, and the
    lines of all K are at distances that instructions name."""
    if not in_fragments(product):
        return
    for which, operand in enumerate(product.operands[:2]):
        value: Value = operand
        while value.op is not None and value.op not in members and comes_as_loaded(value, product.block):
            value = value.op.operands[0]
        member = members.get(value.op) if value.op is not None else None
        if member is not None and runs_along(product, which, [member]):
            type: Any = value.type
            low, count = dim_bits(type.shape)[member.unit]
            line = [k for k in range(low, low + count) if type.elem.bytes << k - low in BANK_GROUPS]
            if line:
                member.arrangement = arrange(type.shape, member.unit, type.elem.bytes, lines=line)
