"""tileiras: an open CUDA Tile IR toolchain.

`load` reads a module, `compile` makes PTX and a cubin, `launch` runs an entry on the interpreter, on the PTX
emulator or on a GPU. Everything is loaded on first use, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from os.path import abspath, dirname, exists

from .version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence
    from typing import Any

    from .driver import Program

_ROOT = dirname(dirname(abspath(__file__)))
if exists(_ROOT + "/setuptools_ext/__init__.py") and exists(_ROOT + "/pyproject.toml"):
    __path__.append(_ROOT)  # a checkout: top-level folders are subpackages, as in the wheel

__all__ = ["CompileError", "LaunchError", "Module", "__version__", "compile", "launch", "load"]


class Module:
    """A Tile IR module in memory. `str()` is NVIDIA's assembly form."""

    __slots__ = ("file", "op")

    def __init__(self, op: Any, file: str = "") -> None:
        self.op = op
        self.file = file

    def verify(self) -> None:
        """Errors: CompileError(5) with every diagnostic."""
        from .compiler.ir.verify import verify
        from .diag import EXIT_COMPILE, Sink

        sink = Sink()
        if not verify(self.op, sink):
            raise sink.fail(EXIT_COMPILE)

    def __str__(self) -> str:
        from .compiler.source import to_text

        return to_text(self.op)

    def to_bytecode(self, version: str | None = None) -> bytes:
        """Bytecode of a 13.x version (default: the oldest that can hold the module, or the file's own).

        Errors: CompileError(3) where the version cannot say what the module has.
        """
        from .compiler.source import to_bytecode

        return to_bytecode(self.op, version)

    @property
    def entries(self) -> list[str]:
        """Names of the kernels, in order."""
        return [op.attrs["sym_name"] for op in self.op.regions[0].block.ops if op.spec.name == "entry"]


def _content(source: Any, sink: Any) -> tuple[bytes | str, str]:
    """(content, file name) of a path, bytes or text."""
    from .driver import read_file

    if isinstance(source, (bytes, bytearray, memoryview)):
        return bytes(source), ""
    if isinstance(source, str) and ("\n" in source or "{" in source):
        return source, ""
    path = str(source) if isinstance(source, str) else __import__("os").fspath(source)
    return read_file(path, sink), path


def load(source: str | bytes | os.PathLike[str]) -> Module:
    """A module from a path, bytecode bytes, or text (a str with a newline or a brace).

    Errors: CompileError with exit code 1 (unreadable file), 3 (bytecode) or 5 (text).
    """
    from .compiler.source import load as load_source
    from .diag import Sink

    sink = Sink()
    data, file = _content(source, sink)
    return Module(load_source(data, sink, file=file), file)


def compile(
    source: str | bytes | os.PathLike[str] | Module,
    gpu_name: str | None = None,
    opt_level: int = 3,
    **options: Any,
) -> Program:
    """Compile a module for a GPU. The program has `.cubin` (bytes), `.ptx` (str), `.kernels` (by name) and `.diagnostics`.

    gpu_name: `sm_90`, `sm_100a`, ...; without one, the target that the module's text names. opt_level: 0 to 3.
    Further options are the fields of `tileiras.options.Options`: `emit="ptx"` leaves out ptxas, `remarks="all"` asks for remarks.
    Errors: CompileError with the exit code the command would end with.
    """
    from . import driver
    from .diag import FatalError, Sink
    from .options import Options

    sink = Sink()
    settings = Options(gpu_name=gpu_name, opt_level=opt_level, **options)
    try:
        if isinstance(source, Module):
            major, minor = source.op.attrs.get("bytecode_version", (0, 0))
            return driver.compile_loaded(
                source.op, settings, sink, version=f"{major}.{minor}" if major else ""
            )
        data, file = _content(source, sink)
        return driver.compile_source(data, settings, sink, file=file)
    except FatalError as fatal:
        raise driver.contain(fatal, sink) from fatal


def launch(
    source: str | bytes | os.PathLike[str] | Module | Program,
    entry: str,
    grid: Sequence[int] | int,
    args: Iterable[Any],
    target: str = "reference",
    gpu_name: str = "sm_90",
    **options: Any,
) -> None:
    """Run an entry over a grid of tile blocks; arrays in `args` are read and written in place.

    grid: one to three counts of tile blocks. args: flat, in the order of the entry's parameters: an array for a pointer (to
    its first element), a number for a scalar. target: `reference`, `emulator`, `cpu` or `gpu`. Options: those of
    `tileiras.run.launch` (`check`, `seed`, `memory`, `out`, ...), the others go to the compiler (emulator, gpu). A source is
    compiled with launch ABI simt, whereas `compile` makes tile ABI unless told otherwise.
    Errors: LaunchError for arguments, faults and findings, CompileError where the module does not compile.
    """
    from .run import launch as run_launch

    run_launch(source, entry, grid, args, target, gpu_name, **options)


def __getattr__(name: str) -> Any:
    if name == "CompileError":
        from .diag import CompileError

        return CompileError
    if name == "LaunchError":
        from .run.errors import LaunchError

        return LaunchError
    raise AttributeError(f"module 'tileiras' has no attribute {name!r}")
