"""The C interface in Python: the same four functions, codes and order of checks, in this process.

    code, program = tileirasProgramCreate(data, gpu_name="sm_90", diagnostic=callback)
    code = tileirasProgramCompile(program)
    code, cubin = tileirasProgramGetOutput(program)
    code = tileirasProgramRelease(program)

`callback(record, rendered, user)` gets every diagnostic: the 208-byte record (`tileiras.capi.record.Record`) and the
text. Without a callback the default handler prints to standard error. Codes belong to the call site: a null input is
2 at create, a null handle 4 at any getter.
"""

from __future__ import annotations

from tileiras.diag import (
    ERROR,
    EXIT_COMPILE,
    EXIT_CONFIGURATION,
    EXIT_HANDLE_STATE,
    EXIT_SUCCESS,
    EXIT_USAGE,
    WORD_CONFIG,
    WORD_ERROR,
    CompileError,
    Diag,
    FatalError,
    Sink,
    print_to_stderr,
)  # fmt: skip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tileiras.options import Options

NULL_INPUT = Diag("API-0201", ERROR, "null input pointer", "exit-per-call-site", WORD_CONFIG)
"""
cause: The library was called with a null pointer in place of the input.
remedy: Pass the address of the bytecode and its size, and keep both alive during the call.

  $ python k.py
  from tileiras.program import *

  kernel = "cuda_tile.module @m { entry @k() { return } }"
- status, program = tileirasProgramCreate(None)
+ status, program = tileirasProgramCreate(kernel)
  raise SystemExit(status)
"""

UNKNOWN_OPTION = Diag("API-0202", ERROR, "unknown option '{name}'", "exit-2-configuration", WORD_CONFIG)
"""
cause: The library does not know an option of that name, or not in that spelling.
remedy: Use the long names that `tileiras --help` lists, without dashes.

  $ python k.py
  from tileiras.program import *

  kernel = "cuda_tile.module @m { entry @k() { return } }"
- status, program = tileirasProgramCreate(kernel, gpu="sm_90")
+ status, program = tileirasProgramCreate(kernel, gpu_name="sm_90")
  raise SystemExit(status)
"""

NULL_HANDLE = Diag("API-0401", ERROR, "null program handle", "exit-4-handle-state", WORD_ERROR)
"""
cause: The handle was used in a state that has nothing to give: it is null, or its program was not compiled, or
failed to.
remedy: Create the program, compile it, check the result of both calls, and only then ask for its outputs.

  $ python k.py
  from tileiras.program import *

  kernel = "cuda_tile.module @m { entry @k() { return } }"
- program = None
+ _, program = tileirasProgramCreate(kernel, gpu_name="sm_90")
  status = tileirasProgramCompile(program)
  raise SystemExit(status)
"""

NOT_COMPILED = Diag("API-0402", ERROR, "the program is not compiled", "exit-4-handle-state", WORD_ERROR)
"""
see: API-0401

  $ python k.py
  from tileiras.program import *

  kernel = "cuda_tile.module @m { entry @k() { return } }"
  _, program = tileirasProgramCreate(kernel, gpu_name="sm_90")  # compiling it needs ptxas
+ tileirasProgramCompile(program)
  status, cubin = tileirasProgramGetOutput(program)
  raise SystemExit(status)
"""

NO_HANDLE = Diag(
    "API-0101", ERROR, "allocation of the program handle failed", "exit-1-allocation", WORD_ERROR
)
"""
see: DRV-0102

! The library asks for memory for a handle and gets none: no input decides that.
"""


FIELDS = (
    "gpu_name",
    "opt_level",
    "host_arch",
    "host_os",
    "lineinfo",
    "device_debug",
    "sanitize",
    "launch_abi",
)
_CREATED, _COMPILED, _RELEASED = "created", "compiled", "released"


class ProgramHandle:
    """A program: input, options, and the output once it is compiled."""

    __slots__ = ("data", "diagnostic", "options", "output", "state", "user")

    def __init__(self, data: bytes, options: Options, diagnostic: Any, user: object) -> None:
        self.data = data
        self.options = options
        self.diagnostic = diagnostic
        self.user = user
        self.output = b""
        self.state = _CREATED


allocate = ProgramHandle  # replaced by tests: what returns None or raises MemoryError is code 1


def new_sink(diagnostic: Callable[[Any, str, Any], object] | None, user: object) -> Sink:
    """A context whose diagnostics go to the callback, or to standard error without one."""
    sink = Sink(print_to_stderr)
    if diagnostic is not None:
        from tileiras.capi.record import Record

        def consume(emitted: Any) -> bool:
            diagnostic(Record(emitted), emitted.render(), user)
            return True

        sink.handlers.append(consume)
    return sink


def check(data: bytes, options: Options, sink: Sink) -> int:
    """The code of `tileirasProgramCreate` for an input and options: 0, 2 or 3."""
    from tileiras import driver

    try:
        driver.check_input(data, options, sink)
    except CompileError as error:
        return error.exit_code
    return EXIT_SUCCESS


def compile_program(data: bytes, options: Options, sink: Sink) -> tuple[int, bytes]:
    """(code, output) of `tileirasProgramCompile`. A fatal error is code 5 here."""
    from tileiras import driver

    try:
        try:
            return EXIT_SUCCESS, driver.compile_source(data, options, sink).cubin
        except FatalError as fatal:
            raise driver.contain(fatal, sink) from fatal
    except CompileError as error:
        return error.exit_code, b""


def tileirasProgramCreate(
    input: bytes | None,
    *,
    diagnostic: Callable[[Any, str, Any], object] | None = None,
    user: object = None,
    **options: Any,
) -> tuple[int, ProgramHandle | None]:
    """(code, handle). Codes: 1 allocation, 2 null input or an option, 3 magic or version."""
    from tileiras.options import Options

    sink = new_sink(diagnostic, user)
    if input is None:
        sink.emit(NULL_INPUT)
        return EXIT_CONFIGURATION, None
    for name in options:
        if name not in FIELDS:
            sink.emit(UNKNOWN_OPTION, name=name)
            return EXIT_CONFIGURATION, None
    data = input.encode() if isinstance(input, str) else bytes(input)
    settings = Options(**options)
    code = check(data, settings, sink)
    if code:
        return code, None
    try:
        handle = allocate(data, settings, diagnostic, user)
    except MemoryError:
        handle = None
    if handle is None:
        sink.emit(NO_HANDLE)
        return EXIT_USAGE, None
    return EXIT_SUCCESS, handle


def _alive(program: ProgramHandle | None) -> bool:
    return program is not None and program.state != _RELEASED


def tileirasProgramCompile(program: ProgramHandle | None) -> int:
    """0, or the code of the stage that stopped; 4 for a null handle."""
    if program is None or not _alive(program):
        new_sink(None, None).emit(NULL_HANDLE)
        return EXIT_HANDLE_STATE
    if program.state == _COMPILED:
        return EXIT_SUCCESS
    sink = new_sink(program.diagnostic, program.user)
    code, output = compile_program(program.data, program.options, sink)
    if code == EXIT_SUCCESS:
        program.output, program.state = output, _COMPILED
    return code


def tileirasProgramGetOutput(program: ProgramHandle | None) -> tuple[int, bytes | None]:
    """(code, cubin); 4 for a null handle and for a program that is not compiled."""
    if program is None or not _alive(program):
        new_sink(None, None).emit(NULL_HANDLE)
        return EXIT_HANDLE_STATE, None
    if program.state != _COMPILED:
        new_sink(program.diagnostic, program.user).emit(NOT_COMPILED)
        return EXIT_HANDLE_STATE, None
    return EXIT_SUCCESS, program.output


def tileirasProgramRelease(program: ProgramHandle | None) -> int:
    """0; 4 for a null handle."""
    if program is None or not _alive(program):
        new_sink(None, None).emit(NULL_HANDLE)
        return EXIT_HANDLE_STATE
    program.data = program.output = b""
    program.state = _RELEASED
    return EXIT_SUCCESS


__all__ = [
    "EXIT_COMPILE", "EXIT_CONFIGURATION", "EXIT_HANDLE_STATE", "EXIT_SUCCESS", "EXIT_USAGE", "tileirasProgramCompile",
    "tileirasProgramCreate", "tileirasProgramGetOutput", "tileirasProgramRelease",
]  # fmt: skip
