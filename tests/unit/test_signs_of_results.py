"""What is known of a number that a branch hands on beside other values: nothing of theirs, whatever they are."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras
from tests.corpus.case import place

N = 256
I, P, F = f"tile<{N}xi32>", f"tile<{N}xptr<f32>>", f"tile<{N}xf32>"


def spread(name: str, kind: str) -> str:
    return f"""%{name}1 = reshape %{name} : tile<{kind}> -> tile<1x{kind}>
    %{name}2 = broadcast %{name}1 : tile<1x{kind}> -> tile<{N}x{kind}>"""


def kernel(type: str, value: str) -> str:
    """Reads (begin + i) % n, where the first number, a multiple of 16 that may be negative, comes from a branch."""
    return f"""cuda_tile.module @m {{
  entry @k(%x: tile<ptr<f32>>, %o: tile<ptr<f32>>, %c: tile<i32>, %far: tile<i32>, %m: tile<i32>) {{
    %none = constant <i32: 0> : tile<i32>
    %small = constant <i8: 1> : tile<i8>
    %middle = constant <i32: 512> : tile<i32>
    %u = make_token : token
    %px = assume div_by<16>, %x : tile<ptr<f32>>
    %p = offset %px, %middle : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
    %q = assume div_by<16>, %o : tile<ptr<f32>>
    %n = assume div_by<16>, %m : tile<i32>
    %taken = cmpi greater_than %c, %none, signed : tile<i32> -> tile<i1>
    %r:2 = if %taken -> ({type}, tile<i32>) {{
      yield {value}, %far : {type}, tile<i32>
    }} else {{
      yield {value}, %none : {type}, tile<i32>
    }}
    %begin = assume div_by<16>, %r#1 : tile<i32>
    %i = iota : {I}
    {spread("begin", "i32")}
    {spread("n", "i32")}
    %sum = addi %i, %begin2 : {I}
    %rest = remi %sum, %n2 signed : {I}
    {spread("p", "ptr<f32>")}
    {spread("q", "ptr<f32>")}
    %from = offset %p2, %rest : {P}, {I} -> {P}
    %to = offset %q2, %i : {P}, {I} -> {P}
    %v, %t = load_ptr_tko weak %from token=%u : {P} -> {F}, token
    %w = store_ptr_tko weak %to, %v token=%t : {P}, {F} -> token
    return
  }}
}}"""


@pytest.mark.parametrize(
    ("type", "value"),
    [("token", "%u"), ("tile<ptr<f32>>", "%px"), ("tile<i8>", "%small"), ("tile<i1>", "%taken"), ("tile<i32>", "%c")],
    ids=["token", "pointer", "byte", "condition", "number"],
)  # fmt: skip
def test_remainders_of_what_may_be_negative(type: str, value: str) -> None:
    x = place(np.arange(1024, dtype=np.float32))
    for taken, far, n in ((1, -64, 48), (1, -32, 16), (0, -64, 48), (1, 64, 48)):
        o = place(np.zeros(N, np.float32))
        args = [x, o, *map(np.int32, (taken, far, n))]
        tileiras.launch(
            kernel(type, value), "k", grid=(1, 1, 1), args=args, target="emulator", gpu_name="sm_90"
        )
        at = (far if taken else 0) + np.arange(N)
        assert np.array_equal(np.array(o), 512 + np.fmod(at, n)), (taken, far, n)
