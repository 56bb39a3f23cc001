"""The generic verifier: what the fields of a spec promise, in MLIR's words, compiled to one function per spec.

Order inside an op: types that are well formed, counts, types of operands and results, attributes, relations
between types, regions and parent, then the dialect's own check. The first failure of an op is its only
diagnostic; the first failing op of an isolated region ends the walk of that region.
"""

from __future__ import annotations

import sys
from _operator import attrgetter

from tileiras.diag import EXIT_COMPILE, Diag, Emitted

from . import diags
from . import types as T
from .spec import (
    ALL_SAME_ELEMENT,
    ALL_SAME_SHAPE,
    I1_OF_LHS,
    IMPLICIT_TERMINATOR,
    ISOLATED,
    OPERANDS_SAME_SHAPE,
    OPTIONAL,
    REQUIRED,
    SINGLE_BLOCK,
    SYMBOL_TABLE,
    VARIADIC,
)  # fmt: skip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tileiras.diag import Sink

    from .core import Op, Value
    from .spec import Arg, OpSpec


class Invalid(Exception):
    """An op breaks a rule: its diagnostic, facts, and what the real verifier says as a note."""

    def __init__(
        self, diag: Diag, real: str | tuple[str, ...] | None = None, prefix: bool = True, **facts: object
    ) -> None:
        super().__init__(diag.text)
        self.diag = diag
        self.real: tuple[str, ...] = (real,) if isinstance(real, str) else real or ()
        self.prefix = prefix  # whether the message starts with the op
        self.facts = facts
        self.inner: Op | None = None  # the op inside that is to blame, and what is said of it
        self.inner_real = ""
        self.invalid: Op | None = None
        self.place: Op | None = None  # where it is, when not at the op that was checked

    def remark(self, inner: Op) -> Invalid:
        """Names an op inside that has no place there."""
        self.invalid = inner
        return self

    def at(self, inner: Op) -> Invalid:
        """Is about an op inside."""
        self.place = inner
        return self

    def blame(self, inner: Op, real: str) -> Invalid:
        """Adds a note at an op inside."""
        self.inner, self.inner_real = inner, real
        return self


def broken(text: str) -> Invalid:
    """A rule whose text is complete: MLIR's own wording."""
    return Invalid(diags.RULE, text=text)


def tname(type: Any) -> str:
    """A type in messages: with its dialect."""
    text = str(type)
    if isinstance(type, (T.Scalar, T.TensorType, T.FunctionType)) or text.startswith("!"):
        return text
    return f"!{getattr(type, 'DIALECT', 'cuda_tile')}.{text}"


class Rules:
    """What a dialect adds: constraints by name, checks by op, types that are malformed, texts it owns."""

    def __init__(self) -> None:
        self.checks: dict[str, Callable[[Op], None]] = {}
        self.constraint: Callable[[str], tuple[Callable[[Any], bool], str] | None] = lambda name: None
        self.type_problem: Callable[[Any], Invalid | None] = lambda type: None
        # Ops whose own check covers some generic ones, in an order that the contract fixes.
        self.own_types: frozenset[str] = frozenset()
        self.own_attrs: frozenset[tuple[str, str]] = frozenset()
        self.own_parents: frozenset[str] = frozenset()
        self.describe: dict[tuple[str, str], str] = {}  # (op, field) -> constraint text
        self.reword: Callable[[Op, str, str], Invalid | None] = lambda op, kind, real: None


def later(module: str, name: str) -> Callable[[Op], None]:
    """A check that is loaded with the first op that it is about. `module`: below the dialects."""
    loaded: Callable[[Op], None] | None = None

    def check(op: Op) -> None:
        nonlocal loaded
        if loaded is None:
            path = f"tileiras.compiler.dialects.{module}"
            __import__(path)
            loaded = getattr(sys.modules[path], name)
        loaded(op)

    return check


RULES: dict[str, Rules] = {}


def rules_of(dialect: str) -> Rules:
    """Rules of a dialect, loaded on first use; a dialect without rules has none."""
    found = RULES.get(dialect)
    if found is None:
        module = f"tileiras.compiler.dialects.{dialect}.verify"
        found = Rules()
        try:
            __import__(module)
            found = getattr(sys.modules[module], "RULES", found)
        except ModuleNotFoundError as error:
            if error.name is None or not module.startswith(error.name):
                raise
        found = RULES.setdefault(dialect, found)
    return found


PASSED: dict[OpSpec, _Passed] = {}  # signatures that passed every check of types alone
CHECKED_TYPES: set[Any] = set()


def verify(root: Op, sink: Sink) -> bool:
    """Whether `root` and everything in it is well formed. Says what is not."""
    return not _walk(
        root, sink, set() if root.spec.traits & ISOLATED or root.block is None else _outside(root)
    )


def _outside(root: Op) -> set[Value]:
    """Values that an op in the middle of a function takes from around it: in scope by assumption."""
    inside: set[Value] = set()
    used: set[Value] = set()
    for op in root.walk():
        used.update(op.operands)
        inside.update(op.results)
        for region in op.regions:
            for block in region.blocks:
                inside.update(block.args)
    return used - inside


def verify_or_fail(root: Op, sink: Sink) -> None:
    """Errors: CompileError with exit code 5."""
    if not verify(root, sink):
        raise sink.fail(EXIT_COMPILE)


def report(problem: Invalid, op: Op, sink: Sink) -> None:
    name = op.spec.full_name if problem.prefix else None
    if problem.invalid is not None:
        sink.emit(diags.INVALID_OP, loc=problem.invalid.loc, name=problem.invalid.spec.full_name)
    notes = []
    at = sink.place(op.loc)
    for text in problem.real:  # a text that names its op itself is the real parser's
        own = None if text.startswith("custom op ") else name
        notes.append(Emitted(diags.NOTE_TEXT, at, own, (("text", text),)))
    if not op.loc.file:
        notes.append(Emitted(diags.IN_FILE, at, facts=(("place", place_in_file(op)),)))
    if problem.inner is not None:
        place = problem.inner
        notes.append(
            Emitted(
                diags.NOTE_TEXT, sink.place(place.loc), place.spec.full_name, (("text", problem.inner_real),)
            )
        )
    if problem.prefix:
        sink.emit(problem.diag, op, notes=notes, **problem.facts)  # type: ignore[arg-type]
    else:
        loc = (problem.place or op).loc
        sink.emit(problem.diag, loc=loc, notes=notes, **problem.facts)  # type: ignore[arg-type]


def place_in_file(op: Op) -> str:
    """The symbol that an op without debug information belongs to, and its number there in the order of the file."""
    holder: Op | None = op
    while holder is not None and "sym_name" not in holder.attrs:
        holder = holder.parent
    if holder is None:
        return op.spec.full_name
    symbol = f"@{holder.attrs['sym_name']}"
    if holder is op:
        return symbol
    number = next(i for i, inner in enumerate(holder.walk()) if inner is op)
    return f"operation {number} of {symbol}, {op.spec.full_name}"


def _walk(op: Op, sink: Sink, visible: set[Value]) -> bool:
    """Verifies op and regions; true when something failed."""
    try:
        for i, value in enumerate(op.operands):
            if value not in visible and op.block is not None:
                raise broken(f"operand #{i} does not dominate this use")
        check_op(op)
    except Invalid as problem:
        report(problem, op, sink)
        return True
    if not op.regions:
        return False
    isolated = op.spec.traits & ISOLATED
    inner = set() if isolated else visible
    many = bool(op.spec.traits & SYMBOL_TABLE)  # each entry is checked, so that each reports
    failed = False
    for region in op.regions:
        for block in region.blocks:
            added: list[Value] = list(block.args)
            inner.update(added)
            for nested in block.ops:
                if _walk(nested, sink, inner):
                    failed = True
                    if not many:
                        return True
                if nested.results:
                    added += nested.results
                    inner.update(nested.results)
            if not isolated:
                inner.difference_update(added)
    return failed


class _Passed:
    """What of a spec its ops are checked by, looked up once, and the signatures that were good."""

    __slots__ = (
        "check",
        "fields",
        "fixed",
        "quick",
        "relations",
        "required",
        "rules",
        "signatures",
        "structure",
    )

    def __init__(self, spec: OpSpec) -> None:
        self.rules = rules = rules_of(spec.dialect)
        self.signatures: set[Any] = set()
        self.check = spec.check or rules.checks.get(spec.name)
        self.structure = bool(spec.traits & _STRUCTURE or spec.regions or spec.parents)
        self.required = [attr.name for attr in spec.attrs if attr.required]
        if rules.own_attrs:
            self.required = [name for name in self.required if (spec.name, name) not in rules.own_attrs]
        self.quick = not spec.traits & I1_OF_LHS and spec.name not in rules.own_types
        known = ACCEPTED.get(spec.dialect)
        if known is None:
            known = ACCEPTED.setdefault(spec.dialect, {"any": _ANY})
        self.fields: list[_Accepted] = []  # of operands, then of results
        for arg in (*spec.operands, *spec.results):
            self.fields.append(known.get(arg.constraint) or _accepted(arg, rules, known))
        self.fixed = not spec.varies  # whether each field has one value
        for arg in spec.results:
            if arg.mode == VARIADIC:
                self.fixed = False
        # Groups of fields that agree, in what, and their positions among the types; none: they vary, or one is an attribute.
        self.relations: list[tuple[tuple[str, ...], Callable[[Any], Any], list[int]]] = []
        related = _relations(spec)
        names = [arg.name for arg in (*spec.operands, *spec.results)] if related and self.fixed else []
        for groups, get, _ in related:
            for group in groups:
                found = [names.index(name) for name in group if name in names]
                self.relations.append((group, get, found if len(found) == len(group) else []))


class _Accepted:
    """A constraint: its test, its words, and the types that passed the test."""

    __slots__ = ("test", "types", "words")

    def __init__(self, test: Callable[[Any], bool], words: str) -> None:
        self.test = test
        self.words = words
        self.types: set[Any] = set()


_ANY = _Accepted(lambda type: True, "")
ACCEPTED: dict[str, dict[str, _Accepted]] = {}  # by dialect and name
_TESTS: dict[Callable[[Any], bool], _Accepted] = {}  # a dialect may have tests of another


def _accepted(arg: Arg, rules: Rules, known: dict[str, _Accepted]) -> _Accepted:
    found = rules.constraint(arg.constraint)
    if found is None:
        return known.setdefault(arg.constraint, _ANY)
    shared = _TESTS.get(found[0])
    if shared is None:
        shared = _TESTS.setdefault(found[0], _Accepted(*found))
    return known.setdefault(arg.constraint, shared)


def _fields(op: Op, passed: _Passed) -> list[_Accepted] | None:
    """The constraint of each operand and result of an op; None: the counts are wrong."""
    spec, fields = op.spec, passed.fields
    sizes = op.segments
    if sizes is None:
        if spec.varies or len(op.operands) != len(spec.operands):
            return None
        found = fields[: len(spec.operands)]
    else:
        if len(sizes) != len(spec.operands) or sum(sizes) != len(op.operands):
            return None
        found = []
        for arg, field, size in zip(spec.operands, fields, sizes):
            if size == 1:
                found.append(field)
            elif size and arg.mode != VARIADIC or not size and arg.mode == REQUIRED:
                return None
            else:
                found += [field] * size
    spare = len(op.results) - len(spec.results)
    for arg, field in zip(spec.results, fields[len(spec.operands) :]):
        if arg.mode == VARIADIC:
            size, spare = spare + 1, 0
            if size < 0:
                return None
            found += [field] * size
        else:
            found.append(field)
    return None if spare else found


def _accepts(op: Op, types: list[Any], passed: _Passed) -> bool:
    """Whether types of operands and results break none of the rules; False: the slow way looks again, and has words."""
    spec = op.spec
    if passed.fixed and op.segments is None:
        if len(op.operands) != len(spec.operands) or len(op.results) != len(spec.results):
            return False
        fields = passed.fields
    else:
        found = _fields(op, passed)
        if found is None:
            return False
        fields = found
    for type, field in zip(types, fields):
        if type not in field.types:
            if not field.test(type):
                return False
            field.types.add(type)
    traits = spec.traits
    if traits & _RELATED:
        alike = types[: len(op.operands)] if traits & OPERANDS_SAME_SHAPE else types
        if traits & (ALL_SAME_SHAPE | OPERANDS_SAME_SHAPE) and not _same(alike, shape_of):
            return False
        if traits & ALL_SAME_ELEMENT and not _same(alike, elem_of):
            return False
    for group, get, positions in passed.relations:
        if positions:
            alike = [types[i] for i in positions]
        elif not passed.fixed and any(is_variadic(op, name) for name in group):
            continue
        else:
            alike = [type for name in group for type in values_of(op, name)]
        if not _same(alike, get):
            return False
    return True


def _same(types: list[Any], get: Callable[[Any], Any]) -> bool:
    """Whether all types agree in what `get` takes of them; types are interned, so most are one object."""
    first = types[0] if types else None
    want = None
    for type in types:
        if type is not first:
            if want is None:
                want = get(first)
            if get(type) != want:
                return False
    return True


def check_op(op: Op) -> None:
    """Raises Invalid for the first broken rule of one op."""
    spec = op.spec
    passed = PASSED.get(spec)
    if passed is None:
        passed = PASSED.setdefault(spec, _Passed(spec))
    attrs = op.attrs
    if "operandSegmentSizes" in attrs:  # kept by the parser when the sizes do not fit the operands
        problem = passed.rules.reword(op, "segments", "")
        raise (
            problem
            if problem is not None
            else broken("operandSegmentSizes do not add up to the number of operands")
        )
    signature = (op.segments, *map(_TYPE, op.operands), None, *map(_TYPE, op.results))
    if signature not in passed.signatures:
        check_signature(op, passed)
        passed.signatures.add(signature)
    for name in passed.required:
        if name not in attrs:
            raise broken(f"requires attribute '{name}'")
    if passed.structure or op.regions:
        check_structure(op, passed.rules)
    check = passed.check
    if check is not None:
        check(op)


_TYPE = attrgetter("type")
_STRUCTURE = SINGLE_BLOCK | IMPLICIT_TERMINATOR | SYMBOL_TABLE
_RELATED = ALL_SAME_SHAPE | ALL_SAME_ELEMENT | OPERANDS_SAME_SHAPE


def check_signature(op: Op, passed: _Passed) -> None:
    """Everything that depends on types and counts only."""
    spec, rules = op.spec, passed.rules
    types = [*map(_TYPE, op.operands), *map(_TYPE, op.results)]
    if not CHECKED_TYPES.issuperset(types):
        for type in types:
            check_type(type, rules)
    if passed.quick and _accepts(op, types, passed):
        return
    check_counts(op, rules)
    own = spec.name in rules.own_types
    position = 0
    sizes = op.segments or (1,) * len(spec.operands)
    for arg, size in zip(spec.operands, sizes):
        for value in op.operands[position : position + size]:
            check_constraint(op, rules, arg, value, "operand", position, own)
            position += 1
    position = 0
    variadic = sum(1 for r in spec.results if r.mode == VARIADIC)
    for arg in spec.results:
        size = 1
        if arg.mode == VARIADIC and variadic == 1:
            size = len(op.results) - len(spec.results) + 1
        for value in op.results[position : position + size]:
            check_constraint(op, rules, arg, value, "result", position, own)
            position += 1
    if not own:
        check_relations(op, rules)


def check_type(type: Any, rules: Rules) -> None:
    if type in CHECKED_TYPES:
        return
    problem = rules.type_problem(type)
    if problem is not None:
        raise problem
    CHECKED_TYPES.add(type)


def check_counts(op: Op, rules: Rules) -> None:
    spec, found = op.spec, len(op.operands)
    if spec.varies:
        sizes = op.segments
        if sizes is None or len(sizes) != len(spec.operands) or sum(sizes) != found:
            raise broken("operand segments do not add up to the number of operands")
        for arg, size in zip(spec.operands, sizes):
            if arg.mode == REQUIRED and size != 1 or arg.mode == OPTIONAL and size > 1:
                if arg.constraint == "token":
                    problem = rules.reword(op, "token", "")
                    if problem is not None:
                        raise problem
                raise broken(
                    f"operand group starting at #{sum(sizes[: spec.operand_index[arg.name]])} requires "
                    f"{'1 element' if arg.mode == REQUIRED else '0 or 1 element'}, but found {size}"
                )
    elif found != len(spec.operands):
        if any(arg.constraint == "token" for arg in spec.operands):
            problem = rules.reword(op, "token", "")
            if problem is not None:
                raise problem
        raise broken(f"expected {len(spec.operands)} operands, but found {found}")
    variadic = any(r.mode == VARIADIC for r in spec.results)
    wanted = sum(1 for r in spec.results if r.mode != VARIADIC)
    count = len(op.results)
    if count < wanted or (count > wanted and not variadic):
        raise broken(f"expected {wanted}{' or more' if variadic else ''} results, but found {count}")


def check_constraint(op: Op, rules: Rules, arg: Any, value: Value, what: str, index: int, own: bool) -> None:
    name = arg.constraint
    if name == "any":
        return
    field = ACCEPTED[op.spec.dialect][name]
    if field.test(value.type):
        return
    if own and isinstance(value.type, T.TileType) and name.startswith("tile:"):
        return
    text = rules.describe.get((op.spec.name, arg.name)) or field.words
    if arg.mode == VARIADIC:
        text = "variadic of " + text
    real = f"{what} #{index} must be {text}, but got '{tname(value.type)}'"
    if name == "token" and what == "operand":
        problem = rules.reword(op, "token", real)
        if problem is not None:
            raise problem
    raise broken(real)


def values_of(op: Op, name: str) -> list[Any]:
    """Types of an operand or result field, or of an attribute that has one."""
    if name in op.spec.operand_index:
        return [v.type for v in op.group(name)]
    results = op.spec.results
    for i, arg in enumerate(results):
        if arg.name == name:
            stop = len(op.results) - (len(results) - i - 1) if arg.mode == VARIADIC else i + 1
            return [v.type for v in op.results[i:stop]]
    typed = getattr(op.attrs.get(name), "type", None)
    return [typed] if typed is not None else []


def is_variadic(op: Op, name: str) -> bool:
    spec = op.spec
    index = spec.operand_index.get(name)
    if index is not None:
        return spec.operands[index].mode == VARIADIC
    for arg in spec.results:
        if arg.name == name:
            return arg.mode == VARIADIC
    return False


def shape_of(type: Any) -> Any:
    return type.shape if isinstance(type, (T.TileType, T.TensorType, T.TensorView)) else None


def elem_of(type: Any) -> Any:
    return getattr(type, "elem", type)


def rank_of(type: Any) -> int:
    return len(shape_of(type) or ())


def itself(type: Any) -> Any:
    return type


def _relations(spec: OpSpec) -> list[tuple[Any, Callable[[Any], Any], str]]:
    """Groups of fields that agree, in what, and its words."""
    found: list[tuple[Any, Callable[[Any], Any], str]] = []
    if spec.same_type:
        found.append((spec.same_type, itself, "same type"))
    if spec.same_shape:
        found.append((spec.same_shape, shape_of, "same shape"))
    if spec.same_rank:
        found.append((spec.same_rank, rank_of, "same rank"))
    if spec.same_elem:
        found.append((spec.same_elem, elem_of, "the same element type"))
    return found


def check_relations(op: Op, rules: Rules) -> None:
    spec = op.spec
    if spec.traits & (ALL_SAME_SHAPE | ALL_SAME_ELEMENT | OPERANDS_SAME_SHAPE):
        types = [v.type for v in op.operands]
        if not spec.traits & OPERANDS_SAME_SHAPE:
            types += [v.type for v in op.results]
        if spec.traits & (ALL_SAME_SHAPE | OPERANDS_SAME_SHAPE) and len({shape_of(t) for t in types}) > 1:
            suffix = "" if spec.traits & OPERANDS_SAME_SHAPE else " and results"
            refuse(op, rules, "shape", f"requires the same shape for all operands{suffix}")
        if spec.traits & ALL_SAME_ELEMENT and len({elem_of(t) for t in types}) > 1:
            refuse(op, rules, "elem", "requires the same element type for all operands and results")
    for groups, get, text in _relations(spec):
        for group in groups:
            if any(is_variadic(op, name) for name in group):
                continue
            seen = {get(t) for name in group for t in values_of(op, name)}
            if len(seen) > 1:
                refuse(op, rules, text, f"failed to verify that all of {{{', '.join(group)}}} have {text}")
    if spec.traits & I1_OF_LHS and op.operands:
        want = T.TileType(T.I1, shape_of(op.operands[0].type) or ())
        if op.results[0].type is not want:
            refuse(
                op,
                rules,
                "i1",
                "failed to verify that Result type has i1 element type and same shape as operands",
            )


def refuse(op: Op, rules: Rules, kind: str, real: str) -> None:
    problem = rules.reword(op, kind, real)
    raise problem if problem is not None else broken(real)


def check_structure(op: Op, rules: Rules) -> None:
    """Parent, regions, terminators, symbols."""
    spec = op.spec
    if spec.parents and op.block is not None and spec.name not in rules.own_parents:
        parent = op.parent
        if parent is None or parent.spec.dialect != spec.dialect or parent.spec.name not in spec.parents:
            names = ", ".join(f"{spec.dialect}.{p}" for p in sorted(spec.parents))
            many = "to be one of " if len(spec.parents) > 1 else ""
            refuse(op, rules, "parent", f"expects parent op {many}'{names}'")
    if len(op.regions) != spec.regions:
        raise broken(
            f"requires {spec.regions} region{'s' if spec.regions != 1 else ''}, but got {len(op.regions)}"
        )
    for i, region in enumerate(op.regions):
        if spec.traits & SINGLE_BLOCK and len(region.blocks) > 1:
            raise broken(f"expects region #{i} to have 0 or 1 blocks")
        for block in region.blocks:
            for inner in block.ops[:-1]:
                if inner.spec.is_terminator:
                    raise Invalid(diags.NOT_LAST, prefix=False, name=inner.spec.full_name).at(inner)
            if spec.terminator and not block.ops:
                refuse(
                    op, rules, "empty", "block is expected to have a terminator operation, but it is empty"
                )
            if spec.terminator and not block.ops[-1].spec.is_terminator:
                last = block.ops[-1].spec.full_name
                raise broken(
                    f"expects regions to end with '{spec.dialect}.{spec.terminator}', found '{last}'"
                )
    if spec.traits & SYMBOL_TABLE:
        seen: set[str] = set()
        for region in op.regions:
            for block in region.blocks:
                for inner in block.ops:
                    name = inner.attrs.get("sym_name")
                    if name is None:
                        continue
                    if name in seen:
                        raise Invalid(diags.REDEFINED, prefix=False, name=name).at(inner)
                    seen.add(name)
