"""Operands that several loops of tcgen05 read in shared memory are stored there once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras
from tileiras.compiler import pipeline
from tileiras.compiler.target import sm
from tileiras.diag import Sink

HALF = "tensor_view<?x64xf16, strides=[64,1]>"
WIDE = "tensor_view<128x64xf32, strides=[64,1]>"
Q, K = (f"partition_view<tile=({rows}x64), {HALF}>" for rows in (128, 64))
C = f"partition_view<tile=(128x64), {WIDE}>"
SUM = "tile<128x64xf32>"


def loop(name: str, bounds: str, start: str) -> str:
    """%name = start + sum of half(Q K_j) K_j."""
    return f"""
    %{name} = for %j in ({bounds}, step %one) : tile<i32> iter_values(%acc = {start}) -> ({SUM}) {{
      %k, %tk = load_view_tko weak %kt[%j, %zero] token = %t : {K}, tile<i32> -> tile<64x64xf16>, token
      %kk = permute %k [1, 0] : tile<64x64xf16> -> tile<64x64xf16>
      %s = mmaf %q, %kk, %none : tile<128x64xf16>, tile<64x64xf16>, {SUM}
      %p = ftof %s : {SUM} -> tile<128x64xf16>
      %next = mmaf %p, %k, %acc : tile<128x64xf16>, tile<64x64xf16>, {SUM}
      continue %next : {SUM}
    }}"""


def store(value: str, view: str) -> str:
    return f"%t{view} = store_view_tko weak {value}, %{view}t[%zero, %zero] token = %t : {SUM}, {C}, tile<i32> -> token"


STEPS = f"""
    %last = for %g in (%zero to %n, step %one) : tile<i32> iter_values(%held = %none) -> ({SUM}) {{
      {loop("inner", "%zero to %m", "%held")}
      continue %inner : {SUM}
    }}"""


def kernel(between: str = "", start: str = "%first", work: str = "") -> str:
    views = "".join(
        f"""
    %{name}v = make_tensor_view %{name}, shape = [128, 64], strides = [64, 1] : {WIDE}
    %{name}t = make_partition_view %{name}v : {C}"""
        for name in ("c", "d")
    )
    return f"""
cuda_tile.module @m {{
  entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %d: tile<ptr<f32>>, %n: tile<i32>, %m: tile<i32>) {{
    %qa = assume div_by<16>, %a : tile<ptr<f16>>
    %ka = assume div_by<16>, %b : tile<ptr<f16>>
    %rows = constant <i32: 128> : tile<i32>
    %keys = constant <i32: 256> : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : {SUM}
    %two = constant <f32: 2.0> : {SUM}
    %qv = make_tensor_view %qa, shape = [%rows, 64], strides = [64, 1] : tile<i32> -> {HALF}
    %kv = make_tensor_view %ka, shape = [%keys, 64], strides = [64, 1] : tile<i32> -> {HALF}
    %qt = make_partition_view %qv : {Q}
    %kt = make_partition_view %kv : {K}{views}
    %t = make_token : token
    %q, %tq = load_view_tko weak %qt[%zero, %zero] token = %t : {Q}, tile<i32> -> tile<128x64xf16>, token
    {work or loop("first", "%zero to %n", "%none") + between + loop("last", "%n to %m", start)}
    {store("%last", "c")}
    return
  }}
}}
"""


# kernels; how often the queries are stored, outside of loops: results that are stored between the loops go through shared memory
KINDS = {
    "neighbours": (kernel(), 1),
    "in_steps": (kernel(work=STEPS), 1),
    "stored_between": (kernel(store("%first", "d")), 2),
    "scaled_between": (kernel(f"%more = mulf %first, %two : {SUM}", "%more"), 1),
    "other_products_between": (kernel(loop("other", "%zero to %m", "%none") + store("%other", "d")), 2),
}


def outside(kind: str) -> Counter[str]:
    """How often ops stand outside of loops, behind TileASTensorMemoryProducts."""
    found: Counter[str] = Counter()

    def after(name: str, ir: Any) -> None:
        if name == "TileASTensorMemoryProducts":
            inside = {inner for op in ir.walk() if op.spec.name == "for" for inner in op.walk()}
            found.update(op.spec.name for op in ir.walk() if op not in inside)

    pipeline.compile_module(tileiras.load(KINDS[kind][0]).op, sm.find("sm_100"), Sink(), after=after)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_what_lies_there_is_not_stored_again(kind: str) -> None:
    found = outside(kind)
    assert found["store_shared"] == KINDS[kind][1]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("bounds", [(2, 4), (0, 4), (4, 4), (0, 0)])
@pytest.mark.parametrize("kind", KINDS)
def test_sums_are_those_of_all_steps(kind: str, bounds: tuple[int, int]) -> None:
    rng = np.random.default_rng(3)
    q, k = (rng.integers(-1, 2, (rows, 64)).astype(np.float16) for rows in (128, 256))
    c, d = np.zeros((128, 64), np.float32), np.zeros((128, 64), np.float32)
    args = [q, k, c, d, *(np.int32(n) for n in bounds)]
    tileiras.launch(KINDS[kind][0], "k", 1, args, target="emulator", gpu_name="sm_100", check=True, seed=2)

    def steps(low: int, high: int) -> Any:
        wide = k.astype(np.float32)
        tiles = [wide[64 * j : 64 * j + 64] for j in range(low, high)]
        return sum([q.astype(np.float32) @ tile.T @ tile for tile in tiles], np.zeros((128, 64), np.float32))

    n, m = bounds
    if kind == "in_steps":
        assert (c == n * steps(0, m)).all()
        return
    assert (c == steps(0, n) * (2 if kind == "scaled_between" else 1) + steps(n, m)).all()
    if kind != "scaled_between" and "between" in kind:
        assert (d == (steps(0, n) if kind == "stored_between" else steps(0, m))).all()
