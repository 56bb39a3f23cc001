"""Input of any kind -> the cuda_tile module: bytecode and text are told apart by the magic."""

from __future__ import annotations

import os

from tileiras.diag import (
    ERROR,
    EXIT_BYTECODE,
    EXIT_COMPILE,
    EXIT_USAGE,
    UNREADABLE,
    CompileError,
    Diag,
    Loc,
    Sink,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op
    from tileiras.diag import Sink

NOT_TEXT = Diag("SRC-0002", ERROR, "input is not valid UTF-8: byte 0x{byte:02X}", src="own")
r"""
cause: The input is no text of one Tile IR module: bytes that are no UTF-8, no operation, or several modules.
remedy: Pass a file with one cuda_tile.module; `tileiras-translate --split-input-file` takes several in one.

  $ python k.py
  import tileiras

- name = b"caf\xe9"
+ name = b"caf\xc3\xa9"
  tileiras.load(b"// " + name + b"\ncuda_tile.module @m { entry @k() { return } }")
"""

NO_MODULE = Diag("SRC-0003", ERROR, "expected one cuda_tile.module, but got {count}", src="own")
"""
see: SRC-0002

  cuda_tile.module @m { entry @k() { return } }
- cuda_tile.module @n { entry @k() { return } }
"""


STARTS = (
    "module", "builtin", "cuda_tile", "entry", "global", "testing$func", '"', "!", "{-#",
    "nv_tileaa", "nv_tileas", "nvvm", "cute", "arith", "func", "%",
)  # fmt: skip


def load(source: Any, sink: Sink, *, file: str = "", allow_unregistered: bool = False) -> Op:
    """The `cuda_tile.module` of a path, bytes, or text (a str with a newline or a brace).

    Errors: CompileError with exit code 1 (unreadable), 3 (bytecode), 5 (text).
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        data: bytes | str = bytes(source)
    elif isinstance(source, str) and ("\n" in source or "{" in source):
        data = source
    else:
        file = os.fspath(source)
        try:
            with open(file, "rb") as stream:
                data = stream.read()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            sink.emit(UNREADABLE, path=file, why=why)
            raise sink.fail(EXIT_USAGE) from None
    if isinstance(data, bytes):
        if not looks_like_text(data):
            from .bytecode.reader import read

            return read(data, sink, file=file)
        try:
            data = data.decode("utf-8")
        except UnicodeDecodeError as error:
            before = error.object[: error.start]
            line = before.count(b"\n") + 1
            column = error.start - (before.rfind(b"\n") + 1) + 1
            sink.emit(NOT_TEXT, loc=Loc(file or "<input>", line, column), byte=error.object[error.start])
            raise sink.fail(EXIT_COMPILE) from None
    return load_text(data, sink, file or "<input>", allow_unregistered)


def looks_like_text(data: bytes) -> bool:
    """Whether the content can be meant as text: no bytecode magic, and a start that the grammar knows."""
    if data[:1] == b"\x7f" or data[:4] == b"ML\xefR":
        return False
    at = 3 if data[:3] == b"\xef\xbb\xbf" else 0
    while True:  # a licence may come first
        head = data[at : at + 256].lstrip(b" \t\r\n")
        if not head and at < len(data):
            at += 256
        elif head.startswith(b"//"):
            at = data.find(b"\n", at + data[at : at + 256].index(b"//"))
            if at < 0:
                return True
        else:
            break
    if head.startswith(b"#"):  # an alias, not the directive of a C file
        name, equals, _ = head.partition(b"=")
        return (
            bool(equals)
            and name[1:].strip().replace(b".", b"").replace(b"_", b"").replace(b"$", b"").isalnum()
        )
    return head.startswith(tuple(s.encode() for s in STARTS))


def load_text(text: str, sink: Sink, file: str, allow_unregistered: bool = False) -> Op:
    """The module of a text: `cuda_tile.module`, an outer builtin module, or only what is inside of one."""
    from .ir.core import Block, Op, Region
    from .ir.text import PUBLIC, parse

    ops = parse(
        text.removeprefix("\ufeff"), sink, file=file, dialects=PUBLIC, allow_unregistered=allow_unregistered
    )
    modules = [op for op in ops if op.spec.full_name == "cuda_tile.module"]
    if len(modules) == 1 and len(ops) == 1:
        modules[0].block = None
        return modules[0]
    if modules or not ops:
        sink.emit(NO_MODULE, loc=Loc(file, 1, 1), count=len(modules))
        raise sink.fail(EXIT_COMPILE)
    from .dialects.cuda_tile.ops import BY_NAME

    block = Block()
    for op in ops:
        block.append(op)
    return Op(BY_NAME["module"], attrs={"sym_name": "kernels"}, regions=[Region([block])])


def to_text(module: Op, *, generic: bool = False, debug: bool = False) -> str:
    """The module as text; `generic` in MLIR's generic form, `debug` with locations."""
    from .ir.printer import print_op

    return print_op(module, generic=generic, debug=debug)


def to_bytecode(module: Op, version: str | None = None, sink: Sink | None = None) -> bytes:
    """Bytecode of `version` ("13.1"); without one, of the version it was read from, else of the oldest that can
    hold it. Errors: CompileError, exit code 3."""

    from .bytecode.wire import NEWEST
    from .bytecode.writer import write

    sink = sink if sink is not None else Sink()
    if version is not None:
        return write(module, version_of(version, sink), sink=sink)
    known = module.attrs.get("bytecode_version")
    if known is not None:
        return write(module, known, sink=sink)
    for minor_version in range(first_version(module), NEWEST):
        try:
            return write(module, (13, minor_version))
        except CompileError:
            continue
    return write(module, (13, NEWEST), sink=sink)


def version_of(text: str, sink: Sink) -> tuple[int, int]:
    """The numbers of "13.4". Errors: CompileError, exit code 3, for a version that cannot be written."""

    from .bytecode import diags
    from .bytecode.wire import NEWEST

    major, _, minor = text.partition(".")
    if major == "13" and len(minor) < 4 and minor.isascii() and minor.isdigit() and 1 <= int(minor) <= NEWEST:
        return 13, int(minor)
    sink.emit(diags.BAD_TARGET, version=text)
    raise sink.fail(EXIT_BYTECODE)


def first_version(module: Op) -> int:
    """The oldest 13.x that loses nothing which the writer may leave out, and knows the ops by the names in the text."""
    from .bytecode.writer import ENTRY_FIELDS, MODULE_FIELDS
    from .dialects.cuda_tile.assembly import DIALECT

    first = 1
    # Assemblers before 13.3 refuse the key under which launch attributes travel.
    if set(module.attrs) - MODULE_FIELDS or module.attrs.get("producer") is not None:
        first = 3
    for op in module.walk():
        name, attrs = op.spec.name, op.attrs
        if name == "entry" and (set(attrs) - ENTRY_FIELDS or any(attrs.get("arg_attrs") or ())):
            first = max(first, 3)
        if name in DIALECT.older_names and op.spec.full_name.endswith("." + name):
            first = max(first, DIALECT.older_names[name][1])
        if any(attrs.get("inbounds") or ()):
            first = max(first, op.spec.attr_by_name["inbounds"].since)
    return first
