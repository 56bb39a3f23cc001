"""Products of mma.sync with an operand of bytes that is contiguous along M or N.

A fragment wants neighbours along K side by side, ldmatrix transposes 16-bit elements only. So two bytes are transposed as one
element, and the rows or columns that they belong to are given to one lane: the product's rows or columns are turned
(target/mma.py). Scores whose columns are turned lie right in registers to be the left operand of a product of bytes.
"""

from __future__ import annotations

from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.layout.linear import dim_bits
from tileiras.compiler.layout.shared import arrange
from tileiras.compiler.target.mma import can_turn
from tileiras.compiler.target.products import SCALED, SIDES

from .instructions import mma_sync
from .restage import origin, source_load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tileiras.compiler.ir.core import Op

    from .staging import Staged


def turned(
    product: Op,
    target: Any,
    plans: Callable[[Op], list[Staged]],
    known: dict[Op, tuple[bool, bool] | None],
) -> tuple[bool, bool]:
    """Whether the rows and the columns of a product for mma.sync are turned. `plans`: the staged loads of a product. `known`:
    what each product asks for by itself, as far as it was found: hundreds in a row share their sums."""
    rows = columns = False
    for op in chained(product):
        if op not in known:
            known[op] = _asks(op, target, plans(op))
        asks = known[op]
        if asks is None:
            return False, False
        rows, columns = rows or asks[0], columns or asks[1]
    return rows, columns


def _asks(product: Op, target: Any, plans: list[Staged]) -> tuple[bool, bool] | None:
    """Whether a product by itself has its rows and its columns turned; None where it cannot."""
    if not _may_turn(product, target):
        return None
    found = [False, False]
    for which, operand in enumerate(product.operands[:2]):
        lies = origin(operand, plans)
        rank = len(operand.type.shape)  # type: ignore[attr-defined]
        if lies is not None and lies[1] == 1 and lies[2] == rank - 2 + which:
            found[which] = True
    return found[0], found[1] or _becomes_bytes(product, target)


def _may_turn(product: Op, target: Any) -> bool:
    atom = mma_sync(product, target)
    if atom is None or product.spec.name == SCALED:
        return False
    return can_turn(product.result.type.shape, atom, product.operands[0].type.shape[-1])  # type: ignore[attr-defined]


def chained(product: Op) -> list[Op]:
    """The products of a block that add to one another, this one included: they share the layout of their sums."""
    found = [product]
    while (before := found[-1].operands[2].op) is not None and before.spec is product.spec:
        if before.block is not product.block:
            break
        found.append(before)
    found.reverse()
    while len(uses := found[-1].result.uses) == 1:
        user, index = uses[0]
        if user.spec is not product.spec or index != 2 or user.block is not product.block:
            break
        found.append(user)
    return found


def _becomes_bytes(product: Op, target: Any) -> bool:
    """Whether a product's result is the left operand of a product of bytes, element by element."""
    from .products import reaches

    for fed in reaches(product.result)[0]:
        atom = mma_sync(fed, target)
        if fed.block is product.block and atom is not None and atom.pack == 2:
            return True
    return False


def apart(product: Op, members: dict[Op, Staged]) -> None:
    """Lines that the lanes of a turned fragment read at once, or of an operand that is turned for wgmma, lie in different banks,
    where they are not the next ones."""
    for which, operand in enumerate(product.operands[:2]):
        if "atom" in product.attrs and f"restage_{SIDES[which]}" not in product.attrs:
            continue
        load = source_load(operand)
        if load is None or load not in members or load.results[0].type.elem.bytes != 1:  # type: ignore[attr-defined]
            continue
        lines = read_at_once(product, which, members[load])
        if lines is not None:
            shape = load.results[0].type.shape  # type: ignore[attr-defined]
            members[load].arrangement = arrange(shape, members[load].unit, 1, lines=lines)


def read_at_once(product: Op, which: int, member: Staged) -> list[int] | None:
    """Numbers of the index bits of a loaded tile whose lines a matrix of ldmatrix reads for a turned fragment; None where they
    are the lowest anyway, or its rows lie otherwise."""
    operand = product.operands[which]
    layout: Any = operand.type.layout  # type: ignore[attr-defined]
    unit = dim_bits(operand.type.shape)  # type: ignore[attr-defined]
    low, count = unit[-2 + which]  # of M or N
    if count < 4 or layout.lane[2] != 2 << low or num_elements(operand.type.shape) != 1 << layout.bits:  # type: ignore[attr-defined]
        return None
    number = {1 << k: k for k in range(layout.bits)}
    where = {k: k for k in range(layout.bits)}
    value = operand
    while value.op is not member.op:
        op: Any = value.op
        value = next(v for v in op.operands if v.op is None or v.op.spec.name != "constant")
        if op.spec.name == "permute":
            ours, theirs = dim_bits(op.result.type.shape), dim_bits(value.type.shape)  # type: ignore[attr-defined]
            moved = {
                ours[i][0] + k: theirs[p][0] + k
                for i, p in enumerate(op.attr("permutation"))
                for k in range(ours[i][1])
            }
            where = {bit: moved[at] for bit, at in where.items()}
    spans = dim_bits(value.type.shape)  # type: ignore[attr-defined]
    first, n = spans[member.unit]
    along = range(first, first + n)
    for lines in ((layout.reg[0], *layout.lane[:2]), layout.lane[2:5]):
        found = [where[number[bit]] for bit in lines if bit in number]
        if len(found) == 3 and not any(bit in along for bit in found):
            return found
    return None
