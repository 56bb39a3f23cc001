"""Launching what the compiler made: the PTX on the emulator, the cubin on a GPU."""

from __future__ import annotations

from tileiras.diag import EXIT_COMPILE, ERROR, Diag, Emitted

from .errors import LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TextIO

    import numpy as np

    from .args import Arguments

NO_KERNEL = Diag("RUN-0301", ERROR, "the compiled program has no kernel '{entry}'", "launch")


def compile_for_launch(
    source: Any, entry: str, gpu_name: str, check: bool, options: dict[str, Any]
) -> tuple[Any, Any]:
    """(program, kernel) with an explicit block size: launch ABI simt."""
    import tileiras

    opt_level = options.pop("opt_level", 3)
    program = tileiras.compile(source, gpu_name=gpu_name, opt_level=opt_level, launch_abi="simt", **options)
    kernel = program.kernels.get(entry)
    if kernel is None:
        raise LaunchError([Emitted(NO_KERNEL, None, None, [("entry", entry)])], EXIT_COMPILE)
    return program, kernel


def run_emulator(
    source: Any,
    entry: str,
    grid: tuple[int, int, int],
    arguments: Arguments,
    gpu_name: str,
    *,
    memory: list[np.ndarray],
    check: bool,
    seed: int | None,
    out: TextIO | None,
    options: dict[str, Any],
) -> None:
    """Execute the generated PTX on the CPU."""
    from . import emulator

    program, kernel = compile_for_launch(source, entry, gpu_name, check, options)
    more: dict[str, Any] = {}
    if seed is not None:
        more["seed"] = seed
    if out is not None:
        more["out"] = out
    emulator.launch(
        program.ptx,
        getattr(kernel, "symbol", entry),
        grid,
        tuple(kernel.block),
        arguments.data,
        memory=[*arguments.arrays, *memory],
        dynamic_shared_bytes=kernel.dynamic_shared,
        cluster=tuple(kernel.cluster or (1, 1, 1)),
        check=check,
        **more,
    )


def run_gpu(
    source: Any,
    entry: str,
    grid: tuple[int, int, int],
    arguments: Arguments,
    gpu_name: str,
    *,
    memory: list[np.ndarray],
    check: bool,
    seed: int | None,
    out: TextIO | None,
    options: dict[str, Any],
) -> None:
    """Run the cubin on the GPU at hand, compiled for that GPU when `gpu_name` is 'native'."""
    from . import gpu

    device = gpu.Device()
    name = device.arch if gpu_name == "native" else gpu_name
    program, kernel = compile_for_launch(source, entry, name, check, options)
    device.launch(program.cubin, kernel, entry, grid, arguments, memory)
