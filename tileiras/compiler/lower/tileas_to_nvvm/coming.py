"""Registers that come when they are asked for: what a thread reads of a large tile in parts, each where it is used.

Read at once, a tile of 128 registers beside sums of 128 fills a thread, and ptxas spills; it leaves such reads where they stand.
So a read that the text says comes in parts (`apart`) is defined before its code is there, and so are elementwise ops on it. The
first op that does not wait finds all of it there (`Lowering.bring`): the last values are made first, part by part, and each part
brings what it is made of.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from tileiras.compiler.ir.core import Op

# Ops that take their operands register by register, or touch nothing that comes: no barrier, no store.
PATIENT = frozenset(
    ("constant", "join_tokens", "addf", "subf", "mulf", "fma", "negf", "addi", "subi", "muli", "andi", "cmpi",
     "tensor_memory.load")
)  # fmt: skip


def is_patient(op: Op) -> bool:
    """Whether an op may stand in front of what is still to come: it takes it register by register, as a store that is told to, or
    touches none of it."""
    name = op.spec.name
    return name in PATIENT or name == "store_view_tko" and bool(op.attrs.get("apart"))


class Coming:
    """The registers of a tile. `parts`: which of them come together, and what brings them; `last` follows the last part."""

    __slots__ = ("last", "number", "parts", "regs")

    def __init__(
        self,
        count: int,
        parts: list[tuple[list[int], Callable[[], Sequence[Any]]]],
        last: Callable[[], None] | None = None,
    ) -> None:
        self.regs: list[Any] = [None] * count
        self.parts = parts
        self.number = {r: n for n, (places, _) in enumerate(parts) for r in places}
        self.last = last

    def __len__(self) -> int:
        return len(self.regs)

    def __getitem__(self, which: Any) -> Any:
        if isinstance(which, slice):
            return [self[i] for i in range(*which.indices(len(self.regs)))]
        if self.regs[which] is None:
            self._take(self.number[which % len(self.regs)])
        return self.regs[which]

    def all(self) -> None:
        """Brings what is not there yet."""
        for n in range(len(self.parts)):
            self._take(n)

    def _take(self, number: int) -> None:
        places, bring = self.parts[number]
        if self.regs[places[0]] is not None:
            return
        for place, value in zip(places, bring()):
            self.regs[place] = value
        if self.last is not None and None not in self.regs:
            self.last()


class Renamed:
    """The same registers by other numbers."""

    __slots__ = ("numbers", "regs")

    def __init__(self, regs: Coming, numbers: Sequence[int]) -> None:
        self.regs = regs
        self.numbers = numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, which: Any) -> Any:
        if isinstance(which, slice):
            return [self.regs[i] for i in self.numbers[which]]
        return self.regs[self.numbers[which]]


def ahead(
    parts: list[list[int]], make: Callable[[list[int]], Sequence[Any]]
) -> list[tuple[list[int], Callable[[], Sequence[Any]]]]:
    """Parts of which the next one is on its way while one is used. `make`: the values of some registers."""
    made: dict[int, Sequence[Any]] = {}

    def bring(number: int) -> Sequence[Any]:
        for n in range(number, min(number + 2, len(parts))):
            if n not in made:
                made[n] = make(parts[n])
        return made[number]

    def one(number: int) -> Callable[[], Sequence[Any]]:
        return lambda: bring(number)

    return [(places, one(n)) for n, places in enumerate(parts)]


def parts_of(columns: Sequence[Sequence[Any]]) -> list[list[int]] | None:
    """The registers that an elementwise op makes together, as the coarsest of its operands that are still to come has them; None
    where all are there."""
    found: list[list[int]] | None = None
    for regs in columns:
        if regs.__class__ is Coming:
            parts = [list(places) for places, _ in regs.parts]
        elif regs.__class__ is Renamed:
            groups: dict[int, list[int]] = {}
            for place, r in enumerate(regs.numbers):
                groups.setdefault(regs.regs.number[r], []).append(place)
            parts = list(groups.values())
        else:
            continue
        if found is None or len(parts) < len(found):
            found = parts
    return found
