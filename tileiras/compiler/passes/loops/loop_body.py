"""The parts of a `loop`'s body around the one place where it is left: what is in front of the test, the work, the jump."""

from __future__ import annotations

from tileiras.compiler.ir.core import Block, Op, Value
from tileiras.compiler.schedule.candidates import constant_int

from .index_bounds import movable, without_effect


class Body:
    """The parts of a loop's body around the one place where it is left.

    before: ops in front of the test, which run once more than the rest. work: those behind it, up to the jump.
    leave: the break. taken: the region of the branch that jumps. negated: whether the loop ends where the condition holds.
    early: branches in front of the work that leave the loop, too, each with its region that does. tests: the ops that make the
    condition; of several, each has to go on. shorts: branches among them, as `&&` leaves them. skips: jumps in the work that
    end an iteration.
    """

    def __init__(
        self,
        before: list[Op],
        branch: Op,
        work: list[Op],
        jump: Op,
        leave: Op,
        taken: int,
        negated: bool,
        early: list[tuple[Op, int]],
        skips: list[Op],
    ) -> None:
        self.skips = skips
        self.before = before
        self.branch = branch
        self.work = work
        self.jump = jump
        self.leave = leave
        self.taken = taken
        self.negated = negated
        self.early = early
        self.tests, self.shorts = all_of(branch.operands[0], negated)

    @property
    def behind(self) -> Op:
        """The op in front of which stands what all jumps to the next iteration hand on: the last one where there is no other."""
        return self.work[0] if self.skips else self.jump

    def passed(self, value: Value) -> Value:
        """A result of the branch as the region that does not jump has it; any other value as it is."""
        for branch, side in ((self.branch, self.taken), *reversed(self.early)):
            if value.op is branch:
                value = branch.regions[1 - side].block.ops[-1].operands[value.index]
        return value


# why a loop has no such parts
NO_TEST = "no branch of its own ends it"
DOES_MORE = "the branch that ends it does more"
MIDDLE = "it is left with some of a step's work done"
BEFORE = "a `continue` stands in front of the branch that ends it"


def body_of(loop: Op) -> Body | str:
    """The parts of a loop that is left in one place, by a branch in front of its work; why it has none."""
    ops = loop.regions[0].block.ops
    last = ops[-1].spec.name
    if last == "break" and len(ops) > 1 and ops[-2].spec.name == "if":
        branch = ops[-2]
        sides = [ops_of(branch, 0), ops_of(branch, 1)]
        for going in (0, 1):
            inside, other = sides[going], sides[1 - going]
            if inside and inside[-1].spec.name == "continue" and _only_yields(other):
                early = early_leaves(inside[:-1], loop)
                if isinstance(early, str):
                    return early
                return Body(ops[:-2], branch, inside[:-1], inside[-1], ops[-1], going, going == 1, *early)
        return DOES_MORE
    if last != "continue":
        return NO_TEST
    for k, branch in enumerate(ops):
        if branch.spec.name == "if" and jumps([branch], loop):
            sides = [ops_of(branch, 0), ops_of(branch, 1)]
            for leaving in (0, 1):
                inside = sides[leaving]
                if [op.spec.name for op in inside] == ["break"] and _only_yields(sides[1 - leaving]):
                    work = ops[k + 1 : -1]
                    early = early_leaves(work, loop)
                    if isinstance(early, str):
                        return early
                    return Body(ops[:k], branch, work, ops[-1], inside[0], leaving, leaving == 0, *early)
            return BEFORE if skips_of(branch, loop) else DOES_MORE
    return NO_TEST


def all_of(condition: Value, negated: bool) -> tuple[list[Op], list[Op]]:
    """The ops of which each has to go on, and the branches that ask for one behind another: `%i < %n && %i < %m`, or, where the
    condition leaves, `||`. One op for a condition that is made otherwise."""
    tests: list[Op] = []
    shorts: list[Op] = []
    work = [condition]
    while work:
        value = work.pop()
        op = value.op
        if op is None or len(op.results) != 1 or len(value.uses) != 1:
            return [condition.op], []  # type: ignore[list-item]
        if op.spec.name == ("ori" if negated else "andi"):
            work += reversed(op.operands)
        elif op.spec.name == "if":
            asked, given = (ops_of(op, 1), ops_of(op, 0)) if negated else (ops_of(op, 0), ops_of(op, 1))
            for side in (asked, given):
                if (
                    not side
                    or side[-1].spec.name != "yield"
                    or not all(movable(inner) for inner in side[:-1])
                ):
                    return [condition.op], []  # type: ignore[list-item]
            if constant_int(given[-1].operands[0]) not in ((1, -1) if negated else (0,)):
                return [condition.op], []  # type: ignore[list-item]
            shorts.append(op)
            work += (asked[-1].operands[0], op.operands[0])
        else:
            tests.append(op)
    return tests, shorts


def ops_of(branch: Op, k: int) -> list[Op]:
    return branch.regions[k].block.ops if branch.regions[k].blocks else []


def _only_yields(ops: list[Op]) -> bool:
    return not ops or [op.spec.name for op in ops] == ["yield"]


def jumps(ops: list[Op], loop: Op) -> bool:
    """Whether one of the ops leaves the loop, or an iteration of it."""
    for op in ops:
        for inner in op.walk():
            name = inner.spec.name
            if name == "return":
                return True
            if name in ("break", "continue"):
                if owner_of(inner) is loop:
                    return True
    return False


def early_leaves(ops: list[Op], loop: Op) -> tuple[list[tuple[Op, int]], list[Op]] | str:
    """(the branches that leave a loop before anything is done, each with its region that does; the jumps that end an iteration);
    why not, where another op leaves it."""
    found: list[tuple[Op, int]] = []
    skips: list[Op] = []
    quiet = True  # nothing in front of an op has an effect
    for op in ops:
        if jumps([op], loop):
            ends = skips_of(op, loop)
            if ends:
                skips += ends
                quiet = False
                continue
            sides = [ops_of(op, k) for k in range(len(op.regions))]
            names = [[inner.spec.name for inner in side] for side in sides]
            if not quiet:
                return MIDDLE
            if op.spec.name != "if" or ["break"] not in names:
                return DOES_MORE
            leaving = names.index(["break"])
            if not _only_yields(sides[1 - leaving]):
                return DOES_MORE
            found.append((op, leaving))
        else:
            quiet = quiet and without_effect(op)
    return found, skips


def skips_of(branch: Op, loop: Op) -> list[Op]:
    """The jumps of a branch to the next iteration; none where it leaves the loop, too."""
    found = []
    for op in branch.walk():
        if op.spec.name in ("break", "continue", "return"):
            if op.spec.name == "continue" and owner_of(op) is loop:
                found.append(op)
            elif jumps([op], loop):
                return []
    return found


def owner_of(jump: Op) -> Op | None:
    """The loop of a jump."""
    owner = jump.parent
    while owner is not None and owner.spec.name == "if":
        owner = owner.parent
    return owner


def position(body: Block, value: Value | None) -> int | None:
    """Which argument of a body a value is."""
    return value.index if value is not None and value.owner is body else None
