"""The algebra of layouts by its laws, and what is expressed in it by enumerating places."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tileiras.compiler.layout.algebra import Map, compose, divide, identity, invert, locate, product
from tileiras.compiler.layout.gf2 import rank
from tileiras.compiler.layout.linear import LinearLayout, blocked, placed
from tileiras.compiler.layout.shared import (
    MATRIX_ROW,
    RUN,
    arrange,
    is_swizzled,
    matrix_load,
    matrix_tile,
    swizzle,
)
from tileiras.compiler.schedule.bulk import in_boxes
from tileiras.compiler.target import mma, sm

NAMES = ("register", "lane", "warp", "block")
OUTS = ("row", "column", "offset")


@st.composite
def spaces(draw: st.DrawFn, names: tuple[str, ...] = OUTS, most: int = 3) -> dict[str, int]:
    chosen = draw(st.lists(st.sampled_from(names), min_size=1, max_size=len(names), unique=True))
    return {name: draw(st.integers(0, most)) for name in chosen}


@st.composite
def maps(draw: st.DrawFn, ins: dict[str, int] | None = None, outs: dict[str, int] | None = None) -> Map:
    ins = draw(spaces(NAMES)) if ins is None else ins
    outs = draw(spaces()) if outs is None else outs
    most = (1 << sum(outs.values())) - 1
    columns = {n: draw(st.lists(st.integers(0, most), min_size=k, max_size=k)) for n, k in ins.items()}
    return Map(columns, outs)


@st.composite
def bijections(draw: st.DrawFn) -> Map:
    """Maps that reach every result once: as many bits on both sides, columns that span all."""
    ins = draw(spaces(NAMES))
    bits = sum(ins.values())
    columns = [1 << k for k in draw(st.permutations(range(bits)))]
    for to, source in draw(st.lists(st.tuples(st.integers(0, 15), st.integers(0, 15)), max_size=12)):
        if bits and to % bits != source % bits:
            columns[to % bits] ^= columns[source % bits]
    first = draw(st.integers(0, bits))
    rest = iter(columns)
    return Map(
        {n: [next(rest) for _ in range(k)] for n, k in ins.items()}, {"row": first, "column": bits - first}
    )


def sizes(map: Map) -> dict[str, int]:
    return {name: len(columns) for name, columns in map.ins.items()}


def straight(space: dict[str, int]) -> Map:
    """The identity of a space with several coordinates."""
    low, ins = 0, {}
    for name, bits in space.items():
        ins[name] = [1 << low + k for k in range(bits)]
        low += bits
    return Map(ins, space)


@given(st.data())
def test_composition_is_what_one_after_the_other_gives(data: st.DataObject) -> None:
    first = data.draw(maps())
    second = data.draw(maps(ins=first.outs))
    place = {n: data.draw(st.integers(0, (1 << k) - 1)) for n, k in sizes(first).items()}
    packed, middle = first(**place), {}
    assert len(first.split(packed)) == len(first.outs)
    for (name, bits), part in zip(first.outs.items(), first.split(packed)):
        middle[name] = packed & (1 << bits) - 1
        assert part == middle[name]
        packed >>= bits
    assert compose(first, second)(**place) == second(**middle)


@given(maps())
def test_maps_are_compared_by_what_they_say(map: Map) -> None:
    """A column packs the results in their order, so that the same columns in another order say something else."""
    assert map == Map(dict(reversed(map.ins.items())), map.outs)
    other = Map(map.ins, dict(reversed(map.outs.items())))
    assert (map == other) == (len(map.outs) < 2)


@given(st.data())
def test_composition_is_associative_and_has_an_identity(data: st.DataObject) -> None:
    first = data.draw(maps())
    second = data.draw(maps(ins=first.outs))
    third = data.draw(maps(ins=second.outs))
    assert compose(compose(first, second), third) == compose(first, compose(second, third))
    assert compose(straight(sizes(first)), first) == first == compose(first, straight(first.outs))


@given(bijections())
def test_an_inverse_undoes_on_both_sides(map: Map) -> None:
    back = invert(map)
    assert back is not None
    assert compose(back, map) == straight(map.outs) and compose(map, back) == straight(sizes(map))
    assert invert(back) == map


@given(maps())
def test_an_inverse_exists_exactly_where_every_result_is_reached(map: Map) -> None:
    back = invert(map)
    reached = rank([c for columns in map.ins.values() for c in columns]) == sum(map.outs.values())
    assert (back is not None) == reached
    if back is not None:
        assert compose(back, map) == straight(map.outs)


@given(st.data())
def test_locate_finds_the_same_result(data: st.DataObject) -> None:
    within = data.draw(maps())
    through = data.draw(maps(outs=sizes(within)))
    wanted = compose(through, within)
    found = locate(wanted, within)
    assert found is not None and compose(found, within) == wanted
    other = data.draw(maps(outs=within.outs))
    found = locate(other, within)
    reachable = rank([c for ins in within.ins.values() for c in ins])
    both = rank([c for m in (within, other) for ins in m.ins.values() for c in ins])
    assert (found is not None) == (reachable == both)


@given(maps(), maps(), maps())
def test_products_are_associative_and_divide_gives_back_the_rest(a: Map, b: Map, c: Map) -> None:
    assert product(product(a, b), c) == product(a, product(b, c)) == product(a, b, c)
    whole = product(a, b)
    rest = divide(whole, a)
    assert rest is not None and product(a, rest) == whole
    assert all(len(rest.ins.get(n, ())) == len(columns) for n, columns in b.ins.items())
    assert all(rest.outs[n] == bits for n, bits in b.outs.items())


@given(maps(), maps())
def test_what_divides_is_a_product_and_nothing_else(whole: Map, tile: Map) -> None:
    rest = divide(whole, tile)
    if rest is not None:
        assert product(tile, rest) == whole


@given(st.data())
def test_a_flipped_bit_does_not_divide(data: st.DataObject) -> None:
    """Any change of the tile's own columns, or of its bits in another column, is found."""
    tile, rest = data.draw(maps()), data.draw(maps())
    whole = product(tile, rest)
    name = data.draw(st.sampled_from(sorted(whole.ins)))
    assume(whole.ins[name] and sum(whole.outs.values()))
    k = data.draw(st.integers(0, len(whole.ins[name]) - 1))
    bit = data.draw(st.integers(0, sum(whole.outs.values()) - 1))
    low, inside = 0, False
    for out, bits in whole.outs.items():
        inside = inside or low <= bit < low + tile.outs.get(out, 0)
        low += bits
    columns = list(whole.ins[name])
    columns[k] ^= 1 << bit
    changed = Map({**whole.ins, name: columns}, whole.outs)
    own = k < len(tile.ins.get(name, ()))
    assert (divide(changed, tile) is None) == (own or inside)


def test_tiles_of_blocks_in_a_cluster_need_a_name_and_nothing_else() -> None:
    """128 rows of 16 bytes, 32 a warp, two blocks beside each other: where block 1 finds what block 0 holds."""
    tile = Map({"lane": (1, 2, 4, 8, 16), "warp": (32,), "block": (64,)}, {"row": 7})
    turned = Map({"lane": (1, 2, 4, 8, 16), "warp": (64,), "block": (32,)}, {"row": 7})
    found = locate(turned, tile)
    assert found is not None and found.outs == {"lane": 5, "warp": 1, "block": 1}
    assert found.ins["warp"] == (1 << 6,) and found.ins["block"] == (1 << 5,)
    offset = compose(tile, Map({"row": [16 << k for k in range(6)]}, {"offset": 10}))
    assert offset.ins["block"] == (0,), "a block has its own shared memory"


# ---- what is expressed in it


@pytest.mark.parametrize("width", [16, 32, 64, 128])
@pytest.mark.parametrize("turn", [0, 1])
def test_a_swizzle_is_its_own_inverse_and_permutes_chunks(width: int, turn: int) -> None:
    map = swizzle(width, 12, turn)
    assert compose(map, map) == identity("offset", 12, "offset")
    for offset in range(0, 1 << 12, 16):
        place = map(offset=offset)
        assert place >> 7 == offset >> 7 and place % 16 == 0 and (place ^ offset) < width
    if width == 128 and not turn:
        assert [map(offset=128 * line) % 128 for line in range(8)] == [16 * line for line in range(8)]


def by_hand(columns: tuple[int, ...], layout: LinearLayout, size: int, transposed: bool) -> bool:
    """Whether one ldmatrix, as the manual describes it for every thread, gives each thread what `layout` wants: it loads
    eight rows of 16 bytes whose addresses may be any multiples of 16."""
    where = placed(layout, columns)
    count = 4 // size
    rows: dict[int, int] = {}
    for lane in range(32):
        for i in range(count):
            at = where(register=i, lane=lane)
            row, byte = lane // 4, 4 * (lane % 4) + size * i
            if transposed:
                row, byte = 2 * (lane % 4) + i, 2 * (lane // 4)
            if at % 16 != byte or rows.setdefault(row, at - byte) != at - byte:
                return False
    return len(set(rows.values())) == 8


@pytest.mark.parametrize("unit", [0, 1])
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize(("elem", "size"), [("f16", 2), ("i8", 1), ("tf32", 4)])
def test_ldmatrix_is_found_exactly_where_the_manual_has_it(
    elem: str, size: int, which: int, unit: int
) -> None:
    atom = mma.find_atom(sm.find("sm_90"), elem)
    assert atom is not None
    shape = (32, 32)
    layouts = [blocked(shape, order, vector, 1) for order in ((0, 1), (1, 0)) for vector in range(4)]
    for turned in ((False, False), (True, True)):
        if True not in turned or mma.can_turn(shape, atom, shape[0]):
            warps = mma.split_warps(shape, atom, 1, turned=turned)
            layouts.append(mma.operand_layout(shape, atom, which, warps, turned))
    columns = arrange(shape, unit, size)
    for layout in layouts:
        found = matrix_load(columns, layout, size)
        plain, transposed = (by_hand(columns, layout, size, t) for t in (False, True))
        if found is None or found.pair:
            assert not plain and not (transposed and size == 2)
        else:
            assert (found.transposed, plain or transposed) == (not plain, True)


def test_the_tile_of_ldmatrix_holds_each_place_once() -> None:
    for size, transposed, pair in ((4, False, 0), (2, False, 0), (2, True, 0), (1, False, 0), (1, True, 2)):
        tile = matrix_tile(size, transposed, pair)
        places = {tile(**{RUN: run, MATRIX_ROW: row}) for run in range(16 // size) for row in range(8)}
        assert len(places) == 8 * 16 // size


@given(st.sampled_from([1, 2, 4]), st.integers(3, 7), st.integers(1, 7), st.data())
def test_boxes_give_the_lines_that_are_arranged(
    size: int, rows: int, extent: int, data: st.DataObject
) -> None:
    """The swizzle of a bulk tensor copy, by addresses as the manual has it, against `in_boxes`."""
    shape = (1 << rows, 1 << extent)
    line = min(shape[1], 128 // size)
    assume(line * size >= 16)
    columns = list(arrange(shape, 1, size))
    if data.draw(st.booleans()):
        k = data.draw(st.integers(0, len(columns) - 1))
        columns[k] ^= 16 << data.draw(st.integers(0, 5))

    def box(index: int) -> int:
        row, column = index // shape[1], index % shape[1]
        panel, within = divmod(column, line)
        plain = (panel * shape[0] + row) * line * size + within * size
        return plain ^ (plain >> 7 & line * size // 16 - 1) << 4

    same = all(box(1 << k) == column for k, column in enumerate(columns))
    assert in_boxes(columns, shape, (0, 1), (shape[0], line), size) == same
    log2_line = (line * size).bit_length() - size.bit_length()
    assert is_swizzled(columns, range(extent), range(extent, extent + rows), size, log2_line) == same
