"""strip-mine: runs ops over huge tiles as loops over slices.

A tile of 2^20 elements has no room in registers. Ops on tiles above a limit are collected into groups; a group
becomes one loop over slices, every op working on its slice. A value that a later group needs waits in local memory,
one slot per slice. A reduction along a dimension that is cut is carried through the loop; so is the running prefix of
a scan. What loops carry and branches yield waits in local memory too when it is larger than a block's registers.

Before: `%s = addf %a, %b : tensor<1048576xf32>`.
After: `for %i in (0 to 128, step 1) { %s = addf %a', %b' : tensor<8192xf32> ... }`.

Token order inside a loop must hold slice by slice: a store that waits for a load joins its loop only when both touch
the same addresses. Operands cut along other dimensions than an op can work with are cut again, through local memory.
Ops with no sliced form (print, products of tiles that registers hold) keep whole tiles.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa.ops import BY_NAME
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Block, Op, Region, Value
from tileiras.compiler.ir.types import TOKEN, TokenType

from .slice_loop import SliceLoop, home_for, recut
from .slice_ops import is_splat
from .slice_plan import MEMORY, POINTER_OPS, VIEW_OPS, Plan, index_space, is_whole, plan_of
from .slices import HUGE, cut_fits, extended_cut, is_prefix, leading_cut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from tileiras.compiler.schedule.budget import Budget

    from .slices import Cut, Limits

    Home = tuple[Value, Cut]  # local memory handle, the cut of its slots

CONTROL = frozenset({"for", "loop", "if"})
JUMPS = frozenset({"continue", "break", "yield"})


def needs_strip_mining(func: Op, limits: Limits = HUGE) -> bool:
    return any(limits.is_big(r) for op in func.walk() for r in op.results)


def strip_mine(func: Op, budget: Budget | None = None, limits: Limits = HUGE) -> Op:
    """The function with loops over slices; the function itself when no tile is above the limit.

    `budget`: what matrix products may use; without one, all that registers could hold.
    """
    if not needs_strip_mining(func, limits):
        return func
    worker = StripMiner(func, budget, limits)
    region = worker.region(func.regions[0])
    return create(func.spec, attrs={**func.attrs, "strip_mined": True}, regions=[region], loc=func.loc)


class _Group:
    """Ops that run in one loop: log2 of its slices, the direction, what the ops made and how it is cut."""

    def __init__(self, s: int) -> None:
        self.s = s
        self.plans: list[Plan] = []
        self.made: dict[Value, Cut | None] = {}
        self.reverse: bool | None = None
        self.copies: list[tuple[Value, Value, Cut]] = []  # see SliceLoop

    def add(self, plan: Plan) -> None:
        self.plans.append(plan)
        self.made.update(zip(plan.op.results, plan.results))


class StripMiner:
    """Rebuilds regions. `values`: old value -> new whole value. `homes`: old huge value -> where its slices lie."""

    def __init__(self, func: Op, budget: Budget | None, limits: Limits) -> None:
        self.budget = budget
        self.limits = limits
        self.values: dict[Value, Value] = {}
        self.homes: dict[Value, list[Home]] = {}
        self.frames: list[
            dict[str, list[Home | None]]
        ] = []  # of open loops and branches: jump -> homes of its operands
        self.group: _Group | None = None
        self.block: Block = Block()
        self.late: dict[tuple[int, ...], set[int]] = {}  # dimensions of a shape that are better not cut
        for op in func.walk():
            if op.spec.name == "reduce" and self.limits.is_big(
                op.result if len(op.results) == 1 else op.results[0]
            ):
                self.late.setdefault(op.operands[0].type.shape, set()).add(op.attr("dim"))  # type: ignore[attr-defined]

    def region(self, region: Region) -> Region:
        out = Region()
        known = {value: len(homes) for value, homes in self.homes.items()}
        for block in region.blocks:
            outer, self.block = self.block, Block()
            for arg in block.args:
                if arg not in self.homes:
                    self.values[arg] = self.block.add_arg(arg.type, arg.name)
            for op in block.ops:
                self.visit(op)
            self.close()
            out.append(self.block)
            self.block = outer
        for value, count in known.items():  # what was cut again in here was not on every way to what follows
            del self.homes[value][count:]
        return out

    # ---- which ops join a group
    def visit(self, op: Op) -> None:
        if op.spec.name == "constant" and self.limits.is_big(op.result) and is_splat(op):
            return  # made again wherever it is used
        plan = self.plan(op)
        if plan is not None:
            if self.group is not None and not self.compatible(plan):
                self.close()
            if self.group is None:
                self.group = _Group(len(plan.cut))
            if op.spec.name == "scan" and plan.along:
                self.group.reverse = bool(op.attr("reverse"))
            self.group.add(plan)
            return
        if self.group is not None and self.must_follow(op):
            if op.spec.name == "join_tokens":
                self.group.add(Plan(op, (), {}, [None]))
                return
            if op.spec.name not in JUMPS:
                self.close()
        if op.spec.name in CONTROL:
            self.control(op)
        elif op.spec.name in JUMPS and any(v is not None for v in self.jump_homes(op)):
            self.jump(op)
        else:
            if op.spec.is_terminator:
                self.close()
            self.whole(op)

    def must_follow(self, op: Op) -> bool:
        """Whether an op that is not sliced has to come behind the open group."""
        assert self.group is not None
        made = self.group.made
        name = op.spec.name
        if op.spec.is_terminator or name in CONTROL or name in MEMORY or name.endswith("_tko"):
            return True
        return any(v in made for inner in op.walk() for v in inner.operands)

    def plan(self, op: Op) -> Plan | None:
        """How an op runs in slices; None when it has no sliced form here. Cuts operands again where it must."""
        if not any(self.limits.is_big(v) for v in (*op.operands, *op.results)):
            return None
        if op.spec.name == "for":
            return self.loop_plan(op)
        shape = index_space(op, self.limits)
        if shape is None or any(self.limits.is_big(v) and not self.cuts(v) for v in op.operands):
            return None
        best: tuple[list[tuple[Value, Cut]], Plan] | None = None
        for cut in self.candidates(op, shape):
            plan = plan_of(op, cut, self.limits) if cut_fits(shape, cut) and cut else None
            if plan is None:
                continue
            misfits = [
                (op.operands[i], want)
                for i, (want, _) in plan.wants.items()
                if self.limits.is_big(op.operands[i]) and not self.fits(op.operands[i], want)
            ]
            if not misfits:
                return plan
            if best is None or len(misfits) < len(best[0]):
                best = misfits, plan
        if best is None:
            return None
        self.close()
        for value, want in best[0]:
            cut = want[: max(1, min(len(want), self.limits.log2_slices(value.type.shape)))]  # type: ignore[attr-defined]
            if home_for(self.homes[value], want) is None:
                recut(self, value, cut)
        return best[1]

    def loop_plan(self, op: Op) -> Plan | None:
        """How a loop over a product runs in slices of its accumulator."""
        if self.budget is None:
            return None
        from .product_loops import plan_product_loop

        plan = plan_product_loop(op, self.budget)
        if plan is None:
            return None
        start = next(op.operands[i] for i in plan.wants)
        return plan if self.fits(start, plan.cut) else None

    def candidates(self, op: Op, shape: tuple[int, ...]) -> Iterator[Cut]:
        """Cuts of the index space worth trying: those that operands have, then the one that suits the shape."""
        name = op.spec.name
        s = self.limits.log2_slices(shape)
        if name == "broadcast":
            source = op.operands[0].type.shape  # type: ignore[attr-defined]
            natural = leading_cut(shape, s, self.late.get(shape, ()))
            if self.limits.is_big(op.operands[0]) and not is_splat(op.operands[0].op):
                for cut in self.cuts(op.operands[0]):
                    yield extended_cut(shape, cut, max(s, len(cut)))
            elif source != shape:
                yield natural
            yield natural
            return
        if name not in ("cat",):
            for v in op.operands:
                if self.limits.is_big(v) and v.type.shape == shape and not is_splat(v.op):  # type: ignore[attr-defined]
                    yield from self.cuts(v)
        yield leading_cut(shape, s, self.late.get(shape, ()))

    def cuts(self, value: Value) -> list[Cut]:
        """The cuts that a huge value has slices of; any will do for a splat."""
        if is_splat(value.op):
            return [()]
        if self.group is not None and value in self.group.made:
            cut = self.group.made[value]
            return [cut] if cut is not None else []
        return [cut for _, cut in self.homes.get(value, [])]

    def fits(self, value: Value, want: Cut) -> bool:
        return is_splat(value.op) or any(is_prefix(cut, want) for cut in self.cuts(value))

    def compatible(self, plan: Plan) -> bool:
        """Whether an op may run in the open group: slices it shares have the same number, results of reductions are
        whole only after it, and token order must hold slice by slice."""
        assert self.group is not None
        op, made, s = plan.op, self.group.made, len(plan.cut)
        if self.group.s != s:
            return False
        if op.spec.name == "for" and any(v in made for inner in op.walk() for v in inner.operands):
            return False
        for i, value in enumerate(op.operands):
            if value not in made or isinstance(value.type, TokenType):
                continue
            if value.op is not None and value.op.spec.name == "reduce":
                return False
            want = plan.wants.get(i)
            if want is None or not is_whole(want, s) or made[value] != want[0]:
                return False
        if op.spec.name == "scan" and plan.along:
            if self.group.reverse is not None and self.group.reverse != bool(op.attr("reverse")):
                return False
        if op.spec.name in MEMORY:
            for before in self.accesses(op.operand("token")):
                writes = "load" not in op.spec.name or "load" not in before.op.spec.name
                if writes and not (before.cut == plan.cut and _same_place(before.op, op)):
                    return False
        return True

    def accesses(self, token: Value | None) -> list[Plan]:
        """Memory ops of the open group that a token waits for."""
        assert self.group is not None
        by_op = {plan.op: plan for plan in self.group.plans}
        found: list[Plan] = []
        todo = [token] if token is not None else []
        while todo:
            value = todo.pop()
            op = value.op
            if op is None or value not in self.group.made:
                continue
            if op.spec.name in MEMORY or op.spec.name == "for":
                found.append(by_op[op])
            todo += [v for v in op.operands if isinstance(v.type, TokenType)]
        return found

    # ---- whole ops
    def whole(self, op: Op) -> None:
        """Copy an op; huge operands are read back from local memory."""
        if op.regions:
            self.close()
        operands = [self.use(v) for v in op.operands]
        regions = [self.region(r) for r in op.regions]
        new = self.block.append(
            create(op.spec, operands, [r.type for r in op.results], op.attrs, regions, op.loc, op.segments)
        )
        for old, result in zip(op.results, new.results):
            self.values[old] = result
            result.name = old.name

    def use(self, value: Value) -> Value:
        """The whole value."""
        found = self.values.get(value)
        if found is not None:
            return found
        if is_splat(value.op):
            assert value.op is not None
            made = create(value.op.spec, [], [value.type], value.op.attrs, loc=value.op.loc)
            return self.block.append(made).result
        handle, cut = self.homes[value][0]
        whole = create(BY_NAME["local_read_all"], [handle], [value.type], {"cut": cut})
        return self.block.append(whole).result

    # ---- values that loops carry and branches yield
    def allocate(self, type: Any, cut: Cut) -> Value:
        return self.block.append(
            create(BY_NAME["local_alloc"], [], [TOKEN], {"type": type, "log2_slices": len(cut)})
        ).result

    def home(self, value: Value, want: Cut) -> Home | None:
        return home_for(self.homes.get(value, []), want)

    def control(self, op: Op) -> None:
        """A loop or branch; what it carries and yields beyond the registers of a block lies in local memory."""
        name = op.spec.name
        first = 3 if name == "for" else 0
        inits = list(op.operands[first:]) if name != "if" else []
        args = op.regions[0].block.args[1 if name == "for" else 0 :] if name != "if" else ()
        carried: list[Home | None] = []
        for arg, init in zip(args, inits):
            home = None
            if self.limits.is_vast(arg):
                cuts = [c for c in self.cuts(init) if c]
                shape = arg.type.shape  # type: ignore[attr-defined]
                cut = (
                    cuts[0]
                    if cuts
                    else leading_cut(shape, self.limits.log2_slices(shape), self.late.get(shape, ()))
                )
                home = self.allocate(arg.type, cut), cut
                self.copy(init, home)
                self.homes[arg] = [home]
            carried.append(home)
        yielded = carried if name == "for" else [self.result_home(r) for r in op.results]
        jumps = {
            "for": {"continue": carried},
            "loop": {"continue": carried, "break": yielded},
            "if": {"yield": yielded},
        }
        self.frames.append(jumps[name])
        regions = [self.region(r) for r in op.regions]
        self.frames.pop()
        operands = [self.use(v) for v in op.operands[: first if name != "if" else None]]
        kept = [self.use(v) for v, home in zip(inits, carried) if home is None]
        segments = {"for": (1, 1, 1, len(kept)), "loop": (len(kept),), "if": op.segments}[name]
        types = [r.type for r, home in zip(op.results, yielded) if home is None]
        new = self.block.append(
            create(op.spec, [*operands, *kept], types, op.attrs, regions, op.loc, segments)
        )
        results = iter(new.results)
        for old, home in zip(op.results, yielded):
            if home is not None:
                self.homes[old] = [home]
            else:
                self.values[old] = result = next(results)
                result.name = old.name

    def result_home(self, result: Value) -> Home | None:
        if not self.limits.is_vast(result):
            return None
        shape = result.type.shape  # type: ignore[attr-defined]
        cut = leading_cut(shape, self.limits.log2_slices(shape), self.late.get(shape, ()))
        return self.allocate(result.type, cut), cut

    def jump_homes(self, op: Op) -> list[Home | None]:
        """Where the operands of a jump go, None for those that stay in registers; none for a body of scalars."""
        if not any(self.limits.is_vast(v) for v in op.operands):
            return []
        return next(frame[op.spec.name] for frame in reversed(self.frames) if op.spec.name in frame)

    def jump(self, op: Op) -> None:
        """continue, break, yield: huge operands are copied to where the next reader looks for them, all at once."""
        homes = self.jump_homes(op)
        moves = [(v, h) for v, h in zip(op.operands, homes) if h is not None]
        handles = {h[0] for _, h in moves}
        moves = [(v, h) for v, h in moves if not any(old[0] is h[0] for old in self.homes.get(v, []))]
        # a value that lies in another target of this jump would be overwritten before it is read
        entangled = [
            i for i, (v, _) in enumerate(moves) if any(h[0] in handles for h in self.homes.get(v, []))
        ]
        if self.group is not None and not entangled:
            late = [(v, h) for v, h in moves if not self.joins_copy(v, h)]
            for v, h in moves:
                if (v, h) not in late:
                    self.group.copies.append((v, *h))
            moves = late
        self.close()
        spares = []
        for i in entangled:
            value, home = moves[i]
            spares.append((value, self.homes[value]))
            spare = self.allocate(value.type, home[1]), home[1]
            self.copy(value, spare)
            self.homes[value] = [spare]
        for value, home in moves:
            self.copy(value, home)
        self.homes.update(reversed(spares))
        kept = [self.use(v) for v, h in zip(op.operands, homes) if h is None]
        self.block.append(create(op.spec, kept, [], op.attrs, [], op.loc, (len(kept),)))

    def joins_copy(self, value: Value, home: Home) -> bool:
        """Whether the open group may write a value it makes to `home` slice by slice: nothing else in it may read
        another slice from there."""
        group = self.group
        assert group is not None
        if group.made.get(value) != home[1] or len(home[1]) != group.s or group.reverse:
            return False
        for plan in group.plans:
            for i, operand in enumerate(plan.op.operands):
                if any(h[0] is home[0] for h in self.homes.get(operand, [])):
                    want = plan.wants.get(i)
                    if want is None or want[0] != home[1] or not is_whole(want, group.s):
                        return False
        return True

    def copy(self, value: Value, home: Home) -> None:
        """The slices of a huge value into other local memory."""
        self.close()
        handle, cut = home
        if self.cuts(value) and not self.fits(value, cut):
            recut(self, value, cut)
        SliceLoop(self, [], len(cut), False, [(value, handle, cut)]).build()

    # ---- closing a group: one loop
    def close(self) -> None:
        group, self.group = self.group, None
        if group is not None:
            SliceLoop(self, group.plans, group.s, bool(group.reverse), group.copies).build()


def _same_place(a: Op, b: Op) -> bool:
    """Whether two memory ops touch the same addresses element by element."""
    if a.spec.name in VIEW_OPS and b.spec.name in VIEW_OPS:
        return a.operand("view") is b.operand("view") and a.group("index") == b.group("index")
    if a.spec.name in POINTER_OPS and b.spec.name in POINTER_OPS:
        return a.operands[0] is b.operands[0]
    return False
