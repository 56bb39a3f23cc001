"""TileAABreaksToBounds: loops that a test of their index leaves end where the reference's do, and only those are rewritten."""

from __future__ import annotations

import random
from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras
from tests.corpus.case import place
from tileiras.tools import opt

GREATEST = 2**31 - 1
TESTS = {
    "at": ("cmpi greater_than_or_equal %j, %limit, signed", ""),
    "above": ("cmpi greater_than %j, %limit, signed", ""),
    "at_from_the_right": ("cmpi less_than_or_equal %limit, %j, signed", ""),
    "above_from_the_right": ("cmpi less_than %limit, %j, signed", ""),
    "times": ("cmpi greater_than_or_equal %w, %limit, signed", "%w = muli %j, %four : tile<i32>"),
    "above_times": ("cmpi greater_than %w, %limit, signed", "%w = muli %j, %four : tile<i32>"),
    "times_that_do_not_wrap": (
        "cmpi greater_than %w, %limit, signed",
        "%w = muli %j, %three overflow<no_signed_wrap> : tile<i32>",
    ),
    "next_times": (
        "cmpi less_than_or_equal %limit, %w, signed",
        "%u = addi %j, %one : tile<i32>\n%w = muli %u, %four : tile<i32>",
    ),
    "times_and_more": (
        "cmpi greater_than %w, %limit, signed",
        "%u = muli %j, %four : tile<i32>\n%w = addi %u, %three : tile<i32>",
    ),
    "half_of_a_number": (
        "cmpi greater_than_or_equal %j, %half, signed",
        "%half = divi %limit, %two signed rounding<zero> : tile<i32>",
    ),
    "either": (
        "ori %e1, %e2",
        "%e1 = cmpi greater_than %j, %limit, signed : tile<i32> -> tile<i1>\n"
        "%e2 = cmpi greater_than_or_equal %w, %other, signed : tile<i32> -> tile<i1>\n",
    ),
}
TESTS["either"] = (TESTS["either"][0], "%w = muli %j, %four : tile<i32>\n" + TESTS["either"][1])
# what is no bound, and why
KEPT = {
    "below": ("cmpi less_than %j, %limit, signed", "", "not the first index above"),
    "unlike": ("cmpi not_equal %j, %limit, signed", "", "not the first index above"),
    "unsigned": ("cmpi greater_than_or_equal %j, %limit, unsigned", "", "not the first index above"),
    "bound_moves": ("cmpi greater_than_or_equal %j, %sum, signed", "", "changes with the steps"),
    "not_the_index": ("cmpi greater_than_or_equal %sum, %limit, signed", "", "no comparison of its index"),
    "times_that_wrap": (
        "cmpi greater_than_or_equal %w, %limit, signed",
        "%w = muli %j, %three : tile<i32>",
        "may wrap and hold again",
    ),
}
GUARD = "if %left {{ continue {same}, %left : {types}, tile<i1> }}"


def leave(test: str, before: str, values: str, types: str) -> str:
    kind = "tile<i1>" if test.startswith("ori") else "tile<i32> -> tile<i1>"
    return f"{before}\n%ends = {test} : {kind}\nif %ends {{ continue {values}, %yes : {types}, tile<i1> }}\n"


def module(
    test: str, before: str, behind: bool, result: str = "%r#0", bounds: str = "%lo to %n, step %one"
) -> str:
    types = "tile<i32>, tile<i32>"
    work = "%s1 = muli %sum, %three : tile<i32>\n%next = addi %s1, %j : tile<i32>\n%more = addi %count, %one : tile<i32>\n"
    guard = GUARD.format(same="%sum, %count", types=types)
    values = "%next, %more" if behind else "%sum, %count"
    branch = leave(test, before, values, types)
    body = work + branch if behind else branch + work
    constants = "\n".join(f"%{k} = constant <i32: {v}> : tile<i32>" for k, v in
                          {"zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "minus": -1}.items())  # fmt: skip
    return f"""cuda_tile.module @m {{
  entry @k(%o: tile<ptr<i32>>, %p: tile<ptr<i32>>, %lo: tile<i32>, %n: tile<i32>, %limit: tile<i32>, %other: tile<i32>) {{
    {constants}
    %no = constant <i1: false> : tile<i1>
    %yes = constant <i1: true> : tile<i1>
    %r:3 = for %j in ({bounds}) : tile<i32> iter_values(%sum = %zero, %count = %zero, %left = %no) -> ({types}, tile<i1>) {{
      {guard}
      {body}
      continue %next, %more, %left : {types}, tile<i1>
    }}
    %t = store_ptr_tko weak %o, {result} : tile<ptr<i32>>, tile<i32> -> token
    %u = store_ptr_tko weak %p, %r#1 : tile<ptr<i32>>, tile<i32> -> token
    return
  }}
}}"""


def sums(text: str, target: str, *numbers: int) -> list[int]:
    out = place(np.full(2, -7, np.int32))
    args = [out, out[1:], *(np.int32(n) for n in numbers)]
    tileiras.launch(text, "k", grid=(1, 1, 1), args=args, target=target, gpu_name="sm_80")
    return [int(x) for x in np.array(out)]


def dumped(text: str, capsys: pytest.CaptureFixture[str], tmp_path: Any) -> str:
    source = tmp_path / "k.tileir"
    source.write_text(text)
    assert (
        opt.main(["--pass", "ConvertCudaTileToTileAA,TileAAFoldScalars,TileAABreaksToBounds", str(source)])
        == 0
    )
    return capsys.readouterr().out


@pytest.mark.sampled(5)
@pytest.mark.parametrize("behind", [False, True], ids=["in_front", "behind"])
@pytest.mark.parametrize("name", TESTS)
def test_loops_that_a_test_leaves(
    name: str, behind: bool, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    test, before = TESTS[name]
    wraps = "muli" in before and "wrap" not in before or "%u = addi" in before
    bounds = "%zero to %n, step %one" if wraps else "%lo to %n, step %one"
    text = module(test, before, behind, bounds=bounds)
    found = dumped(text, capsys, tmp_path)
    assert "nv_tileaa.for " in found and "nv_tileaa.if " not in found
    drawn = random.Random(f"{name} {behind}")
    cases = [(0, 7, limit, limit) for limit in (-GREATEST - 1, -1, 0, 1, GREATEST)]
    cases += [
        (drawn.randint(-6, 6), drawn.randint(-6, 12), drawn.randint(-9, 40), drawn.randint(-9, 40))
        for _ in range(25)
    ]
    for numbers in cases:
        assert sums(text, "emulator", *numbers) == sums(text, "reference", *numbers), numbers


@pytest.mark.sampled(10)
@pytest.mark.parametrize("step", ["%two", "%three", "%four"])
@pytest.mark.parametrize("behind", [False, True], ids=["in_front", "behind"])
@pytest.mark.parametrize("name", ["at", "above", "times_that_do_not_wrap"])
def test_steps_above_one(
    name: str, behind: bool, step: str, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    text = module(*TESTS[name], behind, bounds=f"%lo to %n, step {step}")
    assert "nv_tileaa.if " not in dumped(text, capsys, tmp_path)
    for limit in range(-4, 30):
        for numbers in ((-3, 17, limit, 0), (0, 8, limit, 0), (5, 5, limit, 0)):
            assert sums(text, "emulator", *numbers) == sums(text, "reference", *numbers), numbers


@pytest.mark.parametrize("behind", [False, True], ids=["in_front", "behind"])
@pytest.mark.parametrize("limit", [GREATEST, GREATEST - 3, 5, -GREATEST - 1])
def test_where_what_is_tested_wraps(behind: bool, limit: int) -> None:
    """%j * 4 never gets to a limit above the greatest multiple of four; the last numbers of 32 bits are indices, too."""
    near = GREATEST // 4 - 1  # times four: wraps two steps later
    for first, last in ((near, near + 6), (GREATEST - 5, GREATEST)):
        text = module(*TESTS["times"], behind, bounds="%from to %n, step %one")
        text = text.replace(
            "%no = constant", f"%from = constant <i32: {first}> : tile<i32>\n%no = constant", 1
        )
        assert sums(text, "emulator", 0, last, limit, 0) == sums(text, "reference", 0, last, limit, 0)


@pytest.mark.parametrize("name", KEPT)
def test_loops_that_stay(name: str, capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    test, before, reason = KEPT[name]
    text = module(test, before, False)
    assert "nv_tileaa.if " in dumped(text, capsys, tmp_path)
    said: list[str] = []
    program = tileiras.compile(text, gpu_name="sm_80", remarks="all")
    said = [str(d) for d in program.diagnostics]
    assert any("the loop is left by a test in each step" in line and reason in line for line in said), said


def test_a_flag_that_is_asked_for_behind(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    """`for .. else`: whether the loop was left decides what comes then."""
    text = module(*TESTS["at"], False).replace(
        "%t = store", "%x = select %r#2, %r#0, %minus : tile<i1>, tile<i32>\n%t = store", 1
    )
    text = text.replace("weak %o, %r#0", "weak %o, %x")
    assert "nv_tileaa.if " in dumped(text, capsys, tmp_path)
    for limit in (-1, 0, 3, 9):
        assert sums(text, "emulator", 0, 5, limit, 0) == sums(text, "reference", 0, 5, limit, 0)


def test_work_in_front_of_the_test_stays(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    """A store in front of the test is done once more than what stands behind it."""
    text = module(*TESTS["at"], False).replace(
        "%ends = ", "%z = store_ptr_tko weak %p, %j : tile<ptr<i32>>, tile<i32> -> token\n%ends = ", 1
    )
    assert "nv_tileaa.if " in dumped(text, capsys, tmp_path)
