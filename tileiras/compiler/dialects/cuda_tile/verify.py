"""What the fields of cuda_tile ops cannot say: the rules of all families together, and of assumptions, prints, allocations.

Where the public contract and the real verifier both have a text, the contract's is the error and the real one
its note (`Invalid(diag, real)`); `broken` is for rules that only the real verifier words.
"""

from __future__ import annotations

from tileiras.compiler.ir import types as T
from tileiras.compiler.ir.verify import Invalid, Rules, broken, later
from tileiras.diag import Catalogue

from . import verify_arith, verify_control, verify_memory, verify_shapes
from .verify_types import DESCRIBE, constraint, type_problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op

D = Catalogue("tileiras.compiler.dialects.cuda_tile.diags")

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
    **verify_arith.CHECKS,
    **verify_shapes.CHECKS,
    "assume": check_assume, "alloca": check_alloca, "print_tko": check_print, "join_tokens": check_join_tokens,
    **verify_memory.CHECKS, **verify_control.CHECKS,
    "mmai": later("cuda_tile.verify_mma", "check_mmai"), "mmaf": later("cuda_tile.verify_mma", "check_mmaf"),
    "mmaf_scaled": later("cuda_tile.verify_mma", "check_mmaf_scaled"),
}  # fmt: skip
