"""The parser's lower half: tokens to values, types, attributes and locations. Knows no op.

What a text can blow up is bounded here: nesting, literals, aliases of aliases, chains of call sites.
"""

from __future__ import annotations

from tileiras.diag import Loc

from . import debug as D
from . import diags, floats
from . import types as T
from .asm import BARE_ATTRS, REGISTRY
from .core import Block, Value
from .depth import MAX_REGIONS, make_room
from .lexer import Lexer, ParseError, clip, skip, unquote
from .verify import rules_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tileiras.diag import Sink

    from .asm import Dialect
    from .core import Op
    from .parser import State
    from .spec import Attr, OpSpec

MAX_DEPTH = 64
MAX_NODES = 1 << 22


class ValueParser(Lexer):
    """One text. `allowed` limits the dialects (None: all that are registered)."""

    def __init__(self, text: str, sink: Sink, file: str = "", allowed: frozenset[str] | None = None) -> None:
        self.sink = sink
        self.file = file
        self.allowed = allowed
        self.scopes: list[dict[str, Any]] = [{}]
        self.defaults: list[str] = ["cuda_tile"]
        self.places: dict[Value, int] = {}  # where each value was defined
        self.aliases: dict[str, Any] = {}
        self.type_aliases: dict[str, Any] = {}
        self.block: Block | None = None
        self.depth = 0  # of types and attributes
        self.regions = 0  # of regions in one another
        self.brace = 0  # where the last region ended: the place of a terminator that is left out
        self.weight = 0  # nodes of attributes and types so far, with aliases counted as what they stand for
        self.weights: dict[Any, int] = {}
        self.allow_unregistered = False
        self.functional = (
            False  # whether the last loose form was one: braces, or types of operands and results
        )
        self.late: list[tuple[Op, str, int]] = []  # ops whose location alias is defined further down
        self.pending: ParseError | None = (
            None  # about an operand: said once the op is read, as its syntax comes first
        )
        super().__init__(text)

    # ---- small things

    def loc(self, pos: int) -> Loc:
        return Loc(self.file, *self.position(pos))

    def error(self, text: str, pos: int | None = None, *notes: str) -> ParseError:
        return ParseError(self.start if pos is None else pos, text, None, notes)

    def here(self) -> int:
        """The next token; the end of the last one when a new line lies between: the fault is what is missing there."""
        between = skip(self.text, self.last) == self.start
        return self.last if between and self.text.find("\n", self.last, self.start) >= 0 else self.start

    def at(self, token: str) -> bool:
        return self.token == token and self.kind != "string"

    def accept(self, token: str) -> bool:
        if self.token == token and self.kind != "string":
            self.last = self.end
            self.seek(self.end)
            return True
        return False

    def expect(self, token: str) -> None:
        if self.token != token or self.kind == "string":
            raise self.error(f"expected '{token}'{self.found()}", self.here())
        self.last = self.end
        self.seek(self.end)

    def found(self) -> str:
        if self.kind == "end":
            return ", but the input ends"
        return (
            f", but got '{self.token[:40]}'" if self.token.isprintable() else f", but got {self.token[:8]!r}"
        )

    def word(self, what: str = "a keyword") -> str:
        if self.kind != "word":
            raise self.error(f"expected {what}{self.found()}")
        return self.step()

    def integer(self, what: str = "an integer") -> int:
        pos = self.start
        negative = self.accept("-")
        if self.kind != "number" or "." in self.token or (negative and self.start != pos + 1):
            raise self.error(f"expected {what}{self.found()}")
        value = int(self.step(), 0) if self.token.startswith("0x") else int(self.step())
        return -value if negative else value

    def string(self, what: str = "a string") -> str:
        if self.kind != "string":
            raise self.error(f"expected {what}{self.found()}")
        pos = self.start
        try:
            return unquote(self.step())
        except ParseError as error:
            error.pos = pos
            raise

    def symbol_name(self) -> str:
        if self.kind != "symbol":
            raise self.error(f"expected valid '@'-identifier for symbol name{self.found()}")
        token = self.step()[1:]
        return unquote(token) if token[0] == '"' else token

    def list_of(self, item: Callable[[], Any], close: str) -> list[Any]:
        """Items separated by commas up to `close`, which is consumed."""
        items: list[Any] = []
        if self.accept(close):
            return items
        while True:
            items.append(item())
            if not self.accept(","):
                self.expect(close)
                return items

    def weigh(self, nodes: int) -> None:
        """Aliases of aliases of aliases may stand for more than fits into memory."""
        self.weight += nodes
        if self.weight > MAX_NODES:
            raise self.error(f"attributes and types have more than {MAX_NODES} parts")

    def enter(self) -> None:
        self.weight += 1
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(f"nesting is deeper than {MAX_DEPTH} levels")

    def leave(self) -> None:
        self.depth -= 1

    def enter_region(self) -> None:
        self.weight += 1
        self.regions += 1
        make_room(self.regions)
        if self.regions > MAX_REGIONS:
            raise self.error(f"nesting is deeper than {MAX_REGIONS} levels")

    def dialect(self, name: str, pos: int) -> Dialect:
        found = REGISTRY.get(name) if self.allowed is None or name in self.allowed else None
        if found is None:
            name = clip(name)
            raise ParseError(pos, f"unregistered dialect: {name}", diags.UNREGISTERED, name=name)
        return found

    @property
    def default(self) -> Dialect:
        return self.dialect(self.defaults[-1], self.start)

    # ---- values

    def defer(self, error: ParseError) -> None:
        """Keeps what is wrong with an operand until the rest of the op is read."""
        self.pending = self.pending or error

    def settle(self) -> None:
        """Errors: what was deferred."""
        error, self.pending = self.pending, None
        if error is not None:
            raise error

    def value(self) -> Value:
        if self.kind != "value":
            raise self.error(f"expected SSA operand{self.found()}")
        pos = self.start
        name = self.step()
        index = 0
        if self.kind == "hash" and self.token[1:].isdigit() and self.start == pos + len(name):
            at = self.start
            digits = self.step()[1:]
            if len(digits) > 18:
                raise self.error(f"result number of {len(digits)} digits is too large", at)
            index = int(digits)
        for scope in reversed(self.scopes):
            values = scope.get(name)
            if values is not None:
                if index >= len(values):
                    raise self.error(f"reference to invalid result number {index} of '{name}'", pos)
                return values[index]
            if None in scope:  # an isolated region
                break
        self.defer(self.error(f"use of undeclared SSA value name '{clip(name)}'", pos))
        return Value(T.UNRESOLVED, Block(), 0, name[1:])

    def values(self) -> list[Value]:
        """A comma list, possibly empty."""
        found = []
        while self.kind == "value":
            found.append(self.value())
            if not self.at(","):
                break
            mark = self.start
            self.step()
            if self.kind != "value":
                self.seek(mark)
                break
        return found

    def define(self, name: str, values: list[Value], pos: int) -> None:
        for scope in reversed(self.scopes):
            if name in scope:
                raise self.error(f"redefinition of SSA value '{clip(name)}'", pos)
            if None in scope:
                break
        self.scopes[-1][name] = values
        self.places.update(dict.fromkeys(values, pos))
        for value in values:
            value.name = name[1:]

    # ---- types

    def type(self) -> Any:
        """A type as written."""
        pos = self.start
        if self.kind == "bang":
            name = self.step()[1:]
            if "." not in name:
                if self.at("<"):
                    self.step()
                    dialect = self.dialect(name, pos)
                    found = self.dialect_type(dialect, self.word("a type name"), pos)
                    self.expect(">")
                    return found
                if name not in self.type_aliases:
                    raise self.error(f"undefined symbol alias id '{clip(name)}'", pos)
                self.weigh(self.weights["!" + name])
                return self.type_aliases[name]
            prefix, _, mnemonic = name.partition(".")
            return self.dialect_type(self.dialect(prefix, pos), mnemonic, pos)
        if self.at("("):
            self.step()
            self.enter()
            params = self.list_of(self.type, ")")
            self.expect("->")
            results = self.type_or_list()
            self.leave()
            return T.FunctionType(tuple(params), tuple(results))
        if self.kind != "word":
            raise self.error(f"expected valid keyword or a type{self.found()}")
        name = self.step()
        scalar = T.Scalar.POOL.get(name)
        if scalar is not None:
            return scalar
        if name == "index":
            return T.TileType(T.I64, ())
        if name == "tensor":
            return self.tensor_type()
        if name == "none":
            return T.TOKEN
        if "." in name:
            prefix, _, mnemonic = name.partition(".")
            if prefix in REGISTRY.modules:
                return self.dialect_type(self.dialect(prefix, pos), mnemonic, pos)
        return self.dialect_type(self.default, name, pos)

    def dialect_type(self, dialect: Dialect, mnemonic: str, pos: int) -> Any:
        parse = dialect.types.get(mnemonic)
        if parse is None:
            if self.text[pos] == "!":
                raise self.error(f"unknown type '{clip(mnemonic)}' in dialect '{dialect.name}'", pos)
            raise self.error(f"unknown type: {clip(mnemonic)}", pos)
        self.enter()
        found = parse(self)
        self.leave()
        problem = rules_of(dialect.name).type_problem(found)
        if problem is not None:
            error = ParseError(pos, "", problem.diag, problem.real)
            error.facts = problem.facts
            raise error
        return found

    def tensor_type(self) -> Any:
        self.expect("<")
        shape = self.dims()
        elem = self.type()
        layout = None
        if self.accept(","):
            pos = self.start
            layout = self.attribute()
            if isinstance(layout, (str, bool, tuple, dict, T.Type)):
                raise self.error("expected a layout", pos)
        self.expect(">")
        return T.TensorType(elem, shape, layout)

    def type_or_list(self) -> list[Any]:
        if self.at("("):
            self.step()
            return self.list_of(self.type, ")")
        return [self.type()]

    def value_type(self) -> Any:
        """A type where an op's own form names one."""
        return self.default.value_type(self.type())

    # ---- attributes

    def attribute(self) -> Any:
        """Any attribute. Enum cases come back as their names, numbers typed."""
        self.enter()
        found = self.any_attribute()
        self.leave()
        return found

    def any_attribute(self) -> Any:
        kind, token, pos = self.kind, self.token, self.start
        if kind == "string":
            return self.string()
        if kind == "number" or token == "-":
            return self.number()
        if kind == "symbol":
            return self.symbol_name()
        if token == "[" and kind == "punct":
            self.step()
            return tuple(self.list_of(self.attribute, "]"))
        if token == "{" and kind == "punct":
            return self.dictionary()
        if kind == "hash":
            return self.hash_attribute()
        if kind in ("bang",) or token == "(":
            return self.type()
        if kind == "word":
            if token in ("true", "false"):
                self.step()
                return token == "true"
            if token == "unit":
                self.step()
                return True
            if token == "array":
                return self.dense_array()
            if token == "dense":
                return self.dense()
            if token == "loc":
                return self.location()
            if token in T.Scalar.POOL or token in self.default.types or token in ("index", "tensor"):
                return self.type()
            return self.step()
        raise self.error(f"expected an attribute value{self.found()}", pos)

    def number(self) -> Any:
        """`4 : i32`, `1.5 : f32`, `0x7F800000 : f32`; without a type i64 or f64."""
        pos = self.start
        if self.kind == "word" and self.token in ("true", "false"):
            return T.IntegerAttr(T.I1, 1 if self.step() == "true" else 0)
        negative = self.accept("-")
        if self.kind != "number":
            raise self.error(f"expected a number{self.found()}")
        text = self.step()
        elem = None
        if self.at(":"):
            self.step()
            elem = self.type()
        return number_attr(self, text, negative, elem, pos, floats)

    def dense_array(self) -> tuple[Any, ...]:
        """`array<i32: 1, 2>` as a tuple of ints or bools."""
        self.step()
        self.expect("<")
        elem = self.type()
        if self.accept(">"):
            return ()
        self.expect(":")

        def item() -> Any:
            if self.kind == "word" and self.token in ("true", "false"):
                return self.step() == "true"
            return self.integer() if elem is not T.I1 else bool(self.integer())

        return tuple(self.list_of(item, ">"))

    def dense(self) -> Any:
        """`dense<"0x..."> : type` or `dense<[...]> : type`; the dialect's constant reader does the work."""
        self.step()
        self.expect("<")
        reader = self.dialect("cuda_tile", self.start).custom["dense"][1]
        return reader(self)

    def dictionary(self) -> dict[str, Any]:
        """`{name = value, unit}`."""
        self.expect("{")
        found: dict[str, Any] = {}

        def entry() -> None:
            pos = self.start
            if self.kind == "string":
                name = self.string()
            else:
                name = self.word("an attribute name")
            value = self.attribute() if self.accept("=") else True
            if name in found:
                raise self.error(f"duplicate key '{clip(name)}' in dictionary attribute", pos)
            found[name] = value

        self.list_of(entry, "}")
        return found

    def hash_attribute(self) -> Any:
        pos = self.start
        name = self.step()[1:]
        prefix, dot, mnemonic = name.partition(".")
        if name == "arith.fastmath" and self.at(
            "<"
        ):  # frontends write it; no operation here has it, so it is ignored
            self.step()
            self.list_of(lambda: self.word("a fastmath flag"), ">")
            return name
        if name in BARE_ATTRS and self.at("<") and name not in self.aliases:
            return self.dialect(BARE_ATTRS[name], pos).attrs[name](self)
        if not dot and self.at("<") and name not in self.aliases:
            self.step()
            dialect = self.dialect(name, pos)
            mnemonic = self.word("an attribute name")
            found = self.dialect_attr(dialect, mnemonic)
            self.expect(">")
            return found
        if dot:
            dialect = self.dialect(prefix, pos)
            parse = dialect.attrs.get(mnemonic)
            if parse is not None:
                return parse(self)
            self.expect("<")
            found = self.dialect_attr(dialect, "")
            self.expect(">")
            return found
        if name not in self.aliases:
            raise self.error(f"undefined symbol alias id '{clip(name)}'", pos)
        self.weigh(self.weights.get("#" + name, 1))
        return self.aliases[name]

    def dialect_attr(self, dialect: Dialect, mnemonic: str) -> Any:
        """`<mnemonic case>`, or one with its own parser: an enum case is its name."""
        parse = dialect.attrs.get(mnemonic)
        if parse is not None:
            return parse(self)
        if self.at("<"):
            self.step()
            found = self.attribute()
            self.expect(">")
            return found
        return self.attribute() if not self.at(">") else mnemonic

    def field_attr(self, state: State, attr: Attr) -> Any:
        """A bare attribute of the op's own form."""
        kind, pos = attr.kind, self.start
        if kind == "enum":
            if self.kind != "word":
                raise self.error(
                    f"expected valid keyword{self.found()}", pos, self.case_error(state, attr, "")
                )
            return self.enum_case(state, attr, self.step(), pos)
        if kind in ("i64", "i32"):
            return self.integer()
        if kind == "symbol":
            return self.symbol_name()
        if kind == "string":
            return self.string("attribute value")
        return self.coerce(state.spec, attr, self.attribute(), pos, state.dialect)

    def enum_case(self, state: State, attr: Attr, name: str, pos: int) -> str:
        cases = state.dialect.enums.get(attr.enum)
        name = state.dialect.enum_aliases.get(name, name) if cases is None or name not in cases else name
        if cases is not None and name not in cases:
            raise self.error(self.case_error(state, attr, name), pos)
        return name

    def case_error(self, state: State, attr: Attr, got: str) -> str:
        """What is said about a word that is no case of an enum."""
        cases = state.dialect.enums.get(attr.enum, ())
        said = state.dialect.case_error(state.spec, attr, cases, got)
        return said or f"expected one of [{', '.join(cases)}] for attribute '{attr.name}', but got '{got}'"

    def coerce(self, spec: OpSpec, attr: Attr, value: Any, pos: int, dialect: Dialect) -> Any:
        """A parsed attribute as the kind that the spec asks for."""
        kind = attr.kind
        if kind == "enum":
            cases = dialect.enums.get(attr.enum)
            if type(value) is T.IntegerAttr:
                value = next((n for n, v in (cases or {}).items() if v == value.value), value)
            if isinstance(value, str):
                value = value if cases is None or value in cases else dialect.enum_aliases.get(value, value)
                if cases is None or value in cases:
                    return value
            shown = value if isinstance(value, str) else "another kind"
            raise self.error(
                f"attribute '{attr.name}' expects one of [{', '.join(cases or ())}], but got {shown}", pos
            )
        if kind in ("i64", "i32"):
            if type(value) is T.IntegerAttr:
                return signed_value(value)
            raise self.error(f"attribute '{attr.name}' must be an integer", pos)
        if kind in ("unit", "bool"):
            if value is True or value is False:
                return value
            raise self.error(f"attribute '{attr.name}' must be a bool", pos)
        if kind in ("string", "symbol"):
            if isinstance(value, str):
                return value
            raise self.error(f"attribute '{attr.name}' must be a string", pos)
        if kind in ("i32s", "bools", "array"):
            if not isinstance(value, tuple):
                raise self.error(f"attribute '{attr.name}' must be a list", pos)
            if kind == "i32s":
                value = tuple(signed_value(v) if type(v) is T.IntegerAttr else v for v in value)
            want = {"i32s": int, "bools": bool}.get(kind)
            if want is not None and any(type(v) is not want for v in value):
                what = "integers" if want is int else "bools"
                raise self.error(f"attribute '{attr.name}' must be a list of {what}", pos)
            return value
        if kind == "hints":
            if not isinstance(value, dict):
                raise self.error(f"attribute '{attr.name}' must be a dictionary", pos)
            return plain_hints(value)
        if kind == "dicts":
            if isinstance(value, tuple) and all(isinstance(one, dict) for one in value):
                return tuple(map(plain_hints, value))
            raise self.error(f"attribute '{attr.name}' must be a list of dictionaries", pos)
        return value

    # ---- locations

    def location(self) -> Any:
        """`loc(...)`: a Loc, or the name of an alias that is defined later."""
        self.expect("loc")
        self.expect("(")
        found = self.location_body()
        self.expect(")")
        return found

    def location_body(self) -> Any:
        pos = self.start
        self.enter()
        found: Any
        if self.kind == "hash":
            name = self.token[1:]
            if "." not in name and name not in self.aliases:
                self.step()
                found = "#" + name
            else:
                found = self.hash_attribute()
        elif self.at("unknown"):
            self.step()
            found = Loc()
        elif self.kind == "string":
            file = self.string()
            line = col = 0
            if self.accept(":"):
                line = self.integer("a line number")
                self.expect(":")
                col = self.integer("a column number")
                if self.accept("to"):
                    while not self.at(")") and self.kind in ("punct", "number"):
                        self.step()
                found = Loc(file, line, col)
            else:
                inner = Loc()
                if self.accept("("):
                    inner = self.solid(self.location_body(), pos)
                    self.expect(")")
                found = D.WrappedLoc("NameLoc", (inner,), file)
        elif self.at("callsite"):
            self.step()
            self.expect("(")
            callee = self.solid(self.location_body(), pos)
            self.expect("at")
            caller = self.solid(self.location_body(), pos)
            self.expect(")")
            inner = caller
            if type(caller) is Loc:
                inner = Loc(caller.file, caller.line, caller.col, scope=caller.scope)
            callers = (*callee.callers, inner, *caller.callers)
            if isinstance(callee, D.WrappedLoc):
                found = callee.called_from(callers)
            else:
                found = Loc(callee.file, callee.line, callee.col, callers, callee.scope)
            if len(callers) > 4 * MAX_DEPTH:
                raise self.error("call site chain is too long", pos)
        elif self.at("fused"):
            self.step()
            metadata = None
            if self.accept("<"):
                metadata = self.attribute()
                self.expect(">")
            self.expect("[")
            items = self.list_of(lambda: self.solid(self.location_body(), pos), "]")
            found = D.WrappedLoc("FusedLoc", tuple(items), metadata=metadata)
        elif self.at("loc"):
            found = self.location()
        else:
            raise self.error(f"expected location instance{self.found()}")
        self.leave()
        if not isinstance(found, (Loc, str)):
            raise self.error("expected location instance", pos)
        return found

    def solid(self, found: Any, pos: int) -> Loc:
        if isinstance(found, Loc):
            return found
        raise self.error(f"undefined location alias '{found}'", pos)

    def trailing_location(self, op: Op) -> None:
        """`loc(...)` behind an op."""
        if not self.at("loc"):
            return
        pos = self.start
        found = self.location()
        if isinstance(found, str):
            self.late.append((op, found[1:], pos))
        else:
            op.loc = found


def signed_value(attr: Any) -> int:
    """Value of an IntegerAttr, read as signed."""
    value, bits = attr.value, attr.type.bits
    return value - (1 << bits) if bits > 1 and value >> (bits - 1) else value


def plain_hints(value: dict[str, Any]) -> dict[str, Any]:
    """Hints as they are kept: 32-bit and untyped integers are plain ints."""
    found: dict[str, Any] = {}
    for key, item in value.items():
        if isinstance(item, dict):
            item = plain_hints(item)
        elif type(item) is T.IntegerAttr and item.type in (T.I32, T.I64):
            bits = item.type.bits
            item = item.value - (1 << bits) if item.value >> (bits - 1) else item.value
        found[key] = item
    return found


def number_attr(parser: ValueParser, text: str, negative: bool, elem: Any, pos: int, floats: Any) -> Any:
    """A number literal as an attribute of its type."""
    hexadecimal = text.startswith("0x")
    is_float = "." in text or (isinstance(elem, T.Scalar) and elem.is_float)
    if isinstance(elem, T.TileType) and elem.shape == ():  # `index`
        elem = elem.elem
    if elem is None:
        elem = T.F64 if "." in text else T.I64
    if not isinstance(elem, T.Scalar) or is_float != elem.is_float:
        raise parser.error(f"number literal does not fit the type '{elem}'", pos)
    if elem.is_float:
        if hexadecimal:
            value = int(text, 16)
            if value >> floats.width_of(elem) or negative:
                raise parser.error("hexadecimal float constant out of range for type", pos)
            return T.FloatAttr(elem, value)
        return T.FloatAttr(elem, floats.parse_decimal(("-" if negative else "") + text, elem))
    value = int(text, 16) if hexadecimal else int(text)
    value = -value if negative else value
    limit = 1 << elem.bits
    low = -(limit >> 1) if elem.bits > 1 else -1
    if not low <= value < limit:
        raise parser.error("integer constant out of range for attribute", pos)
    return T.IntegerAttr(elem, value & (limit - 1))
