"""cuda_tile kernels with loops, for tests of the passes on nv_tileas."""

from __future__ import annotations

from contract.kit import entry, module

# out[i] = fold over j in [lo, n) of acc * x + x, x = p[128 j + i]: a load whose address counts with the loop.
LOADS_IN_LOOP = module(
    entry(
        """      %i = cuda_tile.iota : tile<128xi32>
      %c128 = cuda_tile.constant <i32: 128> : tile<i32>
      %one = cuda_tile.constant <i32: 1> : tile<i32>
      %pb = cuda_tile.reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
      %pv = cuda_tile.broadcast %pb : tile<1xptr<f32>> -> tile<128xptr<f32>>
      %ob = cuda_tile.reshape %o : tile<ptr<f32>> -> tile<1xptr<f32>>
      %ov = cuda_tile.broadcast %ob : tile<1xptr<f32>> -> tile<128xptr<f32>>
      %oq = cuda_tile.offset %ov, %i : tile<128xptr<f32>>, tile<128xi32> -> tile<128xptr<f32>>
      %z = cuda_tile.constant <f32: 0.0> : tile<128xf32>
      %r = cuda_tile.for %j in (%lo to %n, step %one) : tile<i32> iter_values(%acc = %z) -> (tile<128xf32>) {
        %b = cuda_tile.muli %j, %c128 : tile<i32>
        %b1 = cuda_tile.reshape %b : tile<i32> -> tile<1xi32>
        %b2 = cuda_tile.broadcast %b1 : tile<1xi32> -> tile<128xi32>
        %b3 = cuda_tile.addi %b2, %i : tile<128xi32>
        %q = cuda_tile.offset %pv, %b3 : tile<128xptr<f32>>, tile<128xi32> -> tile<128xptr<f32>>
        %x, %t = cuda_tile.load_ptr_tko weak %q : tile<128xptr<f32>> -> tile<128xf32>, token
        %h1 = cuda_tile.mulf %acc, %x rounding<nearest_even> : tile<128xf32>
        %s = cuda_tile.addf %h1, %x rounding<nearest_even> : tile<128xf32>
        cuda_tile.continue %s : tile<128xf32>
      }
      %u = cuda_tile.store_ptr_tko weak %oq, %r : tile<128xptr<f32>>, tile<128xf32> -> token""",
        args="%p: !cuda_tile.tile<ptr<f32>>, %o: !cuda_tile.tile<ptr<f32>>, %lo: !cuda_tile.tile<i32>, %n: !cuda_tile.tile<i32>",
    )
)
