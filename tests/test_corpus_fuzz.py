"""Random programs: machine code and interpreter agree bit for bit. What once failed is a test of its own
in unit/test_compiler_regressions.py."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")
pytest.importorskip("hypothesis")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.corpus.fuzz import differences, draw_program


def check(text: str, gpu_name: str) -> None:
    found = differences(text, "emulator", gpu_name)
    assert not found, "\n".join([*found, text])


@pytest.mark.parametrize("seed", range(12))
def test_fixed_programs(seed: int) -> None:
    check(draw_program(random.Random(seed).choice), "sm_80" if seed % 2 else "sm_90")


@pytest.mark.full
@pytest.mark.parametrize("gpu_name", ["sm_75", "sm_80", "sm_90", "sm_120"])
@given(data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_programs(gpu_name: str, data: st.DataObject) -> None:
    check(draw_program(lambda items: data.draw(st.sampled_from(list(items)))), gpu_name)
