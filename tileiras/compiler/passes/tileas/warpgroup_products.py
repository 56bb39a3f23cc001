"""TileASWarpgroupProducts: products meant for wgmma take their operands from shared memory, asynchronously.

Before: `%a = load_shared %ring, %slot`, `%b = load_shared %ring, %slot`, `%d = mmaf %a, %b, %c {atom = "wgmma"}`.
After:  `%d = wgmma %ring, %slot, %ring, %slot, %c`, `wgmma.commit_group`. A left operand that was computed stays in registers.

What is not loaded as wgmma reads it is written back to shared memory first (`restage_rhs` and `copies_rhs` of the product):

        `%b = load_shared %ring, %slot`, `%w = itof %b`, `%d = mmaf %a, %w, %c {restage_rhs = .., copies_rhs = 2}`
After:  `store_shared %own, %turn, %w`, `barrier`, `%d = wgmma %ring, %slot, %own, %turn, %c`.

A product that adds up in a loop whose ring has a stage to spare is waited for one iteration later, so that the tensor cores
have work while warps meet at the barrier; any other is waited for at once. A product whose operands do not lie in shared
memory stays what it is: layouts of accumulators fit both.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import diags as D
from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.dialects.nv_tileas.rings import in_units
from tileiras.compiler.dialects.nv_tileas.types import SHARED
from tileiras.compiler.ir.core import Op, Value
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.rewrite import Rewriter
from tileiras.compiler.ir.types import I32, Dense, TensorType, TileType
from tileiras.compiler.ir.walk import erase_unused
from tileiras.compiler.layout.linear import splat
from tileiras.compiler.schedule.instructions import mma_sync
from tileiras.compiler.schedule.products import adds_up, no_warpgroups
from tileiras.compiler.schedule.restage import SIDES, buffer_bytes, is_invariant, source_load
from tileiras.compiler.target import sm, wgmma
from tileiras.compiler.target.products import PRODUCTS

from .again import erase_load, loaded_again
from .hoist_conversions import end_of_buffers
from .slice_products import may_go

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


# accesses to shared memory in the generic way; exchanges have places of their own, which no engine reads
COPIES = frozenset((tileas.COPY_VIEW, tileas.COPY_POINTERS))
_GENERIC = frozenset((tileas.LOAD_SHARED, tileas.STORE_SHARED, *COPIES))
_ISSUED = frozenset((tileas.TENSOR_PRODUCT, tileas.TENSOR_PRODUCT_ROWS, tileas.TENSOR_PRODUCT_SCALED))
_BULK = frozenset((tileas.BULK_LOAD, tileas.BULK_WAIT))
_WARPGROUPS = frozenset((tileas.WGMMA, tileas.WGMMA_REGISTERS))
# copies of threads count where they are there
_ACCESSES = frozenset((tileas.LOAD_SHARED, tileas.STORE_SHARED, tileas.CLEAR_SHARED, tileas.WAIT_GROUP))


class WarpgroupProducts(Pass):
    NAME = "TileASWarpgroupProducts"
    SUMMARY = "Issue products of warpgroups on operands in shared memory"
    """
    does: products whose operands lie in shared memory go by `wgmma`; where nobody else reads a ring that bulk copies fill, or
      threads (`cp.async`) beside products that take longer than all else, its stages have mbarriers and the loop no barrier
    without: `mma.sync`
    acts: staged_f16_nt on sm_90
    """
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:

        made = False
        shared: dict[Any, Place] = {}
        for op in [op for op in func.walk() if op.spec.name in ("mmaf", "mmai")]:
            issue = Issue(op, context, shared)
            if not issue.possible():
                target = context.target
                if target is not None and target.has(sm.WGMMA) and mma_sync(op, target) is not None:
                    reason = no_warpgroups(op) or (
                        "its operands do not all come by asynchronous copies, or would be written back beyond shared memory"
                    )
                    issue.say(D.NO_WARPGROUPS, reason=reason)
                continue
            if not issue.run():
                return False
            made = True
        if made:
            fence_barriers(func)
            if any(op.spec is tileas.BULK_BEGIN for op in func.walk()):
                from .release_stages import release_stages

                if not release_stages(func, context):
                    return False
            arrivals = context.target is not None and context.target.has(sm.ARRIVALS)
            if arrivals and any(op.spec in COPIES for op in func.walk()):
                from .arrive_warpgroups import arrive_warpgroups

                return arrive_warpgroups(func, context)
        return True


class Place:
    """Where an operand lies in shared memory, and the load that would have brought it to registers."""

    __slots__ = ("arrangement", "buffer", "holds", "load", "reader", "slot", "start")

    def __init__(self, buffer: Value, slot: Value, start: int, arrangement: Any, load: Op | None) -> None:
        self.holds: Value | None = None  # what was stored there last, for products that share the place
        self.reader: Op | None = None  # the wait for the last product that read it
        self.buffer = buffer
        self.slot = slot
        self.start = start
        self.arrangement = arrangement
        self.load = load


class Issue:
    """One product of warpgroups."""

    def __init__(self, op: Op, context: Context, shared: dict[Any, Place]) -> None:
        self.op = op
        self.context = context
        self.shared = shared  # places of operands by loop and number
        self.rewriter = Rewriter(context, op)
        self.block: Any = op.block
        self.loop = op.parent if op.parent is not None and op.parent.spec.name == "for" else None
        self.failed = False

    def possible(self) -> bool:
        """Whether the product goes by wgmma."""
        return reads_shared(self.op)

    def make(self, anchor: Op, spec: Any, groups: Any = (), types: Any = (), attrs: Any = None) -> Any:
        made = Rewriter(self.context, anchor).create(spec, groups, types, attrs)
        self.failed = self.failed or made is None
        return made

    def say(self, diag: Any, **fields: Any) -> None:
        self.context.remark(diag, self.op, **fields)

    def report(self, places: list[Place | None]) -> None:
        said = []
        for which, side in enumerate(SIDES):
            copies = self.op.attrs.get(f"copies_{side}", 1)
            if places[which] is None:
                how = "in registers"
            elif f"restage_{side}" not in self.op.attrs:
                how = "where it was loaded"
            elif copies:
                how = (
                    "written back to " + ("a buffer" if copies == 1 else f"{copies} buffers") + " of its own"
                )
            else:
                how = "written back to where it was loaded"
            said.append(f"the {('left', 'right')[which]} operand {how}")
        self.say(D.WARPGROUPS, left=said[0], right=said[1])

    def run(self) -> bool:
        op = self.op
        left: Any = op.operands[0].type
        loop = adds_up(op)
        places = self.places()
        a, b = places
        if self.failed or b is None:
            return False
        late = loop is not None and bool(loop.attrs.get("spare_stages"))
        if a is None and late:
            late = self.wait_for_registers()
        attrs: dict[str, Any] = {
            "depth": left.shape[-1], "elem": left.elem.name, "b_start": b.start, "b_arrangement": b.arrangement,
        }  # fmt: skip
        for name in ("signedness_lhs", "signedness_rhs"):
            if name in op.attrs:
                attrs[name] = op.attrs[name]
        groups = [b.buffer, b.slot, op.operands[2]]
        if a is not None:
            attrs.update(a_start=a.start, a_arrangement=a.arrangement)
            made = self.make(op, tileas.WGMMA, [a.buffer, a.slot, *groups], [op.result.type], attrs)
        else:
            made = self.make(op, tileas.WGMMA_REGISTERS, [op.operands[0], *groups], [op.result.type], attrs)
        self.make(op, tileas.WGMMA_COMMIT)
        if self.failed:
            return False
        self.report(places)
        if late:
            assert loop is not None and loop.block is not None
            if a is not None:
                top = next(inner for inner in loop.regions[0].block.ops if inner.spec is tileas.BARRIER)
                self.make(top, tileas.WGMMA_WAIT, attrs={"pending": 1})
            following = loop.block.ops[loop.block.ops.index(loop) + 1]
            self.make(following, tileas.WGMMA_WAIT, attrs={"pending": 0})
        else:
            wait: Op | None = self.make(op, tileas.WGMMA_WAIT, attrs={"pending": 0})
            for place in places:
                if place is not None:
                    place.reader = wait
        sides = list(op.operands[:2])
        self.rewriter.replace(op, [made.result])
        for place, value in zip(places, sides):
            if place is not None:
                erase_load(value)
                erase_unused(value.op, may_go)
        return not self.failed

    def wait_for_registers(self) -> bool:
        """The left operand comes from shared memory through registers, which the product before may still read: they are filled
        behind a wait for it, so that it runs while the right operand is prepared. False where they are not filled here."""
        load = source_load(self.op.operands[0])
        if load is None or load.block is not self.block:
            return False
        chain: list[Op] = []
        value: Value | None = self.op.operands[0]
        while value is not None and value.op is not None and value.op.block is self.block:
            op = value.op
            chain.append(op)
            tiles = [
                v
                for v in op.operands
                if v.op is not None and v.op.spec.name not in ("constant", "alloc_shared")
            ]
            value = None if op is load else tiles[0]
        self.make(self.op, tileas.WGMMA_WAIT, attrs={"pending": 0})
        block: Any = self.block
        for op in reversed(chain):
            block.ops.remove(op)
            block.insert_before(self.op, op)
        return True

    # ---- operands
    def places(self) -> list[Place | None]:
        """Where both operands lie, the left one None when it stays in registers. What is written back is written here."""
        places: list[Place | None] = []
        back: list[tuple[Value, Place, bool]] = []
        for which, side in enumerate(SIDES):
            value = self.op.operands[which]
            columns = self.op.attrs.get(f"restage_{side}")
            if columns is None:
                load = lies_in_shared(value) if which or value.type.shape[0] >= wgmma.M else None  # type: ignore[attr-defined]
                arrangement = load.attrs["arrangement"] if load is not None else None
                places.append(place_of(load, arrangement) if load is not None else None)
                continue
            while value.op is not None and value.op.spec is tileas.CONVERT_LAYOUT:
                value = value.op.operands[0]  # any layout can be stored
            place, settled = self.place(
                value, columns, self.op.attrs.get(f"copies_{side}", 1), self.op.attrs.get(f"place_{side}")
            )
            places.append(place)
            if not settled:
                crosses = place.load is not None and not keeps_place(place.load, value, columns)
                back.append((value, place, crosses or self.still_read(place)))
                place.holds = value
        made = [value.op for value, _, _ in back]
        if back and all(self.may_be_early(value, place) for value, place, _ in back):
            for value, place, _ in back:
                self.store_early(value, place)
            back = []
        ready = self.loop is None or any(
            inner.spec is tileas.BARRIER for inner in self.block.ops[: self.block.ops.index(self.op)]
        )
        if any(crosses for _, _, crosses in back) or back and not ready:
            self.make(self.op, tileas.BARRIER)  # everybody has read what is overwritten
        for value, place, _ in back:
            self.store(self.op, value, place)
        if back or not all(self.met_since(op) for op in made):
            self.make(self.op, tileas.BARRIER)
        return places

    def may_be_early(self, value: Value, place: Place) -> bool:
        """Whether a value can be stored where it is made, so that no register holds it while other products run, whose barriers
        serve it, too: one of them stands between, and none that reads the place."""
        made: Any = value.op
        if self.loop is None or place.load is not None or made is None or made.block is not self.block:
            return False
        ops: list[Op] = self.block.ops
        start = ops.index(made)
        between = ops[start : ops.index(self.op)]
        if not any(op.spec in _WARPGROUPS or op.spec.name in PRODUCTS for op in between):
            return False
        return place.reader is None or place.reader not in between

    def store_early(self, value: Value, place: Place) -> None:
        """Stores a value behind the op that makes it."""
        made: Any = value.op
        ops: list[Op] = self.block.ops
        anchor = ops[ops.index(made) + 1]
        since = ops[ops.index(place.reader) if place.reader in ops else 0 : ops.index(anchor)]
        if not any(op.spec is tileas.BARRIER for op in since):
            self.make(anchor, tileas.BARRIER)  # everybody has read what is overwritten
        self.store(anchor, value, place)

    def met_since(self, op: Any) -> bool:
        """Whether threads meet between an op and the product."""
        ops: list[Op] = self.block.ops
        return any(inner.spec is tileas.BARRIER for inner in ops[ops.index(op) : ops.index(self.op)])

    def store(self, anchor: Op, value: Value, place: Place) -> None:
        attrs = {"arrangement": place.arrangement, "start": place.start}
        self.make(anchor, tileas.STORE_SHARED, (place.buffer, place.slot, value), (), attrs)

    def still_read(self, place: Place) -> bool:
        """Whether another warp's product may still read what lies at a place: no barrier stands behind the wait for it."""
        ops: list[Op] = self.block.ops
        if place.reader is None or place.reader not in ops:
            return False
        between = ops[ops.index(place.reader) : ops.index(self.op)]
        return not any(inner.spec is tileas.BARRIER for inner in between)

    def place(self, value: Value, columns: Any, copies: int, share: int | None = None) -> tuple[Place, bool]:
        """Where a value is written back to; and whether that has been done already, in front of the loop or for a product before
        this one. `share`: of the loop's buffers, which products share."""
        if copies == 0:
            load = source_load(value)
            if load is not None and load.spec is tileas.LOAD_SHARED:
                return place_of(load, columns), False
            copies = 1
        key = self.block, share
        shares = copies == 1 and share is not None and self.loop is not None
        if shares and not is_invariant(value, self.block) and key in self.shared:
            before = self.shared[key]
            if before.holds is value and before.arrangement == columns:
                return before, True
            before.arrangement = columns
            return before, False
        size = buffer_bytes(value.type)
        around = self.loop if self.loop is not None else self.op
        offset = in_units(end_of_buffers(around))
        alloc = self.make(
            around, tileas.ALLOC_SHARED, (), (SHARED,), {"bytes": size * max(1, copies), "offset": offset}
        )
        warps = len(self.op.result.type.layout.warp)  # type: ignore[attr-defined]
        scalar = TensorType(I32, (), splat(0, warps))

        def number(anchor: Op, value: int) -> Value:
            data = Dense(TileType(I32, ()), value.to_bytes(4, "little"))
            return self.make(anchor, tileas.BY_NAME["constant"], (), (scalar,), {"value": data}).result  # type: ignore[no-any-return]

        slot = number(around, 0)
        invariant = self.loop is not None and is_invariant(value, self.block)
        if copies == 2 and self.loop is not None and not invariant:
            slot = self.alternate(slot, scalar, size, number)
        block = around.block
        assert block is not None
        following = block.ops[block.ops.index(around) + 1]
        self.make(following, tileas.FREE_SHARED, (alloc.result,))
        place = Place(alloc.result, slot, 0, columns, None)
        if shares and not invariant:
            self.shared[key] = place
        if invariant:
            self.in_front(value, around)
            self.store(around, loaded_again(value, around), place)
            self.make(around, tileas.BARRIER)
        return place, invariant

    def in_front(self, value: Value, loop: Op) -> None:
        """Renamings that the loop makes of a value from outside of it are made in front of it."""
        chain: list[Op] = []
        op = value.op
        while op is not None and op.block is self.block:
            chain.append(op)
            op = op.operands[0].op
        assert loop.block is not None
        for op in reversed(chain):
            self.block.ops.remove(op)
            loop.block.insert_before(loop, op)

    def alternate(self, start: Value, type: Any, size: int, number: Any) -> Value:
        """A value that the loop carries: 0 and `size` in turns."""
        from .lower_pipelines import add_operand

        loop = self.loop
        assert loop is not None
        body = loop.regions[0].block
        terminator = body.ops[-1]
        add_operand(loop, start)
        arg = body.add_arg(type)
        loop.results.append(Value(type, loop, len(loop.results)))
        other = self.make(
            terminator, tileas.BY_NAME["subi"], (number(terminator, size), arg), (type,), {"overflow": "none"}
        ).result
        add_operand(terminator, other)
        return arg


def reads_shared(product: Op) -> bool:
    """Whether a product goes by wgmma: its right operand lies in shared memory, or is brought there."""
    if product.attrs.get("atom") != "wgmma":
        return False
    return "restage_rhs" in product.attrs or lies_in_shared(product.operands[1]) is not None


def place_of(load: Op, arrangement: Any) -> Place:
    """Where a load from shared memory reads."""
    return Place(load.operands[0], load.operands[1], load.attr("start"), arrangement, load)


def keeps_place(load: Op, value: Value, columns: Any) -> bool:
    """Whether every thread writes back to the bytes that it alone has read."""
    have: Any = load.result.type
    want: Any = value.type
    lanes, warps = have.layout.replicated
    return (
        tuple(load.attrs["arrangement"]) == tuple(columns)
        and have.layout is want.layout
        and not have.layout.inv
        and not lanes
        and not warps
        and have.elem.bytes == want.elem.bytes
    )


def fence_barriers(func: Any) -> None:
    """What threads wrote to shared memory in the generic way is read by the tensor cores behind a barrier. A loop whose
    stages bulk copies write and tensor cores read has nothing to fence, nor has a barrier beside products with no access since
    the last one: exchanges there lie apart from all that engines touch."""
    for op in func.walk():
        if op.spec is tileas.BARRIER:
            op.attrs = {**op.attrs, "proxy_fence": True}
    for loop in dict.fromkeys(op.parent for op in func.walk() if op.spec in _ISSUED):
        if loop is None or loop.spec.name != "for":
            continue
        accessed = True  # in front of the body
        for op in loop.regions[0].block.ops:
            if op.spec is not tileas.BARRIER:
                accessed = accessed or any(inner.spec in _ACCESSES for inner in op.walk())
            elif accessed:
                accessed = False
            else:
                op.attrs = {name: value for name, value in op.attrs.items() if name != "proxy_fence"}
    for loop in dict.fromkeys(op.parent for op in func.walk() if op.spec in _WARPGROUPS):
        if loop is not None and loop.spec.name == "for" and not any(op.spec in _BULK for op in loop.walk()):
            fence_once(loop.regions[0].block)
    for loop in dict.fromkeys(op.parent for op in func.walk() if op.spec is tileas.BULK_WAIT):
        body = loop.regions[0].block
        if not any(op.spec in _GENERIC for op in loop.walk()):
            for op in body.ops:
                if op.spec is tileas.BARRIER:
                    op.attrs = {name: value for name, value in op.attrs.items() if name != "proxy_fence"}


def fence_once(body: Any) -> None:
    """A fence at the last barrier in front of products holds for all that its thread wrote: barriers in front of that one, at
    which copies have landed, or threads have read what they write back, have nothing to fence."""
    fenced = False  # at the next barrier, and no product before it
    for op in reversed(body.ops):
        if op.spec is tileas.BARRIER:
            if fenced:
                op.attrs = {name: value for name, value in op.attrs.items() if name != "proxy_fence"}
            fenced = fenced or "proxy_fence" in op.attrs
        elif any(inner.spec in _WARPGROUPS or inner.spec in _ISSUED for inner in op.walk()):
            fenced = False


def lies_in_shared(value: Any) -> Any:
    """The load from shared memory that makes operands of products and nothing else; None when it is in registers."""
    op = value.op
    if op is None or op.spec is not tileas.LOAD_SHARED:
        return None
    alone = len(value.uses) == 1 or all(user.spec.name in PRODUCTS for user, _ in value.uses)
    return op if alone else None
