"""Partial results that warps leave in shared memory are read several at a time; what is computed from them stays."""

import re

import numpy as np
import pytest

import tileiras

TEXT = """cuda_tile.module @m {{
  entry @k(%x: tile<ptr<f32>>, %y: tile<ptr<f32>>) {{
    %t = make_token : token
    %v = make_tensor_view %x, shape = [{rows}, {columns}], strides = [{columns}, 1]
      : tensor_view<{rows}x{columns}xf32, strides=[{columns},1]>
    %p = make_partition_view %v
      : partition_view<tile=({rows}x{columns}), tensor_view<{rows}x{columns}xf32, strides=[{columns},1]>>
    %zero = constant <i32: 0> : tile<i32>
    %a, %t1 = load_view_tko weak %p[%zero, %zero] token=%t
      : partition_view<tile=({rows}x{columns}), tensor_view<{rows}x{columns}xf32, strides=[{columns},1]>>, tile<i32>
      -> tile<{rows}x{columns}xf32>, token
    %s = reduce %a dim=1 identities=[0.0 : f32] : tile<{rows}x{columns}xf32> -> tile<{rows}xf32>
      (%l: tile<f32>, %r: tile<f32>) {{
        %n = addf %l, %r : tile<f32>
        yield %n : tile<f32>
      }}
    %w = make_tensor_view %y, shape = [{rows}], strides = [1] : tensor_view<{rows}xf32, strides=[1]>
    %q = make_partition_view %w : partition_view<tile=({rows}), tensor_view<{rows}xf32, strides=[1]>>
    %t2 = store_view_tko weak %s, %q[%zero] token=%t1
      : tile<{rows}xf32>, partition_view<tile=({rows}), tensor_view<{rows}xf32, strides=[1]>>, tile<i32> -> token
    return
  }}
}}"""


@pytest.mark.parametrize(("rows", "columns", "warps"), [(1, 2048, 4), (2, 2048, 2), (4, 4096, 2)])
def test_the_sums_of_several_warps_are_one_load(rows: int, columns: int, warps: int) -> None:
    text = tileiras.compile(TEXT.format(rows=rows, columns=columns), gpu_name="sm_80").ptx
    assert set(re.findall(r"ld\.shared\S*", text)) == {f"ld.shared.v{warps}.b32"}


@pytest.mark.parametrize(("rows", "columns"), [(1, 2048), (4, 4096), (32, 512), (64, 64)])
def test_sums_across_warps_are_right(rows: int, columns: int) -> None:
    x = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns) % 97
    y = np.zeros(rows, np.float32)
    text = TEXT.format(rows=rows, columns=columns)
    tileiras.launch(text, "k", grid=(1, 1, 1), args=[x, y], target="emulator", gpu_name="sm_80", check=True)
    np.testing.assert_array_equal(y, x.sum(axis=1))
