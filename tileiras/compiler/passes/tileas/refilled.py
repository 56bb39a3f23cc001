"""A stage that is filled again part by part (`schedule/refilled.py`): copies, groups and barriers, as LowerPipelines makes them.

                                                         async.copy_view %buffer, ..   (each part of the first iteration)
                                                         async.commit_group
    for .. {                                             for .. {
      produce_one %k { .. }                                async.wait_group {pending = 1}
      produce_one %v { .. }                                barrier
      %a = consume_one %k                                  %a = load_shared %buffer
      %s = mmaf %q, %a                                     %s = mmaf %q, %a
      ..                                                   barrier
      %b = consume_one %v                                  async.copy_view %buffer, ..   (%k of the next iteration)
      %o = mmaf %p, %b                                     async.commit_group
    }                                                      ..   the same for %v
                                                         }

The first barrier of a part says that it has landed for every warp, the second one that every warp has read it.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.dialects.nv_tileas.types import SHARED
from tileiras.compiler.schedule.refilled import left_under_way, taken_by
from tileiras.compiler.target.products import PRODUCTS

from .channels import CONSUME, Channel
from .hoist_conversions import end_of_buffers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op


class RefilledChannel(Channel):
    """One stage."""

    def lower(self) -> None:
        loop, body = self.loop, self.body
        assert loop.block is not None
        before = {c: self.producers(c, loop.block) for c in self.creates}
        inside = {c: self.producers(c, body)[0] for c in self.creates}
        if not all(len(made) == 1 for made in before.values()):
            return super().lower()  # D11 left the loop as it was
        self.starts = {c: c.attrs["start"] for c in self.creates}
        attrs = {"bytes": self.stage_bytes, "offset": end_of_buffers(loop)}
        made = [op for ops in before.values() for op in ops]
        first = next(op for op in loop.block.ops if op in made or op is loop)
        self.buffer = self.make(first, tileas.ALLOC_SHARED, (), (SHARED,), attrs).result
        parts = self.parts()
        for part, _, _ in parts:
            zero = self.number(loop, 0)
            for create in part:
                self.copy(create, before[create][0], zero, loop)
            self.make(loop, tileas.COMMIT_GROUP)
        place = {op: n for n, op in enumerate(body.ops)}
        pending = left_under_way([(place[start], place[end]) for _, start, end in parts])
        for (part, start, end), left in zip(parts, pending):
            self.make(start, tileas.WAIT_GROUP, attrs={"pending": left})
            self.make(start, tileas.BARRIER)
            behind = body.ops[body.ops.index(end) + 1]
            self.make(behind, tileas.BARRIER)
            zero = self.number(behind, 0)
            for create in part:
                self.copy(create, inside[create], zero, behind)
            self.make(behind, tileas.COMMIT_GROUP)
        for op in (*made, *inside.values(), *self.creates):
            op.erase()
        self.close()

    def parts(self) -> list[tuple[list[Op], Op, Op]]:
        """(pipelines, where an iteration reads them first, and last) of each part, in the order in which they are filled again.
        Every use of the stage reads it from shared memory then."""
        body = self.body
        zero = self.number(body.ops[0], 0)
        groups: dict[int, tuple[list[Op], list[Op]]] = {}
        for create in self.creates:
            consumer = next(op for op, _ in create.result.uses if op.spec is CONSUME)
            known = set(body.ops)
            for result in consumer.results:
                self.read(result, create.attrs["arrangement"], self.starts[create], zero, consumer)
            consumer.erase()
            pipelines, readers = groups.setdefault(create.attrs["part"], ([], []))
            pipelines.append(create)
            readers += [op for op in body.ops if op not in known and op.spec is tileas.LOAD_SHARED]
        for product in [op for op in body.ops if op.spec.name in PRODUCTS]:
            for value in product.operands[:2]:  # what the product alone reads is waited for in front of it
                load: Any = value.op
                if load is not None and load.spec is tileas.LOAD_SHARED and len(value.uses) == 1:
                    if load.operands[0] is self.buffer:
                        self.move(load, product)
        place = {op: n for n, op in enumerate(body.ops)}
        found = []
        for pipelines, readers in groups.values():
            takers = [p for op in readers for p in taken_by(op.result) if p.block is body]
            found.append(
                (
                    pipelines,
                    min(readers, key=place.__getitem__),
                    max((*readers, *takers), key=place.__getitem__),
                )
            )
        return sorted(found, key=lambda part: place[part[2]])
