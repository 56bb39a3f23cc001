"""A linear map of a number's bits becomes a few masked, shifted and multiplied parts of it."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from tileiras.compiler.nvvm.build import Builder, fields
from tileiras.compiler.nvvm.code import Function
from tileiras.compiler.target import sm

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


def builder_for(block: tuple[int, int, int] | None) -> Builder:
    target = sm.find("sm_90")
    assert target
    function = Function("k")
    function.attrs["nvvm.reqntid"] = block
    return Builder(function, target)


def value_of(builder: Builder, tid: int, of: object) -> object:
    """What the prologue computes for a thread."""
    known: dict[object, int] = {}
    for opcode, dst, srcs, _ in builder.prologue:
        a, *rest = (known.get(s, s) for s in srcs)
        if opcode == "mov.u32":
            known[dst] = tid
        elif opcode == "mad.lo.s32":
            known[dst] = a * rest[0] + rest[1]
        else:
            known[dst] = {
                "and.b32": lambda x, y: x & y,
                "shr.u32": lambda x, y: x >> y,
                "shl.b32": lambda x, y: x << y,
                "mul.lo.s32": lambda x, y: x * y,
                "xor.b32": lambda x, y: x ^ y,
            }[opcode](a, *rest)
    return known.get(of, of)


@pytest.mark.parametrize("threads", [32, 96, 128, 160, 256, 384])
@pytest.mark.parametrize("kind", DRAWS)
def test_a_mask_is_left_out_only_where_the_block_has_no_other_threads(kind: str, threads: int) -> None:
    rng = random.Random(f"{kind} {threads}")
    for _ in range(12):
        columns = [DRAWS[kind](rng) for _ in range(rng.randint(5, 8))]
        builder = builder_for((threads, 1, 1))
        result = builder.thread_linear(columns[:5], columns[5:])
        for tid in range(threads):
            assert value_of(builder, tid, result) == by_columns(tid, columns), (columns, tid)


@pytest.mark.parametrize(
    ("block", "masked"), [((128, 1, 1), 0), ((256, 1, 1), 1), ((64, 2, 1), 1), (None, 1)]
)
def test_no_mask_for_all_threads_of_a_block(block: tuple[int, int, int] | None, masked: int) -> None:
    builder = builder_for(block)
    builder.thread_linear([16 << i for i in range(5)], [16 << i for i in range(5, 7)])
    assert [r[0] for r in builder.prologue].count("and.b32") == masked
