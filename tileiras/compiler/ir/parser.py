"""Text -> ops. NVIDIA's assembly form by templates, MLIR's generic form, and a loose form of both.

The parser knows no op. It loops over the OpSpec and the template of the dialect; what a template cannot say
calls back into the dialect. Every op gets the location of its first character unless the text gives one.
"""

from __future__ import annotations

from tileiras.diag import Loc

from . import diags
from . import types as T
from .asm import ATTR, CLAUSE, CUSTOM, GROUP, LIT, OPERAND, REGISTRY, TYPES
from .core import Block, Op, Region
from .lexer import TOKEN, ParseError, clip, skip
from .parse_values import MAX_DEPTH, ValueParser, plain_hints
from .segments import clamp_segments, guess_segments, same_typed
from .spec import IMPLICIT_TERMINATOR, ISOLATED, REQUIRED, SYMBOL_TABLE, Arg, OpSpec
from .verify import tname

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .asm import Dialect
    from .core import Value

# Types that a constraint leaves no choice about: forms do not spell them.
IMPLIED = {"token": T.TOKEN, "scalar:i32": T.TileType(T.I32, ()), "scalar:i1": T.TileType(T.I1, ())}
LITERALS: dict[str, list[str]] = {}


class State:
    """One op while it is parsed: fields by name."""

    __slots__ = (
        "attrs",
        "committed",
        "declared",
        "dialect",
        "names",
        "operands",
        "pos",
        "regions",
        "result_types",
        "spec",
        "types",
    )

    def __init__(self, spec: OpSpec, dialect: Dialect, pos: int, names: int) -> None:
        self.spec = spec
        self.dialect = dialect
        self.pos = pos
        self.names = names  # results that the left side names
        self.operands: dict[str, list[Value]] = {}
        self.types: dict[str, list[Any]] = {}  # result types by field
        self.result_types: list[Any] | None = None
        self.declared: set[str] = set()  # operand fields whose type the form names
        self.attrs: dict[str, Any] = {}
        self.regions: list[Region] = []
        self.committed = False  # a region was entered: no other form will be tried


class Parser(ValueParser):
    """Ops and regions of one text."""

    # ---- ops

    def insert(self, op: Op) -> Op:
        """Appends to the current block."""
        assert self.block is not None
        return self.block.append(op)

    def one_op(self) -> Op:
        """An op with the names of its results, appended to the current block."""
        pos = self.start
        names: list[tuple[str, int, int]] = []
        while self.kind == "value":
            at = self.start
            name = self.step()
            count = 1
            if self.accept(":"):
                count = self.integer("the number of results")
                if not 1 <= count <= 1 << 16:
                    raise self.error("expected a positive number of results", at)
            names.append((name, count, at))
            if not self.accept(","):
                self.expect("=")
                break
            if self.kind != "value":
                raise self.error(f"expected SSA result{self.found()}")
        total = sum(count for _, count, _ in names)
        if self.kind == "string":
            op = self.generic_op(pos)
        else:
            op = self.custom_op(pos, total)
        op.loc = self.loc(pos)
        self.trailing_location(op)
        self.insert(op)
        results = self.after_parse(op)
        if names:
            if total and not results:
                raise self.error("cannot name an operation with no results", pos)
            if total != len(results):
                raise self.error(
                    f"operation defines {len(results)} results but was provided {total} to bind", pos
                )
            first = 0
            for name, count, at in names:
                self.define(name, results[first : first + count], at)
                first += count
        return op

    def after_parse(self, op: Op) -> list[Value]:
        """Lets the dialect rewrite other spellings; the values that the names on the left side stand for."""
        dialect = REGISTRY.get(op.spec.dialect)
        if dialect is None:
            return op.results
        last = dialect.after_parse(self, op)
        return last if isinstance(last, list) else last.results

    def op_spec(self, name: str, pos: int) -> tuple[OpSpec, Dialect]:
        prefix, dot, rest = name.partition(".")
        if dot and (prefix in REGISTRY.modules or self.default.spec(name) is None):
            dialect = self.dialect(prefix, pos)
            spec = dialect.spec(rest)
            if spec is None:
                raise ParseError(pos, "", diags.UNKNOWN_OP, name=clip(name))
            return spec, dialect
        dialect = self.default
        spec = dialect.spec(name)
        if spec is None:
            raise ParseError(pos, "", diags.UNKNOWN_CUSTOM_OP, name=clip(name), dialect=dialect.name)
        return spec, dialect

    def generic_op(self, pos: int) -> Op:
        """`"dialect.op"(operands) <{properties}> ({regions}) {attributes} : (types) -> types`."""
        name = self.string()
        if name == "builtin.module":
            return self.generic_module(pos)
        if name == "arith.constant":
            self.expect("(")
            self.expect(")")
            value = self.dictionary_in_angles().get("value")
            self.expect(":")
            self.type()
            return self.dialect("cuda_tile", pos).foreign_constant(self, value, pos)
        spec, dialect = self.unregistered(name) or self.op_spec(name, pos)
        self.expect("(")
        operands = self.list_of(self.value, ")")
        attrs: dict[str, Any] = {}
        attr_pos = self.start
        if self.accept("<"):
            attrs.update(self.dictionary())
            self.expect(">")
        regions: list[Region] = []
        if self.accept("("):
            self.defaults.append(dialect.name)
            regions = self.list_of(lambda: self.region(spec, None), ")")
            self.defaults.pop()
        if self.at("{"):
            attrs.update(self.dictionary())
        self.expect(":")
        self.defaults.append(dialect.name)
        at = self.start
        function = self.type()
        self.defaults.pop()
        if not isinstance(function, T.FunctionType):
            raise self.error("expected function type", at)
        if len(function.params) != len(operands):
            raise self.error(f"expected {len(operands)} operand types but had {len(function.params)}", at)
        for value, type in zip(operands, function.params):
            self.same_type(value, type, at)
        self.settle()
        return self.build(spec, dialect, operands, list(function.results), attrs, regions, attr_pos)

    def dictionary_in_angles(self) -> dict[str, Any]:
        """`<{...}>` or `{...}`."""
        if not self.accept("<"):
            return self.dictionary()
        found = self.dictionary()
        self.expect(">")
        return found

    def generic_module(self, pos: int) -> Op:
        """`"builtin.module"() ({...}) {attributes} : () -> ()`: the same as the outer `module`."""
        self.expect("(")
        self.expect(")")
        attrs: dict[str, Any] = {}
        if self.accept("<"):
            attrs.update(self.dictionary())
            self.expect(">")
        self.expect("(")
        region = self.region(None, None)
        self.expect(")")
        if self.at("{"):
            attrs.update(self.dictionary())
        self.expect(":")
        self.type()
        ops = [op for block in region.blocks for op in block.ops]
        return self.dialect("cuda_tile", pos).outer_module(self, ops, attrs, pos)

    def unregistered(self, name: str) -> tuple[OpSpec, Dialect] | None:
        """A spec for an op that nobody registered, where that is allowed."""
        prefix, dot, rest = name.partition(".")
        if not self.allow_unregistered or prefix in REGISTRY.modules:
            return None
        anything = Arg("operands", "any", 2), Arg("results", "any", 2)
        spec = OpSpec(
            rest if dot else name, dialect=prefix if dot else "", operands=anything[:1], results=anything[1:]
        )
        spec.full_name = name
        return spec, self.default

    def build(
        self, spec: OpSpec, dialect: Dialect, operands: list[Value], results: list[Any], attrs: dict[str, Any],
        regions: list[Region], pos: int,
    ) -> Op:  # fmt: skip
        """An op from flat operands and attributes as written."""
        found: dict[str, Any] = {}
        segments = None
        for name, value in attrs.items():
            if name in ("operandSegmentSizes", "operand_segment_sizes"):
                if not isinstance(value, tuple):
                    raise self.error(f"attribute '{name}' must be a list of integers", pos)
                segments = tuple(v.value if type(v) is T.IntegerAttr else v for v in value)
                if any(type(v) is not int for v in segments):
                    raise self.error(f"attribute '{name}' must be a list of integers", pos)
                continue
            name = dialect.attr_aliases.get((spec.name, name)) or dialect.attr_aliases.get(("", name), name)
            if name in dialect.ignored_attrs:
                continue
            attr = spec.attr_by_name.get(name)
            found[name] = (
                dialect.plain(value) if attr is None else self.coerce(spec, attr, value, pos, dialect)
            )
        if found.get("bytecode_version"):
            found.pop("bytecode_version")
        for attr in spec.attrs:
            if attr.kind == "unit" and found.get(attr.name) is False:
                del found[attr.name]
        sizes = segments if segments is not None else guess_segments(spec, operands)
        if spec.varies and (segments is not None or sizes is None):
            if (
                sizes is None
                or len(sizes) != len(spec.operands)
                or sum(sizes) != len(operands)
                or min(sizes, default=0) < 0
            ):
                found["operandSegmentSizes"] = segments  # the dialect's checks name what is wrong
                sizes = clamp_segments(spec, operands)
        return Op(spec, operands, results, found, regions, None, sizes if spec.varies else None)

    def custom_op(self, pos: int, names: int) -> Op:
        if self.kind != "word":
            raise self.error(f"expected operation name{self.found()}")
        at = self.start
        name = self.step()
        if name in ("module", "builtin.module") and "cuda_tile" in REGISTRY.modules:
            outer = self.default.custom.get("outer_module")
            if outer is not None and self.defaults[-1] == "cuda_tile":
                if name != "module" or not self.at("@") or self.looks_outer():
                    return outer[1](self, pos)  # type: ignore[return-value,func-returns-value]
        if name == "arith.constant":
            return self.dialect("cuda_tile", at).foreign_constant(self, self.attribute(), at)
        spec, dialect = self.op_spec(name, at)
        self.defaults.append(dialect.name)
        steps = dialect.template(spec)
        mark = self.start
        state = State(spec, dialect, at, names)
        try:
            if steps is None:
                op = self.loose(spec, dialect, names)
            else:
                self.run(state, steps)
                op = self.finish(state)
                if self.kind == "punct" and self.token in (
                    ",",
                    "->",
                ):  # more types than the op's own form has
                    raise self.error(f"expected operation name{self.found()}")
        except ParseError as error:
            if self.pending is not None and str(T.UNRESOLVED) in error.text:
                self.settle()  # the rest follows from that
            if steps is None or state.committed:
                if steps is not None and not (error.op or error.inside or error.text.startswith("use of ")):
                    error.op = spec.full_name
                raise
            self.pending = None
            dialect.annotate(state, error)
            self.seek(mark)
            try:
                op = self.loose(spec, dialect, names)
            except ParseError as second:
                worst = second if self.functional and second.pos > error.pos else error
                worst.op = worst.op or ("" if worst.inside else spec.full_name)
                raise worst from None
            strict = not self.functional or spec.name in dialect.strict_ops
            if strict or self.start == mark or (names and len(op.results) != names):
                error.op = error.op or spec.full_name
                raise error from None
        self.settle()
        self.defaults.pop()
        return op

    def looks_outer(self) -> bool:
        """Whether `module @name` is the builtin one: its body holds a cuda_tile.module."""
        brace = self.text.find("{", self.start)
        following = TOKEN.match(self.text, skip(self.text, brace + 1))
        return following is not None and following.group() in (
            "cuda_tile.module",
            "module",
            '"cuda_tile.module"',
        )

    def run(self, state: State, steps: list[Any]) -> None:
        spec = state.spec
        for step in steps:
            kind = step[0]
            if kind == LIT:
                for token in literal_tokens(step[2]):
                    if self.token == "{" and token in (":", "->") and self.kind == "punct":
                        self.attr_dict(state)
                    self.expect(token)
            elif kind == OPERAND:
                self.field_operands(state, step[1])
            elif kind == TYPES:
                self.field_types(state, step[1])
            elif kind == ATTR:
                state.attrs[step[1]] = self.field_attr(state, spec.attr_by_name[step[1]])
            elif kind == CLAUSE:
                _, name, word, default = step
                if self.accept(word):
                    self.expect("<")
                    pos = self.start
                    case = self.enum_case(state, spec.attr_by_name[name], self.word(), pos)
                    self.expect(">")
                    state.attrs[name] = case
                elif default is not None and spec.attr_by_name[name].default != default:
                    state.attrs[name] = default
            elif kind == GROUP:
                if self.group_present(state, step[1], step[2]):
                    if step[1] in spec.attr_by_name and spec.attr_by_name[step[1]].kind == "unit":
                        state.attrs[step[1]] = True
                    self.run(state, step[2])
            elif kind == CUSTOM:
                state.dialect.custom[step[1]][1](self, state)

    def attr_dict(self, state: State) -> None:
        """`{name = value}` behind the operands of an op's own form."""
        pos = self.start
        dialect, spec = state.dialect, state.spec
        for name, value in self.dictionary().items():
            name = dialect.attr_aliases.get((spec.name, name)) or dialect.attr_aliases.get(("", name), name)
            if name in dialect.ignored_attrs:
                continue
            if name in ("operandSegmentSizes", "operand_segment_sizes"):
                raise self.error("operandSegmentSizes in a form that names its operands", pos)
            attr = spec.attr_by_name.get(name)
            state.attrs[name] = value if attr is None else self.coerce(spec, attr, value, pos, dialect)

    def group_present(self, state: State, name: str, steps: list[Any]) -> bool:
        """Whether an optional part follows: known already, or seen from its first token."""
        if name in state.operands:
            return bool(state.operands[name])
        if name in state.attrs and not any(s[0] in (OPERAND, ATTR) and s[1] == name for s in steps):
            return True
        if any(s[0] == TYPES and s[1] == name for s in steps) and not any(s[0] == OPERAND for s in steps):
            return False
        for step in steps:
            if step[0] == LIT:
                if not step[2]:
                    continue
                first = literal_tokens(step[2])[0]
                if not self.at(first):
                    return False
                if first == "," and name in state.spec.operand_index:
                    return kind_after(self) == "value"
                return True
            if step[0] == OPERAND:
                return self.kind == "value"
            if step[0] == ATTR:
                dialect = state.dialect
                cases = dialect.enums.get(state.spec.attr_by_name[step[1]].enum, {})
                known = self.token in cases or dialect.enum_aliases.get(self.token) in cases
                return self.kind == "word" and (known or state.spec.name in dialect.keyword_ops)
            return True
        return False

    def field_operands(self, state: State, name: str) -> None:
        arg = state.spec.operands[state.spec.operand_index[name]]
        state.operands[name] = [self.value()] if arg.mode != 2 else self.values()

    def same_type(self, value: Value, type: Any, pos: int) -> None:
        if value.type is not type and value.type is not T.UNRESOLVED:
            name = f"'%{value.name}'" if value.name else "the operand"
            text = f"use of value {name} expects different type than prior uses: '{tname(type)}' vs '{tname(value.type)}'"
            error = self.error(text, pos)
            error.prior = self.places.get(value)
            self.defer(error)

    def field_types(self, state: State, name: str) -> None:
        spec = state.spec
        if name in spec.operand_index:
            state.declared.add(name)
            for i, value in enumerate(state.operands.get(name, ())):
                if i:
                    self.expect(",")
                pos = self.start
                self.same_type(value, self.value_type(), pos)
            return
        arg = next(r for r in spec.results if r.name == name)
        if arg.constraint == "token":
            state.types[name] = [self.type()]
            return
        found = [self.value_type()]
        while arg.mode == 2 and self.accept(","):
            found.append(self.value_type())
        state.types[name] = found

    def finish(self, state: State) -> Op:
        """The op of a state: operands in order, results inferred where the form does not say them."""
        spec = state.spec
        operands: list[Value] = []
        sizes = []
        for arg in spec.operands:
            group = state.operands.get(arg.name, [])
            operands += group
            sizes.append(len(group))
        self.check_declared(state)
        results = state.result_types
        if results is None:
            results = self.infer_results(state)
        segments = tuple(sizes) if spec.varies else None
        return Op(spec, operands, results, state.attrs, state.regions, None, segments)

    def check_declared(self, state: State) -> None:
        """Operands whose type the form gives through another field: `addf %a, %b : type of all`."""
        for group in state.spec.same_type:
            given = next((state.types[name][0] for name in group if state.types.get(name)), None)
            if given is None:
                given = next(
                    (v[0].type for name in group if name in state.declared and (v := state.operands[name])),
                    None,
                )
            if given is None:
                continue
            for name in group:
                if name not in state.declared:
                    for value in state.operands.get(name, ()):
                        self.same_type(value, given, state.pos)
        for arg in state.spec.operands:
            want = IMPLIED.get(arg.constraint)
            if want is not None and arg.name not in state.declared:
                for value in state.operands.get(arg.name, ()):
                    self.same_type(value, want, state.pos)

    def infer_results(self, state: State) -> list[Any]:
        spec = state.spec
        results: list[Any] = []
        for arg in spec.results:
            if arg.name in state.types:
                results += state.types[arg.name]
                continue
            found = None
            for group in spec.same_type:
                if arg.name not in group:
                    continue
                for other in group:
                    if state.operands.get(other):
                        found = state.operands[other][0].type
                    elif other in state.types:
                        found = state.types[other][0]
                    if found is not None:
                        break
            if found is None:
                found = IMPLIED.get(arg.constraint)
            if arg.mode == REQUIRED and found is not None:
                results.append(found)
            elif arg.mode == REQUIRED:
                raise self.error(f"type of result '{arg.name}' is missing", state.pos)
        return results

    def loose(self, spec: OpSpec, dialect: Dialect, names: int) -> Op:
        """Operands, attributes in braces, types, regions: the form of ops without a template, and the way the
        specification documents write the others. `[` and `]` around operands are punctuation."""
        operands: list[Value] = []
        attrs: dict[str, Any] = {}
        pos = self.start
        self.functional = dialect.template(spec) is None or spec.name in dialect.loose_ops
        if self.kind == "symbol":
            first = next((a.name for a in spec.attrs if a.kind == "symbol"), "sym_name")
            attrs[first] = self.symbol_name()
            self.accept(",")
        while self.kind == "value" or self.token in ("[", "]", ",") and self.kind == "punct":
            if self.kind == "value":
                operands.append(self.value())
            else:
                self.step()
        if self.at("{") and not (spec.regions and self.region_follows()):
            attrs.update(self.dictionary())
            self.functional = True
        results: list[Any] = []
        if self.accept(":"):
            at = self.start
            types = []
            if self.accept("("):
                types = self.list_of(self.value_type, ")")
            else:
                types.append(self.value_type())
                while self.accept(","):
                    types.append(self.value_type())
            if self.accept("->"):
                if not any(step[0] == LIT and "->" in step[1] for step in dialect.template(spec) or ()):
                    self.functional = True
                if self.accept("("):
                    results = self.list_of(self.value_type, ")")
                else:
                    results.append(self.value_type())
                    while self.accept(","):
                        results.append(self.value_type())
                if len(types) == len(operands):
                    for value, type in zip(operands, types):
                        self.same_type(value, type, at)
                elif len(types) == 1 and operands:
                    self.same_type(operands[0], types[0], at)
                elif types:
                    raise self.error(f"expected {len(operands)} operand types but had {len(types)}", at)
            elif attrs and len(types) == len(operands) > len(spec.results) and same_typed(spec, operands):
                for value, type in zip(operands, types):
                    self.same_type(value, type, at)
                results = same_typed(spec, operands)
            elif spec.results and not (
                len(types) == len(operands) and not any(r.mode == REQUIRED for r in spec.results)
            ):
                results = types
                if len(types) != names and len(types) == 1:
                    results = types * max(names, 1)
            elif len(types) == len(operands):
                for value, type in zip(operands, types):
                    self.same_type(value, type, at)
            else:
                raise self.error(f"expected {len(operands)} operand types but had {len(types)}", at)
        regions: list[Region] = []
        while self.at("{") and len(regions) < max(spec.regions, 1):
            regions.append(self.region(spec, None, own=True))
        while len(regions) < spec.regions:
            regions.append(Region())
        if spec.traits & SYMBOL_TABLE:  # a module may be empty, its block is there
            for region in regions:
                if not region.blocks:
                    region.append(Block())
        for step in dialect.template(spec) or ():
            if step[0] == CLAUSE and step[3] is not None and spec.attr_by_name[step[1]].default != step[3]:
                attrs.setdefault(step[1], step[3])
        return self.build(spec, dialect, operands, results, attrs, regions, pos)

    def region_follows(self) -> bool:
        """Whether `{` opens a region and not a dictionary."""
        i = skip(self.text, self.end)
        match = TOKEN.match(self.text, i)
        if match is None:
            return False
        if match.lastgroup in ("value", "label"):
            return True
        if match.lastgroup == "word" or match.lastgroup == "string":
            j = skip(self.text, match.end())
            return self.text[j : j + 1] not in ("=", ",", "}")
        return False

    # ---- regions

    def region(
        self, spec: OpSpec | None, args: list[tuple[str, Any, int]] | None, own: bool = False
    ) -> Region:
        """`{ ops }` or `{ ^bb0(...): ops }`. `args`: names and types that the op's form gives. `own`: the region of
        an op's own form, where block arguments have value types (`f32` is `tile<f32>`)."""
        self.settle()
        self.expect("{")
        self.enter_region()
        isolated = spec is not None and bool(spec.traits & ISOLATED)
        scope: dict[Any, Any] = {None: True} if isolated else {}
        self.scopes.append(scope)
        outer = self.block
        region = Region()
        block = Block()
        self.block = block
        if args is not None:
            for name, type, pos in args:
                value = block.add_arg(type, name[1:])
                self.define(name, [value], pos)
        try:
            labelled = self.region_ops(region, own)
        except ParseError as error:
            error.inside = True
            raise
        self.brace = self.start
        self.step()
        block = self.block
        if block.ops or block.args or labelled or args is not None:
            region.append(block)
        self.block = outer
        self.scopes.pop()
        self.regions -= 1
        return region

    def region_ops(self, region: Region, own: bool) -> bool:
        """Ops up to the brace, the last block not yet appended; whether it has a label."""
        labelled = False
        while not self.at("}"):
            block = self.block
            assert block is not None
            if self.kind == "label":
                if labelled or block.ops:
                    region.append(block)
                    self.block = Block()
                labelled = True
                self.step()
                if self.accept("("):
                    self.list_of(lambda: self.block_arg(own), ")")
                self.expect(":")
                continue
            if self.kind == "end":
                raise self.error("expected '}', but the input ends")
            if self.kind in ("hash", "bang") and self.definition():
                continue
            self.one_op()
        return labelled

    def block_arg(self, own: bool) -> None:
        pos = self.start
        if self.kind != "value":
            raise self.error(f"expected SSA operand{self.found()}")
        name = self.step()
        self.expect(":")
        assert self.block is not None
        self.define(name, [self.block.add_arg(self.value_type() if own else self.type(), name[1:])], pos)
        if self.at("loc"):
            self.location()

    def own_region(self, state: State, args: list[tuple[str, Any, int]]) -> Region:
        """A region in an op's own form: a missing terminator is added."""
        state.committed = True
        region = self.region(state.spec, args)
        self.close_region(region, state.spec, state.dialect)
        return region

    def close_region(self, region: Region, spec: OpSpec, dialect: Dialect) -> None:
        if not spec.traits & IMPLICIT_TERMINATOR or not spec.terminator:
            return
        if not region.blocks:
            region.append(Block())
        for block in region.blocks:
            if not block.ops and spec.name in dialect.empty_bodies:
                continue
            if not block.ops or not block.ops[-1].spec.is_terminator:
                terminator = dialect.spec(spec.terminator)
                assert terminator is not None
                block.append(
                    Op(terminator, loc=self.loc(self.brace), segments=(0,) * len(terminator.operands) or None)
                )

    # ---- top level

    def definition(self) -> bool:
        """`#alias = attribute` or `!alias = type`; false when something else stands here."""
        mark, kind = self.start, self.kind
        name = self.step()[1:]
        if "." in name or not self.accept("="):
            self.seek(mark)
            return False
        before = self.weight
        if kind == "bang":
            self.type_aliases[name] = self.type()
        elif self.at("loc"):
            self.aliases[name] = self.location()
        else:
            self.aliases[name] = self.attribute()
        self.weights[("!" if kind == "bang" else "#") + name] = self.weight - before + 1
        return True

    def top(self, ends: bool = True) -> list[Op]:
        """All ops of the text."""
        block = Block()
        self.block = block
        while self.kind != "end":
            if self.kind == "bad":
                raise self.error(f"unexpected character {self.token!r}")
            if self.kind in ("hash", "bang") and self.definition():
                continue
            if self.at("{-#"):
                end = self.text.find("#-}", self.start + 3)
                if end < 0:
                    raise self.error("expected '#-}', but the input ends")
                self.seek(end + 3)
                continue
            self.one_op()
        for op, name, pos in self.late:
            found = self.aliases.get(name)
            for _ in range(len(self.aliases)):
                if not isinstance(found, str):
                    break
                found = self.aliases.get(found[1:])
            if not isinstance(found, Loc):
                raise self.error(f"operation location alias was never defined: '#{name}'", pos)
            op.loc = found
        return list(block.ops)


def kind_after(parser: Parser) -> str:
    """Kind of the token behind the next one."""
    match = TOKEN.match(parser.text, skip(parser.text, parser.end))
    return match.lastgroup or "" if match is not None else ""


def literal_tokens(text: str) -> list[str]:
    """Tokens of a template literal."""
    found = LITERALS.get(text)
    if found is None:
        found = [m.group() for m in TOKEN.finditer(text)]
        LITERALS[text] = found
    return found


__all__ = ["MAX_DEPTH", "Parser", "State", "plain_hints"]
