"""``tileiras-translate``: Tile IR bytecode to text and back, between versions, with verification.

    tileiras-translate k.tilebc                     bytecode to text
    tileiras-translate k.mlir -o k.tilebc           text to bytecode (the oldest version that can hold it)
    tileiras-translate k.mlir --version 13.3 -o -   text to bytecode of a version, on standard output
    tileiras-translate k.tilebc --to text --debug   text with locations
    tileiras-translate k.mlir --roundtrip           text to bytecode to text

What goes in is told apart by its magic; what comes out is the other form, unless ``--to`` says which. The spellings
of NVIDIA's tool mean the same: -mlir-to-cudatilebc, -cudatilebc-to-mlir, -test-cudatile-roundtrip, -bytecode-version.
"""

from __future__ import annotations

import sys

from tileiras.diag import UNREADABLE, Catalogue, UsageError
from tileiras.terminal import refuse, take_words, until_broken_pipe
from tileiras.tools.pieces import SEPARATOR, read_input, refused_output, run_pieces, separator, write_output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tileiras.diag import Sink

diags = Catalogue("tileiras.tools.diags")

NAME = "tileiras-translate"
VERSIONS = ("13.1", "13.2", "13.3", "13.4", "13.5")
USAGE = """\
usage: tileiras-translate [INPUT] [-o OUTPUT] [options]

  INPUT               bytecode or text; - or nothing: standard input
  -o, --output FILE   output; - or nothing: standard output
  --to text|bytecode  what to write (default: the other form than INPUT)
  --roundtrip         write bytecode, read it, print text
  --version V         bytecode version 13.1 ... 13.5 to write (default: that of INPUT, else the oldest that fits)
  --generic           text in MLIR's generic form
  --debug             text with locations
  --no-verify         do not verify
  --split-input-file  treat pieces between lines of '// -----' on their own
  --verify-diagnostics         compare diagnostics with expected-error, -warning, -remark and -note comments
  --allow-unregistered-dialect take ops of unknown dialects in generic form
  --color[=WHEN]      colour in messages: auto, always, never
  --diagnostic-codes  name the code of an error in a last note; a terminal always has it
  --version           alone on the line: print the version of this program
  --list-versions     print the bytecode versions
  --help              print this text"""

VALUES = {
    "-o": "output", "--output": "output", "--to": "to", "--version": "version", "--bytecode-version": "version",
}  # fmt: skip
FLAGS: dict[str, tuple[str, Any]] = {
    "--generic": ("generic", True), "--mlir-print-op-generic": ("generic", True), "-g": ("debug", True),
    "--debug": ("debug", True), "--mlir-print-debuginfo": ("debug", True), "--no-verify": ("verify", False),
    "--roundtrip": ("to", "roundtrip"), "--test-cudatile-roundtrip": ("to", "roundtrip"),
    "--mlir-to-cudatilebc": ("to", "bytecode"), "--cudatilebc-to-mlir": ("to", "text"),
    "--split-input-file": ("split", SEPARATOR), "--verify-diagnostics": ("expect", True),
    "--allow-unregistered-dialect": ("unregistered", True), "--no-implicit-module": ("plain", True),
}  # fmt: skip


class Arguments:
    """What the command line says."""

    __slots__ = (
        "debug", "expect", "generic", "input", "output", "plain", "split", "to", "unregistered", "verify", "version",
    )  # fmt: skip

    def __init__(self) -> None:
        self.input = "-"
        self.output = "-"
        self.to = ""
        self.version: str | None = None
        self.generic = False
        self.debug = False
        self.verify = True
        self.split = ""
        self.expect = False
        self.unregistered = False
        self.plain = False  # output never has a module around the cuda_tile.module


def parse_arguments(argv: Sequence[str]) -> Arguments | None:
    """The arguments, or None when the command only prints something. One dash does as well as two."""
    found = Arguments()
    given_input = False
    items = iter(argv)
    for arg in items:
        if arg == "-" or not arg.startswith("-"):
            if given_input:
                raise UsageError(diags.MORE_INPUTS, first=found.input, second=arg)
            found.input, given_input = arg, True
            continue
        name, equals, value = arg.partition("=")
        if list(argv) == ["--version"]:  # with a value it is the version to write
            from tileiras.version import __version__

            sys.stdout.write(f"{NAME} {__version__}\n")
            return None
        if name not in VALUES and name not in FLAGS and not name.startswith("--"):
            name = "-" + name
        if name in VALUES:
            if not equals:
                value = next(items, "")
            if not value:
                raise UsageError(diags.NEEDS_VALUE, option=name)
            if name == "--to" and value not in ("text", "bytecode"):
                raise UsageError(diags.TRN_TO_FORM, value=value)
            setattr(found, VALUES[name], value)
        elif name == "--split-input-file":
            found.split = separator(value, bool(equals))
        elif name in FLAGS:
            field, on = FLAGS[name]
            if not equals or value not in ("false", "0"):
                setattr(found, field, on)
        elif name == "--list-versions":
            sys.stdout.write("\n".join(VERSIONS) + "\n")
            return None
        elif name in ("--help", "--h"):
            sys.stdout.write(USAGE + "\n")
            return None
        else:
            raise diags.unknown_option(arg, USAGE)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0, 1 (usage, input, an expectation that was not met), 2 (output), 3 (bytecode), 5 (text, verifier)."""
    return until_broken_pipe(_main, argv)


def _main(argv: Sequence[str] | None = None) -> int:
    try:
        arguments = parse_arguments(take_words(sys.argv[1:] if argv is None else argv, NAME))
    except UsageError as error:
        return refuse(error, NAME, f"\n{USAGE}")
    return 0 if arguments is None else run(arguments)


def run(arguments: Arguments) -> int:
    try:
        data = read_input(arguments.input)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        return refuse(UsageError(UNREADABLE, path=arguments.input, why=why))
    file = "<stdin>" if arguments.input == "-" else arguments.input
    if status := refused_output(arguments.output, arguments.input):
        return status

    def work(text: Any, start: int, sink: Sink) -> bytes:
        return translate(text, start, file, arguments, sink)

    if (
        not arguments.split and not arguments.expect
    ):  # as it stands: what is neither text nor bytecode says so
        from tileiras.tools.pieces import treat

        status, made = treat(data, 0, file, False, work)
        return status or write_output(arguments.output, made)
    status, parts = run_pieces(data, arguments.split, arguments.expect, file, work)
    return status or write_output(arguments.output, b"".join(filter(None, parts)))


def translate(text: Any, start: int, file: str, arguments: Arguments, sink: Sink) -> bytes:
    """The other form of one piece. Errors: CompileError; the sink has said why."""
    from tileiras.compiler.bytecode.reader import is_bytecode
    from tileiras.compiler.ir.verify import verify_or_fail
    from tileiras.compiler.source import load, load_text, to_bytecode, to_text, version_of

    if arguments.version is not None:
        version_of(arguments.version, sink)
    if isinstance(text, str):
        module = load_text("\n" * start + text, sink, file, arguments.unregistered)
    else:
        module = load(text, sink, file=file, allow_unregistered=arguments.unregistered)
    if arguments.verify:
        verify_or_fail(module, sink)
    binary = not isinstance(text, str) and is_bytecode(text)
    to = arguments.to or ("text" if binary and arguments.version is None else "bytecode")
    if to == "bytecode":
        return to_bytecode(module, arguments.version, sink)
    if to == "roundtrip":
        module = load(to_bytecode(module, arguments.version, sink), sink, file=file)
        if arguments.verify:
            verify_or_fail(module, sink)
    printed = to_text(module, generic=arguments.generic, debug=arguments.debug)
    return printed.encode("utf-8", "surrogateescape")


if __name__ == "__main__":
    sys.exit(main())
