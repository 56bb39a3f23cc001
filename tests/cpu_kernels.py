"""Two kernels that tests build for the CPU, ahead of time."""

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


def environment() -> dict[str, str]:
    """Without a driver: the tests must not depend on this machine's."""
    return {**os.environ, "LD_LIBRARY_PATH": "/nonexistent"}
