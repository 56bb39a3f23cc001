"""What both witnesses must say of one kernel: prints, blocks that wait for ever, orders that nothing promises."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest
from unit.reference_kit import Kernel, tile

from tileiras.compiler.ir import types as T
from tileiras.run import LaunchError, launch

I32 = tile("i32")
WITNESSES = ("reference", "emulator")


def both(k: Kernel, *args, grid=1, **more) -> list[str]:
    """What the kernel prints on each witness."""
    outs = []
    for target in WITNESSES:
        outs.append(io.StringIO())
        launch(k.module(), "k", grid, args, target, out=outs[-1], **more)
    return [o.getvalue() for o in outs]


def test_prints_of_blocks_do_not_interleave_inside_one_print() -> None:
    k = Kernel("*i32")
    x = k.op("get_tile_block_id", (), [I32] * 3)[0]
    k.op("print_tko", [[x, k.load(k.args[0], 4)], None], [T.TOKEN], str="block %d:\n%d;")
    k.op("print_tko", [[x], None], [T.TOKEN], str=" end %d\n")
    for seed in (None, 1, 2):
        a, b = both(k, np.arange(4, dtype=np.int32), grid=5, seed=seed)
        blocks = re.findall(r"block (\d):(?:(?!block).)*? end \1\n", b, re.S)
        assert sorted(blocks) == list("01234") and len(a) == len(b)
        assert sorted(a.split("\n")) == sorted(b.split("\n"))


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("target", WITNESSES)
def test_a_flag_that_nobody_sets_is_reported_with_kernel_and_line(target: str, check: bool) -> None:
    k = Kernel("*i32")
    loop = k.region()
    with k.inside(loop):
        flag, _ = k.op(
            "load_ptr_tko", [k.args[0], None, None, None], [I32, T.TOKEN],
            memory_ordering_semantics="acquire", memory_scope="device",
        )  # fmt: skip
        ready = k.op(
            "cmpi",
            [flag, k.const(0, "i32")],
            [tile("i1")],
            comparison_predicate="not_equal",
            signedness="signed",
        )
        leave, stay = k.region(), k.region()
        with k.inside(leave):
            k.op("break", [[]])
        with k.inside(stay):
            k.op("yield", [[]])
        k.op("if", [ready], [], [leave, stay])
        k.op("continue", [[]])
    k.op("loop", [[]], [], [loop])
    with pytest.raises(LaunchError) as error:
        launch(k.module(), "k", 3, [np.zeros(1, np.int32)], target, check=check)
    (found,) = error.value.diagnostics
    assert "kernel 'k'" in found.text and found.loc.file.endswith("k.py") and found.loc.line == 1
    assert "load_ptr_tko" in str(found.op) or "ld.acquire" in found.text


STRONG = {"memory_ordering_semantics": "acquire", "memory_scope": "device"}


def peek(k: Kernel, place, how):
    return k.op("load_ptr_tko", [place, None, None, None], [I32, T.TOKEN], **how)[0]


def plus(k: Kernel, a, b):
    return k.op("addi", [a, b], [I32])


def break_if(k: Kernel, predicate: str, a, b, value) -> None:
    met = k.op("cmpi", [a, b], [tile("i1")], comparison_predicate=predicate, signedness="signed")
    then, other = k.region(), k.region()
    with k.inside(then):
        k.op("break", [[value]])
    with k.inside(other):
        k.op("yield", [[]])
    k.op("if", [met], [], [then, other])


def loop_over(k: Kernel, body):
    """A loop with a counter from 0; `body(counter)` may break with a value and returns the next one."""
    region = k.region(I32)
    with k.inside(region):
        k.op("continue", [[body(region.block.args[0])]])
    return k.op("loop", [[k.const(0, "i32")]], [I32], [region])


def rounds_until(k: Kernel, flag, how, place=lambda k, flag, n: flag):
    """Waits for a flag that is not 0 and counts the rounds."""

    def body(n):
        break_if(k, "not_equal", peek(k, place(k, flag, n), how), k.const(0, "i32"), n)
        return plus(k, n, k.const(1, "i32"))

    return loop_over(k, body)


@pytest.mark.parametrize("outer", ["loop", "for"])
@pytest.mark.parametrize("how", ["acquire", "weak"])
@pytest.mark.parametrize("target", WITNESSES)
def test_rounds_that_an_enclosing_loop_counts_do_not_hide_a_deadlock(
    target: str, how: str, outer: str
) -> None:
    k = Kernel("*i32", "*i32")
    how_read = STRONG if how == "acquire" else WEAK
    if outer == "loop":

        def body(total):
            total = plus(k, total, rounds_until(k, k.args[0], how_read))
            break_if(k, "greater_than", total, k.const(100, "i32"), total)
            return total

        total = loop_over(k, body)
    else:
        region = k.region(I32, I32)
        with k.inside(region):
            total = plus(k, region.block.args[1], rounds_until(k, k.args[0], how_read))
            k.op("continue", [[total]])
        bounds = [k.const(v, "i32") for v in (0, 4, 1)]
        total = k.op("for", [*bounds, [k.const(0, "i32")]], [I32], [region])
    k.store(k.args[1], total)
    with pytest.raises(LaunchError) as error:
        launch(k.module(), "k", 2, [np.zeros(1, np.int32), np.zeros(1, np.int32)], target)
    (found,) = error.value.diagnostics
    assert "kernel 'k'" in found.text and found.loc.file.endswith("k.py") and found.loc.line == 1
    assert "load_ptr_tko" in str(found.op) or "never ends" in found.text


def turn(k: Kernel, flag, n):
    """The flag of a round: four take turns."""
    return k.op("offset", [flag, k.op("andi", [n, k.const(3, "i32")], [I32])], [flag.type])


def note(k: Kernel, flag, n):
    """The flag; the round is kept beside it, where nobody reads it."""
    k.store(k.op("offset", [flag, k.const(7, "i32")], [flag.type]), n)
    return flag


@pytest.mark.parametrize("place", [turn, note])
@pytest.mark.parametrize("target", WITNESSES)
def test_waits_whose_rounds_differ_are_deadlocks_too(
    target: str, place, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tileiras.run.emulator import progress
    from tileiras.run.reference import schedule

    monkeypatch.setattr(progress, "FIRST_WATCH", 1000)
    monkeypatch.setattr(progress, "QUIET", 4000)
    monkeypatch.setattr(schedule, "QUIET_TURNS", 2000)
    k = Kernel("*i32", "*i32")
    k.store(k.args[1], rounds_until(k, k.args[0], STRONG, place))
    with pytest.raises(LaunchError) as error:
        launch(k.module(), "k", 2, [np.zeros(8, np.int32), np.zeros(1, np.int32)], target)
    (found,) = error.value.diagnostics
    assert "kernel 'k'" in found.text and found.loc.file.endswith("k.py") and found.loc.line > 0


@pytest.mark.parametrize("form", ["for", "loop", "with a limit"])
@pytest.mark.parametrize("how", ["acquire", "weak"])
@pytest.mark.parametrize("target", WITNESSES)
def test_counted_loops_that_read_the_same_for_long_are_no_deadlock(
    target: str, how: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tileiras.run.reference import schedule

    monkeypatch.setattr(schedule, "TURNS", 50)
    k = Kernel("*i32", "*i32")
    how_read, count, one = STRONG if how == "acquire" else WEAK, k.const(3000, "i32"), k.const(1, "i32")
    if form == "for":
        region = k.region(I32, I32)
        with k.inside(region):
            seen = peek(k, k.args[0], how_read)
            k.op("continue", [[plus(k, plus(k, region.block.args[1], seen), one)]])
        bounds = [k.const(0, "i32"), count, one]
        total = k.op("for", [*bounds, [k.const(0, "i32")]], [I32], [region])
    else:

        def body(n):
            seen = peek(k, k.args[0], how_read)
            if form == "with a limit":
                break_if(k, "not_equal", seen, k.const(0, "i32"), n)
            n = plus(k, n, plus(k, seen, one))
            break_if(k, "greater_than_or_equal", n, count, n)
            return n

        total = loop_over(k, body)
    k.store(k.args[1], total)
    out = np.zeros(1, np.int32)
    launch(k.module(), "k", 2, [np.zeros(1, np.int32), out], target)
    assert out[0] == 3000


WEAK = {"memory_ordering_semantics": "weak"}


def message_passing(tokens: str, count: int = 256) -> Kernel:
    """Block 0 writes a tile and raises a flag; block 1 waits for the flag and copies the tile."""
    k = Kernel("*i32", "*i32", "*i32")
    strong = {"memory_scope": "device"}
    x = k.op("get_tile_block_id", (), [I32] * 3)[0]
    data = T.TileType(T.I32, (count,))
    writer = k.op(
        "cmpi", [x, k.const(0, "i32")], [tile("i1")], comparison_predicate="equal", signedness="signed"
    )
    then, other = k.region(), k.region()
    with k.inside(then):
        where = k.addresses(k.args[0], count, (count,))
        stored = k.op("store_ptr_tko", [where, k.const(7, "i32", count), None, None], [T.TOKEN], **WEAK)
        token = stored if "store" in tokens else None
        k.op(
            "store_ptr_tko", [k.args[1], k.const(1, "i32"), None, token], [T.TOKEN],
            memory_ordering_semantics="release", **strong,
        )  # fmt: skip
        k.op("yield", [[]])
    with k.inside(other):
        loop = k.region()
        with k.inside(loop):
            flag, acquired = k.op(
                "load_ptr_tko", [k.args[1], None, None, None], [I32, T.TOKEN],
                memory_ordering_semantics="acquire", **strong,
            )  # fmt: skip
            ready = k.op(
                "cmpi",
                [flag, k.const(1, "i32")],
                [tile("i1")],
                comparison_predicate="equal",
                signedness="signed",
            )
            leave, stay = k.region(), k.region()
            with k.inside(leave):
                where = k.addresses(k.args[0], count, (count,))
                token = acquired if "load" in tokens else None
                value = k.op("load_ptr_tko", [where, None, None, token], [data, T.TOKEN], **WEAK)[0]
                k.op(
                    "store_ptr_tko",
                    [k.addresses(k.args[2], count, (count,)), value, None, None],
                    [T.TOKEN],
                    **WEAK,
                )
                k.op("break", [[]])
            with k.inside(stay):
                k.op("yield", [[]])
            k.op("if", [ready], [], [leave, stay])
            k.op("continue", [[]])
        k.op("loop", [[]], [], [loop])
        k.op("yield", [[]])
    k.op("if", [writer], [], [then, other])
    return k


@pytest.mark.parametrize("target", WITNESSES)
@pytest.mark.parametrize("tokens", ["store and load", "load"])
def test_a_release_needs_the_token_of_what_it_releases(target: str, tokens: str) -> None:
    module = message_passing(tokens).module()
    for seed in range(6):
        arrays = [np.zeros(256, np.int32), np.zeros(1, np.int32), np.zeros(256, np.int32)]
        if "store" in tokens:
            launch(module, "k", 2, arrays, target, check=True, seed=seed)
            assert (arrays[2] == 7).all()
            continue
        with pytest.raises(LaunchError) as error:
            launch(module, "k", 2, arrays, target, check=True, seed=seed)
        assert any(d.code == "RUN-0014" or "global-memory race" in d.text for d in error.value.diagnostics)


def test_an_acquire_orders_only_what_comes_behind_its_token() -> None:
    with pytest.raises(LaunchError) as error:
        arrays = [np.zeros(256, np.int32), np.zeros(1, np.int32), np.zeros(256, np.int32)]
        message_passing("store").run(*arrays, grid=2, check=True)
    assert {d.code for d in error.value.diagnostics} == {"RUN-0014"}


@pytest.mark.parametrize("same", [False, True])
def test_one_store_with_two_elements_for_one_address_is_a_race(same: bool) -> None:
    k = Kernel("*i32", "*i32")
    base = k.op("broadcast", [k.op("reshape", [k.args[0]], [T.TileType(k.args[0].type.elem, (1,))])],
                [T.TileType(k.args[0].type.elem, (4,))])  # fmt: skip
    where = k.op("offset", [base, k.load(k.args[1], 4)], [base.type])
    values = k.const(5, "i32", 4) if same else k.op("iota", (), [tile("i32", 4)])
    k.op("store_ptr_tko", [where, values, None, None], [T.TOKEN], **WEAK)
    k.run(np.zeros(4, np.int32), np.array([3, 1, 2, 0], np.int32), check=True)
    with pytest.raises(LaunchError) as error:
        k.run(np.zeros(4, np.int32), np.array([3, 1, 2, 1], np.int32), check=True)
    (found,) = error.value.diagnostics
    assert found.code == "RUN-0016" and "[1] and [3]" in found.text


@pytest.mark.parametrize("index", [2, 1 << 25, -1, -(1 << 31)])
def test_a_tile_wholly_outside_of_a_view_loads_as_padding_and_stores_nothing(index: int) -> None:
    """As NVIDIA's code does, which compares every index with the index space."""
    k = Kernel("*f32", "*f32", "i32", "i32")
    vt = T.TensorView(T.F32, (None,), (1,), None)
    views = [k.op("make_tensor_view", [base, [k.args[2]], []], [vt]) for base in k.args[:2]]
    source, target = (
        k.op("make_partition_view", [v], [T.PartitionView((8,), vt, (0,), "neg_zero")]) for v in views
    )
    kind = [tile("f32", 8), T.TOKEN]
    value, _ = k.op("load_view_tko", [source, [k.args[3]], None], kind, **WEAK)
    k.op("store_view_tko", [value, target, [k.const(0, "i32")], None], [T.TOKEN], **WEAK)
    for where in WITNESSES:
        out = np.full(10, 9, np.float32)
        launch(k.module(), "k", 1, [np.ones(10, np.float32), out, 10, index], where, check=True)
        assert np.signbit(out[:8]).all() and (out[:8] == 0).all() and (out[8:] == 9).all()
    k.block.ops.pop()
    k.op("store_view_tko", [value, target, [k.args[3]], None], [T.TOKEN], **WEAK)
    for where in WITNESSES:
        out = np.full(10, 9, np.float32)
        launch(k.module(), "k", 1, [np.ones(10, np.float32), out, 10, index], where)
        assert (out[8:] == 9).all()
    with pytest.raises(LaunchError) as error:
        launch(k.module(), "k", 1, [np.ones(10, np.float32), out, 10, index], "reference", check=True)
    assert {d.code for d in error.value.diagnostics} >= {"RUN-0007"}
