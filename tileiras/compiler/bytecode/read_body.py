"""Instructions: the bytes of a function body by decode plans. No op is named here."""

from __future__ import annotations

from tileiras.compiler.ir import types as T
from tileiras.compiler.ir.core import Block, Op, Region, Value
from tileiras.compiler.ir.depth import MAX_REGIONS, make_room
from tileiras.diag import UNKNOWN

from . import diags
from .opcodes import MAX_OPCODE, NAMES
from .plan import COUNTED, FIXED, OPTIONAL, REQUIRED, cases_of, plan_of
from .wire import Damage, ints, varint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.types import Type

    from .read_tables import Tables


class Body:
    """Instructions of one function. `values` is the numbering in scope; `pos` is relative to the body."""

    __slots__ = ("data", "file", "locations", "pos", "values")

    def __init__(self, file: Tables, data: bytes, locations: Any) -> None:
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
                raise Damage(
                    f"operand index {index} out of bounds (size={size}) for operand {len(into)}", pos
                )
            into.append(values[index])
        return pos

    def regions(self, expected: int, depth: int) -> list[Region]:
        data = self.data
        start = self.pos
        make_room(depth)
        if depth >= MAX_REGIONS:
            raise Damage("regions", start, diags.TOO_DEEP, limit=MAX_REGIONS)
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
            at = pos
            found, pos = ints(data, pos, 4)
            if -(1 << 31) in found:
                raise Damage(f"array contains unsupported value {-(1 << 31)}", at)
            return found, pos
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
