"""Module -> bytecode of a chosen version. The mirror of the reader: loops over plans, names no op.

Sections are written in dependency order (string, type, constant, debug, global, producer, function, end); every
known reader takes any order. Equal modules give equal bytes.
"""

from __future__ import annotations

import struct

from tileiras.compiler.dialects.cuda_tile.ops import BY_NAME, ENUMS
from tileiras.compiler.ir import debug as D
from tileiras.compiler.ir import types as T
from tileiras.diag import EXIT_BYTECODE, Loc, Sink

from . import diags, launch_hints
from .opcodes import OPCODES
from .plan import COUNTED, FIXED, OPTIONAL, REQUIRED, plan_of
from .wire import (
    A_ARRAY,
    A_BOOL,
    A_BOUNDED,
    A_DENSE,
    A_DICT,
    A_DIV_BY,
    A_FLOAT,
    A_HINTS,
    A_INTEGER,
    A_SAME,
    A_STRING,
    A_TYPE,
    ALIGN,
    CONSTANT,
    D_BLOCK,
    D_CALL_SITE,
    D_COMPILE_UNIT,
    D_FILE,
    D_LOC,
    D_SUBPROGRAM,
    DEBUG,
    END,
    F_ENTRY,
    F_HINTS,
    F_PRIVATE,
    FUNC,
    FUNCTION,
    GATHER_SCATTER_VIEW,
    GLOBAL,
    MAGIC,
    NEWEST,
    PAD,
    PARTITION_VIEW,
    PRODUCER,
    PTR,
    SCALAR_CLASS,
    SCALAR_TAGS,
    STRIDED_VIEW,
    STRING,
    TENSOR_VIEW,
    TILE,
    TOKEN,
    TYPE,
    put_float_bits,
    put_ints,
    put_varint,
    zigzag,
)  # fmt: skip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op, Region, Value

# Attributes that the format has no place for travel under this architecture key, which real readers ignore.
EXTRA_HINTS = "tileiras"
MODULE_FIELDS = frozenset(("sym_name", "producer", "bytecode_version"))
ENTRY_FIELDS = frozenset(
    ("sym_name", "function_type", "optimization_hints", "sym_visibility", "arg_attrs", "res_attrs")
)


class Unwritable(Exception):
    """What the chosen version cannot say: a diagnostic and its facts."""

    def __init__(self, diag: Any, op: Op | None = None, **facts: object) -> None:
        super().__init__(str(facts))
        self.invalid: Op | None = None  # an op that has no place in the module
        self.diag = diag
        self.op = op
        self.facts = facts


def write(module: Op, version: tuple[int, int] = (13, 1), *, sink: Sink | None = None) -> bytes:
    """The file. Errors: a diagnostic, CompileError with exit code 3, when the version cannot express the module."""
    if sink is None:
        sink = Sink()
    major, minor = version[0], version[1]
    if major != 13 or not 1 <= minor <= NEWEST:
        sink.emit(diags.BAD_TARGET, major=major, minor=minor)
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


class _Writer:
    """Tables that fill while functions are written."""

    def __init__(self, minor: int) -> None:
        self.minor = minor
        self.module: Op | None = None
        self.place: Op | None = None  # what is being written
        self.strings: dict[str, int] = {}
        self.types: dict[Any, int] = {}
        self.type_data: list[bytes] = []
        self.constants: dict[bytes, int] = {}
        self.debug: dict[Any, int] = {}
        self.callers: dict[Any, int] = {}
        self.debug_data: list[bytes] = []
        self.records: list[int] = []  # position of each function's first index
        self.indices: list[int] = []

    # ---- tables

    def string(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))

    def constant(self, data: bytes) -> int:
        return self.constants.setdefault(data, len(self.constants))

    def need(self, what: str, since: int, op: Op | None = None) -> None:
        if self.minor < since:
            raise Unwritable(diags.NOT_EXPRESSIBLE, op, what=what, since=since, minor=self.minor)

    def need_type(self, name: str, since: int) -> None:
        if self.minor < since:
            raise Unwritable(diags.TYPE_TOO_NEW, name=name, since=since, minor=self.minor)

    def type(self, type: Any) -> int:
        """Index of a type; the types inside of it come first."""
        found = self.types.get(type)
        if found is None:
            data = self.type_entry(type)
            found = len(self.type_data)
            self.types[type] = found
            self.type_data.append(data)
        return found

    def type_entry(self, type: Any) -> bytes:
        out = bytearray()
        if isinstance(type, T.Scalar):
            tag, since = SCALAR_TAGS[type]
            self.need_type(SCALAR_CLASS.get(type) or type.name, since)
            put_varint(out, tag)
        elif isinstance(type, T.TileType):
            elem = self.type(type.elem)
            put_varint(out, TILE)
            put_varint(out, elem)
            put_ints(out, type.shape, 8)
        elif type is T.TOKEN:
            put_varint(out, TOKEN)
        elif isinstance(type, T.Ptr):
            pointee = self.type(type.pointee)
            put_varint(out, PTR)
            self.ptr_flags(out, type.attr)
            put_varint(out, pointee)
            self.ptr_attr(out, type.attr)
        elif isinstance(type, T.TensorView):
            elem = self.type(type.elem)
            put_varint(out, TENSOR_VIEW)
            self.ptr_flags(out, type.ptr_attr)
            put_varint(out, elem)
            put_ints(out, [T.DYNAMIC if d is None else d for d in type.shape], 8)
            put_ints(out, [T.DYNAMIC if d is None else d for d in type.strides], 8)
            self.ptr_attr(out, type.ptr_attr)
        elif isinstance(type, T.TILE_VIEWS):
            self.view_entry(out, type)
        elif isinstance(type, T.FunctionType):
            params = [self.type(t) for t in type.params]
            results = [self.type(t) for t in type.results]
            put_varint(out, FUNCTION)
            for group in (params, results):
                put_varint(out, len(group))
                for index in group:
                    put_varint(out, index)
        else:
            raise Unwritable(diags.UNSUPPORTED_TYPE, type=type)
        return bytes(out)

    def ptr_flags(self, out: bytearray, attr: str | None) -> None:
        if attr is not None:
            self.need(f"pointer attribute '{attr}'", 4 if attr == "none" else 5)
        if self.minor >= 4:
            put_varint(out, 0 if attr is None else 1)

    def ptr_attr(self, out: bytearray, attr: str | None) -> None:
        if attr is not None:
            put_varint(out, ENUMS["PtrAttr"][attr])

    def view_entry(self, out: bytearray, type: Any) -> None:
        view = self.type(type.view)
        partition = isinstance(type, T.PartitionView)
        strided = isinstance(type, T.StridedView)
        tag = PARTITION_VIEW if partition else STRIDED_VIEW if strided else GATHER_SCATTER_VIEW
        if not partition:
            self.need_type("strided_view" if strided else "gather_scatter_view", 3)
        padded = type.padding is not None
        put_varint(out, tag)
        if self.minor >= 3:
            put_varint(out, 1 if padded else 0)
        put_ints(out, type.tile, 4)
        if strided:
            put_ints(out, type.traversal, 4)
        put_varint(out, view)
        if tag == GATHER_SCATTER_VIEW:
            put_varint(out, type.sparse_dim)
        else:
            put_ints(out, type.dim_map, 4)
        if self.minor < 3:
            out.append(1 if padded else 0)
        if padded:
            put_varint(out, ENUMS["PaddingValue"][type.padding])

    # ---- attributes

    def attribute(self, out: bytearray, value: Any) -> None:
        """Tag and payload."""
        if value is True or value is False:
            out += bytes((A_BOOL, 1 if value else 0))
        elif isinstance(value, int):
            elem = T.I32 if -(1 << 31) <= value < 1 << 32 else T.I64
            self.attribute(out, T.IntegerAttr(elem, value & ((1 << elem.bits) - 1)))
        elif isinstance(value, str):
            out.append(A_STRING)
            put_varint(out, self.string(value))
        elif isinstance(value, tuple):
            out.append(A_ARRAY)
            put_varint(out, len(value))
            for item in value:
                self.attribute(out, item)
        elif isinstance(value, dict):
            out.append(A_DICT)
            self.dictionary(out, value)
        elif type(value) is T.IntegerAttr:
            out.append(A_INTEGER)
            put_varint(out, self.type(value.type))
            put_varint(out, value.value)
        elif type(value) is T.FloatAttr:
            out.append(A_FLOAT)
            put_varint(out, self.type(value.type))
            put_float_bits(out, value.bits, value.type.bits)
        elif type(value) is T.Dense:
            out.append(A_DENSE)
            put_varint(out, self.type(value.type))
            put_varint(out, self.constant(value.data))
        elif type(value) is T.DivBy:
            out.append(A_DIV_BY)
            put_varint(out, value.divisor & ((1 << 64) - 1))
            out.append((value.every is not None) | (value.along is not None) << 1)
            for part in (value.every, value.along):
                if part is not None:
                    put_varint(out, zigzag(part))
        elif type(value) is T.SameElements:
            out.append(A_SAME)
            put_ints(out, value.values, 8)
        elif type(value) is T.Bounded:
            out.append(A_BOUNDED)
            out.append((value.lower is not None) | (value.upper is not None) << 1)
            for part in (value.lower, value.upper):
                if part is not None:
                    put_varint(out, zigzag(part))
        elif isinstance(value, T.Type):
            out.append(A_TYPE)
            put_varint(out, self.type(value))
        else:
            raise Unwritable(diags.NOT_WRITABLE, what=f"attribute {value!r}")

    def dictionary(self, out: bytearray, value: dict[str, Any]) -> None:
        put_varint(out, len(value))
        for key, item in value.items():
            put_varint(out, self.string(key))
            self.attribute(out, item)

    def field(self, out: bytearray, op: Op, name: str, kind: str, enum: str) -> None:
        """An attribute of a fixed kind: payload only."""
        value = op.attr(name)
        if value is None and kind == "bools":  # newer than the file it came from: nothing is promised
            variadic = next((a.name for a in op.spec.operands if a.mode == 2), None)
            value = (False,) * (len(op.group(variadic)) if variadic is not None else 0)
        if value is None:
            raise Unwritable(diags.NOT_WRITABLE, op, what=f"attribute '{name}' is missing")
        try:
            if kind == "enum":
                put_varint(out, ENUMS[enum][value])
            elif kind in ("i64", "i32"):
                put_varint(out, value & ((1 << 64) - 1))
            elif kind == "bool":
                out.append(1 if value else 0)
            elif kind == "dense":
                put_varint(out, self.constant(value.data))
            elif kind in ("string", "symbol"):
                put_varint(out, self.string(value))
            elif kind == "predicate":
                self.attribute(out, value)
            elif kind == "hints":
                self.dictionary(out, value)
            elif kind == "array":
                put_varint(out, len(value))
                for item in value:
                    self.attribute(out, item)
            elif kind == "i32s":
                put_ints(out, value, 4)
            elif kind == "bools":
                put_varint(out, len(value))
                out += bytes(1 if v else 0 for v in value)
            else:
                raise Unwritable(diags.NOT_WRITABLE, op, what=f"attribute '{name}' of kind {kind}")
        except (KeyError, TypeError, AttributeError, struct.error):
            raise Unwritable(diags.NOT_WRITABLE, op, what=f"attribute '{name}' has value {value!r}") from None

    # ---- debug information

    def debug_index(self, value: Any) -> int:
        """1-based index of a debug record; what it refers to comes first. 0: unknown."""
        if value is None:
            return 0
        key = value
        if isinstance(value, Loc):
            if value.scope is None and not value.callers:
                return 0
            callers = tuple((c.file, c.line, c.col, c.scope) for c in value.callers)
            key = (value.file, value.line, value.col, value.scope, callers)
        found = self.debug.get(key)
        if found is None:
            data = self.debug_entry(value)
            self.debug_data.append(data)
            found = self.debug[key] = len(self.debug_data)
        return found

    def caller_index(self, callers: tuple[Loc, ...]) -> int:
        """The record of a chain of call sites, without a Python frame for each of them."""
        tails, found = [], None
        for k, first in enumerate(callers):
            tail = callers[k:]
            key = tuple((c.file, c.line, c.col, c.scope) for c in tail)
            found = self.callers.get(key)
            if found is not None:
                break
            tails.append((key, Loc(first.file, first.line, first.col, tail[1:], first.scope)))
        for key, loc in reversed(tails):
            found = self.callers[key] = self.debug_index(loc)
        assert found is not None
        return found

    def debug_entry(self, value: Any) -> bytes:
        out = bytearray()
        if isinstance(value, Loc):
            if value.callers:
                callee = self.debug_index(Loc(value.file, value.line, value.col, scope=value.scope))
                fields = [D_CALL_SITE, callee, self.caller_index(value.callers)]
            else:
                fields = [
                    D_LOC,
                    self.debug_index(value.scope),
                    self.string(value.file),
                    value.line,
                    value.col,
                ]
        elif isinstance(value, D.DIFile):
            fields = [D_FILE, self.string(value.name), self.string(value.directory)]
        elif isinstance(value, D.DICompileUnit):
            fields = [D_COMPILE_UNIT, self.debug_index(value.file)]
        elif isinstance(value, D.DILexicalBlock):
            fields = [
                D_BLOCK,
                self.debug_index(value.scope),
                self.debug_index(value.file),
                value.line,
                value.column,
            ]
        elif isinstance(value, D.DISubprogram):
            fields = [
                D_SUBPROGRAM, self.debug_index(value.file), value.line, self.string(value.name),
                self.string(value.linkage_name), self.debug_index(value.compile_unit), value.scope_line,
            ]  # fmt: skip
            if self.minor >= 5:
                fields.append(value.flags or 0)
        else:
            raise Unwritable(diags.NOT_WRITABLE, what=f"debug record {value!r}")
        for field in fields:
            put_varint(out, max(field, 0))
        return bytes(out)

    # ---- functions

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
        body = _Body(self, bool(located))
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

    def debug_section(self) -> bytearray:
        out = bytearray()
        put_varint(out, len(self.records))
        pad(out, 4)
        out += struct.pack(f"<{len(self.records)}I", *self.records)
        put_varint(out, len(self.indices))
        pad(out, 8)
        out += struct.pack(f"<{len(self.indices)}Q", *self.indices)
        put_varint(out, len(self.debug_data))
        pad(out, 4)
        out += offsets(self.debug_data, "I")
        out += b"".join(self.debug_data)
        return out


class _Body:
    """Instructions of one function and the numbers of its values."""

    def __init__(self, file: _Writer, located: bool) -> None:
        self.file = file
        self.located = located
        self.numbers: dict[Value, int] = {}
        self.next = 0

    def number(self, value: Value) -> None:
        self.numbers[value] = self.next
        self.next += 1

    def instructions(self, out: bytearray, ops: list[Op]) -> None:
        file, minor = self.file, self.file.minor
        for op in ops:
            spec = op.spec
            file.place = op
            opcode = OPCODES.get(spec.name) if spec.dialect == "cuda_tile" else None
            if spec.dialect != "cuda_tile":
                error = Unwritable(diags.FOREIGN_OP, file.module)
                error.invalid = op
                raise error
            if type(op.loc) is not Loc or op.loc.callers:
                check_location(op)
            if opcode is None:
                raise Unwritable(diags.NOT_WRITABLE, op, what=f"operation '{spec.full_name}'")
            if spec.since > minor:
                raise Unwritable(diags.OP_TOO_NEW, op, name=spec.full_name, minor=minor)
            plan = plan_of(opcode, minor)
            if plan is None:
                raise Unwritable(diags.NOT_WRITABLE, op, what=f"'{spec.full_name}' in a function body")
            if self.located:
                file.indices.append(file.debug_index(op.loc))
            put_varint(out, opcode)
            results = op.results
            if plan.absent:
                for value in results[plan.results :]:
                    if value.uses:
                        new = plan.absent[0]
                        raise Unwritable(
                            diags.RESULT_TOO_NEW, op, name=new.name, since=new.since, minor=minor
                        )
                results = results[: plan.results]
            if plan.result_count:
                put_varint(out, len(results))
            for value in results:
                put_varint(out, file.type(value.type))
            if plan.has_flags:
                flags = 0
                for name, bit in plan.flags.items():
                    present = (
                        op.group(name)
                        if name in spec.operand_index
                        else op.attrs.get(name) not in (None, False)
                    )
                    if present:
                        flags |= 1 << bit
                put_varint(out, flags)
            for attr in spec.attrs:
                if (
                    attr.since > minor
                    and attr.name in op.attrs
                    and op.attrs[attr.name] not in (attr.default, False, None)
                ):
                    if attr.kind != "bools":  # a promise about bounds may be dropped, a meaning may not
                        what = f"attribute '{attr.name}'"
                        diag = diags.OPTIONAL_TOO_NEW if attr.optional else diags.NOT_EXPRESSIBLE
                        raise Unwritable(diag, op, what=what, since=attr.since, minor=minor)
            for name, bit, kind, enum in plan.attrs:
                if bit < 0 or op.attrs.get(name) is not None:
                    file.field(out, op, name, kind, enum)
            self.operands(out, op, plan)
            if plan.regions:
                put_varint(out, plan.regions)
                for region in op.regions:
                    self.region(out, region)
                for _ in range(plan.regions - len(op.regions)):
                    out.append(0)
            for value in results:
                self.number(value)

    def operands(self, out: bytearray, op: Op, plan: Any) -> None:
        spec = op.spec
        numbers = self.numbers
        try:
            if plan.encoding == FIXED:
                for value in op.operands:
                    put_varint(out, numbers[value])
            elif plan.encoding == COUNTED:
                put_varint(out, len(op.operands))
                for value in op.operands:
                    put_varint(out, numbers[value])
            else:
                segments = op.segments or ()
                position = 0
                for (mode, mask), size, arg in zip(plan.operands, segments, spec.operands):
                    if mode not in (REQUIRED, OPTIONAL):
                        put_varint(out, size)
                    elif mode == OPTIONAL and size and not mask:
                        facts = {
                            "what": f"operand '{arg.name}'",
                            "since": arg.since,
                            "minor": self.file.minor,
                        }
                        raise Unwritable(diags.OPTIONAL_TOO_NEW, op, **facts)
                    for value in op.operands[position : position + size]:
                        put_varint(out, numbers[value])
                    position += size
        except KeyError:
            raise Unwritable(
                diags.NOT_WRITABLE, op, what="an operand is not defined before its use"
            ) from None

    def region(self, out: bytearray, region: Region) -> None:
        put_varint(out, len(region.blocks))
        for block in region.blocks:
            scope = self.next
            put_varint(out, len(block.args))
            for arg in block.args:
                put_varint(out, self.file.type(arg.type))
                self.number(arg)
            put_varint(out, len(block.ops))
            self.instructions(out, block.ops)
            self.next = scope


def check_location(op: Op) -> None:
    """Locations with names or of several places have no record."""
    for loc in (op.loc, *op.loc.callers):
        if type(loc) is D.WrappedLoc:
            raise Unwritable(diags.UNSUPPORTED_LOCATION, op, kind=loc.kind)


def pad(out: bytearray, alignment: int) -> None:
    while len(out) % alignment:
        out.append(PAD)


def offsets(entries: list[bytes], code: str) -> bytes:
    found = []
    position = 0
    for entry in entries:
        found.append(position)
        position += len(entry)
    return struct.pack(f"<{len(found)}{code}", *found)


def table(entries: list[bytes], alignment: int) -> bytearray:
    """Count, offsets, data: string, type and constant sections."""
    out = bytearray()
    put_varint(out, len(entries))
    pad(out, alignment)
    out += offsets(entries, "Q" if alignment == 8 else "I")
    out += b"".join(entries)
    return out


def section(out: bytearray, id: int, payload: bytes | bytearray) -> None:
    """Header and payload; the payload starts at a multiple of its alignment, so paddings inside of it hold."""
    alignment = ALIGN.get(id, 0)
    out.append(id | 128 if alignment else id)
    put_varint(out, len(payload))
    if alignment:
        put_varint(out, alignment)
        pad(out, alignment)
    out += payload
