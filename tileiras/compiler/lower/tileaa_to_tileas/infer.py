"""Layout inference: the rule of an op (rules.py) says what it wants of its operands and what its results get.

`Inference.plan(op)` returns (wanted operand layouts, result layouts); None where an operand has no layout
(views, tokens) or any layout will do. Memory ops and matrix products are anchors; everything else follows its
operands. Values that cost nothing to compute again (iota, constants and cheap integer arithmetic on them)
never decide a layout.
"""

from __future__ import annotations

from tileiras.compiler.ir.types import GatherScatterView, TensorType
from tileiras.compiler.layout.linear import (
    LinearLayout,
    blocked,
    dim_bits,
    log2,
    permuted,
    splat,
    with_inv,
)  # fmt: skip
from tileiras.compiler.layout.matrices import whole_rows
from tileiras.compiler.passes.tileaa.facts import facts_of
from tileiras.compiler.schedule.candidates import is_index
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.products import PRODUCTS

from .rows import before_broadcast, behind, reduced_bits, within_warps
from .rules import RULES, project

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


class NoProducts:
    """What `ProductLayouts` says of a function without products."""

    of_warpgroups: dict[Op, Any] = {}
    in_tensor_memory: Any = {}
    copied: dict[Op, Any] = {}

    @staticmethod
    def joined(op: Op) -> None:
        """No reduction joins parts of one."""


def _products(func: Op, analyses: Analyses, log2_warps: int) -> Any:
    """How the products of a function lie; what chooses that is loaded for functions that have some."""
    if all(op.spec.name not in PRODUCTS for op in func.walk()):
        return NoProducts
    from tileiras.compiler.schedule.product_layouts import ProductLayouts

    return ProductLayouts(func, analyses, log2_warps)


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
        self.products = _products(func, analyses, self.log2_warps)
        self.steered = self._addresses()
        for op in self.products.in_tensor_memory:
            self._beside(op)
        for op in self.products.of_warpgroups:
            self._fragment(op)
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

    def expected(self, shape: tuple[int, ...]) -> LinearLayout | None:
        """Where tiles of a shape will lie that memory ops move: None where products decide it."""
        if self.products is not NoProducts or shape not in self.vectors:
            return None
        return self.coalesced(shape, list(reversed(range(len(shape)))))

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
        of the copying threads. Rows that a list names, which are loaded an iteration ahead, lie where these broadcast them."""
        found: dict[Value, LinearLayout] = {}
        for op, plan in self.products.copied.items():
            layout = plan.laid_out(self.log2_warps)
            if op.spec.name != "load_ptr_tko":
                view: Any = op.operand("view").type  # type: ignore[union-attr]
                if isinstance(view, GatherScatterView):
                    rows = op.group("index")[view.sparse_dim]
                    self._listed(rows, op, project(layout, dim_bits(view.tile)[view.sparse_dim]), found)
                continue
            work = [v for v in (op.operand("source"), op.operand("mask")) if v is not None]
            shape = work[0].type.shape  # type: ignore[attr-defined]
            while work:
                value = work.pop()
                if value in found or getattr(value.type, "shape", ()) != shape:
                    continue
                maker = value.op
                if maker is None or maker.spec.name not in RULES and maker.spec.is_pure and not maker.regions:
                    found[value] = layout
                    work += maker.operands if maker is not None else ()
                elif maker.spec.name == "broadcast":
                    rows = maker.operands[0]
                    self._listed(rows, op, before_broadcast(layout, rows.type.shape, shape), found)  # type: ignore[attr-defined]
        return found

    @staticmethod
    def _listed(rows: Value, op: Op, layout: LinearLayout, found: dict[Value, LinearLayout]) -> None:
        """Adds what the rows of a load are computed from, where that is loaded an iteration ahead."""
        loads, values = behind(rows)
        if op.parent is not None and loads:
            if all(each.block is op.block and is_index(each, op.parent) for each in loads):
                found.update((v, layout) for v in values if v not in found)

    def _beside(self, product: Op) -> None:
        """What is computed from rows and columns to meet a product's result, as factors that fade: it lies as the result does."""
        form = self.products.of(product)
        if form is None:
            return
        shape = product.result.type.shape  # type: ignore[attr-defined]
        work, met = [product.result], {product.result}
        while work:
            for user, _ in work.pop().uses:
                if user.block is not product.block or not _is_elementwise(user):
                    continue
                others = [v for v in user.operands if v not in met and getattr(v.type, "shape", ()) == shape]
                for other in others:
                    for value in _from_rows_and_columns(other, product.block):
                        self.steered.setdefault(value, form[1])
                for result in user.results:
                    if result not in met and getattr(result.type, "shape", ()) == shape:
                        met.add(result)
                        work.append(result)

    def _fragment(self, product: Op) -> None:
        """What a left operand that stays in registers is computed from, element by element, out of a stage that has no place
        for it: the stage is read as the fragment wants it."""
        from tileiras.compiler.schedule.restage import outgrows_stage

        form = self.products.of(product)
        assert form is not None
        for which, operand in enumerate(product.operands[:2]):
            bits, back = operand.type.elem.bits, which in self.products.of_warpgroups[product]  # type: ignore[attr-defined]
            if which == 0 and bits == 16:
                steers = outgrows_stage(operand, product.block)
            else:
                steers = (back or bits == 32 and which == 0) and self._read_several_times(
                    operand, which, product
                )
            if steers:
                self._steer(operand, form[0][which], product)

    def _read_several_times(self, operand: Value, which: int, product: Op) -> bool:
        """Whether an operand is computed, element by element, from tiles that go to shared memory, of which others are computed,
        too, all of them operands of the same side: high and low parts of one tile."""
        work, seen, shared, computed = [operand], {operand}, False, False
        while work:
            value = work.pop()
            op = value.op
            if op is None or op.block is not product.block or len(seen) > CHEAP_HEIGHT:
                return False
            shared = shared or len(value.uses) > 1
            near: list[Value] = []
            for user, number in value.uses:
                if user.spec.name in PRODUCTS:
                    if number != which or user not in self.products.of_warpgroups:
                        return False
                elif _keeps_elements(user) and user.block is product.block:
                    near += user.results
                else:
                    return False
            if op not in self.products.copied:
                tiles = [v for v in op.operands if v.op is None or v.op.spec.name not in _SPREAD]
                if not _keeps_elements(op) or not tiles:
                    return False
                computed = computed or _is_elementwise(op)
                near += tiles
            work += [v for v in near if v not in seen]
            seen.update(near)
        return shared and computed

    def _steer(self, operand: Value, layout: LinearLayout, product: Op) -> None:
        """What an operand is computed from, element by element, has a layout."""
        work: list[tuple[Value, LinearLayout]] = [(operand, layout)]
        while work:
            value, layout = work.pop()
            op = value.op
            if op is None or op.block is not product.block:
                continue
            if op.spec.name == "permute":
                order = op.attr("permutation")
                shape = value.type.shape  # type: ignore[attr-defined]
                layout = permuted(layout, shape, [order.index(k) for k in range(len(order))])
                work.append((op.operands[0], layout))
            elif op.spec.name == "reshape":
                work.append((op.operands[0], layout))
            elif _is_elementwise(op):
                self.steered[value] = layout
                work += [(v, layout) for v in op.operands if getattr(v.type, "shape", ()) == value.type.shape]  # type: ignore[attr-defined]

    def _loop(self, op: Op, body: Block, args: Any, inits: Any, results: Any) -> None:
        own = self._sums(op)
        current = [
            self.steered.get(a) or own.get(n) or self.layouts[v] for n, (a, v) in enumerate(zip(args, inits))
        ]
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

    def _sums(self, loop: Op) -> dict[int, LinearLayout]:
        """The carried values that a loop's products add up in, by number: where they begin with another product's result, its
        fragments would else be theirs, and sums change their layout twice in each step."""
        jumps = _jumps(loop, "continue")
        if self.products is NoProducts or len(jumps) != 1:
            return {}
        found = {}
        for number, value in enumerate(jumps[0].operands):
            if value.op is not None and value.op.spec.name in PRODUCTS:
                form = self.products.of(value.op)
                if form is not None:
                    found[number] = form[1]
        return found

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
        rule = RULES.get(op.spec.name)
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
        return self.coalesced(shape, order)

    def coalesced(self, shape: tuple[int, ...], order: list[int]) -> LinearLayout:
        """As wide vectors as memory ops on the shape may have, along the first dimension of an order."""
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
            grouped = self.products.of_warpgroups
            return have if grouped and self.products.leaves_in_fragments(op) else want
        low, count = dim_bits(shape)[unit]
        rows = self.products.in_tensor_memory and not any(c >> low & (1 << count) - 1 for c in have.lane)
        if rows and self.products.leaves_in_rows(op):
            return have
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


_SPREAD = frozenset(("constant", "iota", "broadcast"))


def _keeps_elements(op: Op) -> bool:
    """Whether an op computes or renames one tile, element by element."""
    return op.spec.name in ("permute", "reshape") or _is_elementwise(op)


def _is_elementwise(op: Op) -> bool:
    return op.spec.name not in RULES and op.spec.is_pure and not op.regions


def _from_rows_and_columns(value: Value, block: Any) -> list[Value]:
    """The values of its shape that one is computed from element by element, in a block; none where one of them is loaded, or
    comes from elsewhere."""
    shape = value.type.shape  # type: ignore[attr-defined]
    found: dict[Value, None] = {}
    work = [value]
    while work:
        value = work.pop()
        op = value.op
        if value in found or getattr(value.type, "shape", ()) != shape:
            continue
        if op is None or not _is_elementwise(op):
            if op is not None and op.spec.name in ("broadcast", "constant", "iota"):
                continue
            return []
        if op.block is block:
            found[value] = None
        work += op.operands
    return list(found)


def _jumps(op: Op, name: str) -> list[Op]:
    """The terminators of this op with a name: through nested `if` regions for early exits, never into inner loops."""
    found = []
    rest = [iter([op])]  # of each level, the ops that are still to be looked at
    while rest:
        for inner in rest[-1]:
            if inner.spec.name == name:
                found.append(inner)
            elif inner is op or inner.spec.name == "if" and op.spec.name != "if":
                rest.append(each for region in inner.regions for block in region.blocks for each in block.ops)
                break
        else:
            rest.pop()
    return found
