"""Reports of programs in Python: `program.report(FILE)`, and one file for all kernels that a script compiles."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def module_of_program(program: Any) -> dict[str, Any]:
    """The data of a program that was compiled without a watch: its module is compiled again."""
    from tileiras import driver
    from tileiras.diag import Sink

    from .watch import Watch
    from .write import module_of

    data, file = program.source
    watch = Watch(data, file)
    sink = Sink()
    driver.compile_loaded(program.module, program.options, sink, watch=watch)
    return module_of(watch, sink.emitted, profile=program.profile)


def module_of_image(image: Any) -> dict[str, Any]:
    """The data of a kernel that a cuTile script compiled, for the GPU that the script saw; a failed one too."""
    from tileiras import driver
    from tileiras.diag import CompileError, Sink
    from tileiras.options import Options
    from tileiras.toolchain.locate import find_ptxas

    from .watch import Watch
    from .write import module_of

    options = Options(gpu_name=image.gpu_name, opt_level=image.opt_level, launch_abi="simt")
    try:
        find_ptxas()
    except CompileError:
        options.emit = "ptx"
    watch, sink, code = Watch(image.bytecode, ""), Sink(), 0
    try:
        driver.compile_source(image.bytecode, options, sink, watch=watch)
    except CompileError as error:
        code = error.exit_code
    profile = image.profile
    if profile is not None and watch.ptx:
        profile.ptx = _without_positions(profile.ptx, image.source.ptx)
    return module_of(watch, sink.emitted, code, profile)


def _without_positions(counted: dict[int, Any], ptx: str) -> dict[int, Any]:
    """Counts by PTX line as the lines are without the `.loc` lines that this PTX has."""
    number: dict[int, int] = {}
    kept = 0
    for line, text in enumerate(ptx.split("\n"), 1):
        if not text.lstrip().startswith(".loc "):
            kept += 1
        number[line] = kept
    return {number[line]: found for line, found in counted.items()}


def report_of(program: Any, path: str | os.PathLike[str]) -> None:
    """Write the report of a program. Errors: ValueError for a name that says no form, CompileError(2)."""
    name = os.fspath(path)
    from .write import wrong_name

    if problem := wrong_name(name):
        raise ValueError(problem)
    save(name, [program])


def save(name: str, programs: list[Any]) -> None:
    """One file about all programs. Errors: CompileError(2) where it cannot be written."""
    from tileiras.diag import EXIT_CONFIGURATION, Sink
    from tileiras.outputs import OutputError

    from . import write

    try:
        write.check(name)
        write.write(name, [module_of_program(program) for program in programs])
    except OutputError as error:
        sink = Sink()
        sink.deliver(error.emitted)
        raise sink.fail(EXIT_CONFIGURATION) from None
