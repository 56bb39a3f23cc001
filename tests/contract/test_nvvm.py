"""Layer 4: parameter space, launches, intrinsics against the target."""

from __future__ import annotations

from typing import Any

import pytest
from contract.kit import compile_, entry, messages, stub_ptxas
from contract.kit import module as tile_module
from contract.rules import rule
from contract.tileas import run

from tileiras.compiler import pipeline
from tileiras.compiler.nvvm.sizer import Tag, align_of, describe, size_of, total_bytes
from tileiras.compiler.source import load
from tileiras.compiler.target import sm as target
from tileiras.diag import Sink

HEAVY = "{f64, i8, [10000 x i32]}"
VERIFIER = "NVVMIRVerifier"


def code(
    body: str = "    ret",
    params: str = "",
    target: str = "sm_80",
    attrs: str = " attributes {nvvm.kernel}",
    more: str = "",
) -> str:
    return f"nvvm.module {target} {{\n  func @big_kernel({params}) block 128, 1, 1{attrs} {{\n{body}\n  }}\n{more}}}\n"


def pointers(count: int, extra: str = "") -> str:
    return ", ".join(['u64 "ptr<f32>"'] * count) + extra


def verify(text: str, target: str = "sm_80") -> Any:
    return run(text, VERIFIER, target=target)


def kernel(count: int, sm: int) -> str:
    args = ", ".join(f"%a{i}: !cuda_tile.ptr<f32>" for i in range(count))
    return tile_module(
        entry(args=args, name="big_kernel"), attrs=f"nv_tileaa.compute_capability = {sm} : i32"
    )


def overflow(need: int, limit: int, name: str = "big_kernel") -> str:
    return f"Formal parameter space overflowed ({need} bytes required, max {limit} bytes allowed) in function {name}"


@rule("nvvm-param-overflow", "nvvm-param-heavy-size", "nvvm-param-limit-sm75", "nvvm-param-limit-sm80")
@pytest.mark.parametrize(
    ("target", "limit"), [("sm_75", 1024), ("sm_80", 32760), ("sm_90", 32760), ("sm_120", 32760)]
)
def test_the_struct_of_the_documents(target: str, limit: int) -> None:
    done = verify(code(params=f'b8 "{HEAVY}"', target=target), target)
    assert done.texts == [overflow(40016, limit)] and not done.ok
    assert done.emitted[0].word == 0x103
    assert verify(code(params=pointers(1), target=target), target).ok


@rule("nvvm-param-strict", "nvvm-param-limit-sm75")
def test_equal_to_the_limit_passes() -> None:
    assert verify(code(params=pointers(128), target="sm_75"), "sm_75").ok
    over = verify(code(params=pointers(128, ', u8 "i8"'), target="sm_75"), "sm_75")
    assert over.texts == [overflow(1025, 1024)]


@rule("nvvm-param-limit-sm80")
def test_the_limit_from_sm_80_on() -> None:
    # 32764 bytes compile on real hardware, so they pass; the message keeps the documents' figure
    assert verify(code(params=pointers(4095))).ok
    assert verify(code(params=pointers(4095, ', u32 "i32"'))).ok
    assert verify(code(params=pointers(4095, ', u32 "i32", u8 "i8"'))).texts == [overflow(32765, 32760)]
    assert verify(code(params=pointers(4096))).texts == [overflow(32768, 32760)]


@rule("nvvm-param-sum")
def test_parameters_are_aligned_in_order() -> None:
    assert total_bytes(["i8", "i64"]) == 16 and total_bytes(["i64", "i8"]) == 9
    assert total_bytes(["i8", "i16", "i8", "i32"]) == 12 and total_bytes([]) == 0


@rule("nvvm-param-sum")
def test_padding_between_parameters_counts() -> None:
    """64 pairs of i8 and i64 fill 1024 bytes, their sizes alone only 576; one byte more is too much on sm_75."""

    def pairs(more: str) -> str:
        args = ", ".join(f"%a{i}: tile<i8>, %b{i}: tile<i64>" for i in range(64)) + more
        return tile_module(
            entry(args=args, name="big_kernel"), attrs="nv_tileaa.compute_capability = 75 : i32"
        )

    assert compile_(pairs(""))[:2] == (0, [])
    assert messages(compile_(pairs(", %c: tile<i8>"))[1])[0] == overflow(1025, 1024)


@rule("nvvm-param-heavy-size", "nvvm-sizer-21-tags")
def test_aggregates() -> None:
    assert size_of(describe(HEAVY)) == 40016 and align_of(describe(HEAVY)) == 8
    assert len(Tag) == 21
    sizes = {
        "i1": 1, "i4": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "i128": 16, "f16": 2, "bf16": 2, "tf32": 4, "f32": 4, "f64": 8,
        "f8E4M3FN": 1, "f8E5M2": 1, "f8E8M0FNU": 1, "f4E2M1FN": 1, "ptr<f32>": 8, "<4 x f32>": 16, "<3 x f32>": 16,
        "[3 x i16]": 6, "{i8, i32}": 8, "{i8, {i8, i64}, i8}": 32, "[2 x {i64, i8}]": 32, "view<2>": 24, "{}": 0,
    }  # fmt: skip
    assert {text: size_of(describe(text)) for text in sizes} == sizes
    assert {describe(text).tag for text in sizes} == set(Tag), "every tag is told apart"
    for text, size in sizes.items():  # the verifier counts with them: a filling that fits, and one byte more
        for before, lead in (("", 0), ('u8 "i8", ', align_of(describe(text)))):
            rest = 1024 - lead - size
            fits = f'{before}b8 "{text}", b8 "[{rest} x i8]"'
            over = f'{before}b8 "{text}", b8 "[{rest + 1} x i8]"'
            assert verify(code(params=fits, target="sm_75"), "sm_75").texts == [], text
            assert verify(code(params=over, target="sm_75"), "sm_75").texts == [overflow(1025, 1024)], text
    for text in ("<64 x f32>", "[256 x i8]", "{i64, [31 x i64]}", "view<31>"):  # four are full
        several = [", ".join([f'b8 "{text}"'] * count) for count in (4, 5)]
        said = [verify(code(params=params, target="sm_75"), "sm_75").texts for params in several]
        assert said == [[], [overflow(1280, 1024)]], text
    aligned = {"i128": 16, "<4 x f32>": 16, "<3 x f32>": 16, "<2 x f16>": 4, "view<2>": 8, "[3 x i16]": 2,
               "{i8, {i8, i64}, i8}": 8, "[2 x {i8, <2 x i32>}]": 8, "tf32": 4, "bf16": 2, "ptr<i8>": 8, "{}": 1}  # fmt: skip
    assert {text: align_of(describe(text)) for text in aligned} == aligned
    for bad in ("i7", "{i8", "[x i32]", "i32 i32", "ptr<"):
        with pytest.raises(ValueError):
            describe(bad)


@rule(
    "nvvm-param-target-dependent",
    "nvvm-param-overflow",
    "nvvm-param-strict",
    "nvvm-param-limit-sm75",
    "nvvm-param-limit-sm80",
)
@pytest.mark.parametrize(("count", "sm", "limit"), [(129, 75, 1024), (4096, 80, 32760)])
def test_only_layer_4_knows_the_ceiling(count: int, sm: int, limit: int) -> None:
    status, found, _ = compile_(kernel(count, sm))
    assert status == 5 and messages(found) == [
        overflow(8 * count, limit),
        "failed to compile Tile IR program",
    ]
    assert compile_(kernel(count - 1, sm))[0] == 0
    # The same kernel on the next target up, and with layer 4 left out: nobody else minds.
    if sm == 75:
        assert compile_(kernel(count, 80))[:2] == (0, [])
    name, sink = f"sm_{sm}", Sink()
    pipeline.compile_module(load(kernel(count, sm), sink), target.find(name), sink, skip=(VERIFIER,))
    assert sink.emitted == []
    text = code(params=pointers(count), target=name)
    third = run(text, "ModuleVerifier", target=name)
    assert third.ok and third.texts == []
    assert run(text, VERIFIER, target=name).texts == [overflow(8 * count, limit)]


@rule("exit-fm-param-overflow", "diag-worked-example-arguments")
def test_the_worked_example() -> None:
    from tileiras.diag import fragments

    _, found, _ = compile_(kernel(129, 75))
    body = found[0]
    assert body.word == 0x103 and body.args == [
        "Formal parameter space overflowed (", 1032, " bytes required, max ", 1024, " bytes allowed) in function ", "big_kernel",
    ]  # fmt: skip
    assert fragments(body.diag.text, dict(body.facts)) == body.args and len(body.args) == 6, (
        "the fifth spills to the heap"
    )


LAUNCH = """\
    %d1 = {source}
    launch child, %d1
    ret"""
CHILD = '  func @child(u64 "ptr<f32>") block 32, 1, 1 {attrs}{{\n    ret\n  }}\n'
GLOBAL = "ld.param.u64 [big_kernel_param_0]"


def launch(source: str = GLOBAL, attrs: str = "attributes {nvvm.kernel} ") -> Any:
    return verify(code(LAUNCH.format(source=source), pointers(1), more=CHILD.format(attrs=attrs)))


@rule("nvvm-launch-not-kernel", "exit-fm-launch-target", "layer-catch-launch-target")
def test_a_plain_function_cannot_be_launched() -> None:
    done = launch(attrs="device ")
    assert done.texts == ["a function that is not __global__ cannot be launched"] and not done.ok
    assert "child" in done.emitted[0].notes[0].text
    assert launch().ok
    missing = verify(code(LAUNCH.format(source=GLOBAL), pointers(1)))
    assert "which is not defined" in missing.texts[0]


@rule("nvvm-launch-arg-addrspace", "layer-catch-launch-arg-addrspace")
@pytest.mark.parametrize(
    ("source", "space"),
    [("mov.u64 $stack", "local"), ("mov.u64 $smem", "shared"), ("cvta.local.u64 %d2", "local")],
)
def test_launch_arguments_in_private_memory(source: str, space: str) -> None:
    done = launch(source)
    assert (
        not done.ok
        and f"argument 0 of the launch of child in function big_kernel points to {space} memory"
        in done.texts[0]
    )
    far = LAUNCH.format(source="mov.u64 $stack").replace(
        "launch child, %d1", "%d3 = add.s64 %d1, 8\n    launch child, %d3"
    )
    assert (
        "local"
        in verify(code(far, pointers(1), more=CHILD.format(attrs="attributes {nvvm.kernel} "))).texts[0]
    )
    assert launch("cvta.to.global.u64 %d2").ok and launch().ok


@rule("nvvm-intrinsic-sm", "layer-catch-intrinsic-too-new")
@pytest.mark.parametrize(
    ("opcode", "bad", "good"),
    [
        ("tcgen05.wait::ld.sync.aligned", "sm_90", "sm_100"),
        ("tcgen05.wait::ld.sync.aligned", "sm_120", "sm_103"),
        ("cp.async.bulk.commit_group", "sm_80", "sm_90"),
        ("cp.async.wait_all", "sm_75", "sm_80"),
        ("wgmma.fence.sync.aligned", "sm_100", "sm_90"),
    ],
)
def test_instructions_the_target_does_not_have(opcode: str, bad: str, good: str) -> None:
    text = f"    {opcode}\n    ret"
    done = verify(code(text, target=bad), bad)
    assert not done.ok and opcode in done.texts[0] and bad in done.texts[0] and "big_kernel" in done.texts[0]
    assert verify(code(text, target=good), good).ok
    unknown = verify(code("    frobnicate.u32 %r1\n    ret"))
    assert "frobnicate.u32" in unknown.texts[0]


def test_a_failing_kernel_reaches_no_ptxas(tmp_path: Any) -> None:
    called = tmp_path / "called"
    tool = stub_ptxas(tmp_path, f"touch {called}; exit 1")
    assert compile_(kernel(129, 75), emit="cubin", ptxas=str(tool))[0] == 5
    assert not called.exists()
