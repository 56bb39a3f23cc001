"""Reductions of columns whose threads hold several: lanes exchange halves, and each joins the partials of its own alone."""

import numpy as np
import pytest

import tileiras

# A product, its columns reduced with `body`; every thread wants all of them, for what it broadcasts them to.
TEXT = """cuda_tile.module @m {{
  entry @k(%x: tile<ptr<f16>>, %y: tile<ptr<f32>>) {{
    %t = make_token : token
    %xa = assume div_by<16>, %x : tile<ptr<f16>>
    %ya = assume div_by<16>, %y : tile<ptr<f32>>
    %v = make_tensor_view %xa, shape = [{rows}, {rows}], strides = [{rows}, 1]
      : tensor_view<{rows}x{rows}xf16, strides=[{rows},1]>
    %p = make_partition_view %v : partition_view<tile=({rows}x16), tensor_view<{rows}x{rows}xf16, strides=[{rows},1]>>
    %q = make_partition_view %v : partition_view<tile=(16x{columns}), tensor_view<{rows}x{rows}xf16, strides=[{rows},1]>>
    %w = make_tensor_view %ya, shape = [{rows}, {columns}], strides = [{columns}, 1]
      : tensor_view<{rows}x{columns}xf32, strides=[{columns},1]>
    %o = make_partition_view %w
      : partition_view<tile=({rows}x{columns}), tensor_view<{rows}x{columns}xf32, strides=[{columns},1]>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %two = constant <i32: 2> : tile<i32>
    %none = constant <f32: 0.0> : tile<{rows}x{columns}xf32>
    %end = for %i in (%zero to %two, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<{rows}x{columns}xf32>) {{
      %a, %t1 = load_view_tko weak %p[%zero, %i] token=%t
        : partition_view<tile=({rows}x16), tensor_view<{rows}x{rows}xf16, strides=[{rows},1]>>, tile<i32>
        -> tile<{rows}x16xf16>, token
      %b, %t2 = load_view_tko weak %q[%i, %zero] token=%t
        : partition_view<tile=(16x{columns}), tensor_view<{rows}x{rows}xf16, strides=[{rows},1]>>, tile<i32>
        -> tile<16x{columns}xf16>, token
      %c = mmaf %a, %b, %none : tile<{rows}x16xf16>, tile<16x{columns}xf16>, tile<{rows}x{columns}xf32>
      %s = reduce %c dim=0 identities=[{identity} : f32] : tile<{rows}x{columns}xf32> -> tile<{columns}xf32>
        (%l: tile<f32>, %r: tile<f32>) {{
          %n = {body} %l, %r : tile<f32>
          yield %n : tile<f32>
        }}
      %s1 = reshape %s : tile<{columns}xf32> -> tile<1x{columns}xf32>
      %s2 = broadcast %s1 : tile<1x{columns}xf32> -> tile<{rows}x{columns}xf32>
      %m = subf %c, %s2 : tile<{rows}x{columns}xf32>
      %next = addf %acc, %m : tile<{rows}x{columns}xf32>
      continue %next : tile<{rows}x{columns}xf32>
    }}
    %t3 = store_view_tko weak %end, %o[%zero, %zero] token=%t
      : tile<{rows}x{columns}xf32>,
        partition_view<tile=({rows}x{columns}), tensor_view<{rows}x{columns}xf32, strides=[{columns},1]>>, tile<i32> -> token
    return
  }}
}}"""
IDENTITY = {"addf": "0.0", "maxf": "0xFF800000"}


def reduced(rows: int, columns: int, body: str) -> str:
    return TEXT.format(rows=rows, columns=columns, body=body, identity=IDENTITY[body])


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_each_result_crosses_lanes_once(gpu: str) -> None:
    text = tileiras.compile(reduced(128, 64, "maxf"), gpu_name=gpu).ptx
    # butterflies take three shuffles (a fragment's rows) to five (a row a lane) for each of a thread's results
    assert 0 < text.count("shfl.sync") < (64 if gpu == "sm_100" else 32)


@pytest.mark.parametrize("gpu", ["sm_90", "sm_100"])
def test_lanes_join_the_partials_of_some_results_and_read_all(gpu: str) -> None:
    text = tileiras.compile(reduced(128, 64, "maxf"), gpu_name=gpu).ptx
    in_loop = text[text.index("shfl.sync") :]
    partials, results = in_loop[: in_loop.index("bar.warp.sync")], in_loop[in_loop.index("bar.warp.sync") :]
    assert partials.count("max.f32") + partials.count("max.ftz.f32") < 2 * 64
    assert results.count("max.") == 0 and "ld.shared.v" in results


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("rows", "columns"), [(128, 64), (64, 64), (128, 128), (128, 16), (256, 32), (64, 8)]
)
@pytest.mark.parametrize("body", list(IDENTITY))
@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_columns_are_right(rows: int, columns: int, body: str, gpu: str) -> None:
    x = ((np.arange(rows * rows) * 7 % 23 - 11).reshape(rows, rows)).astype(np.float16)
    y = np.zeros((rows, columns), np.float32)
    text = reduced(rows, columns, body)
    tileiras.launch(text, "k", grid=(1, 1, 1), args=[x, y], target="emulator", gpu_name=gpu, check=True)
    wide, whole = x.astype(np.float32), np.zeros_like(y)
    for i in range(2):
        c = wide[:, 16 * i : 16 * i + 16] @ wide[16 * i : 16 * i + 16, :columns]
        whole += c - (c.sum(0) if body == "addf" else c.max(0))
    np.testing.assert_array_equal(y, whole)
