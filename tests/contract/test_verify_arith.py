# ruff: noqa: E501 - one line of text per case
"""Float arithmetic and conversions: element types, flush-to-zero, rounding modes, widths."""

from __future__ import annotations

import pytest
from contract.rules import rule
from contract.verify_kit import accepted, refused

TYPES = "expected matching operand and result element types"
FTZ = "flush-to-zero is only legal for f32 element type"
DIVF = "invalid rounding mode for divf"
APPROX = "approx and full rounding modes require f32"
OUTSIDE = "rounding mode not allowed outside divf"


def binary(op: str, elem: str, tail: str = "") -> str:
    values = ", ".join([f"%{elem}_8"] * (3 if op == "fma" else 2))
    return f"%r = cuda_tile.{op} {values}{tail} : tile<8x{elem}>"


def mixed(
    op: str, lhs: str, rhs: str, result: str, attrs: str = "rounding_mode = #cuda_tile.rounding<nearest_even>"
) -> str:
    third, kind = (f", %{lhs}_8", f", tile<8x{lhs}>") if op == "fma" else ("", "")
    types = f"(tile<8x{lhs}>, tile<8x{rhs}>{kind}) -> tile<8x{result}>"
    return f'%r = "cuda_tile.{op}"(%{lhs}_8, %{rhs}_8{third}) <{{{attrs}}}> : {types}'


@rule("verify-float-types")
@pytest.mark.parametrize("op", ["addf", "subf", "mulf", "divf", "fma"])
def test_operands_and_result_have_one_type(op: str) -> None:
    real = "failed to verify that all of {lhs, rhs, "
    refused(mixed(op, "f32", "f16", "f32"), TYPES, op, real=real)
    refused(mixed(op, "f32", "f32", "f16"), TYPES, op, real=real)
    refused(mixed(op, "f16", "f16", "f32"), TYPES, op, real=real)
    accepted(mixed(op, "f32", "f32", "f32"))


@rule("verify-float-types")
def test_the_trigger_as_the_contract_spells_it() -> None:
    refused("%r = cuda_tile.addf %f32_8, %f16_8 : tile<8xf32>, tile<8xf16> -> tile<8xf32>", TYPES, "addf")
    accepted("%r = cuda_tile.addf %f32_8, %f32_8 : tile<8xf32>, tile<8xf32> -> tile<8xf32>")


@rule("verify-float-ftz")
@pytest.mark.parametrize("op", ["addf", "subf", "mulf", "divf", "fma"])
def test_flush_to_zero(op: str) -> None:
    for elem in ("f16", "bf16", "f64"):
        real = f"flush_to_zero modifier only supported for f32 data type, but got: '{elem}'"
        refused(binary(op, elem, " flush_to_zero"), FTZ, op, real=real)
        accepted(binary(op, elem))
    accepted(binary(op, "f32", " flush_to_zero"))


@rule("verify-float-ftz")
@pytest.mark.parametrize("op", ["exp2", "rsqrt", "sqrt"])
def test_flush_to_zero_of_functions(op: str) -> None:
    rounding = " rounding<approx>" if op == "sqrt" else ""
    refused(f"%r = cuda_tile.{op} %f64_8 flush_to_zero : tile<8xf64>", FTZ, op)
    accepted(f"%r = cuda_tile.{op} %f32_8{rounding} flush_to_zero : tile<8xf32>")


@rule("verify-float-ftz")
@pytest.mark.parametrize("op", ["maxf", "minf"])
def test_flush_to_zero_of_extrema(op: str) -> None:
    refused(binary(op, "f16", " flush_to_zero"), FTZ, op)
    accepted(binary(op, "f32", " flush_to_zero"))


@rule("verify-divf-rounding")
@pytest.mark.parametrize("mode", ["nearest_int_to_zero", "nearest_away"])
def test_modes_that_do_not_divide(mode: str) -> None:
    refused(
        binary("divf", "f32", f" rounding<{mode}>"),
        DIVF,
        "divf",
        real="[nearest_even, zero, negative_inf, positive_inf, approx, full]",
    )


@rule("verify-divf-rounding")
@pytest.mark.parametrize("mode", ["nearest_even", "zero", "negative_inf", "positive_inf", "approx", "full"])
def test_modes_that_divide(mode: str) -> None:
    accepted(binary("divf", "f32", f" rounding<{mode}>"))


@rule("verify-divf-approx-f32")
@pytest.mark.parametrize("mode", ["approx", "full"])
def test_approximate_division_is_f32(mode: str) -> None:
    for elem in ("f16", "bf16", "f64"):
        real = f"{mode} modifier only supported for f32 data type, but got: '{elem}'"
        refused(binary("divf", elem, f" rounding<{mode}>"), APPROX, "divf", real=real)
    accepted(binary("divf", "f32", f" rounding<{mode}>"))


@rule("verify-float-rounding-outside-divf")
@pytest.mark.parametrize("op", ["addf", "subf", "mulf", "fma"])
def test_only_ieee_modes_outside_divf(op: str) -> None:
    for mode in ("approx", "full", "nearest_int_to_zero", "nearest_away"):
        real = "expect one of [nearest_even, zero, negative_inf, positive_inf]"
        refused(binary(op, "f32", f" rounding<{mode}>"), OUTSIDE, op, real=real)
    for mode in ("nearest_even", "zero", "negative_inf", "positive_inf"):
        accepted(binary(op, "f32", f" rounding<{mode}>"))


@rule("verify-float-rounding-outside-divf")
def test_functions_that_round_approximately() -> None:
    """sqrt takes approx, exp and tanh take approx and full: the released format has them."""
    accepted("%r = cuda_tile.sqrt %f32_8 rounding<approx> : tile<8xf32>")
    refused("%r = cuda_tile.sqrt %f32_8 rounding<full> : tile<8xf32>",
            "invalid rounding mode specified, expect one of [nearest_even, zero, negative_inf, positive_inf, approx]", "sqrt")  # fmt: skip
    refused("%r = cuda_tile.sqrt %f16_8 rounding<approx> : tile<8xf16>",
            "approx modifier only supported for f32 data type, but got: 'f16'", "sqrt")  # fmt: skip
    for op in ("exp", "tanh"):
        for mode in ("approx", "full"):
            accepted(f"%r = cuda_tile.{op} %f32_8 rounding<{mode}> : tile<8xf32>")
        accepted(f"%r = cuda_tile.{op} %f16_8 rounding<full> : tile<8xf16>")
        refused(f"%r = cuda_tile.{op} %f32_8 rounding<zero> : tile<8xf32>",
                "invalid rounding mode specified, expect one of [approx, full]", op)  # fmt: skip
        refused(f"%r = cuda_tile.{op} %f16_8 rounding<approx> : tile<8xf16>",
                "approx modifier only supported for f32 data type, but got: 'f16'", op)  # fmt: skip


@rule("verify-float-order")
def test_types_then_flush_to_zero_then_rounding() -> None:
    both = "rounding_mode = #cuda_tile.rounding<approx>, flush_to_zero"
    for op in ("addf", "divf", "fma"):
        refused(mixed(op, "f16", "f32", "f16", both), TYPES, op)
        refused(binary(op, "f16", " rounding<approx> flush_to_zero"), FTZ, op)
        refused(binary(op, "f16", " rounding<approx>"), APPROX if op == "divf" else OUTSIDE, op)
    refused(binary("divf", "f16", " rounding<nearest_int_to_zero> flush_to_zero"), FTZ, "divf")
    refused(binary("divf", "f16", " rounding<nearest_int_to_zero>"), DIVF, "divf")


# ---- conversions


def convert(op: str, source: str, result: str, tail: str = "") -> str:
    return f"%r = cuda_tile.{op} %{source}_8{tail} : tile<8x{source}> -> tile<8x{result}>"


EXTI = "exti requires the result width to be strictly greater than the input width"
TRUNCI = "trunci requires the result width to be strictly less than the input width"
WIDTH = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64}
PAIRS = [(a, b) for a in WIDTH for b in WIDTH]


@rule("verify-exti", "verify-no-hidden-noop-cast")
@pytest.mark.parametrize(("source", "result"), PAIRS)
def test_exti_widens(source: str, result: str) -> None:
    for sign in (" signed", " unsigned"):
        if WIDTH[source] < WIDTH[result]:
            accepted(convert("exti", source, result, sign))
        else:
            refused(
                convert("exti", source, result, sign),
                EXTI,
                "exti",
                real="extending to smaller or identical integer",
            )


@rule("verify-trunci", "verify-no-hidden-noop-cast")
@pytest.mark.parametrize(("source", "result"), PAIRS)
def test_trunci_narrows(source: str, result: str) -> None:
    if WIDTH[source] > WIDTH[result]:
        accepted(convert("trunci", source, result))
    else:
        refused(
            convert("trunci", source, result),
            TRUNCI,
            "trunci",
            real="truncating to larger or identical integer",
        )


@rule("verify-ftof-identity", "verify-no-hidden-noop-cast")
def test_ftof_changes_the_type() -> None:
    """The contract compares widths; cuTile writes f16 -> bf16 and the released format accepts it, so only equal types
    are an identity."""
    for elem in ("f16", "bf16", "f32", "f64", "tf32", "f8E4M3FN", "f8E5M2"):
        refused(
            convert("ftof", elem, elem),
            "ftof rejects identity conversions",
            "ftof",
            real="must not be a no-op",
        )
    for source, result in (("f16", "f32"), ("f16", "bf16"), ("bf16", "f16"), ("f64", "f32")):
        accepted(convert("ftof", source, result))


@rule("verify-ftof-rounding")
def test_ftof_rounds_to_nearest_even() -> None:
    """The contract's trigger (f32 -> f16 toward zero) is in the table of 13.4, which takes more modes per pair of
    types: the rule speaks for every mode outside of the table."""
    message, real = "ftof requires nearest-even rounding", "Only 'nearest_even' is supported"
    for mode in ("positive_inf", "negative_inf", "nearest_away", "approx", "full", "nearest_int_to_zero"):
        refused(convert("ftof", "f32", "f16", f" rounding<{mode}>"), message, "ftof", real=real)
    for mode in ("zero", "positive_inf", "nearest_away"):
        refused(convert("ftof", "f32", "f8E4M3FN", f" rounding<{mode}>"), message, "ftof", real=real)
    for mode in ("approx", "full", "nearest_away", "nearest_int_to_zero"):
        refused(convert("ftof", "f64", "f32", f" rounding<{mode}>"), message, "ftof", real=real)
    for pair in (("f32", "f16"), ("f32", "f8E5M2"), ("f64", "f32")):
        accepted(convert("ftof", *pair, " rounding<nearest_even>"))
    accepted(convert("ftof", "f32", "f16", " rounding<zero>"))
    accepted(convert("ftof", "f64", "f32", " rounding<positive_inf>"))


@rule("verify-ftof-rounding")
def test_the_identity_is_found_before_the_mode() -> None:
    refused(convert("ftof", "f32", "f32", " rounding<approx>"), "ftof rejects identity conversions", "ftof")


@rule("verify-itof-rounding")
@pytest.mark.parametrize(
    "mode", ["zero", "positive_inf", "negative_inf", "approx", "full", "nearest_int_to_zero"]
)
def test_itof_rounds_to_nearest_even(mode: str) -> None:
    refused(convert("itof", "i32", "f32", f" signed rounding<{mode}>"), "itof requires nearest-even rounding", "itof",
            real="Only 'nearest_even' is supported")  # fmt: skip
    accepted(convert("itof", "i32", "f32", " signed rounding<nearest_even>"))
    accepted(convert("itof", "i32", "f32", " unsigned"))


@rule("verify-ftoi-rounding")
@pytest.mark.parametrize("mode", ["nearest_even", "zero", "positive_inf", "negative_inf", "approx", "full"])
def test_ftoi_rounds_toward_zero(mode: str) -> None:
    refused(convert("ftoi", "f32", "i32", f" signed rounding<{mode}>"), "ftoi requires truncation toward zero", "ftoi",
            real="Only 'nearest_int_to_zero' is supported")  # fmt: skip
    accepted(convert("ftoi", "f32", "i32", " signed rounding<nearest_int_to_zero>"))
    accepted(convert("ftoi", "f32", "i32", " unsigned"))


@rule("verify-bitcast-width", "verify-no-hidden-noop-cast")
def test_bitcast_keeps_the_width() -> None:
    bits = {"f64": 64, "f32": 32, "f16": 16, "bf16": 16, "i64": 64, "i32": 32, "i16": 16, "i8": 8}
    for source in bits:
        for result in bits:
            if bits[source] == bits[result]:
                accepted(convert("bitcast", source, result))
            else:
                refused(convert("bitcast", source, result),
                        "bitcast requires equal-width source and destination element types", "bitcast",
                        real=f"'{source}' of width {bits[source]} to type '{result}' of width {bits[result]}")  # fmt: skip
