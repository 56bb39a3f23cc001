"""Tables of a file: strings, types, constants, attributes and debug records, decoded on demand and kept.

Every index is checked against its table; what refers to itself is an error.
"""

from __future__ import annotations

import struct

from tileiras.compiler.dialects.cuda_tile.dense import check_dense
from tileiras.compiler.ir import debug as D
from tileiras.compiler.ir import types as T
from tileiras.diag import UNKNOWN, Loc

from . import diags
from .plan import cases_of
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
    D_BLOCK,
    D_CALL_SITE,
    D_COMPILE_UNIT,
    D_FILE,
    D_LOC,
    D_SUBPROGRAM,
    D_UNKNOWN,
    DEBUG,
    FUNCTION,
    GATHER_SCATTER_VIEW,
    MAX_CALLERS,
    MAX_DEPTH,
    PARTITION_VIEW,
    PTR,
    SCALAR_CLASS,
    SCALARS,
    STRIDED_VIEW,
    TENSOR_VIEW,
    TILE,
    TOKEN,
    Damage,
    float_bits,
    ints,
    unzigzag,
    varint,
)  # fmt: skip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.types import Type


class Hints(dict):  # type: ignore[type-arg]
    """Attribute tag 11 while it is read: a dictionary that may stand where hints are expected."""


class Tables:
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

    def part(self, index: int, at: int, kinds: Any, what: str) -> Type:
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

    def dictionary(self, data: bytes, pos: int, depth: int, kind: Any) -> tuple[dict[str, Any], int]:
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
            self.resolve_callers(index)
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

    def resolve_callers(self, index: int) -> None:
        """Decode the callers of a call site, outermost first: recursive kernels have chains of a thousand of them."""
        chain: list[int] = []
        while 0 < index <= len(self.debug) and self.debug[index - 1] is None:
            start, end = self.debug_entries[index - 1]
            data = self.data[start:end]
            if data[:1] != bytes((D_CALL_SITE,)):
                break
            if len(chain) >= MAX_CALLERS:
                raise Damage("call site chain is too long", start)
            chain.append(index)
            try:
                _, pos = varint(data, 1)
                index, _ = varint(data, pos)
            except IndexError:
                break
        for inner in reversed(chain[1:]):
            self.debug_attribute(inner, self.debug_entries[inner - 1][0])

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
            scope = self.debug_part(
                fields[0], at, (D.DILexicalBlock, D.DISubprogram, D.DIFile, D.DICompileUnit)
            )
            return D.DILexicalBlock(scope, self.debug_part(fields[1], at, D.DIFile), fields[2], fields[3])
        if tag == D_SUBPROGRAM:
            file = self.debug_part(fields[0], at, D.DIFile)
            unit = self.debug_part(fields[4], at, D.DICompileUnit)
            name, linkage = self.string(fields[2], at), self.string(fields[3], at)
            return D.DISubprogram(
                file, fields[1], name, linkage, unit, fields[5], fields[6] if len(fields) > 6 else None
            )
        if tag == D_LOC:
            scope = self.debug_part(
                fields[0], at, (D.DILexicalBlock, D.DISubprogram, D.DIFile, D.DICompileUnit)
            )
            return Loc(self.string(fields[1], at), fields[2], fields[3], scope=scope)
        if tag == D_CALL_SITE:
            callee = self.debug_part(fields[0], at, Loc)
            caller = self.debug_part(fields[1], at, Loc)
            callee = callee if callee is not None else UNKNOWN
            if caller is None:
                return callee
            callers = (
                *callee.callers,
                Loc(caller.file, caller.line, caller.col, scope=caller.scope),
                *caller.callers,
            )
            if len(callers) > MAX_CALLERS:
                raise Damage("call site chain is too long", at)
            return Loc(callee.file, callee.line, callee.col, callers, callee.scope)
        raise Damage(f"unsupported debug tag {tag}", at)

    def debug_part(self, index: int, at: int, kinds: Any) -> Any:
        found = self.debug_attribute(index, at)
        if found is not None and not isinstance(found, kinds):
            raise Damage(f"debug attribute {index} has the wrong kind", at)
        return found
