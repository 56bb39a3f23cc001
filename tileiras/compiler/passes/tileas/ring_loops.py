"""Rings that bulk copies fill, each with the one loop that waits for its stages: what may release them without a barrier."""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.dialects.nv_tileas.rings import RESERVED_BYTES, span_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value

# what reads or writes shared memory in the generic way needs the barrier; exchanges have places and barriers of their own
GENERIC = frozenset((tileas.LOAD_SHARED, tileas.STORE_SHARED, tileas.COPY_VIEW, tileas.COPY_POINTERS))


class RingLoop:
    """A ring of several stages with one loop, one op that fills a stage of it there, and one end. `released`: where its second
    row of mbarriers may begin, behind the first."""

    __slots__ = ("begin", "body", "end", "load", "loop", "released", "users", "wait")

    def __init__(self, begin: Op, wait: Op, load: Op, end: Op, users: list[Op]) -> None:
        self.begin, self.wait, self.load, self.end, self.users = begin, wait, load, end, users
        loop: Any = wait.parent
        self.loop, self.body = loop, loop.regions[0].block
        self.released = begin.attr("barriers") + span_of(begin.attr("stage_bytes"), begin.attr("stages"))

    @property
    def put(self) -> Value:
        """The offset of the stage that is filled, which the loop carries."""
        return self.load.operands[1]

    @property
    def has_room(self) -> bool:
        """Whether both rows of mbarriers fit where the first lies; in front of the buffer there is room."""
        begin = self.begin
        span = self.released - begin.attr("barriers")
        return begin.attr("barriers") < 0 or 2 * span <= RESERVED_BYTES

    def release_by(self, readers: int) -> dict[str, Any]:
        """Gives the ring its second row of mbarriers, each of so many arrivals; returns the attributes of who arrives."""
        begin, end = self.begin, self.end
        begin.attrs = {**begin.attrs, "released": self.released, "readers": readers}
        end.attrs = {**end.attrs, "released": self.released}
        return {**{name: begin.attr(name) for name in ("barriers", "stage_bytes")}, "released": self.released}


def ring_loops(func: Op) -> Iterator[RingLoop]:
    """Those of a function, where nothing reads or writes shared memory in the generic way."""
    for begin in [op for op in func.walk() if op.spec is tileas.BULK_BEGIN]:
        users = [user for user, _ in begin.operands[0].uses]
        waits = [op for op in users if op.spec is tileas.BULK_WAIT]
        loop = waits[0].parent if len(waits) == 1 else None
        if loop is None or loop.spec.name != "for":
            continue
        body = loop.regions[0].block
        loads = [op for op in users if op.spec is tileas.BULK_LOAD and op.block is body]
        ends = [op for op in users if op.spec is tileas.BULK_END]
        if len(loads) != 1 or len(ends) != 1 or any(op.spec in GENERIC for op in loop.walk()):
            continue
        put = loads[0].operands[1]
        if put.op is None and put.owner is body:  # else one stage only
            yield RingLoop(begin, waits[0], loads[0], ends[0], users)
