"""Partial results that warps leave in shared memory are read several at a time, and by the threads that store what comes of
them; what is computed from them stays."""

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


# Sums of columns: `between` what stands between sums and store; every warp has a part of each column.
COLUMNS = """cuda_tile.module @m {{
  entry @k(%x: tile<ptr<f32>>, %y: tile<ptr<f32>>) {{
    %t = make_token : token
    %xa = assume div_by<16>, %x : tile<ptr<f32>>
    %ya = assume div_by<16>, %y : tile<ptr<f32>>
    %v = make_tensor_view %xa, shape = [{rows}, {columns}], strides = [{columns}, 1]
      : tensor_view<{rows}x{columns}xf32, strides=[{columns},1]>
    %p = make_partition_view %v
      : partition_view<tile=({rows}x{columns}), tensor_view<{rows}x{columns}xf32, strides=[{columns},1]>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %three = constant <i32: 3> : tile<i32>
    %none = constant <f32: 0.0> : tile<{columns}xf32>
    %w = make_tensor_view %ya, shape = [{columns}], strides = [1] : tensor_view<{columns}xf32, strides=[1]>
    %q = make_partition_view %w : partition_view<tile=({columns}), tensor_view<{columns}xf32, strides=[1]>>
    %all = for %i in (%zero to %three, step %one) : tile<i32> iter_values(%sum = %none) -> (tile<{columns}xf32>) {{
      %a, %t1 = load_view_tko weak %p[%zero, %zero] token=%t
        : partition_view<tile=({rows}x{columns}), tensor_view<{rows}x{columns}xf32, strides=[{columns},1]>>, tile<i32>
        -> tile<{rows}x{columns}xf32>, token
      %s = reduce %a dim=0 identities=[0.0 : f32] : tile<{rows}x{columns}xf32> -> tile<{columns}xf32>
        (%l: tile<f32>, %r: tile<f32>) {{
          %n = addf %l, %r : tile<f32>
          yield %n : tile<f32>
        }}
      %next = addf %sum, %s : tile<{columns}xf32>
      continue %next : tile<{columns}xf32>
    }}
    {between}
    %t2 = store_view_tko weak %out, %q[%zero] token=%t
      : tile<{columns}xf32>, partition_view<tile=({columns}), tensor_view<{columns}xf32, strides=[1]>>, tile<i32> -> token
    return
  }}
}}"""
ALONE = "%out = addf %all, %none : tile<{columns}xf32>"
# a broadcast of the sums wants them where the tile lies
BROADCAST = """%b0 = reshape %all : tile<{columns}xf32> -> tile<1x{columns}xf32>
    %b = broadcast %b0 : tile<1x{columns}xf32> -> tile<32x{columns}xf32>
    %out = reduce %b dim=0 identities=[0xFF800000 : f32] : tile<32x{columns}xf32> -> tile<{columns}xf32>
      (%l: tile<f32>, %r: tile<f32>) {{
        %n = maxf %l, %r : tile<f32>
        yield %n : tile<f32>
      }}"""


def sums_of_columns(rows: int, columns: int, between: str) -> str:
    return COLUMNS.format(rows=rows, columns=columns, between=between.format(columns=columns))


@pytest.mark.parametrize(
    ("rows", "columns", "reads"),
    [(64, 128, ["ld.shared.b32"] * 4), (32, 512, ["ld.shared.v2.b32"] * 2)],
)
def test_a_thread_reads_the_partials_of_what_it_stores(rows: int, columns: int, reads: list[str]) -> None:
    text = tileiras.compile(sums_of_columns(rows, columns, ALONE), gpu_name="sm_90").ptx
    assert re.findall(r"ld\.shared\S*", text) == reads
    assert set(re.findall(r"st\.shared\S*", text)) == {"st.shared.v4.b32"}


@pytest.mark.parametrize(("rows", "columns"), [(64, 128), (32, 512), (128, 64), (16, 2048)])
@pytest.mark.parametrize("between", [ALONE, BROADCAST])
def test_sums_of_columns_are_right(rows: int, columns: int, between: str) -> None:
    x = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns) % 97
    y = np.zeros(columns, np.float32)
    text = sums_of_columns(rows, columns, between)
    for gpu in ("sm_80", "sm_100"):
        tileiras.launch(text, "k", grid=(1, 1, 1), args=[x, y], target="emulator", gpu_name=gpu, check=True)
        np.testing.assert_array_equal(y, 3 * x.sum(axis=0))
