"""Linear algebra over GF(2) on Python integers: a vector is an int, its bits are the coordinates."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Basis:
    """A growing echelon basis that remembers how each vector is combined from the inserted columns.

    `solve(v)` returns the set of inserted columns (as a bit mask over insertion order) whose xor is `v`,
    or None when `v` is outside the span. Earlier columns are preferred: a dependent column is never used.
    """

    __slots__ = ("count", "rows")

    def __init__(self, columns: Iterable[int] = ()) -> None:
        self.rows: dict[int, tuple[int, int]] = {}  # leading bit -> (vector, combination)
        self.count = 0
        for column in columns:
            self.insert(column)

    def reduce(self, vector: int) -> tuple[int, int]:
        """The remainder of `vector` after elimination and the combination that was xored in."""
        combination = 0
        rows = self.rows
        remainder = 0
        while vector:
            lead = vector.bit_length() - 1
            row = rows.get(lead)
            if row is None:
                remainder |= 1 << lead
                vector ^= 1 << lead
            else:
                vector ^= row[0]
                combination ^= row[1]
        return remainder, combination

    def insert(self, vector: int) -> bool:
        """Add a column; false when it depends on earlier ones (it still takes a place in the numbering)."""
        remainder, combination = self.reduce(vector)
        bit = 1 << self.count
        self.count += 1
        if not remainder:
            return False
        # keep the form reduced only on demand: reduce() walks leads from the top
        self.rows[remainder.bit_length() - 1] = (remainder, combination ^ bit)
        return True

    def solve(self, vector: int) -> int | None:
        remainder, combination = self.reduce(vector)
        return None if remainder else combination

    @property
    def rank(self) -> int:
        return len(self.rows)


def apply(columns: Sequence[int], place: int) -> int:
    """Xor of the columns at the set bits of `place`."""
    out = 0
    while place:
        low = place & -place
        out ^= columns[low.bit_length() - 1]
        place ^= low
    return out


def rank(columns: Iterable[int]) -> int:
    return Basis(columns).rank


def table(columns: Sequence[int]) -> list[int]:
    """apply(columns, i) for every i, in order."""
    out = [0]
    for column in columns:
        out += [value ^ column for value in out]
    return out
