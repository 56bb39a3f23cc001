"""Matrix products: ranks, shapes, signedness, element types."""

from __future__ import annotations

import itertools

import pytest
from contract.rules import rule
from contract.verify_kit import accepted, refused

RANK = "mma operand A must be rank-2 or rank-3"
SHARE = "mma operands must share rank"
K = "mma contracting dimension mismatch"
MN = "mma accumulator must agree with A and B on M and N"
SHAPES = "mma accumulator and result shapes must match"
SIGN = "expect signedness attribute for operand A"
ACC = "integer mma accumulator and result must be i32"
INPUTS = "integer mma inputs must share a legal integer element type"
PAIR = "floating mma input/accumulator pair is not supported on the target"
RESULT = "floating mma accumulator and result must share type"
SIGNED = "#cuda_tile.signedness<signed>"
BOTH = f"signedness_lhs = {SIGNED}, signedness_rhs = {SIGNED}"
OPS = pytest.mark.parametrize("op", ["mmaf", "mmai"])


def mma(
    op: str, a: str = "16x32", b: str = "32x16", c: str = "16x16", d: str | None = None, *, ta: str = "", tb: str = "",
    tc: str = "", td: str = "", attrs: str | None = None,
) -> str:  # fmt: skip
    """A product in generic form: shapes, then element types (f16 to f32, i8 to i32)."""
    ta = ta or ("f16" if op == "mmaf" else "i8")
    tb, tc = tb or ta, tc or ("f32" if op == "mmaf" else "i32")
    d, td = c if d is None else d, td or tc
    if attrs is None:
        attrs = BOTH if op == "mmai" else ""
    kinds = [
        f"tile<{shape}x{elem}>" if shape else f"tile<{elem}>"
        for shape, elem in ((a, ta), (b, tb), (c, tc), (d, td))
    ]
    names = [f"%{elem}_{shape}" if shape else f"%{elem}" for shape, elem in ((a, ta), (b, tb), (c, tc))]
    props = f" <{{{attrs}}}>" if attrs else ""
    return f'%r = "cuda_tile.{op}"({", ".join(names)}){props} : ({", ".join(kinds[:3])}) -> {kinds[3]}'


@rule("verify-mma-rank")
@OPS
@pytest.mark.parametrize("a", ["16", "", "2x2x16x32"])
def test_a_has_rank_2_or_3(op: str, a: str) -> None:
    refused(mma(op, a), RANK, op, real="failed to verify that all of {lhs, rhs, acc} have same rank")
    refused(mma(op, a, a, a), RANK, op, real="operands must be 2D or 3D tiles")
    accepted(mma(op))
    accepted(mma(op, "2x16x32", "2x32x16", "2x16x16"))


@rule("verify-mma-share-rank")
@OPS
def test_all_have_the_rank_of_a(op: str) -> None:
    refused(mma(op, "2x16x32"), SHARE, op, real="have same rank")
    refused(mma(op, b="2x32x16"), SHARE, op)
    refused(mma(op, c="2x16x16", d="16x16"), SHARE, op)
    refused(mma(op, d="2x16x16"), SHARE, op)
    refused(mma(op, d="16"), SHARE, op)


@rule("verify-mma-k")
@OPS
def test_k_agrees(op: str) -> None:
    refused(mma(op, b="16x16"), K, op, real="dim 1 of lhs (32) and dim 0 of rhs (16) must match")
    refused(
        mma(op, "2x16x32", "2x16x16", "2x16x16"),
        K,
        op,
        real="dim 2 of lhs (32) and dim 1 of rhs (16) must match",
    )
    accepted(mma(op, b="32x16"))


@rule("verify-mma-mn")
@OPS
def test_the_accumulator_is_m_by_n(op: str) -> None:
    refused(mma(op, c="32x16"), MN, op, real="dim 0 of lhs (16) and dim 0 of acc (32) must match")
    refused(mma(op, c="16x32"), MN, op, real="dim 1 of rhs (16) and dim 1 of acc (32) must match")
    refused(mma(op, "2x16x32", "2x32x16", "2x32x16"), MN, op)
    refused(mma(op, "2x16x32", "2x32x16", "2x16x32"), MN, op)
    accepted(mma(op, "16x32", "32x8", "16x8"))


@rule("verify-mma-mn")
@OPS
def test_the_batch_is_shared(op: str) -> None:
    """The document shares the batch dimension and has no text of its own for it: the one of M and N."""
    refused(
        mma(op, "2x16x32", "4x32x16", "2x16x16"),
        MN,
        op,
        real="dim 0 of lhs (2) and dim 0 of rhs (4) must match",
    )
    refused(
        mma(op, "2x16x32", "2x32x16", "4x16x16"),
        MN,
        op,
        real="dim 0 of lhs (2) and dim 0 of acc (4) must match",
    )
    accepted(mma(op, "2x16x32", "2x32x16", "2x16x16"))


@rule("verify-mma-acc-result-shape")
@OPS
def test_accumulator_and_result_have_one_shape(op: str) -> None:
    for d in ("16x32", "32x16"):
        refused(mma(op, d=d), SHAPES, op, real="failed to verify that all of {acc, result} have same type")
    refused(mma(op, "2x16x32", "2x32x16", "2x16x16", "4x16x16"), SHAPES, op)
    accepted(mma(op, d="16x16"))


@rule("verify-mmai-signedness")
@pytest.mark.parametrize("attrs", ["", f"signedness_lhs = {SIGNED}", f"signedness_rhs = {SIGNED}"])
def test_both_signs_are_said(attrs: str) -> None:
    """The message names operand A whichever is missing. Attributes have the released names; the documents'
    are aliases."""
    missing = "signedness_rhs" if attrs.startswith("signedness_lhs") else "signedness_lhs"
    refused(mma("mmai", attrs=attrs), SIGN, "mmai", text_only="in bytecode the attributes are fields",
            real=f"requires attribute '{missing}'")  # fmt: skip
    other = attrs.replace("_lhs", "_a").replace("_rhs", "_b")
    refused(mma("mmai", attrs=other), SIGN, "mmai", text_only="as above")
    accepted(mma("mmai", attrs=BOTH))
    accepted(mma("mmai", attrs=BOTH.replace("_lhs", "_a").replace("_rhs", "_b")))


@rule("verify-mmai-acc-i32")
@pytest.mark.parametrize("elem", ["i8", "i16", "i64", "f32"])
def test_integer_products_are_i32(elem: str) -> None:
    refused(
        mma("mmai", tc=elem),
        ACC,
        "mmai",
        real=f"operand #2 must be mmai acc/result tile type of i32 values, but got '!cuda_tile.tile<16x16x{elem}>'",
    )
    refused(
        mma("mmai", td=elem), ACC, "mmai", real="result #0 must be mmai acc/result tile type of i32 values"
    )
    refused(mma("mmai", tc=elem, td="i32"), ACC, "mmai")
    accepted(mma("mmai"))


@rule("verify-mmai-inputs")
@pytest.mark.parametrize(
    ("lhs", "rhs"),
    [
        ("i8", "i16"),
        ("i16", "i8"),
        ("i64", "i64"),
        ("i32", "i32"),
        ("i1", "i1"),
        ("f16", "f16"),
        ("i8", "f32"),
    ],
)
def test_integer_inputs_are_i8(lhs: str, rhs: str) -> None:
    wrong = 0 if lhs != "i8" else 1
    refused(
        mma("mmai", ta=lhs, tb=rhs),
        INPUTS,
        "mmai",
        real=f"operand #{wrong} must be mmai operand tile type of i8 values",
    )
    accepted(mma("mmai"))


LEGAL = {
    "f16": {"f16", "f32"}, "bf16": {"f32"}, "tf32": {"f32"}, "f32": {"f32"}, "f64": {"f64"},
    "f8E4M3FN": {"f16", "f32"}, "f8E5M2": {"f16", "f32"},
}  # fmt: skip


@rule("verify-mmaf-tuple")
@pytest.mark.parametrize(("elem", "acc"), list(itertools.product(LEGAL, ["f16", "f32", "f64", "bf16"])))
def test_pairs_of_input_and_accumulator(elem: str, acc: str) -> None:
    """The fixed table of the released verifier."""
    if acc in LEGAL[elem]:
        accepted(mma("mmaf", ta=elem, tc=acc))
    elif acc == "bf16":
        refused(
            mma("mmaf", ta=elem, tc=acc),
            PAIR,
            "mmaf",
            real="operand #2 must be mmaf acc/result tile type of f16 or f32 or f64 values",
        )
    else:
        refused(
            mma("mmaf", ta=elem, tc=acc),
            PAIR,
            "mmaf",
            real=f"Input type '{elem}' expects accumulator/result type to be one of {{",
        )


@rule("verify-mmaf-tuple")
def test_inputs_share_a_float_type() -> None:
    refused(
        mma("mmaf", ta="f16", tb="bf16"),
        PAIR,
        "mmaf",
        real="failed to verify that all of {lhs, rhs} have the same element type",
    )
    refused(mma("mmaf", ta="i8"), PAIR, "mmaf", real="operand #0 must be mmaf operand tile type of")
    refused(mma("mmaf", ta="f16", tb="i8"), PAIR, "mmaf", real="operand #1 must be mmaf operand tile type of")
    accepted(mma("mmaf"))


@rule("verify-mmaf-acc-result-type")
def test_accumulator_and_result_have_one_type() -> None:
    refused(
        mma("mmaf", td="f16"),
        RESULT,
        "mmaf",
        real="failed to verify that all of {acc, result} have same type",
    )
    refused(mma("mmaf", tc="f16", td="f32"), RESULT, "mmaf")
    accepted(mma("mmaf", td="f32"))


@rule("verify-mma-order")
def test_matrix_checks_have_an_order() -> None:
    worst: dict[str, str] = {"ta": "i64", "tc": "i16", "td": "i16", "attrs": ""}
    only = {"text_only": "in bytecode the attributes are fields"}
    refused(mma("mmai", "16", "8x8", "32x32", "64x2", **worst), RANK, "mmai", **only)
    refused(mma("mmai", "16x32", "2x8x8", "32x32", "64x2", **worst), SHARE, "mmai", **only)
    refused(mma("mmai", "16x32", "8x8", "32x32", "64x2", **worst), K, "mmai", **only)
    refused(mma("mmai", "16x32", "32x8", "32x32", "64x2", **worst), MN, "mmai", **only)
    refused(mma("mmai", "16x32", "32x8", "16x8", "64x2", **worst), SHAPES, "mmai", **only)
    refused(mma("mmai", "16x32", "32x8", "16x8", "16x8", **worst), SIGN, "mmai", **only)
    worst["attrs"] = BOTH
    refused(mma("mmai", "16x32", "32x8", "16x8", "16x8", **worst), ACC, "mmai")
    refused(mma("mmai", "16x32", "32x8", "16x8", "16x8", ta="i64", attrs=BOTH), INPUTS, "mmai")
    refused(mma("mmai", "16x32", "16x16", attrs=""), K, "mmai", **only)
    floats = {"ta": "f64", "tc": "f16", "td": "f32"}
    refused(mma("mmaf", "16x32", "8x8", "16x8", **floats), K, "mmaf")
    refused(mma("mmaf", "16x32", "32x8", "16x8", "8x16", **floats), SHAPES, "mmaf")
    refused(mma("mmaf", "16x32", "32x8", "16x8", **floats), PAIR, "mmaf")
    refused(mma("mmaf", "16x32", "32x8", "16x8", ta="f16", tc="f16", td="f32"), RESULT, "mmaf")
