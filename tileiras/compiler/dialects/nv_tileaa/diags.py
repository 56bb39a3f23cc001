"""Texts of the nv_tileaa verifiers and of its named verifier pass. The contract gives no wording; ours names the slot."""

from __future__ import annotations

from tileiras.diag import ERROR, REMARK, WORD_ERROR, WORD_REMARK, Diag

_SRC = "nv_tileaa verifiers"

LAYOUT_SHAPE = Diag(
    "AA-0101",
    ERROR,
    "layout of {bits} index bits does not fit the shape [{shape}] of {want} bits",
    _SRC,
    WORD_ERROR,
)
"""
cause: An operation of the nv_tileaa form has a type or attribute that does not fit the shape, alignment or rank
beside it. Code that comes from Tile IR never has that.
remedy: In a text written or edited by hand, correct the attribute that the message names. If no pass input was
edited, report the kernel: `tileiras-reduce` makes it small.

in: function(%p: tensor<128xptr<f32>, #b>)
  $ tileiras-opt k.tileir
-     %x, %t = nv_tileas.load_ptr_tko %p {memory_ordering_semantics = weak, operandSegmentSizes = array<i32: 1, 0, 0, 0>} : tensor<128xptr<f32>, #b> -> tensor<64xf32, #b>, !cuda_tile.token
+     %x, %t = nv_tileas.load_ptr_tko %p {memory_ordering_semantics = weak, operandSegmentSizes = array<i32: 1, 0, 0, 0>} : tensor<128xptr<f32>, #b> -> tensor<128xf32, #b>, !cuda_tile.token
"""  # noqa: E501

TENSOR_SHAPE = Diag(
    "AA-0102", ERROR, "tensor dimensions must be powers of two, got [{shape}]", _SRC, WORD_ERROR
)
"""
see: AA-0101

in: tensors
  $ tileiras-opt k.tileir
-   %i = nv_tileaa.iota : () -> tensor<6xi32>
+   %i = nv_tileaa.iota : () -> tensor<8xi32>
"""

TILE_ALIGNMENT = Diag(
    "AA-0103",
    ERROR,
    "tile attribute alignment must be a power of two of at least the element size {size}, got {got}",
    _SRC,
    WORD_ERROR,
)
"""
see: AA-0101

in: function(%p: tensor<128xptr<f32>, #b>)
  $ tileiras-opt k.tileir
-     %x, %t = nv_tileas.load_ptr_tko %p {memory_ordering_semantics = weak, operandSegmentSizes = array<i32: 1, 0, 0, 0>, tile = #nv_tileaa.tile<[128], align = 2>} : tensor<128xptr<f32>, #b> -> tensor<128xf32, #b>, !cuda_tile.token
+     %x, %t = nv_tileas.load_ptr_tko %p {memory_ordering_semantics = weak, operandSegmentSizes = array<i32: 1, 0, 0, 0>, tile = #nv_tileaa.tile<[128], align = 16>} : tensor<128xptr<f32>, #b> -> tensor<128xf32, #b>, !cuda_tile.token
"""  # noqa: E501

TILE_RANK = Diag(
    "AA-0104", ERROR, "tile attribute has rank {got}, but the tensor has rank {want}", _SRC, WORD_ERROR
)
"""
see: AA-0101

in: function(%p: tensor<128xptr<f32>, #b>)
  $ tileiras-opt k.tileir
-     %x, %t = nv_tileas.load_ptr_tko %p {memory_ordering_semantics = weak, operandSegmentSizes = array<i32: 1, 0, 0, 0>, tile = #nv_tileaa.tile<[128, 1], align = 16>} : tensor<128xptr<f32>, #b> -> tensor<128xf32, #b>, !cuda_tile.token
+     %x, %t = nv_tileas.load_ptr_tko %p {memory_ordering_semantics = weak, operandSegmentSizes = array<i32: 1, 0, 0, 0>, tile = #nv_tileaa.tile<[128], align = 16>} : tensor<128xptr<f32>, #b> -> tensor<128xf32, #b>, !cuda_tile.token
"""  # noqa: E501

CONSTANT = Diag(
    "AA-0105", ERROR, "attribute 'value' of type '{got}' does not fill the result '{want}'", _SRC, WORD_ERROR
)
"""
see: AA-0101

in: function(%lo: tensor<i32, #s>)
  $ tileiras-opt k.tileir
-     %c = nv_tileas.constant {value = dense<1> : !cuda_tile.tile<4xi32>} : () -> tensor<i32, #s>
+     %c = nv_tileas.constant {value = dense<1> : !cuda_tile.tile<i32>} : () -> tensor<i32, #s>
"""

LAYOUT_PLACES = Diag("AA-0107", ERROR, "layout {layout} {why}", _SRC, WORD_ERROR)
"""
see: AA-0101

  $ tileiras-opt k.tileir
- #b = #linear<7, lane = [1, 2, 4, 8, 16], warp = [32, 32]>
+ #b = #linear<7, lane = [1, 2, 4, 8, 16], warp = [32, 64]>
  nv_tileas.module {sym_name = "m", nv_tileaa.compute_capability = 90 : i32} {
    nv_tileas.func {sym_name = "k", nv_tileaa.kernel_spec = {num_warps = 4}, function_type = () -> ()} {
    ^bb0():
      %x = nv_tileas.iota : () -> tensor<128xi32, #b>
      nv_tileas.return
    }
  }
"""

SPEC = Diag("AA-0106", ERROR, "kernel_spec entry '{name}' is invalid: {got}", _SRC, WORD_ERROR)
"""
cause: The description of the kernel (kernel_spec) or a type that a pass needs is missing or has a value that it
cannot take.
remedy: Run the passes in the order of the pipeline, the one that attaches the kernel_spec before the others, and
correct the entry that the message names.

  $ tileiras-opt k.tileir
  #s = #linear<0, lane = [0, 0, 0, 0, 0], warp = [0, 0]>
  nv_tileas.module {sym_name = "m", nv_tileaa.compute_capability = 90 : i32} {
- nv_tileas.func {sym_name = "k", nv_tileaa.kernel_spec = {num_warps = 3}, function_type = () -> ()} {
+ nv_tileas.func {sym_name = "k", nv_tileaa.kernel_spec = {num_warps = 4}, function_type = () -> ()} {
    ^bb0(%lo: tensor<i32, #s>):
      nv_tileas.return
    }
  }
"""


# TileAA agent verifier
AGENT_NESTED = Diag(
    "AA-0201", ERROR, "agent {id} lies inside another agent", "TileAA agent verifier", WORD_ERROR
)
"""
cause: Agents (groups of warps of one block) overlap, repeat an id, or do not add up to the warps and registers of
the block.
remedy: Give every agent its own id, keep agents beside each other, and let warps and registers add up to those of
kernel_spec.

in: agents
  $ tileiras-opt k.tileir --pass TileAAAgentVerifier
      nv_tileaa.agent {id = 0 : i32, num_warps = 3 : i32} {
-   nv_tileaa.agent {id = 1 : i32, num_warps = 1 : i32} {
-   }
      }
+   nv_tileaa.agent {id = 1 : i32, num_warps = 1 : i32} {
+   }
"""

AGENT_TWICE = Diag(
    "AA-0202",
    ERROR,
    "agent id {id} is used twice in function '{function}'",
    "TileAA agent verifier",
    WORD_ERROR,
)
"""
see: AA-0201

in: agents
  $ tileiras-opt k.tileir --pass TileAAAgentVerifier
      nv_tileaa.agent {id = 0 : i32, num_warps = 3 : i32} {
      }
-   nv_tileaa.agent {id = 0 : i32, num_warps = 1 : i32} {
+   nv_tileaa.agent {id = 1 : i32, num_warps = 1 : i32} {
      }
"""

AGENT_WARPS = Diag(
    "AA-0203",
    ERROR,
    "agents of function '{function}' have {got} warps together, but its kernel_spec has {want}",
    "TileAA agent verifier",
    WORD_ERROR,
)
"""
see: AA-0201

in: agents
  $ tileiras-opt k.tileir --pass TileAAAgentVerifier
-   nv_tileaa.agent {id = 0 : i32, num_warps = 2 : i32} {
+   nv_tileaa.agent {id = 0 : i32, num_warps = 4 : i32} {
      }
"""

AGENT_REGISTERS = Diag(
    "AA-0204",
    ERROR,
    "registers of agent {id} must be a multiple of 8 from 24 to 256, got {got}",
    "TileAA agent verifier",
    WORD_ERROR,
)
"""
see: AA-0201

in: agents
  $ tileiras-opt k.tileir --pass TileAAAgentVerifier
-   nv_tileaa.agent {id = 0 : i32, num_warps = 4 : i32, registers = 30 : i32} {
+   nv_tileaa.agent {id = 0 : i32, num_warps = 4 : i32, registers = 32 : i32} {
      }
"""

AGENT_GROUPS = Diag(
    "AA-0205",
    ERROR,
    "agent {id} has registers of its own, but its warps {first} to {last} are no whole warpgroups",
    "TileAS agent verifier",
    WORD_ERROR,
)
"""
see: AA-0201

in: agents warps=2
  $ tileiras-opt k.tileir --pass TileASAgentVerifier
-   nv_tileaa.agent {id = 0 : i32, num_warps = 2 : i32, registers = 24 : i32} {
+   nv_tileaa.agent {id = 0 : i32, num_warps = 2 : i32} {
      }
"""

AGENT_SUM = Diag(
    "AA-0206",
    ERROR,
    "agents of function '{function}' take {got} registers together, and a block starts with {want}",
    "TileAS agent verifier",
    WORD_ERROR,
)
"""
see: AA-0201

  $ tileiras-opt k.tileir --pass TileASAgentVerifier
  nv_tileaa.module {sym_name = "m"} {
    nv_tileaa.func {sym_name = "k", function_type = () -> (), nv_tileaa.kernel_spec = {num_warps = 4}, nvvm.maxnreg = 168 : i32} {
-   nv_tileaa.agent {id = 0 : i32, num_warps = 4 : i32, registers = 232 : i32} {
+   nv_tileaa.agent {id = 0 : i32, num_warps = 4 : i32, registers = 168 : i32} {
      }
      nv_tileaa.return
    }
  }
"""

AGENT_ISSUING = Diag(
    "AA-0207",
    ERROR,
    "issuing_warps of agent {id} must be from 1 to {want}, got {got}",
    "TileAS agent verifier",
    WORD_ERROR,
)
"""
see: AA-0201

in: agents
  $ tileiras-opt k.tileir --pass TileASAgentVerifier
-   nv_tileaa.agent {id = 0 : i32, num_warps = 4 : i32, issuing_warps = 5 : i32} {
+   nv_tileaa.agent {id = 0 : i32, num_warps = 4 : i32, issuing_warps = 1 : i32} {
      }
"""

AGENT_ID = Diag(
    "AA-0208",
    ERROR,
    "the id of an agent must be from 0 to {last}, got {id}: its warps wait at the barrier with the number behind it",
    "TileAS agent verifier",
    WORD_ERROR,
)
"""
see: AA-0201

in: agents
  $ tileiras-opt k.tileir --pass TileASAgentVerifier
-   nv_tileaa.agent {id = 15 : i32, num_warps = 4 : i32} {
+   nv_tileaa.agent {id = 0 : i32, num_warps = 4 : i32} {
      }
"""

AGENT_TURNS = Diag("AA-0209", ERROR, "'{name}' is out of turn: {reason}", "TileAS agent verifier", WORD_ERROR)
"""
cause: Two warpgroups of a function in nv_tileas form take turns at the tensor cores in a way that ends in a wait for nobody, or
at a barrier that other warps use. Code that comes from Tile IR never does.
remedy: Around a loop `turns.begin`, `turns.take` and `turns.end`, in it `turns.give` and `turns.take` one after the other, in an
agent of eight warps that comes first, with barriers behind those of agents: 14 is always right.

  $ tileiras-opt k.tileir --pass TileASAgentVerifier
  nv_tileas.module {sym_name = "m"} {
    nv_tileas.func {sym_name = "k", function_type = () -> (), nv_tileaa.kernel_spec = {num_warps = 8}} {
    nv_tileas.agent {id = 0 : i32, num_warps = 8 : i32} {
        nv_tileas.turns.begin {barrier = 14 : i64}
        nv_tileas.turns.take {barrier = 14 : i64}
-       nv_tileas.turns.give {barrier = 14 : i64}
+       nv_tileas.turns.end {barrier = 14 : i64}
      }
      nv_tileas.return
    }
  }
"""

HALVED = Diag(
    "AA-0310", REMARK, "the loop takes one half of its {rows} rows after the other: its scores and sums do not fit the registers "
    "together", "TileAAHalveRows", WORD_REMARK, kind="passed", category="vectorization",
)  # fmt: skip
"""
cause: A remark of targets with wgmma: sums that a loop carries, and scores that it computes from them, are more registers than a
thread has. Rows know nothing of each other, so that each half has its scores in the same registers.
remedy: Nothing is wrong. Tiles of half as many rows, in twice as many blocks, do the same with less shared memory.

in: attend rows=256
- $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
+ $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all --disable=cp.async
"""


CLUSTER = Diag(
    "AA-0311", REMARK, "{ctas} CTAs of a cluster share the tile block", "TileAASplitBlocks", WORD_REMARK,
    kind="passed", category="memory",
)  # fmt: skip
"""
cause: A remark: the hint `num_cta_in_cga` (cuTile's `num_ctas`) is followed. A launch counts clusters.
remedy: Nothing is wrong. Without the hint, a tile block is one CTA.

  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
  cuda_tile.module @m {
-   entry @k(%p: tile<ptr<f32>>) optimization_hints = <sm_90 = {num_cta_in_cga = 2}> {
+   entry @k(%p: tile<ptr<f32>>) {
      %z = constant <i32: 0> : tile<i32>
      %x = constant <f32: 1.0> : tile<16x16xf32>
      %v = make_tensor_view %p, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
      %t = make_partition_view %v : partition_view<tile=(16x16), tensor_view<64x64xf32, strides=[64,1]>>
      %s = store_view_tko weak %x, %t[%z, %z] : tile<16x16xf32>, partition_view<tile=(16x16), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
      return
    }
  }
"""  # noqa: E501


NESTED = Diag(
    "AA-0312", REMARK, "the loop over the steps of all tiles is a loop over tiles around one over steps", "TileAANestTiles",
    WORD_REMARK, kind="passed", category="memory",
)  # fmt: skip
"""
cause: A remark: a branch ends a tile each time that a counter of steps gets to its bound. As two loops, the inner one's copies
run ahead, and its products are asynchronous.
remedy: Nothing is wrong.

  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
  cuda_tile.module @m {
    entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %out: tile<ptr<i32>>, %n: tile<i32>, %total: tile<i32>) {
      %pa = assume div_by<16>, %a : tile<ptr<f16>>
      %pb = assume div_by<16>, %b : tile<ptr<f16>>
      %zero = constant <i32: 0> : tile<i32>
      %one = constant <i32: 1> : tile<i32>
      %two = constant <i32: 2> : tile<i32>
      %extent = constant <i32: 96> : tile<i32>
      %last = subi %n, %one : tile<i32>
      %av = make_tensor_view %pa, shape = [192, %extent], strides = [%extent, 1] :
        tile<i32> -> tensor_view<192x?xf16, strides=[?,1]>
      %bv = make_tensor_view %pb, shape = [%extent, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf16, strides=[64,1]>
      %cv = make_tensor_view %c, shape = [192, 64], strides = [64, 1] : tensor_view<192x64xf32, strides=[64,1]>
      %at = make_partition_view %av : partition_view<tile=(64x32), padding_value = zero, tensor_view<192x?xf16, strides=[?,1]>>
      %bt = make_partition_view %bv : partition_view<tile=(32x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>
      %ct = make_partition_view %cv : partition_view<tile=(64x64), tensor_view<192x64xf32, strides=[64,1]>>
      %none = constant <f32: 0.0> : tile<64x64xf32>
      %v = make_token : token
      %all:4 = for %i in (%zero to %total, step %one) : tile<i32>
          iter_values(%acc = %none, %k = %zero, %t = %zero, %u = %v) -> (tile<64x64xf32>, tile<i32>, tile<i32>, token) {
        %x, %t1 = load_view_tko weak %at[%t, %k] token=%v : partition_view<tile=(64x32), padding_value = zero, tensor_view<192x?xf16, strides=[?,1]>>, tile<i32> -> tile<64x32xf16>, token
        %y, %t2 = load_view_tko weak %bt[%k, %zero] token=%v : partition_view<tile=(32x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>, tile<i32> -> tile<32x64xf16>, token
        %z = mmaf %x, %y, %acc : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
        %next = addi %k, %one : tile<i32>
-       %ends = cmpi equal %next, %n, signed : tile<i32> -> tile<i1>
+       %ends = cmpi equal %next, %i, signed : tile<i32> -> tile<i1>
        %r:4 = if %ends -> (tile<64x64xf32>, tile<i32>, tile<i32>, token) {
          %stored = store_view_tko weak %z, %ct[%t, %zero] token=%u : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<192x64xf32, strides=[64,1]>>, tile<i32> -> token
          %far = addi %t, %one : tile<i32>
          yield %none, %zero, %far, %stored : tile<64x64xf32>, tile<i32>, tile<i32>, token
        } else {
          yield %z, %next, %t, %u : tile<64x64xf32>, tile<i32>, tile<i32>, token
        }
        continue %r#0, %r#1, %r#2, %r#3 : tile<64x64xf32>, tile<i32>, tile<i32>, token
      }
      %t3 = store_ptr_tko weak %out, %zero : tile<ptr<i32>>, tile<i32> -> token
      return
    }
  }
"""  # noqa: E501

NOT_NESTED = Diag(
    "AA-0313", REMARK, "the loop over the steps of all tiles stays one loop: {reason}", "TileAANestTiles",
    WORD_REMARK, kind="missed", category="memory",
)  # fmt: skip
"""
cause: A remark: a branch ends a tile each time that a counter of steps gets to its bound, and more than the tiles would be lost
or done otherwise if the steps of a tile were a loop of their own. The loop's loads wait behind the branch.
remedy: Do what the message names in the branch that ends a tile, or write two loops.

  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
  cuda_tile.module @m {
    entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %out: tile<ptr<i32>>, %n: tile<i32>, %total: tile<i32>) {
      %pa = assume div_by<16>, %a : tile<ptr<f16>>
      %pb = assume div_by<16>, %b : tile<ptr<f16>>
      %zero = constant <i32: 0> : tile<i32>
      %one = constant <i32: 1> : tile<i32>
      %two = constant <i32: 2> : tile<i32>
      %extent = constant <i32: 96> : tile<i32>
      %last = subi %n, %one : tile<i32>
      %av = make_tensor_view %pa, shape = [192, %extent], strides = [%extent, 1] :
        tile<i32> -> tensor_view<192x?xf16, strides=[?,1]>
      %bv = make_tensor_view %pb, shape = [%extent, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf16, strides=[64,1]>
      %cv = make_tensor_view %c, shape = [192, 64], strides = [64, 1] : tensor_view<192x64xf32, strides=[64,1]>
      %at = make_partition_view %av : partition_view<tile=(64x32), padding_value = zero, tensor_view<192x?xf16, strides=[?,1]>>
      %bt = make_partition_view %bv : partition_view<tile=(32x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>
      %ct = make_partition_view %cv : partition_view<tile=(64x64), tensor_view<192x64xf32, strides=[64,1]>>
      %none = constant <f32: 0.0> : tile<64x64xf32>
      %v = make_token : token
      %all:4 = for %i in (%zero to %total, step %one) : tile<i32>
          iter_values(%acc = %none, %k = %zero, %t = %zero, %u = %v) -> (tile<64x64xf32>, tile<i32>, tile<i32>, token) {
        %x, %t1 = load_view_tko weak %at[%t, %k] token=%v : partition_view<tile=(64x32), padding_value = zero, tensor_view<192x?xf16, strides=[?,1]>>, tile<i32> -> tile<64x32xf16>, token
        %y, %t2 = load_view_tko weak %bt[%k, %zero] token=%v : partition_view<tile=(32x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>, tile<i32> -> tile<32x64xf16>, token
        %z = mmaf %x, %y, %acc : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
        %next = addi %k, %one : tile<i32>
        %ends = cmpi equal %next, %n, signed : tile<i32> -> tile<i1>
        %r:4 = if %ends -> (tile<64x64xf32>, tile<i32>, tile<i32>, token) {
          %stored = store_view_tko weak %z, %ct[%t, %zero] token=%u : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<192x64xf32, strides=[64,1]>>, tile<i32> -> token
          %far = addi %t, %one : tile<i32>
          yield %none, %zero, %far, %stored : tile<64x64xf32>, tile<i32>, tile<i32>, token
        } else {
          yield %z, %next, %t, %u : tile<64x64xf32>, tile<i32>, tile<i32>, token
        }
        continue %r#0, %r#1, %r#2, %r#3 : tile<64x64xf32>, tile<i32>, tile<i32>, token
      }
-     %t3 = store_ptr_tko weak %out, %all#1 : tile<ptr<i32>>, tile<i32> -> token
+     %t3 = store_ptr_tko weak %out, %one : tile<ptr<i32>>, tile<i32> -> token
      return
    }
  }
"""  # noqa: E501

WHERE_USED = Diag(
    "AA-0314", REMARK, "{count} operands that the loop carries for its next step are loaded in the step that uses them",
    "TileAALoadWhereUsed", WORD_REMARK, kind="passed", category="memory",
)  # fmt: skip
"""
cause: A remark: a loop of products loads ahead by itself, one step far, in registers. Copies to shared memory run further.
remedy: Nothing is wrong.

  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
  cuda_tile.module @m {
    entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %n: tile<i32>) {
      %pa = assume div_by<16>, %a : tile<ptr<f16>>
      %pb = assume div_by<16>, %b : tile<ptr<f16>>
      %zero = constant <i32: 0> : tile<i32>
      %one = constant <i32: 1> : tile<i32>
      %two = constant <i32: 2> : tile<i32>
      %extent = constant <i32: 128> : tile<i32>
      %av = make_tensor_view %pa, shape = [64, %extent], strides = [128, 1] : tile<i32> -> tensor_view<64x?xf16, strides=[128,1]>
      %bv = make_tensor_view %pb, shape = [%extent, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf16, strides=[64,1]>
      %cv = make_tensor_view %c, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
      %at = make_partition_view %av : partition_view<tile=(64x32), padding_value = zero, tensor_view<64x?xf16, strides=[128,1]>>
      %bt = make_partition_view %bv : partition_view<tile=(32x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>
      %ct = make_partition_view %cv : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
      %none = constant <f32: 0.0> : tile<64x64xf32>
      %v = make_token : token
      %px, %tx = load_view_tko weak %at[%zero, %zero] token=%v : partition_view<tile=(64x32), padding_value = zero, tensor_view<64x?xf16, strides=[128,1]>>, tile<i32> -> tile<64x32xf16>, token
        %py, %ty = load_view_tko weak %bt[%zero, %zero] token=%v : partition_view<tile=(32x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>, tile<i32> -> tile<32x64xf16>, token
-     %all:3 = for %i in (%one to %n, step %one) : tile<i32> iter_values(%acc = %none, %x = %px, %y = %py) -> (tile<64x64xf32>, tile<64x32xf16>, tile<32x64xf16>) {
+     %all:3 = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none, %x = %px, %y = %py) -> (tile<64x64xf32>, tile<64x32xf16>, tile<32x64xf16>) {
        %k = addi %i, %zero : tile<i32>
        %x1, %ux = load_view_tko weak %at[%zero, %k] token=%v : partition_view<tile=(64x32), padding_value = zero, tensor_view<64x?xf16, strides=[128,1]>>, tile<i32> -> tile<64x32xf16>, token
        %y1, %uy = load_view_tko weak %bt[%k, %zero] token=%v : partition_view<tile=(32x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>, tile<i32> -> tile<32x64xf16>, token
        %z = mmaf %x, %y, %acc : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
        continue %z, %x1, %y1 : tile<64x64xf32>, tile<64x32xf16>, tile<32x64xf16>
      }
      %sum = mmaf %all#1, %all#2, %all#0 : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
      %done = store_view_tko weak %sum, %ct[%zero, %zero] token=%v : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
      return
    }
  }
"""  # noqa: E501

NOT_WHERE_USED = Diag(
    "AA-0315", REMARK, "operands that the loop carries for its next step stay in registers: {reason}",
    "TileAALoadWhereUsed", WORD_REMARK, kind="missed", category="memory",
)  # fmt: skip
"""
cause: A remark: a loop of products loads the operands of its next step, and what follows it is no such step, or asks for more.
remedy: Multiply behind the loop as in it, or load operands in the step that uses them.

  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
  cuda_tile.module @m {
    entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %n: tile<i32>) {
      %pa = assume div_by<16>, %a : tile<ptr<f16>>
      %pb = assume div_by<16>, %b : tile<ptr<f16>>
      %zero = constant <i32: 0> : tile<i32>
      %one = constant <i32: 1> : tile<i32>
      %two = constant <i32: 2> : tile<i32>
      %extent = constant <i32: 128> : tile<i32>
      %av = make_tensor_view %pa, shape = [64, %extent], strides = [128, 1] : tile<i32> -> tensor_view<64x?xf16, strides=[128,1]>
      %bv = make_tensor_view %pb, shape = [%extent, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf16, strides=[64,1]>
      %cv = make_tensor_view %c, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
      %at = make_partition_view %av : partition_view<tile=(64x32), padding_value = zero, tensor_view<64x?xf16, strides=[128,1]>>
      %bt = make_partition_view %bv : partition_view<tile=(32x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>
      %ct = make_partition_view %cv : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
      %none = constant <f32: 0.0> : tile<64x64xf32>
      %v = make_token : token
      %px, %tx = load_view_tko weak %at[%zero, %zero] token=%v : partition_view<tile=(64x32), padding_value = zero, tensor_view<64x?xf16, strides=[128,1]>>, tile<i32> -> tile<64x32xf16>, token
        %py, %ty = load_view_tko weak %bt[%zero, %zero] token=%v : partition_view<tile=(32x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>, tile<i32> -> tile<32x64xf16>, token
      %all:3 = for %i in (%one to %n, step %one) : tile<i32> iter_values(%acc = %none, %x = %px, %y = %py) -> (tile<64x64xf32>, tile<64x32xf16>, tile<32x64xf16>) {
        %k = addi %i, %zero : tile<i32>
        %x1, %ux = load_view_tko weak %at[%zero, %k] token=%v : partition_view<tile=(64x32), padding_value = zero, tensor_view<64x?xf16, strides=[128,1]>>, tile<i32> -> tile<64x32xf16>, token
        %y1, %uy = load_view_tko weak %bt[%k, %zero] token=%v : partition_view<tile=(32x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>, tile<i32> -> tile<32x64xf16>, token
        %z = mmaf %x, %y, %acc : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
        continue %z, %x1, %y1 : tile<64x64xf32>, tile<64x32xf16>, tile<32x64xf16>
      }
-     %sum = mmaf %all#1, %all#2, %none : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
+     %sum = mmaf %all#1, %all#2, %all#0 : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
      %done = store_view_tko weak %sum, %ct[%zero, %zero] token=%v : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
      return
    }
  }
"""  # noqa: E501


# TileAALoadOnce
LOADED_ONCE = Diag(
    "AA-0323", REMARK, "the tile is what another load of the step brings: it is loaded once", "TileAALoadOnce", WORD_REMARK,
    kind="passed", category="memory",
)  # fmt: skip
"""
cause: A remark: two weak loads for products name one tile of one view behind the same token, perhaps one of them transposed, as of a
latent that is keys and values.
remedy: Nothing is wrong.

  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
  cuda_tile.module @m {
    entry @k(%a: tile<ptr<f16>>, %c: tile<ptr<f32>>) {
      %zero = constant <i32: 0> : tile<i32>
      %one = constant <i32: 1> : tile<i32>
      %av = make_tensor_view %a, shape = [64, 32], strides = [32, 1] : tensor_view<64x32xf16, strides=[32,1]>
      %cv = make_tensor_view %c, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
      %at = make_partition_view %av : partition_view<tile=(64x32), tensor_view<64x32xf16, strides=[32,1]>>
      %tt = make_partition_view %av : partition_view<tile=(32x64), tensor_view<64x32xf16, strides=[32,1]>, dim_map=[1, 0]>
      %ct = make_partition_view %cv : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
      %none = constant <f32: 0.0> : tile<64x64xf32>
      %v = make_token : token
      %x, %tx = load_view_tko weak %at[%zero, %zero] token=%v : partition_view<tile=(64x32), tensor_view<64x32xf16, strides=[32,1]>>, tile<i32> -> tile<64x32xf16>, token
-     %y, %ty = load_view_tko weak %tt[%zero, %zero] token=%v : partition_view<tile=(32x64), tensor_view<64x32xf16, strides=[32,1]>, dim_map=[1, 0]>, tile<i32> -> tile<32x64xf16>, token
+     %y, %ty = load_view_tko weak %tt[%zero, %one] token=%v : partition_view<tile=(32x64), tensor_view<64x32xf16, strides=[32,1]>, dim_map=[1, 0]>, tile<i32> -> tile<32x64xf16>, token
      %z = mmaf %x, %y, %none : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
      %done = store_view_tko weak %z, %ct[%zero, %zero] token=%v : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
      return
    }
  }
"""  # noqa: E501


# TileAAInlineOneStep
INLINES_ONE_STEP = Diag(
    "AA-0335", REMARK, "the loop has one step: its body stands in its place", "TileAAInlineOneStep", WORD_REMARK,
    kind="passed", category="memory",
)  # fmt: skip
"""
cause: A remark: a loop of one step, with products, is all that the loop around it carries, as one over the channels of each tap
of a convolution where a tile has all channels; or, with tcgen05, it is around loops with products. Loads run ahead within the
innermost loop of their product, and what is loaded in front of two loops waits in registers.
remedy: Nothing is wrong.

  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
  cuda_tile.module @m {
    entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %n: tile<i32>) {
      %pa = assume div_by<16>, %a : tile<ptr<f16>>
      %pb = assume div_by<16>, %b : tile<ptr<f16>>
      %zero = constant <i32: 0> : tile<i32>
      %one = constant <i32: 1> : tile<i32>
      %two = constant <i32: 2> : tile<i32>
      %av = make_tensor_view %pa, shape = [64, 1024], strides = [1024, 1] : tensor_view<64x1024xf16, strides=[1024,1]>
      %bv = make_tensor_view %pb, shape = [1024, 128], strides = [128, 1] : tensor_view<1024x128xf16, strides=[128,1]>
      %cv = make_tensor_view %c, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
      %at = make_partition_view %av : partition_view<tile=(64x32), tensor_view<64x1024xf16, strides=[1024,1]>>
      %bt = make_partition_view %bv : partition_view<tile=(32x64), tensor_view<1024x128xf16, strides=[128,1]>>
      %ct = make_partition_view %cv : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
      %none = constant <f32: 0.0> : tile<64x64xf32>
      %t = make_token : token
      %all = for %j in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<64x64xf32>) {
-       %sum = for %i in (%zero to %one, step %one) : tile<i32> iter_values(%part = %acc) -> (tile<64x64xf32>) {
+       %sum = for %i in (%zero to %two, step %one) : tile<i32> iter_values(%part = %acc) -> (tile<64x64xf32>) {
          %x, %t1 = load_view_tko weak %at[%zero, %j] token = %t : partition_view<tile=(64x32), tensor_view<64x1024xf16, strides=[1024,1]>>, tile<i32> -> tile<64x32xf16>, token
          %y, %t2 = load_view_tko weak %bt[%j, %i] token = %t : partition_view<tile=(32x64), tensor_view<1024x128xf16, strides=[128,1]>>, tile<i32> -> tile<32x64xf16>, token
          %next = mmaf %x, %y, %part : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
          continue %next : tile<64x64xf32>
        }
        continue %sum : tile<64x64xf32>
      }
      %t3 = store_view_tko weak %all, %ct[%zero, %zero] token = %t : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
      return
    }
  }
"""  # noqa: E501


# TileAALoopsToFor
COUNTED = Diag(
    "AA-0329", REMARK, "the loop is counted by an index of its own, from zero up: {how}", "TileAALoopsToFor", WORD_REMARK,
    kind="passed", category="memory",
)  # fmt: skip
"""
cause: A remark: an index of the loop goes down, or two go towards each other. How often the loop goes round is computed in front
of it, and its indices from the number of the step, so that loads run ahead.
remedy: Nothing is wrong.

in: kernel(%x: tile<ptr<f32>>, %n: tile<i32>)
  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
      %zero = constant <i32: 0> : tile<i32>
      %one = constant <i32: 1> : tile<i32>
      %none = constant <f32: 0.0> : tile<128xf32>
      %v = make_tensor_view %x, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
      %w = make_partition_view %v : partition_view<tile=(128), tensor_view<?xf32, strides=[1]>>
      %all:2 = loop iter_values(%sum = %none, %i = %n) : tile<128xf32>, tile<i32> -> tile<128xf32>, tile<i32> {
        %go = cmpi greater_than_or_equal %i, %zero, signed : tile<i32> -> tile<i1>
        if %go {
          %t, %u = load_view_tko weak %w[%i] : partition_view<tile=(128), tensor_view<?xf32, strides=[1]>>, tile<i32> -> tile<128xf32>, token
          %next = addf %sum, %t : tile<128xf32>
-         %down = subi %i, %one overflow<no_signed_wrap> : tile<i32>
+         %down = subi %i, %i overflow<no_signed_wrap> : tile<i32>
          continue %next, %down : tile<128xf32>, tile<i32>
        }
        break %sum, %i : tile<128xf32>, tile<i32>
      }
      %last = store_view_tko weak %all#0, %w[%zero] : tile<128xf32>, partition_view<tile=(128), tensor_view<?xf32, strides=[1]>>, tile<i32> -> token
"""  # noqa: E501

STAYS_A_LOOP = Diag(
    "AA-0330", REMARK, "loads of the loop do not run ahead, as it is not known how often it goes round: {reason}",
    "TileAALoopsToFor", WORD_REMARK, kind="missed", category="memory",
)  # fmt: skip
"""
cause: A remark: a loop with loads counts in no way that would say in front of it how often it goes round.
remedy: Count by an index that goes on by the same number in each step, that all `continue`s share, and that a comparison with a
number that does not change holds against its end, in front of the work.

in: kernel(%x: tile<ptr<f32>>, %n: tile<i32>)
  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
      %zero = constant <i32: 0> : tile<i32>
      %one = constant <i32: 1> : tile<i32>
      %none = constant <f32: 0.0> : tile<128xf32>
      %v = make_tensor_view %x, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
      %w = make_partition_view %v : partition_view<tile=(128), tensor_view<?xf32, strides=[1]>>
      %all:2 = loop iter_values(%sum = %none, %i = %n) : tile<128xf32>, tile<i32> -> tile<128xf32>, tile<i32> {
        %go = cmpi greater_than_or_equal %i, %zero, signed : tile<i32> -> tile<i1>
        if %go {
          %t, %u = load_view_tko weak %w[%i] : partition_view<tile=(128), tensor_view<?xf32, strides=[1]>>, tile<i32> -> tile<128xf32>, token
          %next = addf %sum, %t : tile<128xf32>
-         %down = subi %i, %i overflow<no_signed_wrap> : tile<i32>
+         %down = subi %i, %one overflow<no_signed_wrap> : tile<i32>
          continue %next, %down : tile<128xf32>, tile<i32>
        }
        break %sum, %i : tile<128xf32>, tile<i32>
      }
      %last = store_view_tko weak %all#0, %w[%zero] : tile<128xf32>, partition_view<tile=(128), tensor_view<?xf32, strides=[1]>>, tile<i32> -> token
"""  # noqa: E501

SPLIT_AT_BOUND = Diag(
    "AA-0331", REMARK, "the loop is two loops: up to where a branch of its products no longer holds, and from there on",
    "TileAALoopsToFor", WORD_REMARK, kind="passed", category="memory",
)  # fmt: skip
"""
cause: A remark: a loop of products has more of them in a branch that asks whether the index is less than a number. Neither loop
has the branch, and loads of both run ahead.
remedy: Nothing is wrong. The body of the loop is there twice.

in: kernel(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %n: tile<i32>, %m: tile<i32>)
  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
      %zero = constant <i32: 0> : tile<i32>
      %one = constant <i32: 1> : tile<i32>
      %none = constant <f32: 0.0> : tile<64x64xf32>
      %av = make_tensor_view %a, shape = [64, 1024], strides = [1024, 1] : tensor_view<64x1024xf16, strides=[1024,1]>
      %bv = make_tensor_view %b, shape = [1024, 64], strides = [64, 1] : tensor_view<1024x64xf16, strides=[64,1]>
      %cv = make_tensor_view %c, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
      %at = make_partition_view %av : partition_view<tile=(64x32), tensor_view<64x1024xf16, strides=[1024,1]>>
      %bt = make_partition_view %bv : partition_view<tile=(32x64), tensor_view<1024x64xf16, strides=[64,1]>>
      %ct = make_partition_view %cv : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
      %sum:2 = loop iter_values(%acc = %none, %j = %zero) : tile<64x64xf32>, tile<i32> -> tile<64x64xf32>, tile<i32> {
        %go = cmpi less_than %j, %n, signed : tile<i32> -> tile<i1>
        if %go {
          %x, %t1 = load_view_tko weak %at[%zero, %j] : partition_view<tile=(64x32), tensor_view<64x1024xf16, strides=[1024,1]>>, tile<i32> -> tile<64x32xf16>, token
          %y, %t2 = load_view_tko weak %bt[%j, %zero] : partition_view<tile=(32x64), tensor_view<1024x64xf16, strides=[64,1]>>, tile<i32> -> tile<32x64xf16>, token
          %next = mmaf %x, %y, %acc : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
-         %more = cmpi less_than %j, %m, signed : tile<i32> -> tile<i1>
+         %more = cmpi equal %j, %m, signed : tile<i32> -> tile<i1>
          %both = if %more -> (tile<64x64xf32>) {
            %z, %t3 = load_view_tko weak %bt[%zero, %j] : partition_view<tile=(32x64), tensor_view<1024x64xf16, strides=[64,1]>>, tile<i32> -> tile<32x64xf16>, token
            %twice = mmaf %x, %z, %next : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
            yield %twice : tile<64x64xf32>
          } else {
            yield %next : tile<64x64xf32>
          }
          %up = addi %j, %one overflow<no_signed_wrap> : tile<i32>
          continue %both, %up : tile<64x64xf32>, tile<i32>
        }
        break %acc, %j : tile<64x64xf32>, tile<i32>
      }
      %t4 = store_view_tko weak %sum#0, %ct[%zero, %zero] : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
"""  # noqa: E501

STAYS_ONE_LOOP = Diag(
    "AA-0332", REMARK, "loads in a branch of the loop's products do not run ahead: {reason}", "TileAALoopsToFor", WORD_REMARK,
    kind="missed", category="memory",
)  # fmt: skip
"""
cause: A remark: a loop of products has more of them in a branch that asks for the index, and is not two loops, one in front of a
bound and one behind it.
remedy: Ask whether the index is less than a number that the loop does not change, or at least this, with a step of 1.

in: kernel(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %n: tile<i32>, %m: tile<i32>)
  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
      %zero = constant <i32: 0> : tile<i32>
      %one = constant <i32: 1> : tile<i32>
      %none = constant <f32: 0.0> : tile<64x64xf32>
      %av = make_tensor_view %a, shape = [64, 1024], strides = [1024, 1] : tensor_view<64x1024xf16, strides=[1024,1]>
      %bv = make_tensor_view %b, shape = [1024, 64], strides = [64, 1] : tensor_view<1024x64xf16, strides=[64,1]>
      %cv = make_tensor_view %c, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
      %at = make_partition_view %av : partition_view<tile=(64x32), tensor_view<64x1024xf16, strides=[1024,1]>>
      %bt = make_partition_view %bv : partition_view<tile=(32x64), tensor_view<1024x64xf16, strides=[64,1]>>
      %ct = make_partition_view %cv : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
      %sum:2 = loop iter_values(%acc = %none, %j = %zero) : tile<64x64xf32>, tile<i32> -> tile<64x64xf32>, tile<i32> {
        %go = cmpi less_than %j, %n, signed : tile<i32> -> tile<i1>
        if %go {
          %x, %t1 = load_view_tko weak %at[%zero, %j] : partition_view<tile=(64x32), tensor_view<64x1024xf16, strides=[1024,1]>>, tile<i32> -> tile<64x32xf16>, token
          %y, %t2 = load_view_tko weak %bt[%j, %zero] : partition_view<tile=(32x64), tensor_view<1024x64xf16, strides=[64,1]>>, tile<i32> -> tile<32x64xf16>, token
          %next = mmaf %x, %y, %acc : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
-         %more = cmpi equal %j, %m, signed : tile<i32> -> tile<i1>
+         %more = cmpi less_than %j, %m, signed : tile<i32> -> tile<i1>
          %both = if %more -> (tile<64x64xf32>) {
            %z, %t3 = load_view_tko weak %bt[%zero, %j] : partition_view<tile=(32x64), tensor_view<1024x64xf16, strides=[64,1]>>, tile<i32> -> tile<32x64xf16>, token
            %twice = mmaf %x, %z, %next : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
            yield %twice : tile<64x64xf32>
          } else {
            yield %next : tile<64x64xf32>
          }
          %up = addi %j, %one overflow<no_signed_wrap> : tile<i32>
          continue %both, %up : tile<64x64xf32>, tile<i32>
        }
        break %acc, %j : tile<64x64xf32>, tile<i32>
      }
      %t4 = store_view_tko weak %sum#0, %ct[%zero, %zero] : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
"""  # noqa: E501


# TileAABreaksToBounds
BREAK_IS_A_BOUND = Diag(
    "AA-0316", REMARK, "the loop ends at a bound where a test of its index left it", "TileAABreaksToBounds",
    WORD_REMARK, kind="passed", category="memory",
)  # fmt: skip
"""
cause: A remark: a loop carries whether it was left, or has a `break`, where a comparison of its index says so. When that will
be is computed in front of the loop, so that its loads run ahead.
remedy: Nothing is wrong.

in: left
  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
-       %ends = cmpi greater_than_or_equal %j, %limit, signed : tile<i32> -> tile<i1>
+       %ends = cmpi less_than %j, %limit, signed : tile<i32> -> tile<i1>
"""


END_LOOKED_FOR = Diag(
    "AA-0333", REMARK, "the step in which a test leaves the loop is looked for in front of it", "TileAABreaksToBounds",
    WORD_REMARK, kind="passed", category="memory",
)  # fmt: skip
"""
cause: A remark: a loop with products is left by a test that needs numbers only, of its index or loaded in no order with its
accesses, as of a list that ends with a negative number. They are asked in front of the loop, up to the one that ends it, so that
its loads run ahead.
remedy: Nothing is wrong. The test is asked twice for each step: it should be cheap.

in: left
  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
-       %ends = cmpi less_than %j, %limit, signed : tile<i32> -> tile<i1>
+       %ends = cmpi greater_than_or_equal %j, %limit, signed : tile<i32> -> tile<i1>
"""


BREAK_STAYS = Diag(
    "AA-0317", REMARK, "the loop is left by a test in each step: {reason}", "TileAABreaksToBounds",
    WORD_REMARK, kind="missed", category="memory",
)  # fmt: skip
"""
cause: A remark: a loop carries whether it was left, and no bound is there that ends it as early. Its loads wait behind branches.
remedy: Leave the loop in front of its work, by a test of its index or of numbers that it loads, not of what it adds up.

in: left
  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
-       %enough = constant <f32: 1000.0> : tile<f32>
-       %corner = extract %acc[%zero, %zero] : tile<64x64xf32> -> tile<1x1xf32>
-       %sum = reshape %corner : tile<1x1xf32> -> tile<f32>
-       %ends = cmpf greater_than ordered %sum, %enough : tile<f32> -> tile<i1>
+       %ends = cmpi greater_than_or_equal %j, %limit, signed : tile<i32> -> tile<i1>
"""


# TileAAUnswitchLoops
UNSWITCHED = Diag(
    "AA-0334", REMARK, "the branch asks what its loop does not change: it is asked once, and each side has a loop of its own",
    "TileAAUnswitchLoops", WORD_REMARK, kind="passed", category="memory",
)  # fmt: skip
"""
cause: A remark: a branch in a loop of products loads tiles or multiplies, and its condition is the same in each step. Loads in a
branch would not run ahead, and a product in one would be `mma.sync`.
remedy: Nothing is wrong.

in: asks
  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
-       %asks = cmpi equal %mode, %zero, signed : tile<i32> -> tile<i1>
+       %asks = cmpi equal %j, %mode, signed : tile<i32> -> tile<i1>
        %next = if %asks -> (tile<64x64xf32>) {
          %p = mmaf %x, %y, %acc : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
          yield %p : tile<64x64xf32>
        } else {
          yield %acc : tile<64x64xf32>
        }
"""


# TileAAJoinProducts
JOINED_PRODUCTS = Diag(
    "AA-0337", REMARK, "both sides of the branch multiply: {count} products are computed once, {where} it",
    "TileAAJoinProducts", WORD_REMARK, kind="passed", category="memory",
)  # fmt: skip
"""
cause: A remark: both sides of a branch in a loop have products. They are computed once: of the same operands in front of it, so
that the side which runs adds them to its sum; of others behind it, of what that side hands on. So their operands run ahead.
remedy: Nothing is wrong. Where the sides have different sums, all of them are in registers at once.

in: asks
  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
        %asks = cmpi equal %j, %mode, signed : tile<i32> -> tile<i1>
        %next = if %asks -> (tile<64x64xf32>) {
          %p = mmaf %x, %y, %acc : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
          yield %p : tile<64x64xf32>
        } else {
-         %p = mmaf %x, %y, %none : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
-         yield %p : tile<64x64xf32>
+         yield %acc : tile<64x64xf32>
        }
"""


# TileAAStepOnce
STEP_ONCE = Diag(
    "AA-0318", REMARK, "{count} products outside of loops multiply in tensor memory, as a loop of one step would",
    "TileAAStepOnce", WORD_REMARK, kind="passed", category="vectorization",
)  # fmt: skip
"""
cause: A remark: what is loaded in front of products outside of loops is copied to where tcgen05 reads it.
remedy: Nothing is wrong. `--disable=tcgen05` lets mma.sync multiply.

  $ tileiras k.tileir --gpu-name=sm_100 --emit=ptx --remarks=all
  cuda_tile.module @m {
    entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>) {
-     %pa = assume div_by<16>, %a : tile<ptr<f16>>
+     %pa = assume div_by<2>, %a : tile<ptr<f16>>
      %pb = assume div_by<16>, %b : tile<ptr<f16>>
      %zero = constant <i32: 0> : tile<i32>
      %av = make_tensor_view %pa, shape = [128, 64], strides = [64, 1] : tensor_view<128x64xf16, strides=[64,1]>
      %bv = make_tensor_view %pb, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf16, strides=[64,1]>
      %cv = make_tensor_view %c, shape = [128, 64], strides = [64, 1] : tensor_view<128x64xf32, strides=[64,1]>
      %at = make_partition_view %av : partition_view<tile=(128x64), tensor_view<128x64xf16, strides=[64,1]>>
      %bt = make_partition_view %bv : partition_view<tile=(64x64), tensor_view<64x64xf16, strides=[64,1]>>
      %ct = make_partition_view %cv : partition_view<tile=(128x64), tensor_view<128x64xf32, strides=[64,1]>>
      %none = constant <f32: 0.0> : tile<128x64xf32>
      %t = make_token : token
      %x, %t1 = load_view_tko weak %at[%zero, %zero] token = %t : partition_view<tile=(128x64), tensor_view<128x64xf16, strides=[64,1]>>, tile<i32> -> tile<128x64xf16>, token
      %y, %t2 = load_view_tko weak %bt[%zero, %zero] token = %t : partition_view<tile=(64x64), tensor_view<64x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
      %sum = mmaf %x, %y, %none : tile<128x64xf16>, tile<64x64xf16>, tile<128x64xf32>
      %t3 = store_view_tko weak %sum, %ct[%zero, %zero] token = %t : tile<128x64xf32>, partition_view<tile=(128x64), tensor_view<128x64xf32, strides=[64,1]>>, tile<i32> -> token
      return
    }
  }
"""  # noqa: E501


# TileAAChoosePadding
CHOOSES_PADDING = Diag(
    "AA-0336", REMARK, "the tile is padded with zeros, and {padding} is chosen behind the end of its tensor",
    "TileAAChoosePadding", WORD_REMARK, kind="passed", category="memory",
)  # fmt: skip
"""
cause: A remark: a loop adds a tile to its products whose padding is no zero, as a bias has that ends with minus infinity. A copy
leaves zeros where there is nothing to copy, and steps that lie within the tensor choose nothing.
remedy: Nothing is wrong. Where copies would cost an SM a block, a later pass gives the load its padding back.

  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
  cuda_tile.module @m {
    entry @k(%q: tile<ptr<f16>>, %k: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %size: tile<i32>, %n: tile<i32>) {
      %pq = assume div_by<16>, %q : tile<ptr<f16>>
      %pk = assume div_by<16>, %k : tile<ptr<f16>>
      %pb = assume div_by<16>, %b : tile<ptr<f16>>
      %zero = constant <i32: 0> : tile<i32>
      %one = constant <i32: 1> : tile<i32>
      %qv = make_tensor_view %pq, shape = [1024, 64], strides = [64, 1] : tensor_view<1024x64xf16, strides=[64,1]>
      %kv = make_tensor_view %pk, shape = [1024, 64], strides = [64, 1] : tensor_view<1024x64xf16, strides=[64,1]>
      %bv = make_tensor_view %pb, shape = [64, %size], strides = [1024, 1] : tile<i32> -> tensor_view<64x?xf16, strides=[1024,1]>
      %cv = make_tensor_view %c, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
      %qt = make_partition_view %qv : partition_view<tile=(64x64), tensor_view<1024x64xf16, strides=[64,1]>>
      %kt = make_partition_view %kv : partition_view<tile=(64x64), tensor_view<1024x64xf16, strides=[64,1]>>
-     %bt = make_partition_view %bv : partition_view<tile=(64x64), padding_value = neg_inf, tensor_view<64x?xf16, strides=[1024,1]>>
+     %bt = make_partition_view %bv : partition_view<tile=(64x64), padding_value = zero, tensor_view<64x?xf16, strides=[1024,1]>>
      %ct = make_partition_view %cv : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
      %none = constant <f32: 0.0> : tile<64x64xf32>
      %t = make_token : token
      %x, %t0 = load_view_tko weak %qt[%zero, %zero] token = %t : partition_view<tile=(64x64), tensor_view<1024x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
      %sum = for %j in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<64x64xf32>) {
        %y, %t1 = load_view_tko weak %kt[%j, %zero] token = %t : partition_view<tile=(64x64), tensor_view<1024x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
        %s = mmaf %x, %y, %none : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
-       %z, %t2 = load_view_tko weak %bt[%zero, %j] token = %t : partition_view<tile=(64x64), padding_value = neg_inf, tensor_view<64x?xf16, strides=[1024,1]>>, tile<i32> -> tile<64x64xf16>, token
+       %z, %t2 = load_view_tko weak %bt[%zero, %j] token = %t : partition_view<tile=(64x64), padding_value = zero, tensor_view<64x?xf16, strides=[1024,1]>>, tile<i32> -> tile<64x64xf16>, token
        %w = ftof %z : tile<64x64xf16> -> tile<64x64xf32>
        %u = addf %s, %w : tile<64x64xf32>
        %e = exp %u : tile<64x64xf32>
        %p = ftof %e : tile<64x64xf32> -> tile<64x64xf16>
        %next = mmaf %p, %y, %acc : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
        continue %next : tile<64x64xf32>
      }
      %t3 = store_view_tko weak %sum, %ct[%zero, %zero] token = %t : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
      return
    }
  }
"""  # noqa: E501


# TileAATurnFewRows
FEW_ROWS = Diag(
    "AA-0319", REMARK, "scores of {rows} rows multiply as 64 rows, with copies of their left operand; "
    "sums beside them add up transposed", "TileAATurnFewRows", WORD_REMARK, kind="passed", category="tensorcore",
)  # fmt: skip
"""
cause: A remark of targets with wgmma or tcgen05: attention of 16 or 32 rows, as in decoding. By mma.sync warps would have no rows
to share out.
remedy: Nothing is wrong. `--disable=wgmma,tcgen05` lets mma.sync multiply.

in: attend rows=32
- $ tileiras k.tileir --gpu-name=sm_100 --emit=ptx --remarks=all
+ $ tileiras k.tileir --gpu-name=sm_100 --emit=ptx --remarks=all --disable=tcgen05
"""

TURNED_SCORES = Diag(
    "AA-0324", REMARK, "scores of {rows} rows multiply transposed, as sums beside them do: {keys} keys are their rows",
    "TileAATurnFewRows", WORD_REMARK, kind="passed", category="tensorcore",
)  # fmt: skip
"""
cause: A remark of targets with wgmma: attention of 16 or 32 rows, as in decoding, whose queries are too many for the
registers of each warp, as 64 rows.
remedy: Nothing is wrong. `--disable=wgmma` lets mma.sync multiply.

in: attend rows=16 keys=64 heads=512
- $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
+ $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all --disable=wgmma
"""

STAYS_FEW_ROWS = Diag(
    "AA-0320", REMARK, "products of the loop stay with mma.sync, whose scores have few rows: {reason}", "TileAATurnFewRows",
    WORD_REMARK, kind="missed", category="tensorcore",
)  # fmt: skip
"""
cause: A remark of targets with wgmma or tcgen05: scores of 16 or 32 rows would multiply as 64 with all other products of their
loop, and one of these, or what they take, does not fit, or mma.sync takes fewer clocks.
remedy: Nothing is wrong. Smaller tiles of keys, or no hint for the number of warps, do away with most reasons.

in: attend rows=32 keys=256|128 heads=256
- $ tileiras k.tileir --gpu-name=sm_100 --emit=ptx --remarks=all
+ $ tileiras k.tileir --gpu-name=sm_100 --emit=ptx --remarks=all
"""


# TileAASplitDepth
SHARES_DEPTH = Diag(
    "AA-0321", REMARK, "{parts} warps share out K, {depth}, of scores of {rows} rows, and join their sums in each step",
    "TileAASplitDepth", WORD_REMARK, kind="passed", category="tensorcore",
)  # fmt: skip
"""
cause: A remark: attention of few rows over deep keys, as decoding over a latent. Its queries are too many for each warp's
registers, and a warp's part of them is not.
remedy: Nothing is wrong. More rows of queries a block leave warps rows to share out.

in: attend rows=16 keys=32 heads=512
- $ tileiras k.tileir --gpu-name=sm_80 --emit=ptx --remarks=all
+ $ tileiras k.tileir --gpu-name=sm_80 --emit=ptx --remarks=all --disable=cp.async
"""

READS_ALL_DEPTH = Diag(
    "AA-0322", REMARK, "each warp reads all queries of these scores in every step: {reason}", "TileAASplitDepth", WORD_REMARK,
    kind="missed", category="tensorcore",
)  # fmt: skip
"""
cause: A remark: scores of few rows, whose queries are too many for each warp's registers, would share out K among warps.
remedy: Nothing is wrong. Tiles of fewer keys leave room for it.

in: attend rows=16 keys=32 heads=512
- $ tileiras k.tileir --gpu-name=sm_120 --emit=ptx --remarks=all
+ $ tileiras k.tileir --gpu-name=sm_80 --emit=ptx --remarks=all
"""

SHARES_STEPS = Diag(
    "AA-0326", REMARK, "warps share out K in {parts} parts, each with a sum of its own, joined behind the loop",
    "TileAASplitDepth", WORD_REMARK, kind="passed", category="tensorcore",
)  # fmt: skip
"""
cause: A remark: products of mma.sync that only add up, of few rows or columns. Sharing out these, warps would read a whole
operand each, and a step would wait for shared memory.
remedy: Nothing is wrong.

in: matmul
- $ tileiras k.tileir --gpu-name=sm_80 --emit=ptx --remarks=all
+ $ tileiras k.tileir --gpu-name=sm_80 --emit=ptx --remarks=all --disable=cp.async
"""


# TileAARestAsLoop
REST_AS_LOOP = Diag(
    "AA-0325", REMARK, "the branch goes on with sums of the loop in front of it: it is a loop of at most one step",
    "TileAARestAsLoop", WORD_REMARK, kind="passed", category="vectorization",
)  # fmt: skip
"""
cause: A remark of targets with wgmma or tcgen05: a branch behind a loop loads and multiplies the rest of what the loop took
in whole tiles. As a loop it has the loop's copies and its instruction.
remedy: Nothing is wrong. `--disable=wgmma,tcgen05` lets mma.sync multiply.

  $ tileiras k.tileir --gpu-name=sm_100 --emit=ptx --remarks=all
  cuda_tile.module @m {
    entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %n: tile<i32>, %more: tile<i1>) {
      %pa = assume div_by<16>, %a : tile<ptr<f16>>
      %pb = assume div_by<16>, %b : tile<ptr<f16>>
      %zero = constant <i32: 0> : tile<i32>
      %one = constant <i32: 1> : tile<i32>
      %av = make_tensor_view %pa, shape = [128, 1024], strides = [1024, 1] : tensor_view<128x1024xf16, strides=[1024,1]>
      %bv = make_tensor_view %pb, shape = [1024, 128], strides = [128, 1] : tensor_view<1024x128xf16, strides=[128,1]>
      %cv = make_tensor_view %c, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf32, strides=[128,1]>
      %at = make_partition_view %av : partition_view<tile=(128x64), tensor_view<128x1024xf16, strides=[1024,1]>>
      %bt = make_partition_view %bv : partition_view<tile=(64x128), tensor_view<1024x128xf16, strides=[128,1]>>
      %ct = make_partition_view %cv : partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>
      %none = constant <f32: 0.0> : tile<128x128xf32>
      %t = make_token : token
      %whole = for %j in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<128x128xf32>) {
        %x, %t1 = load_view_tko weak %at[%zero, %j] token = %t : partition_view<tile=(128x64), tensor_view<128x1024xf16, strides=[1024,1]>>, tile<i32> -> tile<128x64xf16>, token
        %y, %t2 = load_view_tko weak %bt[%j, %zero] token = %t : partition_view<tile=(64x128), tensor_view<1024x128xf16, strides=[128,1]>>, tile<i32> -> tile<64x128xf16>, token
        %next = mmaf %x, %y, %acc : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
        continue %next : tile<128x128xf32>
      }
      %all = if %more -> (tile<128x128xf32>) {
        %x, %t1 = load_view_tko weak %at[%zero, %n] token = %t : partition_view<tile=(128x64), tensor_view<128x1024xf16, strides=[1024,1]>>, tile<i32> -> tile<128x64xf16>, token
        %y, %t2 = load_view_tko weak %bt[%n, %zero] token = %t : partition_view<tile=(64x128), tensor_view<1024x128xf16, strides=[128,1]>>, tile<i32> -> tile<64x128xf16>, token
        %next = mmaf %x, %y, %whole : tile<128x64xf16>, tile<64x128xf16>, tile<128x128xf32>
        yield %next : tile<128x128xf32>
      } else {
-       yield %whole : tile<128x128xf32>
+       yield %none : tile<128x128xf32>
      }
      %t3 = store_view_tko weak %all, %ct[%zero, %zero] token = %t : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>, tile<i32> -> token
      return
    }
  }
"""  # noqa: E501


# TileAABatchByBatch
RUNS_BATCHES = Diag(
    "AA-0327", REMARK, "the tile block runs batch by batch, {batches} one behind the other", "TileAABatchByBatch", WORD_REMARK,
    kind="passed", category="tensorcore",
)  # fmt: skip
"""
cause: A remark of targets with wgmma or tcgen05, which multiply matrices: products in a loop have a batch dimension, and a batch
is large enough for them.
remedy: Nothing is wrong. `--disable=wgmma,tcgen05` lets mma.sync multiply all batches at once.

- $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
+ $ tileiras k.tileir --gpu-name=sm_80 --emit=ptx --remarks=all
  cuda_tile.module @m {
    entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %n: tile<i32>) {
      %pa = assume div_by<16>, %a : tile<ptr<f16>>
      %pb = assume div_by<16>, %b : tile<ptr<f16>>
      %zero = constant <i32: 0> : tile<i32>
      %one = constant <i32: 1> : tile<i32>
      %av = make_tensor_view %pa, shape = [2, 64, 1024], strides = [65536, 1024, 1] : tensor_view<2x64x1024xf16, strides=[65536,1024,1]>
      %bv = make_tensor_view %pb, shape = [2, 1024, 64], strides = [65536, 64, 1] : tensor_view<2x1024x64xf16, strides=[65536,64,1]>
      %cv = make_tensor_view %c, shape = [2, 64, 64], strides = [4096, 64, 1] : tensor_view<2x64x64xf32, strides=[4096,64,1]>
      %at = make_partition_view %av : partition_view<tile=(2x64x32), tensor_view<2x64x1024xf16, strides=[65536,1024,1]>>
      %bt = make_partition_view %bv : partition_view<tile=(2x32x64), tensor_view<2x1024x64xf16, strides=[65536,64,1]>>
      %ct = make_partition_view %cv : partition_view<tile=(2x64x64), tensor_view<2x64x64xf32, strides=[4096,64,1]>>
      %none = constant <f32: 0.0> : tile<2x64x64xf32>
      %t = make_token : token
      %sum = for %j in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<2x64x64xf32>) {
        %x, %t1 = load_view_tko weak %at[%zero, %zero, %j] token = %t : partition_view<tile=(2x64x32), tensor_view<2x64x1024xf16, strides=[65536,1024,1]>>, tile<i32> -> tile<2x64x32xf16>, token
        %y, %t2 = load_view_tko weak %bt[%zero, %j, %zero] token = %t : partition_view<tile=(2x32x64), tensor_view<2x1024x64xf16, strides=[65536,64,1]>>, tile<i32> -> tile<2x32x64xf16>, token
        %next = mmaf %x, %y, %acc : tile<2x64x32xf16>, tile<2x32x64xf16>, tile<2x64x64xf32>
        continue %next : tile<2x64x64xf32>
      }
      %t3 = store_view_tko weak %sum, %ct[%zero, %zero, %zero] token = %t : tile<2x64x64xf32>, partition_view<tile=(2x64x64), tensor_view<2x64x64xf32, strides=[4096,64,1]>>, tile<i32> -> token
      return
    }
  }
"""  # noqa: E501


# TileAARunParts
RUNS_PARTS = Diag(
    "AA-0328", REMARK, "the tile block runs as {parts} parts, one behind the other", "TileAARunParts", WORD_REMARK,
    kind="passed", category="memory",
)  # fmt: skip
"""
cause: A remark: a loop with products carries more than registers hold. Each part has loops of its own that carry less, and loads
again what parts share.
remedy: Nothing is wrong. Smaller tiles load less, and two CTAs share a tile block where `num_cta_in_cga` (cuTile's `num_ctas`)
asks for them.

  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
  cuda_tile.module @m {
-   entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %n: tile<i32>) {
+   entry @k(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %n: tile<i32>) optimization_hints = <default = {num_cta_in_cga = 2}> {
      %pa = assume div_by<16>, %a : tile<ptr<f16>>
      %pb = assume div_by<16>, %b : tile<ptr<f16>>
      %zero = constant <i32: 0> : tile<i32>
      %one = constant <i32: 1> : tile<i32>
      %av = make_tensor_view %pa, shape = [256, 1024], strides = [1024, 1] : tensor_view<256x1024xf16, strides=[1024,1]>
      %bv = make_tensor_view %pb, shape = [1024, 256], strides = [256, 1] : tensor_view<1024x256xf16, strides=[256,1]>
      %cv = make_tensor_view %c, shape = [256, 256], strides = [256, 1] : tensor_view<256x256xf32, strides=[256,1]>
      %at = make_partition_view %av : partition_view<tile=(256x64), tensor_view<256x1024xf16, strides=[1024,1]>>
      %bt = make_partition_view %bv : partition_view<tile=(64x256), tensor_view<1024x256xf16, strides=[256,1]>>
      %ct = make_partition_view %cv : partition_view<tile=(256x256), tensor_view<256x256xf32, strides=[256,1]>>
      %none = constant <f32: 0.0> : tile<256x256xf32>
      %t = make_token : token
      %sum = for %j in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<256x256xf32>) {
        %x, %t1 = load_view_tko weak %at[%zero, %j] token = %t : partition_view<tile=(256x64), tensor_view<256x1024xf16, strides=[1024,1]>>, tile<i32> -> tile<256x64xf16>, token
        %y, %t2 = load_view_tko weak %bt[%j, %zero] token = %t : partition_view<tile=(64x256), tensor_view<1024x256xf16, strides=[256,1]>>, tile<i32> -> tile<64x256xf16>, token
        %next = mmaf %x, %y, %acc : tile<256x64xf16>, tile<64x256xf16>, tile<256x256xf32>
        continue %next : tile<256x256xf32>
      }
      %t3 = store_view_tko weak %sum, %ct[%zero, %zero] token = %t : tile<256x256xf32>, partition_view<tile=(256x256), tensor_view<256x256xf32, strides=[256,1]>>, tile<i32> -> token
      return
    }
  }
"""  # noqa: E501


# TileAARuntimeVersions
VERSIONS = Diag(
    "AA-0401", REMARK,
    "the loop has two versions: the one with copies of 16 bytes runs where {facts}", "TileAA run-time versions", WORD_REMARK,
    kind="analysis", category="memory",
)  # fmt: skip
"""
cause: A remark: alignment, or a stride of 1, that asynchronous copies need is not proven, so it is tested once a block, and
the loop is there twice: as it is with such data, and as it is without.
remedy: Nothing is wrong. Where the data are always so, say it (`assume div_by`, a stride in the view's type), and the kernel is
half as long.

  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
  cuda_tile.module @kernels {
    entry @matmul(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %k: tile<i32>) {
-     %pa = assume div_by<2>, %a : tile<ptr<f16>>
+     %pa = assume div_by<16>, %a : tile<ptr<f16>>
      %pb = assume div_by<16>, %b : tile<ptr<f16>>
      %av = make_tensor_view %pa, shape = [64, 1024], strides = [1024, 1] : tensor_view<64x1024xf16, strides=[1024,1]>
      %bv = make_tensor_view %pb, shape = [1024, 64], strides = [64, 1] : tensor_view<1024x64xf16, strides=[64,1]>
      %cv = make_tensor_view %c, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
      %at = make_partition_view %av : partition_view<tile=(64x32), tensor_view<64x1024xf16, strides=[1024,1]>>
      %bt = make_partition_view %bv : partition_view<tile=(32x64), tensor_view<1024x64xf16, strides=[64,1]>>
      %ct = make_partition_view %cv : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
      %zero = constant <i32: 0> : tile<i32>
      %one = constant <i32: 1> : tile<i32>
      %none = constant <f32: 0.0> : tile<64x64xf32>
      %t = make_token : token
      %sum = for %j in (%zero to %k, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<64x64xf32>) {
        %x, %t1 = load_view_tko weak %at[%zero, %j] token = %t : partition_view<tile=(64x32), tensor_view<64x1024xf16, strides=[1024,1]>>, tile<i32> -> tile<64x32xf16>, token
        %y, %t2 = load_view_tko weak %bt[%j, %zero] token = %t : partition_view<tile=(32x64), tensor_view<1024x64xf16, strides=[64,1]>>, tile<i32> -> tile<32x64xf16>, token
        %next = mmaf %x, %y, %acc : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
        continue %next : tile<64x64xf32>
      }
      %t3 = store_view_tko weak %sum, %ct[%zero, %zero] token = %t : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
      return
    }
  }
"""  # noqa: E501
