"""Ops -> text. NVIDIA's assembly form where the dialect has templates, MLIR's generic form on request.

Value names follow MLIR's rules: hints of the dialect made unique with one counter per scope, numbers for the
rest; a region is numbered before the regions inside of it. Layouts of a module are named in front of it, `#a = #linear<..>`.
"""

from __future__ import annotations

from tileiras.diag import UNKNOWN

from . import debug as D
from . import types as T
from .asm import ATTR, CLAUSE, CUSTOM, GROUP, LIT, OPERAND, REGISTRY, TYPES
from .core import Op
from .dense import splat_bits
from .floats import spell
from .spec import IMPLICIT_TERMINATOR, ISOLATED, SYMBOL_TABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.diag import Loc

    from .asm import Dialect
    from .core import Block, Region, Value

NEWEST = 99
PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$.")


def quote(text: str) -> str:
    """A string literal: printable ASCII as it is, the rest as two hex digits per UTF-8 byte."""
    out = []
    for byte in text.encode("utf-8", "surrogateescape"):
        c = chr(byte)
        out.append(c if 32 <= byte < 127 and c not in '"\\' else f"\\{byte:02X}")
    return '"' + "".join(out) + '"'


def symbol(name: str) -> str:
    """`@name`, quoted where needed."""
    if name and set(name) <= PLAIN and not name[0].isdigit() and name[0] not in "$.":
        return "@" + name
    return "@" + quote(name)


def key(name: str) -> str:
    return name if name and set(name) <= PLAIN and not name[0].isdigit() else quote(name)


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


class Printer:
    """One printing: names of values, options, output lines."""

    def __init__(
        self, *, generic: bool = False, debug: bool = False, minor: int = 0, aliases: bool = False
    ) -> None:
        self.layouts: dict[Any, str] | None = {} if aliases else None  # layout -> its name
        self.generic = generic
        self.minor = (
            minor  # of the file that the ops come from: names of its time; 0: names as they were spelled
        )
        self.debug = debug
        self.names: dict[Value, str] = {}
        self.lines: list[str] = []
        self.current: list[str] = []
        self.indent = 0
        self.locs: DebugNames | None = DebugNames() if debug else None

    # ---- names

    def number(self, root: Op) -> None:
        """Names every value under `root`, regions before the regions inside of them."""
        work: list[tuple[Region, int, int, int, Any]] = []
        for region in root.regions:
            work.append((region, 0, 0, 0, _Scope(None)))
        while work:
            region, values, arguments, conflicts, parent = work.pop()
            if region.op is not None and region.op.spec.traits & ISOLATED:
                values = arguments = conflicts = 0
            scope = _Scope(parent)
            counters = [values, arguments, conflicts]
            self.number_region(region, scope, counters)
            for block in region.blocks:
                for op in block.ops:
                    for inner in op.regions:
                        work.append((inner, counters[0], counters[1], counters[2], scope))

    def number_region(self, region: Region, scope: _Scope, counters: list[int]) -> None:
        names = self.names
        if region.op is not None and not self.generic:
            dialect = REGISTRY.get(region.op.spec.dialect)
            hints = dialect.arg_names(region) if dialect is not None and region.blocks else []
            for arg, hint in zip(region.blocks[0].args if region.blocks else (), hints):
                names[arg] = "%" + scope.unique(hint, counters)
        for i, block in enumerate(region.blocks):
            for arg in block.args:
                if arg in names:
                    continue
                if i == 0:
                    names[arg] = "%" + scope.unique(f"arg{counters[1]}", counters)
                    counters[1] += 1
                else:
                    names[arg] = f"%{counters[0]}"
                    counters[0] += 1
            for op in block.ops:
                if op.results:
                    self.number_results(op, scope, counters)

    def number_results(self, op: Op, scope: _Scope, counters: list[int]) -> None:
        names, results = self.names, op.results
        hints: list[str] = []
        if not self.generic:
            dialect = REGISTRY.get(op.spec.dialect)
            hints = dialect.result_names(op) if dialect is not None else []
        if len(hints) == len(results):
            for value, hint in zip(results, hints):
                names[value] = "%" + scope.unique(hint, counters)
            return
        if hints:
            base = "%" + scope.unique(hints[0], counters)
        else:
            base = f"%{counters[0]}"
            counters[0] += 1
        names[results[0]] = base
        if len(results) > 1:
            for i, value in enumerate(results):
                names[value] = f"{base}#{i}"

    def name(self, value: Value) -> str:
        return self.names.get(value, "<<unknown value>>")

    # ---- text

    def text(self) -> str:
        return "".join(line + "\n" for line in self.lines)

    def put(self, text: str) -> None:
        self.current.append(text)

    def newline(self) -> None:
        """Ends the line; the next one starts at the current depth."""
        self.lines.append("".join(self.current))
        self.current = ["  " * self.indent]

    def start(self) -> None:
        self.current = ["  " * self.indent]

    def op(self, op: Op) -> None:
        """Prints one op on its own line or lines; the current line holds only the indentation."""
        spec, results = op.spec, op.results
        loc = self.locs.use(op.loc) if self.locs is not None else ""
        if results:
            first = self.name(results[0])
            if len(results) > 1 and first.endswith("#0"):
                self.put(f"{first[:-2]}:{len(results)} = ")
            else:
                self.put(", ".join(map(self.name, results)) + " = ")
        dialect = REGISTRY.get(spec.dialect)
        steps = None
        if not self.generic and dialect is not None:
            steps = dialect.template(spec)
        if self.generic or dialect is None:
            self.generic_op(op)
        else:
            self.own_form(op, dialect, steps)
        if loc:
            self.put(f" loc({loc})")

    def spelling(self, op: Op, dialect: Dialect | None) -> str:
        """The op's full name."""
        older = dialect.older_names.get(op.spec.name) if self.minor and dialect is not None else None
        if older is None:
            return op.spec.full_name
        return f"{op.spec.dialect}.{older[0] if self.minor < older[1] else op.spec.name}"

    def own_form(self, op: Op, dialect: Dialect, steps: list[Any] | None) -> None:
        """The op's own form; an op too broken for it is shown in the generic form, so that it can be looked at."""
        spec = op.spec
        mark = len(self.lines), list(self.current), self.indent
        name = self.spelling(op, dialect)
        prefix = dialect.prints_prefix or spec.traits & SYMBOL_TABLE
        self.put(name if prefix else name.partition(".")[2])
        try:
            if steps is None:
                self.default_op(op)
            else:
                self.steps(op, dialect, steps)
        except (KeyError, AttributeError, IndexError, TypeError, ValueError):
            del self.lines[mark[0] :]
            self.current, self.indent = mark[1], mark[2]
            self.generic_op(op)

    def steps(self, op: Op, dialect: Dialect, steps: list[Any]) -> None:
        spec = op.spec
        for step in steps:
            kind = step[0]
            if kind == LIT:
                self.put(step[1])
            elif kind == OPERAND:
                self.put(", ".join(map(self.name, op.group(step[1]))))
            elif kind == TYPES:
                self.put(self.field_types(op, step[1]))
            elif kind == ATTR:
                self.put(self.attr_value(op.attr(step[1]), spec.attr_by_name[step[1]].kind))
            elif kind == CLAUSE:
                value = op.attr(step[1])
                if value != step[3]:
                    self.put(f"{step[2]}<{value}>")
            elif kind == GROUP:
                name = step[1]
                present = (
                    op.group(name) if name in spec.operand_index else op.attrs.get(name) not in (None, False)
                )
                if present:
                    self.steps(op, dialect, step[2])
            elif kind == CUSTOM:
                dialect.custom[step[1]][0](self, op)

    def field_types(self, op: Op, name: str) -> str:
        if name in op.spec.operand_index:
            return ", ".join(str(v.type) for v in op.group(name))
        results = op.spec.results
        for i, result in enumerate(results):
            if result.name == name:
                if result.mode == 0:
                    return str(op.results[i].type)
                stop = len(op.results) - (len(results) - i - 1)
                return ", ".join(str(v.type) for v in op.results[i:stop])
        raise KeyError(name)

    def region(self, region: Region, *, args: bool = False, hide_terminator: bool = False) -> None:
        """`{`, the ops, `}`; the caller goes on behind the brace."""
        self.put("{")
        if not region.blocks:
            self.newline()
            self.put("}")
            return
        for i, block in enumerate(region.blocks):
            self.newline()
            if i or args:
                self.label(block, i)
            self.block(block, hide_terminator)
        self.put("}")

    def label(self, block: Block, index: int) -> None:
        listed = ", ".join(f"{self.name(a)}: {self.type(a.type)}" for a in block.args)
        self.put(f"^bb{index}" + (f"({listed})" if listed else "") + ":")
        self.newline()

    def block(self, block: Block, hide_terminator: bool) -> None:
        ops = block.ops
        if hide_terminator and ops:
            last = ops[-1]
            if last.spec.is_terminator and not last.operands and block.region is not None:
                owner = block.region.op
                if owner is not None and last.spec.name == owner.spec.terminator:
                    ops = ops[:-1]
        self.indent += 1
        for op in ops:
            self.start()
            self.op(op)
            self.newline()
        self.indent -= 1
        self.start()

    def layout(self, layout: Any) -> str:
        """A layout, by its name where layouts have names: #a to #z, then #a1."""
        if self.layouts is None:
            return str(layout)
        name = self.layouts.get(layout)
        if name is None:
            turn, letter = divmod(len(self.layouts), 26)
            name = self.layouts[layout] = f"#{chr(ord('a') + letter)}{turn or ''}"
        return name

    def definitions(self) -> str:
        """The names of layouts, a line each."""
        return "".join(f"{name} = {layout}\n" for layout, name in (self.layouts or {}).items())

    def type(self, type: Any) -> str:
        """A type where the dialect prefix is needed: generic form and default form."""
        if isinstance(type, T.TensorType) and type.layout is not None:
            return T.tensor_text(type, self.layout(type.layout))
        if isinstance(type, (T.Scalar, T.TensorType)):
            return str(type)
        if isinstance(type, T.FunctionType):
            return f"({', '.join(map(self.type, type.params))}) -> {self.result_list(type.results)}"
        text = str(type)
        return text if text.startswith("!") else f"!{getattr(type, 'DIALECT', 'cuda_tile')}.{text}"

    def result_list(self, types: Any) -> str:
        texts = [self.type(t) for t in types]
        return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"

    def generic_op(self, op: Op) -> None:
        attrs = dict(op.attrs)
        spec = op.spec
        for name, default in spec.defaults.items():
            attrs.setdefault(name, default)
        parts = [self.named_attr(op, n, v) for n, v in sorted(attrs.items()) if self.is_set(op, n, v)]
        if op.segments is not None and len(op.segments) > 1:
            parts.append(f"operandSegmentSizes = array<i32: {', '.join(map(str, op.segments))}>")
        name = self.spelling(op, REGISTRY.get(spec.dialect))
        self.put(f'"{name}"({", ".join(map(self.name, op.operands))})')
        if parts:
            self.put(f" <{{{', '.join(parts)}}}>")
        if op.regions:
            self.put(" (")
            for i, region in enumerate(op.regions):
                if i:
                    self.put(", ")
                self.region(region, args=bool(region.blocks and region.blocks[0].args))
            self.put(")")
        types = ", ".join(self.type(v.type) for v in op.operands)
        self.put(f" : ({types}) -> {self.result_list([r.type for r in op.results])}")

    def default_op(self, op: Op) -> None:
        """The form of ops without a template."""
        if op.operands:
            self.put(" " + ", ".join(map(self.name, op.operands)))
        parts = [self.named_attr(op, n, v) for n, v in op.attrs.items() if self.is_set(op, n, v)]
        if op.segments is not None and len(op.segments) > 1:
            parts.append(f"operandSegmentSizes = array<i32: {', '.join(map(str, op.segments))}>")
        if parts:
            self.put(f" {{{', '.join(parts)}}}")
        # An op with nothing at all says so: else the next line would be read as its operands.
        if op.operands or op.results or not (parts or op.regions or op.spec.is_terminator):
            self.put(" : " + (", ".join(self.type(v.type) for v in op.operands) or "()"))
        if op.results:
            self.put(" -> " + ", ".join(self.type(r.type) for r in op.results))
        for region in op.regions:
            self.put(" ")
            self.region(region, args=bool(region.blocks and region.blocks[0].args))

    def is_set(self, op: Op, name: str, value: Any) -> bool:
        if name == "bytecode_version":  # of the file that was read; text has none
            return False
        attr = op.spec.attr_by_name.get(name)
        return value is not None and (value is not False or (attr is not None and attr.kind != "unit"))

    def named_attr(self, op: Op, name: str, value: Any) -> str:
        attr = op.spec.attr_by_name.get(name)
        if value is True and (attr is None or attr.kind == "unit"):
            return key(name)
        if name == "sym_name" and isinstance(value, str):  # a definition is a string, a reference a symbol
            return f"{key(name)} = {quote(value)}"
        if attr is not None and attr.kind == "enum" and op.spec.dialect == "cuda_tile":
            return f"{key(name)} = #cuda_tile<{name} {value}>"
        if attr is None and type(value) is int:
            return f"{key(name)} = {value} : {'i32' if -(1 << 31) <= value < 1 << 31 else 'i64'}"
        if attr is None and isinstance(value, tuple) and value and all(type(v) is int for v in value):
            return f"{key(name)} = array<i32: {', '.join(map(str, value))}>"
        return f"{key(name)} = {self.attr_value(value, attr.kind if attr is not None else '', typed=True)}"

    def attr_value(self, value: Any, kind: str = "", *, typed: bool = False) -> str:
        """An attribute as text. `typed` adds what a reader without the spec needs."""
        if value is True or value is False:
            return "true" if value else "false"
        if isinstance(value, int):
            return f"{value} : {kind}" if typed and kind in ("i32", "i64") else str(value)
        if isinstance(value, str):
            if kind == "symbol":
                return symbol(value)
            return value if kind == "enum" else quote(value)
        if isinstance(value, T.Type) and not hasattr(type(value), "IS_ATTR"):
            return self.attribute(value, typed)
        if isinstance(value, tuple):
            if typed and kind in ("i32s", "bools"):
                inner = ", ".join(self.attr_value(v) for v in value)
                head = "i32" if kind == "i32s" else "i1"
                return f"array<{head}: {inner}>" if inner else f"array<{head}>"
            return "[" + ", ".join(self.attr_value(v, typed=typed) for v in value) + "]"
        if hasattr(value, "entries"):  # a record: printed as a dictionary
            value = value.entries()
        if isinstance(value, dict):
            return "{" + ", ".join(self.dict_entry(k, v, typed) for k, v in sorted(value.items())) + "}"
        text = str(value)
        return self.layout(value) if self.layouts is not None and text.startswith("#linear<") else text

    def dict_entry(self, name: str, value: Any, typed: bool) -> str:
        return f"{key(name)} = {self.attr_value(value, typed=typed)}"

    def attribute(self, value: Any, typed: bool) -> str:
        kind = type(value)
        if kind is T.IntegerAttr:
            if value.type is T.I1:
                return "true" if value.value else "false"
            text = str(signed(value.value, value.type.bits))
            return text if value.type is T.I64 and not typed else f"{text} : {value.type}"
        if kind is T.FloatAttr:
            text = spell(value.bits, value.type)
            return text if value.type is T.F64 and not text.startswith("0x") else f"{text} : {value.type}"
        if kind is T.Dense:
            return f"dense<{_elements(value)}> : {self.type(value.type)}"
        if kind in (T.DivBy, T.SameElements, T.Bounded):
            return f"#cuda_tile.{value}" if typed else str(value)
        return self.type(value) if typed or kind is T.TensorType else str(value)


def _elements(dense: Any) -> str:
    """`1`, `-0.5` or `true` where all elements are equal, else their bytes."""
    elem = dense.type.elem
    bits = splat_bits(dense) if isinstance(elem, T.Scalar) else None
    if bits is None:
        return f'"0x{dense.data.hex().upper()}"'
    if elem is T.I1:
        return "true" if bits else "false"
    return spell(bits, elem) if elem.is_float else str(signed(bits, elem.bits))


class _Scope:
    """Names in use in a region and the ones around it."""

    __slots__ = ("parent", "used")

    def __init__(self, parent: _Scope | None) -> None:
        self.parent = parent
        self.used: set[str] = set()

    def has(self, name: str) -> bool:
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.used:
                return True
            scope = scope.parent
        return False

    def unique(self, hint: str, counters: list[int]) -> str:
        name = hint
        if self.has(name):
            while True:
                name = f"{hint}_{counters[2]}"
                counters[2] += 1
                if not self.has(name):
                    break
        self.used.add(name)
        return name


class DebugNames:
    """Aliases of locations and debug records, defined after the ops as NVIDIA's disassembler does.

    Every location and record has an alias. Definitions are sorted by nesting depth, then by name, then by the
    order in which a walk meets them (a parent before its parts): MLIR's order.
    """

    def __init__(self) -> None:
        self.uses: list[Any] = []
        self.known: dict[Any, int] = {}

    def use(self, loc: Loc) -> str:
        """A placeholder for the alias of a location; `finish` puts the name in."""
        node = self.node(loc, loc.callers)
        index = self.known.setdefault(node, len(self.uses))
        if index == len(self.uses):
            self.uses.append(node)
        return f"\0{index}\0"

    def node(self, loc: Loc, callers: tuple[Loc, ...]) -> Any:
        """A location as nested tuples: comparable, and the same for equal locations."""
        own: Any = ("loc", loc.file, loc.line, loc.col) if loc.file else ("loc",)
        if isinstance(loc, D.WrappedLoc):
            head = quote(loc.name) if loc.kind == "NameLoc" else "fused"
            if loc.metadata is not None:
                head += f"<{Printer().attr_value(loc.metadata, typed=True)}>"
            own = ("wrapped", head, *(self.node(part, part.callers) for part in loc.parts))
        elif loc.scope is not None:
            own = ("di_loc", own, loc.scope)
        if callers:
            return ("callsite", own, self.node(callers[0], callers[1:]))
        return own

    def finish(self, text: str) -> str:
        """The text with names in place, and the definitions behind it."""
        depths: dict[Any, int] = {}
        for node in self.uses:
            self.visit(node, depths)
        stems = {node: node_stem(node) for node in depths}
        names: dict[Any, str] = {}
        counts: dict[str, int] = {}
        ordered = sorted(depths, key=lambda node: (depths[node], stems[node]))
        for node in ordered:
            stem = stems[node]
            n = counts.get(stem, 0)
            counts[stem] = n + 1
            names[node] = f"#{stem}{n or ''}"
        parts = text.split("\0")  # every other part is the number of a use
        for i in range(1, len(parts), 2):
            parts[i] = names[self.uses[int(parts[i])]]
        return "".join(parts) + "".join(f"{names[node]} = {node_text(node, names)}\n" for node in ordered)

    def visit(self, node: Any, depths: dict[Any, int]) -> int:
        if node in depths:
            return depths[node]
        depths[node] = 0
        parts = node_parts(node)
        depths[node] = 1 + max(self.visit(p, depths) for p in parts) if parts else 0
        return depths[node]


def node_stem(node: Any) -> str:
    return "loc" if isinstance(node, tuple) else DEBUG_STEMS[type(node)]


def node_parts(node: Any) -> tuple[Any, ...]:
    """What a location or record refers to, in printing order."""
    if isinstance(node, tuple):
        return () if node[0] == "loc" else node[2:] if node[0] == "wrapped" else node[1:]
    fields = [getattr(node, name) for name in ("scope", "file", "compile_unit") if hasattr(node, name)]
    return tuple(f for f in fields if type(f) in DEBUG_STEMS)


def node_text(node: Any, names: dict[Any, str]) -> str:
    if isinstance(node, tuple):
        if node[0] == "di_loc":
            return f"#cuda_tile.di_loc<{names[node[1]]} in {names[node[2]]}>"
        if node[0] == "callsite":
            return f"loc(callsite({names[node[1]]} at {names[node[2]]}))"
        if node[0] == "wrapped":
            parts = ", ".join(names[part] for part in node[2:])
            if node[1].startswith("fused"):
                return f"loc({node[1]}[{parts}])"
            return f"loc({node[1]}({parts}))" if node[2] != ("loc",) else f"loc({node[1]})"
        return f"loc({quote(node[1])}:{node[2]}:{node[3]})" if len(node) > 1 else "loc(unknown)"
    if isinstance(node, D.DIFile):
        return f"#cuda_tile.di_file<{quote(node.name)} in {quote(node.directory)}>"
    if isinstance(node, D.DICompileUnit):
        return f"#cuda_tile.di_compile_unit<file = {names.get(node.file, '#none')}>"
    if isinstance(node, D.DILexicalBlock):
        scope, file = names.get(node.scope, "#none"), names.get(node.file, "#none")
        return f"#cuda_tile.di_lexical_block<scope = {scope}, file = {file}, line = {node.line}, column = {node.column}>"
    flags = f", flags = {node.flags}" if node.flags else ""
    return (
        f"#cuda_tile.di_subprogram<file = {names.get(node.file, '#none')}, line = {node.line}, "
        f"name = {quote(node.name)}, linkageName = {quote(node.linkage_name)}, "
        f"compileUnit = {names.get(node.compile_unit, '#none')}, scopeLine = {node.scope_line}{flags}>"
    )


DEBUG_STEMS = {
    D.DIFile: "di_file",
    D.DICompileUnit: "di_compile_unit",
    D.DILexicalBlock: "di_lexical_block",
    D.DISubprogram: "di_subprogram",
}


def print_op(op: Op, *, generic: bool = False, debug: bool = False) -> str:
    """Text of an op and everything in it, ending with a newline."""
    version = op.attrs.get("bytecode_version")
    printer = Printer(
        generic=generic,
        debug=debug,
        minor=version[1] if isinstance(version, tuple) else 0,
        aliases=bool(op.spec.traits & SYMBOL_TABLE),
    )
    printer.number(op)
    for value in op.operands:  # a lone op: its operands come from outside
        printer.names.setdefault(value, f"%{value.name or f'arg{value.index}'}")
    if op.results and op.results[0] not in printer.names:
        printer.number_results(op, _Scope(None), [0, 0, 0])
    printer.start()
    printer.op(op)
    printer.newline()
    text = printer.text()
    return printer.definitions() + (printer.locs.finish(text) if printer.locs is not None else text)


def print_body(module: Op, *, debug: bool = False) -> str:
    """Only the ops inside a module, as NVIDIA's disassembler prints them: by the newest names."""
    printer = Printer(debug=debug, minor=NEWEST)
    printer.number(module)
    for region in module.regions:
        for block in region.blocks:
            for op in block.ops:
                printer.start()
                printer.op(op)
                printer.newline()
    text = printer.text()
    return printer.locs.finish(text) if printer.locs is not None else text


__all__ = ["IMPLICIT_TERMINATOR", "UNKNOWN", "Printer", "print_body", "print_op", "quote", "symbol"]
