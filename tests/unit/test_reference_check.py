"""What check=True finds beyond single operations: data races, and values that were never specified."""

from __future__ import annotations

import numpy as np
import pytest
from unit.reference_kit import ELEMS, Kernel, pointer, tile

from tileiras.compiler.ir import types as T
from tileiras.run import LaunchError

I32 = tile("i32")
WEAK = {"memory_ordering_semantics": "weak"}


def strong(ordering: str = "relaxed", scope: str = "device") -> dict[str, str]:
    return {"memory_ordering_semantics": ordering, "memory_scope": scope}


def load(k: Kernel, where, token=None, **attrs):
    """(value, token) of a load; weak unless attributes say otherwise."""
    kind = T.TileType(where.type.elem.pointee, where.type.shape)
    return k.op("load_ptr_tko", [where, None, None, token], [kind, T.TOKEN], **(attrs or WEAK))


def store(k: Kernel, where, value, token=None, **attrs):
    return k.op("store_ptr_tko", [where, value, None, token], [T.TOKEN], **(attrs or WEAK))


def atomic(k: Kernel, where, value, token=None, **attrs):
    """(old value, token)"""
    return k.op("atomic_rmw_tko", [where, value, None, token], [value.type, T.TOKEN], mode="add", **attrs)


def block_id(k: Kernel):
    return k.op("get_tile_block_id", (), [I32] * 3)[0]


def found(k: Kernel, *args, **more) -> list[str]:
    """Codes of the findings; running without check must find nothing."""
    k.run(*args, **more)
    try:
        k.run(*args, check=True, **more)
    except LaunchError as error:
        return [d.code for d in error.diagnostics]
    return []


BETWEEN, WITHIN, UNSPECIFIED = "RUN-0014", "RUN-0013", "RUN-0015"


def test_blocks_that_write_one_element_race_and_those_that_do_not_do_not() -> None:
    k = Kernel("*i32", "i32")
    x = block_id(k)
    place = k.op("muli", [x, k.args[1]], [I32])
    store(k, k.op("offset", [k.args[0], place], [tile(pointer("i32"))]), x)
    out = np.zeros(8, np.int32)
    assert found(k, out, 1, grid=8) == []
    assert set(found(k, out, 0, grid=2)) == {BETWEEN}


@pytest.mark.parametrize("first_reads", [False, True])
def test_a_reader_and_a_writer_race_in_either_order(first_reads: bool) -> None:
    k = Kernel("*i32", "*i32")
    x = block_id(k)
    is_reader = k.op(
        "cmpi",
        [x, k.const(0 if first_reads else 1, "i32")],
        [tile("i1")],
        comparison_predicate="equal",
        signedness="signed",
    )
    then, other = k.region(), k.region()
    with k.inside(then):
        store(k, k.args[1], load(k, k.args[0])[0])
    with k.inside(other):
        store(k, k.args[0], x)
    k.op("if", [is_reader], [], [then, other])
    assert found(k, np.zeros(1, np.int32), np.zeros(1, np.int32), grid=2) == [BETWEEN]


def test_neighbouring_bytes_do_not_conflict() -> None:
    k = Kernel("*i8")
    x = block_id(k)
    where = k.op("offset", [k.args[0], x], [tile(pointer("i8"))])
    store(k, where, k.const(1, "i8"))
    assert found(k, np.zeros(16, np.int8), grid=16) == []


def test_atomics_do_not_race_with_atomics_but_with_weak_accesses() -> None:
    k = Kernel("*i32", "*i32")
    atomic(k, k.args[0], k.const(1, "i32"), **strong())
    assert found(k, np.zeros(1, np.int32), np.zeros(8, np.int32), grid=4) == []
    k.block.ops.pop()  # the return that the first run added
    x = block_id(k)
    store(k, k.op("offset", [k.args[1], x], [tile(pointer("i32"))]), load(k, k.args[0])[0])
    assert BETWEEN in found(k, np.zeros(1, np.int32), np.zeros(8, np.int32), grid=4)


def test_atomics_of_the_tile_block_scope_do_not_protect_from_other_blocks() -> None:
    k = Kernel("*i32")
    atomic(k, k.args[0], k.const(1, "i32"), **strong("relaxed", "tl_blk"))
    assert set(found(k, np.zeros(1, np.int32), grid=2)) == {BETWEEN}


def message_passing(release: str, acquire: str) -> Kernel:
    """Block 0 writes data and raises a flag; the others wait for the flag and read the data."""
    k = Kernel("*i32", "*i32", "*i32")
    x, one = block_id(k), k.const(1, "i32")
    writer = k.op(
        "cmpi", [x, k.const(0, "i32")], [tile("i1")], comparison_predicate="equal", signedness="signed"
    )
    then, other = k.region(), k.region()
    with k.inside(then):
        token = store(k, k.args[0], k.const(7, "i32"))
        atomic(k, k.args[1], one, token, **strong(release))
    with k.inside(other):
        loop = k.region()
        with k.inside(loop):
            flag, token = atomic(k, k.args[1], k.const(0, "i32"), **strong(acquire))
            ready = k.op("cmpi", [flag, one], [tile("i1")], comparison_predicate="equal", signedness="signed")
            leave, stay = k.region(), k.region()
            with k.inside(leave):
                value = load(k, k.args[0], token)[0]
                store(k, k.op("offset", [k.args[2], x], [tile(pointer("i32"))]), value)
                k.op("break", [[]])
            with k.inside(stay):
                k.op("yield", [[]])
            k.op("if", [ready], [], [leave, stay])
            k.op("continue", [[]])
        k.op("loop", [[]], [], [loop])
    k.op("if", [writer], [], [then, other])
    return k


@pytest.mark.parametrize(
    "release,acquire,races",
    [
        ("release", "acquire", False),
        ("acq_rel", "acq_rel", False),
        ("relaxed", "acquire", True),
        ("release", "relaxed", True),
    ],
)
def test_release_and_acquire_order_tile_blocks(release: str, acquire: str, races: bool) -> None:
    codes: set[str] = set()
    for seed in (None, 1, 2):
        data, flag, out = np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros(8, np.int32)
        try:
            message_passing(release, acquire).run(data, flag, out, grid=8, seed=seed, check=True)
        except LaunchError as error:
            codes |= {d.code for d in error.diagnostics}
        assert out[1:].tolist() == [7] * 7
    assert codes == ({BETWEEN} if races else set())


@pytest.mark.parametrize("how", ["none", "direct", "joined", "through a loop"])
def test_only_tokens_order_accesses_of_one_block(how: str) -> None:
    k = Kernel("*i32", "*i32")
    first = store(k, k.args[0], k.const(3, "i32"))
    token = None
    if how == "direct":
        token = first
    elif how == "joined":
        token = k.op("join_tokens", [[k.op("make_token", (), [T.TOKEN]), first]], [T.TOKEN])
    elif how == "through a loop":
        body = k.region(I32, T.TOKEN)
        with k.inside(body) as (_, carried):
            k.op("continue", [[store(k, k.args[1], k.const(1, "i32"), carried)]])
        zero, one, three = (k.const(v, "i32") for v in (0, 1, 3))
        token = k.op("for", [zero, three, one, [first]], [T.TOKEN], [body])
    value, after = load(k, k.args[0], token)
    store(k, k.args[1], value, after)
    got = found(k, np.zeros(1, np.int32), np.zeros(1, np.int32))
    assert got == ([WITHIN] if how == "none" else [])


def test_two_reads_need_no_token() -> None:
    k = Kernel("*i32", "*i32")
    a, _ = load(k, k.addresses(k.args[0], 4, (4,)))
    b, _ = load(k, k.addresses(k.args[0], 4, (4,)))
    store(k, k.addresses(k.args[1], 4, (4,)), k.op("addi", [a, b], [a.type]))
    assert found(k, np.arange(4, dtype=np.int32), np.zeros(4, np.int32)) == []


# ---- values that were never specified


def masked(k: Kernel, base, mask, padding=None):
    where = k.addresses(base, 8, (8,))
    return k.op("load_ptr_tko", [where, mask, padding, None], [tile("i32", 8), T.TOKEN], **WEAK)[0]


def partial_store(k: Kernel, base, value, mask=None) -> None:
    k.op("store_ptr_tko", [k.addresses(base, 8, (8,)), value, mask, None], [T.TOKEN], **WEAK)


def run_masked(build) -> list[str]:
    k = Kernel("*i32", "*i1", "*i32")
    mask = k.load(k.args[1], 8)
    build(k, masked(k, k.args[0], mask), mask)
    return found(k, np.arange(1, 9, dtype=np.int32), np.arange(8) < 5, np.zeros(8, np.int32))


def test_storing_a_lane_that_was_masked_off_is_reported() -> None:
    assert set(run_masked(lambda k, v, m: partial_store(k, k.args[2], v))) == {UNSPECIFIED}
    assert run_masked(lambda k, v, m: partial_store(k, k.args[2], v, m)) == []


def test_what_is_computed_from_unspecified_elements_is_unspecified_and_no_other_finding() -> None:
    def divide(k, v, m):
        w = k.op("divi", [v, v], [v.type], signedness="signed", rounding="zero")  # 0 / 0 in the masked lanes
        partial_store(k, k.args[2], w, m)

    assert run_masked(divide) == []

    def shape(k, v, m):
        t = k.op(
            "permute", [k.op("reshape", [v], [tile("i32", 2, 4)])], [tile("i32", 4, 2)], permutation=(1, 0)
        )
        back = k.op("permute", [t], [tile("i32", 2, 4)], permutation=(1, 0))
        partial_store(k, k.args[2], k.op("reshape", [back], [tile("i32", 8)]), m)

    assert run_masked(shape) == []


def test_select_clears_and_a_reduction_spreads() -> None:
    def choose(k, v, m):
        partial_store(k, k.args[2], k.op("select", [m, v, k.const(0, "i32", 8)], [v.type]))

    assert run_masked(choose) == []

    def total(k, v, m):
        body = k.region(I32, I32)
        with k.inside(body) as (a, b):
            k.op("yield", [[k.op("addi", [a, b], [I32])]])
        identity = (T.IntegerAttr(ELEMS["i32"], 0),)
        store(k, k.args[2], k.op("reduce", [[v]], [I32], [body], dim=0, identities=identity))

    assert run_masked(total) == [UNSPECIFIED]


def test_padding_specifies_and_values_follow_loops() -> None:
    def carry(k, v, m):
        body = k.region(I32, v.type)
        with k.inside(body) as (_, w):
            k.op("continue", [[k.op("addi", [w, w], [w.type])]])
        zero, one, three = (k.const(x, "i32") for x in (0, 1, 3))
        out = k.op("for", [zero, three, one, [v]], [v.type], [body])
        partial_store(k, k.args[2], out)

    assert set(run_masked(carry)) == {UNSPECIFIED}

    def padded(k, v, m):
        partial_store(k, k.args[2], masked(k, k.args[0], m, k.const(0, "i32", 8)))

    assert run_masked(padded) == []


def test_branching_on_an_unspecified_element_is_reported() -> None:
    def branch(k, v, m):
        last = k.op("reshape", [k.op("extract", [v, [k.const(7, "i32")]], [tile("i32", 1)])], [I32])
        bad = k.op(
            "cmpi", [last, k.const(0, "i32")], [tile("i1")], comparison_predicate="equal", signedness="signed"
        )
        then = k.region()
        with k.inside(then):
            store(k, k.args[2], k.const(1, "i32"))
            k.op("yield", [[]])
        from tileiras.compiler.ir.core import Region

        k.op("if", [bad], [], [then, Region()])

    assert run_masked(branch) == [UNSPECIFIED]


@pytest.mark.parametrize("padding", [None, "zero"])
def test_views_without_padding_give_unspecified_elements(padding: str | None) -> None:
    k = Kernel("*i32", "*i32")
    vt = T.TensorView(ELEMS["i32"], (5,), (1,), None)
    view = k.op("make_tensor_view", [k.args[0], [], []], [vt])
    made = k.op("make_partition_view", [view], [T.PartitionView((8,), vt, (0,), padding)])
    value = k.op("load_view_tko", [made, [k.const(0, "i32")], None], [tile("i32", 8), T.TOKEN], **WEAK)[0]
    partial_store(k, k.args[1], value)
    got = found(k, np.arange(5, dtype=np.int32), np.zeros(8, np.int32))
    assert set(got) == (set() if padding else {UNSPECIFIED})
