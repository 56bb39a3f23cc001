"""``tileiras-build json``: the kernel table of a cubin, read from the cubin alone."""

from __future__ import annotations

from tileiras.diag import Catalogue
from tileiras.tools.build.arguments import ONE, Arguments, Flag, UsageError
from tileiras.tools.build.command import read_input
from tileiras.tools.build.outputs import Outputs

diags = Catalogue("tileiras.tools.build.diags")

SYNOPSIS = "-o OUT CUBIN"
FLAGS = (Flag("-o", ONE, "the table; '-' for standard output", "FILE"),)


def run(arguments: Arguments, outputs: Outputs) -> None:
    """The verb."""
    from tileiras.tools.build import table

    if len(arguments.inputs) != 1 or not arguments.o:
        raise UsageError(diags.JSON_WORDS)
    data = read_input(arguments.inputs[0])
    if arguments.o != "-":
        outputs.declare(arguments.o, keep_if_same=True)
    text = table.as_text(table.of_cubin(data, arguments.inputs[0]))
    if arguments.o == "-":
        print(text.decode(), end="")
        return
    outputs.put(arguments.o, text)
    outputs.commit()
