"""Pointers that are used where a mask says that their indices lie in [0, n): constants leave the indices for the address.

`p + sext(i + 128) * 4` is `(p + sext(i) * 4) + 512` only if the 32-bit sum does not wrap. A mask `sext(i + 128) < n`, compared
without sign, says so wherever it holds, and elsewhere nobody looks at the address: a tile of pointers then needs one address
in a register and the rest in the immediates of its accesses.
"""

from __future__ import annotations

from tileiras.compiler.ir.types import Bounded
from tileiras.compiler.ir.walk import parts_first
from tileiras.compiler.nvvm.build import MASK32
from tileiras.compiler.nvvm.code import Reg

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value

    from .state import Lowering

_SHAPE = ("broadcast", "reshape", "convert_layout")
_ACCESSES = ("load_ptr_tko", "store_ptr_tko", "atomic_rmw_tko")
_ALIKE = frozenset(("addi", "subi", "muli", "iota", "constant", "exti", "assume", *_SHAPE))
_FEW = 64  # ops of an expression of indices or conditions that are looked at
_PARTS = 16  # parts of a sum of registers


def indices_in_range(op: Op) -> bool:
    """Whether every access by the pointers that an `offset` makes has a mask that bounds all the 32-bit indices in them."""
    indices = _extended(op.operands[1])
    if not indices:
        return False
    formulas = _Formulas()
    wanted = formulas.of(indices)
    for user, _ in op.results[0].uses:
        mask = user.operand("mask") if user.spec.name in _ACCESSES else None
        if mask is None or not wanted <= formulas.of(_bounded(mask)):
            return False
    return bool(op.results[0].uses)


def split(lowering: Lowering, offset: Any) -> tuple[Any, int]:
    """(rest, constant): an offset of 64 bits as the sum of both; its 32-bit parts are known not to wrap."""
    b = lowering.b
    if not isinstance(offset, Reg):
        return offset, 0
    rest: list[Any] = []
    parts, constant = [offset], 0
    while parts:
        if len(parts) + len(rest) > _PARTS:
            return offset, 0
        part = parts.pop()
        known = b.widened.get(part)
        if part in b.addc:
            part, more = b.addc[part]
            constant += more - ((more >> 63) << 64)
            parts.append(part)
        elif part in b.sums:
            parts += reversed(b.sums[part])
        elif known is not None:
            index, more = _split_index(lowering, known[0])
            rest.append(b.wide(index) if more else part)
            constant += more
        else:
            rest.append(part)
    if not constant:
        return offset, 0
    total: Any = rest[0]
    for part in rest[1:]:
        total = b.add(64, total, part)
    return total, constant


def _split_index(lowering: Lowering, index: Any) -> tuple[Any, int]:
    """(rest, constant) of a sum of 32 bits; the constant is not negative."""
    b = lowering.b
    rest: list[Any] = []
    parts, constant = [index], 0
    while parts:
        if len(parts) + len(rest) > _PARTS:
            return index, 0
        part = parts.pop()
        if part in b.addc:
            part, more = b.addc[part]
            constant += more
            parts.append(part)
        elif part in b.sums:
            parts += reversed(b.sums[part])
        else:
            rest.append(part)
    constant &= MASK32
    if not 0 < constant <= MASK32 >> 1:
        return index, 0
    total: Any = rest[0]
    for part in rest[1:]:
        total = b.add(32, total, part)
    return total, constant


def _extended(offset: Value) -> set[Value]:
    """The 32-bit values that a 64-bit offset extends, without strides that are parameters: these are no sums. None where one of
    them is not seen."""
    found: set[Value] = set()
    seen = 0
    work = [offset]
    while work:
        value, seen = work.pop(), seen + 1
        op = value.op
        name = op.spec.name if op is not None else ""
        if seen > _FEW or op is None:
            return set()
        if name == "exti":
            if op.operands[0].type.elem.bits != 32:  # type: ignore[attr-defined]
                return set()
            if not _is_parameter(op.operands[0]):
                found.add(op.operands[0])
        elif name in ("addi", "muli", *_SHAPE):
            work += op.operands
        elif name != "constant":
            return set()
    return found


class _Formulas:
    """Numbers for values, the same for two that are computed alike: what is cheap is, for each layout and each user."""

    def __init__(self) -> None:
        self.known: dict[Any, int] = {}

    def of(self, values: set[Value]) -> set[int]:
        steps: dict[Value, int] = {}
        for part in parts_first(values, self.parts):
            op = part.op
            key: Any = part
            if op is not None and self.parts(part) is op.operands:
                attrs = tuple(sorted(op.attrs.items()))  # their values are interned, or words and numbers
                key = op.spec.name, attrs, part.type, *(steps[v] for v in op.operands)
            steps[part] = self.known.setdefault(key, len(self.known))
        return {steps[value] for value in values}

    @staticmethod
    def parts(value: Value) -> list[Value]:
        op = value.op
        return op.operands if op is not None and op.spec.name in _ALIKE else []


def _is_parameter(value: Value) -> bool:
    """Whether a number is one of the kernel's parameters as it is."""
    while value.op is not None and value.op.spec.name in ("assume", *_SHAPE):
        value = value.op.operands[0]
    region = None if value.op is not None else value.owner.region  # type: ignore[union-attr]
    return region is not None and region.op is not None and region.op.spec.name == "func"


def _bounded(mask: Value) -> set[Value]:
    """The 32-bit values that lie in [0, 2**31) wherever a mask holds: extended, and below a count without sign."""
    found: set[Value] = set()
    work = [mask]
    for _ in range(_FEW):
        if not work:
            break
        op = work.pop().op
        if op is None:
            continue
        if op.spec.name == "andi" or op.spec.name in _SHAPE:
            work += op.operands
        elif (
            op.spec.name == "cmpi"
            and op.attr("comparison_predicate") == "less_than"
            and op.attr("signedness") == "unsigned"
        ):
            index, limit = (_under_shape(v).op for v in op.operands)
            if index is not None and index.spec.name == "exti" and _counts(limit):
                found.add(index.operands[0])
    return found


def _counts(op: Op | None) -> bool:
    """Whether this extends a 32-bit value that is promised not to be negative."""
    if op is None or op.spec.name != "exti" or op.operands[0].type.elem.bits != 32:  # type: ignore[attr-defined]
        return False
    source = _under_shape(op.operands[0]).op
    if source is None or source.spec.name != "assume":
        return False
    predicate = source.attr("predicate")
    return isinstance(predicate, Bounded) and predicate.lower is not None and predicate.lower >= 0


def _under_shape(value: Value) -> Value:
    while value.op is not None and value.op.spec.name in _SHAPE:
        value = value.op.operands[0]
    return value
