"""OpSpec: one op as data. Parser, printer, bytecode reader and writer and the generic verifier loop over it.

A spec lists operands, attributes and results in wire order, each with the version that introduced it, plus
traits as bits. Versions are minor numbers of 13.x: 1 is 13.1.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

REQUIRED, OPTIONAL, VARIADIC = 0, 1, 2

# traits
PURE = 1 << 0
NO_MEMORY_EFFECT = 1 << 1
RECURSIVE_EFFECTS = 1 << 2
TERMINATOR = 1 << 3
SINGLE_BLOCK = 1 << 4
IMPLICIT_TERMINATOR = 1 << 5
OPERAND_SEGMENTS = 1 << 6
ISOLATED = 1 << 7
SYMBOL = 1 << 8
SYMBOL_TABLE = 1 << 9
CONSTANT_LIKE = 1 << 10
ELEMENTWISE = 1 << 11
ALL_SAME_SHAPE = 1 << 12
ALL_SAME_ELEMENT = 1 << 13
OPERANDS_SAME_SHAPE = 1 << 14
I1_OF_LHS = 1 << 15


class Arg:
    """An operand or result field: name, constraint (a name of the dialect's constraint table), mode."""

    __slots__ = ("constraint", "mode", "name", "since")

    def __init__(self, name: str, constraint: str, mode: int = REQUIRED, since: int = 1) -> None:
        self.name = name
        self.constraint = constraint
        self.mode = mode
        self.since = since


class Attr:
    """An attribute field. `kind` names a codec ("enum", "unit", "i64", "dense", ...); `enum` its enum table."""

    __slots__ = ("default", "enum", "kind", "name", "optional", "since")

    def __init__(
        self,
        name: str,
        kind: str,
        enum: str = "",
        optional: bool = False,
        default: Any = None,
        since: int = 1,
    ) -> None:
        self.name = name
        self.kind = kind
        self.enum = enum
        self.optional = optional
        self.default = default
        self.since = since


class OpSpec:
    """One op. `text` is its assembly template, `check` what the fields cannot say, `doc` what it does."""

    __slots__ = (
        "attr_by_name", "attrs", "check", "defaults", "dialect", "doc", "flag_bits", "full_name", "is_pure",
        "is_terminator", "name", "operand_index", "operands", "parents", "regions", "results", "same_elem",
        "same_rank", "same_shape", "same_type", "since", "source_name", "terminator", "text", "traits", "varies",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        *,
        dialect: str,
        operands: tuple[Arg, ...] = (),
        attrs: tuple[Attr, ...] = (),
        results: tuple[Arg, ...] = (),
        regions: int = 0,
        traits: int = 0,
        same_type: tuple[tuple[str, ...], ...] = (),
        same_shape: tuple[tuple[str, ...], ...] = (),
        same_rank: tuple[tuple[str, ...], ...] = (),
        same_elem: tuple[tuple[str, ...], ...] = (),
        parents: tuple[str, ...] = (),
        terminator: str = "",
        text: str = "",
        since: int = 1,
        check: Callable[..., None] | None = None,
        doc: str = "",
    ) -> None:
        self.name = name
        self.dialect = dialect
        self.full_name = f"{dialect}.{name}"
        self.source_name = self.full_name  # what a message calls it: the op that the program was written with
        self.operands = operands
        self.attrs = attrs
        self.results = results
        self.regions = regions
        self.traits = traits
        self.same_type = same_type
        self.same_shape = same_shape
        self.same_rank = same_rank
        self.same_elem = same_elem
        self.parents = parents
        self.terminator = terminator
        self.text = text
        self.since = since
        self.check = check
        self.doc = doc
        self.operand_index = {arg.name: i for i, arg in enumerate(operands)}
        self.attr_by_name = {attr.name: attr for attr in attrs}
        self.defaults = {attr.name: attr.default for attr in attrs if attr.default is not None}
        self.varies = any(arg.mode != REQUIRED for arg in operands)  # operands need segments
        self.is_pure = bool(traits & PURE)
        self.is_terminator = bool(traits & TERMINATOR)
        # Bits of the flags field: by since-version, then attributes before operands, then table order.
        bits = [(a.since, 0, i, a.name) for i, a in enumerate(attrs) if a.optional]
        if traits & OPERAND_SEGMENTS:
            bits += [(o.since, 1, i, o.name) for i, o in enumerate(operands) if o.mode == OPTIONAL]
        self.flag_bits = tuple((name, since) for since, _, _, name in sorted(bits))

    def __repr__(self) -> str:
        return self.full_name


def derive(spec: OpSpec, dialect: str) -> OpSpec:
    """The op of the same name in a later dialect: same fields; its types are that dialect's."""
    out = spelled(spec, spec.name)
    out.dialect = dialect
    out.full_name, out.source_name = f"{dialect}.{spec.name}", spec.source_name
    out.check = None
    return out


def spelled(spec: OpSpec, name: str) -> OpSpec:
    """The same op under another full name; `name` of the spec stays what everything else knows it by."""
    out = OpSpec.__new__(OpSpec)
    for slot in OpSpec.__slots__:
        setattr(out, slot, getattr(spec, slot))
    out.full_name = out.source_name = f"{spec.dialect}.{name}"
    return out
