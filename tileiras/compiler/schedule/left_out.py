"""Loops whose loads and products stand behind a condition: whether they can go from one iteration with work to the next.

    for %k { %c = .. mask[%k] ..; %s' = if %c { load, load, mma } else { %s } }

Such a loop leaves blocks of a sparse operand out. Its loads cannot run ahead as long as they stand in a branch; but where the
condition knows nothing of what the loop adds up, the next iteration that has work can be looked for beforehand, by numbers that
every thread has. Then copies and products meet iterations with work only: what is left out costs no stage and no barrier.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import diags as D
from tileiras.compiler.ir.types import TOKEN, Ptr
from tileiras.compiler.target.products import PRODUCTS

from .candidates import EXITS, LOOPS, PLAIN_LOADS, backward, captured, computes, is_free, ordered_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value


HANDS_ON = frozenset(("join_tokens", "yield", "continue"))  # what does no more with a token


class Work:
    """What a loop does behind a condition. `side`: the region of the branch that works; `stepped`: numbers of the carried values
    that change in every iteration, as pointers do, and `steps`: the ops that make the next ones; all others change in the branch
    alone. `test`: the ops that the condition needs, in order; `shared`: those of them that the work needs, too; `seen`: the loads
    among these. `leaving`: the loop carries tokens, and they order nothing before its end."""

    __slots__ = ("branch", "leaving", "loop", "seen", "shared", "side", "stepped", "steps", "test")

    def __init__(self, loop: Op, branch: Op, side: int) -> None:
        self.loop = loop
        self.branch = branch
        self.side = side
        self.stepped: list[int] = []
        self.steps: list[Op] = []
        self.test: list[Op] = []
        self.shared: list[Op] = []
        self.seen: list[Op] = []
        self.leaving = any(value.type is TOKEN for value in loop.operands) and not orders_inside(loop)


def left_out(loop: Op) -> Work | str | None:
    """What a loop does behind a condition; the reason where that cannot be looked for ahead; None for other loops."""
    branches = branches_with_work(loop)
    if not branches:
        return None
    if len(branches) > 1:
        return "several branches of it have products"
    sides = [has_work(ops) for ops in blocks_of(branches[0])]
    if sides.count(True) > 1:
        return "both sides of a branch have products"
    work = Work(loop, branches[0], sides.index(True))
    return carried(work) or tested(work) or beside(work) or work


def branches_with_work(loop: Op) -> list[Op]:
    """The branches of a `for` that load and multiply, where the loop does not beside them."""
    body = loop.regions[0].block
    if loop.spec.name != "for" or any(op.spec.name in PRODUCTS for op in body.ops):
        return []
    return [op for op in body.ops if op.spec.name == "if" and any(map(has_work, blocks_of(op)))]


def blocks_of(branch: Op) -> list[list[Op]]:
    """The ops of each side of a branch."""
    return [region.block.ops if region.blocks else [] for region in branch.regions]


def has_work(ops: list[Op]) -> bool:
    """Whether ops load and multiply, and are no loop."""
    names = {op.spec.name for op in ops}
    inside = {inner.spec.name for op in ops for inner in op.walk()}
    return bool(names & PRODUCTS and names & PLAIN_LOADS) and not inside & (LOOPS | EXITS | {"continue"})


def carried(work: Work) -> str | None:
    """Sorts what the loop carries; why it is not of that kind."""
    body, branch = work.loop.regions[0].block, work.branch
    jump, other = body.ops[-1], blocks_of(branch)[1 - work.side]
    if not all(computes(op) and not op.regions for op in other[:-1]):
        return "both sides of a branch have effects"
    for result, value in zip(branch.results, other[-1].operands if other else []):
        if result.type is TOKEN and work.leaving:
            continue
        for user, index in result.uses:
            if user is not jump or value is not body.args[index + 1]:
                return "the branch hands on other values where it is not taken"
    work.stepped = [
        number
        for number, value in enumerate(jump.operands)
        if value.op is not branch
        and value is not body.args[number + 1]
        and not (value.type is TOKEN and work.leaving)
    ]
    following = [jump.operands[number] for number in work.stepped]
    work.steps, args = backward(following, body)
    if branch in work.steps or grows(args, work):
        return "a value that changes in every iteration depends on what the branch makes"
    if not all(is_number(value) for value in following):
        return "a tile or a token changes in every iteration, and not in the branch alone"
    if not all(computes(op) and not op.regions for op in work.steps):
        return "a value that changes in every iteration is more than computed"
    return None


def tested(work: Work) -> str | None:
    """Finds what the condition needs; why that is not known ahead."""
    work.test, args = backward(work.branch.operands[:1], work.loop.regions[0].block)
    if work.branch in work.test or grows(args, work):
        return "its condition depends on what the loop adds up behind it"
    for op in work.test:
        if op.spec.name in PLAIN_LOADS:
            if not loads_freely(op, work):
                return "its condition is loaded in an order with accesses of the loop"
        elif not guards(op, work) and (op.regions or not computes(op)):
            return f"its condition needs {op.spec.full_name}"
        if getattr(op.results[0].type, "shape", ()):
            return "its condition looks at a tile"
    return None


def beside(work: Work) -> str | None:
    """Looks at what the loop does beside the branch; why that is more than the branch needs."""
    body, branch = work.loop.regions[0].block, work.branch
    made = {*work.test, *work.steps, branch}
    others = [op for op in body.ops[:-1] if op not in made]
    passes = ("yield", "join_tokens") if work.leaving else ("yield",)
    for op in others:
        if op.spec.name == "if" and any(o.spec.name == "continue" for o in op.walk()):
            between = body.ops[body.ops.index(op) + 1 : body.ops.index(branch)]
            if all(computes(o) and not o.regions or o.spec.name == "join_tokens" for o in between):
                return "branches that end an iteration go on with other values"
            return "more than arithmetic and loads of numbers stands between branches that end an iteration"
        if not all(computes(o) or o.spec.name in passes or loads_freely(o, work) for o in op.walk()):
            return f"{op.spec.full_name} is in every iteration, and not in the branch alone"
    loads = [op for op in blocks_of(branch)[work.side] if op.spec.name in PLAIN_LOADS]
    if all(any(v.type is TOKEN and ordered_in(v, work.loop) for v in op.operands) for op in loads):
        return "its loads are ordered behind accesses of the loop"
    inside = [*captured(branch)][1:]
    wanted = set(backward([*inside, *captured_by([*others, *work.steps])], body)[0])
    work.shared = [op for op in work.test if op in wanted]
    work.seen = [
        op for op in work.shared if (op.regions or op.spec.name in PLAIN_LOADS) and is_number(op.results[0])
    ]
    return None


def guards(op: Op, work: Work) -> bool:
    """Whether an op is a branch around the load of a number, and says another one where it is not taken."""
    if (
        op.spec.name != "if"
        or not is_number(op.results[0])
        or any(r.type is not TOKEN for r in op.results[1:])
    ):
        return False
    inside = [inner for inner in op.walk() if inner is not op]
    return all(
        inner.spec.name == "yield" or computes(inner) and not inner.regions or loads_freely(inner, work)
        for inner in inside
    )


def loads_freely(op: Op, work: Work) -> bool:
    """Whether an op is a weak load that orders nothing in a loop, and waits for nothing in it."""
    if work.leaving:
        return op.spec.name in PLAIN_LOADS and op.attr("memory_ordering_semantics") == "weak"
    return is_free(op, work.loop)


def orders_inside(loop: Op) -> bool:
    """Whether an op of a loop waits for a token of the loop."""
    return any(
        v.type is TOKEN and ordered_in(v, loop)
        for op in loop.walk()
        if op is not loop and op.spec.name not in HANDS_ON
        for v in op.operands
    )


def captured_by(ops: Iterable[Op]) -> list[Value]:
    return [value for op in ops for value in captured(op)]


def grows(args: set[int], work: Work) -> bool:
    """Whether one of some body arguments is changed by the branch."""
    jump = work.loop.regions[0].block.ops[-1]
    return any(index and jump.operands[index - 1].op is work.branch for index in args)


def is_number(value: Value) -> bool:
    """Whether a value is one number, and no pointer."""
    type = value.type
    return getattr(type, "shape", None) == () and not isinstance(type.elem, Ptr)  # type: ignore[attr-defined]


def say(found: Work | str, loop: Op, context: Any) -> None:
    """Tells who asked what became of a loop whose work stands behind a condition."""
    if isinstance(found, str):
        context.remark(D.NOT_AHEAD, loop, reason=found)
    else:
        context.remark(D.LEFT_OUT, loop)
