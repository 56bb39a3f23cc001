"""Remarks of TileAALoopsToFor: each loop that it counts otherwise or splits has one, at its line, and so has each that stays."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import tileiras
from tests.unit.test_loops_to_for import COUNTING, OTHERS, module
from tests.unit.test_split_at_bound import kernel

COUNTED, STAYS, SPLIT, ONE, BOUND = "AA-0329", "AA-0330", "AA-0331", "AA-0332", "AA-0316"
PLACES = """%steps = iota : tile<4xi32>
    %o1 = reshape %o : tile<ptr<i32>> -> tile<1xptr<i32>>
    %o4 = broadcast %o1 : tile<1xptr<i32>> -> tile<4xptr<i32>>
    %places = offset %o4, %steps : tile<4xptr<i32>>, tile<4xi32> -> tile<4xptr<i32>>
    %far ="""
LOAD = "%seen4, %read4 = load_ptr_tko weak %places : tile<4xptr<i32>> -> tile<4xi32>, token\n"


def loads(loop: str) -> str:
    """A module whose loop loads a tile in its work."""
    return module(loop.replace("%s1 = muli", LOAD + "%s1 = muli", 1)).replace("%far =", PLACES, 1)


def said(text: str) -> list[tuple[str, str, int]]:
    """(code, message, line) of what the pass said."""
    asked = {"passed": "memory", "missed": "memory"}
    found = tileiras.compile(text, gpu_name="sm_80", remarks=asked).diagnostics
    codes = (COUNTED, STAYS, SPLIT, ONE, BOUND)
    return [(d.diag.code, d.message, d.loc.line) for d in found if d.diag.code in codes]


def line_of(text: str, word: str) -> int:
    return next(n for n, line in enumerate(text.split("\n"), 1) if word in line)


TOWARDS, DOWN = "its two indices go towards each other", "its index goes down"


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("meeting", TOWARDS),
        ("meeting_by_subtracting", TOWARDS),
        ("meeting_in_front", TOWARDS),
        ("meeting_skips", TOWARDS),
        ("meeting_skips_in_front", TOWARDS),
        ("down", DOWN),
        ("first_down", DOWN),
        ("asked_down", DOWN),
        ("behind_down", DOWN),
    ],
)
def test_a_loop_with_an_index_of_its_own_has_one_remark(name: str, how: str) -> None:
    for text in (loads(COUNTING[name]), module(COUNTING[name])):
        message = f"the loop is counted by an index of its own, from zero up: {how}"
        assert said(text) == [(COUNTED, message, line_of(text, "= loop "))]


@pytest.mark.parametrize(
    "name", ["while", "first", "do", "skips", "together", "both", "asked", "behind", "unlike"]
)
def test_what_goes_up_by_its_own_index_has_none(name: str) -> None:
    assert said(loads(COUNTING[name])) == []


@pytest.mark.parametrize("name", ["early", "early_twice", "do_early"])
def test_a_break_that_is_a_bound_has_one_remark(name: str) -> None:
    text = loads(COUNTING[name])
    message = "the loop ends at a bound where a test of its index left it"
    assert said(text) == [(BOUND, message, line_of(text, "= loop "))]


WRAPS = "its index may wrap before it gets to its bound: nothing says that it does not overflow"
REASONS = {
    "times_that_wrap": "what is made of its index may wrap and hold again",
    "wraps": WRAPS,
    "at_most_unsigned": WRAPS,
    "do_that_wraps_down": WRAPS,
    "step_of_an_argument_that_wraps": WRAPS,
    "step_of_an_argument_down": "its step is not known, and its test is not whether the index is less than a number",
    "step_moves": "its index does not go on by the same number in each step",
    "bound_moves": "what its index is held against changes with the steps, or is loaded in them",
    "early_below": "its index goes up, and its test is not whether that is less than a number",
    "early_unlike": "another test that ends it is not whether its index is above a number",
    "both_of_the_sum": "another test that ends it is not whether its index is above a number",
    "early_with_other_sums": "what it is left with is no value of a whole number of steps",
    "early_behind_a_store": "it is left with some of a step's work done",
    "early_down": "it is left by several tests, and the one of its index is unsigned, counts down or asks for one number",
    "subtracts_from_a_number": "its index is subtracted from a number",
    "subtracts_an_argument": "its index goes down by a number that is not known",
    "behind_a_sum": "nv_tileaa.load_ptr_tko stands in front of the branch that ends it",
    "both_of_a_load": "several branches stand in front of the one that ends it",
    "skips_in_front_of_a_test_behind": "a `continue` stands in front of the branch that ends it",
    "skips_and_stays": "a `continue` goes on with an index of its own",
    "skips_asked": "a `continue` goes on with an index of its own",
    "asked_of_the_sum": "its test is no comparison of an index that goes on by a number in each step",
    "meeting_skips_and_stays": "a `continue` goes on with an index of its own",
    "meeting_that_wraps": WRAPS,
    "meeting_unsigned": "its two indices are compared unsigned",
    "meeting_by_one": "its two indices do not get at least two numbers nearer in each step",
    "meeting_until_they_are_equal": "its two indices are not compared for less or greater",
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_loop_that_stays_has_a_reason(name: str) -> None:
    """All of those that do not count; the reason itself where it is a kind of its own."""
    text = loads(OTHERS[name])
    [(code, message, line)] = said(text)
    head, _, reason = message.partition(": ")
    assert (
        code == STAYS
        and head == "loads of the loop do not run ahead, as it is not known how often it goes round"
    )
    assert line == line_of(text, "= loop ")
    assert reason == REASONS.get(name, reason) != ""


def test_a_loop_without_loads_of_tiles_has_none() -> None:
    assert said(module(OTHERS["bound_moves"])) == []


@pytest.mark.parametrize("compare", ["less_than %k, %m, signed", "greater_than %m, %k, signed"])
def test_a_loop_that_is_two_has_one_remark(compare: str) -> None:
    text = kernel(compare)
    message = "the loop is two loops: up to where a branch of its products no longer holds, and from there on"
    assert said(text) == [(SPLIT, message, line_of(text, "= loop "))]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (kernel("equal %k, %m, signed"), "the branch does not ask whether the index is less than a number, or at least this"),
        (kernel("less_than %k, %m, unsigned"), "the branch compares the index with another sign than the loop"),
        (
            kernel("less_than %k, %x, signed").replace("%more =", "%x = subi %m, %k : tile<i32>\n%more ="),
            "what the branch holds the index against is made in the loop",
        ),
        (kernel().replace("addi %k, %one", "addi %k, %seven"), "the step of the loop is not 1"),
    ],
)  # fmt: skip
def test_a_loop_that_stays_one_has_a_reason(text: str, reason: str) -> None:
    message = f"loads in a branch of the loop's products do not run ahead: {reason}"
    assert said(text) == [(ONE, message, line_of(text, "= loop "))]


def test_a_branch_that_asks_for_no_index_has_none() -> None:
    assert said(kernel("less_than %lo, %m, signed")) == []
