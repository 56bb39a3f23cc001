"""Regions compiled once into lists of closures over a frame of slots; running a tile block is calling them.

Every SSA value has a slot. A pure op becomes `frame[d] = fn(frame[a], ...)`; pure ops of constants are
computed here and never again. Control flow: a block runs its steps in order and stops at the first that
returns a signal (continue, break, return); `continue` and `break` have written the carried values by then.
"""

from __future__ import annotations

import numpy as np

from tileiras.compiler.ir.spec import PURE as PURE_TRAIT
from tileiras.diag import Emitted
from tileiras.run.errors import BAD_STEP, LaunchError

from . import diags
from .floats import storage_dtype
from .registry import EFFECT, ELEMENTWISE, PURE, effect
from .taint import move_masks, put, report_use, specified, spread_step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from tileiras.compiler.ir.core import Block, Op, Value

    from .registry import Frame, Step

CONTINUE, BREAK, RETURN = 1, 2, 3
FOLD_LIMIT = 1 << 20  # elements of a constant kept in the frame's template
LOOPS = ("for", "loop")


class Compiler:
    """Compiles one entry."""

    def __init__(self, module: Op, entry: Op, check: bool) -> None:
        self.module, self.entry, self.check = module, entry, check
        self.slots: dict[Value, int] = {}
        self.template: Frame = [None]
        self.known: set[int] = set()  # slots whose value is in the template
        self.loops: list[Op] = []
        self.targets: list[tuple[Op, str]] = []
        self.vector = 0  # depth of reduce and scan bodies that run on whole tiles
        self.assumed: dict[Value, list[Op]] = {}  # stride -> assumptions on it, checked where views are made
        self.watched: set[int] = set()  # loops around places where a tile block may wait, by id
        self.waits = False  # some loop reads memory that another tile block may change

    def slot(self, value: Value) -> int:
        number = self.slots.get(value)
        if number is None:
            number = self.slots[value] = len(self.template)
            self.template.append(None)
        return number

    def slots_of(self, values: Sequence[Value]) -> tuple[int, ...]:
        return tuple(self.slot(v) for v in values)

    def move(self, source: tuple[int, ...], target: tuple[int, ...]) -> Step | None:
        """Parallel assignment of slots, with their masks when they are followed."""
        assign = move(source, target)
        if assign is None or not self.check:
            return assign
        plain = assign

        def both(s: Frame) -> None:
            move_masks(s, source, target)
            plain(s)

        return both

    def at(self, op: Op, name: str) -> int:
        """The slot of a required operand."""
        return self.slot(op.group(name)[0])

    def one(self, value: Value | None) -> int | None:
        return None if value is None else self.slot(value)

    # ---- blocks

    def block(self, block: Block) -> Callable[[Frame], Any]:
        """Runs a block; returns the signal that ended it, None at its plain end."""
        steps: list[Step] = []
        exits = False
        for op in block.ops:
            step = self.op(op)
            if step is not None:
                steps.append(step)
                exits = exits or bool(op.regions) or op.spec.is_terminator
        fixed = tuple(steps)
        if not exits:

            def run_through(s: Frame) -> None:
                for step in fixed:
                    step(s)

            return run_through

        def run(s: Frame) -> Any:
            for step in fixed:
                signal = step(s)
                if signal is not None:
                    return signal
            return None

        return run

    def op(self, op: Op) -> Step | None:
        name = op.spec.name
        build = PURE.get(name)
        if build is None:
            compiled = EFFECT.get(name)
            if compiled is None:
                raise LaunchError(
                    [Emitted(diags.UNSUPPORTED, op.loc, op.spec.full_name, [("why", "unknown op")])]
                )
            return compiled(self, op)
        args = self.slots_of(op.operands)
        d = self.slot(op.result)
        fn = build(op)
        checked = self.checked(op, args)
        if checked is None and op.spec.traits & PURE_TRAIT and self.known.issuperset(args):
            value = fn(*(self.template[a] for a in args))
            if np.size(value) <= FOLD_LIMIT:
                self.template[d] = value
                self.known.add(d)
                return None
        plain = apply(fn, args, d)
        if not self.check:
            return plain
        spread = spread_step(op, fn, args, d)

        def both(s: Frame) -> None:
            if checked is not None:
                checked(s)
            plain(s)
            spread(s)

        return both

    def checked(self, op: Op, args: tuple[int, ...]) -> Step | None:
        """With check=True: the step that reports undefined operands of an op."""
        if not self.check:
            return None
        from .checks import CHECKS

        build = CHECKS.get(op.spec.name)
        find = build(op) if build is not None else None
        if find is None:
            return None

        def step(s: Frame) -> None:
            for what, bad in find(*(s[a] for a in args)):
                if np.any(bad) and np.any(bad := specified(s[0], args, bad)):
                    state = s[0]
                    state.launch.report_elements(diags.UNDEFINED, op, state, bad, what=what)

        return step


def apply(fn: Callable[..., Any], args: tuple[int, ...], d: int) -> Step:
    """frame[d] = fn(frame[a] ...), with the arity unrolled."""
    if len(args) == 1:
        (a,) = args

        def step(s: Frame) -> None:
            s[d] = fn(s[a])

    elif len(args) == 2:
        a, b = args

        def step(s: Frame) -> None:
            s[d] = fn(s[a], s[b])

    elif len(args) == 3:
        a, b, c = args

        def step(s: Frame) -> None:
            s[d] = fn(s[a], s[b], s[c])

    else:

        def step(s: Frame) -> None:
            s[d] = fn(*[s[x] for x in args])

    return step


def move(source: tuple[int, ...], target: tuple[int, ...]) -> Step | None:
    """Parallel assignment of slots; None when there is nothing to do."""
    if not source:
        return None
    if len(source) == 1:
        (a,), (d,) = source, target

        def assign_one(s: Frame) -> None:
            s[d] = s[a]

        return assign_one

    def assign(s: Frame) -> None:
        values = [s[a] for a in source]
        for d, value in zip(target, values):
            s[d] = value

    return assign


def signal_after(assign: Step | None, signal: int | None) -> Step:
    def step(s: Frame) -> Any:
        if assign is not None:
            assign(s)
        return signal

    return step


@effect("if")
def compile_if(c: Compiler, op: Op) -> Step:
    condition = c.slot(op.operands[0])
    results = c.slots_of(op.results)
    if c.vector:
        return compile_select(c, op, condition, results)
    c.targets.append((op, "if"))
    then = c.block(op.regions[0].block)
    other = c.block(op.regions[1].block) if len(op.regions) > 1 and op.regions[1].blocks else None
    c.targets.pop()
    check = c.check

    def step(s: Frame) -> Any:
        if check:
            report_use(s[0], op, condition, None, "branches on")
        if s[condition]:
            return then(s)
        if other is not None:
            return other(s)
        return None

    return step


def compile_select(c: Compiler, op: Op, condition: int, results: tuple[int, ...]) -> Step:
    """An `if` in a body that runs on whole tiles: both sides, then a choice per element."""
    sides = []
    for region in op.regions:
        if region.blocks:
            block = region.block
            steps = [s for inner in block.ops[:-1] if (s := c.op(inner)) is not None]
            sides.append((tuple(steps), c.slots_of(block.ops[-1].operands)))

    def step(s: Frame) -> None:
        values = []
        for steps, ends in sides:
            for inner in steps:
                inner(s)
            values.append([s[e] for e in ends])
        for i, d in enumerate(results):
            s[d] = np.where(s[condition], values[0][i], values[1][i])

    return step


def counted(c: Compiler, loop: Op, enter: Step | None) -> Step | None:
    """`enter`, which also counts how often a loop is entered that a tile block may wait in."""
    number = id(loop)
    if number not in c.watched:
        return enter

    def step(s: Frame) -> None:
        entered = s[0].entered
        entered[number] = entered.get(number, 0) + 1
        if enter is not None:
            enter(s)

    return step


@effect("for")
def compile_for(c: Compiler, op: Op) -> Step:
    lower, upper, by = c.slots_of(op.operands[:3])
    inits = c.slots_of(op.operands[3:])
    block = op.regions[0].block
    iv, *carried = c.slots_of(block.args)
    enter, leave = c.move(inits, tuple(carried)), c.move(tuple(carried), c.slots_of(op.results))
    c.loops.append(op)
    c.targets.append((op, "for"))
    body = c.block(block)
    c.targets.pop()
    c.loops.pop()
    dtype = storage_dtype(block.args[0].type.elem)  # type: ignore[attr-defined]
    make: Any = dtype.type
    enter = counted(c, op, enter)
    unsigned = bool(op.attr("unsignedCmp"))
    natural = np.dtype(f"u{dtype.itemsize}") if unsigned and dtype.kind == "i" else None

    def step(s: Frame) -> Any:
        if enter is not None:
            enter(s)
        bounds = [s[lower], s[upper], s[by]]
        if natural is not None:
            bounds = [b.view(natural) for b in bounds]
        low, high, stride = map(int, bounds)
        if stride <= 0:
            finding = [
                ("what", BAD_STEP),
                ("block", s[0].id_text),
                ("element", "[]"),
            ]
            raise LaunchError(
                [*s[0].launch.findings, Emitted(diags.UNDEFINED, op.loc, op.spec.full_name, finding)]
            )
        for i in range(low, high, stride):
            s[iv] = make(i) if natural is None else natural.type(i).view(dtype)
            if body(s) == RETURN:
                return RETURN
        if leave is not None:
            leave(s)
        return None

    return step


@effect("loop")
def compile_loop(c: Compiler, op: Op) -> Step:
    block = op.regions[0].block
    enter = c.move(c.slots_of(op.operands), c.slots_of(block.args))
    c.slots_of(op.results)
    c.loops.append(op)
    c.targets.append((op, "loop"))
    body = c.block(block)
    c.targets.pop()
    c.loops.pop()
    enter = counted(c, op, enter)

    def step(s: Frame) -> Any:
        if enter is not None:
            enter(s)
        while True:
            signal = body(s)
            if signal is not None and signal != CONTINUE:
                return RETURN if signal == RETURN else None

    return step


def innermost_loop(c: Compiler) -> Op:
    return next(op for op, kind in reversed(c.targets) if kind != "if")


@effect("continue")
def compile_continue(c: Compiler, op: Op) -> Step:
    loop = innermost_loop(c)
    args = loop.regions[0].block.args
    targets = args[1:] if loop.spec.name == "for" else args
    return signal_after(c.move(c.slots_of(op.operands), c.slots_of(targets)), CONTINUE)


@effect("break")
def compile_break(c: Compiler, op: Op) -> Step:
    return signal_after(c.move(c.slots_of(op.operands), c.slots_of(innermost_loop(c).results)), BREAK)


@effect("return")
def compile_return(c: Compiler, op: Op) -> Step:
    return signal_after(None, RETURN)


@effect("yield")
def compile_yield(c: Compiler, op: Op) -> Step:
    parent = c.targets[-1][0]
    return signal_after(c.move(c.slots_of(op.operands), c.slots_of(parent.results)), None)


# ---- reduce and scan


def vectorizable(block: Block) -> bool:
    """Whether a body can run on whole tiles at once: elementwise ops, constants and `if` only."""
    for op in block.ops:
        name = op.spec.name
        if name == "if":
            if not all(vectorizable(r.block) for r in op.regions if r.blocks):
                return False
        elif name not in ELEMENTWISE and name not in (
            "yield",
            "assume",
            "get_tile_block_id",
            "get_num_tile_blocks",
        ):
            return False
        for v in (*op.operands, *op.results):
            if getattr(v.type, "shape", ()):
                return False
    return True


COMMUTATIVE = ("addf", "mulf", "maxf", "minf", "addi", "muli", "maxi", "mini", "andi", "ori", "xori")


def commutative(block: Block) -> bool:
    """A single op whose operands may be swapped: halves can be combined instead of neighbours."""
    if len(block.ops) != 2 or block.ops[0].spec.name not in COMMUTATIVE:
        return False
    first = block.ops[0]
    return set(first.operands) == set(block.args) and block.ops[1].operands == [first.result]


def compile_body(c: Compiler, op: Op) -> Callable[[Frame, list[Any], list[Any]], list[Any]]:
    """combine(frame, elements, accumulators) -> results, for arrays of any one shape.

    Of each pair of block arguments the first is what came earlier along the dimension, the second what comes
    later (so NVIDIA's code combines a scan whose body does not commute).
    """
    block = op.regions[0].block
    args = c.slots_of(block.args)
    outer = c.targets
    if vectorizable(block):
        c.vector += 1
        steps = tuple(step for inner in block.ops[:-1] if (step := c.op(inner)) is not None)
        c.vector -= 1
        ends = c.slots_of(block.ops[-1].operands)

        def combine(s: Frame, elements: list[Any], accumulators: list[Any]) -> list[Any]:
            for i, (x, acc) in enumerate(zip(elements, accumulators)):
                s[args[2 * i]], s[args[2 * i + 1]] = acc, x
            for step in steps:
                step(s)
            shape = np.shape(elements[0])
            return [np.broadcast_to(s[e], shape) for e in ends]

        return combine
    vector, c.vector, c.targets = c.vector, 0, [(op, "if")]
    ends = tuple(len(c.template) + i for i in range(len(op.results)))
    c.template.extend([None] * len(ends))
    saved: list[int | None] = [c.slots.get(r) for r in op.results]
    for r, e in zip(op.results, ends):
        c.slots[r] = e
    run = c.block(block)
    for r, old in zip(op.results, saved):
        if old is None:
            del c.slots[r]
        else:
            c.slots[r] = old
    c.vector, c.targets = vector, outer

    def combine_each(s: Frame, elements: list[Any], accumulators: list[Any]) -> list[Any]:
        shape = np.shape(elements[0])
        out = [np.empty(shape, np.asarray(x).dtype) for x in elements]
        for place in np.ndindex(*shape):
            for i, (x, acc) in enumerate(zip(elements, accumulators)):
                s[args[2 * i]], s[args[2 * i + 1]] = acc[place], x[place]
            run(s)
            for o, e in zip(out, ends):
                o[place] = s[e].reshape(())[()] if np.ndim(s[e]) else s[e]
        return out

    return combine_each


def unspecified(s: Frame, slots: Sequence[int]) -> list[Any]:
    """Which elements of tiles nobody specified, as masks of their shapes; nothing for tiles that are specified throughout."""
    known = s[0].unspecified
    return [np.broadcast_to(m, np.shape(s[a])) for a in slots if (m := known.get(a)) is not None]


@effect("reduce")
def compile_reduce(c: Compiler, op: Op) -> Step:
    """A tree: neighbours in order (the earlier one is the accumulator), halves where the op commutes."""
    sources, dim = c.slots_of(op.operands), op.attr("dim")
    combine = compile_body(c, op)
    results = c.slots_of(op.results)
    halves = commutative(op.regions[0].block)

    def step(s: Frame) -> None:
        x = [np.moveaxis(s[a], dim, 0) for a in sources]
        if c.check:
            masks = unspecified(s, sources)
            for d in results:
                put(s, d, np.logical_or.reduce(masks).any(dim) if masks else None)
        count = x[0].shape[0]
        while count > 1:
            if halves:
                count //= 2
                x = combine(s, [v[count:] for v in x], [v[:count] for v in x])
            else:
                x = combine(s, [v[1::2] for v in x], [v[0::2] for v in x])
                count //= 2
        for d, v in zip(results, x):
            s[d] = v[0]

    return step


def running_or(masks: list[Any], dim: int, reverse: bool) -> Any:
    """Which prefixes contain an unspecified element."""
    mask = np.logical_or.reduce(masks)
    mask = np.flip(mask, dim) if reverse else mask
    out = np.logical_or.accumulate(mask, dim)
    return np.flip(out, dim) if reverse else out


@effect("scan")
def compile_scan(c: Compiler, op: Op) -> Step:
    """Inclusive prefixes by pairs: combine neighbours, scan those, fill in between."""
    sources, dim, reverse = c.slots_of(op.operands), op.attr("dim"), bool(op.attr("reverse"))
    combine = compile_body(c, op)
    results = c.slots_of(op.results)

    def prefixes(s: Frame, x: list[Any]) -> list[Any]:
        if x[0].shape[0] == 1:
            return x
        pairs = prefixes(s, combine(s, [v[1::2] for v in x], [v[0::2] for v in x]))
        out = [np.empty_like(v) for v in x]
        for o, v, p in zip(out, x, pairs):
            o[0], o[1::2] = v[0], p
        if x[0].shape[0] > 2:
            between = combine(s, [v[2::2] for v in x], [p[:-1] for p in pairs])
            for o, v in zip(out, between):
                o[2::2] = v
        return out

    def step(s: Frame) -> None:
        x = [np.moveaxis(s[a], dim, 0) for a in sources]
        if c.check:
            masks = unspecified(s, sources)
            for d in results:
                put(s, d, running_or(masks, dim, reverse) if masks else None)
        if reverse:
            x = [v[::-1] for v in x]
        x = prefixes(s, x)
        for d, v in zip(results, x):
            s[d] = np.moveaxis(v[::-1] if reverse else v, 0, dim)

    return step
