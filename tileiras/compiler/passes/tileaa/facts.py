"""Integer facts: what is known about divisibility, alignment and memory order, asked per value.

Facts come from `assume`, from constants and from arithmetic. They are computed on demand and remembered; the
same code answers on nv_tileaa and, through `convert_layout`, on nv_tileas.
"""

from __future__ import annotations

from tileiras.compiler.ir.dense import dense_bits
from tileiras.compiler.ir.types import Bounded, DivBy, GatherScatterView, Ptr, StridedView
from tileiras.compiler.ir.views import unit_dim, view_dims
from tileiras.compiler.ir.walk import DEEP, parts_first

from .axis import MAX_DIVISOR, AxisFacts, low_bit, makers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.analyses import Analyses
    from tileiras.compiler.ir.core import Op, Value

VECTOR_BYTES = 16


class Facts:
    """Answers for one function; `assumed`: bits of scalars that are taken to be zero, the lowest ones and the sign."""

    def __init__(self, assumed: dict[Value, int] | None = None) -> None:
        self._assumed = assumed or {}
        self._divisor: dict[Value, int] = {}
        self._axis: Any = None
        self._depth = 0

    # ---- divisibility
    def divisor(self, value: Value) -> int:
        """A power of two that divides every element (pointers: byte address; at least 1)."""
        found = self._divisor.get(value)
        if found is None:
            self._divisor[value] = self._start(value)  # a cycle through a loop sees this
            self._depth += 1
            if self._depth == DEEP:  # of a long chain the far end first, so that no call goes deeper
                for part in parts_first([value], lambda v: makers(v, _RULES))[:-1]:
                    self.divisor(part)
            derived = max(self._start(value), min(self._derive(value), MAX_DIVISOR))
            found = self._divisor[value] = max(derived, low_bit(~self._assumed.get(value, 0)))
            self._depth -= 1
        return found

    @staticmethod
    def _start(value: Value) -> int:
        elem = getattr(value.type, "elem", None)
        if isinstance(elem, Ptr):  # an access must be naturally aligned anyway
            return max(1, getattr(elem.pointee, "bits", 64) // 8)  # type: ignore[attr-defined]
        return 1

    def _derive(self, value: Value) -> int:
        op = value.op
        if op is None:
            return self._block_argument(value)
        rule = _RULES.get(op.spec.name)
        return rule(self, op) if rule is not None else 1

    def _block_argument(self, value: Value) -> int:
        owner = value.owner.region.op if value.owner.region is not None else None  # type: ignore[union-attr]
        if owner is None or owner.spec.name != "for":
            return 1
        if value.index == 0:  # lower + k * step
            return min(self.divisor(owner.operands[0]), self.divisor(owner.operands[2]))
        return 1

    def bits(self, value: Value) -> int:
        """So many low bits hold every element of an integer tile or scalar, the others are zero; one less than there are: it is
        not negative."""
        found: dict[Value, int] = {}
        for at in parts_first([value], _widths_of):
            width: int = at.type.elem.bits  # type: ignore[attr-defined]
            wide = _bits(self, at, at.op, found) if at.op is not None else width
            zeros = self._assumed.get(at, 0)
            while zeros >> width - 1 & 1:
                zeros, width = zeros & ~(1 << width - 1), width - 1
            found[at] = min(wide, width)
        return found[value]

    # ---- views
    @staticmethod
    def tensor_view_op(view: Value) -> Op:
        """The make_tensor_view behind a view value."""
        op = view.op
        while op is not None and op.spec.name != "make_tensor_view":
            op = op.operands[0].op
        assert op is not None
        return op

    def pointer_alignment(self, view: Value) -> int:
        """Bytes the base address of a view is a multiple of, at most 16."""
        op = view.op
        best = 1
        while op is not None:
            if (
                op.spec.name == "assume"
                and isinstance(op.attr("predicate"), DivBy)
                and op.attr("predicate").every is None
            ):
                best = max(best, low_bit(op.attr("predicate").divisor))
            if op.spec.name == "make_tensor_view":
                best = max(best, self.divisor(op.operands[0]))
                break
            op = op.operands[0].op
        return min(best, VECTOR_BYTES)

    def _dynamic(self, view: Value, group: str, statics: Any, dim: int) -> Value:
        position = sum(1 for s in statics[:dim] if s is None)
        return self.tensor_view_op(view).group(group)[position]

    def stride_alignment(self, view: Value, dim: int, size: int) -> int:
        """Bytes the byte stride of a tensor dimension is a multiple of, at most 16."""
        op = self.tensor_view_op(view)
        strides = op.results[0].type.strides  # type: ignore[attr-defined]
        stride = strides[dim]
        divisor = (
            low_bit(stride)
            if stride is not None
            else self.divisor(self._dynamic(view, "dynamicStrides", strides, dim))
        )
        return min(divisor * size, VECTOR_BYTES)

    def dynamic_stride(self, view: Value, dim: int) -> Value | None:
        """The operand that a tensor dimension's stride is; None where it is static."""
        strides = self.tensor_view_op(view).results[0].type.strides  # type: ignore[attr-defined]
        return None if strides[dim] is not None else self._dynamic(view, "dynamicStrides", strides, dim)

    def extent_divisor(self, view: Value, dim: int) -> int:
        """A power of two that divides the extent of a tensor dimension."""
        op = self.tensor_view_op(view)
        shape = op.results[0].type.shape  # type: ignore[attr-defined]
        if shape[dim] is not None:
            return low_bit(shape[dim])
        return self.divisor(self._dynamic(view, "dynamicShape", shape, dim))

    def view_vector(self, op: Op) -> tuple[int, int]:
        """(view dimension with unit stride or -1, neighbours one access may move along it) of a view load or store."""

        type: Any = op.operand("view").type  # type: ignore[union-attr]
        unit = unit_dim(type)
        if unit < 0:
            return -1, 1
        count = max(1, self.view_alignment(op, unit) // type.view.elem.bytes)
        return unit, min(count, self.view_together(op, unit), type.tile[unit])

    def view_alignment(self, op: Op, unit: int) -> int:
        """Bytes that the address of each row of a view load or store is a multiple of, at most 16."""
        view: Any = op.operand("view")
        type = view.type
        size = type.view.elem.bytes
        alignment = self.pointer_alignment(view)
        for d, m in enumerate(view_dims(type)):
            if d != unit:
                alignment = min(alignment, self.stride_alignment(view, m, size))
        return min(alignment, size * self.start_divisor(op, unit))

    def view_together(self, op: Op, unit: int) -> int:
        """Neighbours of a row that are inside of the tensor, or outside, together; more than there are where all are inside."""
        view: Any = op.operand("view")
        inbounds = op.attrs.get("inbounds")
        if inbounds and inbounds[unit]:
            return MAX_DIVISOR
        extent = self.extent_divisor(view, view_dims(view.type)[unit])
        return min(extent, self.start_divisor(op, unit))

    def start_divisor(self, op: Op, unit: int) -> int:
        """A power of two that divides the element at which each row of a tile begins, beside its extent."""
        type: Any = op.operand("view").type  # type: ignore[union-attr]
        if isinstance(type, StridedView):
            return low_bit(type.traversal[unit])  # type: ignore[attr-defined]
        if isinstance(type, GatherScatterView):
            return self.divisor(op.group("index")[unit])
        return MAX_DIVISOR

    # ---- pointer tiles
    def axis(self, value: Value) -> Any:
        """The Axis facts of a tile."""
        if self._axis is None:
            self._axis = AxisFacts(self)
        return self._axis.of(value)

    def pointer_vector(self, pointers: Value, mask: Value | None, size: int) -> tuple[int, int]:
        """(dimension along which pointers count up, neighbours one access may move) of a pointer tile."""
        shape: Any = pointers.type.shape  # type: ignore[attr-defined]
        if not shape:
            return -1, 1
        axis = self.axis(pointers)
        d = max(range(len(shape)), key=lambda k: (axis.contig[k], k))
        count = axis.contig[d]
        if mask is not None:
            count = min(count, self.axis(mask).const[d])
        count = min(count, max(1, VECTOR_BYTES // size))
        while count > 1 and axis.start(d, count, size) < count * size:
            count //= 2
        return (d if axis.contig[d] > 1 else -1), max(1, count)

    def pointer_run(self, pointers: Value, mask: Value | None, layout: Any, size: int) -> int:
        """log2 of a thread's pointers in a row under one mask; each group of them is aligned to its bytes."""
        from tileiras.compiler.layout.linear import dim_bits, log2, neighbours

        d, count = self.pointer_vector(pointers, mask, size)
        if d < 0 or count == 1:
            return 0
        return neighbours(layout, *dim_bits(pointers.type.shape)[d], log2(count))  # type: ignore[attr-defined]


def _widths_of(value: Value) -> list[Value]:
    """The operands that `_bits` asks about."""
    return list(value.op.operands) if value.op is not None and value.op.spec.name in _WIDTHS else []


_WIDTHS = frozenset(("assume", "broadcast", "reshape", "permute", "convert_layout", "exti", "addi"))


def _bits(facts: Facts, value: Value, op: Op, known: dict[Value, int]) -> int:
    """`Facts.bits` of a result of an op, given those of its operands."""
    name = op.spec.name
    width: int = value.type.elem.bits  # type: ignore[attr-defined]
    if name == "constant":
        return max(v.bit_length() for v in dense_bits(op.attr("value")))
    if name == "iota":
        return (op.results[0].type.shape[0] - 1).bit_length()  # type: ignore[attr-defined]
    if name == "get_tile_block_id":
        return width - 1
    if name not in _WIDTHS:
        return width
    bits = [known[v] for v in op.operands]
    if name == "assume":
        predicate: Any = op.attr("predicate")
        if isinstance(predicate, Bounded) and predicate.lower is not None and predicate.lower >= 0:
            return min(bits[0], width - 1 if predicate.upper is None else predicate.upper.bit_length())
    if name == "exti" and op.attr("signedness") != "unsigned":
        return bits[0] if bits[0] < op.operands[0].type.elem.bits else width  # type: ignore[attr-defined]
    if name == "addi":
        for x, y in ((0, 1), (1, 0)):
            if 1 << bits[y] <= facts.divisor(op.operands[x]):  # nothing is carried
                return max(bits)
        return min(width, max(bits) + 1)
    return bits[0]


def _constant(facts: Facts, op: Op) -> int:
    out = MAX_DIVISOR
    for bits in dense_bits(op.attr("value")):
        out = min(out, low_bit(bits))
    return out


def _assume(facts: Facts, op: Op) -> int:
    known = facts.divisor(op.operands[0])
    predicate = op.attr("predicate")
    if isinstance(predicate, DivBy) and predicate.every is None:  # type: ignore[attr-defined]
        return max(known, low_bit(predicate.divisor))  # type: ignore[attr-defined]
    return known


def _shli(facts: Facts, op: Op) -> int:
    amount = op.operands[1].op
    if amount is not None and amount.spec.name == "constant":
        values = dense_bits(amount.attr("value"))
        if len(values) == 1 and values[0] < 32:
            return facts.divisor(op.operands[0]) << values[0]
    return facts.divisor(op.operands[0])


def _one_constant(value: Value) -> int | None:
    """The bits that all elements of a constant have."""
    maker = value.op
    if maker is None or maker.spec.name != "constant":
        return None
    values = set(dense_bits(maker.attr("value")))
    return values.pop() if len(values) == 1 else None


def _divi(facts: Facts, op: Op) -> int:
    """A multiple of a power of two by that leaves no remainder, whichever way it would be rounded."""
    by = _one_constant(op.operands[1])
    width: int = op.results[0].type.elem.bits  # type: ignore[attr-defined]
    if not by or by & by - 1 or by >> width - 1:
        return 1
    return max(1, facts.divisor(op.operands[0]) // by)


def _shri(facts: Facts, op: Op) -> int:
    by = _one_constant(op.operands[1])
    width: int = op.results[0].type.elem.bits  # type: ignore[attr-defined]
    return max(1, facts.divisor(op.operands[0]) >> by) if by is not None and by < width else 1


def _offset(facts: Facts, op: Op) -> int:
    pointee = op.results[0].type.elem.pointee  # type: ignore[attr-defined]
    size = 8 if isinstance(pointee, Ptr) else max(1, pointee.bits // 8)
    return min(facts.divisor(op.operands[0]), facts.divisor(op.operands[1]) * size)


def _smallest(facts: Facts, op: Op) -> int:
    return min(facts.divisor(v) for v in op.operands)


def _product(facts: Facts, op: Op) -> int:
    return facts.divisor(op.operands[0]) * facts.divisor(op.operands[1])


def _same(facts: Facts, op: Op) -> int:
    return facts.divisor(op.operands[0])


_RULES: dict[str, Any] = {
    "constant": _constant, "assume": _assume, "muli": _product, "addi": _smallest, "subi": _smallest, "shli": _shli,
    "maxi": _smallest, "mini": _smallest, "exti": _same, "trunci": _same, "offset": _offset, "broadcast": _same,
    "reshape": _same, "permute": _same, "convert_layout": _same, "ptr_to_ptr": _same, "ptr_to_int": _same,
    "int_to_ptr": _same, "select": lambda f, op: min(f.divisor(op.operands[1]), f.divisor(op.operands[2])),
    "andi": lambda f, op: max(f.divisor(op.operands[0]), f.divisor(op.operands[1])),
    "remi": _smallest, "divi": _divi, "shri": _shri, "ori": _smallest, "xori": _smallest,
}  # fmt: skip


def unsigned_bits(value: Value, depth: int = 6, counts: bool = False) -> int:
    """How many bits an integer without sign takes at most, as far as a few ops tell: those of its type when nothing is known.
    `counts`: it bounds a loop from above, which runs only where it is positive."""
    width: int = value.type.elem.bits  # type: ignore[attr-defined]
    op = value.op
    if not depth:
        return width
    if op is None:
        loop = value.owner.region.op if value.index == 0 else None  # type: ignore[union-attr]
        if loop is None or loop.spec.name != "for" or unsigned_bits(loop.operands[0], depth - 1) == width:
            return width
        return unsigned_bits(loop.operands[1], depth - 1, counts=not loop.attrs.get("unsignedCmp"))
    name, operands = op.spec.name, op.operands
    if name == "get_cta_rank":
        return 4
    if name == "constant":
        return max(bits.bit_length() for bits in dense_bits(op.attr("value")))
    if name == "exti":
        bits = unsigned_bits(operands[0], depth - 1, counts)
        signless = op.attr("signedness") == "unsigned" or bits < operands[0].type.elem.bits  # type: ignore[attr-defined]
        return bits if counts or signless else width
    if name == "muli" and counts and all(v.op is None or v.op.spec.name != "constant" for v in operands):
        return width
    if name == "muli" or name == "addi" and not counts:
        left, right = (unsigned_bits(v, depth - 1, counts) for v in operands)
        return min(width, max(left, right) + 1 if name == "addi" else left + right)
    return width


def facts_of(func: Op, analyses: Analyses) -> Facts:
    """The facts of a function, as an analysis: what was asked before is remembered until the IR changes."""
    return Facts()
