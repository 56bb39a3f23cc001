"""Operands of products that are computed from several loads, or unpacked: the whole chain in the layout that is wanted.

Before: `%w = load : 128x32xi8`, `%l = andi %w, 15`, `%h = shri %w, 4`, `%p = cat %l, %h`, .., `%z = convert_layout %p`.
After:  `%w = load`, `%v = convert_layout %w`, `%l = andi %v, 15`, `%h = shri %v, 4`, `%z = cat %l, %h`: what travels are the
packed bytes, and they may travel by an asynchronous copy. Small loads, a scale a row, are loaded where they are used.

What small loads are spread over, `%z = convert_layout (broadcast (andi %zeros, 15))`, is computed as it is wanted: zero points
of columns, or what was loaded of them, in the place of all that they are spread over.

Operands of mma.sync that are masked, `%m = select %below, %w, 0`, are masked in their fragments: what a mask is computed from,
numbers of rows and columns, is computed again there.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.core import Op, Value
from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.ir.types import TensorType
from tileiras.compiler.ir.walk import parts_first
from tileiras.compiler.layout.linear import dim_bits, halved, log2, unbroadcasted, unpermuted, with_inv
from tileiras.compiler.schedule.exchange import conversion
from tileiras.compiler.schedule.staging import is_elementwise, is_small
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.products import PRODUCTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.rewrite import Rewriter
    from tileiras.compiler.layout.linear import LinearLayout

LOAD = "load_view_tko"


class Recompute:
    """The chain in front of one conversion: first whether it can be had in the wanted layout, then that."""

    def __init__(self, convert: Op) -> None:
        self.body = convert.block
        self.convert = convert
        self.layout: LinearLayout = convert.result.type.layout  # type: ignore[attr-defined]
        self.visited: set[Op] = {convert}
        self.places: set[tuple[Value, LinearLayout]] = set()  # values on the way, as they are wanted
        self.loads: dict[Op, list[LinearLayout]] = {}
        self.packed = False  # some load brings fewer bits than it makes
        self.masks = 0  # ops on as many elements that need no load
        self.made: dict[tuple[Value, LinearLayout], Value] = {}

    def worth(self) -> bool:
        """Whether all of it comes from loads of the same block, bytes that were packed together among them, and nobody
        else looks at what is between."""
        type: Any = self.convert.result.type
        if not self.reaches(self.convert.operands[0], self.layout):
            return False
        fragments = all(
            u.spec.name in PRODUCTS and "atom" not in u.attrs for u, _ in self.convert.result.uses
        )
        path = self.on_path()
        self.masks = sum(
            is_elementwise(op) and op not in path and op.results[0].type.shape == type.shape  # type: ignore[attr-defined]
            for op in self.visited
        )
        masked = fragments and 0 < self.masks <= CostModel.mask_operations
        if not self.packed and not masked:
            return False
        total = num_elements(type.shape) * type.elem.bits
        moved = 0
        for op, layouts in self.loads.items():
            if not self.fits(op):
                if len(set(layouts)) > 1:
                    return False
                loaded: Any = op.results[0].type
                moved += num_elements(loaded.shape) * loaded.elem.bits
        inside = all(u in self.visited for op in path for u, _ in op.results[0].uses)
        return inside and 0 < moved and (moved < total or masked and moved == total)

    def on_path(self) -> set[Op]:
        """The ops between the loads and the conversion, with the loads."""
        found = set(self.loads)
        work = list(self.loads)
        while work:
            for user, _ in work.pop().results[0].uses:
                if user in self.visited and user not in found and user is not self.convert:
                    found.add(user)
                    work.append(user)
        return found

    def fits(self, op: Op) -> bool:
        """Whether a load is small beside the operand."""
        return is_small(op, self.convert.result)

    def reaches(self, value: Value, layout: LinearLayout) -> bool:
        work = [(value, layout)]
        seen = self.places
        seen.add((value, layout))
        while work:
            value, layout = work.pop()
            op = value.op
            if self.anywhere(value):
                continue
            if op is None or op.spec.name == "constant" or op.block is not self.body and not self.counted(op):
                return False
            self.visited.add(op)
            if op.spec.name == LOAD:
                self.loads.setdefault(op, []).append(layout)
                if op.results[0].type.layout.inv:  # type: ignore[attr-defined]
                    return False
                continue
            wants = self.wanted(op, layout)
            if wants is None:
                return False
            parts = [part for part in zip(op.operands, wants) if part not in seen]
            seen.update(parts)
            work += reversed(parts)
        return True

    def counted(self, op: Op) -> bool:
        """Whether an op from outside of the block may be done again in it."""
        return False

    @staticmethod
    def anywhere(value: Value) -> bool:
        """Whether every thread has all of a value: a constant, a number."""
        return value.type.layout.is_splat  # type: ignore[attr-defined, no-any-return]

    def wanted(self, op: Op, layout: LinearLayout) -> list[LinearLayout] | None:
        """The layouts of the operands from which an op makes its result in `layout`; None where it is no such op."""
        name = op.spec.name
        if op.segments is not None and name != "convert_layout":
            return None
        if name == "iota":
            return []
        source: Any = op.operands[0].type if op.operands else None
        if name in ("reshape", "convert_layout"):
            return [layout]
        if name == "permute":
            return [unpermuted(layout, source.shape, op.attr("permutation"))]
        if name == "broadcast":
            return [unbroadcasted(layout, source.shape, op.result.type.shape)]  # type: ignore[attr-defined]
        if name == "cat":
            half = self.unpacked(op, layout)
            return None if half is None else [half, half]
        return [layout] * len(op.operands) if is_elementwise(op) else None

    def unpacked(self, op: Op, layout: LinearLayout) -> LinearLayout | None:
        """The layout of both operands of a `cat` of neighbours: enough bytes of a load lie side by side in a thread."""
        shape = op.result.type.shape  # type: ignore[attr-defined]
        dim = op.attr("dim")
        low, count = dim_bits(shape)[dim]
        near = [1 << k for k in range(1, 1 + CostModel.packed_neighbours)]
        if low or count != 1 or not all(c in layout.reg for c in near):
            return None
        self.packed = True
        return halved(layout, shape, dim)

    def build(self, rewriter: Rewriter) -> Value | None:
        """The value in the wanted layout; None as `Rewriter.create` has it."""
        return self.compute(self.convert.operands[0], self.layout, rewriter)

    def compute(self, value: Value, layout: LinearLayout, rewriter: Rewriter) -> Value | None:
        for part in parts_first([(value, layout)], self.parts):
            found = self.one(*part, rewriter)
            if found is None:
                return None
            self.made[part] = found
        return self.made[value, layout]

    def parts(self, place: tuple[Value, LinearLayout]) -> list[tuple[Value, LinearLayout]]:
        """What has to be computed before a value in a layout."""
        value, layout = place
        op = value.op
        if place in self.made or self.anywhere(value) or op is None or op.spec.name == LOAD:
            return []
        return list(zip(op.operands, self.wanted(op, layout) or ()))

    def one(self, value: Value, layout: LinearLayout, rewriter: Rewriter) -> Value | None:
        op = value.op
        assert op is not None
        name = op.spec.name
        old: Any = value.type
        if self.anywhere(value):
            return value
        found = self.made.get((value, layout))
        if found is not None:
            return found
        if name == "convert_layout":
            return self.made[op.operands[0], layout]
        type = TensorType(old.elem, old.shape, with_inv(layout, old.layout.inv))
        if name == LOAD:
            if self.fits(op) and len(set(self.loads[op])) == 1:
                op.results[0].type = type
                return value
            made = rewriter.create(tileas.CONVERT_LAYOUT, (value,), (type,))
        else:
            wants = self.wanted(op, layout)
            assert wants is not None
            operands = [self.made[part] for part in zip(op.operands, wants)]
            made = rewriter.create(op.spec, operands, (type,), dict(op.attrs))
        if made is None:
            return None
        made.loc = op.loc
        return made.result

    def erase(self) -> None:
        """What nobody needs any more goes."""
        for op in reversed([op for op in self.body.ops if op in self.visited]):  # type: ignore[union-attr]
            if op.spec.name != LOAD and not any(r.uses for r in op.results):
                op.erase()


class Spread(Recompute):
    """The chain in front of a conversion of what small loads are spread over, as zero points of columns that are unpacked: it is
    computed as it is wanted, so that nothing, or what was loaded alone, goes through shared memory."""

    def __init__(self, convert: Op, target: Any) -> None:
        super().__init__(convert)
        self.target = target

    def worth(self) -> bool:
        """Whether some tile is broadcast between loads of the same block and the conversion, less is loaded than was exchanged,
        nobody else looks at what is between, and threads do little more than they did."""
        type: Any = self.convert.result.type
        if not self.reaches(self.convert.operands[0], self.layout) or not self.loads:
            return False
        path = self.on_path()
        if not any(op.spec.name == "broadcast" for op in path):
            return False
        if not all(u in self.visited for op in path for u, _ in op.results[0].uses):
            return False
        total = num_elements(type.shape) * type.elem.bits
        moved = 0
        for op, layouts in self.loads.items():
            if len(set(layouts)) > 1 or not self.fits(op) and self.by_lanes(op, layouts[0]):
                return False
            loaded: Any = op.results[0].type
            moved += num_elements(loaded.shape) * loaded.elem.bits
        return moved < total and self.more() <= CostModel.spread_operations

    def by_lanes(self, load: Op, layout: LinearLayout) -> bool:
        """Whether what was loaded would go from lane to lane, a shuffle for each element."""
        old: Any = load.results[0].type
        wanted = TensorType(old.elem, old.shape, with_inv(layout, old.layout.inv))
        return conversion(old, wanted, self.target).get("plan") == "shuffle"

    def more(self) -> int:
        """How many more elements threads compute than they did. What is made of their numbers, and is the same in every thread,
        is known before: shifts by which words are unpacked."""
        more = 0
        for value, layout in self.places:
            op = value.op
            if op is not None and is_elementwise(op):
                if not any((*layout.lane, *layout.warp)) and self.counted(op):
                    continue
                old: Any = value.type
                before = old.layout.num_regs if op.block is self.body else 0
                more += max(0, with_inv(layout, old.layout.inv).num_regs - before)
        return more

    def counted(self, op: Op) -> bool:
        """Numbers of elements, and what is computed of them alone."""
        work = [op]
        while work:
            op = work.pop()
            if op.spec.name not in ("iota", "reshape", "broadcast", "permute") and not is_elementwise(op):
                return False
            for value in op.operands:
                if not self.anywhere(value):
                    if value.op is None:
                        return False
                    work.append(value.op)
        return True

    def fits(self, op: Op) -> bool:
        """Whether threads load the little that they want of a small load."""
        (layout,) = set(self.loads[op])
        loaded: Any = op.results[0].type
        wanted = with_inv(layout, loaded.layout.inv)
        words = wanted.num_regs
        if all(1 << k in wanted.reg for k in range(log2(words))):  # side by side: as many as a vector brings
            words = words * max(8, loaded.elem.bits) // 32
        return super().fits(op) and words <= CostModel.spread_words
