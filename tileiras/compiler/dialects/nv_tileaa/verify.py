"""What the fields of nv_tileaa ops cannot say: layouts that fit shapes, tile attributes, kernel specs, constants.

The rules of types and memory ops also hold in nv_tileas, whose verifier builds on this one.
"""

from __future__ import annotations

from tileiras.compiler.ir import types as T
from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.ir.verify import Invalid, Rules, broken, later
from tileiras.diag import Catalogue

from .kernel_spec import KEY, KernelSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tileiras.compiler.ir.core import Op


D = Catalogue("tileiras.compiler.dialects.nv_tileaa.diags")
_CONSTRAINTS: dict[str, tuple[Callable[[Any], bool], str] | None] = {}


def constraint(name: str) -> tuple[Callable[[Any], bool], str] | None:
    """cuda_tile's constraints with tensors in the place of tiles."""
    if name not in _CONSTRAINTS:
        _CONSTRAINTS[name] = _constraint(name)
    return _CONSTRAINTS[name]


def _constraint(name: str) -> tuple[Callable[[Any], bool], str] | None:
    if name == "any":
        return None
    if name == "token":
        return (lambda t: t is T.TOKEN), "token type"
    if name in ("tile_view", "tensor_view", "partition_view", "strided_view", "gather_scatter_view"):
        return (lambda t: isinstance(t, T.VIEWS)), f"{name} type"
    from tileiras.compiler.dialects.cuda_tile.verify_types import of_elements

    accepts, words = of_elements(name, T.TensorType)
    return accepts, words.replace("tile of", "tensor of").replace("0D tile", "0D tensor")


def type_problem(type: Any) -> Invalid | None:
    if not isinstance(type, T.TensorType):
        return None
    shape = type.shape  # type: ignore[attr-defined]
    want = 0
    for extent in shape:
        if extent <= 0 or extent & (extent - 1):
            return Invalid(D.TENSOR_SHAPE, prefix=False, shape=", ".join(map(str, shape)))
        want += extent.bit_length() - 1
    bits = getattr(type.layout, "bits", None)  # type: ignore[attr-defined]
    if bits is not None and bits != want:
        return Invalid(D.LAYOUT_SHAPE, prefix=False, bits=bits, shape=", ".join(map(str, shape)), want=want)
    why = type.layout.problem if bits is not None else None  # type: ignore[attr-defined]
    return Invalid(D.LAYOUT_PLACES, prefix=False, layout=type.layout, why=why) if why else None  # type: ignore[attr-defined]


def check_constant(op: Op) -> None:
    """As many elements as the result has, or one for all."""
    value, result = op.attrs.get("value"), op.results[0].type
    type: Any = getattr(value, "type", None)
    if (
        not isinstance(result, T.TensorType)
        or type is None
        or type.elem is not result.elem  # type: ignore[attr-defined]
        or num_elements(type.shape) not in (1, num_elements(result.shape))  # type: ignore[attr-defined]
    ):
        raise Invalid(D.CONSTANT, got=type, want=result)


def check_tile_attr(op: Op) -> None:
    """A `tile` attribute of a memory op: rank of the tensor, alignment a power of two that holds an element."""
    attr: Any = op.attrs.get("tile")
    if attr is None:
        return
    from .types import TileAttr

    if type(attr) is not TileAttr:
        return
    tensor: Any = next(
        (v.type for v in (*op.results, *op.operands) if isinstance(v.type, T.TensorType)), None
    )
    if tensor is None:
        return
    if len(attr.shape) != len(tensor.shape):
        raise Invalid(D.TILE_RANK, got=len(attr.shape), want=len(tensor.shape))
    size = 8 if isinstance(tensor.elem, T.Ptr) else tensor.elem.bytes
    if attr.alignment < size or attr.alignment & (attr.alignment - 1):
        raise Invalid(D.TILE_ALIGNMENT, size=size, got=attr.alignment)


def check_memory(op: Op) -> None:
    """Ordering and scope as in cuda_tile, and the tile attribute."""
    from tileiras.compiler.dialects.cuda_tile.verify_memory import check_load_order, check_store_order

    if op.spec.name.startswith("load"):
        check_load_order(op)
    else:
        check_store_order(op)
    check_tile_attr(op)


SPEC_RULES = {
    "num_warps": lambda v: v in (1, 2, 4, 8, 16, 32),
    "num_ctas": lambda v: isinstance(v, int) and 1 <= v <= 16,
    "cluster_dim": lambda v: (
        isinstance(v, tuple) and len(v) == 3 and all(isinstance(d, int) and d >= 1 for d in v)
    ),
    "tile_ctas": lambda v: v in (2, 4, 8, 16),
    "num_stages": lambda v: isinstance(v, int) and v >= 1,
    "occupancy": lambda v: isinstance(v, int) and 1 <= v <= 32,
}


def spec_problem(spec: Any) -> tuple[str, object] | None:
    """(entry, value) of the first entry of a kernel spec that cannot be."""
    if not isinstance(spec, KernelSpec):
        if not isinstance(spec, dict) or "num_warps" not in spec:
            return "num_warps", "missing"
        return next((name, value) for name, value in spec.items() if name not in KernelSpec.__slots__)
    for name, good in SPEC_RULES.items():
        value = getattr(spec, name)
        if value is not None and not good(value):
            return name, value
    return None


def check_func(op: Op) -> None:
    if not op.regions[0].blocks:
        raise broken("region #0 failed to verify constraint: region with 1 blocks")
    spec = op.attrs.get(KEY)
    problem = spec_problem(spec) if spec is not None else None
    if problem is not None and not (problem[0] == "num_warps" and sums_up(op, problem[1])):
        raise Invalid(D.SPEC, name=problem[0], got=problem[1])


def sums_up(func: Op, warps: object) -> bool:
    """Whether a number of warps is that of several agents, each of which has a number that layouts can have."""
    agents = [op.attrs.get("num_warps") for op in func.regions[0].block.ops if op.spec.name == "agent"]
    return all(n in (1, 2, 4, 8, 16) for n in agents) and sum(agents) == warps != 0  # type: ignore[arg-type]


check_loop = later("nv_tileaa.verify_control", "check_loop")
RULES = Rules()
RULES.constraint = constraint
RULES.type_problem = type_problem
RULES.checks = {
    "constant": check_constant,
    "func": check_func,
    "for": check_loop,
    "loop": check_loop,
    "if": later("nv_tileaa.verify_control", "check_if"),
    **dict.fromkeys(("break", "continue"), later("nv_tileaa.verify_control", "check_early_exit")),
    **dict.fromkeys(("load_view_tko", "load_ptr_tko", "store_view_tko", "store_ptr_tko"), check_memory),
}
