"""TileASMaterializeSchedule (D10): writes the schedule that ScheduleAnalysis found onto the loops.

Before: a loop with pipelines. After: `schedule = {stages = 2}` on it and `stage = 0`, `stage = 1` on its ops.

A pipeline is named only by the op that creates it: one that went through a block argument or another op is an alias,
and stages of one slot would be counted twice.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import diags as D
from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.dialects.nv_tileas.types import PIPELINE
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.diag import Emitted

from .schedule_analysis import schedules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class MaterializeSchedule(Pass):
    NAME = "TileASMaterializeSchedule"
    SUMMARY = "Write stages onto the loops that were scheduled (D10)"
    """
    does: writes the stages onto loop and ops
    needed: nv_tileas.async.pipeline.create
    called: D10
    """
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        found = context.analyses.known(schedules, func)
        if found is None:
            why = f"function '{context.function}' has no ScheduleAnalysis"
            self.miss(context, D.ALIAS, func, notes=[Emitted(D.WHY, func.loc, facts=(("why", why),))])
            return True
        aliased = set()
        for op in func.walk():
            for index, value in enumerate(op.operands):
                if value.type is PIPELINE and (value.op is None or value.op.spec is not tileas.CREATE):
                    why = f"operand #{index} of '{op.spec.full_name}' is not the pipeline itself"
                    self.miss(context, D.ALIAS, op, notes=[Emitted(D.WHY, op.loc, facts=(("why", why),))])
                    aliased.add(op.parent)
        for schedule in found:
            if schedule.loop in aliased:
                continue
            schedule.loop.attrs = {**schedule.loop.attrs, "schedule": {"stages": schedule.stages}}
            for op, stage in schedule.stage.items():
                if not op.spec.is_terminator:
                    op.attrs = {**op.attrs, "stage": stage}
        return True
