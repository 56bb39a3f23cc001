"""Other spellings of cuda_tile that older producers use, rewritten to the real op set.

View loads with mask and fallback, memory attributes under other names, `axis` and an identity operand of
reductions, lists of assumptions, launch attributes of the outer module.
"""

from __future__ import annotations

from tileiras.compiler.ir import types as T
from tileiras.compiler.ir.core import Op
from tileiras.compiler.ir.dense import constant_bytes
from tileiras.compiler.ir.spec import IMPLICIT_TERMINATOR, ISOLATED, SINGLE_BLOCK, SYMBOL, Attr, OpSpec

from .ops import BY_NAME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Value
    from tileiras.compiler.ir.parser import Parser

ATTR_ALIASES = {
    ("", "mem_semantic"): "memory_ordering_semantics",
    ("", "mem_scope"): "memory_scope",
    ("mmai", "signedness_a"): "signedness_lhs",
    ("mmai", "signedness_b"): "signedness_rhs",
    ("reduce", "axis"): "dim",
    ("scan", "axis"): "dim",
    ("mmaf", "rounding"): "rounding_mode",
}
IGNORED = frozenset(("fastmath",))

# A function with any arguments, for tests of single ops; never written to bytecode.
TEXT_ONLY: dict[str, OpSpec] = {
    "testing$func": OpSpec(
        "testing$func",
        dialect="cuda_tile",
        attrs=(Attr("sym_name", "symbol"), Attr("function_type", "type")),
        regions=1,
        traits=ISOLATED | SINGLE_BLOCK | IMPLICIT_TERMINATOR | SYMBOL,
        terminator="return",
        text="{!entry}",
    ),
}


def after_parse(parser: Parser, op: Op) -> Any:
    """The op, or the one whose results take its names, or a list of values."""
    name = op.spec.name
    if name in ("load_view_tko", "store_view_tko", "load_ptr_tko", "store_ptr_tko"):
        return memory_form(parser, op)
    if name == "assume" and isinstance(op.attrs.get("predicate"), tuple):
        return assume_chain(parser, op)
    if name in ("reduce", "scan"):
        return aggregate_form(parser, op)
    if name in ("mmaf", "mmai"):
        rounding = op.attrs.pop("rounding_mode", None)
        if rounding not in (None, "nearest_even"):
            raise parser.error(f"rounding mode '{rounding}' is not supported by '{op.spec.full_name}'")
        if name == "mmai" and not op.results:
            return op
    for extra in ("optimization_hints",):
        if extra in op.attrs and extra not in op.spec.attr_by_name and name != "testing$func":
            del op.attrs[extra]
    return op


def memory_form(parser: Parser, op: Op) -> Any:
    """Default ordering, and mask and fallback of a view load as a select on what was loaded."""
    op.attrs.setdefault("memory_ordering_semantics", "weak")
    if op.spec.name != "load_view_tko":
        return op
    segments = op.attrs.pop("operandSegmentSizes", None)
    if segments is None:
        if sum(op.segments or ()) == len(op.operands) and op.segments and op.segments[1] <= view_rank(op):
            return op
        segments = None
    rank = view_rank(op)
    operands = list(op.operands)
    if segments is not None:
        if len(segments) != 5 or sum(segments) != len(operands) or segments[0] != 1:
            op.attrs["operandSegmentSizes"] = segments
            return op
        _, indices, masks, fallbacks, tokens = segments
    else:
        tokens = 1 if operands and operands[-1].type is T.TOKEN else 0
        indices = min(rank, len(operands) - 1 - tokens)
        rest = len(operands) - 1 - indices - tokens
        masks, fallbacks = min(rest, 1), max(rest - 1, 0)
    if masks > 1 or fallbacks > 1 or tokens > 1:
        op.attrs["operandSegmentSizes"] = segments or ()
        return op
    wanted = segments is not None or masks or fallbacks  # the older form: its token is not optional
    if (tokens and operands[-1].type is not T.TOKEN) or (wanted and not tokens):
        op.attrs["operandSegmentSizes"] = segments or ()
        return op
    if masks and getattr(operands[1 + indices].type, "elem", None) is not T.I1:
        op.attrs["operandSegmentSizes"] = segments or ()
        return op
    mask = operands[1 + indices] if masks else None
    fallback = operands[1 + indices + masks] if fallbacks else None
    kept = operands[: 1 + indices] + ([operands[-1]] if tokens else [])
    op.drop_operands()
    for i, value in enumerate(kept):
        op.operands.append(value)
        value.uses.append((op, i))
    op.segments = (1, indices, tokens)
    if mask is None or not op.results:
        return op
    tile = op.results[0]
    if fallback is None:
        dense = zero_of(tile.type)
        if dense is None:
            return op
        fallback = parser.insert(
            Op(BY_NAME["constant"], (), (tile.type,), {"value": dense}, (), op.loc)
        ).results[0]
    select = Op(BY_NAME["select"], (mask, tile, fallback), (tile.type,), {}, (), op.loc)
    parser.insert(select)
    return [select.results[0], *op.results[1:]]


def zero_of(type: Any) -> Any:
    if not isinstance(type, T.TileType) or not isinstance(type.elem, T.Scalar) or type.elem is T.I4:
        return None
    return T.Dense(type, bytes(constant_bytes(type.elem)))


def view_rank(op: Op) -> int:
    type = op.operands[0].type if op.operands else None
    return len(type.tile) if isinstance(type, T.TILE_VIEWS) else len(op.operands)


def assume_chain(parser: Parser, op: Op) -> Op:
    """`assume [a, b], %x` as two ops."""
    predicates = op.attrs["predicate"]
    if not predicates:
        raise parser.error("assume needs a predicate")
    op.attrs["predicate"] = predicates[0]
    for predicate in predicates[1:]:
        value = op.results[0]
        op = parser.insert(Op(op.spec, (value,), (value.type,), {"predicate": predicate}, (), op.loc))
    return op


def aggregate_form(parser: Parser, op: Op) -> Op:
    """`reduce %a, %identity {axis = 1}`: constant identity operands become the attribute."""
    if "identities" in op.attrs:
        return op
    inputs = len(op.operands) - len(op.results)
    if inputs != len(op.results) or inputs < 1:
        return op
    identities = []
    for value in op.operands[inputs:]:
        constant = identity_of(value)
        if constant is None:
            return op
        identities.append(constant)
    kept = op.operands[:inputs]
    op.drop_operands()
    for i, value in enumerate(kept):
        op.operands.append(value)
        value.uses.append((op, i))
    op.segments = (inputs,)
    op.attrs["identities"] = tuple(identities)
    op.attrs.setdefault("dim", 0)
    if "reverse" in op.spec.attr_by_name:
        op.attrs.setdefault("reverse", False)
    for region in op.regions:
        for block in region.blocks:
            for arg in block.args:  # `f32` in a body means `tile<f32>`
                if isinstance(arg.type, T.Scalar):
                    arg.type = T.TileType(arg.type, ())
    return op


def identity_of(value: Value) -> Any:
    """A splat constant as an identity attribute."""
    from .dense import unique_value

    op = value.op
    if op is None or op.spec.name != "constant":
        return None
    dense = op.attrs["value"]
    pattern = unique_value(dense)
    if pattern is None:
        return None
    kind = T.FloatAttr if dense.type.elem.is_float else T.IntegerAttr
    return kind(dense.type.elem, pattern)


def foreign_constant(parser: Parser, value: Any, pos: int) -> Op:
    """The cuda_tile constant for a typed number, bool or dense attribute."""
    if isinstance(value, bool):
        value = T.IntegerAttr(T.I1, int(value))
    if type(value) is T.Dense:
        dense = value
    elif type(value) in (T.IntegerAttr, T.FloatAttr) and value.type is not T.I4:
        pattern = value.value if type(value) is T.IntegerAttr else value.bits
        dense = T.Dense(T.TileType(value.type, ()), pattern.to_bytes(constant_bytes(value.type), "little"))
    else:
        raise parser.error("expected a number or a dense constant", pos)
    return Op(BY_NAME["constant"], (), (dense.type,), {"value": dense})


def apply_module_attrs(parser: Parser, module: Op, attrs: dict[str, Any], pos: int) -> None:
    """Keeps the outer module's attributes on the inner one; the driver and the lowering read them there."""
    for name, value in attrs.items():
        module.attrs.setdefault(name, plain(value))


def plain(value: Any) -> Any:
    """Attributes that no field describes as Python values: 32- and 64-bit integers as int, in lists and dicts too."""
    if type(value) is T.IntegerAttr and value.type in (T.I32, T.I64):
        bits = value.type.bits
        return value.value - (1 << bits) if value.value >> (bits - 1) else value.value
    if isinstance(value, tuple):
        return tuple(plain(v) for v in value)
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return value
