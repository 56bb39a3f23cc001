# ruff: noqa: E501 - one line of text per case
"""Tile types, and the ops that change shapes; assumptions."""

from __future__ import annotations

import pytest
from contract.rules import rule
from contract.verify_kit import accepted, compile_, kernel, refused, refused_type

POWER = "tile dimensions must be powers of two"
CEILING = "tile would exceed the maximum element count"


@rule("verify-tile-power-of-two")
@pytest.mark.parametrize("dims", ["7x9", "3", "8x12", "12x8", "1x1x6", "0", "8x0"])
def test_dimensions_are_powers_of_two(dims: str) -> None:
    line = f"%r = cuda_tile.constant <f32: 0.0> : tile<{dims}xf32>"
    if "0" in dims.split("x"):
        refused_type(line, POWER, "tile<", real="all dimensions must be positive constants")
    else:
        refused_type(
            line, POWER, "tile<", real=f"all dimensions must be powers of two, got {dims.replace('x', ', ')}"
        )


@rule("verify-tile-power-of-two")
@pytest.mark.parametrize("dims", ["8x16", "1", "1x1", "2", "4x1x8"])
def test_powers_of_two_pass(dims: str) -> None:
    accepted(f"%r = cuda_tile.constant <f32: 0.0> : tile<{dims}xf32>")


@rule("verify-tile-power-of-two")
def test_a_type_is_refused_wherever_it_is_spelled() -> None:
    for line in (
        "%r = cuda_tile.iota : tile<6xi32>",
        "%r = cuda_tile.reshape %f32_8 : tile<8xf32> -> tile<3xf32>",
        "%r = cuda_tile.int_to_ptr %i64_8 : tile<8xi64> -> tile<6xptr<f32>>",
    ):
        refused_type(line, POWER, line)


@rule("verify-tile-element-ceiling")
def test_a_tile_has_at_most_two_to_the_24_elements() -> None:
    real = "tile would exceed the maximum of 16777216 elements"
    for dims in ("8192x4096", "33554432", "4096x4096x2"):
        refused_type(f"%r = cuda_tile.constant <i8: 0> : tile<{dims}xi8>", CEILING, "tile<", real=real)
    for dims in ("2048x4096", "4096x4096"):
        # 2^24 inclusive; that a target cannot hold such a tile is another matter.
        _, found, _ = compile_(kernel(f"%r = cuda_tile.constant <i8: 0> : tile<{dims}xi8>"))
        assert CEILING not in [emitted.text for emitted in found]


@rule("verify-tile-element-ceiling")
def test_powers_of_two_are_checked_first() -> None:
    refused_type("%r = cuda_tile.constant <i8: 0> : tile<33554433xi8>", POWER, "tile<")
    refused_type("%r = cuda_tile.constant <i8: 0> : tile<8192x4096x3xi8>", POWER, "tile<")


# ---- reshape


@rule("verify-reshape-element-type")
@pytest.mark.parametrize("elem", ["i32", "f16", "bf16", "i1"])
def test_reshape_keeps_the_element_type(elem: str) -> None:
    refused(f"%r = cuda_tile.reshape %f32_8x8 : tile<8x8xf32> -> tile<64x{elem}>", "reshape requires matching element types",
            "reshape", real="requires the same element type for all operands and results")  # fmt: skip
    accepted("%r = cuda_tile.reshape %f32_8x8 : tile<8x8xf32> -> tile<64xf32>")


@rule("verify-reshape-count")
@pytest.mark.parametrize(("result", "count"), [("8x16", 128), ("32", 32), ("1", 1), ("2x2x2", 8)])
def test_reshape_keeps_the_count(result: str, count: int) -> None:
    refused(f"%r = cuda_tile.reshape %f32_8x8 : tile<8x8xf32> -> tile<{result}xf32>",
            f"reshape element-count mismatch: source has 64 elements, result has {count}", "reshape",
            real="expected source tile and result tile to have the same number of elements")  # fmt: skip
    accepted("%r = cuda_tile.reshape %f32_8x8 : tile<8x8xf32> -> tile<4x16xf32>")


@rule("verify-reshape-count")
def test_the_document_s_own_example_fails_earlier() -> None:
    """8x8 -> 7x9 has no type to be a result of: the type's message comes first."""
    refused_type("%r = cuda_tile.reshape %f32_8x8 : tile<8x8xf32> -> tile<7x9xf32>", POWER, "7x9")


@rule("verify-reshape-element-type")
def test_the_element_type_is_checked_before_the_count() -> None:
    refused(
        "%r = cuda_tile.reshape %f32_8x8 : tile<8x8xf32> -> tile<8x16xi32>",
        "reshape requires matching element types",
        "reshape",
    )


# ---- extract, cat, permute, iota: the contract has no words for them, the real verifier has


@rule("verify-extract-divides")
def test_extract_divides_the_source() -> None:
    refused("%r = cuda_tile.extract %f32_8[%i32] : tile<8xf32> -> tile<16xf32>",
            "source dimension 0 size (8) must be evenly divisible by result dimension 0 size (16)", "extract")  # fmt: skip
    refused("%r = cuda_tile.extract %f32_8x4[%i32, %i32] : tile<8x4xf32> -> tile<4x8xf32>",
            "source dimension 1 size (4) must be evenly divisible by result dimension 1 size (8)", "extract")  # fmt: skip
    refused("%r = cuda_tile.extract %f32_8[%i32] : tile<8xf32> -> tile<4xf16>",
            "source and result element type do not match", "extract")  # fmt: skip
    refused(
        "%r = cuda_tile.extract %f32_8x4[%i32] : tile<8x4xf32> -> tile<4x4xf32>",
        "expected 2 indices, but got 1",
        "extract",
    )
    accepted("%r = cuda_tile.extract %f32_8[%i32] : tile<8xf32> -> tile<4xf32>")
    accepted("%r = cuda_tile.extract %f32_8[%i32] : tile<8xf32> -> tile<8xf32>")


@rule("verify-cat-inputs")
def test_cat_inputs() -> None:
    refused("%r = cuda_tile.cat %f32_4x8, %f16_4x8 dim = 0 : tile<4x8xf32>, tile<4x8xf16> -> tile<8x8xf32>",
            "failed to verify that all of {lhs, rhs, result} have the same element type", "cat")  # fmt: skip
    refused("%r = cuda_tile.cat %f32_4x8, %f32_4 dim = 0 : tile<4x8xf32>, tile<4xf32> -> tile<8x8xf32>",
            "failed to verify that all of {lhs, rhs, result} have same rank", "cat")  # fmt: skip
    refused("%r = cuda_tile.cat %f32_4x8, %f32_4x4 dim = 0 : tile<4x8xf32>, tile<4x4xf32> -> tile<8x8xf32>",
            "expect rhs and result shapes to match at non-concat position 1, expected: 4 but got: 8", "cat")  # fmt: skip
    refused("%r = cuda_tile.cat %f32_4x4, %f32_4x8 dim = 0 : tile<4x4xf32>, tile<4x8xf32> -> tile<8x8xf32>",
            "expect lhs and result shapes to match at non-concat position 1, expected: 4 but got: 8", "cat")  # fmt: skip
    refused("%r = cuda_tile.cat %f32_4x8, %f32_4x8 dim = 0 : tile<4x8xf32>, tile<4x8xf32> -> tile<16x8xf32>",
            "invalid concat at position 0, expected: 8 but got: 16", "cat")  # fmt: skip
    for dim in (2, -1):
        refused(f"%r = cuda_tile.cat %f32_4x8, %f32_4x8 dim = {dim} : tile<4x8xf32>, tile<4x8xf32> -> tile<8x8xf32>",
                f"expect dim to be [0, 2), but got: {dim}", "cat")  # fmt: skip
    accepted("%r = cuda_tile.cat %f32_4x8, %f32_4x8 dim = 0 : tile<4x8xf32>, tile<4x8xf32> -> tile<8x8xf32>")
    accepted("%r = cuda_tile.cat %f32_4x8, %f32_4x8 dim = 1 : tile<4x8xf32>, tile<4x8xf32> -> tile<4x16xf32>")


@rule("verify-permute-dense")
@pytest.mark.parametrize(
    ("permutation", "said"),
    [
        ("0, 0", "expect permutation elements to be unique"),
        ("0, 2", "permutation element at index 1 (2) is out of bound [0, 2)"),
        ("-1, 0", "permutation element at index 0 (-1) is out of bound [0, 2)"),
        ("0", "expect permutation size (1) to equal the rank of the source (2)"),
        ("0, 1, 2", "expect permutation size (3) to equal the rank of the source (2)"),
        ("0, 1", "result shape invalid at index 0, expected: 4, but got: 8"),
    ],
)
def test_a_permutation_is_dense(permutation: str, said: str) -> None:
    refused(
        f"%r = cuda_tile.permute %f32_4x8 [{permutation}] : tile<4x8xf32> -> tile<8x4xf32>", said, "permute"
    )
    accepted("%r = cuda_tile.permute %f32_4x8 [1, 0] : tile<4x8xf32> -> tile<8x4xf32>")


@rule("verify-iota-extent")
def test_iota() -> None:
    for extent, elem in ((512, "i8"), (4, "i1"), (131072, "i16")):
        refused(f"%r = cuda_tile.iota : tile<{extent}x{elem}>",
                f"the number of elements {extent} exceeds the maximum value of element type '{elem}'", "iota")  # fmt: skip
    refused("%r = cuda_tile.iota : tile<4x4xi32>", "expects result type to be 1-d tile", "iota")
    refused("%r = cuda_tile.iota : tile<i32>", "expects result type to be 1-d tile", "iota")
    refused("%r = cuda_tile.iota : tile<4xf32>",
            "result #0 must be tile of i1 or i8 or i16 or i32 or i64 values, but got '!cuda_tile.tile<4xf32>'", "iota")  # fmt: skip
    for extent, elem in ((128, "i8"), (256, "i8"), (2, "i1")):
        accepted(f"%r = cuda_tile.iota : tile<{extent}x{elem}>")


# ---- assumptions


def assume(predicate: str, value: str = "%i32_8x4", type: str = "tile<8x4xi32>") -> str:
    return f"%r = cuda_tile.assume {predicate}, {value} : {type}"


DIV_BY, SAME, BOUNDED = "'cuda_tile.div_by'", "'cuda_tile.same_elements'", "'cuda_tile.bounded'"


@rule("verify-assume-known-predicates")
@pytest.mark.parametrize(
    ("predicate", "said"),
    [
        ("div_by<0>", f"{DIV_BY} divisor must be a power of 2"),
        ("div_by<12>", f"{DIV_BY} divisor must be a power of 2"),
        ("div_by<9223372036854775808>", f"{DIV_BY} divisor is too large"),
        ("div_by<16, every 4 along 2>", f"{DIV_BY} every_dim (2) must be >= 0 and < tile rank (2)"),
        (
            "div_by<16, every 16 along 0>",
            f"expected {DIV_BY} every_dim to be within 0 and the size of the respective dimension (8)",
        ),
        (
            "same_elements<[1]>",
            f"expected number of values in {SAME} (1) to match rank of constrained tile (2)",
        ),
        (
            "same_elements<[1, 8]>",
            f"expected {SAME} value 1 to be within 0 and the size of the respective dimension (4)",
        ),
        ("bounded<5, 3>", f"{BOUNDED} expects lower bound to be less than or equal to upper bound"),
        ("bounded<?, 2147483648>", f"{BOUNDED} expects upper bound to be within [-2147483648, 2147483647]"),
        ("bounded<-2147483649, ?>", f"{BOUNDED} expects lower bound to be within [-2147483648, 2147483647]"),
    ],
)
def test_malformed_predicates(predicate: str, said: str) -> None:
    refused(assume(predicate), said, "assume")


@rule("verify-assume-known-predicates")
@pytest.mark.parametrize(
    "predicate",
    ["div_by<1>", "div_by<16>", "div_by<16, every 4 along 0>", "div_by<16, every 8 along 0>", "same_elements<[1, 4]>",
     "same_elements<[0, 0]>", "bounded<3, 3>", "bounded<?, 2147483647>", "bounded<-2147483648, ?>", "bounded<?, ?>"],
)  # fmt: skip
def test_well_formed_predicates(predicate: str) -> None:
    accepted(assume(predicate))


@rule("verify-assume-known-predicates")
def test_predicates_and_types() -> None:
    refused(assume("div_by<16>", "%f32_8", "tile<8xf32>"),
            f"{DIV_BY} is valid only for tile of integer/pointer or tensor_view values", "assume")  # fmt: skip
    refused(
        assume("bounded<0, 1>", "%f32_8", "tile<8xf32>"),
        f"{BOUNDED} is valid only for tile of integer values",
        "assume",
    )
    refused(
        assume("bounded<0, 1>", "%ptr_f32_8", "tile<8xptr<f32>>"),
        f"{BOUNDED} is valid only for tile of integer values",
        "assume",
    )
    refused(
        assume("same_elements<[1]>", "%f32_8", "tile<8xf32>"),
        f"{SAME} is valid only for tile of integer/pointer values",
        "assume",
    )
    refused(assume("div_by<16, every 1 along 0>", "%i32", "tile<i32>"),
            f"{DIV_BY} 'every'/'along' cannot be used if the constrained value is a 0D tile", "assume")  # fmt: skip
    for predicate in ("div_by<16>", "same_elements<[2]>"):
        accepted(assume(predicate, "%ptr_f32_8", "tile<8xptr<f32>>"))


@rule("verify-assume-predicates")
def test_the_first_failing_predicate_ends_the_list() -> None:
    """The released format holds one predicate per op; a list in text becomes a chain of ops."""
    bad, worse = "div_by<0>", "bounded<5, 3>"
    refused(assume(f"[{bad}, {worse}]"), f"{DIV_BY} divisor must be a power of 2", "assume")
    refused(
        assume(f"[{worse}, {bad}]"),
        f"{BOUNDED} expects lower bound to be less than or equal to upper bound",
        "assume",
    )
    refused(
        assume(f"[div_by<4>, {worse}]"),
        f"{BOUNDED} expects lower bound to be less than or equal to upper bound",
        "assume",
    )
    accepted(assume("[div_by<4>, bounded<0, 8>, same_elements<[1, 1]>]"))


@rule("verify-assume-foreign-predicate")
def test_what_is_no_predicate_is_skipped() -> None:
    accepted(
        '%r = "cuda_tile.assume"(%i32_8) <{predicate = "the producer says so"}> : (tile<8xi32>) -> tile<8xi32>'
    )
    accepted('%r = "cuda_tile.assume"(%i32_8) <{predicate = 3 : i32}> : (tile<8xi32>) -> tile<8xi32>')
    refused('%r = "cuda_tile.assume"(%i32_8) <{predicate = #cuda_tile.div_by<0>}> : (tile<8xi32>) -> tile<8xi32>',
            f"{DIV_BY} divisor must be a power of 2", "assume")  # fmt: skip
