"""Tables of a file as they fill while its functions are written: strings, types, constants, attributes and debug records.

What refers to others comes behind them; equal entries are one.
"""

from __future__ import annotations

import struct

from tileiras.compiler.dialects.cuda_tile.ops import ENUMS
from tileiras.compiler.ir import debug as D
from tileiras.compiler.ir import types as T
from tileiras.diag import Loc

from . import diags
from .wire import (
    A_ARRAY,
    A_BOOL,
    A_BOUNDED,
    A_DENSE,
    A_DICT,
    A_DIV_BY,
    A_FLOAT,
    A_INTEGER,
    A_SAME,
    A_STRING,
    A_TYPE,
    D_BLOCK,
    D_CALL_SITE,
    D_COMPILE_UNIT,
    D_FILE,
    D_LOC,
    D_SUBPROGRAM,
    FUNCTION,
    GATHER_SCATTER_VIEW,
    PAD,
    PARTITION_VIEW,
    PTR,
    SCALAR_CLASS,
    SCALAR_TAGS,
    STRIDED_VIEW,
    TENSOR_VIEW,
    TILE,
    TOKEN,
    put_float_bits,
    put_ints,
    put_varint,
    zigzag,
)  # fmt: skip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op


class Unwritable(Exception):
    """What the chosen version cannot say: a diagnostic and its facts."""

    def __init__(self, diag: Any, op: Op | None = None, **facts: object) -> None:
        super().__init__(str(facts))
        self.invalid: Op | None = None  # an op that has no place in the module
        self.diag = diag
        self.op = op
        self.facts = facts


class TableWriter:
    """The tables, by what they hold; `type`, `string`, `constant` and `debug_index` say the number of an entry."""

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
