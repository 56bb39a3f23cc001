"""Registers along the code: what the PTX asks for, what ptxas made of it, and which values hold them where they are most.

What the PTX asks for is counted on its virtual registers: one is alive from its first write to its last use, and
through a loop whose head lies between the two. It may pass the 255 that a thread can have, machine code cannot.
"""

from __future__ import annotations

from tileiras.compiler.nvvm.code import Addr, Label, Reg, TensorAddr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .machine import Live

WORDS = {"p": 0, "h": 1, "r": 1, "d": 2}  # 32-bit registers of a virtual one
BRANCHES = ("bra",)


def registers(x: Any, found: list[Reg]) -> list[Reg]:
    """All virtual registers within an operand."""
    kind = x.__class__
    if kind is Reg:
        found.append(x)
    elif kind is tuple:
        for each in x:
            registers(each, found)
    elif kind is Addr:
        registers(x.base, found)
    elif kind is TensorAddr:
        registers(x.base, found)
        registers(x.coords, found)
    return found


class Demand:
    """Virtual registers of a kernel: `live[i]` 32-bit registers alive at record i; `spans`: register -> (first, last)."""

    def __init__(self, code: list[Any]) -> None:
        first: dict[Reg, int] = {}
        last: dict[Reg, int] = {}
        label_at: dict[int, int] = {}
        loops: list[tuple[int, int]] = []
        for at, record in enumerate(code):
            if record.__class__ is Label:
                label_at[record.id] = at
                continue
            opcode, dst, srcs, guard = record
            if opcode in ("loc", "pragma"):
                continue
            for reg in registers((dst, srcs, guard), []):
                first.setdefault(reg, at)
                last[reg] = at
            if opcode.startswith(BRANCHES):
                for source in srcs:
                    if source.__class__ is Label and source.id in label_at:
                        loops.append((label_at[source.id], at))
        loops.sort(key=lambda loop: loop[1] - loop[0])  # inner ones first: what they stretch, outer ones see
        for head, end in loops:
            for reg, start in first.items():
                if start < head <= last[reg] < end:
                    last[reg] = end
        self.loops = loops
        self.spans = {reg: (start, last[reg]) for reg, start in first.items()}
        change = [0] * (len(code) + 1)
        for reg, (start, end) in self.spans.items():
            change[start] += WORDS[reg.cls]
            change[end] -= WORDS[reg.cls]
        self.live: list[int] = []
        now = 0
        for at in range(len(code)):
            now += change[at]
            self.live.append(now)

    @property
    def peak(self) -> int:
        """The record at which most is alive."""
        return max(range(len(self.live)), key=self.live.__getitem__, default=0)

    def alive(self, at: int) -> list[Reg]:
        return [reg for reg, (start, end) in self.spans.items() if start <= at < end]


def holders(
    demand: Demand, code: list[Any], owners: dict[int, tuple[Any, Any]], value_of: Any
) -> list[dict[str, Any]]:
    """Who holds registers at the peak, most first: {"name", "line", "registers"}, by the value whose op wrote them."""
    writer: dict[Reg, int] = {}
    peak = demand.peak
    for at, record in enumerate(code):
        if record.__class__ is Label or at > peak:
            continue
        for reg in registers(record[1], []):
            writer[reg] = at
    held: dict[tuple[str, int], int] = {}
    for reg in demand.alive(peak):
        if not WORDS[reg.cls]:
            continue
        owner = owners.get(id(code[writer[reg]])) if reg in writer else None
        key = value_of(owner[1] if owner is not None else None)
        held[key] = held.get(key, 0) + WORDS[reg.cls]
    ranked = sorted(held.items(), key=lambda item: (-item[1], item[0][1]))
    return [{"name": name, "line": line, "registers": count} for (name, line), count in ranked]


def written_at(live: Live, order: list[int], peak: int) -> dict[int, int]:
    """register -> address of the instruction that wrote what it holds at the peak, as the code stands."""
    found: dict[int, int] = {}
    row = live.rows.get(peak, "")
    alive = {reg: at for reg, at in live.columns if at < len(row) and row[at] in ":^vx"}
    before = [address for address in order if address <= peak]
    after = [address for address in order if address > peak]
    for address in reversed([*after, *before]):  # behind the peak: what a loop carries back
        marks = live.rows.get(address, "")
        for reg, at in alive.items():
            if reg not in found and at < len(marks) and marks[at] in "^x":
                found[reg] = address
        if len(found) == len(alive):
            break
    return found
