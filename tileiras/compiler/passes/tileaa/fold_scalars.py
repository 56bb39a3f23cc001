"""TileAAFoldScalars: integer scalars that are known, or are another scalar in many words.

Before: `%c = cmpi equal %one, %one; %e = exti %c; %n = muli %e, %k; %s = addi %n, %zero`. After: `%s` is `%k`.

Templates of Tile C++ leave such chains for extents and strides of views. Behind them a promise about `%k` is lost, and a
counting loop hides its comparison. An `if` whose condition is known gives way to the region that is taken.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Block, Op, Value
from tileiras.compiler.ir.dense import constant_bytes, dense_bits
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.types import Dense, TensorType, TileType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class FoldScalars(Pass):
    NAME = "TileAAFoldScalars"
    SUMMARY = "Compute integer scalars that are known"
    """
    does: computes integer scalars that are known, drops chains that say a scalar in many words, takes the one region
      of an `if` that is decided
    without: promises about extents and strides are lost in Tile C++
    acts: cpp_matmul_f16 on sm_80
    """
    __slots__ = ("constants", "entry", "known")

    def run(self, func: Any, context: Context) -> bool:
        self.entry: Block = func.regions[0].block
        self.known: dict[Value, int] = {}
        self.constants: dict[tuple[Any, int], Value] = {}
        folded: list[Op] = []
        self._block(self.entry, folded)
        _erase(folded)
        return True

    def _block(self, block: Block, folded: list[Op]) -> None:
        for op in list(block.ops):
            name = op.spec.name
            if name == "constant":
                self._remember(op)
            elif name in RULES:
                if _is_scalar(op.results[0]):
                    found = RULES[name](op, [self.known.get(v) for v in op.operands])
                    if found is not None:
                        op.results[0].replace_all_uses_with(self._value(op, found))
                        folded.append(op)
            else:
                for region in op.regions:
                    for inner in region.blocks:
                        self._block(inner, folded)
                if name == "if" and op.operands[0] in self.known:
                    condition = op.operands[0]
                    jumped = _take(op, self.known[condition])
                    if condition.op is not None:
                        folded.append(condition.op)
                    if jumped:
                        return

    def _remember(self, op: Op) -> None:
        value = op.results[0]
        if _is_scalar(value):
            bits = dense_bits(op.attr("value"))[0]
            self.known[value] = bits
            if op.block is self.entry:
                self.constants.setdefault((value.type.elem, bits), value)  # type: ignore[attr-defined]

    def _value(self, op: Op, found: Value | int) -> Value:
        """What stands for a folded op: the value that it is, or a constant at the top of the function."""
        if isinstance(found, Value):
            return found
        elem: Any = op.results[0].type.elem  # type: ignore[attr-defined]
        bits = found & ((1 << elem.bits) - 1)
        made = self.constants.get((elem, bits))
        if made is None:
            dense = Dense(TileType(elem, ()), bits.to_bytes(constant_bytes(elem), "little"))
            constant = create(
                tileaa.BY_NAME["constant"], (), (TensorType(elem, (), None),), {"value": dense}, (), op.loc
            )
            made = self.entry.insert_before(self.entry.ops[0], constant).result
            self.constants[elem, bits] = made
            self.known[made] = bits
        return made


def _is_scalar(value: Value) -> bool:
    type: Any = value.type
    return isinstance(type, TensorType) and not type.shape and type.elem.name in INTEGERS


def _take(op: Op, condition: int) -> bool:
    """Puts the ops of the region that is taken in the place of an `if`. Whether they jump: what follows is gone then."""
    region = op.regions[0 if condition else 1]
    block = op.block
    assert block is not None
    body = region.block.ops if region.blocks else []
    jumps = bool(body) and body[-1].spec.name != "yield"
    if jumps:
        for after in reversed(block.ops[block.ops.index(op) + 1 :]):
            after.erase()
        region.block.ops = []
        position = len(block.ops) - 1
        block.ops[position:position] = body
        for inner in body:
            inner.block = block
    else:
        for inner in body[:-1]:
            block.insert_before(op, inner)
        if body:
            region.block.ops = [body[-1]]
        for old, new in zip(op.results, list(body[-1].operands) if body else ()):
            old.replace_all_uses_with(new)
    op.erase()
    return jumps


def _erase(folded: list[Op]) -> None:
    """Erases what was folded, and the scalars that only they used."""
    while folded:
        op = folded.pop()
        if op.block is None or any(r.uses for r in op.results):
            continue
        before = [v.op for v in op.operands]
        op.erase()
        folded += [o for o in before if o is not None and (o.spec.name in RULES or o.spec.name == "constant")]


INTEGERS = frozenset(("i1", "i4", "i8", "i16", "i32", "i64"))


def _bits(value: Value) -> int:
    return value.type.elem.bits  # type: ignore[attr-defined, no-any-return]


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def _number(op: Op, known: int) -> int:
    """An operand that is known, as its op reads it."""
    return _signed(known, _bits(op.operands[0])) if op.attr("signedness") == "signed" else known


def _binary(what: Callable[[int, int], int], left: int | None = None, right: int | None = None) -> Any:
    """A rule: two known operands by `what`; beside `left`, or `right`, on that side the other operand is the result."""

    def rule(op: Op, known: list[int | None]) -> Value | int | None:
        x, y = known
        if x is not None and y is not None:
            return what(x, y)
        mask = (1 << _bits(op.operands[0])) - 1
        if left is not None and x == left & mask:
            return op.operands[1]
        if right is not None and y == right & mask:
            return op.operands[0]
        return None

    return rule


def _or_zero(rule: Any) -> Any:
    """A rule whose op gives zero as soon as one operand is zero."""

    def zero(op: Op, known: list[int | None]) -> Value | int | None:
        return 0 if 0 in known else rule(op, known)

    return zero


def _shift(op: Op, known: list[int | None]) -> Value | int | None:
    x, y = known
    if y == 0:
        return op.operands[0]
    if x is None or y is None or y >= _bits(op.operands[0]):  # too far: any result is right, none is promised
        return None
    return x << y if op.spec.name == "shli" else _number(op, x) >> y


def _divide(op: Op, known: list[int | None]) -> Value | int | None:
    x, y = known
    if y == 1 and _bits(op.operands[0]) > 1:
        return op.operands[0] if op.spec.name == "divi" else 0
    if x is None or not y:
        return None
    a, b = _number(op, x), _number(op, y)
    if a < 0 or b < 0:  # roundings differ
        return None
    if op.spec.name == "remi":
        return a % b
    return a // b if op.attr("rounding") in (None, "zero", "negative_inf") else -(-a // b)


def _least(op: Op, known: list[int | None]) -> Value | int | None:
    x, y = known
    if op.operands[0] is op.operands[1]:
        return op.operands[0]
    if x is None or y is None:
        return None
    return (max if op.spec.name == "maxi" else min)(_number(op, x), _number(op, y))


_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "equal": lambda x, y: x == y, "not_equal": lambda x, y: x != y, "less_than": lambda x, y: x < y,
    "less_than_or_equal": lambda x, y: x <= y, "greater_than": lambda x, y: x > y,
    "greater_than_or_equal": lambda x, y: x >= y,
}  # fmt: skip


def _compare(op: Op, known: list[int | None]) -> Value | int | None:
    x, y = known
    predicate = op.attr("comparison_predicate")
    if x is not None and y is not None:
        return int(_COMPARE[predicate](_number(op, x), _number(op, y)))
    if predicate == "not_equal" and y == 0:  # a condition that was widened to be held against zero
        if _bits(op.operands[0]) == 1:
            return op.operands[0]
        inner = op.operands[0].op
        if inner is not None and inner.spec.name == "exti" and _bits(inner.operands[0]) == 1:
            return inner.operands[0]
    return None


def _extend(op: Op, known: list[int | None]) -> Value | int | None:
    return None if known[0] is None else _number(op, known[0])


def _truncate(op: Op, known: list[int | None]) -> Value | int | None:
    if known[0] is not None:
        return known[0]
    inner = op.operands[0].op
    if inner is not None and inner.spec.name == "exti" and inner.operands[0].type == op.results[0].type:
        return inner.operands[0]
    return None


def _select(op: Op, known: list[int | None]) -> Value | int | None:
    if known[0] is not None:
        return op.operands[1 if known[0] else 2]
    return op.operands[1] if op.operands[1] is op.operands[2] else None


RULES: dict[str, Any] = {
    "addi": _binary(lambda x, y: x + y, 0, 0), "subi": _binary(lambda x, y: x - y, None, 0),
    "muli": _or_zero(_binary(lambda x, y: x * y, 1, 1)), "andi": _or_zero(_binary(lambda x, y: x & y, -1, -1)),
    "ori": _binary(lambda x, y: x | y, 0, 0), "xori": _binary(lambda x, y: x ^ y, 0, 0),
    "shli": _shift, "shri": _shift, "divi": _divide, "remi": _divide, "maxi": _least, "mini": _least,
    "cmpi": _compare, "exti": _extend, "trunci": _truncate, "select": _select,
}  # fmt: skip
