"""Which loads of a loop travel to shared memory asynchronously, in what chunks, and how they lie there.

A load can when a product consumes it, through renamings, conversions of layout and elementwise ops, or where products
consume no loads, when it brings what they are added to (`rings.py`), and when its view is contiguous along a dimension whose
rows are aligned to at least the smallest asynchronous copy; a tile of pointers, when they count up along one in groups so
aligned, under one mask each. Elements outside of the view, or masked off, arrive as zeros, so the padding must be zero or
unspecified.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas.rings import in_units
from tileiras.compiler.ir.dense import dense_bits, num_elements
from tileiras.compiler.ir.types import TILE_VIEWS, GatherScatterView, Ptr, StridedView
from tileiras.compiler.ir.views import unit_dim, view_dims
from tileiras.compiler.layout.linear import LinearLayout, blocked, log2
from tileiras.compiler.layout.shared import arrange
from tileiras.compiler.target.cost import CostModel

from .pointer_needs import pointer_needs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value
    from tileiras.compiler.passes.tileaa.facts import Facts


PADDING = "nv_tileaa.chosen_padding"  # of a load and a `select`: what is chosen where the tensor has ended
RENAMES = frozenset(("reshape", "permute", "convert_layout"))
LOADS = frozenset(("load_view_tko", "load_ptr_tko"))


def is_elementwise(op: Op) -> bool:
    """Whether an op computes one tile, element by element."""
    return bool(op.spec.elementwise)


def is_small(load: Op, operand: Value) -> bool:
    """Whether a load is so small beside the operand that it is spread over, a scale a row, that it need not be staged: words
    that eight elements are packed in are few, but not small."""
    type: Any = load.results[0].type
    whole: Any = operand.type
    count, total = num_elements(type.shape) * CostModel.small_load_part, num_elements(whole.shape)
    return count <= total and count * max(8, type.elem.bits) <= total * max(8, whole.elem.bits)


class Staged:
    """A load that is staged: its dimension of neighbours (`unit`), bytes of one copy, arrangement, bytes, layout of the copying
    threads; where bulk tensor copies bring it, their map and boxes (`bulk.Boxes`). `filled`: rows of block scales that leave
    holes in their tiles of 128 rows, which are cleared; else 0."""

    __slots__ = ("arrangement", "boxes", "bytes", "filled", "layout", "op", "unit", "width")

    def __init__(
        self,
        op: Op,
        unit: int,
        width: int,
        arrangement: tuple[int, ...],
        size: int,
        layout: LinearLayout,
        filled: int = 0,
    ) -> None:
        self.filled = filled
        self.op = op
        self.unit = unit
        self.width = width
        self.arrangement = arrangement
        self.bytes = size
        self.layout = layout
        self.boxes: Any = None

    @property
    def room(self) -> int:
        """Bytes of shared memory that it takes in a stage."""
        return in_units(self.bytes)

    def laid_out(self, log2_warps: int) -> LinearLayout:
        """The layout of the copying threads for a number of warps."""
        type: Any = self.op.results[0].type
        return copying_layout(type.shape, self.unit, log2(self.width // type.elem.bytes), log2_warps)


def feeding_loads(
    product: Op, body: Any, lookups: Collection[Op] = (), rows: Collection[Op] = ()
) -> list[list[Op]]:
    """For each operand of a product, and for its scales, the loads of the loop's body that it is made from; without small
    ones but `rows`. What is looked up in a table (`lookups.py`) is made from what it is looked up by."""
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
            if op in lookups:
                work += op.operands
            elif op.spec.name in LOADS:
                if op in rows or not is_small(op, operand):
                    loads.append(op)
            elif op.spec.name in RENAMES or op.spec.is_pure and not op.regions:
                work += op.operands
        found.append(loads)
    return found


ONE = -1  # of the bits of a scalar that must be zero, all but the lowest, which must not: a stride of 1


def unit_dimension(op: Op, untold: bool = False) -> int:
    """The dimension along which the tile of a load of a view lies contiguous in memory; -1 where a copy cannot bring it.
    `untold`: where no stride is known to be 1, it may be the last one's."""
    if op.spec.name != "load_view_tko":
        return -1
    view: Any = op.operand("view").type  # type: ignore[union-attr]
    if not isinstance(view, TILE_VIEWS) or view.padding not in (None, "zero"):
        return -1
    tensor = view.view
    if isinstance(tensor.elem, Ptr) or tensor.elem.bits < 8:
        return -1
    dims, last = view_dims(view), len(tensor.strides) - 1
    if isinstance(view, GatherScatterView):
        return unit_dim(view)
    if untold and 1 not in tensor.strides and last in dims and tensor.strides[last] is None:
        return dims.index(last) if view.tile[dims.index(last)] > 1 else -1
    return unit_dim(view)


def start_bytes(op: Op, unit: int, facts: Facts) -> int:
    """A power of two that divides the distance in bytes of neighbouring tiles along the contiguous dimension; of a gather, the
    place at which its rows begin."""
    view: Any = op.operand("view").type  # type: ignore[union-attr]
    if isinstance(view, GatherScatterView):
        return facts.start_divisor(op, unit) * int(view.view.elem.bytes)
    steps = view.traversal if isinstance(view, StridedView) else view.tile  # type: ignore[attr-defined]
    return int((steps[unit] & -steps[unit]) * view.view.elem.bytes)


def missing(op: Op, loop: Op, facts: Facts, chunk: int) -> dict[Value, int] | None:
    """Which bits of which scalars must be zero so that chunks of so many bytes bring the tile of a load in a loop (`ONE`: it must
    be 1); None where that is not enough."""
    if op.spec.name == "load_ptr_tko":
        return pointer_needs(op, loop, chunk, run_of_pointers)
    unit = unit_dimension(op, untold=True)
    value = op.operand("view")
    if unit < 0 or value is None:
        return None
    view: Any = value.type
    size = view.view.elem.bytes
    if min(view.tile[unit] * size, start_bytes(op, unit, facts)) < chunk:
        return None
    needs: dict[Value, int] = {}
    along = facts.dynamic_stride(value, view_dims(view)[unit])
    if along is not None:
        needs[along] = ONE
    if facts.pointer_alignment(value) < chunk:
        needs[facts.tensor_view_op(value).operands[0]] = chunk - 1
    for d, m in enumerate(view_dims(view)):
        if d != unit and facts.stride_alignment(value, m, size) < chunk:
            stride = facts.dynamic_stride(value, m)
            if stride is None or needs.get(stride) == ONE:
                return None
            needs[stride] = needs.get(stride, 0) | chunk // size - 1
    return needs


def run_of_pointers(op: Op, facts: Facts) -> tuple[int, int]:
    """(dimension along which the pointers of a load count up, neighbours under one mask); -1 where copies cannot bring what they
    point at."""
    pointers, mask = op.operand("source"), op.operand("mask")
    assert pointers is not None
    elem: Any = op.results[0].type.elem  # type: ignore[attr-defined]
    if isinstance(elem, Ptr) or elem.bits < 8 or not is_zero(op.operand("paddingValue")):
        return -1, 1
    unit, count = facts.pointer_vector(pointers, mask, elem.bytes)
    layout = getattr(pointers.type, "layout", None)
    if layout is not None:
        count = min(count, 1 << facts.pointer_run(pointers, mask, layout, elem.bytes))
    return unit, count


def is_zero(value: Value | None) -> bool:
    """Whether all elements of a tile are known to have no bit set, or nobody asked for any."""
    while (
        value is not None and value.op is not None and value.op.spec.name in (*RENAMES, "broadcast", "ftof")
    ):
        value = value.op.operands[0]
    if value is None:
        return True
    maker = value.op
    return maker is not None and maker.spec.name == "constant" and not any(dense_bits(maker.attr("value")))


def staged(op: Op, facts: Facts, cost: CostModel, log2_warps: int) -> Staged | None:
    """How a load is staged; None when it cannot be."""
    if op.spec.name == "load_ptr_tko":
        return staged_pointers(op, facts, cost, log2_warps)
    unit = unit_dimension(op)
    value = op.operand("view")
    if unit < 0 or value is None:
        return None
    view: Any = value.type
    size: int = view.view.elem.bytes
    shape = view.tile
    alignment = min(facts.view_alignment(op, unit), shape[unit] * size)
    if alignment < max(cost.min_copy_bytes, size):
        return None
    bits = sum(log2(e) for e in shape)
    chunk = log2(alignment // size)
    if bits < chunk:
        return None
    layout = copying_layout(shape, unit, chunk, log2_warps)
    return Staged(op, unit, alignment, arrange(shape, unit, size), size << bits, layout)


def staged_pointers(op: Op, facts: Facts, cost: CostModel, log2_warps: int) -> Staged | None:
    """How a load of a tile of pointers is staged: by the threads that have the pointers, where layouts are chosen already."""
    unit, count = run_of_pointers(op, facts)
    type: Any = op.results[0].type
    size = type.elem.bytes
    if unit < 0 or count * size < max(cost.min_copy_bytes, size):
        return None
    pointers: Any = op.operand("source").type  # type: ignore[union-attr]
    layout = pointers.layout or copying_layout(type.shape, unit, log2(count), log2_warps)
    columns = arrange(type.shape, unit, size)
    return Staged(op, unit, count * size, columns, size * num_elements(type.shape), layout)


def copying_layout(shape: Any, unit: int, chunk: int, log2_warps: int) -> LinearLayout:
    """The layout of threads that copy a tile, 2^chunk neighbours along a dimension each at a time."""
    return blocked(shape, [unit, *[d for d in reversed(range(len(shape))) if d != unit]], chunk, log2_warps)
