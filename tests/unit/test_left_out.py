"""TileAALeaveOutSteps: loops whose loads and products stand behind a condition go from one iteration with work to the next, or
say why they cannot."""

from __future__ import annotations

import re
from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras
from tests.block_products import AT, BLOCKS, BT, CT, F32, VIEWS, factors
from tests.corpus.case import place
from tests.ptx_loops import loops_of
from tileiras.compiler.ir.core import Op
from tileiras.compiler.passes.loops import early_continue, leave_out_steps
from tileiras.compiler.schedule import left_out

TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")
I32 = "tile<i32>"
FLAG = """%place = offset %flags, %k : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
      %flag, %t0 = load_ptr_tko weak %place : tile<ptr<i32>> -> tile<i32>, token
      %wanted = cmpi not_equal %flag, %zero, signed : tile<i32> -> tile<i1>"""


def kernel(
    test: str = FLAG, other: str = "yield %acc, %n : {types}", work: str = "", count: str = "%one", step: str = "%one",
    ends: str = "%next#0, %next#1", token: str = "", unsigned: str = "", sides: str = "work other",
) -> str:  # fmt: skip
    types = f"{F32}, {I32}"
    yes = f"""%x, %t1 = load_view_tko weak %at[%zero, %k]{token} : {AT}, tile<i32> -> tile<64x32xf16>, token
        %y, %t2 = load_view_tko weak %bt[%k, %zero]{token} : {BT}, tile<i32> -> tile<32x64xf16>, token
        {work}
        %z = mmaf %x, %y, %acc : tile<64x32xf16>, tile<32x64xf16>, {F32}
        %m = addi %n, {count} : {I32}
        yield %z, %m : {types}"""
    first, second = [{"work": yes, "other": other.format(types=types)}[side] for side in sides.split()]
    return f"""cuda_tile.module @m {{
  entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %flags: tile<ptr<i32>>, %seen: tile<ptr<i32>>,
           %lo: tile<i32>, %hi: tile<i32>) {{
    {VIEWS}
    %two = constant <i32: 2> : tile<i32>
    %t = make_token : token
    %sum:2 = for {unsigned}%k in (%lo to %hi, step {step}) : tile<i32> iter_values(%acc = %none, %n = %zero) -> ({types}) {{
      {test}
      %next:2 = if %wanted -> ({types}) {{
        {first}
      }} else {{
        {second}
      }}
      continue {ends} : {types}
    }}
    %t3 = store_view_tko weak %sum#0, %ct[%zero, %zero] : {F32}, {CT}, tile<i32> -> token
    %t4 = store_ptr_tko weak %seen, %sum#1 : tile<ptr<i32>>, tile<i32> -> token
    return
  }}
}}
"""


def arguments(lower: int, upper: int, flags: Any) -> list[Any]:
    return [
        *map(place, factors(7)),
        place(np.zeros((64, 64), np.float32)),
        place(np.array(flags, np.int32)),
        place(np.zeros(1, np.int32)),
        lower,
        upper,
    ]


def launched(text: str, values: list[Any], target: str, **more: Any) -> tuple[Any, int]:
    tileiras.launch(text, "k", grid=(1, 1, 1), args=values, target=target, **more)
    return values[2], int(values[4][0])


def remarks(text: str, gpu_name: str) -> dict[str, str]:
    """Code and message of what is said of the loop."""
    program = tileiras.compile(text, gpu_name=gpu_name, remarks={"passed": "memory", "missed": "memory"})
    return {found.diag.code: found.message for found in program.diagnostics}


@pytest.mark.parametrize("gpu_name", TARGETS)
def test_copies_run_ahead_of_products_that_stand_behind_a_condition(gpu_name: str) -> None:
    said = remarks(kernel(), gpu_name)
    assert (
        "AS-0322" in said and "run ahead through shared memory" in said["AS-0307"] and "AS-0320" not in said
    )
    loops = loops_of(tileiras.compile(kernel(), gpu_name=gpu_name).ptx)
    (copies,) = [loop for loop in loops if "cp.async.cg.shared.global" in loop]
    assert "ld.global" in copies  # the search
    assert "cp.async.wait_group 0" not in copies and "cp.async.wait_all" not in copies


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize(
    ("lower", "upper", "flags"),
    [
        (0, 8, [0, 1, 1, 0, 0, 0, 1, 0]),
        (0, 8, [1] * 8),
        (0, 8, [0] * 8),
        (2, 7, [1, 1, 0, 0, 0, 0, 1, 1]),
        (5, 5, [1] * 8),
        (7, 3, [1] * 8),
        (-(2**31), -(2**31), [1] * 8),
        (2**31 - 1, -(2**31), [1] * 8),
    ],
)
def test_sums_and_counts_are_those_of_the_reference(
    lower: int, upper: int, flags: list[int], gpu_name: str
) -> None:
    text = kernel(count="%k")
    got, want = arguments(lower, upper, flags), arguments(lower, upper, flags)
    ours = launched(text, got, "emulator", gpu_name=gpu_name, check=True, seed=3)
    theirs = launched(text, want, "reference")
    assert np.array_equal(ours[0], theirs[0]) and ours[1] == theirs[1]
    taken = [k for k in range(max(lower, 0), min(upper, BLOCKS)) if flags[k]]
    assert ours[1] == sum(taken) and ours[0].any() == bool(taken)


LAST = """%far = addi %k, %k : tile<i32>
      %wanted = cmpi greater_than %k, %lo, signed : tile<i32> -> tile<i1>"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("lower", "upper", "step"),
    [
        (2**31 - 6, 2**31 - 1, "%two"),
        (2**31 - 3, 2**31 - 1, "%one"),
        (-(2**31), -(2**31) + 7, "%two"),
        (1, 6, "%two"),
    ],
)
def test_a_search_ends_at_the_last_number_there_is(lower: int, upper: int, step: str) -> None:
    """Blocks outside of their views are zeros; how many there were is counted."""
    text = kernel(LAST, step=step)
    (_, count), (_, expected) = (
        launched(text, arguments(lower, upper, [1] * 8), where) for where in ("emulator", "reference")
    )
    assert "AS-0322" in remarks(text, "sm_90")
    assert count == expected == len(range(lower, upper, 1 if step == "%one" else 2)) - 1


def test_unsigned_bounds() -> None:
    text = kernel(LAST.replace(", signed", ", unsigned"), unsigned="unsigned ")
    lower, upper = 2**31 - 2, -(2**31) + 3
    (_, count), (_, expected) = (
        launched(text, arguments(lower, upper, [1] * 8), where) for where in ("emulator", "reference")
    )
    assert "AS-0322" in remarks(text, "sm_90") and count == expected == 4


@pytest.mark.parametrize(("lower", "upper"), [(-128, 127), (-3, 5)])
def test_narrow_counters_go_over_all_their_numbers(lower: int, upper: int) -> None:
    """255 iterations, which an i8 holds only as an unsigned number."""
    wanted = """%wide = exti %k signed : tile<i8> -> tile<i32>
      %far = addi %wide, %wide : tile<i32>
      %wanted = cmpi greater_than %k, %lo, signed : tile<i8> -> tile<i1>"""
    text = kernel(wanted, step="%single").replace(
        "%lo: tile<i32>, %hi: tile<i32>", "%lo: tile<i8>, %hi: tile<i8>"
    )
    text = text.replace("step %single) : tile<i32>", "step %single) : tile<i8>")
    text = text.replace("%one = ", "%single = constant <i8: 1> : tile<i8>\n    %one = ", 1)
    text = text.replace("[%zero, %k]", "[%zero, %wide]").replace("[%k, %zero]", "[%wide, %zero]")
    assert "AS-0322" in remarks(text, "sm_90")
    (_, count), (_, expected) = (
        launched(text, arguments(lower, upper, [1] * 8), where) for where in ("emulator", "reference")
    )
    assert count == expected == upper - lower - 1


def test_work_on_the_other_side() -> None:
    flags = [0, 1, 1, 0, 0, 0, 1, 0]
    text = kernel(sides="other work")
    assert "AS-0322" in remarks(text, "sm_90")
    got, count = launched(text, arguments(0, 8, flags), "emulator")
    want, expected = launched(text, arguments(0, 8, flags), "reference")
    assert np.array_equal(got, want) and count == expected == 5


def test_what_an_iteration_reads_of_its_search_is_handed_down() -> None:
    """One search an iteration, also where sums need the iteration's number beside the copies of a later one."""
    for count in ("%one", "%k"):
        loops = loops_of(tileiras.compile(kernel(count=count), gpu_name="sm_90").ptx)
        (loop,) = [loop for loop in loops if "wgmma.mma_async" in loop]
        assert loop.count("ld.global") == 1


def in_front(text: str) -> str:
    """The same kernel with its loads in front of the branch."""
    lines = text.split("\n")
    loads = [line for line in lines if re.match(r"\s*%[xy], %t\d = load_view_tko", line)]
    others = [line for line in lines if line not in loads]
    branch = next(n for n, line in enumerate(others) if "%next:2 = if" in line)
    return "\n".join([*others[:branch], *loads, *others[branch:]])


@pytest.mark.parametrize("gpu_name", TARGETS)
def test_loads_in_front_of_the_branch_that_alone_uses_them_run_ahead(gpu_name: str) -> None:
    text, flags = in_front(kernel()), [0, 1, 1, 0, 0, 0, 1, 0]
    said = remarks(text, gpu_name)
    assert "AS-0322" in said and "run ahead through shared memory" in said["AS-0307"]
    got, count = launched(text, arguments(0, 8, flags), "emulator", gpu_name=gpu_name, check=True, seed=1)
    want, expected = launched(text, arguments(0, 8, flags), "reference")
    assert np.array_equal(got, want) and count == expected == 3


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%wanted = cmpi not_equal %flag, %zero, signed", "%wanted = cmpi less_than %n, %flag, signed"),
        ("%next:2 = if", "%t5 = store_ptr_tko weak %seen, %k : tile<ptr<i32>>, tile<i32> -> token\n      %next:2 = if"),
        ("yield %acc, %n", "%w = mmaf %x, %y, %acc : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>\n yield %w, %n"),
    ],
)  # fmt: skip
def test_loads_stay_where_the_branch_gains_nothing_by_them(
    old: str, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A condition that the sums decide, an access that writes in between, another side that uses them. They stay at their
    place: the code is that of a compiler that moves none."""
    text, flags = in_front(kernel()).replace(old, new), [0, 1, 4, 0, 0, 0, 9, 0]
    assert old in kernel() and "AS-0322" not in remarks(text, "sm_90")
    got, count = launched(text, arguments(0, 8, flags), "emulator", gpu_name="sm_90", check=True, seed=1)
    want, expected = launched(text, arguments(0, 8, flags), "reference")
    assert np.array_equal(got, want) and count == expected
    monkeypatch.setenv("TILEIRAS_CACHE", "0")
    ptx = tileiras.compile(text, gpu_name="sm_90", emit="ptx").ptx
    monkeypatch.setattr(leave_out_steps, "load_in_branch", lambda loop: None)
    assert ptx == tileiras.compile(text, gpu_name="sm_90", emit="ptx").ptx


COUNTED = "%wanted = cmpi less_than %n, %two, signed : tile<i32> -> tile<i1>"
TILE = """%m0, %t0 = load_view_tko weak %at[%zero, %k] : {at}, tile<i32> -> tile<64x32xf16>, token
      %low = constant <f16: 1.0> : tile<64x32xf16>
      %over = cmpf greater_than ordered %m0, %low : tile<64x32xf16> -> tile<64x32xi1>
      %first = extract %over[%zero, %zero] : tile<64x32xi1> -> tile<1x1xi1>
      %wanted = reshape %first : tile<1x1xi1> -> tile<i1>""".replace("{at}", AT)
WRITTEN = FLAG + "\n      %t5 = store_ptr_tko weak %seen, %k : tile<ptr<i32>>, tile<i32> -> token"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (kernel(COUNTED), "its condition depends on what the loop adds up behind it"),
        (kernel(TILE), "its condition looks at a tile"),
        (kernel(WRITTEN), "nv_tileaa.store_ptr_tko is in every iteration"),
        (kernel(other="yield %acc, %k : {types}"), "the branch hands on other values where it is not taken"),
        (kernel(FLAG.replace("weak", "relaxed device")), "loaded in an order with accesses of the loop"),
        (kernel(ends="%next#0, %more", test=FLAG + "\n      %more = addi %n, %k : tile<i32>"), ""),
        (kernel(FLAG + "\n      %twice = addf %acc, %acc : tile<64x64xf32>", ends="%twice, %next#1"),
         "a tile or a token changes in every iteration"),
    ],
)  # fmt: skip
def test_what_cannot_be_known_ahead_stays_as_it_is_and_says_why(text: str, reason: str) -> None:
    said = remarks(text, "sm_90")
    assert ("AS-0322" in said) == (not reason) and reason in said.get("AS-0320", "")
    flags = [0, 1, 1, 0, 0, 0, 1, 0]
    got, count = launched(text, arguments(0, 8, flags), "emulator", check=True)
    want, expected = launched(text, arguments(0, 8, flags), "reference")
    assert np.array_equal(got, want) and count == expected


EARLY = f"continue %acc, %n : {F32}, {I32}"
THEN = f"%not = xori %wanted, %yes : tile<i1>\n if %not {{ {EARLY} }}\n"
ELSE = f"%got = if %wanted -> ({I32}) {{ yield %k : {I32} }} else {{ {EARLY} }}\n"
ODD = f"%bit = andi %k, %one : {I32}\n %odd = cmpi equal %bit, %one, signed : {I32} -> tile<i1>\n"


def skipping(branch: str) -> str:
    """The kernel with its work behind a branch that ends iterations."""
    once = kernel()
    start, other, end = once.index("%next:2 = if"), once.index("      } else {"), once.index("      continue")
    work, last = once[start:other].split("\n", 1)[1].rstrip().rsplit("\n", 1)
    ends = last.strip().replace("yield", "continue")
    text = once[:start] + branch + work + "\n" + ends + once[once.index("\n", end) :]
    text = text.replace("%t = make_token", "%yes = constant <i1: true> : tile<i1>\n    %t = make_token")
    return text.replace("[%zero, %k]", "[%zero, %got]") if "%got = if" in branch else text


@pytest.mark.parametrize("branch", [THEN, ELSE])
def test_an_iteration_that_ends_early_is_one_without_work(branch: str) -> None:
    """`if not wanted: continue`, in front of the work."""
    text = skipping(branch)
    assert "AS-0322" in remarks(text, "sm_90"), remarks(text, "sm_90")
    for gpu_name in TARGETS:
        flags = [0, 1, 1, 0, 0, 0, 1, 0]
        got, count = launched(text, arguments(0, 8, flags), "emulator", gpu_name=gpu_name, check=True)
        want, expected = launched(text, arguments(0, 8, flags), "reference")
        assert np.array_equal(got, want) and count == expected == 3


EITHER = f"""%either = if %odd -> (tile<i1>) {{
        yield %yes : tile<i1>
      }} else {{
        %small = cmpi less_than %k, %two, signed : {I32} -> tile<i1>
        yield %small : tile<i1>
      }}
"""
BIG = f"%big = cmpi less_than %two, %k, signed : {I32} -> tile<i1>\n"

LOAD = f"%other, %to = load_ptr_tko weak %place : tile<ptr<i32>> -> {I32}, token\n"
# reads far behind the flags where the iteration has ended
FAR = f"""%huge = constant <i32: 1000000> : {I32}
      %where = select %wanted, %k, %huge : tile<i1>, {I32}
      %there = offset %flags, %where : tile<ptr<i32>>, {I32} -> tile<ptr<i32>>
      {LOAD.replace("%place", "%there")}"""
# and far where only a second branch lets it
FURTHER = f"""%least = mini %other, %one signed : {I32}
      %gap = muli %least, %huge : {I32}
      %away = muli %gap, %bit : {I32}
      %beyond = offset %there, %away : tile<ptr<i32>>, {I32} -> tile<ptr<i32>>
      %last, %tl = load_ptr_tko weak %beyond : tile<ptr<i32>> -> {I32}, token
      %most = cmpi equal %last, %two, signed : {I32} -> tile<i1>
      """
IS = f"%is = cmpi not_equal %{{0}}, %{{1}}, signed : {I32} -> tile<i1>\n"

SEVERAL = {
    "then_then": THEN + ODD + f"if %odd {{ {EARLY} }}\n",
    "then_else": THEN + ODD + f"if %odd {{ }} else {{ {EARLY} }}\n",
    "else_then": ELSE + ODD.replace("%k", "%got") + f"if %odd {{ {EARLY} }}\n",
    "else_else": ELSE + ODD + f"%last = if %odd -> ({I32}) {{ yield %got : {I32} }} else {{ {EARLY} }}\n",
    "then_either": THEN + ODD + EITHER + f"if %either {{ {EARLY} }}\n",
    "either_then": ODD + EITHER + f"if %either {{ {EARLY} }}\n" + THEN,
    "load_between": THEN + FAR + IS.format("other", "one") + f"if %is {{ {EARLY} }}\n",
    "load_between_other_sides": ELSE + FAR + IS.format("other", "two") + f"if %is {{ }} else {{ {EARLY} }}\n",
    "load_between_opposite_sides": THEN + FAR + IS.format("other", "two") + f"if %is {{ }} else {{ {EARLY} }}\n",
    "loads_between_three": THEN + FAR + ODD + f"if %odd {{ {EARLY} }}\n" + FURTHER + f"if %most {{ {EARLY} }}\n",
    "three": THEN + ODD + f"if %odd {{ {EARLY} }}\n" + BIG + f"if %big {{ {EARLY} }}\n",
}  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize("name", SEVERAL)
def test_an_iteration_may_end_for_several_reasons(name: str, gpu_name: str) -> None:
    text = skipping(SEVERAL[name])
    said = remarks(text, gpu_name)
    assert "AS-0322" in said and "run ahead through shared memory" in said["AS-0307"]
    for flags in ([0, 1, 1, 0, 1, 0, 1, 1], [0] * 8, [1] * 8):
        got, count = launched(text, arguments(0, 8, flags), "emulator", gpu_name=gpu_name, check=True)
        want, expected = launched(text, arguments(0, 8, flags), "reference")
        assert np.array_equal(got, want) and count == expected, flags


@pytest.mark.parametrize(
    ("branches", "reason"),
    [
        (THEN.replace("%acc, %n", "%acc, %k") + ODD, "branches that end an iteration go on with other values"),
        (THEN + 'assert %yes, "told" : tile<i1>\n' + ODD,
         "more than arithmetic and loads of numbers stands between branches that end an iteration"),
    ],
)  # fmt: skip
def test_reasons_that_do_not_become_one_are_told(branches: str, reason: str) -> None:
    text = skipping(branches + f"if %odd {{ {EARLY} }}\n")
    said = remarks(text, "sm_90")
    assert said["AS-0320"].endswith(reason) and "AS-0322" not in said
    flags = [0, 1, 1, 0, 1, 0, 1, 1]
    got, count = launched(text, arguments(0, 8, flags), "emulator", check=True)
    want, expected = launched(text, arguments(0, 8, flags), "reference")
    assert np.array_equal(got, want) and count == expected


def asked(first: str, then: str, other: str) -> str:
    """The kernel with a condition that a branch makes."""
    test = f"""{FLAG.replace("%wanted", "%flagged")}
      {ODD}
      %wanted = if {first} -> (tile<i1>) {{
        {then} : tile<i1>
      }} else {{
        {other} : tile<i1>
      }}"""
    constants = "%yes = constant <i1: true> : tile<i1>\n    %no = constant <i1: false> : tile<i1>\n    %t = make_token"
    return kernel(test).replace("%t = make_token", constants)


SMALL = f"%small = cmpi less_than %k, %two, signed : {I32} -> tile<i1>\n"


@pytest.mark.parametrize(
    ("first", "then", "other"),
    [
        ("%flagged", "yield %odd", "yield %no"),
        ("%flagged", "yield %yes", "yield %odd"),
        ("%flagged", "yield %no", SMALL + "yield %small"),
        ("%flagged", SMALL + "yield %small", "yield %yes"),
        (
            "%flagged",
            f"%deep = if %odd -> (tile<i1>) {{ yield %no : tile<i1> }} else {{ {SMALL} yield %small : tile<i1> }} yield %deep",
            "yield %no",
        ),
    ],
)
def test_a_condition_may_be_of_several(first: str, then: str, other: str) -> None:
    """`&&` and `||`, of which the second part is asked for where the first does not say it."""
    text = asked(first, then, other)
    assert "AS-0322" in remarks(text, "sm_90")
    for flags in ([0, 1, 1, 0, 1, 0, 1, 1], [0] * 8, [1] * 8):
        got, count = launched(text, arguments(0, 8, flags), "emulator", check=True)
        want, expected = launched(text, arguments(0, 8, flags), "reference")
        assert np.array_equal(got, want) and count == expected, flags


@pytest.mark.parametrize("gpu_name", TARGETS)
def test_a_condition_may_load_where_another_holds(gpu_name: str) -> None:
    """`wanted && flags[..] == 1`, which reads far behind the flags where it is not wanted."""
    load = FAR.replace("%wanted", "%flagged")
    equal = f"%set = cmpi equal %other, %one, signed : {I32} -> tile<i1>\nyield %set"
    text = asked("%flagged", load + equal, "yield %no")
    assert "AS-0322" in remarks(text, gpu_name)
    for flags in ([0, 1, 2, 0, 1, 0, 1, 1], [0] * 8, [1] * 8):
        got, count = launched(text, arguments(0, 8, flags), "emulator", gpu_name=gpu_name, check=True)
        want, expected = launched(text, arguments(0, 8, flags), "reference")
        assert np.array_equal(got, want) and count == expected == flags.count(1), flags


def test_a_condition_that_loads_in_order_stays() -> None:
    load = LOAD.replace("weak", "relaxed device")
    equal = f"%set = cmpi equal %other, %one, signed : {I32} -> tile<i1>\nyield %set"
    text = asked("%odd", load + equal, "yield %no")
    assert "its condition needs nv_tileaa.if" in remarks(text, "sm_90")["AS-0320"]


def test_what_stands_behind_early_ends_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred ways out of an iteration: each looked through all that came behind it."""
    looked: list[int] = []

    def has_work(ops: list[Op]) -> bool:
        looked.append(len(ops))
        return left_out.has_work(ops)

    monkeypatch.setattr(early_continue, "has_work", has_work)
    out = f"if %wanted {{ continue %acc, %n : {F32}, {I32} }}\n"
    tileiras.compile(kernel(FLAG + "\n" + 100 * out).encode(), gpu_name="sm_90", emit="ptx")
    assert sum(looked) < 200


def test_work_behind_a_condition_in_two_branches_stays() -> None:
    once = kernel()
    start, end = once.index("%next:2 = if"), once.index("      continue")
    again = once[start:end].replace("%next", "%last").replace("%acc", "%next#0").replace("%n,", "%next#1,")
    text = once[:end] + again + once[end:].replace("%next#", "%last#", 2)
    assert "several branches of it have products" in remarks(text, "sm_90")["AS-0320"]


def ordered(work: str, other: str, behind: str = " token = %sum#3", token: str = "") -> str:
    """The kernel with the tokens that Tile C++ gives every access; the last flag is written behind the loop."""
    text = kernel(work="%tn = join_tokens %tm, %t1, %t2 : token", ends="@", token=token)
    types = f"{F32}, {I32}"
    for old, new in (
        ("%sum:2", "%sum:5"),
        ("%n = %zero)", "%n = %zero, %ta = %t, %tb = %t, %tc = %t)"),
        (f"-> ({types})", f"-> ({types}, token, token, token)"),
        ("%next:2", "%tm = join_tokens %tb, %t0 : token\n      %next:5"),
        (f"yield %z, %m : {types}", f"yield %z, %m, {work} : {types}, token, token, token"),
        (f"yield %acc, %n : {types}", f"yield %acc, %n, {other} : {types}, token, token, token"),
        ("@ : " + types, ", ".join(f"%next#{k}" for k in range(5)) + f" : {types}, token, token, token"),
        (
            "%t3 =",
            "%seven = constant <i32: 7> : tile<i32>\n"
            "    %last = offset %flags, %seven : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>\n"
            f"    %t6 = store_ptr_tko weak %last, %seven{behind} : tile<ptr<i32>>, tile<i32> -> token\n    %t3 =",
        ),
    ):
        text = text.replace(old, new)
    return text


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize(
    ("work", "other"),
    [("%ta, %tn, %t2", "%ta, %tm, %t0"), ("%ta, %tn, %tc", "%ta, %tc, %tm"), ("%ta, %t1, %t2", "%tb, %tm, %tc")],
)  # fmt: skip
def test_tokens_that_only_leave_the_loop_hold_nothing_back(work: str, other: str, gpu_name: str) -> None:
    """What is written behind the loop waits for every search of every thread."""
    text = ordered(work, other)
    said = remarks(text, gpu_name)
    assert "AS-0322" in said and "run ahead through shared memory" in said["AS-0307"]
    for flags in ([0, 1, 1, 0, 0, 0, 1, 0], [0] * 8, [1] * 8):
        for seed in (0, 1):
            got, want = arguments(0, 8, flags), arguments(0, 8, flags)
            ours = launched(text, got, "emulator", gpu_name=gpu_name, check=True, seed=seed)
            theirs = launched(text, want, "reference")
            assert np.array_equal(ours[0], theirs[0]) and ours[1] == theirs[1] and got[3][7] == 7


def test_tokens_that_the_loop_hands_on_come_from_in_front() -> None:
    """Loads behind the token of the last write before the loop, which every iteration hands on."""
    assert "AS-0322" in remarks(ordered("%ta, %tn, %t2", "%ta, %tm, %t0", token=" token = %ta"), "sm_90")


def test_loads_that_wait_for_those_of_another_iteration_stay() -> None:
    text = ordered("%ta, %tn, %t2", "%ta, %tm, %t0", token=" token = %tb")
    assert "hands on other values where it is not taken" in remarks(text, "sm_90")["AS-0320"]
    got, want = (arguments(0, 8, [0, 1, 1, 0, 0, 0, 1, 0]) for _ in range(2))
    assert np.array_equal(
        launched(text, got, "emulator", check=True)[0], launched(text, want, "reference")[0]
    )
