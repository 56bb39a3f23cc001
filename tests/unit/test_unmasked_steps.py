"""TileASUnmaskedSteps: iterations in which a mask covers nothing run in a loop without it, and nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras
from tests.corpus.case import place
from tests.ptx_loops import loops_of

TARGETS = ["sm_80", "sm_90", "sm_100", "sm_120"]
ROWS = COLUMNS = DEPTH = 64
STEPS = 6
MASK, INDEX = f"tile<{ROWS}x{COLUMNS}xi1>", f"tile<{ROWS}x{COLUMNS}xi32>"
GREATEST, LEAST = 2**31 - 1, -(2**31)

# name: what is compared, the choice, and the numbers of the loops that come of it
MASKS: dict[str, tuple[str, str, int]] = {
    "below_an_end": (f"%m = cmpi less_than %c, %ns, signed : {INDEX} -> {MASK}", "%m, %s, %none", 2),
    "no_later_column": (
        f"%m = cmpi less_than_or_equal %c, %r, signed : {INDEX} -> {MASK}",
        "%m, %s, %none",
        2,
    ),
    "from_the_right": (
        f"%m = cmpi greater_than_or_equal %r, %c, signed : {INDEX} -> {MASK}",
        "%m, %s, %none",
        2,
    ),
    "later_ones_only": (f"%m = cmpi greater_than %c, %r, signed : {INDEX} -> {MASK}", "%m, %s, %none", 2),
    "later_ones_out": (f"%m = cmpi greater_than %c, %r, signed : {INDEX} -> {MASK}", "%m, %none, %s", 2),
    "distance": (
        f"%d = subi %r, %c : {INDEX}\n%m = cmpi greater_than_or_equal %d, %zeros, signed : {INDEX} -> {MASK}",
        "%m, %s, %none",
        2,
    ),
    "window": (
        f"%m1 = cmpi less_than_or_equal %c, %r, signed : {INDEX} -> {MASK}\n%d = subi %r, %c : {INDEX}\n"
        f"%m2 = cmpi less_than %d, %wide, signed : {INDEX} -> {MASK}\n%m = andi %m1, %m2 : {MASK}",
        "%m, %s, %none",
        3,
    ),
    "either_out": (
        f"%m1 = cmpi greater_than %c, %r, signed : {INDEX} -> {MASK}\n"
        f"%m2 = cmpi greater_than_or_equal %c, %ns, signed : {INDEX} -> {MASK}\n%m = ori %m1, %m2 : {MASK}",
        "%m, %none, %s",
        2,
    ),
    "both_of_one_choice_in": (
        f"%m1 = cmpi less_than %c, %ns, signed : {INDEX} -> {MASK}\n"
        f"%m2 = cmpi less_than %x1, %x2, signed : {INDEX} -> {MASK}\n%m = andi %m1, %m2 : {MASK}",
        "%m, %s, %none",
        2,
    ),
    "unlike": (f"%m = cmpi not_equal %c, %r, signed : {INDEX} -> {MASK}", "%m, %s, %none", 1),
    "without_a_sign": (f"%m = cmpi less_than %c, %ns, unsigned : {INDEX} -> {MASK}", "%m, %s, %none", 1),
}


def kernel(mask: str, choice: str) -> str:
    """Sums of what a mask leaves of a product's columns, 64 a step; %r: rows from %n on, %c: columns from %o on."""
    a, b = (
        f"tensor_view<{ROWS}x{DEPTH}xf16, strides=[{DEPTH},1]>",
        f"tensor_view<{DEPTH}x512xf16, strides=[512,1]>",
    )
    c, sums = f"tensor_view<{ROWS}x{COLUMNS}xf32, strides=[{COLUMNS},1]>", f"tile<{ROWS}x{COLUMNS}xf32>"
    at, bt, ct = (
        f"partition_view<tile=({m}x{n}), {view}>"
        for m, n, view in ((ROWS, DEPTH, a), (DEPTH, COLUMNS, b), (ROWS, COLUMNS, c))
    )
    return f"""
cuda_tile.module @m {{
  entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %y: tile<ptr<f32>>, %n: tile<i32>, %o: tile<i32>,
           %lo: tile<i32>, %hi: tile<i32>) {{
    %pa = assume div_by<16>, %a : tile<ptr<f16>>
    %pb = assume div_by<16>, %b : tile<ptr<f16>>
    %av = make_tensor_view %pa, shape = [{ROWS}, {DEPTH}], strides = [{DEPTH}, 1] : {a}
    %bv = make_tensor_view %pb, shape = [{DEPTH}, 512], strides = [512, 1] : {b}
    %cv = make_tensor_view %y, shape = [{ROWS}, {COLUMNS}], strides = [{COLUMNS}, 1] : {c}
    %at = make_partition_view %av : {at}
    %bt = make_partition_view %bv : {bt}
    %ct = make_partition_view %cv : {ct}
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %each = constant <i32: {COLUMNS}> : tile<i32>
    %none = constant <f32: 0.0> : {sums}
    %zeros = constant <i32: 0> : {INDEX}
    %wide = constant <i32: 150> : {INDEX}
    %ni = reshape %n : tile<i32> -> tile<1x1xi32>
    %ns = broadcast %ni : tile<1x1xi32> -> {INDEX}
    %lanes = iota : tile<64xi32>
    %down = reshape %lanes : tile<64xi32> -> tile<64x1xi32>
    %nc = broadcast %ni : tile<1x1xi32> -> tile<64x1xi32>
    %rows = addi %nc, %down : tile<64x1xi32>
    %r = broadcast %rows : tile<64x1xi32> -> {INDEX}
    %x, %t1 = load_view_tko weak %at[%zero, %zero] : {at}, tile<i32> -> tile<{ROWS}x{DEPTH}xf16>, token
    %sum = for %j in (%lo to %hi, step %one) : tile<i32> iter_values(%acc = %none) -> ({sums}) {{
      %w, %t2 = load_view_tko weak %bt[%zero, %j] : {bt}, tile<i32> -> tile<{DEPTH}x{COLUMNS}xf16>, token
      %s = mmaf %x, %w, %none : tile<{ROWS}x{DEPTH}xf16>, tile<{DEPTH}x{COLUMNS}xf16>, {sums}
      %p = muli %j, %each : tile<i32>
      %first = addi %p, %o : tile<i32>
      %fr = reshape %first : tile<i32> -> tile<1x1xi32>
      %fb = broadcast %fr : tile<1x1xi32> -> tile<1x64xi32>
      %across = reshape %lanes : tile<64xi32> -> tile<1x64xi32>
      %cr = addi %fb, %across : tile<1x64xi32>
      %c = broadcast %cr : tile<1x64xi32> -> {INDEX}
      %x1 = ftoi %s signed : {sums} -> {INDEX}
      %x2 = addi %x1, %zeros : {INDEX}
      {mask}
      %kept = select {choice} : {MASK}, {sums}
      %next = addf %acc, %kept : {sums}
      continue %next : {sums}
    }}
    %t4 = store_view_tko weak %sum, %ct[%zero, %zero] : {sums}, {ct}, tile<i32> -> token
    return
  }}
}}
"""


def expected(name: str, a: Any, b: Any, n: int, o: int, lo: int, hi: int) -> Any:
    out = np.zeros((ROWS, COLUMNS), np.float32)
    lanes = np.arange(64, dtype=np.int32)
    with np.errstate(over="ignore"):
        r = (np.int32(n) + lanes)[:, None]
        for j in range(lo, hi):
            s = a.astype(np.float32) @ b[:, j * 64 : j * 64 + 64].astype(np.float32)
            c = (np.int32(o) + np.int32(j) * np.int32(64) + lanes)[None, :]
            keep = {
                "below_an_end": c < n, "no_later_column": c <= r, "from_the_right": r >= c, "later_ones_only": c > r,
                "later_ones_out": ~(c > r), "distance": r - c >= 0, "window": (c <= r) & (r - c < 150),
                "either_out": ~((c > r) | (c >= n)), "both_of_one_choice_in": (c < n) & (s < s), "unlike": c != r,
                "without_a_sign": c.astype(np.uint32) < np.uint32(n & 0xFFFFFFFF),
            }[name]  # fmt: skip
            out += np.where(keep, s, np.float32(0))
    return out


# (%n, %o, %lo, %hi): ends inside of a step, at one, in front of all and behind; beginnings; numbers that wrap
NUMBERS = [
    (200, 0, 0, STEPS), (192, 0, 0, STEPS), (-100, 0, 0, STEPS), (1000, 0, 0, STEPS), (160, 0, 2, STEPS), (130, -77, 1, STEPS),
    (100, 0, 3, 3), (GREATEST - 20, 0, 0, STEPS), (GREATEST - 100, GREATEST - 200, 0, STEPS), (LEAST + 5, LEAST, 0, STEPS),
    (300, GREATEST - 130, 0, STEPS), (LEAST, 64, 0, 2), (-5, LEAST + 100, 0, STEPS),
]  # fmt: skip


@pytest.mark.sampled(24)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", MASKS)
def test_sums_of_what_is_left(name: str, target: str) -> None:
    mask, choice, _ = MASKS[name]
    program = tileiras.compile(kernel(mask, choice), gpu_name=target, emit="ptx")
    rng = np.random.default_rng(7)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((ROWS, DEPTH), (DEPTH, 512)))
    few = name not in ("below_an_end", "window", "later_ones_only") or target != "sm_80"
    for numbers in NUMBERS[:: 4 if few else 1]:
        y = place(np.full((ROWS, COLUMNS), -1, np.float32))
        args = [place(a), place(b), y, *map(np.int32, numbers)]
        tileiras.launch(program, "k", 1, args, target="emulator", gpu_name=target, check=True)
        np.testing.assert_array_equal(y, expected(name, a, b, *numbers), str(numbers))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", MASKS)
def test_one_loop_compares_nothing(name: str, target: str) -> None:
    mask, choice, count = MASKS[name]
    ptx = tileiras.compile(kernel(mask, choice), gpu_name=target, emit="ptx").ptx
    word = {"sm_90": "wgmma.mma_async", "sm_100": "tcgen05.mma"}.get(target, "mma.sync")
    chosen = ["selp.f32" in loop for loop in loops_of(ptx) if word in loop]
    assert len(chosen) == count
    assert chosen.count(False) == (count > 1 and name != "both_of_one_choice_in")


def test_a_loop_that_goes_on_with_anothers_sums_stays_one() -> None:
    """Who writes two loops has told masked steps from the others already: in the second one nearly all are masked."""
    mask, choice, _ = MASKS["below_an_end"]
    text = kernel(mask, choice)
    start, end = text.index("    %sum = for"), text.index("    %t4 = store_view_tko")
    loop = text[start:end]
    plain = loop.replace("%sum =", "%part =").replace(f"select {choice}", "select %m, %s, %s")
    behind = loop.replace("%acc = %none", "%acc = %part")
    text = text[:start] + plain + behind + text[end:]
    ptx = tileiras.compile(text, gpu_name="sm_90", emit="ptx").ptx
    assert sum("wgmma.mma_async" in loop for loop in loops_of(ptx)) == 2
