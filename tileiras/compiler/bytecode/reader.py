"""Bytecode -> module. Loops over decode plans; every index and length is checked, nothing is guessed.

Order: header, all section headers, then strings, types, constants and debug attributes on demand, globals,
functions. Whatever is wrong with the bytes is one diagnostic and exit code 3. What a well-formed file may still
get wrong (types of operands, structure) is the verifier's.
"""

from __future__ import annotations

import struct

from tileiras.compiler.dialects.cuda_tile.dense import check_dense
from tileiras.compiler.dialects.cuda_tile.ops import BY_NAME
from tileiras.compiler.ir import debug as D
from tileiras.compiler.ir import types as T
from tileiras.compiler.ir.core import Block, Op, Region, Value
from tileiras.diag import EXIT_BYTECODE, UNKNOWN, Emitted, Loc

from . import diags
from .opcodes import MAX_OPCODE, NAMES
from .plan import COUNTED, FIXED, OPTIONAL, REQUIRED, cases_of, plan_of
from .wire import (
    A_ARRAY, A_BOOL, A_BOUNDED, A_DENSE, A_DICT, A_DIV_BY, A_FLOAT, A_HINTS, A_INTEGER, A_SAME, A_STRING, A_TYPE,
    CONSTANT, D_BLOCK, D_CALL_SITE, D_COMPILE_UNIT, D_FILE, D_LOC, D_SUBPROGRAM, D_UNKNOWN, DEBUG, END, F_ENTRY,
    F_HINTS, F_PRIVATE, FUNC, FUNCTION, GATHER_SCATTER_VIEW, GLOBAL, MAGIC, MAX_DEPTH, MLIR_MAGIC, NEWEST,
    PARTITION_VIEW, PRODUCER, PTR, SCALAR_CLASS, SCALARS, SECTION_NAMES, STRIDED_VIEW, STRING, TENSOR_VIEW, TILE,
    TOKEN, TYPE, Damage, float_bits, ints, unzigzag, varint,
)  # fmt: skip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.types import Type
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
        sink.emit(diags.BAD_VERSION, loc=where, notes=(Emitted(diags.REAL_VERSION, where, facts=facts),), **damage.facts)
        return
    hint = damage.facts.pop("hint", "")
    if damage.diag is None:
        sink.emit(diags.DAMAGED, loc=where, offset=damage.offset, what=damage.what)
    elif damage.diag is diags.BAD_MAGIC:
        sink.emit(damage.diag, loc=where, **damage.facts)
    else:
        offset = (("offset", damage.offset), ("what", damage.what))
        damage.facts.setdefault("offset", damage.offset)
        sink.emit(damage.diag, loc=where, notes=(Emitted(diags.AT_OFFSET, where, facts=offset),), **damage.facts)
    sink.emit(diags.NOT_BYTECODE, loc=where, hint=hint)


class _Reader:
    """One file. `minor` gates what may appear; tables are decoded on demand and kept."""

    def __init__(self, data: bytes) -> None:
        self.data = bytes(data)
        self.minor = 1
        self.tag = 0
        self.sections: dict[int, tuple[int, int]] = {}
        self.strings: list[str] = []
        self.type_entries: list[tuple[int, int]] = []
        self.types: list[Type | None] = []
        self.resolving: list[int] = []
        self.constants: list[bytes] = []
        self.debug_entries: list[tuple[int, int]] = []
        self.debug: list[Any] = []
        self.debug_functions: list[int] = []
        self.debug_indices: tuple[int, ...] = ()

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
                    raise Damage("unexpected data after the end section", pos)
                return
            if id > PRODUCER:
                raise Damage(f"unknown section ID: {id}", start)
            try:
                length, pos = varint(data, pos)
                if data[start] & 128:
                    alignment, pos = varint(data, pos)
                    if alignment == 0 or alignment & (alignment - 1):
                        raise Damage(f"alignment {alignment} of the {SECTION_NAMES[id]} section is not a power of two", start)
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

    def offset_table(self, pos: int, end: int, align: int, code: str, name: str) -> tuple[list[tuple[int, int]], int]:
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
                raise Damage(f"failed to parse {name} section: entry {i} has invalid offset {offset}", pos + i * width)
            ranges.append((base + offset, base + stop))
        return ranges, base

    def module(self) -> Op:
        self.find_sections(self.header())
        for id in (STRING, FUNC):
            if id not in self.sections:
                raise Damage(f"{SECTION_NAMES[id]} section is mandatory", len(self.data))
        for i, (start, end) in enumerate(self.offsets(STRING, 4, "I")[0]):
            try:
                self.strings.append(self.data[start:end].decode("utf-8"))
            except UnicodeDecodeError:
                raise Damage(f"string {i} is not valid UTF-8", start) from None
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
                attrs: dict[str, Any] = {"sym_name": self.string(name, at), "value": self.dense(type, index, at)}
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
        location, pos = varint(data, pos)
        attrs: dict[str, Any] = {"sym_name": name, "function_type": signature}
        if flags & F_PRIVATE:
            attrs["sym_visibility"] = "private"
        if flags & F_HINTS or self.minor >= 5:  # 13.5 writes the hints always, whatever the flag says
            value, pos = self.attribute(data, pos, 0)
            if not isinstance(value, Hints):
                raise Damage(f"hints of function '{name}' are not an optimization hints attribute", pos)
            hints = dict(value)
            for arch, entry_hints in hints.items():
                if not isinstance(entry_hints, dict):
                    raise Damage(f"optimization hints of '{arch}' are not a dictionary", pos)
            extra = hints.pop(EXTRA_HINTS, None)
            if isinstance(extra, dict):
                self.extra_attrs(module, attrs, extra)
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
        code = _Body(self, data[pos : pos + length], locations)
        code.values = list(body.args)
        try:
            code.instructions(body, -1, 0)
        except IndexError:
            raise Damage(f"unexpected end of the body of function '{name}'", length) from None
        return pos + length

    # ---- tables

    def string(self, index: int, at: int) -> str:
        if index >= len(self.strings):
            raise Damage(f"string index {index} out of bounds (size={len(self.strings)})", at)
        return self.strings[index]

    def constant(self, index: int, at: int) -> bytes:
        if index >= len(self.constants):
            raise Damage(f"constant index {index} out of bounds (size={len(self.constants)})", at)
        return self.constants[index]

    def type(self, index: int, at: int) -> Type:
        """The type of a table entry, decoded on first use."""
        try:
            found = self.types[index]
        except IndexError:
            raise Damage(f"type index {index} out of bounds (size={len(self.types)})", at) from None
        if found is None:
            if index in self.resolving or len(self.resolving) > MAX_DEPTH:
                raise Damage(f"type {index} refers to itself", at)
            self.resolving.append(index)
            start, end = self.type_entries[index]
            try:
                found = self.decode_type(self.data[start:end], start)
            except IndexError:
                raise Damage(f"failed to parse type {index}", start) from None
            self.resolving.pop()
            self.types[index] = found
        return found

    def need(self, what: str, since: int, at: int) -> None:
        if self.minor < since:
            text = f"{what} requires bytecode version 13.{since}+, file version is 13.{self.minor}"
            raise Damage(text, at)

    def part(self, index: int, at: int, kinds: tuple[type, ...], what: str) -> Type:
        found = self.type(index, at)
        if not isinstance(found, kinds):
            raise Damage(f"{what} cannot be '{found}'", at)
        return found

    def decode_type(self, data: bytes, at: int) -> Type:
        tag, pos = varint(data, 0)
        scalar = SCALARS.get(tag)
        if scalar is not None:
            if scalar[1] > self.minor:
                self.need(f"type '{SCALAR_CLASS.get(scalar[0], scalar[0].name)}'", scalar[1], at)
            return scalar[0]
        if tag == TILE:
            index, pos = varint(data, pos)
            elem = self.part(index, at, (T.Scalar, T.Ptr), "element type of a tile")
            shape, pos = ints(data, pos, 8)
            if any(d < 0 for d in shape):
                raise Damage("tile dimensions must be static", at)
            return T.TileType(elem, shape)
        if tag == TOKEN:
            return T.TOKEN
        if tag == PTR:
            flags = 0
            if self.minor >= 4:
                flags, pos = varint(data, pos)
            index, pos = varint(data, pos)
            pointee = self.part(index, at, (T.Scalar, T.Ptr), "pointee type")
            return T.Ptr(pointee, self.ptr_attr(data, pos, at) if flags & 1 else None)
        if tag == TENSOR_VIEW:
            flags = 0
            if self.minor >= 4:
                flags, pos = varint(data, pos)
            index, pos = varint(data, pos)
            elem = self.part(index, at, (T.Scalar, T.Ptr), "element type of a tensor_view")
            shape, pos = ints(data, pos, 8)
            strides, pos = ints(data, pos, 8)
            dims = tuple(None if d == T.DYNAMIC else d for d in shape)
            steps = tuple(None if d == T.DYNAMIC else d for d in strides)
            return T.TensorView(elem, dims, steps, self.ptr_attr(data, pos, at) if flags & 1 else None)
        if tag in (PARTITION_VIEW, STRIDED_VIEW, GATHER_SCATTER_VIEW):
            return self.decode_view(tag, data, pos, at)
        if tag == FUNCTION:
            lists = []
            for _ in range(2):
                count, pos = varint(data, pos)
                items = []
                for _ in range(count):
                    index, pos = varint(data, pos)
                    item = self.type(index, at)
                    if isinstance(item, T.FunctionType):
                        raise Damage("function types do not nest", at)
                    items.append(item)
                lists.append(tuple(items))
            return T.FunctionType(*lists)
        if self.minor >= 5 and self.tag & 1:
            raise Damage(f"unsupported type tag {tag}", at, diags.PREVIEW, content=f"type tag {tag}")
        raise Damage(f"unsupported type tag {tag}", at)

    def ptr_attr(self, data: bytes, pos: int, at: int) -> str:
        return self.enum("PtrAttr", varint(data, pos)[0], at)

    def enum(self, name: str, number: int, at: int) -> str:
        cases = cases_of(name)
        case = cases[number] if number < len(cases) else None
        if case is None:
            raise Damage(f"unknown {name} value: {number}", at)
        return case

    def decode_view(self, tag: int, data: bytes, pos: int, at: int) -> Type:
        flags = None
        if tag != PARTITION_VIEW:
            self.need(f"type '{'strided_view' if tag == STRIDED_VIEW else 'gather_scatter_view'}'", 3, at)
        if self.minor >= 3:
            flags, pos = varint(data, pos)
        tile, pos = ints(data, pos, 4)
        traversal: tuple[int, ...] = ()
        if tag == STRIDED_VIEW:
            traversal, pos = ints(data, pos, 4)
        index, pos = varint(data, pos)
        view = self.part(index, at, (T.TensorView,), "view inside of a tile view")
        dim_map: Any
        if tag == GATHER_SCATTER_VIEW:
            dim_map, pos = varint(data, pos)
        else:
            dim_map, pos = ints(data, pos, 4)
            if -(1 << 31) in dim_map:
                raise Damage(f"array contains unsupported value {-(1 << 31)}", at)
        if flags is None:
            flags, pos = data[pos], pos + 1
        padding = self.enum("PaddingValue", varint(data, pos)[0], at) if flags & 1 else None
        if tag == PARTITION_VIEW:
            return T.PartitionView(tile, view, dim_map, padding)
        if tag == STRIDED_VIEW:
            return T.StridedView(tile, traversal, view, dim_map, padding)
        return T.GatherScatterView(tile, view, dim_map, padding)

    # ---- attributes

    def dense(self, type: Type, index: int, at: int) -> Any:
        """Constant data as a Dense of `type`, after checking its size."""
        raw = self.constant(index, at)
        if not isinstance(type, T.TileType):
            raise Damage(f"constant has type '{type}', expected a tile", at)
        problem = check_dense(type, raw)
        if problem:
            raise Damage(problem, at)
        return T.Dense(type, raw)

    def attribute(self, data: bytes, pos: int, depth: int) -> tuple[Any, int]:
        """A self-contained attribute: tag first."""
        at = pos
        if depth > MAX_DEPTH:
            raise Damage("attribute", at, diags.TOO_DEEP, limit=MAX_DEPTH)
        tag, pos = varint(data, pos)
        if tag == A_INTEGER:
            index, pos = varint(data, pos)
            type = self.type(index, at)
            if not isinstance(type, T.Scalar) or type.is_float:
                raise Damage(f"integer attribute has type '{type}'", at)
            if type.bits <= 8:
                value, pos = data[pos], pos + 1
                if type.bits == 8 and value > 127:  # written as a varint of the zero-extended value
                    value, pos = varint(data, pos - 1)
            else:
                value, pos = varint(data, pos)
            if value >> type.bits:
                raise Damage(f"integer attribute {value} does not fit '{type}'", at)
            return T.IntegerAttr(type, value), pos
        if tag == A_FLOAT:
            index, pos = varint(data, pos)
            type = self.type(index, at)
            if not isinstance(type, T.Scalar) or not type.is_float:
                raise Damage(f"float attribute has type '{type}'", at)
            value, pos = float_bits(data, pos, type.bits)
            return T.FloatAttr(type, value), pos
        if tag == A_BOOL:
            if data[pos] > 1:
                raise Damage(f"invalid bool: {data[pos]}", pos)
            return data[pos] == 1, pos + 1
        if tag == A_TYPE:
            index, pos = varint(data, pos)
            return self.type(index, at), pos
        if tag == A_STRING:
            index, pos = varint(data, pos)
            return self.string(index, at), pos
        if tag == A_ARRAY:
            return self.array(data, pos, depth)
        if tag == A_DENSE:
            index, pos = varint(data, pos)
            type = self.type(index, at)
            index, pos = varint(data, pos)
            return self.dense(type, index, at), pos
        if tag == A_DIV_BY:
            divisor, pos = varint(data, pos)
            flags, pos = data[pos], pos + 1
            every = along = None
            if flags & 1:
                every, pos = varint(data, pos)
                every = unzigzag(every)
            if flags & 2:
                along, pos = varint(data, pos)
                along = unzigzag(along)
            return T.DivBy(divisor, every, along), pos
        if tag == A_SAME:
            values, pos = ints(data, pos, 8)
            return T.SameElements(values), pos
        if tag == A_DICT:
            return self.dictionary(data, pos, depth, dict)
        if tag == A_HINTS:
            return self.dictionary(data, pos, depth, Hints)
        if tag == A_BOUNDED:
            flags, pos = data[pos], pos + 1
            lower = upper = None
            if flags & 1:
                lower, pos = varint(data, pos)
                lower = unzigzag(lower)
            if flags & 2:
                upper, pos = varint(data, pos)
                upper = unzigzag(upper)
            return T.Bounded(lower, upper), pos
        if self.minor >= 5 and self.tag & 1:
            raise Damage(f"unsupported AttributeTag {tag}", at, diags.PREVIEW, content=f"attribute tag {tag}")
        real = f"unsupported AttributeTag {tag} for self-contained attribute"
        raise Damage(real, at, diags.UNKNOWN_TAG, tag=tag)

    def array(self, data: bytes, pos: int, depth: int) -> tuple[tuple[Any, ...], int]:
        count, pos = varint(data, pos)
        items = []
        for _ in range(count):
            item, pos = self.attribute(data, pos, depth + 1)
            items.append(item)
        return tuple(items), pos

    def dictionary(self, data: bytes, pos: int, depth: int, kind: type) -> tuple[dict[str, Any], int]:
        """Keys to values. 32-bit integers become plain ints: that is what hints are."""
        count, pos = varint(data, pos)
        found = kind()
        for _ in range(count):
            at = pos
            index, pos = varint(data, pos)
            value, pos = self.attribute(data, pos, depth + 1)
            if isinstance(value, T.IntegerAttr) and value.type is T.I32:
                value = value.value - (1 << 32) if value.value >> 31 else value.value
            name = self.string(index, at)
            if not name:
                raise Damage(f"invalid empty attribute name for DictionaryAttr element {len(found)}", at)
            found[name] = value
        return found, pos

    def hints(self, data: bytes, pos: int) -> tuple[dict[str, Any], int]:
        at = pos
        found, pos = self.dictionary(data, pos, 0, dict)
        for arch, entry in found.items():
            if not isinstance(entry, dict):
                raise Damage(f"optimization hints of '{arch}' are not a dictionary", at)
        return found, pos

    # ---- debug information

    def read_debug_tables(self) -> None:
        if DEBUG not in self.sections:
            return
        start, end = self.sections[DEBUG]
        data = self.data[:end]
        try:
            count, pos = varint(data, start)
            pos = -(-pos // 4) * 4
            if pos + 4 * count > end:
                raise Damage(f"failed to parse debug section: {count} functions exceed the section", start)
            self.debug_functions = list(struct.unpack_from(f"<{count}I", data, pos))
            count, pos = varint(data, pos + 4 * count)
            pos = -(-pos // 8) * 8
            if pos + 8 * count > end:
                raise Damage(f"failed to parse debug section: {count} indices exceed the section", start)
            self.debug_indices = struct.unpack_from(f"<{count}Q", data, pos)
            self.debug_entries, _ = self.offset_table(pos + 8 * count, end, 4, "I", "debug")
        except IndexError:
            raise Damage("failed to parse debug section", start) from None
        self.debug = [None] * len(self.debug_entries)

    def function_locations(self, record: int, at: int) -> Any:
        """Locations of a function and of its instructions, in file order."""
        if record == 0:
            return iter(())
        if record > len(self.debug_functions):
            raise Damage(f"debug index {record} out of bounds (size={len(self.debug_functions)})", at)
        first = self.debug_functions[record - 1]
        if first > len(self.debug_indices):
            raise Damage(f"debug position {first} out of bounds (size={len(self.debug_indices)})", at)
        # Records follow each other; the end of one is not stored, and nobody reads past the instructions.
        return (self.location(index, at) for index in self.debug_indices[first:])

    def location(self, index: int, at: int) -> Loc:
        found = self.debug_attribute(index, at)
        if found is None:
            return UNKNOWN
        if not isinstance(found, Loc):
            raise Damage(f"debug attribute {index} is not a location", at)
        return found

    def debug_attribute(self, index: int, at: int) -> Any:
        """A record by its 1-based index; None for 0 and for the Unknown record."""
        if index == 0:
            return None
        if index > len(self.debug):
            raise Damage(f"debug attribute index {index} out of bounds (size={len(self.debug)})", at)
        found = self.debug[index - 1]
        if found is None:
            key = -index
            if key in self.resolving or len(self.resolving) > MAX_DEPTH:
                raise Damage(f"debug attribute {index} refers to itself", at)
            self.resolving.append(key)
            start, end = self.debug_entries[index - 1]
            try:
                found = self.decode_debug(self.data[start:end], start)
            except IndexError:
                raise Damage(f"failed to parse debug attribute {index}", start) from None
            self.resolving.pop()
            self.debug[index - 1] = found
        return found

    def decode_debug(self, data: bytes, at: int) -> Any:
        tag, pos = varint(data, 0)
        fields = []
        while pos < len(data):
            value, pos = varint(data, pos)
            fields.append(value)
        if tag == D_UNKNOWN:
            return None
        if tag == D_FILE:
            return D.DIFile(self.string(fields[0], at), self.string(fields[1], at))
        if tag == D_COMPILE_UNIT:
            return D.DICompileUnit(self.debug_part(fields[0], at, D.DIFile))
        if tag == D_BLOCK:
            scope = self.debug_part(fields[0], at, (D.DILexicalBlock, D.DISubprogram, D.DIFile, D.DICompileUnit))
            return D.DILexicalBlock(scope, self.debug_part(fields[1], at, D.DIFile), fields[2], fields[3])
        if tag == D_SUBPROGRAM:
            file = self.debug_part(fields[0], at, D.DIFile)
            unit = self.debug_part(fields[4], at, D.DICompileUnit)
            name, linkage = self.string(fields[2], at), self.string(fields[3], at)
            return D.DISubprogram(file, fields[1], name, linkage, unit, fields[5], fields[6] if len(fields) > 6 else None)
        if tag == D_LOC:
            scope = self.debug_part(fields[0], at, (D.DILexicalBlock, D.DISubprogram, D.DIFile, D.DICompileUnit))
            return Loc(self.string(fields[1], at), fields[2], fields[3], scope=scope)
        if tag == D_CALL_SITE:
            callee = self.debug_part(fields[0], at, Loc)
            caller = self.debug_part(fields[1], at, Loc)
            callee = callee if callee is not None else UNKNOWN
            if caller is None:
                return callee
            callers = (*callee.callers, Loc(caller.file, caller.line, caller.col, scope=caller.scope), *caller.callers)
            if len(callers) > 4 * MAX_DEPTH:
                raise Damage("call site chain is too long", at)
            return Loc(callee.file, callee.line, callee.col, callers, callee.scope)
        raise Damage(f"unsupported debug tag {tag}", at)

    def debug_part(self, index: int, at: int, kinds: Any) -> Any:
        found = self.debug_attribute(index, at)
        if found is not None and not isinstance(found, kinds):
            raise Damage(f"debug attribute {index} has the wrong kind", at)
        return found


class Hints(dict):  # type: ignore[type-arg]
    """Attribute tag 11 while it is read: a dictionary that may stand where hints are expected."""


class _Body:
    """Instructions of one function. `values` is the numbering in scope; `pos` is relative to the body."""

    __slots__ = ("data", "file", "locations", "pos", "values")

    def __init__(self, file: _Reader, data: bytes, locations: Any) -> None:
        self.file = file
        self.data = data
        self.pos = 0
        self.values: list[Value] = []
        self.locations = locations

    def instructions(self, block: Block, count: int, depth: int) -> None:
        """Decodes `count` instructions (-1: to the end of the body) into `block`."""
        file, data, values, locations = self.file, self.data, self.values, self.locations
        minor, types, ops = file.minor, file.types, block.ops
        size, pos = len(data), self.pos
        while count != 0 and (count > 0 or pos < size):
            count -= 1
            start = pos
            opcode = data[pos]
            pos += 1
            if opcode > 127:
                opcode, pos = varint(data, start)
            plan = plan_of(opcode, minor)
            if plan is None:
                raise self.bad_opcode(opcode, start)
            spec = plan.spec
            loc = next(locations, UNKNOWN)
            # Result types.
            n = plan.results
            if plan.result_count:
                n = data[pos]
                pos += 1
                if n > 127:
                    n, pos = varint(data, pos - 1)
            result_types = []
            for _ in range(n):
                index = data[pos]
                pos += 1
                if index > 127:
                    index, pos = varint(data, pos - 1)
                type = types[index] if index < len(types) else None
                result_types.append(file.type(index, pos) if type is None else type)
            flags = 0
            if plan.has_flags:
                flags = data[pos]
                pos += 1
                if flags > 127:
                    flags, pos = varint(data, pos - 1)
            attrs: dict[str, Any] = {}
            for name, bit, kind, enum in plan.attrs:
                if bit >= 0 and not flags >> bit & 1:
                    continue
                if kind == "enum":
                    cases = cases_of(enum)
                    number = data[pos]
                    if number >= len(cases):
                        number = varint(data, pos)[0]
                        raise Damage(f"unknown {enum} value: {number} for attribute '{name}'", pos)
                    attrs[name] = cases[number]
                    pos += 1
                else:
                    attrs[name], pos = self.attribute(kind, pos, result_types)
            for name, mask in plan.units:
                if flags & mask:
                    attrs[name] = True
            # Operands: numbers of values in scope.
            segments = None
            encoding = plan.encoding
            operands: list[Value] = []
            if encoding == FIXED:
                pos = self.operands(plan.required, operands, pos)
            elif encoding == COUNTED:
                n, pos = varint(data, pos)
                if n < plan.required:
                    raise Damage(f"{n} operands, expected at least {plan.required}", pos)
                pos = self.operands(n, operands, pos)
                rest = n - plan.required
                sizes = []
                for mode, _ in plan.operands:
                    if mode == REQUIRED:
                        sizes.append(1)
                    elif mode == OPTIONAL:
                        sizes.append(1 if rest else 0)
                        rest -= 1 if rest else 0
                    else:
                        sizes.append(rest)
                        rest = 0
                if rest:
                    raise Damage(f"{n} operands are too many", pos)
                segments = tuple(sizes)
            else:
                sizes = []
                for mode, mask in plan.operands:
                    n = 1
                    if mode == OPTIONAL:
                        n = 1 if flags & mask else 0
                    elif mode != REQUIRED:
                        n, pos = varint(data, pos)
                    if n:
                        pos = self.operands(n, operands, pos)
                    sizes.append(n)
                segments = tuple(sizes)
            regions: list[Region] = []
            if plan.regions:
                self.pos = pos
                regions = self.regions(plan.regions, depth)
                pos = self.pos
            numbered = len(result_types)
            for result in plan.absent:  # a token that older files do not have: nobody can use it there
                if result.constraint == "token":
                    result_types.append(T.TOKEN)
            op = Op(spec, operands, result_types, attrs, regions, loc, segments)
            op.block = block
            ops.append(op)
            values += op.results[:numbered] if numbered != len(result_types) else op.results
        self.pos = pos

    def operands(self, count: int, into: list[Value], pos: int) -> int:
        data, values = self.data, self.values
        size = len(values)
        for _ in range(count):
            index = data[pos]
            pos += 1
            if index > 127:
                index, pos = varint(data, pos - 1)
            if index >= size:
                raise Damage(f"operand index {index} out of bounds (size={size}) for operand {len(into)}", pos)
            into.append(values[index])
        return pos

    def regions(self, expected: int, depth: int) -> list[Region]:
        data = self.data
        start = self.pos
        if depth >= MAX_DEPTH:
            raise Damage("regions", start, diags.TOO_DEEP, limit=MAX_DEPTH)
        count, pos = varint(data, start)
        if count != expected:
            raise Damage(f"{count} regions, expected {expected}", start)
        found = []
        for _ in range(count):
            region = Region()
            blocks, pos = varint(data, pos)
            for _ in range(blocks):
                scope = len(self.values)
                at = pos
                n, pos = varint(data, pos)
                block = Block()
                for _ in range(n):
                    index, pos = varint(data, pos)
                    self.values.append(block.add_arg(self.file.type(index, pos)))
                n, pos = varint(data, pos)
                if n == 0:
                    what = "block is expected to have a terminator operation, but it is empty"
                    raise Damage(f"invalid block structure: {what}", at, diags.EMPTY_BLOCK)
                self.pos = pos
                self.instructions(block, n, depth + 1)
                pos = self.pos
                del self.values[scope:]
                region.append(block)
            found.append(region)
        self.pos = pos
        return found

    def attribute(self, kind: str, pos: int, result_types: list[Type]) -> tuple[Any, int]:
        """An attribute of a fixed kind: no tag."""
        file, data = self.file, self.data
        if kind in ("i64", "i32"):
            value, pos = varint(data, pos)
            return value - (1 << 64) if value >> 63 else value, pos
        if kind == "bool":
            if data[pos] > 1:
                raise Damage(f"invalid bool: {data[pos]}", pos)
            return data[pos] == 1, pos + 1
        if kind == "dense":
            index, pos = varint(data, pos)
            if not result_types:
                raise Damage("constant without a result type", pos)
            return file.dense(result_types[0], index, pos), pos
        if kind in ("string", "symbol"):
            index, pos = varint(data, pos)
            return file.string(index, pos), pos
        if kind == "predicate":
            return file.attribute(data, pos, 0)
        if kind == "hints":
            return file.hints(data, pos)
        if kind == "array":
            return file.array(data, pos, 0)
        if kind == "i32s":
            return ints(data, pos, 4)
        if kind == "bools":
            at = pos
            n, pos = varint(data, pos)
            raw = data[pos : pos + n]
            if len(raw) != n or any(b > 1 for b in raw):
                raise Damage("invalid list of bools", at)
            return tuple(b == 1 for b in raw), pos + n
        raise AssertionError(f"no codec for attribute kind {kind}")

    def bad_opcode(self, opcode: int, at: int) -> Damage:
        minor = self.file.minor
        if minor >= 5 and opcode in NAMES:
            text = f"unknown or unimplemented opcode: {opcode}"
            return Damage(text, at, diags.PREVIEW, content=f"operation '{NAMES[opcode]}'")
        if opcode > MAX_OPCODE[minor]:
            return Damage(f"unsupported opcode {opcode} for bytecode version 13.{minor}", at)
        return Damage(f"unknown or unimplemented opcode: {opcode}", at)
