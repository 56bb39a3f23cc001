"""Control flow: branches, loops, and where values wait that cross the border of a region."""

from __future__ import annotations

from .code import REGISTER, bytes_of, name_of
from .registry import lowers
from .space import bits_of, identity
from .tiles import Node, Remapped, Stored, Uniform

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tileiras.compiler.ir.core import Block, Op

    from .lower import Lower


class Slot:
    """Where a value that crosses regions waits: a local for one element, else a buffer."""

    __slots__ = ("bits", "buffer", "name", "pointer", "shape", "stored")

    def __init__(self, lower: Lower, name: str, shape: Sequence[int]) -> None:
        self.name, self.shape, self.bits = name, tuple(shape), bits_of(shape)
        self.buffer, self.pointer = None, ""
        if self.bits == 0:
            self.pointer = lower.c.alloca(REGISTER[name], 8)
        else:
            self.buffer = lower.arena.new(bytes_of(name) << self.bits)
            self.stored = Stored(name, shape, self.buffer)

    def holds(self, node: Node) -> bool:
        if isinstance(node, Remapped) and node.inner == identity(node.bits):
            return self.holds(node.source)
        return node.buffer is not None and node.buffer is self.buffer

    def set_scalar(self, lower: Lower, text: str) -> None:
        lower.c.do(f"store {REGISTER[self.name]} {text}, ptr {self.pointer}, align 8")

    def read(self, lower: Lower) -> Node:
        if self.bits == 0:
            value = lower.c.op(f"load {REGISTER[self.name]}, ptr {self.pointer}, align 8")
            return Uniform(self.name, self.shape, value)
        lower.arena.touch(self.buffer)
        return Stored(self.name, self.shape, self.buffer)


class Target:
    """Where the terminators of a region go: what they assign, and the label."""

    __slots__ = ("break_", "continue_", "kind", "yield_")

    def __init__(self, kind: str, continue_: Any = None, break_: Any = None, yield_: Any = None) -> None:
        self.kind, self.continue_, self.break_, self.yield_ = kind, continue_, break_, yield_


def may_wait(func: Op) -> bool:
    """Whether some loop reads what another tile block may change: an atomic, a load that is more than weak, or any
    load in a `loop`; its result is used.
    """

    def visit(op: Op, loops: tuple[str, ...]) -> bool:
        name = op.spec.name
        if (
            loops
            and name.startswith(("load_", "atomic_"))
            and op.results[0].uses
            and not name.startswith("atomic_red")
        ):
            if "loop" in loops or op.attr("memory_ordering_semantics") != "weak":
                return True
        inner = (*loops, name) if name in ("for", "loop") else loops
        return any(visit(o, inner) for region in op.regions for block in region.blocks for o in block.ops)

    return visit(func, ())


def lower_inside(lower: Lower, block: Block, target: Target) -> None:
    """The ops of a region, whose terminators go to `target`. What is loaded in it is not there behind it."""
    around = list(lower.loads)
    lower.targets.append(target)
    lower.block(block)
    lower.targets.pop()
    lower.loads = around


@lowers("if")
def lower_if(lower: Lower, op: Op) -> None:
    c = lower.c
    condition = lower.scalar(op.operands[0])
    lower.before_region(op)
    slots = lower.slots(op.results)
    then, other, done = c.new_label("if"), c.new_label("else"), c.new_label("endif")
    has_else = len(op.regions) > 1 and bool(op.regions[1].blocks)
    c.branch(condition, then, other if has_else else done)
    for label, region in zip((then, other), op.regions):
        if not region.blocks:
            continue
        c.begin(label)
        lower_inside(lower, region.block, Target("if", yield_=(slots, done)))
        lower.end(done) if region.block.terminator is None else None
    c.jump(done)
    c.begin(done)
    lower.bind(op.results, slots)


@lowers("yield")
def lower_yield(lower: Lower, op: Op) -> None:
    slots, label = lower.targets[-1].yield_
    lower.assign(slots, op.operands)
    lower.end(label)


@lowers("for")
def lower_for(lower: Lower, op: Op) -> None:
    c = lower.c
    block = op.regions[0].block
    name = name_of(block.args[0].type.elem)  # type: ignore[attr-defined]
    type, unsigned = REGISTER[name], bool(op.attr("unsignedCmp"))
    low, high, by = (lower.scalar(v) for v in op.operands[:3])
    lower.before_region(op)
    slots = lower.slots(block.args[1:])
    if not (by.isdigit() and int(by) > 0):
        bad = c.op(f"icmp sle {type} {by}, 0") if not unsigned else c.op(f"icmp eq {type} {by}, 0")
        ok = c.new_label("step")
        stop = c.new_label("nostep")
        c.branch(bad, stop, ok)
        c.begin(stop)
        lower.fault(op, None, "0", "0")
        c.jump("exit")
        c.begin(ok)
    lower.assign(slots, op.operands[3:])
    counter = c.alloca(type, 8)
    c.do(f"store {type} {low}, ptr {counter}, align 8")
    head, body, latch, done = (c.new_label(x) for x in ("for", "body", "next", "endfor"))
    lower.arena.now += 1
    start = lower.arena.now
    c.jump(head)
    c.begin(head)
    iv = c.op(f"load {type}, ptr {counter}, align 8")
    c.branch(c.op(f"icmp {'ult' if unsigned else 'slt'} {type} {iv}, {high}"), body, done)
    c.begin(body)
    lower.values[block.args[0]] = Uniform(name, (), iv)
    if by.isdigit():
        lower.counters[block.args[0]] = int(by)
    lower.bind(block.args[1:], slots)
    lower_inside(lower, block, Target("for", continue_=(slots, latch), break_=(slots, done)))
    c.jump(latch)
    c.begin(latch)
    lower.stop_here()
    following = c.op(f"add {type} {iv}, {by}")
    c.do(f"store {type} {following}, ptr {counter}, align 8")
    wrapped = c.op(f"icmp {'ult' if unsigned else 'slt'} {type} {following}, {iv}")
    c.branch(wrapped, done, head)
    c.begin(done)
    lower.arena.now += 1
    lower.arena.loops.append((start, lower.arena.now))
    lower.bind(op.results, slots)


@lowers("loop")
def lower_loop(lower: Lower, op: Op) -> None:
    c = lower.c
    block = op.regions[0].block
    lower.before_region(op)
    slots, results = lower.slots(block.args), lower.slots(op.results)
    lower.assign(slots, op.operands)
    head, done = c.new_label("loop"), c.new_label("endloop")
    lower.arena.now += 1
    start = lower.arena.now
    c.jump(head)
    c.begin(head)
    lower.stop_here()
    lower.bind(block.args, slots)
    lower_inside(lower, block, Target("loop", continue_=(slots, head), break_=(results, done)))
    c.jump(head)
    c.begin(done)
    lower.arena.now += 1
    lower.arena.loops.append((start, lower.arena.now))
    lower.bind(op.results, results)


def innermost(lower: Lower) -> Target:
    return next(t for t in reversed(lower.targets) if t.kind != "if")


@lowers("continue")
def lower_continue(lower: Lower, op: Op) -> None:
    slots, label = innermost(lower).continue_
    lower.assign(slots, op.operands)
    lower.end(label)


@lowers("break")
def lower_break(lower: Lower, op: Op) -> None:
    slots, label = innermost(lower).break_
    lower.assign(slots, op.operands)
    lower.end(label)


@lowers("return")
def lower_return(lower: Lower, op: Op) -> None:
    lower.end("exit")
