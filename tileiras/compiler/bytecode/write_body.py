"""Instructions of a function as bytes, by plans. No op is named here."""

from __future__ import annotations

from tileiras.diag import Loc

from . import diags
from .opcodes import OPCODES
from .plan import COUNTED, FIXED, OPTIONAL, REQUIRED, plan_of
from .wire import put_varint
from .write_tables import TableWriter, Unwritable, check_location

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op, Region, Value


class BodyWriter:
    """Instructions of one function and the numbers of its values."""

    def __init__(self, file: TableWriter, located: bool) -> None:
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
