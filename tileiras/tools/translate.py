"""``tileiras-translate``: Tile IR bytecode to text and back, between versions, with verification.

    tileiras-translate k.tilebc                     bytecode to text
    tileiras-translate k.mlir -o k.tilebc           text to bytecode (the oldest version that can hold it)
    tileiras-translate k.mlir --version 13.3 -o -   text to bytecode of a version, on standard output
    tileiras-translate k.tilebc --to text --debug   text with locations

What goes in is told apart by its magic; what comes out is the other form, unless ``--to`` says which.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

NAME = "tileiras-translate"
VERSIONS = ("13.1", "13.2", "13.3", "13.4", "13.5")
USAGE = """\
usage: tileiras-translate [INPUT] [-o OUTPUT] [options]

  INPUT               bytecode or text; - or nothing: standard input
  -o, --output FILE   output; - or nothing: standard output
  --to text|bytecode  what to write (default: the other form than INPUT)
  --version V         bytecode version 13.1 ... 13.5 to write (default: that of INPUT, else the oldest that fits)
  --generic           text in MLIR's generic form
  --debug             text with locations
  --no-verify         do not verify
  --list-versions     print the bytecode versions
  --help              print this text"""


class Arguments:
    """What the command line says."""

    __slots__ = ("debug", "generic", "input", "output", "to", "verify", "version")

    def __init__(self) -> None:
        self.input = "-"
        self.output = "-"
        self.to = ""
        self.version: str | None = None
        self.generic = False
        self.debug = False
        self.verify = True


class UsageError(Exception):
    """An option that means nothing: exit code 1."""


def parse_arguments(argv: Sequence[str]) -> Arguments | None:
    """The arguments, or None when the command only prints something."""
    found = Arguments()
    given_input = False
    items = iter(argv)
    for arg in items:
        name, equals, value = arg.partition("=")
        if name in ("-o", "--output", "--to", "--version", "--bytecode-version"):
            if not equals:
                value = next(items, "")
                if not value:
                    raise UsageError(f"option '{name}' needs a value")
            if name in ("-o", "--output"):
                found.output = value
            elif name == "--to":
                if value not in ("text", "bytecode"):
                    raise UsageError(f"'--to' takes text or bytecode, not '{value}'")
                found.to = value
            else:
                found.version = value
        elif arg in ("--generic", "--mlir-print-op-generic"):
            found.generic = True
        elif arg in ("-g", "--debug", "--mlir-print-debuginfo"):
            found.debug = True
        elif arg == "--no-verify":
            found.verify = False
        elif arg == "--list-versions":
            sys.stdout.write("\n".join(VERSIONS) + "\n")
            return None
        elif arg in ("--help", "-h"):
            sys.stdout.write(USAGE + "\n")
            return None
        elif arg.startswith("-") and arg != "-":
            raise UsageError(f"unknown option '{arg}'")
        elif given_input:
            raise UsageError(f"more than one input: '{found.input}' and '{arg}'")
        else:
            found.input, given_input = arg, True
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0, 1 (usage, input), 2 (output), 3 (bytecode), 5 (text, verifier)."""
    try:
        arguments = parse_arguments(sys.argv[1:] if argv is None else argv)
    except UsageError as error:
        sys.stderr.write(f"{NAME}: error: {error}\n{USAGE}\n")
        return 1
    return 0 if arguments is None else run(arguments)


def run(arguments: Arguments) -> int:
    from tileiras.compiler.bytecode.reader import is_bytecode
    from tileiras.compiler.ir.verify import verify_or_fail
    from tileiras.compiler.source import load, to_bytecode, to_text
    from tileiras.diag import CompileError, Sink, print_to_stderr

    sink = Sink()
    sink.handlers.append(print_to_stderr)
    try:
        data = read_input(arguments.input)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        sys.stderr.write(f"error: unable to read input file '{arguments.input}': {why}\n")
        return 1
    try:
        file = "<stdin>" if arguments.input == "-" else arguments.input
        module = load(data, sink, file=file)
        if arguments.verify:
            verify_or_fail(module, sink)
        to = arguments.to or ("text" if is_bytecode(data) and arguments.version is None else "bytecode")
        if to == "text":
            out = to_text(module, generic=arguments.generic, debug=arguments.debug).encode(
                "utf-8", "surrogateescape"
            )
        else:
            out = to_bytecode(module, arguments.version, sink)
    except CompileError as error:
        return error.exit_code
    return write_output(arguments.output, out)


def read_input(path: str) -> bytes:
    if path == "-":
        return sys.stdin.buffer.read()
    with open(path, "rb") as stream:
        return stream.read()


def write_output(path: str, data: bytes) -> int:
    """Writes a file whole or not at all, or standard output."""
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
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
