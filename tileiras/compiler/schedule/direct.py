"""Right operands of wgmma that the threads which write them to shared memory load themselves.

What is converted between load and product is written to shared memory by threads, wherever it came from. Through a stage it
crosses shared memory three times: copied in, read, written back. A thread that loads what it writes, some iterations ahead,
saves two of them, for registers in which loads wait. It does where shared memory is what an iteration waits for.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas.rings import MAX_DEPTH
from tileiras.compiler.layout.linear import LinearLayout
from tileiras.compiler.layout.shared import CHUNK_BYTES
from tileiras.compiler.layout.turn import vector
from tileiras.compiler.target.cost import CostModel

from .interval import L2, SHARED, TENSOR, interval
from .restage import source_load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tileiras.compiler.ir.core import Op

    from .staging import Staged


class Direct:
    """A load that its threads wait for in registers: in how many slots, and in which layout."""

    __slots__ = ("depth", "layout")

    def __init__(self, layout: LinearLayout, depth: int) -> None:
        self.layout = layout
        self.depth = depth


def loaded_by_threads(
    loop: Op,
    products: list[Op],
    members: dict[Op, Staged],
    wish: int | None,
    spare: Callable[[], int],
    blocks: int,
    target: Any,
) -> dict[Op, Direct]:
    """Members of a ring that need no stage, because the threads that write them to shared memory can load them. `spare`:
    registers of a thread that the loop leaves. `blocks` of as many registers as a thread can have fit an SM: while one waits, the
    others multiply."""
    from .bulk import wanted

    if len(products) != 1 or products[0].attrs.get("atom") != "wgmma" or wish is not None or wanted(target):
        return {}
    product = products[0]
    if "restage_rhs" not in product.attrs:
        return {}
    load = source_load(product.operands[1])
    if load is None or load not in members or load.spec.name != "load_view_tko":
        return {}
    layout = layout_of(members[load])
    if layout is None:
        return {}
    cost = CostModel(target)
    busy = interval(loop, products, members.values(), target).by
    clocks = max(busy[TENSOR], busy[L2])
    if busy[SHARED] <= clocks:
        return {}
    held = layout.num_regs * load.results[0].type.elem.bits // 32  # type: ignore[attr-defined]
    room = spare() // held
    depth = min(MAX_DEPTH, 1 + -(-cost.latency_clocks // (clocks * blocks)), 1 + room)
    return {load: Direct(layout, depth)} if depth > 1 else {}


def layout_of(member: Staged) -> LinearLayout | None:
    """The layout in which threads load a tile that they write back: that of the conversion behind it, but for the order of
    registers, with as many bytes at once as copies bring, or half of them where a warp reads whole sectors; None where it has
    fewer."""
    uses = member.op.results[0].uses
    convert = uses[0][0] if len(uses) == 1 else None
    if convert is None or convert.spec.name != "convert_layout" or member.width != CHUNK_BYTES:
        return None
    type: Any = convert.result.type
    sector, wide = (
        [1 << k for k in vector(member.arrangement, type.elem.bytes, limit)]
        for limit in (2 * CHUNK_BYTES, CHUNK_BYTES)
    )
    have = type.layout
    if not set(wide) <= set(have.reg):
        wide.pop()
        if not wide or not set(wide) <= set(have.reg) or not set(sector) <= {*have.reg, *have.lane}:
            return None
    order = [*wide, *(column for column in have.reg if column not in wide)]
    return LinearLayout(have.bits, order, have.lane, have.warp, have.inv)
