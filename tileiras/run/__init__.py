"""Launching kernels: on the reference interpreter, on the PTX emulator, or on a GPU."""

from __future__ import annotations

from tileiras.diag import ERROR, EXIT_USAGE, Diag, Emitted

from .errors import LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, TextIO

    import numpy as np

TARGETS = ("reference", "emulator", "gpu")
NO_TARGET = Diag(
    "RUN-0201", ERROR, "unknown launch target '{target}': expected reference, emulator or gpu", "launch"
)
NOT_MEMORY = Diag("RUN-0203", ERROR, "memory: expected NumPy arrays, got {got}", "launch")
BAD_GRID = Diag(
    "RUN-0202", ERROR, "grid {grid}: expected one to three positive integers below 2^24", "launch"
)

__all__ = ["TARGETS", "LaunchError", "launch", "normalise_grid"]


def normalise_grid(grid: Any) -> tuple[int, int, int]:
    """(x, y, z) tile block counts from an integer or a sequence of one to three."""
    parts = (grid,) if not hasattr(grid, "__len__") else tuple(grid)
    try:
        out = tuple(int(n) for n in parts)
        ok = (
            1 <= len(out) <= 3
            and all(0 < n < 1 << 24 for n in out)
            and all(n == m for n, m in zip(out, parts))
        )
    except (TypeError, ValueError):
        ok = False
    if not ok:
        raise LaunchError([Emitted(BAD_GRID, None, None, [("grid", grid)])], EXIT_USAGE)
    return (*out, 1, 1)[:3]  # type: ignore[return-value]


def load_module(source: Any) -> Any:
    """The verified cuda_tile module op of a path, bytes, text or `Module`; an op is left as it is."""
    if hasattr(source, "spec"):
        return source
    import tileiras

    module = source if isinstance(source, tileiras.Module) else tileiras.load(source)
    module.verify()
    return module.op


def launch(
    source: Any,
    entry: str,
    grid: Sequence[int] | int,
    args: Iterable[Any],
    target: str = "reference",
    gpu_name: str = "sm_90",
    *,
    memory: Iterable[np.ndarray] = (),
    check: bool = False,
    seed: int | None = None,
    out: TextIO | None = None,
    **options: Any,
) -> None:
    """Run an entry; arrays among `args` and `memory` are read and written in place.

    check: report undefined behaviour, not only what a machine would trap. seed: shuffles the order of tile
    blocks (reference) or of warps (emulator). out: where print goes, standard output by default. Further
    options go to the compiler (emulator, gpu).
    Errors: LaunchError (arguments, faults, findings) and CompileError (the module does not compile).
    """
    if target not in TARGETS:
        raise LaunchError([Emitted(NO_TARGET, None, None, [("target", target)])], EXIT_USAGE)
    from tileiras.options import Options

    for name in options:
        if name not in Options.__slots__:
            raise TypeError(f"launch() got an unexpected keyword argument {name!r}")
    shape = normalise_grid(grid)
    module = load_module(source)
    from .args import encode_arguments
    from .reference import find_entry
    from .reference import launch as run_reference

    op = find_entry(module, entry)
    arguments = encode_arguments(entry, [a.type for a in op.regions[0].block.args], args)
    keep = list(memory)
    for array in keep:
        if not hasattr(array, "__array_interface__"):
            raise LaunchError([Emitted(NOT_MEMORY, None, None, [("got", type(array).__name__)])], EXIT_USAGE)
    try:
        if target == "reference":
            run_reference(module, entry, shape, arguments, keep, check, seed, out)
            return
        from . import compiled

        run = compiled.run_emulator if target == "emulator" else compiled.run_gpu
        more: dict[str, Any] = {"memory": keep, "check": check, "seed": seed, "out": out, "options": options}
        run(source, entry, shape, arguments, gpu_name, **more)
    finally:
        arguments.unpack()
