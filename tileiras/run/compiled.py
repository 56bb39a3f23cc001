"""Launching what the compiler made: the PTX on the emulator, the cubin on a GPU."""

from __future__ import annotations

import os
import re

from tileiras.diag import ERROR, EXIT_COMPILE, Diag, Emitted, Loc

from .errors import LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TextIO

    import numpy as np

    from .args import Arguments
    from .profile import Profile

NO_KERNEL = Diag("RUN-0301", ERROR, "the compiled program has no kernel '{entry}'", "launch")
"""
cause: The module has no kernel of that name.
remedy: Use one of the names in the message, or those that `tileiras-translate` shows behind `entry`.

! A launch looks the kernel up in the module first, which says RUN-0009; only a program whose table of kernels was
changed leads there.
"""

NO_IMAGE = Diag(
    "RUN-0305", ERROR, "the program was compiled with emit='{emit}', which makes no {what}", "launch"
)
"""
cause: The program was compiled to a form that cannot be launched so.
remedy: Compile it again with the form that the message names (emit='cubin' for a GPU, PTX for the emulator).

in: script
- program = tileiras.compile(kernel, "sm_90", emit="tilebc")
+ program = tileiras.compile(kernel, "sm_90", emit="ptx")
  program.launch("k", 1, [], "emulator")
"""

STOPPED = Diag("RUN-0302", ERROR, "{text}", "PTX emulator")
"""
cause: The emulator stopped at an instruction of the PTX, or found a fault there; the note names the line.
remedy: Run the same launch on the target `reference`: when that finds the fault too, it is one of the kernel; else
report both.

in: script(%p: tile<ptr<f32>>, %n: tile<i32>)
      %q = offset %p, %n : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
      %x, %t = load_ptr_tko weak %q : tile<ptr<f32>> -> tile<f32>, token
  a = np.zeros(8, np.float32)
- tileiras.launch(kernel, "k", 1, [a, 8], target="emulator")
+ tileiras.launch(kernel, "k", 1, [a, 7], target="emulator")
"""

FOUND = Diag("RUN-0303", ERROR, "{text}", "PTX emulator")
"""
see: RUN-0302

in: script(%p: tile<ptr<f32>>)
      %c = constant <f32: 1.0> : tile<f32>
      %t = store_ptr_tko weak %p, %c : tile<ptr<f32>>, tile<f32> -> token
  a = np.zeros(8, np.float32)
- tileiras.launch(kernel, "k", 2, [a], target="emulator", check=True)
+ tileiras.launch(kernel, "k", 1, [a], target="emulator", check=True)
"""

ASSERTED = Diag("RUN-0306", ERROR, "{text}", "PTX emulator")
"""
see: RUN-0302

in: script(%n: tile<i32>)
      %z = constant <i32: 0> : tile<i32>
      %c = cmpi less_than %z, %n, signed : tile<i32> -> tile<i1>
      assert %c, "n must be positive" : tile<i1>
- tileiras.launch(kernel, "k", 1, [0], target="emulator")
+ tileiras.launch(kernel, "k", 1, [1], target="emulator")
"""


def compile_for_launch(
    source: Any, entry: str, gpu_name: str, options: dict[str, Any], image: str
) -> tuple[Any, Any]:
    """(program, kernel) with an explicit block size: launch ABI simt. A program is taken as it is, if it has the image."""
    import tileiras

    from . import is_program, refuse

    if is_program(source):
        program = source
        if not getattr(program, image):
            raise refuse(NO_IMAGE, emit=program.options.emit, what={"ptx": "PTX"}.get(image, image))
    else:
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
    profile: Profile | None = None,
    approximate: str = "exact",
) -> None:
    """Execute the generated PTX on the CPU."""
    from . import emulator

    # line information changes no instruction: it only lets a fault name the line of the kernel
    program, kernel = compile_for_launch(
        source, entry, gpu_name, {"emit": "ptx", "lineinfo": True, **options}, "ptx"
    )
    space = emulator.Memory()
    for array, label in zip(arguments.arrays, arguments.labels):
        space.add(array, label)
    for i, array in enumerate(memory):
        space.add(array, f"memory[{i}]")
    try:
        ready = program.translated.get(kernel.name)
        if ready is None:
            cluster = kernel.cluster if max(kernel.cluster) > 1 else None
            ready = emulator.Kernel(
                program.ptx, kernel.symbol, kernel.block, kernel.dynamic_shared, cluster=cluster
            )
            ready = program.translated.setdefault(kernel.name, ready)
        hidden: list[bytes] = []
        if kernel.tensor_maps:
            from .tensor_maps import for_emulator

            hidden = for_emulator(kernel, arguments.data, space)
        report = ready.launch(
            grid, [*arguments.data, *hidden], memory=space, check=check, seed=seed, out=out, profile=profile is not None,
            approximate=approximate,
        )  # fmt: skip
    except emulator.EmulatorError as error:
        where = source_of(program.ptx, error.line)
        report = getattr(error, "report", None)  # a program that is not executed at all has none
        kind = report.findings[-1].kind if report is not None else ""
        diag = ASSERTED if kind == "assert" else STOPPED
        raise LaunchError([Emitted(diag, where, None, [("text", str(error))])]) from error
    if profile is not None:
        profile.fill(report.profile, positions(program.ptx))
        program.profile = profile
    if report.findings:
        raise LaunchError([told(finding, program.ptx) for finding in report.findings])


def source_of(ptx: str, number: int) -> Loc | None:
    """The position that `.loc` and `.file` give the PTX line of this number; None without line information."""
    places = positions(ptx)
    return places[number] if number < len(places) else None


def positions(ptx: str) -> list[Loc | None]:
    """The position of each PTX line, by its number."""
    lines = ptx.splitlines()
    files = {}
    for line in lines:
        words = line.split(maxsplit=2)
        if words[:1] == [".file"] and len(words) == 3:
            files[words[1]] = plain_name(words[2].partition('"')[2].rstrip().removesuffix('"'))
    out: list[Loc | None] = [None]
    here = None
    for line in lines:
        words = line.split(maxsplit=4)
        if words[:1] == [".loc"]:
            row, column = int(words[2]), int(words[3].rstrip(","))
            here = Loc(files.get(words[1], ""), row, column) if row else None
        elif words and words[0] in (".entry", ".func", ".visible"):
            here = None
        out.append(here)
    return out


def plain_name(written: str) -> str:
    """A file name as it was before the PTX spelled the bytes that ptxas refuses as %XX."""

    def byte(match: re.Match[bytes]) -> bytes:
        value = int(match[1], 16)
        return match[0] if 32 <= value < 127 and value not in b'"\\' else bytes([value])

    return os.fsdecode(re.sub(rb"%([0-9A-F]{2})", byte, written.encode("ascii")))


def told(finding: Any, ptx: str) -> Emitted:
    """A finding of the emulator as a diagnostic."""
    from tileiras.toolchain.diags import PTXAS_LINE

    notes = []
    if finding.instruction:
        facts = [("number", finding.line), ("text", finding.instruction)]
        notes.append(Emitted(PTXAS_LINE, None, None, facts))
    diag = ASSERTED if finding.kind == "assert" else FOUND
    return Emitted(diag, source_of(ptx, finding.line), None, [("text", finding.text)], notes)


def run_gpu(
    source: Any,
    entry: str,
    grid: tuple[int, int, int],
    arguments: Arguments,
    gpu_name: str,
    memory: list[np.ndarray],
    options: dict[str, Any],
) -> None:
    """Run the cubin on the GPU at hand, compiled for that GPU when `gpu_name` is 'native'."""
    from . import gpu

    device = gpu.Device()
    name = device.arch if gpu_name == "native" else gpu_name
    program, kernel = compile_for_launch(source, entry, name, options, "cubin")
    device.launch(program.cubin, kernel, entry, grid, arguments, memory)
