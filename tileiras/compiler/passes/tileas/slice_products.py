"""TileASSliceProducts: products whose operands wait in shared memory take them in slices of K, one slice ahead.

Before: `%a = load_shared .. : 64x64`, `%b = load_shared .. : 64x64`, `%d = mmaf %a, %b, %c`.
After:  `%a0, %b0` and `%a1, %b1` loaded (64x16, 16x64), `%d0 = mmaf %a0, %b0, %c`, `%a2, %b2` loaded,
        `%d1 = mmaf %a1, %b1, %d0`, ..

So two slices of fragments live in registers instead of whole operands, and the next ones are on their way while the tensor
cores work. Elementwise ops between the load and the product are sliced with it. The order of additions stays.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.core import Op, Value
from tileiras.compiler.ir.dense import dense_bits
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.rewrite import Rewriter
from tileiras.compiler.ir.types import I32, Dense, TensorType, TileType
from tileiras.compiler.ir.walk import erase_unused
from tileiras.compiler.layout.gf2 import apply
from tileiras.compiler.layout.linear import LinearLayout, dim_bits, log2, remap_bits, splat
from tileiras.compiler.schedule.multiply_adds import slice_bits
from tileiras.compiler.schedule.staging import is_elementwise
from tileiras.compiler.target.products import PRODUCTS

from .staged_operands import common_loads, moving, source_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class SliceProducts(Pass):
    NAME = "TileASSliceProducts"
    SUMMARY = "Multiply in slices of K whose operands come from shared memory one slice ahead"
    """
    does: products read their operands from shared memory in slices of K
    without: whole operands
    acts: staged_f16_tn on sm_80
    """
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        common = common_loads(func)
        taken: dict[Any, Value] = {}
        for op in [op for op in func.walk() if op.spec.name in PRODUCTS]:
            bits = slice_bits(op)
            if bits is None:
                continue
            depth = op.operands[0].type.shape[-1]
            step = 1 << bits
            sources = [source_of(op.operands[0], common), source_of(op.operands[1], common)]
            if depth <= step or not any(s is not None for s in sources):
                continue
            if not Slicer(op, step, context, common, taken).run():
                return False
        return True


class Slicer:
    """One product in slices."""

    def __init__(
        self,
        op: Op,
        step: int,
        context: Context,
        common: dict[Op, int] | None = None,
        taken: dict[Any, Value] | None = None,
    ) -> None:
        self.op = op
        self.step = step
        self.common = common or {}  # loads whose slices other products take as well
        self.taken = (
            taken if taken is not None else {}
        )  # and those that they have taken: (number of the load, dimension, number of the slice)
        self.rewriter = Rewriter(context, op)
        self.failed = False

    def run(self) -> bool:
        op = self.op
        a, b, acc, *scales = op.operands
        count = a.type.shape[-1] // self.step  # type: ignore[attr-defined]
        rank = len(a.type.shape)  # type: ignore[attr-defined]
        pairs = [(self.slice(a, rank - 1, 0), self.slice(b, rank - 2, 0))]
        for k in range(count):
            if k + 1 < count:
                pairs.append((self.slice(a, rank - 1, k + 1), self.slice(b, rank - 2, k + 1)))
            attrs = dict(op.attrs)
            if scales:
                blocks: int = scales[0].type.shape[-1]  # type: ignore[attr-defined]
                attrs["first"] = k * blocks // count
            made = self.make(op.spec, [*pairs[k], acc, *scales], [op.result.type], attrs)
            if made is None:
                return False
            acc = made.result
        dead = [v.op for v in (a, b)]
        self.rewriter.replace(op, [acc])
        for maker in dead:
            erase_unused(maker, may_go)
        return not self.failed

    def make(self, spec: Any, groups: Any, types: Any, attrs: dict[str, Any] | None = None) -> Op | None:
        made = self.rewriter.create(spec, groups, types, attrs)
        self.failed = self.failed or made is None
        return made

    def slice(self, value: Value, dim: int, index: int) -> Any:
        """Elements index * step .. of a value along a dimension, in the same registers: of what is computed from a load by single
        elements, the slice of the load, and the same computed once more."""
        chain = []
        if source_of(value, self.common) is not None:
            while value.op is not None and is_elementwise(value.op):
                chain.append(value.op)
                value = moving(value.op)[0]
        made = self.one(value, dim, index)
        for op in reversed(chain):
            operands = [made if v is value else self.one(v, dim, index) for v in op.operands]
            value = op.result
            again = self.make(op.spec, operands, [self.small(value, dim)], dict(op.attrs))
            made = again.result if again is not None else None
        return made

    def small(self, value: Value, dim: int) -> TensorType:
        """The type of a slice."""
        type: Any = value.type
        shape = tuple(self.step if d == dim else e for d, e in enumerate(type.shape))
        return TensorType(type.elem, shape, part(type.layout, type.shape, dim, self.step))

    def one(self, value: Value, dim: int, index: int) -> Any:
        """A slice of a load, of a constant, or of what lies in registers."""
        type: Any = value.type
        small: Any = self.small(value, dim)
        op = value.op
        key = (self.common[op] if op in self.common else None, dim, index)
        if key in self.taken:
            return self.taken[key]
        if op is not None and op.spec is tileas.LOAD_SHARED:
            low, _ = dim_bits(type.shape)[dim]
            columns = op.attrs["arrangement"]
            moved = [columns[k] for k in kept_bits(type.shape, dim, self.step)]
            attrs = dict(op.attrs)
            attrs["arrangement"] = tuple(moved)
            attrs["within"] = attrs.get("within", 0) ^ apply(columns, index * self.step << low)
            made = self.make(op.spec, list(op.operands), [small], attrs)
            if op in self.common and made is not None:
                self.taken[key] = made.result
        elif op is not None and op.spec.name == "constant" and len(set(dense_of(op))) == 1:
            data = op.attr("value")  # one element for all, or each of its own: equal ones
            each = len(dense_of(op)) > 1
            size = len(data.data) * self.step // type.shape[dim] if each else len(data.data)
            whole = data.type.shape == type.shape
            dense = Dense(TileType(type.elem, small.shape if whole else data.type.shape), data.data[:size])
            made = self.make(op.spec, (), [small], {**op.attrs, "value": dense})
        else:
            made = self.extract(value, small, dim, index)
        return made.result if made is not None else None

    def extract(self, value: Value, small: Any, dim: int, index: int) -> Op | None:
        """A slice of a value in registers: a renaming, as its layout has the slice's number in registers."""
        scalar = TensorType(I32, (), splat(0, len(small.layout.warp)))
        where = []
        for d in range(len(small.shape)):
            number = index if d == dim else 0
            data = Dense(TileType(I32, ()), number.to_bytes(4, "little"))
            made = self.make(tileas.BY_NAME["constant"], (), [scalar], {"value": data})
            where.append(made.result if made is not None else None)
        return self.make(tileas.BY_NAME["extract"], [value, where], [small])


def dense_of(op: Op) -> Any:

    return dense_bits(op.attr("value"))


def kept_bits(shape: Any, dim: int, step: int) -> list[int]:
    """Index bits of a tile that number the elements of one slice, lowest first."""
    out: list[int] = []
    for d, (low, count) in sorted(enumerate(dim_bits(shape)), key=lambda item: item[1][0]):
        out += range(low, low + (log2(step) if d == dim else count))
    return out


def part(layout: LinearLayout, shape: Any, dim: int, step: int) -> LinearLayout:
    """The layout of a slice: the bits that number slices leave the registers."""
    kept = kept_bits(shape, dim, step)
    moved = [-1] * layout.bits
    for place, bit in enumerate(kept):
        moved[bit] = place
    out = remap_bits(layout, moved, len(kept))
    return LinearLayout(out.bits, [c for c in out.reg if c], out.lane, out.warp, out.inv)


def may_go(op: Op) -> bool:
    """Whether an op that nothing uses leaves nothing behind: what computes, or reads a stage."""
    return op.spec.is_pure or op.spec is tileas.LOAD_SHARED
