"""TileAARestAsLoop: a branch behind a loop of products that goes on with what the loop carried is a loop of at most one step.

Before: `%s = for .. iter(..) { load, load, mma }`, `%r = if %c { load, load, mma .., %s; yield %t } else { yield %s }`.
After:  `%s = for ..`, `%r = for 0 to %c iter(%u = %s) { load, load, mma .., %u; continue %t }`.

So kernels are written that take whole tiles in a loop, and the rest of the keys, or of K, under a mask behind it. What the
schedule decides, it decides of loops: the rest comes by the loop's copies then, is multiplied by its instruction, and adds up
where its sums are. In a branch these would be in registers all at once, with the rest's operands, for `mma.sync`.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa import diags as D
from tileiras.compiler.dialects.nv_tileaa import ops as tileaa
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Block, Op, Region, Value
from tileiras.compiler.ir.dense import constant_bytes
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.types import I32, Dense, TensorType, TileType
from tileiras.compiler.ir.walk import held_in
from tileiras.compiler.schedule.candidates import EXITS, LOOPS, PLAIN_LOADS
from tileiras.compiler.target import sm
from tileiras.compiler.target.products import PRODUCTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NUMBER = TensorType(I32, (), None)


class RestAsLoop(Pass):
    NAME = "TileAARestAsLoop"
    SUMMARY = "Make a loop of at most one step of a branch that goes on with a loop's sums"
    """
    does: a branch behind a loop of products that goes on with what the loop carried, as with the rest of the keys or of K
      under a mask, becomes a loop of at most one step, for warpgroups and tensor memory
    without: `mma.sync` in the branch, with sums in registers
    acts: rest_of_k on sm_100
    """
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        target = context.target
        if target is None or not (target.has(sm.WGMMA) or target.has(sm.TCGEN05)):
            return True
        for branch in [op for op in func.walk() if op.spec.name == "if" and op.results]:
            for side in (0, 1):
                if goes_on(branch, side):
                    context.remark(D.REST_AS_LOOP, branch)
                    rewrite(branch, side)
                    context.analyses.drop()
                    break
        return True


def goes_on(branch: Op, side: int) -> bool:
    """Whether one side of a branch multiplies what it loads, and goes on with results of a loop of products beside the branch,
    which the other side leaves as they are."""
    work, other = branch.regions[side].block, branch.regions[1 - side].block
    names = {op.spec.name for op in work.ops}
    if len(other.ops) != 1 or not names & PRODUCTS or not names & PLAIN_LOADS or names & LOOPS:
        return False
    if any(op.spec.name in EXITS or op.spec.name == "continue" for op in branch.walk()):
        return False
    return any(is_carried(v, branch) for v in other.ops[0].operands)


def is_carried(value: Value, branch: Op) -> bool:
    """Whether a value is what a loop of products beside a branch, in front of it, carried."""
    loop = value.op
    return (
        loop is not None
        and loop.spec.name == "for"
        and loop.block is branch.block
        and any(op.spec.name in PRODUCTS for op in loop.regions[0].block.ops)
    )


def rewrite(branch: Op, side: int) -> None:
    block = branch.block
    assert block is not None
    work, other = branch.regions[side].block, branch.regions[1 - side].block
    kept = list(other.ops[0].operands)

    def put(name: str, operands: Any, type: Any, attrs: Any) -> Value:
        return block.insert_before(
            branch, create(tileaa.BY_NAME[name], operands, (type,), attrs, (), branch.loc)
        ).result

    def number(value: int) -> Value:
        data = value.to_bytes(constant_bytes(I32), "little")
        return put("constant", (), NUMBER, {"value": Dense(TileType(I32, ()), data)})

    times = put("exti", (branch.operands[0],), NUMBER, {"signedness": "unsigned"})
    if side == 1:
        times = put("xori", (times, number(1)), NUMBER, {})
    body = Block([NUMBER, *(v.type for v in kept)])
    for value, arg in zip(kept, body.args[1:]):
        if value.op is None or value.op.spec.name != "constant":
            for user, index in [use for use in value.uses if held_in(work, use[0]) is not None]:
                user.set_operand(index, arg)
    ends = work.ops[-1]
    given = list(ends.operands)
    ends.erase()
    for op in list(work.ops):
        work.ops.remove(op)
        body.append(op)
    body.append(create(tileaa.BY_NAME["continue"], given, (), {}, (), ends.loc, (len(given),)))
    operands = [number(0), times, number(1), *kept]
    loop: Op = block.insert_before(
        branch,
        create(
            tileaa.BY_NAME["for"], operands, [v.type for v in kept], {}, (Region([body]),), branch.loc,
            (1, 1, 1, len(kept)),
        ),
    )  # fmt: skip
    for old, new in zip(branch.results, loop.results):
        old.replace_all_uses_with(new)
    branch.erase()
