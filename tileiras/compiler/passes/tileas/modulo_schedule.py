"""TileASModuloSchedule: decides which loads of a loop run ahead through pipelines, how deep, and how they travel.

Loads that feed products go to shared memory by asynchronous copies, as many iterations ahead as the cost model wants
and shared memory holds; `tt.num_stages` overrides the wish. Where the kernel asks for stages, every other weak load
of a loop that can be pipelined waits in registers, in fewer slots where they would take more than a thread can spare.

Before: `%x, %t = load_view_tko weak %view[%i]` in a loop. After: `%p = async.pipeline.create {depth = 2}` before the
loop, and in it `%x = async.pipeline.transfer %p { load_view_tko ..; yield }`.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa.kernel_spec import KEY
from tileiras.compiler.dialects.nv_tileas import diags as D
from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.dialects.nv_tileas.rings import MAX_DEPTH
from tileiras.compiler.dialects.nv_tileas.types import PIPELINE
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Block, Op, Region
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.rewrite import Rewriter
from tileiras.compiler.ir.types import TOKEN, TensorType
from tileiras.compiler.schedule.candidates import (
    LOOPS,
    can_follow,
    can_run_ahead,
    captured,
    indices_of,
    needed,
)
from tileiras.compiler.schedule.lookups import lookups_of
from tileiras.compiler.schedule.once import runs_once
from tileiras.compiler.schedule.refusal import refusal
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.products import PRODUCTS
from tileiras.compiler.target.registers import registers_apart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Value
    from tileiras.compiler.schedule.direct import Direct
    from tileiras.compiler.schedule.queue import OwnLoad, Queue
    from tileiras.compiler.schedule.rings import Ring
    from tileiras.compiler.schedule.staging import Staged


def needed_ahead(loads: list[Op], loop: Op) -> set[Op]:
    """Ops of a loop that the addresses of its loads need."""
    body = loop.regions[0].block
    return needed([value for op in loads for value in captured(op)], body)[0]


def padded_again(body: Block, context: Context) -> bool:
    """Gives what stays of a loop's loads its padding back (TileAAChoosePadding); False when an op could not be made."""
    if not any(op.spec.name in PRODUCTS for op in body.ops):
        return True
    from .padding import pad_again

    return pad_again(body.ops, context)


def feeds(loads: list[Op], loop: Op) -> bool:
    """Whether some loads bring operands of a loop's products."""
    from tileiras.compiler.schedule.staging import feeding_loads

    body = loop.regions[0].block
    products = [op for op in body.ops if op.spec.name in PRODUCTS]
    lookups = lookups_of(body)
    return any(
        op in loads for each in products for group in feeding_loads(each, body, lookups) for op in group
    )


def own_loads(queue: Queue) -> dict[Op | OwnLoad, Op]:
    """The copies that a queue asks for, made: the load of each."""
    from tileiras.compiler.ir.clone import clone_op
    from tileiras.compiler.schedule.queue import OwnLoad

    made: dict[Op | OwnLoad, Op] = {}
    for own in [load for load, _, _ in queue.members if isinstance(load, OwnLoad)]:
        values: dict[Value, Value] = {}
        copies = [clone_op(op, values) for op in reversed(own.path)]
        for copy in copies:
            own.path[0].block.insert_before(own.path[0], copy)  # type: ignore[union-attr]
        own.user.set_operand(own.index, copies[-1].results[0])
        made[own] = copies[0]
    return made


def queued(member: Staged, attrs: dict[str, Any]) -> dict[str, Any]:
    """Attributes of the pipeline of a load that waits in a queue, or in a stage that is filled part by part."""
    return {
        "transport": "cp.async", "width": member.width, "bytes": member.bytes, "arrangement": member.arrangement,
        "layout": member.layout, **attrs,
    }  # fmt: skip


class ModuloSchedule(Pass):
    NAME = "TileASModuloSchedule"
    SUMMARY = "Let the loads of loops run ahead through pipelines"
    """
    does: loads of loops go through pipelines: how deep, and how they travel
    without: loads wait
    acts: staged_f16_nt on sm_90
    """
    __slots__ = ("direct", "fed", "room", "waits")

    def run(self, func: Any, context: Context) -> bool:
        self.fed: set[Any] = (
            set()
        )  # places of loops whose loads run ahead; of two versions nothing is said of the slow one
        self.direct: dict[Op, Direct] = {}  # loads beside rings that their threads wait for
        self.room = 0  # bytes of the largest ring or queue
        self.waits: dict[Op, str] = {}  # loops where that was tried, with the reason why they do not
        wish = getattr(func.attrs.get(KEY), "num_stages", None)
        wished = self.wished(func, context)
        bulk: set[Op] = set()
        for loop in [op for op in func.walk() if op.spec.name in LOOPS]:
            why = refusal(loop, dynamic_step=True)
            body = loop.regions[0].block
            if why is not None:
                self.waits[loop] = why
                if not padded_again(body, context):
                    return False
                continue
            lookups = lookups_of(body)
            loads = [op for op in body.ops if op not in lookups and can_run_ahead(op, loop)]
            indices = indices_of(loop) & needed_ahead(loads, loop)  # come an iteration before what needs them
            most = wish
            late = [op for op in body.ops if op not in loads and op not in lookups and can_follow(op, loop)]
            if late and wish != 1 and feeds(late, loop):  # an iteration ahead, behind what orders them
                most = 2
                loads = [op for op in body.ops if op in loads or op in late]
            shared = self.through_shared(func, loop, loads, most, context)
            if not shared:
                loads = [op for op in loads if op not in late]
            if shared:
                self.say_looked_up([op for op in body.ops if op in lookups], context)
            bulk |= {op for op, attrs in shared.items() if attrs["transport"] == "bulk"}
            for op, attrs in shared.items():
                if not self.transfer(op, loop, attrs, context):
                    return False
            if not padded_again(body, context):
                return False
            loads = [op for op in loads if op not in shared and op not in indices]
            for op in [op for op in loads if op in self.direct]:
                loads.remove(op)
                if not self.wait_in_registers(op, loop, self.direct[op], context):
                    return False
            held = sum(registers_apart(op.results[0].type) for op in loads)
            usual = 2 if shared and held <= CostModel.waiting_registers and not runs_once(loop) else 1
            depth = min(most or usual, MAX_DEPTH, 1 + CostModel.slot_registers // max(held, 1))
            if loads and depth < (most or usual):
                self.say_cut(loop, depth, most or usual, held, context)
            if depth < 2 or refusal(loop) is not None:
                loads = []
            for op in loads:
                if not self.transfer(op, loop, {"depth": depth}, context):
                    return False
        self.explain(context)
        for loop in self.waits if self.room else ():
            loop.attrs = {**loop.attrs, "operand_bytes": self.room}  # StoreOperands
        if wished:
            from tileiras.compiler.schedule import hints

            missed = [each for each in wished if each[0] not in bulk]
            hints.say(missed, context)
        return True

    def say_looked_up(self, lookups: list[Op], context: Context) -> None:
        """Says which loads stay in their iteration because the others bring what places them."""
        for op in {op.loc: op for op in lookups}.values():
            context.remark(D.LOOKED_UP, op)

    def say_cut(self, loop: Op, depth: int, wanted: int, held: int, context: Context) -> None:
        """Says that loads wait in registers in fewer stages than were asked for."""
        context.remark(D.WAITING, loop, stages=depth, wanted=wanted, held=held, room=CostModel.slot_registers)

    def explain(self, context: Context) -> None:
        """Says why loads of products do not run ahead, where that was asked for."""
        from tileiras.compiler.schedule.staging import feeding_loads

        if not D.NOT_AHEAD.wanted(context.remarks):
            return
        for loop, why in self.waits.items():
            body = loop.regions[0].block
            products = [op for op in body.ops if op.spec.name in PRODUCTS]
            if not any(group for op in products for group in feeding_loads(op, body)):
                continue
            around: Op | None = loop
            while around is not None and around.loc not in self.fed:
                around = around.parent
            if around is not None:
                continue
            context.remark(D.NOT_AHEAD, loop, reason=why)

    def wished(self, func: Op, context: Context) -> list[tuple[Op, str, object, str]]:
        """Hints for bulk tensor copies on the ops of a function where this pass decides about them."""
        if not context.remarks or context.target is None or context.target.tensor_maps == "none":
            return []
        from tileiras.compiler.schedule import hints

        return (
            list(hints.without_maps(func, context.target))
            if hints.decided_later(func, context.target)
            else []
        )

    def through_shared(
        self, func: Op, loop: Op, loads: list[Op], wish: int | None, context: Context
    ) -> dict[Op, dict[str, Any]]:
        """Loads that travel through shared memory, with the attributes of their pipelines; none where two stages do not fit."""
        from tileiras.compiler.target import sm

        products = [op for op in loop.regions[0].block.ops if op.spec.name in PRODUCTS]
        if not products or wish == 1:
            return {}
        if context.target is None or not context.target.has(sm.CP_ASYNC):
            self.waits[loop] = "the target has no asynchronous copies, or they are left out"
            return {}
        from tileiras.compiler.schedule.queue import Queue
        from tileiras.compiler.schedule.refilled import Refilled
        from tileiras.compiler.schedule.rings import plan_ring

        ring = plan_ring(func, loop, products, loads, context, wish)
        if isinstance(ring, str):
            self.waits[loop] = ring
            return {}
        self.fed.add(loop.loc)
        if isinstance(ring, Refilled):
            self.room = max(self.room, ring.bytes)
            context.remark(
                D.RING, loop, stages="1 stage", bytes=ring.bytes, ahead="filled part by part, when its products have read it",
                clocks=ring.interval.clocks, bound=ring.interval.bound, cut="",
            )  # fmt: skip
            return {op: queued(member, attrs) for op, member, attrs in ring.members}
        if isinstance(ring, Queue):
            context.remark(
                D.QUEUE, loop, slots=ring.slots, bytes=ring.piece, products=ring.products, ahead=ring.slots - 1,
                parts=f", in {ring.parts} parts of K each"
                if ring.parts > 1
                else f", in {ring.steps} steps" * (ring.steps > 0),
            )  # fmt: skip
            self.room = max(self.room, ring.slots * ring.piece)
            made = own_loads(ring)
            return {made.get(load, member.op): queued(member, attrs) for load, member, attrs in ring.members}
        self.room = max(self.room, ring.slots * sum(member.room for member in ring.members))
        one = ring.slots == 1
        context.remark(
            D.RING, loop, stages="1 stage" if one else f"{ring.slots} stages",
            bytes=sum(member.room for member in ring.members),
            ahead=("filled in front of its products" if ring.depth == 1 else "filled at the end of each iteration")
            if one else f"{ring.depth - 1} on their way",
            clocks=ring.interval.clocks, bound=ring.interval.bound, cut=ring.cut,
        )  # fmt: skip
        self.direct.update(ring.direct)
        return {member.op: self.transport(func, ring, member, context) for member in ring.members}

    def wait_in_registers(self, op: Op, loop: Op, direct: Direct, context: Context) -> bool:
        """A load whose threads write it to shared memory takes the layout in which they do."""
        type: Any = op.results[0].type
        op.results[0].type = TensorType(type.elem, type.shape, direct.layout)
        return self.transfer(op, loop, {"depth": direct.depth}, context)

    def transport(self, func: Op, ring: Ring, member: Staged, context: Context) -> dict[str, Any]:
        """Attributes of the pipeline of a load that is staged."""
        found = member.boxes
        if found is None:
            return {
                "depth": ring.depth, "slots": ring.slots, "transport": "cp.async", "width": member.width,
                "bytes": member.bytes, "arrangement": member.arrangement, "layout": member.layout,
                **({"filled": member.filled} if member.filled else {}),
            }  # fmt: skip
        from tileiras.compiler.dialects.nv_tileas.tensor_maps import number_of, parts

        count = len(parts(found.tile, found.map.box))
        context.remark(
            D.BULK, member.op, boxes=f"{count} box{'es' if count > 1 else ''}", box="x".join(map(str, found.map.box)),
            swizzle=found.map.swizzle,
        )  # fmt: skip
        number = number_of(func, found.map)
        return {
            "depth": ring.depth, "slots": ring.slots, "transport": "bulk", "map": number, "order": found.order,
            "tile": found.tile, "bytes": member.bytes, "arrangement": member.arrangement,
        }  # fmt: skip

    def transfer(self, op: Op, loop: Op, attrs: dict[str, Any], context: Context) -> bool:
        from tileiras.compiler.ir.clone import clone_into

        pipeline = Rewriter(context, loop).create(tileas.CREATE, (), (PIPELINE,), attrs)
        block = Block()
        values: dict[Any, Any] = {}
        clone_into(block, [op], values)
        block.append(create(tileas.PIPELINE_YIELD, [values[op.results[0]]], loc=op.loc, segments=(1,)))
        if pipeline is None:
            return False
        made = Rewriter(context, op).create(
            tileas.TRANSFER, [pipeline.result], [op.results[0].type], {}, [Region([block])]
        )
        if made is None:
            return False
        op.results[0].replace_all_uses_with(made.result)
        if op.results[1].uses:  # whoever waits for the loop's end waits for the load, too
            before = op.operand("token")
            if before is None:
                fresh = Rewriter(context, loop).create(tileas.BY_NAME["make_token"], (), (TOKEN,))
                if fresh is None:
                    return False
                before = fresh.result
            op.results[1].replace_all_uses_with(before)
        op.erase()
        return True
