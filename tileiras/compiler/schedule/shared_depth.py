"""Scores of one instruction's rows whose warps share out K: which products, and where the sums of all warps lie.

    scores  16x32 = queries 16x576, keys^T 576x32      each warp: 16x144 and 144x32, then the sum of four 16x32

Sharing out keys, each warp reads all queries in every step, which are too many to stay in registers, as those of a latent are.
Of its part of K a warp has the queries in registers, and sums cross shared memory: less, where K is deep and keys are few. Beside
sums that leave no room for these, of 32 rows by 512 columns, two warpgroups do so, each with half of the keys.
"""

from __future__ import annotations

from tileiras.compiler.ir.dense import num_elements
from tileiras.compiler.layout.linear import LANE_BITS
from tileiras.compiler.target import mma, sm, tcgen05
from tileiras.compiler.target.cost import CostModel
from tileiras.compiler.target.products import PRODUCTS

from .instructions import mma_sync
from .products import reaches
from .restage import is_invariant
from .tensor_memory import head, is_zero, next_link

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tileiras.compiler.ir.core import Op
    from tileiras.compiler.layout.linear import LinearLayout


def links_to_share(last: Op, warps: int, staged: dict[Op, Any], target: Any) -> list[Op] | str | None:
    """The products of scores, the last of which is given, whose K warps are to share out; why each warp reads all queries in
    every step; None where it does not, or where sums of parts would be as much."""
    if last.spec.name != "mmaf" or warps < 2 or next_link(last) is not None or not reaches(last.result)[1]:
        return None
    links = [last]
    while links[0] is not head(last):
        before = links[0].operands[2].op
        assert before is not None
        links.insert(0, before)
    shape: Any = last.result.type.shape  # type: ignore[attr-defined]
    if not is_zero(links[0].operands[2]) or len(shape) != 2:
        return None
    parts = parts_of(warps, target)
    groups = warps // parts
    held = 0  # registers of a warp's queries
    for op in links:
        left: Any = op.operands[0].type
        atom = mma_sync(op, target)
        if atom is None or op not in staged or not is_invariant(op.operands[0], op.block):
            return None
        if shape[0] not in tcgen05.FEW or shape[1] < parts << atom.n:
            return None
        if (shape[0] >> atom.m) * (shape[1] >> atom.n) < warps:
            return None
        if left.elem.bits != 16 or left.shape[1] < parts << atom.k:
            return None
        held += num_elements(left.shape) * left.elem.bits >> LANE_BITS + 5
    assert last.block is not None
    sums: list[Any] = [
        op.result.type for op in last.block.ops if op.spec.name in PRODUCTS and op not in links
    ]
    most = CostModel.shared_depth_registers if groups == 1 else CostModel.few_rows_held
    room = most - sum([num_elements(type.shape) // warps >> LANE_BITS for type in sums])
    scores = shape[0] * shape[1] // groups >> LANE_BITS
    left_over = parts * shape[0] * shape[1]  # words that warps leave, and read again
    if held + scores // parts <= room or 2 * left_over >= warps * held << LANE_BITS:
        return None
    if held // parts + scores > room:
        return (
            f"its part of K takes {held // parts + scores} registers beside sums, which leave {max(room, 0)}"
        )
    stage = sum(
        {plan.op: plan.room for op in staged if op.block is last.block for plan in staged[op]}.values()
    )
    if 2 * stage + 4 * left_over > CostModel(target).shared_bytes:
        return f"two stages of {stage} bytes do not fit beside sums of parts"
    return links


def parts_of(warps: int, target: Any) -> int:
    """How many parts of K so many warps would share: each warp one, or each of two warpgroups all parts, of half of the keys,
    beside sums that warpgroups add up."""
    alone = target.has(sm.TCGEN05) or not target.has(sm.WGMMA)
    return warps if alone else min(warps, 1 << tcgen05.WARPGROUP)


def warps_to_share(last: Op, staged: dict[Op, Any], target: Any) -> tuple[int, list[Op]]:
    """How many warps share out K of scores beside sums that warpgroups add up, and the products; no warps where they do not."""
    for warps in (1 << tcgen05.WARPGROUP, 2 << tcgen05.WARPGROUP):
        links = links_to_share(last, warps, staged, target)
        if isinstance(links, list):
            return warps, links
    return 0, []


def joined(op: Op, log2_warps: int, target: Any) -> LinearLayout | None:
    """Where the sum of such parts lies: warps have columns of it, as if they had shared these out; None of other reductions."""
    product = op.operands[0].op
    if product is None or product.spec.name not in PRODUCTS or product.parent is None:
        return None
    shape: Any = product.result.type.shape  # type: ignore[attr-defined]
    atom = mma_sync(product, target)
    if (
        len(shape) != 3
        or op.attr("dim") != 0
        or shape[0] != parts_of(1 << log2_warps, target)
        or atom is None
    ):
        return None
    if product.parent.spec.name != "for" or shape[1] < 1 << atom.m or shape[2] < shape[0] << atom.n:
        return None
    if shape[1] * shape[2] < 1 << log2_warps + atom.m + atom.n:
        return None
    return mma.accumulator_layout(shape[1:], atom, mma.split_warps(shape[1:], atom, log2_warps, 0))
