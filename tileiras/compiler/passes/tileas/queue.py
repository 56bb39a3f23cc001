"""Pipelines that queue for products (`schedule/queue.py`), as LowerPipelines turns them into copies, groups and barriers.

    for .. {                                             for .. iter(%take = 0, %put = (slots - 1) * piece) {
      produce_one %k { .. }                                async.wait_group {pending = slots - 2}
      produce_one %v { .. }                                barrier
      %a = consume_one %k                                  async.copy_view %buffer, %put, ..   (what comes `ahead` products later)
      %s = mmaf %q, %a                                     async.commit_group
      ..                                                   %a = load_shared %buffer, %take
      %b = consume_one %v                                  %s = mmaf %q, %a
      %o = mmaf %p, %b                                     ..   the same for %v: %take and %put go on by a slot
    }                                                    }

The barrier of a step says that its own slot has landed for every warp, and that every warp has read the slot of the step
before, which the copies behind it fill. A product in parts is a chain of products over parts of K, a step each. Where several
products read one slot (`users`), the first of them has the wait, and the copies fill what the iteration before has read.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.dialects.nv_tileas.types import SHARED
from tileiras.compiler.ir.core import Op, Value
from tileiras.compiler.ir.types import I1
from tileiras.compiler.ir.walk import erase_unused
from tileiras.compiler.schedule.staging import is_elementwise
from tileiras.compiler.target.products import PRODUCTS

from .channels import CONSUME, Channel, NotVerified
from .hoist_conversions import end_of_buffers
from .slice_products import Slicer, may_go
from .staged_operands import moving

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.passes import Context


class QueueChannel(Channel):
    """One queue of slots."""

    def __init__(self, loop: Op, creates: list[Op], context: Context) -> None:
        super().__init__(loop, creates, context)
        attrs = creates[0].attrs
        self.products: int = attrs["products"]
        self.ahead: int = attrs["ahead"]
        self.parts: int = attrs["parts"]
        self.piece: int = attrs["piece"]
        self.groups = [[c for c in creates if c.attrs["product"] == n] for n in range(self.products)]
        self.held = self.products if "users" in attrs else 1
        self.early = (
            "early" in attrs
        )  # copies stand behind the product that has read their slot, not behind the next wait

    def lower(self) -> None:
        loop, body = self.loop, self.body
        assert loop.block is not None
        before = {c: self.producers(c, loop.block) for c in self.creates}
        inside = {c: self.producers(c, body)[0] for c in self.creates}
        if any(len(before[c]) != c.attrs["depth"] - 1 for c in self.creates):
            return super().lower()  # D11 left the loop as it was
        made = [op for ops in before.values() for op in ops]
        self.open(made)
        for n in range(self.ahead):
            for part in range(self.parts):
                slot = self.number(loop, (n * self.parts + part) * self.piece)
                for create in self.groups[n % self.products]:
                    self.copy_part(create, before[create][n // self.products], slot, loop, part)
                self.make(loop, tileas.COMMIT_GROUP)
        users = self.read_at_products()
        if self.held > 1:
            return self.share(users, inside, made)
        take, put = self.carried()
        last = max(self.body.ops.index(op) for op in inside.values())
        behind = self.body.ops[last + 1]  # where products have read the slot that is filled next
        for n, product in enumerate(users):
            following = self.groups[(n + self.ahead) % self.products]
            slices = None if self.parts == 1 else Slicer(product, self.depth_of(product), self.context)
            acc = product.operands[2]
            for part in range(self.parts):
                if not self.early:
                    self.make(product, tileas.WAIT_GROUP, attrs={"pending": self.slots - 2})
                    self.make(product, tileas.BARRIER)
                    behind = product
                for create in following:
                    self.copy_part(create, inside[create], put, behind, part)
                self.make(behind, tileas.COMMIT_GROUP)
                if self.early:
                    self.make(product, tileas.WAIT_GROUP, attrs={"pending": self.slots - 1})
                    self.make(product, tileas.BARRIER)
                    behind = self.body.ops[self.body.ops.index(product) + 1]
                acc = self.multiply(product, slices, acc, part, take)
                put, take = take, self.next_slot(product, take)
            if slices is not None:
                sides = list(product.operands[:2])
                product.result.replace_all_uses_with(acc)
                product.erase()
                for value in sides:
                    erase_unused(value.op, may_go)
        self.end(take, put, [*made, *inside.values()])

    def open(self, made: list[Op]) -> None:
        """The slots, in front of the producers that stand in front of the loop."""
        loop: Any = self.loop
        self.starts = {c: c.attrs["start"] for c in self.creates}
        self.slots = self.parts * self.ahead + self.held
        attrs = {"bytes": self.slots * self.piece, "offset": end_of_buffers(loop)}
        first = next(op for op in loop.block.ops if op in made or op is loop)
        self.buffer = self.make(first, tileas.ALLOC_SHARED, (), (SHARED,), attrs).result

    def share(self, users: list[Op], inside: dict[Op, Op], made: list[Op]) -> None:
        """Products that read one slot: its wait stands in front of the first of them."""
        take, put = self.carried()
        slots: dict[int, Value] = {}
        for n, product in enumerate(users):
            step = next(k for k, group in enumerate(self.groups) if n in group[0].attrs["users"])
            if step not in slots:
                self.make(product, tileas.WAIT_GROUP, attrs={"pending": self.ahead - 1})
                self.make(product, tileas.BARRIER)
                for create in self.groups[(step + self.ahead) % self.products]:
                    self.copy_part(create, inside[create], put, product, 0)
                self.make(product, tileas.COMMIT_GROUP)
                slots[step] = take
                take, put = self.next_slot(product, take), self.next_slot(product, put)
            self.multiply(product, None, product.operands[2], 0, slots[step])
        self.end(take, put, [*made, *inside.values()])

    def end(self, take: Value, put: Value, erased: list[Op]) -> None:
        """What the loop carries on, and what follows it."""
        loop = self.loop
        assert loop.block is not None
        self.carry_on(take, put)
        for op in (*erased, *self.creates):
            op.erase()
        self.close()

    def depth_of(self, product: Op) -> int:
        """Of K, in one part."""
        return int(product.operands[0].type.shape[-1]) // self.parts  # type: ignore[attr-defined]

    def copy_part(self, create: Op, produce: Op, slot: Value, anchor: Op, part: int) -> None:
        self.copy(create, produce, slot, anchor)
        mask: int = create.attrs["part_mask"]
        if not mask:
            return
        assert anchor.block is not None
        copy = anchor.block.ops[anchor.block.ops.index(anchor) - 1]
        columns = tuple(0 if mask >> k & 1 else c for k, c in enumerate(create.attrs["arrangement"]))
        value = part * (mask & -mask)
        copy.attrs = {**copy.attrs, "arrangement": columns, "part_mask": mask, "part": value}

    def read_at_products(self) -> list[Op]:
        """Every use of a slot reads it from shared memory; the products that do so, in order."""
        zero = self.number(self.body.ops[0], 0)
        for create in self.creates:
            consumer = next(op for op, _ in create.result.uses if op.spec is CONSUME)
            for result in consumer.results:
                self.read(result, create.attrs["arrangement"], self.starts[create], zero, consumer)
            consumer.erase()
        products = [op for op in self.body.ops if op.spec.name in PRODUCTS]
        return [op for op in products if any(self.chain(v) for v in op.operands[:2])]

    def multiply(self, product: Op, slices: Slicer | None, acc: Value, part: int, take: Value) -> Value:
        """The product of a part of K on what lies in a slot; a product that is no chain stays where it is."""
        sides = list(product.operands[:2])
        if slices is not None:
            sides = [slices.slice(v, len(v.type.shape) - 1 - which, part) for which, v in enumerate(sides)]  # type: ignore[attr-defined]
            if slices.failed:
                raise NotVerified
        for value in sides:
            chain = self.chain(value)
            if not chain:
                continue
            load = chain[-1]
            if slices is None and load.operands[1] is not take:  # one that products share is there already
                for op in reversed(chain):
                    self.move(op, product)
            load.set_operand(1, take)
            load.attrs = {
                name: v for name, v in load.attrs.items() if name != "within"
            }  # its part is the whole slot
        if slices is None:
            return product.result
        made = slices.make(product.spec, [*sides, acc], [product.result.type], dict(product.attrs))
        if made is None:
            raise NotVerified
        made.loc = product.loc
        return made.result

    def chain(self, value: Value) -> list[Op]:
        """The ops between an operand and the slot that it is read from, the load last; none for what lies elsewhere."""
        chain: list[Op] = []
        op = value.op
        while op is not None:
            chain.append(op)
            if op.spec is tileas.LOAD_SHARED:
                return chain if op.operands[0] is self.buffer else []
            tiles = moving(op)
            if not is_elementwise(op) or len(tiles) != 1:
                return []
            op = tiles[0].op
        return []

    # ---- slots
    def carried(self) -> tuple[Value, Value]:
        """Two more values that the loop carries: offsets of the slots that are read and written next."""
        from .lower_pipelines import add_operand

        loop, type, out = self.loop, self.scalar_type(), []
        for start in (0, self.parts * self.ahead * self.piece):
            add_operand(loop, self.number(loop, start))
            out.append(self.body.add_arg(type))
            loop.results.append(Value(type, loop, len(loop.results)))
        return out[0], out[1]

    def carry_on(self, take: Value, put: Value) -> None:
        from .lower_pipelines import add_operand

        for value in (take, put):
            add_operand(self.body.ops[-1], value)

    def next_slot(self, anchor: Op, slot: Value) -> Value:
        """The offset of the slot behind one, at the end the first."""
        by_name: Any = tileas.BY_NAME
        type, flag = self.scalar_type(), self.scalar_type(I1)
        piece, zero = self.number(anchor, self.piece), self.number(anchor, 0)
        end = self.number(anchor, self.slots * self.piece)
        more = self.make(anchor, by_name["addi"], (slot, piece), (type,), {"overflow": "none"}).result
        attrs = {"comparison_predicate": "equal", "signedness": "unsigned"}
        wraps = self.make(anchor, by_name["cmpi"], (more, end), (flag,), attrs).result
        return self.make(anchor, by_name["select"], (wraps, zero, more), (type,)).result
