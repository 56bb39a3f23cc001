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

The first barrier of a part says that it has landed for every warp, the second one that every warp has read it. Where one part
is waited for soon after another was read, one barrier says both.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.dialects.nv_tileas.types import SHARED
from tileiras.compiler.schedule.interval import FUNCTIONS
from tileiras.compiler.schedule.refilled import left_under_way, taken_by
from tileiras.compiler.target.products import PRODUCTS

from .channels import CONSUME, Channel
from .hoist_conversions import end_of_buffers
from .warpgroup_products import reads_shared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op


class Meeting:
    """A barrier of an iteration: the op in front of which it stands, by number, how many groups a wait in front of it leaves
    under way, and the parts that are filled behind it."""

    __slots__ = ("at", "filled", "pending")

    def __init__(self, at: int) -> None:
        self.at = at
        self.filled: list[int] = []
        self.pending: int | None = None

    def join(self, at: int, part: int, pending: int | None) -> None:
        """A part is waited for here, or filled."""
        if self.pending is None:
            self.at = at
        if pending is None:
            self.filled.append(part)
        else:
            left = pending - len(self.filled)  # these are committed behind the wait
            self.pending = left if self.pending is None else min(left, self.pending)


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
        anchors = {meeting: body.ops[meeting.at] for meeting in self.meetings(parts)}
        for meeting, anchor in anchors.items():
            if meeting.pending is not None:
                self.make(anchor, tileas.WAIT_GROUP, attrs={"pending": meeting.pending})
            self.make(anchor, tileas.BARRIER)
            zero = self.number(anchor, 0)
            for number in meeting.filled:
                for create in parts[number][0]:
                    self.copy(create, inside[create], zero, anchor)
                self.make(anchor, tileas.COMMIT_GROUP)
        for op in (*made, *inside.values(), *self.creates):
            op.erase()
        self.close()

    def meetings(self, parts: list[tuple[list[Op], Op, Op]]) -> list[Meeting]:
        """Where warps meet in an iteration, in order: in front of what reads a part first, and behind what reads it last."""
        place = {op: n for n, op in enumerate(self.body.ops)}
        pending = left_under_way([(place[start], place[end]) for _, start, end in parts])
        events = [(place[end] + 1, False, n) for n, (_, _, end) in enumerate(parts)]
        events += [(place[start], True, n) for n, (_, start, _) in enumerate(parts)]
        out: list[Meeting] = []
        for at, waits, part in sorted(events):  # what was read is filled before what lands is waited for
            last = out[-1] if out else None
            if last is None or not self.may_join(last, at, pending[part] if waits else None):
                last = Meeting(at)
                out.append(last)
            last.join(at, part, pending[part] if waits else None)
        return out

    def may_join(self, last: Meeting, at: int, pending: int | None) -> bool:
        """Whether what happens at a place may happen at the meeting before it, or that one here: nothing of weight stands
        between, and a wait leaves something under way."""
        if last.pending is not None and pending is None and at > last.at:
            return False  # what has landed there is read here
        if pending is not None and pending - len(last.filled) < 1:
            return False
        return not any(has_weight(op) for op in self.body.ops[last.at : at])

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
            takers = [p for p in takers if not reads_shared(p) or takes_itself(p, readers)]
            found.append(
                (
                    pipelines,
                    min(readers, key=place.__getitem__),
                    max((*readers, *takers), key=place.__getitem__),
                )
            )
        return sorted(found, key=lambda part: place[part[2]])


def has_weight(op: Op) -> bool:
    """Whether an op takes a warp long: products, functions, what warps exchange, accesses to global memory."""
    name = op.spec.name
    if name in PRODUCTS or name in FUNCTIONS or name in ("reduce", "scan") or op.regions:
        return True
    if op.spec is tileas.CONVERT_LAYOUT:
        return any(user.spec.name not in PRODUCTS for user, _ in op.result.uses)
    return not (op.spec.is_pure or op.spec is tileas.LOAD_SHARED)


def takes_itself(product: Op, loads: list[Op]) -> bool:
    """Whether one of these loads is an operand of a product as it is."""
    return any(value.op in loads for value in product.operands[:2])
