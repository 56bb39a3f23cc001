"""TileASJoinExchanges: rows and columns that change their layouts one behind the other cross shared memory together.

Before: `%s = convert_layout %scale`, `%x = mulf %sums, %s`, `%b = load`, `%c = convert_layout %b`, `%y = addf %x, %c`.
After:  `%b = load`, `%s, %c = convert_layouts %scale, %b`, `%x = mulf %sums, %s`, `%y = addf %x, %c`.

Each exchange alone has a barrier in front and one inside, across which ptxas moves no access: all that a thread reads of one
row is in its registers before the next row is stored, and 128 sums beside two rows of 128 would spill. Together they have these
barriers once, and behind them a thread reads what it wants next.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas import ops as tileas
from tileiras.compiler.ir.passes import Context, Pass
from tileiras.compiler.ir.rewrite import Rewriter
from tileiras.compiler.layout.convert import SHARED
from tileiras.compiler.schedule.exchange import EXCHANGES
from tileiras.compiler.schedule.staging import LOADS
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.products import PRODUCTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Block, Op

FLOATS = frozenset(
    ("f32", "f16", "bf16")
)  # rows that sums are scaled by; of indices more is known on their own
TENSOR = (tileas.WGMMA, tileas.WGMMA_REGISTERS, tileas.TENSOR_PRODUCT, tileas.TENSOR_PRODUCT_ROWS,
          tileas.TENSOR_PRODUCT_SCALED)  # fmt: skip
QUIET = frozenset(("make_partition_view", "make_tensor_view", "join_tokens"))


class JoinExchanges(Pass):
    NAME = "TileASJoinExchanges"
    SUMMARY = (
        "Let rows and columns that change their layouts one behind the other cross shared memory together"
    )
    """
    does: neighbouring conversions of rows and columns, outside of the loops that multiply, become one exchange with one
      barrier inside
    without: a barrier in front of each and one in it
    acts: nbody on sm_80
    """
    __slots__ = ()

    def run(self, func: Any, context: Context) -> bool:
        for op in list(func.walk()):
            for region in op.regions:
                for block in region.blocks:
                    if not any(inner.spec in TENSOR or inner.spec.name in PRODUCTS for inner in block.ops):
                        join_in(block, context)
        return True


def join_in(block: Block, context: Context) -> None:
    found = [op for op in block.ops if is_small(op)]
    if len(found) < 2:
        return
    from .hoist_conversions import end_of_buffers

    for first in found:
        if first.block is None:  # joined with an earlier one
            continue
        room = CostModel.joined_bytes
        if context.target is not None:
            room = min(room, context.target.smem_bytes_max - end_of_buffers(first))
        group, early = neighbours(first, block, room)
        if len(group) > 1:
            for op in early:
                block.ops.remove(op)
                block.insert_before(first, op)
            build(group, context)


def is_small(op: Op) -> bool:
    """Whether a tile that changes its layout is a row, a column or as small as one."""
    return (
        op.spec is tileas.CONVERT_LAYOUT
        and op.attr("plan") == SHARED
        and op.attrs.keys().isdisjoint(("rounds", "apart"))
        and op.attrs["bytes"] <= CostModel.joined_bytes
        and str(op.result.type.elem) in FLOATS  # type: ignore[attr-defined]
    )


def neighbours(first: Op, block: Block, room: int) -> tuple[list[Op], list[Op]]:
    """The conversions that join one, itself in front, and the ops between them that then come first: what is converted is loaded
    and computed by them."""
    group, early = [first], []
    total = aligned(first)
    behind: dict[Op, None] = {first: None}  # what comes no earlier than the first one
    for op in block.ops[block.ops.index(first) + 1 :]:
        if is_small(op) and total + aligned(op) <= room:
            needed = made_of(op.operands[0].op, behind)
            if not any(is_kept(each) for each in needed):
                group.append(op)
                total += aligned(op)
                order = [each for each in behind if each in needed]
                early += order
                for each in order:
                    del behind[each]
        elif not (moves(op) or op.spec.name in QUIET or op.spec.is_pure and not op.regions) or exchanges(op):
            break
        behind[op] = None
    return group, early


def made_of(maker: Op | None, behind: dict[Op, None]) -> set[Op]:
    """The ops `behind` a place that a value is made of."""
    found: set[Op] = set()
    work = [maker]
    while work:
        op = work.pop()
        if op is not None and op in behind and op not in found:
            found.add(op)
            work += [v.op for v in op.operands]
    return found


def is_kept(op: Op) -> bool:
    """Whether an op stays behind the first conversion: it is one, or has many registers, which would wait there."""
    if op.spec is tileas.CONVERT_LAYOUT and op.attr("plan") == SHARED or exchanges(op):
        return True
    layouts = [getattr(result.type, "layout", None) for result in op.results]
    return any(layout is not None and layout.num_regs > CostModel.joined_registers for layout in layouts)


def exchanges(op: Op) -> bool:
    """Whether an op has a place in shared memory."""
    rule = EXCHANGES.get(op.spec.name)
    return rule is not None and rule(op)[0] > 0


def moves(op: Op) -> bool:
    """Whether an op is a load that is ordered by its token alone."""
    return op.spec.name in LOADS and op.attr("memory_ordering_semantics") == "weak"


def aligned(convert: Op) -> int:
    """Bytes of a conversion's place, with what lies between it and the next one's."""
    return int(convert.attrs["bytes"]) + CostModel.bank_bytes - 1 & -CostModel.bank_bytes


def build(group: list[Op], context: Context) -> None:
    """One op in the place of the first conversion."""
    starts: list[int] = []
    total = 0
    for op in group:
        starts.append(total)
        total += aligned(op)
    attrs = {
        "bytes": total,
        "columns": tuple(c for op in group for c in op.attrs["columns"]),
        "vectors": tuple(v for op in group for v in op.attrs["vectors"]),
        "starts": tuple(starts),
    }
    sources, types = [op.operands[0] for op in group], [op.result.type for op in group]
    made = Rewriter(context, group[0]).create(tileas.CONVERT_LAYOUTS, (sources,), types, attrs)
    if made is None:
        return
    for op, result in zip(group, made.results):
        op.result.replace_all_uses_with(result)
        op.erase()
