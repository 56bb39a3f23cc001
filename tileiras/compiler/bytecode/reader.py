"""Bytecode -> module. Loops over decode plans; every index and length is checked, nothing is guessed.

Order: header, all section headers, then strings, types, constants and debug attributes on demand, globals,
functions. Whatever is wrong with the bytes is one diagnostic and exit code 3. What a well-formed file may still
get wrong (types of operands, structure) is the verifier's.
"""

from __future__ import annotations

import struct

from tileiras.compiler.dialects.cuda_tile.ops import BY_NAME
from tileiras.compiler.ir import types as T
from tileiras.compiler.ir.core import Block, Op, Region
from tileiras.diag import EXIT_BYTECODE, UNKNOWN, Emitted, Loc

from . import diags, launch_hints
from .plan import cases_of
from .read_body import Body
from .read_tables import Hints, Tables
from .wire import (
    CONSTANT,
    END,
    F_ENTRY,
    F_HINTS,
    F_PRIVATE,
    FUNC,
    GLOBAL,
    MAGIC,
    MLIR_MAGIC,
    NEWEST,
    PRODUCER,
    SECTION_NAMES,
    STRING,
    TYPE,
    Damage,
    varint,
)  # fmt: skip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.diag import Sink

EXTRA_HINTS = "tileiras"  # architecture key under which the writer keeps other attributes
MODULE_NAME = "kernels"  # the bytecode has no module name; this is what NVIDIA's readers use


def is_bytecode(data: bytes) -> bool:
    """Whether the magic is there: tells bytecode and text apart."""
    return data[:7] == MAGIC[:7] or data[:4] == MLIR_MAGIC


def check_header(data: bytes, sink: Sink, *, file: str = "") -> str:
    """The version ("13.1") of an accepted header. Errors: as `read`; nothing behind the header is looked at."""
    reader = _Reader(data)
    try:
        reader.header()
    except Damage as damage:
        _report(damage, sink, Loc(file) if file else None)
    except IndexError:
        _report(Damage("unexpected end of the file", len(data)), sink, Loc(file) if file else None)
    else:
        return f"13.{reader.minor}"
    raise sink.fail(EXIT_BYTECODE)


def read(data: bytes, sink: Sink, *, file: str = "") -> Op:
    """The `cuda_tile.module` op. Errors: one diagnostic in `sink`, CompileError with exit code 3."""
    where = Loc(file) if file else None
    sink.file = file
    try:
        return _Reader(data).module()
    except Damage as damage:
        _report(damage, sink, where)
    except (IndexError, struct.error):  # a section that is too short for its own header
        _report(Damage("unexpected end of the file", len(data)), sink, where)
    raise sink.fail(EXIT_BYTECODE)


def _report(damage: Damage, sink: Sink, where: Loc | None) -> None:
    """The reader's line first, then the driver's, which every refusal with code 3 but a wrong version ends with."""
    if damage.diag is diags.BAD_VERSION:
        facts = tuple(damage.facts.items())
        sink.emit(
            diags.BAD_VERSION,
            loc=where,
            notes=(Emitted(diags.REAL_VERSION, where, facts=facts),),
            **damage.facts,
        )
        return
    hint = damage.facts.pop("hint", "")
    if damage.diag is None:
        sink.emit(diags.DAMAGED, loc=where, offset=damage.offset, what=damage.what)
    elif damage.diag is diags.BAD_MAGIC:
        sink.emit(damage.diag, loc=where, **damage.facts)  # type: ignore[arg-type]
    else:
        offset = (("offset", damage.offset), ("what", damage.what))
        damage.facts.setdefault("offset", damage.offset)
        sink.emit(
            damage.diag, loc=where, notes=(Emitted(diags.AT_OFFSET, where, facts=offset),), **damage.facts
        )
    sink.emit(diags.NOT_BYTECODE, loc=where, hint=hint)


class _Reader(Tables):
    """Header, sections, globals and functions of one file."""

    # ---- container

    def header(self) -> int:
        """Checks magic and version; the position after the header."""
        data = self.data
        if data[:8] != MAGIC:
            same = next((i for i in range(min(len(data), 8)) if data[i] != MAGIC[i]), min(len(data), 8))
            looks_mlir = data[:4] == MLIR_MAGIC or (same == 7 and data[7:8] == b"\n")
            hint = diags.MLIR_HINT if looks_mlir else ""
            raise Damage("magic", same, diags.BAD_MAGIC, position=same, hint=hint)
        if len(data) < 12:
            raise Damage("failed to parse the version", 8)
        major, minor, patch = data[8], data[9], 0
        if data[11] == 0:
            self.tag = data[10] | data[11] << 8
            pos = 12
        else:  # the 11-byte header of the specification: three varints
            major, pos = varint(data, 8)
            minor, pos = varint(data, pos)
            patch, pos = varint(data, pos)
        if major != 13 or not 1 <= minor <= NEWEST:
            raise Damage("version", 8, diags.BAD_VERSION, major=major, minor=minor, patch=patch)
        self.minor = minor
        return pos

    def find_sections(self, pos: int) -> None:
        data = self.data
        size = len(data)
        while True:
            start = pos
            if pos >= size:
                raise Damage("end section is missing", pos)
            id, pos = data[pos] & 127, pos + 1
            if id == END:
                if data[start] != END:
                    raise Damage("end section must not be aligned", start)
                if pos != size:
                    raise Damage("end section is not the last section", pos)
                return
            if id > PRODUCER:
                raise Damage(f"unknown section ID: {id}", start)
            try:
                length, pos = varint(data, pos)
                if data[start] & 128:
                    alignment, pos = varint(data, pos)
                    if alignment == 0 or alignment & (alignment - 1):
                        raise Damage(
                            f"alignment {alignment} of the {SECTION_NAMES[id]} section is not a power of two",
                            start,
                        )
                    pos = -(-pos // alignment) * alignment
            except IndexError:
                raise Damage(f"failed to parse {SECTION_NAMES[id]} section", start) from None
            if pos + length > size:
                text = f"failed to parse {SECTION_NAMES[id]} section: {length} bytes exceed the file"
                raise Damage(f"{text}; end section is not the last section", start)
            self.sections[id] = (pos, pos + length)  # a repeated section: the last one counts
            pos += length

    def offsets(self, id: int, align: int, code: str) -> tuple[list[tuple[int, int]], int]:
        """Entry ranges of an offset table (string, type, constant sections)."""
        start, end = self.sections.get(id, (0, 0))
        if start == end:
            return [], end
        return self.offset_table(start, end, align, code, SECTION_NAMES[id])

    def offset_table(
        self, pos: int, end: int, align: int, code: str, name: str
    ) -> tuple[list[tuple[int, int]], int]:
        start = pos
        count, pos = varint(self.data, pos)
        width = 8 if code == "Q" else 4
        pos = -(-pos // align) * align
        base = pos + count * width
        if base > end:
            raise Damage(f"failed to parse {name} section: {count} entries exceed the section", start)
        found = struct.unpack_from(f"<{count}{code}", self.data, pos)
        ranges = []
        for i, offset in enumerate(found):
            stop = found[i + 1] if i + 1 < count else end - base
            if not offset <= stop <= end - base:
                raise Damage(
                    f"failed to parse {name} section: entry {i} has invalid offset {offset}", pos + i * width
                )
            ranges.append((base + offset, base + stop))
        return ranges, base

    def module(self) -> Op:
        self.find_sections(self.header())
        for id in (STRING, FUNC):
            if id not in self.sections:
                raise Damage(f"{SECTION_NAMES[id]} section is mandatory", len(self.data))
        # File names are in whatever encoding a file system has.
        for start, end in self.offsets(STRING, 4, "I")[0]:
            self.strings.append(self.data[start:end].decode("utf-8", "surrogateescape"))
        self.type_entries = self.offsets(TYPE, 4, "I")[0]
        self.types = [None] * len(self.type_entries)
        self.read_constants()
        self.read_debug_tables()
        block = Block()
        attrs: dict[str, Any] = {"sym_name": MODULE_NAME, "bytecode_version": (13, self.minor)}
        if PRODUCER in self.sections:
            start, end = self.sections[PRODUCER]
            attrs["producer"] = self.string(varint(self.data[:end], start)[0], start)
        module = Op(BY_NAME["module"], attrs=attrs, regions=[Region([block])])
        if GLOBAL in self.sections:
            self.read_globals(block)
        self.read_functions(module, block)
        return module

    def read_constants(self) -> None:
        for start, end in self.offsets(CONSTANT, 8, "Q")[0]:
            try:
                size, pos = varint(self.data[:end] if end - start < 12 else self.data, start)
            except IndexError:
                raise Damage("failed to parse constant section", start) from None
            if pos + size > end:
                raise Damage(f"constant of {size} bytes exceeds its entry", start)
            self.constants.append(self.data[pos : pos + size])

    def read_globals(self, block: Block) -> None:
        start, end = self.sections[GLOBAL]
        data = self.data[:end]
        spec = BY_NAME["global"]
        try:
            count, pos = varint(data, start)
            for _ in range(count):
                at = pos
                name, pos = varint(data, pos)
                index, pos = varint(data, pos)
                type = self.type(index, at)
                if not isinstance(type, T.TileType):
                    raise Damage(f"global has type '{type}', expected a tile", at)
                index, pos = varint(data, pos)
                attrs: dict[str, Any] = {
                    "sym_name": self.string(name, at),
                    "value": self.dense(type, index, at),
                }
                attrs["alignment"], pos = varint(data, pos)
                if self.minor >= 3:
                    visibility, pos = varint(data, pos)
                    cases = cases_of("SymbolVisibility")
                    if visibility >= len(cases):
                        raise Damage(f"unknown SymbolVisibility value: {visibility}", at)
                    if visibility:
                        attrs["symbol_visibility"] = cases[visibility]
                    constant, pos = varint(data, pos)
                    if constant > 1:
                        raise Damage(f"invalid constant flag of a global: {constant}", at)
                    if constant:
                        attrs["constant"] = True
                block.append(Op(spec, attrs=attrs))
        except IndexError:
            raise Damage("failed to parse global section", end) from None

    def read_functions(self, module: Op, block: Block) -> None:
        start, end = self.sections[FUNC]
        data = self.data[:end]
        try:
            count, pos = varint(data, start)
            for _ in range(count):
                pos = self.read_function(data, pos, module, block)
        except IndexError:
            raise Damage("failed to parse function section", end) from None

    def extra_attrs(self, module: Op, attrs: dict[str, Any], extra: dict[str, Any]) -> None:
        """Attributes that the format has no place for, as our writer keeps them: of the module and the entry."""
        arguments = extra.pop("arguments", ())
        if (
            isinstance(arguments, tuple)
            and all(isinstance(one, dict) for one in arguments)
            and any(arguments)
        ):
            attrs["arg_attrs"] = arguments
        for name, value in extra.items():
            where, _, own = name.partition(".")
            if isinstance(value, tuple):
                value = tuple(v.value if type(v) is T.IntegerAttr and v.type is T.I32 else v for v in value)
            if where == "module" and own not in ("sym_name", "producer", "bytecode_version"):
                module.attrs.setdefault(own, value)
            elif where == "entry" and own not in BY_NAME["entry"].attr_by_name:
                attrs.setdefault(own, value)

    def read_function(self, data: bytes, pos: int, module: Op, block: Block) -> int:
        at = pos
        index, pos = varint(data, pos)
        name = self.string(index, at)
        index, pos = varint(data, pos)
        signature = self.type(index, at)
        if not isinstance(signature, T.FunctionType):
            raise Damage(f"function '{name}' has type '{signature}', expected a function type", at)
        flags, pos = data[pos], pos + 1
        if flags & ~7:
            raise Damage(f"function entry has unrecognized flag bits (0x{flags & ~7:x});", pos - 1)
        if not flags & F_ENTRY:
            text = f"un-expected non-entry function '{name}'"
            if self.minor >= 5:
                raise Damage(text, pos - 1, diags.PREVIEW, content=f"function '{name}' is not an entry")
            raise Damage(text, pos - 1)
        if flags & F_HINTS and self.minor >= 5:  # there they always follow, and the bit means extern
            raise Damage("function entry cannot be both kernel and extern impl", pos - 1)
        location, pos = varint(data, pos)
        attrs: dict[str, Any] = {"sym_name": name, "function_type": signature}
        if flags & F_PRIVATE:
            attrs["sym_visibility"] = "private"
        if flags & F_HINTS or self.minor >= 5:  # 13.5 writes the hints always
            value, pos = self.attribute(data, pos, 0)
            if not isinstance(value, Hints):
                raise Damage(f"hints of function '{name}' are not an optimization hints attribute", pos)
            hints = dict(value)
            for arch, entry_hints in hints.items():
                if not isinstance(entry_hints, dict):
                    raise Damage(f"optimization hints of '{arch}' are not a dictionary", pos)
            extra = hints.pop(EXTRA_HINTS, None)
            if isinstance(extra, dict):
                launch_hints.take_out(hints, extra)
                self.extra_attrs(module, attrs, extra)
                if len(attrs.get("arg_attrs") or signature.params) != len(signature.params):
                    del attrs["arg_attrs"]
            if hints:
                attrs["optimization_hints"] = hints
        if self.minor >= 5:
            value, pos = self.attribute(data, pos, 0)
            if not isinstance(value, tuple) or not all(isinstance(v, dict) for v in value):
                raise Damage(f"argument attributes of function '{name}' are not a list of dictionaries", pos)
            if value and len(value) != len(signature.params):
                text = f"{len(value)} argument attributes for {len(signature.params)} arguments of function '{name}'"
                raise Damage(text, pos)
            if any(value):
                attrs["arg_attrs"] = value
        length, pos = varint(data, pos)
        if pos + length > len(data):
            raise Damage(f"body of function '{name}' exceeds the section", pos)
        locations = self.function_locations(location, at)
        body = Block(signature.params)
        entry = Op(BY_NAME["entry"], attrs=attrs, regions=[Region([body])], loc=next(locations, UNKNOWN))
        block.append(entry)
        code = Body(self, data[pos : pos + length], locations)
        code.values = list(body.args)
        try:
            code.instructions(body, -1, 0)
        except IndexError:
            raise Damage(f"unexpected end of the body of function '{name}'", length) from None
        return pos + length
