"""Hints that nothing reads: silent by default, a warning each on request, an error per op when asked for."""

from __future__ import annotations

import pytest
from op_zoo import module_text

from tileiras.compiler.dialects.cuda_tile.hints import check_hints
from tileiras.compiler.ir.verify import verify
from tileiras.compiler.source import load_text
from tileiras.diag import ERROR, WARNING, Sink


@pytest.mark.parametrize(
    ("hints", "said"),
    [
        ("sm_100a = {num_cta_in_cga = 2}", "unknown hint key sm_100a"),
        ("sm_100 = {num_qqq = 1}", "num_qqq is not known hint for current Operation"),
        ('sm_100 = {num_cta_in_cga = "a"}', "integer value expected for sm_100.num_cta_in_cga"),
        ("sm_100 = {num_cta_in_cga = 7}", "expected power-of-two ≤ 16 for sm_100.num_cta_in_cga"),
        ("sm_100 = {occupancy = 64}", "integer value in the range [1, 32] is expected for sm_100.occupancy"),
        (
            "default = {num_worker_warps_per_cta = 64}",
            "expected power-of-two ≤ 32 for default.num_worker_warps_per_cta",
        ),
        ("sm_90 = {num_cta_in_cga = 2, occupancy = 4}, default = {num_worker_warps_per_cta = 8}", ""),
    ],
)
def test_entry_hints(hints: str, said: str) -> None:
    sink = Sink()
    module = load_text(module_text("", hints=f" optimization_hints = <{hints}>"), sink, "t.mlir")
    assert verify(module, sink) and not sink.emitted
    assert check_hints(module, sink) == (not said)
    assert [(d.severity, d.text) for d in sink.emitted] == ([(WARNING, said)] if said else [])
    strict = Sink()
    check_hints(module, strict, errors=True)
    assert [d.text for d in strict.emitted if d.severity == ERROR] == (
        ["Optimization hints verification failed"] if said else []
    )


def test_hints_of_loads() -> None:
    sink = Sink()
    line = "%r, %s = load_ptr_tko weak %ps optimization_hints = <sm_90 = {{{}}}> : tile<4xptr<f32>> -> tile<4xf32>, token"
    for hint, fine in (("latency = 3", True), ("latency = 11", False), ("allow_tma = true", False)):
        assert check_hints(load_text(module_text(line.format(hint)), sink, "t"), sink) == fine
