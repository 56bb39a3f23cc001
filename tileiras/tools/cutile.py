"""`tileiras-cutile`: runs a cuTile Python script on a machine without a GPU, unchanged.

The script runs in this process as `python script.py` would run it; its exit status is the command's.
"""

from __future__ import annotations

import argparse
import os
import sys
import types

from tileiras.diag import Catalogue, Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

common = Catalogue("tileiras.tools.diags")
diags = Catalogue("tileiras.run.cutile.diags")

EXIT_USAGE, EXIT_CONFIGURATION = 1, 2

EPILOG = """\
targets:
  cpu        native code on all cores (default)
  reference  interprets the Tile IR: every op, every element type
  emulator   compiles for --gpu-name and executes the PTX
  gpu        leaves everything to cuTile and the machine's driver

The same for any Python process, and for those that it starts: TILEIRAS_CUTILE=TARGET[:sm_NN][:check][:map-cuda].
For tests: pytest -p tileiras.pytest --tileiras-target=TARGET.

exit codes: that of the script; 1 wrong use or an unreadable script, 2 configuration

example:
  tileiras-cutile --target emulator --gpu-name sm_90 matmul.py --size 256
"""


def build_parser() -> argparse.ArgumentParser:
    from tileiras.run.cutile.settings import TARGETS

    from .parser import Parser

    parser = Parser(
        lambda text: Refusal(diags.COMMAND_LINE, text=text),
        prog="tileiras-cutile",
        description="Run a cuTile Python script without a GPU.",
        epilog=EPILOG,
        usage="%(prog)s [options] SCRIPT [ARGUMENT ...] | %(prog)s [options] -m MODULE [ARGUMENT ...]",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--target", choices=(*TARGETS, "gpu"), default="", help="where kernels run")
    add("--gpu-name", "--arch", dest="gpu_name", default="", metavar="sm_NN",
        help="the GPU that the script sees (default: sm_90 for the emulator, else sm_100)")  # fmt: skip
    add("--map-cuda", action="store_true", help="device='cuda' of a PyTorch without CUDA means the CPU")
    add("--check", action="store_true", help="report undefined behaviour, races and reads of unset memory")
    add("--report", default="", metavar="FILE",
        help="write a report of all kernels that were compiled: FILE.html to read, FILE.json as data")  # fmt: skip
    add("-m", dest="module", nargs=argparse.REMAINDER, help="run a module, as python -m does")
    add("script", nargs="?", help="the script")
    add("arguments", nargs=argparse.REMAINDER, help="its arguments")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run the command; the script's exit status, where it does not end the process itself."""
    from tileiras import terminal

    parser = build_parser()

    def fail(refusal: Refusal) -> NoReturn:
        raise SystemExit(terminal.refuse(refusal, "tileiras-cutile"))

    words = list(sys.argv[1:] if argv is None else argv)
    for at, word in enumerate(words):  # ours stand before the script's, and a value behind "="
        if word == "--color":
            words[at] = "--color=always"
        elif word == "--diagnostic-codes":
            os.environ[terminal.CODES] = "1"
        elif not word.startswith("-") and (
            at == 0 or words[at - 1] not in ("--target", "--gpu-name", "--arch")
        ):
            break
        elif word == "-m":
            break
    options = parser.parse_args(words)
    if options.color is not None and not terminal.set_colour(options.color):
        known = ", ".join(terminal.COLOUR_MODES)
        fail(Refusal(common.CHOICE, option="--color", value=options.color, known=known))
    if not options.script and not options.module:
        fail(Refusal(diags.NO_SCRIPT))
    try:
        prepare(options)
    except ImportError as missing:
        fail(Refusal(diags.NEEDS_NUMPY, why=missing))
    except Refusal as wrong:
        fail(wrong)
    if options.report:
        check_report(options.report, fail)
    try:
        return run(options, fail)
    finally:
        if options.report:
            write_report(options.report)


def check_report(path: str, fail: Any) -> None:
    """Ends the command for a name that says no form (1), and for a file that cannot be written (2)."""
    from tileiras.outputs import OutputError
    from tileiras.report import write

    if problem := write.wrong_name(path):
        fail(Refusal(diags.REPORT_NAME, problem=problem))
    try:
        write.check(path)
    except OutputError as error:
        fail(error)


def write_report(path: str) -> None:
    """What the script compiled for GPUs, with the counts of the emulator where it ran there."""
    from tileiras.outputs import OutputError
    from tileiras.report import program, write

    try:
        write.write(path, [program.module_of_image(image) for image in _images])
    except OutputError as error:
        from tileiras.terminal import refuse

        refuse(error, "tileiras-cutile")


_images: list[Any] = []


def run(options: argparse.Namespace, fail: Any) -> int:
    """The script's exit status."""
    if options.module:
        return run_module(options.module)
    try:
        with open(options.script, "rb") as file:
            code = compile(file.read(), options.script, "exec", dont_inherit=True)
    except OSError as error:
        fail(Refusal(common.CANNOT_READ, path=options.script, why=error.strerror))
    except MemoryError:
        fail(Refusal(common.CANNOT_READ, path=options.script, why="out of memory"))
    except (SyntaxError, ValueError) as error:
        sys.excepthook(type(error), error.with_traceback(None), None)
        return EXIT_USAGE
    return run_script(options.script, code, options.arguments)


def prepare(options: argparse.Namespace) -> None:
    """Choose the target. Errors: ImportError, Refusal."""
    from tileiras.run.cutile import Settings, activate, deactivate

    if options.target == "gpu":
        if options.check or options.map_cuda or options.gpu_name or options.report:
            raise Refusal(diags.ONLY_GPU, options="--check, --map-cuda, --gpu-name and --report")
        deactivate()
        return
    import ml_dtypes  # noqa: F401
    import numpy  # noqa: F401

    settings = Settings(options.target, options.gpu_name, options.check, options.map_cuda)
    settings.images = _images if options.report else None
    activate(settings)


def run_script(path: str, code: Any, arguments: list[str]) -> int:
    main_module = types.ModuleType("__main__")
    main_module.__file__ = path
    main_module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = main_module
    sys.argv = [path, *arguments]
    folder = os.path.dirname(os.path.realpath(path))
    if sys.path and sys.path[0] == "":
        sys.path[0] = folder
    else:
        sys.path.insert(0, folder)
    return run_as_main(lambda: exec(code, main_module.__dict__))


def run_module(words: list[str]) -> int:
    import runpy

    sys.argv = words
    if "" not in sys.path:
        sys.path.insert(0, "")
    return run_as_main(lambda: runpy.run_module(words[0], run_name="__main__", alter_sys=True))


def run_as_main(run: Any) -> int:
    """0, or 1 with the traceback of the script alone. SystemExit and Ctrl-C end the process as they always do."""
    try:
        run()
    except SystemExit:
        raise
    except BaseException as error:
        trace = error.__traceback__
        own = (__file__, os.path.join(os.path.dirname(os.__file__), "runpy.py"))
        while trace is not None and trace.tb_frame.f_code.co_filename in (*own, "<frozen runpy>"):
            trace = trace.tb_next
        if isinstance(error, KeyboardInterrupt):
            raise
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
