"""TileASWarpgroupProducts: products meant for wgmma take their operands from shared memory, asynchronously.

Before: `%a = load_shared %ring, %slot`, `%b = load_shared %ring, %slot`, `%d = mmaf %a, %b, %c {atom = "wgmma"}`.
After:  `%d = wgmma %ring, %slot, %ring, %slot, %c`, `wgmma.commit_group`. A left operand that was computed stays in registers.

A product that adds up in a loop whose ring has a stage to spare is waited for one iteration later, so that the tensor cores
have work while warps meet at the barrier; any other is waited for at once. A product whose operands do not lie in shared
memory stays what it is: layouts of accumulators fit both.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.rewrite import Rewriter
from tileiras.compiler.schedule.products import adds_up

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class WarpgroupProducts(Pass):
    NAME = "TileASWarpgroupProducts"
    SUMMARY = "Issue products of warpgroups on operands in shared memory"
    SUBJECT = frozenset(("load_shared",))
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        made = False
        for op in [
            op for op in func.walk() if op.spec.name in ("mmaf", "mmai") and op.attrs.get("atom") == "wgmma"
        ]:
            a, b = (lies_in_shared(v) for v in op.operands[:2])
            if b is None or a is None and op.operands[0].type.elem.bits != 16:
                continue
            if not self.issue(op, a, b, context):
                return False
            made = True
        if made:
            fence_barriers(func)
        return True

    def issue(self, op: Any, a: Any, b: Any, context: Context) -> bool:
        rewriter = Rewriter(context, op)
        loop = adds_up(op)
        left: Any = op.operands[0].type
        attrs: dict[str, Any] = {
            "depth": left.shape[-1], "elem": left.elem.name,
            "b_start": b.attr("start"), "b_arrangement": b.attrs["arrangement"],
        }  # fmt: skip
        for name in ("signedness_lhs", "signedness_rhs"):
            if name in op.attrs:
                attrs[name] = op.attrs[name]
        groups = [*b.operands[:2], op.operands[2]]
        if a is not None:
            attrs.update(a_start=a.attr("start"), a_arrangement=a.attrs["arrangement"])
            made = rewriter.create(tileas.WGMMA, [*a.operands[:2], *groups], [op.result.type], attrs)
        else:
            made = rewriter.create(tileas.WGMMA_REGISTERS, [op.operands[0], *groups], [op.result.type], attrs)
        if made is None or rewriter.create(tileas.WGMMA_COMMIT) is None:
            return False
        if a is not None and loop is not None and loop.attrs.get("spare_stages"):
            top = next(inner for inner in loop.regions[0].block.ops if inner.spec is tileas.BARRIER)
            Rewriter(context, top).create(tileas.WGMMA_WAIT, attrs={"pending": 1})
            assert loop.block is not None
            following = loop.block.ops[loop.block.ops.index(loop) + 1]
            Rewriter(context, following).create(tileas.WGMMA_WAIT, attrs={"pending": 0})
        else:
            rewriter.create(tileas.WGMMA_WAIT, attrs={"pending": 0})
        rewriter.replace(op, [made.result])
        for load in (a, b):
            if load is not None:
                load.erase()
        return True


def fence_barriers(func: Any) -> None:
    """What threads wrote to shared memory in the generic way is read by the tensor cores behind a barrier."""
    for op in func.walk():
        if op.spec is tileas.BARRIER:
            op.attrs = {**op.attrs, "proxy_fence": True}


def lies_in_shared(value: Any) -> Any:
    """The load from shared memory that makes an operand and nothing else; None when it is in registers."""
    op = value.op
    return op if op is not None and op.spec is tileas.LOAD_SHARED and len(value.uses) == 1 else None
