"""The assembly form of cuda_tile: a template per op, and function pairs where a template cannot say it.

Printed text equals what NVIDIA's disassembler prints. The parser takes more: the long `!cuda_tile.` spelling,
MLIR's generic form, and the spellings of older producers (`frontend.py`).
"""

from __future__ import annotations

from tileiras.compiler.ir import types as T
from tileiras.compiler.ir.asm import Dialect
from tileiras.compiler.ir.floats import decode

from . import forms, frontend, syntax, type_syntax
from .dense import signed, unique_value
from .ops import BASIC, BY_NAME, ENUMS, MODES, OLD_NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op, Region
    from tileiras.compiler.ir.spec import OpSpec

NAMED = {
    "assume": None, "constant": None, "broadcast": "bcast", "reshape": "reshape", "for": "for", "reduce": "reduce",
    "make_tensor_view": "tview", "make_partition_view": "pview", "make_strided_view": "sview",
    "make_gather_scatter_view": "gsview", "if": "", "loop": "", "scan": "",
}  # fmt: skip


VIEW_ACCESS = ("load_view_tko", "store_view_tko")


class CudaTile(Dialect):
    """Names, type shorthands and aliases of the dialect."""

    def result_names(self, op: Op) -> list[str]:
        hint = self.hint(op, 0)
        if hint is None:
            return []
        if len(op.results) > 1 and len(op.spec.results) == len(op.results):
            return [result.name for result in op.spec.results]
        return [hint] if hint else []

    def hint(self, op: Op, index: int) -> str | None:
        """Name hint of one result; "" when the op could name it but does not; None when it never names."""
        name = op.spec.name
        if name == "constant":
            return constant_name(op)
        if name == "assume":
            source = op.operands[0]
            if source.op is None:
                return "assume"
            inner = self.chain_hint(source)
            return "assume" if inner is None else f"assume_{inner}"
        if name in NAMED:
            return NAMED[name] if index == 0 else ""
        results = op.spec.results
        if len(results) > 1 and index < len(results):
            return results[index].name
        return None

    def chain_hint(self, value: Any) -> str | None:
        """`hint` of a value; chains of assume are followed without recursion."""
        prefix = ""
        while True:
            op = value.op
            if op is None:
                return None if not prefix else prefix + "assume"
            if op.spec.name != "assume":
                inner = self.hint(op, value.index)
                return (
                    inner
                    if not prefix
                    else prefix[: -len("assume_")] + ("assume" if inner is None else f"assume_{inner}")
                )
            if op.operands[0].op is None:
                return prefix + "assume"
            prefix += "assume_"
            if len(prefix) > 7 * 64:
                return prefix[:-1]
            value = op.operands[0]

    def arg_names(self, region: Region) -> list[str]:
        name = region.op.spec.name if region.op is not None else ""
        args = region.blocks[0].args
        if name == "for":
            return ["loopIdx"] + [f"iterArg{i}" for i in range(len(args) - 1)]
        if name == "reduce":
            many = len(args) > 2
            return [
                ("reduce_lhs", "reduce_rhs")[i % 2] + (str(i // 2) if many else "") for i in range(len(args))
            ]
        return []

    def value_type(self, type: Any) -> Any:
        return T.TileType(type, ()) if isinstance(type, (T.Scalar, T.Ptr)) else type

    def foreign_constant(self, parser: Any, value: Any, pos: int) -> Op:
        """`arith.constant` as a constant tile of rank 0."""
        return frontend.foreign_constant(parser, value, pos)

    def outer_module(self, parser: Any, ops: list[Op], attrs: dict[str, Any], pos: int) -> Op:
        return syntax.outer_module(parser, ops, attrs, pos)

    def case_error(self, spec: OpSpec, attr: Any, cases: Any, got: str) -> str | None:
        if attr.enum == "Signedness":
            return "expected signedness to be one of: {'signed', 'unsigned'}"
        if attr.enum == "RoundingMode":
            names = ", ".join(map(repr, MODES.get(spec.name, BASIC)))
            return f"expected rounding mode to be one of: {names}, got: '{got}'"
        if attr.enum in ("ComparisonPredicate", "ComparisonOrdering"):
            names = ", ".join(map(repr, cases if attr.enum == "ComparisonPredicate" else sorted(cases)))
            return f"expected '{attr.name}' to be one of: {{{names}}}"
        listed = ", ".join(cases)
        if attr.enum in ("MemoryOrderingSemantics", "MemoryScope") and spec.name in VIEW_ACCESS:
            return f'invalid {attr.name} attribute specification. Got "{got}" but expect one of: {listed}'
        return (
            f"expected string or keyword containing one of the following enum values for attribute '{attr.name}' [{listed}]"
            f", but got '{got}'"
        )

    def plain(self, value: Any) -> Any:
        return frontend.plain(value)

    def annotate(self, state: Any, error: Any) -> None:
        scope = state.attrs.get("memory_scope")
        if scope is not None and state.attrs.get("memory_ordering_semantics") == "weak":
            what = "operation specifies weak memory ordering semantics, but then provides"
            error.notes += (f'{what} "{scope}" scope, expected no memory scope.',)

    def after_parse(self, parser: Any, op: Op) -> Op:
        return frontend.after_parse(parser, op)

    def spec(self, name: str) -> OpSpec | None:
        return frontend.TEXT_ONLY.get(name) or OLD_NAMES.get(name) or super().spec(name)


def constant_name(op: Op) -> str:
    """`cst_1_i32`, `true`, `cst_f32`: the value when it is one whole number."""
    dense: Any = op.attrs.get("value")
    if type(dense) is not T.Dense or type(dense.type) is not T.TileType:
        return "cst"
    elem = dense.type.elem
    values = unique_value(dense)
    if elem is T.I1:
        return "cst_i1" if values is None else ("true" if values else "false")
    if values is None:
        return f"cst_{elem}"
    if not elem.is_float:
        return f"cst_{signed(values, elem.bits)}_{elem}"
    parts = decode(values, elem)
    if parts == "nan":
        return f"cst_NaN_{elem}"
    if isinstance(parts, str):
        return f"cst_{elem}"
    sign, mantissa, exponent = parts
    if mantissa == 0:
        return f"cst_{elem}" if sign else f"cst_0_{elem}"
    if sign or (exponent < 0 and mantissa & ((1 << -exponent) - 1)):
        return f"cst_{elem}"
    if mantissa.bit_length() + exponent > 64:
        return f"cst_{elem}"
    return f"cst_{mantissa << exponent if exponent >= 0 else mantissa >> -exponent}_{elem}"


DIALECT = CudaTile("cuda_tile", BY_NAME, ENUMS)
DIALECT.prints_prefix = False
# mmai without signedness: the verifier says what is missing. Memory ops: the documents' operand lists.
DIALECT.empty_bodies = frozenset(("reduce", "scan"))
DIALECT.loose_ops = frozenset(
    (
        "mmai",
        "load_view_tko",
        "store_view_tko",
        "load_ptr_tko",
        "store_ptr_tko",
        "atomic_rmw_tko",
        "atomic_cas_tko",
    )
)
DIALECT.strict_ops = frozenset(("make_partition_view", "make_strided_view", "make_gather_scatter_view"))
DIALECT.keyword_ops = frozenset(VIEW_ACCESS)
DIALECT.older_names = {"fpowf": ("pow", 4)}
DIALECT.custom = {**forms.FORMS, **syntax.FORMS}  # type: ignore[dict-item]
DIALECT.types = type_syntax.TYPES
DIALECT.attrs = forms.ATTRS
DIALECT.op_aliases = {"print": "print_tko"}
DIALECT.enum_aliases = {"gpu": "device", "cta": "tl_blk", "system": "sys"}
DIALECT.attr_aliases = frontend.ATTR_ALIASES
DIALECT.ignored_attrs = frontend.IGNORED
