"""Pipelines whose slots lie in shared memory, as LowerPipelines turns them into copies, groups and barriers.

All such pipelines of a loop share one ring of stages: one wait and one barrier an iteration serve them all. The barrier
says both that the stage about to be read has landed for every warp, and that every warp has read the stage that the
next copies overwrite.

    for .. {                                             for .. iter(%take = 0, %put = (n - 1) * stage) {
      produce_one %a { if %more { load .. } .. }           async.wait_group {pending = n - 2}
      produce_one %b { .. }                                barrier
      %x = consume_one %a                                  async.copy_view %ring, %put, %more, ..  (a and b)
      %f = convert_layout %x                               async.commit_group
      ..                                                   %f = load_shared %ring, %take
    }                                                      ..   %take and %put go on by a stage
                                                         }

With two stages the copies go first: barrier, copies, a wait that leaves them under way, and a second barrier. Copies that stand
behind what an iteration does, as atomics that order memory, come at its end; one stage serves them, behind a barrier.

Loads with the transport "bulk" are one `bulk.load` a stage instead, and who reads the stage waits for its mbarrier:

    bulk.begin %ring                                     for .. iter(%take = 0, %put = (n - 1) * stage, %phase = 0) {
    barrier                                                bulk.wait %ring, %take, %phase
    bulk.load %ring, 0, ..                                 barrier
    ..                                                     bulk.load %ring, %put, %more, ..
                                                           ..   %phase turns when %take begins again
                                                         }
                                                         bulk.end %ring

The barrier of the loop says only that every warp has read the stage that is overwritten. Copies of an iteration that does
not run are not issued and not waited for; every one that was issued is waited for by its iteration.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.dialects.nv_tileas.rings import RESERVED_BYTES, in_units
from tileiras.compiler.dialects.nv_tileas.types import SHARED
from tileiras.compiler.ir.core import Op, Value
from tileiras.compiler.ir.rewrite import Rewriter
from tileiras.compiler.ir.types import I1, I32, Dense, TensorType, TileType
from tileiras.compiler.layout.linear import splat
from tileiras.compiler.layout.shared import permuted
from tileiras.compiler.schedule.candidates import backward, captured, computes, constant_int, ordering
from tileiras.compiler.schedule.once import runs_once
from tileiras.compiler.schedule.staging import LOADS
from tileiras.compiler.target import sm

from .hoist_conversions import end_of_buffers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.passes import Context

PRODUCE, CONSUME = tileas.PRODUCE_ONE, tileas.CONSUME_ONE
TRANSPORTS = ("cp.async", "bulk")


class NotVerified(Exception):
    """Layer 1 refused an op; the sink has the reason."""


def lower_channels(func: Op, context: Context) -> bool:
    """Lowers every pipeline with slots in shared memory. False when an op could not be made."""
    loops: dict[Op, list[Op]] = {}
    for create in [
        op for op in func.walk() if op.spec is tileas.CREATE and op.attrs.get("transport") in TRANSPORTS
    ]:
        consumers = [op for op, _ in create.result.uses if op.spec is CONSUME]
        loop = consumers[0].parent if consumers else None
        if loop is not None:
            loops.setdefault(loop, []).append(create)
    try:
        for loop, creates in loops.items():
            if "steps" in creates[0].attrs:
                from .steps import StepChannel

                StepChannel(loop, creates, context).lower()
            elif "refilled" in creates[0].attrs:
                from .refilled import RefilledChannel

                RefilledChannel(loop, creates, context).lower()
            elif "parts" in creates[0].attrs:
                from .queue import QueueChannel

                QueueChannel(loop, creates, context).lower()
            else:
                Channel(loop, creates, context).lower()
    except NotVerified:
        return False
    return True


class Channel:
    """One ring of stages."""

    def __init__(self, loop: Op, creates: list[Op], context: Context) -> None:
        self.loop = loop
        self.creates = creates
        self.context = context
        self.body = loop.regions[0].block
        self.depth: int = creates[0].attrs["depth"]  # what runs ahead, and one
        self.slots: int = creates[0].attrs.get("slots", self.depth)
        self.starts: dict[Op, int] = {}
        at = 0
        for create in creates:
            self.starts[create] = at
            at += in_units(create.attrs["bytes"])
        self.stage_bytes = at
        self.bulk = [create for create in creates if create.attrs["transport"] == "bulk"]
        self.copied = [create for create in creates if create not in self.bulk]
        self.barriers: dict[str, Any] = {}  # attributes of the ops on mbarriers
        self.buffer: Any = None

    # ---- making ops
    def make(
        self, anchor: Op, spec: Any, groups: Any = (), types: Any = (), attrs: dict[str, Any] | None = None
    ) -> Op:
        op = Rewriter(self.context, anchor).create(spec, groups, types, attrs)
        if op is None:
            raise NotVerified
        return op

    def number(self, anchor: Op, value: int) -> Value:
        type = self.scalar_type()
        data = Dense(TileType(I32, ()), value.to_bytes(4, "little"))
        return self.make(anchor, tileas.BY_NAME["constant"], (), (type,), {"value": data}).result

    def scalar_type(self, elem: Any = I32) -> Any:
        return TensorType(elem, (), splat(0, len(self.loop.operands[0].type.layout.warp)))  # type: ignore[attr-defined]

    # ---- the rewriting
    def lower(self) -> None:
        loop, body = self.loop, self.body
        assert loop.block is not None
        ahead = [self.producers(create, loop.block) for create in self.creates]
        inside = [self.producers(create, body) for create in self.creates]
        if not all(ahead):  # D11 left the loop as it was: one stage, and nobody runs ahead
            self.depth = self.slots = 1
        else:
            self.depth = 1 + len(ahead[0])  # as far as the schedule had them run
        size = self.slots * self.stage_bytes
        offset = end_of_buffers(loop)
        if self.bulk:
            self.barriers = {"barriers": size, "stage_bytes": self.stage_bytes}
            size += RESERVED_BYTES
            offset = in_units(offset)
        first = next(op for op in loop.block.ops if any(op in group for group in ahead) or op is loop)
        self.buffer = self.make(
            first, tileas.ALLOC_SHARED, (), (SHARED,), {"bytes": size, "offset": offset}
        ).result
        if self.bulk:  # whoever wrote to these bytes before did so in the generic way
            self.make(first, tileas.BULK_BEGIN, (self.buffer,), (), {**self.barriers, "stages": self.slots})
            self.make(first, tileas.BARRIER, attrs=self.fence())
        for create in self.creates:
            if create.attrs.get("filled"):
                attrs = {
                    "start": self.starts[create], "bytes": create.attrs["bytes"], "filled": create.attrs["filled"],
                    "slots": self.slots, "stride": self.stage_bytes,
                }  # fmt: skip
                self.make(first, tileas.CLEAR_SHARED, (self.buffer,), (), attrs)
        for k in range(self.depth - 1):
            slot = self.number(loop, k * self.stage_bytes)
            self.fill([group[k] for group in ahead], slot, loop)
        early = self.copies_first([group[0] for group in inside])
        last = max((group[0] for group in inside), key=body.ops.index)
        top = body.ops[0]
        phase = None
        once = (
            self.depth == 1
            and not self.bulk
            and runs_once(loop)
            and self.in_front([group[0] for group in inside])
        )
        if once:
            put = take = self.number(loop, 0)
        elif self.depth == 1:
            put = take = self.number(loop, 0)
            self.make(top, tileas.BARRIER, attrs=self.fence())
            phase = self.alternate() if self.bulk else None
        else:
            if self.slots == 1:
                put = take = self.number(loop, 0)
            else:
                take, put, phase = self.carry(0, (self.depth - 1) * self.stage_bytes)
            if not early:
                self.wait(top, take, phase, self.depth - 2)
            self.make(top, tileas.BARRIER, attrs=self.fence())
        if once:
            self.fill([group[0] for group in inside], put, last)
            self.wait(last, take, phase, 0)
            self.make(last, tileas.BARRIER)
        elif self.depth == 1 and not self.bulk:  # each is read before the next one's address may be known
            for create, group in zip(self.creates, inside):
                self.copy(create, group[0], put, group[0])
                self.make(group[0], tileas.COMMIT_GROUP)
                self.wait(group[0], take, phase, 0)
                self.make(group[0], tileas.BARRIER)
        else:
            if self.slots < self.depth:
                self.make(last, tileas.BARRIER)
            self.fill([group[0] for group in inside], put, last)
        if early:
            self.wait(last, take, phase, 1)
            self.make(last, tileas.BARRIER)
        if self.depth == 1 and self.bulk:
            self.wait(last, take, phase, 0)
            if self.copied:
                self.make(last, tileas.BARRIER)
        for group in (*ahead, *inside):
            for op in group:
                op.erase()
        for create in self.creates:
            consumer = next(op for op, _ in create.result.uses if op.spec is CONSUME)
            columns = create.attrs["arrangement"]
            for result in consumer.results:
                self.read(result, columns, self.starts[create], take, consumer)
            consumer.erase()
            create.erase()
        if self.slots > self.depth:
            loop.attrs = {**loop.attrs, "spare_stages": self.slots - self.depth}
        self.close()

    def close(self) -> None:
        """What stands behind the loop."""
        loop = self.loop
        assert loop.block is not None
        following = loop.block.ops[loop.block.ops.index(loop) + 1]
        # A step of 0 ends the loop before all copies were waited for.
        if self.copied and constant_int(loop.operands[2]) is None:
            self.make(following, tileas.WAIT_GROUP, attrs={"pending": 0})
        if self.bulk:  # steps are constant: every copy was waited for
            self.make(following, tileas.BULK_END, (self.buffer,), (), {**self.barriers, "stages": self.slots})
        self.make(following, tileas.FREE_SHARED, (self.buffer,))

    def copies_first(self, producers: list[Op]) -> bool:
        """Whether an iteration issues its copies before it waits for its own stage: of two stages, one would be on its way to a
        wait that leaves nothing under way. That costs a barrier. All `producers` stand in front of all consumers then."""
        target = self.context.target
        if self.bulk or not self.depth == self.slots == 2 or target is None or target.has(sm.TCGEN05):
            return False
        return self.in_front(producers)

    def in_front(self, producers: list[Op]) -> bool:
        """Moves the copies of an iteration in front of all consumers, with what their addresses need; whether that can be."""
        if any(ordering(op, self.loop) for op in producers):  # they stand behind what they must not pass
            return False
        body = self.body
        first = next(op for op in body.ops if op.spec is CONSUME and op.operands[0].op in self.creates)
        late = [op for op in producers if body.ops.index(op) > body.ops.index(first)]
        needed, _ = backward([value for op in late for value in captured(op)], body)
        place = {op: k for k, op in enumerate(body.ops)}
        moved = sorted({op for op in (*needed, *late) if place[op] > place[first]}, key=place.__getitem__)
        if not all(computes(op) and not op.regions for op in moved if op not in late):
            return False
        for op in moved:
            self.move(op, first)
        return True

    def fence(self) -> dict[str, Any]:
        """Attributes of a barrier behind which bulk copies overwrite what was accessed in the generic way."""
        return {"proxy_fence": True} if self.bulk else {}

    def wait(self, anchor: Op, take: Value, phase: Value | None, pending: int) -> None:
        """Until the stage that is read next has landed."""
        if self.copied:
            self.make(anchor, tileas.WAIT_GROUP, attrs={"pending": pending})
        if self.bulk:
            self.make(anchor, tileas.BULK_WAIT, (self.buffer, take, phase), (), dict(self.barriers))

    def fill(self, group: list[Op], slot: Value, anchor: Op) -> None:
        """The copies of one stage, in front of the anchor. `group`: a producer of each pipeline."""
        for create, produce in zip(self.creates, group):
            if create in self.copied:
                self.copy(create, produce, slot, anchor)
        if self.copied:
            self.make(anchor, tileas.COMMIT_GROUP)
        if self.bulk:
            self.load_stage([(c, p) for c, p in zip(self.creates, group) if c in self.bulk], slot, anchor)

    def producers(self, create: Op, block: Any) -> list[Op]:
        """produce_one ops of a pipeline that stand in a block, in order."""
        mine = {op for op, _ in create.result.uses if op.spec is PRODUCE and op.block is block}
        return [op for op in block.ops if op in mine]

    def opened(self, produce: Op, anchor: Op) -> tuple[Op, Value]:
        """(load, whether it runs) of a producer; what computes its addresses is moved in front of the anchor."""
        region = produce.regions[0].block
        runs, source = None, region
        branch = next((op for op in region.ops if op.spec.name == "if"), None)
        if branch is not None:
            runs, source = branch.operands[0], branch.regions[0].block
            for op in [op for op in region.ops if op is not branch and not op.spec.is_terminator]:
                self.move(op, anchor)
        load = next(op for op in source.ops if op.spec.name in LOADS)
        for op in [op for op in source.ops if op is not load and not op.spec.is_terminator]:
            self.move(op, anchor)
        if runs is None:
            type = self.scalar_type(I1)
            data = Dense(TileType(I1, ()), b"\x01")
            runs = self.make(anchor, tileas.BY_NAME["constant"], (), (type,), {"value": data}).result
        return load, runs

    def load_stage(self, members: list[tuple[Op, Op]], slot: Value, anchor: Op) -> None:
        """One op for all bulk copies of a stage: its iteration runs for all of them or for none."""
        index: list[Value] = []
        inside: list[bool] = []
        runs = loc = None
        for create, produce in members:
            load, condition = self.opened(produce, anchor)
            runs, loc = runs or condition, loc or load.loc
            bounds = load.attrs.get("inbounds") or ()
            for d in create.attrs["order"]:
                index.append(load.group("index")[d])
                inside.append(bool(bounds[d : d + 1] and bounds[d]))
        creates = [create for create, _ in members]
        attrs: dict[str, Any] = {
            **self.barriers, "bytes": tuple(create.attrs["bytes"] for create in creates),
            "maps": tuple(create.attrs["map"] for create in creates),
            "tile": tuple(extent for create in creates for extent in create.attrs["tile"]),
            "starts": tuple(self.starts[create] for create in creates),
        }  # fmt: skip
        if any(inside):
            attrs["inbounds"] = tuple(inside)
        made = self.make(anchor, tileas.BULK_LOAD, [self.buffer, slot, runs, index, None], (), attrs)
        if loc is not None:
            made.loc = loc

    def copy(self, create: Op, produce: Op, slot: Value, anchor: Op) -> None:
        """The copies of one producer, in front of the anchor."""
        load, runs = self.opened(produce, anchor)
        attrs = {name: create.attrs[name] for name in ("arrangement", "layout", "width")}
        attrs["start"] = self.starts[create]
        if load.spec.name == "load_ptr_tko":
            groups = [
                self.buffer,
                slot,
                runs,
                load.operand("source"),
                load.operand("mask"),
                load.operand("token"),
            ]
            self.make(anchor, tileas.COPY_POINTERS, groups, (), attrs).loc = load.loc
            return
        if load.attrs.get("inbounds"):
            attrs["inbounds"] = load.attrs["inbounds"]
        groups = [self.buffer, slot, runs, load.operand("view"), load.group("index"), load.operand("token")]
        self.make(anchor, tileas.COPY_VIEW, groups, (), attrs).loc = load.loc

    def move(self, op: Op, anchor: Op) -> None:
        assert op.block is not None and anchor.block is not None
        op.block.ops.remove(op)
        anchor.block.insert_before(anchor, op)

    def one_more(self, start: int) -> Value:
        """One more value that the loop carries. The caller adds what the next iteration gets."""
        from .lower_pipelines import add_operand

        loop = self.loop
        type = self.scalar_type()
        add_operand(loop, self.number(loop, start))
        loop.results.append(Value(type, loop, len(loop.results)))
        return self.body.add_arg(type)

    def alternate(self) -> Value:
        """A value that the loop carries: 0 and 1 in turns."""
        from .lower_pipelines import add_operand

        terminator = self.body.ops[-1]
        arg = self.one_more(0)
        add_operand(terminator, self.flipped(terminator, arg))
        return arg

    def flipped(self, anchor: Op, phase: Value) -> Value:
        return self.make(
            anchor, tileas.BY_NAME["xori"], (phase, self.number(anchor, 1)), (phase.type,)
        ).result

    def carry(self, take: int, put: int) -> tuple[Value, Value, Value | None]:
        """More values that the loop carries: offsets of the stages that are read and written, and the phase of the one that
        is read where it has an mbarrier."""
        from .lower_pipelines import add_operand

        body = self.body
        terminator = body.ops[-1]
        type = self.scalar_type()
        flag = self.scalar_type(I1)
        out = []
        turns = []
        for start in (take, put):
            arg = self.one_more(start)
            stage, zero = self.number(terminator, self.stage_bytes), self.number(terminator, 0)
            end = self.number(terminator, self.slots * self.stage_bytes)
            by_name = tileas.BY_NAME
            more = self.make(terminator, by_name["addi"], (arg, stage), (type,), {"overflow": "none"}).result
            wraps = self.make(
                terminator, by_name["cmpi"], (more, end), (flag,),
                {"comparison_predicate": "equal", "signedness": "unsigned"},
            ).result  # fmt: skip
            following = self.make(terminator, by_name["select"], (wraps, zero, more), (type,)).result
            add_operand(terminator, following)
            out.append(arg)
            turns.append(wraps)
        phase = None
        if self.bulk:
            phase = self.one_more(0)
            other = self.flipped(terminator, phase)
            following = self.make(
                terminator, tileas.BY_NAME["select"], (turns[0], other, phase), (type,)
            ).result
            add_operand(terminator, following)
        return out[0], out[1], phase

    def read(self, value: Value, columns: tuple[int, ...], start: int, slot: Value, anchor: Op) -> None:
        """Every use of a slot's value reads it from shared memory in the layout that it wants."""
        work, renamed = [(value, columns, anchor)], []
        while work:
            value, columns, anchor = work.pop()
            rest: list[tuple[Op, int]] = []
            for user, index in list(value.uses):
                name = user.spec.name
                if name in ("reshape", "permute"):
                    lie = columns
                    if name == "permute":
                        shape = user.operands[0].type.shape  # type: ignore[attr-defined]
                        lie = permuted(columns, shape, user.attr("permutation"))
                    work.append((user.result, lie, user))
                    renamed.append(user)
                elif name == "convert_layout":
                    user.result.replace_all_uses_with(self.load(user, user.result.type, columns, start, slot))
                    user.erase()
                else:
                    rest.append((user, index))
            if rest:
                found = self.load(anchor, value.type, columns, start, slot)
                for user, index in rest:
                    user.set_operand(index, found)
        for user in reversed(renamed):
            user.erase()

    def load(self, anchor: Op, type: Any, columns: tuple[int, ...], start: int, slot: Value) -> Value:
        attrs = {"arrangement": columns, "start": start}
        return self.make(anchor, tileas.LOAD_SHARED, (self.buffer, slot), (type,), attrs).result
