"""TileASTensorMemoryProducts: products meant for tcgen05 add up in tensor memory; the loop carries their number instead.

Before: `%r = for .. iter(%c = %zero) { %a, %b = load_shared ..; %d = mmaf %a, %b, %c {atom = "tcgen05"}; continue %d }`.
After:  `%m = tensor_memory.alloc`, `tensor_memory.store %m, %zero`, `%n = for .. iter(%i = 0) { tensor_memory.wait %m, %i;
        barrier; tensor_memory.product %m, %i ..; continue %i + 1 }`, `%r = tensor_memory.load %m, %n`, `tensor_memory.free`.

Two products may be on their way: the stage that the next copies overwrite was read by the one before the last. A product
whose operands do not lie in shared memory stays with mma.sync.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.dialects.nv_tileas.types import TENSOR_MEMORY
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.rewrite import Rewriter
from tileiras.compiler.ir.types import I32, Dense, TensorType, TileType
from tileiras.compiler.layout.linear import splat
from tileiras.compiler.schedule.products import adds_up
from tileiras.compiler.target import tcgen05

from .hoist_conversions import end_of_buffers
from .warpgroup_products import fence_barriers, lies_in_shared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value


class TensorMemoryProducts(Pass):
    NAME = "TileASTensorMemoryProducts"
    SUMMARY = "Let products add up in tensor memory"
    SUBJECT = frozenset(("load_shared",))
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        made = False
        for op in [op for op in func.walk() if op.attrs.get("atom") == "tcgen05"]:
            a, b = (lies_in_shared(v) for v in op.operands[:2])
            loop = adds_up(op)
            if a is None or b is None or loop is None or not loop.attrs.get("spare_stages"):
                continue
            if not Accumulation(op, a, b, loop, context).move():
                return False
            made = True
        if made:
            fence_barriers(func)
        return True


class Accumulation:
    """One product that adds up in a loop."""

    def __init__(self, op: Op, a: Op, b: Op, loop: Op, context: Context) -> None:
        self.op, self.a, self.b, self.loop, self.context = op, a, b, loop, context
        self.failed = False

    def make(self, anchor: Op, spec: Any, groups: Any = (), types: Any = (), attrs: Any = None) -> Any:
        made = Rewriter(self.context, anchor).create(spec, groups, types, attrs)
        self.failed = self.failed or made is None
        return made

    def move(self) -> bool:
        op, loop = self.op, self.loop
        body, result = loop.regions[0].block, op.result
        assert loop.block is not None
        type: Any = result.type
        index = op.operands[2].index - 1  # among the values that the loop carries
        warps = len(type.layout.warp)
        lying = TensorType(type.elem, type.shape, tcgen05.layout_of(type.shape, warps))
        scalar = TensorType(I32, (), splat(0, warps))

        def number(anchor: Op, value: int) -> Value:
            data = Dense(TileType(I32, ()), value.to_bytes(4, "little"))
            return self.make(anchor, tileas.BY_NAME["constant"], (), (scalar,), {"value": data}).result  # type: ignore[no-any-return]

        # in front: tensor memory with what the sum begins with
        attrs = {"columns": tcgen05.columns_of(type.shape), "offset": end_of_buffers(loop)}
        memory = self.make(loop, tileas.TENSOR_ALLOC, (), (TENSOR_MEMORY,), attrs).result
        first = loop.operands[3 + index]
        start = self.make(loop, tileas.CONVERT_LAYOUT, (first,), (lying,)).result
        self.make(loop, tileas.TENSOR_STORE, (memory, start))
        # the loop carries a count
        loop.set_operand(3 + index, number(loop, 0))
        count, total = body.args[1 + index], loop.results[index]
        count.type = total.type = scalar
        terminator = body.ops[-1]
        more = self.make(
            terminator,
            tileas.BY_NAME["addi"],
            (count, number(terminator, 1)),
            (scalar,),
            {"overflow": "none"},
        ).result
        top = next(inner for inner in body.ops if inner.spec is tileas.BARRIER)
        self.make(top, tileas.TENSOR_WAIT, (memory, count))
        left: Any = op.operands[0].type
        signs = {name: op.attrs[name] for name in ("signedness_lhs", "signedness_rhs") if name in op.attrs}
        self.make(
            op, tileas.TENSOR_PRODUCT, (memory, count, *self.a.operands[:2], *self.b.operands[:2]), (),
            {
                "m": type.shape[0], "n": type.shape[1], "depth": left.shape[-1], "elem": left.elem.name,
                "a_start": self.a.attr("start"), "a_arrangement": self.a.attrs["arrangement"],
                "b_start": self.b.attr("start"), "b_arrangement": self.b.attrs["arrangement"],
                **signs,
            },
        )  # fmt: skip
        terminator.set_operand(index, more)
        # behind: the sum comes back
        following = loop.block.ops[loop.block.ops.index(loop) + 1]
        users = list(total.uses)
        loaded = self.make(following, tileas.TENSOR_LOAD, (memory, total), (lying,)).result
        back = self.make(following, tileas.CONVERT_LAYOUT, (loaded,), (type,)).result
        self.make(following, tileas.TENSOR_FREE, (memory,))
        for user, at in users:
            user.set_operand(at, back)
        op.erase()
        self.a.erase()
        self.b.erase()
        return not self.failed
