"""Random programs about effects, rare types and loops over memory: machine code and interpreter agree bit for bit, also
in what they print. What once failed is kept in tests/data/fuzz_effects. Every third program runs under the race check.
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

from tests.corpus import fuzz_effects, fuzz_pipeline
from tests.corpus.fuzz_effects import differences

KEPT = sorted((Path(__file__).parent / "data" / "fuzz_effects").glob("*.tileir"))
DRAW = {"effects": fuzz_effects.draw_program, "pipeline": fuzz_pipeline.draw_program}
TARGETS = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")


def check(text: str, gpu_name: str, **more: object) -> None:
    found = differences(text, gpu_name, **more)
    assert not found, "\n".join([*found, text])


@pytest.mark.parametrize("path", KEPT, ids=lambda p: p.stem)
@pytest.mark.parametrize("seed", range(3))
def test_what_once_failed(path: Path, seed: int) -> None:
    check(path.read_text(), TARGETS[seed], check=True, seed=seed)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", DRAW)
@pytest.mark.parametrize("seed", range(10))
def test_fixed_programs(kind: str, seed: int) -> None:
    text = DRAW[kind](random.Random(seed).choice)
    check(text, TARGETS[seed % len(TARGETS)], check=seed % 3 == 0, seed=seed)


@pytest.mark.full
@pytest.mark.parametrize("kind", DRAW)
@pytest.mark.parametrize("gpu_name", TARGETS)
@given(data=st.data())
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_programs(kind: str, gpu_name: str, data: st.DataObject) -> None:
    check(DRAW[kind](lambda items: data.draw(st.sampled_from(list(items)))), gpu_name)
