"""``tileirdisasm FILE [-g]``: bytecode as text, with the options, output and exit codes of NVIDIA's tool.

Only the content of the module is printed, after a comment that names the producer. ``-g`` adds locations.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

NAME = "tileirdisasm"
OVERVIEW = """\
OVERVIEW: tileirdisasm: Tile IR disassembler of tileiras

USAGE: tileirdisasm [options] <tile bytecode file>

OPTIONS:
"""
OPTIONS = """\
  --color[=WHEN]     - Colour in messages: auto, always, never
  --diagnostic-codes - Name the code of an error in a last note; a terminal always has it
  -g                 - Alias for --print-debug-info
  --help             - Display available options
  --print-debug-info - Annotate disassembly with debugging information, if present.
  --version          - Display the version of this program
"""
NO_INPUT = 2  # no or unreadable input, as NVIDIA's tool has it


def say(text: str) -> None:
    sys.stderr.write(text + "\n")


def flag(value: str) -> bool | None:
    """The value of `--print-debug-info=`."""
    return {"": True, "true": True, "1": True, "TRUE": True, "True": True, "false": False, "0": False, "FALSE": False,
            "False": False}.get(value)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0, 1 (options), 2 (input), 3 (bytecode)."""
    from tileiras.terminal import until_broken_pipe

    return until_broken_pipe(_main, argv)


def _main(argv: Sequence[str] | None = None) -> int:
    files: list[str] = []
    debug = False
    only_files = False
    from tileiras.terminal import take_words

    for arg in take_words(sys.argv[1:] if argv is None else argv, NAME):
        if only_files or not arg.startswith("-") or arg == "-":
            files.append(arg)
            continue
        name, equals, value = arg.lstrip("-").partition("=")
        if arg == "--":
            only_files = True
        elif name in ("g", "print-debug-info"):
            chosen = flag(value)
            if chosen is None or (equals and not value):
                say(
                    f"{NAME}: for the --{name} option: '{value}' is invalid value for boolean argument! Try 0 or 1"
                )
                return 1
            debug = chosen
        elif name in ("help", "h", "help-hidden", "help-list", "help-list-hidden"):
            sys.stdout.write(OVERVIEW + OPTIONS)
            return 0
        elif name == "version":
            from tileiras.version import __version__

            sys.stdout.write(f"{NAME}: Tile IR disassembler of tileiras {__version__}\n")
            return 0
        else:
            say(f"{NAME}: Unknown command line argument '{arg}'.  Try: '{NAME} --help'")
            return 1
    if len(files) > 1:
        say(
            f"{NAME}: Too many positional arguments specified!\nCan specify at most 1 positional arguments: See: {NAME} --help"
        )
        return 1
    if not files:
        say("error: no input file provided\n\n" + OVERVIEW + OPTIONS.rstrip())
        return NO_INPUT
    return disassemble(files[0], debug)


def disassemble(path: str, debug: bool) -> int:
    from tileiras import terminal
    from tileiras.compiler.bytecode.reader import read
    from tileiras.compiler.ir.printer import print_body
    from tileiras.diag import UNREADABLE, CompileError, Refusal, Sink

    try:
        with open(path, "rb") as stream:
            data = stream.read()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        return terminal.refuse(Refusal(UNREADABLE, NO_INPUT, path=path, why=why))
    sink = Sink()
    sink.handlers.append(terminal.show)
    try:
        module = read(data, sink)
    except CompileError as error:
        terminal.complain("error: failed to read provided Tile IR bytecode")
        terminal.remember(path, data)
        terminal.advise(sink.emitted)
        return error.exit_code
    producer = module.attrs.get("producer")
    head = f"// Producer: {producer}\n" if producer is not None else ""
    return write_text(head + print_body(module, debug=debug))


def write_text(text: str) -> int:
    """To standard output; a reader that went away is no error of ours."""
    try:
        sys.stdout.flush()
        stream = getattr(sys.stdout, "buffer", None)
        if stream is None:
            sys.stdout.write(text)
        else:
            stream.write(text.encode("utf-8", "surrogateescape"))
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
