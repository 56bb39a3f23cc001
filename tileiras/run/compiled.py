"""Launching what the compiler made: the PTX on the emulator, the cubin on a GPU."""

from __future__ import annotations

import contextlib

from tileiras.diag import ERROR, EXIT_COMPILE, NOTE, Diag, Emitted

from .errors import LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TextIO

    import numpy as np

    from .args import Arguments

NO_KERNEL = Diag("RUN-0301", ERROR, "the compiled program has no kernel '{entry}'", "launch")
STOPPED = Diag("RUN-0302", ERROR, "{text}", "PTX emulator")
FOUND = Diag("RUN-0303", ERROR, "{text}", "PTX emulator")
INSTRUCTION = Diag("RUN-0304", NOTE, "PTX line {line}: {instruction}", "PTX emulator")


def compile_for_launch(source: Any, entry: str, gpu_name: str, options: dict[str, Any]) -> tuple[Any, Any]:
    """(program, kernel) with an explicit block size: launch ABI simt."""
    import tileiras

    if hasattr(source, "spec"):
        source = tileiras.Module(source)
    program = tileiras.compile(source, gpu_name=gpu_name, **{"launch_abi": "simt", **options})
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

    program, kernel = compile_for_launch(source, entry, gpu_name, {"emit": "ptx", **options})
    space = emulator.Memory()
    for array, label in zip(arguments.arrays, arguments.labels):
        space.add(array, label)
    for i, array in enumerate(memory):
        space.add(array, f"memory[{i}]")
    try:
        with contextlib.redirect_stdout(out) if out is not None else contextlib.nullcontext():
            report = emulator.launch(
                program.ptx,
                kernel.symbol,
                grid,
                kernel.block,
                arguments.data,
                memory=space,
                dynamic_shared_bytes=kernel.dynamic_shared,
                cluster=kernel.cluster if max(kernel.cluster) > 1 else None,
                check=check,
                seed=seed,
            )
    except emulator.EmulatorError as error:
        raise LaunchError([Emitted(STOPPED, None, None, [("text", str(error))])]) from error
    if report.findings:
        raise LaunchError([told(finding) for finding in report.findings])


def told(finding: Any) -> Emitted:
    """A finding of the emulator as a diagnostic."""
    notes = []
    if finding.instruction:
        facts = [("line", finding.line), ("instruction", finding.instruction)]
        notes.append(Emitted(INSTRUCTION, None, None, facts))
    return Emitted(FOUND, None, None, [("text", finding.text)], notes)


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
    program, kernel = compile_for_launch(source, entry, name, options)
    device.launch(program.cubin, kernel, entry, grid, arguments, memory)
