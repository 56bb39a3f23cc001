"""argmax and argmin: what chooses by two comparisons where numbers increase, as the body does by many; and where they do not."""

from __future__ import annotations

import itertools
import re

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras
from tests.unit.test_compiler_regressions import BODIES
from tileiras.compiler.lower.tileas_to_nvvm.choose import COMPARES, TESTS, question
from tileiras.compiler.passes.tileaa.commute import WAYS, chooses_alike

CHOOSE = ("argmax", "argmax that leaves out NaN", "first NaN", "first greatest")
ROWS, COLUMNS = 16, 64
NUMBERS = {
    "increase": "%at = reshape %all : tile<64xi32> -> tile<1x64xi32>",
    "decrease": """%top = constant <i32: 63> : tile<64xi32>
  %down = subi %top, %all : tile<64xi32>
  %at = reshape %down : tile<64xi32> -> tile<1x64xi32>""",
}
STORE = """
  %view{n} = make_tensor_view %out{n}, shape = [16], strides = [1] : tensor_view<16x{t}, strides=[1]>
  %part{n} = make_partition_view %view{n} : partition_view<tile=(16), tensor_view<16x{t}, strides=[1]>>
  %done{n} = store_view_tko weak %best#{n}, %part{n}[%zero] : tile<16x{t}>, partition_view<tile=(16), tensor_view<16x{t}, strides=[1]>>, tile<i32> -> token"""  # noqa: E501
TEXT = """cuda_tile.module @m {
entry @k(%in: tile<ptr<f32>>, %out0: tile<ptr<f32>>, %out1: tile<ptr<i32>>) {
  %zero = constant <i32: 0> : tile<i32>
  %view = make_tensor_view %in, shape = [16, 64], strides = [64, 1] : tensor_view<16x64xf32, strides=[64,1]>
  %part = make_partition_view %view : partition_view<tile=(16x64), tensor_view<16x64xf32, strides=[64,1]>>
  %rows, %read = load_view_tko weak %part[%zero, %zero] : partition_view<tile=(16x64), tensor_view<16x64xf32, strides=[64,1]>>, tile<i32> -> tile<16x64xf32>, token
  %all = iota : tile<64xi32>
  NUMBERS
  %numbers = broadcast %at : tile<1x64xi32> -> tile<16x64xi32>
  %best:2 = reduce %rows, %numbers dim=1 identities=[0.0 : f32, 0 : i32] : tile<16x64xf32>, tile<16x64xi32> -> tile<16xf32>, tile<16xi32>
  (%f: tile<f32>, %g: tile<f32>, %a: tile<i32>, %b: tile<i32>) {BODY
    yield %m, %n : tile<f32>, tile<i32>
  }STORES
}
}
"""  # noqa: E501


def kernel(name: str, numbers: str) -> str:
    stores = STORE.format(n=0, t="f32") + STORE.format(n=1, t="i32")
    return (
        TEXT.replace("NUMBERS", NUMBERS[numbers]).replace("BODY", BODIES[name][0]).replace("STORES", stores)
    )


def rows() -> np.ndarray:
    rng = np.random.default_rng(3)
    x = rng.integers(-3, 4, (ROWS, COLUMNS)).astype(np.float32)  # equal ones in every row
    x[1] = np.nan
    x[2, ::2] = np.nan
    x[3, 5:9], x[4, 60], x[5, 0] = np.nan, np.nan, np.nan
    x[6] = np.where(rng.integers(0, 2, COLUMNS), 0.0, -0.0)
    x[7, 3], x[8, 9], x[9] = np.inf, -np.inf, -np.inf
    x[10, 10:] = np.nan
    return x


@pytest.mark.parametrize("gpu_name", ["sm_75", "sm_90", "sm_100"])
@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.parametrize("name", CHOOSE)
def test_the_choice_is_the_body_s(name: str, numbers: str, gpu_name: str) -> None:
    text, x = kernel(name, numbers), rows()
    if name == "argmax":  # never asks for NaN: no order is right where there is one
        x = np.nan_to_num(x, nan=1.0)
    said = []
    for target in ("reference", "emulator"):
        y, n = np.zeros(ROWS, np.float32), np.zeros(ROWS, np.int32)
        tileiras.launch(text, "k", 1, [x, y, n], target=target, gpu_name=gpu_name)
        said.append((np.where(np.isnan(y), -9.0, y).tolist(), n.tolist()))
    assert said[0] == said[1]
    if name == "argmax" and numbers == "increase":
        assert said[0][1] == x.argmax(1).tolist()


@pytest.mark.parametrize("name", CHOOSE)
def test_two_comparisons_suffice_where_numbers_increase(name: str) -> None:
    """Each thread has four numbers of two rows; the others meet in lanes, whose order says nothing of their numbers."""
    counts = [
        tileiras.compile(kernel(name, numbers), gpu_name="sm_90", emit="ptx").ptx.count("setp.")
        for numbers in NUMBERS
    ]
    assert counts[0] < counts[1] or name == "first greatest" and counts[0] == counts[1]


def holds(compare: str, joined: str, test: int | None, x: float, y: float) -> bool:
    """What a comparison and a test are in PTX, by numbers."""
    nan = x != x or y != y
    plain = {"lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y, "eq": x == y, "ne": x != y and not nan}
    truth = plain[compare[:2]] or (nan and compare.endswith("u"))
    if test is None:
        return truth
    one = (x, y)[TESTS[test][0]]
    asked = (one != one) == (TESTS[test][1] == "nan")
    return (truth or asked) if joined == "or" else (truth and asked)


def test_questions_are_true_where_they_shall_be() -> None:
    """All 64 sets of ways in which two numbers relate: each has a question that is right, or none."""
    nan = float("nan")
    numbers = dict(zip(WAYS, ((1.0, 2.0), (2.0, 2.0), (2.0, 1.0), (nan, 1.0), (1.0, nan), (nan, nan))))
    found = 0
    for size in range(len(WAYS) + 1):
        for chosen in map(frozenset, itertools.combinations(WAYS, size)):
            asked = question(chosen)
            if asked is not None:
                found += 1
                assert {way for way, pair in numbers.items() if holds(*asked, *pair)} == chosen
    assert found >= len(COMPARES) + 20


def wide(name: str, columns: int) -> str:
    """The kernel over rows in which a thread has more numbers than comparisons side by side."""
    return kernel(name, "increase").replace("64", str(columns))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_120"])
@pytest.mark.parametrize("name", CHOOSE)
def test_a_thread_keeps_distances_not_numbers(name: str, gpu_name: str) -> None:
    """The number of an element is a constant to choose by, and the first number is added once: nothing waits in registers."""
    columns, commute = 1024, BODIES[name][1]
    text = wide(name, columns)
    ptx = tileiras.compile(text, gpu_name=gpu_name, emit="ptx").ptx
    chosen = re.findall(r"selp\.b32 %r\d+, [^,]+, ([^,]+), %p", ptx)
    constants, of_thread = sum(not c.startswith("%") for c in chosen), ROWS * columns // 256
    assert constants >= of_thread * 3 // 4 or not commute and constants < of_thread
    rng = np.random.default_rng(5)
    x = rng.integers(0, 60, (ROWS, columns)).astype(np.float32)
    x[1], x[2, ::3], x[3, :100] = 1.0, 60.0, -np.inf
    if name != "argmax":
        x[4], x[5, ::2], x[6, 1000] = np.nan, np.nan, np.nan
    said = []
    for target in ("reference", "emulator"):
        y, n = np.zeros(ROWS, np.float32), np.zeros(ROWS, np.int32)
        tileiras.launch(text, "k", 1, [x, y, n], target=target, gpu_name=gpu_name)
        said.append((np.where(np.isnan(y), -9.0, y).tolist(), n.tolist()))
    assert said[0] == said[1]


@pytest.mark.parametrize(
    ("name", "alike"),
    [
        ("argmax that leaves out NaN", True),
        ("argmax", False),
        ("first NaN", False),
        ("first greatest", False),
    ],
)
def test_lanes_change_places_only_where_the_choice_depends_on_it(name: str, alike: bool) -> None:
    """Not what depends on the order where an element, or each of them, is NaN: lanes would hold different bits."""
    module = tileiras.load(kernel(name, "increase"))
    body = next(op for op in module.op.walk() if op.spec.name == "reduce").regions[0].block
    assert chooses_alike(body) is alike
