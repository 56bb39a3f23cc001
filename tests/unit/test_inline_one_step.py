"""TileAAInlineOneStep: a loop of one step within a loop is none, where all that the outer one carries goes through it."""

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
    assert opt.main(["--pass", "ConvertCudaTileToTileAA,TileAAInlineOneStep", str(source)]) == 0
    return capsys.readouterr().out.count("nv_tileaa.for ")


LEAVES = f"if %flag {{ continue %u : {SUM} }}"


@pytest.mark.parametrize("steps", ["one", "two"])
def test_a_remark_names_the_loop_that_gives_way(steps: str) -> None:
    done: Any = tileiras.compile(
        kernel(f"%zero to %{steps}, step %one"), gpu_name="sm_90", emit="ptx", remarks={"passed": "all"}
    )
    said = [
        "the loop has one step: its body stands in the loop around it" in d.message for d in done.diagnostics
    ]
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
    ],
    ids=["one", "one_of_two", "two", "none", "unknown", "ends_early", "carries_more"],
)
def test_loops_of_one_step_in_a_loop(
    text: str, left: int, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    assert loops(text, capsys, tmp_path) == left
