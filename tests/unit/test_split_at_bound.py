"""A `for` whose branch of products asks for its index is two loops, where TileAALoopsToFor made it of what Tile C++ writes."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras
from tests.block_products import AT, BT, CT, F32, VIEWS, factors
from tests.corpus.case import place

TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")


def step(k: str, acc: str, n: int) -> str:
    return f"""%x{n}, %tx{n} = load_view_tko weak %at[%zero, {k}] : {AT}, tile<i32> -> tile<64x32xf16>, token
        %y{n}, %ty{n} = load_view_tko weak %bt[{k}, %zero] : {BT}, tile<i32> -> tile<32x64xf16>, token
        %z{n} = mmaf %x{n}, %y{n}, {acc} : tile<64x32xf16>, tile<32x64xf16>, {F32}"""


def kernel(
    compare: str = "less_than %k, %m, signed",
    sides: str = "work other",
    holds: str = "less_than %k, %hi, signed",
) -> str:
    """`for (k = lo; k < hi; ++k) { STEP(k); if (COMPARE) STEP(last - k); }`."""
    work = f"%j = subi %seven, %k : tile<i32>\n{step('%j', '%z0', 1)}\n yield %z1 : {F32}"
    first, second = [{"work": work, "other": f"yield %z0 : {F32}"}[side] for side in sides.split()]
    return f"""cuda_tile.module @m {{
  entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %lo: tile<i32>, %hi: tile<i32>, %m: tile<i32>) {{
    {VIEWS}
    %seven = constant <i32: 7> : tile<i32>
    %sum:2 = loop iter_values(%acc = %none, %k = %lo) : {F32}, tile<i32> -> {F32}, tile<i32> {{
      %go = cmpi {holds} : tile<i32> -> tile<i1>
      if %go {{
        {step("%k", "%acc", 0)}
        %more = cmpi {compare} : tile<i32> -> tile<i1>
        %next = if %more -> ({F32}) {{
          {first}
        }} else {{
          {second}
        }}
        %up = addi %k, %one overflow<no_signed_wrap> : tile<i32>
        continue %next, %up : {F32}, tile<i32>
      }}
      break %acc, %k : {F32}, tile<i32>
    }}
    %t = store_view_tko weak %sum#0, %ct[%zero, %zero] : {F32}, {CT}, tile<i32> -> token
    return
  }}
}}
"""


def skipping(compare: str) -> str:
    """`for (k = lo; k < hi; ++k) { STEP(k); if (COMPARE) continue; STEP(last - k); }`."""
    text = kernel(compare)
    start, end, ends = (text.index(word) for word in ("%next = if", "%up = addi", "break %acc"))
    up, jump = text[end:ends].split("\n")[:2]
    return f"""{text[:start]}{up}
        if %more {{
          continue %z0, %up : {F32}, tile<i32>
        }}
        %j = subi %seven, %k : tile<i32>
        {step("%j", "%z0", 1)}
        {jump.replace("%next", "%z1")}
      }}
      {text[ends:]}"""


def loops_ahead(text: str, gpu_name: str = "sm_90") -> int:
    """How many loops have loads that run ahead."""
    found = tileiras.compile(text, gpu_name=gpu_name, remarks={"passed": "memory"}).diagnostics
    return sum("run ahead through shared memory" in said.message for said in found)


def right(text: str, bounds: tuple[int, int, int], gpu_name: str, seed: int = 0) -> bool:
    inputs = factors(3)
    out: list[Any] = []
    for target in ("emulator", "reference"):
        out.append(place(np.zeros((64, 64), np.float32)))
        args = [*map(place, inputs), out[-1], *bounds]
        more = {"gpu_name": gpu_name, "check": True, "seed": seed} if target == "emulator" else {}
        tileiras.launch(text, "k", grid=(1, 1, 1), args=args, target=target, **more)
    return np.array_equal(*out)


SPLIT = {
    "below": kernel(),
    "bound_first": kernel("greater_than %m, %k, signed"),
    "from_there_on": kernel("greater_than_or_equal %k, %m, signed", "other work"),
    "second_half": kernel("greater_than_or_equal %k, %m, signed"),
    "ends_from_there_on": skipping("greater_than_or_equal %k, %m, signed"),
    "ends_below": skipping("less_than %k, %m, signed"),
    "unsigned": kernel("less_than %k, %m, unsigned", holds="less_than %k, %hi, unsigned"),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize("name", SPLIT)
def test_products_behind_a_test_of_the_index_run_ahead(name: str, gpu_name: str) -> None:
    assert loops_ahead(SPLIT[name], gpu_name) == 2
    for bounds in ((0, 8, 3), (2, 7, 30), (3, 6, 1), (6, 2, 4)):
        assert right(SPLIT[name], bounds, gpu_name), bounds


@pytest.mark.parametrize(
    "text",
    [
        kernel("less_than %k, %m, unsigned"),  # -1 is below 8, and no number is below -1
        kernel("less_than_or_equal %k, %m, signed"),
        kernel("equal %k, %m, signed"),
        kernel().replace("%more = cmpi", "%low = subi %m, %k : tile<i32>\n%more = cmpi").replace("%k, %m", "%k, %low"),
    ],
)  # fmt: skip
def test_other_tests_stay(text: str) -> None:
    assert loops_ahead(text) == 1
    for bounds in ((0, 8, 3), (2, 7, -1)):
        assert right(text, bounds, "sm_90"), bounds
