"""TileASScheduleAnalysis: stages of the ops in loops with pipelines, for MaterializeSchedule.

Consumers and everything else stand in the last stage; a producer stands as many stages before it as its pipeline has
slots beyond the one in use, and what it needs no later.
"""

from __future__ import annotations

from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.schedule.candidates import LOOPS, backward, captured

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.analyses import Analyses
    from tileiras.compiler.ir.core import Op


class Schedule:
    """Stage of each op of a loop's body, and how many stages there are."""

    __slots__ = ("loop", "stage", "stages")

    def __init__(self, loop: Op, stage: dict[Op, int], stages: int) -> None:
        self.loop = loop
        self.stage = stage
        self.stages = stages


def schedule(loop: Op) -> Schedule | None:
    """None for a loop without pipelines."""
    body = loop.regions[0].block
    producers = [op for op in body.ops if op.spec.name == "async.pipeline.produce_one"]
    if not producers:
        return None
    creates = [op.operands[0].op for op in producers]
    depths = [c.attrs.get("depth", 1) if c is not None else 1 for c in creates]
    stages = max(depths)
    stage = dict.fromkeys(body.ops, stages - 1)
    for op, depth in zip(producers, depths):
        for early in (op, *backward(captured(op), body)[0]):
            stage[early] = min(stage[early], stages - depth)
    return Schedule(loop, stage, stages)


def schedules(func: Op, analyses: Analyses) -> list[Schedule]:
    """Of the loops of a function that have pipelines."""
    found = [schedule(op) for op in func.walk() if op.spec.name in LOOPS]
    return [s for s in found if s is not None]


class ScheduleAnalysis(Pass):
    NAME = "TileASScheduleAnalysis"
    SUMMARY = "Compute the stages of loops with pipelines"
    """
    does: finds the stages of loops with pipelines
    needed: nv_tileas.async.pipeline.create
    """
    KEEPS_ANALYSES = True
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        context.analyses.get(schedules, func)
        return True
