"""Elements of a byte that change their layout through shared memory take a byte there, not a register."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")

import ml_dtypes
import numpy as np

import tileiras
from tests.corpus.case import place


def transposition(rows: int, columns: int, elem: str) -> str:
    shapes = ((rows, columns), (columns, rows))
    va, vb = (f"tensor_view<{h}x{w}x{elem}, strides=[{w},1]>" for h, w in shapes)
    pa, pb = (f"partition_view<tile=({h}x{w}), {view}>" for (h, w), view in zip(shapes, (va, vb)))
    a, b = (f"tile<{h}x{w}x{elem}>" for h, w in shapes)
    return f"""
cuda_tile.module @m {{
  entry @k(%a: tile<ptr<{elem}>>, %b: tile<ptr<{elem}>>) {{
    %z = constant <i32: 0> : tile<i32>
    %va = make_tensor_view %a, shape = [{rows}, {columns}], strides = [{columns}, 1] : {va}
    %vb = make_tensor_view %b, shape = [{columns}, {rows}], strides = [{rows}, 1] : {vb}
    %pa = make_partition_view %va : {pa}
    %pb = make_partition_view %vb : {pb}
    %x, %t = load_view_tko weak %pa[%z, %z] : {pa}, tile<i32> -> {a}, token
    %r = permute %x [1, 0] : {a} -> {b}
    %w = store_view_tko weak %r, %pb[%z, %z] token=%t : {b}, {pb}, tile<i32> -> token
    return
  }}
}}
"""


@pytest.mark.parametrize(("elem", "gpu_name"), [("i8", "sm_75"), ("i8", "sm_80"), ("f8E4M3FN", "sm_90")])
@pytest.mark.parametrize(("rows", "columns"), [(128, 32), (32, 128), (256, 64), (16, 16)])
def test_bytes_are_transposed(rows: int, columns: int, elem: str, gpu_name: str) -> None:
    source = transposition(rows, columns, elem)
    program = tileiras.compile(source, gpu_name=gpu_name, emit="ptx", remarks="all")
    said = [d.message for d in program.diagnostics if "layout conversion through" in d.message]
    assert all(f"through {rows * columns} bytes" in message for message in said)
    kind = np.dtype(np.int8 if elem == "i8" else ml_dtypes.float8_e4m3fn)
    a = place(np.random.default_rng(3).integers(0, 127, (rows, columns)).astype(np.int8).view(kind))
    b = place(np.zeros((columns, rows), kind))
    tileiras.launch(source, "k", grid=1, args=[a, b], target="emulator", gpu_name=gpu_name, check=True)
    np.testing.assert_array_equal(b.view(np.int8), a.view(np.int8).T)


def test_a_conversion_takes_a_byte_each() -> None:
    source = transposition(128, 32, "i8")
    program = tileiras.compile(source, gpu_name="sm_80", emit="ptx", remarks="all")
    assert any("through 4096 bytes" in d.message for d in program.diagnostics)
