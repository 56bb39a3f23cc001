"""Texts of the cuda_tile verifier: the public contract, letter for letter.

Every message is rendered with the op in front of it (word 0x103) unless it is about a type alone. What the
real verifier says about the same fault follows as a note.
"""

from __future__ import annotations

from tileiras.diag import ERROR, Diag

_WORD = 0x103
_SRC = "cuda_tile verifiers"


def _rule(number: int, text: str) -> Diag:
    return Diag(f"CT-{number:04d}", ERROR, text, src=_SRC, word=_WORD)


# Regions
EMPTY_BLOCK = _rule(1, "expect non-empty block")
"""
see: BC-0014

in: kernel
-     "cuda_tile.loop"() ({}) : () -> ()
+     "cuda_tile.loop"() ({ "cuda_tile.break"() : () -> () }) : () -> ()
"""

BLOCK_ARG_TYPES = _rule(2, "expected TileType for block arguments but got types: {types}")
"""
cause: The arguments of a block or the operands of its terminator do not match what the operation around it carries,
in number, type or rank.
remedy: Give the body one argument and one terminator operand per carried value, of the same type; bodies of reduce
and scan take scalars.

in: kernel
      %f32_8x16 = constant <f32: 0.0> : tile<8x16xf32>
      %r = "cuda_tile.reduce"(%f32_8x16) <{dim = 1 : i32, identities = [0.0 : f32]}> ({
-     ^bb0(%a: tile<f32>, %b: token):
+     ^bb0(%a: tile<f32>, %b: tile<f32>):
      yield %a : tile<f32>
      }) : (tile<8x16xf32>) -> tile<8xf32>
"""

BLOCK_ARG_RANK = _rule(3, "expect 0-rank tile type at index: {index}")
"""
see: CT-0002

in: kernel
      %f32_8x16 = constant <f32: 0.0> : tile<8x16xf32>
      %r = "cuda_tile.reduce"(%f32_8x16) <{dim = 1 : i32, identities = [0.0 : f32]}> ({
-     ^bb0(%a: tile<f32>, %b: tile<8xf32>):
+     ^bb0(%a: tile<f32>, %b: tile<f32>):
      yield %a : tile<f32>
      }) : (tile<8x16xf32>) -> tile<8xf32>
"""

TERMINATOR_COUNT = _rule(4, "expect number of terminators operands ({got}) to match expected ({want})")
"""
see: CT-0002

in: kernel
      %i1 = constant <i1: true> : tile<i1>
      %f32 = constant <f32: 0.0> : tile<f32>
      %r = "cuda_tile.if"(%i1) ({
      yield %f32 : tile<f32>
      }, {
-     yield
+     yield %f32 : tile<f32>
      }) : (tile<i1>) -> tile<f32>
"""

TERMINATOR_TYPE = _rule(5, "expected TileType for operand and terminator types but got: {got} vs {want}")
"""
see: CT-0002

in: kernel
      %i1 = constant <i1: true> : tile<i1>
      %f32 = constant <f32: 0.0> : tile<f32>
-     %i32 = constant <i32: 0> : tile<i32>
      %r = "cuda_tile.if"(%i1) ({
      yield %f32 : tile<f32>
      }, {
-     yield %i32 : tile<i32>
+     yield %f32 : tile<f32>
      }) : (tile<i1>) -> tile<f32>
"""

NOT_PURE = _rule(6, "only pure operations allowed")
"""
see: BC-0024

in: kernel
      %f32_8x16 = constant <f32: 0.0> : tile<8x16xf32>
      %r = "cuda_tile.reduce"(%f32_8x16) <{dim = 1 : i32, identities = [0.0 : f32]}> ({
      ^bb0(%a: tile<f32>, %b: tile<f32>):
-     %t = print_tko "x" -> token
      yield %a : tile<f32>
      }) : (tile<8x16xf32>) -> tile<8xf32>
"""

INVALID_OP = _rule(7, "invalid op: {name}")
"""
see: BC-0024

in: kernel
      %f32_8x16 = constant <f32: 0.0> : tile<8x16xf32>
      %r = "cuda_tile.reduce"(%f32_8x16) <{dim = 1 : i32, identities = [0.0 : f32]}> ({
      ^bb0(%a: tile<f32>, %b: tile<f32>):
-     break
+     yield %a : tile<f32>
      }) : (tile<8x16xf32>) -> tile<8xf32>
"""

# Float arithmetic
FLOAT_TYPES = _rule(10, "expected matching operand and result element types")
"""
cause: A float operation has types that differ, or a rounding mode or flush-to-zero that it does not take.
remedy: Convert operands with ftof first. flush_to_zero, approx and full are for f32 alone; approx and full belong
to divf.

in: kernel
      %f16_8 = constant <f16: 0.0> : tile<8xf16>
-     %r = "cuda_tile.addf"(%f16_8, %f16_8) <{rounding_mode = #cuda_tile.rounding<nearest_even>}> : (tile<8xf16>, tile<8xf16>) -> tile<8xf32>
+     %r = ftof %f16_8 : tile<8xf16> -> tile<8xf32>
"""  # noqa: E501

FTZ = _rule(11, "flush-to-zero is only legal for f32 element type")
"""
see: CT-0010

in: kernel
      %x = constant <f64: 1.0> : tile<8xf64>
-     %r = addf %x, %x flush_to_zero : tile<8xf64>
+     %r = addf %x, %x : tile<8xf64>
"""

DIVF_ROUNDING = _rule(12, "invalid rounding mode for divf")
"""
see: CT-0010

in: kernel
      %f32_8 = constant <f32: 0.0> : tile<8xf32>
-     %r = divf %f32_8, %f32_8 rounding<nearest_away> : tile<8xf32>
+     %r = divf %f32_8, %f32_8 rounding<nearest_even> : tile<8xf32>
"""

DIVF_APPROX = _rule(13, "approx and full rounding modes require f32")
"""
see: CT-0010

in: kernel
      %f16_8 = constant <f16: 0.0> : tile<8xf16>
-     %r = divf %f16_8, %f16_8 rounding<full> : tile<8xf16>
+     %r = divf %f16_8, %f16_8 : tile<8xf16>
"""

ROUNDING_OUTSIDE_DIVF = _rule(14, "rounding mode not allowed outside divf")
"""
see: CT-0010

in: kernel
      %f16_8 = constant <f16: 0.0> : tile<8xf16>
-     %r = addf %f16_8, %f16_8 rounding<approx> : tile<8xf16>
+     %r = addf %f16_8, %f16_8 : tile<8xf16>
"""

# Conversions
EXTI = _rule(20, "exti requires the result width to be strictly greater than the input width")
"""
cause: A conversion was asked for that its operation does not do: the widths are in the wrong order or equal, or the
rounding mode is another.
remedy: exti widens, trunci narrows, bitcast keeps the width, ftof changes the type. Use the rounding mode that the
message names.

in: kernel
      %x = constant <i32: 1> : tile<8xi32>
-     %r = exti %x signed : tile<8xi32> -> tile<8xi16>
+     %r = exti %x signed : tile<8xi32> -> tile<8xi64>
"""

TRUNCI = _rule(21, "trunci requires the result width to be strictly less than the input width")
"""
see: CT-0020

in: kernel
      %x = constant <i32: 1> : tile<8xi32>
-     %r = trunci %x : tile<8xi32> -> tile<8xi64>
+     %r = trunci %x : tile<8xi32> -> tile<8xi16>
"""

FTOF_IDENTITY = _rule(22, "ftof rejects identity conversions")
"""
see: CT-0020

in: kernel
      %x = constant <f32: 1.0> : tile<8xf32>
-     %r = ftof %x : tile<8xf32> -> tile<8xf32>
+     %r = ftof %x : tile<8xf32> -> tile<8xf16>
"""

FTOF_ROUNDING = _rule(23, "ftof requires nearest-even rounding")
"""
see: CT-0020

in: kernel
      %x = constant <f32: 1.0> : tile<8xf32>
-     %r = ftof %x rounding<approx> : tile<8xf32> -> tile<8xf16>
+     %r = ftof %x rounding<nearest_even> : tile<8xf32> -> tile<8xf16>
"""

ITOF_ROUNDING = _rule(24, "itof requires nearest-even rounding")
"""
see: CT-0020

in: kernel
      %x = constant <i32: 1> : tile<8xi32>
-     %r = itof %x signed rounding<full> : tile<8xi32> -> tile<8xf32>
+     %r = itof %x signed rounding<nearest_even> : tile<8xi32> -> tile<8xf32>
"""

FTOI_ROUNDING = _rule(25, "ftoi requires truncation toward zero")
"""
see: CT-0020

in: kernel
      %x = constant <f32: 1.0> : tile<8xf32>
-     %r = ftoi %x signed rounding<nearest_even> : tile<8xf32> -> tile<8xi32>
+     %r = ftoi %x signed rounding<nearest_int_to_zero> : tile<8xf32> -> tile<8xi32>
"""

BITCAST = _rule(26, "bitcast requires equal-width source and destination element types")
"""
see: CT-0020

in: kernel
      %x = constant <f32: 1.0> : tile<8xf32>
-     %r = bitcast %x : tile<8xf32> -> tile<8xi64>
+     %r = bitcast %x : tile<8xf32> -> tile<8xi32>
"""

# Token memory
POINTEE = _rule(30, "pointer pointee element type must match value element type")
"""
cause: Pointer, value and mask of a memory operation differ in shape, or the pointer points to another element type.
remedy: Broadcast the smaller one to the shape of the others, and cast the pointer with ptr_to_ptr.

in: kernel
      %i64_8 = constant <i64: 0> : tile<8xi64>
-     %ptr_f16_8 = int_to_ptr %i64_8 : tile<8xi64> -> tile<8xptr<f16>>
-     %r, %t = load_ptr_tko weak %ptr_f16_8 : tile<8xptr<f16>> -> tile<8xf32>, token
+     %ptr_f32_8 = int_to_ptr %i64_8 : tile<8xi64> -> tile<8xptr<f32>>
+     %r, %t = load_ptr_tko weak %ptr_f32_8 : tile<8xptr<f32>> -> tile<8xf32>, token
"""

POINTER_SHAPE = _rule(31, "pointer tile shape must match value shape")
"""
see: CT-0030

in: kernel
-     %i64_1 = constant <i64: 0> : tile<1xi64>
-     %ptr_f32_1 = int_to_ptr %i64_1 : tile<1xi64> -> tile<1xptr<f32>>
-     %r, %t = load_ptr_tko weak %ptr_f32_1 : tile<1xptr<f32>> -> tile<8xf32>, token
+     %i64_8 = constant <i64: 0> : tile<8xi64>
+     %ptr_f32_8 = int_to_ptr %i64_8 : tile<8xi64> -> tile<8xptr<f32>>
+     %r, %t = load_ptr_tko weak %ptr_f32_8 : tile<8xptr<f32>> -> tile<8xf32>, token
"""

MASK_SHAPE = _rule(32, "mask shape must match value shape")
"""
see: CT-0030

in: kernel
      %i64_8 = constant <i64: 0> : tile<8xi64>
      %ptr_f32_8 = int_to_ptr %i64_8 : tile<8xi64> -> tile<8xptr<f32>>
-     %i1_1 = constant <i1: true> : tile<1xi1>
-     %r, %t = load_ptr_tko weak %ptr_f32_8, %i1_1 : tile<8xptr<f32>>, tile<1xi1> -> tile<8xf32>, token
+     %i1_8 = constant <i1: true> : tile<8xi1>
+     %r, %t = load_ptr_tko weak %ptr_f32_8, %i1_8 : tile<8xptr<f32>>, tile<8xi1> -> tile<8xf32>, token
"""

LOAD_ORDERING = _rule(33, "load ordering must be weak, relaxed, or acquire")
"""
cause: Memory ordering, scope and token of an access do not go together.
remedy: Loads are weak, relaxed or acquire, stores weak, relaxed or release. Name a scope for all but weak accesses,
and none for weak ones.

in: kernel
      %i64_8 = constant <i64: 0> : tile<8xi64>
      %ptr_f32_8 = int_to_ptr %i64_8 : tile<8xi64> -> tile<8xptr<f32>>
-     %r, %t = load_ptr_tko acq_rel %ptr_f32_8 : tile<8xptr<f32>> -> tile<8xf32>, token
+     %r, %t = load_ptr_tko weak %ptr_f32_8 : tile<8xptr<f32>> -> tile<8xf32>, token
"""

STORE_ORDERING = _rule(34, "store ordering must be weak, relaxed, or release")
"""
see: CT-0033

in: kernel
      %i64_8 = constant <i64: 0> : tile<8xi64>
      %ptr_f32_8 = int_to_ptr %i64_8 : tile<8xi64> -> tile<8xptr<f32>>
      %f32_8 = constant <f32: 0.0> : tile<8xf32>
-     %t = store_ptr_tko acq_rel %ptr_f32_8, %f32_8 : tile<8xptr<f32>>, tile<8xf32> -> token
+     %t = store_ptr_tko weak %ptr_f32_8, %f32_8 : tile<8xptr<f32>>, tile<8xf32> -> token
"""

WEAK_SCOPE = _rule(35, "weak memory ordering must not carry a scope")
"""
see: CT-0033

in: kernel
      %i64_8 = constant <i64: 0> : tile<8xi64>
      %ptr_f32_8 = int_to_ptr %i64_8 : tile<8xi64> -> tile<8xptr<f32>>
-     %r, %t = load_ptr_tko weak cta %ptr_f32_8 : tile<8xptr<f32>> -> tile<8xf32>, token
+     %r, %t = load_ptr_tko weak %ptr_f32_8 : tile<8xptr<f32>> -> tile<8xf32>, token
"""

NEEDS_SCOPE = _rule(36, "non-weak memory ordering requires an explicit scope")
"""
see: CT-0033

in: kernel
      %i64_8 = constant <i64: 0> : tile<8xi64>
      %ptr_f32_8 = int_to_ptr %i64_8 : tile<8xi64> -> tile<8xptr<f32>>
-     %r, %t = load_ptr_tko acquire %ptr_f32_8 : tile<8xptr<f32>> -> tile<8xf32>, token
+     %r, %t = load_ptr_tko weak %ptr_f32_8 : tile<8xptr<f32>> -> tile<8xf32>, token
"""

RMW_INT = _rule(37, "integer rmw mode requires i32 or i64 element type")
"""
cause: An atomic operation was asked for on a type that GPUs have none for.
remedy: Integer modes need i32 or i64. Convert narrower values, or use a compare-and-swap loop over a type that is
supported.

in: kernel
      %i64_8 = constant <i64: 0> : tile<8xi64>
-     %ptr_i8_8 = int_to_ptr %i64_8 : tile<8xi64> -> tile<8xptr<i8>>
-     %i8_8 = constant <i8: 0> : tile<8xi8>
-     %r, %t = atomic_rmw_tko relaxed device %ptr_i8_8, or, %i8_8 : tile<8xptr<i8>>, tile<8xi8> -> tile<8xi8>, token
+     %ptr_i64_8 = int_to_ptr %i64_8 : tile<8xi64> -> tile<8xptr<i64>>
+     %r, %t = atomic_rmw_tko relaxed device %ptr_i64_8, umax, %i64_8 : tile<8xptr<i64>>, tile<8xi64> -> tile<8xi64>, token
"""

RMW_ADDF = _rule(38, "floating-add rmw requires a target-supported floating width")
"""
see: CT-0037

in: kernel
      %i64_8 = constant <i64: 0> : tile<8xi64>
      %ptr_i64_8 = int_to_ptr %i64_8 : tile<8xi64> -> tile<8xptr<i64>>
-     %r, %t = atomic_rmw_tko relaxed device %ptr_i64_8, addf, %i64_8 : tile<8xptr<i64>>, tile<8xi64> -> tile<8xi64>, token
+     %r, %t = atomic_rmw_tko relaxed device %ptr_i64_8, umax, %i64_8 : tile<8xptr<i64>>, tile<8xi64> -> tile<8xi64>, token
"""

RMW_XCHG = _rule(39, "xchg rmw requires a target-supported atomic width")
"""
see: CT-0037

in: kernel
      %i64_8 = constant <i64: 0> : tile<8xi64>
      %ptr_f16_8 = int_to_ptr %i64_8 : tile<8xi64> -> tile<8xptr<f16>>
      %f16_8 = constant <f16: 0.0> : tile<8xf16>
-     %r, %t = atomic_rmw_tko relaxed device %ptr_f16_8, xchg, %f16_8 : tile<8xptr<f16>>, tile<8xf16> -> tile<8xf16>, token
+     %r, %t = atomic_rmw_tko relaxed device %ptr_f16_8, addf, %f16_8 : tile<8xptr<f16>>, tile<8xf16> -> tile<8xf16>, token
"""

TOKEN_OPERAND = _rule(40, "expected token operand")
"""
see: CT-0033

in: kernel
      %i64_8 = constant <i64: 0> : tile<8xi64>
      %ptr_f32_8 = int_to_ptr %i64_8 : tile<8xi64> -> tile<8xptr<f32>>
      %f32_8 = constant <f32: 0.0> : tile<8xf32>
      %tok = make_token : token
-     %t = "cuda_tile.store_ptr_tko"(%ptr_f32_8, %f32_8) <{memory_ordering_semantics = #cuda_tile.memory_ordering_semantics<weak>, operandSegmentSizes = array<i32: 1, 1, 0, 1>}> : (tile<8xptr<f32>>, tile<8xf32>) -> token
+     %t = "cuda_tile.store_ptr_tko"(%ptr_f32_8, %f32_8, %tok) <{memory_ordering_semantics = #cuda_tile.memory_ordering_semantics<weak>, operandSegmentSizes = array<i32: 1, 1, 0, 1>}> : (tile<8xptr<f32>>, tile<8xf32>, token) -> token
"""  # noqa: E501

# Shapes and types
RESHAPE_ELEM = _rule(50, "reshape requires matching element types")
"""
cause: A tile type or a reshape is impossible: extents that are no powers of two, too many elements, or counts that
differ.
remedy: Round extents up to a power of two and mask the rest; split a tile that is too large into several.

in: kernel
  $ tileiras k.tileir --gpu-name=sm_90 --emit=ptx
      %a = constant <f32: 0.0> : tile<8x8xf32>
-   %b = reshape %a : tile<8x8xf32> -> tile<64xi32>
+   %b = reshape %a : tile<8x8xf32> -> tile<64xf32>
"""

RESHAPE_COUNT = _rule(51, "reshape element-count mismatch: source has {source} elements, result has {result}")
"""
see: CT-0050

in: kernel
      %f32_8x8 = constant <f32: 0.0> : tile<8x8xf32>
-     %r = reshape %f32_8x8 : tile<8x8xf32> -> tile<8x16xf32>
+     %r = reshape %f32_8x8 : tile<8x8xf32> -> tile<4x16xf32>
"""

POWER_OF_TWO = _rule(52, "tile dimensions must be powers of two")
"""
see: CT-0050

in: kernel
-     %i = iota : tile<100xi32>
+     %i = iota : tile<128xi32>
"""

TOO_MANY_ELEMENTS = _rule(53, "tile would exceed the maximum element count")
"""
see: CT-0050

in: kernel
-     %i = iota : tile<33554432xi32>
+     %i = iota : tile<4096xi32>
"""

# Control flow
IF_THEN = _rule(60, "if requires a then-region")
"""
cause: An `if` or `for` lacks a region that its results need, or gives a view as result.
remedy: Give both branches a yield for each result. Make views inside the region, or before it, instead of carrying
them.

in: kernel
      %i1 = constant <i1: true> : tile<i1>
-     "cuda_tile.if"(%i1) ({}, {}) : (tile<i1>) -> ()
+     if %i1 {
+     }
"""

IF_ELSE = _rule(61, "if with results requires an else-region")
"""
see: CT-0060

in: kernel
      %i1 = constant <i1: true> : tile<i1>
      %f32 = constant <f32: 0.0> : tile<f32>
      %r = "cuda_tile.if"(%i1) ({
      yield %f32 : tile<f32>
-     }, {}) : (tile<i1>) -> tile<f32>
+     }, {
+     yield %f32 : tile<f32>
+     }) : (tile<i1>) -> tile<f32>
"""

IF_VIEW = _rule(62, "view-typed if results are not permitted")
"""
see: CT-0060

in: kernel(%p: ptr<f32>)
      %c = constant <i1: true> : tile<i1>
      %n = constant <i32: 8> : tile<i32>
      %v = make_tensor_view %p, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
-     %r = if %c -> (tensor_view<?xf32, strides=[1]>) { yield %v : tensor_view<?xf32, strides=[1]> } else { yield %v : tensor_view<?xf32, strides=[1]> }
+     if %c {
+       %tiles = make_partition_view %v : partition_view<tile=(8), tensor_view<?xf32, strides=[1]>>
+       %x, %t = load_view_tko weak %tiles[%n] : partition_view<tile=(8), tensor_view<?xf32, strides=[1]>>, tile<i32> -> tile<8xf32>, token
+     }
"""  # noqa: E501

FOR_TYPES = _rule(63, "for induction, lower, upper, and step must share an integer type")
"""
cause: The bounds of a `for`, its first values, body arguments and results do not have the same types.
remedy: Use one integer type for bounds and step; let each carried value keep its type from start to end.

in: kernel
      %i32 = constant <i32: 0> : tile<i32>
      %f32 = constant <f32: 0.0> : tile<f32>
      %r = "cuda_tile.for"(%i32, %i32, %i32, %f32) ({
-     ^bb0(%k: tile<f32>, %a: tile<f32>):
+     ^bb0(%k: tile<i32>, %a: tile<f32>):
      "cuda_tile.continue"(%a) : (tile<f32>) -> ()
      }) : (tile<i32>, tile<i32>, tile<i32>, tile<f32>) -> tile<f32>
"""

FOR_INIT = _rule(64, "for init values must match region iter-arg types")
"""
see: CT-0063

in: kernel
      %i32 = constant <i32: 0> : tile<i32>
-     %r = "cuda_tile.for"(%i32, %i32, %i32) ({
+     %f32 = constant <f32: 0.0> : tile<f32>
+     %r = "cuda_tile.for"(%i32, %i32, %i32, %f32) ({
      ^bb0(%k: tile<i32>, %a: tile<f32>):
      "cuda_tile.continue"(%a) : (tile<f32>) -> ()
-     }) : (tile<i32>, tile<i32>, tile<i32>) -> tile<f32>
+     }) : (tile<i32>, tile<i32>, tile<i32>, tile<f32>) -> tile<f32>
"""

FOR_RESULTS = _rule(65, "for result types must match region iter-arg types")
"""
see: CT-0063

in: kernel
      %i32 = constant <i32: 0> : tile<i32>
-     %r = "cuda_tile.for"(%i32, %i32, %i32) ({
+     "cuda_tile.for"(%i32, %i32, %i32) ({
      ^bb0(%k: tile<i32>):
      "cuda_tile.continue"() : () -> ()
-     }) : (tile<i32>, tile<i32>, tile<i32>) -> tile<f32>
+     }) : (tile<i32>, tile<i32>, tile<i32>) -> ()
"""

FOR_VIEW = _rule(66, "view-typed for results are not permitted")
"""
see: CT-0060

in: kernel(%p: ptr<f32>)
      %c = constant <i1: true> : tile<i1>
      %n = constant <i32: 8> : tile<i32>
      %v = make_tensor_view %p, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
-     %one = constant <i32: 1> : tile<i32>
-     %r = for %i in (%one to %n, step %one) : tile<i32> iter_values(%w = %v) -> (tensor_view<?xf32, strides=[1]>) {
-       continue %w : tensor_view<?xf32, strides=[1]>
+     if %c {
+       %tiles = make_partition_view %v : partition_view<tile=(8), tensor_view<?xf32, strides=[1]>>
+       %x, %t = load_view_tko weak %tiles[%n] : partition_view<tile=(8), tensor_view<?xf32, strides=[1]>>, tile<i32> -> tile<8xf32>, token
      }
"""  # noqa: E501

EARLY_EXIT = _rule(67, "early-exit must be enclosed by a compatible loop or for")
"""
cause: A break or continue is not inside a loop that takes it, or passes other values than the loop carries.
remedy: Use break in `loop` only, and pass one operand for each value: the results with break, the next values with
continue.

  cuda_tile.module {
    entry @k() {
-     break
+
+     return
    }
  }
"""

EARLY_EXIT_TYPES = _rule(68, "early-exit operand types must match the enclosing region contract")
"""
see: CT-0067

in: kernel
      %f32 = constant <f32: 0.0> : tile<f32>
-     loop {
+     %r = loop : tile<f32> {
      break %f32 : tile<f32>
      }
"""

# Reductions
AGG_INPUTS = _rule(70, "reduce/scan requires at least one input")
"""
cause: A reduce or scan has operands, results, identities, dimension or body that do not fit each other.
remedy: One identity and one result per operand, of its element type; a dimension below the rank; a body of two
scalars per operand.

in: kernel
-     "cuda_tile.reduce"() <{dim = 1 : i32, identities = []}> ({
-     ^bb0():
-     yield
-     }) : () -> ()
+
"""

AGG_RESULTS = _rule(71, "reduce/scan must produce one result per input")
"""
see: CT-0070

in: kernel
      %f32_8x16 = constant <f32: 0.0> : tile<8x16xf32>
-     %r, %q = "cuda_tile.reduce"(%f32_8x16) <{dim = 1 : i32, identities = [0.0 : f32]}> ({
+     %r = "cuda_tile.scan"(%f32_8x16) <{dim = 1 : i32, identities = [0.0 : f32], reverse = false}> ({
      ^bb0(%a: tile<f32>, %b: tile<f32>):
      yield %a : tile<f32>
-     }) : (tile<8x16xf32>) -> (tile<8xf32>, tile<8xf32>)
+     }) : (tile<8x16xf32>) -> tile<8x16xf32>
"""

AGG_DIM = _rule(72, "reduction dimension is out of range")
"""
see: CT-0070

in: kernel
      %f32_8x16 = constant <f32: 0.0> : tile<8x16xf32>
-     %r = "cuda_tile.reduce"(%f32_8x16) <{dim = 2 : i32, identities = [0.0 : f32]}> ({
+     %r = "cuda_tile.reduce"(%f32_8x16) <{dim = 1 : i32, identities = [0.0 : f32]}> ({
      ^bb0(%a: tile<f32>, %b: tile<f32>):
      yield %a : tile<f32>
      }) : (tile<8x16xf32>) -> tile<8xf32>
"""

AGG_IDENTITY = _rule(73, "identity element type must match input element type")
"""
see: CT-0070

in: kernel
      %f32_8x16 = constant <f32: 0.0> : tile<8x16xf32>
-     %r = "cuda_tile.reduce"(%f32_8x16) <{dim = 1 : i32, identities = [true]}> ({
+     %r = "cuda_tile.reduce"(%f32_8x16) <{dim = 1 : i32, identities = [0.0 : f32]}> ({
      ^bb0(%a: tile<f32>, %b: tile<f32>):
      yield %a : tile<f32>
      }) : (tile<8x16xf32>) -> tile<8xf32>
"""

AGG_ARGS = _rule(74, "reduce/scan body must take two rank-zero arguments per input")
"""
see: CT-0070

in: kernel
      %f32_8x16 = constant <f32: 0.0> : tile<8x16xf32>
      %r = "cuda_tile.reduce"(%f32_8x16) <{dim = 1 : i32, identities = [0.0 : f32]}> ({
-     ^bb0(%a: tile<f32>):
+     ^bb0(%a: tile<f32>, %b: tile<f32>):
      yield %a : tile<f32>
      }) : (tile<8x16xf32>) -> tile<8xf32>
"""

# Matrix products
MMA_RANK = _rule(80, "mma operand A must be rank-2 or rank-3")
"""
cause: The shapes of a matrix product do not fit: A is [batch x] M x K, B [batch x] K x N, accumulator and result
[batch x] M x N.
remedy: Permute or reshape the operands so that they are of that form and of equal rank.

in: kernel
      %a = constant <f16: 1.0> : tile<16x16xf16>
      %c = constant <f32: 0.0> : tile<16x16xf32>
-     %v = constant <f16: 1.0> : tile<16xf16>
-     %r = "cuda_tile.mmaf"(%v, %a, %c) : (tile<16xf16>, tile<16x16xf16>, tile<16x16xf32>) -> tile<16x16xf32>
+     %r = "cuda_tile.mmaf"(%a, %a, %c) : (tile<16x16xf16>, tile<16x16xf16>, tile<16x16xf32>) -> tile<16x16xf32>
"""

MMA_SHARE_RANK = _rule(81, "mma operands must share rank")
"""
see: CT-0080

in: kernel
      %f16_16x32 = constant <f16: 0.0> : tile<16x32xf16>
      %f16_32x16 = constant <f16: 0.0> : tile<32x16xf16>
      %f32_16x16 = constant <f32: 0.0> : tile<16x16xf32>
-     %r = "cuda_tile.mmaf"(%f16_16x32, %f16_32x16, %f32_16x16) : (tile<16x32xf16>, tile<32x16xf16>, tile<16x16xf32>) -> tile<16xf32>
+     %r = "cuda_tile.mmaf"(%f16_16x32, %f16_32x16, %f32_16x16) : (tile<16x32xf16>, tile<32x16xf16>, tile<16x16xf32>) -> tile<16x16xf32>
"""  # noqa: E501

MMA_K = _rule(82, "mma contracting dimension mismatch")
"""
see: CT-0080

in: kernel
-     %a = constant <f16: 1.0> : tile<16x32xf16>
+     %a = constant <f16: 1.0> : tile<16x16xf16>
      %b = constant <f16: 1.0> : tile<16x16xf16>
      %c = constant <f32: 1.0> : tile<16x16xf32>
-     %d = mmaf %a, %b, %c : tile<16x32xf16>, tile<16x16xf16>, tile<16x16xf32>
+     %d = mmaf %a, %b, %c : tile<16x16xf16>, tile<16x16xf16>, tile<16x16xf32>
"""

MMA_MN = _rule(83, "mma accumulator must agree with A and B on M and N")
"""
see: CT-0080

in: kernel
      %a = constant <f16: 1.0> : tile<16x32xf16>
      %b = constant <f16: 1.0> : tile<32x16xf16>
-     %c = constant <f32: 1.0> : tile<16x32xf32>
-     %d = mmaf %a, %b, %c : tile<16x32xf16>, tile<32x16xf16>, tile<16x32xf32>
+     %c = constant <f32: 1.0> : tile<16x16xf32>
+     %d = mmaf %a, %b, %c : tile<16x32xf16>, tile<32x16xf16>, tile<16x16xf32>
"""

MMA_ACC_SHAPE = _rule(84, "mma accumulator and result shapes must match")
"""
see: CT-0080

in: kernel
      %f16_16x32 = constant <f16: 0.0> : tile<16x32xf16>
      %f16_32x16 = constant <f16: 0.0> : tile<32x16xf16>
      %f32_16x16 = constant <f32: 0.0> : tile<16x16xf32>
-     %r = "cuda_tile.mmaf"(%f16_16x32, %f16_32x16, %f32_16x16) : (tile<16x32xf16>, tile<32x16xf16>, tile<16x16xf32>) -> tile<16x32xf32>
+     %r = "cuda_tile.mmaf"(%f16_16x32, %f16_32x16, %f32_16x16) : (tile<16x32xf16>, tile<32x16xf16>, tile<16x16xf32>) -> tile<16x16xf32>
"""  # noqa: E501

MMAI_SIGNEDNESS = _rule(85, "expect signedness attribute for operand A")
"""
cause: The element types of a matrix product are no pair that GPUs multiply, or an integer product lacks its
signedness.
remedy: Accumulate f16 in f16 or f32, other floats in f32 (f64 in f64), 8-bit integers in i32; convert operands
before the product.

in: kernel
      %i8_16x32 = constant <i8: 0> : tile<16x32xi8>
      %i8_32x16 = constant <i8: 0> : tile<32x16xi8>
      %i32_16x16 = constant <i32: 0> : tile<16x16xi32>
-     %r = "cuda_tile.mmai"(%i8_16x32, %i8_32x16, %i32_16x16) : (tile<16x32xi8>, tile<32x16xi8>, tile<16x16xi32>) -> tile<16x16xi32>
+     %r = "cuda_tile.mmai"(%i8_16x32, %i8_32x16, %i32_16x16) <{signedness_a = #cuda_tile.signedness<signed>, signedness_b = #cuda_tile.signedness<signed>}> : (tile<16x32xi8>, tile<32x16xi8>, tile<16x16xi32>) -> tile<16x16xi32>
"""  # noqa: E501

MMAI_ACC = _rule(86, "integer mma accumulator and result must be i32")
"""
see: CT-0085

in: kernel
      %i8_16x32 = constant <i8: 0> : tile<16x32xi8>
      %i8_32x16 = constant <i8: 0> : tile<32x16xi8>
      %i32_16x16 = constant <i32: 0> : tile<16x16xi32>
-     %r = "cuda_tile.mmai"(%i8_16x32, %i8_32x16, %i32_16x16) <{signedness_lhs = #cuda_tile.signedness<signed>, signedness_rhs = #cuda_tile.signedness<signed>}> : (tile<16x32xi8>, tile<32x16xi8>, tile<16x16xi32>) -> tile<16x16xi8>
+     %r = "cuda_tile.mmai"(%i8_16x32, %i8_32x16, %i32_16x16) <{signedness_a = #cuda_tile.signedness<signed>, signedness_b = #cuda_tile.signedness<signed>}> : (tile<16x32xi8>, tile<32x16xi8>, tile<16x16xi32>) -> tile<16x16xi32>
"""  # noqa: E501

MMAI_INPUTS = _rule(87, "integer mma inputs must share a legal integer element type")
"""
see: CT-0085

in: kernel
-     %i16_16x32 = constant <i16: 0> : tile<16x32xi16>
+     %i8_16x32 = constant <i8: 0> : tile<16x32xi8>
      %i8_32x16 = constant <i8: 0> : tile<32x16xi8>
      %i32_16x16 = constant <i32: 0> : tile<16x16xi32>
-     %r = "cuda_tile.mmai"(%i16_16x32, %i8_32x16, %i32_16x16) <{signedness_lhs = #cuda_tile.signedness<signed>, signedness_rhs = #cuda_tile.signedness<signed>}> : (tile<16x32xi16>, tile<32x16xi8>, tile<16x16xi32>) -> tile<16x16xi32>
+     %r = "cuda_tile.mmai"(%i8_16x32, %i8_32x16, %i32_16x16) <{signedness_a = #cuda_tile.signedness<signed>, signedness_b = #cuda_tile.signedness<signed>}> : (tile<16x32xi8>, tile<32x16xi8>, tile<16x16xi32>) -> tile<16x16xi32>
"""  # noqa: E501

MMAF_PAIR = _rule(88, "floating mma input/accumulator pair is not supported on the target")
"""
see: CT-0085

in: kernel
      %f16_16x32 = constant <f16: 0.0> : tile<16x32xf16>
-     %i8_32x16 = constant <i8: 0> : tile<32x16xi8>
+     %f16_32x16 = constant <f16: 0.0> : tile<32x16xf16>
      %f32_16x16 = constant <f32: 0.0> : tile<16x16xf32>
-     %r = "cuda_tile.mmaf"(%f16_16x32, %i8_32x16, %f32_16x16) : (tile<16x32xf16>, tile<32x16xi8>, tile<16x16xf32>) -> tile<16x16xf32>
+     %r = "cuda_tile.mmaf"(%f16_16x32, %f16_32x16, %f32_16x16) : (tile<16x32xf16>, tile<32x16xf16>, tile<16x16xf32>) -> tile<16x16xf32>
"""  # noqa: E501

MMAF_ACC_TYPE = _rule(89, "floating mma accumulator and result must share type")
"""
see: CT-0085

in: kernel
      %f16_16x32 = constant <f16: 0.0> : tile<16x32xf16>
      %f16_32x16 = constant <f16: 0.0> : tile<32x16xf16>
      %f16_16x16 = constant <f16: 0.0> : tile<16x16xf16>
-     %r = "cuda_tile.mmaf"(%f16_16x32, %f16_32x16, %f16_16x16) : (tile<16x32xf16>, tile<32x16xf16>, tile<16x16xf16>) -> tile<16x16xf32>
+     %r = "cuda_tile.mmaf"(%f16_16x32, %f16_32x16, %f16_16x16) : (tile<16x32xf16>, tile<32x16xf16>, tile<16x16xf16>) -> tile<16x16xf16>
"""  # noqa: E501
