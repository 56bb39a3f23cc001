"""TileASWarpgroupProducts: products meant for wgmma take their operands from shared memory, asynchronously.

Before: `%a = load_shared %ring, %slot`, `%b = load_shared %ring, %slot`, `%d = mmaf %a, %b, %c {atom = "wgmma"}`.
After:  `%d = wgmma %ring, %slot, %ring, %slot, %c`, `wgmma.commit_group`.

A product that adds up in a loop whose ring has a stage to spare is waited for one iteration later, so that the tensor cores
have work while warps meet at the barrier; any other is waited for at once. A product whose operands do not lie in shared
memory stays what it is: layouts of accumulators fit both.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.core import Op
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.rewrite import Rewriter

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
            loads = [v.op for v in op.operands[:2]]
            if any(
                load is None or load.spec is not tileas.LOAD_SHARED or len(load.result.uses) != 1
                for load in loads
            ):
                continue
            if not self.issue(op, loads, context):
                return False
            made = True
        if made:
            for op in func.walk():
                if (
                    op.spec is tileas.BARRIER
                ):  # what was written in the generic way is read by the tensor cores
                    op.attrs = {**op.attrs, "proxy_fence": True}
        return True

    def issue(self, op: Op, loads: list[Any], context: Context) -> bool:
        a, b = loads
        rewriter = Rewriter(context, op)
        left: Any = op.operands[0].type
        attrs: dict[str, Any] = {
            "depth": left.shape[-1], "elem": left.elem.name,
            "a_start": a.attr("start"), "a_arrangement": a.attrs["arrangement"],
            "b_start": b.attr("start"), "b_arrangement": b.attrs["arrangement"],
        }  # fmt: skip
        for name in ("signedness_lhs", "signedness_rhs"):
            if name in op.attrs:
                attrs[name] = op.attrs[name]
        groups = [*a.operands[:2], *b.operands[:2], op.operands[2]]
        made = rewriter.create(tileas.WGMMA, groups, [op.result.type], attrs)
        if made is None or rewriter.create(tileas.WGMMA_COMMIT) is None:
            return False
        loop = adds_up(op)
        if loop is not None and loop.attrs.get("spare_stages"):
            top = next(inner for inner in loop.regions[0].block.ops if inner.spec is tileas.BARRIER)
            Rewriter(context, top).create(tileas.WGMMA_WAIT, attrs={"pending": 1})
            assert loop.block is not None
            following = loop.block.ops[loop.block.ops.index(loop) + 1]
            Rewriter(context, following).create(tileas.WGMMA_WAIT, attrs={"pending": 0})
        else:
            rewriter.create(tileas.WGMMA_WAIT, attrs={"pending": 0})
        rewriter.replace(op, [made.result])
        for load in loads:
            load.erase()
        return True


def adds_up(op: Op) -> Op | None:
    """The loop in which a product only adds to what the loop carries; None when somebody looks at it before the end."""
    acc, result = op.operands[2], op.result
    body = op.block
    if body is None or acc.owner is not body or len(acc.uses) != 1 or len(result.uses) != 1:
        return None
    user, index = result.uses[0]
    if user is not body.ops[-1] or user.spec.name != "continue" or index != acc.index - 1:
        return None
    loop = op.parent
    return loop if loop is not None and loop.spec.name == "for" else None
