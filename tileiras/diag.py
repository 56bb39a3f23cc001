"""Diagnostics as data: what was found, where, and with which facts; text is rendered at the end.

A `Diag` is one catalogue row (code, severity, text with `{fact}` placeholders, source). `Emitted` is one
occurrence, the body that travels. A `Sink` belongs to one compilation context: it offers every diagnostic to the
registered handlers in registration order, the first that returns true consumes it; what nobody consumes goes to
the default handler. `InFlight` is a body that is still being written; it is flushed when its scope ends. Stages
stop by raising `CompileError` with the exit code of the stage. The 208 bytes that C programs see are made from the
body in `tileiras.capi.record`.
"""

from __future__ import annotations

import sys
from _thread import RLock, get_ident

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

NOTE, WARNING, ERROR, REMARK = 1, 2, 3, 4
PREFIX = {NOTE: "note: ", WARNING: "warning: ", ERROR: "error: ", REMARK: "remark: "}
OP_PREFIX_BIT = 0x100  # the body was seeded by emitOpError: rendered as "'<op>' op <message>"
TRACE_BIT = 0x200  # a child trace note
DRIVER_BIT = 0x400  # of the word 0x503 only

# The canonical severity words.
WORD_OP_NOTE = 0x101
WORD_ERROR = 0x103  # verifier failures; the driver's codes 1 and 5
WORD_REMARK = 0x104  # a remark with a trace child; the driver's code 3
WORD_TRACE = 0x302  # one step of a call-context trace
WORD_CONFIG = 0x503  # every rejection with code 2
SEVERITY_WORDS = frozenset((WORD_OP_NOTE, WORD_ERROR, WORD_REMARK, WORD_TRACE, WORD_CONFIG))


def pack(severity: int, op_prefix: bool = False, trace: bool = False) -> int:
    """The 16-bit severity word: class in the low byte, op prefix in bit 8, trace child in bit 9."""
    return severity | (OP_PREFIX_BIT if op_prefix else 0) | (TRACE_BIT if trace else 0)


def unpack(word: int) -> tuple[int, bool, bool]:
    """(class, op prefix, trace child) of a severity word."""
    return word & 0xFF, bool(word & OP_PREFIX_BIT), bool(word & TRACE_BIT)


# Exit codes: one flat table for the command, Python and the C API.
EXIT_SUCCESS, EXIT_USAGE, EXIT_CONFIGURATION, EXIT_BYTECODE, EXIT_HANDLE_STATE, EXIT_COMPILE = range(6)


class Diag:
    """One row of a catalogue. `text` is a contract, letter for letter; `{name}` marks a fact.

    A remark also has a kind (passed, missed, failed, analysis) and a category (memory, tensorcore, or empty). What stops a
    command has the exit code.
    """

    __slots__ = ("category", "code", "exit_code", "kind", "severity", "src", "text", "word")

    def __init__(
        self, code: str, severity: int, text: str, src: str = "", word: int | None = None, kind: str = "missed",
        category: str = "", exit_code: int = EXIT_USAGE,
    ) -> None:  # fmt: skip
        self.code = code
        self.severity = severity
        self.text = text
        self.src = src
        self.word = severity if word is None else word  # the packed severity word
        self.kind = kind
        self.category = category
        self.exit_code = exit_code

    def __repr__(self) -> str:
        return f"Diag({self.code!r}, {self.text!r})"

    def wanted(self, asked: dict[str, str] | None) -> bool:
        """Whether such a remark was asked for. `asked`: kind -> category."""
        category = (asked or {}).get(self.kind, "none")
        return category == "all" or category == self.category


# What several rooms say.
UNREADABLE = Diag("DRV-0101", ERROR, "unable to read input file '{path}': {why}", "own", WORD_ERROR)
"""
cause: The input cannot be opened or read, for the reason named.
remedy: Check the name, the folder that the command runs in, and the permissions.

  $ python k.py
  from tileiras.compiler.source import load
  from tileiras.diag import Sink

- load("no-such-file.tileir", Sink())
+ load("cuda_tile.module @m { entry @k() { return } }", Sink())
"""

OUT_OF_MEMORY = Diag("DRV-0102", ERROR, "out of memory", "exit-1-allocation", WORD_ERROR)
"""
cause: The machine, or a limit set for this process, had no memory left for the compilation.
remedy: Compile fewer kernels at once, raise the limit, or use smaller tiles in the kernel.

! The machine, or a limit set for the process, has no memory left in the middle of a compile: no input decides that
alone.
"""


NO_CAPABILITY = Diag(
    "DRV-0501", ERROR, "Failed to get ComputeCapability", "pass-func-to-llvm-capability", WORD_ERROR
)
"""
cause: No GPU was named, or one that this release has no code for.
remedy: Name one: --gpu-name=sm_90. The note behind the message lists the targets.

- $ tileiras k.tileir --emit=ptx
+ $ tileiras k.tileir --emit=ptx --gpu-name=sm_90
  cuda_tile.module @m { entry @k() { return } }
"""

NO_CAPABILITY_O2 = Diag(
    "DRV-0502",
    ERROR,
    "failed to get compute capability.",
    "pass-missing-capability-other-spelling",
    WORD_ERROR,
)
"""
see: DRV-0501

- $ tileiras k.tileir -O2 --emit=ptx
+ $ tileiras k.tileir -O2 --emit=ptx --gpu-name=sm_90
  cuda_tile.module @m { entry @k() { return } }
"""


class Catalogue:
    """The rows of a diagnostics module by name, which is loaded when one of them is needed."""

    __slots__ = ("_module",)

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        __import__(self._module)
        return getattr(sys.modules[self._module], name)


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
        if not self.line and self.file:
            return self.file  # a container has offsets, not lines
        return f"{self.file}:{self.line}:{self.col}" if self.file else "unknown"

    def __repr__(self) -> str:
        return f"Loc({self})"


UNKNOWN = Loc()


class Emitted:
    """One diagnostic as it happened: the body. Tests compare code and facts; users read `render()`."""

    __slots__ = ("diag", "facts", "flushed", "loc", "notes", "op", "streamed")

    def __init__(
        self,
        diag: Diag,
        loc: Loc | None = None,
        op: str | None = None,
        facts: Iterable[tuple[str, object]] = (),
        notes: Iterable[Emitted] = (),
    ) -> None:
        self.diag = diag
        self.loc: Loc | None = loc or UNKNOWN  # None: the body was moved away
        self.op = op  # full op name, "cuda_tile.addf"; prefixed to the text when set
        self.facts = tuple(facts)
        self.notes = list(notes)
        self.streamed: list[object] = []  # arguments appended while in flight
        self.flushed = 0  # the guard: nonzero once the engine had it

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
    def args(self) -> list[object]:
        """The message as it was streamed: literals (str) and facts in order. Its concatenation is `text`."""
        found = fragments(self.diag.text, dict(self.facts)) if self.facts else []
        if not self.facts and self.diag.text:
            found.append(self.diag.text)
        return found + self.streamed

    @property
    def text(self) -> str:
        """The message without location, prefix and op name."""
        text = filled(self.diag.text, dict(self.facts)) if self.facts else self.diag.text
        return text + "".join(map(str, self.streamed)) if self.streamed else text

    @property
    def message(self) -> str:
        return f"'{self.op}' op {self.text}" if self.op else self.text

    def render(self) -> str:
        """The lines a user sees: `file:line:col: error: message`, then the notes."""
        loc = self.loc or UNKNOWN
        where = f"{loc}: " if loc.file else ""
        lines = [f"{where}{PREFIX[self.severity]}{self.message}"]
        lines += [f"{where}note: called from {c}" for c in loc.callers]
        lines += [note.render() for note in self.notes]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<{self.diag.code} {self.render()!r}>"


def filled(template: str, facts: dict[str, object]) -> str:
    """The template with its facts; of numbers that Python refuses to write (some thousand digits), how long they are."""
    try:
        return template.format_map(facts)
    except ValueError:
        return template.format_map({name: spelled(value) for name, value in facts.items()})


def spelled(value: object) -> object:
    """`value`, or a text for one that cannot be written."""
    try:
        str(value)
        return value
    except ValueError:
        if isinstance(value, int):
            return f"{'-' if value < 0 else ''}<{value.bit_length() * 30103 // 100000 + 1} digits>"
        if isinstance(value, (list, tuple)):
            return f"({', '.join(str(spelled(part)) for part in value)})"
        return f"<{type(value).__name__}>"


def fragments(template: str, facts: dict[str, object]) -> list[object]:
    """The literals and the facts of a template, in order. A fact with a format is a literal by then."""
    found: list[object] = []
    literal = ""
    at = 0
    while at < len(template):
        char = template[at]
        if template[at : at + 2] in ("{{", "}}"):
            literal += char
            at += 2
        elif char == "{":
            stop = template.index("}", at)
            name, colon, _ = template[at + 1 : stop].partition(":")
            if name in facts and not colon:
                if literal:
                    found.append(literal)
                    literal = ""
                found.append(facts[name])
            else:  # a format, a conversion or a lookup
                literal += template[at : stop + 1].format_map(facts)
            at = stop + 1
        else:
            literal += char
            at += 1
    if literal:
        found.append(literal)
    return found


class Sink:
    """The engine of one context: handlers, what was emitted, how many errors. Safe to use from threads.

    `default` gets what no handler consumed; without one the sink only collects, as the Python interface does,
    which hands everything over in `CompileError.diagnostics`. The mutex is recursive: a handler may emit.
    """

    __slots__ = ("aside", "default", "emitted", "errors", "file", "handlers", "lock", "open")

    def __init__(self, default: Callable[[Emitted], object] | None = None) -> None:
        self.handlers: list[Callable[[Emitted], object]] = []
        self.default = default
        self.aside: Callable[[Emitted], bool] | None = None  # takes what a report alone shows
        self.emitted: list[Emitted] = []
        self.errors = 0
        self.lock = RLock()
        self.open: list[InFlight] = []  # bodies in flight, innermost last
        self.file = ""  # the input of this context: the place of what has no other

    def place(self, loc: Loc | None) -> Loc | None:
        """A location to say something at: of an operation without one, the input file."""
        if loc is not None and not loc.file and self.file:
            return Loc(self.file, callers=loc.callers)
        return loc

    def emit(
        self,
        diag: Diag,
        op: Any = None,
        loc: Loc | None = None,
        notes: Iterable[Emitted] = (),
        **facts: object,
    ) -> Emitted:
        """Record and deliver one diagnostic. `op` is an Op (its name and location are used) or a name."""
        name, loc = _anchor(op, loc)
        return self.deliver(Emitted(diag, self.place(loc), name, facts.items(), notes))

    # The three constructors of a body that is written piece by piece: `with sink.op_error(op) as body: body.append(..)`.

    def op_error(self, op: Any, text: str = "") -> InFlight:
        """emitOpError: Error with op prefix, at the location of the operation."""
        name, loc = _anchor(op, None)
        return InFlight(self, Emitted(Diag("", ERROR, text, word=WORD_ERROR), self.place(loc), name))

    def error(self, loc: Loc | None, text: str = "") -> InFlight:
        """emitError: a plain Error at a location."""
        return InFlight(self, Emitted(Diag("", ERROR, text), loc))

    def diagnostic(self, loc: Loc | None, word: int, text: str = "") -> InFlight:
        """The generic form: any severity word, kept unchanged."""
        return InFlight(self, Emitted(Diag("", word & 0xFF, text, word=word), loc))

    def deliver(self, emitted: Emitted) -> Emitted:
        """Hand a finished body to the handlers. A note without a parent is attached to the body in flight, or dropped."""
        with self.lock:
            if emitted.severity == NOTE:
                mine = [flight for flight in self.open if flight.thread == get_ident()]
                if mine:
                    mine[-1].body.notes.append(emitted)
                return emitted
            emitted.flushed = 1
            if self.aside is not None and self.aside(emitted):
                return emitted
            self.emitted.append(emitted)
            if emitted.severity == ERROR:
                self.errors += 1
            for handler in tuple(self.handlers):
                if handler(emitted):
                    return emitted
            if self.default is not None:
                self.default(emitted)
        return emitted

    def fail(self, exit_code: int) -> CompileError:
        """The exception that carries everything emitted so far."""
        return CompileError(exit_code, list(self.emitted))


def _anchor(op: Any, loc: Loc | None) -> tuple[str | None, Loc | None]:
    """(op name, location) of an Op, a name, or nothing."""
    if op is None or isinstance(op, str):
        return op, loc
    return op.spec.full_name, loc or op.loc


class InFlight:
    """A body in flight. It is flushed once: by `report`, or when its scope ends, unless it was moved away."""

    __slots__ = ("body", "sink", "thread")

    def __init__(self, sink: Sink, body: Emitted) -> None:
        self.sink = sink
        self.body = body
        self.thread = get_ident()
        with sink.lock:
            sink.open.append(self)

    def append(self, *args: object) -> InFlight:
        """Stream arguments: str literals, numbers, or anything with a text (types, attributes)."""
        self.body.streamed += args
        return self

    def note(self, text: str, loc: Loc | None = None, op: Any = None) -> InFlight:
        """Attach a note."""
        name, loc = _anchor(op, loc)
        self.body.notes.append(Emitted(Diag("", NOTE, text), loc or self.body.loc, name))
        return self

    def move(self) -> InFlight:
        """The wrapper that owns the body from now on; this one has none."""
        old = self.body
        new = Emitted(old.diag, old.loc, old.op, old.facts, old.notes)
        new.streamed, new.flushed = old.streamed, old.flushed
        old.loc = None
        self._close()
        return InFlight(self.sink, new)

    def report(self) -> None:
        """Flush now. The scope's end does nothing more."""
        self._close()
        if self.body.loc is not None and not self.body.flushed:
            self.body.flushed = 1
            self.sink.deliver(self.body)

    def _close(self) -> None:
        with self.sink.lock:
            if self in self.sink.open:
                self.sink.open.remove(self)

    def __enter__(self) -> InFlight:
        return self

    def __exit__(self, *_: object) -> None:
        self.report()


def suggestion(word: str, known: Iterable[str]) -> str:
    """What a mistyped word may have been, as the end of a sentence."""
    import difflib

    close = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean '{close[0]}'?" if close else ""


MAX_WORD = 400  # characters: no name of a file is so long


def shortened(text: str) -> str:
    """`text`, for a message, with the heads of words that nobody means."""
    import re

    return re.sub(
        rf"[^\s/']{{{MAX_WORD + 1},}}", lambda word: f"{word[0][:60]}... ({len(word[0])} characters)", text
    )


def say(text: str) -> None:
    """Writes to standard error. That it is closed, full or a broken pipe changes no exit code."""
    stream = sys.stderr
    if stream is None:
        return
    try:
        stream.write(text)
        stream.flush()
    except (OSError, ValueError):
        sys.stderr = None  # type: ignore[assignment]  # the interpreter would flush it again, and exit with 120


def print_to_stderr(emitted: Emitted) -> bool:
    """The default handler of the commands and of the C interface."""
    say(emitted.render() + "\n")
    return True


class CompileError(Exception):
    """A stage stopped. `exit_code` is 1..5; `diagnostics` is everything emitted, in order."""

    def __init__(self, exit_code: int, diagnostics: list[Emitted]) -> None:
        self.exit_code = exit_code
        self.diagnostics = diagnostics
        super().__init__("\n".join(d.render() for d in diagnostics) or f"exit code {exit_code}")

    def __reduce__(self) -> tuple[Any, ...]:
        return CompileError, (self.exit_code, self.diagnostics)


class Refusal(Exception):
    """A command goes no further: what it says is one row, and its exit code is that of the row, or the one that is given."""

    def __init__(self, diag: Diag | None, exit_code: int | None = None, **facts: object) -> None:
        """`diag`: None where all has been said."""
        self.emitted = Emitted(diag or Diag("", ERROR, ""), facts=facts.items())
        self.exit_code = self.emitted.diag.exit_code if exit_code is None else exit_code
        super().__init__(self.emitted.text)


class UsageError(Refusal):
    """A command line that means nothing: exit code 1; or has a word that its option does not take: that of the row, 2."""


class FatalError(Exception):
    """report_fatal_error: an invariant of the compiler is broken and nothing can go on.

    The command prints the text and aborts (status 134), the library turns it into code 5.
    """
