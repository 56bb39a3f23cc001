"""The loop over slices that a group of ops becomes (see strip_mine).

Every op gets a twin that works on the slice of the current iteration. Reductions and scans along a cut dimension
keep what they have so far in values that the loop carries; where that is a huge tile itself, in local memory.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa.ops import BY_NAME
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Block, Op, Region, Value
from tileiras.compiler.ir.dense import dense_bits, num_elements
from tileiras.compiler.ir.spec import PURE
from tileiras.compiler.ir.types import (
    I1,
    I32,
    I64,
    TOKEN,
    Ptr,
    TensorType,
    TokenType,
)
from tileiras.compiler.target.cost import CostModel

from .slice_ops import Body, Slicer, copy_region, is_splat, splat_constant
from .slices import is_prefix, sliced

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .slice_plan import Plan
    from .slices import Cut
    from .strip_mine import StripMiner


def cut_of(value: Value, op: Op, want: Cut) -> Cut | None:
    """How an operand is cut with the result of an op that counts; None: the op renames its dimensions otherwise."""
    shape = value.type.shape  # type: ignore[attr-defined]
    if op.spec.name == "broadcast":
        cut = tuple(d for d in want if shape[d] != 1)
        return cut if len(cut) in (0, len(want)) else None
    if op.spec.name == "reshape":
        result = op.result.type.shape  # type: ignore[attr-defined]
        mine, theirs = ([d for d, e in enumerate(s) if e != 1] for s in (shape, result))
        if [shape[d] for d in mine] != [result[d] for d in theirs]:
            return None
        return tuple(mine[theirs.index(d)] for d in want)
    return want


def counted(value: Value, want: Cut) -> bool:
    """Whether a tile is made of numbers of rows or columns and scalars by few ops, so that a slice of it is as well."""
    work, ops = [(value, want)], 0
    while work:
        value, want = work.pop()
        op = value.op
        if op is None:
            return False
        if op.spec.name == "iota" or is_splat(op):
            continue
        ops += 1
        if (
            op.spec.name == "constant"
            or ops > CostModel.counting_operations
            or op.regions
            or len(op.results) != 1
        ):
            return False
        if op.spec.name not in ("broadcast", "reshape") and not (
            op.spec.elementwise and op.spec.traits & PURE
        ):
            return False
        for v in op.operands:
            cut = cut_of(v, op, want)
            if cut is None:
                return False
            if cut:
                work.append((v, cut))
    return True


class SliceLoop(Slicer):
    """Builds the loop of one group."""

    def __init__(
        self,
        miner: StripMiner,
        plans: list[Plan],
        s: int,
        reverse: bool,
        copies: list[tuple[Value, Value, Cut]],
    ) -> None:
        super().__init__()
        self.miner = miner
        self.plans = plans
        self.may_unroll = any(
            plan.accumulates for plan in plans
        )  # loads of the next part beside products of this one
        self.s = s
        self.reverse = reverse
        self.copies = copies  # (huge value, local memory it also goes to, cut)
        self.slices: dict[Value, Value] = {}
        self.read: dict[tuple[Value, Cut, tuple[int, ...]], Value] = {}
        self.carried: list[tuple[Value | None, Value]] = []  # (old value or None, initial new value)
        self.next: list[Value] = []
        self.numbers: dict[tuple[int, ...], Value] = {}

    def build(self) -> None:
        iv = self.block.add_arg(TensorType(I32, ()), "slice")
        self.index = iv
        if self.reverse:
            self.index = self.op("subi", [self.number((1 << self.s) - 1), iv], iv.type)
        for plan in self.plans:
            self.lower(plan)
        self.keep_outputs()
        for value, handle, cut in self.copies:
            part = self.slice(value, cut, tuple(range(self.s)))
            loc = value.op.loc if value.op is not None else None
            self.block.append(create(BY_NAME["local_write"], [handle, self.index, part], [], {}, loc=loc))
        loc = self.plans[0].op.loc if self.plans else None
        results = self.loop(self.miner.block, self.s, [init for _, init in self.carried], self.next, loc)
        for (old, _), result in zip(self.carried, results):
            if old is not None:
                self.miner.values[old] = result

    # ---- helpers
    def use(self, value: Value) -> Value:
        return self.miner.use(value)

    def carry(self, old: Value | None, initial: Value) -> Value:
        """A loop-carried value; `self.next` gets its following value."""
        self.carried.append((old, initial))
        return self.block.add_arg(initial.type)

    def number_at(self, places: tuple[int, ...]) -> Value:
        """Some bits of the current slice number."""
        found = self.numbers.get(places)
        if found is None:
            found = self.numbers[places] = self.bits(self.index, self.s, places)
        return found

    def slice(self, value: Value, want: Cut, places: tuple[int, ...]) -> Value:
        """The slice of a tile, cut along `want`, that bits of the slice number choose."""
        found = self.slices.get(value)
        if found is None:
            key = value, want, places
            found = self.read.get(key)
            if found is None:
                found = self.read[key] = self.make_slice(value, want, places)
        return found

    def make_slice(self, value: Value, want: Cut, places: tuple[int, ...]) -> Value:
        type: Any = value.type
        if is_splat(value.op):
            assert value.op is not None
            shape = sliced(type.shape, want)
            bits = dense_bits(value.op.attr("value"))[0]
            return self.op(
                "constant", [], TensorType(type.elem, shape), value=splat_constant(type.elem, shape, bits)
            )
        home = self.miner.home(value, want)
        if home is None and counted(value, want):
            return self.counted_slice(value, want, places)
        if home is None:
            return self.extract(self.miner.use(value), self.number_at(places), want)
        handle, cut = home
        n = len(cut)
        made = self.op(
            "local_read", [handle, self.number_at(places[:n])], TensorType(type.elem, sliced(type.shape, cut))
        )
        return self.extract(made, self.number_at(places[n:]), want[n:])

    def counted_slice(self, value: Value, want: Cut, places: tuple[int, ...]) -> Value:
        """The slice of a tile that counts rows or columns: computed again, where an extract would ask other threads for it."""
        op: Any = value.op
        type = TensorType(value.type.elem, sliced(value.type.shape, want))  # type: ignore[attr-defined]
        if op.spec.name == "iota":
            return self.count(type, self.number_at(places))
        operands = []
        for v in op.operands:
            cut = cut_of(v, op, want)
            operands.append(self.slice(v, cut, places) if cut else self.miner.use(v))
        made = create(op.spec, operands, [type], op.attrs, [], op.loc, op.segments)
        return self.block.append(made).result

    def operand(self, plan: Plan, i: int) -> Value:
        """An operand inside the loop: slice, token of this iteration, or a whole outer value."""
        value = plan.op.operands[i]
        want = plan.wants.get(i)
        if value in self.slices:
            return self.slices[value]
        if want is not None and want[0]:
            return self.slice(value, *want)
        return self.miner.use(value)

    # ---- ops
    def keep(self, plan: Plan, i: int, value: Value) -> None:
        self.slices[plan.op.results[i]] = value

    def lower(self, plan: Plan) -> None:
        special: dict[str, Callable[[Plan], None]] = {
            "reduce": self.reduce, "scan": self.scan, "for": self.nested,
        }  # fmt: skip
        if plan.accumulates:
            return self.product(plan)
        special.get(plan.op.spec.name, self.twin)(plan)

    def nested(self, plan: Plan) -> None:
        """A loop whose accumulator is sliced (see product_loops): the whole loop for the current slice."""
        op = plan.op
        inner: dict[Op, Plan] = plan.inner  # type: ignore[attr-defined]
        whole: set[Op] = plan.whole  # type: ignore[attr-defined]
        body, known = op.regions[0].block, self.miner.values
        operands = [self.operand(plan, i) for i in range(len(op.operands))]
        outer, numbers, read = self.block, self.numbers, self.read
        self.block, self.numbers, self.read = Block(), dict(numbers), dict(read)
        known[body.args[0]] = self.block.add_arg(body.args[0].type)
        for arg, init in zip(body.args[1:], operands[3:]):
            made = self.block.add_arg(init.type)
            (self.slices if isinstance(arg.type, TensorType) else known)[arg] = made

        def take(value: Value) -> Value:
            return self.slices[value] if value in self.slices else self.miner.use(value)

        for old in body.ops[:-1]:
            if old in inner:
                self.lower(inner[old])
            if old in whole:
                parts = [
                    take(v) if isinstance(v.type, TokenType) else self.miner.use(v) for v in old.operands
                ]
                new = create(
                    old.spec, parts, [r.type for r in old.results], old.attrs, [], old.loc, old.segments
                )
                self.block.append(new)
                known.update(zip(old.results, new.results))
        jump = body.ops[-1]
        self.block.append(
            create(jump.spec, [take(v) for v in jump.operands], [], jump.attrs, [], jump.loc, jump.segments)
        )
        made_body, self.block, self.numbers, self.read = self.block, outer, numbers, read
        types = [v.type for v in operands[3:]]
        loop = create(op.spec, operands, types, op.attrs, [Region([made_body])], op.loc, op.segments)
        self.results(plan, outer.append(loop))

    def product(self, plan: Plan) -> None:
        """A part of K, added to what came before."""
        op = plan.op
        state = self.carry(op.result, self.miner.use(op.operands[2]))
        operands = [self.operand(plan, 0), self.operand(plan, 1), state]
        new = create(op.spec, operands, [state.type], op.attrs, [], op.loc, op.segments)
        self.next.append(self.block.append(new).result)

    # ---- reductions and scans
    def identity(self, op: Op, i: int, shape: tuple[int, ...]) -> Value:
        attr = op.attr("identities")[i]
        bits = getattr(attr, "bits", None)
        elem = op.operands[i].type.elem  # type: ignore[attr-defined]
        if bits is None:
            bits = int(getattr(attr, "value", attr)) & ((1 << elem.bits) - 1)
        value = create(
            BY_NAME["constant"], [], [TensorType(elem, shape)], {"value": splat_constant(elem, shape, bits)}
        )
        return self.miner.block.append(value).result

    def partial(self, op: Op, operands: list[Value]) -> list[Value]:
        """The reduction of the current slices, in the order of a scan from the end where it is one."""
        shape = operands[0].type.shape  # type: ignore[attr-defined]
        dim = op.attr("dim")
        kept = shape[:dim] + shape[dim + 1 :]
        types = [TensorType(v.type.elem, kept) for v in operands]  # type: ignore[attr-defined]
        if op.spec.name == "reduce":
            return self.clone(op, operands, types)
        reduce = create(
            BY_NAME["reduce"], operands, types, {"dim": dim, "identities": op.attr("identities")},
            [copy_region(op.regions[0], self.use, bool(op.attr("reverse")))], op.loc, (len(operands),),
        )  # fmt: skip
        return list(self.block.append(reduce).results)

    def combine(self, op: Op, before: list[Value], parts: list[Value]) -> list[Value]:
        """What came so far and the current parts; slices come from the end in a reversed loop."""
        shape = parts[0].type.shape  # type: ignore[attr-defined]
        if self.reverse and op.spec.name == "reduce":
            return self.inline(op, parts, before, shape)
        return self.inline(op, before, parts, shape)

    def is_first(self, places: tuple[int, ...]) -> Value:
        """Whether the loop meets the current slice before all others that differ in these bits only."""
        edge = self.number((1 << len(places)) - 1 if self.reverse else 0)
        return self.op("cmpi", [self.number_at(places), edge], TensorType(I1, ()), comparison_predicate="equal",
                       signedness="unsigned")  # fmt: skip

    def reduce(self, plan: Plan) -> None:
        op = plan.op
        operands = [self.operand(plan, i) for i in range(len(op.operands))]
        parts = self.partial(op, operands)
        self.accumulate(plan, parts, list(op.results))

    def accumulate(self, plan: Plan, parts: list[Value], results: list[Value | None]) -> list[Value]:
        """Keeps totals of the slices so far, per block of the kept dimensions, and returns those before this slice.

        `results` name the totals after the loop; None where nobody wants them.
        """
        op, cut = plan.op, plan.cut
        dim = op.attr("dim")
        kept = tuple(p for p, d in enumerate(cut) if d != dim)
        along = tuple(p for p, d in enumerate(cut) if d == dim)
        block = parts[0].type.shape  # type: ignore[attr-defined]
        source = op.operands[0].type.shape  # type: ignore[attr-defined]
        whole = source[:dim] + source[dim + 1 :]
        kept_cut = tuple(cut[p] - (cut[p] > dim) for p in kept)
        if not kept:
            state = [self.carry(r, self.identity(op, i, whole)) for i, r in enumerate(results)]
            self.next += self.combine(op, state, parts)
            return state
        fresh = [self.identity(op, i, block) for i in range(len(parts))]
        if results[0] is None and max(kept) < min(along):  # one block after another
            first = self.is_first(along)
            state = [self.choose(first, f, self.carry(None, f)) for f in fresh]
            self.next += self.combine(op, state, parts)
            return state
        if num_elements(whole) > 1 << self.miner.limits.log2_slice:
            return self.accumulate_in_memory(plan, parts, results, fresh, whole, kept, along, kept_cut)
        held = [self.carry(r, self.identity(op, i, whole)) for i, r in enumerate(results)]
        where = self.dim_blocks(self.number_at(kept), kept_cut, len(whole))
        before = [self.extract(h, self.number_at(kept), kept_cut) for h in held] if along else fresh
        totals = self.combine(op, before, parts) if along else parts
        self.next += [self.insert(total, h, where) for total, h in zip(totals, held)]
        return before

    def accumulate_in_memory(
        self, plan: Plan, parts: list[Value], results: list[Value | None], fresh: list[Value],
        whole: tuple[int, ...], kept: tuple[int, ...], along: tuple[int, ...], kept_cut: Cut,
    ) -> list[Value]:  # fmt: skip
        """Totals of a tile that is huge itself wait in local memory, a slot for every block."""
        number = self.number_at(kept)
        handles = []
        for result, part in zip(results, parts):
            type = TensorType(part.type.elem, whole)  # type: ignore[attr-defined]
            handles.append(self.miner.allocate(type, kept_cut))
            if result is not None:
                self.miner.homes.setdefault(result, []).append((handles[-1], kept_cut))
        before, totals = fresh, parts
        if along:
            first = self.is_first(along)
            held = [self.op("local_read", [h, number], f.type) for h, f in zip(handles, fresh)]
            before = [self.choose(first, f, h) for f, h in zip(fresh, held)]
            totals = self.combine(plan.op, before, parts)
        for handle, total in zip(handles, totals):
            self.block.append(
                create(BY_NAME["local_write"], [handle, number, total], [], {}, loc=plan.op.loc)
            )
        return before

    def scan(self, plan: Plan) -> None:
        op = plan.op
        operands = [self.operand(plan, i) for i in range(len(op.operands))]
        local = self.clone(op, operands, [v.type for v in operands])
        if plan.along:
            shape: Any = operands[0].type.shape  # type: ignore[attr-defined]
            dim = op.attr("dim")
            one = shape[:dim] + (1,) + shape[dim + 1 :]
            totals = self.partial(op, operands)
            prefixes = []
            for v in self.accumulate(plan, totals, [None] * len(totals)):
                elem = v.type.elem  # type: ignore[attr-defined]
                spread = self.op("reshape", [v], TensorType(elem, one))
                prefixes.append(self.op("broadcast", [spread], TensorType(elem, shape)))
            local = self.inline(op, prefixes, local, shape)
        for old, value in zip(op.results, local):
            self.slices[old] = value

    # ---- what later ops need
    def keep_outputs(self) -> None:
        """Values used outside: huge ones to local memory, tokens through the loop."""
        inside = {plan.op for plan in self.plans}
        copied = {value for value, _, _ in self.copies}
        for plan in self.plans:
            for value, cut in zip(plan.op.results, plan.results):
                if value not in self.slices:
                    continue
                users = [user for user, _ in value.uses if _outside(user, inside)]
                if not users:
                    continue
                if isinstance(value.type, TokenType):
                    start = self.miner.block.append(create(BY_NAME["make_token"], [], [TOKEN])).result
                    self.carry(value, start)
                    self.next.append(self.slices[value])
                    continue
                assert cut is not None
                if value in copied and len(users) == 1:  # only the jump that the copy stands for
                    continue
                handle = self.miner.allocate(value.type, cut)
                self.block.append(
                    create(
                        BY_NAME["local_write"],
                        [handle, self.index, self.slices[value]],
                        [],
                        {},
                        loc=plan.op.loc,
                    )
                )
                self.miner.homes.setdefault(value, []).append((handle, cut))


def recut(miner: StripMiner, value: Value, want: Cut) -> None:
    """Gives a huge value in local memory a second home with another cut.

    Every new slice is put together from the blocks that old slices have of it.
    """
    type: Any = value.type
    shape, rank = type.shape, len(type.shape)
    handle, have = miner.homes[value][0]
    new = miner.allocate(type, want)
    mine = [min(have.count(d), want.count(d)) for d in range(rank)]
    # places of the old slice number that a new slice leaves open
    seen = [0] * rank
    free = []
    for p, d in enumerate(have):
        seen[d] += 1
        if seen[d] > mine[d]:
            free.append(p)
    finer = [max(0, want.count(d) - have.count(d)) for d in range(rank)]
    coarser = [max(0, have.count(d) - want.count(d)) for d in range(rank)]
    scalar = TensorType(I32, ())
    outer, inner = Body(), Body()
    j = outer.block.add_arg(scalar, "slice")
    blocks = outer.dim_blocks(j, want, rank)
    small = TensorType(type.elem, sliced(shape, want))
    if isinstance(type.elem, Ptr):
        zeros = outer.op(
            "constant", [], TensorType(I64, small.shape), value=splat_constant(I64, small.shape, 0)
        )
        start = outer.op("int_to_ptr", [zeros], small)
    else:
        start = outer.op("constant", [], small, value=splat_constant(type.elem, small.shape, 0))
    i = inner.block.add_arg(scalar, "part")
    held = inner.block.add_arg(small)
    # the old slice number, bit by bit
    number: Value | None = None
    seen = [0] * rank
    for p, d in enumerate(have):
        seen[d] += 1
        if p in free:
            bit = inner.bits(i, len(free), (free.index(p),))
        else:
            bit = inner.bits(blocks[d], want.count(d), (seen[d] - 1,))
        if len(have) - 1 - p:
            bit = inner.op("shli", [bit, inner.number(len(have) - 1 - p)], scalar)
        number = bit if number is None else inner.op("ori", [number, bit], scalar)
    assert number is not None
    piece = inner.op("local_read", [handle, number], TensorType(type.elem, sliced(shape, have)))
    low = []
    at = []
    for d in range(rank):
        bits = want.count(d)
        low.append(
            inner.bits(blocks[d], bits, tuple(range(bits - finer[d], bits))) if finer[d] else inner.number(0)
        )
        places = tuple(k for k, p in enumerate(free) if have[p] == d)
        at.append(inner.bits(i, len(free), places) if coarser[d] else inner.number(0))
    extent = tuple(e >> finer[d] for d, e in enumerate(sliced(shape, have)))
    part = inner.op("extract", [piece, *low], TensorType(type.elem, extent), segments=(1, rank))
    merged = inner.insert(part, held, at)
    made = inner.loop(outer.block, len(free), [start], [merged])
    outer.block.append(create(BY_NAME["local_write"], [new, j, made[0]], [], {}))
    outer.loop(miner.block, len(want), [], [])
    miner.homes[value].append((new, want))


def home_for(homes: list[tuple[Value, Cut]], want: Cut) -> tuple[Value, Cut] | None:
    """The local memory that holds the slices of a cut, or coarser ones; the finest of them."""
    fitting = [h for h in homes if is_prefix(h[1], want)]
    return max(fitting, key=lambda h: len(h[1])) if fitting else None


def _outside(user: Op, inside: set[Op]) -> bool:
    op: Op | None = user
    while op is not None:
        if op in inside:
            return False
        op = op.parent
    return True
