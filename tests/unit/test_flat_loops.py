"""TileAANestTiles: loops over the steps of all tiles become a loop over tiles around one over steps, and only those."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras
from tests.corpus.case import place
from tileiras.compiler.pipeline import compile_module
from tileiras.compiler.source import load_text
from tileiras.compiler.target import sm
from tileiras.diag import Sink

TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")
F32, I32 = "tile<64x64xf32>", "tile<i32>"
AT = "partition_view<tile=(64x32), padding_value = zero, tensor_view<192x?xf16, strides=[?,1]>>"
BT = "partition_view<tile=(32x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>"
CT = "partition_view<tile=(64x64), tensor_view<192x64xf32, strides=[64,1]>>"
DEPTH, TILES = 3, 3
NEXT = "%next = addi %k, %one : tile<i32>\n      %ends = cmpi {test}, signed : tile<i32> -> tile<i1>"
EQUAL = NEXT.format(test="equal %next, %n")


def kernel(
    test: str = EQUAL, start: str = "%zero", again: str = "", stay: str = "%next", work: str = "", store: str = "",
    jump: str = "%r#1", other: bool = False, seen: str = "%zero", lower: str = "%zero", token: str = "%u",
) -> str:  # fmt: skip
    types = f"{F32}, {I32}, {I32}, token"
    ends = f"""%stored = store_view_tko weak %z, %ct[%t, %zero] token={token} : {F32}, {CT}, tile<i32> -> token
        {store}
        %far = addi %t, %one : tile<i32>
        yield %none, {again or start}, %far, %stored : {types}"""
    goes = f"yield %z, {stay}, %t, %u : {types}"
    first, second = (goes, ends) if other else (ends, goes)
    return f"""cuda_tile.module @m {{
  entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %out: tile<ptr<i32>>, %n: tile<i32>, %total: tile<i32>) {{
    %pa = assume div_by<16>, %a : tile<ptr<f16>>
    %pb = assume div_by<16>, %b : tile<ptr<f16>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %two = constant <i32: 2> : tile<i32>
    %extent = constant <i32: {32 * DEPTH}> : tile<i32>
    %last = subi %n, %one : tile<i32>
    %av = make_tensor_view %pa, shape = [192, %extent], strides = [%extent, 1] :
      tile<i32> -> tensor_view<192x?xf16, strides=[?,1]>
    %bv = make_tensor_view %pb, shape = [%extent, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf16, strides=[64,1]>
    %cv = make_tensor_view %c, shape = [192, 64], strides = [64, 1] : tensor_view<192x64xf32, strides=[64,1]>
    %at = make_partition_view %av : {AT}
    %bt = make_partition_view %bv : {BT}
    %ct = make_partition_view %cv : {CT}
    %none = constant <f32: 0.0> : {F32}
    %v = make_token : token
    %all:4 = for %i in ({lower} to %total, step %one) : tile<i32>
        iter_values(%acc = %none, %k = {start}, %t = %zero, %u = %v) -> ({types}) {{
      %x, %t1 = load_view_tko weak %at[%t, %k] token=%v : {AT}, tile<i32> -> tile<64x32xf16>, token
      %y, %t2 = load_view_tko weak %bt[%k, %zero] token=%v : {BT}, tile<i32> -> tile<32x64xf16>, token
      %z = mmaf %x, %y, %acc : tile<64x32xf16>, tile<32x64xf16>, {F32}
      {work}
      {test}
      %r:4 = if %ends -> ({types}) {{
        {first}
      }} else {{
        {second}
      }}
      continue %r#0, {jump}, %r#2, %r#3 : {types}
    }}
    %t3 = store_ptr_tko weak %out, {seen} : tile<ptr<i32>>, tile<i32> -> token
    return
  }}
}}
"""


def launched(text: str, n: int, total: int, target: str, **more: Any) -> tuple[Any, int]:
    rng = np.random.default_rng(5)
    values = [
        *(
            place(rng.integers(-2, 3, shape).astype(np.float16))
            for shape in ((192, 32 * DEPTH), (32 * DEPTH, 64))
        ),
        place(np.full((192, 64), 0.5, np.float32)),
        place(np.zeros(1, np.int32)),
        n,
        total,
    ]
    tileiras.launch(text, "k", grid=(1, 1, 1), args=values, target=target, **more)
    return values[2], int(values[3][0])


def is_nest(text: str, gpu_name: str = "sm_90") -> bool:
    """Whether the loop is one over tiles around one over steps, behind the pass."""
    depths: list[int] = []

    def after(name: str, module: Any) -> None:
        if name == "TileAANestTiles":
            loops = [op for op in module.walk() if op.spec.name == "for"]
            depths.append(sum(loop.parent.spec.name == "for" for loop in loops))

    sink = Sink()
    compile_module(load_text(text, sink, "k.mlir"), sm.find(gpu_name), sink, after=after)
    return depths == [1]


SELECTED = EQUAL + "\n      %begins = select %ends, %zero, %next : tile<i1>, tile<i32>"
BRANCHES: dict[str, dict[str, Any]] = {
    "equal": {},
    "turned": {"test": NEXT.format(test="equal %n, %next")},
    "last": {"test": NEXT.format(test="equal %k, %last")},
    "not_equal": {"test": NEXT.format(test="not_equal %next, %n"), "other": True},
    "least": {"test": NEXT.format(test="greater_than_or_equal %next, %n")},
    "less": {"test": NEXT.format(test="less_than %next, %n"), "other": True},
    "above": {"test": NEXT.format(test="greater_than %next, %last")},
    "at_least_the_last": {"test": NEXT.format(test="greater_than_or_equal %k, %last")},
    "up_to_the_last": {"test": NEXT.format(test="less_than_or_equal %next, %last"), "other": True},
    "from_one": {"start": "%one"},
    "selected": {"test": SELECTED, "jump": "%begins"},
    "later": {"lower": "%one"},
    "both_counters": {"work": "%o = addi %i, %k : tile<i32>\n      %o2 = muli %o, %t : tile<i32>",
                      "store": "%t5 = store_ptr_tko weak %out, %o2 : tile<ptr<i32>>, tile<i32> -> token"},
    "behind_loads": {"work": "%t4 = join_tokens %t1, %t2, %u : token", "token": "%t4"},
    "tiles_asked_for": {"seen": "%all#2"},
}  # fmt: skip


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", BRANCHES)
def test_each_form_is_a_nest_and_gives_what_the_reference_gives(name: str) -> None:
    text = kernel(**BRANCHES[name])
    assert is_nest(text)
    for number, (n, total) in enumerate(
        [(DEPTH, DEPTH * TILES), (1, 3), (DEPTH, 7), (DEPTH, 2), (2, 4), (0, 5), (-1, 4), (DEPTH, 0), (DEPTH, -9),
         (2**31 - 1, 4), (-(2**31), 4)]
    ):  # fmt: skip
        gpu = TARGETS[number % len(TARGETS)]
        total = min(total, TILES) if n < 2 else total  # every step may end a tile
        got = launched(text, n, total, "emulator", gpu_name=gpu, check=True, seed=number)
        want = launched(text, n, total, "reference")
        assert np.array_equal(got[0], want[0]) and got[1] == want[1], (n, total, gpu)
        if (n, total) == (DEPTH, DEPTH * TILES):
            assert (want[0][: 64 * (TILES - 1)] != 0.5).all()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu_name", TARGETS)
def test_loads_run_ahead(gpu_name: str) -> None:
    program = tileiras.compile(kernel(), gpu_name=gpu_name, remarks={"passed": "memory", "missed": "memory"})
    said = {found.diag.code for found in program.diagnostics}
    assert "AS-0307" in said and "AS-0320" not in said
    if gpu_name == "sm_90":
        assert "wgmma.mma_async" in program.ptx
    got = launched(kernel(), DEPTH, DEPTH * TILES, "emulator", gpu_name=gpu_name, check=True, seed=1)
    assert np.array_equal(got[0], launched(kernel(), DEPTH, DEPTH * TILES, "reference")[0])


@pytest.mark.parametrize(
    "more",
    [
        {"seen": "%all#1"},  # the steps of a tile that did not end
        {"again": "%one"},  # the first tile has one step more
        {"stay": "%far2", "work": "%far2 = addi %k, %two : tile<i32>"},
        {"work": "%t4 = store_ptr_tko weak %out, %k : tile<ptr<i32>>, tile<i32> -> token"},  # every step is seen
        {"work": "%m = addi %n, %t : tile<i32>", "test": NEXT.format(test="equal %next, %m")},
        {"test": "%next = addi %k, %one : tile<i32>\n      %ends = cmpi less_than %next, %n, signed : tile<i32> -> tile<i1>"},
        {"start": "%one", "test": NEXT.format(test="greater_than_or_equal %next, %n")},
    ],
)  # fmt: skip
def test_other_loops_stay(more: dict[str, Any]) -> None:
    text = kernel(**more)
    assert not is_nest(text)
    got = launched(text, DEPTH, 3, "emulator", gpu_name="sm_90", check=True)
    want = launched(text, DEPTH, 3, "reference")
    assert np.array_equal(got[0], want[0]) and got[1] == want[1]


def test_a_loop_at_the_end_of_a_tile() -> None:
    """It goes where the tile ends, once; the pass does not look at what is no longer there."""
    store = """%t5 = for %j in (%zero to %two, step %one) : tile<i32> iter_values(%w = %v) -> (token) {
          %o = addi %t, %j : tile<i32>
          %t6 = store_ptr_tko weak %out, %o token=%w : tile<ptr<i32>>, tile<i32> -> token
          continue %t6 : token
        }"""
    behind = "%t3 = store_ptr_tko weak %out, %zero : tile<ptr<i32>>, tile<i32> -> token"
    text = kernel(store=store).replace(behind, "")
    got = launched(text, DEPTH, DEPTH * TILES, "emulator", gpu_name="sm_90", check=True)
    want = launched(text, DEPTH, DEPTH * TILES, "reference")
    assert np.array_equal(got[0], want[0]) and got[1] == want[1] == TILES
