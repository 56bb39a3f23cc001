"""Loads of a ring that bulk tensor copies bring: the tensor map of each, and where its boxes lie.

A map is made by whoever launches, before the kernel runs: so all that it says must be parameters of the kernel or
constants, and what makes it valid (addresses and strides that are multiples of 16 bytes) must be promised for the whole
kernel, not for one of its branches. A box is as wide as a line of the arrangement, and the swizzle that the hardware
applies to addresses must give the arrangement that products read.
"""

from __future__ import annotations

from math import prod

from tileiras.compiler.dialects.nv_tileaa.kernel_spec import KEY
from tileiras.compiler.ir.dense import dense_bits
from tileiras.compiler.ir.types import TOKEN, DivBy, PartitionView
from tileiras.compiler.ir.views import view_dims
from tileiras.compiler.layout.linear import dim_bits, log2
from tileiras.compiler.layout.shared import CHUNK_BYTES, LINE_BYTES, is_swizzled
from tileiras.compiler.target import sm
from tileiras.compiler.target.tensor_maps import (
    ELEMENTS,
    MAX_BOX,
    MAX_RANK,
    MAX_STRIDE_BYTES,
    Source,
    TensorMap,
)

from .candidates import constant_int
from .hints import flag
from .staging import unit_dimension

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value
    from tileiras.compiler.passes.tileaa.facts import Facts

    from .staging import Staged

SWIZZLED_ROWS = 8  # after which a swizzle repeats
SWIZZLES = {16: "none", 32: "32B", 64: "64B", 128: "128B"}  # by bytes of a line
_MOST_EXTENT = (1 << 31) - 1  # coordinates are signed 32-bit numbers
_SAME = frozenset(("assume", "convert_layout", "exti"))


class NoMap(Exception):
    """Why a load is not a bulk tensor copy."""


class Boxes:
    """The map of a load; which dimension of the view each of the map's is; elements of the tile in each."""

    __slots__ = ("map", "order", "tile")

    def __init__(self, map: TensorMap, order: tuple[int, ...], tile: tuple[int, ...]) -> None:
        self.map = map
        self.order = order
        self.tile = tile


def wanted(target: Any) -> bool:
    """Whether a compile may make tensor maps."""
    return target is not None and target.tensor_maps == "launcher" and target.has(sm.TMA)


def report(op: Op, reason: str, context: Any) -> None:
    """Says why a load is no bulk tensor copy, where that was asked for."""
    from tileiras.compiler.dialects.nv_tileas import diags as D

    context.remark(D.NO_TENSOR_MAP, op, reason=reason)


def boxes(func: Op, loop: Op, member: Staged, facts: Facts, target: Any) -> Boxes:
    """How bulk tensor copies bring a load of a ring. Errors: NoMap, with the reason."""

    op = member.op
    step = constant_int(loop.operands[2])
    if step is None:
        raise NoMap("the step of the loop is known at run time only")
    if flag(op, target, "allow_tma") is False:
        raise NoMap("the hint allow_tma = false")
    if member.filled:
        raise NoMap("rows of block scales leave holes between them")
    if op.spec.name != "load_view_tko":
        raise NoMap("a tile of pointers")
    value = op.operand("view")
    assert value is not None
    view: Any = value.type
    unit, shape = unit_dimension(op), view.tile
    element, size = view.view.elem.name, view.view.elem.bytes
    if not isinstance(view, PartitionView):
        raise NoMap("tiles that overlap or leave gaps")
    if element not in ELEMENTS or size not in (1, 2, 4, 8):
        raise NoMap(f"elements of type {element}")
    if not 1 <= len(shape) <= MAX_RANK:
        raise NoMap(f"rank {len(shape)}, a map has at most {MAX_RANK}")
    if not fresh(op.operand("token")):
        raise NoMap("it is ordered behind other accesses of the kernel")
    dims = view_dims(view)
    order = (*(d for d in range(len(shape)) if d != unit), unit)
    base, extents, strides = traced(func, facts, value, [dims[d] for d in order], size)
    tile = tuple(shape[d] for d in order)
    box = box_of(tile, size)
    ctas = func.attrs[KEY].tile_ctas or 1
    if ctas > 1 and not any(map(depends_on_rank, op.group("index"))):
        box = divided(tile, box, ctas)
    line = box[-1] * size
    if line not in SWIZZLES:
        raise NoMap(f"its lines have {line} bytes, a box copies multiples of {CHUNK_BYTES}")
    if not in_boxes(member.arrangement, shape, order, box, size):
        raise NoMap("its lines in shared memory are not those of a swizzle")
    return Boxes(TensorMap(base, element, extents, strides, box, SWIZZLES[line]), order, tile)


def fresh(token: Value | None) -> bool:
    """Whether a token orders an access behind loads only: whatever was written in the kernel, it may be read before."""
    work = [] if token is None else [token]
    seen: set[Value] = set()
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        op = value.op
        if op is None:
            parent = value.owner.region.op  # type: ignore[union-attr]
            if parent is None or parent.spec.name not in ("for", "func"):
                return False
            if parent.spec.name == "for":
                work += [parent.operands[2 + value.index], value.owner.ops[-1].operands[value.index - 1]]  # type: ignore[union-attr]
        elif op.spec.name == "for":
            index = op.results.index(value)
            work += [op.operands[3 + index], op.regions[0].block.ops[-1].operands[index]]
        elif op.spec.name == "if":
            index = op.results.index(value)
            work += [r.block.ops[-1].operands[index] for r in op.regions if r.blocks]
        elif op.spec.name in ("load_view_tko", "load_ptr_tko", "join_tokens"):
            if op.attrs.get("memory_ordering_semantics") not in (None, "weak"):
                return False
            work += [v for v in op.operands if v.type is TOKEN]
        elif op.spec.name != "make_token":
            return False
    return True


# ---- where the numbers of a map come from


def traced(
    func: Op, facts: Facts, view: Value, dims: Sequence[int], size: int
) -> tuple[int, tuple[Source, ...], tuple[Source, ...]]:
    """(parameter of the base, extents, strides) of a view's tensor, in the order of `dims`. Errors: NoMap."""
    op = facts.tensor_view_op(view)
    tensor: Any = op.results[0].type
    known = Numbers(func)
    base = known.of(op.operands[0])
    if base is None or base.kind != "param":
        raise NoMap("its pointer is not a parameter of the kernel")
    if known.divisor(base) % CHUNK_BYTES:
        raise NoMap(f"no assumption of the whole kernel makes its pointer a multiple of {CHUNK_BYTES} bytes")

    def numbers(statics: Any, group: str, what: str) -> list[Source]:
        rest = iter(op.group(group))
        out: list[Source] = []
        for static in statics:
            found = known.of(next(rest)) if static is None else constant(static)
            if found is None:
                raise NoMap(f"{what} is neither a parameter of the kernel nor a constant")
            out.append(found)
        return out

    extents = numbers(tensor.shape, "dynamicShape", "an extent")
    strides = numbers(tensor.strides, "dynamicStrides", "a stride")
    for found in extents:
        if found.kind == "const" and not 1 <= found.value <= _MOST_EXTENT:
            raise NoMap(f"an extent of {found.value}")
        if found.kind == "param" and known.entry.args[found.value].type.elem.bits > 32:  # type: ignore[attr-defined]
            raise NoMap("an extent is a parameter of 64 bits, coordinates have 32")
    for m in dims[:-1]:
        found = strides[m]
        if known.divisor(found) * size % CHUNK_BYTES:
            raise NoMap(f"no assumption of the whole kernel makes a stride a multiple of {CHUNK_BYTES} bytes")
        if found.kind == "const" and not 0 < found.value * size < MAX_STRIDE_BYTES:
            raise NoMap(f"a stride of {found.value}")
    return base.value, tuple(extents[m] for m in dims), tuple(strides[m] for m in dims)


def constant(value: int) -> Source | None:
    return Source("const", value) if value >= 0 else None


class Numbers:
    """What the scalars of a function are, in terms of its parameters."""

    def __init__(self, func: Op) -> None:
        self.entry = func.regions[0].block
        self.known: dict[Value, Source | None] = {}
        self.promises: dict[int, int] = {}
        for op in self.entry.ops:
            predicate = op.attrs.get("predicate") if op.spec.name == "assume" else None
            if isinstance(predicate, DivBy) and predicate.every is None:
                found = self.of(op.operands[0])
                if found is not None and found.kind == "param":
                    divisor = predicate.divisor & -predicate.divisor
                    self.promises[found.value] = max(divisor, self.promises.get(found.value, 1))

    def divisor(self, source: Source) -> int:
        """A power of two that divides a number whichever way the kernel takes: by assumptions of its outermost block."""
        return source.value & -source.value if source.kind == "const" else self.promises.get(source.value, 1)

    def of(self, value: Value) -> Source | None:
        """The parameter or constant that a scalar is; None for any other. What arithmetic with constants makes of a
        parameter in many words has been folded (TileAAFoldScalars)."""
        if value not in self.known:
            self.known[value] = self.derived(value)
        return self.known[value]

    def derived(self, value: Value) -> Source | None:
        op, widened = value.op, False
        while op is not None and op.spec.name in _SAME:
            widened = widened or op.spec.name == "exti"
            value = op.operands[0]
            op = value.op
        if op is None:
            return Source("param", value.index) if value.owner is self.entry else None
        if op.spec.name != "constant" or widened:
            return None
        values = set(dense_bits(op.attr("value")))
        return Source("const", values.pop()) if len(values) == 1 else None


# ---- boxes


def depends_on_rank(value: Value) -> bool:
    """Whether a number may differ between the CTAs of a cluster."""
    work, seen = [value], {value}
    while work:
        value = work.pop()
        op = value.op
        if op is None:
            loop = value.owner.region.op  # type: ignore[union-attr]
            if loop is None or loop.spec.name == "func":
                continue
            if loop.spec.name != "for":
                return True
            more = list(loop.operands[:3])
            if value.index:
                more = [
                    loop.operands[2 + value.index],
                    loop.regions[0].block.ops[-1].operands[value.index - 1],
                ]
        elif op.spec.name == "get_cta_rank" or op.regions:
            return True
        else:
            more = op.operands
        for other in more:
            if other not in seen:
                seen.add(other)
                work.append(other)
    return False


def box_of(tile: Sequence[int], size: int) -> tuple[int, ...]:
    """Elements of a box: a line's width of the tile's rows, as many rows as a box may have. Errors: NoMap."""
    box = [*tile[:-1], min(tile[-1], LINE_BYTES // size)]
    for d, extent in enumerate(tile[:-1]):
        if extent > MAX_BOX:
            if any(other > 1 for other in tile[:d]):
                raise NoMap(f"{extent} rows, a box has at most {MAX_BOX}")
            box[d] = MAX_BOX
    return tuple(box)


def divided(tile: Sequence[int], box: tuple[int, ...], count: int) -> tuple[int, ...]:
    """The boxes of a tile that `count` CTAs load together: panels where there are enough of them, else as many boxes of a
    panel's rows, but none with less rows than a swizzle has. Rows of a box follow each other: outer dimensions are cut first."""
    rows, rest = list(tile[:-1]), count
    for d, extent in enumerate(rows):
        cut = min(rest, extent)
        rows[d], rest = extent // cut, rest // cut
    if tile[-1] // box[-1] % count == 0 or rest > 1 or prod(rows) < SWIZZLED_ROWS:
        return box
    return (*map(min, rows, box), box[-1])


def in_boxes(
    columns: Sequence[int], shape: Sequence[int], order: Sequence[int], box: Sequence[int], size: int
) -> bool:
    """Whether an arrangement is the one that boxes give, panel behind panel, with the swizzle of their lines."""
    spans = dim_bits(shape)
    low, count = spans[order[-1]]
    rows = [spans[d][0] + k for d in reversed(order[:-1]) for k in range(spans[d][1])]
    return is_swizzled(columns, range(low, low + count), rows, size, log2(box[-1]))
