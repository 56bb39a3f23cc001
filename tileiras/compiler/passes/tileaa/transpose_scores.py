"""TileAATransposeScores: scores that are transposed to multiply from the left are computed transposed in the first place.

Before: `%s = mmaf %q, %kt, 0; %p = exp2 %s; %t = permute %p [1, 0]; mmaf %t, %g, %acc`.
After:  `%s = mmaf %k, %qt, 0; %p = exp2 %s; mmaf %p, %g, %acc`: a result of a product is the left operand of another one as
it lies in registers, and nothing crosses shared memory.

That is the backward pass of attention, for keys: P^T and dS^T. The products of an element and their order are the same.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.dense import dense_bits
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.rewrite import Rewriter
from tileiras.compiler.ir.types import Dense, TensorType, TileType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value

MOST_OPS = 64  # between products, of one block
SWAPPED = {"signedness_lhs": "signedness_rhs", "signedness_rhs": "signedness_lhs"}


class TransposeScores(Pass):
    NAME = "TileAATransposeScores"
    SUMMARY = "Compute transposed what is transposed to be a left operand"
    """
    does: scores that are transposed to be left operands are computed transposed (not with tcgen05)
    without: they cross shared memory
    acts: staged_flash_bwd_f16_64 on sm_90
    """
    SUBJECT = frozenset(("mmaf", "mmai"))
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        from tileiras.compiler.target import sm

        if context.target is not None and context.target.has(sm.TCGEN05):
            return True  # which takes a left operand from shared memory in either order
        blocks = {op.block: None for op in func.walk() if op.spec.name in self.SUBJECT}
        for block in blocks:
            ends = [op for op in block.ops if is_left_transpose(op)]
            found = slice_of(ends) if ends else None
            if found is not None:
                Turn(found, context).run(ends)
        return True


def is_transpose(op: Op | None) -> bool:
    return op is not None and op.spec.name == "permute" and tuple(op.attr("permutation")) == (1, 0)


def is_left_transpose(op: Op) -> bool:
    """A transposed tile of its own block that only products take, from the left."""
    source = op.operands[0].op if op.operands else None
    return (
        is_transpose(op)
        and bool(op.result.uses)
        and source is not None
        and source.block is op.block
        and all(user.spec.name in TransposeScores.SUBJECT and index == 0 for user, index in op.result.uses)
    )


def is_splat(op: Op) -> bool:
    return op.spec.name == "constant" and len(set(dense_bits(op.attr("value")))) == 1


def slice_of(ends: list[Op]) -> set[Op] | None:
    """The ops that make what `ends` transpose, as far as they have to be turned; None where one cannot be, where somebody else
    needs a result as it is, or where no product is among them."""
    block = ends[0].block
    found: set[Op] = set()
    work = [op.operands[0] for op in ends]
    while work:
        op = work.pop().op
        if op is None or len(found) > MOST_OPS:
            return None
        if op in found or is_transpose(op):
            continue
        found.add(op)
        name = op.spec.name
        if is_splat(op):
            continue
        if name == "broadcast":
            if 1 not in op.operands[0].type.shape:  # type: ignore[attr-defined]
                return None
        elif name in TransposeScores.SUBJECT:
            acc = op.operands[2].op
            if op.block is not block or acc is None or not is_splat(acc):
                return None
            work.append(op.operands[2])
        elif op.spec.elementwise and len(op.results) == 1 and op.segments is None:
            shape = op.result.type.shape  # type: ignore[attr-defined]
            if any(getattr(v.type, "shape", None) != shape for v in op.operands):
                return None
            work += op.operands
        else:
            return None
    ended = set(ends)
    heavy = with_products(found)
    for op in heavy:
        if any(user not in found and user not in ended for user, _ in op.result.uses):
            return None
    return found if any(op.spec.name in TransposeScores.SUBJECT for op in heavy) else None


def with_products(found: set[Op]) -> set[Op]:
    """Those whose results need a product: the others are cheap enough to be computed both ways."""
    heavy = {op for op in found if op.spec.name in TransposeScores.SUBJECT}
    work = list(heavy)
    while work:
        for user, _ in work.pop().result.uses:
            if user in found and user not in heavy:
                heavy.add(user)
                work.append(user)
    return heavy


class Turn:
    """The ops of a slice once more, on transposed tiles."""

    def __init__(self, found: set[Op], context: Context) -> None:
        self.found = found
        self.context = context
        self.turned: dict[Value, Value] = {}

    def run(self, ends: list[Op]) -> None:
        made = [(op, self.value(op.operands[0])) for op in ends]
        for op, value in made:
            op.result.replace_all_uses_with(value)
            op.erase()
        left = sorted(self.found, key=lambda op: op.block.ops.index(op) if op.block is not None else 0)
        for op in reversed(left):
            if not op.result.uses:
                op.erase()

    def make(self, anchor: Op, name: str, operands: Any, type: Any, attrs: Any = None) -> Value:
        op = Rewriter(self.context, anchor).create(tileaa.BY_NAME[name], operands, (type,), attrs)
        assert op is not None
        op.loc = anchor.loc
        return op.result

    def value(self, old: Value) -> Value:
        """The transposed tile."""
        if old not in self.turned:
            op = old.op
            assert op is not None
            self.turned[old] = op.operands[0] if is_transpose(op) else self.op(op)
        return self.turned[old]

    def op(self, op: Op) -> Value:
        kind: Any = op.result.type
        type = TensorType(kind.elem, kind.shape[::-1])
        name = op.spec.name
        attrs = dict(op.attrs)
        if name == "constant":
            data = attrs["value"]
            shape = data.type.shape[::-1]
            return self.make(
                op, name, (), type, {**attrs, "value": Dense(TileType(data.type.elem, shape), data.data)}
            )
        if name == "broadcast":
            source = op.operands[0]
            flat: Any = source.type
            row = self.make(op, "reshape", (source,), TensorType(flat.elem, flat.shape[::-1]))
            return self.make(op, name, (row,), type, attrs)
        if name in TransposeScores.SUBJECT:
            a, b, acc = op.operands
            attrs = {SWAPPED.get(key, key): value for key, value in attrs.items()}
            return self.make(op, name, (self.side(op, b), self.side(op, a), self.value(acc)), type, attrs)
        return self.make(op, name, [self.value(v) for v in op.operands], type, attrs)

    def side(self, op: Op, value: Value) -> Value:
        """An operand of a product, transposed; where it was, what it was made of."""
        if is_transpose(value.op):
            assert value.op is not None
            return value.op.operands[0]
        kind: Any = value.type
        return self.make(
            op, "permute", (value,), TensorType(kind.elem, kind.shape[::-1]), {"permutation": (1, 0)}
        )
