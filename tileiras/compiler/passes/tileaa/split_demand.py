"""What each CTA of a cluster computes of a tile block that they share: backwards from the stores.

Every store gets a dimension in which the CTAs divide its tile among them; a CTA's part is the block with its rank. A part of
a value needs parts of the operands that have the dimension and all of those that do not (slice_plan.py), so that a value is
needed as a part, whole, or as both, and what nobody needs is left out.

    store %c[%i, %j] : 256x128     rows, so   mmaf: rows of %a and of the sum, all of %b
                                              load %a[%i, %k]: 128x64 at (2 %i + rank, %k); load %b[%k, %j]: as it is

Refused is what could be seen, or would not be worth it: effects other than weak stores; accesses in an order that tokens give
(the order of one CTA is not the other's) unless both touch the same parts of the same view; reductions and products that every
CTA would have to do whole.
"""

from __future__ import annotations

from tileiras.compiler.ir.core import Op, Value
from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.ir.spec import NO_MEMORY_EFFECT, PURE
from tileiras.compiler.ir.types import PartitionView, TensorType, TokenType

from .slice_demand import LOADS, index_cut
from .slice_ops import is_splat
from .slice_plan import POINTER_OPS, PRODUCTS, VIEW_OPS, Plan, index_space, number_of, plan_of
from .slices import cut_fits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from .slices import Cut

STORES = frozenset({"store_view_tko", "store_ptr_tko"})
CONTROL = frozenset({"for", "loop", "if"})
JUMPS = frozenset({"continue", "break", "yield", "return"})
QUIET = frozenset(
    {"assume", "make_token", "join_tokens", "reduce", "scan"}
)  # traits do not say that they have no effect
COMBINES = frozenset({"reduce", "scan", "mmaf", "mmai", "mmaf_scaled", "mma_block_scaled"})


class Refused(Exception):
    """Why CTAs cannot share the tile block."""


def division_of(func: Op, s: int) -> Division:
    """What each of 2^s CTAs computes. Errors: Refused."""
    stores = list(_stores(func))
    if not stores:
        raise Refused("the kernel stores nothing")
    first: Refused | None = None
    for dim in _dims(stores[0], s):
        division = Division(func, s)
        try:
            division.divide(stores[0], dim)
            for store in stores[1:]:
                division.divide_somehow(store)
            check_order(func, division)
        except Refused as why:
            first = first or why
        else:
            return division
    raise first or _no_parts(stores[0], s)


def _stores(func: Op) -> Iterator[Op]:
    """The stores. Errors: Refused for any other effect."""
    for op in func.walk():
        name = op.spec.name
        if name in STORES or name in LOADS:
            if op.attr("memory_ordering_semantics") != "weak":
                raise Refused(f"a '{name}' that is not weak orders one CTA only")
            if name in STORES:
                yield op
        elif op is not func and not (
            name in CONTROL or name in JUMPS or name in QUIET or op.spec.traits & (PURE | NO_MEMORY_EFFECT)
        ):
            raise Refused(f"'{name}' would run once for each CTA")


def _stored(store: Op) -> Value:
    return store.operands[_place(store)]


def _dims(store: Op, s: int) -> list[int]:
    """The dimensions of the stored tile that have 2^s parts."""
    shape = _stored(store).type.shape  # type: ignore[attr-defined]
    return [d for d in range(len(shape)) if index_space(store) == shape and cut_fits(shape, (d,) * s)]


def _no_parts(store: Op, s: int) -> Refused:
    shape = "x".join(map(str, _stored(store).type.shape)) or "one element"  # type: ignore[attr-defined]
    return Refused(f"no dimension of a stored tile of {shape} has {1 << s} parts")


def _place(store: Op) -> int:
    return number_of(store, "tile" if store.spec.name == "store_view_tko" else "value")


class Division:
    """`needs`: value -> the cuts that it is needed in, () for whole. `plans`: op -> its parts, by the cut of their results;
    None: a block taken out of the whole. `whole`: ops that are computed whole. `open`: loops and branches that stay."""

    def __init__(self, func: Op, s: int) -> None:
        self.func = func
        self.s = s
        self.needs: dict[Value, dict[Cut, None]] = {}
        self.plans: dict[Op, dict[Cut, Plan | None]] = {}
        self.whole: dict[Op, None] = {}
        self.open: dict[Op, None] = {}
        self.jumps: dict[
            Op, dict[str, list[Op]]
        ] = {}  # loop or branch -> the jumps that end it or its iteration
        self.work: list[tuple[Value, Cut]] = []
        self.journal: list[tuple[dict[Any, Any], Any]] = []
        for op in func.walk():
            if op.spec.name in JUMPS:
                target = self.target(op)
                if target is not None and (target is func or target.spec.name in CONTROL):
                    self.jumps.setdefault(target, {}).setdefault(op.spec.name, []).append(op)
        for jump in self.jumps.get(func, {}).get("return", ()):
            self.keep_parents(jump)
        self.run()

    # ---- stores
    def divide(self, store: Op, dim: int) -> None:
        """Cuts the tile that is stored. Errors: Refused."""
        cut = (dim,) * self.s
        plan = plan_of(store, cut)
        assert plan is not None
        self.note(self.plans.setdefault(store, {}), cut, plan)
        self.keep_parents(store)
        self.demand_operands(plan)
        self.run()

    def divide_somehow(self, store: Op) -> None:
        """Cuts a stored tile in the first dimension that suits what is needed already. Errors: Refused."""
        first: Refused | None = None
        for dim in _dims(store, self.s):
            mark = len(self.journal)
            try:
                return self.divide(store, dim)
            except Refused as why:
                first = first or why
                self.work.clear()
                for place, key in reversed(self.journal[mark:]):
                    del place[key]
                del self.journal[mark:]
        raise first or _no_parts(store, self.s)

    # ---- what is needed
    def note(self, place: dict[Any, Any], key: Any, value: Any = None) -> None:
        place[key] = value
        self.journal.append((place, key))

    def demand(self, value: Value, cut: Cut) -> None:
        needs = self.needs.setdefault(value, {})
        if cut not in needs:
            self.note(needs, cut)
            self.work.append((value, cut))

    def run(self) -> None:
        """Follows what is needed to what it is made of. Errors: Refused."""
        while self.work:
            value, cut = self.work.pop()
            op = value.op
            if op is None:
                self.argument(value, cut)
            elif op.spec.name in CONTROL:
                self.result(op, value.index, cut)
            elif cut:
                self.part(op, value, cut)
            elif isinstance(value.type, TokenType) and (op.spec.name in LOADS or op.spec.name in STORES):
                for token in op.group("token"):  # whatever form of the access there is, waits for it
                    self.demand(token, ())
            else:
                self.all_of(op)

    def argument(self, value: Value, cut: Cut) -> None:
        loop = value.owner.region.op  # type: ignore[union-attr]
        assert loop is not None
        if loop is self.func:
            return
        self.keep(loop)
        slot = value.index - (loop.spec.name == "for")
        if slot >= 0:
            self.carry(loop, slot, cut)

    def carry(self, loop: Op, slot: int, cut: Cut) -> None:
        """A value that a loop carries."""
        counted = loop.spec.name == "for"
        self.demand(loop.regions[0].block.args[slot + counted], cut)
        self.demand(loop.operands[slot + 3 * counted], cut)
        for jump in self.jumps.get(loop, {}).get("continue", ()):
            self.demand(jump.operands[slot], cut)
        if counted:
            self.demand(loop.results[slot], cut)

    def result(self, op: Op, slot: int, cut: Cut) -> None:
        """What a loop or branch yields."""
        self.keep(op)
        if op.spec.name == "for":
            return self.carry(op, slot, cut)
        for jump in self.jumps.get(op, {}).get("yield" if op.spec.name == "if" else "break", ()):
            self.demand(jump.operands[slot], cut)

    def part(self, op: Op, value: Value, cut: Cut) -> None:
        """A part of what an op makes. Errors: Refused."""
        plans = self.plans.setdefault(op, {})
        if cut in plans:
            return
        self.keep_parents(op)
        if op.spec.name == "constant":
            self.note(plans, cut, None)
            if not is_splat(op):
                self.demand(value, ())
            return
        plan = _part_plan(op, cut)
        if plan is None or any(want and len(places) != self.s for want, places in plan.wants.values()):
            raise Refused(f"'{op.spec.name}' has no parts along dimension {cut[0]} of its result")
        self.note(plans, cut, plan)
        self.demand_operands(plan)

    def demand_operands(self, plan: Plan) -> None:
        op = plan.op
        view = op.operand("view") if op.spec.name in VIEW_OPS else None
        for i, operand in enumerate(op.operands):
            if operand is view:
                assert view.op is not None
                self.demand(view.op.operands[0], ())
            else:
                self.demand(operand, plan.wants[i][0] if i in plan.wants else ())
        self.demand_captured(op)

    def demand_captured(self, op: Op) -> None:
        """What the body of a reduction reads from outside."""
        if op.regions:
            inside = {r for inner in op.walk() for r in inner.results}
            inside.update(arg for region in op.regions for block in region.blocks for arg in block.args)
            for inner in op.walk():
                if inner is not op:
                    for operand in inner.operands:
                        if operand not in inside:
                            self.demand(operand, ())

    def all_of(self, op: Op) -> None:
        """What every CTA computes. Errors: Refused for what is to be divided."""
        if op in self.whole:
            return
        name = op.spec.name
        if name in COMBINES and num_elements(op.operands[0].type.shape) > 1:  # type: ignore[attr-defined]
            raise Refused(f"every CTA would need the whole '{name}' of {op.operands[0].type}")
        self.note(self.whole, op)
        self.keep_parents(op)
        for operand in op.operands:
            self.demand(operand, ())
        self.demand_captured(op)

    # ---- loops and branches
    def target(self, jump: Op) -> Op | None:
        """The loop, branch or function that a jump belongs to."""
        name, op = jump.spec.name, jump.parent
        if name == "yield":
            return op
        wanted = {"continue": ("for", "loop"), "break": ("loop",), "return": ()}[name]
        while op is not None and op is not self.func and op.spec.name not in wanted:
            op = op.parent
        return op

    def keep_parents(self, op: Op) -> None:
        """The loops and branches around an op that has to run."""
        parent = op.parent
        if parent is not None and parent is not self.func:
            self.keep(parent)

    def keep(self, op: Op) -> None:
        """A loop or branch, how often it runs or which way it goes, and what is around it."""
        while op is not None and op is not self.func and op not in self.open:
            self.note(self.open, op)
            for operand in op.operands[: {"for": 3, "if": 1, "loop": 0}[op.spec.name]]:
                self.demand(operand, ())
            for kind, jumps in self.jumps.get(op, {}).items():
                for jump in jumps if kind != "yield" else ():
                    self.keep_parents(jump)
            op = op.parent  # type: ignore[assignment]

    def slots(self, values: Iterable[Value]) -> list[tuple[int, Cut]]:
        """The forms that the values of a loop or branch are needed in, one behind the other."""
        return [(i, cut) for i, value in enumerate(values) for cut in self.needs.get(value, ())]


def _part_plan(op: Op, cut: Cut) -> Plan | None:
    """An op whose first result is cut."""
    name = op.spec.name
    space: Cut | None
    if name == "reduce":
        dim = op.attr("dim")
        space = tuple(d + (d >= dim) for d in cut)
    elif name == "scan":
        space = cut if op.attr("dim") not in cut else None
    else:
        space = cut if name in ("cat", "pack", "unpack") else index_cut(op, cut)
    shape = op.result.type.shape if name in PRODUCTS else index_space(op)  # type: ignore[attr-defined]
    if space is None or shape is None or not cut_fits(shape, space):
        return None
    plan = plan_of(op, space)
    if plan is not None:
        if not all(cut_fits(op.operands[i].type.shape, want) for i, (want, _) in plan.wants.items()):  # type: ignore[attr-defined]
            return None
        plan.results = [cut if isinstance(r.type, TensorType) else None for r in op.results]
    return plan


# ---- order
def check_order(func: Op, division: Division) -> None:
    """Accesses that tokens order, a store among them, touch the same parts of the same place. Errors: Refused."""
    before = _accesses_before(func, division)
    for op in func.walk():
        token = op.operand("token") if op.spec.name in LOADS or op.spec.name in STORES else None
        if token is None:
            continue
        mine = _places(op, division)
        for other in before(token):
            theirs = _places(other, division)
            if op.spec.name not in STORES and other.spec.name not in STORES:
                continue
            if len({*mine, *theirs}) > 1 or None in mine:
                raise Refused(
                    f"'{op.spec.name}' waits for a '{other.spec.name}' that another CTA may perform"
                )


def _places(op: Op, division: Division) -> list[Any]:
    """Of each form of an access, what says which CTA touches which element; None where that is not known.

    The tiles of a partition view do not overlap, so that an element is always in the same part of one.
    """
    found: list[Any] = [None] if op in division.whole else []
    for plan in division.plans.get(op, {}).values():
        assert plan is not None
        if op.spec.name in POINTER_OPS:
            place, kind = op.operands[0], None
        else:
            view = op.operand("view")
            assert view is not None and view.op is not None
            type: Any = view.type
            place = view.op.operands[0]
            kind = (type.tile, type.dim_map) if isinstance(type, PartitionView) else "overlapping"
        found.append((place, kind, plan.cut) if kind != "overlapping" and not _changes(place) else None)
    return found


def _changes(value: Value) -> bool:
    """Whether a value is made inside a loop."""
    op = value.op.parent if value.op is not None else value.owner.region.op  # type: ignore[union-attr]
    while op is not None and op.spec.name not in ("for", "loop"):
        op = op.parent
    return op is not None


def _accesses_before(func: Op, division: Division) -> Callable[[Value], Iterable[Op]]:
    """The accesses that a token waits for; one op stands for all of the same kind that touch the same place."""
    reach: dict[Value, dict[Any, Op]] = {}
    edges: dict[Value, list[Value]] = {}  # token -> tokens that wait for it

    def edge(source: Value, target: Value) -> None:
        if isinstance(source.type, TokenType):
            edges.setdefault(source, []).append(target)

    def key(op: Op) -> Any:
        return (op.spec.name in STORES, *_places(op, division))

    todo: list[Value] = []
    for op in func.walk():
        name = op.spec.name
        if name in LOADS or name in STORES:
            made = next(r for r in op.results if isinstance(r.type, TokenType))
            reach[made] = {key(op): op}
            todo.append(made)
            token = op.operand("token")
            if token is not None:
                edge(token, made)
        elif name == "join_tokens":
            for operand in op.operands:
                edge(operand, op.result)
        elif name in CONTROL:
            counted = name == "for"
            args = op.regions[0].block.args[counted:] if name != "if" else ()
            for i, arg in enumerate(args):
                edge(op.operands[i + 3 * counted], arg)
                if counted:
                    edge(arg, op.results[i])
            for kind, jumps in division.jumps.get(op, {}).items():
                for jump in jumps:
                    for i, operand in enumerate(jump.operands):
                        edge(operand, args[i] if kind == "continue" else op.results[i])
    while todo:
        value = todo.pop()
        have = reach[value]
        for waiting in edges.get(value, ()):
            there = reach.setdefault(waiting, {})
            if not have.keys() <= there.keys():
                there.update({k: op for k, op in have.items() if k not in there})
                todo.append(waiting)
    return lambda token: reach.get(token, {}).values()
