"""TileASModuloSchedule: turns tt.num_stages into transfers through pipelines.

Only where the kernel asks for two or more stages. In every loop that can be pipelined each weak load becomes the
producer of a pipeline of that depth, or of fewer slots where they would take more registers than a thread can spare.

Before: `%x, %t = load_view_tko weak %view[%i]` in a loop. After: `%p = async.pipeline.create {depth = 2}` before the
loop, and in it `%x = async.pipeline.transfer %p { load_view_tko ..; yield }`.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.dialects.nv_tileas.types import PIPELINE
from tileiras.compiler.ir.core import Block, Op, Region
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.rewrite import Rewriter
from tileiras.compiler.ir.types import TOKEN, Ptr

from .loops import ordered_in, refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PLAIN_LOADS = frozenset(("load_view_tko", "load_ptr_tko"))
MAX_DEPTH = 16
SLOT_REGISTERS = 64  # of a thread's 255, for values that wait in pipelines: more of them would spill


def registers_of(type: Any) -> int:
    """32-bit registers that a tensor takes in every thread."""
    bits = 64 if isinstance(type.elem, Ptr) else type.elem.bits
    return type.layout.num_regs * max(1, bits // 32)  # type: ignore[no-any-return]


class ModuloSchedule(Pass):
    NAME = "TileASModuloSchedule"
    SUMMARY = "Make producers of the loads of pipelinable loops, tt.num_stages deep"
    SUBJECT = frozenset(("tt.num_stages", "for"))
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        depth = (func.attrs.get("nv_tileaa.kernel_spec") or {}).get("num_stages") or 1
        if depth < 2:
            return True
        for loop in [op for op in func.walk() if op.spec.name == "for"]:
            if refusal(loop) is not None:
                continue
            loads = [op for op in loop.regions[0].block.ops if self.is_candidate(op, loop)]
            held = sum(registers_of(op.results[0].type) for op in loads)
            fits = min(depth, MAX_DEPTH, 1 + SLOT_REGISTERS // max(held, 1))
            if fits < 2:
                continue
            for op in loads:
                if not self.transfer(op, loop, fits, context):
                    return False
        if context.names is not None:
            context.names |= {"async.pipeline.create", "async.pipeline.transfer"}
        return True

    def is_candidate(self, op: Op, loop: Op) -> bool:
        """A weak load of numbers; nobody waits for its token, and it waits for none of the loop."""
        if (
            op.spec.name not in PLAIN_LOADS
            or op.attr("memory_ordering_semantics") != "weak"
            or op.results[1].uses
        ):
            return False
        return not any(v.type is TOKEN and ordered_in(v, loop) for v in op.operands)

    def transfer(self, op: Op, loop: Op, depth: int, context: Context) -> bool:
        from .clone import clone_into

        create = Rewriter(context, loop).create(tileas.CREATE, (), (PIPELINE,), {"depth": depth})
        block = Block()
        values: dict[Any, Any] = {}
        clone_into(block, [op], values)
        block.append(Op(tileas.PIPELINE_YIELD, [values[op.results[0]]], loc=op.loc, segments=(1,)))
        if create is None:
            return False
        made = Rewriter(context, op).create(
            tileas.TRANSFER, [create.result], [op.results[0].type], {}, [Region([block])]
        )
        if made is None:
            return False
        op.results[0].replace_all_uses_with(made.result)
        op.erase()
        return True
