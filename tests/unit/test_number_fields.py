"""A linear map of a number's bits becomes a few masked, shifted and multiplied parts of it."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from tileiras.compiler.nvvm.build import fields

DRAWS = {
    "one bit each": lambda r: 1 << r.randrange(14),
    "chunks of a swizzle": lambda r: r.randrange(8) << r.randrange(8),
    "dense": lambda r: r.randrange(1 << 14),
    "with gaps": lambda r: r.choice([0, 16, 1040, 2080, r.randrange(1 << 12)]),
}


def by_columns(number: int, columns: Sequence[int]) -> int:
    out = 0
    for i, column in enumerate(columns):
        out ^= column if number >> i & 1 else 0
    return out


def by_fields(number: int, columns: Sequence[int]) -> int:
    out = 0
    for mask, shifts, places in fields(tuple(columns)):
        low = min(0, *shifts)
        part = ((number & mask) >> -low) * sum(1 << s - low for s in shifts)
        assert not part & ~places
        out ^= part
    return out


@pytest.mark.parametrize("kind", DRAWS)
def test_parts_make_up_the_map(kind: str) -> None:
    rng = random.Random(kind)
    for _ in range(200):
        columns = [DRAWS[kind](rng) for _ in range(rng.randint(1, 9))]
        for number in (0, (1 << 12) - 1, *(rng.randrange(1 << 12) for _ in range(20))):
            assert by_fields(number, columns) == by_columns(number, columns), columns


def test_what_shifts_alike_is_one_part() -> None:
    assert fields((4, 8, 16, 0, 64)) == ((0b10111, (2,), 0b1011100),)


def test_copies_side_by_side_are_one_multiplication() -> None:
    assert fields((1040, 2080, 4160)) == ((7, (4, 10), 7 * 1040),)


def test_copies_that_would_meet_are_not() -> None:
    assert len(fields((3, 6))) == 2


def test_what_shifts_to_the_right_too() -> None:
    assert fields((0, 0, 0b101)) == ((4, (-2, 0), 0b101),)


def test_an_empty_map_has_no_parts() -> None:
    assert fields((0, 0)) == ()
