"""Rings that bulk copies fill and only tcgen05 reads: products release the stages, and no barrier holds up the loop.

    for .. {                                    tensor_memory.store %sum, %zero
      bulk.wait %ring, %take, %phase            barrier
      tensor_memory.wait %sum, %i               for .. {
      barrier                                     bulk.wait %ring, %take, %phase {issuing}
      bulk.load %ring, %put, %more, ..            tensor_memory.product %sum, ..
      tensor_memory.product %sum, %i ..           bulk.commit %ring, %take
    }                                             bulk.load %ring, %put, %more, .., %free
    %r = tensor_memory.load %sum, %n            }
                                                tensor_memory.commit %sum
                                                %r = tensor_memory.load %sum, 0

The thread that issues copies waits until the products of the stage's last use are done; `%free` is the phase that says so, the
one before the first for stages that have not been filled yet. One warp alone waits for copies: the others pass the loop by
and wait for the sum, which has one phase.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.core import Op, Value
from tileiras.compiler.ir.passes import Context
from tileiras.compiler.ir.rewrite import Rewriter
from tileiras.compiler.ir.types import I32, Dense, TileType

from .lower_pipelines import add_operand
from .ring_loops import RingLoop, ring_loops

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PRODUCTS = frozenset((tileas.TENSOR_PRODUCT, tileas.TENSOR_PRODUCT_SCALED))
# what else touches sums, or operands that threads compute: it needs the barrier
TOUCHES = frozenset(
    (tileas.TENSOR_LOAD, tileas.TENSOR_STORE, tileas.TENSOR_SCALE, tileas.TENSOR_STORE_ROWS, tileas.TENSOR_PRODUCT_ROWS)
)  # fmt: skip


def commit_stages(func: Op, context: Context) -> bool:
    """Does so for every loop that can be. False when an op could not be made."""
    return all(commit(ring, context) for ring in list(ring_loops(func)))


def commit(ring: RingLoop, context: Context) -> bool:
    loop, body, load, put, wait = ring.loop, ring.body, ring.load, ring.put, ring.wait
    barriers = [op for op in loop.walk() if op.spec is tileas.BARRIER]
    products = [op for op in body.ops if op.spec in PRODUCTS]
    if len(barriers) != 1 or barriers[0].block is not body or not products or not ring.has_room:
        return True
    wraps = turns(body, put)
    if wraps is None or any(op.spec in TOUCHES for op in loop.walk()):
        return True
    change = Change(context)
    attrs = ring.release_by(1)
    wait.attrs = {**wait.attrs, "issuing": 1}
    barriers[0].erase()
    for op in [op for op in body.ops if op.spec is tileas.TENSOR_WAIT]:
        op.erase()
    for op in products:
        op.attrs = {**op.attrs, "commit": 0}
    terminator = body.ops[-1]
    behind = body.ops[max(body.ops.index(products[-1]), body.ops.index(load)) + 1]
    change.make(behind, tileas.BULK_COMMIT, (load.operands[0], wait.operands[1]), (), attrs)
    # the phase in which the stage is free that is filled next
    add_operand(loop, change.number(loop, put.type, 1))
    loop.results.append(Value(put.type, loop, len(loop.results)))
    free = body.add_arg(put.type)
    other = change.make(
        terminator, tileas.BY_NAME["xori"], (free, change.number(terminator, put.type, 1)), (put.type,)
    )
    following = change.make(terminator, tileas.BY_NAME["select"], (wraps, other, free), (put.type,))
    add_operand(terminator, following)
    sources = [*load.operands[:3], load.group("index"), free]
    change.make(
        behind, tileas.BULK_LOAD, sources, (), {**load.attrs, "released": ring.released}, loc=load.loc
    )
    load.erase()
    sums_behind(loop, products, change)
    return not change.failed


def turns(body: Any, offset: Value) -> Value | None:
    """The condition that the offset of a stage, which a loop carries, begins again."""
    following = body.ops[-1].operands[offset.index - 1].op
    return following.operands[0] if following is not None and following.spec.name == "select" else None


def sums_behind(loop: Op, products: list[Op], change: Change) -> None:
    """Sums arrive on their first mbarrier behind the loop, and what they begin with is there before it."""
    assert loop.block is not None
    following = loop.block.ops[loop.block.ops.index(loop) + 1]
    for sum in dict.fromkeys(op.operands[0] for op in products):
        change.make(following, tileas.TENSOR_COMMIT, (sum,))
        for user, _ in list(sum.uses):
            if user.spec in (tileas.TENSOR_LOAD, tileas.TENSOR_WAIT):
                user.set_operand(1, change.number(user, user.operands[1].type, 0))
                user.attrs = {**user.attrs, "before": 0}
    change.make(loop, tileas.BARRIER)


class Change:
    """Makes ops; `failed` when layer 1 refused one."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.failed = False

    def make(
        self, anchor: Op, spec: Any, groups: Any = (), types: Any = (), attrs: Any = None, loc: Any = None
    ) -> Any:
        made = Rewriter(self.context, anchor).create(spec, groups, types, attrs, loc=loc)
        self.failed = self.failed or made is None
        return made.result if made is not None and types else made

    def number(self, anchor: Op, type: Any, value: int) -> Any:
        data = Dense(TileType(I32, ()), value.to_bytes(4, "little"))
        return self.make(anchor, tileas.BY_NAME["constant"], (), (type,), {"value": data})
