"""Random programs on the CPU target: native code and interpreter agree bit for bit, also in what they print."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")
pytest.importorskip("llvmlite")
pytest.importorskip("hypothesis")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.corpus import fuzz, fuzz_effects, fuzz_pipeline, fuzz_wide

DRAW = {
    "plain": fuzz.draw_program,
    "wide": fuzz_wide.draw_program,
    "effects": fuzz_effects.draw_program,
    "pipeline": fuzz_pipeline.draw_program,
}


def check(kind: str, text: str) -> None:
    if kind == "plain":
        found = fuzz.differences(text, "cpu", "")
    elif kind == "wide":
        found = fuzz_wide.differences(text, "", "cpu")
    else:
        found = fuzz_effects.differences(text, "", "cpu")
    assert not found, "\n".join([*found, text])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", DRAW)
@pytest.mark.parametrize("seed", (1, 47, 60))
def test_fixed_programs(kind: str, seed: int) -> None:
    check(kind, DRAW[kind](random.Random(seed).choice))


@pytest.mark.full
@pytest.mark.parametrize("kind", DRAW)
@given(data=st.data())
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_programs(kind: str, data: st.DataObject) -> None:
    check(kind, DRAW[kind](lambda items: data.draw(st.sampled_from(list(items)))))
