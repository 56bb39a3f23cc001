"""`tileiras-run KERNEL.py`: one `@ct.kernel` of a cuTile Python file, launched with arguments from the shell.

The file is imported, not run as a script; its kernel is launched by cuTile itself, on the target chosen. Arrays are
passed whole, and what the kernel annotates as a constant takes the value given.
"""

from __future__ import annotations

import errno
import importlib.util
import inspect
import os
import sys

from tileiras.diag import Catalogue, Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

common = Catalogue("tileiras.tools.diags")
diags = Catalogue("tileiras.run.cutile.diags")


def load_kernels(path: str, target: str, gpu_name: str, check: bool, seed: int | None) -> dict[str, Any]:
    """The kernels of a file by name, for a target. Errors: Refusal."""
    from tileiras.run.cutile import Settings, activate

    if target == "gpu":
        raise Refusal(diags.GPU_BY_SCRIPT)
    if not os.path.isfile(path):
        raise Refusal(common.CANNOT_READ, path=path, why=os.strerror(errno.ENOENT))
    settings = Settings(target, gpu_name, check)
    settings.seed = seed
    activate(settings)
    try:
        import cuda.tile as ct
    except ImportError as error:
        raise Refusal(diags.NEEDS_CUTILE, python=sys.executable, why=error) from None
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    name = os.path.splitext(os.path.basename(path))[0]
    name += (
        ".kernel" if name in sys.modules else ""
    )  # whoever imports that name means the module that is there
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None  # the name ends in .py
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise Refusal(common.PYTHON_FAILED, path=path, why=f"{type(error).__name__}: {error}") from error
    return {key: value for key, value in vars(module).items() if isinstance(value, ct.kernel)}


def describe(name: str, kernel: Any) -> str:
    """NAME(parameters) with what is said of each."""
    words = []
    for parameter in inspect.signature(kernel._pyfunc).parameters.values():
        constant = "ConstantAnnotation" in repr(parameter.annotation)
        words.append(f"{parameter.name}: constant" if constant else parameter.name)
    return f"{name}({', '.join(words)})"


def choose(kernels: dict[str, Any], entry: str | None, path: str) -> tuple[str, Any]:
    """(name, kernel) that the command line means. Errors: Refusal."""
    if entry is None and len(kernels) == 1:
        return next(iter(kernels.items()))
    listed = ", ".join(kernels) or "no kernel"
    if entry is None:
        raise Refusal(common.RUN_WHICH_ENTRY, path=path, known=listed)
    if entry not in kernels:
        raise Refusal(diags.NO_KERNEL, entry=entry, path=path, listed=listed)
    return entry, kernels[entry]


def launch(name: str, kernel: Any, grid: tuple[int, ...], args: list[Any]) -> None:
    """Launch it. Errors: Refusal, with what cuTile says."""
    import cuda.tile as ct

    wanted = list(inspect.signature(kernel._pyfunc).parameters)
    if len(args) != len(wanted):
        raise Refusal(
            diags.ARGUMENT_COUNT, name=name, count=len(wanted), wanted=", ".join(wanted), got=len(args)
        )
    values = [value.item() if hasattr(value, "item") and not value.ndim else value for value in args]
    try:
        ct.launch(None, tuple(grid), kernel, tuple(values))
    except ct.TileError as error:
        raise Refusal(diags.CUTILE_REFUSES, kind=type(error).__name__, what=str(error).rstrip()) from error
    except (TypeError, ValueError) as error:
        raise Refusal(diags.CUTILE_ARGUMENT, name=name, why=error) from error
