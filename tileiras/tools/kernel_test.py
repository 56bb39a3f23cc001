"""Runs a kernel on arrays from an .npz file and compares what it wrote: the test behind tile_test and add_tile_test.

    tileiras-build test KERNEL --entry NAME --data CASE.npz [--grid 8,1,1] [--target emulator|reference|cpu|gpu]
                   [--arch sm_90] [--rtol R] [--atol A] [--toolkit-root DIR] [--skip-without-gpu]
                   [--built TABLE SOURCE]...

KERNEL is compiled when the test runs; with --built nothing is: each TABLE is the kernel table that `tileiras-build compile`
wrote, beside it lie the image (x.sm_90.cubin for x.sm_90.kernels.json) and for the emulator its PTX, and SOURCE is the Tile
IR that they were made from.

The file holds `arg0`, `arg1`, ... in the order of the entry's parameters: an array stands for a pointer to its
first element, a 0-dimensional array for a scalar. `expected0` is what argument 0 must hold after the launch; an
argument without an `expected` entry must be unchanged. Types that .npz has no name for are stored as integers and named in
the key: `arg1:bfloat16`, `expected1:float8_e4m3fn` (ml_dtypes). `grid` may stand in the file as well.

Integers and booleans must be equal; floating-point numbers within rtol and atol, by default those of the type
(a few units in its last place, for a kernel that computes in another order than its formula). NaN equals NaN.

Exit codes: 0 equal, 1 usage or unreadable input, 2..5 as the compiler's, 6 the results differ, 77 there is no GPU and
--skip-without-gpu was given.
"""

from __future__ import annotations

import os
import sys

from tileiras.diag import Catalogue, Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import numpy as np

common = Catalogue("tileiras.tools.diags")
diags = Catalogue("tileiras.tools.kernel_test_diags")
build = Catalogue("tileiras.tools.build.diags")

DIFFERENT = 6
SKIPPED = 77

# type -> (rtol, atol): about 2^-(mantissa bits - 4), and the same of a value of magnitude one.
TOLERANCES = {
    "float64": (1e-12, 1e-12),
    "float32": (2e-6, 2e-6),
    "float16": (1e-2, 1e-2),
    "bfloat16": (6e-2, 6e-2),
}
_NARROW = (0.25, 0.25)  # eight bits and less

_SHOWN = 5


class TestError(Refusal):
    """The test cannot be run as it is written; exit code 1."""


class Case:
    """What the .npz file holds."""

    __slots__ = ("args", "expected", "grid")

    def __init__(self, args: list, expected: dict[int, np.ndarray], grid: tuple[int, ...] | None) -> None:
        self.args = args
        self.expected = expected
        self.grid = grid


def _typed(key: str, array: np.ndarray) -> tuple[str, np.ndarray]:
    """Returns (name, array) of an entry, viewed as the type after the colon of its key."""
    import numpy

    name, colon, dtype = key.partition(":")
    if not colon:
        if array.dtype.kind == "V":
            raise TestError(diags.NO_NAME_OF_TYPE, key=key, name=name)
        return name, array
    try:
        wanted = numpy.dtype(dtype)
    except TypeError:
        try:
            import ml_dtypes

            wanted = numpy.dtype(getattr(ml_dtypes, dtype))
        except (ImportError, AttributeError, TypeError):
            raise TestError(diags.UNKNOWN_TYPE, key=key, dtype=dtype) from None
    if array.dtype.itemsize != wanted.itemsize:
        raise TestError(diags.VIEW_SIZE, key=key, size=array.dtype.itemsize, dtype=dtype)
    return name, array.view(wanted)


def load_case(path: str) -> Case:
    """Returns the case in an .npz file. Errors: TestError."""
    import numpy

    try:
        with numpy.load(path, allow_pickle=False) as file:
            entries = dict(_typed(key, file[key]) for key in file.files)
    except (OSError, ValueError, EOFError) as error:
        raise TestError(diags.CASE_FILE, path=path, why=error) from None
    except Exception as error:
        if type(error).__name__ != "BadZipFile":
            raise
        raise TestError(diags.CASE_FILE, path=path, why=error) from None
    grid = entries.pop("grid", None)
    args: dict[int, np.ndarray] = {}
    expected: dict[int, np.ndarray] = {}
    for name, array in entries.items():
        for prefix, table in (("arg", args), ("expected", expected)):
            if name.startswith(prefix) and name[len(prefix) :].isdecimal() and len(name) < len(prefix) + 5:
                table[int(name[len(prefix) :])] = array
                break
        else:
            raise TestError(diags.CASE_KEY, path=path, name=name)
    if sorted(args) != list(range(len(args))):
        raise TestError(diags.MISSING_ARGUMENT, path=path, last=max(args))
    if not expected:
        raise TestError(diags.NOTHING_EXPECTED, path=path)
    for index, array in expected.items():
        if index not in args or args[index].shape != array.shape or args[index].dtype != array.dtype:
            raise TestError(diags.EXPECTED_SHAPE, path=path, index=index)
    ordered = [args[i][()] if args[i].ndim == 0 else args[i].copy(order="K") for i in range(len(args))]
    shape = None if grid is None else tuple(int(n) for n in numpy.atleast_1d(grid))
    return Case(ordered, expected, shape)


def difference(got: np.ndarray, expected: np.ndarray, rtol: float | None, atol: float | None) -> str | None:
    """Returns how two arrays of one type and shape differ, or None when they agree."""
    import numpy

    name = expected.dtype.name
    exact = expected.dtype.kind in "iub"
    if exact:
        wrong = got != expected
        used = "exactly"
    else:
        default = TOLERANCES.get(name, _NARROW)
        r = default[0] if rtol is None else rtol
        a = default[1] if atol is None else atol
        wide = numpy.float64
        left, right = got.astype(wide), expected.astype(wide)
        with numpy.errstate(invalid="ignore"):
            # An infinity is near nothing but itself, whatever a tolerance relative to it says.
            near = numpy.isfinite(right) & (numpy.abs(left - right) <= a + r * numpy.abs(right))
        wrong = ~(near | (left == right) | (numpy.isnan(left) & numpy.isnan(right)))
        used = f"within rtol {r:g}, atol {a:g}"
    count = int(numpy.count_nonzero(wrong))
    if not count:
        return None
    lines = [f"{count} of {expected.size} elements ({name}) differ when compared {used}"]
    for index in numpy.argwhere(wrong)[:_SHOWN]:
        at = tuple(int(i) for i in index)
        place = ", ".join(map(str, at))
        lines.append(f"  at [{place}]: got {got[at]}, expected {expected[at]}")
    if count > _SHOWN:
        lines.append("  ...")
    return "\n".join(lines)


_VALUES = (
    "--entry",
    "--data",
    "--grid",
    "--target",
    "--arch",
    "--rtol",
    "--atol",
    "--toolkit-root",
    "--opt-level",
)


def _parse(argv: list[str], built: list[tuple[str, str]]) -> dict[str, str]:
    """The options by name; what --built names is added to `built`."""
    found: dict[str, str] = {}
    at = 0
    while at < len(argv):
        word = argv[at]
        at += 1
        name, equals, value = word.partition("=")
        if word == "--skip-without-gpu":
            found[word] = "yes"
        elif word == "--built":
            if at + 2 > len(argv):
                raise TestError(diags.BUILT)
            built.append((argv[at], argv[at + 1]))
            at += 2
        elif name in _VALUES:
            if not equals:
                if at == len(argv):
                    raise TestError(common.NEEDS_VALUE, option=name)
                value = argv[at]
                at += 1
            found[name] = value
        elif word.startswith("-"):
            raise TestError(diags.UNKNOWN_OPTION, option=word, known=", ".join(_VALUES))
        elif "kernel" in found:
            raise TestError(diags.ONE_KERNEL, first=found["kernel"], second=word)
        else:
            found["kernel"] = word
    for name in ("kernel", "--entry", "--data"):
        if name not in found:
            raise TestError(build.IS_NEEDED, option="a kernel" if name == "kernel" else name)
    return found


def _number(options: dict[str, str], name: str) -> float | None:
    if name not in options:
        return None
    try:
        number = float(options[name])
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):  # an infinite tolerance would let everything pass
        raise TestError(diags.TOLERANCE, option=name, text=options[name])
    return number


def _grid(options: dict[str, str], case: Case) -> tuple[int, int, int]:
    shape = case.grid
    if "--grid" in options:
        try:
            shape = tuple(int(n) for n in options["--grid"].replace("x", ",").split(","))
        except ValueError:
            raise TestError(diags.GRID_FORM, text=options["--grid"]) from None
    shape = shape or (1,)
    if len(shape) > 3 or any(n < 0 for n in shape):
        raise TestError(diags.GRID_SIZE, shape=shape)
    filled = (*shape, 1, 1)
    return filled[0], filled[1], filled[2]


def load_built(entry: str, built: list[tuple[str, str]], target: str) -> Any:
    """(program, symbol) of what a build made. Errors: TestError where no table has the kernel, or a file is missing."""
    import json

    from tileiras.compiler.target import sm
    from tileiras.compiler.target.tensor_maps import from_dict
    from tileiras.driver import Kernel, Program
    from tileiras.options import Options
    from tileiras.run import load_module

    there: list[str] = []
    for table_path, source in built:
        table = json.loads(_read(table_path))
        if table["arch"] == "cpu":
            continue
        there += [row["name"] for row in table["kernels"]]
        if not any(entry in (row["name"], row["symbol"]) for row in table["kernels"]):
            continue
        image = table_path.removesuffix(".kernels.json")
        options = Options(gpu_name=table["arch"], launch_abi=table["launch_abi"])
        program = Program(options, sm.find(table["arch"]), load_module(_path(source)))
        program.cubin = _read(f"{image}.cubin")
        if target == "emulator":
            program.ptx = _read(f"{image}.ptx").decode("utf-8", "surrogateescape")
        symbol = ""
        for row in table["kernels"]:
            kernel = Kernel(row["symbol"])
            kernel.params = row["params"]
            kernel.tensor_maps = tuple(map(from_dict, row.get("hidden", ())))
            # what runs: a tile kernel is launched with one thread, and the emulator needs them all
            kernel.block = tuple(row["threads"] if target == "emulator" else row["block"])
            kernel.cluster = tuple(row["cluster"])
            kernel.static_shared, kernel.dynamic_shared = row["static_shared"], row["dynamic_shared"]
            program.kernels[row["symbol"]] = kernel
            if entry in (row["name"], row["symbol"]):
                symbol = row["symbol"]
        return program, symbol
    raise TestError(diags.NOT_BUILT, entry=entry, known=", ".join(there) or "none")


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise TestError(diags.NOT_THERE, path=path, why=error.strerror) from None


def run_case(options: dict[str, str], built: list[tuple[str, str]]) -> int:
    """Returns the exit code of one test, its verdict printed."""
    try:
        import numpy
    except ImportError:
        raise TestError(diags.NEEDS_NUMPY, python=sys.executable) from None
    import tileiras

    target = options.get("--target", "emulator")
    if target not in ("emulator", "reference", "cpu", "gpu"):
        raise TestError(diags.TARGET, target=target)
    case = load_case(options["--data"])
    before = [a.copy() if isinstance(a, numpy.ndarray) else a for a in case.args]
    rtol, atol = _number(options, "--rtol"), _number(options, "--atol")
    grid = _grid(options, case)
    if options.get("--toolkit-root"):
        os.environ["TILEIRAS_TOOLKIT_ROOT"] = options["--toolkit-root"]
    arch = options.get("--arch", "sm_90")
    entry = options["--entry"]
    source: Any
    if built and target not in ("reference", "cpu"):
        source, entry = load_built(entry, built, target)
    elif built:
        program, entry = load_built(entry, built, target)
        source = program.module
    elif not os.path.isfile(options["kernel"]):
        raise TestError(diags.NO_KERNEL_FILE, path=options["kernel"])
    else:
        source = _path(options["kernel"])  # a path, not a name: a str may also be Tile IR text
    tileiras.launch(
        source,
        entry,
        grid=grid,
        args=case.args,
        target=target,
        gpu_name=arch,
    )
    failed = False
    for index, got in enumerate(case.args):
        if not isinstance(got, numpy.ndarray):
            continue
        wanted = case.expected.get(index)
        if wanted is None:
            said = difference(got, before[index], 0.0, 0.0)
        else:
            said = difference(got, wanted, rtol, atol)
        if said:
            failed = True
            what = "was written to, but no expected value is given" if wanted is None else "is wrong"
            print(f"argument {index} {what}: {said}")
    where = f"{options['--entry']} on {target}" + (f" for {arch}" if target == "emulator" else "")
    print(f"{'FAILED' if failed else 'PASSED'}: {where}, grid {grid[0]}x{grid[1]}x{grid[2]}")
    return DIFFERENT if failed else 0


def _path(name: str) -> os.PathLike:
    from pathlib import Path

    return Path(name)


def main(argv: list[str]) -> int:
    """Returns the exit code of the command."""
    options: dict[str, str] = {}
    if "--help" in argv or "-h" in argv:
        print((__doc__ or "").partition("\n\n")[2].rstrip())
        return 0
    try:
        built: list[tuple[str, str]] = []
        options = _parse(argv, built)
        return run_case(options, built)
    except TestError as error:
        from tileiras.terminal import name_code

        sys.stderr.write(f"tileiras-build test: {error}\n")
        name_code(error)
        return 1
    except Exception as error:
        from tileiras.diag import CompileError

        if not isinstance(error, CompileError):
            raise
        from tileiras.terminal import show

        for emitted in error.diagnostics:
            show(emitted)
        if "--skip-without-gpu" in options and any(
            emitted.code == "RUN-0402" for emitted in error.diagnostics
        ):
            return SKIPPED
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
