"""Layouts against brute force: every law is checked by enumerating places."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileiras.compiler.layout import convert
from tileiras.compiler.layout.gf2 import Basis, apply, rank, table
from tileiras.compiler.layout.linear import (
    LinearLayout,
    blocked,
    broadcasted,
    dim_bits,
    permuted,
    reduced,
    splat,
    with_inv,
)
from tileiras.compiler.layout.shared import arrange, matrix_load
from tileiras.compiler.layout.turn import exchange
from tileiras.compiler.target import mma, sm

vectors = st.lists(st.integers(0, 255), max_size=8)


@given(vectors, st.integers(0, 255))
def test_solve_finds_a_combination_exactly_when_there_is_one(columns: list[int], target: int) -> None:
    reachable = {apply(columns, place) for place in range(1 << len(columns))}
    place = Basis(columns).solve(target)
    assert (place is not None) == (target in reachable)
    if place is not None:
        assert apply(columns, place) == target


@given(vectors)
def test_rank_counts_what_is_reachable(columns: list[int]) -> None:
    assert len(set(table(columns))) == 1 << rank(columns)


@st.composite
def layouts(draw: st.DrawFn, max_bits: int = 9, log2_warps: int = 1) -> tuple[LinearLayout, tuple[int, ...]]:
    """(blocked layout of a random shape, order and vector width, shape)."""
    dims = draw(st.lists(st.integers(0, 4), min_size=1, max_size=3).filter(lambda d: sum(d) <= max_bits))
    shape = tuple(1 << d for d in dims)
    order = tuple(draw(st.permutations(range(len(shape)))))
    vector = draw(st.integers(0, min(3, sum(dims))))
    return blocked(shape, order, vector, log2_warps), shape


def places(layout: LinearLayout) -> list[tuple[int, int, int]]:
    return [
        (r, lane, w) for w in range(layout.num_warps) for lane in range(32) for r in range(layout.num_regs)
    ]


@given(layouts())
def test_a_blocked_layout_holds_every_element(drawn: tuple[LinearLayout, tuple[int, ...]]) -> None:
    layout, _ = drawn
    assert {layout(*p) for p in places(layout)} == set(range(1 << layout.bits))


@given(layouts())
def test_owners_hold_every_element_once(drawn: tuple[LinearLayout, tuple[int, ...]]) -> None:
    layout, _ = drawn
    lanes, warps = layout.replicated
    owned = [layout(r, lane, w) for r, lane, w in places(layout) if not lane & lanes and not w & warps]
    assert sorted(owned) == list(range(1 << layout.bits))


def unpack(index: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(index >> low & ((1 << count) - 1) for low, count in dim_bits(shape))


@given(layouts(), st.data())
def test_permute_moves_no_element(drawn: tuple[LinearLayout, tuple[int, ...]], data: st.DataObject) -> None:
    layout, shape = drawn
    p = data.draw(st.permutations(range(len(shape))))
    result = permuted(layout, shape, p)
    target = tuple(shape[i] for i in p)
    for place in places(layout):
        coordinates = unpack(layout(*place), shape)
        assert unpack(result(*place), target) == tuple(coordinates[i] for i in p)


@given(layouts(), st.data())
def test_reduced_forgets_one_dimension(
    drawn: tuple[LinearLayout, tuple[int, ...]], data: st.DataObject
) -> None:
    layout, shape = drawn
    dim = data.draw(st.integers(0, len(shape) - 1))
    result = reduced(layout, shape, dim)
    kept = shape[:dim] + shape[dim + 1 :]
    for lane in range(32):
        coordinates = unpack(layout(0, lane, 1), shape)
        assert unpack(result(0, lane, 1), kept) == coordinates[:dim] + coordinates[dim + 1 :]


def test_broadcast_costs_nothing() -> None:
    layout = blocked((64, 1), (1, 0), 0, 2)
    wide = broadcasted(layout, (64, 1), (64, 128))
    assert wide.num_regs == layout.num_regs
    assert wide.inv == 127
    assert convert.plan(splat(13, 2), wide).kind == convert.RENAME


def execute(source: LinearLayout, target: LinearLayout) -> dict[tuple[int, int, int], int]:
    """What a plan leaves in every destination place, as packed indices (modulo what the value ignores)."""
    plan = convert.plan(source, target)
    keep = ~source.inv & ((1 << source.bits) - 1)
    out = {}
    for r, lane, w in places(target):
        if plan.kind == convert.RENAME:
            out[r, lane, w] = source(plan.regs[r], lane, w) & keep
        else:
            from_lane = apply(plan.lane_columns, lane) ^ plan.lane_xor[r]
            out[r, lane, w] = source(plan.regs[r], from_lane, w) & keep
    return out


@given(layouts(), st.data())
def test_renames_and_shuffles_deliver_the_right_element(
    drawn: tuple[LinearLayout, tuple[int, ...]], data: st.DataObject
) -> None:
    source, shape = drawn
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    target = blocked(shape, order, data.draw(st.integers(0, min(3, source.bits))), 1)
    if data.draw(st.booleans()):
        source = with_inv(source, data.draw(st.integers(0, (1 << source.bits) - 1)))
    plan = convert.plan(source, target)
    if plan.kind == convert.SHARED:
        return
    keep = ~source.inv & ((1 << source.bits) - 1)
    for place, index in execute(source, target).items():
        assert index == target(*place) & keep


@given(layouts(), st.data(), st.sampled_from([1, 2, 4, 8]))
def test_a_shared_arrangement_has_one_address_per_element(
    drawn: tuple[LinearLayout, tuple[int, ...]], data: st.DataObject, size: int
) -> None:
    source, shape = drawn
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    target = blocked(shape, order, data.draw(st.integers(0, min(3, source.bits))), 1)
    plan = convert.shared_plan(source, target, size)
    offsets = {apply(plan.columns, index) for index in range(1 << source.bits)}
    assert len(offsets) == 1 << source.bits
    assert max(offsets) + size <= plan.bytes
    assert all(offset % size == 0 for offset in offsets)


def conflicts(lanes: list[int], access_bytes: int) -> int:
    """Wavefronts by enumeration: words of one bank in one phase, equal words together."""
    phases = max(1, 32 * access_bytes // 128)
    per_phase = 32 // phases
    total = 0
    for phase in range(phases):
        banks: dict[int, set[int]] = {}
        for lane in range(phase * per_phase, (phase + 1) * per_phase):
            word = apply(lanes, lane) >> 2
            banks.setdefault(word & 31, set()).add(word)
        total = max(total, max(len(words) for words in banks.values()))
    return total


@given(st.lists(st.integers(0, 11).map(lambda k: 1 << k), min_size=5, max_size=5, unique=True))
def test_bank_conflicts_are_counted_as_by_enumeration(columns: list[int]) -> None:
    lanes = [c * 4 for c in columns]
    assert convert.bank_conflicts(lanes, 4) == conflicts(lanes, 4)


def test_a_transpose_of_floats_has_no_bank_conflicts() -> None:
    source, target = blocked((64, 64), (1, 0), 0, 2), blocked((64, 64), (0, 1), 0, 2)
    plan = convert.shared_plan(source, target, 4)
    for layout, vec in ((source, plan.store_vec), (target, plan.load_vec)):
        lanes = [apply(plan.columns, c) for c in layout.lane]
        assert conflicts(lanes, 4 << vec) == 1


TURNS = [(False, False), (True, False), (False, True), (True, True)]


@pytest.mark.parametrize("turned", TURNS)
@pytest.mark.parametrize("elem", ["f16", "bf16", "tf32", "f64", "i8", "f8E4M3FN"])
@pytest.mark.parametrize("name", ["sm_75", "sm_80", "sm_90"])
def test_fragments_of_a_product_meet(elem: str, name: str, turned: tuple[bool, bool]) -> None:
    """Every accumulator element of a warp finds its row of A and its column of B in that warp."""
    atom = mma.find_atom(sm.find(name), elem)
    m, n, k = 64, 32, 32
    if atom is None or True in turned and not mma.can_turn((m, n), atom, k):
        return
    warps = mma.split_warps((m, n), atom, 2, turned=turned)
    acc = mma.accumulator_layout((m, n), atom, warps, turned)
    a = mma.operand_layout((m, k), atom, 0, warps, turned)
    b = mma.operand_layout((k, n), atom, 1, warps, turned)
    assert mma.turned(acc, (m, n)) == turned
    assert sorted({acc(r, t, w) for r in range(acc.num_regs) for t in range(32) for w in range(4)}) == list(
        range(m * n)
    )
    for w in range(4):
        rows = {unpack(a(r, lane, w), (m, k))[0] for r in range(a.num_regs) for lane in range(32)}
        columns = {unpack(b(r, lane, w), (k, n))[1] for r in range(b.num_regs) for lane in range(32)}
        for r in range(acc.num_regs):
            for lane in range(32):
                row, column = unpack(acc(r, lane, w), (m, n))
                assert row in rows and column in columns


def test_turned_scores_are_a_left_operand_of_bytes() -> None:
    """What a thread has of 64x32 results is what it takes of a left operand, register by register."""
    scores = mma.find_atom(sm.find("sm_120"), "f8E4M3FN")
    assert scores is not None
    warps = mma.split_warps((64, 32), scores, 2, rows=2)
    results = mma.accumulator_layout((64, 32), scores, warps, (False, True))
    assert results is mma.operand_layout((64, 32), scores, 0, warps)


@pytest.mark.parametrize("unit, turned", [(1, (False, True)), (0, (False, True))])
@pytest.mark.parametrize("shape", [(64, 128), (128, 32), (32, 16)])
def test_bytes_are_transposed_in_pairs_without_bank_conflicts(
    shape: tuple[int, int], unit: int, turned: tuple[bool, bool]
) -> None:
    """A right operand, contiguous along N or along K, whose columns are turned."""
    atom = mma.find_atom(sm.find("sm_120"), "f8E4M3FN")
    assert atom is not None
    layout = mma.operand_layout(shape, atom, 1, [], turned)
    number = {1 << k: k for k in range(layout.bits)}
    lines = layout.lane[2:5] if unit == 0 else (layout.reg[0], *layout.lane[:2])
    columns = arrange(shape, unit, 1, lines=[number[bit] for bit in lines])
    plan = matrix_load(columns, layout, 1)
    assert plan is not None and plan.transposed == (unit == 1)
    assert plan.pair == (0 if unit == 0 else 1)
    starts = {apply(columns, apply(plan.rows, r)) % 128 // 16 for r in range(8)}
    assert len(starts) == 8  # of the rows of a matrix, in 16-byte groups of banks
    places = {apply(columns, index) for index in range(1 << layout.bits)}
    assert places == set(range(1 << layout.bits))


def test_layouts_are_interned() -> None:
    assert blocked((8, 8), (1, 0), 1, 2) is blocked((8, 8), (1, 0), 1, 2)


def wavefronts(columns: tuple[int, ...], layout: LinearLayout, width: int) -> int:
    """Of one access of `width` bytes a lane, for each 128 bytes: the lines that threads of one phase want of one bank."""
    together = min(32, 128 // width)
    worst = 0
    for first in range(0, 32, together):
        wanted: dict[int, set[int]] = {}
        for lane in range(first, first + together):
            at = apply(columns, layout(0, lane, 0))
            for word in range(0, max(width, 4), 4):
                wanted.setdefault((at + word) % 128 // 4, set()).add((at + word) // 128)
        worst = max(worst, *(len(lines) for lines in wanted.values()))
    return worst


@pytest.mark.parametrize(
    "shape, unit, size, major, wide, read, write, worst",
    [
        ((64, 128), 1, 4, 0, 4, 16, 16, 1),  # transposed, 32 bits
        ((32, 256), 1, 4, 0, 4, 16, 16, 1),
        ((128, 64), 1, 4, 1, 4, 16, 16, 1),  # as it is
        ((64, 128), 1, 1, 1, 2, 16, 16, 1),  # widened from 8 to 16 bits
        ((64, 128), 1, 1, 0, 1, 4, 8, 2),  # transposed, 8 bits
        ((128, 64), 0, 1, 1, 1, 4, 8, 2),
    ],
)
def test_what_is_written_back_is_read_and_written_in_vectors_that_reach_all_banks(
    shape: tuple[int, int], unit: int, size: int, major: int, wide: int, read: int, write: int, worst: int
) -> None:
    before, after = arrange(shape, unit, size), arrange(shape, major, wide)
    layout = exchange(before, size, after, wide, 3)
    places = {layout(r, lane, w) for r in range(layout.num_regs) for lane in range(32) for w in range(8)}
    assert len(places) == shape[0] * shape[1] == layout.num_regs * 256
    for columns, elem, least in ((before, size, read), (after, wide, write)):
        offsets = {apply(columns, c) for c in layout.reg}
        assert {elem << i for i in range((least // elem).bit_length() - 1)} <= offsets
        assert wavefronts(columns, layout, least) <= worst


@given(st.integers(0, 5), st.integers(0, 7), st.integers(0, 1), st.integers(0, 2), st.integers(0, 4))
def test_every_tile_is_held_once(rows: int, columns: int, unit: int, size: int, warps: int) -> None:
    shape = (1 << rows, 1 << columns)
    layout = exchange(arrange(shape, unit, 1 << size), 1 << size, arrange(shape, 1, 4), 4, warps)
    places = [
        layout(r, lane, w) for r in range(layout.num_regs) for lane in range(32) for w in range(1 << warps)
    ]
    assert set(places) == set(range(shape[0] * shape[1]))
    assert rank([*layout.reg]) == len(layout.reg) and layout.num_warps == 1 << warps


@pytest.mark.parametrize("warps", [2, 3])
@pytest.mark.parametrize(
    "shape, least, worst",
    [
        ((128, 32), 8, 1), ((128, 64), 16, 1), ((128, 256), 16, 1), ((256, 64), 16, 1), ((256, 128), 16, 1),
        ((64, 64), 4, 2), ((64, 128), 8, 2), ((32, 128), 4, 2), ((32, 256), 4, 2),
    ],
)  # fmt: skip
@pytest.mark.parametrize("major", [0, 1])
def test_bytes_are_turned_in_pairs(
    shape: tuple[int, int], least: int, worst: int, major: int, warps: int
) -> None:
    """The first side becomes the contiguous one: lines of 128 bytes are stored without conflicts."""
    if major:
        shape = shape[1], shape[0]
    after = arrange(shape, major, 1)
    layout = exchange(arrange(shape, 1 - major, 1), 1, after, 1, warps, True)
    places = {
        layout(r, lane, w) for r in range(layout.num_regs) for lane in range(32) for w in range(1 << warps)
    }
    assert len(places) == shape[0] * shape[1] == layout.num_regs << 5 + warps
    lines = [c.bit_length() - 1 for c in (layout.reg[0], *layout.lane[:2])]
    before = arrange(shape, 1 - major, 1, lines=lines)
    plan = matrix_load(before, layout, 1)
    assert plan is not None and plan.transposed and plan.pair
    assert Basis(apply(before, row) & 127 for row in plan.rows).rank == 3
    offsets = {apply(after, c) for c in layout.reg}
    vector = next(n for n in (16, 8, 4) if {1 << i for i in range(n.bit_length() - 1)} <= offsets)
    assert vector >= least >> (warps - 2 if least < 16 else 0) and wavefronts(after, layout, vector) == worst


def test_bytes_of_sides_too_short_for_pairs_are_turned_one_by_one() -> None:
    before, after = arrange((64, 8), 1, 1), arrange((64, 8), 0, 1)
    assert exchange(before, 1, after, 1, 2, True) is exchange(before, 1, after, 1, 2)


def test_rows_of_tensor_memory_are_stored_for_ldmatrix_without_bank_conflicts() -> None:
    """A row a thread, 64 columns of it: what sums look like in front of an epilogue that stores whole lines."""
    rows = LinearLayout(14, [1, 2, 4, 8, 16, 32], [128, 256, 512, 1024, 2048], [4096, 8192, 64])
    lines = LinearLayout(14, [1, 2, 4, 2048, 4096, 8192], [8, 16, 32, 64, 128], [256, 512, 1024])
    plan = convert.decide(rows, lines, 2)
    columns = plan["columns"]
    assert plan["plan"] == convert.MATRICES and Basis(columns).rank == 14
    assert convert.bank_conflicts([columns[c.bit_length() - 1] for c in rows.lane], 16) == 1
    assert Basis(columns[r.bit_length() - 1] & 127 for r in plan["rows"]).rank == 3
