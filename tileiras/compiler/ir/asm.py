"""What a dialect tells the text parser and printer, and the registry that loads dialects by prefix on first use.

An assembly template is the printed form with directives in braces; the same steps print and parse:

    {%x}        operand field: a value, or a comma list when variadic
    {T x}       types of an operand or result field, as a comma list
    {@x}        attribute by its kind: keyword, number, string, symbol, list
    {=x w d}    clause `w<value>`, not printed when the value is `d`
    {?x|...}    the part is there when operand or attribute `x` is
    {!f}        a pair of functions (print, parse) named `f` in the dialect

Text between directives is printed as it stands; the parser ignores its spaces. An op without a template has the
default form: `op operands {attributes} : types -> types` and its regions.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .core import Op, Region
    from .spec import OpSpec

LIT, OPERAND, TYPES, ATTR, CLAUSE, GROUP, CUSTOM = range(7)
BARE_ATTRS = {"linear": "cute"}  # attributes that print without their dialect: `#linear<...>`


class Dialect:
    """Everything textual about one dialect. Subclass or fill in; all parts are optional."""

    def __init__(
        self, name: str, specs: dict[str, OpSpec], enums: dict[str, dict[str, int]] | None = None
    ) -> None:
        self.name = name
        self.specs = specs
        self.enums = enums or {}
        self.templates: dict[str, str] = {}
        self.custom: dict[str, tuple[Callable[..., None], Callable[..., None]]] = {}
        self.op_aliases: dict[str, str] = {}
        self.types: dict[
            str, Callable[..., Any]
        ] = {}  # mnemonic -> parse function(parser) after the mnemonic
        self.attrs: dict[str, Callable[..., Any]] = {}
        self.enum_aliases: dict[str, str] = {}
        self.attr_aliases: dict[tuple[str, str], str] = {}  # (op, other name) -> attribute of the spec
        self.ignored_attrs: frozenset[str] = frozenset()
        self.empty_bodies: frozenset[str] = (
            frozenset()
        )  # ops whose empty region gets no terminator: a fault to name
        self.loose_ops: frozenset[str] = frozenset()  # ops whose loose form needs no braces or result types
        self.strict_ops: frozenset[str] = frozenset()  # ops that are read in their own form only
        self.keyword_ops: frozenset[str] = (
            frozenset()
        )  # a word where an optional enum may stand is one of its cases
        self.older_names: dict[str, tuple[str, int]] = {}  # op -> its name in files before 13.N
        self.prints_prefix = True  # whether ops and types carry the prefix when printed
        self.steps: dict[str, list[Any] | None] = {}

    def spec(self, name: str) -> OpSpec | None:
        return self.specs.get(self.op_aliases.get(name, name))

    def template(self, spec: OpSpec) -> list[Any] | None:
        """Compiled template of an op, None for the default form."""
        try:
            return self.steps[spec.name]
        except KeyError:
            text = self.templates.get(spec.name) or spec.text
            return self.steps.setdefault(spec.name, compile_template(text) if text else None)

    # Hooks with defaults.

    def value_type(self, type: Any) -> Any:
        """The type a value has when an op's own form names `type` (cuda_tile: `f32` is `tile<f32>`)."""
        return type

    def result_names(self, op: Op) -> list[str]:
        """Name hints of the results: empty, one for the whole group, or one for each."""
        return []

    def arg_names(self, region: Region) -> list[str]:
        """Name hints of a region's entry arguments."""
        return []

    def case_error(self, spec: OpSpec, attr: Any, cases: Any, got: str) -> str | None:
        """Own words for a keyword that is no case of an enum."""
        return None

    def plain(self, value: Any) -> Any:
        """How an attribute is kept that no field describes."""
        return value

    def annotate(self, state: Any, error: Any) -> None:
        """May add notes to a syntax error, from what was read of the op before it."""

    def after_parse(self, parser: Any, op: Op) -> Op:
        """May replace an op right after it was parsed (aliases of other spellings)."""
        return op


def compile_template(text: str) -> list[Any]:
    """Steps of a template: tuples that start with one of the numbers above."""
    steps: list[Any] = []
    literal = ""
    i = 0
    while i < len(text):
        c = text[i]
        if c != "{" or text[i + 1 : i + 2] not in ("%", "T", "@", "=", "?", "!"):
            literal += c
            i += 1
            continue
        depth, j = 1, i + 1
        while depth:
            depth += {"{": 1, "}": -1}.get(text[j], 0)
            j += 1
        body = text[i + 2 : j - 1]
        if literal:
            steps.append((LIT, literal, literal.strip()))
            literal = ""
        kind = text[i + 1]
        if kind == "%":
            steps.append((OPERAND, body))
        elif kind == "T":
            steps.append((TYPES, body.strip()))
        elif kind == "@":
            steps.append((ATTR, body))
        elif kind == "=":
            name, word, *default = body.split()
            steps.append((CLAUSE, name, word, default[0] if default else None))
        elif kind == "?":
            name, _, inner = body.partition("|")
            steps.append((GROUP, name, compile_template(inner)))
        else:
            steps.append((CUSTOM, body))
        i = j
    if literal:
        steps.append((LIT, literal, literal.strip()))
    return steps


class Registry:
    """Dialects by prefix. `add` names a module whose `DIALECT` is loaded on first use."""

    def __init__(self) -> None:
        self.modules: dict[str, str] = {}
        self.loaded: dict[str, Dialect] = {}

    def add(self, name: str, module: str) -> None:
        self.modules[name] = module

    def get(self, name: str) -> Dialect | None:
        found = self.loaded.get(name)
        if found is None and name in self.modules:
            module = self.modules[name]
            try:
                __import__(module)
            except ModuleNotFoundError as error:
                if error.name is None or not module.startswith(error.name):
                    raise
                return None
            found = self.loaded.setdefault(name, sys.modules[module].DIALECT)
        return found


REGISTRY = Registry()
for _name in ("cuda_tile", "nv_tileaa", "nv_tileas", "cute", "cute_nvgpu", "nvvm"):
    REGISTRY.add(_name, f"tileiras.compiler.dialects.{_name}.assembly")
