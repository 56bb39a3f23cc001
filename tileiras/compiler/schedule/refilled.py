"""One stage that is filled again part by part: where shared memory holds what an iteration loads only once.

A queue (`queue.py`) needs loads that each feed one product. Keys that a step turns by their positions feed two, with sines and
cosines, and two stages of them do not fit. The stage is there once then. What the same product reads last is a part of it, which
is filled for the next iteration as soon as that product is through:

    stage    keys, cosines, sines    48 KB    under way while the weights multiply the values
             values                  16 KB    under way while the next scores are computed

Each part waits for its own copies, and leaves those of another under way. That costs two barriers a part, fewer where one part
lands where another has been read. Warpgroups have read an operand when they were waited for, and threads what they compute
with when it is in registers:

    the delta rule    W    is read by the first product, filled again when it is through
                      U    is read into registers behind it
                      Q    is read by the second and the third product
                      K    is read by the second one and the last one
"""

from __future__ import annotations

from tileiras.compiler.target.products import PRODUCTS, SIDES

from .candidates import can_run_ahead
from .staging import RENAMES, is_elementwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tileiras.compiler.ir.core import Op, Value

    from .interval import Interval
    from .staging import Staged


class Refilled:
    """One stage of `bytes` bytes, and the attributes of each member's pipeline; `part` numbers the parts in the order in which
    they are filled again."""

    __slots__ = ("bytes", "interval", "members")

    def __init__(self, size: int, interval: Interval) -> None:
        self.bytes = size
        self.interval = interval
        self.members: list[tuple[Op, Staged, dict[str, Any]]] = []


def plan_refilled(
    loop: Op, products: Sequence[Op], members: dict[Op, Staged], room: int, interval: Interval
) -> Refilled | None:
    """How the members of a loop's ring share one stage; None where that does not fit, a wait would leave nothing under way, or
    another instruction takes one than mma.sync and wgmma, which have read their operands when the next product begins."""
    size = sum(member.room for member in members.values())
    if size > room or not {p.attrs.get("atom") for p in products} <= {None, "wgmma"}:
        return None
    if not all(can_run_ahead(op, loop) for op in members):
        return None  # what the step before orders cannot be copied amid it
    if any(p.attrs.get(f"copies_{side}") == 0 for p in products for side in SIDES):
        return None  # what is written back to where it was copied is there in one form for some, in another for others
    place = {op: n for n, op in enumerate(loop.regions[0].block.ops)}
    takers: dict[Op, list[int]] = {}
    for op in members:
        takers[op] = sorted(place[reader] for reader in readers_of(op.results[0]) if reader in place)
        if not takers[op]:
            return None
    ends = sorted({places[-1] for places in takers.values()})
    spans = [(min(n[0] for n in takers.values() if n[-1] == end), end) for end in ends]
    if min(left_under_way(spans)) < 1:
        return None
    stage, start = Refilled(size, interval), 0
    for op, member in members.items():
        attrs = {"depth": 2, "parts": 1, "part": ends.index(takers[op][-1]), "refilled": 1, "start": start}
        stage.members.append((op, member, attrs))
        start += member.room
    return stage


def left_under_way(spans: Sequence[tuple[int, int]]) -> list[int]:
    """How many parts are on their way when an iteration waits for each. `spans`: where it reads each first and last, in the order
    in which they are filled again."""
    behind = [sum(end < first for _, end in spans) for first, _ in spans]
    return [len(spans) - 1 - n + filled for n, filled in enumerate(behind)]


def readers_of(value: Value) -> set[Op]:
    """What reads a staged tile: products, mma.sync also of what is computed from it element by element, which it does slice by
    slice, and in front of warpgroups what computes with it."""
    found: set[Op] = set()
    work, seen = [value], {value}
    while work:
        for user, _ in work.pop().uses:
            if user.spec.name in PRODUCTS:
                found.add(user)
            elif user.spec.name in RENAMES:
                work += unseen(user, seen)
            elif is_elementwise(user):
                if all(p.attrs.get("atom") == "wgmma" for p in taken_by(user.results[0])):
                    found.add(user)
                else:
                    work += unseen(user, seen)
    return found


def taken_by(value: Value) -> set[Op]:
    """The products that take a value as it is, or what is computed from it element by element."""
    found: set[Op] = set()
    work, seen = [value], {value}
    while work:
        for user, _ in work.pop().uses:
            if user.spec.name in PRODUCTS:
                found.add(user)
            elif user.spec.name in RENAMES or is_elementwise(user):
                work += unseen(user, seen)
    return found


def unseen(op: Op, seen: set[Value]) -> list[Value]:
    """Results of an op that are not among `seen`, and are from now on."""
    fresh = [v for v in op.results if v not in seen]
    seen.update(fresh)
    return fresh
