"""The rules of layout inference: what an op wants of its operands, and what its results get.

A rule takes the inference so far and the op, and returns (wanted operand layouts, result layouts), None where there is none or
any will do. An op without a rule is elementwise: all its tiles lie alike.
"""

from __future__ import annotations

from tileiras.compiler.ir.dense import dense_bits
from tileiras.compiler.ir.types import TensorType
from tileiras.compiler.layout.convert import SHARED, plan
from tileiras.compiler.layout.linear import (
    LANE_BITS,
    LinearLayout,
    blocked,
    broadcasted,
    dim_bits,
    embedded,
    log2,
    permuted,
    reduced,
    remap_bits,
    splat,
    with_inv,
)  # fmt: skip
from tileiras.compiler.passes.tileaa.commute import commutes
from tileiras.compiler.passes.tileaa.slices import cut_bits, sliced
from tileiras.compiler.target.cost import CostModel

from .rows import again, beside, computes_with, down_columns, is_only_reduced, left_of, stored_only

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value

    from .infer import Inference


def project(layout: LinearLayout, span: tuple[int, int]) -> LinearLayout:
    """The layout of one dimension alone: all other index bits leave, places that differed there hold copies."""
    low, count = span
    moved = [k - low if low <= k < low + count else -1 for k in range(layout.bits)]
    out = remap_bits(layout, moved, count)
    seen: list[int] = []
    for c in out.reg:
        if c and c not in seen:
            seen.append(c)
    return LinearLayout(count, seen, out.lane, out.warp, out.inv)


def _load_view(inf: Inference, op: Op) -> Any:
    layout = inf.steered.get(op.results[0]) or beside(op, inf.layouts.get) or _again(inf, op)
    if layout is None or layout in inf.anchored:
        layout = _in_columns(inf, op) or _in_fragments(inf, op)
        layout = layout or inf.memory_layout(op, op.results[0].type.shape)  # type: ignore[attr-defined]
    return _view_operands(inf, op, layout), [layout, None]


def _again(inf: Inference, op: Op) -> LinearLayout | None:
    """The layout of a small load of which each thread computes what it needs, where it would pass through shared memory."""
    layout = again(op, inf.expected)
    if layout is None:
        return None
    have = inf.memory_layout(op, op.results[0].type.shape)  # type: ignore[attr-defined]
    return layout if plan(have, layout).kind == SHARED else None


def _in_columns(inf: Inference, op: Op) -> LinearLayout | None:
    """The layout of a load that waits in shared memory, and of which threads want nothing but its columns reduced."""
    type: Any = op.results[0].type
    shape = type.shape
    if op not in inf.products.copied or shape not in inf.reduced or getattr(type.elem, "bits", 0) != 16:
        return None
    if inf.facts.view_vector(op)[0] != len(shape) - 1 or not is_only_reduced(op):
        return None
    return down_columns(shape, inf.reduced[shape], inf.log2_warps)


def _in_fragments(inf: Inference, op: Op) -> LinearLayout | None:
    """The layout of a load that waits in shared memory for the left operand of a warpgroup's product, which goes there through
    registers, and whose rows are summed besides: as the product wants it, so that both read it once; four lanes have a row."""
    type: Any = op.results[0].type
    shape = type.shape
    if op not in inf.products.copied or len(shape) != 2 or type.elem.bits != 16:
        return None
    if inf.reduced.get(shape) != shape[-1] - 1:  # the bits of a number in a row
        return None
    for product in left_of(op):
        if product in inf.products.of_warpgroups and 0 not in inf.products.of_warpgroups[product]:
            found = inf.products.of(product)
            if found is not None and not any(found[0][0].replicated):
                return found[0][0]
    return None


def _view_operands(inf: Inference, op: Op, layout: LinearLayout) -> list[LinearLayout | None]:
    """Scalars for indices; the row numbers of a gather or scatter in the slice of the value's layout."""
    view = op.operand("view")
    sparse = getattr(view.type, "sparse_dim", -1)  # type: ignore[union-attr]
    indices = op.group("index")
    shape = view.type.tile  # type: ignore[union-attr]
    out: list[LinearLayout | None] = []
    for v in op.operands:
        if not isinstance(v.type, TensorType):
            out.append(None)
        elif v.type.shape and 0 <= sparse < len(indices) and v is indices[sparse]:  # type: ignore[attr-defined]
            out.append(project(layout, dim_bits(shape)[sparse]))
        elif v.type.shape:  # type: ignore[attr-defined]
            out.append(layout)
        else:
            out.append(splat(0, inf.log2_warps))
    return out


def _store_view(inf: Inference, op: Op) -> Any:
    value = op.operand("tile")
    assert value is not None
    have = inf.layouts[value]
    assert have is not None
    layout = inf.store_layout(op, value, have)
    return _view_operands(inf, op, layout), [None]


def _load_ptr(inf: Inference, op: Op) -> Any:
    source = op.operand("source")
    assert source is not None
    copied = inf.products.copied.get(op)
    if copied is not None:
        layout = copied.laid_out(inf.log2_warps)
        return [layout if isinstance(v.type, TensorType) else None for v in op.operands], [layout, None]
    want, _ = inf.follow(op)
    shape = source.type.shape  # type: ignore[attr-defined]
    steered = inf.steered.get(op.results[0])
    if steered is not None:
        layout = steered
    elif shape and (inf.is_cheap(source) or inf.layouts[source].inv):  # type: ignore[union-attr]
        layout = inf.memory_layout(op, shape)
    else:
        layout = next(w for w in want if w is not None)
    return [layout if isinstance(v.type, TensorType) else None for v in op.operands], [layout, None]


def _store_ptr(inf: Inference, op: Op) -> Any:
    value = op.operand("value")
    assert value is not None
    layout = inf.layouts[value]
    assert layout is not None
    shape = value.type.shape  # type: ignore[attr-defined]
    if layout.inv or inf.is_cheap(value):
        others = [v for v in op.operands if isinstance(v.type, TensorType)]
        layout = inf.best(others)
        if (
            layout is None
            or layout.inv
            or layout.is_splat
            or (shape and all(inf.is_cheap(v) for v in others))
        ):
            layout = inf.memory_layout(op, shape) if shape else inf.default(value.type)
    return [layout if isinstance(v.type, TensorType) else None for v in op.operands], [None] * len(op.results)


def _atomic_ptr(inf: Inference, op: Op) -> Any:
    """Every element exactly once: no invariant bits."""
    type = op.results[0].type
    layout = inf.best([v for v in op.operands if isinstance(v.type, TensorType)])
    if layout is None or layout.inv:
        layout = inf.default(type)
    return [layout if isinstance(v.type, TensorType) else None for v in op.operands], [layout, None]


def _atomic_red(inf: Inference, op: Op) -> Any:
    value = op.operand("value")
    assert value is not None
    layout = inf.layouts[value]
    if layout is None or layout.inv or inf.is_cheap(value):
        layout = inf.memory_layout(op, value.type.shape)  # type: ignore[attr-defined]
    return _view_operands(inf, op, layout), [None]


def _constant(inf: Inference, op: Op) -> Any:
    type: Any = op.results[0].type
    data = op.attr("value")

    values = dense_bits(data)
    if len(values) == 1 or len(set(values)) == 1:
        return [], [splat(sum(log2(e) for e in type.shape), inf.log2_warps)]
    return [], [inf.default(type)]


def _iota(inf: Inference, op: Op) -> Any:
    return [], [inf.default(op.results[0].type)]


def _reshape(inf: Inference, op: Op) -> Any:
    layout = inf.layouts[op.operands[0]]
    return [layout], [layout]


def _permute(inf: Inference, op: Op) -> Any:
    layout = inf.layouts[op.operands[0]]
    assert layout is not None
    result = permuted(layout, op.operands[0].type.shape, op.attr("permutation"))  # type: ignore[attr-defined]
    if layout in inf.anchored:
        inf.anchored.add(result)
    return [layout], [result]


def _broadcast(inf: Inference, op: Op) -> Any:
    layout = inf.layouts[op.operands[0]]
    assert layout is not None
    return [layout], [broadcasted(layout, op.operands[0].type.shape, op.results[0].type.shape)]  # type: ignore[attr-defined]


def _reduce(inf: Inference, op: Op) -> Any:
    layout = inf.best(list(op.operands))
    assert layout is not None
    result = inf.products.joined(op)
    if result is None:
        result = reduced(layout, op.operands[0].type.shape, op.attr("dim"))  # type: ignore[attr-defined]
        result = _spread(inf, op, layout, result)
    return [layout] * len(op.operands), [result] * len(op.results)


def _spread(inf: Inference, op: Op, layout: LinearLayout, result: LinearLayout) -> LinearLayout:
    """Where results lie whose partials meet in shared memory: as what stores them wants them, when that is fewer a thread than
    the partials were; or spread over the block, where every thread would have all of many, and compute all that is made of them.
    Each thread reads all partials of its results, from wherever."""
    low, count = dim_bits(op.operands[0].type.shape)[op.attr("dim")]  # type: ignore[attr-defined]
    mask = (1 << count) - 1 << low
    if result.num_regs == 1 or not any(c & mask for c in layout.warp):
        return result
    user = stored_only(op.results)
    if not commutes(op.regions[0].block):
        return result
    many = result.num_regs >= CostModel.converted_again and not any((*result.lane, *result.warp))
    if user is None and many and any(computes_with(value) for value in op.results):
        plain = inf.default(op.results[0].type)
        assert plain is not None
        return with_inv(plain, result.inv)
    if user is None:
        return result
    store, value = user
    wanted = inf.memory_layout(store, value.type.shape)  # type: ignore[attr-defined]
    return with_inv(wanted, result.inv) if wanted.num_regs < result.num_regs else result


def _mma(inf: Inference, op: Op) -> Any:
    found = inf.products.of(op)
    if found is None:
        layout = _fma_layout(inf, op.operands[2].type.shape)  # type: ignore[attr-defined]
        return [inf.layouts[op.operands[0]], inf.layouts[op.operands[1]], layout], [layout]
    wanted, result = found
    inf.anchored.add(result)
    return [
        _stored(inf, op, which) if which != 2 and inf.products.is_stored(op, which) else layout
        for which, layout in enumerate(wanted)
    ], [result]


def _stored(inf: Inference, op: Op, which: int) -> LinearLayout:
    """The layout in which an operand is stored to shared memory for tcgen05."""
    value = op.operands[which]
    type: Any = value.type
    have = inf.layouts[value]
    assert have is not None
    k = len(type.shape) - 1 if which == 0 else len(type.shape) - 2
    low, count = dim_bits(type.shape)[k]
    if type.elem.name != "tf32":
        return inf.default(type) if have.inv else have  # type: ignore[return-value]
    if not have.inv and have.reg and have.reg[0] == 1 << low:
        return have
    # K must be contiguous: four of K a thread, lanes along the other dimension
    order = [d for d in range(len(type.shape)) if d != k]
    rest = [
        1 << bit for d in order for bit in range(dim_bits(type.shape)[d][0], sum(dim_bits(type.shape)[d]))
    ]
    along = [1 << bit for bit in range(low, low + count)]
    reg, rest = along[:2], rest + along[2:]
    lane, rest = rest[:LANE_BITS], rest[LANE_BITS:]
    split = max(0, len(rest) - inf.log2_warps)
    warp = [*rest[split:], *[0] * (inf.log2_warps - len(rest))]  # small tiles: copies
    lane += [0] * (LANE_BITS - len(lane))
    return LinearLayout(sum(c for _, c in dim_bits(type.shape)), [*reg, *rest[:split]], lane, warp)


def _fma_layout(inf: Inference, shape: tuple[int, ...]) -> LinearLayout:
    """Four columns a thread, lanes over columns then rows, further rows in registers."""
    bits = sum(log2(e) for e in shape)
    order = tuple(reversed(range(len(shape))))
    layout = blocked(shape, order, min(2, log2(shape[-1]), max(0, bits - 5 - inf.log2_warps)), inf.log2_warps)
    inf.anchored.add(layout)
    return layout


def _many_blocks(indices: list[Value], small: LinearLayout, inner: Any, outer: Any) -> bool:
    """Whether a block chosen at run time has too many places to be a matter of registers."""
    if all(v.op is not None and v.op.spec.name == "constant" for v in indices):
        return False
    blocks = sum(log2(e) for e in outer) - sum(log2(e) for e in inner)
    return small.num_regs << blocks > CostModel.chosen_registers


def _block_source(inf: Inference, op: Op) -> Any:
    """extract: block-selecting bits in registers, or the source as it lies when there are too many of them."""
    source: Any = op.operands[0]
    inner = op.results[0].type.shape  # type: ignore[attr-defined]
    outer = source.type.shape
    small = inf.default(op.results[0].type)
    assert small is not None
    large = embedded(small, inner, outer)
    indices = list(op.operands[1:])
    have = inf.layouts[source]
    bits = getattr(source.type.elem, "bits", 64)  # pointers have none
    size = 1 if bits == 1 else max(16, bits) // 8
    if (
        _many_blocks(indices, small, inner, outer)
        and size << large.bits <= CostModel.extract_bytes
        and not inf.is_cheap(source)
    ):
        large = have  # type: ignore[assignment]
    return [large, *[splat(0, inf.log2_warps)] * len(indices)], [small]


def _insert(inf: Inference, op: Op) -> Any:
    """insert: block-selecting bits in registers, or every thread with its share of the destination."""
    inner = op.operands[0].type.shape  # type: ignore[attr-defined]
    outer = op.operands[1].type.shape  # type: ignore[attr-defined]
    small = inf.default(op.operands[0].type)
    assert small is not None
    large = embedded(small, inner, outer)
    indices = list(op.operands[2:])
    if _many_blocks(indices, small, inner, outer):
        large = inf.default(op.operands[1].type)  # type: ignore[assignment]
        small = _block_layout(large, inner, outer)
    return [small, large, *[splat(0, inf.log2_warps)] * len(indices)], [large]


def _block_layout(layout: LinearLayout, inner: Any, outer: Any) -> LinearLayout:
    """The layout of a block that puts its elements wherever `layout` has them, whichever block it is."""
    moved = [-1] * layout.bits
    for (ilow, icount), (olow, _) in zip(dim_bits(inner), dim_bits(outer)):
        for k in range(icount):
            moved[olow + k] = ilow + k
    out = remap_bits(layout, moved, sum(log2(e) for e in inner))
    return LinearLayout(out.bits, [c for c in out.reg if c], out.lane, out.warp)


def _cat(inf: Inference, op: Op) -> Any:
    inner = op.operands[0].type.shape  # type: ignore[attr-defined]
    outer = op.results[0].type.shape  # type: ignore[attr-defined]
    first, second = (inf.layouts[v] for v in op.operands)
    small = (
        first if first is second and first is not None and not first.inv else inf.default(op.operands[0].type)
    )
    assert small is not None
    large = embedded(small, inner, outer)
    if 1 in large.reg[1:]:  # neighbours come from both sides: in the order in which a store takes them
        large = LinearLayout(large.bits, sorted(large.reg), large.lane, large.warp, large.inv)
    return [small, small], [large]


def _keep(inf: Inference, op: Op) -> Any:
    layouts = [inf.layouts[v] for v in op.operands]
    return layouts, [layouts[0]] * len(op.results)


def _scan(inf: Inference, op: Op) -> Any:
    """The dimension in registers and lanes, other dimensions in warps; top bits of a long one in warps too."""
    shape = op.operands[0].type.shape  # type: ignore[attr-defined]
    dim = op.attr("dim")
    dims = dim_bits(shape)
    low, count = dims[dim]
    others = [
        1 << (dims[d][0] + k) for d in reversed(range(len(shape))) if d != dim for k in range(dims[d][1])
    ]
    along = [1 << (low + k) for k in range(count)]
    total = len(along) + len(others)
    vector = min(2, max(0, count - 5))
    reg, along = along[:vector], along[vector:]
    lane, along = along[:5], along[5:]
    while len(lane) < 5 and others:
        lane.append(others.pop(0))
    warp: list[int] = []
    while len(warp) < inf.log2_warps and others:
        warp.append(others.pop())
    while len(warp) < inf.log2_warps and along and len(along) + len(others) + vector > 3:
        warp.append(along.pop())
    reg += along + others
    lane += [0] * (5 - len(lane))
    warp += [0] * (inf.log2_warps - len(warp))
    layout = LinearLayout(total, reg, lane, warp)
    return [layout] * len(op.operands), [layout] * len(op.results)


def _pack(inf: Inference, op: Op) -> Any:
    source: Any = op.operands[0].type
    bits = 32 if source.elem.bits == 19 else source.elem.bits
    if bits < 8:  # pairs of elements in one thread
        total = log2(source.shape[0])
        want = blocked(source.shape, (0,), max(1, inf.vector_of(source.shape, None)), inf.log2_warps)
        halved = remap_bits(want, [-1, *range(total - 1)], total - 1)
        result = LinearLayout(total - 1, [c for c in halved.reg if c], halved.lane, halved.warp)
        return [want], [result]
    layout = inf.layouts[op.operands[0]]
    assert layout is not None
    return [layout], [_widen(layout, log2(bits // 8))]


def _widen(layout: LinearLayout, extra: int) -> LinearLayout:
    """Every element becomes 2^extra neighbours in registers."""
    moved = [k + extra for k in range(layout.bits)]
    out = remap_bits(layout, moved, layout.bits + extra)
    return LinearLayout(out.bits, [*[1 << k for k in range(extra)], *out.reg], out.lane, out.warp, out.inv)


def _unpack(inf: Inference, op: Op) -> Any:
    result: Any = op.results[0].type
    bits = 32 if result.elem.bits == 19 else result.elem.bits
    if bits < 8:
        layout = inf.layouts[op.operands[0]]
        assert layout is not None
        return [layout], [_widen(layout, 1)]
    small = inf.default(result)
    assert small is not None
    return [_widen(small, log2(bits // 8))], [small]


def _slice_layout(inf: Inference, type: Any) -> LinearLayout:
    """All slices of one shape have one layout, so that what is written is what is read."""
    layout = inf.default(type)
    assert layout is not None
    return layout


def _local_alloc(inf: Inference, op: Op) -> Any:
    return [], [None]


def _local_write(inf: Inference, op: Op) -> Any:
    return [None, splat(0, inf.log2_warps), _slice_layout(inf, op.operands[2].type)], []


def _local_read(inf: Inference, op: Op) -> Any:
    return [None, splat(0, inf.log2_warps)], [_slice_layout(inf, op.results[0].type)]


def _local_read_all(inf: Inference, op: Op) -> Any:
    """Every slice in the layout that it was written in; bits of the slice number are the top register bits."""
    whole: Any = op.results[0].type
    cut = tuple(op.attr("cut"))
    small = _slice_layout(inf, TensorType(whole.elem, sliced(whole.shape, cut)))
    bits = cut_bits(whole.shape, cut)
    kept = [k for k in range(sum(log2(e) for e in whole.shape)) if k not in bits]
    out = remap_bits(small, kept, len(kept) + len(bits))
    number = [1 << bit for bit in reversed(bits)]
    return [None], [LinearLayout(out.bits, (*out.reg, *number), out.lane, out.warp, out.inv)]


def _as_it_is(inf: Inference, op: Op) -> Any:
    """print takes every operand where it lies, whatever its shape."""
    return [None] * len(op.operands), [None] * len(op.results)


RULES: dict[str, Any] = {
    "print_tko": _as_it_is,
    "local_alloc": _local_alloc, "local_write": _local_write, "local_read": _local_read,
    "local_read_all": _local_read_all,
    "scan": _scan, "pack": _pack, "unpack": _unpack,
    "load_view_tko": _load_view, "multimem_load_reduce_view_tko": _load_view,
    "store_view_tko": _store_view, "load_ptr_tko": _load_ptr, "store_ptr_tko": _store_ptr,
    "atomic_rmw_tko": _atomic_ptr, "atomic_cas_tko": _atomic_ptr, "atomic_red_view_tko": _atomic_red,
    "constant": _constant, "iota": _iota, "reshape": _reshape, "permute": _permute, "broadcast": _broadcast,
    "reduce": _reduce, "mmaf": _mma, "mmai": _mma, "mma_block_scaled": _mma, "extract": _block_source,
    "insert": _insert, "cat": _cat,
    "assume": _keep,
}  # fmt: skip
