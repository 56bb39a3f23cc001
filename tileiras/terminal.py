"""What a person sees of a diagnostic: its text, the line of the source with a caret, colour on a terminal, advice.

The first line of a diagnostic is a contract and stays as `Emitted.render` has it. Behind it stand the source line and a
caret where the input is a text that this process has read. Colour comes with a terminal: `--color=always` and
`--color=never` decide, else NO_COLOR turns it off. Loaded when there is something to say, never by a compile that is well.
"""

from __future__ import annotations

import os
import sys

from tileiras.diag import (
    ERROR,
    NOTE,
    OUT_OF_MEMORY,
    PREFIX,
    REMARK,
    WARNING,
    CompileError,
    Emitted,
    Refusal,
    UsageError,
    say,
    shortened,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from tileiras.diag import Diag, Loc

COLOUR_MODES = ("auto", "always", "never")
MAX_WIDTH = 160  # of a source line that is shown
_BOLD, _PLAIN, _GREEN = "\x1b[1m", "\x1b[0m", "\x1b[1;32m"
_OF_SEVERITY = {ERROR: "\x1b[1;31m", WARNING: "\x1b[1;35m", NOTE: "\x1b[1;36m", REMARK: "\x1b[1;34m"}

CODES = "TILEIRAS_DIAGNOSTIC_CODES"  # set: the last note of a failure names the codes, as on a terminal
_mode = "auto"
_inputs: dict[str, bytes] = {}  # what was read, by the name that locations use


def set_colour(mode: str) -> bool:
    """Takes the value of --color; whether it is one."""
    global _mode
    mode = {"true": "always", "1": "always", "false": "never", "0": "never"}.get(mode, mode)
    if mode not in COLOUR_MODES:
        return False
    _mode = mode
    return True


def take_words(words: Sequence[str], command: str) -> list[str]:
    """`words` without --color[=WHEN] and --diagnostic-codes, which are obeyed. Errors: SystemExit(2) for a value that is none."""
    rest, modes = split_colour(words)
    end = rest.index("--") if "--" in rest else len(rest)
    if "--diagnostic-codes" in rest[:end]:
        os.environ[CODES] = "1"  # also for what this command starts
        rest[:end] = [word for word in rest[:end] if word != "--diagnostic-codes"]
    for mode in modes:
        if not set_colour(mode):
            from tileiras.tools import diags

            known = ", ".join(COLOUR_MODES)
            wrong = UsageError(diags.CHOICE, option="--color", value=mode, known=known)
            raise SystemExit(refuse(wrong, command))
    return rest


def split_colour(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """`words` without --color[=WHEN] before "--", and the modes that were asked for."""
    rest: list[str] = []
    modes: list[str] = []
    for at, word in enumerate(words):
        if word == "--":
            return rest + list(words[at:]), modes
        name, equals, value = word.partition("=")
        if name == "--color":
            modes.append(value if equals else "always")
        else:
            rest.append(word)
    return rest, modes


def is_coloured(stream: Any) -> bool:
    """Whether what goes to `stream` has colours."""
    if _mode != "auto":
        return _mode == "always"
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return is_terminal(stream)


def colour_of(stream: Any) -> str:
    """The mode until now; from here on what is captured instead of going to `stream` has the colours it would have there."""
    global _mode
    before = _mode
    _mode = "always" if is_coloured(stream) else "never"
    return before


def plain(text: str) -> str:
    """`text` without our colours."""
    for code in (_BOLD, _PLAIN, _GREEN, *_OF_SEVERITY.values()):
        text = text.replace(code, "")
    return text


def is_terminal(stream: Any) -> bool:
    try:
        return stream is not None and stream.isatty()
    except (OSError, ValueError):
        return False


def remember(name: str, data: bytes) -> None:
    """Notes an input: messages about it show its lines."""
    _inputs[name] = data


def show(emitted: Emitted) -> bool:
    """Prints a diagnostic on standard error; true, as a handler that has consumed it."""
    say(present(emitted) + "\n")
    return True


def until_broken_pipe(main: Any, words: Sequence[str] | None = None) -> int:
    """The exit code of `main(words)`; 141, as a shell has it, where who reads standard output went away: `command | head`.

    Where memory does not suffice (an input without end) it is 1, after an error like any other, and where standard output
    cannot be written, being closed or full, 2.
    """
    if sys.stdout is None:
        sys.stdout = _Closed()  # type: ignore[assignment]
    try:
        code = main(words)
        if sys.stdout is not None:
            sys.stdout.flush()
        return int(code)
    except MemoryError:
        return refuse(UsageError(OUT_OF_MEMORY))
    except KeyboardInterrupt:
        from tileiras.signals import die_of

        return die_of(2)
    except OSError as error:
        if error.filename is not None:
            raise
        if not isinstance(error, BrokenPipeError):
            return _unwritable(error)
        try:  # the interpreter would flush what is left, and complain
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        except OSError:
            pass
        return 141


class _Closed:
    """Standard output that was closed: to write to it is an error, and not to is none."""

    @property
    def buffer(self) -> _Closed:
        return self

    def write(self, _text: object) -> int:
        raise OSError(9, "it is closed")

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return False


def _unwritable(error: OSError) -> int:
    """Says why standard output cannot be written; the exit code."""
    from tileiras.outputs import UNWRITABLE, OutputError

    sys.stdout = None  # type: ignore[assignment]  # the interpreter would flush it again, and exit with 120
    return refuse(OutputError(UNWRITABLE, path="-", why=error.strerror or error))


def show_all(error: CompileError) -> int:
    """Prints the diagnostics of a failure, and what helps; the exit code."""
    for emitted in error.diagnostics:
        show(emitted)
    advise(error.diagnostics)
    return error.exit_code


def print_page(text: str) -> int:
    """Prints what --help or --version ask for; the exit code of a command that does nothing else."""

    def write(_words: Sequence[str] | None) -> int:
        sys.stdout.write(text)
        return 0

    return until_broken_pipe(write)


def refuse(refusal: Refusal, command: str = "", more: str = "") -> int:
    """Prints what stopped a command, as `command: error: text`, `more`, and the note with its code; the exit code."""
    if refusal.emitted.text:
        text = shortened(str(refusal)) + more
        complain(f"{command}: error: {text}" if command else f"error: {text}")
        name_code(refusal)
    return refusal.exit_code


def name_code(refusal: Refusal) -> None:
    """Prints the note with the code, where it is wanted."""
    if wants_codes():
        from tileiras.advice import code_lines

        say("".join(line + "\n" for line in code_lines([refusal.emitted])))


def told(diag: Diag, **facts: object) -> str:
    """The text of a row, and the note with its code where it is wanted: for exceptions that others print."""
    from tileiras.advice import code_lines

    emitted = Emitted(diag, facts=facts.items())
    return "\n".join([emitted.text, *(code_lines([emitted]) if wants_codes() else ())])


def wants_codes() -> bool:
    return is_terminal(sys.stderr) or os.environ.get(CODES, "0") not in ("", "0")


def complain(text: str) -> None:
    """Prints lines that are no diagnostics; those of the form `error: text` and `place: error: text` look like one."""
    lines = text.split("\n")
    if is_coloured(sys.stderr):
        for number, line in enumerate(lines):
            place, found, rest = line.partition("error: ")
            if found and (not place or place.endswith(": ")):
                lines[number] = (
                    f"{_BOLD}{place}{_PLAIN}{_OF_SEVERITY[ERROR]}{found}{_PLAIN}{_BOLD}{rest}{_PLAIN}"
                )
    say("\n".join(lines) + "\n")


def advise(diagnostics: Iterable[Emitted], codes: bool = False) -> None:
    """Prints what helps beyond the diagnostics of a failed run, behind all of them; on a terminal or with `codes` their
    codes too."""
    from tileiras.advice import code_lines, lines

    found = list(diagnostics)
    named = {emitted.loc.file for emitted in found if emitted.loc is not None and emitted.loc.file}
    inputs = {
        name: data for name, data in _inputs.items() if not named or name in named
    }  # not those of earlier runs
    for line in lines(found, inputs):
        say(line + "\n")
    if codes or wants_codes():
        for line in code_lines(found):
            say(line + "\n")


def present(emitted: Emitted) -> str:
    """The text of a diagnostic with its source lines, coloured where standard error is."""
    coloured = is_coloured(sys.stderr)
    text = emitted.render() if not coloured else ""
    out = []
    if coloured:
        for one, line in _flat(emitted):
            out.append(_paint(one, line))
            out += _excerpt(one.loc, True) if line is None else []
        return "\n".join(out)
    if not _inputs:
        return text
    for one, line in _flat(emitted):
        out.append(_first_line(one) if line is None else line)
        out += _excerpt(one.loc, False) if line is None else []
    return "\n".join(out)


def _flat(emitted: Emitted) -> list[tuple[Emitted, str | None]]:
    """(diagnostic, None) for each, its call sites as (diagnostic, line) behind it."""
    own = emitted.render().split("\n")
    below = sum(note.render().count("\n") + 1 for note in emitted.notes)
    first = _first_line(emitted).count("\n") + 1
    found: list[tuple[Emitted, str | None]] = [(emitted, None)]
    found += [(emitted, line) for line in own[first : len(own) - below]]
    for note in emitted.notes:
        found += _flat(note)
    return found


def _place(emitted: Emitted) -> str:
    loc = emitted.loc
    return f"{loc}: " if loc is not None and loc.file else ""


def _first_line(emitted: Emitted) -> str:
    return f"{_place(emitted)}{PREFIX[emitted.severity]}{emitted.message}"


def _paint(emitted: Emitted, line: str | None) -> str:
    if line is not None:
        return line
    colour = _OF_SEVERITY[emitted.severity]
    return f"{_BOLD}{_place(emitted)}{_PLAIN}{colour}{PREFIX[emitted.severity]}{_PLAIN}{_BOLD}{emitted.message}{_PLAIN}"


def _excerpt(loc: Loc | None, coloured: bool) -> list[str]:
    """The source line of a place and the line with the caret; nothing where the input is no text of ours."""
    if loc is None or not loc.line or not loc.col:
        return []
    data = _inputs.get(loc.file)
    if data is None:
        return []
    from tileiras.compiler.source import looks_like_text

    if not looks_like_text(data):
        return []
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n", loc.line)
    if len(lines) < loc.line:
        return []
    text = lines[loc.line - 1].decode("utf-8", "replace").rstrip("\r")
    at = min(loc.col - 1, len(text))
    start = max(0, at - MAX_WIDTH * 2 // 3) if len(text) > MAX_WIDTH else 0
    shown = text[start : start + MAX_WIDTH]
    # Tabs stay, so that the caret stands below whatever their width; other control characters are harmless marks.
    blanks = "".join("\t" if c == "\t" else " " * _width(c) for c in shown[: at - start])
    shown = "".join(c if c == "\t" or c.isprintable() else "\ufffd" for c in shown)
    caret = f"{_GREEN}^{_PLAIN}" if coloured else "^"
    return [shown, blanks + caret]


def _width(char: str) -> int:
    """Columns of a character on a terminal."""
    if char.isascii():
        return 1
    from unicodedata import combining, east_asian_width

    return 0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1
