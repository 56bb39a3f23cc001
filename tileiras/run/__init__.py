"""Launching kernels: on the reference interpreter, on the PTX emulator, on the CPU, or on a GPU."""

from __future__ import annotations

import operator

from tileiras.diag import ERROR, EXIT_CONFIGURATION, EXIT_USAGE, Diag, Emitted, shortened, spelled

from .errors import LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, TextIO

    import numpy as np

    from .args import Arguments
    from .profile import Profile

TARGETS = ("reference", "emulator", "cpu", "gpu")
NO_TARGET = Diag(
    "RUN-0201", ERROR, "unknown launch target '{target}': expected reference, emulator, cpu or gpu", "launch"
)
"""
cause: The launch was called with an option, grid, seed or memory that it does not take, or lacks a package.
remedy: Use a value that the message names; `pip install 'tileiras[run]'` brings the packages.

in: script
- tileiras.launch(kernel, "k", 1, [], target="gpu0")
+ tileiras.launch(kernel, "k", 1, [], target="emulator")
"""

BAD_SEED = Diag("RUN-0208", ERROR, "seed {seed}: expected an integer from 0 on, or none", "launch")
"""
see: RUN-0201

in: script
- tileiras.launch(kernel, "k", 1, [], seed=-1)
+ tileiras.launch(kernel, "k", 1, [], seed=1)
"""

TOO_WIDE = Diag(
    "RUN-0209", ERROR, "grid {grid}: a GPU takes at most 65535 tile blocks in the second and third dimension",
    "launch",
)  # fmt: skip
"""
see: RUN-0201

in: script
- tileiras.launch(kernel, "k", (1, 65536, 1), [], target="gpu")
+ tileiras.launch(kernel, "k", (1, 2, 1), [], target="emulator")
"""

BAD_GRID = Diag(
    "RUN-0202", ERROR, "grid {grid}: expected one to three positive integers below 2^24", "launch"
)
"""
see: RUN-0201

in: script
- tileiras.launch(kernel, "k", (0, 1, 1), [])
+ tileiras.launch(kernel, "k", (1, 1, 1), [])
"""


NO_NUMPY = Diag(
    "RUN-0204", ERROR, "launching needs NumPy and ml_dtypes: pip install 'tileiras[run]' ({why})", "launch"
)
"""
see: RUN-0201

! NumPy or ml_dtypes is not installed: it depends on the installation.
"""

OTHER_TARGET = Diag(
    "RUN-0205", ERROR, "the program was compiled for {have}, not for {want}: compile it again", "launch"
)
"""
see: RUN-0201

in: script
  program = tileiras.compile(kernel, "sm_90", emit="ptx")
- tileiras.launch(program, "k", 1, [], "emulator", gpu_name="sm_80")
+ tileiras.launch(program, "k", 1, [], "emulator", gpu_name="sm_90")
"""

COMPILED = Diag(
    "RUN-0206",
    ERROR,
    "option '{name}' belongs to tileiras.compile: the program is compiled already",
    "launch",
)
"""
see: RUN-0201

in: script
  program = tileiras.compile(kernel, "sm_90", emit="ptx")
- tileiras.launch(program, "k", 1, [], opt_level=2)
+ tileiras.launch(program, "k", 1, [])
"""

ONLY_EMULATOR = Diag("RUN-0211", ERROR, "{name} needs the target emulator, not {target}", "launch")
"""
see: RUN-0201

in: script
  from tileiras.run.profile import Profile
- tileiras.launch(kernel, "k", 1, [], profile=Profile())
+ tileiras.launch(kernel, "k", 1, [], "emulator", profile=Profile())
"""

BAD_END = Diag("RUN-0212", ERROR, "approximate {got}: expected exact, low or high", "launch")
"""
see: RUN-0201

in: script
- tileiras.launch(kernel, "k", 1, [], target="emulator", approximate="near")
+ tileiras.launch(kernel, "k", 1, [], target="emulator", approximate="low")
"""

NOT_ITERABLE = Diag("RUN-0207", ERROR, "args: expected a list of arguments, got {got}", "launch")
"""
see: RUN-0201

in: script(%n: tile<i32>)
- tileiras.launch(kernel, "k", 1, 8)
+ tileiras.launch(kernel, "k", 1, [8])
"""

DEFAULT_GPU = "sm_90"

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


def normalise_seed(seed: Any) -> int | None:
    """The seed as an int; None stays."""
    if seed is None:
        return None
    try:
        number = operator.index(seed)
    except TypeError:
        number = -1
    if number < 0 or isinstance(seed, bool):
        raise refuse(BAD_SEED, seed=seed if isinstance(seed, int) else repr(seed))
    return number


def load_module(source: Any) -> Any:
    """The verified cuda_tile module op of a path, bytes, text, `Module` or `Program`; an op is left as it is."""
    if hasattr(source, "spec"):
        return source
    if is_program(source):
        return source.module
    import tileiras

    module = source if isinstance(source, tileiras.Module) else tileiras.load(source)
    module.verify()
    return module.op


def is_program(source: Any) -> bool:
    from tileiras.driver import Program

    return isinstance(source, Program)


def refuse(diag: Diag, code: int = EXIT_USAGE, **facts: object) -> LaunchError:
    said = [(name, shortened(str(spelled(fact)))) for name, fact in facts.items()]
    return LaunchError([Emitted(diag, None, None, said)], code)


def check_request(source: Any, target: str, gpu_name: str, options: dict[str, Any]) -> None:
    """What a launch's own options can get wrong. Errors: LaunchError, TypeError for a name that is none."""
    from tileiras.options import Options

    if target not in TARGETS:
        raise refuse(NO_TARGET, target=target)
    for name in options:
        if name not in Options.__slots__:
            raise TypeError(f"launch() got an unexpected keyword argument {name!r}")
    if is_program(source):
        for name in options:
            raise refuse(COMPILED, name=name)
        if gpu_name not in (DEFAULT_GPU, source.target.name):
            raise refuse(OTHER_TARGET, EXIT_CONFIGURATION, have=source.target.name, want=gpu_name)


def launch(
    source: Any,
    entry: str,
    grid: Sequence[int] | int,
    args: Iterable[Any],
    target: str = "reference",
    gpu_name: str = DEFAULT_GPU,
    *,
    memory: Iterable[Any] = (),
    check: bool = False,
    seed: int | None = None,
    out: TextIO | None = None,
    profile: Profile | None = None,
    approximate: str = "exact",
    **options: Any,
) -> None:
    """Run an entry; arrays among `args` and `memory` are read and written in place.

    check: report undefined behaviour, not only what a machine would trap. seed: shuffles the order of tile
    blocks (reference) or of warps (emulator). out: where print goes, standard output by default. profile (emulator):
    filled with counts by line. approximate (emulator): "low" and "high" give approximate instructions the ends of
    their documented error. Further options go to the compiler (emulator, gpu). A `Program` as source is launched as
    it was compiled.
    Launches share no state but the arrays passed: any number of threads may launch at once.
    Errors: LaunchError (arguments, faults, findings) and CompileError (the module does not compile).
    """
    check_request(source, target, gpu_name, options)
    shape = normalise_grid(grid)
    if target in ("emulator", "gpu") and max(shape[1:]) > 65535:
        raise refuse(TOO_WIDE, grid=shape)
    seed = normalise_seed(seed)
    if approximate not in ("exact", "low", "high"):
        raise refuse(BAD_END, got=repr(approximate))
    for name, asked in (("profile", profile is not None), ("approximate", approximate != "exact")):
        if asked and target != "emulator":
            raise refuse(ONLY_EMULATOR, EXIT_USAGE, name=name, target=target)
    if not hasattr(args, "__iter__"):
        raise refuse(NOT_ITERABLE, got=type(args).__name__)
    try:
        import ml_dtypes  # noqa: F401
        import numpy  # noqa: F401
    except ImportError as missing:
        raise refuse(NO_NUMPY, EXIT_CONFIGURATION, why=missing) from None
    module = load_module(source)
    from .args import encode_arguments, encode_extra
    from .entries import find_entry

    op = find_entry(module, entry)
    types = [a.type for a in op.regions[0].block.args]
    arguments = encode_arguments(entry, types, args, on_gpu=target == "gpu")
    keep = encode_extra(memory)
    try:
        run_encoded(
            source, module, entry, shape, arguments, target, gpu_name,
            memory=keep, check=check, seed=seed, out=out, options=options,
            emulation={"profile": profile, "approximate": approximate},
        )  # fmt: skip
    finally:
        arguments.unpack()


def run_encoded(
    source: Any,
    module: Any,
    entry: str,
    grid: tuple[int, int, int],
    arguments: Arguments,
    target: str,
    gpu_name: str,
    *,
    memory: list[np.ndarray],
    check: bool,
    seed: int | None,
    out: TextIO | None,
    options: dict[str, Any],
    emulation: dict[str, Any] | None = None,
) -> None:
    """Run an entry of a verified module whose arguments are encoded; `launch` has what the others mean."""
    if target == "reference":
        from .reference import launch as run_reference

        run_reference(module, entry, grid, arguments, memory, check, seed, out)
        return
    if target == "cpu":
        from .native import run_cpu

        run_cpu(module, entry, grid, arguments, memory, check, out)
        return
    from . import compiled

    if target == "gpu":
        compiled.run_gpu(source, entry, grid, arguments, gpu_name, memory, options)
        return
    compiled.run_emulator(
        source, entry, grid, arguments, gpu_name,
        memory=memory, check=check, seed=seed, out=out, options=options, **(emulation or {}),
    )  # fmt: skip
