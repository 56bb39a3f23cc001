"""PTX text to `syntax.Module`: the whole directive syntax, registers in nested scopes, instructions and their operands.

The parser is permissive where PTX leaves choices to the assembler (unknown performance directives are kept by name)
and strict where a silent misreading would change meaning: an unknown name or a stray token is an error with its line.
"""

from __future__ import annotations

import re
import struct

from .parse_words import Bits, Words
from .syntax import WIDTH_BITS, EmulatorError, Func, Inst, Module, Reg, Var

_SPACES = {".reg", ".local", ".shared", ".param", ".global", ".const", ".tex"}
_SREG = re.compile(
    r"%(?:tid|ntid|ctaid|nctaid|clusterid|nclusterid|cluster_ctaid|cluster_nctaid)(?:\.[xyzw])?$|"
    r"%(?:laneid|warpid|nwarpid|smid|nsmid|gridid|is_explicit_cluster|cluster_ctarank|cluster_nctarank|"
    r"lanemask_(?:eq|le|lt|ge|gt)|clock|clock_hi|clock64|pm\d+(?:_64)?|globaltimer|globaltimer_lo|"
    r"globaltimer_hi|envreg\d+|reserved_smem_offset_\w+|total_smem_size|dynamic_smem_size|"
    r"aggr_smem_size|current_graph_exec)$|WARP_SZ$"
)


# One whole instruction of the common kind; whatever it does not match goes through the token parser.
_FAST = re.compile(r"\s*(?:@(!?)([%\w$]+)\s+)?([a-z]\w*(?:(?:\.|::)\w+)*)(?:\s+([^;/()\"]*))?;")
_SPLIT = re.compile(r"\{[^{}]*\}|\[[^\[\]]*\]|[^,{}\[\]]+")
_SIMPLE_ADDRESS = re.compile(r"\[\s*([%\w$]+)\s*(?:\+\s*(-?[1-9]\d*|0))?\s*\]$")
_MOST_NAMES = 1 << 20  # that one declaration makes
_SIMPLE_INT = re.compile(r"-?(?:[1-9]\d*|0)$")


class Parser(Words):
    """Recursive descent over the token list; `module()` is the entry point."""

    def __init__(self, source: str) -> None:
        super().__init__(source)
        self.module_ = Module(source)
        self.func = Func("", False, 0)  # the function being read
        self.scopes: list[dict] = []
        self.path: tuple[int, ...] = ()  # the nested blocks we are in: labels are local to them
        self.blocks_seen = 0

    # module level
    def module(self) -> Module:
        mod = self.module_
        while self.tokens[self.at].kind != "end":
            tok = self.next()
            word = tok.text
            if word == ".version":
                tok = self.next()
                major, _, minor = tok.text.partition(".")
                if not major.isdecimal() or not (minor or "0").isdecimal():
                    self.fail(f"{tok.text!r} is no version", tok)
                mod.version = (int(major), int(minor or 0))
            elif word == ".target":
                mod.target = self.next().text
                while self.accept(","):
                    self.next()
            elif word == ".address_size":
                mod.address_size = self.integer()
            elif word in (".visible", ".weak", ".common", ".noreturn"):
                continue
            elif word == ".extern":
                self.declaration(extern=True)
            elif word in (".entry", ".func"):
                self.function(word == ".entry", tok.line)
            elif word in _SPACES:
                self.at -= 1
                self.declaration(extern=False)
            elif word == ".file":
                while self.tokens[self.at].line == tok.line and self.tokens[self.at].kind != "end":
                    self.at += 1
            elif word == ".section":
                self.skip_section()
            elif word == ".alias":
                name = self.next().text
                self.expect(",")
                target = self.next().text
                self.accept(";")
                mod.funcs[name] = mod.funcs[target]
            elif word == ".pragma":
                while not self.accept(";"):
                    self.next()
            elif word == ";":
                continue
            else:
                self.fail(f"unexpected {word!r} at module level", tok)
        return mod

    def skip_section(self) -> None:
        while self.peek() != "{":
            self.next()
        depth = 0
        while True:
            text = self.next().text
            depth += (text == "{") - (text == "}")
            if depth == 0:
                return

    def declaration(self, extern: bool) -> None:
        while self.peek() in (".visible", ".weak", ".common", ".noreturn"):
            self.next()
        if self.peek() in (".entry", ".func"):
            tok = self.next()
            self.function(tok.text == ".entry", tok.line)
            return
        for var in self.variables(extern):
            known = self.module_.vars.get(var.name)
            if known is None or (known.extern and not var.extern):
                self.module_.vars[var.name] = var

    def function(self, is_entry: bool, line: int) -> None:
        self.func = func = Func("", is_entry, line)  # registers may be declared in the parameter lists
        self.scopes, self.path = [{}], ()
        if not is_entry and self.peek() == "(":
            func.returns = self.param_list()
        func.name = self.next().text
        if self.peek() == "(":
            func.params = self.param_list()
        while self.peek() not in ("{", ";"):
            tok = self.next()
            name = tok.text
            values: list[int | str] = []
            while self.tokens[self.at].text not in ("{", ";") and not self.tokens[self.at].text.startswith(
                "."
            ):
                t = self.next()
                if t.kind == "int":
                    values.append(int(t.text.rstrip("U"), 0))
                elif t.text != ",":
                    values.append(t.text)
            func.directives[name] = values
        if self.accept(";"):
            func.is_declaration = True
            self.module_.funcs.setdefault(func.name, func)
            return
        self.expect("{")
        self.scopes[0].update({p.name: p for p in (*func.params, *func.returns)})
        self.body()
        self.module_.funcs[func.name] = func

    def param_list(self) -> list[Var]:
        self.expect("(")
        out: list[Var] = []
        while not self.accept(")"):
            out += self.variables(False, in_params=True)
            self.accept(",")
        return out

    # variables
    def variables(self, extern: bool, in_params: bool = False) -> list:
        """One declaration statement: `.space .align n .vN .type name<count>[d0][d1] = init, ...;`"""
        space = self.next().text[1:]
        align, vector, type_ = 0, 1, ""
        pointee = False  # behind .ptr, .align is that of the memory pointed to
        while self.tokens[self.at].text.startswith("."):
            word = self.next().text[1:]
            if word == "align":
                value = self.integer(1 << 20)
                align = align if pointee else value
            elif word in ("v2", "v4", "v8"):
                vector = int(word[1:])
            elif word in WIDTH_BITS:
                type_ = word
            elif word == "ptr":
                pointee = True
                while self.peek() in (".global", ".const", ".shared", ".local", ".param", ".generic"):
                    self.next()
            elif word == "attribute":
                self.expect("(")
                while not self.accept(")"):
                    self.next()
            elif word.partition("::")[0] in ("shared", "param"):
                continue
            else:
                self.fail(f"unknown type .{word}", self.tokens[self.at - 1])
        if not type_:
            self.fail("a declaration needs a type")
        if self.peek() == "ptr":
            self.next()
        out = []
        while True:
            out += self.declarator(space, type_, align, vector, extern)
            if in_params or not self.accept(","):
                break
        if not in_params:
            self.expect(";")
        return out

    def declarator(self, space: str, type_: str, align: int, vector: int, extern: bool) -> list:
        tok = self.next()
        name = tok.text
        names = [name]
        if self.accept("<"):
            names = [f"{name}{i}" for i in range(self.integer(_MOST_NAMES))]
            self.expect(">")
        elem = max(1, WIDTH_BITS[type_] // 8) * vector
        dims: list[int] = []
        while self.accept("["):
            dims.append(0 if self.peek() == "]" else self.whole(self.const_expr()))
            self.expect("]")
        if space == "reg":
            regs: list[Reg] = []
            for n in names:
                for suffix in ("",) if vector == 1 else (".x", ".y", ".z", ".w")[:vector]:
                    regs.append(self.new_reg(n + suffix, type_))
                if vector > 1:
                    self.scopes[-1][n] = ("vec", [("reg", r) for r in regs[-vector:]])
            return regs
        count = 1
        for d in dims:
            count *= d
        size = elem * count
        out: list[Var] = []
        for n in names:
            var = Var(space, type_, n, align or max(elem, 1), size)
            var.extern = extern or (bool(dims) and dims[0] == 0)
            out.append(var)
        if self.accept("="):
            self.initializer(out[0], dims)
        return out

    def initializer(self, var: Var, dims: list[int]) -> None:
        data = bytearray(var.size)
        width = var.elem_bytes

        def fill(offset: int, sub: list[int]) -> int:
            if self.accept("{"):
                stride = width
                for d in sub[1:]:
                    stride *= d
                while not self.accept("}"):
                    if self.peek() == "{":
                        fill(offset, sub[1:])
                        offset += stride
                    else:
                        offset = fill(offset, sub[1:])
                    self.accept(",")
                return offset
            value = self.init_value()
            if isinstance(value, tuple):
                name, addend, shift = value
                var.relocs.append((offset, width, name, addend, shift))
            elif isinstance(value, float):
                data[offset : offset + width] = struct.pack({2: "<e", 4: "<f", 8: "<d"}[width], value)
            elif isinstance(value, Bits):
                data[offset : offset + width] = value.value.to_bytes(width, "little")
            elif isinstance(value, bytes):
                data[offset : offset + len(value)] = value
                return offset + len(value)
            elif var.type in ("f32", "f64", "f16"):
                data[offset : offset + width] = struct.pack({2: "<e", 4: "<f", 8: "<d"}[width], float(value))
            else:
                data[offset : offset + width] = (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")
            return offset + width

        if dims and dims[0] == 0:
            self.fail("an initialised array needs its size")
        fill(0, dims or [1])
        var.init = bytes(data)

    def init_value(self):
        tok = self.tokens[self.at]
        if tok.kind == "float":
            return self.float_bits(self.next())
        if tok.text == "-" and self.tokens[self.at + 1].kind == "float":
            self.next()
            bits = self.float_bits(self.next())
            return -bits if isinstance(bits, float) else Bits(bits.value ^ (1 << bits.width - 1), bits.width)
        if tok.kind == "string":
            return self.next().text[1:-1].encode().decode("unicode_escape").encode("latin-1")
        shift = None
        if tok.kind == "int" and self.tokens[self.at + 1].text == "(":  # byte mask: 0xFF00(symbol)
            mask = int(self.next().text.rstrip("U"), 0)
            shift = (mask & -mask).bit_length() - 1
            self.expect("(")
            value = self.symbol_sum()
            self.expect(")")
            return (value[0], value[1], shift)
        if tok.kind == "word" and (tok.text == "generic" or not tok.text.startswith(".")):
            return (*self.symbol_sum(), shift)
        return self.const_expr()

    def symbol_sum(self) -> tuple[str, int]:
        name = self.next().text
        if name == "generic" and self.accept("("):
            name = self.next().text
            addend = self.const_expr() if self.peek() in "+-" else 0
            self.expect(")")
            extra = self.signed_tail()
            return name, addend + extra
        return name, self.signed_tail()

    def signed_tail(self) -> int:
        total = 0
        while self.peek() in ("+", "-"):
            sign = 1 if self.next().text == "+" else -1
            total += sign * self.whole(self.unary(), -(1 << 63), 1 << 64)
        return total

    def new_reg(self, name: str, type_: str) -> Reg:
        if not self.scopes:
            self.fail("a register is declared outside of a function")
        reg = Reg(len(self.func.regs), name, type_)
        self.func.regs.append(reg)
        self.scopes[-1][name] = reg
        return reg

    # bodies
    def body(self) -> None:
        func, depth = self.func, 1
        while depth:
            self.tokens.cut(self.at)
            self.at = 0
            if self.fast_instruction():
                continue
            tok = self.tokens[self.at]
            text = tok.text
            if text == "{":
                self.next()
                self.scopes.append({})
                self.blocks_seen += 1
                self.path += (self.blocks_seen,)
                depth += 1
            elif text == "}":
                self.next()
                self.scopes.pop()
                self.path = self.path[:-1]
                depth -= 1
            elif text == ";":
                self.next()
            elif tok.kind == "end":
                self.fail(f"the body of {func.name} is not closed", tok)
            elif text in _SPACES:
                for item in self.variables(False):
                    if isinstance(item, Var):
                        self.scopes[-1][item.name] = item
                        func.vars.append(item)
            elif text.startswith(".") and tok.kind == "word":
                self.body_directive()
            elif self.tokens[self.at + 1].text == ":" and tok.kind == "word":
                self.next()
                self.next()
                if self.peek() in (".branchtargets", ".calltargets"):
                    self.next()
                    names = [self.next().text]
                    while self.accept(","):
                        names.append(self.next().text)
                    self.expect(";")
                    func.tables[text] = names
                elif self.peek() == ".callprototype":
                    self.next()
                    returns = self.param_list() if self.peek() == "(" else []
                    self.next()
                    params = self.param_list() if self.peek() == "(" else []
                    while not self.accept(";"):
                        self.next()
                    func.protos[text] = (returns, params)
                else:
                    func.body.append(("label", text, self.path))
            else:
                self.instruction()

    def body_directive(self) -> None:
        tok = self.next()
        if tok.text == ".loc":
            while self.tokens[self.at].line == tok.line and self.tokens[self.at].text not in ("}", "{"):
                self.at += 1
        elif tok.text == ".pragma":
            while not self.accept(";"):
                self.next()
        elif tok.text in (".branchtargets", ".calltargets"):
            self.fail(f"{tok.text} needs a label", tok)
        else:
            self.func.directives.setdefault(tok.text, [])
            while self.tokens[self.at].line == tok.line and self.peek() not in ("}", "{", ""):
                self.at += 1

    def fast_instruction(self) -> bool:
        """Reads an instruction of plain operands straight from the source; False leaves it to `instruction`."""
        tokens = self.tokens
        m = _FAST.match(self.source, tokens.pos)
        if m is None:
            return False
        negated, guard_name, name, rest = m.groups()
        ops = []
        if rest is not None and (rest := rest.strip()):
            parts = [p for p in (part.strip() for part in _SPLIT.findall(rest)) if p]
            if rest.count(",") + 1 != len(parts) and "{" not in rest and "[" not in rest:
                return False
            for part in parts:
                op = self.fast_operand(part)
                if op is None:
                    return False
                ops.append(op)
        guard = None
        if guard_name is not None:
            reg = self.fast_operand(guard_name)
            if reg is None or reg[0] != "reg":
                return False
            guard = (reg[1], bool(negated))
        start = m.start(3) if guard_name is None else m.start(1) - 1
        line = tokens.line + self.source.count("\n", tokens.pos, start)
        words = name.split(".")
        text = " ".join(self.source[start : m.end()].split())
        self.func.body.append(Inst(words[0], tuple(words[1:]), ops, guard, line, text, self.path))
        tokens.line = line + self.source.count("\n", start, m.end())
        tokens.pos = m.end()
        return True

    def fast_operand(self, text: str):
        """A register, a decimal integer, [register + integer], or a vector of these."""
        first = text[0]
        if first == "[":
            m = _SIMPLE_ADDRESS.match(text)
            if m is None:
                return None
            base = self.fast_operand(m.group(1))
            if base is None or base[0] != "reg":
                return None
            return ("mem", base, int(m.group(2) or 0), [])
        if first == "{":
            items = (
                [self.fast_operand(part.strip()) for part in text[1:-1].split(",")]
                if text[-1] == "}"
                else [None]
            )
            return None if None in items else ("vec", items)
        for scope in reversed(self.scopes):
            item = scope.get(text)
            if item is not None:
                return ("reg", item) if isinstance(item, Reg) else None
        return ("imm", int(text), "int") if _SIMPLE_INT.match(text) else None

    def instruction(self) -> None:
        start, guard = self.tokens[self.at], None
        if self.accept("@"):
            negated = self.accept("!")
            guard_op = self.operand()
            if guard_op[0] != "reg":
                self.fail("a guard must be a predicate register")
            guard = (guard_op[1], negated)
        tok = self.next()
        if tok.kind != "word":
            self.fail(f"expected an instruction, found {tok.text!r}", tok)
        parts = tok.text.split(".")
        ops = []
        if self.peek() != ";":
            ops.append(self.operand())
            while self.accept(","):
                ops.append(self.operand())
        if self.tokens[self.at].kind == "end":
            self.fail(f"instruction {tok.text} is not closed by ';'", tok)
        end = self.expect(";")
        text = " ".join(self.source[start.pos : end.pos + 1].split())
        self.func.body.append(Inst(parts[0], tuple(parts[1:]), ops, guard, tok.line, text, self.path))

    def operand(self):
        tok = self.tokens[self.at]
        text = tok.text
        if text == "{":
            self.next()
            items = []
            while not self.accept("}"):
                items.append(self.operand())
                self.accept(",")
            return ("vec", items)
        if text == "[":
            return self.address()
        if text == "!":
            self.next()
            return ("not", self.operand())
        if text == "(":
            save = self.at
            self.next()
            if self.peek() == ")" or (
                self.tokens[self.at].kind == "word" and not self.peek().startswith(".")
            ):
                items = []
                while not self.accept(")"):
                    items.append(self.operand())
                    self.accept(",")
                return ("list", items)
            if self.tokens[self.at].kind in ("int", "float") and self.tokens[self.at + 1].text in (",", ")"):
                items = []
                while not self.accept(")"):
                    items.append(self.operand())
                    self.accept(",")
                if self.peek() in (",", ";"):
                    return ("list", items)
            self.at = save
            return self.immediate()
        if tok.kind in ("int", "float") or text in ("-", "~", "+"):
            if text == "-" and self.tokens[self.at + 1].kind == "word" and self.peek() != "WARP_SZ":
                self.next()
                return ("neg", self.operand())
            return self.immediate()
        if tok.kind == "word":
            return self.named()
        self.fail(f"unexpected operand {text!r}", tok)

    def immediate(self):
        value = self.const_expr()
        if isinstance(value, Bits):
            return ("imm", value.value, "f32" if value.width == 32 else "f64")
        return ("imm", value, "float" if isinstance(value, float) else "int")

    def named(self):
        text = self.next().text
        first: tuple
        if text == "_":
            first = ("sink",)
        else:
            first = self.resolve(text)
        if self.peek() == "|":
            self.next()
            return ("pair", first, self.named())
        if self.peek() == "[" and first[0] == "sym":  # a[3]: element address
            self.next()
            var = first[3] or self.module_.vars.get(first[1])
            index = int(self.const_expr()) * (var.elem_bytes if var is not None else 1)
            self.expect("]")
            return ("sym", first[1], index, first[3])
        if self.peek() in ("+", "-") and first[0] in ("sym", "reg"):
            return (*first[:2], self.signed_tail(), *first[3:]) if first[0] == "sym" else first
        return first

    def resolve(self, text: str):
        for scope in reversed(self.scopes):
            if text in scope:
                item = scope[text]
                if isinstance(item, Reg):
                    return ("reg", item)
                if isinstance(item, Var):
                    return ("sym", text, 0, item)
                return item
        if text == "WARP_SZ":
            return ("imm", 32, "int")
        if _SREG.match(text):
            return ("sreg", text)
        return ("sym", text, 0, None)

    def address(self):
        self.expect("[")
        tok = self.tokens[self.at]
        if tok.kind == "int" or tok.text in ("-", "("):
            base = ("imm", int(self.const_expr()), "int")
            offset = 0
        else:
            self.next()
            base = self.resolve(tok.text)
            if base[0] == "sreg":
                self.fail(f"{tok.text} cannot be an address", tok)
            offset = self.signed_tail()
            if base[0] == "sym" and self.accept("["):
                var = base[3] or self.module_.vars.get(base[1])
                offset += int(self.const_expr()) * (var.elem_bytes if var is not None else 1)
                self.expect("]")
        extra = []
        while self.accept(","):
            extra.append(self.operand())
        self.expect("]")
        return ("mem", base, offset, extra)


def parse(source: str) -> Module:
    """The module that a PTX text describes."""
    parser = Parser(source)
    try:
        return parser.module()
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise EmulatorError(f"PTX line {parser.line()}: this cannot be read") from error
