# ruff: noqa: E501 - one line of text per case
"""Reductions and scans: what they take and give, and what their bodies may hold."""

from __future__ import annotations

import pytest
from contract.rules import rule
from contract.verify_kit import accepted, refused

T = "tile<f32>"
YIELD = f"cuda_tile.yield %a : {T}"
ADD = f"%s = cuda_tile.addf %a, %b : {T}\n"
BOTH = pytest.mark.parametrize("op", ["reduce", "scan"])


def aggregate(
    op: str, *, inputs: str = "%f32_8x16", types: str = "tile<8x16xf32>", dim: str = "1", identities: str = "0.0 : f32",
    args: str = f"%a: {T}, %b: {T}", body: str = YIELD, results: str | None = None,
) -> str:  # fmt: skip
    """A reduction or scan in generic form, right unless told otherwise."""
    if results is None:
        results = "tile<8xf32>" if op == "reduce" else types
    attrs = f"dim = {dim} : i32, identities = [{identities}]" + (", reverse = false" if op == "scan" else "")
    name = "%r" if results != "()" else ""
    if "," in results:
        name = "%r, %q"
        results = f"({results})"
    equals = f"{name} = " if name else ""
    return f'{equals}"cuda_tile.{op}"({inputs}) <{{{attrs}}}> ({{\n^bb0({args}):\n{body}\n}}) : ({types}) -> {results}'


PAIR = {"inputs": "%f32_8x16, %i32_8x16", "types": "tile<8x16xf32>, tile<8x16xi32>", "identities": "0.0 : f32, 0 : i32",
        "args": f"%a: {T}, %b: {T}, %c: tile<i32>, %d: tile<i32>", "body": f"cuda_tile.yield %a, %c : {T}, tile<i32>"}  # fmt: skip


def pair(op: str, **changes: str) -> str:
    results = "tile<8xf32>, tile<8xi32>" if op == "reduce" else "tile<8x16xf32>, tile<8x16xi32>"
    return aggregate(op, **{**PAIR, "results": results, **changes})


@rule("verify-region-non-empty")
@BOTH
def test_a_body_has_an_op(op: str) -> None:
    refused(
        aggregate(op, body=""),
        "expect non-empty block",
        op,
        text_only="bytecode spells no empty block",
        real="it is empty",
    )
    own = {"reduce": "dim=1 identities=[0.0 : f32] : tile<8x16xf32> -> tile<8xf32>",
           "scan": "dim=1 reverse=false identities=[0.0 : f32] : tile<8x16xf32> -> tile<8x16xf32>"}[op]  # fmt: skip
    head = f"%r = cuda_tile.{op} %f32_8x16 {own}\n(%a: {T}, %b: {T}) "
    refused(
        head + "{\n}",
        "expect non-empty block",
        op,
        text_only="as above",
        real="operands (0) to match number of operands (1)",
    )
    refused(
        f"%r = cuda_tile.{op} %f32_8x16 {own}\n() {{}}",
        "expect non-empty block",
        op,
        text_only="as above",
        real="region with 1 blocks",
    )
    accepted(f"{head}{{\n{YIELD}\n}}")
    accepted(aggregate(op))


@rule("verify-region-non-empty")
def test_other_regions_have_an_op() -> None:
    i = "tile<i32>"
    refused(
        '"cuda_tile.loop"() ({\n^bb0:\n}) : () -> ()', "expect non-empty block", "loop", text_only="as above"
    )
    refused(f'"cuda_tile.for"(%i32, %i32, %i32) ({{\n^bb0(%k: {i}):\n}}) : ({i}, {i}, {i}) -> ()', "expect non-empty block", "for",
            text_only="as above")  # fmt: skip
    refused(
        '"cuda_tile.if"(%i1) ({\n^bb0:\n}, {}) : (tile<i1>) -> ()',
        "expect non-empty block",
        "if",
        text_only="as above",
    )
    accepted('"cuda_tile.if"(%i1) ({\n^bb0:\ncuda_tile.yield\n}, {}) : (tile<i1>) -> ()')


@rule("verify-region-tile-args")
@BOTH
def test_arguments_are_tiles(op: str) -> None:
    """Plain `f32` is short for the rank-0 tile where the body's own form has it; in MLIR's
    generic form it is what it says."""
    prefix = "expected TileType for block arguments but got types: "
    refused(aggregate(op, args="%a: f32, %b: f32", body='"cuda_tile.yield"(%a) : (f32) -> ()'), f"{prefix}'f32', 'f32'", op,
            text_only="bytecode has scalars only inside of tiles", real="but got: 'f32'")  # fmt: skip
    token = "!cuda_tile.token"
    refused(aggregate(op, args=f"%a: {T}, %b: {token}"), f"{prefix}'!cuda_tile.tile<f32>', '{token}'", op)
    refused(aggregate(op, args=f"%b: {token}, %a: {T}"), f"{prefix}'{token}', '!cuda_tile.tile<f32>'", op)
    accepted(aggregate(op))


@rule("verify-region-rank0-args")
@BOTH
def test_arguments_have_rank_0(op: str) -> None:
    refused(aggregate(op, args=f"%a: {T}, %b: tile<8xf32>"), "expect 0-rank tile type at index: 1", op,
            real="but got: '!cuda_tile.tile<8xf32>'")  # fmt: skip
    refused(
        aggregate(op, args="%c: tile<1xf32>, %d: tile<8xf32>", body=f"cuda_tile.yield %f32 : {T}"),
        "expect 0-rank tile type at index: 0",
        op,
    )
    refused(
        pair(op, args=f"%a: {T}, %b: {T}, %c: tile<i32>, %d: tile<4xi32>"),
        "expect 0-rank tile type at index: 3",
        op,
    )
    accepted(aggregate(op))
    accepted(pair(op))


@rule("verify-region-terminator-count")
@BOTH
def test_a_body_yields_as_many_values_as_there_are_inputs(op: str) -> None:
    refused(aggregate(op, body=f"cuda_tile.yield %a, %b : {T}, {T}"),
            "expect number of terminators operands (2) to match expected (1)", op, real="number of operands (1)")  # fmt: skip
    refused(
        pair(op, body=f"cuda_tile.yield %a : {T}"),
        "expect number of terminators operands (1) to match expected (2)",
        op,
    )
    accepted(aggregate(op))


@rule("verify-agg-yields")
@BOTH
def test_a_body_yields_something(op: str) -> None:
    refused(
        aggregate(op, body="cuda_tile.yield"),
        "expect number of terminators operands (0) to match expected (1)",
        op,
    )
    accepted(aggregate(op))


@rule("verify-region-terminator-type", "verify-agg-yields")
@BOTH
def test_what_is_yielded_has_the_argument_s_type(op: str) -> None:
    """Element types are compared, as the released verifier does, not ranks; value i belongs to
    the argument pair i."""
    refused(aggregate(op, body="cuda_tile.yield %i32 : tile<i32>"),
            "expected TileType for operand and terminator types but got: !cuda_tile.tile<i32> vs !cuda_tile.tile<f32>", op,
            real="expect same type for operand at index: 0 and terminator argument at index: 0 but got: 'f32' and 'i32'")  # fmt: skip
    refused(pair(op, body=f"cuda_tile.yield %c, %a : tile<i32>, {T}"),
            "expected TileType for operand and terminator types but got: !cuda_tile.tile<i32> vs !cuda_tile.tile<f32>", op)  # fmt: skip
    refused(pair(op, body=f"cuda_tile.yield %a, %b : {T}, {T}"),
            "expected TileType for operand and terminator types but got: !cuda_tile.tile<f32> vs !cuda_tile.tile<i32>", op)  # fmt: skip
    accepted(pair(op))


@rule("verify-region-order")
@BOTH
def test_region_checks_have_an_order(op: str) -> None:
    two = '"cuda_tile.yield"(%a, %a) : (f32, f32) -> ()'
    refused(aggregate(op, args="%a: f32, %b: tile<8xf32>", body=two),
            "expected TileType for block arguments but got types: 'f32', '!cuda_tile.tile<8xf32>'", op, text_only="scalars")  # fmt: skip
    # Argument by argument: the rank of the first comes before the type of the second.
    refused(
        aggregate(op, args="%b: tile<8xf32>, %a: f32", body=two),
        "expect 0-rank tile type at index: 0",
        op,
        text_only="scalars",
    )
    refused(aggregate(op, args=f"%a: {T}, %b: tile<8xf32>", body=f"cuda_tile.yield %a, %a : {T}, {T}"),
            "expect 0-rank tile type at index: 1", op)  # fmt: skip
    refused(aggregate(op, body=f"cuda_tile.yield %i32, %a : tile<i32>, {T}"),
            "expect number of terminators operands (2) to match expected (1)", op)  # fmt: skip


STORE = "%t = cuda_tile.store_ptr_tko weak %ptr_f32, %a : tile<ptr<f32>>, tile<f32> -> token\n"
LOAD = "%v, %t = cuda_tile.load_ptr_tko weak %ptr_f32 : tile<ptr<f32>> -> tile<f32>, token\n"
RMW = "%v, %t = cuda_tile.atomic_rmw_tko relaxed device %ptr_f32, addf, %a : tile<ptr<f32>>, tile<f32> -> tile<f32>, token\n"
PRINT = '%t = cuda_tile.print_tko "x" -> token\n'
IN_IF = "cuda_tile.if %i1 {\n" + STORE + "cuda_tile.yield\n}\n"


@rule("verify-region-pure")
@BOTH
@pytest.mark.parametrize(
    "effect", [STORE, LOAD, RMW, PRINT, IN_IF], ids=["store", "load", "rmw", "print", "nested"]
)
def test_a_body_has_no_effects(op: str, effect: str) -> None:
    refused(aggregate(op, body=effect + YIELD), "only pure operations allowed", op, at=f'"cuda_tile.{op}"',
            real=f"only memory-effect-free operations are allowed inside 'cuda_tile.{op}'")  # fmt: skip
    accepted(aggregate(op, body=ADD + f"cuda_tile.yield %s : {T}"))


@rule("verify-region-pure")
@BOTH
def test_ops_without_effects_are_allowed(op: str) -> None:
    """Free of effects is enough, divi and if are."""
    choice = f"%s = cuda_tile.if %i1 -> ({T}) {{\ncuda_tile.yield %a : {T}\n}} else {{\ncuda_tile.yield %b : {T}\n}}\n"
    accepted(aggregate(op, body=choice + f"cuda_tile.yield %s : {T}"))
    divide = "%s = cuda_tile.divi %c, %d signed : tile<i32>\n"
    accepted(aggregate(op, inputs="%i32_8x16", types="tile<8x16xi32>", identities="0 : i32", args="%c: tile<i32>, %d: tile<i32>",
                       body=divide + "cuda_tile.yield %s : tile<i32>",
                       results="tile<8xi32>" if op == "reduce" else "tile<8x16xi32>"))  # fmt: skip


@rule("verify-region-invalid-op")
@BOTH
@pytest.mark.parametrize("exit", ["return", "break", "continue"])
def test_a_body_ends_in_a_yield(op: str, exit: str) -> None:
    """The reduction reports it: no exit leaves a body, whatever is around it."""
    body = f"cuda_tile.{exit}"
    text = aggregate(op, body=body)
    refused(text, f"invalid op: cuda_tile.{exit}", op, at=f'"cuda_tile.{op}"')
    accepted(aggregate(op, body=ADD + f"cuda_tile.yield %s : {T}"))


@rule("verify-region-pure-before-kind")
@BOTH
def test_purity_is_checked_before_the_kind(op: str) -> None:
    refused(
        aggregate(op, body=STORE + "cuda_tile.return"),
        "only pure operations allowed",
        op,
        at=f'"cuda_tile.{op}"',
    )
    # Side-effecting and illegal at once: an if that holds a store and returns.
    both = "cuda_tile.if %i1 {\n" + STORE + "cuda_tile.return\n}\n"
    refused(aggregate(op, body=both + YIELD), "only pure operations allowed", op, at=f'"cuda_tile.{op}"')


# ---- operands, results, attributes


@rule("verify-agg-inputs")
@BOTH
def test_there_is_an_input(op: str) -> None:
    refused(aggregate(op, inputs="", types="", identities="", args="", body="cuda_tile.yield", results="()"),
            "reduce/scan requires at least one input", op, real="expect at least one operand")  # fmt: skip
    accepted(aggregate(op))


@rule("verify-agg-results")
@BOTH
def test_one_result_per_input(op: str) -> None:
    one = "tile<8xf32>" if op == "reduce" else "tile<8x16xf32>"
    refused(aggregate(op, **PAIR, results=one), "reduce/scan must produce one result per input", op,
            real="expect same number of operands and results")  # fmt: skip
    refused(aggregate(op, results=f"{one}, {one}"), "reduce/scan must produce one result per input", op)
    accepted(pair(op))


@rule("verify-agg-dim")
@BOTH
def test_the_dimension_is_one_of_the_input_s(op: str) -> None:
    for dim in ("2", "7"):
        refused(
            aggregate(op, dim=dim),
            "reduction dimension is out of range",
            op,
            real=f"dimension ({dim}) is out of bound [0, 2)",
        )
    refused(
        aggregate(op, dim="-1"), "reduction dimension is out of range", op, real="whose value is non-negative"
    )
    refused(
        aggregate(op, inputs="%f32", types=T, dim="0", results=T), "reduction dimension is out of range", op
    )
    accepted(aggregate(op))
    accepted(aggregate(op, dim="0", results="tile<16xf32>" if op == "reduce" else None))


@rule("verify-agg-identity")
@BOTH
@pytest.mark.parametrize("identity", ["0 : i32", "0.0 : f16", "0.0 : f64", "true"])
def test_identities_have_the_input_s_element_type(op: str, identity: str) -> None:
    refused(aggregate(op, identities=identity), "identity element type must match input element type", op,
            real="expect same type for operand at index: 0 and identity at index: 0 but got: 'f32' and '")  # fmt: skip
    accepted(aggregate(op))


@rule("verify-agg-identity")
@BOTH
def test_one_identity_per_input(op: str) -> None:
    """The released verifier wants as many identities as inputs; the contract is silent."""
    refused(
        aggregate(op, identities=""),
        "expect identities to match the number of operands but got: 1 operands and 0 identities",
        op,
    )
    refused(
        pair(op, identities="0 : i32, 0.0 : f32"), "identity element type must match input element type", op
    )


@rule("verify-agg-body-args")
@BOTH
@pytest.mark.parametrize(("args", "count"), [(f"%a: {T}", 1), (f"%a: {T}, %b: {T}, %c: {T}", 3)])
def test_two_arguments_per_input(op: str, args: str, count: int) -> None:
    refused(aggregate(op, args=args), "reduce/scan body must take two rank-zero arguments per input", op,
            real=f"expect 2 block arguments but got: {count}")  # fmt: skip
    refused(
        pair(op, args=f"%a: {T}, %c: tile<i32>"),
        "reduce/scan body must take two rank-zero arguments per input",
        op,
    )
    accepted(aggregate(op))


@rule("verify-agg-order")
@BOTH
def test_aggregate_checks_have_an_order(op: str) -> None:
    one = "tile<8xf32>" if op == "reduce" else "tile<8x16xf32>"
    wrong = {
        "dim": "5",
        "identities": "0 : i32",
        "args": "%a: tile<8xf32>",
        "body": STORE.replace("%a", "%f32") + "cuda_tile.yield",
    }
    at = f'"cuda_tile.{op}"'
    refused(
        aggregate(op, inputs="", types="", results=one, **wrong),
        "reduce/scan requires at least one input",
        op,
        at=at,
    )
    refused(
        aggregate(op, results=f"{one}, {one}", **wrong),
        "reduce/scan must produce one result per input",
        op,
        at=at,
    )
    refused(aggregate(op, **wrong), "reduction dimension is out of range", op, at=at)
    wrong.pop("dim")
    refused(aggregate(op, **wrong), "identity element type must match input element type", op, at=at)
    wrong.pop("identities")
    refused(aggregate(op, **wrong), "reduce/scan body must take two rank-zero arguments per input", op, at=at)
    wrong["args"] = f"%a: {T}, %b: tile<8xf32>"
    refused(aggregate(op, **wrong), "expect 0-rank tile type at index: 1", op, at=at)
    wrong.pop("args")
    refused(aggregate(op, **wrong), "only pure operations allowed", op, at=at)
    wrong["body"] = "cuda_tile.yield"
    refused(
        aggregate(op, **wrong), "expect number of terminators operands (0) to match expected (1)", op, at=at
    )


@BOTH
def test_argument_and_result_types(op: str) -> None:
    """Rules that only the released verifier has."""
    refused(aggregate(op, args=f"%a: {T}, %b: tile<i32>"),
            "expect same element type for block argument at index: 0 and 1 but got: 'f32' and 'i32'", op)  # fmt: skip
    refused(aggregate(op, args="%b: tile<i32>, %c: tile<i32>", body="cuda_tile.yield %b : tile<i32>"),
            "expect same type for operand at index: 0 and block argument at index: 0 but got: 'f32' and 'i32'", op)  # fmt: skip
    wrong = "tile<16xf32>" if op == "reduce" else "tile<16x8xf32>"
    said = (
        "inferred type(s) '!cuda_tile.tile<8xf32>' are incompatible with return type(s) of operation '!cuda_tile.tile<16xf32>'"
        if op == "reduce"
        else "expect same type for operand at index: 0 and result at index: 0"
    )
    refused(aggregate(op, results=wrong), said, op)
