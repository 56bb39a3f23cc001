"""Structured control flow: for, loop, if and their early exits become labels, branches and copies.

Tile-level control flow is uniform across the CTA (conditions are scalars that every thread computes alike), so
barriers inside branches are safe. A carried value is a register that is written again at the end of each
iteration; copies of one edge are parallel.
"""

from __future__ import annotations

from tileiras.compiler.target import sm
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.registers import reg_class

from .state import Lowering, Tile
from .transfer import pack_words, unpack_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tileiras.compiler.ir.core import Block, Op, Region, Value

NOUNROLL = "nv_tileaa.nounroll"  # on a loop over slices
MULTIPLYING = ("mma.", "wgmma.mma_async", "tcgen05.")  # opcodes of products


class LoopFrame:
    """Where `continue` and `break` go and what they write."""

    __slots__ = ("break_label", "carried", "continue_label", "is_for", "results")

    def __init__(
        self, is_for: bool, continue_label: Any, break_label: Any, carried: Any, results: Any
    ) -> None:
        self.is_for = is_for
        self.continue_label = continue_label
        self.break_label = break_label
        self.carried = carried  # (value, registers) written by continue
        self.results = results  # (value, registers) written by break


def in_words(block: Block) -> set[Value]:
    """The arguments of a loop's body that are carried four bytes to a register: tiles of bytes that were loaded, for this step or
    a later one, and are taken from words where they are used."""
    last = block.ops[-1]
    if last.spec.name != "continue":
        return set()
    found = {arg: value for arg, value in zip(block.args[1:], last.operands) if _is_bytes(arg.type)}
    computed: list[Value] = [block.args[0]]
    while computed:
        computed = [arg for arg, value in found.items() if value not in found and not _is_loaded(value)]
        for arg in computed:
            del found[arg]
    return set(found)


def _is_bytes(type: Any) -> bool:
    """Whether a thread's elements of a tile are bytes that make whole words."""
    layout = getattr(type, "layout", None)
    return layout is not None and getattr(type.elem, "bits", 0) == 8 and layout.num_regs >= 4


def _is_loaded(value: Value) -> bool:
    """Whether a tile of bytes was loaded in words, or is one constant where a branch did not load it."""
    op = value.op
    if op is None or not _is_bytes(value.type):
        return False
    if op.spec.name == "if":
        number = op.results.index(value)
        ends = [region.block.ops[-1] for region in op.regions]
        return all(_is_loaded(end.operands[number]) for end in ends if end.spec.name == "yield")
    return op.spec.name in ("load_view_tko", "load_ptr_tko", "constant")


def _words(lowering: Lowering, target: Value, source: Value) -> list[Any]:
    """New registers for a carried tile of bytes, holding `source`, four to a register."""
    type: Any = target.type
    regs = list(lowering.regs_as(source, type.layout))
    return [lowering.b.fresh(word, "r") for word in pack_words(lowering, regs, type.elem)]


def _define_bytes(lowering: Lowering, target: Value, words: Sequence[Any]) -> None:
    type: Any = target.type
    lowering.env[target] = Tile(type.elem, type.shape, type.layout, unpack_words(lowering, words, type.elem))


def _fresh(lowering: Lowering, target: Value, source: Value | None) -> list[Any]:
    """New registers for a carried value or result, holding `source`; defines `target`."""
    type: Any = target.type
    if not hasattr(type, "layout"):  # tokens have no value
        lowering.env[target] = None
        return []
    cls = reg_class(type.elem)
    b = lowering.b
    if source is None:
        regs = [b.reg(cls) for _ in range(type.layout.num_regs)]
    else:
        regs = [b.fresh(r, cls) for r in lowering.regs_as(source, type.layout)]
    lowering.env[target] = Tile(type.elem, type.shape, type.layout, regs)
    return regs


def _assign(lowering: Lowering, targets: Sequence[tuple[Any, list[Any]]], values: Sequence[Value]) -> None:
    """Parallel copies of values into carried registers."""
    b = lowering.b
    moves = []
    for (type, regs), value in zip(targets, values):
        if regs:
            have = lowering.regs_as(value, type.layout)
            if len(regs) < len(have):  # bytes in words
                have = pack_words(lowering, list(have), type.elem)
            moves += list(zip(regs, have))
    moves = [(dst, src) for dst, src in moves if dst is not src]
    written = {dst for dst, _ in moves}
    late = []
    for dst, src in moves:
        if src in written:
            late.append((dst, b.fresh(src, dst.cls)))
    staged = dict(late)
    for dst, src in moves:
        b.copy(dst, staged.get(dst, src))


def lower_for(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    block = op.regions[0].block
    lower, upper, step = (lowering.scalar(v) for v in op.operands[:3])
    bits = op.operands[0].type.elem.bits  # type: ignore[attr-defined]
    unsigned = bool(op.attr("unsignedCmp"))
    w = max(32, bits)
    from .arith import extended, signed_imm

    lower, upper, step = (extended(lowering, v, bits, not unsigned) for v in (lower, upper, step))
    kind = f"{'u' if unsigned else 's'}{w}"
    if not unsigned:
        lower, upper, step = (signed_imm(v, w) for v in (lower, upper, step))
    induction = b.fresh(lower, "d" if w == 64 else "r")
    iv = block.args[0]
    iv_type: Any = iv.type
    lowering.env[iv] = Tile(iv_type.elem, (), iv_type.layout, [induction])
    packed = in_words(block)
    carried = [
        (arg.type, (_words if arg in packed else _fresh)(lowering, arg, init))
        for arg, init in zip(block.args[1:], op.operands[3:])
    ]
    head, next_label, done = b.label(), b.label(), b.label()
    b.bra(done, b.emit(f"setp.ge.{kind}", induction, upper))
    b.place(head)
    if op.attrs.get(NOUNROLL):  # ptxas would repeat the body and need registers for every copy
        b.emit_to(None, "pragma", "nounroll")
    lowering.loops.append(LoopFrame(True, next_label, done, carried, carried))
    b.push()
    code, start = b.code, len(b.code)
    for arg, (_, regs) in zip(block.args[1:], carried):
        if arg in packed:
            _define_bytes(lowering, arg, regs)
    lower_block(lowering, block)
    b.pop()
    lowering.loops.pop()
    engine = code is b.code and lowering.target.has(sm.WGMMA) and multiplies(code, start)
    if engine:
        from .in_place import compute_in_place

        replaced = compute_in_place(code, start, {reg for _, regs in carried for reg in regs})
        if lowering.observer is not None:
            lowering.observer.replaced(replaced)
    copies = lowering.agent and code is b.code and multiplies(code, start, "cp.async.c")
    slices = op.attrs.get(NOUNROLL) and code is b.code and not multiplies(code, start, MULTIPLYING)
    if copies or engine or slices:
        from .invariants import hoist_invariants, of_address, scaled_stride

        changing = {induction, *(reg for _, regs in carried for reg in regs)}
        if copies:
            hoist_invariants(code, head, start, changing, CostModel.invariant_registers)
        elif engine:
            hoist_invariants(code, head, start, changing, CostModel.stride_registers, scaled_stride)
        else:
            hoist_invariants(code, head, start, changing, CostModel.slice_registers, of_address)
    b.place(next_label)
    following = b.emit_fresh(f"add.s{w}", induction, step)
    again = b.emit_fresh(f"setp.lt.{kind}", following, upper)
    if step != 1:  # the step may run past the type's range
        again = b.emit_fresh("and.pred", again, b.emit_fresh(f"setp.gt.{kind}", following, induction))
    b.copy(induction, following)
    b.bra(head, again)
    b.place(done)
    if code is b.code and multiplies(code, start, MULTIPLYING):
        # What is needed behind is computed again there: it would wait beside accumulators, or what softmax holds of a row.
        b.values.clear()
    for result, arg, (type, regs) in zip(op.results, block.args[1:], carried):
        if arg in packed:
            _define_bytes(lowering, result, regs)
        else:
            lowering.env[result] = Tile(type.elem, type.shape, type.layout, regs) if regs else None


def multiplies(code: list[Any], start: int, opcodes: str | tuple[str, ...] = "wgmma.mma_async") -> bool:
    """Whether there are products, of warpgroups if nothing else is said, in code from some place on, or other instructions."""
    return any(r.__class__ is tuple and r[0].startswith(opcodes) for r in code[start:])


def lower_loop(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    block = op.regions[0].block
    carried = [(arg.type, _fresh(lowering, arg, init)) for arg, init in zip(block.args, op.operands)]
    results = [(result.type, _fresh(lowering, result, None)) for result in op.results]
    head, done = b.label(), b.label()
    b.place(head)
    lowering.loops.append(LoopFrame(False, head, done, carried, results))
    b.push()
    lower_block(lowering, block)
    b.pop()
    lowering.loops.pop()
    b.place(done)


def lower_if(lowering: Lowering, op: Op) -> None:
    b = lowering.b
    condition = lowering.scalar(op.operands[0])
    loaded = {result for result in op.results if _is_loaded(result)}
    results = [
        (
            result.type,
            [b.reg("r") for _ in range(result.type.layout.num_regs // 4)]  # type: ignore[attr-defined]
            if result in loaded
            else _fresh(lowering, result, None),
        )
        for result in op.results
    ]
    otherwise, done = b.label(), b.label()
    has_else = bool(op.regions[1].blocks)
    b.bra(otherwise if has_else else done, (condition, True))
    reachable = _branch(lowering, op.regions[0], results)
    if has_else:
        if reachable:
            b.bra(done)
        b.place(otherwise)
        _branch(lowering, op.regions[1], results)
    b.place(done)
    for result, (_, regs) in zip(op.results, results):
        if result in loaded:
            _define_bytes(lowering, result, regs)


def _branch(lowering: Lowering, region: Region, results: Any) -> bool:
    """Lower one side of an `if`; false when it leaves by an early exit."""
    b = lowering.b
    b.push()
    block = region.block
    lower_block(lowering, block)
    last = block.ops[-1]
    falls = last.spec.name == "yield"
    if falls:
        _assign(lowering, results, last.operands)
    b.pop()
    return falls


def lower_block(lowering: Lowering, block: Block) -> None:
    """All ops of a block, terminator included."""
    for op in block.ops:
        lowering.lower_op(lowering, op)


def lower_yield(lowering: Lowering, op: Op) -> None:
    """Nothing here: the owner of the region copies the operands."""


def lower_continue(lowering: Lowering, op: Op) -> None:
    frame = lowering.loops[-1]
    _assign(lowering, frame.carried, op.operands)
    nested = op.parent is not None and op.parent.spec.name == "if"
    if nested or not frame.is_for:
        lowering.b.bra(frame.continue_label)


def lower_break(lowering: Lowering, op: Op) -> None:
    frame = lowering.loops[-1]
    _assign(lowering, frame.results, op.operands)
    lowering.b.bra(frame.break_label)


def lower_return(lowering: Lowering, op: Op) -> None:
    lowering.b.emit_to(None, "ret")


def inline_body(lowering: Lowering, block: Block, args: Sequence[Any]) -> list[Any]:
    """A reduce or scan body over scalars: binds the block arguments to operands, returns the yielded operands."""
    for arg, operand in zip(block.args, args):
        type: Any = arg.type
        lowering.env[arg] = Tile(type.elem, (), type.layout, [operand])
    for op in block.ops[:-1]:
        lowering.lower_op(lowering, op)
    return [lowering.scalar(v) for v in block.ops[-1].operands]


def lower_barrier(lowering: Lowering, op: Op) -> None:
    if op.attrs.get("proxy_fence"):
        lowering.b.emit_to(None, "fence.proxy.async.shared::cta")
    if op.attr("cluster"):
        lowering.b.emit_to(None, "barrier.cluster.arrive.release")
        lowering.b.emit_to(None, "barrier.cluster.wait.acquire")
    else:
        lowering.barrier()


LOWER = {
    "barrier": lower_barrier,
    "for": lower_for, "loop": lower_loop, "if": lower_if, "yield": lower_yield, "continue": lower_continue,
    "break": lower_break, "return": lower_return,
}  # fmt: skip
