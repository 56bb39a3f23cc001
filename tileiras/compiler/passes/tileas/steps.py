"""Queues of small slots (`schedule/steps.py`), as LowerPipelines turns them into copies, groups and barriers.

    for .. {                                             for .. iter(%take = 0, %put = ahead * piece) {
      produce_one %k { .. }                                async.wait_group {pending = ahead - 1}
      produce_one %v { .. }                                barrier
      %a = consume_one %k                                  async.copy_view %buffer, %put, .. {part = ..}    (`ahead` steps later)
      %s = mmaf %q, %a, %z                                 async.commit_group
      ..                                                   %a = load_shared %buffer, %take
      %b = consume_one %v                                  %q0 = a part of %q: columns
      %o = mmaf %p, %b, %sum                               %s0 = mmaf %q0, %a, %z
    }                                                      ..   the next step: %take and %put go on by a slot
                                                           %b = load_shared %buffer, %take
                                                           %o0 = extract %sum                               (its columns)
                                                           %o1 = mmaf %p, %b, %o0
                                                           %o = insert %o1, %sum
                                                         }

Steps of which some belong to the next iteration have two producers: what they copy of this one, and what of that.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.core import Op, Value
from tileiras.compiler.ir.types import TensorType
from tileiras.compiler.ir.walk import erase_unused
from tileiras.compiler.layout.linear import LinearLayout, dim_bits, remap_bits

from .queue import QueueChannel
from .slice_products import Slicer, may_go

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.passes import Context


class StepChannel(QueueChannel):
    """One queue of small slots."""

    def __init__(self, loop: Op, creates: list[Op], context: Context) -> None:
        super().__init__(loop, creates, context)
        self.parts = 1
        counts = [group[0].attrs["parts"] for group in self.groups]
        self.steps = [(n, part) for n, count in enumerate(counts) for part in range(count)]

    def lower(self) -> None:
        loop, body = self.loop, self.body
        assert loop.block is not None
        before = {c: self.producers(c, loop.block) for c in self.creates}
        inside = {c: self.producers(c, body) for c in self.creates}
        if any(len(before[c]) != c.attrs["depth"] - 1 for c in self.creates):
            return super().lower()  # D11 left the loop as it was
        for create in self.creates:  # each part has the whole slot
            places = in_slot(create.attrs["arrangement"], create.attrs["part_mask"])
            create.attrs = {**create.attrs, "arrangement": places}
        self.open([op for made in before.values() for op in made])
        for t, (n, part) in enumerate(self.steps[: self.ahead]):
            slot = self.number(loop, t * self.piece)
            for create in self.groups[n]:
                self.copy_part(create, before[create][0], slot, loop, part)
            self.make(loop, tileas.COMMIT_GROUP)
        users = self.read_at_products()
        take, put = self.carried()
        following = self.ahead
        for product, group in zip(users, self.groups):
            count = group[0].attrs["parts"]
            columns = Columns(self, product) if "columns" in group[0].attrs else None
            slices = None
            if count > 1 and columns is None:
                slices = Slicer(product, product.operands[0].type.shape[-1] // count, self.context)  # type: ignore[attr-defined]
            acc = product.operands[2]
            for part in range(count):
                self.make(product, tileas.WAIT_GROUP, attrs={"pending": self.ahead - 1})
                self.make(product, tileas.BARRIER)
                n, later = self.steps[following % len(self.steps)]
                for create in self.groups[n]:
                    made = inside[create]  # for this iteration and for the next one, or one of them
                    which = len(made) > 1 and following >= len(self.steps)
                    self.copy_part(create, made[which], put, product, later)
                self.make(product, tileas.COMMIT_GROUP)
                if columns is not None:
                    columns.multiply(part, take)
                else:
                    acc = self.multiply(product, slices, acc, part, take)
                put, take = take, self.next_slot(product, take)
                following += 1
            if count > 1:
                sides = list(product.operands[:2])
                product.result.replace_all_uses_with(columns.whole() if columns is not None else acc)
                product.erase()
                for value in sides:
                    erase_unused(value.op, may_go)
        self.end(take, put, [op for made in (before, inside) for ops in made.values() for op in ops])


class Columns:
    """A product whose columns are taken in parts: the sum stays where it is, and each step adds to some of its registers."""

    def __init__(self, channel: StepChannel, product: Op) -> None:
        self.channel = channel
        self.product = product
        right = channel.chain(product.operands[1])
        assert len(right) == 1, "the right operand is read as it was copied"
        self.load = right[0]
        tile: Any = self.load.results[0].type
        columns = self.load.attrs["arrangement"]
        _, count = dim_bits(tile.shape)[-1]
        self.bits = [k for k in range(count) if not columns[k]]
        self.sum = self.reshape(product.operands[2], self.apart(product.result.type))

    def apart(self, type: Any) -> tuple[int, ...]:
        """The shape of a tile whose columns stand apart by what numbers the parts."""
        *rows, n = type.shape
        low = 1 << self.bits[0]
        return (*rows, n >> self.bits[-1] + 1, 1 << len(self.bits), low)

    def reshape(self, value: Value, shape: tuple[int, ...]) -> Value:
        type: Any = value.type
        return self.channel.make(
            self.product, tileas.BY_NAME["reshape"], (value,), (TensorType(type.elem, shape, type.layout),)
        ).result

    def multiply(self, part: int, take: Value) -> None:
        """One step: the columns whose number has `part` in its bits."""
        channel, product = self.channel, self.product
        by_name: Any = tileas.BY_NAME
        tile: Any = self.load.results[0].type
        columns = self.load.attrs["arrangement"]
        attrs = {name: v for name, v in self.load.attrs.items() if name != "within"}
        attrs["arrangement"] = tuple(c for k, c in enumerate(columns) if k not in self.bits)
        small = TensorType(
            tile.elem, (*tile.shape[:-1], tile.shape[-1] >> len(self.bits)), without(tile.layout, self.bits)
        )
        right = channel.make(
            product, tileas.LOAD_SHARED, (self.load.operands[0], take), (small,), attrs
        ).result
        type: Any = product.result.type
        layout = without(type.layout, self.bits)
        shape = self.sum.type.shape  # type: ignore[attr-defined]
        block = TensorType(type.elem, (*shape[:-2], 1, shape[-1]), layout)
        at = [channel.number(product, part if d == len(shape) - 2 else 0) for d in range(len(shape))]
        old = channel.make(product, by_name["extract"], (self.sum, at), (block,)).result
        acc = self.reshape(old, (*type.shape[:-1], type.shape[-1] >> len(self.bits)))
        made = channel.make(
            product, product.spec, (product.operands[0], right, acc), (acc.type,), dict(product.attrs)
        )
        made.loc = product.loc
        new = self.reshape(made.result, block.shape)
        whole = TensorType(type.elem, shape, type.layout)  # the sum may begin with one number for all
        self.sum = channel.make(product, by_name["insert"], (new, self.sum, at), (whole,)).result

    def whole(self) -> Value:
        """The sum of all steps."""
        return self.reshape(self.sum, self.product.result.type.shape)  # type: ignore[attr-defined]


def in_slot(arrangement: tuple[int, ...], mask: int) -> tuple[int, ...]:
    """Where the elements of each part lie."""
    return tuple(0 if mask >> k & 1 else column for k, column in enumerate(arrangement))


def without(layout: LinearLayout, bits: list[int]) -> LinearLayout:
    """The layout of elements whose index has the same in some bits, which are registers'."""
    kept = [k for k in range(layout.bits) if k not in bits]
    moved = [-1] * layout.bits
    for place, bit in enumerate(kept):
        moved[bit] = place
    out = remap_bits(layout, moved, len(kept))
    return LinearLayout(out.bits, [c for c in out.reg if c], out.lane, out.warp, out.inv)
