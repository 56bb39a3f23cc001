"""A `for` with products of which some stand behind a test of its index: two loops, up to where the test holds, and from there on.

Before: `for %k = %lo to %hi { load, mma; if %k < %m { load, mma } }`.
After:  `for %k = %lo to %mid { load, mma; load, mma }; for %k = %mid to %hi { load, mma }`, %mid between %lo and %hi.

Loads in a branch do not run ahead, and what one step computes in a branch would keep all sums of the loop in registers.
"""

from __future__ import annotations

from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.clone import clone_into
from tileiras.compiler.ir.core import Block, Op, Region, Value
from tileiras.compiler.schedule.candidates import EXITS, constant_int, is_outside
from tileiras.compiler.schedule.left_out import blocks_of, has_work
from tileiras.compiler.target.products import PRODUCTS

from .early_continue import take_in
from .index_bounds import SWAPPED, Before

SIDES = {"less_than": 0, "greater_than_or_equal": 1}  # which side of a branch runs below the bound


def split_at_bound(loop: Op) -> bool | str:
    """Whether it made two loops of a `for` where a branch of it that loads and multiplies asks whether its index is below a
    bound; why not, where a branch asks for the index otherwise."""
    body = loop.regions[0].block
    if not any(op.spec.name in PRODUCTS for op in body.ops):
        return False
    why = ""
    for branch in body.ops:
        found = _bound_of(branch, loop)
        if not isinstance(found, str):
            ending = _ending(branch)
            if ending is not None:
                branch = take_in(branch, ending)
            _split(loop, branch, *found)
            return True
        why = why or found
    return why


def _bound_of(branch: Op, loop: Op) -> tuple[Value, int] | str:
    """(the bound below which a branch of a loop's body runs one of its sides, this side); why there is none, where it asks for
    the index."""
    if branch.spec.name != "if":
        return ""
    if _ending(branch) is not None:  # the rest of the iteration is its other side
        ops = loop.regions[0].block.ops
        place = ops.index(branch)
        if not has_work(ops[place + 1 : -1]) or not any(op.spec.name in PRODUCTS for op in ops[:place]):
            return ""
    elif not any(map(has_work, blocks_of(branch))):
        return ""
    compare, counter = branch.operands[0].op, loop.regions[0].block.args[0]
    if compare is None or compare.spec.name != "cmpi" or counter not in compare.operands:
        return ""
    if constant_int(loop.operands[2]) != 1:
        return "the step of the loop is not 1"
    if _ending(branch) is None and any(op.spec.name in {*EXITS, "continue"} for op in branch.walk()):
        return "the branch leaves the loop, or ends a step"
    if compare.attr("signedness") != ("unsigned" if loop.attr("unsignedCmp") else "signed"):
        return "the branch compares the index with another sign than the loop"
    predicate, (index, bound) = compare.attr("comparison_predicate"), compare.operands
    if bound is counter:
        predicate, index, bound = SWAPPED[predicate], bound, index
    if predicate not in SIDES:
        return "the branch does not ask whether the index is less than a number, or at least this"
    if not is_outside(bound, loop):
        return "what the branch holds the index against is made in the loop"
    return bound, SIDES[predicate]


def _ending(branch: Op) -> int | None:
    """Which side of a branch does nothing but end the iteration."""
    names = [[op.spec.name for op in side] for side in blocks_of(branch)]
    return names.index(["continue"]) if ["continue"] in names and names != [["continue"]] * 2 else None


def _split(loop: Op, branch: Op, bound: Value, below: int) -> None:
    put = Before(loop)
    lower, upper, step, *carried = loop.operands
    sign = {"signedness": "unsigned" if loop.attr("unsignedCmp") else "signed"}
    middle = put("maxi", (put("mini", (bound, upper), lower.type, sign), lower), lower.type, sign)
    block = loop.block
    assert block is not None
    first = block.insert_before(loop, one_side(loop, branch, below, [lower, middle, step, *carried]))
    rest = [middle, upper, step, *first.results]
    second = block.insert_before(loop, one_side(loop, branch, 1 - below, rest))
    for old, new in zip(loop.results, second.results):
        old.replace_all_uses_with(new)
    loop.erase()


def one_side(loop: Op, branch: Op, side: int, operands: list[Value]) -> Op:
    """A copy of a loop with other operands, with one side of a branch of it; in no block yet."""
    body, block = loop.regions[0].block, Block()
    values = {arg: block.add_arg(arg.type, arg.name) for arg in body.args}
    for op in body.ops:
        if op is branch:
            inside = blocks_of(branch)[side]
            clone_into(block, inside[:-1], values)
            given = inside[-1].operands if inside else []
            values.update(zip(op.results, [values.get(v, v) for v in given]))
        elif branch.operands[0].op is not op or len(op.result.uses) > 1:
            clone_into(block, [op], values)
    types = [result.type for result in loop.results]
    return create(loop.spec, operands, types, dict(loop.attrs), (Region([block]),), loop.loc, loop.segments)
