# ruff: noqa: E501 - one line of text per case
"""Rules that only the released verifier has: module, entry, globals, types of views, and the ops of no family."""

from __future__ import annotations

import pytest
from contract.kit import entry, module
from contract.verify_kit import CAPABILITY, accepted, refused, refused_type

TOP = [
    ('"cuda_tile.entry"() <{sym_name = "k", function_type = 3 : i32}> ({\n^bb0:\ncuda_tile.return\n}) : () -> ()', "entry", "attribute 'function_type' failed to satisfy constraint: type attribute of function type"),
    ('"cuda_tile.entry"() <{sym_name = "k", function_type = (!cuda_tile.tile<i32>) -> ()}> ({\n^bb0(%a: !cuda_tile.tile<f32>):\ncuda_tile.return\n}) : () -> ()', "entry", "entry block arguments must match the function signature"),
    ('"cuda_tile.entry"() <{sym_name = "k", function_type = () -> ()}> ({}) : () -> ()', "entry", "expect non-empty block"),
    ('"cuda_tile.entry"() <{sym_name = "k", function_type = () -> ()}> ({\n^bb0:\n}) : () -> ()', "entry", "expect non-empty block"),
    ("cuda_tile.entry @k(%a: tile<4xf32>) {\n}", "entry", "entry op must have scalar types (rank 0 !cuda_tile.tile)"),
    ('"cuda_tile.global"() <{sym_name = "g", value = 3 : i32}> : () -> ()', "global", "attribute 'value' failed to satisfy constraint: dense elements attribute"),
    ("cuda_tile.global @g <f32: [[1.0, 2.0], [1.0, 2.0]]> : tile<2x2xf32>", "global", "type must have rank 1"),
    ("cuda_tile.global @g alignment = -4 <f32: [1.0, 2.0]> : tile<2xf32>", "global", "attribute 'alignment' failed to satisfy constraint: 64-bit signless integer attribute whose minimum value is 0"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "op", "said"), TOP, ids=range(len(TOP)))
def test_top_level(line: str, op: str, said: str) -> None:
    refused("", said, op, whole=module(line, CAPABILITY), text_only="fields and signatures")


def test_a_global_s_pointer() -> None:
    table = "cuda_tile.global @g <f32: [1.0, 2.0]> : tile<2xf32>\n"
    for pointee, said in (
        (
            "i32",
            "pointee type of result type '!cuda_tile.ptr<i32>' does not match type 'f32' of the global @g",
        ),
        ("f32", ""),
    ):
        text = module(table + entry(f"%a = cuda_tile.get_global @g : tile<ptr<{pointee}>>"), CAPABILITY)
        if said:
            refused("", said, "get_global", whole=text)
        else:
            accepted("", whole=text)
    refused(
        "%a = cuda_tile.get_global @h : tile<ptr<f32>>", "'h' does not reference a valid global", "get_global"
    )


ARGS = (
    "%a: !cuda_tile.tile<f32>, %b: !cuda_tile.tile<f32>, %c: !cuda_tile.tile<f32>, %d: !cuda_tile.tile<f32>"
)
WEAK = "memory_ordering_semantics = #cuda_tile.x<weak>"
OPS = [
    ('"cuda_tile.loop"() ({}) : () -> ()', "loop", "expect non-empty block"),
    ('"cuda_tile.for"(%i32, %i32, %i32) ({}) : (tile<i32>, tile<i32>, tile<i32>) -> ()', "for", "expect non-empty block"),
    ('"cuda_tile.if"(%i1) ({\n^bb0(%a: !cuda_tile.tile<i32>):\ncuda_tile.yield\n}, {}) : (tile<i1>) -> ()', "if", "expects no arguments of the then block"),
    ("cuda_tile.loop {\ncuda_tile.return %i32 : tile<i32>\n}", "return", "has 1 operands, but enclosing function (@k) returns 0"),
    ('%r, %q = "cuda_tile.reduce"(%f32_8, %f32_4) <{dim = 0 : i32, identities = [0.0 : f32, 0.0 : f32]}> ({\n^bb0(' + ARGS + "):\ncuda_tile.yield %a, %c : tile<f32>, tile<f32>\n}) : (tile<8xf32>, tile<4xf32>) -> (tile<f32>, tile<f32>)", "reduce", "requires the same shape for all operands"),
    ('%r = "cuda_tile.cmpi"(%i32_8, %i32_8) <{comparison_predicate = #cuda_tile.x<equal>, signedness = #cuda_tile.x<signed>}> : (tile<8xi32>, tile<8xi32>) -> tile<8xi32>', "cmpi", "result #0 must be tile of i1 values, but got '!cuda_tile.tile<8xi32>'"),
    ('%r = "cuda_tile.cmpi"(%i32_8, %i32_8) <{comparison_predicate = #cuda_tile.x<equal>, signedness = #cuda_tile.x<signed>}> : (tile<8xi32>, tile<8xi32>) -> tile<4xi1>', "cmpi", "failed to verify that Result type has i1 element type and same shape as operands"),
    ('%r, %t = "cuda_tile.load_ptr_tko"(%ptr_f32_8, %i1_8, %i1_8) <{' + WEAK + ", operandSegmentSizes = array<i32: 1, 2, 0, 0>}> : (tile<8xptr<f32>>, tile<8xi1>, tile<8xi1>) -> (tile<8xf32>, !cuda_tile.token)", "load_ptr_tko", "operand group starting at #1 requires 0 or 1 element, but found 2"),
    ("%r, %t = cuda_tile.load_ptr_tko weak %ptr_f32_8, %i1_8, %f16_8 : tile<8xptr<f32>>, tile<8xi1>, tile<8xf16> -> tile<8xf32>, token", "load_ptr_tko", "type of 'paddingValue' must match the type of 'result'"),
    ("%r = cuda_tile.broadcast %f32_8 : tile<8xf32> -> tile<16xf32>", "broadcast", "expects the shape of source tile to be compatible with that of the result tile, but got: 8 and 16"),
    ('%r = "cuda_tile.offset"(%ptr_f32_8, %i32_8) : (tile<8xptr<f32>>, tile<8xi32>) -> tile<4xptr<f32>>', "offset", "failed to verify that all of {result, ptr} have same type"),
    ('%r = "cuda_tile.offset"(%ptr_f32_8, %i32_4) : (tile<8xptr<f32>>, tile<4xi32>) -> tile<8xptr<f32>>', "offset", "requires the same shape for all operands and results"),
    ("%r = cuda_tile.negi %i32_8 overflow<no_wrap> : tile<8xi32>", "negi", "'no_unsigned_wrap' overflow flag is not supported"),
    ("%r = cuda_tile.negi %i32_8 overflow<no_unsigned_wrap> : tile<8xi32>", "negi", "'no_unsigned_wrap' overflow flag is not supported"),
    ("%r = cuda_tile.divi %i32_8, %i32_8 signed rounding<nearest_even> : tile<8xi32>", "divi", "invalid rounding mode specified, expect one of [zero, negative_inf, positive_inf]"),
    ("%r = cuda_tile.divi %i32_8, %i32_8 unsigned rounding<negative_inf> : tile<8xi32>", "divi", "rounding mode 'negative_inf' is not allowed with 'unsigned' flag"),
    ("%r = cuda_tile.pack %i32_8 : tile<8xi32> -> tile<8xi8>", "pack", "expects source and result to have the same size in bytes, but got source tile size 32 bytes and result tile size 8 bytes"),
    ("%r = cuda_tile.pack %i32_4x2 : tile<4x2xi32> -> tile<4x8xi8>", "pack", "expects source and result to be rank-1 tiles"),
    ("%r = cuda_tile.pack %i8_8 : tile<8xi8> -> tile<8xi8>", "pack", "expects source and result to have different element type widths"),
    ("%r = cuda_tile.insert %f16_4, %f32_8[%i32] : tile<4xf16>, tile<8xf32>", "insert", "source and result element type do not match"),
    ("%r = cuda_tile.insert %f32_16, %f32_8[%i32] : tile<16xf32>, tile<8xf32>", "insert", "result dimension 0 size (8) must be evenly divisible by source dimension 0 size (16)"),
    ("%r = cuda_tile.insert %f32_4, %f32_8[%i32, %i32] : tile<4xf32>, tile<8xf32>", "insert", "expected 1 indices, but got 2"),
    ("%r = cuda_tile.itof %i32_8 signed : tile<8xi32> -> tile<8xf8E8M0FNU>", "itof", "integer to f8E8M0FNU conversion is not supported, please first convert to another float type"),
    ("%r = cuda_tile.ftof %f32_8 : tile<8xf32> -> tile<8xf8E8M0FNU>", "ftof", "invalid rounding mode specified for conversion to f8E8M0FNU. Only 'zero' and 'positive_inf' are supported"),
    ("%r = cuda_tile.permute %f32_8 [0] : tile<8xf32> -> tile<8xf32>", "permute", "expects at least rank 2, but got: 1"),
    ("%r = cuda_tile.alloca num_elem = -1, alignment = 4 : tile<ptr<f32>>", "alloca", "attribute 'num_elem' failed to satisfy constraint: 64-bit signless integer attribute whose minimum value is 0"),
    ("%r = cuda_tile.alloca num_elem = 4, alignment = -4 : tile<ptr<f32>>", "alloca", "attribute 'alignment' failed to satisfy constraint: 64-bit signless integer attribute whose minimum value is 0"),
    ("%r = cuda_tile.alloca num_elem = 4, alignment = 3 : tile<ptr<f32>>", "alloca", "'alignment' must be power of two"),
    ("%r = cuda_tile.alloca num_elem = 4, alignment = 2 : tile<ptr<f32>>", "alloca", "'alignment' (2) must be at least the natural size (4 bytes) for element type 'f32'"),
    ('%t = cuda_tile.print_tko "%d %", %i32 : tile<i32> -> token', "print_tko", "found unterminated format expression"),
    ('%t = cuda_tile.print_tko "%%%d", %i32, %i32 : tile<i32>, tile<i32> -> token', "print_tko", "incorrect number of operands: expected 1, found 2"),
    ("%k = cuda_tile.make_token : token\n%r = cuda_tile.join_tokens %k : token", "join_tokens", "expect two or more tokens"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "op", "said"), OPS, ids=[f"{c[1]}-{i}" for i, c in enumerate(OPS)])
def test_ops(line: str, op: str, said: str) -> None:
    refused(line, said, op, text_only="not every one has bytecode")


T64 = "tensor_view<64x64xf32, strides=[64,1]>"
TYPES = [
    ("tensor_view<64x64xf32, strides=[1]>", "expected shape and stride to be of same rank but got shape of rank 2 and stride of rank 1"),
    ("tensor_view<0x64xf32, strides=[64,1]>", "dimensions must have strictly positive constant sizes but got [0, 64]"),
    (f"partition_view<tile=(3x4), {T64}>", "tile shape dimensions must have power of two length but got [3, 4]"),
    (f"partition_view<tile=(4), {T64}>", "expected tensor_view rank and tile rank to match, got tensor_view of rank 2 and tiles of rank 1"),
    (f"partition_view<tile=(0x4), {T64}>", "tile dimension 0 exceeds i32 limitations (got 0, expected strictly positive and less than or equal to 2147483647)"),
    (f"partition_view<tile=(8192x4096), {T64}>", "tile would exceed the maximum element count"),
    (f"partition_view<tile=(4x4), {T64}, dim_map=[0]>", "expected dim_map to map exactly all 2 dimensions of the tile, got 1 mappings"),
    (f"partition_view<tile=(4x4), {T64}, dim_map=[0, 2]>", "target dimension is outside of tensor view dimensions, expected strictly less than 2, got 2"),
    (f"partition_view<tile=(4x4), {T64}, dim_map=[1, 1]>", "target dimension 1 mapped at least twice (for tile dimensions 0 and 1)"),
    ("partition_view<tile=(4x4), padding_value = nan, tensor_view<64x64xi32, strides=[64,1]>>", "padding value 'nan' requires a floating-point element type, but got 'i32'"),
    (f"strided_view<tile=(4x4), traversal_strides=[4], {T64}>", "expected 2 traversal strides, got 1"),
    (f"gather_scatter_view<tile=(4x4), {T64}, sparse_dim=2>", "sparse dimension must be within [0, 2), got 2"),
    ("tile<1xf4E2M1FN>", "F4E2M1FN tiles must have an even number of elements"),
]  # fmt: skip


@pytest.mark.parametrize(("type", "said"), TYPES, ids=range(len(TYPES)))
def test_types(type: str, said: str) -> None:
    refused_type("", said, type, args=f"%a: {type}")


VIEW = f"partition_view<tile=(8x8), {T64}>"
MADE = (
    f"%tensor = cuda_tile.make_tensor_view %p, shape = [64, 64], strides = [64, 1] : {T64}\n"
    f"%tiles = cuda_tile.make_partition_view %tensor : {VIEW}\n"
)


@pytest.mark.parametrize(
    ("index", "kinds", "said"),
    [
        ("%i32", "tile<i32>", "expected 2 index operands (based on view type), got 1"),
        (
            "%i32, %i32_4",
            "tile<i32>, tile<4xi32>",
            "expected index type to be a scalar tile, got '!cuda_tile.tile<4xi32>'",
        ),
        (
            "%i32, %i64",
            "tile<i32>, tile<i64>",
            "expected index type 1 to be the same as other index types ('!cuda_tile.tile<i32>'), got '!cuda_tile.tile<i64>'",
        ),
    ],
)
def test_indices(index: str, kinds: str, said: str) -> None:
    line = f"%r, %t = cuda_tile.load_view_tko weak %tiles[{index}] : {VIEW}, {kinds} -> tile<8x8xf32>, token"
    refused(MADE + line, said, "load_view_tko", args="%p: !cuda_tile.ptr<f32>")
