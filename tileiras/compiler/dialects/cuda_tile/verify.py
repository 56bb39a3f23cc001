"""What the fields of cuda_tile ops cannot say: types, arithmetic, conversions, shapes. Collects all families.

Where the public contract and the real verifier both have a text, the contract's is the error and the real one
its note (`Invalid(diag, real)`); `broken` is for rules that only the real verifier words.
"""

from __future__ import annotations

from tileiras.compiler.ir import types as T
from tileiras.compiler.ir.verify import Invalid, Rules, broken, later, tname
from tileiras.diag import Catalogue

from . import verify_control, verify_memory
from .dense import check_dense
from .ops import BASIC, CONSTRAINTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tileiras.compiler.ir.core import Op

D = Catalogue("tileiras.compiler.dialects.cuda_tile.diags")
MAX_ELEMENTS = 1 << 24
I32_MAX = (1 << 31) - 1
BASIC_OPS = frozenset(("addf", "subf", "mulf", "fma"))

# ---- constraints of operands and results

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


def constraint(name: str) -> tuple[Callable[[Any], bool], str] | None:
    """Predicate over a type and the words that describe it."""
    if name == "any":
        return None
    if name == "token":
        return (lambda t: t is T.TOKEN), "cuda tile token type"
    if name == "tile_view":
        return (lambda t: isinstance(t, T.TILE_VIEWS)), "TileView instance"
    views = {
        "tensor_view": T.TensorView, "partition_view": T.PartitionView, "strided_view": T.StridedView,
        "gather_scatter_view": T.GatherScatterView,
    }  # fmt: skip
    if name in views:
        kind = views[name]
        return (lambda t: isinstance(t, kind)), f"{name} type"
    kind, _, what = name.partition(":")
    if what == "any":
        return (lambda t: isinstance(t, T.TileType)), "tile of any element type values"
    names = CONSTRAINTS.get(f"tile:{what}", (what,))
    accepted = frozenset((*names, "fnv8E5M3FNU") if what == "mmaf_scale" else names)
    words = " or ".join("Pointer type" if n == "ptr" else n for n in names)
    if kind == "scalar":
        return (
            lambda t: isinstance(t, T.TileType) and t.shape == () and elem_name(t) in accepted
        ), f"0D tile of {words} values"
    head = PREFIXES.get(name, "tile of ")
    return (lambda t: isinstance(t, T.TileType) and elem_name(t) in accepted), f"{head}{words} values"


# ---- types


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


# ---- float arithmetic


def check_ftz(op: Op) -> None:
    elem = op.results[0].type.elem
    if op.attrs.get("flush_to_zero") and elem is not T.F32:
        real = f"flush_to_zero modifier only supported for f32 data type, but got: '{elem}'"
        mode = op.attrs.get("rounding_mode", "zero")
        allowed = BASIC if op.spec.name in BASIC_OPS else (mode,)
        raise Invalid(D.FTZ, real if mode in allowed else (real, expected_modes(op, allowed, mode)))


def modes(names: tuple[str, ...]) -> str:
    return f"invalid rounding mode specified, expect one of [{', '.join(names)}]"


def check_basic_float(op: Op) -> None:
    check_ftz(op)
    mode = op.attr("rounding_mode")
    if mode not in BASIC:
        raise Invalid(D.ROUNDING_OUTSIDE_DIVF, (modes(BASIC), expected_modes(op, BASIC, mode)))


def expected_modes(op: Op, names: tuple[str, ...], got: Any) -> str:
    """What the real text parser says about a rounding clause."""
    return f"custom op '{op.spec.full_name}' expected rounding mode to be one of: {', '.join(map(repr, names))}, got: '{got}'"


def only_f32(op: Op, mode: Any) -> str | None:
    elem = op.results[0].type.elem
    if mode in ("approx", "full") and elem is not T.F32:
        return f"{mode} modifier only supported for f32 data type, but got: '{elem}'"
    return None


def check_divf(op: Op) -> None:
    check_ftz(op)
    mode, allowed = op.attr("rounding_mode"), (*BASIC, "approx", "full")
    if mode not in allowed:
        raise Invalid(D.DIVF_ROUNDING, (modes(allowed), expected_modes(op, allowed, mode)))
    real = only_f32(op, mode)
    if real is not None:
        raise Invalid(D.DIVF_APPROX, real)


def check_sqrt(op: Op) -> None:
    check_ftz(op)
    mode, allowed = op.attr("rounding_mode"), (*BASIC, "approx")
    if mode not in allowed:
        raise broken(modes(allowed))
    real = only_f32(op, mode)
    if real is not None:
        raise broken(real)


def check_approx_full(op: Op) -> None:
    mode, allowed = op.attr("rounding_mode"), ("approx", "full")
    if mode not in allowed:
        raise broken(modes(allowed))
    if mode == "approx":
        real = only_f32(op, mode)
        if real is not None:
            raise broken(real)


def check_divi(op: Op) -> None:
    mode, allowed = op.attr("rounding"), ("zero", "negative_inf", "positive_inf")
    if mode not in allowed:
        raise broken(modes(allowed))
    if mode == "negative_inf" and op.attrs.get("signedness") == "unsigned":
        raise broken("rounding mode 'negative_inf' is not allowed with 'unsigned' flag")


def check_negi(op: Op) -> None:
    if op.attr("overflow") in ("no_unsigned_wrap", "no_wrap"):
        raise broken("'no_unsigned_wrap' overflow flag is not supported")


# ---- conversions


def ends(op: Op) -> tuple[Any, Any]:
    return op.operands[0].type.elem, op.results[0].type.elem


def check_exti(op: Op) -> None:
    source, target = ends(op)
    if source.bits >= target.bits:
        raise Invalid(D.EXTI, "extending to smaller or identical integer")


def check_trunci(op: Op) -> None:
    source, target = ends(op)
    if source.bits <= target.bits:
        raise Invalid(D.TRUNCI, "truncating to larger or identical integer")


WIDE = (T.F16, T.BF16, T.F32, T.F64)


def ftof_modes(source: Any, target: Any) -> tuple[str, ...]:
    """Rounding modes of a conversion between two different float types (13.4)."""
    if target is T.F8E8M0FNU:
        return ("zero", "positive_inf")
    if source is T.F8E8M0FNU:
        return (*BASIC, "nearest_away") if target is T.F64 else ("nearest_even", "zero")
    if target in (T.F8E4M3FN, T.F8E5M2, T.F4E2M1FN):
        return ("nearest_even",)
    if target is T.TF32:
        if source is T.F32:
            return ("nearest_even", "zero", "nearest_away")
        return ("nearest_even", "zero") if source is T.F64 else (*BASIC, "nearest_away")
    if source in WIDE and target in WIDE:
        if source.bits < target.bits:
            return (*BASIC, "nearest_away")
        if source is T.F64 and target is T.F32:
            return BASIC
    return ("nearest_even", "zero")


def check_ftof(op: Op) -> None:
    source, target = ends(op)
    if source is target:
        raise Invalid(D.FTOF_IDENTITY, "converting tiles must not be a no-op")
    mode = op.attr("rounding_mode")
    if mode in ftof_modes(source, target):
        return
    if target is T.F8E8M0FNU:
        raise broken(
            "invalid rounding mode specified for conversion to f8E8M0FNU. Only 'zero' and 'positive_inf' are supported"
        )
    raise Invalid(D.FTOF_ROUNDING, "invalid rounding mode specified. Only 'nearest_even' is supported")


def check_itof(op: Op) -> None:
    if op.results[0].type.elem is T.F8E8M0FNU:
        raise broken(
            "integer to f8E8M0FNU conversion is not supported, please first convert to another float type"
        )
    if op.attr("rounding_mode") != "nearest_even":
        raise Invalid(D.ITOF_ROUNDING, "invalid rounding mode specified. Only 'nearest_even' is supported")


def check_ftoi(op: Op) -> None:
    mode = op.attr("rounding_mode")
    if mode != "nearest_int_to_zero":
        real = "invalid rounding mode specified. Only 'nearest_int_to_zero' is supported"
        raise Invalid(D.FTOI_ROUNDING, (real, expected_modes(op, ("nearest_int_to_zero",), mode)))


def check_bitcast(op: Op) -> None:
    source, target = ends(op)
    if source.bits != target.bits:
        sides = f"'{source}' of width {source.bits} to type '{target}' of width {target.bits}"
        real = f"types must be equal width, cannot convert {sides}"
        raise Invalid(D.BITCAST, real)


# ---- shapes


def count_of(type: Any) -> int:
    count = 1
    for d in type.shape:
        count *= d
    return count


def check_reshape(op: Op) -> None:
    source, result = count_of(op.operands[0].type), count_of(op.results[0].type)
    if source != result:
        real = "expected source tile and result tile to have the same number of elements"
        raise Invalid(D.RESHAPE_COUNT, real, source=source, result=result)


def check_broadcast(op: Op) -> None:
    source, result = op.operands[0].type.shape, op.results[0].type.shape
    if any(s not in (r, 1) for s, r in zip(source, result)):
        text = "expects the shape of source tile to be compatible with that of the result tile, but got: "
        raise broken(text + f"{listed(source)} and {listed(result)}")


def check_extract(op: Op) -> None:
    source, result = op.operands[0].type, op.results[0].type
    if source.elem is not result.elem:
        raise broken("source and result element type do not match")
    indices = len(op.operands) - 1
    if indices != len(source.shape):
        raise broken(f"expected {len(source.shape)} indices, but got {indices}")
    for i, (s, r) in enumerate(zip(source.shape, result.shape)):
        if s % r:
            raise broken(
                f"source dimension {i} size ({s}) must be evenly divisible by result dimension {i} size ({r})"
            )


def check_insert(op: Op) -> None:
    source, target = op.operands[0].type, op.operands[1].type
    if source.elem is not target.elem:
        raise broken("source and result element type do not match")
    indices = len(op.operands) - 2
    if indices != len(target.shape):
        raise broken(f"expected {len(target.shape)} indices, but got {indices}")
    for i, (s, d) in enumerate(zip(source.shape, target.shape)):
        if d % s:
            raise broken(
                f"result dimension {i} size ({d}) must be evenly divisible by source dimension {i} size ({s})"
            )


def check_cat(op: Op) -> None:
    lhs, rhs, result = op.operands[0].type.shape, op.operands[1].type.shape, op.results[0].type.shape
    dim = op.attrs["dim"]
    if not 0 <= dim < len(lhs):
        raise broken(f"expect dim to be [0, {len(lhs)}), but got: {dim}")
    for i, (a, b, c) in enumerate(zip(lhs, rhs, result)):
        if i == dim:
            if a + b != c:
                raise broken(f"invalid concat at position {i}, expected: {a + b} but got: {c}")
            continue
        for name, side, other in (("lhs and result", a, c), ("rhs and result", b, c)):
            if side != other:
                text = f"expect {name} shapes to match at non-concat position {i}, expected: {side} but got: {other}"
                raise broken(text)


def check_permute(op: Op) -> None:
    source, result = op.operands[0].type.shape, op.results[0].type.shape
    permutation = op.attrs["permutation"]
    rank = len(source)
    if rank < 2:
        raise broken(f"expects at least rank 2, but got: {rank}")
    if len(permutation) != rank:
        raise broken(f"expect permutation size ({len(permutation)}) to equal the rank of the source ({rank})")
    for i, p in enumerate(permutation):
        if not 0 <= p < rank:
            raise broken(f"permutation element at index {i} ({p}) is out of bound [0, {rank})")
    if len(set(permutation)) != rank:
        raise broken("expect permutation elements to be unique")
    for i, p in enumerate(permutation):
        if result[i] != source[p]:
            raise broken(f"result shape invalid at index {i}, expected: {source[p]}, but got: {result[i]}")


def check_iota(op: Op) -> None:
    type = op.results[0].type
    if len(type.shape) != 1:
        raise broken("expects result type to be 1-d tile")
    if type.shape[0] > 1 << type.elem.bits:
        raise broken(
            f"the number of elements {type.shape[0]} exceeds the maximum value of element type '{type.elem}'"
        )


def byte_size(type: Any) -> int:
    bits = 32 if type.elem is T.TF32 else type.elem.bits
    return (count_of(type) * bits + 7) // 8


def check_pack(op: Op) -> None:
    source, result = op.operands[0].type, op.results[0].type
    if len(source.shape) != 1 or len(result.shape) != 1:
        raise broken("expects source and result to be rank-1 tiles")
    if source.elem.bits == result.elem.bits:
        raise broken("expects source and result to have different element type widths")
    a, b = byte_size(source), byte_size(result)
    if a != b:
        sizes = f"source tile size {a} bytes and result tile size {b} bytes"
        raise broken(f"expects source and result to have the same size in bytes, but got {sizes}")


def check_select(op: Op) -> None:
    if op.results[0].type.elem is T.F4E2M1FN:
        raise broken("cannot operate on sub-byte type F4E2M1FN")


def check_constant(op: Op) -> None:
    value = op.attrs["value"]
    if type(value) is not T.Dense:
        raise broken("attribute 'value' failed to satisfy constraint: dense elements attribute")
    if value.type is not op.results[0].type:
        raise broken("failed to verify that all of {value, result} have same type")
    problem = check_dense(value.type, value.data)
    if problem is not None:
        raise broken(problem)


# ---- assumptions


def check_assume(op: Op) -> None:
    predicate, type = op.attrs["predicate"], op.operands[0].type
    predicates = predicate if isinstance(predicate, tuple) else (predicate,)
    for one in predicates:
        check_predicate(one, type)


def check_predicate(predicate: Any, value: Any) -> None:
    """One assumption against the type it is about; what is no assumption is skipped."""
    elem = getattr(value, "elem", None)
    integer = isinstance(value, T.TileType) and isinstance(elem, T.Scalar) and not elem.is_float
    pointer = isinstance(value, T.TileType) and isinstance(elem, T.Ptr)
    if type(predicate) is T.DivBy:
        check_div_by(predicate, value, integer or pointer)
    elif type(predicate) is T.SameElements:
        if not integer and not pointer:
            raise broken("'cuda_tile.same_elements' is valid only for tile of integer/pointer values")
        values, shape = predicate.values, value.shape
        if len(values) != len(shape):
            text = f"expected number of values in 'cuda_tile.same_elements' ({len(values)}) to match rank of constrained tile"
            raise broken(f"{text} ({len(shape)})")
        for i, (v, d) in enumerate(zip(values, shape)):
            if not 0 <= v <= d:
                text = f"expected 'cuda_tile.same_elements' value {i} to be within 0 and the size of the respective dimension"
                raise broken(f"{text} ({d})")
    elif type(predicate) is T.Bounded:
        if not integer or elem is None:
            raise broken("'cuda_tile.bounded' is valid only for tile of integer values")
        low, high = (-(1 << (elem.bits - 1)), (1 << (elem.bits - 1)) - 1)
        for name, bound in (("lower", predicate.lower), ("upper", predicate.upper)):
            if bound is not None and not low <= bound <= high:
                raise broken(f"'cuda_tile.bounded' expects {name} bound to be within [{low}, {high}]")
        if predicate.lower is not None and predicate.upper is not None and predicate.lower > predicate.upper:
            raise broken("'cuda_tile.bounded' expects lower bound to be less than or equal to upper bound")


def check_div_by(predicate: Any, value: Any, is_tile: bool) -> None:
    if not is_tile and not isinstance(value, T.TensorView):
        raise broken("'cuda_tile.div_by' is valid only for tile of integer/pointer or tensor_view values")
    divisor, every, along = predicate.divisor, predicate.every, predicate.along
    if divisor <= 0 or divisor & (divisor - 1):
        raise broken("'cuda_tile.div_by' divisor must be a power of 2")
    if divisor > 1 << 62:
        raise broken("'cuda_tile.div_by' divisor is too large")
    if (every is None) != (along is None):
        raise broken("'cuda_tile.div_by' 'every'/'along' must be used in combination")
    if every is None:
        return
    if isinstance(value, T.TensorView):
        raise broken(
            "'cuda_tile.div_by' 'every'/'along' cannot be used if the constrained value is a tensor_view"
        )
    if not value.shape:
        raise broken(
            "'cuda_tile.div_by' 'every'/'along' cannot be used if the constrained value is a 0D tile"
        )
    if not 0 <= along < len(value.shape):
        raise broken(
            f"'cuda_tile.div_by' every_dim ({along}) must be >= 0 and < tile rank ({len(value.shape)})"
        )
    if not 0 <= every <= value.shape[along]:
        text = "expected 'cuda_tile.div_by' every_dim to be within 0 and the size of the respective dimension"
        raise broken(f"{text} ({value.shape[along]})")


# ---- the rest


def check_alloca(op: Op) -> None:
    for name in ("num_elem", "alignment"):
        if op.attrs[name] < 0:
            text = f"attribute '{name}' failed to satisfy constraint: 64-bit signless integer attribute whose minimum value is 0"
            raise broken(text)
    alignment = op.attrs["alignment"]
    if alignment & (alignment - 1):
        raise broken("'alignment' must be power of two")
    elem = op.results[0].type.elem.pointee
    if isinstance(elem, T.Scalar) and alignment < elem.bytes:
        text = f"'alignment' ({alignment}) must be at least the natural size ({elem.bytes} bytes) for element type '{elem}'"
        raise broken(text)


CONVERSIONS = frozenset("diouxXeEfFgGaAcspSn")


def check_print(op: Op) -> None:
    text, wanted, i = op.attrs["str"], 0, 0
    while i < len(text):
        if text[i] != "%":
            i += 1
            continue
        if text[i + 1 : i + 2] == "%":
            i += 2
            continue
        i += 1
        while i < len(text) and text[i] not in CONVERSIONS:
            i += 1
        if i >= len(text):
            raise broken("found unterminated format expression")
        wanted += 1
        i += 1
    found = len(op.group("args"))
    if wanted != found:
        raise broken(f"incorrect number of operands: expected {wanted}, found {found}")


def check_join_tokens(op: Op) -> None:
    if len(op.operands) < 2:
        raise broken("expect two or more tokens")


def reword(op: Op, kind: str, real: str) -> Invalid | None:
    """The contract's text for a generic fault, where it has one."""
    name = op.spec.name
    if kind == "same type" and name in FLOAT_ARITH:
        return Invalid(D.FLOAT_TYPES, real)
    if kind == "shape" and name == "offset" and op.results[0].type is not op.operands[0].type:
        return broken(
            "failed to verify that all of {result, ptr} have same type"
        )  # the real verifier's first
    if kind == "elem" and name == "reshape":
        return Invalid(D.RESHAPE_ELEM, real)
    if kind == "same shape" and name in ("atomic_rmw_tko", "atomic_cas_tko"):
        return Invalid(D.POINTER_SHAPE, real)
    if kind == "same type" and name == "for":
        return Invalid(D.FOR_TYPES, real)
    if kind == "empty":
        also: tuple[str, ...] = ()
        if name in ("reduce", "scan"):  # the real text reader ends the body in a yield of nothing
            count = len(op.operands)
            also = (
                "region #0 ('body') failed to verify constraint: region with 1 blocks",
                f"expect number of terminators operands (0) to match number of operands ({count})",
            )
        return Invalid(D.EMPTY_BLOCK, (f"invalid block structure: {real}", *also))
    if kind == "segments":
        return verify_memory.segment_problem(op)
    if kind == "token":
        return Invalid(D.TOKEN_OPERAND, real or None)
    if kind == "parent" and name in ("break", "continue"):
        return Invalid(D.EARLY_EXIT, real)
    return None


FLOAT_ARITH = frozenset(("addf", "subf", "mulf", "divf", "fma"))

RULES = Rules()
RULES.constraint = constraint
RULES.type_problem = type_problem
RULES.describe = DESCRIBE
RULES.reword = reword
RULES.own_types = frozenset(("mmaf", "mmai"))
RULES.own_attrs = frozenset((("mmai", "signedness_lhs"), ("mmai", "signedness_rhs")))
RULES.own_parents = frozenset(("return",))
RULES.checks = {
    **dict.fromkeys(BASIC_OPS, check_basic_float),
    **dict.fromkeys(("exp2", "rsqrt", "maxf", "minf"), check_ftz),
    **dict.fromkeys(("exp", "tanh"), check_approx_full),
    **dict.fromkeys(("pack", "unpack"), check_pack),
    "divf": check_divf, "sqrt": check_sqrt, "divi": check_divi, "negi": check_negi, "exti": check_exti,
    "trunci": check_trunci, "ftof": check_ftof, "itof": check_itof, "ftoi": check_ftoi, "bitcast": check_bitcast,
    "reshape": check_reshape, "broadcast": check_broadcast, "extract": check_extract, "insert": check_insert,
    "cat": check_cat, "permute": check_permute, "iota": check_iota, "select": check_select, "constant": check_constant,
    "assume": check_assume, "alloca": check_alloca, "print_tko": check_print, "join_tokens": check_join_tokens,
    **verify_memory.CHECKS, **verify_control.CHECKS,
    "mmai": later("cuda_tile.verify_mma", "check_mmai"), "mmaf": later("cuda_tile.verify_mma", "check_mmaf"),
    "mmaf_scaled": later("cuda_tile.verify_mma", "check_mmaf_scaled"),
}  # fmt: skip

__all__ = ["RULES", "tname"]
