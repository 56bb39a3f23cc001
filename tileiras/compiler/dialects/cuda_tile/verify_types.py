"""Types of cuda_tile: what operands and results may have, and which types exist at all."""

from __future__ import annotations

from tileiras.compiler.ir import types as T
from tileiras.compiler.ir.verify import Invalid, broken
from tileiras.diag import Catalogue

from .ops import CONSTRAINTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

D = Catalogue("tileiras.compiler.dialects.cuda_tile.diags")

MAX_ELEMENTS = 1 << 24


I32_MAX = (1 << 31) - 1

PREFIXES = {
    "tile:mmaf_operand": "mmaf operand tile type of ",
    "tile:mmaf_acc": "mmaf acc/result tile type of ",
    "tile:mmaf_scaled_operand": "mmaf_scaled operand tile type of ",
    "tile:mmaf_scale": "mmaf_scaled scale tile type of ",
}

DESCRIBE = {
    ("mmai", "lhs"): "mmai operand tile type of i8 values",
    ("mmai", "rhs"): "mmai operand tile type of i8 values",
    ("mmai", "acc"): "mmai acc/result tile type of i32 values",
    ("mmai", "result"): "mmai acc/result tile type of i32 values",
    ("mmaf_scaled", "acc"): "mmaf_scaled result tile type of f32 values",
    ("mmaf_scaled", "result"): "mmaf_scaled result tile type of f32 values",
}


def elem_name(type: Any) -> str:
    return "ptr" if isinstance(type.elem, T.Ptr) else type.elem.name


VIEWS = {
    "tensor_view": T.TensorView, "partition_view": T.PartitionView, "strided_view": T.StridedView,
    "gather_scatter_view": T.GatherScatterView,
}  # fmt: skip


def constraint(name: str) -> tuple[Callable[[Any], bool], str] | None:
    """Predicate over a type and the words that describe it."""
    if name == "any":
        return None
    if name == "token":
        return (lambda t: t is T.TOKEN), "cuda tile token type"
    if name == "tile_view":
        return (lambda t: isinstance(t, T.TILE_VIEWS)), "TileView instance"
    if name in VIEWS:
        kind = VIEWS[name]
        return (lambda t: isinstance(t, kind)), f"{name} type"
    return of_elements(name, T.TileType)


def of_elements(name: str, cls: Any) -> tuple[Callable[[Any], bool], str]:
    """`constraint` of a tile, or of what a later dialect has in its place: a class with element type and shape."""
    kind, _, what = name.partition(":")
    if what == "any":
        return (lambda t: isinstance(t, cls)), "tile of any element type values"
    names = CONSTRAINTS.get(f"tile:{what}", (what,))
    accepted = frozenset((*names, "fnv8E5M3FNU") if what == "mmaf_scale" else names)
    words = " or ".join("Pointer type" if n == "ptr" else n for n in names)
    if kind == "scalar":
        return (
            lambda t: isinstance(t, cls) and t.shape == () and elem_name(t) in accepted
        ), f"0D tile of {words} values"
    head = PREFIXES.get(name, "tile of ")
    return (lambda t: isinstance(t, cls) and elem_name(t) in accepted), f"{head}{words} values"


def listed(values: Any) -> str:
    return ", ".join(map(str, values))


def type_problem(type: Any) -> Invalid | None:
    """What is wrong with a type by itself."""
    if isinstance(type, T.TileType):
        return tile_problem(type)
    if isinstance(type, T.Ptr):
        return pointee_problem(type)
    if isinstance(type, T.TensorView):
        return tensor_view_problem(type)
    if isinstance(type, T.TILE_VIEWS):
        return type_problem(type.view) or view_problem(type)
    return None


def wrong(text: str) -> Invalid:
    problem = broken(text)
    problem.prefix = False
    return problem


ELEMENT_NAMES = " or ".join(
    (
        "f16",
        "bf16",
        "f32",
        "tf32",
        "f64",
        "f8E4M3FN",
        "f8E5M2",
        "f8E8M0FNU",
        "f4E2M1FN",
        "i1",
        "i8",
        "i16",
        "i32",
        "i64",
    )
)


def pointee_problem(type: Any) -> Invalid | None:
    if not isinstance(type.pointee, T.Scalar) or type.pointee is T.I4:
        return wrong(f"failed to verify 'pointeeType': {ELEMENT_NAMES}")
    return None


def tile_problem(type: Any) -> Invalid | None:
    if isinstance(type.elem, T.Ptr):
        problem = pointee_problem(type.elem)
        if problem is not None:
            return problem
    elif not isinstance(type.elem, T.Scalar):
        return wrong(f"failed to verify 'elementType': {ELEMENT_NAMES} or Pointer type")
    count = 1
    for d in type.shape:
        count *= d
    if type.elem is T.F4E2M1FN and count % 2:
        return wrong("F4E2M1FN tiles must have an even number of elements")
    count = 1
    for d in type.shape:
        if d <= 0:
            return Invalid(
                D.POWER_OF_TWO,
                f"all dimensions must be positive constants, got {listed(type.shape)}",
                prefix=False,
            )
        if d & (d - 1):
            return Invalid(
                D.POWER_OF_TWO,
                f"all dimensions must be powers of two, got {listed(type.shape)}",
                prefix=False,
            )
        count *= d
    if count > MAX_ELEMENTS:
        real = f"tile would exceed the maximum of {MAX_ELEMENTS} elements"
        return Invalid(D.TOO_MANY_ELEMENTS, real, prefix=False)
    return None


def tensor_view_problem(type: Any) -> Invalid | None:
    if not isinstance(type.elem, T.Scalar) or type.elem is T.I4:
        return wrong(f"failed to verify 'elementType': {ELEMENT_NAMES}")
    if len(type.shape) != len(type.strides):
        ranks = f"shape of rank {len(type.shape)} and stride of rank {len(type.strides)}"
        return wrong(f"expected shape and stride to be of same rank but got {ranks}")
    for d in type.shape:
        if d is not None and d <= 0:
            return wrong(
                f"dimensions must have strictly positive constant sizes but got [{listed_dims(type.shape)}]"
            )
    for s in type.strides:
        if s is not None and s <= 0:
            return wrong(
                f"strides must have strictly positive constant values but got [{listed_dims(type.strides)}]"
            )
    return None


def listed_dims(dims: Any) -> str:
    return ", ".join("?" if d is None else str(d) for d in dims)


def view_problem(type: Any) -> Invalid | None:
    tile, rank = type.tile, len(type.view.shape)
    if not tile:
        return wrong("0-dimension tile shape is not supported")
    for i, d in enumerate(tile):
        if not 0 < d <= I32_MAX:
            limit = f"(got {d}, expected strictly positive and less than or equal to {I32_MAX})"
            return wrong(f"tile dimension {i} exceeds i32 limitations {limit}")
    if any(d & (d - 1) for d in tile):
        return wrong(f"tile shape dimensions must have power of two length but got [{listed(tile)}]")
    if rank != len(tile):
        return wrong(
            f"expected tensor_view rank and tile rank to match, got tensor_view of rank {rank} and tiles of rank {len(tile)}"
        )
    count = 1
    for d in tile:
        count *= d
    if count > MAX_ELEMENTS:
        return Invalid(
            D.TOO_MANY_ELEMENTS, f"tile would exceed the maximum of {MAX_ELEMENTS} elements", prefix=False
        )
    if isinstance(type, T.StridedView):
        if len(type.traversal) != len(tile):
            return wrong(f"expected {len(tile)} traversal strides, got {len(type.traversal)}")
        if any(s <= 0 for s in type.traversal):
            return wrong(f"traversal strides must be strictly positive but got [{listed(type.traversal)}]")
    if isinstance(type, T.GatherScatterView):
        if not 0 <= type.sparse_dim < len(tile):
            return wrong(f"sparse dimension must be within [0, {len(tile)}), got {type.sparse_dim}")
    else:
        problem = dim_map_problem(type.dim_map, len(tile), rank)
        if problem is not None:
            return problem
    if type.padding not in (None, "zero") and not type.view.elem.is_float:
        return wrong(
            f"padding value '{type.padding}' requires a floating-point element type, but got '{type.view.elem}'"
        )
    return None


def dim_map_problem(dim_map: Any, tiles: int, rank: int) -> Invalid | None:
    if len(dim_map) != tiles:
        return wrong(
            f"expected dim_map to map exactly all {tiles} dimensions of the tile, got {len(dim_map)} mappings"
        )
    seen: dict[int, int] = {}
    for i, d in enumerate(dim_map):
        if d < 0:
            return wrong(f"target dimension must not be negative, got {d}")
        if d >= rank:
            return wrong(
                f"target dimension is outside of tensor view dimensions, expected strictly less than {rank}, got {d}"
            )
        if d in seen:
            return wrong(
                f"target dimension {d} mapped at least twice (for tile dimensions {seen[d]} and {i})"
            )
        seen[d] = i
    return None
