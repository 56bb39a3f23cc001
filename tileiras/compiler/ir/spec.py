"""OpSpec: one op as data. Parser, printer, bytecode reader and writer and the generic verifier loop over it.

A spec lists operands, attributes and results in wire order, each with the version that introduced it, plus
traits as bits. Versions are minor numbers of 13.x: 1 is 13.1.
"""

from __future__ import annotations

from itertools import repeat

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

    __slots__ = ("default", "enum", "kind", "name", "optional", "required", "since")

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
        self.required = not optional and default is None and since == 1  # of an op of any version


class OpSpec:
    """One op. `text` is its assembly template, `number` its opcode in bytecode, `check` what the fields cannot say,
    `doc` what it does."""

    __slots__ = (
        "attr_by_name", "attrs", "check", "defaults", "dialect", "doc", "elementwise", "flag_bits", "full_name", "is_pure",
        "is_terminator", "name", "number", "operand_index", "operands", "parents", "regions", "results", "same_elem",
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
        number: int = -1,
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
        self.number = number
        self.since = since
        self.check = check
        self.doc = doc
        self.varies = any(arg.mode != REQUIRED for arg in operands)  # operands need segments
        self.is_pure = bool(traits & PURE)
        self.is_terminator = bool(traits & TERMINATOR)

    def __getattr__(self, name: str) -> Any:
        """Tables over the fields, made when first asked for: most ops of a dialect are in no kernel."""
        make = _TABLES.get(name)
        if make is None:
            raise AttributeError(name)
        made = make(self)
        setattr(self, name, made)
        return made

    def __repr__(self) -> str:
        return self.full_name


def _flag_bits(spec: OpSpec) -> tuple[tuple[str, int], ...]:
    """Bits of the flags field: by since-version, then attributes before operands, then table order."""
    bits = [(a.since, 0, i, a.name) for i, a in enumerate(spec.attrs) if a.optional]
    if spec.traits & OPERAND_SEGMENTS:
        bits += [(o.since, 1, i, o.name) for i, o in enumerate(spec.operands) if o.mode == OPTIONAL]
    return tuple((name, since) for since, _, _, name in sorted(bits))


def _elementwise(spec: OpSpec) -> bool:
    """Whether each element of the only result is made of the same element of every operand, and of nothing else.

    `addf` is, by the types that are equal; so are `cmpf` and `select`, by the shapes; `reshape` and `mmaf` are not.
    """
    if len(spec.results) != 1 or not spec.operands or spec.varies or spec.regions:
        return False
    if spec.traits & ALL_SAME_SHAPE:
        return True
    groups = [set(group) for group in (*spec.same_type, *spec.same_shape)]
    joined = {spec.results[0].name}
    if spec.traits & I1_OF_LHS:
        joined.add(spec.operands[0].name)
    for _ in groups:
        joined.update(*(group for group in groups if group & joined))
    return all(operand.name in joined for operand in spec.operands)


_TABLES: dict[str, Callable[[OpSpec], Any]] = {
    "operand_index": lambda spec: {arg.name: i for i, arg in enumerate(spec.operands)},
    "attr_by_name": lambda spec: {attr.name: attr for attr in spec.attrs},
    "defaults": lambda spec: {attr.name: attr.default for attr in spec.attrs if attr.default is not None},
    "elementwise": _elementwise,
    "flag_bits": _flag_bits,
}
_COPIED = tuple(slot for slot in OpSpec.__slots__ if slot not in _TABLES)


def derive(spec: OpSpec, dialect: str) -> OpSpec:
    """The op of the same name in a later dialect: same fields; its types are that dialect's."""
    out = spelled(spec, spec.name)
    out.dialect = dialect
    out.full_name, out.source_name = f"{dialect}.{spec.name}", spec.source_name
    out.check = None
    out.text = ""
    return out


def spelled(spec: OpSpec, name: str) -> OpSpec:
    """The same op under another full name; `name` of the spec stays what everything else knows it by."""
    out = OpSpec.__new__(OpSpec)
    any(map(setattr, repeat(out), _COPIED, map(getattr, repeat(spec), _COPIED)))  # setattr returns None
    out.elementwise = spec.elementwise  # whatever fields a later dialect checks in other words
    out.full_name = out.source_name = f"{spec.dialect}.{name}"
    return out


def part_of(spec: OpSpec, whole: str) -> OpSpec:
    """The op as a part of what the program wrote as `whole`: messages name that."""
    out = spelled(spec, spec.name)
    out.full_name, out.source_name = spec.full_name, whole
    return out


class Derived(dict):  # type: ignore[type-arg]
    """Specs of a dialect by name: its own, and those of another's ops, each derived when first asked for."""

    def __init__(
        self, base: dict[str, OpSpec], without: tuple[str, ...], make: Callable[[OpSpec], OpSpec]
    ) -> None:
        super().__init__()
        self.base = base
        self.without = without
        self.make = make

    def __missing__(self, name: str) -> OpSpec:
        if name in self.without:
            raise KeyError(name)
        made: OpSpec = self.setdefault(name, self.make(self.base[name]))
        return made

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self.base and name not in self.without

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default

    def all(self) -> tuple[OpSpec, ...]:
        """Every spec, in the order of the other dialect's table, own ones last."""
        names = [name for name in self.base if name not in self.without]
        return (
            *(self[name] for name in names),
            *(self[name] for name in self if name not in self.base or name in self.without),
        )
