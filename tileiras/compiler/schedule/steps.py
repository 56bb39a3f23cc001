"""Queues of small slots: where shared memory has no room for a queue that moves by products, it moves by steps.

A queue (`queue.py`) holds what one product takes, and as much that is under way. Beside queries of 64 rows and 512 columns, which
take 64 KB, a GPU with 99 KB has no room for either. Each product is taken in steps of its own then, as many as make its slots as
small as the others': over parts of K, where K is long, as that of scores; else over parts of its columns, as those of values, of
which each takes all weights and adds to its own part of the sum. Copies run some steps ahead.

    keys, 64x512      8 steps of 64x64     s  = q[:, 0:64] k[:, 0:64]^T, s += q[:, 64:128] k[:, 64:128]^T, ..
    values, 64x512    8 steps of 64x64     o[:, 0:32, 256:288] += p v[:, 0:32, 256:288], ..

A slot has 8 KB and not 64; three of them keep two under way. Columns of a step lie apart where warps share out columns: each warp
has some of them.
"""

from __future__ import annotations

from tileiras.compiler.dialects.nv_tileas.rings import in_units
from tileiras.compiler.layout.linear import dim_bits, log2
from tileiras.compiler.target.cost import CostModel

from .instructions import mma_sync
from .queue import OwnLoads, Queue, load_of, part_of, takes_no_load
from .staging import LOADS, is_elementwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tileiras.compiler.ir.core import Op

    from .queue import OwnLoad
    from .staging import Staged

    Group = list[tuple[Op | OwnLoad, int]]  # what a product takes, and as which operand


def plan_steps(
    products: Sequence[Op], members: dict[Op, Staged], room: int, clocks: int, log2_warps: int, target: Any
) -> Queue | None:
    """How the members of a loop's ring queue in small slots; None where they cannot. `room`: bytes of shared memory; `clocks`: of
    an iteration's products."""
    if any("atom" in p.attrs or len(p.operands) > 3 for p in products):
        return None
    own = OwnLoads(products, members)
    staged: dict[Op | OwnLoad, Staged] = dict(members.items())
    staged.update((copy, members[copy.path[-1]]) for copy in own.of.values())
    if sum(member.bytes for member in staged.values()) > clocks * CostModel.cache_bytes:
        return None
    groups: list[Group] = []
    takers: list[Op] = []
    for product in products:
        found = [(load_of(product, which, False, own), which) for which in (0, 1)]
        group = [(load, which) for load, which in found if load is not None and load in staged]
        if group:
            groups.append(group)
            takers.append(product)
        elif not takes_no_load(product):
            return None
    loads = [load for group in groups for load, _ in group]
    if not groups or len(set(loads)) != len(loads) or set(loads) != set(staged):
        return None
    most = max(sum(staged[load].bytes for load, _ in group) for group in groups)
    for parts in CostModel.step_parts:
        piece = in_units(most // parts)
        ahead = room // piece - 1
        if ahead < CostModel.steps_ahead:
            continue
        steps: list[list[Step]] = []
        for product, group in zip(takers, groups):
            cut = steps_of(product, group, staged, piece, log2_warps, target)
            if cut is None:
                break
            steps.append(cut)
        else:
            total = sum(group[0].parts for group in steps)
            return queue_of(steps, min(ahead, total, CostModel.most_steps_ahead), piece)
    return None


class Step:
    """What one load brings for the steps of a product: so many parts, told apart by the bits `mask` of the tile's index."""

    __slots__ = ("columns", "load", "mask", "parts", "staged")

    def __init__(self, load: Op | OwnLoad, staged: Staged, parts: int, mask: int, columns: bool) -> None:
        self.load = load
        self.staged = staged
        self.parts = parts
        self.mask = mask
        self.columns = columns  # of the product, else of K


def steps_of(
    product: Op, group: Group, staged: dict[Any, Staged], piece: int, log2_warps: int, target: Any
) -> list[Step] | None:
    """How a product's operands are cut into parts of at most `piece` bytes: along K, or the right one along its columns."""
    parts = 1
    while sum(in_units(staged[load].bytes // parts) for load, _ in group) > piece:
        parts *= 2
    ways: list[int | None] = [None]
    if [which for _, which in group] == [1]:
        ways += columns_of(product, parts, target)
    for first in ways:
        found: list[Step] = []
        for load, which in group:
            part = part_of(product, which, staged[load], parts, log2_warps, target, True, first)
            if part is None:
                break
            found.append(Step(load, part[0], parts, part[1], first is not None))
        else:
            return found
    return None


def columns_of(product: Op, parts: int, target: Any) -> list[int]:
    """The first of the index bits that number parts of a product's columns, if there is one: each warp has as many of each part,
    and reads them as they were copied."""
    type: Any = product.result.type
    atom, cut = mma_sync(product, target), log2(parts)
    low, count = dim_bits(type.shape)[-1]
    right: Any = product.operands[1]
    if atom is None or len(type.shape) != 2 or right.type.elem.bits < 16:
        return []
    while right.op.spec.name not in LOADS:
        if is_elementwise(right.op):
            return []
        right = right.op.operands[0]
    for first in range(count - cut, atom.n, -1):  # ldmatrix reads two instructions' columns at once
        if all(1 << low + first + k in type.layout.reg for k in range(cut)):
            return [low + first]
    return []


def queue_of(steps: list[list[Step]], ahead: int, piece: int) -> Queue:
    """The queue of such steps."""
    total = sum(group[0].parts for group in steps)
    queue = Queue(len(steps), 1, ahead, piece, steps=total)
    first = 0
    for number, group in enumerate(steps):
        start, parts = 0, group[0].parts
        early = first < ahead  # the iteration before copies the first of them
        for step in group:
            attrs: dict[str, Any] = {
                "product": number, "products": len(steps), "ahead": ahead, "parts": parts, "part_mask": step.mask,
                "piece": piece, "start": start, "depth": 1 + early, "steps": total,
            }  # fmt: skip
            if early and first + parts > ahead:
                attrs["mixed"] = 1
            if step.columns:
                attrs["columns"] = 1
            queue.members.append((step.load, step.staged, attrs))
            start += in_units(step.staged.bytes // parts)
        first += parts
    return queue
