"""Values that a loop carries are computed in their own registers, where nobody reads the old ones any more.

    L: mul %new, %acc, %f                        L: mul %acc, %acc, %f
       wgmma {%new, ..}, ..             ->          wgmma {%acc, ..}, ..
       mov %acc, %new

ptxas shares registers of such copies by itself, but not those of wgmma's accumulators, which lie side by side: it moves all of
them in every iteration, or spills them. So this is for loops with wgmma, and for bodies whose branches stay inside; what runs
again within an iteration, as a wait for an mbarrier does, keeps its registers.
"""

from __future__ import annotations

from tileiras.compiler.nvvm.code import Addr, Label, Reg, TensorAddr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def compute_in_place(code: list[Any], start: int, carried: set[Reg]) -> list[tuple[Any, Any]]:
    """Rewrites a loop's body, `code[start:]`, whose last records copy to the registers that it carries. The records that were
    replaced, with what took their places."""
    end = len(code)
    while end > start and _copies_to(code[end - 1], carried):
        end -= 1
    copies = code[end:]
    body = code[start:end]
    again = _again(body)
    if not copies or again is None:
        return []
    places = {
        source: dst
        for source, dst in _places(body, copies, carried).items()
        if source not in again and dst not in again
    }
    if not places:
        return []
    replaced = []
    for at, record in enumerate(body, start):
        if record.__class__ is tuple and record[0] != "loc":
            opcode, dst, srcs, guard = record
            new = (opcode, _renamed(dst, places), _renamed(srcs, places), _renamed(guard, places))
            if new != record:
                code[at] = new
                replaced.append((record, new))
    code[end:] = [
        (opcode, dst, _renamed(srcs, places), guard)
        for opcode, dst, srcs, guard in copies
        if places.get(srcs[0]) is not dst
    ]
    return replaced


def _copies_to(record: Any, carried: set[Reg]) -> bool:
    return (
        record.__class__ is tuple
        and record[0].startswith("mov.")
        and record[1] in carried
        and record[3] is None
    )


def _again(body: list[Any]) -> set[Reg] | None:
    """The registers of what branches go back over; None where a branch leaves the body."""
    here = {record.id: at for at, record in enumerate(body) if record.__class__ is Label}
    found: set[Reg] = set()
    for at, record in enumerate(body):
        if record.__class__ is tuple and record[0].startswith("bra"):
            for label in record[2]:
                if label.__class__ is not Label:
                    continue
                if label.id not in here:
                    return None
                for inner in body[here[label.id] : at + 1]:
                    if inner.__class__ is tuple and inner[0] != "loc":
                        found.update(_registers(inner[1:]))
    return found


def _places(body: list[Any], copies: list[Any], carried: set[Reg]) -> dict[Any, Reg]:
    """What is computed -> the carried register that it can be computed in: not read from the first write of the other on."""
    written: dict[Reg, int] = {}
    read: dict[Reg, int] = {}
    kept: set[Reg] = set()
    for at, record in enumerate(body):
        if record.__class__ is not tuple or record[0] == "loc":
            continue
        opcode, dst, srcs, guard = record
        for reg in _registers(
            (srcs, guard, dst if dst.__class__ is not Reg and dst.__class__ is not tuple else None)
        ):
            if reg in carried:
                read[reg] = at
                if opcode.startswith("wgmma."):  # reads its operands until it is waited for
                    kept.add(reg)
        for reg in _registers(dst):
            written.setdefault(reg, at)
    kept.update(reg for reg in carried if reg in written)
    for copy in copies:
        kept.update(reg for reg in _registers(copy[2]) if reg in carried)
    places: dict[Any, Reg] = {}
    for _, dst, (source, *_), _ in copies:
        if source.__class__ is not Reg or source in carried or source in places or dst in kept:
            continue
        if source in written and source.cls == dst.cls and read.get(dst, -1) <= written[source]:
            places[source] = dst
    return places


def _registers(x: Any) -> list[Reg]:
    """All registers within an operand."""
    kind = x.__class__
    if kind is Reg:
        return [x]
    if kind is tuple:
        return [reg for each in x for reg in _registers(each)]
    if kind is Addr:
        return _registers(x.base)
    if kind is TensorAddr:
        return _registers((x.base, x.coords))
    return []


def _renamed(x: Any, places: dict[Any, Reg]) -> Any:
    kind = x.__class__
    if kind is Reg:
        return places.get(x, x)
    if kind is tuple:
        new = tuple(_renamed(each, places) for each in x)
        return x if all(a is b for a, b in zip(new, x)) else new
    if kind is Addr:
        base = _renamed(x.base, places)
        return x if base is x.base else Addr(base, x.offset_bytes)
    if kind is TensorAddr:
        base, coords = _renamed(x.base, places), _renamed(x.coords, places)
        return x if base is x.base and coords is x.coords else TensorAddr(base, coords)
    return x
