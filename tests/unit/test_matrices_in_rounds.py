"""Fragments that take more shared memory than a conversion may have cross it in rounds, through ldmatrix in each."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy")

import numpy as np

import tileiras
from tests.corpus.case import place
from tileiras.compiler.layout import convert


def product(m: int, n: int, k: int, turned: bool) -> str:
    rows, columns = (n, k) if turned else (k, n)
    va, vb, vc = (
        f"tensor_view<{h}x{w}x{elem}, strides=[{w},1]>"
        for h, w, elem in ((m, k, "f16"), (rows, columns, "f16"), (m, n, "f32"))
    )
    a, b, c = (
        f"partition_view<tile=({h}x{w}), {view}>"
        for h, w, view in ((m, k, va), (rows, columns, vb), (m, n, vc))
    )
    turn = f"%r = permute %y [1, 0] : tile<{n}x{k}xf16> -> tile<{k}x{n}xf16>" if turned else ""
    return f"""
cuda_tile.module @m {{
  entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>) {{
    %z = constant <i32: 0> : tile<i32>
    %nil = constant <f32: 0.0> : tile<{m}x{n}xf32>
    %va = make_tensor_view %a, shape = [{m}, {k}], strides = [{k}, 1] : {va}
    %vb = make_tensor_view %b, shape = [{rows}, {columns}], strides = [{columns}, 1] : {vb}
    %vc = make_tensor_view %c, shape = [{m}, {n}], strides = [{n}, 1] : {vc}
    %pa = make_partition_view %va : {a}
    %pb = make_partition_view %vb : {b}
    %pc = make_partition_view %vc : {c}
    %x, %t = load_view_tko weak %pa[%z, %z] : {a}, tile<i32> -> tile<{m}x{k}xf16>, token
    %y, %u = load_view_tko weak %pb[%z, %z] : {b}, tile<i32> -> tile<{rows}x{columns}xf16>, token
    {turn}
    %s = mmaf %x, {"%r" if turned else "%y"}, %nil : tile<{m}x{k}xf16>, tile<{k}x{n}xf16>, tile<{m}x{n}xf32>
    %w = store_view_tko weak %s, %pc[%z, %z] : tile<{m}x{n}xf32>, {c}, tile<i32> -> token
    return
  }}
}}
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("turned", [False, True], ids=["nn", "nt"])
@pytest.mark.parametrize("room", [1 << 11, 1 << 12, 1 << 13])
@pytest.mark.parametrize("gpu_name", ["sm_75", "sm_80"])
def test_what_is_in_rounds_is_the_same_product(
    gpu_name: str, room: int, turned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEIRAS_CACHE", "0")
    source = product(64, 128, 64, turned)
    whole = tileiras.compile(source, gpu_name=gpu_name, emit="ptx").ptx
    monkeypatch.setattr(convert, "ROUND_BYTES", room)
    text = tileiras.compile(source, gpu_name=gpu_name, emit="ptx").ptx
    assert text.count("ldmatrix") == whole.count("ldmatrix") > 0
    assert text.count("bar.sync") > whole.count("bar.sync")
    rng = np.random.default_rng(0)
    a, b = (place(rng.integers(-2, 3, shape).astype(np.float16)) for shape in ((64, 64), (128, 64)))
    b = b if turned else place(np.ascontiguousarray(b.T))
    c = place(np.zeros((64, 128), np.float32))
    tileiras.launch(source, "k", grid=1, args=[a, b, c], target="emulator", gpu_name=gpu_name, check=True)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ (b.T if turned else b))
