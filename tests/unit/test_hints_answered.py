"""Hints of the bytecode are followed, or answered by a remark with value and reason; without --remarks nothing is said."""

from __future__ import annotations

import pytest
from op_zoo import VIEW, module_text

from tileiras.compiler import pipeline
from tileiras.compiler.source import load_text
from tileiras.compiler.target import sm
from tileiras.diag import Sink

LINE = (
    f"%r, %s = load_view_tko weak %pv[%n, %z] optimization_hints = <sm_90 = {{HINT}}> : "
    f"{VIEW}, tile<i32> -> tile<4x8xf32>, token"
)


def compiled(text: str, remarks: dict[str, str] | None) -> tuple[str, list[str]]:
    """PTX and what was said."""
    sink = Sink()
    stages = pipeline.compile_module(load_text(text, sink, "k.mlir"), sm.find("sm_90"), sink, remarks=remarks)
    return stages.ptx, [e.text for e in sink.emitted]


@pytest.mark.parametrize(
    ("hints", "said"),
    [
        ("sm_90 = {num_cta_in_cga = 2}", ["num_cta_in_cga = 2"]),
        ("default = {num_cta_in_cga = 4}", ["num_cta_in_cga = 4"]),
        ("sm_90 = {num_cta_in_cga = 1}, default = {num_cta_in_cga = 4}", []),
        ("sm_80 = {num_cta_in_cga = 2}", []),
        ("sm_90 = {num_worker_warps_per_cta = 8, occupancy = 2}", []),
    ],
)
def test_hints_of_an_entry(hints: str, said: list[str]) -> None:
    text = module_text("", hints=f" optimization_hints = <{hints}>")
    ptx, found = compiled(text, {"missed": "all"})
    assert len(found) == len(said) and all(s in f and " is not used: " in f for s, f in zip(said, found)), (
        found
    )
    assert compiled(text, None) == (ptx, []), "the same code, and not a word"
    assert compiled(text, {"missed": "tensorcore"}) == (ptx, [])
    assert f".reqntid {256 if 'worker' in hints else 128}, 1, 1" in ptx


@pytest.mark.parametrize(
    ("hint", "count"), [("allow_tma = true", 1), ("allow_tma = false", 0), ("latency = 3", 0)]
)
def test_a_wish_for_tensor_maps_is_answered_at_the_access(hint: str, count: int) -> None:
    text = module_text(LINE.replace("HINT", hint))
    ptx, found = compiled(text, {"missed": "all"})
    assert sum("allow_tma = true is not used" in f for f in found) == count
    assert compiled(text, None) == (ptx, [])


@pytest.mark.parametrize("gpu_name", ["sm_90", "sm_90a"])
def test_hints_of_a_gpu_are_those_of_its_spellings(gpu_name: str) -> None:
    """The hint of the plain name holds for `sm_90a`, and one of that name goes before it."""

    def threads(hints: str) -> str:
        sink = Sink()
        text = module_text("", hints=f" optimization_hints = <{hints}>")
        ptx = pipeline.compile_module(load_text(text, sink, "k.mlir"), sm.find(gpu_name), sink).ptx
        return ptx.split(".reqntid ")[1].split(",")[0]

    eight, two = (f"{{num_worker_warps_per_cta = {warps}}}" for warps in (8, 2))
    assert threads(f"sm_90 = {eight}, default = {two}") == "256"
    assert threads(f"default = {eight}") == "256"
    assert threads(f"sm_100 = {eight}, default = {two}") == "64"


@pytest.mark.parametrize(("warps", "answered"), [(4, False), (8, False), (3, True), (12, True)])
def test_a_number_of_warps_that_no_block_has_is_answered(warps: int, answered: bool) -> None:
    text = module_text("", hints=f" optimization_hints = <sm_90 = {{num_worker_warps_per_cta = {warps}}}>")
    ptx, found = compiled(text, {"missed": "all"})
    assert found == [
        f"hint num_worker_warps_per_cta = {warps} is not used: a block has one of (1, 2, 4, 8, 16, 32) warps"
    ] * int(answered)
    assert compiled(text, None) == (ptx, [])


@pytest.mark.parametrize(
    ("hint", "said"),
    [
        ("occupancy = 1", None),
        ("occupancy = 32", None),
        ("occupancy = 0", "an SM is asked for 1 to 32 blocks"),
        ("occupancy = 33", "an SM is asked for 1 to 32 blocks"),
        ("occupancy = -1", "an SM is asked for 1 to 32 blocks"),
        ('occupancy = "x"', "it is no integer"),
        ("occupancy = true", "it is no integer"),
        ('num_cta_in_cga = "x"', "it is no integer"),
        ('num_worker_warps_per_cta = "x"', "it is no integer"),
    ],
)
def test_a_value_that_no_hint_has_is_answered(hint: str, said: str | None) -> None:
    text = module_text("", hints=f" optimization_hints = <sm_90 = {{{hint}}}>")
    ptx, found = compiled(text, {"missed": "all"})
    value = hint.replace('"', "")
    assert found == ([] if said is None else [f"hint {value} is not used: {said}"])
    assert compiled(text, None) == (ptx, [])
