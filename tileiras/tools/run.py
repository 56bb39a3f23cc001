"""`tileiras-run`: launch a kernel from the shell, with arrays from .npy/.npz files or made on the spot.

The kernel runs on the reference interpreter, on the PTX emulator or on a GPU; results can be saved and
compared. Arguments are flat and in the order of the entry's parameters (`--list` shows them); `--tensor` adds
an array the way cuTile Python passes it: pointer, extents, strides.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
import time

from tileiras.diag import Catalogue, Refusal

from .run_results import check_saved, report
from .run_values import Typed, Usage, parse_value, split_name, tile_types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    import numpy as np

diags = Catalogue("tileiras.tools.diags")

EPILOG = """\
argument values, for --arg, --tensor, --memory and --expect, each as VALUE or NAME=VALUE:
  a.npy            an array from a file; the file itself is not changed
  d.npz:key        an array of an archive
  a.npy:bf16       the same bytes as elements of another type (NumPy stores bf16 and fp8 as raw bytes)
  zeros:f32:1024   zeros, ones, empty, arange: TYPE and SHAPE (4x8, 1024)
  full:i32:4x8:7   one value everywhere
  random:f32:4x8   uniform in [0, 1), integers over their range; random:f32:4x8:SEED
  normal:f16:64    standard normal; normal:f16:64:SEED
  1024  0.5  true  a scalar of the parameter's type;  null  a null pointer
  i32:1024         a scalar, checked against the parameter's type
  @NAME            the array of an earlier argument again, by name or number
TYPE is a Tile IR element type (i1 i8 i16 i32 i64 f16 bf16 f32 tf32 f64 f8E4M3FN f8E5M2 f8E8M0FNU f4E2M1FN) or
one of NumPy (uint8, float32). Arguments without a name are called by their number, counted from 0.

exit codes:
  0  launched, and equal to everything expected
  1  wrong use, or an input that cannot be read
  2  configuration (unknown GPU, no toolkit, no device)     3  damaged bytecode
  5  it does not compile, or the launch failed: an access outside of memory, an assertion, findings of --check
  6  launched, but a result differs from what was expected

a cuTile kernel (INPUT ends in .py) takes its own parameters: arrays whole, a number for a constant

examples:
  tileiras-run vadd.tileir --entry vadd --grid 8 --arg a.npy --arg b.npy --arg out=zeros:f32:1024 \\
      --arg 1024 --target emulator --expect out=ref.npy --rtol 1e-5 --save out=out.npy --check
  tileiras-run vadd.py --entry vadd --grid 8 --arg a.npy --arg b.npy --arg out=zeros:f32:1024 --arg 128 --show out
"""


def build_parser() -> argparse.ArgumentParser:
    from tileiras.options import TENSOR_MAPS

    from .parser import Parser

    parser = Parser(
        lambda text: Usage(diags.RUN_COMMAND_LINE, text=text),
        prog="tileiras-run",
        description="Launch a Tile IR kernel on the reference interpreter, the PTX emulator or a GPU.",
        epilog=EPILOG,
    )
    add = parser.add_argument
    add("input", metavar="INPUT", help="Tile IR bytecode or text, or a Python file with cuTile kernels")
    add("--entry", metavar="NAME", help="the entry to launch (may be left out when there is one)")
    add("--grid", metavar="X[,Y[,Z]]", default="1", help="tile blocks in each dimension (default: 1)")
    add("--arg", dest="args", action="append", default=[], metavar="VALUE", help="next argument")
    add("--tensor", dest="args", action="append", metavar="VALUE", type=lambda t: ("tensor", t),
        help="next arguments: an array's pointer, extents and strides (in elements)")  # fmt: skip
    add(
        "--memory",
        action="append",
        default=[],
        metavar="VALUE",
        help="an array reached only through stored pointers",
    )
    add(
        "--target",
        choices=("reference", "emulator", "cpu", "gpu"),
        default="reference",
        help="where to run (default: reference)",
    )
    add(
        "--gpu-name",
        "--arch",
        dest="gpu_name",
        default="sm_90",
        metavar="sm_N",
        help="GPU to compile for (default: sm_90)",
    )
    add(
        "-O",
        "--opt-level",
        dest="opt_level",
        type=int,
        choices=range(4),
        default=3,
        metavar="N",
        help="0..3 (default: 3)",
    )
    add(
        "--tensor-maps",
        choices=TENSOR_MAPS,
        default="none",
        help="whether the launch encodes descriptors for bulk tensor copies (emulator, gpu; default: none)",
    )
    add(
        "--check",
        action="store_true",
        help="also report undefined behaviour, races and reads of unset memory",
    )
    add("--seed", type=int, metavar="N", help="shuffle the order in which tile blocks (warps) run")
    add(
        "--profile",
        action="store_true",
        help="print counts by line of the kernel (target emulator): instructions, wavefronts, sectors, bytes in flight",
    )
    add(
        "--expect",
        action="append",
        default=[],
        metavar="ARG=VALUE",
        help="compare an argument after the launch",
    )
    add("--rtol", type=tolerance, default=1e-5, help="relative tolerance for floats (default: 1e-5)")
    add("--atol", type=tolerance, default=1e-8, help="absolute tolerance for floats (default: 1e-8)")
    add(
        "--save",
        action="append",
        default=[],
        metavar="ARG=FILE",
        help="write an argument to a .npy file after the launch",
    )
    add("--show", action="append", default=[], metavar="ARG", help="print an argument after the launch")
    add("--list", action="store_true", help="list the entries of INPUT with their parameters, and stop")
    add("-q", "--quiet", action="store_true", help="print only what the kernel prints, and differences")
    return parser


def tolerance(text: str) -> float:
    """A number for which a comparison can fail. Errors: ValueError."""
    number = float(text)
    if not 0 <= number < float("inf"):
        raise ValueError(text)
    return number


def parse_grid(text: str) -> tuple[int, ...]:
    try:
        grid = tuple(int(n) for n in text.replace("x", ",").split(","))
    except ValueError:
        grid = ()
    if not 1 <= len(grid) <= 3 or min(grid) < 1:
        raise Usage(diags.RUN_GRID, text=text)
    return grid


class Plan:
    """What the command line asks for, with every array loaded. whole: arrays are passed without extents and strides."""

    def __init__(self, options: argparse.Namespace, whole: bool = False) -> None:
        self.grid = parse_grid(options.grid)
        self.flat: list[Any] = []
        self.typed: list[tuple[int, str]] = []
        self.named: dict[str, Any] = {}  # by name and by number
        for item in options.args:
            tensor = isinstance(item, tuple)
            name, text = split_name(item[1] if tensor else item)
            value = parse_value(text, self.named)
            number = len(self.flat)
            if isinstance(value, Typed):
                self.typed.append((number, value.type_name))
                value = value.value
            self.flat.append(value)
            for key in (str(number), name):
                if key is not None:
                    self.named[key] = value
            if tensor:
                if not hasattr(value, "strides"):
                    raise Usage(diags.RUN_TENSOR, text=text)
            if tensor and not whole:
                self.flat += [*value.shape, *(s // value.itemsize for s in value.strides)]
        self.memory = []
        for item in options.memory:
            name, text = split_name(item)
            self.memory.append(self.array_of(parse_value(text, self.named), item))
            if name is not None:
                self.named[name] = self.memory[-1]
        self.expect = [self.pair(item, "--expect") for item in options.expect]
        self.expected = [(name, parse_value(text, self.named)) for name, text in self.expect]
        self.save = [self.pair(item, "--save") for item in options.save]
        check_saved([path for _, path in self.save], options.input)
        for name in options.show:
            self.find(name)

    @staticmethod
    def array_of(value: Any, text: str) -> np.ndarray:
        if not hasattr(value, "strides"):
            raise Usage(diags.RUN_NO_ARRAY, text=text)
        return value

    def find(self, name: str) -> np.ndarray:
        if name not in self.named:
            raise Usage(diags.RUN_NO_ARGUMENT, name=name, known=", ".join(self.named) or "none")
        return self.array_of(self.named[name], name)

    def pair(self, text: str, option: str) -> tuple[str, str]:
        name, equals, value = text.partition("=")
        if not equals or not value:
            raise Usage(diags.RUN_PAIR, option=option, text=text)
        self.find(name)
        return name, value


def list_entries(module: Any) -> None:
    from tileiras.run.entries import entries_of

    for name, op in entries_of(module).items():
        params = ", ".join(f"{i}: {value.type}" for i, value in enumerate(op.regions[0].block.args))
        print(f"{name}({params})")


def check_types(plan: Plan, module: Any, entry: str) -> None:
    """Scalars that name their type must have the parameter's."""
    from tileiras.run.entries import find_entry

    parameters = find_entry(module, entry).regions[0].block.args
    for number, name in plan.typed:
        if number < len(parameters):
            elem = getattr(parameters[number].type, "elem", parameters[number].type)
            wanted = "ptr" if str(elem).startswith("ptr") else str(elem)
            if wanted not in tile_types(name):
                raise Usage(diags.RUN_ARGUMENT_TYPE, number=number, entry=entry, wanted=wanted, name=name)


def main(argv: list[str] | None = None) -> int:
    """Run the command; the exit code."""
    from tileiras.terminal import until_broken_pipe

    return until_broken_pipe(_main, argv)


def _main(argv: list[str] | None = None) -> int:
    from tileiras import terminal

    parser = build_parser()
    argv = terminal.take_words(sys.argv[1:] if argv is None else argv, "tileiras-run")
    options = parser.parse_args(argv)
    try:
        import numpy  # noqa: F401
    except ImportError:
        return terminal.refuse(Usage(diags.RUN_NEEDS_NUMPY), "tileiras-run")
    from tileiras.diag import CompileError

    try:
        return run(options)
    except Refusal as wrong:
        return terminal.refuse(wrong, "tileiras-run")
    except CompileError as error:
        import os

        if os.path.isfile(options.input):
            with open(options.input, "rb") as file:
                terminal.remember(options.input, file.read())
        for diagnostic in error.diagnostics:
            terminal.show(diagnostic)
        terminal.advise(error.diagnostics)
        if not error.diagnostics:
            terminal.fail("tileiras-run", f"exit code {error.exit_code}")
        return error.exit_code


def run(options: argparse.Namespace) -> int:
    if options.input.endswith(".py"):
        return run_python(options)
    from tileiras.run import launch, load_module
    from tileiras.run.entries import entries_of

    module = load_module(options.input)
    if options.list:
        list_entries(module)
        return 0
    names = list(entries_of(module))
    entry = options.entry
    if entry is None:
        if len(names) != 1:
            raise Usage(diags.RUN_WHICH_ENTRY, path=options.input, known=", ".join(names) or "no entry")
        (entry,) = names
    plan = Plan(options)
    check_types(plan, module, entry)
    ours = options.target in ("reference", "cpu")  # no PTX is made
    more = {} if ours else {"opt_level": options.opt_level, "tensor_maps": options.tensor_maps}
    source = module if ours else options.input
    profile = None
    if options.profile:
        if options.target != "emulator":
            raise Usage(diags.RUN_PROFILE_TARGET, target=options.target)
        from tileiras.run.profile import Profile

        profile = Profile()
    start = time.perf_counter()
    with launching(entry, options.target, math.prod(plan.grid)):
        launch(
            source, entry, plan.grid, plan.flat, options.target, options.gpu_name,
            memory=plan.memory, check=options.check, seed=options.seed, profile=profile, **more,
        )  # fmt: skip
    seconds = time.perf_counter() - start
    return report(options, plan, entry, seconds, "" if profile is None else profile.table())


@contextlib.contextmanager
def launching(entry: str, target: str, blocks: int) -> Iterator[None]:
    """Shows that a launch is on its way, beside what the kernel prints."""
    from tileiras import progress

    with progress.watched(f"{entry} on {target}") as line:

        def tell(ended: int, total: int) -> None:
            line.detail = f"{ended} of {total} tile blocks, "

        if line.is_active and target in ("emulator", "reference"):
            from tileiras.run import emulator, reference

            (emulator if target == "emulator" else reference).watcher.set(tell)
            tell(0, blocks)
        with contextlib.redirect_stdout(line.beside(sys.stdout) or sys.stdout):
            yield


def run_python(options: argparse.Namespace) -> int:
    """Launch a kernel of a cuTile Python file."""
    from tileiras.tools import run_cutile

    if options.memory:
        raise Usage(diags.RUN_MEMORY_OF_PYTHON)
    if options.tensor_maps != "none":
        raise Usage(diags.RUN_TENSOR_MAPS_OF_PYTHON)
    if options.profile:
        raise Usage(diags.RUN_PROFILE_OF_PYTHON)
    kernels = run_cutile.load_kernels(
        options.input, options.target, options.gpu_name, options.check, options.seed
    )
    if options.list:
        for name, kernel in kernels.items():
            print(run_cutile.describe(name, kernel))
        return 0
    name, kernel = run_cutile.choose(kernels, options.entry, options.input)
    plan = Plan(options, whole=True)
    start = time.perf_counter()
    with launching(name, options.target, math.prod(plan.grid)):
        run_cutile.launch(name, kernel, plan.grid, plan.flat)
    return report(options, plan, name, time.perf_counter() - start)


if __name__ == "__main__":
    sys.exit(main())
