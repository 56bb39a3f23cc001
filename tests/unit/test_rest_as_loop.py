"""TileAARestAsLoop: the rest of K, or of the keys, in a branch behind a loop multiplies where the loop does."""

from __future__ import annotations

import re
from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import tileiras
from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES

RESTS = [name for name, case in CASES.items() if case.family == "rest"]
OWN = {"sm_90": "wgmma.mma_async", "sm_100": "tcgen05.mma."}
SUM = "tile<128x64xf32>"
VIEW = "partition_view<tile=({0}), tensor_view<{1}xf16, strides=[{2},1]>>"
LEFT, RIGHT = VIEW.format("128x64", "128x1024", 1024), VIEW.format("64x64", "1024x64", 64)


def step(at: str, sums: str) -> str:
    return f"""
      %x, %tx = load_view_tko weak %a[%zero, {at}] token = %t : {LEFT}, tile<i32> -> tile<128x64xf16>, token
      %y, %ty = load_view_tko weak %b[{at}, %zero] token = %t : {RIGHT}, tile<i32> -> tile<64x64xf16>, token
      %next = mmaf %x, %y, {sums} : tile<128x64xf16>, tile<64x64xf16>, {SUM}"""


def kernel(rest: str, given: str = "%whole") -> str:
    """A product of %n steps, and a branch behind its loop."""
    return f"""cuda_tile.module @m {{
  entry @k(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %pc: tile<ptr<f32>>, %n: tile<i32>, %more: tile<i1>) {{
    %qa = assume div_by<16>, %pa : tile<ptr<f16>>
    %qb = assume div_by<16>, %pb : tile<ptr<f16>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %va = make_tensor_view %qa, shape = [128, 1024], strides = [1024, 1] : tensor_view<128x1024xf16, strides=[1024,1]>
    %vb = make_tensor_view %qb, shape = [1024, 64], strides = [64, 1] : tensor_view<1024x64xf16, strides=[64,1]>
    %vc = make_tensor_view %pc, shape = [128, 64], strides = [64, 1] : tensor_view<128x64xf32, strides=[64,1]>
    %a = make_partition_view %va : {LEFT}
    %b = make_partition_view %vb : {RIGHT}
    %c = make_partition_view %vc : partition_view<tile=(128x64), tensor_view<128x64xf32, strides=[64,1]>>
    %none = constant <f32: 0.0> : {SUM}
    %t = make_token : token
    %whole = for %j in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> ({SUM}) {{
      {step("%j", "%acc")}
      continue %next : {SUM}
    }}
    %all = if %more -> ({SUM}) {{
      {rest}
    }} else {{
      yield {given} : {SUM}
    }}
    %u = store_view_tko weak %all, %c[%zero, %zero] token = %t
      : {SUM}, partition_view<tile=(128x64), tensor_view<128x64xf32, strides=[64,1]>>, tile<i32> -> token
    return
  }}
}}"""


def ptx(source: Any, gpu_name: str) -> str:
    return tileiras.compile(source, gpu_name=gpu_name, launch_abi="simt", emit="ptx").ptx


@pytest.mark.parametrize("gpu_name", OWN)
@pytest.mark.parametrize("name", RESTS)
def test_the_rest_has_the_instruction_of_the_loop(name: str, gpu_name: str) -> None:
    found = ptx(str(bytecode_path(CASES[name])), gpu_name)
    assert OWN[gpu_name] in found and "mma.sync" not in found


TURNED = f"yield %whole : {SUM} }} else {{ {step('%n', '%whole')}\n yield %next"


@pytest.mark.parametrize(
    ("rest", "given"),
    [(f"{step('%n', '%whole')}\n yield %next : {SUM}", "%whole"), (TURNED + f" : {SUM}", None)],
    ids=["then", "else"],
)
def test_either_side_may_be_the_one_that_works(rest: str, given: str | None) -> None:
    text = kernel(rest, given or "")
    if given is None:
        text = re.sub(r"\}\s*else \{\s*yield  :[^}]*\}", "}", text)
    assert "mma.sync" not in ptx(text, "sm_90")


@pytest.mark.parametrize(
    ("rest", "given", "moved"),
    [
        (f"{step('%n', '%whole')}\n yield %next : {SUM}", "%whole", True),
        (f"{step('%n', '%whole')}\n yield %next : {SUM}", "%none", False),
        (f"%next = addf %whole, %whole : {SUM}\n yield %next : {SUM}", "%whole", False),
    ],
    ids=["rest", "other_sums", "no_product"],
)
def test_only_what_goes_on_with_the_sums_is_a_loop(rest: str, given: str, moved: bool) -> None:
    said: list[Any] = tileiras.compile(
        kernel(rest, given), gpu_name="sm_90", launch_abi="simt", emit="ptx", remarks="all"
    ).diagnostics
    assert any("at most one step" in str(d) for d in said) == moved
