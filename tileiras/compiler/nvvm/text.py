"""Text of per-thread code: one record a line, so that passes and verifiers of this tier can be tested alone.

    nvvm.module sm_90 {
      var global @table align 16 size 8 = "0001020304050607"
      func @k(u64 "ptr<f32>", u32 "i32") block 128, 1, 1 attributes {nvvm.kernel, nvvm.maxnreg = 64} {
        %d1 = ld.param.u64 [k_param_0]
        {%r1, %r2} = ld.global.v2.b32 [%d1+8]
        @!%p1 bra $L1
        bar.sync 0
      $L1:
        launch child, %d1
        ret
      }
    }

`shared N`, `local N` and `dynamic N` (bytes), `cluster x, y, z`, `vprintf` and `assertfail` stand behind `block` where
they are not zero; `device` marks a function that no launch names.
"""

from __future__ import annotations

import json
import re

from .code import Addr, Float, Function, Label, Module, Reg, Sym, TensorAddr, Var

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MAX_DIGITS = 20
MAX_DEPTH = 8  # of operands: a vector of addresses is two
TRIPLES = frozenset(("nvvm.cluster_dim", "nvvm.reqntid"))
FLAGS = frozenset(("nvvm.kernel", "nvvm.blocksareclusters"))
COUNTS = frozenset(("nvvm.maxnreg", "nvvm.minctasm", "nvvm.maxclusterrank", "nvvm.tile_ctas"))
BLANKS = re.compile(r"\s*")
TOKEN = re.compile(
    r"""\s*(?:(?P<string>"[^"\\]*(?:\\.[^"\\]*)*")|(?P<reg>%[phrd][0-9]+(?![\w.]))|(?P<float>0f[0-9A-Fa-f]{8}|0d[0-9A-Fa-f]{16})
    |(?P<int>-?[0-9]+)|(?P<label>\$L[0-9]+)|(?P<name>[@%]?[A-Za-z_$][\w.$:]*)|(?P<punct>[\[\]{}(),=+!@:-]))""",
    re.VERBOSE,
)


# ---- printing


def print_module(module: Module) -> str:
    """The text of a module, ending with a newline."""
    out = [f"nvvm.module {module.target.name} {{"]
    out += [f"  {spell_var(var)}" for var in module.variables]
    for fn in module.functions:
        out += print_function(fn)
    return "\n".join([*out, "}", ""])


def print_function(fn: Function) -> list[str]:
    params = ", ".join(f"{ptx} {json.dumps(type)}" for (ptx, _), type in zip(fn.params, fn.param_types))
    head = f"  func @{fn.name}({params}) block {fn.block[0]}, {fn.block[1]}, {fn.block[2]}"
    if tuple(fn.cluster) != (1, 1, 1):
        head += " cluster {}, {}, {}".format(*fn.cluster)
    for word, count in (
        ("shared", fn.shared_bytes),
        ("local", fn.local_bytes),
        ("dynamic", fn.dynamic_shared_bytes),
    ):
        if count:
            head += f" {word} {count}"
    for word, flag in (
        ("vprintf", fn.needs_vprintf),
        ("assertfail", fn.needs_assertfail),
        ("device", not fn.is_entry),
    ):
        if flag:
            head += f" {word}"
    head += "".join(f" map {json.dumps(json.dumps(each.as_dict()))}" for each in fn.tensor_maps)
    if fn.attrs:
        head += f" attributes {{{', '.join(spell_attr(n, v) for n, v in sorted(fn.attrs.items()))}}}"
    out = [head + " {"]
    out += [f"    {spell_var(var)}" for var in fn.variables]
    out += [f"  {spell(r)}:" if r.__class__ is Label else f"    {spell_record(r)}" for r in fn.code]
    return [*out, "  }"]


def spell_attr(name: str, value: Any) -> str:
    if value is True:
        return name
    if isinstance(value, tuple):
        return f"{name} = [{', '.join(map(str, value))}]"
    return f"{name} = {json.dumps(value)}"


def spell_var(var: Var) -> str:
    text = f"var {var.space} @{var.name} align {var.align} size {var.size_bytes}" + (
        " visible" if var.visible else ""
    )
    return text if var.data is None else f'{text} = "{var.data.hex()}"'


def spell_record(record: Any) -> str:
    opcode, dst, srcs, guard = record
    head = ""
    if guard is not None:
        negated = guard.__class__ is tuple and guard[1]
        head = f"@{'!' if negated else ''}{spell(guard[0] if guard.__class__ is tuple else guard)} "
    if dst is not None:
        head += f"{spell(dst)} = "
    return f"{head}{opcode} {', '.join(map(spell, srcs))}".rstrip()


def spell(x: Any) -> str:
    kind = x.__class__
    if kind is tuple:
        return "{" + ", ".join(map(spell, x)) + "}"
    if kind is Label:
        return f"$L{x.id}"
    if kind is str:
        return json.dumps(x)
    return str(int(x)) if kind is bool else repr(x)


# ---- parsing


class TextError(Exception):
    """Text that means nothing: where (character offset) and why."""

    def __init__(self, pos: int, text: str) -> None:
        super().__init__(text)
        self.pos = pos
        self.text = text


class Reader:
    def __init__(self, text: str, pos: int) -> None:
        self.text = text
        self.pos = pos
        self.kind = self.token = ""
        self.start = self.last = pos
        self.seek(pos)

    def seek(self, pos: int) -> None:
        while True:
            pos = BLANKS.match(self.text, pos).end()  # type: ignore[union-attr]
            if not self.text.startswith("//", pos):
                break
            end = self.text.find("\n", pos)
            pos = len(self.text) if end < 0 else end
        match = TOKEN.match(self.text, pos)
        self.start = pos
        self.kind, self.token, self.pos = "end", "", pos
        if match is not None:
            self.kind, self.token, self.pos = match.lastgroup or "", match.group().strip(), match.end()
            if self.kind in ("int", "reg", "label") and len(self.token) > MAX_DIGITS:
                raise TextError(pos, f"{self.token[:8]}... has too many digits")
        elif pos < len(self.text):
            raise TextError(pos, f"unexpected character {self.text[pos]!r}")

    def step(self) -> str:
        token = self.token
        self.last = self.pos
        self.seek(self.pos)
        return token

    def same_line(self) -> bool:
        """Whether the next token stands on the line of the one before."""
        return self.kind != "end" and self.text.find("\n", self.last, self.start) < 0

    def shown(self) -> str:
        return self.token if len(self.token) <= 80 else f"{self.token[:64]}..."

    def accept(self, token: str) -> bool:
        if self.token == token and self.kind != "string":
            self.step()
            return True
        return False

    def expect(self, token: str) -> None:
        if not self.accept(token):
            raise TextError(self.start, f"expected '{token}', but got '{self.shown()}'")

    def of(self, kind: str, what: str) -> str:
        if self.kind != kind:
            raise TextError(self.start, f"expected {what}, but got '{self.shown()}'")
        return self.step()

    def number(self) -> int:
        return int(self.of("int", "a number"))

    def count(self, least: int = 0) -> int:
        """A number of bytes, threads or blocks."""
        at, found = self.start, self.number()
        if found < least:
            raise TextError(at, f"expected a number from {least} on, but got {found}")
        return found

    def string(self, what: str) -> str:
        at, token = self.start, self.of("string", what)
        try:
            return str(json.loads(token))
        except ValueError:
            raise TextError(at, f"malformed string {token[:40]}") from None

    def symbol(self) -> str:
        name = self.of("name", "a symbol")
        if not name.startswith("@"):
            raise TextError(self.start, f"expected a symbol, but got '{name}'")
        return name[1:]


def parse_module(text: str, pos: int, find_target: Callable[[str], Any]) -> tuple[Module, int]:
    """(module, offset behind it); `pos` is behind the words `nvvm.module`. Errors: TextError."""
    r = Reader(text, pos)
    name = r.of("name", "a target")
    target = find_target(name)
    if target is None:
        raise TextError(pos, f"unknown target '{name}'")
    module = Module(target)
    r.expect("{")
    while not r.token == "}":
        if r.accept("var"):
            module.variables.append(parse_var(r))
        elif r.accept("func"):
            module.functions.append(parse_function(r))
        else:
            raise TextError(r.start, f"expected func, var or '}}', but got '{r.shown()}'")
    return module, r.pos


def parse_var(r: Reader) -> Var:
    space, name = r.of("name", "a state space"), r.symbol()
    r.expect("align")
    at, align = r.start, r.count(1)
    if align & (align - 1):
        raise TextError(at, f"expected a power of two, but got {align}")
    r.expect("size")
    size = r.count()
    visible = r.accept("visible")
    data = parse_bytes(r) if r.accept("=") else None
    return Var(name, space, size, align, data, visible)


def parse_bytes(r: Reader) -> bytes:
    at, text = r.start, r.string("hexadecimal bytes")
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise TextError(at, "expected an even number of hexadecimal digits") from None


def parse_function(r: Reader) -> Function:
    from .sizer import describe, size_of

    at = r.start
    fn = Function(r.symbol())
    fn.loc = at  # offset; the dialect makes a location of it
    r.expect("(")
    while not r.accept(")"):
        ptx = r.of("name", "a PTX type")
        at = r.start
        type = r.string("a parameter type")
        try:
            fn.params.append((ptx, size_of(describe(type))))
        except ValueError as error:
            raise TextError(at, str(error)) from None
        fn.param_types.append(type)
        if not r.accept(","):
            r.expect(")")
            break
    while not r.accept("{"):
        at = r.start
        word = r.of("name", "a property of the function")
        if word in ("block", "cluster"):
            x = r.count(1)
            r.expect(",")
            y = r.count(1)
            r.expect(",")
            setattr(fn, word, (x, y, r.count(1)))
        elif word in ("shared", "local", "dynamic"):
            setattr(fn, {"dynamic": "dynamic_shared_bytes"}.get(word, word + "_bytes"), r.count())
        elif word == "map":
            fn.tensor_maps.append(parse_map(r))
        elif word == "attributes":
            fn.attrs = parse_attrs(r)
        elif word in ("vprintf", "assertfail"):
            setattr(fn, "needs_" + word, True)
        elif word == "device":
            fn.is_entry = False
        else:
            raise TextError(at, f"unknown property '{word}' of a function")
    while not r.accept("}"):
        if r.accept("var"):
            fn.variables.append(parse_var(r))
        elif r.kind == "label":
            fn.code.append(Label(int(r.step()[2:])))
            r.expect(":")
        else:
            fn.code.append(parse_record(r))
    count_registers(fn)
    return fn


def parse_map(r: Reader) -> Any:
    """A tensor map: the row of a kernel table as a string."""
    from tileiras.compiler.target.tensor_maps import from_dict

    at = r.start
    text = r.string("a tensor map")
    try:
        return from_dict(json.loads(text))
    except ValueError as error:
        raise TextError(at, str(error)) from None


def parse_attrs(r: Reader) -> dict[str, Any]:
    found: dict[str, Any] = {}
    r.expect("{")
    while not r.accept("}"):
        at = r.start
        name = r.of("name", "an attribute name")
        value: Any = True
        if r.accept("="):
            if r.accept("["):
                items = []
                while not r.accept("]"):
                    items.append(r.number())
                    r.accept(",")
                value = tuple(items)
            else:
                value = r.string("a value") if r.kind == "string" else r.number()
        want = (
            "a flag" if name in FLAGS and value is not True
            else "three numbers" if name in TRIPLES and not (isinstance(value, tuple) and len(value) == 3)
            else "a number" if name in COUNTS and type(value) is not int
            else ""
        )  # fmt: skip
        if want:
            raise TextError(at, f"attribute '{name}' must be {want}")
        found[name] = value
        r.accept(",")
    return found


def parse_record(r: Reader) -> Any:
    guard: Any = None
    if r.accept("@"):
        negated = r.accept("!")
        reg = parse_reg(r.of("reg", "a predicate"))
        guard = (reg, True) if negated else reg
    dst: Any = None
    if r.kind == "reg" or r.token in ("{", "_"):
        dst = parse_operand(r)
        r.expect("=")
    at = r.start
    opcode = r.of("name", "an instruction")
    srcs: list[Any] = []
    while r.same_line() and r.token != "}":
        srcs.append(parse_operand(r))
        if not r.accept(","):
            break
    if opcode == "launch" and (not srcs or srcs[0].__class__ is not Sym):
        raise TextError(at, "launch needs a function")
    return (opcode, dst, tuple(srcs), guard)


def parse_reg(token: str) -> Reg:
    return Reg(token[1], int(token[2:]))


def parse_operand(r: Reader, depth: int = 0) -> Any:
    kind, at = r.kind, r.start
    if depth > MAX_DEPTH:
        raise TextError(at, f"operands nest deeper than {MAX_DEPTH} levels")
    if kind == "reg":
        return parse_reg(r.step())
    if kind == "int":
        return int(r.step())
    if kind == "float":
        token = r.step()
        return Float("r" if token[1] == "f" else "d", int(token[2:], 16))
    if kind == "label":
        return Label(int(r.step()[2:]))
    if kind == "string":
        return r.string("a string")
    if kind == "name":
        return Sym(r.step())
    if r.accept("{"):
        items = []
        while not r.accept("}"):
            items.append(parse_operand(r, depth + 1))
            r.accept(",")
        return tuple(items)
    if r.accept("["):
        base = parse_operand(r, depth + 1)
        offset = 0
        if r.accept(","):
            coords = parse_operand(r, depth + 1)
            r.expect("]")
            return TensorAddr(base, coords if coords.__class__ is tuple else (coords,))
        if r.accept("+"):
            offset = r.number()
        elif r.kind == "int":
            offset = r.number()
        r.expect("]")
        return Addr(base, offset)
    raise TextError(at, f"expected an operand, but got '{r.shown()}'")


def count_registers(fn: Function) -> None:
    """Register counts of parsed code: the largest number of each class."""

    def visit(x: Any) -> None:
        if x.__class__ is Reg:
            fn.counts[x.cls] = max(fn.counts[x.cls], x.id)
        elif x.__class__ is tuple:
            for item in x:
                visit(item)
        elif x.__class__ is Addr:
            visit(x.base)
        elif x.__class__ is TensorAddr:
            visit((x.base, x.coords))

    for record in fn.code:
        if record.__class__ is tuple:
            visit(record[1:])
