"""What a loop of copies computes from values that it does not change goes in front of it.

    L: mul.wide.u32 %row, %stride, 128              mul.wide.u32 %row, %stride, 128
       add.s64 %from, %base, %row            ->     add.s64 %from, %base, %row
       cp.async [%to], [%from], 16               L: cp.async [%to], [%from], 16

Warps that only copy have registers for it and little else to do. In loops of wgmma strides that are shifted to a step move, and
nothing else: ptxas would repeat each shift, with moves to and from uniform registers around it. In loops over slices of a tile
addresses and what is left of extents move, which ptxas computes anew for each slice and view. In other loops ptxas decides,
beside accumulators. Conditions stay where they are, since there are few predicates.
"""

from __future__ import annotations

from collections import Counter

from tileiras.compiler.nvvm.code import Addr, Label, Reg
from tileiras.compiler.nvvm.inst import resolve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def scaled_stride(record: Any) -> bool:
    return bool(record[0].startswith("shl.b64"))


def of_address(record: Any) -> bool:
    """Whether a record computes in 64 bits: an address, or what is left of an extent."""
    return record[1].cls == "d" or "64" in record[0]


def hoist_invariants(
    code: list[Any],
    head: Label,
    start: int,
    changing: set[Reg],
    room: int,
    only: Callable[[Any], bool] | None = None,
) -> None:
    """Moves records of a loop's body, `code[start:]`, in front of its label. `changing`: what the loop carries; `room`:
    registers that may wait through it; `only`: which records."""
    at = next(n for n in range(start - 1, -1, -1) if code[n] is head)
    body = code[start:]
    made = Counter(reg for record in body for reg in _written(record))
    varying = {*made, *changing}
    moved: list[Any] = []
    rest: list[Any] = []
    for record in body:
        if _stays_the_same(record, made, varying) and (only is None or only(record)):
            varying.discard(record[1])
            moved.append(record)
        else:
            rest.append(record)
    while moved and _waiting(moved, rest) > room:
        rest.insert(0, moved.pop())
    code[at:] = [*moved, *code[at:start], *rest]


def _stays_the_same(record: Any, made: Counter[Reg], varying: set[Reg]) -> bool:
    if record.__class__ is not tuple:
        return False
    opcode, dst, srcs, guard = record
    if (
        guard is not None
        or dst.__class__ is not Reg
        or dst.cls == "p"
        or made[dst] != 1
        or opcode.startswith("mov")
    ):
        return False
    return resolve(opcode).pure and not any(reg in varying for src in srcs for reg in _registers(src))


def _waiting(moved: list[Any], rest: list[Any]) -> int:
    """Registers of what is computed in front of a loop and read in it."""
    own = {record[1] for record in moved}
    read = {
        reg for record in rest if record.__class__ is tuple for src in record[2] for reg in _registers(src)
    }
    return sum(2 if reg.cls == "d" else 1 for reg in own & read)


def _written(record: Any) -> tuple[Reg, ...]:
    dst = record[1] if record.__class__ is tuple else None
    return tuple(reg for reg in (dst if dst.__class__ is tuple else (dst,)) if reg.__class__ is Reg)


def _registers(src: Any) -> tuple[Reg, ...]:
    if src.__class__ is Reg:
        return (src,)
    if src.__class__ is Addr:
        return _registers(src.base)
    return tuple(reg for part in src for reg in _registers(part)) if src.__class__ is tuple else ()
