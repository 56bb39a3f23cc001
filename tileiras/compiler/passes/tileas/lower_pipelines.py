"""TileASLowerPipelines: pipelines become values. What was produced and not yet consumed is carried around loops.

Before: `produce_one %p { .. yield %x }`, `for { produce_one %p {..}  %v = consume_one %p {..} }`.
After:  `for iter(%slot = %x) { %new = ..; %v = %slot; continue %new }`: double buffering in registers.

A pipeline whose puts and takes do not balance on every path keeps its ops; ConvertTileASToLLVM has no code for them.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.core import Block, Op, Value
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.schedule.candidates import inside_search

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PRODUCE, CONSUME = tileas.PRODUCE_ONE.name, tileas.CONSUME_ONE.name


class LowerPipelines(Pass):
    NAME = "TileASLowerPipelines"
    SUMMARY = "Turn materialized pipelines into loop-carried values"
    """
    does: pipelines become rings or queues of shared memory, or values that loops carry
    needed: nv_tileas.async.pipeline.create
    """
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        creates = [op for op in func.walk() if op.spec is tileas.CREATE]
        if any(op.attrs.get("transport") for op in creates):
            from .channels import lower_channels

            if not lower_channels(func, context):
                return False
            creates = [op for op in creates if not op.attrs.get("transport")]
        for create in creates:
            pipeline = create.result
            assert create.block is not None
            if balance(create.block, pipeline, 0) is None:
                continue
            drain(create.block, pipeline, [])
            if not pipeline.uses:
                create.erase()
        drop_schedule(func)
        return True


def drop_schedule(func: Any) -> None:
    """Stages order what pipelines do: without pipelines, and with ops that later passes make, they say nothing."""
    for loop in [op for op in func.walk() if "schedule" in op.attrs]:
        if any(op.spec.name in (PRODUCE, CONSUME) for op in loop.walk()):
            continue
        for op in (loop, *loop.regions[0].block.ops):
            op.attrs = {name: value for name, value in op.attrs.items() if name not in ("schedule", "stage")}


def uses_inside(op: Op, pipeline: Value) -> bool:
    """Whether a region of op holds a use of the pipeline."""
    for user, _ in pipeline.uses:
        parent = user.parent
        while parent is not None:
            if parent is op:
                return True
            parent = parent.parent
    return False


def balance(block: Block, pipeline: Value, held: int) -> int | None:
    """Values in the pipeline behind a block that starts with `held`; None when that is not the same on every path."""
    for op in block.ops:
        if op.spec.name in (PRODUCE, CONSUME) and op.operands[0] is pipeline:
            held += 1 if op.spec.name == PRODUCE else -1
            if held < 0:
                return None
        elif op.operands and any(v is pipeline for v in op.operands):
            return None
        elif op.regions and uses_inside(op, pipeline):
            if op.spec.name != "for" or balance(op.regions[0].block, pipeline, held) != held:
                return None
            terminator = op.regions[0].block.ops[-1]
            ends = [o for o in op.walk() if o.spec.name == "continue" and not inside_search(o, op)]
            if ends != [terminator]:
                return None
    return held


def drain(block: Block, pipeline: Value, held: list[list[Value]]) -> list[list[Value]]:
    """Replaces the ops on a pipeline in a block; the values that are in it at the end."""
    held = list(held)
    for op in list(block.ops):
        if op.spec.name == PRODUCE and op.operands[0] is pipeline:
            held.append(inline(op, []))
        elif op.spec.name == CONSUME and op.operands[0] is pipeline:
            results = inline(op, held.pop(0), keep=True)
            for old, new in zip(op.results, results):
                old.replace_all_uses_with(new)
            op.erase()
        elif op.regions and uses_inside(op, pipeline):
            held = carry(op, pipeline, held)
    return held


def inline(op: Op, args: list[Value], keep: bool = False) -> list[Value]:
    """Moves the ops of the region in front of op; what the region yields. The op goes unless `keep`."""
    assert op.block is not None
    body = op.regions[0].block
    for old, new in zip(body.args, args):
        old.replace_all_uses_with(new)
    results = list(body.ops[-1].operands)
    for inner in body.ops[:-1]:
        op.block.insert_before(op, inner)
    body.ops = body.ops[-1:]
    if not keep:
        op.erase()
    return results


def carry(loop: Op, pipeline: Value, held: list[list[Value]]) -> list[list[Value]]:
    """Adds what the pipeline holds to the values that a loop carries."""
    body = loop.regions[0].block
    inner: list[list[Value]] = []
    for values in held:
        args = []
        for value in values:
            add_operand(loop, value)
            args.append(body.add_arg(value.type))
        inner.append(args)
    after = drain(body, pipeline, inner)
    terminator = body.ops[-1]
    for values in after:
        for value in values:
            add_operand(terminator, value)
    outer = []
    for values in held:
        fresh = []
        for value in values:
            result = Value(value.type, loop, len(loop.results))
            loop.results.append(result)
            fresh.append(result)
        outer.append(fresh)
    return outer


def add_operand(op: Op, value: Value) -> None:
    """One more operand of the last, variadic field."""
    value.uses.append((op, len(op.operands)))
    op.operands.append(value)
    if op.segments is not None:
        op.segments = (*op.segments[:-1], op.segments[-1] + 1)
