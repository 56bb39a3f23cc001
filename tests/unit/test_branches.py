"""Branches in loops of products: where a test leaves the loop is looked for in front of it (asked_ahead.py), one that asks the
same in each step is asked once (unswitch_loops.py), and products of both sides are one (join_products.py)."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras
from tests.block_products import AT, BLOCKS, BT, CT, F32, VIEWS, factors
from tests.corpus.case import place
from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES
from tileiras.compiler.target.cost import CostModel
from tileiras.tools import opt

TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")
OWN = {"sm_80": "mma.sync", "sm_90": "wgmma.mma_async", "sm_100": "tcgen05.mma", "sm_120": "mma.sync"}
BOUND, LOOKED_FOR, UNSWITCHED, JOINED, STAYS = "AA-0316", "AA-0333", "AA-0334", "AA-0337", "AA-0317"
AHEAD, OUT, NOT_AHEAD = "AS-0307", "AS-0322", "AS-0320"


def said(source: Any, gpu_name: str) -> dict[str, str]:
    """Code and message of what is said of a kernel's loops and branches."""
    program = tileiras.compile(
        source, gpu_name=gpu_name, emit="ptx", remarks={"passed": "memory", "missed": "memory"}
    )
    return {found.diag.code: found.message for found in program.diagnostics}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("ends_at_flag", LOOKED_FOR),
        ("ends_behind_flag_limit", LOOKED_FOR),
        ("pages_to_end", LOOKED_FOR),
        ("right_by_mode_0", UNSWITCHED),
        ("products_by_mode_0", UNSWITCHED),
        ("two_sums_in_turn", JOINED),
        ("added_or_taken", JOINED),
        ("begun_anew", JOINED),
        ("chosen_products", JOINED),
        ("halved_every_third", AHEAD),
        ("promoted", AHEAD),
    ],
)
def test_copies_run_ahead_to_products_of_the_target(name: str, code: str, gpu_name: str) -> None:
    found = said(bytecode_path(CASES[name]), gpu_name)
    assert code in found and "run ahead through shared memory" in found[AHEAD]
    assert not {OUT, NOT_AHEAD, STAYS} & set(found)
    ptx = tileiras.compile(bytecode_path(CASES[name]), gpu_name=gpu_name, emit="ptx").ptx
    assert OWN[gpu_name] in ptx
    if OWN[gpu_name] != "mma.sync":
        assert "mma.sync" not in ptx


# ---- a test that leaves the loop
ASKED = """%place = offset %flags, %k : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
      %flag, %t0 = load_ptr_tko weak %place : tile<ptr<i32>> -> tile<i32>, token
      %ends = cmpi equal %flag, %zero, signed : tile<i32> -> tile<i1>"""
WORK = f"""%x, %t1 = load_view_tko weak %at[%zero, %k] : {AT}, tile<i32> -> tile<64x32xf16>, token
      %y, %t2 = load_view_tko weak %bt[%k, %zero] : {BT}, tile<i32> -> tile<32x64xf16>, token
      %z = mmaf %x, %y, %acc : tile<64x32xf16>, tile<32x64xf16>, {F32}
      %m = addi %n, %k : tile<i32>"""


def left(asked: str = ASKED, behind: bool = False, step: str = "%one", work: str = WORK) -> str:
    """A kernel whose loop is left by a flag that it carries, tested in front of the work or behind it."""
    types = f"{F32}, tile<i32>, tile<i1>"
    leave = f"{asked}\n      if %ends {{ continue {'%z, %m' if behind else '%acc, %n'}, %yes : {types} }}"
    body = "\n      ".join([work, leave] if behind else [leave, work])
    return f"""cuda_tile.module @m {{
  entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %flags: tile<ptr<i32>>, %seen: tile<ptr<i32>>,
           %lo: tile<i32>, %hi: tile<i32>) {{
    {VIEWS}
    %two = constant <i32: 2> : tile<i32>
    %yes = constant <i1: true> : tile<i1>
    %no = constant <i1: false> : tile<i1>
    %t = make_token : token
    %sum:3 = for %k in (%lo to %hi, step {step}) : tile<i32> iter_values(%acc = %none, %n = %zero, %left = %no) -> ({types}) {{
      if %left {{ continue %acc, %n, %left : {types} }}
      {body}
      continue %z, %m, %left : {types}
    }}
    %t3 = store_view_tko weak %sum#0, %ct[%zero, %zero] : {F32}, {CT}, tile<i32> -> token
    %t4 = store_ptr_tko weak %seen, %sum#1 : tile<ptr<i32>>, tile<i32> -> token
    return
  }}
}}
"""


def launched(text: str, bounds: tuple[int, int], flags: Any, target: str, **more: Any) -> tuple[Any, int]:
    """The sum and what was counted. Flags behind the last one are no memory of the kernel's."""
    values = [
        *map(place, factors(7)),
        place(np.zeros((64, 64), np.float32)),
        place(np.array(flags, np.int32)),
        place(np.zeros(1, np.int32)),
        *bounds,
    ]
    tileiras.launch(text, "k", grid=(1, 1, 1), args=values, target=target, **more)
    return values[2], int(values[4][0])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("step", ["%one", "%two"])
@pytest.mark.parametrize(
    ("bounds", "flags"),
    [
        ((0, 8), [1, 1, 1, 1, 0]),  # the list ends with what ends the loop
        ((0, 8), [1, 1, 1, 0, 0, 1, 0, 1]),
        ((0, 8), [0]),
        ((0, 8), [1] * 8),
        ((2, 7), [0, 0, 1, 1, 1, 0, 0]),
        ((5, 5), [1]),
        ((7, 3), [1]),
        ((2**31 - 1, -(2**31)), [1]),
    ],
)
def test_the_step_that_ends_a_loop_is_found_in_front_of_it(
    bounds: tuple[int, int], flags: list[int], step: str, behind: bool, gpu_name: str
) -> None:
    if step == "%two":
        flags = [flags[n // 2] if n % 2 == 0 else 0 for n in range(2 * len(flags))]
    text = left(step=step, behind=behind)
    assert LOOKED_FOR in said(text, gpu_name)
    ours = launched(text, bounds, flags, "emulator", gpu_name=gpu_name, check=True, seed=2)
    theirs = launched(text, bounds, flags, "reference")
    assert np.array_equal(ours[0], theirs[0]) and ours[1] == theirs[1]


@pytest.mark.parametrize("step", ["%one", "%two"])
@pytest.mark.parametrize("bounds", [(2**31 - 6, 2**31 - 1), (-(2**31), -(2**31) + 7)])
def test_an_index_may_end_at_the_last_number_there_is(bounds: tuple[int, int], step: str) -> None:
    asked = """%odd = remi %k, %far signed : tile<i32>
      %ends = cmpi equal %odd, %one, signed : tile<i32> -> tile<i1>"""
    text = left(asked, step=step).replace(
        "%yes =", "%far = constant <i32: 2147483642> : tile<i32>\n    %yes =", 1
    )
    assert LOOKED_FOR in said(text, "sm_80")
    ours, theirs = (launched(text, bounds, [1], where) for where in ("emulator", "reference"))
    assert ours[1] == theirs[1]


MORE = """%place2 = offset %more, %k : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
      %flag2, %t9 = load_ptr_tko weak %place2 : tile<ptr<i32>> -> tile<i32>, token
      %also = cmpi equal %flag2, %flag, signed : tile<i32> -> tile<i1>"""
LIMIT = "%late = cmpi greater_than_or_equal %k, %limit, signed : tile<i32> -> tile<i1>"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize("limit_first", [False, True])
@pytest.mark.parametrize(
    ("flags", "more", "limit"),
    [
        ([1, 1, 0], [2, 2], 9),  # the second list has one number less: the first one ended the loop
        ([1, 1, 1], [2, 2, 1], 9),
        ([1, 1, 1, 1, 1], [3, 2, 3, 2, 3], 4),
        ([0], [], 9),
        ([1], [1], 9),
    ],
)
def test_of_several_tests_each_is_asked_where_the_others_let_the_loop_go_on(
    flags: list[int], more: list[int], limit: int, limit_first: bool, gpu_name: str
) -> None:
    """No list is read where the kernel would not have read it."""
    leave = f"if %{{}} {{{{ continue %acc, %n, %yes : {F32}, tile<i32>, tile<i1> }}}}"
    late = LIMIT + "\n      " + leave.format("late")
    both = [ASKED, leave.format("ends"), MORE, leave.format("also")]
    text = left("\n      ".join([late, *both] if limit_first else [*both, late]))
    last = text.rindex(leave.format("ends"))
    text = text[:last] + text[last + len(leave.format("ends")) :]
    text = text.replace("%lo: tile<i32>", "%more: tile<ptr<i32>>, %limit: tile<i32>, %lo: tile<i32>")
    assert {LOOKED_FOR, BOUND} <= set(said(text, gpu_name))
    if limit_first:
        flags, more = flags[:limit], more[:limit]
    found = []
    for target in ("emulator", "reference"):
        sums, seen = place(np.zeros((64, 64), np.float32)), place(np.zeros(1, np.int32))
        lists = [place(np.array(values, np.int32)) for values in (flags, more)]
        values = [*map(place, factors(7)), sums, lists[0], seen, lists[1], limit, 0, 8]
        options = {"gpu_name": gpu_name, "check": True, "seed": 2} if target == "emulator" else {}
        tileiras.launch(text, "k", grid=(1, 1, 1), args=values, target=target, **options)
        found.append((values[2], int(seen[0])))
    assert np.array_equal(found[0][0], found[1][0]) and found[0][1] == found[1][1]


def in_condition(more: str = "", other: str = "%no", work: str = WORK) -> str:
    """A loop whose condition loads a number where its index is below a bound: `%i < %hi && flags[%i] != 0`."""
    types = f"{F32}, tile<i32>, tile<i32>"
    asked = ASKED.replace("%k", "%i").replace("equal", "not_equal")
    return f"""cuda_tile.module @m {{
  entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %flags: tile<ptr<i32>>, %seen: tile<ptr<i32>>,
           %lo: tile<i32>, %hi: tile<i32>) {{
    {VIEWS}
    %yes = constant <i1: true> : tile<i1>
    %no = constant <i1: false> : tile<i1>
    %sum:3 = loop iter_values(%acc = %none, %n = %zero, %i = %lo) : {types} -> {types} {{
      %below = cmpi less_than %i, %hi, signed : tile<i32> -> tile<i1>
      %go:2 = if %below -> (tile<i32>, tile<i1>) {{
        {asked}
        {more}
        yield %flag, %ends : tile<i32>, tile<i1>
      }} else {{
        yield %zero, {other} : tile<i32>, tile<i1>
      }}
      if %go#1 {{
        {work.replace("%k", "%i").replace("%n, %i", "%n, %go#0")}
        %up = addi %i, %one overflow<no_signed_wrap> : tile<i32>
        continue %z, %m, %up : {types}
      }}
      break %acc, %n, %i : {types}
    }}
    %t3 = store_view_tko weak %sum#0, %ct[%zero, %zero] : {F32}, {CT}, tile<i32> -> token
    %told = muli %sum#1, %sum#2 : tile<i32>
    %t4 = store_ptr_tko weak %seen, %told : tile<ptr<i32>>, tile<i32> -> token
    return
  }}
}}
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize(
    ("bounds", "flags"),
    [((0, 8), [3, 1, 2, 4, 0]), ((0, 3), [3, 1, 2]), ((0, 8), [0]), ((2, 8), [0, 0, 5, 6, 0]), ((5, 5), [1]), ((7, 3), [1])],
)  # fmt: skip
def test_a_condition_may_load_its_second_part(
    bounds: tuple[int, int], flags: list[int], gpu_name: str
) -> None:
    """What it loads is there for the work, and how far the index got behind the loop."""
    found = said(in_condition(), gpu_name)
    assert LOOKED_FOR in found and "run ahead through shared memory" in found[AHEAD]
    ours = launched(in_condition(), bounds, flags, "emulator", gpu_name=gpu_name, check=True, seed=2)
    theirs = launched(in_condition(), bounds, flags, "reference")
    assert np.array_equal(ours[0], theirs[0]) and ours[1] == theirs[1]


def test_what_only_a_test_needs_is_not_loaded_in_the_loop(capsys: pytest.CaptureFixture[str]) -> None:
    """Tile C++ hands on the token of each load; of two numbers that br_backwards asks for, its work needs one."""
    passes = "ConvertCudaTileToTileAA,TileAAFoldScalars,TileAALoopsToFor"
    assert opt.main(["--pass", passes, str(bytecode_path(CASES["cpp_br_backwards"]))]) == 0
    text = capsys.readouterr().out.partition('sym_name = "br_backwards"')[2].partition("nv_tileaa.return")[0]
    search, loop = text.partition(" nv_tileaa.for ")[::2]
    assert (search.count("load_ptr_tko"), loop.count("load_ptr_tko")) == (2, 1)


SEEN = "%t8 = store_ptr_tko weak %seen, %i : tile<ptr<i32>>, tile<i32> -> token"


@pytest.mark.parametrize(
    "text",
    [in_condition(SEEN), in_condition(other="%yes").replace("if %go#1", "%on = andi %go#1, %below : tile<i1>\n      if %on")],
    ids=["stores", "another_other_side"],
)  # fmt: skip
def test_a_condition_that_does_more_stays(text: str) -> None:
    assert LOOKED_FOR not in said(text, "sm_90")
    for flags in ([3, 1, 2, 4, 0, 1, 1, 1], [1] * 8):
        ours = launched(text, (0, 8), flags, "emulator", gpu_name="sm_90", check=True, seed=2)
        theirs = launched(text, (0, 8), flags, "reference")
        assert np.array_equal(ours[0], theirs[0]) and ours[1] == theirs[1]


CORNER = """%first = extract %acc[%zero, %zero] : tile<64x64xf32> -> tile<1x1xf32>
      %corner = reshape %first : tile<1x1xf32> -> tile<f32>
      %enough = constant <f32: 9.0> : tile<f32>
      %ends = cmpf greater_than ordered %corner, %enough : tile<f32> -> tile<i1>"""
TILE = f"""%w, %t7 = load_view_tko weak %at[%zero, %k] : {AT}, tile<i32> -> tile<64x32xf16>, token
      %low = constant <f16: 1.0> : tile<64x32xf16>
      %over = cmpf greater_than ordered %w, %low : tile<64x32xf16> -> tile<64x32xi1>
      %first = extract %over[%zero, %zero] : tile<64x32xi1> -> tile<1x1xi1>
      %ends = reshape %first : tile<1x1xi1> -> tile<i1>"""


BEHIND = f"""%odd = remi %k, %two signed : tile<i32>
      %late = cmpi equal %odd, %one, signed : tile<i32> -> tile<i1>
      if %late {{ continue %z, %m, %yes : {F32}, tile<i32>, tile<i1> }}"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (left(work=WORK + "\n      " + BEHIND), "it is left by several tests of loaded numbers"),
        (left(CORNER), "its end depends on what the loop carries"),
        (left(TILE), "its end looks at a tile"),
        (
            left(work=WORK.replace("[%zero, %k]", "[%zero, %k] token = %t0")),
            "its end is loaded in an order with accesses",
        ),
        (left(ASKED.replace("weak", "relaxed device")), "it is left with some of a step's work done"),
    ],
)
def test_what_cannot_be_known_in_front_stays_and_says_why(text: str, reason: str) -> None:
    found = said(text, "sm_90")
    assert reason in found[STAYS] and LOOKED_FOR not in found
    flags = [1, 1, 1, 0, 1, 1, 1, 1]
    ours = launched(text, (0, 8), flags, "emulator", gpu_name="sm_90", check=True, seed=2)
    theirs = launched(text, (0, 8), flags, "reference")
    assert np.array_equal(ours[0], theirs[0]) and ours[1] == theirs[1]


def test_nothing_is_looked_for_where_no_loads_would_run_ahead() -> None:
    work = "%z = addf %acc, %acc : tile<64x64xf32>\n      %m = addi %n, %k : tile<i32>"
    found = said(left(work=work), "sm_90")
    assert "its end is no comparison of its index" in found[STAYS]


# ---- a test that asks the same in each step
def modes(count: int) -> str:
    """A kernel whose step has a product behind each of some tests of one number."""
    parts, acc = [], "%acc"
    for n in range(count):
        parts.append(f"""%bit{n} = constant <i32: {1 << n}> : tile<i32>
      %has{n} = andi %hi, %bit{n} : tile<i32>
      %is{n} = cmpi not_equal %has{n}, %zero, signed : tile<i32> -> tile<i1>
      %s{n} = if %is{n} -> ({F32}) {{
        %z{n} = mmaf %x, %y, {acc} : tile<64x32xf16>, tile<32x64xf16>, {F32}
        yield %z{n} : {F32}
      }} else {{
        yield {acc} : {F32}
      }}""")
        acc = f"%s{n}"
    load = "\n".join(WORK.split("\n")[:2])
    body = "\n      ".join([load, *parts])
    return f"""cuda_tile.module @m {{
  entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %flags: tile<ptr<i32>>, %seen: tile<ptr<i32>>,
           %lo: tile<i32>, %hi: tile<i32>) {{
    {VIEWS}
    %t = make_token : token
    %blocks = constant <i32: {BLOCKS}> : tile<i32>
    %sum = for %k in (%lo to %blocks, step %one) : tile<i32> iter_values(%acc = %none) -> ({F32}) {{
      {body}
      continue {acc} : {F32}
    }}
    %t3 = store_view_tko weak %sum, %ct[%zero, %zero] : {F32}, {CT}, tile<i32> -> token
    return
  }}
}}
"""


@pytest.mark.parametrize("count", [1, 2, 3])
def test_each_side_has_a_loop_of_its_own(count: int) -> None:
    text = modes(count)
    program = tileiras.compile(text, gpu_name="sm_90", emit="ptx", remarks={"passed": "memory"})
    asked = [d for d in program.diagnostics if d.diag.code == UNSWITCHED]
    assert len(asked) == min(2**count - 1, CostModel.unswitched_branches)
    for mode in range(2**count):
        ours = launched(text, (0, mode), [1], "emulator", gpu_name="sm_90", check=True, seed=1)
        theirs = launched(text, (0, mode), [1], "reference")
        assert np.array_equal(ours[0], theirs[0]) and ours[0].any() == bool(mode)


def test_long_functions_are_not_made_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEIRAS_CACHE", "0")
    monkeypatch.setattr(CostModel, "unswitched_ops", 10)
    assert UNSWITCHED not in said(modes(1), "sm_90")


# ---- products of both sides
def sides(then: str, other: str, results: str = "%z", more: str = "") -> str:
    return left().replace(
        "%z = mmaf %x, %y, %acc : tile<64x32xf16>, tile<32x64xf16>, " + F32,
        f"""{more}
      %odd = andi %k, %one : tile<i32>
      %is = cmpi equal %odd, %one, signed : tile<i32> -> tile<i1>
      {results} = if %is -> ({F32}) {{
        {then}
      }} else {{
        {other}
      }}""",
    )


PRODUCT = "%p = mmaf {}, {}, {} : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>\n        yield %p : tile<64x64xf32>"

DOUBLED = PRODUCT.replace("yield %p", "%q = addf %p, %p : tile<64x64xf32>\n        yield %q")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize(
    ("then", "other", "where"),
    [
        (PRODUCT.format("%x", "%y", "%acc"), PRODUCT.format("%x", "%y", "%none"), "in front of"),
        (PRODUCT.format("%x", "%y", "%acc"), PRODUCT.format("%x", "%y", "%acc"), "in front of"),
        (PRODUCT.format("%x", "%y", "%acc"), PRODUCT.format("%x", "%y2", "%acc"), "behind"),
        (PRODUCT.format("%x2", "%y", "%acc"), PRODUCT.format("%x", "%y2", "%none"), "behind"),
        (PRODUCT.format("%x", "%y", "%acc"), DOUBLED.format("%x", "%y", "%acc"), "in front of"),
        (PRODUCT.format("%x", "%y", "%acc"), DOUBLED.format("%x", "%y2", "%acc"), ""),
        (PRODUCT.format("%x", "%y", "%acc"), "yield %acc : tile<64x64xf32>", ""),
    ],
)  # fmt: skip
def test_products_of_both_sides_are_one(then: str, other: str, where: str, gpu_name: str) -> None:
    """Of the same operands in front of the branch, of others behind it, where nothing else is done with them there."""
    half = "%x2 = addf %x, %x : tile<64x32xf16>\n      %y2 = addf %y, %y : tile<32x64xf16>"
    text = sides(then, other, more=half)
    found = said(text, gpu_name)
    assert where + " it" in found[JOINED] if where else JOINED not in found
    flags = [1, 1, 1, 1, 1, 1, 0]
    ours = launched(text, (0, 8), flags, "emulator", gpu_name=gpu_name, check=True, seed=2)
    theirs = launched(text, (0, 8), flags, "reference")
    assert np.array_equal(ours[0], theirs[0]) and ours[1] == theirs[1]
