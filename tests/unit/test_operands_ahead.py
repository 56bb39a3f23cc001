"""TileAALoadWhereUsed: loops that carry the operands of the next step load them in the step that uses them, and only those."""

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
F32, X, Y = "tile<64x64xf32>", "tile<64x32xf16>", "tile<32x64xf16>"
AT = "partition_view<tile=(64x32), padding_value = zero, tensor_view<64x?xf16, strides=[128,1]>>"
BT = "partition_view<tile=(32x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>"
CT = "partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>"
DEPTH = 4


def load(name: str, token: str, tile: str, token_in: str = "%v") -> str:
    view, type = (AT, X) if tile == "x" else (BT, Y)
    place = "%zero, {}" if tile == "x" else "{}, %zero"
    at = "%at" if tile == "x" else "%bt"
    return f"{name}, {token} = load_view_tko weak {at}[{place}] token={token_in} : {view}, tile<i32> -> {type}, token"


def kernel(
    lower: str = "%one", k: str = "%i", first: str = "%zero", ahead: str = "xy", tail: bool = True, work: str = "",
    last: str = "%all#1, %all#2, %all#0", stored: str = "", before: str = "",
) -> str:  # fmt: skip
    """A product; `ahead`: which operands are loaded for the next step."""
    carried = {"x": (X, "%px", "%x1"), "y": (Y, "%py", "%y1")}
    begin = [load(carried[n][1], f"%t{n}", n).format(first) for n in ahead]
    inside = [load(carried[n][2], f"%u{n}", n).format("%k") for n in ahead]
    inside += [load(f"%{n}", f"%w{n}", n).format("%i") for n in "xy" if n not in ahead]
    types = ", ".join([F32, *(carried[n][0] for n in ahead)])
    iters = ", ".join(["%acc = %none", *(f"%{n} = {carried[n][1]}" for n in ahead)])
    line = "\n      "
    end = f"%sum = mmaf {last} : {X}, {Y}, {F32}" if tail else ""
    return f"""cuda_tile.module @m {{
  entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %n: tile<i32>) {{
    %pa = assume div_by<16>, %a : tile<ptr<f16>>
    %pb = assume div_by<16>, %b : tile<ptr<f16>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %two = constant <i32: 2> : tile<i32>
    %extent = constant <i32: {32 * DEPTH}> : tile<i32>
    %av = make_tensor_view %pa, shape = [64, %extent], strides = [128, 1] : tile<i32> -> tensor_view<64x?xf16, strides=[128,1]>
    %bv = make_tensor_view %pb, shape = [%extent, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf16, strides=[64,1]>
    %cv = make_tensor_view %c, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %at = make_partition_view %av : {AT}
    %bt = make_partition_view %bv : {BT}
    %ct = make_partition_view %cv : {CT}
    %none = constant <f32: 0.0> : {F32}
    %v = make_token : token
    {line.join(begin)}
    {before}
    %all:{len(ahead) + 1} = for %i in ({lower} to %n, step %one) : tile<i32> iter_values({iters}) -> ({types}) {{
      %k = addi {k}, %zero : tile<i32>
      {line.join(inside)}
      {work}
      %z = mmaf %x, %y, %acc : {X}, {Y}, {F32}
      continue {", ".join(["%z", *(carried[n][2] for n in ahead)])} : {types}
    }}
    {end}
    %done = store_view_tko weak {stored or ("%sum" if tail else "%all#0")}, %ct[%zero, %zero] token=%v : {F32}, {CT}, tile<i32> -> token
    return
  }}
}}
"""  # noqa: E501


def launched(text: str, n: int, target: str, **more: Any) -> Any:
    rng = np.random.default_rng(5)
    shapes = ((64, 32 * DEPTH), (32 * DEPTH, 64))
    values: list[Any] = [place(rng.integers(-2, 3, shape).astype(np.float16)) for shape in shapes]
    values += [place(np.full((64, 64), 0.5, np.float32)), n]
    tileiras.launch(text, "k", grid=(1, 1, 1), args=values, target=target, **more)
    return values[2]


def carries(text: str) -> bool:
    """Whether a loop carries an operand behind the pass."""
    found: list[bool] = []

    def after(name: str, module: Any) -> None:
        if name == "TileAALoadWhereUsed":
            (loop,) = [op for op in module.walk() if op.spec.name == "for"]
            found.append(any(getattr(r.type, "shape", ()) in ((64, 32), (32, 64)) for r in loop.results))

    sink = Sink()
    compile_module(load_text(text, sink, "k.mlir"), sm.find("sm_90"), sink, after=after)
    return found == [True]


NEXT = {"lower": "%zero", "tail": False}


def plus(text: str) -> str:
    """The load of a step is that of the next one: `%i + 1`."""
    return text.replace("%k = addi %i, %zero", "%k = addi %i, %one")


FORMS = {
    "tail": kernel(),
    "no_tail": plus(kernel(**NEXT)),
    "one_of_them": plus(kernel(**NEXT, ahead="y")),
    "the_other": plus(kernel(**NEXT, ahead="x")),
    "from_two": kernel(lower="%two", first="%one"),
}  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", FORMS)
def test_operands_are_loaded_where_they_are_used(name: str) -> None:
    text = FORMS[name]
    assert not carries(text)
    for number, n in enumerate((DEPTH, 1, 0, -1, -(2**31), 2, 3, 7)):
        gpu = TARGETS[number % len(TARGETS)]
        got = launched(text, n, "emulator", gpu_name=gpu, check=True, seed=number)
        assert np.array_equal(got, launched(text, n, "reference")), (n, gpu)


@pytest.mark.parametrize("gpu_name", TARGETS)
def test_their_copies_run_ahead(gpu_name: str) -> None:
    program = tileiras.compile(
        FORMS["tail"], gpu_name=gpu_name, remarks={"passed": "memory", "missed": "memory"}
    )
    said = {found.diag.code for found in program.diagnostics}
    assert "AS-0307" in said and "AS-0320" not in said
    got = launched(FORMS["tail"], DEPTH, "emulator", gpu_name=gpu_name, check=True, seed=1)
    assert np.array_equal(got, launched(FORMS["tail"], DEPTH, "reference")) and (got != 0.5).all()


def test_what_nobody_asks_for_has_no_step_more() -> None:
    """A carried row of another array ends where the loop does: one more would be read behind its end."""
    text = kernel().replace("%c: tile<ptr<f32>>, %n", "%c: tile<ptr<f32>>, %d: tile<ptr<f32>>, %n")
    text = text.replace("%all:3 =", "%all:4 =").replace("iter_values(%acc", "iter_values(%q = %d0, %acc")
    text = text.replace(f"-> ({F32}, {X}", f"-> (tile<f32>, {F32}, {X}").replace(f"{Y} :\n", f"{Y}\n")
    for n in (2, 1, 0):
        text = text.replace(f"%all#{n}", f"%all#{n + 1}")
    text = text.replace("continue %z, %x1, %y1 : ", "continue %q1, %z, %x1, %y1 : tile<f32>, ")
    text = text.replace(
        "%z = mmaf",
        """%place = offset %d, %i : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
      %q1, %tq = load_ptr_tko weak %place : tile<ptr<f32>> -> tile<f32>, token
      %z = mmaf""",
    ).replace("%v = make_token : token", "%v = make_token : token\n    %d0 = constant <f32: 0.0> : tile<f32>")
    assert not carries(text)
    rng = np.random.default_rng(5)
    shapes = ((64, 32 * DEPTH), (32 * DEPTH, 64))
    outcomes = []
    for target in ("emulator", "reference"):
        values: list[Any] = [place(rng.integers(-2, 3, shape).astype(np.float16)) for shape in shapes]
        values += [place(np.zeros((64, 64), np.float32)), place(np.zeros(DEPTH, np.float32)), DEPTH]
        more = {"gpu_name": "sm_90", "check": True} if target == "emulator" else {}
        tileiras.launch(text, "k", grid=(1, 1, 1), args=values, target=target, **more)
        outcomes.append(values[2])
        rng = np.random.default_rng(5)
    assert np.array_equal(*outcomes) and outcomes[0].any()


OTHERS = {
    "another_first": kernel(first="%one"),
    "a_sum_beside": kernel(last="%all#1, %all#2, %none"),
    "both_asked_for": kernel(stored="%all#0"),
    "a_store_between": kernel(
        work=f"%tz = store_view_tko weak %acc, %ct[%zero, %zero] token=%v : {F32}, {CT}, tile<i32> -> token"
    ),
    "waited_for": kernel(
        before=f"%tz = store_view_tko weak %none, %ct[%zero, %zero] token=%tx : {F32}, {CT}, tile<i32> -> token"
    ),
    "waits_inside": kernel(work="%tz = join_tokens %ux, %v : token"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_loops_stay(name: str) -> None:
    text = OTHERS[name]
    assert carries(text)
    got = launched(text, DEPTH, "emulator", gpu_name="sm_90", check=True)
    assert np.array_equal(got, launched(text, DEPTH, "reference"))
