"""Texts of the nv_tileas verifiers and passes. Those of a rule in docs/reference/contract-rules.md are kept to the letter."""

from __future__ import annotations

from tileiras.diag import ERROR, NOTE, REMARK, WORD_ERROR, WORD_REMARK, Diag

_SRC = "nv_tileas verifiers"
_ASYNC = "async and pipeline family"


def _rule(number: int, text: str) -> Diag:
    return Diag(f"AS-{number:04d}", ERROR, text, _SRC, WORD_ERROR)


# Verifiers
COORD_COUNT = _rule(104, "expects {want} coordinates, but got {got}")
"""
cause: An operation of a pipeline or a copy in the nv_tileas form does not agree with its operands: counts and types
of what is produced and consumed, depth, boxes, or memory spaces.
remedy: In a text written by hand, make the types on both sides of the pipeline equal. In a normal compile this is a
defect: report the kernel, made small with `tileiras-reduce`.

in: function(%lo: tensor<i32, #s>, %d: !nv_tileas.tma_descriptor<128xf32>)
  $ tileiras-opt k.tileir
      %k = nv_tileas.make_token : () -> !cuda_tile.token
-     %x, %t = nv_tileas.async.tiled_tma_load %d, %k, %lo, %lo : !nv_tileas.tma_descriptor<128xf32>, !cuda_tile.token, tensor<i32, #s>, tensor<i32, #s> -> tensor<128xf32, #b>, !cuda_tile.token
+     %x, %t = nv_tileas.async.tiled_tma_load %d, %k, %lo : !nv_tileas.tma_descriptor<128xf32>, !cuda_tile.token, tensor<i32, #s> -> tensor<128xf32, #b>, !cuda_tile.token
"""  # noqa: E501

CONSUMER_TYPES = _rule(
    105, "expects region arguement types to match with producer types [{want}], but got: [{got}]"
)
"""
see: AS-0104

in: function(%p: tensor<128xptr<f32>, #b>, %f: tensor<128xf32, #b>)
  $ tileiras-opt k.tileir
      %q = nv_tileas.async.pipeline.create {depth = 2} : () -> !nv_tileas.async.pipeline
      nv_tileas.async.pipeline.produce_one %q : !nv_tileas.async.pipeline {
        %x, %t = nv_tileas.load_ptr_tko %p {memory_ordering_semantics = weak, operandSegmentSizes = array<i32: 1, 0, 0, 0>} : tensor<128xptr<f32>, #b> -> tensor<128xf32, #b>, !cuda_tile.token
        nv_tileas.async.pipeline.yield %x : tensor<128xf32, #b>
      }
      %v = nv_tileas.async.pipeline.consume_one %q : !nv_tileas.async.pipeline -> tensor<128xf32, #b> {
-     ^bb0(%a: tensor<128xi32, #b>):
+     ^bb0(%a: tensor<128xf32, #b>):
        nv_tileas.async.pipeline.yield %f : tensor<128xf32, #b>
      }
"""  # noqa: E501

PRODUCER_ARGS = _rule(106, "expects a region without arguments, but got {got}")
"""
see: AS-0104

in: function(%p: tensor<128xptr<f32>, #b>)
  $ tileiras-opt k.tileir
      %q = nv_tileas.async.pipeline.create {depth = 2} : () -> !nv_tileas.async.pipeline
      nv_tileas.async.pipeline.produce_one %q : !nv_tileas.async.pipeline {
-     ^bb0(%a: tensor<128xf32, #b>):
        %x, %t = nv_tileas.load_ptr_tko %p {memory_ordering_semantics = weak, operandSegmentSizes = array<i32: 1, 0, 0, 0>} : tensor<128xptr<f32>, #b> -> tensor<128xf32, #b>, !cuda_tile.token
        nv_tileas.async.pipeline.yield %x : tensor<128xf32, #b>
      }
      %v = nv_tileas.async.pipeline.consume_one %q : !nv_tileas.async.pipeline -> tensor<128xf32, #b> {
      ^bb0(%b: tensor<128xf32, #b>):
        nv_tileas.async.pipeline.yield %b : tensor<128xf32, #b>
      }
"""  # noqa: E501

YIELD_TYPES = _rule(107, "expects the region to yield [{want}], but got: [{got}]")
"""
see: AS-0104

in: function(%p: tensor<128xptr<f32>, #b>)
  $ tileiras-opt k.tileir
      %q = nv_tileas.async.pipeline.create {depth = 2} : () -> !nv_tileas.async.pipeline
      nv_tileas.async.pipeline.produce_one %q : !nv_tileas.async.pipeline {
        %x, %t = nv_tileas.load_ptr_tko %p {memory_ordering_semantics = weak, operandSegmentSizes = array<i32: 1, 0, 0, 0>} : tensor<128xptr<f32>, #b> -> tensor<128xf32, #b>, !cuda_tile.token
        nv_tileas.async.pipeline.yield %x : tensor<128xf32, #b>
      }
      %v = nv_tileas.async.pipeline.consume_one %q : !nv_tileas.async.pipeline -> tensor<128xf32, #b> {
      ^bb0(%a: tensor<128xf32, #b>):
-     nv_tileas.async.pipeline.yield
+     nv_tileas.async.pipeline.yield %a : tensor<128xf32, #b>
      }
"""  # noqa: E501

DEPTH = _rule(108, "attribute 'depth' must be from 1 to 16, but got {got}")
"""
see: AS-0104

in: function(%lo: tensor<i32, #s>)
  $ tileiras-opt k.tileir
-     %q = nv_tileas.async.pipeline.create {depth = 99} : () -> !nv_tileas.async.pipeline
+     %q = nv_tileas.async.pipeline.create {depth = 2} : () -> !nv_tileas.async.pipeline
"""

NO_CONSUMER = _rule(109, "has no consume_one on its pipeline")
"""
see: AS-0104

in: function(%p: tensor<128xptr<f32>, #b>)
  $ tileiras-opt k.tileir
      %q = nv_tileas.async.pipeline.create {depth = 2} : () -> !nv_tileas.async.pipeline
      nv_tileas.async.pipeline.produce_one %q : !nv_tileas.async.pipeline {
        %x, %t = nv_tileas.load_ptr_tko %p {memory_ordering_semantics = weak, operandSegmentSizes = array<i32: 1, 0, 0, 0>} : tensor<128xptr<f32>, #b> -> tensor<128xf32, #b>, !cuda_tile.token
        nv_tileas.async.pipeline.yield %x : tensor<128xf32, #b>
      }
+     %v = nv_tileas.async.pipeline.consume_one %q : !nv_tileas.async.pipeline -> tensor<128xf32, #b> {
+     ^bb0(%a: tensor<128xf32, #b>):
+       nv_tileas.async.pipeline.yield %a : tensor<128xf32, #b>
+     }
"""  # noqa: E501

LEFT_OVER = _rule(110, "is left over: its pipeline was materialized by {other}")
"""
see: AS-0104

in: function(%p: tensor<128xptr<f32>, #b>)
  $ tileiras-opt k.tileir
      %q = nv_tileas.async.pipeline.create {depth = 2} : () -> !nv_tileas.async.pipeline
-     %w = nv_tileas.async.pipeline.transfer %q : !nv_tileas.async.pipeline -> tensor<128xf32, #b> {
-       %c, %u = nv_tileas.load_ptr_tko %p {memory_ordering_semantics = weak, operandSegmentSizes = array<i32: 1, 0, 0, 0>} : tensor<128xptr<f32>, #b> -> tensor<128xf32, #b>, !cuda_tile.token
-       nv_tileas.async.pipeline.yield %c : tensor<128xf32, #b>
-     }
      nv_tileas.async.pipeline.produce_one %q : !nv_tileas.async.pipeline {
        %x, %t = nv_tileas.load_ptr_tko %p {memory_ordering_semantics = weak, operandSegmentSizes = array<i32: 1, 0, 0, 0>} : tensor<128xptr<f32>, #b> -> tensor<128xf32, #b>, !cuda_tile.token
        nv_tileas.async.pipeline.yield %x : tensor<128xf32, #b>
      }
      %v = nv_tileas.async.pipeline.consume_one %q : !nv_tileas.async.pipeline -> tensor<128xf32, #b> {
      ^bb0(%a: tensor<128xf32, #b>):
        nv_tileas.async.pipeline.yield %a : tensor<128xf32, #b>
      }
"""  # noqa: E501

CONVERT_TYPES = _rule(111, "converts {got} to {want}: only the layout may change")
"""
see: AS-0104

  $ tileiras-opt k.tileir
  #b = #linear<7, lane = [1, 2, 4, 8, 16], warp = [32, 64]>
  #r = #linear<7, lane = [4, 8, 16, 32, 64], warp = [1, 2]>
  nv_tileas.module {sym_name = "m", nv_tileaa.compute_capability = 90 : i32} {
    nv_tileas.func {sym_name = "k", nv_tileaa.kernel_spec = {num_warps = 4}, function_type = () -> ()} {
    ^bb0(%f: tensor<128xf32, #b>):
-     %w = nv_tileas.convert_layout %f : tensor<128xf32, #b> -> tensor<128xf32>
+     %w = nv_tileas.convert_layout %f : tensor<128xf32, #b> -> tensor<128xf32, #r>
      nv_tileas.return
    }
  }
"""

BOX = _rule(112, "operand #0: box of the descriptor has {what}")
"""
see: AS-0104

  $ tileiras-opt k.tileir
  #s = #linear<0, lane = [0, 0, 0, 0, 0], warp = [0, 0]>
  #s = #linear<0, lane = [0, 0, 0, 0, 0], warp = [0, 0]>
  #b = #linear<7, lane = [1, 2, 4, 8, 16], warp = [32, 64]>
  nv_tileas.module {sym_name = "m", nv_tileaa.compute_capability = 90 : i32} {
    nv_tileas.func {sym_name = "k", nv_tileaa.kernel_spec = {num_warps = 4}, function_type = () -> ()} {
- ^bb0(%lo: tensor<i32, #s>, %d: !nv_tileas.tma_descriptor<512xf32>):
+ ^bb0(%lo: tensor<i32, #s>, %d: !nv_tileas.tma_descriptor<128xf32>):
      %k = nv_tileas.make_token : () -> !cuda_tile.token
-     %x, %t = nv_tileas.async.tiled_tma_load %d, %k, %lo : !nv_tileas.tma_descriptor<512xf32>, !cuda_tile.token, tensor<i32, #s> -> tensor<128xf32, #b>, !cuda_tile.token
+     %x, %t = nv_tileas.async.tiled_tma_load %d, %k, %lo : !nv_tileas.tma_descriptor<128xf32>, !cuda_tile.token, tensor<i32, #s> -> tensor<128xf32, #b>, !cuda_tile.token
      nv_tileas.return
    }
  }
"""  # noqa: E501

SPACE = _rule(113, "operand #0: the descriptor's destination lies in '{got}', expected 'shared'")
"""
see: AS-0104

  $ tileiras-opt k.tileir
  #s = #linear<0, lane = [0, 0, 0, 0, 0], warp = [0, 0]>
  #s = #linear<0, lane = [0, 0, 0, 0, 0], warp = [0, 0]>
  #b = #linear<7, lane = [1, 2, 4, 8, 16], warp = [32, 64]>
  nv_tileas.module {sym_name = "m", nv_tileaa.compute_capability = 90 : i32} {
    nv_tileas.func {sym_name = "k", nv_tileaa.kernel_spec = {num_warps = 4}, function_type = () -> ()} {
- ^bb0(%lo: tensor<i32, #s>, %d: !nv_tileas.tma_descriptor<128xf32, global>):
+ ^bb0(%lo: tensor<i32, #s>, %d: !nv_tileas.tma_descriptor<128xf32>):
      %k = nv_tileas.make_token : () -> !cuda_tile.token
-     %x, %t = nv_tileas.async.tiled_tma_load %d, %k, %lo : !nv_tileas.tma_descriptor<128xf32, global>, !cuda_tile.token, tensor<i32, #s> -> tensor<128xf32, #b>, !cuda_tile.token
+     %x, %t = nv_tileas.async.tiled_tma_load %d, %k, %lo : !nv_tileas.tma_descriptor<128xf32>, !cuda_tile.token, tensor<i32, #s> -> tensor<128xf32, #b>, !cuda_tile.token
      nv_tileas.return
    }
  }
"""  # noqa: E501

SCHEDULE_STAGE = _rule(
    114, "op '{name}' at position {index} of the schedule region has stage {got}, expected 0 to {last}"
)
"""
cause: The stages of a schedule region are not in order: a stage is out of range, or earlier than that of a value it
uses.
remedy: Number the stages from 0 without gaps, and give no operation an earlier stage than what it uses.

in: function(%lo: tensor<i32, #s>)
  $ tileiras-opt k.tileir
      nv_tileas.for %lo, %lo, %lo {schedule = {stages = 2 : i32}} : tensor<i32, #s>, tensor<i32, #s>, tensor<i32, #s> {
      ^bb0(%i: tensor<i32, #s>):
-     %m = nv_tileas.addi %i, %lo {overflow = none, stage = 5 : i32} : tensor<i32, #s>, tensor<i32, #s> -> tensor<i32, #s>
+     %m = nv_tileas.addi %i, %lo {overflow = none, stage = 1 : i32} : tensor<i32, #s>, tensor<i32, #s> -> tensor<i32, #s>
      nv_tileas.continue
      }
"""

SCHEDULE_ORDER = _rule(
    115,
    "op '{name}' at position {index} of the schedule region has stage {got}, but uses a value of stage {need}",
)
"""
see: AS-0114

in: function(%lo: tensor<i32, #s>)
  $ tileiras-opt k.tileir
      nv_tileas.for %lo, %lo, %lo {schedule = {stages = 2 : i32}} : tensor<i32, #s>, tensor<i32, #s>, tensor<i32, #s> {
      ^bb0(%i: tensor<i32, #s>):
      %m = nv_tileas.addi %i, %lo {overflow = none, stage = 1 : i32} : tensor<i32, #s>, tensor<i32, #s> -> tensor<i32, #s>
-     %n = nv_tileas.addi %m, %lo {overflow = none, stage = 0 : i32} : tensor<i32, #s>, tensor<i32, #s> -> tensor<i32, #s>
+     %n = nv_tileas.addi %m, %lo {overflow = none, stage = 1 : i32} : tensor<i32, #s>, tensor<i32, #s> -> tensor<i32, #s>
      nv_tileas.continue
      }
"""

PLAN = _rule(116, "plan '{plan}' cannot move the tile: {why}")
"""
cause: The plan of a convert_layout contradicts its layouts: registers or lanes alone do not reach every element, or
two elements have one place in shared memory.
remedy: In a text written by hand, leave `plan` and what belongs to it out and let TileASMaterializeConvertLayout
choose. In a normal compile this is a defect: report the kernel, made small with `tileiras-reduce`.

  $ tileiras-opt k.tileir
  #b = #linear<7, lane = [1, 2, 4, 8, 16], warp = [32, 64]>
  #r = #linear<7, lane = [4, 8, 16, 32, 64], warp = [1, 2]>
  nv_tileas.module {sym_name = "m", nv_tileaa.compute_capability = 90 : i32} {
    nv_tileas.func {sym_name = "k", nv_tileaa.kernel_spec = {num_warps = 4}, function_type = () -> ()} {
    ^bb0(%f: tensor<128xf32, #b>):
-     %w = nv_tileas.convert_layout %f {plan = "shuffle"} : tensor<128xf32, #b> -> tensor<128xf32, #r>
+     %w = nv_tileas.convert_layout %f : tensor<128xf32, #b> -> tensor<128xf32, #r>
      nv_tileas.return
    }
  }
"""

NO_MAP = _rule(117, "copies by tensor map {map}, but the function has {count}")
"""
cause: In a text, a bulk tensor copy and the tensor maps of its function do not fit together: a number or a box that
is not there, stages that overlap, or mbarriers outside of the buffer.
remedy: Number maps from 0 in the order of `nv_tileas.tensor_maps`, give tiles whole boxes, and put the mbarriers
behind the stages. In a normal compile this is a defect: report the kernel, made small with `tileiras-reduce`.

in: bulk
  $ tileiras-opt k.tileir
      nv_tileas.bulk.begin %ring {barriers = 16384 : i64, stage_bytes = 8192 : i64, stages = 2 : i64} : !nv_tileas.shared
-     nv_tileas.bulk.load %ring, %rows, %runs, %rows, %rows {barriers = 16384 : i64, stage_bytes = 8192 : i64, bytes = array<i32: 8192>, maps = array<i32: 1>, tile = array<i32: 64, 64>, starts = array<i32: 0>, operandSegmentSizes = array<i32: 1, 1, 1, 2, 0>} : !nv_tileas.shared, tensor<i32, #s>, tensor<i1, #s>, tensor<i32, #s>, tensor<i32, #s>
+     nv_tileas.bulk.load %ring, %rows, %runs, %rows, %rows {barriers = 16384 : i64, stage_bytes = 8192 : i64, bytes = array<i32: 8192>, maps = array<i32: 0>, tile = array<i32: 64, 64>, starts = array<i32: 0>, operandSegmentSizes = array<i32: 1, 1, 1, 2, 0>} : !nv_tileas.shared, tensor<i32, #s>, tensor<i1, #s>, tensor<i32, #s>, tensor<i32, #s>
"""  # noqa: E501

BOXES = _rule(118, "a tile of [{tile}] is no whole number of boxes of [{box}]")
"""
see: AS-0117

in: bulk
  $ tileiras-opt k.tileir
      nv_tileas.bulk.begin %ring {barriers = 16384 : i64, stage_bytes = 8192 : i64, stages = 2 : i64} : !nv_tileas.shared
-     nv_tileas.bulk.load %ring, %rows, %runs, %rows, %rows {barriers = 16384 : i64, stage_bytes = 8192 : i64, bytes = array<i32: 8192>, maps = array<i32: 0>, tile = array<i32: 32, 128>, starts = array<i32: 0>, operandSegmentSizes = array<i32: 1, 1, 1, 2, 0>} : !nv_tileas.shared, tensor<i32, #s>, tensor<i1, #s>, tensor<i32, #s>, tensor<i32, #s>
+     nv_tileas.bulk.load %ring, %rows, %runs, %rows, %rows {barriers = 16384 : i64, stage_bytes = 8192 : i64, bytes = array<i32: 8192>, maps = array<i32: 0>, tile = array<i32: 64, 64>, starts = array<i32: 0>, operandSegmentSizes = array<i32: 1, 1, 1, 2, 0>} : !nv_tileas.shared, tensor<i32, #s>, tensor<i1, #s>, tensor<i32, #s>, tensor<i32, #s>
"""  # noqa: E501

STAGES = _rule(119, "has {what}")
"""
see: AS-0117

in: bulk
  $ tileiras-opt k.tileir
-     nv_tileas.bulk.begin %ring {barriers = 8192 : i64, stage_bytes = 8192 : i64, stages = 2 : i64} : !nv_tileas.shared
+     nv_tileas.bulk.begin %ring {barriers = 16384 : i64, stage_bytes = 8192 : i64, stages = 2 : i64} : !nv_tileas.shared
      nv_tileas.bulk.load %ring, %rows, %runs, %rows, %rows {barriers = 16384 : i64, stage_bytes = 8192 : i64, bytes = array<i32: 8192>, maps = array<i32: 0>, tile = array<i32: 64, 64>, starts = array<i32: 0>, operandSegmentSizes = array<i32: 1, 1, 1, 2, 0>} : !nv_tileas.shared, tensor<i32, #s>, tensor<i1, #s>, tensor<i32, #s>, tensor<i32, #s>
"""  # noqa: E501

BUFFER = _rule(121, "has {what}")
"""
cause: A buffer in shared memory, columns of tensor memory or a wait does not exist on any GPU as it is written: too large,
not aligned, or in the place of another buffer that lives.
remedy: In a text written by hand, give the buffer a place of its own. In a normal compile this is a defect: report the kernel,
made small with `tileiras-reduce`.

in: function
  $ tileiras-opt k.tileir
      %one = nv_tileas.alloc_shared {bytes = 4096 : i64, offset = 0 : i64} : () -> !nv_tileas.shared
-     %two = nv_tileas.alloc_shared {bytes = 4096 : i64, offset = 2048 : i64} : () -> !nv_tileas.shared
+     %two = nv_tileas.alloc_shared {bytes = 4096 : i64, offset = 4096 : i64} : () -> !nv_tileas.shared
      nv_tileas.free_shared %two : !nv_tileas.shared
      nv_tileas.free_shared %one : !nv_tileas.shared
"""

WIDE = _rule(122, "attribute '{name}' is {given}: {why}")
"""
cause: In a text, an access of global memory moves more elements with an instruction than its layout, its alignment or the
extent of its tensor allow.
remedy: Say less, or leave the attribute out and let TileASPlaceShared choose; promise alignment (assume) where there is more.
In a normal compile this is a defect: report the kernel, made small with `tileiras-reduce`.

  $ tileiras-opt k.tileir --pass TileASPlaceShared
  #b = #linear<7, reg = [1, 2], lane = [4, 8, 16, 32, 64], warp = [0, 0]>
  nv_tileas.module {sym_name = "m", nv_tileaa.compute_capability = 90 : i32} {
    nv_tileas.func {sym_name = "k", nv_tileaa.kernel_spec = {num_warps = 4}, function_type = () -> ()} {
    ^bb0(%p: tensor<128xptr<f32>, #b>):
-     %x, %t = nv_tileas.load_ptr_tko %p {memory_ordering_semantics = weak, vector = 2 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 0>} : tensor<128xptr<f32>, #b> -> tensor<128xf32, #b>, !cuda_tile.token
+     %x, %t = nv_tileas.load_ptr_tko %p {memory_ordering_semantics = weak, vector = 0 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 0>} : tensor<128xptr<f32>, #b> -> tensor<128xf32, #b>, !cuda_tile.token
      nv_tileas.return
    }
  }
"""  # noqa: E501

MAPS = _rule(120, "attribute 'nv_tileas.tensor_maps': {why}")
"""
see: AS-0117

  $ tileiras-opt k.tileir
  #s = #linear<0, lane = [0, 0, 0, 0, 0], warp = [0, 0]>
  nv_tileas.module {sym_name = "m", nv_tileaa.compute_capability = 90 : i32} {
-   nv_tileas.func {sym_name = "k", nv_tileaa.kernel_spec = {num_warps = 4}, function_type = () -> (), nv_tileas.tensor_maps = [{array = 0, box = [64, 64], element = "f16", extents = [{param = 1}, {const = 64}], fill = "zeros", strides = [{const = 64}, {const = 1}], swizzle = "64B"}]} {
+   nv_tileas.func {sym_name = "k", nv_tileaa.kernel_spec = {num_warps = 4}, function_type = () -> (), nv_tileas.tensor_maps = [{array = 0, box = [64, 64], element = "f16", extents = [{param = 1}, {const = 64}], fill = "zeros", strides = [{const = 64}, {const = 1}], swizzle = "128B"}]} {
    ^bb0(%a: tensor<ptr<f16>, #s>, %rows: tensor<i32, #s>, %runs: tensor<i1, #s>):
      %ring = nv_tileas.alloc_shared {bytes = 17408 : i64, offset = 0 : i64} : () -> !nv_tileas.shared
      nv_tileas.bulk.begin %ring {barriers = 16384 : i64, stage_bytes = 8192 : i64, stages = 2 : i64} : !nv_tileas.shared
      nv_tileas.bulk.load %ring, %rows, %runs, %rows, %rows {barriers = 16384 : i64, stage_bytes = 8192 : i64, bytes = array<i32: 8192>, maps = array<i32: 0>, tile = array<i32: 64, 64>, starts = array<i32: 0>, operandSegmentSizes = array<i32: 1, 1, 1, 2, 0>} : !nv_tileas.shared, tensor<i32, #s>, tensor<i1, #s>, tensor<i32, #s>, tensor<i32, #s>
      nv_tileas.bulk.wait %ring, %rows, %rows {barriers = 16384 : i64, stage_bytes = 8192 : i64} : !nv_tileas.shared, tensor<i32, #s>, tensor<i32, #s>
      nv_tileas.free_shared %ring : !nv_tileas.shared
      nv_tileas.return
    }
  }
"""  # noqa: E501


# Passes
TWO_INSTRUCTIONS = Diag(
    "AS-0301", ERROR,
    "there are two `produce-one-like` operations using different instructions to generate data into the same pipeline. "
    "It's a bug of MaterializeAsync Pass.", _ASYNC, WORD_ERROR,
)  # fmt: skip
"""
cause: A pass of the asynchronous pipeline reached a state that it does not expect.
remedy: Compile with -O0 or without the hint that asks for the pipeline, and report the kernel, made small with
`tileiras-reduce`.

in: function(%lo: tensor<i32, #s>, %p: tensor<128xptr<f32>, #b>, %d: !nv_tileas.tma_descriptor<128xf32>)
  $ tileiras-opt k.tileir --pass TileASMaterializeAsync
      %q = nv_tileas.async.pipeline.create {depth = 2} : () -> !nv_tileas.async.pipeline
      %k = nv_tileas.make_token : () -> !cuda_tile.token
      nv_tileas.for %lo, %lo, %lo : tensor<i32, #s>, tensor<i32, #s>, tensor<i32, #s> {
      ^bb0(%i: tensor<i32, #s>):
      %v = nv_tileas.async.pipeline.transfer %q : !nv_tileas.async.pipeline -> tensor<128xf32, #b> {
        %x, %t = nv_tileas.async.tiled_tma_load %d, %k, %lo : !nv_tileas.tma_descriptor<128xf32>, !cuda_tile.token, tensor<i32, #s> -> tensor<128xf32, #b>, !cuda_tile.token
        nv_tileas.async.pipeline.yield %x : tensor<128xf32, #b>
      }
      %w = nv_tileas.async.pipeline.transfer %q : !nv_tileas.async.pipeline -> tensor<128xf32, #b> {
-       %x, %t = nv_tileas.async.copy %p, %k : tensor<128xptr<f32>, #b>, !cuda_tile.token -> tensor<128xf32, #b>, !cuda_tile.token
+       %x, %t = nv_tileas.async.tiled_tma_load %d, %k, %lo : !nv_tileas.tma_descriptor<128xf32>, !cuda_tile.token, tensor<i32, #s> -> tensor<128xf32, #b>, !cuda_tile.token
        nv_tileas.async.pipeline.yield %x : tensor<128xf32, #b>
      }
      nv_tileas.continue
      }
"""  # noqa: E501

NOT_DECOMPOSED = Diag("AS-0302", ERROR, "failed to decompose the convert_layout", _ASYNC, WORD_ERROR)
"""
see: AS-0301

  $ tileiras-opt k.tileir --pass TileASMaterializeConvertLayout
  #b = #linear<7, lane = [1, 2, 4, 8, 16], warp = [32, 64]>
  #r = #linear<7, lane = [4, 8, 16, 32, 64], warp = [1, 2]>
- #c = #linear<7, lane = [0, 2, 4, 8, 16], warp = [32, 64], inv = 1>
  nv_tileas.module {sym_name = "m", nv_tileaa.compute_capability = 90 : i32} {
    nv_tileas.func {sym_name = "k", nv_tileaa.kernel_spec = {num_warps = 4}, function_type = () -> ()} {
    ^bb0(%f: tensor<128xf32, #b>):
-     %w = nv_tileas.convert_layout %f : tensor<128xf32, #b> -> tensor<128xf32, #c>
+     %w = nv_tileas.convert_layout %f : tensor<128xf32, #b> -> tensor<128xf32, #r>
      nv_tileas.return
    }
  }
"""

ALIAS = Diag("AS-0303", ERROR, "Alias is not expected here.", _ASYNC, WORD_ERROR)
"""
see: AS-0301

in: function(%lo: tensor<i32, #s>, %p: tensor<128xptr<f32>, #b>)
- $ tileiras-opt k.tileir --pass TileASMaterializeSchedule
+ $ tileiras-opt k.tileir --pass TileASScheduleAnalysis,TileASMaterializeSchedule
      %q = nv_tileas.async.pipeline.create {depth = 2} : () -> !nv_tileas.async.pipeline
      nv_tileas.for %lo, %lo, %lo : tensor<i32, #s>, tensor<i32, #s>, tensor<i32, #s> {
      ^bb0(%i: tensor<i32, #s>):
      %v = nv_tileas.async.pipeline.transfer %q : !nv_tileas.async.pipeline -> tensor<128xf32, #b> {
        %x, %t = nv_tileas.load_ptr_tko %p {memory_ordering_semantics = weak, operandSegmentSizes = array<i32: 1, 0, 0, 0>} : tensor<128xptr<f32>, #b> -> tensor<128xf32, #b>, !cuda_tile.token
        nv_tileas.async.pipeline.yield %x : tensor<128xf32, #b>
      }
      nv_tileas.continue
      }
"""  # noqa: E501

NOT_PIPELINED = Diag("AS-0304", REMARK, "Failed to pipeline loop", _ASYNC, WORD_REMARK, category="memory")
"""
cause: A loop was asked to be pipelined and stays as it is; the note behind it names what stands in the way.
remedy: Remove what the note names: loads whose addresses depend on earlier iterations, stores between the loads, or
too little shared memory for the stages.

in: function(%lo: tensor<i32, #s>, %p: tensor<128xptr<f32>, #b>)
  $ tileiras-opt k.tileir --pass TileASUnspecializedPipeline
      %one = nv_tileas.constant {value = dense<1> : !cuda_tile.tile<i32>} : () -> tensor<i32, #s>
      %q = nv_tileas.async.pipeline.create {depth = 2} : () -> !nv_tileas.async.pipeline
-     nv_tileas.for %lo, %lo, %lo : tensor<i32, #s>, tensor<i32, #s>, tensor<i32, #s> {
+     nv_tileas.for %lo, %lo, %one : tensor<i32, #s>, tensor<i32, #s>, tensor<i32, #s> {
      ^bb0(%i: tensor<i32, #s>):
      %v = nv_tileas.async.pipeline.transfer %q : !nv_tileas.async.pipeline -> tensor<128xf32, #b> {
        %x, %t = nv_tileas.load_ptr_tko %p {memory_ordering_semantics = weak, operandSegmentSizes = array<i32: 1, 0, 0, 0>} : tensor<128xptr<f32>, #b> -> tensor<128xf32, #b>, !cuda_tile.token
        nv_tileas.async.pipeline.yield %x : tensor<128xf32, #b>
      }
      nv_tileas.continue
      }
"""  # noqa: E501

KERNEL_SPEC = Diag(
    "AS-0305", ERROR, "LowerTMALoadStoreToAsync: missing or invalid KernelSpecAttr on function",
    "TMA and memory-op family", WORD_ERROR,
)  # fmt: skip
"""
see: AA-0106

  $ tileiras-opt k.tileir --pass LowerTMALoadStoreToAsync
  #s = #linear<0, lane = [0, 0, 0, 0, 0], warp = [0, 0]>
  #b = #linear<7, lane = [1, 2, 4, 8, 16], warp = [32, 64]>
  nv_tileas.module {sym_name = "m", nv_tileaa.compute_capability = 90 : i32} {
- nv_tileas.func {sym_name = "k", function_type = () -> ()} {
+ nv_tileas.func {sym_name = "k", nv_tileaa.kernel_spec = {num_warps = 4}, function_type = () -> ()} {
    ^bb0(%lo: tensor<i32, #s>, %d: !nv_tileas.tma_descriptor<128xf32>):
      %k = nv_tileas.make_token : () -> !cuda_tile.token
      %x, %t = nv_tileas.async.tiled_tma_load %d, %k, %lo : !nv_tileas.tma_descriptor<128xf32>, !cuda_tile.token, tensor<i32, #s> -> tensor<128xf32, #b>, !cuda_tile.token
      nv_tileas.return
    }
  }
"""  # noqa: E501

NO_ROOM = "shared memory holds no more"  # why a ring has fewer stages than were wanted; reports look for it

RING = Diag(
    "AS-0307", REMARK,
    "loads of the loop run ahead through shared memory: {stages} of {bytes} bytes, {ahead}; an iteration "
    "takes {clocks} clocks ({bound}){cut}",
    _ASYNC, WORD_REMARK, kind="passed", category="memory",
)  # fmt: skip
"""
cause: A remark: loads of a loop run ahead of their use, so many stages deep. The depth is the latency of a copy over the clocks
that an iteration takes of the busiest resource, which is named; stages are also cut by what shared memory holds. Loads that
stand behind what the iteration before does have one stage, filled when that iteration has ended. So have those of which no two
stages fit, and no queue: each part of it is filled when products have read it.
remedy: Nothing is wrong. Where the remark says that the depth was cut, smaller tiles leave room for more stages.

in: matmul
- $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
+ $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all --disable=cp.async
"""

ROLES = Diag(
    "AS-0314", REMARK,
    "{copying} warps of the kernel only {does}, beside {warps} that do all else{registers}", _ASYNC, WORD_REMARK,
    kind="passed", category="memory",
)  # fmt: skip
"""
cause: A remark: warps of the block do nothing but issue the copies of pipelined loops (a warpgroup), or copies and
products that add up in tensor memory (a warp for each), so that the others go without a barrier, and the copies of what comes next start while results are stored. Its registers
go to the others. Where warps cannot be told apart so, the remark names the operation and the reason.
remedy: Nothing is wrong. To gain it, compute what loads of the loop are indexed by from parameters, the block's number
and constants: not from what other warps compute, exchange or wait for.

in: matmul
- $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all --launch-abi=simt --tensor-maps=launcher
+ $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all --launch-abi=simt --tensor-maps=launcher --disable=roles
"""  # noqa: E501

TURNS = Diag(
    "AS-0316", REMARK, "two warpgroups take turns: while one multiplies, the other one computes", _ASYNC, WORD_REMARK,
    kind="passed", category="tensorcore",
)  # fmt: skip
"""
cause: A remark: what is between the products of the loop, exponentials for example, takes a warpgroup long enough that the tensor
cores would wait. Each of the two warpgroups multiplies while the other one computes.
remedy: Nothing is wrong. `--disable=turns` leaves it to the GPU who multiplies when.

in: attend
- $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all --launch-abi=simt --tensor-maps=launcher
+ $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all --launch-abi=simt --tensor-maps=launcher --disable=turns
"""

PAIR = Diag(
    "AS-0317", REMARK, "pairs of CTAs multiply as one: {stages} stages of {bytes} bytes in each", _ASYNC, WORD_REMARK,
    kind="passed", category="tensorcore",
)  # fmt: skip
"""
cause: A remark: the hint `num_cta_in_cga` (cuTile's `num_ctas`) made a cluster of a tile block, and of every two of its CTAs one
thread issues the products (`tcgen05.mma.cta_group::2`). Each of the two loads one half of the right operand.
remedy: Nothing is wrong. With `--disable=pairs` a CTA multiplies for itself.

- $ tileiras k.tileir --gpu-name=sm_100 --emit=ptx --remarks=all --launch-abi=simt --tensor-maps=launcher
+ $ tileiras k.tileir --gpu-name=sm_100 --emit=ptx --remarks=all --launch-abi=simt --tensor-maps=launcher --disable=pairs
  cuda_tile.module @m {
    entry @k(%a: tile<ptr<bf16>>, %b: tile<ptr<bf16>>, %c: tile<ptr<f32>>, %n: tile<i32>)
        optimization_hints = <default = {num_cta_in_cga = 2}> {
      %s = assume div_by<64>, %n : tile<i32>
      %pa = assume div_by<16>, %a : tile<ptr<bf16>>
      %va = make_tensor_view %pa, shape = [%s, %s], strides = [%s, 1] : tile<i32> -> tensor_view<?x?xbf16, strides=[?,1]>
      %ta = make_partition_view %va : partition_view<tile=(256x64), padding_value = zero, tensor_view<?x?xbf16, strides=[?,1]>>
      %pb = assume div_by<16>, %b : tile<ptr<bf16>>
      %vb = make_tensor_view %pb, shape = [%s, %s], strides = [%s, 1] : tile<i32> -> tensor_view<?x?xbf16, strides=[?,1]>
      %tb = make_partition_view %vb : partition_view<tile=(64x128), padding_value = zero, tensor_view<?x?xbf16, strides=[?,1]>>
      %pc = assume div_by<16>, %c : tile<ptr<f32>>
      %vc = make_tensor_view %pc, shape = [%s, %s], strides = [%s, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
      %tc = make_partition_view %vc : partition_view<tile=(256x128), tensor_view<?x?xf32, strides=[?,1]>>
      %i, %j, %z = get_tile_block_id : tile<i32>
      %0 = constant <i32: 0> : tile<i32>
      %1 = constant <i32: 1> : tile<i32>
      %none = constant <f32: 0.0> : tile<256x128xf32>
      %sum = for %k in (%0 to %n, step %1) : tile<i32> iter_values(%acc = %none) -> (tile<256x128xf32>) {
        %x, %x1 = load_view_tko weak %ta[%i, %k] : partition_view<tile=(256x64), padding_value = zero, tensor_view<?x?xbf16, strides=[?,1]>>, tile<i32> -> tile<256x64xbf16>, token
        %y, %y1 = load_view_tko weak %tb[%k, %j] : partition_view<tile=(64x128), padding_value = zero, tensor_view<?x?xbf16, strides=[?,1]>>, tile<i32> -> tile<64x128xbf16>, token
        %w = reshape %x : tile<256x64xbf16> -> tile<256x64xbf16>
        %next = mmaf %w, %y, %acc : tile<256x64xbf16>, tile<64x128xbf16>, tile<256x128xf32>
        continue %next : tile<256x128xf32>
      }
      %r = store_view_tko weak %sum, %tc[%i, %j] : tile<256x128xf32>, partition_view<tile=(256x128), tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> token
      return
    }
  }
"""  # noqa: E501

NO_PAIR = Diag(
    "AS-0318", REMARK, "each CTA of the cluster multiplies for itself: {reason}", _ASYNC, WORD_REMARK,
    kind="missed", category="tensorcore",
)  # fmt: skip
"""
see: AS-0317

- $ tileiras k.tileir --gpu-name=sm_100 --emit=ptx --remarks=all --launch-abi=simt --tensor-maps=launcher --disable=pairs
+ $ tileiras k.tileir --gpu-name=sm_100 --emit=ptx --remarks=all --launch-abi=simt --tensor-maps=launcher
  cuda_tile.module @m {
    entry @k(%a: tile<ptr<bf16>>, %b: tile<ptr<bf16>>, %c: tile<ptr<f32>>, %n: tile<i32>)
        optimization_hints = <default = {num_cta_in_cga = 4}> {
      %s = assume div_by<64>, %n : tile<i32>
      %pa = assume div_by<16>, %a : tile<ptr<bf16>>
      %va = make_tensor_view %pa, shape = [%s, %s], strides = [%s, 1] : tile<i32> -> tensor_view<?x?xbf16, strides=[?,1]>
      %ta = make_partition_view %va : partition_view<tile=(512x64), padding_value = zero, tensor_view<?x?xbf16, strides=[?,1]>>
      %pb = assume div_by<16>, %b : tile<ptr<bf16>>
      %vb = make_tensor_view %pb, shape = [%s, %s], strides = [%s, 1] : tile<i32> -> tensor_view<?x?xbf16, strides=[?,1]>
      %tb = make_partition_view %vb : partition_view<tile=(64x256), padding_value = zero, tensor_view<?x?xbf16, strides=[?,1]>>
      %pc = assume div_by<16>, %c : tile<ptr<f32>>
      %vc = make_tensor_view %pc, shape = [%s, %s], strides = [%s, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
      %tc = make_partition_view %vc : partition_view<tile=(512x256), tensor_view<?x?xf32, strides=[?,1]>>
      %i, %j, %z = get_tile_block_id : tile<i32>
      %0 = constant <i32: 0> : tile<i32>
      %1 = constant <i32: 1> : tile<i32>
      %none = constant <f32: 0.0> : tile<512x256xf32>
      %sum = for %k in (%0 to %n, step %1) : tile<i32> iter_values(%acc = %none) -> (tile<512x256xf32>) {
        %x, %x1 = load_view_tko weak %ta[%i, %k] : partition_view<tile=(512x64), padding_value = zero, tensor_view<?x?xbf16, strides=[?,1]>>, tile<i32> -> tile<512x64xbf16>, token
        %y, %y1 = load_view_tko weak %tb[%k, %j] : partition_view<tile=(64x256), padding_value = zero, tensor_view<?x?xbf16, strides=[?,1]>>, tile<i32> -> tile<64x256xbf16>, token
        %w = reshape %x : tile<512x64xbf16> -> tile<512x64xbf16>
        %next = mmaf %w, %y, %acc : tile<512x64xbf16>, tile<64x256xbf16>, tile<512x256xf32>
        continue %next : tile<512x256xf32>
      }
      %r = store_view_tko weak %sum, %tc[%i, %j] : tile<512x256xf32>, partition_view<tile=(512x256), tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> token
      return
    }
  }
"""  # noqa: E501

NO_ROLES = Diag(
    "AS-0315", REMARK, "no warps of the kernel only copy: {name}: {reason}", _ASYNC, WORD_REMARK,
    kind="missed", category="memory",
)  # fmt: skip
"""
see: AS-0314

in: matmul
  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all --launch-abi=simt --tensor-maps=launcher
-     %i, %t0 = atomic_rmw_tko relaxed device %n, add, %one : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
+     %i, %by, %bz = get_tile_block_id : tile<i32>
"""

NO_ARRIVALS = Diag(
    "AS-0319", REMARK, "threads of the loop wait for copies in groups, with a barrier: {reason}", _ASYNC, WORD_REMARK,
    kind="missed", category="memory",
)  # fmt: skip
"""
cause: A remark: copies of threads (`cp.async`) that feed products of warpgroups arrive on mbarriers where that is possible and
costs nothing: then the loop has no barrier, and four warps may copy for the others. Here threads wait for their groups of copies,
and for each other at a barrier.
remedy: Nothing is wrong. A loop has mbarriers whose operands go to products as they were loaded, and whose products take longer
than what is computed between them.

in: attend rows=64
- $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
+ $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all --disable=arrivals
"""

QUEUE = Diag(
    "AS-0312", REMARK,
    "loads of the loop queue in shared memory for its {products} products{parts}: {slots} slots of {bytes} bytes, {ahead} on "
    "their way",
    _ASYNC, WORD_REMARK, kind="passed", category="memory",
)  # fmt: skip
"""
cause: A remark: shared memory has no room for three stages of a whole iteration, so what the products of a loop
take queues in slots, in the order in which they take it.
remedy: Nothing is wrong. Smaller tiles leave room for a ring of stages, with one barrier an iteration.

in: attend
- $ tileiras k.tileir --gpu-name=sm_86 --emit=ptx --remarks=all
+ $ tileiras k.tileir --gpu-name=sm_86 --emit=ptx --remarks=all --disable=cp.async
"""

NOT_AHEAD = Diag(
    "AS-0320", REMARK, "loads of the loop's products do not run ahead: {reason}", _ASYNC, WORD_REMARK, kind="missed",
    category="memory",
)  # fmt: skip
"""
cause: A remark: the loop has products whose operands are loaded in it, and no load runs ahead through shared memory, for the
reason in the message; they wait in registers, behind barriers.
remedy: Rows aligned to 4 bytes (better 16), weak loads that no other access of the loop orders, and tiles of which
shared memory holds two stages.

in: matmul
- $ tileiras k.tileir --gpu-name=sm_75 --emit=ptx --remarks=all
+ $ tileiras k.tileir --gpu-name=sm_80 --emit=ptx --remarks=all
"""

LEFT_OUT = Diag(
    "AS-0322", REMARK, "the loop goes from one iteration that has work to the next, which it looks for ahead", _ASYNC,
    WORD_REMARK, kind="passed", category="memory",
)  # fmt: skip
"""
cause: A remark: loads and products of the loop stand behind a condition that does not depend on them, as blocks of a sparse
operand do. The iterations that have work are counted in front of the loop, and the next one is looked for beforehand, so that
copies run ahead; those that are left out take no time but that of their condition.
remedy: Nothing is wrong. The condition is computed twice for each iteration: it should be cheap.

- $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
+ $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all --disable=cp.async
  cuda_tile.module @kernels {
    entry @sparse(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %flags: tile<ptr<i32>>, %steps: tile<i32>) {
      %pa = assume div_by<16>, %a : tile<ptr<f16>>
      %pb = assume div_by<16>, %b : tile<ptr<f16>>
      %av = make_tensor_view %pa, shape = [64, 4096], strides = [4096, 1] : tensor_view<64x4096xf16, strides=[4096,1]>
      %bv = make_tensor_view %pb, shape = [4096, 64], strides = [64, 1] : tensor_view<4096x64xf16, strides=[64,1]>
      %cv = make_tensor_view %c, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
      %at = make_partition_view %av : partition_view<tile=(64x32), tensor_view<64x4096xf16, strides=[4096,1]>>
      %bt = make_partition_view %bv : partition_view<tile=(32x64), tensor_view<4096x64xf16, strides=[64,1]>>
      %ct = make_partition_view %cv : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
      %zero = constant <i32: 0> : tile<i32>
      %one = constant <i32: 1> : tile<i32>
      %none = constant <f32: 0.0> : tile<64x64xf32>
      %sum = for %k in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<64x64xf32>) {
        %place = offset %flags, %k : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
        %flag, %t0 = load_ptr_tko weak %place : tile<ptr<i32>> -> tile<i32>, token
        %wanted = cmpi not_equal %flag, %zero, signed : tile<i32> -> tile<i1>
        %next = if %wanted -> (tile<64x64xf32>) {
          %x, %t1 = load_view_tko weak %at[%zero, %k] : partition_view<tile=(64x32), tensor_view<64x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x32xf16>, token
          %y, %t2 = load_view_tko weak %bt[%k, %zero] : partition_view<tile=(32x64), tensor_view<4096x64xf16, strides=[64,1]>>, tile<i32> -> tile<32x64xf16>, token
          %z = mmaf %x, %y, %acc : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
          yield %z : tile<64x64xf32>
        } else {
          yield %acc : tile<64x64xf32>
        }
        continue %next : tile<64x64xf32>
      }
      %t3 = store_view_tko weak %sum, %ct[%zero, %zero] : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
      return
    }
  }
"""  # noqa: E501

LOOKED_UP = Diag(
    "AS-0323", REMARK, "the load is looked up in the iteration itself: the numbers that place its elements run ahead", _ASYNC,
    WORD_REMARK, kind="passed", category="memory",
)  # fmt: skip
"""
cause: A remark: each element of the load lies where a number says that the same iteration loads, as the value of a code of four bits
does in a table of sixteen. No copy could bring it ahead, so it is read where it is used; the numbers, and the loop's other
loads, run ahead through shared memory.
remedy: Nothing is wrong. The table should be small, so that it stays in the first-level cache.

- $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
+ $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all --disable=cp.async
  cuda_tile.module @kernels {
    entry @named(%a: tile<ptr<f16>>, %w: tile<ptr<i8>>, %values: tile<ptr<f16>>, %c: tile<ptr<f32>>, %steps: tile<i32>) {
      %pa = assume div_by<16>, %a : tile<ptr<f16>>
      %pw = assume div_by<16>, %w : tile<ptr<i8>>
      %av = make_tensor_view %pa, shape = [64, 4096], strides = [4096, 1] : tensor_view<64x4096xf16, strides=[4096,1]>
      %wv = make_tensor_view %pw, shape = [4096, 64], strides = [64, 1] : tensor_view<4096x64xi8, strides=[64,1]>
      %cv = make_tensor_view %c, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
      %at = make_partition_view %av : partition_view<tile=(64x32), tensor_view<64x4096xf16, strides=[4096,1]>>
      %wt = make_partition_view %wv : partition_view<tile=(32x64), tensor_view<4096x64xi8, strides=[64,1]>>
      %ct = make_partition_view %cv : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
      %zero = constant <i32: 0> : tile<i32>
      %one = constant <i32: 1> : tile<i32>
      %low = constant <i32: 15> : tile<32x64xi32>
      %none = constant <f32: 0.0> : tile<64x64xf32>
      %first = reshape %values : tile<ptr<f16>> -> tile<1x1xptr<f16>>
      %table = broadcast %first : tile<1x1xptr<f16>> -> tile<32x64xptr<f16>>
      %sum = for %k in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<64x64xf32>) {
        %x, %t1 = load_view_tko weak %at[%zero, %k] : partition_view<tile=(64x32), tensor_view<64x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x32xf16>, token
        %code, %t2 = load_view_tko weak %wt[%k, %zero] : partition_view<tile=(32x64), tensor_view<4096x64xi8, strides=[64,1]>>, tile<i32> -> tile<32x64xi8>, token
        %wide = exti %code signed : tile<32x64xi8> -> tile<32x64xi32>
        %number = andi %wide, %low : tile<32x64xi32>
        %place = offset %table, %number : tile<32x64xptr<f16>>, tile<32x64xi32> -> tile<32x64xptr<f16>>
        %y, %t3 = load_ptr_tko weak %place : tile<32x64xptr<f16>> -> tile<32x64xf16>, token
        %z = mmaf %x, %y, %acc : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
        continue %z : tile<64x64xf32>
      }
      %t4 = store_view_tko weak %sum, %ct[%zero, %zero] : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
      return
    }
  }
"""  # noqa: E501

UNMASKED = Diag(
    "AS-0324", REMARK, "iterations in which a mask covers nothing run in a loop of their own, without it", _ASYNC,
    WORD_REMARK, kind="passed", category="loop",
)  # fmt: skip
"""
cause: A remark: a mask compares columns or rows that go up with the loop's index, and which of its steps it covers something in is
a number that can be computed in front of the loop. The other steps neither compare nor choose.
remedy: Nothing is wrong. The loop's code is there twice, or three times where a window has masked steps at both of its ends.

- $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
+ $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all -O1
  cuda_tile.module @kernels {
    entry @kept(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %n: tile<i32>, %steps: tile<i32>) {
      %pa = assume div_by<16>, %a : tile<ptr<f16>>
      %pb = assume div_by<16>, %b : tile<ptr<f16>>
      %av = make_tensor_view %pa, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf16, strides=[64,1]>
      %bv = make_tensor_view %pb, shape = [64, 4096], strides = [4096, 1] : tensor_view<64x4096xf16, strides=[4096,1]>
      %cv = make_tensor_view %c, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
      %at = make_partition_view %av : partition_view<tile=(64x64), tensor_view<64x64xf16, strides=[64,1]>>
      %bt = make_partition_view %bv : partition_view<tile=(64x64), tensor_view<64x4096xf16, strides=[4096,1]>>
      %ct = make_partition_view %cv : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
      %zero = constant <i32: 0> : tile<i32>
      %one = constant <i32: 1> : tile<i32>
      %width = constant <i32: 64> : tile<i32>
      %none = constant <f32: 0.0> : tile<64x64xf32>
      %lanes = iota : tile<64xi32>
      %nr = reshape %n : tile<i32> -> tile<1xi32>
      %ends = broadcast %nr : tile<1xi32> -> tile<64xi32>
      %x, %t1 = load_view_tko weak %at[%zero, %zero] : partition_view<tile=(64x64), tensor_view<64x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
      %sum = for %k in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<64x64xf32>) {
        %y, %t2 = load_view_tko weak %bt[%zero, %k] : partition_view<tile=(64x64), tensor_view<64x4096xf16, strides=[4096,1]>>, tile<i32> -> tile<64x64xf16>, token
        %s = mmaf %x, %y, %none : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
        %first = muli %k, %width : tile<i32>
        %fr = reshape %first : tile<i32> -> tile<1xi32>
        %fb = broadcast %fr : tile<1xi32> -> tile<64xi32>
        %columns = addi %fb, %lanes : tile<64xi32>
        %there = cmpi less_than %columns, %ends, signed : tile<64xi32> -> tile<64xi1>
        %row = reshape %there : tile<64xi1> -> tile<1x64xi1>
        %mask = broadcast %row : tile<1x64xi1> -> tile<64x64xi1>
        %kept = select %mask, %s, %none : tile<64x64xi1>, tile<64x64xf32>
        %next = maxf %acc, %kept : tile<64x64xf32>
        continue %next : tile<64x64xf32>
      }
      %t4 = store_view_tko weak %sum, %ct[%zero, %zero] : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
      return
    }
  }
"""  # noqa: E501

WAITING = Diag(
    "AS-0321", REMARK,
    "loads of the loop wait in registers: {stages} of {wanted} stages, for each takes {held} registers a thread, and what waits "
    "may take {room}",
    _ASYNC, WORD_REMARK, kind="missed", category="memory",
)  # fmt: skip
"""
cause: A remark: `tt.num_stages` asks for loads that run ahead, and these reach no product through shared memory. They wait in
registers, in fewer stages where they would take more of them than a thread can spare; one stage is a load that does not run ahead.
remedy: Smaller tiles, or more warps, leave a thread fewer registers to hold.

  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
  cuda_tile.module @kernels attributes {tt.num_stages = 8 : i32} {
    entry @sums(%x: tile<ptr<f32>>, %y: tile<ptr<f32>>, %n: tile<i32>) {
      %size = assume bounded<0, ?>, %n : tile<i32>
      %xv = make_tensor_view %x, shape = [%size], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
-     %yv = make_tensor_view %y, shape = [4096], strides = [1] : tensor_view<4096xf32, strides=[1]>
+     %yv = make_tensor_view %y, shape = [1024], strides = [1] : tensor_view<1024xf32, strides=[1]>
-     %xt = make_partition_view %xv : partition_view<tile=(4096), tensor_view<?xf32, strides=[1]>>
+     %xt = make_partition_view %xv : partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>
-     %yt = make_partition_view %yv : partition_view<tile=(4096), tensor_view<4096xf32, strides=[1]>>
+     %yt = make_partition_view %yv : partition_view<tile=(1024), tensor_view<1024xf32, strides=[1]>>
-     %steps = get_index_space_shape %xt : partition_view<tile=(4096), tensor_view<?xf32, strides=[1]>> -> tile<i32>
+     %steps = get_index_space_shape %xt : partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>> -> tile<i32>
      %zero = constant <i32: 0> : tile<i32>
      %one = constant <i32: 1> : tile<i32>
-     %none = constant <f32: 0.0> : tile<4096xf32>
+     %none = constant <f32: 0.0> : tile<1024xf32>
      %t = make_token : token
-     %sum = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<4096xf32>) {
+     %sum = for %i in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<1024xf32>) {
-       %v, %t1 = load_view_tko weak %xt[%i] token = %t : partition_view<tile=(4096), tensor_view<?xf32, strides=[1]>>, tile<i32> -> tile<4096xf32>, token
+       %v, %t1 = load_view_tko weak %xt[%i] token = %t : partition_view<tile=(1024), tensor_view<?xf32, strides=[1]>>, tile<i32> -> tile<1024xf32>, token
-       %next = addf %acc, %v : tile<4096xf32>
+       %next = addf %acc, %v : tile<1024xf32>
-       continue %next : tile<4096xf32>
+       continue %next : tile<1024xf32>
      }
-     %t2 = store_view_tko weak %sum, %yt[%zero] token = %t : tile<4096xf32>, partition_view<tile=(4096), tensor_view<4096xf32, strides=[1]>>, tile<i32> -> token
+     %t2 = store_view_tko weak %sum, %yt[%zero] token = %t : tile<1024xf32>, partition_view<tile=(1024), tensor_view<1024xf32, strides=[1]>>, tile<i32> -> token
      return
    }
  }
"""  # noqa: E501

WARPGROUPS = Diag(
    "AS-0308", REMARK, "the product is issued by warpgroups (wgmma): {left}, {right}", _ASYNC, WORD_REMARK,
    kind="passed", category="tensorcore",
)  # fmt: skip
"""
cause: A remark of targets with wgmma: whether a product is issued by whole warpgroups, and where its operands lie.
What is converted or transposed between load and product is written back to shared memory once a step.
remedy: Nothing is wrong. Where wgmma is missed: two-dimensional tiles with at least 64 rows, and loads whose rows
are aligned to 16 bytes.

in: matmul
- $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
+ $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all --disable=wgmma
"""

NO_WARPGROUPS = Diag(
    "AS-0309", REMARK, "the product is not issued by warpgroups (wgmma): {reason}", _ASYNC, WORD_REMARK,
    kind="missed", category="tensorcore",
)  # fmt: skip
"""
see: AS-0308

in: matmul rows=32|64
  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
"""

BULK = Diag(
    "AS-0310", REMARK, "bulk tensor copies bring the tile of the load: {boxes} of {box} elements, swizzle {swizzle}",
    _ASYNC, WORD_REMARK, kind="passed", category="memory",
)  # fmt: skip
"""
cause: A remark of `--tensor-maps=launcher`: whether bulk tensor copies bring the tile of a load that feeds a
product. The launcher makes the tensor map from the kernel's arguments, so pointer, extents and strides must be
parameters or constants, and multiples of 16 bytes by assumptions that hold for the whole kernel.
remedy: Nothing is wrong: other loads travel by cp.async. To gain a bulk copy, build the view from parameters of the
kernel, and state `assume div_by<16>` of pointer and strides outside of branches and loops.

in: matmul
- $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all --launch-abi=simt --tensor-maps=launcher
+ $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all --launch-abi=simt
"""

NO_TENSOR_MAP = Diag(
    "AS-0311", REMARK, "the load is no bulk tensor copy: {reason}", _ASYNC, WORD_REMARK, kind="missed",
    category="memory",
)  # fmt: skip
"""
see: AS-0310

in: matmul width=2|16
  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all --launch-abi=simt --tensor-maps=launcher
"""

NO_TENSOR_MEMORY = Diag(
    "AS-0313", REMARK, "the product with block scales is not issued by one thread (tcgen05): {reason}", _ASYNC, WORD_REMARK,
    kind="missed", category="tensorcore",
)  # fmt: skip
"""
cause: A remark of targets with tcgen05: why a product with block scales is multiplied in registers, by products of
f16.
remedy: Nothing is wrong. tcgen05 takes tiles of 128 rows or more in a loop over K whose loads have rows aligned to
16 bytes, four-bit operands with K contiguous.

- $ tileiras k.tileir --gpu-name=sm_100 --emit=ptx --remarks=all
+ $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx --remarks=all
  cuda_tile.module @kernels {
    entry @product(%p: tile<ptr<f8E4M3FN>>, %q: tile<ptr<f8E8M0FNU>>, %o: tile<ptr<f32>>) {
      %pv = make_tensor_view %p, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf8E4M3FN, strides=[64,1]>
      %qv = make_tensor_view %q, shape = [64, 2], strides = [2, 1] : tensor_view<64x2xf8E8M0FNU, strides=[2,1]>
      %ov = make_tensor_view %o, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
      %pt = make_partition_view %pv : partition_view<tile=(64x64), tensor_view<64x64xf8E4M3FN, strides=[64,1]>>
      %qt = make_partition_view %qv : partition_view<tile=(64x2), tensor_view<64x2xf8E8M0FNU, strides=[2,1]>>
      %ot = make_partition_view %ov : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
      %i = constant <i32: 0> : tile<i32>
      %x, %t1 = load_view_tko weak %pt[%i, %i] : partition_view<tile=(64x64), tensor_view<64x64xf8E4M3FN, strides=[64,1]>>, tile<i32> -> tile<64x64xf8E4M3FN>, token
      %s, %t2 = load_view_tko weak %qt[%i, %i] : partition_view<tile=(64x2), tensor_view<64x2xf8E8M0FNU, strides=[2,1]>>, tile<i32> -> tile<64x2xf8E8M0FNU>, token
      %y = permute %x [1, 0] : tile<64x64xf8E4M3FN> -> tile<64x64xf8E4M3FN>
      %u = permute %s [1, 0] : tile<64x2xf8E8M0FNU> -> tile<2x64xf8E8M0FNU>
      %c = constant <f32: 0.0> : tile<64x64xf32>
      %r = mmaf_scaled %x, %y, %c, %s, %u : tile<64x64xf8E4M3FN>, tile<64x64xf8E4M3FN>, tile<64x64xf32>, tile<64x2xf8E8M0FNU>, tile<2x64xf8E8M0FNU>
      %t3 = store_view_tko weak %r, %ot[%i, %i] : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
      return
    }
  }
"""  # noqa: E501

WHY = Diag("AS-0306", NOTE, "{why}", _ASYNC)
"""
see: AS-0304

in: function(%lo: tensor<i32, #s>, %p: tensor<128xptr<f32>, #b>)
  $ tileiras-opt k.tileir --pass TileASUnspecializedPipeline
      %one = nv_tileas.constant {value = dense<1> : !cuda_tile.tile<i32>} : () -> tensor<i32, #s>
      %q = nv_tileas.async.pipeline.create {depth = 2} : () -> !nv_tileas.async.pipeline
-     nv_tileas.for %lo, %lo, %lo : tensor<i32, #s>, tensor<i32, #s>, tensor<i32, #s> {
+     nv_tileas.for %lo, %lo, %one : tensor<i32, #s>, tensor<i32, #s>, tensor<i32, #s> {
      ^bb0(%i: tensor<i32, #s>):
      %v = nv_tileas.async.pipeline.transfer %q : !nv_tileas.async.pipeline -> tensor<128xf32, #b> {
        %x, %t = nv_tileas.load_ptr_tko %p {memory_ordering_semantics = weak, operandSegmentSizes = array<i32: 1, 0, 0, 0>} : tensor<128xptr<f32>, #b> -> tensor<128xf32, #b>, !cuda_tile.token
        nv_tileas.async.pipeline.yield %x : tensor<128xf32, #b>
      }
      nv_tileas.continue
      }
"""  # noqa: E501


# TileIR operation analysis (layer 3)
_ANALYSIS = "TileIR operation analysis"
UNRESOLVED = Diag(
    "AS-0401",
    ERROR,
    "symbol '@{callee}' called in function '{function}' is not defined in the module",
    _ANALYSIS,
    WORD_ERROR,
)
"""
cause: A call names a function that the module does not have, or has with other types.
remedy: Define the function in the same module, with the types of the call.

  $ tileiras-opt k.tileir --pass TileIROperationAnalysis
  nv_tileas.module {sym_name = "m", nv_tileaa.compute_capability = 90 : i32} {
    nv_tileas.func {sym_name = "k", nv_tileaa.kernel_spec = {num_warps = 4}, function_type = () -> ()} {
-     "nv_tileas.call"() <{callee = @helper}> : () -> ()
+     "nv_tileas.call"() <{callee = @k}> : () -> ()
      nv_tileas.return
    }
  }
"""

CALL_TYPES = Diag(
    "AS-0402",
    ERROR,
    "call of '@{callee}' in function '{function}' has types {got}, but the function has {want}",
    _ANALYSIS,
    WORD_ERROR,
)
"""
see: AS-0401

in: function(%lo: tensor<i32, #s>)
  $ tileiras-opt k.tileir --pass TileIROperationAnalysis
-     "nv_tileas.call"() <{callee = @k}> : () -> ()
+     "nv_tileas.call"(%lo) <{callee = @k}> : (tensor<i32, #s>) -> ()
"""

FOREIGN_TYPE = Diag(
    "AS-0403",
    ERROR,
    "attribute '{attr}' of '{name}' in function '{function}' carries the type '{type}', which the type table does not have",
    _ANALYSIS,
    WORD_ERROR,
)
"""
see: AS-0401

in: function(%lo: tensor<i32, #s>)
  $ tileiras-opt k.tileir --pass TileIROperationAnalysis
-     %z = nv_tileas.addi %lo, %lo {overflow = none, my.type = !nv_tileas.type_ref<2>} : tensor<i32, #s>, tensor<i32, #s> -> tensor<i32, #s>
+     %z = nv_tileas.addi %lo, %lo {overflow = none} : tensor<i32, #s>, tensor<i32, #s> -> tensor<i32, #s>
"""  # noqa: E501

NO_SPEC = Diag("AS-0404", ERROR, "kernel '{function}' has no nv_tileaa.kernel_spec", _ANALYSIS, WORD_ERROR)
"""
see: AA-0106

  $ tileiras-opt k.tileir --pass TileIROperationAnalysis
  nv_tileas.module {sym_name = "m", nv_tileaa.compute_capability = 90 : i32} {
- nv_tileas.func {sym_name = "k", function_type = () -> ()} {
+ nv_tileas.func {sym_name = "k", nv_tileaa.kernel_spec = {num_warps = 4}, function_type = () -> ()} {
      nv_tileas.return
    }
  }
"""
