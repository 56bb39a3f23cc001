"""Loops that count near the ends of their type, or are held against these, go round as often as the reference says."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras
from tests.corpus.case import place
from tileiras.tools import opt

NSW = " overflow<no_signed_wrap>"
BYTE = "tile<i8>"
LEAST, MOST = -128, 127


def work(index: str = "%i") -> str:
    return f"""%s1 = muli %sum, %three : tile<i32>
      %wide = exti {index} signed : {BYTE} -> tile<i32>
      %next = addi %s1, %wide : tile<i32>"""


def counts(
    test: str, step: str = "%one", op: str = "addi", flags: str = NSW, before: str = "", early: str = ""
) -> str:
    """`while (TEST) { if (EARLY) break; work; i += step; }`."""
    leaves = f"%stop = cmpi {early}, signed : {BYTE} -> tile<i1>\nif %stop {{ break %sum, %i : tile<i32>, {BYTE} }}"
    return f"""%r:2 = loop iter_values(%sum = %zero, %i = %lo) : tile<i32>, {BYTE} -> tile<i32>, {BYTE} {{
      {before}
      %go = cmpi {test}, signed : {BYTE} -> tile<i1>
      if %go {{
        {leaves if early else ""}
        {work()}
        %up = {op} %i, {step}{flags} : {BYTE}
        continue %next, %up : tile<i32>, {BYTE}
      }}
      break %sum, %i : tile<i32>, {BYTE}
    }}"""


def steps(test: str, before: str = "", lower: str = "%lo", step: str = "%one") -> str:
    """`for i in range(..): if TEST: break; work`, as cuTile writes it."""
    types = "tile<i32>, tile<i1>"
    return f"""%r:2 = for %i in ({lower} to %n, step {step}) : {BYTE} iter_values(%sum = %zero, %left = %no) -> ({types}) {{
      if %left {{ continue %sum, %left : {types} }}
      {before}
      %stop = cmpi {test}, signed : {BYTE} -> tile<i1>
      if %stop {{ continue %sum, %yes : {types} }}
      {work()}
      continue %next, %left : {types}
    }}"""


def module(loop: str) -> str:
    numbers = {"none": 0, "one": 1, "two": 2, "four": 4, "hundred": 100, "most": MOST}
    constants = "\n".join(f"%{k} = constant <i8: {v}> : {BYTE}" for k, v in numbers.items())
    return f"""cuda_tile.module @m {{
  entry @k(%o: tile<ptr<i32>>, %lo: {BYTE}, %n: {BYTE}, %m: {BYTE}) {{
    {constants}
    %zero = constant <i32: 0> : tile<i32>
    %three = constant <i32: 3> : tile<i32>
    %no = constant <i1: false> : tile<i1>
    %yes = constant <i1: true> : tile<i1>
    {loop}
    %t = store_ptr_tko weak %o, %r#0 : tile<ptr<i32>>, tile<i32> -> token
    return
  }}
}}"""


def sums(text: str, target: str, numbers: tuple[int, ...]) -> int:
    out = place(np.full(1, -7, np.int32))
    args = [out, *(np.int8(n) for n in numbers)]
    tileiras.launch(text, "k", grid=(1, 1, 1), args=args, target=target, gpu_name="sm_80")
    return int(np.array(out)[0])


def dumped(text: str, capsys: pytest.CaptureFixture[str], tmp_path: Any) -> str:
    source = tmp_path / "k.tileir"
    source.write_text(text)
    passes = "ConvertCudaTileToTileAA,TileAAFoldScalars,TileAALoopsToFor,TileAABreaksToBounds"
    assert opt.main(["--pass", passes, str(source)]) == 0
    return capsys.readouterr().out


# loop, (lo, n, m) of launches: the second test leaves it where its own never would
COUNTED = {
    "at_most_the_greatest": (
        counts("less_than_or_equal %i, %n", early="greater_than_or_equal %i, %m"),
        [(0, MOST, 9), (0, MOST, 0), (120, MOST, MOST), (3, 5, 9), (3, 9, 5)],
    ),
    "times_that_wrap": (
        counts("less_than %w, %n", flags="", before=f"%w = muli %i, %four : {BYTE}", early="greater_than_or_equal %i, %m")
        .replace("%i = %lo", "%i = %none"),
        [(0, MOST, 100), (0, MOST, 5), (0, 124, 100), (0, 121, 3), (0, 0, 5)],
    ),
    "down_all_the_way": (
        counts("greater_than %i, %n", "%hundred", "subi"),
        [(MOST, -73, 0), (MOST, -28, 0), (100, -100, 0), (27, 100, 0)],
    ),
    "whole_steps_from_the_least": (
        counts("less_than_or_equal %w, %n", before=f"%w = addi %i, %four{NSW} : {BYTE}"),
        [(LEAST, -125, 0), (LEAST, LEAST, 0), (LEAST, -124, 0), (LEAST, -120, 0), (-2, 9, 0)],
    ),
}  # fmt: skip
KEPT = {
    "unlike_a_number_below": (
        counts("not_equal %i, %n", early="greater_than_or_equal %i, %m"),
        [(0, -1, 9), (5, 3, 9), (0, 4, 9), (0, 9, 4)],
    ),
    "over_the_greatest": (counts("less_than %i, %n", "%hundred", flags=""), [(30, 126, 0), (0, 50, 0)]),
}
LEFT = {
    "above_all_but_the_greatest": (
        steps("greater_than %i, %m"),
        [(120, MOST, 126), (120, MOST, 125), (120, MOST, MOST), (LEAST, -120, LEAST)],
    ),
    "above_of_more": (
        steps("greater_than %w, %m", f"%w = addi %i, %four{NSW} : {BYTE}"),
        [(120, 124, 127), (120, 124, 126), (120, 124, 125)],
    ),
    "times_that_step_over_the_greatest": (
        steps("greater_than_or_equal %w, %m", f"%w = muli %i, %four : {BYTE}", "%none", "%two"),
        [(0, 100, 124), (0, 100, 120), (0, 100, 121), (0, 100, MOST)],
    ),
}


@pytest.mark.parametrize("name", [*COUNTED, *LEFT])
def test_loops_that_are_rewritten(name: str, capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    loop, cases = {**COUNTED, **LEFT}[name]
    text = module(loop)
    found = dumped(text, capsys, tmp_path)
    assert "nv_tileaa.for " in found and "nv_tileaa.loop " not in found and "nv_tileaa.if " not in found
    for numbers in cases:
        assert sums(text, "emulator", numbers) == sums(text, "reference", numbers), numbers


@pytest.mark.parametrize("name", KEPT)
def test_loops_that_stay(name: str, capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    loop, cases = KEPT[name]
    text = module(loop)
    assert "nv_tileaa.loop " in dumped(text, capsys, tmp_path)
    for numbers in cases:
        assert sums(text, "emulator", numbers) == sums(text, "reference", numbers), numbers
