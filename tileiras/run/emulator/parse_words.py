"""Words and constants of a PTX text: tokens, made when they are looked at, and the expressions that an assembler computes."""

from __future__ import annotations

import re

from .syntax import EmulatorError

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*|/\*.*?\*/)
  | (?P<string>"(?:[^"\\]|\\.)*")
  | (?P<float>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)
  | (?P<int>0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+U?)
  | (?P<word>[%$_.A-Za-z](?:[\w$.]|::)*)
  | (?P<punct><<|>>|<=|>=|==|!=|&&|\|\||[-+*/%<>{}()\[\],;:@!|=&^~?])
""",
    re.X | re.S,
)

_BINARY = {
    "*": 10,
    "/": 10,
    "%": 10,
    "+": 9,
    "-": 9,
    "<<": 8,
    ">>": 8,
    "<": 7,
    ">": 7,
    "<=": 7,
    ">=": 7,
    "==": 6,
    "!=": 6,
    "&": 5,
    "^": 4,
    "|": 3,
    "&&": 2,
    "||": 1,
}


class Token:
    __slots__ = ("kind", "line", "pos", "text")

    def __init__(self, kind: str, text: str, pos: int, line: int) -> None:
        self.kind, self.text, self.pos, self.line = kind, text, pos, line


class Tokens:
    """The tokens of a text from `pos` on, made when they are looked at. Index 0 is where the stream was last cut."""

    def __init__(self, source: str, line: int = 1) -> None:
        self.source, self.pos, self.line = source, 0, line
        self.ready: list[Token] = []

    def __getitem__(self, at: int) -> Token:
        while len(self.ready) <= at:
            self.ready.append(self.lex())
        return self.ready[at]

    def lex(self) -> Token:
        """The next token. A label's colon is a token of its own even where a name directly precedes it."""
        source, size = self.source, len(self.source)
        while self.pos < size:
            m = _TOKEN.match(source, self.pos)
            if m is None:
                raise EmulatorError(f"PTX line {self.line}: unexpected character {source[self.pos]!r}")
            kind, text, start, line = str(m.lastgroup), m.group(), self.pos, self.line
            self.line += text.count("\n")
            self.pos = m.end()
            if kind != "space":
                return Token(kind, text, start, line)
        return Token("end", "", size, self.line)

    def cut(self, at: int) -> None:
        """Forgets the tokens before `at` and those looked at beyond it."""
        if at < len(self.ready):
            first = self.ready[at]
            self.pos, self.line = first.pos, first.line
        self.ready.clear()


class Words:
    """Reads tokens one after another; what it cannot take is an error with its line."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.tokens = Tokens(source)
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at].text

    def next(self) -> Token:
        tok = self.tokens[self.at]
        if tok.kind == "end":
            self.fail("the text ends where more is wanted", tok)
        self.at += 1
        return tok

    def whole(self, value, least: int = 0, most: int = 1 << 40) -> int:
        """A constant as a number in bounds; the token behind it tells the line."""
        if not isinstance(value, int) or not least <= value <= most:
            self.fail(f"a whole number from {least} to {most} is wanted here")
        return value

    def integer(self, most: int = 1 << 40) -> int:
        """The next token as a whole number."""
        return self.whole(self.unary(), 0, most)

    def line(self) -> int:
        """Where reading has come to."""
        ready = self.tokens.ready
        return ready[min(self.at, len(ready) - 1)].line if ready else self.tokens.line

    def accept(self, text: str) -> bool:
        if self.tokens[self.at].text == text and self.tokens[self.at].kind != "string":
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> Token:
        tok = self.next()
        if tok.text != text:
            self.fail(f"expected {text!r}, found {tok.text!r}", tok)
        return tok

    def fail(self, message: str, tok: Token | None = None) -> None:
        tok = tok or self.tokens[self.at]
        raise EmulatorError(f"PTX line {tok.line}: {message}")

    def float_bits(self, tok: Token):
        text = tok.text
        if text[:2] in ("0f", "0F"):
            return Bits(int(text[2:], 16), 32)
        if text[:2] in ("0d", "0D"):
            return Bits(int(text[2:], 16), 64)
        return float(text)

    def const_expr(self, least: int = 0):
        value = self.unary()
        while True:
            op = self.peek()
            if op == "?" and least == 0:
                self.next()
                yes = self.const_expr()
                self.expect(":")
                no = self.const_expr()
                return yes if value else no
            rank = _BINARY.get(op)
            if rank is None or rank <= least:
                return value
            self.next()
            right = self.const_expr(rank)
            value = _fold(op, value, right)

    def unary(self):
        tok = self.next()
        if tok.kind == "int":
            text = tok.text.rstrip("U")
            if len(text) > 1 and text[0] == "0" and text.isdigit():
                return int(text, 8)
            return int(text, 0)
        if tok.kind == "float":
            value = self.float_bits(tok)
            return value
        if tok.text == "-":
            value = self.unary()
            return (
                Bits(value.value ^ (1 << value.width - 1), value.width) if isinstance(value, Bits) else -value
            )
        if tok.text == "+":
            return self.unary()
        if tok.text == "~":
            return ~self.unary()
        if tok.text == "!":
            return int(not self.unary())
        if tok.text == "(":
            if self.peek() in (".s64", ".u64"):
                signed = self.next().text == ".s64"
                self.expect(")")
                value = self.unary() & 0xFFFFFFFFFFFFFFFF
                return value - (1 << 64) if signed and value >> 63 else value
            value = self.const_expr()
            self.expect(")")
            return value
        if tok.text == "WARP_SZ":
            return 32
        self.fail(f"unexpected {tok.text!r} in a constant", tok)


class Bits:
    """A floating-point literal given by its bits."""

    __slots__ = ("value", "width")

    def __init__(self, value: int, width: int) -> None:
        self.value, self.width = value, width


def _fold(op: str, a, b):
    if op in ("/", "%"):
        if isinstance(a, int) and isinstance(b, int):
            q = abs(a) // abs(b)
            q = q if (a < 0) == (b < 0) else -q
            return q if op == "/" else a - q * b
        return a / b
    return {
        "*": lambda: a * b,
        "+": lambda: a + b,
        "-": lambda: a - b,
        "<<": lambda: a << b,
        ">>": lambda: a >> b,
        "<": lambda: int(a < b),
        ">": lambda: int(a > b),
        "<=": lambda: int(a <= b),
        ">=": lambda: int(a >= b),
        "==": lambda: int(a == b),
        "!=": lambda: int(a != b),
        "&": lambda: a & b,
        "^": lambda: a ^ b,
        "|": lambda: a | b,
        "&&": lambda: int(bool(a) and bool(b)),
        "||": lambda: int(bool(a) or bool(b)),
    }[op]()
