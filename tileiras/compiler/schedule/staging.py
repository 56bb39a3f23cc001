"""Which loads of a loop travel to shared memory asynchronously, in what chunks, and how they lie there.

A load can when a product consumes it, through renamings, conversions of layout and elementwise ops, and when its
view is contiguous along a dimension whose rows are aligned to at least the smallest asynchronous copy. Elements
outside of the view arrive as zeros, so the view's padding must be zero or unspecified.
"""

from __future__ import annotations

from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.ir.types import PartitionView, Ptr
from tileiras.compiler.layout.linear import LinearLayout, blocked, log2
from tileiras.compiler.layout.shared import CHUNK_BYTES, arrange
from tileiras.compiler.passes.tileaa.slice_plan import ELEMENTWISE
from tileiras.compiler.target.cost import CostModel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value
    from tileiras.compiler.passes.tileaa.facts import Facts


RENAMES = frozenset(("reshape", "permute", "convert_layout"))


def is_elementwise(op: Op) -> bool:
    """Whether an op computes one tile, element by element."""
    return op.spec.name in ELEMENTWISE and len(op.results) == 1


def is_small(load: Op, operand: Value) -> bool:
    """Whether a load is so small beside the operand that it is spread over, a scale a row, that it need not be staged."""
    type: Any = load.results[0].type
    return num_elements(type.shape) * CostModel.small_load_part <= num_elements(operand.type.shape)  # type: ignore[attr-defined]


class Staged:
    """A load that is staged: its dimension of neighbours, bytes of one copy, arrangement, bytes, layout of the copying
    threads; where bulk tensor copies bring it, their map and boxes (`bulk.Boxes`). `filled`: rows of block scales that leave
    holes in their tiles of 128 rows, which are cleared; else 0."""

    __slots__ = ("arrangement", "boxes", "bytes", "filled", "layout", "op", "width")

    def __init__(
        self,
        op: Op,
        width: int,
        arrangement: tuple[int, ...],
        size: int,
        layout: LinearLayout,
        filled: int = 0,
    ) -> None:
        self.filled = filled
        self.op = op
        self.width = width
        self.arrangement = arrangement
        self.bytes = size
        self.layout = layout
        self.boxes: Any = None


def feeding_loads(product: Op, body: Any) -> list[list[Op]]:
    """For each operand of a product, and for its scales, the loads of the loop's body that it is made from; without small
    ones."""
    found: list[list[Op]] = []
    for operand in (*product.operands[:2], *product.operands[3:]):
        loads: list[Op] = []
        work = [operand]
        seen: set[Value] = set()
        while work:
            value = work.pop()
            op = value.op
            if value in seen or op is None or op.block is not body:
                continue
            seen.add(value)
            if op.spec.name == "load_view_tko":
                if not is_small(op, operand):
                    loads.append(op)
            elif op.spec.name in RENAMES or op.spec.is_pure and not op.regions:
                work += op.operands
        found.append(loads)
    return found


def unit_dimension(op: Op) -> int:
    """The dimension along which the tile of a load lies contiguous in memory; -1 where a copy cannot bring it."""
    view: Any = op.operand("view").type  # type: ignore[union-attr]
    if not isinstance(view, PartitionView) or view.padding not in (None, "zero"):
        return -1
    tensor = view.view
    if isinstance(tensor.elem, Ptr) or tensor.elem.bits < 8:
        return -1
    dims = view.dim_map or tuple(range(len(view.tile)))
    return next((d for d, m in enumerate(dims) if tensor.strides[m] == 1 and view.tile[d] > 1), -1)


def missing(op: Op, facts: Facts, chunk: int = CHUNK_BYTES) -> dict[Value, int] | None:
    """What must be a multiple of what so that chunks of so many bytes bring the tile of a load; None where that is not
    enough."""
    unit = unit_dimension(op)
    value = op.operand("view")
    if unit < 0 or value is None:
        return None
    view: Any = value.type
    size = view.view.elem.bytes
    if view.tile[unit] * size < chunk:
        return None
    needs: dict[Value, int] = {}
    if facts.pointer_alignment(value) < chunk:
        needs[facts.tensor_view_op(value).operands[0]] = chunk
    for d, m in enumerate(view.dim_map or tuple(range(len(view.tile)))):
        if d != unit and facts.stride_alignment(value, m, size) < chunk:
            stride = facts.dynamic_stride(value, m)
            if stride is None:
                return None
            needs[stride] = max(needs.get(stride, 1), chunk // size)
    return needs


def staged(op: Op, facts: Facts, cost: CostModel, log2_warps: int) -> Staged | None:
    """How a load of a view is staged; None when it cannot be."""
    unit = unit_dimension(op)
    value = op.operand("view")
    if unit < 0 or value is None:
        return None
    view: Any = value.type
    size: int = view.view.elem.bytes
    shape = view.tile
    alignment = min(CHUNK_BYTES, facts.pointer_alignment(value), shape[unit] * size)
    for d, m in enumerate(view.dim_map or tuple(range(len(shape)))):
        if d != unit:
            alignment = min(alignment, facts.stride_alignment(value, m, size))
    if alignment < max(cost.min_copy_bytes, size):
        return None
    bits = sum(log2(e) for e in shape)
    chunk = log2(alignment // size)
    if bits < chunk:
        return None
    order = [unit, *[d for d in reversed(range(len(shape))) if d != unit]]
    layout = blocked(shape, order, chunk, log2_warps)
    return Staged(op, alignment, arrange(shape, unit, size), size << bits, layout)
