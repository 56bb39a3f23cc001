"""stream-products: a matrix product with operands too deep for the registers runs as a loop over parts of K.

Fragments of both operands live beside the accumulator. Where the three exceed the registers of a thread, ptxas would
spill; instead the loads of the operands move into a loop and every iteration loads, converts and multiplies a part.

Before: `%c = mmaf %a, %b, %acc : tensor<128x128xf16>, tensor<128x256xf16>, tensor<128x256xf32>`, %a and %b loaded.
After: `for %i in (0 to 4, step 1) iter_values(%d = %acc) { %a', %b' loaded: 128x32, 32x256; mmaf %a', %b', %d }`.

Only loads of views and what is computed from them element by element move, and none past a write.
"""

from __future__ import annotations

from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Block, Op, Region, Value
from tileiras.compiler.ir.types import TokenType
from tileiras.compiler.ir.walk import held_in

from .slice_demand import LOADS, demand, writes_memory
from .slice_loop import SliceLoop
from .slice_plan import PRODUCTS, Plan
from .slices import HUGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.schedule.budget import Budget

    from .slices import Cut


def stream_products(func: Op, budget: Budget, huge_only: bool = False, staged: Any = ()) -> Op:
    """The function with products streamed that need more registers than there are; the function itself if none does.

    `huge_only`: those whose operands are huge tiles and whose accumulator is none. `staged`: products whose operands
    wait in shared memory anyway.
    """
    streams: dict[Op, list[Plan]] = {}
    for op in func.walk():
        if op.spec.name in PRODUCTS and op not in staged:
            if huge_only and (HUGE.is_big(op.result) or not any(map(HUGE.is_big, op.operands))):
                continue
            plans = _stream_of(op, budget)
            if plans is not None:
                streams[op] = plans
    if not streams:
        return func
    region = _Streamer(streams).region(func.regions[0])
    return create(func.spec, attrs=dict(func.attrs), regions=[region], loc=func.loc)


def _stream_of(op: Op, budget: Budget) -> list[Plan] | None:
    """The loop of a product, op by op; None where it fits or cannot be one."""
    lhs, rhs = op.operands[0], op.operands[1]
    shapes = [v.type.shape for v in op.operands]  # type: ignore[attr-defined]
    held, fragments, least = budget.needs(op, shapes)
    a_dim, b_dim = len(lhs.type.shape) - 1, len(rhs.type.shape) - 2  # type: ignore[attr-defined]
    depth = lhs.type.shape[a_dim]  # type: ignore[attr-defined]
    s = 0
    while held + (fragments >> s) > budget.registers and depth >> s + 1 >= least:
        s += 1
    if s == 0 or op.block is None:
        return None
    ops = op.block.ops
    order = {o: i for i, o in enumerate(ops)}
    before = set(ops[: order[op]])
    plans: dict[Op, Plan] = {}
    if not demand(lhs, (a_dim,) * s, before, plans) or not demand(rhs, (b_dim,) * s, before, plans):
        return None
    for moved in plans:
        for result in moved.results:
            for user, _ in result.uses:
                if isinstance(result.type, TokenType):
                    if user not in plans and order.get(held_in(op.block, user) or user, -1) < order[op]:
                        return None
                elif user is not op and user not in plans:
                    return None
        if moved.spec.name in LOADS and writes_memory(ops[order[moved] + 1 : order[op]]):
            return None
    everywhere = tuple(range(s))
    product = Plan(op, everywhere, {0: ((a_dim,) * s, everywhere), 1: ((b_dim,) * s, everywhere)}, [None])
    product.accumulates = True
    return [*sorted(plans.values(), key=lambda p: order[p.op]), product]


class _Streamer:
    """Copies regions, with loops in place of products. What SliceLoop asks of a StripMiner, for tiles that are whole."""

    def __init__(self, streams: dict[Op, list[Plan]]) -> None:
        self.streams = streams
        self.moved = {plan.op for plans in streams.values() for plan in plans}
        self.values: dict[Value, Value] = {}
        self.block = Block()

    def use(self, value: Value) -> Value:
        return self.values[value]

    def home(self, value: Value, want: Cut) -> None:
        return None

    def region(self, region: Region) -> Region:
        out = Region()
        for block in region.blocks:
            outer, self.block = self.block, Block()
            for arg in block.args:
                self.values[arg] = self.block.add_arg(arg.type, arg.name)
            for op in block.ops:
                if op in self.streams:
                    plans = self.streams[op]
                    SliceLoop(self, plans, len(plans[-1].cut), False, []).build()  # type: ignore[arg-type]
                elif op not in self.moved:
                    self.copy(op)
            out.append(self.block)
            self.block = outer
        return out

    def copy(self, op: Op) -> None:
        operands = [self.values[v] for v in op.operands]
        regions = [self.region(r) for r in op.regions]
        new = create(op.spec, operands, [r.type for r in op.results], op.attrs, regions, op.loc, op.segments)
        self.block.append(new)
        for old, result in zip(op.results, new.results):
            self.values[old] = result
            result.name = old.name
