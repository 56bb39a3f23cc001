"""Random programs with views, products, control flow and atomics: machine code and interpreter agree bit for bit.

What once failed is kept in tests/data/fuzz_wide. Every third program runs under the race check.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

pytest.importorskip("numpy")
pytest.importorskip("ml_dtypes")
pytest.importorskip("hypothesis")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.corpus.fuzz_wide import differences, draw_program

KEPT = sorted((Path(__file__).parent / "data" / "fuzz_wide").glob("*.tileir"))


def check(text: str, gpu_name: str, **more: object) -> None:
    found = differences(text, gpu_name, **more)
    assert not found, "\n".join([*found, text])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("path", KEPT, ids=lambda p: p.stem)
@pytest.mark.parametrize("gpu_name", ["sm_75", "sm_90", "sm_120"])
def test_what_once_failed(path: Path, gpu_name: str) -> None:
    check(path.read_text(), gpu_name)


@pytest.mark.parametrize("seed", range(12))
def test_fixed_programs(seed: int) -> None:
    gpu_name = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")[seed % 5]
    check(draw_program(random.Random(seed).choice), gpu_name, check=seed % 3 == 0, seed=seed)


@pytest.mark.full
@pytest.mark.parametrize("gpu_name", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
@given(data=st.data())
@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_programs(gpu_name: str, data: st.DataObject) -> None:
    check(draw_program(lambda items: data.draw(st.sampled_from(list(items)))), gpu_name)
