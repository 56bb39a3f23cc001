"""Kernels that tests build for the CPU, ahead of time."""

from __future__ import annotations

import os

DOUBLE = """cuda_tile.module @m {
  entry @twice(%x: tile<ptr<f32>>, %n: tile<i32>) {
    %size = assume bounded<0, ?>, %n : tile<i32>
    %view = make_tensor_view %x, shape = [%size], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %tiles = make_partition_view %view : partition_view<tile=(128), tensor_view<?xf32, strides=[1]>>
    %b, %by, %bz = get_tile_block_id : tile<i32>
    %t = make_token : token
    %v, %read = load_view_tko weak %tiles[%b] token = %t : TILES, tile<i32> -> tile<128xf32>, token
    %two = constant <f32: 2.0> : tile<128xf32>
    %zero = constant <f32: 0.0> : tile<128xf32>
    %fine = cmpf greater_than_or_equal ordered %v, %zero : tile<128xf32> -> tile<128xi1>
    assert %fine, "no negative numbers" : tile<128xi1>
    %p = mulf %v, %two : tile<128xf32>
    %written = store_view_tko weak %p, %tiles[%b] token = %read : tile<128xf32>, TILES, tile<i32> -> token
    return
  }
}
""".replace("TILES", "partition_view<tile=(128), tensor_view<?xf32, strides=[1]>>")
BARRIER = """cuda_tile.module @m {
  entry @meet(%p: tile<ptr<i32>>, %n: tile<i32>) {
    %one = constant <i32: 1> : tile<i32>
    %old, %t = atomic_rmw_tko release device %p, add, %one : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    loop {
      %seen, %t2 = load_ptr_tko acquire device %p : tile<ptr<i32>> -> tile<i32>, token
      %done = cmpi greater_than_or_equal %seen, %n, signed : tile<i32> -> tile<i1>
      if %done { break }
      continue
    }
    return
  }
}
"""
PRINTS = r"""cuda_tile.module @m {
  entry @k(%p: tile<ptr<f32>>) {
    %x, %y, %z = get_tile_block_id : tile<i32>
    %i = iota : tile<4xi32>
    %t0 = print_tko "block %d of %%: %-5i|%+03d|\n", %x, %x, %x : tile<i32>, tile<i32>, tile<i32> -> token
    %m = constant <i8: [[-1, 2], [-128, 127]]> : tile<2x2xi8>
    %b = constant <i1: [true, false]> : tile<2xi1>
    %t1 = print_tko "i8 %d %u %x, i1 %d, i32 %5d\n", %m, %m, %m, %b, %i
      : tile<2x2xi8>, tile<2x2xi8>, tile<2x2xi8>, tile<2xi1>, tile<4xi32> -> token
    %f = constant <f32: [1.5, -0.0, 0x7f800000, 1.0e-40]> : tile<4xf32>
    %h = constant <f16: [1.5, -2.0, 6.0e-8, 65504.0]> : tile<4xf16>
    %q = constant <bf16: [0.1, -3.0]> : tile<2xbf16>
    %d = constant <f64: 3.141592653589793> : tile<f64>
    %t2 = print_tko "f32 %f %.3e %g %a, f16 %g, bf16 %8.3f, f64 %.15g, int %d\n", %f, %f, %f, %f, %h, %q, %d, %d
      : tile<4xf32>, tile<4xf32>, tile<4xf32>, tile<4xf32>, tile<4xf16>, tile<2xbf16>, tile<f64>, tile<f64> -> token
    %e = ftof %f rounding<nearest_even> : tile<4xf32> -> tile<4xf8E4M3FN>
    %w = constant <i64: [-9223372036854775808, 255]> : tile<2xi64>
    %c = constant <i32: 65> : tile<i32>
    %t3 = print_tko "f8 %g é \"quoted\" ??/ %% %ld %#lx %c %5.2d\n", %e, %w, %w, %c, %x
      : tile<4xf8E4M3FN>, tile<2xi64>, tile<2xi64>, tile<i32>, tile<i32> -> token
    return
  }
}
"""
GLOBALS = """cuda_tile.module @m {
  global @table alignment = 512 <f32: [1.0, 2.0, 3.0, 4.0]> : tile<4xf32>
  global @count <i32: [0, 0]> : tile<2xi32>
  entry @k(%out: tile<ptr<f32>>) {
    %i = iota : tile<4xi32>
    %g = get_global @table : tile<ptr<f32>>
    %g1 = reshape %g : tile<ptr<f32>> -> tile<1xptr<f32>>
    %g4 = broadcast %g1 : tile<1xptr<f32>> -> tile<4xptr<f32>>
    %gp = offset %g4, %i : tile<4xptr<f32>>, tile<4xi32> -> tile<4xptr<f32>>
    %v, %t = load_ptr_tko weak %gp : tile<4xptr<f32>> -> tile<4xf32>, token
    %c = get_global @count : tile<ptr<i32>>
    %one = constant <i32: 1> : tile<i32>
    %old, %t2 = atomic_rmw_tko relaxed device %c, add, %one : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    %oldf = itof %old signed : tile<i32> -> tile<f32>
    %o1 = reshape %oldf : tile<f32> -> tile<1xf32>
    %o4 = broadcast %o1 : tile<1xf32> -> tile<4xf32>
    %s = addf %v, %o4 : tile<4xf32>
    %p1 = reshape %out : tile<ptr<f32>> -> tile<1xptr<f32>>
    %p4 = broadcast %p1 : tile<1xptr<f32>> -> tile<4xptr<f32>>
    %pp = offset %p4, %i : tile<4xptr<f32>>, tile<4xi32> -> tile<4xptr<f32>>
    %t3 = store_ptr_tko weak %pp, %s token = %t : tile<4xptr<f32>>, tile<4xf32> -> token
    return
  }
}
"""


def environment() -> dict[str, str]:
    """Without a driver: the tests must not depend on this machine's."""
    return {**os.environ, "LD_LIBRARY_PATH": "/nonexistent"}
