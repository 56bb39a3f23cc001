"""Views: a pointer with extents and strides, how many tiles lie in it, and where each of them starts."""

from __future__ import annotations

from tileiras.compiler.ir.types import GatherScatterView, StridedView
from tileiras.compiler.layout.linear import log2

from .state import Lowering, View

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value


def lower_make_tensor_view(lowering: Lowering, op: Op) -> None:
    type = op.results[0].type
    base = lowering.scalar(op.operand("base"))  # type: ignore[arg-type]

    def operands(static: Any, dynamic: list[Value]) -> list[tuple[Any, int]]:
        rest = iter(dynamic)
        out = []
        for extent in static:
            if extent is None:
                value = next(rest)
                out.append((lowering.scalar(value), value.type.elem.bits))  # type: ignore[attr-defined]
            else:
                out.append((extent, 64))
        return out

    lowering.env[op.results[0]] = View(
        type,
        base,
        operands(type.shape, op.group("dynamicShape")),  # type: ignore[attr-defined]
        operands(type.strides, op.group("dynamicStrides")),  # type: ignore[attr-defined]
    )


def lower_make_view(lowering: Lowering, op: Op) -> None:
    view = lowering.env[op.operands[0]]
    lowering.env[op.results[0]] = View(op.results[0].type, view.base, view.shape, view.strides)


def widened(lowering: Lowering, value: tuple[Any, int], signed: bool = False) -> Any:
    """An extent or stride as 64 bits."""
    operand, bits = value
    if isinstance(operand, int) or bits == 64:
        return operand
    from .arith import extended

    return lowering.b.wide(extended(lowering, operand, bits, signed), signed)


def lower_get_tensor_shape(lowering: Lowering, op: Op) -> None:
    view = lowering.env[op.operands[0]]
    for result, extent in zip(op.results, view.shape):
        lowering.define(result, [_to_width(lowering, extent, result.type.elem.bits)])  # type: ignore[attr-defined]


def _to_width(lowering: Lowering, value: tuple[Any, int], bits: int) -> Any:
    operand, have = value
    if isinstance(operand, int):
        return operand & ((1 << bits) - 1)
    if bits == 64:
        return widened(lowering, value)
    if have == 64:
        return lowering.b.emit("cvt.u32.u64", operand)
    return operand


def view_steps(type: Any) -> tuple[Sequence[int], Sequence[int]]:
    """(elements between neighbouring tiles, tensor dimension) per view dimension."""
    if isinstance(type, StridedView):
        return type.traversal, type.dim_map  # type: ignore[attr-defined]
    if isinstance(type, GatherScatterView):
        # dense indices of a gather are element offsets (seen in NVIDIA's code), so tiles start every element
        return (1,) * len(type.tile), tuple(range(len(type.tile)))  # type: ignore[attr-defined]
    return type.tile, type.dim_map


def lower_get_index_space_shape(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    view = lowering.env[op.operands[0]]
    steps, dims = view_steps(view.type)
    for result, step, m in zip(op.results, steps, dims):
        bits = result.type.elem.bits  # type: ignore[attr-defined]
        extent, have = view.shape[m]
        if isinstance(extent, int):
            lowering.define(result, [-(-extent // step) & ((1 << bits) - 1)])
            continue
        w = 64 if have == 64 else 32
        # ceil without overflow: (extent - 1) / step + 1, and 0 for an empty dimension
        if step & (step - 1) == 0:
            down = b.shr(w, extent, log2(step))
            rest = b.and_(w, extent, step - 1)
        else:
            down = b.emit(f"div.u{w}", extent, step)
            rest = b.emit(f"rem.u{w}", extent, step)
        more = b.emit(f"setp.ne.b{w}", rest, 0) if rest != 0 else None
        count = down if more is None else b.add(w, down, b.emit(f"selp.b{w}", 1, 0, more))
        lowering.define(result, [_to_width(lowering, (count, w), bits)])


LOWER = {
    "make_tensor_view": lower_make_tensor_view,
    "make_partition_view": lower_make_view,
    "make_strided_view": lower_make_view,
    "make_gather_scatter_view": lower_make_view,
    "get_tensor_shape": lower_get_tensor_shape,
    "get_index_space_shape": lower_get_index_space_shape,
}
