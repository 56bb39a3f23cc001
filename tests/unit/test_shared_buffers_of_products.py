"""What loops of wgmma write back to shared memory: a value that two products read is stored once, and buffers serve one product
after the other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import numpy as np

import tileiras
from tests.corpus.case import place
from tests.corpus.check import PASS, launch_case
from tests.corpus.export import bytecode_path
from tests.corpus.registry import CASES
from tileiras.tools import opt

GATED = CASES["staged_gated_state"]  # chunks of 64 x 128 in f16 with gates in f32: two stages of 80 KiB


def test_two_stages_fit_beside_them() -> None:
    ptx = tileiras.compile(bytecode_path(GATED), gpu_name="sm_90", emit="ptx").ptx
    assert "wgmma.mma_async" in ptx and "mma.sync" not in ptx and "cp.async.cg.shared.global" in ptx


def test_queries_are_stored_once(capsys: pytest.CaptureFixture[str]) -> None:
    stores, products = buffers_of(str(bytecode_path(GATED)), capsys)
    assert len(stores) == len({value for _, value in stores}) == 3
    assert [left for left, _ in products[:2]] == [stores[0][0]] * 2


def buffers_of(source: str, capsys: pytest.CaptureFixture[str]) -> tuple[list[Any], list[Any]]:
    """(place, value) of what is stored for products, and the places of both operands of each, as far as they lie in buffers."""
    assert opt.main([source, "--gpu-name", "sm_90", "--pipeline-to", "tileas"]) == 0
    text = capsys.readouterr().out
    stores = re.findall(r"store_shared (%\d+), %\w+, (%\d+) ", text)
    return stores, re.findall(r"nv_tileas\.wgmma (%\d+), %\w+, (%\d+),", text)


def twice() -> str:
    """Two products a step, whose right operands are made of one tile of bytes; the greater result is added up."""
    x, w = "tensor_view<64x64xf16, strides=[64,1]>", "tensor_view<64x1024xi8, strides=[1024,1]>"
    c = "tensor_view<64x64xf32, strides=[64,1]>"
    xt, wt, ct = (f"partition_view<tile=(64x64), {view}>" for view in (x, w, c))
    f16, f32 = "tile<64x64xf16>", "tile<64x64xf32>"
    return f"""
cuda_tile.module @m {{
  entry @k(%x: tile<ptr<f16>>, %w: tile<ptr<i8>>, %y: tile<ptr<f32>>, %n: tile<i32>) {{
    %px = assume div_by<16>, %x : tile<ptr<f16>>
    %pw = assume div_by<16>, %w : tile<ptr<i8>>
    %xv = make_tensor_view %px, shape = [64, 64], strides = [64, 1] : {x}
    %wv = make_tensor_view %pw, shape = [64, 1024], strides = [1024, 1] : {w}
    %cv = make_tensor_view %y, shape = [64, 64], strides = [64, 1] : {c}
    %xt = make_partition_view %xv : {xt}
    %wt = make_partition_view %wv : {wt}
    %ct = make_partition_view %cv : {ct}
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : {f32}
    %three = constant <f16: 3.0> : {f16}
    %q, %t1 = load_view_tko weak %xt[%zero, %zero] : {xt}, tile<i32> -> {f16}, token
    %sum = for %j in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> ({f32}) {{
      %b, %t2 = load_view_tko weak %wt[%zero, %j] : {wt}, tile<i32> -> tile<64x64xi8>, token
      %v = itof %b signed : tile<64x64xi8> -> {f16}
      %s = mmaf %q, %v, %none : {f16}, {f16}, {f32}
      %u = subf %three, %v : {f16}
      %r = mmaf %q, %u, %none : {f16}, {f16}, {f32}
      %more = maxf %s, %r : {f32}
      %next = addf %acc, %more : {f32}
      continue %next : {f32}
    }}
    %t3 = store_view_tko weak %sum, %ct[%zero, %zero] : {f32}, {ct}, tile<i32> -> token
    return
  }}
}}
"""


def test_one_buffer_serves_both_products(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "twice.mlir"
    source.write_text(twice())
    stores, _ = buffers_of(str(source), capsys)
    assert len(stores) == 2 and stores[0][0] == stores[1][0] and stores[0][1] != stores[1][1]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(4))
def test_the_second_waits_for_the_first(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(-3, 4, (64, 64)).astype(np.float16)
    w = rng.integers(-3, 4, (64, 1024)).astype(np.int8)
    y = place(np.zeros((64, 64), np.float32))
    args = [place(x), place(w), y, np.int32(6)]
    tileiras.launch(twice(), "k", 1, args, target="emulator", gpu_name="sm_90", check=True, seed=seed)
    want = np.zeros((64, 64), np.float32)
    for j in range(6):
        v = w[:, j * 64 : j * 64 + 64].astype(np.float32)
        want += np.maximum(x.astype(np.float32) @ v, x.astype(np.float32) @ (3 - v))
    np.testing.assert_array_equal(y, want)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "more", [{}, {"launch_abi": "simt", "tensor_maps": "launcher"}], ids=["copies", "maps"]
)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_product_reads_what_is_overwritten(seed: int, more: dict[str, Any]) -> None:
    done = launch_case(GATED, "emulator", "sm_90", 300, check=True, seed=seed, **more)
    assert done.word == PASS, done.reason
