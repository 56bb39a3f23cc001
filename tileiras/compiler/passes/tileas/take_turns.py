"""TileASTakeTurns: two warpgroups that multiply and compute take turns at the tensor cores (ping-pong).

    for .. {                                    turns.begin {barrier = 14}
                                                turns.take {barrier = 14}
      %s = wgmma %q, .., %k, ..                 for .. {
      wgmma.commit_group                          %s = wgmma %q, .., %k, ..
      wgmma.wait_group                            wgmma.commit_group
      ..        (softmax)               ->        turns.give {barrier = 14}
      %o = wgmma.registers %p, %v, ..             wgmma.wait_group
      ..                                          ..        (softmax, while the other one multiplies)
    }                                             turns.take %l {barrier = 14}
                                                  %o = wgmma.registers %p, %v, ..
                                                  ..
                                                }
                                                turns.end {barrier = 14}

Between the products of attention each warpgroup computes exponentials. Left to themselves, both may do so at the same time, and
the tensor cores wait; then both multiply, and the exponentials wait. A turn is what lies between two softmaxes: a product of
probabilities and the scores behind it. It is given away when its products are issued, so that those of the other warpgroup queue
behind them. It is taken when the sums of rows are known, and with them all exponentials (`%l`).

Each warpgroup has a named barrier, at which it waits and the other arrives. The first one's turn begins when the second says so;
the second is behind at the end. All loops of the function whose rings copying warps fill may do so, where an iteration has no
other barrier, no branch and no loop inside: a warpgroup that holds the turn waits for nobody but the warps that copy, and these
wait for stages that the other warpgroup has released before it gave the turn away.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import diags as D
from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.build import create
from tileiras.compiler.ir.core import Op, Value
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.schedule.roles import EXCHANGE
from tileiras.compiler.target import sm, wgmma
from tileiras.compiler.target.cost import CostModel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PRODUCTS = (tileas.WGMMA, tileas.WGMMA_REGISTERS)
IN_THE_WAY = (tileas.BARRIER, tileas.WAIT_GROUP)


class TakeTurns(Pass):
    NAME = "TileASTakeTurns"
    SUMMARY = "Let one warpgroup multiply while the other one computes"
    """
    does: two warpgroups that multiply and compute take turns at the tensor cores, beside warps that copy
    without: who multiplies when is left to the GPU
    acts: staged_attention_f16 on sm_90 with tensor maps
    """
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        if context.target is None or not context.target.has(sm.TURNS):
            return True
        for agent in [op for op in func.walk() if op.spec.name == "agent"]:
            if agent.attrs["num_warps"] != 2 * wgmma.WARPS or not agent.attrs.get("registers"):
                continue
            for loop in [op for op in agent.walk() if op.spec.name == "for"]:
                turns = turns_of(loop)
                if turns:
                    take_turns(loop, turns)
                    context.remark(D.TURNS, loop)
        return True


class Turn:
    """Scores, the product that takes what is computed from them, and the sums of rows in between."""

    __slots__ = ("rows", "scores", "sums")

    def __init__(self, scores: Op, sums: Op, rows: Value) -> None:
        self.scores = scores
        self.sums = sums
        self.rows = rows


def turns_of(loop: Op) -> list[Turn]:
    """The turns of a loop's iteration; none where warpgroups would wait for each other inside of one."""
    ops = loop.regions[0].block.ops
    products = [op for op in ops if op.spec in PRODUCTS]
    for op in ops:
        if op.spec in IN_THE_WAY or op.spec.name in ("for", "loop", "if") or EXCHANGE in op.attrs:
            return []
    if len(products) < 2 or len(products) % 2 or not any(op.spec is tileas.BULK_WAIT for op in ops):
        return []
    turns = []
    for scores, sums in zip(products[::2], products[1::2]):
        following = ops[ops.index(scores) + 1]
        rows = rows_between(scores, sums)
        if following.spec is not tileas.WGMMA_COMMIT or rows is None:
            return []
        turns.append(Turn(scores, sums, rows))
    return turns


def rows_between(scores: Op, sums: Op) -> Value | None:
    """The last reduction, to f32, of what is computed from scores and becomes the left operand of another product, in registers;
    None where that is not so."""
    if sums.spec is not tileas.WGMMA_REGISTERS:
        return None
    block: Any = sums.block
    work, seen = [sums.operands[0]], {sums.operands[0]}
    reduced: set[Op] = set()
    found = False
    while work:
        value = work.pop()
        found = found or value is scores.result
        op = value.op
        if op is None or op.block is not block or op.spec in PRODUCTS:
            continue
        reduced.update(user for user, _ in value.uses if user.spec.name == "reduce" and user.block is block)
        fresh = [v for v in op.operands if v not in seen]
        seen.update(fresh)
        work += fresh
    last = max(reduced, key=block.ops.index, default=None)
    if not found or last is None or last.results[0].type.elem.name != "f32":  # type: ignore[attr-defined]
        return None
    return last.results[0] if block.ops.index(last) < block.ops.index(sums) else None


def take_turns(loop: Op, turns: list[Turn]) -> None:
    block, body = loop.block, loop.regions[0].block
    assert block is not None

    def put(spec: Any, anchor: Op, *operands: Value) -> None:
        assert anchor.block is not None
        segments = (len(operands),) if spec is tileas.TURNS_TAKE else None
        made = create(spec, operands, (), {"barrier": CostModel.turn_barrier}, (), loop.loc, segments)
        anchor.block.insert_before(anchor, made)

    put(tileas.TURNS_BEGIN, loop)
    put(tileas.TURNS_TAKE, loop)
    for turn in turns:
        put(tileas.TURNS_GIVE, body.ops[body.ops.index(turn.scores) + 2])
        put(tileas.TURNS_TAKE, turn.sums, turn.rows)
    put(tileas.TURNS_END, block.ops[block.ops.index(loop) + 1])
