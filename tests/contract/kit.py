"""Real input for the contract's tests: small modules, the command, the library, and a ptxas of our own making."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tileiras import driver
from tileiras.diag import REMARK, CompileError, Emitted, FatalError, Sink
from tileiras.options import Options

REPOSITORY = Path(__file__).resolve().parents[2]
MAGIC = bytes.fromhex("7f54696c65495200")


def module(
    body: str = "", attrs: str = "nv_tileaa.compute_capability = 90 : i32, tt.num_warps = 4 : i32"
) -> str:
    """The contract's module shell around entries."""
    return f"module attributes {{{attrs}}} {{\n  cuda_tile.module {{\n{body}\n  }}\n}}\n"


def entry(body: str = "", args: str = "", name: str = "k", attrs: str = "") -> str:
    """One entry; its body ends with cuda_tile.return."""
    extra = f" attributes {{{attrs}}}" if attrs else ""
    return f"    cuda_tile.entry @{name}({args}){extra} {{\n{body}\n      cuda_tile.return\n    }}"


NOOP = module(entry(name="noop"))
BAD_EXTI = module(
    entry(
        "      %a = cuda_tile.constant <i32: 1> : !cuda_tile.tile<i32>\n"
        "      %b = cuda_tile.exti %a signed : !cuda_tile.tile<i32> -> !cuda_tile.tile<i32>"
    )
)
GOOD_EXTI = BAD_EXTI.replace("-> !cuda_tile.tile<i32>", "-> !cuda_tile.tile<i64>")


class Result:
    """How a run of the command ended."""

    def __init__(self, status: int, out: str, err: str, folder: Path) -> None:
        self.status = status
        self.out = out
        self.err = err
        self.folder = folder

    def lines(self) -> list[str]:
        return diagnostics_of(self.err)


def diagnostics_of(err: str) -> list[str]:
    """Lines that the contract is about: no source lines with their carets, no advice behind the diagnostics."""
    found: list[str] = []
    for line in err.splitlines():
        if line.strip() == "^" and found:
            found.pop()
        elif not line.startswith(("note: the targets are ", "note: '")):
            found.append(line)
    return found


def command(
    folder: Path,
    source: str | bytes | None,
    *flags: str,
    output: str = "k.cubin",
    env: dict[str, str] | None = None,
) -> Result:
    """`tileiras` on `source`, in a process of its own, with -o in `folder`."""
    words = [sys.executable, "-m", "tileiras", *flags]
    if source is not None:
        path = folder / "k.tileir"
        path.write_bytes(source.encode() if isinstance(source, str) else source)
        words += [str(path), "-o", str(folder / output)]
    return run(words, folder, env)


def run(words: list[str], folder: Path, env: dict[str, str] | None = None) -> Result:
    """A process in `folder` that can import the package."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), **(env or {})}
    done = subprocess.run(words, capture_output=True, text=True, cwd=folder, env=environment, timeout=120)
    return Result(done.returncode, done.stdout, done.stderr, folder)


def compile_(
    source: str | bytes,
    gpu_name: str | None = None,
    emit: str = "ptx",
    *,
    remarks: bool = False,
    **options: Any,
) -> tuple[int, list[Emitted], Any]:
    """(code, diagnostics, program or None) of a compile in this process, to PTX unless told otherwise.

    Handlers always receive remarks; most tests are about everything else.
    """
    sink = Sink()
    program = None
    code = 0
    try:
        program = driver.compile_source(
            source, Options(gpu_name=gpu_name, emit=emit, **options), sink, file="k.tileir"
        )
    except CompileError as error:
        code = error.exit_code
        assert error.diagnostics == sink.emitted
    except FatalError as fatal:
        code = driver.contain(fatal, sink).exit_code
    return code, [emitted for emitted in sink.emitted if remarks or emitted.severity != REMARK], program


def messages(found: list[Emitted]) -> list[str]:
    """Message fields: without location, class prefix and op prefix."""
    return [emitted.text for emitted in found]


def ptx_of(source: str | bytes, gpu_name: str | None = None, **options: Any) -> str:
    """The PTX; the compile must be clean."""
    code, found, program = compile_(source, gpu_name, **options)
    assert code == 0 and not found, found
    return program.ptx


def stub_ptxas(folder: Path, body: str) -> Path:
    """A shell script that answers --version like ptxas 13.4 and else runs `body` with ptxas's argv."""
    path = folder / "bin" / "ptxas"
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = --version ]; then echo "Cuda compilation tools, release 13.4, V13.4.92"; exit 0; fi\n'
        f"{body}\n"
    )
    path.chmod(0o755)
    return path


def bytecode(text: str = NOOP, version: str = "13.1") -> bytes:
    """A module as Tile IR bytecode; launch attributes need 13.3, so they are left out below it."""
    from tileiras.compiler.source import load, to_bytecode

    return to_bytecode(load(text, Sink()), version)
