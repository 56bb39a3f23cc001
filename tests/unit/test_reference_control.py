"""Control flow, tile blocks that wait for each other, print, assert, assume, and what check=True reports."""

from __future__ import annotations

import io

import numpy as np
import pytest
from unit.reference_kit import Kernel, pointer, tile

from tileiras.compiler.ir import types as T
from tileiras.compiler.ir.core import Region
from tileiras.run import LaunchError
from tileiras.run.reference.effects import format_element

I32, I1 = tile("i32"), tile("i1")
DEVICE = {"memory_ordering_semantics": "relaxed", "memory_scope": "device"}


def compare(k: Kernel, predicate: str, a, b):
    return k.op("cmpi", [a, b], [I1], comparison_predicate=predicate, signedness="signed")


def add(k: Kernel, a, b):
    return k.op("addi", [a, b], [I32])


def when(k: Kernel, condition, body, otherwise=None) -> None:
    """An `if` without results."""
    then, other = k.region(), Region() if otherwise is None else k.region()
    with k.inside(then):
        body()
    if otherwise is not None:
        with k.inside(other):
            otherwise()
    k.op("if", [condition], [], [then, other])


def codes(error: pytest.ExceptionInfo) -> list[str]:
    return [d.code for d in error.value.diagnostics]


@pytest.mark.parametrize("bounds", [(0, 10, 3), (5, 5, 1), (7, 2, 1), (-4, 4, 2)])
def test_for_carries_values_and_runs_as_often_as_range(bounds: tuple[int, int, int]) -> None:
    k = Kernel("i32", "i32", "i32", "*i32")
    body = k.region(I32, I32, I32)
    with k.inside(body) as (i, total, before):
        k.op("continue", [[add(k, total, i), total]])
    zero = k.const(0, "i32")
    total, before = k.op("for", [*k.args[:3], [zero, zero]], [I32, I32], [body])
    k.store(k.args[3], total)
    k.store(k.op("offset", [k.args[3], k.const(1, "i32")], [tile(pointer("i32"))]), before)
    out = np.full(2, -1, np.int32)
    k.run(*bounds, out)
    steps = list(range(*bounds))
    assert out.tolist() == [sum(steps), sum(steps[:-1])]


def test_for_may_compare_unsigned() -> None:
    k = Kernel("*i32")
    body = k.region(I32, I32)
    with k.inside(body) as (_, n):
        k.op("continue", [[add(k, n, k.const(1, "i32"))]])
    high = k.const(-2, "i32")  # 4294967294 unsigned
    n = k.op(
        "for",
        [k.const(-5, "i32"), high, k.const(1, "i32"), [k.const(0, "i32")]],
        [I32],
        [body],
        unsignedCmp=True,
    )
    k.store(k.args[0], n)
    out = np.zeros(1, np.int32)
    k.run(out)
    assert out[0] == 3


def test_a_step_that_is_not_positive_is_an_error_and_not_a_hang() -> None:
    k = Kernel("i32")
    body = k.region(I32)
    with k.inside(body):
        k.op("continue", [[]])
    k.op("for", [k.const(0, "i32"), k.const(4, "i32"), k.args[0], []], [], [body])
    with pytest.raises(LaunchError):
        k.run(0)


def test_loop_breaks_with_values_of_other_types_through_nested_ifs() -> None:
    k = Kernel("i32", "*f32")
    body = k.region(I32)
    with k.inside(body) as (i,):

        def leave() -> None:
            def deeper() -> None:
                k.op(
                    "break",
                    [[k.op("itof", [i], [tile("f32")], signedness="signed", rounding_mode="nearest_even")]],
                )

            when(k, compare(k, "greater_than", i, k.const(2, "i32")), deeper)
            k.op("continue", [[add(k, i, k.const(2, "i32"))]])

        when(k, compare(k, "greater_than_or_equal", i, k.args[0]), leave)
        k.op("continue", [[add(k, i, k.const(1, "i32"))]])
    k.store(k.args[1], k.op("loop", [[k.const(0, "i32")]], [tile("f32")], [body]))
    for limit in range(6):
        i = 0
        while not (i >= limit and i > 2):
            i += 2 if i >= limit else 1
        out = np.zeros(1, np.float32)
        k.run(limit, out)
        assert out[0] == i, limit


def test_return_leaves_the_block_from_inside_a_loop() -> None:
    k = Kernel("*i32")
    body = k.region(I32)
    with k.inside(body) as (i,):
        when(k, compare(k, "equal", i, k.const(3, "i32")), lambda: k.op("return", [[]]))
        k.store(k.op("offset", [k.args[0], i], [tile(pointer("i32"))]), k.const(1, "i32"))
        k.op("continue", [[add(k, i, k.const(1, "i32"))]])
    k.op("loop", [[k.const(0, "i32")]], [], [body])
    k.store(k.args[0], k.const(9, "i32"))
    out = np.zeros(8, np.int32)
    k.run(out)
    assert out.tolist() == [1, 1, 1, 0, 0, 0, 0, 0]


def test_continue_in_an_inner_loop_leaves_the_outer_one_alone() -> None:
    k = Kernel("*i32")
    outer = k.region(I32, I32)
    with k.inside(outer) as (i, total):
        inner = k.region(I32, I32)
        with k.inside(inner) as (j, part):
            when(k, compare(k, "equal", j, i), lambda: k.op("continue", [[part]]))
            k.op("continue", [[add(k, part, k.const(1, "i32"))]])
        zero, one, four = (k.const(v, "i32") for v in (0, 1, 4))
        k.op("continue", [[k.op("for", [zero, four, one, [total]], [I32], [inner])]])
    zero, one, three = (k.const(v, "i32") for v in (0, 1, 3))
    k.store(k.args[0], k.op("for", [zero, three, one, [zero]], [I32], [outer]))
    out = np.zeros(1, np.int32)
    k.run(out)
    assert out[0] == 9


def test_if_yields_either_side() -> None:
    k = Kernel("i1", "*i32")
    then, other = k.region(), k.region()
    for region, value in ((then, 1), (other, 2)):
        with k.inside(region):
            k.op("yield", [[k.const(value, "i32")]])
    k.store(k.args[1], k.op("if", [k.args[0]], [I32], [then, other]))
    for condition, want in ((True, 1), (False, 2)):
        out = np.zeros(1, np.int32)
        k.run(condition, out)
        assert out[0] == want


def test_block_ids_cover_the_grid_in_any_order() -> None:
    k = Kernel("*i32")
    x, y, z = k.op("get_tile_block_id", (), [I32] * 3)
    nx, ny, nz = k.op("get_num_tile_blocks", (), [I32] * 3)
    mul = lambda a, b: k.op("muli", [a, b], [I32])  # noqa: E731
    place = add(k, x, mul(nx, add(k, y, mul(ny, z))))
    k.store(k.op("offset", [k.args[0], place], [tile(pointer("i32"))]), add(k, place, nz))
    for seed in (None, 1):
        out = np.zeros(24, np.int32)
        k.run(out, grid=(2, 3, 4), seed=seed)
        assert out.tolist() == [i + 4 for i in range(24)]


# ---- blocks that wait


def spin_until(k: Kernel, place, value) -> None:
    """Loop: read with an atomic until the value is there."""
    body = k.region()
    with k.inside(body):
        seen = k.op(
            "atomic_rmw_tko", [place, k.const(0, "i32"), None, None], [I32, T.TOKEN], mode="add", **DEVICE
        )[0]
        when(k, compare(k, "equal", seen, value), lambda: k.op("break", [[]]))
        k.op("continue", [[]])
    k.op("loop", [[]], [], [body])


def test_a_grid_barrier_lets_every_block_arrive() -> None:
    k = Kernel("*i32", "*i32")
    count, _, _ = k.op("get_num_tile_blocks", (), [I32] * 3)
    x, _, _ = k.op("get_tile_block_id", (), [I32] * 3)
    one = k.const(1, "i32")
    k.op("atomic_rmw_tko", [k.args[0], one, None, None], [I32, T.TOKEN], mode="add", **DEVICE)
    spin_until(k, k.args[0], count)
    k.store(k.op("offset", [k.args[1], x], [tile(pointer("i32"))]), one)
    counter, out = np.zeros(1, np.int32), np.zeros(40, np.int32)
    k.run(counter, out, grid=40)
    assert counter[0] == 40 and out.all()


def test_a_chain_of_flags_in_reverse_order() -> None:
    k = Kernel("*i32")
    x, _, _ = k.op("get_tile_block_id", (), [I32] * 3)
    spin_until(k, k.args[0], k.op("subi", [k.const(19, "i32"), x], [I32]))  # the last block goes first
    k.op("atomic_rmw_tko", [k.args[0], k.const(1, "i32"), None, None], [I32, T.TOKEN], mode="add", **DEVICE)
    flag = np.zeros(1, np.int32)
    k.run(flag, grid=20)
    assert flag[0] == 20


def test_an_error_in_one_block_ends_those_that_wait() -> None:
    k = Kernel("*i32", "*i32")
    x, _, _ = k.op("get_tile_block_id", (), [I32] * 3)

    def fault() -> None:
        k.store(k.op("offset", [k.args[1], k.const(1000, "i32")], [tile(pointer("i32"))]), x)

    when(k, compare(k, "equal", x, k.const(3, "i32")), fault)
    spin_until(k, k.args[0], k.const(1, "i32"))
    with pytest.raises(LaunchError) as error:
        k.run(np.zeros(1, np.int32), np.zeros(1, np.int32), grid=6)
    assert codes(error) == ["RUN-0001"]


def test_a_deadlock_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    from tileiras.run.reference import schedule

    monkeypatch.setattr(schedule, "TURNS", 100)
    k = Kernel("*i32")
    spin_until(k, k.args[0], k.const(1, "i32"))
    with pytest.raises(LaunchError) as error:
        k.run(np.zeros(1, np.int32), grid=3)
    assert codes(error) == ["RUN-0008"]


@pytest.mark.parametrize("grid", [1, 3])
def test_waiting_with_a_weak_load_for_what_never_comes_is_a_deadlock_too(
    grid: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tileiras.run.reference import schedule

    monkeypatch.setattr(schedule, "TURNS", 100)
    k = Kernel("*i32")
    body = k.region()
    with k.inside(body):
        when(k, compare(k, "equal", k.load(k.args[0]), k.const(1, "i32")), lambda: k.op("break", [[]]))
        k.op("continue", [[]])
    k.op("loop", [[]], [], [body])
    with pytest.raises(LaunchError) as error:
        k.run(np.zeros(1, np.int32), grid=grid)
    assert codes(error) == ["RUN-0008"]
    k.run(np.ones(1, np.int32), grid=grid)


def test_without_more_threads_waiting_is_reported_and_not_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    from tileiras.run.reference import schedule

    spawned = []
    spawn = schedule.Scheduler.spawn

    def spawn_three(self: schedule.Scheduler) -> None:
        if len(spawned) == 3:
            raise RuntimeError("can't start new thread")
        spawned.append(1)
        spawn(self)

    monkeypatch.setattr(schedule.Scheduler, "spawn", spawn_three)
    monkeypatch.setattr(schedule, "TURNS", 100)
    k = Kernel("*i32", "i32")
    atomic = [k.args[0], k.const(1, "i32"), None, None]
    k.op("atomic_rmw_tko", atomic, [I32, T.TOKEN], mode="add", **DEVICE)
    spin_until(k, k.args[0], k.args[1])
    with pytest.raises(LaunchError) as error:
        k.run(np.zeros(1, np.int32), 8, grid=8)  # five tile blocks never start
    assert codes(error) == ["RUN-0008"]


def test_an_interrupt_ends_a_launch_that_waits() -> None:
    import signal
    import threading

    k = Kernel("*i32")
    spin_until(k, k.args[0], k.const(1, "i32"))

    def ring(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(TimeoutError):
            k.run(np.zeros(1, np.int32), grid=8)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and thread.name == "tile block":
            thread.join(10)
            assert not thread.is_alive()


# ---- print


def printed(text: str, *args: tuple[str, object]) -> str:
    k = Kernel(*(f"*{elem}" for elem, _ in args))
    values = [k.load(p, *np.shape(v)) for p, (_, v) in zip(k.args, args)]
    k.op("print_tko", [values, None], [T.TOKEN], str=text)
    out = io.StringIO()
    from unit.reference_kit import DTYPES

    k.run(*(np.atleast_1d(np.asarray(v)).astype(DTYPES[e]) for e, v in args), out=out)
    return out.getvalue()


def test_print_follows_printf() -> None:
    assert printed("%d|%5d|%-5d|%05d|%+d\n", *[("i32", -42)] * 5) == "-42|  -42|-42  |-0042|-42\n"
    assert printed("%u %x %#x %X %o", *[("i16", -1)] * 5) == "65535 ffff 0xffff FFFF 177777"
    assert (
        printed("%f %.2f %8.3f %e %g %G", *[("f32", 1.5)] * 6)
        == "1.500000 1.50    1.500 1.500000e+00 1.5 1.5"
    )
    assert printed("%lld %hhd %i", ("i64", -(2**40)), ("i8", 7), ("i1", 1)) == f"{-(2**40)} 7 1"
    assert printed("100%% %s %c", ("i32", 5), ("i8", 65)) == "100% 5 A"
    assert printed("%f %F", ("f64", np.inf), ("f64", -np.inf)) == "inf -INF"


def test_print_writes_integers_as_c_does() -> None:
    assert printed("%#x|%#5X|%#o", *[("i32", 0)] * 3) == "0|    0|0"
    assert printed("%#6o|%-#6o|%06o|%#.5o", *[("i32", 8)] * 4) == "   010|010   |000010|00010"
    assert printed("%08.3d|%-8.3d|%.0d|% 5d|%+05d", *[("i32", 5)] * 5) == "     005|005     |5|    5|+0005"
    assert printed("%#08x|%#8X|%.0d", *[("i32", 171)] * 2, ("i32", 0)) == "0x0000ab|    0XAB|"


def test_print_ends_at_the_nul_of_a_literal() -> None:
    """C++ frontends write it into the attribute."""
    assert printed("%d\n\0", ("i32", 7)) == "7\n"
    assert printed("%d\0%d", ("i32", 7), ("i32", 8)) == "7"


def test_print_shows_tiles_as_nested_lists() -> None:
    assert printed("%d;", ("i32", [[1, 2], [3, 4]])) == "[[1, 2], [3, 4]];"
    assert printed("%.1f", ("bf16", [0.5, 1.5])) == "[0.5, 1.5]"


@pytest.mark.parametrize(
    "conversion,value,want",
    [
        ("%a", 1.0, "0x1p+0"),
        ("%A", 0.15625, "0X1.4P-3"),
        ("%6a", 2.0, "0x1p+1"),
        ("%#o", 8, "010"),
        ("%nan", 0, None),
    ],
)
def test_less_common_conversions(conversion: str, value: float, want: str | None) -> None:
    if want is not None:
        assert format_element(conversion, value) == want


# ---- assert, assume and undefined behaviour


def test_failed_assertions_are_reported_after_the_launch() -> None:
    k = Kernel("*i1", "*i32")
    k.op("assert", [k.load(k.args[0], 4)], message="must hold")
    k.store(k.args[1], k.const(1, "i32"))
    out = np.zeros(1, np.int32)
    k.run(np.ones(4, bool), out)
    with pytest.raises(LaunchError) as error:
        k.run(np.array([1, 0, 1, 0], bool), out)
    assert (
        codes(error) == ["RUN-0005"] * 2
        and "must hold" in str(error.value)
        and "element [3]" in str(error.value)
    )
    assert out[0] == 1


ASSUMPTIONS = [
    (T.DivBy(4, None, None), [0, 4, -8, 12], True),
    (T.DivBy(4, None, None), [0, 4, 6, 12], False),
    (T.DivBy(8, 2, 0), [8, 9, 0, 1], True),
    (T.DivBy(8, 2, 0), [8, 9, 0, 2], False),
    (T.DivBy(8, 2, 0), [4, 5, 0, 1], False),
    (T.Bounded(-3, 3), [-3, 0, 3, 1], True),
    (T.Bounded(0, None), [0, 1, -1, 5], False),
    (T.Bounded(None, 4), [0, 1, -1, 5], False),
    (T.SameElements((2,)), [7, 7, 3, 3], True),
    (T.SameElements((2,)), [7, 3, 3, 3], False),
]


@pytest.mark.parametrize("predicate,values,holds", ASSUMPTIONS)
def test_assumptions_are_checked_on_request(predicate, values: list[int], holds: bool) -> None:
    k = Kernel("*i32", "*i32")
    k.store(k.args[1], k.op("assume", [k.load(k.args[0], 4)], [tile("i32", 4)], predicate=predicate))
    x, out = np.array(values, np.int32), np.zeros(4, np.int32)
    k.run(x, out)
    assert out.tolist() == values
    if holds:
        k.run(x, out, check=True)
    else:
        with pytest.raises(LaunchError) as error:
            k.run(x, out, check=True)
        assert set(codes(error)) == {"RUN-0006"} and error.value.diagnostics[0].op == "cuda_tile.assume"


def test_pointer_assumptions_count_bytes() -> None:
    raw = np.zeros(64, np.int32)
    base = raw[(-raw.ctypes.data // 4) % 16 :]
    k = Kernel("*i32")
    k.op("assume", [k.addresses(k.args[0], 4, (4,))], [tile(pointer("i32"), 4)], predicate=T.DivBy(16, 4, 0))
    k.run(base, check=True)
    with pytest.raises(LaunchError):
        k.run(base[1:], check=True)


@pytest.mark.parametrize("rows,columns,holds", [(4, 1, True), (4, 2, False), (1, 4, True)])
def test_strides_are_assumed_only_where_they_are_used(rows: int, columns: int, holds: bool) -> None:
    """Frontends promise divisible strides; the stride of a dimension of extent 1 is whatever NumPy left there."""
    k = Kernel("*i32", "i32", "i32", "i32", "i32")
    strides = []
    for arg in k.args[3:]:
        known = k.op("assume", [arg], [tile("i32")], predicate=T.Bounded(0, None))
        strides.append(k.op("assume", [known], [tile("i32")], predicate=T.DivBy(4)))
    vt = T.TensorView(T.I32, (None, None), (None, None), None)
    k.op("make_tensor_view", [k.args[0], k.args[1:3], strides], [vt])
    steps = (4, 1) if rows > 1 else (1, 4)  # the other one than the promise: used where its extent is above 1
    arguments = (np.zeros(64, np.int32), rows, columns, *steps)
    k.run(*arguments)
    if holds:
        k.run(*arguments, check=True)
        return
    with pytest.raises(LaunchError) as error:
        k.run(*arguments, check=True)
    assert codes(error) == ["RUN-0006"] and "e.g. 1" in str(error.value)


UNDEFINED = [
    ("divi", [5, 0], {"signedness": "signed", "rounding": "zero"}),
    ("divi", [-(2**31), -1], {"signedness": "signed", "rounding": "zero"}),
    ("remi", [5, 0], {"signedness": "unsigned"}),
    ("addi", [2**31 - 1, 1], {"overflow": "no_signed_wrap"}),
    ("subi", [0, 1], {"overflow": "no_unsigned_wrap"}),
    ("muli", [2**16, 2**16], {"overflow": "no_wrap"}),
    ("shli", [2**30, 1], {"overflow": "no_signed_wrap"}),
]
DEFINED = [
    ("divi", [-7, 2], {"signedness": "signed", "rounding": "zero"}),
    ("addi", [2**31 - 1, 1], {"overflow": "none"}),
    ("addi", [2**31 - 1, 1], {"overflow": "no_unsigned_wrap"}),
    ("muli", [-3, 5], {"overflow": "no_signed_wrap"}),
    ("shli", [1, 31], {"overflow": "none"}),
    ("shli", [1, 32], {"overflow": "none"}),
]


@pytest.mark.parametrize(
    "name,operands,attrs,bad", [(*row, True) for row in UNDEFINED] + [(*row, False) for row in DEFINED]
)
def test_undefined_integer_operands(name: str, operands: list[int], attrs: dict, bad: bool) -> None:
    k = Kernel("i32", "i32", "*i32")
    k.store(k.args[2], k.op(name, k.args[:2], [I32], **attrs))
    out = np.zeros(1, np.int32)
    k.run(*operands, out)
    if bad:
        with pytest.raises(LaunchError) as error:
            k.run(*operands, out, check=True)
        assert set(codes(error)) == {"RUN-0007"} and error.value.diagnostics[0].op == f"cuda_tile.{name}"
    else:
        k.run(*operands, out, check=True)


def test_findings_of_many_elements_are_counted() -> None:
    k = Kernel("*i32", "*i32")
    k.store(
        k.args[1],
        k.op("divi", [k.load(k.args[0], 64)] * 2, [tile("i32", 64)], signedness="signed", rounding="zero"),
    )
    with pytest.raises(LaunchError) as error:
        k.run(np.zeros(64, np.int32), np.zeros(64, np.int32), check=True)
    assert len(error.value.diagnostics) < 10 and "more of these" in str(error.value)
