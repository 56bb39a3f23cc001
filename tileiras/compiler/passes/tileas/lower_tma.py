"""LowerTMALoadStoreToAsync: bulk tensor loads become asynchronous ones and a wait.

Before: `%x = tiled_tma_load %desc, %i, %j`. After: `%t = make_token`, `%x, %u = async.tiled_tma_load %desc, %t, %i, %j`,
`async.wait %u`.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileaa.verify import spec_problem
from tileiras.compiler.dialects.nv_tileas import diags as D
from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.rewrite import Rewriter
from tileiras.compiler.ir.types import TOKEN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class LowerTMALoadStoreToAsync(Pass):
    NAME = "LowerTMALoadStoreToAsync"
    SUMMARY = "Make bulk tensor loads asynchronous"
    """
    does: bulk tensor loads become asynchronous ones and a wait
    needed: nv_tileas.tiled_tma_load of text
    """
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        loads = [op for op in func.walk() if op.spec in (tileas.SYNC_TMA_LOAD, tileas.TILED_TMA_LOAD)]
        if not loads:
            return True
        if spec_problem(func.attrs.get("nv_tileaa.kernel_spec")) is not None:
            context.sink.emit(D.KERNEL_SPEC, loc=func.loc)
            return False
        for op in loads:
            if op.spec is tileas.SYNC_TMA_LOAD and not self.lower(op, context):
                self.signal_failure()
        return True

    def lower(self, op: Any, context: Context) -> bool:
        rewriter = Rewriter(context, op)
        token = rewriter.create(tileas.BY_NAME["make_token"], (), (TOKEN,))
        if token is None:
            return False
        groups = [op.operands[0], token.result, op.group("coordinates")]
        load = rewriter.create(tileas.TILED_TMA_LOAD, groups, [op.result.type, TOKEN])
        if load is None:
            return False
        rewriter.create(tileas.WAIT, [[load.results[1]]], [TOKEN])
        rewriter.replace(op, [load.results[0]])
        return True
