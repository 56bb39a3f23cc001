"""Rules of memory ops: pointers, views, masks, ordering and scope, atomics.

Order of the contract: pointee, pointer shape, mask, ordering by kind, scope of weak, scope of the others.
"""

from __future__ import annotations

from tileiras.compiler.ir import types as T
from tileiras.compiler.ir.verify import Invalid, broken, tname
from tileiras.diag import Catalogue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op

D = Catalogue("tileiras.compiler.dialects.cuda_tile.diags")
INT_MODES = frozenset(("and", "or", "xor", "add", "max", "min", "umax", "umin"))


def segment_problem(op: Op) -> Invalid | None:
    """What is wrong with segment sizes that do not fit the operands."""
    sizes = op.attrs["operandSegmentSizes"] or ()
    last = op.operands[-1].type if op.operands else None
    real = (
        f"operandSegmentSizes has {len(sizes)} entries with sum {sum(sizes)} for {len(op.operands)} operands"
    )
    if op.spec.operands[-1].constraint != "token" or (sizes and sizes[-1] == 1 and last is T.TOKEN):
        return broken(real)
    return Invalid(D.TOKEN_OPERAND, real)


def check_pointers(op: Op, pointers: Any, value: Any, real: str, mask_real: str) -> None:
    """Pointee, shape and mask of a pointer op."""
    if pointers.elem.pointee is not value.elem:
        raise Invalid(D.POINTEE, real)
    if pointers.shape != value.shape:
        raise Invalid(D.POINTER_SHAPE, real)
    mask = op.operand("mask")
    if mask is not None and mask.type.shape != value.shape:
        raise Invalid(D.MASK_SHAPE, mask_real)


def check_load_order(op: Op) -> None:
    check_order(op, ("weak", "relaxed", "acquire"), "LOAD_ORDERING", "load")


def check_store_order(op: Op) -> None:
    check_order(op, ("weak", "relaxed", "release"), "STORE_ORDERING", "store")


def check_order(op: Op, allowed: tuple[str, ...], diag: str, kind: str) -> None:
    order, scope = op.attr("memory_ordering_semantics"), op.attrs.get("memory_scope")
    if order not in allowed:
        raise Invalid(
            getattr(D, diag), f"expect one of: {', '.join(allowed[:-1])}, or {allowed[-1]}, but got: {order}"
        )
    if order == "weak" and scope is not None:
        raise Invalid(D.WEAK_SCOPE, f"weak {kind} must not have memory scope")
    if order != "weak" and scope is None:
        raise Invalid(D.NEEDS_SCOPE, f"memory scope is required for {order} {kind}")


def check_load_ptr(op: Op) -> None:
    source, result = op.operands[0].type, op.results[0].type
    pointer = "failed to verify that `source` type is expected a pointer type of `result` type"
    check_pointers(
        op, source, result, pointer, "failed to verify that shape of 'mask' must match the shape of 'source'"
    )
    padding = op.operand("paddingValue")
    if padding is not None and padding.type is not result:
        raise broken("type of 'paddingValue' must match the type of 'result'")
    check_load_order(op)


def check_store_ptr(op: Op) -> None:
    target, value = op.operands[0].type, op.operands[1].type
    pointer = "failed to verify that `destination` type is expected a pointer type of `value` type"
    check_pointers(
        op,
        target,
        value,
        pointer,
        "failed to verify that shape of 'destination' must match the shape of 'mask'",
    )
    check_store_order(op)


def check_view_tile(view: Any, tile: Any) -> None:
    """The tile that goes through a view has the view's element type and shape."""
    want = T.TileType(view.view.elem, view.tile)
    real = f"expected tile type to be '{tname(want)}' (based on view type), got '{tname(tile)}'"
    if not isinstance(tile, T.TileType) or tile.elem is not want.elem:
        raise Invalid(D.POINTEE, real)
    if tile.shape != want.shape:
        raise Invalid(D.POINTER_SHAPE, real)


def check_indices(op: Op, view: Any) -> None:
    indices = op.group("index")
    rank = len(view.tile)
    if len(indices) != rank:
        raise broken(f"expected {rank} index operands (based on view type), got {len(indices)}")
    first = None
    for i, value in enumerate(indices):
        type = value.type
        if isinstance(view, T.GatherScatterView) and i == view.sparse_dim:
            if type.shape != (view.tile[i],):
                want = f"a rank-1 tile of {view.tile[i]} elements"
                raise broken(f"expected index type at sparse dimension {i} to be {want}, got '{tname(type)}'")
            continue
        if type.shape != ():
            raise broken(f"expected index type to be a scalar tile, got '{tname(type)}'")
        if first is None:
            first = type
        elif type is not first:
            text = f"expected index type {i} to be the same as other index types ('{tname(first)}'), got '{tname(type)}'"
            raise broken(text)
    inbounds = op.attrs.get("inbounds")
    if inbounds is not None and len(inbounds) != len(indices):
        raise broken(
            f"inbounds size ({len(inbounds)}) must match the number of index dimensions ({len(indices)})"
        )


def check_load_view(op: Op) -> None:
    view = op.operands[0].type
    check_view_tile(view, op.results[0].type)
    check_indices(op, view)
    check_load_order(op)


def check_store_view(op: Op) -> None:
    tile, view = op.operands[0].type, op.operands[1].type
    check_view_tile(view, tile)
    check_indices(op, view)
    check_store_order(op)


# ---- atomics


def check_atomic_order(op: Op) -> None:
    if op.attr("memory_ordering_semantics") not in ("relaxed", "acquire", "release", "acq_rel"):
        raise broken("memory ordering semantics must be one of: relaxed, acquire, release, acq_rel")


def check_atomic_mode(mode: Any, elem: Any) -> None:
    if mode in INT_MODES and elem not in (T.I32, T.I64):
        raise Invalid(D.RMW_INT, f"'{mode}' works only with integers i32 and i64")
    if mode == "addf" and elem not in (T.F16, T.BF16, T.F32, T.F64):
        raise Invalid(D.RMW_ADDF, "'addf' works only with floats f16, bf16, f32, and f64")
    if mode == "xchg" and elem not in (T.I32, T.I64, T.F32, T.F64):
        raise Invalid(D.RMW_XCHG, "'xchg' works only with integers or float of 32 or 64 bitwidth")


def check_atomic_base(op: Op, name: str) -> None:
    pointers, value = op.group("pointers")[0].type, op.group(name)[0].type
    if pointers.elem.attr == "multicast":
        raise broken(f"multicast pointer is not supported for {op.spec.name[:10]}")
    pointee = pointers.elem.pointee
    if pointee is not value.elem:
        raise Invalid(
            D.POINTEE,
            f"expected pointee type ('{pointee}') to match element type of '{name}' ('{value.elem}')",
        )
    mask = op.operand("mask")
    if mask is not None and mask.type.shape != value.shape:
        raise Invalid(
            D.MASK_SHAPE, f"failed to verify that all of {{pointers, {name}, mask}} have same shape"
        )


def check_atomic_rmw(op: Op) -> None:
    check_atomic_base(op, "arg")
    check_atomic_order(op)
    check_atomic_mode(op.attr("mode"), op.group("arg")[0].type.elem)


def check_atomic_cas(op: Op) -> None:
    check_atomic_base(op, "val")
    if op.group("val")[0].type.elem not in (T.I32, T.I64, T.F32, T.F64):
        raise broken("expect only float or integer types with 32 or 64 bit")
    check_atomic_order(op)


def check_atomic_red_view(op: Op) -> None:
    view, value = op.operands[0].type, op.group("value")[0].type
    if isinstance(view, T.GatherScatterView):
        raise broken("gather_scatter_view is not supported; use partition_view instead")
    if view.view.ptr_attr == "multicast":
        raise broken("multicast ptr_attr is not allowed")
    if view.padding is not None:
        raise broken("views with padding_value are not supported for atomic reductions")
    indices = op.group("index")
    if len(indices) != len(view.tile):
        raise broken(
            f"expected {len(view.tile)} index operand(s) for view with tile rank {len(view.tile)}, got {len(indices)}"
        )
    for i, index in enumerate(indices):
        if index.type.shape != ():
            shape = ", ".join(map(str, index.type.shape))
            raise broken(f"index operand {i} must be a scalar tile (rank 0), got shape {shape}")
    if view.view.elem is not value.elem:
        raise Invalid(
            D.POINTEE,
            f"view element type ('{view.view.elem}') must match value element type ('{value.elem}')",
        )
    if view.tile != value.shape:
        shapes = f"view tile shape {listed(view.tile)} must match value shape {listed(value.shape)}"
        raise Invalid(D.POINTER_SHAPE, f"{shapes} for element-wise atomic operations")
    if op.attr("mode") == "xchg":
        raise broken("atomic_red_view_tko op cannot use xchg operation")
    check_atomic_mode(op.attr("mode"), value.elem)
    if op.attr("memory_ordering_semantics") != "relaxed":
        raise broken("only 'relaxed' memory ordering is supported for view-based atomic reductions")
    scope = op.attr("memory_scope")
    if scope not in ("tl_blk", "device"):
        text = "is not supported for view-based atomic reductions; use 'tl_blk' or 'device' for TMA compatibility"
        raise broken(f"memory scope '{scope}' {text}")


def listed(values: Any) -> str:
    return ", ".join(map(str, values))


# ---- views


def check_make_tensor_view(op: Op) -> None:
    base, type = op.operands[0].type, op.results[0].type
    if base.elem.pointee is not type.elem:
        raise broken(
            f"expected pointer to '{type.elem}' to build tensor_view of this type, got '{base.elem.pointee}'"
        )
    if base.elem.attr != type.ptr_attr:
        raise broken("expected the pointer attribute of the tensor_view to be that of the base pointer")
    shape, strides = op.group("dynamicShape"), op.group("dynamicStrides")
    for word, values, extents in (("shape", shape, type.shape), ("stride", strides, type.strides)):
        wanted = sum(1 for d in extents if d is None)
        if len(values) != wanted:
            raise broken(f"expected {wanted} dynamic {word} operands, got {len(values)}")
    dynamic = [*shape, *strides]
    for i, value in enumerate(dynamic):
        if value.type is not dynamic[0].type:
            word, index = ("shape", i) if i < len(shape) else ("stride", i - len(shape))
            text = (
                f"expected dynamic {word} index {index} to be of the same type as the other dynamic values "
            )
            raise broken(f"{text}({tname(dynamic[0].type)}), got {tname(value.type)}")


def check_make_view(op: Op) -> None:
    given, inside = op.operands[0].type, op.results[0].type.view
    if given is not inside:
        text = f"expected the type of the provided tensor_view value ({tname(given)})"
        text += " to be the same as the view's tensor_view type"
        raise broken(f"{text} ({tname(inside)})")


def check_index_space(op: Op) -> None:
    check_result_types(op, len(op.operands[0].type.tile), "view index space rank")


def check_tensor_shape(op: Op) -> None:
    check_result_types(op, len(op.operands[0].type.shape), "tensor rank")


def check_result_types(op: Op, wanted: int, what: str) -> None:
    if len(op.results) != wanted:
        raise broken(f"expected {wanted} results due to {what}, but got {len(op.results)}")
    if len({v.type for v in op.results}) > 1:
        raise broken("requires the same type for all results")


def check_multimem(op: Op) -> None:
    """Ops on multicast memory (13.5): a partition view of a multicast pointer, 32- and 64-bit integers or floats."""
    view = op.group("view")[0].type
    if not isinstance(view, T.PartitionView):
        raise broken(f"multimem view operations support only partition_view; got '{tname(view)}'")
    if view.view.ptr_attr != "multicast":
        raise broken(f"expected a multicast pointer, but got {view.view.ptr_attr or 'none'}")
    tile = op.results[0].type if "tile" not in op.spec.operand_index else op.group("tile")[0].type
    check_view_tile(view, tile)
    check_indices(op, view)
    elem, reduction = tile.elem, op.attr("reduction")
    if not isinstance(elem, T.Scalar):
        raise broken("multimem expects integer, index, or standard floating-point tensor elements")
    if elem.is_float and elem not in (T.F16, T.BF16, T.F32, T.F64):
        raise broken("multimem supports only f16, bf16, f32, and f64 floating-point element types")
    if not elem.is_float and elem not in (T.I32, T.I64):
        raise broken(f"multimem requires 32- or 64-bit integer/index element types; got '{elem}'")
    if elem.is_float and reduction not in (None, "add"):
        if "tile" in op.spec.operand_index:
            raise broken("supports only add for floating-point element types")
        if reduction in ("min", "max") and elem not in (T.F16, T.BF16):
            raise broken(f"min/max supports f16 and bf16 float types only; got '{elem}'")
    order, scope = op.attr("memory_ordering_semantics"), op.attrs.get("memory_scope")
    if order == "weak" and scope is not None:
        raise Invalid(D.WEAK_SCOPE)
    if order != "weak" and scope is None:
        raise Invalid(D.NEEDS_SCOPE)


CHECKS = {
    "multimem_load_reduce_view_tko": check_multimem,
    "multimem_reduce_view_tko": check_multimem,
    "multimem_store_view_tko": check_multimem,
    "load_ptr_tko": check_load_ptr,
    "store_ptr_tko": check_store_ptr,
    "load_view_tko": check_load_view,
    "store_view_tko": check_store_view,
    "atomic_rmw_tko": check_atomic_rmw,
    "atomic_cas_tko": check_atomic_cas,
    "atomic_red_view_tko": check_atomic_red_view,
    "make_tensor_view": check_make_tensor_view,
    "make_partition_view": check_make_view,
    "make_strided_view": check_make_view,
    "make_gather_scatter_view": check_make_view,
    "get_index_space_shape": check_index_space,
    "get_tensor_shape": check_tensor_shape,
}
