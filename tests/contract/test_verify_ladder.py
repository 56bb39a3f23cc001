# ruff: noqa: E501 - one line of text per case
"""The verifier as a whole: order, one diagnostic per op, what lowering never sees, and what the command says."""

from __future__ import annotations

from pathlib import Path

import pytest
from contract.kit import command, compile_, entry, messages, module
from contract.rules import rule
from contract.verify_kit import (
    GENERIC_LINE,
    accepted,
    as_bytecode,
    kernel,
    position,
    refused,
    said_by_command,
)

import tileiras
from tileiras.compiler.dialects.cuda_tile import verify
from tileiras.diag import CompileError

RESHAPE = "%r = cuda_tile.reshape %f32_8x8 : tile<8x8xf32> -> tile<8x16xf32>"
MESSAGE = "reshape element-count mismatch: source has 64 elements, result has 128"


@rule("verify-generic-first")
def test_counts_and_types_come_before_the_domain() -> None:
    approx = "rounding_mode = #cuda_tile.rounding<approx>"
    t = "tile<8xf32>"
    refused(f'%r = "cuda_tile.addf"(%f32_8) <{{{approx}}}> : ({t}) -> {t}', "expected 2 operands, but found 1", "addf",
            text_only="in bytecode the number of operands is the op's")  # fmt: skip
    refused(f'%r = "cuda_tile.addf"(%i32_8, %i32_8) <{{{approx}}}> : (tile<8xi32>, tile<8xi32>) -> tile<8xi32>',
            "operand #0 must be tile of f16 or bf16 or f32 or f64 values, but got '!cuda_tile.tile<8xi32>'", "addf")  # fmt: skip
    refused(f'"cuda_tile.addf"(%f32_8, %f32_8) <{{{approx}}}> : ({t}, {t}) -> ()', "expected 1 results, but found 0", "addf",
            text_only="as above")  # fmt: skip
    refused(
        f'%r = "cuda_tile.addf"(%f32_8, %f32_8) <{{{approx}}}> : ({t}, {t}) -> {t}',
        "rounding mode not allowed outside divf",
        "addf",
    )


@rule("verify-generic-first")
def test_attributes_and_regions_come_before_the_domain() -> None:
    t = "tile<8xf32>"
    refused(
        f'%r = "cuda_tile.addf"(%f32_8, %f32_8) : ({t}, {t}) -> {t}',
        "requires attribute 'rounding_mode'",
        "addf",
        text_only="a field",
    )
    refused(
        '%r = "cuda_tile.exti"(%i32_8) : (tile<8xi32>) -> tile<8xi32>',
        "requires attribute 'signedness'",
        "exti",
        text_only="a field",
    )
    body = "{\n^bb0(%a: tile<f32>):\ncuda_tile.yield\n}"
    refused(f'%r = "cuda_tile.reduce"(%f32_8) <{{dim = 9 : i32, identities = [0.0 : f32]}}> ({body}, {body}) : ({t}) -> tile<f32>',
            "requires 1 region, but got 2", "reduce", text_only="in bytecode the number of regions is the op's")  # fmt: skip
    refused(f'%r = "cuda_tile.reduce"(%f32_8) <{{dim = 9 : i32}}> ({body}) : ({t}) -> tile<f32>', "requires attribute 'identities'",
            "reduce", text_only="a field")  # fmt: skip


@rule("verify-first-failure-stops")
def test_one_op_has_one_diagnostic() -> None:
    refused('%r = "cuda_tile.mmaf"(%f16_16, %f16_8x8, %f64_4) : (tile<16xf16>, tile<8x8xf16>, tile<4xf64>) -> tile<2xf32>',
            "mma operand A must be rank-2 or rank-3", "mmaf")  # fmt: skip
    # Everything that two ops can have wrong at once: the first op, its first fault.
    first = "%q = cuda_tile.divf %f16_8, %f16_8 rounding<nearest_int_to_zero> flush_to_zero : tile<8xf16>\n"
    refused(first + RESHAPE, "flush-to-zero is only legal for f32 element type", "divf")


@rule("verify-first-failure-stops")
def test_every_entry_reports_its_own_first_failure() -> None:
    body = "      %a = cuda_tile.constant <i32: 1> : tile<8xi32>\n      %b = cuda_tile.exti %a signed : tile<8xi32> -> tile<8xi16>"
    text = module(entry(body, name="a") + "\n" + entry(body, name="b"))
    code, found, _ = compile_(text)
    exti = "exti requires the result width to be strictly greater than the input width"
    assert code == 5 and messages(found) == [exti, exti, GENERIC_LINE]
    assert [emitted.loc.line for emitted in found[:2] if emitted.loc] == [5, 10]


FAMILIES = {
    "float arithmetic": ("addf", "subf", "mulf", "divf", "fma"),
    "conversion": ("exti", "trunci", "ftof", "itof", "ftoi", "bitcast"),
    "token memory": (
        "load_ptr_tko",
        "store_ptr_tko",
        "load_view_tko",
        "store_view_tko",
        "atomic_rmw_tko",
        "atomic_cas_tko",
    ),
    "control flow": ("if", "for", "loop", "break", "continue"),
    "view and shape": (
        "make_tensor_view",
        "make_partition_view",
        "reshape",
        "extract",
        "cat",
        "permute",
        "iota",
    ),
    "aggregate": ("reduce", "scan"),
    "MMA": ("mmaf", "mmai"),
    "assumption": ("assume",),
}
OUTSIDE = (
    "addi",
    "subi",
    "muli",
    "maxi",
    "mini",
    "andi",
    "ori",
    "xori",
    "shli",
    "shri",
    "absf",
    "negf",
    "cos",
    "log2",
    "cmpi",
    "cmpf",
)


@rule("verify-family-dispatch")
@pytest.mark.parametrize("family", FAMILIES)
def test_every_member_of_a_family_has_a_domain_check(family: str) -> None:
    assert all(name in verify.RULES.checks for name in FAMILIES[family]), family


@rule("verify-family-dispatch")
def test_an_op_of_no_family_passes() -> None:
    """The released verifier has checks for a few more ops; these have none."""
    assert not set(OUTSIDE) & set(verify.RULES.checks)
    accepted("%r = cuda_tile.addi %i32_8, %i32_8 : tile<8xi32>\n%s = cuda_tile.xori %r, %i32_8 : tile<8xi32>\n"
             "%t = cuda_tile.maxi %s, %r signed : tile<8xi32>\n%u = cuda_tile.absf %f32_8 : tile<8xf32>")  # fmt: skip
    # Their generic checks hold all the same.
    refused(
        '%r = "cuda_tile.xori"(%i32_8) : (tile<8xi32>) -> tile<8xi32>',
        "expected 2 operands, but found 1",
        "xori",
        text_only="a count",
    )


@rule("verify-before-lowering")
def test_lowering_never_sees_a_broken_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    from tileiras.compiler.lower import cuda_tile_to_tileaa

    started: list[int] = []
    real = cuda_tile_to_tileaa.lower_module

    def spy(*args: object, **options: object) -> object:
        started.append(1)
        return real(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(cuda_tile_to_tileaa, "lower_module", spy)
    bad = kernel(RESHAPE)
    for source, gpu in ((bad, None), (as_bytecode(bad), "sm_90")):
        code, found, program = compile_(source, gpu)
        assert code == 5 and program is None and messages(found) == [MESSAGE, GENERIC_LINE]
    assert not started
    good = bad.replace("-> tile<8x16xf32>", "-> tile<4x16xf32>")
    for source, gpu in ((good, None), (as_bytecode(good), "sm_90")):
        assert compile_(source, gpu)[:2] == (0, [])
    assert len(started) == 2


# ---- the command: exit code 5, the location in front, the generic line at the end, nothing written

BROKEN = {
    "arith": ("%r = cuda_tile.addf %f16_8, %f16_8 flush_to_zero : tile<8xf16>", "addf", "flush-to-zero is only legal for f32 element type"),
    "memory": ("%r, %t = cuda_tile.load_ptr_tko relaxed %ptr_f32_8 : tile<8xptr<f32>> -> tile<8xf32>, token", "load_ptr_tko",
               "non-weak memory ordering requires an explicit scope"),
    "shapes": (RESHAPE, "reshape", MESSAGE),
    "control": ("cuda_tile.loop {\n  cuda_tile.break %f32 : tile<f32>\n}", "break",
                "early-exit operand types must match the enclosing region contract"),
    "aggregate": ('%r = "cuda_tile.reduce"(%f32_8) <{dim = 1 : i32, identities = [0.0 : f32]}> ({\n^bb0(%a: tile<f32>, %b: tile<f32>):\n'
                  "cuda_tile.yield %a : tile<f32>\n}) : (tile<8xf32>) -> tile<f32>", "reduce", "reduction dimension is out of range"),
    "mma": ('%r = "cuda_tile.mmaf"(%f16_16x32, %f16_16x16, %f32_16x16) : (tile<16x32xf16>, tile<16x16xf16>, tile<16x16xf32>) -> tile<16x16xf32>',
            "mmaf", "mma contracting dimension mismatch"),
    "assume": ("%r = cuda_tile.assume div_by<3>, %i32_8 : tile<8xi32>", "assume", "'cuda_tile.div_by' divisor must be a power of 2"),
}  # fmt: skip


@rule("verify-first-failure-stops", "verify-before-lowering")
@pytest.mark.parametrize("family", BROKEN)
def test_the_command(family: str, tmp_path: Path) -> None:
    body, op, message = BROKEN[family]
    text = kernel(body)
    (tmp_path / "k.cubin").write_bytes(b"stale")
    done = command(tmp_path, text)
    name = f"cuda_tile.{op}"
    line, column = position(text, f'"{name}"' if f'"{name}"' in text else f"{name} ")
    said = said_by_command(done.err)
    assert done.status == 5 and done.out == ""
    assert len(said) == 2 and said[0].endswith(f"k.tileir:{line}:{column}: error: '{name}' op {message}"), (
        done.err
    )
    assert done.lines()[-1] == f"error: {GENERIC_LINE}"
    assert not (tmp_path / "k.cubin").exists()


def test_the_command_on_bytecode(tmp_path: Path) -> None:
    done = command(tmp_path, as_bytecode(kernel(RESHAPE)), "--gpu-name=sm_90")
    assert done.status == 5
    said = said_by_command(done.err)
    assert len(said) == 2 and said[0].endswith(f"error: 'cuda_tile.reshape' op {MESSAGE}"), done.err
    assert said[1] == f"error: {GENERIC_LINE}"
    assert done.lines()[-1] == said[1] and not (tmp_path / "k.cubin").exists()


def test_the_python_function() -> None:
    with pytest.raises(CompileError) as caught:
        tileiras.compile(kernel(RESHAPE))
    assert caught.value.exit_code == 5 and [d.text for d in caught.value.diagnostics] == [
        MESSAGE,
        GENERIC_LINE,
    ]
