# ruff: noqa: E501 - one line of text per case
"""Structured control flow: if, for, loop, and the ops that leave them."""

from __future__ import annotations

import pytest
from contract.kit import module
from contract.rules import rule
from contract.verify_kit import CAPABILITY, accepted, refused

TENSOR = "tensor_view<?x64xf32, strides=[64,1]>"
VIEW = f"partition_view<tile=(8x8), {TENSOR}>"
MAKE = (
    f"%tensor = cuda_tile.make_tensor_view %p, shape = [%i32, 64], strides = [64, 1] : tile<i32> -> {TENSOR}\n"
    f"%tiles = cuda_tile.make_partition_view %tensor : {VIEW}\n"
)
P = "%p: !cuda_tile.ptr<f32>"
I, F = "tile<i32>", "tile<f32>"
TYPES = "expected TileType for operand and terminator types but got: "


def branch(then: str | None, other: str | None = None, results: str = "()") -> str:
    """An if in generic form; a region that is None is not there."""
    regions = ["{}" if body is None else f"{{\n{body}\n}}" for body in (then, other)]
    name = "" if results == "()" else "%r = "
    return f'{name}"cuda_tile.if"(%i1) ({regions[0]}, {regions[1]}) : (tile<i1>) -> {results}'


def give(value: str = "", type: str = "") -> str:
    return f"cuda_tile.yield {value} : {type}" if value else "cuda_tile.yield"


@rule("verify-if-then")
def test_an_if_has_a_then_region() -> None:
    without = "in bytecode an if has its regions"
    refused(branch(None), "if requires a then-region", "if", text_only=without)
    refused(branch(None, give()), "if requires a then-region", "if", text_only=without)
    refused(branch(None, give("%f32", F), F), "if requires a then-region", "if", text_only=without)
    accepted(branch(give()))


@rule("verify-if-else")
def test_an_if_with_results_has_an_else_region() -> None:
    refused(branch(give("%f32", F), None, F), "if with results requires an else-region", "if",
            real="has non-empty return type, must define else branch", text_only="in bytecode an if has its regions")  # fmt: skip
    accepted(branch(give("%f32", F), give("%f32", F), F))
    accepted(branch(give()))


@rule("verify-if-no-results")
def test_an_if_without_results_needs_no_else_and_no_yield() -> None:
    accepted(branch(give()))
    accepted(branch(give(), give()))
    accepted("cuda_tile.if %i1 {\n}")
    accepted("cuda_tile.if %i1 {\n} else {\n}")
    # What is given to nobody is refused, as the released verifier does.
    refused(
        branch(give("%f32", F)),
        "does not return a value, but then branch yields '!cuda_tile.tile<f32>'",
        "if",
    )
    refused(
        branch(give(), give("%i32", I)),
        "does not return a value, but else branch yields '!cuda_tile.tile<i32>'",
        "if",
    )


@rule("verify-if-yields")
def test_both_regions_yield_the_results() -> None:
    """The words of the terminator rules."""
    wrong = f"{TYPES}!cuda_tile.tile<i32> vs !cuda_tile.tile<f32>"
    refused(
        branch(give("%f32", F), give("%i32", I), F),
        wrong,
        "if",
        real="else branch yields '!cuda_tile.tile<i32>' but op result type is",
    )
    refused(branch(give("%i32", I), give("%f32", F), F), wrong, "if", real="then branch yields")
    refused(
        branch(give("%f32_1", "tile<1xf32>"), give("%f32", F), F),
        f"{TYPES}!cuda_tile.tile<1xf32> vs !cuda_tile.tile<f32>",
        "if",
    )
    refused(branch(give("%f32, %f32", f"{F}, {F}"), give("%f32", F), F),
            "expect number of terminators operands (2) to match expected (1)", "if")  # fmt: skip
    refused(branch(give("%f32", F), give(), F), "expect number of terminators operands (0) to match expected (1)", "if",
            real="has return type of '!cuda_tile.tile<f32>' but else branch does not yield anything")  # fmt: skip
    # The then-region is first.
    refused(
        branch(give("%f64", "tile<f64>"), give("%i32", I), F),
        f"{TYPES}!cuda_tile.tile<f64> vs !cuda_tile.tile<f32>",
        "if",
    )
    accepted(branch(give("%f32", F), give("%f32", F), F))


@rule("verify-if-view", "verify-no-view-across-regions")
@pytest.mark.parametrize(
    ("value", "type", "word"), [("%tiles", VIEW, "tile view"), ("%tensor", TENSOR, "tensor_view")]
)
def test_an_if_gives_no_views(value: str, type: str, word: str) -> None:
    one = branch(give(value, type), give(value, type), f"!cuda_tile.{type}")
    refused(
        MAKE + one,
        "view-typed if results are not permitted",
        "if",
        args=P,
        real=f"result type 0 is a {word}, which is not supported",
    )
    # After the yields.
    refused(MAKE + branch(give(value, type), give("%f32", F), f"!cuda_tile.{type}"),
            f"{TYPES}!cuda_tile.tile<f32> vs !cuda_tile.{type}", "if", args=P)  # fmt: skip
    inside = "\n".join(line.replace("%t", "%u") for line in MAKE.splitlines()[:1])
    accepted(branch(f"{inside}\n{give()}"), args=P)


# ---- for


def loop_over(
    index: str = I, init: str = "%f32", carried: str = F, result: str = F, bounds: tuple[str, str, str] = ("i32", "i32", "i32"),
    given: str = "%a", body: str = "",
) -> str:  # fmt: skip
    """A for that carries one value, in generic form, right unless told otherwise."""
    values = ", ".join(f"%{b}" for b in bounds)
    kinds = ", ".join(f"tile<{b}>" for b in bounds)
    start = {"%f32": F, "%i32": I, "%tensor": f"!cuda_tile.{TENSOR}", "%tiles": f"!cuda_tile.{VIEW}", "": ""}[
        init
    ]
    more, tail = (f", {init}", f", {start}") if init else ("", "")
    args = f"%k: {index}" + (f", %a: {carried}" if carried else "")
    last = (
        f'"cuda_tile.continue"({given}) : ({carried}) -> ()' if given else '"cuda_tile.continue"() : () -> ()'
    )
    name = "%r = " if result != "()" else ""
    return f'{name}"cuda_tile.for"({values}{more}) ({{\n^bb0({args}):\n{body}{last}\n}}) : ({kinds}{tail}) -> {result}'


FOR_TYPES = "for induction, lower, upper, and step must share an integer type"
INIT = "for init values must match region iter-arg types"
RESULTS = "for result types must match region iter-arg types"


@rule("verify-for-types")
@pytest.mark.parametrize("bounds", [("i32", "i32", "i64"), ("i32", "i64", "i32"), ("i64", "i32", "i32")])
def test_bounds_and_step_have_one_type(bounds: tuple[str, str, str]) -> None:
    refused(
        loop_over(bounds=bounds),
        FOR_TYPES,
        "for",
        real="failed to verify that all of {lowerBound, upperBound, step} have same type",
    )
    accepted(loop_over())
    accepted(loop_over("tile<i64>", bounds=("i64", "i64", "i64")))


@rule("verify-for-types")
def test_the_induction_variable_has_it_too() -> None:
    for index in ("tile<i64>", F):
        refused(
            loop_over(index),
            FOR_TYPES,
            "for",
            real="expected induction variable to be same type as bounds and step: '!cuda_tile.tile<i32>'",
        )
    refused(loop_over(F, bounds=("f32", "f32", "f32")),
            "operand #0 must be 0D tile of i1 or i8 or i16 or i32 or i64 values, but got '!cuda_tile.tile<f32>'", "for")  # fmt: skip


@rule("verify-for-init")
def test_init_values_have_the_carried_types() -> None:
    refused(loop_over(carried=I, result=I), INIT, "for",
            real="init value 0 and region iter_value 0 have different type: '!cuda_tile.tile<f32>' != '!cuda_tile.tile<i32>'")  # fmt: skip
    refused(
        loop_over(init=""),
        INIT,
        "for",
        real="mismatch in number of region iterator values and loop iterator inits: 1 vs 0",
    )
    refused(loop_over(carried="", result="()", given=""), INIT, "for", real="inits: 0 vs 1")
    refused(loop_over(carried=I), INIT, "for")  # before the results
    accepted(loop_over())


@rule("verify-for-results")
def test_results_have_the_carried_types() -> None:
    refused(loop_over(result=I), RESULTS, "for", real="differ from those of the region iter_values")
    refused(loop_over(result="()"), RESULTS, "for")
    refused(loop_over(init="", carried="", given=""), RESULTS, "for")
    accepted(loop_over())
    accepted(loop_over(init="", carried="", result="()", given=""))


@rule("verify-for-view", "verify-no-view-across-regions")
@pytest.mark.parametrize(
    ("value", "type", "word"), [("%tiles", VIEW, "tile view"), ("%tensor", TENSOR, "tensor_view")]
)
def test_a_for_carries_no_views(value: str, type: str, word: str) -> None:
    kind = f"!cuda_tile.{type}"
    refused(MAKE + loop_over(init=value, carried=kind, result=kind), "view-typed for results are not permitted", "for", args=P,
            real=f"loop-carried value 0 is a {word}, which is not supported")  # fmt: skip
    refused(MAKE + loop_over(init=value, carried=kind, result=F), RESULTS, "for", args=P)  # checked last
    accepted(loop_over(), args=P)
    accepted(loop_over(body=MAKE), args=P)


@rule("verify-no-view-across-regions")
@pytest.mark.parametrize(
    ("value", "type", "word"), [("%tiles", VIEW, "tile view"), ("%tensor", TENSOR, "tensor_view")]
)
def test_a_loop_carries_and_gives_no_views(value: str, type: str, word: str) -> None:
    """The released verifier says so for loop too."""
    refused(MAKE + f'"cuda_tile.loop"({value}) ({{\n^bb0(%a: !cuda_tile.{type}):\n"cuda_tile.break"() : () -> ()\n}}) : (!cuda_tile.{type}) -> ()',
            f"loop-carried value 0 is a {word}, which is not supported", "loop", args=P)  # fmt: skip
    refused(MAKE + f'%r = "cuda_tile.loop"() ({{\n"cuda_tile.break"({value}) : (!cuda_tile.{type}) -> ()\n}}) : () -> !cuda_tile.{type}',
            f"result type 0 is a {word}, which is not supported", "loop", args=P)  # fmt: skip
    accepted(f"cuda_tile.loop {{\n{MAKE}cuda_tile.break\n}}", args=P)


def test_a_loop_s_init_values_have_the_carried_types() -> None:
    refused(f'"cuda_tile.loop"(%f32) ({{\n^bb0(%a: {I}):\n"cuda_tile.break"() : () -> ()\n}}) : ({F}) -> ()',
            "init value 0 and region iter_value 0 have different type: '!cuda_tile.tile<f32>' != '!cuda_tile.tile<i32>'", "loop")  # fmt: skip


# ---- break, continue

PARENT = "early-exit must be enclosed by a compatible loop or for"
CONTRACT = "early-exit operand types must match the enclosing region contract"


def ifs(depth: int, inner: str) -> str:
    return "cuda_tile.if %i1 {\n" * depth + inner + "\n" + "}\n" * depth


FOR = "cuda_tile.for %k in (%i32 to %i32, step %i32) : tile<i32> {\n"


@rule("verify-early-exit-parent")
@pytest.mark.parametrize("exit", ["break", "continue"])
def test_an_exit_has_a_loop_to_leave(exit: str) -> None:
    refused(
        ifs(1, f"cuda_tile.{exit}"),
        PARENT,
        exit,
        at=f"cuda_tile.{exit}",
        real="can only be nested within a ancestor chain of",
    )
    accepted(f"cuda_tile.loop {{\n{ifs(1, f'cuda_tile.{exit}')}\ncuda_tile.break\n}}")


@rule("verify-early-exit-parent")
def test_break_is_not_for_for() -> None:
    """break belongs to loop, continue to loop and for."""
    refused(
        FOR + ifs(1, "cuda_tile.break") + "}",
        PARENT,
        "break",
        at="cuda_tile.break",
        real="'cuda_tile.loop', 'cuda_tile.if'",
    )
    # Even inside of a loop: the nearest one counts.
    refused(
        f"cuda_tile.loop {{\n{FOR}{ifs(1, 'cuda_tile.break')}}}\ncuda_tile.continue\n}}",
        PARENT,
        "break",
        at="cuda_tile.break",
    )
    accepted(FOR + ifs(1, "cuda_tile.continue") + "}")


@rule("verify-early-exit-parent")
def test_an_exit_at_the_entry_s_level() -> None:
    for exit in ("break", "continue"):
        text = module(f"    cuda_tile.entry @k() {{\n      cuda_tile.{exit}\n    }}", CAPABILITY)
        refused("", PARENT, exit, whole=text, at=f"cuda_tile.{exit}", real="expects parent op to be one of")


@rule("verify-early-exit-operands")
def test_an_exit_carries_what_the_loop_wants() -> None:
    one = f"%r = cuda_tile.loop : {F} {{\n"
    refused(
        one + f"cuda_tile.break %i32 : {I}\n}}",
        CONTRACT,
        "break",
        real="operand types must correspond to the parent loop result types",
    )
    refused(one + "cuda_tile.break\n}", CONTRACT, "break", at="cuda_tile.break")
    refused("cuda_tile.loop {\n" + f"cuda_tile.break %f32 : {F}\n}}", CONTRACT, "break")
    accepted(one + f"cuda_tile.break %f32 : {F}\n}}")


@rule("verify-early-exit-operands")
def test_a_continue_carries_what_the_next_round_wants() -> None:
    """The last op of a body as well as one inside of an if."""
    for_one = f"%r = cuda_tile.for %k in (%i32 to %i32, step %i32) : {I} iter_values(%a = %f32) -> ({F}) {{\n"
    loop_one = f"cuda_tile.loop iter_values(%a = %f32) : {F} {{\n"
    refused(for_one + f"cuda_tile.continue %i32 : {I}\n}}", CONTRACT, "continue", at="cuda_tile.continue",
            real="`for` is missing a valid terminator. `continue` op should have operand types that match the parent loop return types")  # fmt: skip
    refused(loop_one + f"cuda_tile.continue %i32 : {I}\n}}", CONTRACT, "continue", at="cuda_tile.continue",
            real="`loop` is missing a valid terminator")  # fmt: skip
    last = f"cuda_tile.continue %a : {F}\n}}"
    refused(for_one + ifs(1, f"cuda_tile.continue %i32 : {I}") + last, CONTRACT, "continue", at="continue %i32",
            real="operand types must correspond to the parent loop iter_values")  # fmt: skip
    refused(
        loop_one + ifs(1, f"cuda_tile.continue %i32 : {I}") + last, CONTRACT, "continue", at="continue %i32"
    )
    accepted(for_one + ifs(1, f"cuda_tile.continue %a : {F}") + last)
    accepted(loop_one + ifs(1, "cuda_tile.break") + last)


@rule("verify-early-exit-nested-ifs")
@pytest.mark.parametrize("depth", [1, 3, 12])
def test_ifs_are_transparent(depth: int) -> None:
    accepted("cuda_tile.loop {\n" + ifs(depth, "cuda_tile.break") + "cuda_tile.continue\n}")
    accepted("cuda_tile.loop {\n" + ifs(depth, "cuda_tile.continue") + "cuda_tile.break\n}")
    accepted(FOR + ifs(depth, "cuda_tile.continue") + "}")
    refused(ifs(depth, "cuda_tile.break"), PARENT, "break", at="cuda_tile.break")
