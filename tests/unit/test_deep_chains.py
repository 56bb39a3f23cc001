"""Chains of thousands of ops, as generators of programs write them, compile on every target.

Each is put into a product's loop: between a load and the product, into indices, extents, bounds and what the loop carries. A
function that follows operands by calling itself ends in a RecursionError here, one that follows shared operands twice never.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

import tileiras
from tests.fixtures import BYTECODE
from tileiras.compiler.schedule import candidates, lookups, refusal

N = 3000
BASE = str(tileiras.load(BYTECODE / "staged_f16_nt.tilebc"))
T, S, B = "tile<64x32xf16>", "tile<i32>", "tile<i1>"


def chain(start: str, step: Callable[[str, str, int], str]) -> tuple[str, str]:
    """N steps, each made of the name it defines, the one before and its number; the lines, and the last name."""
    out, previous = [], start
    for i in range(N):
        out.append(step(f"%c{i}", previous, i))
        previous = f"%c{i}"
    return "\n".join(out), previous


def after(text: str, mark: str, lines: str, old: str, new: str) -> str:
    """The text with lines behind the first one that has a mark, and the first `old` behind them replaced."""
    head, tail = text.split(mark, 1)
    line, rest = tail.split("\n", 1)
    return head + mark + line + "\n" + lines + "\n" + rest.replace(old, new, 1)


Step = Callable[[str, str, int], str]


def on_tile(step: Step) -> str:
    """A chain on the tile that is the product's right operand, once it is turned."""
    lines, end = chain("%tile", step)
    return after(BASE, "%tile, %result_token = load", lines, "permute %tile ", f"permute {end} ")


def at_depth(step: Step) -> str:
    """A chain on the loop's number, which is where the right operand's load reads."""
    lines, end = chain("%loopIdx", step)
    old, new = "%pview_35[%blockId_y_32, %loopIdx]", f"%pview_35[%blockId_y_32, {end}]"
    return after(BASE, "iter_values(%iterArg0", lines, old, new)


K: dict[str, Callable[[], str]] = {}


def case(function: Callable[[], str]) -> Callable[[], str]:
    K[function.__name__] = function
    return function


@case
def elementwise() -> str:
    return on_tile(lambda c, p, i: f"{c} = negf {p} : {T}")


@case
def elementwise_shared() -> str:
    return on_tile(lambda c, p, i: f"{c} = maxf {p}, {p} : {T}")


@case
def conditions() -> str:
    return on_tile(
        lambda c, p, i: (
            f"{c}p = cmpf less_than ordered {p}, %tile : {T} -> tile<64x32xi1>\n"
            f"{c} = select {c}p, {p}, %tile : tile<64x32xi1>, {T}"
        ),
    )


@case
def casts() -> str:
    return on_tile(
        lambda c, p, i: f"{c}w = ftof {p} : {T} -> tile<64x32xf32>\n{c} = ftof {c}w : tile<64x32xf32> -> {T}",
    )


@case
def left_operand() -> str:
    """What is computed on an operand from a ring is computed in slices of K."""
    type = "tile<128x32xf16>"
    lines, end = chain("%tile_38", lambda c, p, i: f"{c} = negf {p} : {type}")
    return after(BASE, "%tile_38, %result_token_39 = load", lines, "mmaf %tile_38,", f"mmaf {end},")


def masked(step: Step) -> str:
    """The tile where a chain on the numbers of its rows is small: cheap to compute again in another layout."""
    rows = """%rows = iota : tile<64xi32>
%column = reshape %rows : tile<64xi32> -> tile<64x1xi32>
%start = broadcast %column : tile<64x1xi32> -> tile<64x32xi32>
%one = constant <i32: 1> : tile<64x32xi32>
%few = constant <i32: 7> : tile<64x32xi32>
%zero = constant <f16: 0.0> : tile<64x32xf16>"""
    lines, end = chain("%start", step)
    mask = f"%mask = cmpi less_than {end}, %few, signed : tile<64x32xi32> -> tile<64x32xi1>"
    chosen = f"%chosen = select %mask, %tile, %zero : tile<64x32xi1>, {T}"
    lines = "\n".join((rows, lines, mask, chosen))
    return after(BASE, "%tile, %result_token = load", lines, "permute %tile ", "permute %chosen ")


@case
def row_numbers() -> str:
    return masked(lambda c, p, i: f"{c} = addi {p}, %one : tile<64x32xi32>")


@case
def row_numbers_shared() -> str:
    return masked(lambda c, p, i: f"{c} = muli {p}, {p} : tile<64x32xi32>")


@case
def permutes() -> str:
    return on_tile(
        lambda c, p, i: (
            f"{c}w = permute {p} [1, 0] : {T} -> tile<32x64xf16>\n{c} = permute {c}w [1, 0] : tile<32x64xf16> -> {T}"
        ),
    )


@case
def reshapes() -> str:
    return on_tile(
        lambda c, p, i: (
            f"{c}w = reshape {p} : {T} -> tile<2048xf16>\n{c} = reshape {c}w : tile<2048xf16> -> {T}"
        ),
    )


@case
def row_index() -> str:
    lines, end = chain("%blockId_y_32", lambda c, p, i: f"{c} = addi {p}, %blockId_x : tile<i32>")
    return after(BASE, "%blockId_x_31, ", lines, "%pview_35[%blockId_y_32,", f"%pview_35[{end},")


@case
def row_index_shared_in_loop() -> str:
    lines, end = chain(
        "%blockId_y_32",
        lambda c, p, i: (
            f"{c} = xori {p}, {p} : tile<i32>" if i % 7 == 6 else f"{c} = addi {p}, {p} : tile<i32>"
        ),
    )
    return after(BASE, "iter_values(%iterArg0", lines, "%pview_35[%blockId_y_32,", f"%pview_35[{end},")


@case
def depth_index() -> str:
    return at_depth(lambda c, p, i: f"{c} = addi {p}, %blockId_x : tile<i32>")


@case
def depth_index_selects() -> str:
    return at_depth(
        lambda c, p, i: (
            f"{c}p = cmpi less_than {p}, %blockId_x, signed : {S} -> {B}\n{c} = select {c}p, {p}, %loopIdx : {B}, {S}"
        ),
    )


@case
def extents() -> str:
    lines, end = chain("%arg1", lambda c, p, i: f"{c} = addi {p}, %arg4 : tile<i32>")
    t = BASE.replace("shape = [%assume_assume_assume,", "shape = [%cN,")
    return after(t, "%assume_10 = assume", lines, "%cN", end)


@case
def extents_assumed() -> str:
    lines, end = chain("%arg1", lambda c, p, i: f"{c} = assume bounded<0, ?>, {p} : tile<i32>")
    t = BASE.replace("shape = [%assume_assume_assume,", "shape = [%cN,")
    return after(t, "%assume_10 = assume", lines, "%cN", end)


@case
def base_pointer() -> str:
    lines, end = chain(
        "%arg0", lambda c, p, i: f"{c} = offset {p}, %arg4 : tile<ptr<f16>>, tile<i32> -> tile<ptr<f16>>"
    )
    return after(BASE, "%assume_10 = assume", lines, "make_tensor_view %assume,", f"make_tensor_view {end},")


@case
def bound() -> str:
    lines, end = chain("%1#1", lambda c, p, i: f"{c} = mini {p}, %arg4 signed : tile<i32>")
    return after(BASE, "%1:2 = get_index", lines, "to %1#1,", f"to {end},")


@case
def sums() -> str:
    A = "tile<128x64xf32>"
    lines, end = chain("%5", lambda c, p, i: f"{c} = mulf {p}, {p} : {A}")
    return after(BASE, "%5 = mmaf", lines, "continue %5", f"continue {end}")


@case
def epilogue() -> str:
    A = "tile<128x64xf16>"
    lines, end = chain("%2", lambda c, p, i: f"{c} = mulf {p}, {p} : {A}")
    return after(BASE, "%2 = ftof", lines, "weak %2", f"weak {end}")


@case
def tokens() -> str:
    lines, end = chain("%0", lambda c, p, i: f"{c} = join_tokens {p}, %0 : token")
    return after(
        BASE,
        "%assume_10 = assume",
        lines,
        "%pview_35[%blockId_y_32, %loopIdx] token = %0",
        f"%pview_35[%blockId_y_32, %loopIdx] token = {end}",
    )


@case
def ifs() -> str:
    return at_depth(
        lambda c, p, i: (
            f"{c}p = cmpi less_than {p}, %blockId_x, signed : {S} -> {B}\n"
            f"{c} = if {c}p -> ({S}) {{ yield {p} : {S} }} else {{ yield %loopIdx : {S} }}"
        ),
    )


@case
def loops() -> str:
    lines, end = chain(
        "%blockId_y_32",
        lambda c, p, i: (
            f"{c} = for %i{i} in (%cst_0_i32 to %1#1, step %cst_1_i32_34) : {S} iter_values(%v{i} = {p}) -> ({S}) {{\n"
            f"%w{i} = addi %v{i}, %i{i} : {S}\n continue %w{i} : {S} }}"
        ),
    )
    return after(BASE, "%pview_36 = make", lines, "%pview_35[%blockId_y_32,", f"%pview_35[{end},")


TARGETS = ("sm_80", "sm_90", "sm_90 maps", "sm_100", "sm_120")


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", K)
def test_a_long_chain_compiles(name: str) -> None:
    """On one target in the quick tier, by turns."""
    compiled(name, TARGETS[list(K).index(name) % len(TARGETS)])


def test_many_renames_between_a_load_and_its_product_compile() -> None:
    """They once ended the compiler, where it looks for loads of the same tile, and no sample had them."""
    compiled("permutes", "sm_80")


@pytest.mark.full
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", K)
def test_a_long_chain_compiles_on_every_target(name: str, target: str) -> None:
    compiled(name, target)


def compiled(name: str, target: str) -> None:
    gpu_name, _, maps = target.partition(" ")
    more = {"launch_abi": "simt", "tensor_maps": "launcher"} if maps else {}
    text = "cuda_tile.module" + K[name]().split("cuda_tile.module", 1)[1]
    assert ".entry" in tileiras.compile(text.encode(), gpu_name, emit="ptx", **more).ptx


def many_loads(count: int) -> str:
    """A loop with one product and so many loads of four numbers, each of which may be an index of another."""
    view = "tensor_view<1048576xi32, strides=[1]>"
    tiles = f"partition_view<tile=(4), {view}>"
    square = "tensor_view<16x16xf32, strides=[16, 1]>"
    lines, total = [], "%c"
    for i in range(count):
        lines += [
            f"%k{i} = constant <i32: {i}> : tile<i32>", f"%j{i} = addi %i, %k{i} : tile<i32>",
            f"%x{i}, %t{i} = load_view_tko weak %w[%j{i}] : {tiles}, tile<i32> -> tile<4xi32>, token",
            f"%s{i} = addi {total}, %x{i} : tile<4xi32>",
        ]  # fmt: skip
        total = f"%s{i}"
    body = "\n".join(lines)
    return f"""cuda_tile.module @m {{ entry @k(%p: tile<ptr<i32>>, %o: tile<ptr<f32>>, %n: tile<i32>) {{
  %z = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %none = constant <i32: 0> : tile<4xi32>
  %sum = constant <f32: 0.0> : tile<16x16xf32>
  %a = constant <f16: 1.0> : tile<16x16xf16>
  %v = make_tensor_view %p, shape=[1048576], strides=[1] : {view}
  %w = make_partition_view %v : {tiles}
  %r, %q = for %i in (%z to %n, step %one) : tile<i32> iter_values(%c = %none, %acc = %sum) -> (tile<4xi32>, tile<16x16xf32>) {{
    {body}
    %m = mmaf %a, %a, %acc : tile<16x16xf16>, tile<16x16xf16>, tile<16x16xf32>
    continue {total}, %m : tile<4xi32>, tile<16x16xf32>
  }}
  %y = store_view_tko weak %r, %w[%z] : tile<4xi32>, {tiles}, tile<i32> -> token
  %ov = make_tensor_view %o, shape=[16, 16], strides=[16, 1] : {square}
  %ow = make_partition_view %ov : partition_view<tile=(16x16), {square}>
  %u = store_view_tko weak %q, %ow[%z, %z] : tile<16x16xf32>, partition_view<tile=(16x16), {square}>, tile<i32> -> token
  return }} }}"""


def test_which_loads_run_ahead_is_found_in_the_time_that_the_loop_is_long() -> None:
    asked = {module.__file__ for module in (candidates, lookups, refusal)}

    def steps(count: int) -> int:
        done = 0

        def line(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal done
            done += event == "line"
            return line

        def called(frame: FrameType, event: str, _: Any) -> Any:
            return line if frame.f_code.co_filename in asked else None

        before = sys.gettrace()
        sys.settrace(called)
        try:
            tileiras.compile(many_loads(count), gpu_name="sm_90", emit="ptx")
        finally:
            sys.settrace(before)
        return done

    assert steps(100) < steps(400) < 4.4 * steps(100)
