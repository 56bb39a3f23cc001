"""Loops over the steps of all tiles of a block: whether one such loop is a loop over tiles around a loop over steps.

    for %i = 0 to %tiles * %n iter(%sum = 0, %k = 0, %t = %first) { .. load[%t, %k], mma ..
      if %k + 1 == %n { store %sum[%t]; yield 0, 0, %t + %grid } else { yield %sum, %k + 1, %t } }

Programs are written so to spare what begins and ends a loop. Here the branch is what costs: what stands in it orders loads
behind stores, and products that run asynchronously cannot cross it. How many iterations lie between two of its turns is known
where it asks for one number of a value that begins at the same number each time and goes up by one: `Flat` says which.
"""

from __future__ import annotations

from tileiras.compiler.ir.types import TOKEN
from tileiras.compiler.target.products import PRODUCTS

from .candidates import EXITS, LOOPS, PLAIN_LOADS, captured, computes, constant_int, is_outside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value

SWAPPED = {"less_than": "greater_than", "less_than_or_equal": "greater_than_or_equal", "greater_than": "less_than",
           "greater_than_or_equal": "less_than_or_equal"}  # fmt: skip
WHERE_TRUE = frozenset(("equal", "greater_than_or_equal", "greater_than"))


class Flat:
    """A loop over the steps of all tiles. `branch`: what is done behind a tile's last step, in its region `side`. `counter`: the
    body argument that counts a tile's steps; `test`, `bound`: the branch turns where `counter` + `ahead` is equal to `bound`, or
    where `least`, is not below it. `carried`: numbers of the carried values that steps change, `kept`: those that the branch
    alone does, `restarted`: those that begin again at every tile as they did at the first one. `again`: ops of the body that
    the end of a tile computes once more; `handed`: tokens of a tile's last step that it waits for."""

    __slots__ = (
        "again", "ahead", "bound", "branch", "carried", "counter", "handed", "kept", "least", "loop", "restarted", "side",
        "test",
    )  # fmt: skip

    def __init__(self, loop: Op, branch: Op, side: int, test: Op) -> None:
        self.loop = loop
        self.branch = branch
        self.side = side
        self.test = test
        self.counter = loop.regions[0].block.args[0]
        self.bound: Value = loop.operands[0]
        self.ahead = 0
        self.least = False
        self.carried: list[int] = []
        self.kept: list[int] = []
        self.restarted: list[int] = []
        self.again: set[Op] = set()
        self.handed: list[Value] = []

    def resolve(self, value: Value, last: bool) -> Value:
        """What a value is in an iteration that ends a tile, or in another one."""
        side = self.side if last else 1 - self.side
        while True:
            op = value.op
            if op is self.branch:
                value = op.regions[side].block.ops[-1].operands[value.index]
            elif op is not None and op.spec.name == "select" and self.same_test(op.operands[0]):
                value = op.operands[1 + side]
            else:
                return value

    def same_test(self, value: Value) -> bool:
        """Whether a condition is that of the branch."""
        op = value.op
        if op is None or op is self.test:
            return op is self.test
        if op.spec.name != "cmpi" or op.attrs != self.test.attrs:
            return False
        return all(map(is_same, op.operands, self.test.operands))

    def following(self, number: int, last: bool) -> Value:
        """What a carried value becomes."""
        return self.resolve(self.loop.regions[0].block.ops[-1].operands[number], last)


def flat(loop: Op) -> Flat | str | None:
    """What a loop over the steps of all tiles is made of; None for other loops, the reason where more than the tiles would be
    lost."""
    if loop.spec.name != "for" or loop.attr("unsignedCmp") or constant_int(loop.operands[2]) != 1:
        return None
    body = loop.regions[0].block
    if (constant_int(loop.operands[0]) or 0) < 0 or constant_int(loop.operands[0]) is None:
        return None
    if not any(op.spec.name in PRODUCTS for op in body.ops):
        return None
    if any(op.spec.name in EXITS or op.spec.name == "continue" and op.parent is not loop and not in_loop(op, loop)
           for op in loop.walk()):  # fmt: skip
        return None
    reason = None
    for branch in [op for op in body.ops if op.spec.name == "if"]:
        found = turning(loop, branch)
        if found is None:
            continue
        reason = refusal(found)
        if reason is None:
            return found
    return reason


def refusal(found: Flat) -> str | None:
    """Why the steps of a tile cannot be a loop of their own; None: they can. Sorts what the loop carries."""
    if not sorts(found):
        return "what steps behind the last whole tile leave is asked for behind the loop"
    if not only_steps(found):
        return "steps that end no tile write memory, or have a loop"
    if not can_end(found):
        return "what ends a tile needs values from before its last step"
    return None


def in_loop(jump: Op, outer: Op) -> bool:
    """Whether a `continue` belongs to a loop inside of another one."""
    owner = jump.parent
    while owner is not None and owner.spec.name not in LOOPS:
        owner = owner.parent
    return owner is not outer


def turning(loop: Op, branch: Op) -> Flat | None:
    """A branch that is taken when a carried counter gets to a bound."""
    body = loop.regions[0].block
    test = branch.operands[0].op
    if test is None or test.spec.name != "cmpi" or len(branch.regions) != 2:
        return None
    for number in (0, 1):
        base, ahead = plus_one(test.operands[number])
        if base.op is not None or base.owner is not body or base is body.args[0]:
            continue
        predicate = test.attr("comparison_predicate")
        if number:
            predicate = SWAPPED.get(predicate, predicate)
        found = Flat(loop, branch, 0 if predicate in WHERE_TRUE else 1, test)
        if not all(region.blocks and region.block.ops for region in branch.regions):
            return None
        found.counter, found.bound, found.ahead = base, test.operands[1 - number], ahead
        found.least = predicate not in ("equal", "not_equal")
        if not found.least and not ahead:
            found.bound, found.ahead = plus_one_of(found.bound)
        if predicate in ("greater_than", "less_than_or_equal"):
            found.ahead -= 1  # %k > %n: %k - 1 >= %n
        if begins_again(found):
            return found
    return None


def begins_again(found: Flat) -> bool:
    """Whether the counter goes up by one, and back to where it began behind the last step."""
    loop, counter = found.loop, found.counter
    number = counter.index - 1
    start = loop.operands[3 + number]
    if counter.type != loop.operands[0].type or not known_before(found.bound, loop):
        return False
    if found.least and (
        constant_int(start) != 0 or found.ahead < 0 or found.test.attr("signedness") != "signed"
    ):
        return False
    step = plus_one(found.following(number, False))
    return step == (counter, 1) and is_same(found.following(number, True), start)


def plus_one(value: Value) -> tuple[Value, int]:
    """(%k, 1) for %k + 1, (%k, 0) for others."""
    op = value.op
    if op is not None and op.spec.name == "addi":
        for number in (0, 1):
            if constant_int(op.operands[number]) == 1:
                return op.operands[1 - number], 1
    return value, 0


def plus_one_of(bound: Value) -> tuple[Value, int]:
    """(%n, 1) for %n - 1, which %k is equal to where %k + 1 is %n; (%n, 0) for others."""
    op = bound.op
    if op is not None and op.spec.name == "subi" and constant_int(op.operands[1]) == 1:
        return op.operands[0], 1
    if op is not None and op.spec.name == "addi" and constant_int(op.operands[1]) == -1:
        return op.operands[0], 1
    return bound, 0


def known_before(value: Value, loop: Op) -> bool:
    """Whether a bound is there before the loop, or a constant."""
    return is_outside(value, loop) or constant_int(value) is not None


def is_same(x: Value, y: Value) -> bool:
    """Whether two values are one, or equal constants."""
    if x is y:
        return True
    a, b = x.op, y.op
    if a is None or b is None or a.spec.name != "constant" or b.spec.name != "constant":
        return False
    return x.type == y.type and a.attr("value") == b.attr("value")


def sorts(found: Flat) -> bool:
    """Sorts what the loop carries. What steps behind the last whole tile would make must not be asked for behind the loop."""
    loop, body = found.loop, found.loop.regions[0].block
    for number, result in enumerate(loop.results):
        arg = body.args[number + 1]
        if arg is found.counter:
            if result.uses:
                return False
        elif found.following(number, False) is arg:
            found.kept.append(number)
        elif result.uses:
            return False
        elif is_same(found.following(number, True), loop.operands[3 + number]):
            found.restarted.append(number)
        else:
            found.carried.append(number)
    return True


def only_steps(found: Flat) -> bool:
    """Whether all that happens to memory happens in the branch: steps that end no tile leave nothing then."""
    body = found.loop.regions[0].block
    stay = found.branch.regions[1 - found.side].block.ops
    for op in (*body.ops[:-1], *stay):
        if op is found.branch:
            continue
        for inner in op.walk():
            if inner.spec.name in LOOPS:
                return False
            weak = inner.spec.name in PLAIN_LOADS and inner.attr("memory_ordering_semantics") == "weak"
            if not (weak or computes(inner) or inner.spec.name == "if" or inner.spec.is_terminator):
                return False
    return True


def can_end(found: Flat) -> bool:
    """Whether what the end of a tile needs is there behind its last step: finds what is computed again, and tokens."""
    loop, body = found.loop, found.loop.regions[0].block
    given = behind(found)
    inside = found.branch.regions[found.side].block.ops
    numbers = [
        n for n in range(len(loop.results)) if n + 1 != found.counter.index and n not in found.restarted
    ]
    work = [*captured_in(inside, found), *(found.following(n, True) for n in numbers)]
    seen: set[Value] = set()
    while work:
        value = found.resolve(work.pop(), True)
        if value in seen or value in given or is_outside(value, loop):
            continue
        seen.add(value)
        op = value.op
        if op is None:
            if value.owner is body:
                return False  # what it was before the last step
            continue
        if op.block is not body:
            continue  # the branch makes it
        if op.spec.name in PLAIN_LOADS and value.type is TOKEN:
            found.handed.append(value)
        elif op.regions or not computes(op):
            return False
        else:
            found.again.add(op)
            work += op.operands
    return True


def behind(found: Flat) -> dict[Value, int]:
    """Values of a tile's last step that are there behind it: what the branch alone changes, and what is carried on, by number.
    The counters are known, too: number -1."""
    body = found.loop.regions[0].block
    out = {body.args[0]: -1, found.counter: -1}
    for number in (*found.kept, *found.restarted, *found.carried):
        out.setdefault(found.following(number, False), number)
    return out


def captured_in(ops: Iterable[Op], found: Flat) -> list[Value]:
    """What the ops of the branch's side use from outside of it."""
    made: set[Any] = set()
    used: list[Value] = []
    for op in ops:
        made.update(op.results)
        used += captured(op)
    return [value for value in used if value not in made]
