"""Tokens of MLIR text. One token of look-ahead; the parser may set the position back."""

from __future__ import annotations

import re
from bisect import bisect_right

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tileiras.diag import Diag

HEXADECIMAL = frozenset("0123456789abcdefABCDEF")
MAX_LITERAL = 512  # characters of one number: no type needs more
TOKEN = re.compile(
    r"""
    (?P<string>"[^"\\\n]*(?:\\.[^"\\\n]*)*")
  | (?P<number>(?:0x[0-9a-fA-F]+|[0-9]+(?:\.[0-9]*(?:[eE][-+]?[0-9]+)?)?))
  | (?P<value>%(?:[0-9]+|[A-Za-z_$.-][A-Za-z0-9_$.-]*))
  | (?P<symbol>@(?:[A-Za-z_][A-Za-z0-9_$.]*|"[^"\\\n]*(?:\\.[^"\\\n]*)*"))
  | (?P<hash>\#[A-Za-z_0-9][A-Za-z0-9_$.]*)
  | (?P<bang>![A-Za-z_][A-Za-z0-9_$.]*)
  | (?P<label>\^[A-Za-z0-9_$.-]+)
  | (?P<word>[A-Za-z_][A-Za-z0-9_$.]*)
  | (?P<punct>->|::|\.\.\.|\{-\#|\#-\}|[-{}()<>\[\],:=?*+/|\#])
    """,
    re.VERBOSE,
)
BLANKS = re.compile(r"[ \t\r\n]*")
DIMS = re.compile(r"(?:(?:[0-9]+|\?)x)*")


def skip(text: str, pos: int) -> int:
    """Where the next token begins: behind blanks and comments. A loop, as one expression would remember each comment."""
    pos = BLANKS.match(text, pos).end()  # type: ignore[union-attr]
    while text.startswith("//", pos):
        pos = text.find("\n", pos)
        if pos < 0:
            return len(text)
        pos = BLANKS.match(text, pos).end()  # type: ignore[union-attr]
    return pos


def clip(name: str) -> str:
    """A name in a message."""
    return name if len(name) <= 80 else f"{name[:64]}..."


class ParseError(Exception):
    """Text that means nothing: what, where (character offset)."""

    def __init__(
        self, pos: int, text: str, diag: Diag | None = None, notes: tuple[str, ...] = (), **facts: object
    ) -> None:
        super().__init__(text)
        self.pos = pos
        self.text = text
        self.diag = diag
        self.notes = notes
        self.facts = facts
        self.op = ""  # the custom form it was found in
        self.prior: int | None = None  # where the value was defined that the error is about
        self.inside = False  # found in a region: the ops around it are not to blame


class Lexer:
    """`kind`, `token`, `start`, `end` describe the next token; `step` goes on."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines: list[int] | None = None
        self.kind = ""
        self.token = ""
        self.start = self.end = self.last = 0  # `last`: where the token before ended
        self.seek(0)

    def seek(self, pos: int) -> None:
        """Reads the token at or after `pos`."""
        text = self.text
        pos = skip(text, pos)
        self.start = pos
        match = TOKEN.match(text, pos)
        if match is None:
            if pos >= len(text):
                self.kind, self.token, self.end = "end", "", pos
                return
            self.kind, self.token, self.end = "bad", text[pos], pos + 1
            return
        self.kind = match.lastgroup or ""
        self.token = match.group()
        self.end = match.end()
        if self.kind == "number" and len(self.token) > MAX_LITERAL:
            raise ParseError(pos, f"number literal of {len(self.token)} characters is too long")

    def step(self) -> str:
        """The token, and on to the next."""
        token = self.token
        self.last = self.end
        self.seek(self.end)
        return token

    def position(self, pos: int) -> tuple[int, int]:
        """Line and column, both from 1."""
        if self.lines is None:
            self.lines = [0, *(match.end() for match in re.finditer("\n", self.text))]
        line = bisect_right(self.lines, pos)
        return line, pos - self.lines[line - 1] + 1

    def dims(self) -> tuple[int | None, ...]:
        """`4x?x` in front of an element type; tokens do not know where it ends."""
        match = DIMS.match(self.text, self.start)
        found = match.group() if match is not None else ""
        if found:
            parts = found[:-1].split("x")
            if any(len(p) > 20 for p in parts):
                raise ParseError(self.start, "dimension is too large")
            pos = self.start
            self.seek(match.end())  # type: ignore[union-attr]
            if len(parts) > 64:
                raise ParseError(pos, f"{len(parts)} dimensions are too many")
            return tuple(None if p == "?" else int(p) for p in parts)
        return ()


def unquote(token: str) -> str:
    """Contents of a string literal: C escapes and two-digit hexadecimal bytes, as UTF-8."""
    body = token[1:-1]
    if "\\" not in body:
        return body
    out = bytearray()
    i = 0
    while i < len(body):
        c = body[i]
        if c != "\\":
            out += c.encode("utf-8", "surrogatepass")
            i += 1
            continue
        c = body[i + 1]
        if c in "nt":
            out.append({"n": 10, "t": 9}[c])
            i += 2
        elif c in '"\\':
            out.append(ord(c))
            i += 2
        else:
            digits = body[i + 1 : i + 3]
            if len(digits) != 2 or not set(digits) <= HEXADECIMAL:
                raise ParseError(0, "unknown escape in string literal")
            out.append(int(digits, 16))
            i += 3
    return out.decode("utf-8", "surrogateescape")
