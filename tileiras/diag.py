"""Diagnostics as data: what was found, where, and with which facts; text is rendered at the end.

A `Diag` is one catalogue row (code, severity, text with `{fact}` placeholders, source). `Emitted` is one
occurrence. A `Sink` belongs to one compilation context: it offers every diagnostic to the registered
handlers in registration order, the first that returns true consumes it; what nobody consumes goes to the
default handler. Stages stop by raising `CompileError` with the exit code of the stage.
"""

from __future__ import annotations

import sys
from _thread import RLock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

NOTE, WARNING, ERROR, REMARK = 1, 2, 3, 4
PREFIX = {NOTE: "note: ", WARNING: "warning: ", ERROR: "error: ", REMARK: "remark: "}
OP_PREFIX_BIT = 0x100  # the body was seeded by emitOpError: rendered as "'<op>' op <message>"
TRACE_BIT = 0x200  # a child trace note

# Exit codes: one flat table for the command, Python and the C API (error-handling-and-diagnostics.md).
EXIT_SUCCESS, EXIT_USAGE, EXIT_CONFIGURATION, EXIT_BYTECODE, EXIT_HANDLE_STATE, EXIT_COMPILE = range(6)


class Diag:
    """One row of a catalogue. `text` is a contract, letter for letter; `{name}` marks a fact."""

    __slots__ = ("code", "severity", "src", "text", "word")

    def __init__(self, code: str, severity: int, text: str, src: str = "", word: int | None = None) -> None:
        self.code = code
        self.severity = severity
        self.text = text
        self.src = src
        self.word = severity if word is None else word  # the packed severity word

    def __repr__(self) -> str:
        return f"Diag({self.code!r}, {self.text!r})"


class Loc:
    """A source position; `callers` are the call sites it was inlined through, innermost first."""

    __slots__ = ("callers", "col", "file", "line", "scope")

    def __init__(
        self, file: str = "", line: int = 0, col: int = 0, callers: tuple[Loc, ...] = (), scope: object = None
    ) -> None:
        self.file = file
        self.line = line
        self.col = col
        self.callers = callers
        self.scope = scope  # debug scope record of the bytecode (DISubprogram, lexical block) or None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.col}" if self.file else "unknown"

    def __repr__(self) -> str:
        return f"Loc({self})"


UNKNOWN = Loc()


class Emitted:
    """One diagnostic as it happened. Tests compare code and facts; users read `render()`."""

    __slots__ = ("diag", "facts", "loc", "notes", "op")

    def __init__(
        self,
        diag: Diag,
        loc: Loc | None = None,
        op: str | None = None,
        facts: Iterable[tuple[str, object]] = (),
        notes: Iterable[Emitted] = (),
    ) -> None:
        self.diag = diag
        self.loc = loc or UNKNOWN
        self.op = op  # full op name, "cuda_tile.addf"; prefixed to the text when set
        self.facts = tuple(facts)
        self.notes = list(notes)

    @property
    def code(self) -> str:
        return self.diag.code

    @property
    def severity(self) -> int:
        return self.diag.severity

    @property
    def word(self) -> int:
        return self.diag.word | OP_PREFIX_BIT if self.op else self.diag.word

    @property
    def text(self) -> str:
        """The message without location, prefix and op name."""
        return self.diag.text.format_map(dict(self.facts)) if self.facts else self.diag.text

    @property
    def message(self) -> str:
        return f"'{self.op}' op {self.text}" if self.op else self.text

    def render(self) -> str:
        """The lines a user sees: `file:line:col: error: message`, then the notes."""
        where = f"{self.loc}: " if self.loc.file else ""
        lines = [f"{where}{PREFIX[self.severity]}{self.message}"]
        lines += [f"{where}note: called from {c}" for c in self.loc.callers]
        lines += [note.render() for note in self.notes]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<{self.diag.code} {self.render()!r}>"


class Sink:
    """Diagnostics of one context: handlers, what was emitted, how many errors. Safe to use from threads."""

    __slots__ = ("emitted", "errors", "handlers", "lock")

    def __init__(self) -> None:
        self.handlers: list[Callable[[Emitted], bool]] = []
        self.emitted: list[Emitted] = []
        self.errors = 0
        self.lock = RLock()

    def emit(
        self, diag: Diag, op: Any = None, loc: Loc | None = None, notes: Iterable[Emitted] = (), **facts: object
    ) -> Emitted:
        """Record and deliver one diagnostic. `op` is an Op (its name and location are used) or a name."""
        name = None
        if op is not None:
            if isinstance(op, str):
                name = op
            else:
                name = op.spec.full_name
                loc = loc or op.loc
        return self.deliver(Emitted(diag, loc, name, facts.items(), notes))

    def deliver(self, emitted: Emitted) -> Emitted:
        with self.lock:
            self.emitted.append(emitted)
            if emitted.severity == ERROR:
                self.errors += 1
            for handler in self.handlers:
                if handler(emitted):
                    return emitted
        return emitted

    def fail(self, exit_code: int) -> CompileError:
        """The exception that carries everything emitted so far."""
        return CompileError(exit_code, list(self.emitted))


def print_to_stderr(emitted: Emitted) -> bool:
    """The default handler of the commands."""
    sys.stderr.write(emitted.render() + "\n")
    return True


class CompileError(Exception):
    """A stage stopped. `exit_code` is 1..5; `diagnostics` is everything emitted, in order."""

    def __init__(self, exit_code: int, diagnostics: list[Emitted]) -> None:
        self.exit_code = exit_code
        self.diagnostics = diagnostics
        super().__init__("\n".join(d.render() for d in diagnostics) or f"exit code {exit_code}")
