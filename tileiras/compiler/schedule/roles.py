"""Who copies and who multiplies: warps of a kernel that only issue the copies of its rings, beside those that do all else.

A ring whose stages bulk copies fill and whose readers release them (`passes/tileas/release_stages.py`, `commit_stages.py`) can
be filled by anyone: its mbarriers are all that both sides share. The warps that fill it run what the copies need and nothing
else, and so as far ahead as there are free stages, past the ends of loops as well. What they run is found here by marking: the
copies, the loops and branches around them, exits, and what all of those are computed from. It must be numbers that every thread
can compute for itself.

Where products add up in tensor memory (`Sums`), their warp is a role as well: it runs the loops, waits for stages and issues
products, and passes each sum on to the warps that do the rest. These have no loop any more, only its sums.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.ir.spec import NO_MEMORY_EFFECT, PURE
from tileiras.compiler.ir.types import TOKEN, TensorType
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.tcgen05 import COLUMNS, STATE_BYTES

from .bulk import fresh
from .candidates import constant_int, outermost_loop
from .tensor_memory import is_zero

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value

CONTROL = frozenset(("for", "loop", "if"))
COPIES = frozenset((tileas.COPY_VIEW, tileas.COPY_POINTERS))
EXITS = frozenset(("break", "continue", "return"))
LOADS = frozenset(("load_view_tko", "load_ptr_tko"))
PRODUCTS_IN_MEMORY = frozenset((tileas.TENSOR_PRODUCT, tileas.TENSOR_PRODUCT_SCALED))
HARMLESS = frozenset(("assume", "make_token", "join_tokens"))  # though not pure
EXCHANGE = "scratch"  # attribute of an op that exchanges values between warps


class NoRoles(Exception):
    """Why all warps of a kernel do everything; `op` is what is in the way."""

    def __init__(self, op: Op, reason: str) -> None:
        super().__init__(reason)
        self.op = op
        self.reason = reason


class Ring:
    """A ring that copies fill and its readers release. `load`: the bulk copies of the loop; `copies`: those of threads, where
    there are no bulk copies; `ahead`: stages that are free at first; `shift`: iterations that the loop's copies are ahead;
    `places`: what of the loop's carried values the offsets of the stages read and released, and the phase, are; `sums`: where
    tensor memory has the loop's sums."""

    __slots__ = (
        "ahead",
        "alloc",
        "begin",
        "copies",
        "end",
        "load",
        "loop",
        "places",
        "pool",
        "release",
        "shift",
        "stage",
        "stages",
        "sums",
        "wait",
    )

    def __init__(self, begin: Op) -> None:
        users = [user for user, _ in begin.operands[0].uses]
        self.begin = begin
        self.alloc: Any = begin.operands[0].op
        self.wait = next(op for op in users if op.spec is tileas.BULK_WAIT)
        self.release = next(op for op in users if op.spec in (tileas.BULK_RELEASE, tileas.BULK_COMMIT))
        self.end = next(op for op in users if op.spec is tileas.BULK_END)
        loop = self.wait.parent
        assert loop is not None
        self.loop = loop
        body = loop.regions[0].block
        self.load: Any = next((op for op in users if op.spec is tileas.BULK_LOAD and op.block is body), None)
        self.copies = [op for op in body.ops if op.spec in COPIES and op.operands[0] is begin.operands[0]]
        self.stage: int = begin.attr("stage_bytes")
        self.stages: int = begin.attr("stages")
        self.places = [
            v.index - 1 for v in (self.wait.operands[1], self.release.operands[1], self.wait.operands[2])
        ]
        first = constant_int(loop.operands[2 + self.fills[0].operands[1].index])
        assert first is not None
        self.shift = first // self.stage
        commits = self.release.spec is tileas.BULK_COMMIT
        self.ahead = self.stages if commits else self.shift
        self.sums = Sums(loop) if commits else None
        self.pool = self

    @property
    def fills(self) -> list[Op]:
        """What fills a stage in the loop."""
        return self.copies if self.load is None else [self.load]

    @property
    def start(self) -> int:
        return self.alloc.attr("offset")  # type: ignore[no-any-return]

    @property
    def nested(self) -> bool:
        """Whether the ring's loop may be entered more than once."""
        return outermost_loop(self.loop) is not None

    @property
    def form(self) -> tuple[Any, ...]:
        """What loops must agree on to go on with the stages where another one has stopped."""
        return (self.start, self.ahead, self.sums is not None, *sorted(self.begin.attrs.items()))


class Sums:
    """The accumulators in tensor memory that a loop's products add to: `begins` with what allocated them; `stores` of what they
    begin with; `commits` and `reads` behind the loop."""

    __slots__ = ("begins", "commits", "memory", "products", "reads", "stores")

    def __init__(self, loop: Op) -> None:
        body = loop.regions[0].block
        self.products = [op for op in body.ops if op.spec in PRODUCTS_IN_MEMORY]
        self.begins: list[Any] = list(dict.fromkeys(op.operands[0].op for op in self.products))
        self.memory: Any = self.begins[0].operands[0].op
        users = [user for begin in self.begins for user, _ in begin.result.uses]
        self.stores = [op for op in users if op.spec is tileas.TENSOR_STORE]
        self.commits = [op for op in users if op.spec is tileas.TENSOR_COMMIT]
        self.reads = [op for op in users if op.spec in (tileas.TENSOR_LOAD, tileas.TENSOR_WAIT)]


def rings(func: Op) -> list[Ring]:
    """The rings of a function that other warps could fill, in program order. Loops one behind the other whose rings have the
    same form share a `pool`, the first of them: its stages and mbarriers serve all."""
    first: dict[Any, Ring] = {}
    found = []
    for op in func.walk():
        if op.spec is tileas.BULK_BEGIN and op.attr("released") is not None:
            ring = Ring(op)
            ring.pool = first.setdefault(ring.form, ring)
            found.append(ring)
    bulk = [ring for ring in found if ring.load is not None]
    return bulk or [
        ring for ring in found if ring.sums is None
    ]  # one thread issues bulk copies, all of a warp the others


class Needs:
    """What the warps that fill rings run (without `copies`: those that multiply): `ops`; `carried`: of each loop the numbers of
    the values that they carry; `given`: of
    each branch, and each loop that ends by `break`, those of its results. `shifted`: values of a ring's loop that belong
    to an iteration ahead."""

    __slots__ = ("carried", "func", "given", "ops", "rings", "seen", "shifted", "work")

    def __init__(self, func: Op, found: list[Ring], copies: bool = True) -> None:
        self.func = func
        self.rings = {ring.loop: ring for ring in found}
        self.ops: set[Op] = set()
        self.carried: dict[Op, set[int]] = {}
        self.given: dict[Op, set[int]] = {}
        self.shifted: set[Value] = set()
        self.seen: set[Value] = set()
        self.work: list[Value] = []
        for ring in found:
            for op in ring.fills if copies else [ring.wait]:
                self.add(op)
            if copies:
                for op in ring.fills:
                    self.work += sources(op)
        last = func.regions[0].block.ops[-1]
        for op in func.walk():
            if op.spec.name == "return" and op is not last:
                self.add(op)
        while self.work:
            self.value(self.work.pop())

    def add(self, op: Op) -> None:
        """An op that runs, with what is around it; its operands are up to the caller."""
        while op is not self.func and op not in self.ops:
            self.ops.add(op)
            name = op.spec.name
            if name == "for":
                self.work += op.operands[:3]
            elif name == "if":
                self.work.append(op.operands[0])
            if name in ("for", "loop"):
                for leave in exits_of(op):
                    if leave is not op.regions[0].block.ops[-1]:
                        self.add(leave)
            parent = op.parent
            assert parent is not None
            op = parent

    def value(self, value: Value) -> None:
        if value in self.seen or value.type is TOKEN:
            return
        self.seen.add(value)
        op = value.op
        if op is None:
            owner = value.owner.region.op  # type: ignore[union-attr]
            assert owner is not None
            if owner is self.func:
                return
            if owner in self.rings:
                raise NoRoles(owner, "a copy needs what the iteration that waits for it carries")
            if owner.spec.name == "loop":
                return self.carry(owner, value.index)
            if owner.spec.name != "for":
                raise NoRoles(owner, "a copy needs what only this op's region knows")
            self.add(owner)
            if value.index:
                self.carry(owner, value.index - 1)
            return
        name = op.spec.name
        if name == "for":
            return self.carry(op, op.results.index(value))
        if name in CONTROL:
            return self.give(op, op.results.index(value))
        if self.is_shifted(value, op):
            self.shifted.add(value)
            self.add(op)
            return
        why = self.refused(op)
        if why is not None:
            raise NoRoles(op, why)
        self.add(op)
        self.work += op.operands

    def carry(self, op: Op, number: int) -> None:
        """A value that a loop carries."""
        self.add(op)
        known = self.carried.setdefault(op, set())
        if number in known:
            return
        known.add(number)
        self.work.append(op.operands[number + (3 if op.spec.name == "for" else 0)])
        self.work += [leave.operands[number] for leave in exits_of(op) if leave.spec.name == "continue"]

    def give(self, op: Op, number: int) -> None:
        """A result of a branch, or of a loop that ends by `break`."""
        self.add(op)
        known = self.given.setdefault(op, set())
        if number in known:
            return
        known.add(number)
        if op.spec.name == "loop":
            self.work += [leave.operands[number] for leave in exits_of(op) if leave.spec.name == "break"]
        else:
            ends = [region.block.ops[-1] for region in op.regions if region.blocks]
            self.work += [end.operands[number] for end in ends if end.spec.name == "yield"]

    def is_shifted(self, value: Value, op: Op) -> bool:
        """Whether a value is the induction variable of a ring's loop as many iterations ahead as its copies are."""
        parent = op.parent
        ring = self.rings.get(parent) if parent is not None else None  # type: ignore[arg-type]
        if ring is None or op.spec.name != "addi" or op.operands[0] is not ring.loop.regions[0].block.args[0]:
            return False
        step, by = constant_int(ring.loop.operands[2]), constant_int(op.operands[1])
        return step is not None and by == ring.shift * step

    def refused(self, op: Op) -> str | None:
        """Why warps that only copy cannot run an op themselves."""
        name = op.spec.name
        for result in op.results:
            type: Any = result.type
            if isinstance(type, TensorType) and num_elements(type.shape) > 1:
                return "a copy needs what all warps compute together"
        if name in LOADS:
            if op.attr("memory_ordering_semantics") != "weak" or not fresh(op.operand("token")):
                return "a copy needs what is loaded behind other accesses"
        elif op.regions or not (op.spec.traits & (PURE | NO_MEMORY_EFFECT) or name in HARMLESS):
            return "a copy needs the result of an op with effects"
        return "a copy needs what warps exchange" if EXCHANGE in op.attrs else None


def sources(op: Op) -> list[Value]:
    """What says where a copy takes its bytes from. Errors: NoRoles where other accesses come first."""
    if op.spec is tileas.BULK_LOAD:
        return op.group("index")  # type: ignore[no-any-return]
    if not fresh(op.operand("token")):
        raise NoRoles(op, "it copies what was stored before")
    return [v for v in op.operands[3:] if v.type is not TOKEN]


def exits_of(loop: Op) -> list[Op]:
    """What ends an iteration of a loop or the loop itself: its `continue` and `break` ops."""
    found: list[Op] = []
    work = [loop.regions[0].block]
    while work:
        for op in work.pop().ops:
            if op.spec.name in ("continue", "break"):
                found.append(op)
            elif op.spec.name == "if":
                work += [region.block for region in op.regions if region.blocks]
    return found


# ---- sums in tensor memory


def check_sums(func: Op, ring: Ring) -> None:
    """Whether warps that do not run a loop have all that it leaves. Errors: NoRoles."""
    loop, sums = ring.loop, ring.sums
    assert sums is not None
    own = {ring.wait, *ring.fills, ring.release, *sums.products}
    for op in loop.regions[0].block.ops[:-1]:
        if op not in own and (
            op.regions or not (op.spec.traits & (PURE | NO_MEMORY_EFFECT) or op.spec.name in HARMLESS)
        ):
            raise NoRoles(op, "it stands beside products whose warp does nothing else")
    for result in loop.results:
        if result.uses and result.type is not TOKEN:
            raise NoRoles(loop, "the loop leaves more than its sums")
    for op in sums.stores:
        value = op.operands[1]
        while value.op is not None and value.op.spec is tileas.CONVERT_LAYOUT:
            value = value.op.operands[0]
        if not is_zero(value):
            raise NoRoles(op, "sums begin with other numbers than zero")
    for op in sums.products:
        for value in op.operands:
            if (
                value.op is not None
                and value.op.spec is tileas.ALLOC_SHARED
                and value is not ring.alloc.result
            ):
                raise NoRoles(op, "an operand does not come through the ring")
    if len(sums.reads) != len(sums.begins) or any(op.block is not loop.block for op in sums.reads):
        raise NoRoles(loop, "sums are not read once behind the loop")
    for op in func.walk():
        if op is sums.memory:
            break
        if EXCHANGE in op.attrs and op.attrs[EXCHANGE][0] < STATE_BYTES:
            raise NoRoles(op, "its exchange lies where tensor memory keeps its state")


def sum_buffers(ring: Ring, shared_bytes: int) -> int:
    """How many sums of each accumulator there are at once: two where a loop is entered again and again, so that one is read while
    the next adds up, as long as all blocks that fit an SM find columns."""
    assert ring.sums is not None
    blocks = max(1, CostModel.shared_of_sm // (shared_bytes + CostModel.shared_of_block))
    return 2 if ring.nested and 2 * ring.sums.memory.attr("columns") * blocks <= COLUMNS else 1


def reading_registers(ring: Ring) -> int:
    """Registers of a thread that reads sums, about."""
    assert ring.sums is not None
    most = max((op.result.type.layout.num_regs for op in ring.sums.reads if op.results), default=0)  # type: ignore[attr-defined]
    return CostModel.loop_registers + most  # type: ignore[no-any-return]


# ---- shared memory: nobody may use a ring's bytes while others fill it


def make_room(func: Op, found: list[Ring], limit: int) -> tuple[dict[Op, tuple[int, int]], dict[Op, Op]]:
    """(new places, of exchanges that would meet copies which run ahead; exchanges that repeat an earlier one instead).
    Errors: NoRoles where there is no room for them."""
    order = {op: number for number, op in enumerate(func.walk())}
    pools = [[ring for ring in found if ring.pool is pool] for pool in dict.fromkeys(r.pool for r in found)]
    clashes: list[Op] = []
    moved: dict[Op, tuple[int, int]] = {}
    twins: dict[Op, Op] = {}
    state = STATE_BYTES if any(ring.sums is not None for ring in found) else 0
    for op in order:
        place = op.attrs.get(EXCHANGE)
        if place is not None and place[0] < state:  # its mbarriers serve all agents, whoever has freed it
            place = moved[op] = place[0] + state, place[1]
        if place is not None and any(meets(op, place[0], sum(place), pool, order) for pool in pools):
            twin = earlier(op)
            if twin is not None:
                twins[op] = twins.get(twin, twin)
            else:
                clashes.append(op)
        elif op.spec is tileas.ALLOC_SHARED:
            start = op.attr("offset")
            for pool in pools:
                own = any(op is ring.alloc for ring in pool)
                if not own and meets(op, start, start + op.attr("bytes"), pool, order):
                    raise NoRoles(op, "its bytes are those of a ring that is filled ahead")
    for op, (start, size) in moved.items():
        if op not in clashes and op not in twins and start + size > limit:
            raise NoRoles(op, "shared memory has no room for its exchange beside the state of tensor memory")
    if not clashes:
        return moved, twins
    allocs = [op for op in order if op.spec is tileas.ALLOC_SHARED]
    base = max(op.attr("offset") + op.attr("bytes") for op in allocs)
    base = base + 127 & ~127
    for op in clashes:
        if base + op.attrs[EXCHANGE][1] > limit:
            raise NoRoles(
                op, "shared memory has no room for its exchange beside stages that are filled ahead"
            )
    return {**moved, **{op: (base, op.attrs[EXCHANGE][1]) for op in clashes}}, twins


def earlier(op: Op) -> Op | None:
    """A conversion of the same value to the same layout in front of one in its block."""
    if op.spec is not tileas.CONVERT_LAYOUT or op.block is None:
        return None
    for user, _ in op.operands[0].uses:
        if user is op or user.block is not op.block or user.spec is not op.spec:
            continue
        if user.result.type is op.result.type and op.block.ops.index(user) < op.block.ops.index(op):
            return user
    return None


def meets(op: Op, start: int, end: int, pool: list[Ring], order: dict[Op, int]) -> bool:
    """Whether the bytes that an op uses may hold what is copied ahead, or mbarriers that are still in use."""
    ring = pool[0]
    stages, all = ring.start + ring.stages * ring.stage, ring.start + ring.alloc.attr("bytes")
    if start >= all or end <= ring.start:
        return False
    last = 0
    for ring in pool:
        around = outermost_loop(ring.loop)
        last = max(last, order[ring.loop] if around is None else max(order[inner] for inner in around.walk()))
    if start < stages and order[op] < last:
        return True
    return end > stages and not (ends_in_time(pool) and behind(op, ring.end))


def ends_in_time(pool: list[Ring]) -> bool:
    """Whether the mbarriers of a ring are none any more behind its loop: it is alone, and entered once."""
    return len(pool) == 1 and not pool[0].nested


def behind(op: Op, other: Op) -> bool:
    """Whether an op runs after another one wherever both run: it, or what is around it, follows in a block around the other."""
    chain = {}
    place: Op | None = other
    while place is not None:
        chain[place.block] = place
        place = place.parent
    place = op
    while place is not None:
        if place.block in chain:
            mate, block = chain[place.block], place.block
            return mate is not place and block is not None and block.ops.index(mate) < block.ops.index(place)
        place = place.parent
    return False


# ---- registers
