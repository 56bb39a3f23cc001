"""Module -> bytecode of a chosen version. The mirror of the reader: loops over plans, names no op.

Sections are written in dependency order (string, type, constant, debug, global, producer, function, end); every
known reader takes any order. Equal modules give equal bytes.
"""

from __future__ import annotations

from tileiras.compiler.dialects.cuda_tile.ops import BY_NAME, ENUMS
from tileiras.diag import EXIT_BYTECODE, Sink

from . import diags, launch_hints
from .wire import (
    A_HINTS,
    ALIGN,
    CONSTANT,
    DEBUG,
    END,
    F_ENTRY,
    F_HINTS,
    F_PRIVATE,
    FUNC,
    GLOBAL,
    MAGIC,
    NEWEST,
    PRODUCER,
    STRING,
    TYPE,
    put_varint,
)  # fmt: skip
from .write_body import BodyWriter
from .write_tables import TableWriter, Unwritable, check_location, pad, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op

# Attributes that the format has no place for travel under this architecture key, which real readers ignore.
EXTRA_HINTS = "tileiras"
MODULE_FIELDS = frozenset(("sym_name", "producer", "bytecode_version"))
ENTRY_FIELDS = frozenset(
    ("sym_name", "function_type", "optimization_hints", "sym_visibility", "arg_attrs", "res_attrs")
)


def write(module: Op, version: tuple[int, int] = (13, 1), *, sink: Sink | None = None) -> bytes:
    """The file. Errors: a diagnostic, CompileError with exit code 3, when the version cannot express the module."""
    if sink is None:
        sink = Sink()
    major, minor = version[0], version[1]
    if major != 13 or not 1 <= minor <= NEWEST:
        sink.emit(diags.BAD_TARGET, version=f"{major}.{minor}")
        raise sink.fail(EXIT_BYTECODE)
    writer = _Writer(minor)
    try:
        return writer.file(module)
    except Unwritable as error:
        if error.invalid is not None:
            sink.emit(diags.INVALID_OP, loc=error.invalid.loc, name=error.invalid.spec.full_name)
        loc = None
        if error.op is None and writer.place is not None and error.diag is not diags.TYPE_TOO_NEW:
            loc = writer.place.loc  # a type that is too new belongs to the file
        sink.emit(error.diag, error.op, loc, **error.facts)  # type: ignore[arg-type]
    except RecursionError:
        sink.emit(diags.NOT_WRITABLE, what="nesting is too deep")
    raise sink.fail(EXIT_BYTECODE)


class _Writer(TableWriter):
    """The sections of a file."""

    def function(self, out: bytearray, entry: Op, extra: dict[str, Any]) -> None:
        attrs = entry.attrs
        self.place = entry
        check_location(entry)
        if not entry.regions or not entry.regions[0].blocks:
            raise Unwritable(diags.NOT_WRITABLE, entry, what="entry without a body")
        put_varint(out, self.string(attrs["sym_name"]))
        put_varint(out, self.type(attrs["function_type"]))
        hints = dict(attrs.get("optimization_hints") or {})
        own = {f"entry.{k}": v for k, v in attrs.items() if k not in ENTRY_FIELDS}
        arg_attrs = tuple(attrs.get("arg_attrs") or ())
        if self.minor < 5 and any(arg_attrs):
            own["arguments"] = arg_attrs
        if own or extra:
            extra = {**extra, **own}
            assert self.module is not None
            launch_hints.add(hints, extra, launch_hints.forwarded(self.module.attrs, attrs, hints))
            hints[EXTRA_HINTS] = extra
        flags = F_ENTRY
        if attrs.get("sym_visibility") == "private":
            flags |= F_PRIVATE
        if hints and self.minor < 5:  # later they always follow, and the bit means extern
            flags |= F_HINTS
        out.append(flags)
        located = self.debug_index(entry.loc) if entry.loc.scope is not None else 0
        if located:
            self.records.append(len(self.indices))
            self.indices.append(located)
        put_varint(out, len(self.records) if located else 0)
        if hints or self.minor >= 5:
            out.append(A_HINTS)
            self.dictionary(out, hints)
        if self.minor >= 5:
            self.attribute(out, arg_attrs)
        body = BodyWriter(self, bool(located))
        block = entry.regions[0].blocks[0]
        for arg in block.args:
            body.number(arg)
        code = bytearray()
        body.instructions(code, block.ops)
        put_varint(out, len(code))
        out += code

    def global_record(self, out: bytearray, op: Op) -> None:
        value = op.attrs["value"]
        self.place = op
        put_varint(out, self.string(op.attrs["sym_name"]))
        put_varint(out, self.type(value.type))
        put_varint(out, self.constant(value.data))
        put_varint(out, op.attr("alignment") or 0)
        visibility = op.attr("symbol_visibility")
        constant = bool(op.attrs.get("constant"))
        if self.minor >= 3:
            put_varint(out, ENUMS["SymbolVisibility"][visibility])
            put_varint(out, 1 if constant else 0)
        elif visibility != "public":
            raise Unwritable(diags.PRIVATE_GLOBAL, name=op.attrs["sym_name"], minor=self.minor)
        elif constant:
            raise Unwritable(diags.CONSTANT_GLOBAL, name=op.attrs["sym_name"], minor=self.minor)

    def file(self, module: Op) -> bytes:
        """All sections. Functions and globals first, as they fill the tables."""
        self.module = module
        functions = bytearray()
        globals_ = bytearray()
        ops = module.regions[0].blocks[0].ops if module.regions and module.regions[0].blocks else []
        entries = [op for op in ops if op.spec is BY_NAME["entry"]]
        tables = [op for op in ops if op.spec is BY_NAME["global"]]
        for op in ops:
            if op.spec not in (BY_NAME["entry"], BY_NAME["global"]):
                raise Unwritable(diags.NOT_WRITABLE, op, what=f"'{op.spec.full_name}' in a module")
        extra = {f"module.{k}": v for k, v in module.attrs.items() if k not in MODULE_FIELDS}
        if tables:
            put_varint(globals_, len(tables))
            for op in tables:
                self.global_record(globals_, op)
        put_varint(functions, len(entries))
        for op in entries:
            self.function(functions, op, extra)
        producer = bytearray()
        if module.attrs.get("producer") is not None and self.minor >= 3:
            put_varint(producer, self.string(module.attrs["producer"]))
        out = bytearray(MAGIC) + bytes((13, self.minor, 0, 0))
        strings = [s.encode("utf-8", "surrogateescape") for s in self.strings]
        section(out, STRING, table(strings, 4))
        if self.type_data:
            section(out, TYPE, table(self.type_data, 4))
        if self.constants:
            entries_ = []
            for data in self.constants:
                entry = bytearray()
                put_varint(entry, len(data))
                entries_.append(bytes(entry) + data)
            section(out, CONSTANT, table(entries_, 8))
        if self.debug_data:
            section(out, DEBUG, self.debug_section())
        if tables:
            section(out, GLOBAL, globals_)
        if producer:
            section(out, PRODUCER, producer)
        section(out, FUNC, functions)
        out.append(END)
        return bytes(out)


def section(out: bytearray, id: int, payload: bytes | bytearray) -> None:
    """Header and payload; the payload starts at a multiple of its alignment, so paddings inside of it hold."""
    alignment = ALIGN.get(id, 0)
    out.append(id | 128 if alignment else id)
    put_varint(out, len(payload))
    if alignment:
        put_varint(out, alignment)
        pad(out, alignment)
    out += payload
