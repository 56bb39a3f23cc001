"""`tileiras-run KERNEL.py`: one `@ct.kernel` of a cuTile Python file, launched with arguments from the shell.

The file is imported, not run as a script; its kernel is launched by cuTile itself, on the target chosen. Arrays are
passed whole, and what the kernel annotates as a constant takes the value given.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

EXIT_USAGE, EXIT_CONFIGURATION, EXIT_COMPILE = 1, 2, 5


class Unusable(Exception):
    """The file, or cuTile, cannot be used; the text says why, `code` is the exit code."""

    def __init__(self, text: str, code: int = EXIT_USAGE) -> None:
        super().__init__(text)
        self.code = code


def load_kernels(path: str, target: str, gpu_name: str, check: bool, seed: int | None) -> dict[str, Any]:
    """The kernels of a file by name, for a target. Errors: Unusable."""
    from tileiras.run.cutile import BadSettings, Settings, activate

    if target == "gpu":
        raise Unusable(
            "a kernel of a Python file is launched on a GPU by its own script: see tileiras-cutile --help"
        )
    if not os.path.isfile(path):
        raise Unusable(f"cannot read '{path}': No such file or directory")
    try:
        settings = Settings(target, gpu_name, check)
        settings.seed = seed
        activate(settings)
    except BadSettings as wrong:
        raise Unusable(str(wrong), EXIT_CONFIGURATION) from None
    try:
        import cuda.tile as ct
    except ImportError as error:
        raise Unusable(
            f"cuda-tile cannot be imported in {sys.executable}: {error}", EXIT_CONFIGURATION
        ) from None
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    name = os.path.splitext(os.path.basename(path))[0]
    name += (
        ".kernel" if name in sys.modules else ""
    )  # whoever imports that name means the module that is there
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Unusable(f"'{path}' is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise Unusable(f"'{path}' cannot be imported: {type(error).__name__}: {error}") from error
    return {key: value for key, value in vars(module).items() if isinstance(value, ct.kernel)}


def describe(name: str, kernel: Any) -> str:
    """NAME(parameters) with what is said of each."""
    words = []
    for parameter in inspect.signature(kernel._pyfunc).parameters.values():
        constant = "ConstantAnnotation" in repr(parameter.annotation)
        words.append(f"{parameter.name}: constant" if constant else parameter.name)
    return f"{name}({', '.join(words)})"


def choose(kernels: dict[str, Any], entry: str | None, path: str) -> tuple[str, Any]:
    """(name, kernel) that the command line means. Errors: Unusable."""
    if entry is None and len(kernels) == 1:
        return next(iter(kernels.items()))
    listed = ", ".join(kernels) or "no kernel"
    if entry is None:
        raise Unusable(f"--entry is needed: '{path}' has {listed}")
    if entry not in kernels:
        raise Unusable(f"no kernel named '{entry}' in '{path}': it has {listed}")
    return entry, kernels[entry]


def launch(name: str, kernel: Any, grid: tuple[int, ...], args: list[Any]) -> None:
    """Launch it. Errors: Unusable, with what cuTile says."""
    import cuda.tile as ct

    wanted = list(inspect.signature(kernel._pyfunc).parameters)
    if len(args) != len(wanted):
        raise Unusable(
            f"kernel '{name}' takes {len(wanted)} arguments ({', '.join(wanted)}), got {len(args)}"
        )
    values = [value.item() if hasattr(value, "item") and not value.ndim else value for value in args]
    try:
        ct.launch(None, tuple(grid), kernel, tuple(values))
    except ct.TileError as error:
        raise Unusable(f"{type(error).__name__}: {str(error).rstrip()}", EXIT_COMPILE) from error
    except (TypeError, ValueError) as error:
        raise Unusable(f"kernel '{name}': {error}") from error
