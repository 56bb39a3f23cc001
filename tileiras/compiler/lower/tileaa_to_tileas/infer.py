"""Layout inference: one rule per op says what it wants of its operands and what its results get.

`Inference.plan(op)` returns (wanted operand layouts, result layouts); None where an operand has no layout
(views, tokens) or any layout will do. Memory ops and matrix products are anchors; everything else follows its
operands. Values that cost nothing to compute again (iota, constants and cheap integer arithmetic on them)
never decide a layout.
"""

from __future__ import annotations

from tileiras.compiler.ir.dense import dense_bits
from tileiras.compiler.ir.types import TensorType
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
from tileiras.compiler.layout.matrices import whole_rows
from tileiras.compiler.passes.tileaa.facts import facts_of
from tileiras.compiler.passes.tileaa.slices import cut_bits, sliced
from tileiras.compiler.schedule.product_layouts import ProductLayouts
from tileiras.compiler.target.cost import CostModel

from .rows import beside, reduced_bits, within_warps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.analyses import Analyses
    from tileiras.compiler.ir.core import Block, Op, Value

CHEAP = frozenset(
    {"addi", "subi", "muli", "andi", "ori", "xori", "shli", "shri", "cmpi", "exti", "trunci", "broadcast", "reshape",
     "permute", "offset", "maxi", "mini", "assume", "select", "itof"}
)  # fmt: skip
CHEAP_FLOATS = frozenset(
    {"mulf", "addf", "subf", "negf"}
)  # of what is known here: sums that a loop carries begin as one number
CHEAP_DEPTH = 10
CHEAP_HEIGHT = 64  # ops in a row, beyond which a value is converted


class Inference:
    """Layouts of one function's values."""

    def __init__(self, func: Op, analyses: Analyses, num_warps: int) -> None:
        self.log2_warps = log2(num_warps)
        self.facts = analyses.get(facts_of, func)
        self.layouts: dict[Value, LinearLayout | None] = {}
        self.anchored: set[LinearLayout] = set()  # layouts of matrix products: others follow them
        self.vectors: dict[tuple[int, ...], int] = {}
        self.wanted: dict[
            Op, list[LinearLayout | None]
        ] = {}  # operand layouts behind each op's result layouts
        self._cheap: dict[Value, int] = {}
        self.products = ProductLayouts(func, analyses, self.log2_warps)
        self.steered = self._addresses()
        self._collect_vectors(func)
        self.reduced = reduced_bits(func)  # by shape, the index bits that are to stay in a warp
        block = func.regions[0].block
        for arg in block.args:
            self.layouts[arg] = self.default(arg.type)
        self.infer_block(block)

    # ---- defaults
    def _collect_vectors(self, func: Op) -> None:
        """Per tile shape the vector width (log2) all memory ops on it can use."""
        for op in func.walk():
            name = op.spec.name
            if name in ("load_view_tko", "store_view_tko"):
                tile: Any = (op.results[0] if name == "load_view_tko" else op.operand("tile")).type  # type: ignore[union-attr]
                _, count = self.facts.view_vector(op)
                width = log2(count)
            elif name in ("load_ptr_tko", "store_ptr_tko"):
                tile = op.operands[0].type
                width = log2(self.pointer_vector(op)[1])
            else:
                continue
            old = self.vectors.get(tile.shape)
            self.vectors[tile.shape] = width if old is None else min(old, width)

    def pointer_vector(self, op: Op) -> tuple[int, int]:
        """(dimension, neighbouring elements) a pointer load or store may move at once."""
        pointers = op.operands[0]
        size = max(1, getattr(pointers.type.elem.pointee, "bits", 64) // 8)  # type: ignore[attr-defined]
        return self.facts.pointer_vector(pointers, op.operand("mask"), size)

    def vector_of(self, shape: tuple[int, ...], width: int | None) -> int:
        bits = sum(log2(e) for e in shape)
        spare = max(0, bits - 5 - self.log2_warps)
        return min(CostModel.log2_vector if width is None else width, spare)

    def default(self, type: Any) -> LinearLayout | None:
        if not isinstance(type, TensorType):
            return None
        shape = type.shape  # type: ignore[attr-defined]
        if not shape:
            return splat(0, self.log2_warps)
        order = tuple(reversed(range(len(shape))))
        return blocked(shape, order, self.vector_of(shape, self.vectors.get(shape)), self.log2_warps)

    # ---- cheap values
    def is_cheap(self, value: Value, depth: int = 0) -> int:
        """How many ops in a row compute a value again where it is wanted; 0: it is kept."""
        found = self._cheap.get(value)
        if found is not None:
            return found
        op = value.op
        if op is None or depth > CHEAP_DEPTH:
            return 0
        name = op.spec.name
        height = 0
        if name in ("iota", "constant"):
            height = 1
        elif name in CHEAP or name in CHEAP_FLOATS:
            heights = [self.is_cheap(v, depth + 1) for v in op.operands]
            kept = [v for v, made in zip(op.operands, heights) if not made]
            if all(self._is_uniform(v) and (v.op is not None or name in CHEAP) for v in kept):
                height = 1 + max(heights, default=0)
        self._cheap[value] = height = height if height <= CHEAP_HEIGHT else 0
        return height

    def _is_uniform(self, value: Value) -> bool:
        layout = self.layouts.get(value)
        return layout is not None and layout.is_splat

    # ---- walking
    def infer_block(self, block: Block) -> None:
        for op in block.ops:
            self.infer(op)

    def infer(self, op: Op) -> None:
        name = op.spec.name
        if name == "for":
            body = op.regions[0].block
            self.layouts[body.args[0]] = self.default(body.args[0].type)
            self._loop(op, body, body.args[1:], op.operands[3:], op.results)
        elif name == "loop":
            body = op.regions[0].block
            self._loop(op, body, body.args, op.operands, ())
            self._results_from(op, "break")
        elif name == "if":
            for region in op.regions:
                if region.blocks:
                    self.infer_block(region.block)
            self._results_from(op, "yield")
        else:
            self.wanted[op], results = self.plan(op)
            for value, layout in zip(op.results, results):
                self.layouts[value] = layout
            for region in op.regions:  # bodies of reduce and scan: scalars
                for block in region.blocks:
                    for arg in block.args:
                        self.layouts[arg] = self.default(arg.type)
                    self.infer_block(block)

    def _addresses(self) -> dict[Value, LinearLayout]:
        """What the pointers and masks of asynchronous copies are computed from, element by element, and loops carry: the layout
        of the copying threads."""
        found: dict[Value, LinearLayout] = {}
        for op, plan in self.products.copied.items():
            if op.spec.name != "load_ptr_tko":
                continue
            layout = plan.laid_out(self.log2_warps)
            work = [v for v in (op.operand("source"), op.operand("mask")) if v is not None]
            shape = work[0].type.shape  # type: ignore[attr-defined]
            while work:
                value = work.pop()
                if value in found or getattr(value.type, "shape", ()) != shape:
                    continue
                maker = value.op
                if (
                    maker is None
                    or maker.spec.name not in _RULES
                    and maker.spec.is_pure
                    and not maker.regions
                ):
                    found[value] = layout
                    work += maker.operands if maker is not None else ()
        return found

    def _loop(self, op: Op, body: Block, args: Any, inits: Any, results: Any) -> None:
        current = [self.steered.get(a, self.layouts[v]) for a, v in zip(args, inits)]
        for attempt in range(4):
            for arg, layout in zip(args, current):
                self.layouts[arg] = layout
            self.infer_block(body)
            following = list(current)
            for jump in _jumps(op, "continue"):
                following = [
                    self.join(arg.type, a, self.layouts[v])
                    for arg, a, v in zip(args, following, jump.operands)
                ]
            if following == current:
                break
            current = following
            if attempt == 2:  # no agreement: the plain layout holds anything
                current = [self.default(arg.type) for arg in args]
        else:
            for arg, layout in zip(args, current):
                self.layouts[arg] = layout
            self.infer_block(body)
        for result, layout in zip(results, current):
            self.layouts[result] = layout

    def _results_from(self, op: Op, terminator: str) -> None:
        layouts: list[Any] = [None] * len(op.results)
        for jump in _jumps(op, terminator):
            layouts = [
                self.layouts[v] if a is None else self.join(r.type, a, self.layouts[v])
                for r, a, v in zip(op.results, layouts, jump.operands)
            ]
        for result, layout in zip(op.results, layouts):
            self.layouts[result] = layout if layout is not None else self.default(result.type)

    def join(self, type: Any, a: LinearLayout | None, b: LinearLayout | None) -> LinearLayout | None:
        """A layout that can hold what comes in either: not invariant where one is not."""
        if a is None or b is None or a is b:
            return a
        inv = a.inv & b.inv
        if a.inv == inv and (a in self.anchored or b.inv != inv or b not in self.anchored):
            return a
        if b.inv == inv:
            return b
        plain = self.default(type)
        assert plain is not None
        return with_inv(plain, inv)

    # ---- rules
    def plan(self, op: Op) -> tuple[list[LinearLayout | None], list[LinearLayout | None]]:
        """(wanted operand layouts, result layouts)."""
        rule = _RULES.get(op.spec.name)
        if rule is not None:
            return rule(self, op)
        return self.follow(op)

    def follow(self, op: Op) -> tuple[list[LinearLayout | None], list[LinearLayout | None]]:
        """Elementwise: the best operand layout for all operands and results of its shape."""
        tiles = [v for v in op.operands if isinstance(v.type, TensorType)]
        results = [r for r in op.results if isinstance(r.type, TensorType)]
        shape = (results or tiles)[0].type.shape if (results or tiles) else None  # type: ignore[attr-defined]
        best = self.best(tiles) if shape else splat(0, self.log2_warps)
        if best is None:
            best = self.default((results or tiles)[0].type)
        if results and results[0] in self.steered and best is not None and not best.is_splat:
            best = with_inv(self.steered[results[0]], best.inv)
        return (
            [best if isinstance(v.type, TensorType) else None for v in op.operands],
            [best if isinstance(r.type, TensorType) else None for r in op.results],
        )

    def best(self, tiles: list[Value]) -> LinearLayout | None:
        layouts = [self.layouts[v] for v in tiles]
        if not layouts:
            return None
        inv = layouts[0].inv  # type: ignore[union-attr]
        for layout in layouts[1:]:
            inv &= layout.inv  # type: ignore[union-attr]
        ranked = []
        for i, (value, layout) in enumerate(zip(tiles, layouts)):
            assert layout is not None
            if layout.inv == inv:
                ranked.append((layout not in self.anchored, self.is_cheap(value) > 0, i, layout))
        if ranked:
            return min(ranked, key=lambda r: r[:3])[3]
        plain = self.default(tiles[0].type)
        assert plain is not None
        return with_inv(plain, inv)

    # ---- helpers for rules
    def memory_layout(self, op: Op, shape: tuple[int, ...]) -> LinearLayout:
        """Coalesced along the unit-stride dimension of the view, or the one along which pointers count up."""
        unit, _ = self.facts.view_vector(op) if "view" in op.spec.operand_index else self.pointer_vector(op)
        order = list(reversed(range(len(shape))))
        if unit >= 0:
            order.remove(unit)
            order.insert(0, unit)
        width = self.vector_of(shape, self.vectors.get(shape))
        layout = blocked(shape, order, width, self.log2_warps)
        return within_warps(layout, self.reduced[shape], width) if shape in self.reduced else layout

    def store_layout(self, op: Op, value: Value, have: LinearLayout) -> LinearLayout:
        """What the value has, unless neighbouring lanes would write far apart in a tile worth moving."""
        shape = value.type.shape  # type: ignore[attr-defined]
        if not shape:
            return have
        unit, _ = self.facts.view_vector(op)
        want = self.memory_layout(op, shape)
        if self.is_cheap(value):
            return want
        if unit < 0 or have.bits < CostModel.log2_small_tile or have.inv:
            return have if not have.inv else want
        if have.bits >= CostModel.log2_whole_rows and value.type.elem.bits == 16 and whole_rows(have, want):  # type: ignore[attr-defined]
            return want
        low, count = dim_bits(shape)[unit]
        rows = self.products.in_tensor_memory and not any(c >> low & (1 << count) - 1 for c in have.lane)
        if rows and have.bits >= CostModel.log2_whole_rows:
            return want  # a row a thread, as sums come from tensor memory: every lane would write to lines of its own
        if self.products.in_tensor_memory and 1 << low not in have.reg:
            return want  # a column a thread, where few rows were turned: one element at a time
        near = len(
            [
                c
                for c in (*have.reg, *have.lane)
                if 0 < c >> low < 1 << CostModel.near_bits and c & ((1 << low) - 1) == 0
            ]
        )
        enough = min(CostModel.enough_near, count)
        return have if near >= enough else want


def _jumps(op: Op, name: str) -> list[Op]:
    """The terminators of this op with a name: through nested `if` regions for early exits, never into inner loops."""
    found = []

    def visit(block: Block) -> None:
        for inner in block.ops:
            if inner.spec.name == name:
                found.append(inner)
            elif inner.spec.name == "if" and op.spec.name != "if":
                for region in inner.regions:
                    for b in region.blocks:
                        visit(b)

    for region in op.regions:
        for block in region.blocks:
            visit(block)
    return found


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
    layout = beside(op, inf.layouts.get)
    if layout is None or layout in inf.anchored:
        layout = inf.memory_layout(op, op.results[0].type.shape)  # type: ignore[attr-defined]
    return _view_operands(inf, op, layout), [layout, None]


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
    if shape and (inf.is_cheap(source) or inf.layouts[source].inv):  # type: ignore[union-attr]
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
    result = reduced(layout, op.operands[0].type.shape, op.attr("dim"))  # type: ignore[attr-defined]
    return [layout] * len(op.operands), [result] * len(op.results)


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
    return [small, small], [embedded(small, inner, outer)]


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


_RULES: dict[str, Any] = {
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
