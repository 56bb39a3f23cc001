"""TileAAInlineOneStep: a loop of one step is none where each product is left in a loop."""

from __future__ import annotations

from typing import Any

import pytest

import tileiras
from tileiras.tools import opt

SUM = "tile<64x64xf32>"
SIDE = "tile<64x64xf16>"


def kernel(bounds: str, carried: str = "", more: str = "") -> str:
    """A loop over taps with a loop over channels in it; `carried`: what the outer one carries besides."""
    kind = f"({SUM}, tile<i32>)" if carried else f"({SUM})"
    init = f"%s = %none{carried}"
    both = ", %next : " + SUM + ", tile<i32>" if carried else f" : {SUM}"
    return f"""cuda_tile.module @m {{
  entry @k(%p: tile<ptr<i32>>, %n: tile<i32>, %flag: tile<i1>) {{
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %two = constant <i32: 2> : tile<i32>
    %none = constant <f32: 0.0> : {SUM}
    %x = constant <f16: 1.0> : {SIDE}
    %all{":2" if carried else ""} = for %t in (%zero to %n, step %one) : tile<i32> iter_values({init}) -> {kind} {{
      %r = for %c in ({bounds}) : tile<i32> iter_values(%u = %s) -> ({SUM}) {{
        {more}
        %n1 = mmaf %x, %x, %u : {SIDE}, {SIDE}, {SUM}
        continue %n1 : {SUM}
      }}
      {"%next = addi %m, %one : tile<i32>" if carried else ""}
      continue %r{both}
    }}
    return
  }}
}}"""


def loops(text: str, capsys: pytest.CaptureFixture[str], tmp_path: Any) -> int:
    source = tmp_path / "k.tileir"
    source.write_text(text)
    passes = "ConvertCudaTileToTileAA,TileAAInlineOneStep"
    assert opt.main(["--pass", passes, "--gpu-name", "sm_100", str(source)]) == 0
    return capsys.readouterr().out.count("nv_tileaa.for ")


def around(bounds: str, within: str = "") -> str:
    """A loop over heads of queries with a loop over their rows in it; `within`: what the outer one has besides."""
    return f"""cuda_tile.module @m {{
  entry @k(%p: tile<ptr<i32>>, %n: tile<i32>, %flag: tile<i1>) {{
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %two = constant <i32: 2> : tile<i32>
    %none = constant <f32: 0.0> : {SUM}
    %x = constant <f16: 1.0> : {SIDE}
    %all = for %g in ({bounds}) : tile<i32> iter_values(%s = %none) -> ({SUM}) {{
      {within or "%s1 = addf %s, %s : " + SUM}
      %first = addi %g, %one : tile<i32>
      %r = for %i in (%first to %n, step %one) : tile<i32> iter_values(%u = %s1) -> ({SUM}) {{
        %n1 = mmaf %x, %x, %u : {SIDE}, {SIDE}, {SUM}
        continue %n1 : {SUM}
      }}
      continue %r : {SUM}
    }}
    return
  }}
}}"""


PRODUCT = f"%s1 = mmaf %x, %x, %s : {SIDE}, {SIDE}, {SUM}"
LEAVES = f"if %flag {{ continue %u : {SUM} }}"


@pytest.mark.parametrize("steps", ["one", "two"])
def test_a_remark_names_the_loop_that_gives_way(steps: str) -> None:
    done: Any = tileiras.compile(
        kernel(f"%zero to %{steps}, step %one"), gpu_name="sm_90", emit="ptx", remarks={"passed": "all"}
    )
    said = ["the loop has one step: its body stands in its place" in d.message for d in done.diagnostics]
    assert said.count(True) == (steps == "one")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (kernel("%zero to %one, step %one"), 1),
        (kernel("%one to %two, step %two"), 1),
        (kernel("%zero to %two, step %one"), 2),  # two steps
        (kernel("%one to %one, step %one"), 2),  # none
        (kernel("%zero to %n, step %one"), 2),
        (kernel("%zero to %one, step %one", more=LEAVES), 2),  # a step that may end early
        (kernel("%zero to %one, step %one", carried=", %m = %zero"), 2),  # the outer one carries more
        (around("%zero to %one, step %one"), 1),
        (around("%two to %one, step %one"), 2),  # none
        (around("%zero to %two, step %one"), 2),  # two steps
        (around("%zero to %one, step %one", PRODUCT), 2),  # a product that stands in no other loop
    ],
    ids=[
        "one",
        "one_of_two",
        "two",
        "none",
        "unknown",
        "ends_early",
        "carries_more",
        "around_one",
        "around_none",
        "around_two",
        "around_and_a_product",
    ],
)
def test_loops_of_one_step_in_a_loop(
    text: str, left: int, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    assert loops(text, capsys, tmp_path) == left
