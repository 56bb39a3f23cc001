"""Rings that threads fill by cp.async and only tcgen05 reads: their stages have mbarriers, and no barrier holds up the loop.

    async.copy_view %ring, 0, ..                bulk.begin %ring {arrivals = 256, readers = 1}
    async.commit_group                          barrier
    ..                                          async.copy_view %ring, 0, ..
    for .. {                                    async.arrive %ring, 0, %any
      async.wait_group {pending = 1}            ..
      tensor_memory.wait %sum, %i               for .. {
      barrier                                     bulk.wait %ring, %take, %phase {issuing, proxy_fence}
      async.copy_view %ring, %put, %more, ..      tensor_memory.product %sum, ..
      async.commit_group                          bulk.commit %ring, %take
      tensor_memory.product %sum, %i ..           bulk.acquire %ring, %put, %free
    }                                             async.copy_view %ring, %put, %more, ..
    %r = tensor_memory.load %sum, %n              async.arrive %ring, %put, %more
                                                }
                                                tensor_memory.commit %sum
                                                %r = tensor_memory.load %sum, 0
                                                bulk.end %ring

Every thread arrives on a stage's mbarrier when its own copies have landed. One warp alone waits for that, with the fence
between what threads write and what tcgen05 reads, and issues the products; these release the stage when they are done. All
other warps only copy: they run ahead as far as there are stages.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.dialects.nv_tileas.rings import MAX_DEPTH, STAGE_UNIT, span_of
from tileiras.compiler.ir.core import Op, Value
from tileiras.compiler.ir.passes import Context
from tileiras.compiler.schedule.candidates import constant_int, ordering
from tileiras.compiler.target import tcgen05

from .commit_stages import PRODUCTS, TOUCHES, Change, sums_behind, turns
from .lower_pipelines import add_operand
from .ring_loops import GENERIC

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

COPIES = frozenset((tileas.COPY_VIEW, tileas.COPY_POINTERS))
_OTHERS = frozenset((*COPIES, tileas.FREE_SHARED, tileas.CLEAR_SHARED))
MIXED = "copies in front of the loop share groups with others"
SEVERAL = "a step waits for copies, or at barriers, more than once"
UNLIKE = "stages are not filled and read one after the other"


class CopiedRing:
    """A ring that threads fill for one loop of products. `ahead`: groups of copies in front of the loop, each with the op that
    closes it; `begins`: the copies of the loop's body; `put`, `take`: the offsets of the stages that are filled and read."""

    __slots__ = (
        "ahead", "alloc", "barrier", "begins", "body", "commit", "loop", "products", "put", "stage", "stages", "take", "wait"
    )  # fmt: skip

    def __init__(
        self, alloc: Op, readers: frozenset[Any] = PRODUCTS, touches: frozenset[Any] = TOUCHES
    ) -> None:
        """`readers`: what alone may read the stages; `touches`: what the loop must not have."""
        self.alloc = alloc
        users = [user for user, _ in alloc.result.uses]
        self.products = [op for op in dict.fromkeys(users) if op.spec in readers]
        self.loop: Any = self.products[0].parent if self.products else None
        if any(op.spec not in readers and op.spec not in _OTHERS for op in users):
            raise NotAlone("threads read the stages, too")
        if self.loop is None or self.loop.spec.name != "for":
            raise NotAlone("no product of a `for` reads the stages")
        loop = self.loop
        self.body = loop.regions[0].block
        if any(op.block is not self.body for op in self.products) or constant_int(loop.operands[2]) is None:
            raise NotAlone("products of several loops or branches read the stages")
        copies = [op for op in dict.fromkeys(users) if op.spec in COPIES]
        self.begins = [op for op in copies if op.block is self.body]
        if any(ordering(op, loop) for op in self.begins):
            raise NotAlone("copies wait at a barrier for what orders them")
        inside = list(loop.walk())
        alone = {*self.begins, *(op for op in self.products if op.spec in GENERIC)}
        if any(op.spec in touches or op.spec in GENERIC and op not in alone for op in inside):
            raise NotAlone("threads use other buffers of shared memory in the loop")
        self.wait = self.only(inside, tileas.WAIT_GROUP)
        self.commit = self.only(inside, tileas.COMMIT_GROUP)
        self.barrier = self.only(inside, tileas.BARRIER)
        self.ahead = self.groups([op for op in copies if op not in self.begins])
        self.find_stages()

    def only(self, inside: list[Op], spec: Any) -> Op:
        """The one op of a kind in the loop, which stands in its body."""
        found = [op for op in inside if op.spec is spec]
        if len(found) != 1 or found[0].block is not self.body:
            raise NotAlone(SEVERAL)
        return found[0]

    def groups(self, copies: list[Op]) -> list[tuple[list[Op], Op]]:
        """The copies in front of the loop, by the op that closes their group."""
        block = self.loop.block
        assert block is not None
        out: list[tuple[list[Op], Op]] = []
        open: list[Op] = []
        foreign = False
        for op in block.ops[: block.ops.index(self.loop)]:
            if op in copies:
                open.append(op)
            elif op.spec in COPIES:
                foreign = True
            elif op.spec in (tileas.COMMIT_GROUP, tileas.ASYNC_ARRIVE):
                if open:
                    if foreign:
                        raise NotAlone(MIXED)
                    out.append((open, op))
                open, foreign = [], False
        if open or sum(len(group) for group, _ in out) != len(copies) or not out:
            raise NotAlone(MIXED)
        return out

    def find_stages(self) -> None:
        """What the loop carries, and how large and many the stages are."""
        puts = dict.fromkeys(op.operands[1] for op in self.begins)
        takes = dict.fromkeys(
            op.operands[i + 1]
            for op in self.products
            for i, value in enumerate(op.operands)
            if value is self.alloc.result
        )
        if len(puts) != 1 or len(takes) != 1:
            raise NotAlone(UNLIKE)
        (self.put,), (self.take,) = puts, takes
        if any(v.op is not None or v.owner is not self.body for v in (self.put, self.take)):
            raise NotAlone(UNLIKE)
        if turns(self.body, self.put) is None or turns(self.body, self.take) is None:
            raise NotAlone(UNLIKE)
        first = constant_int(self.loop.operands[2 + self.put.index])
        assert first is not None
        self.stage = first // len(self.ahead)
        self.stages = self.alloc.attr("bytes") // self.stage
        if self.stage % STAGE_UNIT or not len(self.ahead) < self.stages <= MAX_DEPTH:
            raise NotAlone("no stage is to spare")


class NotAlone(Exception):
    """Why a buffer is none that only copies fill and only products of one loop read."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)


def arrive_stages(func: Op, context: Context, at: int) -> bool:
    """Does so for every loop that can be. `at`: where in the state of tensor memory its mbarriers may begin. False when an op
    could not be made."""
    for alloc in [op for op in func.walk() if op.spec is tileas.ALLOC_SHARED]:
        try:
            ring = CopiedRing(alloc)
        except NotAlone:
            continue
        span = span_of(ring.stage, ring.stages)
        if at + 2 * span > tcgen05.STATE_BYTES:
            continue
        if not arrive(ring, at, span, Change(context)):
            return False
        at += 2 * span
    return True


def arrive(ring: CopiedRing, at: int, span: int, change: Change) -> bool:
    loop, body, buffer = ring.loop, ring.body, ring.alloc.result
    first = at - ring.alloc.attr("offset")
    bars = {"barriers": first, "stage_bytes": ring.stage}
    released = {**bars, "released": first + span}
    threads = 32 << len(body.args[0].type.layout.warp)
    start = ring.ahead[0][0][0]
    counts = {"stages": ring.stages, "readers": 1, "arrivals": threads}
    change.make(start, tileas.BULK_BEGIN, (buffer,), (), {**released, **counts})
    change.make(start, tileas.BARRIER)
    for group, closes in ring.ahead:
        change.make(closes, tileas.ASYNC_ARRIVE, (buffer, *group[0].operands[1:3]), (), bars)
        closes.erase()
    phases = [
        carried(loop, change, start, v.type, turns(body, v)) for start, v in ((0, ring.take), (1, ring.put))
    ]
    attrs = {**bars, "issuing": 1, "proxy_fence": True}
    change.make(ring.wait, tileas.BULK_WAIT, (buffer, ring.take, phases[0]), (), attrs)
    for op in (ring.wait, ring.barrier, *[op for op in body.ops if op.spec is tileas.TENSOR_WAIT]):
        op.erase()
    top = body.ops[next(n for n, op in enumerate(body.ops) if op.spec is tileas.BULK_WAIT) + 1]
    for op in ring.products:
        op.attrs = {**op.attrs, "commit": 0}
        if all(
            v.op is None or v.op.block is not body for v in op.operands
        ):  # next to the wait: in one branch with it
            body.ops.remove(op)
            body.insert_before(top, op)
    behind = body.ops[body.ops.index(ring.products[-1]) + 1]
    change.make(behind, tileas.BULK_COMMIT, (buffer, ring.take), (), released)
    behind = body.ops[max(body.ops.index(op) for op in (*ring.products, *ring.begins, ring.commit)) + 1]
    change.make(behind, tileas.BULK_ACQUIRE, (buffer, ring.put, phases[1]), (), released)
    for op in ring.begins:
        body.ops.remove(op)
        body.insert_before(behind, op)
    change.make(behind, tileas.ASYNC_ARRIVE, (buffer, *ring.begins[0].operands[1:3]), (), bars)
    ring.commit.erase()
    sums_behind(loop, ring.products, change)
    frees = next(op for op, _ in buffer.uses if op.spec is tileas.FREE_SHARED)
    change.make(frees, tileas.BULK_END, (buffer,), (), {**released, "stages": ring.stages})
    return not change.failed


def carried(loop: Op, change: Change, start: int, type: Any, wraps: Value | None) -> Value:
    """One more value that a loop carries: a phase, which turns when the stages begin again."""
    body = loop.regions[0].block
    ends = body.ops[-1]
    assert wraps is not None
    add_operand(loop, change.number(loop, type, start))
    loop.results.append(Value(type, loop, len(loop.results)))
    phase = body.add_arg(type)
    other = change.make(ends, tileas.BY_NAME["xori"], (phase, change.number(ends, type, 1)), (type,))
    following = change.make(ends, tileas.BY_NAME["select"], (wraps, other, phase), (type,))
    add_operand(ends, following)
    return phase
