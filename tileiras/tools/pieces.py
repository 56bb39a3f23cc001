"""What the text tools share: streams in and out, the pieces of a file, and running one piece against its expectations.

A file may hold several inputs between lines of `// -----`; each is treated on its own, and lines are counted in the
file. With expectations (`expect.py`) a piece succeeds when it says exactly what its comments say.
"""

from __future__ import annotations

import os
import sys

from tileiras.terminal import complain, refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tileiras.diag import Sink

SEPARATOR = "// -----"


def read_input(path: str) -> bytes:
    if path == "-":
        return sys.stdin.buffer.read()
    with open(path, "rb") as stream:
        return stream.read()


def refused_output(path: str, source: str) -> int:
    """0, or 2 for an output that is the input, which nobody would have any more; it has been said."""
    from tileiras.outputs import OutputError, Outputs

    try:
        Outputs([path]).unlink_old(source, keep=True)
    except OutputError as error:
        return refuse(error)
    return 0


def write_output(path: str, data: bytes) -> int:
    """Writes a file whole or not at all, or standard output. Exit code: 0 or 2."""
    from tileiras.outputs import OutputError, Outputs

    if path == "-":
        try:
            sys.stdout.buffer.write(data)
            sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    outputs = Outputs([path])
    try:
        outputs.write(path, data)
        outputs.commit()
    except OutputError as error:
        outputs.discard()
        return refuse(error)
    return 0


def pieces(data: bytes, split: str) -> list[tuple[Any, int]]:
    """(text or bytecode, lines before it). `split`: how the lines between the pieces begin; empty: one piece."""
    from tileiras.compiler.bytecode.reader import is_bytecode

    if is_bytecode(data) or not data.strip():
        return [(data, 0)]  # an empty file is refused as one, not taken for a module without ops
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError:
        return [(data, 0)]  # who reads it says where
    if not split:
        return [(text, 0)]
    found: list[tuple[Any, int]] = []
    start, lines = 0, text.split("\n")
    for i, line in enumerate([*lines, split]):
        if line.startswith(split):
            found.append(("\n".join(lines[start:i]) + "\n", start))
            start = i + 1
    return found


def separator(value: str, on: bool) -> str:
    """What `--split-input-file` or `--split-input-file=VALUE` asks for: a truth value or a separator of one's own."""
    if not on or value in ("", "true", "1"):
        return SEPARATOR
    return "" if value in ("false", "0") else value


def run_pieces(
    data: bytes, split: str, expect: bool, file: str, work: Callable[[Any, int, Sink], Any]
) -> tuple[int, list[Any]]:
    """(exit code of the first piece that fails, what `work(text, lines before, sink)` made of each)."""
    status = 0
    made = []
    for text, start in pieces(data, split):
        code, result = treat(text, start, file, expect, work)
        made.append(result)
        status = status or code
    return status, made


def treat(
    text: Any, start: int, file: str, expect: bool, work: Callable[[Any, int, Sink], Any]
) -> tuple[int, Any]:
    """(exit code, result or None) of one piece. What was expected and not said, or the other way round, is code 1."""
    from tileiras import terminal
    from tileiras.diag import CompileError, FatalError, Sink

    sink = Sink() if expect else Sink(terminal.show)
    terminal.remember(
        file, b"\n" * start + text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    )
    result, code = None, 0
    try:
        result = work(text, start, sink)
    except CompileError as error:
        code = error.exit_code
    except FatalError as error:
        sys.stderr.write(f"fatal error: {error}\n")
        return 5, None
    except Exception as error:  # nobody foresaw it
        from tileiras.driver import conclude

        concluded = conclude(error, sink)
        if not isinstance(concluded, CompileError):
            raise
        code = concluded.exit_code
    if not expect:
        if code:
            terminal.advise(sink.emitted)
        return code, result
    from tileiras.tools.expect import compare

    problems = compare(text if isinstance(text, str) else "", start, sink.emitted)
    for line, problem in problems:
        complain(f"{file}:{line}: error: {problem}")
    return (1 if problems else 0), None if code else result
